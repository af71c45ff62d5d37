/* The Python interface to libtachograph for reading: the module tachograph._read, its type Trace and
 * TachographError; tables are in _read_table.c. python/tachograph/__init__.py derives the public classes; everything
 * here is a plain translation of tachograph/read.h. The GIL is released wherever the library works, so each trace
 * has a lock: the library allows one thread at a time on a trace, Python any number. */
#include <errno.h>
#include <unistd.h>

#include "_read.h"

/* ---- objects --------------------------------------------------------------------------------- */

struct progress {
  PyObject *callback, *type, *value, *traceback; /* what it raised, to be raised again in the thread that called us */
};

typedef struct {
  PyObject_HEAD struct tg_trace *trace; /* NULL once closed */
  PyThread_type_lock lock;
  struct progress progress;
} Trace;

static PyObject *error_type;
static PyTypeObject *trace_type;

void *new_object(PyTypeObject *type) { return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0); }

void free_object(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *err_name(enum tg_err code) {
  static const char *const names[] = {
#define ERR(name, status, text) #name,
#include "tachograph/err.def"
#undef ERR
  };
  return (unsigned)code < TG_ERR_COUNT ? names[code] : "INTERNAL";
}

static int set_attribute(PyObject *object, const char *name, PyObject *value) { /* takes value */
  int failed = value ? PyObject_SetAttrString(object, name, value) : -1;
  Py_XDECREF(value);
  return failed;
}

/* Raise TachographError, unless a callback into Python has already raised something better. */
PyObject *raise_error(enum tg_err code, const struct tg_error *e) {
  if (PyErr_Occurred()) return NULL;
  const char *text = e->text[0] ? e->text : tg_err_text(code);
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  PyObject *error = message ? PyObject_CallFunctionObjArgs(error_type, message, NULL) : NULL;
  if (!error) goto done;
  bool has_offset = e->text[0] && e->offset >= 0;
  if (set_attribute(error, "code", PyUnicode_FromString(err_name(code)))) goto done;
  if (set_attribute(error, "cause", PyUnicode_FromString(tg_err_text(code)))) goto done;
  if (set_attribute(error, "status", PyLong_FromLong(tg_err_status(code)))) goto done;
  if (set_attribute(error, "offset", has_offset ? PyLong_FromLongLong(e->offset) : Py_NewRef(Py_None))) goto done;
  PyErr_SetObject(error_type, error);
done:
  Py_XDECREF(error);
  Py_XDECREF(message);
  return NULL;
}

struct file {
  int fd, error;
};

static bool file_write(void *ctx, const char *bytes, size_t len) { /* called without the GIL */
  struct file *f = ctx;
  while (len) {
    ssize_t n = write(f->fd, bytes, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      f->error = errno ? errno : EIO;
      return false;
    }
    bytes += n, len -= (size_t)n;
  }
  return true;
}

/* ---- traces ---------------------------------------------------------------------------------- */

bool is_trace(PyObject *object) { return PyObject_TypeCheck(object, trace_type); }

struct tg_trace *trace_take(PyObject *object) { /* the GIL is let go while waiting, so that its holder can finish */
  Trace *self = (Trace *)object;
  if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
  }
  Py_CLEAR(self->progress.type); /* raised when all was read, so that no caller gets it */
  Py_CLEAR(self->progress.value);
  Py_CLEAR(self->progress.traceback);
  if (self->trace) return self->trace;
  PyThread_release_lock(self->lock);
  PyErr_SetString(PyExc_ValueError, "the trace is closed");
  return NULL;
}

static PyObject *trace_close(PyObject *object, PyObject *unused) {
  Trace *self = (Trace *)object;
  struct tg_trace *trace = trace_take(object);
  if (!trace) {
    PyErr_Clear(); /* closing twice is fine */
    Py_RETURN_NONE;
  }
  self->trace = NULL;
  PyThread_release_lock(self->lock);
  Py_BEGIN_ALLOW_THREADS tg_close(trace);
  Py_END_ALLOW_THREADS Py_CLEAR(self->progress.callback);
  Py_RETURN_NONE;
}

