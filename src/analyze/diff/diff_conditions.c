/* Whether two traces may be compared: the same work, the same machine, the same software, as far as the traces tell. */
#include "analyze/diff/diff.h"

#include <stdio.h>

/* ---- the list ------------------------------------------------------------------------------------------------------------------------ */

static char *copy(struct tg__conditions *c, const struct tg__out *text) {
  if (!text->len) return NULL;
  char *own = text->err ? NULL : tg__arena_copy(&c->arena, text->buf, text->len);
  if (!own) c->failed = true;
  return own;
}

static struct tg__condition *find(struct tg__conditions *c, const char *key) {
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->items[i].key, key) == 0) return &c->items[i];
  return NULL;
}

/* One side's value of a condition; takes the text over. */
static void put(struct tg__conditions *c, int side, const char *key, bool decides, struct tg__out *text) {
  struct tg__condition *x = find(c, key);
  if (!x && text->len && tg__grow((void **)&c->items, &c->cap, c->count + 1, sizeof *c->items)) {
    x = &c->items[c->count++];
    *x = (struct tg__condition){.key = key, .decides = decides};
  }
  if (!x && text->len) c->failed = true;
  if (x) *(side ? &x->b : &x->a) = copy(c, text);
  tg__out_free(text);
}

bool tg__condition_differs(const struct tg__condition *x) { return x->a && x->b && strcmp(x->a, x->b) != 0; }

const struct tg__condition *tg__conditions_deciding(const struct tg__conditions *c) {
  for (size_t i = 0; i < c->count; i++)
    if (c->items[i].decides && !c->items[i].accepted && tg__condition_differs(&c->items[i])) return &c->items[i];
  return NULL;
}

void tg__conditions_free(struct tg__conditions *c) {
  tg__free(c->items);
  tg__arena_free(&c->arena);
}

/* ---- members of the document ------------------------------------------------------------------------------------------------------------ */

/* Of the ranks that are asked about the first that says it speaks for all. */
static struct tg__str document_member(const struct tg__diff_side *s, const char *key) {
  struct tg__str value = TG_STR("");
  for (uint32_t r = 0; r < s->t->rank_count && !value.len; r++)
    if (tg__ask_has_rank(&s->pick, r)) value = tg__document_member(s->t, r, key);
  return value;
}

static void put_value(struct tg__conditions *c, int side, const char *key, bool decides, struct tg__str value) {
  const struct tg__str quoted = tg__unquoted(value), s = quoted.ptr ? quoted : value;
  struct tg__out text = {0};
  tg__out_bytes(&text, s.ptr, s.len < 200 ? s.len : 200);
  put(c, side, key, decides, &text);
}

/* What a recording of ours says of itself, and what any Kineto trace may say. */
static void put_document(struct tg__conditions *c, int side, const struct tg__diff_side *s) {
  static const char *const ours[] = {"torch",  "python",          "cuda",        "cudnn", "threads", "interop_threads", "cpu", "cpu_cores",
                                     "preset", "cudnn_benchmark", "num_workers", "dtype", "mode"};
  static const char *const work[] = {"model", "batch_size", "input_shape", "device", "gpu"};
  static const char *const options[] = {"profile_memory", "record_shapes", "with_stack", "with_modules", "with_flops"};
  const struct tg__str said = document_member(s, "conditions"), job = document_member(s, "distributedInfo");
  for (size_t i = 0; i < sizeof work / sizeof *work; i++) put_value(c, side, work[i], true, tg__member(said, work[i]));
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) put_value(c, side, ours[i], false, tg__member(said, ours[i]));
  put_value(c, side, "backend", false, tg__member(job, "backend"));
  put_value(c, side, "host", false, tg__unquoted(document_member(s, "host_name")));
  struct tg__out recorded = {0};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const struct tg__str value = document_member(s, options[i]);
    if (value.len && !tg__str_eq(value, TG_STR("0"))) tg__out_format(&recorded, "%s%s", recorded.len ? ", " : "", options[i]);
  }
  if (!recorded.len) tg__out_text(&recorded, "times alone");
  put(c, side, "recorded", false, &recorded);
}

