/* The source of CUDA against libraries that play scripts (tests/fake): CUPTI's records are in the trace, linked, on
 * their streams and at their times; lost ones are counted; and nothing is left when it is off. */
#include <math.h>
#include <sys/syscall.h>

#include "capture/session.h"
#include "unit/cuda_fakes.h"

static const char op_key; /* its address is the key of an operator */

/* The only slice of that name and class on that thread or stream. */
static uint32_t find_slice(const struct tg__columns *t, const char *name, enum tg__class cls, int64_t tid) {
  uint32_t found = TG_NONE;
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__str s = tg__name(t, t->slices.name[i]);
    if (tg__slice_class(t, i) != cls || track_of(t, i)->tid != tid || s.len != strlen(name) ||
        memcmp(s.ptr, name, s.len))
      continue;
    assert_int_equal(found, TG_NONE);
    found = i;
  }
  assert_int_not_equal(found, TG_NONE);
  return found;
}

static void assert_raw(const struct tg__columns *t, uint32_t slice, uint32_t key, const char *text) {
  struct tg__val v;
  assert_true(tg__arg(t, t->slices.args[slice], key, false, &v));
  const struct tg__str s = tg__name(t, v.str);
  assert_int_equal(s.len, strlen(text));
  assert_memory_equal(s.ptr, text, s.len);
}

/* ---- what is recorded ------------------------------------------------------------------------ */

/* One operator around two launches; times as in the script. */
static void test_everything(void **state) {
  char script[2048];
  const int thread = (int)syscall(SYS_gettid);
  start();
  tg_range_begin("forward");
  usleep(30000); /* two readings of the clock this far apart say its rate */
  snprintf(script, sizeof script,
           "runtime -2000000 -1900000 211 %d 501\n"
           "kernel -1500000 -1000000 0 1 7 501 0 0 80 2 1 256 1 1 32 1000 24 _Z4gemmPf\n"
           "memcpy -900000 -800000 0 1 8 502 4096 1 2 3\n"
           "memset -700000 -690000 0 1 8 503 1024 3\n"
           "peer -600000 -500000 0 1 9 504 8192 0 1\n"
           "event 1 7 33 501\n"
           "sync -400000 -300000 1 1 4294967295 33 505\n"
           "runtime -450000 -290000 131 %d 505\n"
           "runtime -250000 -240000 17 %d 506 # noise\n"
           "overhead -200000 -100000 65536 %d\n",
           thread, thread, thread, thread);
  play(script);
  tg_range_end();
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.lost, 0);
  assert_int_equal(stats.missing, 0);
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t kernel, launch, copy, fill, peer, wait, range;
  assert_int_equal(recording_count(t, "gemm(float*)", &kernel) + recording_count(t, "_Z4gemmPf", &kernel), 1);
  if (kernel == TG_NONE) recording_count(t, "gemm(float*)", &kernel);
  assert_int_equal(recording_count(t, "cudaLaunchKernel", &launch), 1);
  assert_int_equal(recording_count(t, "Memcpy HtoD (Pinned -> Device)", &copy), 1);
  assert_int_equal(recording_count(t, "Memset (Device)", &fill), 1);
  assert_int_equal(recording_count(t, "Memcpy PtoP (Device -> Device)", &peer), 1);
  assert_int_equal(recording_count(t, "Event Sync", &wait), 1);
  assert_int_equal(recording_count(t, "cudaGetDevice", NULL), 0);
  assert_int_equal(recording_count(t, "Buffer Flush", NULL), 1);
  assert_int_equal(recording_count(t, "forward", NULL), 2);
  range = find_slice(t, "forward", TG__CLASS_ANNOTATION, thread);
  assert_int_equal(t->slices.cause[kernel], launch);
  assert_int_equal(t->slices.cause[wait], launch); /* that recorded the event */
  assert_int_equal(tg__slice_class(t, kernel), TG__CLASS_KERNEL);
  assert_int_equal(track_of(t, kernel)->pid, 0);
  assert_int_equal(track_of(t, kernel)->tid, 7);
  assert_int_equal(track_of(t, copy)->tid, 8);
  assert_int_equal(track_of(t, wait)->tid, -1);
  assert_int_equal(track_of(t, launch)->tid, thread);
  assert_ptr_equal(track_of(t, launch), track_of(t, range));
  assert_int_equal(t->slices.parent[launch], range);
  assert_in_range(t->slices.dur_ns[kernel], 499500, 500500);
  assert_in_range(t->slices.start_ns[kernel] - t->slices.start_ns[launch], 499500, 500500);
  assert_int_equal(arg_of(t, kernel, TG__K_REGISTERS), 32);
  assert_int_equal(arg_of(t, kernel, TG__K_SHARED_MEMORY), 1024);
  assert_raw(t, kernel, TG__K_GRID, "[80, 2, 1]");
  assert_raw(t, kernel, TG__K_BLOCK, "[256, 1, 1]");
  assert_true(fabs(tg__arg_real(t, t->slices.args[kernel], TG__K_BLOCKS_PER_SM, 0) - 160.0 / 132) < 1e-6);
  /* 160 blocks of 256 threads on 132 multiprocessors of 2048: 15.15 % */
  assert_int_equal(arg_of(t, kernel, TG__K_OCCUPANCY), 15);
  assert_int_equal(arg_of(t, copy, TG__K_BYTES), 4096);
  assert_int_equal(arg_of(t, fill, TG__K_BYTES), 1024);
  assert_int_equal(arg_of(t, peer, TG__K_TO_DEVICE), 1);
  assert_int_equal(arg_of(t, wait, TG__K_WAIT_ON_RECORD), 501);
  assert_int_equal(arg_of(t, wait, TG__K_WAIT_ON_STREAM), 7);
  assert_int_equal(arg_of(t, launch, TG__K_CBID), 211);
  assert_int_equal(t->ranks[0].device_count, 1);
  assert_int_equal(t->ranks[0].devices[0].sm_count, 132);
  tg__trace_free(t);
}

