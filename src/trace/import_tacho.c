/* import_tacho: open a .tacho file. Reads what does not grow with the number of events: the list of chunks, the
 * small tables, the strings. Columns come when tg__tacho_load asks for them (tacho_load.c). */
#include "trace/import.h"
#include "trace/tacho.h"

#include <stdlib.h>

bool tg__tacho_recognise(const void *head, size_t len) { return tg__greeting_recognise(head, len); }

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool read_file(void *ctx, uint64_t offset, void *to, size_t len) {
  const struct tg__tacho *const f = ctx;
  return tg__file_read_at(f->file, to, len, (int64_t)offset) == (int64_t)len;
}

static enum tg_err open_source(struct tg__tacho *f, struct tg_error *e) {
  const enum tg_err err = f->file ? TG_OK : tg__file_open(f->path, &f->file, e);
  if (err) return err;
  const int64_t size = tg__file_size(f->file);
  if (size < 0)
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "%s is a pipe, and a .tacho file is not read in order: write it to a file first", f->path);
  f->reader = (struct tg__reader){.read = read_file, .ctx = f, .len = (uint64_t)size};
  uint8_t greeting[TG_GREETING_BYTES];
  const size_t have = f->reader.len < sizeof greeting ? (size_t)f->reader.len : sizeof greeting;
  if (!f->reader.read(f->reader.ctx, 0, greeting, have)) return tg__fail(e, TG_IO, 0, "%s could not be read", f->path);
  return tg__greeting_check(greeting, have, e);
}

/* ---- the list of chunks ---------------------------------------------------------------------- */

static void lose(struct tg__tacho *f, int64_t count, uint64_t offset) {
  if (count && f->lost == 0) f->lost_at = (int64_t)offset;
  f->lost += count;
}

