/* step_graph: the graph behind the questions of this folder, private to it.
 *
 * A lane is a thread or a stream: its nodes follow each other. Each instant of a thread belongs to the innermost slice
 * there, or to a gap. Edges between lanes say what else a node waits for: a kernel for the call that launched it, a
 * call that synchronises for the work of a stream, a stream for an event. All times are integers, ns. */
#ifndef TG_STEP_GRAPH_H
#define TG_STEP_GRAPH_H

#include "analyze/overview/steps.h"
#include "replay/replay.h"

enum tg__replay_kind {
  TG__REPLAY_HOST,  /* the innermost slice of a thread */
  TG__REPLAY_GAP,   /* of a thread between slices */
  TG__REPLAY_WAIT,  /* of a call that synchronises: takes until its edges let it go on, and nothing by itself */
  TG__REPLAY_DELAY, /* of a stream before work: what launch, stream and events do not explain, 0 included */
  TG__REPLAY_WORK,  /* of a stream */
  TG__REPLAY_BATCH, /* of a worker of the loader, which another recording would have: step_loader.h */
};
enum {
  TG__REPLAY_LEAST_STEPS = 5,
  TG__REPLAY_LONG_GAP_NS = 100000, /* a gap of a thread up to here is the interpreter between two calls */
  TG__REPLAY_CLOCK_NS = 1000,      /* two clocks may disagree by this much */
};
struct tg__replay_node {
  int64_t start_ns, dur_ns; /* as recorded */
  uint32_t slice;           /* TG_NONE of a gap */
  uint32_t lane;
  uint32_t step; /* index into g->steps.steps; TG_NONE between steps */
  uint8_t kind;
  bool is_explained; /* something recorded says what the time goes to */
};
struct tg__replay_edge {
  int64_t lag_ns;
  uint32_t from, to;
  bool from_start;
};
struct tg__replay_lane {
  uint32_t first, past; /* nodes */
  uint32_t track;       /* of its slices, the first if several */
  bool is_device;
  bool is_tied;   /* a thread that hands over to another one, or the other way round: step_handover.h */
  int64_t gap_ns; /* of a stream: what lies at least between two works of its */
};
struct tg__replay_work { /* by lane, then start */
  int64_t start_ns, end_ns, launched_ns;
  uint32_t slice, call; /* call: TG_NONE when not known, or before the window */
  uint32_t lane, step;
  uint32_t node;  /* its delay; the work itself is the next one */
  int64_t lag_ns; /* from the launch, where the stream has nothing else to do */
};
struct tg__replay_wait {   /* a call that synchronises, or work that waits for an event, and one work it waits for */
  uint32_t call;           /* slice; TG_NONE: `target` waits */
  uint32_t target, source; /* works */
  bool for_start;          /* for the begin of the source, not its end */
  int64_t own_ns;          /* what the call takes before it waits */
};
struct tg__replay_graph {
  const struct tg__columns *t;
  uint32_t rank;
  struct tg__breakdown steps;
  int64_t start_ns, end_ns; /* the window: all steps as the host sees them */
  struct tg__extent slices; /* of the rank */
  uint16_t *names;          /* what a name means, by string id */
  struct tg__replay_work *works;
  size_t work_count, work_cap;
  uint32_t *work_of; /* by slice of the rank, of a call: the last work it launched */
  uint32_t *node_of; /* by slice of the rank, of a host slice: the node at its begin */
  struct tg__replay_wait *waits;
  size_t wait_count, wait_cap;
  struct tg__replay_ended *ended; /* collectives of host libraries, by their end */
  size_t ended_count;
  struct tg__replay_look *looks; /* by time */
  size_t look_count;
  struct tg__replay_await *awaits;
  size_t await_count, await_cap;
  struct tg__replay_places *places; /* while the nodes are made */
  struct tg__replay_handover *handovers;
  size_t handover_count, handover_cap;
  struct tg__replay_batch *batches; /* of worker processes of a loader: step_batches.h */
  size_t batch_count, batch_cap;
  int64_t batch_cpu_ns;    /* what a worker is on a core for a batch, mean; 0: not known */
  struct tg__map batch_of; /* slice → its place in batches */
  uint32_t *lane_of;       /* by track of the rank: the lane of a thread; TG_NONE: of none, as of streams */
  struct tg__replay_lane *lanes;
  size_t lane_count, lane_cap;
  uint32_t device_lanes; /* the first lanes are streams of devices, */
  uint32_t stream_count; /* then come those of host libraries that run collectives: step_collectives.h */
  uint32_t main_lane;    /* with the steps */
  struct tg__replay_node *nodes;
  size_t node_count, node_cap;
  struct tg__replay_edge *edges; /* by `to` once the graph is closed */
  size_t edge_count, edge_cap;
  uint32_t *first_edge;            /* by node, and one more */
  uint32_t *order;                 /* nodes, each behind what it waits for */
  uint32_t *step_begin, *step_end; /* by step: node that begins it, node that ends it */
  size_t loose_works;              /* without a known launch */
  size_t backward_edges;           /* dropped: the effect came before its cause */
  bool has_cycle, has_loader, has_collectives, has_queues;
  bool failed; /* out of memory */
};

