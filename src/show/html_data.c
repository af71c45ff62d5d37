/* html_data: what the page without a server holds: the same objects as docs/viewer-api.md has, and the slices. */
#include <stdio.h>

#include "show/html.h"

/* ---- which slices ---------------------------------------------------------------------------- */

static bool has_slice(const struct tg__html_part *p, uint32_t row, uint32_t slice) {
  const struct tg__columns *const t = p->view->trace;
  const uint32_t track = p->view->rows[row].track;
  if (!tg__ask_has_slice(p->selection, t, track, slice)) return false;
  return t->slices.start_ns[slice] + tg__view_shift(p->view, t->tracks[track].rank) < p->end_ns;
}

uint32_t tg__html_count_row(const struct tg__html_part *p, uint32_t row) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->view->rows[row].count; i++) count += has_slice(p, row, tg__view_slice(p->view, row, i));
  return count;
}

/* ---- #tg-slices ------------------------------------------------------------------------------ */

enum { STARTS, DURS, NAMES, CLASSES, FLAGS, PARTS };

static void put_varint(struct tg__out *o, uint64_t v) {
  for (; v >= 128; v >>= 7) tg__out_char(o, (char)(v | 128));
  tg__out_char(o, (char)v);
}

static uint32_t put_row(const struct tg__html_part *p, uint32_t row, struct tg__slice_classes *classes,
                        struct tg__out *parts) {
  const struct tg__columns *const t = p->view->trace;
  const int64_t shift = tg__view_shift(p->view, t->tracks[p->view->rows[row].track].rank);
  int64_t end = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->view->rows[row].count; i++) {
    const uint32_t slice = tg__view_slice(p->view, row, i);
    if (!has_slice(p, row, slice)) continue;
    const int64_t start = t->slices.start_ns[slice] + shift;
    put_varint(&parts[STARTS], (uint64_t)(start - end)); /* a row's slices are disjoint */
    put_varint(&parts[DURS], (uint64_t)t->slices.dur_ns[slice]);
    put_varint(&parts[NAMES], t->slices.name[slice]);
    tg__out_char(&parts[CLASSES], (char)tg__slice_class_of(classes, slice));
    tg__out_char(&parts[FLAGS], (char)((t->slices.flags[slice] & TG__F_UNCLOSED ? TG__TILE_OPEN : 0) |
                                       (t->slices.cause[slice] != TG_NONE ? TG__TILE_CAUSED : 0)));
    end = start + t->slices.dur_ns[slice];
    count++;
  }
  return count;
}

uint32_t tg__html_slices(const struct tg__html_part *p, struct tg__out *out) {
  struct tg__slice_classes classes;
  struct tg__out parts[PARTS] = {0};
  uint32_t count = 0;
  if (!tg__slice_classes_open(&classes, p->view->trace)) {
    out->err = TG_MEMORY;
    return 0;
  }
  for (uint32_t row = 0; row < p->view->row_count; row++) count += put_row(p, row, &classes, parts);
  tg__slice_classes_close(&classes);
  for (unsigned k = 0; k < PARTS; k++) {
    const uint32_t bytes = (uint32_t)parts[k].len;
    tg__out_bytes(out, &bytes, 4); /* little endian, as every machine that this runs on */
    if (bytes) tg__out_bytes(out, parts[k].buf, bytes);
    if (parts[k].err) out->err = parts[k].err;
    tg__out_free(&parts[k]);
  }
  return count;
}

/* ---- #tg-meta -------------------------------------------------------------------------------- */

/* As keyOf of offline.js writes it: ["question",[["argument","value"]]], itself a string. */
static void put_key(const char *question, const struct tg_arg *args, size_t count, struct tg__jsonw *w) {
  char key[160];
  size_t len = (size_t)snprintf(key, sizeof key, "[\"%s\",[", question);
  for (size_t i = 0; i < count; i++)
    len +=
        (size_t)snprintf(key + len, sizeof key - len, "%s[\"%s\",\"%s\"]", i ? "," : "", args[i].name, args[i].value);
  snprintf(key + len, sizeof key - len, "]]");
  tg__json_key(w, key);
}

static void put_answer(struct tg__columns *t, const char *question, const struct tg_arg *args, size_t count,
                       struct tg__jsonw *w) {
  struct tg_table *table = NULL;
  struct tg_error e = {0};
  const struct tg__show_options plain = {0};
  const enum tg_err err = tg__ask_trace(&(struct tg_trace){.columns = t}, question, args, count, &table, &e);
  struct tg__out text = {0};
  if (!err && !tg__json_table(table, &plain, &text)) {
    tg__json_raw(w, (struct tg__str){text.buf, (uint32_t)text.len});
  } else {
    tg__json_open(w, '{');
    tg__json_key(w, "error");
    tg__json_open(w, '{');
    tg__json_key(w, "code");
    tg__json_cstr(w, err == TG_NO_DATA ? "no_data" : "internal");
    tg__json_key(w, "text");
    tg__json_cstr(w, e.text);
    tg__json_close(w, '}');
    tg__json_close(w, '}');
  }
  tg__out_free(&text);
  tg__table_free(table);
}

