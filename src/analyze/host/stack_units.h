/* stack_units: what the question stacks counts: Python frames, or operators with the text of their call stack. */
#ifndef TG_STACK_UNITS_H
#define TG_STACK_UNITS_H

#include "analyze/host/frames.h"
#include "analyze/host/op_tree.h"

enum tg__stack_by { TG__STACK_LINE, TG__STACK_FUNCTION, TG__STACK_FILE, TG__STACK_MODULE, TG__STACK_FULL };

struct tg__stack_unit {
  uint32_t slice;
  uint32_t parent;                    /* unit around it, TG_NONE; stands before it */
  uint32_t names;                     /* a list in tg__stack_units */
  bool open, counted;                 /* for whoever walks them */
  int64_t kids_ns;                    /* durations of the units directly inside */
  int64_t device_ns, device_total_ns; /* launched in it and in no inner unit; in it */
};
struct tg__stack_list {
  uint32_t first, count;
};
struct tg__stack_units {
  const struct tg__columns *t;
  struct tg__rank_range range;
  enum tg__stack_by by;
  bool from_text;               /* units are operators: no Python frames were recorded */
  bool has_lines;               /* by line, and calls say which line makes them: operators are units beside frames */
  struct tg__stack_unit *items; /* in slice order */
  size_t count, cap;
  /* The rows a unit counts for, innermost frame first. One frame is one row; a call stack given as text is several. */
  struct tg__stack_list *lists;
  size_t list_count, list_cap;
  uint32_t *list_items; /* rows */
  size_t item_count, item_cap;
  /* Rows: what one is called, as a label or a path of `paths`. */
  uint32_t *row_names;
  size_t row_count, row_cap;
  struct tg__map row_of, list_of;
  struct tg__paths paths; /* whole stacks and modules, outermost first; stacks split from text, innermost first */
};
/* count stays 0 when the trace has no stacks (by=module: no modules). *u is to be freed either way. TG_OK or
 * TG_MEMORY. */
enum tg_err tg__stack_units_build(const struct tg__columns *t, struct tg__rank_range range, enum tg__stack_by by,
                                  struct tg__stack_units *u);
void tg__stack_units_free(struct tg__stack_units *u);
void tg__stack_units_write(const struct tg__stack_units *u, uint32_t row, struct tg__out *out); /* the name of a row */

#endif
