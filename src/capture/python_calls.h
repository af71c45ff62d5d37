/* Calls of Python functions: what is common to the two ways of seeing them, Python's profile function (3.11) and its
 * monitoring events (3.12 and newer). All with the GIL. */
#ifndef TG_PYTHON_CALLS_H
#define TG_PYTHON_CALLS_H

#include "capture/python_stack.h"

#if PY_VERSION_HEX >= 0x030c0000
#define TG_CALLS_MONITORED 1
#else
#define TG_CALLS_MONITORED 0
#endif

/* ---- events, on the thread where they happen (python_calls.c) -------------------------------- */

/* A function begins or goes on after a yield; it returns, yields or is left by an exception. */
void tg__call_begin(const struct tg__frame *f);
void tg__call_end(const struct tg__frame *f);
/* The function in frame f calls C: `method` bound to `self` (NULL: a plain function). */
void tg__c_call_begin(const struct tg__frame *f, const PyMethodDef *method, PyObject *self);
void tg__c_call_end(const struct tg__frame *f);
void tg__calls_thread_begins(void); /* a thread that began after the recording, inside its outermost functions */

/* ---- the two ways (python_profile.c, python_monitor.c) --------------------------------------- */

/* TG_BUSY when another profiler has our place. */
enum tg_err tg__calls_ready(struct tg_error *e);
/* See calls on all threads that there are, and those that start later. */
enum tg_err tg__calls_attach(struct tg_error *e);
/* true: another profiler took our place meanwhile. */
bool tg__calls_detach(void);
bool tg__calls_are_off(void);

#endif
