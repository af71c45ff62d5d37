/* The invariants of a session, as code: a session that is open or closed has them, and each that is broken is named. */
#include "recording.h"

#include "capture/session.h"

static struct tg_error e;

static void refused(const char *words) {
  e = (struct tg_error){0};
  assert_false(tg__session_is_valid(&tg__session, &e));
  if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}
#define BROKEN(field, value, words)                                                                                    \
  do {                                                                                                                 \
    const __typeof__(field) before = (field);                                                                          \
    (field) = (value);                                                                                                 \
    refused(words);                                                                                                    \
    (field) = before;                                                                                                  \
  } while (0)
static void accepted(void) {
  if (!tg__session_is_valid(&tg__session, &e)) fail_msg("%s", e.text);
}

static void an_open_session(void **state) {
  struct tg__session *const s = &tg__session;
  const struct tg_record_options o = {.path = recording_path, .rank = -1};
  assert_int_equal(tg_record_open(&o, &e), TG_OK);
  accepted();
  BROKEN(s->state, TG_SESSION_BROKEN, "neither open nor closed");
  BROKEN(s->fd, -1, "open without a file");
  BROKEN(s->page, NULL, "open without a file");
  BROKEN(tg__generation, tg__generation + 1, "no thread may come in");
  BROKEN(s->path[0], 0, "open without a path");
  BROKEN(s->id, s->id + 1, "of another session");
  BROKEN(s->process, s->process + 1, "of another session");
  BROKEN(s->missing, 1u << 20, "missing that was not asked for");
  BROKEN(tg__features, 1u << 20, "recorded that was not asked for");
  BROKEN(s->record_limit, s->disk_bytes + 1, "beyond the budget");
  BROKEN(s->chunk_most, TG_CHUNK_LEAST / 2, "no size for chunks");
  BROKEN(s->chunk_most, TG_CHUNK_MOST * 2, "no size for chunks");
  BROKEN(s->chunk_most, TG_CHUNK_LEAST + 4096, "no size for chunks");
  BROKEN(s->page_bytes, 4095, "no size for pages");
  BROKEN(s->file_end, 100, "ends inside its first chunk");
  accepted();
  assert_int_equal(tg_record_close(NULL, &e), TG_OK);
}

static void a_closed_session(void **state) {
  struct tg__session *const s = &tg__session;
  struct tg__raw_process page;
  accepted();
  BROKEN(s->fd, 7, "closed, but it has a file");
  BROKEN(s->page, &page, "closed, but it has a file");
  BROKEN(tg__running, true, "closed, but recording runs");
  BROKEN(tg__features, 1, "something is recorded");
  BROKEN(tg__generation, tg__generation + 1, "threads may come in");
  accepted();
}

static void slots_refused(const struct tg__thread *t, const char *words) {
  e = (struct tg_error){0};
  assert_false(tg__chunk_slots_are_valid(t, &e));
  if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}
#define BROKEN_SLOT(field, value, words)                                                                               \
  do {                                                                                                                 \
    const __typeof__(field) before = (field);                                                                          \
    (field) = (value);                                                                                                 \
    slots_refused(t, words);                                                                                           \
    (field) = before;                                                                                                  \
  } while (0)

static void slots_of_a_thread(void **state) {
  recording_start((struct tg_record_options){.rank = -1});
  tg_range_begin("a");
  tg_range_end();
  struct tg__thread *t = tg__threads_first();
  while (t && atomic_load(&t->more->current) < 0) t = t->more->next;
  assert_non_null(t);
  struct tg__thread_private *const p = t->more;
  struct tg__slot *const s = &p->slot[p->current];
  if (!tg__chunk_slots_are_valid(t, &e)) fail_msg("%s", e.text);
  BROKEN_SLOT(p->current, TG_SLOTS, "no such slot");
  BROKEN_SLOT(p->current, -1, "room for records and no chunk");
  BROKEN_SLOT(p->window, NULL, "no window");
  BROKEN_SLOT(s->state, TG_SLOT_BUSY, "is not the thread's");
  BROKEN_SLOT(s->offset, s->offset + 1, "not in the file");
  BROKEN_SLOT(s->bytes, 1u << 30, "not in the file");
  BROKEN_SLOT(p->first, p->first + 1, "begin outside their slot");
  BROKEN_SLOT(p->capacity, p->capacity - 1, "not the capacity");
  BROKEN_SLOT(t->next, p->first - 1, "outside the room");
  BROKEN_SLOT(t->end, p->last + 1, "outside the room");
  BROKEN_SLOT(p->full_in, p->full_out + TG_FULL_MAX + 1, "more full chunks than places");
  const struct tg__full same = {{s->offset, s->bytes}, 1, 0, 0};
  p->full[p->full_in % TG_FULL_MAX] = same;
  BROKEN_SLOT(p->full_in, p->full_in + 1, "overlaps a full one");
  p->full[p->full_in % TG_FULL_MAX].slot = TG_SLOTS;
  BROKEN_SLOT(p->full_in, p->full_in + 1, "in no slot");
  p->full[p->full_in % TG_FULL_MAX] = (struct tg__full){same.region, UINT32_MAX, 0, 0};
  BROKEN_SLOT(p->full_in, p->full_in + 1, "too full");
  struct tg__slot *const other = &p->slot[(p->current + 1) % TG_SLOTS], *const third =
                                                                            &p->slot[(p->current + 2) % TG_SLOTS];
  const uint32_t others = other->state;
  other->state = TG_SLOT_READY;
  BROKEN_SLOT(third->state, TG_SLOT_READY, "two slots");
  other->state = others;
  if (!tg__chunk_slots_are_valid(t, &e)) fail_msg("%s", e.text);
  recording_close();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_open_session, recording_setup, recording_teardown),
      cmocka_unit_test(a_closed_session),
      cmocka_unit_test_setup_teardown(slots_of_a_thread, recording_setup, recording_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
