/* cuda_decode: a buffer of CUPTI's becomes events. Every record begins with its kind; CUPTI's own function walks from
 * one to the next, and the distance must be a size that cuda_layouts.def lists for that kind. */
#include "capture/cuda.h"

enum { LAST_KIND = 63, LEAST_BYTES = 8 };

/* ---- sizes ----------------------------------------------------------------------------------- */

static const struct {
  uint8_t kind;
  uint16_t bytes;
} sizes[] = {
#define CUPTI_SIZE(name, bytes, type) {TG_CUPTI_##name, bytes},
#include "capture/cuda_layouts.def"
};

/* The largest listed size of that kind up to `bytes`; 0 = none. */
static size_t known_size(uint32_t kind, size_t bytes) {
  size_t found = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].kind == kind && sizes[i].bytes <= bytes) found = sizes[i].bytes;
  return found;
}

/* Sizes are looked up once per kind and buffer: all records of a kind are alike there. */
struct walk {
  uint8_t *at, *end;
  uint16_t known[LAST_KIND + 1];
  struct tg__cuda_event events[LAST_KIND + 1]; /* of each kind the newest: it has set what the next one sets */
};

/* The last record of a buffer may have room behind it. */
static size_t size_here(struct walk *w, uint32_t kind, size_t distance, bool is_last) {
  if (kind > LAST_KIND) return 0;
  if (w->known[kind] == distance) return distance;
  const size_t size = known_size(kind, distance);
  if (size != distance && !is_last) return 0;
  if (size) w->known[kind] = (uint16_t)size;
  return size;
}

/* ---- fields ---------------------------------------------------------------------------------- */

enum {
#define CUPTI_FIELD(kind, field, offset, type, member, since) AT_##kind##_##field = offset,
#include "capture/cuda_layouts.def"
};
enum {
#define CUPTI_FIELD(kind, field, offset, type, member, since) SINCE_##kind##_##field = since,
#include "capture/cuda_layouts.def"
};

#define WORD(kind, field) tg__at32(r + AT_##kind##_##field)
#define LONG(kind, field) tg__at64(r + AT_##kind##_##field)

/* What work on a stream has, at different places. */
#define TAKE_WORK(k)                                                                                                   \
  e->start = LONG(k, START), e->end = LONG(k, END), e->device = WORD(k, DEVICE), e->context = WORD(k, CONTEXT),        \
  e->stream = WORD(k, STREAM), e->correlation = WORD(k, CORRELATION), e->node = LONG(k, NODE),                         \
  e->graph = WORD(k, GRAPH)

static void take_kernel(const uint8_t *r, size_t size, struct tg__cuda_event *e) {
  TAKE_WORK(CONCURRENT_KERNEL);
  e->name = (const char *)tg__at_pointer(r + AT_CONCURRENT_KERNEL_NAME);
  memcpy(e->grid, r + AT_CONCURRENT_KERNEL_GRID_X, sizeof e->grid);
  memcpy(e->block, r + AT_CONCURRENT_KERNEL_BLOCK_X, sizeof e->block);
  e->registers = tg__at16(r + AT_CONCURRENT_KERNEL_REGISTERS);
  e->shared = WORD(CONCURRENT_KERNEL, STATIC_SHARED) + WORD(CONCURRENT_KERNEL, DYNAMIC_SHARED);
  e->has_priority = size >= SINCE_CONCURRENT_KERNEL_PRIORITY;
  e->priority = e->has_priority ? (int32_t)WORD(CONCURRENT_KERNEL, PRIORITY) : 0;
}

static void take_copy(const uint8_t *r, struct tg__cuda_event *e) {
  TAKE_WORK(MEMCPY);
  e->bytes = LONG(MEMCPY, BYTES);
  e->copy_kind = r[AT_MEMCPY_COPY_KIND];
  e->from = r[AT_MEMCPY_FROM];
  e->to = r[AT_MEMCPY_TO];
}

