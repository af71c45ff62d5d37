/* parse_event: one event of the array, and the loop over them; parse_value.h knows its values. A template: the
 * including file defines
 *   SCAN(name)                    the name of the exported function
 *   scan_string(p, &ascii)        first byte at or after p that is '"', '\\' or below 0x20; ascii &= none before it
 *                                 is ≥ 0x80
 *   scan_nested(p, end)           past the bracket that closes the one at p, NULL when that is not before end
 * All scanning may read TG__TEXT_PAD bytes past the end of the text; see import.h for what stands there.
 *
 * The order of members is not assumed, only guessed: the args of an event usually have the keys, in order, that the
 * last event of the same name had, so each key is compared with the guess before it is hashed. */

#include "trace/parse_value.h"

struct event {
  int64_t ts_ns, dur_ns, pid, tid;
  uint32_t name, cat;
  uint32_t seen; /* bit per member below */
  uint8_t ph, flags;
  bool pid_is_text, tid_is_text, has_args;
  const struct tg__guess *guess;
};
enum {
  SEEN_PH = 1,
  SEEN_CAT = 2,
  SEEN_NAME = 4,
  SEEN_PID = 8,
  SEEN_TID = 16,
  SEEN_TS = 32,
  SEEN_DUR = 64,
  SEEN_ARGS = 128
};

static inline struct tg__packed_val *next_val(struct tg__parser *P) {
  if (TG_UNLIKELY(P->val_count == P->val_cap) &&
      !tg__grow((void **)&P->vals, &P->val_cap, P->val_count + 1, sizeof *P->vals)) {
    P->no_memory = true;
    return NULL;
  }
  return &P->vals[P->val_count];
}

/* Does the key at p (behind its quote) read like this one, closing quote included? Nearly all keys have at most 16
 * bytes, which two words cover; calling memcmp for them costs more than the comparison. */
static inline bool same_key(const char *p, const struct tg__guess_field *k) {
  const uint32_t n = k->len;
  if (TG_UNLIKELY(n >= TG__TEXT_PAD) || p[n] != '"') return false;
  if (n < 8) return (load8(p) & k->mask) == k->head;
  if (load8(p) != k->head || load8(p + n - 8) != k->tail) return false;
  return n <= 16 || memcmp(p, k->text, n) == 0;
}

/* The args object: p behind its brace. */
static inline enum outcome parse_args(struct tg__parser *P, const char **pp, const char *end, struct event *ev) {
  const char *p = skip_blank(*pp);
  ev->has_args = true;
  if (*p == '}') {
    *pp = p + 1;
    return PARSED;
  }
  for (;;) {
    if (*p != '"') return p >= end ? SHORT : BAD;
    p++;
    struct tg__packed_val *v = next_val(P);
    if (!v) return BAD;
    v->top = false;
    const size_t i = P->val_count;
    uint32_t key = TG_NONE;
    if (TG_LIKELY(ev->guess && i < ev->guess->count)) {
      const struct tg__guess_field *k = &ev->guess->fields[i];
      if (same_key(p, k)) {
        key = k->key;
        p += k->len + 1;
      }
    }
    if (key == TG_NONE) {
      const enum outcome r = parse_string(P, &p, end, &key);
      if (r != PARSED) return r;
      ev->guess = NULL;
    }
    v->key = key;
    const char *value = to_value(p);
    if (!value) return skip_blank(p) >= end ? SHORT : BAD;
    p = value;
    const enum outcome r = parse_value(P, &p, end, v);
    if (r != PARSED) return r;
    if (ev->guess && ev->guess->fields[i].kind != v->kind) ev->guess = NULL;
    P->val_count++;
    p = skip_blank(p);
    if (*p == ',')
      p = skip_blank(p + 1);
    else if (*p != '}')
      return p >= end ? SHORT : BAD;
    if (*p == '}') { /* also after a trailing comma */
      *pp = p + 1;
      return PARSED;
    }
  }
}

