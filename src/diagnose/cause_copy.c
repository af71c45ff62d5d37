/* Tensors that are copied although nothing asks for it: grown by concatenation, cloned and then left as they are,
 * brought into another layout and back, or the whole model at once. */
#include "diagnose/sites.h"

enum { COPY_PCT = 5, LINKS = 8, RECENT = 16, LARGE = 1024 };

/* ---- grown by concatenation ------------------------------------------------------------------ */

static const char *const joins[] = {"aten::cat",    "aten::concat", "aten::concatenate", "aten::hstack",
                                    "aten::vstack", "aten::dstack", "aten::column_stack"};

struct growth {            /* of one site */
  uint64_t recent[RECENT]; /* shapes that came out last */
  unsigned next;
  int64_t calls, links; /* links: calls that were given what an earlier one made */
  double old, all;      /* elements, of calls that are links: given back to it, and in all */
};

static uint64_t shape_key(const struct tg__shape *x) { return tg__hash(x->dim, x->rank * sizeof *x->dim) | 1; }

static int64_t dimension_of(const struct tg__sites *s, uint32_t slice, struct tg__str name, unsigned rank) {
  int64_t dim = tg__str_eq(name, TG_STR("aten::hstack")) && rank > 1;
  const uint32_t values = tg__call_arg(s, slice, TG__K_CONCRETE_INPUTS);
  if (values != TG_NONE) tg__list_int(tg__name(s->f->t, values), 1, &dim);
  return dim < 0 ? dim + rank : dim;
}

static void look_at_join(const struct tg__sites *s, const struct tg__site_call *c, struct growth *g) {
  const uint32_t dims = tg__call_arg(s, c->slice, TG__K_INPUT_DIMS);
  struct tg__shape out = {0}, in;
  struct tg__tensor_list list;
  double old = 0, all = 0;
  if (dims == TG_NONE) return;
  for (tg__list_begin(&list, tg__name(s->f->t, dims), 0); tg__list_next(&list, &in);) {
    const int64_t elements = tg__shape_elements(&in);
    if (!in.rank || elements <= 0) continue;
    for (unsigned k = 0; k < RECENT; k++)
      if (g->recent[k] == shape_key(&in) && (double)elements > old) old = (double)elements;
    all += (double)elements;
    const int64_t dim = dimension_of(s, c->slice, tg__site_name(s, &s->sites[c->site]), in.rank);
    if (!out.rank)
      out = in;
    else if (dim >= 0 && dim < out.rank && in.dim[dim] < INT64_MAX - out.dim[dim])
      out.dim[dim] += in.dim[dim];
  }
  g->calls++;
  if (old > 0 && 2 * old >= all) g->links++, g->old += old, g->all += all;
  if (!out.rank) return;
  g->recent[g->next] = shape_key(&out);
  g->next = (g->next + 1) % RECENT;
}

static void report_growth(struct tg__sites *s, const bool *in, const struct growth *growths) {
  struct tg__facts *f = s->f;
  int64_t ns, calls;
  double saving = 0, old = 0, all = 0;
  const uint32_t top = tg__sum_sites(s, in, &ns, &calls);
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_QUADRATIC_CONCAT, COPY_PCT, ns, top);
  if (!x) return;
  for (size_t i = 0; i < s->count; i++) {
    if (!in[i]) continue;
    saving += (double)tg__site_ns(&s->sites[i]) * growths[i].old / growths[i].all;
    old += growths[i].old, all += growths[i].all;
  }
  TG_FORMAT(
      x->evidence,
      "%lld calls %s join new rows to a tensor that an earlier call made, and %.0f %% of what they copy was there "
      "before: %.2f ms (%.1f %%)",
      (long long)tg__per_step(f, calls), tg__period_per(f), 100 * old / all, tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice,
            "Gather the pieces in a list and join them once, torch.cat(pieces), or make the whole tensor first "
            "and fill it slice by slice.");
  tg__expect_at_sites(f, x, (int64_t)saving, 0.85, "of the time of these calls the part of what was there before");
  tg__report_sites(s, in, x);
}

static void judge_growth(struct tg__sites *s, bool *in) {
  struct growth *const growths = tg__alloc_scratch(s->f, s->count, sizeof *growths);
  if (!growths) return;
  for (size_t i = 0; i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (tg__is_forward(c) && TG__IS_ONE_OF(tg__site_name(s, &s->sites[c->site]), joins))
      look_at_join(s, c, &growths[c->site]);
  }
  for (size_t i = 0; i < s->count; i++) in[i] = growths[i].links >= LINKS && 2 * growths[i].links >= growths[i].calls;
  report_growth(s, in, growths);
}

