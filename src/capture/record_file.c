/* record_file: the file of a recording: made, grown, closed. */
#include "capture/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert((int)TG_RAW_HAS_CALLS == TG_RECORD_CALLS && (int)TG_RAW_HAS_MODULE_SPANS == TG_RECORD_MODULE_SPANS,
               "readers go by these bits");

enum { FIRST_CHUNK_END = TG_GREETING_BYTES + TG_CHUNK_HEAD_BYTES + TG_RAW_PROCESS_BYTES };
_Static_assert(FIRST_CHUNK_END % 8 == 0, "the next chunk begins there");

static enum tg_err fail_errno(struct tg_error *e, const char *path, const char *what) {
  const int error = errno;
  const char *const cure = error == EACCES || error == EPERM || error == EROFS ? "choose a directory you may write to"
                           : error == ENOENT || error == ENOTDIR               ? "make the directory first"
                           : error == ENOSPC || error == EDQUOT ? "free some disk space or choose another place"
                           : error == EMFILE || error == ENFILE
                               ? "close some files or allow this process more of them (ulimit -n)"
                               : "choose another place for it";
  char text[128] = "";
  const char *const reason = strerror_r(error, text, sizeof text);
  const enum tg_err code = error == ENOENT ? TG_NOT_FOUND : error == ENOSPC || error == EDQUOT ? TG_NO_ROOM : TG_IO;
  return tg__fail(e, code, -1, "%s: the recording could not be %s: %s; %s", path, what, reason, cure);
}

/* A file that is there is replaced by a new one and not cut: another process may have it mapped. */
static enum tg_err open_new(const char *path, struct tg_error *e) {
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
    return tg__fail(e, TG_IO, -1, "%s: this is no regular file, and a recording needs one: choose another name", path);
  }
  if (unlink(path) && errno != ENOENT) return fail_errno(e, path, "put in place of the file that is there");
  tg__session.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return tg__session.fd < 0 ? fail_errno(e, path, "created") : TG_OK;
}

static bool write_first_page(void) {
  uint8_t bytes[FIRST_CHUNK_END] = {0};
  tg__greeting_write(bytes);
  tg__chunk_head_write(bytes + TG_GREETING_BYTES, TG_CHUNK_RAW_PROCESS, 0, TG_CHUNK_IN_PLACE, TG_RAW_PROCESS_BYTES, 0);
  return ftruncate(tg__session.fd, tg__session.page_bytes) == 0 &&
         pwrite(tg__session.fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
}

static void fill_process(struct tg__raw_process *p) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  p->session = tg__session.id;
  p->process = (uint32_t)tg__session.process;
  p->parent = (uint32_t)getppid();
  p->rank = tg__session.rank;
  p->features = atomic_load(&tg__features);
  p->start_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  p->ticks = tg__clock_is_counter;
}

