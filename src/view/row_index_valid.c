/* row_index_valid: the invariants of a track's row index, as code: what blocks and nodes sum up is what the slices
 * say. Reads every slice once for its block and once for each level of nodes. */
#include "view/row_index.h"

#define CHECK(condition, text) TG__CHECK(condition, "index of a row: " text)

struct sum { /* of slices at neighbouring positions */
  int64_t busy_ns, most_ns;
};
static struct sum sum_of(struct tg__row_reader *r, uint32_t first, uint64_t past) {
  const int64_t *const dur = r->trace->slices.dur_ns;
  struct sum s = {0, INT64_MIN};
  for (uint32_t p = first; p < past && p < r->row->count; p++) {
    const int64_t ns = dur[tg__row_at(r, p)];
    s.busy_ns += ns;
    s.most_ns = ns > s.most_ns ? ns : s.most_ns;
  }
  return s;
}

static bool blocks_are_valid(struct tg__row_reader *r, struct tg_error *e) {
  const struct tg__track_index *const ix = r->index;
  const struct tg__track *const track = &r->trace->tracks[r->row->track];
  uint64_t next_id = track->first;
  for (uint32_t b = 0; b < tg__blocks_of(r->row->count); b++) {
    const uint32_t at = r->row->first_block + b, begin = b << TG__FAN_BITS, longest = begin + (ix->form[at] & 15);
    CHECK(ix->distances_at[at] <= ix->distances_len, "distances outside their array");
    CHECK(longest < r->row->count, "the longest slice of a block is in another one");
    const struct sum s = sum_of(r, begin, (uint64_t)begin + TG__FAN);
    CHECK(r->trace->slices.dur_ns[tg__row_at(r, longest)] == s.most_ns, "there is a longer slice in a block");
    CHECK(ix->busy_ns[at] == s.busy_ns, "the busy time of a block is not that of its slices");
    CHECK(ix->most_ns[at] == (s.most_ns < 0 || s.most_ns >= UINT32_MAX ? UINT32_MAX : s.most_ns),
          "the longest time of a block is not that of its slices");
    for (uint32_t p = begin; p < begin + TG__FAN && p < r->row->count; p++) {
      const uint32_t id = tg__row_at(r, p);
      CHECK(id >= next_id && id - track->first < track->count, "slices are out of order or of another track");
      next_id = (uint64_t)id + 1;
    }
  }
  return true;
}

static bool nodes_are_valid(struct tg__row_reader *r, struct tg_error *e) {
  const struct tg__track_index *const ix = r->index;
  const struct tg__node_levels levels = tg__node_levels_of(r->row);
  for (uint32_t level = 0; level < levels.count; level++)
    for (uint32_t k = 0; k < levels.nodes[level]; k++) {
      const uint64_t slices = (uint64_t)TG__FAN << (TG__FAN_BITS * (level + 1));
      const uint32_t node = levels.first[level] + k;
      const struct sum s = sum_of(r, (uint32_t)(k * slices), (k + 1) * slices);
      CHECK(node < ix->node_count, "a node outside its array");
      CHECK(ix->busy_ns[ix->block_count + node] == s.busy_ns, "the busy time of a node is not that of its slices");
      CHECK(r->trace->slices.dur_ns[ix->longest[node]] == s.most_ns, "there is a longer slice in a node");
    }
  return true;
}

bool tg__row_index_is_valid(const struct tg__columns *t, const struct tg__track_index *ix, const struct tg__row *row,
                            struct tg_error *e) {
  struct tg__row_reader r = {.trace = t, .row = row, .index = ix, .block = TG_NONE};
  CHECK((uint64_t)row->first_block + tg__blocks_of(row->count) <= ix->block_count, "a block outside its array");
  return blocks_are_valid(&r, e) && nodes_are_valid(&r, e);
}
