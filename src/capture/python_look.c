/* Looks at one thread, for `tachograph watch`: where it is, about 100 times a second, whether anything is recorded or
 * not. A thread of our own reads its frames (python_far_frames.c), which costs that thread nothing, and keeps each
 * stack once with a count. Python takes them about once a second; only then, with the GIL, do they become names. A code
 * object that was freed meanwhile, or is another one now, has no name. */
#include "capture/python_api.h"
#include "capture/python_frames.h"
#include "capture/session.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  PERIOD_NS = 9000000, /* and up to a quarter more, by chance: not in step with the program */
  STACKS_MOST = 256,   /* different ones between two takes; others are counted and have no place */
  PLACES_MOST = 4096,  /* of all of them */
};

struct place {
  const PyCodeObject *code;
  const void *instr, *file;
  int first_line;
};
struct stack {
  uint64_t key;
  uint32_t first, count, times; /* places from the inside out */
};
struct looks {
  struct stack stacks[STACKS_MOST];
  struct place places[PLACES_MOST];
  uint32_t stack_count, place_count;
  uint32_t times, missed; /* all looks; those without a stack, or without room for one */
};

static struct {
  pthread_t thread;
  pid_t pid; /* of the process that the thread is in; 0 = it does not run. With the GIL, as are begin, take and end */
  _Atomic uint32_t stops; /* a futex */
  pthread_mutex_t lock;   /* what follows */
  const PyThreadState *state;
  struct looks *now;
} looker;
static struct looks both[2]; /* one is filled, one is read */

/* ---- the thread ------------------------------------------------------------------------------ */

static uint64_t stack_key(const struct tg__far_frames *f) {
  uint64_t key = 0;
  for (uint32_t i = 0; i < f->count; i++) key = (key ^ (uint64_t)(uintptr_t)f->items[i].instr) * 0x9e3779b97f4a7c15u;
  return key | 1;
}

static bool read_places(const struct tg__far_frames *f, struct place *out) {
#if TG_FRAMES_KNOWN
  for (uint32_t i = 0; i < f->count; i++) {
    PyCodeObject copy;
    if (!tg__far_code_read(f->items[i].code, f->items[i].instr, &copy)) return false;
    out[i] = (struct place){f->items[i].code, f->items[i].instr, copy.co_filename, copy.co_firstlineno};
  }
#endif
  return f->count > 0;
}

static void count_stack(struct looks *l, const struct tg__far_frames *f) {
  const uint64_t key = stack_key(f);
  uint32_t i = 0;
  while (i < l->stack_count && l->stacks[i].key != key) i++;
  if (i == l->stack_count) {
    if (i == STACKS_MOST || l->place_count + f->count > PLACES_MOST || !read_places(f, &l->places[l->place_count])) {
      l->missed++;
      return;
    }
    l->stacks[l->stack_count++] = (struct stack){.key = key, .first = l->place_count, .count = f->count};
    l->place_count += f->count;
  }
  l->stacks[i].times++;
}

static void look(void) {
  struct tg__far_frames frames;
  pthread_mutex_lock(&looker.lock);
  looker.now->times++;
  if (tg__far_frames_read(looker.state, &frames))
    count_stack(looker.now, &frames);
  else
    looker.now->missed++;
  pthread_mutex_unlock(&looker.lock);
}

static void *look_on(void *unused) {
  uint64_t seed = tg__ticks();
  prctl(PR_SET_NAME, "tachograph");
  while (!atomic_load(&looker.stops)) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const struct timespec left = {.tv_nsec = PERIOD_NS + (long)((seed >> 33) % (PERIOD_NS / 4))};
    syscall(SYS_futex, &looker.stops, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
    if (!atomic_load(&looker.stops)) look();
  }
  return unused;
}

/* ---- for Python ------------------------------------------------------------------------------ */

/* In a forked child the thread has not come along. */
static bool runs(void) { return looker.pid == getpid(); }

bool tg__python_watch_is_off(void) { return !runs(); }

