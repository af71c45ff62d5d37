/* cuda_source: the source of what CUDA devices did. Nothing is called back when the program launches: CUPTI writes
 * records, and which operator launched what follows from threads and times. */
#include <stdio.h>
#include <unistd.h>

#include "capture/cuda.h"
#include "capture/kept.h"
#include "capture/session.h"

/* What is asked of CUPTI, and for which feature. Without a kind that is not needed the recording goes on. */
#define KIND(name) #name, TG_CUPTI_##name
static const struct {
  const char *name;
  uint32_t kind, feature;
  bool is_needed;
} kinds[] = {{KIND(CONCURRENT_KERNEL), TG_RECORD_CUDA, true},
             {KIND(MEMCPY), TG_RECORD_CUDA, true},
             {KIND(MEMSET), TG_RECORD_CUDA, true},
             {KIND(RUNTIME), TG_RECORD_CUDA, true},
             {KIND(DRIVER), TG_RECORD_CUDA, true},
             {KIND(SYNCHRONIZATION), TG_RECORD_CUDA_WAITS, true},
             {KIND(CUDA_EVENT), TG_RECORD_CUDA_WAITS, false},
             {KIND(MEMCPY2), TG_RECORD_CUDA, false},
             {KIND(OVERHEAD), TG_RECORD_CUDA, false},
             {KIND(CONTEXT), TG_RECORD_CUDA, false},
             {KIND(MEMORY2), TG_RECORD_CUDA_MEMORY, false},
             {KIND(MEMORY_POOL), TG_RECORD_CUDA_MEMORY, false}};
#undef KIND
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool is_enabled[KINDS], is_refused[KINDS], is_proven, is_registered, was_forked, was_taken, was_reset;
static void *subscriber;
static pid_t keeper;                                /* the process that began to keep nodes of graphs */
static _Atomic uint64_t callbacks, lost, destroyed; /* contexts, in this recording */
enum {
#define CUPTI_RESOURCE(name, number) name = number,
#include "capture/cuda_layouts.def"
};

static _Thread_local bool is_detaching;

/* CUPTI allows one subscriber; a held one shows other profilers that this process is recorded. It is called when a
 * node of a graph is captured and when a context is destroyed, never for a launch; and when we detach, as a function of
 * the driver begins and as it ends. */
static void called_back(void *unused, uint32_t domain, uint32_t function, const void *data) {
  enum { AT_EXIT = 1 };
  if (domain == TG_CUPTI_RESOURCE && function == CONTEXT_DESTROY_STARTING) {
    atomic_fetch_add(&destroyed, 1);
  } else if (domain == TG_CUPTI_RESOURCE) {
    tg__cuda_graph_called(function, data);
  } else if (!is_detaching) {
    atomic_fetch_add(&callbacks, 1);
  } else if (data && tg__at32(data) == AT_EXIT) {
    is_detaching = tg__cupti.cuptiFinalize() != 0;
  }
}

static void count_lost(void) {
  const uint64_t n = tg__cuda_pool_take_lost();
  struct tg__thread *const t = n ? tg__thread() : NULL;
  if (t) tg__thread_count(t, TG_RAW_C_DEVICE_LOST, n);
  atomic_fetch_add(&lost, n);
}

static void take_buffer(uint8_t *buffer, size_t valid) {
  tg__cuda_clock_set_limits();
  const uint64_t unread = tg__cuda_decode(buffer, valid, tg__cupti.cuptiActivityGetNextRecord, tg__cuda_write, NULL);
  struct tg__thread *const t = unread ? tg__thread() : NULL;
  if (t) tg__thread_count(t, TG_RAW_C_DEVICE_UNREAD, unread);
}

/* ---- on and off ------------------------------------------------------------------------------ */

/* CUPTI stays in every call of the driver, also when it records nothing, until it is finalized; NVIDIA says that the
 * end of a call is the place for it. Not where torch's collector has the subscriber: it would lose it. */
static void detach(void) {
  enum {
    DRIVER_API = 1,
    SAFE_FROM = 24, /* CUDA 12.6: before it, graphs that were captured meanwhile broke */
    MOST = 64       /* CUPTI 13.0 loses 75 kB at each */
  };
  static int times;
  void *context;
  if (times >= MOST || !subscriber || was_taken || was_reset || !tg__cupti.cuptiFinalize ||
      !tg__cupti.cuptiEnableDomain || tg__cupti.version < SAFE_FROM ||
      tg__cupti.cuptiEnableDomain(1, subscriber, DRIVER_API))
    return;
  is_detaching = true;
  tg__cuda_driver.context_now(&context);
  if (!is_detaching) {
    times++;
    subscriber = NULL;
    is_registered = false;
    tg__cuda_clock_forget();
  }
  is_detaching = false;
}

