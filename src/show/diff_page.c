/* A diff for a person: the headline, then what changed most of each kind; as text for a terminal, or as Markdown for
 * a pull request. Every figure stands in the table it is made from. */
#include <math.h>

#include "show/parts.h"

enum { MOST_ROWS = 8, NAME_COLUMNS = 44, CELL = 64, CODE_BYTES = 160 };

struct page {
  const struct tg_table *t;
  const struct tg__column *by, *name, *quantity, *unit, *a, *b, *low, *high, *verdict;
  struct tg__out *out;
  bool markdown, color;
};

static bool find_columns(struct page *p) {
  static const char *const names[] = {"by", "name", "quantity", "unit", "a", "b", "low", "high", "verdict"};
  const struct tg__column **const into[] = {&p->by, &p->name, &p->quantity, &p->unit,   &p->a,
                                            &p->b,  &p->low,  &p->high,     &p->verdict};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t c = tg__table_column_index(p->t, names[i]);
    if (c == SIZE_MAX) return false;
    *into[i] = &p->t->columns[c];
  }
  return true;
}

static struct tg__str diff_page_cell(const struct page *p, const struct tg__column *c, size_t row) {
  return c->texts[row] == TG_NONE ? TG_STR("") : tg__strings_get(p->t->strings, c->texts[row]);
}

