/* The call graph itself: sums from the leaves up, depths from the roots down, in time linear in the nodes. */
#include "analyze/launch/call_graph.h"

bool tg__call_graph_new(struct tg__call_graph *g, uint32_t count) {
  const size_t n = (size_t)count + 1;
  *g = (struct tg__call_graph){.count = count};
  g->parent = tg__alloc(n * sizeof *g->parent);
  g->kind = tg__alloc(n);
  g->order = tg__alloc(n * sizeof *g->order);
  g->depth = tg__alloc(n * sizeof *g->depth);
  g->height = tg__alloc(n * sizeof *g->height);
  g->kernels = tg__alloc(n * sizeof *g->kernels);
  g->kernel_ns = tg__alloc(n * sizeof *g->kernel_ns);
  g->first_ns = tg__alloc(n * sizeof *g->first_ns);
  g->last_ns = tg__alloc(n * sizeof *g->last_ns);
  if (!g->parent || !g->kind || !g->order || !g->depth || !g->height || !g->kernels || !g->kernel_ns || !g->first_ns ||
      !g->last_ns)
    return false;
  for (uint32_t i = 0; i < count; i++) {
    g->parent[i] = TG_NONE;
    g->depth[i] = g->height[i] = -1;
    g->first_ns[i] = INT64_MAX;
    g->last_ns[i] = INT64_MIN;
  }
  return true;
}

void tg__call_graph_host(struct tg__call_graph *g, uint32_t node, uint32_t parent) {
  g->kind[node] = TG__NODE_HOST;
  g->parent[node] = parent;
  g->height[node] = 1;
}

void tg__call_graph_device(struct tg__call_graph *g, uint32_t node, uint32_t parent, int64_t start_ns, int64_t dur_ns) {
  g->kind[node] = TG__NODE_DEVICE;
  g->parent[node] = parent;
  g->height[node] = 0;
  g->kernels[node] = 1;
  g->kernel_ns[node] = dur_ns;
  g->first_ns[node] = start_ns;
  g->last_ns[node] = start_ns + dur_ns;
}

/* Parents outside the graph do not count. */
static void drop_absent_parents(struct tg__call_graph *g) {
  for (uint32_t i = 0; i < g->count; i++) {
    const uint32_t up = g->parent[i];
    if (up != TG_NONE && (g->kind[i] == TG__NODE_ABSENT || g->kind[up] == TG__NODE_ABSENT)) g->parent[i] = TG_NONE;
  }
}

static void add_to_parent(struct tg__call_graph *g, uint32_t node, uint32_t up) {
  if (g->height[node] + 1 > g->height[up] && g->kind[up] == TG__NODE_HOST) g->height[up] = g->height[node] + 1;
  g->kernels[up] += g->kernels[node];
  g->kernel_ns[up] += g->kernel_ns[node];
  if (g->first_ns[node] < g->first_ns[up]) g->first_ns[up] = g->first_ns[node];
  if (g->last_ns[node] > g->last_ns[up]) g->last_ns[up] = g->last_ns[node];
}

bool tg__call_graph_sum(struct tg__call_graph *g) {
  uint32_t *kids = tg__alloc(((size_t)g->count + 1) * sizeof *kids); /* not yet added to their parent */
  if (!kids) return false;
  drop_absent_parents(g);
  for (uint32_t i = 0; i < g->count; i++)
    if (g->parent[i] != TG_NONE) kids[g->parent[i]]++;
  for (uint32_t i = 0; i < g->count; i++)
    if (g->kind[i] != TG__NODE_ABSENT && kids[i] == 0) g->order[g->order_count++] = i;
  for (uint32_t at = 0; at < g->order_count; at++) {
    const uint32_t up = g->parent[g->order[at]];
    if (up == TG_NONE) continue;
    add_to_parent(g, g->order[at], up);
    if (--kids[up] == 0) g->order[g->order_count++] = up;
  }
  for (uint32_t at = g->order_count; at-- > 0;) {
    const uint32_t i = g->order[at];
    g->depth[i] = g->parent[i] == TG_NONE ? 0 : g->depth[g->parent[i]] + 1;
  }
  tg__free(kids);
  return true;
}

void tg__call_graph_free(struct tg__call_graph *g) {
  tg__free(g->parent);
  tg__free(g->kind);
  tg__free(g->order);
  tg__free(g->depth);
  tg__free(g->height);
  tg__free(g->kernels);
  tg__free(g->kernel_ns);
  tg__free(g->first_ns);
  tg__free(g->last_ns);
  *g = (struct tg__call_graph){0};
}
