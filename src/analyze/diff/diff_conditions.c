/* Whether two traces may be compared: the same work, the same machine, the same software, as far as the traces state
 * it. */
#include "analyze/diff/diff.h"

#include <stdio.h>

/* ---- the list -------------------------------------------------------------------------------- */

static char *copy(struct tg__conditions *c, const struct tg__out *text) {
  if (!text->len) return NULL;
  char *own = text->err ? NULL : tg__arena_copy(&c->arena, text->buf, text->len);
  if (!own) c->failed = true;
  return own;
}

static struct tg__document_condition *find_condition(struct tg__conditions *c, const char *key) {
  for (size_t i = 0; i < c->count; i++)
    if (strcmp(c->items[i].key, key) == 0) return &c->items[i];
  return NULL;
}

/* One side's value of a condition; takes the text over. */
static void put_condition(struct tg__conditions *c, int side, const char *key, bool decides, struct tg__out *text) {
  struct tg__document_condition *x = find_condition(c, key);
  if (!x && text->len && tg__grow((void **)&c->items, &c->cap, c->count + 1, sizeof *c->items)) {
    x = &c->items[c->count++];
    *x = (struct tg__document_condition){.key = key, .decides = decides};
  }
  if (!x && text->len) c->failed = true;
  if (x) *(side ? &x->b : &x->a) = copy(c, text);
  tg__out_free(text);
}

bool tg__condition_differs(const struct tg__document_condition *x) { return x->a && x->b && strcmp(x->a, x->b) != 0; }

const struct tg__document_condition *tg__conditions_deciding(const struct tg__conditions *c) {
  for (size_t i = 0; i < c->count; i++)
    if (c->items[i].decides && !c->items[i].accepted && tg__condition_differs(&c->items[i])) return &c->items[i];
  return NULL;
}

void tg__conditions_free(struct tg__conditions *c) {
  tg__free(c->items);
  tg__arena_free(&c->arena);
}

/* ---- what one side says ---------------------------------------------------------------------- */

enum from { ENGINE, SAID, JOB, MEMBER };
static const struct {
  const char *key;
  bool decides;
  enum from from;
} facts[] = {
    {"devices", true, ENGINE},    {"world_size", true, ENGINE},
    {"step", false, ENGINE},      {"model", true, SAID},
    {"batch_size", true, SAID},   {"input_shape", true, SAID},
    {"device", true, SAID},       {"gpu", true, SAID},
    {"torch", false, SAID},       {"python", false, SAID},
    {"cuda", false, SAID},        {"cudnn", false, SAID},
    {"threads", false, SAID},     {"interop_threads", false, SAID},
    {"cpu", false, SAID},         {"cpu_cores", false, SAID},
    {"preset", false, SAID},      {"cudnn_benchmark", false, SAID},
    {"num_workers", false, SAID}, {"dtype", false, SAID},
    {"mode", false, SAID},        {"backend", false, JOB},
    {"host", false, MEMBER},      {"recorded", false, ENGINE},
};
enum { DEVICES, WORLD_SIZE, STEP, RECORDED = TG__DIFF_FACTS - 1 };
_Static_assert(sizeof facts / sizeof *facts == TG__DIFF_FACTS, "one text for each");
static const char times_alone[] = "only times";

/* Of the ranks that are asked about the first that says it speaks for all. */
static struct tg__str document_member(const struct tg__diff_side *s, const char *key) {
  struct tg__str value = TG_STR("");
  for (uint32_t r = 0; r < s->t->rank_count && !value.len; r++)
    if (tg__ask_has_rank(&s->selection, r)) value = tg__document_member(s->t, r, key);
  return value;
}

/* Takes the text over; nothing said stays NULL. */
static bool set_fact(struct tg__diff_facts *f, unsigned which, struct tg__out *text) {
  const bool ok = !text->err;
  if (ok && text->len && (f->texts[which] = tg__alloc(text->len + 1)) != NULL)
    memcpy(f->texts[which], text->buf, text->len);
  const bool kept = ok && (!text->len || f->texts[which]);
  tg__out_free(text);
  return kept;
}

static bool set_value(struct tg__diff_facts *f, unsigned which, struct tg__str value) {
  const struct tg__str s = tg__json_plain(value);
  struct tg__out text = {0};
  tg__out_bytes(&text, s.ptr, s.len < 200 ? s.len : 200);
  return set_fact(f, which, &text);
}

