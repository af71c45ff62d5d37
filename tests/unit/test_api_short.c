/* The calls of the public API with an allocation failing at every point: what tachograph/error.h promises holds each
 * time. A failure has its code and a sentence and gives nothing out; a success gives something out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "tachograph/read.h"

enum { MOST_CALLS = 5000 };

static char folder[64], json[96], tacho[96], summary[96];
static const struct tg_open_options one_thread = {.threads = 1};

static void write_trace(const char *path, int rank) {
  FILE *const f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "{\"distributedInfo\":{\"rank\":%d},\"traceEvents\":[", rank);
  for (int i = 0; i < 20; i++)
    fprintf(f,
            "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",\"pid\":1,\"tid\":%d,\"ts\":%d,\"dur\":5,\"args\":{"
            "\"External id\":%d}}",
            i ? "," : "", i % 7, i % 3, 10 * i, i + 1);
  fprintf(f, "]}");
  assert_int_equal(fclose(f), 0);
}

static bool take_all(void *ctx, const char *bytes, size_t len) {
  (void)bytes;
  *(size_t *)ctx += len;
  return true;
}

/* true: it has had all the memory it needs. */
static bool keeps_the_contract(enum tg_err err, const struct tg_error *e, bool gave) {
  assert_int_equal(gave, err == TG_OK);
  if (err == TG_OK) return true;
  assert_int_equal(err, TG_MEMORY);
  assert_int_equal(e->code, err);
  assert_true(e->text[0] != 0);
  return false;
}

static void starve_open(const char *path) {
  bool done = false;
  for (long calls = 1; !done && calls < MOST_CALLS; calls++) {
    struct tg_trace *t = NULL;
    struct tg_error e = {0};
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg_open(path, &one_thread, &t, &e);
    tg__alloc_fail_after(-1);
    done = keeps_the_contract(err, &e, t != NULL);
    tg_close(t);
  }
  assert_true(done);
}

static void opening_fails_with_a_sentence(void **state) {
  starve_open(json);
  starve_open(tacho);
  starve_open(summary);
  starve_open(folder);
}

static void no_memory_is_never_success(void **state) {
  enum { EXPORT, REPORT, SAVE, SAVE_RANKS, SQL, DIFF, CALLS };
  for (int call = 0; call < CALLS; call++) {
    bool done = false;
    for (long calls = 1; !done && calls < MOST_CALLS; calls++) {
      struct tg_trace *t = NULL;
      struct tg_table *table = NULL;
      struct tg_error e = {0};
      size_t bytes = 0;
      enum tg_err err = TG_OK;
      assert_int_equal(tg_open(json, &one_thread, &t, &e), TG_OK);
      tg__alloc_fail_after(calls);
      if (call == EXPORT) err = tg_export(t, "chrome", NULL, 0, take_all, &bytes, &e);
      if (call == REPORT) err = tg_report(t, "text", 0, false, take_all, &bytes, &e);
      if (call == SAVE) err = tg_save(t, tacho, &e);
      if (call == SAVE_RANKS) err = tg_save_ranks(t, summary, &e);
      if (call == SQL) err = tg_sql(t, "SELECT name, count(*) FROM slices GROUP BY name", &table, &e);
      if (call == DIFF) err = tg_diff(t, t, NULL, 0, &table, &e);
      tg__alloc_fail_after(-1);
      done = keeps_the_contract(err, &e, call < SQL ? err == TG_OK : table != NULL);
      tg_table_free(table);
      tg_close(t);
    }
    assert_true(done);
  }
}

static int make_files(void **state) {
  struct tg_trace *t;
  struct tg_error e;
  char second[96];
  snprintf(folder, sizeof folder, "/tmp/calls-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(json, sizeof json, "%s/a.json", folder);
  snprintf(second, sizeof second, "%s/b.json", folder);
  snprintf(tacho, sizeof tacho, "%s.tacho", folder);
  snprintf(summary, sizeof summary, "%s.tsum", folder);
  write_trace(json, 0);
  write_trace(second, 1);
  if (tg_open(json, NULL, &t, &e)) return -1;
  const bool saved = tg_save(t, tacho, &e) == TG_OK && tg_save_ranks(t, summary, &e) == TG_OK;
  tg_close(t);
  return saved ? 0 : -1;
}

static int drop_files(void **state) {
  char second[96];
  snprintf(second, sizeof second, "%s/b.json", folder);
  return unlink(json) | unlink(second) | rmdir(folder) | unlink(tacho) | unlink(summary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening_fails_with_a_sentence),
      cmocka_unit_test(no_memory_is_never_success),
  };
  return cmocka_run_group_tests(tests, make_files, drop_files);
}
