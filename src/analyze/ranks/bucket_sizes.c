/* The question bucket_sizes: how long gradients are sent behind the backward pass with buckets of another size, and
 * without overlap.
 *
 * An all_reduce takes a fixed time and a time for each byte: the line through the means of the recorded buckets. A
 * gradient is ready when the bucket that it is the last of was asked for, those between in proportion to their bytes. A
 * bucket is sent when all of it is ready and the one before it is through. Where only its start is known, as of gloo,
 * and it started when the one before was through, its gradients may have been ready long before: they count in
 * proportion. */
#include "analyze/ranks/buckets.h"

#include <math.h>
#include <stdio.h>

enum { MOST_CAPS = 16, MB = 1 << 20, MOST_BUCKETS = 1 << 20, NEAR_PCT = 10, WORTH_PCT = 2 };

struct sent { /* a bucket of the usual step, by the means of its steps */
  double bytes, dur_ns;
  double ready_ns; /* NaN: not known */
  double up_to;    /* bytes of it and of those before it */
};
struct price {
  double fixed_ns, byte_ns;
};
struct outcome {
  int64_t buckets;
  double largest, send_ns, behind_ns;
};
struct sending {
  struct sent *items;
  size_t count;
  double pass_ns, behind_ns; /* behind_ns: as recorded */
  struct price price;
};

/* ---- the recorded buckets ----------------------------------------------------------------------- */

/* Did it start because the one before it was through? */
static bool was_queued(double asked_ns, double start_ns, double before_end_ns, double dur_ns) {
  return asked_ns >= start_ns && start_ns - before_end_ns < dur_ns / 20;
}

static bool take_buckets(const struct tg__buckets *all, struct sending *s) {
  double up_to = 0, before_end = -INFINITY;
  s->items = tg__alloc((all->count + 1) * sizeof *s->items);
  if (!s->items) return false;
  for (size_t i = 0; i < all->count; i++) {
    const struct tg__bucket *const b = &all->items[i];
    const double steps = (double)b->steps, asked = (double)b->asked_ns / steps, start = (double)b->start_ns / steps;
    const double dur = (double)b->dur_ns / steps;
    const bool is_queued = was_queued(asked, start, before_end, dur);
    const bool is_late = is_queued && s->count && tg__bucket_is_all_reduce(all, i, TG__SEND_AFTER);
    if (!is_late && !tg__bucket_is_all_reduce(all, i, TG__SEND_BACKWARD)) continue;
    const double bytes = (double)b->bytes / (double)b->sized;
    up_to += bytes;
    s->items[s->count++] = (struct sent){bytes, dur, is_queued ? NAN : fmin(asked, start), up_to};
    before_end = start + dur;
    s->pass_ns = fmax(s->pass_ns, start + (double)b->to_end_ns / steps);
    s->behind_ns = fmax(s->behind_ns, dur - (double)b->to_end_ns / steps);
  }
  return true;
}

/* false: all are of one size, so what a byte takes is not known. */
static bool find_price(struct sending *s) {
  const double n = (double)s->count;
  double bytes = 0, ns = 0, square = 0, product = 0;
  for (size_t i = 0; i < s->count; i++) {
    bytes += s->items[i].bytes / n;
    ns += s->items[i].dur_ns / n;
  }
  for (size_t i = 0; i < s->count; i++) {
    square += (s->items[i].bytes - bytes) * (s->items[i].bytes - bytes);
    product += (s->items[i].bytes - bytes) * (s->items[i].dur_ns - ns);
  }
  if (s->count < 2 || sqrt(square / n) < bytes / 10) return false;
  s->price = (struct price){ns - product / square * bytes, product / square};
  if (s->price.byte_ns < 0) s->price = (struct price){ns, 0};
  if (s->price.fixed_ns < 0) s->price = (struct price){0, ns / bytes};
  return true;
}

/* ---- other buckets ------------------------------------------------------------------------------ */

