/* What it costs to ask one trace everything: opens FILE once and asks every question once, with its default
 * arguments, in the order of `tachograph questions`. One JSON line on stdout: CPU ms and wall ms of each, rows, the
 * exit status a refusal would have, and the anonymous memory of the process after opening and after the last
 * question.
 *
 *   every_question FILE [question …]     only these, in this order */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tachograph/read.h"

static double ms_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* RssAnon or another line of /proc/self/status, in kB; -1 when there is none. */
static long kilobytes(const char *name) {
  char line[256];
  long found = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, name, strlen(name)) == 0) found = atol(line + strlen(name) + 1);
  if (f) fclose(f);
  return found;
}

static void time_question(struct tg_trace *t, const char *name, const char *separator) {
  struct tg_table *table = NULL;
  struct tg_error e;
  const double cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID), wall = ms_of(CLOCK_MONOTONIC);
  const enum tg_err err = tg_ask(t, name, NULL, 0, &table, &e);
  const size_t rows = err ? 0 : tg_table_rows(table);
  tg_table_free(table);
  printf("%s{\"name\": \"%s\", \"cpu_ms\": %.4f, \"wall_ms\": %.4f, \"status\": %d, \"rows\": %zu}", separator, name,
         ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu, ms_of(CLOCK_MONOTONIC) - wall, tg_err_status(err), rows);
}

int main(int argc, char **argv) {
  struct tg_trace *t;
  struct tg_error e;
  if (argc < 2) return 2;
  if (tg_open(argv[1], NULL, &t, &e)) {
    fprintf(stderr, "every_question: %s\n", e.text);
    return 4;
  }
  printf("{\"opened_kb\": %ld, \"questions\": [", kilobytes("RssAnon"));
  for (int i = 2; i < argc; i++) time_question(t, argv[i], i > 2 ? ", " : "");
  for (size_t i = 0; argc == 2 && i < tg_question_count(); i++) time_question(t, tg_question_name(i), i ? ", " : "");
  printf("], \"asked_kb\": %ld, \"peak_kb\": %ld}\n", kilobytes("RssAnon"), kilobytes("VmHWM"));
  tg_close(t);
  return 0;
}
