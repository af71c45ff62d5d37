/* Two traces, one table: the arguments of a diff, its headline, and the rows in their order. */
#include "analyze/answering.h"
#include "analyze/diff/diff.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- arguments ------------------------------------------------------------------------------- */

#define DIFF_COLUMN(name, type, unit, meaning)
static const struct tg__argument_info arguments[] = {
#define DIFF_ARGUMENT(name, fallback, meaning) {#name, fallback, meaning},
#include "analyze/diff/diff.def"
#undef DIFF_ARGUMENT
};
enum { ARGUMENT_COUNT = sizeof arguments / sizeof *arguments };

static const struct tg__argument_info *find_argument(const char *name) {
  for (size_t i = 0; i < ARGUMENT_COUNT; i++)
    if (strcmp(arguments[i].name, name) == 0) return &arguments[i];
  return NULL;
}

const struct tg__argument_info *tg__diff_argument(size_t k) { return k < ARGUMENT_COUNT ? &arguments[k] : NULL; }

const char *tg__diff_arg(const struct tg__diff_ask *a, const char *name) {
  for (size_t i = 0; i < a->count; i++)
    if (a->args[i].value && strcmp(a->args[i].name, name) == 0) return a->args[i].value;
  return find_argument(name)->fallback;
}

static const char *argument_name(const void *ctx, size_t k) {
  (void)ctx;
  return k < ARGUMENT_COUNT ? arguments[k].name : NULL;
}

static const char *by_name(const void *ctx, size_t k) {
  static const char *const others[] = {"all", "conditions", "name", "short_name", NULL};
  (void)ctx;
  return k < TG__DIFF_BYS ? tg__diff_by_names[k] : others[k - TG__DIFF_BYS];
}

