/* hta_rows: a trace as HolisticTraceAnalysis 0.6.1 sees it, defects included: the one place that knows its row model.
 *
 * Per rank: the events with a duration and a category, in file order. Where any time of the file has a fraction of a
 * microsecond, starts are rounded up and ends down, both from doubles, so a duration may come out as -1. Links,
 * iterations and the step filter are its own, too. Needs TG__COL_CORE, TG__COL_ARGS, TG__COL_FLAGS and
 * TG__COL_MARKS. */
#ifndef TG_HTA_ROWS_H
#define TG_HTA_ROWS_H

#include "analyze/names/kernel_type.h"

struct tg__hta_row {
  uint32_t slice;
  uint32_t link;             /* row of the partner by correlation; TG_NONE = none, or the step filter dropped it */
  int64_t index;             /* ordinal of the event among all those of its file */
  int64_t ts_us, dur_us;     /* ts from the earliest event of all ranks; dur -1 and above, and see tg__hta_dur_ns */
  int64_t stream;            /* -1 = on the CPU */
  int64_t correlation;       /* -1 = none */
  int64_t index_correlation; /* index of the partner; 0 = has a correlation but no partner, -1 = no correlation */
  int64_t iteration;         /* number of its step; -1 = in none; TG_NULL_INT for device work on stream 0 */
};
struct tg__hta_rank {
  struct tg__hta_row *rows;
  size_t count;
  bool is_rounded;
};
enum tg__hta_filter {
  /* what TraceAnalysis keeps by default: the last of several steps is left out, device work of it, too */
  TG__HTA_WITHOUT_LAST_STEP,
  TG__HTA_WITH_LAST_STEP, /* include_last_profiler_step=True: every CPU row, and the device rows they launched */
  TG__HTA_EVERY_ROW,      /* what TraceDiff keeps, and a Trace that was not aligned */
};

struct tg__hta {
  const struct tg__columns *t;
  struct tg__hta_rank *ranks;        /* by rank of the trace; without rows for those not asked for */
  int64_t min_ts_us;                 /* what was taken off every ts */
  uint8_t *types;                    /* enum tg__work_type by string id, filled on first use */
  uint32_t event_sync, context_sync; /* string ids */
  enum tg__hta_filter filter;
  bool filters; /* there are steps to filter by */
  struct tg__names names;
  struct tg__hta_fields *fields; /* private: by schema */
  uint8_t *cat_counts;           /* private: by category */
};
/* rank: only the rows of this one (TG_NONE = of all); its times and the step filter follow from all ranks either way.
 * TG_OK or TG_MEMORY; close it either way. */
enum tg__hta_filter tg__hta_filter_of(const struct tg__ask *a); /* rules=hta, hta-last or hta-all */
enum tg_err tg__hta_open(struct tg__hta *h, const struct tg__columns *t, uint32_t rank, enum tg__hta_filter filter);
/* The same one rank after the other, so that the rows of all are never there at once. */
enum tg_err tg__hta_begin(struct tg__hta *h, const struct tg__columns *t, enum tg__hta_filter filter);
enum tg_err tg__hta_load(struct tg__hta *h, uint32_t rank);
void tg__hta_drop(struct tg__hta *h, uint32_t rank);
/* Only what the next three need, for callers that go through rows without keeping them. */
enum tg_err tg__hta_prepare(struct tg__hta *h, const struct tg__columns *t);
struct tg__hta_event { /* args: its reference, which rises along the file */
  uint32_t args, slice;
};
/* All events of a rank in file order; slice is TG_NONE for what can be no row. NULL on no memory; tg__free. */
struct tg__hta_event *tg__hta_events(const struct tg__hta *h, uint32_t rank, size_t *count);
bool tg__hta_sort_events(struct tg__hta_event *events, size_t count); /* by args; false on no memory */
bool tg__hta_is_row(const struct tg__hta *h, uint32_t slice);
/* Args of these names; -1 = none. */
void tg__hta_ids(const struct tg__hta *h, uint32_t slice, int64_t *stream, int64_t *correlation);
bool tg__hta_is_gpu_row(const struct tg__hta *h, uint32_t slice, int64_t stream, int64_t correlation);
void tg__hta_close(struct tg__hta *h);

/* Its two ways to distinguish device from host. The first: temporal and kernel breakdown, overlap, queue, bandwidth,
 * launch statistics, diff. The second: links, step filter, annotations. */
static inline bool tg__hta_is_device(const struct tg__hta_row *r) { return r->stream != -1; }
bool tg__hta_is_gpu(const struct tg__hta *h, const struct tg__hta_row *r);
/* Kernel type, only by the name. */
enum tg__work_type tg__hta_type(struct tg__hta *h, const struct tg__hta_row *r);
/* Exact in files that are not rounded, where dur_us lacks the fraction. */
static inline int64_t tg__hta_dur_ns(const struct tg__hta *h, const struct tg__hta_rank *rank,
                                     const struct tg__hta_row *r) {
  return rank->is_rounded ? r->dur_us * 1000 : h->t->slices.dur_ns[r->slice];
}

#endif
