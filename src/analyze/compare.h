/* Two traces held against each other. */
#ifndef TG_COMPARE_H
#define TG_COMPARE_H

#include "analyze/question.h"

/* diff.c: two traces held against each other; arguments and columns stand in diff.def. The notes of the table begin
 * with the headline. A side may be a folder with ranks that are read one after the other. */
typedef enum tg_err tg__file_visitor(void *ctx, struct tg__columns *t, struct tg_error *e);
struct tg__diff_access {
  const struct tg__catalog *catalog;
  enum tg_err (*each)(struct tg_trace *folder, tg__file_visitor *visit, void *ctx, struct tg_error *e); /* its files */
  enum tg_err (*ask)(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t arg_count,
                     struct tg_table **out, struct tg_error *e);
};
struct tg__diff_input {        /* a side */
  struct tg__columns *columns; /* of a folder, what is known of its ranks without their events */
  struct tg_trace *trace;      /* what `each` and `ask` take */
  bool is_folder;              /* the ranks are in files */
};
enum tg_err tg__diff_run(const struct tg__diff_input *a, const struct tg__diff_input *b,
                         const struct tg__diff_access *access, const struct tg_arg *args, size_t arg_count,
                         struct tg_table **out, struct tg_error *e);
const struct tg__argument_info *tg__diff_argument(size_t k); /* NULL past the end */
/* diff_fail.c: does  step.p50 > +5%  hold for a table of tg__diff_run? When it does, e->text says for which row. */
enum tg_err tg__diff_fails(const struct tg_table *diff, const char *expression, bool *fails, struct tg_error *e);

#endif
