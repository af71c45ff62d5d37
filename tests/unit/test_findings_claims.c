/* Findings among each other: no two of the same time, an order by what is expected to be saved, nothing impossible. */
#include "diagnose/findings.h"
#include "unit/findings_scene.h"

static struct tg__facts facts(void) {
  static struct tg__step_cost steps[3];
  for (int i = 0; i < 3; i++) steps[i] = (struct tg__step_cost){.start_ns = i * 100, .end_ns = i * 100 + 100};
  struct tg__facts f = {.median_ns = 100, .total_ns = 300};
  f.steps = (struct tg__breakdown){.steps = steps, .count = 3, .window = {.start_ns = 0, .end_ns = 300}};
  return f;
}

static struct tg__finding *add(struct tg__facts *f, enum tg__cause cause, int64_t saving_ns, double confidence) {
  struct tg__finding *x = tg__finding_add(f, cause, (double)saving_ns, TG__NO_THRESHOLD, saving_ns);
  x->saving_ns = saving_ns;
  x->confidence = confidence;
  TG_FORMAT(x->evidence, "seen");
  TG_FORMAT(x->advice, "do it");
  return x;
}

static void end(struct tg__facts *f) {
  for (size_t i = 0; i < f->found_count; i++) tg__spans_free(&f->found[i].claim);
  tg__free(f->found);
}

static void test_two_of_the_same_time(void **state) {
  (void)state;
  struct tg__facts f = facts();
  struct tg__finding *x = add(&f, TG__CAUSE_BLOCKING_COPY, 40, 0.5); /* 20 expected */
  tg__finding_claim(&f, x, 0, 120);
  x = add(&f, TG__CAUSE_LOADER_IN_MAIN_PROCESS, 30, 0.9); /* 27 expected: it keeps the time */
  tg__finding_claim(&f, x, 0, 90);
  tg__resolve_claims(&f);
  assert_int_equal(f.found_count, 1);
  assert_int_equal(f.found[0].cause, TG__CAUSE_LOADER_IN_MAIN_PROCESS);
  assert_string_equal(f.found[0].evidence, "seen; the same time is blocking-copy (40.0 %)");
  end(&f);
}

static void test_a_part_of_the_time(void **state) {
  (void)state;
  struct tg__facts f = facts();
  struct tg__finding *x = add(&f, TG__CAUSE_LOADER_IN_MAIN_PROCESS, 30, 0.9);
  tg__finding_claim(&f, x, 0, 100);
  x = add(&f, TG__CAUSE_BLOCKING_COPY, 40, 0.5);
  tg__finding_claim(&f, x, 75, 175); /* a quarter of it is the loader's */
  tg__resolve_claims(&f);
  assert_int_equal(f.found_count, 2);
  assert_int_equal(f.found[1].saving_ns, 30);
  assert_int_equal(f.found[1].cost_ns, 30);
  end(&f);
}

static void test_a_symptom_goes_with_its_cause(void **state) {
  (void)state;
  struct tg__facts f = facts();
  struct tg__finding *x = add(&f, TG__CAUSE_IDLE_DEVICE, 60, 0.9); /* more expected than of the cause */
  x->is_symptom = true;
  tg__finding_claim(&f, x, 0, 100);
  x = add(&f, TG__CAUSE_HOST_SYNCHRONISATION, 20, 0.6);
  tg__finding_claim(&f, x, 0, 60);
  tg__resolve_claims(&f);
  assert_int_equal(f.found_count, 1);
  assert_int_equal(f.found[0].cause, TG__CAUSE_HOST_SYNCHRONISATION);
  end(&f);
}

/* The optimizer has half of the loss of the whole step: it keeps that, though less is expected of it. */
static void test_a_place_goes_before_the_whole_step(void **state) {
  (void)state;
  for (int half = 40; half <= 60; half += 20) {
    struct tg__facts f = facts();
    struct tg__finding *x = add(&f, TG__CAUSE_MANY_SMALL_OPS, 80, 0.5); /* 40 expected */
    x->is_general = true;
    tg__finding_claim(&f, x, 0, 100);
    x = add(&f, TG__CAUSE_SINGLE_TENSOR_OPTIMIZER, 30, 0.8); /* 24 */
    tg__finding_claim(&f, x, 0, half);
    tg__resolve_claims(&f);
    if (half < 50) {
      assert_int_equal(f.found_count, 2);
      assert_int_equal(f.found[0].saving_ns, 48); /* of 80 what the other has left: 60 of 100 */
      assert_int_equal(f.found[1].saving_ns, 30);
    } else {
      assert_int_equal(f.found_count, 1);
      assert_int_equal(f.found[0].cause, TG__CAUSE_SINGLE_TENSOR_OPTIMIZER);
      assert_non_null(strstr(f.found[0].evidence, "the same time is many-small-ops (80.0 %)"));
    }
    end(&f);
  }
}

static void test_no_more_than_a_step(void **state) {
  (void)state;
  struct tg__facts f = facts();
  add(&f, TG__CAUSE_LOADER_IN_MAIN_PROCESS, 70, 0.9);
  add(&f, TG__CAUSE_GC_PRESSURE, 60, 0.9); /* of the median step of 100 only 30 are left */
  add(&f, TG__CAUSE_SYNC_LOGGING, 2, 0.9); /* 2 % of a step */
  tg__resolve_claims(&f);
  assert_int_equal(f.found_count, 2);
  assert_int_equal(f.found[0].saving_ns + f.found[1].saving_ns, 100);
  assert_non_null(strstr(f.withheld, "sync-logging (worth less than 3 % of the time)"));
  end(&f);
}

