/* Where the other threads of Python are while the watched one stands: samples without a length. Their states are read
 * as another process would read them: a thread that ends meanwhile leaves an address that cannot be read, or a state
 * without frames. By what it used of a core since the last look one that works is distinguished from one that was just
 * woken. */
#include "capture/python_samples.h"

#include <string.h>
#include <unistd.h>

#if TG_FRAMES_KNOWN

enum { TAKEN_MOST = 16, STATES_MOST = 64 }; /* of one moment */
enum { FRESH_NS = 20000000 };               /* so long ago may the last look be that says what a thread did since */

/* Threads as they were at their last look; read and written by the thread that looks. */
static struct {
  uint32_t os_thread;
  uint64_t cpu_ns, wall_ns;
} seen[STATES_MOST];
static uint32_t next_seen;

/* The part of a core that it used since its last look, in hundredths; -1: not known. */
static int core_pct(uint32_t os_thread, uint64_t wall_ns) {
  const uint64_t cpu_ns = tg__time_on((clockid_t)(~os_thread << 3 | 6)); /* as the kernel numbers clocks of threads */
  uint32_t i = 0;
  while (i < STATES_MOST && seen[i].os_thread != os_thread) i++;
  const bool is_known =
      i < STATES_MOST && wall_ns > seen[i].wall_ns && wall_ns - seen[i].wall_ns <= FRESH_NS && cpu_ns >= seen[i].cpu_ns;
  const int pct = is_known ? (int)((cpu_ns - seen[i].cpu_ns) * 100 / (wall_ns - seen[i].wall_ns)) : -1;
  if (i == STATES_MOST) i = next_seen++ % STATES_MOST;
  seen[i].os_thread = os_thread;
  seen[i].cpu_ns = cpu_ns;
  seen[i].wall_ns = wall_ns;
  return pct;
}

static bool take_side_sample(struct tg__thread *t, const PyThreadState *state, uint32_t os_thread, uint64_t ticks,
                             int pct) {
  struct tg__far_frames frames;
  const int call_file = tg__doing_open(os_thread);
  if (call_file < 0) return false;
  const char *doing = tg__doing_now(call_file, true);
  close(call_file);
  if (doing[0] == 'r' && pct >= 0 && pct < 50) doing = TG_DOING_READY;
  const uint32_t stack = tg__far_frames_read(state, &frames) ? tg__far_frames_number(t, &frames) : 0,
                 name = stack ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, doing, strlen(doing)) : 0;
  if (!name || !atomic_load_explicit(&tg__running, memory_order_relaxed)) return false;
  const struct tg__open o = {
      .start_ticks = ticks, .name = name, .stack = stack, .seq = os_thread, .scope = TG_RAW_SAMPLE};
  tg__record_put(t, &o, ticks, 0);
  return true;
}

void tg__side_samples_take(struct tg__thread *t, const PyThreadState *watched, uint64_t ticks, bool only_busy) {
  PyThreadState state;
  const PyThreadState *at = PyInterpreterState_ThreadHead(watched->interp);
  const uint64_t wall_ns = tg__time_on(CLOCK_MONOTONIC);
  uint32_t taken = 0;
  for (uint32_t i = 0; at && i < STATES_MOST && taken < TAKEN_MOST; i++, at = state.next) {
    if (!tg__far_read(at, &state, sizeof state)) return;
    if (at == watched || state.interp != watched->interp) continue;
    const uint32_t os_thread = (uint32_t)state.native_thread_id;
    const int pct = core_pct(os_thread, wall_ns);
    if (!only_busy || pct >= 50) taken += take_side_sample(t, at, os_thread, ticks, pct);
  }
}

#else

void tg__side_samples_take(struct tg__thread *t, const PyThreadState *watched, uint64_t ticks, bool only_busy) {}

#endif
