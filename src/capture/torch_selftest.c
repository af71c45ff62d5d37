/* torch_selftest: is what calibration found true? The trial program is recorded with the functions that record in
 * earnest, into memory, and what they wrote is compared with what was called, in words. */
#include "capture/torch.h"

struct tg__torch_trial tg__torch_trial;

/* ---- a session in memory --------------------------------------------------------------------- */

enum { RECORDS = 256, TEXTS = 256, TEXT_BYTES = 32 * 1024 };
struct text {
  enum tg__raw_dictionary kind;
  uint32_t at, len;
};
static struct sink {
  struct tg__thread thread;
  struct tg__raw_record records[RECORDS];
  struct text texts[TEXTS];
  uint32_t count, used;
  char bytes[TEXT_BYTES];
} *sink;

uint32_t tg__torch_trial_intern(enum tg__raw_dictionary kind, const void *bytes, size_t len) {
  for (uint32_t i = 0; i < sink->count; i++)
    if (sink->texts[i].kind == kind && sink->texts[i].len == len &&
        memcmp(sink->bytes + sink->texts[i].at, bytes, len) == 0)
      return i + 1;
  if (sink->count == TEXTS || len > TEXT_BYTES - sink->used) return 0;
  memcpy(sink->bytes + sink->used, bytes, len);
  sink->texts[sink->count++] = (struct text){kind, sink->used, (uint32_t)len};
  sink->used += (uint32_t)len;
  return sink->count;
}

void tg__torch_trial_call(uint64_t call) {
  struct tg__torch_trial *const t = &tg__torch_trial;
  if (call <= t->last_call) t->calls_rise = false;
  if (call == t->last_call + 1) t->calls_follow = true;
  t->last_call = call;
}

static struct tg__bytes dictionary_text_of(enum tg__raw_dictionary kind, uint32_t id) {
  if (!id || id > sink->count || sink->texts[id - 1].kind != kind) return (struct tg__bytes){0};
  const uint8_t *const p = (const uint8_t *)sink->bytes + sink->texts[id - 1].at;
  return (struct tg__bytes){.p = p, .end = p + sink->texts[id - 1].len};
}

/* ---- records in words ------------------------------------------------------------------------ */

static void say_words(struct tg__out *o, const uint8_t *p, size_t count, bool real) {
  for (size_t i = 0; i < count; i++) {
    const uint64_t bits = tg__at64(p + 8 * i);
    double d;
    memcpy(&d, &bits, sizeof d);
    tg__out_text(o, i ? "," : "[");
    if (real)
      tg__out_double(o, d);
    else
      tg__out_int(o, (int64_t)bits);
  }
  tg__out_text(o, count ? "]" : "[]");
}

static void say_string(struct tg__out *o, struct tg__bytes *b) {
  const size_t len = tg__bytes_take16(b);
  const uint8_t *const p = tg__bytes_take(b, len);
  if (p) tg__out_bytes(o, p, len);
}

static void say_list(struct tg__out *o, const struct tg__input_value *v) {
  struct tg__bytes strings = {.p = v->bytes, .end = v->bytes ? v->bytes + 65536 : NULL};
  if (v->kind == TG_INPUT_INT_LIST || v->kind == TG_INPUT_DOUBLE_LIST) {
    say_words(o, v->bytes, v->count, v->kind == TG_INPUT_DOUBLE_LIST);
    return;
  }
  tg__out_char(o, '[');
  for (unsigned i = 0; i < v->count; i++) {
    if (i) tg__out_char(o, ',');
    if (v->kind == TG_INPUT_BOOL_LIST)
      tg__out_text(o, v->bytes[i] ? "true" : "false");
    else
      say_string(o, &strings);
  }
  tg__out_char(o, ']');
}

static void say_value(struct tg__out *o, const struct tg__input_value *v) {
  switch (v->kind) {
  case TG_INPUT_NONE:
    tg__out_text(o, "none");
    break;
  case TG_INPUT_TENSOR:
    tg__out_format(o, "T%u", v->dtype);
    say_words(o, v->bytes, v->dims, false);
    if (v->strided) say_words(o, v->bytes + 8 * v->dims, v->dims, false);
    break;
  case TG_INPUT_UNDEFINED:
    tg__out_text(o, "undefined");
    break;
  case TG_INPUT_TENSOR_LIST:
    tg__out_format(o, "%u:", v->count);
    break;
  case TG_INPUT_INT:
    tg__out_int(o, v->i);
    break;
  case TG_INPUT_DOUBLE:
    tg__out_double(o, v->d);
    break;
  case TG_INPUT_BOOL:
    tg__out_text(o, v->i ? "true" : "false");
    break;
  case TG_INPUT_INT_LIST:
  case TG_INPUT_DOUBLE_LIST:
  case TG_INPUT_BOOL_LIST:
  case TG_INPUT_STRING_LIST:
    say_list(o, v);
    break;
  case TG_INPUT_STRING:
    tg__out_bytes(o, v->bytes, v->count);
    break;
  case TG_INPUT_SCALAR:
    tg__out_text(o, "number");
    break;
  default:
    tg__out_text(o, "other");
    break;
  }
}

