/* answer_slice: the details of a slice, and links. */
#include <stdlib.h>

#include "serve/host.h"

enum {
  EFFECTS_MOST = 200,
  PARENTS_MOST = 200,
  CAUSES_MOST = 8,
  ARGS_MOST = 64 << 10,
  FLOWS_DEFAULT = 500,
  FLOWS_MOST = 10000
};

static void put_int(struct tg__jsonw *w, const char *key, int64_t v) {
  tg__json_key(w, key);
  tg__json_int(w, v);
}

static void put_text(struct tg__jsonw *w, const char *key, struct tg__str s) {
  tg__json_key(w, key);
  if (s.len)
    tg__json_str(w, s);
  else
    tg__json_null(w);
}

/* The members that a reference and the details share. */
static void put_what(struct tg__loaded *t, uint32_t slice, uint32_t row, struct tg__jsonw *w) {
  const struct tg__columns *const c = t->columns;
  const uint32_t track = tg__slice_track(c, slice);
  put_int(w, "slice", slice);
  tg__json_key(w, "name");
  tg__json_str(w, tg__name(c, c->slices.name[slice]));
  put_int(w, "class", tg__slice_class_of(&t->classes, slice));
  put_int(w, "track", track);
  put_int(w, "row", row);
  put_int(w, "start_ns", c->slices.start_ns[slice] + tg__view_shift(t->view, c->tracks[track].rank));
  put_int(w, "dur_ns", c->slices.dur_ns[slice]);
}

void tg__reply_reference(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  if (slice >= t->columns->slices.count) {
    tg__json_null(w);
    return;
  }
  tg__json_open(w, '{');
  put_what(t, slice, tg__view_row_of(t->view, slice), w);
  tg__json_close(w, '}');
}

static void put_reference(struct tg__loaded *t, const char *key, uint32_t slice, struct tg__jsonw *w) {
  tg__json_key(w, key);
  tg__reply_reference(t, slice, w);
}

/* From one slice to the next along a column, such as parent or cause. */
static void put_chain(struct tg__loaded *t, const char *key, const uint32_t *next, uint32_t slice, int most,
                      struct tg__jsonw *w) {
  tg__json_key(w, key);
  tg__json_open(w, '[');
  for (uint32_t s = next[slice]; s < t->columns->slices.count && most-- > 0; s = next[s]) tg__reply_reference(t, s, w);
  tg__json_close(w, ']');
}

static void put_args(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  struct tg__args_iter it;
  bool cut = false;
  const size_t begin = w->out->len;
  tg__json_key(w, "args");
  tg__json_open(w, '[');
  for (tg__args_begin(t->columns, t->columns->slices.args[slice], &it); tg__args_next(&it);) {
    if (it.field->top) continue;
    cut = w->out->len - begin > ARGS_MOST;
    if (cut) break;
    tg__json_open(w, '[');
    tg__json_str(w, tg__name(t->columns, it.field->key));
    tg__val_json(t->columns, &it.val, w);
    tg__json_close(w, ']');
  }
  tg__json_close(w, ']');
  tg__json_key(w, "args_cut");
  tg__json_bool(w, cut);
}

/* The Python frames around it, from the outermost in; or those recorded with it. */
static void put_stack(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  const struct tg__columns *const c = t->columns;
  uint32_t frames[PARENTS_MOST];
  size_t count = 0;
  struct tg__str stack = TG_STR("");
  for (uint32_t s = tg__view_host_of(t->view, slice); s != TG_NONE && count < PARENTS_MOST; s = c->slices.parent[s]) {
    const uint32_t text = stack.len ? TG_NONE : tg__arg_str(c, c->slices.args[s], TG__K_CALL_STACK);
    if (text != TG_NONE) stack = tg__name(c, text);
    if (tg__slice_class(c, s) == TG__CLASS_PYTHON) frames[count++] = c->slices.name[s];
  }
  const bool has_frames = count > 0;
  tg__json_key(w, "stack");
  tg__json_open(w, '[');
  while (count) tg__json_str(w, tg__name(c, frames[--count]));
  if (has_frames) stack.len = 0;
  while (stack.len) { /* recorded from the inside out: its last frame comes first */
    const char *const semicolon = memrchr(stack.ptr, ';', stack.len);
    const uint32_t from = semicolon ? (uint32_t)(semicolon - stack.ptr) + 1 : 0;
    tg__json_str(w, (struct tg__str){stack.ptr + from, stack.len - from});
    stack.len = from ? from - 1 : 0;
  }
  tg__json_close(w, ']');
}

static bool is_op(const struct tg__columns *c, uint32_t slice) {
  return slice < c->slices.count && tg__slice_class(c, slice) == TG__CLASS_OP;
}

static void put_effects(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  const struct tg__columns *const c = t->columns;
  uint32_t effects[EFFECTS_MOST];
  const uint32_t count = tg__view_effects(t->view, slice, effects, EFFECTS_MOST),
                 shown = count < EFFECTS_MOST ? count : EFFECTS_MOST;
  for (int backward = 0; backward < 2; backward++) {
    tg__json_key(w, backward ? "backward" : "effects");
    tg__json_open(w, '[');
    for (uint32_t i = 0; i < shown; i++)
      if ((is_op(c, slice) && is_op(c, effects[i])) == backward) tg__reply_reference(t, effects[i], w);
    tg__json_close(w, ']');
  }
  put_int(w, "effect_count", count);
  put_reference(t, "forward", is_op(c, slice) && is_op(c, c->slices.cause[slice]) ? c->slices.cause[slice] : TG_NONE,
                w);
}

