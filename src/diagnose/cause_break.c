/* torch.compile breaks a function into several graphs: its range of the compiled function then has others inside,
 * one for each part that goes on behind a break, and between the graphs Python and operators run as if nothing had
 * been compiled. */
#include "diagnose/sites.h"

enum { BREAK_PCT = 5, PLACES = 32 };

struct place {
  struct tg__str frame;
  int64_t ns, times;
};
struct breaks {
  struct tg__facts *f;
  uint32_t track;
  int64_t outer_end, graph_end; /* of the call that is looked at, and of the last graph in it, INT64_MIN = none yet */
  struct tg__tally ns;
  int64_t times;
  bool is_broken;             /* since that graph another part has begun */
  struct tg__str op, resumed; /* frames since that graph: of the first operator, of what called the new part */
  struct place places[PLACES];
  size_t count;
};

bool tg__is_compiled_range(struct tg__str name) {
  return tg__name_is_compiled_region(name) || tg__name_is_compiled_graph(name);
}

bool tg__is_in_compiled(const struct tg__columns *t, uint32_t slice) {
  while (slice != TG_NONE && !tg__is_compiled_range(tg__slice_name(t, slice))) slice = t->slices.parent[slice];
  return slice != TG_NONE;
}

/* The frames that go on behind a break are called torch_dynamo_resume_in_NAME_at_LINE. */
static struct tg__str function_name(struct tg__str name) {
  static const char prefix[] = "torch_dynamo_resume_in_";
  if (!tg__str_has_prefix(name, prefix)) return name;
  name = (struct tg__str){name.ptr + sizeof prefix - 1, name.len - (uint32_t)(sizeof prefix - 1)};
  for (uint32_t i = name.len; i-- > 4;)
    if (memcmp(name.ptr + i - 4, "_at_", 4) == 0) return (struct tg__str){name.ptr, i - 4};
  return name;
}

static void count_break(struct breaks *b, uint32_t slice, int64_t ns) {
  const struct tg__str frame = b->op.len ? b->op : b->resumed;
  size_t i = 0;
  while (i < b->count && !tg__str_eq(b->places[i].frame, frame)) i++;
  tg__tally_add(b->f, &b->ns, slice, ns);
  b->times++;
  if (i == PLACES) return;
  if (i == b->count) b->places[b->count++] = (struct place){.frame = frame};
  b->places[i].ns += ns;
  b->places[i].times++;
}

/* Something that ends at end_ns and is no work between graphs. */
static void next_graph(struct breaks *b, int64_t end_ns) {
  b->graph_end = end_ns;
  b->is_broken = false;
  b->op = b->resumed = TG_STR("");
}

static void visit_break(struct breaks *b, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = b->f->t;
  if (!tg__class_is_range(cls)) return;
  const struct tg__str name = tg__slice_name(t, slice);
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  const bool is_inside = tg__slice_track(t, slice) == b->track && start < b->outer_end;
  if (tg__name_is_compiled_region(name) && !is_inside) {
    next_graph(b, INT64_MIN);
    b->track = tg__slice_track(t, slice);
    b->outer_end = end;
  }
  if (!is_inside || start < b->graph_end) return;
  if (tg__name_is_compiled_region(name)) {
    b->is_broken = true;
    b->resumed = tg__user_frame(t, slice);
  } else if (tg__name_is_compiled_graph(name)) {
    if (b->is_broken && b->graph_end != INT64_MIN) count_break(b, slice, start - b->graph_end);
    next_graph(b, end);
  } else if (tg__is_compiling(name)) {
    next_graph(b, end);
  } else if (!b->op.len && tg__str_has_prefix(name, "aten::")) {
    b->op = tg__user_frame(t, slice);
  }
}

void tg__judge_breaks(struct tg__facts *f) {
  struct breaks b = {.f = f, .track = TG_NONE, .outer_end = INT64_MIN};
  TG__EACH_IN_STEPS (w, f) visit_break(&b, w.slice, w.cls);
  const int64_t ns = tg__tally_sum(f, &b.ns);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_GRAPH_BREAK, BREAK_PCT, ns);
  if (!x) return;
  const struct place *top = b.places;
  for (size_t i = 1; i < b.count; i++) top = b.places[i].ns > top->ns ? &b.places[i] : top;
  struct tg__frame_parts p;
  if (tg__frame_split(top->frame, &p)) {
    const struct tg__str function = function_name(p.function);
    TG_FORMAT(x->where, "%.*s(%.*s): %.*s", (int)p.file.len, p.file.ptr, (int)p.line.len, p.line.ptr, (int)function.len,
              function.ptr);
  }
  TG_FORMAT(
      x->evidence,
      "what torch.compile made is left and entered again %lld times %s, %lld of them there: %.2f ms (%.1f %%) pass "
      "between its graphs",
      (long long)tg__per_step(f, b.times), tg__period_per(f), (long long)tg__per_step(f, top->times),
      tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice, "TORCH_LOGS=graph_breaks names the reasons. Take print(), .item(), NumPy and branches on values "
                       "(torch.where instead of if) out of "
                       "what is compiled.");
  tg__finding_expect(f, x, ns, 0.7, "the time between the graphs of one call; what more could be fused comes on top");
}
