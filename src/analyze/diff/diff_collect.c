/* What each operator, module, kernel or family came to in each step of one trace. */
#include "analyze/diff/diff.h"
#include "analyze/names/kernel_family.h"
#include "analyze/host/op_group.h"

const char *const tg__diff_by_names[TG__DIFF_BYS + 1] = {"step",   "category", "op",     "module",
                                                         "kernel", "family",   "memory", NULL};
const char *const tg__diff_figure_names[TG__DIFF_FIGURES + 1] = {"calls",  "cpu",         "self_cpu",
                                                                 "device", "self_device", NULL};

struct work {
  const struct tg__diff_side *s;
  struct tg__diff_named *out;
  uint32_t *row_of; /* by string id of the trace, TG_NONE = not seen yet */
};

/* ---- entries --------------------------------------------------------------------------------- */

static struct tg__diff_entry *entry_of(struct tg__diff_named *n, uint32_t row, uint32_t step) {
  uint32_t *slot = tg__map_slot(&n->at, (uint64_t)row << 32 | step, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&n->items, &n->cap, n->count + 1, sizeof *n->items)) return NULL;
    *slot = (uint32_t)n->count;
    n->items[n->count++] = (struct tg__diff_entry){.row = row, .step = step};
  }
  return &n->items[*slot];
}

void tg__diff_named_free(struct tg__diff_named *n) {
  tg__strings_free(n->names);
  tg__free(n->items);
  tg__map_free(&n->at);
  *n = (struct tg__diff_named){0};
}

/* Ids in `to` of all names of n; NULL on no memory. */
static uint32_t *rename_rows(const struct tg__diff_named *n, struct tg__strings *to) {
  const uint32_t count = tg__strings_count(n->names);
  uint32_t *const ids = tg__alloc(((size_t)count + 1) * sizeof *ids);
  for (uint32_t i = 0; ids && i < count; i++) {
    const struct tg__str name = tg__strings_get(n->names, i);
    ids[i] = tg__strings_add(to, name.ptr, name.len);
    if (ids[i] != TG_NONE) continue;
    tg__free(ids);
    return NULL;
  }
  return ids;
}

bool tg__diff_named_add(struct tg__diff_named *to, const struct tg__diff_named *from, bool most) {
  if (!from->names) return true;
  if (!to->names && !(to->names = tg__strings_new())) return false;
  uint32_t *const rows = rename_rows(from, to->names);
  bool ok = rows != NULL;
  for (size_t i = 0; ok && i < from->count; i++) {
    const struct tg__diff_entry *const x = &from->items[i];
    struct tg__diff_entry *const y = entry_of(to, rows[x->row], x->step);
    ok = y != NULL;
    for (unsigned f = 0; ok && f < TG__DIFF_FIGURES; f++)
      if (most)
        y->v[f] = x->v[f] > y->v[f] ? x->v[f] : y->v[f];
      else
        y->v[f] += x->v[f];
  }
  to->loose += from->loose;
  to->has_modules |= from->has_modules;
  tg__free(rows);
  return ok;
}

bool tg__diff_named_sort(const struct tg__diff_named *n, size_t steps, struct tg__strings *names,
                         struct tg__diff_sorted *out) {
  uint32_t *const rows = rename_rows(n, names);
  out->items = tg__alloc((n->count + 1) * sizeof *out->items);
  for (size_t i = 0; rows && out->items && i < n->count; i++) {
    if (n->items[i].step >= steps) continue;
    out->items[out->count] = n->items[i];
    out->items[out->count++].row = rows[n->items[i].row];
  }
  tg__free(rows);
  return rows && out->items;
}

bool tg__diff_sorted_end(struct tg__diff_sorted *s, size_t rows) {
  s->first = tg__alloc((rows + 2) * sizeof *s->first);
  struct tg__diff_entry *const sorted = tg__alloc((s->count + 1) * sizeof *sorted);
  if (!s->first || !sorted) {
    tg__free(sorted);
    return false;
  }
  for (size_t i = 0; i < s->count; i++) s->first[s->items[i].row + 2]++;
  for (size_t r = 0; r < rows; r++) s->first[r + 2] += s->first[r + 1];
  for (size_t i = 0; i < s->count; i++)
    sorted[s->first[s->items[i].row + 1]++] =
        s->items[i]; /* moves each row's start on to its end, where the next starts */
  tg__free(s->items);
  s->items = sorted;
  return true;
}

