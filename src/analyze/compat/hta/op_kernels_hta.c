/* op_kernels by HTA's rules: launches are known by name, a launch belongs to the aten:: operator of any thread that
 * began last and lasts as long, and what earlier ranks launched counts again in later ones. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/launch/op_kernels.h"

struct tree { /* largest end below each node; leaves are operators by start */
  int64_t *end;
  size_t leaves;
};
struct finder {
  const struct tg__hta *h;
  const struct tg__hta_rank *rank;
  uint8_t *kinds; /* by string id */
  uint32_t *ops;  /* rows of aten:: operators by start */
  size_t count;
  struct tree tree;
  uint32_t *kernel; /* by row of a launch: its device work, TG_NONE */
  uint8_t *kernels; /* by row: how much of it, 2 = more than one */
};
enum { NAME_SEEN = 1, NAME_ATEN = 2, NAME_LAUNCH = 4 };

static unsigned op_kernels_hta_kind_of(struct finder *f, uint32_t row) {
  const uint32_t id = f->h->t->slices.name[f->rank->rows[row].slice];
  if (f->kinds[id]) return f->kinds[id];
  const struct tg__str s = tg__name(f->h->t, id);
  unsigned kind = NAME_SEEN;
  if (tg__str_has_prefix(s, "aten::")) kind |= NAME_ATEN;
  const bool cuda =
      tg__str_has_prefix(s, "cuda") && tg__str_contains((struct tg__str){s.ptr + 4, s.len - 4}, "LaunchKernel");
  if (cuda || tg__str_has_prefix(s, "cuLaunchKernel") || tg__str_has_prefix(s, "runFunction")) kind |= NAME_LAUNCH;
  return f->kinds[id] = (uint8_t)kind;
}

static int64_t end_ns(const struct finder *f, uint32_t row) {
  return f->rank->rows[row].ts_us * 1000 + tg__hta_dur_ns(f->h, f->rank, &f->rank->rows[row]);
}

static bool op_kernels_hta_starts_before(uint32_t x, uint32_t y, const void *ctx) {
  const struct finder *f = ctx;
  if (f->rank->rows[x].ts_us != f->rank->rows[y].ts_us) return f->rank->rows[x].ts_us < f->rank->rows[y].ts_us;
  return x > y; /* so the last of several that began together is the first of the file: the one HTA takes */
}

static bool index_ops(struct finder *f) {
  for (uint32_t i = 0; i < f->rank->count; i++)
    if (op_kernels_hta_kind_of(f, i) & NAME_ATEN) f->ops[f->count++] = i;
  if (!tg__sort_index(f->ops, f->count, op_kernels_hta_starts_before, f)) return false;
  for (f->tree.leaves = 1; f->tree.leaves < f->count; f->tree.leaves *= 2) {}
  f->tree.end = tg__alloc(2 * f->tree.leaves * sizeof *f->tree.end);
  if (!f->tree.end) return false;
  for (size_t i = 0; i < 2 * f->tree.leaves; i++) f->tree.end[i] = INT64_MIN;
  for (size_t i = 0; i < f->count; i++) f->tree.end[f->tree.leaves + i] = end_ns(f, f->ops[i]);
  for (size_t i = f->tree.leaves - 1; i > 0; i--) {
    const int64_t left = f->tree.end[2 * i], right = f->tree.end[2 * i + 1];
    f->tree.end[i] = left > right ? left : right;
  }
  return true;
}

/* The last leaf before `before` with an end of at least `end`; SIZE_MAX. */
static size_t last_reaching(const struct tree *t, size_t before, int64_t end) {
  size_t node = t->leaves + before; /* everything looked at lies to the left of this node */
  if (before >= t->leaves) {
    if (t->end[1] < end) return SIZE_MAX;
    node = 1;
  } else {
    for (;; node /= 2) { /* up, until a left neighbour reaches far enough */
      if (node <= 1) return SIZE_MAX;
      if (node % 2 && t->end[node - 1] >= end) break;
    }
    node--;
  }
  while (node < t->leaves) node = t->end[2 * node + 1] >= end ? 2 * node + 1 : 2 * node;
  return node - t->leaves;
}

