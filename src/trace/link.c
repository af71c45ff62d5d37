/* link: what made a slice happen (slices.cause), within one rank.
 *
 *   device work  → host call      equal correlation; the first call of the file when several have it
 *   host call    → operator       equal external id, unless the id is just the correlation again (traces of 2022–2024);
 *                                 else the innermost operator that is on when the call starts, on the same thread
 *   backward op  → forward op     fwdbwd flow; in ranks without one, equal sequence number
 *   sync record  → host call      the one that recorded the event waited for; else its own call, by correlation */
#include "trace/import.h"

#include <stdlib.h>

/* Integer key → slice. Ids of one file lie in a few dense stretches, so: an array, of which only the pages in use
 * exist. A hash map when the stretches are too far apart. */
struct index {
  int64_t least;
  uint32_t *slots; /* slice + 1; 0 = none */
  uint64_t size;
  struct tg__map map;
};

static bool index_init(struct index *x, int64_t least, int64_t most, uint64_t count) {
  *x = (struct index){.least = least};
  const uint64_t range = (uint64_t)most - (uint64_t)least + 1;
  if (least > most || range > count * 256 + 1024) return true;
  x->size = range;
  x->slots = tg__pages_sparse(range * sizeof *x->slots);
  return x->slots != NULL;
}
static uint32_t index_get(const struct index *x, int64_t key) {
  if (!x->slots) return tg__map_get(&x->map, (uint64_t)key);
  const uint64_t at = (uint64_t)key - (uint64_t)x->least;
  return at < x->size ? x->slots[at] - 1 : TG_NONE; /* 0 - 1 is TG_NONE */
}
static bool index_put(struct index *x, int64_t key, uint32_t slice) {
  if (!x->slots) return tg__map_put(&x->map, (uint64_t)key, slice);
  x->slots[(uint64_t)key - (uint64_t)x->least] = slice + 1;
  return true;
}
static void index_free(struct index *x) {
  if (x->slots) tg__pages_drop_sparse(x->slots, x->size * sizeof *x->slots);
  tg__map_free(&x->map);
}

struct range {
  int64_t least, most;
  uint64_t count;
};
struct track_ids {
  struct range correlations, externals; /* of host calls; of operators */
  uint32_t calls;
};
struct linker {
  struct tg__columns *t;
  const struct tg__rank *rank;
  const struct tg__import *im;
  int16_t *correlation_at, *external_at, *sequence_at, *forward_at; /* per schema: which field, -1 = none */
  struct index calls, ops;
  struct track_ids *ids; /* per track of the rank */
  uint32_t *home;        /* the same: where its flows begin and end, NULL = on itself */
  unsigned threads;
  bool ok;
};
struct open_nodes { /* operators and steps that are on, outermost first */
  uint32_t *slices;
  size_t count, cap;
};

/* ---- ids ------------------------------------------------------------------------------------- */

static int16_t field_of(const struct tg__schema *s, uint32_t key) {
  for (uint16_t i = 0; i < s->count && i < INT16_MAX; i++)
    if (s->fields[i].key == key && !s->fields[i].top) return (int16_t)i;
  return -1;
}

static bool find_fields(struct linker *l) {
  const uint32_t n = l->t->schema_count;
  l->correlation_at = tg__alloc((n + 1) * sizeof(int16_t));
  l->external_at = tg__alloc((n + 1) * sizeof(int16_t));
  l->sequence_at = tg__alloc((n + 1) * sizeof(int16_t));
  l->forward_at = tg__alloc((n + 1) * sizeof(int16_t));
  if (!l->correlation_at || !l->external_at || !l->sequence_at || !l->forward_at) return false;
  for (uint32_t i = 0; i < n; i++) {
    l->correlation_at[i] = field_of(&l->t->schemas[i], TG__K_CORRELATION);
    l->external_at[i] = field_of(&l->t->schemas[i], TG__K_EXTERNAL_ID_OLD);
    if (l->external_at[i] < 0) l->external_at[i] = field_of(&l->t->schemas[i], TG__K_EXTERNAL_ID);
    l->sequence_at[i] = field_of(&l->t->schemas[i], TG__K_SEQUENCE_NUMBER);
    l->forward_at[i] = field_of(&l->t->schemas[i], TG__K_FWD_THREAD_ID);
  }
  return true;
}

