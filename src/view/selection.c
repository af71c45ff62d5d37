/* selection: what ran in a window of time, summed up. One pass over the slices of the tracks: what a slice has inside
 * the window is added to its group, and taken from the own time of the group of the slice around it. */
#include <stdlib.h>

#include "view/view.h"

enum grouping { BY_NAME, BY_CLASS, BY_CATEGORY, BY_SHAPE, BY_MODULE, BY_LINE, BY_TRACK, BY_STEP, GROUPINGS };
static const char *const grouping_names[GROUPINGS] = {"name",   "class", "category", "shape",
                                                      "module", "line",  "track",    "step"};

struct group { /* as large as a cache line: its members are touched together, slice by slice */
  uint64_t key;
  int64_t calls, all_ns, max_ns; /* of whole slices */
  int64_t outside_ns;            /* of these, what lies outside the window: most slices have none */
  int64_t again_ns;              /* inside it where another of the group runs on the same track */
  int64_t inner_ns;              /* of slices inside its own */
  int64_t covered_ns;            /* on the track of now: up to where its slices cover the time */
};
static int64_t total_ns(const struct group *g) { return g->all_ns - g->outside_ns; }
static int64_t self_ns(const struct group *g) { return total_ns(g) - g->inner_ns; }
static int64_t busy_ns(const struct group *g) { return total_ns(g) - g->again_ns; }
struct sum { /* of a group, when all tracks are done */
  uint64_t key;
  int64_t calls, total_ns, self_ns, busy_ns, all_ns, max_ns;
  int64_t most_ns;    /* busy on the track where it is longest */
  int64_t against_ns; /* total in the other window */
};
struct window { /* of the selection, in times of the file of a track */
  int64_t start, end;
};
struct summing {
  const struct tg__view *v;
  struct tg__slice_classes *classes;
  const struct tg__selection *s;
  enum grouping by;
  struct tg__map group_of, text_of_parent; /* key → group; slice → text */
  uint32_t *group_of_small;                /* of keys below small_count, which need no map */
  uint64_t small_count;
  struct tg__strings *texts; /* of modules and lines */
  struct group *groups;
  size_t count, cap;
  int64_t *track_busy; /* of each group: busy up to the track of now, and the most on one */
  size_t track_busy_cap;
  struct sum *sums;
  uint32_t *group_at;   /* of each slice of the track of now; by name it is not needed */
  struct window window; /* of the track of now */
  int64_t touched;
  bool failed;
};

/* Module and line are those of the slice around, unless its args say more; slices with one parent are many. */
static uint32_t text_key(struct summing *c, uint32_t slice) {
  const struct tg__columns *const t = c->v->trace;
  const uint32_t host = tg__view_host_of(c->v, slice), parent = t->slices.parent[host];
  const bool own = c->by == BY_LINE ? tg__arg_str(t, t->slices.args[host], TG__K_CALL_FROM) != TG_NONE ||
                                          tg__arg_str(t, t->slices.args[host], TG__K_CALL_STACK) != TG_NONE
                                    : tg__str_has_prefix(tg__name(t, t->slices.name[host]), "nn.Module: ") ||
                                          tg__arg_str(t, t->slices.args[host], TG__K_MODULE_HIERARCHY) != TG_NONE;
  uint32_t *known = own || parent == TG_NONE ? NULL : tg__map_slot(&c->text_of_parent, parent, TG_NONE);
  if (known && *known != TG_NONE) return *known;
  struct tg__out text = {0};
  if (c->by == BY_LINE)
    tg__user_line(t, host, &text);
  else {
    const struct tg__str module = tg__view_module(c->v, host);
    tg__out_bytes(&text, module.ptr, module.len);
  }
  const uint32_t id = text.err ? TG_NONE : tg__strings_add(c->texts, text.len ? text.buf : "", text.len);
  tg__out_free(&text);
  c->failed |= id == TG_NONE;
  if (known) *known = id;
  return id;
}

static uint64_t key_of(struct summing *c, uint32_t slice, uint32_t track) {
  const struct tg__columns *const t = c->v->trace;
  switch (c->by) {
  case BY_NAME:
    return t->slices.name[slice];
  case BY_CLASS:
    return (uint64_t)tg__slice_class_of(c->classes, slice);
  case BY_CATEGORY:
    return t->slices.cat[slice];
  case BY_SHAPE:
    return (uint64_t)t->slices.name[slice] << 32 | tg__arg_dims(t, t->slices.args[slice]);
  case BY_TRACK:
    return track;
  case BY_STEP:
    return tg__view_step(c->v, tg__view_host_of(c->v, slice));
  default:
    return text_key(c, slice);
  }
}

