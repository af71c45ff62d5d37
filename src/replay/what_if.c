/* what_if: the question what_if. Which slices an expression selects is found once per name and category. */
#include "replay/step_change.h"

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

static bool selects_any(const struct selected *p) {
  for (size_t i = 0; i < p->places.count; i++)
    if (p->is_selected[i]) return true;
  return false;
}

static void forget_names(struct selected *p) {
  tg__map_free(&p->places);
  tg__free(p->is_selected);
}

/* The number of workers; the text becomes the expression of what they take over. */
static enum tg_err read_workers(const struct tg__columns *t, const struct tg__ask *a, int64_t *workers, char *text,
                                struct tg_error *e) {
  struct selected with_workers = {0}, batches = {0};
  enum tg_err err = tg__ask_integer(a, change_names[TG__CHANGE_WORKERS], workers, e);
  if (!err && (*workers < 1 || *workers > MOST_WORKERS))
    err = tg__fail(e, TG_USAGE, -1, "what_if: workers= is a number of processes from 1 to %d", MOST_WORKERS);
  if (!err) err = select_names(&with_workers, t, "name ~ \"_MultiProcessingDataLoaderIter\"", e);
  if (!err) err = select_names(&batches, t, "name = \"DataLoader batch\"", e);
  if (!err && selects_any(&with_workers) && !selects_any(&batches))
    err = tg__fail(e, TG_NO_DATA, -1,
                   "what_if: the loader has worker processes already, and the trace does not say how long they take "
                   "for a batch: record with tachograph run");
  forget_names(&with_workers);
  forget_names(&batches);
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

enum by { BY_RANK, BY_STEP, BY_EVENT };
struct row { /* TG_NULL_INT, TG_NONE and NULL: unknown */
  int64_t step, track, slice, mark, steps, changed, step_ns, predicted_ns, saving_ns, low_ns, high_ns;
  int64_t start_ns, dur_ns, predicted_start_ns, predicted_dur_ns;
  uint32_t name; /* string id of the trace */
  const char *verdict, *reason, *remedy;
};
static const struct row nothing = {.step = TG_NULL_INT,
                                   .track = TG_NULL_INT,
                                   .slice = TG_NULL_INT,
                                   .mark = TG_NULL_INT,
                                   .steps = TG_NULL_INT,
                                   .changed = TG_NULL_INT,
                                   .step_ns = TG_NULL_INT,
                                   .predicted_ns = TG_NULL_INT,
                                   .saving_ns = TG_NULL_INT,
                                   .low_ns = TG_NULL_INT,
                                   .high_ns = TG_NULL_INT,
                                   .start_ns = TG_NULL_INT,
                                   .dur_ns = TG_NULL_INT,
                                   .predicted_start_ns = TG_NULL_INT,
                                   .predicted_dur_ns = TG_NULL_INT,
                                   .name = TG_NONE,
                                   .verdict = "proven"};
struct answer {
  const struct tg__columns *t;
  struct tg_table *out;
  uint32_t rank;
  enum by by;
  bool has_change, is_of_all; /* is_of_all: ranks that a change is not on feel it, too */
};

static void put_what_if_row(const struct answer *a, const struct row *r) {
  struct tg_table *const out = a->out;
  tg__put_rank(out, a->t, a->rank);
  tg__put_int(out, r->step);
  tg__put_trace_text(out, a->t, r->name);
  tg__put_int(out, r->track);
  tg__put_int(out, r->slice);
  tg__put_int(out, r->mark);
  tg__put_cstr(out, r->verdict);
  tg__put_cstr(out, r->reason);
  tg__put_cstr(out, r->remedy);
  tg__put_int(out, r->steps);
  tg__put_int(out, r->changed);
  tg__put_int(out, r->step_ns);
  tg__put_int(out, r->predicted_ns);
  tg__put_int(out, r->saving_ns);
  tg__put_int(out, r->low_ns);
  tg__put_int(out, r->high_ns);
  const bool has_share = r->saving_ns != TG_NULL_INT && r->step_ns > 0;
  tg__put_real_if(out, has_share, 100 * (double)r->saving_ns / (double)r->step_ns);
  tg__put_int(out, r->start_ns);
  tg__put_int(out, r->dur_ns);
  tg__put_int(out, r->predicted_start_ns);
  tg__put_int(out, r->predicted_dur_ns);
}

static int64_t rounded_ns(bool is_known, double ns) { return is_known ? (int64_t)llround(ns) : TG_NULL_INT; }

static void put_saving(const struct answer *a, const struct tg__saving *s) {
  const bool is_known = !*s->why_not;
  struct row r = nothing;
  r.verdict = is_known ? "proven" : "refused";
  r.reason = is_known ? NULL : s->why_not;
  r.remedy = is_known ? NULL : s->help;
  r.steps = (int64_t)s->steps;
  r.changed = is_known ? (int64_t)s->slices : TG_NULL_INT;
  r.step_ns = rounded_ns(s->step_ns > 0, s->step_ns);
  r.predicted_ns = rounded_ns(is_known, s->predicted_ns);
  r.saving_ns = rounded_ns(is_known, s->median_ns);
  r.low_ns = rounded_ns(is_known, s->low_ns);
  r.high_ns = rounded_ns(is_known, s->high_ns);
  put_what_if_row(a, &r);
}

static void put_steps(const struct answer *a, const struct tg__changed_steps *c) {
  for (size_t i = 0; i < c->g->steps.count; i++) {
    struct row r = nothing;
    r.step = a->t->steps[c->g->steps.steps[i].step].number;
    r.step_ns = c->before_ns[i];
    r.predicted_ns = c->after_ns[i];
    r.saving_ns = c->before_ns[i] - c->after_ns[i];
    put_what_if_row(a, &r);
  }
}

/* Slices, with those that are removed; then marks that stay; then steps that are no slices. */
static void put_placed(const struct answer *a, const struct tg__changed_steps *c, const struct tg__placed *p) {
  const struct tg__columns *const t = a->t;
  const struct tg__extent marks = tg__rank_marks(t, a->rank);
  TG__EACH (k, tg__tracks_of(&t->ranks[a->rank]))
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const uint32_t at = i - c->g->slices.first;
      if (p->state[at] == TG__PLACED_OUTSIDE) continue;
      const bool is_kept = p->state[at] == TG__PLACED_KEPT;
      struct row r = nothing;
      r.name = t->slices.name[i];
      r.track = k;
      r.slice = i;
      r.start_ns = t->slices.start_ns[i];
      r.dur_ns = t->slices.dur_ns[i];
      if (is_kept) r.predicted_start_ns = p->start_ns[at];
      if (is_kept) r.predicted_dur_ns = p->end_ns[at] - p->start_ns[at];
      put_what_if_row(a, &r);
    }
  TG__EACH (i, marks) {
    if (p->mark_ns[i - marks.first] == TG_NULL_INT) continue;
    struct row r = nothing;
    r.name = t->marks.name[i];
    r.track = t->marks.track[i];
    r.mark = i;
    r.start_ns = t->marks.ts_ns[i];
    r.predicted_start_ns = p->mark_ns[i - marks.first];
    put_what_if_row(a, &r);
  }
  for (size_t i = 0; i < c->g->steps.count; i++) {
    const struct tg__step *const step = &t->steps[c->g->steps.steps[i].step];
    if (step->slice != TG_NONE) continue;
    struct row r = nothing;
    r.step = step->number;
    r.name = step->name;
    r.track = c->g->lanes[c->g->main_lane].track;
    r.start_ns = step->start_ns;
    r.dur_ns = step->end_ns - step->start_ns;
    r.predicted_start_ns = p->step_ns[2 * i];
    r.predicted_dur_ns = p->step_ns[2 * i + 1] - p->step_ns[2 * i];
    put_what_if_row(a, &r);
  }
}