/* A member of the event that has no column: kept with the args. p at the value. */
static enum outcome parse_other(struct tg__parser *P, const char **pp, const char *end, struct event *ev,
                                uint32_t key) {
  struct tg__packed_val *v = next_val(P);
  if (!v) return BAD;
  v->key = key;
  v->top = true;
  const enum outcome r = parse_value(P, pp, end, v);
  if (r != PARSED) return r;
  const size_t i = P->val_count++;
  if (ev->guess && (i >= ev->guess->count || ev->guess->fields[i].key != key || !ev->guess->fields[i].top ||
                    ev->guess->fields[i].kind != P->vals[i].kind))
    ev->guess = NULL;
  return PARSED;
}

static inline enum outcome parse_id(struct tg__parser *P, const char **pp, const char *end, int64_t *id,
                                    bool *is_text) {
  struct tg__packed_val v;
  const enum outcome r = parse_value(P, pp, end, &v);
  if (r != PARSED) return r;
  *is_text = v.kind != TG__KIND_INT;
  switch (v.kind) {
  case TG__KIND_INT:
  case TG__KIND_STR:
  case TG__KIND_RAW:
    *id = v.i;
    break;
  default:
    *id = TG__K_EMPTY; /* true, null, 1.5 as a process id: no identity worth keeping apart */
  }
  return r;
}

static inline void take_seen(struct tg__parser *P, struct event *ev, uint32_t bit, const char *at) {
  if (TG_UNLIKELY(ev->seen & bit)) tg__note_anomaly(P, TG__LOSS_bent_duplicate_key, at);
  ev->seen |= bit;
}

static inline void guess_schema(struct tg__parser *P, struct event *ev) {
  const size_t slot = (ev->name * 7u + ev->ph) % TG__SCHEMA_CACHE;
  if (P->val_count == 0) ev->guess = P->guess[slot];
}

static enum outcome parse_text_member(struct tg__parser *P, const char **pp, const char *end, uint32_t *id,
                                      uint32_t fallback) {
  struct tg__packed_val v;
  const enum outcome r = parse_value(P, pp, end, &v);
  *id = v.kind == TG__KIND_STR || v.kind == TG__KIND_RAW ? (uint32_t)v.i : fallback;
  return r;
}

static inline enum outcome parse_name_member(struct tg__parser *P, const char **pp, const char *end, struct event *ev,
                                             const char *at) {
  take_seen(P, ev, SEEN_NAME, at);
  const enum outcome r = parse_text_member(P, pp, end, &ev->name, TG__K_EMPTY);
  guess_schema(P, ev);
  return r;
}

static inline enum outcome parse_args_member(struct tg__parser *P, const char **pp, const char *end, struct event *ev,
                                             const char *at) {
  if (**pp != '{') return parse_other(P, pp, end, ev, TG__K_ARGS);
  if (ev->has_args) { /* given twice: the last one counts */
    take_seen(P, ev, SEEN_ARGS, at);
    size_t kept = 0;
    for (size_t i = 0; i < P->val_count; i++)
      if (P->vals[i].top) P->vals[kept++] = P->vals[i];
    P->val_count = kept;
    ev->guess = NULL;
  }
  ev->seen |= SEEN_ARGS;
  (*pp)++;
  return parse_args(P, pp, end, ev);
}

/* "X" in six bytes: \u0058, as some writers escape everything. 0 when it is not that. */
static uint8_t escaped_letter(const char *p) {
  static const char digits[] = "0123456789abcdef0123456789ABCDEF";
  if (memcmp(p, "\\u00", 4) != 0 || !p[4] || !p[5] || p[6] != '"') return 0;
  const char *high = strchr(digits, p[4]), *low = strchr(digits, p[5]);
  const long letter = high && low ? (high - digits) % 16 * 16 + (low - digits) % 16 : 0;
  return letter > ' ' && letter < 127 ? (uint8_t)letter : 0;
}

