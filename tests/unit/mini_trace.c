/* mini_trace: see mini_trace.h. */
#include "unit/mini_trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(x)                                                                                                     \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      fprintf(stderr, "mini_trace: %s:%d: %s\n", __FILE__, __LINE__, #x);                                              \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

enum { MOST_ARGS = 24 };
struct arg {
  struct tg__field field;
  struct tg__val val;
};
struct row {
  uint32_t track, name, id, arg_count;
  uint16_t cat;
  uint8_t flags, ph;
  int64_t start, dur;
  int cause;
  struct arg args[MOST_ARGS];
};
struct mini {
  struct tg__columns trace;
  struct row *slices, *marks;
  size_t slice_count, slice_cap, mark_count, mark_cap, track_cap, rank_cap, step_cap;
  struct row *last;
};

uint32_t mini_text(struct mini *m, const char *text) { return tg__strings_add(m->trace.strings, text, strlen(text)); }

static void add_rank(struct mini *m, int64_t number) {
  struct tg__columns *t = &m->trace;
  REQUIRE(tg__grow((void **)&t->ranks, &m->rank_cap, t->rank_count + 1, sizeof *t->ranks));
  struct tg__rank *r = &t->ranks[t->rank_count++];
  *r = (struct tg__rank){
      .path = mini_text(m, "mini.json"), .number = number, .number_is_given = number >= 0, .world_size = -1};
  r->first_track = t->track_count;
  for (int k = 0; k < TG__LOSS_COUNT; k++) r->loss_offset[k] = -1;
}

struct mini *mini_new(void) {
  static const char *const keys[] = {
#define KEY(name, text) text,
#include "trace/keys.def"
#undef KEY
  };
  struct mini *m = calloc(1, sizeof *m);
  REQUIRE(m && (m->trace.strings = tg__strings_new()) && (m->trace.cache = tg__cache_new()));
  for (uint32_t k = 0; k < TG__K_COUNT; k++) REQUIRE(mini_text(m, keys[k]) == k);
  add_rank(m, -1);
  return m;
}

void mini_free(struct mini *m) {
  struct tg__columns *t = &m->trace;
  void *const owned[] = {
      t->ranks,         t->tracks,          t->cats,          t->schemas,      (void *)t->args, t->steps,
      t->slices.name,   t->slices.start_ns, t->slices.dur_ns, t->slices.args,  t->slices.cat,   t->slices.flags,
      t->slices.parent, t->slices.depth,    t->slices.lane,   t->slices.cause, t->marks.ts_ns,  t->marks.name,
      t->marks.args,    t->marks.track,     t->marks.cat,     t->marks.ph};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) tg__free(owned[i]);
  tg__cache_free(t->cache);
  tg__arena_free(&t->arena);
  tg__strings_free(t->strings);
  tg__free(m->slices);
  tg__free(m->marks);
  free(m);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct tg__rank *mini_rank(struct mini *m, int64_t number) {
  struct tg__columns *t = &m->trace;
  if (t->rank_count == 1 && t->track_count == 0 && t->ranks[0].number < 0) {
    t->ranks[0].number = number;
    t->ranks[0].number_is_given = number >= 0;
  } else {
    add_rank(m, number);
  }
  return &t->ranks[t->rank_count - 1];
}

static uint32_t add_track(struct mini *m, struct tg__track track) {
  struct tg__columns *t = &m->trace;
  REQUIRE(tg__grow((void **)&t->tracks, &m->track_cap, t->track_count + 1, sizeof *t->tracks));
  track.rank = t->rank_count - 1;
  track.process_name = track.name = track.labels = TG_NONE;
  track.lanes = 1;
  t->tracks[t->track_count] = track;
  t->ranks[track.rank].track_count++;
  return t->track_count++;
}

uint32_t mini_thread(struct mini *m, int64_t pid, int64_t tid) {
  return add_track(m, (struct tg__track){.kind = TG__TRACK_CPU, .pid = pid, .tid = tid, .device = -1, .stream = -1});
}

