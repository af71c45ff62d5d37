/* Which lines of the program call which operators, how often, and what that costs in forward and in backward. */
#include "diagnose/sites.h"

enum { TOGETHER = 16 };
static const char node_prefix[] = "autograd::engine::evaluate_function: ";

struct walk {
  struct tg__sites *s;
  const struct tg__columns *t;
  struct tg__map by_key, by_path; /* (path, name) mixed with module → site; stack text → path */
  uint32_t first;                 /* slice of the rank from which the arrays below count */
  uint32_t *path_at;              /* by slice: the path of frames around it, itself included when it is a frame */
  uint32_t *module_at;            /* by slice: name of the innermost module, TG_NONE */
  uint32_t *call_at;              /* by slice: its outermost operator's call, TG_NONE */
  int64_t busy_until;             /* end of the outermost operator */
  int64_t update_until, clear_until, load_until;
};

/* ---- paths ----------------------------------------------------------------------------------- */

/* "a.py(1): f;b.py(2): g" from the inside out becomes a path from the outside in. */
static uint32_t path_of_stack(struct walk *w, uint32_t stack) {
  uint32_t *known = tg__map_slot(&w->by_path, stack, TG_NONE);
  if (!known || *known != TG_NONE) return known ? *known : 0;
  const struct tg__str s = tg__name(w->t, stack);
  uint32_t path = 0, end = s.len;
  while (end > 0) {
    const char *const cut = memrchr(s.ptr, ';', end);
    const uint32_t from = cut ? (uint32_t)(cut - s.ptr) + 1 : 0;
    if (end > from)
      path =
          tg__paths_step(&w->s->paths, path, tg__paths_label(&w->s->paths, (struct tg__str){s.ptr + from, end - from}));
    end = from ? from - 1 : 0;
  }
  return *known = path;
}

static bool is_python_called(const struct walk *w, uint32_t i, unsigned what) { /* TG__NAME_FRAME, TG__NAME_MODULE */
  return tg__slice_class(w->t, i) == TG__CLASS_PYTHON && (tg__slice_meaning(w->s->f, i) & what);
}

/* "file.py(9): f", called on from line 12 of it, is the frame "file.py(12): f". Frames of torch's own in between may
 * not be recorded: then the line is of another file. */
static uint32_t frame_at_line(struct walk *w, struct tg__str frame, struct tg__str from) {
  struct tg__frame_parts p;
  const char *const colon = from.len ? memrchr(from.ptr, ':', from.len) : NULL;
  if (!colon || !tg__frame_split(frame, &p) ||
      !tg__str_eq(p.file, (struct tg__str){from.ptr, (uint32_t)(colon - from.ptr)}))
    return tg__paths_label(&w->s->paths, frame);
  char text[256];
  tg__text_format(text, sizeof text, "%.*s(%.*s): %.*s", (int)p.file.len, p.file.ptr,
                  (int)(from.ptr + from.len - colon - 1), colon + 1, (int)p.function.len, p.function.ptr);
  return tg__paths_label(&w->s->paths, (struct tg__str){text, (uint32_t)strlen(text)});
}

/* The frames around slice i, the innermost with its current line where the slice has it. */
static uint32_t path_around(struct walk *w, uint32_t i) {
  const struct tg__columns *t = w->t;
  uint32_t parent = t->slices.parent[i];
  while (parent != TG_NONE && !is_python_called(w, parent, TG__NAME_FRAME)) parent = t->slices.parent[parent];
  if (parent == TG_NONE) return 0;
  const uint32_t from = tg__arg_str(t, t->slices.args[i], TG__K_CALL_FROM), at = w->path_at[parent - w->first];
  if (from == TG_NONE || !at) return at;
  return tg__paths_step(&w->s->paths, w->s->paths.up[at],
                        frame_at_line(w, tg__slice_name(t, parent), tg__name(t, from)));
}

