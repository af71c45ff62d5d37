/* torch_hook: one record per operation, autograd node and annotation of torch, on every thread. torch calls a pair
 * of functions around each; which pair is chosen at the start, so that nothing is asked where it costs. One pair is
 * registered for all kinds of records, as torch goes through its list twice for each autograd node; where the kind
 * cannot be read from torch's object, a pair for each kind.
 *
 * C++ returns the start's result through a hidden slot: on x86-64 that is a first argument, on aarch64 the register
 * x8. */
#include "capture/kept.h"
#include "capture/session.h"
#include "capture/torch.h"

#include <stdio.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* Per thread and session: numbers of the names that were met. Both tables in sets of four, a set of schemas is one
 * cache line. */
enum { SCHEMA_SETS = 128, TEXT_SETS = 64, WAYS = 4, TEXT_BYTES = 18 * 1024, TEXT_MAX = 1024 };
struct schema_name {
  const void *schema; /* lives as long as its operator is registered, in practice for ever */
  uint32_t id, inputs;
};
struct text_name {
  uint64_t hash; /* of the ends only: the bytes are compared */
  uint32_t at, len, id;
};
struct names {
  struct schema_name schemas[SCHEMA_SETS][WAYS];
  struct text_name texts[TEXT_SETS][WAYS];
  uint32_t forward_thread, forward_stack, forward_id; /* the last pair and its number; 0 = none yet */
  uint32_t text_used;
  char text[TEXT_BYTES];
};
struct op_name {
  uint32_t id, inputs; /* inputs: how many it declares */
};

static bool is_trial(const struct tg__thread *t) { return TG_UNLIKELY(t == tg__torch_trial.thread); }

uint32_t tg__torch_intern(struct tg__thread *t, enum tg__raw_dictionary kind, const void *bytes, size_t len) {
  return is_trial(t) ? tg__torch_trial_intern(kind, bytes, len) : tg__dictionary_intern(t, kind, 0, bytes, len);
}

/* The caches of the thread, made or emptied when they are of another session. NULL: no memory, or the budget is used
 * up. */
__attribute__((noinline)) static struct names *names_enter(struct tg__thread *t) {
  struct names *n = t->own[TG_SLOT_TORCH];
  if (!n && !is_trial(t))
    n = tg__capture_pages(sizeof *n);
  else if (!n)
    n = tg__pages_get(sizeof *n);
  else
    memset(n, 0, offsetof(struct names, text));
  t->own[TG_SLOT_TORCH] = n;
  t->own_generation[TG_SLOT_TORCH] = t->generation;
  if (!is_trial(t)) tg__thread_logical(t, (uint32_t)tg__torch_symbols.thread_id());
  return n;
}

/* Of the trial's thread: they are not counted. */
void tg__torch_forget_caches(struct tg__thread *t) {
  if (t->own[TG_SLOT_TORCH]) tg__pages_drop(t->own[TG_SLOT_TORCH], sizeof(struct names));
  tg__torch_forget_inputs(t);
}

/* What a reader shall see: name, and behind a zero byte the overload where there is one. */
static uint32_t intern_op(struct tg__thread *t, const void *rf) {
  char text[TEXT_MAX];
  const char *const name = tg__torch_symbols.name(rf);
  const char *const overload = tg__torch_symbols.overload_name ? tg__torch_symbols.overload_name(rf) : "";
  const size_t name_len = strlen(name), overload_len = strlen(overload);
  if (!overload_len || name_len + 1 + overload_len > sizeof text)
    return tg__torch_intern(t, TG_RAW_D_NAME, name, name_len);
  memcpy(text, name, name_len + 1);
  memcpy(text + name_len + 1, overload, overload_len);
  return tg__torch_intern(t, TG_RAW_D_NAME, text, name_len + 1 + overload_len);
}

/* A new name: number it, and put it in front of its set. */
__attribute__((noinline)) static struct op_name schema_learn(struct tg__thread *t, const void *rf, const void *schema,
                                                             struct schema_name *set) {
  const struct schema_name fresh = {schema, intern_op(t, rf), (uint32_t)tg__torch_symbols.num_inputs(rf)};
  if (set && fresh.id) { /* without a number there was no room: asked again the next time */
    memmove(set + 1, set, (WAYS - 1) * sizeof *set);
    set[0] = fresh;
  }
  return (struct op_name){fresh.id, fresh.inputs};
}