uint32_t mini_stream(struct mini *m, int64_t device, int64_t stream) {
  return add_track(m, (struct tg__track){
                          .kind = TG__TRACK_DEVICE, .pid = device, .tid = stream, .device = device, .stream = stream});
}

struct tg__track *mini_track(struct mini *m, uint32_t track) {
  REQUIRE(track < m->trace.track_count);
  return &m->trace.tracks[track];
}

static enum tg__class class_of(const char *cat) {
#define CATEGORY(text, cls)                                                                                            \
  if (tg__str_eq_nocase((struct tg__str){text, sizeof text - 1}, cat)) return TG__CLASS_##cls;
#include "trace/categories.def"
#undef CATEGORY
  const struct tg__str s = {cat, (uint32_t)strlen(cat)};
  return tg__str_has_suffix(s, "_runtime") || tg__str_has_suffix(s, "_driver") ? TG__CLASS_RUNTIME : TG__CLASS_OTHER;
}

static uint16_t cat_index(struct mini *m, const char *cat) {
  struct tg__columns *t = &m->trace;
  const uint32_t name = cat ? mini_text(m, cat) : TG_NONE;
  for (uint32_t i = 0; i < t->cat_count; i++)
    if (t->cats[i].name == name) return (uint16_t)i;
  t->cats = tg__realloc(t->cats, (t->cat_count + 1) * sizeof *t->cats);
  REQUIRE(t->cats);
  t->cats[t->cat_count] = (struct tg__cat){name, (uint8_t)(cat ? class_of(cat) : TG__CLASS_OTHER)};
  return (uint16_t)t->cat_count++;
}

static int add_row(struct mini *m, struct row **rows, size_t *count, size_t *cap, struct row row) {
  REQUIRE(row.track < m->trace.track_count);
  REQUIRE(tg__grow((void **)rows, cap, *count + 1, sizeof row));
  struct tg__rank *rank = &m->trace.ranks[m->trace.tracks[row.track].rank];
  rank->events_read++;
  rank->events_kept++;
  rank->phase_count[row.ph]++;
  m->last = &(*rows)[*count];
  *m->last = row;
  return (int)(*count)++;
}

int mini_slice(struct mini *m, uint32_t track, const char *cat, const char *name, int64_t start_ns, int64_t dur_ns) {
  const struct row row = {.track = track,
                          .name = mini_text(m, name),
                          .cat = cat_index(m, cat),
                          .start = start_ns,
                          .dur = dur_ns,
                          .ph = 'X',
                          .cause = -1};
  return add_row(m, &m->slices, &m->slice_count, &m->slice_cap, row);
}

int mini_mark(struct mini *m, uint32_t track, const char *cat, const char *name, char ph, int64_t ts_ns) {
  const struct row row = {.track = track,
                          .name = mini_text(m, name),
                          .cat = cat_index(m, cat),
                          .start = ts_ns,
                          .ph = (uint8_t)ph,
                          .cause = -1};
  return add_row(m, &m->marks, &m->mark_count, &m->mark_cap, row);
}

static void add_arg(struct mini *m, const char *key, struct tg__val val) {
  REQUIRE(m->last && m->last->arg_count < MOST_ARGS);
  m->last->args[m->last->arg_count++] = (struct arg){{mini_text(m, key), (uint8_t)val.kind, false}, val};
}

void mini_arg_int(struct mini *m, const char *key, int64_t v) {
  add_arg(m, key, (struct tg__val){.kind = TG__KIND_INT, .i = v});
}
void mini_arg_dec(struct mini *m, const char *key, int64_t digits, unsigned decimals) {
  add_arg(m, key, (struct tg__val){.kind = TG__KIND_DEC, .i = digits, .decimals = (uint8_t)decimals});
}
void mini_arg_str(struct mini *m, const char *key, const char *v) {
  add_arg(m, key, (struct tg__val){.kind = TG__KIND_STR, .str = mini_text(m, v)});
}
void mini_arg_raw(struct mini *m, const char *key, const char *json) {
  add_arg(m, key, (struct tg__val){.kind = TG__KIND_RAW, .str = mini_text(m, json)});
}

