/* import_packed: one rank of a packed .tacho file as an import, so that it can stand beside others in one trace.
 * Events go back into the order of their file; what build.c works out from them (durations of pairs, nesting,
 * causes) is worked out again. */
#include "trace/import.h"
#include "trace/tacho.h"

struct mover {
  const struct tg__columns *from;
  struct tg__import *im;
  struct tg__parser *parser;
  uint32_t *strings;                /* id there → id here, TG_NONE until met */
  const struct tg__guess **schemas; /* likewise */
  uint32_t *tracks;
  uint32_t *events; /* slices, then marks from slices.count on */
  size_t count;
};

static uint32_t string_of(struct mover *m, uint32_t id) {
  if (id == TG_NONE || m->strings[id] != TG_NONE) return id == TG_NONE ? id : m->strings[id];
  const struct tg__str s = tg__name(m->from, id);
  const uint32_t here = tg__strings_add(m->im->shared.trace->strings, s.ptr, s.len);
  if (here == TG_NONE) m->parser->no_memory = true;
  return m->strings[id] = here;
}

static uint32_t track_of(struct mover *m, uint32_t track) {
  if (m->tracks[track] != TG_NONE) return m->tracks[track];
  const struct tg__track *const t = &m->from->tracks[track];
  const struct tg__track_key key = {.pid = t->pid_is_text ? (int64_t)string_of(m, (uint32_t)t->pid) : t->pid,
                                    .tid = t->tid_is_text ? (int64_t)string_of(m, (uint32_t)t->tid) : t->tid,
                                    .pid_is_text = t->pid_is_text,
                                    .tid_is_text = t->tid_is_text};
  return m->tracks[track] = tg__intern_track(m->parser, &key);
}

static uint32_t args_of(struct mover *m, uint32_t args) {
  struct tg__parser *const p = m->parser;
  struct tg__args_iter it;
  p->val_count = 0;
  tg__args_begin(m->from, args, &it);
  if (!it.schema) { /* damaged: an event without args */
    const struct tg__guess *const none = tg__intern_schema(p, false, p->vals, 0);
    return none ? tg__pack_args(p, none->id, p->vals, 0) : TG_NONE;
  }
  if (!tg__grow((void **)&p->vals, &p->val_cap, it.schema->count + (size_t)1, sizeof *p->vals)) {
    p->no_memory = true;
    return TG_NONE;
  }
  while (tg__args_next(&it)) {
    const bool text = it.val.kind == TG__KIND_STR || it.val.kind == TG__KIND_RAW;
    p->vals[p->val_count++] = (struct tg__packed_val){.key = string_of(m, it.field->key),
                                                      .kind = it.field->kind,
                                                      .decimals = it.val.decimals,
                                                      .top = it.field->top,
                                                      .i = text ? (int64_t)string_of(m, it.val.str) : it.val.i};
  }
  const size_t at = (size_t)(it.schema - m->from->schemas);
  if (!m->schemas[at]) m->schemas[at] = tg__intern_schema(p, it.schema->has_args, p->vals, p->val_count);
  return m->schemas[at] ? tg__pack_args(p, m->schemas[at]->id, p->vals, p->val_count) : TG_NONE;
}

static struct tg__record slice_record(struct mover *m, uint32_t i) {
  const struct tg__slices *const s = &m->from->slices;
  const uint8_t flags = s->flags[i];
  const uint8_t ph = flags & TG__F_BEGIN_END ? 'B' : !(flags & TG__F_ASYNC) ? 'X' : flags & TG__F_LEGACY ? 'S' : 'b';
  return (struct tg__record){.ts_ns = s->start_ns[i],
                             .dur_ns = ph == 'X' ? s->dur_ns[i] : TG_NULL_INT,
                             .name = string_of(m, s->name[i]),
                             .track = track_of(m, tg__slice_track(m->from, i)),
                             .args = args_of(m, s->args[i]),
                             .cat = (uint16_t)tg__intern_cat(m->parser, string_of(m, m->from->cats[s->cat[i]].name)),
                             .ph = ph,
                             .flags = flags & (TG__F_NEGATIVE | TG__F_ROUNDED)};
}

static struct tg__record mark_record(struct mover *m, uint32_t i) {
  const struct tg__marks *const k = &m->from->marks;
  return (struct tg__record){.ts_ns = k->ts_ns[i],
                             .dur_ns = TG_NULL_INT,
                             .name = string_of(m, k->name[i]),
                             .track = track_of(m, k->track[i]),
                             .args = args_of(m, k->args[i]),
                             .cat = (uint16_t)tg__intern_cat(m->parser, string_of(m, m->from->cats[k->cat[i]].name)),
                             .ph = k->ph[i]};
}

