/* Tables for Python: rows, columns as buffers, text, and the Arrow capsules. No number is copied on its way out. */
#include "_read.h"

#include <errno.h>

/* ---- the Arrow C data interface, as its specification lays it down --------------------------- */

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD struct tg_table *table; /* never NULL after make_table; owns its rows, so it may outlive the trace */
  bool is_given;                        /* its columns may be written to */
} Table;

typedef struct {
  PyObject_HEAD PyObject *owner; /* the Table */
  size_t index;
  Py_ssize_t shape; /* buffer views point at it */
} Column;

static PyTypeObject *table_type, *column_type;

/* ---- columns --------------------------------------------------------------------------------- */

static const struct tg_table *column_table(const Column *self) { return ((const Table *)self->owner)->table; }

static Py_ssize_t column_length(PyObject *object) { return (Py_ssize_t)tg_table_rows(column_table((Column *)object)); }

static PyObject *table_cell(const struct tg_table *t, size_t c, size_t row) {
  switch (tg_column_type(t, c)) {
  case TG_INT: {
    int64_t v = tg_column_ints(t, c)[row];
    return v == TG_NULL_INT ? Py_NewRef(Py_None) : PyLong_FromLongLong(v);
  }
  case TG_REAL: {
    double v = tg_column_reals(t, c)[row];
    return v != v ? Py_NewRef(Py_None) : PyFloat_FromDouble(v);
  }
  case TG_BOOL: {
    int8_t v = tg_column_bools(t, c)[row];
    return v < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(v);
  }
  case TG_TEXT:
    break;
  }
  size_t len;
  const char *text = tg_cell_text(t, c, row, &len);
  return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace") : Py_NewRef(Py_None);
}

static PyObject *column_item(PyObject *object, Py_ssize_t i) {
  const Column *self = (Column *)object;
  if (i < 0 || i >= column_length(object)) {
    PyErr_SetString(PyExc_IndexError, "row out of range");
    return NULL;
  }
  return table_cell(column_table(self), self->index, (size_t)i);
}

/* The numbers themselves, not a copy. Unknown is INT64_MIN, NaN or -1 there: a buffer has no room for None. */
static int column_buffer(PyObject *object, Py_buffer *view, int flags) {
  Column *self = (Column *)object;
  const struct tg_table *t = column_table(self);
  const void *data = NULL;
  const char *format = "b";
  Py_ssize_t size = 8;
  switch (tg_column_type(t, self->index)) {
  case TG_INT:
    data = tg_column_ints(t, self->index), format = "q";
    break;
  case TG_REAL:
    data = tg_column_reals(t, self->index), format = "d";
    break;
  case TG_BOOL:
    data = tg_column_bools(t, self->index), size = 1;
    break;
  case TG_TEXT:
    break;
  }
  const bool is_given = ((const Table *)self->owner)->is_given;
  if (tg_column_type(t, self->index) == TG_TEXT || (!is_given && (flags & PyBUF_WRITABLE))) {
    view->obj = NULL;
    PyErr_SetString(PyExc_BufferError,
                    flags & PyBUF_WRITABLE ? "a column cannot be written to" : "a column of text has no buffer");
    return -1;
  }
  self->shape = column_length(object);
  static int64_t nothing; /* a table without rows has no arrays, but a view must point somewhere */
  *view = (Py_buffer){.buf = (void *)(data ? data : &nothing),
                      .obj = Py_NewRef(object),
                      .len = self->shape * size,
                      .itemsize = size,
                      .readonly = !is_given,
                      .ndim = 1,
                      .format = flags & PyBUF_FORMAT ? (char *)format : NULL,
                      .shape = &self->shape};
  view->strides = flags & PyBUF_STRIDES ? &view->itemsize : NULL;
  return 0;
}

static PyObject *column_get(PyObject *object, void *which) {
  const Column *self = (Column *)object;
  static const char *const types[] = {[TG_TEXT] = "text", [TG_INT] = "int", [TG_REAL] = "real", [TG_BOOL] = "bool"};
  const struct tg_table *t = column_table(self);
  switch (*(const char *)which) {
  case 'n':
    return PyUnicode_FromString(tg_column_name(t, self->index));
  case 'u':
    return PyUnicode_FromString(tg_column_unit(t, self->index));
  default:
    return PyUnicode_FromString(types[tg_column_type(t, self->index)]);
  }
}

