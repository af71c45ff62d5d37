/* nvtx: ranges and marks that a program makes with NVIDIA's NVTX. NVTX loads the library that NVTX_INJECTION64_PATH
 * names and asks it for functions; these are then called for ever, so they stay valid and cost one load and a branch
 * while nothing is recorded.
 *
 *   nvtx_table.c   the functions, and how NVTX gets them
 *   nvtx_names.c   names that outlive a recording: domains, registered strings, categories, threads
 *   nvtx_record.c  ranges and marks become records */
#ifndef TG_CAPTURE_NVTX_H
#define TG_CAPTURE_NVTX_H

#include <wchar.h>

#include "capture/session.h"

/* ---- what NVTX hands over -------------------------------------------------------------------- */

/* Of an event, as version 2 of NVTX and later have it. `size` says how much of it is there. */
struct tg__nvtx_attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
};
_Static_assert(sizeof(struct tg__nvtx_attributes) == 48, "as NVTX has it");

enum tg__nvtx_message { TG_NVTX_NO_MESSAGE, TG_NVTX_NARROW, TG_NVTX_WIDE, TG_NVTX_REGISTERED };
enum { TG_NVTX_NOT_TRACKED = -2 }; /* the level of a range that no thread follows */

/* An event on its way into a record. */
struct tg__nvtx_event {
  const void *domain; /* what NVTX was given for it; NULL = the default one */
  int32_t message_type;
  const void *message;
  const struct tg__nvtx_attributes *attributes; /* NULL = none */
};

/* ---- names (nvtx_names.c) -------------------------------------------------------------------- */

enum {
  TG_NVTX_TEXTS = 1 << 16,
  TG_NVTX_TEXT_MOST = 1024,
  TG_NVTX_OTHER = 1
}; /* OTHER: the name for all that found no room */

/* The number of a text, from 2; the same for equal texts. 0: there is no text. Longer ones are cut. */
uint32_t tg__nvtx_text_narrow(const char *text);
uint32_t tg__nvtx_text_wide(const wchar_t *text);
const char *tg__nvtx_text(uint32_t number); /* NULL: no such number */
/* What NVTX gets for a number, and back: 0 for what was never given out. */
static inline void *tg__nvtx_handle(uint32_t number) { return (void *)(uintptr_t)number; }
uint32_t tg__nvtx_number(const void *handle);
/* UTF-8 of a wide text, zero-terminated, cut between characters; its length. */
size_t tg__nvtx_from_wide(const wchar_t *text, char *out, size_t room);
size_t tg__nvtx_cut(const char *text, size_t most); /* bytes of it to keep: whole characters */
void tg__nvtx_name_category(uint32_t domain, uint32_t category, uint32_t text);
const char *tg__nvtx_category_name(uint32_t domain, uint32_t category); /* NULL = has none */
void tg__nvtx_name_thread(uint32_t os_thread, uint32_t text);

/* ---- records (nvtx_record.c) ----------------------------------------------------------------- */

/* An open recording includes ranges: they are followed from their begin on, also while it pauses. */
extern _Atomic bool tg__nvtx_follows;
static inline bool tg__nvtx_is_followed(void) {
  return TG_UNLIKELY(atomic_load_explicit(&tg__nvtx_follows, memory_order_relaxed));
}

int tg__nvtx_push_now(const struct tg__nvtx_event *e);       /* the level of the range, from 0 */
int tg__nvtx_pop_now(const void *domain);                    /* likewise */
uint64_t tg__nvtx_start_now(const struct tg__nvtx_event *e); /* the number of the range; 0: not followed */
void tg__nvtx_end_now(uint64_t range);                       /* on any thread */
void tg__nvtx_mark_now(const struct tg__nvtx_event *e);

#endif
