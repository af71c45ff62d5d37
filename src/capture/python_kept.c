/* python_kept: the places of nodes of CUDA graphs that are kept (kept.h): Python stacks as a prefix tree, and the
 * modules among them. A place is made inside a call of CUDA's, without the GIL, and becomes text only when a recording
 * needs it. Code objects are kept for ever, so that they can be read then. A module is known by its address until
 * Python has found the object alive and watches it. */
#include "capture/kept.h"
#include "capture/python_api.h"
#include "capture/python_stack.h"
#include "capture/torch.h"

enum { FRAMES_MOST = 256, MODULES_MOST = 1 << 14, IS_MODULE = 1u << 31, FIRST_INDEX = 256 };

struct place {
  uint32_t above; /* 0 = outermost */
  uint32_t line;  /* IS_MODULE: what follows is the number of a module, else the line in the code */
  uintptr_t what;
};
enum state { UNSEEN, ALIVE, GONE }; /* UNSEEN: its type may be gone, too */
struct module {
  const void *self, *type;
  enum state state;
};
struct written { /* a place in the file that is open */
  uint32_t id, call;
};

static struct place *places; /* number = index + 1 */
static uint32_t *index_of;   /* open addressing: numbers */
static struct module *modules;
static struct written *written;
static size_t places_cap, index_cap, modules_cap, written_cap;
static uint32_t place_count, module_count, written_generation;
static const struct tg__thread *writer;
static PyCodeObject *module_code; /* of nn.Module.__call__; kept for ever */

/* ---- the tree -------------------------------------------------------------------------------- */

static uint32_t *place_slot(struct place p) {
  const uint32_t mask = (uint32_t)(index_cap / sizeof *index_of) - 1;
  uint32_t at =
      (uint32_t)(((uint64_t)p.what ^ (uint64_t)p.above << 40 ^ (uint64_t)p.line << 20) * UINT64_C(0x9e3779b97f4a7c15) >>
                 32) &
      mask;
  for (; index_of[at]; at = (at + 1) & mask) {
    const struct place *const there = &places[index_of[at] - 1];
    if (there->above == p.above && there->line == p.line && there->what == p.what) break;
  }
  return &index_of[at];
}

static bool grow_index(void) {
  const size_t room = index_cap / sizeof *index_of;
  uint32_t *const before = index_of;
  const size_t before_cap = index_cap;
  uint32_t *bigger = NULL;
  size_t cap = 0;
  if (place_count < room / 4 * 3) return true;
  if (!tg__kept_grow(&bigger, &cap, room ? before_cap * 2 : FIRST_INDEX * 4 * sizeof *bigger)) return false;
  index_of = bigger;
  index_cap = cap;
  for (uint32_t i = 0; i < place_count; i++) *place_slot(places[i]) = i + 1;
  tg__kept_release(before, before_cap);
  return true;
}

/* Number of the place; 0 = no room. */
static uint32_t place_number(struct place p) {
  if (!grow_index()) return 0;
  uint32_t *const slot = place_slot(p);
  if (*slot) return *slot;
  if (!tg__kept_grow(&places, &places_cap, (place_count + 1) * sizeof *places)) return 0;
  places[place_count++] = p;
  return *slot = place_count;
}

/* Numbers are places + 1; 0 = no room. The newest first: modules of one model are captured one after the other. */
static uint32_t module_of(const void *self, const void *type) {
  for (uint32_t i = module_count; i-- > 0;)
    if (modules[i].self == self && modules[i].type == type && modules[i].state != GONE) return i + 1;
  if (module_count == MODULES_MOST || !tg__kept_grow(&modules, &modules_cap, (module_count + 1) * sizeof *modules))
    return 0;
  modules[module_count++] = (struct module){.self = self, .type = type};
  return module_count;
}

/* ---- the calling thread's stack -------------------------------------------------------------- */

