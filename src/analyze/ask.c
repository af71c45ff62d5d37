/* ask: one call of a question, from the text of its arguments to a filtered, sorted table. */
#include "analyze/answering.h"
#include "analyze/compat/compat.h"

#include <assert.h>
#include <stdio.h>

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *question_name(const void *ctx, size_t k) {
  const struct tg__catalog *const c = ctx;
  return k < c->count ? c->questions[k].name : NULL;
}

static const char *argument_name(const void *ctx, size_t k) {
  const struct tg__argument_info *info = tg__question_argument(ctx, k);
  return info ? info->name : NULL;
}

static const char *choice_name(const void *ctx, size_t k) { return ((const char *const *)ctx)[k]; }

/* "; did you mean x?" or nothing. */
static const char *suggestion(char *buf, size_t size, const char *nearest) {
  buf[0] = 0;
  if (nearest) snprintf(buf, size, "; did you mean %s?", nearest);
  return buf;
}

enum tg_err tg__no_question(const struct tg__catalog *c, const char *name, struct tg_error *e) {
  char hint[64];
  suggestion(hint, sizeof hint, tg__nearest_text(name, question_name, c));
  return tg__fail(e, TG_USAGE, -1, "there is no question '%.60s'%s (`tachograph questions` lists them all)", name,
                  hint);
}

static enum tg_err unknown_argument(const struct tg__question *q, const char *name, struct tg_error *e) {
  char hint[64], list[300] = "";
  const struct tg__argument_info *info;
  for (size_t k = 0; (info = tg__question_argument(q, k)) != NULL; k++) tg__list_name(list, sizeof list, info->name);
  suggestion(hint, sizeof hint, tg__nearest_text(name, argument_name, q));
  return tg__fail(e, TG_USAGE, -1, "the question %s takes no argument '%.60s'%s (it takes %s)", q->name, name, hint,
                  list);
}

static const struct tg__argument_info *find_argument(const struct tg__question *q, const char *name) {
  const struct tg__argument_info *info;
  for (size_t k = 0; (info = tg__question_argument(q, k)) != NULL; k++)
    if (strcmp(info->name, name) == 0) return info;
  return NULL;
}

/* What is no question (tg__ask_select) takes them all. */
static bool takes(const struct tg__ask *a, const char *name) {
  return !a->question || find_argument(a->question, name) != NULL;
}

bool tg__ask_has_arg(const struct tg__ask *a, const char *name) { return find_argument(a->question, name) != NULL; }

const char *tg__ask_arg(const struct tg__ask *a, const char *name) {
  for (size_t i = 0; i < a->arg_count; i++)
    if (a->args[i].value && strcmp(a->args[i].name, name) == 0) return a->args[i].value;
  const struct tg__argument_info *info = a->question ? find_argument(a->question, name) : NULL;
  return info ? info->fallback : NULL;
}

enum tg_err tg__ask_choice(const struct tg__ask *a, const char *arg, const char *const *choices, size_t count,
                           size_t *which, struct tg_error *e) {
  const char *value = tg__ask_arg(a, arg);
  char list[256] = "", hint[64];
  for (size_t k = 0; k < count; k++) {
    if (value && strcmp(value, choices[k]) == 0) {
      *which = k;
      return TG_OK;
    }
    tg__list_name(list, sizeof list, choices[k]);
  }
  const char *candidates[17] = {NULL};
  for (size_t k = 0; k < count && k < 16; k++) candidates[k] = choices[k];
  suggestion(hint, sizeof hint, value ? tg__nearest_text(value, choice_name, candidates) : NULL);
  return tg__fail(e, TG_USAGE, -1, "%s=%.60s is not known to the question %s%s (it may be %s)", arg, value ? value : "",
                  a->question->name, hint, list);
}

