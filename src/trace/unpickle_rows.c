/* unpickle_rows: the dicts of a list, a million of the same kind, read without the pickle's stack: each key is known
 * by its bytes where it is that of the row before, and its value goes where the caller keeps it. A row may hold what
 * snapshots do: references to the memo, numbers, texts, pairs of numbers, and lists of references. Anything else, and
 * every error, is left to the machine. */
#include "trace/unpickle_machine.h"

enum {
  OP_MOST = 10,            /* bytes of an opcode but for texts */
  PAIR_MOST = 4 * OP_MOST, /* of a key and a pair of numbers, and of what is looked at behind them */
};

/* Behind the opcode that puts the newest object into the memo, under its own number. NULL: there is none. */
static inline const uint8_t *behind_put(const struct tg__machine *m, const uint8_t *p) {
  const size_t number = m->memo_count;
  if (TG_LIKELY(*p == 0x94)) return p + 1;
  if (*p == 'q') return p[1] == number ? p + 2 : NULL;
  return *p == 'r' && tg__pickle_number(p + 1, 4) == number ? p + 5 : NULL;
}

/* A new object and its entry in the memo, both of the same number. p: behind its opcode. NULL: it is not kept so, or
 * out of memory. */
static inline const uint8_t *add_kept(struct tg__machine *m, const uint8_t *p, enum tg__pickle_kind kind,
                                      uint32_t meaning) {
  p = behind_put(m, p);
  if (!p || !tg__pickle_add(m->u, kind, meaning)) return NULL;
  m->memo_count++;
  return p;
}

/* ---- guesses --------------------------------------------------------------------------------- */

static const struct tg__pair_guess none = {.pair = 1, .key = 1}; /* masked by 0 nothing is 1 */

void tg__unpickle_forget_rows(struct tg__machine *m) {
  for (size_t i = 0; i < TG__ROW_PAIRS; i++) m->guesses[i] = none;
}

static inline unsigned __int128 mask_of(size_t bytes) { return ((unsigned __int128)1 << 8 * bytes) - 1; }
static inline unsigned __int128 sixteen(const uint8_t *p) {
  return (unsigned __int128)tg__pickle_number(p + 8, 8) << 64 | tg__pickle_number(p, 8);
}

/* Where another key stands than in the row before. A text in the memo stays what it is as long as there is no memo
 * beside the objects. */
static bool learn_key(struct tg__machine *m, const uint8_t *p, struct tg__pair_guess *guess) {
  struct tg__pickle_value key;
  const size_t len = tg__plain_value(m, p, &key);
  if (!len || key.kind != TG__PICKLE_TEXT) return false;
  const uint64_t mask = (uint64_t)mask_of(len); /* a reference has two bytes or five */
  const uint32_t number = key.id < m->u->row_key_count ? m->u->row_keys[key.id] : 0;
  for (size_t i = 0; i < TG__ROW_PAIRS; i++)
    if (m->guesses[i].number == number) m->guesses[i] = none;
  *guess = (struct tg__pair_guess){.pair = 1,
                                   .key = tg__pickle_number(p, 8) & mask,
                                   .key_mask = mask,
                                   .key_len = (uint32_t)len,
                                   .number = number,
                                   .bit = UINT64_C(1) << number};
  return true;
}