static void trace_dealloc(PyObject *object) {
  Trace *self = (Trace *)object;
  tg_close(self->trace);
  if (self->lock) PyThread_free_lock(self->lock);
  Py_XDECREF(self->progress.callback);
  free_object(object);
}

/* What the callback raised while ranks were read again comes first. */
PyObject *trace_error(PyObject *object, enum tg_err code, const struct tg_error *e) {
  struct progress *const p = &((Trace *)object)->progress;
  if (p->type) PyErr_Restore(p->type, p->value, p->traceback);
  p->type = p->value = p->traceback = NULL;
  return raise_error(code, e);
}

void trace_release(PyObject *object) { PyThread_release_lock(((Trace *)object)->lock); }

/* The text of a str, which keeps it; NULL with an error set. A zero byte would end it for C without a word. */
static const char *str_text_of(PyObject *object) {
  Py_ssize_t len;
  const char *const text = PyUnicode_AsUTF8AndSize(object, &len);
  if (!text || strlen(text) == (size_t)len) return text;
  PyErr_SetString(PyExc_ValueError, "a zero byte stands in an argument");
  return NULL;
}

bool args_from_dict(PyObject *dict, struct args *out) {
  out->items = PyMem_Calloc((size_t)PyDict_Size(dict) + 1, sizeof *out->items);
  out->count = 0;
  if (!out->items) PyErr_NoMemory();
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (out->items && PyDict_Next(dict, &at, &key, &value)) {
    struct tg_arg *arg = &out->items[out->count++];
    arg->name = str_text_of(key);
    arg->value = arg->name ? str_text_of(value) : NULL;
    if (!arg->value) break;
  }
  return !PyErr_Occurred();
}

/* _ask(table class, question, {name: value}) → Table */
static PyObject *trace_ask(PyObject *object, PyObject *python_args) {
  PyTypeObject *type;
  const char *question;
  PyObject *dict, *result = NULL;
  struct args args = {0};
  if (!PyArg_ParseTuple(python_args, "O!sO!", &PyType_Type, &type, &question, &PyDict_Type, &dict)) return NULL;
  struct tg_trace *trace = args_from_dict(dict, &args) ? trace_take(object) : NULL;
  if (trace) {
    struct tg_table *table = NULL;
    struct tg_error e = {0};
    enum tg_err err;
    Py_BEGIN_ALLOW_THREADS err = tg_ask(trace, question, args.items, args.count, &table, &e);
    trace_release(object);
    Py_END_ALLOW_THREADS result = err ? trace_error(object, err, &e) : make_table(type, table);
  }
  PyMem_Free(args.items);
  return result;
}

/* _sql(table class, query) → Table */
static PyObject *trace_sql(PyObject *object, PyObject *args) {
  PyTypeObject *type;
  const char *query;
  if (!PyArg_ParseTuple(args, "O!s", &PyType_Type, &type, &query)) return NULL;
  struct tg_trace *trace = trace_take(object);
  if (!trace) return NULL;
  struct tg_table *table = NULL;
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_sql(trace, query, &table, &e);
  trace_release(object);
  Py_END_ALLOW_THREADS return err ? trace_error(object, err, &e) : make_table(type, table);
}

static PyObject *trace_save(PyObject *object, PyObject *path) { /* path: bytes */
  char *name;
  if (PyBytes_AsStringAndSize(path, &name, NULL)) return NULL; /* no bytes, or a zero byte among them */
  struct tg_trace *trace = trace_take(object);
  if (!trace) return NULL;
  const size_t len = strlen(name);
  const bool ranks = len > 5 && strcmp(name + len - 5, ".tsum") == 0;
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = ranks ? tg_save_ranks(trace, name, &e) : tg_save(trace, name, &e);
  trace_release(object);
  Py_END_ALLOW_THREADS if (err) return trace_error(object, err, &e);
  Py_RETURN_NONE;
}

static PyObject *trace_add_missing(PyObject *object, PyObject *args) {
  const char *path, *why;
  if (!PyArg_ParseTuple(args, "ss", &path, &why)) return NULL;
  struct tg_trace *trace = trace_take(object);
  if (!trace) return NULL;
  tg_add_missing(trace, path, why);
  trace_release(object);
  Py_RETURN_NONE;
}

