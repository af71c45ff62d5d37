/* speedscope's file format: sampled profiles, one a CPU thread, weights in nanoseconds. Every stretch of time with
 * one stack is a sample, in order, so the time-ordered view is the thread's real timeline. With metric=device there
 * is one profile a device stream: a sample per kernel, on the stack that launched it. */
#include "show/stacktree.h"

struct scope {
  const struct tg__columns *t;
  struct tg__out *out;
  struct tg__stacktree stacks;
  uint32_t *chain; /* frames of a stack, innermost first */
  size_t chain_cap;
  struct tg__out weights;
  bool failed;
};

static void put_str(struct tg__out *out, struct tg__str s) {
  tg__out_char(out, '"');
  tg__json_body(out, s);
  tg__out_char(out, '"');
}

/* Python frames are written  file.py(12): function. */
static bool split_python(struct tg__str s, struct tg__str *file, struct tg__str *line, struct tg__str *function) {
  for (uint32_t i = 0; i + 3 < s.len; i++) {
    if (s.ptr[i] != '(') continue;
    uint32_t k = i + 1;
    while (k < s.len && s.ptr[k] >= '0' && s.ptr[k] <= '9') k++;
    if (k == i + 1 || k + 2 >= s.len || memcmp(s.ptr + k, "): ", 3) != 0) continue;
    *file = (struct tg__str){s.ptr, i};
    *line = (struct tg__str){s.ptr + i + 1, k - i - 1};
    *function = (struct tg__str){s.ptr + k + 3, s.len - k - 3};
    return line->len <= 9 && function->len > 0;
  }
  return false;
}

/* Leading zeros are not JSON. */
static void put_profile_line(struct tg__out *out, struct tg__str line) {
  int64_t v = 0;
  for (uint32_t i = 0; i < line.len; i++) v = v * 10 + (line.ptr[i] - '0');
  tg__out_int(out, v);
}

/* Frames are the nodes' names; equal names share a frame. Returns frame numbers by node, NULL on no memory. */
static uint32_t *put_frames(struct scope *s) {
  uint32_t *const frames = tg__alloc((s->stacks.count + 1) * sizeof *frames);
  struct tg__map by_name = {0};
  uint32_t count = 0;
  bool ok = frames != NULL;
  for (size_t i = 0; ok && i < s->stacks.count; i++) {
    const uint32_t name = s->stacks.nodes[i].name;
    uint32_t *slot = tg__map_slot(&by_name, name, TG_NONE);
    ok = slot != NULL;
    if (!ok) break;
    if (*slot == TG_NONE) {
      struct tg__str file, line, function;
      *slot = count++;
      tg__out_text(s->out, *slot ? ",\n{\"name\":" : "\n{\"name\":");
      if (split_python(tg__name(s->t, name), &file, &line, &function)) {
        put_str(s->out, function);
        tg__out_text(s->out, ",\"file\":");
        put_str(s->out, file);
        tg__out_text(s->out, ",\"line\":");
        put_profile_line(s->out, line);
      } else {
        put_str(s->out, tg__name(s->t, name));
      }
      tg__out_char(s->out, '}');
    }
    frames[i] = *slot;
  }
  tg__map_free(&by_name);
  if (ok) return frames;
  tg__free(frames);
  return NULL;
}

/* ---- samples --------------------------------------------------------------------------------- */

struct profile {
  const uint32_t *frames;
  int64_t total_ns;
  bool any;
};

static void put_sample(struct scope *s, struct profile *p, uint32_t node, int64_t weight_ns) {
  if (weight_ns <= 0) return;
  size_t depth = 0;
  for (uint32_t n = node; n != TG_NONE; n = s->stacks.nodes[n].parent) {
    void *items = s->chain;
    if (!tg__grow(&items, &s->chain_cap, depth + 1, sizeof *s->chain)) {
      s->failed = true;
      return;
    }
    s->chain = items;
    s->chain[depth++] = p->frames[n];
  }
  tg__out_text(s->out, p->any ? ",[" : "[");
  while (depth--) {
    tg__out_uint(s->out, s->chain[depth]);
    if (depth) tg__out_char(s->out, ',');
  }
  tg__out_char(s->out, ']');
  if (p->any) tg__out_char(&s->weights, ',');
  tg__out_int(&s->weights, weight_ns);
  p->any = true;
  p->total_ns += weight_ns;
}

/* The stretches of one lane of a CPU track. Slices of a lane nest, so one stack of open slices is enough. */
static void put_lane(struct scope *s, struct profile *p, const struct tg__track *track, unsigned lane) {
  const struct tg__columns *t = s->t;
  uint32_t *open = NULL;
  size_t depth = 0, cap = 0;
  int64_t now = 0;
  bool started = false;
  for (uint32_t k = 0; k <= track->count && !s->failed; k++) {
    const uint32_t i = track->first + k;
    const bool last = k == track->count;
    if (!last && (t->slices.lane[i] != lane || s->stacks.of_slice[i] == TG_NONE)) continue;
    const int64_t start = last ? INT64_MAX : t->slices.start_ns[i];
    while (depth && tg__slice_end(t, open[depth - 1]) <= start) {
      const uint32_t top = open[--depth];
      put_sample(s, p, s->stacks.of_slice[top], tg__slice_end(t, top) - now);
      if (tg__slice_end(t, top) > now) now = tg__slice_end(t, top);
    }
    if (last) break;
    if (started) put_sample(s, p, depth ? s->stacks.of_slice[open[depth - 1]] : TG_NONE, start - now);
    if (!started || start > now) now = start;
    started = true;
    void *items = open;
    if (!tg__grow(&items, &cap, depth + 1, sizeof *open)) {
      s->failed = true;
      break;
    }
    open = items;
    open[depth++] = i;
  }
  tg__free(open);
}

