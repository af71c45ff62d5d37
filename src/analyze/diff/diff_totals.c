/* Counts and summed durations by name in two traces, side by side. Which events there are, their length, their step
 * and their side are the rules; the adding up is one. */
#include "analyze/compat/compat.h"
#include "analyze/diff/diff_totals.h"
#include "analyze/names/kernel_family.h"

struct total {
  int64_t calls[TG__SIDES], dur_ns[TG__SIDES];
};

static struct total *total_of(struct tg__diff_totals *w, uint32_t string_id) {
  uint32_t *row = &w->row_of[string_id];
  if (*row == TG_NONE) {
    const struct tg__str name = tg__name(w->t, string_id);
    struct tg__out text = {0};
    if (w->short_names)
      tg__hta_short_name(name, &text);
    else
      tg__out_bytes(&text, name.ptr, name.len);
    *row = text.err ? TG_NONE : tg__strings_add(w->names, text.buf ? text.buf : "", text.len);
    tg__out_free(&text);
    if (*row == TG_NONE || !tg__grow((void **)&w->totals, &w->cap, (size_t)*row + 1, sizeof *w->totals)) return NULL;
    if (*row == w->count) w->totals[w->count++] = (struct total){{0}, {0}};
  }
  return &w->totals[*row];
}

bool tg__diff_count_one(struct tg__diff_totals *w, uint32_t slice, bool is_device, int64_t dur_ns) {
  if (w->device != TG__DIFF_ON_ALL && is_device != (w->device == TG__DIFF_ON_GPU)) return true;
  struct total *x = total_of(w, w->t->slices.name[slice]);
  if (!x) return false;
  x->calls[w->side]++;
  if (__builtin_add_overflow(x->dur_ns[w->side], dur_ns, &x->dur_ns[w->side])) x->dur_ns[w->side] = INT64_MAX;
  return true;
}

/* ---- exactly --------------------------------------------------------------------------------- */

static bool counts(enum tg__class c) { return c != TG__CLASS_SPAN && c != TG__CLASS_OTHER && c != TG__CLASS_INSTANT; }

static enum tg_err count_exactly(struct tg__diff_totals *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    if (!tg__ask_has_track(&w->selection, w->t, k)) continue;
    TG__EACH (i, tg__slices_of(&w->t->tracks[k])) {
      const enum tg__class c = tg__slice_class(w->t, i);
      if (!counts(c) || !tg__ask_has_slice(&w->selection, w->t, k, i)) continue;
      if (!tg__diff_count_one(w, i, tg__class_is_device_work(c) || c == TG__CLASS_GPU_ANNOTATION,
                              w->t->slices.dur_ns[i]))
        return TG_MEMORY;
    }
  }
  return TG_OK;
}

struct counting {
  struct tg__diff_totals *w;
  const struct tg_arg *args;
  size_t arg_count;
  bool any;
  struct tg_error why; /* the first file of a folder that lacks the steps asked for */
};

static enum tg_err count_trace(void *ctx, struct tg__columns *t, struct tg_error *e) {
  struct counting *const c = ctx;
  struct tg__diff_totals *const w = c->w;
  struct tg_error why = {0};
  w->t = t;
  enum tg_err err = tg__ask_select(t, c->args, c->arg_count, &w->selection, &why);
  const size_t texts = (size_t)tg__strings_count(t->strings) + 1;
  w->row_of = err ? NULL : tg__alloc(texts * sizeof *w->row_of);
  if (w->row_of) {
    memset(w->row_of, 0xff, texts * sizeof *w->row_of);
    c->any = true;
    if (w->count_trace(w) != TG_OK) err = tg__no_memory(e, "adding up names");
  } else if (!err) {
    err = tg__no_memory(e, "comparing");
  } else if (err == TG_NO_DATA) {
    if (!c->why.code) c->why = why;
    err = TG_OK; /* others may have them */
  } else {
    tg__fail(e, err, why.offset, "%s", why.text);
  }
  tg__ask_end(&w->selection);
  tg__free(w->row_of);
  return err;
}

