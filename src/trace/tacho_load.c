/* tacho_load: columns of an open .tacho file, unpacked on request and on all cores. The result is checked like any
 * other input: no later stage has to doubt an index it finds in a column. */
#include "trace/tacho.h"

#include <assert.h>

/* ---- unpacking ------------------------------------------------------------------------------- */

enum tg_err tg__unpack_add(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, uint32_t part,
                           struct tg__unpack how) {
  how.chunk = tg__tacho_find(f, type, part);
  if (!how.chunk) return TG_DAMAGED;
  if (!tg__grow((void **)&l->items, &l->cap, l->count + 1, sizeof *l->items)) return TG_MEMORY;
  l->items[l->count++] = how;
  return TG_OK;
}

enum tg_err tg__unpack_add_rows(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, uint32_t *to,
                                uint64_t rows) {
  enum tg_err err = TG_OK;
  for (uint64_t from = 0; from < rows && !err; from += TACHO_GROUP_ROWS) {
    const uint64_t n = rows - from < TACHO_GROUP_ROWS ? rows - from : TACHO_GROUP_ROWS;
    err = tg__unpack_add(l, f, type, (uint32_t)(from / TACHO_GROUP_ROWS),
                         (struct tg__unpack){.to = to + from, .rows = (uint32_t)n, .width = 4});
  }
  return err;
}

enum tg_err tg__unpack_add_blob(struct tg__unpack_list *l, const struct tg__tacho *f, uint16_t type, void *to,
                                uint64_t bytes) {
  enum tg_err err = TG_OK;
  for (uint64_t from = 0; from < bytes && !err; from += TACHO_BLOCK) {
    const uint64_t rows = bytes - from < TACHO_BLOCK ? bytes - from : TACHO_BLOCK;
    if (from / TACHO_BLOCK >= TG_NONE) return TG_DAMAGED;
    err = tg__unpack_add(l, f, type, (uint32_t)(from / TACHO_BLOCK),
                         (struct tg__unpack){.to = (uint8_t *)to + from, .rows = (uint32_t)rows, .width = 1});
  }
  return err;
}

struct unpacking {
  struct tg__columns *trace;
  const struct tg__tacho *file;
  struct tg__unpack *items;
  bool failed; /* one has: the others need not begin */
};

static enum tg_err check_values(const struct tg__columns *t, const struct tg__tacho *f, const struct tg__unpack *u);

/* The chunk's bytes, head first, as the file has them now: the list may come from an index that only says where it
 * is. */
static enum tg_err fetch(const struct tg__tacho *f, const struct tg__unpack *u, uint8_t *bytes, struct tg__chunk *c) {
  const uint64_t len = TG_CHUNK_HEAD_BYTES + u->chunk->length;
  if (!f->reader.read(f->reader.ctx, u->chunk->offset, bytes, (size_t)len)) return TG_IO;
  if (!tg__chunk_head_read(bytes, u->chunk->offset, f->reader.len, c) || c->type != u->chunk->type ||
      c->part != u->chunk->part || c->length != u->chunk->length || c->flags ||
      !tg__chunk_is_intact(c, bytes + TG_CHUNK_HEAD_BYTES)) {
    return TG_DAMAGED;
  }
  assert(tg__chunk_is_valid(c, bytes + TG_CHUNK_HEAD_BYTES, NULL));
  return TG_OK;
}

static enum tg_err unpack(const struct unpacking *w, struct tg__unpack *u) {
  const size_t room = u->by_field ? TACHO_ARGS_ROOM : tg__array_room(u->rows, u->width),
               length = (size_t)u->chunk->length;
  if (u->chunk->length > room) return TG_DAMAGED; /* more than any array of so many rows can be long */
  uint8_t *const bytes = tg__realloc(NULL, TG_CHUNK_HEAD_BYTES + length);
  uint8_t *const payload = bytes ? bytes + TG_CHUNK_HEAD_BYTES : NULL;
  uint8_t *const scratch = u->by_field ? NULL : tg__realloc(NULL, room);
  struct tg__chunk c;
  enum tg_err err = bytes && (scratch || u->by_field) ? fetch(w->file, u, bytes, &c) : TG_MEMORY;
  if (!err && u->by_field) err = tg__args_unpack(w->trace, payload, length, u->to, u->rows);
  if (!err && !u->by_field) err = tg__array_unpack(payload, length, u->to, u->rows, u->width, u->first_row, scratch);
  if (!err && u->column) err = check_values(w->trace, w->file, u);
  tg__free(bytes);
  tg__free(scratch);
  return err;
}

static void unpack_one(void *ctx, size_t i) {
  struct unpacking *const w = ctx;
  if (__atomic_load_n(&w->failed, __ATOMIC_RELAXED)) return;
  w->items[i].err = unpack(w, &w->items[i]);
  if (w->items[i].err) __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
}

static unsigned threads_for(const struct tg__unpack_list *l) {
  size_t bytes = 0;
  for (size_t i = 0; i < l->count; i++) bytes += (size_t)l->items[i].rows * l->items[i].width;
  return tg__threads_worth(bytes, tg__cpu_count());
}

