/* The report: asks the questions it consists of, and writes their answers as one JSON object or, in report_text.c,
 * as text. */
#include "diagnose/diagnose.h"
#include "show/report.h"

#include <math.h>

/* ---- cells ----------------------------------------------------------------------------------- */

int64_t tg__cell_int(const struct tg_table *t, size_t row, const char *column) {
  const size_t c = tg__table_column_index(t, column);
  if (c == SIZE_MAX || row >= t->rows) return TG_NULL_INT;
  if (t->columns[c].type == TG_INT) return t->columns[c].ints[row];
  const double real = t->columns[c].type == TG_REAL ? t->columns[c].reals[row] : NAN;
  return fabs(real) < 9e18 ? (int64_t)llround(real) : TG_NULL_INT; /* false for NaN */
}

double tg__cell_real(const struct tg_table *t, size_t row, const char *column) {
  const size_t c = tg__table_column_index(t, column);
  return c != SIZE_MAX && row < t->rows && t->columns[c].type == TG_REAL ? t->columns[c].reals[row] : NAN;
}

struct tg__str tg__cell_str(const struct tg_table *t, size_t row, const char *column) {
  const size_t c = tg__table_column_index(t, column);
  if (c == SIZE_MAX || row >= t->rows || t->columns[c].type != TG_TEXT || t->columns[c].texts[row] == TG_NONE)
    return TG_STR("");
  return tg__strings_get(t->strings, t->columns[c].texts[row]);
}

size_t tg__find_row(const struct tg_table *t, const char *column, const char *value, size_t from) {
  for (size_t i = from; i < t->rows; i++)
    if (tg__str_eq(tg__cell_str(t, i, column), (struct tg__str){value, (uint32_t)strlen(value)})) return i;
  return SIZE_MAX;
}

int64_t tg__report_step(const struct tg__report *r, const char *statistic, const char *column) {
  const struct tg_table *t = r->parts[TG__REPORT_STEPS];
  const int64_t rank = r->trace->ranks[r->rank].number;
  size_t i = t ? tg__find_row(t, "step", statistic, 0) : SIZE_MAX;
  while (i != SIZE_MAX && rank >= 0 && tg__cell_int(t, i, "rank") != rank)
    i = tg__find_row(t, "step", statistic, i + 1);
  return i == SIZE_MAX ? TG_NULL_INT : tg__cell_int(t, i, column);
}

/* ---- flight recorders ------------------------------------------------------------------------ */

static struct tg__str member(const struct tg__columns *t, const char *key) {
  const struct tg__rank *const rank = &t->ranks[0];
  for (size_t i = 0; i < rank->meta_count; i++)
    if (tg__str_eq(tg__name(t, rank->meta[i].key), (struct tg__str){key, (uint32_t)strlen(key)}))
      return tg__name(t, rank->meta[i].raw);
  return (struct tg__str){0};
}

struct tg__str tg__report_why(const struct tg__report *r) {
  if (!member(r->trace, "flight_recorder").len) return TG_STR("");
  const struct tg__str said = tg__json_unquoted(member(r->trace, "flight_trigger"));
  return said.len
             ? said
             : TG_STR("no trigger: the process was killed, or still runs; this is the ring of its flight recorder");
}

/* ---- asking ---------------------------------------------------------------------------------- */

