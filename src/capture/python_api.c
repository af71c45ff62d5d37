/* capture: the interface to the Python extension. Registers the sources that need the interpreter; reports what is
 * still installed when everything is off. */
#include "capture/python_api.h"
#include "capture/session.h"
#include "capture/torch.h"

/* Not before Py_Initialize, and not once its end has begun: taking the GIL then would stop the thread for ever. */
bool tg__python_is_alive(void) {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

static bool put_bool(PyObject *dict, const char *name, bool value) {
  return PyDict_SetItemString(dict, name, value ? Py_True : Py_False) == 0;
}

/* self_check() → {what: nothing of it is installed}; "clean" is all of them together */
static PyObject *report_self_check(PyObject *module, PyObject *unused) {
  PyObject *const dict = PyDict_New();
  if (!dict) return NULL;
  const struct {
    const char *what;
    bool is_off;
  } parts[] = {{"helper thread", tg__helper_is_off()},
               {"torch's fast annotations", tg__python_fast_is_off()},
               {"labels", tg__python_labels_are_ours()},
               {"looks at a thread", tg__python_watch_is_off()},
               {"delays", tg__torch_delays_are_off()}};
  bool clean = true, ok = true;
  for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++) {
    clean = clean && parts[i].is_off;
    ok = put_bool(dict, parts[i].what, parts[i].is_off);
  }
  for (size_t i = 0; ok; i++) {
    const struct tg__source *const source = tg__source_at(i);
    if (!source) break;
    const bool off = !source->is_off || source->is_off();
    clean = clean && off;
    ok = put_bool(dict, source->name, off);
  }
  if (ok && put_bool(dict, "clean", clean)) return dict;
  Py_DECREF(dict);
  return NULL;
}

/* name_thread(number of the system, bytes, if_recorded) → is it written? bytes, as a str with halves of surrogates has
 * no UTF-8 */
static PyObject *name_thread(PyObject *module, PyObject *args) {
  unsigned os_thread;
  const char *name;
  int if_recorded;
  if (!PyArg_ParseTuple(args, "Iyp:name_thread", &os_thread, &name, &if_recorded)) return NULL;
  const bool writes = !if_recorded || tg__thread_recorded(os_thread);
  if (writes) tg__thread_name_of(os_thread, name);
  return PyBool_FromLong(writes);
}

static PyMethodDef module_methods[] = {
    {"name_thread", name_thread, METH_VARARGS,
     "name_thread(number of the system, bytes, if_recorded) -> is it written? if_recorded: of a thread with records"},
    {"self_check", report_self_check, METH_NOARGS,
     "self_check() -> {what: True when nothing of it is installed}; \"clean\": all of them"},
    {0},
};

int tg_record_add_to_python(PyObject *module) {
  static tg__python_register *const registers[] = {
      tg__python_types_register,   tg__python_fast_register,  tg__python_kernels_register, tg__python_gc_register,
      tg__python_torch_register,   tg__python_stack_register, tg__python_modules_register, tg__python_calls_register,
      tg__python_samples_register, tg__python_watch_register, tg__python_delay_register,   tg__python_kept_register};
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    if (!registers[i](module)) return -1;
  return PyModule_AddFunctions(module, module_methods);
}