enum tg_err tg__unpack_run(struct tg__unpack_list *l, struct tg__columns *t, struct tg_error *e) {
  const struct tg__tacho *const f = t->store->tacho;
  struct unpacking w = {.trace = t, .file = f, .items = l->items};
  tg__threads_run(threads_for(l), l->count, unpack_one, &w);
  enum tg_err err = TG_OK;
  for (size_t i = 0; i < l->count && !err; i++) {
    const struct tg__unpack *const u = &l->items[i];
    const int64_t at = (int64_t)u->chunk->offset;
    const char *const name = tg__chunk_name(u->chunk->type);
    err = u->err;
    if (err == TG_MEMORY) tg__no_memory(e, "reading %s", f->path);
    if (err == TG_IO) tg__fail(e, err, at, "%s could not be read: did it shrink meanwhile?", f->path);
    if (err == TG_UNSUPPORTED) {
      tg__fail(e, err, at, "%s: this build cannot unpack its chunk %s %u: use a build with zstd, or a newer one",
               f->path, name, u->chunk->part);
    }
    if (err == TG_DAMAGED) {
      tg__fail(e, err, at, "%s: its chunk %s %u is damaged; copy or convert the file again", f->path, name,
               u->chunk->part);
    }
  }
  tg__free(l->items);
  *l = (struct tg__unpack_list){0};
  return err;
}

/* ---- what values may be ---------------------------------------------------------------------- */

static enum tg_err check_strings(uint32_t *v, uint32_t rows, const struct tg__tacho *f) {
  for (uint32_t i = 0; i < rows; i++) {
    if (!tg__tacho_string(f, &v[i])) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg_err check_ids(const uint32_t *v, uint32_t rows, uint32_t limit) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] >= limit) return TG_DAMAGED;
  }
  return TG_OK;
}

/* References that a complete file could have. Those into what was cut away become "none". */
static enum tg_err check_references(uint32_t *v, uint32_t rows, uint64_t limit, uint64_t there) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] == TG_NONE || v[i] < there) continue;
    if (v[i] >= limit) return TG_DAMAGED;
    v[i] = TG_NONE;
  }
  return TG_OK;
}

static enum tg_err check_parents(const uint32_t *v, uint32_t rows, uint32_t first_row) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] != TG_NONE && v[i] >= first_row + i) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg_err check_cats(const uint16_t *v, uint32_t rows, uint32_t limit) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] >= limit) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg_err check_durations(const int64_t *v, uint32_t rows) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] < 0) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg_err check_phases(const uint8_t *v, uint32_t rows) {
  for (uint32_t i = 0; i < rows; i++) {
    if (v[i] >= 128) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg_err check_values(const struct tg__columns *t, const struct tg__tacho *f, const struct tg__unpack *u) {
  switch (u->column->chunk) {
  case TG_CHUNK_SLICE_NAME:
  case TG_CHUNK_MARK_NAME:
    return check_strings(u->to, u->rows, f);
  case TG_CHUNK_SLICE_ARGS:
  case TG_CHUNK_MARK_ARGS:
    return check_references(u->to, u->rows, (f->summary.args_bytes + 3) / 4, f->args_bytes / 4);
  case TG_CHUNK_SLICE_CAT:
  case TG_CHUNK_MARK_CAT:
    return check_cats(u->to, u->rows, t->cat_count);
  case TG_CHUNK_SLICE_DUR:
    return check_durations(u->to, u->rows);
  case TG_CHUNK_SLICE_PARENT:
    return check_parents(u->to, u->rows, u->first_row);
  case TG_CHUNK_SLICE_CAUSE:
    return check_references(u->to, u->rows, f->summary.slices, t->slices.count);
  case TG_CHUNK_MARK_TRACK:
    return check_ids(u->to, u->rows, t->track_count);
  case TG_CHUNK_MARK_PHASE:
    return check_phases(u->to, u->rows);
  default:
    return TG_OK; /* START is checked against its neighbours below */
  }
}

/* What holds between rows: the order of a track, and that a parent is on it. */
static bool tracks_are_sane(const struct tg__columns *t, uint32_t fresh) {
  const struct tg__slices *const s = &t->slices;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const uint32_t first = t->tracks[k].first, end = first + t->tracks[k].count;
    for (uint32_t i = first + 1; (fresh & TG__COL_START) && i < end; i++) {
      if (s->start_ns[i] < s->start_ns[i - 1]) return false;
    }
    for (uint32_t i = first; (fresh & TG__COL_PARENT) && i < end; i++) {
      if (s->parent[i] != TG_NONE && s->parent[i] < first) return false;
    }
  }
  return true;
}

static bool ends_are_sane(const struct tg__columns *t) {
  int64_t end;
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (__builtin_add_overflow(t->slices.start_ns[i], t->slices.dur_ns[i], &end)) return false;
  }
  return true;
}