static inline enum outcome parse_phase(struct tg__parser *P, const char **pp, const char *end, struct event *ev,
                                       const char *at) {
  const char *p = *pp;
  take_seen(P, ev, SEEN_PH, at);
  if (TG_LIKELY(p[0] == '"' && p[1] > ' ' && p[1] != '"' && p[1] != '\\' && p[2] == '"')) {
    ev->ph = (uint8_t)p[1];
    *pp = p + 3;
    return PARSED;
  }
  if (p[0] == '"' && end - p > 8 && (ev->ph = escaped_letter(p + 1)) != 0) {
    *pp = p + 8;
    return PARSED;
  }
  return parse_other(P, pp, end, ev, TG__K_PH);
}

/* A member the fast path does not know: one without a column, or one in another spelling ("ts" : or "t\u0073":). */
static enum outcome parse_spelled_member(struct tg__parser *P, const char **pp, const char *end, struct event *ev,
                                         const char *at) {
  uint32_t key;
  const enum outcome r = parse_string(P, pp, end, &key);
  if (r != PARSED) return r;
  const char *p = to_value(*pp);
  if (!p) return skip_blank(*pp) >= end ? SHORT : BAD;
  *pp = p;
  switch (key) {
  case TG__K_TS:
    take_seen(P, ev, SEEN_TS, at);
    return parse_time(P, pp, end, &ev->ts_ns, &ev->flags);
  case TG__K_DUR:
    take_seen(P, ev, SEEN_DUR, at);
    return parse_time(P, pp, end, &ev->dur_ns, &ev->flags);
  case TG__K_PID:
    take_seen(P, ev, SEEN_PID, at);
    return parse_id(P, pp, end, &ev->pid, &ev->pid_is_text);
  case TG__K_TID:
    take_seen(P, ev, SEEN_TID, at);
    return parse_id(P, pp, end, &ev->tid, &ev->tid_is_text);
  case TG__K_CAT:
    take_seen(P, ev, SEEN_CAT, at);
    return parse_text_member(P, pp, end, &ev->cat, TG_NONE);
  case TG__K_NAME:
    return parse_name_member(P, pp, end, ev, at);
  case TG__K_ARGS:
    return parse_args_member(P, pp, end, ev, at);
  case TG__K_PH:
    return parse_phase(P, pp, end, ev, at);
  default:
    return parse_other(P, pp, end, ev, key);
  }
}

/* One member: key at p (behind its quote), through to the end of its value. */
static inline enum outcome parse_member(struct tg__parser *P, const char **pp, const char *end, struct event *ev) {
  const char *p = *pp, *at = p;
  uint32_t w;
  memcpy(&w, p, 4);
#define WORD(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define VALUE(key_len)                                                                                                 \
  p += (key_len) + 1;                                                                                                  \
  if (!(*pp = to_value(p))) return *pp = p, skip_blank(p) >= end ? SHORT : BAD;                                        \
  p = *pp
  if (w == WORD('n', 'a', 'm', 'e') && p[4] == '"') {
    VALUE(4);
    return parse_name_member(P, pp, end, ev, at);
  }
  if (w == WORD('a', 'r', 'g', 's') && p[4] == '"') {
    VALUE(4);
    return parse_args_member(P, pp, end, ev, at);
  }
  switch (w) {
  case WORD('t', 's', '"', ':'):
    VALUE(2);
    take_seen(P, ev, SEEN_TS, at);
    return parse_time(P, pp, end, &ev->ts_ns, &ev->flags);
  case WORD('d', 'u', 'r', '"'):
    VALUE(3);
    take_seen(P, ev, SEEN_DUR, at);
    return parse_time(P, pp, end, &ev->dur_ns, &ev->flags);
  case WORD('p', 'i', 'd', '"'):
    VALUE(3);
    take_seen(P, ev, SEEN_PID, at);
    return parse_id(P, pp, end, &ev->pid, &ev->pid_is_text);
  case WORD('t', 'i', 'd', '"'):
    VALUE(3);
    take_seen(P, ev, SEEN_TID, at);
    return parse_id(P, pp, end, &ev->tid, &ev->tid_is_text);
  case WORD('c', 'a', 't', '"'):
    VALUE(3);
    take_seen(P, ev, SEEN_CAT, at);
    return parse_text_member(P, pp, end, &ev->cat, TG_NONE);
  case WORD('p', 'h', '"', ':'):
    VALUE(2);
    return parse_phase(P, pp, end, ev, at);
  default:
    return parse_spelled_member(P, pp, end, ev, at);
  }
#undef VALUE
#undef WORD
}

