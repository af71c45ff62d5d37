/* session: what the files of the recorder's core share. Private to them; sources see only capture.h.
 *
 * Rights of access: a thread's state belongs to that thread while it is registered, but for what is _Atomic.
 * Whoever closes the file first makes tg__generation even, then waits until no thread is in a slow path (`busy`),
 * and owns all states from then on. A thread that was in the middle of a record may still write it: into its window,
 * which is never unmapped. */
#ifndef TG_CAPTURE_SESSION_H
#define TG_CAPTURE_SESSION_H

#include <pthread.h>
#include <sys/types.h>

#include "capture/capture.h"

enum {
  TG_CHUNK_LEAST = 64 << 10, /* bytes of file of a thread's first chunk, heads included */
  TG_CHUNK_MOST = 1 << 20,   /* and of its later ones, while the budget lasts */
  TG_SLOTS = 3, /* of a thread's window: one it writes, one the helper may be preparing, one that is free in any case */
  TG_FULL_MAX = 8, /* full chunks of a thread that wait to be sealed */
  TG_CHUNK_HEADS = TG_CHUNK_HEAD_BYTES + TG_RAW_HEAD_BYTES,
  TG_NAME_CACHE = 64,
  TG_FIRST_WORDS = 64,
  TG_FIRST_TEXT = 2048,
  TG_TEXT_MOST = 64 << 10,                  /* longer texts are cut */
  TG_SCOPE_NOT_RECORDED = TG_RAW_EXTENSION, /* in an open entry: it began while the recording paused */
};

/* ---- the file (record_file.c) ---------------------------------------------------------------- */

struct tg__region {
  uint64_t offset;
  uint32_t bytes;
};

/* Make the file and its first page. */
enum tg_err tg__recording_create(const char *path, struct tg_error *e);
/* Room at the end of the file; `limit`: the end it may reach. */
bool tg__recording_reserve(uint64_t bytes, uint64_t align, uint64_t limit, uint64_t *offset);
void tg__recording_clock(void);  /* a RAW_CLOCK pair at its end; by one thread at a time */
void tg__recording_counts(void); /* the counters into its first page */
/* keep_number: a thread may still use the descriptor, so it stays open. */
void tg__recording_close(bool keep_number);
void tg__recording_abandon(void); /* in the child of a fork */

/* ---- room for chunks of records (regions.c) -------------------------------------------------- */

/* Blocks of the disk that are all zeros: at the end of the file, or (keep last) where the oldest sealed chunk was.
 * out->bytes may be less than asked for, or more when an old chunk is used again. */
bool tg__region_get(uint32_t bytes, struct tg__region *out);
/* A sealed chunk may be overwritten from now on (keep last). */
void tg__region_offer(struct tg__region r, uint32_t records);
void tg__region_spare(struct tg__region r);                     /* one that was never written */
bool tg__region_spare_at(uint64_t end, struct tg__region *out); /* to close: the spare one that ends there */
void tg__regions_forget(void);                                  /* all of them: the file is closed */
void tg__regions_abandon(void);                                 /* the same in the child of a fork */

/* ---- the session (session.c) ----------------------------------------------------------------- */

enum tg__session_state {
  TG_SESSION_CLOSED,
  TG_SESSION_OPEN,
  TG_SESSION_FORKED, /* this process was forked while one was open: its file is made at its first record */
  TG_SESSION_BROKEN, /* that failed: nothing is recorded until it is closed */
};

struct tg__session {
  pthread_mutex_t lock;
  _Atomic uint32_t state;
  uint32_t wanted;
  uint32_t missing;
  uint32_t ran; /* features that were recorded in this recording, now or before a pause */
  char why[240];
  uint64_t id;
  int32_t rank;
  enum tg_record_keep keep;
  char path[4096];
  pid_t process;

  int fd;
  struct tg__raw_process *page; /* payload of the first chunk, mapped; NULL when there is no file */
  uint64_t disk_bytes;          /* the budget */
  uint64_t record_limit;        /* how far chunks of records may reach: the rest is for dictionaries */
  uint64_t size_limit;          /* RLIMIT_FSIZE: beyond it a write is a signal */
  uint32_t chunk_most;
  uint32_t page_bytes; /* chunks are mapped: what they are aligned to in the file */
  _Atomic uint64_t file_end;
  _Atomic uint64_t room; /* changes when it may be worth asking again for room */
  _Atomic uint64_t counts[TG_RAW_COUNTS];
  _Atomic uint32_t threads; /* numbers given */
  _Atomic uint32_t metas;
  _Atomic int disk_error;              /* errno of the last time there was no room on the disk */
  _Atomic uint32_t dictionary_writers; /* writers of dictionaries that are no thread of this session */
  uint64_t last_ticks;                 /* of the clock pair written last */
  int64_t last_wall_ns;
};
extern struct tg__session tg__session;

