/* Several devices, contexts that come and go, a device that is reset, a fork: each is recorded as it was or refused in
 * a sentence, and the host is recorded in any case. With libraries that play scripts (tests/fake). */
#include "unit/cuda_fakes.h"

static void assert_on(const struct tg__columns *t, const char *name, int64_t device, int64_t context, int64_t stream) {
  uint32_t slice;
  assert_int_equal(recording_count(t, name, &slice), 1);
  assert_int_equal(arg_of(t, slice, TG__K_DEVICE), device);
  assert_int_equal(arg_of(t, slice, TG__K_CONTEXT), context);
  assert_int_equal(arg_of(t, slice, TG__K_STREAM), stream);
}

static void assert_device(const struct tg__columns *t, int64_t id, const char *name, int64_t processors) {
  const struct tg__device *const d = &t->ranks[0].devices[id];
  assert_int_equal(d->id, id);
  assert_true(recording_name_is(t, d->name, name));
  assert_int_equal(d->sm_count, processors);
}

/* Two devices and a third that the driver does not list, all with a stream 7: a track for each. The names are those of
 * a device and of a part of one (MIG). */
static void test_devices(void **state) {
  play("device 0 132 64 32 233472 9 NVIDIA H100 80GB HBM3\n"
       "device 1 16 64 32 233472 9 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n");
  start();
  play("context 1 0\ncontext 2 1\n"
       "kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 of_first\n"
       "kernel 1000 2000 1 2 7 2 0 0 1 1 1 32 1 1 8 0 0 of_second\n"
       "kernel 1000 2000 6 9 7 3 0 0 1 1 1 32 1 1 8 0 0 of_unknown\n"
       "sync 3000 4000 3 2 7 0 4\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_on(t, "of_first", 0, 1, 7);
  assert_on(t, "of_second", 1, 2, 7);
  assert_on(t, "of_unknown", 6, 9, 7);
  assert_on(t, "Stream Sync", 1, 2, 7); /* by its context */
  uint32_t first, second, unknown;
  recording_count(t, "of_first", &first);
  recording_count(t, "of_second", &second);
  recording_count(t, "of_unknown", &unknown);
  assert_ptr_not_equal(track_of(t, first), track_of(t, second));
  assert_ptr_not_equal(track_of(t, second), track_of(t, unknown));
  assert_int_equal(t->ranks[0].device_count, 2);
  assert_device(t, 0, "NVIDIA H100 80GB HBM3", 132);
  assert_device(t, 1, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 0);
  tg__trace_free(t);
}

/* A context is destroyed and another one made: its number may return on another device. */
static void test_contexts(void **state) {
  start();
  play("context 3 0\nsync 1000 2000 4 3 7 0 1\nflush\n"
       "context 3 1\nkernel 2500 2600 1 3 8 2 0 0 1 1 1 32 1 1 8 0 0 of_new\nsync 3000 4000 3 3 8 0 3\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_on(t, "Context Sync", 0, 3, 7);
  assert_on(t, "of_new", 1, 3, 8);
  assert_on(t, "Stream Sync", 1, 3, 8);
  tg__trace_free(t);
}

/* The device is reset: CUPTI keeps the buffer it has. Earlier records are in the file, the host is complete, and the
 * next recording works. */
static void test_reset(void **state) {
  start();
  play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 before\nflush\n"
       "kernel 3000 4000 0 1 7 2 0 0 1 1 1 32 1 1 8 0 0 behind\nbroken 709\n");
  recording_make("range", 3);
  recording_close();
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_true(stats.was_reset);
  assert_false(stats.was_taken);
  assert_true(tg__source_cuda.is_off());
  struct tg__columns *t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "before", NULL), 1);
  assert_int_equal(recording_count(t, "behind", NULL), 0);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  tg__trace_free(t);
  play("broken 0\nrelease");
  start();
  play("kernel 1000 2000 0 1 7 1 0 0 1 1 1 32 1 1 8 0 0 again\n");
  recording_close();
  t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "again", NULL), 1);
  tg__trace_free(t);
}

/* CUDA cannot be used behind a fork: said once, and the host is recorded. */
static void record_in_child(void) {
  struct tg_error e = {0};
  struct tg_record_options options = {
      .path = recording_path, .rank = -1, .features = TG_RECORD_PROCESS | TG_RECORD_CUDA, .required = TG_RECORD_CUDA};
  if (tg_record_open(&options, &e) != TG_UNSUPPORTED || !strstr(e.text, "start it with the method spawn")) _exit(1);
  options.required = 0;
  if (tg_record_open(&options, &e) || tg_record_resume(&e)) _exit(2);
  recording_make("range", 3);
  struct tg_record_stats stats;
  if (tg_record_close(&stats, &e)) _exit(3);
  _exit(strstr(stats.why, "start it with the method spawn") && stats.missing & TG_RECORD_CUDA ? 0 : 4);
}

static void test_forked(void **state) {
  int status;
  start();
  recording_close();
  const pid_t child = fork();
  if (child == 0) record_in_child();
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "range", NULL), 3);
  tg__trace_free(t);
}

/* The first that is loaded is too old; the driver may be updated while the program runs. */
static void test_old_library(void **state) {
  struct tg_error e = {0};
  const struct tg_record_options options = {
      .path = recording_path, .rank = -1, .features = TG_RECORD_CUDA, .required = TG_RECORD_CUDA};
  play("version 17");
  assert_int_equal(tg_record_open(&options, &e), TG_UNSUPPORTED);
  assert_non_null(strstr(e.text, "is version 17 of CUPTI's interface; CUDA 12 has 18"));
  play("version 28");
  start();
  recording_close();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_old_library, reset), cmocka_unit_test_setup(test_devices, reset),
      cmocka_unit_test_setup(test_contexts, reset),    cmocka_unit_test_setup(test_reset, reset),
      cmocka_unit_test_setup(test_forked, reset),
  };
  return cmocka_run_group_tests_name("CUDA devices", tests, load_fakes, recording_teardown);
}
