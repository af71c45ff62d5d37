/* SQL over the columns: windows against a full scan, joins through the links, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "show/sql.h"
#include "unit/mini_trace.h"

static struct mini *m;
static struct tg__columns *trace;
static int op, call, kernel;

/* Three CPU tracks with nested and repeated slices, a stream, marks, args. */
static int setup(void **state) {
  m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 10), other = mini_thread(m, 1, 11), gpu = mini_stream(m, 0, 7);
  op = mini_slice(m, cpu, "cpu_op", "aten::mm", 100, 50);
  mini_arg_int(m, "External id", 5);
  mini_arg_raw(m, "Input Dims", "[[2, 3], []]");
  call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 110, 5);
  kernel = mini_slice(m, gpu, "kernel", "gemm", 120, 300);
  mini_arg_dec(m, "occupancy", 125, 2);
  mini_arg_str(m, "note", "x\"y");
  mini_cause(m, kernel, call);
  mini_cause(m, call, op);
  for (int i = 0; i < 40; i++)
    mini_slice(m, other, "cpu_op", i % 3 ? "aten::add" : "aten::mm", 1000 + i * 10, i % 4 ? 10 : 25);
  mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', 130);
  mini_arg_int(m, "Bytes", -512);
  mini_loss(m, TG__LOSS_cut_end, 2, 77);
  trace = mini_finish(m);
  return 0;
}

static int teardown(void **state) {
  mini_free(m);
  return 0;
}

static struct tg_table *run(const char *sql) {
  struct tg_table *t;
  struct tg_error e = {0};
  if (tg__sql_run(trace, sql, &t, &e)) fail_msg("%s: %s", sql, e.text);
  return t;
}

/* The only cell of the answer. */
static int64_t number(const char *sql) {
  struct tg_table *t = run(sql);
  assert_int_equal(t->rows, 1);
  assert_int_equal(t->columns[0].type, TG_INT);
  const int64_t v = t->columns[0].ints[0];
  tg__table_free(t);
  return v;
}

static void text_is(const char *sql, const char *want) {
  struct tg_table *t = run(sql);
  assert_int_equal(t->rows, 1);
  assert_int_equal(t->columns[0].type, TG_TEXT);
  const struct tg__str s = tg__strings_get(t->strings, t->columns[0].texts[0]);
  assert_int_equal(s.len, strlen(want));
  assert_memory_equal(s.ptr, want, s.len);
  tg__table_free(t);
}

static void every_slice_is_there(void **state) {
  assert_int_equal(number("SELECT count(*) FROM slices"), 43);
  assert_int_equal(number("SELECT sum(dur_ns) FROM slices"), 50 + 5 + 300 + 10 * 25 + 30 * 10);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE name = 'aten::mm'"), 1 + 14);
  assert_int_equal(number("SELECT self_ns FROM slices WHERE name = 'aten::mm' AND track = 0"), 45);
  assert_int_equal(number("SELECT end_ns FROM slices WHERE class = 'kernel'"), 420);
  text_is("SELECT group_concat(phase, '') FROM (SELECT DISTINCT phase FROM slices)", "X");
}

