/* import_raw: a .tacho file as the recorder left it, killed or not. Its records go the way of events read from JSON: they become
 * import records, and build.c makes columns of them. */
#include "trace/import.h"
#include "trace/tacho.h"

enum { STACK_MAX = 128 }; /* frames of one call stack: what the recorder collects at most */

struct clock_pair {
  uint64_t ticks;
  int64_t wall_ns;
};
struct raw_import {
  struct tg_trace *trace;
  struct tg__tacho *file;
  struct tg__import im;
  struct tg__parser *parser;
  struct tg__map names[5];  /* per kind of dictionary: thread and id → string id */
  struct tg__map parents;   /* of stack frames: thread and id → the caller's id */
  struct tg__map stacks;    /* thread and id → string id of the whole stack */
  struct clock_pair *clock; /* ascending */
  size_t clock_count, clock_cap;
};

static uint32_t intern(struct raw_import *w, struct tg__str text) {
  const uint32_t id = tg__strings_add(w->trace->strings, text.ptr, text.len);
  if (id == TG_NONE) w->parser->no_memory = true;
  return id;
}

/* The payload of a chunk in memory of its own; NULL when it cannot be read or is damaged, which is counted. */
static uint8_t *fetch(struct raw_import *w, const struct tg__chunk *c) {
  uint8_t *const payload = tg__realloc(NULL, (size_t)c->length + 1);
  if (!payload) {
    w->parser->no_memory = true;
    return NULL;
  }
  const struct tg__reader *const r = &w->file->reader;
  if (r->read(r->ctx, c->offset + TG_CHUNK_HEAD_BYTES, payload, (size_t)c->length) && tg__chunk_is_intact(c, payload)) return payload;
  tg__tacho_lose(w->file, 1, c->offset);
  tg__free(payload);
  return NULL;
}

/* ---- dictionaries ---------------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(uint32_t thread, uint32_t id) { return (uint64_t)thread << 32 | id; }

/* An id of a thread, else of all threads; TG_NONE when the file does not have it. */
static uint32_t look_up(const struct tg__map *m, uint32_t thread, uint32_t id) {
  const uint32_t own = tg__map_get(m, key_of(thread, id));
  return own != TG_NONE ? own : tg__map_get(m, key_of(TG_RAW_EVERY_THREAD, id));
}

/* Is this one JSON value and nothing else? It will be written out as it is. */
static bool is_json(struct raw_import *w, const char *text, size_t len) {
  char *const padded = tg__alloc(len + TG__TEXT_PAD);
  if (!padded) {
    w->parser->no_memory = true;
    return false;
  }
  memcpy(padded, text, len);
  padded[len] = ','; /* ends a number; the zeros behind it end a string */
  const bool whole = len && tg__skip_value(padded, padded + len + 1) == padded + len;
  tg__free(padded);
  return whole;
}

/* A member of the document; the file says of itself what a Kineto trace would. */
static void take_meta(struct raw_import *w, const struct tg__chunk *c, struct tg__str text) {
  const char *const zero = memchr(text.ptr, 0, text.len);
  struct tg__import *const im = &w->im;
  if (!zero || !is_json(w, zero + 1, (size_t)(text.ptr + text.len - zero - 1))) {
    tg__tacho_lose(w->file, 1, c->offset);
    return;
  }
  const uint32_t name_len = (uint32_t)(zero - text.ptr);
  const struct tg__meta meta = {.key = intern(w, (struct tg__str){text.ptr, name_len}),
                                .raw = intern(w, (struct tg__str){zero + 1, text.len - name_len - 1})};
  if (!tg__grow((void **)&im->meta, &im->meta_cap, im->meta_count + 1, sizeof *im->meta)) {
    w->parser->no_memory = true;
    return;
  }
  im->meta[im->meta_count++] = meta;
}

