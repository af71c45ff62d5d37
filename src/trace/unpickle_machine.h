/* unpickle_machine: the state of the pickle machine, between what runs any opcode (unpickle.c) and what reads rows
 * (unpickle_rows.c). */
#ifndef TG_UNPICKLE_MACHINE_H
#define TG_UNPICKLE_MACHINE_H

#include "trace/unpickle.h"

enum {
  TG__ROW_PAIRS = 32,  /* a row with more is read opcode by opcode */
  TG__ROW_REFS = 1024, /* of a list in a row: what Python puts into one at a time */
};
/* A place in a row: most have the key they had in the row before, and most of these its value. Recognised by the bytes
 * of their opcodes; those of a wrong guess match no bytes. `pair` holds as long as no other guess is of the
 * same number. */
struct tg__pair_guess {
  unsigned __int128 pair, pair_mask;
  uint64_t key, key_mask, bit;
  uint32_t key_len, pair_len, number; /* number, and its bit: of the value's place in row_values */
};
struct tg__machine {
  struct tg__unpickler *u;
  tg__source_fn *source;
  void *source_ctx;
  const struct tg__import_how *how;
  uint8_t *buffer;
  size_t buffer_cap, at, end; /* bytes [at, end) of the buffer are unread */
  int64_t offset;             /* of buffer[0] in the input */
  struct tg__pickle_value *stack;
  size_t depth, stack_cap;
  size_t mark; /* position of the uppermost mark + 1, 0 = none; in each mark's i stands the one below */
  /* object of every entry, TG_NONE where nothing was put. NULL while each entry is the object of its own number */
  uint32_t *memo;
  size_t memo_count, memo_cap;
  struct tg__pair_guess guesses[TG__ROW_PAIRS];
  uint32_t refs[TG__ROW_REFS];
  uint8_t op;
  enum tg_err err;
  struct tg_error *e;
};

/* Little endian, n ≤ 8 bytes. */
static inline uint64_t tg__pickle_number(const uint8_t *p, unsigned n) {
  uint64_t v = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  memcpy(&v, p, n);
#else
  for (unsigned i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
#endif
  return v;
}

static inline bool tg__pickle_add(struct tg__unpickler *u, enum tg__pickle_kind kind, uint32_t meaning) {
  if (TG_UNLIKELY(u->object_count == u->object_cap) &&
      (u->object_count >= TG_NONE - 1 ||
       !tg__grow((void **)&u->objects, &u->object_cap, u->object_count + 1, sizeof *u->objects)))
    return false;
  u->objects[u->object_count++] = tg__pickle_word(kind, meaning);
  return true;
}

static inline bool tg__memo_find(const struct tg__machine *m, uint64_t at, struct tg__pickle_value *out) {
  if (at >= m->memo_count) return false;
  const uint32_t object = m->memo ? m->memo[at] : (uint32_t)at;
  if (object == TG_NONE) return false;
  const uint32_t word = m->u->objects[object];
  const enum tg__pickle_kind kind = tg__pickle_kind_of(word);
  *out = (struct tg__pickle_value){.kind = kind, .id = kind >= TG__PICKLE_LIST ? object : word & TG__MEANING_MASK};
  return true;
}

/* One value without content of its own, from bytes that are all there; how many they are, 0 for another opcode.
 * LONG1 of a full word's bytes is one of them: addresses and times. */
TG_INLINE size_t tg__plain_value(const struct tg__machine *m, const uint8_t *p, struct tg__pickle_value *out) {
  *out = (struct tg__pickle_value){.kind = TG__PICKLE_INT};
  switch (*p) {
  case 'h':
    return tg__memo_find(m, p[1], out) ? 2 : 0;
  case 'j':
    return tg__memo_find(m, tg__pickle_number(p + 1, 4), out) ? 5 : 0;
  case 'K':
    out->i = p[1];
    return 2;
  case 'M':
    out->i = (int64_t)tg__pickle_number(p + 1, 2);
    return 3;
  case 'J':
    out->i = (int32_t)tg__pickle_number(p + 1, 4);
    return 5;
  case 0x8a:
    if (p[1] == 0 || p[1] > 8) return 0;
    out->i = (int64_t)(tg__pickle_number(p + 2, 8) << (64 - 8 * p[1])) >> (64 - 8 * p[1]);
    return 2u + p[1];
  case 'N':
    out->kind = TG__PICKLE_NONE;
    return 1;
  default:
    return 0;
  }
}

/* The rows that begin at m->at, where a dict does, are handed to the taker: does m->at stand behind one or more of
 * them? Where not, nothing has happened, and that dict is read opcode by opcode. */
bool tg__unpickle_rows(struct tg__machine *m);
/* To be called at the beginning, and when what is in the memo changes. */
void tg__unpickle_forget_rows(struct tg__machine *m);

#endif
