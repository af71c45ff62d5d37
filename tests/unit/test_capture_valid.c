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
  BROKEN(s->missing, 1u << 20, "missing that nobody wants");
  BROKEN(tg__features, 1u << 20, "recorded that nobody wants");
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_open_session, recording_setup, recording_teardown),
      cmocka_unit_test(a_closed_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
