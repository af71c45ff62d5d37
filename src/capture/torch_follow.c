/* torch_follow: the operators that are open on each thread, by name, while a CUDA graph is captured and nothing need be
 * recorded. Operators begin and end on one thread, each inside the one before, so an entry is alive as long as it
 * stands here; labels may end on another thread and are not followed. */
#include "capture/kept.h"
#include "capture/torch.h"

enum { DEPTH = 16 }; /* operators inside the outermost ones are not seen any more; autograd's own take two */

static _Thread_local struct {
  const void *open[DEPTH];
  uint32_t depth;
} here __attribute__((tls_model("initial-exec")));
static _Atomic uint32_t captures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tg__torch_follow(const void *rf) {
  if (here.depth < DEPTH) here.open[here.depth] = rf;
  here.depth++;
}

void tg__torch_followed(const void *rf, void *context) {
  if (here.depth) here.depth--;
}

const char *tg__torch_operator_now(void) {
  static const char engine[] = "autograd::engine::"; /* its record around each node is no operator */
  for (uint32_t i = here.depth < DEPTH ? here.depth : DEPTH; i-- > 0;) {
    const char *const name = tg__torch_symbols.name(here.open[i]);
    if (strncmp(name, engine, sizeof engine - 1) != 0) return name;
  }
  return NULL;
}

bool tg__torch_follow_begin(void) {
  pthread_mutex_lock(&lock);
  const bool first = atomic_fetch_add(&captures, 1) == 0, ok = !first || tg__torch_follow_add();
  if (!ok) atomic_fetch_sub(&captures, 1);
  pthread_mutex_unlock(&lock);
  return ok;
}

void tg__torch_follow_end(void) {
  pthread_mutex_lock(&lock);
  if (atomic_load(&captures) && atomic_fetch_sub(&captures, 1) == 1) tg__torch_follow_remove();
  pthread_mutex_unlock(&lock);
}

bool tg__torch_follow_is_off(void) { return atomic_load(&captures) == 0; }
