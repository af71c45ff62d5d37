/* The Python interface to libtachograph-capture for recording: the module tachograph._record, a plain translation of
 * tachograph/record.h. Functions that need the interpreter itself (record_function, stacks, garbage collector) are
 * added by tg_record_add_to_python. The GIL is released around everything that opens, starts, stops or closes: sources
 * take it then. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tachograph/record.h"

static PyObject *error_type;

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *err_name(enum tg_err code) {
  static const char *const names[] = {
#define ERR(name, status, text) #name,
#include "tachograph/err.def"
#undef ERR
  };
  return (unsigned)code < TG_ERR_COUNT ? names[code] : "INTERNAL";
}

static int set_text(PyObject *object, const char *name, const char *text) {
  PyObject *const value = PyUnicode_FromString(text);
  const int failed = value ? PyObject_SetAttrString(object, name, value) : -1;
  Py_XDECREF(value);
  return failed;
}

static PyObject *raise_error(enum tg_err code, const struct tg_error *e) {
  const char *const text = e->text[0] ? e->text : tg_err_text(code);
  PyObject *const message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  PyObject *const error = message ? PyObject_CallFunctionObjArgs(error_type, message, NULL) : NULL;
  if (error && !set_text(error, "code", err_name(code)) && !set_text(error, "cause", tg_err_text(code)))
    PyErr_SetObject(error_type, error);
  Py_XDECREF(error);
  Py_XDECREF(message);
  return NULL;
}

/* ---- a recording ----------------------------------------------------------------------------- */

static PyObject *state_dict(const struct tg_record_stats *s) {
  PyObject *const why = PyUnicode_DecodeUTF8(s->why, (Py_ssize_t)strlen(s->why), "replace");
  if (!why) return NULL;
  return Py_BuildValue("{sOsOsIsIsKsKsKsKsKsKsN}", "open", s->open ? Py_True : Py_False, "running",
                       s->running ? Py_True : Py_False, "features", s->features, "missing", s->missing, "records",
                       (unsigned long long)s->records, "lost", (unsigned long long)s->lost, "disk_bytes",
                       (unsigned long long)s->disk_bytes, "memory_bytes", (unsigned long long)s->memory_bytes,
                       "peak_memory_bytes", (unsigned long long)s->peak_memory_bytes, "session",
                       (unsigned long long)s->session, "why", why);
}

static PyObject *record_open(PyObject *module, PyObject *args, PyObject *keywords) {
  static char *names[] = {"path",    "features", "required", "memory_bytes", "disk_bytes", "keep",
                          "session", "rank",     NULL};
  PyObject *path;
  unsigned features = TG_RECORD_DEFAULT, required = 0;
  unsigned long long memory = 0, disk = 0, session = 0;
  const char *keep = "first";
  int rank = -1;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|$IIKKsKi:open", names, PyUnicode_FSConverter, &path, &features,
                                   &required, &memory, &disk, &keep, &session, &rank))
    return NULL;
  const bool is_last = strcmp(keep, "last") == 0;
  if (!is_last && strcmp(keep, "first") != 0) {
    Py_DECREF(path);
    return PyErr_Format(PyExc_ValueError, "keep must be \"first\" or \"last\", not \"%s\"", keep);
  }
  const struct tg_record_options options = {.path = PyBytes_AS_STRING(path),
                                            .features = features,
                                            .required = required,
                                            .memory_bytes = memory,
                                            .disk_bytes = disk,
                                            .keep = is_last ? TG_KEEP_LAST : TG_KEEP_FIRST,
                                            .session = session,
                                            .rank = rank};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_record_open(&options, &e);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  if (err) return raise_error(err, &e);
  Py_RETURN_NONE;
}

static PyObject *change(enum tg_err (*act)(struct tg_error *)) {
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = act(&e);
  Py_END_ALLOW_THREADS if (err) return raise_error(err, &e);
  Py_RETURN_NONE;
}

static PyObject *record_resume(PyObject *module, PyObject *unused) { return change(tg_record_resume); }
static PyObject *record_pause(PyObject *module, PyObject *unused) { return change(tg_record_pause); }

static PyObject *record_toggle(PyObject *module, PyObject *args) {
  unsigned features;
  int on;
  if (!PyArg_ParseTuple(args, "Ip:toggle", &features, &on)) return NULL;
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_record_toggle(features, on != 0, &e);
  Py_END_ALLOW_THREADS if (err) return raise_error(err, &e);
  Py_RETURN_NONE;
}

static PyObject *record_close(PyObject *module, PyObject *unused) {
  struct tg_record_stats stats = {0};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_record_close(&stats, &e);
  Py_END_ALLOW_THREADS return err ? raise_error(err, &e) : state_dict(&stats);
}

static PyObject *record_state(PyObject *module, PyObject *unused) {
  struct tg_record_stats stats = {0};
  Py_BEGIN_ALLOW_THREADS tg_record_state(&stats);
  Py_END_ALLOW_THREADS return state_dict(&stats);
}

