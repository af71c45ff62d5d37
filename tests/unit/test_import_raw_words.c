/* Recordings in Kineto's words: inputs of every kind, module calls and Python frames, running totals of memory,
 * links from forward to backward, and the Chrome document they become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ranks/ranks.h"
#include "show/show.h"
#include "tachograph/record.h"
#include "unit/raw_file.h"
#include "unit/scratch.h"

enum { VALID = TG_RAW_F_VALID };
static char path[64];
static struct raw_file file;

static struct tg__columns *open_file(void) {
  struct tg_error e;
  struct tg__columns *t;
  FILE *const f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(file.bytes, 1, file.len, f), file.len);
  assert_int_equal(fclose(f), 0);
  if (tg__trace_open(path, NULL, &t, &e)) fail_msg("%s", e.text);
  assert_int_equal(tg__trace_load(t, TG__COL_ALL, &e), TG_OK);
  if (!tg__trace_is_valid(t, &e)) fail_msg("%s", e.text);
  return t;
}

static void assert_text(const struct tg__columns *t, uint32_t id, const char *text) {
  char is[2048] = "(none)";
  if (id != TG_NONE) snprintf(is, sizeof is, "%.*s", (int)tg__name(t, id).len, tg__name(t, id).ptr);
  assert_string_equal(is, text);
}

static void assert_arg(const struct tg__columns *t, uint32_t args, const char *key, const char *text) {
  const uint32_t id = tg__strings_find(t->strings, key, strlen(key));
  if (id == TG_NONE) fail_msg("%s is in no event", key);
  struct tg__val v;
  if (!tg__arg(t, args, id, false, &v)) {
    assert_null(text);
    return;
  }
  struct tg__out out = {0};
  struct tg__jsonw w = {.out = &out};
  tg__val_json(t, &v, &w);
  tg__out_bytes(&out, "", 1);
  assert_string_equal(out.buf, text);
  tg__out_free(&out);
}

static uint32_t find(const struct tg__columns *t, const char *name) {
  for (uint32_t i = 0; i < t->slices.count; i++) {
    const struct tg__str s = tg__name(t, t->slices.name[i]);
    if (s.len == strlen(name) && memcmp(s.ptr, name, s.len) == 0) return i;
  }
  fail_msg("no slice is called %s", name);
  return TG_NONE;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void put_tensor(struct tg__out *o, unsigned dtype, unsigned dims, const int64_t *sizes, const int64_t *strides) {
  tg__out_put8(o, TG_INPUT_TENSOR);
  tg__out_put8(o, (uint8_t)dtype);
  tg__out_put8(o, (uint8_t)dims);
  tg__out_put8(o, strides != NULL);
  for (unsigned i = 0; i < dims; i++) tg__out_put64(o, (uint64_t)sizes[i]);
  for (unsigned i = 0; strides && i < dims; i++) tg__out_put64(o, (uint64_t)strides[i]);
}
static void put_double(struct tg__out *o, double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  tg__out_put64(o, bits);
}
static void put_real(struct tg__out *o, double d) {
  tg__out_put8(o, TG_INPUT_DOUBLE);
  put_double(o, d);
}
static void put_text(struct tg__out *o, unsigned kind, const char *text) {
  tg__out_put8(o, (uint8_t)kind);
  tg__out_put16(o, (uint16_t)strlen(text));
  tg__out_text(o, text);
}
static void put_list(struct tg__out *o, unsigned kind, unsigned count) {
  tg__out_put8(o, (uint8_t)kind);
  tg__out_put16(o, (uint16_t)count);
}

/* One operator with these inputs. */
static struct tg__columns *with_inputs(struct tg__out *o) {
  const struct tg__raw_entry names[] = {{1, 0, TG_STR("aten::x\0Overload")}},
                             shapes[] = {{1, 0, {o->buf, (uint32_t)o->len}}};
  const struct tg__raw_record r = {.start_ticks = 100, .dur_ticks = 5, .name = 1, .shape = 1, .flags = VALID};
  raw_begin(&file);
  raw_dictionary(&file, 0, TG_RAW_D_NAME, names, 1);
  raw_dictionary(&file, 0, TG_RAW_D_SHAPE, shapes, 1);
  raw_records(&file, 0, 1, &r, 1, true);
  tg__out_free(o);
  return open_file();
}

static void assert_inputs(struct tg__out *o, const char *dims, const char *strides, const char *types,
                          const char *values) {
  struct tg__columns *const t = with_inputs(o);
  const uint32_t args = t->slices.args[find(t, "aten::x")];
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 0);
  assert_arg(t, args, "Input Dims", dims);
  assert_arg(t, args, "Input Strides", strides);
  assert_arg(t, args, "Input type", types);
  assert_arg(t, args, "Concrete Inputs", values);
  assert_arg(t, args, "Overload name", "\"Overload\"");
  tg__trace_free(t);
}

