/* The call graph of a trace by the exact rules: nesting as it was recorded, device work below the host call that
 * launched it.
 *
 * Autograd runs the backward pass on threads of its own while the thread that called backward() waits. So what such
 * a thread runs at its top hangs below the innermost backward annotation or step of that other thread which holds
 * it. */
#include "analyze/launch/call_graph.h"

bool tg__thread_names_open(struct tg__thread_names *n, const struct tg__columns *t) {
  n->t = t;
  n->flags = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  return n->flags != NULL;
}

unsigned tg__thread_name(struct tg__thread_names *n, uint32_t string_id) {
  enum { KNOWN = 1 };
  if (n->flags[string_id]) return n->flags[string_id];
  const struct tg__str s = tg__name(n->t, string_id);
  unsigned flags = KNOWN;
  if (tg__str_has_prefix(s, "ProfilerStep#")) flags |= TG__NAME_STEP;
  if (tg__str_has_prefix(s, "## backward ##")) flags |= TG__NAME_BACKWARD_RANGE;
  if (tg__str_contains(s, "autograd::")) flags |= TG__NAME_AUTOGRAD;
  n->flags[string_id] = (uint8_t)flags;
  return flags;
}

void tg__thread_names_close(struct tg__thread_names *n) {
  tg__free(n->flags);
  n->flags = NULL;
}

/* ---- threads that run the backward pass ------------------------------------------------------ */

struct range {           /* an annotation that backward work may hang below */
  uint32_t slice, outer; /* outer: the range around it, position in the list */
};
struct builder {
  const struct tg__columns *t;
  struct tg__call_graph *g;
  struct tg__thread_names names;
  uint8_t *roles;
  struct range *ranges;
  size_t count, cap;
};

static uint8_t call_graph_role_of(struct builder *b, const struct tg__track *track) {
  uint8_t role = TG__THREAD_OTHER;
  TG__EACH (i, tg__slices_of(track)) {
    const unsigned name = tg__thread_name(&b->names, b->t->slices.name[i]);
    if (name & (TG__NAME_STEP | TG__NAME_BACKWARD_RANGE)) return TG__THREAD_MAIN;
    if (name & TG__NAME_AUTOGRAD) role = TG__THREAD_BACKWARD;
  }
  return role;
}

static bool list_ranges(struct builder *b, const struct tg__track *main) {
  uint32_t top = TG_NONE;
  b->count = 0;
  TG__EACH (i, tg__slices_of(main)) {
    if (!(tg__thread_name(&b->names, b->t->slices.name[i]) & (TG__NAME_STEP | TG__NAME_BACKWARD_RANGE))) continue;
    while (top != TG_NONE && tg__slice_end(b->t, b->ranges[top].slice) <= b->t->slices.start_ns[i])
      top = b->ranges[top].outer;
    if (!tg__grow((void **)&b->ranges, &b->cap, b->count + 1, sizeof *b->ranges)) return false;
    b->ranges[b->count] = (struct range){i, top};
    top = (uint32_t)b->count++;
  }
  return true;
}

/* The innermost range that holds the slice; *at: the last range that began by then, to go on from. */
static uint32_t range_around(const struct builder *b, uint32_t slice, size_t *at) {
  const int64_t start = b->t->slices.start_ns[slice], end = tg__slice_end(b->t, slice);
  while (*at + 1 < b->count && b->t->slices.start_ns[b->ranges[*at + 1].slice] <= start) ++*at;
  uint32_t k = *at < b->count && b->t->slices.start_ns[b->ranges[*at].slice] <= start ? (uint32_t)*at : TG_NONE;
  while (k != TG_NONE && tg__slice_end(b->t, b->ranges[k].slice) < end) k = b->ranges[k].outer;
  return k == TG_NONE ? TG_NONE : b->ranges[k].slice;
}

static void hang_below(struct builder *b, const struct tg__track *backward) {
  size_t at = 0;
  TG__EACH (i, tg__slices_of(backward))
    if (b->g->kind[i] == TG__NODE_HOST && b->g->parent[i] == TG_NONE) b->g->parent[i] = range_around(b, i, &at);
}

/* Threads of one process by what they are for: the backward ones of a process with exactly one main thread, as a
 * list per main. */
