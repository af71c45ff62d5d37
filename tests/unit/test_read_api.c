/* The calls of tachograph/read.h beside opening, asking and writing: what a trace is made of, tables of one's own,
 * what recording costs. Two ranks, written here: rank r has r + 2 operators of 5 us and a step, rank 1 a member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "show/show.h"
#include "tachograph/read.h"

static char folder[64], rank0[96], rank1[96], blank[96], summary[96];
static struct tg_error e;

static void write_rank(const char *path, int rank) {
  FILE *const f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "{\"distributedInfo\":{\"rank\":%d,\"world_size\":2},\"traceEvents\":[", rank);
  fprintf(f, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3\",\"pid\":1,\"tid\":1,\"ts\":0,"
             "\"dur\":100}");
  for (int i = 0; i < rank + 2; i++)
    fprintf(f, ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":5}", i,
            10 * (i + 1));
  fprintf(f, "]}");
  assert_int_equal(fclose(f), 0);
}

static struct tg_trace *open_all(void) {
  struct tg_trace *t;
  assert_int_equal(tg_open_all(folder, NULL, &t, &e), TG_OK);
  return t;
}

static void what_a_trace_is_made_of(void **state) {
  struct tg_trace *const t = open_all();
  bool is_given = false;
  assert_int_equal(tg_rank_count(t), 2);
  assert_int_equal(tg_rank_number(t, 1, &is_given), 1);
  assert_true(is_given);
  assert_int_equal(tg_loss_count(t, "skipped_file"), 1); /* of blanks */
  assert_int_equal(tg_loss_count(t, "no such loss"), -1);
  assert_false(tg_process(t, 0, NULL, NULL, NULL)); /* not from our recorder */
  assert_true(tg_has_events(t, &e));
  assert_true(tg_has_steps(t));
  assert_string_equal(tg__fallback_question(t), "overview");
  tg_close(t);
}

static void summaries_answer_less(void **state) {
  struct tg_trace *t;
  const char *const path = folder;
  assert_int_equal(tg_open_ranks(&path, 1, NULL, &t, &e), TG_OK);
  assert_int_equal(tg_save_ranks(t, summary, &e), TG_OK);
  tg_close(t);
  assert_int_equal(tg_open(summary, NULL, &t, &e), TG_OK);
  assert_false(tg_has_events(t, &e));
  assert_non_null(strstr(e.text, "summary of 2 ranks"));
  assert_string_equal(tg__fallback_question(t), "ranks");
  tg_close(t);
}

static bool visit(void *ctx, const char *path, struct tg_trace *t, const struct tg_error *why) {
  int *const seen = ctx;
  seen[t ? 0 : 1]++;
  assert_true(t ? tg_rank_count(t) == 1 : why->text[0] != 0 && strcmp(path, blank) == 0);
  return true;
}
static bool stop_at_once(void *ctx, const char *path, struct tg_trace *t, const struct tg_error *why) {
  ++*(int *)ctx;
  return false;
}

static void file_by_file(void **state) {
  int seen[2] = {0}, once = 0;
  assert_int_equal(tg_open_each(folder, NULL, visit, seen, &e), TG_OK);
  assert_int_equal(seen[0], 2);
  assert_int_equal(seen[1], 1);
  assert_int_equal(tg_open_each(folder, NULL, stop_at_once, &once, &e), TG_OK);
  assert_int_equal(once, 1);
}

static void opened_for_a_question(void **state) {
  struct tg_trace *t = NULL;
  struct tg_table *table = NULL;
  assert_int_equal(tg_open_asking(folder, NULL, "ops", NULL, 0, SIZE_MAX, &t, &table, &e), TG_OK);
  if (!table) assert_int_equal(tg_ask(t, "ops", NULL, 0, &table, &e), TG_OK);
  assert_int_equal(tg_table_rows(table), 3); /* op0 and op1 of both ranks, op2 of rank 1 */
  assert_int_equal(tg_table_rows_in_all(table), 3);
  assert_int_equal(tg_table_filter(table, "calls = 2", &e), TG_OK);
  assert_int_equal(tg_table_rows(table), 2);
  assert_int_equal(tg_table_filter(table, "calls = ", &e), TG_USAGE);
  assert_true(tg_table_truncate(table, 1));
  assert_int_equal(tg_table_rows(table), 1);
  tg_table_free(table);
  tg_close(t);
  assert_int_equal(tg_open_asking(folder, NULL, "no_such_question", NULL, 0, 1, &t, &table, &e), TG_USAGE);
  assert_null(t);
  assert_int_equal(tg_memory_needed(folder, NULL, NULL, 0), 0); /* a small folder is held in memory */
}