static void test_tensors(void **state) {
  struct tg__out o = {0};
  const int64_t sizes[] = {3, 4}, strides[] = {4, 1};
  put_tensor(&o, 6, 2, sizes, strides);
  put_tensor(&o, 15, 0, NULL, NULL);
  put_tensor(&o, 4, 1, sizes, NULL); /* without strides */
  tg__out_put8(&o, TG_INPUT_UNDEFINED);
  put_list(&o, TG_INPUT_TENSOR_LIST, 2);
  put_tensor(&o, 7, 2, sizes, strides);
  tg__out_put8(&o, TG_INPUT_UNDEFINED);
  put_list(&o, TG_INPUT_TENSOR_LIST, 0);
  put_tensor(&o, 200, 1, sizes, NULL); /* a type from the future */
  assert_inputs(&o, "[[3, 4], [], [3], [], [[3, 4], []], [], [3]]", "[[4, 1], [], [], [], [[4, 1], []], [], []]",
                "[\"float\", \"c10::BFloat16\", \"long int\", \"\", \"TensorList\", \"TensorList\", \"\"]",
                "[\"\", \"\", \"\", \"\", \"\", \"\", \"\"]");
}

/* torch leaves out the contents of lists of more than 30. */
static void test_long_lists(void **state) {
  struct tg__out o = {0};
  const int64_t sizes[] = {3};
  for (unsigned count = 30; count <= 31; count++) {
    put_list(&o, TG_INPUT_TENSOR_LIST, count);
    for (unsigned i = 0; i < count; i++) put_tensor(&o, 6, 1, sizes, NULL);
    put_list(&o, TG_INPUT_BOOL_LIST, count);
    for (unsigned i = 0; i < count; i++) tg__out_put8(&o, 0);
  }
  tg__out_put8(&o, TG_INPUT_SCALAR_LIST);
  char dims[512] = "[[", values[512] = "[\"\", \"[", strides[512] = "[[";
  for (unsigned i = 0; i < 30; i++) {
    strcat(dims, i ? ", [3]" : "[3]");
    strcat(strides, i ? ", []" : "[]");
    strcat(values, i ? ", False" : "False");
  }
  strcat(dims, "], [], [], [], []]");
  strcat(strides, "], [], [], [], []]");
  strcat(values, "]\", \"\", \"\", \"\"]");
  assert_inputs(&o, dims, strides, "[\"TensorList\", \"ScalarList\", \"TensorList\", \"\", \"\"]", values);
}

static void test_scalars(void **state) {
  struct tg__out o = {0};
  static const double reals[] = {1, -0.0, 2.5, 0.1, 1e-7, 1e20, 1234567, 9999999999, 1e10, -3};
  tg__out_put8(&o, TG_INPUT_INT);
  tg__out_put64(&o, (uint64_t)-7);
  tg__out_put8(&o, TG_INPUT_BOOL);
  tg__out_put8(&o, 1);
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) put_real(&o, reals[i]);
  tg__out_put8(&o, TG_INPUT_SCALAR);
  tg__out_put8(&o, TG_INPUT_NONE);
  put_text(&o, TG_INPUT_STRING, "floor");
  tg__out_put8(&o, TG_INPUT_OTHER);
  assert_inputs(&o, "[[], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []]",
                "[[], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []]",
                "[\"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", "
                "\"Scalar\", \"Scalar\", \"Scalar\", "
                "\"Scalar\", \"Scalar\", \"\", \"\", \"\"]",
                "[\"-7\", \"True\", \"1.\", \"-0.\", \"2.5\", \"0.10000000000000001\", \"9.9999999999999995e-08\", "
                "\"1e+20\", \"1234567.\", "
                "\"9999999999.\", \"10000000000\", \"-3.\", \"\", \"\", \"\", \"\"]");
}

static void test_lists_of_scalars(void **state) {
  struct tg__out o = {0};
  put_list(&o, TG_INPUT_INT_LIST, 3);
  for (int i = -1; i < 2; i++) tg__out_put64(&o, (uint64_t)(int64_t)i);
  put_list(&o, TG_INPUT_INT_LIST, 0);
  put_list(&o, TG_INPUT_DOUBLE_LIST, 2);
  put_double(&o, 2);
  put_double(&o, 0.5);
  put_list(&o, TG_INPUT_BOOL_LIST, 2);
  tg__out_put8(&o, 1);
  tg__out_put8(&o, 0);
  assert_inputs(&o, "[[], [], [], []]", "[[], [], [], []]",
                "[\"ScalarList\", \"ScalarList\", \"ScalarList\", \"ScalarList\"]",
                "[\"[-1, 0, 1]\", \"[]\", \"[2., 0.5]\", \"[True, False]\"]");
}

/* Values given by name become members of their own; those that torch does not keep leave no trace, and none takes
 * the place of ours. */
