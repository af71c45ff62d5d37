/* session: open, pause, close a recording; what happens to it when the process forks or ends. Implements
 * tachograph/record.h. */
#include "capture/session.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define DEFAULT_MEMORY ((uint64_t)64 << 20)
#define DEFAULT_DISK ((uint64_t)4 << 30)
enum { RESERVE_MOST = 4 << 20, EVERY_FEATURE = 2 * TG_RECORD_CUDA_MEMORY - 1 };

_Atomic bool tg__running;
_Atomic uint32_t tg__features;
struct tg__session tg__session = {.fd = -1, .room = 1};

/* ---- taking turns ---------------------------------------------------------------------------- */

static pthread_mutex_t fork_lock; /* held: this process does not fork */

static void make_locks(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&tg__session.lock, &attributes);
  pthread_mutex_init(&fork_lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

void tg__fork_block(void) { pthread_mutex_lock(&fork_lock); }
void tg__fork_unblock(void) { pthread_mutex_unlock(&fork_lock); }

static void before_fork(void) {
  tg__fork_block();
  tg__sources_fork_hold();
}
static void after_fork(void) {
  tg__sources_fork_release();
  tg__fork_unblock();
}

static void forked(void);
static bool prepared;
static void prepare_once(void) {
  make_locks();
  prepared = tg__threads_prepare() && pthread_atfork(before_fork, after_fork, forked) == 0;
  if (prepared) atexit(tg__exit_close);
  tg__clock_decide();
}

static enum tg_err take_turn(struct tg_error *e) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, prepare_once);
  if (!prepared)
    return tg__fail(e, TG_MEMORY, -1,
                    "no key for the data of threads is left in this process; end some that others use");
  if (pthread_mutex_lock(&tg__session.lock) == 0) return TG_OK;
  return tg__fail(e, TG_BUSY, -1,
                  "the recording was asked to change from within its own start or stop; do it afterwards");
}

static void end_turn(void) { pthread_mutex_unlock(&tg__session.lock); }

static enum tg_err take_turn_open(struct tg_error *e) {
  const enum tg_err err = take_turn(e);
  if (err || atomic_load(&tg__session.state) != TG_SESSION_CLOSED) return err;
  end_turn();
  return tg__fail(e, TG_NOT_RECORDING, -1, "no recording is open; open one with tg_record_open first");
}

enum tg_err tg__session_do(enum tg_err (*act)(uint64_t, struct tg_error *), uint64_t number, struct tg_error *e) {
  enum tg_err err = take_turn(e);
  if (err) return err;
  err = act(number, e);
  end_turn();
  return err;
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum tg_err check_options(const struct tg_record_options *o, struct tg_error *e) {
  if (!o || !o->path || !*o->path)
    return tg__fail(e, TG_USAGE, -1, "a recording needs the path of the file it shall write");
  if (strlen(o->path) > sizeof tg__session.path - 32)
    return tg__fail(e, TG_USAGE, -1, "the path of the recording is too long: %.60s…", o->path);
  if ((o->features | o->required) & ~(uint32_t)EVERY_FEATURE)
    return tg__fail(e, TG_USAGE, -1, "features 0x%x: this build knows no more than 0x%x", o->features | o->required,
                    EVERY_FEATURE);
  if (o->memory_bytes && o->memory_bytes < TG_RECORD_LEAST_MEMORY)
    return tg__fail(e, TG_USAGE, -1, "memory_bytes %llu: recording takes at least %d",
                    (unsigned long long)o->memory_bytes, TG_RECORD_LEAST_MEMORY);
  if (o->disk_bytes && o->disk_bytes < TG_RECORD_LEAST_DISK)
    return tg__fail(e, TG_USAGE, -1, "disk_bytes %llu: a recording takes at least %d",
                    (unsigned long long)o->disk_bytes, TG_RECORD_LEAST_DISK);
  if (o->keep != TG_KEEP_FIRST && o->keep != TG_KEEP_LAST)
    return tg__fail(e, TG_USAGE, -1, "keep is neither first nor last");
  return TG_OK;
}

static uint64_t choose_id(void) {
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id || id == 0)
    id = tg__ticks() ^ (uint64_t)getpid() << 40;
  return id;
}

