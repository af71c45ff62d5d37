/* Diff: names of kernel families and short names, Student's distribution, draws, and what a diff of hand-made traces
 * says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/diff/bootstrap.h"
#include "analyze/names/kernel_family.h"
#include "mini_trace.h"

static const struct tg__diff_access access = {.catalog = &tg__catalog, .ask = tg__ask_trace};

typedef void name_fn(struct tg__str name, struct tg__out *out);

static void check_name(name_fn *shorten, const char *name, const char *want) {
  struct tg__out out = {0};
  tg__out_text(&out, "before "); /* what stands there already stays */
  shorten((struct tg__str){name, (uint32_t)strlen(name)}, &out);
  tg__out_char(&out, 0);
  assert_false(out.err);
  assert_memory_equal(out.buf, "before ", 7);
  assert_string_equal(out.buf + 7, want);
  tg__out_free(&out);
}

static void kernel_families(void **state) {
  (void)state;
  check_name(tg__kernel_family,
             "void at::native::vectorized_elementwise_kernel<4, at::F<float>, Array<char*, 3> >(int, at::F<float>)",
             "at::native::vectorized_elementwise_kernel");
  check_name(tg__kernel_family, "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 2>(int)",
             "at::native::CatArrayBatchedCopy");
  check_name(tg__kernel_family, "(anonymous namespace)::k(int)", "k");
  check_name(tg__kernel_family, "ampere_sgemm_128x64_tn", "ampere_sgemm_#_tn");
  check_name(tg__kernel_family, "sm80_gemm_f16f16_tilesize96x64x32_stage4", "sm#_gemm_f#f#_tilesize#_stage#");
  check_name(tg__kernel_family, "triton_poi_fused_add_0", "triton_poi_fused_add_#");
  check_name(tg__kernel_family, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
             "ncclDevKernel_AllReduce_Sum_f#_RING_LL");
  check_name(tg__kernel_family, "f<decltype(a->b)>::g<1>", "f::g");
  check_name(tg__kernel_family, "cut_off<int, float", "cut_off");
  check_name(tg__kernel_family, "<all>(gone)", "<all>(gone)");
  check_name(tg__kernel_family, "", "");
}

static void short_names(void **state) {
  (void)state;
  check_name(tg__hta_short_name, "void at::native::f<4, X<int> >(int, Y)", "at::native::f");
  check_name(tg__hta_short_name, "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)");
  check_name(tg__hta_short_name, "two words", "two words"); /* no brackets: as it is */
  check_name(tg__hta_short_name, "int f(a) g", "g");
  check_name(tg__hta_short_name, "a)b(c",
             "b(c"); /* a bracket that was never opened takes all before it; one never closed stays */
}

static void students_distribution(void **state) { /* against printed tables */
  (void)state;
  static const struct {
    double freedom, point;
  } table[] = {{2, 4.302653}, {5, 2.570582}, {10, 2.228139}, {30, 2.042272}, {1000, 1.962339}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    assert_true(fabs(tg__student_point(table[i].freedom) - table[i].point) < 1e-5);
    assert_true(fabs(tg__student_tail(table[i].point, table[i].freedom) - 0.05) < 1e-6);
  }
  assert_true(fabs(tg__student_tail(0, 7) - 1) < 1e-12);
  assert_true(fabs(tg__student_tail(1, 1) - 0.5) < 1e-12); /* Cauchy */
}

static void draws_take_every_step_alike(void **state) {
  (void)state;
  struct tg__draws d;
  assert_true(tg__draws_make(&d, 30, 1));
  for (size_t draw = 0; draw < TG__DRAWS; draw++) {
    double sum = 0;
    for (size_t step = 0; step < 30; step++) sum += (double)d.weights[step * TG__DRAWS + draw];
    assert_true(sum == 30);
  }
  for (size_t step = 0; step < 30; step++) {
    double sum = 0;
    for (size_t draw = 0; draw < TG__DRAWS; draw++) sum += (double)d.weights[step * TG__DRAWS + draw];
    assert_true(fabs(sum / TG__DRAWS - 1) < 0.15); /* six standard errors of blocks of three */
  }
  tg__draws_free(&d);
}

