/* Which module a call was: class, number within the class, path in the model.
 *
 * A stack walk finds the module object without the GIL and cannot hold a reference: a count changed without the GIL may
 * be lost, and then the model is never freed. So the walk assigns numbers only. As soon as Python runs next (a pending
 * call, on the main thread) the modules that are still on some stack, or reachable from one that is known, are held
 * with a proper reference until the recording ends, and their paths are looked up in the modules around them: path =
 * path of the enclosing call's module, dot, place in its _modules. A module that was freed before has only its class
 * and number. */
#include "capture/python_stack.h"

#include <pthread.h>
#include <stdio.h>

enum { CLASS_BYTES = 64, PATH_BYTES = 1024, NESTED_MAX = 64, SEARCH_MAX = 200000, ROOM_FIRST = 128 };

struct module {
  const void *object, *type;
  PyObject *held; /* the same object, once it is known to live */
  uint32_t of_class;
  char class_name[CLASS_BYTES];
};
struct call { /* of a module, in one thread's tree */
  uint32_t part, stack, module, above;
  bool written;
  char *path; /* from PyMem_RawMalloc, "" = outermost; NULL = not looked up yet */
};
struct class_count {
  const void *type;
  uint32_t seen;
};

/* Arrays of one session, under the lock. Numbers are places + 1. Python is never called while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct module *modules;
static struct call *calls;
static struct class_count *classes;
static uint32_t
    *places; /* open addressing: number of the module, 0 = free; twice as many as there is room for modules */
static uint32_t module_count, module_room, call_count, call_room, class_seen, class_room;
static _Atomic uint32_t unwritten;
static _Atomic bool asked; /* a pending call is on its way */

/* ---- numbers, without the GIL ---------------------------------------------------------------- */

/* items: the address of a pointer of whatever type, which is therefore copied as bytes. */
static bool array_grow(void *items, uint32_t *room, uint32_t count, size_t item) {
  if (count < *room) return true;
  const uint32_t bigger = *room ? *room * 2 : ROOM_FIRST;
  void *const p = tg__capture_pages(bigger * item);
  if (!p) return false;
  if (*room) {
    void *before;
    memcpy(&before, items, sizeof before);
    memcpy(p, before, *room * item);
    tg__capture_pages_drop(before, *room * item);
  }
  memcpy(items, &p, sizeof p);
  *room = bigger;
  return true;
}

