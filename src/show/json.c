/* A table as one JSON object; the events of a trace as the rows of such a table. docs/cli.md describes the object. */
#include "show/argsjson.h"
#include "show/eventrow.h"

static const char *type_name(enum tg_type type) {
  switch (type) {
  case TG_INT:
    return "int";
  case TG_REAL:
    return "real";
  case TG_BOOL:
    return "bool";
  default:
    return "text";
  }
}

static void put_str(struct tg__out *out, struct tg__str s) {
  tg__out_char(out, '"');
  tg__json_body(out, s);
  tg__out_char(out, '"');
}

static void put_cstr(struct tg__out *out, const char *s) { put_str(out, (struct tg__str){s, (uint32_t)strlen(s)}); }

static void put_column(struct tg__out *out, const char *name, const char *type, const char *unit) {
  tg__out_text(out, "{\"name\":");
  put_cstr(out, name);
  tg__out_text(out, ",\"type\":");
  put_cstr(out, type);
  tg__out_text(out, ",\"unit\":");
  put_cstr(out, unit);
  tg__out_char(out, '}');
}

static void put_cell(const struct tg_table *t, const struct tg__column *c, size_t row, struct tg__out *out) {
  switch (c->type) {
  case TG_INT:
    if (c->ints[row] == TG_NULL_INT) break;
    tg__out_int(out, c->ints[row]);
    return;
  case TG_REAL:
    tg__out_double(out, c->reals[row]);
    return; /* NaN is written as null */
  case TG_BOOL:
    if (c->bools[row] < 0) break;
    tg__out_text(out, c->bools[row] ? "true" : "false");
    return;
  default:
    if (c->texts[row] == TG_NONE) break;
    put_str(out, tg__strings_get(t->strings, c->texts[row]));
    return;
  }
  tg__out_text(out, "null");
}

static void put_loss(struct tg__out *out, const char *name, int64_t count, int64_t offset, const char *meaning) {
  tg__out_text(out, "{\"name\":");
  put_cstr(out, name);
  tg__out_format(out, ",\"count\":%lld,\"offset\":", (long long)count);
  if (offset >= 0) {
    tg__out_int(out, offset);
  } else {
    tg__out_text(out, "null");
  }
  tg__out_text(out, ",\"meaning\":");
  put_cstr(out, meaning);
  tg__out_char(out, '}');
}

static void put_rows(const struct tg_table *t, struct tg__out *out) {
  for (size_t row = 0; row < t->rows; row++) {
    tg__out_text(out, row ? ",\n[" : "\n[");
    for (size_t i = 0; i < t->column_count; i++) {
      if (i) tg__out_char(out, ',');
      put_cell(t, &t->columns[i], row, out);
    }
    tg__out_char(out, ']');
  }
}

enum tg_err tg__json_table(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out) {
  tg__out_text(out, "{\"question\":");
  put_cstr(out, t->question);
  tg__out_text(out, ",\n\"columns\":[");
  for (size_t i = 0; i < t->column_count; i++) {
    if (i) tg__out_char(out, ',');
    put_column(out, t->columns[i].name, type_name(t->columns[i].type), t->columns[i].unit);
  }
  tg__out_text(out, "],\n\"rows\":[");
  put_rows(t, out);
  tg__out_text(out, "],\n\"notes\":[");
  for (size_t i = 0; i < t->note_count; i++) {
    if (i) tg__out_char(out, ',');
    put_cstr(out, t->notes[i]);
  }
  tg__out_text(out, "],\n\"losses\":[");
  for (size_t i = 0; i < t->loss_count; i++) {
    if (i) tg__out_char(out, ',');
    put_loss(out, t->losses[i].name, t->losses[i].count, t->losses[i].offset, t->losses[i].meaning);
  }
  tg__out_text(out, "]}\n");
  return tg__out_flush(out);
}

/* ---- a trace --------------------------------------------------------------------------------- */

