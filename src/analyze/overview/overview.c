/* overview: the question overview. */
#include "analyze/device/device_figures.h"
#include "analyze/device/gpu.h"
#include "analyze/overview/step_code.h"
#include "analyze/overview/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct view {
  const struct tg__columns *t;
  struct tg_table *out;
  uint32_t rank;
};

static void put_overview_row(const struct view *v, const char *group, const char *quantity, double value,
                             const char *unit, struct tg__str text) {
  tg__put_rank(v->out, v->t, v->rank);
  tg__put_cstr(v->out, group);
  tg__put_cstr(v->out, quantity);
  tg__put_real(v->out, value);
  tg__put_cstr(v->out, unit);
  tg__put_text(v->out, text);
}

static void put_count(const struct view *v, const char *group, const char *quantity, int64_t value, const char *unit) {
  put_overview_row(v, group, quantity, value == TG_NULL_INT ? NAN : (double)value, unit, (struct tg__str){0});
}

static void put_overview_text(const struct view *v, const char *group, const char *quantity, struct tg__str text) {
  put_overview_row(v, group, quantity, NAN, "", text);
}

/* Points in time exceed what a double holds exactly, so the digits stand in the text as well. */
static void put_time(const struct view *v, const char *quantity, int64_t ns) {
  char digits[24];
  const int len = snprintf(digits, sizeof digits, "%" PRId64, ns);
  if (ns == TG_NULL_INT) {
    put_count(v, "summary", quantity, ns, "ns");
  } else {
    put_overview_row(v, "summary", quantity, (double)ns, "ns", (struct tg__str){digits, (uint32_t)len});
  }
}

/* ---- counts over the slices of the rank ------------------------------------------------------ */

struct counts {
  int64_t slices, complete, first_ns, last_ns;
  int64_t *per_cat; /* complete events */
};

static bool is_complete(const struct tg__columns *t, uint32_t slice) {
  return !(t->slices.flags[slice] & (TG__F_BEGIN_END | TG__F_ASYNC));
}

static void count_slices(const struct view *v, struct counts *c) {
  const struct tg__rank *rank = &v->t->ranks[v->rank];
  TG__EACH (k, tg__tracks_of(rank)) {
    const struct tg__track *track = &v->t->tracks[k];
    c->slices += track->count;
    TG__EACH (i, tg__slices_of(track)) {
      if (!is_complete(v->t, i)) continue;
      const int64_t start = v->t->slices.start_ns[i], end = tg__slice_end(v->t, i);
      if (c->complete == 0 || start < c->first_ns) c->first_ns = start;
      if (c->complete == 0 || end > c->last_ns) c->last_ns = end;
      c->complete++;
      c->per_cat[v->t->slices.cat[i]]++;
    }
  }
}

enum { RUN_TEXT_BYTES = 640 };

/* A JSON string's text without the backslash in front of quotes and backslashes. */
static struct tg__str unescaped(struct tg__str s, char *text) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s.len && n < RUN_TEXT_BYTES; i++) {
    if (s.ptr[i] == '\\' && i + 1 < s.len && (s.ptr[i + 1] == '"' || s.ptr[i + 1] == '\\')) i++;
    text[n++] = s.ptr[i];
  }
  return (struct tg__str){text, n};
}

/* ---- groups of rows -------------------------------------------------------------------------- */

static void put_overview_steps(const struct view *v) {
  static const char *const kinds[] = {
      [TG__STEP_PROFILER] = "ProfilerStep", [TG__STEP_ANNOTATION] = "annotation", [TG__STEP_PERIOD] = "period"};
  const char *const kind = kinds[v->t->ranks[v->rank].step_kind];
  int64_t steps = 0;
  for (uint32_t i = 0; i < v->t->step_count; i++) steps += v->t->steps[i].rank == v->rank;
  put_count(v, "summary", "steps", steps, "");
  if (steps > 0) put_overview_text(v, "summary", "step_kind", (struct tg__str){kind, (uint32_t)strlen(kind)});
}

/* 0 stands for "the file does not say"; a file may say 0, too. */
static bool says_base_zero(const struct view *v) {
  return tg__str_eq(tg__document_member(v->t, v->rank, "baseTimeNanoseconds"), TG_STR("0"));
}

