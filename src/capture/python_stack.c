/* The Python stack of an operation as one number.
 *
 * A thread's stack is a path in a prefix tree; node = (node of the caller, instruction). The chain remembers the
 * frames of the last look. From one operation to the next the outer frames rarely change, so a look goes from the
 * innermost frame outwards over addresses it knows already: nothing waits for a pointer to arrive, about half a
 * nanosecond a frame. Only what differs is looked up in the tree, and only what was never seen becomes text:
 *
 *     path(line): function \0 first line of the function \0 what was cut off the front of the path \0 number of the
 *     module object
 *
 * the last only for calls of modules (their line is always the first). Paths are cut as torch cuts them. */
#include "capture/python_stack.h"

#if PY_VERSION_HEX < 0x030b0000
#include <frameobject.h>
#endif

enum {
  ROOM_FIRST = 64,
  ROOM_MAX = 1024,
  ROOM_KEEP = 768,
  NODES_FIRST = 256,
  NODES_MAX = 1 << 20,
  PATH_MAX_BYTES = 1024,
  NAME_MAX_BYTES = 512
};

const PyCodeObject *_Atomic tg__module_code;

/* ---- paths ----------------------------------------------------------------------------------- */

/* Folders that are cut off the front of paths, each with its separator and a zero byte, longest match first as torch
 * orders them; an empty one ends the list. Never freed: other threads may be reading it. */
static const char *_Atomic path_folders = "";

/* Folder of Tachograph's Python files, with its separator; "" = not known. Its functions are transparent: what they
 * call has their caller's stack. Never freed. */
static const char *_Atomic own_folder = "";

/* The same list as torch makes for its Python tracer, so that names agree; and the folder of our own files. */
static const char folders_source[] =
    "import os, site, sys\n"
    "paths = site.getsitepackages() + sys.path + [site.getuserbase(), site.getusersitepackages()]\n"
    "torch = sys.modules.get('torch')\n"
    "if getattr(torch, '__file__', None): paths.append(os.path.dirname(os.path.dirname(torch.__file__)))\n"
    "paths = sorted({os.path.abspath(p) for p in paths if isinstance(p, str)}, reverse=True)\n"
    "folders = b''.join(os.fsencode(p + os.sep) + b'\\0' for p in paths if '\\0' not in p) + b'\\0'\n"
    "own = getattr(sys.modules.get('tachograph'), '__file__', None)\n"
    "own = os.fsencode(os.path.dirname(own) + os.sep) if own else b''\n";

/* A bytes object's text, kept for ever: it changes with sys.path, rarely. */
static const char *bytes_keep(PyObject *bytes) { return PyBytes_AS_STRING(Py_NewRef(bytes)); }

static void folders_renew(void) {
  PyObject *const names = PyDict_New();
  PyObject *made = NULL;
  if (names && !PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()))
    made = PyRun_String(folders_source, Py_file_input, names, names);
  PyObject *const folders = made ? PyDict_GetItemString(names, "folders") : NULL; /* borrowed */
  static char text[1 << 14]; /* 128 folders of 128 bytes; a longer list is cut at its end */
  static size_t text_len;
  if (folders && PyBytes_Check(folders)) {
    const size_t len = (size_t)PyBytes_GET_SIZE(folders);
    if (text_len == 0 && len <= sizeof text) {
      memcpy(text, PyBytes_AS_STRING(folders), len);
      text_len = len;
      atomic_store(&path_folders, text);
    } else if (len != text_len || memcmp(text, PyBytes_AS_STRING(folders), len) != 0) {
      atomic_store(&path_folders, bytes_keep(folders));
    }
  }
  PyObject *const own = made ? PyDict_GetItemString(names, "own") : NULL; /* borrowed */
  if (own && PyBytes_Check(own) && strcmp(PyBytes_AS_STRING(own), atomic_load(&own_folder)) != 0)
    atomic_store(&own_folder, bytes_keep(own));
  PyErr_Clear();
  Py_XDECREF(made);
  Py_XDECREF(names);
}

