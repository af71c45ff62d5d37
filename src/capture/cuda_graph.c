/* cuda_graph: which operator captured a node of a CUDA graph. When the graph is launched, a kernel says the number of
 * its node and nothing else; so the operator, its stack and with it its module are noted as the node is made. A graph
 * that is instantiated is a clone, with numbers of its own. */
#include "capture/cuda.h"

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

void tg__cuda_graph_start(void *subscriber) {
  static const uint32_t functions[] = {GRAPHNODE_CREATED, GRAPHNODE_CLONED};
  atomic_store(&nodes, 0);
  if (!subscriber || !tg__cupti.cuptiEnableCallback || !tg__cupti.cuptiGetGraphNodeId) return;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    tg__cupti.cuptiEnableCallback(1, subscriber, TG_CUPTI_RESOURCE, functions[i]);
}

void tg__cuda_graph_stop(void *subscriber) {
  if (!subscriber || !tg__cupti.cuptiEnableCallback) return;
  tg__cupti.cuptiEnableCallback(0, subscriber, TG_CUPTI_RESOURCE, GRAPHNODE_CREATED);
  tg__cupti.cuptiEnableCallback(0, subscriber, TG_CUPTI_RESOURCE, GRAPHNODE_CLONED);
}

/* The innermost operator that is open on this thread, NULL = none. */
static const struct tg__open *open_operator(const struct tg__thread *t) {
  for (uint32_t i = t->depth < TG_OPEN_MAX ? t->depth : TG_OPEN_MAX; i-- > 0;)
    if (t->open[i].scope == TG_RAW_OP) return &t->open[i];
  return NULL;
}

static bool put_number(struct tg__cuda_entry *entry, enum tg__launch_field field, const void *node) {
  uint64_t number;
  if (!node || tg__cupti.cuptiGetGraphNodeId(node, &number)) return false;
  tg__cuda_put_field(entry, field, (int64_t)number);
  return true;
}

void tg__cuda_graph_called(uint32_t function, const void *data) {
  struct tg__thread *const t = data ? tg__thread() : NULL;
  const uint8_t *const graph = t ? tg__at_pointer((const uint8_t *)data + AT_DESCRIPTOR) : NULL;
  const bool is_clone = function == GRAPHNODE_CLONED;
  if (!graph || (!is_clone && function != GRAPHNODE_CREATED) || tg__at32(graph + AT_NODE_TYPE) > FILL_NODE) return;
  struct tg__cuda_entry entry = {.len = 0};
  uint32_t stack = 0;
  if (!put_number(&entry, TG_LAUNCH_GRAPH_NODE, tg__at_pointer(graph + AT_NODE))) return;
  if (is_clone) {
    if (!put_number(&entry, TG_LAUNCH_CLONED_FROM, tg__at_pointer(graph + AT_ORIGINAL_NODE))) return;
  } else {
    const struct tg__open *const op = open_operator(t);
    const bool is_thread = op && op->scope == TG_RAW_BACKWARD && !(op->stack & TG_RAW_CONTEXT_ENTRY);
    stack = op && op->stack && !is_thread ? op->stack : tg__stack_now()(t);
    if (op) tg__cuda_put_field(&entry, TG_LAUNCH_OPERATOR, op->name);
    if (!op && !stack) return;
  }
  const uint32_t id = (uint32_t)atomic_fetch_add(&nodes, 1) + 1;
  tg__dictionary_write(t->number, TG_RAW_D_GRAPH_NODE, id, stack, entry.bytes, entry.len);
}

uint64_t tg__cuda_graph_nodes(void) { return atomic_load(&nodes); }
