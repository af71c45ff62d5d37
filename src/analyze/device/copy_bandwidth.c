/* The question copy_bandwidth: copies and memsets by kind, how fast they ran, and what launched them. */
#include "analyze/device/device_rows.h"
#include "analyze/host/frames.h"
#include "analyze/host/op_tree.h"
#include "analyze/table/describe.h"

#include <math.h>

/* GB/s as integers of this scale: what a copy adds at its start is gone exactly at its end. */
#define UNIT ((__int128)1000000000 * 1000000000)
enum { UNIT_DECIMALS = 18, MOST_GBPS = 1000000000 }; /* so that the sum of 2^32 copies fits */

struct point {
  int64_t ns, order;
  __int128 by;
  uint32_t name, slice; /* name: of work.names */
};
struct sum { /* one row: a kind, or what one line of one operator moved of it */
  uint32_t kind, op, line;
  const char *direction;
  int64_t copies, bytes, bytes_ns, total_ns; /* bytes_ns: durations of those that state their bytes */
};
struct copy_name { /* what the name of a copy says */
  uint32_t kind;
  const char *direction;
};
struct work {
  struct tg_table *out;
  enum { SUMMARY, SERIES, OP } by;
  struct tg__paths texts, keys; /* kinds as labels, lines as paths; the key of a row */
  struct copy_name *names;
  struct tg__map name_of; /* string id and whether it is a memset */
  size_t name_count, name_cap;
  struct sum *sums;
  struct tg__map sum_of;
  size_t sum_count, sum_cap;
  struct point *points;
  size_t point_count, point_cap;
};

/* ---- one copy -------------------------------------------------------------------------------- */

static struct tg__str copy_kind_of(struct tg__str name) {
  if (tg__str_has_prefix(name, "Memset")) return TG_STR("Memset");
  if (!tg__str_has_prefix(name, "Memcpy")) return TG_STR("Memcpy Unknown");
  return (struct tg__str){name.ptr, name.len < 11 ? name.len : 11}; /* "Memcpy HtoD" */
}

static const char *direction_of(struct tg__str name, bool is_set) {
  static const char *const words[][3] = {{"HtoD", "HostToDevice", "host to device"},
                                         {"DtoH", "DeviceToHost", "device to host"},
                                         {"DtoD", "DeviceToDevice", "device to device"},
                                         {"PtoP", "PeerToPeer", "peer to peer"},
                                         {"HtoH", "HostToHost", "host to host"}};
  if (is_set) return "set";
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (tg__str_contains(name, words[k][0]) || tg__str_contains(name, words[k][1])) return words[k][2];
  return "";
}

/* What the trace states, digit by digit; 0 when it states nothing. */
static __int128 bandwidth_of(const struct tg__columns *t, uint32_t args) {
  struct tg__val v;
  if (!tg__arg(t, args, TG__K_BANDWIDTH, false, &v)) return 0;
  if (v.kind != TG__KIND_INT && v.kind != TG__KIND_DEC) {
    const double gbps = tg__arg_real(t, args, TG__K_BANDWIDTH, 0);
    return gbps > -MOST_GBPS && gbps < MOST_GBPS ? (__int128)((long double)gbps * (long double)UNIT) : 0;
  }
  const unsigned decimals = v.kind == TG__KIND_DEC ? v.decimals : 0;
  __int128 gbps = v.i;
  for (unsigned d = decimals; d < UNIT_DECIMALS; d++) gbps *= 10;
  for (unsigned d = decimals; d > UNIT_DECIMALS; d--) gbps /= 10;
  return gbps > -MOST_GBPS * UNIT && gbps < MOST_GBPS * UNIT ? gbps : 0;
}

/* The line of the call where the trace says it; else the innermost Python frame around it, or the first one of the
 * call stack its operator has. */
