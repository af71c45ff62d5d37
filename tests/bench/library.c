/* What calls into the library cost without a process around them: open, each question, export. One JSON line on stdout.
 *
 *   library FILE [question[:by=value] …]     opens once, asks each question seven times (best), exports as chrome to a
 *                                         counter
 *   library --open FILE REPEAT               opens, asks the first small question and closes, REPEAT times */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tachograph/read.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fail(const struct tg_error *e) {
  fprintf(stderr, "library: %s\n", e->text);
  exit(e->code == TG_USAGE ? 2 : 4);
}

static struct tg_trace *open_trace(const char *path) {
  struct tg_trace *t;
  struct tg_error e;
  if (tg_open(path, NULL, &t, &e)) fail(&e);
  return t;
}

static size_t ask(struct tg_trace *t, const char *question, const struct tg_arg *args, size_t count) {
  struct tg_table *table;
  struct tg_error e;
  if (tg_ask(t, question, args, count, &table, &e)) fail(&e);
  const size_t rows = tg_table_rows(table);
  tg_table_free(table);
  return rows;
}

static bool count_bytes(void *ctx, const char *bytes, size_t len) {
  *(uint64_t *)ctx += len;
  return true;
}

/* "ops:by=stack:3" is the question ops with by=stack:3. */
static void time_question(struct tg_trace *t, const char *text) {
  char name[64], value[64] = "";
  const char *by = strstr(text, ":by=");
  snprintf(name, sizeof name, "%.*s", by ? (int)(by - text) : (int)strlen(text), text);
  if (by) snprintf(value, sizeof value, "%s", by + 4);
  const struct tg_arg arg = {"by", value};
  double best = 0;
  size_t rows = 0;
  for (int k = 0; k < 7; k++) {
    const double start = now_ms();
    rows = ask(t, name, &arg, by ? 1 : 0);
    const double took = now_ms() - start;
    if (k == 0 || took < best) best = took;
  }
  printf(", \"%s\": {\"ms\": %.4f, \"rows\": %zu}", text, best, rows);
}

static int time_open(const char *path, int repeat) {
  printf("{\"opens_ms\": [");
  for (int k = 0; k < repeat; k++) {
    const double start = now_ms();
    struct tg_trace *t = open_trace(path);
    const double opened = now_ms();
    ask(t, "losses", NULL, 0);
    printf("%s[%.4f, %.4f]", k ? ", " : "", opened - start, now_ms() - start);
    tg_close(t);
  }
  puts("]}");
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "--open") == 0) return time_open(argv[2], atoi(argv[3]));
  if (argc < 2) return 2;
  const double start = now_ms();
  struct tg_trace *t = open_trace(argv[1]);
  printf("{\"open_ms\": %.4f", now_ms() - start);
  for (int i = 2; i < argc; i++) time_question(t, argv[i]);
  uint64_t bytes = 0;
  struct tg_error e;
  const double from = now_ms();
  if (tg_export(t, "chrome", NULL, 0, count_bytes, &bytes, &e)) fail(&e);
  printf(", \"export_ms\": %.4f, \"export_bytes\": %" PRIu64 "}\n", now_ms() - from, bytes);
  tg_close(t);
  return 0;
}
