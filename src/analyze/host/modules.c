/* Which module each operator, launch and backward node belongs to. */
#include "analyze/host/modules.h"

#include "analyze/host/kernel_lines.h"

/* ---- places ---------------------------------------------------------------------------------- */

bool tg__modules_is_frame(const struct tg__modules *m, uint32_t slice) {
  return tg__slice_class(m->t, slice) == TG__CLASS_PYTHON && tg__schema_mask_has(m->t, &m->module_id, slice);
}

static uint32_t step_into(struct tg__modules *m, uint32_t place, uint32_t rank, struct tg__str module) {
  if (!place) place = tg__paths_step(&m->paths, 0, rank);
  m->any = true;
  return tg__paths_step(&m->paths, place, tg__paths_label(&m->paths, module));
}

static uint32_t step_into_frame(struct tg__modules *m, uint32_t place, uint32_t rank, uint32_t slice) {
  return step_into(m, place, rank, tg__module_name(tg__name(m->t, m->t->slices.name[slice])));
}

void tg__modules_write(const struct tg__modules *m, uint32_t place, struct tg__out *out) {
  enum { MOST = 64 };
  const uint32_t *const up = m->paths.up;
  uint32_t labels[MOST];
  size_t n = 0;
  for (; place && up[place] && n < MOST; place = up[place]) labels[n++] = m->paths.label[place];
  while (n-- > 0) {
    const struct tg__str s = tg__paths_text(&m->paths, labels[n]);
    tg__out_bytes(out, s.ptr, s.len);
    if (n) tg__out_text(out, " / ");
  }
}

/* Bytes of the first module in the text: up to " / " as our recorder writes it, up to the dot behind
 * "conv(Conv2d)::forward" as TorchScript does. *skip: bytes of what follows it and is not yet the next one. */
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

/* The place a text such as "Net_0 / Linear_1" names inside `place`. */
static uint32_t place_of_text(struct tg__modules *m, uint32_t place, uint32_t rank, struct tg__str s) {
  const bool slashes = tg__str_contains(s, " / ");
  while (s.len) {
    uint32_t skip;
    const uint32_t n = first_module(s, slashes, &skip);
    if (n) place = step_into(m, place, rank, (struct tg__str){s.ptr, n});
    s.ptr += n + skip;
    s.len -= n + skip;
  }
  return place;
}

static uint32_t module_text_of(const struct tg__modules *m, uint32_t slice) {
  if (!tg__schema_mask_has(m->t, &m->hierarchy, slice)) return TG_NONE;
  const uint32_t text = tg__arg_str(m->t, m->t->slices.args[slice], TG__K_MODULE_HIERARCHY);
  return text == TG__K_EMPTY ? TG_NONE : text;
}

/* A place includes the rank. TG_NONE on no memory. */
static uint32_t place_inside(struct tg__modules *m, uint32_t around, uint32_t rank, uint32_t text,
                             struct tg__map *by_text) {
  if (!around) around = tg__paths_step(&m->paths, 0, rank);
  uint32_t *place = around == TG_NONE ? NULL : tg__map_slot(by_text, (uint64_t)around << 32 | text, TG_NONE);
  if (place && *place == TG_NONE) *place = place_of_text(m, around, rank, tg__name(m->t, text));
  return place ? *place : TG_NONE;
}

/* The place of the nearest frame around a node, 0 = none. */
static uint32_t frame_place(const struct tg__modules *m, uint32_t node) {
  while (node != TG_NONE && !tg__modules_is_frame(m, m->tree->nodes[node].slice)) node = m->tree->nodes[node].parent;
  return node == TG_NONE ? 0 : m->place[node];
}

/* ---- compiled code --------------------------------------------------------------------------- */

struct tg__str tg__module_class(struct tg__str module, struct tg__str *attribute) {
  const char *const open = module.len && module.ptr[module.len - 1] == ')' ? memchr(module.ptr, '(', module.len) : NULL;
  *attribute = open ? (struct tg__str){module.ptr, (uint32_t)(open - module.ptr)} : TG_STR("");
  if (open) return (struct tg__str){open + 1, module.len - attribute->len - 2};
  uint32_t end = module.len;
  while (end && module.ptr[end - 1] >= '0' && module.ptr[end - 1] <= '9') end--;
  const bool numbered = end < module.len && end > 1 && module.ptr[end - 1] == '_';
  return numbered ? (struct tg__str){module.ptr, end - 1} : module;
}

