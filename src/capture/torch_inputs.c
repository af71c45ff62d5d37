/* torch_inputs: what an operation was called with, as a number. The inputs are walked and compared, word by word,
 * with what followed the last time upon what came before: programs repeat themselves. Else with what the same first
 * inputs had before. Nothing is written while they are equal; only on a difference they are written down and looked
 * up. One walk serves both, so that they cannot disagree.
 *
 * Layout of the result: format/inputs.def. */
#include "capture/torch.h"

enum {
  SETS = 256, /* 8 bits of a key */
  WAYS = 8,
  FIRST_BYTES = 24 * 1024, /* room for remembered inputs that every thread has … */
  MORE_BYTES = 256 * 1024, /* … and that it gets when that is full */
  NAMES = 512,             /* counters of new inputs by name; names that share one share the fate */
  NEW_MAX = 1000,          /* that many different inputs of one name are written with their scalar values */
  LIST_MAX = 30,           /* numbers of a list that are kept: torch's own limit */
  STRING_MAX = 1024,
  WRITTEN_MAX = 60 * 1024, /* of one operation: what a dictionary takes */
  VALUE = 16,              /* bytes of an IValue */
};

/* Inputs that are remembered, one behind the other, aligned like this. The first is a placeholder, and equal to
 * nothing. */
struct seen {
  uint32_t id, len; /* number; how many bytes follow */
  uint32_t next;    /* what came after it the last time: its place */
  uint32_t unused;
  uint8_t bytes[];
};
struct slot {
  uint32_t key, at; /* key: of the name and the first inputs, 0 = free; place of the inputs */
};
struct inputs {
  struct slot sets[SETS][WAYS]; /* a set is one cache line */
  uint16_t fresh[NAMES];
  uint32_t top;            /* highest number so far: a higher one is of inputs that were never seen */
  uint32_t used, previous; /* previous: place of what came last */
  uint32_t room;
  uint8_t *bytes;
  _Alignas(16) uint8_t first[FIRST_BYTES];
};

/* Position of a walk over inputs: writes at p, or compares with what is there. */
struct input_cursor {
  uint8_t *p, *end;
  bool drop;             /* writes no scalar values */
  const uint16_t *fresh; /* compares: how many different inputs the name had */
};
enum { COMPARE = 1, CAREFUL = 2 }; /* how it walks; known when compiled */

TG_INLINE bool put(struct input_cursor *w, const void *bytes, size_t len, int how) {
  if (TG_UNLIKELY((size_t)(w->end - w->p) < len)) return false;
  if (how & COMPARE) {
    if (memcmp(w->p, bytes, len) != 0) return false;
  } else {
    memcpy(w->p, bytes, len);
  }
  w->p += len;
  return true;
}
TG_INLINE bool put8(struct input_cursor *w, uint8_t v, int how) { return put(w, &v, 1, how); }
TG_INLINE bool put16(struct input_cursor *w, uint16_t v, int how) { return put(w, &v, 2, how); }

TG_INLINE bool readable(const void *p, size_t len, int how) { return !(how & CAREFUL) || tg__capture_can_read(p, len); }

/* ---- tensors --------------------------------------------------------------------------------- */

enum { TENSOR_BYTES = 176 }; /* of a TensorImpl that we look at */

static bool is_strided(const void *class) {
  for (size_t i = 0; i < sizeof tg__torch_symbols.strided_classes / sizeof *tg__torch_symbols.strided_classes; i++)
    if (class == tg__torch_symbols.strided_classes[i]) return true;
  return false;
}

TG_INLINE bool put_words(struct input_cursor *w, const uint8_t *words, size_t count, int how) {
  for (size_t i = 0; i < count; i++, words += 8, w->p += 8) {
    const uint64_t v = tg__at64(words);
    if (!(how & COMPARE))
      memcpy(w->p, &v, sizeof v);
    else if (tg__at64(w->p) != v)
      return false;
  }
  return true;
}

