/* The question key_averages: the rows of torch's own summary tables, by name or one for each event. It differs from
 * ops in what has a row (everything the host did, and device work) and in what a child is (anything that runs
 * inside, on the same thread). */
#include "analyze/work/op_flops.h"
#include "analyze/host/op_group.h"
#include "analyze/host/op_tree.h"

#include <stdlib.h>

enum { MAX_THREADS = 256 }; /* that can be named */
enum { MEMORY_ROW = 4, DEVICE_ROW = 1, ANNOTATION_ROW = 2, FLAG_BITS = 3 };

struct row {
  uint32_t name, group;  /* label; group of w->group */
  uint32_t slice, track; /* of the first event; slice TG_NONE for a memory event */
  uint32_t node;         /* of the first event; TG_NONE */
  uint8_t flags;
  int64_t calls, cpu_ns, self_cpu_ns, device_ns, self_device_ns;
  int64_t bytes[2], self_bytes[2]; /* CPU, devices */
  int64_t flops, start_ns, dur_ns; /* the last two of the first event */
};

struct work {
  const struct tg__columns *t;
  const struct tg__ask *ask;
  bool by_event, python, all_processes;
  int64_t pid;
  size_t thread_count; /* 0 = all */
  int64_t threads[MAX_THREADS];
  struct tg__call_names names;
  struct tg__op_tree tree;
  struct tg__op_group group;
  struct tg__memory_events memory;
  struct tg__memory_sums bytes;
  struct tg__op_flops flops;
  struct tg__map row_of; /* (name, group, flags) → row */
  struct row *rows;
  size_t count, cap;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static bool has_thread(const struct work *w, const struct tg__track *k) {
  if (!w->thread_count || k->kind != TG__TRACK_CPU) return true;
  for (size_t i = 0; i < w->thread_count; i++)
    if (!k->tid_is_text && k->tid == w->threads[i]) return true;
  return false;
}

static bool has_track(const struct work *w, uint32_t track) {
  const struct tg__track *k = &w->t->tracks[track];
  if (!tg__ask_has_track(w->ask, w->t, track) || !has_thread(w, k)) return false;
  return w->all_processes || (!k->pid_is_text && (k->pid == w->pid || k->pid == -1)); /* -1: the collector's own work */
}

/* Was `a` before `b`? As torch orders its list: by start, of two that start together the longer one first. */
static bool is_before(const struct row *a, const struct row *b) {
  if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns;
  if (a->dur_ns != b->dur_ns) return a->dur_ns > b->dur_ns;
  return a->slice < b->slice;
}

static struct row *new_row(struct work *w, const struct row *first) {
  if (w->count == w->cap && !tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return NULL;
  w->rows[w->count] = *first;
  return &w->rows[w->count++];
}

/* The row an event belongs to, made when it is the first of its kind. */
static struct row *find_average_row(struct work *w, const struct row *event) {
  if (w->by_event) return new_row(w, event);
  if (event->group >> (32 - FLAG_BITS)) return NULL;
  uint32_t *slot =
      tg__map_slot(&w->row_of, (uint64_t)event->name << 32 | event->group << FLAG_BITS | event->flags, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    *slot = (uint32_t)w->count;
    return new_row(w, event);
  }
  struct row *r = &w->rows[*slot];
  if (is_before(event, r)) {
    r->slice = event->slice;
    r->track = event->track;
    r->node = event->node;
    r->start_ns = event->start_ns;
    r->dur_ns = event->dur_ns;
  }
  return r;
}

static bool is_annotation(enum tg__class cls) { return cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_GPU_ANNOTATION; }

static bool count_host(struct work *w, uint32_t track, uint32_t node) {
  const struct tg__columns *t = w->t;
  const struct tg__op_node *n = &w->tree.nodes[node];
  const enum tg__class cls = tg__slice_class(t, n->slice);
  if (cls == TG__CLASS_PYTHON && !w->python) return true;
  struct row *r = find_average_row(w, &(struct row){.name = tg__call_name(&w->names, n->slice),
                                                    .group = w->group.count ? tg__op_group_of(&w->group, node) : 0,
                                                    .flags = is_annotation(cls) ? ANNOTATION_ROW : 0,
                                                    .slice = n->slice,
                                                    .track = track,
                                                    .node = node,
                                                    .start_ns = t->slices.start_ns[n->slice],
                                                    .dur_ns = t->slices.dur_ns[n->slice]});
  if (!r) return false;
  r->calls++;
  r->cpu_ns += t->slices.dur_ns[n->slice];
  r->self_cpu_ns += tg__op_tree_self_ns(t, n);
  r->device_ns += n->device_total_ns;
  r->self_device_ns += n->device_ns;
  for (int d = 0; d < 2 && w->bytes.total; d++) {
    r->bytes[d] += w->bytes.total[node][d];
    r->self_bytes[d] += w->bytes.self[node][d];
  }
  if (cls != TG__CLASS_OP || !tg__op_flops_any(&w->flops)) return true;
  const int64_t flops = tg__op_flops_of(&w->flops, n->slice, tg__call_text(&w->names, r->name));
  if (flops > 0 && __builtin_add_overflow(r->flops, flops, &r->flops)) r->flops = INT64_MAX;
  return true;
}

/* What ends on another thread than it began on: a row with its length, and no time of its own. */
static bool count_async(struct work *w, uint32_t track, uint32_t slice) {
  const struct tg__columns *t = w->t;
  const enum tg__class cls = tg__slice_class(t, slice);
  if ((cls != TG__CLASS_OP && cls != TG__CLASS_ANNOTATION) || !tg__call_is_async(&w->names, slice)) return true;
  struct row *r = find_average_row(w, &(struct row){.name = tg__call_name(&w->names, slice),
                                                    .flags = is_annotation(cls) ? ANNOTATION_ROW : 0,
                                                    .slice = slice,
                                                    .track = track,
                                                    .node = TG_NONE,
                                                    .start_ns = t->slices.start_ns[slice],
                                                    .dur_ns = t->slices.dur_ns[slice]});
  if (!r) return false;
  r->calls++;
  r->cpu_ns += t->slices.dur_ns[slice];
  return true;
}

static bool is_of_process(const struct work *w, uint32_t slice) {
  const uint32_t call = tg__launch_of(w->t, slice);
  return w->all_processes || (call != TG_NONE && has_track(w, tg__slice_track(w->t, call)));
}

static bool count_device(struct work *w, uint32_t track, uint32_t slice) {
  const struct tg__columns *t = w->t;
  const enum tg__class cls = tg__slice_class(t, slice);
  if (!tg__class_is_device_work(cls) && cls != TG__CLASS_GPU_ANNOTATION) return true;
  if (!is_of_process(w, slice)) return true;
  const int64_t ns = t->slices.dur_ns[slice];
  struct row *r = find_average_row(w, &(struct row){.name = tg__call_name(&w->names, slice),
                                                    .flags = DEVICE_ROW | (is_annotation(cls) ? ANNOTATION_ROW : 0),
                                                    .slice = slice,
                                                    .track = track,
                                                    .node = TG_NONE,
                                                    .start_ns = t->slices.start_ns[slice],
                                                    .dur_ns = ns});
  if (!r) return false;
  r->calls++;
  r->device_ns += ns;
  r->self_device_ns += ns;
  return true;
}

/* Memory that no event of its thread accounts for has a row of its own, and so has every failure to get some. */
static bool count_memory(struct work *w, uint32_t name, const struct tg__memory_event *e) {
  if (!has_track(w, e->track)) return true;
  struct row *r = find_average_row(w, &(struct row){.name = name,
                                                    .flags = MEMORY_ROW,
                                                    .slice = TG_NONE,
                                                    .track = e->track,
                                                    .node = TG_NONE,
                                                    .start_ns = e->ts_ns});
  if (!r) return false;
  const int d = !tg__memory_is_cpu(e);
  r->calls++;
  r->bytes[d] += e->bytes;
  r->self_bytes[d] += e->bytes;
  return true;
}

static bool count_failures(struct work *w) {
  const struct tg__marks *m = &w->t->marks;
  for (uint32_t i = 0; i < m->count; i++) {
    if (m->name[i] != TG__K_OUT_OF_MEMORY || m->ts_ns[i] == TG_NULL_INT || m->track[i] == TG_NONE) continue;
    const int64_t bytes = tg__arg_int(w->t, m->args[i], TG__K_BYTES_MEMORY, 0);
    const struct tg__memory_device device =
        tg__memory_device_of(tg__arg_int(w->t, m->args[i], TG__K_DEVICE_TYPE, 0), -1);
    const struct tg__memory_event e = {.ts_ns = m->ts_ns[i], .track = m->track[i], .bytes = bytes, .device = device};
    if (!count_memory(w, TG__K_OUT_OF_MEMORY, &e)) return false;
  }
  return true;
}

static bool count_events(struct work *w) {
  for (uint32_t k = 0; k < w->t->track_count; k++) {
    const struct tg__track *track = &w->t->tracks[k];
    if (!tg__ask_has_track(w->ask, w->t, k)) continue;
    for (uint32_t i = w->tree.first[k]; has_track(w, k) && i < w->tree.first[k + 1]; i++)
      if (w->tree.nodes[i].absorbed_by == TG_NONE && !count_host(w, k, i)) return false;
    for (uint32_t i = track->first; track->kind != TG__TRACK_CPU && i < track->first + track->count; i++)
      if (!count_device(w, k, i)) return false;
    for (uint32_t i = track->first; has_track(w, k) && i < track->first + track->count; i++)
      if (!count_async(w, k, i)) return false;
  }
  for (size_t i = 0; i < w->memory.count; i++)
    if (w->memory.items[i].node == TG_NONE && !count_memory(w, TG__K_MEMORY, &w->memory.items[i])) return false;
  return count_failures(w) && !w->names.texts.failed && !w->flops.signatures.failed && !tg__op_group_failed(&w->group);
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool average_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  return is_before(&w->rows[a], &w->rows[b]);
}

/* BACKWARD_FUNCTION and USER_SCOPE of torch's RecordScope. */
static int64_t scope_of(const struct work *w, const struct row *r) {
  if (r->flags & ANNOTATION_ROW) return 7;
  return r->slice != TG_NONE && tg__op_group_is_backward(&w->group, r->slice) ? 1 : 0;
}

static void put_group(const struct work *w, const struct row *r, struct tg__out *text, struct tg_table *out) {
  static const enum tg__group_part parts[] = {TG__GROUP_OVERLOAD, TG__GROUP_SHAPE, TG__GROUP_STACK, TG__GROUP_MODULE};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    text->len = 0;
    if (r->node != TG_NONE) tg__op_group_write_part(&w->group, r->group, parts[i], text);
    tg__put_text(out, (struct tg__str){text->buf ? text->buf : "", (uint32_t)text->len});
  }
}

static int64_t or_null(uint32_t index) { return index == TG_NONE ? TG_NULL_INT : (int64_t)index; }

static void put_average_row(const struct work *w, const struct row *r, struct tg__out *text, struct tg_table *out) {
  const struct tg__columns *t = w->t;
  const uint32_t parent = r->node == TG_NONE ? TG_NONE : w->tree.nodes[r->node].parent;
  tg__put_text(out, tg__call_text(&w->names, r->name));
  put_group(w, r, text, out);
  tg__put_trace_text(out, t, r->slice == TG_NONE ? TG_NONE : t->cats[t->slices.cat[r->slice]].name);
  tg__put_bool(out, r->flags & DEVICE_ROW);
  tg__put_bool(out, r->slice != TG_NONE && tg__call_is_async(&w->names, r->slice));
  const int64_t numbers[] = {r->calls,          r->cpu_ns,
                             r->self_cpu_ns,    r->device_ns,
                             r->self_device_ns, r->bytes[0],
                             r->self_bytes[0],  r->bytes[1],
                             r->self_bytes[1],  r->flops,
                             scope_of(w, r),    r->track,
                             r->start_ns,       r->dur_ns,
                             or_null(r->slice), or_null(parent == TG_NONE ? TG_NONE : w->tree.nodes[parent].slice)};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) tg__put_int(out, numbers[i]);
}

