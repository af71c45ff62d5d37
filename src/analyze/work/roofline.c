/* The question roofline: operators, kinds or kernels by the work they do, against what the device could do. */
#include "analyze/table/join.h"
#include "analyze/work/device_peaks.h"
#include "analyze/host/op_group.h"
#include "analyze/work/roof.h"

#include <math.h>

static const char peaks_differ[] = "the ranks ran on devices with other peaks: rank= holds one of them against its own";
static const char peaks_unknown[] =
    "the peaks of the device are not known: with the arguments peak_tflops and peak_gbs "
    "each row says what bounds it; those of a CPU "
    "tachograph doctor measures where it runs";

enum by { BY_OP, BY_KIND, BY_KERNEL };

struct row {
  uint32_t name, group; /* name: string id of the trace; the kind for by=kind */
  enum tg__work_kind kind;
  enum tg__precision precision;
  int64_t calls, time_ns;
  double flops, bytes, elements;
  bool flops_known, bytes_known, elements_known; /* of all calls */
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  enum by by;
  struct tg__roof roof;
  struct tg__op_group group;
  struct tg__paths keys; /* (name, group) */
  struct tg__map row_of; /* (path of keys, kind, precision) → row */
  struct row *rows;
  size_t count, cap;
  struct tg__peaks peaks;
  bool peaks_differ;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row *find_roofline_row(struct work *w, uint32_t name, uint32_t group, enum tg__work_kind kind,
                                     enum tg__precision precision) {
  const uint32_t path = tg__paths_step(&w->keys, tg__paths_step(&w->keys, 0, name), group);
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)path << 16 | (uint64_t)kind << 8 | precision, TG_NONE);
  if (!slot || w->keys.failed) return NULL;
  if (*slot == TG_NONE) {
    if (w->count == w->cap && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct row){.name = name,
                                       .group = group,
                                       .kind = kind,
                                       .precision = precision,
                                       .flops_known = true,
                                       .bytes_known = true,
                                       .elements_known = w->by != BY_KERNEL};
  }
  return &w->rows[*slot];
}

/* flops, bytes: below zero when not known. */
static void add_roofline(struct row *r, int64_t time_ns, double flops, double bytes) {
  r->calls++;
  r->time_ns += time_ns;
  if (flops < 0) r->flops_known = false;
  if (bytes < 0) r->bytes_known = false;
  r->flops += flops > 0 ? flops : 0;
  r->bytes += bytes > 0 ? bytes : 0;
}

static bool add_op(struct work *w, const struct tg__counted *c) {
  const enum tg__work_kind kind = c->work ? c->work->kind : TG__WORK_UNKNOWN;
  const uint32_t name = w->by == BY_KIND ? kind : w->t->slices.name[w->roof.tree.nodes[c->node].slice];
  const uint32_t group = w->by == BY_OP && w->group.count ? tg__op_group_of(&w->group, c->node) : 0;
  struct row *const r = find_roofline_row(w, name, group, kind, c->work ? c->precision : TG__PRECISION_UNKNOWN);
  const int64_t elements = c->work ? c->work->elements : 0;
  if (!r) return false;
  add_roofline(r, c->time_ns, c->work ? (double)c->work->flops : -1, c->work ? (double)c->work->bytes : -1);
  r->elements_known &= elements > 0;
  r->elements += (double)elements;
  return true;
}

static enum tg_err count_ops(struct work *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    if (!tg__ask_has_track(w->ask, w->t, k)) continue;
    for (uint32_t i = w->roof.tree.first[k]; i < w->roof.tree.first[k + 1]; i++) {
      struct tg__counted c;
      if (!tg__roof_count(&w->roof, k, i, &c)) continue;
      if (w->ask->has_steps && !tg__ask_has_slice(w->ask, w->t, k, w->roof.tree.nodes[i].slice)) continue;
      if (!add_op(w, &c)) return TG_MEMORY;
    }
  }
  return tg__op_group_failed(&w->group) ? TG_MEMORY : TG_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* What a copy moved: read, and written; on one device both pass through its memory. */
