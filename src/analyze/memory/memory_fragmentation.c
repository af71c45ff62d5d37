/* The question fragmentation: what the allocator of a device holds against what of it is in use. */
#include "analyze/memory/memory_blocks.h"

enum by { BY_DEVICE, BY_TIME };

struct device {
  struct tg__block_device who;
  int64_t first_ns, ts_ns, reserved, allocated;          /* at the event before; reserved TG_NULL_INT: there was none */
  int64_t peak_reserved, peak_allocated, allocated_then; /* then: when most was reserved first */
  int64_t most_unused, most_unused_ns;
  int64_t grown;                            /* times it took more although it held as much unused as was asked for */
  long double unused_by_ns, reserved_by_ns; /* sums over time */
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *a;
  struct tg_table *out;
  enum by by;
  struct tg__strings *keys;
  struct device *devices;
  size_t count, cap;
};

static struct device *fragmentation_device_of(struct work *w, const struct tg__memory_event *e) {
  const int64_t key[] = {w->t->tracks[e->track].rank, e->device.type, e->device.id};
  const uint32_t at = tg__strings_add(w->keys, (const char *)key, sizeof key);
  if (at == TG_NONE || at < w->count) return at == TG_NONE ? NULL : &w->devices[at];
  if (!tg__grow((void **)&w->devices, &w->cap, w->count + 1, sizeof *w->devices)) return NULL;
  w->devices[w->count] = (struct device){
      .who = {.rank = key[0], .type = key[1], .id = key[2]}, .first_ns = e->ts_ns, .reserved = TG_NULL_INT};
  return &w->devices[w->count++];
}

static void put_fragmentation_row(const struct work *w, const struct device *d, const int64_t cells[8]) {
  char name[TG__DEVICE_NAME];
  tg__put_rank(w->out, w->t, (uint32_t)d->who.rank);
  tg__put_cstr(w->out, tg__memory_device_name(d->who.type, d->who.id, name));
  for (int i = 0; i < 4; i++) tg__put_int(w->out, cells[i]);
  tg__put_real(w->out, cells[1] > 0 ? 100.0 * (double)cells[3] / (double)cells[1] : 0);
  for (int i = 4; i < 8; i++) tg__put_int(w->out, cells[i]);
  if (d->reserved_by_ns > 0 && w->by == BY_DEVICE)
    tg__put_real(w->out, (double)(100 * d->unused_by_ns / d->reserved_by_ns));
  else
    tg__put_null(w->out);
}

static void add_event(const struct work *w, struct device *d, const struct tg__memory_event *e) {
  const int64_t unused = e->reserved - e->allocated;
  if (d->reserved != TG_NULL_INT) {
    const long double span = (long double)e->ts_ns - (long double)d->ts_ns;
    d->unused_by_ns += span * (long double)(d->reserved - d->allocated);
    d->reserved_by_ns += span * (long double)d->reserved;
    d->grown += e->bytes > 0 && e->reserved > d->reserved && d->reserved - d->allocated >= e->bytes;
  }
  const bool is_first = e->ts_ns == d->first_ns; /* what was there before a history stands at its first moment */
  if (e->reserved > d->peak_reserved || (is_first && e->reserved == d->peak_reserved)) {
    d->peak_reserved = e->reserved;
    d->allocated_then = e->allocated;
  }
  if (e->allocated > d->peak_allocated) d->peak_allocated = e->allocated;
  if (unused > d->most_unused || is_first) {
    d->most_unused = unused;
    d->most_unused_ns = e->ts_ns;
  }
  d->ts_ns = e->ts_ns;
  d->reserved = e->reserved;
  d->allocated = e->allocated;
  const int64_t cells[] = {e->ts_ns,    e->reserved, e->allocated, unused,
                           TG_NULL_INT, TG_NULL_INT, TG_NULL_INT,  TG_NULL_INT};
  if (w->by == BY_TIME) put_fragmentation_row(w, d, cells);
}

static bool is_sane(const struct tg__memory_event *e) {
  return e->reserved > 0 && e->allocated >= 0 && e->allocated <= e->reserved;
}

static bool is_wanted_fragmentation(const struct work *w, const struct tg__memory_event *e) {
  return tg__ask_has_rank(w->a, w->t->tracks[e->track].rank) &&
         tg__memory_device_is_wanted(w->a, e->device.type, e->device.id);
}

static bool follow_fragmentation(struct work *w, const struct tg__memory_events *events) {
  w->keys = tg__strings_new();
  bool ok = w->keys != NULL;
  for (size_t i = 0; ok && i < events->count; i++) {
    const struct tg__memory_event *const e = &events->items[i];
    if (!is_sane(e) || !is_wanted_fragmentation(w, e)) continue;
    struct device *const d = fragmentation_device_of(w, e);
    if (d) add_event(w, d, e);
    ok = d != NULL;
  }
  for (size_t i = 0; ok && i < w->count && w->by == BY_DEVICE; i++) {
    const struct device *const d = &w->devices[i];
    const int64_t cells[] = {
        d->most_unused_ns, d->peak_reserved, d->allocated_then, d->peak_reserved - d->allocated_then,
        d->peak_allocated, d->most_unused,   d->grown,          tg__time_between(d->first_ns, d->ts_ns)};
    put_fragmentation_row(w, d, cells);
  }
  return ok;
}

enum tg_err tg__answer_fragmentation(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  static const char *const choices[] = {[BY_DEVICE] = "device", [BY_TIME] = "time"};
  struct tg__memory_events events = {0};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .a = a, .out = out, .by = (enum by)by};
  err = tg__memory_events_read(t, a, NULL, &events);
  if (err || !follow_fragmentation(&w, &events)) err = tg__no_memory(e, "following the allocator");
  if (!err && !w.count)
    err = tg__fail(e, TG_NO_DATA, -1,
                   "no memory event says what its allocator has reserved; record with profile_memory=True on a GPU: "
                   "the allocator of the "
                   "CPU keeps nothing back");
  tg__memory_events_free(&events);
  if (w.keys) tg__strings_free(w.keys);
  tg__free(w.devices);
  return err;
}
