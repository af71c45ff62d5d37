/* A small trace made by hand, and the comparison of two traces; for the tests of the native file and its fuzz target.
 */
#ifndef SAMPLE_TRACE_H
#define SAMPLE_TRACE_H

#include <stdlib.h>

#include "trace/store.h"

/* ---- making ---------------------------------------------------------------------------------- */

static inline uint32_t sample_text(struct tg__columns *t, const char *text) {
  return tg__strings_add(t->strings, text, strlen(text));
}

static inline void *sample_copy(const void *from, size_t bytes) {
  void *const p = tg__alloc(bytes);
  if (!p) abort();
  memcpy(p, from, bytes);
  return p;
}

static inline struct tg__columns *sample_empty(void) {
  struct tg__columns *const t = tg__alloc(sizeof *t);
  if (!t || !(t->strings = tg__strings_new()) || !(t->store = tg__store_new(TG__STORE_MEMORY))) abort();
#define KEY(name, text) sample_text(t, text);
#include "trace/keys.def"
#undef KEY
  return t;
}

static inline void sample_columns(struct tg__columns *t, uint32_t slices, uint32_t marks) {
  t->slices.count = slices;
  t->marks.count = marks;
  for (int c = 0; c < TG__COLUMN_COUNT; c++) {
    const struct tg__stored_column *const info = &tg__stored_columns[c];
    *tg__column_place(t, info) = tg__store_pages(t->store, (size_t)(info->of_marks ? marks : slices) * info->width);
  }
  t->loaded = TG__COL_ALL;
}

static inline void sample_args(struct tg__columns *t, const void *bytes, size_t len) {
  uint8_t *const p = tg__store_pages(t->store, len);
  memcpy(p, bytes, len);
  t->args = p;
  t->args_bytes = len;
}

static inline void sample_ranks(struct tg__columns *t, uint32_t slices_of_0, uint32_t slices_of_1) {
  struct tg__rank ranks[2];
  memset(ranks, 0,
         sizeof ranks); /* padding too: the copies are compared field by field, but sanitizers look at bytes */
  for (int i = 0; i < 2; i++) {
    struct tg__rank *const r = &ranks[i];
    r->path = sample_text(t, i ? "rank-1.json" : "rank-0.json.gz");
    r->number = i;
    r->number_is_given = r->packed = i == 0;
    r->bare_array = i == 1;
    r->world_size = 2;
    r->base_ns = 1700000000000000000 + i * 250;
    r->clock_offset_ns = i * 250;
    r->json_bytes = 1000 + i;
    r->first_track = (uint32_t)i * 2;
    r->track_count = i ? 1 : 2;
    for (int k = 0; k < TG__LOSS_COUNT; k++) r->loss_offset[k] = -1;
  }
  ranks[0].events_kept = slices_of_0 + 2;
  ranks[0].loss[TG__LOSS_skipped_syntax] = 1;
  ranks[0].loss_offset[TG__LOSS_skipped_syntax] = 777;
  ranks[0].events_read = ranks[0].events_kept + 1;
  ranks[0].phase_count['X'] = slices_of_0;
  ranks[0].phase_count['i'] = ranks[0].phase_count['M'] = 1;
  ranks[1].events_read = ranks[1].events_kept = ranks[1].phase_count['X'] = slices_of_1;
  const struct tg__meta meta[2] = {{sample_text(t, "displayTimeUnit"), sample_text(t, "\"ms\""), false},
                                   {sample_text(t, "traceName"), sample_text(t, "\"a\""), true}};
  const struct tg__device device = {0, -1, 108, 8, 0, 2048, 32, sample_text(t, "A100")};
  ranks[0].meta = tg__arena_get(&t->arena, sizeof meta);
  memcpy(ranks[0].meta, meta, sizeof meta);
  ranks[0].meta_count = 2;
  ranks[0].devices = tg__arena_get(&t->arena, sizeof device);
  memcpy(ranks[0].devices, &device, sizeof device);
  ranks[0].device_count = 1;
  t->ranks = sample_copy(ranks, sizeof ranks);
  t->rank_count = 2;
}

