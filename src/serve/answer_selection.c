/* answer_selection: search, the totals of a selection. */
#include <stdlib.h>

#include "serve/host.h"

enum { ROWS_DEFAULT = 500, ROWS_MOST = 100000, HITS_DEFAULT = 100 };

bool tg__message_window(const struct tg__message *m, const struct tg__loaded *t, struct tg__window_of *out) {
  const struct tg__str tracks = tg__message_raw(m, "tracks");
  const uint32_t count = t->columns->track_count;
  out->tracks = NULL;
  if (!tg__message_int(m, "start_ns", 0, &out->start_ns) ||
      !tg__message_int(m, "end_ns", t->view->end_ns + 1, &out->end_ns))
    return false;
  if (!tracks.len) return true;
  out->tracks = tg__alloc(((size_t)count + 1) * sizeof *out->tracks);
  bool ok = out->tracks != NULL;
  int64_t track;
  for (struct tg__members all = tg__members_of(tracks); ok && tg__members_next(&all);) {
    ok = tg__str_to_int(all.value, &track) && track >= 0 && track < count;
    if (ok) out->tracks[track] = true;
  }
  if (ok) return true;
  tg__free(out->tracks);
  out->tracks = NULL;
  return false;
}

/* ---- search ------------------------------------------------------------------------------------------ */

static void put_int(struct tg__jsonw *w, const char *key, int64_t v) {
  tg__json_key(w, key);
  tg__json_int(w, v);
}

static void put_found(struct tg__loaded *t, const struct tg__search *s, const struct tg__found *f,
                      struct tg__jsonw *w) {
  tg__json_open(w, '{');
  put_int(w, "count", (int64_t)f->count);
  put_int(w, "total_ns", f->total_ns);
  put_int(w, "position", (int64_t)f->position);
  tg__json_key(w, "names");
  tg__json_open(w, '[');
  for (size_t i = 0; i < f->name_count; i++) {
    tg__json_open(w, '{');
    put_int(w, "name", f->names[i].name);
    tg__json_key(w, "text");
    tg__json_str(w, tg__name(t->columns, f->names[i].name));
    put_int(w, "count", f->names[i].count);
    put_int(w, "total_ns", f->names[i].total_ns);
    tg__json_close(w, '}');
  }
  tg__json_close(w, ']');
  tg__json_key(w, "hits");
  tg__json_open(w, '[');
  for (size_t i = 0; i < f->hit_count; i++) tg__reply_reference(t, f->hits[i], w);
  tg__json_close(w, ']');
  tg__json_key(w, "columns");
  tg__json_open(w, '[');
  for (uint32_t i = 0; i < s->columns; i++) tg__json_int(w, f->columns[i]);
  tg__json_close(w, ']');
  tg__json_close(w, '}');
}

static enum tg_err read_search(const struct tg__message *m, const struct tg__loaded *t,
                               const struct tg__window_of *window, const char *kind, struct tg__search *s,
                               struct tg_error *e) {
  static const char *const kinds[] = {"contains", "exact", "regex"};
  int64_t after, limit, columns;
  size_t k = 0;
  while (k < 3 && strcmp(kind ? kind : "contains", kinds[k]) != 0) k++;
  if (k == 3) return tg__fail(e, TG_USAGE, -1, "kind is contains, exact or regex");
  if (!tg__message_int(m, "after", -1, &after) || after >= t->columns->slices.count)
    return tg__fail(e, TG_USAGE, -1, "after is the number of a slice");
  if (!tg__message_int(m, "limit", HITS_DEFAULT, &limit) || limit < 0 || limit > TG__FOUND_HITS ||
      !tg__message_int(m, "columns", 0, &columns) || columns < 0 || columns > TG__FOUND_COLUMNS)
    return tg__fail(e, TG_USAGE, -1, "limit is at most %d, columns at most %d", TG__FOUND_HITS, TG__FOUND_COLUMNS);
  s->match = (enum tg__name_match)k;
  s->after = after < 0 ? TG_NONE : (uint32_t)after;
  s->backwards = tg__str_eq(tg__message_raw(m, "backwards"), TG_STR("true"));
  s->limit = (uint32_t)limit;
  s->columns = (uint32_t)columns;
  s->tracks = window->tracks;
  s->start_ns = window->start_ns;
  s->end_ns = window->end_ns;
  return TG_OK;
}

void tg__reply_search(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  struct tg__window_of window = {0};
  struct tg__search s;
  struct tg__found found = {0};
  struct tg_error e = {0};
  size_t len = 0;
  char *const text = tg__json_text(tg__message_raw(m, "text"), &len), *const kind = tg__message_text(m, "kind");
  enum tg_err err =
      text && tg__message_window(m, t, &window)
          ? TG_OK
          : tg__fail(&e, TG_USAGE, -1, "text is what to look for, start_ns and end_ns are times, tracks a list");
  if (!err) err = read_search(m, t, &window, kind, &s, &e);
  s.text = (struct tg__str){text, (uint32_t)len};
  if (!err) err = tg__view_search(t->view, &s, &found, &e);
  if (err)
    tg__reply_failed(r, m, &e);
  else {
    struct tg__jsonw w = tg__reply_begin(r, m);
    put_found(t, &s, &found, &w);
    tg__reply_end(r, &w);
    tg__found_free(&found);
  }
  tg__free(window.tracks);
  tg__free(text);
  tg__free(kind);
}

/* ---- a selection ------------------------------------------------------------------------------------- */

void tg__reply_aggregate(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  struct tg__window_of window = {0};
  struct tg_error e = {0};
  struct tg_table *table = NULL;
  char *const by = tg__message_text(m, "by");
  int64_t limit, other_start, other_end;
  enum tg_err err =
      tg__message_window(m, t, &window) && tg__message_int(m, "limit", ROWS_DEFAULT, &limit) && limit >= 0 &&
              limit <= ROWS_MOST && tg__message_int(m, "other_start_ns", 0, &other_start) &&
              tg__message_int(m, "other_end_ns", 0, &other_end)
          ? TG_OK
          : tg__fail(&e, TG_USAGE, -1,
                     "start_ns, end_ns, other_start_ns and other_end_ns are times, tracks a list of numbers of tracks, "
                     "limit at most %d",
                     ROWS_MOST);
  if (!err) {
    const struct tg__selection s = {window.start_ns, window.end_ns, window.tracks, by ? by : "name",
                                    (uint32_t)limit, other_start,   other_end};
    err = tg__view_aggregate(t->view, &t->classes, &s, &table, &e);
  }
  if (err)
    tg__reply_failed(r, m, &e);
  else
    tg__reply_table(r, m, table);
  tg__table_free(table);
  tg__free(window.tracks);
  tg__free(by);
}
