/* Findings about types, sizes and passes over the same tensor: for each a program in which it fires, with figures added
 * up by hand, and near misses. Steps of 10 ms. */
#include "unit/findings_scene.h"

/* ---- casts ----------------------------------------------------------------------------------- */

/* One cast on `line` from one type to the other, of `rows` x 100 elements. */
static int cast(struct scene *s, int64_t us, int64_t dur_us, const char *line, int rows, const char *from,
                const char *to) {
  char dims[80], both[80];
  const int slice = call(s, "aten::to", us, dur_us, line);
  snprintf(dims, sizeof dims, "[[%d, 100], []]", rows);
  snprintf(both, sizeof both, "[\"%s\", \"Scalar\"]", from);
  inputs(s, dims, both, NULL);
  call(s, "aten::_to_copy", us, dur_us - 10, NULL);
  call(s, "aten::copy_", us + 20, dur_us - 40, NULL);
  snprintf(dims, sizeof dims, "[[%d, 100], [%d, 100], []]", rows, rows);
  snprintf(both, sizeof both, "[\"%s\", \"%s\", \"Scalar\"]", to, from);
  inputs(s, dims, both, NULL);
  return slice;
}

struct back {
  const char *line, *type;
  int rows;
};

/* 700 us to bfloat16, 500 back, and 200 of backward of the first, which is on the same line as the second where that
 * is so given. */
static struct scene casts(struct back back) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int first = cast(&s, 0, 700, "net.py(8): forward;train.py(30): train", 64, "float", "c10::BFloat16");
    cast(&s, 800, 500, back.line, back.rows, "c10::BFloat16", back.type);
    node(&s, "ToCopyBackward0", 5000, 200, first);
  }
  return s;
}

static void expect_casts(struct scene s, int64_t cost_us) {
  struct tg_table *const t = ask(&s);
  const size_t row = mini_row(t, "cause", "casts-back-and-forth");
  assert_int_equal(mini_int(t, row, "cost_ns"), cost_us * US);
  assert_int_equal(mini_int(t, row, "line"), 8);
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "2 casts a step, here from float to c10::BFloat16"));
  assert_string_not_equal(mini_cell(t, row, "severity"), "high");
  tg__table_free(t);
}

static void test_casts(void **state) {
  static const char same[] = "net.py(8): forward;train.py(30): train",
                    other[] = "net.py(9): forward;train.py(30): train";
  expect_casts(casts((struct back){other, "float", 64}), 1400);
  expect_casts(casts((struct back){same, "float", 64}), 1400); /* half of the backward for each of two calls */
  static const struct back misses[] = {
      {other, "double", 64},                                 /* to a third type */
      {other, "float", 63},                                  /* of another size: the output */
      {"loss.py(3): loss;train.py(31): train", "float", 64}, /* in another function */
      {other, "c10::BFloat16", 64},                          /* a copy */
  };
  for (size_t i = 0; i < sizeof misses / sizeof *misses; i++) {
    struct scene s = casts(misses[i]);
    expect_absent(&s, "casts-back-and-forth");
  }
}

/* ---- from module to module ------------------------------------------------------------------- */

/* Four operators of 400 us, each in a function of its own; in a module of its own, too, where in_modules. */
static struct scene module_chain(bool in_modules, const char *third) {
  static const char *const names[] = {"aten::tanh", "aten::mul", NULL, "aten::sigmoid"};
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 4; k++) {
      char stack[80], module[40];
      snprintf(module, sizeof module, "nn.Module: Layer_%d", k);
      if (in_modules) mini_slice(s.m, s.thread, "python_function", module, s.at + 500 * k * US, 450 * US);
      snprintf(stack, sizeof stack, "net.py(%d): forward%d;train.py(30): train", 10 * k + 5, k);
      call(&s, names[k] ? names[k] : third, 500 * k, 400, stack);
      inputs(&s, "[[256, 256], []]", "[\"float\", \"Scalar\"]", NULL);
    }
    call(&s, "aten::mm", 5000, 4000, "train.py(31): train");
  }
  return s;
}

static void test_chain_of_modules(void **state) {
  struct scene s = module_chain(true, "aten::add");
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "unfused-elementwise");
  assert_int_equal(mini_int(t, row, "cost_ns"), 4 * 400 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 3 * 400 * US);
  tg__table_free(t);
  s = module_chain(true, "aten::mm"); /* two and one */
  expect_absent(&s, "unfused-elementwise");
  s = module_chain(false, "aten::add"); /* functions that have nothing to do with one another */
  expect_absent(&s, "unfused-elementwise");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static struct tg_table *product(const char *name, const char *dims, const char *types) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    const int forward = call(&s, name, 0, 2000, "net.py(8): forward;train.py(30): train");
    inputs(&s, dims, types, NULL);
    node(&s, "AddmmBackward0", 3000, 1500, forward);
  }
  return ask(&s);
}

#define HALVES "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\"]"
#define FLOATS "[\"float\", \"float\", \"float\"]"