static void column_dealloc(PyObject *object) {
  Py_XDECREF(((Column *)object)->owner);
  free_object(object);
}

/* A copy: the bytes outlive the table. */
static PyObject *column_codes(PyObject *object, PyObject *unused) {
  (void)unused;
  const Column *self = (Column *)object;
  const uint32_t *codes = tg_column_codes(column_table(self), self->index);
  const Py_ssize_t rows = column_length(object);
  if (!codes && rows > 0) return PyErr_Format(PyExc_TypeError, "only a column of text has codes");
  return PyBytes_FromStringAndSize((const char *)codes, rows * (Py_ssize_t)sizeof *codes);
}

static PyMethodDef column_methods[] = {
    {"codes", column_codes, METH_NOARGS,
     "a uint32 a row, as bytes: equal texts have equal numbers, also in other columns of the table; 4294967295 = "
     "unknown"},
    {0},
};
static PyGetSetDef column_getset[] = {
    {"name", column_get, NULL, "name of the column", "n"},
    {"unit", column_get, NULL, "unit of its values, \"\" for none", "u"},
    {"type", column_get, NULL, "\"text\", \"int\", \"real\" or \"bool\"", "t"},
    {0},
};
static PyType_Slot column_slots[] = {
    {Py_tp_dealloc, column_dealloc},
    {Py_sq_length, column_length},
    {Py_sq_item, column_item},
    {Py_bf_getbuffer, column_buffer},
    {Py_tp_getset, column_getset},
    {Py_tp_methods, column_methods},
    {0},
};
static PyType_Spec column_spec = {"tachograph._read.Column", sizeof(Column), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, column_slots};

/* ---- tables ---------------------------------------------------------------------------------- */

struct tg_table *table_of(PyObject *object) {
  if (PyObject_TypeCheck(object, table_type)) return ((Table *)object)->table;
  PyErr_SetString(PyExc_TypeError, "a Table expected");
  return NULL;
}

PyObject *make_table(PyTypeObject *type, struct tg_table *table) {
  Table *self = new_object(type);
  if (!self) {
    tg_table_free(table);
    return NULL;
  }
  self->table = table;
  return (PyObject *)self;
}

static void table_dealloc(PyObject *object) {
  tg_table_free(((Table *)object)->table);
  free_object(object);
}

static Py_ssize_t table_length(PyObject *object) { return (Py_ssize_t)tg_table_rows(((Table *)object)->table); }

static PyObject *table_column(PyObject *object, PyObject *name) {
  const struct tg_table *t = ((Table *)object)->table;
  const char *wanted = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  size_t count = tg_table_columns(t), c = PyLong_Check(name) ? PyLong_AsSize_t(name) : 0;
  if (PyErr_Occurred()) return NULL;
  if (wanted) {
    while (c < count && strcmp(tg_column_name(t, c), wanted) != 0) c++;
  }
  if (c >= count || !(wanted || PyLong_Check(name))) {
    PyErr_SetObject(PyExc_KeyError, name);
    return NULL;
  }
  Column *column = new_object(column_type);
  if (!column) return NULL;
  column->owner = Py_NewRef(object);
  column->index = c;
  return (PyObject *)column;
}

static PyObject *table_get_columns(PyObject *object, void *unused) {
  const struct tg_table *t = ((Table *)object)->table;
  size_t count = tg_table_columns(t);
  PyObject *names = PyList_New((Py_ssize_t)count);
  for (size_t c = 0; names && c < count; c++) {
    PyObject *name = PyUnicode_FromString(tg_column_name(t, c));
    if (!name)
      Py_CLEAR(names);
    else
      PyList_SetItem(names, (Py_ssize_t)c, name);
  }
  return names;
}

static PyObject *table_get_notes(PyObject *object, void *unused) {
  const struct tg_table *t = ((Table *)object)->table;
  size_t count = tg_table_notes(t);
  PyObject *notes = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; notes && i < count; i++) {
    const char *text = tg_table_note(t, i);
    PyObject *note = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!note)
      Py_CLEAR(notes);
    else
      PyList_SetItem(notes, (Py_ssize_t)i, note);
  }
  return notes;
}

static PyObject *loss_row(const struct tg_table *t, size_t i) {
  const char *name, *meaning;
  int64_t count, offset;
  if (!tg_table_loss(t, i, &name, &count, &offset, &meaning)) return PyDict_New();
  PyObject *where = offset < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(offset);
  return Py_BuildValue("{s:s,s:L,s:N,s:s}", "loss", name, "count", (long long)count, "offset", where, "meaning",
                       meaning);
}

