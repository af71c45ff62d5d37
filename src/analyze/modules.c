/* Which module each operator, launch and backward node belongs to. */
#include "analyze/modules.h"

/* ---- places ------------------------------------------------------------------------------------------------------------------------- */

bool tg__modules_is_frame(const struct tg__modules *m, uint32_t slice) {
  return tg__slice_class(m->t, slice) == TG__CLASS_PYTHON && tg__schema_mask_has(m->t, &m->module_id, slice);
}

static uint32_t step_into(struct tg__modules *m, uint32_t place, uint32_t rank, struct tg__str module) {
  if (!place) place = tg__paths_step(&m->paths, 0, rank);
  m->any = true;
  return tg__paths_step(&m->paths, place, tg__paths_label(&m->paths, module));
}

/* Bytes of the first module in the text: up to " / " as our recorder writes it, up to the dot behind "conv(Conv2d)::forward" as
 * TorchScript does. *skip: bytes of what follows it and is not yet the next one. */
static uint32_t first_module(struct tg__str s, bool slashes, uint32_t *skip) {
  bool colons = false;
  for (uint32_t i = 0; i < s.len; i++) {
    if (slashes && s.len - i > 3 && memcmp(s.ptr + i, " / ", 3) == 0) {
      *skip = 3;
      return i;
    }
    if (!slashes && s.ptr[i] == ':') colons = true;
    if (!slashes && colons && s.ptr[i] == '.') {
      *skip = 1;
      return i;
    }
  }
  *skip = 0;
  return s.len;
}

/* The place a text such as "Net_0 / Linear_1" names. */
static uint32_t place_of_text(struct tg__modules *m, uint32_t rank, struct tg__str s) {
  const bool slashes = tg__str_contains(s, " / ");
  uint32_t place = 0;
  while (s.len) {
    uint32_t skip;
    const uint32_t n = first_module(s, slashes, &skip);
    if (n) place = step_into(m, place, rank, (struct tg__str){s.ptr, n});
    s.ptr += n + skip;
    s.len -= n + skip;
  }
  return place;
}

static uint32_t text_of(const struct tg__modules *m, uint32_t slice) {
  if (!tg__schema_mask_has(m->t, &m->hierarchy, slice)) return TG_NONE;
  const uint32_t text = tg__arg_str(m->t, m->t->slices.args[slice], TG__K_MODULE_HIERARCHY);
  return text == TG__K_EMPTY ? TG_NONE : text;
}

/* 0 when the operator names none; TG_NONE on no memory. */
static uint32_t place_of_op_text(struct tg__modules *m, uint32_t rank, uint32_t slice, struct tg__map *by_text) {
  const uint32_t text = text_of(m, slice);
  if (text == TG_NONE) return 0;
  uint32_t *place = tg__map_slot(by_text, (uint64_t)rank << 32 | text, TG_NONE);
  if (place && *place == TG_NONE) *place = place_of_text(m, rank, tg__name(m->t, text));
  return place ? *place : TG_NONE;
}

/* Frames go before texts: a text repeats what the frames say, where both are there. Parents stand before their children. */
static bool place_nodes(struct tg__modules *m) {
  struct tg__map by_text = {0}; /* (rank, string id) → place */
  bool done = true;
  for (uint32_t k = 0; done && k < m->t->track_count; k++) {
    const uint32_t rank = m->t->tracks[k].rank;
    for (uint32_t i = m->tree->first[k]; done && i < m->tree->first[k + 1]; i++) {
      const struct tg__op_node *n = &m->tree->nodes[i];
      uint32_t place = n->parent == TG_NONE ? 0 : m->forward[n->parent];
      if (tg__modules_is_frame(m, n->slice))
        place = step_into(m, place, rank, tg__module_name(tg__name(m->t, m->t->slices.name[n->slice])));
      else if (!place && n->is_op)
        place = place_of_op_text(m, rank, n->slice, &by_text);
      done = place != TG_NONE;
      m->forward[i] = place;
    }
  }
  tg__map_free(&by_text);
  return done;
}

