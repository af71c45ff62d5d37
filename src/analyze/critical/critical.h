/* critical: the graph of one rank behind the question critical_path, private to critical*.c.
 *
 * Every operator, host call and piece of device work has two nodes, its start and its end; edges say what had to
 * come first. The critical path is the longest way through them. The exact rules count nanoseconds, keep devices apart
 * and follow every link; what other rules change is a policy. */
#ifndef TG_CRITICAL_H
#define TG_CRITICAL_H

#include "analyze/analyze.h"

enum {                         /* flags of a row */
       TG__CRIT_HOST = 1,      /* stands on the call stack of its thread, inside the window */
       TG__CRIT_NODE = 2,      /* has a start and an end in the graph */
       TG__CRIT_DEVICE = 4,    /* work or a wait of the device side, inside the window */
       TG__CRIT_WAIT = 8,      /* of these, a wait */
       TG__CRIT_LOCK = 16,     /* host call that takes the runtime's lock */
       TG__CRIT_BLOCKING = 32, /* host call that waits for the device: the time up to its end is not its own */
       TG__CRIT_LOADING = 64,  /* loads data */
       TG__CRIT_CLOSED = 128,  /* its end has been walked over */
};
struct tg__crit_row {
  int64_t start, end; /* in c->rules->unit_ns */
  uint32_t slice;
  /* row of the partner: the host call of device work; some rules link the device work of a host call, too */
  uint32_t link;
  uint32_t place; /* of a host row its thread, of a device row its stream; the two are numbered apart */
  uint8_t flags;
};

enum tg__crit_kind {
  TG__CRIT_OPERATOR,
  TG__CRIT_DEPENDENCY,
  TG__CRIT_LAUNCH,
  TG__CRIT_KERNEL,
  TG__CRIT_SYNC,
  TG__CRIT_KINDS
};
struct tg__crit_edge {
  uint32_t from, to; /* nodes */
  uint32_t event;    /* row its time is booked on, TG_NONE */
  uint8_t kind;
  bool is_free; /* weighs nothing whatever its kind */
  bool is_gone; /* an earlier edge between the same nodes took its place */
  bool is_critical;
};
static inline uint32_t tg__crit_start(uint32_t row) { return row << 1; }
static inline uint32_t tg__crit_end(uint32_t row) { return row << 1 | 1; }

enum tg__crit_wait_kind {
  TG__CRIT_NO_WAIT,
  TG__CRIT_STREAM_SYNC,
  TG__CRIT_CONTEXT_SYNC,
  TG__CRIT_EVENT_SYNC,
  TG__CRIT_STREAM_WAIT
};
struct tg__crit_wait { /* of a row with TG__CRIT_WAIT */
  uint32_t row;
  enum tg__crit_wait_kind kind;
  uint32_t record;       /* host call that recorded the event waited for, TG_NONE */
  uint32_t record_place; /* stream it was recorded on, TG_NONE */
};
struct tg__crit_launch { /* a host call that put work on a stream */
  int64_t at;
  uint32_t stream, thread, work; /* thread: index into trace->tracks; work: row */
};

struct tg__crit;
struct tg__crit_names;
struct tg__crit_range {
  int64_t first, last;
}; /* which of the matching annotations, both included */

/* What the rules decide: tg__ask.policy of the question. */
struct tg__crit_rules {
  const char *tool; /* what they are of; NULL: the exact ones */
  int64_t unit_ns;  /* of the times of rows */
  /* Fills rows, places, waits and launches. TG_OK, TG_MEMORY, or TG_NO_DATA with *e filled. */
  enum tg_err (*rows)(struct tg__crit *c, struct tg__crit_names *n, const struct tg__ask *a,
                      struct tg__crit_range range, struct tg_error *e);
  unsigned (*name)(struct tg__str name);                                /* TG__CRIT_NAME_BLOCKING, COPY, LAUNCH, STEP */
  bool (*sort)(const struct tg__crit *c, uint32_t *rows, size_t count); /* device rows by time; false on no memory */
  bool (*is_collective)(struct tg__str kernel); /* other device work computes; NULL: its type says */
  bool launch_edges;                            /* what launch_edges=auto means */
  bool infers_waits;                            /* of calls that wait for the device without saying for what */
  bool takes_steps;                             /* step= may be given */
  bool locks_thread;    /* calls on one thread wait for each other's lock, too; else the call stack knows their order */
  bool locks_weigh;     /* a call that waited for the lock has the rest of its time to itself, or waits on */
  bool ends_innermost;  /* whatever ends, it is taken for the innermost call */
  bool goes_below_zero; /* weights of edges that lead back in time */
  bool refuses_cycles;  /* refuses graphs with a circle and links that lead nowhere */
};
extern const struct tg__crit_rules tg__crit_exact;

