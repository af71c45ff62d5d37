/* rank_set: the summaries a question about ranks works on, and when their collectives waited and when they moved
 * data. */
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/summarize.h"

#include <stdio.h>
#include <stdlib.h>

static void place_part(const struct tg__ranks *r, struct tg__part *p) {
  const struct tg__sum_collective *const c = &r->s->ranks[p->rank].collectives[p->index];
  p->start_ns = tg__ranks_time(r, p->rank, c->start_ns);
  p->end_ns = p->start_ns + tg__sum_length(c); /* a length is not stretched by the drift: that is below its own error */
}

/* Whoever came before the last waited for it; what is left is the transfer. Clocks that disagree cannot make more of
 * it than there is. */
static void split_waits(struct tg__ranks *r) {
  for (size_t i = 0; i < r->match_count; i++) {
    struct tg__match *const m = &r->matches[i];
    struct tg__part *const parts = r->parts + m->first;
    int64_t first_ns = 0;
    for (uint32_t k = 0; k < m->count; k++) {
      place_part(r, &parts[k]);
      if (k == 0 || parts[k].start_ns < first_ns) first_ns = parts[k].start_ns;
      if (k == 0 || parts[k].start_ns > m->last_ns) {
        m->last_ns = parts[k].start_ns;
        m->last = m->first + k;
      }
    }
    m->skew_ns = m->last_ns - first_ns;
    for (uint32_t k = 0; k < m->count; k++) {
      const int64_t until = m->last_ns < parts[k].end_ns ? m->last_ns : parts[k].end_ns;
      parts[k].wait_ns = until - parts[k].start_ns;
    }
  }
}

static bool match_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__ranks *const r = ctx;
  const struct tg__match *const x = &r->matches[a], *const y = &r->matches[b];
  return x->last_ns - x->skew_ns < y->last_ns - y->skew_ns;
}

/* Where the rank asked for stands after the summaries were put in order. */
static uint32_t find_rank(const struct tg__summaries *s, uint32_t path, int64_t number) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->ranks[i].path == path && s->ranks[i].number == number) return i;
  return TG_NONE;
}

struct kept { /* with a trace that has events */
  struct tg__summaries *s;
  uint32_t *place; /* by rank of the trace: where it stands in the list */
};

static void free_kept_rank_set(void *item) {
  struct kept *const k = item;
  tg__summaries_free(k->s);
  tg__free(k->place);
  tg__free(k);
}
static const struct tg__cached cached = {free_kept_rank_set};

static bool fill_kept(struct kept *k, const struct tg__columns *t) {
  struct tg__rank_summary *const unsorted = tg__alloc(((size_t)t->rank_count + 1) * sizeof *unsorted);
  k->s = tg__summaries_new();
  k->place = tg__alloc(((size_t)t->rank_count + 1) * sizeof *k->place);
  bool done = unsorted && k->s && k->place && tg__rank_summarize(t, k->s) == TG_OK;
  if (done && t->rank_count) memcpy(unsorted, k->s->ranks, t->rank_count * sizeof *unsorted);
  done = done && tg__summaries_sort(k->s);
  for (uint32_t r = 0; done && r < t->rank_count; r++)
    k->place[r] = find_rank(k->s, unsorted[r].path, unsorted[r].number);
  tg__free(unsorted);
  return done;
}

static const struct kept *summarize(const struct tg__columns *t) {
  struct kept *k = tg__cache_find(t, &cached);
  if (k) return k;
  k = tg__alloc(sizeof *k);
  if (k && fill_kept(k, t) && tg__cache_put(t, &cached, k)) return k;
  if (k) free_kept_rank_set(k);
  return NULL;
}

const struct tg__rank_summary *tg__rank_summary_of(const struct tg__columns *t, uint32_t rank,
                                                   const struct tg__summaries **list) {
  const struct kept *const k = summarize(t);
  if (!k) return NULL;
  *list = k->s;
  return &k->s->ranks[k->place[rank]];
}