static void questions_are_found_by_name(void **state) {
  const size_t i = tg_question_find("ops");
  assert_string_equal(tg_question_name(i), "ops");
  assert_int_equal(tg_question_find("no_such_question"), tg_question_count());
}

static void a_check_names_what_was_not_read(void **state) {
  enum tg_verdict verdict = TG_CHECK_INVALID;
  struct tg_table *table = NULL;
  assert_int_equal(tg_check(rank0, NULL, &verdict, &table, &e), TG_OK);
  assert_int_equal(verdict, TG_CHECK_INTACT);
  assert_int_equal(tg_table_rows(table), 1);
  tg_table_free(table);
  assert_int_equal(tg_check(folder, NULL, &verdict, &table, &e), TG_OK);
  assert_int_equal(verdict, TG_CHECK_DAMAGED);
  assert_int_equal(tg_table_rows(table), 2);
  tg_table_free(table);
}

static bool gather(void *ctx, const char *bytes, size_t len) {
  char *const text = ctx;
  const size_t at = strlen(text);
  assert_true(at + len < 4096);
  memcpy(text + at, bytes, len);
  text[at + len] = 0;
  return true;
}

static void members_are_kept(void **state) {
  struct tg_trace *const t = open_all();
  struct tg_table *table;
  size_t len;
  assert_true(tg_add_member(t, "note", "[7]"));
  const struct tg_arg where = {"where", "member = 'note'"};
  assert_int_equal(tg_ask(t, "document", &where, 1, &table, &e), TG_OK);
  assert_int_equal(tg_table_rows(table), 2); /* of every rank */
  assert_string_equal(tg_cell_text(table, 2, 0, &len), "[7]");
  tg_table_free(table);
  tg_close(t);
}

static void files_that_are_missing_are_named_and_counted(void **state) {
  struct tg_trace *const t = open_all();
  const int64_t before = tg_loss_count(t, "skipped_file");
  const char *path, *why;
  size_t named = 0;
  while (tg_missing(t, named, &path, &why)) named++;
  assert_int_equal(named, before);
  tg_add_missing(t, "s3://run/rank7.json", "it is not there any more");
  assert_int_equal(tg_loss_count(t, "skipped_file"), before + 1);
  assert_true(tg_missing(t, named, &path, &why));
  assert_string_equal(path, "s3://run/rank7.json");
  assert_string_equal(why, "it is not there any more");
  assert_false(tg_missing(t, named + 1, &path, &why));
  tg_close(t);
}

static void summaries_answer_what_is_about_ranks(void **state) {
  const struct tg_arg by_row = {"rules", "hta"}, part = {"by", "part"};
  assert_true(tg_summaries_answer("stragglers", NULL, 0));
  assert_true(tg_summaries_answer("collectives", &part, 1));
  assert_false(tg_summaries_answer("ops", NULL, 0));
  assert_false(tg_summaries_answer("ops", &by_row, 1));
  assert_false(tg_summaries_answer("zebra", NULL, 0));
}

static void a_complaint_names_a_command_and_a_checklist_what_is_missing(void **state) {
  struct tg_trace *const t = open_all();
  const char *complaint, *command, *answers;
  assert_true(tg__symptom_match("training slow", 0, &complaint, &command, &answers));
  assert_string_equal(command, "tachograph report FILE");
  assert_false(tg__symptom_match("zebra crossing", 0, &complaint, &command, &answers));
  size_t missing = 0;
  struct tg_table *const items = tg__checklist(t, "nowhere", &missing);
  assert_non_null(items);
  assert_int_equal(tg_table_rows(items), 12);
  assert_in_range(missing, 4, 12); /* three files and at least stacks */
  tg_table_free(items);
  tg_close(t);
}

static void a_cpu_peak_is_noted_for_traces_without_devices(void **state) {
  struct tg_trace *const t = open_all();
  struct tg_table *table;
  tg_add_cpu_peak(t);
  const struct tg_arg where = {"where", "member = 'deviceProperties'"};
  if (tg_ask(t, "document", &where, 1, &table, &e) == TG_OK) { /* else it cannot be measured here */
    assert_true(tg_table_rows(table) == 0 || tg_table_rows(table) == 2);
    tg_table_free(table);
  }
  assert_true(tg_trace_is_valid(t, &e));
  tg_close(t);
}

static void memory_is_asked_with_notes(void **state) {
  struct tg_trace *const t = open_all();
  struct tg_table *table = NULL;
  assert_int_equal(tg__memory_with_peaks(t, NULL, 0, &table, &e), TG_NO_DATA); /* no memory event was recorded */
  assert_null(table);
  tg_close(t);
}