/* Four steps of 100 ns, 20 ns apart, each with one operator of the given length. */
static struct mini *loop(const char *op, int64_t op_ns) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  static const char *const names[] = {"ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
  for (int64_t i = 0; i < 4; i++) {
    mini_slice(m, cpu, "user_annotation", names[i], 1000 + 120 * i, 60 + op_ns);
    mini_slice(m, cpu, "cpu_op", op, 1010 + 120 * i, op_ns);
  }
  return m;
}

static struct tg_table *diff_of(struct mini *a, struct mini *b, enum tg_err want, struct tg_error *e) {
  struct tg_table *t = NULL;
  struct tg_trace x = {.columns = mini_finish(a)}, y = {.columns = mini_finish(b)};
  assert_int_equal(tg__diff_run(&(struct tg__diff_input){x.columns, &x, false},
                                &(struct tg__diff_input){y.columns, &y, false}, &access, NULL, 0, &t, e),
                   want);
  return t;
}

static size_t find_row(const struct tg_table *t, const char *by, const char *name, const char *quantity) {
  for (size_t i = 0; i < t->rows; i++)
    if (!strcmp(mini_cell(t, i, "by"), by) && !strcmp(mini_cell(t, i, "name"), name) &&
        !strcmp(mini_cell(t, i, "quantity"), quantity))
      return i;
  fail_msg("no row %s %s %s", by, name, quantity);
  return SIZE_MAX;
}

static void steps_without_noise(void **state) {
  (void)state;
  struct mini *a = loop("aten::mm", 40), *b = loop("aten::mm", 50);
  struct tg_error e = {0};
  struct tg_table *t = diff_of(a, b, TG_OK, &e);
  const size_t p50 = find_row(t, "step", "step", "p50"), mm = find_row(t, "op", "aten::mm", "self_cpu");
  assert_true(mini_real(t, p50, "a") == 100 && mini_real(t, p50, "b") == 110 && mini_real(t, p50, "delta_pct") == 10);
  assert_string_equal(mini_cell(t, p50, "verdict"), "slower");
  assert_true(mini_real(t, mm, "low") == 10 && mini_real(t, mm, "high") == 10);
  assert_string_equal(t->notes[0], "B is 10.0 % slower: 100 → 110 ns a step (95 %: 10.0 … 10.0 %)");
  assert_string_equal(t->notes[1], "the median of 4 steps of A and 4 of B");
  bool fails = false;
  assert_int_equal(tg__diff_fails(t, "op[\"aten::mm\"] > +9.5ns", &fails, &e), TG_OK);
  assert_true(fails);
  assert_string_equal(
      e.text, "op[\"aten::mm\"] > +9.5ns holds: aten::mm self_cpu is 4e-05 ms in A and 5e-05 ms in B (+25.0 %)");
  tg__table_free(t);
  mini_free(a);
  mini_free(b);
}

static struct tg_table *one_against_itself(struct mini *m, const char *step) {
  const struct tg_arg args[] = {{"by", "all"}, {"step", step}};
  struct tg_trace trace = {.columns = mini_finish(m)};
  const struct tg__diff_input side = {trace.columns, &trace, false};
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  assert_int_equal(tg__diff_run(&side, &side, &access, args, step ? 2 : 1, &t, &e), TG_OK);
  return t;
}

static bool has_op(const struct tg_table *t, const char *name) {
  for (size_t i = 0; i < t->rows; i++)
    if (!strcmp(mini_cell(t, i, "by"), "op") && !strcmp(mini_cell(t, i, "name"), name)) return true;
  return false;
}

