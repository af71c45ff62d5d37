/* answer: the calls about the server, questions, tracks, tiles and names. */
#include "ranks/ranks.h"
#include "serve/host.h"
#include "show/show.h"

/* ---- state ------------------------------------------------------------------------------------------- */

static void put_trace(const struct tg__hosted *t, size_t i, struct tg__jsonw *w) {
  static const char *const states[] = {"reading", "indexing", "ready", "failed"};
  tg__json_open(w, '{');
  tg__json_key(w, "trace");
  tg__json_int(w, (int64_t)i);
  tg__json_key(w, "path");
  tg__json_cstr(w, t->path);
  tg__json_key(w, "name");
  tg__json_cstr(w, t->name);
  tg__json_key(w, "state");
  tg__json_cstr(w, states[t->state]);
  tg__json_key(w, "generation");
  tg__json_int(w, t->state == TG__TRACE_READY && t->now->view ? t->now->number : 0);
  tg__json_key(w, "bytes_done");
  tg__json_int(w, t->bytes_done);
  tg__json_key(w, "bytes");
  if (t->bytes < 0)
    tg__json_null(w);
  else
    tg__json_int(w, t->bytes);
  tg__json_key(w, "recording");
  tg__json_bool(w, t->is_recording);
  tg__json_key(w, "read_ms_ago");
  if (t->read_ns)
    tg__json_int(w, (tg__clock_ns() - t->read_ns) / 1000000);
  else
    tg__json_null(w);
  tg__json_key(w, "remark");
  if (t->remark.text[0])
    tg__json_cstr(w, t->remark.text);
  else
    tg__json_null(w);
  tg__json_key(w, "error");
  if (t->state == TG__TRACE_FAILED)
    tg__reply_error_object(&t->now->error, w);
  else
    tg__json_null(w);
  tg__json_close(w, '}');
}

static void put_state(struct tg__host *h, struct tg__jsonw *w) {
  tg__json_open(w, '{');
  tg__json_key(w, "version");
  tg__json_cstr(w, tg_version());
  tg__json_key(w, "process");
  tg__json_int(w, (int64_t)tg__process_number());
  tg__json_key(w, "classes");
  tg__json_open(w, '[');
  for (int k = 0; k < TG__SLICE_CLASS_COUNT; k++) tg__json_cstr(w, tg__slice_class_names[k]);
  tg__json_close(w, ']');
  tg__json_key(w, "traces");
  tg__json_open(w, '[');
  tg__lock_take(h->lock);
  for (size_t i = 0; i < h->count; i++) put_trace(&h->traces[i], i, w);
  tg__lock_drop(h->lock);
  tg__json_close(w, ']');
  tg__json_close(w, '}');
}

void tg__reply_state(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__jsonw w = tg__reply_begin(r, m);
  put_state(h, &w);
  tg__reply_end(r, &w);
}

void tg__reply_state_event(struct tg__host *h, struct tg__reply *r) {
  struct tg__jsonw w = {.out = &r->out};
  tg__json_open(&w, '{');
  tg__json_key(&w, "event");
  tg__json_cstr(&w, "state");
  tg__json_key(&w, "result");
  put_state(h, &w);
  tg__json_close(&w, '}');
}

/* ---- ask --------------------------------------------------------------------------------------------- */

enum { MOST_ARGS = 32 };
struct asking {
  char *question;
  char *texts[2 * MOST_ARGS];
  struct tg_arg args[MOST_ARGS];
  size_t count;
};

static void asking_free(struct asking *a) {
  tg__free(a->question);
  for (size_t i = 0; i < 2 * a->count; i++) tg__free(a->texts[i]);
}