static void enter_module(struct walk *w, uint32_t i) {
  const struct tg__window *window = &w->s->f->steps.window;
  const int64_t start = w->t->slices.start_ns[i];
  w->module_at[i - w->first] = w->t->slices.name[i];
  uint32_t *entries = tg__map_slot(&w->s->modules, w->t->slices.name[i], 0);
  if (!entries)
    w->s->failed = true;
  else if (start >= window->start_ns && start < window->end_ns)
    ++*entries;
}

/* The innermost module around slice i. One with the same ends as the slice is around it, too, though it stands
 * behind: where modules were worked out of stacks, a call begins with its first operator and ends with its last. A
 * few may stand behind each other so. */
static uint32_t module_around(const struct walk *w, uint32_t i) {
  const struct tg__slices *s = &w->t->slices;
  const struct tg__track *track = &w->t->tracks[tg__slice_track(w->t, i)];
  uint32_t module = s->parent[i] == TG_NONE ? TG_NONE : w->module_at[s->parent[i] - w->first];
  for (uint32_t j = i + 1; j < track->first + track->count && j - i < TOGETHER && s->start_ns[j] == s->start_ns[i] &&
                           s->dur_ns[j] == s->dur_ns[i];
       j++)
    if (is_python_called(w, j, TG__NAME_MODULE)) module = s->name[j];
  return module;
}

static void note_place(struct walk *w, uint32_t i) {
  const struct tg__columns *t = w->t;
  const uint32_t parent = t->slices.parent[i], k = i - w->first;
  w->module_at[k] = module_around(w, i);
  w->call_at[k] = parent == TG_NONE ? TG_NONE : w->call_at[parent - w->first];
  if (is_python_called(w, i, TG__NAME_MODULE)) enter_module(w, i);
  if (is_python_called(w, i, TG__NAME_FRAME))
    w->path_at[k] = tg__paths_step(&w->s->paths, path_around(w, i), t->slices.name[i]);
}

static uint32_t path_of(struct walk *w, uint32_t slice) {
  const uint32_t frames = path_around(w, slice);
  const uint32_t stack = frames ? TG_NONE : tg__arg_str(w->t, w->t->slices.args[slice], TG__K_CALL_STACK);
  return stack == TG_NONE ? frames : path_of_stack(w, stack);
}

/* ---- sites ----------------------------------------------------------------------------------- */

static uint32_t site_of(struct walk *w, uint32_t slice, enum tg__call_kind kind) {
  struct tg__sites *s = w->s;
  const uint32_t path = path_of(w, slice), name = w->t->slices.name[slice], module = w->module_at[slice - w->first];
  const uint32_t key[4] = {path, name, module, (uint32_t)kind};
  uint32_t *slot = tg__map_slot(&w->by_key, tg__hash(key, sizeof key), TG_NONE);
  if (!slot || (*slot == TG_NONE && !tg__grow((void **)&s->sites, &s->cap, s->count + 1, sizeof *s->sites))) {
    s->failed = true;
    return TG_NONE;
  }
  if (*slot != TG_NONE) return *slot;
  s->sites[s->count] = (struct tg__site){.path = path,
                                         .name = name,
                                         .module = module,
                                         .slice = slice,
                                         .kind = kind,
                                         .dims = TG_NONE,
                                         .other_dims = TG_NONE,
                                         .types = TG_NONE};
  return *slot = (uint32_t)s->count++;
}

static void count_forward(struct tg__sites *s, struct tg__site *x, const struct tg__site_call *c) {
  const uint32_t slice = c->slice, dims = tg__call_arg(s, slice, TG__K_INPUT_DIMS);
  const int64_t dur = tg__call_ns(s, c);
  if (!x->calls || dur < x->shortest_ns) x->shortest_ns = dur;
  if (!x->calls) {
    x->slice = slice;
    x->types = tg__call_arg(s, slice, TG__K_INPUT_TYPE);
    x->dims = dims;
  }
  if (x->calls && dims != x->dims && x->other_dims == TG_NONE) x->other_dims = dims;
  x->calls++;
  tg__tally_add(s->f, &x->forward, slice, dur);
}