static void test_keywords(void **state) {
  struct tg__out o = {0};
  tg__out_put8(&o, TG_INPUT_NONE);
  put_text(&o, TG_INPUT_KEYWORD, "num_warps");
  tg__out_put8(&o, TG_INPUT_INT);
  tg__out_put64(&o, 4);
  put_text(&o, TG_INPUT_KEYWORD, "ratio");
  put_real(&o, 2.5);
  put_text(&o, TG_INPUT_KEYWORD, "fused");
  tg__out_put8(&o, TG_INPUT_BOOL);
  tg__out_put8(&o, 1);
  put_text(&o, TG_INPUT_KEYWORD, "kernel_file");
  put_text(&o, TG_INPUT_STRING, "a\"b");
  put_text(&o, TG_INPUT_KEYWORD, "names");
  put_list(&o, TG_INPUT_STRING_LIST, 2);
  tg__out_put16(&o, 1);
  tg__out_text(&o, "p");
  tg__out_put16(&o, 1);
  tg__out_text(&o, "\\");
  put_text(&o, TG_INPUT_KEYWORD, "x");
  put_list(&o, TG_INPUT_TENSOR_LIST, 1);
  tg__out_put8(&o, TG_INPUT_UNDEFINED);
  put_text(&o, TG_INPUT_KEYWORD, "Input Dims");
  tg__out_put8(&o, TG_INPUT_INT);
  tg__out_put64(&o, 4);
  struct tg__columns *const t = with_inputs(&o);
  const uint32_t args = t->slices.args[find(t, "aten::x")];
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 0);
  assert_arg(t, args, "Input Dims", "[[]]");
  assert_arg(t, args, "num_warps", "4");
  assert_arg(t, args, "ratio", "2.5");
  assert_arg(t, args, "fused", "true");
  assert_arg(t, args, "kernel_file", "\"a\\\"b\"");
  assert_arg(t, args, "names", "[\"p\", \"\\\\\"]");
  assert_arg(t, args, "x", NULL);
  tg__trace_free(t);
}

/* ---- modules and frames ---------------------------------------------------------------------- */

/* main → Net (model) → Linear 3 (fc) called at net.py:20; the frame of the linear call is entry 3, as it was entered 4.
 */
static void begin_program(uint32_t features) {
  const struct tg__raw_process p = {
      .session = 5, .process = 4242, .rank = -1, .features = features, .start_ns = 1, .stop_ns = 100000};
  static const struct tg__raw_entry names[] = {
      {1, 0, TG_STR("aten::mm")},  {2, 0, TG_STR("aten::relu")}, {3, 0, TG_STR("<built-in len>")},
      {4, 0, TG_STR("Python GC")}, {5, 0, TG_STR("rss")},        {6, 0, TG_STR("here")}};
  static const struct tg__raw_entry frames[] = {{1, 0, TG_STR("train.py(10): main")},
                                                {2, 1, TG_STR("net.py(20): forward")},
                                                {3, 2, TG_STR("linear.py(31): forward\00030\0/lib/\0007")},
                                                {4, 2, TG_STR("linear.py(30): forward\00030\0/lib/")}};
  static const struct tg__raw_entry modules[] = {{2, 0, TG_STR("Net\0model")}, {3, 3, TG_STR("Linear\0model.fc")}};
  raw_begin(&file);
  raw_process(&file, &p);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 6);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_STACK, frames, 4);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_MODULE, modules, 2);
}

static void assert_span(const struct tg__columns *t, const char *name, int64_t start, int64_t dur, const char *parent) {
  const uint32_t i = find(t, name);
  assert_int_equal(t->slices.start_ns[i], start);
  assert_int_equal(t->slices.dur_ns[i], dur);
  assert_int_equal(tg__slice_class(t, i), TG__CLASS_PYTHON);
  assert_text(t, t->slices.parent[i] == TG_NONE ? TG_NONE : t->slices.name[t->slices.parent[i]], parent);
}