/* _export(format, {name: value}, file descriptor) */
static PyObject *trace_export(PyObject *object, PyObject *python_args) {
  const char *format;
  PyObject *dict, *result = NULL;
  struct file file = {0};
  struct args args = {0};
  if (!PyArg_ParseTuple(python_args, "sO!i", &format, &PyDict_Type, &dict, &file.fd)) return NULL;
  struct tg_trace *trace = args_from_dict(dict, &args) ? trace_take(object) : NULL;
  if (trace) {
    struct tg_error e = {0};
    enum tg_err err;
    Py_BEGIN_ALLOW_THREADS err = tg_export(trace, format, args.items, args.count, file_write, &file, &e);
    trace_release(object);
    Py_END_ALLOW_THREADS if (file.error) {
      errno = file.error;
      PyErr_SetFromErrno(PyExc_OSError);
    }
    else { result = err ? trace_error(object, err, &e) : Py_NewRef(Py_None); }
  }
  PyMem_Free(args.items);
  return result;
}

/* _report(format, width, color) → str */
static PyObject *trace_report(PyObject *object, PyObject *args) {
  const char *format;
  unsigned width;
  int color;
  if (!PyArg_ParseTuple(args, "sIp", &format, &width, &color)) return NULL;
  struct tg_trace *trace = trace_take(object);
  if (!trace) return NULL;
  struct text text = {.lines_left = SIZE_MAX};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_report(trace, format, width, color != 0, text_write, &text, &e);
  trace_release(object);
  Py_END_ALLOW_THREADS if (err == TG_OK || text.failed) return text_finish(&text);
  text_drop(&text);
  return trace_error(object, err, &e);
}

static PyMethodDef trace_methods[] = {
    {"close", trace_close, METH_NOARGS, "free the trace's memory; existing tables stay usable"},
    {"_ask", trace_ask, METH_VARARGS, "_ask(table class, question, arguments) -> table"},
    {"_sql", trace_sql, METH_VARARGS, "_sql(table class, query) -> table"},
    {"_save", trace_save, METH_O, "_save(path)"},
    {"_add_missing", trace_add_missing, METH_VARARGS,
     "_add_missing(path, why): a file of the job that could not be read"},
    {"_export", trace_export, METH_VARARGS, "_export(format, arguments, file descriptor)"},
    {"_report", trace_report, METH_VARARGS, "_report(format, width, color) -> str"},
    {0},
};
static PyType_Slot trace_slots[] = {{Py_tp_dealloc, trace_dealloc}, {Py_tp_methods, trace_methods}, {0}};
static PyType_Spec trace_spec = {"tachograph._read.Trace", sizeof(Trace), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 trace_slots};

/* ---- the module ------------------------------------------------------------------------------ */

/* Called by a reading thread, which does not hold the GIL. */
static bool progress_call(void *ctx, int64_t done, int64_t total) {
  struct progress *p = ctx;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *answer = PyObject_CallFunction(p->callback, "LL", (long long)done, (long long)total);
  bool go_on = answer && answer != Py_False;
  if (!answer) PyErr_Fetch(&p->type, &p->value, &p->traceback);
  Py_XDECREF(answer);
  PyGILState_Release(state);
  return go_on;
}

/* The paths of a tuple of bytes, which must live as long; NULL with an error set. Freed with PyMem_Free. */
static const char **paths_of(PyObject *tuple) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  const char **const paths = PyMem_Calloc((size_t)count + 1, sizeof *paths);
  if (!paths) return (const char **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++) {
    char *path;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(tuple, i), &path, NULL) == 0) {
      paths[i] = path;
      continue;
    }
    PyMem_Free(paths);
    return NULL;
  }
  return paths;
}

