/* The importer: one document read through every path (block sizes, threads, instruction sets) must give one trace;
 * cut or damaged documents must give what was whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "trace/import.h"

static struct tg__columns *open_text(const char *text, size_t len, unsigned threads, size_t block, bool portable,
                                     struct tg_error *e) {
  struct tg__columns *t;
  const enum tg_err err = tg__trace_open_bytes(text, len, threads, block, portable, &t, e);
  if (err != TG_OK) {
    assert_int_equal(err, e->code);
    assert_int_not_equal(e->text[0], 0);
    return NULL;
  }
  struct tg_error invalid;
  if (!tg__trace_is_valid(t, &invalid)) fail_msg("%s", invalid.text);
  return t;
}

/* Everything a trace says, in an order that does not depend on how it was read. */
static char *describe(const struct tg__columns *t) {
  struct tg__out o = {0};
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    tg__out_format(&o, "track %d %lld %lld lanes %u\n", (int)track->kind,
                   (long long)(track->pid_is_text ? -7 : track->pid), (long long)(track->tid_is_text ? -7 : track->tid),
                   track->lanes);
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
      const struct tg__str name = tg__name(t, t->slices.name[i]);
      tg__out_format(&o, "%lld %lld %.*s depth %u lane %u parent %d cause %d {", (long long)t->slices.start_ns[i],
                     (long long)t->slices.dur_ns[i], (int)name.len, name.ptr, t->slices.depth[i], t->slices.lane[i],
                     (int)t->slices.parent[i], (int)t->slices.cause[i]);
      struct tg__args_iter it;
      struct tg__jsonw w = {.out = &o};
      for (tg__args_begin(t, t->slices.args[i], &it); tg__args_next(&it);) {
        const struct tg__str key = tg__name(t, it.field->key);
        w.comma = false;
        tg__out_format(&o, " %.*s=", (int)key.len, key.ptr);
        tg__val_json(t, &it.val, &w);
      }
      tg__out_text(&o, " }\n");
    }
  }
  for (uint32_t i = 0; i < t->marks.count; i++)
    tg__out_format(&o, "mark %c %lld track %u\n", t->marks.ph[i], (long long)t->marks.ts_ns[i], t->marks.track[i]);
  for (uint32_t r = 0; r < t->rank_count; r++)
    for (int l = 0; l < TG__LOSS_COUNT; l++)
      if (t->ranks[r].loss[l])
        tg__out_format(&o, "%s %lld @%lld\n", tg__loss_info[l].name, (long long)t->ranks[r].loss[l],
                       (long long)t->ranks[r].loss_offset[l]);
  tg__out_char(&o, 0);
  assert_int_equal(o.err, TG_OK);
  return o.buf;
}

static void add_event(struct tg__out *o, int i) {
  static const char *const names[] = {"aten::mm", "aten::add",        "caf\\u00e9 \\\"x\\\"",
                                      "a\\/b",    "x\\ud83d\\ude00y", "plain"};
  if (i) tg__out_text(o, i % 3 ? ", " : ",\n  ");
  if (i % 7 == 3) {
    tg__out_format(o, "{\"ph\":\"s\",\"id\":%d,\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\",\"pid\":1,\"tid\":2,\"ts\":%d}",
                   i, i * 10);
    return;
  }
  tg__out_format(o,
                 "{\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %s, \"tid\": %d,\n    \"ts\": "
                 "%d.%03d, \"dur\": %d",
                 i % 5 ? "cpu_op" : "cuda_runtime", names[i % 6], i % 11 ? "1" : "\"Spans\"", i % 4 - 1, i * 10,
                 i % 1000, i % 50);
  if (i % 2)
    tg__out_format(o,
                   ", \"args\": {\"External id\": %d, \"Input Dims\": [[%d, 2], [\"]\", \"\\\\\"]], \"f\": 0.%02d, "
                   "\"n\": null, \"t\": true}",
                   i, i % 9, i % 100);
  tg__out_text(o, "\n  }");
}

