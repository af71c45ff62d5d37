/* save: the columns of a trace become a packed .tacho file.
 *
 * Order in the file: summary and small tables, strings; then slices in row groups, marks in row groups, args in
 * blocks; index and footer. First comes all that a cut file needs to make sense of the rest. Packing runs on all
 * cores, a wave of jobs at a time; writing is in order. */
#include "trace/tables.h"

enum { WAVE_MAX = 32 }; /* jobs packed at once: 2.6 MiB of buffers each */

struct job {
  const void *values;
  uint32_t rows, part;
  uint16_t type;
  struct tg__packing_plan plan;
  const struct tg__columns *args_of; /* not NULL: `values` is a block of args to pack by field, `rows` bytes of it */
  uint8_t *payload;                  /* the result; of args in memory of its own (NULL: there was none left) */
  size_t len;
};
struct saver {
  struct tg__out out;   /* the file */
  struct tg__out index; /* its entries so far */
  uint64_t at;          /* bytes put into `out` */
  struct job jobs[WAVE_MAX];
  uint8_t *buffers; /* two per job */
  size_t buffer_bytes, job_count, wave;
};

/* ---- chunks ---------------------------------------------------------------------------------- */

static void put_chunk(struct saver *s, uint16_t type, uint32_t part, const void *payload, size_t len) {
  static const char zeros[8];
  uint8_t head[TG_CHUNK_HEAD_BYTES], entry[TG_INDEX_ENTRY_BYTES];
  tg__chunk_head_write(head, type, part, 0, len, tg__checksum(payload, len));
  tg__out_bytes(&s->out, head, sizeof head);
  tg__out_bytes(&s->out, payload, len);
  tg__out_bytes(&s->out, zeros, (0 - len) & 7);
  tg__index_entry_write(entry, &(struct tg__chunk){.type = type, .part = part, .offset = s->at, .length = len});
  tg__out_bytes(&s->index, entry, sizeof entry);
  s->at += tg__chunk_span(len);
}

static void pack_job(void *ctx, size_t i) {
  struct saver *const s = ctx;
  struct job *const j = &s->jobs[i];
  if (j->args_of) {
    j->payload = tg__args_pack(j->args_of, j->values, j->rows, &j->len);
  } else {
    uint8_t *const scratch = s->buffers + 2 * i * s->buffer_bytes;
    j->payload = scratch + s->buffer_bytes;
    j->len = tg__array_pack(j->values, j->rows, j->plan, scratch, j->payload);
  }
}

static void run_wave(struct saver *s) {
  tg__threads_run(tg__cpu_count(), s->job_count, pack_job, s);
  for (size_t i = 0; i < s->job_count; i++) {
    const struct job *const j = &s->jobs[i];
    if (j->payload) {
      put_chunk(s, j->type, j->part, j->payload, j->len);
    } else {
      s->out.err = TG_MEMORY;
    }
    if (j->args_of) tg__free(j->payload);
  }
  s->job_count = 0;
}

static void add(struct saver *s, const struct job *job) {
  s->jobs[s->job_count] = *job;
  if (++s->job_count == s->wave) run_wave(s);
}

/* Packed now or in a later wave: `values` must stay until the last. */
static void add_job(struct saver *s, uint16_t type, uint32_t part, const void *values, uint32_t rows,
                    struct tg__packing_plan plan) {
  add(s, &(struct job){.values = values, .rows = rows, .part = part, .type = type, .plan = plan});
}

static void put_blob(struct saver *s, uint16_t type, const void *bytes, uint64_t len) {
  const struct tg__packing_plan plan = {.width = 1};
  for (uint64_t from = 0; from < len; from += TACHO_BLOCK) {
    const uint64_t left = len - from;
    add_job(s, type, (uint32_t)(from / TACHO_BLOCK), (const uint8_t *)bytes + from,
            (uint32_t)(left < TACHO_BLOCK ? left : TACHO_BLOCK), plan);
  }
}

static bool saver_begin(struct saver *s, struct tg__writer *writer) {
  *s = (struct saver){.out = {.write = tg__writer_write, .ctx = writer}};
  const size_t narrow = tg__array_room(TACHO_BLOCK, 1), wide = tg__array_room(TACHO_GROUP_ROWS, 8);
  s->buffer_bytes = narrow > wide ? narrow : wide;
  s->wave = 2 * (size_t)tg__cpu_count();
  if (s->wave > WAVE_MAX) s->wave = WAVE_MAX;
  s->buffers = tg__pages_get(2 * s->wave * s->buffer_bytes);
  if (!s->buffers) return false;
  uint8_t greeting[TG_GREETING_BYTES];
  tg__greeting_write(greeting);
  tg__out_bytes(&s->out, greeting, sizeof greeting);
  s->at = sizeof greeting;
  return true;
}

