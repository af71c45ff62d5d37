/* Nodes of CUDA graphs that are kept while nothing is recorded: a later recording names them, a launch calls nothing
 * back, memory is bounded, and off means off. With the stand-ins of tests/fake. */
#include "unit/cuda_fakes.h"

#include "capture/kept.h"
#include "capture/torch.h"

enum { ROOMY = 64 << 20 };
static const uint64_t graph_5 = UINT64_C(5) << 32, graph_6 = UINT64_C(6) << 32;

/* ---- operators and places without torch and Python -------------------------------------------- */

static const char *name_of(const void *rf) { return rf; }

static uint32_t place;
static bool has_room = true;
static bool place_now(uint32_t *out) { return *out = place, has_room; }
static uint32_t stack_of(struct tg__thread *t, uint32_t number) {
  char text[64];
  const int len = snprintf(text, sizeof text, "net.py(%u): forward", number);
  return tg__dictionary_intern(t, TG_RAW_D_STACK, 0, text, (size_t)len);
}
static void forget(void) {}
static void count(struct tg__kept_stats *out) {}

static void keep(uint64_t bytes) {
  static const struct tg__kept_places own = {place_now, stack_of, forget, count};
  struct tg_error e;
  atomic_store(&tg__kept_places, &own);
  tg__torch_symbols.name = name_of;
  if (tg__cuda_keep(bytes, &e)) fail_msg("%s", e.text);
}

static int keep_nothing(void **state) {
  keep(0);
  place = 0;
  has_room = true;
  fake_reset();
  return 0;
}

/* A node, captured inside an operator. */
static void capture(uint64_t node, const char *op, uint32_t line) {
  char script[64];
  place = line;
  snprintf(script, sizeof script, "capture %llu 0", (unsigned long long)node);
  if (op) tg__torch_follow(op);
  play(script);
  if (op) tg__torch_followed(op, NULL);
}
static void instantiate(uint64_t node, uint64_t from) {
  char script[64];
  snprintf(script, sizeof script, "clone %llu %llu 0", (unsigned long long)node, (unsigned long long)from);
  play(script);
}
static void launch(uint64_t node, const char *name) {
  char script[128];
  snprintf(script, sizeof script, "kernel -900 -800 0 1 7 1 6 %llu 1 1 1 32 1 1 8 0 0 %s\nflush",
           (unsigned long long)node, name);
  play(script);
}

static void start_with_stacks(void) {
  recording_start((struct tg_record_options){
      .rank = -1, .features = TG_RECORD_CUDA | TG_RECORD_STACKS, .required = TG_RECORD_CUDA});
}

static void assert_captured(const struct tg__columns *t, const char *kernel, const char *op, const char *stack) {
  uint32_t k;
  assert_int_equal(recording_count(t, kernel, &k), 1);
  const uint32_t got_op = tg__arg_str(t, t->slices.args[k], TG__K_CAPTURED_OP),
                 got_stack = tg__arg_str(t, t->slices.args[k], TG__K_CAPTURED_STACK);
  if (!op) assert_int_equal(got_op, TG_NONE);
  if (!stack) assert_int_equal(got_stack, TG_NONE);
  if (op) assert_true(recording_name_is(t, got_op, op));
  if (stack) assert_true(recording_name_is(t, got_stack, stack));
}

/* ---- tests ------------------------------------------------------------------------------------ */