/* Bytes of the path's front that are not shown. */
static size_t folder_length(const char *path, size_t len) {
  for (const char *folder = atomic_load_explicit(&path_folders, memory_order_acquire); *folder;) {
    const size_t n = strlen(folder);
    if (len > n && !memcmp(path, folder, n)) return n;
    folder += n + 1;
  }
  return 0;
}

/* The path of the code's file, as text. */
struct path {
  char text[PATH_MAX_BYTES];
  size_t len;
};
static void path_read(struct path *path, const PyCodeObject *code) {
  path->len = tg__str_text(code->co_filename, path->text, sizeof path->text);
}

static bool is_own(const struct path *path) {
  const char *const folder = atomic_load_explicit(&own_folder, memory_order_acquire);
  const size_t len = strlen(folder);
  return len && path->len >= len && memcmp(path->text, folder, len) == 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool nodes_grow(struct tg__chain *c) {
  struct tg__chain bigger = *c;
  bigger.nodes_room = c->nodes_room * 2;
  bigger.nodes = bigger.nodes_room <= NODES_MAX ? tg__capture_pages_spare(bigger.nodes_room * sizeof *c->nodes) : NULL;
  if (!bigger.nodes) return false;
  for (uint32_t i = 0; i < c->nodes_room; i++)
    if (c->nodes[i].key) *tg__node_find(&bigger, c->nodes[i].above, c->nodes[i].key) = c->nodes[i];
  tg__capture_pages_drop(c->nodes, c->nodes_room * sizeof *c->nodes);
  *c = bigger;
  return true;
}

static char *append_bytes(char *to, const char *bytes, size_t len) {
  memcpy(to, bytes, len);
  return to + len;
}
static char *append_number(char *to, int64_t n) {
  char digits[10];
  size_t at = sizeof digits;
  if (n < 0) *to++ = '-';
  uint32_t left = (uint32_t)(n < 0 ? -n : n);
  do digits[--at] = (char)('0' + left % 10);
  while (left /= 10);
  return append_bytes(to, digits + at, sizeof digits - at);
}

/* Without printf, which takes 4,000 instructions for it: the first step of a recording has a new text for
 * each call in it. */
static uint32_t text_intern(struct tg__thread *t, uint32_t above, const struct path *path, const PyCodeObject *code,
                            int line, uint32_t module) {
  char name[NAME_MAX_BYTES], text[PATH_MAX_BYTES + NAME_MAX_BYTES + 64];
  const size_t name_len = tg__str_text(code->co_name, name, sizeof name), cut = folder_length(path->text, path->len);
  char *p = append_bytes(text, path->text + cut, path->len - cut);
  *p++ = '(';
  p = append_number(p, line);
  p = append_bytes(p, "): ", 3);
  p = append_bytes(p, name, name_len);
  *p++ = 0;
  p = append_number(p, code->co_firstlineno);
  *p++ = 0;
  p = append_bytes(p, path->text, cut);
  if (module) {
    *p++ = 0;
    p = append_number(p, module);
  }
  return tg__dictionary_intern(t, TG_RAW_D_STACK, above, text, (size_t)(p - text));
}

/* A function seen for the first time, on a line below `above`; `module`: its number if it is a module's call, else
 * 0. */
static struct tg__node node_make(struct tg__thread *t, const struct path *path, const PyCodeObject *code, int line,
                                 uint32_t module, uint32_t above, uint32_t call) {
  if (!tg__code_keep(code)) tg__thread_count(t, TG_RAW_C_CODE_NOT_KEPT, 1);
  struct tg__node node = {.call = call, .id = text_intern(t, above, path, code, line, module)};
  if (!node.id)
    node.id = above; /* no room: the operation has at least its caller's stack */
  else if (module)
    node.call = tg__module_call(t, node.id, module, call);
  return node;
}

static void node_put(struct tg__chain *c, struct tg__node node, uint32_t above, uint64_t key) {
  if (c->nodes_used >= c->nodes_room / 4 * 3 && !nodes_grow(c)) { /* begin again: nodes that come back are new again */
    memset(c->nodes, 0, c->nodes_room * sizeof *c->nodes);
    c->nodes_used = 0;
  }
  node.above = above;
  node.key = key;
  *tg__node_find(c, above, key) = node;
  c->nodes_used++;
}

/* Stands for the frames around the outermost link, when these are too many. */
static uint32_t outside_number(struct tg__thread *t) {
  static const char text[] = "...(0): outer frames\0000\0";
  return tg__dictionary_intern(t, TG_RAW_D_STACK, 0, text, sizeof text - 1);
}

void tg__link_number_new(struct tg__thread *t, struct tg__chain *c, struct tg__link *link, uint32_t above,
                         uint32_t call, uint64_t key) {
  const PyCodeObject *const code = tg__frame_code(link->frame);
  const bool cut = link == c->links && link->previous && !link->self;
  const uint32_t below = cut ? outside_number(t) : above;
  struct tg__node node = {.id = below, .call = call};
  struct path path;
  path_read(&path, code);
  if (!tg__frame_is_hidden(link->frame, code) && !is_own(&path)) {
    const int line = link->self ? code->co_firstlineno : tg__code_line(code, tg__frame_instr(link->frame));
    node = node_make(t, &path, code, line, tg__module_number(link->self), below, call);
  }
  link->node = node.id;
  link->call = node.call;
  node_put(c, node, above, key);
}

/* ---- places by themselves -------------------------------------------------------------------- */

bool tg__place_known(const struct tg__chain *c, uint32_t *above, uint64_t key) {
  const struct tg__node *const known = tg__node_find(c, *above, key);
  if (known->key) *above = known->id;
  return known->key != 0;
}

void tg__place_new(struct tg__thread *t, struct tg__chain *c, uint32_t *above, const PyCodeObject *code, int line,
                   uint64_t key) {
  struct tg__node node = {.id = *above};
  struct path path;
  path_read(&path, code);
  if (!is_own(&path)) node = node_make(t, &path, code, line, 0, *above, 0);
  node_put(c, node, *above, key);
  *above = node.id;
}

void tg__frame_put(struct tg__thread *t, uint32_t *above, uint32_t *call, const PyCodeObject *code, int line,
                   uint32_t module) {
  struct path path;
  path_read(&path, code);
  if (is_own(&path)) return;
  const struct tg__node node = node_make(t, &path, code, line, module, *above, *call);
  *above = node.id;
  *call = node.call;
}

/* ---- the chain ------------------------------------------------------------------------------- */

bool tg__chain_room(struct tg__chain *c, uint32_t want) {
  const size_t bytes = sizeof(struct tg__link) + sizeof(const struct tg__frame *);
  uint32_t room = c->room ? c->room : ROOM_FIRST;
  while (room < want) room *= 2;
  if (room == c->room) return true;
  char *const both = room <= ROOM_MAX ? tg__capture_pages(room * bytes) : NULL;
  if (!both) return false;
  struct tg__link *const links = (struct tg__link *)both;
  const struct tg__frame **const fresh = (const struct tg__frame **)(both + room * sizeof *links);
  if (c->room) {
    memcpy(links, c->links, c->room * sizeof *links);
    memcpy(fresh, c->fresh, c->room * sizeof *fresh);
    tg__capture_pages_drop(c->links, c->room * bytes);
  }
  c->links = links;
  c->fresh = fresh;
  c->room = room;
  return true;
}

static struct tg__chain *chain_new(void) {
  struct tg__chain *const c = tg__capture_pages(sizeof *c);
  if (!c) return NULL;
  c->nodes = tg__capture_pages(NODES_FIRST * sizeof *c->nodes);
  c->nodes_room = NODES_FIRST;
  if (c->nodes && tg__chain_room(c, ROOM_FIRST)) return c;
  if (c->nodes) tg__capture_pages_drop(c->nodes, NODES_FIRST * sizeof *c->nodes);
  tg__capture_pages_drop(c, sizeof *c);
  return NULL;
}

struct tg__chain *tg__chain_slow(struct tg__thread *t) {
  struct tg__chain *c = t->own[TG_SLOT_STACK];
  if (c)
    memset(c->nodes, 0, c->nodes_room * sizeof *c->nodes);
  else
    c = t->own[TG_SLOT_STACK] = chain_new();
  if (!c) return NULL;
  c->nodes_used = c->depth = 0;
  t->own_generation[TG_SLOT_STACK] = t->generation;
  return c;
}

/* Are links 0…n-1 still what they were? The innermost of them is known to be a live frame, which makes its
 * `previous` one, and so on outwards: no address is followed before it is known to hold. Returns the outermost link
 * that runs elsewhere now (n = none), or TG_NONE when the frames themselves are others. */
TG_INLINE uint32_t chain_check(const struct tg__chain *c, uint32_t n, bool lines) {
  const struct tg__link *const links = c->links;
  uint32_t changed = n;
  for (uint32_t i = n; i-- > 0;) {
    const struct tg__link *const l = &links[i];
    if (TG_UNLIKELY(tg__frame_previous(l->frame) != l->previous)) return TG_NONE;
    const bool same = (lines ? tg__frame_instr(l->frame) : (const void *)tg__frame_code(l->frame)) == l->mark &&
                      (!l->self || tg__frame_local(l->frame, 0) == l->self);
    changed = same ? changed : i;
  }
  return changed;
}

/* Put the `fresh` innermost frames inside the links that stay. */
static void chain_push(struct tg__thread *t, struct tg__chain *c, uint32_t fresh, bool lines) {
  while (fresh) {
    tg__link_read(&c->links[c->depth], c->fresh[--fresh], lines);
    tg__link_number(t, c, c->depth++, lines);
  }
}

/* Look at all frames; links that are the same keep their numbers. If a stack is deeper than there is room, the
 * outermost are left out, and some more, so that the next few calls have room. Returns how many frames are fresh. */
static uint32_t chain_rebuild(struct tg__chain *c, const struct tg__frame *innermost, bool lines) {
  uint32_t total = 0;
  for (const struct tg__frame *f = innermost; f; f = tg__frame_previous(f)) {
    if (total == c->room && !tg__chain_room(c, total + 1)) {
      total -= total / 4;
      break;
    }
    c->fresh[total++] = f;
  }
  uint32_t same = 0;
  for (; same < c->depth && same < total; same++) {
    struct tg__link now;
    tg__link_read(&now, c->fresh[total - 1 - same], lines);
    const struct tg__link *const was = &c->links[same];
    if (now.frame != was->frame || now.previous != was->previous || now.mark != was->mark || now.self != was->self)
      break;
  }
  c->depth = same;
  return total - same;
}

TG_INLINE const struct tg__link *chain_look(struct tg__thread *t, struct tg__chain *c, bool lines) {
  const PyThreadState *const thread = PyGILState_GetThisThreadState();
  const struct tg__frame *const innermost = TG_LIKELY(thread != NULL) ? tg__frame_innermost(thread) : NULL;
  if (!innermost) return NULL;
  uint32_t n = c->depth, fresh = 0;
  const struct tg__frame *f = innermost;
  c->looks++;
  c->thread = thread;
  /* inner frames lie higher on the thread's data stack; where they do not (generators), this only takes longer */
  while (f) {
    while (n && (uintptr_t)c->links[n - 1].frame > (uintptr_t)f) n--;
    if ((n && c->links[n - 1].frame == f) || fresh == c->room) break;
    c->fresh[fresh++] = f;
    f = tg__frame_previous(f);
  }
  const uint32_t changed = n && f == c->links[n - 1].frame ? chain_check(c, n, lines) : TG_NONE;
  if (TG_UNLIKELY(changed == TG_NONE || (n + fresh > c->room && !tg__chain_room(c, n + fresh)))) {
    fresh = chain_rebuild(c, innermost, lines);
  } else {
    c->depth = n;
    for (uint32_t i = changed; i < n; i++) {
      tg__link_read(&c->links[i], c->links[i].frame, lines);
      tg__link_number(t, c, i, lines);
    }
  }
  chain_push(t, c, fresh, lines);
  return &c->links[c->depth - 1];
}

const struct tg__link *tg__chain_now(struct tg__thread *t, struct tg__chain *c) { return chain_look(t, c, true); }

static uint32_t stack_with_lines(struct tg__thread *t) {
  struct tg__chain *const c = tg__chain(t);
  const struct tg__link *const l = TG_LIKELY(c != NULL) ? chain_look(t, c, true) : NULL;
  return l ? l->node : 0;
}
static uint32_t stack_of_modules(struct tg__thread *t) {
  struct tg__chain *const c = tg__chain(t);
  const struct tg__link *const l = TG_LIKELY(c != NULL) ? chain_look(t, c, false) : NULL;
  return l ? l->node : 0;
}

/* ---- by Python's own functions --------------------------------------------------------------- */

/* Where frames cannot be read. It takes the GIL at each operator, and makes an object for each frame. */
enum { PUBLISHED_MOST = 256 };
struct published {
  PyCodeObject *code; /* the frame owns it */
  int at;             /* the instruction, in bytes from the first */
};

static int frame_position(PyFrameObject *f) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(f);
#else
  return f->f_lasti * (int)sizeof(_Py_CODEUNIT);
#endif
}

