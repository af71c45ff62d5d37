/* The question kernels: device work by kernel, and by what launched or configured it. */
#include <math.h>

#include "analyze/host/frames.h"
#include "analyze/host/kernel_lines.h"
#include "analyze/host/modules.h"
#include "analyze/device/tensor_cores.h"

enum by { BY_NAME, BY_OP, BY_CONFIG, BY_STREAM, BY_LINE, BY_MODULE };

/* What a kernel's args say about it; string ids TG_NONE and numbers TG_NULL_INT when they do not. */
struct facts {
  double blocks_per_sm, occupancy;                /* 0 when not stated */
  bool has_blocks, has_occupancy, is_unestimated; /* it states that its occupancy could not be estimated */
  uint32_t grid, block;
  int64_t registers, shared_memory;
};
struct row {
  uint32_t name, cat, group, slice; /* slice: the first one, for what all of them share */
  uint32_t op;                      /* string id, TG_NONE: none, or not asked for */
  struct tg__stats dur;
  double blocks_area, occupancy_area; /* value × ns */
  int64_t blocks_ns, occupancy_ns;    /* of the calls that state it */
  int64_t unestimated_ns;
  bool is_kernel;
};
struct work {
  const struct tg__columns *t;
  enum by by;
  struct tg__paths groups;  /* labels that distinguish calls of one name, in the order of the text */
  struct tg__map number_id; /* register and shared memory figures → small ids */
  int64_t *numbers;
  size_t number_count, number_cap;
  struct tg__map row_of;
  struct row *rows;
  size_t count, cap;
  bool has_blocks, has_occupancy; /* some kernel states it */
  struct tg__tensor_names tensor;
  struct tg__schema_mask captured; /* which events name the operator that captured them */
  struct tg__op_tree tree;         /* by=module only */
  struct tg__modules modules;
};

/* ---- args ------------------------------------------------------------------------------------ */

static double real_of(const struct tg__columns *t, uint32_t args, const struct tg__args_iter *it, bool *has) {
  *has = true;
  return it->val.kind == TG__KIND_INT ? (double)it->val.i : tg__arg_real(t, args, it->field->key, 0);
}

static int64_t int_of(const struct tg__columns *t, uint32_t args, const struct tg__args_iter *it) {
  return it->val.kind == TG__KIND_INT ? it->val.i : tg__arg_int(t, args, it->field->key, TG_NULL_INT);
}

static uint32_t kernel_text_of(const struct tg__args_iter *it) {
  return it->val.kind == TG__KIND_RAW || it->val.kind == TG__KIND_STR ? it->val.str : TG_NONE;
}

