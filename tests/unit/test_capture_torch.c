/* The hook on a torch of our own making (fake_torch.h): what calibration finds in layouts that never existed, that
 * wrong findings are refused, and that what is remembered of inputs is always theirs. */
#include "fake_torch.h"
#include "recording.h"

static int teardown(void **state) {
  fake_free();
  return 0;
}

/* ---- calibration ----------------------------------------------------------------------------- */

static void check_layout(const struct fake_layout *at) {
  struct tg_error e;
  uint32_t known = 0;
  fake_install(at);
  if (tg__torch_calibrate(&known, &e)) fail_msg("%s", e.text);
  assert_int_equal(known, TG_RECORD_OPS | TG_RECORD_SHAPES);
  assert_int_equal(TG_FACT(sequence), at->sequence);
  assert_int_equal(TG_FACT(forward_thread), at->forward_thread);
  assert_int_equal(TG_FACT(call), at->call);
  assert_int_equal(TG_FACT(scope), at->scope);
  assert_int_equal(TG_FACT(name), at->name);
  assert_int_equal(TG_FACT(name_kind), at->name_kind);
  assert_int_equal(TG_FACT(string_length), at->old_string ? -24 : 8);
  assert_int_equal(TG_FACT(inputs), at->inputs);
  assert_int_equal(TG_FACT(kind_int), at->integer);
  assert_int_equal(TG_FACT(kind_list), at->list);
  assert_int_equal(TG_FACT(kind_none), at->none);
  assert_int_equal(TG_FACT(tensor_dims), at->dims);
  assert_int_equal(TG_FACT(tensor_strides), 48);
  assert_int_equal(TG_FACT(tensor_type), at->type);
  assert_int_equal(TG_FACT(tensor_policy), at->policy);
  assert_ptr_equal(tg__torch_abi.tensor_type, fake_tensor_type);
  if (tg__torch_self_test(known, &e)) fail_msg("%s", e.text);
  assert_false(fake_has_callbacks());
}

static void test_layouts(void **state) {
  check_layout(&fake_new);
  check_layout(&fake_old);
  check_layout(&fake_other);
}

/* Objects stand on the stack: where the text would be while a schema is there, lies what was there before. */
static void test_remains_on_the_stack(void **state) {
  struct fake_layout at = fake_new;
  at.remains = 17;
  check_layout(&at);
}

/* Without a number of calls, or the kind of an operation, all else is known. */
static void test_facts_that_are_not_needed(void **state) {
  struct fake_layout at = fake_new;
  at.call = 0;
  check_layout(&at);
  at.scope = 0;
  check_layout(&at);
}

static void test_nothing_to_be_found(void **state) {
  struct fake_layout at = fake_new;
  struct tg_error e;
  uint32_t known;
  at.sequence_is_noise = true;
  fake_install(&at);
  assert_int_equal(tg__torch_calibrate(&known, &e), TG_UNSUPPORTED);
  assert_int_equal(known, 0);
  assert_non_null(strstr(e.text, "'sequence' could be at 0 offsets"));
  at = fake_new;
  at.integer = at.real; /* kinds that cannot be told apart */
  fake_install(&at);
  assert_int_equal(tg__torch_calibrate(&known, &e), TG_UNSUPPORTED);
  assert_int_equal(known, TG_RECORD_OPS);
  assert_non_null(strstr(e.text, "do not say their kind"));
}

static void test_wrong_facts_are_refused(void **state) {
  static const int32_t deltas[] = {1, -1, 8, -8, 16, 64, 100000, -100000};
  struct tg_error e;
  uint32_t known = 0;
  fake_install(&fake_new);
  assert_int_equal(tg__torch_understand(&known, &e), TG_OK);
  assert_int_equal(known, TG_RECORD_OPS | TG_RECORD_SHAPES);
  const char *name, *meaning;
  int64_t value;
  size_t facts = 0;
  for (; tg__torch_abi_at(facts, &name, &meaning, &value); facts++)
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
      const enum tg_err err = tg__torch_abi_falsify(name, deltas[i], &e);
      if (err != TG_UNSUPPORTED) fail_msg("%s by %d is not noticed", name, deltas[i]);
    }
  assert_int_equal(facts, TG_TORCH_FACTS);
  assert_int_equal(tg__torch_abi_falsify("sequence", 0, &e), TG_OK);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* What a value is written as, said a second time. */
