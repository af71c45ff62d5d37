/* args_pack: a block of packed args with the values of each field apart.
 *
 *   payload   three packed arrays, each behind its length (32 bits):
 *             the schema id of every entry; the byte length of every stream; the streams
 *   stream    all values of one field of one schema in this block: a byte that says how, then varints. VALUES: each
 *             as it stands in the entry. DIFFERENCES: zigzag of the difference to the value before, the first to 0
 *
 * Streams come in the order in which the block first uses their schemas, then by field; a decimal number has two,
 * decimals before digits; true, false and null have none. */
#include "trace/tables.h"

enum { VALUES, DIFFERENCES };
enum { SCHEMA_ID_BYTES = 3, VARINT_MAX = 10, ENTRY_ALIGN = 4 };

/* ---- one entry ------------------------------------------------------------------------------- */

static inline uint64_t zigzag(uint64_t v) { return v << 1 ^ (0 - (v >> 63)); }
static inline uint64_t unzigzag(uint64_t v) { return v >> 1 ^ (0 - (v & 1)); }

/* A varint in its shortest form. NULL when it is not, or the bytes end. */
static inline const uint8_t *varint_take(const uint8_t *p, const uint8_t *end, uint64_t *out) {
  uint64_t v = 0;
  for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
    const uint64_t part = *p & 0x7f;
    if (shift == 63 && part > 1) return NULL;
    v |= part << shift;
    if (*p++ >= 0x80) continue;
    *out = v;
    return part || shift == 0 ? p : NULL;
  }
  return NULL;
}

static inline uint8_t *varint_put(uint8_t *p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
}

static inline unsigned varint_length(uint64_t v) { return (63u - (unsigned)__builtin_clzll(v | 1)) / 7 + 1; }

static unsigned streams_of_kind(unsigned kind) {
  switch (kind) {
  case TG__KIND_DEC:
    return 2;
  case TG__KIND_INT:
  case TG__KIND_STR:
  case TG__KIND_RAW:
    return 1;
  default:
    return 0;
  }
}

static bool kind_is_signed(unsigned kind) { return kind == TG__KIND_INT || kind == TG__KIND_DEC; }

/* Behind the entry at p; its schema id, and its values in the order of its streams when `values` is not NULL,
 * `apart` from each other. NULL when it is not an entry in its shortest form. */
static const uint8_t *entry_take(const struct tg__columns *t, const uint8_t *p, const uint8_t *end, uint32_t *id,
                                 uint64_t *values, size_t apart) {
  const uint8_t *const start = p;
  if (end - p < SCHEMA_ID_BYTES) return NULL;
  *id = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
  if (*id >= t->schema_count) return NULL;
  const struct tg__schema *const s = &t->schemas[*id];
  uint64_t v;
  p += SCHEMA_ID_BYTES;
  for (uint16_t i = 0; i < s->count; i++) {
    const unsigned streams = streams_of_kind(s->fields[i].kind);
    if (streams == 0) continue;
    if (streams == 2) {
      if (p == end) return NULL;
      if (values) *values = *p, values += apart;
      p++;
    }
    if (!(p = varint_take(p, end, &v))) return NULL;
    if (values) *values = v, values += apart;
  }
  for (; (p - start) % ENTRY_ALIGN; p++) {
    if (p == end || *p) return NULL;
  }
  return p;
}

uint64_t tg__args_block_end(const struct tg__columns *t, uint64_t from) {
  const uint64_t left = t->args_bytes - from;
  const uint8_t *p = t->args + from;
  const uint8_t *const end = p + left, *const most = p + (left < TACHO_ARGS_BLOCK ? left : TACHO_ARGS_BLOCK);
  while (p < most) {
    uint32_t id;
    const uint8_t *const next = entry_take(t, p, end, &id, NULL, 0);
    if (!next) return 0;
    if (next > most) break;
    p = next;
  }
  return (uint64_t)(p - t->args) > from ? (uint64_t)(p - t->args) : 0; /* 0: one entry of more than a block */
}

/* ---- packing --------------------------------------------------------------------------------- */

