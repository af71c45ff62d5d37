/* nvtx_record: ranges and marks of NVTX become records. Those that are pushed lie on the open stack of their thread,
 * by domain; those that are started and ended by their number, on any thread, in a table of a fixed size. */
#include "capture/nvtx.h"

enum {
  STARTED = 1 << 12, /* a power of two: ranges that are started and not ended at a time */
  TRIES = 64,
  NAME_KEPT = 256, /* bytes of a name for an end on another thread */
  MESSAGE_MOST = 4 << 10,
  LABEL_MOST = 5 * TG_LABEL_FIELD_BYTES + 2 * TG_NVTX_TEXT_MOST
};

_Atomic bool tg__nvtx_follows;
static _Atomic bool is_on;             /* the recording runs */
static const char keys[TG_NVTX_TEXTS]; /* one for each number of a domain; never read */

/* ---- what an event says ---------------------------------------------------------------------- */

struct details {
  uint32_t domain, category, color, has_color;
  enum tg__label_payload payload_type;
  uint64_t payload;
};

static void read_payload(const struct tg__nvtx_attributes *a, struct details *d) {
  enum { UNSIGNED_64 = 1, SIGNED_64, REAL_64, UNSIGNED_32, SIGNED_32, REAL_32 };
  const uint32_t low = (uint32_t)a->payload;
  float real;
  double wide;
  switch (a->payload_type) {
  case UNSIGNED_64:
  case UNSIGNED_32:
    d->payload_type = TG_PAYLOAD_UNSIGNED;
    d->payload = a->payload_type == UNSIGNED_64 ? a->payload : low;
    break;
  case SIGNED_64:
  case SIGNED_32:
    d->payload_type = TG_PAYLOAD_SIGNED;
    d->payload = a->payload_type == SIGNED_64 ? a->payload : (uint64_t)(int64_t)(int32_t)low;
    break;
  case REAL_64:
    d->payload_type = TG_PAYLOAD_REAL;
    d->payload = a->payload;
    break;
  case REAL_32:
    memcpy(&real, &low, sizeof real);
    wide = real;
    d->payload_type = TG_PAYLOAD_REAL;
    memcpy(&d->payload, &wide, sizeof wide);
    break;
  }
}

/* Fields behind the size that it says are not there. */
static struct details read_details(const struct tg__nvtx_event *e) {
  const struct tg__nvtx_attributes *const a = e->attributes;
  struct details d = {.domain = tg__nvtx_number(e->domain)};
  if (!a) return d;
  if (a->size >= offsetof(struct tg__nvtx_attributes, color_type)) d.category = a->category;
  if (a->size >= offsetof(struct tg__nvtx_attributes, payload_type) && a->color_type == 1) {
    d.has_color = 1;
    d.color = a->color;
  }
  if (a->size >= offsetof(struct tg__nvtx_attributes, message_type)) read_payload(a, &d);
  return d;
}

static uint8_t *put_field(uint8_t *p, enum tg__label_field field, uint64_t value) {
  *p = (uint8_t)field;
  tg__set64(p + 1, value);
  return p + TG_LABEL_FIELD_BYTES;
}

static uint8_t *put_text(uint8_t *p, enum tg__label_field field, const char *text) {
  const size_t len = text ? strlen(text) : 0; /* of nvtx_names.c: TG_NVTX_TEXT_MOST at most */
  if (!len) return p;
  p = put_field(p, field, len);
  memcpy(p, text, len);
  return p + len;
}

/* Its LABEL entry; 0 = it says nothing beside its name. */
static uint32_t label_of(struct tg__thread *t, const struct details *d) {
  uint8_t blob[LABEL_MOST], *p = blob;
  if (d->domain) p = put_text(p, TG_LABEL_DOMAIN, tg__nvtx_text(d->domain));
  if (d->category) p = put_field(p, TG_LABEL_CATEGORY, d->category);
  if (d->category) p = put_text(p, TG_LABEL_CATEGORY_NAME, tg__nvtx_category_name(d->domain, d->category));
  if (d->has_color) p = put_field(p, TG_LABEL_COLOR, d->color);
  if (d->payload_type) p = put_field(p, TG_LABEL_PAYLOAD, d->payload_type);
  return p == blob ? 0 : tg__dictionary_intern(t, TG_RAW_D_LABEL, 0, blob, (size_t)(p - blob));
}