static void findings_are_members_of_an_object(void **state) {
  struct tg_trace *const t = open_all();
  struct tg__out text = {0};
  assert_int_equal(tg__findings_json(t, NAN, &text, &e), TG_OK);
  tg__out_char(&text, 0);
  assert_non_null(strstr(text.buf, "\"step_ms\""));
  assert_non_null(strstr(text.buf, "\"findings\""));
  tg__out_free(&text);
  tg_close(t);
}

static void an_answer_describes_its_columns(void **state) {
  struct tg_trace *const t = open_all();
  struct tg_table *table;
  const char *name = NULL;
  int64_t count = 0;
  size_t calls = 0, mean = 0, bools = 0;
  tg_set_progress(t, NULL);
  assert_int_equal(tg_ask(t, "ops", NULL, 0, &table, &e), TG_OK);
  assert_string_equal(tg_table_question(table), "ops");
  while (strcmp(tg_column_name(table, calls), "calls") != 0) calls++;
  while (tg_column_type(table, mean) != TG_REAL) mean++;
  while (tg_column_type(table, bools) != TG_BOOL) bools++;
  assert_int_equal(tg_column_type(table, calls), TG_INT);
  assert_string_equal(tg_column_unit(table, calls), "");
  assert_int_equal(tg_column_ints(table, calls)[0] + tg_column_ints(table, calls)[1] + tg_column_ints(table, calls)[2],
                   5); /* 2 of rank 0 and 3 of rank 1 */
  assert_null(tg_column_ints(table, mean));
  assert_non_null(tg_column_reals(table, mean));
  assert_null(tg_column_reals(table, calls));
  assert_non_null(tg_column_bools(table, bools));
  assert_non_null(tg_column_codes(table, 0));
  assert_true(tg_column_codes(table, 0)[0] != tg_column_codes(table, 0)[1]); /* other names */
  for (size_t i = 0; i < tg_table_notes(table); i++) assert_true(tg_table_note(table, i)[0] != 0);
  assert_int_equal(tg_table_losses(table), 1);
  assert_true(tg_table_loss(table, 0, &name, &count, NULL, NULL));
  assert_string_equal(name, "skipped_file");
  assert_int_equal(count, 1);
  assert_false(tg_table_loss(table, 1, &name, &count, NULL, NULL));
  tg_table_free(table);
  tg_close(t);
}

static void lists_end(void **state) {
  const char *name = NULL, *meaning = NULL;
  const size_t ops = tg_question_find("ops");
  assert_true(tg_question_meaning(ops)[0] != 0);
  assert_true(tg_question_argument(ops, 0, &name, NULL, &meaning) && meaning[0]);
  assert_false(tg_question_argument(ops, 1000, &name, NULL, NULL));
  struct tg_question_column column;
  assert_true(tg_question_column(ops, 0, &column));
  assert_string_equal(column.name, "name");
  assert_string_equal(column.role, "key");
  assert_string_equal(column.fold, "key");
  assert_false(tg_question_column(ops, 1000, &column));
  assert_false(tg_question_column(tg_question_count(), 0, &column));
  assert_true(tg_diff_argument(0, &name, NULL, NULL));
  assert_false(tg_diff_argument(1000, &name, NULL, NULL));
  assert_null(tg_format_name(tg_format_count()));
  assert_string_equal(tg_format_of_file("x.json"), "chrome");
  assert_null(tg_format_of_file("x.unknown"));
  assert_true(tg_version()[0] != 0);
}

static void a_trace_does_not_differ_from_itself(void **state) {
  struct tg_trace *const t = open_all();
  struct tg_table *diff;
  bool fails = true;
  char text[4096] = "";
  assert_int_equal(tg_diff(t, t, NULL, 0, &diff, &e), TG_OK);
  assert_int_equal(tg_diff_fails(diff, "step.mean > +5%", &fails, &e), TG_NO_DATA); /* one step has no interval */
  assert_int_equal(tg_diff_fails(diff, "step.mean > 1000s", &fails, &e), TG_OK);
  assert_false(fails);
  assert_int_equal(tg_diff_fails(diff, "step.mean >", &fails, &e), TG_USAGE);
  assert_int_equal(tg_diff_write(diff, "text", 80, false, gather, text, &e), TG_OK);
  assert_true(text[0] != 0);
  tg_table_free(diff);
  tg_close(t);
}