static void put_event_cell(const struct tg__event_cell *cell, struct tg__forms *forms, struct tg__pen *pen) {
  if (cell->kind == TG__CELL_ARGS) {
    if (!tg__put_args(forms, pen, cell->string, TG_STR("")) && tg__pen_room(pen, 4))
      pen->p = TG__PEN_LITERAL(pen->p, "null");
    return;
  }
  const bool is_text = cell->kind == TG__CELL_STRING || cell->kind == TG__CELL_LETTER;
  const struct tg__str s = cell->kind == TG__CELL_STRING   ? tg__form_body(forms, cell->string, pen->out)
                           : cell->kind == TG__CELL_LETTER ? (struct tg__str){&cell->letter, 1}
                           : cell->kind == TG__CELL_NONE   ? TG_STR("null")
                                                           : TG_STR("");
  if (!tg__pen_room(pen, (size_t)s.len + TG__PEN_NUMBER)) return;
  if (is_text) *pen->p++ = '"';
  pen->p = tg__pen_copy(pen->p, s.ptr, s.len);
  if (cell->kind == TG__CELL_INT) pen->p = tg__pen_int(pen->p, cell->number);
  if (is_text) *pen->p++ = '"';
}

static void put_trace_losses(const struct tg__columns *t, const struct tg__ask *pick, struct tg__out *out) {
  bool any = false;
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    int64_t count = 0, offset = -1;
    for (uint32_t r = 0; r < t->rank_count; r++) {
      if (!tg__ask_has_rank(pick, r)) continue;
      count += t->ranks[r].loss[k];
      if (offset < 0) offset = t->ranks[r].loss_offset[k];
    }
    if (!count) continue;
    if (any) tg__out_char(out, ',');
    put_loss(out, tg__loss_info[k].name, count, offset, tg__loss_info[k].meaning);
    any = true;
  }
}

static void put_event_rows(const struct tg__columns *t, const struct tg__event *events, uint32_t count,
                           struct tg__forms *forms, struct tg__out *out) {
  struct tg__pen pen = {.out = out};
  for (uint32_t i = 0; i < count; i++) {
    struct tg__event_cell cells[TG__EVENT_COLUMNS];
    tg__event_row(t, events[i], cells);
    for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
      if (!tg__pen_room(&pen, 4)) return;
      if (c == 0) pen.p = i ? TG__PEN_LITERAL(pen.p, ",\n[") : TG__PEN_LITERAL(pen.p, "\n[");
      if (c) *pen.p++ = ',';
      put_event_cell(&cells[c], forms, &pen);
    }
    if (!tg__pen_room(&pen, 1)) return;
    *pen.p++ = ']';
  }
  tg__pen_lift(&pen);
}

enum tg_err tg__json_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                           struct tg_error *e) {
  uint32_t count = 0;
  struct tg__ask pick;
  struct tg__forms *forms = NULL;
  struct tg__event *events = NULL;
  enum tg_err err = tg__show_begin(t, o, TG__COL_ALL, &pick, e);
  if (err) goto done;
  forms = tg__forms_new(t);
  events = tg__walk_new(t, &pick, &count);
  if (!forms || !events) {
    err = tg__fail(e, TG_MEMORY, -1, "out of memory while writing %u events", count);
    goto done;
  }
  tg__out_text(out, "{\"question\":\"events\",\n\"columns\":[");
  for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
    if (c) tg__out_char(out, ',');
    put_column(out, tg__event_columns[c].name, tg__event_columns[c].type, tg__event_columns[c].unit);
  }
  tg__out_text(out, "],\n\"rows\":[");
  put_event_rows(t, events, count, forms, out);
  tg__out_text(out, "],\n\"notes\":[],\n\"losses\":[");
  put_trace_losses(t, &pick, out);
  tg__out_text(out, "]}\n");
  err = tg__show_end(out, e);
done:
  tg__ask_end(&pick);
  tg__free(events);
  tg__forms_free(forms);
  return err;
}
