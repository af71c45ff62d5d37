/* capture: what annotations of Python code were given, as a SHAPE entry (format/inputs.def). Values are asked
 * through Python, so this is for the few spans that have any, never for operators. A value that is not simple is kept
 * as OTHER; only exact types are asked, so that no method of the user's runs. */
#include "capture/python_api.h"

enum { BLOB_MAX = 8192, TEXT_MAX = 2048, LIST_MAX = 30 /* as the framework: longer lists of numbers are not kept */ };

struct blob {
  uint8_t *p, *end;
  bool full;
};

static uint8_t *room(struct blob *b, size_t len) {
  if (b->full || (size_t)(b->end - b->p) < len) {
    b->full = true;
    return NULL;
  }
  uint8_t *const at = b->p;
  b->p += len;
  return at;
}

static void put8(struct blob *b, uint8_t v) {
  uint8_t *const at = room(b, 1);
  if (at) *at = v;
}

static void put16(struct blob *b, uint16_t v) {
  uint8_t *const at = room(b, 2);
  if (at) tg__set16(at, v);
}

static void put64(struct blob *b, uint64_t v) {
  uint8_t *const at = room(b, 8);
  if (at) tg__set64(at, v);
}

static void put_double(struct blob *b, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  put64(b, bits);
}

static void put_input_text(struct blob *b, PyObject *text) {
  PyObject *owner;
  size_t len = 0;
  const char *bytes = tg__python_text(text, &len, &owner);
  if (!bytes) len = 0;
  if (len > TEXT_MAX) len = TEXT_MAX;
  while (len && bytes && ((uint8_t)bytes[len] & 0xc0) == 0x80)
    len--; /* cut between characters; a str ends in a zero byte */
  put16(b, (uint16_t)len);
  uint8_t *const at = room(b, len);
  if (at && len) memcpy(at, bytes, len);
  Py_XDECREF(owner);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Types of torch, kept for ever. Looked up again while torch is not loaded. */
static struct {
  PyObject *tensor, *parameter, *dtypes; /* dtypes: dtype → number of the scalar type */
} known;

static PyObject *dtypes_new(PyObject *torch) {
  /* In the order of c10::ScalarType, which only grows. */
  static const char *const names[] = {"uint8",           "int8",
                                      "int16",           "int32",
                                      "int64",           "float16",
                                      "float32",         "float64",
                                      "complex32",       "complex64",
                                      "complex128",      "bool",
                                      "qint8",           "quint8",
                                      "qint32",          "bfloat16",
                                      "quint4x2",        "quint2x4",
                                      "bits1x8",         "bits2x4",
                                      "bits4x2",         "bits8",
                                      "bits16",          "float8_e5m2",
                                      "float8_e4m3fn",   "float8_e5m2fnuz",
                                      "float8_e4m3fnuz", "uint16",
                                      "uint32",          "uint64"};
  PyObject *const dict = PyDict_New();
  for (size_t i = 0; dict && i < sizeof names / sizeof *names; i++) {
    PyObject *const dtype = PyObject_GetAttrString(torch, names[i]), *const number =
                                                                         dtype ? PyLong_FromSize_t(i) : NULL;
    if (number) PyDict_SetItem(dict, dtype, number);
    Py_XDECREF(number);
    Py_XDECREF(dtype);
    PyErr_Clear();
  }
  return dict;
}

static void torch_find(void) {
  PyObject *const modules = PyImport_GetModuleDict(), *const torch = modules ? PyDict_GetItemString(modules, "torch")
                                                                             : NULL; /* borrowed */
  PyObject *const nn = torch ? PyObject_GetAttrString(torch, "nn") : NULL;
  known.parameter = nn ? PyObject_GetAttrString(nn, "Parameter") : NULL;
  known.tensor = known.parameter ? PyObject_GetAttrString(torch, "Tensor") : NULL;
  if (known.tensor) known.dtypes = dtypes_new(torch);
  if (PyErr_Occurred()) PyErr_Clear();
  Py_XDECREF(nn);
}

static bool is_plain_tensor(const PyObject *value) {
  if (!known.tensor) torch_find();
  const PyObject *const type = (const PyObject *)Py_TYPE(value);
  return known.tensor && (type == known.tensor || type == known.parameter);
}

/* The numbers of a tuple of ints; false when one is symbolic. */
static bool put_sizes(struct blob *b, PyObject *tuple) {
  if (!tuple || !PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject *const item = PyTuple_GET_ITEM(tuple, i);
    if (!PyLong_Check(item)) return false;
    put64(b, (uint64_t)PyLong_AsLongLong(item));
  }
  return true;
}

static uint8_t scalar_type(PyObject *tensor) {
  PyObject *const dtype = PyObject_GetAttrString(tensor, "dtype");
  PyObject *const number = dtype && known.dtypes ? PyDict_GetItemWithError(known.dtypes, dtype) : NULL;
  const uint8_t n = number ? (uint8_t)PyLong_AsLong(number) : UINT8_MAX;
  Py_XDECREF(dtype);
  return n;
}

static void put_tensor(struct blob *b, PyObject *tensor) {
  uint8_t *const start = b->p;
  PyObject *const sizes = PyObject_GetAttrString(tensor, "shape"); /* raises for nested tensors */
  PyErr_Clear();
  PyObject *const strides = sizes ? PyObject_CallMethod(tensor, "stride", NULL) : NULL; /* raises for sparse ones */
  PyErr_Clear();
  const Py_ssize_t dims = sizes && PyTuple_Check(sizes) ? PyTuple_GET_SIZE(sizes) : -1;
  bool ok = dims >= 0 && dims <= UINT8_MAX;
  if (ok) {
    const bool strided = strides && PyTuple_Check(strides) && PyTuple_GET_SIZE(strides) == dims;
    put8(b, TG_INPUT_TENSOR);
    put8(b, scalar_type(tensor));
    put8(b, (uint8_t)dims);
    put8(b, strided);
    ok = put_sizes(b, sizes) && (!strided || put_sizes(b, strides));
  }
  if (!ok && !b->full) {
    b->p = start;
    put8(b, TG_INPUT_UNDEFINED);
  }
  PyErr_Clear();
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void put_input_int(struct blob *b, PyObject *value) {
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(value, &overflow);
  put8(b, overflow ? TG_INPUT_SCALAR : TG_INPUT_INT);
  if (!overflow) put64(b, (uint64_t)v);
}

/* The list kind that holds all items; 0 when they differ. */
static enum tg__input_kind list_kind(PyObject *const *items, Py_ssize_t n) {
  enum tg__input_kind kind = TG_INPUT_NONE;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *const o = items[i];
    const enum tg__input_kind this = PyBool_Check(o)           ? TG_INPUT_BOOL_LIST
                                     : PyLong_CheckExact(o)    ? TG_INPUT_INT_LIST
                                     : PyFloat_CheckExact(o)   ? TG_INPUT_DOUBLE_LIST
                                     : PyUnicode_CheckExact(o) ? TG_INPUT_STRING_LIST
                                     : is_plain_tensor(o)      ? TG_INPUT_TENSOR_LIST
                                                               : TG_INPUT_NONE;
    if (!this || (kind && this != kind)) return TG_INPUT_NONE;
    kind = this;
  }
  return kind;
}

static void put_list(struct blob *b, PyObject *list) {
  PyObject *const *const items = PySequence_Fast_ITEMS(list); /* list or tuple, exactly */
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  const enum tg__input_kind kind = n <= UINT16_MAX ? list_kind(items, n) : TG_INPUT_NONE;
  const bool is_number = kind == TG_INPUT_INT_LIST || kind == TG_INPUT_DOUBLE_LIST || kind == TG_INPUT_BOOL_LIST;
  if (!kind || (is_number && n > LIST_MAX)) {
    put8(b, is_number ? TG_INPUT_SCALAR_LIST : TG_INPUT_OTHER);
    return;
  }
  put8(b, (uint8_t)kind);
  put16(b, (uint16_t)n);
  for (Py_ssize_t i = 0; i < n && !b->full; i++) {
    if (kind == TG_INPUT_TENSOR_LIST)
      put_tensor(b, items[i]);
    else if (kind == TG_INPUT_STRING_LIST)
      put_input_text(b, items[i]);
    else if (kind == TG_INPUT_DOUBLE_LIST)
      put_double(b, PyFloat_AS_DOUBLE(items[i]));
    else if (kind == TG_INPUT_BOOL_LIST)
      put8(b, items[i] == Py_True);
    else
      put64(b, (uint64_t)PyLong_AsLongLong(items[i]));
  }
  PyErr_Clear(); /* an int over 64 bits inside a list reads as -1 */
}

/* One value; one that does not fit is OTHER. */
static void put_input_value(struct blob *b, PyObject *value) {
  uint8_t *const start = b->p;
  if (value == Py_None) {
    put8(b, TG_INPUT_NONE);
  } else if (PyBool_Check(value)) {
    put8(b, TG_INPUT_BOOL);
    put8(b, value == Py_True);
  } else if (PyLong_CheckExact(value)) {
    put_input_int(b, value);
  } else if (PyFloat_CheckExact(value)) {
    put8(b, TG_INPUT_DOUBLE);
    put_double(b, PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_Check(value)) {
    put8(b, TG_INPUT_STRING);
    put_input_text(b, value);
  } else if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    put_list(b, value);
  } else if (is_plain_tensor(value)) {
    put_tensor(b, value);
  } else {
    put8(b, TG_INPUT_OTHER);
  }
  if (!b->full || start == b->end) return;
  b->p = start;
  b->full = false;
  put8(b, TG_INPUT_OTHER);
}

static void put_keywords(struct blob *b, PyObject *dict) {
  PyObject *name, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &name, &value) && !b->full) {
    if (!PyUnicode_Check(name)) continue;
    uint8_t *const start = b->p;
    put8(b, TG_INPUT_KEYWORD);
    put_input_text(b, name);
    if (!b->full && b->p < b->end) {
      put_input_value(b, value);
    } else {
      b->p = start;
      b->full = true;
    }
  }
}

uint32_t tg__python_inputs(struct tg__thread *t, PyObject *values, PyObject *keywords) {
  uint8_t bytes[BLOB_MAX];
  struct blob b = {bytes, bytes + sizeof bytes, false};
  if (values && (PyList_CheckExact(values) || PyTuple_CheckExact(values))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values) && !b.full; i++)
      put_input_value(&b, PySequence_Fast_GET_ITEM(values, i));
  } else if (values) {
    put_input_value(&b, values);
  }
  if (keywords && PyDict_Check(keywords)) put_keywords(&b, keywords);
  return b.p > bytes ? tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, bytes, (size_t)(b.p - bytes)) : 0;
}