/* ---- what the engine knows ---------------------------------------------------------------------------------------------------------------- */

static void put_devices(struct tg__conditions *c, int side, const struct tg__diff_side *s) {
  struct tg__out names = {0};
  for (uint32_t r = 0; r < s->t->rank_count; r++) {
    const struct tg__rank *rank = &s->t->ranks[r];
    for (size_t i = 0; tg__ask_has_rank(&s->pick, r) && i < rank->device_count && names.len < 200; i++) {
      const struct tg__str name = rank->devices[i].name == TG_NONE ? TG_STR("?") : tg__name(s->t, rank->devices[i].name);
      if (names.len) tg__out_text(&names, ", ");
      tg__out_bytes(&names, name.ptr, name.len < 64 ? name.len : 64);
    }
    if (names.len) break; /* one rank speaks for all: each sees the devices of its machine */
  }
  put(c, side, "devices", true, &names);
}

static void put_job(struct tg__conditions *c, int side, const struct tg__diff_side *s) {
  static const char *const kinds[] = {
      [TG__STEP_PROFILER] = "ProfilerStep", [TG__STEP_ANNOTATION] = "an annotation", [TG__STEP_PERIOD] = "a period found"};
  struct tg__out text = {0};
  int64_t world = -1;
  for (uint32_t r = 0; r < s->t->rank_count; r++)
    if (s->t->ranks[r].world_size > world) world = s->t->ranks[r].world_size;
  if (world > 0) tg__out_int(&text, world);
  put(c, side, "world_size", true, &text);
  text = (struct tg__out){0};
  tg__out_text(&text, s->whole ? "the whole recording" : kinds[s->t->step_kind]);
  put(c, side, "step", false, &text);
}

/* ---- the shapes of the work --------------------------------------------------------------------------------------------------------------- */

/* By operator and shape of its first input: how much time a side spends there. Names are compared by text, so both sides share them. */
struct shape_row {
  uint32_t op, shape; /* in names */
  double ns[TG__SIDES];
};
struct shapes {
  struct tg__strings *names;
  struct tg__map at;
  struct shape_row *rows;
  size_t count, cap;
  bool has[TG__SIDES];
};

/* The first input that is a tensor with more than one dimension: [32,64] of [[32, 64], [10, 64], []]. */
static struct tg__str first_input(struct tg__str dims) {
  for (struct tg__members m = tg__members_of(dims); tg__members_next(&m);) {
    const struct tg__str one = m.value;
    if (one.len > 2 && one.ptr[1] >= '0' && one.ptr[1] <= '9' && memchr(one.ptr, ',', one.len)) return one;
  }
  return TG_STR("");
}

static uint32_t shape_id(struct shapes *h, struct tg__str dims) {
  char text[96];
  size_t n = 0;
  for (uint32_t i = 0; i < dims.len && n < sizeof text; i++)
    if (dims.ptr[i] != ' ' && dims.ptr[i] != '\n') text[n++] = dims.ptr[i];
  return tg__strings_add(h->names, text, n);
}

static bool add_shape(struct shapes *h, int side, struct tg__str op, struct tg__str dims, int64_t ns) {
  const uint32_t name = tg__strings_add(h->names, op.ptr, op.len), shape = shape_id(h, dims);
  if (name == TG_NONE || shape == TG_NONE) return false;
  uint32_t *slot = tg__map_slot(&h->at, (uint64_t)name << 32 | shape, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&h->rows, &h->cap, h->count + 1, sizeof *h->rows)) return false;
    *slot = (uint32_t)h->count;
    h->rows[h->count++] = (struct shape_row){.op = name, .shape = shape};
  }
  h->rows[*slot].ns[side] += (double)ns;
  h->has[side] = true;
  return true;
}

