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

static void put_json_cell(const struct tg_table *t, const struct tg__column *c, size_t row, struct tg__out *out) {
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

static void put_json_rows(const struct tg_table *t, struct tg__out *out) {
  for (size_t row = 0; row < t->rows; row++) {
    tg__out_text(out, row ? ",\n[" : "\n[");
    for (size_t i = 0; i < t->column_count; i++) {
      if (i) tg__out_char(out, ',');
      put_json_cell(t, &t->columns[i], row, out);
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
  put_json_rows(t, out);
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

static void put_event_cell(const struct tg__event_cell *cell, struct tg__forms *forms, struct tg__buffer *buffer) {
  if (cell->kind == TG__CELL_ARGS) {
    if (!tg__put_args(forms, buffer, cell->string, TG_STR("")) && tg__buffer_room(buffer, 4))
      buffer->p = TG__BUFFER_LITERAL(buffer->p, "null");
    return;
  }
  const bool is_text = cell->kind == TG__CELL_STRING || cell->kind == TG__CELL_LETTER;
  const struct tg__str s = cell->kind == TG__CELL_STRING   ? tg__form_body(forms, cell->string, buffer->out)
                           : cell->kind == TG__CELL_LETTER ? (struct tg__str){&cell->letter, 1}
                           : cell->kind == TG__CELL_NONE   ? TG_STR("null")
                                                           : TG_STR("");
  if (!tg__buffer_room(buffer, (size_t)s.len + TG__NUMBER_BYTES)) return;
  if (is_text) *buffer->p++ = '"';
  buffer->p = tg__buffer_copy(buffer->p, s.ptr, s.len);
  if (cell->kind == TG__CELL_INT) buffer->p = tg__buffer_int(buffer->p, cell->number);
  if (is_text) *buffer->p++ = '"';
}

static void put_trace_losses(const struct tg__columns *t, const struct tg__ask *selection, struct tg__out *out) {
  bool any = false;
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    int64_t count = 0, offset = -1;
    for (uint32_t r = 0; r < t->rank_count; r++) {
      if (!tg__ask_has_rank(selection, r)) continue;
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
  struct tg__buffer buffer = {.out = out};
  for (uint32_t i = 0; i < count; i++) {
    struct tg__event_cell cells[TG__EVENT_COLUMNS];
    tg__event_row(t, events[i], cells);
    for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
      if (!tg__buffer_room(&buffer, 4)) return;
      if (c == 0) buffer.p = i ? TG__BUFFER_LITERAL(buffer.p, ",\n[") : TG__BUFFER_LITERAL(buffer.p, "\n[");
      if (c) *buffer.p++ = ',';
      put_event_cell(&cells[c], forms, &buffer);
    }
    if (!tg__buffer_room(&buffer, 1)) return;
    *buffer.p++ = ']';
  }
  tg__buffer_commit(&buffer);
}

enum tg_err tg__json_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                           struct tg_error *e) {
  uint32_t count = 0;
  struct tg__ask selection;
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
  tg__out_text(out, "{\"question\":\"events\",\n\"columns\":[");
  for (int c = 0; c < TG__EVENT_COLUMNS; c++) {
    if (c) tg__out_char(out, ',');
    put_column(out, tg__event_columns[c].name, tg__event_columns[c].type, tg__event_columns[c].unit);
  }
  tg__out_text(out, "],\n\"rows\":[");
  put_event_rows(t, events, count, forms, out);
  tg__out_text(out, "],\n\"notes\":[],\n\"losses\":[");
  put_trace_losses(t, &selection, out);
  tg__out_text(out, "]}\n");
  err = tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__free(events);
  tg__forms_free(forms);
  return err;
}
