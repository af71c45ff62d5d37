/* flops: the seven formulas, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "analyze/work/flops.h"

static int64_t flops(const char *op, const char *dims, const char *concrete) {
  return tg__flops((struct tg__str){op, (uint32_t)strlen(op)}, (struct tg__str){dims, (uint32_t)strlen(dims)},
                   (struct tg__str){concrete, (uint32_t)strlen(concrete)});
}

static void test_matrix_products(void **state) {
  assert_int_equal(flops("aten::mm", "[[64, 32], [32, 16]]", ""), 2 * 64 * 32 * 16);
  assert_int_equal(flops("aten::addmm", "[[16],[64,32],[32,16],[],[]]", ""), 2 * 64 * 32 * 16);
  assert_int_equal(flops("aten::bmm", "[[4, 64, 32], [4, 32, 16]]", ""), 2 * 4 * 64 * 32 * 16);
  assert_int_equal(flops("aten::baddbmm", "[[4, 64, 16], [4, 64, 32], [4, 32, 16]]", ""), 2 * 4 * 64 * 32 * 16);
  assert_int_equal(flops("aten::mm", "[[0, 32], [32, 16]]", ""), 0);
}

static void test_elementwise(void **state) {
  assert_int_equal(flops("aten::add", "[[8, 3, 5], [], []]", ""), 120);
  assert_int_equal(flops("aten::mul", "[[7], [3, 7]]", ""), 7); /* of the first input, as torch has it */
  assert_int_equal(flops("aten::mul", "[[], [3, 7]]", ""), 1);
}

static void test_convolution(void **state) {
  static const char stem[] = "[\"\", \"\", \"\", \"[2, 2]\", \"[3, 3]\", \"[1, 1]\", \"1\"]";
  /* (224 + 6 - 6 - 1) / 2 + 1 = 112 positions along each axis */
  assert_int_equal(flops("aten::conv2d", "[[8, 3, 224, 224], [64, 3, 7, 7], [64], [], [], [], []]", stem),
                   INT64_C(2) * 8 * 112 * 112 * 7 * 7 * 3 * 64);
  /* 32 groups of 4 channels, stride 1 × 3, padding 1 × 0, dilation 2 × 1: (10 + 2 - 4 - 1) / 1 + 1 = 8 by (11 + 0 -
   * 2 - 1) / 3 + 1 = 3 */
  static const char grouped[] = "[\"\",\"\",\"\",\"[1,3]\",\"[1,0]\",\"[2,1]\",\"32\"]";
  assert_int_equal(flops("aten::conv2d", "[[2, 128, 10, 11], [128, 4, 3, 3], [], [], [], [], []]", grouped),
                   2 * 2 * 8 * 3 * 3 * 3 * 128 * 128 / 32);
}

static void test_what_is_unknown(void **state) {
  static const char same[] = "[\"\", \"\", \"\", \"[1, 1]\", \"same\", \"[1, 1]\", \"1\"]";
  static const char no_stride[] = "[\"\", \"\", \"\", \"[0, 1]\", \"[0, 0]\", \"[1, 1]\", \"1\"]";
  assert_int_equal(flops("aten::conv2d", "[[8, 3, 8, 8], [4, 3, 3, 3]]", ""), -1);
  assert_int_equal(flops("aten::conv2d", "[[8, 3, 8, 8], [4, 3, 3, 3]]", same), -1);
  assert_int_equal(flops("aten::conv2d", "[[8, 3, 8, 8], [4, 3, 3, 3]]", no_stride), -1);
  assert_int_equal(flops("aten::conv2d", "[[8, 3, 8], [4, 3, 3]]", same), -1);
  assert_int_equal(flops("aten::mm", "[[64, 32]]", ""), -1);
  assert_int_equal(flops("aten::mm", "[[64, 32, 2], [2, 2]]", ""), -1);
  assert_int_equal(flops("aten::mm", "[[[64, 32]], [2, 2]]", ""), -1); /* a list of tensors */
  assert_int_equal(flops("aten::linear", "[[64, 32], [32, 16]]", ""), -1);
  assert_false(tg__flops_has_formula(TG_STR("aten::linear")));
  assert_true(tg__flops_has_formula(TG_STR("aten::baddbmm")));
}

static void test_hostile_text(void **state) {
  static const char *const texts[] = {"",
                                      "[",
                                      "[[",
                                      "[[1",
                                      "[[1,",
                                      "[[1,2",
                                      "[[1,2]",
                                      "[[1,2],",
                                      "[[1,2],[",
                                      "]]]]",
                                      "[[-1,2],[2,3]]",
                                      "[[99999999999999999999,1],[1,1]]",
                                      "[[9223372036854775807,9223372036854775807],[9223372036854775807,2]]",
                                      "[[[[[[[[[[[[[[[[[[[[",
                                      "[[1,2],[2,x]]",
                                      "{\"a\":1}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (i == 6) continue; /* one matrix, well-formed */
    assert_int_equal(flops("aten::mm", texts[i], ""), -1);
  }
  /* any cut of the concrete inputs is refused, whatever memory lies behind it */
  static const char whole[] = "[\"\", \"\", \"\", \"[2, 2]\", \"[3, 3]\", \"[1, 1]\", \"1\\\"";
  for (size_t n = 0; n < sizeof whole; n++) {
    char *exact = malloc(n + 1);
    memcpy(exact, whole, n);
    const struct tg__str dims = TG_STR("[[8, 3, 8, 8], [4, 3, 3, 3]]");
    assert_int_equal(tg__flops(TG_STR("aten::conv2d"), dims, (struct tg__str){exact, (uint32_t)n}), -1);
    free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matrix_products), cmocka_unit_test(test_elementwise),  cmocka_unit_test(test_convolution),
      cmocka_unit_test(test_what_is_unknown), cmocka_unit_test(test_hostile_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