/* Each condition pushed down must leave what the same condition, hidden behind +, leaves. */
static void windows_equal_a_full_scan(void **state) {
  static const char *const columns[] = {"id", "track", "start_ns", "parent"};
  static const char *const operators[] = {"=", "<", "<=", ">", ">=", "IS"};
  static const char *const values[] = {"0",
                                       "1",
                                       "2",
                                       "7",
                                       "42",
                                       "43",
                                       "-1",
                                       "1000",
                                       "1010",
                                       "1395",
                                       "1e3",
                                       "1009.5",
                                       "NULL",
                                       "'1'",
                                       "'1000'",
                                       "1e300",
                                       "-1e300",
                                       "'x'",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "x'31'"};
  int tried = 0;
  for (size_t c = 0; c < 4; c++) {
    for (size_t o = 0; o < 6; o++) {
      for (size_t v = 0; v < sizeof values / sizeof *values; v++, tried++) {
        char pushed[256], plain[256];
        snprintf(pushed, sizeof pushed, "SELECT count(*) * 1000 + coalesce(sum(id), 0) FROM slices WHERE %s %s %s",
                 columns[c], operators[o], values[v]);
        /* the same conversion rules apply to +column only through a cast of the same affinity, so it is copied out
         * first */
        snprintf(plain, sizeof plain,
                 "WITH s AS MATERIALIZED (SELECT id, track, start_ns, parent FROM slices) "
                 "SELECT count(*) * 1000 + coalesce(sum(id), 0) FROM s WHERE %s %s %s",
                 columns[c], operators[o], values[v]);
        const int64_t a = number(pushed), b = number(plain);
        if (a != b) fail_msg("%s: %lld, full scan %lld", pushed, (long long)a, (long long)b);
      }
    }
  }
  assert_int_equal(tried, 504);
}

static void conditions_combine(void **state) {
  assert_int_equal(number("SELECT count(*) FROM slices WHERE track = 1 AND start_ns >= 1100 AND start_ns < 1200"), 10);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE start_ns BETWEEN 110 AND 1000"), 3);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE id > 5 AND id <= 10 AND name = 'aten::add'"),
                   number("SELECT count(*) FROM slices WHERE +id > 5 AND +id <= 10 AND +name = 'aten::add'"));
  assert_int_equal(number("SELECT count(*) FROM slices WHERE track = 1 AND track = 0"), 0);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE name = 'nobody has this name'"), 0);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE name = 'ATEN::MM' COLLATE NOCASE"), 15);
  assert_int_equal(number("SELECT count(*) FROM slices WHERE id IN (0, 2, 2, 99)"), 2);
}

/* GROUP BY, DISTINCT and ORDER BY on names take a way of their own; through a materialised copy they cannot. */
static void names_group(void **state) {
  static const char *const from[] = {"slices",
                                     "slices WHERE track = 1",
                                     "slices WHERE start_ns >= 1005 AND id <= 30",
                                     "slices WHERE track = 9",
                                     "slices WHERE name = 'gemm'",
                                     "slices WHERE track > 0 AND start_ns < 1300 AND dur_ns > 10"};
  static const char *const forms[] = {
      ("SELECT group_concat(name || n || '/' || d, ' ') FROM (SELECT name, count(*) AS n, sum(dur_ns) AS d FROM %s "
       "GROUP BY name ORDER BY name)"),
      "SELECT group_concat(name, ' ') FROM (SELECT DISTINCT name FROM %s ORDER BY name)",
      "SELECT count(*) FROM (SELECT DISTINCT name FROM %s)",
      "SELECT group_concat(name || id) FROM (SELECT name, id FROM %s ORDER BY name, id)",
      "SELECT group_concat(name) FROM (SELECT name FROM %s ORDER BY name)",
      "SELECT group_concat(name) FROM (SELECT name FROM %s ORDER BY name DESC)",
      "SELECT group_concat(n, ' ') FROM (SELECT count(*) AS n FROM %s GROUP BY name HAVING n > 1 ORDER BY n)",
  };
  for (size_t k = 0; k < sizeof from / sizeof *from; k++) {
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
      char query[512], sql[1200];
      snprintf(query, sizeof query, forms[f], from[k]);
      snprintf(sql, sizeof sql, "SELECT (%s) IS (WITH slices AS MATERIALIZED (SELECT * FROM main.slices) %s)", query,
               query);
      if (number(sql) != 1) fail_msg("%s", query);
    }
  }
  assert_int_equal(number("SELECT count(*) FROM (SELECT name FROM slices GROUP BY name)"), 4);
}

