/* joins: the answer about all ranks, put together of answers about one rank each as they come in. */
#include "analyze/table/join.h"

#include <math.h>
#include <stdio.h>

#include "analyze/ask.h"
#include "analyze/work/roof.h"

/* ---- which questions ------------------------------------------------------------------------- */

static const struct tg__join joins[] = {
#define JOIN(question, argument, value, how, order, note) {#question, argument, value, TG__JOIN_##how, order, note},
#define FOLD(question, column, how, of, by)
#include "analyze/table/joins.def"
#undef JOIN
#undef FOLD
};
static const struct tg__fold_rule rules[] = {
#define JOIN(question, argument, value, how, order, note)
#define FOLD(question, column, how, of, by) {#question, #column, TG__FOLD_##how, of, by},
#include "analyze/table/joins.def"
#undef JOIN
#undef FOLD
};

const struct tg__fold_rule *tg__fold_rule_of(const char *question, const char *column) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(rules[i].question, question) == 0 && strcmp(rules[i].column, column) == 0) return &rules[i];
  return NULL;
}

static bool is_value(const struct tg__ask *a, const struct tg__join *j) {
  const char *const value = *j->argument ? tg__ask_arg(a, j->argument) : "", *wanted = j->value;
  const struct tg__str has = {value, value ? (uint32_t)strlen(value) : 0};
  const size_t len = strlen(wanted);
  if (!*wanted || !value) return !*wanted;
  if (wanted[len - 1] != '*') return strcmp(value, wanted) == 0;
  char part[32];
  const bool anywhere = *wanted == '*';
  snprintf(part, sizeof part, "%.*s", (int)(len - 1 - anywhere), wanted + anywhere);
  return anywhere ? tg__str_contains(has, part) : tg__str_has_prefix(has, part);
}

static const struct tg__join *find_join(const char *question, const struct tg_arg *args, size_t count) {
  const struct tg__ask a = {.question = tg__question_find(question), .args = args, .arg_count = count};
  for (size_t i = 0; a.question && i < sizeof joins / sizeof *joins; i++)
    if (strcmp(joins[i].question, question) == 0 && is_value(&a, &joins[i]))
      return joins[i].how == TG__JOIN_WHOLE ? NULL : &joins[i];
  return NULL;
}

bool tg__is_for_all_ranks(const char *argument) {
  static const char *const names[] = {"rank", "where", "sort", "limit", "columns"};
  for (size_t i = 0; argument && i < sizeof names / sizeof *names; i++)
    if (strcmp(argument, names[i]) == 0) return true;
  return false;
}

bool tg__question_joins(const char *question, const struct tg_arg *args, size_t count) {
  return find_join(question, args, count) != NULL;
}

/* ---- coming in ------------------------------------------------------------------------------- */

struct note {
  const char *text;    /* of the strings */
  size_t times, first; /* how many say so; which was the first */
};
struct tg__joining {
  const struct tg__join *join;
  struct tg_table *out; /* NULL until the first rows are here */
  struct tg__fold *fold;
  size_t most, answers;
  struct note *notes;
  size_t note_count, note_cap;
  size_t missing;
  struct tg_error why_missing; /* of the first */
};

struct tg__joining *tg__joining_new(const char *question, const struct tg_arg *args, size_t count, size_t most) {
  struct tg__joining *const j = tg__alloc(sizeof *j);
  if (!j) return NULL;
  j->join = find_join(question, args, count);
  j->most = j->join && j->join->how == TG__JOIN_ROWS && !*j->join->order ? most : SIZE_MAX;
  return j;
}

void tg__joining_free(struct tg__joining *j) {
  if (!j) return;
  tg__table_free(j->out);
  tg__fold_free(j->fold);
  for (size_t i = 0; i < j->note_count; i++) tg__free((void *)j->notes[i].text);
  tg__free(j->notes);
  tg__free(j);
}

