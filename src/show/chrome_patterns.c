/* Frequent sequences of kernels as marks in a Chrome trace: chrome_patterns.h. */
#include "show/chrome_patterns.h"

#include <stdlib.h>

#include "analyze/sequences.h"

struct tg__marked {
  struct tg__patterns patterns;
  struct tg__str *texts; /* by pattern: "Patterns":{"…":4}; empty = not among the most frequent */
  struct tg__arena arena;
};

static bool render(struct tg__marked *m, uint32_t number) {
  const struct tg__pattern *item = &m->patterns.items[number];
  struct tg__out plain = {0}, text = {0};
  tg__pattern_text(&m->patterns, item, &plain);
  tg__out_text(&text, "\"Patterns\":{\"");
  tg__json_body(&text, (struct tg__str){plain.buf, (uint32_t)plain.len});
  tg__out_format(&text, "\":%lld}", (long long)item->count);
  const char *copy = plain.err || text.err ? NULL : tg__arena_copy(&m->arena, text.buf, text.len);
  m->texts[number] = (struct tg__str){copy, (uint32_t)text.len};
  tg__out_free(&plain);
  tg__out_free(&text);
  return copy != NULL;
}

static bool render_top(struct tg__marked *m, size_t top) {
  const size_t count = m->patterns.count + 1;
  uint32_t *order = tg__alloc(count * sizeof *order);
  m->texts = tg__alloc(count * sizeof *m->texts);
  const size_t kept = order && m->texts ? tg__patterns_top(&m->patterns, top, order) : SIZE_MAX;
  bool ok = kept != SIZE_MAX;
  for (size_t i = 0; ok && i < kept; i++) ok = render(m, order[i]);
  tg__free(order);
  return ok;
}

static enum tg_err read_count(const struct tg__show_options *o, const char *name, size_t *out, struct tg_error *e) {
  const char *text = tg__show_arg(o, name);
  char *end;
  if (!text) return TG_OK;
  const long long n = strtoll(text, &end, 10);
  if (end == text || *end || n < 1 || n > UINT32_MAX) return tg__fail(e, TG_USAGE, -1, "%s=%.60s is not a whole number above 0", name, text);
  *out = (size_t)n;
  return TG_OK;
}

enum tg_err tg__marked_new(const struct tg_trace *t, const struct tg__ask *pick, const struct tg__show_options *o, struct tg__marked **out,
                           struct tg_error *e) {
  const char *op = tg__show_arg(o, "patterns");
  size_t top = 5, min_length = 3;
  *out = NULL;
  if (!op) return TG_OK;
  enum tg_err err = read_count(o, "top_k", &top, e);
  if (!err) err = read_count(o, "min_length", &min_length, e);
  if (err) return err;
  struct tg__marked *m = tg__alloc(sizeof *m);
  err = m ? tg__patterns_find(&m->patterns, t, pick, op, min_length, NULL) : TG_MEMORY;
  if (!err && !render_top(m, top)) err = TG_MEMORY;
  if (!err) {
    *out = m;
    return TG_OK;
  }
  tg__marked_free(m);
  return tg__fail(e, err, -1, "out of memory while looking for sequences of kernels");
}

void tg__marked_free(struct tg__marked *m) {
  if (!m) return;
  tg__patterns_free(&m->patterns);
  tg__free(m->texts);
  tg__arena_free(&m->arena);
  tg__free(m);
}

bool tg__marked_args(const struct tg__marked *m, struct tg__pen *pen, uint32_t slice, bool has_args) {
  const uint32_t number = tg__pattern_around(&m->patterns, slice);
  if (number == TG_NONE || !m->texts[number].len || !pen->p) return has_args;
  const struct tg__str text = m->texts[number];
  if (has_args) pen->p--; /* the brace: it was written last, and in one piece with what is before it */
  const bool is_empty = has_args && pen->p > pen->start && pen->p[-1] == '{';
  if (!tg__pen_room(pen, (size_t)text.len + TG__PEN_NUMBER)) return has_args;
  if (!has_args) pen->p = TG__PEN_LITERAL(pen->p, ",\"args\":{");
  else if (!is_empty) *pen->p++ = ',';
  pen->p = tg__pen_copy(pen->p, text.ptr, text.len);
  *pen->p++ = '}';
  return true;
}