static bool take_recorded(struct tg__diff_side *s) {
  static const char *const options[] = {"profile_memory", "record_shapes", "with_stack", "with_modules", "with_flops"};
  struct tg__out recorded = {0};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const struct tg__str value = document_member(s, options[i]);
    if (value.len && !tg__str_eq(value, TG_STR("0")))
      tg__out_format(&recorded, "%s%s", recorded.len ? ", " : "", options[i]);
  }
  if (!recorded.len) tg__out_text(&recorded, times_alone);
  return set_fact(&s->facts, RECORDED, &recorded);
}

/* Eight of one name are "8 x NAME". */
static void put_devices(const struct tg__diff_side *s, const struct tg__rank *rank, struct tg__out *names) {
  for (size_t i = 0, from; i < rank->device_count && names->len < 200;) {
    const uint32_t id = rank->devices[i].name;
    for (from = i++; i < rank->device_count && rank->devices[i].name == id;) i++;
    const struct tg__str name = id == TG_NONE ? TG_STR("?") : tg__name(s->t, id);
    if (names->len) tg__out_text(names, ", ");
    if (i - from > 1) tg__out_format(names, "%zu x ", i - from);
    tg__out_bytes(names, name.ptr, name.len < 64 ? name.len : 64);
  }
}

static bool take_devices(struct tg__diff_side *s) {
  struct tg__out names = {0};
  for (uint32_t r = 0; r < s->t->rank_count && !names.len;
       r++) /* one rank speaks for all: each sees the devices of its machine */
    if (tg__ask_has_rank(&s->selection, r)) put_devices(s, &s->t->ranks[r], &names);
  return set_fact(&s->facts, DEVICES, &names);
}

/* Facts from a recording of ours, facts that any Kineto trace may have, and facts that the engine knows. */
bool tg__diff_facts_take(struct tg__diff_side *s) {
  const struct tg__str said = document_member(s, "conditions"), job = document_member(s, "distributedInfo");
  bool ok = take_devices(s) && take_recorded(s);
  for (unsigned i = 0; ok && i < TG__DIFF_FACTS; i++) {
    if (facts[i].from == SAID) ok = set_value(&s->facts, i, tg__json_member(said, facts[i].key));
    if (facts[i].from == JOB) ok = set_value(&s->facts, i, tg__json_member(job, facts[i].key));
    if (facts[i].from == MEMBER) ok = set_value(&s->facts, i, tg__json_unquoted(document_member(s, "host_name")));
  }
  s->facts.world_size = -1;
  for (uint32_t r = 0; r < s->t->rank_count; r++)
    if (s->t->ranks[r].world_size > s->facts.world_size) s->facts.world_size = s->t->ranks[r].world_size;
  s->facts.step_kind = s->t->step_kind;
  return ok;
}

bool tg__diff_facts_add(struct tg__diff_facts *to, const struct tg__diff_facts *from) {
  const bool is_first = !to->texts[RECORDED];
  if (is_first) to->step_kind = from->step_kind;
  if (is_first || from->world_size > to->world_size) to->world_size = from->world_size;
  for (unsigned i = 0; i < TG__DIFF_FACTS; i++) {
    const bool says_nothing = !to->texts[i] || (i == RECORDED && strcmp(to->texts[i], times_alone) == 0);
    if (!from->texts[i] || !says_nothing) continue;
    struct tg__out text = {0};
    tg__out_text(&text, from->texts[i]);
    tg__free(to->texts[i]);
    to->texts[i] = NULL;
    if (!set_fact(to, i, &text)) return false;
  }
  return true;
}

void tg__diff_facts_free(struct tg__diff_facts *f) {
  for (unsigned i = 0; i < TG__DIFF_FACTS; i++) tg__free(f->texts[i]);
}

static void put_facts(struct tg__conditions *c, int side, const struct tg__diff_side *s) {
  static const char *const kinds[] = {[TG__STEP_PROFILER] = "ProfilerStep",
                                      [TG__STEP_ANNOTATION] = "an annotation",
                                      [TG__STEP_PERIOD] = "a period found"};
  for (unsigned i = 0; i < TG__DIFF_FACTS; i++) {
    struct tg__out text = {0};
    if (i == WORLD_SIZE && s->facts.world_size > 0) tg__out_int(&text, s->facts.world_size);
    if (i == STEP) tg__out_text(&text, s->is_recording ? "the whole recording" : kinds[s->facts.step_kind]);
    if (s->facts.texts[i]) tg__out_text(&text, s->facts.texts[i]);
    put_condition(c, side, facts[i].key, facts[i].decides, &text);
  }
}