/* The value of one field as an integer, -1 when there is none: ids are not negative. */
static int64_t id_at(const struct linker *l, uint32_t args, const int16_t *field_of_schema) {
  struct tg__args_iter it;
  tg__args_begin(l->t, args, &it);
  if (!it.schema) return -1;
  const int16_t at = field_of_schema[it.schema - l->t->schemas];
  if (at < 0) return -1;
  const struct tg__field *f = &it.schema->fields[at];
  if (f->kind != TG__KIND_INT) return tg__arg_int(l->t, args, f->key, -1);
  tg__args_skip(&it, (uint16_t)at);
  tg__args_next(&it);
  return it.val.i;
}
static int64_t correlation_of(const struct linker *l, uint32_t slice) {
  return id_at(l, l->t->slices.args[slice], l->correlation_at);
}
static int64_t external_of(const struct linker *l, uint32_t slice) {
  return id_at(l, l->t->slices.args[slice], l->external_at);
}

/* Until its cause is known, the place for it holds the id that leads there. */
static const uint32_t WIDE_ID = TG_NONE - 1; /* does not fit: look it up again */
static void note_id(struct linker *l, uint32_t slice, int64_t id) {
  l->t->slices.cause[slice] = id < 0 ? TG_NONE : id >= WIDE_ID ? WIDE_ID : (uint32_t)id;
}
static int64_t noted_correlation(const struct linker *l, uint32_t slice) {
  const uint32_t id = l->t->slices.cause[slice];
  return id == TG_NONE ? -1 : id == WIDE_ID ? correlation_of(l, slice) : (int64_t)id;
}
static int64_t noted_external(const struct linker *l, uint32_t slice) {
  const uint32_t id = l->t->slices.cause[slice];
  return id == TG_NONE ? -1 : id == WIDE_ID ? external_of(l, slice) : (int64_t)id;
}

/* ---- indexes --------------------------------------------------------------------------------- */

static void widen(struct range *r, int64_t id) {
  if (id < 0) return;
  if (r->count++ == 0) r->least = r->most = id;
  if (id < r->least) r->least = id;
  if (id > r->most) r->most = id;
}

static void merge_range(struct range *into, const struct range *r) {
  if (r->count == 0) return;
  if (into->count == 0 || r->least < into->least) into->least = r->least;
  if (into->count == 0 || r->most > into->most) into->most = r->most;
  into->count += r->count;
}

static bool is_device_side(enum tg__class cls) {
  return tg__class_is_device_work(cls) || cls == TG__CLASS_SYNC || cls == TG__CLASS_DEVICE_MARK;
}

typedef void each_fn(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx);
static void each_of_track(struct linker *l, const struct tg__track *track, each_fn *fn, void *ctx) {
  TG__EACH (i, tg__slices_of(track)) fn(l, i, tg__slice_class(l->t, i), ctx);
}
static void each_slice(struct linker *l, each_fn *fn, void *ctx) {
  for (uint32_t k = 0; k < l->rank->track_count; k++)
    each_of_track(l, &l->t->tracks[l->rank->first_track + k], fn, ctx);
}

static void take_id(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  struct track_ids *ids = ctx;
  if (cls == TG__CLASS_RUNTIME || is_device_side(cls)) {
    const int64_t id = correlation_of(l, slice);
    note_id(l, slice, id);
    if (cls != TG__CLASS_RUNTIME) return;
    ids->calls++;
    widen(&ids->correlations, id);
  } else if (cls == TG__CLASS_OP) {
    const int64_t id = external_of(l, slice);
    note_id(l, slice, id);
    widen(&ids->externals, id);
  }
}

static void take_ids(void *ctx, uint32_t track) {
  struct linker *l = ctx;
  each_of_track(l, &l->t->tracks[track], take_id, &l->ids[track - l->rank->first_track]);
}

static void link_slice(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  (void)ctx;
  const bool call = cls == TG__CLASS_RUNTIME;
  if (!call && cls != TG__CLASS_OP) return;
  const int64_t id = call ? noted_correlation(l, slice) : noted_external(l, slice);
  if (!call) l->t->slices.cause[slice] = TG_NONE; /* an operator's own id leads nowhere */
  if (id < 0 || (!call && id == 0)) return;
  struct index *x = call ? &l->calls : &l->ops;
  const uint32_t known = index_get(x, id);
  if (known == TG_NONE || (call && l->t->slices.args[slice] < l->t->slices.args[known]))
    l->ok &= index_put(x, id, slice);
}

