/* sequence: device work in the order it followed on what launched it, and which names followed one another. Used by
 * op_kernels and sequences. */
#ifndef TG_SEQUENCE_H
#define TG_SEQUENCE_H

#include "analyze/analyze.h"

/* ---- device work by what launched it --------------------------------------------------------- */

struct tg__launched {
  uint32_t owner;                      /* the caller's number for the range of host time it counts for */
  uint32_t name;                       /* string id */
  uint32_t tie;                        /* order of what came at the same times */
  int64_t at_ns, then_ns;              /* what a sequence is ordered by */
  int64_t launch_ns, start_ns, dur_ns; /* start of the host call; of the device work */
};
struct tg__launched_run {       /* the work of one owner */
  uint32_t owner, first, count; /* items[order[first]] … */
};
struct tg__launched_list {
  struct tg__launched *items;
  size_t count, cap;
  uint32_t *order; /* by owner, at_ns, then_ns, tie */
  struct tg__launched_run *runs;
  size_t run_count, run_cap;
};
bool tg__launched_add(struct tg__launched_list *l, const struct tg__launched *item); /* false on no memory, as below */
bool tg__launched_sort(struct tg__launched_list *l); /* makes order and runs of the items; again after more came */
void tg__launched_free(struct tg__launched_list *l);

/* ---- sequences of names ---------------------------------------------------------------------- */

struct tg__sequence {
  size_t first;         /* in names */
  uint32_t count, next; /* next: one with the same hash */
};
struct tg__sequences {
  struct tg__sequence *items;
  size_t count, cap;
  uint32_t *names;
  size_t name_count, name_cap;
  struct tg__map by_hash;
};
/* The number of the sequence of names in a stretch; equal names, equal numbers. TG_NONE on no memory. */
uint32_t tg__sequences_find(struct tg__sequences *s, const struct tg__launched_list *l,
                            const struct tg__launched_run *run);
void tg__sequences_free(struct tg__sequences *s);
/* head, then the names, joined. head TG_NONE: only the names. */
void tg__sequence_text(const struct tg__sequences *s, uint32_t sequence, const struct tg__columns *t, uint32_t head,
                       const char *joint, struct tg__out *out);

#endif
