/* For the tests of the recorder: a directory of their own, a recording opened and started, a file read back. */
#ifndef RECORDING_H
#define RECORDING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tachograph/record.h"
#include "trace/trace.h"
#include "unit/scratch.h"

static char recording_dir[64];
static char recording_path[96];

static inline int recording_setup(void **state) {
  snprintf(recording_dir, sizeof recording_dir, "%s/tg_capture_XXXXXX", scratch_folder());
  if (!mkdtemp(recording_dir)) return 1;
  snprintf(recording_path, sizeof recording_path, "%s/run.tacho", recording_dir);
  return 0;
}

static inline int recording_teardown(void **state) {
  char command[96];
  snprintf(command, sizeof command, "rm -r %s", recording_dir);
  return system(command) ? 1 : 0;
}

static inline void recording_start(struct tg_record_options options) {
  struct tg_error e;
  if (!options.path) options.path = recording_path;
  if (tg_record_open(&options, &e) || tg_record_resume(&e)) fail_msg("%s", e.text);
}

static inline struct tg_record_stats recording_close(void) {
  struct tg_error e;
  struct tg_record_stats stats;
  if (tg_record_close(&stats, &e)) fail_msg("%s", e.text);
  return stats;
}

static inline struct tg__columns *recording_read(const char *path) {
  struct tg_error e;
  struct tg__columns *t;
  if (tg__trace_open(path, NULL, &t, &e) || tg__trace_load(t, TG__COL_ALL, &e)) fail_msg("%s: %s", path, e.text);
  if (!tg__trace_is_valid(t, &e)) fail_msg("%s: %s", path, e.text);
  return t;
}

static inline bool recording_name_is(const struct tg__columns *t, uint32_t id, const char *name) {
  const struct tg__str s = tg__name(t, id);
  return s.len == strlen(name) && memcmp(s.ptr, name, s.len) == 0;
}

/* Slices that the program recorded: a reader adds one for the recording as a whole. */
static inline size_t recording_slices(const struct tg__columns *t) {
  size_t n = 0;
  for (uint32_t i = 0; i < t->slices.count; i++) n += tg__slice_class(t, i) != TG__CLASS_SPAN;
  return n;
}

/* Slices of that name. *first: the first of them. */
static inline size_t recording_count(const struct tg__columns *t, const char *name, uint32_t *first) {
  size_t n = 0;
  if (first) *first = TG_NONE;
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (!recording_name_is(t, t->slices.name[i], name)) continue;
    if (n++ == 0 && first) *first = i;
  }
  return n;
}

static inline uint32_t recording_find(const struct tg__columns *t, const char *name) {
  uint32_t i = TG_NONE;
  if (recording_count(t, name, &i) != 1) fail_msg("%s is there %zu times", name, recording_count(t, name, NULL));
  return i;
}

/* That many ranges on the calling thread. */
static inline void recording_make(const char *name, int count) {
  for (int i = 0; i < count; i++) {
    tg_range_begin(name);
    tg_range_end();
  }
}

static inline void sleep_us(long us) {
  const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  nanosleep(&t, NULL);
}

static inline void *shared_page(void) {
  void *const p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  return p;
}

static inline void assert_exits_with_zero(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
