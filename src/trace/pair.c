/* pair: slices that came as two events get their duration. B and E close on a stack per track; b/e and S/F on a
 * stack per (category, id). The closing event stays in the marks. */
#include "trace/import.h"

struct half {
  uint64_t key; /* track, or hash of category and id */
  int64_t ts_ns;
  uint32_t order; /* args reference: file order */
  uint32_t row;   /* slice or mark */
  bool ends;
};
struct halves {
  struct half *items;
  size_t count, cap;
};
struct pairing {
  struct tg__columns *t;
  struct tg__rank *rank;
  struct halves all;
  uint32_t *open;
  size_t open_count, open_cap;
  bool async;
  int64_t last_ns; /* latest half seen of the key */
};

static bool add_half(struct halves *h, struct half half) {
  if (h->count == h->cap && !tg__grow((void **)&h->items, &h->cap, h->count + 1, sizeof *h->items)) return false;
  h->items[h->count++] = half;
  return true;
}

static bool half_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct half *h = ctx;
  if (h[a].key != h[b].key) return h[a].key < h[b].key;
  if (h[a].ts_ns != h[b].ts_ns) return h[a].ts_ns < h[b].ts_ns;
  return h[a].order < h[b].order;
}

static void count_bent(struct tg__rank *r, enum tg__loss what) {
  r->loss[what]++;
} /* no byte offset: pairs are made after reading */

static void close_slice(struct pairing *p, uint32_t slice, int64_t end) {
  p->t->slices.dur_ns[slice] = end - p->t->slices.start_ns[slice];
}

/* Which open slice an end closes: the top, or, when the end has a name, the innermost of that name. */
static size_t open_for(const struct pairing *p, uint32_t mark) {
  const uint32_t name = p->t->marks.name[mark];
  size_t i = p->open_count;
  if (name == TG__K_EMPTY || p->t->slices.name[p->open[i - 1]] == name) return i - 1;
  while (i > 0 && p->t->slices.name[p->open[i - 1]] != name) i--;
  return i > 0 ? i - 1 : p->open_count - 1;
}

static void take_end(struct pairing *p, const struct half *h) {
  if (p->open_count == 0) {
    count_bent(p->rank, TG__LOSS_bent_unmatched_end);
    return;
  }
  const size_t at = open_for(p, h->row);
  const uint32_t name = p->t->marks.name[h->row];
  if (at + 1 != p->open_count || (name != TG__K_EMPTY && p->t->slices.name[p->open[at]] != name))
    count_bent(p->rank, TG__LOSS_bent_wrong_end);
  while (p->open_count > at) close_slice(p, p->open[--p->open_count], h->ts_ns);
}

/* What a B without an E lasts until: the last thing its track shows. */
static int64_t track_end(const struct tg__columns *t, const struct tg__track *track, int64_t end) {
  TG__EACH (i, tg__slices_of(track))
    if (tg__slice_end(t, i) > end) end = tg__slice_end(t, i);
  return end;
}

static void leave_open(struct pairing *p) {
  if (p->open_count && !p->async)
    p->last_ns = track_end(p->t, &p->t->tracks[tg__slice_track(p->t, p->open[0])], p->last_ns);
  while (p->open_count) {
    const uint32_t slice = p->open[--p->open_count];
    p->t->slices.flags[slice] |= TG__F_UNCLOSED;
    close_slice(p, slice, p->last_ns);
    count_bent(p->rank, TG__LOSS_bent_unclosed);
  }
}

static enum tg_err pair_all(struct pairing *p) {
  const size_t n = p->all.count;
  uint32_t *index = tg__order_new(n, half_before, p->all.items);
  if (!index) return TG_MEMORY;
  bool ok = true;
  for (size_t i = 0; i < n && ok; i++) {
    const struct half *h = &p->all.items[index[i]];
    if (i > 0 && p->all.items[index[i - 1]].key != h->key) leave_open(p);
    p->last_ns = h->ts_ns;
    if (h->ends)
      take_end(p, h);
    else if ((ok = tg__grow((void **)&p->open, &p->open_cap, p->open_count + 1, sizeof *p->open)))
      p->open[p->open_count++] = h->row;
  }
  leave_open(p);
  tg__free(index);
  return ok ? TG_OK : TG_MEMORY;
}

/* An async slice is known by its category and id; id2 = {local} or {global} counts as its text. */
static uint64_t async_key(const struct tg__columns *t, uint32_t args, uint16_t cat) {
  struct tg__val id, scope;
  if (!tg__arg(t, args, TG__K_ID, true, &id) && !tg__arg(t, args, TG__K_ID2, true, &id))
    id = (struct tg__val){.kind = TG__KIND_NULL};
  if (!tg__arg(t, args, TG__K_SCOPE, true, &scope)) scope.str = TG_NONE;
  const uint64_t parts[3] = {(uint64_t)id.kind << 32 | (id.kind == TG__KIND_INT ? 0 : id.str), (uint64_t)id.i,
                             (uint64_t)cat << 32 | scope.str};
  return tg__hash(parts, sizeof parts);
}

static bool gather_ends(struct pairing *p, bool async) {
  const struct tg__columns *t = p->t;
  const struct tg__rank *r = p->rank;
  const uint8_t flag = async ? TG__F_ASYNC : TG__F_BEGIN_END;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    if (async != (track->kind == TG__TRACK_ASYNC)) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!(t->slices.flags[i] & flag)) continue;
      const uint64_t key = async ? async_key(t, t->slices.args[i], t->slices.cat[i]) : k;
      if (!add_half(&p->all, (struct half){key, t->slices.start_ns[i], t->slices.args[i], i, false})) return false;
    }
  }
  for (uint32_t i = 0; i < t->marks.count; i++) {
    const uint8_t ph = t->marks.ph[i];
    const uint32_t track = t->marks.track[i];
    if (track < r->first_track || t->marks.ts_ns[i] == TG_NULL_INT || (async ? ph != 'e' && ph != 'F' : ph != 'E'))
      continue;
    const uint64_t key = async ? async_key(t, t->marks.args[i], t->marks.cat[i]) : track;
    if (!add_half(&p->all, (struct half){key, t->marks.ts_ns[i], t->marks.args[i], i, true})) return false;
  }
  return true;
}

enum tg_err tg__pair_ends(struct tg__columns *t, uint32_t r) {
  const int64_t *phases = t->ranks[r].phase_count;
  const bool wanted[2] = {phases['B'] + phases['E'] > 0, phases['b'] + phases['e'] + phases['S'] + phases['F'] > 0};
  enum tg_err err = TG_OK;
  for (int async = 0; async < 2 && err == TG_OK; async++) {
    if (!wanted[async]) continue;
    struct pairing p = {.t = t, .rank = &t->ranks[r], .async = async};
    err = gather_ends(&p, async) ? pair_all(&p) : TG_MEMORY;
    tg__free(p.all.items);
    tg__free(p.open);
  }
  return err;
}
