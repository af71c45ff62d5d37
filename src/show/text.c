/* A table as aligned text: numbers to the right with a unit a person can read, names cut in the middle so that a row
 * fits, sentences below it where they do not. */
#include <math.h>

#include "show/parts.h"

enum {
  NAME_MIN = 16, /* a text column is not squeezed below this */
  GAP = 2,       /* blanks between columns */
  HEADER_LINES = 8,
  SENTENCE_MIN = 40, /* a text of this width about how it went is read, not compared */
  SENTENCE_INDENT = 4,
  SENTENCE_LINES = 20,
  INDENT = 2, /* blanks for each level of a tree */
  INDENT_MOST = 40,
};

struct col {
  const struct tg__column *c;
  unsigned width;  /* of the cells, then of the column */
  unsigned header; /* of the longest word of the name */
  unsigned cells;  /* of the widest cell */
  unsigned lines2; /* least width at which the name takes two lines */
  bool empty;      /* no row has a value: not shown */
  bool zero;       /* a quantity that is 0 in every row: the first to go where the table is too wide */
  bool idle;       /* one of these about devices: a trace of a CPU has them in every table, so it always goes */
  bool answers;    /* one that goes last */
  bool left_out;   /* it went */
  bool below;      /* sentences, where the table is too wide: below each row, whole */
};

static bool is_shown(const struct col *col) { return !col->empty && !col->left_out && !col->below; }

/* ---- cells ----------------------------------------------------------------------------------- */

/* A point in time: humanised it would say nothing ("1.7e9 s"), so it is written as viewers write it, in µs, exactly. */
static bool is_instant(const struct tg__column *c) { return c->role == TG__ROLE_INSTANT; }

static void instant_text(int64_t ns, char *buf) {
  const char *sign = ns < 0 ? "-" : "";
  const uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
  snprintf(buf, TG__CELL_BYTES, "%s%llu.%03llu us", sign, (unsigned long long)(v / 1000),
           (unsigned long long)(v % 1000));
}

/* "5.51 TFLOP", "1.01 TB/s": rates and counts of operations, which are large. */
static bool is_large_unit(const char *unit) {
  return strcmp(unit, "FLOP") == 0 || strcmp(unit, "FLOP/s") == 0 || strcmp(unit, "B/s") == 0;
}
static void large_text(double v, const char *unit, char *buf) {
  static const char prefixes[] = " kMGTPE";
  unsigned i = 0;
  while (fabs(v) >= 999.5 && i < sizeof prefixes - 2) v /= 1000, i++;
  if (i)
    snprintf(buf, TG__CELL_BYTES, "%.3g %c%s", v, prefixes[i], unit);
  else
    snprintf(buf, TG__CELL_BYTES, "%.3g %s", v, unit);
}

static void int_text(const struct tg__column *c, int64_t v, char *buf) {
  if (strcmp(c->unit, "ns") == 0) {
    if (is_instant(c)) {
      instant_text(v, buf);
    } else {
      tg__human_ns(v, buf);
    }
  } else if (strcmp(c->unit, "bytes") == 0) {
    tg__human_bytes(v, buf);
  } else if (is_large_unit(c->unit)) {
    large_text((double)v, c->unit, buf);
  } else {
    snprintf(buf, TG__CELL_BYTES, "%lld", (long long)v);
  }
}

static void real_text(const struct tg__column *c, double v, char *buf) {
  const bool fits = fabs(v) < 9e18;
  if (fits && strcmp(c->unit, "ns") == 0) {
    tg__human_ns((int64_t)llround(v), buf);
  } else if (fits && strcmp(c->unit, "bytes") == 0) {
    tg__human_bytes((int64_t)llround(v), buf);
  } else if (is_large_unit(c->unit)) {
    large_text(v, c->unit, buf);
  } else if (strcmp(c->unit, "%") == 0) {
    snprintf(buf, TG__CELL_BYTES, "%.2f %%", v);
  } else if (v == floor(v) && fabs(v) < 1e15) {
    snprintf(buf, TG__CELL_BYTES, "%.0f", v);
  } else {
    snprintf(buf, TG__CELL_BYTES, "%.4g", v);
  }
}

bool tg__cell_is_known(const struct tg__column *c, size_t row) {
  switch (c->type) {
  case TG_INT:
    return c->ints[row] != TG_NULL_INT;
  case TG_REAL:
    return !isnan(c->reals[row]);
  case TG_BOOL:
    return c->bools[row] >= 0;
  default:
    return c->texts[row] != TG_NONE;
  }
}