static int chunk_order(const void *a, const void *b) {
  const struct tg__chunk *const x = a, *const y = b;
  if (x->type != y->type) return x->type < y->type ? -1 : 1;
  if (x->part != y->part) return x->part < y->part ? -1 : 1;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

const struct tg__chunk *tg__tacho_find(const struct tg__tacho *f, uint16_t type, uint32_t part) {
  size_t low = 0;
  TG__PARTITION(low, f->chunk_count, i,
                f->chunks[i].type < type || (f->chunks[i].type == type && f->chunks[i].part < part));
  if (low == f->chunk_count || f->chunks[low].type != type || f->chunks[low].part != part) return NULL;
  return &f->chunks[low];
}

static bool add_chunk(struct tg__tacho *f, const struct tg__chunk *c) {
  if (!tg__grow((void **)&f->chunks, &f->chunk_cap, f->chunk_count + 1, sizeof *f->chunks)) return false;
  f->chunks[f->chunk_count++] = *c;
  return true;
}

/* One index, checked; *before: the index it continues, 0 = none. TG_DAMAGED: do not trust any of them. */
static enum tg_err read_index(struct tg__tacho *f, uint64_t at, uint64_t *before) {
  struct tg__chunk index;
  if (!tg__chunk_at(&f->reader, at, &index) || index.type != TG_CHUNK_INDEX || index.cut ||
      index.length < TG_INDEX_HEAD_BYTES)
    return TG_DAMAGED;
  uint8_t *const payload = tg__realloc(NULL, (size_t)index.length);
  if (!payload) return TG_MEMORY;
  enum tg_err err = TG_DAMAGED;
  if (!f->reader.read(f->reader.ctx, at + TG_CHUNK_HEAD_BYTES, payload, (size_t)index.length) ||
      !tg__chunk_is_intact(&index, payload))
    goto done;
  const uint64_t count = tg__get32(payload + 8);
  *before = tg__get64(payload);
  if (*before >= at || (index.length - TG_INDEX_HEAD_BYTES) / TG_INDEX_ENTRY_BYTES != count) goto done;
  for (uint64_t i = 0; i < count; i++) {
    struct tg__chunk c;
    if (!tg__index_entry_read(payload + TG_INDEX_HEAD_BYTES + i * TG_INDEX_ENTRY_BYTES, f->reader.len, &c)) goto done;
    if (!add_chunk(f, &c)) {
      err = TG_MEMORY;
      goto done;
    }
  }
  err = TG_OK;
done:
  tg__free(payload);
  return err;
}

static enum tg_err list_by_index(struct tg__tacho *f) {
  uint64_t at = tg__footer_find(&f->reader);
  if (at == 0) return TG_DAMAGED;
  while (at) { /* every index lies before the one that names it, so this ends */
    const enum tg_err err = read_index(f, at, &at);
    if (err) return err;
  }
  return TG_OK;
}

static enum tg_err list_by_walk(struct tg__tacho *f) {
  struct tg__walk w;
  struct tg__chunk c;
  f->chunk_count = 0;
  for (tg__walk_begin(&w, &f->reader); tg__walk_next(&w, &c);) {
    if (!add_chunk(f, &c)) return TG_MEMORY;
  }
  lose(f, (int64_t)w.gaps, w.first_gap);
  return TG_OK;
}

/* Sort; pass over what is unknown or there twice. Raw chunks of a thread share a part and all count. */
static enum tg_err list_chunks(struct tg__tacho *f) {
  enum tg_err err = list_by_index(f);
  if (err == TG_DAMAGED) err = list_by_walk(f);
  if (err) return err;
  if (f->chunk_count) qsort(f->chunks, f->chunk_count, sizeof *f->chunks, chunk_order);
  size_t kept = 0;
  for (size_t i = 0; i < f->chunk_count; i++) {
    const struct tg__chunk c = f->chunks[i];
    const bool is_frame = c.type < TG_CHUNK_SUMMARY,
               is_raw = c.type >= TG_CHUNK_RAW_RECORDS && c.type < TG_CHUNK_RANKS_HEAD;
    const bool again = kept && f->chunks[kept - 1].type == c.type && f->chunks[kept - 1].part == c.part && !is_raw;
    if (!tg__chunk_name(c.type) || (again && !is_frame)) {
      lose(f, 1, c.offset);
    } else if (!is_frame) {
      f->chunks[kept++] = c;
    }
  }
  f->chunk_count = kept;
  return TG_OK;
}

/* ---- summary and tables ---------------------------------------------------------------------- */

static enum tg_err damaged(const struct tg__tacho *f, const char *what, struct tg_error *e) {
  return tg__fail(e, TG_DAMAGED, -1,
                  "%s: its %s is missing or damaged, so its events cannot be read; copy or convert it again", f->path,
                  what);
}

static enum tg_err failed(const struct tg__tacho *f, enum tg_err err, const char *what, struct tg_error *e) {
  return err == TG_MEMORY ? tg__no_memory(e, "opening %s", f->path) : damaged(f, what, e);
}

static enum tg_err take_summary(struct tg__tacho *f, struct tg_error *e) {
  const struct tg__chunk *const listed = tg__tacho_find(f, TG_CHUNK_SUMMARY, 0);
  struct tg__chunk c;
  uint8_t payload[TACHO_SUMMARY_BYTES];
  struct tg__summary *const s = &f->summary;
  if (!listed || !tg__chunk_at(&f->reader, listed->offset, &c) || c.type != TG_CHUNK_SUMMARY ||
      c.length != sizeof payload ||
      !f->reader.read(f->reader.ctx, c.offset + TG_CHUNK_HEAD_BYTES, payload, sizeof payload) ||
      !tg__chunk_is_intact(&c, payload)) {
    return damaged(f, "summary", e);
  }
  tg__summary_take(&(struct tg__bytes){.p = payload, .end = payload + sizeof payload}, s);
  if (s->group_rows == 0 || s->group_rows > TG_PACKED_MAX_ROWS || s->slices >= TG_NONE || s->marks >= TG_NONE ||
      s->strings >= TG_NONE || s->step_kind > TG__STEP_PERIOD || s->args_bytes > (uint64_t)4 << 32) {
    return damaged(f, "summary", e);
  }
  return TG_OK;
}

/* Whole row groups at the front that have all their columns. */
static uint64_t full_groups(const struct tg__tacho *f, bool of_marks, uint64_t rows) {
  const uint64_t groups = (rows + f->summary.group_rows - 1) / f->summary.group_rows;
  for (uint64_t g = 0; g < groups; g++) {
    for (int c = 0; c < TG__COLUMN_COUNT; c++) {
      const struct tg__stored_column *const info = &tg__stored_columns[c];
      if (info->of_marks == of_marks && !tg__tacho_find(f, info->chunk, (uint32_t)g)) return g;
    }
  }
  return groups;
}

static uint64_t rows_there(struct tg__tacho *f, bool of_marks, uint64_t rows) {
  const uint64_t per = f->summary.group_rows, whole = full_groups(f, of_marks, rows),
                 missing = (rows + per - 1) / per - whole;
  lose(f, (int64_t)missing, f->reader.len);
  return missing ? whole * per : rows;
}

static enum tg_err take_table(struct tg__columns *t, struct tg__tacho *f, uint16_t type, uint64_t bytes, uint64_t count,
                              enum tg_err (*take)(struct tg__bytes *, struct tg__columns *, uint64_t),
                              struct tg_error *e) {
  struct tg__unpack_list list = {0};
  uint8_t *const table = tg__pages_get((size_t)bytes + 1);
  enum tg_err err = table ? tg__unpack_add_blob(&list, f, type, table, bytes) : TG_MEMORY;
  if (err) {
    tg__free(list.items);
    err = failed(f, err, tg__chunk_name(type), e);
  } else if (!(err = tg__unpack_run(&list, t, e))) {
    err = take(&(struct tg__bytes){.p = table, .end = table + bytes}, t, count);
    if (err) failed(f, err, tg__chunk_name(type), e);
  }
  if (table) tg__pages_drop(table, (size_t)bytes + 1);
  return err;
}

/* Put the strings back. Those this version knows well have their places; where that moves the others, the file's ids
 * are renumbered as they are read. */
static enum tg_err intern_string(struct tg__columns *t, struct tg__tacho *f, const uint32_t *lengths,
                                 const char *text) {
  const uint64_t count = f->summary.strings;
  uint64_t left = f->summary.text_bytes;
  uint32_t *const ids = tg__arena_get(&t->arena, (size_t)(count + 1) * sizeof *ids);
  bool same = true;
  if (!ids || !tg__add_known_strings(t->strings)) return TG_MEMORY;
  for (uint64_t i = 0; i < count; i++) {
    if (lengths[i] > left) return TG_DAMAGED;
    ids[i] = tg__strings_add(t->strings, text, lengths[i]);
    if (ids[i] == TG_NONE) return TG_MEMORY;
    same &= ids[i] == i;
    text += lengths[i];
    left -= lengths[i];
  }
  if (!same) {
    f->renumbered = t->args_strings = ids;
    t->args_string_count = (uint32_t)count;
  }
  return left ? TG_DAMAGED : TG_OK;
}

static enum tg_err take_strings(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  const uint64_t count = f->summary.strings, bytes = f->summary.text_bytes;
  struct tg__unpack_list list = {0};
  char *const text = bytes < SIZE_MAX / 2 ? tg__pages_get((size_t)bytes + 1) : NULL;
  uint32_t *const lengths = tg__pages_get((size_t)(count + 1) * sizeof *lengths);
  enum tg_err err = text && lengths ? tg__unpack_add_blob(&list, f, TG_CHUNK_STRING_TEXT, text, bytes) : TG_MEMORY;
  if (!err) err = tg__unpack_add_rows(&list, f, TG_CHUNK_STRING_LENGTHS, lengths, count);
  if (err) {
    tg__free(list.items);
    failed(f, err, "string table", e);
  } else if (!(err = tg__unpack_run(&list, t, e))) {
    err = intern_string(t, f, lengths, text);
    if (err) failed(f, err, "string table", e);
  }
  if (text) tg__pages_drop(text, (size_t)bytes + 1);
  if (lengths) tg__pages_drop(lengths, (size_t)(count + 1) * sizeof *lengths);
  return err;
}

/* Blocks of args at the front that are there, and their bytes. */
static uint64_t args_there(struct tg__tacho *f, uint16_t type, uint64_t blocks) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < blocks; i++) {
    if (!tg__tacho_find(f, type, (uint32_t)i)) {
      lose(f, (int64_t)(blocks - i), f->reader.len);
      f->args_block_count = (uint32_t)i;
      return bytes;
    }
    bytes += f->args_blocks ? f->args_blocks[i] : TACHO_BLOCK;
  }
  return bytes < f->summary.args_bytes ? bytes : f->summary.args_bytes;
}

