/* A torch of our own making: objects with the fields that the recorder looks for, in places that a test chooses, and
 * noise in between; functions that call callbacks as torch does. So calibration, self-test and the reading of inputs
 * run without torch, under sanitizers and on other processors. */
#ifndef FAKE_TORCH_H
#define FAKE_TORCH_H

#include <pthread.h>
#include <stdlib.h>

#include "capture/torch.h"

/* Where things are in this torch. */
struct fake_layout {
  bool old_string;
  int name, name_kind, sequence, inputs, forward_thread, call, scope; /* RecordFunction; call, scope: 0 = has none */
  uint32_t none, tensor, real, complex_number, integer, boolean, string, list; /* kinds of values */
  int dims, type, policy;                                                      /* TensorImpl; policy in bits */
  bool sequence_is_noise; /* of this torch nothing can be found out */
  int remains; /* byte of the text's room in which, by chance, most objects with a schema hold 1, and those with a text
                  0; 0 = none */
};

static const struct fake_layout fake_new = {.name = 160,
                                            .name_kind = 192,
                                            .sequence = 200,
                                            .inputs = 208,
                                            .forward_thread = 304,
                                            .call = 312,
                                            .scope = 64,
                                            .tensor = 1,
                                            .real = 3,
                                            .complex_number = 4,
                                            .integer = 5,
                                            .boolean = 10,
                                            .string = 12,
                                            .list = 14,
                                            .dims = 56,
                                            .type = 160,
                                            .policy = 1330};
static const struct fake_layout fake_old = {.old_string = true,
                                            .name = 160,
                                            .name_kind = 168,
                                            .sequence = 176,
                                            .inputs = 184,
                                            .forward_thread = 280,
                                            .call = 288,
                                            .scope = 56,
                                            .tensor = 1,
                                            .real = 3,
                                            .complex_number = 4,
                                            .integer = 5,
                                            .boolean = 9,
                                            .string = 11,
                                            .list = 13,
                                            .dims = 64,
                                            .type = 168,
                                            .policy = 1394};
static const struct fake_layout fake_other = {.name = 88,
                                              .name_kind = 120,
                                              .sequence = 240,
                                              .inputs = 136,
                                              .forward_thread = 264,
                                              .call = 40,
                                              .scope = 303,
                                              .tensor = 2,
                                              .real = 9,
                                              .complex_number = 8,
                                              .integer = 7,
                                              .boolean = 6,
                                              .string = 4,
                                              .list = 3,
                                              .none = 1,
                                              .dims = 24,
                                              .type = 120,
                                              .policy = 1011};

enum { FAKE_OBJECT = 448, FAKE_TENSOR = 256, FAKE_VALUES = 16 };
struct fake_value {
  uint64_t payload;
  uint32_t kind, noise;
};
struct fake_op {
  _Alignas(16) uint8_t bytes[FAKE_OBJECT];
  const char *name, *overload;
  size_t inputs;
  struct fake_value values[FAKE_VALUES];
};

static struct fake {
  struct fake_layout at;
  struct tg__torch_callback callbacks[8];
  uint64_t handles[8], last_handle, sequence, threads, calls;
  uint64_t noise;
  size_t margin;
} fake;
static const uint64_t fake_class[4], fake_unknown_class[4], fake_undefined[32], fake_int_type[2], fake_tensor_type[2];
static _Thread_local uint64_t fake_thread;

/* ---- memory: everything lives until fake_free ------------------------------------------------ */

static void *fake_blocks[1 << 17];
static size_t fake_block_count;

static void *fake_keep(void *p) {
  if (!p || fake_block_count == sizeof fake_blocks / sizeof *fake_blocks) abort();
  return fake_blocks[fake_block_count++] = p;
}
static void fake_free(void) {
  while (fake_block_count) free(fake_blocks[--fake_block_count]);
}
/* Calibration and self-test look around in what they do not know yet: for the sanitizers' sake there is something on
 * both sides. */
static uint8_t *fake_noise(size_t bytes) {
  uint8_t *const p = (uint8_t *)fake_keep(malloc(bytes + 2 * fake.margin)) + fake.margin;
  for (size_t i = 0; i < bytes + fake.margin; i++)
    p[i] = (uint8_t)((fake.noise = fake.noise * 6364136223846793005u + 1442695040888963407u) >> 56 | 2);
  return p;
}
static void fake_put(uint8_t *object, int at, const void *value, size_t bytes) { memcpy(object + at, value, bytes); }
static void fake_put64(uint8_t *object, int at, uint64_t value) { fake_put(object, at, &value, 8); }

