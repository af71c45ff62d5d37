/* summary_file: lists of rank summaries as .tsum files, and back. The container is that of a .tacho file;
 * docs/format.md has the bytes. A rank is a run of numbers: what is known of it as a whole, then its lists, column
 * by column as differences from row to row, for zstd to squeeze. It brings its own strings along, so ranks can be
 * taken from one file and put into another. */
#include <stddef.h>
#include <stdio.h>

#include "trace/import.h"
#include "trace/summary.h"
#include "trace/tacho.h"

enum {
  RECORD_VERSION = 1,
  BLOCK = 1 << 20,
  BLOCK_BITS = 12, /* of a chunk's part; the rest is the number of the rank in the file */
  MOST_RANKS = 1 << 20,
  HEAD_BYTES = 8,
};

/* ---- which fields there are ------------------------------------------------------------------ */

struct field {
  uint16_t offset;
  uint8_t width;
  bool is_text;
};
#define FIELD(type, name) {offsetof(struct type, name), sizeof(((struct type *)0)->name), false}
#define TEXT(type, name) {offsetof(struct type, name), sizeof(((struct type *)0)->name), true}
static const struct field head_fields[] = {
    TEXT(tg__rank_summary, path),
    TEXT(tg__rank_summary, host),
    FIELD(tg__rank_summary, number),
    FIELD(tg__rank_summary, world_size),
    FIELD(tg__rank_summary, base_ns),
    FIELD(tg__rank_summary, json_bytes),
    FIELD(tg__rank_summary, events),
    FIELD(tg__rank_summary, first_ns),
    FIELD(tg__rank_summary, last_ns),
    FIELD(tg__rank_summary, lost),
    FIELD(tg__rank_summary, dropped),
    FIELD(tg__rank_summary, bare_requests),
    FIELD(tg__rank_summary, step_kind),
    FIELD(tg__rank_summary, number_is_given),
    FIELD(tg__rank_summary, is_cut),
    FIELD(tg__rank_summary, is_killed),
    FIELD(tg__rank_summary, has_device_work),
};
#define STEP_SHARE(i) {offsetof(struct tg__sum_step, share_ns) + (i) * sizeof(int64_t), sizeof(int64_t), false}
static const struct field step_fields[] = {
    FIELD(tg__sum_step, number),
    FIELD(tg__sum_step, start_ns),
    FIELD(tg__sum_step, end_ns),
    FIELD(tg__sum_step, communication_ns),
    STEP_SHARE(0),
    STEP_SHARE(1),
    STEP_SHARE(2),
    STEP_SHARE(3),
    STEP_SHARE(4),
    STEP_SHARE(5),
    FIELD(tg__sum_step, is_partial),
};
_Static_assert(TG__SHARE_COUNT == 6, "each share is a field of a step");
static const struct field collective_fields[] = {
    FIELD(tg__sum_collective, start_ns),  FIELD(tg__sum_collective, end_ns),   FIELD(tg__sum_collective, call_ns),
    FIELD(tg__sum_collective, bytes),     FIELD(tg__sum_collective, sequence), TEXT(tg__sum_collective, group),
    TEXT(tg__sum_collective, kind),       FIELD(tg__sum_collective, step),     FIELD(tg__sum_collective, group_size),
    FIELD(tg__sum_collective, on_device),
};
static const struct field total_fields[] = {
    TEXT(tg__sum_total, name),      FIELD(tg__sum_total, what),   FIELD(tg__sum_total, calls),
    FIELD(tg__sum_total, total_ns), FIELD(tg__sum_total, min_ns), FIELD(tg__sum_total, max_ns),
};
static const struct field node_fields[] = {
    FIELD(tg__sum_node, start_ns), FIELD(tg__sum_node, end_ns),       FIELD(tg__sum_node, bytes),
    TEXT(tg__sum_node, name),      FIELD(tg__sum_node, first_kernel), FIELD(tg__sum_node, kernel_count),
};
static const struct field range_fields[] = {FIELD(tg__sum_range, start_ns), FIELD(tg__sum_range, end_ns)};

struct list {
  size_t rows, count; /* where the pointer and the number of rows stand in the rank */
  size_t stride, field_count;
  const struct field *fields;
};
#define LIST(rows, count, type, fields)                                                                                \
  {offsetof(struct tg__rank_summary, rows), offsetof(struct tg__rank_summary, count), sizeof(struct type),             \
   sizeof(fields) / sizeof *(fields), fields}
