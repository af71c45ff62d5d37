/* unpickle: reads a pickle of plain containers. Nothing in it is executed: an opcode that would import, call or build an object ends the reading,
 * and the error says what it wanted. Memory: four bytes per container, eight per memo entry, and what lies on the pickle's own stack.
 *
 * Containers are numbered in order of arrival. Their content is handed to the taker when the pickle puts it in; what the taker makes of a
 * container it keeps in `meaning`, and finds there when the container stands inside another one. */
#ifndef TG_UNPICKLE_H
#define TG_UNPICKLE_H

#include "trace/import.h"

enum tg__pickle_kind {
  TG__PICKLE_NONE,
  TG__PICKLE_FALSE,
  TG__PICKLE_TRUE,
  TG__PICKLE_INT,  /* beyond 64 bits: the low ones */
  TG__PICKLE_REAL, /* bits of the double */
  TG__PICKLE_TEXT, /* string id */
  TG__PICKLE_TUPLE,
  TG__PICKLE_LIST, /* sets, too */
  TG__PICKLE_DICT,
  TG__PICKLE_MARK, /* private */
};
struct tg__pickle_value {
  enum tg__pickle_kind kind;
  uint32_t id; /* TEXT: string; containers: number */
  int64_t i;
};
struct tg__unpickler {
  struct tg__strings *strings; /* texts are interned here */
  void *ctx;
  /* Items put into a list or tuple; pairs (key, value, key, value, …) put into a dict. false: out of memory. */
  bool (*items)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into, const struct tg__pickle_value *items, size_t count);
  bool (*pairs)(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into, const struct tg__pickle_value *pairs, size_t count);
  uint32_t *meaning; /* by container; 0 until the taker says otherwise */
  size_t container_count;
  bool cut; /* the pickle ends too early, or makes no sense at `cut_offset`: what stood before was handed over */
  int64_t cut_offset;
};
/* Does a file that begins so look like a pickle? No text of JSON does. */
bool tg__looks_like_pickle(const char *head, size_t len);
/* Reads to the end. TG_NOT_A_TRACE for what would execute something; TG_MEMORY; what the source says. tg__unpickle_free either way. */
enum tg_err tg__unpickle(struct tg__unpickler *u, tg__source_fn *source, void *source_ctx, const struct tg__import_how *how,
                         struct tg_error *e);
void tg__unpickle_free(struct tg__unpickler *u);

#endif
