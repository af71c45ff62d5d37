/* work: operations and bytes of one call, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "analyze/work/device_peaks.h"
#include "analyze/work/work.h"
#include "analyze/work/work_lists.h"

static struct tg__str str(const char *s) { return (struct tg__str){s, (uint32_t)strlen(s)}; }
static struct tg__work work(const char *op, const char *dims, const char *types, const char *concrete) {
  return tg__work_of(str(op), str(dims), str(types), str(concrete));
}
#define assert_work(w, kind_, flops_, bytes_)                                                                          \
  do {                                                                                                                 \
    const struct tg__work w_ = (w);                                                                                    \
    assert_int_equal(w_.kind, kind_);                                                                                  \
    assert_int_equal(w_.flops, flops_);                                                                                \
    assert_int_equal(w_.bytes, bytes_);                                                                                \
  } while (0)

static void test_matrices(void **state) {
  static const char two[] = "[\"float\", \"float\"]", half[] = "[\"c10::Half\", \"c10::Half\"]";
  assert_work(work("aten::mm", "[[64, 32], [32, 16]]", two, ""), TG__WORK_MATMUL, 2 * 64 * 32 * 16,
              4 * (64 * 32 + 32 * 16 + 64 * 16));
  assert_work(work("aten::mm", "[[64, 32], [32, 16]]", half, ""), TG__WORK_MATMUL, 2 * 64 * 32 * 16,
              2 * (64 * 32 + 32 * 16 + 64 * 16));
  assert_int_equal(work("aten::mm", "[[64, 32], [32, 16]]", half, "").precision, TG__FP16);
  /* 7 × 5 rows of 32, each against 16 columns */
  assert_work(work("aten::linear", "[[7, 5, 32], [16, 32], [16]]", "[\"float\", \"float\", \"float\"]", ""),
              TG__WORK_MATMUL, 2 * 35 * 32 * 16, 4 * (35 * 32 + 16 * 32 + 16 + 35 * 16));
  /* batch dimensions 3 × 1 against 4: twelve products of 2 × 8 with 8 × 5 */
  assert_work(work("aten::matmul", "[[3, 1, 2, 8], [4, 8, 5]]", two, ""), TG__WORK_MATMUL, 12 * 2 * 2 * 8 * 5,
              4 * (3 * 2 * 8 + 4 * 8 * 5 + 12 * 2 * 5));
  assert_work(work("aten::dot", "[[9], [9]]", two, ""), TG__WORK_MATMUL, 18, 4 * (9 + 9 + 1));
  assert_work(work("aten::_grouped_mm", "[[100, 32], [6, 32, 16], [6]]", "[\"float\", \"float\", \"int\"]", ""),
              TG__WORK_MATMUL, 2 * 100 * 32 * 16, 4 * (3200 + 6 * 512 + 6 + 1600));
  assert_int_equal(work("aten::mm", "[[64, 32], [31, 16]]", two, "").kind, TG__WORK_UNKNOWN); /* they do not fit */
  assert_work(work("aten::mm", "[[2, 2], [2, 2]]", "", ""), TG__WORK_MATMUL, 16,
              -1); /* no types: operations, no bytes */
  assert_work(work("aten::mm", "[[0, 4], [4, 5]]", two, ""), TG__WORK_MATMUL, 0,
              4 * 20); /* an empty batch is known to be no work */
  assert_work(work("aten::mm", "[[3, 0], [0, 5]]", two, ""), TG__WORK_MATMUL, 0,
              4 * 15); /* nor are zeros that are written */
}

/* Of oneDNN, as torch.compile calls it: with another tensor, that is added, between input and weight or, when it is
 * overwritten, before both. */