static uint32_t line_of(struct work *w, const struct tg__columns *t, uint32_t call, uint32_t op) {
  struct tg__out text = {0};
  if (tg__call_line(t, call, &text) || (op != TG_NONE && tg__call_line(t, op, &text))) {
    const uint32_t label = tg__paths_label(&w->texts, (struct tg__str){text.buf, (uint32_t)text.len});
    w->texts.failed |= text.err;
    tg__out_free(&text);
    return tg__paths_step(&w->texts, 0, label);
  }
  for (uint32_t s = call; s != TG_NONE; s = t->slices.parent[s])
    if (tg__slice_class(t, s) == TG__CLASS_PYTHON && !tg__str_has_prefix(tg__name(t, t->slices.name[s]), "<built-in"))
      return tg__paths_step(&w->texts, 0, tg__paths_frame(&w->texts, t->slices.name[s]));
  const uint32_t stack = op == TG_NONE ? TG_NONE : tg__arg_str(t, t->slices.args[op], TG__K_CALL_STACK);
  return stack == TG_NONE ? 0 : tg__paths_split(&w->texts, stack, 1);
}

static struct sum *sum_of(struct work *w, const struct sum *like) {
  uint32_t key = tg__paths_step(&w->keys, 0, like->kind);
  key = tg__paths_step(&w->keys, tg__paths_step(&w->keys, key, like->op), like->line);
  uint32_t *slot = tg__map_slot(&w->sum_of, key, TG_NONE);
  if (!slot || w->keys.failed || w->texts.failed) return NULL;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->sums, &w->sum_cap, w->sum_count + 1, sizeof *w->sums)) return NULL;
    *slot = (uint32_t)w->sum_count;
    w->sums[w->sum_count++] = *like;
  }
  return &w->sums[*slot];
}

/* Looked at once per distinct name. */
static const struct copy_name *copy_name_of(struct work *w, const struct tg__columns *t, uint32_t slice) {
  const bool is_memset = tg__slice_class(t, slice) == TG__CLASS_MEMSET;
  uint32_t *slot = tg__map_slot(&w->name_of, (uint64_t)t->slices.name[slice] << 1 | is_memset, TG_NONE);
  if (!slot) return NULL;
  if (*slot == TG_NONE) {
    const struct tg__str name = tg__name(t, t->slices.name[slice]);
    if (!tg__grow((void **)&w->names, &w->name_cap, w->name_count + 1, sizeof *w->names)) return NULL;
    *slot = (uint32_t)w->name_count;
    w->names[w->name_count++] =
        (struct copy_name){.kind = tg__paths_label(&w->texts, copy_kind_of(name)),
                           .direction = direction_of(name, is_memset || tg__str_has_prefix(name, "Memset"))};
  }
  return &w->names[*slot];
}

static bool add_to_sum(struct work *w, const struct tg__columns *t, const struct tg__device_row *row,
                       const struct copy_name *name) {
  struct sum like = {.kind = name->kind, .op = TG_NONE, .direction = name->direction};
  if (w->by == OP && row->call != TG_NONE) {
    const uint32_t op = tg__launching_op(t, row->slice);
    like.op = op == TG_NONE ? TG_NONE : t->slices.name[op];
    like.line = line_of(w, t, row->call, op);
  }
  struct sum *sum = sum_of(w, &like);
  if (!sum) return false;
  const int64_t bytes = tg__arg_int(t, t->slices.args[row->slice], TG__K_BYTES, -1), dur = row->end_ns - row->start_ns;
  sum->copies++;
  sum->total_ns += dur;
  if (bytes >= 0 && !__builtin_add_overflow(sum->bytes, bytes, &sum->bytes)) sum->bytes_ns += dur;
  return true;
}