/* A whole number that fills [text, end); false when it is something else. */
static bool read_number(const char *text, const char *end, int64_t *out) {
  const bool negative = text < end && *text == '-';
  const char *p = text + negative;
  int64_t n = 0;
  if (p == end) return false;
  for (; p < end; p++)
    if (*p < '0' || *p > '9' || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
      return false;
  *out = negative ? -n : n;
  return true;
}

enum tg_err tg__ask_integer(const struct tg__ask *a, const char *arg, int64_t *out, struct tg_error *e) {
  const char *value = tg__ask_arg(a, arg);
  if (value && read_number(value, value + strlen(value), out) && *out >= 0) return TG_OK;
  return tg__fail(e, TG_USAGE, -1, "%s: %s=%.60s is not a whole number", a->question->name, arg, value ? value : "");
}

/* Up to three decimals, as one would type them. */
enum tg_err tg__ask_us(const struct tg__ask *a, const char *arg, int64_t *ns, struct tg_error *e) {
  const char *value = tg__ask_arg(a, arg);
  const char *dot = value ? strchrnul(value, '.') : NULL;
  int64_t whole = 0, part = 0, unit = 100;
  bool good = value && dot > value && read_number(value, dot, &whole) && whole >= 0 && whole <= INT64_MAX / 1000 - 1;
  for (const char *p = good && *dot ? dot + 1 : NULL; p && *p; p++, unit /= 10) {
    good = good && *p >= '0' && *p <= '9';
    part += (*p - '0') * unit;
  }
  *ns = whole * 1000 + part;
  return good ? TG_OK
              : tg__fail(e, TG_USAGE, -1, "%s: %s=%.60s is not a number of microseconds", a->question->name, arg,
                         value ? value : "");
}

bool tg__ask_is_all(const char *value) { return !value || !*value || strcmp(value, "all") == 0; }

/* ---- a call --------------------------------------------------------------------------------- */

static enum tg_err check_names(const struct tg__call *c, struct tg_error *e) {
  for (size_t i = 0; i < c->count; i++) {
    if (!c->args[i].name)
      return tg__fail(e, TG_USAGE, -1, "argument %zu of the question %s has no name", i + 1, c->question->name);
    if (!find_argument(c->question, c->args[i].name)) return unknown_argument(c->question, c->args[i].name, e);
    for (size_t j = 0; j < i; j++)
      if (strcmp(c->args[i].name, c->args[j].name) == 0)
        return tg__fail(e, TG_USAGE, -1, "the argument %s is given twice", c->args[i].name);
  }
  return TG_OK;
}

/* Rows behind most_rows are cut off whatever comes: only then may they be left out before. */
static enum tg_err read_limit(struct tg__call *c, struct tg_error *e) {
  const char *const value = tg__call_value(c, "limit"), *const where = tg__call_value(c, "where"),
                    *const sort = tg__call_value(c, "sort");
  int64_t number;
  c->limit = c->most_rows = SIZE_MAX;
  if (tg__ask_is_all(value)) return TG_OK;
  if (!read_number(value, value + strlen(value), &number) || number < 0)
    return tg__fail(e, TG_USAGE, -1, "limit=%.60s is not a number of rows: use a whole number, or all", value);
  c->limit = (size_t)number;
  if ((!where || !*where) && (!sort || !*sort)) c->most_rows = c->limit;
  return TG_OK;
}

enum tg_err tg__call_check(struct tg__call *c, struct tg_error *e) {
  const enum tg_err err = check_names(c, e);
  return err ? err : read_limit(c, e);
}

const char *tg__call_value(const struct tg__call *c, const char *name) {
  for (size_t i = 0; i < c->count; i++)
    if (c->args[i].name && c->args[i].value && strcmp(c->args[i].name, name) == 0) return c->args[i].value;
  return NULL;
}

bool tg__call_has(const struct tg__call *c, const char *name) { return !tg__ask_is_all(tg__call_value(c, name)); }

static enum tg_err parse_rank(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
  const char *value = takes(a, "rank") ? tg__ask_arg(a, "rank") : NULL;
  int64_t number, low = INT64_MAX, high = -1;
  a->rank = TG_NONE;
  if (tg__ask_is_all(value)) return TG_OK;
  if (!read_number(value, value + strlen(value), &number) || number < 0)
    return tg__fail(e, TG_USAGE, -1, "rank=%.60s is not a rank: use a whole number such as 0, or all", value);
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t has = t->ranks[r].number < 0 ? 0 : t->ranks[r].number; /* a single file without a rank answers as 0 */
    if (has == number) {
      a->rank = r;
      return TG_OK;
    }
    if (has < low) low = has;
    if (has > high) high = has;
  }
  if (low == high)
    return tg__fail(e, TG_NO_DATA, -1, "rank %lld is not in the trace, which holds only rank %lld", (long long)number,
                    (long long)low);
  return tg__fail(e, TG_NO_DATA, -1, "rank %lld is not in the trace, which holds %u ranks from %lld to %lld",
                  (long long)number, t->rank_count, (long long)low, (long long)high);
}