static void test_sizes(void **state) {
  static const struct {
    const char *name, *dims, *types, *here, *advice;
  } misfits[] = {
      {"aten::linear", "[[64, 509], [512, 509], []]", HALVES, "here 512 x 509: 3.50 ms", "here 512 x 512."},
      {"aten::addmm", "[[31], [64, 512], [512, 31]]", HALVES, "here 512 x 31: 3.50 ms", "here 512 x 32."},
      {"aten::conv2d", "[[8, 9, 32, 32], [16, 9, 3, 3], []]", FLOATS, "here 16 x 9: 3.50 ms", "here 16 x 16."},
  };
  for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
    struct tg_table *const t = product(misfits[i].name, misfits[i].dims, misfits[i].types);
    const size_t row = mini_row(t, "cause", "unaligned-sizes");
    assert_int_equal(mini_int(t, row, "cost_ns"), 3500 * US);
    assert_string_equal(mini_cell(t, row, "severity"), "low"); /* no kernel says that it costs anything */
    assert_non_null(strstr(mini_cell(t, row, "evidence"), misfits[i].here));
    assert_non_null(strstr(mini_cell(t, row, "advice"), misfits[i].advice));
    assert_int_equal(mini_int(t, row, "line"), 8);
    tg__table_free(t);
  }
  static const char *const fits[][3] = {
      {"aten::linear", "[[64, 512], [512, 512], []]", HALVES},
      {"aten::linear", "[[31, 512], [128, 512], []]", HALVES},           /* rows of the batch are not loaded along it */
      {"aten::linear", "[[64, 509], [512, 509], []]", FLOATS},           /* no tensor cores */
      {"aten::conv2d", "[[8, 3, 32, 32], [16, 3, 3, 3], []]", FLOATS},   /* an image */
      {"aten::conv2d", "[[8, 16, 32, 32], [16, 1, 3, 3], []]", FLOATS},  /* by channel */
      {"aten::conv2d", "[[8, 12, 32, 32], [16, 12, 3, 3], []]", FLOATS}, /* three of four lanes are filled */
      {"aten::bmm", "[[4, 197, 64], [4, 64, 197]]", HALVES},             /* no weight: a length of the data */
      {"aten::linear", "[[], [], []]", HALVES},
  };
  for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
    struct tg_table *const t = product(fits[i][0], fits[i][1], fits[i][2]);
    assert_int_equal(count(t, "unaligned-sizes"), 0);
    tg__table_free(t);
  }
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Ten products of `rows` x 1024 and a weight of 1024 x 1024 floats a step. The words of bottleneck about memory. */
static void expect_rows(int rows, const char *words) {
  struct scene s = begin();
  char dims[80];
  snprintf(dims, sizeof dims, "[[%d, 1, 1024], [1024, 1024], []]", rows);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    for (int k = 0; k < 10; k++) {
      call(&s, "aten::linear", 1000 * k, 950, "net.py(8): forward;train.py(30): train");
      inputs(&s, dims, "[\"float\", \"float\", \"\"]", NULL);
    }
  }
  struct tg_table *const t = mini_ask(mini_finish(s.m), "bottleneck", NULL);
  const char *const said = mini_cell(t, mini_row(t, "kind", "memory"), "evidence");
  if (words)
    assert_non_null(strstr(said, words));
  else
    assert_null(strstr(said, "a token"));
  tg__table_free(t);
  mini_free(s.m);
}

/* Weight, input and output once: 4 x (1048576 + 2 x 1024 x rows) bytes, ten times. */
static void test_bytes_of_a_token(void **state) {
  expect_rows(1,
              "; products of 1 row, as decoding has them, are 100.0 % of the operators' time and read 42.0 MB a step, "
              "42.0 MB a token");
  expect_rows(4,
              "; products of 4 rows, as decoding has them, are 100.0 % of the operators' time and read 42.3 MB a step, "
              "10.6 MB a token");
  expect_rows(9, NULL);
}

/* ---- what devices said ------------------------------------------------------------------------ */

static void test_sampled_figures_are_said(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    mini_mark(s.m, s.thread, "", "GPU 0 utilisation %", 'C', i * STEP);
    mini_arg_int(s.m, "value", 20 + 20 * i); /* 40 on average */
    mini_mark(s.m, s.thread, "", "GPU 0 power mW", 'C', i * STEP);
    mini_arg_int(s.m, "value", 310000);
    call(&s, "aten::mm", 10000 * i, 9000, "train.py(31): train");
  }
  struct tg_table *const t = ask(&s);
  bool is_said = false;
  for (size_t i = 0; i < t->note_count; i++)
    is_said |= strstr(t->notes[i], "; sampled: device 0 utilisation 40 %, device 0 power 310 W") != NULL;
  assert_true(is_said);
  tg__table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_chain_of_modules),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_bytes_of_a_token),
      cmocka_unit_test(test_sampled_figures_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
