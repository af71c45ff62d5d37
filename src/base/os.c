/* The operating system: files, paths, clock, terminal, threads. POSIX. */
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------------------------- */

struct tg__file {
  int fd;
  bool is_ours; /* standard input is not closed */
  int64_t size; /* when opened; -1 for a pipe */
  char *kept;   /* the bytes read from a pipe, NULL for all other files; then there is no fd */
};

static enum tg_err open_failed(const char *path, struct tg_error *e) {
  const int cause = errno;
  if (cause == ENOENT || cause == ENOTDIR)
    return tg__fail(e, TG_NOT_FOUND, -1, "there is no file '%s': check the path", path);
  return tg__fail(e, TG_IO, -1, "cannot open '%s': %s", path, strerror(cause));
}

static int open_retrying(const char *path, int flags) {
  int fd;
  do
    fd = open(path, flags | O_CLOEXEC | O_NOCTTY,
              0666); /* for what is created: less what the process' umask takes away */
  while (fd < 0 && errno == EINTR);
  return fd;
}

enum tg_err tg__file_open(const char *path, struct tg__file **out, struct tg_error *e) {
  *out = NULL;
  const bool is_stdin = strcmp(path, "-") == 0;
  const int fd = is_stdin ? STDIN_FILENO : open_retrying(path, O_RDONLY);
  if (fd < 0) return open_failed(path, e);
  enum tg_err err = TG_OK;
  struct tg__file *f = NULL;
  struct stat st;
  if (fstat(fd, &st) != 0) {
    err = tg__fail(e, TG_IO, -1, "cannot read '%s': %s", path, strerror(errno));
  } else if (S_ISDIR(st.st_mode)) {
    err = tg__fail(e, TG_IO, -1, "'%s' is a directory, a file is needed here", path);
  } else if (!(f = tg__alloc(sizeof *f))) {
    err = tg__no_memory(e, "opening '%s'", path);
  }
  if (err) {
    if (!is_stdin) close(fd);
    return err;
  }
  *f = (struct tg__file){.fd = fd, .is_ours = !is_stdin, .size = S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1};
#ifdef POSIX_FADV_SEQUENTIAL
  if (f->size > 0) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
  *out = f;
  return TG_OK;
}

enum tg_err tg__file_keep(char *bytes, size_t len, struct tg__file **out, struct tg_error *e) {
  struct tg__file *const f = *out = tg__alloc(sizeof *f);
  if (f) {
    *f = (struct tg__file){.fd = -1, .size = (int64_t)len, .kept = bytes};
    return TG_OK;
  }
  tg__free(bytes);
  return tg__no_memory(e, "keeping what came through a pipe");
}

int64_t tg__file_size(const struct tg__file *f) { return f->size; }

int64_t tg__file_read(struct tg__file *f, void *buf, size_t len) {
  ssize_t n;
  do n = read(f->fd, buf, len);
  while (n < 0 && errno == EINTR);
  return n;
}

/* Reads on until len bytes are there or the file ends: a file that shrinks meanwhile simply ends earlier. */
int64_t tg__file_read_at(struct tg__file *f, void *buf, size_t len, int64_t offset) {
  size_t done = 0;
  if (f->kept) {
    const size_t left = offset < f->size ? (size_t)(f->size - offset) : 0;
    done = len < left ? len : left;
    memcpy(buf, f->kept + f->size - left, done);
    return (int64_t)done;
  }
  while (done < len) {
    const ssize_t n = pread(f->fd, (char *)buf + done, len - done, offset + (int64_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && !done) return -1;
    if (n <= 0) break;
    done += (size_t)n;
  }
  return (int64_t)done;
}

void tg__file_close(struct tg__file *f) {
  if (!f) return;
  if (f->is_ours) close(f->fd);
  tg__free(f->kept);
  tg__free(f);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct tg__writer {
  int fd;
  int cause;    /* errno of the first failed write */
  char *target; /* where it shall land; NULL when written in place (standard output, a device, a pipe) */
  char *temp;
  char *shown; /* the name for messages */
};

static void writer_free(struct tg__writer *w) {
  if (!w) return;
  if (w->fd > STDERR_FILENO) close(w->fd);
  tg__free(w->target);
  tg__free(w->temp);
  tg__free(w->shown);
  tg__free(w);
}

static char *join(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b);
  char *text = tg__alloc(n + m + 1);
  if (!text) return NULL;
  memcpy(text, a, n);
  memcpy(text + n, b, m);
  return text;
}

/* A new file; random letters replace the X's of its name: what is there already is never opened and no
 * link followed. Not mkstemp: the umask, which an ordinary file's permissions depend on, can only be read by
 * changing it for all threads. */
static int create_named(char *path) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  enum { TRIES = 100, LETTERS = 6 };
  uint64_t seed = (uint64_t)tg__clock_ns() ^ (uint64_t)getpid() << 40;
  char *const end = path + strlen(path);
  int fd = -1;
  for (int i = 0; i < TRIES; i++) {
    uint64_t left = seed = tg__hash(&seed, sizeof seed);
    for (char *p = end - LETTERS; p < end; p++, left /= sizeof letters - 1) *p = letters[left % (sizeof letters - 1)];
    fd = open_retrying(path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd >= 0 || errno != EEXIST) break;
  }
  return fd;
}