/* Sizes of the blocks of args by field; none when the args are stored as they are. */
static enum tg_err take_args_blocks(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  const struct tg__chunk *const c = tg__tacho_find(f, TG_CHUNK_ARGS_BLOCKS, 0);
  uint8_t head[TG_PACKED_HEAD_BYTES];
  if (!c) return TG_OK;
  if (c->length < sizeof head || !f->reader.read(f->reader.ctx, c->offset + TG_CHUNK_HEAD_BYTES, head, sizeof head) ||
      !tg__array_rows(head, c->length, 4, &f->args_block_count)) {
    return damaged(f, "ARGS_BLOCKS", e);
  }
  struct tg__unpack_list list = {0};
  f->args_blocks = tg__alloc((f->args_block_count + (size_t)1) * sizeof *f->args_blocks);
  enum tg_err err = TG_MEMORY;
  if (f->args_blocks) {
    err = tg__unpack_add(&list, f, TG_CHUNK_ARGS_BLOCKS, 0,
                         (struct tg__unpack){.to = f->args_blocks, .rows = f->args_block_count, .width = 4});
  }
  if (err) return failed(f, err, "ARGS_BLOCKS", e);
  if ((err = tg__unpack_run(&list, t, e))) return err;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < f->args_block_count; i++) bytes += f->args_blocks[i];
  return bytes == f->summary.args_bytes ? TG_OK : damaged(f, "ARGS_BLOCKS", e);
}