static bool put_changed(void *ctx, const struct tg__changed_steps *c) {
  struct answer own = *(const struct answer *)ctx;
  const struct answer *const a = &own;
  struct tg__placed placed;
  own.rank = c->g->rank;
  if (a->by == BY_RANK || (a->has_change && !a->is_of_all && !c->selected)) return true;
  if (a->by == BY_STEP) {
    put_steps(a, c);
    return true;
  }
  if (!tg__place_events(c, &placed)) return false;
  put_placed(a, c, &placed);
  tg__placed_free(&placed);
  return true;
}

static void put_result(const struct answer *a, const struct tg__saving *saving) {
  if (a->by == BY_RANK) put_saving(a, saving);
  if (a->by != BY_RANK && *saving->why_not)
    tg__table_note(a->out, "No prediction of %s: %s. To get one, %s.", a->t->rank_count > 1 ? "a rank" : "the steps",
                   saving->why_not, saving->help);
}

static void note_nothing(const struct answer *a, size_t selected) {
  if (a->has_change && !selected) tg__table_note(a->out, "Nothing in the steps is selected, so nothing changes.");
}

static enum tg_err answer_rank(struct answer *a, const struct tg__replay_change *changes, size_t count) {
  struct tg__saving saving;
  const enum tg_err err = tg__replay_change(a->t, a->rank, changes, count, &saving, put_changed, a);
  if (err) return err;
  put_result(a, &saving);
  note_nothing(a, *saving.why_not ? 1 : saving.slices);
  return TG_OK;
}

