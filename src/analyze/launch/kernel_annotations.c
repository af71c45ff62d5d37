/* The question kernel_annotations: each kernel, copy and memset with the user annotation it belongs to.
 *
 * side=gpu: of the annotations the profiler copied onto the same stream, the shortest that shares time with it.
 * side=cpu: the innermost one around the host call that launched it. */
#include "analyze/launch/kernel_annotations.h"
#include "analyze/names/by_class.h"
#include "analyze/names/short_name.h"

enum by { BY_KERNEL, BY_ANNOTATION };

struct group {         /* by=annotation */
  uint32_t rank, name; /* string id, TG_NONE: work without an annotation */
  struct tg__stats stats;
};
struct work {
  const struct tg__columns *t;
  const struct tg__ask *a;
  enum by by;
  struct tg__piece_list pieces; /* of one rank */
  struct group *groups;
  size_t count, cap;
  const struct tg__track *track; /* of the piece before */
  struct tg__out text;
  struct tg__map shorts; /* string id → text of the table: the short form */
};

struct exact { /* annotations by the exact rules */
  const struct tg__columns *t;
  const struct tg__ask *a;
  bool cpu;
  uint32_t *around;              /* side=cpu: by slice, see find_around */
  struct tg__piece_list *pieces; /* of the rank that is looked at */
  bool *any;                     /* there are annotations */
};

/* ---- annotations of the device --------------------------------------------------------------- */

static bool add_piece(struct exact *x, uint32_t slice, uint32_t label) {
  const int64_t start = x->t->slices.start_ns[slice], dur = x->t->slices.dur_ns[slice];
  struct tg__piece_list *l = x->pieces;
  if (l->count == l->cap && !tg__grow((void **)&l->items, &l->cap, l->count + 1, sizeof *l->items)) return false;
  l->items[l->count++] = (struct tg__piece){slice, label, start, start + (dur ? dur : 1), dur};
  return true;
}

/* The part of a list that lies on one track, taken off its front: tracks come in order, and the list is of their
 * rank. */
static struct tg__names_listed take_annotation(struct tg__names_listed *list, const struct tg__track *track) {
  struct tg__names_listed part = {.slices = list->slices};
  while (part.count < list->count && part.slices[part.count] < track->first + track->count) part.count++;
  list->slices += part.count;
  list->count -= part.count;
  return part;
}

/* Of one stream. step= leaves out pieces, never annotations. */
static bool annotate_track(struct exact *x, uint32_t track, struct tg__names_listed work,
                           struct tg__names_listed annotations) {
  const struct tg__columns *t = x->t;
  const size_t first = x->pieces->count;
  struct tg__label *labels = annotations.count ? tg__realloc(NULL, annotations.count * sizeof *labels) : NULL;
  bool ok = labels || !annotations.count;
  for (size_t i = 0; ok && i < annotations.count; i++) {
    const uint32_t slice = annotations.slices[i];
    labels[i] = (struct tg__label){slice, t->slices.start_ns[slice], tg__slice_end(t, slice)};
  }
  for (size_t i = 0; ok && i < work.count; i++)
    if (tg__ask_has_slice(x->a, t, track, work.slices[i])) ok = add_piece(x, work.slices[i], TG_NONE);
  *x->any |= annotations.count > 0;
  if (ok && annotations.count)
    ok = tg__label_pieces(x->pieces->items + first, x->pieces->count - first, labels, annotations.count);
  tg__free(labels);
  return ok;
}

static bool annotate_by_device(struct exact *x, uint32_t rank) {
  const struct tg__rank *r = &x->t->ranks[rank];
  struct tg__names_listed work, annotations;
  bool ok = tg__names_listed(x->t, TG__LIST_WORK, rank, &work) &&
            tg__names_listed(x->t, TG__LIST_GPU_ANNOTATIONS, rank, &annotations);
  for (uint32_t k = r->first_track; ok && k < r->first_track + r->track_count; k++) {
    const struct tg__names_listed pieces = take_annotation(&work, &x->t->tracks[k]);
    ok = annotate_track(x, k, pieces, take_annotation(&annotations, &x->t->tracks[k]));
  }
  return ok;
}

/* ---- annotations of the CPU ------------------------------------------------------------------ */

