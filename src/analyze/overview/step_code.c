/* step_code: ranges of torch.compile, names of Inductor's kernels and launches of graphs become spans of time.
 *
 * A region of torch.compile holds its graphs and, where a graph is broken, operators that run one by one between
 * them, and the compiler at work: these are not compiled code. A backend that marks no graphs has only regions, which
 * then count as a whole. */
#include "analyze/overview/step_code.h"

#include "analyze/host/kernel_lines.h"
#include "analyze/host/op_tree.h"
#include "analyze/overview/steps.h"

enum { REGION = 1, GRAPH = 2, FUSED = 4, WORK = 8, REPLAY = 16, KNOWN = 32 };
enum place { OUTSIDE, IN_REGION, BETWEEN_GRAPHS, IN_GRAPH };

struct spot {      /* of a slice of the host */
  int64_t from_ns; /* of an outermost one of compiled code: up to here it is counted */
  uint32_t outer;  /* the outermost slice around this one with the same answer to is_code */
  uint8_t place;
};
struct work {
  const struct tg__columns *t;
  struct tg__extent all; /* slices of the rank */
  uint8_t *kinds;        /* by string id, filled as names turn up */
  struct spot *spots;    /* of each slice of the rank */
  bool has_graphs, with_others;
  struct tg__spans busy, replayed, compiled; /* of devices */
  struct tg__spans launches, host;           /* of the host: launches of graphs, compiled code */
};

static unsigned kinds_of(struct tg__str name) {
  unsigned kinds = KNOWN;
  if (tg__name_is_compiled_region(name)) kinds |= REGION;
  if (tg__name_is_compiled_graph(name) || tg__str_eq(name, TG_STR("CompiledFunctionBackward"))) kinds |= GRAPH;
  if (tg__is_compiled_kernel(name)) kinds |= FUSED;
  if (tg__str_contains(name, "::") || tg__str_contains(name, "(dynamo_timed)")) kinds |= WORK;
  if (tg__str_contains(name, "GraphLaunch")) kinds |= REPLAY;
  return kinds;
}

static unsigned kinds_at(struct work *w, uint32_t slice) {
  uint8_t *const kinds = &w->kinds[w->t->slices.name[slice]];
  if (!*kinds) *kinds = (uint8_t)kinds_of(tg__name(w->t, w->t->slices.name[slice]));
  return *kinds;
}

/* false: no memory. *kinds: all that occur in the rank. */
static bool open_work(struct work *w, const struct tg__columns *t, uint32_t rank, unsigned *kinds) {
  *w = (struct work){.t = t, .all = tg__rank_slices(t, rank)};
  *kinds = 0;
  w->kinds = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  for (uint32_t i = w->all.first; w->kinds && i < w->all.past; i++) *kinds |= kinds_at(w, i);
  w->has_graphs = *kinds & GRAPH;
  return w->kinds != NULL;
}

static void close_work(struct work *w) {
  tg__spans_free(&w->busy);
  tg__spans_free(&w->replayed);
  tg__spans_free(&w->compiled);
  tg__spans_free(&w->launches);
  tg__spans_free(&w->host);
  tg__free(w->kinds);
  tg__free(w->spots);
}

/* ---- the host -------------------------------------------------------------------------------- */

static bool is_code(enum place place) { return place == IN_REGION || place == IN_GRAPH; }

static struct spot *spot_of(const struct work *w, uint32_t slice) {
  return slice == TG_NONE || slice < w->all.first || slice >= w->all.past ? NULL : &w->spots[slice - w->all.first];
}

static enum place place_in(struct work *w, uint32_t i, enum place around) {
  const enum tg__class cls = tg__slice_class(w->t, i);
  const unsigned kinds = kinds_at(w, i);
  if (cls != TG__CLASS_OP && cls != TG__CLASS_ANNOTATION) return around;
  if (kinds & (GRAPH | FUSED)) return IN_GRAPH;
  if (kinds & REGION) return w->has_graphs ? IN_REGION : IN_GRAPH;
  return around == IN_REGION && kinds & WORK ? BETWEEN_GRAPHS : around;
}

