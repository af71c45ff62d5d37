/* snapshot: a memory snapshot of torch.cuda.memory._dump_snapshot, between its pickle (read_snapshot.c) and the rows
 * of a trace (import_snapshot.c). */
#ifndef TG_SNAPSHOT_H
#define TG_SNAPSHOT_H

#include "trace/import.h"

enum tg__snapshot_action {
  TG__ACTION_NONE, /* no entry has it */
  TG__ACTION_ALLOC,
  TG__ACTION_FREE_REQUESTED,
  TG__ACTION_FREE_COMPLETED,
  TG__ACTION_SEGMENT_ALLOC,
  TG__ACTION_SEGMENT_FREE,
  TG__ACTION_SEGMENT_MAP,
  TG__ACTION_SEGMENT_UNMAP,
  TG__ACTION_SNAPSHOT,
  TG__ACTION_OOM,
  TG__ACTION_OTHER, /* of a newer torch: kept under its name */
};
extern const char *const tg__action_texts[TG__ACTION_OTHER]; /* as torch writes them (snapshot_history.c) */
struct tg__snapshot_entry {                                  /* one event of a device's history */
  int64_t time_us, addr, size;                               /* addr of OOM: free bytes of the device */
  uint32_t action_text, stack; /* string id of OTHER, TG_NONE; number in stacks, 0 = none */
  uint32_t context;            /* number in contexts */
  uint8_t action;
};
struct tg__snapshot_context { /* what many entries share. Texts are string ids, TG_NONE where there is none */
  int64_t stream, pool[2];
  uint32_t said, compiled, internal, forward; /* user_metadata, compile_context, internal_metadata, forward_frames */
};
_Static_assert(sizeof(struct tg__snapshot_context) == 40, "compared as bytes");
/* The bytes that an entry takes from the device, or releases. */
static inline int64_t tg__snapshot_reserved(const struct tg__snapshot_entry *x) {
  if (x->action == TG__ACTION_SEGMENT_ALLOC || x->action == TG__ACTION_SEGMENT_MAP) return x->size;
  if (x->action != TG__ACTION_SEGMENT_FREE && x->action != TG__ACTION_SEGMENT_UNMAP) return 0;
  return x->size == INT64_MIN ? INT64_MAX : -x->size;
}
struct tg__snapshot_block {
  int64_t address, size, requested;
  uint32_t state, stack, segment; /* state: string id */
};
struct tg__snapshot_segment {
  int64_t device, address, total, allocated, active, requested, stream; /* device: TG__HOST_DEVICE */
  uint32_t type, stack;                                                 /* type: string id */
  int64_t pool[2];
  bool is_expandable;
};
struct tg__snapshot_note { /* external annotation */
  int64_t time_us, device;
  uint32_t name;
  bool begins;
};
struct tg__snapshot_history { /* packed: snapshot_history.c */
  uint8_t **blocks;
  size_t block_count, block_cap, used; /* used: bytes of the last block */
  size_t count;
  struct tg__snapshot_entry last;
  int64_t first_us, reserved; /* reserved: what the entries together have taken from the device */
  bool has_requests;          /* a free_requested is among them */
};
bool tg__history_add(struct tg__snapshot_history *h, const struct tg__snapshot_entry *x); /* false: out of memory */
struct tg__history_walk {
  struct tg__snapshot_history *history;
  const uint8_t *at;
  size_t block;
  bool release_blocks; /* free each block when its entries have been visited: for the last walk */
};
/* The next entry; *x is all zeros before the first, and is not changed in between. false after the last. */
bool tg__history_next(struct tg__history_walk *w, struct tg__snapshot_entry *x);
void tg__history_free(struct tg__snapshot_history *h);
enum { TG__HOST_DEVICE = -1 }; /* pinned memory of the host, which newer torch records beside its devices */
struct tg__snapshot {
  struct tg__strings *strings;
  struct tg__snapshot_history *devices; /* by number; the last is the host's */
  size_t device_count, device_cap, host;
  bool is_cpu; /* there are no devices: what is called so is the process' memory, as in our histories of the CPU */
  struct tg__snapshot_segment *segments;
  size_t segment_count, segment_cap;
  struct tg__snapshot_block *blocks;
  size_t block_count, block_cap;
  struct tg__snapshot_note *notes;
  size_t note_count, note_cap;
  struct tg__snapshot_context *contexts;
  size_t context_count, context_cap;
  uint32_t *stack_texts; /* by stack: string id of its frames, innermost first, joined by ';'; [0] = none */
  size_t stack_count, stack_cap;
  uint32_t action_texts[TG__ACTION_OTHER]; /* string ids */
  uint32_t settings;                       /* allocator_settings as JSON: string id, TG_NONE */
  bool overflowed;                         /* the file says that older entries had no room, but not how many */
  int64_t dropped;    /* older entries that had no room in the history, where the file says so, as ours do */
  int64_t cut_stacks; /* of which the outer frames were left out: their texts would be larger than the file */
  bool cut;
  int64_t cut_offset;
};
/* Histories, which have come in any order, get the numbers of their devices; the host's is the last. false: out of
 * memory, nothing changed. */
bool tg__snapshot_place(struct tg__snapshot *s, const size_t *device_of, size_t count, size_t host);
/* TG_NOT_A_TRACE when the pickle is no snapshot, or holds code. tg__snapshot_free either way. */
enum tg_err tg__snapshot_read(struct tg__snapshot *s, struct tg__strings *strings, tg__source_fn *source, void *ctx,
                              const struct tg__import_how *how, struct tg_error *e);
void tg__snapshot_free(struct tg__snapshot *s);
/* The rows of a trace. TG_NO_EVENTS for a snapshot without segments and without history. */
enum tg_err tg__import_snapshot(struct tg__import *im, tg__source_fn *source, void *ctx,
                                const struct tg__import_how *how, struct tg_error *e);

#endif