static bool is(const struct page *p, const struct tg__column *c, size_t row, const char *word) {
  return tg__str_eq(diff_page_cell(p, c, row), (struct tg__str){word, (uint32_t)strlen(word)});
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void write_figure(const struct page *p, size_t row, double v, bool sign, char out[CELL]) {
  char text[32];
  if (is(p, p->unit, row, "ns"))
    tg__human_ns(llround(v), text);
  else if (is(p, p->unit, row, "bytes"))
    tg__human_bytes(llround(v), text);
  else
    snprintf(text, sizeof text, "%.4g", v);
  snprintf(out, CELL, "%s%s", sign && v > 0 ? "+" : "", text);
}

static void write_change(const struct page *p, size_t row, char out[CELL]) {
  const double a = p->a->reals[row], delta = p->b->reals[row] - a;
  char text[CELL];
  write_figure(p, row, delta, true, text);
  if (a != 0)
    snprintf(out, CELL, "%.32s (%+.1f %%)", text, 100 * delta / fabs(a));
  else
    snprintf(out, CELL, "%.32s", text);
}

static void write_interval(const struct page *p, size_t row, char out[CELL]) {
  char low[CELL], high[CELL];
  out[0] = 0;
  if (isnan(p->low->reals[row])) return;
  write_figure(p, row, p->low->reals[row], true, low);
  write_figure(p, row, p->high->reals[row], true, high);
  snprintf(out, CELL, "%.28s … %.28s", low, high);
}

static void put_right(struct tg__out *out, const char *text, unsigned width) {
  const struct tg__str s = {text, (uint32_t)strlen(text)};
  const unsigned used = tg__text_width(s);
  tg__put_blanks(out, used < width ? width - used : 0);
  tg__out_bytes(out, s.ptr, s.len);
}

static const char *paint(const struct page *p, size_t row) {
  if (!p->color) return "";
  const bool good =
      is(p, p->verdict, row, "faster") || is(p, p->verdict, row, "fewer") || is(p, p->verdict, row, "removed");
  const bool bad =
      is(p, p->verdict, row, "slower") || is(p, p->verdict, row, "more") || is(p, p->verdict, row, "added");
  return good ? "\033[32m" : bad ? "\033[31m" : "";
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_diff_page_row(const struct page *p, size_t row, struct tg__str label, bool show_quantity) {
  char a[CELL], b[CELL], change[CELL], interval[CELL];
  write_figure(p, row, p->a->reals[row], false, a);
  write_figure(p, row, p->b->reals[row], false, b);
  write_change(p, row, change);
  write_interval(p, row, interval);
  const struct tg__str verdict = diff_page_cell(p, p->verdict, row),
                       quantity = show_quantity ? diff_page_cell(p, p->quantity, row) : TG_STR("");
  if (p->markdown) {
    tg__out_text(p->out, "| ");
    tg__put_md_code(p->out, label, CODE_BYTES);
    tg__out_format(p->out, "%s%.*s | %s | %s | %s | %s | %.*s |\n", quantity.len ? " " : "", (int)quantity.len,
                   quantity.ptr, a, b, change, interval, (int)verdict.len, verdict.ptr);
    return;
  }
  tg__put_blanks(p->out, 2);
  tg__put_blanks(p->out, NAME_COLUMNS - tg__put_fitted(p->out, label, NAME_COLUMNS));
  tg__out_format(p->out, " %-11.*s", (int)quantity.len, quantity.ptr);
  put_right(p->out, a, 10);
  put_right(p->out, b, 11);
  put_right(p->out, change, 23);
  put_right(p->out, interval, 25);
  const char *color = paint(p, row);
  tg__out_format(p->out, "  %s%.*s%s\n", color, (int)verdict.len, verdict.ptr, *color ? "\033[0m" : "");
}

static void put_diff_page_head(const struct page *p, const char *title) {
  if (p->markdown) {
    tg__out_format(p->out, "\n**%s**\n\n| | A | B | change | 95 %% | |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
                   title);
    return;
  }
  tg__out_char(p->out, '\n');
  tg__out_text(p->out, title);
  const unsigned used = tg__text_width((struct tg__str){title, (uint32_t)strlen(title)});
  tg__put_blanks(p->out, used < 2 + NAME_COLUMNS + 12 ? 2 + NAME_COLUMNS + 12 - used : 1);
  put_right(p->out, "A", 10);
  put_right(p->out, "B", 11);
  put_right(p->out, "change", 23);
  put_right(p->out, "95 % of the change", 25);
  tg__out_char(p->out, '\n');
}

static bool is_unchanged(const struct page *p, size_t row) {
  return is(p, p->verdict, row, "no difference") || is(p, p->verdict, row, "too few steps") ||
         is(p, p->verdict, row, "withheld");
}

struct section {
  const char *by, *title, *one, *many;
  const char *quantities[2]; /* that are shown; NULL = all */
  bool all;                  /* rows without difference, too */
  bool named;                /* the name is the label, not the quantity */
};

static bool shows(const struct page *p, const struct section *s, size_t row) {
  if (!is(p, p->by, row, s->by)) return false;
  if (!s->quantities[0]) return true;
  for (int i = 0; i < 2; i++)
    if (s->quantities[i] && is(p, p->quantity, row, s->quantities[i])) return true;
  return false;
}

static void put_rest(const struct page *p, const struct section *s, size_t changed, size_t shown, size_t quiet) {
  if (!quiet && changed <= shown) return;
  if (p->markdown)
    tg__out_char(p->out, '\n');
  else
    tg__put_blanks(p->out, 2);
  if (changed > shown) tg__out_format(p->out, "%zu more changed%s", changed - shown, quiet ? "; " : "");
  if (quiet) tg__out_format(p->out, "%zu %s without difference", quiet, quiet == 1 ? s->one : s->many);
  tg__out_char(p->out, '\n');
}

/* Without enough steps or like conditions nothing is judged; then the largest changes are shown as they are. */
static void put_section(const struct page *p, const struct section *s) {
  size_t changed = 0, quiet = 0, shown = 0;
  bool judged = false;
  for (size_t i = 0; i < p->t->rows; i++) {
    if (!shows(p, s, i)) continue;
    if (is_unchanged(p, i))
      quiet++;
    else
      changed++;
    judged |= !is(p, p->verdict, i, "too few steps") && !is(p, p->verdict, i, "withheld");
  }
  if (!changed && !quiet) return;
  const bool all = s->all || !judged;
  if (all || changed)
    put_diff_page_head(p, s->title);
  else if (p->markdown)
    tg__out_format(p->out, "\n**%s**\n", s->title);
  else
    tg__out_format(p->out, "\n%s\n", s->title);
  for (size_t i = 0; i < p->t->rows && (s->all || shown < MOST_ROWS); i++) {
    if (!shows(p, s, i) || (!all && is_unchanged(p, i))) continue;
    put_diff_page_row(p, i, diff_page_cell(p, s->named ? p->name : p->quantity, i), s->named);
    shown++;
  }
  if (judged && !s->all) put_rest(p, s, changed, shown, quiet);
}

static void put_note(const struct page *p, const char *note) {
  const struct tg__str text = {note, (uint32_t)strlen(note)};
  if (p->markdown)
    tg__put_md(p->out, text);
  else
    tg__put_clean(p->out, text);
}

static void put_diff_page_notes(const struct page *p) {
  if (p->t->note_count) {
    tg__out_text(p->out, p->markdown ? "### " : p->color ? "\033[1m" : "");
    put_note(p, p->t->notes[0]);
    tg__out_text(p->out, p->color ? "\033[0m\n" : "\n");
  }
  if (p->markdown) tg__out_char(p->out, '\n');
  for (size_t i = 1; i < p->t->note_count; i++) {
    tg__out_text(p->out, p->markdown ? "- " : "");
    put_note(p, p->t->notes[i]);
    tg__out_char(p->out, '\n');
  }
}

bool tg__diff_is_page(const struct tg_table *t) {
  struct page p = {.t = t};
  return find_columns(&p);
}

enum tg_err tg__diff_page(const struct tg_table *t, const struct tg__show_options *o, bool markdown,
                          struct tg__out *out) {
  static const struct section sections[] = {
      {"step", "A step", "figure", "figures", {NULL}, true, false},
      {"category", "Where the time of a step goes", "part", "parts", {NULL}, true, true},
      {"op",
       "Operators, own host and device time a step",
       "figure",
       "figures",
       {"self_cpu", "self_device"},
       false,
       true},
      {"op", "Calls of operators a step", "operator", "operators", {"calls"}, false, true},
      {"module", "Modules, inclusive host and device time a step", "figure", "figures", {"cpu", "device"}, false, true},
      {"kernel", "Kernels, device time a step", "kernel", "kernels", {"device"}, false, true},
      {"family", "Kernel families, device time a step", "family", "families", {"device"}, false, true},
      {"memory", "Memory, highest peak", "device", "devices", {NULL}, true, true},
  };
  struct page p = {.t = t, .out = out, .markdown = markdown, .color = o->color && !markdown};
  if (!find_columns(&p)) return TG_USAGE;
  bool kernels = false, families = false;
  for (size_t i = 0; i < t->rows; i++) {
    kernels |= is(&p, p.by, i, "kernel");
    families |= is(&p, p.by, i, "family");
  }
  put_diff_page_notes(&p);
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    if (kernels && families && strcmp(sections[i].by, "kernel") == 0)
      continue; /* families say the same in fewer rows */
    put_section(&p, &sections[i]);
  }
  return out->err;
}

void tg__diff_explain(struct tg__out *out) {
  static const struct {
    const char *column, *meaning;
  } columns[] = {
#define DIFF_ARGUMENT(name, fallback, meaning)
#define DIFF_COLUMN(name, type, unit, meaning) {#name, meaning},
#include "analyze/diff/diff.def"
  };
  tg__out_char(out, '\n');
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    tg__out_format(out, "- %s: %s\n", columns[i].column, columns[i].meaning);
}
