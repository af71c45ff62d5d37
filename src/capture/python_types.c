/* capture: record_function, the annotation for Python code: a context manager and a decorator that costs next to
 * nothing while nothing is recorded. Made by vectorcall, from a free list; it holds two strings and so needs no
 * garbage collection.
 *
 * Most of what a `with` costs is the two bound methods Python makes of __enter__ and __exit__. Here there are none:
 * the two are descriptors that return the object itself, and the object, when it is called, decides by the number of
 * arguments what is meant: none = enter, three = exit, one = decorate. */
#include "capture/python_api.h"
#include "capture/torch.h"

#include <structmember.h>

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *name, *args; /* str; args may be NULL */
  struct tg__python_span span;
  PyObject *theirs;           /* torch's own label of the same block, while another profiler watches this thread */
  char run_callbacks_on_exit; /* torch's name for it: false once a future will end the span */
} Annotation;

enum { FREE_MAX = 32 };
static struct {
  PyTypeObject *type;
  Annotation *free[FREE_MAX];
  unsigned count;
  PyObject *elsewhere; /* what makes annotations while torch's own collector records; else NULL */
  /* Other profilers than ours, which see only torch's own labels. */
  PyObject *make_theirs; /* torch's record_function; NULL: torch is not loaded */
  struct tg__torch_observers torch;
  long observers; /* that watch all threads while ours records, as execution traces do */
} annotations;

static PyObject *annotation_called(PyObject *object, PyObject *const *values, size_t flags, PyObject *keywords);

static bool annotation_fill(Annotation *self, PyObject *name, PyObject *args) {
  if (TG_UNLIKELY(!PyUnicode_Check(name))) {
    PyErr_Format(PyExc_TypeError, "record_function: the name must be a str, not %.100s", Py_TYPE(name)->tp_name);
    return false;
  }
  if (TG_UNLIKELY(args && args != Py_None && !PyUnicode_Check(args))) {
    PyErr_Format(PyExc_TypeError, "record_function: args must be a str or None, not %.100s", Py_TYPE(args)->tp_name);
    return false;
  }
  PyObject *const old_name = self->name, *const old_args = self->args;
  self->name = Py_NewRef(name);
  self->args = args && args != Py_None ? Py_NewRef(args) : NULL;
  self->run_callbacks_on_exit = 1;
  Py_XDECREF(old_name);
  Py_XDECREF(old_args);
  return true;
}

static PyObject *annotation_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  Annotation *const self = (Annotation *)type->tp_alloc(type, 0);
  if (self) self->vectorcall = annotation_called;
  return (PyObject *)self;
}

static int annotation_init(PyObject *object, PyObject *args, PyObject *keywords) {
  static char *names[] = {"name", "args", NULL};
  PyObject *name, *arguments = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:record_function", names, &name, &arguments)) return -1;
  return annotation_fill((Annotation *)object, name, arguments) ? 0 : -1;
}

static PyObject *annotation_new_slow(PyObject *const *values, Py_ssize_t n, PyObject *keywords) {
  PyObject *const object = annotation_new(annotations.type, NULL, NULL), *const tuple = PyTuple_New(n),
                  *const dict = PyDict_New();
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(values[i]));
  for (Py_ssize_t i = 0; dict && keywords && i < PyTuple_GET_SIZE(keywords); i++)
    PyDict_SetItem(dict, PyTuple_GET_ITEM(keywords, i), values[n + i]);
  const bool ok = object && tuple && dict && annotation_init(object, tuple, dict) == 0;
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  if (ok) return object;
  Py_XDECREF(object);
  return NULL;
}