static const struct list lists[] = {
    LIST(steps, step_count, tg__sum_step, step_fields),
    LIST(collectives, collective_count, tg__sum_collective, collective_fields),
    LIST(totals, total_count, tg__sum_total, total_fields),
    LIST(nodes, node_count, tg__sum_node, node_fields),
    LIST(node_kernels, node_kernel_count, tg__sum_range, range_fields),
};
enum { HEAD_FIELDS = sizeof head_fields / sizeof *head_fields, LISTS = sizeof lists / sizeof *lists };

static uint64_t get_field(const void *row, const struct field *f) {
  uint64_t v = 0;
  memcpy(&v, (const char *)row + f->offset, f->width); /* little endian, as all targets are */
  return v;
}
static void set_field(void *row, const struct field *f, uint64_t v) { memcpy((char *)row + f->offset, &v, f->width); }

static uint8_t *rows_of(const struct tg__rank_summary *r, const struct list *l) {
  uint8_t *rows;
  memcpy(&rows, (const char *)r + l->rows, sizeof rows);
  return rows;
}
static uint32_t count_of(const struct tg__rank_summary *r, const struct list *l) {
  uint32_t count;
  memcpy(&count, (const char *)r + l->count, sizeof count);
  return count;
}

/* ---- writing --------------------------------------------------------------------------------- */

struct encoder {
  struct tg__strings *strings;
  struct tg__map local; /* string → its number in this rank */
  struct tg__out texts, body;
  uint32_t text_count;
  bool failed;
};

static uint64_t encode_value(struct encoder *x, const void *row, const struct field *f) {
  const uint64_t v = get_field(row, f);
  if (!f->is_text || v == TG_NONE) return v;
  uint32_t *const at = tg__map_slot(&x->local, v, TG_NONE);
  if (!at) {
    x->failed = true;
    return 0;
  }
  if (*at == TG_NONE) {
    const struct tg__str s = tg__strings_get(x->strings, (uint32_t)v);
    *at = x->text_count++;
    tg__out_put32(&x->texts, s.len);
    tg__out_bytes(&x->texts, s.ptr, s.len);
  }
  return *at;
}

static void encode_list(struct encoder *x, const struct tg__rank_summary *r, const struct list *l) {
  const uint8_t *const rows = rows_of(r, l);
  const uint32_t count = count_of(r, l);
  tg__out_put32(&x->body, count);
  for (size_t k = 0; k < l->field_count; k++) {
    uint64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t v = encode_value(x, rows + i * l->stride, &l->fields[k]);
      tg__out_put64(&x->body, v - before);
      before = v;
    }
  }
}

static bool encode_rank(struct tg__strings *strings, const struct tg__rank_summary *r, struct tg__out *out) {
  struct encoder x = {.strings = strings};
  for (size_t k = 0; k < HEAD_FIELDS; k++) tg__out_put64(&x.body, encode_value(&x, r, &head_fields[k]));
  for (size_t k = 0; k < LISTS; k++) encode_list(&x, r, &lists[k]);
  tg__out_put32(out, RECORD_VERSION);
  tg__out_put32(out, x.text_count);
  tg__out_bytes(out, x.texts.buf, x.texts.len);
  tg__out_bytes(out, x.body.buf, x.body.len);
  const bool done = !x.failed && !x.texts.err && !x.body.err && !out->err;
  tg__map_free(&x.local);
  tg__out_free(&x.texts);
  tg__out_free(&x.body);
  return done;
}

static void put_chunk(struct tg__out *file, uint16_t type, uint32_t part, const void *payload, size_t len) {
  static const char zeros[8];
  uint8_t head[TG_CHUNK_HEAD_BYTES];
  tg__chunk_head_write(head, type, part, 0, len, tg__checksum(payload, len));
  tg__out_bytes(file, head, sizeof head);
  tg__out_bytes(file, payload, len);
  tg__out_bytes(file, zeros, (0 - len) & 7);
}

static bool put_summary_of_rank(struct tg__out *file, uint32_t rank, const struct tg__out *record, uint8_t *buffers,
                                size_t room) {
  for (size_t from = 0, block = 0; from < record->len; from += BLOCK, block++) {
    const size_t left = record->len - from;
    const uint32_t rows = (uint32_t)(left < BLOCK ? left : BLOCK);
    const size_t len =
        tg__array_pack(record->buf + from, rows, (struct tg__packing_plan){.width = 1}, buffers, buffers + room);
    if (block >> BLOCK_BITS) return false;
    put_chunk(file, TG_CHUNK_RANK_SUMMARY, (uint32_t)(rank << BLOCK_BITS | block), buffers + room, len);
  }
  return true;
}

