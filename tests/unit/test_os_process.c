/* os_process.c: other programs, and the folders they leave. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static int run_shell(const char *script, int output_fd) {
  const char *const argv[] = {"sh", "-c", script, NULL};
  const struct tg__variable variables[] = {{"TG_TEST_WORD", "two words"}};
  int status = -1;
  assert_int_equal(tg__program_run(argv, variables, 1, output_fd, &status, NULL), TG_OK);
  return status;
}

static void status_is_the_programs(void **state) {
  (void)state;
  assert_int_equal(run_shell("exit 0", -1), 0);
  assert_int_equal(run_shell("exit 37", -1), 37);
  assert_int_equal(run_shell("kill -TERM $$", -1), 128 + 15);
  assert_int_equal(run_shell("[ \"$TG_TEST_WORD\" = 'two words' ]", -1), 0);
  assert_null(getenv("TG_TEST_WORD")); /* the variable is the program's, not ours */
}

static void output_goes_where_it_is_sent(void **state) {
  (void)state;
  FILE *const file = tmpfile();
  assert_non_null(file);
  char text[16] = "";
  assert_int_equal(run_shell("echo sent", fileno(file)), 0);
  rewind(file);
  assert_non_null(fgets(text, sizeof text, file));
  assert_string_equal(text, "sent\n");
  fclose(file);
}

static void a_broken_pipe_ends_the_program(void **state) {
  (void)state;
  signal(SIGPIPE, SIG_IGN); /* as our command line does; what we start must not inherit that */
  assert_int_equal(run_shell("kill -PIPE $$; exit 5", -1), 128 + 13);
}

static void what_cannot_be_started_is_said(void **state) {
  (void)state;
  const char *const argv[] = {"/no/such/program", NULL};
  struct tg_error e = {0};
  int status;
  assert_int_equal(tg__program_run(argv, NULL, 0, -1, &status, &e), TG_NOT_FOUND);
  assert_non_null(strstr(e.text, "/no/such/program"));
}

static void a_program_says(void **state) {
  (void)state;
  const char *const speaks[] = {"sh", "-c", "echo one; echo two", NULL}, *const fails[] = {"sh", "-c",
                                                                                           "echo one; exit 1", NULL};
  char text[64], little[6];
  assert_true(tg__program_says(speaks, text, sizeof text));
  assert_string_equal(text, "one\ntwo");
  assert_false(tg__program_says(fails, text, sizeof text));
  (void)tg__program_says(speaks, little, sizeof little);
  assert_int_equal(strlen(little), 5);
}

static void folders_are_made_with_those_above(void **state) {
  (void)state;
  char root[] = "/tmp/tg-process-XXXXXX", path[64], full[4096];
  assert_non_null(mkdtemp(root));
  snprintf(path, sizeof path, "%s/a/b", root);
  assert_int_equal(tg__folder_make(path, NULL), TG_OK);
  assert_int_equal(tg__folder_make(path, NULL), TG_OK);
  assert_int_equal(tg__path_kind(path), TG__PATH_DIR);
  assert_true(tg__path_absolute(path, full, sizeof full));
  assert_true(full[0] == '/');
  assert_false(tg__path_absolute(path, full, 3));
  tg__path_remove(path);
  assert_int_equal(tg__path_kind(path), TG__PATH_NONE);
  FILE *const file = fopen(path, "w");
  fclose(file);
  struct tg_error e;
  assert_int_equal(tg__folder_make(path, &e), TG_IO);
  tg__path_remove(path);
  snprintf(path, sizeof path, "%s/a", root);
  tg__path_remove(path);
  tg__path_remove(root);
  assert_int_equal(tg__path_kind(root), TG__PATH_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(status_is_the_programs),
      cmocka_unit_test(output_goes_where_it_is_sent),
      cmocka_unit_test(a_broken_pipe_ends_the_program),
      cmocka_unit_test(what_cannot_be_started_is_said),
      cmocka_unit_test(a_program_says),
      cmocka_unit_test(folders_are_made_with_those_above),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