/* The message as a text; `utf8` holds what has to be converted. */
static const char *message_of(const struct tg__nvtx_event *e, char utf8[MESSAGE_MOST]) {
  const struct tg__nvtx_attributes *const a = e->attributes;
  const bool has = !a || a->size >= sizeof *a;
  const void *const message = !has ? NULL : a ? a->message : e->message;
  const char *text = NULL;
  switch (!has ? TG_NVTX_NO_MESSAGE : a ? a->message_type : e->message_type) {
  case TG_NVTX_NARROW:
    text = message;
    break;
  case TG_NVTX_WIDE:
    if (message) tg__nvtx_from_wide(message, utf8, MESSAGE_MOST);
    text = message ? utf8 : NULL;
    break;
  case TG_NVTX_REGISTERED:
    text = tg__nvtx_text(tg__nvtx_number(message));
    break;
  }
  return text ? text : "(no message)";
}

static uint32_t name_of(struct tg__thread *t, const char *text) {
  const size_t len = tg__nvtx_cut(text, TG_TEXT_MOST);
  return text[len] ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, len) : tg__name_intern(t, text);
}

static void describe_event(struct tg__thread *t, struct tg__open *o, const struct details *d, const char *text) {
  o->name = name_of(t, text);
  o->shape = label_of(t, d);
  o->stack = (uint32_t)d->payload;
  o->seq = (uint32_t)(d->payload >> 32);
}

/* ---- pushed and popped ----------------------------------------------------------------------- */

static int level_of(const struct tg__thread *t, const void *key) {
  int level = 0;
  for (uint32_t i = 0; i < t->depth; i++) level += t->open[i].key == key;
  return level;
}

int tg__nvtx_push_now(const struct tg__nvtx_event *e) {
  struct tg__thread *const t = tg__thread();
  if (!t) return TG_NVTX_NOT_TRACKED;
  const void *const key = &keys[tg__nvtx_number(e->domain)];
  const int level = level_of(t, key);
  const bool records = atomic_load_explicit(&is_on, memory_order_relaxed);
  struct tg__open *const o = tg__span_push(t, key, TG_RAW_NVTX_RANGE, records);
  if (!o) return level;
  if (records) {
    char utf8[MESSAGE_MOST];
    const struct details d = read_details(e);
    describe_event(t, o, &d, message_of(e, utf8));
  }
  o->start_ticks = tg__ticks();
  return level;
}

int tg__nvtx_pop_now(const void *domain) {
  const void *const key = &keys[tg__nvtx_number(domain)];
  tg__span_end(key);
  const struct tg__thread *const t = tg__thread_here;
  return t ? level_of(t, key) : TG_NVTX_NOT_TRACKED;
}

void tg__nvtx_mark_now(const struct tg__nvtx_event *e) {
  struct tg__thread *const t = atomic_load_explicit(&is_on, memory_order_relaxed) ? tg__thread() : NULL;
  if (!t) return;
  char utf8[MESSAGE_MOST];
  struct tg__open o = {.start_ticks = tg__ticks(), .scope = TG_RAW_NVTX_MARK};
  const struct details d = read_details(e);
  describe_event(t, &o, &d, message_of(e, utf8));
  tg__record_put(t, &o, o.start_ticks, 0);
}

/* ---- started and ended by number ------------------------------------------------------------- */

/* The number of a range is its place in the table and, above that, a serial number; 0 in the table: the place is
 * free. */
enum { BUSY = 1 }; /* a thread writes or reads this place; no serial number is 0 */
static struct started {
  _Atomic uint64_t range;
  uint32_t generation, number; /* of the recording and of the thread in it */
  struct tg__open open;
  struct details details;
  char name[NAME_KEPT];
} started[STARTED];
static _Atomic uint64_t serial;

