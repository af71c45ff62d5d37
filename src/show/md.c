/* Markdown as GitHub reads it: tables of answers, and the text in them. Names stand in code spans, numbers with units
 * to the right, sentences with every character escaped that Markdown would take for more than text. */
#include "show/parts.h"

enum { NAME_BYTES = 400 }; /* of a kernel's name; GitHub shows no wider a column */

void tg__put_md(struct tg__out *out, struct tg__str s) {
  static const char taken[] = "<*`|[";
  uint32_t from = 0;
  for (uint32_t i = 0; i < s.len; i++) {
    if (!s.ptr[i] || !strchr(taken, s.ptr[i])) continue;
    tg__put_clean(out, (struct tg__str){s.ptr + from, i - from});
    tg__out_char(out, '\\');
    tg__out_char(out, s.ptr[i]);
    from = i + 1;
  }
  tg__put_clean(out, (struct tg__str){s.ptr + from, s.len - from});
}

void tg__put_md_code(struct tg__out *out, struct tg__str s, size_t most) {
  tg__out_char(out, '`');
  size_t i = 0;
  while (i < s.len && i < most) {
    const unsigned n = tg__utf8_length((const unsigned char *)s.ptr + i, s.len - i);
    const char c = s.ptr[i];
    if (c == '|')
      tg__out_text(out, "\\|");
    else if (c == '`')
      tg__out_char(out, '\'');
    else
      tg__put_clean(out, (struct tg__str){s.ptr + i, n ? n : 1});
    i += n ? n : 1;
  }
  tg__out_text(out, i < s.len ? "…`" : "`");
}

/* A column in which no row has a value is left out, as in text. */
static bool has_values(const struct tg_table *t, const struct tg__column *c) {
  for (size_t row = 0; row < t->rows; row++)
    if (tg__cell_is_known(c, row)) return true;
  return t->rows == 0;
}

static void put_cell(const struct tg_table *t, const struct tg__column *c, size_t row, struct tg__out *out) {
  char buf[TG__CELL_BYTES];
  const struct tg__str text = tg__cell_text(t, c, row, buf);
  const bool is_name = c->type == TG_TEXT && c->role != TG__ROLE_OUTCOME;
  if (is_name && text.len && tg__cell_is_known(c, row))
    tg__put_md_code(out, text, NAME_BYTES);
  else
    tg__put_md(out, text);
}

enum tg_err tg__md_table(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out) {
  (void)o;
  for (int line = 0; line < 2; line++) {
    for (size_t i = 0; i < t->column_count; i++) {
      if (!has_values(t, &t->columns[i])) continue;
      tg__out_format(out, "| %s ", line == 0 ? t->columns[i].name : t->columns[i].type == TG_TEXT ? "---" : "---:");
    }
    tg__out_text(out, "|\n");
  }
  for (size_t row = 0; row < t->rows; row++) {
    for (size_t i = 0; i < t->column_count; i++) {
      if (!has_values(t, &t->columns[i])) continue;
      tg__out_text(out, "| ");
      put_cell(t, &t->columns[i], row, out);
      tg__out_char(out, ' ');
    }
    tg__out_text(out, "|\n");
  }
  if (t->note_count || t->loss_count) tg__out_char(out, '\n');
  for (size_t i = 0; i < t->note_count; i++) {
    tg__out_text(out, "- ");
    tg__put_md(out, (struct tg__str){t->notes[i], (uint32_t)strlen(t->notes[i])});
    tg__out_char(out, '\n');
  }
  for (size_t i = 0; i < t->loss_count; i++)
    tg__out_format(out, "- loss: %s %lld (%s)\n", t->losses[i].name, (long long)t->losses[i].count,
                   t->losses[i].meaning);
  return tg__out_flush(out);
}