static void make_indexes(struct linker *l) {
  struct range correlations = {0, -1, 0}, externals = {0, -1, 0};
  if (tg__parallel_tracks(l->t, l->rank, l->threads, take_ids, l) != TG_OK) {
    l->ok = false;
    return;
  }
  for (uint32_t k = 0; k < l->rank->track_count; k++) {
    merge_range(&correlations, &l->ids[k].correlations);
    merge_range(&externals, &l->ids[k].externals);
  }
  l->ok = index_init(&l->calls, correlations.least, correlations.most, correlations.count) &&
          index_init(&l->ops, externals.least, externals.most, externals.count);
  if (l->ok) each_slice(l, link_slice, NULL);
}

/* ---- causes ---------------------------------------------------------------------------------- */

static void link_device(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  (void)ctx;
  if (!is_device_side(cls)) return;
  int64_t id = -1;
  if (cls == TG__CLASS_SYNC) id = tg__arg_int(l->t, l->t->slices.args[slice], TG__K_WAIT_ON_RECORD, -1);
  if (id >= 0 && index_get(&l->calls, id) == TG_NONE) id = -1;
  if (id < 0) id = noted_correlation(l, slice);
  l->t->slices.cause[slice] = id >= 0 ? index_get(&l->calls, id) : TG_NONE;
}

/* What an operator tree is made of (tb-plugin rules): operators, steps, optimizer and loader annotations, module
 * calls. */
static bool is_tree_node(const struct tg__columns *t, uint32_t slice, enum tg__class cls) {
  if (cls == TG__CLASS_OP) return true;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (cls == TG__CLASS_ANNOTATION)
    return tg__str_has_prefix(name, "ProfilerStep#") || tg__str_has_prefix(name, "Optimizer.step") ||
           tg__str_has_prefix(name, "enumerate(Data");
  struct tg__val v;
  return cls == TG__CLASS_PYTHON && tg__arg(t, t->slices.args[slice], TG__K_PYTHON_MODULE_ID, false, &v);
}

/* Operators that only wrap others and own no work: marks of the profiler and the loader. */
static bool is_owner(const struct tg__columns *t, uint32_t slice) {
  if (tg__slice_class(t, slice) != TG__CLASS_OP) return false;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (tg__str_has_prefix(name, "ProfilerStep#") || tg__str_has_prefix(name, "Optimizer.step") ||
      tg__str_has_prefix(name, "enumerate(DataPipe)#"))
    return false;
  return !(tg__str_has_prefix(name, "enumerate(DataLoader)#") && tg__str_has_suffix(name, ".__next__"));
}

static bool is_on_at(const struct tg__columns *t, uint32_t node, int64_t ns) {
  return ns < tg__slice_end(t, node) || (t->slices.dur_ns[node] == 0 && ns == t->slices.start_ns[node]);
}

/* What the newcomer overlaps only in part stays: it may be on when a call starts behind it. */
static bool open_node(const struct tg__columns *t, struct open_nodes *open, uint32_t slice) {
  while (open->count && !is_on_at(t, open->slices[open->count - 1], t->slices.start_ns[slice])) open->count--;
  if (!tg__grow((void **)&open->slices, &open->cap, open->count + 1, sizeof *open->slices)) return false;
  open->slices[open->count++] = slice;
  return true;
}

/* The operator that began last of those that are on. Operators that have ended are removed, so that each is passed over
 * once. */
static uint32_t owner_around(const struct tg__columns *t, struct open_nodes *open, uint32_t call) {
  const int64_t at = t->slices.start_ns[call];
  size_t i = open->count, kept = open->count;
  uint32_t owner = TG_NONE;
  for (; i > 0 && owner == TG_NONE; i--) {
    const uint32_t node = open->slices[i - 1];
    if (!is_on_at(t, node, at)) continue;
    open->slices[--kept] = node;
    if (is_owner(t, node)) owner = node;
  }
  if (kept > i) memmove(&open->slices[i], &open->slices[kept], (open->count - kept) * sizeof *open->slices);
  open->count -= kept - i;
  return owner;
}

static void link_call(const struct linker *l, struct open_nodes *open, uint32_t call) {
  struct tg__slices *s = &l->t->slices;
  const int64_t id = external_of(l, call);
  if (id >= 0 && id != noted_correlation(l, call)) {
    const uint32_t op = index_get(&l->ops, id);
    if (op != TG_NONE) {
      s->cause[call] = op;
      s->flags[call] |= TG__F_CAUSE_BY_ID;
      return;
    }
  }
  s->cause[call] = owner_around(l->t, open, call);
}

