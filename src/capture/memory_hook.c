/* memory_hook: allocations and frees of tensors, on every thread. On a CPU: libc10 and libtorch_cpu call c10::alloc_cpu
 * and c10::free_cpu through slots of theirs; ours stand there while we record. Needs no layout of torch, sees frees
 * of blocks that were there before, and costs one record and one reading of the clock each.
 *
 * A free does not say how large the block was. Keeping a table of sizes would cost more than all the rest, so the
 * reader looks the size up from the allocation in the recording; where there is none, the allocator's size of the block
 * replaces it.
 *
 * Allocators of devices (libc10_cuda and its kind) report each change through slots of the same sort, with its size and
 * what they hold; a library without them, or an allocator that reports nothing, has no memory in the recording. */
#include <dlfcn.h>
#include <malloc.h>

#include "capture/elf_slots.h"
#include "capture/torch.h"

enum { SLOTS_MAX = 64 };
enum which { ALLOC, RELEASE, CHANGE, FAILURE, FUNCTIONS };
static struct hook {
  struct tg__torch_allocator real;
  struct tg__torch_reports reports; /* all NULL: this torch has none */
  struct tg__elf_slot slots[FUNCTIONS][SLOTS_MAX];
  size_t count[FUNCTIONS];
  uint64_t epoch; /* of the loaded libraries when they were searched last */
  bool is_on;
} hook;
static const char *_Atomic devices_why_not = "no recording had allocations among its features";

const char *tg_record_device_memory(void) { return atomic_load(&devices_why_not); }

/* When an allocation happened. Reading the clock is half of what a record costs here (10 ns on the machine this was
 * measured on), and an operator that allocates has just begun, or has just seen a smaller one end: that moment is
 * taken, and the record says so. */
static uint64_t moment(struct tg__thread *t, bool allocates, uint8_t *flags) {
  const struct tg__open *const o = t->depth ? &t->open[t->depth - 1] : NULL;
  *flags = allocates && o && o->scope <= TG_RAW_SCRIPT ? TG_RAW_F_EARLY : 0;
  if (*flags) return o->start_ticks > t->last_ticks ? o->start_ticks : t->last_ticks;
  return t->last_ticks = tg__ticks();
}

struct change {
  uint64_t value, amount; /* as the scope's description says */
  uint16_t device;        /* type << 8 | number; 0 = the processor */
  uint8_t scope, flags;
};

static void write_change(struct tg__thread *t, uint64_t ticks, const struct change *c) {
  struct tg__raw_record *const r = tg__record_claim(t);
  if (!r) return;
  r->start_ticks = ticks;
  r->dur_ticks = (uint32_t)c->amount;
  r->seq = (uint32_t)(c->amount >> 32);
  r->shape = (uint32_t)c->value;
  r->stack = (uint32_t)(c->value >> 32);
  r->name = tg__innermost_name(t);
  r->depth = c->device;
  r->scope = c->scope;
  tg__record_publish(r, c->flags);
}

