/* Ranges and marks of NVTX, from a client of its own: what it pushed, started and marked comes back from the file, and
 * whatever it does wrong the program goes on. */
#include <math.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "unit/nvtx_client.h"
#include "unit/recording.h"

extern int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));

static void start(void) {
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_NVTX, .required = TG_RECORD_NVTX});
}

static struct nvtx_attributes named(const char *text) {
  return (struct nvtx_attributes){
      .version = 3, .size = sizeof(struct nvtx_attributes), .message_type = 1, .message.ascii = text};
}

static int64_t int_of(const struct tg__columns *t, uint32_t args, uint32_t key) {
  return tg__arg_int(t, args, key, -999);
}

static bool text_is(const struct tg__columns *t, uint32_t args, uint32_t key, const char *text) {
  struct tg__val v;
  return tg__arg(t, args, key, false, &v) && (v.kind == TG__KIND_STR || v.kind == TG__KIND_RAW) &&
         recording_name_is(t, v.str, text);
}

static uint32_t find_mark(const struct tg__columns *t, const char *name) {
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (recording_name_is(t, t->marks.name[i], name)) return i;
  fail_msg("there is no mark %s", name);
  return TG_NONE;
}

/* ---- what is recorded ------------------------------------------------------------------------ */

static void test_pushed(void **state) {
  start();
  assert_int_equal(nvtx_push_a("outer"), 0);
  assert_int_equal(nvtx_push_w(L"wide \u00e9\u20ac\U0001f600"), 1);
  assert_int_equal(nvtx_pop(), 1);
  const struct nvtx_attributes inner = named("inner");
  assert_int_equal(nvtx_push_ex(&inner), 1);
  nvtx_mark_a("a mark");
  assert_int_equal(nvtx_pop(), 1);
  assert_int_equal(nvtx_pop(), 0);
  assert_int_equal(recording_close().records, 4);
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t outer = recording_find(t, "outer");
  assert_int_equal(recording_slices(t), 3);
  assert_int_equal(t->slices.parent[recording_find(t, "inner")], outer);
  assert_int_equal(t->slices.parent[recording_find(t, "wide \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")], outer);
  assert_int_equal(tg__slice_class(t, outer), TG__CLASS_ANNOTATION);
  find_mark(t, "a mark");
  tg__trace_free(t);
}

static void test_attributes(void **state) {
  void *const domain = nvtx_domain_a("my domain");
  struct nvtx_attributes a = named("all of it");
  nvtx_domain_category_a(domain, 7, "loading");
  start();
  a.category = 7;
  a.color_type = 1;
  a.color = 0xff00c8fe;
  a.payload_type = 2;
  a.payload.i64 = -5;
  nvtx_domain_push(domain, &a);
  a = named("no name of a category");
  a.category = 8;
  a.payload_type = 1;
  a.payload.u64 = UINT64_MAX;
  nvtx_push_ex(&a);
  a = named("mark");
  a.payload_type = 3;
  a.payload.f64 = 0.25;
  nvtx_domain_mark(domain, &a);
  a = (struct nvtx_attributes){.version = 3, .size = sizeof a, .message_type = 3};
  a.message.registered = nvtx_register_a(domain, "registered");
  a.payload_type = 6;
  a.payload.f32 = -1.5f;
  nvtx_domain_mark(domain, &a);
  a = named("not finite");
  a.payload_type = 3;
  a.payload.f64 = INFINITY;
  nvtx_mark_ex(&a);
  nvtx_pop();
  nvtx_domain_pop(domain);
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t all = t->slices.args[recording_find(t, "all of it")],
                 other = t->slices.args[recording_find(t, "no name of a category")],
                 mark = t->marks.args[find_mark(t, "mark")], registered = t->marks.args[find_mark(t, "registered")];
  assert_true(text_is(t, all, TG__K_NVTX_DOMAIN, "my domain"));
  assert_true(text_is(t, all, TG__K_NVTX_CATEGORY, "loading"));
  assert_true(text_is(t, all, TG__K_NVTX_COLOR, "#ff00c8fe"));
  assert_int_equal(int_of(t, all, TG__K_NVTX_PAYLOAD), -5);
  assert_int_equal(int_of(t, other, TG__K_NVTX_CATEGORY), 8);
  assert_true(text_is(t, other, TG__K_NVTX_PAYLOAD, "18446744073709551615"));
  assert_false(text_is(t, other, TG__K_NVTX_DOMAIN, "my domain"));
  assert_true(text_is(t, mark, TG__K_NVTX_PAYLOAD, "0.25"));
  assert_true(text_is(t, mark, TG__K_NVTX_DOMAIN, "my domain"));
  assert_true(text_is(t, registered, TG__K_NVTX_PAYLOAD, "-1.5"));
  assert_true(text_is(t, t->marks.args[find_mark(t, "not finite")], TG__K_NVTX_PAYLOAD, "\"inf\""));
  tg__trace_free(t);
}

