/* snapshot_stacks: the texts of a snapshot's frames and stacks, each stack once. Memory stays in proportion to the
 * file: a memo makes long texts out of two bytes each, so that what is written out beyond a limit is shortened, and
 * counted. */
#ifndef TG_SNAPSHOT_STACKS_H
#define TG_SNAPSHOT_STACKS_H

#include "trace/snapshot.h"

struct tg__frames_range {
  size_t first, count;
};
struct tg__stacks {
  struct tg__snapshot *s; /* its stack_texts, stack_count and cut_stacks are kept here */
  uint32_t *frames;       /* of stacks, as string ids, one stack behind the other */
  size_t frame_count, frame_cap;
  struct tg__frames_range *ranges; /* by stack */
  size_t range_cap;
  struct tg__map of_hash; /* hash of its frames → stack; equal hashes are chained through hash + 1 */
  uint64_t text_bytes;    /* of frames and stacks that were new */
  bool no_memory;
};
struct tg__frame {
  struct tg__str file, name;
  int64_t line;
  /* of code that torch.compile made: the node of its graph, and the trace of what was written; "" = none */
  struct tg__str node, written;
};

bool tg__stacks_begin(struct tg__stacks *st, struct tg__snapshot *s); /* false: out of memory. Stack 0 has no frames */
void tg__stacks_free(struct tg__stacks *st);
/* "file(line): function", as Kineto writes the frames of Python; before it that of the line that was written, when
 * torch.compile's code has one. A string id, TG_NONE on no memory. */
uint32_t tg__stacks_frame(struct tg__stacks *st, const struct tg__frame *f);
/* Room for so many frames behind those of the stack `before`; NULL on no memory. Then, when `count` of them stand
 * there: the stack's number. */
uint32_t *tg__stacks_room(struct tg__stacks *st, uint32_t before, size_t most);
uint32_t tg__stacks_number(struct tg__stacks *st, uint32_t before, size_t count);
/* Texts in one, behind `before` (TG_NONE: nothing yet): a string id, TG_NONE on no memory. */
uint32_t tg__stacks_join(struct tg__stacks *st, uint32_t before, const uint32_t *texts, size_t count);

#endif