static void test_pointwise(void **state) {
  static const char four[] = "[\"float\", \"float\", \"float\", \"float\"]",
                    three[] = "[\"float\", \"float\", \"float\"]";
  assert_work(work("mkldnn::_linear_pointwise", "[[6, 16], [24, 16], [24]]", three, ""), TG__WORK_MATMUL,
              2 * 6 * 16 * 24, 4 * (6 * 16 + 24 * 16 + 24 + 6 * 24));
  assert_work(work("mkldnn::_linear_pointwise", "[[6, 16], [6, 16], [16, 16], [16]]", four, ""), TG__WORK_MATMUL,
              2 * 6 * 16 * 16, 4 * (6 * 16 + 6 * 16 + 16 * 16 + 16 + 6 * 16));
  /* 2 images of 4 channels, 5 filters of 3 × 3, without padding 6 × 6 positions of 8 × 8 */
  static const char with[] = "[\"\", \"\", \"\", \"\", \"[0, 0]\", \"[1, 1]\", \"[1, 1]\", \"1\", \"add\"]";
  static const char behind[] = "[[2, 4, 8, 8], [2, 5, 6, 6], [5, 4, 3, 3], []]",
                    before[] = "[[2, 5, 6, 6], [2, 4, 8, 8], [5, 4, 3, 3], []]";
  const int64_t flops = 2 * 2 * 5 * 4 * 9 * 36, bytes = 4 * (2 * 4 * 64 + 2 * 5 * 36 + 5 * 4 * 9 + 2 * 5 * 36);
  assert_work(work("mkldnn::_convolution_pointwise", behind, three, with), TG__WORK_CONVOLUTION, flops, bytes);
  assert_work(work("mkldnn::_convolution_pointwise_", before, three, with), TG__WORK_CONVOLUTION, flops, bytes);
  static const char alone[] = "[\"\", \"\", \"\", \"[0, 0]\", \"[1, 1]\", \"[1, 1]\", \"1\", \"none\"]";
  assert_work(
      work("mkldnn::_convolution_pointwise", "[[2, 4, 8, 8], [5, 4, 3, 3], []]", "[\"float\", \"float\", \"\"]", alone),
      TG__WORK_CONVOLUTION, flops, 4 * (2 * 4 * 64 + 5 * 4 * 9 + 2 * 5 * 36));
  /* transposed, stride 2: each of 8 × 8 positions meets all; (8 - 1) × 2 + 3 - 1 + 1 = 17 positions out */
  static const char transposed[] =
      "[\"\", \"\", \"\", \"[0, 0]\", \"[0, 0]\", \"[2, 2]\", \"[1, 1]\", \"1\", \"none\"]";
  assert_work(work("mkldnn::_convolution_transpose_pointwise", "[[2, 4, 8, 8], [4, 5, 3, 3], []]",
                   "[\"float\", \"float\", \"\"]", transposed),
              TG__WORK_CONVOLUTION, 2 * 2 * 4 * 5 * 9 * 64, 4 * (2 * 4 * 64 + 4 * 5 * 9 + 2 * 5 * 17 * 17));
}

static void test_convolutions(void **state) {
  static const char three[] = "[\"float\", \"float\", \"float\"]";
  /* (10 + 2 - 3) / 2 + 1 = 5 positions an axis; 8 images, 3 → 16 channels */
  static const char stride_2[] = "[\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\"]";
  assert_work(work("aten::convolution", "[[8, 3, 10, 10], [16, 3, 3, 3], [16]]", three, stride_2), TG__WORK_CONVOLUTION,
              2 * 8 * 25 * 9 * 3 * 16, 4 * (8 * 300 + 16 * 27 + 16 + 8 * 16 * 25));
  /* two groups: each of 16 filters sees 4 of 8 channels; 1-D, (20 + 0 - 2 × 4 - 1) / 1 + 1 = 12 positions with
   * kernel 5, dilation 2 */
  static const char dilated[] = "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[2]\", \"2\"]";
  assert_work(work("aten::conv1d", "[[1, 8, 20], [16, 4, 5], []]", "[\"float\", \"float\", \"\"]", dilated),
              TG__WORK_CONVOLUTION, 2 * 12 * 5 * 4 * 16, 4 * (160 + 320 + 16 * 12));
  /* transposed: every input position meets every weight; (6 - 1) × 2 - 2 + 2 + 1 + 1 = 12 positions out, 5 channels
   * × 2 groups */
  static const char transposed[] = "[\"\", \"\", \"\", \"[2]\", \"[1]\", \"[1]\", \"2\", \"[1]\"]";
  assert_work(work("aten::conv_transpose1d", "[[3, 4, 6], [4, 5, 3], []]", "[\"float\", \"float\", \"\"]", transposed),
              TG__WORK_CONVOLUTION, 2 * 3 * 6 * 3 * 4 * 5, 4 * (72 + 60 + 3 * 10 * 12));
  /* gradients of input and weight: the forward's operations twice */
  static const char both[] =
      "[\"\",\"\",\"\",\"[16]\",\"[2, 2]\",\"[1, 1]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\",\"[True, True, True]\"]";
  static const char weight[] =
      "[\"\",\"\",\"\",\"[16]\",\"[2, 2]\",\"[1, 1]\",\"[1, 1]\",\"False\",\"[0, 0]\",\"1\",\"[False, True, False]\"]";
  static const char grad[] = "[[8, 16, 5, 5], [8, 3, 10, 10], [16, 3, 3, 3]]";
  assert_int_equal(work("aten::convolution_backward", grad, three, both).flops, 2 * 2 * 8 * 25 * 9 * 3 * 16);
  assert_work(work("aten::convolution_backward", grad, three, weight), TG__WORK_CONVOLUTION, 2 * 8 * 25 * 9 * 3 * 16,
              4 * (8 * 16 * 25 + 8 * 300 + 16 * 27 + 16 * 27));
  assert_int_equal(work("aten::convolution", "[[8, 3, 10, 10], [16, 3, 3, 3], [16]]", three, "").kind,
                   TG__WORK_UNKNOWN);
}

