/* A .tacho file as the recorder would leave it, written into memory; for the tests of the raw import and the fuzz
 * corpus. */
#ifndef RAW_FILE_H
#define RAW_FILE_H

#include <stdlib.h>

#include "format/format.h"

struct raw_file {
  uint8_t bytes[1 << 14];
  size_t len;
  uint32_t pid, logical; /* of the records to come; pid 0 = 4242 */
};

static inline size_t raw_chunk(struct raw_file *f, uint16_t type, uint32_t part, uint32_t flags, const void *payload,
                               size_t len) {
  const size_t at = f->len;
  if (at + tg__chunk_span(len) > sizeof f->bytes) abort();
  tg__chunk_head_write(f->bytes + at, type, part, flags, len, flags ? 0 : tg__checksum(payload, len));
  memcpy(f->bytes + at + TG_CHUNK_HEAD_BYTES, payload, len);
  f->len += (size_t)tg__chunk_span(len);
  return at + TG_CHUNK_HEAD_BYTES;
}

static inline void raw_dictionary(struct raw_file *f, uint32_t part, uint32_t kind, const struct tg__raw_entry *entries,
                                  size_t count) {
  struct tg__out o = {0};
  tg__out_put32(&o, kind);
  tg__out_put32(&o, 0);
  for (size_t i = 0; i < count; i++) tg__raw_entry_put(&o, &entries[i]);
  raw_chunk(f, TG_CHUNK_RAW_DICTIONARY, part, 0, o.buf, o.len);
  tg__out_free(&o);
}

/* Records of one thread; sealed when `seal`, else open. Where its payload begins. */
static inline size_t raw_records(struct raw_file *f, uint32_t thread, uint32_t capacity, const struct tg__raw_record *r,
                                 uint32_t count, bool seal) {
  uint8_t payload[TG_RAW_HEAD_BYTES + 16 * TG_RAW_RECORD_BYTES] = {0};
  uint8_t *const records = payload + TG_RAW_HEAD_BYTES;
  for (uint32_t i = 0; i < count; i++) tg__raw_record_write(records + i * TG_RAW_RECORD_BYTES, &r[i]);
  const struct tg__raw_head head = {.capacity = capacity,
                                    .sealed = seal ? count + 1 : 0,
                                    .checksum = seal ? tg__checksum(records, count * TG_RAW_RECORD_BYTES) : 0,
                                    .process = f->pid ? f->pid : 4242,
                                    .thread = 100 + thread,
                                    .lost = thread ? 3 : 0,
                                    .logical = f->logical};
  tg__raw_head_write(payload, &head);
  return raw_chunk(f, TG_CHUNK_RAW_RECORDS, thread, TG_CHUNK_IN_PLACE, payload,
                   TG_RAW_HEAD_BYTES + capacity * TG_RAW_RECORD_BYTES);
}

static inline void raw_process(struct raw_file *f, const struct tg__raw_process *p) {
  raw_chunk(f, TG_CHUNK_RAW_PROCESS, 0, TG_CHUNK_IN_PLACE, p, sizeof *p); /* little endian, like the tests' machines */
}

static inline void raw_clock(struct raw_file *f, const uint64_t *pairs, size_t count) {
  uint8_t payload[256] = {0};
  for (size_t i = 0; i < 2 * count; i++) tg__set64(payload + 8 * i, pairs[i]);
  raw_chunk(f, TG_CHUNK_RAW_CLOCK, 0, 0, payload, 16 * count);
}

static inline void raw_begin(struct raw_file *f) {
  memset(f, 0, sizeof *f);
  tg__greeting_write(f->bytes);
  f->len = TG_GREETING_BYTES;
}

/* A float tensor of 2 x 3 with strides 3, 1; the number 7. */
static const struct tg__str raw_shape = {"\1\6\2\1"
                                         "\2\0\0\0\0\0\0\0"
                                         "\3\0\0\0\0\0\0\0"
                                         "\3\0\0\0\0\0\0\0"
                                         "\1\0\0\0\0\0\0\0"
                                         "\4\7\0\0\0\0\0\0\0",
                                         45};

/* Two threads. Thread 0, sealed: step { add, a memory event }, then mul of more than 2^32 ticks. Thread 1, open: an
 * op whose name is missing, one backward op, and a record that was being written when the program died. */
