/* Tests of search, selections and links: each against all slices one by one, on random traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/mini_trace.h"
#include "unit/random_trace.h"
#include "view/view.h"

struct scene {
  struct tg__columns *t;
  struct tg__view *v;
  struct tg__slice_classes classes;
};

static struct scene open_scene(uint64_t seed) {
  struct scene s = {.t = random_trace(seed, 1500, 2000000)};
  struct tg_error e;
  assert_non_null(s.t);
  assert_int_equal(tg__view_open(s.t, 1, &s.v, &e), TG_OK);
  assert_true(tg__slice_classes_open(&s.classes, s.t));
  return s;
}

static void close_scene(struct scene *s) {
  tg__slice_classes_close(&s->classes);
  tg__view_close(s->v);
  tg__trace_free(s->t);
}

static int64_t time_of(const struct scene *s, uint32_t slice) { return s->t->slices.start_ns[slice] - s->v->origin_ns; }

/* ---- search ---------------------------------------------------------------------------------------- */

/* Is a before b in time? */
static bool before(const struct scene *s, uint32_t a, uint32_t b) {
  return time_of(s, a) != time_of(s, b) ? time_of(s, a) < time_of(s, b) : a < b;
}

static bool is_wanted(const struct scene *s, uint32_t slice, const struct tg__search *q) {
  const struct tg__str name = tg__name(s->t, s->t->slices.name[slice]);
  const bool fits = q->match == TG__MATCH_EXACT ? tg__str_eq(name, q->text) : tg__str_contains(name, "f3");
  return fits && time_of(s, slice) >= q->start_ns && time_of(s, slice) < q->end_ns &&
         (!q->tracks || q->tracks[tg__slice_track(s->t, slice)]);
}

static void check_search(const struct scene *s, const struct tg__search *q) {
  struct tg__found f;
  struct tg_error e;
  assert_int_equal(tg__view_search(s->v, q, &f, &e), TG_OK);
  uint64_t count = 0, passed = 0, in_columns = 0;
  int64_t total = 0;
  for (uint32_t i = 0; i < s->t->slices.count; i++) {
    if (!is_wanted(s, i, q)) continue;
    count++;
    total += s->t->slices.dur_ns[i];
    if (f.hit_count && i != f.hits[0] && before(s, i, f.hits[0])) passed++;
    if (!f.hit_count) continue;
    bool shown = false; /* whatever lies between two hits is a hit */
    for (size_t k = 0; k < f.hit_count; k++) shown |= f.hits[k] == i;
    const uint32_t first = f.hits[0], last = f.hits[f.hit_count - 1];
    const bool between =
        q->backwards ? before(s, last, i) && before(s, i, first) : before(s, first, i) && before(s, i, last);
    assert_true(shown || !between);
  }
  for (uint32_t c = 0; c < q->columns; c++) in_columns += f.columns[c];
  assert_int_equal(f.count, count);
  assert_int_equal(f.total_ns, total);
  if (q->columns) assert_int_equal(in_columns, count);
  if (f.hit_count) assert_int_equal(f.position, passed);
  for (size_t k = 0; k < f.hit_count; k++) {
    assert_true(is_wanted(s, f.hits[k], q));
    if (k) assert_true(q->backwards ? before(s, f.hits[k], f.hits[k - 1]) : before(s, f.hits[k - 1], f.hits[k]));
    if (q->after != TG_NONE)
      assert_true(q->backwards ? before(s, f.hits[k], q->after) : before(s, q->after, f.hits[k]));
  }
  tg__found_free(&f);
}

static void search_finds_what_all_slices_say(void **state) {
  (void)state;
  for (uint64_t seed = 21; seed <= 24; seed++) {
    struct scene s = open_scene(seed);
    uint64_t dice = seed;
    bool tracks[16] = {true, false, true};
    for (int k = 0; k < 40; k++) {
      const struct tg__search q = {.text = k % 2 ? TG_STR("F3") : TG_STR("f7<int>"),
                                   .match = k % 2 ? TG__MATCH_CONTAINS : TG__MATCH_EXACT,
                                   .tracks = k % 3 ? NULL : tracks,
                                   .start_ns = k % 5 ? 0 : 500000,
                                   .end_ns = k % 7 ? s.v->end_ns + 1 : 900000,
                                   .after = k % 4 ? random_below(&dice, s.t->slices.count) : TG_NONE,
                                   .backwards = k % 8 > 4,
                                   .limit = 1 + random_below(&dice, 30),
                                   .columns = k % 6 * 7};
      check_search(&s, &q);
    }
    close_scene(&s);
  }
}

/* ---- selections ------------------------------------------------------------------------------------ */

static int64_t inside(const struct scene *s, uint32_t slice, int64_t start, int64_t end) {
  const int64_t from = time_of(s, slice) > start ? time_of(s, slice) : start;
  const int64_t last = time_of(s, slice) + s->t->slices.dur_ns[slice], to = last < end ? last : end;
  return to > from ? to - from : 0;
}

