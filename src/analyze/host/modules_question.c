/* The question modules: time, operators and memory of each module, as a tree; or of each class of modules. */
#include "analyze/host/modules.h"
#include "analyze/work/op_work.h"

struct sums { /* of only the place; then, in `total`, with the modules in it */
  int64_t calls, recomputed, ops, cpu_ns, python_ns, device_ns, backward_ops, backward_cpu_ns, backward_device_ns;
  int64_t bytes[2]; /* CPU, devices */
  double flops;     /* of only the place; */
  bool knows_flops; /* of some operator in it */
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  struct tg__op_tree tree;
  struct tg__modules modules;
  struct tg__memory_events memory;
  struct tg__memory_sums memory_of; /* by node */
  struct tg__op_work work;
  bool has_shapes; /* else no work is known */
  double all_flops;
  struct sums *self, *total;     /* by place; entry 0: outside of modules */
  uint32_t *attribute;           /* by place: string id of the module's name in its parent, TG_NONE */
  int64_t *first_kid, *next_kid; /* by place, -1 = none: in order of first arrival */
  bool has_frames;               /* else calls and Python time are not known */
  int64_t all_ns;
  bool of_device; /* all_ns is device time */
};

/* ---- counting -------------------------------------------------------------------------------- */

static void count_frame(struct work *w, uint32_t node) {
  const struct tg__op_node *n = &w->tree.nodes[node];
  const uint32_t place = w->modules.place[node];
  struct sums *s = &w->self[place];
  const int64_t own = w->t->slices.dur_ns[n->slice] - n->kids_ns;
  w->has_frames = true;
  if (w->modules.in_backward[node]) {
    s->recomputed++;
    s->backward_cpu_ns += own;
  } else {
    s->calls++;
    s->cpu_ns += own;
    s->python_ns += own;
  }
  const uint32_t attribute = tg__arg_str(w->t, w->t->slices.args[n->slice], TG__K_MODULE_PATH);
  if (attribute != TG_NONE) w->attribute[place] = attribute;
}

static void count_op(struct work *w, uint32_t node) {
  const struct tg__op_node *n = &w->tree.nodes[node];
  const uint32_t place = w->modules.place[node];
  const bool is_first = n->in_table && (n->parent == TG_NONE || !w->tree.nodes[n->parent].is_op);
  struct sums *s = &w->self[place];
  const int64_t own = w->t->slices.dur_ns[n->slice] - n->kids_ns;
  const uint32_t work = w->has_shapes ? w->work.work_of[node] : TG_NONE;
  if (work != TG_NONE) {
    s->flops += (double)w->work.works[work].flops;
    s->knows_flops = true;
  }
  if (place && w->modules.in_backward[node]) {
    s->backward_cpu_ns += own;
    s->backward_ops += is_first;
    return;
  }
  s->cpu_ns += own;
  s->ops += is_first;
  for (int d = 0; d < 2 && w->memory_of.self; d++) s->bytes[d] += w->memory_of.self[node][d];
}

static void count_track(struct work *w, uint32_t track) {
  const struct tg__track *tr = &w->t->tracks[track];
  for (uint32_t i = w->tree.first[track]; i < w->tree.first[track + 1]; i++) {
    const struct tg__op_node *n = &w->tree.nodes[i];
    if (n->absorbed_by != TG_NONE || !tg__ask_has_slice(w->ask, w->t, track, n->slice)) continue;
    if (n->is_op)
      count_op(w, i);
    else if (tg__modules_is_frame(&w->modules, n->slice))
      count_frame(w, i);
  }
  TG__EACH (i, tg__slices_of(tr)) {
    if (!tg__class_is_device_work(tg__slice_class(w->t, i)) || !tg__ask_has_slice(w->ask, w->t, track, i)) continue;
    bool backward;
    struct sums *s = &w->self[tg__modules_of_device_work(&w->modules, i, &backward)];
    *(backward ? &s->backward_device_ns : &s->device_ns) += w->t->slices.dur_ns[i];
  }
}