static inline struct tg__track sample_track(uint32_t rank, enum tg__track_kind kind, int64_t tid, uint32_t first,
                                            uint32_t count) {
  struct tg__track k;
  memset(&k, 0, sizeof k);
  k.rank = rank;
  k.kind = kind;
  k.pid = kind == TG__TRACK_DEVICE ? 0 : 4242;
  k.tid = tid;
  k.device = kind == TG__TRACK_DEVICE ? 0 : -1;
  k.stream = kind == TG__TRACK_DEVICE ? tid : -1;
  k.process_name = k.name = k.labels = TG_NONE;
  k.sort_index = TG_NULL_INT;
  k.first = first;
  k.count = count;
  k.lanes = 1;
  return k;
}

/* Two schemas: none at all, and { "correlation": integer, "id" beside them: text }. */
static inline void sample_schemas(struct tg__columns *t) {
  const struct tg__field fields[2] = {{TG__K_CORRELATION, TG__KIND_INT, false}, {TG__K_ID, TG__KIND_STR, true}};
  struct tg__field *const kept = tg__arena_get(&t->arena, sizeof fields);
  memcpy(kept, fields, sizeof fields);
  const struct tg__schema schemas[2] = {{.count = 0, .has_args = false, .fields = kept},
                                        {.count = 2, .has_args = true, .fields = kept}};
  t->schemas = sample_copy(schemas, sizeof schemas);
  t->schema_count = 2;
}

/* step [0, 100) > add [10, 30), mul [40, 60) > launch [45, 50); on the stream: kernel [52, 90) caused by the launch;
 * on the second rank: add [5, 9). Marks: thread_name without a time, and an instant. */