static void take_peer_copy(const uint8_t *r, struct tg__cuda_event *e) {
  TAKE_WORK(MEMCPY2);
  e->bytes = LONG(MEMCPY2, BYTES);
  e->copy_kind = r[AT_MEMCPY2_COPY_KIND];
  e->from = r[AT_MEMCPY2_FROM];
  e->to = r[AT_MEMCPY2_TO];
  e->from_device = WORD(MEMCPY2, FROM_DEVICE);
  e->to_device = WORD(MEMCPY2, TO_DEVICE);
}

static void take_fill(const uint8_t *r, struct tg__cuda_event *e) {
  TAKE_WORK(MEMSET);
  e->bytes = LONG(MEMSET, BYTES);
  e->to = (uint8_t)tg__at16(r + AT_MEMSET_TO);
}

static void take_call(const uint8_t *r, struct tg__cuda_event *e) {
  e->start = LONG(RUNTIME, START);
  e->end = LONG(RUNTIME, END);
  e->function = WORD(RUNTIME, FUNCTION);
  e->thread = WORD(RUNTIME, THREAD);
  e->correlation = WORD(RUNTIME, CORRELATION);
  e->result = WORD(RUNTIME, RESULT);
}

static void take_wait(const uint8_t *r, struct tg__cuda_event *e) {
  e->start = LONG(SYNCHRONIZATION, START);
  e->end = LONG(SYNCHRONIZATION, END);
  e->type = WORD(SYNCHRONIZATION, TYPE);
  e->correlation = WORD(SYNCHRONIZATION, CORRELATION);
  e->context = WORD(SYNCHRONIZATION, CONTEXT);
  e->stream = WORD(SYNCHRONIZATION, STREAM);
  e->event = WORD(SYNCHRONIZATION, EVENT);
}

static void take_event(const uint8_t *r, struct tg__cuda_event *e) {
  e->correlation = WORD(CUDA_EVENT, CORRELATION);
  e->context = WORD(CUDA_EVENT, CONTEXT);
  e->stream = WORD(CUDA_EVENT, STREAM);
  e->event = WORD(CUDA_EVENT, EVENT);
}

static void take_overhead(const uint8_t *r, size_t size, struct tg__cuda_event *e) {
  e->start = LONG(OVERHEAD, START);
  e->end = LONG(OVERHEAD, END);
  e->type = WORD(OVERHEAD, TYPE);
  e->thread = WORD(OVERHEAD, THREAD);
  e->correlation = size >= SINCE_OVERHEAD_CORRELATION ? WORD(OVERHEAD, CORRELATION) : 0;
}

/* What a pool of another process holds is not known; its size is that process's number. */
static void take_memory(const uint8_t *r, struct tg__cuda_event *e) {
  e->type = WORD(MEMORY2, OPERATION);
  e->to = (uint8_t)WORD(MEMORY2, MEMORY_KIND);
  e->correlation = WORD(MEMORY2, CORRELATION);
  e->address = LONG(MEMORY2, ADDRESS);
  e->bytes = LONG(MEMORY2, BYTES);
  e->start = e->end = LONG(MEMORY2, TIME);
  e->device = WORD(MEMORY2, DEVICE);
  e->context = WORD(MEMORY2, CONTEXT);
  e->stream = WORD(MEMORY2, STREAM);
  e->name = (const char *)tg__at_pointer(r + AT_MEMORY2_NAME);
  e->is_async = WORD(MEMORY2, IS_ASYNC) != 0;
  e->pool.type = WORD(MEMORY2, POOL_TYPE);
  e->pool.address = LONG(MEMORY2, POOL_ADDRESS);
  e->pool.threshold = LONG(MEMORY2, POOL_THRESHOLD);
  e->pool.bytes = LONG(MEMORY2, POOL_BYTES);
  e->pool.process = (uint32_t)e->pool.bytes;
}

