/* Memory that CUDA itself allocates and releases, and its pools: each record of CUPTI is a moment of the device with
 * what it says, and none of them is one of the allocator's. With libraries that play scripts (tests/fake). */
#include "unit/cuda_fakes.h"

enum { MOST = 16 };

static void start_with_memory(void) {
  recording_start((struct tg_record_options){
      .rank = -1, .features = TG_RECORD_CUDA | TG_RECORD_CUDA_MEMORY, .required = TG_RECORD_CUDA});
}

/* The marks of that name, in their order. */
static uint32_t find_marks(const struct tg__columns *t, const char *name, uint32_t marks[MOST]) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (n < MOST && recording_name_is(t, t->marks.name[i], name)) marks[n++] = i;
  return n;
}

static uint32_t find_mark(const struct tg__columns *t, const char *name) {
  uint32_t marks[MOST];
  assert_int_equal(find_marks(t, name, marks), 1);
  return marks[0];
}

static int64_t arg_of_mark(const struct tg__columns *t, uint32_t mark, uint32_t key) {
  return tg__arg_int(t, t->marks.args[mark], key, -999);
}

static void assert_text(const struct tg__columns *t, uint32_t mark, uint32_t key, const char *text) {
  const uint32_t id = tg__arg_str(t, t->marks.args[mark], key);
  assert_int_not_equal(id, TG_NONE);
  assert_true(recording_name_is(t, id, text));
}

static void assert_async(const struct tg__columns *t, uint32_t mark, bool is_async) {
  struct tg__val v;
  assert_true(tg__arg(t, t->marks.args[mark], TG__K_IS_ASYNC, false, &v));
  assert_int_equal(v.kind, is_async ? TG__KIND_TRUE : TG__KIND_FALSE);
}

static void test_allocations(void **state) {
  start_with_memory();
  play("memory 1000 1 3 501 139637976727552 5368709120 0 1 0 0 0 0 0 0\n"
       "memory 2000 1 3 502 12884901888 4096 0 1 9 1 1 77 1024 33554432\n"
       "memory 3000 2 3 503 12884901888 4096 0 1 9 1 2 88 0 4321\n"
       "memory 4000 1 2 504 4096 64 0 1 0 0 0 0 0 0\n"
       "memory 5000 1 7 505 8192 32 1 2 0 0 0 0 0 0 a_variable\n"
       "memory 6000 9 99 506 8192 32 0 1 0 0 0 0 0 0\n");
  recording_close();
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.memory, 6);
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t marks[MOST];
  assert_int_equal(find_marks(t, "Memory Allocation (Device)", marks), 2);
  const uint32_t plain = marks[0], of_pool = marks[1], release = find_mark(t, "Memory Release (Device)"),
                 pinned = find_mark(t, "Memory Allocation (Pinned)"),
                 variable = find_mark(t, "Memory Allocation (Managed Static)");
  assert_int_equal(arg_of_mark(t, plain, TG__K_ADDR), 139637976727552);
  assert_int_equal(arg_of_mark(t, plain, TG__K_BYTES), 5368709120);
  assert_int_equal(arg_of_mark(t, plain, TG__K_CORRELATION), 501);
  assert_int_equal(arg_of_mark(t, plain, TG__K_CONTEXT), 1);
  assert_int_equal(arg_of_mark(t, plain, TG__K_STREAM), -999);
  assert_int_equal(arg_of_mark(t, plain, TG__K_POOL_ADDRESS), -999);
  assert_async(t, plain, false);
  assert_int_equal(arg_of_mark(t, of_pool, TG__K_STREAM), 9);
  assert_async(t, of_pool, true);
  assert_text(t, of_pool, TG__K_POOL_TYPE, "local");
  assert_int_equal(arg_of_mark(t, of_pool, TG__K_POOL_ADDRESS), 77);
  assert_int_equal(arg_of_mark(t, of_pool, TG__K_POOL_THRESHOLD), 1024);
  assert_int_equal(arg_of_mark(t, of_pool, TG__K_POOL_BYTES), 33554432);
  assert_int_equal(arg_of_mark(t, of_pool, TG__K_POOL_PROCESS), -999);
  assert_text(t, release, TG__K_POOL_TYPE, "imported");
  assert_int_equal(arg_of_mark(t, release, TG__K_POOL_PROCESS), 4321);
  assert_int_equal(arg_of_mark(t, release, TG__K_POOL_BYTES), -999);
  assert_int_equal(arg_of_mark(t, pinned, TG__K_ADDR), 4096); /* fits the record itself */
  assert_text(t, variable, TG__K_VARIABLE, "a_variable");
  assert_int_equal(t->tracks[t->marks.track[plain]].pid, 0);
  assert_int_equal(t->tracks[t->marks.track[plain]].tid, -1);
  assert_int_equal(t->tracks[t->marks.track[variable]].pid, 1);
  find_mark(t, "Memory Operation (Unknown)");
  assert_in_range(t->marks.ts_ns[of_pool] - t->marks.ts_ns[plain], 900, 1100);
  assert_int_equal(find_marks(t, "[memory]", marks), 0); /* none of the allocator's: nothing is counted twice */
  for (uint32_t i = 0; i < t->slices.count; i++) assert_false(tg__class_is_device_work(tg__slice_class(t, i)));
  tg__trace_free(t);
}

