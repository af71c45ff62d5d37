/* Memory, arena, map and sorting, each also with allocations that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static int reset_allocator(void **state) {
  (void)state;
  tg__alloc_fail_after(-1);
  return 0;
}

static void alloc_is_zeroed_and_fails_on_demand(void **state) {
  unsigned char *p = tg__alloc(1000);
  assert_non_null(p);
  for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
  tg__alloc_fail_after(3);
  void *first = tg__alloc(1), *second = tg__alloc(1);
  assert_non_null(first);
  assert_non_null(second);
  assert_null(tg__alloc(1));
  assert_null(tg__realloc(p, 2000)); /* p stays good */
  tg__alloc_fail_after(-1);
  tg__free(first);
  tg__free(second);
  tg__free(p);
}

static void grow_keeps_contents_and_survives_failure(void **state) {
  void *items = NULL;
  size_t cap = 0;
  for (size_t i = 0; i < 1000; i++) {
    assert_true(tg__grow(&items, &cap, i + 1, sizeof(uint32_t)));
    assert_true(cap > i);
    ((uint32_t *)items)[i] = (uint32_t)(i * 7);
  }
  for (size_t i = 0; i < 1000; i++) assert_int_equal(((uint32_t *)items)[i], i * 7);
  void *const before = items;
  const size_t cap_before = cap;
  tg__alloc_fail_after(1);
  assert_false(tg__grow(&items, &cap, cap + 1, sizeof(uint32_t)));
  tg__alloc_fail_after(-1);
  assert_ptr_equal(items, before);
  assert_int_equal(cap, cap_before);
  assert_false(tg__grow(&items, &cap, SIZE_MAX / 2, sizeof(uint32_t))); /* would overflow */
  assert_ptr_equal(items, before);
  tg__free(items);
}

/* Blocks of all sizes around the border at which they lie on pages, each filled with a letter of its own. */
enum { BLOCKS = 24, MOST_BYTES = 700 << 10 };
struct block {
  unsigned char *bytes, letter;
  size_t size;
};

static void look_at(const struct block *b, size_t upto) {
  for (size_t i = 0; i < upto; i++)
    if (b->bytes[i] != b->letter) fail_msg("byte %zu of %zu is %d, not %d", i, b->size, b->bytes[i], b->letter);
}

static void fill(struct block *b, size_t size, unsigned char letter) {
  b->size = size;
  b->letter = letter;
  memset(b->bytes, letter, size);
}

static void begin_block(struct block *b, size_t size, unsigned char letter) {
  b->bytes = tg__alloc(size);
  assert_non_null(b->bytes);
  b->letter = 0;
  b->size = size;
  look_at(b, size); /* zero, whoever had the memory before */
  fill(b, size, letter);
}

static void change_block(struct block *b, size_t size, unsigned char letter) {
  b->bytes = tg__realloc(b->bytes, size);
  assert_non_null(b->bytes);
  look_at(b, size < b->size ? size : b->size);
  fill(b, size, letter);
}

static void blocks_of_any_size_keep_what_is_theirs(void **state) {
  enum { HELD = 64 << 20 };
  void *const held = tg__pages_get(HELD); /* what is in use decides how many pages are kept for the next */
  struct block blocks[BLOCKS] = {0};
  uint32_t seed = 7;
  for (int step = 0; step < 3000; step++) {
    seed = seed * 1664525u + 1013904223u;
    struct block *const b = &blocks[(seed >> 8) % BLOCKS];
    const size_t size = 1 + (seed >> 4) % ((seed >> 28) < 4 ? 300 : MOST_BYTES);
    const unsigned char letter = (unsigned char)(1 + step % 255);
    if (!b->bytes) {
      begin_block(b, size, letter);
    } else if (seed >> 31) {
      change_block(b, size, letter);
    } else {
      look_at(b, b->size);
      tg__free(b->bytes);
      *b = (struct block){0};
    }
  }
  for (int k = 0; k < BLOCKS; k++) {
    if (blocks[k].bytes) look_at(&blocks[k], blocks[k].size);
    tg__free(blocks[k].bytes);
  }
  tg__pages_drop(held, HELD);
  tg__pages_return();
}

static void a_long_array_outlives_failure(void **state) {
  void *items = NULL;
  size_t cap = 0;
  for (size_t i = 0; i < 200000; i++) { /* from malloc's blocks over to those on pages */
    assert_true(tg__grow(&items, &cap, i + 1, sizeof(uint32_t)));
    ((uint32_t *)items)[i] = (uint32_t)(i * 7);
  }
  const size_t cap_before = cap;
  tg__alloc_fail_after(1);
  assert_false(tg__grow(&items, &cap, cap + 1, sizeof(uint32_t)));
  assert_null(tg__alloc(1 << 20));
  assert_null(tg__realloc(NULL, 1 << 20));
  tg__alloc_fail_after(-1);
  assert_int_equal(cap, cap_before);
  for (size_t i = 0; i < 200000; i++) assert_int_equal(((uint32_t *)items)[i], i * 7);
  tg__free(items);
}

