/* thread: the state of each thread that records: made at its first record, used again when it ends, never unmapped. */
#include "capture/session.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint32_t tg__generation;
_Thread_local struct tg__thread *tg__thread_here __attribute__((tls_model("initial-exec")));
_Atomic(tg__stack_fn *) tg__stack_of = tg__stack_none;
uint32_t tg__stack_none(struct tg__thread *t) { return 0; }

static _Atomic(struct tg__thread *) all_states; /* newest first; nothing is ever taken out */
static struct tg__thread gone = {
    .generation = UINT32_MAX}; /* a thread that has ended, but for destructors that still run on it */
static pthread_key_t ending;

struct tg__thread *tg__threads_first(void) { return atomic_load_explicit(&all_states, memory_order_acquire); }

/* ---- slow paths ------------------------------------------------------------------------------ */

/* The store of `busy` and the load of the generation must not change places, and neither may their counterparts in the
 * closing thread: one of the two sees the other. */
bool tg__busy_enter(struct tg__thread *t) {
  atomic_fetch_add(&t->more->busy, 1);
  if (tg__generation_now() == t->generation) return true;
  tg__busy_leave(t);
  return false;
}

void tg__busy_leave(struct tg__thread *t) { atomic_fetch_sub(&t->more->busy, 1); }

/* ---- names ----------------------------------------------------------------------------------- */

void tg__thread_name_of(uint32_t os_thread, const char *name) {
  const size_t len = strlen(name);
  tg__dictionary_write(TG_RAW_EVERY_THREAD, TG_RAW_D_GIVEN_THREAD, os_thread, 0, name,
                       len < TG_TEXT_MOST ? len : TG_TEXT_MOST);
}

bool tg__thread_recorded(uint32_t os_thread) {
  const uint32_t generation = tg__generation_now();
  for (const struct tg__thread *t = tg__threads_first(); t; t = t->more->next)
    if (atomic_load(&t->more->thread_generation) == generation && t->os_thread == os_thread) return true;
  return false;
}

void tg_thread_name(const char *name) {
  struct tg__thread *const t = name ? tg__thread() : NULL;
  if (!t || !tg__busy_enter(t)) return;
  t->more->named = true;
  tg__thread_name_of(t->os_thread, name);
  tg__busy_leave(t);
}

void tg__thread_name_refresh(struct tg__thread *t) {
  char name[sizeof t->more->name] = "";
  const char *const given = t->more->named ? NULL : tg__nvtx_thread_name(t->os_thread);
  if (given) {
    t->more->named = true;
    tg__thread_name_of(t->os_thread, given);
  }
  if (t->more->named || prctl(PR_GET_NAME, name) || strcmp(name, t->more->name) == 0) return;
  memcpy(t->more->name, name, sizeof name);
  tg__dictionary_write(TG_RAW_EVERY_THREAD, TG_RAW_D_THREAD, t->number, 0, name, strlen(name));
}

/* ---- states ---------------------------------------------------------------------------------- */

static struct tg__thread *state_new(void) {
  struct both {
    struct tg__thread thread;
    struct tg__thread_private more;
  } *const both = tg__capture_pages(sizeof *both);
  if (!both) return NULL;
  struct tg__thread *const t = &both->thread;
  t->more = &both->more;
  if (!tg__window_reserve(t)) {
    tg__capture_pages_drop(both, sizeof *both);
    return NULL;
  }
  atomic_store(&t->more->owned, 1);
  tg__window_reset(t);
  struct tg__thread *head = atomic_load(&all_states);
  do { t->more->next = head; } while (!atomic_compare_exchange_weak(&all_states, &head, t));
  return t;
}

static struct tg__thread *state_get(void) {
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    uint32_t free = 0;
    if (!atomic_compare_exchange_strong(&t->more->owned, &free, 1)) continue;
    if (t->more->window || tg__window_reserve(t)) return t;
    atomic_store(&t->more->owned, 0);
  }
  return state_new();
}

/* The thread ends. Destructors of others that it still runs are not recorded. */
static void thread_ends(void *state) {
  struct tg__thread *const t = state;
  const int error = errno;
  tg__thread_here = &gone;
  if (tg__busy_enter(t)) {
    tg__thread_name_refresh(t);
    tg__chunk_leave(t);
    tg__cost_close(t);
    for (int i = 0; i < TG_RAW_COUNTS; i++) tg__session_count(i, atomic_exchange(&t->counts[i], 0));
    atomic_store(&t->more->thread_generation, 0);
    tg__busy_leave(t);
  }
  t->generation = 0;
  atomic_store(&t->more->owned, 0);
  errno = error;
}

bool tg__threads_prepare(void) {
  static bool done;
  if (!done) done = pthread_key_create(&ending, thread_ends) == 0;
  return done;
}