static void put_stream(struct scope *s, struct profile *p, const struct tg__track *track) {
  for (uint32_t i = track->first; i < track->first + track->count && !s->failed; i++) {
    if (s->stacks.of_slice[i] != TG_NONE) put_sample(s, p, s->stacks.of_slice[i], s->t->slices.dur_ns[i]);
  }
}

static void put_title(struct scope *s, const struct tg__track *track, unsigned lane) {
  struct tg__out title = {0};
  const struct tg__columns *t = s->t;
  if (t->rank_count > 1) tg__out_format(&title, "rank %lld ", (long long)t->ranks[track->rank].number);
  if (track->process_name != TG_NONE)
    tg__out_bytes(&title, tg__name(t, track->process_name).ptr, tg__name(t, track->process_name).len);
  if (title.len) tg__out_char(&title, ' ');
  if (track->name != TG_NONE) {
    tg__out_bytes(&title, tg__name(t, track->name).ptr, tg__name(t, track->name).len);
  } else if (track->tid_is_text) {
    tg__out_bytes(&title, tg__name(t, (uint32_t)track->tid).ptr, tg__name(t, (uint32_t)track->tid).len);
  } else {
    tg__out_format(&title, "thread %lld", (long long)track->tid);
  }
  if (lane) tg__out_format(&title, " (overlap %u)", lane);
  if (title.err) s->failed = true;
  put_str(s->out, (struct tg__str){title.buf, (uint32_t)title.len});
  tg__out_free(&title);
}

static bool lane_has_frames(const struct scope *s, const struct tg__track *track, unsigned lane) {
  TG__EACH (i, tg__slices_of(track)) {
    if (s->stacks.of_slice[i] != TG_NONE && s->t->slices.lane[i] == lane && s->t->slices.dur_ns[i] > 0) return true;
  }
  return false;
}

static void put_profile(struct scope *s, const struct tg__track *track, unsigned lane, const uint32_t *frames,
                        bool first) {
  struct profile p = {.frames = frames};
  tg__out_text(s->out, first ? "\n{\"type\":\"sampled\",\"name\":" : ",\n{\"type\":\"sampled\",\"name\":");
  put_title(s, track, lane);
  tg__out_text(s->out, ",\"unit\":\"nanoseconds\",\"samples\":[");
  s->weights.len = 0;
  if (track->kind == TG__TRACK_DEVICE) {
    put_stream(s, &p, track);
  } else {
    put_lane(s, &p, track, lane);
  }
  tg__out_text(s->out, "],\"weights\":[");
  tg__out_bytes(s->out, s->weights.buf, s->weights.len);
  tg__out_format(s->out, "],\"startValue\":0,\"endValue\":%lld}", (long long)p.total_ns);
  if (s->weights.err) s->failed = true;
}

static void put_profiles(struct scope *s, const struct tg__ask *selection, enum tg__stack_metric metric,
                         const uint32_t *frames) {
  const enum tg__track_kind kind = metric == TG__STACK_DEVICE ? TG__TRACK_DEVICE : TG__TRACK_CPU;
  bool first = true;
  for (uint32_t k = 0; k < s->t->track_count; k++) {
    const struct tg__track *track = &s->t->tracks[k];
    if (track->kind != kind || !tg__ask_has_track(selection, s->t, k)) continue;
    const unsigned lanes = kind == TG__TRACK_CPU && track->lanes > 1 ? track->lanes : 1;
    for (unsigned lane = 0; lane < lanes; lane++) {
      if (!lane_has_frames(s, track, lane) && kind == TG__TRACK_CPU) continue;
      put_profile(s, track, lane, frames, first);
      first = false;
    }
  }
}

enum tg_err tg__speedscope_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                                 struct tg_error *e) {
  enum tg__stack_metric metric;
  uint32_t *frames = NULL;
  struct tg__ask selection = {0};
  struct scope s = {.t = t, .out = out};
  enum tg_err err = tg__stack_metric(o, &metric, e);
  if (!err) err = tg__show_begin(t, o, TG__COL_SLICES, &selection, e);
  if (err) goto done;
  err = tg__stacktree_build(t, &selection, metric, &s.stacks, e);
  if (err) goto done;
  tg__out_text(
      out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"tachograph " TG_VERSION
           "\",\"shared\":{\"frames\":[");
  frames = put_frames(&s);
  tg__out_text(out, "]},\n\"profiles\":[");
  if (frames) put_profiles(&s, &selection, metric, frames);
  tg__out_text(out, "]}\n");
  if (!frames || s.failed) out->err = TG_MEMORY;
  err = tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__free(frames);
  tg__free(s.chain);
  tg__out_free(&s.weights);
  tg__stacktree_free(&s.stacks);
  return err;
}