static void test_off_is_off(void **state) {
  const uint64_t finalized = fake_number("finalized");
  start();
  assert_true(fake_number("enabled") > 5);
  assert_int_equal(fake_number("subscribed"), 1);
  assert_false(tg__source_cuda.is_off());
  play("kernels 1000 2000 1000 2");
  recording_close();
  assert_true(tg__source_cuda.is_off());
  assert_int_equal(fake_number("finalized"), finalized + 1); /* nothing of CUPTI stays in the driver */
  assert_int_equal(fake_number("enabled"), 0);
  assert_int_equal(fake_number("subscribed"), 0);
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.kernels, 1000);
  assert_int_equal(stats.calls, 1000);
  assert_int_equal(stats.callbacks, 0); /* none a launch */
  assert_int_equal(stats.buffer_bytes, 0);
  assert_true(strstr(stats.path, "fake") != NULL);
}

/* Not asked for: nothing is loaded, called or allocated. */
static void test_unused(void **state) {
  const uint64_t requests = fake_number("requested"), flushes = fake_number("flushed");
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_LEAN});
  recording_make("range", 10);
  recording_close();
  assert_int_equal(fake_number("requested"), requests);
  assert_int_equal(fake_number("flushed"), flushes);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

static void test_losses(void **state) {
  start();
  play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 one\n"
       "unknown 51 48\n"                                         /* a kind that is not read */
       "unknown 62 16\n"                                         /* one that is unknown */
       "kernel 0 0 0 1 7 2 0 0 1 1 1 32 1 1 8 0 0 without_end\n" /* never ended */
       "kernel 3000 2000 0 1 7 3 0 0 1 1 1 32 1 1 8 0 0 reversed\n"
       "drop 7\n"
       "flush\n"
       "grow 10 4\n" /* records of a size that no version has: what lies between two of them does not fit */
       "kernel 4000 5000 0 1 7 4 0 0 1 1 1 32 1 1 8 0 0 grown\n"
       "kernel 6000 7000 0 1 7 5 0 0 1 1 1 32 1 1 8 0 0 grown\n"
       "memset 8000 9000 0 1 7 6 16 3\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "one", NULL), 1);
  assert_int_equal(recording_count(t, "Memset (Device)", NULL), 1);
  assert_int_equal(recording_count(t, "grown", NULL), 0);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_lost), 7);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 6);
  tg__trace_free(t);
}

