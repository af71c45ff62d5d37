/* Parts of the recorder one by one: readable memory, budgeted pages, texts and their numbers, long durations at the
 * ends of chunks. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "capture/capture.h"
#include "capture/elf_slots.h"
#include "unit/recording.h"

static void test_can_read(void **state) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *const p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
  assert_true(tg__capture_can_read(p, page));
  assert_true(tg__capture_can_read(p + page - 1, 1));
  assert_true(tg__capture_can_read(p + 2 * page, page));
  assert_false(tg__capture_can_read(p + page - 1, 2));
  assert_false(tg__capture_can_read(p + page, 1));
  assert_false(tg__capture_can_read(p, 3 * page)); /* both ends can be read */
  assert_false(tg__capture_can_read(NULL, 1));
  assert_false(tg__capture_can_read((void *)(uintptr_t)0x10, 8));
  assert_false(tg__capture_can_read((void *)UINTPTR_MAX, 8));
  assert_false(tg__capture_can_read((void *)(uintptr_t)0x8000000000000000, 8)); /* no address of a program */
  assert_true(tg__capture_can_read(test_can_read, 1));
  munmap(p, 3 * page);
}

/* In memory's own words: may this address be written? */
static bool is_writable(const void *p) {
  FILE *const maps = fopen("/proc/self/maps", "r");
  char line[4352], how[5] = "";
  unsigned long from, to;
  bool writable = false;
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %4s", &from, &to, how) == 3 && (uintptr_t)p >= from && (uintptr_t)p < to)
      writable = how[1] == 'w';
  if (maps) fclose(maps);
  return writable;
}

/* A table of the program's own, which the loader fills as well: no call goes through it. */
static void *(*volatile allocators[])(size_t, size_t) = {calloc};

static void test_slots(void **state) {
  enum { MOST = 4096 };
  static struct tg__elf_slot all[MOST], some[3];
  const size_t count = tg__elf_slots_find("calloc", all, MOST);
  assert_in_range(count, 2, MOST); /* the loader's libraries all allocate */
  for (size_t i = 0; i < count; i++) {
    assert_ptr_not_equal((void *)all[i].at, (void *)&allocators[0]);
    assert_int_equal(all[i].read_only, !is_writable((void *)all[i].at));
  }
  memset(some, 0xee, sizeof some);
  assert_int_equal(tg__elf_slots_find("calloc", some, 1), count); /* what has no room is counted */
  assert_ptr_equal((void *)some[0].at, (void *)all[0].at);
  for (size_t i = sizeof *some; i < sizeof some; i++) assert_int_equal(((uint8_t *)some)[i], 0xee);
  assert_int_equal(tg__elf_slots_find("no library calls a function of this name", all, MOST), 0);
  void *const before = *some[0].at;
  assert_true(tg__elf_slot_set(&some[0], before)); /* and the page is as it was */
  assert_ptr_equal(*some[0].at, before);
  assert_int_equal(some[0].read_only, !is_writable((void *)some[0].at));
  free(allocators[0](1, 1));
}

static void test_pages_are_counted_and_zeroed(void **state) {
  struct tg_record_stats before, now;
  struct tg_error e;
  const struct tg_record_options options = {.path = recording_path, .memory_bytes = 8 << 20, .rank = -1};
  assert_int_equal(tg_record_open(&options, &e), TG_OK);
  tg_record_state(&before);
  uint8_t *const p = tg__capture_pages(1 << 20);
  assert_non_null(p);
  assert_true(p[0] == 0 && p[(1 << 20) - 1] == 0);
  tg_record_state(&now);
  assert_int_equal(now.memory_bytes - before.memory_bytes, 1 << 20);
  assert_null(tg__capture_pages(8 << 20));
  assert_null(tg__capture_pages(SIZE_MAX));
  assert_null(tg__capture_pages(0));
  tg__capture_pages_drop(p, 1 << 20);
  tg__capture_pages_drop(NULL, 1 << 20);
  tg_record_state(&now);
  assert_int_equal(now.memory_bytes, before.memory_bytes);
  assert_true(now.peak_memory_bytes >= before.memory_bytes + (1 << 20));
  recording_close();
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void test_clock(void **state) {
  uint64_t ticks[2];
  int64_t wall[2], at[4];
  const struct timespec ms = {.tv_nsec = 20000000};
  recording_start((struct tg_record_options){.rank = -1});
  at[0] = now_ns();
  tg__clock_pair(&ticks[0], &wall[0]);
  at[1] = now_ns();
  nanosleep(&ms, NULL);
  at[2] = now_ns();
  tg__clock_pair(&ticks[1], &wall[1]);
  at[3] = now_ns();
  assert_true(ticks[1] > ticks[0]);
  assert_true(wall[0] >= at[0] && wall[0] <= at[1] && wall[1] >= at[2] && wall[1] <= at[3]);
  recording_close();
}

/* Numbers begin with 1 and go up by one per dictionary; the same text under another parent is another entry. */
static void test_numbers_of_texts(void **state) {
  enum { TEXTS = 20000 };
  char text[32];
  recording_start((struct tg_record_options){.rank = -1});
  struct tg__thread *const t = tg__thread();
  assert_non_null(t);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < TEXTS; i++) {
      snprintf(text, sizeof text, "text %d", i);
      assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, text, strlen(text)), i + 1);
    }
  }
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_STACK, 0, "frame", 5), 1);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_STACK, 1, "frame", 5), 2);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_STACK, 2, "frame", 5), 3);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_STACK, 1, "frame", 5), 2);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_STACK, 1, "fram", 4), 4);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, "text 7", 6), 8);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, "", 0), TEXTS + 1);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, "a\0b", 3), TEXTS + 2);
  assert_int_equal(tg__dictionary_intern(t, TG_RAW_D_SHAPE, 0, "a\0c", 3), TEXTS + 3);
  recording_close();
}