/* Large chunks are cheaper and small ones fit budgets: at least 16 of the largest must fit both. */
static uint32_t largest_chunk(uint64_t memory, uint64_t disk) {
  uint32_t bytes = TG_CHUNK_MOST;
  while (bytes > TG_CHUNK_LEAST && (bytes > memory / 16 || bytes > disk / 16)) bytes /= 2;
  return bytes;
}

/* New texts need room when the records have used up theirs: with keep-last for as long as it runs. */
static uint64_t reserve_for_texts(uint64_t disk, enum tg_record_keep keep) {
  return keep == TG_KEEP_FIRST && disk / 16 > RESERVE_MOST ? RESERVE_MOST : disk / 16;
}

static void set_options(const struct tg_record_options *o) {
  struct tg__session *const s = &tg__session;
  const uint64_t memory = o->memory_bytes ? o->memory_bytes : DEFAULT_MEMORY;
  s->disk_bytes = o->disk_bytes ? o->disk_bytes : DEFAULT_DISK;
  s->keep = o->keep;
  s->record_limit = s->disk_bytes - reserve_for_texts(s->disk_bytes, o->keep);
  s->chunk_most = largest_chunk(memory, s->disk_bytes);
  s->wanted = o->features | o->required;
  s->ran = 0;
  s->id = o->session ? o->session : choose_id();
  s->rank = o->rank;
  s->process = getpid();
  snprintf(s->path, sizeof s->path, "%s", o->path);
  tg__budget_set(memory);
}

static void clear_counts(void) {
  struct tg__session *const s = &tg__session;
  for (int i = 0; i < TG_RAW_COUNTS; i++) atomic_store(&s->counts[i], 0);
  atomic_store(&s->threads, 0);
  atomic_store(&s->metas, 0);
  atomic_store(&s->disk_error, 0);
  atomic_fetch_add(&s->room, 1);
}

static void set_why(const char *text) {
  snprintf(tg__session.why, sizeof tg__session.why, "%.*s", (int)sizeof tg__session.why - 1, text);
}

/* What can be had of what is wanted; `why` is kept for the caller. now: what was asked for last, 0 = all at once. */
static uint32_t prepare_sources(uint32_t now) {
  struct tg__session *const s = &tg__session;
  struct tg_error why = {0};
  s->missing = s->wanted & ~tg__sources_prepare(s->wanted, now, &why);
  set_why(s->missing ? why.text : "");
  return s->missing;
}

static enum tg_err begin_file(const char *path, struct tg_error *e) {
  const enum tg_err err = tg__recording_create(path, e);
  if (err) return err;
  if (tg__helper_start()) return TG_OK;
  tg__recording_abandon();
  unlink(path);
  return tg__fail(e, TG_MEMORY, -1, "%s: the recorder's own thread could not be started; allow this process one more",
                  path);
}

static enum tg_err open_session(const struct tg_record_options *o, struct tg_error *e) {
  struct tg__session *const s = &tg__session;
  set_options(o);
  clear_counts();
  if (prepare_sources(0) & o->required) return tg__fail(e, TG_UNSUPPORTED, -1, "%s", s->why);
  atomic_store(&tg__features, s->wanted & ~s->missing);
  const enum tg_err err = begin_file(s->path, e);
  if (err) return err;
  atomic_store(&tg__features, 0);
  atomic_store(&s->state, TG_SESSION_OPEN);
  atomic_fetch_add(&tg__generation, 1); /* lowest bit set: threads may enter */
  assert(tg__session_is_valid(s, NULL));
  return TG_OK;
}

enum tg_err tg_record_open(const struct tg_record_options *options, struct tg_error *error) {
  enum tg_err err = check_options(options, error);
  if (!err) err = take_turn(error);
  if (err) return err;
  if (atomic_load(&tg__session.state) != TG_SESSION_CLOSED) {
    err = tg__fail(error, TG_BUSY, -1, "a recording is open already, into %s; close it first", tg__session.path);
  } else {
    err = open_session(options, error);
  }
  end_turn();
  return err;
}

/* ---- running --------------------------------------------------------------------------------- */

