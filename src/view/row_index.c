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
  ix->most_ns = tg__alloc(blocks * sizeof *ix->most_ns);
  ix->form = tg__alloc(blocks);
  return !blocks ||
         (ix->busy_ns && ix->first && ix->distances_at && (ix->longest || !nodes) && ix->most_ns && ix->form);
}

void tg__track_index_close(struct tg__track_index *ix) {
  tg__free(ix->busy_ns);
  tg__free(ix->first);
  tg__free(ix->distances_at);
  tg__free(ix->longest);
  tg__free(ix->most_ns);
  tg__free(ix->form);
  tg__free(ix->distances);
  *ix = (struct tg__track_index){0};
}

void tg__row_begin(struct tg__row_writer *w, const struct tg__row *row) {
  *w = (struct tg__row_writer){.row = row, .levels = tg__node_levels_of(row)};
  for (unsigned level = 0; level < TG__MOST_NODE_LEVELS; level++) w->sums[level].most_ns = -1;
}

static void put_node(struct tg__track_index *ix, struct tg__row_writer *w, uint32_t level);

static void add_to_node(struct tg__track_index *ix, struct tg__row_writer *w, uint32_t level, int64_t busy_ns,
                        int64_t most_ns, uint32_t longest) {
  if (level == w->levels.count) return;
  struct tg__node_sum *const s = &w->sums[level];
  s->busy_ns += busy_ns;
  s->longest = most_ns > s->most_ns ? longest : s->longest;
  s->most_ns = most_ns > s->most_ns ? most_ns : s->most_ns;
  if (++s->count == TG__FAN) put_node(ix, w, level);
}

static void put_node(struct tg__track_index *ix, struct tg__row_writer *w, uint32_t level) {
  const struct tg__node_sum s = w->sums[level];
  const uint32_t node = w->levels.first[level] + s.done;
  ix->busy_ns[ix->block_count + node] = s.busy_ns;
  ix->longest[node] = s.longest;
  w->sums[level] = (struct tg__node_sum){.most_ns = -1, .done = s.done + 1};
  add_to_node(ix, w, level + 1, s.busy_ns, s.most_ns, s.longest);
}

struct block { /* summed up */
  int64_t busy_ns, most_ns;
  uint32_t longest;       /* position */
  uint32_t all_distances; /* all their bits: enough to see how many bytes they need */
};

/* One look at each slice; distances go out as bytes, at once: a copy kept here would have to be read back. */
static inline struct block sum_up_block(const uint32_t *ids, const int64_t *dur_ns, uint32_t n, uint8_t *bytes) {
  uint32_t before = ids[0];
  struct block b = {.busy_ns = dur_ns[before], .most_ns = dur_ns[before], .all_distances = 1};
  for (uint32_t i = 1; i < n; i++) {
    const uint32_t id = ids[i], distance = id - before;
    const int64_t dur = dur_ns[id];
    before = id;
    b.all_distances |= distance;
    bytes[i - 1] = (uint8_t)distance;
    b.busy_ns += dur;
    b.longest = dur > b.most_ns ? i : b.longest;
    b.most_ns = dur > b.most_ns ? dur : b.most_ns;
  }
  return b;
}

static void put_wide_distances(uint8_t *to, const uint32_t *ids, uint32_t n, unsigned bytes) {
  for (uint32_t i = 1; i < n; i++) {
    const uint32_t d = ids[i] - ids[i - 1];
    memcpy(to + (i - 1) * bytes, &d, bytes); /* little endian, as all of this project's machines */
  }
}

TG_INLINE void put_block(struct tg__track_index *ix, struct tg__row_writer *w, uint32_t at, const uint32_t *ids,
                         const int64_t *dur_ns, uint32_t n) {
  uint8_t *const to = ix->distances + ix->distances_len;
  const struct block b = sum_up_block(ids, dur_ns, n, to);
  const uint32_t all = b.all_distances;
  const unsigned bytes = all == 1 ? 0 : all <= UINT8_MAX ? 1 : all <= UINT16_MAX ? 2 : 4;
  ix->first[at] = ids[0];
  ix->busy_ns[at] = b.busy_ns;
  ix->most_ns[at] = b.most_ns < 0 || b.most_ns >= UINT32_MAX ? UINT32_MAX : (uint32_t)b.most_ns;
  ix->form[at] = (uint8_t)(b.longest | bytes << 4);
  ix->distances_at[at] = (uint32_t)ix->distances_len;
  if (bytes > 1) put_wide_distances(to, ids, n, bytes);
  ix->distances_len += (size_t)(n - 1) * bytes;
  add_to_node(ix, w, 0, b.busy_ns, b.most_ns, ids[b.longest]);
}

bool tg__row_write(struct tg__track_index *ix, struct tg__row_writer *w, const int64_t *dur_ns, uint32_t count) {
  const size_t room = ix->distances_len + (size_t)TG__ROW_GATHERED * sizeof(uint32_t);
  uint32_t at = w->row->first_block + (w->written >> TG__FAN_BITS), i = 0;
  if (room > ix->distances_cap && !tg__grow(&ix->distances, &ix->distances_cap, room, 1)) return false;
  for (; i + TG__FAN <= count; i += TG__FAN) put_block(ix, w, at++, w->ids + i, dur_ns, TG__FAN);
  if (i < count) put_block(ix, w, at, w->ids + i, dur_ns, count - i);
  w->written += count;
  return true;
}

void tg__row_end(struct tg__track_index *ix, struct tg__row_writer *w) {
  for (uint32_t level = 0; level < w->levels.count; level++)
    if (w->sums[level].count) put_node(ix, w, level);
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