/* A temporary file beside the target, with its permissions where it is there. */
static enum tg_err open_temp(struct tg__writer *w, const char *path, struct tg_error *e) {
  char real[PATH_MAX]; /* a link stays a link; the file behind it is replaced */
  w->target = join(realpath(path, real) ? real : path, "");
  w->temp = w->target ? join(w->target, ".part-XXXXXX") : NULL;
  if (!w->temp) return tg__no_memory(e, "creating '%s'", path);
  w->fd = create_named(w->temp);
  if (w->fd < 0) return tg__fail(e, TG_IO, -1, "cannot create '%s': %s", path, strerror(errno));
  struct stat old;
  if (stat(w->target, &old) == 0) (void)fchmod(w->fd, old.st_mode & 0777);
  return TG_OK;
}

enum tg_err tg__writer_open(const char *path, struct tg__writer **out, struct tg_error *e) {
  *out = NULL;
  struct tg__writer *w = tg__alloc(sizeof *w);
  if (w) w->shown = join(strcmp(path, "-") == 0 ? "standard output" : path, "");
  if (!w || !w->shown) {
    writer_free(w);
    return tg__no_memory(e, "creating '%s'", path);
  }
  w->fd = -1;
  enum tg_err err = TG_OK;
  const enum tg__path_kind kind = tg__path_kind(path);
  if (strcmp(path, "-") == 0) {
    w->fd = STDOUT_FILENO;
  } else if (kind == TG__PATH_DIR) {
    err = tg__fail(e, TG_IO, -1, "cannot write to '%s': it is a directory", path);
  } else if (kind == TG__PATH_OTHER) {
    w->fd = open_retrying(path, O_WRONLY);
    if (w->fd < 0) err = open_failed(path, e);
  } else {
    err = open_temp(w, path, e);
  }
  if (err)
    writer_free(w);
  else
    *out = w;
  return err;
}

bool tg__writer_write(void *writer, const char *bytes, size_t len) {
  struct tg__writer *w = writer;
  while (len) {
    const ssize_t n = write(w->fd, bytes, len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (!w->cause) w->cause = errno;
      return false;
    }
    bytes += n;
    len -= (size_t)n;
  }
  return true;
}

enum tg_err tg__writer_commit(struct tg__writer *w, struct tg_error *e) {
  enum tg_err err = TG_OK;
  int cause = w->cause;
  if (w->target) {
    if (close(w->fd) != 0 && !cause) cause = errno;
    w->fd = -1;
    if (!cause && rename(w->temp, w->target) != 0) cause = errno;
    if (cause) unlink(w->temp);
  }
  if (cause) err = tg__fail(e, TG_IO, -1, "cannot write to %s: %s", w->shown, strerror(cause));
  writer_free(w);
  return err;
}

int tg__writer_error(const struct tg__writer *w) { return w->cause; }

void tg__writer_abandon(struct tg__writer *w) {
  if (w && w->temp) unlink(w->temp);
  writer_free(w);
}

/* ---- paths ----------------------------------------------------------------------------------- */

enum tg__path_kind tg__path_kind(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return TG__PATH_NONE;
  return S_ISREG(st.st_mode) ? TG__PATH_FILE : S_ISDIR(st.st_mode) ? TG__PATH_DIR : TG__PATH_OTHER;
}

bool tg__path_is_of_many(const char *path) {
  const enum tg__path_kind kind = tg__path_kind(path);
  return kind == TG__PATH_DIR || (kind == TG__PATH_NONE && strpbrk(path, "*?["));
}

