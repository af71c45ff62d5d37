/* The predicted steps in a Chrome trace: chrome_predicted.h. */
#include "show/chrome_predicted.h"

enum { MOST_OPTIONS = 32 };

static const struct tg__column *column(const struct tg_table *t, const char *name) {
  return &t->columns[tg__table_column_index(t, name)];
}

/* ---- from the answer ------------------------------------------------------------------------- */

static void fill_null(int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = TG_NULL_INT;
}

static bool take_answer(struct tg__predicted *p) {
  const struct tg_table *const table = p->table;
  const struct tg__column *const slice = column(table, "slice"), *const mark = column(table, "mark");
  const struct tg__column *const start = column(table, "predicted_start_ns"), *const dur =
                                                                                  column(table, "predicted_dur_ns");
  p->start_ns = tg__alloc(((size_t)p->t->slices.count + 1) * sizeof *p->start_ns);
  p->dur_ns = tg__alloc(((size_t)p->t->slices.count + 1) * sizeof *p->dur_ns);
  p->mark_ns = tg__alloc(((size_t)p->t->marks.count + 1) * sizeof *p->mark_ns);
  if (!p->start_ns || !p->dur_ns || !p->mark_ns) return false;
  fill_null(p->start_ns, p->t->slices.count);
  fill_null(p->mark_ns, p->t->marks.count);
  for (size_t i = 0; i < table->rows; i++) {
    if (slice->ints[i] != TG_NULL_INT) p->start_ns[slice->ints[i]] = start->ints[i];
    if (slice->ints[i] != TG_NULL_INT) p->dur_ns[slice->ints[i]] = dur->ints[i];
    if (mark->ints[i] != TG_NULL_INT) p->mark_ns[mark->ints[i]] = start->ints[i];
  }
  return true;
}

/* These options of an export are not the question's. */
static bool is_of_export(const char *name) {
  return strcmp(name, "predicted") == 0 || strcmp(name, "trace_name") == 0 || strcmp(name, "lanes") == 0;
}

