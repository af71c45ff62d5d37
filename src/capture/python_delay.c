/* capture: what Python calls of torch_delay.c. */
#include "capture/python_api.h"
#include "capture/torch.h"

static Py_ssize_t place_count;

static bool name_places(PyObject *list) {
  place_count = PyList_GET_SIZE(list);
  for (Py_ssize_t i = 0; i < place_count; i++) {
    Py_ssize_t len;
    const char *const name = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(list, i), &len);
    if (name && tg__torch_delay_name((size_t)i, name, (size_t)len)) continue;
    if (name)
      PyErr_Format(PyExc_ValueError, "%d names at most, of %d bytes at most", TG_DELAY_PLACES, TG_DELAY_NAME - 1);
    return false;
  }
  return true;
}

/* delays_begin(names) → "", or why torch cannot be made to wait */
static PyObject *delays_begin(PyObject *module, PyObject *names) {
  struct tg_error e = {0};
  if (!tg__torch_delays_are_off()) return PyErr_Format(PyExc_ValueError, "delays have begun already");
  PyObject *const list = PySequence_List(names);
  const bool ok = list && name_places(list);
  Py_XDECREF(list);
  if (!ok) return NULL;
  if (tg__torch_find_symbols(&e)) return PyUnicode_FromString(e.text);
  return PyUnicode_FromString(tg__torch_delays_begin() ? "" : "torch did not take the callback");
}

/* delays_end(): nothing waits any more */
static PyObject *delays_end(PyObject *module, PyObject *unused) {
  tg__torch_delay_choose(-1, 0);
  if (!tg__torch_delays_are_off()) tg__torch_delays_end();
  Py_RETURN_NONE;
}

/* delay(place, ns): from now on what has this name waits so long before it begins; place -1: nothing does */
static PyObject *delay(PyObject *module, PyObject *args) {
  int place;
  unsigned long long ns;
  if (!PyArg_ParseTuple(args, "iK:delay", &place, &ns)) return NULL;
  if (place < -1 || place >= place_count) return PyErr_Format(PyExc_ValueError, "there is no place %d", place);
  tg__torch_delay_choose(place, ns);
  Py_RETURN_NONE;
}

/* delayed(place) → how often it was */
static PyObject *delayed(PyObject *module, PyObject *args) {
  int place;
  if (!PyArg_ParseTuple(args, "i:delayed", &place)) return NULL;
  if (place < 0 || place >= place_count) return PyErr_Format(PyExc_ValueError, "there is no place %d", place);
  return PyLong_FromUnsignedLongLong(tg__torch_delayed((size_t)place));
}

static PyMethodDef methods[] = {
    {"delays_begin", delays_begin, METH_O, "delays_begin(names) -> \"\", or why torch cannot be made to wait"},
    {"delay", delay, METH_VARARGS, "delay(place, ns): what has this name waits so long; place -1: nothing does"},
    {"delayed", delayed, METH_VARARGS, "delayed(place) -> how often it was"},
    {"delays_end", delays_end, METH_NOARGS, "delays_end(): nothing waits any more"},
    {0},
};

bool tg__python_delay_register(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }
