/* The report's part about the run around what was recorded: how the program ended, its steps outside the window, and
 * the threads and processes beside the busiest one. */
#include "show/report.h"

enum { NUMBER_BYTES = 32, THREADS_NAMED = 3 };

/* ---- the run, of the overview's group of that name ------------------------------------------- */

static size_t run_row(const struct tg__report *r, const char *quantity) {
  const struct tg_table *const t = r->parts[TG__REPORT_OVERVIEW];
  size_t i = tg__find_row(t, "group", "run", 0);
  while (i != SIZE_MAX && !tg__str_eq(tg__cell_str(t, i, "quantity"), (struct tg__str){quantity, strlen(quantity)}))
    i = tg__find_row(t, "group", "run", i + 1);
  return i;
}

static int64_t run_value(const struct tg__report *r, const char *quantity) {
  const size_t row = run_row(r, quantity);
  return row == SIZE_MAX ? TG_NULL_INT : tg__cell_int(r->parts[TG__REPORT_OVERVIEW], row, "value");
}

/* ", before 31.2 ms (14 steps)" */
static void put_steps_of(const struct tg__report *r, const char *steps, const char *median, const char *which,
                         bool *any, struct tg__out *text) {
  char a[NUMBER_BYTES];
  const int64_t count = run_value(r, steps), ns = run_value(r, median);
  if (count == TG_NULL_INT || count <= 0 || ns == TG_NULL_INT) return;
  tg__out_format(text, "%s%s %s (%lld step%s)", *any ? ", " : "; a step took ", which, tg__human_ns(ns, a),
                 (long long)count, count == 1 ? "" : "s");
  *any = true;
}

static void put_run_steps(const struct tg__report *r, struct tg__out *text) {
  const int64_t timed = run_value(r, "steps_timed"), first = run_value(r, "first_recorded_step"),
                last = run_value(r, "last_recorded_step"), slowest = run_value(r, "slowest_step"),
                slowest_ns = run_value(r, "slowest_step_ns"), pid = run_value(r, "steps_pid");
  char a[NUMBER_BYTES];
  bool any = false;
  if (timed == TG_NULL_INT) return;
  if (pid != TG_NULL_INT) tg__out_format(text, "; of process %lld, one of several with steps", (long long)pid);
  if (first != TG_NULL_INT)
    tg__out_format(text, "; steps %lld to %lld recorded of %lld timed", (long long)first, (long long)last,
                   (long long)timed);
  else
    tg__out_format(text, "; %lld step%s timed", (long long)timed, timed == 1 ? "" : "s");
  put_steps_of(r, "steps_before", "step_before_ns", "before", &any, text);
  put_steps_of(r, "steps_recorded", "step_recorded_ns", "recorded", &any, text);
  put_steps_of(r, "steps_after", "step_after_ns", "after", &any, text);
  if (any && timed > 1 && slowest != TG_NULL_INT)
    tg__out_format(text, "; the longest is step %lld, %s", (long long)slowest, tg__human_ns(slowest_ns, a));
}

/* "; recording adds 1.2 ms of CPU time to a step (0.9 ms to 1.6 ms)". It makes no step shorter: a figure below 0 is
 * noise. */
static void put_price(const struct tg__report *r, struct tg__out *text) {
  const int64_t ns = run_value(r, "recording_adds_ns"), low = run_value(r, "recording_adds_low_ns"),
                high = run_value(r, "recording_adds_high_ns");
  char a[NUMBER_BYTES];
  if (ns == TG_NULL_INT || low == TG_NULL_INT || high == TG_NULL_INT || high <= 0) return;
  if (ns <= 0) {
    tg__out_format(text, "; recording adds less than %s of CPU time to a step", tg__human_ns(high, a));
    return;
  }
  tg__out_format(text, "; recording adds %s of CPU time to a step", tg__human_ns(ns, a));
  tg__out_format(text, " (%s to", tg__human_ns(low > 0 ? low : 0, a));
  tg__out_format(text, " %s)", tg__human_ns(high, a));
}