/* ---- brought into another layout ------------------------------------------------------------- */

/* contiguous() copies only what lies otherwise in memory; then it calls clone. */
static bool converts(const struct tg__sites *s, const struct tg__site *x) {
  const struct tg__columns *t = s->f->t;
  const uint32_t inner = x->slice + 1;
  if (!x->calls || x->kind != TG__CALL_FORWARD) return false;
  return tg__str_eq(tg__site_name(s, x), TG_STR("aten::contiguous")) && inner < t->slices.count &&
         t->slices.parent[inner] == x->slice && tg__str_eq(tg__slice_name(t, inner), TG_STR("aten::clone"));
}

/* The beginning of a list that a file may hold in several lines, as one. */
static void add_list(char *text, size_t size, const char *before, struct tg__str list) {
  enum { LONGEST = 60 };
  char tight[LONGEST + 1];
  size_t n = 0;
  for (uint32_t i = 0; i < list.len && n < LONGEST; i++) {
    const char c = list.ptr[i];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    tight[n++] = c;
    if (c == ',' && n < LONGEST) tight[n++] = ' ';
  }
  tight[n] = 0;
  tg__text_add(text, size, "%s%s", before, tight);
}

static void judge_layout(struct tg__sites *s, bool *in) {
  struct tg__facts *f = s->f;
  int64_t ns, calls;
  for (size_t i = 0; i < s->count; i++) in[i] = converts(s, &s->sites[i]);
  const uint32_t top = tg__sum_sites(s, in, &ns, &calls);
  if (calls < 2 * (int64_t)f->steps.count) return; /* once a step: the input comes like that */
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_LAYOUT_CONVERSION, COPY_PCT, ns, top);
  if (!x) return;
  const uint32_t dims = tg__call_arg(s, s->sites[top].slice, TG__K_INPUT_DIMS),
                 strides = tg__call_arg(s, s->sites[top].slice, TG__K_INPUT_STRIDES);
  TG_FORMAT(x->evidence, "%lld times %s a permuted view is copied into another order in memory: %.2f ms%s (%.1f %%)",
            (long long)tg__per_step(f, calls), tg__period_per(f), tg__ms(x->cost_ns),
            tg__if_backward(s, in, " with backward"), x->share_pct);
  if (dims != TG_NONE) add_list(x->evidence, sizeof x->evidence, "; here of inputs ", tg__name(f->t, dims));
  if (dims != TG_NONE && strides != TG_NONE)
    add_list(x->evidence, sizeof x->evidence, " with strides ", tg__name(f->t, strides));
  TG_FORMAT(x->advice,
            "Keep one layout throughout: model and input .to(memory_format=torch.channels_last), layers that "
            "take the order at hand; "
            "matrix products take transposed views as they are.");
  tg__expect_at_sites(f, x, ns, 0.6, "the time of these copies");
  tg__report_sites(s, in, x);
}

/* ---- the whole model ------------------------------------------------------------------------- */

struct input {
  int64_t bytes; /* -1: not stated */
  uint64_t kind; /* equal for tensors of one type and shape */
  bool is_storage;
};

/* Of a call's first. A storage is copied as bytes, so shapes do not show what it is of. A type that is not known counts
 * as float. */
static struct input first_input(const struct tg__sites *s, uint32_t slice) {
  struct input in = {.bytes = -1};
  struct tg__shape shapes[TG_INPUTS];
  const uint32_t types = tg__call_arg(s, slice, TG__K_INPUT_TYPE);
  struct tg__str type;
  if (types == TG_NONE || !tg__call_shapes(s, slice, shapes) || !tg__list_text(tg__name(s->f->t, types), 0, &type))
    return in;
  const int64_t elements = shapes[0].rank ? tg__shape_elements(&shapes[0]) : -1, width = tg__type_bytes(type);
  const uint64_t parts[2] = {tg__hash(type.ptr, type.len), shape_key(&shapes[0])};
  in.kind = tg__hash(parts, sizeof parts);
  in.is_storage = shapes[0].rank == 1 && tg__str_eq(type, TG_STR("unsigned char"));
  if (elements > 0 && elements < INT64_MAX / TG_WIDEST) in.bytes = elements * (width ? width : 4);
  return in;
}

struct model {
  struct tg__sites *s;
  struct tg__map sizes; /* bytes of a gradient → 1, 2 when something of that size was copied */
  struct tg__map kinds; /* of gradients → 1 */
  int64_t gradients;
  int64_t bytes, copied; /* in the window: of gradients; of copies of their sizes */
  int64_t sent;          /* elements given to collectives */
};

