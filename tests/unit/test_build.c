/* From records to columns: order, nesting, lanes, pairs, causes, steps. Small cases by hand, order and nesting by
 * brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "trace/trace.h"

static struct tg__columns *open_text(const char *text) {
  struct tg__columns *t;
  struct tg_error e;
  if (tg__trace_open_bytes(text, strlen(text), 2, 0, false, &t, &e) != TG_OK) fail_msg("%s", e.text);
  if (!tg__trace_is_valid(t, &e)) fail_msg("%s", e.text);
  return t;
}

static uint32_t find(const struct tg__columns *t, const char *name) { /* the first slice of this name */
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__str s = tg__name(t, t->slices.name[i]);
    if (s.len == strlen(name) && memcmp(s.ptr, name, s.len) == 0) return i;
  }
  fail_msg("no slice %s", name);
  return TG_NONE;
}
static void is_parent(const struct tg__columns *t, const char *child, const char *parent) {
  const uint32_t want = parent ? find(t, parent) : TG_NONE, got = t->slices.parent[find(t, child)];
  if (got != want) fail_msg("the parent of %s is %d, not %d", child, (int)got, (int)want);
}
static void is_cause(const struct tg__columns *t, const char *slice, const char *cause) {
  const uint32_t want = cause ? find(t, cause) : TG_NONE, got = t->slices.cause[find(t, slice)];
  if (got != want) fail_msg("the cause of %s is %d, not %d", slice, (int)got, (int)want);
}

/* clang-format off: it breaks lines inside these macros, not between them */
#define X(name, ts, dur)                                                                                               \
  "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur "}"
#define A(name, ts, dur)                                                                                               \
  "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur "}"
#define ARGS(cat, name, tid, ts, dur, args)                                                                            \
  "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur    \
  ",\"args\":{" args "}}"
#define PH(ph, name, ts, rest)                                                                                         \
  "{\"ph\":\"" ph "\",\"cat\":\"c\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":" #ts rest "}"

static void test_nesting(void **state) {
  (void)state;
  struct tg__columns *t =
      open_text("[" X("late", 95, 20) "," X("inner", 10, 5) "," X("outer", 0, 100) "," X("same-start", 0, 50) "," X(
          "zero", 100, 0) "," X("point", 30, 0) "," X("twin", 30, 0) "," X("in-late", 101, 2) "]");
  is_parent(t, "outer", NULL);
  is_parent(t, "same-start", "outer"); /* longer first */
  is_parent(t, "inner", "same-start");
  is_parent(t, "point", "same-start");
  is_parent(t, "twin", "point"); /* no length at the time of one without length: inside it */
  is_parent(t, "late", NULL);    /* begins inside outer, ends after it */
  is_parent(t, "in-late", "late");
  is_parent(t, "zero", "late");
  assert_int_equal(t->slices.depth[find(t, "twin")], 3);
  assert_int_equal(t->tracks[0].lanes, 2);
  assert_int_equal(t->slices.lane[find(t, "late")], 1);
  assert_int_equal(t->slices.lane[find(t, "outer")], 0);
  tg__trace_free(t);
}

/* Random slices on a coarse grid (many ties, many overlaps): the parent is what a quadratic replay of the rule says,
 * and on one lane no two slices overlap in part. */
static void test_nesting_by_brute_force(void **state) {
  (void)state;
  uint32_t seed = 12345;
  for (int round = 0; round < 200; round++) {
    char text[8192];
    int n = 1, at = sprintf(text, "["), count = 2 + round % 30;
    for (int i = 0; i < count; i++) {
      seed = seed * 1664525 + 1013904223;
      const int ts = (seed >> 8) % 20, dur = (seed >> 16) % 12 == 0 ? 0 : (seed >> 20) % 10;
      at += sprintf(text + at,
                    "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
                    n++ > 1 ? "," : "", i, ts, dur);
    }
    strcpy(text + at, "]");
    struct tg__columns *t = open_text(text);
    const struct tg__slices *s = &t->slices;
    for (uint32_t i = 0; i < s->count; i++) {
      const int64_t start = s->start_ns[i], end = tg__slice_end(t, i);
      /* The parent: latest slice before i that contains it and that no slice between them has put aside (by
       * overlapping it in part or by starting at or after its end). */
      uint32_t parent = TG_NONE;
      for (uint32_t p = i; p-- > 0 && parent == TG_NONE;) {
        const int64_t p_start = s->start_ns[p], p_end = tg__slice_end(t, p);
        bool on = start < p_end || (s->dur_ns[i] == 0 && start == p_start);
        if (end > p_end) on = false;
        for (uint32_t k = p + 1; k < i && on; k++) {
          if (s->start_ns[k] >= p_end && !(s->dur_ns[k] == 0 && s->start_ns[k] == p_start)) on = false;
          if (tg__slice_end(t, k) > p_end) on = false;
        }
        if (on) parent = p;
      }
      assert_int_equal(s->parent[i], parent);
      for (uint32_t k = 0; k < i; k++) {
        if (s->lane[k] != s->lane[i]) continue;
        const bool apart = tg__slice_end(t, k) <= start, inside = tg__slice_end(t, k) >= end;
        assert_true(apart || inside);
      }
    }
    tg__trace_free(t);
  }
}

