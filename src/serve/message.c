/* message: a call as it came in, one JSON object, and how replies begin and end. Any bytes may come. */
#include "serve/host.h"

/* The queue has done what can be done when this is called. */
static void reply_cancel(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  (void)h;
  struct tg__jsonw w = tg__reply_begin(r, m);
  tg__json_open(&w, '{');
  tg__json_close(&w, '}');
  tg__reply_end(r, &w);
}

static const struct tg__message_kind kinds[] = {
    {"state", TG__LANE_NOW, tg__reply_state},
    {"tiles", TG__LANE_NOW, tg__reply_tiles},
    {"ask", TG__LANE_ASK, tg__reply_ask},
    {"tracks", TG__LANE_LOOK, tg__reply_tracks},
    {"names", TG__LANE_LOOK, tg__reply_names},
    {"slice", TG__LANE_LOOK, tg__reply_slice},
    {"search", TG__LANE_LOOK, tg__reply_search},
    {"flows", TG__LANE_LOOK, tg__reply_flows},
    {"aggregate", TG__LANE_LOOK, tg__reply_aggregate},
    {"source", TG__LANE_LOOK, tg__reply_source},
    {"save", TG__LANE_ASK, tg__reply_save},
    {"cancel", TG__LANE_NOW, reply_cancel},
};

/* ---- JSON ------------------------------------------------------------------------------------------ */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four hex digits at p; -1: they are no hex digits. */
static int32_t hex_code(const char *p, const char *end) {
  int32_t code = 0;
  for (int i = 0; i < 4; i++) {
    const int d = p + i < end ? hex_digit(p[i]) : -1;
    if (d < 0) return -1;
    code = code << 4 | d;
  }
  return code;
}

static char *put_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xC0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else {
    if (code < 0x10000) {
      *to++ = (char)(0xE0 | code >> 12);
    } else {
      *to++ = (char)(0xF0 | code >> 18);
      *to++ = (char)(0x80 | (code >> 12 & 63));
    }
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* Behind the backslash at p: what it stands for goes to *to. */
static const char *unescape(const char *p, const char *end, char **to) {
  static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";
  const char *const which = *p ? strchr(letters, *p) : NULL;
  if (*p != 'u') {
    *(*to)++ = which ? codes[which - letters] : *p;
    return p + 1;
  }
  int32_t code = hex_code(p + 1, end);
  if (code < 0) return p + 1;
  p += 5;
  if (code >= 0xD800 && code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
    const int32_t low = hex_code(p + 2, end);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      p += 6;
    }
  }
  *to = put_utf8(*to, code >= 0xD800 && code < 0xE000 ? 0xFFFD : (uint32_t)code);
  return p;
}

char *tg__json_text(struct tg__str raw, size_t *len) {
  const struct tg__str s = tg__json_unquoted(raw);
  char *const text =
      s.ptr ? tg__alloc((size_t)s.len + 1) : NULL; /* an escape is never shorter than what it stands for */
  if (!text) return NULL;
  char *to = text;
  for (const char *p = s.ptr, *const end = s.ptr + s.len; p < end;)
    if (*p == '\\' && p + 1 < end)
      p = unescape(p + 1, end, &to);
    else
      *to++ = *p++;
  *to = 0;
  if (len) *len = (size_t)(to - text);
  return text;
}

struct tg__str tg__message_raw(const struct tg__message *m, const char *member) {
  return tg__json_member((struct tg__str){m->text, m->len}, member);
}

bool tg__message_int(const struct tg__message *m, const char *member, int64_t fallback, int64_t *out) {
  const struct tg__str raw = tg__message_raw(m, member);
  *out = fallback;
  return !raw.len || tg__str_to_int(raw, out);
}

char *tg__message_text(const struct tg__message *m, const char *member) {
  return tg__json_text(tg__message_raw(m, member), NULL);
}

uint32_t tg__message_id_of(const struct tg__message *m, const char *member) {
  int64_t id;
  return tg__message_int(m, member, -1, &id) && id >= 0 && id < UINT32_MAX ? (uint32_t)id : TG_NONE;
}

/* ---- reading a call ---------------------------------------------------------------------------------- */