TG_INLINE bool put_tensor(struct input_cursor *w, const uint8_t *impl, int how) {
  if (!readable(impl, TENSOR_BYTES, how)) return put8(w, TG_INPUT_UNDEFINED, how);
  const uint8_t *const dims_at = impl + TG_FACT(tensor_dims);
  const uint64_t dims = tg__at64(dims_at);
  const unsigned policy = tg__at16(impl + TG_FACT(tensor_policy) / 8) >> TG_FACT(tensor_policy) % 8 & 3;
  if (TG_UNLIKELY(policy > 1 || dims > 255 || impl == tg__torch_symbols.undefined_tensor))
    return put8(w, TG_INPUT_UNDEFINED, how);
  const bool strided =
      TG_LIKELY(tg__at_pointer(impl) == tg__torch_symbols.strided_classes[0]) || is_strided(tg__at_pointer(impl));
  const uint8_t *sizes = dims_at + 8, *strides = dims_at + TG_FACT(tensor_strides);
  if (TG_UNLIKELY(sizes + dims * 8 > strides)) { /* more than fit: they lie elsewhere, strides behind sizes */
    sizes = tg__at_pointer(sizes);
    strides = sizes + dims * 8;
    if (!readable(sizes, dims * 16, how)) return put8(w, TG_INPUT_UNDEFINED, how);
  }
  const uint32_t head = TG_INPUT_TENSOR | (uint32_t)(tg__at16(impl + TG_FACT(tensor_type)) & 255) << 8 |
                        (uint32_t)dims << 16 | (uint32_t)strided << 24;
  if (TG_UNLIKELY((size_t)(w->end - w->p) < 4 + dims * 16))
    return (how & COMPARE) && !strided && put(w, &head, 4, how) && put(w, sizes, dims * 8, how);
  if (how & COMPARE) {
    if (tg__at32(w->p) != head) return false;
  } else {
    memcpy(w->p, &head, sizeof head);
  }
  w->p += 4;
  return put_words(w, sizes, dims, how) && (!strided || put_words(w, strides, dims, how));
}

/* ---- other values ---------------------------------------------------------------------------- */

/* What a kind of value is written as: INT_LIST stands for every list, SCALAR for complex numbers. Kinds are small
 * numbers. */
enum { KINDS = 64 };
static uint8_t kinds[KINDS];

void tg__torch_inputs_learn(void) {
  const struct {
    int32_t kind;
    uint8_t input;
  } list[] = {
      {TG_FACT(kind_none), TG_INPUT_NONE},      {TG_FACT(kind_tensor), TG_INPUT_TENSOR},
      {TG_FACT(kind_int), TG_INPUT_INT},        {TG_FACT(kind_double), TG_INPUT_DOUBLE},
      {TG_FACT(kind_complex), TG_INPUT_SCALAR}, {TG_FACT(kind_bool), TG_INPUT_BOOL},
      {TG_FACT(kind_string), TG_INPUT_STRING},  {TG_FACT(kind_list), TG_INPUT_INT_LIST},
  };
  memset(kinds, TG_INPUT_OTHER, sizeof kinds);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if ((uint32_t)list[i].kind < KINDS) kinds[list[i].kind] = list[i].input;
}

TG_INLINE uint8_t input_of(const uint8_t *value) { return kinds[tg__at32(value + TG_FACT(value_kind)) % KINDS]; }

/* The text of an object; NULL when there is none that can be kept. */
TG_INLINE const uint8_t *text_of(const uint8_t *object, uint64_t *len, int how) {
  const uint8_t *const string = object + TG_FACT(string_text);
  *len = 0;
  if (!readable(string, 16, how)) return NULL;
  const uint8_t *const text = tg__at_pointer(string);
  const uint8_t *const length =
      TG_FACT(string_length) > 0 ? string + TG_FACT(string_length) : text + TG_FACT(string_length);
  if (!readable(length, 8, how) || tg__at64(length) > STRING_MAX || !readable(text, tg__at64(length), how)) return NULL;
  *len = tg__at64(length);
  return text;
}