struct tg_table *tg__joining_rows(const struct tg__joining *j) { return j->out; }
bool tg__joining_is_late(const struct tg__joining *j) { return j->join->how != TG__JOIN_ROWS; }

/* A note about "rank 0" is about the rank that says it, which may be called something else here. */
static const char *without_rank(const char *text) {
  const char *p = text;
  if (strncmp(p, "rank ", 5) != 0) return text;
  for (p += 5; *p >= '0' && *p <= '9';) p++;
  return p > text + 5 && p[0] == ':' && p[1] == ' ' ? p + 2 : text;
}

static bool add_note(struct tg__joining *j, const char *text, size_t who) {
  text = without_rank(text);
  if (*j->join->note && strstr(text, j->join->note)) return true;
  for (size_t i = 0; i < j->note_count; i++) {
    if (strcmp(j->notes[i].text, text) != 0) continue;
    j->notes[i].times++;
    return true;
  }
  const size_t len = strlen(text);
  char *const own = tg__alloc(len + 1);
  if (!own || !tg__grow((void **)&j->notes, &j->note_cap, j->note_count + 1, sizeof *j->notes)) {
    tg__free(own);
    return false;
  }
  memcpy(own, text, len + 1);
  j->notes[j->note_count++] = (struct note){own, 1, who};
  return true;
}

/* The first table, or an empty one like it that rows are folded into. */
static bool begin(struct tg__joining *j, const struct tg_table *rows) {
  j->out = tg__table_new(rows->question);
  if (!j->out) return false;
  for (size_t c = 0; c < rows->column_count; c++)
    tg__table_add_column(j->out, rows->columns[c].name, rows->columns[c].type, rows->columns[c].unit);
  j->out->is_tree = rows->is_tree;
  if (j->join->how == TG__JOIN_FOLD) j->fold = tg__fold_new(rows);
  return !j->out->failed && (j->fold || j->join->how != TG__JOIN_FOLD);
}

bool tg__joining_add(struct tg__joining *j, struct tg_table *rows, size_t who) {
  bool done = j->out || begin(j, rows);
  j->answers++;
  for (size_t i = 0; done && i < rows->note_count; i++) done = add_note(j, rows->notes[i], who);
  rows->note_count = 0;
  const size_t all = rows->rows;
  if (done && j->fold) done = tg__fold_rows(j->fold, j->out, rows);
  if (done && j->fold) rows->rows = 0; /* what else it says is still to come */
  if (done && j->most < SIZE_MAX && rows->rows > j->most - j->out->rows) rows->rows = j->most - j->out->rows;
  done = done && tg__table_append(j->out, rows);
  if (done && !j->fold) j->out->uncut += all;
  tg__table_free(rows);
  return done;
}