static void links_join(void **state) {
  text_is("SELECT o.name FROM slices k JOIN slices l ON l.id = k.cause JOIN slices o ON o.id = l.cause WHERE k.class = "
          "'kernel'",
          "aten::mm");
  assert_int_equal(number("SELECT id FROM slices WHERE class = 'kernel'"), mini_id(m, kernel));
  assert_int_equal(number("SELECT c.id FROM slices p JOIN slices c ON c.parent = p.id WHERE p.track = 0"),
                   mini_id(m, call));
  assert_int_equal(number("SELECT count(*) FROM slices s JOIN tracks t USING (track) WHERE t.kind = 'device'"), 1);
}

static void args_keep_their_types(void **state) {
  assert_int_equal(number("SELECT arg(id, 'External id') FROM slices WHERE id = 0"), 5);
  text_is("SELECT typeof(arg(id, 'occupancy')) || arg(id, 'occupancy') FROM slices WHERE class = 'kernel'", "real1.25");
  text_is("SELECT arg(id, 'Input Dims') FROM slices WHERE id = 0", "[[2, 3], []]");
  text_is("SELECT coalesce(arg(id, 'none'), arg(99, 'note'), arg(-1, 'note'), arg(NULL, 'note'), arg('0', 1), "
          "'nothing') FROM slices WHERE id = 0",
          "nothing");
  text_is("SELECT args FROM slices WHERE class = 'kernel'", "{\"occupancy\":1.25,\"note\":\"x\\\"y\"}");
  assert_int_equal(number("SELECT count(*) FROM args"), 4);
  text_is("SELECT value FROM args WHERE slice = 0 AND key = 'Input Dims'", "[[2, 3], []]");
  text_is("SELECT group_concat(key, '|') FROM args WHERE slice > 0", "occupancy|note");
  assert_int_equal(number("SELECT mark_arg(id, 'Bytes') FROM marks"), -512);
  assert_int_equal(number("SELECT value FROM mark_args WHERE mark = 0 AND key = 'Bytes'"), -512);
  assert_int_equal(number("SELECT ts_ns FROM marks WHERE phase = 'i'"), 130);
}

static void small_tables(void **state) {
  assert_int_equal(number("SELECT count(*) FROM tracks"), 3);
  text_is("SELECT kind || pid || '/' || tid FROM tracks WHERE track = 2", "device0/7");
  text_is("SELECT loss || count || '@' || offset || kind FROM losses", "cut_end2@77cut");
  text_is("SELECT path FROM ranks", "mini.json");
  text_is("SELECT text FROM strings WHERE id = 1", "ph");
  assert_int_equal(number("SELECT count(*) FROM steps"), 0);
  assert_non_null(strstr(tg__sql_schema(), "\nslices: "));
}

static void columns_get_type_and_unit(void **state) {
  struct tg_table *t = run("SELECT name, dur_ns, dur_ns / 2.0 AS half_ns, NULL AS empty, iif(id = 0, 1, 'a') AS mixed "
                           "FROM slices WHERE id < 2");
  static const enum tg_type types[] = {TG_TEXT, TG_INT, TG_REAL, TG_TEXT, TG_TEXT};
  for (int c = 0; c < 5; c++) assert_int_equal(t->columns[c].type, types[c]);
  assert_string_equal(t->question, "sql");
  assert_string_equal(t->columns[1].unit, "ns");
  assert_true(t->columns[2].reals[0] == 25);
  assert_int_equal(t->columns[3].texts[0], TG_NONE);
  assert_true(tg__str_eq(tg__strings_get(t->strings, t->columns[4].texts[0]), TG_STR("1")));
  assert_int_equal(t->loss_count, 1);
  tg__table_free(t);
  t = run("SELECT dur_ns, name FROM slices WHERE id = 999");
  assert_int_equal(t->rows, 0);
  assert_int_equal(t->columns[0].type, TG_INT);
  assert_int_equal(t->columns[1].type, TG_TEXT);
  tg__table_free(t);
}