static void saver_free(struct saver *s) {
  if (s->buffers) tg__pages_drop(s->buffers, 2 * s->wave * s->buffer_bytes);
  tg__out_free(&s->index);
  tg__out_free(&s->out);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* All strings one behind the other in `text`, their lengths in `lengths` (32 bits each). */
static void gather_strings(const struct tg__columns *t, struct tg__out *lengths, struct tg__out *text) {
  const uint32_t count = tg__strings_count(t->strings);
  for (uint32_t i = 0; i < count; i++) {
    const struct tg__str s = tg__strings_get(t->strings, i);
    tg__out_bytes(lengths, &s.len, sizeof s.len);
    tg__out_bytes(text, s.ptr, s.len);
  }
}

struct tables {
  struct tg__out lengths, text, schemas, cats, ranks, tracks, steps;
};

static enum tg_err gather_tables(const struct tg__columns *t, struct tables *b) {
  gather_strings(t, &b->lengths, &b->text);
  tg__schemas_put(&b->schemas, t);
  tg__cats_put(&b->cats, t);
  tg__ranks_put(&b->ranks, t);
  tg__tracks_put(&b->tracks, t);
  tg__steps_put(&b->steps, t);
  const struct tg__out *const all[] = {&b->lengths, &b->text, &b->schemas, &b->cats, &b->ranks, &b->tracks, &b->steps};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i]->err) return all[i]->err;
  }
  return TG_OK;
}

static void free_tables(struct tables *b) {
  tg__out_free(&b->lengths);
  tg__out_free(&b->text);
  tg__out_free(&b->schemas);
  tg__out_free(&b->cats);
  tg__out_free(&b->ranks);
  tg__out_free(&b->tracks);
  tg__out_free(&b->steps);
}

/* Small traces get small groups, so that a file cut in the middle still has about half of its events. */
static uint32_t group_rows(const struct tg__columns *t) {
  uint32_t rows = TACHO_GROUP_ROWS;
  while (rows > TACHO_GROUP_LEAST && rows > t->slices.count / 8) rows /= 2;
  return rows;
}

static void put_trace_summary(struct saver *s, const struct tg__columns *t, const struct tables *b) {
  const struct tg__summary summary = {
      .group_rows = group_rows(t),
      .step_kind = (uint32_t)t->step_kind,
      .slices = t->slices.count,
      .marks = t->marks.count,
      .strings = tg__strings_count(t->strings),
      .rank_count = t->rank_count,
      .track_count = t->track_count,
      .cat_count = t->cat_count,
      .schema_count = t->schema_count,
      .step_count = t->step_count,
      .text_bytes = b->text.len,
      .schemas_bytes = b->schemas.len,
      .cats_bytes = b->cats.len,
      .ranks_bytes = b->ranks.len,
      .tracks_bytes = b->tracks.len,
      .steps_bytes = b->steps.len,
      .args_bytes = t->args_bytes,
      .args_strings = t->args_string_count,
  };
  struct tg__out o = {0};
  tg__summary_put(&o, &summary);
  if (o.err) s->out.err = o.err;
  put_chunk(s, TG_CHUNK_SUMMARY, 0, o.buf, o.len);
  tg__out_free(&o);
}

/* A list of 32-bit numbers in parts of TACHO_GROUP_ROWS. */
static void put_number_rows(struct saver *s, uint16_t type, const uint32_t *values, uint32_t rows) {
  const struct tg__packing_plan plan = {.width = 4, .transform = TG_T_VARINT};
  for (uint64_t from = 0; from < rows; from += TACHO_GROUP_ROWS) {
    const uint64_t left = rows - from;
    add_job(s, type, (uint32_t)(from / TACHO_GROUP_ROWS), values + from,
            (uint32_t)(left < TACHO_GROUP_ROWS ? left : TACHO_GROUP_ROWS), plan);
  }
}

static void put_tables(struct saver *s, const struct tg__columns *t, const struct tables *b) {
  put_number_rows(s, TG_CHUNK_STRING_LENGTHS, (const uint32_t *)(const void *)b->lengths.buf,
                  (uint32_t)(b->lengths.len / sizeof(uint32_t)));
  put_number_rows(s, TG_CHUNK_ARGS_STRINGS, t->args_strings, t->args_string_count);
  put_blob(s, TG_CHUNK_STRING_TEXT, b->text.buf, b->text.len);
  put_blob(s, TG_CHUNK_SCHEMAS, b->schemas.buf, b->schemas.len);
  put_blob(s, TG_CHUNK_CATS, b->cats.buf, b->cats.len);
  put_blob(s, TG_CHUNK_RANKS, b->ranks.buf, b->ranks.len);
  put_blob(s, TG_CHUNK_TRACKS, b->tracks.buf, b->tracks.len);
  put_blob(s, TG_CHUNK_STEPS, b->steps.buf, b->steps.len);
}