/* args: an object of texts; numbers and booleans are taken as they are written. */
static enum tg_err read_asking(const struct tg__message *m, struct asking *a, struct tg_error *e) {
  *a = (struct asking){.question = tg__message_text(m, "question")};
  if (!a->question) return tg__fail(e, TG_USAGE, -1, "question is the name of a question");
  for (struct tg__members all = tg__members_of(tg__message_raw(m, "args")); tg__members_next(&all);) {
    if (tg__str_eq(all.value, TG_STR("null"))) continue;
    if (a->count == MOST_ARGS) return tg__fail(e, TG_USAGE, -1, "a question takes at most %d arguments", MOST_ARGS);
    char *const name = tg__alloc((size_t)all.key.len + 1);
    char *value = tg__json_text(all.value, NULL);
    if (!value && (value = tg__alloc((size_t)all.value.len + 1))) memcpy(value, all.value.ptr, all.value.len);
    a->texts[2 * a->count] = name;
    a->texts[2 * a->count + 1] = value;
    a->count++;
    if (!name || !value) return tg__no_memory(e, "reading the arguments of a question");
    memcpy(name, all.key.ptr, all.key.len);
    a->args[a->count - 1] = (struct tg_arg){name, value};
  }
  return TG_OK;
}

/* Takes an argument out that is the server's own. */
static const char *take_arg(struct asking *a, const char *name) {
  for (size_t i = 0; i < a->count; i++)
    if (strcmp(a->args[i].name, name) == 0) {
      const char *const value = a->args[i].value;
      char *const texts[2] = {a->texts[2 * i], a->texts[2 * i + 1]};
      const size_t last = a->count - 1; /* its texts stay, so that they are freed */
      a->args[i] = a->args[last];
      a->texts[2 * i] = a->texts[2 * last];
      a->texts[2 * i + 1] = a->texts[2 * last + 1];
      a->texts[2 * last] = texts[0];
      a->texts[2 * last + 1] = texts[1];
      return value;
    }
  return NULL;
}

static enum tg_err ask_diff(struct tg__host *h, struct tg__loaded *t, struct asking *a, struct tg_table **out,
                            struct tg_error *e) {
  const char *const against = take_arg(a, "against");
  int64_t other;
  if (!against || !tg__str_to_int((struct tg__str){against, (uint32_t)strlen(against)}, &other) || other < 0 ||
      (size_t)other >= h->count)
    return tg__fail(e, TG_USAGE, -1, "diff needs against, the number of the trace to hold against this one");
  struct tg__hosted *const hosted = &h->traces[other];
  if (hosted->name == t->name) return tg__fail(e, TG_USAGE, -1, "diff needs two different traces");
  tg__lock_take(h->lock);
  while (!hosted->now->is_open && hosted->state != TG__TRACE_FAILED && !h->is_stopping) tg__lock_wait(h->lock);
  tg__lock_drop(h->lock);
  struct tg__loaded *const b = tg__loaded_hold(hosted);
  tg__lock_take(b->engine); /* only the thread of questions ever takes two */
  const enum tg_err err =
      b->is_open ? tg_diff(t->trace, b->trace, a->args, a->count - 1, out, e)
                 : tg__fail(e, TG_NO_DATA, -1, "%s", b->error.text[0] ? b->error.text : "the other trace is not there");
  tg__lock_drop(b->engine);
  tg__loaded_drop(h, b);
  return err;
}

static void put_kind_row(struct tg_table *t, const char *question, const char *kind, const char *fallback,
                         const struct tg_question_column *c) {
  const char *const cells[] = {question,   kind,    c->name, c->type, c->unit, fallback,
                               c->meaning, c->role, c->fold, c->of,   c->by};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) tg__put_cstr(t, cells[i]);
  if (c->role)
    tg__put_bool(t, c->is_important);
  else
    tg__put_null(t);
}