static void put_near(struct tg__loaded *t, const struct tg__near *n, struct tg__jsonw *w) {
  tg__json_key(w, "near");
  tg__json_open(w, '{');
  put_reference(t, "first_child", n->first_child, w);
  put_reference(t, "previous", n->previous, w);
  put_reference(t, "next", n->next, w);
  put_reference(t, "previous_same_name", n->previous_same_name, w);
  put_reference(t, "next_same_name", n->next_same_name, w);
  tg__json_close(w, '}');
}

static void put_json_place(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  const struct tg__columns *const c = t->columns;
  const uint32_t step = tg__view_step(t->view, tg__view_host_of(t->view, slice)),
                 category = c->cats[c->slices.cat[slice]].name;
  struct tg__out line = {0};
  put_text(w, "category", category == TG_NONE ? TG_STR("") : tg__name(c, category));
  tg__json_key(w, "step");
  if (step == TG_NONE)
    tg__json_null(w);
  else
    tg__json_int(w, c->steps[step].number);
  tg__json_key(w, "unfinished");
  tg__json_bool(w, c->slices.flags[slice] & TG__F_UNCLOSED);
  tg__user_line(c, tg__view_host_of(t->view, slice), &line);
  put_text(w, "line", (struct tg__str){line.buf, (uint32_t)line.len});
  tg__out_free(&line);
  put_text(w, "module", tg__view_module(t->view, slice));
}

static void put_details(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  const struct tg__near near = tg__view_near(t->view, slice);
  const struct tg__same_name same = tg__view_same_name(t->view, slice);
  uint32_t children;
  tg__json_open(w, '{');
  put_what(t, slice, near.row, w);
  put_int(w, "self_ns", tg__view_self_ns(t->view, slice, &children));
  put_int(w, "children", children);
  put_json_place(t, slice, w);
  put_args(t, slice, w);
  put_stack(t, slice, w);
  put_chain(t, "parents", t->columns->slices.parent, slice, PARENTS_MOST, w);
  put_chain(t, "causes", t->columns->slices.cause, slice, CAUSES_MOST, w);
  put_effects(t, slice, w);
  put_near(t, &near, w);
  tg__json_key(w, "same_name");
  tg__json_open(w, '{');
  put_int(w, "count", same.count);
  put_int(w, "total_ns", same.total_ns);
  put_int(w, "position", same.position);
  tg__json_close(w, '}');
  tg__json_close(w, '}');
}

void tg__reply_slice(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  int64_t slice, row, at, tolerance;
  if (!tg__message_int(m, "slice", -1, &slice) || !tg__message_int(m, "row", -1, &row) ||
      !tg__message_int(m, "at_ns", 0, &at) || !tg__message_int(m, "reach_ns", 0, &tolerance) ||
      slice >= t->columns->slices.count || row >= t->view->row_count || (slice < 0 && row < 0)) {
    tg__reply_error(r, m, "usage", "slice is the number of a slice, or row that of a row, with at_ns");
    return;
  }
  if (slice < 0) slice = tg__view_hit(t->view, (uint32_t)row, at, tolerance < 0 ? 0 : tolerance);
  struct tg__jsonw w = tg__reply_begin(r, m);
  if (slice == TG_NONE)
    tg__json_null(&w);
  else
    put_details(t, (uint32_t)slice, &w);
  tg__reply_end(r, &w);
}

/* ---- links ------------------------------------------------------------------------------------------- */

static const char *kind_of(const struct tg__columns *c, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(c, slice);
  if (tg__class_is_device_work(cls)) return "launch";
  if (cls == TG__CLASS_SYNC) return "wait";
  return cls == TG__CLASS_OP ? "gradient" : "call";
}

static void put_flow(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w) {
  const struct tg__columns *const c = t->columns;
  const uint32_t ends[] = {c->slices.cause[slice], slice};
  tg__json_open(w, '[');
  for (int i = 0; i < 2; i++) {
    tg__json_int(w, ends[i]);
    tg__json_int(w, tg__view_row_of(t->view, ends[i]));
    tg__json_int(w, c->slices.start_ns[ends[i]] + tg__view_shift(t->view, c->tracks[tg__slice_track(c, ends[i])].rank));
  }
  tg__json_cstr(w, kind_of(c, slice));
  tg__json_close(w, ']');
}

void tg__reply_flows(struct tg__host *h, const struct tg__message *m, struct tg__reply *r) {
  struct tg__loaded *const t = tg__reply_trace(h, m, r);
  if (!t) return;
  struct tg__window_of window;
  int64_t limit;
  if (!tg__message_int(m, "limit", FLOWS_DEFAULT, &limit) || limit < 0 || limit > FLOWS_MOST ||
      !tg__message_window(m, t, &window)) {
    tg__reply_error(r, m, "usage",
                    "start_ns and end_ns are times, tracks a list of numbers of tracks, limit at most 10000");
    return;
  }
  uint32_t *const links = tg__alloc(((size_t)limit + 1) * sizeof *links);
  const uint64_t count =
      links ? tg__view_links(t->view, window.start_ns, window.end_ns, window.tracks, links, (uint32_t)limit) : 0;
  struct tg__jsonw w = tg__reply_begin(r, m);
  tg__json_open(&w, '{');
  put_int(&w, "count", (int64_t)count);
  tg__json_key(&w, "flows");
  tg__json_open(&w, '[');
  for (uint64_t i = 0; i < count && count <= (uint64_t)limit; i++) put_flow(t, links[i], &w);
  tg__json_close(&w, ']');
  tg__json_close(&w, '}');
  tg__reply_end(r, &w);
  if (!links) r->out.err = TG_MEMORY;
  tg__free(links);
  tg__free(window.tracks);
}