static uint32_t op_around(const struct finder *f, uint32_t launch) {
  const int64_t ts = f->rank->rows[launch].ts_us, end = end_ns(f, launch);
  size_t low = 0;
  TG__PARTITION(low, f->count, i, f->rank->rows[f->ops[i]].ts_us <= ts);
  const size_t at = last_reaching(&f->tree, low, end);
  return at == SIZE_MAX ? TG_NONE : f->ops[at];
}

static void find_kernels(struct finder *f) {
  for (uint32_t i = 0; i < f->rank->count; i++) {
    const struct tg__hta_row *row = &f->rank->rows[i];
    if (!tg__hta_is_device(row) || row->link == TG_NONE) continue;
    f->kernel[row->link] = i;
    if (f->kernels[row->link] < 2) f->kernels[row->link]++;
  }
}

/* One call is one of the thread, the name and the start, whatever the rank. */
static uint64_t call_key(const struct finder *f, uint32_t op) {
  const struct tg__hta_row *row = &f->rank->rows[op];
  const struct tg__track *track = &f->h->t->tracks[tg__slice_track(f->h->t, row->slice)];
  const int64_t key[] = {track->tid, track->tid_is_text, f->h->t->slices.name[row->slice], row->ts_us};
  return tg__hash(key, sizeof key);
}

static bool add_launch(struct finder *f, uint32_t launch, struct tg__op_calls *c) {
  const uint32_t op = op_around(f, launch), kernel = f->kernel[launch];
  if (op == TG_NONE) return true;
  if (f->kernels[launch] != 1) return c->unlinked++, true;
  uint32_t number;
  struct tg__op_call *call = tg__op_calls_at(c, call_key(f, op), &number);
  if (!call) return false;
  const struct tg__hta_row *rows = f->rank->rows;
  if (call->op == TG_NONE)
    *call = (struct tg__op_call){rows[op].slice, rows[op].ts_us * 1000, tg__hta_dur_ns(f->h, f->rank, &rows[op])};
  const struct tg__launched item = {.owner = number,
                                    .name = f->h->t->slices.name[rows[kernel].slice],
                                    .tie = (uint32_t)c->work.count,
                                    .launch_ns = rows[launch].ts_us * 1000,
                                    .start_ns = rows[kernel].ts_us * 1000,
                                    .dur_ns = tg__hta_dur_ns(f->h, f->rank, &rows[kernel])};
  return tg__launched_add(&c->work, &item);
}

/* Adds the launches of one rank; what is there already stays. */
static bool collect(const struct tg__hta *h, uint32_t rank, struct tg__op_calls *c) {
  struct finder f = {.h = h, .rank = &h->ranks[rank]};
  const size_t rows = f.rank->count + 1;
  f.kinds = tg__alloc((size_t)tg__strings_count(h->t->strings) + 1);
  f.ops = tg__alloc(rows * sizeof *f.ops);
  f.kernel = tg__alloc(rows * sizeof *f.kernel);
  f.kernels = tg__alloc(rows);
  bool ok = f.kinds && f.ops && f.kernel && f.kernels && index_ops(&f);
  if (ok) find_kernels(&f);
  for (uint32_t i = 0; ok && i < f.rank->count; i++)
    if (op_kernels_hta_kind_of(&f, i) & NAME_LAUNCH) ok = add_launch(&f, i, c);
  tg__free(f.kinds);
  tg__free(f.ops);
  tg__free(f.kernel);
  tg__free(f.kernels);
  tg__free(f.tree.end);
  return ok;
}

/* What it found in one rank it shows again with the next. */
static bool add_ranks(struct tg__op_kernels *w) {
  struct tg__op_calls c = {0};
  struct tg__hta h;
  bool ok = tg__hta_open(&h, w->t, w->a->rank, tg__hta_filter_of(w->a)) == TG_OK;
  for (uint32_t r = 0; ok && r < w->t->rank_count; r++)
    if (tg__ask_has_rank(w->a, r)) ok = collect(&h, r, &c) && tg__op_kernels_group(w, &c, r);
  w->unlinked = c.unlinked;
  tg__op_calls_free(&c);
  tg__hta_close(&h);
  return ok;
}

const struct tg__op_kernels_rules tg__op_kernels_hta = {add_ranks, "launches with no kernel, or several"};