static void tables_of_ones_own(void **state) {
  static const struct tg_column_spec columns[] = {{"name", TG_TEXT, ""}, {"n", TG_INT, "bytes"}, {"x", TG_REAL, ""}};
  struct tg_table *const t = tg_table_new("mine", columns, 3);
  char text[4096] = "";
  assert_non_null(t);
  tg_table_add_row(t, (const struct tg_cell[]){{.text = "a"}, {.number = 3}, {.real = 0.5}});
  tg_table_add_row(t, (const struct tg_cell[]){{.text = NULL}, {.number = TG_NULL_INT}, {.real = NAN}});
  tg_table_add_note(t, "a note");
  assert_false(tg_table_failed(t));
  assert_int_equal(tg_table_rows(t), 2);
  assert_string_equal(tg_table_note(t, 0), "a note");
  assert_int_equal(tg_table_write(t, "csv", 0, gather, text, &e), TG_OK);
  assert_string_equal(text, "name,n,x\r\na,3,0.5\r\n,,\r\n");
  tg_table_free(t);
}

static const char *state_of(const struct tg_table *t, const char *item) {
  size_t len;
  for (size_t row = 0; row < tg_table_rows(t); row++)
    if (strcmp(tg_cell_text(t, 1, row, &len), item) == 0) return tg_cell_text(t, 2, row, &len);
  return "";
}

/* The folder has operators and no measured baseline, until there is a file of that name. */
static void a_checklist_names_what_is_missing(void **state) {
  struct tg_trace *const t = open_all();
  size_t before, after;
  struct tg_table *list = tg__checklist(t, folder, &before);
  assert_string_equal(state_of(list, "operators"), "pass");
  assert_string_equal(state_of(list, "a measured baseline, with its target"), "missing");
  tg_table_free(list);
  char baseline[sizeof folder + 16];
  snprintf(baseline, sizeof baseline, "%s/baseline.json", folder);
  FILE *const f = fopen(baseline, "w");
  assert_true(f && fputs("{}", f) >= 0 && fclose(f) == 0);
  list = tg__checklist(t, folder, &after);
  unlink(baseline);
  assert_string_equal(state_of(list, "a measured baseline, with its target"), "pass");
  assert_int_equal(after, before - 1);
  tg_table_free(list);
  tg_close(t);
}

static void a_complaint_leads_to_a_command(void **state) {
  const char *complaint, *command, *answers;
  assert_true(tg__symptom_match("my training is slow", 0, &complaint, &command, &answers));
  assert_string_equal(command, "tachograph report FILE");
  assert_true(complaint[0] != 0 && answers[0] != 0);
  assert_false(tg__symptom_match("xyzzy", 0, &complaint, &command, &answers));
}

static int make_files(void **state) {
  snprintf(folder, sizeof folder, "/tmp/read-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(rank0, sizeof rank0, "%s/a.json", folder);
  snprintf(rank1, sizeof rank1, "%s/b.json", folder);
  snprintf(blank, sizeof blank, "%s/c.json", folder);
  snprintf(summary, sizeof summary, "%s.tsum", folder);
  write_rank(rank0, 0);
  write_rank(rank1, 1);
  FILE *const f = fopen(blank, "w");
  return f && fputs("   ", f) >= 0 && fclose(f) == 0 ? 0 : -1;
}

static int drop_files(void **state) {
  return unlink(rank0) | unlink(rank1) | unlink(blank) | rmdir(folder) | unlink(summary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_trace_is_made_of),
      cmocka_unit_test(summaries_answer_less),
      cmocka_unit_test(file_by_file),
      cmocka_unit_test(opened_for_a_question),
      cmocka_unit_test(questions_are_found_by_name),
      cmocka_unit_test(a_check_names_what_was_not_read),
      cmocka_unit_test(files_that_are_missing_are_named_and_counted),
      cmocka_unit_test(summaries_answer_what_is_about_ranks),
      cmocka_unit_test(members_are_kept),
      cmocka_unit_test(a_complaint_names_a_command_and_a_checklist_what_is_missing),
      cmocka_unit_test(a_cpu_peak_is_noted_for_traces_without_devices),
      cmocka_unit_test(memory_is_asked_with_notes),
      cmocka_unit_test(findings_are_members_of_an_object),
      cmocka_unit_test(an_answer_describes_its_columns),
      cmocka_unit_test(lists_end),
      cmocka_unit_test(a_trace_does_not_differ_from_itself),
      cmocka_unit_test(tables_of_ones_own),
      cmocka_unit_test(a_checklist_names_what_is_missing),
      cmocka_unit_test(a_complaint_leads_to_a_command),
  };
  return cmocka_run_group_tests(tests, make_files, drop_files);
}
