/* follow: recordings that go on are read again every two seconds, as long as the server uses less than half a core
 * for it and for the calls that follow from it. A recording is known to go on by the counts in the heads of its files,
 * which the recorder writes ten times a second, and by its processes where they run on this machine. */
#include "ranks/ranks.h"
#include "serve/host.h"

static const int64_t LOOK_NS = 2000000000, BEAT_NS = 500000000, STILL_NS = 5000000000, PACKING_NS = 60000000000;

struct watch {
  struct tg__hosted *trace;
  struct tg__recording last; /* as it was looked at before */
  uint64_t read_pulse;       /* of the reading that is shown */
  bool had_process, is_over;
  int64_t beat_ns;  /* when its counts last changed */
  int64_t ended_ns; /* when the program was first seen to have ended; 0 */
  int64_t begin_ns, begin_cpu_ns;
};

/* ---- reading again ----------------------------------------------------------------------------------- */

static bool is_same(const struct tg__loaded *a, const struct tg__loaded *b) {
  const struct tg__columns *const x = a->columns, *const y = b->columns;
  return a->view && b->view && x && y && x->slices.count == y->slices.count && x->marks.count == y->marks.count &&
         a->view->end_ns == b->view->end_ns;
}

static void put_in_place(struct tg__hosted *t, struct tg__loaded *l) {
  struct tg__loaded *const old = t->now;
  const bool is_new = t->state != TG__TRACE_READY || !is_same(old, l);
  tg__lock_take(t->host->lock);
  if (is_new) t->now = l;
  t->state = TG__TRACE_READY;
  t->read_ns = tg__clock_ns();
  tg__lock_wake(t->host->lock);
  tg__lock_drop(t->host->lock);
  tg__loaded_drop(t->host, is_new ? old : l);
}

/* What cannot be read now leaves the page as it is; e says why. */
static enum tg_err read_again(struct watch *w, struct tg_error *e) {
  struct tg__hosted *const t = w->trace;
  struct tg__loaded *const l = tg__loaded_new(t, t->now->number + 1);
  if (!l) return tg__no_memory(e, "reading %s again", t->path);
  w->begin_ns = tg__clock_ns();
  w->begin_cpu_ns = tg__cpu_used_ns();
  const enum tg_err err = tg__loaded_read(l, t);
  if (err) {
    *e = l->error;
    tg__loaded_drop(t->host, l);
  } else {
    put_in_place(t, l);
  }
  return err;
}

static bool may_read(const struct watch *w) {
  return tg__cpu_used_ns() - w->begin_cpu_ns <= (tg__clock_ns() - w->begin_ns) / 2;
}

/* ---- does it go on? ---------------------------------------------------------------------------------- */

static void say(struct tg__hosted *t, bool is_recording, const struct tg_error *remark) {
  tg__lock_take(t->host->lock);
  t->is_recording = is_recording;
  t->remark = *remark;
  tg__lock_drop(t->host->lock);
  if (t->host->changed) t->host->changed(t->host->ctx);
}

static void see_files(struct watch *w, struct tg__recording *now) {
  tg__recording_read(w->trace->path, now);
  if (now->pulse != w->last.pulse) w->beat_ns = tg__clock_ns();
  w->had_process |= now->has_process;
}

static bool goes_on(const struct watch *w, const struct tg__recording *now) {
  if (now->is_run && (now->has_process || !now->files)) return true;
  const bool beats = tg__clock_ns() - w->beat_ns < STILL_NS;
  return now->is_open && (now->has_process || (!w->had_process && beats));
}

static bool is_shorter(const struct watch *w, const struct tg__recording *now) {
  return now->files && now->bytes < w->last.bytes && !now->is_run;
}