void tg__joining_miss(struct tg__joining *j, const struct tg_error *why) {
  if (j->missing++ == 0) j->why_missing = *why;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What all say is said as it is; what some say, with how many they are or which one it is. */
static void put_notes(const struct tg__joining *j, const int64_t *numbers) {
  enum { MOST = 8 };
  size_t left = 0;
  for (size_t i = 0; i < j->note_count; i++) {
    const struct note *const n = &j->notes[i];
    if (n->times == j->answers) {
      tg__table_note(j->out, "%s", n->text);
    } else if (j->out->note_count >= MOST) {
      left++;
    } else if (n->times > 1 || numbers[n->first] < 0) {
      tg__table_note(j->out, "%zu of %zu ranks: %s", n->times, j->answers + j->missing, n->text);
    } else {
      tg__table_note(j->out, "rank %lld: %s", (long long)numbers[n->first], n->text);
    }
  }
  if (left) tg__table_note(j->out, "%zu more notes are about single ranks: ask with rank=", left);
  if (j->missing)
    tg__table_note(j->out, "%zu of %zu ranks %s left out; of the first: %s", j->missing, j->answers + j->missing,
                   j->missing == 1 ? "is" : "are", j->why_missing.text);
}

/* Device work decides what `top` is about: where some rank has any, operators of one that has none are not beside it.
 */
static void settle_top(struct tg_table *t) {
  const size_t kind = tg__table_column_index(t, "kind"), total = tg__table_column_index(t, "total_ns");
  const uint32_t op = tg__strings_find(t->strings, "operator", strlen("operator"));
  uint32_t *const rows = tg__alloc((t->rows + 1) * sizeof *rows);
  size_t kept = 0;
  int64_t whole_ns = 0;
  for (size_t i = 0; rows && i < t->rows; i++)
    if (t->columns[kind].texts[i] != op) rows[kept++] = (uint32_t)i;
  const bool device = kept > 0;
  if (rows && kept > 0 && kept < t->rows) tg__table_keep_rows(t, rows, kept);
  t->failed |= !rows;
  for (size_t i = 0; i < t->rows; i++) whole_ns += t->columns[total].ints[i];
  if (t->rows)
    tg__table_note(t, "%s is %.3f ms in all", device ? "device work" : "self time of operators",
                   (double)whole_ns / 1e6);
  tg__free(rows);
}

static bool is_about_peaks(const char *note) {
  return strncmp(note, "peaks: ", 7) == 0 || strcmp(note, tg__peaks_unknown) == 0;
}

/* Ranks each with peaks of their own: no row of all of them is held against any. */
static void settle_peaks(struct tg__joining *j, struct tg_table *t) {
  size_t kinds = 0, kept = 0;
  for (size_t i = 0; i < j->note_count; i++) kinds += is_about_peaks(j->notes[i].text);
  if (kinds < 2) return;
  const size_t ridge = tg__table_column_index(t, "ridge"), peak_pct = tg__table_column_index(t, "peak_pct");
  for (size_t i = 0; i < t->rows; i++) t->columns[ridge].reals[i] = t->columns[peak_pct].reals[i] = NAN;
  for (size_t i = 0; i < j->note_count; i++) {
    if (is_about_peaks(j->notes[i].text))
      tg__free((void *)j->notes[i].text);
    else
      j->notes[kept++] = j->notes[i];
  }
  j->note_count = kept;
  tg__table_note(t, "%s", tg__peaks_differ);
}

static void settle_roofline(struct tg__joining *j, struct tg_table *t) {
  const size_t kind = tg__table_column_index(t, "kind"), time = tg__table_column_index(t, "time_ns");
  const uint32_t unknown = tg__strings_find(t->strings, "unknown", strlen("unknown"));
  int64_t whole_ns = 0, known_ns = 0;
  for (size_t i = 0; i < t->rows; i++) {
    whole_ns += t->columns[time].ints[i];
    known_ns += t->columns[kind].texts[i] == unknown ? 0 : t->columns[time].ints[i];
  }
  if (whole_ns > 0)
    tg__table_note(t, "FLOPs are known for %.1f %% of the time of operators",
                   100.0 * (double)known_ns / (double)whole_ns);
  settle_peaks(j, t);
}

enum tg_err tg__joining_end(struct tg__joining *j, const int64_t *numbers, struct tg_table **out, struct tg_error *e) {
  const struct tg_error *const why = &j->why_missing;
  if (!j->out) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  if (strcmp(j->join->question, "top") == 0) settle_top(j->out);
  if (strcmp(j->join->question, "roofline") == 0) settle_roofline(j, j->out);
  if (j->fold) tg__fold_settle(j->fold, j->out);
  enum tg_err err = *j->join->order ? tg__sort_table(j->out, j->join->order, e) : TG_OK;
  if (!err && j->fold) tg__fold_running(j->fold, j->out);
  put_notes(j, numbers);
  if (!err && j->out->failed) err = tg__fail(e, TG_MEMORY, -1, "out of memory while putting the ranks together");
  if (err) return err;
  *out = j->out;
  j->out = NULL;
  return TG_OK;
}
