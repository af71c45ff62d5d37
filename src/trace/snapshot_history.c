/* snapshot_history: a device's history, packed as it arrives: a dozen bytes an entry where a plain row has forty-eight.
 *
 *   entry   a byte: action, and what is as it was in the entry before; then varints of what is not: time and address
 *           as differences, the size, the number of the stack and of the context; the name of any other
 *           action
 *
 * Entries lie in blocks, so that an importer can free a block when it has visited it. */
#include "trace/snapshot.h"

enum {
  BLOCK = 1 << 16,
  ENTRY_MOST = 1 + 3 * 10 + 3 * 5,
  SAME_PLACE = 0x10, /* address and size: the completion of a request to free, an allocation of what was freed */
  SAME_CONTEXT = 0x20,
  HAS_STACK = 0x40,
};
_Static_assert((int)TG__ACTION_OTHER < (int)SAME_PLACE, "an action has four bits");

const char *const tg__action_texts[TG__ACTION_OTHER] = {[TG__ACTION_NONE] = "",
                                                        [TG__ACTION_ALLOC] = "alloc",
                                                        [TG__ACTION_FREE_REQUESTED] = "free_requested",
                                                        [TG__ACTION_FREE_COMPLETED] = "free_completed",
                                                        [TG__ACTION_SEGMENT_ALLOC] = "segment_alloc",
                                                        [TG__ACTION_SEGMENT_FREE] = "segment_free",
                                                        [TG__ACTION_SEGMENT_MAP] = "segment_map",
                                                        [TG__ACTION_SEGMENT_UNMAP] = "segment_unmap",
                                                        [TG__ACTION_SNAPSHOT] = "snapshot",
                                                        [TG__ACTION_OOM] = "oom"};

static inline uint64_t zigzag(uint64_t v) { return v << 1 ^ (0 - (v >> 63)); }
static inline uint64_t unzigzag(uint64_t v) { return v >> 1 ^ (0 - (v & 1)); }

static inline uint8_t *put_history(uint8_t *p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
}
static inline uint64_t take_history(const uint8_t **p) {
  uint64_t v = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *(*p)++;
    v |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return v;
  }
}

static bool add_history_block(struct tg__snapshot_history *h) {
  if (!tg__grow((void **)&h->blocks, &h->block_cap, h->block_count + 1, sizeof *h->blocks)) return false;
  h->blocks[h->block_count] = tg__realloc(NULL, BLOCK);
  if (!h->blocks[h->block_count]) return false;
  h->block_count++;
  h->used = 0;
  return true;
}

bool tg__history_add(struct tg__snapshot_history *h, const struct tg__snapshot_entry *x) {
  /* A block ends with the action 0, which no entry has. */
  if ((h->block_count == 0 || h->used + ENTRY_MOST >= BLOCK) && !add_history_block(h)) return false;
  const struct tg__snapshot_entry *const before = &h->last;
  uint8_t *const start = h->blocks[h->block_count - 1] + h->used, *p = start;
  const bool same_place = x->addr == before->addr && x->size == before->size,
             same_context = x->context == before->context;
  *p++ = (uint8_t)(x->action | (same_place ? SAME_PLACE : 0) | (same_context ? SAME_CONTEXT : 0) |
                   (x->stack ? HAS_STACK : 0));
  p = put_history(p, zigzag((uint64_t)x->time_us - (uint64_t)before->time_us));
  if (!same_place) {
    p = put_history(p, zigzag((uint64_t)x->addr - (uint64_t)before->addr));
    p = put_history(p, zigzag((uint64_t)x->size));
  }
  if (!same_context) p = put_history(p, x->context);
  if (x->stack) p = put_history(p, x->stack);
  if (x->action == TG__ACTION_OTHER) p = put_history(p, x->action_text);
  h->used += (size_t)(p - start);
  *p = 0;
  if (h->count++ == 0) h->first_us = x->time_us;
  h->last = *x;
  h->has_requests |= x->action == TG__ACTION_FREE_REQUESTED;
  if (__builtin_add_overflow(h->reserved, tg__snapshot_reserved(x), &h->reserved)) h->reserved = 0;
  return true;
}

bool tg__history_next(struct tg__history_walk *w, struct tg__snapshot_entry *x) {
  struct tg__snapshot_history *const h = w->history;
  if (w->at && *w->at == 0) {
    if (w->release_blocks) {
      tg__free(h->blocks[w->block]);
      h->blocks[w->block] = NULL;
    }
    w->block++;
    w->at = NULL;
  }
  if (!w->at) {
    if (w->block == h->block_count || !h->blocks[w->block]) return false;
    w->at = h->blocks[w->block];
  }
  const uint8_t *p = w->at;
  const uint8_t head = *p++;
  x->action = head & (SAME_PLACE - 1);
  x->time_us = (int64_t)((uint64_t)x->time_us + unzigzag(take_history(&p)));
  if (!(head & SAME_PLACE)) {
    x->addr = (int64_t)((uint64_t)x->addr + unzigzag(take_history(&p)));
    x->size = (int64_t)unzigzag(take_history(&p));
  }
  if (!(head & SAME_CONTEXT)) x->context = (uint32_t)take_history(&p);
  x->stack = head & HAS_STACK ? (uint32_t)take_history(&p) : 0;
  x->action_text = x->action == TG__ACTION_OTHER ? (uint32_t)take_history(&p) : TG_NONE;
  w->at = p;
  return true;
}

void tg__history_free(struct tg__snapshot_history *h) {
  for (size_t i = 0; i < h->block_count; i++) tg__free(h->blocks[i]);
  tg__free(h->blocks);
  *h = (struct tg__snapshot_history){0};
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool tg__snapshot_place(struct tg__snapshot *s, const size_t *device_of, size_t count, size_t host) {
  struct tg__snapshot_history *const placed = tg__alloc((host + 1) * sizeof *placed);
  s->host = host;
  if (!placed) return false;
  for (size_t i = 0; i < count; i++) placed[device_of[i]] = s->devices[i];
  tg__free(s->devices);
  s->devices = placed;
  s->device_count = host + 1;
  return true;
}

void tg__snapshot_free(struct tg__snapshot *s) {
  for (size_t i = 0; i < s->device_count; i++) tg__history_free(&s->devices[i]);
  tg__free(s->devices);
  tg__free(s->segments);
  tg__free(s->blocks);
  tg__free(s->notes);
  tg__free(s->contexts);
  tg__free(s->stack_texts);
  *s = (struct tg__snapshot){0};
}
