/* What became of the findings of A in B, and whether the change gained what they promised: notes of a diff. */
#include "diagnose/diagnose.h"
#include "show/report.h"

enum { PLACE_BYTES = 240, MOST_NAMED = 4 };

/* The place without numbers of lines, which move when a program is changed. */
static void say_place(const struct tg_table *t, size_t row, char out[PLACE_BYTES]) {
  const struct tg__str where = tg__cell_str(t, row, "where");
  size_t n = 0;
  bool is_number = false;
  for (uint32_t i = 0; i < where.len && n + 1 < PLACE_BYTES; i++) {
    const char c = where.ptr[i];
    if (is_number && c >= '0' && c <= '9') continue;
    is_number = c == '(';
    out[n++] = c;
  }
  out[n] = 0;
}

static bool is_same(const struct tg_table *a, size_t i, const struct tg_table *b, size_t k) {
  char here[PLACE_BYTES], there[PLACE_BYTES];
  if (!tg__str_eq(tg__cell_str(a, i, "cause"), tg__cell_str(b, k, "cause"))) return false;
  say_place(a, i, here);
  say_place(b, k, there);
  return strcmp(here, there) == 0;
}

static bool has_finding(const struct tg_table *t, const struct tg_table *of, size_t row) {
  for (size_t i = 0; i < t->rows; i++)
    if (is_same(of, row, t, i)) return true;
  return false;
}

/* Causes of `of` that `other` has, or has not; their savings where they are known. */
struct causes {
  size_t count, known;
  int64_t saving_ns;
  char names[200];
};

static struct causes collect_causes(const struct tg_table *of, const struct tg_table *other, bool has) {
  struct causes c = {0};
  for (size_t row = 0; row < of->rows; row++) {
    const struct tg__str cause = tg__cell_str(of, row, "cause");
    const int64_t saving = tg__cell_int(of, row, "saving_ns");
    const size_t len = strlen(c.names);
    if (has_finding(other, of, row) != has) continue;
    if (c.count++ < MOST_NAMED)
      snprintf(c.names + len, sizeof c.names - len, "%s%.*s", len ? "+" : "", (int)cause.len, cause.ptr);
    if (saving != TG_NULL_INT) c.known++, c.saving_ns += saving;
  }
  return c;
}

static void note_causes(struct tg_table *diff, const char *what, const struct causes *c) {
  if (c->count)
    tg__table_note(diff, "%zu finding%s %s: %s%s", c->count, c->count == 1 ? "" : "s", what, c->names,
                   c->count > MOST_NAMED ? " and others" : "");
}

/* The row of the usual step; SIZE_MAX: the diff is of something else. */
static size_t usual_step(const struct tg_table *diff) {
  size_t row = tg__find_row(diff, "by", "step", 0);
  while (row != SIZE_MAX && !tg__str_eq(tg__cell_str(diff, row, "quantity"), TG_STR("p50")))
    row = tg__find_row(diff, "by", "step", row + 1);
  return row;
}

static void compare_saving(struct tg_table *diff, const struct causes *went, struct tg__fix *fix) {
  const size_t row = usual_step(diff);
  char predicted[32], gained[32];
  if (row == SIZE_MAX || !went->known) return;
  if (tg__str_eq(tg__cell_str(diff, row, "verdict"), TG_STR("withheld"))) {
    tg__table_note(diff, "what went promised %s a step; as no verdict is given, the gain is not held against it",
                   tg__human_ns(went->saving_ns, predicted));
    return;
  }
  fix->step_ns = tg__cell_int(diff, row, "a");
  fix->gained_ns = fix->step_ns - tg__cell_int(diff, row, "b");
  fix->predicted_ns = went->saving_ns;
  fix->is_known = fix->step_ns > 0;
  snprintf(fix->causes, sizeof fix->causes, "%s", went->names);
  tg__table_note(diff, "what went promised %s a step, and the usual step is %s %s",
                 tg__human_ns(fix->predicted_ns, predicted),
                 tg__human_ns(fix->gained_ns < 0 ? -fix->gained_ns : fix->gained_ns, gained),
                 fix->gained_ns < 0 ? "longer" : "shorter");
}

enum tg_err tg__verify_fix(struct tg_trace *a, struct tg_trace *b, struct tg_table *diff, struct tg__fix *fix,
                           struct tg_error *e) {
  struct tg_table *sides[2] = {NULL, NULL};
  const char *const question = tg__question_name(TG__Q_findings);
  *fix = (struct tg__fix){0};
  enum tg_err err = tg__ask_trace(a, question, NULL, 0, &sides[0], e);
  if (!err) err = tg__ask_trace(b, question, NULL, 0, &sides[1], e);
  if (!err) {
    const struct causes went = collect_causes(sides[0], sides[1], false),
                        came = collect_causes(sides[1], sides[0], false),
                        stay = collect_causes(sides[0], sides[1], true);
    note_causes(diff, "went", &went);
    note_causes(diff, "came", &came);
    note_causes(diff, "stayed", &stay);
    compare_saving(diff, &went, fix);
  }
  tg__table_free(sides[0]);
  tg__table_free(sides[1]);
  return err == TG_NO_DATA ? TG_OK : err; /* without steps there are no findings */
}
