/* tables_take: the small tables of a .tacho file, from untrusted bytes. Every count is checked against the bytes
 * that are left before memory is asked for, every id against the table it points into. */
#include "trace/tacho.h"

void tg__summary_take(struct tg__bytes *b, struct tg__summary *s) {
  s->group_rows = tg__bytes_take32(b);
  s->step_kind = tg__bytes_take32(b);
  uint64_t *const fields[16] = {&s->slices,       &s->marks,         &s->strings,      &s->rank_count,
                                &s->track_count,  &s->cat_count,     &s->schema_count, &s->step_count,
                                &s->text_bytes,   &s->schemas_bytes, &s->cats_bytes,   &s->ranks_bytes,
                                &s->tracks_bytes, &s->steps_bytes,   &s->args_bytes,   &s->args_strings};
  for (int i = 0; i < 16; i++) *fields[i] = tg__bytes_take64(b);
}

static uint64_t left(const struct tg__bytes *b) { return (uint64_t)(b->end - b->p); }

/* Room for `count` items that take at least `least` bytes each in the file; NULL when the file cannot hold that
 * many. */
static void *table_room(const struct tg__bytes *b, uint64_t count, size_t least, size_t item, enum tg_err *err) {
  if (count >= TG_NONE || count > left(b) / least) {
    *err = TG_DAMAGED;
    return NULL;
  }
  void *const p = tg__alloc((size_t)count * item);
  if (!p) *err = TG_MEMORY;
  return p;
}

/* A string id of the file as one of the trace. false when the file has no such string. */
static bool take_string(struct tg__bytes *b, const struct tg__columns *t, bool or_none, uint32_t *out) {
  *out = tg__bytes_take32(b);
  return (or_none && *out == TG_NONE) || tg__tacho_string(t->store->tacho, out);
}

static enum tg_err check_end_of_table(const struct tg__bytes *b) { return b->broken || left(b) ? TG_DAMAGED : TG_OK; }

/* ---- schemas and categories ------------------------------------------------------------------ */

enum { SCHEMA_BYTES = 4, FIELD_BYTES = 6, CAT_BYTES = 8 };

enum tg_err tg__schemas_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count) {
  enum tg_err err = TG_OK;
  t->schemas = table_room(b, count, SCHEMA_BYTES, sizeof *t->schemas, &err);
  if (err) return err;
  t->schema_count = (uint32_t)count;
  for (uint64_t i = 0; i < count; i++) {
    const uint16_t fields = tg__bytes_take16(b);
    const uint16_t has_args = tg__bytes_take16(b);
    if (has_args > 1 || (uint64_t)fields * FIELD_BYTES > left(b)) return TG_DAMAGED;
    struct tg__field *const f = tg__arena_get(&t->arena, (fields + 1) * sizeof *f);
    if (!f) return TG_MEMORY;
    for (uint16_t k = 0; k < fields; k++) {
      if (!take_string(b, t, false, &f[k].key)) return TG_DAMAGED;
      f[k].kind = tg__bytes_take8(b);
      f[k].top = tg__bytes_take8(b);
      if (f[k].kind > TG__KIND_NULL) return TG_DAMAGED;
    }
    t->schemas[i] = (struct tg__schema){.count = fields, .has_args = has_args, .fields = f};
  }
  return check_end_of_table(b);
}

enum tg_err tg__cats_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count) {
  enum tg_err err = TG_OK;
  if (count > 1u << 16) return TG_DAMAGED; /* a column of 16 bits refers to them */
  t->cats = table_room(b, count, CAT_BYTES, sizeof *t->cats, &err);
  if (err) return err;
  t->cat_count = (uint32_t)count;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t name;
    if (!take_string(b, t, true, &name)) return TG_DAMAGED;
    const uint32_t cls = tg__bytes_take32(b);
    if (cls >= TG__CLASS_COUNT) return TG_DAMAGED;
    t->cats[i] = (struct tg__cat){.name = name, .cls = (uint8_t)cls};
  }
  return check_end_of_table(b);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

enum {
  RANK_BYTES = 92,
  META_BYTES = 9,
  DEVICE_BYTES = 60,
  PHASE_BYTES = 9,
  LOSS_BYTES = 17,
  TRACK_BYTES = 68,
  STEP_BYTES = 36
};