enum tg_err tg__ranks_open(struct tg__ranks *r, const struct tg__columns *t, const struct tg__ask *a, bool align,
                           struct tg_error *e) {
  *r = (struct tg__ranks){.s = a->job.summaries, .only = a->rank};
  const struct kept *const kept = r->s ? NULL : summarize(t);
  if (kept) {
    r->s = kept->s;
    if (a->rank != TG_NONE) r->only = kept->place[a->rank];
  }
  bool done = r->s != NULL;
  if (done) {
    r->clocks = tg__alloc(((size_t)r->s->count + 1) * sizeof *r->clocks);
    done = r->clocks && tg__ranks_match(r) && (!align || tg__ranks_align(r));
  }
  if (done) {
    split_waits(r);
    done = tg__sort_items((void **)&r->matches, r->match_count, sizeof *r->matches, match_before, r);
  }
  return done ? TG_OK : tg__no_memory(e, "comparing the ranks");
}

void tg__ranks_close(struct tg__ranks *r) {
  tg__free(r->matches);
  tg__free(r->parts);
  tg__free(r->clocks);
  *r = (struct tg__ranks){0};
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A whole number at *p, which moves behind it. */
static bool read_number(const char **p, int64_t *out) {
  const char *const first = *p;
  for (*out = 0; **p >= '0' && **p <= '9'; ++*p)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, **p - '0', out)) return false;
  return *p > first;
}

enum tg_err tg__step_selection_read(struct tg__step_selection *p, const struct tg__ask *a, struct tg_error *e) {
  const char *const text = tg__ask_arg(a, "step"), *at = text;
  p->count = 0;
  if (!text || !*text || strcmp(text, "all") == 0) return TG_OK;
  for (;;) {
    int64_t first, last;
    if (p->count == sizeof p->items / sizeof *p->items || !read_number(&at, &first)) break;
    last = first;
    if (*at == ':' && (at++, !read_number(&at, &last))) break;
    p->items[p->count].first = first;
    p->items[p->count++].last = last;
    if (!*at) return TG_OK;
    if (*at++ != ',') break;
  }
  return tg__fail(e, TG_USAGE, -1,
                  "step=%.60s is not understood: use one step (5), a range with both ends (5:8), or a list (5,7)",
                  text);
}

bool tg__step_selection_has(const struct tg__step_selection *p, int64_t number) {
  for (size_t i = 0; i < p->count; i++)
    if (number >= p->items[i].first && number <= p->items[i].last) return true;
  return p->count == 0;
}

enum tg_err tg__step_selection_check(const struct tg__step_selection *p, const struct tg__ranks *r,
                                     const bool *counting, struct tg_error *e) {
  size_t total = 0, any = 0;
  for (uint32_t i = 0; i < r->s->count; i++) total += r->s->ranks[i].step_count;
  for (size_t i = 0; i < total; i++) any += counting[i];
  if (any || p->count == 0) return TG_OK;
  return tg__fail(e, TG_NO_DATA, -1, "no rank has such a step whole; ranks with by=step lists those there are");
}

/* May the step be compared with those of the same number elsewhere? */
static bool is_comparable(const struct tg__sum_step *s) { return s->number >= 0 && !s->is_partial; }

static bool has_numbered_steps(const struct tg__rank_summary *r) {
  return r->step_count > 0 && r->steps[0].number >= 0;
}

/* Ranks with numbered steps, and per number how many of them have it. */
static uint32_t count_numbers(const struct tg__ranks *r, struct tg__map *seen, bool *failed) {
  uint32_t ranks = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    const struct tg__rank_summary *const rank = &r->s->ranks[i];
    if (!has_numbered_steps(rank)) continue;
    for (uint32_t k = 0; k < rank->step_count && !*failed; k++) {
      if (!is_comparable(&rank->steps[k])) continue;
      uint32_t *const slot = tg__map_slot(seen, (uint64_t)rank->steps[k].number, 0);
      *failed |= !slot;
      if (slot && *slot == ranks) ++*slot; /* each rank counts once, and only while all before it had the number */
    }
    ranks++;
  }
  return ranks;
}