static struct facts read_facts(const struct tg__columns *t, uint32_t slice) {
  struct facts f = {.grid = TG_NONE, .block = TG_NONE, .registers = TG_NULL_INT, .shared_memory = TG_NULL_INT};
  const uint32_t args = t->slices.args[slice];
  struct tg__args_iter it;
  double warps = NAN;
  bool has_warps;
  for (tg__args_begin(t, args, &it); tg__args_next(&it);) {
    if (it.field->top) continue;
    switch (it.field->key) {
    case TG__K_BLOCKS_PER_SM:
      f.blocks_per_sm = real_of(t, args, &it, &f.has_blocks);
      break;
    case TG__K_OCCUPANCY:
      f.occupancy = real_of(t, args, &it, &f.has_occupancy);
      break;
    case TG__K_WARPS_PER_SM:
      warps = real_of(t, args, &it, &has_warps);
      break;
    case TG__K_GRID:
      f.grid = kernel_text_of(&it);
      break;
    case TG__K_BLOCK:
      f.block = kernel_text_of(&it);
      break;
    case TG__K_REGISTERS:
      f.registers = int_of(t, args, &it);
      break;
    case TG__K_SHARED_MEMORY:
      f.shared_memory = int_of(t, args, &it);
      break;
    default:
      break;
    }
  }
  f.is_unestimated = f.has_occupancy && !tg__is_occupancy_estimated(f.occupancy, warps);
  f.has_occupancy &= !f.is_unestimated;
  return f;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t number_label(struct work *w, int64_t v) {
  uint32_t *slot = tg__map_slot(&w->number_id, (uint64_t)v, (uint32_t)w->number_count);
  if (!slot) {
    w->groups.failed = true;
    return 0;
  }
  if (*slot == w->number_count) {
    if (!tg__grow((void **)&w->numbers, &w->number_cap, w->number_count + 1, sizeof *w->numbers)) {
      w->groups.failed = true;
      return 0;
    }
    w->numbers[w->number_count++] = v;
  }
  return *slot;
}

static uint32_t text_label(struct work *w, struct tg__out *text) {
  const struct tg__str s = text->len ? (struct tg__str){text->buf, (uint32_t)text->len} : TG_STR("");
  const uint32_t label = tg__paths_label(&w->groups, s);
  w->groups.failed |= text->err;
  tg__out_free(text);
  return label;
}

/* All lines that a compiled kernel does the work of; of another the line that launched it. */
static uint32_t line_label(struct work *w, uint32_t slice) {
  const struct tg__kernel_lines compiled = tg__kernel_lines_of(w->t, slice, &w->groups.failed);
  struct tg__out text = {0};
  if (compiled.count)
    tg__kernel_lines_write(compiled, &text);
  else
    tg__user_line(w->t, slice, &text);
  return text_label(w, &text);
}

static uint32_t module_label(struct work *w, uint32_t slice) {
  struct tg__out text = {0};
  bool backward;
  tg__modules_write(&w->modules, tg__modules_of_device_work(&w->modules, slice, &backward), &text);
  return text_label(w, &text);
}

static uint32_t kernel_group_of(struct work *w, uint32_t track, uint32_t slice, uint32_t op, const struct facts *f) {
  if (w->by == BY_NAME) return 0;
  if (w->by == BY_LINE) return tg__paths_step(&w->groups, 0, line_label(w, slice));
  if (w->by == BY_MODULE) return tg__paths_step(&w->groups, 0, module_label(w, slice));
  if (w->by == BY_STREAM) {
    const uint32_t device = number_label(w, w->t->tracks[track].device);
    return tg__paths_step(&w->groups, tg__paths_step(&w->groups, 0, device),
                          number_label(w, w->t->tracks[track].stream));
  }
  uint32_t group = tg__paths_step(&w->groups, 0, op);
  if (w->by == BY_OP) return group;
  group = tg__paths_step(&w->groups, group, f->grid);
  group = tg__paths_step(&w->groups, group, f->block);
  group = tg__paths_step(&w->groups, group, number_label(w, f->registers));
  return tg__paths_step(&w->groups, group, number_label(w, f->shared_memory));
}

static void write_text(const struct work *w, const char *what, uint32_t id, struct tg__out *out) {
  const struct tg__str s = id == TG_NONE ? TG_STR("?") : tg__name(w->t, id);
  tg__out_text(out, what);
  tg__out_bytes(out, s.ptr, s.len);
}

static void write_list(const struct work *w, const char *what, uint32_t id, struct tg__out *out) {
  tg__out_text(out, what);
  tg__write_list(out, id == TG_NONE ? TG_STR("?") : tg__name(w->t, id));
}

static void write_number(const struct work *w, const char *what, uint32_t label, struct tg__out *out) {
  tg__out_text(out, what);
  if (w->numbers[label] == TG_NULL_INT)
    tg__out_char(out, '?');
  else
    tg__out_int(out, w->numbers[label]);
}

static void write_group(const struct work *w, uint32_t group, struct tg__out *out) {
  uint32_t label[5];
  static const uint8_t labels[] = {0, [BY_OP] = 1, [BY_CONFIG] = 5, [BY_STREAM] = 2, [BY_LINE] = 1, [BY_MODULE] = 1};
  for (unsigned i = labels[w->by]; i-- > 0; group = w->groups.up[group]) label[i] = w->groups.label[group];
  if (w->by == BY_STREAM) {
    write_number(w, "device ", label[0], out);
    write_number(w, " stream ", label[1], out);
  } else if (w->by == BY_LINE || w->by == BY_MODULE) {
    const struct tg__str line = tg__paths_text(&w->groups, label[0]);
    tg__out_bytes(out, line.ptr, line.len);
  } else if (w->by == BY_OP) {
    if (label[0] != TG_NONE) write_text(w, "", label[0], out);
  } else if (w->by == BY_CONFIG) {
    write_text(w, "op ", label[0], out);
    write_list(w, " grid ", label[1], out);
    write_list(w, " block ", label[2], out);
    write_number(w, " registers ", label[3], out);
    write_number(w, " shared memory ", label[4], out);
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row *find_kernel_row(struct work *w, uint32_t slice, uint32_t group) {
  const struct tg__slices *s = &w->t->slices;
  /* Without groups the category takes their place in the key; with them it goes in front as one more label. */
  const uint32_t second = w->by == BY_NAME ? s->cat[slice] : tg__paths_step(&w->groups, group, s->cat[slice]);
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)s->name[slice] << 32 | second, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (w->count == w->cap && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = s->name[slice],
                                       .cat = s->cat[slice],
                                       .group = group,
                                       .slice = slice,
                                       .is_kernel = tg__slice_class(w->t, slice) == TG__CLASS_KERNEL};
  }
  return &w->rows[*slot];
}

/* String id of the operator that launched it, or captured it in a graph, where the grouping distinguishes operators. */
static uint32_t op_of(const struct work *w, uint32_t slice) {
  if (w->by != BY_OP && w->by != BY_CONFIG) return TG_NONE;
  if (w->captured.any && tg__schema_mask_has(w->t, &w->captured, slice))
    return tg__arg_str(w->t, w->t->slices.args[slice], TG__K_CAPTURED_OP);
  const uint32_t op = tg__launching_op(w->t, slice);
  return op == TG_NONE ? TG_NONE : w->t->slices.name[op];
}

static bool count_one(struct work *w, uint32_t track, uint32_t slice) {
  const struct facts f = read_facts(w->t, slice);
  const uint32_t op = op_of(w, slice);
  struct row *r = find_kernel_row(w, slice, kernel_group_of(w, track, slice, op, &f));
  if (!r) return false;
  r->op = op;
  const int64_t dur = w->t->slices.dur_ns[slice];
  if (f.has_blocks) r->blocks_ns += dur;
  if (f.has_occupancy) r->occupancy_ns += dur;
  if (f.is_unestimated) r->unestimated_ns += dur;
  tg__stats_add(&r->dur, dur);
  r->blocks_area += f.blocks_per_sm * (double)dur;
  if (f.has_occupancy) r->occupancy_area += f.occupancy * (double)dur;
  w->has_blocks |= f.has_blocks;
  w->has_occupancy |= f.has_occupancy;
  return true;
}

static enum tg_err count_all(struct work *w, const struct tg__ask *a) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    if (!tg__ask_has_track(a, w->t, k)) continue;
    const struct tg__track *track = &w->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(w->t, i))) continue;
      if (a->has_steps && !tg__ask_has_slice(a, w->t, k, i)) continue;
      if (!count_one(w, k, i)) return TG_MEMORY;
    }
  }
  return w->groups.failed ? TG_MEMORY : TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool kernel_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  if (x->dur.sum != y->dur.sum) return x->dur.sum > y->dur.sum;
  return x->name != y->name && tg__str_cmp(tg__name(w->t, x->name), tg__name(w->t, y->name)) < 0;
}

