/* What a label of the program made devices do: one span on each stream, from the first to the last work that was
 * launched while the label was the innermost one open on the launching thread. As Kineto writes it, 1 ns longer at
 * both ends, so that it lies around its work. */
#include "trace/import_raw.h"

enum { AROUND_NS = 1 };

void tg__raw_note_label(struct tg__raw_job *j, const struct tg__raw_record *r, const struct tg__record *record) {
  const bool is_label = r->scope == TG_RAW_USER || r->scope == TG_RAW_STEP || r->scope == TG_RAW_ANNOTATION ||
                        r->scope == TG_RAW_NVTX_RANGE,
             is_call = r->scope == TG_RAW_RUNTIME_CALL || r->scope == TG_RAW_DRIVER_CALL,
             is_work = r->scope == TG_RAW_KERNEL || r->scope == TG_RAW_COPY || r->scope == TG_RAW_FILL;
  struct tg__raw_point p = {.start_ns = record->ts_ns, .track = record->track};
  if (!j->raw->launch_count || !(is_label || is_call || is_work) || (is_label && r->flags & TG_RAW_F_ASYNC)) return;
  if (record->ts_ns == TG_NULL_INT || record->dur_ns < 0 ||
      __builtin_add_overflow(record->ts_ns, record->dur_ns, &p.end_ns))
    return;
  p.kind = is_label ? TG__RAW_LABEL : is_call ? TG__RAW_CALL : TG__RAW_WORK;
  p.name = is_label ? record->name : r->stack;
  if (!tg__grow((void **)&j->points, &j->point_cap, j->point_count + 1, sizeof *j->points)) {
    j->no_memory = true;
    return;
  }
  j->points[j->point_count++] = p;
}

/* ---- of one file ----------------------------------------------------------------------------- */

struct span {
  int64_t start_ns, end_ns;
  uint32_t label, track;
};
struct labels {
  struct tg__raw_point *points;
  size_t count, cap;
  uint32_t *order;   /* labels and calls by thread and start, then the works */
  uint32_t *outer;   /* by point: the label around a label */
  struct tg__map of; /* correlation → label of the call, by point */
  struct span *spans;
  size_t span_count, span_cap;
  struct tg__map span_of; /* label and track → its span */
};

static bool gather(struct labels *l, const struct tg__raw_job *j) {
  if (!j->point_count) return true;
  if (!tg__grow((void **)&l->points, &l->cap, l->count + j->point_count, sizeof *l->points)) return false;
  memcpy(l->points + l->count, j->points, j->point_count * sizeof *l->points);
  l->count += j->point_count;
  return true;
}

static bool point_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__raw_point *const x = (const struct tg__raw_point *)ctx + a, *const y =
                                                                                   (const struct tg__raw_point *)ctx +
                                                                                   b;
  const bool x_works = x->kind == TG__RAW_WORK, y_works = y->kind == TG__RAW_WORK;
  if (x_works != y_works) return y_works;
  if (x->track != y->track) return x->track < y->track;
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns;
  if (x->kind != y->kind) return x->kind < y->kind; /* a label is around a call that begins with it */
  return x->end_ns > y->end_ns;
}

/* Which label each call was made in. How many points are labels and calls: the works lie behind them. */
static bool find_labels(struct labels *l, size_t *hosts) {
  uint32_t top = TG_NONE;
  size_t k = 0;
  for (; k < l->count && l->points[l->order[k]].kind != TG__RAW_WORK; k++) {
    const uint32_t at = l->order[k];
    const struct tg__raw_point *const p = &l->points[at];
    while (top != TG_NONE && (l->points[top].track != p->track || l->points[top].end_ns < p->start_ns))
      top = l->outer[top];
    if (p->kind == TG__RAW_LABEL) {
      l->outer[at] = top;
      top = at;
    } else if (top != TG_NONE && p->name && !tg__map_put(&l->of, p->name, top)) {
      return false;
    }
  }
  *hosts = k;
  return true;
}

static struct span *span_of(struct labels *l, uint32_t label, uint32_t track) {
  const uint64_t key = (uint64_t)label << 32 | track;
  const uint32_t known = tg__map_get(&l->span_of, key);
  if (known != TG_NONE) return &l->spans[known];
  if (!tg__grow((void **)&l->spans, &l->span_cap, l->span_count + 1, sizeof *l->spans) ||
      !tg__map_put(&l->span_of, key, (uint32_t)l->span_count))
    return NULL;
  l->spans[l->span_count] = (struct span){INT64_MAX, INT64_MIN, label, track};
  return &l->spans[l->span_count++];
}

static bool make_spans(struct labels *l, size_t hosts) {
  for (size_t k = hosts; k < l->count; k++) {
    const struct tg__raw_point *const p = &l->points[l->order[k]];
    const uint32_t label = tg__map_get(&l->of, p->name);
    struct span *const s = label == TG_NONE ? NULL : span_of(l, label, p->track);
    if (!s && label != TG_NONE) return false;
    if (!s) continue;
    if (p->start_ns < s->start_ns) s->start_ns = p->start_ns;
    if (p->end_ns > s->end_ns) s->end_ns = p->end_ns;
  }
  return true;
}

static void put_spans(struct tg__raw *w, const struct labels *l) {
  for (size_t i = 0; i < l->span_count && !w->no_memory; i++) {
    const struct span *const s = &l->spans[i];
    struct tg__record r = {.name = l->points[s->label].name, .track = s->track, .ph = 'X'};
    int64_t end_ns;
    if (__builtin_sub_overflow(s->start_ns, AROUND_NS, &r.ts_ns) ||
        __builtin_add_overflow(s->end_ns, AROUND_NS, &end_ns) || __builtin_sub_overflow(end_ns, r.ts_ns, &r.dur_ns))
      continue;
    tg__row_value(w->parser, TG__K_DERIVED, TG__KIND_TRUE, 0, false);
    tg__raw_add_event(w, r, "gpu_user_annotation");
  }
}

/* Chunks of a file lie together: correlation ids are of a process. */
void tg__raw_label_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  for (size_t i = 0; i < count && !w->no_memory;) {
    const struct tg__raw_file *const file = jobs[i].file;
    struct labels l = {0};
    size_t hosts;
    bool ok = true;
    for (; i < count && jobs[i].file == file; i++) ok = ok && gather(&l, &jobs[i]);
    if (ok && l.count) {
      l.order = tg__order_new(l.count, point_before, l.points);
      l.outer = tg__alloc(l.count * sizeof *l.outer);
      ok = l.order && l.outer && find_labels(&l, &hosts) && make_spans(&l, hosts);
      if (ok) put_spans(w, &l);
    }
    if (!ok) w->no_memory = true;
    tg__free(l.points);
    tg__free(l.order);
    tg__free(l.outer);
    tg__free(l.spans);
    tg__map_free(&l.of);
    tg__map_free(&l.span_of);
  }
}
