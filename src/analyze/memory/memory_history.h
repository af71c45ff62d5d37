/* memory_history: the events of allocators in order, from recordings with memory and from memory snapshots. */
#ifndef TG_MEMORY_HISTORY_H
#define TG_MEMORY_HISTORY_H

#include "analyze/host/op_tree.h"

struct tg__alloc_event {
  uint32_t mark, device; /* device: index into devices */
  int64_t number, ts_ns; /* number: on its device, from 0 */
  int64_t addr, bytes;   /* bytes of [memory]: below zero for what is given back */
  int64_t allocated, reserved;
  uint32_t stack; /* string id, TG_NONE */
  bool is_memory; /* taken or given back; else something the allocator did beside */
};
struct tg__alloc_device {
  uint32_t rank;
  int64_t type, id;
  int64_t events, peak_event;    /* after this event most was in use; -1 = nothing ever was */
  int64_t peak_bytes, net_bytes; /* in use then, and what the events so far add up to, where no allocator says */
};
struct tg__alloc_history {
  struct tg__alloc_event *events; /* by rank, then time */
  size_t count, cap;
  struct tg__alloc_device *devices;
  size_t device_count, device_cap;
  bool with_addr; /* some [memory] event says its address: blocks can be followed */
};
/* Those of the ranks and of the device (argument `device` of the question) asked for. TG_NO_DATA when there are
 * none. Free *out either way. */
enum tg_err tg__alloc_history_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__alloc_history *out,
                                   struct tg_error *e);
void tg__alloc_history_free(struct tg__alloc_history *h);
/* As tg__alloc_history_read, and TG_NO_DATA too where the events do not say which blocks they are about. */
enum tg_err tg__alloc_blocks_read(const struct tg__columns *t, const struct tg__ask *a, struct tg__alloc_history *out,
                                  struct tg_error *e);
/* Which blocks are in use, event by event, on one device: address → index of the event that took it + 1; 0 = given
 * back. */
struct tg__alloc_blocks {
  struct tg__map of_addr;
};
/* gone: the event of the block that ends with event i, given back or, its free being missing, taken again; TG_NONE.
 * false on no memory. */
bool tg__alloc_blocks_follow(struct tg__alloc_blocks *b, const struct tg__alloc_history *h, size_t i, uint32_t *gone);
void tg__put_address(struct tg_table *out, int64_t address); /* 0x7f… */

#endif