/* How many keys there can be, where they are counted from 0; else 0. */
static uint64_t count_keys(const struct summing *c) {
  const struct tg__columns *const t = c->v->trace;
  switch (c->by) {
  case BY_NAME:
    return tg__strings_count(t->strings);
  case BY_CLASS:
    return TG__SLICE_CLASS_COUNT;
  case BY_CATEGORY:
    return t->cat_count;
  case BY_TRACK:
    return t->track_count;
  default:
    return 0;
  }
}

static bool open_small(struct summing *c) {
  c->small_count = count_keys(c);
  c->group_of_small = tg__alloc((c->small_count + 1) * sizeof *c->group_of_small);
  for (uint64_t i = 0; c->group_of_small && i < c->small_count; i++) c->group_of_small[i] = TG_NONE;
  return c->group_of_small != NULL;
}

static uint32_t group_of(struct summing *c, uint64_t key) {
  uint32_t *const group = key < c->small_count ? &c->group_of_small[key] : tg__map_slot(&c->group_of, key, TG_NONE);
  if (group && *group != TG_NONE) return *group;
  if (!group || !tg__grow(&c->groups, &c->cap, c->count + 1, sizeof *c->groups)) {
    c->failed = true;
    return TG_NONE;
  }
  c->groups[c->count] = (struct group){.key = key, .covered_ns = c->window.start};
  return *group = (uint32_t)c->count++;
}

static inline int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }
static inline bool is_touched(const struct window *w, int64_t start, int64_t end) {
  return end > w->start || (end == w->start && start == w->start);
}

/* [from, to): what lies in the window. around: the group of the slice around it; NULL: there is none. */
static inline void add_slice(struct group *g, struct group *around, int64_t dur, int64_t from, int64_t to) {
  const int64_t part = to - from, covered = g->covered_ns;
  g->calls++;
  g->all_ns += dur;
  if (TG_UNLIKELY(dur > g->max_ns)) g->max_ns = dur;
  if (TG_UNLIKELY(part != dur)) g->outside_ns += dur - part;
  /* no branch: frames of one name inside each other come and go as no processor can guess */
  g->again_ns += later(earlier(to, covered) - from, 0);
  g->covered_ns = later(to, covered);
  if (around) around->inner_ns += part;
}

static void add_track(struct summing *c, uint32_t k) {
  const struct window *const w = &c->window;
  const struct tg__columns *const t = c->v->trace;
  const struct tg__track *const track = &t->tracks[k];
  for (uint32_t i = track->first; i < track->first + track->count && t->slices.start_ns[i] < w->end; i++) {
    const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
    if (!is_touched(w, start, end)) continue;
    const uint32_t number = group_of(c, key_of(c, i, k)), parent = t->slices.parent[i];
    if (c->failed) return;
    c->group_at[i - track->first] = number;
    add_slice(&c->groups[number], parent == TG_NONE ? NULL : &c->groups[c->group_at[parent - track->first]],
              end - start, later(start, w->start), earlier(end, w->end));
    c->touched++;
  }
}

/* The same by name, which is asked most: the group of the slice around it is found by its name again, so that nothing
 * is written but groups. From `first` to `past`, of a track; inside: all begin in the window. */
TG_INLINE void add_by_name(struct summing *c, uint32_t first, uint32_t past, bool inside) {
  const struct tg__columns *const t = c->v->trace;
  const int64_t *const starts = t->slices.start_ns, *const durs = t->slices.dur_ns;
  const uint32_t *const names = t->slices.name, *const parents = t->slices.parent;
  const uint32_t *const group_of_name = c->group_of_small;
  const struct window w = c->window;
  struct group *groups = c->groups;
  uint32_t skipped = 0;
  for (uint32_t i = first; i < past; i++) {
    const int64_t start = starts[i], end = start + durs[i];
    if (!inside && !is_touched(&w, start, end)) {
      skipped++;
      continue;
    }
    uint32_t number = group_of_name[names[i]];
    if (TG_UNLIKELY(number == TG_NONE)) {
      number = group_of(c, names[i]);
      if (c->failed) return;
      groups = c->groups;
    }
    /* a slice without length at the begin of the window may lie in one that ends there, which has no group */
    const uint32_t outer = parents[i] == TG_NONE ? TG_NONE : group_of_name[names[parents[i]]];
    add_slice(&groups[number], outer == TG_NONE ? NULL : &groups[outer], end - start,
              inside ? start : later(start, w.start), earlier(end, w.end));
  }
  c->touched += past - first - skipped;
}

static void add_track_by_name(struct summing *c, uint32_t k) {
  const int64_t *const starts = c->v->trace->slices.start_ns;
  const uint32_t first = c->v->trace->tracks[k].first, past = first + c->v->trace->tracks[k].count;
  uint32_t begin = first;
  TG__PARTITION(begin, past, i, starts[i] < c->window.start);
  uint32_t end = begin;
  TG__PARTITION(end, past, i, starts[i] < c->window.end);
  add_by_name(c, first, begin, false);
  if (!c->failed) add_by_name(c, begin, end, true);
}

