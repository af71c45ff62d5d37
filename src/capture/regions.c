/* regions: which stretches of the file chunks of records lie in. New ones come from the end of the file; what a
 * chunk of an ended thread did not use is given out again; and with keep-last the oldest sealed chunk makes room
 * when the disk budget is used up. */
#include "capture/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

enum { SPARES = 64, QUEUE_LEAST = 512 };

/* Held for some ns and never across a system call other than the mapping of a longer queue. */
static atomic_flag held = ATOMIC_FLAG_INIT;
static void hold(void) {
  while (atomic_flag_test_and_set_explicit(&held, memory_order_acquire)) sched_yield();
}
static void release(void) { atomic_flag_clear_explicit(&held, memory_order_release); }

struct sealed {
  struct tg__region region;
  uint32_t records;
};
static struct {
  struct sealed *ring; /* oldest first, from `first` on, `count` of `cap` */
  size_t first, count, cap;
} queue;
static struct tg__region spares[SPARES];
static unsigned spare_count;

/* ---- blocks of the disk ---------------------------------------------------------------------- */

static bool write_zeros(uint64_t offset, uint64_t bytes) {
  static const uint8_t zeros[16 << 10];
  while (bytes) {
    const ssize_t n = pwrite(tg__session.fd, zeros, bytes < sizeof zeros ? bytes : sizeof zeros, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    offset += (uint64_t)n;
    bytes -= (uint64_t)n;
  }
  return true;
}

/* A page of a mapped file without blocks behind it would be a fatal signal on a full disk, so the blocks are asked
 * for first. */
static bool allocate(uint64_t offset, uint64_t bytes) {
  int result;
  do { result = fallocate(tg__session.fd, 0, (off_t)offset, (off_t)bytes); } while (result && errno == EINTR);
  return result == 0 || ((errno == EOPNOTSUPP || errno == ENOSYS) && write_zeros(offset, bytes));
}

static bool from_end(uint32_t bytes, struct tg__region *out) {
  struct tg__session *const s = &tg__session;
  *out = (struct tg__region){.bytes = bytes};
  if (!tg__recording_reserve(bytes, s->page_bytes, s->record_limit, &out->offset)) return false;
  if (allocate(out->offset, bytes)) return true;
  atomic_store(&s->disk_error, errno);
  uint64_t end = out->offset + bytes;
  atomic_compare_exchange_strong(&s->file_end, &end,
                                 out->offset); /* where nothing came behind it: as if it had not been */
  return false;
}

/* ---- spare ones ------------------------------------------------------------------------------ */

void tg__region_spare(struct tg__region r) {
  hold();
  if (spare_count < SPARES) spares[spare_count++] = r;
  release();
}

bool tg__region_spare_at(uint64_t end, struct tg__region *out) {
  for (unsigned i = 0; i < spare_count; i++) {
    if (spares[i].offset + spares[i].bytes != end) continue;
    *out = spares[i];
    return true;
  }
  return false;
}

static bool from_spares(uint32_t bytes, struct tg__region *out) {
  bool found = false;
  hold();
  for (unsigned i = spare_count; i-- > 0 && !found;) {
    if (spares[i].bytes > bytes) continue;
    *out = spares[i];
    spares[i] = spares[--spare_count];
    found = true;
  }
  release();
  return found;
}

/* ---- keep last ------------------------------------------------------------------------------- */

/* Without memory for a longer queue the chunk stays in the file for good. */
static bool grow_queue(void) {
  const size_t cap = queue.cap ? queue.cap * 2 : QUEUE_LEAST;
  struct sealed *const ring = tg__capture_pages(cap * sizeof *ring);
  if (!ring) return false;
  for (size_t i = 0; i < queue.count; i++) ring[i] = queue.ring[(queue.first + i) % queue.cap];
  tg__capture_pages_drop(queue.ring, queue.cap * sizeof *ring);
  queue.ring = ring;
  queue.cap = cap;
  queue.first = 0;
  return true;
}

void tg__region_offer(struct tg__region r, uint32_t records) {
  if (tg__session.keep != TG_KEEP_LAST) return;
  hold();
  if (queue.count < queue.cap || grow_queue())
    queue.ring[(queue.first + queue.count++) % queue.cap] = (struct sealed){r, records};
  release();
}

/* The chunk becomes a sealed one without records before its old ones are erased: a reader never sees half of it. */
static bool empty(struct tg__region r) {
  uint8_t heads[TG_CHUNK_HEADS];
  const struct tg__raw_head none = {
      .capacity = (r.bytes - TG_CHUNK_HEADS) / TG_RAW_RECORD_BYTES, .sealed = 1, .checksum = tg__checksum("", 0)};
  tg__chunk_head_write(heads, TG_CHUNK_RAW_RECORDS, 0, TG_CHUNK_IN_PLACE, r.bytes - TG_CHUNK_HEAD_BYTES, 0);
  tg__raw_head_write(heads + TG_CHUNK_HEAD_BYTES, &none);
  return pwrite(tg__session.fd, heads, sizeof heads, (off_t)r.offset) == (ssize_t)sizeof heads &&
         write_zeros(r.offset + sizeof heads, r.bytes - sizeof heads);
}

static bool from_oldest(struct tg__region *out) {
  struct sealed oldest = {0};
  hold();
  if (queue.count) {
    oldest = queue.ring[queue.first];
    queue.first = (queue.first + 1) % queue.cap;
    queue.count--;
  }
  release();
  if (!oldest.region.bytes) return false;
  tg__session_count(TG_RAW_C_OVERWRITTEN, oldest.records);
  *out = oldest.region;
  return empty(oldest.region);
}

bool tg__region_get(uint32_t bytes, struct tg__region *out) {
  return from_spares(bytes, out) || from_end(bytes, out) || (tg__session.keep == TG_KEEP_LAST && from_oldest(out));
}

void tg__regions_abandon(void) {
  release(); /* whoever held it is not in this process */
  tg__regions_forget();
}

void tg__regions_forget(void) {
  tg__capture_pages_drop(queue.ring, queue.cap * sizeof *queue.ring);
  queue.ring = NULL;
  queue.first = queue.count = queue.cap = 0;
  spare_count = 0;
}
