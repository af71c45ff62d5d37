/* torch_lock: the mutex under which torch keeps its list of callbacks. After every change of the list each thread
 * takes it at its next operation; a child that is forked while some thread has it would wait for it for ever. So a
 * fork takes it, too. torch does not export it: it is looked for where the library keeps what it changes, behind a
 * list that holds a callback of ours, and believed only once a thread that changes the list was seen waiting for it. */
#include "capture/session.h"
#include "capture/torch.h"

#include <link.h>

enum { LIST_BYTES_MOST = 64 << 10, LOOKS_MOST = 2000, LOOK_NS = 50000 };

/* at::GlobalCallbackManager in words: a version, a vector (begin, end, end of its room), the mutex. */
typedef uintptr_t word __attribute__((may_alias));
enum {
  WORD = sizeof(word),
  VERSION = 0,
  BEGIN = 1,
  END = 2,
  ROOM = 3,
  LOCK = 4,
  LOCK_WORDS = sizeof(pthread_mutex_t) / WORD
};

/* Reads what belongs to others and may change meanwhile. */
#define UNWATCHED __attribute__((no_sanitize("address"), no_sanitize("thread")))

static _Atomic(pthread_mutex_t *) found; /* NULL = not known */

/* ---- looking --------------------------------------------------------------------------------- */

static void *never_start(void **context, const void *rf) { return context; }
static void never_end(const void *rf, void *context) {}

/* Of no kind of record: it is never called. */
static uint64_t add_silent(void) {
  return tg__torch_symbols.add_callback(
      (struct tg__torch_callback){.start = never_start, .end = never_end, .probability = 1});
}

UNWATCHED static bool is_list(const word *w) {
  void *(*const start)(void **, const void *) = never_start;
  if (!w[VERSION] || !w[BEGIN] || w[BEGIN] % WORD || w[END] % WORD || w[END] <= w[BEGIN] || w[ROOM] < w[END])
    return false;
  if (w[ROOM] - w[BEGIN] > LIST_BYTES_MOST) return false;
  for (int i = 0; i < LOCK_WORDS; i++)
    if (w[LOCK + i]) return false; /* taken, or no mutex */
  if (!tg__capture_can_read((const void *)w[BEGIN], w[END] - w[BEGIN])) return false;
  for (const word *p = (const word *)w[BEGIN]; p < (const word *)w[END]; p++)
    if (*p == (uintptr_t)start) return true;
  return false;
}

struct search {
  uintptr_t inside; /* an address in the library that is meant */
  pthread_mutex_t *lock;
  size_t locks;
};

static void search_part(struct search *s, uintptr_t from, uintptr_t end) {
  for (const word *w = (const word *)((from + WORD - 1) / WORD * WORD); (uintptr_t)(w + LOCK + LOCK_WORDS) <= end;
       w++) {
    if (!is_list(w)) continue;
    s->lock = (pthread_mutex_t *)(w + LOCK);
    s->locks++;
  }
}

static int search_library(struct dl_phdr_info *lib, size_t size, void *ctx) {
  struct search *const s = ctx;
  bool is_it = false;
  for (int i = 0; i < lib->dlpi_phnum; i++) {
    const ElfW(Phdr) *const p = &lib->dlpi_phdr[i];
    is_it = is_it || (p->p_type == PT_LOAD && s->inside - (lib->dlpi_addr + p->p_vaddr) < p->p_memsz);
  }
  for (int i = 0; is_it && i < lib->dlpi_phnum; i++) {
    const ElfW(Phdr) *const p = &lib->dlpi_phdr[i];
    const uintptr_t from = lib->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && p->p_flags & PF_W) search_part(s, from, from + p->p_memsz);
  }
  return is_it;
}

/* ---- proof ----------------------------------------------------------------------------------- */

static void *change_list(void *unused) {
  const uint64_t handle = add_silent();
  if (handle) tg__torch_symbols.remove_callback(handle);
  return NULL;
}

/* Does a thread that changes the list wait while we have this? A mutex with a waiting thread has that in its first
 * word. */
static bool is_waited_for(pthread_mutex_t *lock) {
  const struct timespec short_time = {.tv_nsec = LOOK_NS};
  pthread_t thread;
  if (pthread_mutex_trylock(lock)) return false;
  const bool runs = tg__thread_start(&thread, change_list);
  bool waits = false;
  for (int i = 0; runs && !waits && i < LOOKS_MOST; i++) {
    nanosleep(&short_time, NULL);
    waits = __atomic_load_n((const int *)lock, __ATOMIC_RELAXED) > 1;
  }
  pthread_mutex_unlock(lock);
  if (runs) pthread_join(thread, NULL);
  return waits;
}

void tg__torch_lock_find(void) {
  uint64_t (*const inside)(struct tg__torch_callback) = tg__torch_symbols.add_callback;
  struct search s = {0};
  memcpy(&s.inside, &inside, sizeof s.inside);
  tg__fork_block();
  const uint64_t handle = add_silent();
  if (handle) {
    dl_iterate_phdr(search_library, &s);
    tg__torch_symbols.remove_callback(handle);
  }
  atomic_store(&found, s.locks == 1 && is_waited_for(s.lock) ? s.lock : NULL);
  tg__fork_unblock();
}

bool tg__torch_lock_is_known(void) { return atomic_load(&found) != NULL; }

/* ---- forks ----------------------------------------------------------------------------------- */

void tg__torch_lock_take(void) {
  pthread_mutex_t *const lock = atomic_load(&found);
  if (lock) pthread_mutex_lock(lock);
}

void tg__torch_lock_release(void) {
  pthread_mutex_t *const lock = atomic_load(&found);
  if (lock) pthread_mutex_unlock(lock);
}