static void test_pools(void **state) {
  play("version 130500");
  start_with_memory();
  play("pool 1000 1 1 1 0 0 0 4096 67108864 1048576 0\n"
       "pool 2000 3 1 2 0 0 1024 4096 33554432 1048576 512\n"
       "pool 3000 2 2 3 4321 1 0 8192 999 999 999\n"
       "memory 4000 1 3 502 12884901888 4096 0 1 9 1 1 4096 1024 33554432\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t created = find_mark(t, "Memory Pool Created"), trimmed = find_mark(t, "Memory Pool Trimmed"),
                 destroyed = find_mark(t, "Memory Pool Destroyed");
  assert_int_equal(arg_of_mark(t, created, TG__K_ADDR), 4096);
  assert_int_equal(arg_of_mark(t, created, TG__K_POOL_BYTES), 67108864);
  assert_int_equal(arg_of_mark(t, created, TG__K_POOL_THRESHOLD), 1048576);
  assert_int_equal(arg_of_mark(t, created, TG__K_POOL_LEAST), -999);
  assert_int_equal(arg_of_mark(t, created, TG__K_BYTES), -999);
  assert_int_equal(arg_of_mark(t, created, TG__K_CONTEXT), -999);
  assert_int_equal(arg_of_mark(t, trimmed, TG__K_POOL_LEAST), 1024);
  assert_int_equal(arg_of_mark(t, trimmed, TG__K_POOL_USED), 512);
  assert_text(t, destroyed, TG__K_POOL_TYPE, "imported");
  assert_int_equal(arg_of_mark(t, destroyed, TG__K_POOL_PROCESS), 4321);
  assert_int_equal(arg_of_mark(t, destroyed, TG__K_POOL_BYTES), -999);
  assert_int_equal(arg_of_mark(t, destroyed, TG__K_DEVICE), 1);
  assert_int_equal(arg_of_mark(t, find_mark(t, "Memory Allocation (Device)"), TG__K_POOL_BYTES), 33554432);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 0);
  tg__trace_free(t);
}

/* What was released first, has another size, no time, or was dropped. */
static void test_losses(void **state) {
  uint32_t marks[MOST];
  start_with_memory();
  play("memory 1000 2 3 1 4096 64 0 1 0 0 0 0 0 0\n"
       "memory 2000 1 3 2 4096 64 0 1 0 0 0 0 0 0\n"
       "drop 3\n"
       "flush\n"
       "grow 49 4\ngrow 50 4\n"
       "memory 3000 1 3 3 4096 64 0 1 0 0 0 0 0 0\n"
       "pool 4000 1 1 4 0 0 0 4096 64 0 0\n"
       "memset 8000 9000 0 1 7 6 16 3\n");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(find_marks(t, "Memory Release (Device)", marks), 1);
  assert_int_equal(find_marks(t, "Memory Allocation (Device)", marks), 1);
  assert_int_equal(find_marks(t, "Memory Pool Created", marks), 0);
  assert_int_equal(recording_count(t, "Memset (Device)", NULL), 1);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_lost), 3);
  assert_int_equal(lost_in(t, TG__LOSS_skipped_device_unread), 2);
  tg__trace_free(t);
}

/* Where it was not asked for CUPTI is not asked either; where CUPTI cannot, the rest is recorded. */
static void test_on_and_off(void **state) {
  uint32_t marks[MOST];
  start();
  const uint64_t without = fake_number("enabled");
  play("memory 1000 1 3 1 4096 64 0 1 0 0 0 0 0 0\nmemset 8000 9000 0 1 7 6 16 3\n");
  recording_close();
  struct tg__columns *t = recording_read(recording_path);
  assert_int_equal(find_marks(t, "Memory Allocation (Device)", marks), 0);
  tg__trace_free(t);
  recording_start((struct tg_record_options){
      .rank = -1, .features = TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS | TG_RECORD_CUDA_MEMORY});
  assert_int_equal(fake_number("enabled"), without + 2);
  recording_close();
  assert_int_equal(fake_number("enabled"), 0);
  assert_true(tg__source_cuda.is_off());
  play("refuse 49 2\nrefuse 50 2");
  start_with_memory();
  play("memset 8000 9000 0 1 7 6 16 3\n");
  recording_close();
  t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "Memset (Device)", NULL), 1);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_allocations, reset),
      cmocka_unit_test_setup(test_pools, reset),
      cmocka_unit_test_setup(test_losses, reset),
      cmocka_unit_test_setup(test_on_and_off, reset),
  };
  return cmocka_run_group_tests_name("CUDA memory", tests, load_fakes, recording_teardown);
}
