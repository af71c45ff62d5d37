/* torch_inputs: what an operation was called with, as a number. The inputs are walked once and compared, word by word, with what
 * the same name had the last times; nothing is written while they are equal. Only on a difference they are written down and
 * looked up. One walk serves both, so that they cannot disagree.
 *
 * Layout of the result: format/inputs.def. */
#include "capture/torch.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
  SETS = 256,
  WAYS = 4,
  FIRST_BYTES = 24 * 1024, /* room for remembered inputs that every thread has … */
  MORE_BYTES = 256 * 1024, /* … and that it gets when that is full */
  NAMES = 512,             /* counters of new inputs by name; names that share one share the fate */
  NEW_MAX = 1000,          /* that many different inputs of one name are written with their scalar values */
  LIST_MAX = 30,           /* numbers of a list that are kept: torch's own limit */
  STRING_MAX = 1024,
  VALUE = 16, /* bytes of an IValue */
};

struct seen {
  uint32_t key, id, at, len; /* key: of the name and the first inputs; 0 = free */
};
struct inputs {
  struct seen sets[SETS][WAYS];
  uint16_t fresh[NAMES];
  uint32_t top; /* highest number so far: a higher one is of inputs that were never seen */
  uint32_t used, room;
  uint8_t *bytes;
  uint8_t first[FIRST_BYTES];
};

/* What walks: writes at p, or compares with what is there. */
struct pen {
  uint8_t *p, *end;
  bool drop; /* write no scalar values */
};
enum { COMPARE = 1, CAREFUL = 2 }; /* how it walks; known when compiled */

ALWAYS_INLINE bool put(struct pen *w, const void *bytes, size_t len, int how) {
  if (TG_UNLIKELY((size_t)(w->end - w->p) < len)) return false;
  if (how & COMPARE) {
    if (memcmp(w->p, bytes, len) != 0) return false;
  } else {
    memcpy(w->p, bytes, len);
  }
  w->p += len;
  return true;
}
ALWAYS_INLINE bool put8(struct pen *w, uint8_t v, int how) { return put(w, &v, 1, how); }
ALWAYS_INLINE bool put16(struct pen *w, uint16_t v, int how) { return put(w, &v, 2, how); }

ALWAYS_INLINE bool readable(const void *p, size_t len, int how) { return !(how & CAREFUL) || tg__guest_can_read(p, len); }

/* ---- tensors --------------------------------------------------------------------------------------------------------------------- */

enum { TENSOR_BYTES = 176 }; /* of a TensorImpl that we look at */

static bool is_strided(const void *class) {
  for (size_t i = 0; i < sizeof tg__torch_symbols.strided_classes / sizeof *tg__torch_symbols.strided_classes; i++)
    if (class == tg__torch_symbols.strided_classes[i]) return true;
  return false;
}

ALWAYS_INLINE bool put_words(struct pen *w, const uint8_t *words, size_t count, int how) {
  for (size_t i = 0; i < count; i++, words += 8, w->p += 8) {
    const uint64_t v = tg__at64(words);
    if (!(how & COMPARE))
      memcpy(w->p, &v, sizeof v);
    else if (tg__at64(w->p) != v)
      return false;
  }
  return true;
}