static bool add_copy(struct work *w, const struct tg__device_rows *d, const struct tg__device_row *row) {
  const struct tg__columns *t = d->t;
  const struct copy_name *name = copy_name_of(w, t, row->slice);
  if (!name || (w->by != SERIES && !add_to_sum(w, t, row, name))) return false;
  if (w->by == OP) return true;
  if (!tg__grow((void **)&w->points, &w->point_cap, w->point_count + 2, sizeof *w->points)) return false;
  const __int128 gbps = bandwidth_of(t, t->slices.args[row->slice]);
  const int64_t dur = row->end_ns - row->start_ns;
  const int64_t shown = dur ? dur : d->rules->shortest_ns; /* a copy of no length still shows up */
  w->points[w->point_count++] =
      (struct point){row->start_ns, row->order, gbps, (uint32_t)(name - w->names), row->slice};
  w->points[w->point_count++] =
      (struct point){row->start_ns + shown, row->order, -gbps, (uint32_t)(name - w->names), row->slice};
  return !w->texts.failed;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_copy_nulls(struct tg_table *out, unsigned count) {
  while (count-- > 0) tg__put_null(out);
}

static void put_sum(struct work *w, const struct tg__device_rows *d, const struct sum *s) {
  struct tg__out line = {0};
  tg__paths_write(&w->texts, s->line, ";", &line);
  tg__put_rank(w->out, d->t, d->rank);
  tg__put_text(w->out, tg__paths_text(&w->texts, s->kind));
  tg__put_cstr(w->out, s->direction);
  tg__put_trace_text(w->out, d->t, s->op);
  if (s->line)
    tg__put_text(w->out, (struct tg__str){line.buf, (uint32_t)line.len});
  else
    tg__put_null(w->out);
  put_copy_nulls(w->out, 4);
  tg__put_int(w->out, s->copies);
  tg__put_int(w->out, s->bytes_ns || s->bytes ? s->bytes : TG_NULL_INT);
  tg__put_int(w->out, s->total_ns);
  tg__put_real(w->out, s->bytes_ns > 0 ? (double)s->bytes / (double)s->bytes_ns : NAN);
  if (line.err) w->out->failed = true;
  tg__out_free(&line);
}

/* ---- points of one kind, in order of time ---------------------------------------------------- */

enum { RANK, KIND, TS = 5, GBPS, EVENT, TRACK };

static double rounded(__int128 sum) { return (double)((long double)sum / (long double)UNIT); }

static void put_copy_ints(const struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count,
                          unsigned column, int64_t *cells) {
  const struct tg__track *track = d->t->tracks;
  for (size_t i = 0; i < count; i++) {
    const struct point *p = &w->points[order[i]];
    if (column == TS) cells[i] = p->ns;
    if (column == RANK) cells[i] = tg__rank_number(d->t, d->rank);
    if (column == EVENT) cells[i] = d->rules->by_file ? p->order : (int64_t)p->slice;
    if (column != TRACK) continue;
    if (p->slice - track->first >= track->count) track = &d->t->tracks[tg__slice_track(d->t, p->slice)];
    cells[i] = track - d->t->tracks;
  }
}

static void put_nothing(const struct tg__column *c, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    if (c->type == TG_INT) c->ints[i] = TG_NULL_INT;
    if (c->type == TG_REAL) c->reals[i] = NAN;
    if (c->type == TG_TEXT) c->texts[i] = TG_NONE;
  }
}

/* Each point, column by column. */
static bool put_series(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  struct tg_table *const out = w->out;
  const struct tg__str kind = tg__paths_text(&w->texts, w->names[w->points[order[0]].name].kind);
  const uint32_t text = tg__strings_add(out->strings, kind.ptr, kind.len);
  if (text == TG_NONE) return false;
  for (unsigned k = 0; k < out->column_count; k++) {
    const struct tg__column *const c = &out->columns[k];
    __int128 running = 0;
    if (c->is_left_out) continue;
    if (k == KIND)
      for (size_t i = 0; i < count; i++) c->texts[out->rows + i] = text;
    else if (k == GBPS)
      for (size_t i = 0; i < count; i++) c->reals[out->rows + i] = rounded(running += w->points[order[i]].by);
    else if (k == RANK || k == TS || k == EVENT || k == TRACK)
      put_copy_ints(w, d, order, count, k, c->ints + out->rows);
    else
      put_nothing(c, out->rows, count);
  }
  tg__table_wrote_rows(out, count);
  return true;
}

static bool put_copy_summary(struct work *w, const struct tg__device_rows *d, const uint32_t *order, size_t count) {
  double *above = tg__realloc(NULL, (count + 1) * sizeof *above);
  if (!above) return false;
  const struct sum like = {.kind = w->names[w->points[order[0]].name].kind, .op = TG_NONE};
  __int128 running = 0;
  size_t n = 0;
  for (size_t i = 0; i < count; i++) {
    running += w->points[order[i]].by;
    if (running > 0) above[n++] = rounded(running);
  }
  const struct tg__spread spread = tg__spread_reals(above, n);
  put_sum(w, d, sum_of(w, &like));
  tg__put_spread(w->out, &spread);
  tg__free(above);
  return true;
}

/* Points of one kind; at one instant what ends goes before what begins. */
static bool point_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct point *x = &w->points[a], *y = &w->points[b];
  if (x->ns != y->ns) return x->ns < y->ns;
  const bool x_begins = a % 2 == 0, y_begins = b % 2 == 0;
  return x_begins != y_begins ? y_begins : x->order < y->order;
}