struct part {
  const char *name;
  enum tg__question_id question;
  bool of_rank; /* asked only for the rank shown */
  struct tg_arg args[4];
};
static const struct part parts[TG__REPORT_PARTS] = {
    [TG__REPORT_OVERVIEW] = {"overview", TG__Q_overview, false, {{0}}},
    [TG__REPORT_LOSSES] = {"losses", TG__Q_losses, false, {{0}}},
    [TG__REPORT_LAUNCHES] = {"launches", TG__Q_launches, false, {{0}}},
    [TG__REPORT_STEPS] = {"step_summary", TG__Q_steps, false, {{"by", "summary"}}},
    [TG__REPORT_STEP_ROWS] = {"steps", TG__Q_steps, true, {{0}}},
    [TG__REPORT_LABELS] =
        {"labels",
         TG__Q_annotations,
         true,
         {{"sort", "total_ns desc"},
          {"limit", "8"},
          {"where", "side = 'cpu' and name !~ 'ProfilerStep#' and name !~ 'enumerate(Data' and total_ns > 0"}}},
    [TG__REPORT_PHASES] = {"phases", TG__Q_phases, true, {{0}}},
    [TG__REPORT_HOST_OPS] = {"top_host_ops",
                             TG__Q_ops,
                             true,
                             {{"sort", "self_cpu_ns desc"}, {"limit", "5"}, {"where", "self_cpu_ns > 0"}}},
    [TG__REPORT_DEVICE_OPS] = {"top_device_ops",
                               TG__Q_ops,
                               true,
                               {{"sort", "self_device_ns desc"}, {"limit", "5"}, {"where", "self_device_ns > 0"}}},
    [TG__REPORT_KERNELS] = {"top_kernels", TG__Q_kernels, true, {{"sort", "total_ns desc"}, {"limit", "5"}}},
    [TG__REPORT_FINDINGS] = {"findings", TG__Q_findings, true, {{0}}},
    [TG__REPORT_KINDS] = {"bottleneck", TG__Q_bottleneck, true, {{0}}},
    [TG__REPORT_QUESTIONS] = {"six_questions", TG__Q_six_questions, true, {{0}}},
    [TG__REPORT_THREADS] = {"threads",
                            TG__Q_tracks,
                            true,
                            {{"where", "kind = 'cpu' and slices > 0"},
                             {"sort", "busy_ns desc"},
                             {"columns", "pid,tid,kind,name,slices,busy_ns"}}},
    [TG__REPORT_FRAGMENTATION] = {"memory_held", TG__Q_fragmentation, true, {{0}}},
    [TG__REPORT_OOMS] = {"out_of_memory",
                         TG__Q_memory_stats,
                         true,
                         {{"where", "metric = 'num_ooms' and pool = 'all'"}}},
    [TG__REPORT_MEMORY_STACKS] = {"memory_by_stack",
                                  TG__Q_memory_stacks,
                                  true,
                                  {{"sort", "peak_bytes desc"}, {"limit", "5"}, {"where", "peak_bytes > 0"}}},
};

static enum tg_err ask_part(struct tg_trace *trace, const struct tg__show_options *o, enum tg__report_part which,
                            struct tg__report *r, struct tg_error *e) {
  const struct part *p = &parts[which];
  const struct tg__columns *const t = trace->columns;
  if (which >= TG__REPORT_FRAGMENTATION && !tg__is_snapshot(t)) return TG_OK;
  struct tg_arg args[5];
  size_t count = 0;
  char rank[24];
  while (count < 4 && p->args[count].name) {
    args[count] = p->args[count];
    count++;
  }
  if (p->of_rank && t->rank_count > 1) {
    snprintf(rank, sizeof rank, "%lld", (long long)(t->ranks[r->rank].number < 0 ? 0 : t->ranks[r->rank].number));
    args[count++] = (struct tg_arg){"rank", rank};
  }
  const enum tg_err err = tg__ask_trace(trace, tg__question_name(p->question), args, count, &r->parts[which], e);
  if (err != TG_NO_DATA) return err;
  r->parts[which] = NULL; /* a CPU trace has no launches: its part is left out */
  return TG_OK;
}

bool tg__is_snapshot(const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->cat_count; i++)
    if (t->cats[i].name != TG_NONE && tg__str_eq(tg__name(t, t->cats[i].name), TG_STR("memory_snapshot"))) return true;
  return false;
}

/* The rank with the longest steps on average: the one that the others wait for. */
static uint32_t slowest_rank(const struct tg__columns *t, const struct tg_table *steps) {
  int64_t longest = -1, number = TG_NULL_INT;
  for (size_t i = steps ? tg__find_row(steps, "step", "mean", 0) : SIZE_MAX; i != SIZE_MAX;
       i = tg__find_row(steps, "step", "mean", i + 1)) {
    const int64_t mean = tg__cell_int(steps, i, "total_ns");
    if (mean <= longest) continue;
    longest = mean;
    number = tg__cell_int(steps, i, "rank");
  }
  for (uint32_t r = 0; r < t->rank_count; r++)
    if (t->ranks[r].number == number) return r;
  return 0;
}