/* Per slice of the host the innermost annotation around it, or itself. */
static void find_around(struct exact *x, const struct tg__rank *r, uint32_t *around) {
  TG__EACH (k, tg__tracks_of(r)) {
    TG__EACH (i, tg__slices_of(&x->t->tracks[k])) {
      const uint32_t up = x->t->slices.parent[i]; /* stands before its children */
      const bool own = tg__slice_class(x->t, i) == TG__CLASS_ANNOTATION;
      *x->any |= own;
      around[i] = own ? i : up == TG_NONE ? TG_NONE : around[up];
    }
  }
}

static bool annotate_by_host(struct exact *x, const struct tg__rank *r, uint32_t *around) {
  const uint32_t *cause = x->t->slices.cause;
  find_around(x, r, around);
  TG__EACH (k, tg__tracks_of(r)) {
    TG__EACH (i, tg__slices_of(&x->t->tracks[k])) {
      if (!tg__class_is_device_work(tg__slice_class(x->t, i)) || !tg__ask_has_slice(x->a, x->t, k, i)) continue;
      uint32_t label = cause[i] == TG_NONE ? TG_NONE : around[cause[i]];
      if (label == TG_NONE && cause[i] != TG_NONE && cause[cause[i]] != TG_NONE) label = around[cause[cause[i]]];
      if (!add_piece(x, i, label)) return false;
    }
  }
  return true;
}

static bool annotate_exactly(void *ctx, uint32_t rank, struct tg__piece_list *out, bool *any) {
  struct exact *const x = ctx;
  x->pieces = out;
  x->any = any;
  const bool ok = x->cpu ? annotate_by_host(x, &x->t->ranks[rank], x->around) : annotate_by_device(x, rank);
  x->pieces = NULL; /* both are the caller's */
  x->any = NULL;
  return ok;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The short form of a name of the trace; TG_NONE = unknown. */
static void put_short(struct work *w, uint32_t string_id, struct tg_table *out) {
  if (string_id == TG_NONE) {
    tg__put_null(out);
    return;
  }
  uint32_t *known = tg__map_slot(&w->shorts, string_id, TG_NONE);
  if (!known) {
    out->failed = true;
    return;
  }
  if (*known == TG_NONE) {
    const struct tg__str name = tg__name(w->t, string_id);
    w->text.len = 0;
    char *buf = tg__out_reserve(&w->text, (size_t)name.len + 1);
    const struct tg__str text = buf ? tg__short_name(name, buf) : name;
    *known = tg__strings_add(out->strings, text.ptr, text.len);
    out->failed |= *known == TG_NONE;
  }
  tg__put_text_id(out, *known);
}

/* Texts and their short forms are not looked up where they were not asked for. */
static void put_annotation_name(struct work *w, uint32_t string_id, struct tg_table *out) {
  for (unsigned is_short = 0; is_short < 2; is_short++) {
    if (out->columns[out->cell].is_left_out)
      tg__put_null(out);
    else if (is_short)
      put_short(w, string_id, out);
    else
      tg__put_trace_text(out, w->t, string_id);
  }
}

static void put_piece(struct work *w, uint32_t rank, const struct tg__piece *p, struct tg_table *out) {
  const struct tg__slices *s = &w->t->slices;
  if (!w->track || p->slice - w->track->first >= w->track->count)
    w->track = &w->t->tracks[tg__slice_track(w->t, p->slice)];
  const struct tg__track *track = w->track;
  tg__put_rank(out, w->t, rank);
  put_annotation_name(w, p->label == TG_NONE ? TG_NONE : s->name[p->label], out);
  put_annotation_name(w, s->name[p->slice], out);
  tg__put_int(out, track->device < 0 ? TG_NULL_INT : track->device);
  tg__put_int(out, track->stream < 0 ? TG_NULL_INT : track->stream);
  tg__put_int(out, 1);
  tg__put_int(out, p->dur_ns);
  tg__put_real(out, (double)p->dur_ns);
  tg__put_int(out, p->slice);
  tg__put_int(out, s->start_ns[p->slice]);
  tg__put_int(out, p->label == TG_NONE ? TG_NULL_INT : p->label);
}

static bool group_pieces(struct work *w, uint32_t rank) {
  struct tg__map known = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < w->pieces.count; i++) {
    const struct tg__piece *p = &w->pieces.items[i];
    const uint32_t name = p->label == TG_NONE ? TG_NONE : w->t->slices.name[p->label];
    uint32_t *slot = tg__map_slot(&known, name, TG_NONE);
    ok = slot != NULL;
    if (ok && *slot == TG_NONE) {
      ok = tg__grow((void **)&w->groups, &w->cap, w->count + 1, sizeof *w->groups);
      if (!ok) break;
      w->groups[w->count] = (struct group){.rank = rank, .name = name};
      *slot = (uint32_t)w->count++;
    }
    if (ok) tg__stats_add(&w->groups[*slot].stats, p->dur_ns);
  }
  tg__map_free(&known);
  return ok;
}

