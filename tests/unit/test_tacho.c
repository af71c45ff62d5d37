/* The native file: a trace saved and opened again is the same, column by column; cut and damaged files are errors or
 * counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/format.h"
#include "unit/sample_trace.h"
#include "unit/scratch.h"
#include "unit/sweep.h"

static char path[64];

static void save(const struct tg__columns *t) {
  struct tg_error e;
  assert_int_equal(tg__trace_save(t, path, &e), TG_OK);
}

static uint8_t *read_all(size_t *len) {
  FILE *const f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *len = (size_t)ftell(f);
  rewind(f);
  uint8_t *const bytes = malloc(*len);
  assert_int_equal(fread(bytes, 1, *len, f), *len);
  fclose(f);
  return bytes;
}

static void write_all(const void *bytes, size_t len) {
  FILE *const f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, len, f), len);
  fclose(f);
}

/* Flip a bit in the file where it lies: rewriting it thousands of times would make the disk the bottleneck. */
static void flip(int fd, size_t bit) {
  uint8_t byte;
  assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
  byte ^= (uint8_t)(1 << bit % 8);
  assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
}

static int64_t lost(const struct tg__columns *t) { return t->ranks[0].loss[TG__LOSS_cut_chunks]; }

/* Open and load everything; NULL with *e set when either fails. */
static struct tg__columns *open_all(struct tg_error *e) {
  struct tg__columns *t;
  *e = (struct tg_error){0};
  if (tg__tacho_open(path, NULL, &t, e)) {
    assert_null(t);
    return NULL;
  }
  if (tg__tacho_load(t, TG__COL_ALL, e) == TG_OK) return t;
  tg__trace_free(t);
  return NULL;
}

static void test_round_trip(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  save(t);
  struct tg__columns *const back = open_all(&e);
  assert_non_null(back);
  assert_int_equal(back->loaded, TG__COL_ALL);
  assert_true(tg__trace_is_valid(back, &e));
  assert_null(sample_differ(t, back));
  tg__trace_free(back);
  tg__trace_free(t);
}

static void test_one_column_at_a_time(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  save(t);
  for (uint32_t bit = 1; bit <= TG__COL_MARKS; bit <<= 1) {
    struct tg__columns *back;
    assert_int_equal(tg__tacho_open(path, NULL, &back, &e), TG_OK);
    assert_int_equal(back->loaded, 0);
    assert_int_equal(back->slices.count, 6);
    assert_int_equal(tg__tacho_load(back, bit, &e), TG_OK);
    assert_int_equal(back->loaded, bit);
    for (int c = 0; c < TG__COLUMN_COUNT; c++) {
      const bool present = *tg__column_place(back, &tg__stored_columns[c]) != NULL;
      assert_int_equal(present, tg__stored_columns[c].bit == bit);
    }
    assert_int_equal(back->args != NULL, bit == TG__COL_ARGS);
    assert_null(sample_differ(t, back));
    assert_int_equal(tg__tacho_load(back, TG__COL_ALL, &e), TG_OK); /* and the rest on top of it */
    assert_null(sample_differ(t, back));
    tg__trace_free(back);
  }
  tg__trace_free(t);
}

static void test_saving_twice_gives_the_same_bytes(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  size_t first_len, second_len;
  save(t);
  uint8_t *const first = read_all(&first_len);
  struct tg__columns *const back = open_all(&e);
  save(back);
  uint8_t *const second = read_all(&second_len);
  assert_int_equal(first_len, second_len);
  assert_memory_equal(first, second, first_len);
  free(first);
  free(second);
  tg__trace_free(back);
  tg__trace_free(t);
}

/* Nothing in it but the well-known strings. */
static void test_empty_trace(void **state) {
  struct tg__columns *const t = sample_empty();
  struct tg_error e;
  sample_columns(t, 0, 0);
  sample_args(t, "", 0);
  save(t);
  struct tg__columns *const back = open_all(&e);
  assert_non_null(back);
  assert_null(sample_differ(t, back));
  assert_non_null(back->slices.start_ns);
  assert_non_null(back->args);
  tg__trace_free(back);
  tg__trace_free(t);
}