static int64_t take_signed(struct tg__bytes *b) { return (int64_t)tg__bytes_take64(b); }

static enum tg_err take_metadata(struct tg__bytes *b, struct tg__columns *t, struct tg__rank *r) {
  const uint32_t metas = tg__bytes_take32(b);
  if (metas > left(b) / META_BYTES) return TG_DAMAGED;
  r->meta = tg__arena_get(&t->arena, (metas + (size_t)1) * sizeof *r->meta);
  if (!r->meta) return TG_MEMORY;
  r->meta_count = metas;
  for (uint32_t i = 0; i < metas; i++) {
    struct tg__meta *const m = &r->meta[i];
    if (!take_string(b, t, false, &m->key) || !take_string(b, t, false, &m->raw)) return TG_DAMAGED;
    m->after = tg__bytes_take8(b);
  }
  const uint32_t devices = tg__bytes_take32(b);
  if (devices > left(b) / DEVICE_BYTES) return TG_DAMAGED;
  r->devices = tg__arena_get(&t->arena, (devices + (size_t)1) * sizeof *r->devices);
  if (!r->devices) return TG_MEMORY;
  r->device_count = devices;
  for (uint32_t i = 0; i < devices; i++) {
    struct tg__device *const d = &r->devices[i];
    int64_t *const fields[7] = {&d->id,
                                &d->total_memory_bytes,
                                &d->sm_count,
                                &d->compute_major,
                                &d->compute_minor,
                                &d->max_threads_per_sm,
                                &d->warp_size};
    for (int k = 0; k < 7; k++) *fields[k] = take_signed(b);
    if (!take_string(b, t, true, &d->name)) return TG_DAMAGED;
  }
  return TG_OK;
}

static enum tg__loss loss_named(const uint8_t *name, size_t len) {
  for (int i = 0; name && i < TG__LOSS_COUNT; i++) {
    if (strlen(tg__loss_info[i].name) == len && memcmp(tg__loss_info[i].name, name, len) == 0) return (enum tg__loss)i;
  }
  return TG__LOSS_cut_chunks; /* a kind of loss this version has no name for */
}

static enum tg_err take_counts(struct tg__bytes *b, struct tg__rank *r) {
  const uint32_t phases = tg__bytes_take32(b);
  if (phases > 128) return TG_DAMAGED;
  for (uint32_t i = 0; i < phases; i++) {
    const uint8_t letter = tg__bytes_take8(b);
    if (letter >= 128) return TG_DAMAGED;
    r->phase_count[letter] = take_signed(b);
  }
  for (int i = 0; i < TG__LOSS_COUNT; i++) r->loss_offset[i] = -1;
  const uint32_t losses = tg__bytes_take32(b);
  if (losses > left(b) / LOSS_BYTES) return TG_DAMAGED;
  for (uint32_t i = 0; i < losses; i++) {
    const uint8_t len = tg__bytes_take8(b);
    const enum tg__loss which = loss_named(tg__bytes_take(b, len), len);
    const int64_t count = take_signed(b), offset = take_signed(b);
    if (count < 0 || count > INT64_MAX - r->loss[which]) return TG_DAMAGED;
    r->loss[which] += count;
    r->loss_offset[which] = offset;
  }
  return b->broken ? TG_DAMAGED : TG_OK;
}

static enum tg_err take_rank(struct tg__bytes *b, struct tg__columns *t, struct tg__rank *r) {
  if (!take_string(b, t, false, &r->path)) return TG_DAMAGED;
  const uint32_t flags = tg__bytes_take32(b);
  r->number_is_given = flags & 1;
  r->bare_array = flags & 2;
  r->packed = flags & 4;
  r->is_recording = flags & 8;
  r->number = take_signed(b);
  r->world_size = take_signed(b);
  r->base_ns = take_signed(b);
  r->clock_offset_ns = take_signed(b);
  r->json_bytes = take_signed(b);
  r->first_track = tg__bytes_take32(b);
  r->track_count = tg__bytes_take32(b);
  r->events_read = take_signed(b);
  r->events_kept = take_signed(b);
  const enum tg_err err = take_metadata(b, t, r);
  return err ? err : take_counts(b, r);
}

