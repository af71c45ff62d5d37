/* row_index: blocks and nodes of rows. */
#include "view/row_index.h"

struct tg__node_levels tg__node_levels_of(const struct tg__row *row) {
  struct tg__node_levels l = {0};
  uint32_t below = tg__blocks_of(row->count), first = row->first_node;
  while (below > TG__FAN) { /* fewer are looked through one by one */
    below = tg__blocks_of(below);
    l.first[l.count] = first;
    l.nodes[l.count++] = below;
    first += below;
  }
  return l;
}

bool tg__track_index_open(struct tg__track_index *ix, uint32_t blocks, uint32_t nodes) {
  *ix = (struct tg__track_index){.block_count = blocks, .node_count = nodes};
  ix->busy_ns = tg__alloc(((size_t)blocks + nodes) * sizeof *ix->busy_ns);
  ix->first = tg__alloc(blocks * sizeof *ix->first);
  ix->distances_at = tg__alloc(blocks * sizeof *ix->distances_at);
  ix->longest = tg__alloc(nodes * sizeof *ix->longest);
  ix->form = tg__alloc(blocks);
  return !blocks || (ix->busy_ns && ix->first && ix->distances_at && (ix->longest || !nodes) && ix->form);
}

void tg__track_index_close(struct tg__track_index *ix) {
  tg__free(ix->busy_ns);
  tg__free(ix->first);
  tg__free(ix->distances_at);
  tg__free(ix->longest);
  tg__free(ix->form);
  tg__free(ix->distances);
  *ix = (struct tg__track_index){0};
}

/* Bytes for each distance of a block of n slices; 0: all are 1. */
static unsigned distance_bytes(const uint32_t *ids, uint32_t n) {
  uint32_t any = 1; /* all bits of all distances: enough to see how many bytes they need */
  for (uint32_t i = 1; i < n; i++) any |= ids[i] - ids[i - 1];
  return any == 1 ? 0 : any <= UINT8_MAX ? 1 : any <= UINT16_MAX ? 2 : 4;
}

static uint32_t put_distances(uint8_t *to, const uint32_t *ids, uint32_t n, unsigned bytes) {
  if (bytes == 1)
    for (uint32_t i = 1; i < n; i++) to[i - 1] = (uint8_t)(ids[i] - ids[i - 1]);
  else
    for (uint32_t i = 1; bytes && i < n; i++) {
      const uint32_t d = ids[i] - ids[i - 1];
      memcpy(to + (i - 1) * bytes, &d, bytes); /* little endian, as all of this project's machines */
    }
  return (n - 1) * bytes;
}

bool tg__row_flush(struct tg__track_index *ix, const struct tg__row_writer *w, const int64_t *dur_ns) {
  const uint32_t block = (w->written - 1) >> TG__FAN_BITS, n = w->written - (block << TG__FAN_BITS);
  const uint32_t at = w->row->first_block + block;
  const unsigned bytes = distance_bytes(w->ids, n);
  int64_t busy = 0, most = -1;
  uint32_t longest = 0;
  if (ix->distances_len + (size_t)bytes * (TG__FAN - 1) > ix->distances_cap &&
      !tg__grow(&ix->distances, &ix->distances_cap, ix->distances_len + (size_t)bytes * (TG__FAN - 1), 1))
    return false;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t dur = dur_ns[w->ids[i]];
    busy += dur;
    longest = dur > most ? i : longest;
    most = dur > most ? dur : most;
  }
  ix->first[at] = w->ids[0];
  ix->busy_ns[at] = busy;
  ix->form[at] = (uint8_t)(longest | bytes << 4);
  ix->distances_at[at] = (uint32_t)ix->distances_len;
  ix->distances_len += put_distances(ix->distances + ix->distances_len, w->ids, n, bytes);
  return true;
}

/* The longest slice of a block or, from level 1 on, of a node. */
static uint32_t longest_of(const struct tg__track_index *ix, struct tg__row_reader *r,
                           const struct tg__node_levels *levels, uint32_t level, uint32_t i) {
  if (level) return ix->longest[levels->first[level - 1] + i];
  return tg__row_at(r, (i << TG__FAN_BITS) + (ix->form[r->row->first_block + i] & (TG__FAN - 1)));
}

void tg__row_sum_up(struct tg__track_index *ix, const struct tg__row *row, const struct tg__columns *t) {
  const struct tg__node_levels levels = tg__node_levels_of(row);
  struct tg__row_reader r = {.trace = t, .row = row, .index = ix, .block = TG_NONE};
  uint32_t below = tg__blocks_of(row->count);
  const int64_t *busy = ix->busy_ns + row->first_block;
  for (uint32_t level = 0; level < levels.count; level++) {
    int64_t *const sums = ix->busy_ns + ix->block_count + levels.first[level];
    for (uint32_t node = 0; node < levels.nodes[level]; node++) {
      int64_t sum = 0, most = -1;
      for (uint32_t i = node << TG__FAN_BITS; i < below && i < (node + 1) << TG__FAN_BITS; i++) {
        const uint32_t slice = longest_of(ix, &r, &levels, level, i);
        sum += busy[i];
        if (t->slices.dur_ns[slice] > most) {
          most = t->slices.dur_ns[slice];
          ix->longest[levels.first[level] + node] = slice;
        }
      }
      sums[node] = sum;
    }
    busy = sums;
    below = levels.nodes[level];
  }
}

/* ---- reading ----------------------------------------------------------------------------------- */

struct tg__row_reader tg__row_read(const struct tg__view *v, uint32_t row) {
  const struct tg__row *const r = &v->rows[row];
  return (struct tg__row_reader){.trace = v->trace, .row = r, .index = &v->tracks[r->track], .block = TG_NONE};
}

void tg__row_unpack(struct tg__row_reader *r, uint32_t block) {
  const struct tg__track_index *const ix = r->index;
  const uint32_t at = r->row->first_block + block, begin = block << TG__FAN_BITS;
  const uint32_t n = r->row->count - begin < TG__FAN ? r->row->count - begin : TG__FAN;
  const uint8_t *const d = ix->distances + ix->distances_at[at];
  uint32_t id = r->ids[0] = ix->first[at];
  r->block = block;
  switch (ix->form[at] >> 4) {
  case 0:
    for (uint32_t i = 1; i < n; i++) r->ids[i] = ++id;
    break;
  case 1:
    for (uint32_t i = 1; i < n; i++) r->ids[i] = id += d[i - 1];
    break;
  case 2:
    for (uint32_t i = 1; i < n; i++) {
      uint16_t step;
      memcpy(&step, d + 2 * (i - 1), sizeof step);
      r->ids[i] = id += step;
    }
    break;
  default:
    for (uint32_t i = 1; i < n; i++) {
      uint32_t step;
      memcpy(&step, d + 4 * (i - 1), sizeof step);
      r->ids[i] = id += step;
    }
  }
}

uint32_t tg__row_position(struct tg__row_reader *r, int64_t ns) {
  const int64_t *const start = r->trace->slices.start_ns;
  uint32_t low = 0; /* blocks before `low` begin before ns */
  TG__PARTITION(low, tg__blocks_of(r->row->count), i, start[tg__row_block_first(r, i)] < ns);
  if (!low) return 0;
  uint32_t p = (low - 1) << TG__FAN_BITS;
  while (p < r->row->count && p < low << TG__FAN_BITS && start[tg__row_at(r, p)] < ns) p++;
  return p;
}
