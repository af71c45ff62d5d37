/* answering: the steps of an answer that answering.c and its neighbours share; private to the folder. */
#ifndef TG_ANSWERING_H
#define TG_ANSWERING_H

#include "analyze/analyze.h"

/* order.c: bring the rows into the order of `keys` ("name", "name asc", "name desc", "-name", several joined by
 * comma). */
enum tg_err tg__sort_table(struct tg_table *t, const char *keys, struct tg_error *e);

/* order.c: the column called [name, name+len), or an error that names the nearest one. `what` begins the sentence. */
enum tg_err tg__find_column(const struct tg_table *t, const char *what, const char *name, size_t len, size_t *column,
                            struct tg_error *e);

/* ask.c: what rank=, track= and step= choose, into *a. For steps the columns that the question needs are loaded. */
bool tg__ask_is_all(const char *value); /* an argument that chooses nothing */
enum tg_err tg__ask_parse_rank(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e);
enum tg_err tg__ask_parse_track(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e);
enum tg_err tg__ask_parse_steps(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e);
/* Of one rank by its number, as what it lacks another may have; else "the trace". */
enum { TG__RANK_LABEL_BYTES = 40 };
const char *tg__rank_label(const struct tg__columns *t, uint32_t rank, char buf[TG__RANK_LABEL_BYTES]);

/* answering.c: where=, sort= and limit= in this order, whatever that of the arguments. NULL or "": none. */
enum tg_err tg__choose_rows(struct tg_table *t, const char *where, const char *sort, size_t limit, struct tg_error *e);

/* needs.c: TG_NO_DATA when the trace, or the rank asked for, lacks what the question is about; who: "the trace", or
 * what is asked. */
enum tg_err tg__check_needs(const struct tg__columns *t, const struct tg__ask *a, const char *who, struct tg_error *e);

/* select_columns.c: the argument columns=, for questions with as many rows as events. Before the answer: what neither
 * it nor where= nor sort= names is left out. Afterwards: only the columns it names are left, in its order. Without it
 * nothing changes. */
enum tg_err tg__select_columns(const struct tg__ask *a, struct tg_table *t, struct tg_error *e);
enum tg_err tg__keep_selected_columns(const struct tg__ask *a, struct tg_table *t, struct tg_error *e);

#endif