static void test_order_by_brute_force(void **state) {
  (void)state;
  uint32_t seed = 99;
  for (int round = 0; round < 40; round++) {
    struct tg__out o = {0};
    const int count = 1 + round * 37;
    for (int i = 0; i < count; i++) {
      seed = seed * 1664525 + 1013904223;
      const unsigned ts = round % 3 == 0   ? (seed >> 8) % 50
                          : round % 3 == 1 ? (unsigned)(count - i)
                                           : (unsigned)i / 40 * 40 + (seed >> 8) % 60;
      tg__out_format(&o, "%c{\"ph\":\"%s\",\"name\":\"%d\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":%u}", i ? ',' : '[',
                     i % 5 ? "X" : "i", i, ts, (seed >> 16) % 9);
    }
    tg__out_text(&o, "]");
    tg__out_char(&o, 0);
    struct tg__columns *t = open_text(o.buf); /* is_valid checks the order of slices and marks */
    assert_int_equal(t->slices.count + t->marks.count, count);
    char *seen = tg__alloc((size_t)count); /* nothing doubled, nothing gone: each name once */
    for (uint32_t i = 0; i < t->slices.count; i++) seen[atoi(tg__name(t, t->slices.name[i]).ptr)]++;
    for (uint32_t i = 0; i < t->marks.count; i++) seen[atoi(tg__name(t, t->marks.name[i]).ptr)]++;
    for (int i = 0; i < count; i++) assert_int_equal(seen[i], 1);
    tg__free(seen);
    tg__out_free(&o);
    tg__trace_free(t);
  }
}

static void test_begin_end(void **state) {
  (void)state;
  struct tg__columns *t = open_text(
      "[" PH("B", "a", 10, "") "," PH("B", "b", 12, "") "," PH("E", "", 20, "") "," PH("E", "a", 30, "") "," PH(
          "E", "", 31, "") "," PH("B", "c", 40, "") "," PH("B", "d", 41,
                                                           "") "," PH("E", "c", 50,
                                                                      "") "," PH("B", "open", 60,
                                                                                 "") "," PH("i", "x", 70,
                                                                                            "") "," PH("B", "last", 80,
                                                                                                       "") "]");
  const struct {
    const char *name;
    int64_t dur_ns;
  } want[] = {{"a", 20000}, {"b", 8000}, {"c", 10000}, {"d", 9000}, {"open", 20000}, {"last", 0}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_int_equal(t->slices.dur_ns[find(t, want[i].name)], want[i].dur_ns);
  is_parent(t, "b", "a");
  is_parent(t, "d", "c");
  assert_int_equal(t->slices.count, 6);
  assert_int_equal(t->marks.count, 5);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_unmatched_end], 1);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_wrong_end], 1);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_unclosed], 2);
  assert_true(t->slices.flags[find(t, "open")] & TG__F_UNCLOSED);
  tg__trace_free(t);
  t = open_text("[" PH("B", "open", 10, "") "," PH(
      "X", "whole", 12, ",\"dur\":5") "]"); /* a track ends with its last slice of any kind */
  assert_int_equal(t->slices.dur_ns[find(t, "open")], 7000);
  is_parent(t, "whole", "open");
  tg__trace_free(t);
}

