/* details: what is around a slice. Each looks through a column at most once, which takes a millisecond or two for
 * millions of slices. */
#include "view/row_index.h"

static struct tg__extent track_extent(const struct tg__columns *t, uint32_t slice) {
  const struct tg__track *const track = &t->tracks[tg__slice_track(t, slice)];
  return (struct tg__extent){track->first, track->first + track->count};
}

struct tg__near tg__view_near(const struct tg__view *v, uint32_t slice) {
  const struct tg__columns *const t = v->trace;
  const struct tg__extent all = track_extent(t, slice);
  const uint32_t name = t->slices.name[slice];
  struct tg__near n = {tg__view_row_of(v, slice), TG_NONE, TG_NONE, TG_NONE, TG_NONE, TG_NONE};
  if (slice + 1 < all.past && t->slices.parent[slice + 1] == slice) n.first_child = slice + 1;
  if (n.row != TG_NONE) {
    struct tg__row_reader r = tg__row_read(v, n.row);
    uint32_t p = tg__row_position(&r, t->slices.start_ns[slice]);
    while (p < r.row->count && tg__row_at(&r, p) < slice) p++;
    if (p) n.previous = tg__row_at(&r, p - 1);
    if (p + 1 < r.row->count) n.next = tg__row_at(&r, p + 1);
  }
  for (uint32_t i = slice; i-- > all.first && n.previous_same_name == TG_NONE;)
    if (t->slices.name[i] == name) n.previous_same_name = i;
  for (uint32_t i = slice + 1; i < all.past && n.next_same_name == TG_NONE; i++)
    if (t->slices.name[i] == name) n.next_same_name = i;
  return n;
}

int64_t tg__view_self_ns(const struct tg__view *v, uint32_t slice, uint32_t *children) {
  const struct tg__columns *const t = v->trace;
  const struct tg__extent all = track_extent(t, slice);
  const int64_t end = tg__slice_end(t, slice);
  int64_t inside = 0;
  *children = 0;
  for (uint32_t i = slice + 1; i < all.past && t->slices.start_ns[i] <= end; i++)
    if (t->slices.parent[i] == slice) {
      inside += t->slices.dur_ns[i];
      ++*children;
    }
  return t->slices.dur_ns[slice] - inside;
}

uint32_t tg__view_effects(const struct tg__view *v, uint32_t slice, uint32_t *effects, uint32_t most) {
  const struct tg__slices *const s = &v->trace->slices;
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (s->cause[i] != slice) continue;
    if (count < most) effects[count] = i;
    count++;
  }
  return count;
}

struct tg__same_name tg__view_same_name(const struct tg__view *v, uint32_t slice) {
  const struct tg__slices *const s = &v->trace->slices;
  const uint32_t name = s->name[slice];
  struct tg__same_name n = {0};
  for (uint32_t i = 0; i < s->count; i++) {
    if (s->name[i] != name) continue;
    if (i == slice) n.position = n.count;
    n.count++;
    n.total_ns += s->dur_ns[i];
  }
  return n;
}

uint32_t tg__view_step(const struct tg__view *v, uint32_t slice) {
  const struct tg__columns *const t = v->trace;
  const uint32_t rank = t->tracks[tg__slice_track(t, slice)].rank;
  const int64_t start = t->slices.start_ns[slice];
  for (uint32_t i = 0; i < t->step_count; i++)
    if (t->steps[i].rank == rank && t->steps[i].start_ns <= start && start < t->steps[i].end_ns) return i;
  return TG_NONE;
}

uint32_t tg__view_host_of(const struct tg__view *v, uint32_t slice) {
  const struct tg__columns *const t = v->trace;
  if (tg__class_is_device_side(tg__slice_class(t, slice)) && t->slices.cause[slice] < t->slices.count)
    slice = t->slices.cause[slice];
  if (tg__slice_class(t, slice) == TG__CLASS_RUNTIME && t->slices.cause[slice] < t->slices.count)
    slice = t->slices.cause[slice];
  return slice;
}

struct tg__str tg__view_module(const struct tg__view *v, uint32_t slice) {
  static const char prefix[] = "nn.Module: ";
  const struct tg__columns *const t = v->trace;
  for (uint32_t s = tg__view_host_of(v, slice); s != TG_NONE; s = t->slices.parent[s]) {
    const struct tg__str name = tg__name(t, t->slices.name[s]);
    if (tg__str_has_prefix(name, prefix))
      return (struct tg__str){name.ptr + strlen(prefix), name.len - (uint32_t)strlen(prefix)};
    const uint32_t path = tg__arg_str(t, t->slices.args[s], TG__K_MODULE_HIERARCHY);
    if (path != TG_NONE && tg__name(t, path).len) return tg__name(t, path);
  }
  return TG_STR("");
}

static bool lies_in(const struct tg__view *v, uint32_t slice, uint32_t track, int64_t start_ns, int64_t end_ns,
                    const bool *tracks) {
  const struct tg__columns *const t = v->trace;
  const int64_t start = t->slices.start_ns[slice] + tg__view_shift(v, t->tracks[track].rank);
  return (!tracks || tracks[track]) && start < end_ns && start + t->slices.dur_ns[slice] >= start_ns;
}

uint64_t tg__view_links(const struct tg__view *v, int64_t start_ns, int64_t end_ns, const bool *tracks,
                        uint32_t *effects, uint32_t most) {
  const struct tg__columns *const t = v->trace;
  uint64_t count = 0;
  for (uint32_t k = 0; k < t->track_count; k++)
    for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count; i++) {
      const uint32_t cause = t->slices.cause[i];
      if (cause >= t->slices.count) continue;
      if (!lies_in(v, i, k, start_ns, end_ns, tracks) &&
          !lies_in(v, cause, tg__slice_track(t, cause), start_ns, end_ns, tracks))
        continue;
      if (count < most) effects[count] = i;
      count++;
    }
  return count;
}
