/* chunk: where records go. A thread writes into a slot of its window, which is a piece of the file mapped there.
 *
 *   half full:  the thread asks for the next chunk; the helper maps it into another slot and touches its pages
 *   full:       the thread leaves it to the helper to be sealed and goes on in the prepared one; when the helper is
 *               late it maps one itself. The helper reads full chunks through the file, so it never stands in the
 *               thread's way
 *   closed:     the whole window becomes anonymous memory at one stroke, so that a late record goes nowhere and
 *               harms nothing */
#include "capture/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static uint8_t *slot_at(const struct tg__thread_private *p, int i) { return p->window + (size_t)i * TG_CHUNK_MOST; }
static struct tg__region region_of(const struct tg__slot *s) {
  return (struct tg__region){atomic_load_explicit(&s->offset, memory_order_relaxed), s->bytes};
}

/* ---- the window ------------------------------------------------------------------------------ */

bool tg__window_reserve(struct tg__thread *t) {
  void *const p =
      mmap(NULL, (size_t)TG_SLOTS * TG_CHUNK_MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  t->more->window = p;
  return true;
}

bool tg__window_scratch(struct tg__thread *t) {
  void *const window = t->more->window;
  if (!window) return true;
  return mmap(window, (size_t)TG_SLOTS * TG_CHUNK_MOST, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == window;
}

void tg__window_drop(struct tg__thread *t) {
  munmap(t->more->window, (size_t)TG_SLOTS * TG_CHUNK_MOST);
  t->more->window = NULL;
}

void tg__window_reset(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  for (int i = 0; i < TG_SLOTS; i++) {
    struct tg__slot *const s = &p->slot[i];
    atomic_store(&s->state, TG_SLOT_FREE);
    atomic_store(&s->offset, 0);
    s->bytes = s->used = s->resident = 0;
  }
  atomic_store(&p->full_in, 0);
  atomic_store(&p->full_out, 0);
  atomic_store(&p->current, -1);
}

static bool map_slot(struct tg__thread_private *p, int i, struct tg__region r) {
  return mmap(slot_at(p, i), r.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, tg__session.fd,
              (off_t)r.offset) != MAP_FAILED;
}

/* Bytes of the memory budget for a chunk: as many as it should have, or fewer. `have`: what the caller holds of it
 * already; what is returned includes it. 0 = none. */
static uint32_t take_memory(const struct tg__thread_private *p, uint32_t have, unsigned parts) {
  uint32_t bytes = atomic_load_explicit(&p->chunk_bytes, memory_order_relaxed);
  for (; bytes > have && bytes >= TG_CHUNK_LEAST; bytes /= 2) {
    if (tg__budget_take(bytes - have, bytes > TG_CHUNK_LEAST ? 2 : parts))
      return bytes; /* large ones only from the first half */
  }
  return have;
}

/* Memory and disk for a chunk, mapped into a slot that is the caller's. parts: of the memory budget, in quarters. */
static bool fill_slot(struct tg__thread_private *p, int i, uint32_t have, unsigned parts) {
  struct tg__slot *const s = &p->slot[i];
  struct tg__region r = {0};
  const uint32_t bytes = take_memory(p, have, parts);
  if (!bytes) return false;
  if (!tg__region_get(bytes, &r)) goto no_room;
  if (r.bytes > bytes && !tg__budget_take(r.bytes - bytes, 4)) {
    tg__region_offer(r, 0);
    goto no_room;
  }
  if (r.bytes < bytes) tg__budget_release(bytes - r.bytes);
  if (!map_slot(p, i, r)) { /* the number of mappings has a limit too */
    tg__budget_release(r.bytes);
    tg__region_spare(r);
    return false;
  }
  atomic_store_explicit(&s->offset, r.offset, memory_order_relaxed);
  s->bytes = s->resident = r.bytes;
  s->used = 0;
  return true;
no_room:
  tg__budget_release(bytes);
  return false;
}

/* ---- sealing --------------------------------------------------------------------------------- */

/* Records became final: write their count and checksum, in one write, so both are there or none. `heads`: the chunk
 * in memory. keep: bytes the chunk has from now on. Counts the records, extensions left out; their number. */
static uint32_t seal(struct tg__region r, uint8_t *heads, uint32_t count, uint32_t keep) {
  const uint8_t *const records = heads + TG_CHUNK_HEADS;
  struct tg__raw_head head = {.process = tg__get32(heads + TG_CHUNK_HEAD_BYTES + 16),
                              .thread = tg__get32(heads + TG_CHUNK_HEAD_BYTES + 20),
                              .lost = tg__get32(heads + TG_CHUNK_HEAD_BYTES + 24),
                              .logical = tg__get32(heads + TG_CHUNK_HEAD_BYTES + 28)};
  uint8_t sealed[TG_CHUNK_HEADS];
  uint32_t real = 0;
  for (uint32_t i = 0; i < count; i++) real += records[(size_t)i * TG_RAW_RECORD_BYTES + 30] != TG_RAW_EXTENSION;
  head.capacity = (keep - TG_CHUNK_HEADS) / TG_RAW_RECORD_BYTES;
  head.sealed = count + 1;
  head.checksum = tg__checksum(records, (size_t)count * TG_RAW_RECORD_BYTES);
  assert(tg__raw_records_are_valid(&head, records, keep - TG_CHUNK_HEADS, NULL));
  tg__chunk_head_write(sealed, TG_CHUNK_RAW_RECORDS, tg__get32(heads + 4), TG_CHUNK_IN_PLACE,
                       keep - TG_CHUNK_HEAD_BYTES, 0);
  tg__raw_head_write(sealed + TG_CHUNK_HEAD_BYTES, &head);
  tg__session_count(TG_RAW_C_RECORDS, real);
  if (pwrite(tg__session.fd, sealed, sizeof sealed, (off_t)r.offset) == (ssize_t)sizeof sealed) {
    tg__region_offer((struct tg__region){r.offset, keep}, real);
  }
  return real;
}

/* What of a chunk with that many records is kept when the rest can be of use: whole pages. */
static uint32_t bytes_used(uint32_t count) {
  const uint32_t page = tg__session.page_bytes, bytes = TG_CHUNK_HEADS + count * TG_RAW_RECORD_BYTES;
  return (bytes + page - 1) / page * page;
}

static bool read_chunk(struct tg__region r, uint32_t count, uint8_t *to) {
  const size_t len = TG_CHUNK_HEADS + (size_t)count * TG_RAW_RECORD_BYTES;
  return pread(tg__session.fd, to, len, (off_t)r.offset) == (ssize_t)len;
}

void tg__chunk_seal_full(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  const uint32_t in = atomic_load_explicit(&p->full_in, memory_order_acquire);
  uint32_t out = atomic_load_explicit(&p->full_out, memory_order_relaxed);
  if (in == out) return;
  uint8_t *const room = tg__capture_pages(TG_CHUNK_MOST);
  for (; out != in; out++) {
    const struct tg__full f = p->full[out % TG_FULL_MAX];
    if (room && read_chunk(f.region, f.count, room)) {
      seal(f.region, room, f.count, f.region.bytes);
    } else { /* it stays open: as good for a reader, only without a checksum */
      tg__session_count(TG_RAW_C_RECORDS, f.count);
    }
    if (atomic_load_explicit(&p->slot[f.slot].offset, memory_order_relaxed) == f.region.offset) {
      madvise(slot_at(p, (int)f.slot), f.region.bytes,
              MADV_DONTNEED); /* of a mapped file: out of our memory, not out of the file */
    }
    tg__budget_release(f.resident);
    atomic_store_explicit(&p->full_out, out + 1, memory_order_release);
  }
  tg__capture_pages_drop(room, TG_CHUNK_MOST);
  atomic_fetch_add(&tg__session.room, 1); /* memory was released: a thread that had none may ask again */
}

/* The current chunk is full: hand it to the helper. When many wait already, or memory is short, seal it here: then
 * the memory it took, which is returned, serves for the next chunk, and no thread that has a chunk ever finds no
 * memory for another one. */
static uint32_t retire_chunk(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  const int i = atomic_load_explicit(&p->current, memory_order_relaxed);
  if (i < 0) return 0;
  struct tg__slot *const s = &p->slot[i];
  const uint32_t count = (uint32_t)(t->next - p->first), in = atomic_load_explicit(&p->full_in, memory_order_relaxed),
                 held = s->resident;
  const bool has_place = in - atomic_load_explicit(&p->full_out, memory_order_acquire) < TG_FULL_MAX;
  s->resident = 0;
  atomic_store_explicit(&p->current, -1, memory_order_relaxed);
  t->next = t->end = NULL;
  if (has_place && !tg__budget_is_short()) {
    p->full[in % TG_FULL_MAX] = (struct tg__full){region_of(s), count, (uint32_t)i, held};
    atomic_store_explicit(&p->full_in, in + 1, memory_order_release);
    return 0;
  }
  seal(region_of(s), slot_at(p, i), count, s->bytes);
  madvise(slot_at(p, i), s->bytes, MADV_DONTNEED);
  return held;
}

/* ---- taking a chunk -------------------------------------------------------------------------- */

static void begin_chunk(struct tg__thread *t, int i) {
  struct tg__thread_private *const p = t->more;
  struct tg__slot *const s = &p->slot[i];
  uint8_t *const base = slot_at(p, i);
  const uint32_t lost = (uint32_t)atomic_load_explicit(&t->counts[TG_RAW_C_NO_ROOM], memory_order_relaxed);
  const struct tg__raw_head head = {.capacity = (s->bytes - TG_CHUNK_HEADS) / TG_RAW_RECORD_BYTES,
                                    .process = (uint32_t)tg__session.process,
                                    .thread = t->os_thread,
                                    .lost = lost - p->lost_in_heads,
                                    .logical = t->logical};
  uint8_t heads[TG_CHUNK_HEADS];
  p->lost_in_heads = lost;
  tg__raw_head_write(heads + TG_CHUNK_HEAD_BYTES, &head);
  tg__chunk_head_write(heads, TG_CHUNK_RAW_RECORDS, t->number, TG_CHUNK_IN_PLACE, s->bytes - TG_CHUNK_HEAD_BYTES, 0);
  /* By a system call and not through the mapping: a process killed here leaves all of the head or nothing. */
  if (pwrite(tg__session.fd, heads, sizeof heads, (off_t)region_of(s).offset) != (ssize_t)sizeof heads)
    memcpy(base, heads, sizeof heads);
  p->first = (struct tg__raw_record *)(base + TG_CHUNK_HEADS);
  p->last = p->first + head.capacity;
  t->next = p->first;
  t->end = p->first + head.capacity / 2; /* there the thread asks for the next one */
  atomic_store_explicit(&p->capacity, head.capacity, memory_order_relaxed);
  atomic_store_explicit(&p->current, i, memory_order_relaxed);
  const uint32_t bytes = atomic_load_explicit(&p->chunk_bytes, memory_order_relaxed);
  if (bytes < tg__session.chunk_most) atomic_store_explicit(&p->chunk_bytes, bytes * 2, memory_order_relaxed);
}

static bool change_slot(struct tg__slot *s, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong_explicit(&s->state, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* A chunk to write: the one prepared, else one that the thread maps itself. At most one slot is the helper's, so one
 * is free. */
static bool take_chunk(struct tg__thread *t, uint32_t have) {
  struct tg__thread_private *const p = t->more;
  for (int i = 0; i < TG_SLOTS; i++) {
    if (!change_slot(&p->slot[i], TG_SLOT_READY, TG_SLOT_FREE)) continue;
    tg__budget_release(have);
    begin_chunk(t, i);
    return true;
  }
  for (int i = 0; i < TG_SLOTS; i++) {
    struct tg__slot *const s = &p->slot[i];
    if (atomic_load(&s->state) != TG_SLOT_FREE && !change_slot(s, TG_SLOT_WANTED, TG_SLOT_FREE)) continue;
    if (!fill_slot(p, i, have, 4)) return false;
    begin_chunk(t, i);
    return true;
  }
  tg__budget_release(have);
  return false;
}

/* Half of the current chunk is full. */
static void ask_for_next(struct tg__thread_private *p) {
  const int current = atomic_load_explicit(&p->current, memory_order_relaxed);
  int unused = -1;
  if (tg__budget_is_short()) return; /* a thread then makes do with one chunk */
  for (int i = 0; i < TG_SLOTS; i++) {
    if (i == current) continue;
    if (atomic_load(&p->slot[i].state) != TG_SLOT_FREE) return; /* on its way */
    unused = i;
  }
  change_slot(&p->slot[unused], TG_SLOT_FREE, TG_SLOT_WANTED);
  tg__helper_wake();
}

void tg__chunk_prepare(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  for (int i = 0; i < TG_SLOTS; i++) {
    struct tg__slot *const s = &p->slot[i];
    if (!change_slot(s, TG_SLOT_WANTED, TG_SLOT_BUSY)) continue;
    const bool filled = fill_slot(p, i, 0, 2); /* the other half is for threads that have no chunk at all */
    if (filled && madvise(slot_at(p, i), s->bytes, MADV_POPULATE_WRITE)) {
      for (uint32_t at = TG_CHUNK_HEADS; at < s->bytes; at += tg__session.page_bytes)
        *(volatile uint8_t *)(slot_at(p, i) + at) = 0;
    }
    atomic_store_explicit(&s->state, filled ? TG_SLOT_READY : TG_SLOT_FREE, memory_order_release);
  }
}

/* Room for `want` records side by side. false: none, and not counted. */
static bool make_room_for_records(struct tg__thread *t, uint32_t want) {
  struct tg__thread_private *const p = t->more;
  if (t->next && p->last - t->next >= (ptrdiff_t)want) { /* it was only the mark at half */
    t->end = p->last;
    ask_for_next(p);
    return true;
  }
  const uint64_t room = atomic_load_explicit(&tg__session.room, memory_order_relaxed);
  if (p->no_room == room || !tg__busy_enter(t)) return false;
  const bool taken = take_chunk(t, retire_chunk(t));
  p->no_room = taken ? 0 : room;
  if (taken) tg__thread_name_refresh(t);
  assert(tg__chunk_slots_are_valid(t, NULL));
  tg__busy_leave(t);
  return taken;
}

static bool is_of_now(const struct tg__thread *t) { return t->generation == tg__generation_now(); }

struct tg__raw_record *tg__chunk_next(struct tg__thread *t) {
  if (make_room_for_records(t, 1)) return t->next++;
  if (is_of_now(t)) tg__thread_count(t, TG_RAW_C_NO_ROOM, 1);
  return NULL;
}

/* The extension is a record of its own behind this one, and is written first. */
void tg__record_put_long(struct tg__thread *t, const struct tg__open *o, uint64_t end_ticks, uint8_t flags,
                         uint64_t call) {
  const uint64_t dur = end_ticks > o->start_ticks ? end_ticks - o->start_ticks : 0;
  if (t->end - t->next < 2 && !make_room_for_records(t, 2)) {
    if (is_of_now(t)) tg__thread_count(t, TG_RAW_C_NO_ROOM, 1);
    return;
  }
  struct tg__raw_record *const r = t->next, *const extension = r + 1;
  t->next += 2;
  t->last_ticks = end_ticks;
  *extension = (struct tg__raw_record){
      .start_ticks = dur, .stack = (uint32_t)(call >> 32), .seq = (uint32_t)call, .scope = TG_RAW_EXTENSION};
  tg__record_publish(extension, 0);
  *r = (struct tg__raw_record){.start_ticks = o->start_ticks,
                               .dur_ticks = (uint32_t)dur,
                               .name = o->name,
                               .shape = o->shape,
                               .stack = o->stack,
                               .seq = o->seq,
                               .depth = (uint16_t)t->depth,
                               .scope = o->scope};
  tg__record_publish(r, flags | TG_RAW_F_LONG);
}

/* ---- the end of a thread, the end of a file -------------------------------------------------- */

static uint32_t count_valid(const struct tg__raw_record *first, uint32_t capacity) {
  uint32_t n = 0;
  while (n < capacity && atomic_load_explicit((_Atomic uint8_t *)&first[n].flags, memory_order_acquire)) n++;
  return n;
}

/* What it did not use goes to the next thread: many short ones would otherwise use up the disk. */
void tg__chunk_leave(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  const int i = atomic_load_explicit(&p->current, memory_order_relaxed);
  if (i < 0) return;
  struct tg__slot *const s = &p->slot[i];
  const struct tg__region whole = region_of(s);
  const uint32_t count = (uint32_t)(t->next - p->first), keep = bytes_used(count);
  const bool splits = keep + 2 * tg__session.page_bytes <= whole.bytes;
  seal(whole, slot_at(p, i), count, splits ? keep : whole.bytes);
  if (splits) tg__region_spare((struct tg__region){whole.offset + keep, whole.bytes - keep});
  madvise(slot_at(p, i), whole.bytes, MADV_DONTNEED);
  tg__budget_release(s->resident);
  s->resident = 0;
  t->next = t->end = NULL;
  atomic_store_explicit(&p->current, -1, memory_order_relaxed);
  assert(tg__chunk_slots_are_valid(t, NULL));
}

bool tg__chunk_close(struct tg__thread *t) {
  struct tg__thread_private *const p = t->more;
  const int current = atomic_load(&p->current);
  tg__chunk_seal_full(t);
  for (int i = 0; i < TG_SLOTS; i++) {
    struct tg__slot *const s = &p->slot[i];
    if (i == current) {
      const uint32_t count = count_valid(p->first, atomic_load(&p->capacity));
      seal(region_of(s), slot_at(p, i), count, s->bytes);
      s->used = TG_CHUNK_HEADS + count * TG_RAW_RECORD_BYTES;
    } else if (atomic_load(&s->state) != TG_SLOT_READY) {
      s->bytes = 0; /* sealed before, or nothing */
    }
    tg__budget_release(s->resident);
    s->resident = 0;
  }
  return tg__window_scratch(t);
}

/* Shorten the chunk to what it holds. Its count and checksum stay. */
static void shorten(const struct tg__slot *s) {
  uint8_t heads[TG_CHUNK_HEADS];
  const uint64_t at = atomic_load(&s->offset);
  if (pread(tg__session.fd, heads, sizeof heads, (off_t)at) != (ssize_t)sizeof heads) return;
  tg__chunk_head_write(heads, TG_CHUNK_RAW_RECORDS, tg__get32(heads + 4), TG_CHUNK_IN_PLACE,
                       s->used - TG_CHUNK_HEAD_BYTES, 0);
  tg__set32(heads + TG_CHUNK_HEAD_BYTES, (s->used - TG_CHUNK_HEADS) / TG_RAW_RECORD_BYTES);
  if (pwrite(tg__session.fd, heads, sizeof heads, (off_t)at) != (ssize_t)sizeof heads) return;
}

/* The slot that ends where the file does, among those of the session; NULL = none. */
static struct tg__slot *last_slot(uint64_t generation, uint64_t end) {
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    if (atomic_load(&t->more->file_generation) != generation) continue;
    for (int i = 0; i < TG_SLOTS; i++) {
      struct tg__slot *const s = &t->more->slot[i];
      if (s->bytes && atomic_load(&s->offset) + s->bytes == end) return s;
    }
  }
  return NULL;
}

/* In the middle of the file only the blocks can be given back, not the bytes. */
static void punch_holes(uint64_t generation) {
  const uint32_t page = tg__session.page_bytes;
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    if (atomic_load(&t->more->file_generation) != generation) continue;
    for (int i = 0; i < TG_SLOTS; i++) {
      const struct tg__slot *const s = &t->more->slot[i];
      const uint32_t from = (s->used + page - 1) / page * page;
      if (s->bytes > from) {
        fallocate(tg__session.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(atomic_load(&s->offset) + from),
                  s->bytes - from);
      }
    }
  }
}

void tg__chunks_trim(uint64_t generation) {
  uint64_t end = atomic_load(&tg__session.file_end);
  struct tg__region spare;
  for (bool at_records = false; !at_records;) {
    struct tg__slot *const s = last_slot(generation, end);
    if (s) {
      at_records = s->used > 0;
      end = atomic_load(&s->offset) + s->used;
      if (at_records) shorten(s);
      s->bytes = s->used;
    } else if (tg__region_spare_at(end, &spare)) {
      end = spare.offset;
    } else {
      break;
    }
  }
  punch_holes(generation);
  atomic_store(&tg__session.file_end, end);
  if (ftruncate(tg__session.fd, (off_t)end)) return; /* it stays as long as it is: zeros */
}

/* Read through the file: the thread of the window may map it again at any moment. */
static bool is_valid_in_file(uint64_t chunk, uint32_t i) {
  uint8_t flags = 0;
  const uint64_t at = chunk + TG_CHUNK_HEADS + (uint64_t)i * TG_RAW_RECORD_BYTES + (TG_RAW_RECORD_BYTES - 1);
  return pread(tg__session.fd, &flags, 1, (off_t)at) == 1 && flags;
}

uint64_t tg__chunk_unsealed(const struct tg__thread *t) {
  const struct tg__thread_private *const p = t->more;
  const uint32_t waiting = atomic_load(&p->full_in) - atomic_load(&p->full_out);
  const int current = atomic_load(&p->current);
  uint32_t low = 0, high = current < 0 ? 0 : atomic_load(&p->capacity); /* valid ones come first */
  const uint64_t chunk = current < 0 ? 0 : atomic_load(&p->slot[current].offset);
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (is_valid_in_file(chunk, middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low + (uint64_t)waiting * atomic_load(&p->capacity);
}

void tg__thread_logical(struct tg__thread *t, uint32_t logical) {
  struct tg__thread_private *const p = t->more;
  t->logical = logical;
  if (!t->next) return;
  uint8_t *const head = (uint8_t *)p->first - TG_RAW_HEAD_BYTES;
  tg__set32(head + 28, logical);
}
