/* Counters in a Chrome trace: how long the queue of each stream is, how fast copies of each kind run. Names and args
 * are those that HolisticTraceAnalysis writes, so that what draws its files draws these. */
#include "show/chrome_counters.h"

enum { POINT_ROOM = 256 };
struct tg__counters {
  struct tg_table *queue, *bandwidth; /* NULL: not asked for */
};

static enum tg_err ask_counter(struct tg__columns *t, const struct tg__show_options *o, enum tg__question_id question,
                               const char *columns, struct tg_table **out, struct tg_error *e) {
  struct tg_arg args[4] = {{"by", "series"}, {"columns", columns}};
  size_t count = 2;
  if (tg__show_arg(o, "rank")) args[count++] = (struct tg_arg){"rank", tg__show_arg(o, "rank")};
  if (tg__show_arg(o, "step")) args[count++] = (struct tg_arg){"step", tg__show_arg(o, "step")};
  return tg__ask_trace(&(struct tg_trace){.columns = t}, tg__question_name(question), args, count, out, e);
}

enum tg_err tg__counters_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__counters **out,
                             struct tg_error *e) {
  const char *what = tg__show_arg(o, "counters");
  *out = NULL;
  if (!what) return TG_OK;
  const bool all = strcmp(what, "all") == 0, queue = all || strcmp(what, "queue") == 0,
             bandwidth = all || strcmp(what, "bandwidth") == 0;
  if (!queue && !bandwidth)
    return tg__fail(e, TG_USAGE, -1, "counters=%.60s is unknown: it is queue, bandwidth or all", what);
  struct tg__counters *c = tg__alloc(sizeof *c);
  if (!c) return tg__no_memory(e, "drawing counters");
  enum tg_err err = TG_OK;
  if (queue) err = ask_counter(t, o, TG__Q_queue, "stream,ts_ns,length,track", &c->queue, e);
  if (bandwidth && !err) err = ask_counter(t, o, TG__Q_copy_bandwidth, "kind,ts_ns,gbps,track", &c->bandwidth, e);
  if (err) {
    tg__counters_free(c);
    return err;
  }
  *out = c;
  return TG_OK;
}

void tg__counters_free(struct tg__counters *c) {
  if (!c) return;
  tg__table_free(c->queue);
  tg__table_free(c->bandwidth);
  tg__free(c);
}

static const struct tg__column *column(const struct tg_table *t, const char *name) {
  return &t->columns[tg__table_column_index(t, name)];
}

/* Everything of an event but its name and its args. */
static char *put_counter_head(char *p, struct tg__chrome_tracks *tracks, const struct tg_table *t, size_t row) {
  const uint32_t track = (uint32_t)column(t, "track")->ints[row];
  const struct tg__str place = tg__chrome_place(tracks, track, 0);
  p = TG__BUFFER_LITERAL(p, ",\n{\"ph\":\"C\"");
  p = tg__buffer_copy(p, place.ptr, place.len);
  p = TG__BUFFER_LITERAL(p, ",\"ts\":");
  return tg__buffer_us(p, column(t, "ts_ns")->ints[row] + tg__chrome_shift(tracks, track));
}

static void put_queue(const struct tg_table *t, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer) {
  const struct tg__column *stream = column(t, "stream"), *length = column(t, "length"), *track = column(t, "track");
  for (size_t i = 0; i < t->rows; i++) {
    if (!tg__buffer_room(buffer, POINT_ROOM + tg__chrome_place(tracks, (uint32_t)track->ints[i], 0).len)) return;
    char *p = put_counter_head(buffer->p, tracks, t, i);
    p = TG__BUFFER_LITERAL(p, ",\"name\":\"Queue Length\",\"id\":");
    p = tg__buffer_int(p, stream->ints[i]);
    p = TG__BUFFER_LITERAL(p, ",\"args\":{\"Queue Length\":");
    p = tg__buffer_int(p, length->ints[i]);
    buffer->p = TG__BUFFER_LITERAL(p, "}}");
  }
  tg__buffer_commit(buffer);
}

static void put_bandwidth(const struct tg_table *t, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer) {
  const struct tg__column *kind = column(t, "kind"), *gbps = column(t, "gbps"), *track = column(t, "track");
  for (size_t i = 0; i < t->rows; i++) {
    if (!tg__buffer_room(buffer, POINT_ROOM + tg__chrome_place(tracks, (uint32_t)track->ints[i], 0).len)) return;
    buffer->p = put_counter_head(buffer->p, tracks, t, i);
    tg__buffer_commit(buffer);
    tg__out_text(buffer->out, ",\"name\":\"");
    tg__json_escape(buffer->out, tg__strings_get(t->strings, kind->texts[i]), true);
    tg__out_text(buffer->out, "\",\"args\":{\"Memcpy BW\":");
    tg__out_double(buffer->out, gbps->reals[i]);
    tg__out_text(buffer->out, "}}");
  }
}

void tg__counters_put(const struct tg__counters *c, struct tg__chrome_tracks *tracks, struct tg__buffer *buffer) {
  if (c->queue) put_queue(c->queue, tracks, buffer);
  if (c->bandwidth) put_bandwidth(c->bandwidth, tracks, buffer);
}