static bool read_shapes(struct shapes *h, int side, const struct tg__diff_side *s) {
  struct tg__op_tree tree = {0};
  bool ok = !tg__op_tree_build(s->t, &tree);
  for (uint32_t k = 0; ok && k < s->t->track_count; k++) {
    if (!tg__ask_has_track(&s->pick, s->t, k)) continue;
    for (uint32_t i = tree.first[k]; ok && i < tree.first[k + 1]; i++) {
      const struct tg__op_node *n = &tree.nodes[i];
      if (!n->is_op || n->absorbed_by != TG_NONE) continue;
      uint32_t dims = tg__arg_str(s->t, s->t->slices.args[n->slice], TG__K_INPUT_DIMS);
      if (dims == TG_NONE) dims = tg__arg_str(s->t, s->t->slices.args[n->slice], TG__K_INPUT_DIMS_OLD);
      const struct tg__str input = dims == TG_NONE ? TG_STR("") : first_input(tg__name(s->t, dims));
      if (!input.len || tg__diff_step_at(s, s->t->tracks[k].rank, s->t->slices.start_ns[n->slice]) == TG_NONE) continue;
      ok = add_shape(h, side, tg__name(s->t, s->t->slices.name[n->slice]), input, s->t->slices.dur_ns[n->slice] + n->device_total_ns + 1);
    }
  }
  tg__op_tree_free(&tree);
  return ok;
}

/* Operators that both sides run: how much of A's time in them went into shapes that B never saw, and where most. */
struct verdict {
  double common, differs, most;
  uint32_t op;
};

static struct verdict compare_shapes(const struct shapes *h, const bool *in_both) {
  struct verdict v = {.op = TG_NONE};
  for (size_t i = 0; i < h->count; i++) {
    const struct shape_row *r = &h->rows[i];
    if (!in_both[r->op]) continue;
    v.common += r->ns[0];
    if (r->ns[1] > 0) continue;
    v.differs += r->ns[0];
    if (r->ns[0] > v.most) {
      v.most = r->ns[0];
      v.op = r->op;
    }
  }
  return v;
}

/* The shape in which a side spends most time in an operator, among those the other side lacks. */
static struct tg__str main_shape(const struct shapes *h, uint32_t op, int side) {
  const struct shape_row *best = NULL;
  for (size_t i = 0; i < h->count; i++) {
    const struct shape_row *r = &h->rows[i];
    if (r->op == op && r->ns[1 - side] == 0 && r->ns[side] > 0 && (!best || r->ns[side] > best->ns[side])) best = r;
  }
  return best ? tg__strings_get(h->names, best->shape) : TG_STR("?");
}

/* Equal behind the first comma: only the first dimension, the batch, differs. */
static bool is_batch(struct tg__str a, struct tg__str b) {
  const char *x = memchr(a.ptr, ',', a.len), *y = memchr(b.ptr, ',', b.len);
  if (!x || !y) return false;
  return tg__str_eq((struct tg__str){x, (uint32_t)(a.ptr + a.len - x)}, (struct tg__str){y, (uint32_t)(b.ptr + b.len - y)});
}

static void put_shapes(struct tg__conditions *c, const struct shapes *h, const struct verdict *v) {
  enum { OTHER_WORK_PCT = 20 }; /* below that it is a layer that was changed, not the work */
  const bool other = v->common > 0 && 100 * v->differs > OTHER_WORK_PCT * v->common;
  const struct tg__str shapes[TG__SIDES] = {other ? main_shape(h, v->op, 0) : TG_STR(""), other ? main_shape(h, v->op, 1) : TG_STR("")};
  const bool batch = other && is_batch(shapes[0], shapes[1]);
  if (batch && find(c, "batch_size")) return; /* the recording says it itself */
  for (int side = 0; side < TG__SIDES; side++) {
    struct tg__out text = {0};
    const struct tg__str name = other ? tg__strings_get(h->names, v->op) : TG_STR(""), shape = shapes[side];
    if (!other)
      tg__out_text(&text, "the same");
    else if (batch)
      tg__out_bytes(&text, shape.ptr + 1, (size_t)((const char *)memchr(shape.ptr, ',', shape.len) - shape.ptr) - 1);
    else
      tg__out_format(&text, "%.*s of %.*s", (int)shape.len, shape.ptr, (int)(name.len < 64 ? name.len : 64), name.ptr);
    put(c, side, batch ? "batch_size" : "input_shapes", true, &text);
  }
}