static void pages_are_zero_and_can_be_released(void **state) {
  enum { BYTES = 5 << 20 };
  unsigned char *p = tg__pages_get(BYTES);
  assert_non_null(p);
  memset(p, 7, BYTES);
  tg__pages_release(p, 100, 3 << 20); /* the first page is only partly inside, so it stays */
  assert_int_equal(p[0], 7);
  assert_int_equal(p[99], 7);
  assert_int_equal(p[1 << 20], 0);
  assert_int_equal(p[(3 << 20) - 1], 0);
  assert_int_equal(p[3 << 20], 7);
  assert_int_equal(p[BYTES - 1], 7);
  tg__pages_drop(p, BYTES);
  tg__alloc_fail_after(1);
  assert_null(tg__pages_get(1));
}

static void arena_keeps_everything_apart(void **state) {
  enum { COUNT = 3000 };
  struct tg__arena a = {0};
  char *texts[COUNT];
  for (int i = 0; i < COUNT; i++) { /* lengths 0 … 2999: small, half a block, larger than a block */
    static char text[COUNT];
    memset(text, 'a' + i % 26, (size_t)i);
    texts[i] = tg__arena_copy(&a, text, (size_t)i);
    assert_non_null(texts[i]);
    assert_int_equal((uintptr_t)texts[i] % 8, 0);
  }
  char *const large = tg__arena_get(&a, 3 << 20);
  assert_non_null(large);
  memset(large, 1, 3 << 20);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(strlen(texts[i]), i);
    if (i) assert_int_equal(texts[i][i - 1], 'a' + i % 26);
  }
  tg__arena_free(&a);
  assert_null(a.head);
  assert_null(tg__arena_get(&a, SIZE_MAX));
  tg__alloc_fail_after(1);
  assert_null(tg__arena_get(&a, 1));
}

static void map_holds_any_key(void **state) {
  struct tg__map m = {0};
  assert_int_equal(tg__map_get(&m, 5), TG_NONE);
  const uint64_t odd[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 32, UINT64_C(1) << 63};
  for (uint32_t i = 0; i < 6; i++) assert_true(tg__map_put(&m, odd[i], i));
  for (uint64_t k = 10; k < 5000; k++)
    assert_true(tg__map_put(&m, (k << 20) + 3, (uint32_t)k)); /* all low bits alike */
  assert_int_equal(m.count, 6 + 4990);
  for (uint32_t i = 0; i < 6; i++) assert_int_equal(tg__map_get(&m, odd[i]), i);
  for (uint64_t k = 10; k < 5000; k++) assert_int_equal(tg__map_get(&m, (k << 20) + 3), k);
  assert_int_equal(tg__map_get(&m, 7), TG_NONE);
  assert_true(tg__map_put(&m, 0, 77));
  assert_int_equal(tg__map_get(&m, 0), 77);
  uint32_t *slot = tg__map_slot(&m, 0, 5);
  assert_int_equal(*slot, 77); /* known: `fresh` is not used */
  slot = tg__map_slot(&m, 123456789, 5);
  assert_int_equal(*slot, 5);
  assert_int_equal(m.count, 6 + 4990 + 1);
  tg__map_free(&m);
  assert_int_equal(tg__map_get(&m, 0), TG_NONE);
}

static void map_survives_failure(void **state) {
  struct tg__map m = {0};
  for (uint64_t k = 0; k < 12; k++) assert_true(tg__map_put(&m, k, (uint32_t)k + 100)); /* 12 of 16: full */
  for (long calls = 1; calls <= 3; calls++) {
    tg__alloc_fail_after(calls);
    assert_false(tg__map_put(&m, 99, 1));
    tg__alloc_fail_after(-1);
    for (uint64_t k = 0; k < 12; k++) assert_int_equal(tg__map_get(&m, k), k + 100);
    assert_int_equal(tg__map_get(&m, 99), TG_NONE);
  }
  assert_true(tg__map_put(&m, 99, 1));
  tg__map_free(&m);
}

/* ---- sorting --------------------------------------------------------------------------------- */

struct keys {
  const uint32_t *values;
  size_t calls;
};

static bool by_key(uint32_t a, uint32_t b, const void *ctx) {
  struct keys *k = (struct keys *)ctx;
  k->calls++;
  return k->values[a] < k->values[b];
}

