/* By what calls of one operator are grouped. */
#include "analyze/host/op_group.h"
#include "analyze/overview/steps.h"

enum { STACK_DEFAULT = 5, STACK_MOST = 256 };

/* ---- the argument ---------------------------------------------------------------------------- */

static bool read_part(struct tg__op_group *g, struct tg__str word) {
  static const char *const words[TG__GROUP_PARTS] = {"shape", "overload", "stack", "module", "step"};
  if (tg__str_eq(word, TG_STR("name"))) return true;
  struct tg__str plain = word;
  if (tg__str_has_prefix(word, "stack:")) {
    plain.len = 5;
    g->stack_limit = 0;
    for (uint32_t i = 6; i < word.len; i++) {
      if (word.ptr[i] < '0' || word.ptr[i] > '9') return false;
      g->stack_limit = g->stack_limit * 10 + (uint32_t)(word.ptr[i] - '0');
      if (g->stack_limit > STACK_MOST) g->stack_limit = STACK_MOST;
    }
    if (!g->stack_limit) return false;
  }
  for (unsigned k = 0; k < TG__GROUP_PARTS; k++) {
    if (!tg__str_eq(plain, (struct tg__str){words[k], (uint32_t)strlen(words[k])})) continue;
    for (unsigned i = 0; i < g->count; i++)
      if (g->parts[i] == k) return true; /* said twice */
    g->parts[g->count++] = (enum tg__group_part)k;
    return true;
  }
  return false;
}

