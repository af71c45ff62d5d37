/* join: answers about one rank each become the one about all of them, as questions.def says. */
#ifndef TG_JOIN_H
#define TG_JOIN_H

#include "analyze/analyze.h"

/* ---- notes of single ranks (joins.c), for the functions FOLDED of questions.def --------------- */

typedef bool tg__note_is_fn(const char *note);
size_t tg__rank_join_notes(const struct tg__rank_join *j, tg__note_is_fn *is); /* how many different ones */
void tg__rank_join_drop_notes(struct tg__rank_join *j, tg__note_is_fn *is);

/* ---- folding (fold.c) ------------------------------------------------------------------------ */

struct tg__fold;
/* Rules of its question for its columns; NULL on no memory. */
struct tg__fold *tg__fold_new(const struct tg__question *q, const struct tg_table *first);
void tg__fold_free(struct tg__fold *f); /* NULL is fine */
/* Rows of `from` into `to`, which has no other rows; false on no memory. */
bool tg__fold_rows(struct tg__fold *f, struct tg_table *to, const struct tg_table *from);
/* What follows from the sums, when all are in: to be called once before the rows are sorted, and once more after. */
void tg__fold_finish(const struct tg__fold *f, struct tg_table *to);
void tg__fold_running(const struct tg__fold *f, struct tg_table *to);

#endif