TG_INLINE bool put_string(struct input_cursor *w, const uint8_t *object, int how) {
  uint64_t len;
  const uint8_t *const text = text_of(object, &len, how);
  if (!text) return put8(w, TG_INPUT_OTHER, how);
  return put8(w, TG_INPUT_STRING, how) && put16(w, (uint16_t)len, how) && put(w, text, len, how);
}

/* Once the values of a name are not kept any more, "some number" is equal to every number; what is compared may be
 * another name's. */
TG_INLINE bool drops(const struct input_cursor *w, uint8_t dropped, int how) {
  return (how & COMPARE) ? w->p < w->end && *w->p == dropped && *w->fresh >= NEW_MAX : w->drop;
}

TG_INLINE bool put_bare_number(struct input_cursor *w, const uint8_t *value, uint8_t input, int how) {
  return input == TG_INPUT_BOOL ? put8(w, *value != 0, how) : put(w, value, 8, how);
}

TG_INLINE bool put_number(struct input_cursor *w, const uint8_t *value, uint8_t input, int how) {
  if (TG_UNLIKELY(drops(w, TG_INPUT_SCALAR, how))) return put8(w, TG_INPUT_SCALAR, how);
  return put8(w, input, how) && put_bare_number(w, value, input, how);
}

static bool is_number(uint8_t input) {
  return input == TG_INPUT_INT || input == TG_INPUT_DOUBLE || input == TG_INPUT_BOOL;
}

static bool all_are(const uint8_t *item, uint64_t count, uint8_t input) {
  while (count && input_of(item) == input) item += VALUE, count--;
  return !count;
}

TG_INLINE bool put_numbers(struct input_cursor *w, const uint8_t *item, uint64_t count, uint8_t input, int how) {
  const uint8_t tag = input == TG_INPUT_INT      ? TG_INPUT_INT_LIST
                      : input == TG_INPUT_DOUBLE ? TG_INPUT_DOUBLE_LIST
                                                 : TG_INPUT_BOOL_LIST;
  if (count > LIST_MAX || drops(w, TG_INPUT_SCALAR_LIST, how) || !all_are(item, count, input))
    return put8(w, TG_INPUT_SCALAR_LIST, how);
  if (!put8(w, tag, how) || !put16(w, (uint16_t)count, how)) return false;
  for (; count; count--, item += VALUE)
    if (!put_bare_number(w, item, input, how)) return false;
  return true;
}

TG_INLINE bool put_strings(struct input_cursor *w, const uint8_t *item, uint64_t count, int how) {
  if (count > LIST_MAX || !all_are(item, count, TG_INPUT_STRING)) return put8(w, TG_INPUT_OTHER, how);
  if (!put8(w, TG_INPUT_STRING_LIST, how) || !put16(w, (uint16_t)count, how)) return false;
  for (; count; count--, item += VALUE) {
    uint64_t len;
    const uint8_t *const text = text_of(tg__at_pointer(item), &len, how);
    if (!put16(w, (uint16_t)len, how) || !put(w, text ? text : item, len, how)) return false;
  }
  return true;
}

TG_INLINE bool put_tensors(struct input_cursor *w, const uint8_t *item, uint64_t count, int how) {
  if (!put8(w, TG_INPUT_TENSOR_LIST, how) || !put16(w, (uint16_t)count, how)) return false;
  for (; count; count--, item += VALUE)
    if (!put_tensor(w, tg__at_pointer(item), how)) return false;
  return true;
}

/* Of lists of anything else only that they are something. torch calls every empty list but one of tensors a list of
 * numbers. */