enum {
  TG__REPLAY_NAME_KNOWN = 1,
  TG__REPLAY_NAME_STEP = 2,
  TG__REPLAY_NAME_DEVICE_SYNC = 4,
  TG__REPLAY_NAME_STREAM_SYNC = 8,
  TG__REPLAY_NAME_EVENT_SYNC = 16,
  TG__REPLAY_NAME_COPY = 32,
  TG__REPLAY_NAME_WORKERS = 64,           /* of the loader: waits for other processes */
  TG__REPLAY_NAME_BATCH = 128,            /* of a worker: the batch that it makes, and the counter of its batches */
  TG__REPLAY_NAME_COLLECTIVE = 256,       /* kernel */
  TG__REPLAY_NAME_IDLE = 512,             /* a thread of Python waits for another one, and works for none */
  TG__REPLAY_NAME_HOST_COLLECTIVE = 1024, /* a library runs it on a thread of its own, or is at it */
  TG__REPLAY_NAME_REQUEST = 2048,         /* the operator that asks for a collective */
  TG__REPLAY_NAME_HANDED = 8192,          /* a wait that ends when another recorded thread hands over */
  TG__REPLAY_NAME_AWAITS = 4096,          /* behind this call a thread waits for its collectives */
};
unsigned tg__replay_name(struct tg__replay_graph *g, uint32_t string_id);
static inline bool tg__replay_is_host(enum tg__class cls) { return tg__class_is_host(cls) || cls == TG__CLASS_SAMPLE; }
/* An operator, or a call of a device's library. */
static inline bool tg__replay_is_call(const struct tg__columns *t, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(t, slice);
  return cls == TG__CLASS_OP || cls == TG__CLASS_RUNTIME;
}
enum { TG__REPLAY_LANE_NAME = 64 };
void tg__replay_lane_name(const struct tg__replay_graph *g, uint32_t lane, char name[TG__REPLAY_LANE_NAME]);
uint32_t tg__replay_step_at(const struct tg__replay_graph *g, int64_t ns); /* TG_NONE between steps */

/* Building, in this order. Out of memory sets g->failed. */
void tg__replay_gather_works(struct tg__replay_graph *g); /* works and their lanes */
/* call: slice that launched it; TG_NONE */
void tg__replay_add_work(struct tg__replay_graph *g, uint32_t slice, uint32_t call, uint32_t lane);
void tg__replay_find_waits(struct tg__replay_graph *g);       /* which call waits for which work */
void tg__replay_find_full_queues(struct tg__replay_graph *g); /* called by it */
void tg__replay_add_streams(struct tg__replay_graph *g);      /* nodes of streams */
void tg__replay_add_threads(struct tg__replay_graph *g);      /* nodes of threads */
void tg__replay_add_edges(struct tg__replay_graph *g);        /* edges between lanes */

uint32_t tg__replay_add_node(struct tg__replay_graph *g, struct tg__replay_node node); /* its index; TG_NONE */
uint32_t tg__replay_add_lane(struct tg__replay_graph *g, uint32_t track, bool is_device);
void tg__replay_add_edge(struct tg__replay_graph *g, struct tg__replay_edge edge);
void tg__replay_order(struct tg__replay_graph *g); /* after the last edge; again where nodes and edges came later */

/* The graph of the steady steps of a rank; without nodes where there are too few of them. g is to be closed either way.
 * TG_OK or TG_MEMORY. */
enum tg_err tg__replay_open(struct tg__replay_graph *g, const struct tg__columns *t, uint32_t rank);
void tg__replay_close(struct tg__replay_graph *g);

/* When each node begins and ends. dur_ns: by node, NULL = as recorded; is_gone: by node, NULL = none: it takes no time
 * and waits for nothing. The four arrays are the caller's, of g->node_count; by: the edge that let the node begin,
 * TG_NONE = what is before it on its lane; may be NULL. */
struct tg__replay_times {
  int64_t *begin_ns, *end_ns;
  uint32_t *by;
  const int64_t *late_ns; /* by node: it begins so much later than it could; NULL = none does */
  const int64_t *held_ns; /* by node: it does not begin before, the first of a lane at this; NULL = none is held */
};
bool tg__replay_times_open(struct tg__replay_times *x, size_t nodes, bool with_by); /* false on no memory */
void tg__replay_times_close(struct tg__replay_times *x);
void tg__replay_run(const struct tg__replay_graph *g, const int64_t *dur_ns, const bool *is_gone,
                    struct tg__replay_times *x);
void tg__replay_recorded(const struct tg__replay_graph *g, struct tg__replay_times *x); /* the times of the trace */
int64_t tg__replay_step_begin(const struct tg__replay_graph *g, const struct tg__replay_times *x, size_t step);
/* When each step ends by these times: the host's part and what it launched, and no step before the one before it. */
void tg__replay_step_ends(const struct tg__replay_graph *g, const struct tg__replay_times *x, int64_t *end_ns);
/* How long each step takes by these times: to the end of the host and of what it launched, from there on for the
 * next. */
void tg__replay_step_times(const struct tg__replay_graph *g, const struct tg__replay_times *x, int64_t *step_ns);

#endif
