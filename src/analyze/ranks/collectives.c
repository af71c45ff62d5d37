/* collectives: the question collectives. Rows are sums over parts, a part being what one rank does in one
 * collective. */
#include "analyze/ranks/collectives.h"

#include <math.h>

struct row {
  uint32_t rank, kind, group, step; /* TG_NONE = several */
  int64_t step_number;
  int64_t calls, missing, bytes, start_ns, skew_ns, total_ns, wait_ns, transfer_ns, parts, sequence, last_calls;
  bool has_bytes, has_missing, has_wait;
  uint32_t seen; /* the match that was counted last, + 1: a call is counted once however many parts it has */
  uint32_t most_ranks;
};
struct answer {
  const struct tg__ranks *r;
  struct tg_table *out;
  struct row *rows;
  size_t count, cap;
  struct tg__map index; /* key of a row → row */
  uint32_t *lasts;      /* per row and rank: how often it came last; while rows are few */
  size_t last_rows, last_cap;
  bool failed;
};

static const struct tg__sum_collective *collective_of(const struct tg__ranks *r, const struct tg__part *p) {
  return &r->s->ranks[p->rank].collectives[p->index];
}

static int64_t step_number(const struct tg__ranks *r, const struct tg__part *p) {
  const struct tg__sum_collective *const c = collective_of(r, p);
  return c->step == TG_NONE ? -1 : r->s->ranks[p->rank].steps[c->step].number;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row *new_row(struct answer *w, const struct tg__match *m) {
  if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) {
    w->failed = true;
    return NULL;
  }
  struct row *const row = &w->rows[w->count++];
  *row = (struct row){
      .rank = TG_NONE, .kind = m->kind, .group = TG_NONE, .step_number = -1, .start_ns = INT64_MAX, .sequence = -1};
  return row;
}

static struct row *find_collective_row(struct answer *w, const struct tg__match *m, uint64_t key) {
  uint32_t *const at = tg__map_slot(&w->index, key, TG_NONE);
  if (!at) w->failed = true;
  if (!at || *at != TG_NONE) return at ? &w->rows[*at] : NULL;
  *at = (uint32_t)w->count;
  return new_row(w, m);
}

/* What is true of the collective, once for each row it counts in. */
static void add_match(const struct answer *w, struct row *row, size_t i) {
  const struct tg__match *const m = &w->r->matches[i];
  const struct tg__part *const parts = w->r->parts + m->first;
  int64_t bytes = -1;
  uint32_t size = 0;
  if (row->seen == (uint32_t)i + 1) return;
  row->seen = (uint32_t)i + 1;
  for (uint32_t k = 0; k < m->count; k++) {
    const struct tg__sum_collective *const c = collective_of(w->r, &parts[k]);
    if (c->bytes > bytes) bytes = c->bytes;
    if (c->group_size > size) size = c->group_size;
  }
  row->calls++;
  if (m->count > row->most_ranks) row->most_ranks = m->count;
  if (bytes >= 0) {
    row->bytes += bytes;
    row->has_bytes = true;
  }
  if (size >= m->count) {
    row->missing += size - m->count;
    row->has_missing = true;
  }
  if (tg__match_is_shared(m) && m->skew_ns > row->skew_ns) row->skew_ns = m->skew_ns;
  if (m->last_ns - m->skew_ns < row->start_ns) row->start_ns = m->last_ns - m->skew_ns;
}

static void add_part(struct row *row, const struct tg__match *m, const struct tg__part *p) {
  row->total_ns += p->end_ns - p->start_ns;
  row->parts++;
  if (!tg__match_is_shared(m)) return;
  row->wait_ns += p->wait_ns;
  row->transfer_ns += p->end_ns - p->start_ns - p->wait_ns;
  row->has_wait = true;
}

static void count_last(struct answer *w, const struct row *row, uint32_t rank) {
  const size_t at = (size_t)(row - w->rows) * w->r->s->count;
  const size_t before = w->last_cap;
  if (!tg__grow((void **)&w->lasts, &w->last_cap, at + w->r->s->count, sizeof *w->lasts)) {
    w->failed = true;
    return;
  }
  if (w->last_cap > before) memset(w->lasts + before, 0, (w->last_cap - before) * sizeof *w->lasts);
  w->lasts[at + rank]++;
}

