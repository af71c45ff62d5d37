/* rank_source: the two places where ranks are, and the loop over them. */
#include "ranks/ranks.h"

/* ---- all in memory --------------------------------------------------------------------------- */

static int64_t number_in_memory(const struct tg__rank_source *s, uint32_t i) { return s->t->ranks[i].number; }

static enum tg_err load_in_memory(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out,
                                  struct tg_error *e) {
  const enum tg_err err = tg__rank_load(s->t, i, out);
  return err ? tg__no_memory(e, "comparing the ranks") : TG_OK;
}

static enum tg_err open_in_memory(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                                  struct tg_error *e) {
  (void)e;
  *out = s->t;
  *rank = i;
  return TG_OK;
}

static void keep_in_memory(const struct tg__rank_source *s, uint32_t i) {
  (void)s;
  (void)i;
}

struct tg__rank_source tg__ranks_in_memory(struct tg__columns *t) {
  return (struct tg__rank_source){.t = t,
                                  .count = t->rank_count,
                                  .number = number_in_memory,
                                  .load = load_in_memory,
                                  .open = open_in_memory,
                                  .done = keep_in_memory};
}

/* ---- files ----------------------------------------------------------------------------------- */

struct tg__rank_folder *tg__rank_folder_of(const struct tg__rank_source *s) {
  const struct tg_trace *const run = s->place;
  return run ? run->run : NULL;
}

static int64_t number_in_folder(const struct tg__rank_source *s, uint32_t i) {
  return tg__rank_folder_of(s)->ranks.items[i].number;
}

static enum tg_err load_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out,
                                  struct tg_error *e) {
  (void)e;
  *out = tg__rank_folder_of(s)->ranks.items[i].load;
  return TG_OK;
}

static enum tg_err open_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                                  struct tg_error *e) {
  const struct tg__job_rank *const r = &tg__rank_folder_of(s)->ranks.items[i];
  *rank = r->of_unit;
  return tg__rank_folder_file(s->place, r->unit, out, e);
}

/* Two ranks stay in memory, and what questions keep of one may be as much again. */
static void done_in_folder(const struct tg__rank_source *s, uint32_t i) {
  tg__rank_folder_drop_caches(tg__rank_folder_of(s), tg__rank_folder_of(s)->ranks.items[i].unit);
}

struct tg__rank_source tg__ranks_of(struct tg_trace *t) {
  if (!t->run) return tg__ranks_in_memory(t->columns);
  return (struct tg__rank_source){.place = t,
                                  .t = t->columns,
                                  .job = t->run->job,
                                  .count = (uint32_t)t->run->ranks.count,
                                  .number = number_in_folder,
                                  .load = load_in_folder,
                                  .open = open_in_folder,
                                  .done = done_in_folder};
}

/* ---- one after the other --------------------------------------------------------------------- */

enum tg_err tg__ranks_each(const struct tg__rank_source *s, tg__rank_fn *visit, void *ctx, struct tg_error *e) {
  enum tg_err err = TG_OK;
  tg__rank_folder_pass(tg__rank_folder_of(s), true);
  for (uint32_t i = 0; i < s->count && !err; i++) {
    struct tg__columns *t;
    uint32_t rank;
    tg__rank_folder_pass_to(tg__rank_folder_of(s), i);
    err = s->open(s, i, &t, &rank, e);
    if (!err) err = visit(ctx, i, t, rank, e);
    s->done(s, i);
  }
  tg__rank_folder_pass(tg__rank_folder_of(s), false);
  return err;
}

struct look {
  tg__look_fn *look;
  void *ctx;
};
static enum tg_err look_at_file(void *ctx, uint32_t i, struct tg__columns *t, uint32_t rank, struct tg_error *e) {
  const struct look *const w = ctx;
  (void)i;
  if (rank > 0) return TG_OK; /* it was looked at with the first of its file */
  const enum tg_err err = tg__trace_load(t, TG__COL_ALL, e);
  return err ? err : w->look(w->ctx, t, e);
}

enum tg_err tg__each_rank_file(struct tg_trace *run, tg__look_fn *look, void *ctx, struct tg_error *e) {
  const struct tg__rank_source s = tg__ranks_of(run);
  return tg__ranks_each(&s, look_at_file, &(struct look){look, ctx}, e);
}