static enum tg_err check_names(const struct tg__diff_ask *a, struct tg_error *e) {
  for (size_t i = 0; i < a->count; i++) {
    if (!a->args[i].name) return tg__fail(e, TG_USAGE, -1, "argument %zu of a diff has no name", i + 1);
    if (find_argument(a->args[i].name) || *tg__diff_arg(a, "question")) continue; /* the question knows its own */
    const char *near = tg__nearest_text(a->args[i].name, argument_name, NULL);
    return tg__fail(e, TG_USAGE, -1, "a diff takes no argument '%.60s'%s%s%s", a->args[i].name,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  }
  return TG_OK;
}

static enum tg_err unknown_by(struct tg__str word, struct tg_error *e) {
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)(word.len < 60 ? word.len : 60), word.ptr);
  const char *near = tg__nearest_text(text, by_name, NULL);
  return tg__fail(e, TG_USAGE, -1,
                  "by=%s is nothing a diff can be made by%s%s%s (step, category, op, module, kernel, family, memory, "
                  "several joined by comma, "
                  "all, conditions, name, short_name)",
                  text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static enum tg_err parse_by(struct tg__diff_ask *a, struct tg_error *e) {
  const char *text = tg__diff_arg(a, "by");
  for (;;) {
    const char *end = strchrnul(text, ',');
    const struct tg__str word = {text, (uint32_t)(end - text)};
    const unsigned before = a->by;
    if (tg__str_eq(word, TG_STR("all"))) a->by |= (1u << TG__DIFF_BYS) - 1;
    for (unsigned k = 0; k < TG__DIFF_BYS; k++)
      if (tg__str_eq(word, (struct tg__str){tg__diff_by_names[k], (uint32_t)strlen(tg__diff_by_names[k])}))
        a->by |= 1u << k;
    if (a->by == before) return unknown_by(word, e);
    if (!*end) return TG_OK;
    text = end + 1;
  }
}

static enum tg_err parse_least(struct tg__diff_ask *a, struct tg_error *e) {
  const char *text = tg__diff_arg(a, "least");
  char *end;
  a->least_pct = strtod(text, &end);
  if (*end == '%') end++;
  if (end == text || *end || !(a->least_pct >= 0 && a->least_pct < 1e6))
    return tg__fail(e, TG_USAGE, -1, "least=%.60s is not a share such as 2%%", text);
  return TG_OK;
}

/* rank= and step= of one side. */
static size_t side_args(const struct tg__diff_ask *a, int side, struct tg_arg out[2]) {
  static const char *const names[] = {"rank", "step"};
  static const char *const own[][TG__SIDES] = {{"rank_a", "rank_b"}, {"step_a", "step_b"}};
  for (int k = 0; k < 2; k++) {
    const char *value = tg__diff_arg(a, own[k][side]);
    out[k] = (struct tg_arg){names[k], *value ? value : tg__diff_arg(a, names[k])};
  }
  return 2;
}

/* ---- the headline ---------------------------------------------------------------------------- */

static double scale_of(double ns, const char **unit) {
  static const struct {
    double scale;
    const char *unit;
  } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  size_t i = 0;
  while (i < 3 && ns < units[i].scale) i++;
  *unit = units[i].unit;
  return units[i].scale;
}

static void write_times(char *out, size_t room, const struct tg__diff_row *r) {
  const char *unit;
  const double scale = scale_of(r->a > r->b ? r->a : r->b, &unit), most = (r->a > r->b ? r->a : r->b) / scale;
  const int decimals = most >= 100 ? 0 : most >= 10 ? 1 : 2;
  snprintf(out, room, "%.*f → %.*f %s a step", decimals, r->a / scale, decimals, r->b / scale, unit);
}

static double pct_of(double part, double is_recording) { return is_recording ? 100 * part / is_recording : NAN; }

/* Other programs stretch the time of a step by what they like; the time of its thread on a core is disturbed less. */
static void put_noisy_headline(const struct tg__diff_rows *rows, const struct tg__diff_side sides[TG__SIDES],
                               const char *times, struct tg_table *out) {
  const struct tg__diff_row *const last = &rows->items[rows->count - 1];
  char cpu[96] = "not known";
  if (strcmp(last->quantity, "thread_cpu") == 0) write_times(cpu, sizeof cpu, last);
  tg__table_note(out, "No verdict: other programs %s during %s; %s; on a core: %s",
                 sides[0].is_unclear || sides[1].is_unclear ? "or its own threads kept the loop from a core"
                                                            : "kept the machine busy",
                 !sides[1].is_noisy   ? "A"
                 : !sides[0].is_noisy ? "B"
                                      : "both",
                 times, cpu);
}

static void put_pace_headline(const struct tg__diff_pace *pace, const char *times, struct tg_table *out) {
  tg__table_note(out,
                 "No verdict: the same work goes at another pace: %zu operators that both call as often take %.2f x as "
                 "long in B%s at the median, so it is the machine, or something that holds for all of them; %s. Record "
                 "both again, or accept the pace (--accept pace)",
                 pace->operators, pace->factor, pace->of_device ? " on the device" : "", times);
}

static void put_headline(const struct tg__diff_rows *rows, const struct tg__document_condition *deciding,
                         const struct tg__diff_pace *pace, const struct tg__diff_side sides[TG__SIDES],
                         struct tg_table *out) {
  const struct tg__diff_row *const p50 = &rows->items[0];
  char times[96], interval[96] = "";
  write_times(times, sizeof times, p50);
  const double pct = pct_of(p50->b - p50->a, p50->a), low = pct_of(p50->low, p50->a), high = pct_of(p50->high, p50->a);
  const bool faster = strcmp(p50->verdict, "faster") == 0, known = !isnan(low);
  if (deciding)
    tg__table_note(out, "No verdict: %s %s, %s in A and %s in B; %s", deciding->key,
                   deciding->key[strlen(deciding->key) - 1] == 's' ? "differ" : "differs", deciding->a, deciding->b,
                   times);
  else if (sides[0].is_noisy || sides[1].is_noisy)
    put_noisy_headline(rows, sides, times, out);
  else if (pace)
    put_pace_headline(pace, times, out);
  else if (faster || strcmp(p50->verdict, "slower") == 0)
    tg__table_note(out, "B is %.1f %% %s: %s (95 %%: %.1f … %.1f %%)", fabs(pct), p50->verdict, times,
                   faster ? -high : low, faster ? -low : high);
  else {
    if (known) snprintf(interval, sizeof interval, " (95 %%: %+.1f … %+.1f %%)", low, high);
    tg__table_note(out, "%s: %s, %+.1f %%%s", known ? "No difference" : "Too few steps for a verdict", times, pct,
                   interval);
  }
  tg__table_note(out, "the median of %zu step%s of A and %zu of B", sides[0].count, sides[0].count == 1 ? "" : "s",
                 sides[1].count);
}

static const char *path_of(const struct tg__diff_side *s) { return s->path ? s->path : "the trace"; }

static void put_notes(const struct tg__diff_side sides[TG__SIDES], const struct tg__conditions *c,
                      struct tg_table *out) {
  for (size_t i = 0; i < c->count; i++) {
    const struct tg__document_condition *x = &c->items[i];
    if (tg__condition_differs(x))
      tg__table_note(out, "%s: %s in A, %s in B%s", x->key, x->a, x->b,
                     x->accepted ? " (accepted)"
                     : x->decides
                         ? ": other work, so times are not judged (--accept, or accept= in Python, if they may be)"
                         : "");
  }
  for (int side = 0; side < TG__SIDES; side++) {
    const struct tg__diff_side *s = &sides[side];
    const char letter = s->letter;
    tg__diff_note_losses(out, letter, s->loss);
    if (s->is_recording) tg__table_note(out, "%c (%.120s) has no steps: it is one step as a whole", letter, path_of(s));
    if (s->count < TG__DRAW_LEAST)
      tg__table_note(out, "%c has %zu step%s: no intervals, which need at least %d on both sides", letter, s->count,
                     s->count == 1 ? "" : "s", TG__DRAW_LEAST);
    if (s->left_out)
      tg__table_note(out, "%c: %zu step%s at the end left out", letter, s->left_out, s->left_out == 1 ? "" : "s");
    if (s->ranks > 1) tg__table_note(out, "%c: every figure is the mean over %zu ranks", letter, s->ranks);
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_diff_row(const struct tg__diff_rows *rows, const struct tg__diff_row *r, struct tg_table *out) {
  tg__put_cstr(out, tg__diff_by_names[r->by]);
  tg__put_text(out, tg__strings_get(rows->names, r->name));
  tg__put_cstr(out, r->quantity);
  tg__put_cstr(out, r->unit);
  tg__put_real(out, r->a);
  tg__put_real(out, r->b);
  tg__put_real(out, r->b - r->a);
  tg__put_real(out, pct_of(r->b - r->a, r->a));
  tg__put_real(out, r->low);
  tg__put_real(out, r->high);
  tg__put_cstr(out, r->verdict);
}

static void put_diff_rows(const struct tg__diff_rows *rows, const struct tg__diff_ask *ask, struct tg_table *out) {
  for (size_t i = 0; i < rows->count; i++)
    if (ask->by >> rows->items[i].by & 1) put_diff_row(rows, &rows->items[i], out);
}

static enum tg_err add_rows(struct tg__diff_rows *rows, const struct tg__diff_side sides[TG__SIDES],
                            const struct tg__conditions *conditions, const struct tg__diff_ask *ask,
                            struct tg_table *out) {
  const bool is_noisy = sides[0].is_noisy || sides[1].is_noisy;
  const struct tg__diff_side *const both[TG__SIDES] = {&sides[0], &sides[1]};
  struct tg__diff_pace pace;
  enum tg_err err = tg__diff_step_rows(rows, &sides[0], &sides[1]);
  if (err) return err;
  rows->withheld = is_noisy || tg__conditions_deciding(conditions);
  rows->step_ns = rows->items[0].a;
  tg__diff_judge(rows);
  const bool needs_pace = rows->items[0].changed && !tg__conditions_accept(tg__diff_arg(ask, "accept"), "pace");
  if (needs_pace && !tg__diff_pace_find(both, &pace)) return TG_MEMORY;
  const bool is_pace = needs_pace && tg__diff_pace_explains(&pace, rows->items[0].a, rows->items[0].b);
  if (is_pace) {
    rows->withheld = true;
    rows->kind_begin = 0;
    tg__diff_judge(rows);
  }
  put_headline(rows, tg__conditions_deciding(conditions), is_pace ? &pace : NULL, sides, out);
  put_notes(sides, conditions, out);
  if (!tg__conditions_deciding(conditions)) tg__diff_note_fusion(sides, out);
  for (unsigned by = TG__DIFF_CATEGORY; !err && by < TG__DIFF_BYS; by++) {
    if (!(ask->by >> by & 1)) continue;
    if (by == TG__DIFF_CATEGORY)
      err = tg__diff_category_rows(rows, &sides[0], &sides[1]);
    else if (by == TG__DIFF_MEMORY)
      err = tg__diff_memory_rows(rows, &sides[0], &sides[1]);
    else
      err = tg__diff_name_rows(rows, (enum tg__diff_by)by, &sides[0], &sides[1], ask->by == 1u << by, out);
    tg__diff_judge(rows);
  }
  if (!err) put_diff_rows(rows, ask, out);
  return err;
}

static void put_conditions(const struct tg__conditions *c, struct tg_table *out) {
  for (size_t i = 0; i < c->count; i++) {
    const struct tg__document_condition *x = &c->items[i];
    tg__put_cstr(out, x->key);
    tg__put_cstr(out, x->a);
    tg__put_cstr(out, x->b);
    if (x->a && x->b)
      tg__put_bool(out, !tg__condition_differs(x));
    else
      tg__put_null(out);
    tg__put_bool(out, x->decides);
  }
}

static void add_columns(bool conditions, struct tg_table *out) {
#define DIFF_ARGUMENT(name, fallback, meaning)
#undef DIFF_COLUMN
#define DIFF_COLUMN(name, type, unit, meaning) tg__table_add_column(out, #name, TG_##type, unit);
  if (conditions) {
    DIFF_COLUMN(condition, TEXT, "", )
    DIFF_COLUMN(a, TEXT, "", )
    DIFF_COLUMN(b, TEXT, "", )
    DIFF_COLUMN(same, BOOL, "", )
    DIFF_COLUMN(decides, BOOL, "", )
  } else {
#include "analyze/diff/diff.def"
  }
}

/* ---- both sides ------------------------------------------------------------------------------ */

enum tg_err tg__diff_side_lacks(int side, enum tg_err err, struct tg_error *e) {
  if (err != TG_NO_DATA || !e) return err;
  const struct tg_error own = *e;
  return tg__fail(e, err, own.offset, "%c: %s", "AB"[side], own.text);
}

struct looking { /* at one file of a folder after the other */
  const struct tg__diff_access *access;
  const struct tg_arg *args;
  size_t arg_count;
  int side;
  unsigned kinds;
  struct tg__diff_side *all;
  struct tg_error why; /* the first file that has not the steps asked for */
};

static enum tg_err look_at(void *ctx, struct tg__columns *t, struct tg_error *e) {
  struct looking *const w = ctx;
  struct tg__diff_side part;
  struct tg_error why = {0};
  enum tg_err err = tg__diff_side_take(t, w->access, w->args, w->arg_count, w->side, w->kinds, &part, &why);
  if (err == TG_NO_DATA) {
    if (!w->why.code) w->why = why;
    err = TG_OK; /* others may have them */
  } else if (err) {
    tg__fail(e, err, why.offset, "%s", why.text);
  } else if (!tg__diff_side_add(w->all, &part)) {
    err = tg__no_memory(e, "putting ranks together");
  }
  tg__diff_side_close(&part);
  return err;
}

static enum tg_err open_side(const struct tg__diff_input *in, const struct tg__diff_ask *ask, int side,
                             struct tg__diff_side *out, struct tg_error *e) {
  struct tg_arg args[2];
  const size_t count = side_args(ask, side, args);
  struct tg__columns *const t = in->columns;
  if (!in->is_folder) {
    const enum tg_err err = tg__diff_side_take(t, ask->access, args, count, side, 0, out, e);
    return err ? err : tg__diff_side_end(out, e);
  }
  struct tg__ask selection;
  struct looking w = {ask->access, args + 1, 1, side, ask->by, out, {0}};
  *out = (struct tg__diff_side){.path = t->path, .letter = "AB"[side]};
  enum tg_err err = tg__ask_select(t, args, 1, &selection, e); /* one that is not among them: what ranks there are */
  tg__ask_end(&selection);
  if (!err) err = ask->access->each(in->trace, look_at, &w, e);
  if (!*args[0].value) out->loss[TG__LOSS_skipped_file] += t->ranks[0].loss[TG__LOSS_skipped_file];
  if (!err && !out->ranks && w.why.code) err = tg__fail(e, w.why.code, w.why.offset, "%s", w.why.text);
  return err ? err : tg__diff_side_end(out, e);
}

static enum tg_err compare(const struct tg__diff_input *const inputs[TG__SIDES], struct tg__diff_ask *ask,
                           bool only_conditions, struct tg_table *out, struct tg_error *e) {
  struct tg__diff_side sides[TG__SIDES] = {0};
  struct tg__conditions conditions = {0};
  struct tg__diff_rows *rows = tg__alloc(sizeof *rows);
  enum tg_err err = rows && (rows->names = tg__strings_new()) ? TG_OK : tg__no_memory(e, "comparing");
  for (int side = 0; !err && side < TG__SIDES; side++)
    err = tg__diff_side_lacks(side, open_side(inputs[side], ask, side, &sides[side], e), e);
  if (!err) err = tg__conditions_read(&sides[0], &sides[1], tg__diff_arg(ask, "accept"), &conditions, e);
  if (!err) {
    add_columns(only_conditions, out);
    rows->least_pct = ask->least_pct;
    if (only_conditions)
      put_conditions(&conditions, out);
    else
      err = add_rows(rows, sides, &conditions, ask, out);
    if (err) tg__no_memory(e, "comparing");
  }
  for (int side = 0; side < TG__SIDES; side++) tg__diff_side_close(&sides[side]);
  tg__conditions_free(&conditions);
  if (rows) {
    tg__free(rows->items);
    tg__strings_free(rows->names);
  }
  tg__free(rows);
  return err;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static enum tg_err answer_by(const struct tg__diff_input *const inputs[TG__SIDES], struct tg__diff_ask *ask,
                             struct tg_table *out, struct tg_error *e) {
  const char *by = tg__diff_arg(ask, "by");
  const bool conditions = strcmp(by, "conditions") == 0;
  enum tg_err err = check_names(ask, e);
  if (!err && *tg__diff_arg(ask, "question")) return tg__diff_question(inputs, ask, out, e);
  for (int side = 0; !err && side < TG__SIDES; side++)
    if (!inputs[side]->is_folder)
      err = tg__diff_side_lacks(side, tg__trace_load(inputs[side]->columns, TG__COL_ALL, e), e);
  if (err) return err;
  if (strcmp(by, "name") == 0 || strcmp(by, "short_name") == 0) return tg__diff_totals(inputs, ask, out, e);
  if (!conditions) err = parse_by(ask, e);
  if (!err) err = parse_least(ask, e);
  return err ? err : compare(inputs, ask, conditions, out, e);
}

static enum tg_err choose_diff_rows(const struct tg__diff_ask *ask, struct tg_table *out, struct tg_error *e) {
  const char *const limit = tg__diff_arg(ask, "limit");
  const enum tg_err err = tg__choose_rows(out, tg__diff_arg(ask, "where"), tg__diff_arg(ask, "sort"), SIZE_MAX, e);
  if (err || strcmp(limit, "all") == 0) return err;
  char *end;
  const long long most = strtoll(limit, &end, 10);
  if (end == limit || *end || most < 0)
    return tg__fail(e, TG_USAGE, -1, "limit=%.60s is not a number of rows: use a whole number, or all", limit);
  if (out->rows > (unsigned long long)most) out->rows = (size_t)most;
  return TG_OK;
}

static void note_duplicate_ranks(const struct tg__diff_input *const inputs[TG__SIDES], const struct tg__diff_ask *ask,
                                 struct tg_table *out) {
  static const char *const letters[] = {"A: ", "B: "};
  for (int side = 0; side < TG__SIDES; side++) {
    struct tg_arg args[2];
    int64_t rank;
    side_args(ask, side, args);
    const bool one = tg__str_to_int((struct tg__str){args[0].value, (uint32_t)strlen(args[0].value)}, &rank);
    tg__table_note_duplicate_ranks(out, inputs[side]->columns, letters[side], one ? rank : TG_NULL_INT);
  }
}

enum tg_err tg__diff_run(const struct tg__diff_input *a, const struct tg__diff_input *b,
                         const struct tg__diff_access *access, const struct tg_arg *args, size_t arg_count,
                         struct tg_table **out, struct tg_error *e) {
  const struct tg__diff_input *const inputs[TG__SIDES] = {a, b};
  struct tg__diff_ask ask = {.args = args, .count = arg_count, .access = access};
  *out = NULL;
  struct tg_table *table = tg__table_new("diff");
  if (!table) return tg__no_memory(e, "comparing");
  enum tg_err err = answer_by(inputs, &ask, table, e);
  if (!err) note_duplicate_ranks(inputs, &ask, table);
  if (!err && table->failed) err = tg__no_memory(e, "comparing");
  if (!err) err = choose_diff_rows(&ask, table, e);
  if (!err)
    *out = table;
  else
    tg__table_free(table);
  return err;
}
