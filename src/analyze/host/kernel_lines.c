/* kernel_lines: reads the members compiled.PID: {"stacks": […], "kernels": {"3/1": {"cpp_fused_relu_0": […]}}}. Behind
 * a kernel stand the stacks of the operators that it does the work of, as Inductor writes them, or their numbers in
 * "stacks"; in "modules" in the same way the numbers of its modules in "paths". Any bytes may be in them. */
#include "analyze/host/kernel_lines.h"

#include "analyze/host/op_tree.h"

#define BACKWARD " backward"

enum { TEXTS_MOST = 64, CALLS_MOST = 100000, HOPS_MOST = 1000, ID_MOST = 64 };

struct texts {
  struct tg__str *items;
  uint32_t count, cap;
};
struct list {                          /* of one kernel of one compilation, or of all that have one name */
  struct tg__str id, name;             /* id: "3/1"; of the modules of its backward pass "3/1 backward" */
  struct texts frames, modules, calls; /* calls: the innermost module of each */
  uint32_t rank;
  struct list *next; /* with the same key */
};
struct kept {
  struct tg__arena arena;
  struct tg__map by_key; /* (rank, id, name) → place in lists */
  struct list **lists;
  size_t count, cap;
  bool is_made;
};
struct reading {
  struct kept *k;
  uint32_t rank;
  struct texts stacks, paths; /* the frame of each; the texts themselves */
  struct tg__map graphs;      /* hashes of their kernels */
  bool failed;
};

/* ---- stacks as Inductor writes them ------------------------------------------------------------ */

static const char *find_text(const char *p, const char *end, const char *needle) {
  return p < end ? memmem(p, (size_t)(end - p), needle, strlen(needle)) : NULL;
}

struct line { /* 'File "a.py", line 12, in f' */
  struct tg__str file, number, function;
};

/* The next one of [*p, end), or false; *p: behind it. */
static bool next_line(const char **p, const char *end, struct line *out) {
  static const char lead[] = "File \"", middle[] = "\", line ", tail[] = ", in ";
  for (const char *file; (file = find_text(*p, end, lead));) {
    file += sizeof lead - 1;
    const char *const newline = memchr(file, '\n', (size_t)(end - file)), *const stop = newline ? newline : end;
    const char *const quote = find_text(file, stop, middle), *const number = quote ? quote + sizeof middle - 1 : stop;
    const char *digits = number;
    while (digits < stop && *digits >= '0' && *digits <= '9') digits++;
    *p = stop;
    if (digits == number || (size_t)(stop - digits) < sizeof tail || memcmp(digits, tail, sizeof tail - 1) != 0)
      continue;
    const char *const function = digits + sizeof tail - 1;
    *out = (struct line){{file, (uint32_t)(quote - file)},
                         {number, (uint32_t)(digits - number)},
                         {function, (uint32_t)(stop - function)}};
    return true;
  }
  return false;
}

/* Into the arena; empty where there is no memory. */
static struct tg__str taken_over(struct reading *r, struct tg__out *text) {
  const char *const copy = text->err ? NULL : tg__arena_copy(&r->k->arena, text->buf, text->len);
  const struct tg__str s = copy ? (struct tg__str){copy, (uint32_t)text->len} : TG_STR("");
  r->failed |= !copy;
  tg__out_free(text);
  return s;
}

/* "a.py(12): f" */
static struct tg__str frame_of_line(struct reading *r, const struct line *x) {
  struct tg__out text = {0};
  tg__out_bytes(&text, x->file.ptr, x->file.len);
  tg__out_char(&text, '(');
  tg__out_bytes(&text, x->number.ptr, x->number.len);
  tg__out_text(&text, "): ");
  tg__out_bytes(&text, x->function.ptr, x->function.len);
  return taken_over(r, &text);
}

/* A frame of the program before one of a package, and that before one of torch. */
static int rank_of_frame(struct tg__str frame) {
  if (tg__is_user_frame(frame)) return 3;
  return tg__str_has_prefix(frame, "torch/") || tg__str_contains(frame, "/torch/") ? 1 : 2;
}

/* The innermost of the best. Where gradients of several uses are added, the uses stand behind: they are no caller. */
static struct tg__str frame_of_stack(struct reading *r, struct tg__str stack) {
  const char *const whole = stack.ptr + stack.len, *p = stack.ptr;
  const char *const uses = find_text(p, whole, "Gradient addition node"), *const end = uses ? uses : whole;
  struct tg__str best = TG_STR("");
  int best_rank = 0;
  for (struct line x; !r->failed && next_line(&p, end, &x);) {
    const struct tg__str frame = frame_of_line(r, &x);
    const int rank = rank_of_frame(frame);
    if (rank >= best_rank) best = frame, best_rank = rank;
  }
  return best;
}