static enum tg_err parse_track(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
  const char *value = find_argument(a->question, "track") ? tg__ask_arg(a, "track") : NULL;
  int64_t number;
  a->track = TG_NONE;
  if (tg__ask_is_all(value)) return TG_OK;
  if (!read_number(value, value + strlen(value), &number) || number < 0)
    return tg__fail(e, TG_USAGE, -1,
                    "track=%.60s is not a track: use a number as listed by the question tracks, or all", value);
  if (number >= t->track_count)
    return tg__fail(e, TG_NO_DATA, -1, "track %lld is not in the trace, which has %u; the question tracks lists them",
                    (long long)number, t->track_count);
  a->track = (uint32_t)number;
  return TG_OK;
}

enum { LABEL_BYTES = 40 };

/* ---- step windows ---------------------------------------------------------------------------- */

/* Of one rank by its number: what it lacks another may have. */
static const char *rank_label(const struct tg__columns *t, uint32_t rank, char buf[LABEL_BYTES]) {
  if (rank == TG_NONE || t->ranks[rank].number < 0) return "the trace";
  snprintf(buf, LABEL_BYTES, "rank %lld", (long long)t->ranks[rank].number);
  return buf;
}

static enum tg_err no_such_step(const struct tg__columns *t, const struct tg__ask *a, const char *text, int len,
                                struct tg_error *e) {
  char buf[LABEL_BYTES];
  const char *const who = rank_label(t, a->rank == TG_NONE && t->rank_count == 1 ? 0 : a->rank, buf);
  int64_t low = INT64_MAX, high = INT64_MIN;
  unsigned count = 0;
  for (uint32_t i = 0; i < t->step_count; i++) {
    if (!tg__ask_has_rank(a, t->steps[i].rank)) continue;
    count++;
    if (t->steps[i].number < low) low = t->steps[i].number;
    if (t->steps[i].number > high) high = t->steps[i].number;
  }
  if (low == high)
    return tg__fail(e, TG_NO_DATA, -1, "step %.*s is not in %s, which has only step %lld", len, text, who,
                    (long long)low);
  return tg__fail(e, TG_NO_DATA, -1, "step %.*s is not in %s, which has %u steps numbered %lld to %lld", len, text, who,
                  count, (long long)low, (long long)high);
}

/* Mark the steps that one item, 5 or 5:8, names. */
static enum tg_err select_steps(const struct tg__columns *t, const struct tg__ask *a, const char *item, const char *end,
                                bool *selected, struct tg_error *e) {
  const char *colon = memchr(item, ':', (size_t)(end - item));
  const int shown = (int)(end - item < 60 ? end - item : 60);
  int64_t first, last;
  if (!read_number(item, colon ? colon : end, &first) || !read_number(colon ? colon + 1 : item, end, &last))
    return tg__fail(e, TG_USAGE, -1,
                    "step=%.*s is not understood: use one step (5), a range with both ends (5:8), or a list (5,7)",
                    shown, item);
  if (last < first)
    return tg__fail(e, TG_USAGE, -1, "step=%.*s runs backwards: the smaller number comes first", shown, item);
  bool any = false;
  for (uint32_t i = 0; i < t->step_count; i++) {
    const struct tg__step *s = &t->steps[i];
    if (s->number < first || s->number > last || !tg__ask_has_rank(a, s->rank)) continue;
    selected[i] = any = true;
  }
  return any ? TG_OK : no_such_step(t, a, item, shown, e);
}