/* Time of a kernel that does the work of several modules is that of the innermost one around all of them. */
static uint32_t place_of_kernel(struct tg__modules *m, uint32_t around, uint32_t rank, struct tg__str path) {
  uint32_t skip;
  for (uint32_t n; path.len; path.ptr += n + skip, path.len -= n + skip) {
    n = first_module(path, true, &skip);
    if (n) around = step_into(m, around, rank, (struct tg__str){path.ptr, n});
  }
  return around;
}

static uint64_t calls_key(const struct tg__modules *m, uint32_t slice) {
  return (uint64_t)m->t->slices.parent[slice] << 32 | m->t->slices.name[slice];
}

/* The number of each call among those of its name in a run of the compiled code. */
static bool number_calls(struct tg__modules *m) {
  m->call = tg__alloc((m->tree->count + 1) * sizeof *m->call);
  if (!m->call) return false;
  for (uint32_t i = 0; i < m->tree->count; i++) {
    const struct tg__op_node *const n = &m->tree->nodes[i];
    m->call[i] = TG_NONE;
    if (!n->is_op || !tg__module_calls_of(m->t, n->slice, &m->paths.failed).count) continue;
    uint32_t *const count = tg__map_slot(&m->calls, calls_key(m, n->slice), 0);
    if (!count) return false;
    m->call[i] = (*count)++;
  }
  return !m->paths.failed;
}

static struct tg__str path_of_op(struct tg__modules *m, uint32_t node) {
  const uint32_t slice = m->tree->nodes[node].slice, call = m->call[node];
  if (call == TG_NONE) return tg__common_module(tg__kernel_modules_of(m->t, slice, &m->paths.failed));
  const struct tg__kernel_modules calls = tg__module_calls_of(m->t, slice, &m->paths.failed);
  return tg__map_get(&m->calls, calls_key(m, slice)) == calls.count ? calls.paths[call] : tg__common_module(calls);
}

static bool is_compiled(const struct tg__modules *m, uint32_t slice) {
  return tg__is_compiled_kernel(tg__name(m->t, m->t->slices.name[slice]));
}