static void test_not_all_loaded(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  t->loaded &= ~(uint32_t)TG__COL_NAME;
  assert_int_equal(tg__trace_save(t, path, &e), TG_INTERNAL);
  tg__trace_free(t);
}

/* Cut at every byte: the complete file, or an error, or fewer rows and a count that says so. Never a wrong row. */
static void test_cut_at_every_byte(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  size_t len, opened = 0, without_args = 0;
  save(t);
  free(read_all(&len));
  for (size_t cut = len; cut-- > 0;) {
    assert_int_equal(truncate(path, (off_t)cut), 0);
    struct tg__columns *const back = open_all(&e);
    if (!back) {
      assert_true(e.code != TG_OK && e.text[0]);
      continue;
    }
    opened++;
    assert_true(back->slices.count == 6 || (back->slices.count == 0 && lost(back) > 0));
    if (back->slices.count == 6 && back->args_bytes == 0)
      without_args += back->slices.args[3] == TG_NONE && lost(back) > 0;
    if (back->slices.count == 6 && back->marks.count == 2 && back->args_bytes == 12) {
      memset(back->ranks[0].loss + TG__LOSS_cut_chunks, 0,
             sizeof(int64_t)); /* the index is gone, the events are all there */
      back->ranks[0].loss_offset[TG__LOSS_cut_chunks] = -1;
      assert_null(sample_differ(t, back));
    }
    tg__trace_free(back);
  }
  assert_true(opened > len / 3); /* the tables are at the front: whatever is cut behind them opens */
  assert_true(without_args > 0);
  tg__trace_free(t);
}

/* Every single bit: a clear error, or a counted loss, or nothing changed (padding). */
static void test_every_bit(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  size_t len, errors = 0, counted = 0, harmless = 0;
  save(t);
  free(read_all(&len));
  const int fd = open(path, O_RDWR);
  for (size_t bit = 0; bit < len * 8; bit += sweep_step()) {
    flip(fd, bit);
    struct tg__columns *const back = open_all(&e);
    flip(fd, bit);
    if (!back) {
      assert_true(e.code != TG_OK && e.text[0]);
      errors++;
      continue;
    }
    if (lost(back) > 0) {
      counted++;
    } else {
      assert_null(sample_differ(t, back));
      harmless++;
    }
    tg__trace_free(back);
  }
  assert_true(errors > len * 4 / sweep_step());
  assert_true(counted > 0);
  assert_true(harmless < len * 2 / sweep_step()); /* padding is at most 7 of 40 bytes */
  close(fd);
  tg__trace_free(t);
}

/* Many row groups. */
static struct tg__columns *big_trace(uint32_t slices) {
  struct tg__columns *const t = sample_empty();
  const uint32_t args_bytes = 3 << 20;
  sample_schemas(t);
  sample_ranks(t, slices, 0);
  t->rank_count = 1;
  t->ranks[0].track_count = 1;
  const struct tg__track track = sample_track(0, TG__TRACK_CPU, 1, 0, slices);
  const struct tg__cat cat = {TG__K_NAME, TG__CLASS_OP};
  t->tracks = sample_copy(&track, sizeof track);
  t->track_count = 1;
  t->cats = sample_copy(&cat, sizeof cat);
  t->cat_count = 1;
  sample_columns(t, slices, 2);
  uint8_t *const args = tg__store_pages(t->store, args_bytes);
  for (uint32_t i = 4; i < args_bytes; i += 8)
    args[i] = 1, args[i + 3] = (uint8_t)(i * 2654435761u >> 24 & 0x7e), args[i + 4 - 8] = 0;
  t->args = args;
  t->args_bytes = args_bytes;
  for (uint32_t i = 0; i < slices; i++) { /* every tenth is a root of ten: itself and nine children of 10 ns */
    t->slices.start_ns[i] = (int64_t)(i / 10) * 1000 + (int64_t)(i % 10) * 50;
    t->slices.dur_ns[i] = i % 10 ? 10 : 900;
    t->slices.name[i] = i % 7;
    t->slices.args[i] = (i % (args_bytes / 8)) * 2 + 1;
    t->slices.parent[i] = i % 10 ? i - i % 10 : TG_NONE;
    t->slices.depth[i] = i % 10 != 0;
    t->slices.cause[i] = i % 3 ? TG_NONE : slices - 1 - i;
  }
  return t;
}