void mini_cause(struct mini *m, int slice, int cause) {
  REQUIRE(slice >= 0 && (size_t)slice < m->slice_count && cause < (int)m->slice_count);
  m->slices[slice].cause = cause;
}

void mini_cause_by_id(struct mini *m, int slice, int cause) {
  mini_cause(m, slice, cause);
  m->slices[slice].flags |= TG__F_CAUSE_BY_ID;
}

static void add_step(struct mini *m, struct tg__step step) {
  struct tg__columns *t = &m->trace;
  size_t cap = m->step_cap;
  REQUIRE(tg__grow((void **)&t->steps, &cap, t->step_count + 1, sizeof *t->steps));
  m->step_cap = cap;
  t->steps[t->step_count++] = step;
}

void mini_step(struct mini *m, int64_t number, const char *name, int64_t start_ns, int64_t end_ns) {
  add_step(m, (struct tg__step){m->trace.rank_count - 1, TG_NONE, mini_text(m, name), number, start_ns, end_ns});
}

void mini_loss(struct mini *m, enum tg__loss what, int64_t count, int64_t offset) {
  struct tg__rank *r = &m->trace.ranks[m->trace.rank_count - 1];
  r->loss[what] = count;
  r->loss_offset[what] = offset;
  if (tg__loss_info[what].kind == TG__LOSS_SKIPPED) r->events_read += count;
}

/* ---- finishing ------------------------------------------------------------------------------- */

static bool slice_less(uint32_t a, uint32_t b, const void *ctx) {
  const struct row *x = &((const struct row *)ctx)[a], *y = &((const struct row *)ctx)[b];
  if (x->track != y->track) return x->track < y->track;
  if (x->start != y->start) return x->start < y->start;
  return x->dur > y->dur;
}

static bool mark_less(uint32_t a, uint32_t b, const void *ctx) {
  return ((const struct row *)ctx)[a].start < ((const struct row *)ctx)[b].start;
}

static uint32_t *in_order(struct row *rows, size_t count, tg__less *less) {
  uint32_t *order = tg__alloc((count + 1) * sizeof *order);
  REQUIRE(order);
  for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  REQUIRE(tg__sort_index(order, count, less, rows));
  for (size_t i = 0; i < count; i++) rows[order[i]].id = (uint32_t)i;
  return order;
}

/* Quadratic on purpose: the definitions of trace.h word for word. */
static void nest(struct tg__columns *t, struct tg__track *track) {
  struct tg__slices *s = &t->slices;
  for (uint32_t i = track->first; i < track->first + track->count; i++) {
    s->parent[i] = TG_NONE;
    for (uint32_t j = i; j-- > track->first && s->parent[i] == TG_NONE;)
      if (tg__slice_end(t, j) >= tg__slice_end(t, i) &&
          (s->start_ns[i] < tg__slice_end(t, j) || s->start_ns[i] == s->start_ns[j]))
        s->parent[i] = j;
    s->depth[i] = s->parent[i] == TG_NONE ? 0 : (uint16_t)(s->depth[s->parent[i]] + 1);
    for (bool clash = true; clash; s->lane[i] += clash) {
      clash = false;
      for (uint32_t j = track->first; j < i; j++)
        clash |= s->lane[j] == s->lane[i] && s->start_ns[i] < tg__slice_end(t, j) &&
                 tg__slice_end(t, j) < tg__slice_end(t, i);
    }
    if (s->lane[i] >= track->lanes) track->lanes = (uint16_t)(s->lane[i] + 1);
  }
}

/* Packed args as trace/args.c describes them: three bytes of schema id, then the values. Every row gets a schema of
 * its own. */
struct pool {
  uint8_t *bytes;
  size_t len, cap;
};

static void put_byte(struct pool *p, unsigned byte) {
  REQUIRE(tg__grow((void **)&p->bytes, &p->cap, p->len + 1, 1));
  p->bytes[p->len++] = (uint8_t)byte;
}

static void put_varint(struct pool *p, uint64_t v) {
  for (; v >= 128; v >>= 7) put_byte(p, (unsigned)(v & 127) | 128);
  put_byte(p, (unsigned)v);
}