static PyObject *record_cuda(PyObject *module, PyObject *unused) {
  struct tg_record_cuda_stats s;
  tg_record_cuda(&s);
  return Py_BuildValue("{sssssIsIsOsOsOsOsOsKsKsKsKsKsKsKsKsKsKsKsKsK}", "library", s.path, "refused", s.refused,
                       "version", s.version, "driver", s.driver_version, "proven", s.is_proven ? Py_True : Py_False,
                       "subscriber", s.has_subscriber ? Py_True : Py_False, "taken", s.was_taken ? Py_True : Py_False,
                       "reset", s.was_reset ? Py_True : Py_False, "own_clock", s.has_our_clock ? Py_True : Py_False,
                       "clock_error_ticks", (unsigned long long)s.clock_error_ticks, "converted_times",
                       (unsigned long long)s.converted_times, "kernels", (unsigned long long)s.kernels, "copies",
                       (unsigned long long)s.copies, "fills", (unsigned long long)s.fills, "calls",
                       (unsigned long long)s.calls, "waits", (unsigned long long)s.waits, "memory_records",
                       (unsigned long long)s.memory, "graph_nodes", (unsigned long long)s.graph_nodes, "lost",
                       (unsigned long long)s.lost, "late", (unsigned long long)s.late, "callbacks",
                       (unsigned long long)s.callbacks, "buffer_bytes", (unsigned long long)s.buffer_bytes);
}

static PyObject *record_device_memory(PyObject *module, PyObject *unused) {
  return Py_BuildValue("z", tg_record_device_memory());
}

static PyObject *record_meta(PyObject *module, PyObject *args) {
  const char *name, *json;
  if (!PyArg_ParseTuple(args, "ss:meta", &name, &json)) return NULL;
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_record_meta(name, json, &e);
  Py_END_ALLOW_THREADS if (err) return raise_error(err, &e);
  Py_RETURN_NONE;
}

/* Entries one behind the other, each with its length before it. */
struct frame_texts {
  char *bytes;
  size_t len, room;
};
enum { FRAME_TEXTS_MOST = 16 << 20 };

static void take_frame(void *ctx, const char *text, size_t len) {
  struct frame_texts *const all = ctx;
  const size_t need = all->len + sizeof len + len;
  if (need > FRAME_TEXTS_MOST) return;
  if (need > all->room) {
    const size_t room = need * 2;
    char *const bytes = PyMem_RawRealloc(all->bytes, room);
    if (!bytes) return;
    all->bytes = bytes;
    all->room = room;
  }
  memcpy(all->bytes + all->len, &len, sizeof len);
  memcpy(all->bytes + all->len + sizeof len, text, len);
  all->len = need;
}