/* Where a module's number is, or would be put. */
static uint32_t *module_place(const void *object, const void *type) {
  const uint32_t mask = module_room * 2 - 1;
  uint32_t at = (uint32_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (places[at] && (modules[places[at] - 1].object != object || modules[places[at] - 1].type != type))
    at = (at + 1) & mask;
  return &places[at];
}

static bool modules_grow(void) {
  if (module_count < module_room) return true;
  uint32_t *const more = tg__capture_pages((module_room ? module_room * 4 : ROOM_FIRST * 2) * sizeof *more);
  const uint32_t before = module_room;
  if (!more || !array_grow((void **)&modules, &module_room, module_count, sizeof *modules)) {
    if (more) tg__capture_pages_drop(more, (before ? before * 4 : ROOM_FIRST * 2) * sizeof *more);
    return false;
  }
  if (before) tg__capture_pages_drop(places, before * 2 * sizeof *places);
  places = more;
  for (uint32_t i = 0; i < module_count; i++) *module_place(modules[i].object, modules[i].type) = i + 1;
  return true;
}

static uint32_t number_in_class(const void *type) {
  uint32_t i = 0;
  while (i < class_seen && classes[i].type != type) i++;
  if (i == class_seen) {
    if (!array_grow((void **)&classes, &class_room, class_seen, sizeof *classes)) return 0;
    classes[class_seen++] = (struct class_count){.type = type};
  }
  return classes[i].seen++;
}

static uint32_t module_add(const void *self, const PyTypeObject *type) {
  if (!modules_grow()) return 0;
  uint32_t *const place = module_place(self, type);
  if (*place) return *place;
  struct module *const m = &modules[module_count++];
  *m = (struct module){.object = self, .type = type, .of_class = number_in_class(type)};
  const char *const dot = strrchr(type->tp_name, '.');
  snprintf(m->class_name, sizeof m->class_name, "%s", dot ? dot + 1 : type->tp_name);
  return *place = module_count;
}

uint32_t tg__module_number_of(const void *self, const void *type) {
  pthread_mutex_lock(&lock);
  const uint32_t number = module_add(self, type);
  pthread_mutex_unlock(&lock);
  return number;
}

uint32_t tg__module_number(const void *self) {
  return self ? tg__module_number_of(self, Py_TYPE((PyObject *)(uintptr_t)self)) : 0;
}

static int write_paths_pending(void *unused) {
  atomic_store(&asked, false);
  tg__modules_write_paths(false);
  return 0;
}
static void request_paths(void) {
  if (!atomic_exchange(&asked, true) && Py_AddPendingCall(write_paths_pending, NULL))
    atomic_store(&asked, false); /* full: tick asks again */
}

uint32_t tg__module_call(const struct tg__thread *t, uint32_t stack, uint32_t module, uint32_t above) {
  pthread_mutex_lock(&lock);
  uint32_t number = 0;
  if (array_grow((void **)&calls, &call_room, call_count, sizeof *calls)) {
    calls[call_count] = (struct call){.part = t->number, .stack = stack, .module = module, .above = above};
    number = ++call_count;
    atomic_fetch_add(&unwritten, 1);
  }
  pthread_mutex_unlock(&lock);
  if (number) request_paths();
  return number;
}

/* ---- which live? With the GIL ----------------------------------------------------------------- */

/* A live object: hold it if it is one of ours. */
static void hold(PyObject *object) {
  if (!object) return;
  pthread_mutex_lock(&lock);
  const uint32_t number = module_room ? *module_place(object, Py_TYPE(object)) : 0;
  if (number && !modules[number - 1].held) {
    Py_INCREF(object);
    modules[number - 1].held = object;
  }
  pthread_mutex_unlock(&lock);
}

/* Modules on the stacks of all threads: none can leave its frames while we have the GIL. */
static void hold_what_runs(void) {
  const PyCodeObject *const code = atomic_load(&tg__module_code);
  for (PyThreadState *s = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); s && code; s = PyThreadState_Next(s))
    for (const struct tg__frame *f = tg__frame_innermost(s); f; f = tg__frame_previous(f))
      if (tg__frame_code(f) == code && !tg__frame_is_mark(f)) hold(tg__frame_local(f, 0));
}

static bool all_held(void) {
  bool all = true;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < module_count && all; i++) all = modules[i].held != NULL;
  pthread_mutex_unlock(&lock);
  return all;
}

/* The last resort, at the end of the recording: an object that the collector knows does live. */
static void hold_what_lives(void) {
  PyObject *const gc = PyImport_ImportModule("gc");
  PyObject *const objects = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
  for (Py_ssize_t i = 0; objects && PyList_Check(objects) && i < PyList_GET_SIZE(objects); i++)
    hold(PyList_GET_ITEM(objects, i));
  Py_XDECREF(objects);
  Py_XDECREF(gc);
}

/* ---- where is it in the model? With the GIL -------------------------------------------------- */

struct search {
  const void *target;
  PyObject *name; /* "_modules" */
  uint32_t left;  /* objects it may still look at */
  char path[PATH_BYTES];
};

/* Find the target below `from` and write its path from there at `used`: direct children first, as a model's own
 * lists do. */
