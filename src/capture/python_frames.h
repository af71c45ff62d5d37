/* How a frame of the interpreter lies in memory: with python_frames.c the one gate to what Python does not publish.
 *
 * Read without the GIL, by the thread that the frames belong to, from inside a call that it makes: it cannot return
 * from its own frames meanwhile, and a frame owns its code object. Python 3.13 and newer describe their own layout
 * (python_offsets.c); the table below was read off the sources of 3.11 to 3.13. At import python_frames.c walks frames
 * it made itself and compares with Python's own answers, and refuses where they differ. */
#ifndef TG_PYTHON_FRAMES_H
#define TG_PYTHON_FRAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/base.h"

/* 3.10 and older have no such frames, free-threaded Python moves them about. */
#if PY_VERSION_HEX >= 0x030b0000 && !defined(Py_GIL_DISABLED)
#define TG_FRAMES_KNOWN 1
#else
#define TG_FRAMES_KNOWN 0
#endif
#if PY_VERSION_HEX >= 0x030d0000
#define TG_FRAMES_DESCRIBED 1
#else
#define TG_FRAMES_DESCRIBED 0
#endif

struct tg__frame; /* the interpreter's own, never declared */

struct tg__frame_layout { /* offsets in a frame, and of the innermost frame in the thread's state */
  size_t code, previous;
  size_t instr; /* the instruction that runs, or a place between it and the next */
  size_t owner, locals, innermost;
};

#if PY_VERSION_HEX < 0x030c0000
#define TG_FRAMES_TABLE {.code = 32, .previous = 48, .instr = 56, .owner = 69, .locals = 72}
#else /* up to 3.13 */
#define TG_FRAMES_TABLE {.code = 0, .previous = 8, .instr = 56, .owner = 70, .locals = 72, .innermost = 72}
#endif
#if TG_FRAMES_DESCRIBED
extern struct tg__frame_layout tg__frame_layout; /* as found at import */
#else
static const struct tg__frame_layout tg__frame_layout = TG_FRAMES_TABLE;
#endif

enum {
  TG_FRAME_BYTES_MAX = 128, /* none of the offsets is larger */
  TG_FRAME_OWNED_BY_GENERATOR = 1,
  TG_FRAME_OWNED_BY_C = 3, /* owner, from here on, of a frame that only marks where C called Python; 3.11 has none */
};

/* 3.14 and newer keep what a frame's end has to do with an object in the two lowest bits of its address. */
#if PY_VERSION_HEX >= 0x030e0000
#define TG_FRAME_TAG ((uintptr_t)3)
#else
#define TG_FRAME_TAG ((uintptr_t)0)
#endif

static inline const void *tg__frame_word(const struct tg__frame *f, size_t offset) {
  const void *word;
  memcpy(&word, (const char *)f + offset, sizeof word);
  return word;
}
static inline const struct tg__frame *tg__frame_previous(const struct tg__frame *f) {
  return tg__frame_word(f, tg__frame_layout.previous);
}
static inline const void *tg__frame_instr(const struct tg__frame *f) {
  return tg__frame_word(f, tg__frame_layout.instr);
}
static inline char tg__frame_owner(const struct tg__frame *f) { return ((const char *)f)[tg__frame_layout.owner]; }
static inline bool tg__frame_is_mark(const struct tg__frame *f) {
  return PY_VERSION_HEX >= 0x030c0000 && tg__frame_owner(f) >= TG_FRAME_OWNED_BY_C;
}
static inline void *tg__frame_object(const struct tg__frame *f, size_t offset) {
  return (void *)((uintptr_t)tg__frame_word(f, offset) & ~TG_FRAME_TAG);
}
static inline const PyCodeObject *tg__frame_code(const struct tg__frame *f) {
  return tg__frame_object(f, tg__frame_layout.code);
}
/* Not yet in its own code, or the interpreter's helper around an __init__ that was inlined: Python does not show
 * such frames either. */
static inline bool tg__frame_is_hidden(const struct tg__frame *f, const PyCodeObject *code) {
#if TG_FRAMES_KNOWN
  return (const char *)tg__frame_instr(f) < code->co_code_adaptive + 2 * code->_co_firsttraceable &&
         tg__frame_owner(f) != TG_FRAME_OWNED_BY_GENERATOR;
#else
  return false;
#endif
}
static inline PyObject *tg__frame_local(const struct tg__frame *f, size_t i) {
  return tg__frame_object(f, tg__frame_layout.locals + i * sizeof(void *));
}
static inline const struct tg__frame *tg__frame_innermost(const PyThreadState *thread) {
#if !TG_FRAMES_KNOWN
  return NULL;
#elif PY_VERSION_HEX < 0x030d0000
  return (const struct tg__frame *)thread->cframe->current_frame;
#else
  const struct tg__frame *frame;
  memcpy(&frame, (const char *)thread + tg__frame_layout.innermost, sizeof frame);
  return frame;
#endif
}
/* Of the calling thread; NULL when it runs no Python. PyThreadState_Get needs the GIL. */
static inline const struct tg__frame *tg__frame_here(void) {
  const PyThreadState *const thread = PyGILState_GetThisThreadState();
  return TG_LIKELY(thread != NULL) ? tg__frame_innermost(thread) : NULL;
}

/* ---- python_offsets.c ------------------------------------------------------------------------ */

/* The layout as the running interpreter describes it; NULL, or why that cannot be used. */
const char *tg__frames_describe(struct tg__frame_layout *out);

/* ---- python_far_frames.c --------------------------------------------------------------------- */

enum { TG_FAR_FRAMES = 128 };
struct tg__far_frames { /* from the inside out */
  struct {
    const struct tg__frame *at;
    const PyCodeObject *code;
    const void *instr;
  } items[TG_FAR_FRAMES];
  uint32_t count;
  bool is_complete; /* the last is the outermost */
};
/* Memory of this process that may be gone meanwhile. */
bool tg__far_read(const void *from, void *to, size_t len);
/* Outer frames that two readings have alike; the innermost of them may run on meanwhile. false: none, or no end. */
bool tg__far_frames_read(const PyThreadState *state, struct tg__far_frames *out);
/* A copy of a code object that may be freed: one that was has a pointer of the allocator where the count of references
 * was. false: it is no code object, or the instruction is not in it. */
bool tg__far_code_read(const PyCodeObject *code, const void *instr, PyCodeObject *copy);

/* ---- python_frames.c ------------------------------------------------------------------------- */

/* With the GIL, once: do the offsets hold in this process? */
void tg__frames_calibrate(void);
/* NULL when frames can be read, else the reason in one sentence. */
const char *tg__frames_refused(void);
/* Tests, on 3.13: read by the table instead of the interpreter's own description, or by that again. false: this
 * Python has only one of them. */
bool tg__frames_read_by(bool table);
/* Tests only: shift one of the offsets that calibration looks at, so that it must refuse. */
void tg__frames_falsify(const char *offset, int by);

/* Line that the instruction belongs to; the function's first line when it belongs to none. */
int tg__code_line(const PyCodeObject *code, const void *instr);
/* The text of a str as UTF-8 (surrogate halves in three bytes, zero bytes as U+FFFD): bytes written, at most `room`. */
size_t tg__str_text(const PyObject *str, char *out, size_t room);
/* Keep the code object for ever, so that its address means only it. false: it is too late, tens of thousands are
 * kept already. */
bool tg__code_keep(const PyCodeObject *code);

#endif
