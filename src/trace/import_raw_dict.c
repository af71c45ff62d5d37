/* Dictionaries of a recording: what the numbers in its records mean. Ids count up from 1 in each, so tables by id
 * are dense; one that is not finds its place in a map, so that no id can ask for more memory than the file has
 * bytes. */
#include "trace/import_raw.h"

enum { NO_MODULE = TG_NONE - 1, DENSE_SLACK = 1024 };

uint32_t tg__raw_intern(struct tg__raw *w, const char *text, size_t len) {
  const uint32_t id = tg__strings_add(w->trace->strings, text, len);
  if (id == TG_NONE) __atomic_store_n(&w->no_memory, true, __ATOMIC_RELAXED);
  return id;
}

void tg__raw_count_lost_chunk(struct tg__raw *w, struct tg__raw_file *f, const struct tg__chunk *c) {
  (void)f;
  tg__count_loss(&w->im->losses, TG__LOSS_cut_chunks, (int64_t)c->offset);
}

uint8_t *tg__raw_fetch(const struct tg__raw_file *f, const struct tg__chunk *c, bool *damaged) {
  uint8_t *const payload = tg__realloc(NULL, (size_t)c->length + 1);
  if (!payload) return NULL;
  const struct tg__reader *const r = &f->tacho->reader;
  if (r->read(r->ctx, c->offset + TG_CHUNK_HEAD_BYTES, payload, (size_t)c->length) && tg__chunk_is_intact(c, payload))
    return payload;
  *damaged = true;
  tg__free(payload);
  return NULL;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool table_put(struct tg__raw_table *t, uint32_t id, uint32_t value) {
  if (id >= t->near_cap && id < t->seen * 2 + DENSE_SLACK) {
    const size_t before = t->near_cap;
    if (!tg__grow((void **)&t->near, &t->near_cap, (size_t)id + 1, sizeof *t->near)) return false;
    memset(t->near + before, 0xff, (t->near_cap - before) * sizeof *t->near);
  }
  t->seen++;
  if (id >= t->near_cap) return tg__map_put(&t->far, id, value);
  t->near[id] = value;
  return true;
}

static struct tg__raw_part *find_part(const struct tg__raw_file *f, uint32_t number) {
  const uint32_t at = tg__map_get(&f->part_of, number);
  return at == TG_NONE ? NULL : &f->parts[at];
}

static struct tg__raw_part *part_of(struct tg__raw_file *f, uint32_t number) {
  struct tg__raw_part *const known = find_part(f, number);
  if (known) return known;
  if (!tg__grow((void **)&f->parts, &f->part_cap, f->part_count + 1, sizeof *f->parts) ||
      !tg__map_put(&f->part_of, number, (uint32_t)f->part_count))
    return NULL;
  f->parts[f->part_count] = (struct tg__raw_part){.number = number};
  return &f->parts[f->part_count++];
}

struct tg__raw_ids tg__raw_ids_of(const struct tg__raw_file *f, uint32_t thread) {
  return (struct tg__raw_ids){find_part(f, thread), find_part(f, TG_RAW_EVERY_THREAD),
                              f->process.features & TG_RAW_HAS_CALLS};
}

void tg__raw_file_free(struct tg__raw_file *f) {
  for (size_t i = 0; i < f->part_count; i++) {
    for (int k = 0; k < TG__RAW_TABLES; k++) {
      tg__free(f->parts[i].tables[k].near);
      tg__map_free(&f->parts[i].tables[k].far);
    }
  }
  tg__free(f->parts);
  tg__map_free(&f->part_of);
  tg__free(f->clock.pairs);
}

/* ---- members of the document ----------------------------------------------------------------- */

/* Is this one JSON value and nothing else? It will be written out as it is. */
static bool is_json(struct tg__raw *w, const char *text, size_t len) {
  char *const padded = tg__alloc(len + TG__TEXT_PAD);
  if (!padded) {
    w->no_memory = true;
    return false;
  }
  if (len) memcpy(padded, text, len);
  padded[len] = ','; /* ends a number; the zeros behind it end a string */
  const bool whole = len && tg__skip_value(padded, padded + len + 1) == padded + len;
  tg__free(padded);
  return whole;
}

/* The members that a Kineto trace would have. */
static bool take_meta(struct tg__raw *w, struct tg__str text) {
  const char *const zero = text.len ? memchr(text.ptr, 0, text.len) : NULL;
  struct tg__import *const im = w->im;
  if (!zero || !is_json(w, zero + 1, (size_t)(text.ptr + text.len - zero - 1))) return false;
  const uint32_t name_len = (uint32_t)(zero - text.ptr);
  const struct tg__meta meta = {.key = tg__raw_intern(w, text.ptr, name_len),
                                .raw = tg__raw_intern(w, zero + 1, text.len - name_len - 1)};
  for (size_t i = 0; i < im->meta_count; i++) { /* given again: the last one counts */
    if (im->meta[i].key != meta.key) continue;
    im->meta[i] = meta;
    return true;
  }
  if (!tg__grow((void **)&im->meta, &im->meta_cap, im->meta_count + 1, sizeof *im->meta)) {
    w->no_memory = true;
    return true;
  }
  im->meta[im->meta_count++] = meta;
  return true;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Text in front of the first zero byte; *rest: what is behind it, NULL when there is none. */
static struct tg__str split(struct tg__str s, struct tg__str *rest) {
  const char *const zero = s.len ? memchr(s.ptr, 0, s.len) : NULL;
  *rest = (struct tg__str){NULL, 0};
  if (!zero) return s;
  const uint32_t len = (uint32_t)(zero - s.ptr);
  *rest = (struct tg__str){zero + 1, s.len - len - 1};
  return (struct tg__str){s.ptr, len};
}

static uint32_t take_name(struct tg__raw *w, struct tg__str text) {
  struct tg__str overload;
  const struct tg__str name = split(text, &overload);
  if (!tg__grow((void **)&w->names, &w->name_cap, w->name_count + 1, sizeof *w->names)) return TG_NONE;
  w->names[w->name_count] =
      (struct tg__raw_name){.text = tg__raw_intern(w, name.ptr, name.len),
                            .overload = overload.len ? tg__raw_intern(w, overload.ptr, overload.len) : TG_NONE};
  return (uint32_t)w->name_count++;
}

/* Where the line of "file(12): function" stands: its digits are [*from, *to). */
static bool find_line(struct tg__str frame, uint32_t *from, uint32_t *to) {
  for (uint32_t i = 0; i + 1 < frame.len; i++) {
    if (frame.ptr[i] != ')' || frame.ptr[i + 1] != ':') continue;
    *from = *to = i;
    while (*from > 0 && frame.ptr[*from - 1] >= '0' && frame.ptr[*from - 1] <= '9') --*from;
    if (*from < *to && *from > 0 && frame.ptr[*from - 1] == '(') return true;
  }
  return false;
}

/* The text with another line in it. */
static uint32_t with_line(struct tg__raw *w, struct tg__str frame, struct tg__str line) {
  uint32_t from, to;
  if (!line.len || !find_line(frame, &from, &to)) return tg__raw_intern(w, frame.ptr, frame.len);
  struct tg__out text = {0};
  tg__out_bytes(&text, frame.ptr, from);
  tg__out_bytes(&text, line.ptr, line.len);
  tg__out_bytes(&text, frame.ptr + to, frame.len - to);
  if (text.err) w->no_memory = true;
  const uint32_t id = text.err ? TG_NONE : tg__raw_intern(w, text.buf, text.len);
  tg__out_free(&text);
  return id;
}

/* A program has few; those past the limit are not kept, and their files are then found beside the trace or not. */
static void keep_folder(struct tg__raw *w, struct tg__str folder) {
  if (!folder.len || w->folder_count == TG__RAW_FOLDERS_MOST) return;
  const uint32_t id = tg__raw_intern(w, folder.ptr, folder.len);
  for (uint32_t i = 0; i < w->folder_count; i++)
    if (w->folders[i] == id) return;
  w->folders[w->folder_count++] = id;
}

static uint32_t take_frame(struct tg__raw *w, const struct tg__raw_entry *entry) {
  struct tg__str more, rest, module;
  const struct tg__str text = split(entry->text, &more), first_line = split(more, &rest);
  keep_folder(w, split(rest, &module));
  if (!tg__grow((void **)&w->frames, &w->frame_cap, w->frame_count + 1, sizeof *w->frames)) return TG_NONE;
  w->frames[w->frame_count] = (struct tg__raw_frame){.text = tg__raw_intern(w, text.ptr, text.len),
                                                     .name = with_line(w, text, first_line),
                                                     .parent = entry->parent,
                                                     .whole = TG_NONE,
                                                     .modules = TG_NONE,
                                                     .called_at = TG_NONE};
  return (uint32_t)w->frame_count++;
}

static uint32_t take_module(struct tg__raw *w, const struct tg__raw_entry *entry) {
  struct tg__str path;
  struct tg__out name = {0};
  const struct tg__str class_name = split(entry->text, &path);
  tg__out_text(&name, "nn.Module: ");
  tg__out_bytes(&name, class_name.ptr, class_name.len);
  tg__out_char(&name, '_');
  tg__out_uint(&name, entry->parent);
  if (name.err || !tg__grow((void **)&w->modules, &w->module_cap, w->module_count + 1, sizeof *w->modules)) {
    tg__out_free(&name);
    return TG_NONE;
  }
  w->modules[w->module_count] =
      (struct tg__raw_module){.name = tg__raw_intern(w, name.buf, name.len),
                              .path = path.len ? tg__raw_intern(w, path.ptr, path.len) : (uint32_t)TG__K_EMPTY,
                              .number = entry->parent};
  tg__out_free(&name);
  return (uint32_t)w->module_count++;
}

/* Digits are a forward thread; TorchScript's modules begin with "TOP". */
static uint32_t take_context(struct tg__raw *w, const struct tg__raw_entry *entry, bool *bad) {
  struct tg__raw_context context = {.stack = entry->parent, .modules = TG_NONE};
  const struct tg__str text = entry->text;
  const bool is_thread = text.len && text.ptr[0] >= '0' && text.ptr[0] <= '9';
  *bad = text.len == 0 || (is_thread && text.len > 9);
  for (uint32_t i = 0; is_thread && i < text.len && !*bad; i++) {
    const unsigned digit = (unsigned char)text.ptr[i] - '0';
    *bad = digit > 9;
    context.thread = context.thread * 10 + digit;
  }
  if (*bad || !tg__grow((void **)&w->contexts, &w->context_cap, w->context_count + 1, sizeof *w->contexts))
    return TG_NONE;
  if (!is_thread) context.modules = tg__raw_intern(w, text.ptr, text.len);
  w->contexts[w->context_count] = context;
  return (uint32_t)w->context_count++;
}

/* The number of an entry in its list; TG_NONE: not taken (out of memory, or, *bad, not readable). */
static uint32_t take_entry(struct tg__raw *w, const struct tg__raw_file *f, const struct tg__chunk *c, uint32_t kind,
                           const struct tg__raw_entry *entry, bool *bad) {
  struct tg__raw_shape shape;
  switch (kind) {
  case TG_RAW_D_NAME:
    return take_name(w, entry->text);
  case TG_RAW_D_STACK:
    return take_frame(w, entry);
  case TG_RAW_D_MODULE:
    return take_module(w, entry);
  case TG_RAW_D_CONTEXT:
    return take_context(w, entry, bad);
  case TG_RAW_D_LAUNCH:
    return tg__raw_take_launch(w, f, entry->text, bad);
  case TG_RAW_D_DEVICE:
    return tg__raw_take_device(w, entry->text, bad);
  case TG_RAW_D_GRAPH_NODE:
    return tg__raw_take_node(w, f, c->part, entry, bad);
  case TG_RAW_D_LABEL:
    return tg__raw_take_label(w, entry->text, bad);
  case TG_RAW_D_THREAD:
  case TG_RAW_D_GIVEN_THREAD:
    return tg__raw_intern(w, entry->text.ptr, entry->text.len);
  default: /* SHAPE */
    *bad = !tg__raw_take_shape(w, entry->text, &shape);
    if (*bad || !tg__grow((void **)&w->shapes, &w->shape_cap, w->shape_count + 1, sizeof *w->shapes)) return TG_NONE;
    w->shapes[w->shape_count] = shape;
    return (uint32_t)w->shape_count++;
  }
}

void tg__raw_take_dictionary(struct tg__raw *w, struct tg__raw_file *f, const struct tg__chunk *c,
                             const uint8_t *payload) {
  struct tg__bytes b = {.p = payload, .end = payload + c->length};
  const uint32_t kind = tg__bytes_take32(&b);
  struct tg__raw_entry entry;
  tg__bytes_take32(&b);
  struct tg__raw_part *const part = part_of(f, c->part);
  if (!part) w->no_memory = true;
  if (b.broken || kind == 0 || kind >= TG__RAW_TABLES) {
    tg__raw_count_lost_chunk(w, f, c);
    return;
  }
  while (!w->no_memory && tg__raw_entry_take(&b, &entry)) {
    bool bad = false;
    if (entry.id == 0 && entry.text.len == 0 && kind != TG_RAW_D_META) break; /* room that was never used */
    if (kind == TG_RAW_D_META) {
      bad = !take_meta(w, entry.text);
    } else {
      const uint32_t number = take_entry(w, f, c, kind, &entry, &bad);
      if (!bad && (number == TG_NONE || !table_put(&part->tables[kind], entry.id, number))) w->no_memory = true;
    }
    if (bad) tg__raw_count_lost_chunk(w, f, c);
  }
  if (b.broken) tg__raw_count_lost_chunk(w, f, c);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static struct tg__raw_frame *frame_at(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t id) {
  const uint32_t at = id ? tg__raw_find(s, TG_RAW_D_STACK, id) : TG_NONE;
  return at == TG_NONE ? NULL : &w->frames[at];
}

/* Frames from the innermost to the outermost, separated by ';'; the call of a module by the module's name. Bounded:
 * a hostile file may run in circles. */
static void write_stack(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack, struct tg__out *out) {
  for (int depth = 0; depth < TG__RAW_STACK_MAX && stack; depth++) {
    const struct tg__raw_frame *const frame = frame_at(w, s, stack);
    if (!frame) return;
    const uint32_t module = tg__raw_find(s, TG_RAW_D_MODULE, stack);
    const struct tg__str text = tg__name(w->trace, module != TG_NONE ? w->modules[module].name
                                                   : s->has_calls    ? frame->name
                                                                     : frame->text);
    if (depth) tg__out_char(out, ';');
    tg__out_bytes(out, text.ptr, text.len);
    stack = frame->parent;
  }
}

/* Modules from the outermost to the innermost, as the frames of their calls would be named, separated by " / ".
 * Returns the path of the innermost. */
static uint32_t write_modules(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack,
                              struct tg__out *out) {
  uint32_t found[TG__RAW_STACK_MAX];
  int count = 0;
  for (int depth = 0; depth < TG__RAW_STACK_MAX && stack; depth++) {
    const struct tg__raw_frame *const frame = frame_at(w, s, stack);
    const uint32_t module = tg__raw_find(s, TG_RAW_D_MODULE, stack);
    if (module != TG_NONE) found[count++] = module;
    stack = frame ? frame->parent : 0;
  }
  const uint32_t path = count ? w->modules[found[0]].path : TG__K_EMPTY;
  while (count-- > 0) {
    const struct tg__str name = tg__name(w->trace, w->modules[found[count]].name);
    const uint32_t head = sizeof "nn.Module: " - 1;
    if (out->len) tg__out_text(out, " / ");
    tg__out_bytes(out, name.ptr + head, name.len - head);
  }
  return path;
}

/* file(12): function → file:12 */
static void write_place(struct tg__str frame, struct tg__out *out) {
  uint32_t from, to;
  if (!find_line(frame, &from, &to)) {
    tg__out_bytes(out, frame.ptr, frame.len);
    return;
  }
  tg__out_bytes(out, frame.ptr, from - 1);
  tg__out_char(out, ':');
  tg__out_bytes(out, frame.ptr + from, to - from);
}

/* Publish a text for a frame; other jobs see it without the lock. */
static uint32_t publish(struct tg__raw *w, uint32_t *slot, struct tg__out *text, bool empty_is_none) {
  uint32_t id = empty_is_none && !text->len ? NO_MODULE : tg__raw_intern(w, text->len ? text->buf : "", text->len);
  if (text->err) {
    __atomic_store_n(&w->no_memory, true, __ATOMIC_RELAXED);
    id = TG_NONE;
  }
  __atomic_store_n(slot, id, __ATOMIC_RELEASE);
  tg__out_free(text);
  return id;
}

struct tg__raw_context tg__raw_context_of(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t field) {
  const bool is_entry = field & TG_RAW_CONTEXT_ENTRY;
  const uint32_t at = is_entry ? tg__raw_find(s, TG_RAW_D_CONTEXT, field & ~TG_RAW_CONTEXT_ENTRY) : TG_NONE;
  return at == TG_NONE ? (struct tg__raw_context){.stack = field, .modules = TG_NONE} : w->contexts[at];
}

uint32_t tg__raw_full_stack(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack) {
  struct tg__raw_frame *const frame = frame_at(w, s, stack);
  if (!frame) return TG_NONE;
  const uint32_t known = __atomic_load_n(&frame->whole, __ATOMIC_ACQUIRE);
  if (known != TG_NONE) return known;
  struct tg__out text = {0}; /* two jobs may both make it: the text, and so its id, is the same */
  write_stack(w, s, stack, &text);
  return publish(w, &frame->whole, &text, false);
}

uint32_t tg__raw_modules_text(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack) {
  struct tg__raw_frame *const frame = frame_at(w, s, stack);
  if (!frame || !w->module_count) return TG_NONE;
  uint32_t id = __atomic_load_n(&frame->modules, __ATOMIC_ACQUIRE);
  if (id == TG_NONE) {
    struct tg__out text = {0};
    __atomic_store_n(&frame->module_path, write_modules(w, s, stack, &text),
                     __ATOMIC_RELAXED); /* published with the text */
    id = publish(w, &frame->modules, &text, true);
  }
  return id == NO_MODULE ? TG_NONE : id;
}

uint32_t tg__raw_module_path(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack) {
  const struct tg__raw_frame *const frame = frame_at(w, s, stack);
  return frame ? __atomic_load_n(&frame->module_path, __ATOMIC_RELAXED) : TG__K_EMPTY;
}

uint32_t tg__raw_called_at(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack) {
  struct tg__raw_frame *const frame = frame_at(w, s, stack);
  if (!frame) return TG_NONE;
  const uint32_t known = __atomic_load_n(&frame->called_at, __ATOMIC_ACQUIRE);
  if (known != TG_NONE) return known;
  struct tg__out text = {0};
  write_place(tg__name(w->trace, frame->text), &text);
  return publish(w, &frame->called_at, &text, false);
}

uint32_t tg__raw_module_frame(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack) {
  for (int depth = 0; depth < TG__RAW_STACK_MAX && stack; depth++) {
    if (tg__raw_find(s, TG_RAW_D_MODULE, stack) != TG_NONE) return stack;
    const struct tg__raw_frame *const frame = frame_at(w, s, stack);
    stack = frame ? frame->parent : 0;
  }
  return 0;
}