static enum tg_err answer_all_ranks(struct answer *a, const struct tg__replay_change *changes, size_t count,
                                    uint32_t only) {
  struct tg__saving *const savings = tg__alloc(((size_t)a->t->rank_count + 1) * sizeof *savings);
  enum tg_err err = savings ? TG_OK : TG_MEMORY;
  if (!err) err = tg__replay_change_ranks(a->t, changes, count, only, savings, put_changed, a, a->out);
  size_t selected = 0;
  for (a->rank = 0; !err && a->rank < a->t->rank_count; a->rank++) {
    put_result(a, &savings[a->rank]);
    selected += *savings[a->rank].why_not ? 1 : savings[a->rank].slices;
  }
  if (!err) note_nothing(a, selected);
  tg__free(savings);
  return err;
}

/* The rank that the change is on; TG_NONE: all. */
static enum tg_err read_only(const struct tg__columns *t, const struct tg__ask *a, uint32_t *only, struct tg_error *e) {
  int64_t number;
  if (strcmp(tg__ask_arg(a, "on_rank"), "all") == 0) return TG_OK;
  const enum tg_err err = tg__ask_integer(a, "on_rank", &number, e);
  for (uint32_t r = 0; !err && r < t->rank_count; r++)
    if (tg__rank_number(t, r) == number) *only = r;
  if (!err && (*only == TG_NONE || a->rank != TG_NONE || t->rank_count < 2))
    return tg__fail(e, TG_USAGE, -1,
                    "what_if: on_rank= is the number of a rank, of several in the trace, without rank=");
  return err;
}

/* Workers of a loader are a matter of one rank. */
static bool is_of_all(const struct tg__columns *t, const struct tg__ask *a, const struct tg__replay_change *changes,
                      size_t count) {
  bool has_workers = false;
  for (size_t i = 0; i < count; i++) has_workers |= changes[i].kind == TG__CHANGE_WORKERS;
  return a->rank == TG_NONE && t->rank_count > 1 && !has_workers;
}

enum tg_err tg__answer_what_if(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  static const char *const bys[] = {"rank", "step", "event"};
  struct selected selected[TG__CHANGE_KINDS] = {{0}};
  struct tg__replay_change changes[TG__CHANGE_KINDS];
  size_t count = 0, by = BY_RANK;
  uint32_t only = TG_NONE;
  enum tg_err err = tg__ask_choice(a, "by", bys, sizeof bys / sizeof *bys, &by, e);
  if (!err) err = read_only(t, a, &only, e);
  if (!err) err = read_changes(t, a, selected, changes, &count, e);
  if (!err && !count)
    tg__table_note(out,
                   "Nothing changes: say what does with remove=, scale=, move_off=, overlap=, add= or batch=, each an "
                   "expression over name and category, as in remove='name ~ \"print\"', or with workers=4.");
  struct answer answer = {t, out, 0, (enum by)by, count > 0, is_of_all(t, a, changes, count)};
  if (!err && answer.is_of_all) {
    err = answer_all_ranks(&answer, changes, count, only);
    if (err) tg__no_memory(e, "replaying the steps");
  } else {
    for (; !err && answer.rank < t->rank_count; answer.rank++) {
      if (!tg__ask_has_rank(a, answer.rank)) continue;
      err = answer_rank(&answer, changes, count);
      if (err) tg__no_memory(e, "replaying the steps");
    }
  }
  for (int k = 0; k < TG__CHANGE_KINDS; k++) forget_names(&selected[k]);
  return err;
}