static PyObject *table_get_losses(PyObject *object, void *unused) {
  const struct tg_table *t = ((Table *)object)->table;
  size_t count = tg_table_losses(t);
  PyObject *losses = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; losses && i < count; i++) {
    PyObject *row = loss_row(t, i);
    if (!row)
      Py_CLEAR(losses);
    else
      PyList_SetItem(losses, (Py_ssize_t)i, row);
  }
  return losses;
}

static PyObject *table_get_question(PyObject *object, void *unused) {
  return PyUnicode_FromString(tg_table_question(((Table *)object)->table));
}

/* ---- text out of the library ----------------------------------------------------------------- */

bool text_write(void *ctx, const char *bytes, size_t len) {
  struct text *t = ctx;
  size_t take = 0;
  while (take < len && t->lines_left) t->lines_left -= bytes[take++] == '\n';
  if (t->cap - t->len < take) {
    size_t cap = (t->len + take) * 2 + 4096;
    char *grown = realloc(t->bytes, cap);
    t->failed = !grown;
    if (!grown) return false;
    t->bytes = grown, t->cap = cap;
  }
  if (take) memcpy(t->bytes + t->len, bytes, take);
  t->len += take;
  return t->lines_left > 0;
}

void text_drop(struct text *t) { free(t->bytes); }

PyObject *text_finish(struct text *t) {
  PyObject *result =
      t->failed ? PyErr_NoMemory() : PyUnicode_DecodeUTF8(t->bytes ? t->bytes : "", (Py_ssize_t)t->len, "replace");
  text_drop(t);
  return result;
}

/* _write(format, width, lines) → str: at most `lines` lines of it */
static PyObject *table_write(PyObject *object, PyObject *args) {
  const struct tg_table *t = ((Table *)object)->table;
  const char *format;
  unsigned width;
  Py_ssize_t lines;
  if (!PyArg_ParseTuple(args, "sIn", &format, &width, &lines)) return NULL;
  struct text text = {.lines_left = lines < 0 ? SIZE_MAX : (size_t)lines};
  struct tg_error e = {0};
  enum tg_err err;
  Py_BEGIN_ALLOW_THREADS err = tg_table_write(t, format, width, text_write, &text, &e);
  Py_END_ALLOW_THREADS if (err == TG_IO && !text.lines_left) err = TG_OK; /* we stopped it */
  if (err == TG_OK || text.failed) return text_finish(&text);
  text_drop(&text);
  return raise_error(err, &e);
}

/* ---- Arrow ----------------------------------------------------------------------------------- */

static void free_schema(PyObject *capsule) {
  struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
  if (schema->release) schema->release(schema);
  PyMem_Free(schema);
}
static void free_array(PyObject *capsule) {
  struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
  if (array->release) array->release(array);
  PyMem_Free(array);
}
static void free_stream(PyObject *capsule) {
  struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
  if (stream->release) stream->release(stream);
  PyMem_Free(stream);
}

static PyObject *schema_capsule(struct ArrowSchema **out) {
  struct ArrowSchema *schema = PyMem_Calloc(1, sizeof *schema);
  if (!schema) return PyErr_NoMemory();
  PyObject *capsule = PyCapsule_New(schema, "arrow_schema", free_schema);
  if (!capsule) PyMem_Free(schema);
  *out = schema;
  return capsule;
}

static PyObject *array_capsule(struct ArrowArray **out) {
  struct ArrowArray *array = PyMem_Calloc(1, sizeof *array);
  if (!array) return PyErr_NoMemory();
  PyObject *capsule = PyCapsule_New(array, "arrow_array", free_array);
  if (!capsule) PyMem_Free(array);
  *out = array;
  return capsule;
}

static PyObject *table_arrow_array(PyObject *object,
                                   PyObject *args) { /* a requested schema may be ignored, says the protocol */
  struct ArrowSchema *schema = NULL;
  struct ArrowArray *array = NULL;
  PyObject *first = schema_capsule(&schema), *second = first ? array_capsule(&array) : NULL, *pair = NULL;
  if (second) {
    enum tg_err err = tg_table_arrow(((Table *)object)->table, schema, array);
    pair = err ? raise_error(err, &(struct tg_error){0}) : PyTuple_Pack(2, first, second);
  }
  Py_XDECREF(first);
  Py_XDECREF(second);
  return pair;
}

