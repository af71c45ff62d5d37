/* The program waits for files: what `tachograph run` marks with a range while it records. */
#include "diagnose/findings.h"

enum { WAIT_PCT = 5, KINDS = 3, OFTEN = 10 };

static const struct {
  enum tg__cause cause;
  const char *names[3];
  const char *evidence, *advice, *method;
  int64_t left; /* one part of so many stays */
} kinds[KINDS] = {
    {TG__CAUSE_SYNC_LOGGING,
     {"os.fsync", "os.fdatasync"},
     "force a file to disk",
     "Let the file buffer what is written, and flush it every N-th step or at the end; no os.fsync in the loop.",
     "the time of these calls",
     INT64_MAX},
    {TG__CAUSE_SYNC_CHECKPOINT,
     {"torch.save"},
     "save to a file",
     "Save less often, or off the loop: torch.distributed.checkpoint.async_save writes in the background.",
     "nine of ten of them left out",
     OFTEN},
    {TG__CAUSE_REPEATED_FILE_LOAD,
     {"torch.load", "numpy.load"},
     "read a file",
     "Read the file once, before the loop, and keep what was read.",
     "the time of these calls",
     INT64_MAX},
};

struct waits {
  struct tg__facts *f;
  int64_t ns[KINDS], calls[KINDS];
  uint32_t longest[KINDS], track;
  int64_t until_ns; /* end of the wait the walk is in: torch.save may force to disk, too */
};

static int kind_of(struct tg__str name) {
  for (int k = 0; k < KINDS; k++)
    for (size_t i = 0; i < sizeof kinds[k].names / sizeof *kinds[k].names && kinds[k].names[i]; i++)
      if (tg__str_eq(name, (struct tg__str){kinds[k].names[i], (uint32_t)strlen(kinds[k].names[i])})) return k;
  return -1;
}

static void see_wait(void *ctx, uint32_t slice, enum tg__class cls) {
  struct waits *w = ctx;
  const struct tg_trace *t = w->f->t;
  const int k = cls == TG__CLASS_ANNOTATION ? kind_of(tg__name(t, t->slices.name[slice])) : -1;
  if (k < 0) return;
  const uint32_t track = tg__slice_track(t, slice);
  if (track == w->track && t->slices.start_ns[slice] < w->until_ns) return;
  w->track = track;
  w->until_ns = tg__slice_end(t, slice);
  w->ns[k] += t->slices.dur_ns[slice];
  w->calls[k]++;
  if (w->longest[k] == TG_NONE || t->slices.dur_ns[slice] > t->slices.dur_ns[w->longest[k]]) w->longest[k] = slice;
}

static struct waits look(struct tg__facts *f) {
  struct waits w = {.f = f, .track = TG_NONE, .longest = {TG_NONE, TG_NONE, TG_NONE}};
  tg__visit(f, see_wait, &w);
  return w;
}

int64_t tg__marked_waits(struct tg__facts *f) {
  const struct waits w = look(f);
  int64_t sum = 0;
  for (int k = 0; k < KINDS; k++) sum += w.ns[k];
  return sum;
}

void tg__judge_waits(struct tg__facts *f) {
  const struct waits w = look(f);
  for (int k = 0; k < KINDS; k++) {
    const double share = tg__pct(w.ns[k], f->total_ns);
    if (share <= WAIT_PCT) continue;
    struct tg__finding *x = tg__find(f, kinds[k].cause, share, WAIT_PCT, tg__per_step(f, w.ns[k]));
    tg__where_slice(f, w.longest[k], x);
    TG_SAY(x->evidence, "%lld calls in %zu steps %s: %.2f ms %s (%.1f %%), the longest %.2f ms", (long long)w.calls[k], f->steps.count,
           kinds[k].evidence, tg__ms(x->cost_ns), tg__per(f), share, tg__ms(f->t->slices.dur_ns[w.longest[k]]));
    TG_SAY(x->advice, "%s", kinds[k].advice);
    tg__expect(f, x, w.ns[k] - w.ns[k] / kinds[k].left, 0.9, kinds[k].method);
  }
}