/* ---- what to type next ----------------------------------------------------------------------- */

/* The file or folder that was opened, as a shell would take it. */
static void put_path(const struct tg__columns *t, struct tg__out *out) {
  struct tg__str path = t->path ? (struct tg__str){t->path, (uint32_t)strlen(t->path)} : tg__name(t, t->ranks[0].path);
  if (t->rank_count > 1 && !t->path) {
    while (path.len && path.ptr[path.len - 1] != '/') path.len--;
    if (path.len > 1) path.len--;
    if (!path.len) path = TG_STR(".");
  }
  const size_t size = 4 * (size_t)path.len + 16;
  char *const word = tg__alloc(size);
  if (word)
    tg__out_text(out, tg__shell_word(path, word, size));
  else
    out->err = TG_MEMORY;
  tg__free(word);
}

static bool answers(struct tg_trace *t, const struct tg__show_options *o, enum tg__question_id question) {
  struct tg_table *rows = NULL;
  const enum tg_err err = tg__ask_trace(t, tg__question_name(question), NULL, 0, &rows, NULL);
  tg__table_free(rows);
  return !err;
}

/* Of a trace without operators. */
static struct tg__next next_without_operators(const struct tg__report *r, struct tg_trace *t,
                                              const struct tg__show_options *o) {
  if (r->parts[TG__REPORT_KERNELS])
    return (struct tg__next){TG__Q_kernels, "--limit 20", "more device work, with calls and times"};
  const bool is_snapshot = tg__strings_find(r->trace->strings, "memory_snapshot", 15) != TG_NONE;
  if (!is_snapshot && answers(t, o, TG__Q_memory_timeline))
    return (struct tg__next){TG__Q_memory_timeline, "--limit 20", "bytes alive over time, by category"};
  if (!is_snapshot) return (struct tg__next){TG__Q_overview, "", "what the trace holds"};
  if (answers(t, o, TG__Q_memory_stacks)) /* else a snapshot of an allocator that did nothing */
    return (struct tg__next){TG__Q_memory_stacks, "--limit 20", "who took the memory, at the peak and at the end"};
  return (struct tg__next){TG__Q_segments, "--limit 20", "what the allocator holds"};
}

static struct tg__next next_of(const struct tg__report *r, struct tg_trace *t, const struct tg__show_options *o) {
  const struct tg_table *const findings = r->parts[TG__REPORT_FINDINGS];
  struct tg__next next;
  if (findings && findings->rows && tg__cause_next(tg__cell_str(findings, 0, "cause"), &next) &&
      (next.question != TG__Q_stacks || tg__cell_str(findings, 0, "file").len))
    return next;
  if (r->trace->rank_count > 1)
    return (struct tg__next){TG__Q_ranks, "",
                             "a line for each rank: where its step goes, and how long it waits for the others"};
  if (!r->parts[TG__REPORT_HOST_OPS]) return next_without_operators(r, t, o);
  return (struct tg__next){TG__Q_ops, "--limit 20", "more operators, with calls, shapes and memory"};
}

static void choose_next(struct tg__report *r, struct tg_trace *t, const struct tg__show_options *o) {
  const struct tg__next next = next_of(r, t, o);
  r->next_why = next.why;
  tg__out_text(&r->next, "tachograph ask ");
  put_path(r->trace, &r->next);
  tg__out_format(&r->next, " %s%s%s", tg__question_name(next.question), *next.words ? " " : "", next.words);
  if (!r->trace->path || strcmp(r->trace->path, "-") == 0) return;
  tg__out_text(&r->page, "tachograph view ");
  put_path(r->trace, &r->page);
}

/* ---- the public functions -------------------------------------------------------------------- */

void tg__report_free(struct tg__report *r) {
  for (unsigned i = 0; i < TG__REPORT_PARTS; i++) tg__table_free(r->parts[i]);
  tg__out_free(&r->next);
  tg__out_free(&r->page);
}

