/* step_graph: the graph of a rank put together, put in order, and run. */
#include "replay/step_batches.h"
#include "replay/step_collectives.h"
#include "replay/step_handover.h"
#include "analyze/ranks/comm_names.h"

#include <stdio.h>

/* ---- parts ----------------------------------------------------------------------------------- */

uint32_t tg__replay_add_node(struct tg__replay_graph *g, struct tg__replay_node node) {
  if (g->node_count >= TG_NONE / 2 || !tg__grow(&g->nodes, &g->node_cap, g->node_count + 1, sizeof *g->nodes)) {
    g->failed = true;
    return 0;
  }
  g->nodes[g->node_count] = node;
  return (uint32_t)g->node_count++;
}

uint32_t tg__replay_add_lane(struct tg__replay_graph *g, uint32_t track, bool is_device) {
  if (!tg__grow(&g->lanes, &g->lane_cap, g->lane_count + 1, sizeof *g->lanes)) {
    g->failed = true;
    return 0;
  }
  g->lanes[g->lane_count] = (struct tg__replay_lane){.track = track, .is_device = is_device};
  return (uint32_t)g->lane_count++;
}

void tg__replay_add_edge(struct tg__replay_graph *g, struct tg__replay_edge edge) {
  if (tg__grow(&g->edges, &g->edge_cap, g->edge_count + 1, sizeof *g->edges))
    g->edges[g->edge_count++] = edge;
  else
    g->failed = true;
}

void tg__replay_lane_name(const struct tg__replay_graph *g, uint32_t lane, char name[TG__REPLAY_LANE_NAME]) {
  const struct tg__track *const track = &g->t->tracks[g->lanes[lane].track];
  if (lane >= g->device_lanes && lane < g->stream_count)
    snprintf(name, TG__REPLAY_LANE_NAME, "thread of collectives");
  else if (g->lanes[lane].is_device)
    snprintf(name, TG__REPLAY_LANE_NAME, "device %lld stream %lld", (long long)track->device, (long long)track->stream);
  else
    snprintf(name, TG__REPLAY_LANE_NAME, "%s", lane == g->main_lane ? "thread of the steps" : "thread");
}

uint32_t tg__replay_step_at(const struct tg__replay_graph *g, int64_t ns) {
  const size_t begun = tg__steps_begun(&g->steps, ns);
  return begun && ns < g->steps.steps[begun - 1].host_end_ns ? (uint32_t)(begun - 1) : TG_NONE;
}