static struct fake_value random_value(uint64_t *seed, struct tg__out *o, bool in_list);
static uint64_t pick(uint64_t *seed, uint64_t below) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 33) % below;
}

static struct fake_value random_tensor(uint64_t *seed, struct tg__out *o) {
  struct fake_sizes s = {.dims = pick(seed, 9)};
  const uint16_t type = (uint16_t)pick(seed, 3);
  const unsigned policy = pick(seed, 10) ? 0 : (unsigned)pick(seed, 3);
  const bool is_strided = pick(seed, 8) > 0;
  for (size_t i = 0; i < s.dims; i++) s.sizes[i] = (int64_t)pick(seed, 3), s.strides[i] = (int64_t)pick(seed, 2);
  if (policy == 2) {
    tg__out_put8(o, TG_INPUT_UNDEFINED);
  } else {
    tg__out_put32(o, TG_INPUT_TENSOR | (uint32_t)type << 8 | (uint32_t)s.dims << 16 | (uint32_t)is_strided << 24);
    for (size_t i = 0; i < s.dims; i++) tg__out_put64(o, (uint64_t)s.sizes[i]);
    for (size_t i = 0; i < s.dims && is_strided; i++) tg__out_put64(o, (uint64_t)s.strides[i]);
  }
  return fake_tensor(type, s, policy, is_strided ? fake_class : fake_unknown_class);
}

static struct fake_value random_list(uint64_t *seed, struct tg__out *o) {
  enum { MOST = 40 };
  struct fake_value items[MOST];
  const size_t count = pick(seed, 5) ? pick(seed, 4) : pick(seed, MOST);
  const bool tensors = pick(seed, 3) == 0;
  if (tensors || count <= 30) {
    tg__out_put8(o, tensors ? TG_INPUT_TENSOR_LIST : TG_INPUT_INT_LIST);
    tg__out_put16(o, (uint16_t)count);
  } else {
    tg__out_put8(o, TG_INPUT_SCALAR_LIST);
  }
  for (size_t i = 0; i < count; i++) {
    if (tensors) {
      items[i] = random_tensor(seed, o);
      continue;
    }
    items[i] = fake_int((int64_t)pick(seed, 3));
    if (count <= 30) tg__out_put64(o, items[i].payload);
  }
  return fake_list(tensors ? fake_tensor_type : fake_int_type, items, count);
}

static struct fake_value random_value(uint64_t *seed, struct tg__out *o, bool in_list) {
  struct fake_value v;
  switch (pick(seed, 8)) {
  case 0:
    v = fake_int((int64_t)pick(seed, 3) - 1);
    tg__out_put8(o, TG_INPUT_INT);
    tg__out_put64(o, v.payload);
    return v;
  case 1:
    v = fake_real((double)pick(seed, 3) / 2);
    tg__out_put8(o, TG_INPUT_DOUBLE);
    tg__out_put64(o, v.payload);
    return v;
  case 2:
    v = fake_bool(pick(seed, 2));
    tg__out_put8(o, TG_INPUT_BOOL);
    tg__out_put8(o, v.payload & 1);
    return v;
  case 3:
    tg__out_put8(o, TG_INPUT_NONE);
    return fake_none();
  case 4: {
    static const char *const texts[] = {"", "floor", "trunc"};
    const char *const text = texts[pick(seed, 3)];
    tg__out_put8(o, TG_INPUT_STRING);
    tg__out_put16(o, (uint16_t)strlen(text));
    tg__out_bytes(o, text, strlen(text));
    return fake_text(text);
  }
  case 5:
    return random_list(seed, o);
  default:
    return random_tensor(seed, o);
  }
}

/* One list as the only input: what is written for it. */
static void check_list(struct tg__thread *t, const struct fake_value *items, size_t count,
                       const struct tg__out *expected) {
  static uint32_t name;
  const struct fake_value list = fake_list(fake_int_type, items, count);
  const struct fake_op *const op = fake_op_make(add_schema, "x", "", -1, 0, &list, 1);
  const uint32_t id = tg__torch_inputs(t, op->bytes, ++name, 1);
  assert_int_not_equal(id, 0);
  assert_int_equal(tg__torch_inputs(t, op->bytes, name, 1), id); /* the way of the comparison */
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, expected->buf, expected->len), id);
}

