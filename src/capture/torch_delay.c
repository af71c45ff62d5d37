/* torch_delay: operators and labels of a chosen name begin later, by a busy wait of known length. `tachograph prove`
 * compares with it what the model of the steps predicts. Nothing is recorded meanwhile. The wait is so much time of the
 * thread on a core: when other programs have the cores, it lasts longer, as any work does. The name is looked at in
 * every operation also while the wait is 0 ns, so that steps with and without it differ only by the wait. */
#include "capture/torch.h"

static struct place {
  char name[TG_DELAY_NAME];
  _Atomic uint64_t times; /* that it was delayed */
} places[TG_DELAY_PLACES];
static _Atomic int chosen = -1; /* -1: none */
static _Atomic uint64_t wait_ns;
static _Atomic uint32_t turn; /* another choice, another number */
static _Thread_local struct {
  const void *outermost; /* of the operations of that name, which call each other; NULL: none is open */
  uint32_t turn;
} inside __attribute__((tls_model("initial-exec")));

static uint64_t thread_cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* On the thread of the operation, before its work. */
void tg__torch_delay(const uint8_t *rf) {
  const int at = atomic_load_explicit(&chosen, memory_order_acquire);
  if (at < 0 || strcmp(tg__torch_symbols.name(rf), places[at].name) != 0) return;
  const uint64_t ns = atomic_load_explicit(&wait_ns, memory_order_relaxed);
  const uint32_t now = atomic_load_explicit(&turn, memory_order_relaxed);
  if (!ns || (inside.outermost && inside.turn == now)) return;
  inside.outermost = rf;
  inside.turn = now;
  const uint64_t until = thread_cpu_ns() + ns;
  atomic_fetch_add_explicit(&places[at].times, 1, memory_order_relaxed);
  while (thread_cpu_ns() < until) {}
}

void tg__torch_delay_ended(const void *rf, void *context) {
  if (inside.outermost == rf) inside.outermost = NULL;
}

bool tg__torch_delay_name(size_t place, const char *name, size_t len) {
  if (place >= TG_DELAY_PLACES || len >= TG_DELAY_NAME || memchr(name, 0, len)) return false;
  memcpy(places[place].name, name, len);
  places[place].name[len] = 0;
  atomic_store(&places[place].times, 0);
  return true;
}

void tg__torch_delay_choose(int place, uint64_t ns) {
  atomic_store(&wait_ns, 0);
  atomic_fetch_add(&turn, 1);
  atomic_store_explicit(&chosen, place, memory_order_release);
  atomic_store(&wait_ns, ns);
}

uint64_t tg__torch_delayed(size_t place) { return atomic_load(&places[place].times); }