/* Sort indexes 0…n-1 by keys and check the three things that make it right. Returns the comparisons made. */
static size_t check_sorted(const uint32_t *values, uint32_t n) {
  struct keys k = {values, 0};
  uint32_t *index = tg__alloc((n + 1) * sizeof *index);
  unsigned char *seen = tg__alloc(n + 1);
  for (uint32_t i = 0; i < n; i++) index[i] = i;
  assert_true(tg__sort_index(index, n, by_key, &k));
  for (uint32_t i = 0; i < n; i++) {
    assert_true(index[i] < n && !seen[index[i]]);
    seen[index[i]] = 1;
    if (!i) continue;
    const uint32_t a = index[i - 1], b = index[i];
    assert_true(values[a] < values[b] || (values[a] == values[b] && a < b)); /* in order, and equal ones as they came */
  }
  tg__free(seen);
  tg__free(index);
  return k.calls;
}

static uint32_t next_random(uint64_t *x) {
  *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*x >> 33);
}

static void sort_is_right_on_all_shapes(void **state) {
  enum { MOST = 3000 };
  static uint32_t v[MOST];
  uint64_t seed = 42;
  for (uint32_t n = 0; n < 300; n++) { /* every small length, few distinct values: stability shows */
    for (uint32_t i = 0; i < n; i++) v[i] = next_random(&seed) % 10;
    check_sorted(v, n);
  }
  for (uint32_t range = 1; range <= 1000000; range *= 10) {
    for (uint32_t i = 0; i < MOST; i++) v[i] = next_random(&seed) % range;
    check_sorted(v, MOST);
  }
  for (uint32_t i = 0; i < MOST; i++) v[i] = MOST - i;
  check_sorted(v, MOST);
  for (uint32_t i = 0; i < MOST; i++) v[i] = i % 100; /* saw teeth */
  check_sorted(v, MOST);
}

static void sort_is_cheap_on_what_is_nearly_in_order(void **state) {
  enum { N = 100000 };
  static uint32_t v[N];
  for (uint32_t i = 0; i < N; i++) v[i] = i;
  assert_int_equal(check_sorted(v, N), N - 1); /* in order: each neighbour pair once */
  v[N / 2] = 0;                                /* one out of place */
  assert_true(check_sorted(v, N) < 3 * (size_t)N);
}

static void sort_fails_without_memory_and_keeps_all(void **state) {
  enum { N = 100 };
  uint32_t v[N], index[N], sum = 0;
  for (uint32_t i = 0; i < N; i++) {
    v[i] = i * 37 % 101;
    index[i] = i;
  }
  struct keys k = {v, 0};
  for (long calls = 1; calls <= 2; calls++) {
    tg__alloc_fail_after(calls);
    assert_false(tg__sort_index(index, N, by_key, &k));
    tg__alloc_fail_after(-1);
  }
  for (uint32_t i = 0; i < N; i++) sum += index[i];
  assert_int_equal(sum, N * (N - 1) / 2);
}

struct item {
  uint32_t key, number;
  char text[4];
};

static bool item_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct item *const items = ctx;
  return items[a].key < items[b].key;
}

static void sort_moves_whole_items(void **state) {
  enum { N = 100 };
  struct item *items = tg__alloc(N * sizeof *items);
  for (uint32_t i = 0; i < N; i++) items[i] = (struct item){.key = i * 37 % 10, .number = i, .text = {(char)i}};
  struct item *const before = items;
  for (long calls = 1; calls <= 4; calls++) {
    tg__alloc_fail_after(calls);
    assert_false(tg__sort_items((void **)&items, N, sizeof *items, item_before, items));
    tg__alloc_fail_after(-1);
    assert_ptr_equal(items, before);
  }
  assert_true(tg__sort_items((void **)&items, N, sizeof *items, item_before, items));
  for (uint32_t i = 0; i < N; i++) {
    assert_int_equal(items[i].key, i / 10); /* ten of each */
    assert_int_equal(items[i].key, items[i].number * 37 % 10);
    assert_int_equal(items[i].text[0], items[i].number);
    if (i % 10) assert_true(items[i].number > items[i - 1].number);
  }
  tg__free(items);
  items = NULL;
  assert_true(tg__sort_items((void **)&items, 0, sizeof *items, item_before, items));
  tg__free(items);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(alloc_is_zeroed_and_fails_on_demand, reset_allocator),
      cmocka_unit_test_teardown(grow_keeps_contents_and_survives_failure, reset_allocator),
      cmocka_unit_test(blocks_of_any_size_keep_what_is_theirs),
      cmocka_unit_test_teardown(a_long_array_outlives_failure, reset_allocator),
      cmocka_unit_test_teardown(pages_are_zero_and_can_be_released, reset_allocator),
      cmocka_unit_test_teardown(arena_keeps_everything_apart, reset_allocator),
      cmocka_unit_test_teardown(map_holds_any_key, reset_allocator),
      cmocka_unit_test_teardown(map_survives_failure, reset_allocator),
      cmocka_unit_test(sort_is_right_on_all_shapes),
      cmocka_unit_test(sort_is_cheap_on_what_is_nearly_in_order),
      cmocka_unit_test_teardown(sort_fails_without_memory_and_keeps_all, reset_allocator),
      cmocka_unit_test_teardown(sort_moves_whole_items, reset_allocator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
