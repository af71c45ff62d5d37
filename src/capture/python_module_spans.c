/* Calls of modules as records from their begin to their end.
 *
 * Every call of a module goes through one Python function, nn.Module's, and whoever calls a function from C, as a
 * call of any object with a __call__ does, goes through a pointer in the function object: its vectorcall. While
 * spans are recorded that pointer is ours. The function, its code and the class stay as they are, so that code that
 * compares them (torch.compile does) sees no change, and other functions run as if nothing was there. Python 3.11 calls
 * a plain function from Python without a look at the pointer: there super().__call__(x) in a class of the program's own
 * has no span. */
#include "capture/python_stack.h"

/* All under the GIL. */
static PyFunctionObject *function; /* its pointer is ours, or was at the last check; a reference */
static vectorcallfunc original;    /* what was there */
static bool is_installed, is_on;

/* ---- a call ---------------------------------------------------------------------------------- */

struct span {
  struct tg__thread *thread;
  struct tg__chain *chain;
  const void *key;
  uint32_t generation, looks;
};

/* Addresses that nothing has. Not the span's own: a program that switches between stacks of C puts several at one
 * place. */
static const void *span_key(struct tg__chain *c) { return (const void *)~(uintptr_t)++c->spans; }

/* What an open entry knows of its module, where a record has its sequence number. */
static uint32_t self_mark(const void *self) { return (uint32_t)((uintptr_t)self >> 4); }

static inline bool span_begin(struct span *s, const void *self) {
  struct tg__thread *const t = tg__thread();
  struct tg__chain *const c = t ? tg__chain(t) : NULL;
  if (TG_UNLIKELY(!c)) return false;
  *s = (struct span){t, c, span_key(c), t->generation, c->looks};
  struct tg__open *const o = tg__open_push(t, s->key);
  if (TG_UNLIKELY(!o)) return false;
  *o = (struct tg__open){.key = s->key, .seq = self_mark(self), .scope = TG_RAW_MODULE};
  o->start_ticks = tg__ticks(); /* last: what came before is not the call's time */
  return true;
}

/* The stack is asked for at the end: an operator has mostly looked by then. */
static inline uint32_t span_stack(const struct span *s, const void *self) {
  const struct tg__link *const seen = s->chain->looks != s->looks ? tg__module_link(s->chain, self) : NULL;
  return TG_LIKELY(seen != NULL) ? seen->node : tg__module_node(s->thread, s->chain, self);
}

static inline void span_end(const struct span *s, const void *self) {
  const uint64_t now = tg__ticks();
  struct tg__thread *const t = s->thread;
  const uint32_t generation = atomic_load_explicit(&tg__generation, memory_order_relaxed);
  if (TG_UNLIKELY(generation != s->generation || t != tg__thread_here))
    return; /* that recording is over, or this is a fork's child */
  struct tg__open *const o = tg__open_pop(t, s->key);
  if (TG_UNLIKELY(!o)) return;
  o->seq = 0;
  o->stack = span_stack(s, self);
  if (TG_LIKELY(o->stack)) tg__record_put(t, o, now, 0);
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
  struct span s;
  const bool begun = is_on && PyVectorcall_NARGS(nargsf) && span_begin(&s, args[0]);
  PyObject *const result = original(callable, args, nargsf, names);
  if (begun) span_end(&s, args[0]);
  return result;
}

/* ---- the pointer ----------------------------------------------------------------------------- */

static void pointer_set(vectorcallfunc to) {
#if PY_VERSION_HEX >= 0x030c0000
  PyFunction_SetVectorcall(function, to); /* and no instruction that was made for this function goes past it */
#else
  function->vectorcall = to;
#endif
}

/* Ours, or another's that lies upon ours and calls it: that could not be taken away. */
static bool is_there(void) { return is_installed && function->vectorcall != original; }

static bool install(void) {
  if (is_there()) return true;
  Py_XSETREF(function, (PyFunctionObject *)tg__module_function());
  if (!function) return false;
  original = function->vectorcall;
  pointer_set(call);
  return is_installed = true;
}

static void remove_ours(void) {
  if (!is_installed || function->vectorcall != call) return;
  pointer_set(original);
  is_installed = false;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* The file may be closed before the calls that this thread is in have ended, and they are cut then. */
static void open_calls_name(void) {
  struct tg__thread *const t = tg__thread();
  struct tg__chain *const c = t ? tg__chain(t) : NULL;
  if (!c || !tg__chain_look(t, c)) return;
  uint32_t left = c->depth;
  for (uint32_t i = t->depth; i-- > 0;) {
    struct tg__open *const o = &t->open[i];
    if (o->scope != TG_RAW_MODULE || o->stack) continue;
    uint32_t at = left;
    while (at && (!c->links[at - 1].self || self_mark(c->links[at - 1].self) != o->seq)) at--;
    if (!at) continue;
    left = at - 1;
    o->stack = c->links[left].node;
  }
}

static enum tg_err prepare_module_spans(uint32_t features, struct tg_error *e) {
  if (!(features & TG_RECORD_MODULES))
    return tg__fail(e, TG_NO_DATA, -1, "spans of modules need modules to be recorded");
  return tg__stack_prepare(e);
}

static enum tg_err start_module_spans(uint32_t features, struct tg_error *e) {
  if (features & TG_RECORD_CALLS) return TG_OK; /* calls of all functions have them */
  if (!tg__gil_take()) return tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
  is_on = install();
  tg__gil_release();
  return is_on ? TG_OK : tg__fail(e, TG_NO_DATA, -1, "torch.nn is not loaded");
}

static void stop_module_spans(void) {
  if (!is_on || !tg__gil_take()) return;
  open_calls_name();
  is_on = false;
  remove_ours();
  tg__gil_release();
}

static bool is_off(void) { return !is_there(); }

const struct tg__source tg__source_module_spans = {.name = "module spans",
                                                   .features = TG_RECORD_MODULE_SPANS,
                                                   .prepare = prepare_module_spans,
                                                   .start = start_module_spans,
                                                   .stop = stop_module_spans,
                                                   .is_off = is_off};