bool *tg__ranks_common_steps(const struct tg__ranks *r, const struct tg__step_selection *selection, bool *has_common) {
  size_t total = 0, at = 0;
  struct tg__map seen = {0};
  bool failed = false;
  const uint32_t ranks = count_numbers(r, &seen, &failed);
  for (uint32_t i = 0; i < r->s->count; i++) total += r->s->ranks[i].step_count;
  bool *const common = failed ? NULL : tg__alloc(total + 1);
  *has_common = false;
  for (uint32_t i = 0; common && i < r->s->count; i++) {
    const struct tg__rank_summary *const rank = &r->s->ranks[i];
    for (uint32_t k = 0; k < rank->step_count; k++, at++) {
      common[at] = is_comparable(&rank->steps[k]) && tg__step_selection_has(selection, rank->steps[k].number) &&
                   tg__map_get(&seen, (uint64_t)rank->steps[k].number) == ranks;
      *has_common |= common[at];
    }
  }
  tg__map_free(&seen);
  if (!common || *has_common) return common;
  tg__free(common);
  return tg__ranks_all_steps(r, selection);
}

bool *tg__ranks_all_steps(const struct tg__ranks *r, const struct tg__step_selection *selection) {
  size_t total = 0, at = 0;
  for (uint32_t i = 0; i < r->s->count; i++) total += r->s->ranks[i].step_count;
  bool *const all = tg__alloc(total + 1);
  for (uint32_t i = 0; all && i < r->s->count; i++)
    for (uint32_t k = 0; k < r->s->ranks[i].step_count; k++)
      all[at++] =
          !r->s->ranks[i].steps[k].is_partial && tg__step_selection_has(selection, r->s->ranks[i].steps[k].number);
  return all;
}

/* ---- what should be said --------------------------------------------------------------------- */

static int64_t world_size(const struct tg__ranks *r) {
  int64_t most = -1;
  for (uint32_t i = 0; i < r->s->count; i++)
    if (r->s->ranks[i].world_size > most) most = r->s->ranks[i].world_size;
  return most;
}

static void note_ranks(const struct tg__ranks *r, struct tg_table *out) {
  const int64_t world = world_size(r);
  uint32_t unnamed = 0, cut = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    const struct tg__rank_summary *const rank = &r->s->ranks[i];
    unnamed += !rank->number_is_given;
    cut += rank->is_cut || rank->is_killed;
  }
  if (world > r->s->count)
    tg__table_note(out,
                   "ranks here: %u of %lld; what the others did is not known, and waiting is counted only among these",
                   (unsigned)r->s->count, (long long)world);
  if (unnamed && r->s->count > 1)
    tg__table_note(
        out, "files that do not say which rank they are (distributedInfo), numbered in the order of their names: %u",
        (unsigned)unnamed);
  if (cut)
    tg__table_note(out, "ranks that ended before their time (cut or killed), counted with what they had recorded: %u",
                   (unsigned)cut);
}

/* Clocks may be a microsecond apart, or hours. */
static const char *write_time(int64_t ns, char buf[32]) {
  if (ns < 1000)
    snprintf(buf, 32, "%lld ns", (long long)ns);
  else if (ns < 10 * 1000000)
    snprintf(buf, 32, "%.1f us", (double)ns / 1e3);
  else if (ns < 10 * (int64_t)1000000000)
    snprintf(buf, 32, "%.1f ms", (double)ns / 1e6);
  else
    snprintf(buf, 32, "%.1f s", (double)ns / 1e9);
  return buf;
}

