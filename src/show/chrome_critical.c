/* The critical path as flows and marks in a Chrome trace: chrome_critical.h. */
#include "show/chrome_critical.h"

enum { ARROW_ROOM = 320 };

struct arrow {
  uint32_t from, to; /* slices */
  bool from_end, to_end, is_critical;
  uint8_t kind;
  int64_t weight_ns;
};
struct tg__overlay {
  const struct tg__columns *t;
  uint8_t *is_critical; /* by slice */
  bool only;
  struct arrow *arrows;
  size_t count;
};

/* ---- from the answer ------------------------------------------------------------------------- */

/* What the question calls an edge, and what HTA calls it. */
enum { OPERATOR, DEPENDENCY, LAUNCH_DELAY, KERNEL_DELAY, SYNC_DEPENDENCY, KINDS };
static const char *const kinds[KINDS] = {"operator", "dependency", "launch_delay", "kernel_delay", "sync_dependency"};
static const char *const types[KINDS] = {"critical_path_operator", "critical_path_dependency",
                                         "critical_path_kernel_launch_delay", "critical_path_kernel_kernel_delay",
                                         "critical_path_sync_dependency"};

static uint8_t edge_kind_of(const struct tg_table *table, uint32_t text) {
  const struct tg__str name = tg__strings_get(table->strings, text);
  for (unsigned k = 0; k < KINDS; k++)
    if (name.len == strlen(kinds[k]) && memcmp(name.ptr, kinds[k], name.len) == 0) return (uint8_t)k;
  return OPERATOR;
}

static const struct tg__column *column(const struct tg_table *table, const char *name) {
  return &table->columns[tg__table_column_index(table, name)];
}

/* Of the path only what ties one event to another is drawn; launches of weight 0 are in the graph only for their
 * order. */
static bool is_drawn(const struct arrow *a, bool all) {
  if (all) return a->kind != LAUNCH_DELAY || a->weight_ns != 0;
  return a->is_critical && (a->kind == DEPENDENCY || a->kind == LAUNCH_DELAY || a->kind == SYNC_DEPENDENCY);
}

static bool take_answer(struct tg__overlay *v, const struct tg_table *table, bool all) {
  const struct tg__column *from = column(table, "from_event"), *from_end = column(table, "from_end"),
                          *to = column(table, "to_event");
  const struct tg__column *to_end = column(table, "to_end"), *critical = column(table, "critical"),
                          *kind = column(table, "kind");
  const struct tg__column *weight = column(table, "weight_ns");
  v->is_critical = tg__alloc((size_t)v->t->slices.count + 1);
  v->arrows = tg__alloc((table->rows + 1) * sizeof *v->arrows);
  if (!v->is_critical || !v->arrows) return false;
  for (size_t i = 0; i < table->rows; i++) {
    const struct arrow a = {(uint32_t)from->ints[i], (uint32_t)to->ints[i],   from_end->bools[i] == 1,
                            to_end->bools[i] == 1,   critical->bools[i] == 1, edge_kind_of(table, kind->texts[i]),
                            weight->ints[i]};
    if (a.is_critical) v->is_critical[a.from] = v->is_critical[a.to] = 1;
    if (is_drawn(&a, all)) v->arrows[v->count++] = a;
  }
  return true;
}

enum tg_err tg__overlay_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__overlay **out,
                            struct tg_error *e) {
  static const char *const passed[] = {"rank", "step", "annotation", "instance", "rules", "data_load_events"};
  const char *mode = tg__show_arg(o, "critical");
  struct tg_arg args[2 + sizeof passed / sizeof *passed] = {{"by", "edge"}, {"edges", "path"}};
  size_t count = 2;
  *out = NULL;
  if (!mode) return TG_OK;
  const bool all = strcmp(mode, "all") == 0, only = strcmp(mode, "only") == 0;
  if (!all && !only && strcmp(mode, "path") != 0)
    return tg__fail(e, TG_USAGE, -1,
                    "critical=%.60s is unknown: it is path (mark it and draw its waits), only (leave out other work) "
                    "or all (draw every edge)",
                    mode);
  if (all) args[1].value = "all";
  for (size_t k = 0; k < sizeof passed / sizeof *passed; k++)
    if (tg__show_arg(o, passed[k])) args[count++] = (struct tg_arg){passed[k], tg__show_arg(o, passed[k])};
  struct tg_table *table = NULL;
  enum tg_err err =
      tg__ask_trace(&(struct tg_trace){.columns = t}, tg__question_name(TG__Q_critical_path), args, count, &table, e);
  if (err) return err;
  struct tg__overlay *v = tg__alloc(sizeof *v);
  if (v) *v = (struct tg__overlay){.t = t, .only = only};
  if (!v || !take_answer(v, table, all)) {
    err = tg__no_memory(e, "drawing the critical path");
    tg__overlay_free(v);
    v = NULL;
  }
  tg__table_free(table);
  *out = v;
  return err;
}

