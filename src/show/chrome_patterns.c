/* Frequent sequences of kernels as marks in a Chrome trace: chrome_patterns.h. */
#include "show/chrome_patterns.h"

struct tg__marked {
  struct tg__str *texts; /* by pattern: "Patterns":{"…":4} */
  uint32_t *pattern;     /* by slice; TG_NONE */
  struct tg__arena arena;
};

/* The question sequences, with what the options say. */
static enum tg_err ask_pattern(struct tg__columns *t, const struct tg__show_options *o, const char *by,
                               struct tg_table **out, struct tg_error *e) {
  static const char *const passed[] = {"rank", "step", "rules", "min_length", "top_k"};
  struct tg_arg args[2 + sizeof passed / sizeof *passed] = {{"by", by}, {"op", tg__show_arg(o, "patterns")}};
  size_t count = 2;
  for (size_t k = 0; k < sizeof passed / sizeof *passed; k++) {
    const char *value = tg__show_arg(o, passed[k]);
    if (!value && strcmp(passed[k], "top_k") == 0) value = "5";
    if (value) args[count++] = (struct tg_arg){passed[k], value};
  }
  return tg__ask_trace(&(struct tg_trace){.columns = t}, tg__question_name(TG__Q_sequences), args, count, out, e);
}

static const int64_t *ints(const struct tg_table *table, const char *name) {
  return table->columns[tg__table_column_index(table, name)].ints;
}

static uint64_t pattern_place_of(const struct tg_table *table, size_t row) {
  return (uint64_t)ints(table, "rank")[row] << 32 | (uint64_t)ints(table, "place")[row];
}

static bool render(struct tg__marked *m, const struct tg_table *patterns, size_t row) {
  const uint32_t id = patterns->columns[tg__table_column_index(patterns, "pattern")].texts[row];
  struct tg__out text = {0};
  tg__out_text(&text, "\"Patterns\":{\"");
  tg__json_body(&text, tg__strings_get(patterns->strings, id));
  tg__out_format(&text, "\":%lld}", (long long)ints(patterns, "count")[row]);
  const char *copy = text.err ? NULL : tg__arena_copy(&m->arena, text.buf, text.len);
  m->texts[row] = (struct tg__str){copy, (uint32_t)text.len};
  tg__out_free(&text);
  return copy != NULL;
}

static bool mark(struct tg__marked *m, const struct tg__columns *t, const struct tg_table *patterns,
                 const struct tg_table *events) {
  const size_t slices = (size_t)t->slices.count + 1;
  struct tg__map rows = {0}; /* rank and place → row of patterns */
  m->texts = tg__alloc((patterns->rows + 1) * sizeof *m->texts);
  m->pattern = tg__alloc(slices * sizeof *m->pattern);
  bool ok = m->texts && m->pattern;
  if (ok) memset(m->pattern, 0xff, slices * sizeof *m->pattern);
  for (size_t i = 0; ok && i < patterns->rows; i++)
    ok = render(m, patterns, i) && tg__map_put(&rows, pattern_place_of(patterns, i), (uint32_t)i);
  for (size_t i = 0; ok && i < events->rows; i++)
    m->pattern[ints(events, "event")[i]] = tg__map_get(&rows, pattern_place_of(events, i));
  tg__map_free(&rows);
  return ok;
}

enum tg_err tg__marked_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__marked **out,
                           struct tg_error *e) {
  struct tg_table *patterns = NULL, *events = NULL;
  *out = NULL;
  if (!tg__show_arg(o, "patterns")) return TG_OK;
  struct tg__marked *m = tg__alloc(sizeof *m);
  enum tg_err err = m ? ask_pattern(t, o, "pattern", &patterns, e) : tg__no_memory(e, "reading patterns");
  if (!err) err = ask_pattern(t, o, "event", &events, e);
  if (!err && !mark(m, t, patterns, events)) err = tg__no_memory(e, "marking sequences of kernels");
  tg__table_free(patterns);
  tg__table_free(events);
  if (!err)
    *out = m;
  else
    tg__marked_free(m);
  return err;
}

void tg__marked_free(struct tg__marked *m) {
  if (!m) return;
  tg__free(m->texts);
  tg__free(m->pattern);
  tg__arena_free(&m->arena);
  tg__free(m);
}

bool tg__marked_args(const struct tg__marked *m, struct tg__buffer *buffer, uint32_t slice, bool has_args) {
  if (m->pattern[slice] == TG_NONE || !buffer->p) return has_args;
  const struct tg__str text = m->texts[m->pattern[slice]];
  if (has_args) buffer->p--; /* the brace: it was written last, and in one piece with what is before it */
  const bool is_empty = has_args && buffer->p > buffer->start && buffer->p[-1] == '{';
  if (!tg__buffer_room(buffer, (size_t)text.len + TG__NUMBER_BYTES)) return has_args;
  if (!has_args)
    buffer->p = TG__BUFFER_LITERAL(buffer->p, ",\"args\":{");
  else if (!is_empty)
    *buffer->p++ = ',';
  buffer->p = tg__buffer_copy(buffer->p, text.ptr, text.len);
  *buffer->p++ = '}';
  return true;
}