/* ---- entering -------------------------------------------------------------------------------- */

static void begin_thread_state(struct tg__thread *t, uint32_t generation) {
  struct tg__thread_private *const p = t->more;
  for (int i = 0; i < TG_RAW_COUNTS; i++) atomic_store_explicit(&t->counts[i], 0, memory_order_relaxed);
  t->next = t->end = NULL;
  t->depth = 0;
  t->logical = 0;
  memset(t->own_generation, 0,
         sizeof t->own_generation); /* ids restart: sources' caches hold those of the thread before */
  t->os_thread = (uint32_t)syscall(SYS_gettid);
  t->number = atomic_fetch_add(&tg__session.threads, 1) + 1;
  p->no_room = 0;
  p->too_deep = p->lost_in_heads = 0;
  p->name[0] = 0;
  p->named = false;
  memset(p->cache, 0, sizeof p->cache);
  tg__dictionaries_clear(&p->words);
  if (atomic_load(&p->file_generation) != generation)
    tg__window_reset(t); /* else chunks of the thread before may wait to be sealed */
  atomic_store(&p->chunk_bytes, TG_CHUNK_LEAST);
  atomic_store(&p->file_generation, generation);
  atomic_store(&p->thread_generation, generation);
  tg__thread_name_refresh(t);
}

static struct tg__thread *enter_thread(void) {
  struct tg__thread *t = tg__thread_here;
  if (t == &gone) return NULL;
  if (atomic_load(&tg__session.state) == TG_SESSION_FORKED && !tg__fork_open()) return NULL;
  if (!t) {
    t = state_get();
    if (!t) return NULL;
    if (pthread_setspecific(ending, t)) {
      atomic_store(&t->more->owned, 0);
      return NULL;
    }
    tg__thread_here = t;
  }
  const uint32_t generation = tg__generation_now();
  if (!(generation & 1)) return NULL;
  t->generation = generation;
  if (!tg__busy_enter(t)) { /* closed in this moment */
    t->generation = 0;
    return NULL;
  }
  begin_thread_state(t, generation);
  tg__busy_leave(t);
  return t;
}

struct tg__thread *tg__thread_enter(void) {
  if (!(atomic_load_explicit(&tg__generation, memory_order_acquire) & 1)) return NULL;
  const int error = errno;
  struct tg__thread *const t = enter_thread();
  if (!t) tg__session_count(TG_RAW_C_NO_ROOM, 1);
  errno = error;
  return t;
}

void tg__threads_forked(void) {
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    atomic_store(&t->more->busy, 0);
    tg__cost_close(t); /* it is another thread's: that of the parent */
    atomic_store(&t->more->file_generation, 0);
    atomic_store(&t->more->thread_generation, 0);
    if (!tg__window_scratch(t)) tg__window_drop(t); /* else both processes would write into one file */
    tg__window_reset(t);
    t->next = t->end = NULL;
    if (t == tg__thread_here && t->more->window) continue;
    if (t == tg__thread_here) tg__thread_here = NULL;
    t->generation = 0;
    atomic_store(&t->more->owned, 0);
  }
}

/* ---- the open stack -------------------------------------------------------------------------- */

struct tg__open *tg__open_too_deep(struct tg__thread *t) {
  tg__thread_count(t, TG_RAW_C_TOO_DEEP, 1);
  return NULL;
}

static bool is_call(const struct tg__open *o) {
  return o->scope == TG_RAW_PYTHON_CALL || o->scope == TG_RAW_PYTHON_C_CALL || o->scope == TG_RAW_MODULE;
}

/* Take entry i out. Calls of functions nest strictly, and so do ranges and steps: one that lies above another is over,
 * though its end was not seen. All else stays: torch's operations end in any case, and a label may begin in one
 * function and end in another. */
static struct tg__open *take_out(struct tg__thread *t, uint32_t i) {
  const struct tg__open out = t->open[i];
  uint32_t kept = i, over = 0;
  for (uint32_t k = i + 1; k < t->depth; k++) {
    const bool is_over = (is_call(&out) && is_call(&t->open[k])) || (tg__is_mark(&out) && tg__is_mark(&t->open[k]));
    if (!is_over && t->open[k].key) t->open[kept++] = t->open[k]; /* without a key: it ended on another thread */
    over += is_over;
  }
  tg__thread_count(t, TG_RAW_C_NEVER_ENDED, over);
  t->depth = kept;
  t->open[kept] = out;
  return &t->open[kept];
}

struct tg__open *tg__open_pop_search(struct tg__thread *t, const void *key) {
  for (uint32_t i = t->depth; i-- > 0;)
    if (t->open[i].key == key) return take_out(t, i);
  tg__thread_count(t, TG_RAW_C_UNMATCHED_END, 1);
  return NULL;
}