/* Slices of a track stand in the order of their starts, and what holds others before these. */
static void place_host_slice(struct work *w, uint32_t i) {
  const int64_t start = w->t->slices.start_ns[i], end = tg__slice_end(w->t, i);
  const struct spot *const parent = spot_of(w, w->t->slices.parent[i]);
  const enum place around = parent ? (enum place)parent->place : OUTSIDE, here = place_in(w, i, around);
  *spot_of(w, i) = (struct spot){start,
                                 is_code(here) != is_code(around) ? i
                                 : parent                         ? parent->outer
                                                                  : TG_NONE,
                                 (uint8_t)here};
  if (is_code(around) && !is_code(here)) {
    struct spot *const outer = spot_of(w, parent->outer);
    tg__spans_add(&w->host, outer->from_ns, start);
    outer->from_ns = end;
  }
  if (tg__slice_class(w->t, i) == TG__CLASS_RUNTIME && kinds_at(w, i) & REPLAY) tg__spans_add(&w->launches, start, end);
}

static void place_host(struct work *w) {
  for (uint32_t i = w->all.first; i < w->all.past; i++)
    if (!tg__class_is_device_work(tg__slice_class(w->t, i))) place_host_slice(w, i);
  for (uint32_t i = w->all.first; i < w->all.past; i++) {
    const struct spot *const x = spot_of(w, i);
    if (x->outer == i && is_code((enum place)x->place)) tg__spans_add(&w->host, x->from_ns, tg__slice_end(w->t, i));
  }
}

/* ---- devices --------------------------------------------------------------------------------- */

static void place_device_slice(struct work *w, uint32_t i) {
  const struct spot *const launch = spot_of(w, tg__launch_of(w->t, i));
  const int64_t start = w->t->slices.start_ns[i], end = tg__slice_end(w->t, i);
  if (tg__slice_class(w->t, i) != TG__CLASS_DEVICE_OTHER || w->with_others) tg__spans_add(&w->busy, start, end);
  if (tg__is_replayed(w->t, i))
    tg__spans_add(&w->replayed, start, end);
  else if (kinds_at(w, i) & FUSED || (launch && is_code((enum place)launch->place)))
    tg__spans_add(&w->compiled, start, end);
}

bool tg__is_replayed(const struct tg__columns *t, uint32_t device_slice) {
  const uint32_t call = t->slices.cause[device_slice];
  return call != TG_NONE && tg__str_contains(tg__name(t, t->slices.name[call]), "GraphLaunch");
}

/* ---- together -------------------------------------------------------------------------------- */

/* `device`, and of `host` what lies outside of all work of devices. */
static void join(const struct work *w, const struct tg__spans *device, const struct tg__spans *host,
                 struct tg__spans *out) {
  tg__spans_subtract(host, &w->busy, out);
  tg__spans_add_all(out, device);
  tg__spans_union(out);
}

static void put_spans(struct work *w, struct tg__step_code *out) {
  struct tg__spans *const sets[] = {&w->busy, &w->replayed, &w->compiled, &w->launches, &w->host};
  struct tg__spans compiled = {0};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) tg__spans_union(sets[i]);
  join(w, &w->replayed, &w->launches, &out->replayed);
  join(w, &w->compiled, &w->host, &compiled);
  tg__spans_subtract(&compiled, &out->replayed, &out->compiled);
  out->failed = compiled.failed || out->replayed.failed || out->compiled.failed;
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) out->failed |= sets[i]->failed;
  tg__spans_free(&compiled);
}

void tg__step_code_open(const struct tg__columns *t, uint32_t rank, bool with_others, struct tg__step_code *out) {
  struct work w;
  unsigned kinds;
  *out = (struct tg__step_code){.failed = !open_work(&w, t, rank, &kinds)};
  w.with_others = with_others;
  if (!out->failed && kinds & (REGION | GRAPH | FUSED | REPLAY)) {
    w.spots = tg__alloc(((size_t)(w.all.past - w.all.first) + 1) * sizeof *w.spots);
    out->failed = !w.spots;
    if (w.spots) place_host(&w);
    for (uint32_t i = w.all.first; w.spots && i < w.all.past; i++)
      if (tg__class_is_device_work(tg__slice_class(t, i))) place_device_slice(&w, i);
    if (w.spots) put_spans(&w, out);
  }
  close_work(&w);
}

void tg__step_code_close(struct tg__step_code *c) {
  tg__spans_free(&c->replayed);
  tg__spans_free(&c->compiled);
}

bool tg__has_step_code(const struct tg__columns *t, uint32_t rank, bool *failed) {
  struct work w;
  unsigned kinds;
  *failed = !open_work(&w, t, rank, &kinds);
  close_work(&w);
  return kinds & (REGION | GRAPH | FUSED | REPLAY);
}
