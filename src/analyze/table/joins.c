/* joins: the answer about all ranks, put together of answers about one rank each as they come in. */
#include "analyze/table/join.h"

#include <stdio.h>

#include "analyze/answering.h"

/* ---- which questions ------------------------------------------------------------------------- */

static bool is_value(const struct tg__ask *a, const struct tg__merge_rule *j) {
  const char *const value = tg__ask_arg(a, j->argument), *wanted = j->value;
  const struct tg__str has = {value, value ? (uint32_t)strlen(value) : 0};
  const size_t len = strlen(wanted);
  if (!value) return false;
  if (wanted[len - 1] != '*') return strcmp(value, wanted) == 0;
  char part[32];
  const bool anywhere = *wanted == '*';
  snprintf(part, sizeof part, "%.*s", (int)(len - 1 - anywhere), wanted + anywhere);
  return anywhere ? tg__str_contains(has, part) : tg__str_has_prefix(has, part);
}

struct merge {
  enum tg__merge how;
  const char *order;
};

/* The first rule that fits these arguments, else the rule of the question. */
static struct merge merge_of(const struct tg__question *q, const struct tg_arg *args, size_t count) {
  const struct tg__ask a = {.question = q, .args = args, .arg_count = count};
  const struct tg__merge_rule *rule = NULL;
  for (size_t k = 0; q && (rule = tg__question_merge_rule(q, k)) && !is_value(&a, rule);) k++;
  if (rule) return (struct merge){rule->merge, rule->order};
  return q ? (struct merge){q->merge, q->order} : (struct merge){TG__MERGE_TOGETHER, ""};
}

static bool joins(enum tg__merge how) {
  return how == TG__MERGE_ROWS || how == TG__MERGE_FOLD || how == TG__MERGE_LATE;
}

bool tg__question_needs_all(const struct tg__question *q, const struct tg_arg *args, size_t count) {
  return merge_of(q, args, count).how == TG__MERGE_EVERY;
}

bool tg__is_for_all_ranks(const char *argument) {
  static const char *const names[] = {"rank", "where", "sort", "limit", "columns"};
  for (size_t i = 0; argument && i < sizeof names / sizeof *names; i++)
    if (strcmp(argument, names[i]) == 0) return true;
  return false;
}

bool tg__question_joins(const struct tg__question *q, const struct tg_arg *args, size_t count) {
  return joins(merge_of(q, args, count).how);
}

/* ---- coming in ------------------------------------------------------------------------------- */

struct note {
  const char *text;    /* of the strings */
  size_t times, first; /* how many say so; which was the first */
};
struct tg__rank_join {
  const struct tg__question *question;
  struct merge merge;
  const struct tg__merge_hooks *hooks;
  struct tg_table *out; /* NULL until the first rows are here */
  struct tg__fold *fold;
  size_t most, answers;
  struct note *notes;
  size_t note_count, note_cap;
  size_t missing;
  struct tg_error why_missing; /* of the first */
};

struct tg__rank_join *tg__rank_join_new(const struct tg__question *q, const struct tg_arg *args, size_t count,
                                        size_t most) {
  struct tg__rank_join *const j = tg__alloc(sizeof *j);
  if (!j) return NULL;
  j->question = q;
  j->merge = merge_of(q, args, count);
  j->hooks = tg__question_hooks(q);
  j->most = j->merge.how == TG__MERGE_ROWS && !*j->merge.order ? most : SIZE_MAX;
  return j;
}

void tg__rank_join_free(struct tg__rank_join *j) {
  if (!j) return;
  tg__table_free(j->out);
  tg__fold_free(j->fold);
  for (size_t i = 0; i < j->note_count; i++) tg__free((void *)j->notes[i].text);
  tg__free(j->notes);
  tg__free(j);
}

struct tg_table *tg__rank_join_rows(const struct tg__rank_join *j) { return j->out; }
bool tg__rank_join_needs_all_rows(const struct tg__rank_join *j) { return j->merge.how != TG__MERGE_ROWS; }

/* A note about "rank 0" is about the rank that says it, which may be called something else here. */
static const char *without_rank(const char *text) {
  const char *p = text;
  if (strncmp(p, "rank ", 5) != 0) return text;
  for (p += 5; *p >= '0' && *p <= '9';) p++;
  return p > text + 5 && p[0] == ':' && p[1] == ' ' ? p + 2 : text;
}

static bool add_note(struct tg__rank_join *j, const char *text, size_t who) {
  text = without_rank(text);
  if (j->hooks->note && *j->hooks->note && strstr(text, j->hooks->note)) return true;
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
static bool begin(struct tg__rank_join *j, const struct tg_table *rows) {
  j->out = tg__table_new_like(rows);
  if (!j->out) return false;
  if (j->merge.how == TG__MERGE_FOLD) j->fold = tg__fold_new(j->question, rows);
  return j->fold || j->merge.how != TG__MERGE_FOLD;
}

bool tg__rank_join_add(struct tg__rank_join *j, struct tg_table *rows, size_t who) {
  bool done = j->out || begin(j, rows);
  j->answers++;
  for (size_t i = 0; done && i < rows->note_count; i++) done = add_note(j, rows->notes[i], who);
  rows->note_count = 0;
  const size_t all = rows->rows;
  if (done && j->fold) done = tg__fold_rows(j->fold, j->out, rows);
  if (done && j->fold) rows->rows = 0; /* its notes are still to come */
  if (done && j->most < SIZE_MAX && rows->rows > j->most - j->out->rows) rows->rows = j->most - j->out->rows;
  done = done && tg__table_append(j->out, rows);
  if (done && !j->fold) j->out->uncut += all;
  tg__table_free(rows);
  return done;
}

void tg__rank_join_add_missing(struct tg__rank_join *j, const struct tg_error *why) {
  if (j->missing++ == 0) j->why_missing = *why;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A note of all ranks stays as it is; a note of some gets their count, or the rank. */
static void put_notes(const struct tg__rank_join *j, const int64_t *numbers) {
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

size_t tg__rank_join_notes(const struct tg__rank_join *j, tg__note_is_fn *is) {
  size_t count = 0;
  for (size_t i = 0; i < j->note_count; i++) count += is(j->notes[i].text);
  return count;
}

void tg__rank_join_drop_notes(struct tg__rank_join *j, tg__note_is_fn *is) {
  size_t kept = 0;
  for (size_t i = 0; i < j->note_count; i++) {
    if (is(j->notes[i].text))
      tg__free((void *)j->notes[i].text);
    else
      j->notes[kept++] = j->notes[i];
  }
  j->note_count = kept;
}

enum tg_err tg__rank_join_end(struct tg__rank_join *j, const int64_t *numbers, struct tg_table **out,
                              struct tg_error *e) {
  const struct tg_error *const why = &j->why_missing;
  if (!j->out) return tg__fail(e, why->code ? why->code : TG_NO_DATA, why->offset, "%s", why->text);
  if (j->fold && j->hooks->folded) j->hooks->folded(j, j->out);
  if (j->fold) tg__fold_finish(j->fold, j->out);
  enum tg_err err = *j->merge.order ? tg__sort_table(j->out, j->merge.order, e) : TG_OK;
  if (!err && j->fold) tg__fold_running(j->fold, j->out);
  put_notes(j, numbers);
  if (!err && j->out->failed) err = tg__no_memory(e, "putting the ranks together");
  if (err) return err;
  *out = j->out;
  j->out = NULL;
  return TG_OK;
}