static void add_to(struct sums *to, const struct sums *s) {
  to->cpu_ns += s->cpu_ns;
  to->device_ns += s->device_ns;
  to->backward_cpu_ns += s->backward_cpu_ns;
  to->backward_device_ns += s->backward_device_ns;
  for (int d = 0; d < 2; d++) to->bytes[d] += s->bytes[d];
}

/* A place has a larger number than the one it is in. */
static void sum_up_module(struct work *w) {
  const struct tg__paths *paths = &w->modules.paths;
  int64_t host_ns = 0, device_ns = 0;
  for (size_t i = paths->count; i-- > 0;) {
    const struct sums *s = &w->self[i];
    host_ns += s->cpu_ns + s->backward_cpu_ns;
    device_ns += s->device_ns + s->backward_device_ns;
    w->all_flops += s->flops;
    add_to(&w->total[i], s);
    if (!i) break;
    const uint32_t up = paths->up[i];
    if (up) add_to(&w->total[up], &w->total[i]); /* place 0 holds what is outside: it takes nothing in */
    w->next_kid[i] = w->first_kid[up];
    w->first_kid[up] = (int64_t)i;
  }
  w->of_device = device_ns > 0;
  w->all_ns = w->of_device ? device_ns : host_ns;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct line {
  struct tg__str name;
  uint32_t rank;            /* index, TG_NONE = of several */
  int64_t depth;            /* TG_NULL_INT: no tree */
  struct tg__str attribute; /* empty: not known */
  const struct sums *self, *total;
};

static int64_t share_of(const struct work *w, const struct sums *s) {
  return w->of_device ? s->device_ns + s->backward_device_ns : s->cpu_ns + s->backward_cpu_ns;
}

static void put_pct(const struct work *w, const struct sums *s, struct tg_table *out) {
  if (w->all_ns > 0)
    tg__put_real(out, 100.0 * (double)share_of(w, s) / (double)w->all_ns);
  else
    tg__put_null(out);
}

static void put_module_line(const struct work *w, const struct line *l, struct tg_table *out) {
  if (l->rank == TG_NONE)
    tg__put_null(out);
  else
    tg__put_rank(out, w->t, l->rank);
  tg__put_text(out, l->name);
  tg__put_int(out, l->depth);
  if (l->attribute.len)
    tg__put_text(out, l->attribute);
  else
    tg__put_null(out);
  const bool is_script = tg__str_contains(l->name, "::");       /* modules of TorchScript have no frames */
  const bool is_called = l->self->calls || l->self->recomputed; /* those of compiled code are not */
  const bool frames = w->has_frames && l->self != &w->self[0] && !is_script && is_called;
  tg__put_int(out, frames ? l->self->calls : TG_NULL_INT);
  tg__put_int(out, frames && l->self->recomputed ? l->self->recomputed : TG_NULL_INT);
  put_pct(w, l->total, out);
  put_pct(w, l->self, out);
  tg__put_int(out, l->self->ops);
  tg__put_int(out, l->total->cpu_ns);
  tg__put_int(out, l->self->cpu_ns);
  tg__put_int(out, frames ? l->self->python_ns : TG_NULL_INT);
  tg__put_int(out, l->total->device_ns);
  tg__put_int(out, l->self->device_ns);
  tg__put_int(out, l->self->backward_ops);
  tg__put_int(out, l->total->backward_cpu_ns);
  tg__put_int(out, l->self->backward_cpu_ns);
  tg__put_int(out, l->total->backward_device_ns);
  tg__put_int(out, l->self->backward_device_ns);
  for (int d = 0; d < 2; d++) tg__put_int(out, w->memory_of.self ? l->total->bytes[d] : TG_NULL_INT);
  tg__put_int(out, l->self->knows_flops && l->self->flops < 9e18 ? (int64_t)l->self->flops : TG_NULL_INT);
  tg__put_real_if(out, l->self->knows_flops && w->all_flops > 0, 100 * l->self->flops / w->all_flops);
}

static void put_outside(const struct work *w, struct tg_table *out) {
  const struct line l = {TG_STR("(outside of modules)"), TG_NONE, TG_NULL_INT, TG_STR(""), &w->self[0], &w->total[0]};
  put_module_line(w, &l, out);
}

/* Calls `see` for every place, parents first, kids in order of arrival; 1 on the way in, -1 on the way out. */
static void walk(struct work *w, void (*see)(struct work *w, uint32_t place, int64_t depth, int way, void *ctx),
                 void *ctx) {
  int64_t depth = -1; /* ranks are no rows */
  for (int64_t at = w->first_kid[0]; at >= 0;) {
    if (depth >= 0) see(w, (uint32_t)at, depth, 1, ctx);
    if (w->first_kid[at] >= 0) {
      at = w->first_kid[at];
      depth++;
      continue;
    }
    while (at > 0) {
      if (depth >= 0) see(w, (uint32_t)at, depth, -1, ctx);
      if (w->next_kid[at] >= 0) break;
      at = w->modules.paths.up[at];
      depth--;
    }
    at = at > 0 ? w->next_kid[at] : -1;
  }
}

static uint32_t module_rank_of(const struct work *w, uint32_t place) {
  const struct tg__paths *paths = &w->modules.paths;
  while (paths->up[place]) place = paths->up[place];
  return paths->label[place];
}

struct tree_rows {
  struct tg_table *out;
  uint32_t rank;
};

/* Nothing of it lies in the steps asked for. */
static bool is_empty(const struct sums *self, const struct sums *total) {
  return !self->calls && !self->recomputed && !total->cpu_ns && !total->device_ns && !total->backward_cpu_ns &&
         !total->backward_device_ns;
}

static void see_for_tree(struct work *w, uint32_t place, int64_t depth, int way, void *ctx) {
  struct tree_rows *rows = ctx;
  if (way < 0) return;
  if (depth == 0) rows->rank = module_rank_of(w, place);
  if (!tg__ask_has_rank(w->ask, rows->rank) || is_empty(&w->self[place], &w->total[place])) return;
  struct line l = {.name = tg__paths_text(&w->modules.paths, w->modules.paths.label[place]),
                   .rank = rows->rank,
                   .depth = depth,
                   .self = &w->self[place],
                   .total = &w->total[place]};
  const struct tg__str cls = tg__module_class(l.name, &l.attribute);
  if (l.attribute.len) l.name = cls;
  if (w->attribute[place] != TG_NONE) l.attribute = tg__name(w->t, w->attribute[place]);
  put_module_line(w, &l, rows->out);
}

/* ---- by class -------------------------------------------------------------------------------- */

struct class_row {
  struct tg__str name;
  struct sums self, total;
  uint32_t open; /* places of this class around the one at hand: what is in them is in their totals */
};
struct classes {
  struct class_row *rows;
  size_t count, cap;
  struct tg__strings *names;
  bool failed;
};

static void see_for_class(struct work *w, uint32_t place, int64_t depth, int way, void *ctx) {
  struct classes *c = ctx;
  (void)depth;
  struct tg__str attribute;
  const struct tg__str module = tg__paths_text(&w->modules.paths, w->modules.paths.label[place]);
  const struct tg__str name = tg__module_class(module, &attribute);
  const uint32_t id = tg__strings_add(c->names, name.ptr, name.len);
  if (id == TG_NONE || (id == c->count && !tg__grow((void **)&c->rows, &c->cap, c->count + 1, sizeof *c->rows))) {
    c->failed = true;
    return;
  }
  if (id == c->count) c->rows[c->count++] = (struct class_row){.name = name};
  struct class_row *r = &c->rows[id];
  if (way < 0) {
    r->open--;
    return;
  }
  const struct sums *s = &w->self[place];
  add_to(&r->self, s);
  r->self.calls += s->calls;
  r->self.recomputed += s->recomputed;
  r->self.ops += s->ops;
  r->self.flops += s->flops;
  r->self.knows_flops |= s->knows_flops;
  r->self.python_ns += s->python_ns;
  r->self.backward_ops += s->backward_ops;
  if (r->open++ == 0) add_to(&r->total, &w->total[place]);
}

struct class_order {
  const struct work *w;
  const struct classes *c;
};

static bool class_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct class_order *o = ctx;
  return share_of(o->w, &o->c->rows[a].self) > share_of(o->w, &o->c->rows[b].self);
}