/* More than the pool holds: every record is in the file, or counted. Returns how many were lost. */
static uint64_t check_flood(uint64_t made) {
  struct tg_record_cuda_stats cuda;
  recording_close();
  tg_record_cuda(&cuda);
  struct tg__columns *const t = recording_read(recording_path);
  const uint64_t lost = (uint64_t)lost_in(t, TG__LOSS_skipped_device_lost);
  assert_int_equal(cuda.kernels + cuda.calls + lost, made);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 0);
  tg__trace_free(t);
  return lost;
}

/* With a helper that keeps up or not, as the machine has it. The record of the context, which no figure counts, is
 * taken before. */
static void test_flood(void **state) {
  start();
  play("flush");
  tg__ticks_hold();
  tg__sources_serve();
  tg__ticks_release();
  play("kernels 200000 100 50 4");
  check_flood(400000);
}

/* With a helper that comes late: the context's record is lost with the first buffer. */
static void test_flood_before_the_helper_comes(void **state) {
  start();
  tg__ticks_hold();
  play("kernels 200000 100 50 4");
  tg__ticks_release();
  assert_true(check_flood(400001) > 100000);
}

/* Records that come when the recording is over are in no file, and harm nothing. */
static void test_late(void **state) {
  struct tg_record_cuda_stats before, after;
  tg_record_cuda(&before);
  start();
  play("hold\nkernels 10 1000 500 1");
  recording_close();
  play("release");
  tg_record_cuda(&after);
  assert_int_equal(after.late - before.late, 21); /* and the context */
  start();
  play("kernels 5 1000 500 1");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "cudaLaunchKernel", NULL), 5);
  tg__trace_free(t);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* How far the kernel lies from the range that was on at its time, which is timed by our own clock. */
static void assert_times(const char *name, int64_t allowed_ns) {
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t kernel, range;
  assert_int_equal(recording_count(t, name, &kernel), 1);
  assert_int_equal(recording_count(t, "range", &range), 1);
  assert_in_range(t->slices.dur_ns[kernel], 1000000 - allowed_ns / 10, 1000000 + allowed_ns / 10);
  assert_true(t->slices.start_ns[kernel] + allowed_ns >= t->slices.start_ns[range]);
  assert_true(tg__slice_end(t, kernel) <= tg__slice_end(t, range) + allowed_ns);
  tg__trace_free(t);
}

static void play_timed(const char *before) {
  start();
  usleep(250000); /* some readings */
  if (*before) play(before);
  tg_range_begin("range");
  usleep(1200);
  play("kernel -1000000 0 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 timed\nflush");
  tg_range_end();
  recording_close();
}

static void test_our_clock(void **state) {
  play_timed("");
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_true(stats.has_our_clock);
  assert_times("timed", 200000);
}

/* A version that stamps a record by its own clock although it has ours. */
static void test_strange_clock(void **state) {
  play_timed("strange_clock 2");
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.converted_times, 2);
  assert_times("timed", 200000);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static struct tg__str text_arg(const struct tg__columns *t, uint32_t slice, uint32_t key) {
  return tg__name(t, tg__arg_str(t, t->slices.args[slice], key));
}

/* Node 11 is captured inside an operator, 12 outside of all; 21 and 31 are clones, 31 of a clone; 40 was captured
 * before the recording; 50 is an empty node; a clone of itself ends nowhere. */