static bool read_bytes(void *file, uint64_t offset, void *to, size_t len) {
  return fseek(file, (long)offset, SEEK_SET) == 0 && fread(to, 1, len, file) == len;
}

/* Every third record is longer than 32 bits of ticks, so that one falls on each side of the end of a chunk. */
static uint64_t duration(uint64_t i) { return i % 3 ? i : ((uint64_t)1 << 32) + i; }

enum { LONG_RECORDS = 50000 };
static bool met[LONG_RECORDS];

/* Chunks lie in the file as there was room; within one the records follow each other. */
static uint64_t check_chunk(const struct tg__chunk *c, const uint8_t *payload) {
  struct tg__raw_chunk chunk;
  struct tg__raw_record r;
  uint64_t dur, first = 0, count = 0;
  bool torn;
  assert_int_equal(tg__raw_chunk_read(c, payload, &chunk), TG_OK); /* among it: the checksum */
  assert_false(chunk.is_open);
  for (uint32_t i = 0; tg__raw_next(&chunk, &i, &r, &dur, &torn); count++) {
    assert_false(torn);
    if (count == 0) first = r.start_ticks - 1000;
    const uint64_t number = r.start_ticks - 1000;
    assert_int_equal(number, first + count);
    assert_true(number < LONG_RECORDS && !met[number]);
    met[number] = true;
    assert_true(dur == duration(number));
    assert_int_equal(r.flags & TG_RAW_F_LONG, number % 3 ? 0 : TG_RAW_F_LONG);
  }
  return count;
}

static void test_long_durations(void **state) {
  struct stat st;
  struct tg__walk w;
  struct tg__chunk c;
  uint64_t seen = 0, chunks = 0;
  recording_start((struct tg_record_options){.rank = -1});
  struct tg__thread *const t = tg__thread();
  for (uint64_t i = 0; i < LONG_RECORDS; i++) {
    const struct tg__open o = {.start_ticks = 1000 + i, .scope = TG_RAW_OP};
    tg__record_put(t, &o, 1000 + i + duration(i), 0);
  }
  assert_int_equal(recording_close().records, LONG_RECORDS); /* extensions are no records */
  FILE *const f = fopen(recording_path, "rb");
  assert_int_equal(fstat(fileno(f), &st), 0);
  const struct tg__reader reader = {.read = read_bytes, .ctx = f, .len = (uint64_t)st.st_size};
  for (tg__walk_begin(&w, &reader); tg__walk_next(&w, &c);) {
    uint8_t *const payload = malloc(c.length);
    assert_true(read_bytes(f, c.offset + TG_CHUNK_HEAD_BYTES, payload, c.length));
    assert_true(tg__chunk_is_intact(&c, payload));
    if (c.type == TG_CHUNK_RAW_RECORDS) seen += check_chunk(&c, payload), chunks++;
    free(payload);
  }
  assert_int_equal(w.gaps, 0);
  assert_int_equal(seen, LONG_RECORDS);
  assert_in_range(
      chunks, 3, 12); /* 2.1 MB: the chunks of a thread that goes on double from 64 kB up to 1 MB; 34 of the smallest */
  fclose(f);
}

/* A thread's number in the framework is in the heads of all its chunks, also of one that was begun before it was known.
 */
static void test_logical(void **state) {
  struct tg_error e;
  struct tg__columns *t;
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("before");
  tg_range_end();
  tg__thread_logical(tg__thread(), 7);
  assert_int_equal(tg__thread()->logical, 7);
  recording_close();
  FILE *const f = fopen(recording_path, "rb");
  struct stat st;
  struct tg__walk w;
  struct tg__chunk c;
  assert_int_equal(fstat(fileno(f), &st), 0);
  const struct tg__reader reader = {.read = read_bytes, .ctx = f, .len = (uint64_t)st.st_size};
  size_t chunks = 0;
  for (tg__walk_begin(&w, &reader); tg__walk_next(&w, &c);) {
    uint8_t head[TG_RAW_HEAD_BYTES];
    if (c.type != TG_CHUNK_RAW_RECORDS) continue;
    assert_true(read_bytes(f, c.offset + TG_CHUNK_HEAD_BYTES, head, sizeof head));
    assert_int_equal(tg__get32(head + 28), 7);
    chunks++;
  }
  assert_int_equal(chunks, 1);
  fclose(f);
  assert_int_equal(tg__trace_open(recording_path, NULL, &t, &e), TG_OK);
  tg__trace_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slots),
      cmocka_unit_test_setup_teardown(test_can_read, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_pages_are_counted_and_zeroed, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_clock, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_numbers_of_texts, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_long_durations, recording_setup, recording_teardown),
      cmocka_unit_test_setup_teardown(test_logical, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
