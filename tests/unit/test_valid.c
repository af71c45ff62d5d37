/* The invariants of strings, tables and chunks, as code: what holds is accepted, and each that is broken is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"
#include "format/format.h"

static struct tg_error e;

#define ACCEPTED(call)                                                                                                 \
  do {                                                                                                                 \
    if (!(call)) fail_msg("%s", e.text);                                                                               \
  } while (0)
#define REFUSED(call, words)                                                                                           \
  do {                                                                                                                 \
    e = (struct tg_error){0};                                                                                          \
    assert_false(call);                                                                                                \
    assert_int_equal(e.code, TG_INTERNAL);                                                                             \
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);                                     \
  } while (0)
/* Break one field, look, put it back. */
#define BROKEN(field, value, call, words)                                                                              \
  do {                                                                                                                 \
    const __typeof__(field) before = (field);                                                                          \
    (field) = (value);                                                                                                 \
    REFUSED(call, words);                                                                                              \
    (field) = before;                                                                                                  \
  } while (0)

/* ---- strings --------------------------------------------------------------------------------- */

/* How struct tg__strings begins; its ids 0 to 63 lie in the first block. */
struct inside {
  struct tg__str *blocks[27];
  unsigned count;
};

static void strings(void **state) {
  struct tg__strings *const s = tg__strings_new();
  struct inside *const in = (struct inside *)(void *)s;
  ACCEPTED(tg__strings_is_valid(s, &e)); /* empty */
  for (int i = 0; i < 1000; i++) tg__strings_add(s, (const char *)&i, sizeof i);
  assert_int_equal(in->count, 1000);
  ACCEPTED(tg__strings_is_valid(s, &e));
  BROKEN(in->count, 999, tg__strings_is_valid(s, &e), "999 ids, but 1000 texts");
  BROKEN(in->count, 1001, tg__strings_is_valid(s, &e), "1001 ids, but 1000 texts");
  struct tg__str *const text = &in->blocks[0][5];
  BROKEN(text->ptr, NULL, tg__strings_is_valid(s, &e), "id 5 has no text");
  BROKEN(*text, in->blocks[0][6], tg__strings_is_valid(s, &e), "text 5 is found as 6");
  BROKEN(((char *)(uintptr_t)text->ptr)[0], 'x', tg__strings_is_valid(s, &e), "text 5 is found as");
  BROKEN(((char *)(uintptr_t)text->ptr)[text->len], 'x', tg__strings_is_valid(s, &e), "no zero behind text 5");
  ACCEPTED(tg__strings_is_valid(s, &e));
  tg__strings_free(s);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct tg_table *some_table(void) {
  struct tg_table *const t = tg__table_new("some");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "dur_ns", TG_INT, "ns");
  tg__table_add_column(t, "ok", TG_BOOL, "");
  for (int i = 0; i < 3; i++) {
    tg__put_cstr(t, i ? "a" : NULL);
    tg__put_int(t, i);
    tg__put_bool(t, i == 1);
  }
  tg__table_note(t, "a note");
  return t;
}

