/* Frames and stacks of a snapshot as texts. */
#include "trace/snapshot_stacks.h"

enum {
  TEXT_MOST = 1 << 27,
  FRAME_TEXT_LEAST = 64, /* what is left of a frame's names beyond that */
  FRAMES_MOST = 1 << 12,
  TRACE_MOST = 1 << 12, /* bytes of a trace that are looked at, from its end */
};

static uint32_t intern_stack(struct tg__stacks *st, const struct tg__out *text) {
  const uint32_t known = tg__strings_count(st->s->strings);
  const uint32_t id = text->err ? TG_NONE : tg__strings_add(st->s->strings, text->buf ? text->buf : "", text->len);
  if (id == TG_NONE)
    st->no_memory = true;
  else if (id >= known)
    st->text_bytes += text->len;
  return id;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static const char *find_last(struct tg__str text, const char *what) {
  const size_t len = strlen(what);
  for (size_t at = text.len < len ? 0 : text.len - len + 1; at-- > 0;)
    if (memcmp(text.ptr + at, what, len) == 0) return text.ptr + at;
  return NULL;
}

/* The innermost line of a trace as Python prints it: File "model.py", line 12, in forward. */
static bool last_line(struct tg__str trace, struct tg__frame *out) {
  if (trace.len > TRACE_MOST) trace = (struct tg__str){trace.ptr + trace.len - TRACE_MOST, TRACE_MOST};
  static const char file[] = "File \"", line[] = "\", line ", in[] = ", in ";
  const char *const end = trace.ptr + trace.len, *p = find_last(trace, file);
  if (!p) return false;
  p += sizeof file - 1;
  const char *const quote = memchr(p, '"', (size_t)(end - p));
  if (!quote || (size_t)(end - quote) < sizeof line || memcmp(quote, line, sizeof line - 1) != 0) return false;
  out->file = (struct tg__str){p, (uint32_t)(quote - p)};
  for (p = quote + sizeof line - 1; p < end && *p >= '0' && *p <= '9' && out->line < 1 << 24; p++)
    out->line = out->line * 10 + (*p - '0');
  if ((size_t)(end - p) < sizeof in || memcmp(p, in, sizeof in - 1) != 0) return false;
  p += sizeof in - 1;
  const char *const newline = memchr(p, '\n', (size_t)(end - p));
  out->name = (struct tg__str){p, (uint32_t)((newline ? newline : end) - p)};
  return true;
}

static void write_frame(struct tg__stacks *st, const struct tg__frame *f, struct tg__out *text) {
  struct tg__str file = f->file, name = f->name;
  if (st->text_bytes > TEXT_MOST && file.len + (uint64_t)name.len > 2 * FRAME_TEXT_LEAST) {
    if (file.len > FRAME_TEXT_LEAST) file.len = FRAME_TEXT_LEAST;
    if (name.len > FRAME_TEXT_LEAST) name.len = FRAME_TEXT_LEAST;
    st->s->cut_stacks++;
  }
  tg__out_bytes(text, file.ptr, file.len);
  if (file.len || f->line) tg__out_format(text, "(%lld): ", (long long)f->line); /* an operator has no line */
  tg__out_bytes(text, name.ptr, name.len);
}

uint32_t tg__stacks_frame(struct tg__stacks *st, const struct tg__frame *f) {
  struct tg__out text = {0};
  struct tg__frame written = {0};
  const bool is_roomy = st->text_bytes <= TEXT_MOST;
  if (is_roomy && f->written.len && last_line(f->written, &written)) {
    write_frame(st, &written, &text);
    tg__out_char(&text, ';');
  }
  write_frame(st, f, &text);
  if (is_roomy && f->node.len) {
    tg__out_text(&text, " [");
    tg__out_bytes(&text, f->node.ptr, f->node.len);
    tg__out_char(&text, ']');
  }
  const uint32_t id = intern_stack(st, &text);
  tg__out_free(&text);
  return id;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static uint32_t stack_text(struct tg__stacks *st, const uint32_t *frames, size_t count) {
  struct tg__out text = {0};
  if (st->text_bytes > TEXT_MOST && count > 2) {
    count = 2;
    st->s->cut_stacks++;
  }
  for (size_t i = 0; i < count; i++) {
    const struct tg__str f = tg__strings_get(st->s->strings, frames[i]);
    if (i) tg__out_char(&text, ';');
    tg__out_bytes(&text, f.ptr, f.len);
  }
  const uint32_t id = intern_stack(st, &text);
  tg__out_free(&text);
  return id;
}

/* The number of a stack with these frames, which lie at the end of st->frames and stay there when it is new. */
static uint32_t stack_number(struct tg__stacks *st, size_t first) {
  const size_t count = st->frame_count - first;
  const uint32_t *const frames = st->frames + first;
  uint64_t hash = tg__hash(frames, count * sizeof *frames);
  for (uint32_t known; (known = tg__map_get(&st->of_hash, hash)) != TG_NONE; hash++) {
    const struct tg__frames_range *const s = &st->ranges[known];
    if (s->count != count || memcmp(st->frames + s->first, frames, count * sizeof *frames) != 0) continue;
    st->frame_count = first;
    return known;
  }
  struct tg__snapshot *const s = st->s;
  if (!tg__grow((void **)&st->ranges, &st->range_cap, s->stack_count + 1, sizeof *st->ranges) ||
      !tg__grow((void **)&s->stack_texts, &s->stack_cap, s->stack_count + 1, sizeof *s->stack_texts) ||
      !tg__map_put(&st->of_hash, hash, (uint32_t)s->stack_count)) {
    st->no_memory = true;
    return 0;
  }
  st->ranges[s->stack_count] = (struct tg__frames_range){first, count};
  s->stack_texts[s->stack_count] = stack_text(st, frames, count);
  return (uint32_t)s->stack_count++;
}

uint32_t *tg__stacks_room(struct tg__stacks *st, uint32_t before, size_t most) {
  const struct tg__frames_range own = st->ranges[before];
  if (!tg__grow((void **)&st->frames, &st->frame_cap, st->frame_count + own.count + most, sizeof *st->frames)) {
    st->no_memory = true;
    return NULL;
  }
  uint32_t *const room = st->frames + st->frame_count;
  if (own.count) memcpy(room, st->frames + own.first, own.count * sizeof *room);
  return room + own.count;
}

uint32_t tg__stacks_number(struct tg__stacks *st, uint32_t before, size_t count) {
  const size_t first = st->frame_count, all = st->ranges[before].count + count;
  st->frame_count += all < FRAMES_MOST ? all : FRAMES_MOST;
  return stack_number(st, first);
}

/* ---- the whole ------------------------------------------------------------------------------- */

uint32_t tg__stacks_join(struct tg__stacks *st, uint32_t before, const uint32_t *texts, size_t count) {
  struct tg__out text = {0};
  const struct tg__str begun = before == TG_NONE ? TG_STR("") : tg__strings_get(st->s->strings, before);
  tg__out_bytes(&text, begun.ptr, begun.len);
  for (size_t i = 0; i < count && st->text_bytes <= TEXT_MOST && text.len <= TEXT_MOST; i++) {
    const struct tg__str line = tg__strings_get(st->s->strings, texts[i]);
    tg__out_bytes(&text, line.ptr, line.len);
  }
  const uint32_t id = intern_stack(st, &text);
  st->text_bytes += text.len; /* known or not: it was written out */
  tg__out_free(&text);
  return id;
}

bool tg__stacks_begin(struct tg__stacks *st, struct tg__snapshot *s) {
  *st = (struct tg__stacks){.s = s};
  return stack_number(st, 0) == 0 && !st->no_memory;
}

void tg__stacks_free(struct tg__stacks *st) {
  tg__free(st->frames);
  tg__free(st->ranges);
  tg__map_free(&st->of_hash);
}