static uint32_t reference_of(const struct tg__columns *t, uint32_t event) {
  return event < t->slices.count ? t->slices.args[event] : t->marks.args[event - t->slices.count];
}
static bool stood_before(uint32_t a, uint32_t b, const void *ctx) {
  return reference_of(ctx, a) < reference_of(ctx, b);
}

static bool list_events(struct mover *m, const struct tg__rank *rank) {
  const struct tg__columns *const t = m->from;
  m->events = tg__alloc(((size_t)t->slices.count + t->marks.count + 1) * sizeof *m->events);
  if (!m->events) return false;
  TG__EACH (k, tg__tracks_of(rank)) {
    for (uint32_t i = 0; i < t->tracks[k].count; i++) m->events[m->count++] = t->tracks[k].first + i;
  }
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (&t->ranks[t->tracks[t->marks.track[i]].rank] == rank) m->events[m->count++] = t->slices.count + i;
  }
  return tg__sort_index(m->events, m->count, stood_before, t);
}

static bool move_events(struct mover *m) {
  const size_t bytes = (m->count + 1) * sizeof(struct tg__record);
  struct tg__import *const im = m->im;
  struct tg__segment s = {tg__pages_get(bytes), 0, bytes};
  if (!s.records) return false;
  for (size_t i = 0; i < m->count && !m->parser->no_memory; i++) {
    const uint32_t at = m->events[i];
    struct tg__record r = at < m->from->slices.count ? slice_record(m, at) : mark_record(m, at - m->from->slices.count);
    r.args += (uint32_t)(im->pool_len / 4);
    im->phases[r.ph & 127]++;
    s.records[s.count++] = r;
  }
  const struct tg__parser *const p = m->parser;
  if (p->no_memory || (im->pool_len + p->pool_len) / 4 >= TG_NONE ||
      !tg__pages_grow((void **)&im->pool, &im->pool_cap, im->pool_len + p->pool_len + 1) ||
      !tg__grow((void **)&im->segments, &im->segment_cap, im->segment_count + 1, sizeof *im->segments)) {
    tg__pages_drop(s.records, bytes);
    return false;
  }
  if (p->pool_len) memcpy(im->pool + im->pool_len, p->pool, p->pool_len);
  im->pool_len += p->pool_len;
  im->segments[im->segment_count++] = s;
  im->events_read = (int64_t)s.count;
  return true;
}

static bool move_document(struct mover *m, const struct tg__rank *rank) {
  struct tg__import *const im = m->im;
  if (!tg__grow((void **)&im->meta, &im->meta_cap, rank->meta_count + 1, sizeof *im->meta)) return false;
  for (size_t i = 0; i < rank->meta_count; i++) {
    const struct tg__meta *const x = &rank->meta[i];
    im->meta[im->meta_count++] = (struct tg__meta){string_of(m, x->key), string_of(m, x->raw), x->after};
  }
  for (int i = 0; i < TG__LOSS_COUNT; i++) {
    if (i == TG__LOSS_bent_unclosed || i == TG__LOSS_bent_unmatched_end || i == TG__LOSS_bent_wrong_end)
      continue; /* counted again */
    im->losses.count[i] = rank->loss[i];
    im->losses.offset[i] = rank->loss_offset[i];
  }
  im->bare_array = rank->bare_array;
  im->packed = rank->packed;
  im->text_bytes = rank->json_bytes;
  im->is_recording = rank->is_recording;
  im->rank_number = rank->number_is_given && rank->number <= INT32_MAX ? rank->number : -1;
  return true;
}

enum tg_err tg__packed_read(struct tg__import *im, const struct tg__columns *from, uint32_t rank, struct tg_error *e) {
  const uint32_t strings = tg__strings_count(from->strings);
  struct mover m = {.from = from,
                    .im = im,
                    .parser = tg__alloc(sizeof *m.parser),
                    .strings = tg__alloc((strings + (size_t)1) * sizeof *m.strings),
                    .schemas = tg__alloc((from->schema_count + (size_t)1) * sizeof *m.schemas),
                    .tracks = tg__alloc((from->track_count + (size_t)1) * sizeof *m.tracks)};
  bool ok = m.parser && m.strings && m.schemas && m.tracks && tg__parser_init(m.parser, &im->shared);
  if (ok) {
    memset(m.strings, 0xff, strings * sizeof *m.strings);
    memset(m.tracks, 0xff, from->track_count * sizeof *m.tracks);
    ok = list_events(&m, &from->ranks[rank]) && move_events(&m) && move_document(&m, &from->ranks[rank]) &&
         !m.parser->no_memory;
  }
  if (m.parser) tg__parser_free(m.parser);
  tg__free(m.parser);
  tg__free(m.strings);
  tg__free((void *)m.schemas);
  tg__free(m.tracks);
  tg__free(m.events);
  return ok ? TG_OK : tg__no_memory(e, "reading a packed rank");
}