TG_INLINE bool put_list(struct input_cursor *w, const uint8_t *object, int how) {
  if (!readable(object + TG_FACT(list_items), 16, how) || !readable(object + TG_FACT(list_type), 8, how))
    return put8(w, TG_INPUT_OTHER, how);
  const uint8_t *const item = tg__at_pointer(object + TG_FACT(list_items));
  const uint64_t count = (uint64_t)(tg__at_pointer(object + TG_FACT(list_items) + 8) - item) / VALUE;
  if (count > UINT16_MAX || !readable(item, count * VALUE, how)) return put8(w, TG_INPUT_OTHER, how);
  if (tg__at_pointer(object + TG_FACT(list_type)) == tg__torch_abi.tensor_type) return put_tensors(w, item, count, how);
  const uint8_t input = count ? input_of(item) : TG_INPUT_INT;
  if (is_number(input)) return put_numbers(w, item, count, input, how);
  if (input == TG_INPUT_STRING) return put_strings(w, item, count, how);
  return put8(w, input == TG_INPUT_SCALAR ? TG_INPUT_SCALAR_LIST : TG_INPUT_OTHER, how);
}

TG_INLINE bool put_value(struct input_cursor *w, const uint8_t *value, int how) {
  const uint8_t input = input_of(value);
  if (input == TG_INPUT_TENSOR) return put_tensor(w, tg__at_pointer(value), how);
  if (is_number(input)) return put_number(w, value, input, how);
  if (input == TG_INPUT_INT_LIST) return put_list(w, tg__at_pointer(value), how);
  if (input == TG_INPUT_STRING) return put_string(w, tg__at_pointer(value), how);
  return put8(w, input, how);
}

/* ---- the walks ------------------------------------------------------------------------------- */

TG_INLINE struct seen *seen_at(const struct inputs *c, uint32_t at) { return (struct seen *)(c->bytes + at); }

TG_INLINE bool same_values(const uint8_t *value, uint32_t count, struct seen *s, const uint16_t *fresh) {
  struct input_cursor w = {.p = s->bytes, .end = s->bytes + s->len, .fresh = fresh};
  for (; count; count--, value += VALUE)
    if (!put_value(&w, value, COMPARE)) return false;
  return w.p == w.end;
}

/* Writes at w->p. false: a value found no room and became something else. */
static bool write_values(const uint8_t *value, uint32_t count, struct input_cursor *w, bool careful) {
  bool complete = true;
  for (; count && w->p < w->end; count--, value += VALUE) {
    uint8_t *const back = w->p;
    if (careful ? put_value(w, value, CAREFUL) : put_value(w, value, 0)) continue;
    complete = false;
    w->p = back;
    *w->p++ = TG_INPUT_OTHER;
  }
  return complete && !count;
}

/* A word that usually differs between inputs of one name, without looking at all of them. Only what has a meaning may
 * count: behind the last size of a tensor stands whatever was there before. */
TG_INLINE uint64_t glance_at_tensor(const uint8_t *impl) {
  const uint8_t *const dims = impl + TG_FACT(tensor_dims);
  const uint64_t n = tg__at64(dims);
  if (TG_UNLIKELY(n * 8 + 8 > (uint64_t)TG_FACT(tensor_strides))) return n; /* the sizes lie elsewhere */
  return n ^ tg__at64(dims + n * 8) << 8 ^
         tg__at64(dims + (n + 1) / 2 * 8) << 32; /* the last one and the one in the middle */
}

TG_INLINE uint64_t glance_at_list(const uint8_t *object, bool tensors_only) {
  const uint8_t *const item = tg__at_pointer(object + TG_FACT(list_items));
  const uint64_t bytes = (uint64_t)(tg__at_pointer(object + TG_FACT(list_items) + 8) - item);
  const uint8_t input = bytes ? input_of(item) : TG_INPUT_NONE;
  if (input == TG_INPUT_TENSOR) return bytes ^ glance_at_tensor(tg__at_pointer(item));
  return input != TG_INPUT_INT || tensors_only ? bytes
                                               : bytes ^ tg__at64(item) << 8 ^ tg__at64(item + bytes - VALUE) << 32;
}