static void test_row_groups(void **state) {
  struct tg__columns *const t = big_trace(300000);
  struct tg_error e;
  save(t);
  struct tg__columns *const back = open_all(&e);
  assert_non_null(back);
  assert_null(sample_differ(t, back));
  tg__trace_free(back);
  tg__trace_free(t);
}

/* Where the chunk of this type and part begins. */
static size_t chunk_place(const uint8_t *bytes, size_t len, uint16_t type, uint32_t part) {
  struct tg__chunk c;
  for (size_t at = TG_GREETING_BYTES; at < len; at += (size_t)tg__chunk_span(c.length)) {
    assert_true(tg__chunk_head_read(bytes + at, at, len, &c));
    if (c.type == type && c.part == part) return at;
  }
  fail();
  return 0;
}

static void test_cut_in_a_row_group(void **state) {
  struct tg__columns *const t = big_trace(300000);
  struct tg_error e;
  size_t len;
  save(t);
  uint8_t *const bytes = read_all(&len);
  const uint32_t there =
      131072; /* groups of 32,768, the largest power of two that makes at least eight; four of them are whole */
  write_all(bytes, chunk_place(bytes, len, TG_CHUNK_SLICE_CAUSE, 4) + 50);
  struct tg__columns *const back = open_all(&e);
  assert_non_null(back);
  assert_int_equal(back->slices.count, there);
  assert_int_equal(back->tracks[0].count, there);
  assert_int_equal(back->marks.count, 0);
  assert_int_equal(back->ranks[0].events_kept, there);
  assert_int_equal(back->ranks[0].phase_count['X'], there);
  assert_int_equal(back->ranks[0].phase_count['M'], 0);
  assert_int_equal(back->ranks[0].events_read, there + 1); /* the one that had been skipped as JSON */
  assert_int_equal(lost(back), 1 + 6 + 1 + 3); /* the cut chunk; groups 4 to 9; marks; three blocks of args */
  assert_memory_equal(back->slices.start_ns, t->slices.start_ns, there * 8);
  assert_memory_equal(back->slices.parent, t->slices.parent, there * 4);
  for (uint32_t i = 0; i < there; i++) {
    const uint32_t was = t->slices.cause[i];
    assert_int_equal(back->slices.cause[i], was < there ? was : TG_NONE);
    assert_int_equal(back->slices.args[i], TG_NONE);
  }
  free(bytes);
  tg__trace_free(back);
  tg__trace_free(t);
}

static void test_damage_only_costs_its_column(void **state) {
  struct tg__columns *const t = big_trace(1000);
  struct tg__columns *back;
  struct tg_error e;
  size_t len;
  save(t);
  uint8_t *const bytes = read_all(&len);
  bytes[chunk_place(bytes, len, TG_CHUNK_SLICE_DUR, 0) + 60] ^= 4;
  write_all(bytes, len);
  assert_int_equal(tg__tacho_open(path, NULL, &back, &e), TG_OK);
  assert_int_equal(tg__tacho_load(back, TG__COL_START | TG__COL_NAME, &e), TG_OK);
  assert_int_equal(tg__tacho_load(back, TG__COL_DUR | TG__COL_CAT, &e), TG_DAMAGED);
  assert_non_null(strstr(e.text, "SLICE_DUR 0"));
  assert_int_equal(back->loaded, TG__COL_START | TG__COL_NAME);
  assert_null(back->slices.cat);
  assert_int_equal(tg__tacho_load(back, TG__COL_CAT, &e), TG_OK);
  assert_null(sample_differ(t, back));
  free(bytes);
  tg__trace_free(back);
  tg__trace_free(t);
}

