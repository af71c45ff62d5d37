/* The layout of frames as the interpreter itself describes it: _PyRuntime begins with a table of offsets for debuggers,
 * 3.13 and newer. Its own layout differs from one minor version to the next and is taken from the headers of the
 * version that this file is built for. */
#define Py_BUILD_CORE 1 /* for the headers; nothing else of them is used */
#include "capture/python_frames.h"

#include <dlfcn.h>

#if TG_FRAMES_DESCRIBED && TG_FRAMES_KNOWN

#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_debug_offsets.h>
#else
#include <internal/pycore_runtime.h>
#endif

static bool offset_take(size_t *to, uint64_t offset, size_t most) {
  *to = (size_t)offset;
  return offset <= most;
}

const char *tg__frames_describe(struct tg__frame_layout *out) {
  const struct _Py_DebugOffsets *const d = dlsym(RTLD_DEFAULT, "_PyRuntime");
  if (!d || memcmp(d->cookie, _Py_Debug_Cookie, sizeof d->cookie) != 0) return "there is no such description";
  if (d->version >> 16 != PY_VERSION_HEX >> 16) return "the description is of another version";
  if (d->free_threaded) return "the description is of a free-threaded Python";
  const size_t most = TG_FRAME_BYTES_MAX - sizeof(void *);
  const bool fits = offset_take(&out->code, d->interpreter_frame.executable, most) &&
                    offset_take(&out->previous, d->interpreter_frame.previous, most) &&
                    offset_take(&out->instr, d->interpreter_frame.instr_ptr, most) &&
                    offset_take(&out->owner, d->interpreter_frame.owner, most) &&
                    offset_take(&out->locals, d->interpreter_frame.localsplus, most) &&
                    offset_take(&out->innermost, d->thread_state.current_frame, sizeof(PyThreadState) - sizeof(void *));
  return fits ? NULL : "the description has offsets that are too large";
}

#endif
