/* The question checkpoint: what it would save to keep only the input of each layer and to compute the rest again in
 * the backward pass (torch.utils.checkpoint), and what that costs.
 *
 * A layer's run is one forward and the backward pass behind it. Blocks that its forward made and its own backward frees
 * would not be alive between the two, except for its output: the blocks that are alive when the next layer begins and
 * freed before the layer's backward; where there is nothing of the kind, its own last activation. A block that was
 * freed after the layer began and before the next did is taken for its input, and would stay until its backward has
 * ended. Before that begins, the forward is repeated: its own peak comes on top. */
#include "analyze/memory/memory_blocks.h"

struct run {               /* of a layer, for one backward pass */
  uint32_t layer, process; /* text */
  size_t pass;
  int64_t forward_ns[2], backward_ns[2],
      next_ns;                              /* start and end; next_ns: where the layer behind it begins, or the pass */
  int64_t compute_ns;                       /* of its outermost operators */
  int64_t blocks, activations, freed, kept; /* freed: bytes that would be given back; kept: that would not be */
  int64_t now, forward_peak;                /* of what its forward made */
  uint32_t output;                          /* block; TG_NONE: others than its own backward free it */
};
struct layer {
  uint32_t text;
  bool numbered; /* its name ends in a number: one of several */
  int64_t runs, blocks, activations, freed, kept, compute_ns;
};
struct event { /* of what would be alive */
  int64_t ts_ns, bytes;
  bool passing; /* only for this moment */
};
struct work {
  struct tg__blocks *b;
  struct tg__places places;
  uint32_t device;
  struct run *runs; /* by process, then forward start */
  size_t run_count, run_cap;
  struct tg__strings *keys; /* of runs */
  uint32_t *run_of;         /* by block: the run (of a layer) that made it in its forward pass */
  struct event *events;
  size_t event_count, event_cap;
  struct layer *layers;
  size_t layer_count, layer_cap;
  struct tg__map index; /* text → layer */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- runs ------------------------------------------------------------------------------------ */

static uint32_t layer_of(struct work *w, uint32_t module_slice) {
  const uint32_t path = tg__block_module(w->b, &w->places, module_slice);
  if (path == TG_NONE) return TG_NONE;
  const struct tg__str text = tg__layer_of(tg__strings_get(w->b->texts, path));
  return tg__strings_add(w->b->texts, text.ptr, text.len);
}

static struct run *run_of(struct work *w, uint32_t layer, uint32_t process, size_t pass) {
  const uint64_t key[] = {layer, process, pass};
  const uint32_t at = tg__strings_add(w->keys, (const char *)key, sizeof key);
  if (at == TG_NONE || at < w->run_count) return at == TG_NONE ? NULL : &w->runs[at];
  if (!tg__grow((void **)&w->runs, &w->run_cap, w->run_count + 1, sizeof *w->runs)) return NULL;
  w->runs[w->run_count] = (struct run){.layer = layer,
                                       .process = process,
                                       .pass = pass,
                                       .forward_ns = {INT64_MAX, INT64_MIN},
                                       .backward_ns = {INT64_MAX, INT64_MIN},
                                       .next_ns = w->places.passes[process].items[pass].start_ns};
  return &w->runs[w->run_count++];
}

static bool see_slice(struct work *w, uint32_t track, uint32_t i) {
  const struct tg__places *const p = &w->places;
  const struct tg__place *const at = &p->around[i];
  const int64_t start = w->b->t->slices.start_ns[i], end = tg__slice_end(w->b->t, i);
  const bool forward = at->top == i && at->backward == TG_NONE && at->module != TG_NONE, node = at->link == i;
  const struct tg__pass *const pass = forward ? tg__pass_after(p, track, start)
                                      : node  ? tg__pass_during(p, track, start)
                                              : NULL;
  const uint32_t module = forward ? at->module : node ? p->around[w->b->t->slices.cause[i]].module : TG_NONE;
  if (!pass || module == TG_NONE) return true;
  const uint32_t layer = layer_of(w, module), process = p->process_of[track];
  struct run *const r = layer == TG_NONE ? NULL : run_of(w, layer, process, (size_t)(pass - p->passes[process].items));
  if (!r) return false;
  int64_t *const span = forward ? r->forward_ns : r->backward_ns;
  span[0] = smaller(span[0], start);
  span[1] = greater(span[1], end);
  if (forward) r->compute_ns += end - start;
  return true;
}

static bool has_both(const struct run *r) { return r->forward_ns[0] != INT64_MAX && r->backward_ns[0] != INT64_MAX; }

static bool begins_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct run *const x = &((const struct run *)ctx)[a], *const y = &((const struct run *)ctx)[b];
  if (x->process != y->process) return x->process < y->process;
  return x->forward_ns[0] != y->forward_ns[0] ? x->forward_ns[0] < y->forward_ns[0] : a < b;
}