static char *document(int events, bool bare, size_t *len) {
  struct tg__out o = {0};
  if (bare)
    tg__out_text(&o, "[");
  else
    tg__out_text(&o, "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"X\", \"numSms\": 4}], "
                     "\"traceEvents\": [\n  ");
  for (int i = 0; i < events; i++) add_event(&o, i);
  if (bare)
    tg__out_text(&o, "]");
  else
    tg__out_text(&o, "], \"distributedInfo\": {\"rank\": 3, \"world_size\": 8}, \"traceName\": \"x\"}");
  *len = o.len;
  tg__out_char(&o, 0);
  return o.buf;
}

static void test_every_path_gives_one_trace(void **state) {
  (void)state;
  static const size_t blocks[] = {64, 257, 1000, 4096, 0};
  for (int bare = 0; bare < 2; bare++) {
    size_t len;
    char *text = document(300, bare, &len);
    struct tg_error e;
    struct tg__columns *t = open_text(text, len, 1, 0, true, &e);
    assert_non_null(t);
    assert_int_equal(t->slices.count + t->marks.count, 300);
    assert_int_equal(t->marks.count, 43); /* i % 7 == 3 for i < 300 */
    assert_int_equal(t->ranks[0].number, bare ? 0 : 3);
    assert_int_equal(t->ranks[0].world_size, bare ? -1 : 8);
    char *expected = describe(t);
    tg__trace_free(t);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
      for (unsigned threads = 1; threads <= 4; threads++)
        for (int portable = 0; portable < 2; portable++) {
          t = open_text(text, len, threads, blocks[b], portable, &e);
          assert_non_null(t);
          char *got = describe(t);
          assert_string_equal(got, expected);
          tg__free(got);
          tg__trace_free(t);
        }
    tg__free(expected);
    tg__free(text);
  }
}

/* Cut behind the k-th event everything before it must be there; the cut event is counted. */
static void test_cut_at_every_byte(void **state) {
  (void)state;
  size_t len;
  char *text = document(12, false, &len);
  uint32_t most = 0;
  for (size_t cut = 1; cut < len; cut++) {
    uint32_t whole = 0; /* events that end before the cut: count closing braces at depth 2 by hand */
    int depth = 0;
    bool in_string = false, in_array = false;
    for (size_t i = 0; i < cut; i++) {
      const char c = text[i];
      if (in_string) {
        if (c == '\\')
          i++;
        else if (c == '"')
          in_string = false;
        continue;
      }
      if (c == '"') in_string = true;
      if (i >= 13 && memcmp(text + i - 13, "traceEvents\"", 12) == 0) in_array = true;
      if (c == '{' || c == '[') depth++;
      if (c == '}' || c == ']') depth--;
      if (in_array && c == '}' && depth == 2) whole++;
      if (in_array && c == ']' && depth == 1) in_array = false;
    }
    struct tg_error e;
    struct tg__columns *t = open_text(text, cut, 2, cut % 2 ? 100 : 0, cut % 3 == 0, &e);
    if (!t) {
      assert_int_equal(whole, 0);
      continue;
    }
    assert_int_equal(t->slices.count + t->marks.count, whole);
    assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_end], 1);
    if (whole > most) most = whole;
    tg__trace_free(t);
  }
  assert_int_equal(most, 12);
  tg__free(text);
}

