/* call_names: what torch's own tables call the events of a trace. The overload is split off the operator
 * ("aten::add.Tensor"), steps share one name ("ProfilerStep*"), and a few helper operators are not shown at all. */
#ifndef TG_CALL_NAMES_H
#define TG_CALL_NAMES_H

#include "analyze/host/frames.h"

enum { TG__HIDDEN_NAMES = 6 };
struct tg__call_names {
  struct tg__paths texts;    /* labels and their texts */
  uint32_t *base, *overload; /* by string id, of operators: label + 1, TG_NONE = has none; 0 = not looked at yet */
  uint32_t hidden[TG__HIDDEN_NAMES]; /* labels */
  uint32_t step;                     /* label of ProfilerStep* */
  struct tg__schema_mask async;      /* events that say they ended on another thread */
  struct tg__schema_mask given;      /* events that state their overload */
};
/* false on no memory; close it either way. */
bool tg__call_names_open(struct tg__call_names *n, const struct tg__columns *t);
void tg__call_names_close(struct tg__call_names *n);
uint32_t tg__call_name(struct tg__call_names *n, uint32_t slice);     /* label; equal names, equal labels */
uint32_t tg__call_overload(struct tg__call_names *n, uint32_t slice); /* label, TG_NONE */
/* It may overlap anything: it has neither parent nor child. */
bool tg__call_is_async(const struct tg__call_names *n, uint32_t slice);
bool tg__call_is_hidden(const struct tg__call_names *n, uint32_t name);
static inline struct tg__str tg__call_text(const struct tg__call_names *n, uint32_t label) {
  return tg__paths_text(&n->texts, label);
}

#endif