/* Keep only the last of equal keys. */
static void drop_duplicates(struct tg__parser *P, const char *at) {
  size_t kept = 0;
  const size_t n = P->val_count;
  for (size_t i = 0; i < n; i++) {
    bool again = false;
    for (size_t j = i + 1; j < n && j < i + 64; j++)
      again |= P->vals[j].key == P->vals[i].key && P->vals[j].top == P->vals[i].top;
    if (again)
      tg__note_anomaly(P, TG__LOSS_bent_duplicate_key, at);
    else
      P->vals[kept++] = P->vals[i];
  }
  P->val_count = kept;
}

static inline bool store_event(struct tg__parser *P, struct event *ev, const char *at) {
  if (TG_UNLIKELY(P->record_count == P->record_cap)) {
    if (!tg__grow((void **)&P->records, &P->record_cap, P->record_count + 1, sizeof *P->records)) return false;
  }
  const struct tg__guess *schema = ev->guess;
  if (TG_UNLIKELY(!schema || schema->count != P->val_count || schema->has_args != ev->has_args)) {
    drop_duplicates(P, at);
    schema = tg__intern_schema(P, ev->has_args, P->vals, P->val_count);
    if (!schema) return false;
    P->guess[(ev->name * 7u + ev->ph) % TG__SCHEMA_CACHE] = schema;
  }
  struct tg__track_key key = {ev->pid, ev->tid, ev->pid_is_text, ev->tid_is_text};
  const size_t slot = ((uint64_t)key.pid * 31u + (uint64_t)key.tid) % TG__TRACK_CACHE;
  const struct tg__track_key *k = &P->track_cache[slot].key;
  uint32_t track = P->track_cache[slot].track;
  if (TG_UNLIKELY(track == TG_NONE || k->pid != key.pid || k->tid != key.tid || k->pid_is_text != key.pid_is_text ||
                  k->tid_is_text != key.tid_is_text))
    track = tg__intern_track(P, &key);
  const uint32_t c = ev->cat % 64;
  const uint32_t cat = TG_LIKELY(P->cat_string[c] == ev->cat && P->cat_index[c] != TG_NONE)
                           ? P->cat_index[c]
                           : tg__intern_cat(P, ev->cat);
  if (P->no_memory) return false;
  struct tg__record *r = &P->records[P->record_count++];
  *r = (struct tg__record){.ts_ns = ev->ts_ns,
                           .dur_ns = ev->dur_ns,
                           .name = ev->name,
                           .track = track,
                           .cat = (uint16_t)cat,
                           .ph = ev->ph,
                           .flags = ev->flags};
  r->args = tg__pack_args(P, schema->id, P->vals, P->val_count);
  if (TG_UNLIKELY(P->pending_count)) tg__count_anomalies(P);
  P->phases[ev->ph & 127]++;
  return !P->no_memory;
}

