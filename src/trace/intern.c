/* intern: what all workers of an import share, and the slow halves of their caches. One lock guards it; a worker
 * comes here once per distinct string, track, category or schema, so it is hardly ever held. */
#include "trace/import.h"

const struct tg__loss_info tg__loss_info[TG__LOSS_COUNT] = {
#define LOSS(name, kind, meaning) {#name, meaning, TG__LOSS_##kind},
#include "trace/losses.def"
#undef LOSS
};

void tg__count_loss(struct tg__losses *l, enum tg__loss what, int64_t offset) {
  if (l->count[what]++ == 0 || offset < l->offset[what]) l->offset[what] = offset;
}

void tg__losses_add(struct tg__losses *into, const struct tg__losses *from) {
  for (int i = 0; i < TG__LOSS_COUNT; i++) {
    if (!from->count[i]) continue;
    if (!into->count[i] || from->offset[i] < into->offset[i]) into->offset[i] = from->offset[i];
    into->count[i] += from->count[i];
  }
}

void tg__note_anomaly(struct tg__parser *p, enum tg__loss what, const char *at) {
  if (p->pending_count == TG__PENDING) return; /* more than 64 anomalies in one event: the rest is not counted */
  p->pending[p->pending_count].what = what;
  p->pending[p->pending_count++].offset = p->text_offset + (at - p->text);
}

void tg__count_anomalies(struct tg__parser *p) {
  for (size_t i = 0; i < p->pending_count; i++) tg__count_loss(&p->losses, p->pending[i].what, p->pending[i].offset);
  p->pending_count = 0;
}

/* ---- a worker -------------------------------------------------------------------------------- */

bool tg__parser_init(struct tg__parser *p, struct tg__shared *s) {
  memset(p, 0, sizeof *p);
  p->shared = s;
  for (int i = 0; i < TG__TRACK_CACHE; i++) p->track_cache[i].track = TG_NONE;
  for (int i = 0; i < 64; i++) p->cat_index[i] = TG_NONE;
  for (int i = 0; i < TG__STRING_CACHE; i++) p->strings[i].len = UINT32_MAX;
  return tg__grow((void **)&p->vals, &p->val_cap, TG__ROW_MOST, sizeof *p->vals);
}

void tg__parser_reset(struct tg__parser *p) {
  p->record_count = p->pool_len = p->pending_count = 0;
  memset(&p->losses, 0, sizeof p->losses);
  memset(p->phases, 0, sizeof p->phases);
}

void tg__parser_free(struct tg__parser *p) {
  tg__free(p->vals);
  tg__free(p->scratch);
  tg__free(p->records);
  tg__free(p->pool);
}

/* ---- strings --------------------------------------------------------------------------------- */

uint32_t tg__intern_string(struct tg__parser *p, const char *text, size_t len, uint64_t hash) {
  struct tg__strings *s = p->shared->trace->strings;
  const uint32_t id = tg__strings_add_hashed(s, text, len, hash);
  if (id == TG_NONE) {
    p->no_memory = true;
    return id;
  }
  const size_t slot = (hash >> 17) % TG__STRING_CACHE;
  p->strings[slot].hash = hash;
  p->strings[slot].ptr = tg__strings_get(s, id).ptr;
  p->strings[slot].len = (uint32_t)len;
  p->strings[slot].id = id;
  return id;
}

static int hex4(const char *p, const char *end) { /* -1 unless four hexadecimal digits stand here */
  int v = 0;
  if (end - p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    const char c = p[i];
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                               : -1;
    if (digit < 0) return -1;
    v = v << 4 | digit;
  }
  return v;
}

static char *put_utf8(char *o, int c) {
  if (c < 0x80)
    *o++ = (char)c;
  else if (c < 0x800)
    *o++ = (char)(0xc0 | c >> 6), *o++ = (char)(0x80 | (c & 0x3f));
  else if (c < 0x10000)
    *o++ = (char)(0xe0 | c >> 12), *o++ = (char)(0x80 | (c >> 6 & 0x3f)), *o++ = (char)(0x80 | (c & 0x3f));
  else
    *o++ = (char)(0xf0 | c >> 18), *o++ = (char)(0x80 | (c >> 12 & 0x3f)), *o++ = (char)(0x80 | (c >> 6 & 0x3f)),
    *o++ = (char)(0x80 | (c & 0x3f));
  return o;
}

