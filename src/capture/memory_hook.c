/* memory_hook: allocations and frees of CPU tensors, on every thread. libc10 and libtorch_cpu call c10::alloc_cpu
 * and c10::free_cpu through slots of theirs; ours stand there while we record. Needs no layout of torch, sees frees
 * of blocks that were there before, and costs one record and one reading of the clock each.
 *
 * A free does not say how large the block was. Keeping a table of sizes would cost more than all the rest, so the
 * reader looks the size up from the allocation in the recording; what the allocator says of the block stands in for
 * it where there is none. */
#include <malloc.h>

#include "capture/elf_slots.h"
#include "capture/torch.h"

enum { SLOTS_MAX = 64 };
static struct hook {
  struct tg__torch_allocator real;
  struct tg__elf_slot slots[2][SLOTS_MAX]; /* of alloc, of free */
  size_t count[2];
  uint64_t epoch; /* of the loaded libraries when they were searched last */
  bool is_on;
} hook;

/* When an allocation happened. Reading the clock is half of what a record costs here (10 ns on the machine this was
 * measured on), and an operator that allocates has just begun, or has just seen a smaller one end: that moment is
 * taken, and the record says so. */
static uint64_t moment(struct tg__thread *t, bool allocates, uint8_t *flags) {
  const struct tg__open *const o = t->depth ? &t->open[t->depth - 1] : NULL;
  *flags = allocates && o && o->scope <= TG_RAW_SCRIPT ? TG_RAW_F_EARLY : 0;
  if (*flags) return o->start_ticks > t->last_ticks ? o->start_ticks : t->last_ticks;
  return t->last_ticks = tg__ticks();
}

static void note(uint8_t scope, const void *block, int64_t bytes) {
  struct tg__thread *const t = tg__thread();
  struct tg__raw_record *const r = t ? tg__record_claim(t) : NULL;
  uint8_t flags;
  if (!r) return;
  r->start_ticks = moment(t, bytes > 0, &flags);
  r->dur_ticks = (uint32_t)(uint64_t)bytes;
  r->seq = (uint32_t)((uint64_t)bytes >> 32);
  r->shape = (uint32_t)(uintptr_t)block;
  r->stack = (uint32_t)((uint64_t)(uintptr_t)block >> 32);
  r->name = tg__innermost_name(t);
  r->depth = 0; /* type CPU */
  r->scope = scope;
  tg__record_publish(r, flags);
}

/* Out of memory is thrown, in C++: the cleanup sees it pass, the exception goes on (this file is compiled with
 * -fexceptions). */
struct attempt {
  size_t bytes;
  bool failed;
};
static void end_attempt(const struct attempt *a) {
  if (a->failed) note(TG_RAW_OUT_OF_MEMORY, NULL, (int64_t)a->bytes);
}

static void *recorded_alloc(size_t bytes) {
  __attribute__((cleanup(end_attempt))) struct attempt attempt = {bytes, true};
  void *const block = hook.real.alloc(bytes);
  attempt.failed = false;
  if (block) note(TG_RAW_MEMORY, block, (int64_t)bytes);
  return block;
}

/* Noted before it is done: afterwards another thread may have been given the same address already. */
static void recorded_free(void *block) {
  if (block) note(TG_RAW_MEMORY, block, -(int64_t)malloc_usable_size(block));
  hook.real.free(block);
}

static enum tg_err memory_prepare(uint32_t features, struct tg_error *e) {
  return hook.real.alloc ? TG_OK : tg__torch_find_allocator(&hook.real, e);
}

/* Put `to` into every slot for the symbol. */
static bool redirect(int which, const char *symbol, void *to) {
  size_t found = tg__elf_slots_find(symbol, hook.slots[which], SLOTS_MAX);
  bool done = found > 0;
  if (found > SLOTS_MAX) found = SLOTS_MAX;
  hook.count[which] = found;
  for (size_t i = 0; i < found; i++) done = tg__elf_slot_set(&hook.slots[which][i], to) && done;
  return done;
}

static void memory_stop(void) {
  hook.is_on = false;
  for (size_t i = 0; i < hook.count[0]; i++) tg__elf_slot_set(&hook.slots[0][i], *(void **)&hook.real.alloc);
  for (size_t i = 0; i < hook.count[1]; i++) tg__elf_slot_set(&hook.slots[1][i], *(void **)&hook.real.free);
  hook.count[0] = hook.count[1] = 0;
}

static enum tg_err memory_start(uint32_t features, struct tg_error *e) {
  void *(*const alloc)(size_t) = recorded_alloc;
  void (*const release)(void *) = recorded_free;
  hook.epoch = tg__elf_slots_epoch();
  if (redirect(0, TG_TORCH_ALLOC, *(void *const *)&alloc) && redirect(1, TG_TORCH_FREE, *(void *const *)&release)) {
    hook.is_on = true;
    return TG_OK;
  }
  memory_stop();
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "allocations: torch's libraries do not call c10::alloc_cpu through slots that can be written");
}

/* Libraries loaded since (an extension of torch) have slots of their own. */
static void memory_tick(void) {
  struct tg_error ignored;
  if (hook.is_on && tg__elf_slots_epoch() != hook.epoch) memory_start(0, &ignored);
}

const struct tg__source tg__source_memory = {
    .name = "memory",
    .features = TG_RECORD_MEMORY,
    .prepare = memory_prepare,
    .start = memory_start,
    .stop = memory_stop,
    .tick = memory_tick,
};