static const char *const copies[] = {"aten::clone", "aten::copy_", "aten::to", "aten::_to_copy"};

static void learn_model(struct model *m) {
  for (size_t i = 0; i < m->s->call_count; i++) {
    const struct tg__site_call *c = &m->s->calls[i];
    if (c->kind != TG__CALL_ACCUMULATE || !c->counted) continue;
    const struct input in = first_input(m->s, c->slice);
    if (in.bytes < 0) continue;
    m->gradients++;
    m->s->f->failed |= !tg__map_put(&m->sizes, (uint64_t)in.bytes, 1) || !tg__map_put(&m->kinds, in.kind, 1);
    if (m->bytes < INT64_MAX / 2 - in.bytes) m->bytes += in.bytes;
  }
}

/* Gradients that the program sends itself are copied into one tensor and back. */
static bool is_for_sending(const struct model *m) { return m->sent >= (m->bytes + 7) / 8; }

static void find_model_copies(struct model *m, bool *in) {
  for (size_t i = 0; i < m->s->call_count; i++) {
    const struct tg__site_call *c = &m->s->calls[i];
    if (!tg__is_forward(c)) continue;
    const struct tg__site *x = &m->s->sites[c->site];
    const uint32_t given =
        tg__str_has_prefix(tg__site_name(m->s, x), "c10d::") ? tg__call_arg(m->s, c->slice, TG__K_INPUT_DIMS) : TG_NONE;
    if (given != TG_NONE && m->sent < INT64_MAX / 16) m->sent += tg__list_elements(tg__name(m->s->f->t, given), 0);
    if (x->backward_calls || x->module != TG_NONE || !TG__IS_ONE_OF(tg__site_name(m->s, x), copies)) continue;
    const struct input of = first_input(m->s, c->slice);
    if (of.bytes < 0 || tg__map_get(&m->sizes, (uint64_t)of.bytes) == TG_NONE) continue;
    if (!of.is_storage && tg__map_get(&m->kinds, of.kind) == TG_NONE) continue; /* data that is as large by chance */
    tg__map_put(&m->sizes, (uint64_t)of.bytes, 2);
    if (m->copied < INT64_MAX / 2 - of.bytes) m->copied += of.bytes;
    in[c->site] = true;
  }
}

/* Of a model with one parameter that proves nothing: data may well have its size. */
static bool has_all_sizes(const struct model *m) {
  if (m->gradients < 2 * (int64_t)m->s->f->steps.count) return false;
  for (size_t i = 0; i < m->sizes.cap; i++)
    if (m->sizes.used[i] && m->sizes.values[i] != 2) return false;
  return m->sizes.count > 0;
}

/* What is called on the same line of the program belongs to the copying, and Python between two such calls. */
static int64_t around(const struct tg__sites *s, uint32_t top, bool *in) {
  enum { LONGEST_PAUSE_NS = 200000 };
  uint32_t line;
  tg__site_function(s, &s->sites[top], &line);
  for (size_t i = 0; line && i < s->count; i++)
    for (uint32_t p = s->sites[i].path; p && !in[i]; p = s->paths.up[p])
      in[i] = p == line && s->sites[i].kind == TG__CALL_FORWARD;
  int64_t sum = 0;
  for (size_t i = 1; i < s->call_count; i++) {
    const int64_t pause = tg__pause_before(s, i, in);
    if (pause > 0 && pause < LONGEST_PAUSE_NS) sum += pause;
  }
  return sum;
}

static void judge_model(struct tg__sites *s, bool *in) {
  struct tg__facts *f = s->f;
  struct model m = {.s = s};
  int64_t ns, calls;
  learn_model(&m);
  find_model_copies(&m, in);
  uint32_t top = tg__sum_sites(s, in, &ns, &calls);
  const bool is_full_copy = has_all_sizes(&m) && 10 * (m.copied / 9) >= m.bytes && !is_for_sending(&m);
  tg__map_free(&m.sizes);
  tg__map_free(&m.kinds);
  if (top == TG_NONE || !is_full_copy) return;
  const int64_t pauses = around(s, top, in);
  top = tg__sum_sites(s, in, &ns, &calls);
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_FULL_MODEL_COPY, COPY_PCT, ns + pauses, top);
  if (!x) return;
  TG_FORMAT(
      x->evidence,
      "%.1f MB %s are copied outside the model, tensors of every size that its parameters have (%.1f MB): %.2f ms "
      "(%.1f %%)",
      (double)tg__per_step(f, m.copied) / 1e6, tg__period_per(f), (double)tg__per_step(f, m.bytes) / 1e6,
      tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice, "Copy the model when it is needed, not in every step; keep an average in place: "
                       "torch._foreach_lerp_(averages, parameters, weight).");
  tg__expect_at_sites(f, x, ns + pauses, 0.8, "the time of these calls, and the Python between them");
  tg__report_sites(s, in, x);
}

