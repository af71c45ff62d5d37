/* roof: the operators that count towards the work of a rank, one visit each. Used by roofline and mfu. */
#ifndef TG_ROOF_H
#define TG_ROOF_H

#include "analyze/work/device_peaks.h"
#include "analyze/work/op_work.h"

struct tg__counted {
  uint32_t node, track;
  /* of a counted operator: with all it calls; else its self time. Device time where the rank has any */
  int64_t time_ns;
  const struct tg__work *work; /* NULL: without a figure */
  enum tg__precision precision;
};
struct tg__roof {
  const struct tg__columns *t;
  struct tg__op_tree tree;
  struct tg__op_work work;
  bool *on_device; /* by rank: its time is device time */
  bool *tf32;      /* by node: a kernel of it or of what it calls says so in its name */
};
/* TG_NO_DATA when no operator says what it was given. tg__roof_close either way. */
enum tg_err tg__roof_open(const struct tg__columns *t, const struct tg__ask *a, struct tg__roof *out,
                          struct tg_error *e);
void tg__roof_close(struct tg__roof *r);
/* Does this node have a share of the time, and which? */
bool tg__roof_count(const struct tg__roof *r, uint32_t track, uint32_t node, struct tg__counted *out);
/* The counted node behind a slice of device work, TG_NONE. */
uint32_t tg__roof_behind(const struct tg__roof *r, uint32_t device_slice);
/* Compares a peak that was measured with what the operators of the rank reach, and withholds it where one of them is
 * faster. */
void tg__roof_try_peaks(const struct tg__roof *r, uint32_t rank, struct tg__peaks *peaks);

#endif
