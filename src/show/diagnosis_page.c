/* The question diagnosis for a person: its parts with a heading each, as text for a terminal or as Markdown. */
#include "show/report.h"

#include <math.h>

enum { LEVEL_COLUMNS = 11, ITEM_COLUMNS = 34, FIGURE_COLUMNS = 22, TEXT_INDENT = 4, LEAST_TEXT = 40, ANY_LINES = 1000 };
enum { ITEM_BYTES = 120 };

static const char *const parts[] = {"baseline", "kind", "component", "operation", "change", "measure"};
static const char *const headings[] = {"baseline",  "kind of bottleneck",   "component",
                                       "operation", "what to change first", "what to measure next"};
enum { BASELINE, KIND, COMPONENT, OPERATION, CHANGE, MEASURE, PARTS };

struct diagnosis_page {
  const struct tg_table *t;
  const struct tg__show_options *o;
  struct tg__out *out;
  const char *file; /* as a word of a command */
  int64_t rank;
};

static bool is_of_part(const struct diagnosis_page *p, size_t row, unsigned part) {
  return tg__cell_int(p->t, row, "rank") == p->rank &&
         tg__str_eq(tg__cell_str(p->t, row, "part"), (struct tg__str){parts[part], (uint32_t)strlen(parts[part])});
}

/* "12.3 ms  45.6 %" */
static void say_figures(const struct diagnosis_page *p, size_t row, char *buf, size_t size) {
  const double value = tg__cell_real(p->t, row, "value"), share = tg__cell_real(p->t, row, "share_pct");
  char time[32] = "";
  if (!isnan(value)) tg__human_ns(llround(value), time);
  if (isnan(share))
    snprintf(buf, size, "%10s", time);
  else
    snprintf(buf, size, "%10s  %5.1f %%", time, share);
}

static void put_padded(struct diagnosis_page *p, struct tg__str s, unsigned width) {
  const unsigned used = tg__put_fitted(p->out, s, width);
  tg__put_blanks(p->out, used < width ? width - used : 0);
}

/* Lines of text below an item, indented. */
static void put_below(struct diagnosis_page *p, struct tg__str s) {
  const unsigned width = p->o->width, room = width > TEXT_INDENT + LEAST_TEXT ? width - TEXT_INDENT : LEAST_TEXT;
  if (!s.len) return;
  tg__put_blanks(p->out, TEXT_INDENT);
  if (width) {
    tg__put_wrapped(p->out, s, TEXT_INDENT, room, ANY_LINES);
    return;
  }
  tg__put_clean(p->out, s);
  tg__out_char(p->out, '\n');
}

/* The command, with the file in the place of FILE. */
static void put_command(struct diagnosis_page *p, struct tg__str command) {
  static const char word[] = "FILE";
  for (uint32_t i = 0; i < command.len;) {
    if (p->file && tg__str_has_prefix((struct tg__str){command.ptr + i, command.len - i}, word)) {
      tg__out_text(p->out, p->file);
      i += sizeof word - 1;
    } else {
      tg__put_clean(p->out, (struct tg__str){command.ptr + i++, 1});
    }
  }
}

/* ---- text -------------------------------------------------------------------------------------- */

static void put_diagnosis_line(struct diagnosis_page *p, size_t row) {
  const struct tg__str evidence = tg__cell_str(p->t, row, "evidence");
  char figures[80];
  say_figures(p, row, figures, sizeof figures);
  const unsigned used = 2 + LEVEL_COLUMNS + ITEM_COLUMNS + 1 + FIGURE_COLUMNS;
  tg__out_text(p->out, "  ");
  put_padded(p, tg__cell_str(p->t, row, "level"), LEVEL_COLUMNS);
  put_padded(p, tg__cell_str(p->t, row, "item"), ITEM_COLUMNS);
  tg__out_format(p->out, " %-*s", FIGURE_COLUMNS, figures);
  if (!evidence.len) {
    tg__out_char(p->out, '\n');
  } else if (p->o->width && p->o->width < used + LEAST_TEXT) {
    tg__out_char(p->out, '\n');
    put_below(p, evidence);
  } else if (p->o->width) {
    tg__put_wrapped(p->out, evidence, used, p->o->width - used, ANY_LINES);
  } else {
    tg__put_clean(p->out, evidence);
    tg__out_char(p->out, '\n');
  }
}

static void put_change_line(struct diagnosis_page *p, size_t row, size_t number) {
  const double value = tg__cell_real(p->t, row, "value"), share = tg__cell_real(p->t, row, "share_pct"),
               low = tg__cell_real(p->t, row, "low"), high = tg__cell_real(p->t, row, "high");
  char time[32], high_time[32];
  tg__out_format(p->out, "  %zu. ", number);
  tg__put_clean(p->out, tg__cell_str(p->t, row, "item"));
  tg__out_text(p->out, " (");
  tg__put_clean(p->out, tg__cell_str(p->t, row, "level"));
  tg__out_char(p->out, ')');
  if (!isnan(share)) tg__out_format(p->out, ", %.1f %%", share);
  if (!isnan(value)) tg__out_format(p->out, ", saves %s a step", tg__human_ns(llround(value), time));
  if (!isnan(value) && !isnan(low))
    tg__out_format(p->out, " (%s to %s)", tg__human_ns(llround(low), time), tg__human_ns(llround(high), high_time));
  tg__out_char(p->out, '\n');
  put_below(p, tg__cell_str(p->t, row, "where"));
  put_below(p, tg__cell_str(p->t, row, "evidence"));
}