/* ---- values ---------------------------------------------------------------------------------- */

static void fake_string(uint8_t *string, const char *text, size_t len) {
  uint8_t *const bytes = fake_noise(24 + len + 1);
  fake_put64(bytes, 0, len);
  memcpy(bytes + 24, text, len);
  bytes[24 + len] = 0;
  fake_put64(string, 0, (uint64_t)(uintptr_t)(bytes + 24));
  if (fake.at.old_string) return;
  fake_put64(string, 8, len);
  fake_put64(bytes, 0, ~(uint64_t)0);
}

static struct fake_value fake_value(uint32_t kind, uint64_t payload) {
  return (struct fake_value){payload, kind, (uint32_t)fake.noise};
}
static struct fake_value fake_int(int64_t v) { return fake_value(fake.at.integer, (uint64_t)v); }
static struct fake_value fake_bool(bool v) { return fake_value(fake.at.boolean, (fake.noise & ~(uint64_t)255) | v); }
static struct fake_value fake_none(void) { return fake_value(fake.at.none, fake.noise); }
static struct fake_value fake_real(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return fake_value(fake.at.real, bits);
}
static struct fake_value fake_text(const char *text) {
  uint8_t *const object = fake_noise(64);
  fake_string(object + 16, text, strlen(text));
  return fake_value(fake.at.string, (uint64_t)(uintptr_t)object);
}
static struct fake_value fake_pointer(uint32_t kind, const void *p) { return fake_value(kind, (uint64_t)(uintptr_t)p); }

static struct fake_value fake_list(const void *type, const struct fake_value *items, size_t count) {
  uint8_t *const object = fake_noise(64);
  struct fake_value *const copy = (struct fake_value *)fake_noise(count * sizeof *items + 16);
  memcpy(copy, items, count * sizeof *items);
  fake_put64(object, 16, (uint64_t)(uintptr_t)copy);
  fake_put64(object, 24, (uint64_t)(uintptr_t)(copy + count));
  fake_put64(object, 32, (uint64_t)(uintptr_t)(copy + count));
  fake_put64(object, 40, (uint64_t)(uintptr_t)type);
  return fake_pointer(fake.at.list, object);
}

struct fake_sizes {
  size_t dims;
  int64_t sizes[9], strides[9];
};
static struct fake_value fake_tensor(uint16_t type, struct fake_sizes s, unsigned policy, const void *class) {
  uint8_t *const t = fake_noise(FAKE_TENSOR);
  fake_put64(t, 0, (uint64_t)(uintptr_t)class);
  fake_put64(t, fake.at.dims, s.dims);
  if (s.dims <= 5) {
    memcpy(t + fake.at.dims + 8, s.sizes, s.dims * 8);
    memcpy(t + fake.at.dims + 48, s.strides, s.dims * 8);
  } else {
    uint8_t *const out = fake_noise(s.dims * 16);
    memcpy(out, s.sizes, s.dims * 8);
    memcpy(out + s.dims * 8, s.strides, s.dims * 8);
    fake_put64(t, fake.at.dims + 8, (uint64_t)(uintptr_t)out);
  }
  fake_put(t, fake.at.type, &type, 2);
  uint16_t word = tg__at16(t + fake.at.policy / 8);
  word = (uint16_t)((word & ~(3u << fake.at.policy % 8)) | policy << fake.at.policy % 8);
  fake_put(t, fake.at.policy / 8, &word, 2);
  return fake_pointer(fake.at.tensor, t);
}
static struct fake_value fake_plain(uint16_t type, struct fake_sizes s) { return fake_tensor(type, s, 0, fake_class); }

/* ---- torch's functions ----------------------------------------------------------------------- */