static void test_nodes_of_graphs(void **state) {
  start();
  struct tg__thread *const thread = tg__thread();
  struct tg__open *const op = tg__open_push(thread, &op_key);
  assert_non_null(op);
  *op = (struct tg__open){.key = &op_key,
                          .start_ticks = tg__ticks(),
                          .name = tg__name_intern(thread, "aten::mm"),
                          .stack = tg__dictionary_intern(thread, TG_RAW_D_STACK, 0, "net.py(3): forward", 18)};
  play("capture 11 0\ncapture 50 5");
  tg__record_put(thread, tg__open_pop(thread, &op_key), tg__ticks(), 0);
  play("capture 12 0\nclone 21 11 0\nclone 31 21 0\nclone 60 60 0\n"
       "kernel -9000 -8000 0 1 7 1 2 21 1 1 1 32 1 1 8 0 0 first\n"
       "kernel -7000 -6000 0 1 7 1 3 31 1 1 1 32 1 1 8 0 0 second\n"
       "kernel -5000 -4000 0 1 7 1 3 12 1 1 1 32 1 1 8 0 0 outside\n"
       "kernel -3000 -2000 0 1 7 1 4 40 1 1 1 32 1 1 8 0 0 before\n"
       "kernel -1000 -500 0 1 7 1 4 60 1 1 1 32 1 1 8 0 0 circle\nflush");
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.graph_nodes, 4); /* nothing is known of what ran around 12, and 50 does nothing */
  assert_int_equal(stats.callbacks, 0);
  assert_int_equal(fake_number("called"), 3); /* two of graphs, one of contexts */
  recording_close();
  assert_int_equal(fake_number("called"), 0);
  struct tg__columns *const t = recording_read(recording_path);
  static const char *const known[] = {"first", "second"}, *const unknown[] = {"outside", "before", "circle"};
  for (int i = 0; i < 2; i++) {
    const uint32_t k = find_slice(t, known[i], TG__CLASS_KERNEL, 7);
    assert_true(tg__str_eq(text_arg(t, k, TG__K_CAPTURED_OP), TG_STR("aten::mm")));
    assert_true(tg__str_eq(text_arg(t, k, TG__K_CAPTURED_STACK), TG_STR("net.py(3): forward")));
  }
  for (int i = 0; i < 3; i++) {
    const uint32_t k = find_slice(t, unknown[i], TG__CLASS_KERNEL, 7);
    assert_int_equal(tg__arg_str(t, t->slices.args[k], TG__K_CAPTURED_OP), TG_NONE);
  }
  tg__trace_free(t);
}

/* Torch's collector has CUPTI's one subscriber: kernels are recorded, and nothing is known of their nodes. */
static void test_nodes_without_a_subscriber(void **state) {
  play("busy 39");
  start();
  play("capture 11 0\nclone 21 11 0\nkernel -9000 -8000 0 1 7 1 2 21 1 1 1 32 1 1 8 0 0 first\nflush");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t k = find_slice(t, "first", TG__CLASS_KERNEL, 7);
  assert_int_equal(arg_of(t, k, TG__K_GRAPH_NODE_ID), 21);
  assert_int_equal(tg__arg_str(t, t->slices.args[k], TG__K_CAPTURED_OP), TG_NONE);
  tg__trace_free(t);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *script, const char *words) {
  struct tg_error e = {0};
  const struct tg_record_options options = {.path = recording_path,
                                            .rank = -1,
                                            .features = TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS,
                                            .required = TG_RECORD_CUDA};
  play(script);
  assert_int_equal(tg_record_open(&options, &e), TG_UNSUPPORTED);
  if (!strstr(e.text, words)) fail_msg("\"%s\" does not say \"%s\"", e.text, words);
  assert_true(tg__source_cuda.is_off());
  assert_int_equal(fake_number("enabled"), 0);
  assert_int_equal(fake_number("subscribed"), 0);
  fake_reset();
}

/* Before any of the other tests: once proven, the source believes itself. */
static void test_proof(void **state) {
  refused("driver 100\ndevices 0", "shows no device");
  refused("driver 3", "forked");
  setenv("CUDA_INJECTION64_PATH", "/opt/profiler/inject.so", 1);
  refused("busy 39", "another profiler holds CUPTI in this process (CUDA_INJECTION64_PATH=/opt/profiler/inject.so)");
  unsetenv("CUDA_INJECTION64_PATH");
  refused("busy 36", "subscribing");
  refused("refuse 10 35", "NVreg_RestrictProfilingToAdminUsers=0");
  refused("refuse 10 43", "virtual or partitioned devices");
  refused("refuse 1 41", "confidential-computing mode");
  refused("refuse 5 15", "does not fit the driver");
  refused("spoil kernel", "a kernel that was launched has no record");
  refused("spoil grid", "another grid");
  refused("spoil copy", "a copy to the device has no record");
  refused("spoil direction", "names another direction");
  refused("spoil fill", "memory that was set on the device has no record");
  refused("spoil wait", "a wait for the device has no record");
  refused("spoil thread", "names another thread");
  refused("spoil correlation", "no record with its correlation");
  refused("spoil time", "times outside");
  fake_reset();
  refused("broken 709", "no context can be made on the first device (CUDA error 709)");
}

