/* Samples of the thread that began the recording, or the one that asked for them since, or in a forked child the one it
 * begins with: where it is, and what it waits for, while it begins no operator for long. A thread of our own looks
 * about 200 times a second, and at first 800 times, at what costs that thread nothing: the time of its last record, its
 * clock, the system call it is in, and in a long stretch, inside a label or a step, its frames (python_far_frames.c).
 * Where it waits for a lock or the GIL, or could go on and has no core, the other threads of Python are looked at as
 * well (python_side_samples.c), and while it stands in an operator, those of them that use a core.
 * The GIL is taken only for a place that was not seen before. But for the first half of a millisecond it spends at most
 * a hundredth of its time on samples. */
#include "capture/python_samples.h"
#include "capture/session.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  PERIOD_NS = 4000000,       /* and up to a third more, by chance: not in step with the program */
  FIRST_PERIOD_NS = 1000000, /* for so long: a few short steps are often all that is recorded */
  FIRST_NS = 200000000,
  LONG_NS = 500000,   /* a stretch without an operator */
  WARM_NS = 3000000,  /* until the rate of the tick counter is known: two readings 0.1 us apart are 3e-5 of it */
  REST = 100,         /* of the time one part of so many may go into samples, */
  FREE_NS = 50000000, /* as if it were so much more: the first makes its thread and its places known, 0.3 ms */
};

static struct {
  pthread_t thread;
  bool runs; /* under tg__ticks_hold, as are all of these but `stops`: the thread reads what stood at its start */
  _Atomic uint32_t stops; /* a futex */
  struct tg__thread *of;  /* the watched thread */
  const PyThreadState *state;
  uint32_t os_thread;
  bool is_wanted;          /* between start and stop */
  bool is_forked;          /* in a child: there are no steps, so all it does counts, */
  struct tg__thread *home; /* of this thread, whoever starts the sampler. NULL: of that one */
  const PyThreadState *home_state;
  int call_file; /* its /proc/self/task/…/syscall, -1 = not to be had */
  clockid_t clock;
} sampler = {.call_file = -1};

struct look { /* at the watched thread, from the outside */
  uint64_t ticks, wall_ns, cpu_ns;
  uint64_t since;   /* ticks: when it last began or ended something */
  bool is_in_label; /* all it has open are labels and calls of modules, at least one; in a forked child none, too */
  bool is_open;     /* it has anything open, operators too */
};