static bool search_below(struct search *s, PyObject *from, size_t used, uint32_t nested) {
  PyObject *const children = nested < NESTED_MAX ? PyObject_GenericGetAttr(from, s->name) : NULL;
  PyErr_Clear();
  bool found = false;
  for (uint32_t pass = 0; pass < 2 && !found && children && PyDict_Check(children); pass++) {
    PyObject *key, *child;
    for (Py_ssize_t at = 0; !found && s->left && PyDict_Next(children, &at, &key, &child);) {
      if (child == Py_None || (pass == 0) != (child == s->target) || used + 8 > sizeof s->path) continue;
      s->left--;
      size_t len = used;
      if (len) s->path[len++] = '.';
      len += tg__str_text(key, s->path + len, sizeof s->path - len - 1);
      s->path[len] = '\0';
      Py_INCREF(child);
      found = pass == 0 || search_below(s, child, len, nested + 1);
      Py_DECREF(child);
    }
  }
  Py_XDECREF(children);
  return found;
}

static struct call call_copy(uint32_t number, struct module *of) {
  pthread_mutex_lock(&lock);
  const struct call c = calls[number - 1];
  *of = modules[c.module - 1];
  pthread_mutex_unlock(&lock);
  return c;
}

/* Path of a call into s->path. false: a module around it is not known to live, so that there may be a better answer
 * later. */
static bool path_find(struct search *s, uint32_t number) {
  struct module module, around;
  const struct call c = call_copy(number, &module);
  bool sure = true;
  s->path[0] = '\0';
  for (uint32_t above = c.above; above;) {
    const struct call outer = call_copy(above, &around);
    const size_t used = outer.path ? strlen(outer.path) : 0;
    sure = sure && outer.path && around.held;
    s->target = module.object;
    s->left = SEARCH_MAX;
    if (around.held && used < sizeof s->path) {
      memcpy(s->path, outer.path ? outer.path : "", used);
      if (search_below(s, around.held, used, 0)) {
        hold((PyObject *)(uintptr_t)module.object); /* found in a live model: it lives */
        return sure;
      }
    }
    s->path[0] = '\0';
    above = outer.above;
  }
  return sure;
}

static void call_write(uint32_t number, const char *path) {
  struct module module;
  const struct call c = call_copy(number, &module);
  char text[CLASS_BYTES + PATH_BYTES];
  const int len = snprintf(text, sizeof text, "%s%c%s", module.class_name, 0, path);
  if (!tg__dictionary_write(c.part, TG_RAW_D_MODULE, c.stack, module.of_class, text, (size_t)len)) return;
  char *const copy = PyMem_RawMalloc(strlen(path) + 1);
  if (copy) strcpy(copy, path);
  pthread_mutex_lock(&lock);
  char *const before = calls[number - 1].path;
  calls[number - 1].path = copy;
  if (!calls[number - 1].written) atomic_fetch_sub(&unwritten, 1);
  calls[number - 1].written = true;
  pthread_mutex_unlock(&lock);
  PyMem_RawFree(before);
}