/* ---- the shapes of the work ------------------------------------------------------------------ */

/* Equal behind the first comma: only the first dimension, the batch, differs. */
static bool is_batch(struct tg__str a, struct tg__str b) {
  const char *x = memchr(a.ptr, ',', a.len), *y = memchr(b.ptr, ',', b.len);
  if (!x || !y) return false;
  return tg__str_eq((struct tg__str){x, (uint32_t)(a.ptr + a.len - x)},
                    (struct tg__str){y, (uint32_t)(b.ptr + b.len - y)});
}

static void put_shapes(struct tg__conditions *c, const struct tg__shapes_verdict *v) {
  const bool batch = v->other && is_batch(v->shape[0], v->shape[1]);
  if (batch && find_condition(c, "batch_size")) return; /* the recording says it itself */
  for (int side = 0; side < TG__SIDES; side++) {
    struct tg__out text = {0};
    const struct tg__str shape = v->shape[side];
    if (!v->other)
      tg__out_text(&text, "the same");
    else if (batch)
      tg__out_bytes(&text, shape.ptr + 1, (size_t)((const char *)memchr(shape.ptr, ',', shape.len) - shape.ptr) - 1);
    else
      tg__out_format(&text, "%.*s of %.*s", (int)shape.len, shape.ptr, (int)(v->op.len < 64 ? v->op.len : 64),
                     v->op.ptr);
    put_condition(c, side, batch ? "batch_size" : "input_shapes", true, &text);
  }
}

static bool judge_shapes(struct tg__conditions *c, const struct tg__diff_side *const sides[TG__SIDES]) {
  struct tg__diff_shapes both = {0};
  struct tg__shapes_verdict v;
  const bool ok = tg__diff_shapes_compare(sides, &both, &v);
  if (ok && v.known) put_shapes(c, &v);
  tg__diff_shapes_free(&both);
  return ok;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const char *const all_keys[] = {"all",         "devices",    "world_size",  "step",
                                       "model",       "batch_size", "input_shape", "input_shapes",
                                       "device",      "gpu",        "torch",       "python",
                                       "cuda",        "cudnn",      "threads",     "interop_threads",
                                       "cpu",         "cpu_cores",  "preset",      "cudnn_benchmark",
                                       "num_workers", "dtype",      "mode",        "backend",
                                       "host",        "recorded",   "pace",        NULL};

static const char *key_name(const void *ctx, size_t k) {
  (void)ctx;
  return all_keys[k];
}

static bool same_key(const char *key, const char *word, size_t len) {
  return strlen(key) == len && memcmp(key, word, len) == 0;
}

static bool is_key(const char *word, size_t len) {
  for (size_t k = 0; all_keys[k]; k++)
    if (same_key(all_keys[k], word, len)) return true;
  return false;
}

bool tg__conditions_accept(const char *accept, const char *key) {
  for (const char *word = accept; *word;) {
    const char *const end = strchrnul(word, ',');
    if (same_key(key, word, (size_t)(end - word)) || same_key("all", word, (size_t)(end - word))) return true;
    word = *end ? end + 1 : end;
  }
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
      return tg__fail(e, TG_USAGE, -1, "accept: there is no condition '%s'%s%s%s", text, near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "");
    }
    word = *end ? end + 1 : end;
  }
  for (size_t i = 0; i < c->count; i++) c->items[i].accepted = tg__conditions_accept(accept, c->items[i].key);
  return TG_OK;
}

enum tg_err tg__conditions_read(const struct tg__diff_side *a, const struct tg__diff_side *b, const char *accept,
                                struct tg__conditions *out, struct tg_error *e) {
  const struct tg__diff_side *const sides[] = {a, b};
  for (int side = 0; side < TG__SIDES; side++) put_facts(out, side, sides[side]);
  if (!judge_shapes(out, sides) || out->failed) return tg__no_memory(e, "comparing conditions");
  return accept_keys(out, accept, e);
}