struct packing {
  const struct tg__columns *trace;
  uint32_t *ids;   /* of the entries */
  uint32_t *used;  /* the schemas, as first met */
  uint32_t *count; /* entries per schema */
  uint64_t *first; /* per schema: place of its values in `values`; a stream's values are `count` long */
  uint64_t *values;
  uint32_t *lengths; /* of the streams */
  uint8_t *tokens;
  uint32_t entries, used_count, streams;
  size_t token_bytes;
};

static uint32_t streams_of_schema(const struct tg__schema *s) {
  uint32_t n = 0;
  for (uint16_t i = 0; i < s->count; i++) n += streams_of_kind(s->fields[i].kind);
  return n;
}

/* First pass: which schemas, how many entries of each. The block consists of entries: tg__args_block_end has seen
 * them. */
static void count_entries(struct packing *w, const uint8_t *block, const uint8_t *end) {
  for (const uint8_t *p = block; p && p < end;) {
    uint32_t id;
    p = entry_take(w->trace, p, end, &id, NULL, 0);
    if (!p) break;
    w->ids[w->entries++] = id;
    if (w->count[id]++ == 0) w->used[w->used_count++] = id;
  }
}

/* Second pass: sort the values into streams. */
static bool gather_packed(struct packing *w, const uint8_t *block, uint32_t bytes) {
  const uint8_t *const end = block + bytes;
  uint64_t total = 0;
  count_entries(w, block, end);
  for (uint32_t u = 0; u < w->used_count; u++) {
    const uint32_t k = w->used[u], streams = streams_of_schema(&w->trace->schemas[k]);
    w->first[k] = total;
    total += (uint64_t)w->count[k] * streams;
    w->streams += streams;
  }
  w->values = tg__realloc(NULL, (size_t)(total + 1) * sizeof *w->values);
  const uint8_t *p = block;
  for (uint32_t i = 0; w->values && i < w->entries; i++) {
    uint32_t id = w->ids[i];
    p = entry_take(w->trace, p, end, &id, w->values + w->first[id]++, w->count[id]);
  }
  for (uint32_t u = 0; u < w->used_count; u++) w->first[w->used[u]] -= w->count[w->used[u]];
  return w->values;
}

/* Write one stream the shorter way. */
static void put_stream(struct packing *w, uint32_t *n, const uint64_t *v, uint32_t count, bool is_signed) {
  uint64_t plain = 0, differences = 0, before = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t here = is_signed ? unzigzag(v[i]) : v[i];
    plain += varint_length(v[i]);
    differences += varint_length(zigzag(here - before));
    before = here;
  }
  uint8_t *const start = w->tokens + w->token_bytes, *p = start;
  const bool as_values = plain <= differences;
  *p++ = as_values ? VALUES : DIFFERENCES;
  before = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t here = is_signed ? unzigzag(v[i]) : v[i];
    p = varint_put(p, as_values ? v[i] : zigzag(here - before));
    before = here;
  }
  w->lengths[(*n)++] = (uint32_t)(p - start);
  w->token_bytes += (size_t)(p - start);
}

static void put_streams(struct packing *w) {
  uint32_t n = 0;
  for (uint32_t u = 0; u < w->used_count; u++) {
    const uint32_t k = w->used[u], count = w->count[k];
    const struct tg__schema *const s = &w->trace->schemas[k];
    const uint64_t *v = w->values + w->first[k];
    for (uint16_t i = 0; i < s->count; i++) {
      const unsigned kind = s->fields[i].kind, streams = streams_of_kind(kind);
      if (streams == 2) {
        put_stream(w, &n, v, count, false);
        v += count;
      }
      if (streams) {
        put_stream(w, &n, v, count, kind_is_signed(kind));
        v += count;
      }
    }
  }
}

static size_t put_array(uint8_t *out, const void *values, uint32_t rows, uint8_t width, uint8_t transform,
                        uint8_t *scratch) {
  const size_t len =
      tg__array_pack(values, rows, (struct tg__packing_plan){.width = width, .transform = transform}, scratch, out + 4);
  tg__set32(out, (uint32_t)len);
  return 4 + len;
}