/* ---- the members ------------------------------------------------------------------------------- */

static uint64_t list_key(uint32_t rank, struct tg__str id, struct tg__str name) {
  const uint64_t parts[3] = {rank, tg__hash(id.ptr, id.len), tg__hash(name.ptr, name.len)};
  return tg__hash(parts, sizeof parts);
}

static struct list *find_list(const struct kept *k, uint32_t rank, struct tg__str id, struct tg__str name) {
  const uint32_t at = tg__map_get(&k->by_key, list_key(rank, id, name));
  struct list *x = at == TG_NONE ? NULL : k->lists[at];
  while (x && !(x->rank == rank && tg__str_eq(x->id, id) && tg__str_eq(x->name, name))) x = x->next;
  return x;
}

static struct list *list_for(struct reading *r, struct tg__str id, struct tg__str name) {
  struct kept *const k = r->k;
  struct list *const known = find_list(k, r->rank, id, name);
  if (known) return known;
  struct list *const made = tg__arena_get(&k->arena, sizeof *made);
  uint32_t *const slot = tg__map_slot(&k->by_key, list_key(r->rank, id, name), TG_NONE);
  r->failed |= !made || !slot || !tg__grow((void **)&k->lists, &k->cap, k->count + 1, sizeof *k->lists);
  if (r->failed) return NULL;
  *made = (struct list){.id = id, .name = name, .rank = r->rank, .next = *slot == TG_NONE ? NULL : k->lists[*slot]};
  *slot = (uint32_t)k->count;
  k->lists[k->count++] = made;
  return made;
}

static void append(struct reading *r, struct texts *x, struct tg__str text) {
  if (x->count == x->cap) {
    const uint32_t cap = x->cap ? 2 * x->cap : 2;
    struct tg__str *const room = tg__arena_get(&r->k->arena, cap * sizeof *room);
    r->failed |= !room;
    if (!room) return;
    if (x->count) memcpy(room, x->items, x->count * sizeof *room);
    x->items = room;
    x->cap = cap;
  }
  x->items[x->count++] = text;
}

static void add_once(struct reading *r, struct texts *x, struct tg__str text) {
  if (x->count == TEXTS_MOST) return;
  for (uint32_t i = 0; i < x->count; i++)
    if (tg__str_eq(x->items[i], text)) return;
  append(r, x, text);
}

static const struct tg__str *numbered(const struct texts *x, struct tg__str value) {
  int64_t number;
  const bool is_there = tg__str_to_int(value, &number) && number >= 0 && number < (int64_t)x->count;
  return is_there ? &x->items[number] : NULL;
}

static struct tg__str frame_of_value(struct reading *r, struct tg__str value) {
  int64_t number;
  const struct tg__str *const known = numbered(&r->stacks, value);
  if (known || tg__str_to_int(value, &number)) return known ? *known : TG_STR("");
  return frame_of_stack(r, tg__member_text(&r->k->arena, value, &r->failed));
}

/* Inductor numbers the calls of a kernel: "cpp_fused_relu_0:3". */
static struct tg__str without_number(struct tg__str name) {
  uint32_t len = name.len;
  while (len && name.ptr[len - 1] >= '0' && name.ptr[len - 1] <= '9') len--;
  return len && len < name.len && name.ptr[len - 1] == ':' ? (struct tg__str){name.ptr, len - 1} : name;
}

static void read_kernel(struct reading *r, struct tg__str id, struct tg__str name, struct tg__str stacks) {
  struct list *one = NULL, *all = NULL;
  for (struct tg__members s = tg__members_of(stacks); tg__members_next(&s) && !r->failed;) {
    const struct tg__str frame = frame_of_value(r, s.value);
    if (!frame.len || r->failed) continue;
    if (!one) one = list_for(r, id, name);
    if (!all) all = list_for(r, TG_STR(""), name);
    if (one) add_once(r, &one->frames, frame);
    if (all) add_once(r, &all->frames, frame);
  }
}

static struct tg__str up_to_dot(struct tg__str s) {
  const char *const dot = s.len ? memchr(s.ptr, '.', s.len) : NULL;
  return (struct tg__str){s.ptr, dot ? (uint32_t)(dot - s.ptr) : s.len};
}