static enum tg_err put_classes(struct work *w, struct tg_table *out) {
  struct classes c = {.names = tg__strings_new()};
  uint32_t *order = NULL;
  enum tg_err err = TG_MEMORY;
  if (!c.names) return TG_MEMORY;
  walk(w, see_for_class, &c);
  const struct class_order by = {w, &c};
  if (c.failed || !(order = tg__order_new(c.count, class_before, &by))) goto done;
  for (size_t i = 0; i < c.count; i++) {
    const struct class_row *r = &c.rows[order[i]];
    const struct line l = {r->name, TG_NONE, TG_NULL_INT, TG_STR(""), &r->self, &r->total};
    put_module_line(w, &l, out);
  }
  err = TG_OK;
done:
  tg__free(order);
  tg__free(c.rows);
  tg__strings_free(c.names);
  return err;
}

/* ---- answering ------------------------------------------------------------------------------- */

static enum tg_err prepare_module(struct work *w) {
  enum tg_err err = tg__op_tree_build(w->t, &w->tree);
  if (!err) err = tg__modules_open(&w->modules, w->t, tg__rank_range_of(w->t, w->ask->rank), &w->tree);
  if (!err) err = tg__memory_events_read(w->t, w->ask, &w->tree, &w->memory);
  if (!err) err = tg__memory_sum(&w->tree, tg__rank_range_of(w->t, w->ask->rank), &w->memory, &w->memory_of);
  if (!err) err = tg__op_work_has_shapes(w->t, &w->has_shapes);
  if (!err && w->has_shapes) err = tg__op_work_build(w->t, tg__rank_range_of(w->t, w->ask->rank), &w->tree, &w->work);
  if (err) return err;
  const size_t places = w->modules.paths.count;
  w->self = tg__alloc(places * sizeof *w->self);
  w->total = tg__alloc(places * sizeof *w->total);
  w->attribute = tg__alloc(places * sizeof *w->attribute);
  w->first_kid = tg__alloc(places * sizeof *w->first_kid);
  w->next_kid = tg__alloc(places * sizeof *w->next_kid);
  if (!w->self || !w->total || !w->attribute || !w->first_kid || !w->next_kid) return TG_MEMORY;
  for (size_t i = 0; i < places; i++) {
    w->attribute[i] = TG_NONE;
    w->first_kid[i] = w->next_kid[i] = -1;
  }
  return TG_OK;
}