/* For what is no node, such as runtime calls outside of operators. */
static void place_slices(struct tg__modules *m) {
  const struct tg_trace *t = m->t;
  for (uint32_t i = 0; m->module_id.any && i < t->slices.count; i++) {
    const uint32_t parent = t->slices.parent[i]; /* has the smaller number */
    if (tg__modules_is_frame(m, i) && m->tree->node_of[i] != TG_NONE)
      m->at_slice[i] = m->forward[m->tree->node_of[i]];
    else
      m->at_slice[i] = parent == TG_NONE ? 0 : m->at_slice[parent];
  }
}

/* ---- autograd ----------------------------------------------------------------------------------------------------------------------- */

static uint32_t place_of_forward_op(const struct tg__modules *m, uint32_t slice) {
  const uint32_t op = m->t->slices.cause[slice], node = op == TG_NONE ? TG_NONE : m->tree->node_of[op];
  return node == TG_NONE ? 0 : m->forward[node];
}

static bool is_outermost(const struct tg__modules *m, uint32_t node) {
  const uint32_t parent = m->tree->nodes[node].parent;
  return parent == TG_NONE || !m->tree->nodes[parent].is_op;
}

/* A node of autograd that knows its forward operator, all that runs in it, the evaluate_function around it, and the gradient
 * accumulation that comes directly behind it, which adds what it computed to the parameter, belong to one module. */
static void place_backward(struct tg__modules *m) {
  const struct tg__op_node *nodes = m->tree->nodes;
  for (uint32_t k = 0; k < m->t->track_count; k++) {
    uint32_t group = 0; /* place of the outermost autograd node before */
    uint32_t outermost = TG_NONE;
    for (uint32_t i = m->tree->first[k]; i < m->tree->first[k + 1]; i++) {
      const uint32_t parent = nodes[i].parent;
      if (!nodes[i].is_op || m->forward[i]) {
        if (m->forward[i]) group = 0;
        continue;
      }
      if (is_outermost(m, i)) outermost = i;
      const uint32_t own = place_of_forward_op(m, nodes[i].slice);
      const uint32_t around = parent == TG_NONE || !nodes[parent].is_op ? 0 : m->backward[parent];
      m->backward[i] = own ? own : around;
      if (own && outermost != TG_NONE && !m->backward[outermost]) group = m->backward[outermost] = own;
      if (outermost != i) continue;
      const bool accumulates = tg__str_has_suffix(tg__name(m->t, m->t->slices.name[nodes[i].slice]), "AccumulateGrad");
      if (accumulates && !own) m->backward[i] = group;
      group = m->backward[i];
    }
  }
}

/* ---- all together ------------------------------------------------------------------------------------------------------------------- */

enum tg_err tg__modules_open(struct tg__modules *m, const struct tg_trace *t, const struct tg__op_tree *tree) {
  *m = (struct tg__modules){.t = t, .tree = tree};
  m->forward = tg__alloc((tree->count + 1) * sizeof *m->forward);
  m->backward = tg__alloc((tree->count + 1) * sizeof *m->backward);
  m->at_slice = tg__alloc(((size_t)t->slices.count + 1) * sizeof *m->at_slice);
  const bool ready = m->forward && m->backward && m->at_slice && tg__paths_open(&m->paths, t) &&
                     tg__schema_mask_make(t, TG__K_PYTHON_MODULE_ID, &m->module_id) &&
                     tg__schema_mask_make(t, TG__K_MODULE_HIERARCHY, &m->hierarchy);
  if (!ready || !place_nodes(m)) return TG_MEMORY;
  place_slices(m);
  place_backward(m);
  return m->paths.failed ? TG_MEMORY : TG_OK;
}

void tg__modules_close(struct tg__modules *m) {
  tg__paths_close(&m->paths);
  tg__schema_mask_free(&m->module_id);
  tg__schema_mask_free(&m->hierarchy);
  tg__free(m->at_slice);
  tg__free(m->forward);
  tg__free(m->backward);
  *m = (struct tg__modules){0};
}

uint32_t tg__modules_of_device_work(const struct tg__modules *m, uint32_t slice, bool *backward) {
  *backward = false;
  const uint32_t call = tg__launch_of(m->t, slice), op = tg__launching_op(m->t, slice);
  const uint32_t node = op == TG_NONE ? TG_NONE : m->tree->node_of[op];
  if (node == TG_NONE) return call == TG_NONE ? 0 : m->at_slice[call]; /* launched by Python itself, as Triton's kernels are */
  if (m->forward[node]) return m->forward[node];
  *backward = m->backward[node] != 0;
  return m->backward[node];
}