enum tg_err tg__ranks_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count) {
  enum tg_err err = TG_OK;
  t->ranks = table_room(b, count, RANK_BYTES, sizeof *t->ranks, &err);
  if (err) return err;
  t->rank_count = (uint32_t)count;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t bytes = tg__bytes_take32(b);
    if (bytes < 4 || bytes - 4 > left(b)) return TG_DAMAGED;
    struct tg__bytes record = {.p = b->p, .end = b->p + bytes - 4};
    if ((err = take_rank(&record, t, &t->ranks[i]))) return err;
    tg__bytes_take(b, bytes - 4); /* with what a later minor version may have put behind it */
  }
  return check_end_of_table(b);
}

/* ---- tracks and steps ------------------------------------------------------------------------ */

/* A process or thread id: a number, or the id of the text that stood there. */
static bool take_token(struct tg__bytes *b, const struct tg__columns *t, bool is_text, int64_t *out) {
  *out = take_signed(b);
  if (!is_text) return true;
  uint32_t id = *out < 0 || *out >= TG_NONE ? TG_NONE : (uint32_t)*out;
  if (!tg__tacho_string(t->store->tacho, &id)) return false;
  *out = id;
  return true;
}

static bool take_track(struct tg__bytes *b, const struct tg__columns *t, struct tg__track *k) {
  k->rank = tg__bytes_take32(b);
  const uint8_t kind = tg__bytes_take8(b), text = tg__bytes_take8(b);
  k->kind = (enum tg__track_kind)kind;
  k->pid_is_text = text & 1;
  k->tid_is_text = text & 2;
  k->lanes = tg__bytes_take16(b);
  if (!take_token(b, t, k->pid_is_text, &k->pid) || !take_token(b, t, k->tid_is_text, &k->tid)) return false;
  k->device = take_signed(b);
  k->stream = take_signed(b);
  k->sort_index = take_signed(b);
  if (!take_string(b, t, true, &k->process_name) || !take_string(b, t, true, &k->name) ||
      !take_string(b, t, true, &k->labels))
    return false;
  k->first = tg__bytes_take32(b);
  k->count = tg__bytes_take32(b);
  return k->rank < t->rank_count && kind <= TG__TRACK_OTHER;
}

enum tg_err tg__tracks_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count) {
  enum tg_err err = TG_OK;
  t->tracks = table_room(b, count, TRACK_BYTES, sizeof *t->tracks, &err);
  if (err) return err;
  t->track_count = (uint32_t)count;
  uint64_t slices = 0, tracks = 0;
  for (uint64_t i = 0; i < count; i++) { /* the slices of the tracks follow each other without a gap */
    struct tg__track *const k = &t->tracks[i];
    if (!take_track(b, t, k) || k->first != slices) return TG_DAMAGED;
    slices += k->count;
  }
  if (slices != t->slices.count) return TG_DAMAGED;
  for (uint32_t i = 0; i < t->rank_count; i++) { /* and so do the tracks of the ranks */
    const struct tg__rank *const r = &t->ranks[i];
    if (r->first_track != tracks || r->track_count > count - tracks) return TG_DAMAGED;
    for (uint32_t k = 0; k < r->track_count; k++) {
      if (t->tracks[r->first_track + k].rank != i) return TG_DAMAGED;
    }
    tracks += r->track_count;
  }
  return tracks == count ? check_end_of_table(b) : TG_DAMAGED;
}

enum tg_err tg__steps_take(struct tg__bytes *b, struct tg__columns *t, uint64_t count) {
  enum tg_err err = TG_OK;
  t->steps = table_room(b, count, STEP_BYTES, sizeof *t->steps, &err);
  if (err) return err;
  t->step_count = (uint32_t)count;
  for (uint64_t i = 0; i < count; i++) {
    struct tg__step *const s = &t->steps[i];
    s->rank = tg__bytes_take32(b);
    s->slice = tg__bytes_take32(b);
    if (!take_string(b, t, false, &s->name)) return TG_DAMAGED;
    s->number = take_signed(b);
    s->start_ns = take_signed(b);
    s->end_ns = take_signed(b);
    if (s->rank >= t->rank_count) return TG_DAMAGED;
    if (s->slice != TG_NONE && s->slice >= t->slices.count) return TG_DAMAGED;
    if (s->end_ns < s->start_ns || (i && s->rank < s[-1].rank)) return TG_DAMAGED;
  }
  return check_end_of_table(b);
}
