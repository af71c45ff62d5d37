/* Every call of a Python function, and of a C function from Python, as a record from its begin to its end.
 *
 * The calls lie on the thread's open stack between the operations, so they nest with them. A call's stack is a node
 * of the same tree as the operators' (python_stack.c); as each call and return is seen, the chain only has to look
 * at the caller. Frames that were open already when the recording began are put below everything at the thread's
 * first event, as if they had begun with it. */
#include "capture/python_calls.h"

#include <stdio.h>

enum { OPEN_BEFORE_MAX = 128, NAMES = 1024, NAME_BYTES = 512 };

struct c_name {
  const PyMethodDef *method;
  const char *name; /* its ml_name: a method that was freed may have left its address to another */
  uint32_t id;
};
struct calls {    /* own[TG_SLOT_CALLS] */
  uint64_t known; /* session and attachment that this thread's state is of */
  uint32_t names_used;
  struct c_name names[NAMES];
};

static struct {
  uint32_t count; /* of attachments; written under the GIL */
  uint64_t begin_ticks, end_ticks;
} attached;

/* ---- a thread's first event ------------------------------------------------------------------ */

static bool is_call(const struct tg__open *o) {
  return o->scope == TG_RAW_PYTHON_CALL || o->scope == TG_RAW_PYTHON_C_CALL || o->scope == TG_RAW_MODULE;
}

/* Calls that were open when the last attachment ended: their ends were not seen. */
static void calls_cut(struct tg__thread *t, uint64_t end_ticks) {
  for (uint32_t i = t->depth; i-- > 0;) {
    if (!is_call(&t->open[i])) continue;
    const uint32_t above = t->depth - i - 1;
    const struct tg__open o = t->open[i];
    t->depth = i; /* the record's depth */
    tg__record_put(t, &o, end_ticks, TG_RAW_F_CUT);
    memmove(&t->open[i], &t->open[i + 1], above * sizeof o);
    t->depth = i + above;
  }
}

static struct tg__open call_entry(const struct tg__link *l, uint64_t start_ticks) {
  return (struct tg__open){.key = l->frame,
                           .start_ticks = start_ticks,
                           .stack = l->node,
                           .scope = l->self ? TG_RAW_MODULE : TG_RAW_PYTHON_CALL};
}

/* The `count` outer links of the chain, as calls below all that is open: they began before it. */
static void calls_insert(struct tg__thread *t, const struct tg__chain *c, uint32_t count, uint64_t start_ticks) {
  if (t->depth && t->open[0].start_ticks < start_ticks) start_ticks = t->open[0].start_ticks;
  struct tg__open entries[OPEN_BEFORE_MAX];
  const uint32_t most = TG_OPEN_MAX - t->depth < OPEN_BEFORE_MAX ? TG_OPEN_MAX - t->depth : OPEN_BEFORE_MAX;
  uint32_t n = 0;
  for (uint32_t i = count; i-- > 0 && n < most;)
    if (tg__link_is_shown(c, &c->links[i])) entries[n++] = call_entry(&c->links[i], start_ticks);
  memmove(&t->open[n], t->open, t->depth * sizeof t->open[0]);
  for (uint32_t i = 0; i < n; i++) t->open[i] = entries[n - 1 - i];
  t->depth += n;
}

static struct calls *calls_new(struct tg__thread *t) {
  struct calls *k = t->own[TG_SLOT_CALLS];
  if (!k) k = t->own[TG_SLOT_CALLS] = tg__capture_pages(sizeof *k);
  if (k && t->own_generation[TG_SLOT_CALLS] != t->generation) {
    memset(k, 0, sizeof *k);
    t->own_generation[TG_SLOT_CALLS] = t->generation;
  }
  return k;
}

static uint64_t attachment_of(const struct tg__thread *t) { return (uint64_t)t->generation << 32 | attached.count; }

/* begins: the event is the begin of the innermost frame, which is not open yet. */
static struct calls *calls_first(struct tg__thread *t, bool begins, uint64_t start_ticks) {
  struct calls *const k = calls_new(t);
  struct tg__chain *const c = tg__chain(t);
  if (!k || !c) return NULL;
  if (k->known) calls_cut(t, attached.end_ticks);
  k->known = attachment_of(t);
  c->depth = 0; /* it was not followed until now */
  if (tg__chain_now(t, c)) calls_insert(t, c, c->depth - begins, start_ticks);
  return k;
}

static inline struct calls *calls_here(struct tg__thread *t, bool begins) {
  struct calls *const k = t->own[TG_SLOT_CALLS];
  const bool own =
      t->own_generation[TG_SLOT_CALLS] == t->generation; /* not when the state was another thread's before */
  return TG_LIKELY(k && own && k->known == attachment_of(t)) ? k : calls_first(t, begins, attached.begin_ticks);
}

void tg__calls_thread_begins(void) {
  struct tg__thread *const t = tg__thread();
  if (t) calls_first(t, false, tg__ticks());
}

/* ---- Python functions ------------------------------------------------------------------------ */

void tg__call_begin(const struct tg__frame *f) {
  struct tg__thread *const t = tg__thread();
  struct calls *const k = t ? calls_here(t, true) : NULL;
  struct tg__chain *const c = k ? tg__chain(t) : NULL;
  const struct tg__link *const l = c ? tg__chain_enter(t, c, f) : NULL;
  if (TG_UNLIKELY(!l || !tg__link_is_shown(c, l))) return;
  struct tg__open *const o = tg__open_push(t, f);
  if (TG_LIKELY(o != NULL))
    *o = call_entry(l, tg__ticks()); /* the clock last: what came before is not the function's time */
}