/* Lists up to torch's own limit are kept when all of their elements are of one kind, whatever kind that is. */
static void test_lists_of_every_kind(void **state) {
  enum { LIMIT = 30 };
  static const uint8_t tags[] = {TG_INPUT_INT_LIST, TG_INPUT_DOUBLE_LIST, TG_INPUT_BOOL_LIST, TG_INPUT_STRING_LIST};
  struct fake_value items[LIMIT + 1];
  struct tg_error e;
  fake.margin = 16;
  recording_start(
      (struct tg_record_options){.features = TG_RECORD_OPS | TG_RECORD_SHAPES, .required = TG_RECORD_OPS, .rank = -1});
  struct tg__thread *const t = tg__thread();
  for (int kind = 0; kind < 4; kind++) {
    for (int i = 0; i <= LIMIT; i++)
      items[i] = kind == 0 ? fake_int(i) : kind == 1 ? fake_real(i) : kind == 2 ? fake_bool(i % 2) : fake_text("ab");
    for (size_t count = LIMIT - 1; count <= LIMIT + 1; count++) {
      struct tg__out o = {0};
      tg__out_put8(&o, count <= LIMIT ? tags[kind] : kind == 3 ? TG_INPUT_OTHER : TG_INPUT_SCALAR_LIST);
      if (count <= LIMIT) tg__out_put16(&o, (uint16_t)count);
      for (size_t i = 0; i < count && count <= LIMIT; i++) {
        if (kind < 2) tg__out_put64(&o, items[i].payload);
        if (kind == 2) tg__out_put8(&o, i % 2);
        if (kind == 3) tg__out_put16(&o, 2), tg__out_bytes(&o, "ab", 2);
      }
      check_list(t, items, count, &o);
      tg__out_free(&o);
    }
    struct tg__out o = {0};
    items[LIMIT - 1] = fake_none();
    tg__out_put8(&o, kind == 3 ? TG_INPUT_OTHER : TG_INPUT_SCALAR_LIST); /* the last one is of another kind */
    check_list(t, items, LIMIT, &o);
    tg__out_free(&o);
  }
  assert_int_equal(tg_record_close(NULL, &e), TG_OK);
}

/* Numbers and inputs belong together one to one, however often what was remembered is forgotten. */
static void test_inputs_and_their_numbers(void **state) {
  enum { NAMES = 8, CALLS = 6000, MOST = 4 };
  static struct {
    char *bytes;
    size_t len;
  } of_id[CALLS + 1];
  struct tg_error e;
  uint64_t seed = 4711;
  size_t distinct = 0;
  fake.margin = 16;
  recording_start(
      (struct tg_record_options){.features = TG_RECORD_OPS | TG_RECORD_SHAPES, .required = TG_RECORD_OPS, .rank = -1});
  struct tg__thread *const t = tg__thread();
  for (int call = 0; call < CALLS; call++) {
    struct fake_value values[MOST];
    struct tg__out o = {0};
    const size_t count = 1 + pick(&seed, MOST);
    for (size_t i = 0; i < count; i++) values[i] = random_value(&seed, &o, false);
    const struct fake_op *const op = fake_op_make(add_schema, "x", "", -1, 0, values, count);
    const uint32_t id = tg__torch_inputs(t, op->bytes, (uint32_t)pick(&seed, NAMES), (uint32_t)count);
    assert_in_range(id, 1, CALLS);
    if (!of_id[id].bytes) {
      assert_int_equal(id, ++distinct); /* so the same inputs never got a second number: */
      for (uint32_t k = 1; k < id; k++)
        assert_false(of_id[k].len == o.len && memcmp(of_id[k].bytes, o.buf, o.len) == 0);
      of_id[id].bytes = memcpy(fake_keep(malloc(o.len)), o.buf, of_id[id].len = o.len);
    }
    assert_int_equal(of_id[id].len, o.len);
    assert_memory_equal(of_id[id].bytes, o.buf, o.len);
    tg__out_free(&o);
  }
  assert_true(distinct > 1500);
  assert_int_equal(tg_record_close(NULL, &e), TG_OK);
}

/* ---- which functions torch is given ---------------------------------------------------------- */

static uint32_t stacks_asked;
static uint32_t count_stack(struct tg__thread *t) {
  stacks_asked++;
  return 0;
}

