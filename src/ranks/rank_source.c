/* rank_source: the two places where ranks are. */
#include "ranks/ranks.h"

static enum tg_err show(const struct tg__observer *o, const struct tg__seen *s, struct tg_error *e) {
  const enum tg_err err = o->see(o->ctx, s, e);
  return err ? err : o->take(o->ctx, s->i, NULL, e);
}

/* ---- all in memory --------------------------------------------------------------------------- */

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

static enum tg_err each_in_memory(struct tg_trace *t, uint32_t first, uint32_t past, const struct tg__observer *o,
                                  struct tg_error *e) {
  enum tg_err err = TG_OK;
  for (uint32_t k = first; k < past && !err; k++)
    err = show(o, &(struct tg__seen){.i = k - first, .columns = t->columns, .first = k, .count = 1}, e);
  return err;
}

const struct tg__rank_place tg__in_memory = {
    each_in_memory, tg__load_all_ranks, {.load = load_in_memory, .open = open_in_memory}};

/* ---- files ----------------------------------------------------------------------------------- */

static const struct tg__job_rank *rank_at(const struct tg_trace *t, uint32_t i) { return &t->folder->ranks.items[i]; }

static enum tg_err load_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out,
                                  struct tg_error *e) {
  (void)e;
  *out = rank_at(s->trace, i)->load;
  return TG_OK;
}

static enum tg_err open_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                                  struct tg_error *e) {
  *rank = rank_at(s->trace, i)->rank_in_file;
  return tg__rank_folder_file(s->trace, rank_at(s->trace, i)->file_index, out, e);
}

/* All of them in one pass; one of them from the files that are kept, where it may be again. */
static enum tg_err each_in_folder(struct tg_trace *t, uint32_t first, uint32_t past, const struct tg__observer *o,
                                  struct tg_error *e) {
  enum tg_err err = TG_OK;
  if (past - first == t->folder->ranks.count) return tg__each_in_folder(t, TG__FILES_AT_ONCE, o, e);
  for (uint32_t k = first; k < past && !err; k++) {
    struct tg__seen seen = {.i = k - first, .first = rank_at(t, k)->rank_in_file, .count = 1};
    err = tg__rank_folder_file(t, rank_at(t, k)->file_index, &seen.columns, e);
    if (err) break;
    err = show(o, &seen, e);
    tg__cache_drop(seen.columns); /* two files stay in memory, and what questions derive of one may be as much again */
  }
  return err;
}

const struct tg__rank_place tg__in_folder = {
    each_in_folder, tg__load_all_ranks, {.load = load_in_folder, .open = open_in_folder}};