static void test_async(void **state) {
  (void)state;
  struct tg__columns *t = open_text(
      "[" PH("b", "r1", 10, ",\"id\":1") "," PH("b", "r2", 15, ",\"id\":\"0x2\"") "," PH("b", "part", 16, ",\"id\":\"0x2\"") "," PH(
          "n", "mark", 17,
          ",\"id\":1") "," PH("e", "r1", 20,
                              ",\"id\":1") "," PH("e", "part", 25,
                                                  ",\"id\":\"0x2\"") "," PH("e", "r2", 40,
                                                                            ",\"id\":\"0x2\"") "," PH("S", "old", 50,
                                                                                                      ",\"id\":1") "," PH("F",
                                                                                                                          "old",
                                                                                                                          55,
                                                                                                                          ",\"id\":1") "," X("sync",
                                                                                                                                             12,
                                                                                                                                             1) "]");
  assert_int_equal(t->slices.dur_ns[find(t, "r1")], 10000);
  assert_int_equal(t->slices.dur_ns[find(t, "r2")], 25000);
  assert_int_equal(t->slices.dur_ns[find(t, "part")], 9000);
  assert_int_equal(t->slices.dur_ns[find(t, "old")], 5000);
  assert_int_equal(t->track_count, 2); /* the thread, and its asynchronous slices apart from it */
  assert_int_equal(t->tracks[tg__slice_track(t, find(t, "r1"))].kind, TG__TRACK_ASYNC);
  assert_int_equal(t->tracks[tg__slice_track(t, find(t, "sync"))].kind, TG__TRACK_CPU);
  is_parent(t, "sync", NULL);
  tg__trace_free(t);
}

static void test_causes(void **state) {
  (void)state;
  struct tg__columns *t = open_text(
      "[" ARGS("cpu_op", "by-id", 1, 10, 20, "\"External id\":5") "," ARGS(
          "cpu_op", "around", 1, 40, 60,
          "\"External id\":6") "," ARGS("cpu_op", "inner", 1, 45, 10,
                                        "\"External id\":7") "," ARGS("cuda_runtime", "launch1", 2, 200, 5,
                                                                      "\"correlation\":100,\"External "
                                                                      "id\":5") "," /* other thread:
                                                                                       only the id
                                                                                       tells */
      ARGS("cuda_runtime", "launch2", 1, 50, 20,
           "\"correlation\":101,\"External id\":101") "," /* id is the correlation: containment by start */
      ARGS("cuda_driver", "launch3", 1, 70, 5, "\"correlation\":102") "," ARGS(
          "cuda_runtime", "outside", 1, 150, 5,
          "\"correlation\":103") "," ARGS("cuda_runtime", "again", 1, 160, 5,
                                          "\"correlation\":102") "," /* second call with 102: the first counts */
      ARGS("kernel", "k1", 7, 300, 5, "\"correlation\":100,\"stream\":7,\"device\":0") "," ARGS("kernel", "k2", 7, 310, 5, "\"correlation\":101") "," ARGS("gpu_memcpy", "k3", 7, 320, 5, "\"correlation\":102") "," ARGS(
          "Kernel", "k3b", 7, 330, 5,
          "\"correlation\":102") "," ARGS("kernel", "orphan", 7, 340, 5,
                                          "\"correlation\":999") "," ARGS("kernel", "no-id", 7, 350, 5,
                                                                          "") "," ARGS("cuda_runtime",
                                                                                       "cudaEventRecord", 1, 170, 1,
                                                                                       "\"correlation\":"
                                                                                       "110") "," ARGS("cud"
                                                                                                       "a_"
                                                                                                       "syn"
                                                                                                       "c",
                                                                                                       "Eve"
                                                                                                       "nt "
                                                                                                       "Syn"
                                                                                                       "c",
                                                                                                       7, 360, 5,
                                                                                                       "\"c"
                                                                                                       "orr"
                                                                                                       "ela"
                                                                                                       "tio"
                                                                                                       "n\""
                                                                                                       ":10"
                                                                                                       "3,"
                                                                                                       "\"w"
                                                                                                       "ait"
                                                                                                       "_on"
                                                                                                       "_cu"
                                                                                                       "da_"
                                                                                                       "eve"
                                                                                                       "nt_"
                                                                                                       "rec"
                                                                                                       "ord"
                                                                                                       "_co"
                                                                                                       "rr_"
                                                                                                       "id"
                                                                                                       "\":"
                                                                                                       "11"
                                                                                                       "0") "," ARGS("c"
                                                                                                                     "u"
                                                                                                                     "d"
                                                                                                                     "a"
                                                                                                                     "_"
                                                                                                                     "s"
                                                                                                                     "y"
                                                                                                                     "n"
                                                                                                                     "c",
                                                                                                                     "S"
                                                                                                                     "t"
                                                                                                                     "r"
                                                                                                                     "e"
                                                                                                                     "a"
                                                                                                                     "m"
                                                                                                                     " "
                                                                                                                     "S"
                                                                                                                     "y"
                                                                                                                     "n"
                                                                                                                     "c",
                                                                                                                     7,
                                                                                                                     370,
                                                                                                                     5,
                                                                                                                     "\"correlation\":103") "]");
  is_cause(t, "launch1", "by-id");
  is_cause(t, "launch2", "inner");
  is_cause(t, "launch3", "around");
  is_cause(t, "outside", NULL);
  is_cause(t, "k1", "launch1");
  is_cause(t, "k2", "launch2");
  is_cause(t, "k3", "launch3");
  is_cause(t, "k3b", "launch3");
  is_cause(t, "orphan", NULL);
  is_cause(t, "no-id", NULL);
  is_cause(t, "Event Sync", "cudaEventRecord");
  is_cause(t, "Stream Sync", "outside");
  assert_true(t->slices.flags[find(t, "launch1")] & TG__F_CAUSE_BY_ID);
  assert_false(t->slices.flags[find(t, "launch2")] & TG__F_CAUSE_BY_ID);
  const struct tg__track *stream = &t->tracks[tg__slice_track(t, find(t, "k1"))];
  assert_int_equal(stream->kind, TG__TRACK_DEVICE);
  assert_int_equal(stream->device, 0);
  assert_int_equal(stream->stream, 7);
  tg__trace_free(t);
}