/* Flushing at the stop costs CUPTI time that the program does not pay; waits come only where they are wanted. */
static void test_of_the_program_alone(void **state) {
  char script[256];
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_CUDA});
  snprintf(script, sizeof script, "overhead -200000 -100000 65536 %d\noverhead 5000000000 5000100000 65536 %d",
           (int)gettid(), (int)gettid());
  play(script);
  play("sync -400000 -300000 3 1 7 0 505");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "Buffer Flush", NULL), 1);
  assert_int_equal(recording_count(t, "Stream Sync", NULL), 0);
  tg__trace_free(t);
}

/* Torch's collector keeps the subscriber it once had: records need none. */
static void test_kept_subscriber(void **state) {
  const uint64_t finalized = fake_number("finalized");
  play("busy 39");
  start();
  assert_int_equal(fake_number("subscribed"), 0);
  play("kernels 1000 2000 1000 2");
  recording_close();
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.kernels, 1000);
  assert_false(stats.has_subscriber);
  assert_false(stats.was_taken);
  assert_true(tg__source_cuda.is_off());
  assert_int_equal(fake_number("finalized"), finalized); /* torch's collector needs it */
}

/* A tool that registers buffers after us gets those that CUPTI has of ours: they do not come back. */
static void test_taken_over(void **state) {
  start();
  play("kernels 10 2000 1000 2\ntakeover");
  recording_close();
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_true(stats.was_taken);
}

/* Another profiler subscribes between the proof and the start: the recording goes on without the device. */
static void test_busy_at_start(void **state) {
  struct tg_error e;
  const struct tg_record_options options = {
      .path = recording_path, .rank = -1, .features = TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS};
  assert_int_equal(tg_record_open(&options, &e), TG_OK);
  play("busy 39");
  setenv("CUDA_INJECTION64_PATH", "/opt/profiler/inject.so", 1);
  assert_int_equal(tg_record_resume(&e), TG_OK);
  unsetenv("CUDA_INJECTION64_PATH");
  recording_make("range", 3);
  const struct tg_record_stats stats = recording_close();
  assert_non_null(strstr(stats.why, "another profiler holds CUPTI"));
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  tg__trace_free(t);
}

/* ---- devices as a whole ---------------------------------------------------------------------- */