/* open(trace class, paths as a tuple of bytes, only the ranks' summaries?, threads, progress or None) → Trace */
static PyObject *module_open(PyObject *module, PyObject *args) {
  PyTypeObject *type;
  PyObject *tuple;
  int ranks;
  unsigned threads;
  PyObject *callback;
  if (!PyArg_ParseTuple(args, "O!O!pIO", &PyType_Type, &type, &PyTuple_Type, &tuple, &ranks, &threads, &callback))
    return NULL;
  const size_t count = (size_t)PyTuple_Size(tuple);
  if (!ranks && count != 1) return PyErr_Format(PyExc_ValueError, "one path expected");
  const char **const paths = paths_of(tuple);
  if (!paths) return NULL;
  Trace *self = new_object(type);
  if (self) self->lock = PyThread_allocate_lock();
  if (!self || !self->lock) {
    Py_XDECREF((PyObject *)self);
    PyMem_Free(paths);
    return PyErr_NoMemory();
  }
  struct progress *const progress = &self->progress;
  if (callback != Py_None) progress->callback = Py_NewRef(callback);
  const struct tg_open_options options = {
      .threads = threads, .progress = progress->callback ? progress_call : NULL, .progress_ctx = progress};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err =
      ranks ? tg_open_ranks(paths, count, &options, &self->trace, &e) : tg_open(paths[0], &options, &self->trace, &e);
  Py_END_ALLOW_THREADS PyMem_Free(paths);
  if (err == TG_OK && !progress->type) {
    tg_set_progress(self->trace, &options);
    return (PyObject *)self;
  }
  trace_error((PyObject *)self, err, &e);
  Py_DECREF(self);
  return NULL;
}

static PyObject *question_arguments(size_t i) {
  PyObject *list = PyList_New(0);
  const char *name, *fallback, *meaning;
  for (size_t k = 0; list && tg_question_argument(i, k, &name, &fallback, &meaning); k++) {
    PyObject *row = Py_BuildValue("(sss)", name, fallback, meaning);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyObject *question_columns(size_t i) {
  PyObject *list = PyList_New(0);
  struct tg_question_column c;
  for (size_t k = 0; list && tg_question_column(i, k, &c); k++) {
    PyObject *row = Py_BuildValue("(ssssssssO)", c.name, c.type, c.unit, c.meaning, c.role, c.fold, c.of, c.by,
                                  c.is_important ? Py_True : Py_False);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

/* questions() → [(name, meaning, [(argument, default, meaning)], [(column, type, unit, meaning, role, fold, of, by,
 * important)])] */
static PyObject *module_questions(PyObject *module, PyObject *unused) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < tg_question_count(); i++) {
    PyObject *row = Py_BuildValue("(ssNN)", tg_question_name(i), tg_question_meaning(i), question_arguments(i),
                                  question_columns(i));
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyObject *module_formats(PyObject *module, PyObject *unused) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < tg_format_count(); i++) {
    PyObject *name = PyUnicode_FromString(tg_format_name(i));
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

static PyObject *module_format_of_file(PyObject *module, PyObject *path) {
  const char *const text = PyBytes_AsString(path), *const name = text ? tg_format_of_file(text) : NULL;
  if (!text) return NULL;
  return name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}

static PyMethodDef module_methods[] = {
    {"open", module_open, METH_VARARGS, "open(trace class, path, threads, progress) -> trace"},
    {"questions", module_questions, METH_NOARGS, "every question with its arguments and columns"},
    {"formats", module_formats, METH_NOARGS, "names of the output formats"},
    {"format_of_file", module_format_of_file, METH_O,
     "format_of_file(path in bytes) -> name, or None when the end of the path does not say"},
    {0},
};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                                        "tachograph._read",
                                        "The C side of tachograph's reading half.",
                                        -1,
                                        module_methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__read(void) {
  PyObject *module = PyModule_Create(&module_def);
  if (!module) return NULL;
  error_type = PyErr_NewExceptionWithDoc(
      "tachograph.TachographError",
      "What went wrong, in one sentence. code: stable name; cause: the general sentence of the code; "
      "offset: byte of the unpacked input or None; status: exit status of the command line.",
      NULL, NULL);
  trace_type = (PyTypeObject *)PyType_FromSpec(&trace_spec);
  if (PyModule_AddObjectRef(module, "TachographError", error_type) ||
      PyModule_AddObjectRef(module, "Trace", (PyObject *)trace_type) || add_table_types(module) || add_diff(module) ||
      add_numbers(module) || PyModule_AddStringConstant(module, "version", tg_version())) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