static void test_frames(void **state) {
  begin_program(TG_RECORD_CALLS | TG_RECORD_MODULE_SPANS);
  const struct tg__raw_record r[] = {
      {.start_ticks = 300, .dur_ticks = 10, .name = 1, .stack = 3, .scope = TG_RAW_OP, .flags = VALID},
      {.start_ticks = 320, .dur_ticks = 5, .name = 3, .stack = 3, .scope = TG_RAW_PYTHON_C_CALL, .flags = VALID},
      {.start_ticks = 250, .dur_ticks = 100, .stack = 4, .scope = TG_RAW_PYTHON_CALL, .flags = VALID},
      {.start_ticks = 240, .dur_ticks = 120, .stack = 3, .scope = TG_RAW_MODULE, .flags = VALID},
      {.start_ticks = 200, .dur_ticks = 200, .stack = 2, .scope = TG_RAW_MODULE, .flags = VALID},
      {.start_ticks = 410, .dur_ticks = 50, .name = 4, .seq = 3, .scope = TG_RAW_GC, .flags = VALID},
      {.start_ticks = 100, .dur_ticks = 900, .stack = 1, .scope = TG_RAW_PYTHON_CALL, .flags = VALID | TG_RAW_F_CUT},
  };
  raw_records(&file, 0, 8, r, 7, true);
  struct tg__columns *const t = open_file();
  assert_span(t, "train.py(10): main", 100, 900, "(none)");
  assert_span(t, "nn.Module: Net_0", 200, 200, "train.py(10): main");
  assert_span(t, "nn.Module: Linear_3", 240, 120, "nn.Module: Net_0");
  assert_span(t, "linear.py(30): forward", 250, 100, "nn.Module: Linear_3");
  assert_span(t, "<built-in len>", 320, 5, "linear.py(30): forward");
  assert_arg(t, t->slices.args[find(t, "<built-in len>")], "CallFrom", "\"linear.py:31\"");
  assert_arg(t, t->slices.args[find(t, "linear.py(30): forward")], "CallFrom", "\"net.py:20\"");
  assert_arg(t, t->slices.args[find(t, "train.py(10): main")], "CallFrom", NULL);
  assert_arg(t, t->slices.args[find(t, "train.py(10): main")], "finished", "false");
  assert_arg(t, t->slices.args[find(t, "nn.Module: Linear_3")], "Python module id", "3");
  assert_arg(t, t->slices.args[find(t, "nn.Module: Net_0")], "Module path", "\"model\"");
  assert_arg(t, t->slices.args[find(t, "Python GC")], "generation", "2");
  assert_arg(t, t->slices.args[find(t, "aten::mm")], "Module Hierarchy", "\"Net_0 / Linear_3\"");
  assert_arg(t, t->slices.args[find(t, "aten::mm")], "Module path", "\"model.fc\"");
  assert_arg(t, t->slices.args[find(t, "aten::mm")], "Call stack",
             "\"nn.Module: Linear_3;nn.Module: Net_0;train.py(10): main\"");
  tg__trace_free(t);
}

/* TorchScript's modules of an operator go before the modules of Python; stack, path and caller stay. */
static void test_contexts(void **state) {
  static const struct tg__raw_entry contexts[] = {
      {1, 3, TG_STR("TOP(Net)::forward.fc(Linear)::forward.")}, {2, 1, TG_STR("12")}, {3, 0, TG_STR("TOP()::f.")}};
  const struct tg__raw_record r[] = {
      {.start_ticks = 300, .dur_ticks = 10, .name = 1, .stack = TG_RAW_CONTEXT_ENTRY | 1, .flags = VALID},
      {.start_ticks = 400,
       .dur_ticks = 10,
       .name = 2,
       .seq = 8,
       .stack = TG_RAW_CONTEXT_ENTRY | 2,
       .scope = TG_RAW_BACKWARD,
       .flags = VALID},
      {.start_ticks = 500,
       .dur_ticks = 10,
       .name = 6,
       .stack = TG_RAW_CONTEXT_ENTRY | 3,
       .scope = TG_RAW_SCRIPT,
       .flags = VALID},
      {.start_ticks = 600, .dur_ticks = 10, .name = 3, .stack = TG_RAW_CONTEXT_ENTRY | 4, .flags = VALID},
  };
  begin_program(TG_RECORD_STACKS | TG_RECORD_MODULES);
  raw_dictionary(&file, 0, TG_RAW_D_CONTEXT, contexts, 3);
  raw_records(&file, 0, 4, r, 4, true);
  struct tg__columns *const t = open_file();
  const uint32_t mm = t->slices.args[find(t, "aten::mm")], node = t->slices.args[find(t, "aten::relu")],
                 script = t->slices.args[find(t, "here")];
  assert_arg(t, mm, "Module Hierarchy", "\"TOP(Net)::forward.fc(Linear)::forward.\"");
  assert_arg(t, mm, "Module path", "\"model.fc\"");
  assert_arg(t, mm, "Call stack", "\"nn.Module: Linear_3;nn.Module: Net_0;train.py(10): main\"");
  assert_arg(t, node, "Fwd thread id", "12");
  assert_arg(t, node, "Module Hierarchy", NULL);
  assert_arg(t, node, "Call stack", "\"train.py(10): main\"");
  assert_arg(t, script, "Module Hierarchy", "\"TOP()::f.\"");
  assert_arg(t, script, "Call stack", NULL);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_details], 1); /* an entry that is missing */
  tg__trace_free(t);
}