static void most_often_last(const struct answer *w, const struct row *row, int64_t *rank, int64_t *calls) {
  const size_t at = (size_t)(row - w->rows) * w->r->s->count;
  *rank = TG_NULL_INT;
  *calls = 0;
  for (uint32_t i = 0; i < w->r->s->count && at + i < w->last_cap; i++) {
    if ((int64_t)w->lasts[at + i] <= *calls) continue;
    *calls = w->lasts[at + i];
    *rank = w->r->s->ranks[i].number;
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_text_id(const struct answer *w, uint32_t id) {
  if (id == TG_NONE)
    tg__put_cstr(w->out, "");
  else
    tg__put_text(w->out, tg__strings_get(w->r->s->strings, id));
}

static void put_maybe(struct tg_table *out, bool known, int64_t v) {
  if (known)
    tg__put_int(out, v);
  else
    tg__put_null(out);
}

static void put_collective_step(struct tg_table *out, int64_t number) {
  char text[24] = "";
  if (number >= 0) snprintf(text, sizeof text, "%lld", (long long)number);
  tg__put_cstr(out, text);
}

static void put_collective_row(struct answer *w, const struct row *row, int64_t last_rank, int64_t last_calls) {
  struct tg_table *const out = w->out;
  put_maybe(out, row->rank != TG_NONE, row->rank == TG_NONE ? 0 : w->r->s->ranks[row->rank].number);
  put_text_id(w, row->kind);
  put_text_id(w, row->group);
  put_maybe(out, row->sequence >= 0, row->sequence);
  put_collective_step(out, row->step_number);
  tg__put_int(out, row->calls);
  tg__put_int(out, row->most_ranks);
  put_maybe(out, row->has_missing, row->missing);
  put_maybe(out, row->has_bytes, row->bytes);
  tg__put_int(out, row->start_ns);
  put_maybe(out, row->has_wait, row->skew_ns);
  tg__put_int(out, last_rank);
  put_maybe(out, row->has_wait, last_calls);
  tg__put_int(out, row->total_ns);
  put_maybe(out, row->has_wait, row->wait_ns);
  put_maybe(out, row->has_wait, row->transfer_ns);
  const double transfer = row->parts ? (double)row->transfer_ns / (double)row->parts * (double)row->calls : 0;
  tg__put_real(out, row->has_bytes && row->has_wait && transfer > 0 ? (double)row->bytes / transfer : NAN);
}

static void put_collective_rows(struct answer *w) {
  for (size_t i = 0; i < w->count; i++) {
    int64_t rank, calls;
    if (w->rows[i].calls == 0) continue; /* the rank asked for has no part in it */
    most_often_last(w, &w->rows[i], &rank, &calls);
    put_collective_row(w, &w->rows[i], rank, calls);
  }
}

/* ---- the ways to group ----------------------------------------------------------------------- */

static void sum_up(struct answer *w, bool by_group) {
  for (size_t i = 0; i < w->r->match_count && !w->failed; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    const size_t before = w->count;
    struct row *const row = find_collective_row(w, m, by_group ? (uint64_t)m->group << 32 | m->kind : m->kind);
    if (!row) return;
    if (w->count > before) row->group = m->group;
    if (row->group != m->group) row->group = TG_NONE; /* of several */
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &w->r->parts[m->first + k];
      if (!tg__ranks_wanted(w->r, p->rank)) continue;
      add_match(w, row, i);
      add_part(row, m, p);
    }
    if (tg__match_is_shared(m) && row->seen == (uint32_t)i + 1) count_last(w, row, w->r->parts[m->last].rank);
  }
  put_collective_rows(w);
}

static void by_kind(struct answer *w) { sum_up(w, false); }
static void by_group(struct answer *w) { sum_up(w, true); }

static void by_collective(struct answer *w) {
  for (size_t i = 0; i < w->r->match_count && !w->failed; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    const struct tg__part *const parts = w->r->parts + m->first;
    bool wanted = false;
    for (uint32_t k = 0; k < m->count; k++) wanted |= tg__ranks_wanted(w->r, parts[k].rank);
    if (!wanted) continue;
    w->count = 0;
    struct row *const row = new_row(w, m);
    if (!row) return;
    row->group = m->group;
    row->sequence = m->sequence;
    row->step_number = step_number(w->r, &parts[0]);
    add_match(w, row, i);
    for (uint32_t k = 0; k < m->count; k++) add_part(row, m, &parts[k]);
    const bool shared = tg__match_is_shared(m);
    const int64_t last = shared ? w->r->s->ranks[w->r->parts[m->last].rank].number : TG_NULL_INT;
    put_collective_row(w, row, last, shared);
  }
}

static void by_part(struct answer *w) {
  for (size_t i = 0; i < w->r->match_count && !w->failed; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &w->r->parts[m->first + k];
      if (!tg__ranks_wanted(w->r, p->rank)) continue;
      w->count = 0;
      struct row *const row = new_row(w, m);
      if (!row) return;
      add_match(w, row, i);
      row->rank = p->rank;
      row->group = m->group;
      row->sequence = m->sequence;
      row->step_number = step_number(w->r, p);
      row->start_ns = p->start_ns;
      row->bytes = collective_of(w->r, p)->bytes;
      row->has_bytes = row->bytes >= 0;
      add_part(row, m, p);
      const bool shared = tg__match_is_shared(m);
      put_collective_row(w, row, shared ? w->r->s->ranks[w->r->parts[m->last].rank].number : TG_NULL_INT,
                         shared && m->last == m->first + k);
    }
  }
}