static void start_sources(uint32_t features, uint32_t now) {
  struct tg__session *const s = &tg__session;
  struct tg_error why = {0};
  const uint32_t had = tg__sources_start(features, &why);
  atomic_fetch_or(&tg__features, had);
  s->missing |= features & ~had;
  s->ran |= had;
  if (why.text[0] && (!s->why[0] || now & features & ~had)) set_why(why.text);
  if (s->page) s->page->features |= had;
}

enum tg_err tg_record_resume(struct tg_error *error) {
  struct tg__session *const s = &tg__session;
  const enum tg_err err = take_turn_open(error);
  if (err) return err;
  if (s->missing) prepare_sources(0);
  tg__ticks_hold();
  atomic_store(&tg__running, true);
  start_sources(s->wanted & ~s->missing, 0);
  tg__ticks_release();
  end_turn();
  return TG_OK;
}

static void pause_sources(void) {
  tg__ticks_hold();
  /* a child that recorded nothing has no file, and gets none for a sample */
  if (atomic_load(&tg__running) && atomic_load(&tg__session.state) == TG_SESSION_OPEN) tg__sources_last();
  atomic_store(&tg__running, false);
  tg__sources_stop();
  atomic_store(&tg__features, 0);
  tg__ticks_release();
}

enum tg_err tg_record_pause(struct tg_error *error) {
  const enum tg_err err = take_turn_open(error);
  if (err) return err;
  pause_sources();
  end_turn();
  return TG_OK;
}

/* A source selects its functions by everything that is recorded, so all start again. */
enum tg_err tg_record_toggle(uint32_t features, bool on, struct tg_error *error) {
  struct tg__session *const s = &tg__session;
  if (features & ~(uint32_t)EVERY_FEATURE)
    return tg__fail(error, TG_USAGE, -1, "features 0x%x: this build knows no more than 0x%x", features, EVERY_FEATURE);
  const enum tg_err err = take_turn_open(error);
  if (err) return err;
  s->wanted = on ? s->wanted | features : s->wanted & ~features;
  if (on || s->missing) prepare_sources(on ? features : 0);
  if (atomic_load(&tg__running)) {
    tg__ticks_hold();
    tg__sources_stop();
    atomic_store(&tg__features, 0);
    start_sources(s->wanted & ~s->missing, on ? features : 0);
    tg__ticks_release();
  }
  end_turn();
  return TG_OK;
}

enum tg_err tg_record_meta(const char *name, const char *json, struct tg_error *error) {
  struct tg__session *const s = &tg__session;
  if (!name || !json) return tg__fail(error, TG_USAGE, -1, "a member of the document has a name and a value");
  const size_t name_len = strlen(name), len = name_len + 1 + strlen(json);
  enum tg_err err = take_turn_open(error);
  if (err) return err;
  if (atomic_load(&s->state) == TG_SESSION_FORKED) tg__fork_open();
  char *const both = tg__capture_pages(len + 1);
  if (both) {
    memcpy(both, name, name_len + 1);
    memcpy(both + name_len + 1, json, len - name_len - 1);
  }
  if (!both ||
      !tg__dictionary_write(TG_RAW_EVERY_THREAD, TG_RAW_D_META, atomic_fetch_add(&s->metas, 1) + 1, 0, both, len)) {
    err = tg__fail(error, TG_IO, -1,
                   "%s: there was no room for the member \"%.60s\": the disk, or the limit of bytes, is full", s->path,
                   name);
  }
  tg__capture_pages_drop(both, len + 1);
  end_turn();
  return err;
}

enum tg_err tg_record_frames(tg_frame_visitor *visit, void *ctx, struct tg_error *error) {
  const enum tg_err err = take_turn_open(error);
  if (err) return err;
  if (atomic_load(&tg__session.state) == TG_SESSION_OPEN) tg__frames_of_file(tg__session.fd, visit, ctx);
  end_turn();
  return TG_OK;
}

/* ---- state ----------------------------------------------------------------------------------- */

static uint64_t sum(enum tg__raw_count which) {
  const uint32_t generation = tg__generation_now();
  uint64_t n = atomic_load(&tg__session.counts[which]);
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    if (atomic_load(&t->more->thread_generation) == generation) n += atomic_load(&t->counts[which]);
  }
  return n;
}