static void test_backward_by_flow(void **state) {
  (void)state;
  struct tg__columns *t = open_text("[" ARGS("cpu_op", "fwd", 1, 10, 20, "\"Sequence number\":3") "," ARGS(
      "cpu_op", "deeper", 1, 10, 5,
      "\"Sequence number\":3") "," ARGS("cpu_op", "bwd", 2, 100, 20,
                                        "\"Sequence number\":3,\"Fwd thread id\":1") ","
                                                                                     "{\"ph\":\"s\",\"id\":1,\"pid\":1,"
                                                                                     "\"tid\":1,\"ts\":10,\"cat\":"
                                                                                     "\"fwdbwd\",\"name\":\"fwdbwd\"},"
                                                                                     "{\"ph\":\"f\",\"id\":1,\"pid\":1,"
                                                                                     "\"tid\":2,\"ts\":100,\"cat\":"
                                                                                     "\"fwdbwd\",\"name\":\"fwdbwd\","
                                                                                     "\"bp\":\"e\"}]");
  is_cause(t, "bwd", "fwd");
  is_cause(t, "fwd", NULL);
  tg__trace_free(t);
}

static void test_backward_by_sequence_number(void **state) {
  (void)state;
  struct tg__columns *t =
      open_text("[" ARGS("cpu_op", "fwd3", 1, 10, 20, "\"Sequence number\":3,\"Fwd thread id\":0") "," ARGS(
          "cpu_op", "inner3", 1, 12, 5,
          "\"Sequence number\":3") "," ARGS("cpu_op", "bwd3", 2, 100, 20,
                                            "\"Sequence number\":3,\"Fwd thread id\":1") "," ARGS("cpu_op", "bwd4", 2,
                                                                                                  130, 20,
                                                                                                  "\"Sequence "
                                                                                                  "number\":4,\"Fwd "
                                                                                                  "thread id\":1") "]");
  is_cause(t, "bwd3", "inner3"); /* the last forward op with the number, as the profiler itself pairs */
  is_cause(t, "bwd4", NULL);
  tg__trace_free(t);
}

static void steps_are(const char *text, enum tg__step_kind kind, uint32_t count, int64_t first_start_ns,
                      int64_t first_end_ns) {
  struct tg__columns *t = open_text(text);
  assert_int_equal(t->step_count, count);
  if (count) {
    assert_int_equal(t->step_kind, kind);
    assert_int_equal(t->steps[0].start_ns, first_start_ns);
    assert_int_equal(t->steps[0].end_ns, first_end_ns);
  }
  tg__trace_free(t);
}