static void take_pool(const uint8_t *r, size_t size, struct tg__cuda_event *e) {
  e->type = WORD(MEMORY_POOL, OPERATION);
  e->correlation = WORD(MEMORY_POOL, CORRELATION);
  e->address = LONG(MEMORY_POOL, ADDRESS);
  e->start = e->end = LONG(MEMORY_POOL, TIME);
  e->device = WORD(MEMORY_POOL, DEVICE);
  e->pool.type = WORD(MEMORY_POOL, TYPE);
  e->pool.process = WORD(MEMORY_POOL, PROCESS);
  e->pool.least = LONG(MEMORY_POOL, LEAST);
  e->pool.bytes = LONG(MEMORY_POOL, BYTES);
  e->pool.threshold = LONG(MEMORY_POOL, THRESHOLD);
  e->pool.used = size >= SINCE_MEMORY_POOL_USED ? LONG(MEMORY_POOL, USED) : 0;
}

/* Sets every field that the kind has, whatever the size: the others stay 0. */
static void take_record(const uint8_t *r, size_t size, struct tg__cuda_event *e) {
  switch (e->kind) {
  case TG_CUPTI_CONCURRENT_KERNEL:
    take_kernel(r, size, e);
    break;
  case TG_CUPTI_RUNTIME:
  case TG_CUPTI_DRIVER:
    take_call(r, e);
    break;
  case TG_CUPTI_MEMCPY:
    take_copy(r, e);
    break;
  case TG_CUPTI_MEMCPY2:
    take_peer_copy(r, e);
    break;
  case TG_CUPTI_MEMSET:
    take_fill(r, e);
    break;
  case TG_CUPTI_SYNCHRONIZATION:
    take_wait(r, e);
    break;
  case TG_CUPTI_CUDA_EVENT:
    take_event(r, e);
    break;
  case TG_CUPTI_OVERHEAD:
    take_overhead(r, size, e);
    break;
  case TG_CUPTI_MEMORY2:
    take_memory(r, e);
    break;
  case TG_CUPTI_MEMORY_POOL:
    take_pool(r, size, e);
    break;
  case TG_CUPTI_CONTEXT:
    e->context = WORD(CONTEXT, CONTEXT);
    e->device = WORD(CONTEXT, DEVICE);
    break;
  }
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The record behind `at`, NULL = none. A record that is not behind it and inside the buffer ends the walk. */
static uint8_t *next_record(const struct walk *w, uint8_t *buffer, size_t valid, tg__cuda_next *next) {
  void *record = w->at;
  if (next(buffer, valid, &record) || !record) return NULL;
  uint8_t *const r = record;
  const bool fits = r >= buffer && r < w->end && (size_t)(w->end - r) >= LEAST_BYTES;
  return fits && (!w->at || (r > w->at && (size_t)(r - w->at) >= LEAST_BYTES)) ? r : NULL;
}

uint64_t tg__cuda_decode(uint8_t *buffer, size_t valid, tg__cuda_next *next, tg__cuda_sink *sink, void *context) {
  struct walk w = {.end = buffer + valid};
  uint64_t unread = 0;
  w.at = next_record(&w, buffer, valid, next);
  while (w.at) {
    uint8_t *const r = w.at, *const following = next_record(&w, buffer, valid, next);
    const uint32_t kind = tg__at32(r);
    const size_t size = size_here(&w, kind, (size_t)((following ? following : w.end) - r), !following);
    if (size) {
      struct tg__cuda_event *const e = &w.events[kind];
      e->kind = kind;
      take_record(r, size, e);
      sink(context, e);
    } else {
      unread++;
    }
    w.at = following;
  }
  return unread;
}

uint64_t tg__cuda_count(uint8_t *buffer, size_t valid, tg__cuda_next *next) {
  struct walk w = {.end = buffer + valid};
  uint64_t n = 0;
  while ((w.at = next_record(&w, buffer, valid, next))) n++;
  return n;
}