TG_INLINE uint64_t glance_at(const uint8_t *value, bool tensors_only) {
  const uint8_t input = input_of(value);
  if (input == TG_INPUT_TENSOR) return glance_at_tensor(tg__at_pointer(value));
  if (input == TG_INPUT_INT_LIST) return glance_at_list(tg__at_pointer(value), tensors_only);
  return (input == TG_INPUT_INT || input == TG_INPUT_DOUBLE) && !tensors_only ? tg__at64(value) : 0;
}

TG_INLINE uint32_t key_of(const uint8_t *value, uint32_t count, uint32_t name, bool tensors_only) {
  uint64_t mixed = (uint64_t)name << 32 | count;
  for (uint32_t i = 0; i < count && i < 3; i++)
    mixed = (mixed << 21 | mixed >> 43) ^ glance_at(value + i * VALUE, tensors_only);
  return (uint32_t)(mixed * 0x9e3779b97f4a7c15u >> 32) | 1;
}

/* ---- what was seen --------------------------------------------------------------------------- */

static bool in_trial(const struct tg__thread *t) { return t == tg__torch_trial.thread; }

static void forget_all(struct inputs *c) {
  memset(c->sets, 0, sizeof c->sets);
  memset(c->bytes, 0, sizeof(struct seen));
  c->used = sizeof(struct seen);
  c->previous = 0;
}

__attribute__((noinline)) static struct inputs *inputs_enter(struct tg__thread *t) {
  struct inputs *c = t->own[TG_SLOT_TORCH_INPUTS];
  if (!c) c = in_trial(t) ? tg__pages_get(sizeof *c) : tg__capture_pages(sizeof *c);
  t->own[TG_SLOT_TORCH_INPUTS] = c;
  t->own_generation[TG_SLOT_TORCH_INPUTS] = t->generation;
  if (!c) return NULL;
  memset(c->fresh, 0, sizeof c->fresh);
  c->top = 0;
  if (!c->room) {
    c->bytes = c->first;
    c->room = FIRST_BYTES;
  }
  forget_all(c);
  return c;
}

void tg__torch_forget_inputs(struct tg__thread *t) {
  if (t->own[TG_SLOT_TORCH_INPUTS]) tg__pages_drop(t->own[TG_SLOT_TORCH_INPUTS], sizeof(struct inputs));
}

/* More room once; afterwards everything is forgotten. */
static void make_room_for_inputs(struct tg__thread *t, struct inputs *c) {
  uint8_t *const more = c->bytes == c->first && !in_trial(t) ? tg__capture_pages(MORE_BYTES) : NULL;
  if (more) {
    c->bytes = more;
    c->room = MORE_BYTES;
  }
  forget_all(c);
}

/* Place of these inputs when the name had them before; 0 = no. */
__attribute__((noinline)) static uint32_t recall(const struct inputs *c, uint32_t key, const uint8_t *value,
                                                 uint32_t count, const uint16_t *fresh) {
  const struct slot *const set = c->sets[key >> 24];
  for (size_t way = 0; way < WAYS; way++)
    if (set[way].key == key && same_values(value, count, seen_at(c, set[way].at), fresh)) return set[way].at;
  return 0;
}

/* What is behind all that is remembered becomes remembered. */
static uint32_t remember(struct inputs *c, uint32_t key, uint32_t id, uint32_t len) {
  struct slot *const set = c->sets[key >> 24];
  const uint32_t at = c->used;
  size_t way = 0;
  while (way < WAYS && set[way].key) way++;
  if (way == WAYS) way = at / sizeof(struct seen) % WAYS; /* any will do */
  set[way] = (struct slot){key, at};
  seen_at(c, at)->id = id;
  seen_at(c, at)->len = len;
  seen_at(c, at)->next = 0;
  c->used = (at + (uint32_t)sizeof(struct seen) + len + 15) & ~15u;
  return at;
}

