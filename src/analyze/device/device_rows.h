/* device_rows: the device work of one rank, and what launched it. The questions about devices are written once over
 * these rows; which rows there are, and what else differs between rules, is a policy. The exact rules count what ran,
 * by category, to the nanosecond. */
#ifndef TG_DEVICE_ROWS_H
#define TG_DEVICE_ROWS_H

#include "analyze/names/kernel_type.h"

struct tg__device_row {
  int64_t start_ns, end_ns; /* by other rules than the exact ones the end may lie before the start */
  int64_t device, stream;   /* device: TG_NULL_INT where the rules identify streams only by number */
  int64_t order;            /* rises along the file */
  int64_t launch_ns;        /* start of the host call; TG_NULL_INT when there is none */
  uint32_t slice, call;     /* call: slice, TG_NONE */
  uint8_t type;             /* enum tg__work_type */
  bool is_work;             /* by its category; other rules have rows that are no work */
};
struct tg__launch_pair { /* a host call and one piece of device work it launched */
  int64_t call_start_ns, call_end_ns, call_order;
  int64_t start_ns, end_ns, order;
  int64_t device, stream;
  int64_t correlation; /* where the rules list pairs; else the device work's args say it */
  uint32_t call, slice;
};

struct tg__device_rows {
  const struct tg__columns *t;
  const struct tg__ask *a;
  const struct tg__device_rules *rules;
  void *state;   /* of the rules */
  uint32_t rank; /* the one that is loaded */
  /* by start, then end, then order; all exact ones of a rank are kept with the trace (64 bytes each): read only */
  struct tg__device_row *rows;
  size_t count, cap;
  int64_t extent_ns;             /* from the first start of any event of the rank to the last start */
  struct tg__launch_pair *pairs; /* where the rules list them */
  size_t pair_count, pair_cap;
  const uint32_t *by_stream; /* tg__device_order: positions in rows by device, stream, start, then order */
  uint32_t *own_order;       /* that list where it is not kept */
  struct tg__names names;
};
struct tg__kernel_sum { /* kernels of a name and type on a rank */
  uint32_t name;
  uint8_t type; /* enum tg__work_type */
  bool folded;
  struct tg__stats dur;
};
enum tg__pairs_for { TG__PAIRS_QUEUE, TG__PAIRS_STATS, TG__PAIRS_STATS_KERNELS };

/* What the rules decide: tg__ask.policy of the questions about devices. Functions return false on no memory. */
struct tg__device_rules {
  bool (*open)(struct tg__device_rows *d); /* sets d->state; NULL: there is none */
  void (*close)(struct tg__device_rows *d);
  bool (*load)(struct tg__device_rows *d);  /* rows of d->rank, in order, and extent_ns */
  void (*after)(struct tg__device_rows *d); /* when the rank is done; NULL: nothing */
  /* Is there work that the categories do not show? Not for the exact rules. */
  bool (*has_work)(const struct tg__columns *t, const struct tg__ask *a);
  bool is_kept; /* rows of all steps are kept with the trace */
  /* Lists pairs, those of copies left out for TG__PAIRS_STATS_KERNELS; NULL: they are read off the rows. */
  bool (*pair)(struct tg__device_rows *d, enum tg__pairs_for what);
  bool by_file;        /* events are identified by their place in the file, and streams come as they first do there */
  bool counts_overlap; /* idle: from the end of the row before, whatever ended last: below zero where work overlaps */
  int64_t shortest_ns; /* copy_bandwidth: so long does a copy of no length show */
  double std_of_one;   /* kernel_breakdown: the standard deviation of one value */
  bool folds_sums;     /* kernel_breakdown: where names may be folded, the figures are those of the sums of names */
  /* kernel_breakdown: sets `folded` of sums by falling time; NULL: from position `most` on, and behind that share. */
  bool (*fold)(struct tg__kernel_sum *sums, const uint32_t *order, size_t count, int64_t most, double ratio);
};
extern const struct tg__device_rules tg__device_exact;

/* Calls body once for every rank asked for, its rows loaded; body returns false when out of memory. */
typedef bool tg__device_body(struct tg__device_rows *d, void *ctx);
enum tg_err tg__device_each_rank(const struct tg__columns *t, const struct tg__ask *a, tg__device_body *body, void *ctx,
                                 struct tg_error *e);

/* The time in which at least one row of these types runs, touching ones joined; types: bits 1 << enum tg__work_type.
 * Rows that end before they start and touch no other count with their negative length, as there. false
 * on no memory. */
enum { TG__EVERY_TYPE = ~0 };
/* device: TG_NULL_INT = all. */
bool tg__device_spans(const struct tg__device_rows *d, int types, int64_t device, struct tg__spans *out);
int64_t tg__device_length(const struct tg__spans *s); /* of such a list */

/* The positions 0..n-1 with those of one stream together, otherwise as they were: sorting them by stream, then time
 * takes few steps from there on. false on no memory. */
struct tg__stream_key {
  int64_t device, stream;
};
typedef struct tg__stream_key tg__stream_of(const void *ctx, size_t i);
bool tg__device_by_stream(uint32_t *order, size_t n, tg__stream_of *stream_of, const void *ctx);

/* Are these rows, and what is made of them, the same for the next question? */
bool tg__device_is_kept(const struct tg__device_rows *d);

/* Sets d->by_stream; kept like the rows. false on no memory. */
bool tg__device_order(struct tg__device_rows *d);

/* Finds pairs; by the exact rules every piece of device work with a known launch. false on no memory. Numbers below
 * d->pair_count of which tg__device_is_pair holds are pairs for tg__device_pair. */
bool tg__device_pairs(struct tg__device_rows *d, enum tg__pairs_for what);
static inline bool tg__device_is_pair(const struct tg__device_rows *d, size_t i) {
  return d->rules->pair || d->rows[i].call != TG_NONE;
}
static inline struct tg__launch_pair tg__device_pair(const struct tg__device_rows *d, size_t i) {
  if (d->rules->pair) return d->pairs[i];
  const struct tg__device_row *const row = &d->rows[i];
  return (struct tg__launch_pair){.call_start_ns = row->launch_ns,
                                  .call_end_ns = tg__slice_end(d->t, row->call),
                                  .call_order = d->t->slices.args[row->call],
                                  .start_ns = row->start_ns,
                                  .end_ns = row->end_ns,
                                  .order = row->order,
                                  .device = row->device,
                                  .stream = row->stream,
                                  .call = row->call,
                                  .slice = row->slice};
}

#endif