static uint32_t pack(struct mini *m, const struct row *row, struct pool *p) {
  struct tg__columns *t = &m->trace;
  const uint32_t reference = (uint32_t)(p->len / 4), id = t->schema_count;
  struct tg__field *fields = tg__arena_get(&t->arena, sizeof *fields * MOST_ARGS);
  t->schemas = tg__realloc(t->schemas, (++t->schema_count) * sizeof *t->schemas);
  REQUIRE(fields && t->schemas);
  t->schemas[id] = (struct tg__schema){(uint16_t)row->arg_count, row->arg_count > 0, fields};
  for (unsigned shift = 0; shift < 24; shift += 8) put_byte(p, id >> shift & 255);
  for (uint32_t i = 0; i < row->arg_count; i++) {
    const struct tg__val *v = &row->args[i].val;
    fields[i] = row->args[i].field;
    if (v->kind == TG__KIND_DEC) put_byte(p, v->decimals);
    put_varint(p, v->kind == TG__KIND_STR || v->kind == TG__KIND_RAW ? v->str
                                                                     : (uint64_t)v->i << 1 ^ (uint64_t)(v->i >> 63));
  }
  while (p->len % 4) put_byte(p, 0);
  return reference;
}

static void build_args(struct mini *m) {
  struct pool p = {0};
  for (size_t i = 0; i < m->slice_count; i++) m->trace.slices.args[m->slices[i].id] = pack(m, &m->slices[i], &p);
  for (size_t i = 0; i < m->mark_count; i++) m->trace.marks.args[m->marks[i].id] = pack(m, &m->marks[i], &p);
  m->trace.args = p.bytes;
  m->trace.args_bytes = p.len;
}

static void build_slices(struct mini *m) {
  struct tg__columns *t = &m->trace;
  struct tg__slices *s = &t->slices;
  const size_t n = m->slice_count + 1;
  uint32_t *order = in_order(m->slices, m->slice_count, slice_less);
  *s = (struct tg__slices){(uint32_t)m->slice_count, tg__alloc(8 * n), tg__alloc(8 * n), tg__alloc(4 * n),
                           tg__alloc(4 * n),         tg__alloc(2 * n), tg__alloc(n),     tg__alloc(4 * n),
                           tg__alloc(2 * n),         tg__alloc(n),     tg__alloc(4 * n)};
  for (uint32_t i = 0; i < s->count; i++) {
    const struct row *r = &m->slices[order[i]];
    s->start_ns[i] = r->start, s->dur_ns[i] = r->dur, s->name[i] = r->name, s->cat[i] = r->cat, s->flags[i] = r->flags;
    s->cause[i] = r->cause < 0 ? TG_NONE : m->slices[r->cause].id;
    t->tracks[r->track].count++;
  }
  uint32_t first = 0;
  for (uint32_t k = 0; k < t->track_count; first += t->tracks[k++].count) {
    t->tracks[k].first = first;
    nest(t, &t->tracks[k]);
  }
  tg__free(order);
}

static void build_marks(struct mini *m) {
  struct tg__marks *k = &m->trace.marks;
  const size_t n = m->mark_count + 1;
  uint32_t *order = in_order(m->marks, m->mark_count, mark_less);
  *k = (struct tg__marks){(uint32_t)m->mark_count, tg__alloc(8 * n), tg__alloc(4 * n), tg__alloc(4 * n),
                          tg__alloc(4 * n),        tg__alloc(2 * n), tg__alloc(n)};
  for (uint32_t i = 0; i < k->count; i++) {
    const struct row *r = &m->marks[order[i]];
    k->ts_ns[i] = r->start, k->name[i] = r->name, k->track[i] = r->track, k->cat[i] = r->cat, k->ph[i] = r->ph;
  }
  tg__free(order);
}

