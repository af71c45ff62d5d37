/* cuda_proof: before CUPTI's records are believed, work of ours must come back as what it was: a kernel with a grid
 * that nothing else has, a copy and a fill of known sizes, a wait, each with the call that made it, by this thread,
 * between two readings of our clock. */
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/cuda.h"

enum { FILLED = 4096, COPIED = 1024, GRID_X = 3, GRID_Y = 2, BLOCK = 32 };

/* A kernel that does nothing. The driver compiles it for the device. */
static const char ptx[] = ".version 6.0\n"
                          ".target sm_50\n"
                          ".address_size 64\n"
                          ".visible .entry tachograph_proof()\n"
                          "{\n"
                          "ret;\n"
                          "}\n";

static struct proof {
  struct tg__cuda_event kernel, copy, fill, wait, call;
  uint32_t records, calls;
  uint64_t from, to; /* ticks around the work */
} proof;

static void take_proof(void *unused, const struct tg__cuda_event *e) {
  proof.records++;
  if (e->kind == TG_CUPTI_CONCURRENT_KERNEL && e->name && tg__capture_can_read(e->name, sizeof "tachograph_proof") &&
      strncmp(e->name, "tachograph_proof", sizeof "tachograph_proof") == 0)
    proof.kernel = *e;
  if (e->kind == TG_CUPTI_MEMCPY && e->bytes == COPIED) proof.copy = *e;
  if (e->kind == TG_CUPTI_MEMSET && e->bytes == FILLED) proof.fill = *e;
  if (e->kind == TG_CUPTI_SYNCHRONIZATION) proof.wait = *e;
}

/* The call of the launch, once the kernel is known. */
static void take_call(void *unused, const struct tg__cuda_event *e) {
  if (e->kind != TG_CUPTI_DRIVER && e->kind != TG_CUPTI_RUNTIME) return;
  proof.calls++;
  if (e->correlation == proof.kernel.correlation) proof.call = *e;
}

/* Both in one walk over each buffer: the call may lie before the kernel. */
static void take_buffer(uint8_t *buffer, size_t valid) {
  tg__cuda_clock_set_limits();
  tg__cuda_decode(buffer, valid, tg__cupti.cuptiActivityGetNextRecord, take_proof, NULL);
  tg__cuda_decode(buffer, valid, tg__cupti.cuptiActivityGetNextRecord, take_call, NULL);
}

/* ---- the work -------------------------------------------------------------------------------- */

/* The first call of the driver that failed; NULL = none. */
static const char *work_in_context(int *result) {
  const struct tg__cuda_driver *const d = &tg__cuda_driver;
  static const uint8_t bytes[COPIED];
  void *module = NULL, *function = NULL;
  uint64_t memory = 0;
  const char *failed = NULL;
#define CALL(function, ...)                                                                                            \
  if (!failed && (*result = d->function(__VA_ARGS__)) != 0) failed = #function;
  CALL(module_load, &module, ptx)
  CALL(module_function, &function, module, "tachograph_proof")
  CALL(memory_get, &memory, FILLED)
  CALL(memory_fill, memory, 7, FILLED, NULL)
  CALL(memory_write, memory, bytes, COPIED)
  CALL(launch, function, GRID_X, GRID_Y, 1, BLOCK, 1, 1, 0, NULL, NULL, NULL)
  CALL(stream_wait, NULL)
#undef CALL
  if (memory) d->memory_free(memory);
  if (module) d->module_unload(module);
  return failed;
}

/* In the context that is current, else in that of the first device, which the runtime uses as well. */
static enum tg_err work(struct tg_error *e) {
  const struct tg__cuda_driver *const d = &tg__cuda_driver;
  void *context = NULL;
  int device = 0, result = 0;
  d->context_now(&context);
  const bool is_borrowed = !context;
  if (is_borrowed && ((result = d->device_get(&device, 0)) || (result = d->primary_retain(&context, device))))
    return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: no context can be made on the first device (CUDA error %d)", result);
  if (is_borrowed) d->context_push(context);
  proof.from = tg__ticks();
  const char *const failed = work_in_context(&result);
  proof.to = tg__ticks();
  if (is_borrowed) d->context_pop(&context);
  if (is_borrowed) d->primary_release(device);
  if (!failed) return TG_OK;
  return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: the proof could not be made: %s failed (CUDA error %d)", failed,
                  result);
}

/* ---- the comparison -------------------------------------------------------------------------- */

static bool is_between(const struct tg__cuda_event *e) {
  const uint64_t apart = (proof.to - proof.from) / 8 + tg__cuda_clock_now().error + 1;
  uint64_t start, end;
  if (!e->start || e->end < e->start || !tg__cuda_ticks(e->start, &start) || !tg__cuda_ticks(e->end, &end))
    return false;
  return start + apart >= proof.from && end <= proof.to + apart;
}

/* The first thing that does not fit; NULL = all does. */
static const char *misfit(void) {
  const struct tg__cuda_event *const k = &proof.kernel;
  if (!k->kind) return "a kernel that was launched has no record";
  if (k->grid[0] != GRID_X || k->grid[1] != GRID_Y || k->grid[2] != 1 || k->block[0] != BLOCK || k->block[1] != 1)
    return "the kernel's record has another grid than it was launched with";
  if (!proof.copy.kind) return "a copy to the device has no record";
  if (proof.copy.copy_kind != 1) return "the record of a copy to the device names another direction";
  if (!proof.fill.kind) return "memory that was set on the device has no record";
  if (!proof.wait.kind) return "a wait for the device has no record";
  if (k->stream != proof.fill.stream) return "a kernel and a fill of one stream have records on two";
  if (!proof.call.kind) return "the launch of the kernel has no record with its correlation";
  if (proof.call.thread != (uint32_t)syscall(SYS_gettid)) return "the record of the launch names another thread";
  if (!is_between(&proof.call)) return "the launch has times outside of those it was made in";
  if (!is_between(k)) return "the kernel has times outside of those it ran in";
  return NULL;
}

enum tg_err tg__cuda_prove(struct tg_error *e) {
  memset(&proof, 0, sizeof proof);
  const enum tg_err err = work(e);
  if (err) return err;
  const int result = tg__cupti.cuptiActivityFlushAll(1);
  if (result) return tg__cupti_fail(e, "flushing", result);
  tg__cuda_clock_tick();
  tg__cuda_pool_drain(take_buffer);
  const char *const what = misfit();
  if (!what) return TG_OK;
  return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: %s, of %u records that came from CUPTI %u (%s)", what, proof.records,
                  tg__cupti.version, tg__cupti.path);
}
