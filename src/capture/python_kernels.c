/* capture: a wrapper around a compiled kernel, `cpp_fused_…` or `triton_…` in a module that torch.compile wrote. It
 * is put into such modules when a recording starts and taken out when it stops
 * (python/tachograph/_collect/native.py); 25 ns a call. */
#include "capture/python_api.h"

#include <structmember.h>

typedef struct {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *name, *wrapped;
} Kernel;

static PyTypeObject *kernel_type;

static PyObject *kernel_vectorcall(PyObject *object, PyObject *const *values, size_t flags, PyObject *keywords) {
  const Kernel *const self = (const Kernel *)object;
  struct tg__python_span span;
  span.thread = NULL;
  tg__python_span_begin(&span, self->name, TG_RAW_OP, NULL, NULL);
  PyObject *const result = PyObject_Vectorcall(self->wrapped, values, flags, keywords);
  tg__python_span_end(&span, self->name);
  return result;
}

static PyObject *kernel_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  PyObject *name, *wrapped;
  static char *names[] = {"name", "kernel", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "UO:Kernel", names, &name, &wrapped)) return NULL;
  if (!PyCallable_Check(wrapped))
    return PyErr_Format(PyExc_TypeError, "Kernel: %.100s cannot be called", Py_TYPE(wrapped)->tp_name);
  Kernel *const self = (Kernel *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->vectorcall = kernel_vectorcall;
  self->name = Py_NewRef(name);
  self->wrapped = Py_NewRef(wrapped);
  return (PyObject *)self;
}

static int kernel_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((const Kernel *)object)->wrapped);
  Py_VISIT(Py_TYPE(object));
  return 0;
}

static int kernel_clear(PyObject *object) {
  Py_CLEAR(((Kernel *)object)->wrapped);
  return 0;
}

static void kernel_dealloc(PyObject *object) {
  PyTypeObject *const type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  kernel_clear(object);
  Py_CLEAR(((Kernel *)object)->name);
  type->tp_free(object);
  Py_DECREF(type);
}

/* Whatever else is asked of the kernel (its name, its autotuner's methods) is the kernel's own. */
static PyObject *kernel_getattro(PyObject *object, PyObject *name) {
  PyObject *const value = PyObject_GenericGetAttr(object, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError) || !((const Kernel *)object)->wrapped) return value;
  PyErr_Clear();
  return PyObject_GetAttr(((const Kernel *)object)->wrapped, name);
}

static PyMemberDef kernel_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT, offsetof(Kernel, wrapped), READONLY, "the kernel itself"},
    {0},
};
static PyType_Slot kernel_slots[] = {
    {Py_tp_doc,
     (void *)"Kernel(name, kernel)\n--\n\nCalls the kernel, as an operator of that name while a recording runs."},
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_clear, kernel_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_getattro, kernel_getattro},
    {Py_tp_members, kernel_members},
    {0}};
static PyType_Spec kernel_spec = {
    "tachograph._record.Kernel", sizeof(Kernel), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE, kernel_slots};

bool tg__python_kernels_register(PyObject *module) {
  kernel_type = (PyTypeObject *)PyType_FromSpec(&kernel_spec);
  return kernel_type && PyModule_AddObject(module, "Kernel", (PyObject *)kernel_type) == 0;
}
