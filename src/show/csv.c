/* Comma-separated values as RFC 4180 has them: CRLF, quotes where needed. A text cell that a spreadsheet would run
 * as a formula (it begins with = + - @, tab or carriage return) gets an apostrophe in front; formulas=keep leaves it
 * out. Numbers never get one. Unknown is an empty cell, an empty text is "". CSV has no escapes: what is not UTF-8
 * or would steer a terminal becomes U+FFFD, but for tabs and line ends. */
#include "show/argsjson.h"
#include "show/eventrow.h"

static bool keeps_formulas(const struct tg__show_options *o) {
  const char *choice = tg__show_arg(o, "formulas");
  return choice && strcmp(choice, "keep") == 0;
}

static bool is_formula(struct tg__str s) { return s.len && s.ptr[0] && strchr("=+-@\t\r", s.ptr[0]) != NULL; }

static bool needs_quotes(struct tg__str s) {
  if (s.len == 0) return true;
  for (uint32_t i = 0; i < s.len; i++) {
    const char c = s.ptr[i];
    if (c == '"' || c == ',' || c == '\n' || c == '\r') return true;
  }
  return s.ptr[0] == ' ' || s.ptr[s.len - 1] == ' ';
}

static bool is_plain(unsigned char c) {
  return (c >= 0x20 && c < 0x7f && c != '"') || c == '\t' || c == '\n' || c == '\r';
}

static void put_body(struct tg__out *out, struct tg__str s) {
  const unsigned char *const p = (const unsigned char *)s.ptr;
  for (size_t i = 0; i < s.len;) {
    size_t n = 0;
    while (i + n < s.len && is_plain(p[i + n])) n++;
    if (n) {
      tg__out_bytes(out, p + i, n);
    } else if (p[i] == '"') {
      tg__out_text(out, "\"\"");
      n = 1;
    } else {
      const unsigned len = tg__utf8_length(p + i, s.len - i);
      if (len && !tg__utf8_is_unsafe(p + i, len))
        tg__out_bytes(out, p + i, len);
      else
        tg__out_text(out, "\xef\xbf\xbd");
      n = len ? len : 1;
    }
    i += n;
  }
}

static void put_csv_field(struct tg__out *out, struct tg__str s, bool keep) {
  const bool quoted = needs_quotes(s), guarded = !keep && is_formula(s);
  if (quoted) tg__out_char(out, '"');
  if (guarded) tg__out_char(out, '\'');
  put_body(out, s);
  if (quoted) tg__out_char(out, '"');
}

static void put_csv_cell(const struct tg_table *t, const struct tg__column *c, size_t row, struct tg__out *out,
                         bool keep) {
  switch (c->type) {
  case TG_INT:
    if (c->ints[row] != TG_NULL_INT) tg__out_int(out, c->ints[row]);
    break;
  case TG_REAL:
    if (c->reals[row] == c->reals[row]) tg__out_double(out, c->reals[row]);
    break;
  case TG_BOOL:
    if (c->bools[row] >= 0) tg__out_text(out, c->bools[row] ? "true" : "false");
    break;
  default:
    if (c->texts[row] != TG_NONE) put_csv_field(out, tg__strings_get(t->strings, c->texts[row]), keep);
  }
}

enum tg_err tg__csv_table(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out) {
  const bool keep = keeps_formulas(o);
  for (size_t i = 0; i < t->column_count; i++) {
    if (i) tg__out_char(out, ',');
    put_csv_field(out, (struct tg__str){t->columns[i].name, (uint32_t)strlen(t->columns[i].name)}, keep);
  }
  tg__out_text(out, "\r\n");
  for (size_t row = 0; row < t->rows; row++) {
    for (size_t i = 0; i < t->column_count; i++) {
      if (i) tg__out_char(out, ',');
      put_csv_cell(t, &t->columns[i], row, out, keep);
    }
    tg__out_text(out, "\r\n");
  }
  return tg__out_flush(out);
}

/* ---- a trace --------------------------------------------------------------------------------- */

static void put_event_cell(const struct tg__columns *t, const struct tg__event_cell *cell, struct tg__forms *forms,
                           struct tg__out *args, struct tg__out *out, bool keep) {
  switch (cell->kind) {
  case TG__CELL_NONE:
    break;
  case TG__CELL_INT:
    tg__out_int(out, cell->number);
    break;
  case TG__CELL_STRING:
    put_csv_field(out, tg__name(t, cell->string), keep);
    break;
  case TG__CELL_LETTER:
    put_csv_field(out, (struct tg__str){&cell->letter, 1}, keep);
    break;
  case TG__CELL_ARGS: {
    struct tg__buffer buffer = {.out = args};
    args->len = 0;
    const bool any = tg__put_args(forms, &buffer, cell->string, TG_STR(""));
    tg__buffer_commit(&buffer);
    if (any) put_csv_field(out, (struct tg__str){args->buf, (uint32_t)args->len}, keep);
  }
  }
}

enum tg_err tg__csv_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                          struct tg_error *e) {
  const bool keep = keeps_formulas(o);
  uint32_t count = 0;
  struct tg__ask selection;
  struct tg__out args = {0};
  struct tg__forms *forms = NULL;
  struct tg__event *events = NULL;
  enum tg_err err = tg__show_begin(t, o, TG__COL_ALL, &selection, e);
  if (err) goto done;
  forms = tg__forms_new(t);
  events = tg__walk_new(t, &selection, &count);
  if (!forms || !events) {
    err = tg__no_memory(e, "writing %u events", count);
    goto done;
  }
  for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
    if (c) tg__out_char(out, ',');
    tg__out_text(out, tg__event_columns[c].name);
  }
  tg__out_text(out, "\r\n");
  for (uint32_t i = 0; i < count && out->err == TG_OK; i++) {
    struct tg__event_cell cells[TG__EVENT_COLUMNS];
    tg__event_row(t, events[i], cells);
    for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
      if (c) tg__out_char(out, ',');
      put_event_cell(t, &cells[c], forms, &args, out, keep);
    }
    tg__out_text(out, "\r\n");
  }
  if (args.err && !out->err) out->err = args.err;
  err = tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__out_free(&args);
  tg__free(events);
  tg__forms_free(forms);
  return err;
}
