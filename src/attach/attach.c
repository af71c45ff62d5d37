/* attach: a text for the interpreter of another process, queued, taken back, made harmless. */
#include "attach/attach.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

static size_t page_span(size_t len) { return (len + 4095) & ~(size_t)4095; }

static bool write_to(const struct tg__target *t, uint64_t at, const char *bytes, size_t len) {
  const struct iovec from = {(void *)(uintptr_t)bytes, len}, to = {(void *)(uintptr_t)at, len};
  return process_vm_writev(t->pid, &from, 1, &to, 1, 0) == (ssize_t)len;
}

/* One call, for which the thread is held once: it stands still for as long as one call takes, and never for several. */
static enum tg_err call_once(struct tg__target *t, enum tg__target_symbol function, const uint64_t args[6],
                             uint64_t *result, struct tg_error *e) {
  struct tg__stopped *s = NULL;
  enum tg_err err = tg__stopped_take(t, &s, e);
  if (err) return err;
  err = tg__stopped_call(s, t->address[function], args, result, e);
  const int64_t stopped_ns = tg__stopped_release(s);
  if (stopped_ns > t->stopped_ns) t->stopped_ns = stopped_ns;
  return err;
}

static enum tg_err map_text(struct tg__target *t, const char *text, struct tg_error *e) {
  const size_t len = strlen(text) + 1;
  const uint64_t args[6] = {0, page_span(len), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0};
  uint64_t at = 0;
  const enum tg_err err = call_once(t, TG__TARGET_MMAP, args, &at, e);
  if (err) return err;
  if (!at || at == UINT64_MAX || at % 4096)
    return tg__fail(e, TG_MEMORY, -1, "process %d has no memory left for a page", t->pid);
  t->text = at;
  t->text_bytes = page_span(len);
  return write_to(t, at, text, len)
             ? TG_OK
             : tg__fail(e, TG_IO, -1, "process %d: its memory cannot be written: %s", t->pid, strerror(errno));
}

void tg__attach_forget(struct tg__target *t) {
  const uint64_t args[6] = {t->text, t->text_bytes};
  uint64_t result;
  struct tg_error ignored;
  if (t->text && call_once(t, TG__TARGET_MUNMAP, args, &result, &ignored) == TG_OK) t->text = 0;
}

void tg__attach_cancel(struct tg__target *t) {
  if (t->text) write_to(t, t->text, "0", 2);
}

/* Its answer stays true for as long as the main thread runs Python: the next call comes a millisecond later, and one
 * that is queued in between runs first. */
static enum tg_err check_python(struct tg__target *t, struct tg_error *e) {
  const uint64_t args[6] = {0};
  uint64_t is_initialized = 0;
  const enum tg_err err = call_once(t, TG__TARGET_IS_INITIALIZED, args, &is_initialized, e);
  if (err || (int32_t)is_initialized) return err;
  return tg__fail(e, TG_BUSY, -1, "the Python of process %d does not run yet, or is ending", t->pid);
}

enum tg_err tg__attach_queue(struct tg__target *t, const char *text, struct tg_error *e) {
  uint64_t result = 0;
  enum tg_err err = check_python(t, e);
  if (!err) err = map_text(t, text, e);
  if (err) {
    tg__attach_forget(t);
    return err;
  }
  const uint64_t args[6] = {t->address[TG__TARGET_RUN_STRING], t->text};
  err = call_once(t, TG__TARGET_ADD_PENDING_CALL, args, &result, e);
  if (err) tg__attach_cancel(t); /* it may be on the list all the same */
  if (err || (int32_t)result == 0) return err;
  tg__attach_forget(t);
  return tg__fail(e, TG_BUSY, -1, "the interpreter of process %d has its list of pending calls full: try again",
                  t->pid);
}
