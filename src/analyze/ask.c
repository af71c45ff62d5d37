/* ask: what a call asks for: its arguments, and the rank, track and steps that it is about. */
#include "analyze/answering.h"

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

enum tg_err tg__ask_parse_rank(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
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

enum tg_err tg__ask_parse_track(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
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

/* ---- step windows ---------------------------------------------------------------------------- */

const char *tg__rank_label(const struct tg__columns *t, uint32_t rank, char buf[TG__RANK_LABEL_BYTES]) {
  if (rank == TG_NONE || t->ranks[rank].number < 0) return "the trace";
  snprintf(buf, TG__RANK_LABEL_BYTES, "rank %lld", (long long)t->ranks[rank].number);
  return buf;
}

static enum tg_err no_such_step(const struct tg__columns *t, const struct tg__ask *a, const char *text, int len,
                                struct tg_error *e) {
  char buf[TG__RANK_LABEL_BYTES];
  const char *const who = tg__rank_label(t, a->rank == TG_NONE && t->rank_count == 1 ? 0 : a->rank, buf);
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

enum tg_err tg__ask_parse_steps(const struct tg__columns *t, struct tg__ask *a, struct tg_error *e) {
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

/* ---- for what is no question ------------------------------------------------------------------- */

enum tg_err tg__ask_select(const struct tg__columns *t, const struct tg_arg *args, size_t arg_count,
                           struct tg__ask *out, struct tg_error *e) {
  *out = (struct tg__ask){.args = args, .arg_count = arg_count, .track = TG_NONE, .most_rows = SIZE_MAX};
  const enum tg_err err = tg__ask_parse_rank(t, out, e);
  return err ? err : tg__ask_parse_steps(t, out, e);
}

void tg__ask_end(struct tg__ask *a) { tg__free(a->windows); }