static void disable(void) {
  for (int i = 0; i < KINDS; i++) {
    if (is_enabled[i]) tg__cupti.cuptiActivityDisable(kinds[i].kind);
    is_enabled[i] = false;
  }
}

/* Not while nodes of graphs are kept. */
static void unsubscribe(void) {
  if (tg__kept_is_on()) return;
  if (subscriber) tg__cupti.cuptiUnsubscribe(subscriber);
  subscriber = NULL;
}

/* Without a subscriber of ours where torch's collector has kept the one there is. */
static enum tg_err subscribe(struct tg_error *e) {
  enum { MULTIPLE_SUBSCRIBERS = 39 };
  char holder[TG_CUDA_HOLDER_BYTES];
  if (subscriber) return TG_OK;
  const int result = tg__cupti.cuptiSubscribe(&subscriber, called_back, NULL);
  if (result == 0) return TG_OK;
  subscriber = NULL;
  if (result != MULTIPLE_SUBSCRIBERS) return tg__cupti_fail(e, "subscribing", result);
  if (!tg__cuda_holder(holder)) return TG_OK;
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "CUDA: another profiler holds CUPTI in this process (%s): end it, or record with backend=\"kineto\"",
                  holder);
}

static enum tg_err enable(uint32_t features, struct tg_error *e) {
  enum { SYSTEM_THREADS = 1 };
  const enum tg_err err = subscribe(e);
  if (err) return err;
  /* Again for each recording: another profiler may have put its own functions there meanwhile. */
  int result = tg__cupti.cuptiActivityRegisterCallbacks(tg__cuda_requested, tg__cuda_completed);
  if (result) return tg__cupti_fail(e, "registering buffers", result);
  is_registered = true;
  if (tg__cupti.cuptiSetThreadIdType) tg__cupti.cuptiSetThreadIdType(SYSTEM_THREADS);
  memset(is_refused, 0, sizeof is_refused);
  for (int i = 0; i < KINDS; i++) {
    if (!(kinds[i].feature & features)) continue;
    result = tg__cupti.cuptiActivityEnable(kinds[i].kind);
    is_enabled[i] = result == 0;
    is_refused[i] = result != 0;
    if (result && kinds[i].is_needed) return tg__cupti_fail(e, "switching on a kind of record", result);
  }
  return TG_OK;
}

/* ---- the source ------------------------------------------------------------------------------ */

static enum tg_err open_cuda(uint32_t features, struct tg_error *e) {
  tg__cuda_pool_start();
  const enum tg_err err = enable(features, e);
  if (!err) tg__cuda_clock_start();
  return err;
}

/* A flush returns every buffer. One that stays out went with its context, which CUPTI's result or the end of a context
 * shows; else whoever registered buffers after us has it. */
static void flush(void) {
  const int result = is_registered ? tg__cupti.cuptiActivityFlushAll(1) : 0;
  const bool is_missing = is_registered && tg__cuda_pool_missing() > 0;
  was_reset = is_missing && (result || atomic_load(&destroyed));
  was_taken = is_missing && !was_reset;
}

static void watch_kept(void) { tg__cuda_graph_keep(subscriber, true, false); }

static void close_cuda(tg__cuda_take *take, bool goes_on) {
  flush();
  disable();
  tg__cuda_pool_drain(take);
  if (is_registered) tg__cuda_pool_ask_dropped();
  tg__cuda_pool_stop();
  if (!goes_on) detach();
  unsubscribe();
  if (!subscriber && tg__kept_is_on() && subscribe(NULL) == TG_OK && subscriber) watch_kept();
}

static void drop_buffer(uint8_t *buffer, size_t valid) {}

static void fork_cuda(void);
static bool records(void) {
  bool any = false;
  for (int i = 0; i < KINDS; i++) any = any || is_enabled[i];
  return any;
}

/* The driver and CUPTI are there, and may be used in this process. */
static enum tg_err load(struct tg_error *e) {
  if (keeper && keeper != getpid()) fork_cuda(); /* without a recording no fork handler did */
  if (was_forked)
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "CUDA: this process was forked from one that uses CUDA, so it cannot use it: start it with the "
                    "method spawn");
  return tg__cuda_load(e);
}

static enum tg_err prepare_cuda(uint32_t features, struct tg_error *e) {
  enum tg_err err = load(e);
  if (err || is_proven) return err;
  err = open_cuda(TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS, e);
  if (!err) err = tg__cuda_prove(e);
  close_cuda(drop_buffer, !err);
  is_proven = !err;
  return err;
}

/* Without the subscriber, or in a CUPTI that cannot: contexts end unseen. */
static void watch_contexts(bool is_on) {
  if (is_on) atomic_store(&destroyed, 0);
  if (subscriber && tg__cupti.cuptiEnableCallback)
    tg__cupti.cuptiEnableCallback(is_on, subscriber, TG_CUPTI_RESOURCE, CONTEXT_DESTROY_STARTING);
}

