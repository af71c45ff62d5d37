/* capture: RecordFunctionFast stands in for torch._C._profiler._RecordFunctionFast while a recording is open:
 * torch's own is silent unless torch.profiler runs. Compiled code of torch asks the module for it each time, so that
 * regions, graphs and kernels appear. */
#include "capture/python_api.h"

typedef struct {
  PyObject_HEAD PyObject *name, *values, *keywords;
  struct tg__python_span span;
  uint8_t scope;
} Fast;

static PyTypeObject *fast_type;

/* keyword_values={"scope": "user_scope"} makes it an annotation; it is not a value. Borrowed dicts may change: this
 * one is copied then. */
static bool take_keywords(Fast *self, PyObject *dict) {
  PyObject *const scope = PyDict_GetItemString(dict, "scope"); /* borrowed */
  self->scope = TG_RAW_OP;
  if (!scope) {
    self->keywords = PyDict_GET_SIZE(dict) ? Py_NewRef(dict) : NULL;
    return true;
  }
  if (PyUnicode_Check(scope) && PyUnicode_CompareWithASCIIString(scope, "user_scope") == 0) self->scope = TG_RAW_USER;
  self->keywords = PyDict_Copy(dict);
  return self->keywords && PyDict_DelItemString(self->keywords, "scope") == 0;
}

static PyObject *fast_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  static char *names[] = {"name", "input_values", "keyword_values", NULL};
  PyObject *name, *values = Py_None, *dict = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|OO:_RecordFunctionFast", names, &name, &values, &dict))
    return NULL;
  if (values != Py_None && !PyList_Check(values) && !PyTuple_Check(values))
    return PyErr_Format(PyExc_TypeError, "input_values must be a list or tuple, not %.100s", Py_TYPE(values)->tp_name);
  if (dict != Py_None && !PyDict_Check(dict))
    return PyErr_Format(PyExc_TypeError, "keyword_values must be a dict, not %.100s", Py_TYPE(dict)->tp_name);
  Fast *const self = (Fast *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->name = Py_NewRef(name);
  self->values = values != Py_None ? Py_NewRef(values) : NULL;
  if (dict == Py_None || take_keywords(self, dict)) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

static int fast_traverse(PyObject *object, visitproc visit, void *arg) {
  const Fast *const self = (const Fast *)object;
  Py_VISIT(self->values);
  Py_VISIT(self->keywords);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int fast_clear(PyObject *object) {
  Fast *const self = (Fast *)object;
  Py_CLEAR(self->values);
  Py_CLEAR(self->keywords);
  return 0;
}

static void fast_dealloc(PyObject *object) {
  Fast *const self = (Fast *)object;
  PyTypeObject *const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->span.thread) tg__python_span_forget(&self->span);
  Py_CLEAR(self->name);
  fast_clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyObject *fast_enter(PyObject *object, PyObject *unused) {
  Fast *const self = (Fast *)object;
  tg__python_span_begin(&self->span, self->name, self->scope, self->values, self->keywords);
  Py_RETURN_NONE; /* as torch's does */
}

static PyObject *fast_exit(PyObject *object, PyObject *const *values, Py_ssize_t n) {
  Fast *const self = (Fast *)object;
  tg__python_span_end(&self->span, self->name);
  Py_RETURN_NONE;
}

static PyMethodDef fast_methods[] = {
    {"__enter__", fast_enter, METH_NOARGS, "begin the span"},
    {"__exit__", (PyCFunction)(void (*)(void))fast_exit, METH_FASTCALL, "end the span"},
    {0},
};
static PyType_Slot fast_slots[] = {{Py_tp_doc,
                                    (void *)"RecordFunctionFast(name, input_values=None, keyword_values=None)\n--\n\n"
                                            "Stands in for torch._C._profiler._RecordFunctionFast while recording."},
                                   {Py_tp_new, fast_new},
                                   {Py_tp_dealloc, fast_dealloc},
                                   {Py_tp_traverse, fast_traverse},
                                   {Py_tp_clear, fast_clear},
                                   {Py_tp_methods, fast_methods},
                                   {0}};
static PyType_Spec fast_spec = {"tachograph._record.RecordFunctionFast", sizeof(Fast), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, fast_slots};

bool tg__python_fast_is_off(void) {
  PyObject *const modules = PyImport_GetModuleDict(), *const torch = modules ? PyDict_GetItemString(modules, "torch._C")
                                                                             : NULL; /* borrowed */
  PyObject *const profiler = torch ? PyObject_GetAttrString(torch, "_profiler") : NULL;
  PyObject *const fast = profiler ? PyObject_GetAttrString(profiler, "_RecordFunctionFast") : NULL;
  const bool is_off = fast != (PyObject *)fast_type;
  PyErr_Clear();
  Py_XDECREF(fast);
  Py_XDECREF(profiler);
  return is_off;
}

bool tg__python_fast_register(PyObject *module) {
  fast_type = (PyTypeObject *)PyType_FromSpec(&fast_spec);
  return fast_type && PyModule_AddObject(module, "RecordFunctionFast", (PyObject *)fast_type) == 0;
}