/* The escape at p (a backslash). A lone surrogate half is kept as the three bytes its number would have. */
static const char *decode_escape(struct tg__parser *ps, const char *p, const char *end, char **out) {
  static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  const char *which = p + 1 < end && p[1] ? strchr(plain, p[1]) : NULL;
  if (which) {
    *(*out)++ = means[which - plain];
    return p + 2;
  }
  int c = p + 1 < end && p[1] == 'u' ? hex4(p + 2, end) : -1;
  if (c < 0) { /* \p and the like: the backslash was meant as one */
    tg__note_anomaly(ps, TG__LOSS_bent_escape, p);
    *(*out)++ = '\\';
    return p + 1;
  }
  p += 6;
  if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
    const int low = hex4(p + 2, end);
    if (low >= 0xdc00 && low < 0xe000) c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00), p += 6;
  }
  if (c >= 0xd800 && c < 0xe000) tg__note_anomaly(ps, TG__LOSS_bent_surrogate, p - 6);
  *out = put_utf8(*out, c);
  return p;
}

uint32_t tg__intern_escaped(struct tg__parser *ps, const char *raw, const char *end) {
  if (!tg__grow((void **)&ps->scratch, &ps->scratch_cap, (size_t)(end - raw) + 8, 1)) {
    ps->no_memory = true;
    return TG_NONE;
  }
  char *o = ps->scratch;
  bool control = false, bad = false;
  for (const char *p = raw; p < end;) {
    const unsigned char c = (unsigned char)*p;
    if (c == '\\') {
      p = decode_escape(ps, p, end, &o);
      continue;
    }
    if (c < 0x20) control = true;
    const unsigned n = c < 0x80 ? 1 : tg__utf8_length((const unsigned char *)p, (size_t)(end - p));
    if (n == 0) bad = true;
    memcpy(o, p, n ? n : 1);
    o += n ? n : 1;
    p += n ? n : 1;
  }
  if (control) tg__note_anomaly(ps, TG__LOSS_bent_control, raw);
  if (bad) tg__note_anomaly(ps, TG__LOSS_bent_bad_utf8, raw);
  return tg__intern_string(ps, ps->scratch, (size_t)(o - ps->scratch),
                           tg__hash(ps->scratch, (size_t)(o - ps->scratch)));
}

/* ---- tracks ---------------------------------------------------------------------------------- */

static bool same_track(const struct tg__track_key *a, const struct tg__track_key *b) {
  return a->pid == b->pid && a->tid == b->tid && a->pid_is_text == b->pid_is_text && a->tid_is_text == b->tid_is_text;
}

uint32_t tg__intern_track(struct tg__parser *p, const struct tg__track_key *key) {
  struct tg__shared *s = p->shared;
  uint32_t track = TG_NONE;
  uint64_t hash = tg__hash(&key->pid, 8) * 31 + tg__hash(&key->tid, 8) + key->pid_is_text * 2u + key->tid_is_text;
  tg__lock_take(s->lock);
  for (;; hash++) { /* chained through the next hash */
    track = tg__map_get(&s->track_index, hash);
    if (track == TG_NONE || same_track(&s->tracks[track], key)) break;
  }
  if (track == TG_NONE && tg__grow((void **)&s->tracks, &s->track_cap, s->track_count + 1, sizeof *s->tracks) &&
      tg__map_put(&s->track_index, hash, (uint32_t)s->track_count)) {
    track = (uint32_t)s->track_count++;
    s->tracks[track] = *key;
  }
  tg__lock_drop(s->lock);
  if (track == TG_NONE) p->no_memory = true;
  const size_t slot = ((uint64_t)key->pid * 31u + (uint64_t)key->tid) % TG__TRACK_CACHE;
  p->track_cache[slot].key = *key;
  p->track_cache[slot].track = track;
  return track;
}

/* ---- categories ------------------------------------------------------------------------------ */