static const struct {
  const char *what, *text;
  uint32_t slices, marks;
  enum tg__loss loss; /* TG__LOSS_COUNT = none */
} damaged[] = {
#define EVENT(name) "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}"
    {"trailing comma", "[" EVENT("a") ",]", 1, 0, TG__LOSS_COUNT},
    {"unescaped quote costs that event", "[" EVENT("a") "," EVENT("b\"c") "," EVENT("d") "]", 2, 0,
     TG__LOSS_skipped_syntax},
    {"missing colon", "[{\"ph\" \"X\"}," EVENT("d") "]", 1, 0, TG__LOSS_skipped_syntax},
    {"not objects", "[1, \"x\", [2], null, " EVENT("d") "]", 1, 0, TG__LOSS_skipped_not_object},
    {"negative duration printed in halves", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":-1.-500}]", 1, 0,
     TG__LOSS_bent_negative_duration},
    {"NaN duration", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":NaN}," EVENT("b") "]", 1, 1,
     TG__LOSS_bent_no_duration},
    {"no duration", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1}]", 0, 1, TG__LOSS_bent_no_duration},
    {"no time", "[{\"ph\":\"X\",\"name\":\"a\",\"dur\":1}]", 0, 1, TG__LOSS_bent_no_time},
    {"no phase", "[{\"name\":\"a\",\"ts\":1,\"dur\":1}]", 0, 1, TG__LOSS_bent_no_phase},
    {"no name", "[{\"ph\":\"X\",\"ts\":1,\"dur\":1}]", 1, 0, TG__LOSS_bent_no_name},
    {"more than three decimals", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1.0005,\"dur\":1}]", 1, 0,
     TG__LOSS_bent_rounded_time},
    {"blank before the colon", "[{\"ph\" : \"X\",\"name\" : \"a\",\"ts\" : 1,\"dur\" : 1}]", 1, 0, TG__LOSS_COUNT},
    {"twice the same key", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"ts\":2,\"dur\":1}]", 1, 0,
     TG__LOSS_bent_duplicate_key},
    {"bytes behind the end", "{\"traceEvents\":[" EVENT("a") "]} tail", 1, 0, TG__LOSS_bent_trailing},
    {"args that are no object", "[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":[1]}]", 1, 0,
     TG__LOSS_COUNT},
    {"a flipped bit in the first byte", "z\"a\": 1, \"traceEvents\": [" EVENT("a") "]}", 1, 0, TG__LOSS_skipped_syntax},
    {"a flipped bit in the array's key", "{\"a\": [{\"id\": 0, \"name\": \"gpu\"}], \"traceEvenus\": [" EVENT("a") "]}",
     1, 0, TG__LOSS_bent_events_key},
    {"a quote flipped into the array's key",
     "{\"a\": [{\"id\": 0, \"name\": \"gpu\"}], \"traceEv\"nts\": [" EVENT("a") "," EVENT("b") "]}", 2, 0,
     TG__LOSS_skipped_syntax},
    {"a flipped bracket", "{\"traceEvents\": {" EVENT("a") "," EVENT("b") "]}", 2, 0, TG__LOSS_skipped_syntax},
    {"a bare word as metadata", "{\"a\": N/A, \"traceEvents\": [" EVENT("a") "]}", 1, 0, TG__LOSS_bent_not_available},
    {"keys before the array that are no JSON", "{\"a\": \"x\"y\", \"traceEvents\": [" EVENT("a") "]}", 1, 0,
     TG__LOSS_skipped_syntax},
};

static void test_damage(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
    for (int portable = 0; portable < 2; portable++) {
      struct tg_error e;
      struct tg__columns *t = open_text(damaged[i].text, strlen(damaged[i].text), 1, 0, portable, &e);
      if (!t) fail_msg("%s: %s", damaged[i].what, e.text);
      if (t->slices.count != damaged[i].slices || t->marks.count != damaged[i].marks)
        fail_msg("%s: %u slices, %u marks", damaged[i].what, t->slices.count, t->marks.count);
      int64_t all = 0;
      for (int l = 0; l < TG__LOSS_COUNT; l++) all += t->ranks[0].loss[l];
      if (damaged[i].loss == TG__LOSS_COUNT ? all != 0 : t->ranks[0].loss[damaged[i].loss] < 1)
        fail_msg("%s: not counted as it should be", damaged[i].what);
      tg__trace_free(t);
    }
}

