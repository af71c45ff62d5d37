/* tables_put: the small tables of a trace as bytes. docs/format.md shows the same layouts. */
#include "trace/tables.h"

void tg__summary_put(struct tg__out *o, const struct tg__summary *s) {
  tg__out_put32(o, s->group_rows);
  tg__out_put32(o, s->step_kind);
  const uint64_t fields[16] = {s->slices,       s->marks,         s->strings,      s->rank_count,
                               s->track_count,  s->cat_count,     s->schema_count, s->step_count,
                               s->text_bytes,   s->schemas_bytes, s->cats_bytes,   s->ranks_bytes,
                               s->tracks_bytes, s->steps_bytes,   s->args_bytes,   s->args_strings};
  for (int i = 0; i < 16; i++) tg__out_put64(o, fields[i]);
}

void tg__schemas_put(struct tg__out *o, const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->schema_count; i++) {
    const struct tg__schema *const s = &t->schemas[i];
    tg__out_put16(o, s->count);
    tg__out_put16(o, s->has_args);
    for (uint16_t k = 0; k < s->count; k++) {
      tg__out_put32(o, s->fields[k].key);
      tg__out_put8(o, s->fields[k].kind);
      tg__out_put8(o, s->fields[k].top);
    }
  }
}

void tg__cats_put(struct tg__out *o, const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->cat_count; i++) {
    tg__out_put32(o, t->cats[i].name);
    tg__out_put32(o, t->cats[i].cls);
  }
}

static void put_signed(struct tg__out *o, int64_t v) { tg__out_put64(o, (uint64_t)v); }

static void put_metadata(struct tg__out *o, const struct tg__rank *r) {
  tg__out_put32(o, (uint32_t)r->meta_count);
  for (size_t i = 0; i < r->meta_count; i++) {
    tg__out_put32(o, r->meta[i].key);
    tg__out_put32(o, r->meta[i].raw);
    tg__out_put8(o, r->meta[i].after);
  }
  tg__out_put32(o, (uint32_t)r->device_count);
  for (size_t i = 0; i < r->device_count; i++) {
    const struct tg__device *const d = &r->devices[i];
    const int64_t fields[7] = {
        d->id,       d->total_memory_bytes, d->sm_count, d->compute_major, d->compute_minor, d->max_threads_per_sm,
        d->warp_size};
    for (int k = 0; k < 7; k++) put_signed(o, fields[k]);
    tg__out_put32(o, d->name);
  }
}

/* Only what is not zero; losses by name, so that the file does not depend on the order of losses.def. */
static void put_counts(struct tg__out *o, const struct tg__rank *r) {
  uint32_t phases = 0, losses = 0;
  for (int i = 0; i < 128; i++) phases += r->phase_count[i] != 0;
  for (int i = 0; i < TG__LOSS_COUNT; i++) losses += r->loss[i] != 0;
  tg__out_put32(o, phases);
  for (int i = 0; i < 128; i++) {
    if (r->phase_count[i] == 0) continue;
    tg__out_put8(o, (uint8_t)i);
    put_signed(o, r->phase_count[i]);
  }
  tg__out_put32(o, losses);
  for (int i = 0; i < TG__LOSS_COUNT; i++) {
    if (r->loss[i] == 0) continue;
    const char *const name = tg__loss_info[i].name;
    tg__out_put8(o, (uint8_t)strlen(name));
    tg__out_text(o, name);
    put_signed(o, r->loss[i]);
    put_signed(o, r->loss_offset[i]);
  }
}

void tg__ranks_put(struct tg__out *o, const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->rank_count; i++) {
    const struct tg__rank *const r = &t->ranks[i];
    const size_t start = o->len;
    tg__out_put32(o, 0); /* length of the record, set below */
    tg__out_put32(o, r->path);
    tg__out_put32(o, (uint32_t)(r->number_is_given | r->bare_array << 1 | r->packed << 2 | r->is_recording << 3));
    put_signed(o, r->number);
    put_signed(o, r->world_size);
    put_signed(o, r->base_ns);
    put_signed(o, r->clock_offset_ns);
    put_signed(o, r->json_bytes);
    tg__out_put32(o, r->first_track);
    tg__out_put32(o, r->track_count);
    put_signed(o, r->events_read);
    put_signed(o, r->events_kept);
    put_metadata(o, r);
    put_counts(o, r);
    if (!o->err) tg__set32((uint8_t *)o->buf + start, (uint32_t)(o->len - start));
  }
}

void tg__tracks_put(struct tg__out *o, const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->track_count; i++) {
    const struct tg__track *const k = &t->tracks[i];
    tg__out_put32(o, k->rank);
    tg__out_put8(o, (uint8_t)k->kind);
    tg__out_put8(o, (uint8_t)(k->pid_is_text | k->tid_is_text << 1));
    tg__out_put16(o, k->lanes);
    put_signed(o, k->pid);
    put_signed(o, k->tid);
    put_signed(o, k->device);
    put_signed(o, k->stream);
    put_signed(o, k->sort_index);
    tg__out_put32(o, k->process_name);
    tg__out_put32(o, k->name);
    tg__out_put32(o, k->labels);
    tg__out_put32(o, k->first);
    tg__out_put32(o, k->count);
  }
}

void tg__steps_put(struct tg__out *o, const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->step_count; i++) {
    const struct tg__step *const s = &t->steps[i];
    tg__out_put32(o, s->rank);
    tg__out_put32(o, s->slice);
    tg__out_put32(o, s->name);
    put_signed(o, s->number);
    put_signed(o, s->start_ns);
    put_signed(o, s->end_ns);
  }
}