void tg__diff_sorted_free(struct tg__diff_sorted *s) {
  tg__free(s->items);
  tg__free(s->first);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t row_of_text(struct work *w, const struct tg__out *text) {
  return text->err ? TG_NONE : tg__strings_add(w->out->names, text->buf ? text->buf : "", text->len);
}

/* The row of a name of the trace; `family`: of its kernel family. TG_NONE on no memory. */
static uint32_t row_of_name(struct work *w, uint32_t string_id, bool family) {
  uint32_t *row = &w->row_of[string_id];
  if (*row != TG_NONE) return *row;
  const struct tg__str name = tg__name(w->s->t, string_id);
  if (!family) return *row = tg__strings_add(w->out->names, name.ptr, name.len);
  struct tg__out text = {0};
  tg__kernel_family(name, &text);
  *row = row_of_text(w, &text);
  tg__out_free(&text);
  return *row;
}

static bool open_rows(struct work *w) {
  const size_t count = (size_t)tg__strings_count(w->s->t->strings) + 1;
  w->row_of = tg__alloc(count * sizeof *w->row_of);
  if (w->row_of) memset(w->row_of, 0xff, count * sizeof *w->row_of);
  return w->row_of != NULL;
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool add_diff_node(struct work *w, const struct tg__op_node *n, uint32_t row, uint32_t step, bool inside) {
  struct tg__diff_entry *entry = row == TG_NONE ? NULL : entry_of(w->out, row, step);
  if (!entry) return false;
  const int64_t self_ns = tg__op_tree_self_ns(w->s->t, n);
  if (inside) { /* of a module: its own operators, and the sum over those inside it */
    entry->v[TG__DIFF_CPU] += self_ns;
    entry->v[TG__DIFF_DEVICE] += n->device_ns;
    return true;
  }
  entry->v[TG__DIFF_CALLS]++;
  entry->v[TG__DIFF_CPU] += w->s->t->slices.dur_ns[n->slice];
  entry->v[TG__DIFF_SELF_CPU] += self_ns;
  entry->v[TG__DIFF_DEVICE] += n->device_total_ns;
  entry->v[TG__DIFF_SELF_DEVICE] += n->device_ns;
  return true;
}

typedef bool visit_fn(void *ctx, struct work *w, uint32_t node, uint32_t step);

static bool each_operator(struct work *w, const struct tg__op_tree *tree, visit_fn *visit, void *ctx) {
  const struct tg__columns *t = w->s->t;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(&w->s->selection, t, k)) continue;
    for (uint32_t i = tree->first[k]; i < tree->first[k + 1]; i++) {
      const struct tg__op_node *n = &tree->nodes[i];
      if (!n->in_table || n->absorbed_by != TG_NONE) continue;
      const uint32_t step = tg__diff_step_at(w->s, t->tracks[k].rank, t->slices.start_ns[n->slice]);
      if (step != TG_NONE && !visit(ctx, w, i, step)) return false;
    }
  }
  return true;
}

static bool visit_op(void *ctx, struct work *w, uint32_t node, uint32_t step) {
  const struct tg__op_node *n = &((const struct tg__op_tree *)ctx)->nodes[node];
  return add_diff_node(w, n, row_of_name(w, w->s->t->slices.name[n->slice], false), step, false);
}

/* ---- modules --------------------------------------------------------------------------------- */

struct modules {
  const struct tg__op_tree *tree;
  struct tg__op_group group;
  struct tg__map row_of; /* path in group.modules → row */
};

static uint32_t row_of_module(struct work *w, struct modules *m, uint32_t path) {
  uint32_t *slot = tg__map_slot(&m->row_of, path, TG_NONE);
  if (!slot || *slot != TG_NONE) return slot ? *slot : TG_NONE;
  struct tg__out text = {0};
  tg__paths_write(&m->group.modules, path, " / ", &text);
  const uint32_t row = row_of_text(w, &text);
  tg__out_free(&text);
  return *slot = row;
}

static bool visit_module(void *ctx, struct work *w, uint32_t node, uint32_t step) {
  struct modules *m = ctx;
  const struct tg__op_node *n = &m->tree->nodes[node];
  const uint32_t key = tg__op_group_of(&m->group, node);
  if (tg__op_group_failed(&m->group)) return false;
  uint32_t path = m->group.keys.label[key];
  if (path == TG_NONE) return true; /* outside of all modules */
  struct tg__diff_entry *own = entry_of(w->out, row_of_module(w, m, path), step);
  if (!own) return false;
  own->v[TG__DIFF_CALLS]++;
  own->v[TG__DIFF_SELF_CPU] += tg__op_tree_self_ns(w->s->t, n);
  own->v[TG__DIFF_SELF_DEVICE] += n->device_ns;
  for (; path; path = m->group.modules.up[path])
    if (!add_diff_node(w, n, row_of_module(w, m, path), step, true)) return false;
  return true;
}