/* Of a frame: *place becomes it; where its code cannot be kept it stays as it is. false: no room. */
static bool place_below(uint32_t *place, const struct tg__frame *f) {
  const PyCodeObject *const code = tg__frame_code(f);
  const void *const self = code == module_code ? tg__frame_local(f, 0) : NULL;
  struct place p = {.above = *place};
  if (self) {
    p.line = IS_MODULE;
    p.what = module_of(self, Py_TYPE((PyObject *)(uintptr_t)self));
  } else if (tg__code_keep(code)) {
    const int line = tg__code_line(code, tg__frame_instr(f));
    p.line = line > 0 ? (uint32_t)line : 0;
    p.what = (uintptr_t)code;
  } else {
    return true;
  }
  const uint32_t number = p.what ? place_number(p) : 0;
  if (number) *place = number;
  return number != 0;
}

/* The outermost frames of a deeper stack are left out. */
static bool place_now(uint32_t *place) {
  const struct tg__frame *frames[FRAMES_MOST];
  uint32_t n = 0;
  bool ok = true;
  *place = 0;
  for (const struct tg__frame *f = tg__frames_refused() ? NULL : tg__frame_here(); f && n < FRAMES_MOST;
       f = tg__frame_previous(f))
    if (!tg__frame_is_mark(f) && !tg__frame_is_hidden(f, tg__frame_code(f))) frames[n++] = f;
  while (ok && n) ok = place_below(place, frames[--n]);
  return ok;
}

/* ---- into a file ----------------------------------------------------------------------------- */

/* Room to note what the thread's file has; emptied for another file. */
static bool note_file(const struct tg__thread *t) {
  if (!tg__kept_grow(&written, &written_cap, place_count * sizeof *written)) return false;
  if (writer != t || written_generation != t->generation) memset(written, 0, written_cap);
  writer = t;
  written_generation = t->generation;
  return true;
}

static void write_place(struct tg__thread *t, const struct place *p, uint32_t features, struct written *at) {
  const PyCodeObject *const code = p->line == IS_MODULE ? module_code : (const PyCodeObject *)p->what;
  const struct module *const m = p->line == IS_MODULE ? &modules[p->what - 1] : NULL;
  const bool is_module = m && m->state != UNSEEN && features & TG_RECORD_MODULES;
  /* An object that is gone is known by its number here, which is no address. */
  const uint32_t module =
      is_module ? tg__module_number_of(m->state == ALIVE ? m->self : (const void *)p->what, m->type) : 0;
  if (!module && !(features & TG_RECORD_STACKS)) return;
  tg__frame_put(t, &at->id, &at->call, code, m ? code->co_firstlineno : (int)p->line, module);
}

static uint32_t stack_of(struct tg__thread *t, uint32_t place) {
  const uint32_t features = atomic_load(&tg__features);
  uint32_t chain[FRAMES_MOST], n = 0;
  struct written at = {0};
  if (!(features & (TG_RECORD_STACKS | TG_RECORD_MODULES)) || !note_file(t)) return 0;
  for (; place && !written[place - 1].id && n < FRAMES_MOST; place = places[place - 1].above) chain[n++] = place;
  if (place) at = written[place - 1];
  while (n) {
    const uint32_t i = chain[--n] - 1;
    write_place(t, &places[i], features, &at);
    written[i] = at;
  }
  return at.id;
}

static void forget(void) {
  tg__kept_release(places, places_cap);
  tg__kept_release(index_of, index_cap);
  tg__kept_release(modules, modules_cap);
  tg__kept_release(written, written_cap);
  places = NULL;
  index_of = NULL;
  modules = NULL;
  written = NULL;
  places_cap = index_cap = modules_cap = written_cap = 0;
  place_count = module_count = 0;
  writer = NULL;
}

static void count(struct tg__kept_stats *out) {
  out->places = place_count;
  out->modules = module_count;
}

/* ---- for Python ------------------------------------------------------------------------------ */

/* graphs_keep(bytes) → "", or why nodes of graphs cannot be kept; 0: no more, and forget them */
static PyObject *graphs_keep(PyObject *module, PyObject *number) {
  static const struct tg__kept_places own = {place_now, stack_of, forget, count};
  const unsigned long long most = PyLong_AsUnsignedLongLong(number);
  struct tg_error e = {0};
  if (PyErr_Occurred()) return NULL;
  PyObject *const function = module_code ? NULL : tg__module_function();
  if (function) module_code = (PyCodeObject *)Py_NewRef(PyFunction_GET_CODE(function));
  Py_XDECREF(function);
  atomic_store(&tg__kept_places, &own);
  Py_BEGIN_ALLOW_THREADS tg__cuda_keep(most, &e);
  Py_END_ALLOW_THREADS return PyUnicode_DecodeUTF8(e.text, (Py_ssize_t)strlen(e.text), "replace");
}

