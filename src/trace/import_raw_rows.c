/* Rows of a recording that are no record of it: names of processes and threads, the recording itself, and members
 * of the document. */
#include "trace/import_raw.h"

#include <stdio.h>
#include <stdlib.h>

enum { KINETO_SPANS_INDEX = 536870912 };
static const int64_t QUARTER_NS = INT64_C(7889238) * 1000000000; /* Kineto's base times are multiples of it */

/* ---- one event ------------------------------------------------------------------------------- */

void tg__raw_add_event(struct tg__raw *w, struct tg__record r, const char *category) {
  const uint32_t cat = category ? tg__raw_intern(w, category, strlen(category)) : TG_NONE;
  if (!tg__row_add(w->parser, r, cat)) w->no_memory = true;
}

/* ---- processes and threads ------------------------------------------------------------------- */

void tg__raw_add_metadata(struct tg__raw *w, uint32_t name, uint32_t track, uint32_t key, enum tg__kind kind,
                          int64_t value) {
  tg__row_value(w->parser, key, kind, value, false);
  const int64_t ts = w->start_ns; /* Kineto writes a time for these, too */
  tg__raw_add_event(w, (struct tg__record){.ts_ns = ts, .dur_ns = TG_NULL_INT, .name = name, .track = track, .ph = 'M'},
                    NULL);
}

static uint32_t process_name(struct tg__raw *w) {
  for (size_t i = 0; i < w->im->meta_count; i++) {
    const struct tg__str name = tg__json_unquoted(tg__name(w->trace, w->im->meta[i].raw));
    if (w->im->meta[i].key != TG__K_PROCESS_NAME || !name.ptr) continue;
    w->im->meta[i] = w->im->meta[--w->im->meta_count]; /* a row here, no member of the document */
    return tg__raw_intern(w, name.ptr, name.len);
  }
  return tg__raw_intern(w, "python", 6);
}

static void add_process(struct tg__raw *w, uint32_t pid, uint32_t name) {
  const uint32_t track = tg__intern_track(w->parser, &(struct tg__track_key){.pid = pid});
  tg__raw_add_metadata(w, TG__K_PROCESS_NAME, track, TG__K_NAME, TG__KIND_STR, name);
  tg__raw_add_metadata(w, TG__K_PROCESS_LABELS, track, TG__K_LABELS, TG__KIND_STR, tg__raw_intern(w, "CPU", 3));
  tg__raw_add_metadata(w, TG__K_PROCESS_SORT_INDEX, track, TG__K_SORT_INDEX, TG__KIND_INT, pid);
}

/* thread 4242 (pt_autograd_0), as Kineto names them. */
static void add_thread(struct tg__raw *w, const struct tg__raw_job *j) {
  const struct tg__raw_ids scope = tg__raw_ids_of(j->file, TG_RAW_EVERY_THREAD);
  uint32_t name = tg__raw_find(&scope, TG_RAW_D_GIVEN_THREAD, j->head.thread);
  if (name == TG_NONE) name = tg__raw_find(&scope, TG_RAW_D_THREAD, j->chunk->part);
  struct tg__out text = {0};
  tg__out_format(&text, "thread %u", j->head.thread);
  if (name != TG_NONE) {
    const struct tg__str s = tg__name(w->trace, name);
    tg__out_text(&text, " (");
    tg__out_bytes(&text, s.ptr, s.len);
    tg__out_char(&text, ')');
  }
  if (text.err) {
    w->no_memory = true;
  } else {
    tg__raw_add_metadata(w, TG__K_THREAD_NAME, j->track, TG__K_NAME, TG__KIND_STR,
                         tg__raw_intern(w, text.buf, text.len));
    tg__raw_add_metadata(w, TG__K_THREAD_SORT_INDEX, j->track, TG__K_SORT_INDEX, TG__KIND_INT, j->head.thread);
  }
  tg__out_free(&text);
}

void tg__raw_head_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  struct tg__map processes = {0}, threads = {0};
  const uint32_t name = process_name(w);
  for (size_t i = 0; i < count && !w->no_memory; i++) {
    const struct tg__raw_job *const j = &jobs[i];
    if (j->damaged) continue;
    if (tg__map_get(&processes, j->head.process) == TG_NONE) {
      if (!tg__map_put(&processes, j->head.process, 1)) w->no_memory = true;
      add_process(w, j->head.process, name);
    }
    if (tg__map_get(&threads, j->track) == TG_NONE) {
      if (!tg__map_put(&threads, j->track, 1)) w->no_memory = true;
      add_thread(w, j);
    }
  }
  tg__map_free(&processes);
  tg__map_free(&threads);
}

/* ---- the recording --------------------------------------------------------------------------- */

static uint32_t text_track(struct tg__raw *w, const char *pid, const char *tid) {
  const struct tg__track_key key = {.pid = tg__raw_intern(w, pid, strlen(pid)),
                                    .tid = tid ? tg__raw_intern(w, tid, strlen(tid)) : 0,
                                    .pid_is_text = true,
                                    .tid_is_text = tid != NULL};
  return tg__intern_track(w->parser, &key);
}