/* From the inside out; *is_cut: there are more. */
static uint32_t published_read(struct published *out, bool *is_cut) {
  PyFrameObject *f = PyThreadState_GetFrame(PyThreadState_Get());
  uint32_t n = 0;
  while (f && n < PUBLISHED_MOST) {
    PyFrameObject *const back = PyFrame_GetBack(f);
    out[n].code = PyFrame_GetCode(f);
    out[n].at = frame_position(f);
    Py_DECREF(out[n++].code);
    Py_DECREF(f);
    f = back;
  }
  *is_cut = f;
  Py_XDECREF(f);
  return n;
}

static uint32_t stack_as_published(struct tg__thread *t) {
  struct published frames[PUBLISHED_MOST];
  struct tg__chain *const c = PyGILState_GetThisThreadState() ? tg__chain(t) : NULL;
  if (!c || !tg__python_is_alive()) return 0;
  const PyGILState_STATE before = PyGILState_Ensure(); /* not tg__gil_take: a thread that holds it may call this */
  bool is_cut;
  const uint32_t n = published_read(frames, &is_cut);
  uint32_t above = is_cut ? outside_number(t) : 0;
  for (uint32_t i = n; i-- > 0;) {
    PyCodeObject *const code = frames[i].code; /* at an address of 47 bits, a multiple of 16 */
    const uint64_t key = (uint64_t)(uintptr_t)code << 16 | ((uint32_t)frames[i].at & 0xfffff);
    if (!tg__place_known(c, &above, key)) tg__place_new(t, c, &above, code, PyCode_Addr2Line(code, frames[i].at), key);
  }
  PyGILState_Release(before);
  return above;
}