static enum tg_err count_side(struct tg__diff_totals *w, const struct tg__diff_input *in,
                              const struct tg__diff_ask *ask, struct tg_error *e) {
  const char *own_rank = tg__diff_arg(ask, w->side ? "rank_b" : "rank_a"),
             *own_step = tg__diff_arg(ask, w->side ? "step_b" : "step_a");
  const struct tg_arg args[] = {{"step", *own_step ? own_step : tg__diff_arg(ask, "step")},
                                {"rank", *own_rank ? own_rank : tg__diff_arg(ask, "rank")}};
  struct counting c = {.w = w, .args = args, .arg_count = in->is_folder ? 1 : 2};
  enum tg_err err = TG_OK;
  if (in->is_folder)
    err = tg__ask_select(in->columns, args + 1, 1, &w->selection,
                         e); /* one that is not among them: what ranks there are */
  if (in->is_folder) tg__ask_end(&w->selection);
  if (!err) err = in->is_folder ? ask->access->each(in->trace, count_trace, &c, e) : count_trace(&c, in->columns, e);
  return err || c.any ? err : tg__fail(e, c.why.code, c.why.offset, "%s", c.why.text);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int64_t size_of(const struct total *x) {
  const int64_t delta = x->dur_ns[1] - x->dur_ns[0];
  return delta < 0 ? -delta : delta;
}

static bool larger_change(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__diff_totals *w = ctx;
  const int64_t x = size_of(&w->totals[a]), y = size_of(&w->totals[b]);
  if (x != y) return x > y;
  return tg__str_cmp(tg__strings_get(w->names, a), tg__strings_get(w->names, b)) < 0;
}

static const char *change_of(const struct total *x) {
  if (x->calls[0] == x->calls[1]) return "unchanged";
  if (!x->calls[0]) return "added";
  if (!x->calls[1]) return "deleted";
  return x->calls[1] > x->calls[0] ? "increased" : "decreased";
}

static enum tg_err put_totals(const struct tg__diff_totals *w, struct tg_table *out, struct tg_error *e) {
  uint32_t *order = tg__order_new(w->count, larger_change, w);
  if (!order) {
    tg__free(order);
    return tg__no_memory(e, "sorting");
  }
  tg__table_add_column(out, "name", TG_TEXT, "");
  static const char *const columns[] = {"calls_a",    "total_a_ns",  "calls_b",
                                        "total_b_ns", "calls_delta", "total_delta_ns"};
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
    tg__table_add_column(out, columns[c], TG_INT, c & 1 ? "ns" : "");
  tg__table_add_column(out, "change", TG_TEXT, "");
  for (size_t i = 0; i < w->count; i++) {
    const struct total *x = &w->totals[order[i]];
    tg__put_text(out, tg__strings_get(w->names, order[i]));
    for (int side = 0; side < TG__SIDES; side++) {
      tg__put_int(out, x->calls[side]);
      tg__put_int(out, x->dur_ns[side]);
    }
    tg__put_int(out, x->calls[1] - x->calls[0]);
    tg__put_int(out, x->dur_ns[1] - x->dur_ns[0]);
    tg__put_cstr(out, change_of(x));
  }
  tg__free(order);
  return TG_OK;
}

static enum tg_err parse(struct tg__diff_totals *w, const struct tg__diff_ask *ask, struct tg_error *e) {
  const char *device = tg__diff_arg(ask, "device");
  w->short_names = strcmp(tg__diff_arg(ask, "by"), "short_name") == 0;
  w->count_trace = count_exactly;
  w->device = strcmp(device, "cpu") == 0   ? TG__DIFF_ON_CPU
              : strcmp(device, "gpu") == 0 ? TG__DIFF_ON_GPU
                                           : TG__DIFF_ON_ALL;
  if (w->device == TG__DIFF_ON_ALL && strcmp(device, "all") != 0)
    return tg__fail(e, TG_USAGE, -1, "device=%.60s: there are all, cpu and gpu", device);
  return tg__diff_rules(tg__diff_arg(ask, "rules"), &w->count_trace, e);
}

enum tg_err tg__diff_totals(const struct tg__diff_input *const sides[TG__SIDES], const struct tg__diff_ask *ask,
                            struct tg_table *out, struct tg_error *e) {
  struct tg__diff_totals w = {.names = tg__strings_new()};
  enum tg_err err = w.names ? parse(&w, ask, e) : tg__no_memory(e, "comparing");
  for (int side = 0; !err && side < TG__SIDES; side++) {
    w.side = side;
    err = tg__diff_side_lacks(side, count_side(&w, sides[side], ask, e), e);
  }
  if (!err) err = put_totals(&w, out, e);
  tg__strings_free(w.names);
  tg__free(w.totals);
  return err;
}