static bool group_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct group *x = &w->groups[a], *y = &w->groups[b];
  if (x->rank != y->rank) return x->rank < y->rank;
  if (x->stats.sum != y->stats.sum) return x->stats.sum > y->stats.sum;
  if (x->name == TG_NONE || y->name == TG_NONE) return x->name != TG_NONE;
  return tg__str_cmp(tg__name(w->t, x->name), tg__name(w->t, y->name)) < 0;
}

static bool put_annotation_groups(struct work *w, struct tg_table *out) {
  uint32_t *order = tg__order_new(w->count, group_before, w);
  const bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->count; i++) {
    const struct group *g = &w->groups[order[i]];
    tg__put_rank(out, w->t, g->rank);
    tg__put_trace_text(out, w->t, g->name);
    put_short(w, g->name, out);
    for (int k = 0; k < 4; k++) tg__put_null(out); /* kernel, its short name, device, stream */
    tg__put_int(out, g->stats.count);
    tg__put_int(out, g->stats.sum);
    tg__put_real(out, tg__stats_mean(&g->stats));
    for (int k = 0; k < 3; k++) tg__put_null(out); /* single events */
  }
  tg__free(order);
  return ok;
}

static bool answer_annotation(struct work *w, const struct tg__annotator *annotator, bool *any, struct tg_table *out) {
  bool ok = true;
  for (uint32_t r = 0; ok && r < w->t->rank_count; r++) {
    if (!tg__ask_has_rank(w->a, r)) continue;
    w->pieces.count = 0;
    ok = annotator->annotate(annotator->ctx, r, &w->pieces, any);
    if (ok && w->by == BY_ANNOTATION) ok = group_pieces(w, r);
    for (size_t i = 0; ok && w->by == BY_KERNEL && i < w->pieces.count; i++) put_piece(w, r, &w->pieces.items[i], out);
  }
  return ok && put_annotation_groups(w, out) && !w->text.err;
}

enum tg_err tg__kernel_annotations(const struct tg__columns *t, const struct tg__ask *a,
                                   const struct tg__annotator *annotator, struct tg_table *out, struct tg_error *e) {
  static const char *const bys[] = {[BY_KERNEL] = "kernel", [BY_ANNOTATION] = "annotation"};
  size_t by;
  bool any = false;
  enum tg_err err = tg__ask_choice(a, "by", bys, 2, &by, e);
  if (err) return err;
  struct work w = {.t = t, .a = a, .by = (enum by)by};
  if (!answer_annotation(&w, annotator, &any, out)) err = tg__no_memory(e, "looking for the annotations of kernels");
  if (!err && !any) err = tg__fail(e, TG_NO_DATA, -1, "%s", annotator->missing);
  tg__free(w.pieces.items);
  tg__free(w.groups);
  tg__out_free(&w.text);
  tg__map_free(&w.shorts);
  return err;
}

enum tg_err tg__answer_kernel_annotations(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                          struct tg_error *e) {
  static const char *const sides[] = {"gpu", "cpu"};
  size_t cpu;
  enum tg_err err = tg__ask_choice(a, "side", sides, 2, &cpu, e);
  if (err) return err;
  struct exact x = {.t = t, .a = a, .cpu = cpu};
  const struct tg__annotator annotator = {annotate_exactly, &x,
                                          cpu ? "the trace holds no user annotation: wrap parts of the program in "
                                                "torch.profiler.record_function(\"name\")"
                                              : TG__NO_DEVICE_ANNOTATIONS};
  if (cpu) x.around = tg__alloc(((size_t)t->slices.count + 1) * sizeof *x.around);
  err = cpu && !x.around ? tg__no_memory(e, "looking for the annotations of kernels")
                         : tg__kernel_annotations(t, a, &annotator, out, e);
  tg__free(x.around);
  return err;
}
