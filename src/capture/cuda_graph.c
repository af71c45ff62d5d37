/* cuda_graph: which operator captured a node of a CUDA graph. When the graph is launched, a kernel says the number of
 * its node and nothing else; so the operator, its stack and with it its module are noted as the node is made. A graph
 * that is instantiated is a clone, with numbers of its own. Where nodes are kept (kept.h), that goes on while nothing
 * is recorded. */
#include "capture/cuda.h"
#include "capture/kept.h"

enum {
#define CUPTI_RESOURCE(name, number) name = number,
#include "capture/cuda_layouts.def"
};
enum {
#define CUPTI_CALLBACK(of, field, offset, member) AT_##field = offset,
#include "capture/cuda_layouts.def"
};
enum { FILL_NODE = 2 }; /* CUgraphNodeType: kernel, copy, fill; what follows does no work on the device */

static _Atomic uint64_t nodes;

static const uint32_t made[] = {GRAPHNODE_CREATED, GRAPHNODE_CLONED},
                      gone[] = {GRAPH_DESTROY_STARTING, GRAPHNODE_DESTROY_STARTING, GRAPHEXEC_DESTROY_STARTING};

static void enable(void *subscriber, bool on, const uint32_t *functions, size_t count) {
  for (size_t i = 0; i < count; i++) tg__cupti.cuptiEnableCallback(on, subscriber, TG_CUPTI_RESOURCE, functions[i]);
}

bool tg__cuda_graph_can(void) { return tg__cupti.cuptiEnableCallback && tg__cupti.cuptiGetGraphNodeId; }

void tg__cuda_graph_start(void *subscriber) {
  atomic_store(&nodes, 0);
  if (subscriber && tg__cuda_graph_can()) enable(subscriber, true, made, sizeof made / sizeof *made);
}

void tg__cuda_graph_stop(void *subscriber) {
  if (subscriber && tg__cuda_graph_can() && !tg__kept_is_on())
    enable(subscriber, false, made, sizeof made / sizeof *made);
}

void tg__cuda_graph_keep(void *subscriber, bool on, bool records) {
  enable(subscriber, on, gone, sizeof gone / sizeof *gone);
  if (!records) enable(subscriber, on, made, sizeof made / sizeof *made);
}

/* The innermost operator that is open on this thread, NULL = none. */
static const struct tg__open *open_operator(const struct tg__thread *t) {
  for (uint32_t i = t->depth < TG_OPEN_MAX ? t->depth : TG_OPEN_MAX; i-- > 0;)
    if (t->open[i].scope == TG_RAW_OP) return &t->open[i];
  return NULL;
}

static void write_entry(const struct tg__thread *t, const struct tg__cuda_entry *entry, uint32_t stack) {
  const uint32_t id = (uint32_t)atomic_fetch_add(&nodes, 1) + 1;
  tg__dictionary_write(t->number, TG_RAW_D_GRAPH_NODE, id, stack, entry->bytes, entry->len);
}

/* Into the open recording. from: the node that it was cloned from; 0 = it was captured. false: nothing is known of it,
 * or nothing is recorded. */
static bool write_node(uint64_t number, uint64_t from) {
  struct tg__thread *const t = tg__thread();
  struct tg__cuda_entry entry = {.len = 0};
  uint32_t stack = 0;
  if (!t) return false;
  tg__cuda_put_field(&entry, TG_LAUNCH_GRAPH_NODE, (int64_t)number);
  if (from) {
    tg__cuda_put_field(&entry, TG_LAUNCH_CLONED_FROM, (int64_t)from);
  } else {
    const struct tg__open *const op = open_operator(t);
    const bool is_thread = op && op->scope == TG_RAW_BACKWARD && !(op->stack & TG_RAW_CONTEXT_ENTRY);
    stack = op && op->stack && !is_thread ? op->stack : tg__stack_now()(t);
    if (op) tg__cuda_put_field(&entry, TG_LAUNCH_OPERATOR, op->name);
    if (!op && !stack) return false;
  }
  write_entry(t, &entry, stack);
  return true;
}

static uint64_t node_number(const uint8_t *node) {
  uint64_t number;
  return node && tg__cupti.cuptiGetGraphNodeId(node, &number) == 0 ? number : 0;
}

static void node_made(const uint8_t *graph, bool is_clone) {
  const uint64_t number = node_number(tg__at_pointer(graph + AT_NODE)),
                 from = is_clone ? node_number(tg__at_pointer(graph + AT_ORIGINAL_NODE)) : 0;
  if (tg__at32(graph + AT_NODE_TYPE) > FILL_NODE || !number || (is_clone && !from)) return;
  const bool is_in_file = write_node(number, from);
  const struct tg__thread *const t = tg__thread_here;
  const uint32_t generation = t ? t->generation : 0;
  if (is_clone)
    tg__kept_clone(number, from, generation);
  else
    tg__kept_capture(number, generation, is_in_file);
}

static void graph_gone(int (*number_of_graph)(const void *, uint32_t *), const uint8_t *graph) {
  uint32_t number;
  if (graph && number_of_graph && number_of_graph(graph, &number) == 0) tg__kept_drop_graph(number);
}

void tg__cuda_graph_called(uint32_t function, const void *data) {
  const uint8_t *const graph = data ? tg__at_pointer((const uint8_t *)data + AT_DESCRIPTOR) : NULL;
  if (!graph) return;
  switch (function) {
  case GRAPHNODE_CREATED:
  case GRAPHNODE_CLONED:
    node_made(graph, function == GRAPHNODE_CLONED);
    break;
  case GRAPHNODE_DESTROY_STARTING:
    tg__kept_drop(node_number(tg__at_pointer(graph + AT_NODE)));
    break;
  case GRAPH_DESTROY_STARTING:
    graph_gone(tg__cupti.cuptiGetGraphId, tg__at_pointer(graph + AT_GRAPH));
    break;
  case GRAPHEXEC_DESTROY_STARTING:
    graph_gone(tg__cupti.cuptiGetGraphExecId, tg__at_pointer(graph + AT_GRAPH_EXEC));
    break;
  }
}

void tg__cuda_graph_kept(struct tg__thread *t, uint64_t number) {
  struct tg__cuda_entry entry = {.len = 0};
  uint32_t op, stack;
  if (!number || !tg__kept_find(t, number, &op, &stack)) return;
  tg__cuda_put_field(&entry, TG_LAUNCH_GRAPH_NODE, (int64_t)number);
  if (op) tg__cuda_put_field(&entry, TG_LAUNCH_OPERATOR, op);
  write_entry(t, &entry, stack);
}

uint64_t tg__cuda_graph_nodes(void) { return atomic_load(&nodes); }