static enum tg__class class_of(struct tg__str cat) {
  static const struct {
    const char *text;
    enum tg__class cls;
  } known[] = {
#define CATEGORY(text, cls) {text, TG__CLASS_##cls},
#include "trace/categories.def"
#undef CATEGORY
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (tg__str_eq_nocase(cat, known[i].text)) return known[i].cls;
  static const char *const host_calls[] = {"_runtime", "_driver"};
  for (size_t i = 0; i < 2; i++) {
    const size_t n = strlen(host_calls[i]);
    if (cat.len > n && tg__str_eq_nocase((struct tg__str){cat.ptr + cat.len - n, (uint32_t)n}, host_calls[i]))
      return TG__CLASS_RUNTIME;
  }
  return TG__CLASS_OTHER;
}

uint32_t tg__intern_cat(struct tg__parser *p, uint32_t string_id) {
  struct tg__shared *s = p->shared;
  struct tg__columns *t = s->trace;
  uint32_t cat = TG_NONE;
  tg__lock_take(s->lock);
  for (uint32_t i = 0; i < t->cat_count && cat == TG_NONE; i++)
    if (t->cats[i].name == string_id) cat = i;
  if (cat == TG_NONE && t->cat_count == UINT16_MAX)
    cat = UINT16_MAX - 1; /* more categories than any trace means: lump the rest */
  if (cat == TG_NONE && tg__grow((void **)&t->cats, &s->cat_cap, t->cat_count + 1, sizeof *t->cats)) {
    cat = t->cat_count++;
    t->cats[cat] = (struct tg__cat){string_id, TG__CLASS_OTHER};
    if (string_id != TG_NONE) t->cats[cat].cls = (uint8_t)class_of(tg__name(t, string_id));
  }
  tg__lock_drop(s->lock);
  if (cat == TG_NONE) p->no_memory = true;
  p->cat_string[string_id % 64] = string_id;
  p->cat_index[string_id % 64] = cat;
  return cat;
}

/* ---- schemas --------------------------------------------------------------------------------- */

static bool same_fields(const struct tg__guess *g, bool has_args, const struct tg__packed_val *vals, size_t count) {
  if (g->count != count || g->has_args != has_args) return false;
  for (size_t i = 0; i < count; i++)
    if (g->fields[i].key != vals[i].key || g->fields[i].kind != vals[i].kind || g->fields[i].top != vals[i].top)
      return false;
  return true;
}

/* Keys with an anomaly take the slow path each time, so that it is counted each time. */
static bool is_plain(struct tg__str key) {
  for (uint32_t i = 0; i < key.len; i++)
    if (key.ptr[i] < 0x20 || key.ptr[i] > 0x7e || key.ptr[i] == '"' || key.ptr[i] == '\\') return false;
  return true;
}

static struct tg__guess *new_schema(struct tg__shared *s, bool has_args, const struct tg__packed_val *vals,
                                    size_t count) {
  struct tg__columns *t = s->trace;
  struct tg__guess *g = tg__arena_get(&t->arena, sizeof *g + count * sizeof *g->fields);
  struct tg__field *fields = tg__arena_get(&t->arena, count * sizeof *fields);
  if (!g || !fields || !tg__grow((void **)&t->schemas, &s->schema_cap, t->schema_count + 1, sizeof *t->schemas) ||
      !tg__grow((void **)&s->guesses, &s->guess_cap, t->schema_count + 1, sizeof *s->guesses))
    return NULL;
  *g = (struct tg__guess){.id = t->schema_count, .count = (uint32_t)count, .has_args = has_args};
  for (size_t i = 0; i < count; i++) {
    const struct tg__str k = tg__name(t, vals[i].key);
    struct tg__guess_field *f = &g->fields[i];
    *f = (struct tg__guess_field){.text = k.ptr,
                                  .len = is_plain(k) ? k.len : UINT32_MAX,
                                  .key = vals[i].key,
                                  .kind = vals[i].kind,
                                  .top = vals[i].top};
    memcpy(&f->head, k.ptr, k.len < 8 ? k.len : 8);
    if (k.len < 8)
      memset(&f->mask, 0xff, k.len);
    else
      memcpy(&f->tail, k.ptr + k.len - 8, 8);
    fields[i] = (struct tg__field){vals[i].key, vals[i].kind, vals[i].top};
  }
  s->guesses[t->schema_count] = g;
  t->schemas[t->schema_count++] = (struct tg__schema){(uint16_t)count, has_args, fields};
  return g;
}

const struct tg__guess *tg__intern_schema(struct tg__parser *p, bool has_args, const struct tg__packed_val *vals,
                                          size_t count) {
  struct tg__shared *s = p->shared;
  if (count > UINT16_MAX) count = UINT16_MAX; /* an object of 65 536 keys is no event; the rest is cut with it */
  uint32_t near = has_args;                   /* a cheap number for the cache in front: fields are compared anyway */
  for (size_t i = 0; i < count; i++) near += (vals[i].key << 3 | (unsigned)vals[i].kind) * (uint32_t)(2 * i + 1);
  const struct tg__guess **local = &p->known_schema[near % TG__SCHEMA_CACHE];
  if (*local && same_fields(*local, has_args, vals, count)) return *local;
  uint64_t hash = has_args;
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ (((uint64_t)vals[i].key << 4) | (unsigned)vals[i].kind << 1 | vals[i].top)) * 0x9e3779b97f4a7c15u,
    hash ^= hash >> 29;
  const struct tg__guess *g = NULL;
  tg__lock_take(s->lock);
  for (;; hash++) { /* chained through the next hash */
    const uint32_t id = tg__map_get(&s->schema_index, hash);
    if (id == TG_NONE) {
      struct tg__guess *fresh = new_schema(s, has_args, vals, count);
      if (fresh && tg__map_put(&s->schema_index, hash, fresh->id)) g = fresh;
      break;
    }
    if (same_fields(s->guesses[id], has_args, vals, count)) {
      g = s->guesses[id];
      break;
    }
  }
  tg__lock_drop(s->lock);
  if (!g)
    p->no_memory = true;
  else
    *local = g;
  return g;
}