static void take_dictionary(struct raw_import *w, const struct tg__chunk *c, const uint8_t *payload) {
  struct tg__bytes b = {.p = payload, .end = payload + c->length};
  const uint32_t kind = tg__take32(&b);
  struct tg__raw_entry entry;
  tg__take32(&b);
  if (b.broken || kind > TG_RAW_D_META) {
    tg__tacho_lose(w->file, 1, c->offset);
    return;
  }
  while (tg__raw_entry_take(&b, &entry)) {
    if (kind == TG_RAW_D_META) {
      take_meta(w, c, entry.text);
      continue;
    }
    if (kind == TG_RAW_D_SHAPE && !is_json(w, entry.text.ptr, entry.text.len)) {
      tg__tacho_lose(w->file, 1, c->offset);
      continue;
    }
    const uint64_t key = key_of(c->part, entry.id);
    bool kept = tg__map_put(&w->names[kind], key, intern(w, entry.text));
    if (kind == TG_RAW_D_STACK) kept = kept && tg__map_put(&w->parents, key, entry.parent);
    if (!kept) w->parser->no_memory = true;
  }
  if (b.broken) tg__tacho_lose(w->file, 1, c->offset);
}

/* Frames from the innermost to the outermost, separated by ';'. */
static uint32_t whole_stack(struct raw_import *w, uint32_t thread, uint32_t id) {
  const uint32_t known = tg__map_get(&w->stacks, key_of(thread, id));
  if (known != TG_NONE) return known;
  struct tg__out text = {0};
  uint32_t frame = id;
  for (int depth = 0; depth < STACK_MAX && frame != 0; depth++) { /* bounded: a hostile file may run in circles */
    const uint32_t name = look_up(&w->names[TG_RAW_D_STACK], thread, frame);
    if (name == TG_NONE) break;
    const struct tg__str s = tg__name(w->trace, name);
    if (depth) tg__out_char(&text, ';');
    tg__out_bytes(&text, s.ptr, s.len);
    frame = look_up(&w->parents, thread, frame);
  }
  const uint32_t whole = text.err ? TG_NONE : intern(w, (struct tg__str){text.len ? text.buf : "", (uint32_t)text.len});
  if (whole == TG_NONE || !tg__map_put(&w->stacks, key_of(thread, id), whole)) w->parser->no_memory = true;
  tg__out_free(&text);
  return whole;
}

/* ---- clock ----------------------------------------------------------------------------------------------------------------------- */

static void take_clock(struct raw_import *w, const struct tg__chunk *c, const uint8_t *payload) {
  for (uint64_t at = 0; c->length - at >= TG_RAW_CLOCK_BYTES; at += TG_RAW_CLOCK_BYTES) {
    const struct clock_pair pair = {tg__get64(payload + at), (int64_t)tg__get64(payload + at + 8)};
    const struct clock_pair *const last = w->clock_count ? &w->clock[w->clock_count - 1] : NULL;
    if (pair.wall_ns < 0 || (last && (pair.ticks <= last->ticks || pair.wall_ns <= last->wall_ns))) { /* set back: keep to what was */
      tg__tacho_lose(w->file, 1, c->offset);
      return;
    }
    if (!tg__grow((void **)&w->clock, &w->clock_cap, w->clock_count + 1, sizeof *w->clock)) {
      w->parser->no_memory = true;
      return;
    }
    w->clock[w->clock_count++] = pair;
  }
}

/* Ticks to ns, along the line through the two pairs around them (or the nearest two). Ticks are ns where the file says nothing. */
static bool wall_ns(const struct raw_import *w, uint64_t ticks, int64_t *ns) {
  static const struct clock_pair origin = {0, 0};
  const struct clock_pair *a = &origin;
  uint64_t span_ticks = 1;
  int64_t span_ns = 1;
  size_t low = 0, high = w->clock_count;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (w->clock[middle].ticks <= ticks) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (w->clock_count) a = &w->clock[low + 2 <= w->clock_count || low == 0 ? low : low - 1];
  if (w->clock_count > 1) {
    span_ticks = a[1].ticks - a->ticks;
    span_ns = a[1].wall_ns - a->wall_ns;
  }
  const __int128 from = (__int128)ticks - a->ticks; /* below 2^64, times below 2^63: fits */
  const __int128 at = a->wall_ns + (from * span_ns - (from < 0 ? (__int128)span_ticks - 1 : 0)) / (__int128)span_ticks;
  *ns = (int64_t)at;
  return at > INT64_MIN && at <= INT64_MAX;
}

