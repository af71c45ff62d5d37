/* Python 3.12 and newer: calls are seen by monitoring events (PEP 669), all of them on every thread. Where only calls of modules are wanted,
 * the events are those of one code object, and other functions run as if nothing was there. */
#include "capture/python_calls.h"

#if TG_CALLS_MONITORED

enum event { START, RESUME, THROW, RETURN, YIELD, UNWIND, CALL, C_RETURN, C_RAISE, EVENTS };
static const char *const event_names[EVENTS] = {"PY_START",  "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD",
                                                "PY_UNWIND", "CALL",      "C_RETURN", "C_RAISE"};

/* All under the GIL. */
static int tool = -1; /* number in sys.monitoring; -1 = none */
static bool calls_on, spans_on;
static long event_bits[EVENTS];
static PyObject *monitoring, *missing; /* sys.monitoring, and what stands for no argument there */

static const struct tg__frame *frame_here(void) { return tg__frame_innermost(PyThreadState_Get()); }

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

/* The stack is asked for at the end: by then an operator has often looked, and the frame is found among the innermost links. */
static void span_begin(const struct tg__frame *f) {
  struct tg__thread *const t = tg__thread();
  const struct tg__chain *const c = t ? tg__chain(t) : NULL;
  struct tg__open *const o = c ? tg__open_push(t, f) : NULL;
  if (o) *o = (struct tg__open){.key = f, .seq = c->looks, .scope = TG_RAW_MODULE, .start_ticks = tg__ticks()};
}
static uint32_t span_stack(struct tg__thread *t, const struct tg__frame *f, uint32_t looks_before) {
  const struct tg__chain *const c = tg__chain(t);
  for (uint32_t i = c && c->looks != looks_before ? c->depth : 0; i-- > 0;)
    if (c->links[i].frame == f) return c->links[i].node;
  return tg__stack_of ? tg__stack_of(t) : 0;
}
static void span_end(const struct tg__frame *f) {
  const uint64_t now = tg__ticks();
  struct tg__thread *const t = tg__thread();
  struct tg__open *const o = t ? tg__open_pop(t, f) : NULL;
  if (!o) return;
  o->stack = span_stack(t, f, o->seq);
  o->seq = 0;
  tg__record_put(t, o, now, 0);
}

/* callback(code, offset, …) */
static PyObject *on_begin(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (calls_on)
    tg__call_begin(frame_here());
  else if (spans_on)
    span_begin(frame_here());
  Py_RETURN_NONE;
}
static PyObject *on_end(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (calls_on)
    tg__call_end(frame_here());
  else if (spans_on && args[0] == (const PyObject *)atomic_load_explicit(&tg__module_code, memory_order_relaxed))
    span_end(frame_here());
  Py_RETURN_NONE;
}

/* The C function behind what is called, as sys.setprofile sees them: built-in functions and methods, no classes. */
static const PyMethodDef *c_method(PyObject *const *args, Py_ssize_t n, PyObject **self) {
  if (n < 4) return NULL;
  PyObject *const what = args[2];
  *self = NULL;
  if (PyCFunction_Check(what)) {
    *self = ((PyCFunctionObject *)what)->m_self;
    return ((PyCFunctionObject *)what)->m_ml;
  }
  if (!Py_IS_TYPE(what, &PyMethodDescr_Type)) return NULL;
  if (args[3] != missing) *self = args[3];
  return ((PyMethodDescrObject *)what)->d_method;
}
static PyObject *on_c_begin(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  PyObject *bound;
  const PyMethodDef *const method = calls_on ? c_method(args, n, &bound) : NULL;
  if (method) tg__c_call_begin(frame_here(), method, bound);
  Py_RETURN_NONE;
}
static PyObject *on_c_end(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  PyObject *bound;
  if (calls_on && c_method(args, n, &bound)) tg__c_call_end(frame_here());
  Py_RETURN_NONE;
}

static PyMethodDef callbacks[EVENTS] = {
#define CALLBACK(name, function)                                                                                                           \
  { "tachograph_" name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL }
    CALLBACK("begin", on_begin),  CALLBACK("resume", on_begin),   CALLBACK("throw", on_begin),
    CALLBACK("end", on_end),      CALLBACK("yield", on_end),      CALLBACK("unwind", on_end),
    CALLBACK("call", on_c_begin), CALLBACK("c_return", on_c_end), CALLBACK("c_raise", on_c_end),
#undef CALLBACK
};

/* ---- the tool ------------------------------------------------------------------------------------------------------------------ */

static bool done(PyObject *result) {
  Py_XDECREF(result);
  if (!result) PyErr_Clear();
  return result != NULL;
}