static inline size_t raw_file_make(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const uint64_t clock[6] = {1000, 1000000, 3000, 1001000, 5000, 1003000}; /* half a ns a tick, later one */
  raw_begin(f);
  raw_clock(f, clock, 3);
  const struct tg__raw_entry names[] = {
      {1, 0, TG_STR("aten::add")}, {2, 0, TG_STR("aten::mul")}, {3, 0, TG_STR("ProfilerStep#5")}};
  const struct tg__raw_entry shapes[] = {{1, 0, raw_shape}};
  const struct tg__raw_entry frames[] = {{1, 0, TG_STR("train.py(10): main")}, {2, 1, TG_STR("model.py(5): forward")}};
  const struct tg__raw_entry threads[] = {{0, 0, TG_STR("main")}};
  const struct tg__raw_entry meta[] = {{0, 0, TG_STR("distributedInfo\0{\"rank\": 3, \"world_size\": 8}")}};
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 3);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_META, meta, 1);
  raw_dictionary(f, 0, TG_RAW_D_SHAPE, shapes, 1);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_STACK, frames, 2);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_THREAD, threads, 1);
  const struct tg__raw_record first[] = {
      {.start_ticks = 1200,
       .dur_ticks = 100,
       .name = 1,
       .shape = 1,
       .stack = 2,
       .seq = 8,
       .depth = 1,
       .scope = TG_RAW_OP,
       .flags = VALID},
      {.start_ticks = 1250,
       .dur_ticks = (uint32_t)-512,
       .shape = 0x12345678,
       .stack = 0x7f00,
       .seq = UINT32_MAX,
       .scope = TG_RAW_MEMORY,
       .flags = VALID},
      {.start_ticks = 1100, .dur_ticks = 400, .name = 3, .scope = TG_RAW_STEP, .flags = VALID},
      {.start_ticks = 2000, .dur_ticks = 0x100, .name = 2, .scope = TG_RAW_OP, .flags = VALID | TG_RAW_F_LONG},
      {.start_ticks = 0x100000100, .scope = TG_RAW_EXTENSION, .flags = VALID},
  };
  const struct tg__raw_record second[] = {
      {.start_ticks = 3000, .dur_ticks = 10, .name = 9, .scope = TG_RAW_OP, .flags = VALID},
      {.start_ticks = 3100,
       .dur_ticks = 20,
       .name = 2,
       .seq = 8,
       .stack = 100,
       .scope = TG_RAW_BACKWARD,
       .flags = VALID},
      {.start_ticks = 3200, .dur_ticks = 20, .name = 2, .scope = TG_RAW_OP, .flags = 0},
      {.start_ticks = 3300, .dur_ticks = 20, .name = 2, .scope = TG_RAW_OP, .flags = VALID},
  };
  raw_records(f, 0, 8, first, 5, true);
  return raw_records(f, 1, 6, second, 4, false);
}

/* One of everything: a process, inputs of most kinds, modules, frames, memory on a device, a counter, a mark, a
 * forward thread. */