/* graphs_follow(on) → did torch take it? Which operators are open, from now on, or (for each begin) no more */
static PyObject *graphs_follow(PyObject *module, PyObject *on) {
  struct tg_error e = {0};
  if (!PyObject_IsTrue(on)) {
    tg__torch_follow_end();
    Py_RETURN_NONE;
  }
  return PyBool_FromLong(tg__torch_find_symbols(&e) == TG_OK && tg__torch_follow_begin());
}

/* graphs_modules() → [(number, id of the object, id of its type)] of those that Python has not found yet */
static PyObject *graphs_modules(PyObject *module, PyObject *unused) {
  PyObject *const list = PyList_New(0);
  tg__kept_lock();
  const uint32_t n = module_count;
  struct module *const copy = n ? PyMem_RawMalloc(n * sizeof *copy) : NULL;
  if (copy) memcpy(copy, modules, n * sizeof *copy);
  tg__kept_unlock();
  bool ok = list && (copy || !n);
  for (uint32_t i = 0; ok && i < n; i++) {
    if (copy[i].state != UNSEEN) continue;
    PyObject *const row = Py_BuildValue("(INN)", i + 1, PyLong_FromVoidPtr((void *)(uintptr_t)copy[i].self),
                                        PyLong_FromVoidPtr((void *)(uintptr_t)copy[i].type));
    ok = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row);
  }
  PyMem_RawFree(copy);
  if (ok) return list;
  Py_XDECREF(list);
  return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

/* graphs_module(number, id, lives): the object, which the caller has found, lives; or it does no more. Its type is kept
 * for ever. */
static PyObject *graphs_module(PyObject *module, PyObject *args) {
  unsigned number;
  unsigned long long address;
  int lives;
  if (!PyArg_ParseTuple(args, "IKp:graphs_module", &number, &address, &lives)) return NULL;
  tg__kept_lock();
  struct module *const m = number && number <= module_count ? &modules[number - 1] : NULL;
  const bool is_it = m && (uintptr_t)m->self == address && m->state == (lives ? UNSEEN : ALIVE);
  if (is_it) m->state = lives ? ALIVE : GONE;
  PyTypeObject *const type = is_it && lives ? Py_TYPE((PyObject *)(uintptr_t)address) : NULL;
  tg__kept_unlock();
  Py_XINCREF(type);
  Py_RETURN_NONE;
}

/* graphs_kept() → dict of what is kept */
static PyObject *graphs_kept(PyObject *module, PyObject *unused) {
  const struct tg__kept_stats s = tg__kept_now();
  return Py_BuildValue("{sOsKsKsKsKsKsK}", "on", tg__kept_is_on() ? Py_True : Py_False, "nodes",
                       (unsigned long long)s.nodes, "places", (unsigned long long)s.places, "modules",
                       (unsigned long long)s.modules, "operators", (unsigned long long)s.operators, "bytes",
                       (unsigned long long)s.bytes, "lost", (unsigned long long)s.lost);
}

bool tg__python_kept_register(PyObject *module) {
  static PyMethodDef methods[] = {
      {"graphs_keep", graphs_keep, METH_O,
       "graphs_keep(bytes) -> \"\", or why nodes of CUDA graphs cannot be kept; 0: no more, and forget them"},
      {"graphs_follow", graphs_follow, METH_O,
       "graphs_follow(on) -> did torch take it? Note which operators are open; one off for each on"},
      {"graphs_modules", graphs_modules, METH_NOARGS,
       "graphs_modules() -> [(number, id, id of the type)] of the modules that Python has not found yet"},
      {"graphs_module", graphs_module, METH_VARARGS,
       "graphs_module(number, id, lives): the caller has the object; or it lives no more"},
      {"graphs_kept", graphs_kept, METH_NOARGS, "graphs_kept() -> dict of what is kept, in numbers"},
      {0},
  };
  return PyModule_AddFunctions(module, methods) == 0;
}
