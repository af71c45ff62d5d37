/* cuda_clock: CUPTI's times become ticks. Newer versions stamp records with a clock of the caller's: then nothing is to
 * be done. Else both clocks are read together again and again, and a time lies on the line through the readings around
 * it. A version that has our clock may still return records by its own, so both ways are always there. */
#include "capture/cuda.h"

enum {
  READINGS = 256,         /* kept, the newest: ten a second */
  STEP_PER_MILLION = 500, /* no clock drifts by more: a line that is steeper or flatter has a step in it */
  BEFORE_BITS = 41,
  AFTER_BITS = 37, /* ticks before the start and after now that a record may lie: minutes and seconds */
};

struct reading {
  uint64_t time, ticks;
};
static struct {
  struct reading all[READINGS];
  uint32_t count; /* ever; the newest is at (count - 1) % READINGS */
  double nominal; /* ticks per unit of CUPTI's clock, from the first two readings that lie apart */
  uint64_t start_ticks, error, converted;
  uint64_t first, room; /* ticks from which on a record may lie, and how many from there */
  int64_t start_ns;
  bool is_ours, is_registered;
} clock_state;

static uint64_t our_ticks(void) { return tg__ticks(); }

static bool is_plausible(uint64_t ticks) { return ticks - clock_state.first <= clock_state.room; }

/* Reading the counter takes about 20 ns, so what is plausible is worked out once for many records. */
void tg__cuda_clock_set_limits(void) {
  const uint64_t start = clock_state.start_ticks;
  clock_state.first = start > (UINT64_C(1) << BEFORE_BITS) ? start - (UINT64_C(1) << BEFORE_BITS) : 0;
  clock_state.room = tg__ticks() + (UINT64_C(1) << AFTER_BITS) - clock_state.first;
}

static const struct reading *at(uint32_t n) { return &clock_state.all[n % READINGS]; }

static void note_step(const struct reading *before, const struct reading *now) {
  const double expected = (double)(now->time - before->time) * clock_state.nominal,
               is = (double)(now->ticks - before->ticks), apart = is > expected ? is - expected : expected - is;
  if (apart * 1e6 > STEP_PER_MILLION * is && apart > (double)clock_state.error) clock_state.error = (uint64_t)apart;
}

void tg__cuda_clock_tick(void) {
  struct reading best = {0};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 3; i++) { /* the try that was interrupted least */
    uint64_t time;
    const uint64_t before = tg__ticks();
    if (tg__cupti.cuptiGetTimestamp(&time)) return;
    const uint64_t after = tg__ticks();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = (struct reading){time, before + (after - before) / 2};
  }
  tg__cuda_clock_set_limits();
  clock_state.is_ours = clock_state.is_registered && is_plausible(best.time);
  if (clock_state.is_ours) return;
  if (clock_state.count && best.ticks <= at(clock_state.count - 1)->ticks) return;
  if (shortest / 2 > clock_state.error) clock_state.error = shortest / 2;
  if (clock_state.count && clock_state.nominal > 0) note_step(at(clock_state.count - 1), &best);
  clock_state.all[clock_state.count++ % READINGS] = best;
  if (clock_state.nominal <= 0 && clock_state.count > 1 && best.time > at(0)->time)
    clock_state.nominal = (double)(best.ticks - at(0)->ticks) / (double)(best.time - at(0)->time);
}

void tg__cuda_clock_forget(void) { clock_state.is_registered = false; }

void tg__cuda_clock_start(void) {
  const bool is_registered = clock_state.is_registered;
  memset(&clock_state, 0, sizeof clock_state);
  tg__clock_pair(&clock_state.start_ticks, &clock_state.start_ns);
  /* Once per process: registered again, CUPTI stamps the first records of a session by its own clock. */
  clock_state.is_registered = is_registered || (tg__cupti.cuptiActivityRegisterTimestampCallback &&
                                                tg__cupti.cuptiActivityRegisterTimestampCallback(our_ticks) == 0);
  const struct timespec apart = {.tv_nsec = 2000000};
  tg__cuda_clock_tick();
  if (clock_state.is_ours) return;
  nanosleep(&apart, NULL); /* a first line, before the first tick */
  tg__cuda_clock_tick();
}

/* The readings around a time, or the two nearest: the first of them. */
static uint32_t stretch_of(uint64_t time) {
  const uint32_t newest = clock_state.count - 1,
                 oldest = clock_state.count > READINGS ? clock_state.count - READINGS : 0;
  uint32_t low = oldest, high = newest;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (at(middle)->time <= time) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* CUPTI's own clock is the wall clock: for records stamped by it although it has ours. */
static bool convert_wall(uint64_t time, uint64_t *ticks) {
  uint64_t now_ticks = 0;
  int64_t now_ns = 0;
  tg__clock_pair(&now_ticks, &now_ns);
  if (now_ns <= clock_state.start_ns || now_ticks <= clock_state.start_ticks) return false;
  const double rate = (double)(now_ticks - clock_state.start_ticks) / (double)(now_ns - clock_state.start_ns);
  const double delta = (double)(int64_t)(time - (uint64_t)now_ns) * rate;
  if (delta > 1e15 || delta < -1e15) return false;
  *ticks = now_ticks + (uint64_t)(int64_t)delta;
  return true;
}

/* Where the clock was set between two readings, the line from the first holds, at the nominal rate. */
static bool convert(uint64_t time, uint64_t *ticks) {
  if (clock_state.count < 2) return convert_wall(time, ticks);
  const struct reading *const a = at(stretch_of(time)), *const b = a == at(clock_state.count - 1)
                                                                       ? a
                                                                       : at(stretch_of(time) + 1);
  double rate = b->time > a->time ? (double)(b->ticks - a->ticks) / (double)(b->time - a->time) : clock_state.nominal;
  const double off = rate > clock_state.nominal ? rate - clock_state.nominal : clock_state.nominal - rate;
  if (off * 1e6 > STEP_PER_MILLION * clock_state.nominal) rate = clock_state.nominal;
  const double delta = (double)(int64_t)(time - a->time) * rate;
  if (delta > 9e18 || delta < -9e18) return false;
  *ticks = a->ticks + (uint64_t)(int64_t)delta;
  return true;
}

bool tg__cuda_ticks(uint64_t time, uint64_t *ticks) {
  if (TG_LIKELY(clock_state.is_registered && is_plausible(time))) {
    *ticks = time;
    return true;
  }
  if (!convert(time, ticks) || !is_plausible(*ticks)) return false;
  clock_state.converted++;
  return true;
}

struct tg__cuda_clock_state tg__cuda_clock_now(void) {
  return (struct tg__cuda_clock_state){clock_state.is_ours, clock_state.error, clock_state.converted};
}