static struct tg__str behind(struct tg__str s, uint32_t skip) {
  skip = skip < s.len ? skip : s.len;
  return (struct tg__str){s.ptr + skip, s.len - skip};
}

/* "aten::addmm" of "extern_kernels.addmm", and "mkldnn::_linear" of "torch.ops.mkldnn._linear.default". */
static struct tg__str operator_of(struct reading *r, struct tg__str name) {
  static const char *const leads[] = {"extern_kernels.", "aten.", "torch.ops."};
  struct tg__str space = TG_STR("aten");
  size_t lead = 0;
  while (lead < 3 && !tg__str_has_prefix(name, leads[lead])) lead++;
  if (lead == 3) return TG_STR("");
  name = behind(name, (uint32_t)strlen(leads[lead]));
  if (lead == 2) {
    space = up_to_dot(name);
    name = behind(name, space.len + 1);
  }
  name = up_to_dot(name);
  struct tg__out text = {0};
  tg__out_bytes(&text, space.ptr, space.len);
  tg__out_text(&text, "::");
  tg__out_bytes(&text, name.ptr, name.len);
  return taken_over(r, &text);
}

/* A kernel and an operator of a library may be called several times: each call has its own place. */
static void read_modules_of(struct reading *r, struct tg__str id, struct tg__str name, struct tg__str numbers) {
  const bool is_kernel = tg__is_compiled_kernel(name);
  const struct tg__str key = is_kernel ? name : operator_of(r, name);
  struct list *const one = key.len ? list_for(r, id, key) : NULL;
  struct list *const all = is_kernel && one ? list_for(r, TG_STR(""), key) : NULL;
  struct texts here = {0};
  for (struct tg__members m = tg__members_of(numbers); one && tg__members_next(&m) && !r->failed;) {
    const struct tg__str *const path = numbered(&r->paths, m.value);
    if (!path) continue;
    add_once(r, &here, *path);
    if (!all) continue;
    add_once(r, &one->modules, *path);
    add_once(r, &all->modules, *path);
  }
  if (one && one->calls.count < CALLS_MOST)
    append(r, &one->calls, tg__common_module((struct tg__kernel_modules){here.items, here.count}));
}

static void read_modules(struct reading *r, struct tg__str id, struct tg__str kernels) {
  for (struct tg__members m = tg__members_of(kernels); tg__members_next(&m) && !r->failed;)
    read_modules_of(r, id, without_number(m.key), m.value);
}

static uint64_t hash_with(uint64_t hash, const struct tg__members *m) {
  const uint64_t parts[3] = {hash, tg__hash(m->key.ptr, m->key.len), tg__hash(m->value.ptr, m->value.len)};
  return tg__hash(parts, sizeof parts);
}

/* Inductor does not forget the kernels of a backward pass when it comes to the next one: what stands there begins with
 * the whole of an earlier graph. */
static size_t kernels_of_earlier(const struct reading *r, struct tg__str kernels) {
  size_t count = 0, of_earlier = 0;
  uint64_t hash = 0;
  for (struct tg__members m = tg__members_of(kernels); tg__members_next(&m);) {
    if (count && tg__map_get(&r->graphs, hash) != TG_NONE) of_earlier = count;
    hash = hash_with(hash, &m);
    count++;
  }
  return of_earlier;
}

static void note_graph(struct reading *r, struct tg__str kernels) {
  uint64_t hash = 0;
  for (struct tg__members m = tg__members_of(kernels); tg__members_next(&m);) hash = hash_with(hash, &m);
  r->failed |= !tg__map_put(&r->graphs, hash, 0);
}

static void read_kernels(struct reading *r, struct tg__str id, struct tg__str kernels) {
  size_t skip = kernels_of_earlier(r, kernels);
  for (struct tg__members m = tg__members_of(kernels); tg__members_next(&m) && !r->failed;)
    if (skip)
      skip--;
    else
      read_kernel(r, id, without_number(m.key), m.value);
}

