/* Where CUDA cannot be recorded, or goes away meanwhile: one sentence, and the host is recorded. With libraries that
 * play scripts (tests/fake). */
#include "unit/cuda_fakes.h"

/* ---- refused at the start -------------------------------------------------------------------- */

/* `why` is one sentence with the words; the host's three ranges are in the file. */
static void assert_host_alone(const struct tg_record_stats *stats, const char *words) {
  if (!strstr(stats->why, words)) fail_msg("\"%s\" does not say \"%s\"", stats->why, words);
  assert_memory_equal(stats->why, "CUDA: ", 6);
  assert_null(strchr(stats->why, '\n'));
  assert_int_equal(stats->missing & TG_RECORD_CUDA, TG_RECORD_CUDA);
  assert_int_equal(stats->lost, 0);
  assert_true(tg__source_cuda.is_off());
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  assert_int_equal(t->ranks[0].device_count, 0);
  assert_int_equal(t->ranks[0].processes[0].features & TG_RECORD_CUDA, 0);
  tg__trace_free(t);
}

static void record_host_alone(const char *words) {
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_PROCESS | TG_RECORD_CUDA});
  recording_make("range", 3);
  const struct tg_record_stats stats = recording_close();
  assert_host_alone(&stats, words);
}

static void test_no_driver(void **state) {
  if (dlopen("libcuda.so.1", RTLD_LAZY)) skip(); /* this machine has one */
  record_host_alone("this machine has no NVIDIA driver (libcuda.so.1 was not found)");
}

/* In a process of its own: a library that was loaded stays. */
static void test_driver_of_long_ago(void **state) {
  const pid_t child = fork();
  if (child == 0) {
    struct tg_error e;
    const struct tg_record_options options = {.path = recording_path, .rank = -1, .features = TG_RECORD_CUDA};
    struct tg_record_stats stats;
    const bool is_recorded =
        dlopen(TG_FAKE_DIR "/old/libcuda.so.1", RTLD_NOW) && !tg_record_open(&options, &e) && !tg_record_resume(&e);
    recording_make("range", 3);
    _exit(is_recorded && !tg_record_close(&stats, &e) &&
                  strstr(stats.why, "CUDA: the driver has no cuInit: install a newer one")
              ? 0
              : 1);
  }
  assert_exits_with_zero(child);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  tg__trace_free(t);
}

static const struct {
  const char *script, *words;
} refusals[] = {
    {"driver 100\ndevices 0", "the driver shows no device (cuInit says 100, no device)"},
    {"devices 0", "see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {"driver 3", "start it with the method spawn"},
    {"driver 34", "libcuda.so.1 is the toolkit's stub"},
    {"driver 802", "start nvidia-fabricmanager"},
    {"driver 803", "have different versions: restart the machine"},
    {"driver 804", "install a newer driver"},
    {"version 17", "is version 17 of CUPTI's interface; CUDA 12 has 18"},
    {"busy 15", "a driver older than libcupti"},
    {"refuse 10 14", "a driver older than libcupti"},
    {"refuse 10 35", "NVreg_RestrictProfilingToAdminUsers=0"},
    {"refuse 1 40", "NVreg_RestrictProfilingToAdminUsers=0"},
    {"busy 43", "does not let virtual or partitioned devices be profiled"},
    {"refuse 10 33", "does not let virtual or partitioned devices be profiled"},
    {"refuse 10 41", "confidential-computing mode"},
    {"broken 709", "no context can be made on the first device (CUDA error 709)"},
};

/* Once the source is proven the same may come up at a later start: so each is tried before and behind the proof. The
 * driver's first answer stays. */
static void refuse_each(bool is_of_start) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const bool is_seen_later =
        strncmp(refusals[i].script, "busy", 4) == 0 || strncmp(refusals[i].script, "refuse", 6) == 0;
    if (is_of_start && !is_seen_later) continue;
    play(refusals[i].script);
    record_host_alone(refusals[i].words);
    assert_int_equal(fake_number("enabled"), 0);
    assert_int_equal(fake_number("subscribed"), 0);
    fake_reset();
  }
}

static void test_refused_at_the_proof(void **state) { refuse_each(false); }

static void test_another_subscriber(void **state) {
  play("busy 39");
  setenv("CUDA_INJECTION64_PATH", "/opt/profiler/inject.so", 1);
  record_host_alone("another profiler holds CUPTI in this process (CUDA_INJECTION64_PATH=/opt/profiler/inject.so)");
  unsetenv("CUDA_INJECTION64_PATH");
  assert_int_equal(fake_number("enabled"), 0);
}

static void test_refused_at_a_start(void **state) {
  start();
  recording_close();
  refuse_each(true);
}

