/* What python/_read.c and python/_read_table.c share. */
#ifndef TG_PYTHON_READ_H
#define TG_PYTHON_READ_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tachograph/read.h"

/* Raise TachographError, unless a callback into Python has already raised something better. Returns NULL. */
PyObject *raise_error(enum tg_err code, const struct tg_error *e);

/* A new object of `type`, a subclass of _read.Table. Takes the table, even when it fails. */
PyObject *make_table(PyTypeObject *type, struct tg_table *table);
int add_table_types(PyObject *module); /* Table and Column */

/* Text coming out of the library piece by piece. */
struct text { /* bytes collected from a tg_write_fn */
  char *bytes;
  size_t len, cap, lines_left; /* stops after that many lines */
  bool failed;
};

bool text_write(void *ctx, const char *bytes, size_t len); /* a tg_write_fn; called without the GIL */
PyObject *text_finish(struct text *t);                    /* the text as str; frees it */
void text_drop(struct text *t);

#endif