/* A chunk of a type this version does not know, between two it knows. */
static void test_unknown_chunk(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  size_t len;
  save(t);
  uint8_t *const bytes = read_all(&len), *const longer = calloc(1, len + 40);
  const size_t at = chunk_place(bytes, len, TG_CHUNK_SLICE_START, 0);
  memcpy(longer, bytes, at);
  tg__chunk_head_write(longer + at, 200, 0, 0, 6, tg__checksum("future", 6));
  memcpy(longer + at + TG_CHUNK_HEAD_BYTES, "future", 6);
  memcpy(longer + at + 40, bytes + at, len - at);
  write_all(longer, len + 40); /* the index behind it is off by 40 bytes, the footer says so by its file length */
  struct tg__columns *const back = open_all(&e);
  assert_non_null(back);
  assert_int_equal(lost(back), 1);
  assert_int_equal(back->ranks[0].loss_offset[TG__LOSS_cut_chunks], at);
  assert_int_equal(back->slices.count, 6);
  free(bytes);
  free(longer);
  tg__trace_free(back);
  tg__trace_free(t);
}

/* Values no writer of ours can produce, under correct checksums: refused, not believed. */
static void test_impossible_values(void **state) {
  struct tg_error e;
  for (int lie = 0; lie < 14; lie++) {
    struct tg__columns *const t = sample_trace();
    switch (lie) {
    case 0:
      t->slices.name[2] = tg__strings_count(t->strings);
      break;
    case 1:
      t->slices.cat[1] = 4;
      break;
    case 2:
      t->slices.parent[1] = 1;
      break;
    case 3:
      t->slices.parent[5] = 0;
      break; /* on another track */
    case 4:
      t->slices.cause[0] = 6;
      break;
    case 5:
      t->slices.args[0] = 3;
      break;
    case 6:
      t->slices.start_ns[1] = -5;
      break; /* before the one it follows */
    case 7:
      t->slices.dur_ns[0] = -1;
      break;
    case 8:
      t->slices.dur_ns[4] = INT64_MAX;
      break;
    case 9:
      t->slices.depth[3] = 1;
      break;
    case 10:
      t->marks.track[0] = 3;
      break;
    case 11:
      t->ranks[0].events_read++;
      break;
    case 12:
      t->slices.dur_ns[0] = 15;
      break; /* its children stick out */
    default:
      t->marks.ph[1] = 200;
      break;
    }
    save(t);
    assert_null(open_all(&e));
    assert_int_equal(e.code, TG_DAMAGED);
    tg__trace_free(t);
  }
}

static void assert_text(const struct tg__columns *t, uint32_t id, const char *text) {
  const struct tg__str s = tg__name(t, id);
  assert_int_equal(s.len, strlen(text));
  assert_memory_equal(s.ptr, text, s.len);
}

/* A trace whose strings are numbered as no version does it: none of the well-known ones is where it belongs. */
static struct tg__columns *foreign_trace(void) {
  static const char *const texts[] = {"file.json", "aten::add", "cpu_op", "correlation", "a value", "thread 1", "note"};
  enum { PATH, ADD, CPU_OP, CORRELATION, VALUE, THREAD, NOTE };
  static const uint8_t args[] = {0, 0, 0, 14, VALUE, 0, 0, 0}; /* schema 0: correlation 7, note "a value" */
  struct tg__columns *const t = tg__alloc(sizeof *t);
  t->strings = tg__strings_new();
  t->store = tg__store_new(TG__STORE_MEMORY);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_int_equal(sample_text(t, texts[i]), i);
  const struct tg__cat cat = {CPU_OP, TG__CLASS_OP};
  t->cats = sample_copy(&cat, sizeof cat);
  t->cat_count = 1;
  sample_schemas(t);
  struct tg__field *const fields = (struct tg__field *)(uintptr_t)t->schemas[1].fields;
  fields[0].key = CORRELATION;
  fields[1].key = NOTE;
  t->schemas[0] = t->schemas[1];
  t->schema_count = 1;
  struct tg__rank rank = {.path = PATH, .number = 0, .track_count = 1, .events_read = 1, .events_kept = 1};
  rank.phase_count['X'] = 1;
  t->ranks = sample_copy(&rank, sizeof rank);
  t->rank_count = 1;
  struct tg__track track = sample_track(0, TG__TRACK_CPU, 1, 0, 1);
  track.name = THREAD;
  track.pid_is_text = true;
  track.pid = NOTE;
  t->tracks = sample_copy(&track, sizeof track);
  t->track_count = 1;
  sample_columns(t, 1, 0);
  sample_args(t, args, sizeof args);
  t->slices.name[0] = ADD;
  t->slices.parent[0] = t->slices.cause[0] = TG_NONE;
  const struct tg__step step = {.slice = 0, .name = ADD, .end_ns = 1};
  t->steps = sample_copy(&step, sizeof step);
  t->step_count = 1;
  return t;
}