static enum tg_err make_windows(const struct tg__columns *t, struct tg__ask *a, const bool *selected,
                                struct tg_error *e) {
  size_t count = 0;
  for (uint32_t i = 0; i < t->step_count; i++) count += selected[i];
  a->windows = tg__alloc((count + 1) * sizeof *a->windows);
  if (!a->windows) return tg__no_memory(e, "reading the arguments of a question");
  for (uint32_t i = 0; i < t->step_count; i++) {
    if (!selected[i]) continue;
    const struct tg__step *s = &t->steps[i];
    struct tg__window *w = &a->windows[a->window_count++];
    *w = (struct tg__window){s->start_ns, s->end_ns, s->rank, i, s->end_ns};
    if (a->window_count > 1 && w[-1].rank == w->rank && w[-1].latest_end_ns > w->latest_end_ns)
      w->latest_end_ns = w[-1].latest_end_ns;
  }
  return TG_OK;
}

const struct tg__step *tg__ask_first_step(const struct tg__columns *t, const struct tg__ask *a) {
  for (uint32_t i = 0; i < t->step_count; i++)
    if (tg__ask_has_rank(a, t->steps[i].rank)) return &t->steps[i];
  return NULL;
}

static enum tg_err parse_steps(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
  /* questions about ranks look at the numbers themselves: summaries have no steps of the trace */
  const bool has_windows = takes(a, "step") && !(a->question && a->question->loads == TG__COL_RANKS);
  const char *value = has_windows ? tg__ask_arg(a, "step") : NULL;
  if (tg__ask_is_all(value)) return TG_OK;
  if (!tg__ask_first_step(t, a))
    return tg__fail(
        e, TG_NO_DATA, -1,
        "the trace has no steps, so step=%.60s selects nothing; call prof.step() once an iteration when recording",
        value);
  a->has_steps = true;
  bool *selected = tg__alloc(t->step_count);
  if (!selected) return tg__no_memory(e, "reading the arguments of a question");
  enum tg_err err = TG_OK;
  for (const char *item = value; err == TG_OK;) {
    const char *end = strchrnul(item, ',');
    err = select_steps(t, a, item, end, selected, e);
    if (!*end) break;
    item = end + 1;
  }
  if (err == TG_OK) err = make_windows(t, a, selected, e);
  tg__free(selected);
  return err;
}

bool tg__ask_has_rank(const struct tg__ask *a, uint32_t rank) { return a->rank == TG_NONE || a->rank == rank; }

/* First mark of this rank or a later one: marks lie by rank. */
static uint32_t first_mark_of(const struct tg__columns *t, uint32_t rank) {
  uint32_t low = 0;
  TG__PARTITION(low, t->marks.count, i, t->tracks[t->marks.track[i]].rank < rank);
  return low;
}

struct tg__extent tg__rank_marks(const struct tg__columns *t, uint32_t rank) {
  return (struct tg__extent){first_mark_of(t, rank), first_mark_of(t, rank + 1)};
}

struct tg__rank_range tg__rank_range_of(const struct tg__columns *t, uint32_t rank) {
  if (rank == TG_NONE) return (struct tg__rank_range){0, t->track_count, 0, t->slices.count, 0, t->marks.count};
  const struct tg__rank *const r = &t->ranks[rank];
  const struct tg__extent slices = tg__rank_slices(t, rank),
                          marks = t->marks.track ? tg__rank_marks(t, rank) : (struct tg__extent){0, 0};
  return (struct tg__rank_range){
      r->first_track, r->first_track + r->track_count, slices.first, slices.past, marks.first, marks.past};
}

