/* What python/_read.c, _read_table.c, _read_numbers.c and _read_diff.c share. */
#ifndef TG_PYTHON_READ_H
#define TG_PYTHON_READ_H

/* CMakeLists.txt sets Py_LIMITED_API, so one file serves every Python from 3.11 on. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "tachograph/read.h"

/* Raise TachographError, unless a callback into Python has already raised something better. Returns NULL. */
PyObject *raise_error(enum tg_err code, const struct tg_error *e);

/* An empty object of `type` and the end of one, as its type has them: a subclass in Python is collected as garbage. */
void *new_object(PyTypeObject *type);
void free_object(PyObject *object);

/* A new object of `type`, a subclass of _read.Table. Takes the table, even when it fails. */
PyObject *make_table(PyTypeObject *type, struct tg_table *table);
int add_table_types(PyObject *module); /* Table and Column */

struct tg_table *table_of(PyObject *object); /* NULL with TypeError set when it is no Table */

/* Take the trace of a Trace for this thread; the GIL is released while waiting. NULL: closed, error set. trace_release
 * needs no GIL. */
bool is_trace(PyObject *object);
struct tg_trace *trace_take(PyObject *object);
void trace_release(PyObject *object);

/* raise_error, unless what is called while its ranks are read has raised something. Returns NULL. */
PyObject *trace_error(PyObject *object, enum tg_err code, const struct tg_error *e);

/* Arguments of a question from a dict of str to str; false with an error set. The texts belong to the dict, which
 * must live as long; items are freed with PyMem_Free either way. */
struct args {
  struct tg_arg *items;
  size_t count;
};
bool args_from_dict(PyObject *dict, struct args *out);

int add_diff(PyObject *module);    /* its functions diff, diff_text, diff_fails */
int add_numbers(PyObject *module); /* us_of, look_up, replace_unknown, numbered */

/* Text coming out of the library piece by piece. */
struct text { /* bytes collected from a tg_write_fn */
  char *bytes;
  size_t len, cap, lines_left; /* stops after that many lines */
  bool failed;
};

bool text_write(void *ctx, const char *bytes, size_t len); /* a tg_write_fn; called without the GIL */
PyObject *text_finish(struct text *t);                     /* the text as str; frees it */
void text_drop(struct text *t);

#endif
