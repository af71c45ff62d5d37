/* capture: names given as Python strings become numbers. A str object seen before costs one comparison of addresses. */
#include "capture/python_api.h"

enum { CACHED_TEXT_MAX = 512 }; /* a longer str is not kept alive for the cache */

struct tg__python_names *tg__python_names_slow(struct tg__thread *t) {
  struct tg__python_names *n = t->own[TG_SLOT_PYTHON_NAMES];
  if (!n) t->own[TG_SLOT_PYTHON_NAMES] = n = tg__capture_pages(sizeof *n);
  if (!n) return NULL;
  for (size_t i = 0; i < TG_PYTHON_NAMES; i++) Py_CLEAR(n->known[i].text);
  n->orphans = 0;
  t->own_generation[TG_SLOT_PYTHON_NAMES] = t->generation;
  return n;
}

const char *tg__python_text(PyObject *text, size_t *len, PyObject **owner) {
  Py_ssize_t n = 0;
  *owner = NULL;
  const char *bytes = PyUnicode_AsUTF8AndSize(text, &n);
  if (!bytes) { /* halves of surrogates have no UTF-8; their three bytes are kept as they would be encoded */
    PyErr_Clear();
    *owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (!*owner) PyErr_Clear();
    bytes = *owner ? PyBytes_AS_STRING(*owner) : NULL;
    n = *owner ? PyBytes_GET_SIZE(*owner) : 0;
  }
  *len = (size_t)n;
  return bytes;
}

/* In the file a zero byte parts the name from the overload: in a name of the user's it is shown as the symbol for
 * it. */
static PyObject *without_zeros(PyObject *text) {
  PyObject *const zero = PyUnicode_FromStringAndSize("", 1), *const symbol = PyUnicode_FromString("\xe2\x90\x80");
  PyObject *const result = zero && symbol ? PyUnicode_Replace(text, zero, symbol, -1) : NULL;
  Py_XDECREF(zero);
  Py_XDECREF(symbol);
  return result;
}

static uint32_t intern_text(struct tg__thread *t, PyObject *text) {
  PyObject *owner, *clean = NULL;
  size_t len;
  const char *bytes = tg__python_text(text, &len, &owner);
  if (bytes && memchr(bytes, 0, len)) {
    clean = without_zeros(text);
    if (!clean) PyErr_Clear();
    Py_CLEAR(owner);
    bytes = clean ? tg__python_text(clean, &len, &owner) : NULL;
  }
  const uint32_t id = bytes ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, bytes, len) : 0;
  Py_XDECREF(owner);
  Py_XDECREF(clean);
  return id;
}

uint32_t tg__python_name_slow(struct tg__thread *t, PyObject *text) {
  const uint32_t id = intern_text(t, text);
  struct tg__python_names *const n = tg__python_names(t);
  if (!id || !n || PyUnicode_GET_LENGTH(text) > CACHED_TEXT_MAX) return id;
  const size_t at = tg__python_name_place(text);
  PyObject *const old = n->known[at].text;
  n->known[at].text = Py_NewRef(text);
  n->known[at].id = id;
  Py_XDECREF(old);
  return id;
}
