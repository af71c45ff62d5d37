/* The first test to read: one GPU kernel followed from the bytes of a file to a line of an answer, with its numbers
 * checked at every stop. ARCHITECTURE.md tells the same walk in words; the stops have the same order there.
 *
 * The program behind it: aten::linear runs from 10 to 60 us on thread 77 and calls cudaLaunchKernel (30 to 35.5 us),
 * which starts the kernel gemm on stream 7 of device 0 at 50.25 us, for 25 us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks/ranks.h"
#include "ranks/ranks.h"
#include "tachograph/read.h"
#include "trace/import.h"

#define OP                                                                                                             \
  "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::linear\", \"pid\": 77, \"tid\": 77, \"ts\": 10, \"dur\": "   \
  "50, \"args\": {\"External id\": 1}}"
#define CALL                                                                                                           \
  "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 77, \"tid\": 77, \"ts\": 30, "  \
  "\"dur\": 5.5, "                                                                                                     \
  "\"args\": {\"External id\": 1, \"correlation\": 501}}"
#define KERNEL                                                                                                         \
  "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": 50.25, \"dur\": 25, "      \
  "\"args\": {\"External id\": 1, \"correlation\": 501, \"device\": 0, \"stream\": 7, \"grid\": [80, 1, 1]}}"
static const char events[] = OP ",\n" CALL ",\n" KERNEL "]";
static const char document[] =
    "{\"distributedInfo\": {\"rank\": 3, \"world_size\": 4}, \"traceEvents\": [" OP ",\n" CALL ",\n" KERNEL "]}";

static void assert_name(const struct tg__columns *t, uint32_t string, const char *want) {
  const struct tg__str got = tg__name(t, string);
  assert_int_equal(got.len, strlen(want));
  assert_memory_equal(got.ptr, want, got.len);
}

/* ---- stop 1: text becomes records ------------------------------------------------------------ */

/* What all parsers of a file share: a trace with nothing in it but the names the engine knows. */
static void shared_begin(struct tg__shared *s, struct tg__columns *t) {
  static const char *const known[] = {
#define KEY(name, text) text,
#include "trace/keys.def"
#undef KEY
  };
  *t = (struct tg__columns){.strings = tg__strings_new()};
  *s = (struct tg__shared){.trace = t, .lock = tg__lock_new()};
  for (size_t i = 0; i < TG__K_COUNT; i++) assert_int_equal(tg__strings_add(t->strings, known[i], strlen(known[i])), i);
}

static void shared_end(struct tg__shared *s, struct tg__columns *t) {
  tg__lock_free(s->lock);
  tg__free(s->tracks);
  tg__free(s->guesses);
  tg__map_free(&s->schema_index);
  tg__map_free(&s->track_index);
  tg__free(t->cats);
  tg__free(t->schemas);
  tg__strings_free(t->strings);
  tg__arena_free(&t->arena);
}

static void test_text_becomes_records(void **state) {
  (void)state;
  char text[sizeof events + TG__TEXT_PAD] = {0};
  const size_t len = sizeof events - 1;
  memcpy(text, events, len);
  memset(text + len, TG__TEXT_STOP, 8);
  struct tg__columns t;
  struct tg__shared shared;
  shared_begin(&shared, &t);
  struct tg__parser *p = malloc(sizeof *p);
  assert_non_null(p);
  assert_true(tg__parser_init(p, &shared));
  p->text = text;

  const char *stop;
  assert_int_equal(tg__scan_events_portable(p, text, text + len, &stop), TG__SCAN_ARRAY);
  assert_ptr_equal(stop, text + len - 1); /* the closing bracket */
  assert_int_equal(p->record_count, 3);
  const struct tg__record *kernel = &p->records[2];
  assert_int_equal(kernel->ts_ns, 50250);
  assert_int_equal(kernel->dur_ns, 25000);
  assert_int_equal(kernel->ph, 'X');
  assert_name(&t, kernel->name, "gemm");
  assert_name(&t, t.cats[kernel->cat].name, "kernel");
  assert_int_equal(t.cats[kernel->cat].cls, TG__CLASS_KERNEL);
  assert_int_equal(shared.track_count, 2); /* thread 77 and stream 7 */
  assert_int_equal(shared.tracks[kernel->track].pid, 0);
  assert_int_equal(shared.tracks[kernel->track].tid, 7);

  tg__parser_free(p);
  free(p);
  shared_end(&shared, &t);
}