static void add_instant(struct tg__raw *w, const char *name, uint32_t track, int64_t ts_ns) {
  tg__row_value(w->parser, TG__K_S, TG__KIND_STR, TG__K_G, true);
  tg__raw_add_event(w,
                    (struct tg__record){.ts_ns = ts_ns,
                                        .dur_ns = TG_NULL_INT,
                                        .name = tg__raw_intern(w, name, strlen(name)),
                                        .track = track,
                                        .ph = 'i'},
                    NULL);
}

/* From the first start to the last stop; where a process was killed, to the last event. Ends are relative to
 * base_ns. */
void tg__raw_tail_rows(struct tg__raw *w, int64_t last_ns) {
  const int64_t start = w->start_ns;
  int64_t stop = last_ns;
  for (size_t f = 0; f < w->file_count; f++) {
    const int64_t end = w->files[f].process.stop_ns - w->base_ns;
    if (w->files[f].process.stop_ns > 0 && end > stop) stop = end;
  }
  if (start == TG_NULL_INT || stop < start) return;
  static const char name[] = "PyTorch Profiler (0)";
  tg__row_value(w->parser, TG__K_OP_COUNT, TG__KIND_INT, 0, false);
  tg__raw_add_event(w,
                    (struct tg__record){.ts_ns = start,
                                        .dur_ns = stop - start,
                                        .name = tg__raw_intern(w, name, sizeof name - 1),
                                        .track = text_track(w, "Spans", "PyTorch Profiler"),
                                        .ph = 'X'},
                    "Trace");
  tg__raw_add_metadata(w, TG__K_PROCESS_SORT_INDEX, text_track(w, "Spans", NULL), TG__K_SORT_INDEX, TG__KIND_INT,
                       KINETO_SPANS_INDEX);
  add_instant(w, "Iteration Start: PyTorch Profiler", text_track(w, "Traces", "Trace PyTorch Profiler"), start);
  add_instant(w, "Record Window End", text_track(w, "", ""), stop);
}

/* ---- members of the document ----------------------------------------------------------------- */

static void add_member(struct tg__raw *w, uint32_t key, const char *raw, size_t len, bool first) {
  struct tg__import *const im = w->im;
  const struct tg__meta meta = {.key = key, .raw = tg__raw_intern(w, raw, len)};
  for (size_t i = 0; i < im->meta_count; i++) {
    if (im->meta[i].key == key) return; /* the program said so itself */
  }
  if (!tg__grow((void **)&im->meta, &im->meta_cap, im->meta_count + 1, sizeof *im->meta)) {
    w->no_memory = true;
    return;
  }
  const size_t at = first ? 0 : im->meta_count;
  memmove(im->meta + at + 1, im->meta + at, (im->meta_count - at) * sizeof *im->meta);
  im->meta[at] = meta;
  im->meta_count++;
}

/* When the first process began to record, else the first reading of a clock; and the base of all times from it. */
static void set_base(struct tg__raw *w) {
  int64_t start = INT64_MAX, clock = INT64_MAX;
  for (size_t f = 0; f < w->file_count; f++) {
    const struct tg__raw_file *const file = &w->files[f];
    if (file->process.start_ns > 0 && file->process.start_ns < start) start = file->process.start_ns;
    if (file->clock.count && file->clock.pairs[0].wall_ns < clock) clock = file->clock.pairs[0].wall_ns;
  }
  const int64_t first = start < clock ? start : clock;
  w->base_ns = first == INT64_MAX ? 0 : first / QUARTER_NS * QUARTER_NS;
  w->start_ns = start == INT64_MAX ? TG_NULL_INT : start - w->base_ns;
}

/* Where the files were that frames name by what is behind these folders. */
static void add_folders(struct tg__raw *w) {
  struct tg__out text = {0};
  struct tg__jsonw json = {.out = &text};
  tg__json_open(&json, '[');
  for (uint32_t i = 0; i < w->folder_count; i++) tg__json_str(&json, tg__name(w->trace, w->folders[i]));
  tg__json_close(&json, ']');
  if (text.err)
    w->no_memory = true;
  else if (w->folder_count)
    add_member(w, tg__raw_intern(w, "source_folders", sizeof "source_folders" - 1), text.buf, text.len, false);
  tg__out_free(&text);
}

/* In Kineto's order: version and devices first, then what the program said, then the unit and the base of the times. */
void tg__raw_document(struct tg__raw *w) {
  char text[64];
  struct tg__out devices = {0};
  const struct tg__raw_process *const p = &w->files[0].process;
  set_base(w);
  int n = snprintf(text, sizeof text, "\"%016llX%016llX\"", (unsigned long long)p->session,
                   (unsigned long long)p->start_ns);
  add_member(w, TG__K_TRACE_ID, text, (size_t)n, true);
  tg__raw_device_member(w, &devices);
  if (!devices.err) add_member(w, TG__K_DEVICE_PROPERTIES, devices.buf, devices.len, true);
  tg__out_free(&devices);
  add_member(w, TG__K_SCHEMA_VERSION, "1", 1, true);
  add_folders(w);
  add_member(w, TG__K_DISPLAY_TIME_UNIT, "\"ms\"", 4, false);
  n = snprintf(text, sizeof text, "%lld", (long long)w->base_ns);
  add_member(w, TG__K_BASE_TIME, text, (size_t)n, false);
}