/* A place that is free, or that a recording before this one left. */
static struct started *place_for(uint64_t number, uint32_t generation) {
  for (uint64_t i = 0; i < TRIES; i++) {
    struct started *const s = &started[(number + i) % STARTED];
    uint64_t there = atomic_load_explicit(&s->range, memory_order_acquire);
    const bool is_free = there == 0 || (there != BUSY && s->generation != generation);
    if (is_free && atomic_compare_exchange_strong(&s->range, &there, BUSY)) return s;
  }
  return NULL;
}

uint64_t tg__nvtx_start_now(const struct tg__nvtx_event *e) {
  struct tg__thread *const t = atomic_load_explicit(&is_on, memory_order_relaxed) ? tg__thread() : NULL;
  if (!t) return 0;
  char utf8[MESSAGE_MOST];
  const uint64_t number = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) + 1;
  struct started *const s = place_for(number, t->generation);
  if (!s) {
    tg__thread_count(t, TG_RAW_C_NO_ROOM, 1);
    return 0;
  }
  const char *const text = message_of(e, utf8);
  const size_t len = tg__nvtx_cut(text, NAME_KEPT - 1);
  s->generation = t->generation;
  s->number = t->number;
  s->details = read_details(e);
  s->open = (struct tg__open){.scope = TG_RAW_NVTX_RANGE};
  describe_event(t, &s->open, &s->details, text);
  memcpy(s->name, text, len);
  s->name[len] = 0;
  s->open.start_ticks = tg__ticks();
  const uint64_t range = number * STARTED + (uint64_t)(s - started);
  atomic_store_explicit(&s->range, range, memory_order_release);
  return range;
}

/* Write what lies at a place that is BUSY, on this thread, and free it. */
static void write_started(struct tg__thread *t, struct started *s, uint64_t now, uint8_t flags) {
  if (s->number != t->number) { /* numbers of texts are the other thread's */
    describe_event(t, &s->open, &s->details, s->name);
    flags |= TG_RAW_F_ASYNC;
  }
  tg__record_put(t, &s->open, now, flags);
}

void tg__nvtx_end_now(uint64_t range) {
  if (!range) return;
  const uint64_t now = tg__ticks();
  struct tg__thread *const t = tg__thread();
  struct started *const s = &started[range % STARTED];
  if (!t) return;
  if (range == BUSY || !atomic_compare_exchange_strong(&s->range, &range, BUSY)) {
    tg__thread_count(t, TG_RAW_C_UNMATCHED_END, 1);
    return;
  }
  if (s->generation == t->generation) write_started(t, s, now, 0);
  atomic_store_explicit(&s->range, 0, memory_order_release);
}

/* ---- the source ------------------------------------------------------------------------------ */

static enum tg_err start_source(uint32_t features, struct tg_error *e) {
  atomic_store(&tg__nvtx_follows, true);
  atomic_store(&is_on, true);
  return TG_OK;
}

static void stop_source(void) { atomic_store(&is_on, false); }

/* The recording closes: what was started and not ended ends here. */
static void flush_source(void) {
  struct tg__thread *const t = atomic_exchange(&tg__nvtx_follows, false) ? tg__thread() : NULL;
  const uint64_t now = tg__ticks();
  for (int i = 0; t && i < STARTED; i++) {
    struct started *const s = &started[i];
    uint64_t range = atomic_load_explicit(&s->range, memory_order_acquire);
    if (range <= BUSY || !atomic_compare_exchange_strong(&s->range, &range, BUSY)) continue;
    if (s->generation == t->generation) {
      write_started(t, s, now, TG_RAW_F_CUT);
      tg__thread_count(t, TG_RAW_C_OPEN_AT_STOP, 1);
    }
    atomic_store_explicit(&s->range, 0, memory_order_release);
  }
}

/* Another thread may have been writing to a place: it is not in this process. */
static void forget_busy(void) {
  for (int i = 0; i < STARTED; i++) {
    uint64_t busy = BUSY;
    atomic_compare_exchange_strong(&started[i].range, &busy, 0);
  }
}

const struct tg__source tg__source_nvtx = {.name = "nvtx",
                                           .features = TG_RECORD_NVTX,
                                           .start = start_source,
                                           .stop = stop_source,
                                           .flush = flush_source,
                                           .fork_child = forget_busy};