static inline void raw_file_make_full(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const uint64_t clock[4] = {1000, 1000000, 3000, 1002000};
  static const struct tg__raw_process process = {
      .session = 5, .process = 4242, .parent = 1, .features = 8, .start_ns = 1000000, .stop_ns = 1003000};
  static const struct tg__raw_entry names[] = {
      {1, 0, TG_STR("aten::mm\0out")}, {2, 0, TG_STR("Mm0")}, {3, 0, TG_STR("rss")}, {4, 0, TG_STR("len")}};
  static const struct tg__raw_entry shapes[] = {
      {1, 0,
       TG_STR("\3\2\0\1\6\1\0\2\0\0\0\0\0\0\0\2\7\2\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\6\1\12\2\0ab\15\1\0k\16\2\0\1\0p"
              "\1\0q")},
      {2, 0, TG_STR("\5\0\0\0\0\0\0\370\77\11\3\0\1\0\1\14\17\0\13\15\3\0num\4\7\0\0\0\0\0\0\0")}};
  static const struct tg__raw_entry frames[] = {{1, 0, TG_STR("a.py(3): f\0002\0/x/")}, {2, 1, TG_STR("b.py(5): g")}};
  static const struct tg__raw_entry modules[] = {{2, 4, TG_STR("Linear\0fc.0")}};
  raw_begin(f);
  raw_process(f, &process);
  raw_clock(f, clock, 2);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 4);
  raw_dictionary(f, 0, TG_RAW_D_SHAPE, shapes, 2);
  raw_dictionary(f, 0, TG_RAW_D_STACK, frames, 2);
  raw_dictionary(f, 0, TG_RAW_D_MODULE, modules, 1);
  const struct tg__raw_record main_thread[] = {
      {.start_ticks = 1010, .dur_ticks = 5, .name = 1, .shape = 1, .stack = 2, .seq = 4, .depth = 1, .flags = VALID},
      {.start_ticks = 1020, .dur_ticks = 256, .shape = 1, .depth = 0x100, .scope = TG_RAW_MEMORY, .flags = VALID},
      {.start_ticks = 1030,
       .dur_ticks = (uint32_t)-256,
       .seq = UINT32_MAX,
       .shape = 1,
       .depth = 0x100,
       .scope = TG_RAW_MEMORY,
       .flags = VALID},
      {.start_ticks = 1040, .dur_ticks = 9, .scope = TG_RAW_OUT_OF_MEMORY, .flags = VALID},
      {.start_ticks = 1050, .name = 3, .shape = 70, .scope = TG_RAW_COUNTER, .flags = VALID},
      {.start_ticks = 1060, .name = 4, .scope = TG_RAW_MARK, .flags = VALID},
      {.start_ticks = 1070, .dur_ticks = 3, .name = 4, .stack = 2, .scope = TG_RAW_PYTHON_C_CALL, .flags = VALID},
      {.start_ticks = 1065, .dur_ticks = 20, .stack = 2, .scope = TG_RAW_PYTHON_CALL, .flags = VALID},
      {.start_ticks = 1005, .dur_ticks = 90, .name = 1, .shape = 2, .stack = 2, .flags = VALID | TG_RAW_F_ASYNC},
      {.start_ticks = 1001, .dur_ticks = 99, .stack = 1, .scope = TG_RAW_PYTHON_CALL, .flags = VALID | TG_RAW_F_CUT},
      {.start_ticks = 1200, .dur_ticks = 10, .name = 4, .seq = 3, .scope = TG_RAW_GC, .flags = VALID},
  };
  const struct tg__raw_record autograd[] = {{.start_ticks = 1300,
                                             .dur_ticks = 10,
                                             .name = 2,
                                             .seq = 4,
                                             .stack = 1,
                                             .scope = TG_RAW_BACKWARD,
                                             .flags = VALID}};
  f->logical = 1;
  raw_records(f, 0, 12, main_thread, 11, true);
  f->logical = 2;
  raw_records(f, 1, 2, autograd, 1, false);
}

struct raw_fields { /* of a LAUNCH, DEVICE or GRAPH_NODE entry */
  uint8_t bytes[384];
  uint32_t len;
};
static inline void raw_field(struct raw_fields *x, enum tg__launch_field field, int64_t value) {
  if (x->len + TG_LAUNCH_FIELD_BYTES > sizeof x->bytes) abort();
  x->bytes[x->len] = (uint8_t)field;
  tg__set64(x->bytes + x->len + 1, (uint64_t)value);
  x->len += TG_LAUNCH_FIELD_BYTES;
}
static inline void raw_fields_entry(struct raw_file *f, uint32_t kind, uint32_t id, uint32_t parent,
                                    const struct raw_fields *x) {
  const struct tg__raw_entry entry = {id, parent, {(const char *)x->bytes, x->len}};
  raw_dictionary(f, 0, kind, &entry, 1);
}

/* What a device did: a kernel of a graph whose node was captured and cloned, one whose node is a clone of itself, a
 * copy, a wait, the call that launched. */