/* Opened, the well-known strings are in their places and every id names the same text; also after saving it again. */
static void test_strings_of_another_version(void **state) {
  struct tg_error e;
  struct tg__columns *t = foreign_trace();
  for (int generation = 0; generation < 3; generation++) {
    save(t);
    tg__trace_free(t);
    t = open_all(&e);
    assert_non_null(t);
    assert_true(tg__trace_is_valid(t, &e));
    assert_text(t, TG__K_CORRELATION, "correlation");
    assert_text(t, t->ranks[0].path, "file.json");
    assert_text(t, t->cats[0].name, "cpu_op");
    assert_text(t, t->tracks[0].name, "thread 1");
    assert_text(t, (uint32_t)t->tracks[0].pid, "note");
    assert_text(t, t->slices.name[0], "aten::add");
    assert_text(t, t->steps[0].name, "aten::add");
    assert_int_equal(tg__arg_int(t, t->slices.args[0], TG__K_CORRELATION, -1), 7);
    struct tg__val v;
    assert_true(tg__arg(t, t->slices.args[0], tg__strings_find(t->strings, "note", 4), true, &v));
    assert_text(t, v.str, "a value");
    assert_non_null(t->args_strings);
  }
  tg__trace_free(t);
}

static void test_no_memory(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  save(t);
  struct tg__columns *back = NULL;
  long calls = 1;
  for (; !back; calls++) {
    tg__alloc_fail_after(calls);
    back = open_all(&e);
    tg__alloc_fail_after(-1);
    if (!back) assert_int_equal(e.code, TG_MEMORY);
    assert_true(calls < 2000);
  }
  assert_null(sample_differ(t, back));
  tg__trace_free(back);
  for (calls = 1;; calls++) {
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg__trace_save(t, path, &e);
    tg__alloc_fail_after(-1);
    if (err == TG_OK) break;
    assert_int_equal(err, TG_MEMORY);
    assert_true(calls < 2000);
  }
  tg__trace_free(t);
}

static void test_unwritable(void **state) {
  struct tg__columns *const t = sample_trace();
  struct tg_error e;
  assert_int_equal(tg__trace_save(t, "no/such/folder/x.tacho", &e), TG_IO);
  tg__trace_free(t);
}

int main(void) {
  snprintf(path, sizeof path, "%s/test_tacho.%d.tacho", scratch_folder(), (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_one_column_at_a_time),
      cmocka_unit_test(test_saving_twice_gives_the_same_bytes),
      cmocka_unit_test(test_empty_trace),
      cmocka_unit_test(test_not_all_loaded),
      cmocka_unit_test(test_cut_at_every_byte),
      cmocka_unit_test(test_every_bit),
      cmocka_unit_test(test_row_groups),
      cmocka_unit_test(test_cut_in_a_row_group),
      cmocka_unit_test(test_damage_only_costs_its_column),
      cmocka_unit_test(test_unknown_chunk),
      cmocka_unit_test(test_impossible_values),
      cmocka_unit_test(test_strings_of_another_version),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_unwritable),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