/* When the first so many bytes of gradients are ready; all of them are when the pass ends. */
static double ready_ns(const struct sending *s, double bytes) {
  double from = 0, from_ns = 0;
  for (size_t i = 0; i < s->count; i++) {
    const struct sent *const b = &s->items[i];
    const bool is_last = i + 1 == s->count;
    if (isnan(b->ready_ns) && !is_last) continue;
    const double known_ns = fmax(from_ns, isnan(b->ready_ns) ? s->pass_ns : b->ready_ns);
    if (bytes < b->up_to) return from_ns + (known_ns - from_ns) * (bytes - from) / (b->up_to - from);
    from = b->up_to;
    from_ns = known_ns;
  }
  return from_ns;
}

static void send_one(const struct sending *s, double bytes, double ready, double *end_ns, struct outcome *out) {
  const double dur = s->price.fixed_ns + s->price.byte_ns * bytes;
  *end_ns = fmax(*end_ns, ready) + dur;
  out->buckets++;
  out->send_ns += dur;
  out->largest = fmax(out->largest, bytes);
  out->behind_ns = fmax(0, *end_ns - s->pass_ns);
}

/* Buckets as they are; beside the pass or all behind it. */
static struct outcome send_as_recorded(const struct sending *s, bool overlaps) {
  struct outcome out = {0};
  double end_ns = 0;
  for (size_t i = 0; i < s->count; i++)
    send_one(s, s->items[i].bytes, overlaps ? ready_ns(s, s->items[i].up_to) : s->pass_ns, &end_ns, &out);
  return out;
}

static bool is_too_small(const struct sending *s, double cap) {
  return s->items[s->count - 1].up_to / cap > MOST_BUCKETS;
}

/* As DistributedDataParallel cuts them where a program sets bucket_cap_mb: the first is as large as the others. */
static struct outcome send_in(const struct sending *s, double cap) {
  const double all = s->items[s->count - 1].up_to;
  struct outcome out = {0};
  double end_ns = 0;
  for (double sent = 0; sent < all;) {
    const double bytes = fmin(cap, all - sent);
    sent = all - sent <= cap ? all : sent + bytes;
    send_one(s, bytes, ready_ns(s, sent), &end_ns, &out);
  }
  return out;
}

/* ---- the answer --------------------------------------------------------------------------------- */

static void put_outcome(struct tg_table *out, const struct tg__columns *t, uint32_t rank, const char *change,
                        const struct outcome *o, double behind_ns) {
  tg__put_rank(out, t, rank);
  tg__put_cstr(out, change);
  tg__put_int(out, o->buckets);
  tg__put_real(out, o->largest);
  tg__put_real(out, o->send_ns);
  tg__put_real(out, o->behind_ns);
  tg__put_real(out, behind_ns - o->behind_ns);
}

/* The cap that saves most; NaN: none of them saves so much that it is worth a try. */
static double best_cap(const struct sending *s, const double *caps, size_t count, double *saving_ns) {
  const double now_ns = send_as_recorded(s, true).behind_ns;
  double best = NAN;
  *saving_ns = s->pass_ns * WORTH_PCT / 100;
  for (size_t i = 0; i < count; i++) {
    const double saving = is_too_small(s, caps[i] * MB) ? 0 : now_ns - send_in(s, caps[i] * MB).behind_ns;
    if (saving > *saving_ns) best = caps[i], *saving_ns = saving;
  }
  return best;
}

static void note_best(struct tg_table *out, const struct tg__columns *t, uint32_t rank, const struct sending *s,
                      const double *caps, size_t count) {
  double saving_ns;
  const double best = best_cap(s, caps, count, &saving_ns);
  if (isnan(best))
    tg__table_note(out, "rank %lld: none of these sizes saves %d %% of the backward pass",
                   (long long)t->ranks[rank].number, WORTH_PCT);
  else
    tg__table_note(out, "rank %lld: try bucket_cap_mb=%g, which saves %.2f ms of a step",
                   (long long)t->ranks[rank].number, best, saving_ns / 1e6);
}

