/* Files as the recorder leaves them: sealed and open chunks, long durations, missing names, cut and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/store.h"
#include "unit/raw_file.h"
#include "unit/scratch.h"
#include "unit/sweep.h"

static char path[64];
static struct raw_file file;

static int fd;

/* The first `len` bytes of `file`. Written over what lies there: replacing a file thousands of times waits for the
 * disk. */
static struct tg__columns *open_file(size_t len, struct tg_error *e) {
  struct tg__columns *t;
  assert_int_equal(pwrite(fd, file.bytes, len, 0), len);
  assert_int_equal(ftruncate(fd, (off_t)len), 0);
  if (tg__trace_open(path, NULL, &t, e)) return NULL;
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, e), TG_OK);
  if (!tg__trace_is_valid(t, e)) fail_msg("%s", e->text);
  return t;
}

static void assert_slice(const struct tg__columns *t, uint32_t i, const char *name, int64_t start_ns, int64_t dur_ns,
                         enum tg__class cls) {
  const struct tg__str s = tg__name(t, t->slices.name[i]);
  assert_int_equal(s.len, strlen(name));
  assert_memory_equal(s.ptr, name, s.len);
  assert_int_equal(t->slices.start_ns[i], start_ns);
  assert_int_equal(t->slices.dur_ns[i], dur_ns);
  assert_int_equal(tg__slice_class(t, i), cls);
}

static void assert_text(const struct tg__columns *t, uint32_t id, const char *text) {
  const struct tg__str s = tg__name(t, id);
  assert_int_equal(s.len, strlen(text));
  assert_memory_equal(s.ptr, text, s.len);
}

static void test_whole_file(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  struct tg__columns *const t = open_file(file.len, &e);
  assert_non_null(t);
  assert_int_equal(t->slices.count, 5);
  assert_int_equal(t->marks.count, 8); /* 3 of the process, 2 of each thread, 1 of memory */
  assert_slice(t, 0, "ProfilerStep#5", 1000050, 200, TG__CLASS_ANNOTATION);
  assert_slice(t, 1, "aten::add", 1000100, 50, TG__CLASS_OP);
  /* 2000 → 1000500; 2000 + 0x100000100 lies behind the last pair, where a tick is a ns: 1003000 + 4294969552 - 5000 */
  assert_slice(t, 2, "aten::mul", 1000500, 1003000 + 4294969552 - 5000 - 1000500, TG__CLASS_OP);
  assert_slice(t, 3, "name#9", 1001000, 10, TG__CLASS_OP);
  assert_slice(t, 4, "aten::mul", 1001100, 20, TG__CLASS_OP);
  assert_int_equal(t->slices.parent[1], 0);
  assert_int_equal(t->slices.parent[2], TG_NONE);
  assert_int_equal(t->track_count, 3); /* that of the process has no slices */
  assert_int_equal(t->tracks[1].pid, 4242);
  assert_int_equal(t->tracks[1].tid, 100);
  assert_text(t, t->tracks[1].name, "thread 100 (main)");
  assert_text(t, t->tracks[1].process_name, "python");
  assert_text(t, t->tracks[2].name, "thread 101");
  assert_int_equal(t->step_count, 1);
  assert_int_equal(t->steps[0].number, 5);
  const struct tg__rank *const r = &t->ranks[0];
  assert_int_equal(r->number, 3);
  assert_int_equal(r->world_size, 8);
  assert_int_equal(r->loss[TG__LOSS_bent_no_dictionary], 1);
  assert_int_equal(r->loss[TG__LOSS_skipped_no_room], 3);
  assert_int_equal(r->loss[TG__LOSS_cut_chunks], 0);
  assert_int_equal(r->loss[TG__LOSS_bent_torn_duration], 0);
  tg__trace_free(t);
}