/* Only complete runs, in order, each with the begin of the next. */
static bool sort_runs(struct work *w) {
  uint32_t *const order = tg__alloc((w->run_count + 1) * sizeof *order);
  struct run *const sorted = tg__alloc((w->run_count + 1) * sizeof *sorted);
  size_t count = 0;
  for (uint32_t i = 0; order && i < w->run_count; i++)
    if (has_both(&w->runs[i])) order[count++] = i;
  const bool ok = order && sorted && tg__sort_index(order, count, begins_before, w->runs);
  for (size_t i = 0; ok && i < count; i++) sorted[i] = w->runs[order[i]];
  for (size_t i = 0; ok && i + 1 < count; i++)
    if (sorted[i].process == sorted[i + 1].process)
      sorted[i].next_ns = smaller(sorted[i].next_ns, sorted[i + 1].forward_ns[0]);
  if (ok) {
    tg__free(w->runs);
    w->runs = sorted;
    w->run_count = count;
  } else {
    tg__free(sorted);
  }
  tg__free(order);
  return ok;
}

static bool find_runs(struct work *w) {
  const struct tg__columns *const t = w->b->t;
  w->keys = tg__strings_new();
  bool ok = w->keys != NULL;
  for (uint32_t k = 0; ok && k < t->track_count; k++)
    for (uint32_t i = t->tracks[k].first; ok && i < t->tracks[k].first + t->tracks[k].count; i++)
      ok = see_slice(w, k, i);
  return ok && sort_runs(w);
}

/* The last run of the process that begins before ns; NULL. */
static struct run *run_before(const struct work *w, uint32_t process, int64_t ns) {
  size_t low = 0;
  TG__PARTITION(low, w->run_count, i,
                w->runs[i].process < process || (w->runs[i].process == process && w->runs[i].forward_ns[0] < ns));
  return low && w->runs[low - 1].process == process ? &w->runs[low - 1] : NULL;
}

/* ---- what would be alive --------------------------------------------------------------------- */

static bool add_event(struct work *w, int64_t ts_ns, int64_t bytes, bool passing) {
  if (!tg__grow((void **)&w->events, &w->event_cap, w->event_count + 1, sizeof *w->events)) return false;
  w->events[w->event_count++] = (struct event){ts_ns, bytes, passing};
  return true;
}

/* The run of a layer that made the block in its forward pass; NULL. */
static struct run *maker_of(const struct work *w, const struct tg__block *x) {
  if (x->made_ns == TG_NULL_INT || x->made.backward != TG_NONE) return NULL;
  struct run *const r =
      run_before(w, w->places.process_of[x->track], x->made_ns == INT64_MAX ? x->made_ns : x->made_ns + 1);
  return r && x->made_ns <= r->forward_ns[1] ? r : NULL;
}

/* The run that the block seems to be the input of: freed between its beginning and that of the next. */
static struct run *user_of(const struct work *w, const struct tg__block *x) {
  const bool fits = x->held == TG__HELD_TEMPORARY || x->held == TG__HELD_ACTIVATION || x->held == TG__HELD_INPUT;
  struct run *const r =
      fits && x->freed_ns != TG_NULL_INT ? run_before(w, w->places.process_of[x->track], x->freed_ns) : NULL;
  return r && x->freed_ns <= r->next_ns && (x->made_ns == TG_NULL_INT || x->made_ns < r->forward_ns[0]) ? r : NULL;
}

/* layers.3, Net_0.Block_3; not Net_0, which is the whole. */
static bool is_numbered(const struct work *w, const struct run *r) {
  const struct tg__str s = tg__strings_get(w->b->texts, r->layer);
  const bool whole = !memchr(s.ptr, '.', s.len) && memchr(s.ptr, '_', s.len);
  return s.len && s.ptr[s.len - 1] >= '0' && s.ptr[s.len - 1] <= '9' && !whole;
}

