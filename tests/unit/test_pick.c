/* The argument columns=: what is asked for, in that order; the rest is not worked out, and limit= ends the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "tachograph/read.h"
#include "unit/mini_trace.h"

/* Two operators on a thread, the second in the first, a call and its kernel. */
static struct mini *make(void) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
  mini_slice(m, cpu, "cpu_op", "outer", 1000, 9000);
  const int inner = mini_slice(m, cpu, "cpu_op", "inner", 2000, 4000);
  const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 3000, 1000);
  mini_arg_int(m, "correlation", 5);
  const int kernel = mini_slice(m, gpu, "kernel", "gemm", 7000, 2000);
  mini_arg_int(m, "correlation", 5);
  mini_arg_int(m, "stream", 7);
  mini_cause(m, kernel, call);
  mini_cause(m, call, inner);
  return m;
}

static void in_the_order_asked(void **state) {
  struct mini *m = make();
  struct tg_table *t = mini_ask(mini_finish(m), "rows", "columns", "index_correlation,name,dur_us", NULL);
  assert_int_equal(tg_table_columns(t), 3);
  assert_string_equal(tg_column_name(t, 0), "index_correlation");
  assert_string_equal(tg_column_name(t, 2), "dur_us");
  assert_int_equal(tg_table_rows(t), 4);
  assert_string_equal(mini_cell(t, 3, "name"), "gemm");
  assert_int_equal(mini_int(t, 3, "index_correlation"), 2); /* the call is the third event */
  assert_int_equal(mini_int(t, 2, "index_correlation"), 3);
  assert_int_equal(mini_int(t, 0, "index_correlation"), -1);
  assert_true(mini_real(t, 1, "dur_us") == 4.0);
  tg__table_free(t);
  mini_free(m);
}

static void args_stay_beside_the_columns(void **state) {
  struct mini *m = make();
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t =
      mini_ask(trace, "rows", "columns", "iteration,name", "side", "device", "args", "correlation,none", NULL);
  assert_int_equal(tg_table_columns(t), 4);
  assert_string_equal(tg_column_name(t, 2), "args.correlation");
  assert_string_equal(tg_column_name(t, 3), "none");
  assert_int_equal(tg_table_rows(t), 1);
  assert_string_equal(mini_cell(t, 0, "name"), "gemm");
  assert_int_equal(mini_int(t, 0, "args.correlation"), 5);
  tg__table_free(t);
  t = mini_ask(trace, "rows", "columns", "name", "side", "host", "limit", "2", NULL);
  assert_int_equal(tg_table_rows(t), 2);
  assert_string_equal(mini_cell(t, 1, "name"), "inner");
  tg__table_free(t);
  mini_free(m);
}

static void changes_of_a_queue(void **state) {
  struct mini *m = make();
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t =
      mini_ask(trace, "queue", "by", "series", "columns", "length,track,full_pct", "where", "stream = 7", NULL);
  assert_int_equal(tg_table_columns(t), 3);
  assert_int_equal(tg_table_rows(t), 2);
  assert_int_equal(mini_int(t, 0, "length"), 1);
  assert_int_equal(mini_int(t, 1, "length"), 0);
  assert_int_equal(mini_int(t, 0, "track"), 1);
  assert_true(isnan(mini_real(t, 1, "full_pct")));
  tg__table_free(t);
  t = mini_ask(trace, "queue", "columns", "points,max", NULL);
  assert_int_equal(mini_int(t, 0, "points"), 2);
  assert_true(mini_real(t, 0, "max") == 1.0);
  tg__table_free(t);
  mini_free(m);
}

static void columns_of_where_and_sort_are_worked_out(void **state) {
  struct mini *m = make();
  struct tg_table *t = mini_ask(mini_finish(m), "call_graph", "columns", "name", "where", "kernels = 1 and height > 0",
                                "sort", "dur_ns asc", NULL);
  assert_int_equal(tg_table_columns(t), 1);
  assert_int_equal(tg_table_rows(t), 3);
  assert_string_equal(mini_cell(t, 0, "name"), "cudaLaunchKernel");
  assert_string_equal(mini_cell(t, 2, "name"), "outer");
  tg__table_free(t);
  mini_free(m);
}

static void limit_cuts_after_where(void **state) {
  struct mini *m = make();
  struct tg__columns *trace = mini_finish(m);
  struct tg_table *t = mini_ask(trace, "rows", "columns", "name", "limit", "2", NULL);
  assert_int_equal(tg_table_rows(t), 2);
  assert_string_equal(mini_cell(t, 1, "name"), "inner");
  tg__table_free(t);
  t = mini_ask(trace, "rows", "limit", "1", "where", "stream = 7", NULL);
  assert_int_equal(tg_table_rows(t), 1);
  assert_string_equal(mini_cell(t, 0, "name"), "gemm");
  tg__table_free(t);
  t = mini_ask(trace, "call_graph", "limit", "1", "sort", "-start_ns", NULL);
  assert_int_equal(tg_table_rows(t), 1);
  assert_string_equal(mini_cell(t, 0, "name"), "gemm");
  tg__table_free(t);
  t = mini_ask(trace, "call_graph", "limit", "0", NULL);
  assert_int_equal(tg_table_rows(t), 0);
  tg__table_free(t);
  mini_free(m);
}

static void refuse(struct tg__columns *t, const char *columns, const char *why) {
  const struct tg_arg arg = {"columns", columns};
  struct tg_table *table;
  struct tg_error e;
  assert_int_equal(tg__ask_trace(&(struct tg_trace){.columns = t}, "rows", &arg, 1, &table, &e), TG_USAGE);
  assert_string_equal(e.text, why);
}

static void unknown_names(void **state) {
  struct mini *m = make();
  struct tg__columns *t = mini_finish(m);
  refuse(t, "nme", "columns: there is no column 'nme'; did you mean name?");
  refuse(t, "name,name", "columns: name is named twice");
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_the_order_asked),     cmocka_unit_test(args_stay_beside_the_columns),
      cmocka_unit_test(changes_of_a_queue),     cmocka_unit_test(columns_of_where_and_sort_are_worked_out),
      cmocka_unit_test(limit_cuts_after_where), cmocka_unit_test(unknown_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