/* The last record says that an extension follows, and none does. */
static void test_contexts_that_are_damaged(void **state) {
  raw_file_make_contexts(&file);
  struct tg__columns *const t = open_file();
  const int64_t *const loss = t->ranks[0].loss;
  assert_int_equal(loss[TG__LOSS_bent_no_details], 2); /* the stack of entry 3, entry 9 */
  assert_int_equal(loss[TG__LOSS_bent_torn_duration], 1);
  assert_arg(t, t->slices.args[find(t, "Mm0")], "Record function id", "4294972007"); /* 2^32 + 4711 */
  tg__trace_free(t);
}

/* Numbers that no dictionary has: the operator is there without them, and they are counted. */
static void test_details_that_are_missing(void **state) {
  const struct tg__raw_record r[] = {
      {.start_ticks = 250, .dur_ticks = 100, .name = 1, .stack = 77, .shape = 5, .flags = VALID},
      {.start_ticks = 450, .dur_ticks = 100, .stack = 77, .scope = TG_RAW_PYTHON_CALL, .flags = VALID}};
  begin_program(TG_RECORD_STACKS);
  raw_records(&file, 0, 2, r, 2, true);
  struct tg__columns *const t = open_file();
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_details], 2);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_dictionary], 1);
  find(t, "name#0"); /* the frame */
  tg__trace_free(t);
}

/* A stack says the lines being run, but where frames were recorded, by whose names it goes. */
static void test_lines_of_stacks(void **state) {
  static const struct tg__raw_entry frames[] = {{8, 1, TG_STR("f(x): g.py(99): f\0007\0\0")},
                                                {9, 1, TG_STR("no line at all\0007")}};
  const struct tg__raw_record r[] = {{.start_ticks = 250, .dur_ticks = 100, .name = 1, .stack = 8, .flags = VALID},
                                     {.start_ticks = 450, .dur_ticks = 100, .name = 2, .stack = 9, .flags = VALID}};
  for (int calls = 0; calls < 2; calls++) {
    begin_program(calls ? TG_RECORD_CALLS : TG_RECORD_STACKS);
    raw_dictionary(&file, 0, TG_RAW_D_STACK, frames, 2);
    raw_records(&file, 0, 2, r, 2, true);
    struct tg__columns *const t = open_file();
    assert_arg(t, t->slices.args[find(t, "aten::mm")], "Call stack",
               calls ? "\"f(x): g.py(7): f;train.py(10): main\"" : "\"f(x): g.py(99): f;train.py(10): main\"");
    assert_arg(t, t->slices.args[find(t, "aten::relu")], "Call stack", "\"no line at all;train.py(10): main\"");
    tg__trace_free(t);
  }
}

/* Where no call was seen, a module's span goes from its first operator to its last, and says that it does. Work
 * inside an operator counts with it; an operator outside ends the calls. */
static void test_modules_from_operators(void **state) {
  begin_program(TG_RECORD_MODULES);
  const struct tg__raw_record r[] = {
      {.start_ticks = 310, .dur_ticks = 5, .name = 2, .stack = 3, .depth = 1, .flags = VALID}, /* inside the next */
      {.start_ticks = 300, .dur_ticks = 20, .name = 1, .stack = 3, .flags = VALID},
      {.start_ticks = 330, .dur_ticks = 10, .name = 1, .stack = 3, .flags = VALID},
      {.start_ticks = 350, .dur_ticks = 10, .name = 2, .stack = 2, .flags = VALID},
      {.start_ticks = 370, .dur_ticks = 10, .name = 2, .stack = 1, .flags = VALID},
  };
  raw_records(&file, 0, 5, r, 5, true);
  struct tg__columns *const t = open_file();
  assert_span(t, "nn.Module: Net_0", 300, 60, "(none)");
  assert_span(t, "nn.Module: Linear_3", 300, 40, "nn.Module: Net_0");
  assert_arg(t, t->slices.args[find(t, "nn.Module: Linear_3")], "Derived", "true");
  uint32_t spans = 0;
  for (uint32_t i = 0; i < t->slices.count; i++) spans += tg__slice_class(t, i) == TG__CLASS_PYTHON;
  assert_int_equal(spans, 2);
  tg__trace_free(t);
}