static bool is_own(const struct run *r, const struct tg__block *x) {
  return x->held == TG__HELD_ACTIVATION && (x->freed_ns == TG_NULL_INT || x->freed_ns >= r->backward_ns[0]);
}

/* Blocks come in the order in which they were made. */
static void find_makers(struct work *w) {
  bool *const leaves = tg__alloc(w->run_count + 1); /* by run: something of it outlives the forward pass */
  for (size_t i = 0; i < w->run_count; i++) w->runs[i].output = TG_NONE;
  for (uint32_t i = 0; i < w->b->count; i++) {
    const struct tg__block *const x = &w->b->items[i];
    struct run *const maker = x->device == w->device ? maker_of(w, x) : NULL;
    w->run_of[i] = maker ? (uint32_t)(maker - w->runs) : TG_NONE;
    if (!maker) continue;
    if (is_own(maker, x))
      maker->output = i;
    else if (leaves && x->freed_ns > maker->next_ns)
      leaves[maker - w->runs] = true;
  }
  for (size_t i = 0; leaves && i < w->run_count; i++)
    if (leaves[i]) w->runs[i].output = TG_NONE;
  tg__free(leaves);
}

static bool add_checkpoint_block(struct work *w, uint32_t block) {
  const struct tg__block *const x = &w->b->items[block];
  struct run *const maker = w->run_of[block] == TG_NONE ? NULL : &w->runs[w->run_of[block]], *const user =
                                                                                                 user_of(w, x);
  int64_t freed_ns = x->freed_ns;
  bool ok = true;
  if (maker && x->held == TG__HELD_ACTIVATION) {
    maker->blocks++;
    maker->activations = tg__sum_bytes(maker->activations, x->bytes);
    if (is_own(maker, x) && block != maker->output && is_numbered(w, maker)) {
      maker->freed = tg__sum_bytes(maker->freed, x->bytes);
      ok = add_event(w, maker->forward_ns[1], -x->bytes, false) && add_event(w, maker->backward_ns[0], x->bytes, false);
    }
  }
  if (user && is_numbered(w, user)) {
    user->kept = tg__sum_bytes(user->kept, x->bytes);
    freed_ns = user->backward_ns[1];
  }
  if (ok && x->made_ns != TG_NULL_INT) ok = add_event(w, x->made_ns, x->bytes, false);
  if (ok && freed_ns != TG_NULL_INT) ok = add_event(w, freed_ns, -x->bytes, false);
  return ok;
}

/* What the forward of each run had alive at most, of its own. */
static bool add_forward_peaks(struct work *w) {
  for (size_t i = 0; i < w->b->change_count; i++) {
    const struct tg__block_change *const c = &w->b->changes[i];
    if (w->run_of[c->block] == TG_NONE) continue;
    struct run *const r = &w->runs[w->run_of[c->block]];
    if (c->ts_ns > r->forward_ns[1]) continue;
    r->now = tg__sum_bytes(r->now, c->made ? w->b->items[c->block].bytes : -w->b->items[c->block].bytes);
    r->forward_peak = greater(r->forward_peak, r->now);
  }
  bool ok = true;
  for (size_t i = 0; ok && i < w->run_count; i++)
    if (is_numbered(w, &w->runs[i])) ok = add_event(w, w->runs[i].backward_ns[0], w->runs[i].forward_peak, true);
  return ok;
}

/* At one time: what goes, what passes, what comes. */
static bool event_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct event *const x = &((const struct event *)ctx)[a], *const y = &((const struct event *)ctx)[b];
  if (x->ts_ns != y->ts_ns) return x->ts_ns < y->ts_ns;
  const int first = x->passing ? 1 : x->bytes < 0 ? 0 : 2, second = y->passing ? 1 : y->bytes < 0 ? 0 : 2;
  return first != second ? first < second : a < b;
}