static void read_member(struct reading *r, struct tg__str raw) {
  r->stacks.count = r->paths.count = 0;
  for (struct tg__members m = tg__members_of(tg__json_member(raw, "stacks")); tg__members_next(&m) && !r->failed;)
    append(r, &r->stacks, frame_of_stack(r, tg__member_text(&r->k->arena, m.value, &r->failed)));
  for (struct tg__members m = tg__members_of(tg__json_member(raw, "paths")); tg__members_next(&m) && !r->failed;)
    append(r, &r->paths, tg__member_text(&r->k->arena, m.value, &r->failed));
  const struct tg__str graphs = tg__json_member(raw, "kernels");
  for (struct tg__members m = tg__members_of(graphs); tg__members_next(&m) && !r->failed;) note_graph(r, m.value);
  for (struct tg__members m = tg__members_of(graphs); tg__members_next(&m) && !r->failed;)
    read_kernels(r, m.key, m.value);
  const struct tg__str modules = tg__json_member(raw, "modules");
  for (struct tg__members m = tg__members_of(modules); tg__members_next(&m) && !r->failed;)
    read_modules(r, m.key, m.value);
  tg__map_free(&r->graphs);
}

static void drop(struct kept *k) {
  tg__arena_free(&k->arena);
  tg__map_free(&k->by_key);
  tg__free(k->lists);
  *k = (struct kept){0};
}

static void free_kept_lines(void *item) {
  drop(item);
  tg__free(item);
}
static const struct tg__cached cached = {free_kept_lines};

/* NULL: no memory. */
static const struct kept *lines_kept(const struct tg__columns *t) {
  struct kept *const k = tg__cache_get(t, &cached, sizeof *k);
  if (!k || k->is_made) return k;
  struct reading r = {.k = k};
  for (; r.rank < t->rank_count && !r.failed; r.rank++) {
    const struct tg__rank *const rank = &t->ranks[r.rank];
    for (size_t i = 0; i < rank->meta_count && !r.failed; i++)
      if (tg__is_member_of(rank, tg__name(t, rank->meta[i].key), "compiled."))
        read_member(&r, tg__name(t, rank->meta[i].raw));
  }
  if (r.failed) drop(k);
  k->is_made = !r.failed;
  return r.failed ? NULL : k;
}

/* ---- asked for --------------------------------------------------------------------------------- */

struct tg__str tg__compiled_region(const struct tg__columns *t, uint32_t slice, bool *is_backward) {
  uint32_t s = tg__class_is_device_work(tg__slice_class(t, slice)) ? tg__launch_of(t, slice) : slice;
  bool crossed = false;
  for (unsigned hops = 0; s != TG_NONE && hops < HOPS_MOST; hops++) {
    const struct tg__str name = tg__name(t, t->slices.name[s]);
    const uint32_t skip = (uint32_t)sizeof TG__REGION_PREFIX - 1;
    if (tg__str_has_prefix(name, TG__REGION_PREFIX)) {
      if (is_backward) *is_backward = crossed;
      return (struct tg__str){name.ptr + skip, name.len - skip};
    }
    const uint32_t forward = crossed ? TG_NONE : tg__forward_of(t, s);
    crossed |= forward != TG_NONE;
    s = forward != TG_NONE ? forward : t->slices.parent[s];
  }
  return TG_STR("");
}

