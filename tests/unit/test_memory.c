/* memory: totals, curve, peak and operators; the memory columns of ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above */
#include <cmocka.h>

#include "analyze/memory/memory_blocks.h"
#include "unit/mini_trace.h"

enum { CPU = 0, GPU = 1 };

static void memory(struct mini *m, uint32_t track, int device, int64_t at, int64_t bytes, int64_t addr) {
  mini_mark(m, track, "cpu_instant_event", "[memory]", 'i', at);
  mini_arg_int(m, "Device Type", device);
  mini_arg_int(m, "Device Id", device == CPU ? -1 : 0);
  mini_arg_int(m, "Bytes", bytes);
  if (addr) mini_arg_int(m, "Addr", addr);
}

/* The input of the TensorBoard plugin's test_memory_view. */
static struct tg__columns *view_trace(struct mini *m) {
  static const struct {
    const char *cat, *name;
    int64_t at, dur;
  } slices[] = {{"user_annotation", "ProfilerStep#1", 50, 400},
                {"user_annotation", "ProfilerStep#2", 500, 500},
                {"cpu_op", "aten::to", 10, 10},
                {"cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 180},
                {"cpu_op", "aten::to", 200, 60},
                {"cpu_op", "aten::nll_loss_backward", 340, 70},
                {"cpu_op", "aten::to", 510, 150},
                {"cpu_op", "aten::copy_", 520, 100},
                {"cpu_op", "aten::liner", 700, 100},
                {"cpu_op", "aten::t", 705, 40},
                {"cpu_op", "aten::transpose", 710, 30},
                {"cpu_op", "aten::tranas_stride", 720, 10},
                {"cpu_op", "aten::addmm", 750, 40},
                {"cpu_op", "aten::to", 900, 100}};
  static const struct {
    int device;
    int64_t at, bytes;
  } events[] = {{CPU, 90, 4},    {CPU, 150, 4},    {CPU, 200, 4},   {GPU, 210, 4},       {GPU, 265, 4},
                {GPU, 300, 4},   {GPU, 350, 10},   {GPU, 360, -10}, {CPU, 450, 1000000}, {GPU, 515, 100},
                {GPU, 520, 100}, {GPU, 600, -100}, {GPU, 690, 100}, {GPU, 701, 100},     {GPU, 796, -100},
                {GPU, 708, 100}, {GPU, 742, -100}, {GPU, 715, 50},  {GPU, 735, -50},     {GPU, 725, 50},
                {GPU, 728, -50}, {CPU, 729, 50},   {CPU, 746, 100}, {GPU, 747, 20},      {CPU, 749, -100},
                {GPU, 760, 30},  {GPU, 780, -30},  {GPU, 795, 10},  {GPU, 799, -10}};
  const uint32_t cpu = mini_thread(m, 1, 123);
  for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
    mini_slice(m, cpu, slices[i].cat, slices[i].name, slices[i].at, slices[i].dur);
  for (size_t i = 0; i < sizeof events / sizeof *events; i++)
    memory(m, cpu, events[i].device, events[i].at, events[i].bytes, 0);
  return mini_finish(m);
}

static void test_operators_own_their_memory(void **state) {
  static const struct {
    const char *op;
    int64_t gpu_self, gpu, cpu_self, cpu;
  } want[] = {{"aten::to", 104, 104, 4, 4}, {"aten::nll_loss_backward", 0, 0, 0, 0}, {"aten::copy_", 0, 0, 0, 0},
              {"aten::addmm", 0, 0, 0, 0},  {"aten::tranas_stride", 0, 0, 50, 50},   {"aten::transpose", 0, 0, 0, 50},
              {"aten::t", 0, 0, 0, 50},     {"aten::liner", 20, 20, 0, 50}};
  struct mini *m = mini_new();
  struct tg_table *ops = mini_ask(view_trace(m), "ops", NULL);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const size_t row = mini_row(ops, "name", want[i].op);
    assert_int_equal(mini_int(ops, row, "self_device_memory_bytes"), want[i].gpu_self);
    assert_int_equal(mini_int(ops, row, "device_memory_bytes"), want[i].gpu);
    assert_int_equal(mini_int(ops, row, "self_cpu_memory_bytes"), want[i].cpu_self);
    assert_int_equal(mini_int(ops, row, "cpu_memory_bytes"), want[i].cpu);
  }
  assert_int_equal(mini_int(ops, mini_row(ops, "name", "aten::to"), "calls"), 4);
  tg__table_free(ops);
  mini_free(m);
}

