/* row_index: which slices stand on a row, and a summary of each 16 of them, so that a tile looks at as many summaries
 * as it has columns and not at every slice.
 *
 * The slices of a row are numbered 0 … count−1 in order of time: their *positions*. Blocks of 16 positions hold the
 * number of their first slice, the distances between the others (1, 2 or 4 bytes each, none where all are 1), their
 * busy time and which of them is longest; above them nodes of 16 blocks, of 16 nodes, …: busy time and longest slice.
 * Together 2.2 to 2.4 bytes a slice, 1.4 on a track of one row. */
#ifndef TG_ROW_INDEX_H
#define TG_ROW_INDEX_H

#include "view/view.h"

enum { TG__FAN_BITS = 4, TG__FAN = 1 << TG__FAN_BITS, TG__MOST_NODE_LEVELS = 7 };

struct tg__track_index {  /* of all rows of a track, one after the other */
  int64_t *busy_ns;       /* of each block, then of each node */
  uint32_t *first;        /* slice of each block */
  uint32_t *distances_at; /* in `distances`, of each block */
  uint32_t *longest;      /* slice of each node */
  uint32_t *most_ns;      /* of each block: its longest slice; UINT32_MAX: that or more */
  uint8_t *form; /* of each block: position of the longest (4 bits), bytes a distance 0, 1, 2, 4 (bits 4 to 6) */
  uint8_t *distances;
  size_t distances_len, distances_cap;
  uint32_t block_count, node_count;
};

/* Where the nodes of a row stand: level 1 sums up 16 blocks each, level 2 16 nodes of level 1, … */
struct tg__node_levels {
  uint32_t count;                       /* levels */
  uint32_t first[TG__MOST_NODE_LEVELS]; /* node, in the track's arrays */
  uint32_t nodes[TG__MOST_NODE_LEVELS];
};
struct tg__node_levels tg__node_levels_of(const struct tg__row *row);
static inline uint32_t tg__blocks_of(uint32_t slices) {
  return (uint32_t)(((uint64_t)slices + TG__FAN - 1) >> TG__FAN_BITS);
}

/* Rows are written slice by slice, four blocks at a time; nodes are summed up on the way. */
struct tg__node_sum { /* of the node being filled */
  int64_t busy_ns, most_ns;
  uint32_t longest, count, done; /* count: blocks or nodes in it; done: nodes before it */
};
enum { TG__ROW_GATHERED = 4 * TG__FAN };
struct tg__row_writer {
  uint32_t ids[TG__ROW_GATHERED]; /* gathered, but not yet written; at least the last of the row */
  uint32_t written;
  const struct tg__row *row;
  struct tg__node_levels levels;
  struct tg__node_sum sums[TG__MOST_NODE_LEVELS];
};
bool tg__track_index_open(struct tg__track_index *ix, uint32_t blocks, uint32_t nodes); /* false on no memory */
void tg__track_index_close(struct tg__track_index *ix);
void tg__row_begin(struct tg__row_writer *w, const struct tg__row *row);
/* The next `count` of ids: only the last call of a row may have fewer than all. false on no memory. */
bool tg__row_write(struct tg__track_index *ix, struct tg__row_writer *w, const int64_t *dur_ns, uint32_t count);
void tg__row_end(struct tg__track_index *ix, struct tg__row_writer *w);
/* row_index_valid.c: asserted when the rows of a track are written. */
bool tg__row_index_is_valid(const struct tg__columns *t, const struct tg__track_index *ix, const struct tg__row *row,
                            struct tg_error *e);

/* Reads a row in order of positions; the numbers of a block are unpacked once. */
struct tg__row_reader {
  const struct tg__columns *trace;
  const struct tg__row *row;
  const struct tg__track_index *index;
  uint32_t block; /* the one in ids; TG_NONE = none yet */
  uint32_t ids[TG__FAN];
};
struct tg__row_reader tg__row_read(const struct tg__view *v, uint32_t row);
void tg__row_unpack(struct tg__row_reader *r, uint32_t block);
static inline uint32_t tg__row_at(struct tg__row_reader *r, uint32_t position) {
  const uint32_t block = position >> TG__FAN_BITS;
  if (block != r->block) tg__row_unpack(r, block);
  return r->ids[position & (TG__FAN - 1)];
}
static inline uint32_t tg__row_block_first(const struct tg__row_reader *r, uint32_t block) {
  return r->index->first[r->row->first_block + block];
}
uint32_t tg__row_position(struct tg__row_reader *r, int64_t ns); /* how many slices begin before it */

#endif