/* Which string each number in the args is, when the file says that these are not its string ids. */
static enum tg_err take_args_strings(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  const uint64_t count = f->summary.args_strings;
  if (count == 0) return TG_OK;
  struct tg__unpack_list list = {0};
  uint32_t *const ids = count < TG_NONE ? tg__store_pages(t->store, (size_t)count * sizeof *ids) : NULL;
  enum tg_err err = ids ? tg__unpack_add_rows(&list, f, TG_CHUNK_ARGS_STRINGS, ids, count) : TG_MEMORY;
  if (err) {
    tg__free(list.items);
    return failed(f, err, "ARGS_STRINGS", e);
  }
  if ((err = tg__unpack_run(&list, t, e))) return err;
  for (uint64_t i = 0; i < count; i++) {
    if (!tg__tacho_string(f, &ids[i])) return damaged(f, "ARGS_STRINGS", e);
  }
  t->args_strings = ids;
  t->args_string_count = (uint32_t)count;
  return TG_OK;
}

static enum tg_err find_args(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  enum tg_err err = take_args_strings(t, f, e);
  if (!err) err = take_args_blocks(t, f, e);
  if (err) return err;
  const uint64_t plain = (f->summary.args_bytes + TACHO_BLOCK - 1) / TACHO_BLOCK;
  t->args_bytes = f->args_bytes =
      f->args_blocks ? args_there(f, TG_CHUNK_ARGS_BY_FIELD, f->args_block_count) : args_there(f, TG_CHUNK_ARGS, plain);
  return TG_OK;
}