static size_t op_row(const struct tg_table *t, const char *op) { return mini_row(t, "op", op); }

static void test_memory_by_operator(void **state) {
  static const struct {
    const char *op;
    int64_t net, size, allocations;
  } want[] = {{"aten::to", 104, 104, 2},
              {"aten::nll_loss_backward", 0, 10, 1},
              {"aten::copy_", 0, 100, 1},
              {"aten::addmm", 0, 30, 1},
              {"aten::tranas_stride", 0, 50, 1},
              {"aten::transpose", 0, 50, 1},
              {"aten::t", 0, 100, 1},
              {"aten::liner", 20, 130, 3}};
  struct mini *m = mini_new();
  struct tg_table *gpu = mini_ask(view_trace(m), "memory", "by", "op", "device", "GPU0", NULL);
  assert_int_equal(gpu->rows, 9); /* and one for what no operator did */
  int64_t net = 0;
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const size_t row = op_row(gpu, want[i].op);
    assert_int_equal(mini_int(gpu, row, "net_bytes"), want[i].net);
    assert_int_equal(mini_int(gpu, row, "alloc_bytes"), want[i].size);
    assert_int_equal(mini_int(gpu, row, "allocations"), want[i].allocations);
  }
  for (size_t r = 0; r < gpu->rows; r++) net += mini_int(gpu, r, "net_bytes");
  assert_int_equal(net, 4 + 4 + 4 + 100 + 100 + 20); /* 210 265 300 515 690 747: the rest is freed again */
  tg__table_free(gpu);
  mini_free(m);
}

/* Two blocks at one address after each other, one freed twice, one that was there before, one without an address. */
static struct tg__columns *address_trace(struct mini *m) {
  const uint32_t cpu = mini_thread(m, 1, 1);
  mini_slice(m, cpu, "cpu_op", "aten::empty", 0, 100);
  mini_slice(m, cpu, "cpu_op", "aten::zeros", 200, 100);
  memory(m, cpu, CPU, 10, 1000, 0xa0);
  memory(m, cpu, CPU, 20, -1000, 0xa0);
  memory(m, cpu, CPU, 30, 300, 0xa0);
  memory(m, cpu, CPU, 40, -64, 0xb0);
  memory(m, cpu, CPU, 210, 900, 0xc0);
  mini_arg_int(m, "Total Allocated", 5000);
  memory(m, cpu, CPU, 220, -900, 0xc0);
  memory(m, cpu, CPU, 230, -900, 0xc0);
  memory(m, cpu, CPU, 240, 7, 0);
  return mini_finish(m);
}

static void test_totals_per_device(void **state) {
  static const struct {
    const char *column;
    int64_t value;
  } want[] = {{"events", 8},
              {"allocations", 4},
              {"alloc_bytes", 2207},
              {"free_bytes", 2864},
              {"net_bytes", -657},
              {"peak_net_bytes", 1136},
              {"peak_allocated_bytes", 5000},
              {"peak_reserved_bytes", TG_NULL_INT},
              {"with_addr", 7},
              {"paired", 2},
              {"never_freed", 1},
              {"free_without_alloc", 2},
              {"ts_ns", 210}};
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(address_trace(m), "memory", NULL);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "device"), "CPU");
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_int_equal(mini_int(t, 0, want[i].column), want[i].value);
  tg__table_free(t);
  mini_free(m);
}

static void test_alive_at_the_peak(void **state) {
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(address_trace(m), "memory", "by", "peak", NULL);
  assert_int_equal(t->rows, 2); /* largest first */
  assert_string_equal(mini_cell(t, 0, "op"), "aten::zeros");
  assert_int_equal(mini_int(t, 0, "alloc_bytes"), 900);
  assert_int_equal(mini_int(t, 0, "ts_ns"), 210);
  assert_string_equal(mini_cell(t, 1, "op"), "aten::empty");
  assert_int_equal(mini_int(t, 1, "alloc_bytes"), 300);
  assert_int_equal(t->note_count, 2); /* nothing is registered; one allocation has no address */
  tg__table_free(t);
  mini_free(m);
}