static void test_attention(void **state) {
  static const char three[] = "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\"]";
  /* 2 × 4 heads, 10 queries, 12 keys, width 8; values of width 6 */
  static const char dims[] = "[[2, 4, 10, 8], [2, 4, 12, 8], [2, 4, 12, 6]]";
  assert_work(work("aten::scaled_dot_product_attention", dims, three, ""), TG__WORK_ATTENTION,
              2 * 8 * 10 * 12 * (8 + 6), 2 * 8 * (80 + 96 + 72 + 60));
  assert_int_equal(work("aten::scaled_dot_product_attention", "[[10, 8], [12, 8], [12, 6]]", three, "").flops,
                   2 * 10 * 12 * (8 + 6)); /* one head */
  assert_int_equal(work("aten::scaled_dot_product_attention", "[[8], [8], [6]]", three, "").kind, TG__WORK_UNKNOWN);
  static const char four[] = "[\"float\", \"float\", \"float\", \"float\"]";
  static const char backward[] = "[[2, 4, 10, 6], [2, 4, 10, 8], [2, 4, 12, 8], [2, 4, 12, 6]]";
  assert_work(work("aten::_scaled_dot_product_flash_attention_backward", backward, four, ""), TG__WORK_ATTENTION,
              2 * 8 * 10 * 12 * (3 * 8 + 2 * 6), 4 * 8 * (60 + 2 * (80 + 96 + 72)));
  static const char inside[] = "[[2, 10, 4, 8], [2, 12, 4, 8], [2, 12, 4, 8]]";
  assert_int_equal(work("aten::_flash_attention_forward", inside, three, "").flops, 2 * 8 * 10 * 12 * 16);
}

static void test_others(void **state) {
  static const char two[] = "[\"float\", \"float\"]";
  assert_work(work("aten::add", "[[8, 1, 5], [3, 1]]", two, ""), TG__WORK_ELEMENTWISE, 120, 4 * (40 + 3 + 120));
  assert_work(work("aten::add", "[[8], []]", "[\"float\", \"Scalar\"]", ""), TG__WORK_ELEMENTWISE, 8, 4 * 16);
  assert_work(work("aten::gt", "[[8], []]", "[\"double\", \"Scalar\"]", ""), TG__WORK_ELEMENTWISE, 8, 8 * 8 + 8);
  assert_work(work("aten::copy_", "[[4, 6], [6]]", "[\"float\", \"c10::Half\"]", ""), TG__WORK_COPY, 0,
              24 * 4 + 24 * 2);
  assert_work(work("aten::zero_", "[[100]]", "[\"float\"]", ""), TG__WORK_COPY, 0, 400);
  assert_work(work("aten::embedding", "[[50000, 64], [16, 9]]", "[\"float\", \"long int\"]", ""), TG__WORK_EMBEDDING, 0,
              2 * 144 * 64 * 4 + 144 * 8);
  assert_work(
      work("aten::index_select", "[[10, 7], [], [3]]", "[\"float\", \"Scalar\", \"long int\"]", "[\"\", \"1\", \"\"]"),
      TG__WORK_EMBEDDING, 0, 2 * 10 * 3 * 4 + 24);
  assert_work(work("aten::sum", "[[6, 7]]", "[\"float\"]", ""), TG__WORK_REDUCTION, 42, 168);
  assert_int_equal(work("aten::add", "[[8, 2], [3]]", two, "").kind, TG__WORK_UNKNOWN);
  assert_int_equal(work("aten::view", "[[8]]", "[\"float\"]", "").kind, TG__WORK_UNKNOWN);
}

