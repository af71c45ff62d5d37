/* event_args: args of events as columns of a table, for the questions events and rows. */
#ifndef TG_EVENT_ARGS_H
#define TG_EVENT_ARGS_H

#include "analyze/analyze.h"

enum { TG__MOST_EXTRAS = 64 };
struct tg__extra {
  uint32_t key; /* string id; TG_NONE: no event of the trace has it */
  enum tg_type type;
  bool is_mixed; /* several kinds of value: all shown as their JSON text */
};
struct tg__key_places { /* where the events of a schema have the keys: the first field of args, else of the event itself */
  const struct tg__schema *schema;
  int32_t at[TG__MOST_EXTRAS]; /* -1 = nowhere */
};
struct tg__extras {
  struct tg__extra items[TG__MOST_EXTRAS];
  size_t count;
  struct tg__key_places recent[16]; /* of the schemas met last */
};
/* Adds a column for each of the keys, joined by comma, of a type that holds the values of all these events. */
enum tg_err tg__add_extras(const struct tg_trace *t, const char *keys, const uint32_t *args, uint32_t count, struct tg__extras *extras,
                           struct tg_table *out, struct tg_error *e);
void tg__put_extras(const struct tg_trace *t, uint32_t args, struct tg__extras *extras, struct tg_table *out); /* the cells of one event */

#endif
