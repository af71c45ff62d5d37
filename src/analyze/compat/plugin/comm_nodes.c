/* comm_nodes: collectives as the TensorBoard plugin's distributed view counts them. It knows ten names; a
 * collective is the range of such an operator or annotation, a copy of it on the device instead where there is one,
 * and, of nccl, the kernels with its external id. */
#include "analyze/ranks/comm_names.h"
#include "analyze/ranks/summarize.h"

struct node {
  int64_t start_ns, end_ns, bytes, id;
  uint32_t name, order; /* string of the trace; where it stands in the file */
  bool is_nccl, is_replaced;
};
struct node_kernel {
  uint32_t node;
  int64_t start_ns, end_ns;
};
enum { NO_ID = -1 }; /* our own recordings have none: each is a collective of its own */
struct gathering {
  const struct tg__columns *t;
  uint32_t rank;
  struct tg__names names;
  struct node *nodes;
  size_t count, cap;
  struct node_kernel *kernels;
  size_t kernel_count, kernel_cap;
  struct tg__map by_id;
  bool failed;
};

/* Sizes it knows; others count as nothing. */
static int64_t plugin_bytes(const struct tg__columns *t, uint32_t args) {
  const uint32_t dims = tg__arg_dims(t, args);
  const uint32_t types = tg__arg_str(t, args, TG__K_INPUT_TYPE);
  const int64_t bytes =
      dims == TG_NONE || types == TG_NONE ? -1 : tg__tensor_bytes(tg__name(t, dims), tg__name(t, types));
  return bytes < 0 ? 0 : bytes;
}

static void add_comm_node(struct gathering *g, uint32_t slice) {
  const struct tg__columns *const t = g->t;
  const uint32_t args = t->slices.args[slice];
  if (!tg__grow((void **)&g->nodes, &g->cap, g->count + 1, sizeof *g->nodes)) {
    g->failed = true;
    return;
  }
  g->nodes[g->count++] =
      (struct node){.start_ns = t->slices.start_ns[slice],
                    .end_ns = tg__slice_end(t, slice),
                    .bytes = plugin_bytes(t, args),
                    .id = tg__arg_int(t, args, TG__K_EXTERNAL_ID, tg__arg_int(t, args, TG__K_EXTERNAL_ID_OLD, NO_ID)),
                    .name = t->slices.name[slice],
                    .order = args,
                    .is_nccl = tg__str_has_prefix(tg__name(t, t->slices.name[slice]), "nccl:")};
}

static void gather_nodes(struct gathering *g) {
  const struct tg__rank *const rank = &g->t->ranks[g->rank];
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *const track = &g->t->tracks[k];
    for (uint32_t i = track->first; i < track->first + track->count && !g->failed; i++) {
      const enum tg__class cls = tg__slice_class(g->t, i);
      if (cls != TG__CLASS_OP && cls != TG__CLASS_ANNOTATION && cls != TG__CLASS_GPU_ANNOTATION) continue;
      if (tg__names_of(&g->names, g->t->slices.name[i]) & TG__NAME_COLLECTIVE_CALL) add_comm_node(g, i);
    }
  }
}

static bool node_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const struct node *const n = ctx;
  return n[a].start_ns != n[b].start_ns ? n[a].start_ns < n[b].start_ns : n[a].order < n[b].order;
}

/* By start; of several with one external id the last counts. */
static bool order_nodes(struct gathering *g) {
  if (!tg__sort_items((void **)&g->nodes, g->count, sizeof *g->nodes, node_earlier, g->nodes)) return false;
  for (size_t i = 0; i < g->count; i++) {
    if (g->nodes[i].id == NO_ID) continue;
    uint32_t *const at = tg__map_slot(&g->by_id, (uint64_t)g->nodes[i].id, (uint32_t)i);
    if (!at) return false;
    if (*at != i) g->nodes[*at].is_replaced = true;
    *at = (uint32_t)i;
  }
  return true;
}

static void gather_kernels(struct gathering *g) {
  const struct tg__columns *const t = g->t;
  const struct tg__rank *const rank = &t->ranks[g->rank];
  for (uint32_t k = rank->first_track; k < rank->first_track + rank->track_count && g->count; k++) {
    const struct tg__track *const track = &t->tracks[k];
    for (uint32_t i = track->first; i < track->first + track->count && !g->failed; i++) {
      if (tg__slice_class(t, i) != TG__CLASS_KERNEL) continue;
      const uint32_t args = t->slices.args[i];
      const int64_t id = tg__arg_int(t, args, TG__K_EXTERNAL_ID, tg__arg_int(t, args, TG__K_EXTERNAL_ID_OLD, 0));
      const uint32_t node = id ? tg__map_get(&g->by_id, (uint64_t)id) : TG_NONE;
      if (node == TG_NONE || !g->nodes[node].is_nccl) continue;
      if (!tg__grow((void **)&g->kernels, &g->kernel_cap, g->kernel_count + 1, sizeof *g->kernels))
        g->failed = true;
      else
        g->kernels[g->kernel_count++] = (struct node_kernel){node, t->slices.start_ns[i], tg__slice_end(t, i)};
    }
  }
}

static bool kernel_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const struct node_kernel *const k = ctx;
  if (k[a].node != k[b].node) return k[a].node < k[b].node;
  return k[a].start_ns != k[b].start_ns ? k[a].start_ns < k[b].start_ns : k[a].end_ns > k[b].end_ns;
}

static bool hand_over(struct gathering *g, struct tg__strings *strings, struct tg__rank_summary *r) {
  uint32_t *const order = tg__order_new(g->kernel_count, kernel_earlier, g->kernels);
  r->nodes = tg__alloc((g->count + 1) * sizeof *r->nodes);
  r->node_kernels = tg__alloc((g->kernel_count + 1) * sizeof *r->node_kernels);
  bool done = order && r->nodes && r->node_kernels;
  for (size_t i = 0, k = 0; done && i < g->count; i++) {
    const struct node *const n = &g->nodes[i];
    if (n->is_replaced) continue;
    if (r->node_count >= TG__SUM_MOST_ROWS || r->node_kernel_count >= TG__SUM_MOST_ROWS)
      break; /* counted among the collectives */
    const struct tg__str name = tg__name(g->t, n->name);
    struct tg__sum_node *const out = &r->nodes[r->node_count++];
    *out = (struct tg__sum_node){.start_ns = n->start_ns,
                                 .end_ns = n->end_ns,
                                 .bytes = n->bytes,
                                 .name = tg__strings_add(strings, name.ptr, name.len),
                                 .first_kernel = r->node_kernel_count};
    done = out->name != TG_NONE;
    for (; k < g->kernel_count && g->kernels[order[k]].node <= i; k++) {
      const struct node_kernel *const from = &g->kernels[order[k]];
      r->node_kernels[r->node_kernel_count++] = (struct tg__sum_range){from->start_ns, from->end_ns};
      out->kernel_count++;
    }
  }
  tg__free(order);
  return done;
}

bool tg__comm_nodes(const struct tg__columns *t, uint32_t rank, struct tg__strings *strings,
                    struct tg__rank_summary *r) {
  struct gathering g = {.t = t, .rank = rank};
  g.failed = !tg__names_open(&g.names, t);
  if (!g.failed) gather_nodes(&g);
  if (!g.failed) g.failed = !order_nodes(&g);
  if (!g.failed) gather_kernels(&g);
  if (!g.failed) g.failed = !hand_over(&g, strings, r);
  tg__names_close(&g.names);
  tg__free(g.nodes);
  tg__free(g.kernels);
  tg__map_free(&g.by_id);
  return !g.failed;
}