/* Captured and instantiated while nothing is recorded; the captured graph is gone by the time of the launches. */
static void test_a_later_recording_names_them(void **state) {
  keep(ROOMY);
  capture(graph_5 + 1, "aten::mm", 3);
  capture(graph_5 + 2, "aten::add", 4);
  capture(graph_5 + 3, NULL, 9); /* outside of all operators */
  for (uint64_t i = 1; i <= 3; i++) instantiate(graph_6 + i, graph_5 + i);
  play("destroy_graph 5");
  assert_int_equal(tg__kept_now().nodes, 3);
  for (int again = 0; again < 2; again++) { /* each file has its own numbers */
    start_with_stacks();
    const uint64_t before = fake_number("told");
    launch(graph_6 + 1, "first");
    launch(graph_6 + 2, "second");
    launch(graph_6 + 3, "third");
    launch(graph_5 + 1, "of_the_captured_one");
    assert_int_equal(fake_number("told"), before); /* no callback for a launch */
    recording_close();
    assert_int_equal(fake_number("subscribed"), 1);
    assert_int_equal(fake_number("called"), 5);
    struct tg__columns *const t = recording_read(recording_path);
    assert_captured(t, "first", "aten::mm", "net.py(3): forward");
    assert_captured(t, "second", "aten::add", "net.py(4): forward");
    assert_captured(t, "third", NULL, "net.py(9): forward");
    assert_captured(t, "of_the_captured_one", NULL, NULL);
    tg__trace_free(t);
  }
}

/* One that was captured in a recording is known in the next one, too. */
static void test_captured_in_an_earlier_recording(void **state) {
  keep(ROOMY);
  start_with_stacks();
  capture(graph_5 + 1, "aten::mm", 3);
  instantiate(graph_6 + 1, graph_5 + 1);
  recording_close();
  start_with_stacks();
  launch(graph_6 + 1, "first");
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  assert_captured(t, "first", "aten::mm", "net.py(3): forward");
  tg__trace_free(t);
}

static void test_launches_call_nothing_back(void **state) {
  char script[128];
  keep(ROOMY);
  capture(graph_5 + 1, "aten::mm", 3);
  const uint64_t before = fake_number("told");
  snprintf(script, sizeof script, "runtime 0 1000 311 %d 900\ndriver_call 0 900 514 %d 900\nkernels 1000 10000 5000 2",
           (int)getpid(), (int)getpid());
  play(script);
  assert_int_equal(fake_number("told"), before);
  assert_int_equal(fake_number("enabled"), 0); /* no records either */
  assert_int_equal(fake_number("requested"), 0);
}

static void test_what_is_destroyed_is_forgotten(void **state) {
  keep(ROOMY);
  for (uint64_t i = 1; i <= 1000; i++) capture(graph_5 + i, "aten::mm", (uint32_t)i);
  for (uint64_t i = 1; i <= 1000; i++) instantiate(graph_6 + i, graph_5 + i);
  assert_int_equal(tg__kept_now().nodes, 2000);
  play("destroy_graph 5");
  assert_int_equal(tg__kept_now().nodes, 1000);
  char script[64];
  snprintf(script, sizeof script, "destroy_node %llu", (unsigned long long)graph_6 + 17);
  play(script);
  assert_int_equal(tg__kept_now().nodes, 999);
  play("destroy_exec 6");
  assert_int_equal(tg__kept_now().nodes, 0);
  assert_int_equal(tg__kept_now().bytes, 0);
}

static void test_memory_is_bounded_and_losses_counted(void **state) {
  enum { MOST = 64 << 10, NODES = 10000 };
  keep(MOST);
  for (uint64_t i = 1; i <= NODES; i++) capture(graph_5 + i, "aten::mm", (uint32_t)i);
  const struct tg__kept_stats s = tg__kept_now();
  assert_true(s.bytes <= MOST);
  assert_int_equal(s.nodes + s.lost, NODES);
  assert_true(s.nodes > 1000 && s.lost > 1000);
  has_room = false; /* no place for a stack: such a node is lost as well, not kept by half */
  capture(graph_6 + 1, "aten::mm", 1);
  assert_int_equal(tg__kept_now().lost, s.lost + 1);
}

/* At the worst moment of growth, for the table and the names. */
static void test_bytes_of_a_node(void **state) {
  double worst = 0;
  keep(ROOMY);
  for (uint64_t i = 1; i <= 200000; i++) {
    capture(graph_5 + i, i % 3 ? "aten::mm" : "aten::add", 1);
    const struct tg__kept_stats s = tg__kept_now();
    const double each = (double)s.bytes / (double)s.nodes;
    if (i >= 1000 && each > worst) worst = each;
  }
  printf("%.1f bytes a node at the most\n", worst);
  assert_true(worst <= 64);
}