static enum tg_err collect_operators(struct work *w, bool by_module) {
  struct tg__op_tree tree = {0};
  struct modules m = {.tree = &tree};
  enum tg_err err = tg__op_tree_build(w->s->t, &tree);
  if (!err && by_module)
    err = tg__op_group_open(&m.group, w->s->t, tg__rank_range_of(w->s->t, TG_NONE), &tree, "module", NULL);
  if (!err && !(by_module ? each_operator(w, &tree, visit_module, &m) : each_operator(w, &tree, visit_op, &tree)))
    err = TG_MEMORY;
  w->out->has_modules = !err && by_module && m.group.found[TG__GROUP_MODULE];
  if (by_module) tg__op_group_close(&m.group);
  tg__op_tree_free(&tree);
  tg__map_free(&m.row_of);
  return err;
}

/* ---- device work ----------------------------------------------------------------------------- */

static bool add_device_work(struct work *w, uint32_t track, uint32_t slice, bool family) {
  const struct tg__columns *t = w->s->t;
  const uint32_t rank = t->tracks[track].rank, call = tg__launch_of(t, slice);
  const bool known = call != TG_NONE;
  const uint32_t step =
      known || w->s->is_recording ? tg__diff_step_at(w->s, rank, t->slices.start_ns[known ? call : slice]) : TG_NONE;
  w->out->loose += !known && !w->s->is_recording;
  if (step == TG_NONE) return true;
  const bool is_kernel =
      tg__slice_class(t, slice) == TG__CLASS_KERNEL; /* copies are distinguished by the text in brackets */
  const uint32_t row = row_of_name(w, t->slices.name[slice], family && is_kernel);
  struct tg__diff_entry *entry = row == TG_NONE ? NULL : entry_of(w->out, row, step);
  if (!entry) return false;
  entry->v[TG__DIFF_CALLS]++;
  entry->v[TG__DIFF_DEVICE] += t->slices.dur_ns[slice];
  return true;
}

static enum tg_err collect_device_work(struct work *w, bool family) {
  const struct tg__columns *t = w->s->t;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(&w->s->selection, t, k)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      if (tg__class_is_device_work(tg__slice_class(t, i)) && !add_device_work(w, k, i, family)) return TG_MEMORY;
    }
  }
  return TG_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t peak_of(const struct tg_table *t, size_t row) {
  const int64_t reported = t->columns[tg__table_column_index(t, "peak_allocated_bytes")].ints[row];
  return reported != TG_NULL_INT ? reported : t->columns[tg__table_column_index(t, "peak_net_bytes")].ints[row];
}

static enum tg_err add_peaks(struct work *w, const struct tg_table *rows) {
  for (size_t i = 0; i < rows->rows; i++) {
    const struct tg__str device =
        tg__strings_get(rows->strings, rows->columns[tg__table_column_index(rows, "device")].texts[i]);
    const uint32_t row = tg__strings_add(w->out->names, device.ptr, device.len);
    struct tg__diff_entry *const entry = row == TG_NONE ? NULL : entry_of(w->out, row, 0);
    if (!entry) return TG_MEMORY;
    if (peak_of(rows, i) > entry->v[TG__DIFF_PEAK]) entry->v[TG__DIFF_PEAK] = peak_of(rows, i);
  }
  return TG_OK;
}

/* The highest peak of each device over the ranks. A rank that was not recorded with memory has none. */
static enum tg_err collect_peaks(struct work *w) {
  static const struct tg__job_info no_job;
  const struct tg__call memory = {
      .question = tg__catalog_question(w->s->access->catalog, TG__Q_memory), .limit = SIZE_MAX, .most_rows = SIZE_MAX};
  for (uint32_t k = 0; k < w->s->t->rank_count; k++) {
    struct tg_table *rows;
    if (!tg__ask_has_rank(&w->s->selection, k)) continue;
    enum tg_err err = tg__ask_rank(w->s->t, &no_job, k, &memory, &rows, NULL);
    if (err == TG_NO_DATA) continue;
    if (!err) err = add_peaks(w, rows);
    tg__table_free(rows);
    if (err) return err;
  }
  return TG_OK;
}

enum tg_err tg__diff_collect(const struct tg__diff_side *s, enum tg__diff_by by, struct tg__diff_named *out) {
  struct work w = {.s = s, .out = out};
  enum tg_err err = (out->names = tg__strings_new()) && open_rows(&w) ? TG_OK : TG_MEMORY;
  if (!err && (by == TG__DIFF_OP || by == TG__DIFF_MODULE)) err = collect_operators(&w, by == TG__DIFF_MODULE);
  if (!err && (by == TG__DIFF_KERNEL || by == TG__DIFF_FAMILY)) err = collect_device_work(&w, by == TG__DIFF_FAMILY);
  if (!err && by == TG__DIFF_MEMORY) err = collect_peaks(&w);
  tg__free(w.row_of);
  return err;
}