void tg__modules_write_paths(bool last) {
  if (!atomic_load(&unwritten) || !tg__thread()) return; /* only a thread of the session may write to its file */
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  hold_what_runs();
  if (last && !all_held()) hold_what_lives();
  struct search s = {.name = PyUnicode_FromString("_modules")};
  for (uint32_t number = 1; s.name; number++) {
    pthread_mutex_lock(&lock);
    const bool there = number <= call_count, owed = there && !calls[number - 1].written;
    pthread_mutex_unlock(&lock);
    if (!there) break;
    if (owed && (path_find(&s, number) || last)) call_write(number, s.path);
  }
  Py_XDECREF(s.name);
  PyErr_Restore(type, value, traceback);
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Empty the arrays, and let go of the modules when there is a GIL to do it with. */
static void forget(bool with_gil) {
  pthread_mutex_lock(&lock);
  struct module *const old = modules;
  const uint32_t old_count = module_count, old_room = module_room;
  for (uint32_t i = 0; i < call_count; i++) PyMem_RawFree(calls[i].path);
  if (module_room) tg__capture_pages_drop(places, module_room * 2 * sizeof *places);
  if (call_room) tg__capture_pages_drop(calls, call_room * sizeof *calls);
  if (class_room) tg__capture_pages_drop(classes, class_room * sizeof *classes);
  modules = NULL;
  module_count = module_room = call_count = call_room = class_seen = class_room = 0;
  atomic_store(&unwritten, 0);
  pthread_mutex_unlock(&lock);
  for (uint32_t i = 0; i < old_count && with_gil; i++) Py_XDECREF(old[i].held);
  if (old_room) tg__capture_pages_drop(old, old_room * sizeof *old);
}

static PyCodeObject *call_code; /* of nn.Module.__call__; kept for ever */

PyObject *tg__module_function(void) {
  PyObject *const loaded = PyImport_GetModuleDict(); /* borrowed */
  PyObject *const nn = loaded ? PyDict_GetItemString(loaded, "torch.nn") : NULL;
  PyObject *const type = nn ? PyObject_GetAttrString(nn, "Module") : NULL;
  PyObject *function = type ? PyObject_GetAttrString(type, "_wrapped_call_impl") : NULL;
  if (!function && type) function = PyObject_GetAttrString(type, "__call__");
  PyErr_Clear();
  Py_XDECREF(type);
  if (function && !PyFunction_Check(function)) Py_CLEAR(function);
  return function;
}

/* Its code. The first argument must lie in the frame itself. */
static PyCodeObject *call_code_find(void) {
  PyObject *const function = tg__module_function();
  PyCodeObject *code = function ? (PyCodeObject *)PyFunction_GET_CODE(function) : NULL;
#if TG_FRAMES_KNOWN
  enum { IN_A_CELL = 0x40 };
  if (code && (code->co_argcount < 1 || PyBytes_AS_STRING(code->co_localspluskinds)[0] & IN_A_CELL)) code = NULL;
#endif
  Py_XINCREF(code);
  Py_XDECREF(function);
  return code;
}

static enum tg_err prepare_modules(uint32_t features, struct tg_error *e) {
  if (tg__stack_prepare(e)) return e ? e->code : TG_UNSUPPORTED;
  if (!tg__gil_take()) return tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
  PyCodeObject *const code = call_code_find();
  if (code) Py_XSETREF(call_code, code);
  tg__gil_release();
  return code ? TG_OK : tg__fail(e, TG_NO_DATA, -1, "torch.nn is not loaded");
}

static enum tg_err start_modules(uint32_t features, struct tg_error *e) {
  atomic_store(&tg__module_code, call_code);
  return tg__stack_switch(TG_RECORD_MODULES, true) ? TG_OK
                                                   : tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
}

static void stop_modules(void) { tg__stack_switch(TG_RECORD_MODULES, false); }

static void flush(void) {
  const bool gil = tg__gil_take();
  if (gil)
    tg__modules_write_paths(true);
  else
    for (uint32_t number = 1; number <= call_count; number++)
      if (!calls[number - 1].written) call_write(number, "");
  atomic_store(&tg__module_code, NULL);
  forget(gil);
  if (gil) tg__gil_release();
}

static void tick(void) {
  if (atomic_load_explicit(&unwritten, memory_order_relaxed) && Py_IsInitialized()) request_paths();
}

static void fork_child(void) { /* the parent's calls are in the parent's file; the modules are the same */
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  call_count = 0;
  atomic_store(&unwritten, 0);
  atomic_store(&asked, false);
}

static const struct tg__source source = {.name = "modules",
                                         .features = TG_RECORD_MODULES,
                                         .prepare = prepare_modules,
                                         .start = start_modules,
                                         .stop = stop_modules,
                                         .flush = flush,
                                         .tick = tick,
                                         .fork_child = fork_child};

bool tg__python_modules_register(PyObject *module) {
  return (tg__source_add(&source) && tg__source_add(&tg__source_module_spans)) ||
         (PyErr_SetString(PyExc_RuntimeError, "too many sources"), false);
}