/* A call that does not state it counts as 0 if any does; copies and memsets never do. */
static void put_mean(struct tg_table *out, double area, int64_t stated_ns, int64_t all_ns) {
  tg__put_real_if(out, stated_ns > 0, area / (double)all_ns);
}

static void put_tensor_cores(struct work *w, const struct row *r, struct tg_table *out) {
  const enum tg__matrix_unit unit = r->is_kernel ? tg__tensor_unit(&w->tensor, r->name) : TG__UNIT_UNKNOWN;
  if (unit == TG__UNIT_UNKNOWN)
    tg__put_null(out);
  else
    tg__put_bool(out, unit == TG__UNIT_TENSOR_CORE);
  if (r->is_kernel && r->op != TG_NONE)
    tg__put_bool(out,
                 tg__tensor_op(&w->tensor, r->op) || (!w->tensor.rules->by_op_name && unit == TG__UNIT_TENSOR_CORE));
  else
    tg__put_null(out);
}

static void put_low_occupancy(const struct row *r, const char *type, struct tg_table *out) {
  if (r->occupancy_ns && strcmp(type, "COMPUTATION") == 0)
    tg__put_bool(out, r->occupancy_area / (double)r->occupancy_ns < TG__LOW_OCCUPANCY_PCT);
  else
    tg__put_null(out);
}

