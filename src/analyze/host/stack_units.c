/* Python frames, or operators with the text of their call stack, as the units the question stacks counts. */
#include "analyze/host/stack_units.h"

#include "analyze/host/kernel_lines.h"

enum { TEXT_FRAMES = 1024 }; /* of one call stack given as text */

/* ---- names of frames ------------------------------------------------------------------------- */

/* Splits "file(line): function". false for what has another form: built-in functions, modules. */
static bool split_frame(struct tg__str s, struct tg__str *file, struct tg__str *function) {
  for (uint32_t close = s.len; close-- > 0;) {
    if (s.ptr[close] != ')' || close + 2 >= s.len || s.ptr[close + 1] != ':' || s.ptr[close + 2] != ' ') continue;
    uint32_t open = close;
    while (open > 0 && s.ptr[open - 1] >= '0' && s.ptr[open - 1] <= '9') open--;
    if (open == close || open == 0 || s.ptr[open - 1] != '(') continue;
    *file = (struct tg__str){s.ptr, open - 1};
    *function = (struct tg__str){s.ptr + close + 3, s.len - close - 3};
    return true;
  }
  return false;
}

static struct tg__str file_of(struct tg__str frame) {
  struct tg__str file, function;
  if (split_frame(frame, &file, &function)) return file;
  if (tg__str_has_prefix(frame, "nn.Module: ")) return TG_STR("nn.Module");
  return tg__str_has_prefix(frame, "<built-in") ? TG_STR("<built-in>") : frame;
}

/* The label of the row a frame counts for. The line in a recorded frame is where the function begins, so there it
 * stays part of the function's name; in a call stack given as text it is the line being run. */
static uint32_t row_label(struct tg__stack_units *u, uint32_t label) {
  struct tg__str file, function;
  const struct tg__str frame = tg__paths_text(&u->paths, label);
  if (u->by == TG__STACK_FILE) return tg__paths_label(&u->paths, file_of(frame));
  if (u->by != TG__STACK_FUNCTION || !u->from_text || !split_frame(frame, &file, &function)) return label;
  struct tg__out text = {0};
  tg__out_bytes(&text, file.ptr, file.len);
  tg__out_text(&text, ": ");
  tg__out_bytes(&text, function.ptr, function.len);
  const uint32_t made =
      text.err ? TG__K_EMPTY : tg__paths_label(&u->paths, (struct tg__str){text.buf, (uint32_t)text.len});
  if (text.err) u->paths.failed = true;
  tg__out_free(&text);
  return made;
}

void tg__stack_units_write(const struct tg__stack_units *u, uint32_t row, struct tg__out *out) {
  const uint32_t name = u->row_names[row];
  if (u->by == TG__STACK_MODULE || u->by == TG__STACK_FULL) {
    tg__paths_write(&u->paths, name, u->by == TG__STACK_MODULE ? " / " : ";", out);
  } else {
    const struct tg__str s = tg__paths_text(&u->paths, name);
    tg__out_bytes(out, s.ptr, s.len);
  }
}

/* ---- rows and lists of rows ------------------------------------------------------------------ */

static bool add_item(struct tg__stack_units *u, uint32_t name) {
  uint32_t *row = tg__map_slot(&u->row_of, name, (uint32_t)u->row_count);
  if (!row) return false;
  if (*row == u->row_count) {
    if (!tg__grow((void **)&u->row_names, &u->row_cap, u->row_count + 1, sizeof *u->row_names)) return false;
    u->row_names[u->row_count++] = name;
  }
  if (!tg__grow((void **)&u->list_items, &u->item_cap, u->item_count + 1, sizeof *u->list_items)) return false;
  u->list_items[u->item_count++] = *row;
  return true;
}

/* A path turned round: its last label first. */
static uint32_t turned(struct tg__stack_units *u, uint32_t path) {
  uint32_t out = 0;
  for (; path; path = u->paths.up[path]) out = tg__paths_step(&u->paths, out, u->paths.label[path]);
  return out;
}

static bool fill_list(struct tg__stack_units *u, uint32_t key) {
  if (u->by == TG__STACK_MODULE || (!u->from_text && !u->has_lines))
    return add_item(
        u, u->by == TG__STACK_LINE || u->by == TG__STACK_FUNCTION || u->by == TG__STACK_FILE ? row_label(u, key) : key);
  if (u->by == TG__STACK_FULL) return add_item(u, turned(u, key));
  const size_t first = u->item_count;
  for (uint32_t path = key; path; path = u->paths.up[path])
    if (!add_item(u, row_label(u, u->paths.label[path]))) return false;
  for (size_t i = first, k = u->item_count; i + 1 < k; i++) { /* outermost came first */
    const uint32_t other = u->list_items[--k];
    u->list_items[k] = u->list_items[i];
    u->list_items[i] = other;
  }
  return true;
}