/* Each domain has a stack of its own on each thread. */
static void test_domains_apart(void **state) {
  void *const one = nvtx_domain_a("one"), *const two = nvtx_domain_w(L"two");
  const struct nvtx_attributes a = named("of one"), b = named("of two");
  assert_ptr_equal(nvtx_domain_a("one"), one);
  assert_ptr_not_equal(one, two);
  start();
  assert_int_equal(nvtx_domain_push(one, &a), 0);
  assert_int_equal(nvtx_domain_push(two, &b), 0);
  assert_int_equal(nvtx_domain_pop(one), 0);
  assert_int_equal(nvtx_push_a("between"), 0);
  assert_int_equal(nvtx_pop(), 0);
  assert_int_equal(nvtx_domain_pop(two), 0);
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t first = recording_find(t, "of one"), second = recording_find(t, "of two"),
                 between = recording_find(t, "between");
  assert_true(t->slices.start_ns[first] + t->slices.dur_ns[first] <= t->slices.start_ns[between]);
  assert_true(t->slices.start_ns[second] + t->slices.dur_ns[second] >=
              t->slices.start_ns[between] + t->slices.dur_ns[between]);
  tg__trace_free(t);
}

static void *ends_range(void *range) {
  nvtx_thread_a((uint32_t)syscall(SYS_gettid), "the other thread");
  nvtx_end(*(uint64_t *)range);
  return NULL;
}

static void test_started(void **state) {
  struct nvtx_attributes a = named("ended elsewhere");
  pthread_t thread;
  void *const domain = nvtx_domain_a("spans");
  a.payload_type = 5;
  a.payload.i32 = -3;
  start();
  const uint64_t first = nvtx_start_a("first"), second = nvtx_start_w(L"second"), left = nvtx_start_a("left open");
  uint64_t elsewhere = nvtx_domain_start(domain, &a);
  assert_true(first && second && left && elsewhere && first != second);
  nvtx_end(first); /* not nested: the second began in it and ends behind it */
  nvtx_end(second);
  pthread_create(&thread, NULL, ends_range, &elsewhere);
  pthread_join(thread, NULL);
  assert_int_equal(recording_close().records, 4);
  struct tg__columns *const t = recording_read(recording_path);
  const uint32_t other = recording_find(t, "ended elsewhere"), args = t->slices.args[other];
  struct tg__val v;
  recording_find(t, "first");
  recording_find(t, "second");
  assert_true(tg__arg(t, args, TG__K_ASYNC, false, &v) && v.kind == TG__KIND_TRUE);
  assert_true(text_is(t, args, TG__K_NVTX_DOMAIN, "spans"));
  assert_int_equal(int_of(t, args, TG__K_NVTX_PAYLOAD), -3);
  assert_true(tg__str_contains(tg__name(t, t->tracks[tg__slice_track(t, other)].name), "the other thread"));
  assert_true(tg__arg(t, t->slices.args[recording_find(t, "left open")], TG__K_FINISHED, false, &v));
  nvtx_end(left); /* of a recording that is over */
  tg__trace_free(t);
}

static void test_pause(void **state) {
  struct tg_error e;
  start();
  nvtx_push_a("across");
  assert_int_equal(tg_record_pause(&e), TG_OK);
  nvtx_push_a("paused");
  nvtx_mark_a("paused mark");
  assert_int_equal(nvtx_start_a("paused span"), 0);
  nvtx_pop();
  assert_int_equal(tg_record_resume(&e), TG_OK);
  nvtx_push_a("inside");
  nvtx_pop();
  nvtx_pop();
  assert_int_equal(recording_close().records, 2);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(t->slices.parent[recording_find(t, "inside")], recording_find(t, "across"));
  tg__trace_free(t);
}