TG_INLINE bool same_text(const char *a, const char *b, size_t len) {
  if (len < 8) return memcmp(a, b, len) == 0;
  for (size_t i = 0; i + 8 < len; i += 8)
    if (tg__at64(a + i) != tg__at64(b + i)) return false;
  return tg__at64(a + len - 8) == tg__at64(b + len - 8);
}

/* Distinguishes most texts: both ends and the length. */
TG_INLINE uint64_t hash_ends(const char *text, size_t len) {
  if (len >= 16) return tg__hash_mix(tg__at64(text + len - 16) ^ tg__at64(text) ^ len << 56, tg__at64(text + len - 8));
  if (len >= 8) return tg__hash_mix(tg__at64(text) ^ len << 56, tg__at64(text + len - 8));
  uint64_t word = 0;
  memcpy(&word, text, len);
  return tg__hash_mix(word, len);
}

__attribute__((noinline)) static uint32_t text_slow(struct tg__thread *t, struct names *n, const char *text, size_t len,
                                                    uint64_t hash) {
  const uint32_t id = tg__torch_intern(t, TG_RAW_D_NAME, text, strnlen(text, len));
  if (!n || !id || len > TEXT_MAX) return id;
  if (n->text_used + len > TEXT_BYTES) { /* texts that are never the same, as step numbers: begin again */
    memset(n->texts, 0, sizeof n->texts);
    n->text_used = 0;
  }
  struct text_name *const set = n->texts[hash % TEXT_SETS];
  memmove(set + 1, set, (WAYS - 1) * sizeof *set);
  memcpy(n->text + n->text_used, text, len);
  set[0] = (struct text_name){hash, n->text_used, (uint32_t)len, id};
  n->text_used += (uint32_t)len;
  return id;
}

TG_INLINE uint32_t text_id(struct tg__thread *t, struct names *n, const char *text, size_t len) {
  const uint64_t hash = hash_ends(text, len);
  if (TG_LIKELY(n && len)) {
    const struct text_name *const set = n->texts[hash % TEXT_SETS];
    for (size_t way = 0; way < WAYS; way++)
      if (set[way].hash == hash && set[way].len == len && same_text(n->text + set[way].at, text, len))
        return set[way].id;
  }
  return text_slow(t, n, text, len, hash);
}

/* The std::string inside the object. Its text is the operation's own and gone when it ends. */
TG_INLINE uint32_t string_id(struct tg__thread *t, struct names *n, const uint8_t *string, bool careful) {
  const char *const text = (const char *)tg__at_pointer(string);
  const uint8_t *const length =
      TG_FACT(string_length) > 0 ? string + TG_FACT(string_length) : (const uint8_t *)text + TG_FACT(string_length);
  if (careful && !tg__capture_can_read(length, 8)) return 0;
  const size_t len = tg__at64(length);
  if (careful && (len > TEXT_MAX || !tg__capture_can_read(text, len))) return 0;
  return text_id(t, n, text, len);
}

TG_INLINE struct op_name name_of(struct tg__thread *t, struct names *n, const uint8_t *rf, bool careful) {
  if (rf[TG_FACT(name_kind)] != 1) return (struct op_name){string_id(t, n, rf + TG_FACT(name), careful), UINT32_MAX};
  const void *const schema = tg__at_pointer(rf + TG_FACT(name));
  struct schema_name *const set = n ? n->schemas[((uintptr_t)schema * 0x9e3779b97f4a7c15u) >> 57] : NULL;
  for (size_t way = 0; set && way < WAYS;
       way++) /* where they stand: two that take turns must not change places each time */
    if (set[way].schema == schema) return (struct op_name){set[way].id, set[way].inputs};
  return schema_learn(t, rf, schema, set);
}
_Static_assert(SCHEMA_SETS == 1 << (64 - 57), "the shift in name_of");

/* ---- start and end --------------------------------------------------------------------------- */

/* The number torch has for this call, where another tool asked torch for numbers: an execution trace names its nodes
 * by it. */
