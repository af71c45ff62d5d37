/* The question compiled_kernels: the kernels that Inductor made, with the lines and modules behind them. */
#include "analyze/host/frames.h"
#include "analyze/host/kernel_lines.h"

struct row {
  uint32_t name, slice; /* slice: the first call */
  struct tg__str region;
  struct tg__stats dur;
};
struct work {
  const struct tg__columns *t;
  struct tg__paths regions;
  struct tg__map row_of;
  struct row *rows;
  size_t count, cap;
  bool failed;
};

static void count_kernel(struct work *w, uint32_t slice) {
  const struct tg__slices *const s = &w->t->slices;
  const struct tg__str region = tg__compiled_region(w->t, slice, NULL);
  const uint32_t label = tg__paths_label(&w->regions, region);
  uint32_t *const row = tg__map_slot(&w->row_of, (uint64_t)s->name[slice] << 32 | label, (uint32_t)w->count);
  if (!row || (*row == w->count && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows))) {
    w->failed = true;
    return;
  }
  if (*row == w->count) w->rows[w->count++] = (struct row){.name = s->name[slice], .slice = slice, .region = region};
  tg__stats_add(&w->rows[*row].dur, s->dur_ns[slice]);
}

static bool is_kernel(const struct tg__columns *t, uint32_t slice, bool *failed) {
  const enum tg__class cls = tg__slice_class(t, slice);
  if (cls != TG__CLASS_KERNEL && cls != TG__CLASS_OP) return false;
  return tg__is_compiled_kernel(tg__name(t, t->slices.name[slice])) || tg__kernel_lines_of(t, slice, failed).count > 0;
}

static void count_kernels(struct work *w, const struct tg__ask *a, uint32_t rank) {
  const struct tg__columns *const t = w->t;
  TG__EACH (k, tg__tracks_of(&t->ranks[rank]))
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      if (is_kernel(t, i, &w->failed) && tg__ask_has_slice(a, t, k, i)) count_kernel(w, i);
}

static bool kernel_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *const w = ctx;
  return w->rows[a].dur.sum != w->rows[b].dur.sum ? w->rows[a].dur.sum > w->rows[b].dur.sum : a < b;
}

static void write_modules(struct tg__kernel_modules modules, struct tg__out *out) {
  for (size_t i = 0; i < modules.count; i++) {
    if (i) tg__out_text(out, "; ");
    if (!modules.paths[i].len) tg__out_text(out, "(itself)");
    tg__out_bytes(out, modules.paths[i].ptr, modules.paths[i].len);
  }
}

/* calls NULL: it is not known whether it ran. */
static bool put_kernel(const struct work *w, const struct tg__known_kernel *x, const struct tg__stats *calls,
                       uint32_t rank, struct tg_table *out) {
  struct tg__out lines = {0}, modules = {0};
  tg__kernel_lines_write(x->lines, &lines);
  write_modules(x->modules, &modules);
  tg__put_rank(out, w->t, rank);
  tg__put_text(out, x->region);
  tg__put_text(out, x->name);
  tg__put_int(out, calls ? calls->count : TG_NULL_INT);
  tg__put_int(out, calls ? calls->sum : TG_NULL_INT);
  tg__put_int(out, (int64_t)x->lines.count);
  const bool ok = tg__put_out(out, &lines);
  return tg__put_out(out, &modules) && ok;
}

static bool put_kernels(const struct work *w, uint32_t rank, struct tg_table *out) {
  uint32_t *const order = tg__order_new(w->count, kernel_before, w);
  size_t unknown = 0;
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) {
    const struct row *const x = &w->rows[order[i]];
    const struct tg__known_kernel kernel = {x->region, tg__name(w->t, x->name),
                                            tg__kernel_lines_of(w->t, x->slice, NULL),
                                            tg__kernel_modules_of(w->t, x->slice, NULL)};
    unknown += !kernel.lines.count;
    ok = put_kernel(w, &kernel, &x->dur, rank, out);
  }
  tg__free(order);
  if (ok && unknown)
    tg__table_note(out,
                   "the lines of %zu of %zu kernels are not known: Inductor writes them down where the program is "
                   "started with INDUCTOR_PROVENANCE=1",
                   unknown, w->count);
  return ok;
}

/* A log of the compiler has no calls. */
static bool put_known(const struct work *w, uint32_t rank, struct tg_table *out) {
  struct tg__known_kernel x;
  bool ok = true;
  for (size_t i = 0; ok && tg__known_kernel_at(w->t, rank, i, &x); i++)
    if (x.region.len && tg__is_compiled_kernel(x.name)) ok = put_kernel(w, &x, NULL, rank, out);
  return ok;
}

static enum tg_err answer_of_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank,
                                  struct tg_table *out) {
  struct work w = {.t = t};
  bool ok = tg__paths_open(&w.regions, t);
  if (ok) count_kernels(&w, a, rank);
  ok = ok && !w.failed && !w.regions.failed && (w.count ? put_kernels(&w, rank, out) : put_known(&w, rank, out));
  tg__paths_close(&w.regions);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__answer_compiled_kernels(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                        struct tg_error *e) {
  for (uint32_t r = 0; r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r) && answer_of_rank(t, a, r, out) != TG_OK)
      return tg__no_memory(e, "summing up compiled kernels");
  return TG_OK;
}