static bool touches(const struct scene *s, uint32_t slice, int64_t start, int64_t end) {
  const int64_t at = time_of(s, slice), dur = s->t->slices.dur_ns[slice];
  return at < end && (at + dur > start || (dur == 0 && at == start));
}

/* A row of the aggregate by name, from every slice of that name. */
static void check_row(const struct scene *s, const struct tg_table *table, size_t row, int64_t start, int64_t end) {
  const char *const name = mini_cell(table, row, "name");
  int64_t calls = 0, total = 0, self = 0, busy = 0, most = 0;
  for (uint32_t i = 0; i < s->t->slices.count; i++) {
    const struct tg__str other = tg__name(s->t, s->t->slices.name[i]);
    if (other.len != strlen(name) || memcmp(other.ptr, name, other.len) != 0 || !touches(s, i, start, end)) continue;
    const uint32_t track = tg__slice_track(s->t, i);
    const struct tg__track *const all = &s->t->tracks[track];
    calls++;
    total += inside(s, i, start, end);
    self += inside(s, i, start, end);
    if (s->t->slices.dur_ns[i] > most) most = s->t->slices.dur_ns[i];
    int64_t covered = start; /* by earlier ones of the name on the track */
    for (uint32_t k = all->first; k < all->first + all->count; k++) {
      if (s->t->slices.parent[k] == i) self -= inside(s, k, start, end);
      const int64_t last = time_of(s, k) + s->t->slices.dur_ns[k];
      if (k < i && s->t->slices.name[k] == s->t->slices.name[i] && last > covered) covered = last;
    }
    const int64_t from = time_of(s, i) > covered ? time_of(s, i) : covered,
                  last = time_of(s, i) + s->t->slices.dur_ns[i];
    const int64_t to = last < end ? last : end;
    busy += to > from ? to - from : 0;
  }
  assert_int_equal(mini_int(table, row, "calls"), calls);
  assert_int_equal(mini_int(table, row, "total_ns"), total);
  assert_int_equal(mini_int(table, row, "self_ns"), self);
  assert_int_equal(mini_int(table, row, "busy_ns"), busy);
  assert_int_equal(mini_int(table, row, "max_ns"), most);
}

static void a_selection_sums_up_what_all_slices_say(void **state) {
  (void)state;
  static const int64_t windows[][2] = {{0, 3000000}, {300000, 400000}, {1000000, 1000100}};
  for (uint64_t seed = 31; seed <= 33; seed++) {
    struct scene s = open_scene(seed);
    for (size_t k = 0; k < 3; k++) {
      const struct tg__selection q = {.start_ns = windows[k][0], .end_ns = windows[k][1], .by = "name", .limit = 1000};
      struct tg_table *table;
      struct tg_error e;
      assert_int_equal(tg__view_aggregate(s.v, &s.classes, &q, &table, &e), TG_OK);
      for (size_t row = 0; row < table->rows; row++) {
        check_row(&s, table, row, q.start_ns, q.end_ns);
        if (row) assert_true(mini_int(table, row, "self_ns") <= mini_int(table, row - 1, "self_ns"));
      }
      assert_true(table->rows > 0);
      tg__table_free(table);
    }
    close_scene(&s);
  }
}

/* Own time is spent once: over all groups it is the time of what has no parent. */
static void own_time_adds_up_whatever_the_groups(void **state) {
  (void)state;
  static const char *const groupings[] = {"name", "class", "category", "shape", "module", "line", "track", "step"};
  struct scene s = open_scene(41);
  int64_t outermost = 0;
  for (uint32_t i = 0; i < s.t->slices.count; i++)
    if (s.t->slices.parent[i] == TG_NONE) outermost += inside(&s, i, 100000, 1500000);
  for (size_t k = 0; k < sizeof groupings / sizeof *groupings; k++) {
    const struct tg__selection q = {.start_ns = 100000, .end_ns = 1500000, .by = groupings[k], .limit = UINT32_MAX};
    struct tg_table *table;
    struct tg_error e;
    assert_int_equal(tg__view_aggregate(s.v, &s.classes, &q, &table, &e), TG_OK);
    int64_t sum = 0;
    for (size_t row = 0; row < table->rows; row++) sum += mini_int(table, row, "self_ns");
    assert_int_equal(sum, outermost);
    tg__table_free(table);
  }
  close_scene(&s);
}

static int64_t total_of(const struct tg_table *t, const char *cell) {
  char name[256]; /* the cell is overwritten by the next one that is read */
  snprintf(name, sizeof name, "%s", cell);
  for (size_t row = 0; row < t->rows; row++)
    if (strcmp(mini_cell(t, row, "name"), name) == 0) return mini_int(t, row, "total_ns");
  return 0;
}