/* Slices that start together: nodes open first, whatever their length, then the calls look around. */
static bool link_calls(const struct linker *l, const struct tg__track *track) {
  const struct tg__columns *t = l->t;
  const uint32_t end = track->first + track->count;
  struct open_nodes open = {0};
  bool ok = true;
  for (uint32_t i = track->first, next; i < end && ok; i = next) {
    bool calls = false;
    for (next = i; next < end && t->slices.start_ns[next] == t->slices.start_ns[i]; next++) {
      const enum tg__class cls = tg__slice_class(t, next);
      if (cls == TG__CLASS_RUNTIME)
        calls = true;
      else if ((cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_PYTHON) &&
               is_tree_node(t, next, cls))
        ok &= open_node(t, &open, next);
    }
    for (uint32_t k = i; calls && k < next; k++)
      if (tg__slice_class(t, k) == TG__CLASS_RUNTIME) link_call(l, &open, k);
  }
  tg__free(open.slices);
  return ok;
}

static void link_track(void *ctx, uint32_t number) {
  struct linker *l = ctx;
  const struct tg__track *track = &l->t->tracks[number];
  each_of_track(l, track, link_device, NULL);
  if (l->ids[number - l->rank->first_track].calls && !link_calls(l, track))
    __atomic_store_n(&l->ok, false, __ATOMIC_RELAXED);
}

/* ---- forward and backward -------------------------------------------------------------------- */

static uint32_t op_starting_at(const struct tg__columns *t, uint32_t track, int64_t ns) {
  const struct tg__track *k = &t->tracks[track];
  uint32_t from = tg__first_slice_from(t, tg__slices_of(k), ns);
  for (; from < k->first + k->count && t->slices.start_ns[from] == ns; from++)
    if (tg__slice_class(t, from) == TG__CLASS_OP) return from;
  return TG_NONE;
}

static bool is_fwdbwd(const struct tg__columns *t, uint32_t mark) {
  const uint32_t cat = t->cats[t->marks.cat[mark]].name, name = t->marks.name[mark];
  return cat == TG__K_FWDBWD || cat == TG__K_FORWARD_BACKWARD || name == TG__K_FWDBWD;
}

/* The operator an end of a flow points to. */
static uint32_t op_of_flow(struct linker *l, uint32_t mark) {
  const struct tg__columns *const t = l->t;
  const uint32_t track = t->marks.track[mark];
  if (track == TG_NONE) return TG_NONE;
  if (!t->tracks[track].count && !l->home)
    l->home = tg__tracks_with_same_ids(t, l->rank->first_track, l->rank->track_count);
  if (!t->tracks[track].count && !l->home) l->ok = false;
  return op_starting_at(t, l->home ? l->home[track - l->rank->first_track] : track, t->marks.ts_ns[mark]);
}

/* Returns how many flows of this kind the rank has. */
static size_t link_by_flow(struct linker *l, uint32_t first_mark) {
  const struct tg__columns *t = l->t;
  struct tg__map begun = {0};
  size_t flows = 0;
  for (uint32_t pass = 0; pass < 2 && l->ok; pass++)
    for (uint32_t i = first_mark; i < t->marks.count; i++) {
      const uint8_t ph = t->marks.ph[i];
      struct tg__val id;
      if (ph != (pass ? 'f' : 's') || !is_fwdbwd(t, i) || t->marks.ts_ns[i] == TG_NULL_INT ||
          !tg__arg(t, t->marks.args[i], TG__K_ID, true, &id))
        continue;
      const uint64_t key = id.kind == TG__KIND_INT ? (uint64_t)id.i : (uint64_t)1 << 63 | id.str;
      if (!pass) l->ok &= tg__map_put(&begun, key, i), flows++;
      const uint32_t from = pass ? tg__map_get(&begun, key) : TG_NONE;
      if (from == TG_NONE) continue;
      const uint32_t forward = op_of_flow(l, from), backward = op_of_flow(l, i);
      if (backward != TG_NONE && backward != forward) t->slices.cause[backward] = forward;
    }
  tg__map_free(&begun);
  return flows;
}

/* Sequence numbers count on every thread for itself; which track a forward thread is only recordings say. Of other
 * traces only the number is compared, and all tracks are one. */
static uint32_t track_of_forward(const struct linker *l, uint32_t backward_track, int64_t number) {
  const struct tg__track *const from = &l->t->tracks[backward_track];
  for (size_t i = 0; i < l->im->logical_count; i++) {
    const struct tg__logical_thread *const x = &l->im->logicals[i];
    if (x->pid != from->pid || x->number != number) continue;
    const struct tg__track_key *const key = &l->im->shared.tracks[x->track];
    TG__EACH (k, tg__tracks_of(l->rank)) {
      const struct tg__track *const track = &l->t->tracks[k];
      if (track->pid == key->pid && track->tid == key->tid && !track->pid_is_text && !track->tid_is_text) return k;
    }
  }
  return TG_NONE;
}

static uint64_t sequence_key(const struct linker *l, uint32_t track, int64_t seq) {
  return l->im->logical_count ? (uint64_t)track << 40 ^ (uint64_t)seq : (uint64_t)seq;
}

struct sequences {
  struct tg__map forward; /* key → operator */
  struct tg__map taken;   /* of recordings: forward operator → the autograd node linked to it */
  uint32_t track;         /* being walked */
  int64_t thread;         /* number asked about last, and the track it is */
  uint32_t thread_track;
};

static void note_forward(struct linker *l, uint32_t op, enum tg__class cls, void *ctx) {
  struct sequences *const s = ctx;
  if (cls != TG__CLASS_OP || id_at(l, l->t->slices.args[op], l->forward_at) > 0) return;
  const int64_t seq = id_at(l, l->t->slices.args[op], l->sequence_at);
  if (seq < 0) return;
  uint32_t *slot = tg__map_slot(&s->forward, sequence_key(l, s->track, seq), op);
  if (!slot)
    l->ok = false;
  else if (l->t->slices.start_ns[op] > l->t->slices.start_ns[*slot])
    *slot = op; /* the innermost of several with one number */
}

/* Kineto ties a forward operator to one node, the first to end: the node itself and not the engine's call around it. */
static bool takes_forward(struct linker *l, struct sequences *s, uint32_t forward, uint32_t op) {
  const struct tg__columns *const t = l->t;
  uint32_t *const slot = tg__map_slot(&s->taken, forward, op);
  if (!slot) {
    l->ok = false;
    return false;
  }
  if (*slot == op) return true;
  const int64_t end = tg__slice_end(t, op), other = tg__slice_end(t, *slot);
  if (end > other || (end == other && t->slices.start_ns[op] < t->slices.start_ns[*slot])) return false;
  t->slices.cause[*slot] = TG_NONE;
  *slot = op;
  return true;
}

static void link_backward(struct linker *l, uint32_t op, enum tg__class cls, void *ctx) {
  struct sequences *const s = ctx;
  if (cls != TG__CLASS_OP) return;
  const int64_t thread = id_at(l, l->t->slices.args[op], l->forward_at);
  if (thread <= 0) return;
  const int64_t seq = id_at(l, l->t->slices.args[op], l->sequence_at);
  if (l->im->logical_count && thread != s->thread) {
    s->thread = thread;
    s->thread_track = track_of_forward(l, s->track, thread);
  }
  const uint32_t forward = seq < 0 ? TG_NONE : tg__map_get(&s->forward, sequence_key(l, s->thread_track, seq));
  if (forward == TG_NONE || l->t->slices.start_ns[forward] > l->t->slices.start_ns[op]) return;
  if (!l->im->is_recording || takes_forward(l, s, forward, op)) l->t->slices.cause[op] = forward;
}

static void link_by_sequence(struct linker *l) {
  struct sequences s = {0};
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t k = 0; k < l->rank->track_count; k++) {
      s.track = l->rank->first_track + k;
      s.thread = 0;
      each_of_track(l, &l->t->tracks[s.track], pass ? link_backward : note_forward, &s);
    }
  tg__map_free(&s.forward);
  tg__map_free(&s.taken);
}

static bool has_backward(const struct linker *l) {
  for (uint32_t i = 0; i < l->t->schema_count; i++)
    if (l->forward_at[i] >= 0) return true;
  return false;
}

static bool begin(struct linker *l) {
  l->ids = tg__alloc((l->rank->track_count + 1u) * sizeof *l->ids);
  return l->ids && find_fields(l);
}

enum tg_err tg__link_rank(struct tg__columns *t, uint32_t r, const struct tg__import *im, uint32_t first_mark,
                          unsigned threads) {
  struct linker l = {.t = t, .rank = &t->ranks[r], .im = im, .threads = threads};
  l.ok = begin(&l);
  if (l.ok) make_indexes(&l);
  if (l.ok && tg__parallel_tracks(t, l.rank, threads, link_track, &l) != TG_OK) l.ok = false;
  if (l.ok && link_by_flow(&l, first_mark) == 0 && has_backward(&l)) link_by_sequence(&l);
  index_free(&l.calls);
  index_free(&l.ops);
  tg__free(l.ids);
  tg__free(l.home);
  tg__free(l.correlation_at);
  tg__free(l.external_at);
  tg__free(l.sequence_at);
  tg__free(l.forward_at);
  return l.ok ? TG_OK : TG_MEMORY;
}