/* ---- calls of modules that no operator may have looked at ----------------------------------------- */

static bool with_lines; /* how the running recording, or the last one, looks at frames; under the GIL */

const struct tg__link *tg__chain_look(struct tg__thread *t, struct tg__chain *c) {
  return chain_look(t, c, with_lines);
}

uint32_t tg__module_node(struct tg__thread *t, struct tg__chain *c, const void *self) {
  const PyCodeObject *const code = atomic_load_explicit(&tg__module_code, memory_order_relaxed);
  if (!code) return 0; /* the recording ends at this moment: what modules were called is written */
  const struct tg__link *const caller = tg__chain_look(t, c);
  const uint32_t above = caller ? caller->node : 0;
  const uint64_t key = tg__module_key(self);
  const struct tg__node *const known = tg__node_find(c, above, key);
  if (TG_LIKELY(known->key)) return known->id;
  struct path path;
  path_read(&path, code);
  const struct tg__node node =
      node_make(t, &path, code, code->co_firstlineno, tg__module_number(self), above, caller ? caller->call : 0);
  node_put(c, node, above, key);
  return node.id;
}

/* ---- the source ------------------------------------------------------------------------------ */

static _Thread_local PyGILState_STATE gil_before __attribute__((tls_model("initial-exec")));
bool tg__gil_take(void) {
  if (!tg__python_is_alive()) return false;
  gil_before = PyGILState_Ensure();
  return true;
}
void tg__gil_release(void) { PyGILState_Release(gil_before); }