static void test_what_is_written(void **state) {
  /* of where the values' type, of a bool and a float the float's; in place that of the first */
  assert_work(work("aten::where", "[[6], [6], [6]]", "[\"bool\", \"float\", \"float\"]", ""), TG__WORK_ELEMENTWISE, 6,
              6 * (1 + 4 + 4 + 4));
  assert_work(work("aten::mul", "[[6], [6]]", "[\"long int\", \"c10::Half\"]", ""), TG__WORK_ELEMENTWISE, 6,
              6 * (8 + 2 + 2));
  assert_work(work("aten::mul", "[[6], []]", "[\"c10::Half\", \"double\"]", ""), TG__WORK_ELEMENTWISE, 6,
              6 * 2 + 8 + 6 * 2);
  assert_work(work("aten::mul_", "[[6], [6]]", "[\"c10::Half\", \"float\"]", ""), TG__WORK_ELEMENTWISE, 6,
              6 * (2 + 4 + 2));
  assert_work(work("aten::exp_", "[[6]]", "[\"float\"]", ""), TG__WORK_ELEMENTWISE, 6, 48);
  assert_int_equal(work("aten::__and__", "[[6]]", "[\"float\"]", "").kind, TG__WORK_UNKNOWN);
  assert_work(work("aten::threshold_backward", "[[6], [6], []]", "[\"float\", \"float\", \"Int\"]", ""),
              TG__WORK_ELEMENTWISE, 6, 72);
}

static void test_rows_and_sizes(void **state) {
  static const char bag[] = "[\"float\", \"long int\", \"long int\"]";
  /* 12 rows of 16 are read, 3 are written, 12 and 3 indices are read */
  assert_work(work("aten::_embedding_bag", "[[100, 16], [12], [3]]", bag, ""), TG__WORK_EMBEDDING, 12 * 16,
              4 * (12 + 3) * 16 + 8 * 15);
  /* the gradient of all 100 rows is written */
  assert_work(work("aten::_embedding_bag_dense_backward", "[[3, 16], [12]]", bag, "[\"\",\"\",\"\",\"\",\"\",\"100\"]"),
              TG__WORK_EMBEDDING, 12 * 16, 4 * (3 + 100) * 16 + 8 * 12);
  assert_work(work("aten::embedding_dense_backward", "[[2, 5, 16], [2, 5]]", bag, "[\"\",\"\",\"100\"]"),
              TG__WORK_EMBEDDING, 160, 4 * (160 + 1600) + 8 * 10);
  static const char four[] = "[\"float\", \"Scalar\", \"long int\", \"float\"]";
  assert_work(work("aten::index_add_", "[[9, 4], [], [3], [3, 4]]", four, ""), TG__WORK_EMBEDDING, 12, 4 * 3 * 12 + 24);
  static const char three[] = "[\"float\", \"float\", \"long int\"]";
  assert_work(work("aten::nll_loss_forward", "[[8, 1000], [8]]", bag, ""), TG__WORK_REDUCTION, 8, 4 * 8 + 8 * 8);
  assert_work(work("aten::nll_loss_backward", "[[], [8, 1000], [8]]", three, ""), TG__WORK_REDUCTION, 8,
              4 * 8000 + 8 * 8);
  assert_work(work("aten::mse_loss", "[[8, 10], [8, 10]]", three, ""), TG__WORK_REDUCTION, 80, 4 * 160);
  assert_work(work("aten::max", "[[8, 10], [8, 10]]", three, ""), TG__WORK_REDUCTION, 80, 4 * 240);
  assert_work(work("aten::max_pool2d_with_indices_backward", "[[2, 3, 4, 4], [2, 3, 8, 8]]", three, ""),
              TG__WORK_REDUCTION, 96, 4 * (96 + 384));
  assert_work(work("aten::upsample_nearest2d", "[[2, 3, 4, 4], []]", three, "[\"\",\"[8, 8]\"]"), TG__WORK_ELEMENTWISE,
              384, 4 * (96 + 384));
  assert_work(
      work("aten::upsample_nearest2d_backward", "[[2, 3, 8, 8], [], []]", three, "[\"\",\"[8, 8]\",\"[2, 3, 4, 4]\"]"),
      TG__WORK_ELEMENTWISE, 384, 4 * (96 + 384));
  assert_int_equal(work("aten::upsample_nearest2d", "[[2, 3, 4, 4], []]", three, "[\"\",\"[8]\"]").kind,
                   TG__WORK_UNKNOWN);
}