static void test_off(void **state) {
  recording_start((struct tg_record_options){.rank = -1, .features = TG_RECORD_GC});
  assert_int_equal(nvtx_push_a("not asked for"), -2);
  assert_int_equal(nvtx_pop(), -2);
  nvtx_mark_a("not asked for");
  assert_int_equal(recording_close().records, 0);
  assert_int_equal(nvtx_push_a("nothing is open"), -2);
  assert_int_equal(nvtx_start_a("nothing is open"), 0);
  nvtx_end(4097);
  assert_int_equal(nvtx_pop(), -2);
}

/* ---- what clients do wrong ------------------------------------------------------------------- */

static void test_wrong_calls(void **state) {
  struct nvtx_attributes a = named("size 0");
  void *const domain = nvtx_domain_a("destroyed twice");
  static char endless[3 << 20];
  memset(endless, 'x', sizeof endless - 1);
  memcpy(endless + 65535, "\xc3\xa9", 2); /* where it is cut: not within a character */
  start();
  nvtx_push_a("before");
  nvtx_pop();
  nvtx_pop(); /* nothing is pushed */
  nvtx_end(12345);
  nvtx_end(1);
  a.size = 0;
  nvtx_mark_ex(&a);
  a = named("size 8: a category and no message");
  a.category = 3;
  a.size = 8;
  nvtx_mark_ex(&a);
  a = named("larger");
  a.size = 4096;
  a.version = 77;
  nvtx_mark_ex(&a);
  nvtx_mark_ex(NULL);
  nvtx_mark_a(NULL);
  nvtx_mark_w(NULL);
  a = (struct nvtx_attributes){.version = 3, .size = sizeof a, .message_type = 3, .message.registered = &a};
  a.payload_type = 0x7fffffff;
  nvtx_mark_ex(&a); /* never registered */
  nvtx_domain_destroy(domain);
  nvtx_domain_destroy(domain);
  nvtx_domain_destroy(&a);
  a = named("destroyed domain");
  nvtx_domain_push(domain, &a);
  nvtx_domain_pop(domain);
  nvtx_domain_push(&a, &a); /* never made: the default one */
  nvtx_pop();
  nvtx_push_a(endless);
  nvtx_pop();
  nvtx_push_a("\xff\xfe not UTF-8");
  nvtx_pop();
  nvtx_push_w((const wchar_t[]){0xd800, 0x110000, 'z', 0});
  nvtx_pop();
  nvtx_thread_a(0, NULL);
  nvtx_category_a(0, NULL);
  assert_null(nvtx_domain_a(NULL));
  assert_null(nvtx_register_w(NULL, NULL));
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.lost, 0);
  assert_int_equal(stats.records, 13);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "destroyed domain", NULL), 2);
  recording_find(t, "\xef\xbf\xbd\xef\xbf\xbdz");
  endless[65535] = 0;
  recording_find(t, endless);
  size_t nameless = 0;
  for (uint32_t i = 0; i < t->marks.count; i++) nameless += recording_name_is(t, t->marks.name[i], "(no message)");
  assert_int_equal(nameless, 6);
  find_mark(t, "larger");
  tg__trace_free(t);
}

static void test_too_many(void **state) {
  enum { OPEN = 5000, DEPTH = 600 };
  uint64_t first = 0, got = 0;
  start();
  for (int i = 0; i < OPEN; i++) {
    const uint64_t range = nvtx_start_a("never ended");
    if (!first) first = range;
    got += range != 0;
  }
  nvtx_end(first);
  for (int i = 0; i < DEPTH; i++) nvtx_push_a("deep");
  for (int i = 0; i < DEPTH; i++) nvtx_pop();
  nvtx_push_a("after");
  nvtx_pop();
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(got, 4096);
  assert_int_equal(stats.lost, OPEN - 4096 + DEPTH - 512);
  assert_int_equal(stats.records, 4096 + 512 + 1);
  struct tg__columns *const t = recording_read(recording_path);
  assert_int_equal(recording_count(t, "never ended", NULL), 4096);
  recording_find(t, "after");
  tg__trace_free(t);
}