unsigned tg__replay_name(struct tg__replay_graph *g, uint32_t string_id) {
  if (g->names[string_id]) return g->names[string_id];
  const struct tg__str name = tg__name(g->t, string_id);
  unsigned flags = TG__REPLAY_NAME_KNOWN;
  if (tg__name_is_profiler_step(name, NULL)) flags |= TG__REPLAY_NAME_STEP;
  if (tg__str_contains(name, "Synchronize"))
    flags |= tg__str_contains(name, "Stream")  ? TG__REPLAY_NAME_STREAM_SYNC
             : tg__str_contains(name, "Event") ? TG__REPLAY_NAME_EVENT_SYNC
                                               : TG__REPLAY_NAME_DEVICE_SYNC;
  else if (tg__str_contains(name, "Memcpy"))
    flags |= TG__REPLAY_NAME_COPY;
  else if (tg__str_eq(name, TG_STR("cudaFree")) || tg__str_eq(name, TG_STR("hipFree")))
    flags |= TG__REPLAY_NAME_DEVICE_SYNC;
  if (tg__str_contains(name, "_MultiProcessingDataLoaderIter")) flags |= TG__REPLAY_NAME_WORKERS;
  if (tg__str_eq(name, TG_STR("DataLoader batch")) || tg__str_has_prefix(name, "DataLoader batch of process "))
    flags |= TG__REPLAY_NAME_BATCH;
  if (tg__name_is_collective_kernel(name)) flags |= TG__REPLAY_NAME_COLLECTIVE;
  if (tg__str_eq(name, TG_STR("threading.Condition.wait")) || tg__str_eq(name, TG_STR("queue.Queue.get")) ||
      tg__str_eq(name, TG_STR("concurrent.futures.Future.result")))
    flags |= TG__REPLAY_NAME_IDLE;
  if (flags & TG__REPLAY_NAME_IDLE && !tg__str_has_prefix(name, "concurrent.")) flags |= TG__REPLAY_NAME_HANDED;
  g->has_queues |= flags & TG__REPLAY_NAME_HANDED;
  const enum tg__comm_role role = tg__comm_role(name, false);
  if (role == TG__COMM_REQUEST) flags |= TG__REPLAY_NAME_REQUEST;
  if (role == TG__COMM_SPAN &&
      (tg__str_has_prefix(name, "gloo:") || tg__str_has_prefix(name, "mpi:") || tg__str_has_prefix(name, "ucc:")))
    flags |= TG__REPLAY_NAME_HOST_COLLECTIVE;
  g->has_loader |= flags & TG__REPLAY_NAME_WORKERS;
  g->names[string_id] = (uint16_t)flags;
  return flags;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void add_launches(struct tg__replay_graph *g) {
  for (size_t i = 0; i < g->work_count; i++) {
    const struct tg__replay_work *const w = &g->works[i];
    const uint32_t from = w->call == TG_NONE ? TG_NONE : g->node_of[w->call - g->slices.first];
    if (w->call == TG_NONE) continue;
    if (from >= g->node_count) {
      g->loose_works++;
      continue;
    }
    if (w->start_ns < w->launched_ns - TG__REPLAY_CLOCK_NS) {
      g->backward_edges++;
      continue;
    }
    tg__replay_add_edge(g, (struct tg__replay_edge){w->lag_ns, from, w->node, true});
  }
}

void tg__replay_add_edges(struct tg__replay_graph *g) {
  add_launches(g);
  tg__replay_add_batch_edges(g);
  tg__replay_add_handover_edges(g);
  for (size_t i = 0; i < g->await_count; i++)
    tg__replay_add_edge(g, (struct tg__replay_edge){0, g->works[g->awaits[i].work].node + 1, g->awaits[i].node, false});
  for (size_t i = 0; i < g->wait_count; i++) {
    const struct tg__replay_wait *const w = &g->waits[i];
    const uint32_t call = w->call == TG_NONE ? 0 : g->node_of[w->call - g->slices.first];
    if (call == TG_NONE) continue;
    const uint32_t to = w->call == TG_NONE ? g->works[w->target].node : call + 1;
    if (to < g->node_count)
      tg__replay_add_edge(g, (struct tg__replay_edge){0, g->works[w->source].node + 1, to, w->for_start});
  }
}

/* Edges by the node they lead to. */
static void sort_edges(struct tg__replay_graph *g) {
  struct tg__replay_edge *const sorted = tg__alloc((g->edge_count + 1) * sizeof *sorted);
  tg__free(g->first_edge);
  g->first_edge = tg__alloc((g->node_count + 2) * sizeof *g->first_edge);
  if (!sorted || !g->first_edge) {
    tg__free(sorted);
    g->failed = true;
    return;
  }
  for (size_t i = 0; i < g->edge_count; i++) g->first_edge[g->edges[i].to + 2]++;
  for (size_t i = 2; i < g->node_count + 2; i++) g->first_edge[i] += g->first_edge[i - 1];
  for (size_t i = 0; i < g->edge_count; i++) sorted[g->first_edge[g->edges[i].to + 1]++] = g->edges[i];
  tg__free(g->edges);
  g->edges = sorted;
  g->edge_cap = g->edge_count + 1;
}

/* ---- order ----------------------------------------------------------------------------------- */

struct ordering {
  const struct tg__replay_graph *g;
  uint32_t *next;    /* by lane: its first node that is not in the order yet */
  uint32_t *waiting; /* by node: lane that waits for it, TG_NONE; others follow in next_waiting */
  uint32_t *next_waiting, *ready;
  bool *is_done; /* by node */
  size_t ready_count, count;
};

static uint32_t blocking_node(const struct ordering *o, uint32_t node) {
  for (uint32_t k = o->g->first_edge[node]; k < o->g->first_edge[node + 1]; k++)
    if (!o->is_done[o->g->edges[k].from]) return o->g->edges[k].from;
  return TG_NONE;
}

/* Takes the nodes of a lane until one has to wait for another lane's. */
static void run_lane(struct ordering *o, uint32_t *order, uint32_t lane) {
  for (; o->next[lane] < o->g->lanes[lane].past; o->next[lane]++) {
    const uint32_t node = o->next[lane], blocking = blocking_node(o, node);
    if (blocking != TG_NONE) {
      o->next_waiting[lane] = o->waiting[blocking];
      o->waiting[blocking] = lane;
      return;
    }
    order[o->count++] = node;
    o->is_done[node] = true;
    for (uint32_t k = o->waiting[node], after; k != TG_NONE; k = after) {
      after = o->next_waiting[k];
      o->ready[o->ready_count++] = k;
    }
  }
}

static void put_in_order(struct tg__replay_graph *g) {
  struct ordering o = {.g = g};
  const size_t lanes = g->lane_count + 1, nodes = g->node_count + 1;
  tg__free(g->order);
  g->order = tg__alloc(nodes * sizeof *g->order);
  o.next = tg__alloc(lanes * sizeof *o.next);
  o.next_waiting = tg__alloc(lanes * sizeof *o.next_waiting);
  o.ready = tg__alloc(lanes * sizeof *o.ready);
  o.waiting = tg__realloc(NULL, nodes * sizeof *o.waiting);
  o.is_done = tg__alloc(nodes * sizeof *o.is_done);
  if (!g->order || !o.next || !o.next_waiting || !o.ready || !o.waiting || !o.is_done) {
    g->failed = true;
  } else {
    memset(o.waiting, 0xff, nodes * sizeof *o.waiting); /* TG_NONE */
    for (uint32_t k = 0; k < g->lane_count; k++) {
      o.next[k] = g->lanes[k].first;
      o.ready[o.ready_count++] = k;
    }
    while (o.ready_count) run_lane(&o, g->order, o.ready[--o.ready_count]);
    g->has_cycle = o.count < g->node_count;
  }
  tg__free(o.next);
  tg__free(o.next_waiting);
  tg__free(o.ready);
  tg__free(o.waiting);
  tg__free(o.is_done);
}

void tg__replay_order(struct tg__replay_graph *g) {
  sort_edges(g);
  if (!g->failed) put_in_order(g);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A step without its end in the trace is no step. */
static void leave_out_cut_steps(struct tg__replay_graph *g) {
  const struct tg__columns *const t = g->t;
  while (g->steps.count) {
    const uint32_t step = g->steps.steps[g->steps.count - 1].step;
    if (step == TG_NONE || t->steps[step].slice == TG_NONE) return;
    if (!(t->slices.flags[t->steps[step].slice] & TG__F_UNCLOSED)) return;
    g->steps.count--;
    g->steps.left_out++;
  }
}

/* Annotations that mark steps enclose the work; they are no work themselves. */
static void mark_steps(struct tg__replay_graph *g) {
  for (size_t i = 0; i < g->steps.count; i++) {
    const struct tg__step *const s = &g->t->steps[g->steps.steps[i].step];
    if (s->slice == TG_NONE) continue;
    const uint32_t name = g->t->slices.name[s->slice];
    g->names[name] = (uint16_t)(tg__replay_name(g, name) | TG__REPLAY_NAME_STEP);
  }
}

static void build_graph(struct tg__replay_graph *g) {
  g->start_ns = g->steps.steps[0].host_start_ns;
  g->end_ns = g->steps.steps[g->steps.count - 1].host_end_ns;
  mark_steps(g);
  tg__replay_gather_works(g);
  if (!g->failed) tg__replay_find_waits(g);
  if (!g->failed) tg__replay_add_streams(g);
  if (!g->failed) tg__replay_add_threads(g);
  if (!g->failed) tg__replay_add_edges(g);
  if (!g->failed) tg__replay_order(g);
}

enum tg_err tg__replay_open(struct tg__replay_graph *g, const struct tg__columns *t, uint32_t rank) {
  *g = (struct tg__replay_graph){.t = t, .rank = rank, .slices = tg__rank_slices(t, rank)};
  const enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &g->steps);
  if (err) return err;
  if (g->steps.source == TG__STEPS_RECORDING) g->steps.count = 0;
  tg__steps_leave_out_first(&g->steps);
  leave_out_cut_steps(g);
  if (g->steps.count < TG__REPLAY_LEAST_STEPS) return TG_OK;
  const size_t slices = g->slices.past - g->slices.first;
  if (slices >= TG_NONE / 4) return TG_MEMORY;
  g->names = tg__alloc(((size_t)tg__strings_count(t->strings) + 1) * sizeof *g->names);
  g->work_of = tg__realloc(NULL, (slices + 1) * sizeof *g->work_of);
  g->node_of = tg__realloc(NULL, (slices + 1) * sizeof *g->node_of);
  g->lane_of = tg__realloc(NULL, ((size_t)t->ranks[rank].track_count + 1) * sizeof *g->lane_of);
  g->step_begin = tg__alloc((g->steps.count + 1) * sizeof *g->step_begin);
  g->step_end = tg__alloc((g->steps.count + 1) * sizeof *g->step_end);
  if (!g->names || !g->work_of || !g->node_of || !g->lane_of || !g->step_begin || !g->step_end) return TG_MEMORY;
  memset(g->work_of, 0xff, slices * sizeof *g->work_of); /* TG_NONE */
  memset(g->node_of, 0xff, slices * sizeof *g->node_of);
  memset(g->lane_of, 0xff, t->ranks[rank].track_count * sizeof *g->lane_of);
  build_graph(g);
  return g->failed ? TG_MEMORY : TG_OK;
}

void tg__replay_close(struct tg__replay_graph *g) {
  tg__breakdown_free(&g->steps);
  tg__free(g->names);
  tg__free(g->works);
  tg__free(g->work_of);
  tg__free(g->node_of);
  tg__free(g->lane_of);
  tg__free(g->waits);
  tg__free(g->ended);
  tg__free(g->looks);
  tg__free(g->awaits);
  tg__free(g->handovers);
  tg__free(g->batches);
  tg__map_free(&g->batch_of);
  tg__free(g->lanes);
  tg__free(g->nodes);
  tg__free(g->edges);
  tg__free(g->first_edge);
  tg__free(g->order);
  tg__free(g->step_begin);
  tg__free(g->step_end);
  *g = (struct tg__replay_graph){0};
}
