/* capture: pauses of Python's garbage collector, from gc.callbacks. The list holds our function only while it
 * records. */
#include "capture/python_api.h"

static struct {
  PyObject *callback;   /* the function in gc.callbacks */
  PyObject *name;       /* "Python GC" */
  uint64_t start_ticks; /* of the collection that is on; the collector runs on one thread at a time */
  _Atomic bool is_on;
} collector;

static uint32_t number_of(PyObject *info, const char *what) {
  PyObject *const value = PyDict_Check(info) ? PyDict_GetItemString(info, what) : NULL;
  return value && PyLong_Check(value) ? (uint32_t)PyLong_AsLong(value) : 0;
}

/* gc_event("start" or "stop", {"generation": 2, "collected": 0, "uncollectable": 0}) */
static PyObject *gc_event(PyObject *self, PyObject *const *args, Py_ssize_t n) {
  const uint64_t now = tg__ticks();
  const bool is_start = n == 2 && PyUnicode_Check(args[0]) && PyUnicode_CompareWithASCIIString(args[0], "start") == 0;
  if (n != 2 || is_start) {
    collector.start_ticks = n == 2 ? now : 0;
    Py_RETURN_NONE;
  }
  const uint64_t start = collector.start_ticks;
  collector.start_ticks = 0;
  struct tg__thread *const t = start && atomic_load_explicit(&tg__running, memory_order_relaxed) ? tg__thread() : NULL;
  if (t) {
    const struct tg__open o = {.start_ticks = start,
                               .name = tg__python_name(t, collector.name),
                               .shape = number_of(args[1], "collected"),
                               .stack = tg__stack_now()(t),
                               .seq = number_of(args[1], "generation") + 1,
                               .scope = TG_RAW_GC};
    tg__record_put(t, &o, now, 0);
  }
  Py_RETURN_NONE;
}

static PyMethodDef gc_event_def = {"tachograph_gc_event", (PyCFunction)(void (*)(void))gc_event, METH_FASTCALL,
                                   "records runs of the garbage collector"};

/* gc.callbacks.append or .remove(our function) */
static bool list_do(const char *what) {
  PyObject *const gc = PyImport_ImportModule("gc"), *const list = gc ? PyObject_GetAttrString(gc, "callbacks") : NULL;
  PyObject *const result = list ? PyObject_CallMethod(list, what, "O", collector.callback) : NULL;
  if (!result) PyErr_Clear();
  Py_XDECREF(result);
  Py_XDECREF(list);
  Py_XDECREF(gc);
  return result != NULL;
}

static enum tg_err gc_prepare(uint32_t features, struct tg_error *e) { return TG_OK; }

static enum tg_err gc_start(uint32_t features, struct tg_error *e) {
  if (atomic_load(&collector.is_on)) return TG_OK;
  const PyGILState_STATE state = PyGILState_Ensure();
  collector.start_ticks = 0;
  const bool ok = list_do("append");
  atomic_store(&collector.is_on, ok);
  PyGILState_Release(state);
  return ok ? TG_OK : tg__fail(e, TG_UNSUPPORTED, -1, "garbage collector: gc.callbacks is not a list");
}

static void gc_stop(void) {
  if (!atomic_load(&collector.is_on) || !tg__python_is_alive()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  while (list_do("remove")) {}
  atomic_store(&collector.is_on, false);
  PyGILState_Release(state);
}

static bool gc_is_off(void) { return !atomic_load(&collector.is_on); }

static const struct tg__source gc_source = {.name = "garbage collector",
                                            .features = TG_RECORD_GC,
                                            .prepare = gc_prepare,
                                            .start = gc_start,
                                            .stop = gc_stop,
                                            .is_off = gc_is_off};

bool tg__python_gc_register(PyObject *module) {
  collector.callback = PyCFunction_New(&gc_event_def, NULL);
  collector.name = PyUnicode_InternFromString("Python GC");
  if (!collector.callback || !collector.name) return false;
  if (!tg__source_add(&gc_source)) PyErr_SetString(PyExc_RuntimeError, "tachograph: too many sources");
  return !PyErr_Occurred();
}
