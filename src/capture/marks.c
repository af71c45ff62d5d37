/* marks of the program itself: ranges, steps, moments, counters, names of threads. */
#include "capture/session.h"

/* Their addresses are the keys of open ranges and steps. */
static const char range_key, step_key;

bool tg__is_mark(const struct tg__open *o) { return o->key == &range_key || o->key == &step_key; }

struct tg__open *tg__span_push(struct tg__thread *t, const void *key, uint8_t scope, bool records) {
  struct tg__open *const o = tg__open_push(t, key);
  if (TG_UNLIKELY(!o)) {
    t->more->too_deep++; /* its end will come too */
    return NULL;
  }
  o->scope = records ? scope : TG_SCOPE_NOT_RECORDED;
  o->name = o->shape = o->stack = o->seq = 0;
  return o;
}

static void begin_mark(const void *key, uint8_t scope, const char *name) {
  struct tg__thread *const t = tg__thread();
  if (TG_LIKELY(!t)) return;
  const bool records = atomic_load_explicit(&tg__running, memory_order_relaxed);
  struct tg__open *const o = tg__span_push(t, key, scope, records);
  if (TG_UNLIKELY(!o)) return;
  if (records) o->name = tg__name_intern(t, name ? name : "");
  o->start_ticks = tg__ticks();
}

void tg__span_end(const void *key) {
  struct tg__thread *const t = tg__thread_here;
  if (!t || t->generation != atomic_load_explicit(&tg__generation, memory_order_relaxed)) return;
  const uint64_t now = tg__ticks();
  if (TG_UNLIKELY(t->more->too_deep)) {
    t->more->too_deep--;
    return;
  }
  struct tg__open *const o = tg__open_pop(t, key);
  if (o && o->scope == TG_RAW_STEP) tg__cost_end(t, o);
  if (o && o->scope != TG_SCOPE_NOT_RECORDED) tg__record_put(t, o, now, 0);
}

void tg_range_begin(const char *name) { begin_mark(&range_key, TG_RAW_ANNOTATION, name); }
void tg_range_end(void) { tg__span_end(&range_key); }

/* A step that is still open is dropped: its end never came. Ranges that the program opened within it stay open. */
static void forget_step(struct tg__thread *t) {
  for (uint32_t i = t->depth; i-- > 0;) {
    if (t->open[i].key != &step_key) continue;
    memmove(&t->open[i], &t->open[i + 1], (t->depth - 1 - i) * sizeof *t->open);
    t->depth--;
    return;
  }
}

void tg_step_begin(const char *name) {
  struct tg__thread *const t = tg__thread();
  if (t) forget_step(t);
  if (t && atomic_load_explicit(&tg__running, memory_order_relaxed)) tg__cost_begin(t);
  begin_mark(&step_key, TG_RAW_STEP, name);
}
void tg_step_end(void) { tg__span_end(&step_key); }

/* A moment: a record that takes no time. */
static void put_moment(const char *name, uint8_t scope, int64_t value) {
  if (!atomic_load_explicit(&tg__running, memory_order_relaxed)) return;
  struct tg__thread *const t = tg__thread();
  if (!t) return;
  const struct tg__open o = {.start_ticks = tg__ticks(),
                             .name = tg__name_intern(t, name ? name : ""),
                             .shape = (uint32_t)value,
                             .stack = (uint32_t)((uint64_t)value >> 32),
                             .scope = scope};
  tg__record_put(t, &o, o.start_ticks, 0);
}

void tg_mark(const char *name) { put_moment(name, TG_RAW_MARK, 0); }
void tg_counter(const char *name, int64_t value) { put_moment(name, TG_RAW_COUNTER, value); }

enum { TENSOR_TEXT = 1024 };

/* kind, zero byte, name, cut between characters. */
static size_t tensor_text(char text[TENSOR_TEXT], const char *kind, const char *name) {
  const size_t head = strlen(kind) + 1;
  if (head >= TENSOR_TEXT) return 0;
  memcpy(text, kind, head);
  size_t len = strlen(name);
  if (len > TENSOR_TEXT - head)
    for (len = TENSOR_TEXT - head; len && ((uint8_t)name[len] & 0xc0) == 0x80;) len--;
  memcpy(text + head, name, len);
  return head + len;
}

void tg_tensor(const char *kind, const char *name, const void *address, int64_t bytes, int device_type,
               int device_index) {
  struct tg__thread *const t =
      kind && address ? tg__thread() : NULL; /* also while it is paused: before the first event, behind the last */
  char text[TENSOR_TEXT];
  const size_t len = t ? tensor_text(text, kind, name ? name : "") : 0;
  const uint32_t id = len ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, len)
                          : 0; /* before the record is claimed: it may wait for room */
  struct tg__raw_record *const r = id ? tg__record_claim(t) : NULL;
  if (!r) return;
  r->start_ticks = t->last_ticks = tg__ticks();
  r->dur_ticks = (uint32_t)(uint64_t)bytes;
  r->seq = (uint32_t)((uint64_t)bytes >> 32);
  r->shape = (uint32_t)(uintptr_t)address;
  r->stack = (uint32_t)((uint64_t)(uintptr_t)address >> 32);
  r->name = id;
  r->depth = (uint16_t)((unsigned)device_type << 8 | ((unsigned)device_index & 0xff));
  r->scope = TG_RAW_TENSOR;
  tg__record_publish(r, 0);
}
