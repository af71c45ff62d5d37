/* Writes a recording of N operators, as a training loop on two threads would leave it: for the benchmarks of opening
 * recordings. raw_make FILE N [shapes] [stacks] [memory]. Build it like a unit test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

enum { CHUNK_RECORDS = 8191, NAMES = 200, SHAPES = 3000, FRAMES = 2000, FORWARD = 12, THREADS = 2 };

struct maker {
  FILE *out;
  uint64_t ticks;
  uint32_t seq;
  bool shapes, stacks, memory;
  struct {
    struct tg__raw_record records[CHUNK_RECORDS];
    uint32_t count, logical;
  } threads[THREADS];
};

static void put(struct maker *m, const void *bytes, size_t len) {
  if (fwrite(bytes, 1, len, m->out) != len) {
    perror("raw_make");
    exit(1);
  }
}

static void put_chunk(struct maker *m, uint16_t type, uint32_t part, uint32_t flags, const void *payload, size_t len) {
  static const char zeros[8];
  uint8_t head[TG_CHUNK_HEAD_BYTES];
  tg__chunk_head_write(head, type, part, flags, len, flags ? 0 : tg__checksum(payload, len));
  put(m, head, sizeof head);
  put(m, payload, len);
  put(m, zeros, (0 - len) & 7);
}

static void seal(struct maker *m, uint32_t thread) {
  const uint32_t count = m->threads[thread].count;
  const size_t bytes = CHUNK_RECORDS * (size_t)TG_RAW_RECORD_BYTES;
  uint8_t *const payload = calloc(1, TG_RAW_HEAD_BYTES + bytes);
  if (!payload) exit(1);
  memcpy(payload + TG_RAW_HEAD_BYTES, m->threads[thread].records, count * (size_t)TG_RAW_RECORD_BYTES);
  const struct tg__raw_head head = {.capacity = CHUNK_RECORDS,
                                    .sealed = count + 1,
                                    .checksum =
                                        tg__checksum(payload + TG_RAW_HEAD_BYTES, count * (size_t)TG_RAW_RECORD_BYTES),
                                    .process = 4242,
                                    .thread = 4242 + thread,
                                    .logical = thread + 1};
  tg__raw_head_write(payload, &head);
  put_chunk(m, TG_CHUNK_RAW_RECORDS, thread, TG_CHUNK_IN_PLACE, payload, TG_RAW_HEAD_BYTES + bytes);
  free(payload);
  m->threads[thread].count = 0;
}

static void add(struct maker *m, uint32_t thread, struct tg__raw_record r) {
  r.flags = TG_RAW_F_VALID;
  m->threads[thread].records[m->threads[thread].count++] = r;
  if (m->threads[thread].count == CHUNK_RECORDS) seal(m, thread);
}

static void put_dictionary(struct maker *m, uint32_t kind, uint32_t count,
                           void (*entry)(struct tg__out *text, uint32_t id, uint32_t *parent)) {
  struct tg__out o = {0};
  tg__out_put32(&o, kind);
  tg__out_put32(&o, 0);
  for (uint32_t id = 1; id <= count; id++) {
    struct tg__out text = {0};
    uint32_t parent = 0;
    entry(&text, id, &parent);
    tg__raw_entry_put(&o, &(struct tg__raw_entry){id, parent, {text.buf, (uint32_t)text.len}});
    tg__out_free(&text);
  }
  put_chunk(m, TG_CHUNK_RAW_DICTIONARY, TG_RAW_EVERY_THREAD, 0, o.buf, o.len);
  tg__out_free(&o);
}

static void put_name(struct tg__out *o, uint32_t id, uint32_t *parent) {
  (void)parent;
  tg__out_format(o, id == NAMES ? "ProfilerStep#1" : "aten::operator_%u", id);
}

static void put_tensor(struct tg__out *o, uint64_t rows, uint64_t columns) {
  tg__out_put8(o, TG_INPUT_TENSOR);
  tg__out_put8(o, 6);
  tg__out_put8(o, 2);
  tg__out_put8(o, 1);
  const uint64_t numbers[4] = {rows, columns, columns, 1};
  for (int i = 0; i < 4; i++) tg__out_put64(o, numbers[i]);
}

static void put_shape(struct tg__out *o, uint32_t id, uint32_t *parent) {
  (void)parent;
  put_tensor(o, id, 64);
  put_tensor(o, 64, id);
  tg__out_put8(o, TG_INPUT_INT);
  tg__out_put64(o, 1);
}

static void put_frame(struct tg__out *o, uint32_t id, uint32_t *parent) {
  *parent = id / 2;
  tg__out_format(o, "package/module_%u.py(%u): forward_%u", id % 40, 100 + id, id % 17);
}

/* One operator around `inner` others; two allocations in each innermost one. */
static void add_op(struct maker *m, uint32_t thread, unsigned kind, unsigned depth, bool backward) {
  struct tg__raw_record r = {.start_ticks = m->ticks, .name = 1 + kind % (NAMES - 1), .depth = (uint16_t)depth};
  m->ticks += 300;
  if (depth < 3) {
    add_op(m, thread, kind * 7 + 3, depth + 1, false);
    if (depth == 1) add_op(m, thread, kind * 5 + 1, depth + 1, false);
  } else if (m->memory) {
    add(m, thread,
        (struct tg__raw_record){
            .start_ticks = m->ticks, .dur_ticks = 512, .shape = kind * 64, .stack = 1, .scope = TG_RAW_MEMORY});
    add(m, thread,
        (struct tg__raw_record){.start_ticks = m->ticks + 90,
                                .dur_ticks = (uint32_t)-512,
                                .seq = UINT32_MAX,
                                .shape = kind * 64,
                                .stack = 1,
                                .scope = TG_RAW_MEMORY});
  }
  m->ticks += 700;
  r.dur_ticks = (uint32_t)(m->ticks - r.start_ticks);
  m->ticks += 200;
  if (m->shapes) r.shape = 1 + kind * 31 % SHAPES;
  if (backward) {
    r.scope = TG_RAW_BACKWARD;
    r.seq = m->seq--;
    r.stack = 1;
  } else {
    if (thread == 0 && depth < 3) r.seq = m->seq + 1;
    if (m->stacks) r.stack = FRAMES / 2 + kind * 13 % (FRAMES / 2);
  }
  add(m, thread, r);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  struct maker *const m = calloc(1, sizeof *m);
  if (!m || !(m->out = fopen(argv[1], "wb"))) return 1;
  const unsigned long wanted = strtoul(argv[2], NULL, 10);
  for (int i = 3; i < argc; i++) {
    m->shapes |= strcmp(argv[i], "shapes") == 0;
    m->stacks |= strcmp(argv[i], "stacks") == 0;
    m->memory |= strcmp(argv[i], "memory") == 0;
  }
  uint8_t greeting[TG_GREETING_BYTES], clock[16 * 64];
  tg__greeting_write(greeting);
  put(m, greeting, sizeof greeting);
  for (uint64_t i = 0; i < 64; i++) { /* 3 GHz, a pair every 100 ms, each a little off */
    tg__set64(clock + 16 * i, 1000000 + i * 300000000);
    tg__set64(clock + 16 * i + 8, UINT64_C(1790000000000000000) + i * 100000000 + i % 7);
  }
  put_chunk(m, TG_CHUNK_RAW_CLOCK, 0, 0, clock, sizeof clock);
  put_dictionary(m, TG_RAW_D_NAME, NAMES, put_name);
  put_dictionary(m, TG_RAW_D_SHAPE, SHAPES, put_shape);
  put_dictionary(m, TG_RAW_D_STACK, FRAMES, put_frame);
  m->ticks = 1000000;
  const unsigned per_step = 2 * FORWARD * 5 + 1;
  for (unsigned long step = 0; step * per_step < wanted; step++) {
    const uint64_t begin = m->ticks;
    for (unsigned i = 0; i < FORWARD; i++, m->seq++) add_op(m, 0, i * 11, 1, false);
    for (unsigned i = 0; i < FORWARD; i++) add_op(m, 1, 100 + i, 1, true);
    m->seq += FORWARD;
    add(m, 0,
        (struct tg__raw_record){
            .start_ticks = begin, .dur_ticks = (uint32_t)(m->ticks - begin), .name = NAMES, .scope = TG_RAW_STEP});
    m->ticks += 1000;
  }
  for (uint32_t thread = 0; thread < THREADS; thread++) seal(m, thread);
  if (fclose(m->out)) return 1;
  free(m);
  return 0;
}