/* As torch keeps them: a version, a vector, and the lock for both. */
static struct {
  uint64_t version;
  const void *begin, *end, *room;
  pthread_mutex_t lock;
} fake_registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t fake_add_callback(struct tg__torch_callback c) {
  size_t i = 0;
  pthread_mutex_lock(&fake_registry.lock);
  while (i < 8 && fake.handles[i]) i++;
  if (i == 8) abort();
  fake.callbacks[i] = c;
  const uint64_t handle = fake.handles[i] = ++fake.last_handle;
  fake_registry.version++;
  fake_registry.begin = fake.callbacks;
  fake_registry.end = fake_registry.room = fake.callbacks + 8;
  pthread_mutex_unlock(&fake_registry.lock);
  return handle;
}
static void fake_remove_callback(uint64_t handle) {
  pthread_mutex_lock(&fake_registry.lock);
  fake_registry.version++;
  for (size_t i = 0; i < 8; i++)
    if (fake.handles[i] == handle) fake.handles[i] = 0;
  pthread_mutex_unlock(&fake_registry.lock);
}
static bool fake_has_callbacks(void) {
  for (size_t i = 0; i < 8; i++)
    if (fake.handles[i]) return true;
  return false;
}
static const struct fake_op *fake_of(const void *rf) { return (const struct fake_op *)rf; }
static const char *fake_name(const void *rf) { return fake_of(rf)->name; }
static const char *fake_overload_name(const void *rf) { return fake_of(rf)->overload; }
static size_t fake_num_inputs(const void *rf) { return fake_of(rf)->inputs; }
static uint64_t fake_thread_id(void) { return fake_thread ? fake_thread : (fake_thread = ++fake.threads + 40); }
static uint64_t fake_sequence_peek(void) { return fake.sequence; }