/* The common forms record_function("name") and record_function("name", "args") go without tuple and dict. */
static PyObject *annotation_vectorcall(PyObject *type, PyObject *const *values, size_t flags, PyObject *keywords) {
  if (TG_UNLIKELY(annotations.elsewhere != NULL))
    return PyObject_Vectorcall(annotations.elsewhere, values, flags, keywords);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (TG_UNLIKELY(n < 1 || n > 2 || keywords)) return annotation_new_slow(values, n, keywords);
  Annotation *self;
  if (TG_LIKELY(annotations.count)) {
    self = annotations.free[--annotations.count];
    PyObject_Init((PyObject *)self, annotations.type);
  } else {
    self = (Annotation *)annotation_new(annotations.type, NULL, NULL);
    if (!self) return NULL;
  }
  if (TG_LIKELY(annotation_fill(self, values[0], n > 1 ? values[1] : NULL))) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

static void annotation_dealloc(PyObject *object) {
  Annotation *const self = (Annotation *)object;
  PyTypeObject *const type = Py_TYPE(object);
  if (TG_UNLIKELY(self->span.thread != NULL)) tg__python_span_forget(&self->span);
  Py_CLEAR(self->name);
  Py_CLEAR(self->args);
  Py_CLEAR(self->theirs);
  if (TG_LIKELY(type == annotations.type && annotations.count < FREE_MAX))
    annotations.free[annotations.count++] = self;
  else
    type->tp_free(object);
  Py_DECREF(type);
}

/* ---- as a context manager -------------------------------------------------------------------- */

/* Our own callback is one for all threads: while it is there, `observers` counts the others. */
static bool is_ours_on(void) { return atomic_load_explicit(&tg__features, memory_order_relaxed) & TG_RECORD_OPS; }

static bool is_watched(void) {
  return annotations.make_theirs &&
         (annotations.observers || annotations.torch.on_thread() ||
          (!is_ours_on() && annotations.torch.on_all_threads && annotations.torch.on_all_threads()));
}

/* torch's own label for the block. true: our recorder sees that one as it sees operators, and needs none of ours. */
__attribute__((noinline)) static bool theirs_begin(Annotation *self) {
  if (self->theirs) return false;
  PyObject *const label =
      PyObject_CallFunctionObjArgs(annotations.make_theirs, self->name, self->args ? self->args : Py_None, NULL);
  PyObject *const entered = label ? PyObject_CallMethod(label, "__enter__", NULL) : NULL;
  if (entered)
    self->theirs = Py_NewRef(label);
  else
    PyErr_Clear(); /* the label is for others: the program goes on without it */
  Py_XDECREF(entered);
  Py_XDECREF(label);
  return self->theirs && is_ours_on();
}

__attribute__((noinline)) static void theirs_end(Annotation *self) {
  PyObject *const label = self->theirs;
  self->theirs = NULL;
  PyObject *const done = PyObject_CallMethod(label, "__exit__", "OOO", Py_None, Py_None, Py_None);
  if (!done) PyErr_Clear();
  Py_XDECREF(done);
  Py_DECREF(label);
}

static PyObject *annotation_enter(Annotation *self) {
  if (TG_LIKELY(self->name != NULL) && !(TG_UNLIKELY(is_watched()) && theirs_begin(self)))
    tg__python_span_begin(&self->span, self->name, TG_RAW_ANNOTATION, self->args, NULL);
  return Py_NewRef((PyObject *)self);
}

static PyObject *annotation_exit(Annotation *self) {
  if (TG_LIKELY(self->run_callbacks_on_exit))
    tg__python_span_end(&self->span, self->name);
  else
    tg__python_span_detach(&self->span); /* what follows on this thread is not inside it */
  if (TG_UNLIKELY(self->theirs != NULL)) theirs_end(self);
  Py_RETURN_NONE;
}

/* __enter__ and __exit__ in the type: called through the class they are functions of the object. */
typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  bool is_exit;
} Method;

static PyObject *method_called(PyObject *object, PyObject *const *values, size_t flags, PyObject *keywords) {
  const bool is_exit = ((const Method *)object)->is_exit;
  const Py_ssize_t wanted = is_exit ? 4 : 1;
  if (PyVectorcall_NARGS(flags) != wanted || keywords || !PyObject_TypeCheck(values[0], annotations.type))
    return PyErr_Format(PyExc_TypeError, is_exit ? "__exit__ takes a record_function, type, value and traceback"
                                                 : "__enter__ takes a record_function");
  return is_exit ? annotation_exit((Annotation *)values[0]) : annotation_enter((Annotation *)values[0]);
}

static PyObject *method_get(PyObject *object, PyObject *instance, PyObject *type) {
  if (TG_LIKELY(instance && Py_TYPE(instance) == annotations.type)) return Py_NewRef(instance);
  return instance ? PyMethod_New(object, instance) : Py_NewRef(object); /* a subclass may have a __call__ of its own */
}

static void method_dealloc(PyObject *object) {
  PyTypeObject *const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

static PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, NULL}, {0}};
static PyType_Slot method_slots[] = {{Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_descr_get, method_get},
                                     {Py_tp_dealloc, method_dealloc},
                                     {Py_tp_members, method_members},
                                     {0}};
static PyType_Spec method_spec = {"tachograph._record._method", sizeof(Method), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                                  method_slots};

static bool methods_add(PyTypeObject *to) {
  PyTypeObject *const type = (PyTypeObject *)PyType_FromSpec(&method_spec);
  bool ok = type != NULL;
  for (int is_exit = 0; ok && is_exit < 2; is_exit++) {
    Method *const m = (Method *)type->tp_alloc(type, 0);
    if (m) {
      m->vectorcall = method_called;
      m->is_exit = is_exit;
    }
    ok = m && PyDict_SetItemString(to->tp_dict, is_exit ? "__exit__" : "__enter__", (PyObject *)m) == 0;
    Py_XDECREF(m);
  }
  Py_XDECREF(type);
  PyType_Modified(to);
  return ok;
}

/* ---- as a decorator -------------------------------------------------------------------------- */

static PyObject *annotation_decorate(PyObject *object, PyObject *function) {
  PyObject *const module = PyImport_ImportModule("tachograph._labels.decorate");
  PyObject *const result = module ? PyObject_CallMethod(module, "decorate", "OO", object, function) : NULL;
  Py_XDECREF(module);
  return result;
}

static PyObject *annotation_called(PyObject *object, PyObject *const *values, size_t flags, PyObject *keywords) {
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  if (TG_LIKELY(!named && n == 0)) return annotation_enter((Annotation *)object);
  if (TG_LIKELY(!named && n == 3)) return annotation_exit((Annotation *)object);
  if (n + named != 1)
    return PyErr_Format(PyExc_TypeError, "a record_function decorates one function (%zd arguments given)", n + named);
  return annotation_decorate(object, values[0]);
}