static void put_kernel_row(struct work *w, const struct row *r, const struct tg__out *group, int64_t whole,
                           struct tg_table *out) {
  tg__put_trace_text(out, w->t, r->name);
  tg__put_trace_text(out, w->t, w->t->cats[r->cat].name);
  const char *type = tg__kernel_type(w->t, r->slice);
  tg__put_cstr(out, type);
  tg__put_text(out, (struct tg__str){group->len ? group->buf : "", (uint32_t)group->len});
  tg__put_int(out, r->dur.count);
  tg__put_int(out, r->dur.sum);
  tg__put_real(out, tg__stats_mean(&r->dur));
  tg__put_real(out, tg__stats_std(&r->dur));
  tg__put_int(out, r->dur.min);
  tg__put_int(out, r->dur.max);
  if (whole)
    tg__put_real(out, 100.0 * (double)r->dur.sum / (double)whole);
  else
    tg__put_null(out);
  put_mean(out, r->blocks_area, r->blocks_ns, r->dur.sum);
  put_mean(out, r->occupancy_area, r->occupancy_ns, r->dur.sum - r->unestimated_ns);
  put_tensor_cores(w, r, out);
  put_low_occupancy(r, type, out);
}

static enum tg_err put_kernel_rows(struct work *w, struct tg_table *out) {
  enum tg_err err = TG_MEMORY;
  struct tg__out text = {0};
  int64_t whole = 0;
  bool kernels = false;
  uint32_t *order = tg__order_new(w->count, kernel_row_before, w);
  if (!order) return TG_MEMORY;
  for (uint32_t i = 0; i < w->count; i++) {
    whole += w->rows[i].dur.sum;
    kernels |= w->rows[i].is_kernel;
  }
  for (size_t i = 0; i < w->count; i++) {
    text.len = 0;
    write_group(w, w->rows[order[i]].group, &text);
    if (text.err) goto done;
    put_kernel_row(w, &w->rows[order[i]], &text, whole, out);
  }
  if (kernels && !w->has_blocks) tg__table_note(out, "the trace does not state blocks per SM");
  if (kernels && !w->has_occupancy) tg__table_note(out, "the trace does not state occupancy");
  err = TG_OK;
done:
  tg__out_free(&text);
  tg__free(order);
  return err;
}

static enum tg_err open_kernels(struct work *w, const struct tg__ask *a) {
  const bool ready = tg__paths_open(&w->groups, w->t) &&
                     tg__tensor_names_open(&w->tensor, w->t, tg__tensor_rules_of(a)) &&
                     tg__schema_mask_make(w->t, TG__K_CAPTURED_OP, &w->captured);
  enum tg_err err = ready ? TG_OK : TG_MEMORY;
  if (!err && w->by == BY_MODULE) err = tg__op_tree_build(w->t, &w->tree);
  if (!err && w->by == BY_MODULE) err = tg__modules_open(&w->modules, w->t, tg__rank_range_of(w->t, a->rank), &w->tree);
  return err;
}

enum tg_err tg__answer_kernels(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  static const char *const choices[] = {[BY_NAME] = "name",     [BY_OP] = "op",     [BY_CONFIG] = "config",
                                        [BY_STREAM] = "stream", [BY_LINE] = "line", [BY_MODULE] = "module"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .by = (enum by)by};
  err = open_kernels(&w, a);
  if (!err) err = count_all(&w, a);
  if (!err) err = put_kernel_rows(&w, out);
  if (err) tg__no_memory(e, "summing up kernels");
  tg__paths_close(&w.groups);
  tg__tensor_names_close(&w.tensor);
  tg__schema_mask_free(&w.captured);
  tg__modules_close(&w.modules);
  tg__op_tree_free(&w.tree);
  tg__map_free(&w.number_id);
  tg__map_free(&w.row_of);
  tg__free(w.numbers);
  tg__free(w.rows);
  return err;
}