static inline void raw_file_make_device(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const uint64_t clock[4] = {1000, 1000000, 3000, 1002000};
  static const struct tg__raw_process process = {
      .session = 5, .process = 4242, .parent = 1, .features = 8, .start_ns = 1000000, .stop_ns = 1003000};
  static const struct tg__raw_entry names[] = {
      {1, 0, TG_STR("aten::mm")}, {2, 0, TG_STR("gemm")}, {3, 0, TG_STR("cudaGraphLaunch")}};
  static const struct tg__raw_entry frames[] = {{1, 0, TG_STR("a.py(3): f")}};
  static const int64_t nodes[][2] = {{21, 11}, {60, 60}};
  struct raw_fields device = {.len = 0}, captured = {.len = 0}, wait = {.len = 0};
  raw_begin(f);
  raw_process(f, &process);
  raw_clock(f, clock, 2);
  raw_dictionary(f, 0, TG_RAW_D_NAME, names, 3);
  raw_dictionary(f, 0, TG_RAW_D_STACK, frames, 1);
  raw_field(&device, TG_LAUNCH_DEVICE, 0);
  raw_field(&device, TG_LAUNCH_MULTIPROCESSORS, 132);
  raw_field(&device, TG_LAUNCH_WARP, 32);
  raw_fields_entry(f, TG_RAW_D_DEVICE, 1, 0, &device);
  raw_field(&captured, TG_LAUNCH_GRAPH_NODE, 11);
  raw_field(&captured, TG_LAUNCH_OPERATOR, 1);
  raw_fields_entry(f, TG_RAW_D_GRAPH_NODE, 1, 1, &captured);
  for (uint32_t i = 0; i < 2; i++) {
    struct raw_fields clone = {.len = 0}, launch = {.len = 0};
    raw_field(&clone, TG_LAUNCH_GRAPH_NODE, nodes[i][0]);
    raw_field(&clone, TG_LAUNCH_CLONED_FROM, nodes[i][1]);
    raw_fields_entry(f, TG_RAW_D_GRAPH_NODE, i + 2, 0, &clone);
    raw_field(&launch, TG_LAUNCH_DEVICE, 0);
    raw_field(&launch, TG_LAUNCH_STREAM, 7);
    raw_field(&launch, TG_LAUNCH_GRID_X, 4);
    raw_field(&launch, TG_LAUNCH_GRAPH, 2);
    raw_field(&launch, TG_LAUNCH_GRAPH_NODE, nodes[i][0]);
    raw_fields_entry(f, TG_RAW_D_LAUNCH, i + 1, 0, &launch);
  }
  raw_field(&wait, TG_LAUNCH_DEVICE, 0);
  raw_field(&wait, TG_LAUNCH_SYNC_KIND, 3);
  raw_field(&wait, TG_LAUNCH_STREAM, 7);
  raw_fields_entry(f, TG_RAW_D_LAUNCH, 3, 0, &wait);
  const struct tg__raw_record records[] = {
      {.start_ticks = 1100,
       .dur_ticks = 50,
       .name = 3,
       .stack = 9,
       .seq = 100,
       .scope = TG_RAW_RUNTIME_CALL,
       .flags = VALID},
      {.start_ticks = 1200, .dur_ticks = 50, .name = 2, .shape = 1, .stack = 9, .scope = TG_RAW_KERNEL, .flags = VALID},
      {.start_ticks = 1300, .dur_ticks = 50, .name = 2, .shape = 2, .stack = 9, .scope = TG_RAW_KERNEL, .flags = VALID},
      {.start_ticks = 1400,
       .dur_ticks = 50,
       .name = 2,
       .shape = 1,
       .stack = 9,
       .seq = 64,
       .scope = TG_RAW_COPY,
       .flags = VALID},
      {.start_ticks = 1500,
       .dur_ticks = 50,
       .name = 2,
       .shape = 3,
       .stack = 9,
       .scope = TG_RAW_DEVICE_SYNC,
       .flags = VALID},
  };
  raw_records(f, 0, 8, records, 5, true);
}

/* Memory of a device's driver: an allocation whose address has its own extension, one whose address is torn off, one of
 * an entry that is not there, a pool that was trimmed, and an entry with the fields of everything that devices do, on a
 * device whose limits are known, of a node that was captured. */
