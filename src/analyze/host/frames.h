/* frames: Python frames and modules around a slice, and paths of names as small integers. */
#ifndef TG_FRAMES_H
#define TG_FRAMES_H

#include "analyze/analyze.h"

/* ---- which events have an argument ---------------------------------------------------------- */

/* Looking a key up in the args of every event costs; looking it up once per schema does not. */
struct tg__schema_mask {
  uint32_t key;
  bool any;     /* some schema has the key */
  uint8_t *has; /* by schema */
};
/* false on no memory. */
bool tg__schema_mask_make(const struct tg__columns *t, uint32_t key, struct tg__schema_mask *out);
void tg__schema_mask_free(struct tg__schema_mask *m);
/* There, and not null. */
bool tg__schema_mask_has(const struct tg__columns *t, const struct tg__schema_mask *m, uint32_t slice);

/* ---- Python frames --------------------------------------------------------------------------- */

/* By slice: the innermost Python frame that contains it, itself excluded; TG_NONE. NULL on no memory. Freed with
 * tg__free. */
uint32_t *tg__frames_around(const struct tg__columns *t, struct tg__rank_range range);

/* ---- paths ----------------------------------------------------------------------------------- */

/* A set of paths, each a number; equal sequences of labels have equal numbers. 0 is the empty path. A label is
 * whatever 32-bit number the caller likes; those from tg__paths_label have a text. */
struct tg__paths {
  const struct tg__columns *t;
  struct tg__map next;  /* (path, label) → longer path */
  uint32_t *up, *label; /* by path */
  size_t count, up_cap, label_cap;
  struct tg__strings *extra; /* texts that are not among the strings of the trace */
  struct tg__map by_text;    /* string id → path, for texts that were split before */
  struct tg__map by_frame;   /* string id → label, for frames seen before */
  bool failed;               /* out of memory: paths returned since are wrong */
};
bool tg__paths_open(struct tg__paths *p, const struct tg__columns *t); /* false on no memory; close it either way */
void tg__paths_close(struct tg__paths *p);
uint32_t tg__paths_step(struct tg__paths *p, uint32_t from, uint32_t label);
uint32_t tg__paths_label(struct tg__paths *p, struct tg__str text); /* a string id of the trace is a label, too */
/* The label of a Python frame by its string id: the name, without the address that differs between objects of a
 * built-in method from the next ("<built-in method add of Tensor object at 0x7f…>"). */
uint32_t tg__paths_frame(struct tg__paths *p, uint32_t string_id);
struct tg__str tg__paths_text(const struct tg__paths *p, uint32_t label);
/* Labels of a path, first to last, joined. Of very long paths only the last labels are written, with … in front. */
void tg__paths_write(const struct tg__paths *p, uint32_t path, const char *separator, struct tg__out *out);
/* The path of a call stack written as one text, frames joined by ';', at most `limit` of them; without addresses,
 * too. */
uint32_t tg__paths_split(struct tg__paths *p, uint32_t string_id, uint32_t limit);
void tg__write_list(struct tg__out *out, struct tg__str json); /* [1, 2] however it was laid out in the file */
struct tg__str tg__module_name(struct tg__str frame);          /* without "nn.Module: " */

#endif