/* "scope name.overload seq forward: inputs" */
static void say_record(struct tg__out *o, const struct tg__raw_record *r, bool shapes) {
  struct tg__bytes name = dictionary_text_of(TG_RAW_D_NAME, r->name),
                   inputs = dictionary_text_of(TG_RAW_D_SHAPE, r->shape);
  tg__out_format(o, "%u ", r->scope);
  for (; name.p < name.end; name.p++) tg__out_char(o, (char)(*name.p ? *name.p : '.'));
  tg__out_format(o, " %u %u:", r->seq, r->stack);
  for (struct tg__input_value v; shapes && tg__input_next(&inputs, &v);) {
    tg__out_char(o, ' ');
    say_value(o, &v);
  }
}

/* ---- what is expected ------------------------------------------------------------------------ */

#define SMALL "T7[7,11,13][1009,53,2]"
#define LARGE "T3[2,3,1,2,1,2,1][12,4,4,2,2,1,1]"
#define FLAT "T7[3,4][4,1]"
/* In the order of their ends. S: the op's sequence number + 1; B and F: the node's, and the thread of its forward
 * part. Overloads are left out where this torch does not report them. */
static const struct {
  const char *words, *inputs;
} expected[] = {
    {"0 aten::add.Tensor S 0:", " " FLAT " " FLAT " 3"},
    {"7 Prüfung eines Namens, der länger ist als kurze Texte: 測試 🚂 0 0:",
     " " SMALL " 42 2.25 false a text that fits nowhere else none [1,-2,3] [0.5] [true,false] [a,bc] 2: " SMALL
     " " LARGE " number"},
    {"1 AddBackward0 B F:", " " FLAT},
    {"0 aten::cat 0 0:", " 2: " FLAT " " FLAT " 1"},
    {"0 aten::sum.dim_IntList 0 0:", " " FLAT " [0] true none"},
    {"0 aten::clone 0 0:", " " LARGE " none"},
    {"7 classes 0 0:", " undefined T7[4]"},
};

static void say_expected(struct tg__out *o, size_t i, size_t round, bool shapes) {
  const struct tg__torch_trial *const t = &tg__torch_trial;
  for (const char *p = expected[i].words; *p; p++) {
    if (*p == '.' && !tg__torch_symbols.overload_name)
      while (p[1] != ' ') p++;
    else if (*p == 'S' && p[-1] == ' ')
      tg__out_int(o, t->op_sequence[round] + 1);
    else if (*p == 'B' && p[-1] == ' ')
      tg__out_int(o, t->forward_sequence[round] + 1);
    else if (*p == 'F' && p[-1] == ' ')
      tg__out_uint(o, t->forward_thread[round]);
    else
      tg__out_char(o, *p);
  }
  if (shapes) tg__out_text(o, expected[i].inputs);
  tg__out_char(o, 0);
}

/* The first record from *r on that says what is expected; *r moves behind it. */
static enum tg_err find_expected(const struct tg__raw_record **r, size_t i, size_t round, bool shapes,
                                 struct tg_error *e) {
  const struct tg__raw_record *const end = sink->thread.next;
  struct tg__out want = {0}, got = {0};
  enum tg_err err = TG_OK;
  bool found = false;
  say_expected(&want, i, round, shapes);
  while (*r < end && !found && !want.err && !got.err) {
    got.len = 0;
    say_record(&got, (*r)++, shapes);
    tg__out_char(&got, 0);
    found = !got.err && !want.err && strcmp(got.buf, want.buf) == 0;
  }
  if (want.err || got.err)
    err = tg__fail(e, TG_MEMORY, -1, "operators: out of memory in the self-test");
  else if (!found)
    err = tg__fail(e, TG_UNSUPPORTED, -1, "operators: this torch is not understood: the self-test recorded no '%.300s'",
                   want.buf);
  tg__out_free(&want);
  tg__out_free(&got);
  return err;
}

static enum tg_err compare_all(bool shapes, struct tg_error *e) {
  enum { COUNT = sizeof expected / sizeof *expected };
  const struct tg__raw_record *r = sink->records;
  const uint64_t now = tg__ticks();
  for (const struct tg__raw_record *p = r; p < sink->thread.next; p++)
    if (p->start_ticks > now || p->dur_ticks > now - p->start_ticks)
      return tg__fail(e, TG_UNSUPPORTED, -1, "operators: the clock runs backwards in the self-test");
  for (size_t i = 0; i < COUNT * TG_TRIAL_ROUNDS; i++) {
    const enum tg_err err = find_expected(&r, i % COUNT, i / COUNT, shapes, e);
    if (err) return err;
  }
  return TG_OK;
}

