/* compat: answers by the rules of other tools. compat.def lists them, the rooms below hold them: hta and plugin. */
#ifndef TG_COMPAT_H
#define TG_COMPAT_H

#include "analyze/analyze.h"

/* What goes into tg__ask.policy: of the rules asked for; NULL where they have none, and where there are none such. */
const void *tg__rules_policy(const struct tg__ask *a);
/* Answers by the rules asked for: by the question's own function, or by the one that compat.def names. TG_USAGE when
 * there are no such rules. */
enum tg_err tg__rules_answer(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e);

/* Adds up the events of one side of a comparison by name (diff/diff_totals.h). TG_OK or TG_MEMORY. */
struct tg__diff_totals;
typedef enum tg_err tg__diff_count(struct tg__diff_totals *w);
/* *count: by the rules of that name, as it is for "exact". TG_USAGE when there are no such rules. */
enum tg_err tg__diff_rules(const char *rules, tg__diff_count **count, struct tg_error *e);

/* Policies: what each leaves to the rules stands in the header of its question. */
extern const struct tg__op_kernels_rules tg__op_kernels_hta; /* launch/op_kernels.h */
extern const struct tg__device_rules tg__device_hta;         /* device/device_rows.h */
extern const struct tg__tensor_rules tg__tensor_plugin;      /* device/tensor_cores.h */
extern const struct tg__crit_rules tg__crit_hta;             /* critical/critical.h */

#define RULES(question, argument, value, function, policy) tg__question_fn function;
#define DIFF_RULES(value, function) tg__diff_count function;
#include "analyze/compat/compat.def"

#endif