static enum tg_err make_file(const char *path, struct tg_error *e) {
  struct tg__session *const s = &tg__session;
  enum tg_err err = open_new(path, e);
  if (err) return err;
  void *page = MAP_FAILED;
  if (write_first_page()) page = mmap(NULL, s->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  if (page == MAP_FAILED) {
    err = fail_errno(e, path, "written");
    close(s->fd);
    s->fd = -1;
    unlink(path);
    return err;
  }
  s->page = (struct tg__raw_process *)((uint8_t *)page + TG_GREETING_BYTES + TG_CHUNK_HEAD_BYTES);
  return TG_OK;
}

/* A child of a fork releases what tg__session names: all that there is, and nothing that is the program's. */
static void release_file(bool keep_number) {
  struct tg__session *const s = &tg__session;
  tg__fork_block();
  if (s->page) munmap((uint8_t *)s->page - TG_GREETING_BYTES - TG_CHUNK_HEAD_BYTES, s->page_bytes);
  if (s->fd >= 0 && !keep_number) close(s->fd);
  s->page = NULL;
  s->fd = -1;
  tg__fork_unblock();
}

enum tg_err tg__recording_create(const char *path, struct tg_error *e) {
  struct tg__session *const s = &tg__session;
  struct rlimit limit;
  s->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
  s->size_limit = getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : limit.rlim_cur;
  if (s->size_limit < s->page_bytes) {
    errno = EFBIG;
    return fail_errno(e, path, "created");
  }
  tg__fork_block();
  const enum tg_err err = make_file(path, e);
  tg__fork_unblock();
  if (err) return err;
  atomic_store(&s->file_end, FIRST_CHUNK_END);
  s->last_ticks = 0;
  s->last_wall_ns = 0;
  fill_process(s->page);
  tg__recording_clock();
  return TG_OK;
}

/* A write that stays within a page is done or not done when the process is killed; one that does not may be half
 * done. */
bool tg__recording_reserve(uint64_t bytes, uint64_t align, uint64_t limit, uint64_t *offset) {
  struct tg__session *const s = &tg__session;
  const uint64_t most = limit < s->size_limit ? limit : s->size_limit, page = s->page_bytes;
  uint64_t end = atomic_load(&s->file_end), start;
  do {
    start = (end + align - 1) / align * align;
    if (bytes <= page && start / page != (start + bytes - 1) / page) start = (start + page - 1) / page * page;
    if (bytes > most || start > most - bytes) {
      if (most < limit) atomic_store(&s->disk_error, EFBIG); /* what the write would say, if it came to it */
      return false;
    }
  } while (!atomic_compare_exchange_weak(&s->file_end, &end, start + bytes));
  *offset = start;
  return true;
}

void tg__recording_clock(void) {
  struct tg__session *const s = &tg__session;
  uint64_t ticks = 0, offset;
  int64_t wall_ns = 0;
  uint8_t bytes[TG_CHUNK_HEAD_BYTES + TG_RAW_CLOCK_BYTES];
  tg__clock_pair(&ticks, &wall_ns);
  if (ticks <= s->last_ticks || wall_ns <= s->last_wall_ns) return; /* the clock was set back: keep to what was */
  if (!tg__recording_reserve(sizeof bytes, 8, s->disk_bytes, &offset)) return;
  uint8_t *const payload = bytes + TG_CHUNK_HEAD_BYTES;
  tg__set64(payload, ticks);
  tg__set64(payload + 8, (uint64_t)wall_ns);
  tg__chunk_head_write(bytes, TG_CHUNK_RAW_CLOCK, 0, 0, TG_RAW_CLOCK_BYTES, tg__checksum(payload, TG_RAW_CLOCK_BYTES));
  if (pwrite(s->fd, bytes, sizeof bytes, (off_t)offset) != (ssize_t)sizeof bytes) return;
  s->last_ticks = ticks;
  s->last_wall_ns = wall_ns;
}

void tg__recording_counts(void) {
  struct tg__session *const s = &tg__session;
  uint64_t sums[TG_RAW_COUNTS], now, peak;
  const uint32_t generation = tg__generation_now();
  for (int i = 0; i < TG_RAW_COUNTS; i++) sums[i] = atomic_load_explicit(&s->counts[i], memory_order_relaxed);
  for (struct tg__thread *t = tg__threads_first(); t; t = t->more->next) {
    if (atomic_load(&t->more->thread_generation) != generation) continue;
    for (int i = 0; i < TG_RAW_COUNTS; i++) sums[i] += atomic_load_explicit(&t->counts[i], memory_order_relaxed);
  }
  tg__budget_state(&now, &peak);
  sums[TG_RAW_C_MEMORY_BYTES] = peak;
  sums[TG_RAW_C_DISK_BYTES] = atomic_load(&s->file_end);
  sums[TG_RAW_C_THREADS] = atomic_load(&s->threads);
  for (int i = 0; i < TG_RAW_COUNTS; i++) s->page->counts[i] = sums[i];
}

void tg__recording_close(bool keep_number) {
  struct tg__session *const s = &tg__session;
  struct timespec now;
  tg__recording_clock();
  tg__recording_counts();
  clock_gettime(CLOCK_REALTIME, &now);
  s->page->features = s->wanted & (~s->missing | s->ran);
  s->page->stop_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  release_file(keep_number);
}

void tg__recording_abandon(void) { release_file(false); }