bool tg__ask_has_track(const struct tg__ask *a, const struct tg__columns *t, uint32_t track) {
  return tg__ask_has_rank(a, t->tracks[track].rank) && (a->track == TG_NONE || a->track == track);
}

bool tg__ask_has_time(const struct tg__ask *a, uint32_t rank, int64_t ns) {
  if (!a->has_steps) return true;
  size_t low = 0; /* behind the last window of this rank that starts at or before ns */
  TG__PARTITION(low, a->window_count, i,
                a->windows[i].rank < rank || (a->windows[i].rank == rank && a->windows[i].start_ns <= ns));
  while (low > 0 && a->windows[low - 1].rank == rank && a->windows[low - 1].latest_end_ns > ns)
    if (a->windows[--low].end_ns > ns) return true;
  return false;
}

bool tg__ask_has_slice(const struct tg__ask *a, const struct tg__columns *t, uint32_t track, uint32_t slice) {
  if (!tg__ask_has_track(a, t, track)) return false;
  if (!a->has_steps) return true;
  uint32_t at = slice;
  if (tg__class_is_device_work(tg__slice_class(t, slice))) at = t->slices.cause[slice];
  return at != TG_NONE && tg__ask_has_time(a, t->tracks[track].rank, t->slices.start_ns[at]);
}

/* ---- what the table says beside its rows ----------------------------------------------------- */

static void add_loss(struct tg_table *out, enum tg__loss which, int64_t count, int64_t offset) {
  struct tg__loss_row *const losses = tg__realloc(out->losses, (out->loss_count + 1) * sizeof *losses);
  if (!losses) {
    out->failed = true;
    return;
  }
  out->losses = losses;
  losses[out->loss_count++] =
      (struct tg__loss_row){tg__loss_info[which].name, tg__loss_info[which].meaning, count, offset};
}

void tg__table_add_skipped_files(struct tg_table *out, const struct tg__columns *t) {
  const struct tg__rank *const first = &t->ranks[0];
  if (first->loss[TG__LOSS_skipped_file])
    add_loss(out, TG__LOSS_skipped_file, first->loss[TG__LOSS_skipped_file], first->loss_offset[TG__LOSS_skipped_file]);
}

void tg__table_add_losses(struct tg_table *out, const struct tg__columns *t, const struct tg__ask *a) {
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    int64_t count = 0, offset = -1;
    if (k == TG__LOSS_skipped_file && a->rank != TG_NONE && t->rank_count > 1) continue; /* it is of no rank */
    for (uint32_t r = 0; r < t->rank_count; r++) {
      if (!tg__ask_has_rank(a, r) || t->ranks[r].loss[k] == 0) continue;
      if (count == 0) offset = t->ranks[r].loss_offset[k];
      count += t->ranks[r].loss[k];
    }
    if (count) add_loss(out, (enum tg__loss)k, count, offset);
  }
}

static void note_unlaunched(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  if (!a->has_steps || a->question->steps != TG__STEPS_BY_LAUNCH) return;
  int64_t without = 0;
  for (uint32_t k = 0; k < t->track_count; k++) {
    if (!tg__ask_has_track(a, t, k)) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k]))
      without += t->slices.cause[i] == TG_NONE && tg__class_is_device_work(tg__slice_class(t, i));
  }
  if (without > 0)
    tg__table_note(out, "%lld device events have no known launch, so they belong to no step and are left out here",
                   (long long)without);
}

/* Why there are no rows, where no question says so itself. */
static void note_nothing(const struct tg__call *c, struct tg_table *out) {
  const char *const where = tg__call_value(c, "where");
  if (out->rows || out->note_count || tg__call_has(c, "step") || (where && *where) || c->limit == 0) return;
  if (*c->question->empty) tg__table_note(out, "%s", c->question->empty);
}

