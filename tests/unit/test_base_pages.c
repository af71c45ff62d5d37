/* Pages that are given back and handed out again: in any order, no user sees another's, and zeroed ones are zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "unit/held.h"

enum { MB = 1 << 20 };

/* ---- any order ------------------------------------------------------------------------------- */

enum { SLOTS = 24, TURNS = 1500, STRIDE = 4096, THREADS = 4 };

struct held {
  uint8_t *p;
  size_t bytes; /* what to give to tg__pages_drop */
  uint8_t mark;
  bool is_block; /* of tg__alloc or tg__realloc */
};
struct worker {
  struct held held[SLOTS];
  uint64_t seed;
  const char *wrong; /* the first thing that was */
};

static uint32_t below(struct worker *w, uint32_t most) {
  w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((w->seed >> 33) % most);
}

static bool all_are(const uint8_t *p, size_t from, size_t past, uint8_t value) {
  for (size_t i = from; i < past; i += STRIDE)
    if (p[i] != value) return false;
  return past == from || p[past - 1] == value;
}

static void mark_all(struct worker *w, struct held *h) {
  h->mark = (uint8_t)(1 + below(w, 255));
  memset(h->p, h->mark, h->bytes);
}

static void take(struct worker *w, struct held *h) {
  const bool zeroed = below(w, 2);
  h->bytes = 1 + below(w, below(w, 8) ? 300 << 10 : 6 * MB);
  h->is_block = below(w, 2);
  if (h->is_block)
    h->p = zeroed ? tg__alloc(h->bytes) : tg__realloc(NULL, h->bytes);
  else
    h->p = zeroed ? tg__pages_get(h->bytes) : tg__pages_used(h->bytes);
  if (!h->p) w->wrong = "none given";
  if (h->p && zeroed && !all_are(h->p, 0, h->bytes, 0)) w->wrong = "not zeroed";
  if (h->p) mark_all(w, h);
}

static void grow(struct worker *w, struct held *h) {
  const size_t before = h->bytes;
  const size_t want = before + below(w, MB);
  uint8_t *const block = h->is_block ? tg__realloc(h->p, want) : NULL;
  if (block) h->p = block, h->bytes = want;
  if (!block && (h->is_block || !tg__pages_grow(&h->p, &h->bytes, want))) w->wrong = "did not grow";
  if (!all_are(h->p, 0, before, h->mark)) w->wrong = "changed as it grew";
  mark_all(w, h);
}

static void drop(struct worker *w, struct held *h) {
  if (!all_are(h->p, 0, h->bytes, h->mark)) w->wrong = "somebody else wrote there";
  if (h->is_block)
    tg__free(h->p);
  else
    tg__pages_drop(h->p, h->bytes);
  *h = (struct held){0};
}

static void work(void *ctx, size_t who) {
  struct worker *const w = &((struct worker *)ctx)[who];
  for (int turn = 0; turn < TURNS && !w->wrong; turn++) {
    struct held *const h = &w->held[below(w, SLOTS)];
    if (!h->p)
      take(w, h);
    else if (below(w, 4) == 0)
      grow(w, h);
    else
      drop(w, h);
    if (below(w, 500) == 0) tg__pages_return();
  }
  for (struct held *h = w->held; h < w->held + SLOTS; h++)
    if (h->p) drop(w, h);
}

static void nobody_sees_anothers(void **state) {
  (void)state;
  static struct worker workers[THREADS];
  for (unsigned i = 0; i < THREADS; i++) workers[i].seed = 7 + i;
  tg__threads_run(THREADS, THREADS, work, workers);
  for (unsigned i = 0; i < THREADS; i++)
    if (workers[i].wrong) fail_msg("worker %u: %s", i, workers[i].wrong);
}

/* More than the table of big blocks has room for: the others are malloc's, and each is given back as what it is. */
static void any_number_of_big_blocks(void **state) {
  enum { COUNT = 6000, BYTES = 256 << 10 };
  (void)state;
  uint8_t **const blocks = tg__alloc(COUNT * sizeof *blocks);
  for (int round = 0; round < 2; round++) {
    for (uint32_t i = 0; i < COUNT; i++) {
      blocks[i] = tg__realloc(NULL, BYTES);
      assert_non_null(blocks[i]);
      memcpy(blocks[i], &i, sizeof i);
    }
    for (uint32_t k = 0; k < COUNT; k++) {
      const uint32_t i = k * 2741 % COUNT;
      assert_memory_equal(blocks[i], &i, sizeof i);
      if (i % 3 == 0) blocks[i] = tg__realloc(blocks[i], 2 * BYTES);
      assert_memory_equal(blocks[i], &i, sizeof i);
      tg__free(blocks[i]);
    }
  }
  tg__free(blocks);
  tg__pages_return();
}

/* Where a page begins, as big blocks do. */
static void blocks_of_malloc_at_a_page(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes < MB; bytes *= 3) {
    uint8_t *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(p);
    memset(p, 9, bytes);
    p = tg__realloc(p, bytes + 1);
    assert_non_null(p);
    assert_true(all_are(p, 0, bytes, 9));
    tg__free(p);
  }
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* Half of these beyond the first 24 MiB, or a quarter up to 4 MiB, may be kept. They are not written, so none is
 * resident. */
static uint8_t *use(size_t bytes) {
  uint8_t *const p = tg__pages_get(bytes);
  assert_non_null(p);
  return p;
}

/* Pages that are written, and so resident. */
static uint8_t *fill(size_t bytes) {
  uint8_t *const p = use(bytes);
  memset(p, 1, bytes);
  return p;
}