static void find_steps(struct mini *m) {
  struct tg__columns *t = &m->trace;
  int64_t number;
  if (t->step_count > 0) return;
  for (uint32_t k = 0; k < t->track_count; k++)
    for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count; i++)
      if (tg__slice_class(t, i) != TG__CLASS_GPU_ANNOTATION &&
          tg__name_is_profiler_step(tg__name(t, t->slices.name[i]), &number))
        add_step(m, (struct tg__step){t->tracks[k].rank, i, t->slices.name[i], number, t->slices.start_ns[i],
                                      tg__slice_end(t, i)});
  for (uint32_t i = 1; i < t->step_count; i++) /* by rank, then start, on whatever track they are */
    for (uint32_t k = i;
         k && t->steps[k].rank == t->steps[k - 1].rank && t->steps[k].start_ns < t->steps[k - 1].start_ns; k--) {
      const struct tg__step later = t->steps[k - 1];
      t->steps[k - 1] = t->steps[k];
      t->steps[k] = later;
    }
}

struct tg__columns *mini_finish(struct mini *m) {
  build_slices(m);
  build_marks(m);
  build_args(m);
  find_steps(m);
  m->trace.loaded = TG__COL_ALL;
  return &m->trace;
}

uint32_t mini_id(const struct mini *m, int slice) { return m->slices[slice].id; }
uint32_t mini_mark_id(const struct mini *m, int mark) { return m->marks[mark].id; }

/* ---- asking ---------------------------------------------------------------------------------- */

struct tg_table *mini_ask(struct tg__columns *t, const char *question, ...) {
  struct tg_arg args[8];
  size_t count = 0;
  va_list list;
  va_start(list, question);
  for (const char *name; (name = va_arg(list, const char *)) != NULL; count++)
    args[count] = (struct tg_arg){name, va_arg(list, const char *)};
  va_end(list);
  struct tg_table *table = NULL;
  struct tg_error e = {0};
  const enum tg_err err = tg__ask_trace(&(struct tg_trace){.columns = t}, question, args, count, &table, &e);
  if (err != TG_OK) fprintf(stderr, "mini_ask %s: %s\n", question, e.text);
  REQUIRE(err == TG_OK);
  return table;
}

long mini_starve(struct tg__columns *t, const char *question, const struct tg_arg *args, size_t count) {
  enum { MOST = 5000 };
  for (long calls = 1; calls < MOST; calls++) {
    struct tg_table *table = NULL;
    struct tg_error e = {0};
    tg__alloc_fail_after(calls);
    const enum tg_err err = tg__ask_trace(&(struct tg_trace){.columns = t}, question, args, count, &table, &e);
    tg__alloc_fail_after(-1);
    REQUIRE(err ? err == TG_MEMORY && e.text[0] && !table : table != NULL);
    tg__table_free(table);
    if (!err) return calls - 1;
  }
  REQUIRE(false); /* there was never enough memory */
  return 0;
}

static const struct tg__column *column_of(const struct tg_table *t, const char *name, enum tg_type type) {
  const size_t c = tg__table_column_index(t, name);
  REQUIRE(c != SIZE_MAX && t->columns[c].type == type);
  return &t->columns[c];
}

const char *mini_cell(const struct tg_table *t, size_t row, const char *column) {
  static char texts[8][256];
  static unsigned next;
  const uint32_t id = column_of(t, column, TG_TEXT)->texts[row];
  REQUIRE(row < t->rows);
  if (id == TG_NONE) return NULL;
  const struct tg__str s = tg__strings_get(t->strings, id);
  char *text = texts[next++ % 8];
  snprintf(text, sizeof texts[0], "%.*s", (int)s.len, s.ptr);
  return text;
}

size_t mini_row(const struct tg_table *t, const char *key, const char *value) {
  size_t found = SIZE_MAX;
  for (size_t i = 0; i < t->rows; i++) {
    const char *text = mini_cell(t, i, key);
    if (!text || strcmp(text, value) != 0) continue;
    REQUIRE(found == SIZE_MAX);
    found = i;
  }
  REQUIRE(found != SIZE_MAX);
  return found;
}

int64_t mini_int(const struct tg_table *t, size_t row, const char *column) {
  REQUIRE(row < t->rows);
  return column_of(t, column, TG_INT)->ints[row];
}

double mini_real(const struct tg_table *t, size_t row, const char *column) {
  REQUIRE(row < t->rows);
  return column_of(t, column, TG_REAL)->reals[row];
}