static enum tg_err answer_module(struct work *w, bool by_class, struct tg_table *out) {
  for (uint32_t k = 0; k < w->t->track_count; k++)
    if (tg__ask_has_rank(w->ask, w->t->tracks[k].rank)) count_track(w, k);
  sum_up_module(w);
  enum tg_err err = TG_OK;
  if (by_class) {
    err = put_classes(w, out);
  } else {
    struct tree_rows rows = {.out = out};
    walk(w, see_for_tree, &rows);
    out->is_tree = true;
  }
  if (!err) put_outside(w, out);
  tg__table_note(out, "pct and self_pct are shares of %s, forward and backward",
                 w->of_device ? "device time" : "host time");
  return err;
}

enum tg_err tg__answer_modules(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  static const char *const choices[] = {"tree", "class"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .ask = a};
  bool any;
  err = tg__modules_have_names(t, &any);
  if (!err && any) {
    err = prepare_module(&w);
    any = w.modules.any;
  }
  if (!err && !any)
    err = tg__fail(e, TG_NO_DATA, -1,
                   "the trace names no modules, which modules is about; record with tachograph's with_modules=True, or "
                   "with torch.profiler's "
                   "with_stack=True");
  else if (!err)
    err = answer_module(&w, by == 1, out);
  if (err == TG_MEMORY) tg__no_memory(e, "adding up modules");
  tg__modules_close(&w.modules);
  tg__op_tree_free(&w.tree);
  tg__memory_events_free(&w.memory);
  tg__memory_sums_free(&w.memory_of);
  tg__op_work_free(&w.work);
  tg__free(w.self);
  tg__free(w.total);
  tg__free(w.attribute);
  tg__free(w.first_kid);
  tg__free(w.next_kid);
  return err;
}
