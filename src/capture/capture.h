/* capture: the recorder, inside the recorded program. Public header and contract of the folder.
 *
 * Path of an event: a source observes a start and an end on some thread → the thread's open stack → one record of
 * 32 bytes, written at the end into the thread's chunk (a memory-mapped piece of the file) → the helper thread seals
 * full chunks and prepares new ones. Texts (names, shapes, frames) become numbers through the thread's dictionaries;
 * an entry is in the file before the first record that uses it.
 *
 * Rules: no exit, no print, no exception; no lock and no system call on the program's threads, except when a text is
 * seen for the first time, when a chunk changes before the helper prepared the next, and at the edges of a step; memory
 * comes from tg__capture_pages, which counts it against the budget. */
#ifndef TG_CAPTURE_H
#define TG_CAPTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/base.h"
#include "format/format.h"
#include "tachograph/record.h"

/* ---- time (clock.c) -------------------------------------------------------------------------- */

extern bool tg__clock_is_counter; /* decided once: the processor's counter is constant and the same on all cores */
static inline uint64_t tg__ticks(void) {
#if defined(__x86_64__)
  if (TG_LIKELY(tg__clock_is_counter)) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (TG_LIKELY(tg__clock_is_counter)) {
    uint64_t v;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
  }
#endif
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
void tg__clock_decide(void);
void tg__clock_pair(uint64_t *ticks, int64_t *wall_ns); /* read at the same moment, as near as can be */

/* helper_thread.c: a thread of the recorder, with a small stack and without signals. */
bool tg__thread_start(pthread_t *thread, void *(*work)(void *));

/* ---- numbers in the layouts of others, wherever they lie ---------------------------------------- */

static inline uint16_t tg__at16(const void *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline uint32_t tg__at32(const void *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline uint64_t tg__at64(const void *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline const uint8_t *tg__at_pointer(const void *p) {
  const uint8_t *v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* ---- threads (thread.c) ---------------------------------------------------------------------- */

enum { TG_OPEN_MAX = 512, TG_SOURCE_SLOTS = 8 };
enum {
  TG_SLOT_TORCH,
  TG_SLOT_TORCH_INPUTS,
  TG_SLOT_STACK,
  TG_SLOT_MODULES,
  TG_SLOT_CALLS,
  TG_SLOT_PYTHON_NAMES
}; /* index into `own`: the source that uses the slot */

/* An operation that has begun. */
struct tg__open {
  const void *key; /* what its end will name: the framework's object, or the address of a token */
  uint64_t start_ticks;
  uint32_t name, shape, stack, seq; /* as in the record */
  uint8_t scope;
};

/* One per thread that recorded something; never unmapped (a late end may still come), used again for another thread. */
struct tg__thread {
  struct tg__raw_record *next, *end; /* room in the current chunk; both NULL when there is none */
  uint64_t last_ticks;               /* when the last record was written */
  uint32_t generation;               /* of the session that this state belongs to */
  uint32_t depth;                    /* entries of `open` in use */
  uint32_t number;                   /* in this file: the part of its chunks */
  uint32_t os_thread;
  uint32_t logical; /* the framework's number; 0 = not asked yet */
  /* only this thread adds, with tg__thread_count; the process' sum takes them over */
  _Atomic uint64_t counts[TG_RAW_COUNTS];
  void *own[TG_SOURCE_SLOTS];               /* of each source: its caches, from tg__capture_pages */
  uint32_t own_generation[TG_SOURCE_SLOTS]; /* for which session they are valid: ids start again with each file */
  struct tg__open open[TG_OPEN_MAX];
  struct tg__thread_private *more; /* thread.c, chunk.c, dictionary.c */
};

extern _Atomic bool tg__running;      /* session.c: opened and resumed, not paused: what begins now is recorded */
extern _Atomic uint32_t tg__features; /* session.c: what sources record at the moment, TG_RECORD_* bits */
/* Of the running session; changes when one opens, closes, or the process forks. Lowest bit set = open. */
extern _Atomic uint32_t tg__generation;
extern _Thread_local struct tg__thread *tg__thread_here __attribute__((tls_model("initial-exec")));

/* Slow path: first record of a thread in a session. NULL: not recording, or no room (counted) */
struct tg__thread *tg__thread_enter(void);
static inline struct tg__thread *tg__thread(void) {
  struct tg__thread *const t = tg__thread_here;
  return TG_LIKELY(t && t->generation == atomic_load_explicit(&tg__generation, memory_order_relaxed))
             ? t
             : tg__thread_enter();
}

static inline void tg__thread_count(struct tg__thread *t, enum tg__raw_count which, uint64_t n) {
  /* one writer: no locked instruction needed */
  const uint64_t before = atomic_load_explicit(&t->counts[which], memory_order_relaxed);
  atomic_store_explicit(&t->counts[which], before + n, memory_order_relaxed);
}
/* The framework's number of this thread became known: for the heads of its chunks, the one being written among them. */
void tg__thread_logical(struct tg__thread *t, uint32_t logical);

/* Open stack. Push: NULL when too deep (counted). Pop: the entry of `key`, which stays readable until the next push;
 * NULL when it began before the recording. Entries above it stay, but for calls above a call and marks above a mark:
 * their ends never came. */
struct tg__open *tg__open_pop_search(struct tg__thread *t, const void *key);
struct tg__open *tg__open_too_deep(struct tg__thread *t);
static inline struct tg__open *tg__open_push(struct tg__thread *t, const void *key) {
  if (TG_UNLIKELY(t->depth == TG_OPEN_MAX)) return tg__open_too_deep(t);
  struct tg__open *const o = &t->open[t->depth++];
  o->key = key;
  return o;
}
static inline struct tg__open *tg__open_pop(struct tg__thread *t, const void *key) {
  if (TG_LIKELY(t->depth && t->open[t->depth - 1].key == key)) return &t->open[--t->depth];
  return tg__open_pop_search(t, key);
}

/* ---- records (chunk.c) ----------------------------------------------------------------------- */

/* Where the next record goes; tg__chunk_next is its slow path. NULL: no room, counted. */
struct tg__raw_record *tg__chunk_next(struct tg__thread *t);
static inline struct tg__raw_record *tg__record_claim(struct tg__thread *t) {
  struct tg__raw_record *const r = t->next;
  if (TG_UNLIKELY(r == t->end)) return tg__chunk_next(t);
  t->next = r + 1;
  return r;
}
/* The record exists from here on: everything else in it must be written. */
static inline void tg__record_publish(struct tg__raw_record *r, uint8_t flags) {
  atomic_store_explicit((_Atomic uint8_t *)&r->flags, (uint8_t)(flags | TG_RAW_F_VALID), memory_order_release);
}
/* Write the record of what was open and ended at end_ticks. Its depth is the number of entries below it now. */
/* Likewise with an extension, which has the whole duration and `call`. */
void tg__record_put_long(struct tg__thread *t, const struct tg__open *o, uint64_t end_ticks, uint8_t flags,
                         uint64_t call);
static inline void tg__record_put(struct tg__thread *t, const struct tg__open *o, uint64_t end_ticks, uint8_t flags) {
  const uint64_t dur = end_ticks > o->start_ticks ? end_ticks - o->start_ticks : 0;
  if (TG_UNLIKELY(dur > UINT32_MAX)) {
    tg__record_put_long(t, o, end_ticks, flags, 0);
    return;
  }
  struct tg__raw_record *const r = tg__record_claim(t);
  if (TG_UNLIKELY(!r)) return;
  t->last_ticks = end_ticks;
  r->start_ticks = o->start_ticks;
  r->dur_ticks = (uint32_t)dur;
  r->name = o->name;
  r->shape = o->shape;
  r->stack = o->stack;
  r->seq = o->seq;
  r->depth = (uint16_t)t->depth;
  r->scope = o->scope;
  tg__record_publish(r, flags);
}

/* ---- dictionaries (dictionary.c) ------------------------------------------------------------- */

/* The number of a text in one of the thread's dictionaries, from 1; a new text is written to the file first. 0: no
 * room, counted. parent distinguishes (same bytes under another parent are another entry). Sources put caches of
 * their own in front of it. */
uint32_t tg__dictionary_intern(struct tg__thread *t, enum tg__raw_dictionary kind, uint32_t parent, const void *bytes,
                               size_t len);
/* An entry with a number chosen by the caller (THREAD, MODULE, META); part: the thread's number or
 * TG_RAW_EVERY_THREAD. */
bool tg__dictionary_write(uint32_t part, enum tg__raw_dictionary kind, uint32_t id, uint32_t parent, const void *bytes,
                          size_t len);

/* ---- memory (budget.c) ----------------------------------------------------------------------- */

/* Zeroed pages that count against the memory budget; NULL when it is used up. */
void *tg__capture_pages(size_t bytes);
/* The same for what may come without end, such as stacks: NULL when less than a quarter is left, which is for names
 * and records. */
void *tg__capture_pages_spare(size_t bytes);
void tg__capture_pages_drop(void *p, size_t bytes);
/* Can these bytes be read? Asks the kernel, about 1 us; never faults. For calibration and for pointers from
 * elsewhere. */
bool tg__capture_can_read(const void *p, size_t len);

/* ---- sources --------------------------------------------------------------------------------- */

/* Something that sees events. Called with the session's lock, never from two threads at once, with or without the
 * GIL. */
struct tg__source {
  const char *name;
  uint32_t features; /* TG_RECORD_* bits it serves */
  /* Can it record these now? TG_UNSUPPORTED with the evidence when this torch or Python is not understood,
   * TG_NO_DATA when what it watches is not loaded (yet). May calibrate; remembers the result. */
  enum tg_err (*prepare)(uint32_t features, struct tg_error *e);
  enum tg_err (*start)(uint32_t features, struct tg_error *e); /* features: all that the session records */
  void (*last)(void);         /* while it still runs, before it is paused: what it has left to say. NULL = nothing */
  void (*stop)(void);         /* no new events from here on; late ends may still come */
  void (*flush)(void);        /* before the file closes: write what is pending. NULL = nothing */
  void (*tick)(void);         /* on the helper thread ten times a second. NULL = nothing */
  void (*serve)(void);        /* on the helper thread each time it was woken. NULL = nothing */
  void (*fork_hold)(void);    /* before a fork: take the locks that the child must find free. NULL = none */
  void (*fork_release)(void); /* after it, in parent and child: release it */
  void (*fork_child)(void);   /* in the child of a fork, started or not, one thread, no allocation. NULL = nothing */
  bool (*is_off)(void);       /* nothing of it is left in the process. NULL = it installs nothing */
};
extern const struct tg__source tg__source_torch;   /* torch_hook.c */
extern const struct tg__source tg__source_memory;  /* memory_hook.c */
extern const struct tg__source tg__source_process; /* process_sampler.c */
extern const struct tg__source tg__source_cuda;    /* cuda_source.c */
extern const struct tg__source tg__source_nvtx;    /* nvtx_record.c */
/* Sources that only the Python extension has join at import: python_*.c. false when there are too many. */
bool tg__source_add(const struct tg__source *s);
const struct tg__source *tg__source_at(size_t i); /* sources.c: all sources there are; NULL behind the last */
bool tg__helper_is_off(void);                     /* helper_thread.c: it does not run */

/* ---- between sources ------------------------------------------------------------------------- */

/* Number of the calling thread's Python stack in its STACK dictionary; 0 = none. Set by python_stack.c while stacks
 * or modules are recorded, else tg__stack_none: never NULL. Threads that record read it while it is set. Called in the
 * start of an operation: no GIL is needed, and none is taken where frames can be read (python_frames.h). */
typedef uint32_t tg__stack_fn(struct tg__thread *t);
extern _Atomic(tg__stack_fn *) tg__stack_of;
uint32_t tg__stack_none(struct tg__thread *t);
static inline tg__stack_fn *tg__stack_now(void) { return atomic_load_explicit(&tg__stack_of, memory_order_acquire); }
/* The innermost open operation's name, for allocations; 0 = none. */
static inline uint32_t tg__innermost_name(const struct tg__thread *t) {
  return t->depth ? t->open[t->depth - 1].name : 0;
}

#endif
