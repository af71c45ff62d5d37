/* The invariants of a folder that is read rank by rank, each broken once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks/ranks.h"
#include "unit/scratch.h"

static char folder[128];

static void write_rank(int rank, int slices) {
  char path[192];
  snprintf(path, sizeof path, "%s/rank-%d.json", folder, rank);
  FILE *const f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "{\"distributedInfo\":{\"rank\":%d,\"world_size\":3},\"traceEvents\":[", rank);
  for (int i = 0; i < slices; i++)
    fprintf(f, "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":5}",
            i ? "," : "", 10 * i);
  fputs("]}", f);
  assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s/tg_ranks_XXXXXX", scratch_folder());
  if (!mkdtemp(folder)) return 1;
  for (int rank = 0; rank < 3; rank++) write_rank(rank, 4 + rank);
  tg__ranks_large(1);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  char command[160];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) ? 1 : 0;
}

static void refused(const struct tg__rank_folder *d, const char *words) {
  struct tg_error e = {0};
  assert_false(tg__rank_folder_is_valid(d, &e));
  if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}
#define BROKEN(field, value, words)                                                                                    \
  do {                                                                                                                 \
    const __typeof__(field) before = (field);                                                                          \
    (field) = (value);                                                                                                 \
    refused(d, words);                                                                                                 \
    (field) = before;                                                                                                  \
  } while (0)

static void each_is_noticed(void **state) {
  (void)state;
  struct tg_trace *t;
  struct tg__columns *columns;
  struct tg_error e;
  if (tg__rank_folder_open(folder, NULL, NULL, &t, &e)) fail_msg("%s", e.text);
  struct tg__rank_folder *const d = t->folder;
  assert_int_equal(d->ranks.count, 3);
  for (uint32_t i = 0; i < 2; i++)
    if (tg__rank_folder_file(t, d->ranks.items[i].file_index, &columns, &e)) fail_msg("%s", e.text);
  if (!tg__rank_folder_is_valid(d, &e)) fail_msg("%s", e.text);
  struct tg__job_rank *const r = d->ranks.items;
  BROKEN(r[2].file_index, 99, "a rank of a file that is not there");
  BROKEN(r[0].file_index, r[2].file_index, "out of the order");
  BROKEN(r[1].rank_in_file, 1, "not numbered from 0");
  BROKEN(r[1].first_slice, r[1].first_slice + 1, "do not follow");
  BROKEN(r[1].slices, r[1].slices + 1, "do not follow");
  BROKEN(r[2].first_track, 0, "do not follow");
  BROKEN(d->kept[0].file_index, 99, "a kept trace of a file that is not there");
  BROKEN(d->kept[1].file_index, 99, "a kept trace of a file that is not there");
  BROKEN(d->kept[1].file_index, d->kept[0].file_index, "kept twice");
  BROKEN(d->kept[1].trace, d->kept[0].trace, "kept twice");
  if (!tg__rank_folder_is_valid(d, &e)) fail_msg("%s", e.text);
  tg__handle_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(each_is_noticed, make_folder, remove_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