/* Every question with its arguments and columns. */
static enum tg_err ask_questions(struct tg_table **out, struct tg_error *e) {
  static const char *const columns[] = {"question", "kind", "name", "type", "unit", "default",
                                        "meaning",  "role", "fold", "of",   "by"};
  struct tg_table *const t = *out = tg__table_new("questions");
  if (!t) return tg__no_memory(e, "listing the questions");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) tg__table_add_column(t, columns[i], TG_TEXT, "");
  tg__table_add_column(t, "important", TG_BOOL, "");
  for (size_t i = 0; i < tg_question_count(); i++) {
    const char *const q = tg_question_name(i), *fallback;
    struct tg_question_column c = {.name = q, .meaning = tg_question_meaning(i)};
    put_kind_row(t, q, "question", NULL, &c);
    for (size_t k = 0; tg_question_argument(i, k, &c.name, &fallback, &c.meaning); k++)
      put_kind_row(t, q, "argument", fallback, &c);
    for (size_t k = 0; tg_question_column(i, k, &c); k++) put_kind_row(t, q, "column", NULL, &c);
  }
  return t->failed ? tg__no_memory(e, "listing the questions") : TG_OK;
}

/* Of the call that is being answered. */
struct answering {
  const struct tg__host *host;
  const struct tg__message *message;
};
static bool goes_on(void *ctx) {
  const struct answering *const a = ctx;
  return !a->message->is_cancelled && !a->host->is_stopping;
}
static bool goes_on_reading(void *ctx, int64_t done, int64_t total) {
  (void)done, (void)total;
  return goes_on(ctx);
}

enum { SQL_STEPS_MOST = 2000000000 }; /* a minute or two */
static enum tg_err ask_sql(struct tg__loaded *t, const char *query, struct answering *now, struct tg_table **out,
                           struct tg_error *e) {
  const struct tg__sql_limit limit = {SQL_STEPS_MOST, goes_on, now};
  struct tg__columns *columns;
  if (!query) return tg__fail(e, TG_USAGE, -1, "sql needs query, a SELECT");
  const enum tg_err err = tg__load_all_ranks(t->trace, &columns, e);
  return err ? err : tg__sql_run_limited(columns, query, &limit, out, e);
}

static enum tg_err ask_any(struct tg__host *h, struct tg__loaded *t, struct asking *a, struct answering *now,
                           struct tg_table **out, struct tg_error *e) {
  if (strcmp(a->question, "diff") == 0) return ask_diff(h, t, a, out, e);
  if (strcmp(a->question, "sql") == 0) return ask_sql(t, take_arg(a, "query"), now, out, e);
  return tg_ask(t->trace, a->question, a->args, a->count, out, e);
}

static bool put_piece(void *ctx, const char *bytes, size_t len) {
  struct tg__out *const out = ctx;
  tg__out_bytes(out, bytes, len);
  return out->err == TG_OK;
}

void tg__reply_table(struct tg__reply *r, const struct tg__message *m, const struct tg_table *table) {
  struct tg_error e;
  struct tg__jsonw w = tg__reply_begin(r, m);
  tg_table_write(table, "json", 0, put_piece, &r->out, &e); /* what goes wrong stays in r->out.err */
  tg__reply_end(r, &w);
}

void tg__reply_ask(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = m->loaded;
  struct tg_error e = {0};
  struct tg_table *table = NULL;
  struct asking a;
  enum tg_err err = read_asking(m, &a, &e);
  if (!err && strcmp(a.question, "questions") == 0) {
    err = ask_questions(&table, &e);
  } else if (!err && !t->is_open) {
    e = t->error;
    err = e.code ? e.code : tg__fail(&e, TG_NO_DATA, -1, "the trace is not there");
  } else if (!err) {
    struct answering now = {h, m};
    const struct tg_open_options watched = {.progress = goes_on_reading, .progress_ctx = &now};
    tg__lock_take(t->engine);
    tg_set_progress(t->trace, &watched);
    err = ask_any(h, t, &a, &now, &table, &e);
    tg_set_progress(t->trace, NULL);
    tg__lock_drop(t->engine);
  }
  if (err)
    tg__reply_failed(r, m, &e);
  else
    tg__reply_table(r, m, table);
  tg_table_free(table);
  asking_free(&a);
}

/* ---- the page as one file ----------------------------------------------------------------------------- */

