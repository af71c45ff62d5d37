/* chunk_slots_valid: the invariants of a thread's window and of its full chunks, as code. On the thread that owns the
 * state, in a slow path: the helper may take a slot or seal a full chunk at the same time. */
#include "capture/session.h"

#define CHECK(condition, text) TG__CHECK(condition, "slots of a thread: " text)

static bool region_is_valid(struct tg__region r) {
  return r.bytes > TG_CHUNK_HEADS && r.offset % tg__session.page_bytes == 0 &&
         r.offset + r.bytes <= atomic_load(&tg__session.file_end);
}

static bool are_apart(struct tg__region a, struct tg__region b) {
  return a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
}

static bool current_is_valid(const struct tg__thread *t, int current, struct tg_error *e) {
  const struct tg__thread_private *const p = t->more;
  const struct tg__slot *const s = &p->slot[current];
  const uint8_t *const base = p->window + (size_t)current * TG_CHUNK_MOST;
  CHECK(atomic_load(&s->state) == TG_SLOT_FREE, "the chunk that is written is not the thread's");
  CHECK(region_is_valid((struct tg__region){atomic_load(&s->offset), s->bytes}), "the chunk is not in the file");
  CHECK((const uint8_t *)p->first == base + TG_CHUNK_HEADS, "records begin outside their slot");
  CHECK(p->last == p->first + atomic_load(&p->capacity), "the room is not the capacity");
  CHECK((const uint8_t *)p->last <= base + s->bytes, "the room ends behind the chunk");
  CHECK(p->first <= t->next && t->next <= t->end && t->end <= p->last, "the next record is outside the room");
  return true;
}

static bool full_chunks_are_valid(const struct tg__thread *t, int current, struct tg_error *e) {
  const struct tg__thread_private *const p = t->more;
  const uint32_t out = atomic_load(&p->full_out), in = atomic_load(&p->full_in);
  CHECK(in - out <= TG_FULL_MAX, "more full chunks than places");
  for (uint32_t i = out; i != in; i++) {
    const struct tg__full *const f = &p->full[i % TG_FULL_MAX];
    CHECK(region_is_valid(f->region), "a full chunk is not in the file");
    CHECK(f->slot < TG_SLOTS, "a full chunk was in no slot");
    CHECK(TG_CHUNK_HEADS + (uint64_t)f->count * TG_RAW_RECORD_BYTES <= f->region.bytes, "a full chunk is too full");
    for (uint32_t k = out; k != i; k++)
      CHECK(are_apart(f->region, p->full[k % TG_FULL_MAX].region), "two full chunks overlap");
    if (current >= 0) {
      const struct tg__slot *const s = &p->slot[current];
      CHECK(are_apart(f->region, (struct tg__region){atomic_load(&s->offset), s->bytes}),
            "the chunk that is written overlaps a full one");
    }
  }
  return true;
}

bool tg__chunk_slots_are_valid(const struct tg__thread *t, struct tg_error *e) {
  const struct tg__thread_private *const p = t->more;
  const int current = atomic_load(&p->current);
  int not_free = 0;
  CHECK(current >= -1 && current < TG_SLOTS, "there is no such slot");
  CHECK(p->window, "no window");
  for (int i = 0; i < TG_SLOTS; i++) not_free += atomic_load(&p->slot[i].state) != TG_SLOT_FREE;
  CHECK(not_free <= 1, "two slots are the helper's");
  CHECK(current >= 0 || (!t->next && !t->end), "there is room for records and no chunk");
  return (current < 0 || current_is_valid(t, current, e)) && full_chunks_are_valid(t, current, e);
}