/* key: of a recorded frame its label, or its path for by=stack and module; of a text its path. TG_NONE on no memory. */
static uint32_t list_of(struct tg__stack_units *u, uint32_t key) {
  uint32_t *slot = tg__map_slot(&u->list_of, key, TG_NONE);
  if (!slot || *slot != TG_NONE) return slot ? *slot : TG_NONE;
  if (!tg__grow((void **)&u->lists, &u->list_cap, u->list_count + 1, sizeof *u->lists)) return TG_NONE;
  struct tg__stack_list *list = &u->lists[u->list_count];
  list->first = (uint32_t)u->item_count;
  if (!fill_list(u, key)) return TG_NONE;
  list->count = (uint32_t)u->item_count - list->first;
  return *slot = (uint32_t)u->list_count++;
}

static bool add_unit(struct tg__stack_units *u, uint32_t slice, uint32_t parent, uint32_t key) {
  const uint32_t names = list_of(u, key);
  if (names == TG_NONE ||
      (u->count == u->cap && !tg__grow((void **)&u->items, &u->cap, u->count + 1, sizeof *u->items)))
    return false;
  u->items[u->count++] = (struct tg__stack_unit){.slice = slice, .parent = parent, .names = names};
  if (parent != TG_NONE) u->items[parent].kids_ns += u->t->slices.dur_ns[slice];
  return true;
}

static void sum_device_totals(struct tg__stack_units *u) {
  for (size_t i = u->count; i-- > 0;) {
    struct tg__stack_unit *unit = &u->items[i];
    unit->device_total_ns += unit->device_ns;
    if (unit->parent != TG_NONE) u->items[unit->parent].device_total_ns += unit->device_total_ns;
  }
}

/* ---- from recorded frames -------------------------------------------------------------------- */

/* The line that made this call, "file(12): function"; 0 where the trace does not say. */
static uint32_t calling_line(struct tg__stack_units *u, uint32_t slice, uint32_t parent) {
  const uint32_t from = parent == TG_NONE ? TG_NONE : tg__arg_str(u->t, u->t->slices.args[slice], TG__K_CALL_FROM);
  if (from == TG_NONE) return 0;
  struct tg__str file, function, place = tg__name(u->t, from);
  const char *const colon = place.len ? memrchr(place.ptr, ':', place.len) : NULL;
  const struct tg__str frame = tg__name(u->t, u->t->slices.name[u->items[parent].slice]);
  if (!colon || !split_frame(frame, &file, &function) ||
      !tg__str_eq(file, (struct tg__str){place.ptr, (uint32_t)(colon - place.ptr)}))
    return 0;
  struct tg__out text = {0};
  tg__out_bytes(&text, file.ptr, file.len);
  tg__out_char(&text, '(');
  tg__out_bytes(&text, colon + 1, place.len - file.len - 1);
  tg__out_text(&text, "): ");
  tg__out_bytes(&text, function.ptr, function.len);
  const uint32_t label = text.err ? 0 : tg__paths_label(&u->paths, (struct tg__str){text.buf, (uint32_t)text.len});
  u->paths.failed |= text.err;
  tg__out_free(&text);
  return label;
}

/* What a call counts for where lines are known: a function for itself, as its own lines are known only
 * where it calls something; a call of C, or an operator, for the line. All of it is time of the line. */
static uint32_t key_with_line(struct tg__stack_units *u, uint32_t slice, uint32_t parent, uint32_t own) {
  struct tg__str file, function;
  const uint32_t line = calling_line(u, slice, parent);
  const bool has_own = own && (!line || split_frame(tg__paths_text(&u->paths, own), &file, &function));
  const uint32_t path = has_own ? tg__paths_step(&u->paths, 0, own) : 0;
  return line ? tg__paths_step(&u->paths, path, line) : path;
}

static bool add_frame(struct tg__stack_units *u, uint32_t *path_of, uint32_t slice, uint32_t parent) {
  const uint32_t name = u->t->slices.name[slice];
  uint32_t key = tg__paths_frame(&u->paths, name);
  if (u->has_lines) key = key_with_line(u, slice, parent, key);
  if (u->by == TG__STACK_MODULE || u->by == TG__STACK_FULL) {
    const uint32_t label =
        u->by == TG__STACK_FULL ? key : tg__paths_label(&u->paths, tg__module_name(tg__name(u->t, name)));
    key = tg__paths_step(&u->paths, parent == TG_NONE ? 0 : path_of[parent], label);
    path_of[u->count] = key;
  }
  return add_unit(u, slice, parent, key);
}

