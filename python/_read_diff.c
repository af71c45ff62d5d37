/* Two traces for Python: the diff, its page, and what it fails. Both traces are taken, always in the same order. */
#include "_read.h"

/* Take both, the one at the lower address first, so that two threads never wait for each other. false: one is
 * closed, error set. */
static bool take_both(PyObject *const objects[2], struct tg_trace *traces[2]) {
  const int first = objects[0] > objects[1];
  traces[first] = trace_take(objects[first]);
  if (!traces[first]) return false;
  if (objects[0] == objects[1]) {
    traces[!first] = traces[first];
    return true;
  }
  traces[!first] = trace_take(objects[!first]);
  if (!traces[!first]) trace_release(objects[first]);
  return traces[!first] != NULL;
}

static void release_both(PyObject *const objects[2]) {
  trace_release(objects[0]);
  if (objects[0] != objects[1]) trace_release(objects[1]);
}

/* diff(table class, trace, trace, {name: value}) → Table */
static PyObject *diff(PyObject *module, PyObject *python_args) {
  PyTypeObject *type;
  PyObject *objects[2], *dict, *result = NULL;
  struct tg_trace *traces[2];
  struct args args = {0};
  if (!PyArg_ParseTuple(python_args, "O!OOO!", &PyType_Type, &type, &objects[0], &objects[1], &PyDict_Type, &dict))
    return NULL;
  if (!is_trace(objects[0]) || !is_trace(objects[1])) return PyErr_Format(PyExc_TypeError, "two traces expected");
  if (args_from_dict(dict, &args) && take_both(objects, traces)) {
    struct tg_table *table = NULL;
    struct tg_error e = {0};
    enum tg_err err;
    Py_BEGIN_ALLOW_THREADS err = tg_diff(traces[0], traces[1], args.items, args.count, &table, &e);
    release_both(objects);
    Py_END_ALLOW_THREADS result = err ? trace_error(objects[0], err, &e) : make_table(type, table);
  }
  PyMem_Free(args.items);
  return result;
}

/* diff_text(table, format, width, color) → str */
static PyObject *diff_text(PyObject *module, PyObject *args) {
  PyObject *object;
  const char *format;
  unsigned width;
  int color;
  if (!PyArg_ParseTuple(args, "OsIp", &object, &format, &width, &color)) return NULL;
  const struct tg_table *table = table_of(object);
  if (!table) return NULL;
  struct text text = {.lines_left = SIZE_MAX};
  struct tg_error e = {0};
  const enum tg_err err = tg_diff_write(table, format, width, color != 0, text_write, &text, &e);
  if (err == TG_OK || text.failed) return text_finish(&text);
  text_drop(&text);
  return raise_error(err, &e);
}

/* diff_fails(table, expression) → the sentence that says for which row it holds, or None */
static PyObject *diff_fails(PyObject *module, PyObject *args) {
  PyObject *object;
  const char *expression;
  if (!PyArg_ParseTuple(args, "Os", &object, &expression)) return NULL;
  const struct tg_table *table = table_of(object);
  if (!table) return NULL;
  struct tg_error e = {0};
  bool fails;
  const enum tg_err err = tg_diff_fails(table, expression, &fails, &e);
  if (err) return raise_error(err, &e);
  if (!fails) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(e.text, (Py_ssize_t)strlen(e.text), "replace");
}

static PyMethodDef methods[] = {
    {"diff", diff, METH_VARARGS, "diff(table class, trace, trace, arguments) -> table"},
    {"diff_text", diff_text, METH_VARARGS, "diff_text(table, format, width, color) -> str"},
    {"diff_fails", diff_fails, METH_VARARGS, "diff_fails(table, expression) -> str or None"},
    {0},
};

int add_diff(PyObject *module) { return PyModule_AddFunctions(module, methods); }