static void put_row_groups(struct saver *s, const struct tg__columns *t, bool of_marks, uint32_t count) {
  const uint32_t per = group_rows(t);
  for (uint64_t from = 0; from < count; from += per) {
    const uint32_t rows = count - from < per ? (uint32_t)(count - from) : per;
    for (int c = 0; c < TG__COLUMN_COUNT; c++) {
      const struct tg__stored_column *const info = &tg__stored_columns[c];
      if (info->of_marks != of_marks) continue;
      const uint8_t *const column = *(uint8_t *const *)(const void *)((const char *)t + info->place);
      const struct tg__packing_plan plan = {
          .width = info->width, .transform = info->transform, .first_row = (uint32_t)from};
      add_job(s, info->chunk, (uint32_t)(from / per), column + from * info->width, rows, plan);
    }
  }
}

/* Sizes of the blocks that the args fall into; their number, 0 when they cannot be packed by field. */
static size_t args_blocks(const struct tg__columns *t, struct tg__out *sizes) {
  for (uint64_t at = 0; at < t->args_bytes;) {
    const uint64_t end = tg__args_block_end(t, at);
    if (end == 0) return 0;
    const uint32_t size = (uint32_t)(end - at);
    tg__out_bytes(sizes, &size, sizeof size);
    at = end;
  }
  const size_t count = sizes->len / sizeof(uint32_t);
  return count <= TACHO_GROUP_ROWS && !sizes->err ? count : 0;
}

static void put_args(struct saver *s, const struct tg__columns *t) {
  struct tg__out sizes = {0};
  const size_t count = args_blocks(t, &sizes);
  if (count == 0) {
    put_blob(s, TG_CHUNK_ARGS, t->args, t->args_bytes);
  } else {
    add_job(s, TG_CHUNK_ARGS_BLOCKS, 0, sizes.buf, (uint32_t)count,
            (struct tg__packing_plan){.width = 4, .transform = TG_T_VARINT});
  }
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bytes;
    memcpy(&bytes, sizes.buf + i * sizeof bytes, sizeof bytes);
    add(s,
        &(struct job){
            .values = t->args + at, .rows = bytes, .part = (uint32_t)i, .type = TG_CHUNK_ARGS_BY_FIELD, .args_of = t});
    at += bytes;
  }
  run_wave(s);
  tg__out_free(&sizes);
}

static void put_end(struct saver *s) {
  uint8_t head[TG_INDEX_HEAD_BYTES] = {0}; /* no index before this one */
  struct tg__out o = {0};
  tg__set32(head + 8, (uint32_t)(s->index.len / TG_INDEX_ENTRY_BYTES));
  tg__out_bytes(&o, head, sizeof head);
  tg__out_bytes(&o, s->index.buf, s->index.len);
  const uint64_t index_at = s->at;
  put_chunk(s, TG_CHUNK_INDEX, 0, o.buf, o.len);
  uint8_t footer[TG_FOOTER_BYTES];
  tg__set64(footer, index_at);
  tg__set64(footer + 8, s->at + TG_CHUNK_HEAD_BYTES + TG_FOOTER_BYTES);
  put_chunk(s, TG_CHUNK_FOOTER, 0, footer, sizeof footer);
  if (o.err) s->out.err = o.err;
  tg__out_free(&o);
}

static enum tg_err put_trace(struct saver *s, const struct tg__columns *t, const struct tables *b) {
  put_trace_summary(s, t, b);
  put_tables(s, t, b);
  put_row_groups(s, t, false, t->slices.count);
  put_row_groups(s, t, true, t->marks.count);
  put_args(s, t);
  put_end(s);
  return s->index.err ? s->index.err : tg__out_flush(&s->out);
}

enum tg_err tg__trace_save(const struct tg__columns *t, const char *path, struct tg_error *e) {
  if ((t->loaded & TG__COL_ALL) != TG__COL_ALL)
    return tg__fail(e, TG_INTERNAL, -1, "a trace is saved only when all its columns are loaded");
  struct tg__writer *writer = NULL;
  struct tables tables = {0};
  struct saver *const s = tg__alloc(sizeof *s);
  enum tg_err err = s ? TG_OK : TG_MEMORY;
  if (!err) err = gather_tables(t, &tables);
  if (err) {
    tg__no_memory(e, "saving %s", path);
    goto done;
  }
  if ((err = tg__writer_open(path, &writer, e))) goto done;
  err = saver_begin(s, writer) ? put_trace(s, t, &tables) : TG_MEMORY;
  if (!err) {
    err = tg__writer_commit(writer, e);
    writer = NULL;
  } else if (err == TG_IO) {
    tg__fail(e, err, -1, "could not write %s: is the disk full?", path);
  } else {
    tg__no_memory(e, "saving %s", path);
  }
done:
  if (writer) tg__writer_abandon(writer);
  free_tables(&tables);
  if (s) saver_free(s);
  tg__free(s);
  return err;
}