enum tg_err tg__report_make(struct tg_trace *t, const struct tg__show_options *o, struct tg__report *r,
                            struct tg_error *e) {
  *r = (struct tg__report){.trace = t->columns, .is_valid = tg__ranks_are_valid(t)};
  for (unsigned i = 0; i < TG__REPORT_PARTS; i++) {
    const enum tg_err err = ask_part(t, o, (enum tg__report_part)i, r, e);
    if (err) return err;
    if (i == TG__REPORT_STEPS) r->rank = slowest_rank(r->trace, r->parts[i]);
  }
  choose_next(r, t, o);
  return r->next.err || r->page.err ? tg__no_memory(e, "reporting") : TG_OK;
}

enum tg_err tg__text_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                            struct tg_error *e) {
  struct tg__report r;
  const enum tg_err err = tg__report_make(t, o, &r, e);
  if (!err) tg__report_print(&r, o, out);
  tg__report_free(&r);
  return err ? err : tg__show_end(out, e);
}

enum tg_err tg__json_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,
                            struct tg_error *e) {
  struct tg__report r;
  const enum tg_err err = tg__report_make(t, o, &r, e);
  if (!err) {
    tg__out_text(out, "{\"report\":{");
    for (unsigned i = 0; i < TG__REPORT_PARTS; i++) {
      if (i >= TG__REPORT_FRAGMENTATION && !tg__is_snapshot(r.trace)) break;
      tg__out_format(out, "%s\"%s\":", i ? "," : "", parts[i].name);
      if (r.parts[i])
        tg__json_table(r.parts[i], o, out);
      else
        tg__out_text(out, "null\n");
    }
    tg__out_text(out, "},\n");
    if (tg__report_why(&r).len) {
      tg__out_text(out, "\"why\":\"");
      tg__json_body(out, tg__report_why(&r));
      tg__out_text(out, "\",\n");
    }
    const int64_t step_ns = tg__report_step(&r, "mean", "total_ns");
    tg__put_findings_json(r.parts[TG__REPORT_FINDINGS], step_ns == TG_NULL_INT ? NAN : (double)step_ns, NAN, out);
    tg__out_text(out, ",\n\"next\":\"");
    tg__json_body(out, (struct tg__str){r.next.buf, (uint32_t)r.next.len});
    tg__out_text(out, "\"}\n");
  }
  tg__report_free(&r);
  return err ? err : tg__show_end(out, e);
}

bool tg__report_figure(size_t i, struct tg__report_figure *out) {
  static const struct {
    const char *word;
    enum tg__question_id question;
    const char *column;
  } figures[] = {{"step", TG__Q_steps, "total_ns"},
                 {"kernels of a step", TG__Q_steps, "kernel_ns"},
                 {"copies", TG__Q_steps, "memcpy_ns"},
                 {"memsets", TG__Q_steps, "memset_ns"},
                 {"communication", TG__Q_steps, "communication_ns"},
                 {"runtime calls", TG__Q_steps, "runtime_ns"},
                 {"data loader", TG__Q_steps, "dataloader_ns"},
                 {"CPU operators", TG__Q_steps, "operator_ns"},
                 {"no operator", TG__Q_steps, "bare_ns"},
                 {"kind", TG__Q_bottleneck, "share_pct"},
                 {"asked", TG__Q_six_questions, "value"},
                 {"labels", TG__Q_annotations, "total_ns"},
                 {"own time on the host", TG__Q_ops, "self_cpu_ns"},
                 {"own time on the device", TG__Q_ops, "self_device_ns"},
                 {"time of a kernel", TG__Q_kernels, "total_ns"},
                 {"share of a finding", TG__Q_findings, "share_pct"},
                 {"costs", TG__Q_findings, "cost_ns"},
                 {"saves", TG__Q_findings, "saving_ns"},
                 {"saves at least", TG__Q_findings, "saving_low_ns"},
                 {"saves at most", TG__Q_findings, "saving_high_ns"}};
  if (i >= sizeof figures / sizeof *figures) return false;
  *out = (struct tg__report_figure){figures[i].word, tg__question_name(figures[i].question), figures[i].column};
  return true;
}
