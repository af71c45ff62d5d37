/* finding_rows: what was found as rows, the most severe first; and what the rows of ranks that were judged one by
 * one say together. */
#include "diagnose/findings.h"

#include <stdio.h>

enum { HIGH_PCT = 30, MEDIUM_PCT = 10, LOWEST_PCT = 5, NOISY_PCT = 30, MOST_ROWS = 10 };

static const double SURE = 0.4;

static const char *const cause_names[TG__CAUSE_COUNT] = {
#define CAUSE(id, name, meaning, change) name,
#include "diagnose/causes.def"
};
static const char *const severities[] = {"low", "medium", "high"};

const char *tg__cause_name(enum tg__cause cause) { return cause_names[cause]; }

bool tg__cause_next(struct tg__str cause, struct tg__next *out) {
  static const struct {
    enum tg__cause cause;
    struct tg__next next;
  } all[] = {
#define NEXT(id, question, words, why) {TG__CAUSE_##id, {TG__Q_##question, words, why}},
#include "diagnose/causes.def"
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const char *const name = cause_names[all[i].cause];
    if (!tg__str_eq(cause, (struct tg__str){name, (uint32_t)strlen(name)})) continue;
    *out = all[i].next;
    return true;
  }
  return false;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is to be won decides. Where that is not known, or hardly, nothing is high: a share promises nothing. Nor
 * is anything that was timed while other programs kept the machine busy, or may have. */
static int severity(const struct tg__finding *x) {
  if (x->is_statement) return 0;
  const bool known = x->saving_ns != TG_NULL_INT && x->cost_ns > 0,
             is_sure = x->confidence >= SURE && !x->is_in_noise && !x->is_unclear;
  const double weight_pct = known ? x->share_pct * (double)x->saving_ns / (double)x->cost_ns : x->share_pct;
  return known && is_sure && weight_pct >= HIGH_PCT ? 2 : weight_pct >= MEDIUM_PCT ? 1 : 0;
}

/* The first "file.py(12)" in the text of the place, as two cells. */
static void put_finding_line(const struct tg__finding *x, struct tg_table *out) {
  const char *open = strstr(x->where, ".py(");
  int line = 0;
  if (!open || sscanf(open, ".py(%d)", &line) != 1) {
    tg__put_null(out);
    tg__put_null(out);
    return;
  }
  const char *file = open;
  while (file > x->where && file[-1] != ' ') file--;
  tg__put_text(out, (struct tg__str){file, (uint32_t)(open + 3 - file)});
  tg__put_int(out, line);
}

void tg__put_finding(const struct tg__columns *t, const struct tg__finding *x, struct tg_table *out) {
  tg__put_cstr(out, cause_names[x->cause]);
  tg__put_cstr(out, severities[severity(x)]);
  tg__put_rank(out, t, x->rank);
  tg__put_real(out, x->share_pct);
  tg__put_real(out, x->threshold_pct);
  tg__put_int(out, x->cost_ns);
  tg__put_int(out, x->saving_ns);
  tg__put_real(out, x->confidence);
  tg__put_cstr(out, x->where);
  put_finding_line(x, out);
  tg__put_cstr(out, x->evidence);
  tg__put_cstr(out, x->advice);
  tg__put_cstr(out, x->method);
  tg__put_int(out, x->saving_bytes);
  tg__put_int(out, x->saving_low_ns);
  tg__put_int(out, x->saving_high_ns);
  tg__put_int(out, x->rule_ns);
  tg__put_int(out, x->model_ns);
}

/* ---- order ----------------------------------------------------------------------------------- */

struct place { /* of a row among the others */
  int severity;
  double expected_ns, share_pct;
};

/* The severity decides; then what is expected to be saved; then the larger share. */
static bool finding_is_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct place *const x = (const struct place *)ctx + a, *const y = (const struct place *)ctx + b;
  if (x->severity != y->severity) return x->severity > y->severity;
  if (x->expected_ns != y->expected_ns) return x->expected_ns > y->expected_ns;
  return x->share_pct != y->share_pct ? x->share_pct > y->share_pct : a < b;
}

static int severity_of(const struct tg_table *t, size_t row) {
  const struct tg__str said = tg__strings_get(t->strings, t->columns[tg__table_column_index(t, "severity")].texts[row]);
  int level = 2;
  while (level > 0 && !tg__str_eq(said, (struct tg__str){severities[level], (uint32_t)strlen(severities[level])}))
    level--;
  return level;
}

/* One cause at one place is one finding, on however many ranks it was found: the first in the order stays, and says on
 * how many others. Returns how many of the order stay. */