static enum tg_err put_average_rows(const struct work *w, struct tg_table *out) {
  enum tg_err err = TG_MEMORY;
  struct tg__out text = {0};
  uint32_t *order = tg__order_new(w->count, average_row_before, w);
  if (!order || !tg__table_reserve(out, w->count)) goto done;
  for (size_t i = 0; i < w->count; i++) put_average_row(w, &w->rows[order[i]], &text, out);
  if (!w->by_event) tg__op_group_notes(&w->group, out);
  err = text.err;
done:
  tg__out_free(&text);
  tg__free(order);
  return err;
}

/* ---- the question ---------------------------------------------------------------------------- */

/* 12,34 → two threads; nothing or all → none named. */
static enum tg_err read_threads(struct work *w, struct tg_error *e) {
  const char *const threads = tg__ask_arg(w->ask, "thread");
  const char *p = threads;
  if (!*p || strcmp(p, "all") == 0) return TG_OK;
  for (char *end; w->thread_count < MAX_THREADS; p = end + 1) {
    w->threads[w->thread_count++] = strtoll(p, &end, 10);
    if (end != p && !*end) return TG_OK;
    if (end == p || *end != ',')
      return tg__fail(e, TG_USAGE, -1,
                      "thread=%.60s is no list of thread ids: use whole numbers joined by commas, or all", threads);
  }
  return tg__fail(e, TG_USAGE, -1, "thread= names more than %d threads", MAX_THREADS);
}

