/* Nodes of CUDA graphs: which operator captured the node that a kernel ran as. A graph that is instantiated is a clone
 * of the one that was captured, and a kernel names the clone's node. */
#include "trace/import_raw.h"

/* The newest of a number stands for all of a file, so the list of a number is as long as there are files. */
uint32_t tg__raw_take_node(struct tg__raw *w, const struct tg__raw_file *f, uint32_t part,
                           const struct tg__raw_entry *entry, bool *bad) {
  struct tg__raw_fields x;
  *bad = !tg__raw_read_fields(entry->text, &x) || !tg__raw_has(&x, TG_LAUNCH_GRAPH_NODE);
  if (*bad || !tg__grow((void **)&w->nodes, &w->node_cap, w->node_count + 1, sizeof *w->nodes)) return TG_NONE;
  const uint64_t number = (uint64_t)x.value[TG_LAUNCH_GRAPH_NODE];
  const uint32_t at = (uint32_t)w->node_count, before = tg__map_get(&w->node_of, number);
  const bool replaces = before != TG_NONE && w->nodes[before].file == f;
  if (replaces && !tg__raw_has(&x, TG_LAUNCH_OPERATOR) && !tg__raw_has(&x, TG_LAUNCH_CLONED_FROM)) return before;
  w->nodes[at] = (struct tg__raw_node){.file = f,
                                       .number = number,
                                       .from = (uint64_t)x.value[TG_LAUNCH_CLONED_FROM],
                                       .part = part,
                                       .name = (uint32_t)x.value[TG_LAUNCH_OPERATOR],
                                       .stack = entry->parent,
                                       .next = replaces ? w->nodes[before].next : before};
  if (!tg__map_put(&w->node_of, number, at)) return TG_NONE;
  w->node_count++;
  return at;
}

static const struct tg__raw_node *find_node(const struct tg__raw *w, const struct tg__raw_file *f, uint64_t number) {
  uint32_t at = w->node_count ? tg__map_get(&w->node_of, number) : TG_NONE;
  while (at != TG_NONE && w->nodes[at].file != f) at = w->nodes[at].next;
  return at == TG_NONE ? NULL : &w->nodes[at];
}

/* A graph is cloned from one that may be a clone; a hostile file may run in circles. */
static const struct tg__raw_node *find_captured(const struct tg__raw *w, const struct tg__raw_file *f,
                                                uint64_t number) {
  enum { CLONES = 16 };
  const struct tg__raw_node *node = find_node(w, f, number);
  for (int i = 0; i < CLONES && node && node->from; i++) node = find_node(w, f, node->from);
  return node && !node->from ? node : NULL;
}

struct tg__raw_captured tg__raw_captured_by(struct tg__raw *w, const struct tg__raw_file *f, uint64_t number) {
  struct tg__raw_captured c = {TG_NONE, TG_NONE, TG_NONE};
  const struct tg__raw_node *const node = find_captured(w, f, number);
  if (!node) return c;
  const struct tg__raw_ids ids = tg__raw_ids_of(f, node->part);
  const uint32_t name = node->name ? tg__raw_find(&ids, TG_RAW_D_NAME, node->name) : TG_NONE;
  if (name != TG_NONE) c.op = w->names[name].text;
  const struct tg__raw_context around = tg__raw_context_of(w, &ids, node->stack);
  c.module = around.modules;
  if (!around.stack) return c;
  c.stack = tg__raw_full_stack(w, &ids, around.stack);
  if (c.module == TG_NONE) c.module = tg__raw_modules_text(w, &ids, around.stack);
  return c;
}