/* What the groups have on a track, before the next: tracks added up would be more than the window. */
static void end_track(struct summing *c) {
  const size_t before = c->track_busy_cap;
  if (!tg__grow(&c->track_busy, &c->track_busy_cap, 2 * c->count + 1, sizeof *c->track_busy)) {
    c->failed = true;
    return;
  }
  for (size_t i = before; i < c->track_busy_cap; i++) c->track_busy[i] = 0;
  for (size_t g = 0; g < c->count; g++) {
    const int64_t busy = busy_ns(&c->groups[g]);
    c->track_busy[2 * g + 1] = later(c->track_busy[2 * g + 1], busy - c->track_busy[2 * g]);
    c->track_busy[2 * g] = busy;
  }
}

/* The profiler's own span covers the whole recording and is nothing that the program did. */
static bool is_profilers(const struct tg__columns *t, const struct tg__track *track) {
  return track->count && tg__slice_class(t, track->first) == TG__CLASS_SPAN;
}

static void add_tracks(struct summing *c, int64_t start_ns, int64_t end_ns) {
  const struct tg__columns *const t = c->v->trace;
  for (uint32_t k = 0; k < t->track_count && !c->failed; k++) {
    if ((c->s->tracks && !c->s->tracks[k]) || is_profilers(t, &t->tracks[k])) continue;
    const int64_t shift = tg__view_shift(c->v, t->tracks[k].rank);
    c->window = (struct window){start_ns - shift, end_ns - shift};
    for (size_t g = 0; g < c->count; g++) c->groups[g].covered_ns = c->window.start;
    if (c->by == BY_NAME)
      add_track_by_name(c, k);
    else
      add_track(c, k);
    if (!c->failed) end_track(c);
  }
}

/* The groups of both windows, with what each is in the other one. */
static void make_sums(struct summing *c, struct summing *against) {
  for (size_t i = 0; i < against->count && !c->failed; i++) group_of(c, against->groups[i].key);
  c->sums = tg__alloc((c->count + 1) * sizeof *c->sums);
  c->failed |= !c->sums;
  for (size_t i = 0; i < c->count && !c->failed; i++) {
    const struct group *const g = &c->groups[i];
    const uint32_t other = against->count ? group_of(against, g->key) : TG_NONE;
    c->failed |= against->failed;
    c->sums[i] = (struct sum){
        .key = g->key,
        .calls = g->calls,
        .total_ns = total_ns(g),
        .self_ns = self_ns(g),
        .busy_ns = busy_ns(g),
        .all_ns = g->all_ns,
        .max_ns = g->max_ns,
        .most_ns = 2 * i + 1 < c->track_busy_cap ? c->track_busy[2 * i + 1] : 0,
        .against_ns = other == TG_NONE ? 0 : total_ns(&against->groups[other]),
    };
  }
}

/* ---- the table --------------------------------------------------------------------------------------- */

static int by_size(int64_t first, int64_t second, const struct sum *x, const struct sum *y) {
  if (first != second) return first < second ? 1 : -1;
  return (x->key > y->key) - (x->key < y->key);
}
static int by_self(const void *a, const void *b) {
  const struct sum *const x = a, *const y = b;
  return by_size(x->self_ns, y->self_ns, x, y);
}
static int by_change(const void *a, const void *b) {
  const struct sum *const x = a, *const y = b;
  return by_size(llabs(x->total_ns - x->against_ns), llabs(y->total_ns - y->against_ns), x, y);
}

static void put_key(struct summing *c, struct tg_table *out, uint64_t key) {
  const struct tg__columns *const t = c->v->trace;
  switch (c->by) {
  case BY_CLASS:
    tg__put_cstr(out, tg__slice_class_names[key]);
    return;
  case BY_CATEGORY:
    tg__put_trace_text(out, t, t->cats[key].name);
    return;
  case BY_SHAPE:
    tg__put_trace_text(out, t, (uint32_t)(key >> 32));
    tg__put_trace_text(out, t, (uint32_t)key);
    return;
  case BY_TRACK:
    tg__put_int(out, (int64_t)key);
    return;
  case BY_STEP:
    tg__put_int(out, key == TG_NONE ? TG_NULL_INT : t->steps[key].number);
    return;
  case BY_NAME:
    tg__put_trace_text(out, t, (uint32_t)key);
    return;
  default: {
    const struct tg__str text = tg__strings_get(c->texts, (uint32_t)key);
    if (text.len)
      tg__put_text(out, text);
    else
      tg__put_null(out);
  }
  }
}