static enum tg_err read_arguments(struct work *w, const char **by, struct tg_error *e) {
  static const char *const truths[] = {"0", "1"};
  size_t python;
  char *end;
  const char *pid = tg__ask_arg(w->ask, "pid");
  w->all_processes = !*pid || strcmp(pid, "all") == 0;
  w->pid = w->all_processes ? 0 : strtoll(pid, &end, 10);
  if (!w->all_processes && *end)
    return tg__fail(e, TG_USAGE, -1, "pid=%.60s is not a process id: use a whole number, or all", pid);
  enum tg_err err = read_threads(w, e);
  if (!err) err = tg__ask_choice(w->ask, "python", truths, 2, &python, e);
  if (err) return err;
  *by = tg__ask_arg(w->ask, "by");
  w->by_event = strcmp(*by, "event") == 0;
  w->python = python || w->by_event;
  if (w->by_event) *by = "overload+shape";
  return err;
}

static enum tg_err prepare_average(struct work *w, struct tg_error *e) {
  const char *by = "name";
  enum tg_err err = read_arguments(w, &by, e);
  if (err) return err;
  err =
      tg__call_names_open(&w->names, w->t) ? tg__op_tree_build_all(w->t, &w->names, w->ask->rank, &w->tree) : TG_MEMORY;
  if (!err) err = tg__memory_events_read(w->t, w->ask, &w->tree, &w->memory);
  if (!err) err = tg__memory_sum(&w->tree, tg__rank_range_of(w->t, w->ask->rank), &w->memory, &w->bytes);
  if (!err && !tg__op_flops_open(&w->flops, w->t)) err = TG_MEMORY;
  if (err) return tg__no_memory(e, "building the tree of events");
  return tg__op_group_open_all(&w->group, w->t, tg__rank_range_of(w->t, w->ask->rank), &w->tree, &w->names, by, e);
}

enum tg_err tg__answer_key_averages(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                    struct tg_error *e) {
  struct work w = {.t = t, .ask = a};
  enum tg_err err = prepare_average(&w, e);
  if (!err) {
    err = count_events(&w) ? put_average_rows(&w, out) : TG_MEMORY;
    if (err)
      tg__no_memory(e, "summing up events");
    else if (!out->rows)
      tg__table_note(out, "no operators, annotations, host calls or device work%s",
                     w.python ? "" : "; python=1 shows Python frames, where there are any");
  }
  tg__op_group_close(&w.group);
  tg__op_tree_free(&w.tree);
  tg__memory_events_free(&w.memory);
  tg__memory_sums_free(&w.bytes);
  tg__op_flops_close(&w.flops);
  tg__call_names_close(&w.names);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}