static bool depths_are_sane(const struct tg__columns *t) {
  const struct tg__slices *const s = &t->slices;
  for (uint32_t i = 0; i < s->count; i++) {
    const unsigned above = s->parent[i] == TG_NONE ? 0 : s->depth[s->parent[i]] + 1u;
    if (s->depth[i] != (above > UINT16_MAX ? UINT16_MAX : above)) return false;
  }
  return true;
}

static enum tg_err check_rows(const struct tg__columns *t, uint32_t fresh, struct tg_error *e) {
  const uint32_t after = t->loaded | fresh, ends = TG__COL_START | TG__COL_DUR,
                 nesting = TG__COL_PARENT | TG__COL_DEPTH;
  const bool ends_now = (fresh & ends) && (after & ends) == ends,
             nesting_now = (fresh & nesting) && (after & nesting) == nesting;
  if (tracks_are_sane(t, fresh) && (!ends_now || ends_are_sane(t)) && (!nesting_now || depths_are_sane(t)))
    return TG_OK;
  return tg__fail(e, TG_DAMAGED, -1, "%s: its columns contradict each other, so it was not written by tachograph",
                  t->store->tacho->path);
}

/* ---- loading --------------------------------------------------------------------------------- */

static enum tg_err add_column(struct tg__unpack_list *l, struct tg__columns *t, const struct tg__stored_column *info) {
  const struct tg__tacho *const f = t->store->tacho;
  const uint32_t rows = info->of_marks ? t->marks.count : t->slices.count, per = f->summary.group_rows;
  uint8_t *const column = tg__store_pages(t->store, (size_t)rows * info->width);
  if (!column) return TG_MEMORY;
  *tg__column_place(t, info) = column;
  enum tg_err err = TG_OK;
  for (uint64_t from = 0; from < rows && !err; from += per) {
    const uint64_t n = rows - from < per ? rows - from : per;
    err = tg__unpack_add(l, f, info->chunk, (uint32_t)(from / per),
                         (struct tg__unpack){.to = column + from * info->width,
                                             .rows = (uint32_t)n,
                                             .first_row = (uint32_t)from,
                                             .width = info->width,
                                             .column = info});
  }
  return err;
}

static enum tg_err add_args(struct tg__unpack_list *l, struct tg__columns *t) {
  const struct tg__tacho *const f = t->store->tacho;
  uint8_t *const args = tg__store_pages(t->store, (size_t)f->args_bytes);
  if (!args) return TG_MEMORY;
  t->args = args;
  if (!f->args_blocks) return tg__unpack_add_blob(l, f, TG_CHUNK_ARGS, args, f->args_bytes);
  enum tg_err err = TG_OK;
  uint64_t at = 0;
  for (uint32_t i = 0; i < f->args_block_count && !err; at += f->args_blocks[i++]) {
    err = tg__unpack_add(l, f, TG_CHUNK_ARGS_BY_FIELD, i,
                         (struct tg__unpack){.to = args + at, .rows = f->args_blocks[i], .width = 1, .by_field = true});
  }
  return err;
}

static enum tg_err load_column(struct tg__columns *t, uint32_t fresh, struct tg_error *e) {
  struct tg__unpack_list list = {0};
  enum tg_err err = TG_OK;
  for (int c = 0; c < TG__COLUMN_COUNT && !err; c++) {
    if (tg__stored_columns[c].bit & fresh) err = add_column(&list, t, &tg__stored_columns[c]);
  }
  if (!err && (fresh & TG__COL_ARGS)) err = add_args(&list, t);
  if (err) {
    tg__free(list.items);
    const char *const path = t->store->tacho->path;
    return err == TG_MEMORY ? tg__no_memory(e, "reading %s", path)
                            : tg__fail(e, err, -1, "%s lacks chunks it says it has", path);
  }
  if ((err = tg__unpack_run(&list, t, e))) return err;
  return check_rows(t, fresh, e);
}

/* Forget columns that could not be read to the end. */
static void unload(struct tg__columns *t, uint32_t columns) {
  for (int c = 0; c < TG__COLUMN_COUNT; c++) {
    if (!(tg__stored_columns[c].bit & columns)) continue;
    void **const place = tg__column_place(t, &tg__stored_columns[c]);
    tg__store_drop(t->store, *place);
    *place = NULL;
  }
  if (columns & TG__COL_ARGS) {
    tg__store_drop(t->store, (void *)(uintptr_t)t->args);
    t->args = NULL;
  }
}

enum tg_err tg__tacho_load(struct tg__columns *t, uint32_t columns, struct tg_error *e) {
  const uint32_t fresh = columns & TG__COL_ALL & ~t->loaded;
  if (fresh == 0) return TG_OK;
  enum tg_err err = load_column(t, fresh, e);
  if (!err) {
    t->loaded |= fresh;
    struct tg_error why;
    if (t->loaded == TG__COL_ALL && !tg__trace_is_valid(t, &why)) { /* a hostile file; ours are valid when written */
      err = tg__fail(e, TG_DAMAGED, -1, "%s: it contradicts itself (%s), so it was not written by tachograph",
                     t->store->tacho->path, why.text);
    }
  }
  if (err) {
    t->loaded &= ~fresh;
    unload(t, fresh);
  }
  return err;
}