static bool find_homes(struct builder *b, const struct tg__rank *rank, uint32_t *first, uint32_t *next) {
  enum { SEVERAL = TG_NONE - 1 };
  struct tg__map mains = {0}; /* process → its main thread */
  bool ok = true;
  for (unsigned pass = 0; pass < 2; pass++) {
    for (uint32_t k = rank->first_track; k < rank->first_track + rank->track_count && ok; k++) {
      const struct tg__track *track = &b->t->tracks[k];
      const uint64_t process = (uint64_t)track->pid << 1 | track->pid_is_text;
      if (pass == 0 && b->roles[k] == TG__THREAD_MAIN) {
        uint32_t *main = tg__map_slot(&mains, process, k);
        ok = main != NULL;
        if (ok && *main != k) *main = SEVERAL;
      }
      if (pass == 0 || b->roles[k] != TG__THREAD_BACKWARD) continue;
      const uint32_t main = tg__map_get(&mains, process);
      if (main >= SEVERAL) continue;
      next[k] = first[main];
      first[main] = k;
    }
  }
  tg__map_free(&mains);
  return ok;
}

static bool connect(struct builder *b) {
  const size_t tracks = (size_t)b->t->track_count + 1;
  uint32_t *first = tg__alloc(tracks * sizeof *first), *next = tg__alloc(tracks * sizeof *next);
  bool ok = first && next;
  if (ok) memset(first, 0xff, tracks * sizeof *first);
  for (uint32_t r = 0; ok && r < b->t->rank_count; r++) ok = find_homes(b, &b->t->ranks[r], first, next);
  for (uint32_t main = 0; ok && main < b->t->track_count; main++) {
    if (first[main] == TG_NONE) continue;
    ok = list_ranges(b, &b->t->tracks[main]);
    for (uint32_t k = first[main]; ok && k != TG_NONE; k = next[k]) hang_below(b, &b->t->tracks[k]);
  }
  tg__free(first);
  tg__free(next);
  return ok;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_host(enum tg__class cls) {
  return cls != TG__CLASS_GPU_ANNOTATION && cls != TG__CLASS_SYNC && cls != TG__CLASS_DEVICE_MARK &&
         !tg__class_is_device_work(cls);
}

static void add_nodes(struct builder *b, const struct tg__track *track) {
  const struct tg__slices *s = &b->t->slices;
  TG__EACH (i, tg__slices_of(track)) {
    const enum tg__class cls = tg__slice_class(b->t, i);
    if (tg__class_is_device_work(cls))
      tg__call_graph_device(b->g, i, s->cause[i], s->start_ns[i], s->dur_ns[i]);
    else if (track->kind == TG__TRACK_CPU && is_host(cls))
      tg__call_graph_host(b->g, i, s->parent[i]);
  }
}

struct kept {
  struct tg__call_graph g;
  uint8_t *roles;
};

static void free_kept_call_graph(void *item) {
  struct kept *k = item;
  tg__call_graph_free(&k->g);
  tg__free(k->roles);
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_call_graph};

static bool build(const struct tg__columns *t, struct kept *k) {
  struct builder b = {.t = t, .g = &k->g};
  b.roles = k->roles = tg__alloc((size_t)t->track_count + 1);
  bool ok = tg__call_graph_new(b.g, t->slices.count) && tg__thread_names_open(&b.names, t) && b.roles;
  for (uint32_t i = 0; ok && i < t->track_count; i++) {
    const bool thread = t->tracks[i].kind == TG__TRACK_CPU;
    b.roles[i] = thread ? call_graph_role_of(&b, &t->tracks[i]) : TG__THREAD_OTHER;
    add_nodes(&b, &t->tracks[i]);
  }
  ok = ok && connect(&b) && tg__call_graph_sum(b.g);
  tg__thread_names_close(&b.names);
  tg__free(b.ranges);
  return ok;
}

const struct tg__call_graph *tg__call_graph_of(const struct tg__columns *t, const uint8_t **roles) {
  struct kept *k = tg__cache_find(t, &cached);
  if (!k) {
    k = tg__alloc(sizeof *k);
    if (!k) return NULL;
    if (!build(t, k) || !tg__cache_put(t, &cached, k)) {
      free_kept_call_graph(k);
      return NULL;
    }
  }
  if (roles) *roles = k->roles;
  return &k->g;
}