static void test_off_means_off(void **state) {
  keep(ROOMY);
  capture(graph_5 + 1, "aten::mm", 3);
  keep(0);
  assert_int_equal(fake_number("subscribed"), 0);
  assert_int_equal(fake_number("called"), 0);
  assert_int_equal(tg__kept_now().bytes, 0);
  assert_false(tg__kept_is_on());
  start_with_stacks(); /* switched on and off while something is recorded: that goes on */
  keep(ROOMY);
  keep(0);
  assert_int_equal(fake_number("subscribed"), 1);
  assert_int_equal(fake_number("called"), 3);
  capture(graph_5 + 7, "aten::mm", 3);
  launch(graph_5 + 7, "kernel_of_it");
  recording_close();
  struct tg_record_cuda_stats stats;
  tg_record_cuda(&stats);
  assert_int_equal(stats.kernels, 1);
  assert_int_equal(fake_number("subscribed"), 0);
  assert_int_equal(fake_number("called"), 0);
}

/* Torch's collector has the subscriber: a sentence, and nothing of ours. */
static void test_no_subscriber(void **state) {
  struct tg_error e;
  play("busy 39");
  assert_int_equal(tg__cuda_keep(ROOMY, &e), TG_UNSUPPORTED);
  assert_non_null(strstr(e.text, "subscriber"));
  assert_false(tg__kept_is_on());
}

/* Against a plain list: captured, cloned, taken out and dropped by graph at random. */
static void test_random_against_a_list(void **state) {
  enum { GRAPHS = 7, NODES = 400, TURNS = 60000 };
  static bool there[GRAPHS][NODES];
  uint64_t expected = 0, random = 88172645463325252u;
  memset(there, 0, sizeof there);
  keep(ROOMY);
  for (int turn = 0; turn < TURNS; turn++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    const uint32_t g = (uint32_t)(random >> 8) % GRAPHS, i = (uint32_t)(random >> 32) % NODES;
    const uint64_t node = (uint64_t)(g + 1) << 32 | (i + 1);
    if (random % 1000 == 0) {
      tg__kept_drop_graph(g + 1);
      for (int k = 0; k < NODES; k++) expected -= there[g][k], there[g][k] = false;
    } else if (random % 3 == 0) {
      tg__kept_drop(node);
      expected -= there[g][i], there[g][i] = false;
    } else {
      place = i + 1;
      tg__kept_capture(node, 0, false);
      expected += !there[g][i], there[g][i] = true;
    }
    assert_int_equal(tg__kept_now().nodes, expected);
  }
  start_with_stacks();
  struct tg__thread *const t = tg__thread();
  for (uint32_t g = 0; g < GRAPHS; g++)
    for (uint32_t i = 0; i < NODES; i++) {
      uint32_t op, stack;
      assert_int_equal(tg__kept_find(t, (uint64_t)(g + 1) << 32 | (i + 1), &op, &stack), there[g][i]);
      if (there[g][i]) assert_int_equal(stack, stack_of(t, i + 1));
    }
  recording_close();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_a_later_recording_names_them, keep_nothing),
      cmocka_unit_test_setup(test_captured_in_an_earlier_recording, keep_nothing),
      cmocka_unit_test_setup(test_launches_call_nothing_back, keep_nothing),
      cmocka_unit_test_setup(test_what_is_destroyed_is_forgotten, keep_nothing),
      cmocka_unit_test_setup(test_memory_is_bounded_and_losses_counted, keep_nothing),
      cmocka_unit_test_setup(test_bytes_of_a_node, keep_nothing),
      cmocka_unit_test_setup(test_off_means_off, keep_nothing),
      cmocka_unit_test_setup(test_no_subscriber, keep_nothing),
      cmocka_unit_test_setup(test_random_against_a_list, keep_nothing),
  };
  return cmocka_run_group_tests(tests, load_fakes, recording_teardown);
}