static enum tg_err start_cuda(uint32_t features, struct tg_error *e) {
  tg__cuda_write_start();
  tg__cuda_pool_take_lost(); /* of before */
  atomic_store(&lost, 0);
  const enum tg_err err = open_cuda(features | TG_RECORD_CUDA, e);
  if (err) close_cuda(drop_buffer, false);
  if (!err) watch_contexts(true);
  if (!err) tg__cuda_graph_start(subscriber);
  if (!err) tg__cuda_devices_write();
  if (!err) tg__cuda_nvml_start();
  return err;
}

static void stop_cuda(void) {
  watch_contexts(false);
  tg__cuda_graph_stop(subscriber);
  tg__cuda_write_stop();
  tg__cuda_clock_tick();
  close_cuda(take_buffer, false);
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
  tg__kept_forked();
  keeper = 0;
  was_forked = tg__cuda_driver.init != NULL;
  memset(is_enabled, 0, sizeof is_enabled);
  subscriber = NULL;
  is_registered = false;
  tg__cuda_pool_abandon();
}

static bool is_off_cuda(void) { return (!subscriber || tg__kept_is_on()) && !records(); }

/* ---- nodes of graphs that are kept ------------------------------------------------------------ */

static void end_kept(void) {
  if (subscriber) tg__cuda_graph_keep(subscriber, false, records());
  tg__kept_end();
  if (records()) return;
  detach();
  unsubscribe();
}

static enum tg_err begin_kept(uint64_t most, struct tg_error *e) {
  enum tg_err err = load(e);
  if (!err) err = subscribe(e);
  if (!err && !subscriber)
    err = tg__fail(e, TG_UNSUPPORTED, -1,
                   "CUDA: torch's collector has the one subscriber of CUPTI: nodes of graphs are not kept");
  if (!err && !tg__cuda_graph_can())
    err = tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: this libcupti does not know nodes of graphs: %s", tg__cupti.path);
  if (err && !records()) unsubscribe();
  if (err) return err;
  keeper = getpid();
  tg__kept_begin(most);
  watch_kept();
  return TG_OK;
}

static enum tg_err change_kept(uint64_t most, struct tg_error *e) {
  if (most) return begin_kept(most, e);
  if (tg__kept_is_on() && keeper == getpid()) end_kept();
  return TG_OK;
}

enum tg_err tg__cuda_keep(uint64_t most_bytes, struct tg_error *e) {
  return tg__session_do(change_kept, most_bytes, e);
}

const struct tg__source tg__source_cuda = {.name = "CUDA",
                                           .features = TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS | TG_RECORD_CUDA_MEMORY,
                                           .prepare = prepare_cuda,
                                           .start = start_cuda,
                                           .stop = stop_cuda,
                                           .serve = serve_cuda,
                                           .tick = tick_cuda,
                                           .fork_child = fork_cuda,
                                           .is_off = is_off_cuda};

/* Names of the refused kinds, separated by blanks. */
static void list_refused(char *out, size_t room) {
  size_t len = 0;
  for (int i = 0; i < KINDS; i++)
    if (is_refused[i] && len < room)
      len += (size_t)snprintf(out + len, room - len, "%s%s", len ? " " : "", kinds[i].name);
}

void tg_record_cuda(struct tg_record_cuda_stats *out) {
  const struct tg__cuda_written w = tg__cuda_written_now();
  const struct tg__cuda_clock_state clock = tg__cuda_clock_now();
  int driver = 0;
  if (tg__cuda_driver.version) tg__cuda_driver.version(&driver);
  *out = (struct tg_record_cuda_stats){.version = tg__cupti.version,
                                       .driver_version = (uint32_t)driver,
                                       .is_proven = is_proven,
                                       .has_subscriber = subscriber != NULL,
                                       .was_taken = was_taken,
                                       .was_reset = was_reset,
                                       .has_our_clock = clock.is_ours,
                                       .clock_error_ticks = clock.error,
                                       .converted_times = clock.converted,
                                       .kernels = w.kernels,
                                       .copies = w.copies,
                                       .fills = w.fills,
                                       .calls = w.calls,
                                       .waits = w.waits,
                                       .memory = w.memory,
                                       .graph_nodes = tg__cuda_graph_nodes(),
                                       .lost = atomic_load(&lost),
                                       .late = tg__cuda_pool_late(),
                                       .callbacks = atomic_load(&callbacks),
                                       .buffer_bytes = tg__cuda_pool_bytes()};
  snprintf(out->path, sizeof out->path, "%s", tg__cupti.path);
  list_refused(out->refused, sizeof out->refused);
}