static bool duration_ns(const struct raw_import *w, uint64_t start_ticks, uint64_t dur_ticks, int64_t start_ns, int64_t *out) {
  int64_t end_ns;
  if (dur_ticks > UINT64_MAX - start_ticks || !wall_ns(w, start_ticks + dur_ticks, &end_ns)) return false;
  return !__builtin_sub_overflow(end_ns, start_ns, out);
}

/* ---- records --------------------------------------------------------------------------------------------------------------------- */

static void add_value(struct tg__parser *p, uint32_t key, enum tg__kind kind, int64_t i) {
  p->vals[p->val_count++] = (struct tg__packed_val){.key = key, .kind = (uint8_t)kind, .i = i}; /* tg__parser_init made room for 64 */
}

static uint32_t pack(struct tg__parser *p) {
  const struct tg__guess *const schema = tg__intern_schema(p, true, p->vals, p->val_count);
  return schema ? tg__pack_args(p, schema->id, p->vals, p->val_count) : TG_NONE;
}

static void add_record(struct tg__parser *p, const struct tg__record *r) {
  if (!tg__grow((void **)&p->records, &p->record_cap, p->record_count + 1, sizeof *p->records)) {
    p->no_memory = true;
    return;
  }
  p->records[p->record_count++] = *r;
  p->phases[r->ph]++;
}

static uint32_t name_of(struct raw_import *w, uint32_t thread, uint32_t id, uint64_t offset) {
  const uint32_t name = look_up(&w->names[TG_RAW_D_NAME], thread, id);
  if (name != TG_NONE) return name;
  struct tg__out text = {0};
  tg__lose(&w->parser->losses, TG__LOSS_bent_no_dictionary, (int64_t)offset);
  tg__out_text(&text, "name#");
  tg__out_uint(&text, id);
  const uint32_t made = text.err ? TG_NONE : intern(w, (struct tg__str){text.buf, (uint32_t)text.len});
  if (made == TG_NONE) w->parser->no_memory = true;
  tg__out_free(&text);
  return made;
}

static const char *category_of(uint8_t scope) {
  switch (scope) {
#define RAW_SCOPE(name, number, category, meaning)                                                                                         \
  case number:                                                                                                                             \
    return category;
#include "format/events.def"
  default:
    return "cpu_op"; /* the framework's rarer scopes; ours are all listed */
  }
}

static void add_memory_args(struct tg__parser *p, const struct tg__raw_record *r) {
  add_value(p, TG__K_DEVICE_TYPE, TG__KIND_INT, 0);
  add_value(p, TG__K_ADDR, TG__KIND_INT, (int64_t)((uint64_t)r->stack << 32 | r->shape));
  add_value(p, TG__K_BYTES_MEMORY, TG__KIND_INT, (int64_t)((uint64_t)r->seq << 32 | r->dur_ticks));
}

static void add_op_args(struct raw_import *w, uint32_t thread, const struct tg__raw_record *r) {
  struct tg__parser *const p = w->parser;
  const bool backward = r->scope == TG_RAW_BACKWARD;
  if (r->seq) add_value(p, TG__K_SEQUENCE_NUMBER, TG__KIND_INT, (int64_t)r->seq - 1);
  if (backward) add_value(p, TG__K_FWD_THREAD_ID, TG__KIND_INT, r->stack);
  const uint32_t shape = r->shape ? look_up(&w->names[TG_RAW_D_SHAPE], thread, r->shape) : TG_NONE;
  if (shape != TG_NONE) add_value(p, TG__K_INPUT_DIMS, TG__KIND_RAW, shape);
  const uint32_t stack = r->stack && !backward ? whole_stack(w, thread, r->stack) : TG_NONE;
  if (stack != TG_NONE) add_value(p, TG__K_CALL_STACK, TG__KIND_STR, stack);
}

