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
      cmocka_unit_test(test_sampled_figures_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