/* ---- stop 2: records become columns, and are linked ------------------------------------------ */

static struct tg__columns *open_document(void) {
  struct tg__columns *t;
  struct tg_error e;
  assert_int_equal(tg__trace_open_bytes(document, sizeof document - 1, 1, 0, false, &t, &e), TG_OK);
  return t;
}

static uint32_t slice_named(const struct tg__columns *t, const char *name) {
  for (uint32_t i = 0; i < t->slices.count; i++)
    if (tg__str_eq(tg__name(t, t->slices.name[i]), (struct tg__str){name, (uint32_t)strlen(name)})) return i;
  fail_msg("no slice %s", name);
  return TG_NONE;
}

static void check_columns(const struct tg__columns *t) {
  struct tg_error e = {0};
  if (!tg__trace_is_valid(t, &e)) fail_msg("%s", e.text);
  assert_int_equal(t->rank_count, 1);
  assert_int_equal(t->ranks[0].number, 3);
  assert_int_equal(t->ranks[0].world_size, 4);
  assert_int_equal(t->ranks[0].events_read, 3);
  assert_int_equal(t->ranks[0].events_kept, 3);
  assert_int_equal(t->slices.count, 3);

  const uint32_t op = slice_named(t, "aten::linear"), call = slice_named(t, "cudaLaunchKernel"),
                 kernel = slice_named(t, "gemm");
  assert_int_equal(t->slices.start_ns[kernel], 50250);
  assert_int_equal(t->slices.dur_ns[kernel], 25000);
  assert_int_equal(tg__slice_end(t, kernel), 75250);
  assert_int_equal(tg__slice_class(t, kernel), TG__CLASS_KERNEL);
  const struct tg__track *stream = &t->tracks[tg__slice_track(t, kernel)];
  assert_int_equal(stream->kind, TG__TRACK_DEVICE);
  assert_int_equal(stream->device, 0);
  assert_int_equal(stream->stream, 7);
  assert_int_equal(stream->lanes, 1);

  /* Nesting: the call lies in the operator. Links: the kernel comes from the call, the call from the operator. */
  assert_int_equal(t->slices.parent[call], op);
  assert_int_equal(t->slices.depth[call], 1);
  assert_int_equal(t->slices.parent[kernel], TG_NONE);
  assert_int_equal(t->slices.cause[kernel], call);
  assert_int_equal(t->slices.cause[call], op);
  assert_int_equal(t->slices.cause[op], TG_NONE);

  /* Args: packed, read one at a time; what is no number or text stays as it was written. */
  assert_int_equal(tg__arg_int(t, t->slices.args[kernel], TG__K_CORRELATION, -1), 501);
  assert_name(t, tg__arg_str(t, t->slices.args[kernel], TG__K_GRID), "[80, 1, 1]");
}

static void test_records_become_columns(void **state) {
  (void)state;
  struct tg__columns *t = open_document();
  check_columns(t);
  tg__trace_free(t);
}

/* ---- stop 3: kept as .tacho, the columns are the same ---------------------------------------- */

static void test_columns_survive_the_native_file(void **state) {
  (void)state;
  char path[] = "/tmp/trip-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  struct tg_error e;
  struct tg__columns *t = open_document();
  assert_int_equal(tg__trace_save(t, path, &e), TG_OK);
  tg__trace_free(t);
  assert_int_equal(tg__trace_open(path, NULL, &t, &e), TG_OK);
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, &e), TG_OK);
  check_columns(t);
  tg__trace_free(t);
  unlink(path);
}

/* ---- stop 4: columns become answers ---------------------------------------------------------- */

static struct tg_table *ask(struct tg__columns *t, const char *question, const char *by) {
  struct tg_table *table;
  struct tg_error e = {0};
  const struct tg_arg arg = {"by", by};
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, question, &arg, 1, &table, &e) != TG_OK) fail_msg("%s", e.text);
  return table;
}