static void test_args(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  struct tg__columns *const t = open_file(file.len, &e);
  assert_int_equal(tg__arg_int(t, t->slices.args[1], TG__K_SEQUENCE_NUMBER, -1), 7);
  assert_text(t, tg__arg_str(t, t->slices.args[1], TG__K_INPUT_DIMS), "[[2, 3], []]");
  assert_text(t, tg__arg_str(t, t->slices.args[1], TG__K_INPUT_STRIDES), "[[3, 1], []]");
  assert_text(t, tg__arg_str(t, t->slices.args[1], TG__K_INPUT_TYPE), "[\"float\", \"Scalar\"]");
  assert_text(t, tg__arg_str(t, t->slices.args[1], TG__K_CONCRETE_INPUTS), "[\"\", \"7\"]");
  assert_text(t, tg__arg_str(t, t->slices.args[1], TG__K_CALL_STACK), "model.py(5): forward;train.py(10): main");
  assert_int_equal(tg__arg_int(t, t->slices.args[4], TG__K_FWD_THREAD_ID, -1), 100);
  assert_int_equal(tg__arg_int(t, t->slices.args[4], TG__K_SEQUENCE_NUMBER, -1), 7);
  assert_int_equal(t->marks.name[7], TG__K_MEMORY);
  assert_int_equal(t->marks.ts_ns[7], 1000125);
  assert_int_equal(tg__arg_int(t, t->marks.args[7], TG__K_ADDR, -1), 0x7f0012345678);
  assert_int_equal(tg__arg_int(t, t->marks.args[7], TG__K_BYTES_MEMORY, -1), -512);
  tg__trace_free(t);
}

/* The flags of the third record of the open chunk are zero: what lies behind is from an earlier life of the file. */
static void test_open_chunk_ends_at_zero_flags(void **state) {
  struct tg_error e;
  const size_t open_at = raw_file_make(&file);
  file.bytes[open_at + TG_RAW_HEAD_BYTES + 2 * TG_RAW_RECORD_BYTES + 31] = TG_RAW_F_VALID;
  struct tg__columns *const t = open_file(file.len, &e);
  assert_int_equal(t->tracks[2].count, 4); /* now it is there, and so is the one behind it */
  tg__trace_free(t);
}

static void test_cut_at_every_byte(void **state) {
  struct tg_error e;
  const size_t open_at = raw_file_make(&file), len = file.len;
  for (size_t cut = len; cut-- > 0;) {
    struct tg__columns *const t = open_file(cut, &e);
    if (!t) {
      assert_true(e.text[0] && cut < open_at);
      continue;
    }
    uint32_t whole = 3; /* of the sealed chunk */
    for (size_t i = 0; i < 2; i++) whole += cut >= open_at + TG_RAW_HEAD_BYTES + (i + 1) * TG_RAW_RECORD_BYTES;
    if (cut >= open_at) assert_int_equal(t->slices.count, whole);
    tg__trace_free(t);
  }
}

static void test_every_bit(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  for (size_t bit = 0; bit < file.len * 8; bit += sweep_step()) {
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct tg__columns *const t = open_file(file.len, &e);
    if (!t) assert_true(e.text[0]);
    if (t) tg__trace_free(t);
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

static void test_every_bit_of_a_full_file(void **state) {
  struct tg_error e;
  raw_file_make_full(&file);
  for (size_t bit = 0; bit < file.len * 8; bit += sweep_step()) {
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct tg__columns *const t = open_file(file.len, &e);
    if (!t) assert_true(e.text[0]);
    if (t) tg__trace_free(t);
    file.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  struct tg__columns *const t = open_file(file.len, &e);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 0);
  assert_int_equal(t->ranks[0].phase_count['X'],
                   9); /* 7 records, the module that the operator tells of, the recording */
  tg__trace_free(t);
}

static void test_damaged_sealed_chunk(void **state) {
  struct tg_error e;
  size_t sealed_at = 0;
  raw_file_make(&file);
  for (struct tg__chunk c = {.length = 0}; sealed_at == 0;) {
    static size_t at = TG_GREETING_BYTES;
    assert_true(tg__chunk_head_read(file.bytes + at, at, file.len, &c));
    if (c.type == TG_CHUNK_RAW_RECORDS) sealed_at = at;
    at += (size_t)tg__chunk_span(c.length);
  }
  file.bytes[sealed_at + TG_CHUNK_HEAD_BYTES + TG_RAW_HEAD_BYTES + 3] ^= 1;
  struct tg__columns *const t = open_file(file.len, &e);
  assert_int_equal(t->slices.count, 2); /* of the open chunk */
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 1);
  assert_int_equal(t->ranks[0].loss_offset[TG__LOSS_cut_chunks], sealed_at);
  tg__trace_free(t);
}

static void test_torn_duration(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  const struct tg__raw_record torn = {
      .start_ticks = 6000, .dur_ticks = 7, .name = 1, .scope = TG_RAW_OP, .flags = TG_RAW_F_VALID | TG_RAW_F_LONG};
  raw_records(&file, 2, 4, &torn, 1, false);
  struct tg__columns *const t = open_file(file.len, &e);
  assert_slice(t, 5, "aten::add", 1004000, 7, TG__CLASS_OP);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_torn_duration], 1);
  tg__trace_free(t);
}

