/* Shared by the python_*.c files of the capture side. Everything here is called with the GIL. */
#ifndef TG_PYTHON_API_H
#define TG_PYTHON_API_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/capture.h"

/* ---- registration (python_api.c) ------------------------------------------------------------- */

bool tg__python_is_alive(void);        /* the GIL can be taken */
bool tg__python_fast_is_off(void);     /* python_fast.c: torch has its own fast annotations */
bool tg__python_labels_are_ours(void); /* python_types.c: record_function makes our labels */

/* Adds what a file has for Python to the module, and its source to those of recordings. false with an exception set. */
typedef bool tg__python_register(PyObject *module);
tg__python_register tg__python_types_register;   /* python_types.c: record_function */
tg__python_register tg__python_fast_register;    /* python_fast.c: RecordFunctionFast */
tg__python_register tg__python_kernels_register; /* python_kernels.c: compiled kernels */
tg__python_register tg__python_gc_register;      /* python_gc.c: pauses of the garbage collector */
/* python_torch.c: what runs the operations that torch is understood by. */
tg__python_register tg__python_torch_register;
tg__python_register tg__python_stack_register;   /* python_stack.c: the stack of each operator */
tg__python_register tg__python_modules_register; /* python_modules.c */
tg__python_register tg__python_calls_register;   /* python_calls.c: every call */
tg__python_register tg__python_samples_register; /* python_samples.c: long stretches without an operator */
tg__python_register tg__python_watch_register;   /* python_look.c: where a thread is, for tachograph watch */
tg__python_register tg__python_delay_register;   /* python_delay.c: operators that begin later */
tg__python_register tg__python_kept_register;    /* python_kept.c: nodes of CUDA graphs */
bool tg__python_watch_is_off(void);

/* ---- names (python_names.c) ------------------------------------------------------------------ */

/* Of the calling thread, in own[TG_SLOT_PYTHON_NAMES]. A str that is seen again is known by its address: the cache
 * keeps it alive. */
enum { TG_PYTHON_NAMES = 256 };
struct tg__python_names {
  struct {
    PyObject *text;
    uint32_t id;
  } known[TG_PYTHON_NAMES];
  uint32_t orphans; /* entries of the thread's open stack that ended on another thread and have no key any more */
};
/* The thread's cache, made at first use and emptied for each session; NULL when there is no room. */
struct tg__python_names *tg__python_names_slow(struct tg__thread *t);
static inline struct tg__python_names *tg__python_names(struct tg__thread *t) {
  struct tg__python_names *const n = t->own[TG_SLOT_PYTHON_NAMES];
  return TG_LIKELY(n && t->own_generation[TG_SLOT_PYTHON_NAMES] == t->generation) ? n : tg__python_names_slow(t);
}
/* Number of a str in the thread's NAME dictionary; 0 = no room. Never raises. */
uint32_t tg__python_name_slow(struct tg__thread *t, PyObject *text);
static inline size_t tg__python_name_place(const PyObject *text) {
  return (size_t)(((uintptr_t)text >> 4) * 0x9e3779b97f4a7c15u >> 56) % TG_PYTHON_NAMES;
}
static inline uint32_t tg__python_name(struct tg__thread *t, PyObject *text) {
  const struct tg__python_names *const n = tg__python_names(t);
  const size_t at = tg__python_name_place(text);
  return TG_LIKELY(n && n->known[at].text == text) ? n->known[at].id : tg__python_name_slow(t, text);
}
/* The bytes of a str, also of one with surrogates; *owner must be dropped after use. Never raises; NULL on no
 * memory. */
const char *tg__python_text(PyObject *text, size_t *len, PyObject **owner);

/* ---- inputs (python_inputs.c) ---------------------------------------------------------------- */

/* Number of a SHAPE entry made from Python values; 0 = none, or no room. values: sequence or NULL; keywords: dict or
 * NULL. Never raises. */
uint32_t tg__python_inputs(struct tg__thread *t, PyObject *values, PyObject *keywords);

/* ---- spans (python_span.c) ------------------------------------------------------------------- */

/* A span that Python code begins and ends, perhaps on another thread, perhaps out of order. Zeroed = not begun. Its
 * address is the key on the open stack. */
struct tg__python_span {
  struct tg__thread *thread; /* where it began; NULL = it is not being recorded */
  uint64_t start_ticks;
  uint32_t generation, number; /* of `thread` at that time: its state may become another's */
  uint32_t name, shape, stack; /* in its dictionaries */
  uint16_t place;              /* on its open stack, or below when others left it */
  uint16_t begun;              /* how often it was begun and not ended: an object can be entered again */
  uint8_t scope;
};
extern const struct tg__source tg__source_spans;
void tg__python_span_begin_now(struct tg__python_span *s, PyObject *name, uint8_t scope, PyObject *values,
                               PyObject *keywords);
static inline void tg__python_span_begin(struct tg__python_span *s, PyObject *name, uint8_t scope, PyObject *values,
                                         PyObject *keywords) {
  if (TG_UNLIKELY(atomic_load_explicit(&tg__running, memory_order_relaxed)))
    tg__python_span_begin_now(s, name, scope, values, keywords);
}
void tg__python_span_end_now(struct tg__python_span *s, PyObject *name);
static inline void tg__python_span_end(struct tg__python_span *s, PyObject *name) {
  if (TG_UNLIKELY(s->thread != NULL)) tg__python_span_end_now(s, name);
}
/* Take it off the open stack but keep it begun: it will end later, anywhere. */
void tg__python_span_detach(struct tg__python_span *s);
/* Its object goes away without an end: nothing is recorded. */
void tg__python_span_forget(struct tg__python_span *s);

#endif