/* A model that does everything inside of itself is called once a step: the start of a step ends the call. */
static void test_modules_from_operators_of_steps(void **state) {
  begin_program(TG_RECORD_MODULES);
  const struct tg__raw_record r[] = {
      {.start_ticks = 300, .dur_ticks = 20, .name = 1, .stack = 3, .flags = VALID},
      {.start_ticks = 330, .dur_ticks = 10, .name = 2, .stack = 2, .flags = VALID},
      {.start_ticks = 290, .dur_ticks = 60, .name = 4, .scope = TG_RAW_STEP, .flags = VALID},
      {.start_ticks = 360, .dur_ticks = 20, .name = 1, .stack = 3, .flags = VALID},
      {.start_ticks = 385, .dur_ticks = 5, .name = 2, .stack = 3, .flags = VALID},
      {.start_ticks = 350, .dur_ticks = 50, .name = 5, .scope = TG_RAW_STEP, .flags = VALID},
  };
  static const int64_t start[] = {300, 360}, dur[] = {40, 30};
  raw_records(&file, 0, 6, r, 6, true);
  struct tg__columns *const t = open_file();
  uint32_t nets = 0;
  for (uint32_t i = 0; i < t->slices.count; i++) {
    if (!tg__str_eq(tg__name(t, t->slices.name[i]), TG_STR("nn.Module: Net_0"))) continue;
    assert_true(nets < 2);
    assert_int_equal(t->slices.start_ns[i], start[nets]);
    assert_int_equal(t->slices.dur_ns[i], dur[nets]);
    nets++;
  }
  assert_int_equal(nets, 2);
  tg__trace_free(t);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void assert_memory(const struct tg__columns *t, int64_t ts, int64_t bytes, int64_t total, int64_t device,
                          bool failed) {
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.ts_ns[i] != ts || t->marks.ph[i] != 'i') continue;
    assert_int_equal(t->marks.name[i], failed ? TG__K_OUT_OF_MEMORY : TG__K_MEMORY);
    assert_int_equal(tg__arg_int(t, t->marks.args[i], TG__K_BYTES_MEMORY, -1), bytes);
    assert_int_equal(tg__arg_int(t, t->marks.args[i], TG__K_TOTAL_ALLOCATED, -1), total);
    assert_int_equal(tg__arg_int(t, t->marks.args[i], TG__K_DEVICE_ID, -9), device);
    return;
  }
  fail_msg("no memory event at %lld", (long long)ts);
}

/* Two threads of a process share the totals; each device has its own. */
static void test_memory_totals(void **state) {
  raw_begin(&file);
  const struct tg__raw_record one[] = {
      {.start_ticks = 100, .dur_ticks = 512, .shape = 16, .scope = TG_RAW_MEMORY, .flags = VALID},
      {.start_ticks = 300,
       .dur_ticks = (uint32_t)-512,
       .seq = UINT32_MAX,
       .shape = 16,
       .scope = TG_RAW_MEMORY,
       .flags = VALID},
      {.start_ticks = 350, .dur_ticks = 1000, .seq = 1, .scope = TG_RAW_OUT_OF_MEMORY, .depth = 0x101, .flags = VALID},
  };
  const struct tg__raw_record two[] = {
      {.start_ticks = 200, .dur_ticks = 64, .shape = 32, .scope = TG_RAW_MEMORY, .flags = VALID},
      {.start_ticks = 250, .dur_ticks = 7, .shape = 48, .scope = TG_RAW_MEMORY, .depth = 0x101, .flags = VALID},
      {.start_ticks = 400,
       .dur_ticks = 0,
       .shape = 99,
       .scope = TG_RAW_MEMORY,
       .flags = VALID}, /* a block from before, of unknown size */
  };
  raw_records(&file, 0, 4, one, 3, true);
  raw_records(&file, 1, 4, two, 3, true);
  struct tg__columns *const t = open_file();
  assert_memory(t, 100, 512, 512, -1, false);
  assert_memory(t, 200, 64, 576, -1, false);
  assert_memory(t, 250, 7, 7, 1, false);
  assert_memory(t, 300, -512, 64, -1, false);
  assert_memory(t, 350, 4294968296, 7, 1, true);
  assert_memory(t, 400, 0, 64, -1, false);
  tg__trace_free(t);
}

/* Of an allocation that was noted without looking at the clock it is known what had ended by then. */
static void test_early_allocation(void **state) {
  static const struct tg__raw_entry names[] = {{1, 0, TG_STR("aten::to")}, {2, 0, TG_STR("aten::div")}};
  const struct tg__raw_record r[] = {
      {.start_ticks = 105,
       .dur_ticks = 8,
       .shape = 1,
       .name = 2,
       .scope = TG_RAW_MEMORY,
       .flags = VALID | TG_RAW_F_EARLY}, /* before anything ended */
      {.start_ticks = 110, .dur_ticks = 30, .name = 1, .depth = 1, .flags = VALID},
      {.start_ticks = 120,
       .dur_ticks = 16,
       .shape = 2,
       .name = 2,
       .scope = TG_RAW_MEMORY,
       .flags = VALID | TG_RAW_F_EARLY},
      {.start_ticks = 100, .dur_ticks = 90, .name = 2, .flags = VALID},
  };
  raw_begin(&file);
  raw_dictionary(&file, 0, TG_RAW_D_NAME, names, 2);
  raw_records(&file, 0, 4, r, 4, true);
  struct tg__columns *const t = open_file();
  assert_memory(t, 107, 8, 8, -1, false);
  assert_memory(t, 142, 16, 24, -1, false);
  tg__trace_free(t);
}

/* ---- ranges of NVTX -------------------------------------------------------------------------- */