/* Are there frames of functions? Spans of modules and of the garbage collector are Python slices, too, in recordings
 * without frames. */
static bool has_frames(const struct tg__stack_units *u, const struct tg__schema_mask *module) {
  const struct tg__columns *const t = u->t;
  for (uint32_t i = u->range.first_slice; i < u->range.end_slice; i++) {
    if (tg__slice_class(t, i) != TG__CLASS_PYTHON || t->slices.name[i] == TG__K_PYTHON_GC) continue;
    if (!tg__schema_mask_has(t, module, i)) return true;
  }
  return false;
}

/* An operator that a frame calls, and that calls no function itself. */
static bool is_leaf_operator(const struct tg__columns *t, uint32_t slice, uint32_t end_slice) {
  const uint32_t parent = t->slices.parent[slice];
  const int64_t end = tg__slice_end(t, slice);
  if (tg__slice_class(t, slice) != TG__CLASS_OP || (parent != TG_NONE && tg__slice_class(t, parent) == TG__CLASS_OP))
    return false;
  for (uint32_t i = slice + 1;
       i < end_slice && t->slices.start_ns[i] < end && t->slices.start_ns[i] >= t->slices.start_ns[slice]; i++)
    if (tg__slice_class(t, i) == TG__CLASS_PYTHON) return false;
  return true;
}

/* A compiled kernel is work of all its lines, and of the first by itself; 0: it has none. */
static uint32_t key_of_kernel(struct tg__stack_units *u, uint32_t slice) {
  const struct tg__kernel_lines lines = tg__kernel_lines_of(u->t, slice, &u->paths.failed);
  uint32_t path = 0;
  for (size_t i = 0; i < lines.count; i++)
    path = tg__paths_step(&u->paths, path, tg__paths_label(&u->paths, lines.frames[i]));
  return path;
}

static bool add_operator(struct tg__stack_units *u, const uint32_t *around, uint32_t *unit_at, uint32_t slice) {
  const uint32_t parent = around[slice] == TG_NONE ? TG_NONE : unit_at[around[slice]];
  const uint32_t compiled = key_of_kernel(u, slice);
  unit_at[slice] = TG_NONE;
  if (!compiled && (!is_leaf_operator(u->t, slice, u->range.end_slice) || !calling_line(u, slice, parent))) return true;
  unit_at[slice] = (uint32_t)u->count;
  return add_unit(u, slice, parent, compiled ? compiled : key_with_line(u, slice, parent, 0));
}

/* unit_at: by Python slice, the innermost unit at it: itself when it is one; by operator, itself where it is one. */
static bool add_frames(struct tg__stack_units *u, const uint32_t *around, uint32_t *unit_at,
                       const struct tg__schema_mask *module) {
  const struct tg__columns *t = u->t;
  size_t frames = 0, cap = 0;
  for (uint32_t i = u->range.first_slice; i < u->range.end_slice; i++)
    frames += tg__slice_class(t, i) == TG__CLASS_PYTHON;
  if (!frames) return true;
  uint32_t *path_of = NULL; /* by unit */
  const bool paths = u->by == TG__STACK_MODULE || u->by == TG__STACK_FULL;
  bool ok = u->by == TG__STACK_MODULE ||
            tg__grow((void **)&u->items, &u->cap, frames, sizeof *u->items); /* modules are few */
  if (ok && paths) ok = tg__grow((void **)&path_of, &cap, frames, sizeof *path_of);
  for (uint32_t i = u->range.first_slice; ok && i < u->range.end_slice; i++) {
    if (u->has_lines && tg__slice_class(t, i) == TG__CLASS_OP) ok = add_operator(u, around, unit_at, i);
    if (tg__slice_class(t, i) != TG__CLASS_PYTHON) continue;
    unit_at[i] = around[i] == TG_NONE ? TG_NONE : unit_at[around[i]];
    if (u->by == TG__STACK_MODULE && !tg__schema_mask_has(t, module, i)) continue;
    ok = add_frame(u, path_of, i, unit_at[i]);
    unit_at[i] = (uint32_t)u->count - 1;
  }
  tg__free(path_of);
  return ok;
}

static void attach_device_work(struct tg__stack_units *u, const uint32_t *around, const uint32_t *unit_at) {
  const struct tg__columns *t = u->t;
  for (uint32_t i = u->range.first_slice; i < u->range.end_slice; i++) {
    if (!tg__class_is_device_work(tg__slice_class(t, i))) continue;
    const uint32_t call = tg__launch_of(t, i);
    const uint32_t frame = call == TG_NONE ? TG_NONE : around[call];
    uint32_t unit = frame == TG_NONE ? TG_NONE : unit_at[frame];
    for (uint32_t s = u->has_lines ? call : TG_NONE; s != TG_NONE; s = t->slices.parent[s])
      if (tg__slice_class(t, s) == TG__CLASS_OP && unit_at[s] != TG_NONE) unit = unit_at[s];
    if (unit != TG_NONE) u->items[unit].device_ns += t->slices.dur_ns[i];
  }
}

