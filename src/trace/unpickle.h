/* unpickle: reads a pickle of plain containers. Nothing in it is executed: an opcode that would import, call or
 * build an object ends the reading, and the error says what it wanted. Memory: four bytes per list, dict and memo
 * entry, and what lies on the pickle's own stack. Picklers that number the memo as we number objects, which is what
 * Python's do, need no memo beside.
 *
 * The content of a list or dict is handed to the taker when the pickle puts it in; what the taker makes of it, it
 * keeps as its meaning, and finds there when the container stands inside another one. A tuple never changes: its
 * meaning is all that is left of it. */
#ifndef TG_UNPICKLE_H
#define TG_UNPICKLE_H

#include "trace/import.h"

enum tg__pickle_kind {
  TG__PICKLE_NONE,
  TG__PICKLE_FALSE,
  TG__PICKLE_TRUE,
  TG__PICKLE_INT,  /* beyond 64 bits: the low ones */
  TG__PICKLE_REAL, /* bits of the double */
  TG__PICKLE_TEXT, /* string id. From here to DICT: what a memo may hold */
  TG__PICKLE_TUPLE,
  TG__PICKLE_LIST, /* sets, too */
  TG__PICKLE_DICT,
  TG__PICKLE_MARK, /* private */
};
struct tg__pickle_value {
  enum tg__pickle_kind kind;
  uint32_t id; /* TEXT: string; TUPLE: meaning; LIST, DICT: number */
  int64_t i;
};
enum { TG__MEANING_BITS = 30, TG__MEANING_MASK = (1 << TG__MEANING_BITS) - 1 };
struct tg__unpickler {
  struct tg__strings *strings; /* texts are interned here */
  void *ctx;
  /* Items put into a list; pairs (key, value, key, value, …) put into a dict. false: out of memory. */
  bool (*items)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into, const struct tg__pickle_value *items,
                size_t count);
  bool (*pairs)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into, const struct tg__pickle_value *pairs,
                size_t count);
  /* What it means; TG_NONE: out of memory. */
  uint32_t (*tuple)(void *ctx, const struct tg__pickle_value *items, size_t count);
  /* Was that what was looked for, or does it follow in another pickle? NULL: there is only one. */
  bool (*is_found)(const void *ctx);
  /* Dicts that are items of a list and hold only what has no content of its own, pairs of numbers and lists of
   * references may be handed over as rows, with no call of pairs or items for them. Each value is in the place of
   * row_values that row_keys has for its key; keys that are not in row_keys share place 0. Other places hold values of
   * earlier rows and stay as they are. row NULL: there are none. */
  const uint8_t *row_keys; /* by string id: below 64 */
  uint32_t row_key_count;
  struct tg__pickle_value *row_values;
  uint64_t row_changed; /* a bit for each place with a new value since the caller set this to 0 */
  /* seen: a bit for each place. false: it is no such dict, or memory is short: read it like other dicts. */
  bool (*row)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value list, struct tg__pickle_value dict,
              uint64_t seen);
  /* A list in a row; words: of the objects it refers to. false: like row. */
  bool (*row_list)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value list, const uint32_t *words,
                   size_t count);
  /* Is a dict that was read as others are one that could be handed over as a row? */
  bool (*is_row)(const void *ctx, const struct tg__unpickler *u, struct tg__pickle_value dict);
  uint32_t *objects; /* kind - TEXT in the upper two bits; string id or meaning: 0 until the taker says otherwise */
  size_t object_count, object_cap;
  bool cut; /* the pickle ends too early, or makes no sense at `cut_offset`: what stood before was handed over */
  int64_t cut_offset;
};
static inline enum tg__pickle_kind tg__pickle_kind_of(uint32_t word) {
  return (enum tg__pickle_kind)(TG__PICKLE_TEXT + (word >> TG__MEANING_BITS));
}
static inline uint32_t tg__pickle_word(enum tg__pickle_kind kind, uint32_t meaning) {
  return (uint32_t)(kind - TG__PICKLE_TEXT) << TG__MEANING_BITS | meaning;
}
/* Of a list, a dict or a tuple. */
static inline uint32_t tg__pickle_meaning(const struct tg__unpickler *u, struct tg__pickle_value v) {
  return (v.kind == TG__PICKLE_TUPLE ? v.id : u->objects[v.id]) & TG__MEANING_MASK;
}
/* Of a list or a dict. */
static inline void tg__pickle_mean(struct tg__unpickler *u, struct tg__pickle_value v, uint32_t meaning) {
  u->objects[v.id] = tg__pickle_word(v.kind, meaning);
}
/* Does a file that begins so look like a pickle? No text of JSON does. */
bool tg__looks_like_pickle(const char *head, size_t len);
/* Reads to the end of the pickle: of the first one that is found, where several stand one behind the other, as
 * torch.save wrote them of old. TG_NOT_A_TRACE for what would execute something; TG_MEMORY; what the source says.
 * tg__unpickle_free either way. */
enum tg_err tg__pickle_read(struct tg__unpickler *u, tg__source_fn *source, void *source_ctx,
                            const struct tg__import_how *how, struct tg_error *e);
void tg__unpickle_free(struct tg__unpickler *u);

#endif
