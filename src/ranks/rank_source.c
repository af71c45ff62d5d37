/* rank_source: the two places where ranks are, for what compares them. */
#include "ranks/ranks.h"

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

/* ---- files ----------------------------------------------------------------------------------- */

static const struct tg__job_rank *rank_at(const struct tg__rank_source *s, uint32_t i) {
  const struct tg_trace *const job = s->place;
  return &job->folder->ranks.items[i];
}

static enum tg_err load_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__rank_load *out,
                                  struct tg_error *e) {
  (void)e;
  *out = rank_at(s, i)->load;
  return TG_OK;
}

static enum tg_err open_in_folder(const struct tg__rank_source *s, uint32_t i, struct tg__columns **out, uint32_t *rank,
                                  struct tg_error *e) {
  *rank = rank_at(s, i)->rank_in_file;
  return tg__rank_folder_file(s->place, rank_at(s, i)->file_index, out, e);
}

struct tg__rank_source tg__ranks_of(struct tg_trace *t) {
  if (!t->folder)
    return (struct tg__rank_source){
        .t = t->columns, .count = t->columns->rank_count, .load = load_in_memory, .open = open_in_memory};
  return (struct tg__rank_source){.place = t,
                                  .t = t->columns,
                                  .count = (uint32_t)t->folder->ranks.count,
                                  .load = load_in_folder,
                                  .open = open_in_folder};
}