static inline struct tg__columns *sample_trace(void) {
  enum { STEP, ADD, MUL, LAUNCH, KERNEL, ADD1, SLICES };
  struct tg__columns *const t = sample_empty();
  static const uint8_t args[] = {0, 0,  0,          0, 1, 0,
                                 0, 14, TG__K_ARGS, 0, 0, 0}; /* schema 0; schema 1: correlation 7, id "args" */
  const uint32_t none = TG_NONE;
  const struct tg__cat cats[4] = {{sample_text(t, "cpu_op"), TG__CLASS_OP},
                                  {sample_text(t, "kernel"), TG__CLASS_KERNEL},
                                  {sample_text(t, "cuda_runtime"), TG__CLASS_RUNTIME},
                                  {TG_NONE, TG__CLASS_OTHER}};
  t->cats = sample_copy(cats, sizeof cats);
  t->cat_count = 4;
  sample_schemas(t);
  sample_ranks(t, 5, 1);
  const struct tg__track tracks[3] = {sample_track(0, TG__TRACK_CPU, -9, STEP, 4),
                                      sample_track(0, TG__TRACK_DEVICE, 7, KERNEL, 1),
                                      sample_track(1, TG__TRACK_CPU, 11, ADD1, 1)};
  t->tracks = sample_copy(tracks, sizeof tracks);
  t->track_count = 3;
  t->tracks[0].name = sample_text(t, "main thread");
  t->tracks[0].tid_is_text = true;
  t->tracks[0].tid = sample_text(t, "T-9");
  sample_columns(t, SLICES, 2);
  sample_args(t, args, sizeof args);
  const uint32_t step = sample_text(t, "ProfilerStep#3"), add = sample_text(t, "aten::add"),
                 mul = sample_text(t, "aten::mul");
  const uint32_t launch = sample_text(t, "cudaLaunchKernel"), kernel = sample_text(t, "vectorized");
  const int64_t start[SLICES] = {0, 10, 40, 45, 52, 5}, dur[SLICES] = {100, 20, 20, 5, 38, 4};
  const uint32_t name[SLICES] = {step, add, mul, launch, kernel, add}, ref[SLICES] = {0, 0, 0, 1, 1, 0};
  const uint32_t parent[SLICES] = {none, STEP, STEP, MUL, none, none},
                 cause[SLICES] = {none, none, none, MUL, LAUNCH, none};
  const uint16_t cat[SLICES] = {3, 0, 0, 2, 1, 0}, depth[SLICES] = {0, 1, 1, 2, 0, 0};
  const uint8_t flags[SLICES] = {0, 0, TG__F_ROUNDED, 0, 0, TG__F_NEGATIVE};
  memcpy(t->slices.start_ns, start, sizeof start);
  memcpy(t->slices.dur_ns, dur, sizeof dur);
  memcpy(t->slices.name, name, sizeof name);
  memcpy(t->slices.args, ref, sizeof ref);
  memcpy(t->slices.parent, parent, sizeof parent);
  memcpy(t->slices.cause, cause, sizeof cause);
  memcpy(t->slices.cat, cat, sizeof cat);
  memcpy(t->slices.depth, depth, sizeof depth);
  memcpy(t->slices.flags, flags, sizeof flags);
  t->marks.ts_ns[0] = TG_NULL_INT;
  t->marks.ts_ns[1] = 55;
  t->marks.name[0] = TG__K_THREAD_NAME;
  t->marks.name[1] = TG__K_MEMORY;
  t->marks.args[1] = 1;
  t->marks.cat[0] = t->marks.cat[1] = 3;
  t->marks.ph[0] = 'M';
  t->marks.ph[1] = 'i';
  const struct tg__step steps[1] = {
      {.rank = 0, .slice = STEP, .name = step, .number = 3, .start_ns = 0, .end_ns = 100}};
  t->steps = sample_copy(steps, sizeof steps);
  t->step_count = 1;
  t->step_kind = TG__STEP_PROFILER;
  return t;
}

/* ---- comparing ------------------------------------------------------------------------------- */

#define SAME(what, condition)                                                                                          \
  if (!(condition)) return what

static inline const char *sample_strings_differ(const struct tg__columns *a, const struct tg__columns *b) {
  SAME("string count", tg__strings_count(a->strings) == tg__strings_count(b->strings));
  for (uint32_t i = 0; i < tg__strings_count(a->strings); i++) {
    SAME("string", tg__str_eq(tg__strings_get(a->strings, i), tg__strings_get(b->strings, i)));
  }
  SAME("schema count", a->schema_count == b->schema_count);
  for (uint32_t i = 0; i < a->schema_count; i++) {
    const struct tg__schema *const x = &a->schemas[i], *const y = &b->schemas[i];
    SAME("schema", x->count == y->count && x->has_args == y->has_args);
    for (uint16_t k = 0; k < x->count; k++) {
      const struct tg__field f = x->fields[k], g = y->fields[k];
      SAME("field", f.key == g.key && f.kind == g.kind && f.top == g.top);
    }
  }
  SAME("category count", a->cat_count == b->cat_count);
  for (uint32_t i = 0; i < a->cat_count; i++)
    SAME("category", a->cats[i].name == b->cats[i].name && a->cats[i].cls == b->cats[i].cls);
  return NULL;
}