static void add_notes(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out) {
  const bool uses_steps = a->has_steps || a->question->steps == TG__STEPS_BY_EACH;
  const struct tg__step *const step = uses_steps ? tg__ask_first_step(t, a) : NULL;
  const enum tg__step_kind kind = step ? t->ranks[step->rank].step_kind : TG__STEP_PROFILER;
  if (kind == TG__STEP_PERIOD)
    tg__table_note(out, "the trace marks no steps: these were found by the period of its operators");
  if (kind == TG__STEP_ANNOTATION)
    tg__table_note(out, "the trace has no ProfilerStep: the annotation %.*s is taken as the step",
                   (int)tg__name(t, step->name).len, tg__name(t, step->name).ptr);
  note_unlaunched(t, a, out);
  if (!a->is_joined && t->rank_count > 1)
    tg__table_note_duplicate_ranks(out, t, "", a->rank == TG_NONE ? TG_NULL_INT : t->ranks[a->rank].number);
}

/* ---- running --------------------------------------------------------------------------------- */

/* where, sort, limit: in this order whatever the order of the arguments. */
static enum tg_err apply_where_sort_limit(struct tg_table *out, const struct tg__ask *a, size_t limit,
                                          struct tg_error *e) {
  const char *where = tg__ask_arg(a, "where"), *sort = tg__ask_arg(a, "sort");
  enum tg_err err = TG_OK;
  if (where && *where) err = tg__where_filter(out, where, e);
  if (err == TG_OK && sort && *sort) err = tg__sort_table(out, sort, e);
  if (err == TG_OK && out->rows > limit) out->rows = limit;
  if (err == TG_OK) err = tg__keep_selected_columns(a, out, e);
  return err;
}

enum tg_err tg__ask_finish(const struct tg__call *c, struct tg_table *t, struct tg_error *e) {
  const struct tg__ask a = {.question = c->question, .args = c->args, .arg_count = c->count};
  const char *const where = tg__ask_arg(&a, "where"), *const sort = tg__ask_arg(&a, "sort");
  enum tg_err err = where && *where ? tg__where_filter(t, where, e) : TG_OK;
  if (!err && sort && *sort) err = tg__sort_table(t, sort, e);
  if (!err && t->rows > c->limit) t->rows = c->limit;
  if (!err) note_nothing(c, t);
  if (!err) err = tg__select_columns(&a, t, e);
  if (!err) err = tg__keep_selected_columns(&a, t, e);
  return err ? err : t->failed ? tg__no_memory(e, "answering %s", t->question) : TG_OK;
}

static enum tg_err add_columns(const struct tg__question *q, struct tg_table *out) {
  const struct tg__column_info *info;
  for (size_t k = 0; (info = tg__question_column(q, k)) != NULL; k++)
    tg__table_add_column_as(out, info->name, info->type, info->unit, info->role);
  return out->failed ? TG_MEMORY : TG_OK;
}

static enum tg_err only_summaries(const struct tg__columns *t, const struct tg__question *q, struct tg_error *e) {
  char list[128] = "";
  size_t len = 0, left = 0;
  const struct tg__catalog *const c = q->catalog;
  for (size_t k = 0; k < c->count; k++) left += c->questions[k].loads == TG__COL_RANKS;
  for (size_t k = 0; k < c->count && len < sizeof list; k++)
    if (c->questions[k].loads == TG__COL_RANKS)
      len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", c->questions[k].name,
                              --left > 1 ? ", "
                              : left     ? " and "
                                         : "");
  return tg__fail(e, TG_NO_DATA, -1,
                  "this is a summary of %u rank%s, which answers %s; %s needs the traces it was made of", t->rank_count,
                  t->rank_count == 1 ? "" : "s", list, q->name);
}

/* Questions about ranks are answered from all columns or, where there are none, from the summaries of the ranks. */
static enum tg_err load_answer(struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  const struct tg__question *const q = a->question;
  if (q->loads == TG__COL_RANKS) return a->job.summaries ? TG_OK : tg__trace_load(t, TG__COL_ALL, e);
  if (a->job.summaries && q->loads != TG__COL_NONE) return only_summaries(t, q, e);
  return tg__trace_load(t, q->loads, e);
}

