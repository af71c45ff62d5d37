/* Packed arrays: bytes worked out by hand, round trips, hostile payloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "format/format.h"

static uint8_t scratch[1 << 20], packed[1 << 20];

static void assert_packs_to(const void *values, uint32_t rows, struct tg__packing_plan plan, const uint8_t *bytes,
                            size_t len) {
  assert_int_equal(tg__array_pack(values, rows, plan, scratch, packed), len);
  assert_memory_equal(packed, bytes, len);
  uint64_t back[16];
  assert_int_equal(tg__array_unpack(packed, len, back, rows, plan.width, plan.first_row, scratch), TG_OK);
  assert_memory_equal(back, values, (size_t)rows * plan.width);
}

static void test_delta_varint(void **state) {
  /* 100, +2, -1 → zigzag 200, 4, 1 → C8 01, 04, 01 */
  const uint32_t values[] = {100, 102, 101};
  const uint8_t bytes[] = {3, 0,    0,    0,    4,   TG_T_DELTA | TG_T_VARINT, 0, 0, 4, 0, 0, 0, 0, 0, 0,
                           0, 0xC8, 0x01, 0x04, 0x01};
  assert_packs_to(values, 3, (struct tg__packing_plan){.width = 4, .transform = TG_T_DELTA | TG_T_VARINT}, bytes,
                  sizeof bytes);
}

static void test_optional_delta(void **state) {
  /* none, 5, none, 4 → 0, zigzag(5) + 1, 0, zigzag(-1) + 1 */
  const uint32_t values[] = {TG_NONE, 5, TG_NONE, 4};
  const uint8_t how = TG_T_DELTA | TG_T_OPTIONAL | TG_T_VARINT;
  const uint8_t bytes[] = {4, 0, 0, 0, 4, how, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 2};
  assert_packs_to(values, 4, (struct tg__packing_plan){.width = 4, .transform = how}, bytes, sizeof bytes);
}

static void test_row_references(void **state) {
  /* rows 10, 11, 12 hold none, 10, 10 → 0, (11 - 10) + 1, (12 - 10) + 1 */
  const uint32_t values[] = {TG_NONE, 10, 10};
  const uint8_t how = TG_T_ROW | TG_T_OPTIONAL | TG_T_VARINT;
  const uint8_t bytes[] = {3, 0, 0, 0, 4, how, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3};
  assert_packs_to(values, 3, (struct tg__packing_plan){.width = 4, .transform = how, .first_row = 10}, bytes,
                  sizeof bytes);
}

static void test_shuffle(void **state) {
  const uint16_t values[] = {0x0102, 0x0304};
  const uint8_t bytes[] = {2, 0, 0, 0, 2, TG_T_SHUFFLE, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x04, 0x01, 0x03};
  assert_packs_to(values, 2, (struct tg__packing_plan){.width = 2, .transform = TG_T_SHUFFLE}, bytes, sizeof bytes);
}

static void test_no_rows(void **state) {
  const uint8_t bytes[16] = {0, 0, 0, 0, 1};
  assert_packs_to("", 0, (struct tg__packing_plan){.width = 1}, bytes, sizeof bytes);
}

/* Every transform, every width, on values with all the extremes in them; long enough to be compressed. */
static void test_round_trips(void **state) {
  enum { ROWS = 5000 };
  static uint64_t values[ROWS], back[ROWS];
  uint64_t seed = 42;
  for (unsigned width = 1; width <= 8; width *= 2) {
    uint8_t *const v = (uint8_t *)values;
    for (size_t i = 0; i < ROWS * width; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      v[i] = i % (512 * width) < 256 ? (uint8_t)(i / 64) : (uint8_t)(seed >> 56);
    }
    memset(v + 100 * width, 0xff, 3 * width);
    memset(v + 200 * width, 0, 2 * width);
    for (unsigned how = 0; how < 32; how++) {
      if ((how & TG_T_VARINT) && (how & TG_T_SHUFFLE)) continue;
      if ((how & TG_T_OPTIONAL) && !(how & TG_T_VARINT)) continue;
      const struct tg__packing_plan plan = {.width = (uint8_t)width, .transform = (uint8_t)how, .first_row = 77};
      const size_t len = tg__array_pack(values, ROWS, plan, scratch, packed);
      assert_true(len <= tg__array_room(ROWS, width));
      memset(back, 0xAA, sizeof back);
      assert_int_equal(tg__array_unpack(packed, len, back, ROWS, width, 77, scratch), TG_OK);
      assert_memory_equal(back, values, (size_t)ROWS * width);
    }
  }
}

/* The one difference whose zigzag code plus one does not fit 32 bits: -2^31. It must not come back as "none". */
static void test_optional_overflow(void **state) {
  const uint32_t values[] = {0x80000000u, 0, TG_NONE, 7};
  const struct tg__packing_plan plan = {.width = 4, .transform = TG_T_DELTA | TG_T_OPTIONAL | TG_T_VARINT};
  const size_t len = tg__array_pack(values, 4, plan, scratch, packed);
  uint32_t back[4];
  assert_int_equal(tg__array_unpack(packed, len, back, 4, 4, 0, scratch), TG_OK);
  assert_memory_equal(back, values, sizeof values);
}