/* Inputs are asked of torch, which pays for them, only where they are recorded, and stacks of us. */
static void check_choice(uint32_t features, bool with_stacks, bool inputs) {
  struct fake_op *const add = fake_op_make(add_schema, "aten::add", "Tensor", 3, 0, NULL, 0);
  atomic_store(&tg__stack_of, with_stacks ? count_stack : tg__stack_none);
  stacks_asked = 0;
  recording_start((struct tg_record_options){.features = features, .required = TG_RECORD_OPS, .rank = -1});
  for (size_t i = 0; i < 8; i++)
    if (fake.handles[i]) assert_int_equal(fake.callbacks[i].needs_inputs, inputs);
  fake_call(add, OP);
  atomic_store(&tg__stack_of, tg__stack_none);
  assert_int_equal(recording_close().records, 1);
  assert_int_equal(stacks_asked, with_stacks);
}

static void test_torch_is_asked_for_what_is_recorded(void **state) {
  check_choice(TG_RECORD_OPS, false, false);
  check_choice(TG_RECORD_OPS, true, false);
  check_choice(TG_RECORD_OPS | TG_RECORD_SHAPES, false, true);
  check_choice(TG_RECORD_OPS | TG_RECORD_SHAPES, true, true);
}

/* Records of all kinds, from so many callbacks. */
static void check_callbacks(size_t callbacks) {
  static const uint8_t scopes[] = {OP, NODE, TG_RAW_SCRIPT, USER};
  static const char *const names[] = {"aten::add", "AddBackward0", "forward", "label"};
  size_t registered = 0;
  recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
  for (size_t i = 0; i < 8; i++) registered += fake.handles[i] != 0;
  assert_int_equal(registered, callbacks);
  for (size_t i = 0; i < 4; i++) fake_call(fake_op_make(NULL, names[i], "", 6, 77, NULL, 0), scopes[i]);
  assert_int_equal(recording_close().records, 4);
  struct tg__columns *const t = recording_read(recording_path);
  for (size_t i = 0; i < 4; i++) {
    const uint32_t at = recording_find(t, names[i]);
    assert_int_equal(tg__slice_class(t, at), scopes[i] == USER ? TG__CLASS_ANNOTATION : TG__CLASS_OP);
    assert_int_equal(tg__arg_int(t, t->slices.args[at], TG__K_FWD_THREAD_ID, 0), scopes[i] == NODE ? 77 : 0);
  }
  tg__trace_free(t);
}

/* torch goes through its list of callbacks twice for each autograd node: ours is one. */
static void test_one_callback_for_all_kinds(void **state) { check_callbacks(1); }

/* In a child, as in test_a_torch_that_is_not_understood. */
static void test_a_torch_without_the_kind_of_an_operation(void **state) {
  const pid_t child = fork();
  if (child == 0) {
    struct fake_layout at = fake_new;
    at.scope = 0;
    fake_install(&at);
    check_callbacks(4);
    _exit(0);
  }
  assert_exits_with_zero(child);
}

/* Stacks of another recorder in this process begin and end while operations run; the thread sanitizer looks on. */
static uint32_t other_stack(struct tg__thread *t) { return 0; }
static _Atomic bool switching;
static void *switch_stacks(void *unused) {
  while (atomic_load(&switching)) {
    atomic_store(&tg__stack_of, other_stack);
    atomic_store(&tg__stack_of, tg__stack_none);
  }
  return NULL;
}
static void test_stacks_are_switched_while_operations_run(void **state) {
  enum { CALLS = 2000 };
  struct fake_op *const add = fake_op_make(add_schema, "aten::add", "Tensor", 3, 0, NULL, 0),
                        *const node = fake_op_make(NULL, "AddBackward0", "", 3, 77, NULL, 0);
  pthread_t thread;
  atomic_store(&tg__stack_of, other_stack);
  recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
  atomic_store(&switching, true);
  assert_int_equal(pthread_create(&thread, NULL, switch_stacks, NULL), 0);
  for (int i = 0; i < CALLS; i++) {
    fake_call(add, OP);
    fake_call(node, NODE);
  }
  atomic_store(&switching, false);
  pthread_join(thread, NULL);
  atomic_store(&tg__stack_of, tg__stack_none);
  assert_int_equal(recording_close().records, 2 * CALLS);
}

/* In a child, for what is known of torch is known once per process: of this one nothing, so its objects are not
 * looked into. */
