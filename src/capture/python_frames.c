/* What Python does not publish: offsets proven, lines and names read without the GIL. python_frames.h says how. */
#include "capture/python_frames.h"

#include <stdatomic.h>
#include <stdio.h>

/* What follows from it. */
#define TG_FRAMES_INSTEAD                                                                                              \
  ": stacks are taken by Python's own functions, which costs more; module paths, calls and samples are not recorded"

/* ---- text ------------------------------------------------------------------------------------ */

static size_t utf8_write(char *out, uint32_t c) {
  if (c == 0) c = 0xfffd; /* a zero byte ends a part of a dictionary entry */
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  const size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = len - 1; i; i--, c >>= 6) out[i] = (char)(0x80 | (c & 63));
  out[0] = (char)((len == 2 ? 0xc0 : len == 3 ? 0xe0 : 0xf0) | c);
  return len;
}

size_t tg__str_text(const PyObject *str, char *out, size_t room) {
  PyObject *const s = (PyObject *)(uintptr_t)str;
  if (!s || !PyUnicode_Check(s) || !PyUnicode_IS_READY(s)) return 0;
  const int kind = PyUnicode_KIND(s);
  const void *const data = PyUnicode_DATA(s);
  const Py_ssize_t len = PyUnicode_GET_LENGTH(s);
  size_t used = 0;
  if (PyUnicode_IS_ASCII(s) && room > 3 && !memchr(data, 0, (size_t)len)) { /* nearly always */
    used = (size_t)len < room - 3 ? (size_t)len : room - 3;
    memcpy(out, data, used);
    return used;
  }
  for (Py_ssize_t i = 0; i < len && used + 4 <= room; i++)
    used += utf8_write(out + used, PyUnicode_READ(kind, data, i));
  return used;
}

/* ---- code objects stay ----------------------------------------------------------------------- */

/* An address of a code object that was freed is used again at once: 3,000 functions made by exec and dropped looked
 * like one. So each that a stack names is kept: one more reference, taken without the GIL. Another core may
 * overwrite that with the count it had just read, never the reverse; therefore the reference is never given back.
 * The list makes it one per object and bounds it. */
enum { KEPT_MAX = 24000, KEPT_PLACES = 1 << 15 };
static _Atomic(const void *) kept[KEPT_PLACES];
static _Atomic uint32_t kept_count;

static void add_reference(const PyCodeObject *code) {
#if !TG_FRAMES_KNOWN
  Py_INCREF((PyObject *)(uintptr_t)code); /* there the GIL is held */
#else
#if PY_VERSION_HEX >= 0x030c0000
  if (_Py_IsImmortal((PyObject *)(uintptr_t)code)) return;
#endif
  __atomic_fetch_add(&((PyObject *)(uintptr_t)code)->ob_refcnt, 1, __ATOMIC_RELAXED);
#endif
}

bool tg__code_keep(const PyCodeObject *code) {
  size_t at = (size_t)(((uintptr_t)code >> 4) * 0x9e3779b97f4a7c15u >> 49);
  for (;; at = (at + 1) % KEPT_PLACES) {
    const void *there = atomic_load_explicit(&kept[at], memory_order_relaxed);
    if (there == code) return true;
    if (there) continue;
    if (atomic_load_explicit(&kept_count, memory_order_relaxed) >= KEPT_MAX) return false;
    if (!atomic_compare_exchange_strong(&kept[at], &there, code)) {
      if (there == code) return true;
      continue;
    }
    atomic_fetch_add_explicit(&kept_count, 1, memory_order_relaxed);
    add_reference(code);
    return true;
  }
}

#if !TG_FRAMES_KNOWN

void tg__frames_calibrate(void) {}
const char *tg__frames_refused(void) {
#ifdef Py_GIL_DISABLED
  return "this Python is free-threaded: its frames cannot be read from outside; stacks, module paths and calls are not "
         "recorded";
#else
  return "frames are read from Python 3.11 on; this is Python " PY_VERSION TG_FRAMES_INSTEAD;
#endif
}
bool tg__frames_read_by(bool table) { return false; }
void tg__frames_falsify(const char *offset, int by) {}
int tg__code_line(const PyCodeObject *code, const void *instr) { return code->co_firstlineno; }

#else

enum { CODE_UNIT = 2 }; /* bytes */

/* ---- lines ----------------------------------------------------------------------------------- */

static unsigned varint_take(const uint8_t **p, const uint8_t *end) {
  unsigned value = 0, shift = 0;
  while (*p < end) {
    const uint8_t byte = *(*p)++;
    if (shift < 32) value |= (byte & 63u) << shift;
    if (!(byte & 64)) break;
    shift += 6;
  }
  return value;
}

/* The location table since 3.11: entries of a head byte (kind, code units) and what the kind has behind it. Only the
 * change of the line matters here; the rest is passed over by its lack of a top bit. */
int tg__code_line(const PyCodeObject *code, const void *instr) {
  const ptrdiff_t unit = ((const char *)instr - code->co_code_adaptive) / CODE_UNIT;
  const uint8_t *p = (const uint8_t *)PyBytes_AS_STRING(code->co_linetable);
  const uint8_t *const end = p + PyBytes_GET_SIZE(code->co_linetable);
  int line = code->co_firstlineno;
  for (ptrdiff_t at = 0; p < end && unit >= 0;) {
    const uint8_t head = *p++;
    const unsigned kind = head >> 3 & 15;
    if (kind == 13 || kind == 14) {
      const unsigned change = varint_take(&p, end);
      line += change & 1 ? -(int)(change >> 1) : (int)(change >> 1);
    } else if (kind >= 10 && kind <= 12) {
      line += (int)kind - 10;
    }
    while (p < end && !(*p & 128)) p++;
    at += (head & 7) + 1;
    if (unit < at) return kind == 15 ? code->co_firstlineno : line;
  }
  return code->co_firstlineno;
}