static size_t merge_ranks(struct tg_table *t, uint32_t *order) {
  const uint32_t *const cause = t->columns[tg__table_column_index(t, "cause")].texts,
                        *const where = t->columns[tg__table_column_index(t, "where")].texts;
  const int64_t *const rank = t->columns[tg__table_column_index(t, "rank")].ints;
  uint32_t *const evidence = t->columns[tg__table_column_index(t, "evidence")].texts;
  size_t kept = 0;
  for (size_t i = 0; i < t->rows; i++) {
    const uint32_t row = order[i];
    size_t others = 0, first = 0;
    while (first < kept && (cause[order[first]] != cause[row] || where[order[first]] != where[row])) first++;
    if (first < kept) continue;
    for (size_t k = i + 1; k < t->rows; k++) { /* each other rank once */
      const uint32_t other = order[k];
      bool is_new = cause[other] == cause[row] && where[other] == where[row];
      for (size_t j = i; is_new && j < k; j++)
        is_new = cause[order[j]] != cause[row] || where[order[j]] != where[row] || rank[order[j]] != rank[other];
      others += is_new;
    }
    order[kept++] = row;
    if (!others) continue;
    char text[700];
    const struct tg__str said = tg__strings_get(t->strings, evidence[row]);
    const int len = snprintf(text, sizeof text, "%.*s; the same on %zu more rank%s", (int)said.len, said.ptr, others,
                             others == 1 ? "" : "s");
    evidence[row] = tg__strings_add(t->strings, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
    t->failed |= evidence[row] == TG_NONE;
  }
  return kept;
}

static bool put_in_order(struct tg_table *t) {
  struct place *const places = tg__alloc((t->rows + 1) * sizeof *places);
  uint32_t *const order = tg__alloc((t->rows + 1) * sizeof *order);
  const struct tg__column *const saving = &t->columns[tg__table_column_index(t, "saving_ns")],
                                 *const cost = &t->columns[tg__table_column_index(t, "cost_ns")],
                                 *const confidence = &t->columns[tg__table_column_index(t, "confidence")],
                                 *const share = &t->columns[tg__table_column_index(t, "share_pct")];
  bool done = places && order;
  for (size_t i = 0; done && i < t->rows; i++) {
    places[i] = (struct place){severity_of(t, i), tg__expected_ns(saving->ints[i], confidence->reals[i], cost->ints[i]),
                               share->reals[i]};
  }
  done = done && tg__sort_order(order, t->rows, finding_is_before, places);
  const size_t kept = done ? merge_ranks(t, order) : 0;
  if (kept > MOST_ROWS) tg__table_note(t, "%zu more are worth less", kept - MOST_ROWS);
  if (done) tg__table_keep_rows(t, order, kept < MOST_ROWS ? kept : MOST_ROWS);
  tg__free(places);
  tg__free(order);
  return done && !t->failed;
}

/* ---- of all ranks ---------------------------------------------------------------------------- */

/* Waiting for a slow rank is not communication that could be hidden: such findings of the ranks are taken back. */
static bool take_back(struct tg_table *t) {
  const struct tg__column *const cause = &t->columns[tg__table_column_index(t, "cause")];
  const char *const name = cause_names[TG__CAUSE_COMMUNICATION_NOT_OVERLAPPED];
  uint32_t *const rows = tg__alloc((t->rows + 1) * sizeof *rows);
  size_t kept = 0;
  for (size_t i = 0; rows && i < t->rows; i++)
    if (!tg__str_eq(tg__strings_get(t->strings, cause->texts[i]), (struct tg__str){name, (uint32_t)strlen(name)}))
      rows[kept++] = (uint32_t)i;
  if (rows) tg__table_keep_rows(t, rows, kept);
  tg__free(rows);
  return rows && !t->failed;
}

/* Of one rank it may have been true. */
static void drop_nothing_found(struct tg_table *t) {
  static const char begin[] = "nothing found above";
  size_t kept = 0;
  for (size_t i = 0; i < t->note_count; i++)
    if (strncmp(t->notes[i], begin, sizeof begin - 1) != 0) t->notes[kept++] = t->notes[i];
  t->note_count = kept;
}

/* What stands behind "rank 3: ", which notes of single ranks may begin with. */
static const char *without_rank(const char *note) {
  const size_t digits = strncmp(note, "rank ", 5) == 0 ? strspn(note + 5, "0123456789") : 0;
  return digits && strncmp(note + 5 + digits, ": ", 2) == 0 ? note + 5 + digits + 2 : note;
}

/* Such a list is short for a reason that belongs beside it: what was held back, or rules that had no steps to judge.
 * Notes about several ranks come last in the notes, and first here. */
static void note_nothing_found(struct tg_table *t) {
  static const char withheld[] = "withheld: ", no_steps[] = "no steps are marked";
  char text[500];
  size_t named = 0, others = 0;
  bool has_steps = true;
  TG_FORMAT(text, "nothing found above %d %%", LOWEST_PCT);
  for (size_t i = t->note_count; i-- > 0;) {
    const char *const note = without_rank(t->notes[i]);
    has_steps &= strncmp(note, no_steps, sizeof no_steps - 1) != 0;
    if (strncmp(note, withheld, sizeof withheld - 1) != 0) continue;
    if (named < 2)
      TG_ADD(text, "; %s", named ? note + sizeof withheld - 1 : note);
    else
      others++;
    named++;
  }
  if (others) TG_ADD(text, "; and on %zu more rank%s", others, others == 1 ? "" : "s");
  if (!has_steps)
    TG_ADD(text,
           "; without steps, loops, copies, waits, threads and Python between operators of the host are not judged");
  tg__table_note(t, "%s", text);
}

enum tg_err tg__findings_of_ranks(struct tg_table *rows, const struct tg__columns *slow, uint32_t rank,
                                  const struct tg__straggler *s) {
  drop_nothing_found(rows);
  if (slow) {
    struct tg__finding x;
    if (tg__judge_straggler(slow, rank, s, &x)) return TG_MEMORY;
    const bool may_be_noise =
        x.share_pct <= NOISY_PCT || s->is_equal_work; /* one rank gets slower cores than another */
    if (x.is_in_noise && may_be_noise && !s->stands_still) {
      tg__table_note(rows, "withheld: %s, %.1f %% (%s)", cause_names[x.cause], x.share_pct, tg__busy_machine);
    } else {
      if (!take_back(rows)) return TG_MEMORY;
      tg__put_finding(slow, &x, rows);
    }
  }
  if (!put_in_order(rows)) return TG_MEMORY;
  if (!rows->rows) note_nothing_found(rows);
  return rows->failed ? TG_MEMORY : TG_OK;
}