static void put_overview_summary(const struct view *v, const struct counts *c) {
  const struct tg__rank *rank = &v->t->ranks[v->rank];
  put_overview_text(v, "summary", "file", tg__name(v->t, rank->path));
  put_count(v, "summary", "json_bytes", rank->json_bytes, "bytes");
  put_count(v, "summary", "events", rank->events_read, "");
  put_count(v, "summary", "events_kept", rank->events_kept, "");
  put_count(v, "summary", "slices", c->slices, "");
  put_count(v, "summary", "marks", rank->events_kept - c->slices, "");
  put_count(v, "summary", "complete_events", c->complete, "");
  put_count(v, "summary", "tracks", rank->track_count, "");
  put_time(v, "first_ns", c->complete ? c->first_ns : TG_NULL_INT);
  put_time(v, "last_ns", c->complete ? c->last_ns : TG_NULL_INT);
  put_count(v, "summary", "span_ns", c->complete ? c->last_ns - c->first_ns : TG_NULL_INT, "ns");
  put_time(v, "base_ns", rank->base_ns || says_base_zero(v) ? rank->base_ns : TG_NULL_INT);
  put_count(v, "summary", "rank", rank->number_is_given ? rank->number : TG_NULL_INT, "");
  put_count(v, "summary", "world_size", rank->world_size < 0 ? TG_NULL_INT : rank->world_size, "");
  put_overview_steps(v);
  const struct tg__str host = tg__json_unquoted(tg__document_member(v->t, v->rank, "host_name"));
  if (host.ptr) put_overview_text(v, "summary", "host", host);
  const struct tg__str predicted = tg__document_member(v->t, v->rank, "predicted"); /* the steps were never run so */
  const struct tg__str change = tg__json_unquoted(tg__json_member(predicted, "change"));
  char buf[RUN_TEXT_BYTES];
  if (change.ptr) put_overview_text(v, "summary", "predicted", unescaped(change, buf));
}

static void put_categories(const struct view *v, const struct counts *c) {
  for (uint32_t k = 0; k < v->t->cat_count; k++) {
    if (c->per_cat[k] == 0) continue;
    const uint32_t id = v->t->cats[k].name;
    const struct tg__str name = id == TG_NONE ? TG_STR("None") : tg__name(v->t, id);
    tg__put_rank(v->out, v->t, v->rank);
    tg__put_cstr(v->out, "category");
    tg__put_text(v->out, name);
    tg__put_int(v->out, c->per_cat[k]);
    tg__put_cstr(v->out, "");
    tg__put_null(v->out);
  }
}

static void put_phases(const struct view *v) {
  for (int ph = 0; ph < 128; ph++) {
    const char letter[2] = {(char)ph, 0};
    const int64_t count = v->t->ranks[v->rank].phase_count[ph];
    if (count > 0) put_count(v, "phase", ph ? letter : "None", count, "");
  }
}

__attribute__((format(printf, 4, 5))) static void put_property(const struct view *v, int64_t value, const char *unit,
                                                               const char *format, ...) {
  char quantity[64];
  va_list args;
  va_start(args, format);
  vsnprintf(quantity, sizeof quantity, format, args);
  va_end(args);
  if (value >= 0) put_count(v, "property", quantity, value, unit);
}

static void put_devices(const struct view *v) {
  const struct tg__rank *rank = &v->t->ranks[v->rank];
  for (size_t i = 0; i < rank->device_count; i++) {
    const struct tg__device *d = &rank->devices[i];
    char quantity[32];
    snprintf(quantity, sizeof quantity, "%" PRId64, d->id);
    put_overview_text(v, "device", quantity, d->name == TG_NONE ? (struct tg__str){0} : tg__name(v->t, d->name));
  }
  for (size_t i = 0; i < rank->device_count; i++) {
    const struct tg__device *d = &rank->devices[i];
    put_property(v, d->total_memory_bytes, "bytes", "%" PRId64 " total_memory", d->id);
    put_property(v, d->sm_count, "", "%" PRId64 " sm_count", d->id);
    put_property(v, d->compute_major, "", "%" PRId64 " compute_major", d->id);
    put_property(v, d->compute_minor, "", "%" PRId64 " compute_minor", d->id);
    put_property(v, d->max_threads_per_sm, "", "%" PRId64 " max_threads_per_sm", d->id);
    put_property(v, d->warp_size, "", "%" PRId64 " warp_size", d->id);
  }
}

static void put_measure(const struct view *v, int64_t device, const char *name, double value, const char *unit) {
  char quantity[64];
  snprintf(quantity, sizeof quantity, "%" PRId64 " %s", device, name);
  put_overview_row(v, "gpu", quantity, value, unit, (struct tg__str){0});
}