static enum tg_err build_from_frames(struct tg__stack_units *u) {
  struct tg__schema_mask module = {0};
  uint32_t *around = tg__frames_around(u->t, u->range);
  uint32_t *unit_at = tg__alloc(((size_t)u->t->slices.count + 1) * sizeof *unit_at);
  bool ok = around && unit_at && tg__schema_mask_make(u->t, TG__K_PYTHON_MODULE_ID, &module);
  struct tg__schema_mask from = {0};
  ok = ok && tg__schema_mask_make(u->t, TG__K_CALL_FROM, &from);
  u->has_lines = u->by == TG__STACK_LINE && (from.any || tg__has_kernel_lines(u->t));
  tg__schema_mask_free(&from);
  if (ok && (u->by == TG__STACK_MODULE || has_frames(u, &module))) {
    ok = add_frames(u, around, unit_at, &module);
    if (ok) attach_device_work(u, around, unit_at);
  }
  tg__schema_mask_free(&module);
  tg__free(around);
  tg__free(unit_at);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- from texts ------------------------------------------------------------------------------ */

static bool add_operators(struct tg__stack_units *u, const struct tg__op_tree *tree, const struct tg__schema_mask *text,
                          uint32_t *unit_at) {
  for (uint32_t i = tree->first[u->range.first_track]; i < tree->first[u->range.end_track]; i++) {
    const struct tg__op_node *n = &tree->nodes[i];
    if (n->absorbed_by != TG_NONE) continue;
    unit_at[i] = n->parent == TG_NONE ? TG_NONE : unit_at[n->parent];
    uint32_t id = TG_NONE;
    if (n->is_op && tg__schema_mask_has(u->t, text, n->slice))
      id = tg__arg_str(u->t, u->t->slices.args[n->slice], text->key);
    if (id != TG_NONE && id != TG__K_EMPTY) {
      const uint32_t key =
          u->by == TG__STACK_MODULE ? tg__paths_step(&u->paths, 0, id) : tg__paths_split(&u->paths, id, TEXT_FRAMES);
      if (!add_unit(u, n->slice, unit_at[i], key)) return false;
      unit_at[i] = (uint32_t)u->count - 1;
    }
    if (unit_at[i] != TG_NONE) u->items[unit_at[i]].device_ns += n->device_ns;
  }
  return true;
}

static enum tg_err build_from_texts(struct tg__stack_units *u) {
  struct tg__op_tree tree = {0};
  struct tg__schema_mask text = {0};
  uint32_t *unit_at = NULL;
  enum tg_err err = TG_MEMORY;
  if (!tg__schema_mask_make(u->t, u->by == TG__STACK_MODULE ? TG__K_MODULE_HIERARCHY : TG__K_CALL_STACK, &text))
    goto done;
  err = text.any ? tg__op_tree_build(u->t, &tree) : TG_OK;
  if (err || !text.any) goto done;
  unit_at = tg__alloc((tree.count + 1) * sizeof *unit_at);
  err = unit_at && add_operators(u, &tree, &text, unit_at) ? TG_OK : TG_MEMORY;
done:
  tg__schema_mask_free(&text);
  tg__op_tree_free(&tree);
  tg__free(unit_at);
  return err;
}

/* ---- both ------------------------------------------------------------------------------------ */

enum tg_err tg__stack_units_build(const struct tg__columns *t, struct tg__rank_range range, enum tg__stack_by by,
                                  struct tg__stack_units *u) {
  *u = (struct tg__stack_units){.t = t, .range = range, .by = by};
  if (!tg__paths_open(&u->paths, t)) return TG_MEMORY;
  enum tg_err err = build_from_frames(u);
  if (!err && !u->count) {
    u->from_text = true;
    err = build_from_texts(u);
  }
  sum_device_totals(u);
  return err == TG_OK && u->paths.failed ? TG_MEMORY : err;
}

void tg__stack_units_free(struct tg__stack_units *u) {
  tg__free(u->items);
  tg__free(u->lists);
  tg__free(u->list_items);
  tg__free(u->row_names);
  tg__map_free(&u->row_of);
  tg__map_free(&u->list_of);
  tg__paths_close(&u->paths);
  *u = (struct tg__stack_units){0};
}
