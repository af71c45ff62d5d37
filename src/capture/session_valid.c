/* session_valid: the invariants of a session that is open or closed, as code; asserted at the end of both calls. With
 * the session's lock. */
#include "capture/session.h"

#define CHECK(condition, text) TG__CHECK(condition, "session: " text)

static bool closed_is_valid(const struct tg__session *s, struct tg_error *e) {
  CHECK(s->fd == -1 && !s->page, "closed, but it has a file");
  CHECK(!atomic_load(&tg__running), "closed, but recording runs");
  CHECK(atomic_load(&tg__features) == 0, "closed, but something is recorded");
  CHECK(tg__generation_now() % 2 == 0, "closed, but threads may come in");
  return true;
}

bool tg__session_is_valid(const struct tg__session *s, struct tg_error *e) {
  const uint32_t state = atomic_load(&s->state), most = s->chunk_most;
  if (state == TG_SESSION_CLOSED) return closed_is_valid(s, e);
  CHECK(state == TG_SESSION_OPEN, "neither open nor closed");
  CHECK(s->fd >= 0 && s->page, "open without a file");
  CHECK(tg__generation_now() % 2 == 1, "open, but no thread may come in");
  CHECK(s->path[0], "open without a path");
  CHECK(s->page->session == s->id && s->page->process == (uint32_t)s->process, "its file is of another session");
  CHECK(!(s->missing & ~s->wanted), "a feature is missing that was not asked for");
  CHECK(!(atomic_load(&tg__features) & ~s->wanted), "a feature is recorded that was not asked for");
  CHECK(s->record_limit <= s->disk_bytes, "records may reach beyond the budget");
  CHECK(most >= TG_CHUNK_LEAST && most <= TG_CHUNK_MOST && !(most & (most - 1)), "no size for chunks");
  CHECK(s->page_bytes && !(s->page_bytes & (s->page_bytes - 1)), "no size for pages");
  CHECK(atomic_load(&s->file_end) >= TG_GREETING_BYTES + TG_CHUNK_HEAD_BYTES + TG_RAW_PROCESS_BYTES,
        "the file ends inside its first chunk");
  return true;
}