static inline void tg__session_count(enum tg__raw_count which, uint64_t n) {
  atomic_fetch_add_explicit(&tg__session.counts[which], n, memory_order_relaxed);
}
static inline uint32_t tg__generation_now(void) { return atomic_load_explicit(&tg__generation, memory_order_seq_cst); }
/* In turn with those that open, resume, pause and close; without the GIL. */
enum tg_err tg__session_do(enum tg_err (*act)(uint64_t, struct tg_error *), uint64_t number, struct tg_error *e);
bool tg__session_is_valid(const struct tg__session *s, struct tg_error *e); /* session_valid.c: open or closed */
void tg__exit_close(void); /* at the end of the process: the file, without a word to the sources */
/* Between the two no thread forks this process: around what a child must not find half done. Only short work that waits
 * for no thread: fork() blocks here, and its thread may hold the interpreter's lock. */
void tg__fork_block(void);
void tg__fork_unblock(void);
bool tg__fork_open(void); /* in a forked child, at its first record: a file of its own */

/* ---- threads (thread.c) ---------------------------------------------------------------------- */

/* The owner of a slot, and what is mapped there. */
enum tg__slot_state {
  TG_SLOT_FREE,   /* the thread's to use: nothing of worth is mapped there, or what it writes now */
  TG_SLOT_WANTED, /* the thread asks the helper for a chunk there, and may take that back */
  TG_SLOT_BUSY,   /* the helper's */
  TG_SLOT_READY,  /* a chunk is mapped and zero: the thread's to take */
};
struct tg__slot {
  _Atomic uint32_t state;
  _Atomic uint64_t offset; /* what of the file is mapped there */
  uint32_t bytes, used;    /* its size; what of it holds records, once that is final */
  uint32_t resident;       /* bytes that it holds of the memory budget */
};
struct tg__full { /* a chunk that waits to be sealed */
  struct tg__region region;
  uint32_t count, slot, resident;
};
struct tg__dictionary_entry {
  uint64_t hash;
  const char *text; /* NULL = an empty place */
  uint32_t len, parent, id;
  uint8_t kind;
};
struct tg__dictionary_block { /* texts, one after the other, each with a zero behind it */
  struct tg__dictionary_block *before;
  uint32_t used, cap;
};
struct tg__dictionaries { /* the dictionaries of a thread (dictionary.c) */
  struct tg__dictionary_entry *table;
  uint32_t cap, count;
  struct tg__dictionary_block *text, *stacks; /* of the words; those of stacks apart, so that they can be dropped */
  uint32_t next_id[TG_RAW_D_LABEL + 1];
  uint64_t no_room[2]; /* tg__session.room when there was none; [1]: for stacks */
  /* Where they begin: a thread that has a state has room for some names, whatever the budget says. */
  struct tg__dictionary_entry first_table[TG_FIRST_WORDS];
  union {
    struct tg__dictionary_block block;
    char bytes[TG_FIRST_TEXT];
  } first;
};
struct tg__name_cached {
  const char *pointer, *text; /* the pointer passed, and a copy: it may point to another text later */
  uint32_t id;
};

/* What a thread has used so far; wait_ns: how long it was ready and had no core. */
#define TG_COST_UNKNOWN UINT64_MAX
struct tg__thread_cost {
  uint64_t cpu_ns, wait_ns, preemptions;
  bool is_known;
};
struct tg__thread_private {
  struct tg__thread *next;            /* in the list of all states, which only grows */
  _Atomic uint32_t owned;             /* by a living thread */
  _Atomic uint32_t busy;              /* in a slow path that uses the file */
  _Atomic uint32_t file_generation;   /* of the session that slots and `full` belong to */
  _Atomic uint32_t thread_generation; /* of the session that a living thread records into */
  uint8_t *window;                    /* TG_SLOTS pieces of TG_CHUNK_MOST; NULL = lost in a fork */
  struct tg__slot slot[TG_SLOTS];
  _Atomic int current;                 /* slot it writes; -1 = none */
  _Atomic uint32_t capacity;           /* of that chunk */
  struct tg__raw_record *first, *last; /* its first record and the end of its room */
  _Atomic uint32_t chunk_bytes;        /* of the next chunk */
  uint32_t lost_in_heads;              /* losses that are already in the heads of chunks */
  uint64_t no_room;                    /* tg__session.room when there was none; 0 = there is */
  struct tg__full full[TG_FULL_MAX];
  _Atomic uint32_t full_in, full_out; /* put by the thread, taken by the helper; numbers that only grow */
  uint32_t too_deep;                  /* ranges begun above a full open stack */
  char name[17];                      /* the system's, as last written */
  bool named;                         /* by tg_thread_name */
  int cost_file;                      /* descriptor of its schedstat + 1; 0 = not open, -1 = not to be had */
  struct tg__thread_cost cost;        /* at the last edge of a step */
  uint64_t cost_ticks;                /* when that was, if it was an end */
  struct tg__dictionaries words;
  struct tg__name_cached cache[TG_NAME_CACHE];
};

