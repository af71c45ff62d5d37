/* The frames of another thread of this process, without the GIL: they are read as another process would read them. The
 * thread may change them meanwhile, so that they are read twice, and what differs is left out; an invalid address is an
 * error and no fault. */
#include "capture/python_frames.h"

#include <sys/uio.h>
#include <unistd.h>

enum { TRIES = 3 };

bool tg__far_read(const void *from, void *to, size_t len) {
  const struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)len;
}

static const struct tg__frame *innermost(const PyThreadState *state) {
  const void *frame = NULL;
#if !TG_FRAMES_KNOWN
#elif PY_VERSION_HEX < 0x030d0000
  const char *inner = NULL;
  if (tg__far_read(&state->cframe, &inner, sizeof inner))
    if (!tg__far_read(inner + offsetof(_PyCFrame, current_frame), &frame, sizeof frame)) frame = NULL;
#else
  if (!tg__far_read((const char *)state + tg__frame_layout.innermost, &frame, sizeof frame)) frame = NULL;
#endif
  return frame;
}

static void read_frames(const PyThreadState *state, struct tg__far_frames *out) {
  out->count = 0;
  const struct tg__frame *f = innermost(state);
  while (f && out->count < TG_FAR_FRAMES) {
    union {
      char bytes[TG_FRAME_BYTES_MAX];
      const void *aligned;
    } copy;
    if (!tg__far_read(f, copy.bytes, tg__frame_layout.locals)) break;
    const struct tg__frame *const same = (const struct tg__frame *)copy.bytes;
    if (!tg__frame_is_mark(same)) {
      out->items[out->count].at = f;
      out->items[out->count].code = tg__frame_code(same);
      out->items[out->count++].instr = tg__frame_instr(same);
    }
    f = tg__frame_previous(same);
  }
  out->is_complete = !f;
}

bool tg__far_frames_read(const PyThreadState *state, struct tg__far_frames *out) {
  struct tg__far_frames before;
  for (int i = 0; i < TRIES; i++) {
    read_frames(state, &before);
    read_frames(state, out);
    uint32_t same = 0;
    while (same < before.count && same < out->count &&
           before.items[before.count - 1 - same].at == out->items[out->count - 1 - same].at &&
           before.items[before.count - 1 - same].code == out->items[out->count - 1 - same].code)
      same++;
    if (!before.is_complete || !out->is_complete || !same) continue;
    memmove(out->items, out->items + (out->count - same), same * sizeof *out->items);
    out->count = same;
    return true;
  }
  return false;
}

bool tg__far_code_read(const PyCodeObject *code, const void *instr, PyCodeObject *copy) {
#if TG_FRAMES_KNOWN
  if (!tg__far_read(code, copy, sizeof *copy) || Py_TYPE(copy) != &PyCode_Type) return false;
  const char *const first = code->co_code_adaptive;
  return Py_REFCNT(copy) > 0 && Py_REFCNT(copy) < INT32_MAX && (const char *)instr >= first - 2 &&
         (const char *)instr < first + 2 * Py_SIZE(copy);
#else
  return false;
#endif
}