static void take_record(struct raw_import *w, uint32_t thread, uint32_t track, const struct tg__raw_record *r, uint64_t dur_ticks,
                        uint64_t offset) {
  struct tg__parser *const p = w->parser;
  const bool is_memory = r->scope == TG_RAW_MEMORY;
  const char *const category = category_of(r->scope);
  const uint32_t cat = intern(w, (struct tg__str){category, (uint32_t)strlen(category)});
  struct tg__record record = {.ts_ns = TG_NULL_INT, .dur_ns = TG_NULL_INT, .track = track, .ph = is_memory ? 'i' : 'X'};
  record.name = is_memory ? TG__K_MEMORY : name_of(w, thread, r->name, offset);
  if (!wall_ns(w, r->start_ticks, &record.ts_ns)) {
    record.ts_ns = TG_NULL_INT;
    tg__lose(&p->losses, TG__LOSS_bent_no_time, (int64_t)offset);
  } else if (!is_memory && !duration_ns(w, r->start_ticks, dur_ticks, record.ts_ns, &record.dur_ns)) {
    record.dur_ns = TG_NULL_INT;
    tg__lose(&p->losses, TG__LOSS_bent_no_duration, (int64_t)offset);
  }
  p->val_count = 0;
  if (is_memory) {
    add_memory_args(p, r);
  } else {
    add_op_args(w, thread, r);
  }
  record.cat = (uint16_t)tg__intern_cat(p, cat);
  record.args = pack(p);
  if (!p->no_memory) add_record(p, &record);
}

static void name_thread(struct raw_import *w, uint32_t thread, uint32_t track) {
  const uint32_t name = look_up(&w->names[TG_RAW_D_THREAD], TG_RAW_EVERY_THREAD, thread);
  struct tg__parser *const p = w->parser;
  if (name == TG_NONE) return;
  p->val_count = 0;
  add_value(p, TG__K_NAME, TG__KIND_STR, name);
  const struct tg__record record = {.ts_ns = TG_NULL_INT,
                                    .dur_ns = TG_NULL_INT,
                                    .name = TG__K_THREAD_NAME,
                                    .track = track,
                                    .args = pack(p),
                                    .cat = (uint16_t)tg__intern_cat(p, TG_NONE),
                                    .ph = 'M'};
  if (!p->no_memory) add_record(p, &record);
}

static void take_records(struct raw_import *w, const struct tg__chunk *c, const uint8_t *payload, bool first_of_thread) {
  struct tg__raw_chunk chunk;
  struct tg__raw_record r;
  uint64_t dur;
  bool torn;
  struct tg__parser *const p = w->parser;
  if (tg__raw_chunk_read(c, payload, &chunk)) {
    tg__tacho_lose(w->file, 1, c->offset);
    return;
  }
  const struct tg__track_key key = {.pid = chunk.head.process, .tid = chunk.head.thread};
  const uint32_t track = tg__intern_track(p, &key);
  if (chunk.head.lost) {
    tg__lose(&p->losses, TG__LOSS_skipped_no_room, (int64_t)c->offset);
    p->losses.count[TG__LOSS_skipped_no_room] += chunk.head.lost - 1;
  }
  if (first_of_thread) name_thread(w, c->part, track);
  for (uint32_t i = 0; !p->no_memory;) {
    const uint64_t offset = c->offset + TG_CHUNK_HEAD_BYTES + TG_RAW_HEAD_BYTES + (uint64_t)i * TG_RAW_RECORD_BYTES;
    if (!tg__raw_next(&chunk, &i, &r, &dur, &torn)) break;
    if (torn) tg__lose(&p->losses, TG__LOSS_bent_torn_duration, (int64_t)offset);
    if (r.scope != TG_RAW_EXTENSION) take_record(w, c->part, track, &r, dur, offset);
  }
}

/* ---- the whole file ----------------------------------------------------------------------------------------------------------------- */

static void take_chunks(struct raw_import *w, uint16_t type) {
  struct tg__tacho *const f = w->file;
  for (size_t i = 0; i < f->chunk_count && !w->parser->no_memory; i++) {
    const struct tg__chunk *const c = &f->chunks[i];
    if (c->type != type) continue;
    uint8_t *const payload = fetch(w, c);
    if (!payload) continue;
    if (type == TG_CHUNK_RAW_DICTIONARY) take_dictionary(w, c, payload);
    if (type == TG_CHUNK_RAW_CLOCK) take_clock(w, c, payload);
    if (type == TG_CHUNK_RAW_RECORDS) take_records(w, c, payload, i == 0 || c[-1].type != type || c[-1].part != c->part);
    tg__free(payload);
  }
}