/* The table of names has a size: what comes later shares one name. */
static void test_too_many_names(void **state) {
  enum { NAMES = 100000 };
  char text[32];
  void *last = NULL;
  for (int i = 0; i < NAMES; i++) {
    snprintf(text, sizeof text, "string number %d of many", i);
    last = nvtx_register_a(NULL, text);
    assert_non_null(last);
  }
  start();
  struct nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = 3, .message.registered = last};
  nvtx_push_ex(&a);
  nvtx_pop();
  recording_close();
  struct tg__columns *const t = recording_read(recording_path);
  recording_find(t, "(no room for the name)");
  tg__trace_free(t);
}

/* ---- many threads ---------------------------------------------------------------- */

enum { THREADS = 8, EACH = 2000 };

static void *works(void *number) {
  char name[32];
  snprintf(name, sizeof name, "of thread %d", *(int *)number);
  for (int i = 0; i < EACH; i++) {
    nvtx_push_a(name);
    const uint64_t range = nvtx_start_a("span");
    nvtx_end(range);
    nvtx_pop();
    nvtx_register_a(nvtx_domain_a("shared"), name);
  }
  return NULL;
}

static void test_threads(void **state) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  start();
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, works, &numbers[i]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  const struct tg_record_stats stats = recording_close();
  assert_int_equal(stats.lost, 0);
  assert_int_equal(stats.records, 2 * THREADS * EACH);
  struct tg__columns *const t = recording_read(recording_path);
  uint32_t first;
  assert_int_equal(recording_count(t, "span", NULL), THREADS * EACH);
  for (int i = 0; i < THREADS; i++) {
    char name[32];
    snprintf(name, sizeof name, "of thread %d", i);
    assert_int_equal(recording_count(t, name, &first), EACH);
    assert_int_equal(t->tracks[tg__slice_track(t, first)].count, 2 * EACH);
  }
  tg__trace_free(t);
}

/* ---- how NVTX gets the functions ------------------------------------------------------------- */

static const void *no_tables(uint32_t id) { return NULL; }
static int no_module(int module, nvtx_function ****table, unsigned *size) { return 0; }
static const void *small_table(uint32_t id) {
  static size_t bytes = 8;
  return &bytes;
}
static const void *empty_table(uint32_t id) {
  static const struct {
    size_t bytes;
    int (*module)(int, nvtx_function ****, unsigned *);
  } table = {sizeof table, no_module};
  return &table;
}
/* An older client has fewer slots: what lies behind them is not written. */
static int short_module(int module, nvtx_function ****table, unsigned *size) {
  const int has = nvtx_module(module, table, size);
  *size = 3;
  return has;
}
static const void *short_table(uint32_t id) {
  static const struct {
    size_t bytes;
    int (*module)(int, nvtx_function ****, unsigned *);
  } table = {sizeof table, short_module};
  return &table;
}

static void test_attach(void **state) {
  const uint32_t before = tg_record_nvtx();
  assert_int_equal(InitializeInjectionNvtx2(NULL), 0);
  assert_int_equal(InitializeInjectionNvtx2(no_tables), 0);
  assert_int_equal(InitializeInjectionNvtx2(small_table), 0);
  assert_int_equal(InitializeInjectionNvtx2(empty_table), 0);
  assert_int_equal(tg_record_nvtx(), before);
  memset(nvtx_core_now, 0, sizeof nvtx_core_now);
  assert_int_equal(InitializeInjectionNvtx2(short_table), 1);
  assert_non_null(nvtx_core_now[2]);
  assert_null(nvtx_core_now[3]);
  assert_int_equal(nvtx_attach(InitializeInjectionNvtx2), 1);
  assert_int_equal(tg_record_nvtx(), before + 2);
  assert_non_null(nvtx_core_now[15]);
  assert_non_null(nvtx_core2_now[14]);
  assert_null(nvtx_core2_now[6]); /* resources stay as NVTX has them */
}

static int attach(void **state) { return nvtx_attach(InitializeInjectionNvtx2) ? 0 : 1; }

#define TEST(name) cmocka_unit_test_setup_teardown(name, recording_setup, recording_teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attach),
      TEST(test_pushed),
      TEST(test_attributes),
      TEST(test_domains_apart),
      TEST(test_started),
      TEST(test_pause),
      TEST(test_off),
      TEST(test_wrong_calls),
      TEST(test_too_many),
      TEST(test_threads),

      TEST(test_too_many_names),
  };
  return cmocka_run_group_tests(tests, attach, NULL);
}