static uint32_t place_of_compiled(struct tg__modules *m, uint32_t node, uint32_t around) {
  const struct tg__op_node *const n = &m->tree->nodes[node];
  if (!m->call || !n->is_op) return around;
  const uint32_t slice = n->slice, parent = m->t->slices.parent[slice];
  if (parent != TG_NONE && is_compiled(m, parent))
    return around; /* its second name: graph_0_cpp_fused_x in cpp_fused_x */
  return place_of_kernel(m, around, m->t->tracks[tg__slice_track(m->t, slice)].rank, path_of_op(m, node));
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Frames go before texts, which repeat what the frames say where both are there. TorchScript's modules have no frames:
 * they lie inside the frame of the module that Python called. */
static uint32_t forward_place(struct tg__modules *m, uint32_t rank, uint32_t node, struct tg__map *by_text) {
  const struct tg__op_node *n = &m->tree->nodes[node];
  const uint32_t around = n->parent == TG_NONE ? 0 : m->place[n->parent];
  if (tg__modules_is_frame(m, n->slice)) return step_into_frame(m, around, rank, n->slice);
  const uint32_t text = n->is_op ? module_text_of(m, n->slice) : TG_NONE;
  if (text == TG_NONE) return place_of_compiled(m, node, around);
  if (tg__str_has_prefix(tg__name(m->t, text), "TOP("))
    return place_inside(m, frame_place(m, n->parent), rank, text, by_text);
  const uint32_t place = around ? around : place_inside(m, 0, rank, text, by_text);
  return place == TG_NONE ? TG_NONE : place_of_compiled(m, node, place);
}

static bool accumulates(const struct tg__modules *m, const struct tg__op_node *n) {
  return tg__str_has_suffix(tg__name(m->t, m->t->slices.name[n->slice]), "AccumulateGrad");
}

static bool is_autograd(const struct tg__modules *m, const struct tg__op_node *n) {
  if (!n->is_op) return false;
  return m->t->slices.cause[n->slice] != TG_NONE || accumulates(m, n) ||
         tg__str_has_prefix(tg__name(m->t, m->t->slices.name[n->slice]), "autograd::engine::evaluate_function: ");
}

/* Everything outside of autograd's nodes. Parents stand before their children. */
static bool place_forward(struct tg__modules *m, struct tg__rank_range range) {
  struct tg__map by_text = {0}; /* (place around, string id) → place */
  bool done = true;
  for (uint32_t k = range.first_track; done && k < range.end_track; k++) {
    for (uint32_t i = m->tree->first[k]; done && i < m->tree->first[k + 1]; i++) {
      const struct tg__op_node *n = &m->tree->nodes[i];
      m->in_backward[i] = is_autograd(m, n) || (n->parent != TG_NONE && m->in_backward[n->parent]);
      if (m->in_backward[i]) continue;
      m->place[i] = forward_place(m, m->t->tracks[k].rank, i, &by_text);
      done = m->place[i] != TG_NONE;
    }
  }
  tg__map_free(&by_text);
  return done;
}

/* ---- backward -------------------------------------------------------------------------------- */

static uint32_t place_of_forward_op(const struct tg__modules *m, uint32_t slice) {
  const uint32_t op = m->t->slices.cause[slice], node = op == TG_NONE ? TG_NONE : m->tree->node_of[op];
  return node == TG_NONE ? 0 : m->place[node];
}

/* Of what is no operator inside a node of autograd: a module that computes its forward again, or something without a
 * place of its own. Checkpointing computes again when the first of the tensors is asked for, so autograd's node is
 * one from inside the module: where the module is among those around that node, that is its place. */
static uint32_t recomputed_place(struct tg__modules *m, uint32_t node, uint32_t around, uint32_t rank) {
  const uint32_t slice = m->tree->nodes[node].slice, parent = m->tree->nodes[node].parent;
  if (!tg__modules_is_frame(m, slice)) return around;
  const uint32_t label = tg__paths_label(&m->paths, tg__module_name(tg__name(m->t, m->t->slices.name[slice])));
  const bool is_first = parent == TG_NONE || m->tree->nodes[parent].is_op;
  for (uint32_t place = is_first ? around : 0; place && m->paths.up[place];
       place = m->paths.up[place]) /* the last is the rank */
    if (m->paths.label[place] == label) return place;
  return step_into_frame(m, around, rank, slice);
}

/* A node of autograd that knows its forward operator, all that runs in it, the evaluate_function around it, and the
 * gradient accumulation that comes directly behind it, which adds what it computed to the parameter, belong to one
 * module. */
static void place_backward(struct tg__modules *m, uint32_t track) {
  const struct tg__op_node *nodes = m->tree->nodes;
  uint32_t group = 0, outermost = TG_NONE; /* place of autograd's outermost node before; the one at hand */
  for (uint32_t i = m->tree->first[track]; i < m->tree->first[track + 1]; i++) {
    if (!m->in_backward[i]) {
      if (m->place[i]) group = 0; /* a forward in between */
      continue;
    }
    const uint32_t parent = nodes[i].parent;
    const bool inner = parent != TG_NONE && m->in_backward[parent];
    const uint32_t around = parent == TG_NONE ? 0 : m->place[parent];
    if (!nodes[i].is_op) {
      m->place[i] = recomputed_place(m, i, around, m->t->tracks[track].rank);
      continue;
    }
    const uint32_t own = place_of_forward_op(m, nodes[i].slice);
    m->place[i] = place_of_compiled(m, i, own ? own : around);
    if (inner) {
      if (own && !m->place[outermost]) group = m->place[outermost] = own;
      continue;
    }
    outermost = i;
    if (!own && group && accumulates(m, &nodes[i])) m->place[i] = group;
    group = m->place[i];
  }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static uint64_t captured_key(const struct tg__modules *m, uint32_t slice) {
  const uint32_t text = tg__arg_str(m->t, m->t->slices.args[slice], TG__K_CAPTURED_MODULE);
  return (uint64_t)m->t->tracks[tg__slice_track(m->t, slice)].rank << 32 | text;
}

/* What a launched graph does was captured by operators of a step long before: their modules, as texts. */
static bool place_captured(struct tg__modules *m, struct tg__rank_range range) {
  for (uint32_t i = range.first_slice; m->captured.any && i < range.end_slice; i++) {
    if (!tg__schema_mask_has(m->t, &m->captured, i)) continue;
    const uint64_t key = captured_key(m, i);
    uint32_t *const place = tg__map_slot(&m->captured_place, key, TG_NONE);
    if (!place) return false;
    if (*place == TG_NONE && (uint32_t)key != TG_NONE)
      *place = place_of_text(m, 0, (uint32_t)(key >> 32), tg__name(m->t, (uint32_t)key));
  }
  return true;
}

/* ---- device work ----------------------------------------------------------------------------- */

static uint32_t node_behind(const struct tg__modules *m, uint32_t slice) {
  const uint32_t call = tg__launch_of(m->t, slice), op = tg__launching_op(m->t, slice);
  const uint32_t node = op == TG_NONE ? TG_NONE : m->tree->node_of[op];
  if (node != TG_NONE || call == TG_NONE) return node;
  return m->around[call]; /* launched by Python itself, as Triton's kernels are */
}

struct kernel_calls { /* of a name, launched from one place: a run of the compiled code */
  struct tg__map count, done;
  struct tg__map last; /* launch; TG_NONE - 1: not in the order of the device, as on several streams */
};

static uint64_t launches_key(const struct tg__modules *m, uint32_t slice) {
  const uint32_t launch = tg__launch_of(m->t, slice);
  return (uint64_t)(launch == TG_NONE ? TG_NONE : m->t->slices.parent[launch]) << 32 | m->t->slices.name[slice];
}

static bool number_kernel(const struct tg__modules *m, uint32_t slice, struct kernel_calls *calls) {
  const uint64_t key = launches_key(m, slice);
  const uint32_t launch = tg__launch_of(m->t, slice);
  uint32_t *const count = tg__map_slot(&calls->count, key, 0);
  uint32_t *const last = count ? tg__map_slot(&calls->last, key, 0) : NULL;
  if (!last) return false;
  (*count)++;
  *last = launch < *last || launch == TG_NONE ? TG_NONE - 1 : launch;
  return true;
}

static bool place_kernel(struct tg__modules *m, uint32_t slice, struct kernel_calls *of) {
  const uint64_t key = launches_key(m, slice);
  const uint32_t node = node_behind(m, slice), rank = m->t->tracks[tg__slice_track(m->t, slice)].rank;
  uint32_t *const done = tg__map_slot(&of->done, key, 0);
  if (!done) return false;
  const uint32_t call = (*done)++;
  if (node != TG_NONE && is_compiled(m, m->tree->nodes[node].slice)) return true; /* it is where its call is */
  const struct tg__kernel_modules calls = tg__module_calls_of(m->t, slice, &m->paths.failed);
  const bool known = tg__map_get(&of->count, key) == calls.count && tg__map_get(&of->last, key) != TG_NONE - 1;
  const struct tg__str path =
      known ? calls.paths[call] : tg__common_module(tg__kernel_modules_of(m->t, slice, &m->paths.failed));
  if (!path.len) return true;
  return tg__map_put(&m->kernel_place, slice, place_of_kernel(m, node == TG_NONE ? 0 : m->place[node], rank, path));
}

static bool place_kernels(struct tg__modules *m, struct tg__rank_range range) {
  struct kernel_calls calls = {0};
  bool ok = true;
  for (int pass = 0; pass < 2 && m->call; pass++)
    for (uint32_t i = range.first_slice; ok && i < range.end_slice; i++)
      if (tg__slice_class(m->t, i) == TG__CLASS_KERNEL && is_compiled(m, i))
        ok = pass ? place_kernel(m, i, &calls) : number_kernel(m, i, &calls);
  tg__map_free(&calls.count);
  tg__map_free(&calls.done);
  tg__map_free(&calls.last);
  return ok && !m->paths.failed;
}

/* ---- all together ---------------------------------------------------------------------------- */

/* For what is no node, such as runtime calls outside of operators. */
static void place_slices(struct tg__modules *m, struct tg__rank_range range) {
  const struct tg__columns *t = m->t;
  for (uint32_t i = range.first_slice; i < range.end_slice; i++) {
    const uint32_t parent = t->slices.parent[i]; /* has the smaller number */
    if (m->module_id.any && tg__modules_is_frame(m, i))
      m->around[i] = m->tree->node_of[i];
    else
      m->around[i] = parent == TG_NONE ? TG_NONE : m->around[parent];
  }
}

enum tg_err tg__modules_have_names(const struct tg__columns *t, bool *any) {
  struct tg__schema_mask ids = {0}, hierarchies = {0}, captured = {0};
  const bool ok = tg__schema_mask_make(t, TG__K_PYTHON_MODULE_ID, &ids) &&
                  tg__schema_mask_make(t, TG__K_MODULE_HIERARCHY, &hierarchies) &&
                  tg__schema_mask_make(t, TG__K_CAPTURED_MODULE, &captured);
  *any = ok && (ids.any || hierarchies.any || captured.any || tg__has_kernel_modules(t));
  tg__schema_mask_free(&ids);
  tg__schema_mask_free(&hierarchies);
  tg__schema_mask_free(&captured);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__modules_open(struct tg__modules *m, const struct tg__columns *t, struct tg__rank_range range,
                             const struct tg__op_tree *tree) {
  *m = (struct tg__modules){.t = t, .tree = tree};
  m->place = tg__alloc((tree->count + 1) * sizeof *m->place);
  m->in_backward = tg__alloc((tree->count + 1) * sizeof *m->in_backward);
  m->around = tg__alloc(((size_t)t->slices.count + 1) * sizeof *m->around);
  const bool ready = m->place && m->in_backward && m->around && tg__paths_open(&m->paths, t) &&
                     tg__schema_mask_make(t, TG__K_PYTHON_MODULE_ID, &m->module_id) &&
                     tg__schema_mask_make(t, TG__K_MODULE_HIERARCHY, &m->hierarchy) &&
                     tg__schema_mask_make(t, TG__K_CAPTURED_MODULE, &m->captured);
  if (!ready || (tg__has_kernel_modules(t) && !number_calls(m))) return TG_MEMORY;
  if (!place_forward(m, range) || !place_captured(m, range)) return TG_MEMORY;
  for (uint32_t k = range.first_track; k < range.end_track; k++) place_backward(m, k);
  place_slices(m, range);
  return place_kernels(m, range) && !m->paths.failed ? TG_OK : TG_MEMORY;
}

void tg__modules_close(struct tg__modules *m) {
  tg__paths_close(&m->paths);
  tg__schema_mask_free(&m->module_id);
  tg__schema_mask_free(&m->hierarchy);
  tg__schema_mask_free(&m->captured);
  tg__map_free(&m->captured_place);
  tg__map_free(&m->calls);
  tg__map_free(&m->kernel_place);
  tg__free(m->call);
  tg__free(m->place);
  tg__free(m->in_backward);
  tg__free(m->around);
  *m = (struct tg__modules){0};
}

/* Collectives that the backward launches are DistributedDataParallel's: they hang on whatever gradient was ready
 * last. */
uint32_t tg__modules_of_device_work(const struct tg__modules *m, uint32_t slice, bool *backward) {
  *backward = false;
  if (m->captured.any && tg__schema_mask_has(m->t, &m->captured, slice)) {
    const uint32_t place = tg__map_get(&m->captured_place, captured_key(m, slice));
    return place == TG_NONE ? 0 : place;
  }
  const uint32_t node = node_behind(m, slice), own = tg__map_get(&m->kernel_place, slice);
  if (own != TG_NONE) {
    *backward = node != TG_NONE && m->in_backward[node];
    return own;
  }
  if (node == TG_NONE) return 0;
  if (m->in_backward[node] && tg__slice_class(m->t, slice) == TG__CLASS_KERNEL &&
      tg__name_is_collective_kernel(tg__name(m->t, m->t->slices.name[slice])))
    return 0;
  *backward = m->in_backward[node] && m->place[node];
  return m->place[node];
}