static void put_sizes(struct tg_table *out, const struct tg__columns *t, uint32_t rank, const struct sending *s,
                      const double *caps, size_t count) {
  const struct outcome now = send_as_recorded(s, true), after = send_as_recorded(s, false);
  put_outcome(out, t, rank, "as recorded", &now, now.behind_ns);
  for (size_t i = 0; i < count; i++) {
    char change[64];
    if (is_too_small(s, caps[i] * MB)) continue;
    const struct outcome o = send_in(s, caps[i] * MB);
    snprintf(change, sizeof change, "buckets of %g MiB", caps[i]);
    put_outcome(out, t, rank, change, &o, now.behind_ns);
  }
  put_outcome(out, t, rank, "sent behind the pass", &after, now.behind_ns);
  tg__table_note(
      out,
      "rank %lld: an all_reduce takes %.3f ms and %.3f ms for each MB here, and a backward pass %.2f ms; not "
      "in the model: cores and links that sending shares with computing",
      (long long)t->ranks[rank].number, s->price.fixed_ns / 1e6, s->price.byte_ns, s->pass_ns / 1e6);
  note_best(out, t, rank, s, caps, count);
  tg__note_wrappers(t, rank, out);
}

static const char *why_not(struct sending *s) {
  if (!s->count) return "its backward passes ask for no all_reduce of a known size";
  if (!find_price(s)) return "its buckets are of one size, so what a byte takes is not known";
  const double off_ns = fabs(send_as_recorded(s, true).behind_ns - s->behind_ns);
  return 100 * off_ns > NEAR_PCT * s->pass_ns
             ? "the model of its buckets is off by more than 10 % of the backward pass from what was recorded"
             : NULL;
}

bool tg__bucket_cap_to_try(const struct tg__columns *t, uint32_t rank, double *cap_mb, double *saving_ns,
                           bool *failed) {
  const double now = tg__reducer_of(t, rank).cap_mb, caps[] = {now / 4, now / 2, now * 2, now * 4};
  struct tg__buckets all = {0};
  struct sending s = {0};
  if (isnan(now)) return false;
  const bool done = tg__buckets_of(t, rank, &all) && take_buckets(&all, &s);
  *failed |= !done;
  *cap_mb = done && !why_not(&s) ? best_cap(&s, caps, sizeof caps / sizeof *caps, saving_ns) : NAN;
  tg__buckets_free(&all);
  tg__free(s.items);
  return !isnan(*cap_mb);
}

/* "1,25": sizes in MiB. */
static enum tg_err read_caps(const char *text, double *caps, size_t *count, struct tg_error *e) {
  while (*text) {
    const struct tg__str word = {text, (uint32_t)strcspn(text, ",")};
    if (*count == MOST_CAPS || !tg__str_to_real(word, &caps[*count]) || !(caps[*count] > 0) || caps[*count] > 1e6)
      return tg__fail(e, TG_USAGE, -1,
                      "bucket_sizes: cap_mb=%.60s is not understood: write up to %d sizes in MiB, above 0, as in 1,25",
                      text, MOST_CAPS);
    ++*count;
    text += word.len + (text[word.len] == ',');
  }
  return TG_OK;
}

enum tg_err tg__answer_bucket_sizes(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  double caps[MOST_CAPS];
  size_t count = 0;
  bool has_buckets = false;
  enum tg_err err = read_caps(tg__ask_arg(a, "cap_mb"), caps, &count, e);
  for (uint32_t r = 0; !err && r < t->rank_count; r++) {
    struct tg__buckets all;
    struct sending s = {0};
    if (!tg__ask_has_rank(a, r)) continue;
    if (!tg__buckets_of(t, r, &all) || !take_buckets(&all, &s)) err = tg__no_memory(e, "the buckets of a step");
    const char *const why = err ? NULL : why_not(&s);
    if (why) tg__table_note(out, "rank %lld: no prediction: %s", (long long)t->ranks[r].number, why);
    if (!err && !why) put_sizes(out, t, r, &s, caps, count);
    has_buckets |= s.count > 0;
    tg__buckets_free(&all);
    tg__free(s.items);
  }
  if (err || has_buckets) return err;
  return tg__fail(
      e, TG_NO_DATA, -1,
      "no backward pass asks for an all_reduce of a known size: record a job of several ranks with its steps "
      "marked (prof.step()) and record_shapes=True");
}