static double copied_bytes(const struct tg__columns *t, uint32_t slice) {
  const int64_t bytes = tg__arg_int(t, t->slices.args[slice], TG__K_BYTES, -1);
  if (bytes < 0) return -1;
  return (double)bytes * (tg__str_contains(tg__name(t, t->slices.name[slice]), "DtoD") ? 2 : 1);
}

/* Of an operator that launched several kernels, each has the share of the work that it has of the time. */
static bool add_roofline_kernel(struct work *w, uint32_t slice) {
  const struct tg__columns *t = w->t;
  const enum tg__class class = tg__slice_class(t, slice);
  const bool is_copy = class == TG__CLASS_MEMCPY || class == TG__CLASS_MEMSET;
  const uint32_t node = is_copy ? TG_NONE : tg__roof_behind(&w->roof, slice);
  struct tg__counted c = {0};
  const int64_t dur = t->slices.dur_ns[slice];
  if (node != TG_NONE) {
    const uint32_t track = tg__slice_track(t, w->roof.tree.nodes[node].slice);
    if (!tg__roof_count(&w->roof, track, node, &c)) c.work = NULL;
  }
  const enum tg__work_kind kind = is_copy ? TG__WORK_COPY : c.work ? c.work->kind : TG__WORK_UNKNOWN;
  struct row *const r =
      find_roofline_row(w, t->slices.name[slice], 0, kind, c.work ? c.precision : TG__PRECISION_UNKNOWN);
  if (!r) return false;
  const double share = c.work ? (double)dur / (double)c.time_ns : 0;
  const double bytes = is_copy                        ? copied_bytes(t, slice)
                       : c.work && c.work->bytes >= 0 ? (double)c.work->bytes * share
                                                      : -1;
  add_roofline(r, dur, is_copy ? 0 : c.work ? (double)c.work->flops * share : -1, bytes);
  return true;
}

static enum tg_err count_kernels(struct work *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    const struct tg__track *track = &w->t->tracks[k];
    if (!tg__ask_has_rank(w->ask, track->rank)) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(w->t, i))) continue;
      if (w->ask->has_steps && !tg__ask_has_slice(w->ask, w->t, k, i)) continue;
      if (!add_roofline_kernel(w, i)) return TG_MEMORY;
    }
  }
  return TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Against the roof: the peak of computation right of the ridge, the memory's left of it. */
static void put_roof(const struct work *w, const struct row *r, double flop_rate, double byte_rate,
                     struct tg_table *out) {
  /* Elementwise work never reaches matrix units; of the others the fp16 and tf32 figures are those of matrix units. */
  const bool matrix = r->kind == TG__WORK_MATMUL || r->kind == TG__WORK_CONVOLUTION || r->kind == TG__WORK_ATTENTION;
  const enum tg__precision unit = matrix || r->precision == TG__FP64 ? r->precision : TG__FP32;
  const double peak = r->precision == TG__PRECISION_UNKNOWN && matrix ? 0 : w->peaks.flops[unit];
  const double ridge = w->peaks.bytes > 0 ? peak / w->peaks.bytes : 0;
  const bool known = r->flops_known && r->bytes_known && r->bytes > 0;
  const bool by_memory = known && ridge > 0 && r->flops / r->bytes < ridge;
  tg__put_real_if(out, known, r->flops / r->bytes);
  tg__put_real_if(out, ridge > 0 && r->kind != TG__WORK_UNKNOWN, ridge);
  tg__put_cstr(out, !known || ridge <= 0 ? NULL : by_memory ? "memory" : "compute");
  const double share = 100 * (by_memory ? byte_rate / w->peaks.bytes : flop_rate / peak);
  tg__put_real_if(out, known && ridge > 0 && (share <= 100 || !w->peaks.is_measured), share);
  tg__put_real_if(out, ridge > 0 && r->kind != TG__WORK_UNKNOWN, peak);
}

