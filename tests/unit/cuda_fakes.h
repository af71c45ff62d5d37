/* For the tests of the source of CUDA: the libraries of tests/fake loaded, a script played, what came of it. */
#ifndef CUDA_FAKES_H
#define CUDA_FAKES_H

#include <dlfcn.h>

#include "capture/cuda.h"
#include "unit/recording.h"

static int (*fake_run)(const char *script);
static void (*fake_reset)(void);
static uint64_t (*fake_number)(const char *what);

static inline void *fake_symbol(void *library, const char *name) {
  void *const p = dlsym(library, name);
  if (!p) fail_msg("%s: %s", name, dlerror());
  return p;
}

static inline int load_fakes(void **state) {
  void *const cupti = dlopen(TG_FAKE_DIR "/libcupti.so.12", RTLD_NOW);
  if (!cupti || !dlopen(TG_FAKE_DIR "/libcuda.so.1", RTLD_NOW) || !dlopen(TG_FAKE_DIR "/libnvidia-ml.so.1", RTLD_NOW))
    return 1;
  void *const run = fake_symbol(cupti, "fake_run"), *const reset = fake_symbol(cupti, "fake_reset"),
              *const number = fake_symbol(cupti, "fake_number");
  memcpy(&fake_run, &run, sizeof run);
  memcpy(&fake_reset, &reset, sizeof reset);
  memcpy(&fake_number, &number, sizeof number);
  return recording_setup(state);
}

static inline int reset(void **state) {
  fake_reset();
  return 0;
}

static inline void play(const char *script) { assert_int_equal(fake_run(script), 0); }

static inline void start(void) {
  recording_start((struct tg_record_options){
      .rank = -1, .features = TG_RECORD_CUDA | TG_RECORD_CUDA_WAITS, .required = TG_RECORD_CUDA});
}

static inline int64_t lost_in(const struct tg__columns *t, enum tg__loss what) {
  int64_t n = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) n += t->ranks[r].loss[what];
  return n;
}

static inline const struct tg__track *track_of(const struct tg__columns *t, uint32_t slice) {
  for (uint32_t k = 0; k < t->track_count; k++)
    if (slice >= t->tracks[k].first && slice < t->tracks[k].first + t->tracks[k].count) return &t->tracks[k];
  return NULL;
}

static inline int64_t arg_of(const struct tg__columns *t, uint32_t slice, uint32_t key) {
  return tg__arg_int(t, t->slices.args[slice], key, -999);
}

static inline int64_t counter_of(const struct tg__columns *t, const char *name) {
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (t->marks.ph[i] == 'C' && recording_name_is(t, t->marks.name[i], name))
      return tg__arg_int(t, t->marks.args[i], TG__K_VALUE, -1);
  return -2;
}

#endif