static const struct {
  const char *text;
  enum tg_err err;
} refused[] = {
    {"", TG_EMPTY},
    {"   ", TG_NOT_A_TRACE},
    {"hello", TG_NOT_A_TRACE},
    {"<html>", TG_NOT_A_TRACE},
    {"{}", TG_NOT_A_TRACE},
    {"[]", TG_NO_EVENTS},
    {"{\"a\": 1}", TG_NOT_A_TRACE},
    {"{\"traceEvents\": []}", TG_NO_EVENTS},
    {"{\"traceEvents\": 5}", TG_NOT_A_TRACE},
    {"[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1}]", TG_NO_EVENTS},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    struct tg_error e;
    assert_null(open_text(refused[i].text, strlen(refused[i].text), 2, 0, false, &e));
    if (e.code != refused[i].err) fail_msg("%s: %s", refused[i].text, e.text);
  }
}

/* A million brackets must not cost a million stack frames. */
static void test_deep_nesting(void **state) {
  (void)state;
  const size_t depth = 1000000;
  struct tg__out o = {0};
  tg__out_text(&o, "[{\"ph\":\"X\",\"name\":\"deep\",\"ts\":1,\"dur\":2,\"args\":{\"x\":");
  for (size_t i = 0; i < depth; i++) tg__out_char(&o, '[');
  for (size_t i = 0; i < depth; i++) tg__out_char(&o, ']');
  tg__out_text(&o, "}}]");
  for (int portable = 0; portable < 2; portable++) {
    struct tg_error e;
    struct tg__columns *t = open_text(o.buf, o.len, 2, 4096, portable, &e);
    assert_non_null(t);
    assert_int_equal(t->slices.count, 1);
    struct tg__val v;
    const uint32_t key = tg__strings_find(t->strings, "x", 1);
    assert_true(tg__arg(t, t->slices.args[0], key, false, &v));
    assert_int_equal(tg__name(t, v.str).len, 2 * depth);
    tg__trace_free(t);
  }
  tg__out_free(&o);
}

static void test_identity_is_the_token(void **state) {
  (void)state;
  static const char text[] = "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":-247463936,\"ts\":1,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":4047503360,\"ts\":1,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"a\",\"pid\":-1,\"tid\":0,\"ts\":1,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"a\",\"pid\":\"1\",\"tid\":0,\"ts\":1,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":9223372036854775807,\"ts\":1,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":18446744073709551615,\"ts\":1,\"dur\":1}]";
  struct tg_error e;
  struct tg__columns *t = open_text(text, sizeof text - 1, 1, 0, false, &e);
  assert_non_null(t);
  assert_int_equal(t->track_count, 6);
  assert_int_equal(t->tracks[0].tid, -247463936);
  assert_int_equal(t->tracks[2].pid, -1);
  assert_true(t->tracks[3].pid_is_text);
  tg__trace_free(t);
}

/* Out of memory at any allocation: an error, no crash, no leak (the sanitizers look). */
static void test_failing_allocator(void **state) {
  (void)state;
  size_t len;
  char *text = document(40, false, &len);
  bool done = false;
  for (long n = 1; n < 4000 && !done; n++) {
    struct tg_error e;
    struct tg__columns *t = NULL;
    tg__alloc_fail_after(n);
    const enum tg_err err = tg__trace_open_bytes(text, len, 1, 300, false, &t, &e);
    tg__alloc_fail_after(-1);
    done = err == TG_OK;
    if (!done)
      assert_int_equal(err, TG_MEMORY);
    else
      assert_int_equal(t->slices.count + t->marks.count, 40);
    tg__trace_free(t);
  }
  assert_true(done);
  tg__free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_path_gives_one_trace),
      cmocka_unit_test(test_cut_at_every_byte),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_deep_nesting),
      cmocka_unit_test(test_identity_is_the_token),
      cmocka_unit_test(test_failing_allocator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
