/* The report as one page of text. */
#include "show/report.h"

#include <math.h>

enum { LABEL = 10, WIDTH_MIN = 72, WIDTH_MAX = 120, WIDTH_DEFAULT = 100, NUMBER_BYTES = 32 };

struct page {
  const struct tg__report *r;
  struct tg__out *out;
  unsigned width;
  bool color, is_valid;
};

/* ---- ink ------------------------------------------------------------------------------------- */

static void ink(const struct page *p, const char *code) {
  if (p->color) tg__out_format(p->out, "\033[%sm", code);
}
static void plain(const struct page *p) { ink(p, "0"); }

static void put_in(const struct page *p, const char *code, const char *text) {
  ink(p, code);
  tg__out_text(p->out, text);
  plain(p);
}

static struct tg__str view(const char *text) { return (struct tg__str){text, (uint32_t)strlen(text)}; }

/* The same for text in which a name or a path may stand. */
static void put_clean_in(const struct page *p, const char *code, struct tg__str text) {
  ink(p, code);
  tg__put_clean(p->out, text);
  plain(p);
}

static void put_label(const struct page *p, const char *label) {
  put_in(p, "1", label);
  tg__put_blanks(p->out, LABEL - (unsigned)strlen(label));
}

static void put_left(const struct page *p, struct tg__str s, unsigned width) {
  const unsigned used = tg__put_fitted(p->out, s, width);
  tg__put_blanks(p->out, used < width ? width - used : 0);
}

static void put_right(const struct page *p, const char *text, unsigned width) {
  const unsigned used = (unsigned)strlen(text);
  tg__put_blanks(p->out, used < width ? width - used : 0);
  tg__out_text(p->out, text);
}

static void put_pct(const struct page *p, double pct, unsigned width) {
  char buf[NUMBER_BYTES] = "-";
  if (!isnan(pct)) snprintf(buf, sizeof buf, "%.1f %%", pct);
  put_right(p, buf, width);
}