static enum tg_err judge_shapes(struct tg__conditions *c, const struct tg__diff_side *const sides[TG__SIDES]) {
  struct shapes h = {.names = tg__strings_new()};
  bool ok = h.names != NULL;
  for (int side = 0; ok && side < TG__SIDES; side++) ok = read_shapes(&h, side, sides[side]);
  const size_t texts = ok ? tg__strings_count(h.names) : 0;
  uint8_t *seen = tg__alloc(texts + 1);
  bool *in_both = tg__alloc((texts + 1) * sizeof *in_both);
  ok = ok && seen && in_both;
  for (size_t i = 0; ok && i < h.count; i++) seen[h.rows[i].op] |= (uint8_t)((h.rows[i].ns[0] > 0) | (h.rows[i].ns[1] > 0) << 1);
  for (size_t i = 0; ok && i < texts; i++) in_both[i] = seen[i] == 3;
  if (ok && h.has[0] && h.has[1]) {
    const struct verdict v = compare_shapes(&h, in_both);
    put_shapes(c, &h, &v);
  }
  tg__free(seen);
  tg__free(in_both);
  tg__free(h.rows);
  tg__map_free(&h.at);
  tg__strings_free(h.names);
  return ok ? TG_OK : TG_MEMORY;
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------------------------ */

static const char *const all_keys[] = {"all",         "devices",    "world_size",  "step",
                                       "model",       "batch_size", "input_shape", "input_shapes",
                                       "device",      "gpu",        "torch",       "python",
                                       "cuda",        "cudnn",      "threads",     "interop_threads",
                                       "cpu",         "cpu_cores",  "preset",      "cudnn_benchmark",
                                       "num_workers", "dtype",      "mode",        "backend",
                                       "host",        "recorded",   NULL};

static const char *key_name(const void *ctx, size_t k) {
  (void)ctx;
  return all_keys[k];
}

static bool same_key(const char *key, const char *word, size_t len) { return strlen(key) == len && memcmp(key, word, len) == 0; }

static bool is_key(const char *word, size_t len) {
  for (size_t k = 0; all_keys[k]; k++)
    if (same_key(all_keys[k], word, len)) return true;
  return false;
}

static enum tg_err accept_keys(struct tg__conditions *c, const char *accept, struct tg_error *e) {
  for (const char *word = accept; *word;) {
    const char *end = strchrnul(word, ',');
    const size_t len = (size_t)(end - word);
    if (!is_key(word, len)) {
      char text[64];
      snprintf(text, sizeof text, "%.*s", (int)(len < 60 ? len : 60), word);
      const char *near = tg__nearest_text(text, key_name, NULL);
      return tg__fail(e, TG_USAGE, -1, "accept: there is no condition '%s'%s%s%s", text, near ? "; did you mean " : "", near ? near : "",
                      near ? "?" : "");
    }
    for (size_t i = 0; i < c->count; i++) c->items[i].accepted |= same_key(c->items[i].key, word, len) || same_key("all", word, len);
    word = *end ? end + 1 : end;
  }
  return TG_OK;
}

enum tg_err tg__conditions_read(const struct tg__diff_side *a, const struct tg__diff_side *b, const char *accept,
                                struct tg__conditions *out, struct tg_error *e) {
  const struct tg__diff_side *const sides[] = {a, b};
  for (int side = 0; side < TG__SIDES; side++) {
    put_devices(out, side, sides[side]);
    put_job(out, side, sides[side]);
    put_document(out, side, sides[side]);
  }
  if (judge_shapes(out, sides) || out->failed) return tg__fail(e, TG_MEMORY, -1, "out of memory while comparing conditions");
  return accept_keys(out, accept, e);
}