/* Against each window summed up by itself; names that only one of them has stand in the table, too. */
static void two_windows_are_each_what_they_are_alone(void **state) {
  (void)state;
  struct scene s = open_scene(61);
  const struct tg__selection one = {.start_ns = 200000, .end_ns = 900000, .by = "name", .limit = 1000},
                             other = {.start_ns = 1100000, .end_ns = 1300000, .by = "name", .limit = 1000};
  struct tg__selection both = one;
  both.other_start_ns = other.start_ns;
  both.other_end_ns = other.end_ns;
  struct tg_table *first, *second, *together;
  struct tg_error e;
  assert_int_equal(tg__view_aggregate(s.v, &s.classes, &one, &first, &e), TG_OK);
  assert_int_equal(tg__view_aggregate(s.v, &s.classes, &other, &second, &e), TG_OK);
  assert_int_equal(tg__view_aggregate(s.v, &s.classes, &both, &together, &e), TG_OK);
  size_t only_there = 0;
  for (size_t row = 0; row < together->rows; row++) {
    const int64_t here = total_of(first, mini_cell(together, row, "name")),
                  there = total_of(second, mini_cell(together, row, "name"));
    only_there += there && !here;
    assert_int_equal(mini_int(together, row, "total_ns"), here);
    assert_int_equal(mini_int(together, row, "other_ns"), there);
    assert_int_equal(mini_int(together, row, "change_ns"), here - there);
  }
  for (size_t row = 0; row < second->rows; row++)
    if (!total_of(first, mini_cell(second, row, "name"))) only_there--;
  assert_int_equal(only_there, 0);
  assert_true(together->rows >= first->rows && together->rows >= second->rows);
  tg__table_free(first);
  tg__table_free(second);
  tg__table_free(together);
  close_scene(&s);
}

/* Of a window of 1000 ns: device work 300 to 700 and, on another stream, 500 to 900; operators 100 to 400 (one inside
 * another), and on another thread 350 to 600. So the device works for 600 ns, both streams for 200; operators are on
 * for 500 ns, of which 300 beside device work, and on both threads for 50. */
static void a_selection_shows_what_works_at_once(void **state) {
  (void)state;
  static const char *const notes[] = {
      "a device works for 60.0 % of it: beside operators of the host 30.0 %, two streams at once 20.0 %",
      "operators run for 50.0 % of it: on two threads at once 5.0 %"};
  for (int without_device = 0; without_device < 2; without_device++) {
    struct mini *const m = mini_new();
    const uint32_t main_thread = mini_thread(m, 1, 10), other = mini_thread(m, 1, 11);
    mini_slice(m, main_thread, "python_function", "train.py(1): train", 0, 2000);
    mini_slice(m, main_thread, "cpu_op", "aten::linear", 100, 300);
    mini_slice(m, main_thread, "cpu_op", "aten::mm", 150, 100);
    mini_slice(m, other, "cpu_op", "aten::add", 350, 250);
    if (!without_device) {
      mini_slice(m, mini_stream(m, 0, 7), "kernel", "gemm", 300, 400);
      mini_slice(m, mini_stream(m, 0, 8), "gpu_memcpy", "Memcpy HtoD", 500, 400);
    }
    struct tg__view *v;
    struct tg__slice_classes classes;
    struct tg_table *table;
    struct tg_error e;
    const struct tg__selection q = {.end_ns = 1000, .by = "name", .limit = 10};
    struct tg__columns *const t = mini_finish(m);
    assert_int_equal(tg__view_open(t, 1, &v, &e), TG_OK);
    assert_true(tg__slice_classes_open(&classes, t));
    assert_int_equal(tg__view_aggregate(v, &classes, &q, &table, &e), TG_OK);
    assert_int_equal(table->note_count, 2);
    assert_string_equal(table->notes[1], notes[without_device]);
    tg__table_free(table);
    tg__slice_classes_close(&classes);
    tg__view_close(v);
    mini_free(m);
  }
}

static void without_memory_both_are_refused(void **state) {
  (void)state;
  struct scene s = open_scene(51);
  struct tg_error e;
  for (int search = 0; search < 2; search++) {
    enum tg_err err = TG_MEMORY;
    long n = 0;
    while (err == TG_MEMORY) {
      struct tg__found f = {0};
      struct tg_table *table = NULL;
      const struct tg__search q = {.text = TG_STR("f"), .end_ns = INT64_MAX / 2, .after = TG_NONE, .limit = 5};
      const struct tg__selection sel = {
          .end_ns = 100000, .by = "name", .limit = 10, .other_start_ns = 100000, .other_end_ns = 200000};
      tg__alloc_fail_after(n++);
      err = search ? tg__view_search(s.v, &q, &f, &e) : tg__view_aggregate(s.v, &s.classes, &sel, &table, &e);
      tg__alloc_fail_after(-1);
      assert_true(err == TG_OK || err == TG_MEMORY);
      tg__found_free(&f);
      tg__table_free(table);
    }
    assert_true(n > 4);
  }
  close_scene(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(search_finds_what_all_slices_say),
      cmocka_unit_test(a_selection_sums_up_what_all_slices_say),
      cmocka_unit_test(own_time_adds_up_whatever_the_groups),
      cmocka_unit_test(two_windows_are_each_what_they_are_alone),
      cmocka_unit_test(a_selection_shows_what_works_at_once),
      cmocka_unit_test(without_memory_both_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