static bool has_other(const struct tg__selection *s) { return s->other_end_ns > s->other_start_ns; }

static void add_selection_columns(struct summing *c, struct tg_table *out) {
  static const char *const sums[] = {"calls", "total_ns", "self_ns", "busy_ns", "mean_ns", "max_ns"};
  if (c->by == BY_SHAPE) tg__table_add_column(out, "name", TG_TEXT, "");
  tg__table_add_column(out, grouping_names[c->by], c->by == BY_TRACK || c->by == BY_STEP ? TG_INT : TG_TEXT, "");
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    tg__table_add_column(out, sums[i], i == 4 ? TG_REAL : TG_INT, i ? "ns" : "");
  tg__table_add_column(out, "share_pct", TG_REAL, "%");
  if (!has_other(c->s)) return;
  tg__table_add_column(out, "other_ns", TG_INT, "ns");
  tg__table_add_column(out, "change_ns", TG_INT, "ns");
}

static void put_groups(struct summing *c, struct tg_table *out) {
  const double window = (double)(c->s->end_ns - c->s->start_ns);
  for (size_t i = 0; i < c->count && i < c->s->limit; i++) {
    const struct sum *const g = &c->sums[i];
    put_key(c, out, g->key);
    tg__put_int(out, g->calls);
    tg__put_int(out, g->total_ns);
    tg__put_int(out, g->self_ns);
    tg__put_int(out, g->busy_ns);
    tg__put_real(out, g->calls ? (double)g->all_ns / (double)g->calls : 0);
    tg__put_int(out, g->max_ns);
    tg__put_real(out, 100.0 * (double)g->most_ns / window);
    if (!has_other(c->s)) continue;
    tg__put_int(out, g->against_ns);
    tg__put_int(out, g->total_ns - g->against_ns);
  }
  tg__table_note(out, "the selection is %lld ns long and touches %lld slices in %zu groups",
                 (long long)(c->s->end_ns - c->s->start_ns), (long long)c->touched, c->count);
}

static uint32_t longest_track(const struct tg__columns *t) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < t->track_count; k++)
    if (t->tracks[k].count > most) most = t->tracks[k].count;
  return most;
}

static bool open_summing(struct summing *c) {
  if (c->by != BY_NAME) c->group_at = tg__alloc(((size_t)longest_track(c->v->trace) + 1) * sizeof *c->group_at);
  return open_small(c) && (c->group_at || c->by == BY_NAME);
}

static void close_summing(struct summing *c) {
  tg__map_free(&c->group_of);
  tg__map_free(&c->text_of_parent);
  tg__free(c->group_of_small);
  tg__free(c->group_at);
  tg__free(c->groups);
  tg__free(c->track_busy);
  tg__free(c->sums);
}

/* Both windows, in one table. false: no memory. */
static bool sum_windows(struct summing *c, struct summing *other, struct tg_table *out) {
  const struct tg__selection *const s = c->s;
  if (!open_summing(c) || !open_summing(other)) return false;
  add_tracks(c, s->start_ns, s->end_ns);
  if (has_other(s)) add_tracks(other, s->other_start_ns, s->other_end_ns);
  if (!c->failed && !other->failed) make_sums(c, other);
  if (c->failed || other->failed) return false;
  if (c->count) qsort(c->sums, c->count, sizeof *c->sums, has_other(s) ? by_change : by_self);
  add_selection_columns(c, out);
  put_groups(c, out);
  return tg__view_note_at_once(c->v, s, out) && !out->failed;
}

enum tg_err tg__view_aggregate(const struct tg__view *v, struct tg__slice_classes *classes,
                               const struct tg__selection *s, struct tg_table **out, struct tg_error *e) {
  struct summing c = {.v = v, .classes = classes, .s = s, .by = GROUPINGS};
  *out = NULL;
  for (enum grouping k = 0; k < GROUPINGS; k++)
    if (strcmp(s->by, grouping_names[k]) == 0) c.by = k;
  if (c.by == GROUPINGS)
    return tg__fail(e, TG_USAGE, -1, "by is name, class, category, shape, module, line, track or step, not '%.60s'",
                    s->by);
  if (s->end_ns <= s->start_ns) return tg__fail(e, TG_USAGE, -1, "the selection ends before it begins");
  c.texts = tg__strings_new();
  struct summing other = c;
  struct tg_table *const table = tg__table_new("selection");
  const bool done = c.texts && table && sum_windows(&c, &other, table);
  close_summing(&c);
  close_summing(&other);
  if (c.texts) tg__strings_free(c.texts);
  if (done) {
    *out = table;
    return TG_OK;
  }
  tg__table_free(table);
  return tg__no_memory(e, "summing up a selection");
}