/* Hand the parser's result to the import: records in pages, args as the pool. */
static bool keep_result(struct raw_import *w) {
  struct tg__parser *const p = w->parser;
  struct tg__import *const im = &w->im;
  const size_t bytes = p->record_count * sizeof *p->records;
  im->losses = p->losses;
  memcpy(im->phases, p->phases, sizeof im->phases);
  im->events_read = (int64_t)p->record_count;
  if (p->no_memory || p->pool_len / 4 >= TG_NONE) return false;
  struct tg__record *const records = tg__pages_get(bytes);
  if (!records || !tg__grow((void **)&im->segments, &im->segment_cap, 1, sizeof *im->segments) ||
      !tg__pages_grow((void **)&im->pool, &im->pool_cap, p->pool_len + 1)) {
    tg__pages_drop(records, bytes);
    return false;
  }
  if (bytes) memcpy(records, p->records, bytes);
  if (p->pool_len) memcpy(im->pool, p->pool, p->pool_len);
  im->pool_len = p->pool_len;
  im->segments[im->segment_count++] = (struct tg__segment){records, p->record_count, bytes};
  return true;
}

static enum tg_err build(struct raw_import *w, struct tg_error *e) {
  struct tg_trace *const t = w->trace;
  struct tg__build b = {.trace = t, .threads = tg__cpu_count()};
  enum tg_err err = TG_OK;
  w->im.losses.count[TG__LOSS_cut_chunks] = w->file->lost;
  w->im.losses.offset[TG__LOSS_cut_chunks] = w->file->lost_at;
  const uint32_t path = tg__strings_add(t->strings, w->file->path, strlen(w->file->path));
  if (path == TG_NONE) err = tg__fail(e, TG_MEMORY, -1, "out of memory while opening %s", w->file->path);
  if (!err) err = tg__build_rank(&b, &w->im, path, e);
  if (!err) err = tg__build_finish(&b, e);
  tg__build_hand_over(&b);
  t->args = w->im.pool;
  t->args_bytes = w->im.pool_len;
  if (tg__store_adopt(t->store, w->im.pool, w->im.pool_cap)) return err;
  tg__pages_drop(w->im.pool, w->im.pool_cap);
  t->args = NULL;
  return tg__fail(e, TG_MEMORY, -1, "out of memory while opening %s", w->file->path);
}

static void release(struct raw_import *w) {
  struct tg__import *const im = &w->im;
  for (size_t i = 0; i < im->segment_count; i++) tg__pages_drop(im->segments[i].records, im->segments[i].bytes);
  tg__free(im->segments);
  tg__free(im->meta);
  tg__free(im->shared.tracks);
  tg__free(im->shared.guesses);
  tg__map_free(&im->shared.track_index);
  tg__map_free(&im->shared.schema_index);
  tg__lock_free(im->shared.lock);
  for (size_t i = 0; i < sizeof w->names / sizeof *w->names; i++) tg__map_free(&w->names[i]);
  tg__map_free(&w->parents);
  tg__map_free(&w->stacks);
  tg__free(w->clock);
  if (w->parser) tg__parser_free(w->parser);
  tg__free(w->parser);
}

enum tg_err tg__raw_import(struct tg_trace *t, struct tg__tacho *f, struct tg_error *e) {
  struct raw_import w = {
      .trace = t, .file = f, .parser = tg__alloc(sizeof *w.parser), .im = {.shared = {.trace = t, .lock = tg__lock_new()}}};
  enum tg_err err = TG_OK;
  if (!w.parser || !w.im.shared.lock || !tg__add_known_strings(t->strings) || !tg__parser_init(w.parser, &w.im.shared)) goto no_memory;
  take_chunks(&w, TG_CHUNK_RAW_DICTIONARY);
  take_chunks(&w, TG_CHUNK_RAW_CLOCK);
  take_chunks(&w, TG_CHUNK_RAW_RECORDS);
  if (!keep_result(&w)) goto no_memory;
  if (w.im.events_read == w.im.phases['M']) {
    err = tg__fail(e, TG_NO_EVENTS, -1, "%s holds no finished operation: was the program stopped before its first?", f->path);
    tg__pages_drop(w.im.pool, w.im.pool_cap);
  } else {
    err = build(&w, e);
  }
  release(&w);
  return err;
no_memory:
  release(&w);
  return tg__fail(e, TG_MEMORY, -1, "out of memory while opening %s", f->path);
}