static void test_refuses_lies(void **state) {
  const uint32_t values[] = {100, 102, 101};
  const struct tg__packing_plan plan = {.width = 4, .transform = TG_T_DELTA | TG_T_VARINT};
  const size_t len = tg__array_pack(values, 3, plan, scratch, packed);
  uint32_t back[3], rows;
  uint8_t bad[64];
  assert_true(tg__array_rows(packed, len, 4, &rows));
  assert_int_equal(rows, 3);
  assert_false(tg__array_rows(packed, len, 8, &rows));
  assert_false(tg__array_rows(packed, 15, 4, &rows));
  assert_int_equal(tg__array_unpack(packed, len, back, 2, 4, 0, scratch), TG_DAMAGED);     /* another number of rows */
  assert_int_equal(tg__array_unpack(packed, len - 1, back, 3, 4, 0, scratch), TG_DAMAGED); /* cut */
  memcpy(bad, packed, len);
  bad[len - 1] = 0x80; /* a varint without an end */
  assert_int_equal(tg__array_unpack(bad, len, back, 3, 4, 0, scratch), TG_DAMAGED);
  memcpy(bad, packed, len);
  bad[5] = 64;                                                                      /* an undefined transform */
  assert_int_equal(tg__array_unpack(bad, len, back, 3, 4, 0, scratch), TG_DAMAGED); /* length does not fit any more */
  bad[5] = 64 | TG_T_VARINT;
  assert_int_equal(tg__array_unpack(bad, len, back, 3, 4, 0, scratch), TG_UNSUPPORTED);
  memcpy(bad, packed, len);
  tg__set32(bad, TG_PACKED_MAX_ROWS + 1);
  assert_false(tg__array_rows(bad, len, 4, &rows));
  static const uint8_t wide[] = {1, 0, 0, 0, 2, TG_T_VARINT, 0,    0,    3,   0,
                                 0, 0, 0, 0, 0, 0,           0x80, 0x80, 0x04}; /* 65,536 in 16 bits */
  assert_int_equal(tg__array_unpack(wide, sizeof wide, back, 1, 2, 0, scratch), TG_DAMAGED);
}

static bool has_zstd(void) {
  static const uint8_t zeros[256];
  return tg__zstd_pack(zeros, sizeof zeros, packed, sizeof zeros) > 0;
}

static void test_refuses_wrong_frames(void **state) {
  if (!has_zstd()) skip();
  static uint8_t values[4096], back[4096];
  const size_t len = tg__array_pack(values, sizeof values, (struct tg__packing_plan){.width = 1}, scratch, packed);
  assert_int_equal(packed[6], 1);
  assert_true(len < 64);
  assert_int_equal(tg__array_unpack(packed, len, back, sizeof back, 1, 0, scratch), TG_OK);
  tg__set32(packed, 4095); /* head and frame no longer agree on the size */
  tg__set32(packed + 8, 4095);
  assert_int_equal(tg__array_unpack(packed, len, back, 4095, 1, 0, scratch), TG_DAMAGED);
  uint32_t rows;
  tg__set32(packed, 1 << 20);
  tg__set32(packed + 8, 1 << 20);
  assert_false(tg__array_rows(packed, 17, 1, &rows)); /* a megabyte out of one byte: beyond what zstd can do */
}
/* A build without zstd writes arrays as they are, and says so when it meets a packed one. */
static void test_no_zstd(void **state) {
  if (has_zstd()) skip();
  static uint8_t values[4096], back[4096];
  const size_t len = tg__array_pack(values, sizeof values, (struct tg__packing_plan){.width = 1}, scratch, packed);
  assert_int_equal(len, TG_PACKED_HEAD_BYTES + sizeof values);
  assert_int_equal(packed[6], 0);
  static const uint8_t frame[] = {4, 0,    0,    0,    1,    0,    1, 0,    4, 0, 0, 0, 0, 0, 0,
                                  0, 0x28, 0xB5, 0x2F, 0xFD, 0x20, 4, 0x21, 0, 0, 0, 0, 0, 0};
  assert_int_equal(tg__array_unpack(frame, sizeof frame, back, 4, 1, 0, scratch), TG_UNSUPPORTED);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_delta_varint),
      cmocka_unit_test(test_optional_delta),
      cmocka_unit_test(test_row_references),
      cmocka_unit_test(test_shuffle),
      cmocka_unit_test(test_no_rows),
      cmocka_unit_test(test_round_trips),
      cmocka_unit_test(test_optional_overflow),
      cmocka_unit_test(test_refuses_lies),
      cmocka_unit_test(test_refuses_wrong_frames),
      cmocka_unit_test(test_no_zstd),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
