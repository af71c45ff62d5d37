/* The question op_kernels: operators with the device work they launched, as sequences, and how long it took to begin.
 *
 * Device work belongs to the operator of its host call, whatever call that was. */
#include "analyze/launch/op_kernels.h"

struct tg__op_row {
  uint32_t rank, name, sequence, first; /* first: slice of the earliest call */
  int64_t calls, sequences, kernels, op_ns, device_ns, launch_delay_ns, runtime_delay_ns;
};
/* ---- calls ----------------------------------------------------------------------------------- */

struct tg__op_call *tg__op_calls_at(struct tg__op_calls *c, uint64_t key, uint32_t *number) {
  uint32_t *slot = tg__map_slot(&c->of, key, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&c->calls, &c->cap, c->count + 1, sizeof *c->calls)) return NULL;
    c->calls[c->count] = (struct tg__op_call){.op = TG_NONE};
    *slot = (uint32_t)c->count++;
  }
  *number = *slot;
  return &c->calls[*slot];
}

void tg__op_calls_free(struct tg__op_calls *c) {
  tg__launched_free(&c->work);
  tg__free(c->calls);
  tg__map_free(&c->of);
  *c = (struct tg__op_calls){0};
}

static bool add_device_work(const struct tg__op_kernels *w, uint32_t slice, struct tg__op_calls *c) {
  const struct tg__slices *s = &w->t->slices;
  const uint32_t launch = s->cause[slice];
  if (launch == TG_NONE) return c->unlinked++, true;
  const uint32_t op = s->cause[launch];
  if (op == TG_NONE) return c->outside++, true;
  uint32_t number;
  struct tg__op_call *call = tg__op_calls_at(c, op, &number);
  if (!call) return false;
  *call = (struct tg__op_call){op, s->start_ns[op], s->dur_ns[op]};
  return tg__launched_add(&c->work, &(struct tg__launched){.owner = number,
                                                           .name = s->name[slice],
                                                           .tie = s->args[slice],
                                                           .at_ns = s->start_ns[launch],
                                                           .then_ns = s->start_ns[slice],
                                                           .launch_ns = s->start_ns[launch],
                                                           .start_ns = s->start_ns[slice],
                                                           .dur_ns = s->dur_ns[slice]});
}

static bool collect(const struct tg__op_kernels *w, uint32_t rank, struct tg__op_calls *c) {
  const struct tg__rank *r = &w->t->ranks[rank];
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &w->t->tracks[k];
    TG__EACH (i, tg__slices_of(track)) {
      if (!tg__class_is_device_work(tg__slice_class(w->t, i)) || !tg__ask_has_slice(w->a, w->t, k, i)) continue;
      if (!add_device_work(w, i, c)) return false;
    }
  }
  return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct tg__op_row *row_at(struct tg__op_kernels *w, struct tg__map *rows, uint32_t name, uint32_t sequence,
                                 uint32_t rank) {
  uint32_t *slot = tg__map_slot(rows, (uint64_t)name << 32 | sequence, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
    w->rows[w->count] = (struct tg__op_row){.rank = rank, .name = name, .sequence = sequence, .first = TG_NONE};
    *slot = (uint32_t)w->count++;
  }
  return &w->rows[*slot];
}

static void add_call(const struct tg__op_kernels *w, struct tg__op_row *r, const struct tg__op_calls *c,
                     const struct tg__launched_run *run) {
  const struct tg__op_call *call = &c->calls[run->owner];
  const struct tg__launched *first = &c->work.items[c->work.order[run->first]];
  if (r->first == TG_NONE || call->start_ns < w->t->slices.start_ns[r->first]) r->first = call->op;
  r->calls++;
  r->kernels += run->count;
  r->op_ns += call->dur_ns;
  r->launch_delay_ns += first->launch_ns - call->start_ns;
  r->runtime_delay_ns += first->start_ns - first->launch_ns;
  for (uint32_t i = 0; i < run->count; i++) r->device_ns += c->work.items[c->work.order[run->first + i]].dur_ns;
}

/* Rows of one operator become one. */
static bool merge_sequences(struct tg__op_kernels *w, size_t from, uint32_t rank) {
  struct tg__map of_name = {0};
  const size_t end = w->count;
  size_t kept = from;
  bool ok = true;
  for (size_t i = from; i < end && ok; i++) {
    const struct tg__op_row r = w->rows[i];
    uint32_t *slot = tg__map_slot(&of_name, r.name, (uint32_t)kept);
    if (!slot)
      ok = false;
    else if (*slot == kept)
      w->rows[kept++] = (struct tg__op_row){.rank = rank, .name = r.name, .sequence = TG_NONE, .first = r.first};
    if (!ok) break;
    struct tg__op_row *sum = &w->rows[*slot];
    if (w->t->slices.start_ns[r.first] < w->t->slices.start_ns[sum->first]) sum->first = r.first;
    sum->sequences++;
    sum->calls += r.calls;
    sum->kernels += r.kernels;
    sum->op_ns += r.op_ns;
    sum->device_ns += r.device_ns;
    sum->launch_delay_ns += r.launch_delay_ns;
    sum->runtime_delay_ns += r.runtime_delay_ns;
  }
  w->count = kept;
  tg__map_free(&of_name);
  return ok;
}