static inline void raw_file_make_driver_memory(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const struct tg__raw_process process = {
      .session = 5, .process = 4242, .rank = -1, .start_ns = 1, .stop_ns = 9000};
  static const struct tg__raw_entry names[] = {{1, 0, TG_STR("allocated")}, {2, 0, TG_STR("trimmed")}};
  static const struct tg__raw_entry frames[] = {{1, 0, TG_STR("a.py(3): f")}};
  struct raw_fields memory = {.len = 0}, pool = {.len = 0}, all = {.len = 0}, device = {.len = 0}, node = {.len = 0};
  raw_begin(f);
  raw_process(f, &process);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 2);
  raw_field(&memory, TG_LAUNCH_DEVICE, 1);
  raw_field(&memory, TG_LAUNCH_CONTEXT, 3);
  raw_field(&memory, TG_LAUNCH_IS_ASYNC, 1);
  raw_field(&memory, TG_LAUNCH_STREAM, 7);
  raw_field(&memory, TG_LAUNCH_POOL_TYPE, 1);
  raw_field(&memory, TG_LAUNCH_POOL_ADDRESS, -1);
  raw_field(&memory, TG_LAUNCH_POOL_BYTES, 1 << 20);
  raw_fields_entry(f, TG_RAW_D_LAUNCH, 1, 0, &memory);
  raw_field(&pool, TG_LAUNCH_DEVICE, 1);
  raw_field(&pool, TG_LAUNCH_POOL_TYPE, 3);
  raw_field(&pool, TG_LAUNCH_POOL_LEAST, 4096);
  raw_fields_entry(f, TG_RAW_D_LAUNCH, 2, 0, &pool);
  for (unsigned i = TG_LAUNCH_DEVICE; i <= TG_LAUNCH_POOL_PROCESS; i++) raw_field(&all, (enum tg__launch_field)i, 1);
  raw_field(&all, TG_LAUNCH_NAME, 0);
  raw_field(&all, TG_LAUNCH_NAME, TG_LAUNCH_FIELD_BYTES);
  raw_field(&all, TG_LAUNCH_DEVICE, 1); /* read as the name */
  raw_fields_entry(f, TG_RAW_D_LAUNCH, 3, 0, &all);
  raw_field(&device, TG_LAUNCH_DEVICE, 1);
  for (unsigned i = TG_LAUNCH_MEMORY_BYTES; i <= TG_LAUNCH_BLOCK_OPTIN; i++)
    raw_field(&device, (enum tg__launch_field)i, 2048);
  raw_field(&device, TG_LAUNCH_WARP, 32);
  raw_fields_entry(f, TG_RAW_D_DEVICE, 2, 0, &device);
  raw_dictionary(f, 0, TG_RAW_D_STACK, frames, 1);
  raw_field(&node, TG_LAUNCH_GRAPH_NODE, 1);
  raw_field(&node, TG_LAUNCH_OPERATOR, 1);
  raw_fields_entry(f, TG_RAW_D_GRAPH_NODE, 1, 1, &node);
  const struct tg__raw_record records[] = {
      {.start_ticks = 1000,
       .dur_ticks = 0x2000,
       .name = 1,
       .shape = 1,
       .stack = 9,
       .seq = 512,
       .depth = 1,
       .scope = TG_RAW_DEVICE_MEMORY,
       .flags = VALID | TG_RAW_F_LONG},
      {.start_ticks = 0x7f0000002000, .scope = TG_RAW_EXTENSION, .flags = VALID},
      {.start_ticks = 1100,
       .dur_ticks = 0x4000,
       .name = 1,
       .shape = 1,
       .scope = TG_RAW_DEVICE_MEMORY,
       .flags = VALID | TG_RAW_F_LONG},
      {.start_ticks = 1200, .name = 1, .shape = 9, .scope = TG_RAW_DEVICE_MEMORY, .flags = VALID},
      {.start_ticks = 1300, .dur_ticks = 64, .name = 2, .shape = 2, .scope = TG_RAW_DEVICE_POOL, .flags = VALID},
      {.start_ticks = 1400, .dur_ticks = 96, .name = 1, .shape = 3, .scope = TG_RAW_DEVICE_MEMORY, .flags = VALID},
  };
  raw_records(f, 0, 8, records, 6, true);
}