static enum tg_err put_summary_ranks(const struct tg__summaries *s, struct tg__out *file) {
  const size_t room = tg__array_room(BLOCK, 1);
  uint8_t *const buffers = tg__pages_get(2 * room);
  uint8_t greeting[TG_GREETING_BYTES], head[HEAD_BYTES] = {0};
  bool done = buffers != NULL;
  tg__greeting_write(greeting);
  tg__out_bytes(file, greeting, sizeof greeting);
  tg__set32(head, s->count);
  put_chunk(file, TG_CHUNK_RANKS_HEAD, 0, head, sizeof head);
  for (uint32_t i = 0; i < s->count && done; i++) {
    struct tg__out record = {0};
    done = encode_rank(s->strings, &s->ranks[i], &record) && put_summary_of_rank(file, i, &record, buffers, room);
    tg__out_free(&record);
  }
  if (buffers) tg__pages_drop(buffers, 2 * room);
  return done ? tg__out_flush(file) : TG_MEMORY;
}

enum tg_err tg__summaries_save(const struct tg__summaries *s, const char *path, struct tg_error *e) {
  struct tg__writer *writer = NULL;
  if (s->count >= MOST_RANKS)
    return tg__fail(e, TG_UNSUPPORTED, -1, "%u ranks are more than one summary holds: summarize the run in parts",
                    (unsigned)s->count);
  enum tg_err err = tg__writer_open(path, &writer, e);
  if (err) return err;
  struct tg__out file = {.write = tg__writer_write, .ctx = writer};
  err = put_summary_ranks(s, &file);
  tg__out_free(&file);
  if (!err) return tg__writer_commit(writer, e);
  tg__writer_abandon(writer);
  return err == TG_IO ? tg__fail(e, err, -1, "could not write %s: is the disk full?", path)
                      : tg__no_memory(e, "saving %s", path);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct decoder {
  struct tg__bytes b;
  struct tg__strings *strings;
  uint32_t *ids; /* of the rank's texts */
  uint32_t text_count;
  enum tg_err err;
};

static uint64_t decode_value(struct decoder *x, const struct field *f, uint64_t v) {
  if (f->is_text && v != TG_NONE) {
    if (v >= x->text_count) x->err = TG_DAMAGED;
    return x->err ? TG_NONE : x->ids[v];
  }
  if (f->width == 1 ? v > 1 : f->width == 4 && v > UINT32_MAX) x->err = TG_DAMAGED;
  return v;
}

static void take_texts(struct decoder *x) {
  x->text_count = tg__bytes_take32(&x->b);
  if (x->text_count > (size_t)(x->b.end - x->b.p) / 4) {
    x->err = TG_DAMAGED;
    return;
  }
  x->ids = tg__alloc(((size_t)x->text_count + 1) * sizeof *x->ids);
  for (uint32_t i = 0; x->ids && i < x->text_count && !x->err; i++) {
    const uint32_t len = tg__bytes_take32(&x->b);
    const uint8_t *const text = tg__bytes_take(&x->b, len);
    if (!text)
      x->err = TG_DAMAGED;
    else if ((x->ids[i] = tg__strings_add(x->strings, (const char *)text, len)) == TG_NONE)
      x->err = TG_MEMORY;
  }
  if (!x->ids) x->err = TG_MEMORY;
}

static void take_list(struct decoder *x, struct tg__rank_summary *r, const struct list *l) {
  const uint32_t count = tg__bytes_take32(&x->b);
  if (count > (size_t)(x->b.end - x->b.p) / (8 * l->field_count)) {
    x->err = TG_DAMAGED;
    return;
  }
  uint8_t *const rows = tg__alloc(((size_t)count + 1) * l->stride);
  if (!rows) {
    x->err = TG_MEMORY;
    return;
  }
  memcpy((char *)r + l->rows, &rows, sizeof rows);
  memcpy((char *)r + l->count, &count, sizeof count);
  for (size_t k = 0; k < l->field_count && !x->err; k++) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < count && !x->err; i++) {
      v += tg__bytes_take64(&x->b);
      set_field(rows + i * l->stride, &l->fields[k], decode_value(x, &l->fields[k], v));
    }
  }
}