static bool kind_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  return tg__str_cmp(tg__paths_text(&w->texts, w->names[a].kind), tg__paths_text(&w->texts, w->names[b].kind)) < 0;
}

/* By name: the place of its kind among all kinds in the order of their texts; several names may be of one kind. How
 * many places there are, 0 on no memory. */
static size_t find_places(struct work *w, uint32_t *place) {
  uint32_t *names = tg__order_new(w->name_count, kind_before, w);
  size_t count = 0;
  for (size_t k = 0; names && k < w->name_count; k++) {
    count += k == 0 || w->names[names[k]].kind != w->names[names[k - 1]].kind;
    place[names[k]] = (uint32_t)count - 1;
  }
  tg__free(names);
  return count;
}

/* Kind by kind all beginnings, then all ends: two lists that are nearly in order, as rows come by their start. past:
 * by place. */
static void deal_out(const struct work *w, const uint32_t *place, uint32_t *order, size_t *past) {
  size_t at = 0;
  for (size_t i = 0; i < w->point_count; i++) past[place[w->points[i].name]]++;
  for (size_t k = 0; k < w->name_count; k++) {
    const size_t here = past[k];
    past[k] = at;
    at += here;
  }
  for (unsigned ends = 0; ends < 2; ends++)
    for (size_t i = ends; i < w->point_count; i += 2) order[past[place[w->points[i].name]]++] = (uint32_t)i;
}

static bool put_kinds(struct work *w, const struct tg__device_rows *d) {
  if (w->point_count == 0) return true;
  uint32_t *order = tg__realloc(NULL, w->point_count * sizeof *order),
           *place = tg__alloc(w->name_count * sizeof *place);
  size_t *past = tg__alloc(w->name_count * sizeof *past);
  const size_t kinds = order && place && past ? find_places(w, place) : 0;
  bool ok = kinds > 0 && (w->by != SERIES || tg__table_reserve(w->out, w->out->rows + w->point_count));
  if (ok) deal_out(w, place, order, past);
  for (size_t k = 0, first = 0; ok && k < kinds; first = past[k++]) {
    const size_t count = past[k] - first;
    if (count == 0) continue; /* of another rank */
    ok = tg__sort_index(order + first, count, point_before, w);
    if (ok)
      ok = w->by == SERIES ? put_series(w, d, order + first, count) : put_copy_summary(w, d, order + first, count);
  }
  tg__free(order);
  tg__free(place);
  tg__free(past);
  return ok;
}

static bool sum_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct sum *x = &((const struct sum *)ctx)[a], *y = &((const struct sum *)ctx)[b];
  return x->total_ns > y->total_ns;
}

static bool put_ops(struct work *w, const struct tg__device_rows *d) {
  uint32_t *order = tg__order_new(w->sum_count, sum_before, w->sums);
  bool ok = order != NULL;
  for (size_t i = 0; ok && i < w->sum_count; i++) {
    put_sum(w, d, &w->sums[order[i]]);
    put_copy_nulls(w->out, 8);
  }
  tg__free(order);
  return ok;
}

static bool copies_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  w->sum_count = w->point_count = 0;
  tg__map_free(&w->sum_of);
  for (size_t i = 0; i < d->count; i++)
    if (d->rows[i].type == TG__TYPE_MEMORY && !add_copy(w, d, &d->rows[i])) return false;
  return w->by == OP ? put_ops(w, d) : put_kinds(w, d);
}

enum tg_err tg__answer_copy_bandwidth(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                      struct tg_error *e) {
  static const char *const choices[] = {[SUMMARY] = "summary", [SERIES] = "series", [OP] = "op"};
  struct work w = {.out = out};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  w.by = by;
  if (!tg__paths_open(&w.texts, t) || !tg__paths_open(&w.keys, t)) err = tg__no_memory(e, "looking at copies");
  if (!err) err = tg__device_each_rank(t, a, copies_of_rank, &w, e);
  if (!err && !out->rows) tg__table_note(out, "none of the device work is a copy or memset");
  tg__paths_close(&w.texts);
  tg__paths_close(&w.keys);
  tg__map_free(&w.sum_of);
  tg__map_free(&w.name_of);
  tg__free(w.names);
  tg__free(w.sums);
  tg__free(w.points);
  return err;
}