ALWAYS_INLINE bool put_tensor(struct pen *w, const uint8_t *impl, int how) {
  if (!readable(impl, TENSOR_BYTES, how)) return put8(w, TG_INPUT_UNDEFINED, how);
  const uint8_t *const dims_at = impl + TG_FACT(tensor_dims);
  const uint64_t dims = tg__at64(dims_at);
  const unsigned policy = tg__at16(impl + TG_FACT(tensor_policy) / 8) >> TG_FACT(tensor_policy) % 8 & 3;
  if (TG_UNLIKELY(policy > 1 || dims > 255 || impl == tg__torch_symbols.undefined_tensor)) return put8(w, TG_INPUT_UNDEFINED, how);
  const bool strided = TG_LIKELY(tg__at_pointer(impl) == tg__torch_symbols.strided_classes[0]) || is_strided(tg__at_pointer(impl));
  const uint8_t *sizes = dims_at + 8, *strides = dims_at + TG_FACT(tensor_strides);
  if (TG_UNLIKELY(sizes + dims * 8 > strides)) { /* more than fit: they lie elsewhere, strides behind sizes */
    sizes = tg__at_pointer(sizes);
    strides = sizes + dims * 8;
    if (!readable(sizes, dims * 16, how)) return put8(w, TG_INPUT_UNDEFINED, how);
  }
  const uint32_t head =
      TG_INPUT_TENSOR | (uint32_t)(tg__at16(impl + TG_FACT(tensor_type)) & 255) << 8 | (uint32_t)dims << 16 | (uint32_t)strided << 24;
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

/* ---- other values ---------------------------------------------------------------------------------------------------------------------- */

ALWAYS_INLINE uint32_t kind_of(const uint8_t *value) { return tg__at32(value + TG_FACT(value_kind)); }

ALWAYS_INLINE bool put_string(struct pen *w, const uint8_t *object, uint8_t tag, int how) {
  const uint8_t *const string = object + TG_FACT(string_text);
  if (!readable(string, 16, how)) return put8(w, TG_INPUT_OTHER, how);
  const uint8_t *const text = tg__at_pointer(string);
  const uint8_t *const length = TG_FACT(string_length) > 0 ? string + TG_FACT(string_length) : text + TG_FACT(string_length);
  if (!readable(length, 8, how)) return put8(w, TG_INPUT_OTHER, how);
  const uint64_t len = tg__at64(length);
  if (len > STRING_MAX || !readable(text, len, how)) return put8(w, TG_INPUT_OTHER, how);
  return (tag == TG_INPUT_NONE || put8(w, tag, how)) && put16(w, (uint16_t)len, how) && put(w, text, len, how);
}

/* A number, with its kind before it or (in a list) without. */
ALWAYS_INLINE bool put_number(struct pen *w, const uint8_t *value, uint32_t kind, bool in_list, int how) {
  if (!in_list) {
    const uint8_t tag = kind == (uint32_t)TG_FACT(kind_int)      ? TG_INPUT_INT
                        : kind == (uint32_t)TG_FACT(kind_double) ? TG_INPUT_DOUBLE
                                                                 : TG_INPUT_BOOL;
    if (((how & COMPARE) && w->p < w->end && *w->p == TG_INPUT_SCALAR) || (!(how & COMPARE) && w->drop))
      return put8(w, TG_INPUT_SCALAR, how);
    if (!put8(w, tag, how)) return false;
  }
  if (kind == (uint32_t)TG_FACT(kind_bool)) return put8(w, *value != 0, how);
  return put(w, value, 8, how);
}

static bool is_number(uint32_t kind) {
  return kind == (uint32_t)TG_FACT(kind_int) || kind == (uint32_t)TG_FACT(kind_double) || kind == (uint32_t)TG_FACT(kind_bool);
}

static bool all_are(const uint8_t *item, uint64_t count, uint32_t kind) {
  while (count && kind_of(item) == kind) item += VALUE, count--;
  return !count;
}

/* A list of numbers or texts; of anything else only that it is something. torch calls every empty list one of numbers. */
ALWAYS_INLINE bool put_plain_list(struct pen *w, const uint8_t *item, uint64_t count, int how) {
  const uint32_t kind = count ? kind_of(item) : (uint32_t)TG_FACT(kind_int);
  const bool texts = kind == (uint32_t)TG_FACT(kind_string), numbers = is_number(kind);
  if (!numbers && !texts) return put8(w, kind == (uint32_t)TG_FACT(kind_complex) ? TG_INPUT_SCALAR_LIST : TG_INPUT_OTHER, how);
  if (count > LIST_MAX || !all_are(item, count, kind) || (numbers && !(how & COMPARE) && w->drop) ||
      ((how & COMPARE) && w->p < w->end && *w->p == TG_INPUT_SCALAR_LIST))
    return put8(w, texts ? TG_INPUT_OTHER : TG_INPUT_SCALAR_LIST, how);
  const uint8_t tag = texts                                    ? TG_INPUT_STRING_LIST
                      : kind == (uint32_t)TG_FACT(kind_int)    ? TG_INPUT_INT_LIST
                      : kind == (uint32_t)TG_FACT(kind_double) ? TG_INPUT_DOUBLE_LIST
                                                               : TG_INPUT_BOOL_LIST;
  if (!put8(w, tag, how) || !put16(w, (uint16_t)count, how)) return false;
  for (; count; count--, item += VALUE)
    if (!(texts ? put_string(w, tg__at_pointer(item), TG_INPUT_NONE, how) : put_number(w, item, kind, true, how))) return false;
  return true;
}

ALWAYS_INLINE bool put_list(struct pen *w, const uint8_t *object, int how) {
  if (!readable(object + TG_FACT(list_items), 16, how) || !readable(object + TG_FACT(list_type), 8, how))
    return put8(w, TG_INPUT_OTHER, how);
  const uint8_t *item = tg__at_pointer(object + TG_FACT(list_items));
  const uint8_t *const end = tg__at_pointer(object + TG_FACT(list_items) + 8);
  const uint64_t count = (uint64_t)(end - item) / VALUE;
  if (count > UINT16_MAX || !readable(item, count * VALUE, how)) return put8(w, TG_INPUT_OTHER, how);
  if (tg__at_pointer(object + TG_FACT(list_type)) != tg__torch_abi.tensor_type) return put_plain_list(w, item, count, how);
  if (!put8(w, TG_INPUT_TENSOR_LIST, how) || !put16(w, (uint16_t)count, how)) return false;
  for (; item < end; item += VALUE)
    if (!put_tensor(w, tg__at_pointer(item), how)) return false;
  return true;
}

ALWAYS_INLINE bool put_value(struct pen *w, const uint8_t *value, int how) {
  const uint32_t kind = kind_of(value);
  if (kind == (uint32_t)TG_FACT(kind_tensor)) return put_tensor(w, tg__at_pointer(value), how);
  if (is_number(kind)) return put_number(w, value, kind, false, how);
  if (kind == (uint32_t)TG_FACT(kind_none)) return put8(w, TG_INPUT_NONE, how);
  if (kind == (uint32_t)TG_FACT(kind_list)) return put_list(w, tg__at_pointer(value), how);
  if (kind == (uint32_t)TG_FACT(kind_string)) return put_string(w, tg__at_pointer(value), TG_INPUT_STRING, how);
  return put8(w, kind == (uint32_t)TG_FACT(kind_complex) ? TG_INPUT_SCALAR : TG_INPUT_OTHER, how);
}

/* ---- the walks ---------------------------------------------------------------------------------------------------------------------------- */

static bool same_values(const uint8_t *value, uint32_t count, const struct seen *s, const struct inputs *c) {
  struct pen w = {.p = c->bytes + s->at, .end = c->bytes + s->at + s->len};
  for (; count; count--, value += VALUE)
    if (!put_value(&w, value, COMPARE)) return false;
  return w.p == w.end;
}

/* Bytes written. A value that finds no room is written as something else. */
static size_t write_values(const uint8_t *value, uint32_t count, struct pen w, bool careful) {
  uint8_t *const begin = w.p;
  for (; count && w.p < w.end; count--, value += VALUE) {
    uint8_t *const back = w.p;
    if (careful ? put_value(&w, value, CAREFUL) : put_value(&w, value, 0)) continue;
    w.p = back;
    *w.p++ = TG_INPUT_OTHER;
  }
  return (size_t)(w.p - begin);
}

/* Tells apart what usually differs between the inputs of one name, without looking at all of it. Only what has a meaning may
 * count: behind the last size of a tensor stands whatever was there before. */
ALWAYS_INLINE uint64_t look_at_tensor(const uint8_t *impl, uint64_t mixed) {
  const uint8_t *const sizes = impl + TG_FACT(tensor_dims) + 8;
  const uint64_t dims = tg__at64(sizes - 8);
  uint64_t word = dims;
  if (dims * 8 + 8 <= (uint64_t)TG_FACT(tensor_strides))
    for (uint64_t i = 0; i < dims; i++) word = (word << 13 | word >> 51) ^ tg__at64(sizes + 8 * i);
  return tg__mix(mixed, word);
}

ALWAYS_INLINE uint64_t look_at(const uint8_t *value, uint64_t mixed, bool tensors_only) {
  const uint32_t kind = kind_of(value);
  if (kind == (uint32_t)TG_FACT(kind_tensor)) return look_at_tensor(tg__at_pointer(value), mixed);
  if (kind == (uint32_t)TG_FACT(kind_list)) {
    const uint8_t *const list = tg__at_pointer(value) + TG_FACT(list_items);
    const uint8_t *const item = tg__at_pointer(list);
    const uint64_t bytes = (uint64_t)(tg__at_pointer(list + 8) - item);
    if (bytes && kind_of(item) == (uint32_t)TG_FACT(kind_tensor)) return look_at_tensor(tg__at_pointer(item), mixed ^ bytes);
    if (tensors_only || !bytes || kind_of(item) != (uint32_t)TG_FACT(kind_int)) return tg__mix(mixed, bytes);
    return tg__mix(mixed ^ bytes, tg__at64(item) ^ tg__at64(item + bytes - VALUE) << 20);
  }
  if (tensors_only || (kind != (uint32_t)TG_FACT(kind_int) && kind != (uint32_t)TG_FACT(kind_double))) return mixed;
  return tg__mix(mixed, tg__at64(value));
}

ALWAYS_INLINE uint32_t key_of(const uint8_t *value, uint32_t count, uint32_t name, bool tensors_only) {
  uint64_t mixed = (uint64_t)name << 32 | count;
  for (uint32_t i = 0; i < count && i < 3; i++) mixed = look_at(value + i * VALUE, mixed, tensors_only);
  mixed = tg__mix(mixed, count);
  return (uint32_t)mixed | 1;
}

/* ---- what was seen ---------------------------------------------------------------------------------------------------------------------- */

static bool in_trial(const struct tg__thread *t) { return t == tg__torch_trial.thread; }

__attribute__((noinline)) static struct inputs *inputs_enter(struct tg__thread *t) {
  struct inputs *c = t->own[TG_SLOT_TORCH_INPUTS];
  if (!c)
    c = in_trial(t) ? tg__pages_get(sizeof *c) : tg__guest_pages(sizeof *c);
  else
    memset(c, 0, offsetof(struct inputs, room));
  if (c && !c->room) {
    c->bytes = c->first;
    c->room = FIRST_BYTES;
  }
  t->own[TG_SLOT_TORCH_INPUTS] = c;
  t->own_generation[TG_SLOT_TORCH_INPUTS] = t->generation;
  return c;
}

void tg__torch_forget_inputs(struct tg__thread *t) {
  if (t->own[TG_SLOT_TORCH_INPUTS]) tg__pages_drop(t->own[TG_SLOT_TORCH_INPUTS], sizeof(struct inputs));
}

/* Room for the next: more of it once, afterwards everything is forgotten. */
static void make_room(struct tg__thread *t, struct inputs *c) {
  uint8_t *const more = c->bytes == c->first && !in_trial(t) ? tg__guest_pages(MORE_BYTES) : NULL;
  if (more) {
    c->bytes = more;
    c->room = MORE_BYTES;
  }
  memset(c->sets, 0, sizeof c->sets);
  c->used = 0;
}

/* Were these the inputs of the name before? In front of its set from now on. */
static uint32_t recall(struct inputs *c, uint32_t key, const uint8_t *value, uint32_t count) {
  struct seen *const set = c->sets[key / 2 % SETS];
  for (size_t way = 0; way < WAYS; way++) {
    if (set[way].key != key || !same_values(value, count, &set[way], c)) continue;
    const struct seen hit = set[way];
    memmove(set + 1, set, way * sizeof *set);
    set[0] = hit;
    return hit.id;
  }
  return 0;
}

static bool keeps_scalars(struct tg__thread *t, const struct inputs *c, uint32_t name) {
  if (c->fresh[name % NAMES] < NEW_MAX) return true;
  tg__count(t, TG_RAW_C_SHAPE_DROPPED, 1);
  return false;
}

__attribute__((noinline)) static uint32_t inputs_slow(struct tg__thread *t, struct inputs *c, const uint8_t *value, uint32_t count,
                                                      uint32_t name) {
  const bool keep = keeps_scalars(t, c, name);
  const uint32_t key = key_of(value, count, name, !keep);
  if (!keep) {
    const uint32_t id = recall(c, key, value, count);
    if (id) return id;
  }
  if (c->room - c->used < c->room / 4) make_room(t, c);
  uint8_t *const bytes = c->bytes + c->used;
  const size_t len = write_values(value, count, (struct pen){.p = bytes, .end = c->bytes + c->room, .drop = !keep}, false);
  const uint32_t id = tg__torch_intern(t, TG_RAW_D_SHAPE, bytes, len);
  if (!id) return 0;
  if (id > c->top) {
    c->top = id;
    c->fresh[name % NAMES] += c->fresh[name % NAMES] < NEW_MAX;
  }
  struct seen *const set = c->sets[key / 2 % SETS];
  memmove(set + 1, set, (WAYS - 1) * sizeof *set);
  set[0] = (struct seen){key, id, c->used, (uint32_t)len};
  c->used += (uint32_t)len;
  return id;
}

/* In the self-test nothing is believed: every pointer is asked for, and nothing remembered. */
static uint32_t inputs_careful(struct tg__thread *t, struct inputs *c, const uint8_t *value, uint32_t count) {
  if (count > 64 || !tg__guest_can_read(value, (size_t)count * VALUE)) return 0;
  const size_t len = write_values(value, count, (struct pen){.p = c->bytes, .end = c->bytes + c->room}, true);
  const uint32_t id = tg__torch_intern(t, TG_RAW_D_SHAPE, c->bytes, len);
  return id;
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
  const uint32_t key = key_of(value, count, name, false);
  const struct seen *const first = c->sets[key / 2 % SETS];
  if (TG_LIKELY(first->key == key) && same_values(value, count, first, c)) return first->id;
  const uint32_t id = recall(c, key, value, count);
  return id ? id : inputs_slow(t, c, value, count, name);
}