static enum tg_err check_needs(const struct tg__columns *t, const struct tg__ask *a, struct tg_error *e) {
  char buf[LABEL_BYTES];
  const bool is_one_of_several = !a->is_joined && (t->rank_count > 1 || a->job.is_part);
  return tg__check_needs(t, a, rank_label(t, is_one_of_several ? a->rank : TG_NONE, buf), e);
}

static enum tg_err answer_question(struct tg__columns *t, struct tg__ask *a, const struct tg__call *c,
                                   struct tg_table *out, struct tg_error *e) {
  enum tg_err err = a->is_joined ? TG_OK : parse_rank(t, a, e);
  if (err == TG_OK) err = parse_track(t, a, e);
  if (err == TG_OK) err = load_answer(t, a, e);
  if (err == TG_OK) err = parse_steps(t, a, e);
  if (err == TG_OK) a->policy = tg__rules_policy(a);
  if (err == TG_OK) err = check_needs(t, a, e);
  if (err == TG_OK) err = add_columns(a->question, out);
  if (err == TG_OK) err = tg__select_columns(a, out, e);
  if (err == TG_OK) err = tg__rules_answer(t, a, out, e);
  if (err == TG_OK && !out->failed) err = apply_where_sort_limit(out, a, c->limit, e);
  if (err == TG_OK) {
    if (!a->is_joined) note_nothing(c, out); /* else other ranks may have some */
    add_notes(t, a, out);
    tg__table_add_losses(out, t, a);
  }
  if (out->failed || err == TG_MEMORY) return tg__no_memory(e, "answering %s", a->question->name);
  return err;
}

enum tg_err tg__ask_select(const struct tg__columns *t, const struct tg_arg *args, size_t arg_count,
                           struct tg__ask *out, struct tg_error *e) {
  *out = (struct tg__ask){.args = args, .arg_count = arg_count, .track = TG_NONE, .most_rows = SIZE_MAX};
  const enum tg_err err = parse_rank(t, out, e);
  return err ? err : parse_steps(t, out, e);
}

void tg__ask_end(struct tg__ask *a) { tg__free(a->windows); }

enum tg_err tg__ask_rank(struct tg__columns *t, const struct tg__job_info *job, uint32_t rank, const struct tg__call *c,
                         struct tg_table **out, struct tg_error *e) {
  struct tg__ask a = {.question = c->question,
                      .args = c->args,
                      .arg_count = c->count,
                      .most_rows = c->most_rows,
                      .job = *job,
                      .rank = rank,
                      .is_joined = rank != TG_NONE};
  struct tg_table *const table = tg__table_new(c->question->name);
  *out = NULL;
  if (!table) return tg__no_memory(e, "answering %s", c->question->name);
  const enum tg_err err = answer_question(t, &a, c, table, e);
  tg__ask_end(&a);
  assert(err || tg__table_is_valid(table, NULL));
  if (err)
    tg__table_free(table);
  else
    *out = table;
  return err;
}

enum tg_err tg__ask_loaded(const struct tg__columns *t, uint32_t rank, const struct tg__question *q,
                           const struct tg_arg *args, size_t arg_count, struct tg_table **out, struct tg_error *e) {
  const struct tg__ask a = {.question = q,
                            .args = args,
                            .arg_count = arg_count,
                            .rank = rank,
                            .track = TG_NONE,
                            .most_rows = SIZE_MAX,
                            .is_joined = true};
  struct tg_table *const table = tg__table_new(q->name);
  *out = NULL;
  if (!table) return tg__no_memory(e, "answering %s", q->name);
  enum tg_err err = check_needs(t, &a, e);
  if (!err) err = add_columns(q, table);
  if (!err) err = tg__rules_answer(t, &a, table, e);
  if (table->failed) err = TG_MEMORY;
  if (err)
    tg__table_free(table);
  else
    *out = table;
  return err;
}
