/* Python 3.11: calls are seen by a profile function in C, put on every thread. threading.setprofile puts it on
 * threads that start later. */
#include "capture/python_calls.h"

#if !TG_CALLS_MONITORED

static PyObject *before;          /* threading's hook that was there */
static PyObject *thread_function; /* our hook */
static unsigned long began_on;    /* thread id of the thread that attached */
static bool is_on;                /* under the GIL */

static int profile(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg) {
  const struct tg__frame *const f = tg__frame_innermost(PyThreadState_Get());
  switch (what) {
  case PyTrace_CALL:
    tg__call_begin(f);
    break;
  case PyTrace_RETURN:
    tg__call_end(f);
    break;
  case PyTrace_C_CALL:
    if (PyCFunction_Check(arg))
      tg__c_call_begin(f, ((PyCFunctionObject *)arg)->m_ml, ((PyCFunctionObject *)arg)->m_self);
    break;
  case PyTrace_C_RETURN:
  case PyTrace_C_EXCEPTION:
    if (PyCFunction_Check(arg)) tg__c_call_end(f);
    break;
  default:
    break;
  }
  return 0;
}

/* A thread has just begun: threading called sys.setprofile with this, and this is its first event. */
static PyObject *thread_begins(PyObject *self, PyObject *args) {
  PyEval_SetProfile(is_on ? profile : NULL, NULL);
  if (is_on) tg__calls_thread_begins();
  Py_RETURN_NONE;
}

/* threading.setprofile(hook); what was there before, or NULL. */
static PyObject *threading_hook(PyObject *hook) {
  PyObject *const threading = PyImport_ImportModule("threading");
  PyObject *const old = threading ? PyObject_CallMethod(threading, "getprofile", NULL) : NULL;
  PyObject *const done = old ? PyObject_CallMethod(threading, "setprofile", "O", hook) : NULL;
  PyErr_Clear();
  Py_XDECREF(done);
  Py_XDECREF(threading);
  return old;
}

/* Put our function on every thread that has none, or take it off where it is. Is another's in its place, or (on the
 * thread that the recording began on) none? */
static bool all_threads(bool on) {
  bool taken = false;
  for (PyThreadState *s = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); s; s = PyThreadState_Next(s)) {
    const bool ours = s->c_profilefunc == profile;
    taken = taken || (!ours && (s->c_profilefunc || s->thread_id == began_on));
    if (on ? !s->c_profilefunc : ours) _PyEval_SetProfile(s, on ? profile : NULL, NULL);
  }
  PyErr_Clear();
  return taken;
}

enum tg_err tg__calls_ready(struct tg_error *e) {
  const Py_tracefunc there = PyThreadState_Get()->c_profilefunc;
  if (!there || there == profile) return TG_OK;
  return tg__fail(e, TG_BUSY, -1,
                  "another profiler uses sys.setprofile on this thread: calls of Python functions are not recorded");
}

enum tg_err tg__calls_attach(struct tg_error *e) {
  static PyMethodDef hook = {"tachograph_thread_begins", thread_begins, METH_VARARGS, NULL};
  const enum tg_err busy = tg__calls_ready(e);
  if (busy) return busy;
  if (!thread_function) thread_function = PyCFunction_New(&hook, NULL);
  if (!is_on && thread_function) Py_XSETREF(before, threading_hook(thread_function));
  is_on = true;
  began_on = PyThreadState_Get()->thread_id;
  all_threads(true);
  return TG_OK;
}

bool tg__calls_detach(void) {
  if (!is_on) return false;
  is_on = false;
  Py_XDECREF(threading_hook(before ? before : Py_None));
  Py_CLEAR(before);
  return all_threads(false);
}

bool tg__calls_are_off(void) { return !is_on; }

#endif