uint64_t tg__time_on(clockid_t clock) {
  struct timespec t;
  return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- looking from the outside ---------------------------------------------------------------- */

static bool is_label(uint8_t scope) {
  return scope == TG_RAW_USER || scope == TG_RAW_ANNOTATION || scope == TG_RAW_NVTX_RANGE || scope == TG_RAW_STEP ||
         scope == TG_RAW_MODULE;
}

/* The thread may change all of it meanwhile: what is read is looked at again with the GIL, and believed when it is
 * the same. */
static void read_open(const struct tg__thread *t, struct look *out) {
  const uint32_t depth = __atomic_load_n(&t->depth, __ATOMIC_RELAXED);
  out->since = __atomic_load_n(&t->last_ticks, __ATOMIC_RELAXED);
  out->is_open = depth > 0;
  out->is_in_label = depth > 0 ? depth <= TG_OPEN_MAX : sampler.is_forked;
  if (!out->is_in_label || !depth) return;
  const struct tg__open *const top = &t->open[depth - 1];
  const uint64_t begun = __atomic_load_n(&top->start_ticks, __ATOMIC_RELAXED);
  if (begun > out->since) out->since = begun;
  out->is_in_label = is_label(__atomic_load_n(&top->scope, __ATOMIC_RELAXED));
}

static struct look look_now(void) {
  struct look l = {.ticks = tg__ticks(), .wall_ns = tg__time_on(CLOCK_MONOTONIC), .cpu_ns = tg__time_on(sampler.clock)};
  read_open(sampler.of, &l);
  return l;
}

/* ---- a sample -------------------------------------------------------------------------------- */

static bool is_still(const struct look *l) {
  struct look again;
  read_open(sampler.of, &again);
  return again.since == l->since && again.is_in_label;
}

uint32_t tg__far_frames_number(struct tg__thread *t, const struct tg__far_frames *f) {
  struct tg__chain *const c = tg__chain(t);
  bool has_gil = false;
  uint32_t above = 0;
  for (uint32_t i = f->count; c && i-- > 0;) {
    const void *const instr = f->items[i].instr;
    const PyCodeObject *const code = f->items[i].code;
    PyCodeObject copy;
    const uint64_t key = (uint64_t)(uintptr_t)instr;
    if (tg__place_known(c, &above, key)) continue;
    if (!has_gil && !(has_gil = tg__gil_take())) return 0;
    if (tg__far_code_read(code, instr, &copy)) tg__place_new(t, c, &above, code, tg__code_line(code, instr), key);
  }
  if (has_gil) tg__gil_release();
  return above;
}

static uint32_t stack_now(struct tg__thread *t, const struct look *l) {
  struct tg__far_frames frames;
  return tg__far_frames_read(sampler.state, &frames) && is_still(l) ? tg__far_frames_number(t, &frames) : 0;
}

/* Of the time since the look before the part in the stretch, which is ns: a thread that runs now did so before as well;
 * one that waits ran on its core before the stretch began. */
static uint64_t cpu_inside(const struct look *before, const struct look *l, uint64_t ns, bool is_running) {
  const uint64_t cpu = l->cpu_ns > before->cpu_ns ? l->cpu_ns - before->cpu_ns : 0;
  const uint64_t all = l->wall_ns - before->wall_ns, outside = all > ns ? all - ns : 0;
  if (is_running && all) return cpu < all ? (uint64_t)((unsigned __int128)cpu * ns / all) : ns;
  return cpu <= outside ? 0 : cpu - outside < ns ? cpu - outside : ns;
}

/* From from_ticks to the look, which is ns. */
static void take_sample(struct tg__thread *t, const struct look *before, const struct look *l, uint64_t from_ticks,
                        uint64_t ns) {
  const char *const doing = tg__doing_now(sampler.call_file, 2 * cpu_inside(before, l, ns, false) >= ns);
  const bool is_running = doing[0] == 'r';
  const uint32_t stack = stack_now(t, l),
                 name = stack ? tg__dictionary_intern(t, TG_RAW_D_NAME, 0, doing, strlen(doing)) : 0;
  if (!name || !atomic_load_explicit(&tg__running, memory_order_relaxed)) return;
  const struct tg__open o = {.start_ticks = from_ticks,
                             .name = name,
                             .stack = stack,
                             .shape = (uint32_t)(cpu_inside(before, l, ns, is_running) / 1000),
                             .scope = TG_RAW_SAMPLE};
  tg__record_put(t, &o, l->ticks, 0);
  const bool waits_for_threads = strcmp(doing, TG_DOING_LOCK) == 0 || strcmp(doing, TG_DOING_GIL) == 0,
             has_no_core = is_running && 2000 * (uint64_t)o.shape < ns;
  if ((waits_for_threads || has_no_core) && !sampler.is_forked)
    tg__side_samples_take(t, sampler.state, l->ticks, false);
}

/* In ns, by how far both clocks have come since the first look. */
static uint64_t ticks_to_ns(uint64_t ticks, const struct look *first, const struct look *l) {
  const uint64_t span = l->ticks - first->ticks;
  return span ? (uint64_t)((unsigned __int128)ticks * (l->wall_ns - first->wall_ns) / span) : 0;
}

static bool is_due(const struct look *first, const struct look *l) {
  return l->wall_ns - first->wall_ns > WARM_NS && l->is_in_label && l->ticks > l->since &&
         ticks_to_ns(l->ticks - l->since, first, l) >= LONG_NS &&
         __atomic_load_n(&sampler.of->os_thread, __ATOMIC_RELAXED) == sampler.os_thread;
}

/* In an operator it neither computes nor waits for Python: what it stands there for may be a core that another thread
 * has. */
static bool stands_in_operator(const struct look *first, const struct look *before, const struct look *l) {
  return l->wall_ns - first->wall_ns > WARM_NS && !sampler.is_forked && l->is_open && !l->is_in_label &&
         2 * (l->cpu_ns - before->cpu_ns) < l->wall_ns - before->wall_ns;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void wait_ns(uint64_t ns) {
  const struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
  syscall(SYS_futex, &sampler.stops, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
}

static void *watch(void *unused) {
  const struct look first = look_now();
  struct look before = first;
  uint64_t used_ns = 0, seed = first.ticks;
  bool is_named = false;
  prctl(PR_SET_NAME, "tachograph");
  while (!atomic_load(&sampler.stops)) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t gone_ns = before.wall_ns - first.wall_ns, due_ns = REST * used_ns,
                   period_ns = gone_ns < FIRST_NS ? FIRST_PERIOD_NS : PERIOD_NS;
    const uint64_t rest_ns = due_ns > gone_ns + FREE_NS ? due_ns - gone_ns - FREE_NS : 0;
    wait_ns(period_ns + (seed >> 33) % (period_ns / 3) + rest_ns);
    const struct look l = look_now();
    const bool is_due_now = is_due(&first, &l), stands = !is_due_now && stands_in_operator(&first, &before, &l);
    struct tg__thread *const t = (is_due_now || stands) && !atomic_load(&sampler.stops) ? tg__thread() : NULL;
    if (t) {
      const uint64_t from = before.ticks > l.since ? before.ticks : l.since,
                     begun_ns = tg__time_on(CLOCK_THREAD_CPUTIME_ID);
      if (!is_named) tg_thread_name("samples of Python stacks");
      is_named = true;
      if (is_due_now)
        take_sample(t, &before, &l, from, ticks_to_ns(l.ticks - from, &first, &l));
      else
        tg__side_samples_take(t, sampler.state, l.ticks, true);
      used_ns += tg__time_on(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    }
    before = l;
  }
  return NULL;
}

/* ---- the source ------------------------------------------------------------------------------ */

/* Without it nothing is missing but what long stretches are: it is no reason to refuse stacks. */
static enum tg_err start_samples(uint32_t features, struct tg_error *e) {
  if (features & TG_RECORD_CALLS || tg__frames_refused()) return TG_OK; /* with calls every function is recorded */
  sampler.is_wanted = true;
  sampler.of = sampler.home ? sampler.home : tg__thread();
  sampler.state = sampler.home ? sampler.home_state : PyGILState_GetThisThreadState();
  if (!sampler.of || !sampler.state) return TG_OK;
  sampler.os_thread = sampler.of->os_thread;
  sampler.clock = (clockid_t)(~sampler.os_thread << 3 | 6); /* of this thread, as the kernel numbers such clocks */
  sampler.call_file = tg__doing_open(sampler.os_thread);
  atomic_store(&sampler.stops, 0);
  sampler.runs = tg__thread_start(&sampler.thread, watch);
  return TG_OK;
}

static void close_call_file(void) {
  if (sampler.call_file >= 0) close(sampler.call_file);
  sampler.call_file = -1;
}

/* Called without the GIL, which the thread may be waiting for. */
static void stop_samples(void) {
  sampler.is_wanted = false;
  if (!sampler.runs) return;
  atomic_store(&sampler.stops, 1);
  syscall(SYS_futex, &sampler.stops, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  pthread_join(sampler.thread, NULL);
  sampler.runs = false;
  close_call_file();
}

static void fork_child(void) { /* the thread has not come along */
  sampler.runs = false;
  sampler.is_forked = true;
  sampler.home = NULL;
  close_call_file();
}

static bool is_off(void) { return !sampler.runs; }

static const struct tg__source source = {.name = "samples of Python stacks",
                                         .features = TG_RECORD_STACKS,
                                         .start = start_samples,
                                         .stop = stop_samples,
                                         .fork_child = fork_child,
                                         .is_off = is_off};

/* ---- for Python ------------------------------------------------------------------------------ */

/* In a child another thread may pause and resume: it is not that one that works. */
static void sample_at_home(void) {
  struct tg_error ignored;
  sampler.home = tg__thread();
  sampler.home_state = PyGILState_GetThisThreadState();
  if (sampler.is_wanted && !sampler.runs) (void)start_samples(TG_RECORD_STACKS, &ignored);
}

/* sample_here(): from now on the calling thread is watched, if samples are taken at all */
static PyObject *sample_here(PyObject *module, PyObject *unused) {
  struct tg_error ignored;
  Py_BEGIN_ALLOW_THREADS tg__ticks_hold();
  if (sampler.is_forked) {
    sample_at_home();
  } else if (sampler.runs && sampler.of != tg__thread()) {
    stop_samples();
    (void)start_samples(TG_RECORD_STACKS, &ignored);
  }
  tg__ticks_release();
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"sample_here", sample_here, METH_NOARGS, "sample_here(): samples are of the calling thread from now on"}, {0}};

bool tg__python_samples_register(PyObject *module) {
  if (!tg__source_add(&source)) return PyErr_SetString(PyExc_RuntimeError, "too many sources"), false;
  return PyModule_AddFunctions(module, methods) == 0;
}