/* What was recorded before a pause stays in the file, which says that it could have device work. */
static void test_refused_at_a_second_start(void **state) {
  struct tg_error e;
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_CUDA});
  play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 before\nflush");
  assert_int_equal(tg_record_pause(&e), TG_OK);
  play("refuse 10 35");
  assert_int_equal(tg_record_resume(&e), TG_OK);
  recording_make("range", 3);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.missing, TG_RECORD_CUDA);
  assert_non_null(strstr(stats.why, "NVreg_RestrictProfilingToAdminUsers=0"));
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "before", NULL), 1);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  assert_int_equal(t->ranks[0].processes[0].features & TG_RECORD_CUDA, TG_RECORD_CUDA);
  tg__trace_free(t);
}

/* Kinds without which the rest is recorded, by name; a later recording that gets them says nothing. */
static void test_kinds_that_are_refused(void **state) {
  struct tg_record_cuda_stats stats;
  const uint32_t features = TG_RECORD_CUDA | TG_RECORD_CUDA_MEMORY;
  for (int i = 0; i < 2; i++) {
    play(i ? "refuse 49 0\nrefuse 50 0\nrefuse 17 0" : "refuse 49 12\nrefuse 50 12\nrefuse 17 12");
    recording_start((struct tg_record_options){.rank = -1, .features = features});
    play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 before");
    assert_int_equal(recording_close().missing, 0);
    tg_record_cuda(&stats);
    assert_string_equal(stats.refused, i ? "" : "OVERHEAD MEMORY2 MEMORY_POOL");
    struct tg__columns *const t = recording_read(recording_path);
    assert_int_equal(recording_count(t, "before", NULL), 1);
    tg__trace_free(t);
  }
}

/* ---- gone meanwhile -------------------------------------------------------------------------- */

enum end { COMPLETE, TAKEN, RESET };

/* A kernel before, which is in the file in any case, and what the script does to those behind it. */
static void assert_end(const char *script, enum end end, size_t behind) {
  struct tg_record_cuda_stats stats;
  start();
  play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 before\nflush\n"
       "kernel 3000 4000 0 1 7 2 0 0 1 1 1 32 1 1 8 0 0 behind\n");
  play(script);
  recording_make("range", 3);
  recording_close();
  tg_record_cuda(&stats);
  assert_int_equal(stats.was_taken, end == TAKEN);
  assert_int_equal(stats.was_reset, end == RESET);
  assert_true(tg__source_cuda.is_off());
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "before", NULL), 1);
  assert_int_equal(recording_count(t, "behind", NULL), behind);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  tg__trace_free(t);
}

/* Each loses its last buffer, and the recording behind it is whole: a buffer that was lost once is not lost again. */
static void test_taken_or_reset(void **state) {
  static const struct {
    const char *script;
    enum end end;
  } ends[] = {{"takeover", TAKEN}, {"destroy 1\nhold", RESET}, {"broken 700", RESET}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    assert_end(ends[i].script, ends[i].end, 0);
    play("broken 0\nrelease");
    assert_end("", COMPLETE, 1);
  }
}

/* A context that ends and returns its buffer has lost nothing. */
static void test_destroyed(void **state) {
  assert_end("destroy 1\nflush\ncontext 2 0\nkernel 5000 6000 0 2 7 3 0 0 1 1 1 32 1 1 8 0 0 of_next", COMPLETE, 1);
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t slice;
  assert_int_equal(recording_count(t, "of_next", &slice), 1);
  assert_int_equal(arg_of(t, slice, TG__K_CONTEXT), 2);
  tg__trace_free(t);
  assert_int_equal(fake_number("called"), 0); /* no callback is called any more */
}

int main(void) {
  const struct CMUnitTest without[] = {cmocka_unit_test(test_no_driver), cmocka_unit_test(test_driver_of_long_ago)};
  const struct CMUnitTest with[] = {
      cmocka_unit_test_setup(test_refused_at_the_proof, reset),
      cmocka_unit_test_setup(test_another_subscriber, reset),
      cmocka_unit_test_setup(test_kinds_that_are_refused, reset),
      cmocka_unit_test_setup(test_refused_at_a_start, reset),
      cmocka_unit_test_setup(test_refused_at_a_second_start, reset),
      cmocka_unit_test_setup(test_taken_or_reset, reset),
      cmocka_unit_test_setup(test_destroyed, reset),
  };
  const int failed = cmocka_run_group_tests_name("without libraries", without, recording_setup, recording_teardown);
  return failed + cmocka_run_group_tests_name("CUDA faults", with, load_fakes, recording_teardown);
}