static inline const char *sample_rank_differs(const struct tg__rank *x, const struct tg__rank *y) {
  SAME("rank identity", x->path == y->path && x->number == y->number && x->number_is_given == y->number_is_given);
  SAME("rank facts",
       x->world_size == y->world_size && x->base_ns == y->base_ns && x->clock_offset_ns == y->clock_offset_ns);
  SAME("rank container", x->bare_array == y->bare_array && x->packed == y->packed && x->json_bytes == y->json_bytes);
  SAME("rank tracks", x->first_track == y->first_track && x->track_count == y->track_count);
  SAME("rank events", x->events_read == y->events_read && x->events_kept == y->events_kept);
  SAME("phases", memcmp(x->phase_count, y->phase_count, sizeof x->phase_count) == 0);
  SAME("losses", memcmp(x->loss, y->loss, sizeof x->loss) == 0 &&
                     memcmp(x->loss_offset, y->loss_offset, sizeof x->loss_offset) == 0);
  SAME("meta count", x->meta_count == y->meta_count && x->device_count == y->device_count);
  for (size_t i = 0; i < x->meta_count; i++) {
    const struct tg__meta m = x->meta[i], n = y->meta[i];
    SAME("meta", m.key == n.key && m.raw == n.raw && m.after == n.after);
  }
  for (size_t i = 0; i < x->device_count; i++) {
    const struct tg__device d = x->devices[i], q = y->devices[i];
    SAME("device",
         d.id == q.id && d.total_memory_bytes == q.total_memory_bytes && d.sm_count == q.sm_count && d.name == q.name);
    SAME("device", d.compute_major == q.compute_major && d.compute_minor == q.compute_minor);
    SAME("device", d.max_threads_per_sm == q.max_threads_per_sm && d.warp_size == q.warp_size);
  }
  return NULL;
}

static inline const char *sample_tracks_differ(const struct tg__columns *a, const struct tg__columns *b) {
  SAME("track count", a->track_count == b->track_count);
  for (uint32_t i = 0; i < a->track_count; i++) {
    const struct tg__track x = a->tracks[i], y = b->tracks[i];
    SAME("track identity", x.rank == y.rank && x.kind == y.kind && x.pid == y.pid && x.tid == y.tid);
    SAME("track identity", x.pid_is_text == y.pid_is_text && x.tid_is_text == y.tid_is_text && x.device == y.device &&
                               x.stream == y.stream);
    SAME("track names",
         x.process_name == y.process_name && x.name == y.name && x.labels == y.labels && x.sort_index == y.sort_index);
    SAME("track slices", x.first == y.first && x.count == y.count && x.lanes == y.lanes);
  }
  SAME("step count", a->step_count == b->step_count && a->step_kind == b->step_kind);
  for (uint32_t i = 0; i < a->step_count; i++) {
    const struct tg__step x = a->steps[i], y = b->steps[i];
    SAME("step", x.rank == y.rank && x.slice == y.slice && x.name == y.name && x.number == y.number);
    SAME("step", x.start_ns == y.start_ns && x.end_ns == y.end_ns);
  }
  return NULL;
}

/* NULL when the two are the same in all that is loaded in both; else what differs first. */
static inline const char *sample_differ(struct tg__columns *a, struct tg__columns *b) {
  const char *what = sample_strings_differ(a, b);
  if (what) return what;
  SAME("rank count", a->rank_count == b->rank_count);
  for (uint32_t i = 0; i < a->rank_count; i++) {
    if ((what = sample_rank_differs(&a->ranks[i], &b->ranks[i]))) return what;
  }
  if ((what = sample_tracks_differ(a, b))) return what;
  SAME("slice count",
       a->slices.count == b->slices.count && a->marks.count == b->marks.count && a->args_bytes == b->args_bytes);
  for (int c = 0; c < TG__COLUMN_COUNT; c++) {
    const struct tg__stored_column *const info = &tg__stored_columns[c];
    if (!(a->loaded & b->loaded & info->bit)) continue;
    const size_t bytes = (size_t)(info->of_marks ? a->marks.count : a->slices.count) * info->width;
    SAME("column", memcmp(*tg__column_place(a, info), *tg__column_place(b, info), bytes) == 0);
  }
  if (a->loaded & b->loaded & TG__COL_ARGS) SAME("args", memcmp(a->args, b->args, (size_t)a->args_bytes) == 0);
  return NULL;
}
#undef SAME

#endif