static void count_backward(const struct tg__sites *s, struct tg__site *x, const struct tg__site_call *c) {
  const int64_t dur = tg__call_ns(s, c);
  if (!x->backward_calls || dur < x->shortest_backward_ns) x->shortest_backward_ns = dur;
  x->backward_calls++;
  tg__tally_add(s->f, &x->backward, c->slice, dur);
}

uint32_t tg__forward_of(const struct tg__columns *t, uint32_t node) {
  const struct tg__slices *x = &t->slices;
  uint32_t cause = x->cause[node];
  for (uint32_t i = node + 1; cause == TG_NONE && i < x->count && x->parent[i] == node; i++) cause = x->cause[i];
  return cause;
}

/* Its call; TG_NONE. */
static uint32_t call_behind(const struct walk *w, uint32_t node) {
  const uint32_t cause = tg__forward_of(w->t, node);
  return cause == TG_NONE || cause < w->first ? TG_NONE : w->call_at[cause - w->first];
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void add_call(struct walk *w, uint32_t slice, enum tg__call_kind kind) {
  struct tg__sites *s = w->s;
  const struct tg__window *window = &s->f->steps.window;
  const int64_t start = w->t->slices.start_ns[slice];
  if (!tg__grow((void **)&s->calls, &s->call_cap, s->call_count + 1, sizeof *s->calls)) {
    s->failed = true;
    return;
  }
  struct tg__site_call *c = &s->calls[s->call_count];
  *c = (struct tg__site_call){
      .slice = slice, .site = TG_NONE, .kind = kind, .counted = start >= window->start_ns && start < window->end_ns};
  w->call_at[slice - w->first] = (uint32_t)s->call_count++;
  if (tg__is_node(c))
    c->path = path_of(w, slice); /* the site when all calls are there */
  else
    c->site = site_of(w, slice, kind);
}

/* Device work counts for the call inside which it was launched. */
static void add_device_work(struct walk *w, const struct tg__track *track) {
  TG__EACH (i, tg__slices_of(track)) {
    const uint32_t cause = w->t->slices.cause[i];
    if (!tg__class_is_device_work(tg__slice_class(w->t, i)) || cause == TG_NONE || cause < w->first) continue;
    const uint32_t call = w->call_at[cause - w->first];
    if (call != TG_NONE) w->s->calls[call].device_ns += w->t->slices.dur_ns[i];
  }
}

static bool is_counted(const struct tg__site_call *c) { return !tg__is_node(c) && c->site != TG_NONE && c->counted; }

struct inputs { /* calls of a site with the same shapes */
  uint32_t site, slice;
  int64_t ns;
};

/* Sites with different shapes stand for those with most time of all calls: the longest call is a matter of chance. */
static void choose_inputs(struct tg__sites *s) {
  struct tg__map index = {0};
  struct inputs *all = NULL;
  size_t count = 0, cap = 0;
  int64_t *const most_ns = tg__alloc((s->count + 1) * sizeof *most_ns);
  bool ok = most_ns != NULL;
  for (size_t i = 0; ok && i < s->call_count; i++) {
    const struct tg__site_call *const c = &s->calls[i];
    if (!is_counted(c) || s->sites[c->site].other_dims == TG_NONE) continue;
    const uint64_t key = (uint64_t)c->site << 32 | tg__call_arg(s, c->slice, TG__K_INPUT_DIMS);
    uint32_t *const slot = tg__map_slot(&index, key, (uint32_t)count);
    ok = slot && (*slot < count || tg__grow((void **)&all, &cap, count + 1, sizeof *all));
    if (ok && *slot == count) all[count++] = (struct inputs){c->site, c->slice, 0};
    if (ok) all[*slot].ns += tg__call_ns(s, c);
  }
  for (size_t i = 0; ok && i < count; i++) {
    struct tg__site *const x = &s->sites[all[i].site];
    if (all[i].ns <= most_ns[all[i].site]) continue;
    most_ns[all[i].site] = all[i].ns;
    x->slice = all[i].slice;
    x->types = tg__call_arg(s, all[i].slice, TG__K_INPUT_TYPE);
  }
  s->failed |= !ok;
  tg__map_free(&index);
  tg__free(all);
  tg__free(most_ns);
}

static void count_site_calls(struct tg__sites *s) {
  for (size_t i = 0; i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (is_counted(c)) count_forward(s, &s->sites[c->site], c);
  }
  choose_inputs(s);
}

static bool is_operator(const struct walk *w, uint32_t slice) {
  return tg__slice_class(w->t, slice) == TG__CLASS_OP && tg__str_contains(tg__slice_name(w->t, slice), "::");
}

bool tg__is_zero_grad(struct tg__str name) { return tg__str_has_prefix(name, "Optimizer.zero_grad#"); }

static void visit_call(struct walk *w, uint32_t i) {
  const struct tg__columns *t = w->t;
  const int64_t start = t->slices.start_ns[i], end = tg__slice_end(t, i);
  note_place(w, i);
  const struct tg__str name = tg__slice_name(t, i);
  const enum tg__class cls = tg__slice_class(t, i);
  if (tg__class_is_range(cls)) {
    const unsigned meaning = tg__names_of(&w->s->f->names, t->slices.name[i]);
    if (meaning & TG__NAME_OPTIMIZER_STEP) w->update_until = end;
    if (meaning & TG__NAME_DATALOADER) w->load_until = end;
    if (tg__is_zero_grad(name)) w->clear_until = end;
  }
  if (start < w->busy_until || !is_operator(w, i)) return;
  w->busy_until = end;
  const bool node = tg__str_has_prefix(name, node_prefix);
  const enum tg__call_kind kind = node && tg__str_has_suffix(name, "AccumulateGrad")    ? TG__CALL_ACCUMULATE
                                  : node                                                ? TG__CALL_BACKWARD
                                  : start < w->update_until && !tg__is_of_closure(t, i) ? TG__CALL_UPDATE
                                  : start < w->clear_until                              ? TG__CALL_CLEAR
                                  : start < w->load_until                               ? TG__CALL_LOAD
                                                                                        : TG__CALL_FORWARD;
  add_call(w, i, kind);
}

/* Backward may run on another thread than forward, and before it in the order of tracks: it is looked at last. */
static void follow_backward(struct walk *w) {
  struct tg__sites *s = w->s;
  uint32_t last = TG_NONE;
  for (size_t i = 0; i < s->call_count; i++) {
    struct tg__site_call *c = &s->calls[i];
    if (!tg__is_node(c)) continue;
    const uint32_t call = c->kind == TG__CALL_BACKWARD ? call_behind(w, c->slice) : TG_NONE;
    if (call != TG_NONE) last = s->calls[call].site;
    c->site = last;
    if (last != TG_NONE && c->counted) count_backward(s, &s->sites[last], c);
  }
}

/* Worker processes go on beside the loop: what they call is no part of its steps. */
static bool is_beside(const struct tg__facts *f, const struct tg__track *track) {
  const uint32_t loop = tg__loop_track(f);
  return loop != TG_NONE && track->pid != f->t->tracks[loop].pid;
}

void tg__sites_open(struct tg__facts *f, struct tg__sites *out) {
  const struct tg__columns *t = f->t;
  const struct tg__rank *r = &t->ranks[f->rank];
  *out = (struct tg__sites){.f = f};
  if (!tg__paths_open(&out->paths, t)) out->failed = true;
  if (!r->track_count || out->failed) return;
  const struct tg__extent run = tg__rank_slices(t, f->rank);
  struct walk w = {.s = out, .t = t, .first = run.first};
  const size_t n = (size_t)(run.past - run.first) + 1;
  w.path_at = tg__alloc(n * sizeof *w.path_at);
  w.module_at = tg__alloc(n * sizeof *w.module_at);
  w.call_at = tg__alloc(n * sizeof *w.call_at);
  out->failed = !w.path_at || !w.module_at || !w.call_at;
  for (uint32_t k = 0; !out->failed && k < r->track_count; k++) {
    const struct tg__track *track = &t->tracks[r->first_track + k];
    w.busy_until = w.update_until = w.clear_until = w.load_until = INT64_MIN;
    if (track->kind != TG__TRACK_CPU || is_beside(f, track)) continue;
    TG__EACH (i, tg__slices_of(track)) visit_call(&w, i);
  }
  for (uint32_t k = 0; !out->failed && out->f->device_bound && k < r->track_count; k++)
    if (t->tracks[r->first_track + k].kind == TG__TRACK_DEVICE) add_device_work(&w, &t->tracks[r->first_track + k]);
  if (!out->failed) count_site_calls(out);
  if (!out->failed) follow_backward(&w);
  for (size_t i = 0; i < out->count; i++) {
    out->sites[i].forward_ns = tg__tally_sum(f, &out->sites[i].forward);
    out->sites[i].backward_ns = tg__tally_sum(f, &out->sites[i].backward);
  }
  out->failed |= out->paths.failed;
  tg__map_free(&w.by_key);
  tg__map_free(&w.by_path);
  tg__free(w.path_at);
  tg__free(w.module_at);
  tg__free(w.call_at);
}

void tg__sites_close(struct tg__sites *s) {
  tg__paths_close(&s->paths);
  tg__map_free(&s->modules);
  tg__free(s->calls);
  tg__free(s->sites);
}

/* ---- looking at them ------------------------------------------------------------------------- */

struct tg__str tg__site_name(const struct tg__sites *s, const struct tg__site *x) { return tg__name(s->f->t, x->name); }

struct tg__str tg__site_frame(const struct tg__sites *s, const struct tg__site *x) {
  for (uint32_t p = x->path; p; p = s->paths.up[p]) {
    const struct tg__str frame = tg__paths_text(&s->paths, s->paths.label[p]);
    if (tg__is_user_frame(frame)) return frame;
  }
  return TG_STR("");
}

bool tg__frame_split(struct tg__str frame, struct tg__frame_parts *out) {
  const char *const open = frame.len ? memchr(frame.ptr, '(', frame.len) : NULL, *const end = frame.ptr + frame.len;
  const char *const close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
  if (!close || close == open + 1) return false;
  for (const char *p = open + 1; p < close; p++)
    if (*p < '0' || *p > '9') return false;
  const char *function = close + 1;
  while (function < end && (*function == ':' || *function == ' ')) function++;
  *out = (struct tg__frame_parts){.file = {frame.ptr, (uint32_t)(open - frame.ptr)},
                                  .line = {open + 1, (uint32_t)(close - open - 1)},
                                  .function = {function, (uint32_t)(end - function)}};
  return true;
}

uint32_t tg__call_arg(const struct tg__sites *s, uint32_t slice, uint32_t key) {
  const struct tg__columns *t = s->f->t;
  const uint32_t own = tg__arg_str(t, t->slices.args[slice], key);
  if (own != TG_NONE || slice + 1 >= t->slices.count || t->slices.parent[slice + 1] != slice) return own;
  return tg__arg_str(t, t->slices.args[slice + 1], key);
}

const char *tg__if_backward(const struct tg__sites *s, const bool *in, const char *text) {
  for (size_t i = 0; i < s->count; i++)
    if (in[i] && s->sites[i].backward_calls) return text;
  return "";
}

unsigned tg__call_shapes(const struct tg__sites *s, uint32_t slice, struct tg__shape shapes[]) {
  const uint32_t dims = tg__call_arg(s, slice, TG__K_INPUT_DIMS);
  return dims == TG_NONE ? 0 : tg__shapes_read(tg__name(s->f->t, dims), shapes);
}

uint64_t tg__frame_key(const struct tg__sites *s, uint32_t path) {
  const struct tg__str frame = tg__paths_text(&s->paths, s->paths.label[path]);
  struct tg__frame_parts p;
  if (!tg__is_user_frame(frame) || !tg__frame_split(frame, &p)) return 0;
  const uint64_t parts[3] = {s->paths.up[path], tg__hash(p.file.ptr, p.file.len),
                             tg__hash(p.function.ptr, p.function.len)};
  return tg__hash(parts, sizeof parts);
}

uint64_t tg__site_function(const struct tg__sites *s, const struct tg__site *x, uint32_t *at) {
  uint64_t key = 0;
  uint32_t p = x->path;
  while (p && !(key = tg__frame_key(s, p))) p = s->paths.up[p];
  if (at) *at = p;
  return key;
}

uint32_t tg__site_in_frame(const struct tg__sites *s, const struct tg__site *x, uint64_t key) {
  uint32_t p = x->path;
  while (p && tg__frame_key(s, p) != key) p = s->paths.up[p];
  return p;
}

uint64_t tg__common_frame(const struct tg__sites *s, uint32_t path, uint32_t site) {
  for (; path; path = s->paths.up[path]) {
    const uint64_t key = tg__frame_key(s, path);
    if (key && tg__site_in_frame(s, &s->sites[site], key)) return key;
  }
  return 0;
}

void tg__say_site(const struct tg__sites *s, uint32_t site, uint64_t key, struct tg__finding *out) {
  const struct tg__site *x = &s->sites[site];
  const uint32_t in = key ? tg__site_in_frame(s, x, key) : 0;
  const struct tg__str frame = in ? tg__paths_text(&s->paths, s->paths.label[in]) : tg__site_frame(s, x),
                       name = tg__site_name(s, x);
  if (frame.len)
    TG_FORMAT(out->where, "%.*s at %.*s", (int)(name.len < 90 ? name.len : 90), name.ptr, (int)frame.len, frame.ptr);
  else
    TG_FORMAT(out->where, "%.*s", (int)name.len, name.ptr);
}

uint32_t tg__sum_sites(const struct tg__sites *s, const bool *in, int64_t *ns, int64_t *calls) {
  uint32_t top = TG_NONE;
  *ns = *calls = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (!in[i]) continue;
    *ns += tg__site_ns(&s->sites[i]);
    *calls += s->sites[i].calls;
    if (top == TG_NONE || tg__site_ns(&s->sites[i]) > tg__site_ns(&s->sites[top])) top = i;
  }
  return top;
}

struct tg__finding *tg__find_at(const struct tg__sites *s, enum tg__cause cause, double least_pct, int64_t sum_ns,
                                uint32_t top) {
  struct tg__finding *const x = top == TG_NONE ? NULL : tg__find_above(s->f, cause, least_pct, sum_ns);
  if (x) tg__say_site(s, top, 0, x);
  return x;
}

void tg__report_sites(struct tg__sites *s, const bool *in, struct tg__finding *x) {
  tg__claim_sites(s, in, x);
  for (size_t i = 0; i < s->count; i++) s->sites[i].reported |= in[i];
}

int64_t tg__pause_before(const struct tg__sites *s, size_t i, const bool *in) {
  const struct tg__site_call *const a = &s->calls[i - 1], *const b = &s->calls[i];
  if (!a->counted || !b->counted || a->site == TG_NONE || b->site == TG_NONE || !in[a->site] || !in[b->site]) return 0;
  return s->f->t->slices.start_ns[b->slice] - tg__slice_end(s->f->t, a->slice);
}
