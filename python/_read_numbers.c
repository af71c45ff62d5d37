/* Numbers of a column made into those of a frame: one pass, in place where the caller likes, where numpy would make
 * an array a step. */
#include "_read.h"

#include <math.h>

/* A one-dimensional array of int64; a double of the same size goes over it. */
static bool take_array(PyObject *object, int flags, Py_buffer *view) {
  if (PyObject_GetBuffer(object, view, flags | PyBUF_ND | PyBUF_FORMAT)) return false;
  if (view->ndim == 1 && view->itemsize == 8 && (strcmp(view->format, "q") == 0 || strcmp(view->format, "l") == 0))
    return true;
  PyBuffer_Release(view);
  PyErr_SetString(PyExc_TypeError, "a contiguous array of int64 expected");
  return false;
}

static double us_of(int64_t ns, int64_t zero) {
  return ns == TG_NULL_INT ? NAN : (double)(int64_t)((uint64_t)ns - (uint64_t)zero) / 1000.0;
}

/* us_of(times, zero) */
static PyObject *numbers_us_of(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *object;
  long long zero;
  Py_buffer times;
  if (!PyArg_ParseTuple(args, "OL", &object, &zero) || !take_array(object, PyBUF_WRITABLE, &times)) return NULL;
  char *const cells = times.buf;
  const size_t count = (size_t)times.len / sizeof(int64_t);
  for (size_t i = 0; i < count; i++) {
    int64_t ns;
    memcpy(&ns, cells + i * sizeof ns, sizeof ns);
    const double us = us_of(ns, zero);
    memcpy(cells + i * sizeof us, &us, sizeof us);
  }
  PyBuffer_Release(&times);
  Py_RETURN_NONE;
}

/* Is every value found a known one? */
static bool look_up(const int64_t *places, size_t count, int64_t first, const int64_t *values, size_t known,
                    int64_t *out) {
  bool all = true;
  for (size_t i = 0; i < count; i++) {
    const uint64_t place = (uint64_t)places[i] - (uint64_t)first;
    const int64_t value = values[place < known ? place : places[i] < first ? 0 : known - 1];
    all &= value != TG_NULL_INT;
    out[i] = value;
  }
  return all;
}

/* look_up(places, first, values, out) */
static PyObject *numbers_look_up(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *objects[3], *result = NULL;
  long long first;
  Py_buffer places, values, out;
  if (!PyArg_ParseTuple(args, "OLOO", &objects[0], &first, &objects[1], &objects[2])) return NULL;
  if (!take_array(objects[0], 0, &places)) return NULL;
  if (!take_array(objects[1], 0, &values)) goto free_places;
  if (!take_array(objects[2], PyBUF_WRITABLE, &out)) goto free_values;
  if (out.len != places.len || values.len == 0) {
    PyErr_SetString(PyExc_ValueError, "out must be as long as places, and there must be values");
  } else {
    const size_t count = (size_t)places.len / sizeof(int64_t), known = (size_t)values.len / sizeof(int64_t);
    result = PyBool_FromLong(look_up(places.buf, count, first, values.buf, known, out.buf));
  }
  PyBuffer_Release(&out);
free_values:
  PyBuffer_Release(&values);
free_places:
  PyBuffer_Release(&places);
  return result;
}

/* replace_unknown(values, unknown) */
static PyObject *numbers_replace_unknown(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *object;
  long long unknown;
  Py_buffer view;
  if (!PyArg_ParseTuple(args, "OL", &object, &unknown) || !take_array(object, PyBUF_WRITABLE, &view)) return NULL;
  int64_t *const values = view.buf, low = INT64_MAX, high = INT64_MIN;
  const size_t count = (size_t)view.len / sizeof *values;
  for (size_t i = 0; i < count; i++) {
    if (values[i] == TG_NULL_INT) values[i] = unknown;
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  PyBuffer_Release(&view);
  return count ? Py_BuildValue("LL", (long long)low, (long long)high) : Py_BuildValue("ii", 0, 0);
}

/* ---- codes of texts -------------------------------------------------------------------------- */

/* places: by code + 1, as the unknown one wraps round to 0; -1 = not met. Codes are dense, so this is about as long
 * as there are texts. */
static PyObject *number_codes(const uint32_t *codes, size_t count, int64_t *out, int64_t *places) {
  PyObject *const rows = PyList_New(0);
  int64_t met = 0;
  for (size_t i = 0; rows && i < count; i++) {
    int64_t *const place = &places[(uint32_t)(codes[i] + 1)];
    if (*place < 0) {
      PyObject *const row = PyLong_FromSize_t(i);
      const bool failed = !row || PyList_Append(rows, row);
      Py_XDECREF(row);
      if (failed) {
        Py_DECREF(rows);
        return NULL;
      }
      *place = met++;
    }
    out[i] = *place;
  }
  return rows;
}

/* numbered(codes, out) */
static PyObject *numbers_numbered(PyObject *module, PyObject *args) {
  (void)module;
  Py_buffer codes, out;
  PyObject *object, *rows = NULL;
  if (!PyArg_ParseTuple(args, "y*O", &codes, &object)) return NULL;
  if (!take_array(object, PyBUF_WRITABLE, &out)) goto free_codes;
  const size_t count = (size_t)out.len / sizeof(int64_t);
  const uint32_t *const all = codes.buf;
  uint32_t most = 0;
  if ((size_t)codes.len != count * sizeof *all) {
    PyErr_SetString(PyExc_ValueError, "out must be as long as codes");
    goto free_out;
  }
  for (size_t i = 0; i < count; i++)
    if ((uint32_t)(all[i] + 1) > most) most = all[i] + 1;
  int64_t *const places = PyMem_Malloc(((size_t)most + 1) * sizeof *places);
  if (places) {
    memset(places, 0xff, ((size_t)most + 1) * sizeof *places);
    rows = number_codes(all, count, out.buf, places);
    PyMem_Free(places);
  } else {
    PyErr_NoMemory();
  }
free_out:
  PyBuffer_Release(&out);
free_codes:
  PyBuffer_Release(&codes);
  return rows;
}

static PyMethodDef functions[] = {
    {"us_of", numbers_us_of, METH_VARARGS,
     "us_of(times, zero): nanoseconds of an int64 array become microseconds from zero on, doubles, in their place; the "
     "unknown one NaN"},
    {"look_up", numbers_look_up, METH_VARARGS,
     "look_up(places, first, values, out) -> bool: out[i] = values[places[i] - first], the nearest there is; int64 "
     "arrays, out may be "
     "places. True when none of them is the unknown one."},
    {"replace_unknown", numbers_replace_unknown, METH_VARARGS,
     "replace_unknown(values, unknown) -> (least, greatest): of an int64 array, in which `unknown` takes the place of "
     "the "
     "unknown one"},
    {"numbered", numbers_numbered, METH_VARARGS,
     "numbered(codes, out) -> rows: out, an int64 array, gets the distinct codes of a column of text numbered as they "
     "come; each one's first row"},
    {0},
};

int add_numbers(PyObject *module) { return PyModule_AddFunctions(module, functions); }