struct names {
  struct tg__arena *arena;
  const char **items;
  size_t count, cap;
};

static bool add_name(struct names *list, const char *dir, const char *name) {
  const size_t dir_len = strlen(dir), name_len = strlen(name);
  const bool slash = dir_len && dir[dir_len - 1] != '/';
  char *path = tg__arena_get(list->arena, dir_len + slash + name_len + 1);
  if (!path) return false;
  memcpy(path, dir, dir_len);
  if (slash) path[dir_len] = '/';
  memcpy(path + dir_len + slash, name, name_len + 1);
  if (tg__path_kind(path) != TG__PATH_FILE) return true;
  void *items = list->items;
  if (!tg__grow(&items, &list->cap, list->count + 1, sizeof *list->items)) return false;
  list->items = items;
  list->items[list->count++] = path;
  return true;
}

static enum tg_err list_directory(struct names *list, const char *dir, struct tg_error *e) {
  DIR *d = opendir(dir);
  if (!d) return open_failed(dir, e);
  bool ok = true;
  for (const struct dirent *entry; ok && (entry = readdir(d));) {
    if (entry->d_name[0] != '.') ok = add_name(list, dir, entry->d_name);
  }
  closedir(d);
  return ok ? TG_OK : tg__no_memory(e, "listing '%s'", dir);
}

static enum tg_err list_glob(struct names *list, const char *pattern, struct tg_error *e) {
  glob_t found = {0};
  const int result = glob(pattern, GLOB_NOSORT, NULL, &found);
  bool ok = result == 0 || result == GLOB_NOMATCH;
  for (size_t i = 0; ok && result == 0 && i < found.gl_pathc; i++) ok = add_name(list, "", found.gl_pathv[i]);
  globfree(&found);
  if (!ok) return tg__no_memory(e, "listing '%s'", pattern);
  return list->count ? TG_OK : tg__fail(e, TG_NOT_FOUND, -1, "there is no file '%s': check the path", pattern);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

enum tg_err tg__path_list(const char *dir_or_glob, struct tg__arena *a, const char ***names, size_t *count,
                          struct tg_error *e) {
  struct names list = {.arena = a};
  *names = NULL;
  *count = 0;
  enum tg_err err = tg__path_kind(dir_or_glob) == TG__PATH_DIR ? list_directory(&list, dir_or_glob, e)
                                                               : list_glob(&list, dir_or_glob, e);
  if (!err && list.count) {
    qsort(list.items, list.count, sizeof *list.items, by_bytes);
    *names = tg__arena_get(a, list.count * sizeof **names);
    if (*names) {
      memcpy(*names, list.items, list.count * sizeof **names);
      *count = list.count;
    } else {
      err = tg__no_memory(e, "listing '%s'", dir_or_glob);
    }
  }
  tg__free(list.items);
  return err;
}

/* ---- clock, machine, terminal ---------------------------------------------------------------- */

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
int64_t tg__clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }
int64_t tg__cpu_used_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
int64_t tg__thread_used_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

/* Cores a container's quota pays for (cgroup v2), 0 when there is no quota. More threads than that only get
 * throttled. */
static unsigned quota_cores(void) {
  long long quota, period;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!f) return 0;
  const int fields = fscanf(f, "%lld %lld", &quota, &period);
  fclose(f);
  if (fields != 2 || quota <= 0 || period <= 0) return 0;
  return (unsigned)((quota + period - 1) / period);
}

unsigned tg__cpu_count(void) {
  unsigned cores = 0;
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = (unsigned)CPU_COUNT(&set);
#endif
  if (!cores) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    cores = online > 0 ? (unsigned)online : 1;
  }
  const unsigned quota = quota_cores();
  return quota && quota < cores ? quota : cores;
}

#ifdef __linux__
/* The first of the threads of a core, by one of them; -1 where the system does not say. */
static int first_sibling(int cpu) {
  char path[96];
  int first = -1;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *const f = fopen(path, "re");
  if (f && fscanf(f, "%d", &first) != 1) first = -1;
  if (f) fclose(f);
  return first;
}
#endif

unsigned tg__core_count(void) {
  const unsigned cpus = tg__cpu_count();
  unsigned cores = 0;
#ifdef __linux__
  cpu_set_t set, seen;
  CPU_ZERO(&seen);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    const int core = CPU_ISSET(i, &set) ? first_sibling(i) : -1;
    if (core < 0 || core >= CPU_SETSIZE || CPU_ISSET(core, &seen)) continue;
    CPU_SET(core, &seen);
    cores++;
  }