/* Eighths of a character, so that small shares differ. */
static void put_bar(const struct page *p, double share, unsigned width, const char *code) {
  static const char *const eighths[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
  const double in_range = share > 1 ? 1 : share > 0 ? share : 0;
  unsigned n = (unsigned)lround(in_range * width * 8);
  if (!n && share > 0) n = 1;
  ink(p, code);
  for (unsigned i = 0; i < n / 8; i++) tg__out_text(p->out, "\u2588");
  tg__out_text(p->out, eighths[n % 8]);
  plain(p);
  tg__put_blanks(p->out, width - n / 8 - (n % 8 != 0));
}

/* ---- what the trace is ----------------------------------------------------------------------- */

static struct tg__str last_part(struct tg__str path) {
  while (path.len > 1 && path.ptr[path.len - 1] == '/') path.len--;
  for (uint32_t i = path.len; i > 0; i--)
    if (path.ptr[i - 1] == '/') return (struct tg__str){path.ptr + i, path.len - i};
  return path;
}

static void put_title(const struct page *p) {
  const struct tg__columns *t = p->r->trace;
  struct tg__str path = tg__name(t, t->ranks[0].path);
  const struct tg__str opened = t->path ? (struct tg__str){t->path, (uint32_t)strlen(t->path)} : path;
  const bool is_ours = tg__str_has_suffix(opened, ".tacho") || tg__str_has_suffix(path, ".tacho");
  if (t->rank_count == 1 || is_ours)
    path = opened; /* a packed file knows where its ranks once lay, and holds them all */
  path = last_part(path);
  ink(p, "1;36");
  tg__put_fitted(p->out, path, p->width - 20);
  plain(p);
  if (t->rank_count > 1 && !is_ours) tg__out_format(p->out, " and %u more", t->rank_count - 1);
  tg__out_char(p->out, '\n');
}

static void put_extent(const struct page *p) {
  struct tg__out text = {0};
  tg__report_extent(p->r, &text);
  if (text.err) p->out->err = text.err;
  put_label(p, "trace");
  if (!text.err) tg__put_wrapped(p->out, view(text.buf), LABEL, p->width - LABEL, 4);
  tg__out_free(&text);
}

/* Of a flight recorder. */
static void put_why(const struct page *p) {
  const struct tg__str why = tg__report_why(p->r);
  if (!why.len) return;
  put_label(p, "why");
  tg__put_wrapped(p->out, why, LABEL, p->width - LABEL, 4);
}

static int64_t count_losses(const struct tg_table *t, const char *kind) {
  int64_t sum = 0;
  for (size_t i = t ? tg__find_row(t, "kind", kind, 0) : SIZE_MAX; i != SIZE_MAX;
       i = tg__find_row(t, "kind", kind, i + 1))
    sum += tg__cell_int(t, i, "count");
  return sum;
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static void put_losses(const struct page *p) {
  static const struct {
    const char *kind, *what, *behind, *ink;
  } kinds[] = {{"skipped", "event", " not read", "31"},
               {"file", "file", " not read", "31"},
               {"cut", "place", " where the input is cut", "31"},
               {"bent", "value", " not as written", "33"}};
  const struct tg_table *t = p->r->parts[TG__REPORT_LOSSES];
  bool any = false;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const int64_t n = count_losses(t, kinds[k].kind);
    char buf[NUMBER_BYTES];
    if (!n) continue;
    tg__out_text(p->out, any ? ", " : "");
    ink(p, kinds[k].ink);
    tg__out_format(p->out, "%s %s%s%s", tg__human_count(n, buf), kinds[k].what, plural(n), kinds[k].behind);
    plain(p);
    if (!any) { /* the first loss by name */
      const bool file = strcmp(kinds[k].kind, "file") == 0;
      const struct tg__str name = tg__cell_str(t, tg__find_row(t, "kind", kinds[k].kind, 0), file ? "file" : "loss");
      tg__out_text(p->out, " (");
      tg__put_clean(p->out, file ? last_part(name) : name);
      tg__out_text(p->out, ")");
    }
    any = true;
  }
  if (!any) put_in(p, "32", "no data lost");
}

static int64_t summary(const struct page *p, const char *statistic, const char *column);

/* How long the thread of the steps was ready and had no core: beyond a twentieth, times say as much of the machine as
 * of the program. */
static void put_noise(const struct page *p) {
  if (!p->r->parts[TG__REPORT_STEPS]) return;
  const struct tg__str noted =
      tg__json_member(tg__document_member(p->r->trace, 0, "conditions"), "core_wait_pct"); /* of all steps together */
  const int64_t wait_ns = summary(p, "mean", "core_wait_ns"), all_ns = summary(p, "mean", "host_ns");
  int64_t noted_pct;
  const bool is_noted = tg__str_to_int(noted, &noted_pct);
  if ((wait_ns == TG_NULL_INT || all_ns <= 0) && !is_noted) return;
  const double pct = is_noted ? (double)noted_pct : 100 * (double)wait_ns / (double)all_ns;
  tg__out_text(p->out, " \u00b7 ");
  ink(p, pct > 5 ? "33" : "32");
  if (pct > 5)
    tg__out_format(p->out, "the loop had no core for %.0f %% of its time", pct);
  else
    tg__out_text(p->out, "quiet machine");
  plain(p);
}

/* Down to a tenth, so that only all of them are 100 %. */
static double share_pct(int64_t part, int64_t all) { return floor(1000.0 * (double)part / (double)all) / 10; }

/* Device work that is linked to its launch, and through it to an operator. */
struct links {
  int64_t work, with_call, with_op;
};
static struct links links_of(const struct page *p) {
  const struct tg_table *t = p->r->parts[TG__REPORT_LAUNCHES];
  struct links l = {0};
  for (size_t i = 0; t && i < t->rows; i++) {
    const int64_t with_call = tg__cell_int(t, i, "with_host_call");
    l.work += tg__cell_int(t, i, "device_events");
    l.with_call += with_call;
    l.with_op += with_call - tg__cell_int(t, i, "op_by_none");
  }
  return l;
}

/* A line of its own where a share is below 100 %. */
static void put_shares(const struct page *p, const struct links *l) {
  const bool has_lone_work = l->with_call < l->work;
  if (!has_lone_work && l->with_op == l->with_call) return;
  put_label(p, "links");
  if (has_lone_work)
    tg__out_format(p->out, "%.1f %% of device events to their launch", share_pct(l->with_call, l->work));
  if (l->with_op < l->with_call)
    tg__out_format(p->out, "%s%.1f %% of %s to an operator", has_lone_work ? ", " : "",
                   share_pct(l->with_op, l->with_call), has_lone_work ? "them" : "device events");
  tg__out_char(p->out, '\n');
}

static void put_health(const struct page *p) {
  put_label(p, "health");
  put_losses(p);
  tg__out_text(p->out, " \u00b7 ");
  put_in(p, p->is_valid ? "32" : "31", p->is_valid ? "invariants hold" : "invariants broken: please report");
  const struct links links = links_of(p);
  char a[NUMBER_BYTES], b[NUMBER_BYTES];
  if (links.work) {
    tg__out_text(p->out, " \u00b7 ");
    ink(p, links.with_call == links.work ? "32" : "33");
    tg__out_format(p->out, "%s of %s device event%s linked", tg__human_count(links.with_call, a),
                   tg__human_count(links.work, b), plural(links.work));
    plain(p);
  }
  const int64_t duplicate = tg__duplicate_rank(p->r->trace);
  if (duplicate != TG_NULL_INT) {
    tg__out_text(p->out, " \u00b7 ");
    ink(p, "33");
    tg__out_format(p->out, "several files say that they are rank %lld", (long long)duplicate);
    plain(p);
  }
  put_noise(p);
  tg__out_char(p->out, '\n');
  put_shares(p, &links);
  tg__out_char(p->out, '\n');
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int64_t summary(const struct page *p, const char *statistic, const char *column) {
  return tg__report_step(p->r, statistic, column);
}

static bool is_one_recording(const struct page *p) {
  const struct tg_table *rows = p->r->parts[TG__REPORT_STEP_ROWS];
  return !rows || tg__str_eq(tg__cell_str(rows, 0, "name"), TG_STR("whole recording"));
}

/* Steps of one process count up; workers of a pool count each for itself, and mixed by time they have no first and
 * last. */
static bool counts_up(const struct tg_table *rows) {
  int64_t before = INT64_MIN, number;
  for (size_t i = 0; i < rows->rows; i++) {
    if (!tg__str_to_int(tg__cell_str(rows, i, "step"), &number)) continue;
    if (number < before) return false;
    before = number;
  }
  return true;
}

static void put_step_kind(const struct page *p, size_t n) {
  const struct tg_table *rows = p->r->parts[TG__REPORT_STEP_ROWS];
  const struct tg__columns *t = p->r->trace;
  if (t->step_kind == TG__STEP_PERIOD) {
    tg__out_format(p->out, "   %zu period%s of the operators", n, plural((int64_t)n));
  } else if (t->step_kind == TG__STEP_ANNOTATION) {
    tg__out_format(p->out, "   %zu step%s: ", n, plural((int64_t)n));
    tg__put_fitted(p->out, tg__cell_str(rows, 0, "name"), p->width - 66);
  } else {
    tg__out_format(p->out, "   %zu ProfilerStep%s", n, plural((int64_t)n));
    if (!counts_up(rows)) {
      tg__out_text(p->out, " of several processes");
      return;
    }
    tg__out_text(p->out, ", ");
    tg__put_clean(p->out, tg__cell_str(rows, 0, "step"));
    if (n > 1) tg__out_text(p->out, " to ");
    if (n > 1) tg__put_clean(p->out, tg__cell_str(rows, n - 1, "step"));
  }
}

/* Which steps are no part of the figures: the first, those that warm up, those at the end that were cut. */
static void put_left_out_steps(const struct page *p) {
  const struct tg_table *const t = p->r->parts[TG__REPORT_STEPS];
  for (size_t i = 0; t && i < t->note_count; i++) {
    const char *const rank_ends = strstr(t->notes[i], ": "); /* "rank 0: " */
    if (!rank_ends || !strstr(t->notes[i], "left out")) continue;
    tg__put_blanks(p->out, LABEL);
    tg__put_wrapped(p->out, view(rank_ends + 2), LABEL, p->width - LABEL, 4);
  }
}

/* false: nothing to divide */
static bool put_report_steps(const struct page *p) {
  const struct tg_table *rows = p->r->parts[TG__REPORT_STEP_ROWS];
  char a[NUMBER_BYTES], b[NUMBER_BYTES], c[NUMBER_BYTES];
  put_label(p, "step");
  if (!rows || !rows->rows || summary(p, "mean", "total_ns") == TG_NULL_INT) {
    tg__out_text(p->out, "the trace has neither steps nor operators\n\n");
    return false;
  }
  ink(p, "1");
  tg__out_text(p->out, tg__human_ns(summary(p, "p50", "total_ns"), a));
  plain(p);
  if (is_one_recording(p)) {
    tg__out_text(p->out, ", first operator to last; it marks no steps (prof.step() would)");
  } else {
    const bool many = rows->rows >= 10; /* of fewer a tenth means nothing */
    tg__human_ns(summary(p, many ? "p10" : "min", "total_ns"), b);
    tg__human_ns(summary(p, many ? "p90" : "max", "total_ns"), c);
    if (rows->rows > 1) tg__out_format(p->out, " median, %s%s to %s", many ? "80 % in " : "", b, c);
    put_step_kind(p, rows->rows);
  }
  tg__out_char(p->out, '\n');
  put_left_out_steps(p);
  if (p->r->trace->rank_count > 1) {
    tg__put_blanks(p->out, LABEL);
    tg__out_format(p->out, "of rank %lld, which has the longest steps; all below is of that rank\n",
                   (long long)p->r->trace->ranks[p->r->rank].number);
  }
  return true;
}

static void put_parts(const struct page *p) {
  static const struct {
    const char *column, *label, *ink;
  } kinds[] = {{"kernel_ns", "kernels", "32"},         {"memcpy_ns", "copies", "36"},
               {"memset_ns", "memsets", "36"},         {"communication_ns", "communication", "35"},
               {"runtime_ns", "runtime calls", "33"},  {"dataloader_ns", "data loader", "31"},
               {"operator_ns", "CPU operators", "34"}, {"bare_ns", "no operator", "90"}};
  const int64_t total = summary(p, "mean", "total_ns");
  const unsigned bar = p->width - LABEL - 15 - 10 - 9;
  char buf[NUMBER_BYTES];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const int64_t ns = summary(p, "mean", kinds[i].column);
    if (ns <= 0 || total <= 0) continue;
    const double share = (double)ns / (double)total;
    tg__put_blanks(p->out, LABEL);
    put_left(p, view(kinds[i].label), 15);
    put_bar(p, share, bar, kinds[i].ink);
    put_right(p, tg__human_ns(ns, buf), 10);
    put_pct(p, 100 * share, 9);
    tg__out_char(p->out, '\n');
  }
  tg__out_char(p->out, '\n');
}

/* The phases of a step as the program labels them, those of torch among them. Labels stand in each other, so these
 * times do not add up. */
static void put_labels(const struct page *p) {
  const struct tg_table *const t = p->r->parts[TG__REPORT_LABELS], *const steps = p->r->parts[TG__REPORT_STEP_ROWS];
  int64_t all_ns = 0;
  bool any = false;
  for (size_t i = 0; steps && i < steps->rows; i++) all_ns += tg__cell_int(steps, i, "host_ns");
  for (size_t i = 0; t && i < t->rows && all_ns > 0; i++) {
    const int64_t ns = tg__cell_int(t, i, "total_ns");
    char buf[NUMBER_BYTES];
    if (tg__str_eq(tg__cell_str(t, i, "name"), tg__cell_str(steps, 0, "name"))) continue; /* it is the step */
    if (!any) put_label(p, "labels");
    if (any) tg__put_blanks(p->out, LABEL);
    put_left(p, tg__cell_str(t, i, "name"), p->width - LABEL - 30);
    put_right(p, tg__human_count(tg__cell_int(t, i, "calls"), buf), 7);
    tg__out_text(p->out, tg__cell_int(t, i, "calls") == 1 ? " call " : " calls");
    put_right(p, tg__human_ns(ns, buf), 10);
    put_pct(p, ns <= all_ns ? 100 * (double)ns / (double)all_ns : NAN, 7); /* of several threads it has no share */
    tg__out_char(p->out, '\n');
    any = true;
  }
  if (any) tg__out_char(p->out, '\n');
}

/* ---- tops ------------------------------------------------------------------------------------ */

static void put_op(const struct page *p, const struct tg_table *t, size_t row, const char *ns, const char *pct,
                   unsigned width) {
  char buf[NUMBER_BYTES];
  put_left(p, tg__cell_str(t, row, "name"), width - 18);
  put_right(p, tg__human_ns(tg__cell_int(t, row, ns), buf), 9);
  put_pct(p, tg__cell_real(t, row, pct), 9);
}

/* Calls and time of one side, over the whole width. */
static void put_calls(const struct page *p, const struct tg_table *t, const char *title, const char *ns,
                      const char *pct) {
  char buf[NUMBER_BYTES];
  ink(p, "1");
  put_left(p, view(title), p->width - 30);
  put_right(p, "calls", 10);
  put_right(p, "time", 11);
  plain(p);
  tg__out_char(p->out, '\n');
  for (size_t i = 0; i < t->rows; i++) {
    put_left(p, tg__cell_str(t, i, "name"), p->width - 30);
    put_right(p, tg__human_count(tg__cell_int(t, i, "calls"), buf), 10);
    put_right(p, tg__human_ns(tg__cell_int(t, i, ns), buf), 11);
    put_pct(p, tg__cell_real(t, i, pct), 9);
    tg__out_char(p->out, '\n');
  }
}

/* Host and device side by side. */
static void put_both_sides(const struct page *p, const struct tg_table *host, const struct tg_table *device) {
  const unsigned half = (p->width - 3) / 2;
  ink(p, "1");
  put_left(p, view("operators, own time on the host"), half + 3);
  tg__out_text(p->out, "operators, own time on the device");
  plain(p);
  tg__out_char(p->out, '\n');
  for (size_t i = 0; i < host->rows || i < device->rows; i++) {
    if (i < host->rows)
      put_op(p, host, i, "self_cpu_ns", "self_cpu_pct", half);
    else
      tg__put_blanks(p->out, half);
    if (i < device->rows) {
      tg__put_blanks(p->out, 3);
      put_op(p, device, i, "self_device_ns", "self_device_pct", half);
    }
    tg__out_char(p->out, '\n');
  }
}

static void put_tops(const struct page *p) {
  const struct tg_table *host = p->r->parts[TG__REPORT_HOST_OPS], *device = p->r->parts[TG__REPORT_DEVICE_OPS];
  const struct tg_table *kernels = p->r->parts[TG__REPORT_KERNELS];
  if (host && host->rows && device && device->rows)
    put_both_sides(p, host, device);
  else if (host && host->rows)
    put_calls(p, host, "operators, own time on the host", "self_cpu_ns", "self_cpu_pct");
  if (kernels && kernels->rows) put_calls(p, kernels, "device work", "total_ns", "pct");
  tg__out_char(p->out, '\n');
}

/* ---- findings -------------------------------------------------------------------------------- */

enum { FINDINGS = 3, WHOLE = 20 }; /* WHOLE: lines, more than any sentence has */

/* The line of the program says more than the name in front of it, and is kept whole while the width allows. */
static void put_place(const struct page *p, struct tg__str where) {
  const unsigned room = p->width - LABEL;
  uint32_t at = 0;
  for (uint32_t i = 0; i + 4 < where.len; i++)
    if (memcmp(where.ptr + i, " at ", 4) == 0) at = i;
  const struct tg__str line = {where.ptr + at, where.len - at};
  const struct tg__str line_alone = {where.ptr + at + (at > 0), where.len - at - (at > 0)};
  const unsigned needed = tg__text_width(line);
  if (!at || tg__text_width(where) <= room || needed + 8 > room) {
    tg__put_fitted(p->out, tg__text_width(where) <= room || !at ? where : line_alone, room);
    return;
  }
  tg__put_fitted(p->out, (struct tg__str){where.ptr, at}, room - needed);
  tg__put_clean(p->out, line);
}

static void put_saving(const struct page *p, const struct tg_table *t, size_t row) {
  struct tg__out text = {0};
  tg__report_saving(t, row, is_one_recording(p), &text);
  if (!text.err) {
    tg__put_blanks(p->out, LABEL + 2);
    tg__put_wrapped(p->out, (struct tg__str){text.buf, (uint32_t)text.len}, LABEL + 2, p->width - LABEL - 2, WHOLE);
  }
  tg__out_free(&text);
}

static void put_finding(const struct page *p, const struct tg_table *t, size_t row) {
  const struct tg__str severity = tg__cell_str(t, row, "severity");
  const int64_t cost = tg__cell_int(t, row, "cost_ns");
  const char *code = tg__str_eq(severity, TG_STR("high"))     ? "1;31"
                     : tg__str_eq(severity, TG_STR("medium")) ? "1;33"
                                                              : "1";
  const struct tg__str where = tg__cell_str(t, row, "where");
  char buf[NUMBER_BYTES];
  put_left(p, severity, LABEL);
  ink(p, code);
  tg__put_clean(p->out, tg__cell_str(t, row, "cause"));
  plain(p);
  tg__out_format(p->out, "  %s%.1f %%", cost != TG_NULL_INT ? "costs " : "", tg__cell_real(t, row, "share_pct"));
  if (cost != TG_NULL_INT)
    tg__out_format(p->out, ", %s %s", tg__human_ns(cost, buf), is_one_recording(p) ? "in all" : "a step");
  tg__out_char(p->out, '\n');
  if (where.len) {
    tg__put_blanks(p->out, LABEL);
    ink(p, "2");
    put_place(p, where);
    plain(p);
    tg__out_char(p->out, '\n');
  }
  tg__put_blanks(p->out, LABEL);
  tg__put_wrapped(p->out, tg__cell_str(t, row, "evidence"), LABEL, p->width - LABEL, WHOLE);
  tg__put_blanks(p->out, LABEL);
  tg__out_text(p->out, "\u2192 ");
  tg__put_wrapped(p->out, tg__cell_str(t, row, "advice"), LABEL + 2, p->width - LABEL - 2, WHOLE);
  put_saving(p, t, row);
}

/* A note of the findings that begins with this, as a line of its own. */
static void put_note(const struct page *p, const struct tg_table *t, const char *begin, const char *label) {
  for (size_t i = 0; i < t->note_count; i++) {
    if (strncmp(t->notes[i], begin, strlen(begin)) != 0) continue;
    const char *const text = t->notes[i] + strlen(begin);
    tg__out_char(p->out, '\n');
    put_in(p, "2", label);
    tg__put_blanks(p->out, strlen(label) < LABEL ? LABEL - (unsigned)strlen(label) : 1);
    tg__put_wrapped(p->out, view(text), LABEL, p->width - LABEL, WHOLE);
    return;
  }
}

static void put_findings(const struct page *p) {
  const struct tg_table *t = p->r->parts[TG__REPORT_FINDINGS];
  if (!t) return;
  put_in(p, "1", "findings");
  if (t->rows > FINDINGS) tg__out_format(p->out, ", %d of %zu", FINDINGS, t->rows);
  if (!t->rows) {
    tg__put_blanks(p->out, LABEL - 8);
    ink(p, "32");
    tg__put_wrapped(p->out, view(t->note_count ? t->notes[t->note_count - 1] : "none"), LABEL, p->width - LABEL, WHOLE);
    plain(p);
  } else {
    tg__out_char(p->out, '\n');
  }
  for (size_t i = 0; i < t->rows && i < FINDINGS; i++) put_finding(p, t, i);
  put_note(p, t, "measured: ", "measured");
  if (t->rows) put_note(p, t, "withheld: ", "withheld"); /* else the sentence above has it */
  put_note(p, t, "not judged: ", "unknown");
}

void tg__report_print(const struct tg__report *r, const struct tg__show_options *o, struct tg__out *out) {
  const unsigned wanted = o->width ? o->width : WIDTH_DEFAULT;
  const struct page p = {.r = r,
                         .out = out,
                         .color = o->color,
                         .is_valid = r->is_valid,
                         .width = wanted < WIDTH_MIN   ? WIDTH_MIN
                                  : wanted > WIDTH_MAX ? WIDTH_MAX
                                                       : wanted};
  put_title(&p);
  put_extent(&p);
  put_why(&p);
  put_health(&p);
  tg__report_run_print(r, o, LABEL, p.width, out);
  if (tg__is_snapshot(r->trace)) {
    tg__report_memory_print(r, o, LABEL, p.width, out);
  } else {
    if (put_report_steps(&p)) put_parts(&p);
    tg__report_kind_print(r, o, LABEL, p.width, out);
    put_labels(&p);
    tg__report_times_print(r, o, LABEL, p.width, out);
    put_tops(&p);
    put_findings(&p);
  }
  tg__out_char(out, '\n');
  put_label(&p, "next");
  tg__out_format(out, "%s\n", r->next_why);
  tg__put_blanks(out, LABEL);
  put_clean_in(&p, "1;36", (struct tg__str){r->next.buf, (uint32_t)r->next.len}); /* never broken: it is to be copied */
  tg__out_char(out, '\n');
  if (!r->page.len) return;
  tg__put_blanks(out, LABEL);
  tg__out_text(out, "all of it and the timeline in the browser\n");
  tg__put_blanks(out, LABEL);
  put_clean_in(&p, "1;36", (struct tg__str){r->page.buf, (uint32_t)r->page.len});
  tg__out_char(out, '\n');
}