static void tables(void **state) {
  struct tg_table *const t = some_table();
  static struct tg__loss_row loss = {"lost", "what was lost", 1, -1};
  ACCEPTED(tg__table_is_valid(t, &e));
  BROKEN(t->question, "", tg__table_is_valid(t, &e), "does not say what it answers");
  BROKEN(t->references, 0, tg__table_is_valid(t, &e), "it has no owner");
  BROKEN(t->failed, true, tg__table_is_valid(t, &e), "ran out of memory");
  BROKEN(t->capacity, 2, tg__table_is_valid(t, &e), "3 rows in room for 2");
  BROKEN(t->cell, 1, tg__table_is_valid(t, &e), "last row is not complete");
  BROKEN(t->column_count, 0, tg__table_is_valid(t, &e), "rows without columns");
  BROKEN(t->columns[1].name, NULL, tg__table_is_valid(t, &e), "column 1 has no name");
  BROKEN(t->columns[1].unit, NULL, tg__table_is_valid(t, &e), "column 1 has no name or no unit");
  BROKEN(t->columns[1].type, (enum tg_type)7, tg__table_is_valid(t, &e), "dur_ns has no type");
  BROKEN(t->columns[1].ints, NULL, tg__table_is_valid(t, &e), "dur_ns has no cells");
  BROKEN(t->columns[0].texts[2], 1, tg__table_is_valid(t, &e), "name of row 2 is a text that does not exist");
  BROKEN(t->columns[2].bools[2], 2, tg__table_is_valid(t, &e), "ok of row 2 is neither");
  BROKEN(t->notes[0], NULL, tg__table_is_valid(t, &e), "note 0 is no text");
  BROKEN(((struct inside *)(void *)t->strings)->count, 0, tg__table_is_valid(t, &e), "row 1 is a text that does not");
  t->losses = &loss;
  t->loss_count = 1;
  ACCEPTED(tg__table_is_valid(t, &e));
  BROKEN(loss.count, 0, tg__table_is_valid(t, &e), "loss 0 is not one");
  BROKEN(loss.name, NULL, tg__table_is_valid(t, &e), "loss 0 is not one");
  t->losses = NULL;
  t->loss_count = 0;
  ACCEPTED(tg__table_is_valid(t, &e));
  tg__table_free(t);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void chunks(void **state) {
  uint8_t payload[24] = "twenty-four bytes of it";
  struct tg__chunk c = {.type = TG_CHUNK_STRING_TEXT, .length = sizeof payload, .offset = TG_GREETING_BYTES};
  c.checksum = tg__checksum(payload, sizeof payload);
  ACCEPTED(tg__chunk_is_valid(&c, payload, &e));
  BROKEN(c.offset, 20, tg__chunk_is_valid(&c, payload, &e), "no multiple of 8");
  BROKEN(c.offset, 8, tg__chunk_is_valid(&c, payload, &e), "in the greeting");
  BROKEN(c.length, UINT64_MAX - 40, tg__chunk_is_valid(&c, payload, &e), "its end does not fit");
  BROKEN(c.cut, true, tg__chunk_is_valid(&c, payload, &e), "cut, but not in place");
  BROKEN(payload[3], 0, tg__chunk_is_valid(&c, payload, &e), "not as written");
}

static void chunks_of_records(void **state) {
  enum { RECORDS = 3 };
  uint8_t payload[TG_RAW_HEAD_BYTES + RECORDS * TG_RAW_RECORD_BYTES];
  uint8_t *const records = payload + TG_RAW_HEAD_BYTES;
  memset(payload, 7, sizeof payload);
  struct tg__raw_head head = {.capacity = RECORDS, .sealed = 2 + 1};
  head.checksum = tg__checksum(records, 2 * TG_RAW_RECORD_BYTES);
  tg__raw_head_write(payload, &head);
  struct tg__chunk c = {
      .type = TG_CHUNK_RAW_RECORDS, .flags = TG_CHUNK_IN_PLACE, .length = sizeof payload, .offset = TG_GREETING_BYTES};
  ACCEPTED(tg__chunk_is_valid(&c, payload, &e));
  BROKEN(c.length, TG_RAW_HEAD_BYTES - 8, tg__chunk_is_valid(&c, payload, &e), "no room for the head");
  BROKEN(c.length, sizeof payload - 8, tg__chunk_is_valid(&c, payload, &e), "no room for its 3 records");
  BROKEN(records[40], 8, tg__chunk_is_valid(&c, payload, &e), "its 2 records are not those that were sealed");
  records[70] = 8; /* behind the last of them */
  ACCEPTED(tg__chunk_is_valid(&c, payload, &e));
  head.sealed = 5;
  tg__raw_head_write(payload, &head);
  REFUSED(tg__chunk_is_valid(&c, payload, &e), "sealed with 4 records of at most 3");
  head.sealed = 0;
  tg__raw_head_write(payload, &head);
  ACCEPTED(tg__chunk_is_valid(&c, payload, &e)); /* open */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings),
      cmocka_unit_test(tables),
      cmocka_unit_test(chunks),
      cmocka_unit_test(chunks_of_records),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