static void put_answers(struct tg__columns *t, struct tg__jsonw *w) {
  tg__json_key(w, "answers");
  tg__json_open(w, '{');
  for (size_t i = 0; i < TG__PAGE_ANSWERS; i++) {
    const char *const question = tg__page_answers[i].question->name;
    const struct tg_arg *const args = tg__page_answers[i].args;
    const size_t count = *args[1].name ? 2 : *args[0].name ? 1 : 0;
    put_key(question, args, count, w);
    put_answer(t, question, args, count, w);
  }
  tg__json_close(w, '}');
}

static void put_texts(const struct tg__html_part *p, struct tg__jsonw *w) {
  const uint32_t count = tg__strings_count(p->view->trace->strings);
  struct tg__slice_classes classes;
  uint8_t *const used = tg__alloc(count + 1);
  if (!used || !tg__slice_classes_open(&classes, p->view->trace)) {
    w->out->err = TG_MEMORY;
    tg__free(used);
    return;
  }
  for (uint32_t i = 0; i < p->view->trace->slices.count; i++) used[p->view->trace->slices.name[i]] = 1;
  for (uint32_t i = 0; i < p->view->trace->marks.count; i++)
    if (p->view->trace->marks.name[i] != TG_NONE) used[p->view->trace->marks.name[i]] = 1;
  tg__json_key(w, "texts");
  tg__json_open(w, '[');
  for (uint32_t i = 0; i < count; i++) tg__json_str(w, used[i] ? tg__name(p->view->trace, i) : (struct tg__str){"", 0});
  tg__json_close(w, ']');
  tg__json_key(w, "shades");
  tg__json_open(w, '[');
  for (uint32_t i = 0; i < count; i++) tg__json_int(w, used[i] ? tg__shade_of(&classes, i) : 0);
  tg__json_close(w, ']');
  tg__slice_classes_close(&classes);
  tg__free(used);
}

/* ---- #tg-series ------------------------------------------------------------------------------ */

enum { SERIES_TILES = 4 };
void tg__html_series(const struct tg__html_part *p, struct tg__out *out) {
  const uint32_t count = tg__series_count(p->series);
  unsigned level = 0;
  while (level < TG__LEVEL_MOST && p->view->end_ns >> level >= SERIES_TILES * TG__TILE_COLUMNS) level++;
  const uint32_t head[] = {0, 0, 0, 0, level, count * SERIES_TILES}; /* length: below */
  tg__out_bytes(out, head, sizeof head);
  for (uint32_t i = 0; i < count; i++)
    for (int32_t tile = 0; tile < SERIES_TILES; tile++)
      tg__series_tile(p->series, p->view->row_count + i, level, tile, out);
  const uint32_t length = (uint32_t)out->len;
  if (!out->err) memcpy(out->buf + sizeof length, &length, sizeof length);
}

static void put_state(const struct tg__html_part *p, const char *note, struct tg__jsonw *w) {
  const struct tg__columns *const t = p->view->trace;
  const char *const path = t->path ? t->path : "trace", *const slash = strrchr(path, '/');
  tg__json_key(w, "state");
  tg__json_open(w, '{');
  tg__json_key(w, "classes");
  tg__json_open(w, '[');
  for (unsigned k = 0; k < TG__SLICE_CLASS_COUNT; k++) tg__json_cstr(w, tg__slice_class_names[k]);
  tg__json_close(w, ']');
  tg__json_key(w, "traces");
  tg__json_open(w, '[');
  tg__json_open(w, '{');
  tg__json_key(w, "trace");
  tg__json_int(w, 0);
  tg__json_key(w, "name");
  tg__json_cstr(w, slash && slash[1] ? slash + 1 : path);
  tg__json_key(w, "state");
  tg__json_cstr(w, "ready");
  tg__json_key(w, "generation");
  tg__json_int(w, 0);
  tg__json_key(w, "note");
  tg__json_cstr(w, note);
  tg__json_close(w, '}');
  tg__json_close(w, ']');
  tg__json_close(w, '}');
}

static void put_sources(const struct tg__columns *t, struct tg__jsonw *w) {
  tg__json_key(w, "sources");
  tg__json_open(w, '[');
  for (uint32_t rank = 0; rank < t->rank_count; rank++)
    for (size_t i = 0; i < t->ranks[rank].meta_count; i++)
      if (tg__str_has_prefix(tg__name(t, t->ranks[rank].meta[i].key), "source_lines."))
        tg__json_raw(w, tg__name(t, t->ranks[rank].meta[i].raw));
  tg__json_close(w, ']');
}

void tg__html_meta(const struct tg__html_part *p, struct tg__columns *t, const char *note, struct tg__out *out) {
  struct tg__jsonw w = {.out = out};
  tg__json_open(&w, '{');
  put_state(p, note, &w);
  tg__json_key(&w, "tracks");
  tg__view_tracks_json(p->view, p->series, 0, &w);
  put_answers(t, &w);
  put_texts(p, &w);
  tg__json_key(&w, "rows");
  tg__json_open(&w, '[');
  for (uint32_t row = 0; row < p->view->row_count; row++) tg__json_int(&w, tg__html_count_row(p, row));
  tg__json_close(&w, ']');
  put_sources(t, &w);
  tg__json_key(&w, "missing");
  tg__json_cstr(&w, "tachograph view FILE");
  tg__json_close(&w, '}');
}
