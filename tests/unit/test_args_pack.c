/* Args with the values of each field apart: bytes worked out by hand, random blocks back byte for byte, hostile
 * payloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "trace/tables.h"
#include "unit/sweep.h"

/* Schema 0: nothing. 1: an integer. 2: decimal, true, text. 3: all kinds twice. */
static const struct tg__field fields[] = {
    {1, TG__KIND_INT, false},   {2, TG__KIND_DEC, false},  {3, TG__KIND_TRUE, false},
    {4, TG__KIND_STR, true},    {5, TG__KIND_INT, false},  {6, TG__KIND_RAW, false},
    {7, TG__KIND_FALSE, false}, {8, TG__KIND_NULL, false}, {9, TG__KIND_DEC, true}};
static struct tg__schema schemas[] = {{0, false, fields}, {1, true, fields}, {3, true, fields + 1}, {9, true, fields}};

static struct tg__columns trace_of(const uint8_t *args, uint64_t bytes) {
  return (struct tg__columns){.schemas = schemas, .schema_count = 4, .args = args, .args_bytes = bytes};
}

static void test_counting_up(void **state) {
  /* 1000, 1001, 1002: zigzag varints D0 0F, D2 0F, D4 0F; as differences 1000, 1, 1: D0 0F, 02, 02 */
  static const uint8_t args[] = {1,    0, 0, 0xD0, 0x0F, 0, 0, 0,    1,    0, 0, 0xD2,
                                 0x0F, 0, 0, 0,    1,    0, 0, 0xD4, 0x0F, 0, 0, 0};
  static const uint8_t payload[] = {
      19, 0, 0, 0, 3, 0, 0, 0, 4, TG_T_VARINT, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 1,    1, /* ids */
      17, 0, 0, 0, 1, 0, 0, 0, 4, TG_T_VARINT, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5,          /* one stream of 5 */
      21, 0, 0, 0, 5, 0, 0, 0, 1, 0,           0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0xD0, 0x0F, 2, 2};
  const struct tg__columns t = trace_of(args, sizeof args);
  uint8_t back[sizeof args];
  size_t len;
  assert_int_equal(tg__args_block_end(&t, 0), sizeof args);
  uint8_t *const p = tg__args_pack(&t, args, sizeof args, &len);
  assert_non_null(p);
  assert_int_equal(len, sizeof payload);
  assert_memory_equal(p, payload, len);
  assert_int_equal(tg__args_unpack(&t, p, len, back, sizeof back), TG_OK);
  assert_memory_equal(back, args, sizeof args);
  tg__free(p);
}

static void test_not_entries(void **state) {
  static const struct {
    uint8_t bytes[12];
    size_t len;
    const char *why;
  } bad[] = {
      {{4, 0, 0, 0}, 4, "a schema that does not exist"},
      {{1, 0, 0, 0x80, 0, 0, 0, 0}, 8, "a varint longer than needed"},
      {{0, 0, 0, 7}, 4, "padding that is not zero"},
      {{1, 0, 0}, 3, "no value"},
      {{0, 0, 0}, 3, "no padding"},
      {{1, 0, 0, 0x80}, 4, "half a varint"},
      {{2, 0, 0, 1}, 4, "decimals without digits"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct tg__columns t = trace_of(bad[i].bytes, bad[i].len);
    if (tg__args_block_end(&t, 0)) fail_msg("%s", bad[i].why);
  }
}

static uint64_t seed = 7;
static uint64_t random64(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed ^ seed >> 29;
}

static size_t put_varint(uint8_t *p, uint64_t v) {
  size_t n = 0;
  for (; v >= 0x80; v >>= 7) p[n++] = (uint8_t)(v | 0x80);
  p[n++] = (uint8_t)v;
  return n;
}

/* Entries of random schemas with values of every length, up to `most` bytes. */
static size_t random_entries(uint8_t *out, size_t most) {
  size_t n = 0;
  while (n + 128 < most) {
    const size_t start = n;
    const uint32_t id = (uint32_t)(random64() >> 40) % 4;
    out[n++] = (uint8_t)id;
    out[n++] = 0;
    out[n++] = 0;
    for (uint16_t i = 0; i < schemas[id].count; i++) {
      const unsigned kind = schemas[id].fields[i].kind;
      if (kind == TG__KIND_DEC) out[n++] = (uint8_t)(random64() >> 50);
      const unsigned shift = (unsigned)(random64() >> 58);
      if (kind <= TG__KIND_RAW) n += put_varint(out + n, random64() >> shift);
    }
    while ((n - start) % 4) out[n++] = 0;
  }
  return n;
}

static void test_random_blocks(void **state) {
  enum { BYTES = 3 << 20 };
  uint8_t *const args = malloc(BYTES), *const back = malloc(TACHO_ARGS_BLOCK);
  const struct tg__columns t = trace_of(args, random_entries(args, BYTES));
  unsigned blocks = 0;
  for (uint64_t at = 0; at < t.args_bytes; blocks++) {
    const uint64_t end = tg__args_block_end(&t, at);
    size_t len;
    assert_true(end > at && end - at <= TACHO_ARGS_BLOCK);
    assert_true(end == t.args_bytes ||
                end - at > TACHO_ARGS_BLOCK - 128); /* full: no entry here is longer than 128 bytes */
    uint8_t *const p = tg__args_pack(&t, args + at, (uint32_t)(end - at), &len);
    assert_true(len <= TACHO_ARGS_ROOM);
    assert_int_equal(tg__args_unpack(&t, p, len, back, (uint32_t)(end - at)), TG_OK);
    assert_memory_equal(back, args + at, (size_t)(end - at));
    assert_int_equal(tg__args_unpack(&t, p, len, back, (uint32_t)(end - at) - 4),
                     TG_DAMAGED); /* no room for the last entry */
    tg__free(p);
    at = end;
  }
  assert_in_range(blocks, 6,
                  7); /* 3 MiB less 128 bytes, by half a MiB; a seventh holds what the others fell short of */
  free(args);
  free(back);
}

/* Any byte of a payload changed to anything: refused, or unpacked to exactly the room there is; the sanitizers watch.
 */
static void test_hostile_payloads(void **state) {
  uint8_t args[2048], back[2048];
  const struct tg__columns t = trace_of(args, random_entries(args, sizeof args));
  const uint32_t bytes = (uint32_t)t.args_bytes;
  size_t len, refused = 0;
  uint8_t *const p = tg__args_pack(&t, args, bytes, &len);
  for (size_t i = 0; i < len; i++) {
    for (unsigned flip = 1; flip < 256; flip += 2 * (unsigned)sweep_step()) {
      p[i] ^= (uint8_t)flip;
      refused += tg__args_unpack(&t, p, len, back, bytes) != TG_OK;
      p[i] ^= (uint8_t)flip;
    }
    assert_true(tg__args_unpack(&t, p, i, back, bytes) == TG_DAMAGED);
  }
  assert_true(refused > len * 8 / sweep_step());
  tg__free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counting_up),
      cmocka_unit_test(test_not_entries),
      cmocka_unit_test(test_random_blocks),
      cmocka_unit_test(test_hostile_payloads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