static void test_a_torch_that_is_not_understood(void **state) {
  const pid_t child = fork();
  if (child == 0) {
    struct fake_layout at = fake_new;
    at.sequence_is_noise = true;
    fake_install(&at);
    check_choice(TG_RECORD_OPS | TG_RECORD_SHAPES, true, false);
    struct fake_op *const blank = fake_op_make(NULL, "aten::add", "", -1, 0, NULL, 0);
    memset(blank->bytes, 0, sizeof blank->bytes); /* only torch's own function knows its name */
    recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
    fake_call(blank, OP);
    recording_close();
    struct tg__columns *const t = recording_read(recording_path);
    const bool named = recording_count(t, "aten::add", NULL) == 1;
    tg__trace_free(t);
    _exit(named ? 0 : 3);
  }
  assert_exits_with_zero(child);
}

/* ---- a recording ----------------------------------------------------------------------------- */

static void *end_it(void *op) {
  fake_end(op, USER);
  return NULL;
}

static void test_recording(void **state) {
  pthread_t thread;
  recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
  assert_true(fake_has_callbacks());
  struct fake_op *const label = fake_op_make(NULL, "label", "", -1, 0, NULL, 0), *const handed =
                                                                                     fake_op_make(NULL, "handed over",
                                                                                                  "", -1, 0, NULL, 0);
  struct fake_op *const add = fake_op_make(add_schema, "aten::add", "Tensor", 3, 0, NULL, 0);
  fake_begin(label, USER);
  fake_call(add, OP);
  fake_begin(handed, USER);
  fake_call(fake_op_make(NULL, "AddBackward0", "", 3, 77, NULL, 0), NODE);
  assert_int_equal(pthread_create(&thread, NULL, end_it, handed), 0);
  pthread_join(thread, NULL);
  fake_call(add, OP);
  fake_end(label, USER);
  fake_end(label, USER); /* an end without a begin */
  assert_int_equal(recording_close().records, 5);
  assert_false(fake_has_callbacks());
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_slices(t), 5);
  assert_int_equal(recording_count(t, "aten::add", NULL), 2);
  const uint32_t outer = recording_find(t, "label");
  assert_int_equal(t->slices.parent[recording_find(t, "AddBackward0")], outer);
  assert_int_equal(t->slices.parent[recording_find(t, "handed over")], TG_NONE); /* it is on the thread that ended it */
  assert_int_equal(t->slices.parent[outer], TG_NONE);
  tg__trace_free(t);
}

