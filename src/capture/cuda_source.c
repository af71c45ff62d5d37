/* cuda_source: the source of what CUDA devices did. Nothing is called back when the program launches: CUPTI writes
 * records, and which operator launched what follows from threads and times. */
#include <stdio.h>

#include "capture/cuda.h"

/* What is asked of CUPTI. Without a kind that is not needed the recording goes on. */
static const struct {
  uint32_t kind;
  bool is_needed;
} kinds[] = {{TG_CUPTI_CONCURRENT_KERNEL, true}, {TG_CUPTI_MEMCPY, true},      {TG_CUPTI_MEMSET, true},
             {TG_CUPTI_RUNTIME, true},           {TG_CUPTI_DRIVER, true},      {TG_CUPTI_SYNCHRONIZATION, true},
             {TG_CUPTI_MEMCPY2, false},          {TG_CUPTI_CUDA_EVENT, false}, {TG_CUPTI_OVERHEAD, false},
             {TG_CUPTI_DEVICE, false},           {TG_CUPTI_CONTEXT, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool is_enabled[KINDS], is_proven, is_registered, was_forked;
static void *subscriber;
static _Atomic uint64_t callbacks, lost;

/* No function is switched on for it: it is the sign that this process is being recorded, which other profilers respect.
 */
static void called_back(void *unused, uint32_t domain, uint32_t function, const void *data) {
  atomic_fetch_add(&callbacks, 1);
}

static void count_lost(void) {
  const uint64_t n = tg__cuda_pool_take_lost();
  struct tg__thread *const t = n ? tg__thread() : NULL;
  if (t) tg__count(t, TG_RAW_C_DEVICE_LOST, n);
  atomic_fetch_add(&lost, n);
}

static void take_buffer(uint8_t *buffer, size_t valid) {
  tg__cuda_clock_look();
  const uint64_t unread = tg__cuda_decode(buffer, valid, tg__cupti.cuptiActivityGetNextRecord, tg__cuda_write, NULL);
  struct tg__thread *const t = unread ? tg__thread() : NULL;
  if (t) tg__count(t, TG_RAW_C_DEVICE_UNREAD, unread);
}

/* ---- on and off ------------------------------------------------------------------------------ */

static void disable(void) {
  for (int i = 0; i < KINDS; i++) {
    if (is_enabled[i]) tg__cupti.cuptiActivityDisable(kinds[i].kind);
    is_enabled[i] = false;
  }
  if (subscriber) tg__cupti.cuptiUnsubscribe(subscriber);
  subscriber = NULL;
}

static enum tg_err enable(struct tg_error *e) {
  enum { SYSTEM_THREADS = 1 };
  int result = tg__cupti.cuptiSubscribe(&subscriber, called_back, NULL);
  if (result) {
    subscriber = NULL;
    return tg__cupti_fail(e, "subscribing", result);
  }
  /* Again for each recording: another profiler may have put its own functions there meanwhile. */
  result = tg__cupti.cuptiActivityRegisterCallbacks(tg__cuda_requested, tg__cuda_completed);
  if (result) return tg__cupti_fail(e, "registering buffers", result);
  is_registered = true;
  if (tg__cupti.cuptiSetThreadIdType) tg__cupti.cuptiSetThreadIdType(SYSTEM_THREADS);
  for (int i = 0; i < KINDS; i++) {
    result = tg__cupti.cuptiActivityEnable(kinds[i].kind);
    is_enabled[i] = result == 0;
    if (result && kinds[i].is_needed) return tg__cupti_fail(e, "switching on a kind of record", result);
  }
  return TG_OK;
}

/* ---- the source ------------------------------------------------------------------------------ */

static enum tg_err open_cuda(struct tg_error *e) {
  tg__cuda_pool_start();
  const enum tg_err err = enable(e);
  if (!err) tg__cuda_clock_start();
  return err;
}

static void close_cuda(tg__cuda_take *take) {
  if (is_registered) tg__cupti.cuptiActivityFlushAll(1);
  disable();
  tg__cuda_pool_drain(take);
  if (is_registered) tg__cuda_pool_ask_dropped();
  tg__cuda_pool_stop();
}

static void drop_buffer(uint8_t *buffer, size_t valid) {}

static enum tg_err prepare_cuda(uint32_t features, struct tg_error *e) {
  if (was_forked)
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "CUDA: this process was forked from one that uses CUDA, so it cannot use it: start it with the "
                    "method spawn");
  enum tg_err err = tg__cuda_load(e);
  if (err || is_proven) return err;
  err = open_cuda(e);
  if (!err) err = tg__cuda_prove(e);
  close_cuda(drop_buffer);
  is_proven = !err;
  return err;
}

static enum tg_err start_cuda(uint32_t features, struct tg_error *e) {
  tg__cuda_write_start();
  tg__cuda_pool_take_lost(); /* of before */
  atomic_store(&lost, 0);
  const enum tg_err err = open_cuda(e);
  if (err) close_cuda(drop_buffer);
  if (!err) tg__cuda_nvml_start();
  return err;
}

static void stop_cuda(void) {
  tg__cuda_clock_tick();
  close_cuda(take_buffer);
  count_lost();
}

static void serve_cuda(void) { tg__cuda_pool_drain(take_buffer); }

static void tick_cuda(void) {
  tg__cuda_clock_tick();
  tg__cuda_pool_drain(take_buffer);
  count_lost();
  tg__cuda_nvml_tick();
}

static void fork_cuda(void) {
  was_forked = tg__cuda_driver.init != NULL;
  memset(is_enabled, 0, sizeof is_enabled);
  subscriber = NULL;
  is_registered = false;
  tg__cuda_pool_abandon();
}

static bool is_off_cuda(void) {
  bool is_off = !subscriber;
  for (int i = 0; i < KINDS; i++) is_off = is_off && !is_enabled[i];
  return is_off;
}

const struct tg__source tg__source_cuda = {.name = "CUDA",
                                           .features = TG_RECORD_CUDA,
                                           .prepare = prepare_cuda,
                                           .start = start_cuda,
                                           .stop = stop_cuda,
                                           .serve = serve_cuda,
                                           .tick = tick_cuda,
                                           .fork_child = fork_cuda,
                                           .is_off = is_off_cuda};

void tg_record_cuda(struct tg_record_cuda_stats *out) {
  const struct tg__cuda_written w = tg__cuda_written_now();
  const struct tg__cuda_clock_state clock = tg__cuda_clock_now();
  *out = (struct tg_record_cuda_stats){.version = tg__cupti.version,
                                       .is_proven = is_proven,
                                       .has_our_clock = clock.is_ours,
                                       .clock_error_ticks = clock.error,
                                       .converted_times = clock.converted,
                                       .kernels = w.kernels,
                                       .copies = w.copies,
                                       .fills = w.fills,
                                       .calls = w.calls,
                                       .waits = w.waits,
                                       .lost = atomic_load(&lost),
                                       .late = tg__cuda_pool_late(),
                                       .callbacks = atomic_load(&callbacks),
                                       .buffer_bytes = tg__cuda_pool_bytes()};
  snprintf(out->path, sizeof out->path, "%s", tg__cupti.path);
}
