/* Where the other threads of Python are while the watched one waits for a lock or the GIL: samples without a length.
 * Their states are read as another process would read them: a thread that ends meanwhile leaves an address that cannot
 * be read, or a state without frames. */
#include "capture/python_samples.h"

#include <unistd.h>

#if TG_FRAMES_KNOWN

enum { TAKEN_MOST = 16, STATES_MOST = 64 }; /* of one moment */

static bool take_side_sample(struct tg__thread *t, const PyThreadState *state, uint32_t os_thread, uint64_t ticks) {
  struct tg__far_frames frames;
  const int call_file = tg__doing_open(os_thread);
  if (call_file < 0) return false;
  const char *const doing = tg__doing_now(call_file, true);
  close(call_file);
  const uint32_t stack = tg__far_frames_read(state, &frames) ? tg__far_frames_number(t, &frames) : 0,
                 name = stack ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, doing, strlen(doing)) : 0;
  if (!name || !atomic_load_explicit(&tg__running, memory_order_relaxed)) return false;
  const struct tg__open o = {
      .start_ticks = ticks, .name = name, .stack = stack, .seq = os_thread, .scope = TG_RAW_SAMPLE};
  tg__record_put(t, &o, ticks, 0);
  return true;
}

void tg__side_samples_take(struct tg__thread *t, const PyThreadState *watched, uint64_t ticks) {
  PyThreadState state;
  const PyThreadState *at = PyInterpreterState_ThreadHead(watched->interp);
  uint32_t taken = 0;
  for (uint32_t i = 0; at && i < STATES_MOST && taken < TAKEN_MOST; i++, at = state.next) {
    if (!tg__far_read(at, &state, sizeof state)) return;
    if (at != watched && state.interp == watched->interp)
      taken += take_side_sample(t, at, (uint32_t)state.native_thread_id, ticks);
  }
}

#else

void tg__side_samples_take(struct tg__thread *t, const PyThreadState *watched, uint64_t ticks) {}

#endif