bool tg__op_kernels_group(struct tg__op_kernels *w, struct tg__op_calls *c, uint32_t rank) {
  struct tg__map rows = {0};
  const size_t from = w->count;
  bool ok = tg__launched_sort(&c->work);
  for (size_t i = 0; i < c->work.run_count && ok; i++) {
    const struct tg__launched_run *run = &c->work.runs[i];
    const struct tg__op_call *call = &c->calls[run->owner];
    const uint32_t sequence = tg__sequences_find(&w->sequences, &c->work, run);
    /* by=call: the call's own number keeps it apart */
    struct tg__op_row *r =
        sequence == TG_NONE
            ? NULL
            : row_at(w, &rows, w->by == TG__BY_CALL ? run->owner : w->t->slices.name[call->op], sequence, rank);
    ok = r != NULL;
    if (!ok) break;
    r->name = w->t->slices.name[call->op];
    r->sequences = 1;
    add_call(w, r, c, run);
  }
  if (ok && w->by == TG__BY_OP) ok = merge_sequences(w, from, rank);
  tg__map_free(&rows);
  return ok;
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool op_kernels_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__op_kernels *w = ctx;
  const struct tg__op_row *x = &w->rows[a], *y = &w->rows[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (w->by != TG__BY_CALL && x->calls != y->calls) return x->calls > y->calls;
  if (w->by != TG__BY_CALL && x->device_ns != y->device_ns) return x->device_ns > y->device_ns;
  if (w->t->slices.start_ns[x->first] != w->t->slices.start_ns[y->first])
    return w->t->slices.start_ns[x->first] < w->t->slices.start_ns[y->first];
  return w->t->slices.args[x->first] < w->t->slices.args[y->first];
}

static void put_op_kernels_row(const struct tg__op_kernels *w, const struct tg__op_row *r, struct tg__out *text,
                               struct tg_table *out) {
  tg__put_trace_text(out, w->t, r->name);
  text->len = 0;
  if (r->sequence == TG_NONE) {
    tg__put_null(out);
  } else {
    tg__sequence_text(&w->sequences, r->sequence, w->t, TG_NONE, " -> ", text);
    tg__put_text(out, (struct tg__str){text->buf, (uint32_t)text->len});
  }
  tg__put_rank(out, w->t, r->rank);
  tg__put_int(out, r->calls);
  tg__put_int(out, r->sequences);
  tg__put_int(out, r->kernels);
  tg__put_int(out, r->op_ns);
  tg__put_int(out, r->device_ns);
  tg__put_real(out, (double)r->launch_delay_ns / (double)r->calls);
  tg__put_real(out, (double)r->runtime_delay_ns / (double)r->calls);
  tg__put_int(out, r->first);
  tg__put_int(out, w->t->slices.start_ns[r->first]);
}

static bool put_op_kernels_rows(struct tg__op_kernels *w, struct tg_table *out) {
  struct tg__out text = {0};
  uint32_t *order = tg__order_new(w->count, op_kernels_row_before, w);
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) {
    put_op_kernels_row(w, &w->rows[order[i]], &text, out);
    ok = text.err == TG_OK;
  }
  tg__out_free(&text);
  tg__free(order);
  return ok;
}

static void add_notes(const struct tg__op_kernels *w, const char *unlinked, struct tg_table *out) {
  if (w->unlinked) tg__table_note(out, "in no row: %s: %lld", unlinked, (long long)w->unlinked);
  if (w->outside)
    tg__table_note(out, "in no row: device work launched outside all operators: %lld", (long long)w->outside);
}

static bool add_ranks(struct tg__op_kernels *w) {
  bool ok = true;
  for (uint32_t r = 0; ok && r < w->t->rank_count; r++) {
    if (!tg__ask_has_rank(w->a, r)) continue;
    struct tg__op_calls c = {0};
    ok = collect(w, r, &c) && tg__op_kernels_group(w, &c, r);
    w->unlinked += c.unlinked;
    w->outside += c.outside;
    tg__op_calls_free(&c);
  }
  return ok;
}

enum tg_err tg__answer_op_kernels(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  static const char *const choices[] = {[TG__BY_SEQUENCE] = "sequence", [TG__BY_OP] = "op", [TG__BY_CALL] = "call"};
  static const struct tg__op_kernels_rules exact = {add_ranks, "device work without a host call"};
  const struct tg__op_kernels_rules *const rules = a->policy ? a->policy : &exact;
  size_t by;
  const enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct tg__op_kernels w = {.t = t, .a = a, .by = by};
  const bool ok = rules->add_ranks(&w) && put_op_kernels_rows(&w, out);
  if (ok) add_notes(&w, rules->unlinked, out);
  tg__sequences_free(&w.sequences);
  tg__free(w.rows);
  return ok ? TG_OK : tg__no_memory(e, "grouping device work by operator");
}