/* Another thread may still call the function it has read before: none of them is ever unloaded. */
bool tg__stack_switch(uint32_t features, bool on) {
  static uint32_t wanted; /* under the session's lock */
  if (on) {
    if (!tg__gil_take()) return false;
    folders_renew();
    tg__gil_release();
  }
  wanted = on ? wanted | features : wanted & ~features;
  if (on) with_lines = wanted & TG_RECORD_STACKS;
  tg__stack_fn *const read = tg__frames_refused() ? stack_as_published : stack_with_lines;
  tg__stack_fn *const fit = wanted & TG_RECORD_STACKS    ? read
                            : wanted & TG_RECORD_MODULES ? stack_of_modules
                                                         : tg__stack_none;
  atomic_store_explicit(&tg__stack_of, fit, memory_order_release);
  return true;
}

enum tg_err tg__stack_prepare(struct tg_error *e) {
  const char *const refused = tg__frames_refused();
  return refused ? tg__fail(e, TG_UNSUPPORTED, -1, "%s", refused) : TG_OK;
}

#ifdef Py_GIL_DISABLED /* nothing of this has been tried there */
static enum tg_err prepare_stacks(uint32_t features, struct tg_error *e) { return tg__stack_prepare(e); }
#else /* at worst by Python's own functions */
static enum tg_err prepare_stacks(uint32_t features, struct tg_error *e) { return TG_OK; }
#endif
static enum tg_err start_stacks(uint32_t features, struct tg_error *e) {
  return tg__stack_switch(TG_RECORD_STACKS, true) ? TG_OK
                                                  : tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
}
static void stop_stacks(void) { tg__stack_switch(TG_RECORD_STACKS, false); }