static void test_labels(void **state) {
  raw_file_make_labels(&file);
  struct tg__columns *const t = open_file();
  const uint32_t whole = t->slices.args[find(t, "whole")], strange = t->slices.args[find(t, "strange")];
  assert_arg(t, whole, "domain", "\"d\"");
  assert_arg(t, whole, "category", "\"cc\"");
  assert_arg(t, whole, "color", "\"#01020304\"");
  assert_arg(t, whole, "payload", "18446744069414584327"); /* 2^64 - 2^32 + 7 */
  assert_int_equal(tg__arg_int(t, strange, TG__K_NVTX_CATEGORY, 0), 5);
  assert_int_equal(tg__arg_int(t, strange, TG__K_NVTX_PAYLOAD, -999), -999);
  for (uint32_t i = 0; i < t->marks.count; i++) {
    if (t->marks.name[i] != t->slices.name[find(t, "whole")]) continue;
    assert_int_equal(tg__arg_int(t, t->marks.args[i], TG__K_NVTX_PAYLOAD, 0), 7);
    assert_arg(t, t->marks.args[i], "domain", "\"d\"");
  }
  assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_no_details], 2);
  assert_int_equal(t->ranks[0].loss[TG__LOSS_cut_chunks], 1);
  tg__trace_free(t);
}

/* ---- forward and backward, and the whole document -------------------------------------------- */

static void begin_two_threads(void) {
  const struct tg__raw_process p = {.session = 0xabc, .process = 4242, .rank = -1, .start_ns = 50, .stop_ns = 2000};
  static const struct tg__raw_entry names[] = {{1, 0, TG_STR("aten::mm")},
                                               {2, 0, TG_STR("engine: Mm0")},
                                               {3, 0, TG_STR("Mm0")},
                                               {4, 0, TG_STR("rss")},
                                               {5, 0, TG_STR("here")}};
  static const struct tg__raw_entry threads[] = {{0, 0, TG_STR("python")}, {1, 0, TG_STR("python")}};
  /* By the system's number of the thread, before the other; one that records nothing, with a number far away. */
  static const struct tg__raw_entry given[] = {
      {101, 0, TG_STR("Thread-1")}, {UINT32_MAX - 1, 0, TG_STR("far")}, {101, 0, TG_STR("prefetch")}};
  raw_begin(&file);
  raw_process(&file, &p);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 5);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_THREAD, threads, 2);
  raw_dictionary(&file, TG_RAW_EVERY_THREAD, TG_RAW_D_GIVEN_THREAD, given, 3);
}

static const struct tg__raw_record forward[] = {
    {.start_ticks = 100, .dur_ticks = 10, .name = 1, .seq = 8, .flags = VALID},
    {.start_ticks = 120, .dur_ticks = 512, .shape = 64, .scope = TG_RAW_MEMORY, .flags = VALID},
    {.start_ticks = 130, .name = 4, .shape = 77, .scope = TG_RAW_COUNTER, .flags = VALID},
    {.start_ticks = 140, .name = 5, .scope = TG_RAW_MARK, .flags = VALID},
};
/* The same sequence number on another thread: not what thread 1's node goes back to. */
static const struct tg__raw_record other[] = {
    {.start_ticks = 110, .dur_ticks = 10, .name = 1, .seq = 8, .flags = VALID}};
static const struct tg__raw_record backward[] = {
    {.start_ticks = 510,
     .dur_ticks = 30,
     .name = 3,
     .seq = 8,
     .stack = 1,
     .depth = 1,
     .scope = TG_RAW_BACKWARD,
     .flags = VALID},
    {.start_ticks = 500, .dur_ticks = 50, .name = 2, .seq = 8, .stack = 1, .scope = TG_RAW_BACKWARD, .flags = VALID},
};

static void test_forward_thread(void **state) {
  begin_two_threads();
  file.logical = 1;
  raw_records(&file, 0, 4, forward, 4, true);
  file.logical = 2;
  raw_records(&file, 1, 1, other, 1, true);
  file.logical = 3;
  raw_records(&file, 2, 2, backward, 2, true);
  struct tg__columns *const t = open_file();
  const uint32_t node = find(t, "Mm0");
  assert_int_not_equal(t->slices.cause[node], TG_NONE);
  assert_int_equal(t->slices.start_ns[t->slices.cause[node]], 100);
  assert_int_equal(t->slices.cause[find(t, "engine: Mm0")],
                   TG_NONE); /* one node per forward operator: the first that ends */
  tg__trace_free(t);
}

