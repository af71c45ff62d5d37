/* event_args: args of events as columns of a table, for the questions events and rows. */
#ifndef TG_EVENT_ARGS_H
#define TG_EVENT_ARGS_H

#include "analyze/analyze.h"

enum { TG__MOST_EXTRAS = 64 };
struct tg__extra {
  uint32_t key; /* string id; TG_NONE: no event of the trace has it */
  enum tg_type type;
  bool is_mixed;  /* several kinds of value: all shown as their JSON text */
  bool is_absent; /* no event of the table can have it */
};
/* Where the events of a schema have the keys: the first field of args, else of the event itself. */
struct tg__key_places {
  const struct tg__schema *schema;
  bool is_known;
  uint8_t found, missing;
  uint16_t field[TG__MOST_EXTRAS];  /* rising */
  uint8_t key[TG__MOST_EXTRAS];     /* of each of those fields, by place in items */
  uint8_t without[TG__MOST_EXTRAS]; /* keys that are nowhere */
};
struct tg__extras {
  struct tg__extra items[TG__MOST_EXTRAS];
  size_t count;
  struct tg__key_places recent[16]; /* of the schemas met last */
};
/* Adds a column for each of the keys, joined by comma, of a type that holds the values of all these events. */
enum tg_err tg__add_extras(const struct tg__columns *t, const char *keys, const uint32_t *args, uint32_t count,
                           struct tg__extras *extras, struct tg_table *out, struct tg_error *e);
/* The cells of one event, which are the last of its row; after the last event, tg__end_extras. */
void tg__put_extras(const struct tg__columns *t, uint32_t args, struct tg__extras *extras, struct tg_table *out);
void tg__end_extras(const struct tg__extras *extras, struct tg_table *out);

#endif