static size_t column(const struct tg_table *t, const char *name) {
  for (size_t c = 0; c < tg_table_columns(t); c++)
    if (strcmp(tg_column_name(t, c), name) == 0) return c;
  fail_msg("no column %s", name);
  return 0;
}
static int64_t int_at(const struct tg_table *t, const char *name) { return tg_column_ints(t, column(t, name))[0]; }
static const char *text_at(const struct tg_table *t, const char *name) {
  size_t len;
  return tg_cell_text(t, column(t, name), 0, &len);
}

static void test_columns_become_answers(void **state) {
  (void)state;
  struct tg__columns *t = open_document();

  struct tg_table *kernels = ask(t, "kernels", "name");
  assert_int_equal(tg_table_rows(kernels), 1);
  assert_string_equal(text_at(kernels, "name"), "gemm");
  assert_string_equal(text_at(kernels, "type"), "COMPUTATION");
  assert_int_equal(int_at(kernels, "calls"), 1);
  assert_int_equal(int_at(kernels, "total_ns"), 25000);
  tg_table_free(kernels);

  struct tg_table *launch = ask(t, "launches", "event");
  assert_int_equal(tg_table_rows(launch), 1);
  assert_int_equal(int_at(launch, "rank"), 3);
  assert_string_equal(text_at(launch, "kernel"), "gemm");
  assert_string_equal(text_at(launch, "call"), "cudaLaunchKernel");
  assert_string_equal(text_at(launch, "op"), "aten::linear");
  assert_int_equal(int_at(launch, "op_by_external_id"), 1);
  assert_int_equal(int_at(launch, "call_ns"), 5500);
  assert_int_equal(int_at(launch, "delay_max_ns"), 50250 - 35500); /* end of the call to start on the device */
  tg_table_free(launch);

  struct tg_table *ops = ask(t, "ops", "name");
  assert_string_equal(text_at(ops, "name"), "aten::linear");
  assert_int_equal(int_at(ops, "cpu_ns"), 50000);
  assert_int_equal(int_at(ops, "self_cpu_ns"), 44500); /* without the call */
  assert_int_equal(int_at(ops, "self_device_ns"), 25000);
  tg_table_free(ops);
  tg__trace_free(t);
}

/* ---- stop 5: answers become bytes ------------------------------------------------------------ */

struct text {
  char bytes[8192];
  size_t len;
};
static bool collect(void *ctx, const char *bytes, size_t len) {
  struct text *t = ctx;
  if (t->len + len >= sizeof t->bytes) return false;
  memcpy(t->bytes + t->len, bytes, len);
  t->len += len;
  return true;
}

static void test_answers_become_json(void **state) {
  (void)state;
  struct tg__columns *t = open_document();
  struct tg_table *kernels = ask(t, "kernels", "name");
  struct text out = {{0}, 0};
  struct tg_error e;
  assert_int_equal(tg_table_write(kernels, "json", 0, collect, &out, &e), TG_OK);
  const char *rows = strstr(out.bytes, "\"rows\":");
  assert_non_null(rows);
  assert_non_null(strstr(rows, "[\"gemm\",\"kernel\",\"COMPUTATION\",\"\",1,25000,25000,null,25000,25000,100,"));
  tg_table_free(kernels);
  tg__trace_free(t);
}

static void test_the_trace_becomes_itself_again(void **state) {
  (void)state;
  struct tg__columns *t = open_document(), *again;
  struct text out = {{0}, 0};
  struct tg_error e;
  assert_int_equal(tg_export(&(struct tg_trace){.columns = t}, "chrome", NULL, 0, collect, &out, &e), TG_OK);
  tg__trace_free(t);
  assert_int_equal(tg__trace_open_bytes(out.bytes, out.len, 1, 0, true, &again, &e), TG_OK);
  check_columns(again);
  tg__trace_free(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_becomes_records),
      cmocka_unit_test(test_records_become_columns),
      cmocka_unit_test(test_columns_survive_the_native_file),
      cmocka_unit_test(test_columns_become_answers),
      cmocka_unit_test(test_answers_become_json),
      cmocka_unit_test(test_the_trace_becomes_itself_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