static bool rank_and_kind(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *const rows = ctx;
  return rows[a].rank < rows[b].rank;
}

static void by_rank(struct answer *w) {
  for (size_t i = 0; i < w->r->match_count && !w->failed; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &w->r->parts[m->first + k];
      if (!tg__ranks_wanted(w->r, p->rank)) continue;
      struct row *const row = find_collective_row(w, m, (uint64_t)p->rank << 32 | m->kind);
      if (!row) return;
      row->rank = p->rank;
      const int64_t bytes = row->bytes;
      add_match(w, row, i);
      const int64_t own = collective_of(w->r, p)->bytes;
      row->bytes = bytes + (own > 0 ? own : 0);
      add_part(row, m, p);
      row->last_calls += tg__match_is_shared(m) && m->last == m->first + k;
    }
  }
  uint32_t *const order = tg__order_new(w->count, rank_and_kind, w->rows);
  if (!order) w->failed = true;
  for (size_t i = 0; !w->failed && i < w->count; i++)
    put_collective_row(w, &w->rows[order[i]], TG_NULL_INT, w->rows[order[i]].last_calls);
  tg__free(order);
}

static void note_headline(const struct tg__ranks *r, struct tg_table *out) {
  int64_t wait = 0, transfer = 0;
  size_t matched = 0;
  for (size_t i = 0; i < r->match_count; i++) {
    const struct tg__match *const m = &r->matches[i];
    matched += tg__match_is_shared(m);
    for (uint32_t k = 0; k < m->count && tg__match_is_shared(m); k++) {
      const struct tg__part *const p = &r->parts[m->first + k];
      wait += p->wait_ns;
      transfer += p->end_ns - p->start_ns - p->wait_ns;
    }
  }
  if (wait + transfer > 0)
    tg__table_note(
        out, "%zu collective%s of several ranks: %.0f %% of the time in %s is waiting for the last one to come",
        matched, matched == 1 ? "" : "s", 100 * (double)wait / (double)(wait + transfer), matched == 1 ? "it" : "them");
}

enum tg_err tg__collectives_open(struct tg__ranks *r, const struct tg__columns *t, const struct tg__ask *a,
                                 struct tg_error *e) {
  static const char *const clocks[] = {"aligned", "files"};
  size_t clock;
  *r = (struct tg__ranks){0};
  enum tg_err err = tg__ask_choice(a, "clock", clocks, 2, &clock, e);
  if (!err) err = tg__ranks_open(r, t, a, clock == 0, e);
  for (uint32_t i = 0; !err && i < r->s->count; i++)
    if (r->s->ranks[i].collective_count || r->s->ranks[i].node_count) return TG_OK;
  return err ? err
             : tg__fail(e, TG_NO_DATA, -1,
                        "the trace holds no collectives (nccl or gloo annotations, record_param_comms, kernels of NCCL "
                        "or RCCL): record while torch.distributed is in use, all ranks into one folder");
}

enum tg_err tg__answer_collectives(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                   struct tg_error *e) {
  static const char *const groupings[] = {"kind", "group", "collective", "part", "rank", "step"};
  static void (*const answers[])(struct answer *) = {by_kind, by_group, by_collective, by_part, by_rank};
  enum { STEP = sizeof answers / sizeof *answers };
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", groupings, STEP + 1, &by, e);
  if (err) return err;
  if (by == STEP) return tg__fail(e, TG_USAGE, -1, "by=step goes only with rules=plugin; the question ranks has steps");
  struct tg__ranks r;
  err = tg__collectives_open(&r, t, a, e);
  if (!err) {
    struct answer w = {.r = &r, .out = out};
    answers[by](&w);
    note_headline(&r, out);
    tg__ranks_note(&r, out);
    if (w.failed) err = TG_MEMORY;
    tg__free(w.rows);
    tg__free(w.lasts);
    tg__map_free(&w.index);
  }
  tg__ranks_close(&r);
  return err;
}