static void put_measure(struct diagnosis_page *p, size_t row) {
  tg__out_text(p->out, "  ");
  tg__put_clean(p->out, tg__cell_str(p->t, row, "item"));
  tg__out_text(p->out, ": ");
  tg__put_clean(p->out, tg__cell_str(p->t, row, "evidence"));
  tg__out_char(p->out, '\n');
  tg__put_blanks(p->out, TEXT_INDENT);
  put_command(p, tg__cell_str(p->t, row, "next"));
  tg__out_char(p->out, '\n');
}

static void put_part(struct diagnosis_page *p, unsigned part) {
  size_t number = 0;
  tg__out_format(p->out, "%s%u. %s\n", part ? "\n" : "", part + 1, headings[part]);
  for (size_t row = 0; row < p->t->rows; row++) {
    if (!is_of_part(p, row, part)) continue;
    if (part == CHANGE)
      put_change_line(p, row, ++number);
    else if (part == MEASURE)
      put_measure(p, row);
    else
      put_diagnosis_line(p, row);
  }
}

/* ---- Markdown ---------------------------------------------------------------------------------- */

static void put_md_row(struct diagnosis_page *p, size_t row) {
  const struct tg__str where = tg__cell_str(p->t, row, "where"), next = tg__cell_str(p->t, row, "next");
  char figures[80];
  say_figures(p, row, figures, sizeof figures);
  tg__out_text(p->out, "| ");
  tg__put_md(p->out, tg__cell_str(p->t, row, "level"));
  tg__out_text(p->out, " | ");
  tg__put_md_code(p->out, tg__cell_str(p->t, row, "item"), ITEM_BYTES);
  tg__out_format(p->out, " | %s | ", figures);
  if (where.len) {
    tg__put_md_code(p->out, where, where.len + 1);
    tg__out_text(p->out, "<br>");
  }
  tg__put_md(p->out, tg__cell_str(p->t, row, "evidence"));
  if (is_of_part(p, row, MEASURE)) {
    tg__out_text(p->out, "<br>");
    tg__put_md_code(p->out, next, next.len + 1);
  }
  tg__out_text(p->out, " |\n");
}

static void put_md_part(struct diagnosis_page *p, unsigned part) {
  tg__out_format(p->out, "%s### %u. %s\n\n| | | | |\n| --- | --- | ---: | --- |\n", part ? "\n" : "", part + 1,
                 headings[part]);
  for (size_t row = 0; row < p->t->rows; row++)
    if (is_of_part(p, row, part)) put_md_row(p, row);
}

/* ---- the page ---------------------------------------------------------------------------------- */

/* Of the rank with the longest usual step: the others wait for it. */
static int64_t slowest_rank(const struct tg_table *t, size_t *ranks) {
  int64_t rank = tg__cell_int(t, 0, "rank"), last = rank;
  double longest = -1;
  *ranks = t->rows > 0;
  for (size_t i = 0; i < t->rows; i++) {
    const int64_t own = tg__cell_int(t, i, "rank");
    const bool is_first = i == 0 || own != last;
    *ranks += is_first && i > 0;
    last = own;
    if (!is_first || !(tg__cell_real(t, i, "value") > longest)) continue;
    longest = tg__cell_real(t, i, "value");
    rank = own;
  }
  return rank;
}

int64_t tg__diagnosis_rank(const struct tg_table *t) {
  size_t ranks;
  return slowest_rank(t, &ranks);
}

enum tg_err tg__diagnosis_page(const struct tg_table *t, const char *file, const struct tg__show_options *o,
                               bool markdown, struct tg__out *out) {
  size_t ranks;
  struct diagnosis_page p = {.t = t, .o = o, .out = out, .file = file};
  p.rank = slowest_rank(t, &ranks);
  if (ranks > 1)
    tg__out_format(out, "rank %lld of %zu, which has the longest steps; --rank shows another\n\n", (long long)p.rank,
                   ranks);
  for (unsigned part = 0; part < PARTS; part++) {
    if (markdown)
      put_md_part(&p, part);
    else
      put_part(&p, part);
  }
  for (size_t i = 0; i < t->note_count; i++) {
    tg__out_text(out, "\nnote: ");
    tg__put_clean(out, (struct tg__str){t->notes[i], (uint32_t)strlen(t->notes[i])});
    tg__out_char(out, '\n');
  }
  return tg__out_flush(out);
}

void tg__diagnosis_explain(const struct tg_table *findings, size_t row, struct tg__out *out) {
  static const char *const lines[][2] = {
      {"change", "cause"}, {"where", "where"}, {"measured", "evidence"}, {"do", "advice"}, {"saving", "method"}};
  const double threshold = tg__cell_real(findings, row, "threshold_pct"),
               confidence = tg__cell_real(findings, row, "confidence");
  tg__out_char(out, '\n');
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const struct tg__str text = tg__cell_str(findings, row, lines[i][1]);
    if (!text.len) continue;
    tg__out_format(out, "%-10s", lines[i][0]);
    tg__put_clean(out, text);
    tg__out_char(out, '\n');
  }
  tg__out_format(out, "%-10s%.1f %%", "share", tg__cell_real(findings, row, "share_pct"));
  if (!isnan(threshold)) tg__out_format(out, "; the rule fires above %.1f %%", threshold);
  if (!isnan(confidence)) tg__out_format(out, "\n%-10s%.2f of 1", "how sure", confidence);
  tg__out_char(out, '\n');
}