static void put_roofline_row(const struct work *w, const struct row *r, const struct tg__out *group, int64_t all_ns,
                             struct tg_table *out) {
  const double seconds = (double)r->time_ns / 1e9;
  const bool flops = r->flops_known && r->time_ns > 0, bytes = r->bytes_known && r->time_ns > 0;
  if (w->by == BY_KIND)
    tg__put_cstr(out, tg__work_kinds[r->kind]);
  else
    tg__put_trace_text(out, w->t, r->name);
  tg__put_text(out, (struct tg__str){group->len ? group->buf : "", (uint32_t)group->len});
  tg__put_cstr(out, tg__work_kinds[r->kind]);
  tg__put_cstr(out, tg__precision_names[r->precision]);
  tg__put_int(out, r->calls);
  tg__put_int(out, r->time_ns);
  tg__put_real_if(out, all_ns > 0, 100.0 * (double)r->time_ns / (double)all_ns);
  tg__put_int(out, r->flops_known && r->flops < 9e18 ? (int64_t)(r->flops + 0.5) : TG_NULL_INT);
  tg__put_int(out, r->bytes_known && r->bytes < 9e18 ? (int64_t)(r->bytes + 0.5) : TG_NULL_INT);
  tg__put_real_if(out, flops, r->flops / seconds);
  tg__put_real_if(out, bytes, r->bytes / seconds);
  put_roof(w, r, r->flops / seconds, r->bytes / seconds, out);
  tg__put_int(out, r->elements_known && r->elements < 9e18 ? (int64_t)r->elements : TG_NULL_INT);
  tg__put_real_if(out, r->elements_known, (double)r->time_ns / r->elements);
}

static bool roofline_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *rows = ((const struct work *)ctx)->rows;
  return rows[a].time_ns > rows[b].time_ns;
}

/* Their data comes from caches, or their calls are too short to time. */
static void note_faster(const struct work *w, struct tg_table *out) {
  const double *const intensity = out->columns[tg__table_column_index(out, "intensity")].reals,
                      *const ridge = out->columns[tg__table_column_index(out, "ridge")].reals,
                      *const share = out->columns[tg__table_column_index(out, "peak_pct")].reals;
  size_t faster = 0;
  for (size_t i = 0; w->peaks.is_measured && i < out->rows; i++)
    faster += !isnan(intensity[i]) && !isnan(ridge[i]) && isnan(share[i]);
  if (faster)
    tg__table_note(out, "%zu row%s no share of the peak: faster than it, as data from caches and very short calls are",
                   faster, faster == 1 ? " has" : "s have");
}

static enum tg_err put_roofline_rows(const struct work *w, struct tg_table *out) {
  struct tg__out group = {0};
  int64_t all_ns = 0, known_ns = 0;
  uint32_t *order = tg__order_new(w->count, roofline_row_before, w);
  enum tg_err err = TG_MEMORY;
  if (!order) return err;
  for (uint32_t i = 0; i < w->count; i++) {
    all_ns += w->rows[i].time_ns;
    known_ns += w->rows[i].kind == TG__WORK_UNKNOWN ? 0 : w->rows[i].time_ns;
  }
  for (size_t i = 0; i < w->count; i++) {
    group.len = 0;
    if (w->by == BY_OP) tg__op_group_write(&w->group, w->rows[order[i]].group, &group);
    if (group.err) goto done;
    put_roofline_row(w, &w->rows[order[i]], &group, all_ns, out);
  }
  if (all_ns > 0)
    tg__table_note(out, "FLOPs are known for %.1f %% of the time of operators",
                   100.0 * (double)known_ns / (double)all_ns);
  tg__note_peaks(&w->peaks, "peak_pct", w->peaks_differ ? peaks_differ : peaks_unknown, out);
  note_faster(w, out);
  err = TG_OK;
done:
  tg__out_free(&group);
  tg__free(order);
  return err;
}

/* ---- the question ---------------------------------------------------------------------------- */

static bool has_operators(const struct work *w, uint32_t rank) {
  const struct tg__rank *const r = &w->t->ranks[rank];
  return w->roof.tree.first[r->first_track + r->track_count] > w->roof.tree.first[r->first_track];
}

/* Of all ranks together nothing can be held against a peak unless it is that of each: which device a row ran on is
 * not distinguished. */
