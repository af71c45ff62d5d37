/* The floor: what torch asks for a pair of callbacks that does nothing, and for one that only reads the clock twice;
 * and the same of a function around nn.Module's. Nothing that is recorded by these ways can cost less. A library for
 * recorder.py; x86-64 only, where C can be called as C++ calls. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>

#include "capture/torch.h"

enum { KINDS = 3 };
static const uint8_t scope[KINDS] = {TG_RAW_OP, TG_RAW_BACKWARD, TG_RAW_USER};
static uint64_t handle[KINDS];
static volatile uint64_t last_ticks;

static void *start_empty(void **context, const void *rf) {
  (void)rf;
  *context = NULL;
  return context;
}
static void end_empty(const void *rf, void *context) { (void)rf, (void)context; }

static void *start_clock(void **context, const void *rf) {
  last_ticks = __builtin_ia32_rdtsc();
  return start_empty(context, rf);
}
static void end_clock(const void *rf, void *context) {
  (void)rf, (void)context;
  last_ticks = __builtin_ia32_rdtsc();
}

static void *torch_function(const char *symbol) {
  void *const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  return cpu ? dlsym(cpu, symbol) : NULL;
}

/* 0 = done. inputs: torch shall box the arguments, as it must for shapes. */
int floor_on(int clock, int inputs) {
  uint64_t (*add)(struct tg__torch_callback);
  *(void **)&add = torch_function("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
  if (!add) return 1;
  for (int k = 0; k < KINDS; k++) {
    struct tg__torch_callback c = {.start = clock ? start_clock : start_empty,
                                   .end = clock ? end_clock : end_empty,
                                   .probability = 1,
                                   .needs_inputs = inputs};
    c.scopes[scope[k]] = true;
    handle[k] = add(c);
  }
  return 0;
}

void floor_off(void) {
  void (*drop)(uint64_t);
  *(void **)&drop = torch_function("_ZN2at14removeCallbackEm");
  for (int k = 0; k < KINDS; k++)
    if (handle[k]) drop(handle[k]);
}

/* ---- calls of functions ----------------------------------------------------------------------- */

static int profile_empty(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) { return 0; }

/* A profile function of the calling thread. With the GIL. */
void floor_profile(int on) { PyEval_SetProfile(on ? profile_empty : NULL, NULL); }

/* ---- calls of modules ------------------------------------------------------------------------ */

static vectorcallfunc original;

static PyObject *call_empty(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
  PyObject *const result = original(callable, args, nargsf, names);
  __asm__ volatile(""); /* a call, and no jump */
  return result;
}
static PyObject *call_clock(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
  last_ticks = __builtin_ia32_rdtsc();
  PyObject *const result = original(callable, args, nargsf, names);
  last_ticks = __builtin_ia32_rdtsc();
  return result;
}

/* What calls of a function from C go through. With the GIL. */
vectorcallfunc floor_pointer(PyObject *callable) { return ((PyFunctionObject *)callable)->vectorcall; }
void floor_pointer_set(PyObject *callable, vectorcallfunc to) { ((PyFunctionObject *)callable)->vectorcall = to; }
/* A pointer that goes to the one that is there now, with nothing else, or with a reading of the clock before and after.
 */
vectorcallfunc floor_pointer_around(PyObject *callable, int clock) {
  original = floor_pointer(callable);
  return clock ? call_clock : call_empty;
}