/* What the questions take for granted of every summary. */
static bool is_sound(const struct tg__rank_summary *r) {
  if (r->path == TG_NONE || (unsigned)r->step_kind > TG__STEP_PERIOD || r->number < 0) return false;
  for (uint32_t i = 0; i < r->collective_count; i++) {
    const struct tg__sum_collective *const c = &r->collectives[i];
    if (c->group == TG_NONE || c->kind == TG_NONE || c->end_ns < c->start_ns ||
        (c->step != TG_NONE && c->step >= r->step_count))
      return false;
  }
  for (uint32_t i = 0; i < r->total_count; i++)
    if ((unsigned)r->totals[i].what >= TG__SUM_WHATS) return false;
  for (uint32_t i = 0; i < r->node_count; i++) {
    const struct tg__sum_node *const n = &r->nodes[i];
    if (n->name == TG_NONE || n->first_kernel > r->node_kernel_count ||
        n->kernel_count > r->node_kernel_count - n->first_kernel)
      return false;
  }
  return true;
}

static enum tg_err decode_rank(struct tg__strings *strings, const uint8_t *bytes, size_t len,
                               struct tg__rank_summary *r) {
  struct decoder x = {.b = {.p = bytes, .end = bytes + len}, .strings = strings};
  if (tg__bytes_take32(&x.b) != RECORD_VERSION) return TG_DAMAGED;
  take_texts(&x);
  for (size_t k = 0; k < HEAD_FIELDS && !x.err; k++)
    set_field(r, &head_fields[k], decode_value(&x, &head_fields[k], tg__bytes_take64(&x.b)));
  for (size_t k = 0; k < LISTS && !x.err; k++) take_list(&x, r, &lists[k]);
  if (!x.err && (x.b.broken || x.b.p != x.b.end || !is_sound(r))) x.err = TG_DAMAGED;
  tg__free(x.ids);
  return x.err;
}

/* One block of a rank, at the end of `out`. TG_DAMAGED when it is not there or not as it was written. */
static enum tg_err take_block(struct tg__tacho *f, const struct tg__chunk *listed, struct tg__out *out,
                              uint32_t *rows) {
  struct tg__chunk c;
  if (!tg__chunk_at(&f->reader, listed->offset, &c) || c.type != TG_CHUNK_RANK_SUMMARY ||
      c.length < TG_PACKED_HEAD_BYTES || c.length > tg__array_room(BLOCK, 1)) {
    return TG_DAMAGED;
  }
  enum tg_err err = TG_DAMAGED;
  uint8_t *const payload = tg__alloc((size_t)c.length), *scratch = NULL;
  if (!payload) return TG_MEMORY;
  if (f->reader.read(f->reader.ctx, c.offset + TG_CHUNK_HEAD_BYTES, payload, (size_t)c.length) &&
      tg__chunk_is_intact(&c, payload) && tg__array_rows(payload, c.length, 1, rows) && *rows > 0 && *rows <= BLOCK) {
    scratch = tg__alloc(tg__array_room(*rows, 1));
    char *const to = tg__out_reserve(out, *rows);
    err = scratch && to ? tg__array_unpack(payload, c.length, to, *rows, 1, 0, scratch) : TG_MEMORY;
    if (!err) tg__out_commit(out, *rows);
  }
  tg__free(payload);
  tg__free(scratch);
  return err;
}

static enum tg_err take_rank(struct tg__tacho *f, uint32_t rank, struct tg__strings *strings,
                             struct tg__rank_summary *r) {
  struct tg__out record = {0};
  enum tg_err err = TG_OK;
  uint32_t rows = BLOCK;
  for (uint32_t block = 0; !err && rows == BLOCK && block < 1u << BLOCK_BITS; block++) {
    const struct tg__chunk *const c = tg__tacho_find(f, TG_CHUNK_RANK_SUMMARY, rank << BLOCK_BITS | block);
    if (c)
      err = take_block(f, c, &record, &rows);
    else if (block == 0)
      err = TG_DAMAGED;
    else
      break; /* the one before was full and the last */
  }
  if (!err) err = decode_rank(strings, (const uint8_t *)record.buf, record.len, r);
  tg__out_free(&record);
  return err;
}