static PyObject *
annotation_recreate(PyObject *object,
                    PyObject *unused) { /* a decorated function may be inside itself, or on two threads */
  const Annotation *const self = (const Annotation *)object;
  return PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(object), self->name, self->args ? self->args : Py_None, NULL);
}

/* ---- futures --------------------------------------------------------------------------------- */

static PyObject *annotation_future_done(PyObject *object, PyObject *future) {
  Annotation *const self = (Annotation *)object;
  tg__python_span_end(&self->span, self->name);
  return PyObject_CallMethod(future, "value", NULL);
}

static PyObject *annotation_end_on_future(PyObject *object, PyObject *future) {
  Annotation *const self = (Annotation *)object;
  if (!self->run_callbacks_on_exit) {
    PyErr_SetString(PyExc_RuntimeError, "_call_end_callbacks_on_future can only be called once.");
    return NULL;
  }
  PyObject *const done = PyObject_GetAttrString(object, "_future_done");
  PyObject *const result = done ? PyObject_CallMethod(future, "then", "O", done) : NULL;
  if (result) self->run_callbacks_on_exit = 0;
  Py_XDECREF(done);
  return result;
}

static PyObject *annotations_forward(PyObject *module, PyObject *make) {
  PyObject *const old = annotations.elsewhere;
  annotations.elsewhere = make == Py_None ? NULL : Py_NewRef(make);
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

/* watch(make): torch is loaded, and make is its record_function. */
static PyObject *annotations_watch(PyObject *module, PyObject *make) {
  if (tg__torch_find_observers(&annotations.torch)) Py_XSETREF(annotations.make_theirs, Py_NewRef(make));
  Py_RETURN_NONE;
}

static PyObject *annotations_observed(PyObject *module, PyObject *more) {
  const long count = PyLong_AsLong(more);
  if (count == -1 && PyErr_Occurred()) return NULL;
  annotations.observers += count;
  Py_RETURN_NONE;
}

bool tg__python_labels_are_ours(void) { return annotations.elsewhere == NULL; }

/* ---- the type -------------------------------------------------------------------------------- */

static PyObject *annotation_repr(PyObject *object) {
  const Annotation *const self = (const Annotation *)object;
  return PyUnicode_FromFormat("record_function(%R)", self->name ? self->name : Py_None);
}

static PyMethodDef annotation_methods[] = {
    {"_recreate_cm", annotation_recreate, METH_NOARGS, "a new one of the same name"},
    {"_call_end_callbacks_on_future", annotation_end_on_future, METH_O,
     "_call_end_callbacks_on_future(fut): the span lasts until the future is done; returns a future of the same value"},
    {"_future_done", annotation_future_done, METH_O, "end the span, return the future's value"},
    {0},
};
static PyMemberDef annotation_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Annotation, vectorcall), READONLY, NULL},
    {"name", T_OBJECT, offsetof(Annotation, name), READONLY, "the label"},
    {"args", T_OBJECT, offsetof(Annotation, args), READONLY, "a text recorded as its input, or None"},
    {"run_callbacks_on_exit", T_BOOL, offsetof(Annotation, run_callbacks_on_exit), READONLY,
     "false once a future ends the span"},
    {0},
};
static const char annotation_doc[] = "record_function(name, args=None)\n--\n\n"
                                     "Label a block of code, with `with` or as a decorator. While nothing is recorded "
                                     "it costs about as much as the with statement itself.";
static PyType_Slot annotation_slots[] = {
    {Py_tp_doc, (void *)annotation_doc}, {Py_tp_new, annotation_new},         {Py_tp_init, annotation_init},
    {Py_tp_dealloc, annotation_dealloc}, {Py_tp_call, PyVectorcall_Call},     {Py_tp_repr, annotation_repr},
    {Py_tp_methods, annotation_methods}, {Py_tp_members, annotation_members}, {0}};
static PyType_Spec annotation_spec = {
    "tachograph._record.record_function", sizeof(Annotation), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, annotation_slots};

static PyMethodDef annotation_functions[] = {
    {"forward", annotations_forward, METH_O,
     "forward(make): from now on record_function(…) is make(…); None ends that"},
    {"watch", annotations_watch, METH_O,
     "watch(make): torch is loaded; where its profilers watch, record_function is make, torch's label, as well"},
    {"observed", annotations_observed, METH_O,
     "observed(more): so many more observers watch all threads; fewer, where it is negative"},
    {0},
};

bool tg__python_types_register(PyObject *module) {
  annotations.type = (PyTypeObject *)PyType_FromSpec(&annotation_spec);
  if (!annotations.type || !methods_add(annotations.type) || !tg__source_add(&tg__source_spans)) return false;
  annotations.type->tp_vectorcall = annotation_vectorcall;
  return PyModule_AddFunctions(module, annotation_functions) == 0 &&
         PyModule_AddObject(module, "record_function", Py_NewRef((PyObject *)annotations.type)) == 0;
}