/* ---- cloned and left as it is ---------------------------------------------------------------- */

static bool changes_in_place(const struct tg__sites *s, const struct tg__site *x) {
  const struct tg__str name = tg__site_name(s, x);
  return x->calls && x->kind == TG__CALL_FORWARD &&
         (tg__str_has_suffix(name, "_") || tg__str_has_suffix(name, "_out")) && !tg__str_has_suffix(name, "__");
}

/* What operators that work in place are given: on as many elements as a copy has, they could be meant for it. Those
 * on fewer could through a view, when the program itself calls them. */
struct changes {
  struct tg__map elements;
  int64_t fewest; /* by the program's own calls */
};

static bool look_at_changes(const struct tg__sites *s, struct changes *out) {
  *out = (struct changes){.fewest = INT64_MAX};
  for (size_t i = 0; i < s->count; i++) {
    const struct tg__site *x = &s->sites[i];
    struct tg__shape shapes[TG_INPUTS];
    if (!changes_in_place(s, x)) continue;
    const int64_t own = tg__call_shapes(s, x->slice, shapes) && shapes[0].rank ? tg__shape_elements(&shapes[0]) : 1;
    if (!tg__map_put(&out->elements, (uint64_t)own, 1)) return false;
    if (x->path && tg__frame_key(s, x->path) && own < out->fewest) out->fewest = own;
  }
  return true;
}

static bool is_changed(const struct changes *c, int64_t elements) {
  return c->fewest < elements || tg__map_get(&c->elements, (uint64_t)elements) != TG_NONE;
}

/* What each step makes there and keeps, as it says itself, was copied on purpose. */
static bool is_kept(const struct tg__sites *s, const struct tg__site *x, const struct tg_table *leaks) {
  for (size_t i = 0; leaks && i < leaks->rows; i++)
    if (tg__str_has_prefix(tg__fact_text(leaks, i, "op"), "aten::empty") &&
        tg__str_eq(tg__fact_text(leaks, i, "line"), tg__site_frame(s, x)))
      return true;
  return false;
}

static void judge_clones(struct tg__sites *s, bool *in) {
  struct tg__facts *f = s->f;
  int64_t ns, calls;
  struct changes changes;
  struct tg_table *const leaks = tg__ask_leaks(f);
  f->failed |= !look_at_changes(s, &changes);
  for (size_t i = 0; i < s->count; i++) {
    const struct tg__site *x = &s->sites[i];
    struct tg__shape shapes[TG_INPUTS];
    in[i] = x->calls >= (int64_t)f->steps.count && x->kind == TG__CALL_FORWARD && !x->reported &&
            tg__str_eq(tg__site_name(s, x), TG_STR("aten::clone")) && tg__call_shapes(s, x->slice, shapes) &&
            tg__shape_elements(&shapes[0]) >= LARGE && !is_changed(&changes, tg__shape_elements(&shapes[0])) &&
            !is_kept(s, x, leaks);
  }
  tg__map_free(&changes.elements);
  tg__table_free(leaks);
  const uint32_t top = tg__sum_sites(s, in, &ns, &calls);
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_REDUNDANT_COPY, COPY_PCT, ns, top);
  if (!x) return;
  TG_FORMAT(x->evidence,
            "%lld tensors %s are cloned, %.2f ms%s (%.1f %%), and no operator of the forward pass changes a tensor of "
            "their sizes in place",
            (long long)tg__per_step(f, calls), tg__period_per(f), tg__ms(x->cost_ns),
            tg__if_backward(s, in, " with backward"), x->share_pct);
  TG_FORMAT(x->advice, "Use the tensor itself: operators that return a new one leave it as it is, so a copy is needed "
                       "only before it is changed in place.");
  tg__expect_at_sites(f, x, ns, 0.7, "the time of these copies");
  tg__report_sites(s, in, x);
}

void tg__judge_copies(struct tg__facts *f) {
  struct tg__sites *s = !tg__has_steps(f) ? NULL : tg__facts_sites(f);
  if (!s) return;
  void (*const rules[])(struct tg__sites *, bool *) = {judge_growth, judge_layout, judge_model, judge_clones};
  bool *const in = tg__alloc_scratch(f, s->count, sizeof *in);
  for (size_t i = 0; !f->failed && i < sizeof rules / sizeof *rules; i++) {
    memset(in, 0, s->count);
    rules[i](s, in);
  }
}