static void fill_and_drop(size_t bytes) { tg__pages_drop(fill(bytes), bytes); }

/* With nothing kept. A sanitizer's own memory comes and goes, so it is not judged. */
static int64_t held_without_kept(void) {
  if (getenv("TG_ANY_RESIDENT")) skip();
  tg__pages_return();
  return held_bytes();
}

static void kept_pages_come_again_and_can_be_sent_back(void **state) {
  (void)state;
  uint8_t *const others = use(54 * MB);
  const int64_t before = held_without_kept();
  uint8_t *const first = fill(8 * MB);
  tg__pages_drop(first, 8 * MB);
  assert_true(held_bytes() - before > 7 * MB);
  uint8_t *const again = tg__pages_used(8 * MB);
  assert_ptr_equal(again, first);
  assert_int_equal(again[MB], 1);
  tg__pages_drop(again, 8 * MB);
  tg__pages_drop(others, 54 * MB);
  assert_true(held_without_kept() - before < MB);
}

static void no_more_than_a_share_of_what_is_in_use_is_kept(void **state) {
  (void)state;
  uint8_t *const others = use(54 * MB);
  const int64_t before = held_without_kept();
  fill_and_drop(24 * MB);
  const int64_t kept = held_bytes() - before;
  assert_true(kept > 14 * MB && kept < 16 * MB); /* (54 - 24) / 2 */
  tg__pages_drop(others, 54 * MB);               /* now nothing is in use */
  uint8_t *const last = tg__pages_used(MB);
  assert_non_null(last);
  tg__pages_drop(last, MB);
  assert_true(held_bytes() - before < MB);
}

/* What stays resident of 12 MiB that were written and given back. */
static int64_t kept_of_twelve(void) {
  const int64_t before = held_without_kept();
  fill_and_drop(12 * MB);
  return held_bytes() - before;
}

static void a_quarter_of_little_is_kept(void **state) {
  (void)state;
  uint8_t *const others = use(8 * MB);
  const int64_t of_eight = kept_of_twelve();
  uint8_t *const more = use(10 * MB);
  const int64_t of_eighteen = kept_of_twelve();
  assert_true(of_eight > MB && of_eight < 3 * MB);
  assert_true(of_eighteen > 3 * MB && of_eighteen < 5 * MB);
  tg__pages_drop(more, 10 * MB);
  tg__pages_drop(others, 8 * MB);
  tg__pages_return();
}

static void no_more_than_a_bound_is_kept(void **state) {
  enum { MOST = 44, ALL = 96 };
  (void)state;
  uint8_t *const others = use(3 * ALL * MB);
  const int64_t before = held_without_kept();
  uint8_t *parts[ALL];
  for (int i = 0; i < ALL; i++) parts[i] = fill(MB);
  for (int i = 0; i < ALL; i++) tg__pages_drop(parts[i * 37 % ALL], MB); /* no neighbours one after the other */
  const int64_t kept = held_bytes() - before;
  assert_true(kept > (MOST - 2) * MB && kept < (MOST + 2) * MB);
  fill_and_drop(2 * MOST * MB);
  assert_true(held_bytes() - before < (MOST + 2) * MB);
  assert_true(held_without_kept() - before < 2 * MB);
  uint8_t *const kept_before = fill(8 * MB), *const p = fill(8 * MB);
  tg__pages_drop(kept_before, 8 * MB);
  tg__pages_keep_none(true);
  tg__pages_drop(p, 8 * MB);
  assert_true(held_bytes() - before < 2 * MB);
  tg__pages_keep_none(false);
  tg__pages_drop(others, 3 * ALL * MB);
}

static void sparse_pages_are_not_kept(void **state) {
  (void)state;
  const int64_t before = held_without_kept();
  uint8_t *const p = tg__pages_sparse(16 * MB);
  assert_non_null(p);
  memset(p, 1, 16 * MB);
  tg__pages_drop_sparse(p, 16 * MB);
  tg__pages_drop_sparse(NULL, 16 * MB);
  tg__pages_drop(NULL, 16 * MB);
  assert_true(held_bytes() - before < MB);
}

static void failure_leaves_everything(void **state) {
  (void)state;
  uint8_t *p = tg__pages_get(MB);
  size_t cap = MB;
  memset(p, 5, MB);
  tg__alloc_fail_after(1);
  assert_null(tg__pages_used(MB));
  assert_null(tg__pages_sparse(MB));
  uint8_t *const before = p;
  assert_false(tg__pages_grow(&p, &cap, 2 * MB));
  tg__alloc_fail_after(-1);
  assert_ptr_equal(p, before);
  assert_int_equal(cap, MB);
  assert_int_equal(p[MB - 1], 5);
  assert_false(tg__pages_grow(&p, &cap, SIZE_MAX));
  assert_null(tg__pages_get(SIZE_MAX));
  tg__pages_drop(p, cap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_sees_anothers),
      cmocka_unit_test(any_number_of_big_blocks),
      cmocka_unit_test(blocks_of_malloc_at_a_page),
      cmocka_unit_test(kept_pages_come_again_and_can_be_sent_back),
      cmocka_unit_test(no_more_than_a_share_of_what_is_in_use_is_kept),
      cmocka_unit_test(a_quarter_of_little_is_kept),
      cmocka_unit_test(no_more_than_a_bound_is_kept),
      cmocka_unit_test(sparse_pages_are_not_kept),
      cmocka_unit_test(failure_leaves_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