TG_INLINE uint64_t call_of(const uint8_t *rf) { return TG_FACT(call) ? tg__at64(rf + TG_FACT(call)) : 0; }

TG_INLINE uint8_t scope_of(const uint8_t *rf) { return rf[TG_FACT(scope)]; }

enum {
  BARE = 1,
  SHAPES = 2,
  STACK = 4,
  TRIAL = 8
}; /* how a start function was made. BARE: nothing but names is known of this torch */

/* Forward thread and Python stack of an autograd node as one number. One pass backward is one call in Python: mostly
 * the same pair again. */
TG_INLINE uint32_t forward_entry(struct tg__thread *t, struct names *n, uint32_t thread, uint32_t stack) {
  if (TG_LIKELY(n && n->forward_id && n->forward_thread == thread && n->forward_stack == stack)) return n->forward_id;
  char digits[16];
  const int len = snprintf(digits, sizeof digits, "%u", thread);
  const uint32_t id = tg__dictionary_intern(t, TG_RAW_D_CONTEXT, stack, digits, (size_t)len);
  const uint32_t field = id ? id | TG_RAW_CONTEXT_ENTRY : thread & ~TG_RAW_CONTEXT_ENTRY;
  if (n && id) {
    n->forward_thread = thread;
    n->forward_stack = stack;
    n->forward_id = field;
  }
  return field;
}

/* A record of the framework just below the top of the stack says that TorchScript runs on this thread. */
TG_INLINE bool is_in_script(const struct tg__thread *t) {
  const struct tg__open *const below = t->depth > 1 ? &t->open[t->depth - 2] : NULL;
  if (!below || (below->scope != TG_RAW_OP && below->scope != TG_RAW_USER))
    return below && below->scope == TG_RAW_SCRIPT;
  return below->stack & TG_RAW_CONTEXT_ENTRY;
}

/* TorchScript's modules and the Python stack around an operator as one number. */
__attribute__((noinline)) static uint32_t script_entry(struct tg__thread *t, uint32_t stack) {
  char text[TEXT_MAX];
  const size_t len = tg__torch_script_modules(text, sizeof text);
  const uint32_t id = len ? tg__dictionary_intern(t, TG_RAW_D_CONTEXT, stack, text, len) : 0;
  return id ? id | TG_RAW_CONTEXT_ENTRY : stack;
}

/* The autograd engine puts a record of its own around each node; it lacks the sequence number of that node. */
TG_INLINE void mark_engine_record(struct tg__thread *t, const struct tg__open *node) {
  struct tg__open *const engine = t->depth > 1 ? &t->open[t->depth - 2] : NULL;
  if (!engine || engine->scope != TG_RAW_OP || engine->seq) return;
  engine->scope = TG_RAW_BACKWARD;
  engine->seq = node->seq;
  engine->stack = node->stack;
}

static bool script_modules; /* TorchScript's modules are recorded; set before torch calls us */

TG_INLINE void begin(const uint8_t *rf, const uint8_t scope, const int how) {
  if ((how & TRIAL) && tg__torch_self() != tg__torch_trial.owner) return;
  struct tg__thread *const t = (how & TRIAL) ? tg__torch_trial.thread : tg__thread();
  struct tg__open *const o = t ? tg__open_push(t, rf) : NULL;
  if (TG_UNLIKELY(!o)) return;
  struct names *n = t->own[TG_SLOT_TORCH];
  if (TG_UNLIKELY(!n || t->own_generation[TG_SLOT_TORCH] != t->generation)) n = names_enter(t);
  o->scope = scope;
  o->shape = o->stack = o->seq = 0;
  if (how & TRIAL) tg__torch_trial_call(call_of(rf));
  if (how & BARE) {
    const char *const name = tg__torch_symbols.name(rf);
    o->name = text_id(t, n, name, strlen(name));
  } else {
    const struct op_name name = name_of(t, n, rf, how & TRIAL);
    o->name = name.id;
    o->seq = (uint32_t)(tg__at64(rf + TG_FACT(sequence)) + 1);
    if (how & SHAPES) o->shape = tg__torch_inputs(t, rf, name.id, name.inputs);
    if (scope == TG_RAW_BACKWARD) o->stack = (uint32_t)tg__at64(rf + TG_FACT(forward_thread));
  }
  if (how & STACK) {
    const uint32_t stack = tg__stack_now()(t);
    if (scope == TG_RAW_BACKWARD)
      o->stack = forward_entry(t, n, o->stack, stack);
    else
      o->stack = script_modules && (scope == TG_RAW_SCRIPT || is_in_script(t)) ? script_entry(t, stack) : stack;
  }
  if (!(how & (TRIAL | BARE)) && scope == TG_RAW_BACKWARD) mark_engine_record(t, o);
  o->start_ticks = tg__ticks();
}

