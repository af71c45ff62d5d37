/* sources: the list of the sources of events, and which of them run. Called with the session's lock. */
#include "capture/session.h"

enum { SOURCES_MOST = 16 };

static const struct tg__source *const own[] = {
#define SOURCE(name) &tg__source_##name,
#include "capture/sources.def"
#undef SOURCE
};
enum { OWN = sizeof own / sizeof *own };

static _Atomic(const struct tg__source *) joined[SOURCES_MOST];
static bool is_ready[SOURCES_MOST + OWN], is_running[SOURCES_MOST + OWN];

bool tg__source_add(const struct tg__source *s) {
  for (int i = 0; i < SOURCES_MOST; i++) {
    const struct tg__source *none = NULL;
    if (atomic_load(&joined[i]) == s || atomic_compare_exchange_strong(&joined[i], &none, s)) return true;
  }
  return false;
}

/* i-th in the order of starting: stacks and modules are there before the operators that ask for them. NULL = no
 * such. */
static const struct tg__source *source(int i) {
  return i < SOURCES_MOST ? atomic_load(&joined[i]) : own[i - SOURCES_MOST];
}

const struct tg__source *tg__source_at(size_t n) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    if (source(i) && n-- == 0) return source(i);
  }
  return NULL;
}

uint32_t tg__sources_prepare(uint32_t wanted, uint32_t now, struct tg_error *why) {
  uint32_t had = 0, failed = 0;
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    const struct tg__source *const s = source(i);
    struct tg_error e = {0};
    if (!s || !(s->features & wanted)) continue;
    const enum tg_err err = s->prepare ? s->prepare(wanted, &e) : TG_OK;
    is_ready[i] = !err;
    if (!err) had |= s->features & wanted;
    if (err && why && (!failed || (now & s->features && !(now & failed)))) *why = e;
    if (err) failed |= s->features & wanted;
  }
  if (why && (wanted & ~had) && !failed) {
    tg__fail(why, TG_UNSUPPORTED, -1,
             "this process has nothing that could record it: it takes the Python extension of tachograph, and torch");
  }
  return had & ~failed;
}

uint32_t tg__sources_start(uint32_t features, struct tg_error *why) {
  uint32_t had = 0;
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    const struct tg__source *const s = source(i);
    if (!s || !is_ready[i] || !(s->features & features)) continue;
    if (!is_running[i]) is_running[i] = s->start(features, why) == TG_OK;
    if (is_running[i]) had |= s->features & features;
  }
  return had;
}

void tg__sources_last(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    if (is_running[i] && source(i)->last) source(i)->last();
  }
}

void tg__sources_stop(void) {
  for (int i = SOURCES_MOST + OWN; i-- > 0;) {
    if (is_running[i]) source(i)->stop();
    is_running[i] = false;
  }
}

void tg__sources_flush(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    const struct tg__source *const s = source(i);
    if (s && is_ready[i] && s->flush) s->flush();
  }
}

void tg__sources_tick(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    if (is_running[i] && source(i)->tick) source(i)->tick();
  }
}

void tg__sources_serve(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    if (is_running[i] && source(i)->serve) source(i)->serve();
  }
}

void tg__sources_fork_hold(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    if (source(i) && source(i)->fork_hold) source(i)->fork_hold();
  }
}

void tg__sources_fork_release(void) {
  for (int i = SOURCES_MOST + OWN; i-- > 0;) {
    if (source(i) && source(i)->fork_release) source(i)->fork_release();
  }
}

void tg__sources_forked(void) {
  for (int i = 0; i < SOURCES_MOST + OWN; i++) {
    const struct tg__source *const s = source(i);
    if (s && is_ready[i] && s->fork_child) s->fork_child();
  }
}
