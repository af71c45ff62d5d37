/* sequences.h: patterns of kernels below operators of a name, for the question sequences and for exports that mark them. */
#ifndef TG_SEQUENCES_H
#define TG_SEQUENCES_H

#include "analyze/hta_rows.h"
#include "analyze/sequence.h"

struct tg__pattern {
  uint32_t rank, name, sequence, first; /* name: string id of the operator; first: slice of its earliest call */
  int64_t count, kernel_ns, op_ns;
};
struct tg__pattern_member { uint32_t slice, pattern; }; /* an operator of a pattern, or a kernel of one of them */
struct tg__patterns {
  const struct tg_trace *t;
  const char *op; /* "" = every operator */
  size_t min_length;
  bool any;           /* something of that name was found */
  uint8_t *is_wanted; /* by string id: 0 not looked at, 1 no, 2 yes */
  uint32_t *root;     /* exact rules: by slice, the outermost operator of that name around it, or itself; TG_NONE */
  uint32_t *pattern;  /* exact rules: by slice that is such an operator, its pattern; TG_NONE: fewer than min_length kernels */
  struct tg__sequences sequences;
  struct tg__pattern *items;
  size_t count, cap;
  bool keeps_members; /* set before tg__patterns_find: fill the next */
  struct tg__pattern_member *members;
  size_t member_count, member_cap;
};
/* TG_OK or TG_MEMORY; free it either way. hta NULL: the exact rules. */
enum tg_err tg__patterns_find(struct tg__patterns *p, const struct tg_trace *t, const struct tg__ask *a, const char *op, size_t min_length,
                              const struct tg__hta *hta);
void tg__patterns_free(struct tg__patterns *p);
/* The outermost operator of that name a piece of device work belongs to. TG_NONE. */
uint32_t tg__pattern_root(const struct tg__patterns *p, uint32_t device_slice);
bool tg__patterns_wants(struct tg__patterns *p, uint32_t string_id);
void tg__pattern_text(const struct tg__patterns *p, const struct tg__pattern *item, struct tg__out *out); /* op|kernel|kernel… */

/* sequences_hta.c: the device work of one rank by HTA's rules; owners are rows. false on no memory. */
bool tg__patterns_work_of_hta(struct tg__patterns *p, const struct tg__hta *h, uint32_t rank, struct tg__launched_list *work);

#endif