static void test_steps(void **state) {
  (void)state;
  steps_are("[" A("ProfilerStep#7", 10, 5) "," A("ProfilerStep #8", 20, 5) "," A("ProfilerStep*", 30, 5) "," ARGS(
                "gpu_user_annotation", "ProfilerStep#7", 9, 11, 3, "") "]",
            TG__STEP_PROFILER, 2, 10000, 15000);
  steps_are("[" A("train step 1", 0, 10) "," A("train step 2", 10, 10) "," A("train step 3", 20, 10) "," A(
                "forward", 1, 3) "," A("forward", 11, 3) "," A("forward", 21, 3) "]",
            TG__STEP_ANNOTATION, 3, 0, 10000);
  steps_are("[" A("enumerate(DataLoader)#_It.__next__", 0,
                  1) "," X("a", 2, 5) "," A("enumerate(DataLoader)#_It.__next__", 10,
                                            1) "," A("enumerate(DataLoader)#_It.__next__", 20,
                                                     1) "," A("enumerate(DataLoader)#_It.__next__", 30, 1) "]",
            TG__STEP_PERIOD, 3, 0, 10000);
  steps_are("[" A("Optimizer.step#SGD.step", 8, 2) "," A("Optimizer.step#SGD.step", 18, 2) "," A(
                "Optimizer.step#SGD.step", 28, 2) "," A("Optimizer.step#SGD.step", 38, 2) "]",
            TG__STEP_PERIOD, 3, 10000, 20000);
  steps_are("[" X("a", 0, 10) "," A("forward", 1, 3) "]", TG__STEP_PROFILER, 0, 0, 0);
}

static void test_metadata(void **state) {
  (void)state;
  struct tg__columns *t = open_text(
      "{\"distributedInfo\": {\"backend\": \"nccl\"}, \"baseTimeNanoseconds\": 1774000000000000000, "
      "\"deviceProperties\": [{\"id\": 1, \"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150120955904, "
      "\"computeMajor\": 9, \"computeMinor\": 0, \"numSms\": 132}, {\"id\": 7, \"name\": \"\"}, {\"name\": 12}], "
      "\"distributedInfo\": {\"pg_config\": [{\"ranks\": [0, 1]}], \"rank\": 5, \"world_size\": 8}, \"traceEvents\": "
      "[" X("a", 1, 2) ","
                       "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"python\"}},{"
                       "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"main\"}}]}");
  const struct tg__rank *r = &t->ranks[0];
  assert_int_equal(r->number, 5);
  assert_true(r->number_is_given);
  assert_int_equal(r->world_size, 8);
  assert_int_equal(r->base_ns, 1774000000000000000);
  assert_int_equal(r->clock_offset_ns, 0);
  assert_int_equal(r->device_count, 3);
  assert_int_equal(r->devices[0].id, 1);
  assert_int_equal(tg__name(t, r->devices[1].name).len, 0); /* said to have none, as Kineto does on AMD's */
  assert_int_equal(r->devices[2].name, TG_NONE);
  assert_int_equal(r->devices[2].id, 2);
  assert_int_equal(r->devices[0].sm_count, 132);
  assert_int_equal(r->devices[0].total_memory_bytes, 150120955904);
  assert_true(tg__str_eq(tg__name(t, r->devices[0].name), TG_STR("NVIDIA H200")));
  const struct tg__track *track = &t->tracks[tg__slice_track(t, 0)];
  assert_true(tg__str_eq(tg__name(t, track->process_name), TG_STR("python")));
  assert_true(tg__str_eq(tg__name(t, track->name), TG_STR("main")));
  tg__trace_free(t);
}

/* clang-format on */

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nesting),
      cmocka_unit_test(test_nesting_by_brute_force),
      cmocka_unit_test(test_order_by_brute_force),
      cmocka_unit_test(test_begin_end),
      cmocka_unit_test(test_async),
      cmocka_unit_test(test_causes),
      cmocka_unit_test(test_backward_by_flow),
      cmocka_unit_test(test_backward_by_sequence_number),
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_metadata),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
