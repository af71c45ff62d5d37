/* What a device did for a label of the program, as a span on each stream: from the first work that was launched inside
 * the label to the end of the last. Work belongs to the innermost label around its launch. As Kineto has it, a span
 * begins 1 ns before its work and ends 1 ns after. */
#include "trace/import_raw.h"

enum { EDGE_NS = 1 };

struct found {
  struct tg__raw_span *labels, *calls; /* by thread, then by time; an outer label before those in it */
  size_t label_count, call_count;
  struct tg__map label_of;  /* correlation → position in labels, of calls inside one */
  struct tg__raw_span *out; /* value = position in labels, track = the stream */
  size_t out_count, out_cap;
  struct tg__map out_of; /* label and track → position in out */
};

bool tg__raw_note_span(struct tg__raw_job *j, const struct tg__raw_record *r, const struct tg__record *record) {
  const bool is_label = r->scope == TG_RAW_USER || r->scope == TG_RAW_STEP || r->scope == TG_RAW_ANNOTATION,
             is_call = r->scope == TG_RAW_RUNTIME_CALL || r->scope == TG_RAW_DRIVER_CALL,
             is_work = r->scope >= TG_RAW_KERNEL && r->scope <= TG_RAW_FILL;
  if ((!is_label && !is_call && !is_work) || record->ts_ns == TG_NULL_INT || record->dur_ns == TG_NULL_INT) return true;
  if (!tg__grow((void **)&j->spans, &j->span_cap, j->span_count + 1, sizeof *j->spans)) return false;
  j->spans[j->span_count++] = (struct tg__raw_span){.start_ns = record->ts_ns,
                                                    .end_ns = record->ts_ns + record->dur_ns,
                                                    .track = record->track,
                                                    .value = is_label ? record->name : r->stack,
                                                    .kind = is_label  ? TG__RAW_SPAN_LABEL
                                                            : is_call ? TG__RAW_SPAN_CALL
                                                                      : TG__RAW_SPAN_WORK};
  return true;
}

static bool is_earlier(uint32_t a, uint32_t b, const void *spans) {
  const struct tg__raw_span *const x = (const struct tg__raw_span *)spans + a, *const y =
                                                                                   (const struct tg__raw_span *)spans +
                                                                                   b;
  if (x->track != y->track) return x->track < y->track;
  return x->start_ns != y->start_ns ? x->start_ns < y->start_ns : x->end_ns > y->end_ns;
}

/* The spans of a kind, in order. NULL on no memory. */
static struct tg__raw_span *select_spans(const struct tg__raw_job *jobs, size_t count, enum tg__raw_span_kind kind,
                                         size_t *selected) {
  struct tg__raw_span *all = NULL, *sorted = NULL;
  size_t n = 0, cap = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < jobs[i].span_count; k++) {
      if (jobs[i].spans[k].kind != kind) continue;
      if (!tg__grow((void **)&all, &cap, n + 1, sizeof *all)) goto done;
      all[n++] = jobs[i].spans[k];
    }
  }
  uint32_t *const order = tg__order_new(n, is_earlier, all);
  sorted = order ? tg__alloc((n + 1) * sizeof *sorted) : NULL;
  for (size_t i = 0; sorted && i < n; i++) sorted[i] = all[order[i]];
  tg__free(order);
done:
  tg__free(all);
  *selected = n;
  return sorted;
}

/* Labels of a thread nest: of those that began before a call, the last that is still open. */
static bool find_label_of_calls(struct found *f) {
  uint32_t *const open = tg__alloc((f->label_count + 1) * sizeof *open);
  size_t depth = 0, next = 0;
  bool ok = open != NULL;
  for (size_t i = 0; i < f->call_count && ok; i++) {
    const struct tg__raw_span *const call = &f->calls[i];
    for (; next < f->label_count &&
           (f->labels[next].track < call->track ||
            (f->labels[next].track == call->track && f->labels[next].start_ns <= call->start_ns));
         next++)
      open[depth++] = (uint32_t)next;
    while (depth &&
           (f->labels[open[depth - 1]].track != call->track || f->labels[open[depth - 1]].end_ns < call->start_ns))
      depth--;
    if (depth) ok = tg__map_put(&f->label_of, call->value, open[depth - 1]);
  }
  tg__free(open);
  return ok;
}

static bool widen(struct found *f, const struct tg__raw_span *work) {
  const uint32_t label = tg__map_get(&f->label_of, work->value);
  if (label == TG_NONE) return true;
  const uint64_t key = (uint64_t)label << 32 | work->track;
  const uint32_t at = tg__map_get(&f->out_of, key);
  if (at != TG_NONE) {
    struct tg__raw_span *const s = &f->out[at];
    if (work->start_ns < s->start_ns) s->start_ns = work->start_ns;
    if (work->end_ns > s->end_ns) s->end_ns = work->end_ns;
    return true;
  }
  if (!tg__grow((void **)&f->out, &f->out_cap, f->out_count + 1, sizeof *f->out) ||
      !tg__map_put(&f->out_of, key, (uint32_t)f->out_count))
    return false;
  f->out[f->out_count++] = (struct tg__raw_span){work->start_ns, work->end_ns, work->track, label, work->kind};
  return true;
}

static bool find_spans(struct found *f, const struct tg__raw_job *jobs, size_t count) {
  f->labels = select_spans(jobs, count, TG__RAW_SPAN_LABEL, &f->label_count);
  f->calls = select_spans(jobs, count, TG__RAW_SPAN_CALL, &f->call_count);
  if (!f->labels || !f->calls || !find_label_of_calls(f)) return false;
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < jobs[i].span_count; k++)
      if (jobs[i].spans[k].kind == TG__RAW_SPAN_WORK && !widen(f, &jobs[i].spans[k])) return false;
  }
  return true;
}

static void add_span(struct tg__raw *w, const struct found *f, const struct tg__raw_span *s) {
  int64_t start, dur;
  if (__builtin_sub_overflow(s->start_ns, EDGE_NS, &start) || __builtin_sub_overflow(s->end_ns, start, &dur) ||
      __builtin_add_overflow(dur, EDGE_NS, &dur))
    return; /* times of a damaged file */
  const struct tg__record r = {
      .ts_ns = start, .dur_ns = dur, .name = f->labels[s->value].value, .track = s->track, .ph = 'X'};
  tg__raw_add_event(w, r, "gpu_user_annotation");
}

/* Of one process after the other, as each counts its correlations from one. */
void tg__raw_label_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  for (size_t from = 0, to; from < count && w->launch_count && !w->no_memory; from = to) {
    struct found f = {0};
    for (to = from; to < count && jobs[to].file == jobs[from].file;) to++;
    w->no_memory = !find_spans(&f, jobs + from, to - from);
    for (size_t i = 0; i < f.out_count && !w->no_memory; i++) add_span(w, &f, &f.out[i]);
    tg__free(f.labels);
    tg__free(f.calls);
    tg__free(f.out);
    tg__map_free(&f.label_of);
    tg__map_free(&f.out_of);
  }
}