/* sys.monitoring and the bits of its events. */
static bool monitoring_find(void) {
  if (monitoring) return true;
  PyObject *const found = PySys_GetObject("monitoring"); /* borrowed */
  PyObject *const events = found ? PyObject_GetAttrString(found, "events") : NULL;
  bool ok = events && (missing = PyObject_GetAttrString(found, "MISSING"));
  for (size_t i = 0; i < EVENTS && ok; i++) {
    PyObject *const bit = PyObject_GetAttrString(events, event_names[i]);
    event_bits[i] = bit ? PyLong_AsLong(bit) : -1;
    ok = event_bits[i] > 0;
    Py_XDECREF(bit);
  }
  Py_XDECREF(events);
  PyErr_Clear();
  if (ok) monitoring = Py_NewRef(found);
  return ok;
}

/* A number that nobody has, a profiler's first; our functions behind it. */
static bool tool_take(void) {
  static const int numbers[] = {2, 3, 4, 1, 0, 5};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && tool < 0; i++)
    if (done(PyObject_CallMethod(monitoring, "use_tool_id", "is", numbers[i], "tachograph"))) tool = numbers[i];
  bool ok = tool >= 0;
  for (size_t i = 0; i < EVENTS && ok; i++) {
    PyObject *const function = PyCFunction_New(&callbacks[i], NULL);
    ok = function && done(PyObject_CallMethod(monitoring, "register_callback", "ilO", tool, event_bits[i], function));
    Py_XDECREF(function);
  }
  return ok;
}

static void tool_give(void) {
  for (size_t i = 0; i < EVENTS && tool >= 0; i++)
    done(PyObject_CallMethod(monitoring, "register_callback", "ilO", tool, event_bits[i], Py_None));
  if (tool >= 0) done(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool));
  tool = -1;
}

/* Make the events those that are wanted now. PY_UNWIND cannot be had for one code object alone; it is rare. */
static bool events_set(void) {
  PyObject *const code = (PyObject *)(uintptr_t)atomic_load(&tg__module_code);
  long all = 0, local = 0;
  for (size_t i = 0; i < EVENTS && calls_on; i++) all |= event_bits[i];
  if (spans_on && !calls_on) {
    all = event_bits[UNWIND];
    local = event_bits[START] | event_bits[RETURN];
  }
  if (code && !done(PyObject_CallMethod(monitoring, "set_local_events", "iOl", tool, code, local))) return false;
  return done(PyObject_CallMethod(monitoring, "set_events", "il", tool, all));
}

static enum tg_err tool_have(struct tg_error *e) {
  if (!monitoring_find())
    return tg__fail(e, TG_UNSUPPORTED, -1, "sys.monitoring of this Python lacks events: calls of Python functions are not recorded");
  if (tool >= 0 || tool_take()) return TG_OK;
  tool_give();
  return tg__fail(e, TG_BUSY, -1, "other tools use all of sys.monitoring: calls of Python functions are not recorded");
}

enum tg_err tg__calls_ready(struct tg_error *e) {
  const enum tg_err err = tool_have(e);
  if (!calls_on && !spans_on) tool_give(); /* it was only a question */
  return err;
}

static enum tg_err wanted(bool calls, bool spans, struct tg_error *e) {
  const enum tg_err err = calls || spans ? tool_have(e) : TG_OK;
  if (err) return err;
  calls_on = calls;
  spans_on = spans;
  const bool ok = tool < 0 || events_set();
  if (!ok || (!calls && !spans)) tool_give();
  return ok ? TG_OK : tg__fail(e, TG_UNSUPPORTED, -1, "sys.monitoring refused our events: calls of Python functions are not recorded");
}

enum tg_err tg__calls_attach(struct tg_error *e) { return wanted(true, spans_on, e); }
bool tg__calls_detach(void) {
  wanted(false, spans_on, NULL);
  return false;
}
bool tg__calls_are_off(void) { return !calls_on; }

/* ---- spans of modules ----------------------------------------------------------------------------------------------------------- */

static enum tg_err prepare(uint32_t features, struct tg_error *e) {
  if (!(features & TG_RECORD_MODULES)) return tg__fail(e, TG_NO_DATA, -1, "spans of modules need modules to be recorded");
  return tg__stack_prepare(e);
}
static enum tg_err start(uint32_t features, struct tg_error *e) {
  if (!tg__gil_take()) return tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
  const enum tg_err err = wanted(calls_on, true, e);
  tg__gil_give();
  return err;
}
static void stop(void) {
  if (!tg__gil_take()) return;
  wanted(calls_on, false, NULL);
  tg__gil_give();
}
static bool is_off(void) { return !spans_on && (tool < 0 || calls_on); }

#else

static enum tg_err prepare(uint32_t features, struct tg_error *e) {
  if (features & TG_RECORD_CALLS) return TG_OK; /* the calls have them */
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "Python before 3.12 does not tell calls of modules: their spans run from the first to the last operator");
}
static enum tg_err start(uint32_t features, struct tg_error *e) { return TG_OK; }
static void stop(void) {}
static bool is_off(void) { return true; }

#endif

const struct tg__source tg__source_module_spans = {
    .name = "module spans", .features = TG_RECORD_MODULE_SPANS, .prepare = prepare, .start = start, .stop = stop, .is_off = is_off};