static void test_document(void **state) {
  static const char want[] =
      "{\n\"schemaVersion\":1,\n\"deviceProperties\":[],\n\"trace_id\":\"0000000000000ABC0000000000000032\","
      "\n\"displayTimeUnit\":\"ms\",\n"
      "\"baseTimeNanoseconds\":0,\n\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4242,\"tid\":0,\"ts\":0.050,\"args\":{\"name\":\"python\"}},\n"
      "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":4242,\"tid\":0,\"ts\":0.050,\"args\":{\"labels\":\"CPU\"}},\n"
      "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":4242,\"tid\":0,\"ts\":0.050,\"args\":{\"sort_index\":4242}"
      "},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4242,\"tid\":100,\"ts\":0.050,\"args\":{\"name\":\"thread 100 "
      "(python)\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":4242,\"tid\":100,\"ts\":0.050,\"args\":{\"sort_index\":100}"
      "},\n"
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4242,\"tid\":101,\"ts\":0.050,\"args\":{\"name\":\"thread "
      "101 (prefetch)\"}},\n"
      "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":4242,\"tid\":101,\"ts\":0.050,\"args\":{\"sort_index\":101}"
      "},\n"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":4242,\"tid\":100,\"ts\":0.100,\"dur\":0.010,"
      "\"args\":{\"Sequence number\":7,"
      "\"Fwd thread id\":0,\"External id\":1,\"Record function id\":0,\"Ev Idx\":0}},\n"
      "{\"ph\":\"s\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\",\"pid\":4242,\"tid\":100,\"ts\":0.100,\"id\":1},\n"
      "{\"ph\":\"C\",\"name\":\"rss\",\"pid\":4242,\"tid\":100,\"ts\":0.130,\"args\":{\"value\":77}},\n"
      "{\"ph\":\"i\",\"cat\":\"user_annotation\",\"name\":\"here\",\"pid\":4242,\"tid\":100,\"ts\":0.140,\"s\":\"t\"},"
      "\n"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"engine: "
      "Mm0\",\"pid\":4242,\"tid\":101,\"ts\":0.500,\"dur\":0.050,\"args\":{\"Sequence number\":7,"
      "\"Fwd thread id\":1,\"External id\":2,\"Record function id\":0,\"Ev Idx\":1}},\n"
      "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"Mm0\",\"pid\":4242,\"tid\":101,\"ts\":0.510,\"dur\":0.030,\"args\":{"
      "\"Sequence number\":7,"
      "\"Fwd thread id\":1,\"External id\":3,\"Record function id\":0,\"Ev Idx\":2}},\n"
      "{\"ph\":\"f\",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\",\"pid\":4242,\"tid\":101,\"ts\":0.510,\"id\":1,\"bp\":"
      "\"e\"},\n"
      "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":4242,\"tid\":100,\"ts\":0.120,\"s\":"
      "\"t\",\"args\":{\"Total Reserved\":0,"
      "\"Total Allocated\":512,\"Bytes\":512,\"Device Id\":-1,\"Device Type\":0,\"Addr\":64,\"finished\":false,\"Ev "
      "Idx\":3}},\n"
      "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\",\"tid\":\"PyTorch "
      "Profiler\",\"ts\":0.050,\"dur\":1.950,"
      "\"args\":{\"Op count\":0}},\n"
      "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":\"Spans\",\"tid\":0,\"ts\":0.050,\"args\":{\"sort_index\":"
      "536870912}},\n"
      "{\"ph\":\"i\",\"name\":\"Iteration Start: PyTorch Profiler\",\"pid\":\"Traces\",\"tid\":\"Trace PyTorch "
      "Profiler\",\"ts\":0.050,\"s\":\"g\"},\n"
      "{\"ph\":\"i\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":2.000,\"s\":\"g\"}\n]\n}\n";
  begin_two_threads();
  file.logical = 1;
  raw_records(&file, 0, 4, forward, 4, true);
  file.logical = 2;
  raw_records(&file, 1, 2, backward, 2, true);
  struct tg__columns *const t = open_file();
  struct tg__out out = {0};
  struct tg_error e = {0};
  if (tg__format_find("chrome")->trace(t, &(struct tg__show_options){0}, &out, &e)) fail_msg("%s", e.text);
  tg__out_bytes(&out, "", 1);
  assert_string_equal(out.buf, want);
  tg__out_free(&out);
  tg__trace_free(t);
}

int main(void) {
  snprintf(path, sizeof path, "%s/test_import_raw_words.%d.tacho", scratch_folder(), (int)getpid());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors),
      cmocka_unit_test(test_long_lists),
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_lists_of_scalars),
      cmocka_unit_test(test_keywords),
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_contexts),
      cmocka_unit_test(test_contexts_that_are_damaged),
      cmocka_unit_test(test_details_that_are_missing),
      cmocka_unit_test(test_lines_of_stacks),
      cmocka_unit_test(test_modules_from_operators),
      cmocka_unit_test(test_modules_from_operators_of_steps),
      cmocka_unit_test(test_memory_totals),
      cmocka_unit_test(test_early_allocation),
      cmocka_unit_test(test_labels),
      cmocka_unit_test(test_forward_thread),
      cmocka_unit_test(test_document),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