TG_INLINE void put(struct tg__thread *t, const struct tg__open *o, const uint8_t *rf, uint64_t now, uint8_t flags) {
  const uint64_t call = call_of(rf);
  if (TG_LIKELY(!call))
    tg__record_put(t, o, now, flags);
  else
    tg__record_put_long(t, o, now, flags, call);
}

/* The entry of an operation that began on another thread. It stays in that thread's stack until the thread removes it;
 * only its key is cleared. Its contents were written before the work was handed over. */
static bool take_from_others(const struct tg__thread *t, const void *rf, struct tg__open *out) {
  for (struct tg__thread *other = tg__threads_first(); other; other = other->more->next) {
    if (other == t || other->generation != t->generation) continue;
    for (uint32_t i = other->depth < TG_OPEN_MAX ? other->depth : TG_OPEN_MAX; i-- > 0;) {
      const void *expected = rf;
      if (__atomic_load_n(&other->open[i].key, __ATOMIC_RELAXED) != rf) continue;
      *out = other->open[i];
      if (__atomic_compare_exchange_n(&other->open[i].key, &expected, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return true;
    }
  }
  return false;
}

/* Not the one that began last: it is asynchronous, or overlaps with others, or began before the recording. Numbers
 * of names are each thread's own; those of inputs and stacks cannot be had any more. */
__attribute__((noinline)) static void end_out_of_order(struct tg__thread *t, const void *rf, uint64_t now) {
  struct tg__open o;
  uint32_t i = t->depth;
  while (i > 0 && t->open[i - 1].key != rf) i--;
  if (i == 0 && take_from_others(t, rf, &o)) {
    o.name = intern_op(t, rf);
    o.shape = 0;
    if (o.scope != TG_RAW_BACKWARD || o.stack & TG_RAW_CONTEXT_ENTRY) o.stack = 0;
    put(t, &o, rf, now, TG_RAW_F_ASYNC);
    return;
  }
  const struct tg__open *const own = tg__open_pop_search(t, rf);
  if (own) put(t, own, rf, now, 0);
}

static void end(const void *rf, void *context) {
  const uint64_t now = tg__ticks();
  struct tg__thread *const t = tg__thread();
  if (TG_LIKELY(t && t->depth && t->open[t->depth - 1].key == rf))
    put(t, &t->open[--t->depth], rf, now, 0);
  else if (t)
    end_out_of_order(t, rf, now);
}

static void end_trial(const void *rf, void *context) {
  const uint64_t now = tg__ticks();
  if (tg__torch_self() != tg__torch_trial.owner) return;
  struct tg__thread *const t = tg__torch_trial.thread;
  const struct tg__open *const o = tg__open_pop(t, rf);
  if (o && t->next < t->end)
    tg__record_put(t, o, now - o->start_ticks > UINT32_MAX ? o->start_ticks + UINT32_MAX : now, 0);
}

static void end_watch(const void *rf, void *context) {}

/* What torch calls: `name` with the slot first. The slot stays empty: we keep the state ourselves. */
#if defined(__aarch64__)
#define ENTRY(name)                                                                                                    \
  __asm__(".text\n.p2align 2\n.type " #name ", %function\n" #name                                                      \
          ":\n  hint #34\n  mov x1, x0\n  mov x0, x8\n  b " #name "_in_c\n");                                          \
  extern void *name(void **context, const void *rf) __attribute__((visibility("hidden")));
#define IN_C(name) __attribute__((used)) static void *name##_in_c
#else
#define ENTRY(name)
#define IN_C(name) static void *name
#endif
#define START_WITH(name, statement)                                                                                    \
  IN_C(name)(void **context, const void *rf) {                                                                         \
    *context = NULL;                                                                                                   \
    statement;                                                                                                         \
    return context;                                                                                                    \
  }                                                                                                                    \
  ENTRY(name)
#define START(name, scope, how) START_WITH(name, begin(rf, scope, how))

#define KIND(name, scope)                                                                                              \
  START(tg__##name, scope, 0)                                                                                          \
  START(tg__##name##_shapes, scope, SHAPES)                                                                            \
  START(tg__##name##_stack, scope, STACK)                                                                              \
  START(tg__##name##_shapes_stack, scope, SHAPES | STACK)                                                              \
  START(tg__##name##_bare, scope, BARE)                                                                                \
  START(tg__##name##_bare_stack, scope, BARE | STACK)                                                                  \
  START(tg__##name##_trial, scope, TRIAL)                                                                              \
  START(tg__##name##_trial_shapes, scope, TRIAL | SHAPES)

KIND(op, TG_RAW_OP)
KIND(backward, TG_RAW_BACKWARD)
KIND(script, TG_RAW_SCRIPT)
KIND(user, TG_RAW_USER)
KIND(any, scope_of(rf))
START_WITH(tg__watch, tg__torch_observe(rf))
START_WITH(tg__delay, tg__torch_delay(rf))
START_WITH(tg__following, tg__torch_follow(rf))

/* ---- registration ---------------------------------------------------------------------------- */

enum { KINDS = 4, ANY = KINDS, VARIANTS = 8 };
/* The numbers of the format are torch's own; the self-test sees whether those of operators, nodes and annotations
 * still are. */
static const uint8_t kind_scope[KINDS] = {TG_RAW_OP, TG_RAW_BACKWARD, TG_RAW_SCRIPT, TG_RAW_USER};
typedef void *start_fn(void **context, const void *rf);
#define VARIANTS_OF(name)                                                                                              \
  {tg__##name,        tg__##name##_shapes,     tg__##name##_stack, tg__##name##_shapes_stack,                          \
   tg__##name##_bare, tg__##name##_bare_stack, tg__##name##_trial, tg__##name##_trial_shapes}
static start_fn *const starts[KINDS + 1][VARIANTS] = {VARIANTS_OF(op), VARIANTS_OF(backward), VARIANTS_OF(script),
                                                      VARIANTS_OF(user), VARIANTS_OF(any)};

static uint64_t handles[KINDS], trial_handles[KINDS], watch_handle[KINDS], delay_handle[KINDS], follow_handle[KINDS];

/* torch keeps its list of callbacks under a lock. A child forked while one of our threads held that would wait for
 * it for ever. */
static uint64_t add_callback(struct tg__torch_callback c) {
  tg__fork_block();
  const uint64_t handle = tg__torch_symbols.add_callback(c);
  tg__fork_unblock();
  return handle;
}
static void remove_callback(uint64_t handle) {
  tg__fork_block();
  tg__torch_symbols.remove_callback(handle);
  tg__fork_unblock();
}
static bool any_callbacks(void) {
  tg__fork_block();
  const bool any = !tg__torch_symbols.has_callbacks || tg__torch_symbols.has_callbacks();
  tg__fork_unblock();
  return any;
}

struct needs {
  bool inputs, calls;
};
static bool add_callbacks(size_t variant, void (*ended)(const void *, void *), struct needs needs, uint64_t *handle) {
  const size_t count = TG_FACT(scope) ? 1 : KINDS;
  for (size_t i = 0; i < count; i++) {
    struct tg__torch_callback c = {.start = starts[count == 1 ? ANY : i][variant],
                                   .end = ended,
                                   .probability = 1,
                                   .needs_inputs = needs.inputs,
                                   .needs_ids = needs.calls};
    for (size_t k = 0; k < KINDS; k++) c.scopes[kind_scope[k]] = count == 1 || k == i;
    handle[i] = add_callback(c);
    if (!handle[i]) return false;
  }
  return true;
}

/* torch logs a warning when a callback is gone because the program removed all of them: check first. */
static void remove_callbacks(uint64_t *handle) {
  const bool any = any_callbacks();
  for (size_t k = 0; k < KINDS; k++) {
    if (handle[k] && any) remove_callback(handle[k]);
    handle[k] = 0;
  }
}

/* One for all kinds of records, whatever is known of torch's objects. */
static bool add_one(start_fn *start, void (*ended)(const void *, void *), bool needs_all, uint64_t *handle) {
  struct tg__torch_callback c = {
      .start = start, .end = ended, .probability = 1, .needs_inputs = needs_all, .needs_ids = needs_all};
  for (size_t k = 0; k < KINDS; k++) c.scopes[kind_scope[k]] = true;
  handle[0] = add_callback(c);
  return handle[0] != 0;
}

bool tg__torch_watch_begin(void) { return add_one(tg__watch, end_watch, true, watch_handle); }
void tg__torch_watch_end(void) { remove_callbacks(watch_handle); }

bool tg__torch_delays_begin(void) { return add_one(tg__delay, tg__torch_delay_ended, false, delay_handle); }
void tg__torch_delays_end(void) { remove_callbacks(delay_handle); }
bool tg__torch_delays_are_off(void) { return !delay_handle[0]; }

bool tg__torch_follow_add(void) {
  struct tg__torch_callback c = {.start = tg__following, .end = tg__torch_followed, .probability = 1};
  c.scopes[TG_RAW_OP] = true;
  follow_handle[0] = add_callback(c);
  return follow_handle[0] != 0;
}
void tg__torch_follow_remove(void) { remove_callbacks(follow_handle); }

bool tg__torch_trial_begin(uint32_t features) {
  const struct needs needs = {.inputs = features & TG_RECORD_SHAPES, .calls = TG_FACT(call) != 0};
  return add_callbacks(features & TG_RECORD_SHAPES ? 7 : 6, end_trial, needs, trial_handles);
}
void tg__torch_trial_end(void) { remove_callbacks(trial_handles); }

/* ---- the sources ----------------------------------------------------------------------------- */

static uint32_t known; /* of this torch: TG_RECORD_OPS, TG_RECORD_SHAPES */
static struct {
  size_t variant;
  struct needs needs;
} chosen;

static enum tg_err torch_prepare(uint32_t features, struct tg_error *e) { return tg__torch_understand(&known, e); }

static void torch_stop(void) { remove_callbacks(handles); }

static enum tg_err torch_start(uint32_t features, struct tg_error *e) {
  const bool shapes = features & known & TG_RECORD_SHAPES, stack = tg__stack_now() != tg__stack_none,
             bare = !(known & TG_RECORD_OPS);
  remove_callbacks(handles);
  chosen.variant = bare ? 4u + stack : (size_t)shapes + 2 * stack;
  chosen.needs.inputs = shapes && !bare;
  script_modules = features & TG_RECORD_MODULES && tg__torch_symbols.module_hierarchy;
  if (add_callbacks(chosen.variant, end, chosen.needs, handles)) return TG_OK;
  torch_stop();
  return tg__fail(e, TG_UNSUPPORTED, -1, "operators: torch did not take the callback");
}

/* The program may have removed all callbacks, as tests of torch do: ours come back. */
static void torch_tick(void) {
  if (handles[0] && !any_callbacks()) add_callbacks(chosen.variant, end, chosen.needs, handles);
}

static bool torch_is_off(void) {
  for (size_t k = 0; k < KINDS; k++)
    if (handles[k]) return false;
  return true;
}

const struct tg__source tg__source_torch = {
    .name = "torch",
    .features = TG_RECORD_OPS,
    .prepare = torch_prepare,
    .start = torch_start,
    .stop = torch_stop,
    .tick = torch_tick,
    .fork_hold = tg__torch_lock_take,
    .fork_release = tg__torch_lock_release,
    .is_off = torch_is_off,
};

static enum tg_err inputs_prepare(uint32_t features, struct tg_error *e) {
  const enum tg_err err = tg__torch_understand(&known, e);
  if (err || known & TG_RECORD_SHAPES) return err;
  return tg__torch_why_not(e);
}
static enum tg_err inputs_start(uint32_t features, struct tg_error *e) { return TG_OK; }
static void inputs_stop(void) {}

const struct tg__source tg__source_torch_inputs = {
    .name = "torch inputs",
    .features = TG_RECORD_SHAPES,
    .prepare = inputs_prepare,
    .start = inputs_start,
    .stop = inputs_stop,
};
