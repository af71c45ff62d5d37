/* Greeting, chunk heads, the walk over a damaged file, index and footer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "format/format.h"

struct memory {
  uint8_t bytes[8192];
  size_t len;
};

static bool read_memory(void *ctx, uint64_t offset, void *to, size_t len) {
  const struct memory *const m = ctx;
  if (offset > m->len || len > m->len - offset) return false;
  memcpy(to, m->bytes + offset, len);
  return true;
}

static struct tg__reader reader_of(struct memory *m) {
  return (struct tg__reader){.read = read_memory, .ctx = m, .len = m->len};
}

static void put(struct memory *m, uint16_t type, uint32_t part, uint32_t flags, const void *payload, size_t len) {
  tg__chunk_head_write(m->bytes + m->len, type, part, flags, len, flags ? 0 : tg__checksum(payload, len));
  memcpy(m->bytes + m->len + TG_CHUNK_HEAD_BYTES, payload, len);
  m->len += (size_t)tg__chunk_span(len);
}

static void greet(struct memory *m) {
  memset(m, 0, sizeof *m);
  tg__greeting_write(m->bytes);
  m->len = TG_GREETING_BYTES;
}

static void test_greeting(void **state) {
  uint8_t g[TG_GREETING_BYTES];
  struct tg_error e;
  tg__greeting_write(g);
  assert_memory_equal(g, "\x89TACHO\r\n\x01\x00\x00\x00", 12);
  assert_true(tg__greeting_recognise(g, 8));
  assert_false(tg__greeting_recognise(g, 7));
  assert_false(tg__greeting_recognise("{\"trace", 8));
  assert_int_equal(tg__greeting_check(g, sizeof g, &e), TG_OK);
  assert_int_equal(tg__greeting_check(g, 15, &e), TG_DAMAGED);
  assert_int_equal(tg__greeting_check("{\"traceEvents\":[", 16, &e), TG_NOT_A_TRACE);
  for (size_t bit = 0; bit < 8 * sizeof g; bit++) {
    uint8_t bad[TG_GREETING_BYTES];
    memcpy(bad, g, sizeof g);
    bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(tg__greeting_check(bad, sizeof bad, &e), bit < 64 ? TG_NOT_A_TRACE : TG_DAMAGED);
  }
  tg__set16(g + 8, TG_FORMAT_MAJOR + 1);
  tg__set32(g + 12, (uint32_t)tg__checksum(g, 12));
  assert_int_equal(tg__greeting_check(g, sizeof g, &e), TG_UNSUPPORTED);
  assert_non_null(strstr(e.text, "version 2"));
}

static void test_head_bytes(void **state) {
  uint8_t head[TG_CHUNK_HEAD_BYTES];
  tg__chunk_head_write(head, TG_CHUNK_ARGS, 0x01020304, 0, 5, 0x1122334455667788);
  const uint8_t first[28] = {0x54, 0x67, 80, 0, 4,    3,    2,    1,    5,    0,    0,    0,
                             0,    0,    0,  0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  assert_memory_equal(head, first, sizeof first);
  struct tg__chunk c;
  assert_true(tg__chunk_head_read(head, 16, 16 + 32 + 5, &c));
  assert_int_equal(c.type, TG_CHUNK_ARGS);
  assert_int_equal(c.part, 0x01020304);
  assert_int_equal(c.length, 5);
  assert_false(tg__chunk_head_read(head, 16, 16 + 32 + 4, &c)); /* the payload is not all there */
  assert_false(tg__chunk_head_read(head, 12, 100, &c));         /* not at a multiple of 8 */
  assert_false(tg__chunk_head_read(head, 16, 16 + 31, &c));     /* nor is the head */
  for (size_t bit = 0; bit < 8 * sizeof head; bit++) {
    head[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_false(tg__chunk_head_read(head, 16, 1000, &c));
    head[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

static void test_names(void **state) {
  assert_string_equal(tg__chunk_name(TG_CHUNK_SLICE_START), "SLICE_START");
  assert_null(tg__chunk_name(9999));
}

static void test_walk_passes_over_damage(void **state) {
  struct memory m;
  struct tg__walk w;
  struct tg__chunk c;
  greet(&m);
  put(&m, TG_CHUNK_ARGS, 0, 0, "hello", 5); /* at 16, span 40 */
  put(&m, 9999, 1, 0, "future", 6);         /* at 56 */
  put(&m, TG_CHUNK_ARGS, 2, 0, "", 0);      /* at 96, span 32 */
  const size_t len = m.len;
  assert_int_equal(len, 128);
  for (int damage = 0; damage < 2; damage++) {
    if (damage) m.bytes[60] ^= 1; /* the head of the second */
    const struct tg__reader r = reader_of(&m);
    tg__walk_begin(&w, &r);
    assert_true(tg__walk_next(&w, &c));
    assert_int_equal(c.offset, 16);
    assert_true(tg__chunk_is_intact(&c, m.bytes + 48));
    assert_false(tg__chunk_is_intact(&c, m.bytes + 47));
    if (!damage) assert_true(tg__walk_next(&w, &c) && c.type == 9999 && c.offset == 56);
    assert_true(tg__walk_next(&w, &c));
    assert_int_equal(c.offset, 96);
    assert_false(tg__walk_next(&w, &c));
    assert_int_equal(w.gaps, damage);
    if (damage) assert_int_equal(w.first_gap, 56);
  }
}

static void test_walk_sees_the_cut(void **state) {
  struct memory m;
  struct tg__walk w;
  struct tg__chunk c;
  greet(&m);
  put(&m, TG_CHUNK_ARGS, 0, 0, "hello", 5);
  put(&m, TG_CHUNK_ARGS, 1, 0, "world", 5);
  for (size_t len = 17; len < 96; len++) {
    m.len = len;
    const struct tg__reader r = reader_of(&m);
    unsigned found = 0;
    for (tg__walk_begin(&w, &r); tg__walk_next(&w, &c);) found++;
    assert_int_equal(found, (len >= 16 + 37) + (len >= 56 + 37)); /* padding may be missing */
    assert_int_equal(w.gaps, len < 53 || (len > 56 && len < 93));
  }
}

/* A head may lie anywhere at a multiple of 8, also where two of the walk's windows meet. */
static void test_walk_finds_a_head_anywhere(void **state) {
  static struct memory m;
  for (size_t gap = 8; gap + 200 < sizeof m.bytes; gap += 8) {
    greet(&m);
    if (gap % 16) m.bytes[16 + gap - 1] = 1; /* otherwise the gap is room never used, and no damage */
    m.len += gap;
    put(&m, TG_CHUNK_ARGS, 7, 0, "x", 1);
    const struct tg__reader r = reader_of(&m);
    struct tg__walk w;
    struct tg__chunk c;
    tg__walk_begin(&w, &r);
    assert_true(tg__walk_next(&w, &c));
    assert_int_equal(c.offset, 16 + gap);
    assert_false(tg__walk_next(&w, &c));
    assert_int_equal(w.gaps, gap % 16 != 0);
  }
}

static void test_footer_and_entries(void **state) {
  struct memory m;
  uint8_t footer[TG_FOOTER_BYTES], entry[TG_INDEX_ENTRY_BYTES];
  greet(&m);
  put(&m, TG_CHUNK_ARGS, 3, 0, "hello", 5);
  tg__set64(footer, 16);
  tg__set64(footer + 8, m.len + TG_CHUNK_HEAD_BYTES + TG_FOOTER_BYTES);
  put(&m, TG_CHUNK_FOOTER, 0, 0, footer, sizeof footer);
  struct tg__reader r = reader_of(&m);
  assert_int_equal(tg__footer_find(&r), 16);
  r.len--;
  assert_int_equal(tg__footer_find(&r), 0);
  r.len++;
  for (size_t bit = 0; bit < 8 * (TG_CHUNK_HEAD_BYTES + TG_FOOTER_BYTES); bit++) {
    uint8_t *const p = m.bytes + 56 + bit / 8;
    *p ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(tg__footer_find(&r), 0);
    *p ^= (uint8_t)(1 << bit % 8);
  }
  struct tg__chunk c = {.type = TG_CHUNK_ARGS, .part = 3, .offset = 16, .length = 5}, back;
  tg__index_entry_write(entry, &c);
  const uint8_t bytes[] = {80, 0, 0, 0, 3, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 5};
  assert_memory_equal(entry, bytes, sizeof bytes);
  assert_true(tg__index_entry_read(entry, 53, &back));
  assert_int_equal(back.part, 3);
  assert_false(tg__index_entry_read(entry, 52, &back));
  tg__set64(entry + 16, UINT64_MAX - 10); /* offset + length would wrap around */
  assert_false(tg__index_entry_read(entry, 53, &back));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greeting),
      cmocka_unit_test(test_head_bytes),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_walk_passes_over_damage),
      cmocka_unit_test(test_walk_sees_the_cut),
      cmocka_unit_test(test_walk_finds_a_head_anywhere),
      cmocka_unit_test(test_footer_and_entries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