/* The pair ends at `end`. One with a value of a few bytes that is no new object may well repeat. */
static inline void learn_pair(struct tg__pair_guess *guess, const uint8_t *p, const uint8_t *end) {
  const uint8_t op = p[guess->key_len];
  const unsigned len = guess->key_len + (op == 'j' ? 5 : op == 'N' ? 1 : 2);
  if ((op != 'h' && op != 'j' && op != 'K' && op != 'N') || end != p + len)
    return; /* a number may be the first of a pair */
  guess->pair_len = len;
  guess->pair_mask = mask_of(len);
  guess->pair = sixteen(p) & guess->pair_mask;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The same text as in the row before is not looked up. */
static const uint8_t *text_value(struct tg__machine *m, const uint8_t *p, const uint8_t *end,
                                 struct tg__pickle_value *v) {
  const unsigned head = *p == 0x8c ? 2 : 5;
  const uint64_t len = tg__pickle_number(p + 1, head - 1);
  if (len + head + PAIR_MOST > (uint64_t)(end - p)) return NULL;
  const char *const text = (const char *)p + head;
  const struct tg__str before = v->kind == TG__PICKLE_TEXT ? tg__strings_get(m->u->strings, v->id) : TG_STR("");
  if (v->kind != TG__PICKLE_TEXT || before.len != len || memcmp(before.ptr, text, len) != 0) {
    const uint32_t id = tg__strings_add(m->u->strings, text, len);
    if (id > TG__MEANING_MASK) return NULL;
    *v = (struct tg__pickle_value){.kind = TG__PICKLE_TEXT, .id = id};
  }
  p += head + len;
  return *p == 0x94 || *p == 'q' || *p == 'r' ? add_kept(m, p, TG__PICKLE_TEXT, v->id) : p;
}

/* p: behind the first of two numbers. */
static const uint8_t *pair_value(struct tg__machine *m, const uint8_t *p, struct tg__pickle_value *v) {
  struct tg__pickle_value pair[2] = {*v};
  const size_t len = tg__plain_value(m, p, &pair[1]);
  if (!len || pair[1].kind != TG__PICKLE_INT || p[len] != 0x86) return NULL;
  const uint32_t meaning = m->u->tuple(m->u->ctx, pair, 2);
  if (meaning == TG_NONE) return NULL;
  *v = (struct tg__pickle_value){.kind = TG__PICKLE_TUPLE, .id = meaning};
  p += len + 1;
  return *p == 0x94 || *p == 'q' || *p == 'r' ? add_kept(m, p, TG__PICKLE_TUPLE, meaning) : p;
}

/* p: behind the opcode of an empty list. */
static const uint8_t *list_value(struct tg__machine *m, const uint8_t *p, const uint8_t *end,
                                 struct tg__pickle_value *v) {
  struct tg__unpickler *const u = m->u;
  *v = (struct tg__pickle_value){.kind = TG__PICKLE_LIST, .id = (uint32_t)u->object_count};
  p = add_kept(m, p, TG__PICKLE_LIST, 0);
  if (!p || *p != '(') return p;
  size_t count = 0;
  for (p++; end - p >= PAIR_MOST && count < TG__ROW_REFS; count++) {
    const unsigned len = *p == 'j' ? 4 : 1;
    const uint64_t at = tg__pickle_number(p + 1, len);
    if (*p != 'j' && *p != 'h') break;
    if (at >= m->memo_count) return NULL;
    m->refs[count] = u->objects[at];
    p += 1 + len;
  }
  return *p == 'e' && end - p >= PAIR_MOST && u->row_list(u->ctx, u, *v, m->refs, count) ? p + 1 : NULL;
}

static inline const uint8_t *reference(const struct tg__machine *m, uint64_t at, const uint8_t *behind,
                                       struct tg__pickle_value *v) {
  if (at >= m->memo_count) return NULL;
  const uint32_t word = m->u->objects[at];
  v->kind = tg__pickle_kind_of(word);
  v->id = v->kind >= TG__PICKLE_LIST ? (uint32_t)at : word & TG__MEANING_MASK;
  return v->kind == TG__PICKLE_DICT ? NULL : behind;
}

/* v: the value of the same key in the row before. Behind the value; NULL for one that rows do not have. */
static inline const uint8_t *row_value(struct tg__machine *m, const uint8_t *p, const uint8_t *end,
                                       struct tg__pickle_value *v) {
  switch (*p) {
  case 'h':
    return reference(m, p[1], p + 2, v);
  case 'j':
    return reference(m, tg__pickle_number(p + 1, 4), p + 5, v);
  case ']':
    return list_value(m, p + 1, end, v);
  case 0x8c:
  case 'X':
    return text_value(m, p, end, v);
  default:
    break;
  }
  const size_t len = tg__plain_value(m, p, v);
  if (!len) return NULL;
  p += len;
  return v->kind != TG__PICKLE_INT || *p == 'h' || *p == 'j' || *p == 'u' ? p : pair_value(m, p, v);
}

static inline bool same_value(const struct tg__pickle_value *a, const struct tg__pickle_value *b) {
  return a->kind == b->kind && (a->kind < TG__PICKLE_TEXT ? a->i == b->i : a->id == b->id);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The pair at p, where the guess failed. Returns the place behind it; from here on the guess is void for the value that
 * is not so. */
static const uint8_t *read_pair(struct tg__machine *m, const uint8_t *p, const uint8_t *end,
                                struct tg__pair_guess *guess) {
  if ((tg__pickle_number(p, 8) & guess->key_mask) != guess->key && !learn_key(m, p, guess)) return NULL;
  guess->pair = none.pair;
  guess->pair_mask = none.pair_mask;
  struct tg__pickle_value *const value = &m->u->row_values[guess->number];
  const struct tg__pickle_value before = *value;
  const uint8_t *const behind = row_value(m, p + guess->key_len, end, value);
  if (!same_value(&before, value)) m->u->row_changed |= guess->bit;
  if (behind) learn_pair(guess, p, behind);
  return behind;
}

/* p: behind the mark of the pairs. Behind their end. */
static inline const uint8_t *row_pairs(struct tg__machine *m, const uint8_t *p, const uint8_t *end, uint64_t *seen) {
  struct tg__pair_guess *guess = m->guesses;
  uint64_t bits = 0;
  for (; p && end - p >= PAIR_MOST && guess < m->guesses + TG__ROW_PAIRS; guess++) {
    if (*p == 'u') {
      *seen = bits;
      return p + 1;
    }
    p = (sixteen(p) & guess->pair_mask) == guess->pair ? p + guess->pair_len : read_pair(m, p, end, guess);
    bits |= guess->bit;
  }
  return NULL;
}

/* The dict at p, which stays one of a list's items: another one or the list's end stands behind it. (Four rows or
 * more of a tuple that is the only item of a list look the same; no writer makes them.) */
static const uint8_t *row_at(struct tg__machine *m, const uint8_t *p, const uint8_t *end,
                             struct tg__pickle_value list) {
  struct tg__unpickler *const u = m->u;
  const struct tg__pickle_value dict = {.kind = TG__PICKLE_DICT, .id = (uint32_t)u->object_count};
  uint64_t seen;
  p = add_kept(m, p + 1, TG__PICKLE_DICT, 0);
  if (!p || *p != '(') return NULL;
  p = row_pairs(m, p + 1, end, &seen);
  return p && (*p == '}' || *p == 'e') && u->row(u->ctx, u, list, dict, seen) ? p : NULL;
}

/* Rows that were read opcode by opcode, few as they are, wait to be put into the list: they are put there now, so
 * that the order stays. */
static bool put_waiting(struct tg__machine *m, struct tg__pickle_value list) {
  enum { WAITING_MOST = 8 };
  struct tg__unpickler *const u = m->u;
  const struct tg__pickle_value *const waiting = m->stack + m->mark;
  const size_t count = m->depth - m->mark;
  if (count == 0) return true;
  for (size_t i = 0; i < count; i++)
    if (count > WAITING_MOST || waiting[i].kind != TG__PICKLE_DICT || !u->is_row(u->ctx, u, waiting[i])) return false;
  if (!u->items(u->ctx, u, list, waiting, count)) return false;
  m->depth = m->mark;
  return true;
}

bool tg__unpickle_rows(struct tg__machine *m) {
  struct tg__unpickler *const u = m->u;
  if (!u->row || m->memo || m->memo_count != u->object_count || m->mark < 2 ||
      m->stack[m->mark - 2].kind != TG__PICKLE_LIST)
    return false;
  const struct tg__pickle_value list = m->stack[m->mark - 2];
  if (!put_waiting(m, list)) return false;
  const uint8_t *const end = m->buffer + m->end, *const begin = m->buffer + m->at, *p = begin;
  while (end - p >= PAIR_MOST && *p == '}') {
    const size_t before = u->object_count;
    const uint8_t *const behind = row_at(m, p, end, list);
    if (!behind) {
      m->memo_count = u->object_count = before;
      break;
    }
    p = behind;
  }
  m->at += (size_t)(p - begin);
  return p > begin;
}