/* Step 4 is asked for. Step 3 beside it begins or ends with it, or is at the time of another rank's step 4: work
 * that lies only in it does not count. */
static void a_chosen_step_is_no_other(void **state) {
  (void)state;
  static const struct {
    int64_t start, end, other_start, other_end, op_start;
  } cases[] = {{1000, 1100, 1000, 1300, 1200}, {1200, 1300, 1000, 1300, 1050}, {1400, 1500, 1000, 1300, 1050}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct mini *m = mini_new();
    mini_rank(m, 0);
    const uint32_t cpu = mini_thread(m, 1, 10);
    mini_slice(m, cpu, "user_annotation", "ProfilerStep#3", cases[i].other_start,
               cases[i].other_end - cases[i].other_start);
    mini_slice(m, cpu, "user_annotation", "ProfilerStep#4", cases[i].start, cases[i].end - cases[i].start);
    mini_slice(m, cpu, "cpu_op", "aten::mm", cases[i].op_start, 10);
    mini_slice(m, cpu, "cpu_op", "aten::add", cases[i].start + 80, 10);
    mini_rank(m, 1);
    mini_slice(m, mini_thread(m, 1, 20), "user_annotation", "ProfilerStep#4", 1000, 300);
    struct tg_table *t = one_against_itself(m, "4");
    assert_true(has_op(t, "aten::add"));
    assert_false(has_op(t, "aten::mm"));
    tg__table_free(t);
    mini_free(m);
  }
}

static void work_behind_a_step_inside_another(void **state) {
  (void)state;
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#3", 1000, 300);
  mini_slice(m, cpu, "user_annotation", "ProfilerStep#4", 1050, 50);
  mini_slice(m, cpu, "cpu_op", "aten::mm", 1200, 10); /* in the first of two steps */
  struct tg_table *t = one_against_itself(m, NULL);
  assert_true(mini_real(t, find_row(t, "op", "aten::mm", "calls"), "a") == 0.5);
  tg__table_free(t);
  mini_free(m);
}

static void nothing_to_compare(void **state) {
  (void)state;
  struct mini *a = loop("aten::mm", 40), *b = mini_new();
  mini_thread(b, 1, 1);
  struct tg_error e = {0};
  assert_null(diff_of(a, b, TG_NO_DATA, &e));
  assert_true(strstr(e.text, "nothing to compare") != NULL);
  mini_free(a);
  mini_free(b);
}

static void no_memory(void **state) {
  (void)state;
  struct mini *a = loop("aten::mm", 40), *b = loop("aten::add", 50);
  struct tg_trace x = {.columns = mini_finish(a)}, y = {.columns = mini_finish(b)};
  static const struct tg_arg kinds[][1] = {
      {{"by", "all"}}, {{"by", "short_name"}}, {{"by", "conditions"}}, {{"question", "ops"}}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    enum tg_err err = TG_MEMORY;
    for (long calls = 1; err == TG_MEMORY; calls++) {
      struct tg_table *t = NULL;
      struct tg_error e = {0};
      tg__alloc_fail_after(calls);
      err = tg__diff_run(&(struct tg__diff_input){x.columns, &x, false}, &(struct tg__diff_input){y.columns, &y, false},
                         &access, kinds[k], 1, &t, &e);
      tg__alloc_fail_after(-1);
      assert_true(err == TG_OK || (err == TG_MEMORY && e.text[0] && !t));
      tg__table_free(t);
      assert_true(calls < 5000);
    }
    assert_int_equal(err, TG_OK);
  }
  mini_free(a);
  mini_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernel_families),
      cmocka_unit_test(short_names),
      cmocka_unit_test(students_distribution),
      cmocka_unit_test(draws_take_every_step_alike),
      cmocka_unit_test(steps_without_noise),
      cmocka_unit_test(a_chosen_step_is_no_other),
      cmocka_unit_test(work_behind_a_step_inside_another),
      cmocka_unit_test(nothing_to_compare),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