static void only_reading_is_allowed(void **state) {
  static const char *const refused[] = {"DELETE FROM slices",
                                        "UPDATE slices SET name = 'x'",
                                        "INSERT INTO slices(id) VALUES (1)",
                                        "CREATE TABLE x(a)",
                                        "CREATE VIEW v AS SELECT 1",
                                        "ATTACH 'x.db' AS x",
                                        "DETACH main",
                                        "PRAGMA user_version",
                                        "PRAGMA temp_store = 1",
                                        "SELECT * FROM pragma_database_list",
                                        "SELECT load_extension('x')",
                                        "BEGIN",
                                        "COMMIT",
                                        "VACUUM",
                                        "VACUUM INTO 'x.db'",
                                        "ANALYZE",
                                        "REINDEX",
                                        "DROP TABLE slices",
                                        "CREATE VIRTUAL TABLE x USING slices",
                                        "SELECT 1; SELECT 2",
                                        "SELECT 1; DROP TABLE slices",
                                        "",
                                        " -- nothing",
                                        "SELECT",
                                        "SELECT nobody FROM slices",
                                        "nonsense"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    struct tg_table *t = (struct tg_table *)&refused;
    struct tg_error e = {0};
    if (tg__sql_run(trace, refused[i], &t, &e) != TG_USAGE) fail_msg("%s: not refused (%s)", refused[i], e.text);
    assert_null(t);
    assert_true(strlen(e.text) > 10);
  }
  assert_int_equal(number("SELECT 1 -- a comment is no second statement"), 1);
  assert_int_equal(number("SELECT 1;"), 1);
}

static bool twice(void *ctx) { return ++*(int *)ctx <= 2; }

static void a_runaway_query_is_stopped(void **state) {
  struct tg_table *t;
  struct tg_error e = {0};
  const char *endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
  const struct tg__sql_limit million = {.steps = 1000000};
  assert_int_equal(tg__sql_run_limited(trace, endless, &million, &t, &e), TG_CANCELLED);
  assert_null(t);
  assert_non_null(strstr(e.text, "too many steps"));
  int asked = 0;
  const struct tg__sql_limit watched = {.goes_on = twice, .ctx = &asked};
  assert_int_equal(tg__sql_run_limited(trace, endless, &watched, &t, &e), TG_CANCELLED);
  assert_int_equal(asked, 3);
  assert_null(strstr(e.text, "too many steps"));
  assert_int_equal(tg__sql_run_limited(trace, "SELECT hex(zeroblob(60000000))", &million, &t, &e),
                   TG_USAGE); /* beyond 64 MiB a value */
}

static void a_build_without_it_says_so(void **state) {
  struct tg_table *t;
  struct tg_error e = {0};
  assert_int_equal(tg__sql_run(trace, "SELECT 1", &t, &e), TG_UNSUPPORTED);
  assert_null(t);
}

static bool has_sql(void) {
  struct mini *probe = mini_new();
  struct tg_table *t;
  const enum tg_err err = tg__sql_run(mini_finish(probe), "SELECT 1", &t, NULL);
  tg__table_free(t);
  mini_free(probe);
  return err != TG_UNSUPPORTED;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_slice_is_there),
      cmocka_unit_test(windows_equal_a_full_scan),
      cmocka_unit_test(conditions_combine),
      cmocka_unit_test(names_group),
      cmocka_unit_test(links_join),
      cmocka_unit_test(args_keep_their_types),
      cmocka_unit_test(small_tables),
      cmocka_unit_test(columns_get_type_and_unit),
      cmocka_unit_test(only_reading_is_allowed),
      cmocka_unit_test(a_runaway_query_is_stopped),
  };
  const struct CMUnitTest without[] = {cmocka_unit_test(a_build_without_it_says_so)};
  return has_sql() ? cmocka_run_group_tests(tests, setup, teardown) : cmocka_run_group_tests(without, setup, teardown);
}