static void say_disk_error(char *out, size_t room, int error) {
  char text[96] = "";
  snprintf(out, room,
           "the file could not grow any more (%.90s), and what came then is only counted: free some disk space",
           strerror_r(error, text, sizeof text));
}

static void fill_stats(struct tg_record_stats *out) {
  struct tg__session *const s = &tg__session;
  const uint32_t state = atomic_load(&s->state), generation = tg__generation_now();
  *out = (struct tg_record_stats){.open = state != TG_SESSION_CLOSED,
                                  .running = atomic_load(&tg__running),
                                  .features = atomic_load(&tg__features),
                                  .missing = s->missing,
                                  .session = s->id,
                                  .disk_bytes = s->fd >= 0 ? atomic_load(&s->file_end) : 0};
  out->records = sum(TG_RAW_C_RECORDS) - sum(TG_RAW_C_OVERWRITTEN);
  out->lost = sum(TG_RAW_C_NO_ROOM) + sum(TG_RAW_C_TOO_DEEP) + sum(TG_RAW_C_OVERWRITTEN);
  for (struct tg__thread *t = tg__threads_first(); t && state == TG_SESSION_OPEN; t = t->more->next) {
    if (atomic_load(&t->more->file_generation) == generation) out->records += tg__chunk_unsealed(t);
  }
  tg__budget_state(&out->memory_bytes, &out->peak_memory_bytes);
  memcpy(out->why, s->why, sizeof out->why);
  if (!out->why[0] && atomic_load(&s->disk_error))
    say_disk_error(out->why, sizeof out->why, atomic_load(&s->disk_error));
}

void tg_record_state(struct tg_record_stats *stats) {
  *stats = (struct tg_record_stats){0};
  if (take_turn(NULL)) return;
  fill_stats(stats);
  end_turn();
}

/* ---- closing --------------------------------------------------------------------------------- */

/* What the closing thread itself still has open ends here. Other threads' open operations are theirs: they may be
 * changing them at this moment, and reading them would be a guess. */
static void cut_open(void) {
  struct tg__thread *const t = tg__thread_here;
  if (!t || t->generation != tg__generation_now()) return;
  const uint64_t now = tg__ticks();
  while (t->depth) {
    const struct tg__open *const o = &t->open[--t->depth];
    if (o->scope == TG_SCOPE_NOT_RECORDED || !o->key) continue; /* without a key: it ended on another thread */
    if (o->scope == TG_RAW_MODULE && !o->stack) continue;       /* the module is known only at the end of the call */
    tg__record_put(t, o, now, TG_RAW_F_CUT);
    tg__thread_count(t, TG_RAW_C_OPEN_AT_STOP, 1);
  }
}

/* Until no thread is in a slow path: some us. false: one hangs in the file system for seconds. */
static bool wait_until_quiet(void) {
  const struct timespec short_time = {.tv_nsec = 50000};
  int left = 100000;
  while (atomic_load(&tg__session.dictionary_writers) && left-- > 0) nanosleep(&short_time, NULL);
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    while (atomic_load(&t->more->busy) && left-- > 0) nanosleep(&short_time, NULL);
  }
  return left >= 0;
}

static void take_over_counts(struct tg__thread *t, uint32_t generation) {
  if (atomic_load(&t->more->thread_generation) != generation) return;
  for (int i = 0; i < TG_RAW_COUNTS; i++) tg__session_count(i, atomic_exchange(&t->counts[i], 0));
  atomic_store(&t->more->thread_generation, 0);
}

/* No thread comes in from here on; see session.h. */
static void end_generation(uint32_t generation) {
  if (generation & 1) atomic_compare_exchange_strong(&tg__generation, &generation, generation + 1);
}