static void test_what_makes_a_finding_impossible(void **state) {
  (void)state;
  struct tg__facts f = facts();
  struct tg__finding *x = add(&f, TG__CAUSE_GC_PRESSURE, 100, 0.9);
  assert_null(tg__finding_fault(&f, x));
  x->saving_ns = 101; /* above the median step */
  assert_string_equal(tg__finding_fault(&f, x), "its saving is above the median step");
  x->saving_ns = 50;
  x->share_pct = 150.8;
  assert_string_equal(tg__finding_fault(&f, x), "its share is not between 0 and 100 %");
  x->share_pct = NAN;
  assert_non_null(tg__finding_fault(&f, x));
  x->share_pct = 50;
  x->confidence = 1;
  assert_non_null(tg__finding_fault(&f, x));
  x->confidence = 0.5;
  x->advice[0] = 0;
  assert_non_null(tg__finding_fault(&f, x));
  end(&f);
}

/* An unknown saving counts with 0.4 of the time that the cause holds, so it is not last. */
static void test_without_estimate(void **state) {
  (void)state;
  assert_true(tg__expected_ns(TG_NULL_INT, NAN, 100) == 40);
  assert_true(tg__expected_ns(50, 0.5, 100) == 25);
  assert_true(tg__expected_ns(TG_NULL_INT, NAN, TG_NULL_INT) == 0);
}

static void put_row(struct tg_table *t, const char *cause, const char *severity, int64_t saving_ns, double confidence) {
  tg__put_cstr(t, cause);
  tg__put_cstr(t, severity);
  tg__put_cstr(t, cause);
  tg__put_cstr(t, "seen");
  tg__put_int(t, 0);
  tg__put_int(t, saving_ns);
  tg__put_int(t, 200);
  tg__put_real(t, confidence);
  tg__put_real(t, 50);
}

/* First how severe it is, then what it is expected to save. */
static void test_order_of_rows(void **state) {
  (void)state;
  static const char *const texts[] = {"cause", "severity", "where", "evidence"}, *const order[] = {"c", "b", "d", "e",
                                                                                                   "a"};
  struct tg_table *t = tg__table_new("findings");
  for (size_t i = 0; i < 4; i++) tg__table_add_column(t, texts[i], TG_TEXT, "");
  tg__table_add_column(t, "rank", TG_INT, "");
  tg__table_add_column(t, "saving_ns", TG_INT, "ns");
  tg__table_add_column(t, "cost_ns", TG_INT, "ns");
  tg__table_add_column(t, "confidence", TG_REAL, "");
  tg__table_add_column(t, "share_pct", TG_REAL, "%");
  put_row(t, "a", "low", 190, 0.9);
  put_row(t, "b", "medium", 107, 0.9);
  put_row(t, "c", "high", 164, 0.5);           /* less than b expected, and shown before it */
  put_row(t, "d", "medium", TG_NULL_INT, NAN); /* counts as 80 */
  put_row(t, "e", "medium", 110, 0.5);
  assert_int_equal(tg__findings_of_ranks(t, NULL, 0, NULL), TG_OK);
  for (size_t i = 0; i < 5; i++) assert_string_equal(mini_cell(t, i, "cause"), order[i]);
  tg__table_free(t);
}

static void test_usual_step(void **state) {
  (void)state;
  struct tg__facts f = facts();
  struct tg__spans s = {0};
  tg__spans_add(&s, 0, 10);
  tg__spans_add(&s, 100, 190); /* one step has nine times as much */
  tg__spans_add(&s, 200, 210);
  tg__spans_union(&s);
  assert_int_equal(tg__usual_inside(&f, &s), 10);
  tg__spans_free(&s);
  assert_false(f.failed);
}

static void test_a_compiled_kernel_has_its_line_and_module(void **state) {
  (void)state;
  static const char text[] =
      "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"cpp_fused_0\",\"pid\":1,\"tid\":1,\"ts\":1,"
      "\"dur\":4}],"
      "\"compiled.1\":{\"stacks\":[\"File \\\"a.py\\\", line 3, in f\"],\"kernels\":{\"0/0\":{\"cpp_fused_0:1\":[0]}},"
      "\"paths\":[\"a(Block) / up(Linear)\",\"a(Block) / down(Linear)\"],"
      "\"modules\":{\"0/0\":{\"cpp_fused_0:1\":[0,1]}}}}";
  struct tg__finding x = {0};
  struct tg__facts f = {0};
  struct tg__columns *t;
  struct tg_error e;
  assert_int_equal(tg__trace_open_bytes(text, sizeof text - 1, 1, 0, false, &t, &e), TG_OK);
  f.t = t;
  tg__where_slice(&f, 0, &x);
  assert_string_equal(x.where, "cpp_fused_0 at a.py(3): f in a(Block)");
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_of_the_same_time),
      cmocka_unit_test(test_a_part_of_the_time),
      cmocka_unit_test(test_a_symptom_goes_with_its_cause),
      cmocka_unit_test(test_a_place_goes_before_the_whole_step),
      cmocka_unit_test(test_no_more_than_a_step),
      cmocka_unit_test(test_what_makes_a_finding_impossible),
      cmocka_unit_test(test_without_estimate),
      cmocka_unit_test(test_order_of_rows),
      cmocka_unit_test(test_usual_step),
      cmocka_unit_test(test_a_compiled_kernel_has_its_line_and_module),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