static PyObject *record_frame_texts(PyObject *module, PyObject *unused) {
  struct frame_texts all = {0};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_record_frames(take_frame, &all, &e);
  Py_END_ALLOW_THREADS PyObject *list = err ? raise_error(err, &e) : PyList_New(0);
  for (size_t at = 0, len; list && at < all.len; at += sizeof len + len) {
    memcpy(&len, all.bytes + at, sizeof len);
    PyObject *const text = PyBytes_FromStringAndSize(all.bytes + at + sizeof len, (Py_ssize_t)len);
    if (!text || PyList_Append(list, text)) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  PyMem_RawFree(all.bytes);
  return list;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* The text of a str; one with halves of surrogates is recorded with question marks in their place. */
static PyObject *with_text(PyObject *text, void (*act)(const char *)) {
  if (!PyUnicode_Check(text))
    return PyErr_Format(PyExc_TypeError, "a name must be a str, not %.100s", Py_TYPE(text)->tp_name);
  const char *const bytes = PyUnicode_AsUTF8(text);
  if (bytes) {
    act(bytes);
    Py_RETURN_NONE;
  }
  PyErr_Clear();
  PyObject *const clean = PyUnicode_AsEncodedString(text, "utf-8", "replace");
  if (!clean) return NULL;
  act(PyBytes_AS_STRING(clean));
  Py_DECREF(clean);
  Py_RETURN_NONE;
}

static PyObject *record_nvtx(PyObject *module, PyObject *unused) { return PyLong_FromUnsignedLong(tg_record_nvtx()); }

static PyObject *record_step_begin(PyObject *module, PyObject *name) { return with_text(name, tg_step_begin); }
static PyObject *record_range_begin(PyObject *module, PyObject *name) { return with_text(name, tg_range_begin); }
static PyObject *record_mark(PyObject *module, PyObject *name) { return with_text(name, tg_mark); }
static PyObject *record_thread_name(PyObject *module, PyObject *name) { return with_text(name, tg_thread_name); }

static PyObject *record_step_end(PyObject *module, PyObject *unused) {
  tg_step_end();
  Py_RETURN_NONE;
}

static PyObject *record_range_end(PyObject *module, PyObject *unused) {
  tg_range_end();
  Py_RETURN_NONE;
}

static PyObject *record_tensor(PyObject *module, PyObject *args) {
  const char *kind, *name;
  unsigned long long address;
  long long bytes;
  int type, index;
  if (!PyArg_ParseTuple(args, "ssKLii:tensor", &kind, &name, &address, &bytes, &type, &index)) return NULL;
  tg_tensor(kind, name, (const void *)(uintptr_t)address, (int64_t)bytes, type, index);
  Py_RETURN_NONE;
}

static PyObject *record_counter(PyObject *module, PyObject *args) {
  const char *name;
  long long value;
  if (!PyArg_ParseTuple(args, "sL:counter", &name, &value)) return NULL;
  tg_counter(name, value);
  Py_RETURN_NONE;
}

/* ---- the module ------------------------------------------------------------------------------ */

static PyMethodDef module_methods[] = {
    {"open", (PyCFunction)(void (*)(void))record_open, METH_VARARGS | METH_KEYWORDS,
     "open(path, *, features=DEFAULT, required=0, memory_bytes=0, disk_bytes=0, keep=\"first\", session=0, rank=-1): "
     "make ready; nothing "
     "is recorded yet"},
    {"resume", record_resume, METH_NOARGS, "resume(): record from now on"},
    {"pause", record_pause, METH_NOARGS, "pause()"},
    {"toggle", record_toggle, METH_VARARGS, "toggle(features, on): switch single features of the running recording"},
    {"close", record_close, METH_NOARGS, "close() -> what it was, as state() says it"},
    {"state", record_state, METH_NOARGS, "state() -> dict of struct tg_record_stats"},
    {"cuda", record_cuda, METH_NOARGS, "cuda() -> dict of struct tg_record_cuda_stats"},
    {"nvtx", record_nvtx, METH_NOARGS, "nvtx() -> how many libraries of the process send their calls of NVTX here"},
    {"device_memory", record_device_memory, METH_NOARGS,
     "device_memory() -> None, or why allocations of devices are not recorded"},
    {"meta", record_meta, METH_VARARGS, "meta(name, json text): a member of the document"},
    {"frame_texts", record_frame_texts, METH_NOARGS,
     "frame_texts() -> list of the frames of Python that the file names so far, bytes as docs/format.md has a STACK "
     "entry"},
    {"step_begin", record_step_begin, METH_O, "step_begin(name)"},
    {"step_end", record_step_end, METH_NOARGS, "step_end()"},
    {"range_begin", record_range_begin, METH_O, "range_begin(name): a span of the calling thread"},
    {"range_end", record_range_end, METH_NOARGS, "range_end()"},
    {"mark", record_mark, METH_O, "mark(name): a moment"},
    {"counter", record_counter, METH_VARARGS, "counter(name, value)"},
    {"tensor", record_tensor, METH_VARARGS,
     "tensor(kind, name, address, bytes, device type, device index): what a block of memory holds"},
    {"thread_name", record_thread_name, METH_O, "thread_name(name): of the calling thread"},
    {0},
};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                                        "tachograph._record",
                                        "The C side of tachograph's recording half.",
                                        -1,
                                        module_methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

static int add_numbers(PyObject *module) {
  static const struct {
    const char *name;
    long value;
  } numbers[] = {{"OPS", TG_RECORD_OPS},
                 {"SHAPES", TG_RECORD_SHAPES},
                 {"STACKS", TG_RECORD_STACKS},
                 {"MODULES", TG_RECORD_MODULES},
                 {"MEMORY", TG_RECORD_MEMORY},
                 {"CALLS", TG_RECORD_CALLS},
                 {"GC", TG_RECORD_GC},
                 {"PROCESS", TG_RECORD_PROCESS},
                 {"MODULE_SPANS", TG_RECORD_MODULE_SPANS},
                 {"CUDA", TG_RECORD_CUDA},
                 {"CUDA_WAITS", TG_RECORD_CUDA_WAITS},
                 {"CUDA_MEMORY", TG_RECORD_CUDA_MEMORY},
                 {"NVTX", TG_RECORD_NVTX},
                 {"LEAN", TG_RECORD_LEAN},
                 {"DEFAULT", TG_RECORD_DEFAULT},
                 {"DEEP", TG_RECORD_DEEP},
                 {"LEAST_MEMORY", TG_RECORD_LEAST_MEMORY},
                 {"LEAST_DISK", TG_RECORD_LEAST_DISK}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value)) return -1;
  return 0;
}

PyMODINIT_FUNC PyInit__record(void) {
  PyObject *const module = PyModule_Create(&module_def);
  if (!module) return NULL;
  error_type = PyErr_NewExceptionWithDoc(
      "tachograph.RecordError",
      "Why nothing is recorded, in one sentence. code: stable name; cause: the general sentence of the code.",
      PyExc_RuntimeError, NULL);
  Py_XINCREF(error_type);
  if (!error_type || PyModule_AddObject(module, "RecordError", error_type) || add_numbers(module) ||
      tg_record_add_to_python(module)) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