static const struct tg__message_kind *find_kind(const char *name) {
  for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

enum tg_err tg__message_read(const char *text, size_t len, struct tg__message *m, struct tg_error *e) {
  *m = (struct tg__message){0};
  if (len > TG__MESSAGE_MOST) return tg__fail(e, TG_USAGE, -1, "a call has at most %d bytes", TG__MESSAGE_MOST);
  m->text = tg__alloc(len + 1);
  if (!m->text) return tg__no_memory(e, "reading a call of %zu bytes", len);
  memcpy(m->text, text, len);
  m->len = (uint32_t)len;
  int64_t id, trace;
  if (!tg__members_of((struct tg__str){m->text, m->len}).has_keys)
    return tg__fail(e, TG_USAGE, -1, "a call is a JSON object");
  m->has_id = tg__message_int(m, "id", -1, &id) && id >= 0 && id <= UINT32_MAX;
  if (!m->has_id) return tg__fail(e, TG_USAGE, -1, "a call has an id, a whole number from 0 to 4294967295");
  m->id = (uint32_t)id;
  char *const name = tg__message_text(m, "call");
  m->kind = find_kind(name);
  const enum tg_err err = m->kind ? TG_OK : tg__fail(e, TG_USAGE, -1, "'%.60s' is no call", name ? name : "");
  tg__free(name);
  if (err) return err;
  if (!tg__message_int(m, "trace", 0, &trace) || trace < 0 || trace > UINT16_MAX)
    return tg__fail(e, TG_USAGE, -1, "trace is the number of a trace, from 0");
  m->trace = (uint32_t)trace;
  return TG_OK;
}

void tg__message_free(struct tg__message *m) {
  tg__free(m->text);
  *m = (struct tg__message){0};
}

bool tg__message_is_due(struct tg__host *h, const struct tg__message *m) {
  if (m->trace >= h->count || m->kind->lane == TG__LANE_NOW) return true;
  const struct tg__hosted *const t = &h->traces[m->trace];
  return t->state == TG__TRACE_FAILED || (m->kind->lane == TG__LANE_ASK ? t->now->is_open : t->now->is_loaded) ||
         h->is_stopping;
}

static bool is_about_trace(const struct tg__message_kind *kind) {
  return kind->answer != tg__reply_state && kind->answer != reply_cancel;
}

void tg__message_answer(struct tg__host *h, struct tg__message *m, struct tg__reply *r) {
  if (m->trace >= h->count && is_about_trace(m->kind)) {
    tg__reply_error(r, m, "usage", "there is no trace of this number");
    return;
  }
  m->loaded = m->trace < h->count ? tg__loaded_hold(&h->traces[m->trace]) : NULL;
  m->kind->answer(h, m, r);
  if (m->loaded) tg__loaded_drop(h, m->loaded);
  m->loaded = NULL;
  if (!r->out.err) return;
  tg__out_free(&r->out);
  *r = (struct tg__reply){0};
  tg__reply_error(r, m, "memory", "out of memory for the reply");
}

/* ---- replies ----------------------------------------------------------------------------------------- */

static const char *code_name(enum tg_err code) {
  static const char *const names[] = {
#define ERR(name, status, text) #name,
#include "tachograph/err.def"
#undef ERR
  };
  return (size_t)code < sizeof names / sizeof *names ? names[code] : "INTERNAL";
}

static void begin(struct tg__jsonw *w, const struct tg__message *m) {
  tg__json_open(w, '{');
  if (!m->has_id) return;
  tg__json_key(w, "id");
  tg__json_int(w, m->id);
}

struct tg__jsonw tg__reply_begin(struct tg__reply *r, const struct tg__message *m) {
  struct tg__jsonw w = {.out = &r->out};
  begin(&w, m);
  tg__json_key(&w, "result");
  return w;
}

void tg__reply_end(struct tg__reply *r, struct tg__jsonw *w) {
  (void)r;
  tg__json_close(w, '}');
}

static void put_error(struct tg__jsonw *w, const char *code, const char *text) {
  tg__json_open(w, '{');
  tg__json_key(w, "code");
  tg__json_cstr(w, code);
  tg__json_key(w, "text");
  tg__json_cstr(w, text);
  tg__json_close(w, '}');
}

void tg__reply_error(struct tg__reply *r, const struct tg__message *m, const char *code, const char *text) {
  struct tg__jsonw w = {.out = &r->out};
  r->out.len = 0;
  r->is_binary = false;
  begin(&w, m);
  tg__json_key(&w, "error");
  put_error(&w, code, text);
  tg__json_close(&w, '}');
}

enum { CODE_MOST = 32 };
static const char *small_letters(const char *name, char code[CODE_MOST]) {
  size_t i = 0;
  for (; name[i] && i + 1 < CODE_MOST; i++) code[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
  code[i] = 0;
  return code;
}

static const char *error_text(const struct tg_error *e) { return e->text[0] ? e->text : tg_err_text(e->code); }

void tg__reply_error_object(const struct tg_error *e, struct tg__jsonw *w) {
  char code[CODE_MOST];
  put_error(w, small_letters(code_name(e->code), code), error_text(e));
}

void tg__reply_failed(struct tg__reply *r, const struct tg__message *m, const struct tg_error *e) {
  char code[CODE_MOST];
  tg__reply_error(r, m, small_letters(code_name(e->code), code), error_text(e));
}

struct tg__loaded *tg__reply_trace(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = m->loaded;
  int64_t generation;
  tg__lock_take(h->lock);
  const enum tg__trace_state state = h->traces[m->trace].state;
  const bool ready = state == TG__TRACE_READY && (t->is_loaded || m->kind->lane == TG__LANE_NOW);
  tg__lock_drop(h->lock);
  if (!tg__message_int(m, "generation", t->number, &generation) || (ready && generation != t->number)) {
    tg__reply_error(r, m, "stale", "the trace was read again since: its numbers are new");
    return NULL;
  }
  if (ready && t->view && t->columns) return t;
  if (state == TG__TRACE_FAILED || ready)
    tg__reply_failed(r, m, &t->error);
  else
    tg__reply_error(r, m, "loading", "the trace is still being read");
  return NULL;
}