/* Room that was prepared and never used is no loss. */
static void test_zeros_at_the_end(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  struct tg__columns *const t = open_file(file.len + 1000, &e);
  assert_int_equal(t->slices.count, 5);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 0);
  tg__trace_free(t);
}

static void test_stack_that_runs_in_circles(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  const struct tg__raw_entry frames[] = {{7, 8, TG_STR("a")}, {8, 7, TG_STR("b")}};
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_STACK, frames, 2);
  const struct tg__raw_record r = {
      .start_ticks = 6000, .dur_ticks = 7, .name = 1, .stack = 7, .scope = TG_RAW_OP, .flags = TG_RAW_F_VALID};
  raw_records(&file, 2, 4, &r, 1, false);
  struct tg__columns *const t = open_file(file.len, &e);
  const struct tg__str stack = tg__name(t, tg__arg_str(t, t->slices.args[5], TG__K_CALL_STACK));
  assert_int_equal(stack.len, 255); /* 128 frames and the semicolons between them */
  assert_memory_equal(stack.ptr, "a;b;a;", 6);
  tg__trace_free(t);
}

/* A SHAPE entry that cannot be read gives no inputs; a member of the document that is no JSON is left out. */
static void test_entries_that_cannot_be_read(void **state) {
  struct tg_error e;
  raw_file_make(&file);
  const struct tg__raw_entry shapes[] = {
      {5, 0, TG_STR("\1\6\2\1")},     /* a tensor without its sizes */
      {6, 0, TG_STR("\77")},          /* an unknown kind */
      {7, 0, TG_STR("\3\2\0\2\4\1")}, /* a list of tensors, one of them an integer */
      {8, 0, TG_STR("\15\1\0x")},     /* a keyword without a value */
      {9, 0, TG_STR("")},             /* no inputs at all: fine */
  };
  const struct tg__raw_entry meta[] = {{0, 0, TG_STR("no value")}, {0, 0, TG_STR("key\0{")}};
  raw_dictionary(&file, 0, TG_RAW_D_SHAPE, shapes, 5);
  raw_dictionary(&file, 0, TG_RAW_D_META, meta, 2);
  struct tg__columns *const t = open_file(file.len, &e);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 6);
  assert_int_equal(t->ranks[0].meta_count, 6);
  const char *const members[] = {"schemaVersion",   "deviceProperties", "trace_id",
                                 "distributedInfo", "displayTimeUnit",  "baseTimeNanoseconds"};
  for (size_t i = 0; i < 6; i++) assert_text(t, t->ranks[0].meta[i].key, members[i]);
  tg__trace_free(t);
}

static void test_no_records(void **state) {
  struct tg_error e;
  memset(&file, 0, sizeof file);
  tg__greeting_write(file.bytes);
  file.len = TG_GREETING_BYTES;
  raw_records(&file, 0, 4, NULL, 0, false);
  assert_null(open_file(file.len, &e));
  assert_int_equal(e.code, TG_NO_EVENTS);
}