void tg__overlay_free(struct tg__overlay *v) {
  if (!v) return;
  tg__free(v->is_critical);
  tg__free(v->arrows);
  tg__free(v);
}

/* ---- into the document ----------------------------------------------------------------------- */

static bool is_kept(const struct tg__overlay *v, const struct tg__event *event) {
  if (event->is_mark || v->is_critical[event->id] || v->t->slices.flags[event->id] & (TG__F_BEGIN_END | TG__F_ASYNC))
    return true;
  const enum tg__class cls = tg__slice_class(v->t, event->id);
  return cls == TG__CLASS_ANNOTATION || cls == TG__CLASS_PYTHON;
}

uint32_t tg__overlay_filter(const struct tg__overlay *v, struct tg__event *events, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (!v->only || is_kept(v, &events[i])) events[kept++] = events[i];
  return kept;
}

void tg__overlay_args(const struct tg__overlay *v, struct tg__buffer *buffer, uint32_t slice, bool has_args) {
  if (!v->is_critical[slice] || !buffer->p) return;
  if (!has_args) {
    if (tg__buffer_room(buffer, ARROW_ROOM)) buffer->p = TG__BUFFER_LITERAL(buffer->p, ",\"args\":{\"critical\":1}");
    return;
  }
  buffer->p--; /* the brace: it was written last, and in one piece with what is before it */
  const bool is_empty = buffer->p > buffer->start && buffer->p[-1] == '{';
  if (!tg__buffer_room(buffer, ARROW_ROOM)) return;
  if (!is_empty) *buffer->p++ = ',';
  buffer->p = TG__BUFFER_LITERAL(buffer->p, "\"critical\":1}");
}

/* An arrow leaves work of a device a little before its end: at the end itself viewers find nothing to tie it to. */
static int64_t time_at(const struct tg__overlay *v, uint32_t slice, bool at_end, uint32_t track) {
  const struct tg__slices *s = &v->t->slices;
  if (!at_end) return s->start_ns[slice];
  const int64_t early = s->dur_ns[slice] < 1000 ? s->dur_ns[slice] : 1000;
  return tg__slice_end(v->t, slice) - (v->t->tracks[track].kind == TG__TRACK_DEVICE ? early : 0);
}

static void put_end(const struct tg__overlay *v, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer, size_t id,
                    bool is_end) {
  const struct arrow *a = &v->arrows[id];
  const uint32_t slice = is_end ? a->to : a->from, track = tg__slice_track(v->t, slice);
  const struct tg__str place = tg__chrome_place(tracks, track, tg__chrome_slice_lane(tracks, track, slice));
  if (!tg__buffer_room(buffer, (size_t)ARROW_ROOM + place.len)) return;
  char *p = TG__BUFFER_LITERAL(buffer->p, ",\n{\"ph\":\"");
  *p++ = is_end ? 'f' : 's';
  p = TG__BUFFER_LITERAL(p, "\",\"id\":");
  p = tg__buffer_uint(p, id);
  p = tg__buffer_copy(p, place.ptr, place.len);
  p = TG__BUFFER_LITERAL(p, ",\"ts\":");
  p = tg__buffer_us(p, time_at(v, slice, is_end ? a->to_end : a->from_end, track) + tg__chrome_shift(tracks, track));
  p = TG__BUFFER_LITERAL(p, ",\"cat\":\"critical_path\",\"name\":\"critical_path\",\"args\":{\"weight\":");
  p = tg__buffer_us(p, a->weight_ns);
  p = a->is_critical ? TG__BUFFER_LITERAL(p, ",\"critical\":true,\"type\":\"")
                     : TG__BUFFER_LITERAL(p, ",\"critical\":false,\"type\":\"");
  p = tg__buffer_copy(p, types[a->kind], strlen(types[a->kind]));
  p = TG__BUFFER_LITERAL(p, "\"}");
  if (is_end) p = TG__BUFFER_LITERAL(p, ",\"bp\":\"e\"");
  *p++ = '}';
  buffer->p = p;
}

void tg__overlay_arrows(const struct tg__overlay *v, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer) {
  for (size_t i = 0; i < v->count; i++) {
    put_end(v, tracks, buffer, i, false);
    put_end(v, tracks, buffer, i, true);
  }
  tg__buffer_commit(buffer);
}