/* Not on top: it was too deep or is not shown, or entries above it never ended, or it began before all that was
 * followed. */
static void end_search(struct tg__thread *t, const void *key, uint64_t now) {
  uint32_t i = t->depth;
  while (i && t->open[i - 1].key != key) i--;
  if (i) tg__record_put(t, tg__open_pop(t, key), now, 0);
}

static void end(const void *key) {
  const uint64_t now = tg__ticks();
  struct tg__thread *const t = tg__thread();
  if (TG_LIKELY(t && t->depth && t->open[t->depth - 1].key == key)) {
    const struct tg__open *const o = &t->open[--t->depth];
    tg__record_put(t, o, now, 0);
    return;
  }
  if (t && calls_here(t, false)) end_search(t, key, now);
}
void tg__call_end(const struct tg__frame *f) { end(f); }

/* ---- C functions ----------------------------------------------------------------------------- */

/* As repr() of the function says it, without a call of Python. Like torch, a method that is seen again keeps the
 * name of its first object; beyond NAMES functions the object's address is left out, which would make each call a
 * name of its own. */
static uint32_t c_name_make(struct tg__thread *t, const PyMethodDef *method, PyObject *self, bool address) {
  char text[NAME_BYTES];
  int len;
  if (!self || PyModule_Check(self))
    len = snprintf(text, sizeof text, "<built-in function %s>", method->ml_name);
  else if (address)
    len = snprintf(text, sizeof text, "<built-in method %s of %s object at %p>", method->ml_name,
                   Py_TYPE(self)->tp_name, (void *)self);
  else
    len = snprintf(text, sizeof text, "<built-in method %s of %s object>", method->ml_name, Py_TYPE(self)->tp_name);
  return tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

static uint32_t c_name(struct tg__thread *t, struct calls *k, const PyMethodDef *method, PyObject *self) {
  size_t at = (size_t)(((uintptr_t)method >> 4) * 0x9e3779b97f4a7c15u >> 54) % NAMES;
  while (k->names[at].method && (k->names[at].method != method || k->names[at].name != method->ml_name))
    at = (at + 1) % NAMES;
  if (TG_LIKELY(k->names[at].method != NULL)) return k->names[at].id;
  const bool room = k->names_used < NAMES / 4 * 3;
  const uint32_t id = c_name_make(t, method, self, room);
  if (!room) return id;
  k->names[at] = (struct c_name){method, method->ml_name, id};
  k->names_used++;
  return id;
}

/* A frame waits in one C function at a time: its address + 1 is the key. */
static const void *c_key(const struct tg__frame *f) { return (const char *)f + 1; }

void tg__c_call_begin(const struct tg__frame *f, const PyMethodDef *method, PyObject *self) {
  struct tg__thread *const t = tg__thread();
  struct calls *const k = t ? calls_here(t, false) : NULL;
  struct tg__chain *const c = k ? tg__chain(t) : NULL;
  const struct tg__link *const l = c ? tg__chain_caller(t, c, f) : NULL;
  if (TG_UNLIKELY(!l || !tg__link_is_shown(c, l))) return;
  const uint32_t name = c_name(t, k, method, self);
  struct tg__open *const o = tg__open_push(t, c_key(f));
  if (TG_LIKELY(o != NULL))
    *o = (struct tg__open){
        .key = c_key(f), .name = name, .stack = l->node, .scope = TG_RAW_PYTHON_C_CALL, .start_ticks = tg__ticks()};
}
void tg__c_call_end(const struct tg__frame *f) { end(c_key(f)); }

/* ---- the source ------------------------------------------------------------------------------ */

static enum tg_err prepare_calls(uint32_t features, struct tg_error *e) {
  const enum tg_err err = tg__stack_prepare(e);
  if (err) return err;
  if (!tg__gil_take()) return tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
  const enum tg_err busy = tg__calls_ready(e);
  tg__gil_release();
  return busy;
}

static enum tg_err start_calls(uint32_t features, struct tg_error *e) {
  if (!tg__stack_switch(0, true)) return tg__fail(e, TG_NO_DATA, -1, "the interpreter is not running");
  tg__gil_take();
  attached.count++;
  attached.begin_ticks = tg__ticks();
  const enum tg_err err = tg__calls_attach(e);
  tg__gil_release();
  return err;
}

/* The program called sys.setprofile: mark from where on calls are missing. */
static void mark_taken(void) {
  static const char text[] = "calls of Python functions are missing: sys.setprofile was called by the program";
  struct tg__thread *const t = tg__thread();
  if (!t) return;
  const struct tg__open o = {.start_ticks = tg__ticks(),
                             .name = tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, sizeof text - 1),
                             .scope = TG_RAW_MARK};
  tg__record_put(t, &o, o.start_ticks, 0);
}

static void stop_calls(void) {
  if (!tg__gil_take()) return;
  const bool taken = tg__calls_detach();
  attached.end_ticks = tg__ticks();
  struct tg__thread *const t = tg__thread();
  if (t) calls_cut(t, attached.end_ticks); /* of other threads they are cut when the file is closed */
  if (taken) mark_taken();
  tg__gil_release();
}

static const struct tg__source source = {.name = "Python calls",
                                         .features = TG_RECORD_CALLS,
                                         .prepare = prepare_calls,
                                         .start = start_calls,
                                         .stop = stop_calls,
                                         .is_off = tg__calls_are_off};

bool tg__python_calls_register(PyObject *module) {
  return tg__source_add(&source) || (PyErr_SetString(PyExc_RuntimeError, "tachograph: too many sources"), false);
}