static enum tg_err take_ranks(struct tg__tacho *f, struct tg__summaries *s, int64_t *damaged, struct tg_error *e) {
  struct tg__chunk c;
  uint8_t head[HEAD_BYTES];
  const struct tg__chunk *const listed = tg__tacho_find(f, TG_CHUNK_RANKS_HEAD, 0);
  if (!listed || !tg__chunk_at(&f->reader, listed->offset, &c) || c.type != TG_CHUNK_RANKS_HEAD ||
      c.length != sizeof head || !f->reader.read(f->reader.ctx, c.offset + TG_CHUNK_HEAD_BYTES, head, sizeof head) ||
      !tg__chunk_is_intact(&c, head)) {
    return tg__fail(e, TG_DAMAGED, -1, "%s: the head of the summary is missing or damaged; summarize the ranks again",
                    f->path);
  }
  const uint32_t count = tg__get32(head);
  const uint32_t before = s->count;
  for (uint32_t i = 0; i < count && i < MOST_RANKS; i++) {
    if (i >= f->chunk_count) { /* no more than chunks can be there */
      *damaged += count - i;
      break;
    }
    struct tg__rank_summary r = {0};
    const enum tg_err err = take_rank(f, i, s->strings, &r);
    struct tg__rank_summary *const ranks = err ? NULL : tg__realloc(s->ranks, ((size_t)s->count + 1) * sizeof *ranks);
    if (ranks) {
      s->ranks = ranks;
      s->ranks[s->count++] = r;
      continue;
    }
    tg__rank_summary_free(&r);
    if (err == TG_UNSUPPORTED) return tg__fail(e, err, -1, "this build has no zstd to read %s with", f->path);
    if (err != TG_DAMAGED) return tg__no_memory(e, "reading %s", f->path);
    ++*damaged;
  }
  if (s->count == before)
    return tg__fail(e, TG_DAMAGED, -1, "%s: not one rank of the summary is whole; summarize the ranks again", f->path);
  return TG_OK;
}

enum tg_err tg__summaries_read(struct tg__summaries *s, const char *path, struct tg__file *file, int64_t *damaged,
                               struct tg_error *e) {
  struct tg__tacho f = {.file = file};
  *damaged = 0;
  enum tg_err err = tg__tacho_list(&f, path, e);
  if (!err) err = take_ranks(&f, s, damaged, e);
  tg__tacho_drop(&f);
  return err;
}

bool tg__summaries_recognise(const char *path, struct tg__file *file) {
  struct tg__tacho f = {.file = file};
  const bool is_one = tg__tacho_list(&f, path, NULL) == TG_OK && tg__tacho_find(&f, TG_CHUNK_RANKS_HEAD, 0) != NULL;
  if (file) f.file = NULL; /* it is only looked at */
  tg__tacho_drop(&f);
  return is_one;
}

/* ---- from one list to another ---------------------------------------------------------------- */

static bool move_text(const struct tg__summaries *from, const struct tg__summaries *to, void *row,
                      const struct field *f) {
  const uint64_t id = get_field(row, f);
  if (!f->is_text || id == TG_NONE) return true;
  const struct tg__str s = tg__strings_get(from->strings, (uint32_t)id);
  const uint32_t now = tg__strings_add(to->strings, s.ptr, s.len);
  set_field(row, f, now);
  return now != TG_NONE;
}

bool tg__summaries_move(struct tg__summaries *from, struct tg__summaries *to) {
  struct tg__rank_summary *const ranks = tg__realloc(to->ranks, ((size_t)to->count + from->count + 1) * sizeof *ranks);
  const bool same = from->strings == to->strings;
  bool done = ranks != NULL;
  if (done) to->ranks = ranks;
  for (uint32_t r = 0; r < from->count && done && !same; r++) {
    struct tg__rank_summary *const rank = &from->ranks[r];
    for (size_t k = 0; k < HEAD_FIELDS && done; k++) done = move_text(from, to, rank, &head_fields[k]);
    for (size_t l = 0; l < LISTS; l++)
      for (uint32_t i = 0; i < count_of(rank, &lists[l]) && done; i++)
        for (size_t k = 0; k < lists[l].field_count && done; k++)
          done = move_text(from, to, rows_of(rank, &lists[l]) + i * lists[l].stride, &lists[l].fields[k]);
  }
  if (!done) return false;
  memcpy(to->ranks + to->count, from->ranks, from->count * sizeof *from->ranks);
  to->count += from->count;
  from->count = 0;
  return true;
}