#endif
  return cores && cores < cpus ? cores : cpus;
}

bool tg__is_terminal(int fd) { return isatty(fd) == 1; }

unsigned tg__terminal_width(int fd) {
  struct winsize size;
  return isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

const char *tg__getenv(const char *name) { return getenv(name); }

/* ---- threads --------------------------------------------------------------------------------- */

struct tg__lock {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
};

struct tg__lock *tg__lock_new(void) {
  struct tg__lock *l = tg__alloc(sizeof *l);
  if (!l) return NULL;
  pthread_mutex_init(&l->mutex, NULL);
  pthread_cond_init(&l->changed, NULL);
  return l;
}

void tg__lock_free(struct tg__lock *l) {
  if (!l) return;
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->mutex);
  tg__free(l);
}

void tg__lock_take(struct tg__lock *l) { pthread_mutex_lock(&l->mutex); }
void tg__lock_drop(struct tg__lock *l) { pthread_mutex_unlock(&l->mutex); }
void tg__lock_wait(struct tg__lock *l) { pthread_cond_wait(&l->changed, &l->mutex); }
void tg__lock_wait_for(struct tg__lock *l, int64_t ns) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  const int64_t at = until.tv_nsec + ns;
  until.tv_sec += (time_t)(at / 1000000000);
  until.tv_nsec = (long)(at % 1000000000);
  pthread_cond_timedwait(&l->changed, &l->mutex, &until);
}
void tg__lock_wake(struct tg__lock *l) { pthread_cond_broadcast(&l->changed); }

struct tg__beat {
  struct tg__lock *lock;
  pthread_t thread;
  bool stop; /* under the lock */
  int64_t every_ns;
  void (*body)(void *ctx);
  void *ctx;
};

static void *beat_until_stopped(void *arg) {
  struct tg__beat *const b = arg;
  int64_t next = tg__clock_ns() + b->every_ns;
  tg__lock_take(b->lock);
  while (!b->stop) {
    const int64_t now = tg__clock_ns();
    if (now < next) {
      tg__lock_wait_for(b->lock, next - now);
      continue;
    }
    next = now + b->every_ns;
    b->body(b->ctx);
  }
  tg__lock_drop(b->lock);
  return NULL;
}

struct tg__beat *tg__beat_start(int64_t every_ns, void (*body)(void *ctx), void *ctx) {
  struct tg__beat *const b = tg__alloc(sizeof *b);
  if (!b) return NULL;
  *b = (struct tg__beat){.lock = tg__lock_new(), .every_ns = every_ns, .body = body, .ctx = ctx};
  if (b->lock && pthread_create(&b->thread, NULL, beat_until_stopped, b) == 0) return b;
  tg__lock_free(b->lock);
  tg__free(b);
  return NULL;
}

void tg__beat_stop(struct tg__beat *b) {
  if (!b) return;
  tg__lock_take(b->lock);
  b->stop = true;
  tg__lock_wake(b->lock);
  tg__lock_drop(b->lock);
  pthread_join(b->thread, NULL);
  tg__lock_free(b->lock);
  tg__free(b);
}

struct work {
  void (*body)(void *ctx, size_t i);
  void *ctx;
  size_t count;
  atomic_size_t next;
};

static void *work_on(void *arg) {
  struct work *w = arg;
  for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) w->body(w->ctx, i);
  return NULL;
}

unsigned tg__threads_worth(size_t bytes, unsigned most) {
  enum { BYTES_PER_THREAD = 256 << 10 };
  return bytes / BYTES_PER_THREAD < most ? 1 + (unsigned)(bytes / BYTES_PER_THREAD) : most;
}

void tg__threads_run(unsigned threads, size_t count, void (*body)(void *ctx, size_t i), void *ctx) {
  enum { MOST = 255 };
  struct work w = {.body = body, .ctx = ctx, .count = count};
  pthread_t helpers[MOST];
  unsigned started = 0;
  while (started < MOST && started + 1 < threads && started + 1 < count &&
         pthread_create(&helpers[started], NULL, work_on, &w) == 0) {
    started++;
  }
  work_on(&w);
  while (started) pthread_join(helpers[--started], NULL);
}
