/* cuda_pool: buffers that CUPTI fills. It asks for them and returns them on threads of its own, or on one that flushes
 * or launches; so neither takes a lock, and nothing is decoded there.
 *
 *   FREE ──requested──> LENT ──completed──> FULL ──drain──> FREE
 *
 * When all are full, the oldest makes room and its records are counted as lost; when CUPTI has them all it gets none,
 * and counts what it drops itself. */
#include "capture/cuda.h"
#include "capture/session.h"

enum buffer_state { FREE, LENT, FULL, BUSY };
struct buffer {
  _Atomic uint32_t state;
  _Atomic bool is_stray;    /* CUPTI has had it since before this recording */
  _Atomic(uint8_t *) bytes; /* NULL = no memory yet */
  _Atomic uint64_t order;   /* of its completion */
  size_t valid;
};
static struct buffer buffers[TG_CUDA_BUFFERS];
static _Atomic uint64_t completed, lost, late;
static _Atomic bool is_open;

static bool move(struct buffer *b, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong(&b->state, &from, to);
}

static struct buffer *oldest_full(void) {
  struct buffer *found = NULL;
  for (int i = 0; i < TG_CUDA_BUFFERS; i++) {
    struct buffer *const b = &buffers[i];
    if (atomic_load(&b->state) == FULL && (!found || atomic_load(&b->order) < atomic_load(&found->order))) found = b;
  }
  return found;
}

static struct buffer *free_one(void) {
  for (int needs_memory = 0; needs_memory < 2; needs_memory++) { /* first those that have it */
    for (int i = 0; i < TG_CUDA_BUFFERS; i++) {
      struct buffer *const b = &buffers[i];
      if ((atomic_load(&b->bytes) == NULL) != (needs_memory == 1) || !move(b, FREE, LENT)) continue;
      if (!atomic_load(&b->bytes)) atomic_store(&b->bytes, tg__capture_pages_spare(TG_CUDA_BUFFER_BYTES));
      if (atomic_load(&b->bytes)) return b;
      atomic_store(&b->state, FREE);
    }
  }
  return NULL;
}

static struct buffer *take_oldest(void) {
  for (struct buffer *b; (b = oldest_full());) {
    if (!move(b, FULL, LENT)) continue;
    atomic_fetch_add(&lost, tg__cuda_count(atomic_load(&b->bytes), b->valid, tg__cupti.cuptiActivityGetNextRecord));
    return b;
  }
  return NULL;
}

void tg__cuda_requested(uint8_t **buffer, size_t *bytes, size_t *most_records) {
  struct buffer *b = free_one();
  if (!b) b = take_oldest();
  *buffer = b ? atomic_load(&b->bytes) : NULL;
  *bytes = b ? TG_CUDA_BUFFER_BYTES : 0;
  *most_records = 0; /* as many as fit */
}

void tg__cuda_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
  size_t dropped = 0;
  if (tg__cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == 0) atomic_fetch_add(&lost, dropped);
  for (int i = 0; i < TG_CUDA_BUFFERS && buffer; i++) {
    struct buffer *const b = &buffers[i];
    if (atomic_load(&b->bytes) != buffer || atomic_load(&b->state) != LENT) continue;
    b->valid = valid <= TG_CUDA_BUFFER_BYTES ? valid : TG_CUDA_BUFFER_BYTES;
    atomic_store(&b->is_stray, false);
    atomic_store(&b->order, atomic_fetch_add(&completed, 1));
    const bool is_late = !atomic_load(&is_open);
    if (is_late) atomic_fetch_add(&late, tg__cuda_count(buffer, b->valid, tg__cupti.cuptiActivityGetNextRecord));
    atomic_store(&b->state, is_late || b->valid == 0 ? FREE : FULL);
    if (!is_late) tg__helper_wake();
    return;
  }
}

void tg__cuda_pool_ask_dropped(void) {
  size_t dropped = 0;
  if (tg__cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) == 0) atomic_fetch_add(&lost, dropped);
}

void tg__cuda_pool_drain(tg__cuda_take *take) {
  for (struct buffer *b; (b = oldest_full());) {
    if (!move(b, FULL, BUSY)) continue;
    take(atomic_load(&b->bytes), b->valid);
    atomic_store(&b->state, FREE);
  }
}

void tg__cuda_pool_start(void) {
  for (int i = 0; i < TG_CUDA_BUFFERS; i++) atomic_store(&buffers[i].is_stray, atomic_load(&buffers[i].state) == LENT);
  atomic_store(&is_open, true);
}

void tg__cuda_pool_stop(void) {
  atomic_store(&is_open, false);
  for (int i = 0; i < TG_CUDA_BUFFERS; i++) {
    struct buffer *const b = &buffers[i];
    if (!move(b, FREE, BUSY)) continue;
    tg__capture_pages_drop(atomic_exchange(&b->bytes, NULL), TG_CUDA_BUFFER_BYTES);
    atomic_store(&b->state, FREE);
  }
}

/* In the child CUPTI does not run, so no buffer is in use. */
void tg__cuda_pool_abandon(void) {
  for (int i = 0; i < TG_CUDA_BUFFERS; i++) atomic_store(&buffers[i].state, FREE);
  atomic_store(&lost, 0);
  tg__cuda_pool_stop();
}

uint64_t tg__cuda_pool_take_lost(void) { return atomic_exchange(&lost, 0); }
uint64_t tg__cuda_pool_late(void) { return atomic_load(&late); }

uint32_t tg__cuda_pool_missing(void) {
  uint32_t n = 0;
  for (int i = 0; i < TG_CUDA_BUFFERS; i++)
    n += atomic_load(&buffers[i].state) == LENT && !atomic_load(&buffers[i].is_stray);
  return n;
}

uint64_t tg__cuda_pool_bytes(void) {
  uint64_t n = 0;
  for (int i = 0; i < TG_CUDA_BUFFERS; i++) n += atomic_load(&buffers[i].bytes) ? TG_CUDA_BUFFER_BYTES : 0;
  return n;
}
