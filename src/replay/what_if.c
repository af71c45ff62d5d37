/* what_if: the question what_if. Which slices an expression selects is found once per name and category. */
#include "replay/replay.h"

#include <math.h>
#include <stdio.h>

enum { MOST_EXPRESSION = 4096, MOST_WORKERS = 1024 };
static const char *const change_names[TG__CHANGE_KINDS] = {
    [TG__CHANGE_REMOVE] = "remove",   [TG__CHANGE_SCALE] = "scale", [TG__CHANGE_MOVE_OFF] = "move_off",
    [TG__CHANGE_OVERLAP] = "overlap", [TG__CHANGE_ADD] = "add",     [TG__CHANGE_BATCH] = "batch",
    [TG__CHANGE_WORKERS] = "workers"};

struct selected { /* by an expression */
  const struct tg__columns *t;
  struct tg__map places; /* name and category → its place in is_selected */
  bool *is_selected;
};

static uint64_t name_key(const struct tg__columns *t, uint32_t slice) {
  return (uint64_t)t->slices.name[slice] << 16 | t->slices.cat[slice];
}

static bool is_selected(const void *ctx, uint32_t slice) {
  const struct selected *const p = ctx;
  const uint32_t place = tg__map_get(&p->places, name_key(p->t, slice));
  return place != TG_NONE && p->is_selected[place];
}

/* Steps are no work, and an expression may fit their names by chance. */
static bool may_change(const struct tg__columns *t, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(t, slice);
  return (tg__class_is_host(cls) || tg__class_is_device_work(cls)) &&
         !tg__name_is_profiler_step(tg__name(t, t->slices.name[slice]), NULL);
}

/* A row for each name and category there is. NULL on no memory. */
static struct tg_table *list_names(struct selected *p) {
  struct tg_table *const names = tg__table_new(change_names[0]);
  if (!names) return NULL;
  tg__table_add_column(names, "name", TG_TEXT, "");
  tg__table_add_column(names, "category", TG_TEXT, "");
  tg__table_add_column(names, "place", TG_INT, "");
  for (uint32_t i = 0; i < p->t->slices.count; i++) {
    if (!may_change(p->t, i)) continue;
    const uint32_t fresh = (uint32_t)p->places.count;
    const uint32_t *const place = tg__map_slot(&p->places, name_key(p->t, i), fresh);
    if (!place) {
      tg__table_free(names);
      return NULL;
    }
    if (*place != fresh || p->places.count == fresh) continue;
    tg__put_trace_text(names, p->t, p->t->slices.name[i]);
    tg__put_trace_text(names, p->t, p->t->cats[p->t->slices.cat[i]].name);
    tg__put_int(names, fresh);
  }
  if (!names->failed) return names;
  tg__table_free(names);
  return NULL;
}

static enum tg_err select_names(struct selected *p, const struct tg__columns *t, const char *expression,
                                struct tg_error *e) {
  *p = (struct selected){.t = t};
  struct tg_table *const names = list_names(p);
  if (names) p->is_selected = tg__alloc(p->places.count + 1);
  enum tg_err err = names && p->is_selected ? tg__where_filter(names, expression, e) : TG_MEMORY;
  if (err == TG_MEMORY) tg__no_memory(e, "looking for what changes");
  for (size_t i = 0; !err && i < names->rows; i++) p->is_selected[names->columns[2].ints[i]] = true;
  tg__table_free(names);
  return err;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* "name ~ x 0.5": an expression, then the part that stays. */
static enum tg_err split_scale(char *text, int64_t *millionths, struct tg_error *e) {
  double part;
  char *const last = strrchr(text, ' ');
  const struct tg__str number = last ? (struct tg__str){last + 1, (uint32_t)strlen(last + 1)} : TG_STR("");
  if (!last || !tg__str_to_real(number, &part) || !(part >= 0) || part > 1000)
    return tg__fail(e, TG_USAGE, -1,
                    "what_if: scale=%.60s is not understood: write an expression and the part that stays, from 0 to "
                    "1000, as in 'name ~ \"conv\" 0.5'",
                    text);
  *last = 0;
  *millionths = llround(part * 1e6);
  return TG_OK;
}

/* "name ~ x 0.5ms": an expression, then how much later. */
static enum tg_err split_add(char *text, int64_t *ns, struct tg_error *e) {
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char *const last = strrchr(text, ' ');
  const struct tg__str given = last ? (struct tg__str){last + 1, (uint32_t)strlen(last + 1)} : TG_STR("");
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    double number;
    const uint32_t len = (uint32_t)strlen(units[i].unit);
    if (given.len <= len || memcmp(given.ptr + given.len - len, units[i].unit, len) != 0) continue;
    if (!tg__str_to_real((struct tg__str){given.ptr, given.len - len}, &number)) continue;
    if (!(number >= 0) || number * units[i].ns > 1e12) break;
    *last = 0;
    *ns = llround(number * units[i].ns);
    return TG_OK;
  }
  return tg__fail(e, TG_USAGE, -1,
                  "what_if: add=%.60s is not understood: write an expression and how much later each begins, up to "
                  "1000s, as in 'name ~ \"conv\" 0.5ms'",
                  text);
}