static void close_file(struct tg_record_stats *stats) {
  struct tg__session *const s = &tg__session;
  const uint32_t generation = tg__generation_now();
  atomic_store(&tg__running, false);
  end_generation(generation);
  const bool is_quiet = wait_until_quiet();
  const bool has_file = atomic_load(&s->state) == TG_SESSION_OPEN;
  tg__helper_stop();
  bool is_unmapped =
      is_quiet; /* what is still mapped somewhere must not be cut off: a late record there would be a fatal signal */
  for (struct tg__thread *t = tg__threads_first(); t && has_file; t = t->more->next) {
    take_over_counts(t, generation);
    if (is_quiet) tg__cost_close(t);
    if (is_quiet && atomic_load(&t->more->file_generation) == generation)
      is_unmapped = tg__chunk_close(t) && is_unmapped;
  }
  if (has_file) {
    if (is_unmapped) tg__chunks_trim(generation);
    tg__recording_close(!is_quiet);
  }
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) atomic_store(&t->more->file_generation, 0);
  tg__regions_forget();
  if (stats) {
    fill_stats(stats);
    stats->disk_bytes = has_file ? atomic_load(&s->file_end) : 0;
    stats->features = s->wanted & ~s->missing;
    stats->open = stats->running = false;
  }
  atomic_store(&tg__features, 0);
  atomic_store(&s->state, TG_SESSION_CLOSED);
  assert(tg__session_is_valid(s, NULL));
}

enum tg_err tg_record_close(struct tg_record_stats *stats, struct tg_error *error) {
  const enum tg_err err = take_turn_open(error);
  if (err) return err;
  pause_sources();
  tg__sources_flush();
  cut_open();
  close_file(stats);
  end_turn();
  return TG_OK;
}

/* Sources are not stopped: what they observe may be half torn down already. Their callbacks find the generation even
 * and do nothing. */
void tg__exit_close(void) {
  if (pthread_mutex_trylock(&tg__session.lock))
    return; /* being changed by another thread: the file is then as after a kill */
  if (atomic_load(&tg__session.state) != TG_SESSION_CLOSED) {
    cut_open();
    close_file(NULL);
  }
  end_turn();
}

/* ---- forking --------------------------------------------------------------------------------- */

/* In the child: one thread, and nothing of the parent's file may be written any more. Its own is made when it
 * records something. */
static void forked(void) {
  struct tg__session *const s = &tg__session;
  const int error = errno;
  tg__sources_fork_release();
  make_locks();
  tg__recording_abandon();
  tg__regions_abandon();
  tg__threads_forked();
  tg__helper_forked();
  tg__budget_forked();
  clear_counts();
  atomic_store(&s->dictionary_writers, 0);
  atomic_fetch_add(&tg__generation, 2);
  if (!(tg__generation_now() & 1)) {
    atomic_store(&s->state, TG_SESSION_CLOSED); /* opening or closing it was not finished */
  } else if (atomic_load(&s->state) != TG_SESSION_CLOSED) {
    atomic_store(&s->state, TG_SESSION_FORKED);
  }
  /* whatever they do now: a thread may have been in one that was stopped already, with its lock */
  tg__sources_forked();
  errno = error;
}

/* run.tacho → run.1234.tacho; and a child of the child from the same stem. */
static void child_path(char *out, size_t room) {
  const size_t len = strlen(tg__session.path);
  const bool has_suffix = len > 6 && strcmp(tg__session.path + len - 6, ".tacho") == 0;
  snprintf(out, room, "%.*s.%d.tacho", (int)(has_suffix ? len - 6 : len), tg__session.path, (int)getpid());
}

static bool open_child_file(void) {
  struct tg__session *const s = &tg__session;
  struct tg_error e;
  char path[sizeof s->path + 32];
  child_path(path, sizeof path);
  s->process = getpid();
  s->rank = -1; /* it belongs to its parent's */
  if (!begin_file(path, &e)) return true;
  set_why(e.text);
  return false;
}

/* One thread makes the file; others that come meanwhile record nothing, which is counted. */
bool tg__fork_open(void) {
  static _Atomic int maker; /* process that makes or made its file */
  struct tg__session *const s = &tg__session;
  int before = atomic_load(&maker);
  atomic_fetch_add(&s->dictionary_writers, 1); /* closing waits for us, or we see that it is closed */
  const uint32_t generation = tg__generation_now();
  if ((generation & 1) && before != getpid() && atomic_compare_exchange_strong(&maker, &before, getpid())) {
    const bool made = open_child_file();
    atomic_store(&s->state, made ? TG_SESSION_OPEN : TG_SESSION_BROKEN);
    if (!made) end_generation(generation);
  }
  atomic_fetch_sub(&s->dictionary_writers, 1);
  return atomic_load(&s->state) == TG_SESSION_OPEN;
}