/* The inputs behind those that are remembered already; their bytes. */
static uint32_t write_somewhere(struct tg__thread *t, struct inputs *c, const uint8_t *value, uint32_t count,
                                bool keep) {
  for (int tries = 0;; tries++) {
    const uint32_t taken = c->used + (uint32_t)sizeof(struct seen) + 16; /* 16: so that the next is aligned */
    const uint32_t left = c->room > taken ? c->room - taken : 0, room = left < WRITTEN_MAX ? left : WRITTEN_MAX;
    uint8_t *const begin = seen_at(c, c->used)->bytes;
    struct input_cursor w = {.p = begin, .end = begin + room, .drop = !keep};
    if ((left && write_values(value, count, &w, false)) || room == WRITTEN_MAX || tries == 2)
      return (uint32_t)(w.p - begin);
    make_room_for_inputs(t, c);
  }
}

static bool keeps_scalars(struct tg__thread *t, const uint16_t *fresh) {
  if (*fresh < NEW_MAX) return true;
  tg__thread_count(t, TG_RAW_C_SHAPE_DROPPED, 1);
  return false;
}

/* Place of inputs that are new, or were forgotten; 0 = no room in the file. */
__attribute__((noinline)) static uint32_t learn(struct tg__thread *t, struct inputs *c, const uint8_t *value,
                                                uint32_t count, uint32_t name, uint16_t *fresh) {
  const bool keep = keeps_scalars(t, fresh);
  const uint32_t key = key_of(value, count, name, !keep);
  const uint32_t known = keep ? 0 : recall(c, key, value, count, fresh);
  if (known) return known;
  const uint32_t len = write_somewhere(t, c, value, count, keep);
  const uint32_t id = tg__torch_intern(t, TG_RAW_D_SHAPE, seen_at(c, c->used)->bytes, len);
  if (!id) return 0;
  if (id > c->top) {
    c->top = id;
    *fresh += *fresh < NEW_MAX;
  }
  return remember(c, key, id, len);
}

/* In the self-test nothing is believed: every pointer is asked for, and nothing remembered. */
static uint32_t inputs_careful(struct tg__thread *t, struct inputs *c, const uint8_t *value, uint32_t count) {
  if (count > 64 || !tg__capture_can_read(value, (size_t)count * VALUE)) return 0;
  struct input_cursor w = {.p = c->bytes, .end = c->bytes + c->room};
  write_values(value, count, &w, true);
  return tg__torch_intern(t, TG_RAW_D_SHAPE, c->bytes, (size_t)(w.p - c->bytes));
}

uint32_t tg__torch_inputs(struct tg__thread *t, const uint8_t *rf, uint32_t name, uint32_t count) {
  struct inputs *c = t->own[TG_SLOT_TORCH_INPUTS];
  if (TG_UNLIKELY(!c || t->own_generation[TG_SLOT_TORCH_INPUTS] != t->generation)) c = inputs_enter(t);
  if (TG_UNLIKELY(!c)) return 0;
  const uint8_t *value = tg__at_pointer(rf + TG_FACT(inputs));
  const uint64_t all = tg__at64(rf + TG_FACT(inputs) + 8);
  if (all < count) count = (uint32_t)all;
  if (!count) return 0; /* as torch: nothing to say */
  if (TG_UNLIKELY(in_trial(t))) return inputs_careful(t, c, value, count);
  value += (all - count) * VALUE; /* of an operation called through the interpreter torch shows the whole stack */
  uint16_t *const fresh = &c->fresh[name % NAMES];
  uint32_t at = seen_at(c, c->previous)->next;
  if (!same_values(value, count, seen_at(c, at), fresh)) {
    at = recall(c, key_of(value, count, name, false), value, count, fresh);
    if (TG_UNLIKELY(!at)) at = learn(t, c, value, count, name, fresh);
    if (TG_UNLIKELY(!at)) return 0;
    seen_at(c, c->previous)->next = at;
  }
  const struct seen *const now = seen_at(c, at), *const next = seen_at(c, now->next);
  __builtin_prefetch(next); /* needed some 100 ns from here */
  __builtin_prefetch(next->bytes + 48);
  c->previous = at;
  return now->id;
}