static enum tg_err compare_peaks(struct work *w, struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; r < w->t->rank_count && !err && !w->peaks_differ; r++) {
    struct tg__peaks other;
    if (!tg__ask_has_rank(w->ask, r) || !has_operators(w, r)) continue;
    err = tg__peaks_of(w->t, w->ask, r, w->roof.on_device[r], &other, e);
    if (!err) tg__roof_try_peaks(&w->roof, r, &other);
    w->peaks_differ = strcmp(w->peaks.source, other.source) != 0; /* CPUs are measured, each a little otherwise */
  }
  if (w->peaks_differ) w->peaks = (struct tg__peaks){0};
  return err;
}

static enum tg_err prepare_roofline(struct work *w, struct tg_error *e) {
  const char *const by = tg__ask_arg(w->ask, "by");
  w->by = strcmp(by, "kind") == 0 ? BY_KIND : strcmp(by, "kernel") == 0 ? BY_KERNEL : BY_OP;
  enum tg_err err = tg__roof_open(w->t, w->ask, &w->roof, e);
  if (!err)
    err = tg__op_group_open(&w->group, w->t, tg__rank_range_of(w->t, w->ask->rank), &w->roof.tree,
                            w->by == BY_OP ? by : "name", e);
  if (err) return err;
  uint32_t rank = 0;
  while (rank + 1 < w->t->rank_count && !tg__ask_has_rank(w->ask, rank)) rank++;
  if (w->by == BY_KERNEL && !w->roof.on_device[rank])
    return tg__fail(e, TG_NO_DATA, -1,
                    "the trace holds no device work, which by=kernel is about; record with ProfilerActivity.CUDA");
  if (!tg__paths_open(&w->keys, w->t)) return tg__no_memory(e, "grouping operators");
  err = tg__peaks_of(w->t, w->ask, rank, w->roof.on_device[rank], &w->peaks, e);
  if (!err) tg__roof_try_peaks(&w->roof, rank, &w->peaks);
  return err || w->ask->rank != TG_NONE ? err : compare_peaks(w, e);
}

enum tg_err tg__answer_roofline(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  struct work w = {.t = t, .ask = a};
  enum tg_err err = prepare_roofline(&w, e);
  if (!err) {
    err = w.by == BY_KERNEL ? count_kernels(&w) : count_ops(&w);
    if (!err) err = put_roofline_rows(&w, out);
    if (err) tg__no_memory(e, "summing up operators");
  }
  tg__op_group_close(&w.group);
  tg__roof_close(&w.roof);
  tg__paths_close(&w.keys);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

static bool is_about_peaks(const char *note) {
  return strncmp(note, "peaks: ", 7) == 0 || strcmp(note, peaks_unknown) == 0;
}

/* Ranks each with peaks of their own: no row of all of them is held against any. */
static void fold_peaks(struct tg__rank_join *j, struct tg_table *t) {
  if (tg__rank_join_notes(j, is_about_peaks) < 2) return;
  static const char *const against_peaks[] = {"ridge", "peak_pct", "peak_flop_per_s"};
  for (size_t k = 0; k < sizeof against_peaks / sizeof *against_peaks; k++) {
    double *const values = t->columns[tg__table_column_index(t, against_peaks[k])].reals;
    for (size_t i = 0; i < t->rows; i++) values[i] = NAN;
  }
  tg__rank_join_drop_notes(j, is_about_peaks);
  tg__table_note(t, "%s", peaks_differ);
}

void tg__folded_roofline(struct tg__rank_join *j, struct tg_table *t) {
  const size_t kind = tg__table_column_index(t, "kind"), time = tg__table_column_index(t, "time_ns");
  const uint32_t unknown = tg__strings_find(t->strings, "unknown", strlen("unknown"));
  int64_t all_ns = 0, known_ns = 0;
  for (size_t i = 0; i < t->rows; i++) {
    all_ns += t->columns[time].ints[i];
    known_ns += t->columns[kind].texts[i] == unknown ? 0 : t->columns[time].ints[i];
  }
  if (all_ns > 0)
    tg__table_note(t, "FLOPs are known for %.1f %% of the time of operators",
                   100.0 * (double)known_ns / (double)all_ns);
  fold_peaks(j, t);
}