struct tg__str tg__cell_text(const struct tg_table *t, const struct tg__column *c, size_t row, char *buf) {
  if (!tg__cell_is_known(c, row)) return TG_STR("-");
  switch (c->type) {
  case TG_INT:
    int_text(c, c->ints[row], buf);
    break;
  case TG_REAL:
    real_text(c, c->reals[row], buf);
    break;
  case TG_BOOL:
    return c->bools[row] ? TG_STR("yes") : TG_STR("no");
  default:
    return tg__strings_get(t->strings, c->texts[row]);
  }
  return (struct tg__str){buf, (uint32_t)strlen(buf)};
}

static bool cell_says_something(const struct tg_table *t, const struct tg__column *c, size_t row) {
  return tg__cell_is_known(c, row) && (c->type != TG_TEXT || tg__strings_get(t->strings, c->texts[row]).len);
}

static bool cell_is_zero(const struct tg__column *c, size_t row) {
  return !tg__cell_is_known(c, row) || (c->type == TG_INT && c->ints[row] == 0) ||
         (c->type == TG_REAL && c->reals[row] == 0);
}

/* Blanks in front of the name of a row in a tree. */
static unsigned indent_of(const struct tg_table *t, const struct tg__column *c, size_t row) {
  if (!t->is_tree || strcmp(c->name, "name") != 0) return 0;
  const size_t depth = tg__table_column_index(t, "depth");
  const int64_t levels = depth == SIZE_MAX ? 0 : t->columns[depth].ints[row];
  return levels <= 0 ? 0 : levels < INDENT_MOST / INDENT ? (unsigned)levels * INDENT : INDENT_MOST;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* A header is broken at underscores, so its column need only be as wide as its longest word with the underscore
 * behind it. */
static unsigned longest_word(const char *name) {
  unsigned best = 0, run = 0;
  for (const char *p = name; *p; p++) {
    run++;
    if (run > best) best = run;
    if (*p == '_') run = 0;
  }
  return best;
}

/* The part of a name that stands in one header line: as many words as fit. Moves *p behind it. */
static struct tg__str header_line(const char **p, unsigned width) {
  const char *const start = *p;
  const char *end = start;
  while (*end) {
    const char *word = end;
    while (*word && *word != '_') word++;
    if (*word) word++;
    if (end > start && (unsigned)(word - start) > width) break;
    end = word;
  }
  *p = end;
  return (struct tg__str){start, (uint32_t)(end - start)};
}

static unsigned count_lines(const char *name, unsigned width) {
  unsigned lines = 0;
  for (const char *p = name; *p; lines++) header_line(&p, width);
  return lines;
}

static void measure_text(const struct tg_table *t, struct col *cols) {
  for (size_t i = 0; i < t->column_count; i++) {
    struct col *col = &cols[i];
    col->c = &t->columns[i];
    col->header = longest_word(col->c->name);
    col->empty = t->rows > 0;
    col->zero = t->columns[i].unit[0] != '\0' && !is_instant(col->c);
    for (size_t row = 0; row < t->rows; row++) {
      char buf[TG__CELL_BYTES];
      const unsigned w = tg__text_width(tg__cell_text(t, col->c, row, buf)) + indent_of(t, col->c, row);
      if (w > col->width) col->width = w;
      if (col->empty && cell_says_something(t, col->c, row)) col->empty = false;
      if (col->zero && !cell_is_zero(col->c, row)) col->zero = false;
    }
    col->cells = col->width;
    col->idle = t->rows && col->zero && !col->empty && strstr(col->c->name, "device");
    for (col->lines2 = col->header; count_lines(col->c->name, col->lines2) > 2;) col->lines2++;
    if (col->lines2 > col->width) col->width = col->lines2;
  }
}

static unsigned total_width(const struct col *cols, size_t count) {
  unsigned total = 0;
  for (size_t i = 0; i < count; i++) total += is_shown(&cols[i]) ? cols[i].width + GAP : 0;
  return total > GAP ? total - GAP : 0;
}

static void find_answers(const struct tg_table *t, struct col *cols) {
  const struct tg__question *const q = t->question ? tg__catalog_find(&tg__catalog, t->question) : NULL;
  for (size_t i = 0; i < t->column_count; i++)
    cols[i].answers = !i || (q && tg__question_is_important(q, cols[i].c->name)) ||
                      (cols[i].c->type == TG_TEXT && cols[i].c->role == TG__ROLE_OUTCOME);
}

/* The column that is missed least: the last of those that do not answer, else the last. NULL: only one is left. */
static struct col *least_missed(struct col *cols, size_t count) {
  struct col *last = NULL, *least = NULL;
  size_t shown = 0;
  for (size_t i = 0; i < count; i++) {
    if (!is_shown(&cols[i])) continue;
    shown++;
    last = &cols[i];
    if (!cols[i].answers) least = &cols[i];
  }
  return shown < 2 ? NULL : least ? least : last;
}

static bool has_sentences(const struct col *col) {
  return col->c->type == TG_TEXT && col->c->role == TG__ROLE_OUTCOME && col->width >= SENTENCE_MIN;
}

/* Make the columns fit: first sentences go below the rows and quantities that are 0 everywhere go, then the widest text
 * columns are cut, then whole columns go, from the right, those that answer the question last. */
static void fit(struct col *cols, size_t count, unsigned width) {
  for (size_t i = 0; i < count; i++) cols[i].left_out = cols[i].idle;
  if (!width) return;
  for (size_t i = 0; i < count && total_width(cols, count) > width; i++) /* narrow heads take three lines */
    if (cols[i].width == cols[i].lines2)
      cols[i].width = cols[i].cells > cols[i].header ? cols[i].cells : cols[i].header;
  const bool is_tight = total_width(cols, count) > width;
  const unsigned name_min =
      width / 6 > NAME_MIN ? width / 6 : NAME_MIN; /* names that look alike are worth less than the last columns */
  for (size_t i = 0; i < count; i++) {
    cols[i].left_out |= is_tight && cols[i].zero && !cols[i].empty;
    cols[i].below = is_tight && has_sentences(&cols[i]);
  }
  for (unsigned total = total_width(cols, count); total > width; total = total_width(cols, count)) {
    struct col *widest = NULL;
    for (size_t i = 0; i < count; i++) {
      if (!is_shown(&cols[i]) || cols[i].c->type != TG_TEXT) continue;
      if (!widest || cols[i].width > widest->width) widest = &cols[i];
    }
    const unsigned least = widest && widest->header > name_min ? widest->header : name_min;
    if (widest && widest->width > least) {
      const unsigned excess = total - width, slack = widest->width - least;
      /* take from the widest only down to a little above the others, so that two long columns share the loss */
      const unsigned take = excess < slack ? excess : slack;
      widest->width -= take > 8 ? take / 2 : take;
    } else {
      struct col *const goes = least_missed(cols, count);
      if (!goes) break;
      goes->left_out = true;
    }
  }
}

static void put_aligned(struct tg__out *out, struct tg__str s, unsigned indent, const struct col *col, bool last) {
  const bool left = col->c->type == TG_TEXT;
  if (indent > col->width / 2) indent = col->width / 2; /* where the column was cut, the name keeps a part of it */
  const unsigned w = tg__text_width(s), room = col->width - indent;
  tg__put_blanks(out, indent);
  if (!left && w < room) tg__put_blanks(out, room - w);
  const unsigned used = tg__put_fitted(out, s, room);
  if (left && !last && used < room) tg__put_blanks(out, room - used);
  if (!last) tg__put_blanks(out, GAP);
}

static size_t last_shown(const struct col *cols, size_t count) {
  size_t last = 0;
  for (size_t i = 0; i < count; i++) {
    if (is_shown(&cols[i])) last = i;
  }
  return last;
}

static unsigned header_height(const struct col *cols, size_t count) {
  unsigned height = 1;
  for (size_t i = 0; i < count; i++) {
    if (!is_shown(&cols[i])) continue;
    const unsigned lines = count_lines(cols[i].c->name, cols[i].width);
    if (lines > height) height = lines;
  }
  return height < HEADER_LINES ? height : HEADER_LINES;
}

/* What stands in one line of a header that is `height` lines high. Short names stand at the bottom, next to their
 * numbers. */
static struct tg__str header_part(const struct col *col, unsigned height, unsigned line) {
  const unsigned lines = count_lines(col->c->name, col->width);
  const unsigned above = lines < height ? height - lines : 0;
  struct tg__str part = TG_STR("");
  const char *p = col->c->name;
  for (unsigned k = above; k <= line && *p; k++) part = header_line(&p, col->width);
  return line < above ? TG_STR("") : part;
}

static void put_header(struct tg__out *out, const struct col *cols, size_t count, bool color) {
  const unsigned height = header_height(cols, count);
  for (unsigned line = 0; line < height; line++) {
    size_t last = 0; /* no trailing blanks */
    for (size_t i = 0; i < count; i++) {
      if (is_shown(&cols[i]) && header_part(&cols[i], height, line).len) last = i;
    }
    if (color) tg__out_text(out, "\033[1m");
    for (size_t i = 0; i <= last && i < count; i++) {
      if (is_shown(&cols[i])) put_aligned(out, header_part(&cols[i], height, line), 0, &cols[i], i == last);
    }
    tg__out_text(out, color ? "\033[0m\n" : "\n");
  }
}

static void put_sentences(const struct tg_table *t, struct tg__out *out, const struct col *cols, size_t row,
                          unsigned width) {
  for (size_t i = 0; i < t->column_count; i++) {
    char buf[TG__CELL_BYTES];
    const unsigned indent = SENTENCE_INDENT + (unsigned)strlen(cols[i].c->name) + 2;
    if (!cols[i].below || !cell_says_something(t, cols[i].c, row)) continue;
    tg__put_blanks(out, SENTENCE_INDENT);
    tg__out_format(out, "%s: ", cols[i].c->name);
    tg__put_wrapped(out, tg__cell_text(t, cols[i].c, row, buf), indent, width > 2 * indent ? width - indent : indent,
                    SENTENCE_LINES);
  }
}

static void put_text_rows(const struct tg_table *t, struct tg__out *out, const struct col *cols, size_t count,
                          unsigned width) {
  const size_t last = last_shown(cols, count);
  for (size_t row = 0; row < t->rows; row++) {
    for (size_t i = 0; i < count; i++) {
      char buf[TG__CELL_BYTES];
      if (is_shown(&cols[i]))
        put_aligned(out, tg__cell_text(t, cols[i].c, row, buf), indent_of(t, cols[i].c, row), &cols[i], i == last);
    }
    tg__out_char(out, '\n');
    put_sentences(t, out, cols, row, width);
  }
}

/* A sentence below the rows, in lines of the width; 0: in one. Its first word stands out. */
static void put_line_below(struct tg__out *out, const struct tg__out *text, unsigned width) {
  enum { BEHIND_WORD = 6, ANY_LINES = 1000 };
  const struct tg__str s = {text->buf, (uint32_t)text->len};
  if (text->err) out->err = text->err;
  if (text->err || !s.len) return;
  if (width > 2 * BEHIND_WORD) {
    tg__put_wrapped(out, s, BEHIND_WORD, width - BEHIND_WORD, ANY_LINES);
  } else {
    tg__put_clean(out, s);
    tg__out_char(out, '\n');
  }
}

/* The names of columns that found no room; zeros: of those that are 0 everywhere, else of the others. */
static void put_left_out(struct tg__out *out, const struct col *cols, size_t count, bool zeros, unsigned width) {
  struct tg__out text = {0};
  const char *before = zeros ? "columns of zeros left out: " : "columns left out for lack of width: ";
  for (size_t i = 0; i < count; i++) {
    if (!cols[i].left_out || cols[i].zero != zeros) continue;
    tg__out_text(&text, before);
    tg__out_text(&text, cols[i].c->name);
    before = ", ";
  }
  if (*before == ',')
    tg__out_text(&text, zeros ? " (json and csv have them)" : " (a wider terminal, json or csv has them)");
  put_line_below(out, &text, width);
  tg__out_free(&text);
}

static void put_below(const struct tg_table *t, struct tg__out *out, unsigned width) {
  for (size_t i = 0; i < t->note_count; i++) {
    struct tg__out text = {0};
    tg__out_format(&text, "note: %s", t->notes[i]);
    put_line_below(out, &text, width);
    tg__out_free(&text);
  }
  for (size_t i = 0; i < t->loss_count; i++) {
    const struct tg__loss_row *l = &t->losses[i];
    struct tg__out text = {0};
    tg__out_format(&text, "loss: %s %lld", l->name, (long long)l->count);
    if (l->offset >= 0) tg__out_format(&text, ", first at byte %lld", (long long)l->offset);
    tg__out_format(&text, " (%s)", l->meaning);
    put_line_below(out, &text, width);
    tg__out_free(&text);
  }
}

enum tg_err tg__text_table(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out) {
  struct col *const cols = tg__alloc((t->column_count + 1) * sizeof *cols);
  const unsigned width = o ? o->width : 0;
  if (!cols) return TG_MEMORY;
  measure_text(t, cols);
  find_answers(t, cols);
  fit(cols, t->column_count, width);
  put_header(out, cols, t->column_count, o && o->color);
  put_text_rows(t, out, cols, t->column_count, width);
  if (t->rows == 0) tg__out_text(out, "(no rows)\n");
  put_left_out(out, cols, t->column_count, false, width);
  put_left_out(out, cols, t->column_count, true, width);
  put_below(t, out, width);
  tg__free(cols);
  return tg__out_flush(out);
}