/* Two devices, which the bus has the other way round. */
static void test_counters(void **state) {
  play("devices 2");
  start();
  recording_make("range", 1);
  struct tg_record_stats stats = {0};
  for (int i = 0; i < 60000 && stats.records < 2; i++) { /* samples come with a tick of the helper thread */
    usleep(1000);
    tg_record_state(&stats);
  }
  usleep(250000);
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(counter_of(t, "GPU 0 utilisation %"), 83);
  assert_int_equal(counter_of(t, "GPU 0 memory used bytes"), 1 << 30);
  assert_int_equal(counter_of(t, "GPU 0 power mW"), 7000);
  assert_int_equal(counter_of(t, "GPU 1 power mW"), 6000);
  assert_int_equal(counter_of(t, "GPU 1 memory clock MHz"), 2619);
  assert_int_equal(counter_of(t, "GPU 0 throttle reasons"), -2); /* not supported there */
  tg__trace_free(t);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void test_graph(void **state) {
  char script[512];
  snprintf(script, sizeof script,
           "runtime 0 1000 311 %d 900\n"
           "kernel 2000 3000 0 1 7 900 5 21474836481 1 1 1 32 1 1 8 0 0 first\n"
           "kernel 3000 4000 0 1 7 900 5 21474836482 1 1 1 32 1 1 8 0 0 second\n",
           (int)syscall(SYS_gettid));
  start();
  play(script);
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t first, second, launch;
  assert_int_equal(recording_count(t, "first", &first), 1);
  assert_int_equal(recording_count(t, "second", &second), 1);
  assert_int_equal(recording_count(t, "cudaGraphLaunch", &launch), 1);
  assert_int_equal(t->slices.cause[first], launch);
  assert_int_equal(t->slices.cause[second], launch);
  assert_int_equal(arg_of(t, first, TG__K_GRAPH_ID), 5);
  assert_int_equal(arg_of(t, second, TG__K_GRAPH_NODE_ID), 21474836482);
  tg__trace_free(t);
}

/* From the start of one to the end of the other, and 1 ns around, as Kineto has it. */
static void assert_around(const struct tg__columns *t, uint32_t label, const char *first, const char *last) {
  uint32_t a, b;
  assert_int_equal(recording_count(t, first, &a), 1);
  assert_int_equal(recording_count(t, last, &b), 1);
  assert_int_equal(t->slices.start_ns[label], t->slices.start_ns[a] - 1);
  assert_int_equal(t->slices.start_ns[label] + t->slices.dur_ns[label],
                   t->slices.start_ns[b] + t->slices.dur_ns[b] + 1);
}

/* A label stands on each stream that it launched work on, around that work only: not around what an inner label
 * launched, nor what another thread did meanwhile. */
static void test_labels(void **state) {
  char script[2048];
  const int thread = (int)syscall(SYS_gettid);
  start();
  tg_step_begin("ProfilerStep#3");
  usleep(30000);
  tg_range_begin("forward");
  usleep(10000);
  snprintf(script, sizeof script,
           "runtime -5000000 -4900000 211 %d 601\nruntime -4800000 -4700000 211 %d 602\n"
           "runtime -4600000 -4500000 211 %d 603\nruntime -4600000 -4500000 211 %d 604\n"
           "kernel -1500000 -1000000 0 1 7 602 0 0 1 1 1 32 1 1 8 0 0 later\n"
           "kernel -3000000 -2000000 0 1 7 601 0 0 1 1 1 32 1 1 8 0 0 sooner\n"
           "memset -900000 -800000 0 1 8 603 16 3\n"
           "kernel -700000 -600000 0 1 9 604 0 0 1 1 1 32 1 1 8 0 0 of_another\n",
           thread, thread, thread, thread + 1);
  play(script);
  tg_range_end();
  usleep(10000);
  snprintf(script, sizeof script,
           "runtime -5000000 -4900000 211 %d 605\n"
           "kernel -3000000 -2000000 0 1 7 605 0 0 1 1 1 32 1 1 8 0 0 of_step\n",
           thread);
  play(script);
  tg_step_end();
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_around(t, find_slice(t, "forward", TG__CLASS_GPU_ANNOTATION, 7), "sooner", "later");
  assert_around(t, find_slice(t, "forward", TG__CLASS_GPU_ANNOTATION, 8), "Memset (Device)", "Memset (Device)");
  assert_around(t, find_slice(t, "ProfilerStep#3", TG__CLASS_GPU_ANNOTATION, 7), "of_step", "of_step");
  int labels = 0;
  for (uint32_t i = 0; i < t->slices.count; i++) labels += tg__slice_class(t, i) == TG__CLASS_GPU_ANNOTATION;
  assert_int_equal(labels, 3);
  tg__trace_free(t);
}

/* CUDA 13: longer records, the same fields. */
static void test_version_13(void **state) {
  play("version 130500");
  start();
  play("kernel 1000 2000 0 1 7 1 0 0 3 1 1 32 1 1 8 0 0 longer\nmemcpy 3000 4000 0 1 7 2 64 2 3 1\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "longer", NULL), 1);
  assert_int_equal(recording_count(t, "Memcpy DtoH (Device -> Pageable)", NULL), 1);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 0);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_proof, reset),
      cmocka_unit_test_setup(test_everything, reset),
      cmocka_unit_test_setup(test_labels, reset),
      cmocka_unit_test_setup(test_nodes_of_graphs, reset),
      cmocka_unit_test_setup(test_nodes_without_a_subscriber, reset),
      cmocka_unit_test_setup(test_of_the_program_alone, reset),
      cmocka_unit_test_setup(test_kept_subscriber, reset),
      cmocka_unit_test_setup(test_off_is_off, reset),
      cmocka_unit_test_setup(test_unused, reset),
      cmocka_unit_test_setup(test_losses, reset),
      cmocka_unit_test_setup(test_flood, reset),
      cmocka_unit_test_setup(test_flood_before_the_helper_comes, reset),
      cmocka_unit_test_setup(test_late, reset),
      cmocka_unit_test_setup(test_our_clock, reset),
      cmocka_unit_test_setup(test_strange_clock, reset),
      cmocka_unit_test_setup(test_busy_at_start, reset),
      cmocka_unit_test_setup(test_counters, reset),
      cmocka_unit_test_setup(test_graph, reset),
      cmocka_unit_test_setup(test_version_13, reset),
      cmocka_unit_test_setup(test_taken_over, reset), /* one buffer does not come back */
  };
  return cmocka_run_group_tests_name("CUDA", tests, load_fakes, recording_teardown);
}