/* Another tool asks torch for numbers: they are in the file, each with its call, and in no other. */
static void *start_nothing(void **context, const void *rf) {
  *context = NULL;
  return context;
}
static void end_nothing(const void *rf, void *context) {}
static void test_numbers_of_calls(void **state) {
  recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
  fake_call(fake_op_make(add_schema, "aten::add", "Tensor", 3, 0, NULL, 0), OP);
  const uint64_t observer = fake_add_callback(
      (struct tg__torch_callback){.start = start_nothing, .end = end_nothing, .probability = 1, .needs_ids = true});
  struct fake_op *const node = fake_op_make(NULL, "AddBackward0", "", 3, 77, NULL, 0);
  const uint64_t number = fake.calls;
  fake_begin(node, NODE);
  fake_end(node, NODE);
  fake.calls = UINT64_C(5) << 32;
  fake_call(fake_op_make(NULL, "label", "", -1, 0, NULL, 0), USER);
  fake_remove_callback(observer);
  assert_int_equal(recording_close().records, 3);
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t *const args = t->slices.args;
  assert_int_equal(tg__arg_int(t, args[recording_find(t, "AddBackward0")], TG__K_RECORD_FUNCTION_ID, -1), number);
  assert_int_equal(tg__arg_int(t, args[recording_find(t, "label")], TG__K_RECORD_FUNCTION_ID, -1),
                   (INT64_C(5) << 32) + 1);
  assert_int_equal(tg__arg_int(t, args[recording_find(t, "aten::add")], TG__K_RECORD_FUNCTION_ID, -1), -1);
  tg__trace_free(t);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void test_the_lock_is_found(void **state) {
  fake_install(&fake_new);
  tg__torch_lock_find();
  assert_true(tg__torch_lock_is_known());
  tg__torch_lock_take();
  assert_int_not_equal(pthread_mutex_trylock(&fake_registry.lock), 0);
  tg__torch_lock_release();
  assert_int_equal(pthread_mutex_trylock(&fake_registry.lock), 0);
  pthread_mutex_unlock(&fake_registry.lock);
  assert_false(fake_has_callbacks());
}

/* A list that looks the same, with a mutex that no thread waits for; and two that look the same. */
static struct {
  uint64_t version;
  const void *begin, *end, *room;
  pthread_mutex_t lock;
} decoy = {.lock = PTHREAD_MUTEX_INITIALIZER};
static bool leaves_no_list;
static uint64_t add_beside_decoy(struct tg__torch_callback c) {
  const uint64_t handle = fake_add_callback(c);
  decoy.version = 1;
  decoy.begin = fake_registry.begin;
  decoy.end = fake_registry.end;
  decoy.room = fake_registry.room;
  if (leaves_no_list) fake_registry.begin = NULL;
  return handle;
}
static void test_another_lock_is_not_believed(void **state) {
  fake_install(&fake_new);
  tg__torch_symbols.add_callback = add_beside_decoy;
  for (int i = 0; i < 2; i++) {
    leaves_no_list = i;
    tg__torch_lock_find();
    assert_false(tg__torch_lock_is_known());
    tg__torch_lock_take(); /* nothing */
    assert_int_equal(pthread_mutex_trylock(&decoy.lock), 0);
    pthread_mutex_unlock(&decoy.lock);
  }
  memset(&decoy, 0, sizeof decoy);
  tg__torch_symbols.add_callback = fake_add_callback;
  tg__torch_lock_find();
  assert_true(tg__torch_lock_is_known());
}

static _Atomic bool toggling;
static void *toggle(void *unused) {
  while (atomic_load(&toggling))
    if (tg_record_pause(NULL) || tg_record_resume(NULL)) abort();
  return NULL;
}

/* What every thread of torch does at its first operation after the list changed; here it takes its time. */
static void *read_list(void *unused) {
  while (atomic_load(&toggling)) {
    pthread_mutex_lock(&fake_registry.lock);
    sleep_us(500);
    pthread_mutex_unlock(&fake_registry.lock);
    sleep_us(100);
  }
  return NULL;
}

/* A child that is forked while recording starts or stops, or while other threads notice that, must be able to run
 * operators: torch's lock is free there. */
static void test_forks_while_the_recording_changes(void **state) {
  pthread_t threads[2];
  recording_start((struct tg_record_options){.features = TG_RECORD_OPS, .required = TG_RECORD_OPS, .rank = -1});
  atomic_store(&toggling, true);
  assert_int_equal(pthread_create(&threads[0], NULL, toggle, NULL), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, read_list, NULL), 0);
  for (int i = 0; i < 20; i++) {
    sleep_us(700);
    const pid_t child = fork();
    if (child == 0) _exit(pthread_mutex_trylock(&fake_registry.lock) != 0);
    assert_exits_with_zero(child);
  }
  atomic_store(&toggling, false);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(pthread_mutex_trylock(&fake_registry.lock), 0); /* and in the parent */
  pthread_mutex_unlock(&fake_registry.lock);
  recording_close();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_layouts, teardown),
      cmocka_unit_test_teardown(test_remains_on_the_stack, teardown),
      cmocka_unit_test_teardown(test_facts_that_are_not_needed, teardown),
      cmocka_unit_test_teardown(test_nothing_to_be_found, teardown),
      cmocka_unit_test_setup_teardown(test_a_torch_that_is_not_understood, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_a_torch_without_the_kind_of_an_operation, recording_setup,
                                      recording_teardown),
      cmocka_unit_test_teardown(test_wrong_facts_are_refused, teardown), /* from here on this torch is the process' */
      cmocka_unit_test(test_the_lock_is_found),
      cmocka_unit_test(test_another_lock_is_not_believed),
      cmocka_unit_test_setup_teardown(test_inputs_and_their_numbers, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_lists_of_every_kind, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_torch_is_asked_for_what_is_recorded, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_one_callback_for_all_kinds, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_stacks_are_switched_while_operations_run, recording_setup,
                                      recording_teardown),
      cmocka_unit_test_setup_teardown(test_recording, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_numbers_of_calls, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_forks_while_the_recording_changes, recording_setup, recording_teardown),
  };
  tg__source_add(&tg__source_torch_inputs);
  return cmocka_run_group_tests(tests, NULL, teardown);
}