static void test_lists(void **state) {
  struct tg__list_types l = {0};
  struct tg__tensor_list at;
  struct tg__shape s;
  const struct tg__str dims = str("[[4, 4], [[6, 7], [3]], [], [[6, 7], [2]]]");
  tg__list_begin(&at, dims, 1);
  assert_true(tg__list_next(&at, &s) && s.rank == 2 && s.dim[1] == 7);
  assert_true(tg__list_next(&at, &s) && s.rank == 1 && s.dim[0] == 3);
  assert_false(tg__list_next(&at, &s));
  static const unsigned no_lists[] = {0, 2, 4, 9};
  for (unsigned i = 0; i < 4; i++) {
    tg__list_begin(&at, dims, no_lists[i]);
    assert_false(tg__list_next(&at, &s));
  }

  static const char pair[] = "[[[6, 7], [3]], [[6, 7], [3]], []]"; /* 45 elements a list */
  assert_work(tg__work_of_lists(&l, str("aten::_foreach_add_"), str(pair)), TG__WORK_ELEMENTWISE, 45,
              -1); /* no types */
  assert_true(tg__list_types_learn(&l, str("[[6, 7], [5]]"), str("[\"c10::BFloat16\", \"long int\"]")));
  assert_work(tg__work_of_lists(&l, str("aten::_foreach_add_"), str(pair)), TG__WORK_ELEMENTWISE, 45,
              2 * (45 + 45 + 45));
  assert_work(tg__work_of_lists(&l, str("aten::cat"), str("[[[6, 7], [6, 7]], []]")), TG__WORK_COPY, 0, 2 * 84 * 2);
  assert_work(tg__work_of_lists(&l, str("aten::_foreach_zero_"), str("[[[6, 7]]]")), TG__WORK_COPY, 0, 84);
  assert_work(tg__work_of_lists(&l, str("aten::_foreach_norm"), str("[[[6, 7]], [], []]")), TG__WORK_REDUCTION, 42, 84);
  /* parameters, gradients, two moments, no maxima, steps: four lists read, three written */
  static const char adam[] = "[[[6, 7]], [[6, 7]], [[6, 7]], [[6, 7]], [], [[]], [], [], [], [], [], [], [], [], []]";
  assert_work(tg__work_of_lists(&l, str("aten::_fused_adamw_"), str(adam)), TG__WORK_ELEMENTWISE, 14 * 42, 2 * 42 * 7);
  assert_true(tg__list_types_learn(&l, str("[[6, 7]]"), str("[\"float\"]"))); /* now of two types */
  assert_work(tg__work_of_lists(&l, str("aten::_foreach_add_"), str(pair)), TG__WORK_ELEMENTWISE, 45, -1);
  assert_int_equal(tg__work_of_lists(&l, str("aten::cat"), str("[[], []]")).kind,
                   TG__WORK_UNKNOWN); /* more than 30: left out by torch */
  assert_int_equal(tg__work_of_lists(&l, str("aten::cat"), str("[[[9223372036854775807], [9]], []]")).kind,
                   TG__WORK_UNKNOWN);
  assert_int_equal(tg__work_of_lists(&l, str("aten::cat"), str("[[[2, 2], [")).flops, 0);
  assert_false(tg__work_takes_lists(str("aten::_foreach_")) || tg__work_takes_lists(str("aten::mm")));
  tg__list_types_free(&l);
}