static void note(uint8_t scope, const void *block, int64_t bytes) {
  struct tg__thread *const t = tg__thread();
  if (!t) return;
  struct change c = {.value = (uintptr_t)block, .amount = (uint64_t)bytes, .scope = scope};
  const uint64_t ticks = moment(t, bytes > 0, &c.flags);
  write_change(t, ticks, &c);
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

/* ---- devices --------------------------------------------------------------------------------- */

static void note_of_device(const struct change *change, size_t allocated, size_t reserved) {
  struct tg__thread *const t = tg__thread();
  if (!t) return;
  struct change c = *change, totals = {allocated, reserved, change->device, TG_RAW_MEMORY_TOTALS, 0};
  const uint64_t ticks = moment(t, (int64_t)c.amount > 0, &c.flags);
  totals.flags = c.flags;
  write_change(t, ticks, &c);
  write_change(t, ticks, &totals);
}

static uint16_t device_of(uint16_t device) { return (uint16_t)(device << 8 | device >> 8); } /* torch: type first */

/* The processor's allocator reports here as well, only while torch's own profiler runs; its slots are taken above. */
static void recorded_change(void *block, int64_t bytes, size_t allocated, size_t reserved, uint16_t device) {
  const struct change c = {(uintptr_t)block, (uint64_t)bytes, device_of(device), TG_RAW_MEMORY, 0};
  if (device & 0xff) note_of_device(&c, allocated, reserved);
  hook.reports.change(block, bytes, allocated, reserved, device);
}

static void recorded_failure(int64_t bytes, size_t allocated, size_t reserved, uint16_t device) {
  const struct change c = {0, (uint64_t)bytes, device_of(device), TG_RAW_OUT_OF_MEMORY, 0};
  if (device & 0xff) note_of_device(&c, allocated, reserved);
  hook.reports.failure(bytes, allocated, reserved, device);
}

/* ---- on and off ------------------------------------------------------------------------------ */

static enum tg_err memory_prepare(uint32_t features, struct tg_error *e) {
  if (!hook.reports.change && !tg__torch_find_reports(&hook.reports)) hook.reports = (struct tg__torch_reports){0};
  return hook.real.alloc ? TG_OK : tg__torch_find_allocator(&hook.real, e);
}

/* Put `to` into every slot for the symbol. */
static bool redirect(enum which which, const char *symbol, void *to) {
  size_t found = tg__elf_slots_find(symbol, hook.slots[which], SLOTS_MAX);
  bool done = found > 0;
  if (found > SLOTS_MAX) found = SLOTS_MAX;
  hook.count[which] = found;
  for (size_t i = 0; i < found; i++) done = tg__elf_slot_set(&hook.slots[which][i], to) && done;
  return done;
}

static void restore(enum which which, void *real) {
  for (size_t i = 0; i < hook.count[which]; i++) tg__elf_slot_set(&hook.slots[which][i], real);
  hook.count[which] = 0;
}

static void memory_stop(void) {
  hook.is_on = false;
  restore(ALLOC, *(void **)&hook.real.alloc);
  restore(RELEASE, *(void **)&hook.real.free);
  restore(CHANGE, *(void **)&hook.reports.change);
  restore(FAILURE, *(void **)&hook.reports.failure);
}

/* libc10 and libtorch_cpu report of the processor; whoever else has a slot is the allocator of a device. */
static bool is_of_device(const struct tg__elf_slot *s) {
  Dl_info library;
  if (!dladdr(s->at, &library) || !library.dli_fname) return false;
  const char *const slash = strrchr(library.dli_fname, '/'), *const name = slash ? slash + 1 : library.dli_fname;
  return strcmp(name, "libc10.so") != 0 && strcmp(name, "libtorch_cpu.so") != 0;
}

/* NULL, or why allocations of devices are not recorded. */
static const char *redirect_reports(void) {
  void (*const change)(void *, int64_t, size_t, size_t, uint16_t) = recorded_change;
  void (*const failure)(int64_t, size_t, size_t, uint16_t) = recorded_failure;
  bool has_device = false;
  if (!hook.reports.change) return "this torch has no c10::reportMemoryUsageToProfiler to watch";
  const bool sees_changes = redirect(CHANGE, TG_TORCH_REPORT, *(void *const *)&change);
  const bool sees_failures = redirect(FAILURE, TG_TORCH_REPORT_FAILED, *(void *const *)&failure);
  for (size_t i = 0; i < hook.count[CHANGE]; i++) has_device = has_device || is_of_device(&hook.slots[CHANGE][i]);
  if (!has_device) return "no allocator of a device that reports to torch's profiler is loaded";
  return sees_changes && sees_failures ? NULL : "slots of c10::reportMemoryUsageToProfiler cannot be written";
}

static enum tg_err memory_start(uint32_t features, struct tg_error *e) {
  void *(*const alloc)(size_t) = recorded_alloc;
  void (*const release)(void *) = recorded_free;
  hook.epoch = tg__elf_slots_epoch();
  atomic_store(&devices_why_not, redirect_reports());
  if (redirect(ALLOC, TG_TORCH_ALLOC, *(void *const *)&alloc) &&
      redirect(RELEASE, TG_TORCH_FREE, *(void *const *)&release)) {
    hook.is_on = true;
    return TG_OK;
  }
  memory_stop();
  atomic_store(&devices_why_not, "allocations are not recorded at all");
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