static void note_clocks(const struct tg__ranks *r, struct tg_table *out) {
  int64_t most = 0, spread = 0;
  char by[32], within[32];
  uint32_t aligned = 0, unaligned = 0, astray = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    const struct tg__clock *const c = &r->clocks[i];
    if (c->is_aligned && c->collectives == 0) continue; /* the reference */
    aligned += c->is_aligned;
    unaligned += !c->is_aligned;
    astray += c->is_aligned && c->low_ns > c->high_ns;
    if (c->is_aligned && llabs(c->offset_ns) > most) most = llabs(c->offset_ns);
    if (c->is_aligned && c->spread_ns > spread) spread = c->spread_ns;
  }
  if (aligned)
    tg__table_note(out,
                   "clocks are aligned on the ends of collectives: by up to %s, half of the ends within %s (the "
                   "question clocks says more)",
                   write_time(most, by), write_time(spread, within));
  if (astray)
    tg__table_note(out,
                   "ranks on which a collective ends before it began on another, whatever the clocks: %u; not all that "
                   "is matched here is one "
                   "collective, and waits are not to be trusted",
                   (unsigned)astray);
  if (aligned && unaligned)
    tg__table_note(out, "ranks without a collective to align their clock, taken as the files say: %u",
                   (unsigned)unaligned);
  if (r->clock_sets > 1)
    tg__table_note(out,
                   "sets of ranks that share no collective with one another: %u; clocks are aligned within each, and "
                   "between them taken as the files say",
                   (unsigned)r->clock_sets);
}

/* Number of the step in which a rank asked for its part; -1 when there is none that is numbered. */
static int64_t step_of(const struct tg__ranks *r, const struct tg__part *p) {
  const struct tg__rank_summary *const rank = &r->s->ranks[p->rank];
  const uint32_t step = rank->collectives[p->index].step;
  return step == TG_NONE ? -1 : rank->steps[step].number;
}

/* Recordings that began at different iterations, or loops that count differently: numbers do not say which steps
 * belong together. */
static void note_steps(const struct tg__ranks *r, struct tg_table *out) {
  int64_t known = 0, astray = 0;
  for (size_t i = 0; i < r->match_count; i++) {
    const struct tg__match *const m = &r->matches[i];
    const int64_t first = step_of(r, &r->parts[m->first]);
    bool numbered = first >= 0, apart = false;
    for (uint32_t k = 1; k < m->count; k++) {
      const int64_t other = step_of(r, &r->parts[m->first + k]);
      numbered &= other >= 0;
      apart |= other != first;
    }
    if (!tg__match_is_shared(m) || !numbered) continue;
    known++;
    astray += apart;
  }
  if (2 * astray > known) /* a few at the edges of steps are nothing */
    tg__table_note(out,
                   "the steps of the ranks do not line up: %lld of %lld collectives join steps of different numbers, "
                   "so equal numbers "
                   "are not the same step",
                   (long long)astray, (long long)known);
}

void tg__ranks_note(const struct tg__ranks *r, struct tg_table *out) {
  int64_t bare = 0, dropped = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    bare += r->s->ranks[i].bare_requests;
    dropped += r->s->ranks[i].dropped;
  }
  note_ranks(r, out);
  note_steps(r, out);
  if (r->s->count > 1) note_clocks(r, out);
  if (r->by_order && r->s->count > 1)
    tg__table_note(out,
                   "the trace does not number its collectives: the n-th of its kind in a group is taken for the n-th "
                   "of every rank%s",
                   r->uneven ? ", within a step where the ranks do not have equally many" : "");
  if (r->differing)
    tg__table_note(out,
                   "collectives that are larger on one rank than on another, so not the same one; their waiting is "
                   "not known: %lld",
                   (long long)r->differing);
  if (r->unclear)
    tg__table_note(out,
                   "sends and receives of which the trace does not say which belong together; their waiting is "
                   "not known: %lld",
                   (long long)r->unclear);
  if (r->crossed)
    tg__table_note(out,
                   "the ranks do not call the same collectives in the same order: numbers of a group that stand for "
                   "one kind on some ranks and "
                   "for another elsewhere: %lld",
                   (long long)r->crossed);
  if (r->sized)
    tg__table_note(out, "collectives with ranks that state groups of different size: %lld", (long long)r->sized);
  if (r->crowded)
    tg__table_note(out,
                   "collectives in which more files take part than their group has ranks: %lld; files of several runs, "
                   "or of one rank twice, "
                   "lie together",
                   (long long)r->crowded);
  if (bare)
    tg__table_note(out, "collectives that were launched and have no kernel in the trace, left out: %lld",
                   (long long)bare);
  if (dropped) tg__table_note(out, "rows beyond what is kept of one rank, left out: %lld", (long long)dropped);
}