static bool asks_for(const struct tg__op_group *g, enum tg__group_part part) {
  for (unsigned i = 0; i < g->count; i++)
    if (g->parts[i] == part) return true;
  return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_module(const struct tg__columns *t, const struct tg__schema_mask *module_id, uint32_t slice) {
  return tg__slice_class(t, slice) == TG__CLASS_PYTHON && tg__schema_mask_has(t, module_id, slice);
}

/* The enclosing module path of every Python frame, in `modules`: the frame itself counted when it is one. NULL on no
 * memory. */
static uint32_t *module_paths(const struct tg__columns *t, struct tg__rank_range range, const uint32_t *around,
                              const struct tg__schema_mask *module_id, struct tg__paths *modules) {
  uint32_t *path = tg__alloc(((size_t)t->slices.count + 1) * sizeof *path);
  if (!path) return NULL;
  for (uint32_t i = range.first_slice; i < range.end_slice; i++) { /* a frame around another has the smaller number */
    path[i] = around[i] == TG_NONE ? 0 : path[around[i]];
    if (is_module(t, module_id, i))
      path[i] =
          tg__paths_step(modules, path[i], tg__paths_label(modules, tg__module_name(tg__name(t, t->slices.name[i]))));
  }
  return path;
}

static bool prepare_op_group(struct tg__op_group *g) {
  if (!tg__paths_open(&g->keys, g->t)) return false;
  if (g->names && !tg__schema_mask_make(g->t, TG__K_FWD_THREAD_ID, &g->forward_thread)) return false;
  const bool stack = asks_for(g, TG__GROUP_STACK), module = asks_for(g, TG__GROUP_MODULE);
  if (!stack && !module) return true;
  g->around = tg__frames_around(g->t, g->range);
  if (!g->around || !tg__schema_mask_make(g->t, TG__K_CALL_STACK, &g->call_stack) ||
      !tg__schema_mask_make(g->t, TG__K_MODULE_HIERARCHY, &g->hierarchy) ||
      !tg__schema_mask_make(g->t, TG__K_PYTHON_MODULE_ID, &g->module_id))
    return false;
  if (stack) {
    const size_t bytes = ((size_t)g->t->slices.count + 1) * sizeof *g->stack_of;
    if (!tg__schema_mask_make(g->t, TG__K_CALL_FROM, &g->called_from) || !tg__paths_open(&g->stacks, g->t) ||
        !(g->stack_of = tg__alloc(bytes)))
      return false;
    memset(g->stack_of, 0xff, bytes); /* filled when asked for */
  }
  if (module) {
    if (!tg__paths_open(&g->modules, g->t)) return false;
    g->module_of = module_paths(g->t, g->range, g->around, &g->module_id, &g->modules);
    if (!g->module_of) return false;
  }
  return true;
}

enum tg_err tg__op_group_open_all(struct tg__op_group *g, const struct tg__columns *t, struct tg__rank_range range,
                                  const struct tg__op_tree *tree, struct tg__call_names *names, const char *by,
                                  struct tg_error *e) {
  *g = (struct tg__op_group){.t = t, .range = range, .tree = tree, .names = names, .stack_limit = STACK_DEFAULT};
  for (const char *at = by; *at;) {
    const size_t len = strcspn(at, "+");
    if (len > 64 || !read_part(g, (struct tg__str){at, (uint32_t)len}))
      return tg__fail(
          e, TG_USAGE, -1,
          "by=%.64s: operators can be grouped by name, shape, overload, stack, stack:N (N innermost frames), "
          "module, step, or several of them joined by +",
          by);
    at += len + (at[len] == '+');
  }
  return prepare_op_group(g) ? TG_OK : tg__no_memory(e, "grouping operators");
}

enum tg_err tg__op_group_open(struct tg__op_group *g, const struct tg__columns *t, struct tg__rank_range range,
                              const struct tg__op_tree *tree, const char *by, struct tg_error *e) {
  return tg__op_group_open_all(g, t, range, tree, NULL, by, e);
}

void tg__op_group_close(struct tg__op_group *g) {
  tg__schema_mask_free(&g->forward_thread);
  tg__schema_mask_free(&g->called_from);
  tg__map_free(&g->lines);
  tg__map_free(&g->plain_shapes);
  tg__schema_mask_free(&g->call_stack);
  tg__schema_mask_free(&g->hierarchy);
  tg__schema_mask_free(&g->module_id);
  tg__paths_close(&g->keys);
  tg__paths_close(&g->stacks);
  tg__paths_close(&g->modules);
  tg__free(g->around);
  tg__free(g->stack_of);
  tg__free(g->module_of);
}

/* ---- one operator ---------------------------------------------------------------------------- */

static uint32_t text_arg(const struct tg__columns *t, const struct tg__schema_mask *mask, uint32_t slice) {
  const uint32_t id = tg__schema_mask_has(t, mask, slice) ? tg__arg_str(t, t->slices.args[slice], mask->key) : TG_NONE;
  return id == TG__K_EMPTY ? TG_NONE : id;
}

/* The slice with the Python frames of an operator: itself. Backward operators run where no frame is: for them the
 * forward operator which the operator itself, or one around it, belongs to. */
static uint32_t slice_in_frames(const struct tg__op_group *g, uint32_t node) {
  const uint32_t own = g->tree->nodes[node].slice;
  for (; g->around[own] == TG_NONE && node != TG_NONE; node = g->tree->nodes[node].parent) {
    const uint32_t forward = g->t->slices.cause[g->tree->nodes[node].slice];
    if (forward != TG_NONE && g->around[forward] != TG_NONE) return forward;
  }
  return own;
}

static uint32_t stack_on(struct tg__op_group *g, uint32_t frame) {
  if (g->stack_of[frame] != TG_NONE) return g->stack_of[frame];
  uint32_t path = 0, f = frame;
  for (uint32_t n = 0; f != TG_NONE && n < g->stack_limit; n++, f = g->around[f])
    path = tg__paths_step(&g->stacks, path, tg__paths_frame(&g->stacks, g->t->slices.name[f]));
  return g->stack_of[frame] = path;
}

bool tg__op_group_is_backward(const struct tg__op_group *g, uint32_t slice) {
  if (tg__slice_class(g->t, slice) != TG__CLASS_OP) return false;
  if (g->forward_thread.any && tg__arg_int(g->t, g->t->slices.args[slice], TG__K_FWD_THREAD_ID, 0) > 0) return true;
  const struct tg__str name = tg__name(g->t, g->t->slices.name[slice]);
  return tg__str_has_prefix(name, "autograd::engine::evaluate_function: ") ||
         tg__str_has_prefix(name, "torch::autograd::");
}

/* The slice with the stack that torch shows for this node: its own, or the forward operator of the backward operator it
 * runs in. */
static uint32_t stack_slice(const struct tg__op_group *g, uint32_t node) {
  for (uint32_t n = node; n != TG_NONE; n = g->tree->nodes[n].parent) {
    const uint32_t slice = g->tree->nodes[n].slice;
    if (tg__op_group_is_backward(g, slice)) return g->t->slices.cause[slice];
  }
  return g->tree->nodes[node].slice;
}

/* "net.py(7): forward" called from "net.py:12" is "net.py(12): forward"; what was called from elsewhere stays. */
static uint32_t write_line(struct tg__op_group *g, uint32_t frame, struct tg__str from) {
  const struct tg__str name = tg__name(g->t, frame);
  uint32_t file = from.len;
  while (file && from.ptr[file - 1] != ':') file--;
  const uint32_t at = file ? file - 1 : 0; /* length of the file's name */
  const char *const end = at < name.len ? memchr(name.ptr + at, ')', name.len - at) : NULL;
  if (!file || !end || name.ptr[at] != '(' || memcmp(name.ptr, from.ptr, at) != 0)
    return tg__paths_frame(&g->stacks, frame);
  struct tg__out text = {0};
  tg__out_bytes(&text, name.ptr, at + 1);
  tg__out_bytes(&text, from.ptr + file, from.len - file);
  tg__out_bytes(&text, end, (size_t)(name.ptr + name.len - end));
  const uint32_t label =
      text.err ? TG_NONE : tg__paths_label(&g->stacks, (struct tg__str){text.buf, (uint32_t)text.len});
  if (text.err) g->stacks.failed = true;
  tg__out_free(&text);
  return label;
}

static uint32_t frame_at_line(struct tg__op_group *g, uint32_t frame, uint32_t from) {
  if (from == TG_NONE) return tg__paths_frame(&g->stacks, frame);
  uint32_t *slot = tg__map_slot(&g->lines, (uint64_t)frame << 32 | from, TG_NONE);
  if (!slot) g->stacks.failed = true;
  if (!slot || *slot == TG_NONE) {
    const uint32_t label = write_line(g, frame, tg__name(g->t, from));
    if (!slot) return label;
    *slot = label;
  }
  return *slot;
}

/* The frames around a slice by the lines they were at, where it and they have the line of their call. A built-in has no
 * line: it is a frame only in torch's tables, as it is there. */
static uint32_t stack_by_lines(struct tg__op_group *g, uint32_t slice) {
  uint32_t path = 0, n = 0;
  for (uint32_t f = g->around[slice]; f != TG_NONE && n < g->stack_limit; slice = f, f = g->around[f]) {
    const uint32_t name = g->t->slices.name[f];
    if (!g->names && tg__str_has_prefix(tg__name(g->t, name), "<built-in")) continue;
    path = tg__paths_step(&g->stacks, path, frame_at_line(g, name, text_arg(g->t, &g->called_from, slice)));
    n++;
  }
  return path;
}

static uint32_t stack_in_frames(struct tg__op_group *g, uint32_t slice) {
  const uint32_t frame = g->around[slice];
  if (frame == TG_NONE) return 0;
  const bool by_lines =
      tg__slice_class(g->t, slice) != TG__CLASS_PYTHON && tg__schema_mask_has(g->t, &g->called_from, slice);
  return by_lines ? stack_by_lines(g, slice) : stack_on(g, frame);
}

/* A text beside frames has the first lines of functions; without frames it has the lines of the calls. */
static uint32_t stack_of(struct tg__op_group *g, uint32_t node) {
  const uint32_t slice = g->names ? stack_slice(g, node) : g->tree->nodes[node].slice;
  if (slice == TG_NONE) return 0;
  const bool has_lines = g->around[slice] != TG_NONE && tg__schema_mask_has(g->t, &g->called_from, slice);
  const uint32_t text = has_lines ? TG_NONE : text_arg(g->t, &g->call_stack, slice);
  if (text != TG_NONE) return tg__paths_split(&g->stacks, text, g->stack_limit);
  return stack_in_frames(g, g->names ? slice : slice_in_frames(g, node));
}

static uint32_t module_of(struct tg__op_group *g, uint32_t node) {
  const uint32_t text = text_arg(g->t, &g->hierarchy, g->tree->nodes[node].slice);
  if (text != TG_NONE) return tg__paths_step(&g->modules, 0, text);
  const uint32_t frame = g->around[slice_in_frames(g, node)];
  return frame == TG_NONE ? 0 : g->module_of[frame];
}

/* [[2, 3], [[4], [5]]] becomes [[2,3],[]]: an input that is a list of tensors loses what is in it. */
static void write_plain_shapes(struct tg__str dims, struct tg__out *out) {
  unsigned depth = 0;
  bool list = false; /* the input at hand is one of tensors */
  for (uint32_t i = 0; i < dims.len; i++) {
    const char c = dims.ptr[i];
    bool inside = depth > 2 || (depth == 2 && list);
    if (c == '[' && ++depth > 2) {
      list = inside = true;
    } else if (c == ']' && depth) {
      inside = depth > 2;
      if (--depth == 1) list = false;
    }
    if (!inside && c != ' ' && c != '\n') tg__out_char(out, c);
  }
}

static uint32_t plain_shape(struct tg__op_group *g, uint32_t dims) {
  uint32_t *slot = tg__map_slot(&g->plain_shapes, dims, TG_NONE);
  if (slot && *slot != TG_NONE) return *slot;
  struct tg__out text = {0};
  write_plain_shapes(tg__name(g->t, dims), &text);
  const uint32_t label =
      tg__paths_label(&g->names->texts, (struct tg__str){text.buf ? text.buf : "", (uint32_t)text.len});
  if (!slot || text.err) g->keys.failed = true;
  tg__out_free(&text);
  if (slot) *slot = label;
  return label;
}

static uint32_t shape_of(struct tg__op_group *g, uint32_t args) {
  const uint32_t dims = tg__arg_dims(g->t, args);
  return dims != TG_NONE && g->names ? plain_shape(g, dims) : dims;
}

static uint32_t step_of(const struct tg__columns *t, uint32_t slice) {
  const uint32_t rank = t->tracks[tg__slice_track(t, slice)].rank;
  const uint32_t step = tg__step_at(t, rank, t->slices.start_ns[slice]);
  return step == TG_NONE ? TG_NONE : t->steps[step].name;
}

uint32_t tg__op_group_of(struct tg__op_group *g, uint32_t node) {
  uint32_t key = 0;
  const uint32_t slice = g->tree->nodes[node].slice;
  for (unsigned i = 0; i < g->count; i++) {
    uint32_t value = TG_NONE; /* a string id, or a path that is not empty */
    switch (g->parts[i]) {
    case TG__GROUP_SHAPE:
      value = shape_of(g, g->t->slices.args[slice]);
      break;
    case TG__GROUP_OVERLOAD:
      value = g->names ? tg__call_overload(g->names, slice)
                       : tg__arg_str(g->t, g->t->slices.args[slice], TG__K_OVERLOAD_NAME);
      break;
    case TG__GROUP_STACK:
      value = stack_of(g, node);
      break;
    case TG__GROUP_MODULE:
      value = module_of(g, node);
      break;
    case TG__GROUP_STEP:
      value = step_of(g->t, slice);
      break;
    case TG__GROUP_PARTS:
      break;
    }
    const bool path = g->parts[i] == TG__GROUP_STACK || g->parts[i] == TG__GROUP_MODULE;
    if (path && value == 0) value = TG_NONE;
    if (value != TG_NONE) g->found[g->parts[i]] = true;
    key = tg__paths_step(&g->keys, key, value);
  }
  return key;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void write_value(const struct tg__op_group *g, enum tg__group_part part, uint32_t value, struct tg__out *out) {
  if (value == TG_NONE) return;
  const struct tg__str s = part == TG__GROUP_STACK || part == TG__GROUP_MODULE ? TG_STR("")
                           : g->names                                          ? tg__call_text(g->names, value)
                                                                               : tg__name(g->t, value);
  switch (part) {
  case TG__GROUP_STACK:
    tg__paths_write(&g->stacks, value, ";", out);
    break;
  case TG__GROUP_MODULE:
    tg__paths_write(&g->modules, value, " / ", out);
    break;
  case TG__GROUP_SHAPE:
    tg__write_list(out, s);
    break;
  default:
    tg__out_bytes(out, s.ptr, s.len);
    break;
  }
}

void tg__op_group_write(const struct tg__op_group *g, uint32_t group, struct tg__out *out) {
  uint32_t values[TG__GROUP_PARTS];
  for (unsigned i = g->count; i-- > 0; group = g->keys.up[group]) values[i] = g->keys.label[group];
  for (unsigned i = 0; i < g->count; i++) {
    if (i) tg__out_text(out, " | ");
    write_value(g, g->parts[i], values[i], out);
  }
}

void tg__op_group_write_part(const struct tg__op_group *g, uint32_t group, enum tg__group_part part,
                             struct tg__out *out) {
  for (unsigned i = g->count; i-- > 0; group = g->keys.up[group])
    if (g->parts[i] == part) write_value(g, part, g->keys.label[group], out);
}

void tg__op_group_notes(const struct tg__op_group *g, struct tg_table *out) {
  static const char *const cures[TG__GROUP_PARTS] = {
      "no input shapes in this trace, so by=shape has no effect: record with record_shapes=True",
      ("no overload names in this trace, so by=overload has no effect: record with "
       "experimental_config=_ExperimentalConfig(capture_overload_names=True)"),
      "no call stacks in this trace, so by=stack has no effect: record with with_stack=True",
      "no module frames in this trace, so by=module has no effect: record with with_stack=True (or "
      "with_modules=True for "
      "TorchScript)",
      "no steps in this trace, so by=step has no effect: call prof.step() once per iteration while recording",
  };
  for (unsigned i = 0; i < g->count; i++)
    if (!g->found[g->parts[i]]) tg__table_note(out, "%s", cures[g->parts[i]]);
}