/* Its last reading: of what was recorded, or of the file that was made of it. */
static void finish(struct watch *w, const struct tg__recording *now) {
  struct tg__hosted *const t = w->trace;
  struct tg_error e = {0}, end = {0};
  const bool shown = t->state == TG__TRACE_READY;
  w->is_over = true;
  if (tg__path_kind(t->path) == TG__PATH_NONE && !strpbrk(t->path, "*?["))
    tg__fail(&end, TG_NOT_FOUND, -1, "%.200s is not there any more: the page shows what was read of it before",
             t->path);
  else if (is_shorter(w, now))
    tg__fail(&end, TG_DAMAGED, -1, "%.200s is shorter than before: the page shows what was read of it then", t->path);
  else if (read_again(w, &e))
    tg__fail(&end, e.code, -1, "The recording cannot be read any more%s: %.300s",
             shown ? "; the page shows what was read of it before" : "", e.text);
  else if (now->is_open)
    tg__fail(&end, TG_DAMAGED, -1,
             "the program ended without closing its recording: what it had recorded until then is here");
  if (!shown && t->state != TG__TRACE_READY) {
    tg__lock_take(t->host->lock);
    t->now->error = e.code ? e : end;
    t->state = TG__TRACE_FAILED;
    tg__lock_wake(t->host->lock);
    tg__lock_drop(t->host->lock);
  }
  say(t, false, &end);
}

static void say_still(const struct watch *w, const struct tg__recording *now) {
  struct tg_error e = {0};
  const int64_t still = tg__clock_ns() - w->beat_ns;
  if (now->is_open && still >= STILL_NS)
    tg__fail(&e, TG_OK, -1, "the program has recorded nothing for %lld s", (long long)(still / 1000000000));
  say(w->trace, true, &e);
}

static void step(struct watch *w) {
  struct tg__recording now;
  struct tg_error e;
  see_files(w, &now);
  if (goes_on(w, &now) && !is_shorter(w, &now)) {
    w->ended_ns = 0;
    if (now.pulse != w->read_pulse && may_read(w)) {
      (void)read_again(w, &e); /* what cannot be read yet may be later */
      w->read_pulse = now.pulse;
    }
    say_still(w, &now);
    w->last = now;
    return;
  }
  if (!w->ended_ns) w->ended_ns = tg__clock_ns();
  if (now.is_run && tg__clock_ns() - w->ended_ns < (now.has_parent ? PACKING_NS : STILL_NS)) return;
  finish(w, &now);
}

/* ---- all of them ------------------------------------------------------------------------------------- */

static bool wait(struct tg__host *h, int64_t ns) {
  const int64_t until = tg__clock_ns() + ns;
  tg__lock_take(h->lock);
  for (int64_t left; !h->is_stopping && (left = until - tg__clock_ns()) > 0;) tg__lock_wait_for(h->lock, left);
  tg__lock_drop(h->lock);
  return !h->is_stopping;
}

/* Is there a recording that goes on? Its counts are looked at twice. */
static bool begin_watch(struct watch *w) {
  struct tg__recording now;
  see_files(w, &now);
  const bool beats = now.pulse != w->last.pulse;
  w->is_over = !now.is_run && !(now.is_open && (beats || now.has_process));
  if (w->is_over && now.is_open) finish(w, &now);
  w->last = now;
  return !w->is_over;
}

void tg__host_follow(struct tg__host *h) {
  struct watch *const all = tg__alloc((h->count + 1) * sizeof *all);
  size_t following = 0;
  for (size_t i = 0; all && i < h->count; i++) {
    all[i].trace = &h->traces[i];
    all[i].is_over = h->traces[i].state == TG__TRACE_FAILED;
    tg__recording_read(all[i].trace->path, &all[i].last);
    following += all[i].is_over ? 0 : all[i].last.is_open || all[i].last.is_run;
  }
  bool runs = following && wait(h, BEAT_NS);
  following = 0;
  for (size_t i = 0; runs && i < h->count; i++) following += !all[i].is_over && begin_watch(&all[i]);
  while (runs && following) {
    following = 0;
    for (size_t i = 0; i < h->count && !h->is_stopping; i++) {
      if (!all[i].is_over) step(&all[i]);
      following += !all[i].is_over;
    }
    runs = wait(h, LOOK_NS);
  }
  tg__free(all);
}