static void test_hostile_text(void **state) {
  static const char *const texts[] = {"",
                                      "[",
                                      "[[",
                                      "[[9223372036854775807, 9223372036854775807], [9223372036854775807, 2]]",
                                      "[[-1, 2], [2, 3]]",
                                      "[[1, 2], [2",
                                      "\"",
                                      "[[[1, 2]], [[2, 3]]]",
                                      "[[4, 5, 6], [7, 8, 9], [1, 2, 3], [4, 5, 6]]"};
  static const char *const ops[] = {"aten::mm",
                                    "aten::_fft_c2c",
                                    "aten::_fft_c2r",
                                    "aten::linalg_qr",
                                    "aten::_linalg_svd",
                                    "aten::linalg_lu_solve",
                                    "aten::_cholesky_solve_helper",
                                    "aten::grid_sampler_2d_backward",
                                    "aten::grid_sampler_2d",
                                    "aten::matmul",
                                    "aten::linear",
                                    "aten::convolution",
                                    "aten::convolution_backward",
                                    "aten::conv_transpose2d",
                                    "aten::scaled_dot_product_attention",
                                    "aten::add",
                                    "aten::embedding",
                                    "aten::index_select",
                                    "aten::_embedding_bag",
                                    "aten::embedding_dense_backward",
                                    "aten::upsample_nearest2d",
                                    "aten::max",
                                    "aten::layer_norm"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
      for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        const struct tg__work w = work(ops[o], texts[i], texts[k], texts[k]);
        assert_true(w.flops >= -1 && w.bytes >= -1);
        assert_true(w.kind != TG__WORK_UNKNOWN || w.flops == -1);
        struct tg__list_types l = {0};
        assert_true(tg__list_types_learn(&l, str(texts[i]), str(texts[k])));
        const struct tg__work lists = tg__work_of_lists(&l, str("aten::_fused_adam_"), str(texts[k]));
        assert_true(lists.flops >= -1 && lists.bytes >= -1 && (lists.kind != TG__WORK_UNKNOWN || lists.flops == -1));
        tg__list_types_free(&l);
      }
}

static void test_devices(void **state) {
  struct tg__peaks p;
  assert_true(tg__peaks_of_device(str("NVIDIA H100 80GB HBM3"), &p));
  assert_true(p.flops[TG__FP16] == 989.4e12 && p.bytes == 3352e9);
  assert_true(tg__peaks_of_device(str("NVIDIA H100 PCIe"), &p));
  assert_true(p.flops[TG__FP16] == 756e12);
  assert_true(tg__peaks_of_device(str("NVIDIA A100-SXM4-40GB"), &p));
  assert_true(p.bytes == 1555e9);
  assert_true(tg__peaks_of_device(str("NVIDIA L40S"), &p));
  assert_true(p.flops[TG__FP16] == 362e12); /* not the L4 */
  assert_true(tg__peaks_of_device(str("Tesla V100-SXM2-32GB"), &p));
  assert_true(p.flops[TG__FP32] == 15.7e12 && p.flops[TG__TF32] == 0);
  const struct {
    const char *name;
    double fp16_tera, giga;
  } others[] = {{"Tesla V100-PCIE-16GB", 112, 900},
                {"Tesla V100S-PCIE-32GB", 130, 1134},
                {"NVIDIA A10", 125, 600},
                {"NVIDIA A10G", 70, 600},
                {"NVIDIA L40", 181, 864},
                {"NVIDIA RTX 6000 Ada Generation", 364.2, 960},
                {"NVIDIA H200 NVL", 835.5, 4800},
                {"NVIDIA H200", 989.4, 4800},
                {"NVIDIA GB200", 2500, 8000},
                {"NVIDIA B300 SXM6 AC", 2250, 8000},
                {"NVIDIA GB300", 2500, 8000},
                {"AMD Instinct MI300A", 980.6, 5300},
                {"AMD Instinct MI350X", 2306.9, 8000},
                {"NVIDIA GeForce RTX 5090", 209.5, 1792}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    assert_true(tg__peaks_of_device(str(others[i].name), &p));
    assert_true(p.flops[TG__FP16] == others[i].fp16_tera * 1e12 && p.bytes == others[i].giga * 1e9);
  }
  assert_false(tg__peaks_of_device(str("NVIDIA H1000"), &p));
  assert_false(tg__peaks_of_device(str(""), &p));
}

static void test_types(void **state) {
  assert_int_equal(tg__type_bytes(str("float")), 4);
  assert_int_equal(tg__type_bytes(str("c10::BFloat16")), 2);
  assert_int_equal(tg__type_bytes(str("bool")), 1);
  assert_int_equal(tg__type_bytes(str("c10::complex<double>")), TG_WIDEST);
  assert_int_equal(tg__type_bytes(str("floa")), 0);
  assert_int_equal(tg__type_bytes(str("")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matrices),       cmocka_unit_test(test_pointwise), cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_attention),      cmocka_unit_test(test_others),    cmocka_unit_test(test_what_is_written),
      cmocka_unit_test(test_rows_and_sizes), cmocka_unit_test(test_lists),     cmocka_unit_test(test_hostile_text),
      cmocka_unit_test(test_devices),        cmocka_unit_test(test_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
