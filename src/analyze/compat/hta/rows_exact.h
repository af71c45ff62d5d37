/* rows_exact.h: what the files behind the question rows share where its rules are the exact ones; private to them. */
#ifndef TG_ROWS_EXACT_H
#define TG_ROWS_EXACT_H

#include "analyze/compat/hta/rows.h"

struct tg__exact {
  const struct tg__columns *t;
  struct tg_table *out;
  const struct tg__rows *rows; /* what is asked for */
  const struct tg__hta *hta;   /* which slices are rows, and their ids */
  const uint32_t *tracks;
  int64_t zero_ns;
  uint32_t rank;
  /* by row: those that are shown in file order; and its ordinal among all events of the file */
  uint32_t *slice, *index;
  size_t count, shown;  /* rows of the rank that are looked at; how many of them the table gets */
  uint32_t *kept;       /* which of them: of one side; NULL: the first ones */
  int64_t *correlation; /* by row, -1 = none; with the links, NULL unless wanted */
  uint32_t *link;       /* by row: the partner, TG_NONE */
  bool *is_gpu;
};

static inline size_t tg__exact_row(const struct tg__exact *x, size_t i) { return x->kept ? x->kept[i] : i; }

/* rows_links.c: the partner of each row that is shown, the last of the file on the other side with its correlation.
 * Which correlations the rows that are shown have, a bit each: of those far apart some share one. Most calls
 * launched nothing that is shown, and what is looked up once a row had better be small. */
struct tg__wanted {
  uint64_t *bits; /* NULL: every correlation is */
  uint64_t mask;
};
static inline bool tg__is_wanted(const struct tg__wanted *w, int64_t id) {
  return !w->bits || w->bits[((uint64_t)id & w->mask) / 64] >> ((uint64_t)id & w->mask) % 64 & 1;
}
bool tg__wanted_open(struct tg__wanted *w, const struct tg__exact *x); /* false on no memory; close it either way */
void tg__wanted_close(struct tg__wanted *w);
int64_t tg__exact_id(const struct tg__exact *x, uint32_t slice, bool *is_gpu); /* its correlation, -1 */
/* Of rows with slice and index: correlation, side and link. False on no memory. */
bool tg__exact_links(struct tg__exact *x);
bool tg__exact_link(struct tg__exact *x, const struct tg__wanted *w); /* only the links */

/* rows_device.c: the rows of device work, `most` of them at most, and with links the calls that may have launched
 * them, without listing the rest of the rank. *listed: false where the order of the file is unknown without;
 * nothing is changed then. */
bool tg__exact_device(struct tg__exact *x, size_t most, bool links, bool *listed);

#endif