/* events read = kept + skipped must hold for every rank, and all kept ones must be rows of the two tables. */
static bool counts_add_up(const struct tg__columns *t, uint64_t marks) {
  const int64_t most = (int64_t)1 << 56; /* so that no sum below can wrap */
  uint64_t kept = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const struct tg__rank *const rank = &t->ranks[r];
    int64_t skipped = rank->loss[TG__LOSS_cut_end];
    for (int i = 0; i < TG__LOSS_COUNT; i++) {
      if (rank->loss[i] > most) return false;
      if (tg__loss_info[i].kind == TG__LOSS_SKIPPED) skipped += rank->loss[i];
    }
    int64_t slices = 0;
    for (uint32_t k = 0; k < rank->track_count; k++) slices += t->tracks[rank->first_track + k].count;
    if (rank->events_kept < slices || rank->events_kept > most || rank->events_read != rank->events_kept + skipped)
      return false;
    kept += (uint64_t)rank->events_kept;
  }
  return kept == t->slices.count + marks;
}

/* What the end of a cut file took from one rank: its last slices, and its marks, which lie in the order of the
 * ranks. */
static void clip_rank(struct tg__columns *t, struct tg__rank *rank, uint32_t slices, int64_t *marks_left) {
  int64_t before = 0, after = 0;
  for (uint32_t i = 0; i < rank->track_count; i++) {
    struct tg__track *const k = &t->tracks[rank->first_track + i];
    before += k->count;
    if (k->first > slices) k->first = slices;
    if (k->count > slices - k->first) k->count = slices - k->first;
    after += k->count;
  }
  const int64_t had = rank->events_kept - before, has = had < *marks_left ? had : *marks_left;
  *marks_left -= has;
  const int64_t gone = (before - after) + (had - has);
  rank->events_kept -= gone; /* how many there were is not known of every cut file, so they count as never read */
  rank->events_read -= gone;
}

static void clip(struct tg__columns *t, uint32_t slices, uint32_t marks) {
  int64_t marks_left = marks;
  for (uint32_t r = 0; r < t->rank_count; r++) clip_rank(t, &t->ranks[r], slices, &marks_left);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < t->step_count; i++) { /* a step without its slice goes */
    if (t->steps[i].slice == TG_NONE || t->steps[i].slice < slices) t->steps[kept++] = t->steps[i];
  }
  t->step_count = kept;
  t->slices.count = slices;
  t->marks.count = marks;
}

static enum tg_err take_tables(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  const struct tg__summary *const s = &f->summary;
  enum tg_err err = take_strings(t, f, e);
  if (err) return err;
  t->slices.count = (uint32_t)s->slices;
  if ((err = take_table(t, f, TG_CHUNK_SCHEMAS, s->schemas_bytes, s->schema_count, tg__schemas_take, e))) return err;
  if ((err = take_table(t, f, TG_CHUNK_CATS, s->cats_bytes, s->cat_count, tg__cats_take, e))) return err;
  if ((err = take_table(t, f, TG_CHUNK_RANKS, s->ranks_bytes, s->rank_count, tg__ranks_take, e))) return err;
  if ((err = take_table(t, f, TG_CHUNK_TRACKS, s->tracks_bytes, s->track_count, tg__tracks_take, e))) return err;
  if ((err = take_table(t, f, TG_CHUNK_STEPS, s->steps_bytes, s->step_count, tg__steps_take, e))) return err;
  tg__note_step_kinds(t);
  return counts_add_up(t, s->marks) ? TG_OK : damaged(f, "count of events", e);
}

/* Count the phases of a cut file again: what was counted when it was written is no longer there. */
static enum tg_err count_phases(struct tg__columns *t, struct tg_error *e) {
  const enum tg_err err = tg__tacho_load(t, TG__COL_FLAGS | TG__COL_MARKS, e);
  if (err) return err;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    struct tg__rank *const rank = &t->ranks[r];
    const bool old_async =
        rank->phase_count['S'] > 0 && rank->phase_count['b'] == 0; /* these two have the same flags */
    memset(rank->phase_count, 0, sizeof rank->phase_count);
    for (uint32_t k = 0; k < rank->track_count; k++) {
      const struct tg__track *const track = &t->tracks[rank->first_track + k];
      TG__EACH (i, tg__slices_of(track)) {
        const uint8_t flags = t->slices.flags[i];
        rank->phase_count[flags & TG__F_BEGIN_END ? 'B' : !(flags & TG__F_ASYNC) ? 'X' : old_async ? 'S' : 'b']++;
      }
    }
  }
  for (uint32_t i = 0; i < t->marks.count; i++)
    t->ranks[t->tracks[t->marks.track[i]].rank].phase_count[t->marks.ph[i]]++;
  return TG_OK;
}