static bool is_off(void) { return tg__stack_now() == tg__stack_none; }

static const struct tg__source source = {.name = "Python stacks",
                                         .features = TG_RECORD_STACKS,
                                         .prepare = prepare_stacks,
                                         .start = start_stacks,
                                         .stop = stop_stacks,
                                         .is_off = is_off};

/* frames() → None, or why they cannot be read; frames_falsify(offset, by): the same with an offset shifted, for the
 * test of the calibration */
static PyObject *frames(PyObject *module, PyObject *unused) { return Py_BuildValue("z", tg__frames_refused()); }
static PyObject *frames_falsify(PyObject *module, PyObject *args) {
  const char *offset;
  int by;
  if (!PyArg_ParseTuple(args, "si:frames_falsify", &offset, &by)) return NULL;
  tg__frames_falsify(offset, by);
  tg__frames_calibrate();
  return frames(module, NULL);
}

/* frames_read_by(table): the table instead of the interpreter's own description, for the test that both agree */
static PyObject *frames_read_by(PyObject *module, PyObject *table) {
  return PyBool_FromLong(tg__frames_read_by(PyObject_IsTrue(table) == 1));
}

bool tg__python_stack_register(PyObject *module) {
  static PyMethodDef methods[] = {
      {"frames", frames, METH_NOARGS, "frames() -> None when the interpreter's frames can be read, else the reason"},
      {"frames_falsify", frames_falsify, METH_VARARGS,
       "frames_falsify(offset, by) -> frames() with an offset shifted: a test of the calibration"},
      {"frames_read_by", frames_read_by, METH_O,
       "frames_read_by(table) -> did it change? on 3.13: read frames by the table, or by the interpreter's "
       "description"},
      {0},
  };
  tg__frames_calibrate();
  if (PyModule_AddFunctions(module, methods)) return false;
  return tg__source_add(&source) || (PyErr_SetString(PyExc_RuntimeError, "too many sources"), false);
}