/* Operators with contexts of all kinds, one that is missing and two that cannot be read, and a numbered call. */
static inline void raw_file_make_contexts(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const struct tg__raw_process process = {
      .session = 5, .process = 4242, .rank = -1, .start_ns = 1, .stop_ns = 9000};
  static const struct tg__raw_entry names[] = {{1, 0, TG_STR("aten::mm")}, {2, 0, TG_STR("Mm0")}};
  static const struct tg__raw_entry frames[] = {{1, 0, TG_STR("train.py(10): main")}};
  static const struct tg__raw_entry contexts[] = {{1, 1, TG_STR("TOP(Net)::forward.fc(Linear)::forward.")},
                                                  {2, 1, TG_STR("12")},
                                                  {3, 77, TG_STR("TOP()::f.")},
                                                  {4, 0, TG_STR("1x")},
                                                  {5, 0, TG_STR("")}};
  static const struct tg__raw_record records[] = {
      {.start_ticks = 1000, .dur_ticks = 9, .name = 1, .stack = TG_RAW_CONTEXT_ENTRY | 1, .flags = VALID},
      {.start_ticks = 1010,
       .dur_ticks = 9,
       .name = 2,
       .seq = 3,
       .stack = TG_RAW_CONTEXT_ENTRY | 2,
       .scope = TG_RAW_BACKWARD,
       .flags = VALID | TG_RAW_F_LONG},
      {.start_ticks = 9, .stack = 1, .seq = 4711, .scope = TG_RAW_EXTENSION, .flags = VALID},
      {.start_ticks = 1020,
       .dur_ticks = 9,
       .name = 1,
       .stack = TG_RAW_CONTEXT_ENTRY | 3,
       .scope = TG_RAW_SCRIPT,
       .flags = VALID},
      {.start_ticks = 1030, .dur_ticks = 9, .name = 1, .stack = TG_RAW_CONTEXT_ENTRY | 9, .flags = VALID},
      {.start_ticks = 1040, .dur_ticks = 9, .name = 1, .flags = VALID | TG_RAW_F_LONG},
  };
  raw_begin(f);
  raw_process(f, &process);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 2);
  raw_dictionary(f, 0, TG_RAW_D_STACK, frames, 1);
  raw_dictionary(f, 0, TG_RAW_D_CONTEXT, contexts, 5);
  raw_records(f, 0, 6, records, 6, true);
}

/* Ranges and a mark of NVTX: a payload over INT64_MAX, fields that no reader knows, an entry that is cut off, and one
 * that is not there. */
static inline void raw_file_make_labels(struct raw_file *f) {
  enum { VALID = TG_RAW_F_VALID };
  static const struct tg__raw_process process = {
      .session = 5, .process = 4242, .rank = -1, .start_ns = 1, .stop_ns = 9000};
  static const struct tg__raw_entry names[] = {
      {1, 0, TG_STR("whole")}, {2, 0, TG_STR("strange")}, {3, 0, TG_STR("cut")}};
  static const struct tg__raw_entry labels[] = {
      {1, 0,
       TG_STR("\200\1\0\0\0\0\0\0\0d\201\2\0\0\0\0\0\0\0cc\1\3\0\0\0\0\0\0\0\2\4\3\2\1\0\0\0\0\3\1\0\0\0\0\0\0"
              "\0")},
      {2, 0, TG_STR("\11\7\0\0\0\0\0\0\0\310\2\0\0\0\0\0\0\0zz\1\5\0\0\0\0\0\0\0\3\11\0\0\0\0\0\0\0")},
      {3, 0, TG_STR("\200\377\0\0\0\0\0\0\0d")},
  };
  static const struct tg__raw_record records[] = {
      {.start_ticks = 1000,
       .dur_ticks = 9,
       .name = 1,
       .shape = 1,
       .stack = 7,
       .seq = UINT32_MAX,
       .scope = TG_RAW_NVTX_RANGE,
       .flags = VALID},
      {.start_ticks = 1010, .name = 1, .shape = 1, .stack = 7, .scope = TG_RAW_NVTX_MARK, .flags = VALID},
      {.start_ticks = 1020, .dur_ticks = 9, .name = 2, .shape = 2, .scope = TG_RAW_NVTX_RANGE, .flags = VALID},
      {.start_ticks = 1030, .dur_ticks = 9, .name = 3, .shape = 3, .scope = TG_RAW_NVTX_RANGE, .flags = VALID},
      {.start_ticks = 1040, .dur_ticks = 9, .name = 3, .shape = 4, .scope = TG_RAW_NVTX_RANGE, .flags = VALID},
  };
  raw_begin(f);
  raw_process(f, &process);
  raw_dictionary(f, TG_RAW_EVERY_THREAD, TG_RAW_D_NAME, names, 3);
  raw_dictionary(f, 0, TG_RAW_D_LABEL, labels, 3);
  raw_records(f, 0, 5, records, 5, true);
}

#endif