/* Count the anomalies of an event, and repair what can be repaired. */
static inline void check_event(struct tg__parser *P, struct event *ev, const char *at) {
  if (TG_UNLIKELY(!ev->ph)) tg__note_anomaly(P, TG__LOSS_bent_no_phase, at);
  if (TG_UNLIKELY(!(ev->seen & SEEN_NAME)) && ev->ph != 'E') tg__note_anomaly(P, TG__LOSS_bent_no_name, at);
  if (TG_UNLIKELY(ev->ts_ns == TG_NULL_INT) && ev->ph != 'M') tg__note_anomaly(P, TG__LOSS_bent_no_time, at);
  if (ev->ph == 'X' && TG_UNLIKELY(ev->dur_ns == TG_NULL_INT)) tg__note_anomaly(P, TG__LOSS_bent_no_duration, at);
  if (TG_UNLIKELY(ev->dur_ns < 0 && ev->dur_ns != TG_NULL_INT)) {
    tg__note_anomaly(P, TG__LOSS_bent_negative_duration, at);
    ev->flags |= TG__F_NEGATIVE;
    ev->dur_ns = 0;
  }
  if (TG_UNLIKELY(ev->dur_ns > 0 && ev->ts_ns > INT64_MAX - ev->dur_ns)) { /* the end would not fit */
    tg__note_anomaly(P, TG__LOSS_bent_no_duration, at);
    ev->dur_ns = TG_NULL_INT;
  }
}

/* p at the opening brace. On PARSED *pp is behind the closing one and the event is in the block's result. */
static inline enum outcome parse_event(struct tg__parser *P, const char **pp, const char *end) {
  const char *at = *pp, *p = skip_blank(at + 1);
  struct event ev = {.ts_ns = TG_NULL_INT,
                     .dur_ns = TG_NULL_INT,
                     .name = TG__K_EMPTY,
                     .cat = TG_NONE,
                     .pid = TG__K_NO_ID,
                     .tid = TG__K_NO_ID,
                     .pid_is_text = true,
                     .tid_is_text = true};
  P->val_count = P->pending_count = 0;
  if (*p != '}')
    for (;;) {
      if (*p != '"') return p >= end ? SHORT : BAD;
      p++;
      const enum outcome r = parse_member(P, &p, end, &ev);
      if (TG_UNLIKELY(r != PARSED)) return p >= end ? SHORT : r;
      p = skip_blank(p);
      if (*p == ',')
        p = skip_blank(p + 1);
      else if (*p != '}')
        return p >= end ? SHORT : BAD;
      if (*p == '}') break;
    }
  if (p >= end) return SHORT;
  check_event(P, &ev, at);
  if (!store_event(P, &ev, at)) {
    P->no_memory = true;
    return BAD;
  }
  *pp = p + 1;
  return PARSED;
}

/* An element that is no object: over it. */
static const char *skip_element(struct tg__parser *P, const char *p, const char *end) {
  const char *q = (*p == '"' || *p == '[') ? tg__skip_value(p, end) : p;
  if (q == p)
    while (q < end && *q != ',' && *q != ']' && *q != '{') q++;
  if (q && q < end) tg__count_loss(&P->losses, TG__LOSS_skipped_not_object, P->text_offset + (p - P->text));
  return q && q < end ? q : NULL;
}

enum tg__scan_result SCAN(struct tg__parser *P, const char *text, const char *end, const char **stop);
enum tg__scan_result SCAN(struct tg__parser *P, const char *text, const char *end, const char **stop) {
  const char *p = text;
  while (!P->no_memory) {
    p = skip_blank(p);
    *stop = p;
    if (p >= end) return TG__SCAN_CLEAN;
    if (*p == ',') {
      p++;
      continue;
    }
    if (*p == ']') return TG__SCAN_ARRAY;
    if (*p != '{') {
      p = skip_element(P, p, end);
      if (!p) return TG__SCAN_PARTIAL;
      continue;
    }
    const enum outcome r = parse_event(P, &p, end);
    if (TG_LIKELY(r == PARSED)) continue;
    if (r == SHORT) return TG__SCAN_PARTIAL;
    const char *next = tg__find_event(*stop + 1, text, end); /* a damaged event costs itself only */
    if (!next) return TG__SCAN_DAMAGED;
    tg__count_loss(&P->losses, TG__LOSS_skipped_syntax, P->text_offset + (*stop - P->text));
    p = next;
  }
  return TG__SCAN_PARTIAL;
}