static enum tg_err put_gpu(const struct view *v) {
  struct tg__gpu *devices;
  size_t count;
  const enum tg_err err = tg__gpu_measure(v->t, v->rank, &devices, &count);
  for (size_t i = 0; err == TG_OK && i < count; i++) {
    put_measure(v, devices[i].device, "utilization", devices[i].utilization * 100, "%");
    put_measure(v, devices[i].device, "sm_efficiency", devices[i].sm_efficiency * 100, "%");
    put_measure(v, devices[i].device, "occupancy", devices[i].occupancy_pct, "%");
  }
  tg__free(devices);
  return err;
}

static void put_sampled(const struct view *v) {
  struct tg__device_figure figures[TG__DEVICE_FIGURES];
  const size_t count = tg__device_figures(v->t, v->rank, figures);
  for (size_t k = 0; k < count; k++) {
    const struct tg__device_figure *const x = &figures[k];
    char quantity[64];
    snprintf(quantity, sizeof quantity, "%.*s sampled %.*s", (int)x->device.len, x->device.ptr, (int)x->name.len,
             x->name.ptr);
    put_overview_row(v, "gpu", quantity, x->mean, x->unit, (struct tg__str){0});
  }
}

/* What ran in the steps, where some of it is compiled, or a graph that is replayed. */
static enum tg_err put_code(const struct view *v) {
  bool failed;
  if (!tg__has_step_code(v->t, v->rank, &failed)) return failed ? TG_MEMORY : TG_OK;
  struct tg__breakdown b;
  int64_t compiled_ns = 0, replayed_ns = 0, eager_ns = 0;
  const enum tg_err err = tg__steps_breakdown(v->t, v->rank, TG__STEPS_DETECTED, &b);
  for (size_t i = 0; i < b.count; i++) {
    compiled_ns += b.steps[i].compiled_ns;
    replayed_ns += b.steps[i].replayed_ns;
    eager_ns += b.steps[i].eager_ns;
  }
  if (!err && b.has_code) {
    put_count(v, "code", "compiled", compiled_ns, "ns");
    put_count(v, "code", "replayed", replayed_ns, "ns");
    put_count(v, "code", "eager", eager_ns, "ns");
  }
  tg__breakdown_free(&b);
  return err;
}

static void put_losses(const struct view *v) {
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    const int64_t count = v->t->ranks[v->rank].loss[k];
    const char *meaning = tg__loss_info[k].meaning;
    const bool is_of_rank = k != TG__LOSS_skipped_file; /* below the table it stands anyway */
    if (count > 0 && is_of_rank)
      put_overview_row(v, "loss", tg__loss_info[k].name, (double)count, "",
                       (struct tg__str){meaning, (uint32_t)strlen(meaning)});
  }
}

/* What `tachograph run` noted of the program: the keys are the quantities (src/cli/run_facts.c). */
static void put_run(const struct view *v) {
  const struct tg__str run = tg__document_member(v->t, v->rank, "run");
  for (struct tg__members m = tg__members_of(run); tg__members_next(&m);) {
    char quantity[32], buf[RUN_TEXT_BYTES];
    const struct tg__str text = tg__json_unquoted(m.value);
    int64_t value;
    snprintf(quantity, sizeof quantity, "%.*s", (int)m.key.len, m.key.ptr);
    if (text.ptr)
      put_overview_text(v, "run", quantity, unescaped(text, buf));
    else if (tg__str_to_int(m.value, &value))
      put_count(v, "run", quantity, value, tg__str_has_suffix(m.key, "_ns") ? "ns" : "");
  }
}

static enum tg_err put_overview_of_rank(const struct view *v) {
  struct counts c = {.per_cat = tg__alloc(((size_t)v->t->cat_count + 1) * sizeof *c.per_cat)};
  if (!c.per_cat) return TG_MEMORY;
  count_slices(v, &c);
  put_overview_summary(v, &c);
  put_categories(v, &c);
  put_phases(v);
  put_devices(v);
  tg__free(c.per_cat);
  enum tg_err err = put_gpu(v);
  put_sampled(v);
  if (!err) err = put_code(v);
  put_losses(v);
  put_run(v);
  return err;
}

enum tg_err tg__answer_overview(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  enum tg_err err = TG_OK;
  (void)e;
  for (uint32_t r = 0; r < t->rank_count && err == TG_OK; r++) {
    const struct view v = {t, out, r};
    if (tg__ask_has_rank(a, r)) err = put_overview_of_rank(&v);
  }
  return err;
}