static uint8_t *put_payload(struct packing *w, size_t *len) {
  const size_t ids = tg__array_room(w->entries, 4), lengths = tg__array_room(w->streams, 4),
               tokens = tg__array_room((uint32_t)w->token_bytes, 1);
  uint8_t *const scratch = tg__realloc(NULL, ids + lengths + tokens);
  uint8_t *const out = tg__realloc(NULL, ids + lengths + tokens + 12);
  if (scratch && out) {
    size_t n = put_array(out, w->ids, w->entries, 4, TG_T_VARINT, scratch);
    n += put_array(out + n, w->lengths, w->streams, 4, TG_T_VARINT, scratch);
    *len = n + put_array(out + n, w->tokens, (uint32_t)w->token_bytes, 1, 0, scratch);
  }
  tg__free(scratch);
  if (scratch) return out;
  tg__free(out);
  return NULL;
}

uint8_t *tg__args_pack(const struct tg__columns *t, const uint8_t *block, uint32_t bytes, size_t *len) {
  const size_t schemas = t->schema_count + (size_t)1;
  struct packing w = {.trace = t,
                      .ids = tg__realloc(NULL, (bytes / ENTRY_ALIGN + (size_t)1) * sizeof *w.ids),
                      .used = tg__realloc(NULL, (bytes / ENTRY_ALIGN + (size_t)1) * sizeof *w.used),
                      .count = tg__alloc(schemas * sizeof *w.count),
                      .first = tg__alloc(schemas * sizeof *w.first)};
  uint8_t *payload = NULL;
  if (!w.ids || !w.used || !w.count || !w.first || !gather_packed(&w, block, bytes)) goto done;
  w.lengths = tg__realloc(NULL, (w.streams + (size_t)1) * sizeof *w.lengths);
  w.tokens = tg__realloc(NULL, (size_t)bytes + w.streams +
                                   VARINT_MAX); /* never longer than the values, but for the byte in front */
  if (!w.lengths || !w.tokens) goto done;
  put_streams(&w);
  payload = put_payload(&w, len);
done:
  tg__free(w.ids);
  tg__free(w.used);
  tg__free(w.count);
  tg__free(w.first);
  tg__free(w.values);
  tg__free(w.lengths);
  tg__free(w.tokens);
  return payload;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

struct stream {
  const uint8_t *p, *end;
  uint64_t before;
  bool as_values, is_signed;
};
struct unpacking {
  const struct tg__columns *trace;
  uint32_t *ids, *lengths, *first; /* first: per schema, number of its first stream + 1; 0 = not in this block */
  uint8_t *tokens, *scratch;
  struct stream *streams;
  uint32_t entries, stream_count, token_bytes;
};

/* The next array of the payload, in memory of its own. */
static enum tg_err take_array(struct tg__bytes *b, unsigned width, uint8_t **scratch, void *to, uint32_t *rows) {
  void *values = NULL;
  const uint32_t len = tg__bytes_take32(b);
  const uint8_t *const array = tg__bytes_take(b, len);
  if (!array || !tg__array_rows(array, len, width, rows)) return TG_DAMAGED;
  values = tg__realloc(NULL, ((size_t)*rows + 1) * width);
  uint8_t *const more = tg__realloc(*scratch, tg__array_room(*rows, width));
  memcpy(to, &values, sizeof values);
  if (more) *scratch = more;
  if (!values || !more) return TG_MEMORY;
  return tg__array_unpack(array, len, values, *rows, width, 0, *scratch);
}

static enum tg_err take_arrays(struct unpacking *w, struct tg__bytes *b) {
  enum tg_err err = take_array(b, 4, &w->scratch, &w->ids, &w->entries);
  if (!err) err = take_array(b, 4, &w->scratch, &w->lengths, &w->stream_count);
  if (!err) err = take_array(b, 1, &w->scratch, &w->tokens, &w->token_bytes);
  if (!err && b->p != b->end) err = TG_DAMAGED;
  return err;
}

static bool begin_stream(struct unpacking *w, uint32_t n, bool is_signed, size_t *at) {
  if (n >= w->stream_count || w->lengths[n] == 0 || w->lengths[n] > w->token_bytes - *at ||
      w->tokens[*at] > DIFFERENCES)
    return false;
  const uint8_t *const p = w->tokens + *at;
  w->streams[n] =
      (struct stream){.p = p + 1, .end = p + w->lengths[n], .as_values = *p == VALUES, .is_signed = is_signed};
  *at += w->lengths[n];
  return true;
}

static bool begin_schema(struct unpacking *w, const struct tg__schema *s, uint32_t *n, size_t *at) {
  for (uint16_t i = 0; i < s->count; i++) {
    const unsigned kind = s->fields[i].kind, streams = streams_of_kind(kind);
    if (streams == 2 && !begin_stream(w, (*n)++, false, at)) return false;
    if (streams && !begin_stream(w, (*n)++, kind_is_signed(kind), at)) return false;
  }
  return true;
}

/* Find the streams of all schemas that the block uses. */
static bool begin_streams(struct unpacking *w) {
  uint32_t n = 0;
  size_t at = 0;
  for (uint32_t i = 0; i < w->entries; i++) {
    const uint32_t k = w->ids[i];
    if (k >= w->trace->schema_count) return false;
    if (w->first[k]) continue;
    w->first[k] = n + 1;
    if (!begin_schema(w, &w->trace->schemas[k], &n, &at)) return false;
  }
  return n == w->stream_count && at == w->token_bytes;
}

static inline bool next_value(struct stream *s, uint64_t *v) {
  if (!(s->p = varint_take(s->p, s->end, v))) {
    s->p = s->end; /* whatever is asked next fails too */
    return false;
  }
  if (s->as_values) return true;
  s->before += unzigzag(*v);
  *v = s->is_signed ? zigzag(s->before) : s->before;
  return true;
}

/* Write the next entry of a schema; NULL when there is no room or a stream has run out. */
static uint8_t *put_entry(struct unpacking *w, uint32_t id, uint8_t *p, const uint8_t *end) {
  const struct tg__schema *const s = &w->trace->schemas[id];
  struct stream *stream = w->streams + (w->first[id] - 1);
  const uint8_t *const start = p;
  uint64_t v;
  if (end - p < ENTRY_ALIGN) return NULL;
  for (int i = 0; i < SCHEMA_ID_BYTES; i++) *p++ = (uint8_t)(id >> 8 * i);
  for (uint16_t i = 0; i < s->count; i++) {
    const unsigned streams = streams_of_kind(s->fields[i].kind);
    if (streams == 0) continue;
    if (streams == 2) {
      if (!next_value(stream++, &v) || v > 255 || p == end) return NULL;
      *p++ = (uint8_t)v;
    }
    if (!next_value(stream++, &v) || end - p < varint_length(v)) return NULL;
    p = varint_put(p, v);
  }
  for (; (p - start) % ENTRY_ALIGN; *p++ = 0) {
    if (p == end) return NULL;
  }
  return p;
}

static bool put_entries(struct unpacking *w, uint8_t *block, uint32_t bytes) {
  uint8_t *p = block;
  const uint8_t *const end = block + bytes;
  for (uint32_t i = 0; i < w->entries; i++) {
    if (!(p = put_entry(w, w->ids[i], p, end))) return false;
  }
  for (uint32_t i = 0; i < w->stream_count; i++) {
    if (w->streams[i].p != w->streams[i].end) return false;
  }
  return p == end;
}

enum tg_err tg__args_unpack(const struct tg__columns *t, const uint8_t *payload, uint64_t len, uint8_t *block,
                            uint32_t bytes) {
  struct unpacking w = {.trace = t, .first = tg__alloc((t->schema_count + (size_t)1) * sizeof *w.first)};
  enum tg_err err = w.first ? take_arrays(&w, &(struct tg__bytes){.p = payload, .end = payload + len}) : TG_MEMORY;
  if (err) goto done;
  w.streams = tg__alloc((w.stream_count + (size_t)1) * sizeof *w.streams);
  if (!w.streams) {
    err = TG_MEMORY;
  } else if (!begin_streams(&w) || !put_entries(&w, block, bytes)) {
    err = TG_DAMAGED;
  }
done:
  tg__free(w.first);
  tg__free(w.ids);
  tg__free(w.lengths);
  tg__free(w.tokens);
  tg__free(w.scratch);
  tg__free(w.streams);
  return err;
}