static const PyThreadState *find_thread(unsigned long ident) {
  PyThreadState *state = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(PyThreadState_Get()));
  while (state && state->thread_id != ident) state = PyThreadState_Next(state);
  return state;
}

/* look_begin(ident) → "", or why the look is refused: at this thread from now on */
static PyObject *look_begin(PyObject *module, PyObject *argument) {
  const unsigned long ident = PyLong_AsUnsignedLong(argument);
  if (PyErr_Occurred()) return NULL;
  const char *const refused = tg__frames_refused();
  const PyThreadState *const state = refused ? NULL : find_thread(ident);
  if (!state) return PyUnicode_FromString(refused ? refused : "the thread has ended");
  if (!runs()) {
    pthread_mutex_init(&looker.lock, NULL);
    both[0].times = both[0].missed = both[0].stack_count = both[0].place_count = 0;
    looker.now = &both[0];
    looker.state = state;
    atomic_store(&looker.stops, 0);
    if (!tg__thread_start(&looker.thread, look_on)) return PyUnicode_FromString("no thread can be started");
    looker.pid = getpid();
  }
  pthread_mutex_lock(&looker.lock);
  looker.state = state;
  pthread_mutex_unlock(&looker.lock);
  return PyUnicode_FromString("");
}

static PyObject *name_place(const struct place *p) {
#if TG_FRAMES_KNOWN
  PyCodeObject copy;
  if (tg__far_code_read(p->code, p->instr, &copy) && copy.co_filename == p->file &&
      copy.co_firstlineno == p->first_line)
    return Py_BuildValue("(OiO)", copy.co_filename, tg__code_line(p->code, p->instr), copy.co_name);
#endif
  Py_RETURN_NONE;
}

static PyObject *name_stack(const struct looks *l, const struct stack *s) {
  PyObject *const places = PyTuple_New(s->count);
  for (uint32_t i = 0; places && i < s->count; i++) {
    PyObject *const place = name_place(&l->places[s->first + i]);
    if (!place) {
      Py_DECREF(places);
      return NULL;
    }
    PyTuple_SET_ITEM(places, i, place);
  }
  return places ? Py_BuildValue("(IN)", s->times, places) : NULL;
}

/* look_take() → (looks, of them without a stack, [(times, ((file, line, function) or None, …)), …]): since the last
 * time, each stack from the inside out */
static PyObject *look_take(PyObject *module, PyObject *unused) {
  if (!runs()) return Py_BuildValue("(ii[])", 0, 0);
  pthread_mutex_lock(&looker.lock);
  const struct looks *const l = looker.now;
  looker.now = l == &both[0] ? &both[1] : &both[0];
  looker.now->times = looker.now->missed = looker.now->stack_count = looker.now->place_count = 0;
  pthread_mutex_unlock(&looker.lock);
  PyObject *const stacks = PyList_New(0);
  for (uint32_t i = 0; stacks && i < l->stack_count; i++) {
    PyObject *const stack = name_stack(l, &l->stacks[i]);
    const int failed = stack ? PyList_Append(stacks, stack) : -1;
    Py_XDECREF(stack);
    if (failed) {
      Py_DECREF(stacks);
      return NULL;
    }
  }
  return stacks ? Py_BuildValue("(IIN)", l->times, l->missed, stacks) : NULL;
}

/* look_end(): the looks end */
static PyObject *look_end(PyObject *module, PyObject *unused) {
  if (runs()) {
    const pthread_t thread = looker.thread;
    looker.pid = 0;
    atomic_store(&looker.stops, 1);
    syscall(SYS_futex, &looker.stops, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    Py_BEGIN_ALLOW_THREADS pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
  }
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"look_begin", look_begin, METH_O, "look_begin(ident) -> \"\", or why the look at this thread is refused"},
    {"look_take", look_take, METH_NOARGS,
     "look_take() -> (looks, of them without a stack, [(times, ((file, line, function) or None, ...)), ...])"},
    {"look_end", look_end, METH_NOARGS, "look_end(): the looks end"},
    {0},
};

bool tg__python_watch_register(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }
