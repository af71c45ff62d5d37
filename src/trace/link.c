/* link: what made a slice happen (slices.cause), within one rank.
 *
 *   device work  → host call      equal correlation; the first call of the file when several have it
 *   host call    → operator       equal external id, unless the id is just the correlation again (traces of 2022–2024);
 *                                 else the innermost operator that is on when the call starts, on the same thread
 *   backward op  → forward op     fwdbwd flow; in ranks without one, equal sequence number
 *   sync record  → host call      the one that recorded the event waited for; else its own call, by correlation */
#include "trace/import.h"

#include <stdlib.h>

/* Integer key → slice. Ids of one file lie in a few dense stretches, so: an array, of which only the pages in use exist. A hash
 * map when the stretches are too far apart. */
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
  if (x->slots) tg__pages_drop(x->slots, x->size * sizeof *x->slots);
  tg__map_free(&x->map);
}

struct linker {
  struct tg_trace *t;
  const struct tg__rank *rank;
  int16_t *correlation_at, *external_at; /* per schema: which field, -1 = none */
  struct index calls, ops;
  uint32_t *open; /* operators and steps that are on */
  size_t open_count, open_cap;
  bool ok;
};

/* ---- ids ------------------------------------------------------------------------------------------------------------------------ */

static int16_t field_of(const struct tg__schema *s, uint32_t key) {
  for (uint16_t i = 0; i < s->count && i < INT16_MAX; i++)
    if (s->fields[i].key == key && !s->fields[i].top) return (int16_t)i;
  return -1;
}

static bool find_fields(struct linker *l) {
  const uint32_t n = l->t->schema_count;
  l->correlation_at = tg__alloc((n + 1) * sizeof(int16_t));
  l->external_at = tg__alloc((n + 1) * sizeof(int16_t));
  if (!l->correlation_at || !l->external_at) return false;
  for (uint32_t i = 0; i < n; i++) {
    l->correlation_at[i] = field_of(&l->t->schemas[i], TG__K_CORRELATION);
    l->external_at[i] = field_of(&l->t->schemas[i], TG__K_EXTERNAL_ID_OLD);
    if (l->external_at[i] < 0) l->external_at[i] = field_of(&l->t->schemas[i], TG__K_EXTERNAL_ID);
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
static int64_t correlation_of(const struct linker *l, uint32_t slice) { return id_at(l, l->t->slices.args[slice], l->correlation_at); }
static int64_t external_of(const struct linker *l, uint32_t slice) { return id_at(l, l->t->slices.args[slice], l->external_at); }

/* ---- indexes ------------------------------------------------------------------------------------------------------------------- */

struct range {
  int64_t least, most;
  uint64_t count;
};
static void widen(struct range *r, int64_t id) {
  if (id < 0) return;
  if (r->count++ == 0) r->least = r->most = id;
  if (id < r->least) r->least = id;
  if (id > r->most) r->most = id;
}

typedef void each_fn(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx);
static void each_slice(struct linker *l, each_fn *fn, void *ctx) {
  for (uint32_t k = l->rank->first_track; k < l->rank->first_track + l->rank->track_count; k++) {
    const struct tg__track *track = &l->t->tracks[k];
    for (uint32_t i = track->first; i < track->first + track->count; i++) fn(l, i, tg__slice_class(l->t, i), ctx);
  }
}

static void measure(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  struct range *r = ctx;
  if (cls == TG__CLASS_RUNTIME) widen(&r[0], correlation_of(l, slice));
  else if (cls == TG__CLASS_OP) widen(&r[1], external_of(l, slice));
}

static void enter(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  (void)ctx;
  const bool call = cls == TG__CLASS_RUNTIME;
  if (!call && cls != TG__CLASS_OP) return;
  const int64_t id = call ? correlation_of(l, slice) : external_of(l, slice);
  if (id < 0 || (!call && id == 0)) return;
  struct index *x = call ? &l->calls : &l->ops;
  const uint32_t known = index_get(x, id);
  if (known == TG_NONE || (call && l->t->slices.args[slice] < l->t->slices.args[known])) l->ok &= index_put(x, id, slice);
}

/* ---- causes -------------------------------------------------------------------------------------------------------------------- */

static void link_device(struct linker *l, uint32_t slice, enum tg__class cls, void *ctx) {
  (void)ctx;
  int64_t id = -1;
  if (cls == TG__CLASS_SYNC) id = tg__arg_int(l->t, l->t->slices.args[slice], TG__K_WAIT_ON_RECORD, -1);
  else if (!tg__class_is_device_work(cls) && cls != TG__CLASS_DEVICE_MARK) return;
  if (id >= 0 && index_get(&l->calls, id) == TG_NONE) id = -1;
  if (id < 0) id = correlation_of(l, slice);
  if (id >= 0) l->t->slices.cause[slice] = index_get(&l->calls, id);
}

/* What an operator tree is made of (tb-plugin rules): operators, steps, optimizer and loader annotations, module calls. */
static bool is_tree_node(const struct tg_trace *t, uint32_t slice, enum tg__class cls) {
  if (cls == TG__CLASS_OP) return true;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (cls == TG__CLASS_ANNOTATION)
    return tg__str_has_prefix(name, "ProfilerStep#") || tg__str_has_prefix(name, "Optimizer.step") || tg__str_has_prefix(name, "enumerate(Data");
  struct tg__val v;
  return cls == TG__CLASS_PYTHON && tg__arg(t, t->slices.args[slice], TG__K_PYTHON_MODULE_ID, false, &v);
}

/* Operators that only wrap others and own no work: marks of the profiler and the loader. */
static bool is_owner(const struct tg_trace *t, uint32_t slice) {
  if (tg__slice_class(t, slice) != TG__CLASS_OP) return false;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  if (tg__str_has_prefix(name, "ProfilerStep#") || tg__str_has_prefix(name, "Optimizer.step") || tg__str_has_prefix(name, "enumerate(DataPipe)#")) return false;
  return !(tg__str_has_prefix(name, "enumerate(DataLoader)#") && tg__str_has_suffix(name, ".__next__"));
}

static void open_node(struct linker *l, uint32_t slice) {
  const struct tg_trace *t = l->t;
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  while (l->open_count) {
    const uint32_t top = l->open[l->open_count - 1];
    const bool twin = t->slices.dur_ns[slice] == 0 && start == t->slices.start_ns[top];
    if (start < tg__slice_end(t, top) || twin) break;
    l->open_count--;
  }
  while (l->open_count && end > tg__slice_end(t, l->open[l->open_count - 1])) l->open_count--;
  if (!tg__grow((void **)&l->open, &l->open_cap, l->open_count + 1, sizeof *l->open)) l->ok = false;
  else l->open[l->open_count++] = slice;
}

static uint32_t owner_around(const struct linker *l, uint32_t call) {
  const int64_t at = l->t->slices.start_ns[call];
  for (size_t i = l->open_count; i > 0; i--) {
    const uint32_t node = l->open[i - 1];
    const int64_t end = tg__slice_end(l->t, node);
    const bool on = at < end || (at == end && l->t->slices.dur_ns[node] == 0);
    if (on && is_owner(l->t, node)) return node;
  }
  return TG_NONE;
}

static void link_call(struct linker *l, uint32_t call) {
  struct tg__slices *s = &l->t->slices;
  const int64_t id = external_of(l, call);
  if (id >= 0 && id != correlation_of(l, call)) {
    s->cause[call] = index_get(&l->ops, id);
    if (s->cause[call] != TG_NONE) {
      s->flags[call] |= TG__F_CAUSE_BY_ID;
      return;
    }
  }
  s->cause[call] = owner_around(l, call);
}

/* Slices that start together: nodes open first, whatever their length, then the calls look around. */
static void link_calls(struct linker *l, const struct tg__track *track) {
  const struct tg_trace *t = l->t;
  const uint32_t end = track->first + track->count;
  l->open_count = 0;
  for (uint32_t i = track->first, next; i < end && l->ok; i = next) {
    bool calls = false;
    for (next = i; next < end && t->slices.start_ns[next] == t->slices.start_ns[i]; next++) {
      const enum tg__class cls = tg__slice_class(t, next);
      if (cls == TG__CLASS_RUNTIME) calls = true;
      else if ((cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_PYTHON) && is_tree_node(t, next, cls)) open_node(l, next);
    }
    for (uint32_t k = i; calls && k < next; k++)
      if (tg__slice_class(t, k) == TG__CLASS_RUNTIME) link_call(l, k);
  }
}

/* ---- forward and backward -------------------------------------------------------------------------------------------------------- */

static uint32_t op_starting_at(const struct tg_trace *t, uint32_t track, int64_t ns) {
  const struct tg__track *k = &t->tracks[track];
  uint32_t from = k->first, to = k->first + k->count;
  while (from < to) {
    const uint32_t mid = from + (to - from) / 2;
    if (t->slices.start_ns[mid] < ns) from = mid + 1;
    else to = mid;
  }
  for (; from < k->first + k->count && t->slices.start_ns[from] == ns; from++)
    if (tg__slice_class(t, from) == TG__CLASS_OP) return from;
  return TG_NONE;
}

static bool is_fwdbwd(const struct tg_trace *t, uint32_t mark) {
  const uint32_t cat = t->cats[t->marks.cat[mark]].name, name = t->marks.name[mark];
  return cat == TG__K_FWDBWD || cat == TG__K_FORWARD_BACKWARD || name == TG__K_FWDBWD;
}

/* Returns how many flows of this kind the rank has. */
static size_t link_by_flow(struct linker *l, uint32_t first_mark) {
  const struct tg_trace *t = l->t;
  struct tg__map begun = {0};
  size_t flows = 0;
  for (uint32_t pass = 0; pass < 2 && l->ok; pass++)
    for (uint32_t i = first_mark; i < t->marks.count; i++) {
      const uint8_t ph = t->marks.ph[i];
      struct tg__val id;
      if (ph != (pass ? 'f' : 's') || !is_fwdbwd(t, i) || t->marks.ts_ns[i] == TG_NULL_INT || !tg__arg(t, t->marks.args[i], TG__K_ID, true, &id)) continue;
      const uint64_t key = id.kind == TG__KIND_INT ? (uint64_t)id.i : (uint64_t)1 << 63 | id.str;
      if (!pass) l->ok &= tg__map_put(&begun, key, i), flows++;
      const uint32_t from = pass ? tg__map_get(&begun, key) : TG_NONE;
      if (from == TG_NONE) continue;
      const uint32_t forward = op_starting_at(t, t->marks.track[from], t->marks.ts_ns[from]);
      const uint32_t backward = op_starting_at(t, t->marks.track[i], t->marks.ts_ns[i]);
      if (backward != TG_NONE && backward != forward) t->slices.cause[backward] = forward;
    }
  tg__map_free(&begun);
  return flows;
}

static bool is_backward(const struct tg_trace *t, uint32_t op) { return tg__arg_int(t, t->slices.args[op], TG__K_FWD_THREAD_ID, 0) > 0; }

static void note_forward(struct linker *l, uint32_t op, enum tg__class cls, void *ctx) {
  if (cls != TG__CLASS_OP || is_backward(l->t, op)) return;
  const int64_t seq = tg__arg_int(l->t, l->t->slices.args[op], TG__K_SEQUENCE_NUMBER, -1);
  if (seq < 0) return;
  uint32_t *slot = tg__map_slot(ctx, (uint64_t)seq, op);
  if (!slot) l->ok = false;
  else if (l->t->slices.start_ns[op] > l->t->slices.start_ns[*slot]) *slot = op; /* the innermost of several with one number */
}

static void link_backward(struct linker *l, uint32_t op, enum tg__class cls, void *ctx) {
  if (cls != TG__CLASS_OP || !is_backward(l->t, op)) return;
  const int64_t seq = tg__arg_int(l->t, l->t->slices.args[op], TG__K_SEQUENCE_NUMBER, -1);
  const uint32_t forward = seq < 0 ? TG_NONE : tg__map_get(ctx, (uint64_t)seq);
  if (forward != TG_NONE && l->t->slices.start_ns[forward] <= l->t->slices.start_ns[op]) l->t->slices.cause[op] = forward;
}

static void link_by_sequence(struct linker *l) {
  struct tg__map forward = {0};
  each_slice(l, note_forward, &forward);
  each_slice(l, link_backward, &forward);
  tg__map_free(&forward);
}

static bool has_backward(const struct tg_trace *t) {
  for (uint32_t i = 0; i < t->schema_count; i++)
    if (field_of(&t->schemas[i], TG__K_FWD_THREAD_ID) >= 0) return true;
  return false;
}

enum tg_err tg__link_rank(struct tg_trace *t, uint32_t r, uint32_t first_mark) {
  struct linker l = {.t = t, .rank = &t->ranks[r], .ok = true};
  struct range ranges[2] = {{0, -1, 0}, {0, -1, 0}};
  l.ok = find_fields(&l);
  if (l.ok) each_slice(&l, measure, ranges);
  l.ok = l.ok && index_init(&l.calls, ranges[0].least, ranges[0].most, ranges[0].count) &&
         index_init(&l.ops, ranges[1].least, ranges[1].most, ranges[1].count);
  if (l.ok) each_slice(&l, enter, NULL);
  for (uint32_t k = l.rank->first_track; l.ok && ranges[0].count && k < l.rank->first_track + l.rank->track_count; k++) link_calls(&l, &t->tracks[k]);
  if (l.ok) each_slice(&l, link_device, NULL);
  if (l.ok && link_by_flow(&l, first_mark) == 0 && has_backward(t)) link_by_sequence(&l);
  index_free(&l.calls);
  index_free(&l.ops);
  tg__free(l.open);
  tg__free(l.correlation_at);
  tg__free(l.external_at);
  return l.ok ? TG_OK : TG_MEMORY;
}
