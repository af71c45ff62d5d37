/* Python 3.12 and newer: calls are seen by monitoring events (PEP 669), on every thread. */
#include "capture/python_calls.h"

#if TG_CALLS_MONITORED

enum event { START, RESUME, THROW, RETURN, YIELD, UNWIND, CALL, C_RETURN, C_RAISE, EVENTS };
static const char *const event_names[EVENTS] = {"PY_START",  "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD",
                                                "PY_UNWIND", "CALL",      "C_RETURN", "C_RAISE"};

/* All under the GIL. */
static int tool = -1; /* number in sys.monitoring; -1 = none */
static bool is_on;
static long event_bits[EVENTS];
static PyObject *monitoring, *missing; /* sys.monitoring, and what stands for no argument there */

static const struct tg__frame *frame_here(void) { return tg__frame_innermost(PyThreadState_Get()); }

/* ---- events ---------------------------------------------------------------------------------- */

/* callback(code, offset, …) */
static PyObject *on_begin(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (is_on) tg__call_begin(frame_here());
  Py_RETURN_NONE;
}
static PyObject *on_end(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  if (is_on) tg__call_end(frame_here());
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
  const PyMethodDef *const method = is_on ? c_method(args, n, &bound) : NULL;
  if (method) tg__c_call_begin(frame_here(), method, bound);
  Py_RETURN_NONE;
}
static PyObject *on_c_end(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  PyObject *bound;
  if (is_on && c_method(args, n, &bound)) tg__c_call_end(frame_here());
  Py_RETURN_NONE;
}

static PyMethodDef callbacks[EVENTS] = {
#define CALLBACK(name, function) {"tachograph_" name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}
    CALLBACK("begin", on_begin),  CALLBACK("resume", on_begin),   CALLBACK("throw", on_begin),
    CALLBACK("end", on_end),      CALLBACK("yield", on_end),      CALLBACK("unwind", on_end),
    CALLBACK("call", on_c_begin), CALLBACK("c_return", on_c_end), CALLBACK("c_raise", on_c_end),
#undef CALLBACK
};

/* ---- the tool -------------------------------------------------------------------------------- */

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

/* A free number, a profiler's first; our functions behind it. */
static bool monitor_tool_take(void) {
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

static void monitor_tool_release(void) {
  for (size_t i = 0; i < EVENTS && tool >= 0; i++)
    done(PyObject_CallMethod(monitoring, "register_callback", "ilO", tool, event_bits[i], Py_None));
  if (tool >= 0) done(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool));
  tool = -1;
}

static enum tg_err monitor_tool_ensure(struct tg_error *e) {
  if (!monitoring_find())
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "sys.monitoring of this Python lacks events: calls of Python functions are not recorded");
  if (tool >= 0 || monitor_tool_take()) return TG_OK;
  monitor_tool_release();
  return tg__fail(e, TG_BUSY, -1, "other tools use all of sys.monitoring: calls of Python functions are not recorded");
}

enum tg_err tg__calls_ready(struct tg_error *e) {
  const enum tg_err err = monitor_tool_ensure(e);
  if (!is_on) monitor_tool_release(); /* it was only a question */
  return err;
}

enum tg_err tg__calls_attach(struct tg_error *e) {
  const enum tg_err err = monitor_tool_ensure(e);
  if (err) return err;
  long events = 0;
  for (size_t i = 0; i < EVENTS; i++) events |= event_bits[i];
  is_on = done(PyObject_CallMethod(monitoring, "set_events", "il", tool, events));
  if (is_on) return TG_OK;
  monitor_tool_release();
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "sys.monitoring refused our events: calls of Python functions are not recorded");
}

bool tg__calls_detach(void) {
  is_on = false;
  if (tool >= 0) done(PyObject_CallMethod(monitoring, "set_events", "ii", tool, 0));
  monitor_tool_release();
  return false;
}
bool tg__calls_are_off(void) { return !is_on; }

#endif