static void put_run_text(const struct tg__report *r, struct tg__out *text) {
  const size_t row = run_row(r, "ended");
  const int64_t run_ns = run_value(r, "run_ns");
  int64_t span_ns = 0;
  const struct tg_table *const t = r->parts[TG__REPORT_OVERVIEW];
  char a[NUMBER_BYTES], b[NUMBER_BYTES];
  if (row == SIZE_MAX) return;
  for (size_t i = tg__find_row(t, "quantity", "span_ns", 0); i != SIZE_MAX;
       i = tg__find_row(t, "quantity", "span_ns", i + 1)) {
    const int64_t ns = tg__cell_int(t, i, "value");
    span_ns = ns > span_ns ? ns : span_ns;
  }
  const struct tg__str ended = tg__cell_str(t, row, "text");
  tg__out_format(text, "%.*s", (int)ended.len, ended.ptr);
  if (run_ns > 0)
    tg__out_format(text, "; the recording covers %s of %s, %.1f %%", tg__human_ns(span_ns, a), tg__human_ns(run_ns, b),
                   100 * (double)span_ns / (double)run_ns);
  put_run_steps(r, text);
  put_price(r, text);
}

/* ---- threads --------------------------------------------------------------------------------- */

static size_t process_count(const struct tg_table *t) {
  size_t n = 0;
  for (size_t i = 0; i < t->rows; i++) {
    const struct tg__str pid = tg__cell_str(t, i, "pid");
    size_t k = 0;
    while (k < i && !tg__str_eq(tg__cell_str(t, k, "pid"), pid)) k++;
    n += k == i;
  }
  return n;
}

/* "thread 7 (python) 639 ms, thread 9 (pt_autograd_0) 240 ms and 197 more 1.2 s; 3 processes" */
static void put_threads_text(const struct tg_table *t, struct tg__out *text) {
  int64_t rest_ns = 0;
  char a[NUMBER_BYTES];
  for (size_t i = 0; i < t->rows; i++) {
    const int64_t ns = tg__cell_int(t, i, "busy_ns");
    if (i >= THREADS_NAMED) {
      rest_ns += ns == TG_NULL_INT ? 0 : ns;
      continue;
    }
    const struct tg__str name = tg__cell_str(t, i, "name"), tid = tg__cell_str(t, i, "tid");
    if (i) tg__out_text(text, ", ");
    if (name.len)
      tg__out_format(text, "%.*s %s", (int)name.len, name.ptr, tg__human_ns(ns, a));
    else
      tg__out_format(text, "thread %.*s %s", (int)tid.len, tid.ptr, tg__human_ns(ns, a));
  }
  if (t->rows > THREADS_NAMED)
    tg__out_format(text, " and %zu more thread%s, %s together", t->rows - THREADS_NAMED,
                   t->rows - THREADS_NAMED == 1 ? "" : "s", tg__human_ns(rest_ns, a));
  const size_t processes = process_count(t);
  if (processes > 1) tg__out_format(text, "; of %zu processes", processes);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void put_part(const char *label, unsigned indent, const struct tg__out *text, const struct tg__show_options *o,
                     unsigned width, unsigned lines, struct tg__out *out) {
  if (text->err) out->err = text->err;
  if (text->err || !text->len) return;
  tg__out_format(out, "%s%s%s", o->color ? "\033[1m" : "", label, o->color ? "\033[0m" : "");
  tg__put_blanks(out, indent - (unsigned)strlen(label));
  tg__put_wrapped(out, (struct tg__str){text->buf, (uint32_t)text->len}, indent, width - indent, lines);
}

void tg__report_run_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent, unsigned width,
                          struct tg__out *out) {
  const struct tg_table *const threads = r->parts[TG__REPORT_THREADS];
  struct tg__out run = {0}, others = {0};
  put_run_text(r, &run);
  if (threads && threads->rows > 1) put_threads_text(threads, &others);
  put_part("run", indent, &run, o, width, 7, out);
  put_part("threads", indent, &others, o, width, 3, out);
  if (run.len || others.len) tg__out_char(out, '\n');
  tg__out_free(&run);
  tg__out_free(&others);
}