/* Code of the whole graph calls it "graph_3_cpp_fused_relu_0". */
static struct tg__str without_graph(struct tg__str name) {
  static const char lead[] = "graph_";
  uint32_t at = (uint32_t)sizeof lead - 1;
  if (!tg__str_has_prefix(name, lead)) return name;
  while (at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9') at++;
  if (at == sizeof lead - 1 || at + 1 >= name.len || name.ptr[at] != '_') return name;
  return (struct tg__str){name.ptr + at + 1, name.len - at - 1};
}

bool tg__is_compiled_kernel(struct tg__str name) {
  static const char *const leads[] = {"cpp_fused_",  "triton_poi_", "triton_red_", "triton_per_",
                                      "triton_tem_", "triton_for_", "triton_mm"};
  const struct tg__str plain = without_graph(name);
  for (size_t i = 0; i < sizeof leads / sizeof *leads; i++)
    if (tg__str_has_prefix(plain, leads[i])) return true;
  return false;
}

struct tg__kernel_lines tg__kernel_lines_of(const struct tg__columns *t, uint32_t slice, bool *failed) {
  const struct kept *const k = lines_kept(t);
  if (failed) *failed |= !k;
  if (!k || !k->count) return (struct tg__kernel_lines){0};
  const uint32_t rank = t->tracks[tg__slice_track(t, slice)].rank;
  const struct tg__str name = without_graph(tg__name(t, t->slices.name[slice]));
  const struct list *const all = find_list(k, rank, TG_STR(""), name);
  if (!all) return (struct tg__kernel_lines){0};
  const struct tg__str id = tg__compiled_region(t, slice, NULL);
  const struct list *const one = id.len ? find_list(k, rank, id, name) : NULL, *const x = one ? one : all;
  return (struct tg__kernel_lines){x->frames.items, x->frames.count};
}

/* Of the pass that the slice is in. */
static const struct list *list_of_region(const struct kept *k, const struct tg__columns *t, uint32_t slice,
                                         struct tg__str name) {
  bool is_backward = false;
  char id[ID_MOST];
  const struct tg__str region = tg__compiled_region(t, slice, &is_backward);
  if (!region.len || region.len + sizeof BACKWARD > sizeof id) return NULL;
  memcpy(id, region.ptr, region.len);
  memcpy(id + region.len, BACKWARD, sizeof BACKWARD);
  const uint32_t len = region.len + (is_backward ? (uint32_t)sizeof BACKWARD - 1 : 0);
  return find_list(k, t->tracks[tg__slice_track(t, slice)].rank, (struct tg__str){id, len}, name);
}

struct tg__kernel_modules tg__kernel_modules_of(const struct tg__columns *t, uint32_t slice, bool *failed) {
  const struct kept *const k = lines_kept(t);
  if (failed) *failed |= !k;
  if (!k || !k->count) return (struct tg__kernel_modules){0};
  const uint32_t rank = t->tracks[tg__slice_track(t, slice)].rank;
  const struct tg__str name = without_graph(tg__name(t, t->slices.name[slice]));
  const struct list *const all = find_list(k, rank, TG_STR(""), name);
  if (!all || !all->modules.count) return (struct tg__kernel_modules){0};
  const struct list *const one = list_of_region(k, t, slice, name), *const x = one ? one : all;
  return (struct tg__kernel_modules){x->modules.items, x->modules.count};
}

struct tg__kernel_modules tg__module_calls_of(const struct tg__columns *t, uint32_t slice, bool *failed) {
  const struct kept *const k = lines_kept(t);
  if (failed) *failed |= !k;
  const struct tg__str name = without_graph(tg__name(t, t->slices.name[slice]));
  const bool may_be = k && (tg__str_contains(name, "::") || tg__is_compiled_kernel(name));
  const struct list *const x = may_be ? list_of_region(k, t, slice, name) : NULL;
  return x ? (struct tg__kernel_modules){x->calls.items, x->calls.count} : (struct tg__kernel_modules){0};
}

struct tg__str tg__common_module(struct tg__kernel_modules modules) {
  static const char between[] = " / ";
  struct tg__str common = modules.count ? modules.paths[0] : TG_STR("");
  for (size_t i = 1; i < modules.count; i++) {
    const struct tg__str path = modules.paths[i];
    uint32_t same = 0, end = 0;
    while (same < common.len && same < path.len && common.ptr[same] == path.ptr[same]) same++;
    for (uint32_t at = 0; at <= same; at++) { /* a module ends there in both */
      const bool ends =
          (at == common.len || tg__str_has_prefix((struct tg__str){common.ptr + at, common.len - at}, between)) &&
          (at == path.len || tg__str_has_prefix((struct tg__str){path.ptr + at, path.len - at}, between));
      if (ends) end = at;
    }
    common.len = end;
  }
  return common;
}

struct tg__str tg__compiled_module(const struct tg__columns *t, uint32_t slice) {
  return tg__common_module(tg__kernel_modules_of(t, slice, NULL));
}

bool tg__known_kernel_at(const struct tg__columns *t, uint32_t rank, size_t number, struct tg__known_kernel *out) {
  const struct kept *const k = lines_kept(t);
  if (!k || number >= k->count) return false;
  const struct list *const x = k->lists[number];
  const bool is_here = x->rank == rank && x->frames.count > 0;
  *out = (struct tg__known_kernel){
      .region = is_here ? x->id : TG_STR(""), .name = x->name, .lines = {x->frames.items, x->frames.count}};
  return true;
}

bool tg__has_kernel_lines(const struct tg__columns *t) {
  const struct kept *const k = lines_kept(t);
  return k && k->count;
}

bool tg__has_kernel_modules(const struct tg__columns *t) {
  const struct kept *const k = lines_kept(t);
  for (size_t i = 0; k && i < k->count; i++)
    if (k->lists[i]->calls.count) return true;
  return false;
}

void tg__kernel_lines_write(struct tg__kernel_lines lines, struct tg__out *out) {
  for (size_t i = 0; i < lines.count; i++) {
    if (i) tg__out_text(out, "; ");
    tg__out_bytes(out, lines.frames[i].ptr, lines.frames[i].len);
  }
}
