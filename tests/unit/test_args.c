/* Looking up a key in the args of events: one by one and many at a time, over values of every length and kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/mini_trace.h"

enum { FIRST = 11, ROWS = 40 * FIRST, UNKNOWN = -77 };

static int64_t seed = 1;
static int64_t any_number(void) { /* from one to ten bytes long when packed */
  seed = (int64_t)((uint64_t)seed * 6364136223846793005u + 1442695040888963407u);
  return seed >> ((uint64_t)seed >> 4 & 63);
}

/* So many values of mixed kinds, each some bytes long. */
static void add_others(struct mini *m, int count) {
  for (int k = 0; k < count; k++) {
    char key[8];
    snprintf(key, sizeof key, "k%d", k);
    if (k % 4 == 1)
      mini_arg_dec(m, key, any_number(), 3);
    else if (k % 4 == 2)
      mini_arg_str(m, key, k % 8 == 2 ? "word" : "another");
    else if (k % 4 == 3)
      mini_arg_raw(m, key, "[1,2]");
    else
      mini_arg_int(m, key, any_number());
  }
}

/* Row i has i % FIRST values before the one looked for, in one of these forms; the expected answer of tg__arg_int. */
static int64_t add_wanted(struct mini *m, int form) {
  const int64_t v = any_number();
  switch (form) {
  case 0:
    return UNKNOWN;
  case 1:
    mini_arg_str(m, "wanted", "4711");
    return 4711;
  case 2:
    mini_arg_str(m, "wanted", "none");
    return UNKNOWN;
  case 3:
    mini_arg_dec(m, "wanted", 1200, 2);
    return 12;
  case 4:
    mini_arg_dec(m, "wanted", 1250, 2);
    return UNKNOWN;
  default:
    mini_arg_int(m, "wanted", v);
    return v;
  }
}

static void a_key_is_found_behind_any_others(void **state) {
  struct mini *const m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  int64_t expected[ROWS + 1], found[ROWS + 1];
  uint32_t args[ROWS + 1];
  int row[ROWS];
  for (int i = 0; i < ROWS; i++) {
    row[i] = mini_slice(m, cpu, "cpu_op", "op", 10 * i, 5);
    add_others(m, i % FIRST);
    expected[i] = add_wanted(m, i / 3 % 8); /* some rows of one make follow each other */
    add_others(m, i % 2);
  }
  struct tg__columns *const t = mini_finish(m);
  const uint32_t key = mini_text(m, "wanted");
  for (int i = 0; i < ROWS; i++) args[i] = t->slices.args[mini_id(m, row[i])];
  args[ROWS] = TG_NONE;
  expected[ROWS] = UNKNOWN;
  tg__arg_ints(t, args, ROWS + 1, key, UNKNOWN, found);
  for (int i = 0; i <= ROWS; i++) {
    if (tg__arg_int(t, args[i], key, UNKNOWN) != expected[i])
      fail_msg("row %d: %lld", i, (long long)tg__arg_int(t, args[i], key, UNKNOWN));
    if (found[i] != expected[i]) fail_msg("row %d among others: %lld", i, (long long)found[i]);
  }
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_key_is_found_behind_any_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