static void test_curve(void **state) {
  static const int64_t net[] = {1000, 0, 300, 236, 1136, 236, -664, -657},
                       peak[] = {1000, 1000, 1000, 1000, 1136, 1136, 1136, 1136};
  struct mini *m = mini_new();
  struct tg_table *t = mini_ask(address_trace(m), "memory", "by", "time", NULL);
  assert_int_equal(t->rows, 8);
  for (size_t r = 0; r < t->rows; r++) {
    assert_int_equal(mini_int(t, r, "net_bytes"), net[r]);
    assert_int_equal(mini_int(t, r, "peak_net_bytes"), peak[r]);
    assert_int_equal(mini_int(t, r, "peak_allocated_bytes"), r == 4 ? 5000 : TG_NULL_INT);
  }
  tg__table_free(t);
  mini_free(m);
}

static void test_device_names(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1);
  const struct {
    int64_t type, id;
  } devices[] = {{0, 0}, {1, 3}, {20, 2}, {0, -1}};
  for (int i = 0; i < 4; i++) {
    mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', 10 * i);
    mini_arg_int(m, "Device Type", devices[i].type);
    mini_arg_int(m, "Device Id", devices[i].id);
    mini_arg_int(m, "Bytes", 1);
  }
  mini_mark(m, cpu, "cpu_instant_event", "[memory]", 'i', 100); /* says nothing at all: a release of nothing */
  struct tg_table *t = mini_ask(mini_finish(m), "memory", NULL);
  assert_int_equal(t->rows, 4);
  assert_int_equal(mini_int(t, mini_row(t, "device", "CPU"), "events"), 2);
  assert_int_equal(mini_int(t, mini_row(t, "device", "GPU3"), "events"), 1);
  assert_int_equal(mini_int(t, mini_row(t, "device", "type20:2"), "events"), 1);
  assert_int_equal(mini_int(t, mini_row(t, "device", "type-1:-1"), "allocations"), 0);
  tg__table_free(t);
  mini_free(m);
}

/* Two processes of a rank have the same device, and a later one is not taken for it. */
static void test_blocks_keep_their_device(void **state) {
  struct mini *m = mini_new();
  const uint32_t cpu = mini_thread(m, 1, 1), worker = mini_thread(m, 2, 2);
  memory(m, cpu, CPU, 10, 64, 0x1000);
  memory(m, worker, CPU, 20, 65, 0x2000);
  memory(m, cpu, GPU, 30, 32, 0x3000);
  memory(m, cpu, CPU, 40, 66, 0x4000);
  memory(m, cpu, GPU, 50, 33, 0x5000);
  struct tg_table *t = mini_ask(mini_finish(m), "memory_blocks", "sort", "bytes asc", NULL);
  static const struct {
    int64_t bytes;
    const char *device;
  } want[] = {{32, "GPU0"}, {33, "GPU0"}, {64, "CPU"}, {65, "CPU"}, {66, "CPU"}};
  assert_int_equal(t->rows, sizeof want / sizeof *want);
  for (size_t i = 0; i < t->rows; i++) {
    assert_int_equal(mini_int(t, i, "bytes"), want[i].bytes);
    assert_string_equal(mini_cell(t, i, "device"), want[i].device);
  }
  tg__table_free(t);
  mini_free(m);
}

static void test_layer_of_a_module(void **state) {
  static const struct {
    const char *path, *layer;
  } cases[] = {{"encoder.layers.3.linear", "encoder.layers.3"},
               {"encoder.block", "encoder"},
               {"head", "head"},
               {"", ""},
               {"Net_0.Block_1.Linear_2", "Net_0.Block_1"},
               {"Net_0", "Net_0"},
               {"layer_norm.x", "layer_norm"},
               {"Net_x.Block_1", "Net_x"},
               {"net_0.Block_1", "net_0"},
               {"Net_.Block_1", "Net_"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct tg__str layer = tg__layer_of((struct tg__str){cases[i].path, (uint32_t)strlen(cases[i].path)});
    assert_int_equal(layer.len, strlen(cases[i].layer));
    assert_memory_equal(layer.ptr, cases[i].layer, layer.len);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_operators_own_their_memory),
      cmocka_unit_test(test_memory_by_operator),
      cmocka_unit_test(test_totals_per_device),
      cmocka_unit_test(test_alive_at_the_peak),
      cmocka_unit_test(test_curve),
      cmocka_unit_test(test_device_names),
      cmocka_unit_test(test_blocks_keep_their_device),
      cmocka_unit_test(test_layer_of_a_module),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