static enum tg_err open_packed(struct tg__columns *t, struct tg__tacho *f, struct tg_error *e) {
  enum tg_err err = take_summary(f, e);
  if (!err) err = take_tables(t, f, e);
  if (err) return err;
  const uint32_t slices = (uint32_t)rows_there(f, false, f->summary.slices),
                 marks = (uint32_t)rows_there(f, true, f->summary.marks);
  clip(t, slices, marks);
  if ((err = find_args(t, f, e))) return err;
  if (f->lost && t->rank_count) {
    struct tg__rank *const r = &t->ranks[0];
    if (r->loss[TG__LOSS_cut_chunks] == 0) r->loss_offset[TG__LOSS_cut_chunks] = f->lost_at;
    r->loss[TG__LOSS_cut_chunks] += f->lost;
  }
  return slices < f->summary.slices || marks < f->summary.marks ? count_phases(t, e) : TG_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

enum tg_err tg__tacho_list(struct tg__tacho *f, const char *path, struct tg_error *e) {
  f->path = path;
  enum tg_err err = open_source(f, e);
  if (err) return err;
  return (err = list_chunks(f)) ? failed(f, err, "list of chunks", e) : TG_OK;
}

bool tg__tacho_is_raw(const struct tg__tacho *f) {
  const uint16_t last = f->chunk_count ? f->chunks[f->chunk_count - 1].type : 0;
  const bool has_raw = last >= TG_CHUNK_RAW_RECORDS && last < TG_CHUNK_RANKS_HEAD;
  return has_raw && !tg__tacho_find(f, TG_CHUNK_SUMMARY, 0);
}

static enum tg_err open_into(struct tg__columns *t, struct tg__file *file, const char *path, struct tg_error *e) {
  t->strings = tg__strings_new();
  t->store = tg__store_new(TG__STORE_TACHO);
  struct tg__tacho *const f = tg__alloc(sizeof *f);
  if (f && t->store) {
    t->store->tacho = f;
    f->file = file;
  } else {
    tg__free(f);
    tg__file_close(file);
  }
  t->cache = tg__cache_new();
  if (!t->strings || !t->store || !t->cache) return tg__no_memory(e, "opening %s", path);
  const char *const kept = f ? tg__arena_copy(&t->arena, path, strlen(path)) : NULL;
  if (!kept) return tg__no_memory(e, "opening %s", path);
  const enum tg_err err = tg__tacho_list(f, kept, e);
  if (err) return err;
  return tg__tacho_is_raw(f) ? tg__raw_import(t, f, e) : open_packed(t, f, e);
}

enum tg_err tg__tacho_open(const char *path, struct tg__file *file, struct tg__columns **out, struct tg_error *e) {
  *out = NULL;
  struct tg__columns *const t = tg__alloc(sizeof *t);
  if (!t) {
    tg__file_close(file);
    return tg__no_memory(e, "opening %s", path);
  }
  const enum tg_err err = open_into(t, file, path, e);
  if (err) {
    tg__trace_free(t);
  } else {
    *out = t;
  }
  return err;
}

void tg__tacho_drop(struct tg__tacho *f) {
  tg__file_close(f->file);
  tg__free(f->chunks);
  tg__free(f->args_blocks);
}

void tg__tacho_close(struct tg__store *s) {
  if (!s->tacho) return;
  tg__tacho_drop(s->tacho);
  tg__free(s->tacho);
  s->tacho = NULL;
}