/* Enter and leave a slow path that uses the file. false: this thread's session is over, touch nothing. */
bool tg__busy_enter(struct tg__thread *t);
void tg__busy_leave(struct tg__thread *t);

struct tg__thread *tg__threads_first(void); /* the list of all states; next in ->more->next */
void tg__threads_forked(void);
/* once: the key with the destructor that runs at the end of a thread. false = no key left. */
bool tg__threads_prepare(void);
void tg__thread_name_of(uint32_t os_thread, const char *name); /* from any thread */
bool tg__thread_recorded(uint32_t os_thread);                  /* anything, in this recording, and it has not ended */
const char *tg__nvtx_thread_name(uint32_t os_thread);          /* nvtx_names.c: that the program chose; NULL = none */
void tg__thread_name_refresh(struct tg__thread *t);            /* write the system's name for it when that is new */

/* thread_cost.c: at the edges of a step, on the thread itself. The end puts into the record what the step used. */
void tg__cost_begin(struct tg__thread *t);
void tg__cost_end(struct tg__thread *t, struct tg__open *step);
void tg__cost_close(struct tg__thread *t); /* the thread at its end, the closing one, a forked child */

/* ---- chunks (chunk.c) ------------------------------------------------------------------------ */

void tg__chunk_leave(struct tg__thread *t);     /* the thread ends: seal its chunk, on the thread itself */
void tg__chunk_seal_full(struct tg__thread *t); /* the helper, or the closing thread */
void tg__chunk_prepare(struct tg__thread *t);   /* the helper: the chunk that the thread asked for */
bool tg__chunk_close(struct tg__thread *t);     /* the closing thread: seal what is open, then as tg__window_scratch */
void tg__chunks_trim(uint64_t generation);      /* after that: cut off what the last chunks did not use */
uint64_t tg__chunk_unsealed(const struct tg__thread *t); /* records not yet in tg__session.counts, about */
/* chunk_slots_valid.c: on the thread itself, in a slow path; asserted where it takes, leaves or retires a chunk. */
bool tg__chunk_slots_are_valid(const struct tg__thread *t, struct tg_error *e);
bool tg__window_reserve(struct tg__thread *t);
/* Nothing of the file is mapped there any more; writes go nowhere. false: the system refused, and everything is as
 * it was. */
bool tg__window_scratch(struct tg__thread *t);
void tg__window_drop(struct tg__thread *t);
void tg__window_reset(struct tg__thread *t); /* its slots are of no session */

/* ---- dictionaries (dictionary.c) ------------------------------------------------------------- */

void tg__dictionaries_clear(struct tg__dictionaries *w);
/* Of a NUL-terminated NAME, with a cache by its address. */
uint32_t tg__name_intern(struct tg__thread *t, const char *name);

/* ---- frames in the file (frame_list.c) ------------------------------------------------------- */

void tg__frames_visit(const struct tg__reader *r, tg_frame_visitor *visit, void *ctx);
void tg__frames_of_file(int fd, tg_frame_visitor *visit, void *ctx);

/* ---- spans of the program (marks.c) ---------------------------------------------------------- */

bool tg__is_mark(const struct tg__open *o); /* a range or step of the program */
/* An entry for what begins now; its name, its fields and then its time are the caller's to set. NULL: too deep. Without
 * `records` it is followed all the same: its end must not end one that is recorded. */
struct tg__open *tg__span_push(struct tg__thread *t, const void *key, uint8_t scope, bool records);
void tg__span_end(const void *key); /* on the calling thread; writes the record */

/* ---- memory (budget.c) ----------------------------------------------------------------------- */

void tg__budget_set(uint64_t bytes);
/* Bytes of resident chunks. `parts`: refused when it would be more than that many quarters of the budget. */
bool tg__budget_take(uint64_t bytes, unsigned parts);
void tg__budget_release(uint64_t bytes);
bool tg__budget_is_short(void); /* more than half of it is used */
void tg__budget_forked(void);   /* chunks were the parent's */
void tg__budget_state(uint64_t *now, uint64_t *peak);

/* ---- the helper thread (helper_thread.c) ----------------------------------------------------- */

bool tg__helper_start(void);
void tg__helper_stop(void); /* and wait for its end */
void tg__helper_wake(void);
void tg__helper_forked(void);
void tg__ticks_hold(void); /* no source's tick runs until … */
void tg__ticks_release(void);

/* ---- sources (sources.c) --------------------------------------------------------------------- */

/* What of `wanted` can be recorded; *why: the first reason something of `now` cannot, else something of `wanted`. */
uint32_t tg__sources_prepare(uint32_t wanted, uint32_t now, struct tg_error *why);
/* Start what serves `features` and does not run yet; what failed is left out of the result. */
uint32_t tg__sources_start(uint32_t features, struct tg_error *why);
void tg__sources_last(void);
void tg__sources_stop(void);
void tg__sources_flush(void);
void tg__sources_tick(void);
void tg__sources_serve(void);
void tg__sources_fork_hold(void);
void tg__sources_fork_release(void);
void tg__sources_forked(void);

#endif