static void test_no_memory(void **state) {
  struct tg_error e;
  for (int full = 0; full < 2; full++) {
    if (full) {
      raw_file_make_full(&file);
    } else {
      raw_file_make(&file);
    }
    struct tg__columns *t = open_file(file.len, &e);
    const uint32_t slices = t->slices.count;
    tg__trace_free(t);
    t = NULL;
    for (long calls = 1; !t; calls++) {
      tg__alloc_fail_after(calls);
      const enum tg_err err = tg__trace_open(path, NULL, &t, &e);
      tg__alloc_fail_after(-1);
      assert_true(err == TG_OK || err == TG_MEMORY);
      assert_true(calls < 2000);
    }
    assert_int_equal(t->slices.count, slices);
    tg__trace_free(t);
  }
}

/* ---- memory of a device's driver ------------------------------------------------------------- */

static void test_driver_memory(void **state) {
  raw_file_make_driver_memory(&file);
  struct tg_error e;
  struct tg__columns *const t = open_file(file.len, &e);
  assert_non_null(t);
  static const struct {
    int64_t ts_ns, addr, bytes, pid;
  } expected[] = {{1000, 0x7f0000002000, (INT64_C(1) << 32) + 512, 1},
                  {1100, 0x4000, 0, 1},
                  {1200, 0, 0, 0},
                  {1300, 64, -999, 1},
                  {1400, 96, 0, 1}};
  int64_t first_ns = 0;
  uint32_t found = 0, all = TG_NONE;
  for (uint32_t i = 0; i < t->marks.count; i++) {
    const struct tg__str cat = tg__name(t, t->cats[t->marks.cat[i]].name);
    if (cat.len != 10 || memcmp(cat.ptr, "gpu_memory", 10) != 0) continue;
    assert_int_equal(t->marks.ph[i], 'i');
    assert_true(found < 5);
    if (!found) first_ns = t->marks.ts_ns[i];
    const uint32_t args = all = t->marks.args[i];
    assert_int_equal(tg__arg_int(t, args, TG__K_ADDR, -999), expected[found].addr);
    assert_int_equal(tg__arg_int(t, args, TG__K_BYTES, -999), expected[found].bytes);
    assert_int_equal(t->tracks[t->marks.track[i]].pid, expected[found].pid);
    assert_int_equal(t->marks.ts_ns[i] - first_ns, expected[found].ts_ns - 1000);
    found++;
  }
  assert_int_equal(found, 5);
  assert_int_equal(tg__arg_int(t, all, TG__K_POOL_PROCESS, -999), 1);
  assert_int_equal(tg__arg_int(t, all, TG__K_TO_DEVICE, -999), 1);
  assert_int_not_equal(tg__arg_int(t, all, TG__K_OCCUPANCY, -999), -999);
  assert_text(t, tg__arg_str(t, all, TG__K_CAPTURED_OP), "allocated");
  assert_text(t, tg__arg_str(t, all, TG__K_CAPTURED_STACK), "a.py(3): f");
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_details], 1);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_torn_duration], 1);
  tg__trace_free(t);
}

int main(void) {
  snprintf(path, sizeof path, "%s/test_import_raw.%d.tacho", scratch_folder(), (int)getpid());
  fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_file),
      cmocka_unit_test(test_args),
      cmocka_unit_test(test_open_chunk_ends_at_zero_flags),
      cmocka_unit_test(test_cut_at_every_byte),
      cmocka_unit_test(test_every_bit),
      cmocka_unit_test(test_every_bit_of_a_full_file),
      cmocka_unit_test(test_damaged_sealed_chunk),
      cmocka_unit_test(test_torn_duration),
      cmocka_unit_test(test_zeros_at_the_end),
      cmocka_unit_test(test_stack_that_runs_in_circles),
      cmocka_unit_test(test_entries_that_cannot_be_read),
      cmocka_unit_test(test_no_records),
      cmocka_unit_test(test_driver_memory),
      cmocka_unit_test(test_no_memory),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  close(fd);
  unlink(path);
  return failed;
}