/* A function of C++ whose result is an object: where to put it goes in a register of its own on aarch64. */
static void *fake_start(void *(*start)(void **, const void *), void **result, const void *rf) {
#if defined(__aarch64__)
  register const void *x0 __asm__("x0") = rf;
  register void **x8 __asm__("x8") = result;
  __asm__ volatile("blr %2"
                   : "+r"(x0), "+r"(x8)
                   : "r"(start)
                   : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                     "x17", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20",
                     "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
  return result;
#else
  return start(result, rf);
#endif
}

/* Numbers are given out while some callback asks for them. */
static uint64_t fake_call_number(void) {
  for (size_t i = 0; i < 8; i++)
    if (fake.handles[i] && fake.callbacks[i].needs_ids) return ++fake.calls;
  return 0;
}

/* schema: what identifies an operator; NULL = the name is a text. */
static struct fake_op *fake_op_make(const void *schema, const char *name, const char *overload, int64_t sequence,
                                    uint64_t forward, const struct fake_value *values, size_t count) {
  struct fake_op *const op = fake_keep(aligned_alloc(16, sizeof *op));
  memcpy(op->bytes, fake_noise(FAKE_OBJECT), FAKE_OBJECT);
  op->name = name;
  op->overload = overload;
  op->inputs = count;
  if (count) memcpy(op->values, values, count * sizeof *values);
  if (schema)
    fake_put64(op->bytes, fake.at.name, (uint64_t)(uintptr_t)schema);
  else
    fake_string(op->bytes + fake.at.name, name, strlen(name));
  op->bytes[fake.at.name_kind] = schema != NULL;
  if (fake.at.remains) op->bytes[fake.at.name + fake.at.remains] = schema && strcmp(name, "aten::clone") != 0;
  if (!fake.at.sequence_is_noise) fake_put64(op->bytes, fake.at.sequence, (uint64_t)sequence);
  fake_put64(op->bytes, fake.at.forward_thread, forward);
  if (fake.at.call) fake_put64(op->bytes, fake.at.call, fake_call_number());
  fake_put64(op->bytes, fake.at.inputs, (uint64_t)(uintptr_t)op->values);
  fake_put64(op->bytes, fake.at.inputs + 8, count);
  return op;
}

static void fake_begin(struct fake_op *op, uint8_t scope) {
  if (fake.at.scope) op->bytes[fake.at.scope] = scope;
  for (size_t i = 0; i < 8; i++) {
    void *result = &fake;
    if (!fake.handles[i] || !fake.callbacks[i].scopes[scope]) continue;
    if (fake_start(fake.callbacks[i].start, &result, op) != &result || result)
      abort(); /* torch would delete what stands there */
  }
}
static void fake_end(const struct fake_op *op, uint8_t scope) {
  for (size_t i = 0; i < 8; i++)
    if (fake.handles[i] && fake.callbacks[i].scopes[scope]) fake.callbacks[i].end(op, NULL);
}
static void fake_call(struct fake_op *op, uint8_t scope) {
  fake_begin(op, scope);
  fake_end(op, scope);
}

/* ---- the known operations, as python_torch.c has them ---------------------------------------- */

static const uint64_t add_schema[8], sub_schema[8], cat_schema[8], sum_schema[8], clone_schema[8];
enum { OP = TG_RAW_OP, NODE = TG_RAW_BACKWARD, USER = TG_RAW_USER };

static struct fake_value fake_flat(void) { return fake_plain(7, (struct fake_sizes){2, {3, 4}, {4, 1}}); }
static struct fake_value fake_small(void) { return fake_plain(7, (struct fake_sizes){3, {7, 11, 13}, {1009, 53, 2}}); }

struct fake_forward {
  bool trial;
  uint64_t thread, sequences[3];
};
static void *fake_run_forward(void *argument) {
  struct fake_forward *const f = argument;
  const struct fake_value inputs[] = {fake_flat(), fake_flat(), fake_int(1)};
  f->thread = fake_thread_id();
  for (int i = 0; i < 3; i++) {
    if (!f->trial) tg__torch_announce(TG_PROBE_OP, 3);
    f->sequences[i] = fake.sequence;
    fake_call(fake_op_make(add_schema, "aten::add", "Tensor", (int64_t)fake.sequence, 0, inputs, 3), OP);
    fake.sequence++;
  }
  if (f->trial)
    tg__torch_announce(TG_PROBE_NOTE_FORWARD, (int64_t)f->sequences[0]);
  else
    tg__torch_announce(TG_PROBE_OTHER_OP, 3);
  fake_call(fake_op_make(sub_schema, "aten::sub", "Tensor", (int64_t)fake.sequence, 0, inputs, 3), OP);
  return NULL;
}
static struct fake_forward fake_forward(bool trial) {
  struct fake_forward f = {.trial = trial};
  pthread_t thread;
  if (pthread_create(&thread, NULL, fake_run_forward, &f)) abort();
  pthread_join(thread, NULL);
  return f;
}
static void fake_mark(const char *name, const struct fake_value *values, size_t count) {
  fake_call(fake_op_make(NULL, name, "", -1, 0, values, count), USER);
}

static void fake_calibration(void) {
  static const char *const names[] = {"a name that does not fit into the object", "short",
                                      "another name that is longer than the object has room for"};
  const struct fake_forward f = fake_forward(false);
  const struct fake_value gradient = fake_flat();
  for (int i = 0; i < 3; i++) {
    tg__torch_announce(TG_PROBE_NODE, (int64_t)f.sequences[i]);
    fake_call(fake_op_make(NULL, "AddBackward0", "", (int64_t)f.sequences[i], f.thread, &gradient, 1), NODE);
  }
  for (int i = 0; i < 3; i++) {
    tg__torch_announce(TG_PROBE_TEXT, 0);
    fake_mark(names[i], NULL, 0);
  }
  const struct fake_sizes one = {1, {1}, {1}};
  const struct fake_value small = fake_small(), two[] = {small, small},
                          three[] = {fake_int(11), fake_int(22), fake_int(33)};
  const struct fake_value tensors[] = {
      small,
      fake_plain(7, (struct fake_sizes){7, {2, 3, 4, 5, 6, 7, 8}, {20160, 6720, 1680, 336, 56, 8, 1}}),
      fake_plain(6, one),
      fake_plain(4, one),
      fake_plain(11, one),
      fake_plain(0, one),
      fake_plain(9, one)};
  tg__torch_announce(TG_PROBE_TENSORS, 0);
  fake_mark("tensors", tensors, 7);
  const struct fake_value values[] = {small,
                                      fake_int(1234567890123),
                                      fake_real(2.5),
                                      fake_bool(true),
                                      fake_value(fake.at.complex_number, 0),
                                      fake_text("a text that is too long for the object itself"),
                                      fake_none(),
                                      fake_list(fake_int_type, three, 3),
                                      fake_list(fake_tensor_type, two, 2)};
  tg__torch_announce(TG_PROBE_VALUES, 0);
  fake_mark("values", values, 9);
  for (int i = 0; i < 4; i++) {
    const struct fake_sizes none = {2, {2, 3}, {3, 1}};
    const struct fake_value classes[] = {fake_plain(7, none), fake_tensor(7, none, 2, fake_class),
                                         fake_tensor(7, none, 1, fake_class),
                                         fake_tensor(7, none, 1, fake_unknown_class)};
    tg__torch_announce(TG_PROBE_CLASSES, 0);
    fake_mark("classes", classes, 4);
  }
}

static void fake_trial_round(void) {
  const struct fake_forward f = fake_forward(true);
  const struct fake_value flat = fake_flat(), small = fake_small();
  const struct fake_value large = fake_plain(3, (struct fake_sizes){7, {2, 3, 1, 2, 1, 2, 1}, {12, 4, 4, 2, 2, 1, 1}});
  const struct fake_value ints[] = {fake_int(1), fake_int(-2), fake_int(3)}, real = fake_real(0.5),
                          bools[] = {fake_bool(true), fake_bool(false)};
  const struct fake_value texts[] = {fake_text("a"), fake_text("bc")}, pair[] = {small, large}, flats[] = {flat, flat},
                          zero = fake_int(0);
  const struct fake_value all[] = {small,
                                   fake_int(42),
                                   fake_real(2.25),
                                   fake_bool(false),
                                   fake_text("a text that fits nowhere else"),
                                   fake_none(),
                                   fake_list(fake_int_type, ints, 3),
                                   fake_list(NULL, &real, 1),
                                   fake_list(NULL, bools, 2),
                                   fake_list(NULL, texts, 2),
                                   fake_list(fake_tensor_type, pair, 2),
                                   fake_value(fake.at.complex_number, 0)};
  struct fake_op *const span =
      fake_op_make(NULL, "Prüfung eines Namens, der länger ist als kurze Texte: 測試 🚂", "", -1, 0, all, 12);
  fake_begin(span, USER);
  const struct fake_value add[] = {flat, flat, fake_int(3)},
                          sum[] = {flat, fake_list(fake_int_type, &zero, 1), fake_bool(true), fake_none()};
  fake_call(fake_op_make(add_schema, "aten::add", "Tensor", (int64_t)fake.sequence, 0, add, 3), OP);
  fake_end(span, USER);
  tg__torch_announce(TG_PROBE_NOTE_OP, (int64_t)fake.sequence++);
  fake_call(fake_op_make(NULL, "AddBackward0", "", (int64_t)f.sequences[0], f.thread, &flat, 1), NODE);
  const struct fake_value cat[] = {fake_list(fake_tensor_type, flats, 2), fake_int(1)}, clone[] = {large, fake_none()};
  fake_call(fake_op_make(cat_schema, "aten::cat", "", -1, 0, cat, 2), OP);
  fake_call(fake_op_make(sum_schema, "aten::sum", "dim_IntList", -1, 0, sum, 4), OP);
  fake_call(fake_op_make(clone_schema, "aten::clone", "", -1, 0, clone, 2), OP);
  const struct fake_sizes none = {2, {2, 3}, {3, 1}};
  const struct fake_value classes[] = {fake_tensor(7, none, 2, fake_class),
                                       fake_tensor(7, (struct fake_sizes){1, {4}, {1}}, 1, fake_unknown_class)};
  fake_mark("classes", classes, 2);
}

static enum tg_err fake_run_known(enum tg__torch_program which, struct tg_error *e) {
  if (which == TG_TORCH_CALIBRATION) {
    fake_calibration();
    return TG_OK;
  }
  tg__torch_trial.owner = tg__torch_self();
  for (int round = 0; round < TG_TRIAL_ROUNDS; round++) fake_trial_round();
  tg__torch_trial.owner = 0;
  return TG_OK;
}

static void fake_install(const struct fake_layout *layout) {
  memset(&fake, 0, sizeof fake);
  fake.at = *layout;
  fake.sequence = 17;
  fake.margin = 1408;
  tg__torch_symbols = (struct tg__torch_symbols){.add_callback = fake_add_callback,
                                                 .remove_callback = fake_remove_callback,
                                                 .has_callbacks = fake_has_callbacks,
                                                 .name = fake_name,
                                                 .overload_name = fake_overload_name,
                                                 .thread_id = fake_thread_id,
                                                 .sequence_peek = fake_sequence_peek,
                                                 .num_inputs = fake_num_inputs,
                                                 .undefined_tensor = fake_undefined,
                                                 .strided_classes = {fake_class}};
  tg__torch_run_known = fake_run_known;
}

#endif