/* ---- the test -------------------------------------------------------------------------------- */

/* An offset so far out cannot be one, and must not be read at. */
static enum tg_err facts_in_range(struct tg_error *e) {
  for (size_t i = 0; i < TG_TORCH_FACTS; i++)
    if (tg__torch_abi.fact[i] < -24 || tg__torch_abi.fact[i] > 176 * 8)
      return tg__fail(e, TG_UNSUPPORTED, -1, "operators: the self-test was given %d for an offset",
                      tg__torch_abi.fact[i]);
  return TG_OK;
}

enum tg_err tg__torch_self_test(uint32_t features, struct tg_error *e) {
  enum tg_err err = facts_in_range(e);
  if (err) return err;
  sink = tg__pages_get(sizeof *sink);
  if (!sink) return tg__fail(e, TG_MEMORY, -1, "operators: out of memory in the self-test");
  tg__torch_inputs_learn();
  sink->thread.next = sink->records;
  sink->thread.end = sink->records + RECORDS;
  tg__torch_trial = (struct tg__torch_trial){.thread = &sink->thread, .calls_rise = true};
  if (tg__torch_trial_begin(features))
    err = tg__torch_run_known(TG_TORCH_TRIAL, e);
  else
    err = tg__fail(e, TG_UNSUPPORTED, -1, "operators: torch did not take the callback");
  tg__torch_trial_end();
  if (!err) err = compare_all(features & TG_RECORD_SHAPES, e);
  if (!err && TG_FACT(call) && !(tg__torch_trial.calls_rise && tg__torch_trial.calls_follow))
    err = tg__fail(e, TG_UNSUPPORTED, -1, "operators: the numbers of calls do not rise one by one in the self-test");
  tg__torch_trial.thread = NULL;
  tg__torch_forget_caches(&sink->thread);
  tg__pages_drop(sink, sizeof *sink);
  sink = NULL;
  return err;
}

/* ---- once per process ------------------------------------------------------------------------ */

static struct {
  bool done;
  uint32_t known;
  struct tg_error why_not; /* why something is not known */
} understood;

enum tg_err tg__torch_understand(uint32_t *known, struct tg_error *e) {
  *known = understood.known;
  if (understood.done) return TG_OK;
  struct tg_error why = {0};
  enum tg_err err = tg__torch_find_symbols(e);
  if (err) return err;
  uint32_t found = 0;
  err = tg__torch_calibrate(&found, &why);
  if (err == TG_NO_DATA) return tg__fail(e, err, -1, "%s", why.text);
  while (found) {
    err = tg__torch_self_test(found, &why);
    if (!err) break;
    if (TG_FACT(call)) /* the least of all: try the rest without it */
      TG_FACT(call) = 0;
    else if (TG_FACT(scope))
      TG_FACT(scope) = 0;
    else
      found = found & TG_RECORD_SHAPES ? TG_RECORD_OPS : 0;
  }
  tg__torch_lock_find();
  understood.why_not = why;
  understood.known = *known = found;
  understood.done = true;
  return TG_OK;
}

enum tg_err tg__torch_why_not(struct tg_error *e) {
  return tg__fail(e, TG_UNSUPPORTED, -1, "%s",
                  understood.why_not.code ? understood.why_not.text : "inputs: torch was not looked at yet");
}

/* ---- what was found, and whether a wrong one would be noticed -------------------------------- */

static const struct {
  const char *name, *meaning;
} facts[] = {
#define FACT(group, name, meaning) {#name, meaning},
#include "capture/torch_facts.def"
#undef FACT
};

bool tg__torch_abi_at(size_t i, const char **name, const char **meaning, int64_t *value) {
  if (i >= TG_TORCH_FACTS) return false;
  *name = facts[i].name;
  *meaning = facts[i].meaning;
  *value = tg__torch_abi.fact[i];
  return true;
}

enum tg_err tg__torch_abi_falsify(const char *name, int32_t delta, struct tg_error *e) {
  size_t i = 0;
  while (i < TG_TORCH_FACTS && strcmp(facts[i].name, name) != 0) i++;
  if (i == TG_TORCH_FACTS) return tg__fail(e, TG_USAGE, -1, "'%s' is not among what is known of torch", name);
  if (!understood.known) return tg__fail(e, TG_NO_DATA, -1, "nothing is known of torch");
  if (!tg__source_torch.is_off()) return tg__fail(e, TG_BUSY, -1, "a recording is running");
  tg__torch_abi.fact[i] += delta;
  const enum tg_err err = tg__torch_self_test(understood.known, e);
  tg__torch_abi.fact[i] -= delta;
  tg__torch_inputs_learn();
  return err;
}
