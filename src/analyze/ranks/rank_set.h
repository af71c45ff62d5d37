/* rank_set: what the questions about many ranks share: which summaries they use, which collectives are the same
 * one, and how the ranks' clocks lie to each other. */
#ifndef TG_RANK_SET_H
#define TG_RANK_SET_H

#include "analyze/analyze.h"
#include "trace/summary.h"

/* One rank's part in a collective, and when it came on the common clock. */
struct tg__part {
  uint32_t rank, index; /* into the summaries, into its collectives */
  int64_t start_ns, end_ns, wait_ns;
};
struct tg__match {
  uint32_t first, count; /* in parts; by rank */
  uint32_t group, kind;
  int64_t sequence; /* -1 = matched by order */
  int64_t last_ns;  /* when the last one came */
  int64_t skew_ns;  /* from the first to the last */
  uint32_t last;    /* part that came last */
  /* in bytes, where they must be equal, or a transfer with more than two ends: what is matched here is not one
   * collective */
  bool differs;
};
/* Is there anybody to wait for, and is it the same collective? */
static inline bool tg__match_is_shared(const struct tg__match *m) { return m->count > 1 && !m->differs; }

struct tg__clock {
  bool is_aligned;
  int64_t offset_ns; /* this rank's clock is so much ahead of the reference's, at the first collective used */
  double drift;      /* and gains so much a ns; 0 where too little is known */
  int64_t origin_ns; /* where the drift counts from, on the common clock */
  /* the offset must lie between: no such collective ends anywhere before it began everywhere */
  int64_t low_ns, high_ns;
  int64_t spread_ns;   /* median distance of the ends from the alignment */
  int64_t collectives; /* it rests on */
  /* rank compared with; itself for the first of those that share collectives, to which the others go back */
  uint32_t reference;
};

struct tg__ranks {
  const struct tg__summaries *s;
  uint32_t only;             /* the one that was asked for; TG_NONE = all */
  struct tg__match *matches; /* by when the first rank came */
  size_t match_count;
  struct tg__part *parts;
  struct tg__clock *clocks; /* by rank */
  uint32_t clock_sets;      /* of ranks with clocks known relative to each other, but not to those of another set */
  int64_t uneven;    /* groups and kinds with different numbers of collectives on the ranks: matched within steps */
  int64_t differing; /* matches that differ in bytes */
  int64_t unclear;   /* sends and receives of which it is not known which belong together */
  int64_t crossed;   /* sequence numbers of a group that stand for other kinds on other ranks */
  int64_t sized;     /* matches with ranks that state groups of different size */
  int64_t crowded;   /* matches with more parts than their group has ranks */
  bool by_order;
};

/* The summary of one rank of a trace with events, and the list that its strings are of; kept with the trace. NULL on no
 * memory. */
const struct tg__rank_summary *tg__rank_summary_of(const struct tg__columns *t, uint32_t rank,
                                                   const struct tg__summaries **list);
/* Everything above for a trace of either sort; the summaries of one with events are kept with it. align: false takes
 * the files' clocks as they are. Free with tg__ranks_close, after a failure too. */
enum tg_err tg__ranks_open(struct tg__ranks *r, const struct tg__columns *t, const struct tg__ask *a, bool align,
                           struct tg_error *e);
void tg__ranks_close(struct tg__ranks *r);

bool tg__ranks_match(struct tg__ranks *r); /* rank_match.c: fills matches and parts; false on no memory */
bool tg__ranks_align(struct tg__ranks *r); /* rank_clocks.c: fills clocks, from matches; false on no memory */
/* A time of this rank on the common clock. */
int64_t tg__ranks_time(const struct tg__ranks *r, uint32_t rank, int64_t ns);

/* The numbers that step= names; TG_USAGE when it is not understood. */
struct tg__step_selection {
  struct {
    int64_t first, last;
  } items[64];
  size_t count; /* 0 = all */
};
enum tg_err tg__step_selection_read(struct tg__step_selection *p, const struct tg__ask *a, struct tg_error *e);
bool tg__step_selection_has(const struct tg__step_selection *p, int64_t number);
/* TG_NO_DATA when steps were asked for and none is among those that count. */
enum tg_err tg__step_selection_check(const struct tg__step_selection *p, const struct tg__ranks *r,
                                     const bool *counting, struct tg_error *e);

/* May steps be compared between the ranks by their numbers? `common` gets one flag for each step of each rank, in
 * order: those that are selected and that every rank with steps has, or all when there is none such.
 * *has_common: whether there was. NULL on no memory. */
bool *tg__ranks_common_steps(const struct tg__ranks *r, const struct tg__step_selection *selection, bool *has_common);
/* The same, of every step that is whole. */
bool *tg__ranks_all_steps(const struct tg__ranks *r, const struct tg__step_selection *selection);

/* Notes on the data that every answer about ranks should have. */
void tg__ranks_note(const struct tg__ranks *r, struct tg_table *out);

static inline bool tg__ranks_wanted(const struct tg__ranks *r, uint32_t rank) {
  return r->only == TG_NONE || r->only == rank;
}
static inline int64_t tg__sum_length(const struct tg__sum_collective *c) { return c->end_ns - c->start_ns; }

#endif