/* ---- calibration ----------------------------------------------------------------------------- */

static char refused[300] = "not looked at yet";
const char *tg__frames_refused(void) { return refused[0] ? refused : NULL; }

#if TG_FRAMES_DESCRIBED
struct tg__frame_layout tg__frame_layout;
#endif

/* NULL, or why no layout is known. */
static const char *layout_find(void) {
#if TG_FRAMES_DESCRIBED
  return tg__frame_layout.innermost ? NULL : tg__frames_describe(&tg__frame_layout);
#else
  return NULL;
#endif
}

bool tg__frames_read_by(bool table) {
#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
  const struct tg__frame_layout known = TG_FRAMES_TABLE;
  tg__frame_layout = table ? known : (struct tg__frame_layout){0};
  tg__frames_calibrate();
  return true;
#else
  return false;
#endif
}

static int falsified[4]; /* code, previous, instr, locals: added to the offset, in the test of this test */
static const char *const falsified_names[4] = {"code", "previous", "instr", "locals"};
void tg__frames_falsify(const char *offset, int by) {
  for (size_t i = 0; i < 4; i++)
    if (!strcmp(offset, falsified_names[i])) falsified[i] = by;
}
static const void *probe(const struct tg__frame *f, size_t which) {
  const struct tg__frame_layout *const l = &tg__frame_layout;
  const size_t offsets[4] = {l->code, l->previous, l->instr, l->locals}, at = offsets[which] + (size_t)falsified[which];
  return which == 0 || which == 3 ? tg__frame_object(f, at) : tg__frame_word(f, at);
}

/* One frame against Python's own description of it; the text of what differs, or NULL. */
static const char *frame_differs(const struct tg__frame *f, PyFrameObject *want) {
  PyCodeObject *const code = PyFrame_GetCode(want);
  const char *differs = NULL;
  const char *const instr = probe(f, 2);
  const ptrdiff_t span = Py_SIZE(code) * (ptrdiff_t)CODE_UNIT;
  if (probe(f, 0) != code)
    differs = "code object";
  else if (instr < code->co_code_adaptive - CODE_UNIT || instr >= code->co_code_adaptive + span)
    differs = "instruction";
  else if (tg__code_line(code, instr) != PyFrame_GetLineNumber(want))
    differs = "line";
  Py_DECREF(code);
  return differs;
}

/* Called by the Python below from two functions deep, with what its caller's first local is. */
static PyObject *calibrate_from_inside(PyObject *module, PyObject *local) {
  const struct tg__frame *f = tg__frame_innermost(PyThreadState_Get());
  PyFrameObject *want = PyEval_GetFrame();
  Py_XINCREF(want);
  const char *differs = f && want ? NULL : "innermost frame";
  if (!differs && probe(f, 3) != local) differs = "first local";
  for (size_t depth = 0; want && !differs && depth < 64; depth++) {
    while (f && tg__frame_is_mark(f)) f = tg__frame_previous(f);
    differs = f ? frame_differs(f, want) : "number of frames";
    PyFrameObject *const back = PyFrame_GetBack(want);
    Py_DECREF(want);
    want = back;
    if (!differs) f = probe(f, 1);
  }
  Py_XDECREF(want);
  return PyUnicode_FromString(differs ? differs : "");
}

/* A method, a generator and a call through C (map) between two plain functions, over several lines: every kind of
 * frame. */
static const char calibrate_source[] = "def inner(local, probe):\n"
                                       "    x = (\n"
                                       "        probe(local))\n"
                                       "    return x\n"
                                       "class Method:\n"
                                       "    def __init__(self, probe):\n"
                                       "        for self.found in self.run(probe):\n"
                                       "            pass\n"
                                       "    def run(self, probe):\n"
                                       "        yield from map(lambda p: inner(self, p), [probe])\n"
                                       "def outer(probe):\n"
                                       "    return Method(probe).found\n";

static const char *walk_differs(void) {
  static char text[40];
  static PyMethodDef method = {"probe", calibrate_from_inside, METH_O, NULL};
  PyObject *const probe_function = PyCFunction_New(&method, NULL);
  PyObject *const names = PyDict_New();
  PyObject *made = NULL, *found = NULL;
  if (probe_function && names && !PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()))
    made = PyRun_String(calibrate_source, Py_file_input, names, names);
  if (made) found = PyObject_CallFunctionObjArgs(PyDict_GetItemString(names, "outer"), probe_function, NULL);
  const char *const differs = found ? PyUnicode_AsUTF8(found) : "walk";
  snprintf(text, sizeof text, "%s", differs ? differs : "text");
  PyErr_Clear();
  Py_XDECREF(found);
  Py_XDECREF(made);
  Py_XDECREF(names);
  Py_XDECREF(probe_function);
  return text;
}

void tg__frames_calibrate(void) {
  const char *const unknown = layout_find(), *const differs = unknown ? "" : walk_differs();
  refused[0] = '\0';
  if (unknown)
    snprintf(refused, sizeof refused,
             "how the frames of this Python %s are laid out is not known (%s)" TG_FRAMES_INSTEAD, PY_VERSION, unknown);
  else if (*differs)
    snprintf(refused, sizeof refused,
             "the frames of this Python %s are not laid out as expected (%s differs from what Python "
             "says)" TG_FRAMES_INSTEAD,
             PY_VERSION, differs);
}

#endif