/* Of the options of the question these choose rows and columns. */
static bool is_of_table(const char *name) {
  static const char *const names[] = {"by", "where", "sort", "limit", "columns"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

/* The options that are the question's, behind those that are there; those that change something in words, too. */
static enum tg_err read_options(struct tg__predicted *p, const struct tg__show_options *o, struct tg_arg *args,
                                size_t *count, struct tg_error *e) {
  for (size_t i = 0; i < o->arg_count; i++) {
    const struct tg_arg *const arg = &o->args[i];
    if (is_of_export(arg->name)) continue;
    if (is_of_table(arg->name))
      return tg__fail(e, TG_USAGE, -1, "%s= is for a table: a trace has all events of the predicted steps", arg->name);
    if (*count == MOST_OPTIONS) return tg__fail(e, TG_USAGE, -1, "more than %d options", MOST_OPTIONS);
    args[(*count)++] = *arg;
    if (strcmp(arg->name, "rank") == 0) continue;
    if (p->change.len) tg__out_text(&p->change, ", ");
    tg__json_body(&p->change, (struct tg__str){arg->name, (uint32_t)strlen(arg->name)});
    tg__out_text(&p->change, " ");
    tg__json_body(&p->change, (struct tg__str){arg->value, (uint32_t)strlen(arg->value)});
  }
  if (!p->change.len) tg__out_text(&p->change, "no change");
  return p->change.err ? tg__no_memory(e, "predicting the steps") : TG_OK;
}

static enum tg_err predict(struct tg__predicted *p, struct tg__columns *t, const struct tg__show_options *o,
                           struct tg_error *e) {
  struct tg_arg args[MOST_OPTIONS] = {{"by", "event"},
                                      {"columns", "slice,mark,step,track,predicted_start_ns,predicted_dur_ns"}};
  size_t count = 2;
  enum tg_err err = read_options(p, o, args, &count, e);
  if (!err)
    err = tg__ask_trace(&(struct tg_trace){.columns = t}, tg__question_name(TG__Q_what_if), args, count, &p->table, e);
  if (err) return err;
  if (!p->table->rows)
    return tg__fail(e, TG_NO_DATA, -1, "%s", p->table->note_count ? p->table->notes[0] : "the trace has no steps");
  return take_answer(p) ? TG_OK : tg__no_memory(e, "predicting the steps");
}

enum tg_err tg__predicted_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__predicted **out,
                              struct tg_error *e) {
  *out = NULL;
  if (!tg__show_arg(o, "predicted")) return TG_OK;
  if (t->rank_count > 1 && !tg__show_arg(o, "rank"))
    return tg__fail(e, TG_USAGE, -1,
                    "the model of the steps is of one rank: say which with rank=, the others stay as they were");
  struct tg__predicted *p = tg__alloc(sizeof *p);
  if (!p) return tg__no_memory(e, "predicting the steps");
  p->t = t;
  const enum tg_err err = predict(p, t, o, e);
  if (err) {
    tg__predicted_free(p);
    p = NULL;
  }
  *out = p;
  return err;
}

void tg__predicted_free(struct tg__predicted *p) {
  if (!p) return;
  tg__free(p->start_ns);
  tg__free(p->dur_ns);
  tg__free(p->mark_ns);
  tg__table_free(p->table);
  tg__out_free(&p->change);
  tg__free(p);
}

/* ---- into the document ----------------------------------------------------------------------- */

static bool is_written(const struct tg__predicted *p, const struct tg__event *event) {
  if (!event->is_mark) return p->start_ns[event->id] != TG_NULL_INT;
  const struct tg__marks *const marks = &p->t->marks;
  return p->mark_ns[event->id] != TG_NULL_INT || marks->ts_ns[event->id] == TG_NULL_INT || marks->ph[event->id] == 'M';
}

uint32_t tg__predicted_filter(const struct tg__predicted *p, struct tg__event *events, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (is_written(p, &events[i])) events[kept++] = events[i];
  return kept;
}

static void put_place_of(struct tg__chrome_tracks *tracks, uint32_t track, struct tg__out *out) {
  const struct tg__str place = tg__chrome_place(tracks, track, 0);
  tg__out_bytes(out, place.ptr, place.len);
}

static void put_us(struct tg__out *out, const char *key, int64_t ns) {
  char text[TG__NUMBER_BYTES];
  tg__out_text(out, key);
  tg__out_bytes(out, text, (size_t)(tg__buffer_us(text, ns) - text));
}

/* The track of the steps. */
static uint32_t main_track(const struct tg__predicted *p) {
  for (uint32_t i = 0; i < p->t->step_count; i++) {
    const uint32_t slice = p->t->steps[i].slice;
    if (slice != TG_NONE && p->start_ns[slice] != TG_NULL_INT) return tg__slice_track(p->t, slice);
  }
  return (uint32_t)column(p->table, "track")->ints[p->table->rows - 1]; /* steps that are no slices come last */
}

static void put_step(const struct tg__predicted *p, struct tg__chrome_tracks *tracks, size_t row, struct tg__out *out) {
  tg__out_format(out, ",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%lld\"",
                 (long long)column(p->table, "step")->ints[row]);
  put_place_of(tracks, (uint32_t)column(p->table, "track")->ints[row], out);
  put_us(out, ",\"ts\":", column(p->table, "predicted_start_ns")->ints[row]);
  put_us(out, ",\"dur\":", column(p->table, "predicted_dur_ns")->ints[row]);
  tg__out_char(out, '}');
}

void tg__predicted_events(const struct tg__predicted *p, struct tg__chrome_tracks *tracks, struct tg__out *out) {
  const int64_t *const step = column(p->table, "step")->ints;
  for (size_t i = 0; i < p->table->rows; i++)
    if (step[i] != TG_NULL_INT) put_step(p, tracks, i, out);
  tg__out_text(out, ",\n{\"ph\":\"M\",\"name\":\"process_labels\"");
  put_place_of(tracks, main_track(p), out);
  tg__out_text(out, ",\"args\":{\"labels\":\"predicted: ");
  tg__out_bytes(out, p->change.buf, p->change.len);
  tg__out_text(out, "\"}}");
}

void tg__predicted_member(const struct tg__predicted *p, struct tg__out *out) {
  tg__out_text(out, ",\n\"predicted\":{\"change\":\"");
  tg__out_bytes(out, p->change.buf, p->change.len);
  tg__out_text(out, "\"}");
}

/* What was measured of the program beside the recording is not so of predicted steps. */
bool tg__predicted_replaces(const struct tg__columns *t, uint32_t key) {
  return tg__str_eq(tg__name(t, key), TG_STR("run")) || tg__str_eq(tg__name(t, key), TG_STR("predicted"));
}