/* The number of workers; the text becomes the expression of what they take over. */
static enum tg_err read_workers(const struct tg__columns *t, const struct tg__ask *a, int64_t *workers, char *text,
                                struct tg_error *e) {
  struct selected with_workers = {0};
  enum tg_err err = tg__ask_integer(a, change_names[TG__CHANGE_WORKERS], workers, e);
  if (!err && (*workers < 1 || *workers > MOST_WORKERS))
    err = tg__fail(e, TG_USAGE, -1, "what_if: workers= is a number of processes from 1 to %d", MOST_WORKERS);
  if (!err) err = select_names(&with_workers, t, "name ~ \"_MultiProcessingDataLoaderIter\"", e);
  for (size_t i = 0; !err && i < with_workers.places.count; i++)
    if (with_workers.is_selected[i])
      err = tg__fail(e, TG_NO_DATA, -1,
                     "what_if: the loader has worker processes already, and the trace does not say how long they take "
                     "for a batch: no saving is known");
  tg__map_free(&with_workers.places);
  tg__free(with_workers.is_selected);
  snprintf(text, MOST_EXPRESSION, "name ~ \"enumerate(Data\"");
  return err;
}

/* The changes asked for, in the order of their kinds. */
static enum tg_err read_changes(const struct tg__columns *t, const struct tg__ask *a, struct selected *selected,
                                struct tg__replay_change *changes, size_t *count, struct tg_error *e) {
  for (int k = 0; k < TG__CHANGE_KINDS; k++) {
    const char *const given = tg__ask_arg(a, change_names[k]);
    if (!*given) continue;
    char text[MOST_EXPRESSION];
    if (snprintf(text, sizeof text, "%s", given) >= (int)sizeof text)
      return tg__fail(e, TG_USAGE, -1, "what_if: %s= has more than %d characters", change_names[k], MOST_EXPRESSION);
    struct tg__replay_change *const c = &changes[*count];
    *c = (struct tg__replay_change){
        .kind = (enum tg__replay_change_kind)k, .selects = is_selected, .ctx = &selected[*count]};
    if (k == TG__CHANGE_SCALE && split_scale(text, &c->millionths, e)) return TG_USAGE;
    if (k == TG__CHANGE_ADD && split_add(text, &c->ns, e)) return TG_USAGE;
    enum tg_err err = k == TG__CHANGE_WORKERS ? read_workers(t, a, &c->workers, text, e) : TG_OK;
    if (!err) err = select_names(&selected[(*count)++], t, text, e);
    if (err) return err;
  }
  return TG_OK;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void put_time(struct tg_table *out, bool is_known, double ns) {
  tg__put_int(out, is_known ? (int64_t)llround(ns) : TG_NULL_INT);
}

static void put_saving(struct tg_table *out, const struct tg__columns *t, uint32_t rank, const struct tg__saving *s) {
  const bool is_known = !*s->why_not;
  tg__put_rank(out, t, rank);
  tg__put_cstr(out, is_known ? "proven" : "refused");
  tg__put_cstr(out, is_known ? NULL : s->why_not);
  tg__put_cstr(out, is_known ? NULL : s->help);
  tg__put_int(out, (int64_t)s->steps);
  tg__put_int(out, is_known ? (int64_t)s->slices : TG_NULL_INT);
  put_time(out, s->step_ns > 0, s->step_ns);
  put_time(out, is_known, s->median_ns);
  put_time(out, is_known, s->low_ns);
  put_time(out, is_known, s->high_ns);
  tg__put_real_if(out, is_known && s->step_ns > 0, 100 * s->median_ns / s->step_ns);
}

enum tg_err tg__answer_what_if(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  struct selected selected[TG__CHANGE_KINDS] = {{0}};
  struct tg__replay_change changes[TG__CHANGE_KINDS];
  size_t count = 0;
  enum tg_err err = read_changes(t, a, selected, changes, &count, e);
  if (!err && !count)
    tg__table_note(out,
                   "Nothing changes: say what does with remove=, scale=, move_off=, overlap=, add= or batch=, each an "
                   "expression over name and category, as in remove='name ~ \"print\"', or with workers=4.");
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    struct tg__saving saving;
    if (!tg__ask_has_rank(a, r)) continue;
    err = tg__replay_saving(t, r, changes, count, &saving);
    if (err) tg__no_memory(e, "replaying the steps");
    if (!err) put_saving(out, t, r, &saving);
    if (!err && count && !*saving.why_not && !saving.slices)
      tg__table_note(out, "Nothing in the steps is selected, so nothing changes.");
  }
  for (int k = 0; k < TG__CHANGE_KINDS; k++) {
    tg__map_free(&selected[k].places);
    tg__free(selected[k].is_selected);
  }
  return err;
}
