/* Tables through the Arrow C data interface: buffers, validity, and that everything is released exactly once in any
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "show/parts.h"

/* The published ABI, written down a second time so that a slip in arrow.c shows. */
struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

enum { ROWS = 10 };

static struct tg_table *make_table(void) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "dur_ns", TG_INT, "ns");
  tg__table_add_column(t, "share", TG_REAL, "%");
  tg__table_add_column(t, "ok", TG_BOOL, "");
  for (int i = 0; i < ROWS; i++) {
    if (i == 3) {
      for (int c = 0; c < 4; c++) tg__put_null(t);
      continue;
    }
    tg__put_cstr(t, i == 5 ? "a\xff" : i % 2 ? "odd" : "");
    tg__put_int(t, i * 100);
    tg__put_real(t, i / 4.0);
    tg__put_bool(t, i % 3 == 0);
  }
  assert_false(t->failed);
  return t;
}

static void buffers_hold_the_table(void **state) {
  struct tg_table *t = make_table();
  const int64_t *ints = t->columns[1].ints;
  struct ArrowSchema schema;
  struct ArrowArray array;
  assert_int_equal(tg__table_arrow(t, &schema, &array), TG_OK);
  tg__table_free(t); /* the array keeps it */

  assert_string_equal(schema.format, "+s");
  assert_int_equal(schema.n_children, 4);
  assert_int_equal(array.length, ROWS);
  assert_int_equal(array.n_children, 4);
  assert_int_equal(array.n_buffers, 1);
  assert_null(array.buffers[0]);
  static const char *const formats[] = {"u", "l", "g", "b"};
  for (int c = 0; c < 4; c++) {
    assert_string_equal(schema.children[c]->format, formats[c]);
    assert_int_equal(schema.children[c]->flags, 2);
    assert_int_equal(array.children[c]->null_count, 1);
    assert_int_equal(array.children[c]->length, ROWS);
    const uint8_t *valid = array.children[c]->buffers[0];
    assert_int_equal(valid[0], 0xff & ~(1 << 3));
    assert_int_equal(valid[1] & 3, 3);
  }
  assert_string_equal(schema.children[1]->name, "dur_ns");
  assert_memory_equal(schema.children[1]->metadata, "\1\0\0\0\4\0\0\0unit\2\0\0\0ns",
                      18); /* little endian, as on every machine we build for */
  assert_null(schema.children[0]->metadata);

  assert_ptr_equal(array.children[1]->buffers[1], ints); /* not a copy */
  const double *reals = array.children[2]->buffers[1];
  assert_true(reals[9] == 2.25 && isnan(reals[3]));
  const uint8_t *bits = array.children[3]->buffers[1];
  assert_int_equal(bits[0], 1 << 0 | 1 << 6); /* 3 is unknown */
  assert_int_equal(bits[1], 1 << 1);
  const int32_t *ends = array.children[0]->buffers[1];
  static const int32_t want[ROWS + 1] = {0, 0, 3, 3, 3, 3, 7, 7, 10, 10, 13};
  assert_memory_equal(ends, want, sizeof want);
  assert_memory_equal(array.children[0]->buffers[2], "odda\xef\xbf\xbdoddodd", 13);
  schema.release(&schema);
  array.release(&array);
  assert_null(schema.release);
  assert_null(array.release);
}

static void a_child_may_outlive_its_parent(void **state) {
  struct tg_table *t = make_table();
  struct ArrowSchema schema;
  struct ArrowArray array;
  assert_int_equal(tg__table_arrow(t, &schema, &array), TG_OK);
  tg__table_free(t);
  struct ArrowArray moved = *array.children[1]; /* moving, as the specification has it */
  array.children[1]->release = NULL;
  array.release(&array);
  schema.release(&schema);
  assert_int_equal(((const int64_t *)moved.buffers[1])[9], 900);
  moved.release(&moved);
}

static void without_nulls_there_is_no_bitmap(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "n", TG_INT, "");
  tg__put_int(t, 1);
  struct ArrowSchema schema;
  struct ArrowArray array;
  assert_int_equal(tg__table_arrow(t, &schema, &array), TG_OK);
  assert_int_equal(t->references, 3); /* ours, the struct's, the child's */
  assert_int_equal(array.children[0]->null_count, 0);
  assert_null(array.children[0]->buffers[0]);
  array.release(&array);
  schema.release(&schema);
  assert_int_equal(t->references, 1);
  tg__table_free(t);
}

static void an_empty_table_is_fine(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "n", TG_INT, "");
  tg__table_add_column(t, "s", TG_TEXT, "");
  struct ArrowSchema schema;
  struct ArrowArray array;
  assert_int_equal(tg__table_arrow(t, &schema, &array), TG_OK);
  assert_int_equal(array.length, 0);
  assert_non_null(array.children[0]->buffers[1]);
  assert_int_equal(*(const int32_t *)array.children[1]->buffers[1], 0);
  array.release(&array);
  schema.release(&schema);
  tg__table_free(t);
}

/* Whatever allocation fails, the table survives and nothing is left behind (the leak checker of `make check` watches).
 */
static void no_memory_leaves_nothing_behind(void **state) {
  for (long calls = 0;; calls++) {
    struct tg_table *t = make_table();
    struct ArrowSchema schema;
    struct ArrowArray array;
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg__table_arrow(t, &schema, &array);
    tg__alloc_fail_after(-1);
    assert_int_equal(t->references, err ? 1 : 6);
    if (!err) {
      array.release(&array);
      schema.release(&schema);
    }
    tg__table_free(t);
    if (!err) break;
    assert_int_equal(err, TG_MEMORY);
    assert_null(array.release);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_hold_the_table),           cmocka_unit_test(a_child_may_outlive_its_parent),
      cmocka_unit_test(without_nulls_there_is_no_bitmap), cmocka_unit_test(an_empty_table_is_fine),
      cmocka_unit_test(no_memory_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