void tg__reply_save(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  static const struct tg_arg args[] = {{"bytes", "32M"}}; /* with its answers it fits what may wait for a client */
  (void)h;
  struct tg__loaded *const t = m->loaded;
  struct tg_error e = {0};
  const uint32_t head[] = {m->id, 0};
  enum tg_err err = t->is_open ? TG_OK : tg__fail(&e, TG_NO_DATA, -1, "the trace is not there");
  r->is_binary = true;
  tg__out_bytes(&r->out, head, sizeof head);
  if (!err) {
    tg__lock_take(t->engine);
    err = tg_export(t->trace, "html", args, 1, put_piece, &r->out, &e);
    tg__lock_drop(t->engine);
  }
  if (err) {
    tg__out_free(&r->out);
    *r = (struct tg__reply){0};
    tg__reply_failed(r, m, &e);
    return;
  }
  if (r->out.err) return;
  const uint32_t bytes = (uint32_t)r->out.len;
  memcpy(r->out.buf + 4, &bytes, sizeof bytes);
}

/* ---- tiles and names --------------------------------------------------------------------------------- */

/* The next pair of numbers; false: there is none. */
static bool next_pair(struct tg__members *all, int64_t *row, int64_t *tile) {
  return tg__members_next(all) && tg__str_to_int(all->value, row) && tg__members_next(all) &&
         tg__str_to_int(all->value, tile);
}

void tg__reply_tiles(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  int64_t level, row, tile;
  if (!tg__message_int(m, "level", -1, &level) || level < 0 || level > TG__LEVEL_MOST) {
    tg__reply_error(r, m, "usage", "level is a number from 0 to 44");
    return;
  }
  tg__lock_take(h->lock);
  const uint32_t rows = t->view->row_count + (t->is_loaded ? tg__series_count(t->series) : 0);
  tg__lock_drop(h->lock);
  uint32_t count = 0;
  const uint32_t head[] = {m->id, 0, m->trace, t->number, (uint32_t)level, 0};
  r->is_binary = true;
  tg__out_bytes(&r->out, head, sizeof head);
  for (struct tg__members all = tg__members_of(tg__message_raw(m, "tiles")); next_pair(&all, &row, &tile);) {
    if (row < 0 || row >= rows || tile < INT32_MIN || tile > INT32_MAX || ++count > TG__TILES_MOST) {
      tg__reply_error(r, m, "usage", "tiles are at most 1024 pairs of a row and the number of a tile");
      return;
    }
    if (row < t->view->row_count)
      tg__view_tile(t->view, &t->tile_classes, (uint32_t)row, (unsigned)level, (int32_t)tile, &r->out);
    else
      tg__series_tile(t->series, (uint32_t)row, (unsigned)level, (int32_t)tile, &r->out);
  }
  if (r->out.err) return;
  const uint32_t bytes = (uint32_t)r->out.len;
  memcpy(r->out.buf + 4, &bytes, sizeof bytes);
  memcpy(r->out.buf + 20, &count, sizeof count);
}

enum { NAME_SHOWN = 256 };

void tg__reply_names(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  const uint32_t count = tg__strings_count(t->columns->strings);
  struct tg__jsonw w = tg__reply_begin(r, m);
  tg__json_open(&w, '{');
  tg__json_key(&w, "texts");
  tg__json_open(&w, '[');
  size_t given = 0;
  int64_t id;
  for (struct tg__members all = tg__members_of(tg__message_raw(m, "names"));
       tg__members_next(&all) && given++ < TG__NAMES_MOST;) {
    if (!tg__str_to_int(all.value, &id) || id < 0 || id >= count) {
      tg__json_null(&w);
      continue;
    }
    struct tg__str s = tg__name(t->columns, (uint32_t)id);
    if (s.len > NAME_SHOWN) s.len = NAME_SHOWN;
    tg__json_str(&w, s);
  }
  tg__json_close(&w, ']');
  tg__json_close(&w, '}');
  tg__reply_end(r, &w);
}

void tg__reply_tracks(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  struct tg__jsonw w = tg__reply_begin(r, m);
  tg__view_tracks_json(t->view, t->series, t->number, &w);
  tg__reply_end(r, &w);
}