struct tg__crit {
  const struct tg__columns *t;
  uint32_t rank;
  const struct tg__crit_rules *rules;
  bool launch_edges;
  int64_t window_start, window_end; /* in the unit of the rules, both included */
  /* names of events that load data contain one of these words, joined by commas; NULL = as torch names them */
  const char *loading;
  struct tg__crit_row *rows;
  uint32_t count;
  uint32_t thread_count, stream_count;
  bool *is_skipped_thread;     /* by thread: not walked; NULL = none is */
  int64_t *index;              /* by row: ordinal of the event in its file; NULL = not known */
  struct tg__crit_wait *waits; /* by row */
  size_t wait_count, wait_cap;
  struct tg__crit_launch *launches; /* only when a wait names what it waits for */
  size_t launch_count, launch_cap;
  int32_t *queue; /* by row: queue length right after it, INT32_MIN = unknown; NULL = the rules do not look at it */
  struct tg__map inferred;     /* blocking host call → device work it waited for, where no wait was recorded */
  struct tg__crit_edge *edges; /* in the order they were found, which decides between paths of equal length */
  size_t edge_count, edge_cap;
  uint32_t *path; /* edges, first to last */
  size_t path_count;
  uint32_t node_count; /* nodes that have an edge */
  const char *refusal; /* why there is no path, NULL */
  bool failed;         /* out of memory */
};

/* Names that mean something here, looked at once per string (critical_names.c). */
enum {
  TG__CRIT_NAME_LOCK = 1,
  TG__CRIT_NAME_BLOCKING = 2, /* waits for everything on a device or stream */
  TG__CRIT_NAME_COPY = 4,     /* waits for its own copy */
  TG__CRIT_NAME_LOADING = 8,
  TG__CRIT_NAME_LAUNCH = 16, /* launches work */
  TG__CRIT_NAME_STEP = 32,
  TG__CRIT_NAME_WANTED = 64, /* contains the annotation asked for */
  TG__CRIT_NAME_KNOWN = 128,
};
struct tg__crit_names {
  struct tg__crit *c;
  const char *annotation; /* "" = none asked for */
  uint8_t *flags;         /* by string id */
};
bool tg__crit_names_open(struct tg__crit_names *n, struct tg__crit *c, const char *annotation);
void tg__crit_names_close(struct tg__crit_names *n);
unsigned tg__crit_name(struct tg__crit_names *n, uint32_t string_id);
enum tg__crit_wait_kind tg__crit_wait_kind(const struct tg__columns *t, uint32_t slice);

/* Fills rows, places, waits and launches by the exact rules. */
enum tg_err tg__crit_rows_exact(struct tg__crit *c, struct tg__crit_names *n, const struct tg__ask *a,
                                struct tg__crit_range range, struct tg_error *e);
unsigned tg__crit_name_exact(struct tg__str name);
/* Rows of the device by time; what begins as a wait ends was not waited for. Waits count at their end. */
int64_t tg__crit_device_time(const struct tg__crit_row *r);
bool tg__crit_sort_device(const struct tg__crit *c, uint32_t *rows, size_t count);
void tg__crit_add_launch(struct tg__crit *c, struct tg__crit_launch launch);
void tg__crit_add_wait(struct tg__crit *c, struct tg__crit_wait wait);
void tg__crit_infer_waits(struct tg__crit *c); /* before the edges (critical_infer.c) */

/* Edges: of host calls that share a lock and of call stacks (critical_host.c), of device work (critical_device.c). */
void tg__crit_add_edge(struct tg__crit *c, uint32_t from, uint32_t to, enum tg__crit_kind kind, uint32_t event,
                       bool is_free);
void tg__crit_add_locks(struct tg__crit *c);
void tg__crit_add_stacks(struct tg__crit *c);
void tg__crit_add_device(struct tg__crit *c);

/* The longest path (critical_search.c). Sets c->path, or c->refusal. */
void tg__crit_search(struct tg__crit *c);
int64_t tg__crit_time(const struct tg__crit *c, uint32_t node);
/* Times of a damaged trace may lie as far apart as 64 bits go; what does not fit is cut off there. */
static inline int64_t tg__crit_sum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN + 1 : INT64_MAX) : sum;
}
static inline int64_t tg__crit_span(int64_t from, int64_t to) {
  int64_t span;
  return __builtin_sub_overflow(to, from, &span) ? (to < from ? INT64_MIN + 1 : INT64_MAX) : span;
}
int64_t tg__crit_weight(const struct tg__crit *c, const struct tg__crit_edge *e); /* in the unit of the rules */

void tg__crit_close(struct tg__crit *c);

#endif
