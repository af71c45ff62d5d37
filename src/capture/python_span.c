/* capture: spans of Python code. They nest like everything else as long as they end in order on their thread.
 * Coroutines end them out of order and futures on other threads: then they are taken out of the middle of the open
 * stack, or out of another's. */
#include "capture/python_api.h"

/* ---- on and off ------------------------------------------------------------------------------ */

/* Spans are recorded whenever a recording runs, but where operators are recorded and are switched off for a while,
 * spans are too. */
static struct {
  _Atomic uint32_t generation; /* of the session in which operators were on */
  _Atomic bool is_on;
} operators;

static enum tg_err spans_start(uint32_t features, struct tg_error *e) {
  atomic_store(&operators.generation, atomic_load(&tg__generation));
  atomic_store(&operators.is_on, true);
  return TG_OK;
}

static void spans_stop(void) { atomic_store(&operators.is_on, false); }

static bool is_switched_off(const struct tg__thread *t) {
  return !atomic_load_explicit(&operators.is_on, memory_order_relaxed) &&
         atomic_load_explicit(&operators.generation, memory_order_relaxed) == t->generation;
}

const struct tg__source tg__source_spans = {
    .name = "spans", .features = TG_RECORD_OPS, .start = spans_start, .stop = spans_stop};

/* ---- the open stack -------------------------------------------------------------------------- */

/* Take entry i off the calling thread's stack, wherever it is. */
static void entry_remove(struct tg__thread *t, uint32_t i) {
  memmove(&t->open[i], &t->open[i + 1], (t->depth - i - 1) * sizeof t->open[0]);
  t->depth--;
}

/* Entries that ended elsewhere lost their key there; only their own thread can close the gap. */
static void orphans_remove(struct tg__thread *t, struct tg__python_names *n) {
  for (uint32_t i = t->depth; i-- > 0;)
    if (!t->open[i].key) entry_remove(t, i);
  n->orphans = 0;
}

void tg__python_span_begin_now(struct tg__python_span *s, PyObject *name, uint8_t scope, PyObject *values,
                               PyObject *keywords) {
  struct tg__thread *const t = tg__thread();
  if (!t || is_switched_off(t)) return;
  struct tg__python_names *const n = tg__python_names(t);
  if (TG_UNLIKELY(n && n->orphans)) orphans_remove(t, n);
  const bool again = s->thread == t && s->generation == t->generation;
  s->name = tg__python_name(t, name);
  s->shape = 0;
  if ((values || keywords) && atomic_load_explicit(&tg__features, memory_order_relaxed) & TG_RECORD_SHAPES)
    s->shape = tg__python_inputs(t, values, keywords);
  s->stack = tg__stack_now()(t);
  struct tg__open *const o = tg__open_push(t, s);
  if (TG_UNLIKELY(!o)) {
    if (!again) s->thread = NULL;
    return;
  }
  s->begun = again ? (uint16_t)(s->begun + 1) : 1;
  s->thread = t;
  s->generation = t->generation;
  s->number = t->number;
  s->scope = scope;
  s->place = (uint16_t)(t->depth - 1);
  *o = (struct tg__open){.key = s, .name = s->name, .shape = s->shape, .stack = s->stack, .scope = scope};
  s->start_ticks = o->start_ticks = tg__ticks(); /* last: what came before is not the user's time */
}

/* The index of its newest entry on the calling thread's stack, or TG_NONE. */
static uint32_t entry_find(const struct tg__thread *t, const struct tg__python_span *s) {
  for (uint32_t i = t->depth; i-- > 0;)
    if (t->open[i].key == s) return i;
  return TG_NONE;
}

/* On another thread's stack it can only be marked: that thread may be pushing and popping at this moment, without
 * the GIL. Entries of ours move downwards only, and under the GIL. */
static void entry_orphan(struct tg__thread *t, const struct tg__python_span *s) {
  struct tg__python_names *const n = t->own[TG_SLOT_PYTHON_NAMES];
  for (uint32_t i = s->place + 1u; i-- > 0;) {
    const void *expected = s;
    if (!atomic_compare_exchange_strong((_Atomic(const void *) *)&t->open[i].key, &expected, NULL)) continue;
    if (n) n->orphans++;
    return;
  }
}

/* Write it from what the span itself remembers. `elsewhere`: the ids are another thread's. */
static void span_write(struct tg__thread *t, const struct tg__python_span *s, PyObject *name, bool elsewhere,
                       uint64_t now) {
  const struct tg__open o = {.start_ticks = s->start_ticks,
                             .name = elsewhere ? tg__python_name(t, name) : s->name,
                             .shape = elsewhere ? 0 : s->shape,
                             .stack = elsewhere ? 0 : s->stack,
                             .scope = s->scope};
  tg__record_put(t, &o, now, elsewhere ? TG_RAW_F_ASYNC : 0);
}

static void end_out_of_order(struct tg__thread *t, struct tg__python_span *s, PyObject *name, uint64_t now) {
  const uint32_t i = entry_find(t, s), depth = t->depth;
  /* an operation around it ended first and took it off, or it was detached; or that thread died and its state is
   * ours now */
  if (i == TG_NONE) {
    span_write(t, s, name, s->number != t->number, now);
    return;
  }
  const struct tg__open o = t->open[i];
  t->depth = i; /* the record's depth */
  tg__record_put(t, &o, now, 0);
  t->depth = depth;
  entry_remove(t, i);
}

void tg__python_span_end_now(struct tg__python_span *s, PyObject *name) {
  const uint64_t now = tg__ticks();
  const uint32_t generation = atomic_load_explicit(&tg__generation, memory_order_relaxed);
  struct tg__thread *const t = tg__thread_here;
  if (TG_UNLIKELY(s->generation !=
                  generation)) { /* the recording it began in is over, or this is a fork of that process */
    *s = (struct tg__python_span){0};
    return;
  }
  if (TG_LIKELY(t == s->thread)) {
    if (TG_LIKELY(t->depth && t->open[t->depth - 1].key == s)) {
      const struct tg__open *const o = &t->open[--t->depth];
      tg__record_put(t, o, now, 0);
    } else {
      end_out_of_order(t, s, name, now);
    }
  } else {
    struct tg__thread *const here = tg__thread();
    entry_orphan(s->thread, s);
    if (here) span_write(here, s, name, true, now);
  }
  if (--s->begun == 0) s->thread = NULL;
}

void tg__python_span_forget(struct tg__python_span *s) {
  struct tg__thread *const t = s->thread;
  s->thread = NULL;
  if (!t || s->generation != atomic_load_explicit(&tg__generation, memory_order_relaxed)) return;
  if (t != tg__thread_here) {
    for (uint16_t i = 0; i < s->begun; i++) entry_orphan(t, s);
    return;
  }
  for (uint32_t i = entry_find(t, s); i != TG_NONE; i = entry_find(t, s)) entry_remove(t, i);
}

void tg__python_span_detach(struct tg__python_span *s) {
  struct tg__thread *const t = s->thread;
  tg__python_span_forget(s);
  s->thread = t;
}