static bool peak_of_events(const struct work *w, int64_t *peak) {
  uint32_t *const order = tg__order_new(w->event_count, event_before, w->events);
  int64_t now = w->b->devices[w->device].before;
  *peak = now;
  const bool ok = order != NULL;
  for (size_t i = 0; order && i < w->event_count; i++) {
    const struct event *const e = &w->events[order[i]];
    const int64_t then = tg__sum_bytes(now, e->bytes);
    *peak = greater(*peak, then);
    if (!e->passing) now = then;
  }
  tg__free(order);
  return ok;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool sum_up_checkpoint(struct work *w) {
  for (size_t i = 0; i < w->run_count; i++) {
    const struct run *const r = &w->runs[i];
    uint32_t *const at = tg__map_slot(&w->index, r->layer, TG_NONE);
    if (!at) return false;
    if (*at == TG_NONE) {
      if (!tg__grow((void **)&w->layers, &w->layer_cap, w->layer_count + 1, sizeof *w->layers)) return false;
      w->layers[w->layer_count] = (struct layer){.text = r->layer, .numbered = is_numbered(w, r)};
      *at = (uint32_t)w->layer_count++;
    }
    struct layer *const l = &w->layers[*at];
    l->runs++;
    l->blocks += r->blocks;
    l->activations = tg__sum_bytes(l->activations, r->activations);
    l->freed = tg__sum_bytes(l->freed, r->freed);
    l->kept = tg__sum_bytes(l->kept, r->kept);
    l->compute_ns = tg__sum_bytes(l->compute_ns, r->compute_ns);
  }
  return true;
}

static void put_checkpoint_row(const struct work *w, struct tg__str name, const int64_t cells[8],
                               struct tg_table *out) {
  tg__put_block_device(out, w->b, w->device);
  tg__put_text(out, name);
  for (int i = 0; i < 8; i++) tg__put_int(out, cells[i]);
}

/* A run's share of a layer's sums. */
static void put_layers(const struct work *w, int64_t peak_after, struct tg_table *out) {
  int64_t all[5] = {0};
  for (size_t i = 0; i < w->layer_count; i++) {
    const struct layer *const l = &w->layers[i];
    if (!l->activations) continue;
    const int64_t n = l->runs, saving = l->numbered ? (l->freed - l->kept) / n : 0;
    const int64_t cells[] = {
        l->blocks / n, l->activations / n, l->numbered ? l->freed / n : 0, l->kept / n, saving, l->compute_ns / n,
        TG_NULL_INT,   TG_NULL_INT};
    put_checkpoint_row(w, tg__strings_get(w->b->texts, l->text), cells, out);
    if (!l->numbered) continue;
    for (int k = 0; k < 4; k++) all[k] = tg__sum_bytes(all[k], cells[k]);
    all[4] = tg__sum_bytes(all[4], cells[5]);
  }
  const int64_t peak = w->b->devices[w->device].peak;
  const int64_t cells[] = {all[0], all[1], all[2], all[3], peak - peak_after, all[4], peak, peak_after};
  put_checkpoint_row(w, (struct tg__str){"(all)", 5}, cells, out);
}

static bool estimate(struct work *w, uint32_t device, struct tg_table *out) {
  int64_t peak_after = 0;
  w->device = device;
  w->event_count = w->layer_count = 0;
  tg__map_free(&w->index);
  w->index = (struct tg__map){0};
  for (size_t i = 0; i < w->run_count; i++) {
    struct run *const r = &w->runs[i];
    r->blocks = r->activations = r->freed = r->kept = r->now = r->forward_peak = 0;
  }
  bool ok = true;
  find_makers(w);
  for (uint32_t i = 0; ok && i < w->b->count; i++)
    if (w->b->items[i].device == device) ok = add_checkpoint_block(w, i);
  ok = ok && add_forward_peaks(w) && peak_of_events(w, &peak_after) && sum_up_checkpoint(w);
  if (ok && w->layer_count) put_layers(w, peak_after, out);
  return ok;
}

enum tg_err tg__answer_checkpoint(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  struct work w = {0};
  enum tg_err err = tg__blocks_read(t, a, &w.b, e);
  if (!err) {
    w.run_of = tg__alloc((w.b->count + 1) * sizeof *w.run_of);
    bool ok = w.run_of && tg__places_open(&w.places, t) && find_runs(&w);
    for (uint32_t d = 0; ok && d < w.b->device_count; d++) ok = !w.b->devices[d].wanted || estimate(&w, d, out);
    if (!ok)
      err = tg__no_memory(e, "estimating checkpoints");
    else if (!w.run_count)
      err = tg__fail(e, TG_NO_DATA, -1,
                     "no module runs forward and then backward in the trace: record a whole training step with "
                     "profile_memory=True and "
                     "with_modules=True");
  }
  tg__free(w.runs);
  tg__free(w.run_of);
  tg__free(w.events);
  tg__free(w.layers);
  tg__map_free(&w.index);
  tg__places_close(&w.places);
  if (w.keys) tg__strings_free(w.keys);
  return err;
}
