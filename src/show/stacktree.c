/* The call stacks of a trace as one tree: slices with the same chain of names share a node. */
#include "show/stacktree.h"

static bool is_frame(const struct tg__columns *t, uint32_t slice) {
  switch (tg__slice_class(t, slice)) {
  case TG__CLASS_ANNOTATION: {
    int64_t number;
    return !tg__name_is_profiler_step(tg__name(t, t->slices.name[slice]), &number);
  }
  case TG__CLASS_OP:
  case TG__CLASS_PYTHON:
  case TG__CLASS_PYTHON_OP:
  case TG__CLASS_RUNTIME:
  case TG__CLASS_OTHER:
    return true;
  default:
    return false;
  }
}

static uint32_t node_of(struct tg__stacktree *s, uint32_t parent, uint32_t name) {
  uint32_t *const slot = tg__map_slot(&s->index, (uint64_t)parent << 32 | name, TG_NONE);
  if (!slot) return TG_NONE;
  if (*slot != TG_NONE) return *slot;
  void *nodes = s->nodes;
  if (s->count >= TG_NONE - 1 || !tg__grow(&nodes, &s->cap, s->count + 1, sizeof *s->nodes)) return TG_NONE;
  s->nodes = nodes;
  s->nodes[s->count] = (struct tg__stack_node){.parent = parent, .name = name};
  return *slot = (uint32_t)s->count++;
}

/* The innermost enclosing slice that is a frame. Parents come before their children, so their node is known; one
 * that is no frame has been given its own parent's node to hand on. */
static bool place_slice(const struct tg__columns *t, struct tg__stacktree *s, uint32_t i, bool is_selected,
                        uint32_t *above) {
  const uint32_t parent = t->slices.parent[i];
  const uint32_t frame = parent == TG_NONE ? TG_NONE : s->of_slice[parent] != TG_NONE ? parent : above[parent];
  above[i] = frame;
  if (!is_selected || !is_frame(t, i)) return true;
  s->of_slice[i] = node_of(s, frame == TG_NONE ? TG_NONE : s->of_slice[frame], t->slices.name[i]);
  if (s->of_slice[i] == TG_NONE) return false;
  s->self_ns[i] += t->slices.dur_ns[i];
  if (frame != TG_NONE) s->self_ns[frame] -= t->slices.dur_ns[i];
  return true;
}

static bool place_track(const struct tg__columns *t, const struct tg__ask *selection, struct tg__stacktree *s,
                        uint32_t k, uint32_t *above) {
  const struct tg__track *track = &t->tracks[k];
  const uint32_t end = track->first + track->count;
  for (uint32_t i = track->first; i < end; i++) {
    if (!place_slice(t, s, i, tg__ask_has_slice(selection, t, k, i), above)) return false;
  }
  for (uint32_t i = track->first; i < end; i++) {
    if (s->self_ns[i] < 0)
      s->self_ns[i] = 0; /* children that overlap each other can cover more than their parent has */
  }
  return true;
}

static bool place_device_work(const struct tg__columns *t, const struct tg__ask *selection, struct tg__stacktree *s,
                              uint32_t k) {
  const struct tg__track *track = &t->tracks[k];
  TG__EACH (i, tg__slices_of(track)) {
    if (!tg__class_is_device_work(tg__slice_class(t, i)) || !tg__ask_has_slice(selection, t, k, i)) continue;
    const uint32_t cause = t->slices.cause[i];
    s->of_slice[i] = node_of(s, cause == TG_NONE ? TG_NONE : s->of_slice[cause], t->slices.name[i]);
    if (s->of_slice[i] == TG_NONE) return false;
    s->self_ns[i] = t->slices.dur_ns[i];
  }
  return true;
}

static bool build_stacktree(const struct tg__columns *t, const struct tg__ask *selection, enum tg__stack_metric metric,
                            struct tg__stacktree *s, uint32_t *above) {
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    if (!tg__ask_has_track(selection, t, k) || track->kind != TG__TRACK_CPU) continue;
    if (!place_track(t, selection, s, k, above)) return false;
  }
  if (metric == TG__STACK_DEVICE) {
    memset(s->self_ns, 0, ((size_t)t->slices.count + 1) * sizeof *s->self_ns);
    for (uint32_t k = 0; k < t->track_count; k++) {
      const struct tg__track *track = &t->tracks[k];
      if (!tg__ask_has_track(selection, t, k) || track->kind != TG__TRACK_DEVICE) continue;
      if (!place_device_work(t, selection, s, k)) return false;
    }
  }
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (s->of_slice[i] != TG_NONE) s->nodes[s->of_slice[i]].self_ns += s->self_ns[i];
  }
  return true;
}

static bool has_time(const struct tg__stacktree *s) {
  for (size_t i = 0; i < s->count; i++)
    if (s->nodes[i].self_ns > 0) return true;
  return false;
}

enum tg_err tg__stacktree_build(const struct tg__columns *t, const struct tg__ask *selection,
                                enum tg__stack_metric metric, struct tg__stacktree *out, struct tg_error *e) {
  const size_t n = (size_t)t->slices.count + 1;
  *out = (struct tg__stacktree){0};
  uint32_t *const above = tg__alloc(n * sizeof *above);
  out->of_slice = tg__alloc(n * sizeof *out->of_slice);
  out->self_ns = tg__alloc(n * sizeof *out->self_ns);
  bool ok = above && out->of_slice && out->self_ns;
  if (ok) {
    memset(out->of_slice, 0xff, n * sizeof *out->of_slice);
    ok = build_stacktree(t, selection, metric, out, above);
  }
  tg__free(above);
  if (ok && (metric == TG__STACK_CPU || has_time(out))) return TG_OK;
  tg__stacktree_free(out);
  if (!ok) return tg__no_memory(e, "collecting stacks");
  return tg__fail(e, TG_NO_DATA, -1,
                  "no device work was launched in what is selected, so there is nothing to write; metric=cpu has the "
                  "host's stacks");
}

void tg__stacktree_free(struct tg__stacktree *s) {
  tg__map_free(&s->index);
  tg__free(s->nodes);
  tg__free(s->of_slice);
  tg__free(s->self_ns);
  *s = (struct tg__stacktree){0};
}

enum tg_err tg__stack_metric(const struct tg__show_options *o, enum tg__stack_metric *metric, struct tg_error *e) {
  const char *text = tg__show_arg(o, "metric");
  *metric = text && strcmp(text, "device") == 0 ? TG__STACK_DEVICE : TG__STACK_CPU;
  if (!text || strcmp(text, "device") == 0 || strcmp(text, "cpu") == 0) return TG_OK;
  return tg__fail(e, TG_USAGE, -1, "metric=%s is unknown: it is cpu (the default) or device", text);
}