static PyObject *table_arrow_schema(PyObject *object, PyObject *args) {
  PyObject *pair = table_arrow_array(object, args), *schema = pair ? Py_NewRef(PyTuple_GetItem(pair, 0)) : NULL;
  Py_XDECREF(pair);
  return schema;
}

/* A stream of one batch. It exports the table again for each question it is asked; `keep` holds the table alive
 * until then. */
struct batch {
  struct tg_table *table;
  struct ArrowArray keep;
  bool given;
};

static int stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
  const struct batch *b = s->private_data;
  struct ArrowArray array;
  if (tg_table_arrow(b->table, out, &array) != TG_OK) return ENOMEM;
  array.release(&array);
  return 0;
}

static int stream_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
  struct batch *b = s->private_data;
  struct ArrowSchema schema;
  if (b->given) { /* a released array means the end */
    *out = (struct ArrowArray){0};
    return 0;
  }
  if (tg_table_arrow(b->table, &schema, out) != TG_OK) return ENOMEM;
  schema.release(&schema);
  b->given = true;
  return 0;
}

static const char *stream_error(struct ArrowArrayStream *s) { return "out of memory"; }

static void stream_release(struct ArrowArrayStream *s) { /* from any thread, with or without the GIL */
  struct batch *b = s->private_data;
  b->keep.release(&b->keep);
  free(b);
  s->release = NULL;
}

static PyObject *table_arrow_stream(PyObject *object, PyObject *args) {
  struct ArrowArrayStream *stream = PyMem_Calloc(1, sizeof *stream);
  struct batch *b = calloc(1, sizeof *b);
  struct ArrowSchema schema;
  PyObject *capsule = stream && b ? PyCapsule_New(stream, "arrow_array_stream", free_stream) : PyErr_NoMemory();
  if (!capsule) {
    PyMem_Free(stream);
    free(b);
    return NULL;
  }
  b->table = ((Table *)object)->table;
  enum tg_err err = tg_table_arrow(b->table, &schema, &b->keep);
  if (err) {
    free(b);
    Py_DECREF(capsule);
    return raise_error(err, &(struct tg_error){0});
  }
  schema.release(&schema);
  *stream = (struct ArrowArrayStream){stream_schema, stream_next, stream_error, stream_release, b};
  return capsule;
}

static PyObject *table_make_writable(PyObject *object, PyObject *unused) {
  (void)unused;
  ((Table *)object)->is_given = true;
  Py_RETURN_NONE;
}

static PyMethodDef table_methods[] = {
    {"column", table_column, METH_O, "column(name_or_number) -> Column"},
    {"_make_writable", table_make_writable, METH_NOARGS,
     "_make_writable(): from now on buffers of its columns may be written to; only for the sole owner of the table"},
    {"_write", table_write, METH_VARARGS, "_write(format, width, lines) -> str"},
    {"__arrow_c_schema__", table_arrow_schema, METH_NOARGS, "the Arrow schema, as a capsule"},
    {"__arrow_c_array__", table_arrow_array, METH_VARARGS,
     "schema and struct array, as capsules; numbers are not copied"},
    {"__arrow_c_stream__", table_arrow_stream, METH_VARARGS, "the same as a stream of one batch"},
    {0},
};
static PyGetSetDef table_getset[] = {
    {"question", table_get_question, NULL, "the question this answers", NULL},
    {"columns", table_get_columns, NULL, "names of the columns", NULL},
    {"notes", table_get_notes, NULL, "sentences a reader of the numbers should know", NULL},
    {"losses", table_get_losses, NULL, "what was lost or altered while reading the trace", NULL},
    {0},
};
static PyType_Slot table_slots[] = {
    {Py_tp_dealloc, table_dealloc}, {Py_mp_length, table_length}, {Py_mp_subscript, table_column},
    {Py_tp_methods, table_methods}, {Py_tp_getset, table_getset}, {0},
};
static PyType_Spec table_spec = {"tachograph._read.Table", sizeof(Table), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 table_slots};

int add_table_types(PyObject *module) {
  table_type = (PyTypeObject *)PyType_FromSpec(&table_spec);
  column_type = (PyTypeObject *)PyType_FromSpec(&column_spec);
  if (PyModule_AddObjectRef(module, "Table", (PyObject *)table_type)) return -1;
  return PyModule_AddObjectRef(module, "Column", (PyObject *)column_type);
}
