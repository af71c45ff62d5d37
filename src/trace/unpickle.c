/* A pickle machine without the opcodes that run code. */
#include "trace/unpickle_machine.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  BUFFER = 1 << 18,
  TEXT_MOST = 1 << 28, /* a longer text is damage, or an attack */
  NAME = 100,
};
enum verdict { GO_ON, STOP, CUT, FAILED };

/* ---- bytes ----------------------------------------------------------------------------------- */

/* At least n unread bytes in the buffer: false at the end of the input, or when m->err says why not. */
static bool fill(struct tg__machine *m, size_t n) {
  if (m->at) memmove(m->buffer, m->buffer + m->at, m->end - m->at);
  m->offset += (int64_t)m->at;
  m->end -= m->at;
  m->at = 0;
  if (n > m->buffer_cap && !tg__grow((void **)&m->buffer, &m->buffer_cap, n, 1)) {
    m->err = tg__no_memory(m->e, "reading a text of the snapshot");
    return false;
  }
  if (m->how && m->how->progress && !m->how->progress(m->how->progress_ctx)) {
    m->err = tg__fail(m->e, TG_CANCELLED, -1, "cancelled");
    return false;
  }
  while (m->end < n) {
    const int64_t got = m->source(m->source_ctx, m->buffer + m->end, m->buffer_cap - m->end, m->e);
    if (got < 0) m->err = m->e->code;
    if (got <= 0) return false;
    m->end += (size_t)got;
  }
  return true;
}
static inline const uint8_t *take_bytes(struct tg__machine *m, size_t n) {
  if (TG_UNLIKELY(m->end - m->at < n) && !fill(m, n)) return NULL;
  m->at += n;
  return m->buffer + m->at - n;
}
/* A line without its end; NULL when there is none. */
static const uint8_t *take_line(struct tg__machine *m, size_t *len) {
  for (size_t n = 1; n < TEXT_MOST; n++) {
    if (m->end - m->at < n && !fill(m, n)) return NULL;
    if (m->buffer[m->at + n - 1] != '\n') continue;
    *len = n - 1;
    m->at += n;
    return m->buffer + m->at - n;
  }
  return NULL;
}

/* ---- the stack and the memo ------------------------------------------------------------------ */

static enum verdict no_memory(struct tg__machine *m) {
  m->err = tg__no_memory(m->e, "reading the snapshot");
  return FAILED;
}

static inline enum verdict push(struct tg__machine *m, struct tg__pickle_value v) {
  if (TG_UNLIKELY(m->depth == m->stack_cap) &&
      !tg__grow((void **)&m->stack, &m->stack_cap, m->depth + 1, sizeof *m->stack))
    return no_memory(m);
  m->stack[m->depth++] = v;
  return GO_ON;
}
static enum verdict push_int(struct tg__machine *m, int64_t i) {
  return push(m, (struct tg__pickle_value){.kind = TG__PICKLE_INT, .i = i});
}
static enum verdict push_text(struct tg__machine *m, const uint8_t *p, size_t len) {
  const uint32_t id = tg__strings_add(m->u->strings, (const char *)p, len);
  if (id > TG__MEANING_MASK) return no_memory(m);
  return push(m, (struct tg__pickle_value){.kind = TG__PICKLE_TEXT, .id = id});
}

static inline enum verdict push_container(struct tg__machine *m, enum tg__pickle_kind kind) {
  if (!tg__pickle_add(m->u, kind, 0)) return no_memory(m);
  return push(m, (struct tg__pickle_value){.kind = kind, .id = (uint32_t)m->u->object_count - 1});
}

static enum verdict push_mark(struct tg__machine *m) {
  const enum verdict v = push(m, (struct tg__pickle_value){.kind = TG__PICKLE_MARK, .i = (int64_t)m->mark});
  if (v == GO_ON) m->mark = m->depth;
  return v;
}
/* Nothing at or above `depth` is left. */
static inline void cut_stack(struct tg__machine *m, size_t depth) {
  while (m->mark > depth) m->mark = (size_t)m->stack[m->mark - 1].i;
  m->depth = depth;
}
/* Past the last mark: the first value above it; SIZE_MAX when there is none. */
static size_t above_mark(const struct tg__machine *m) { return m->mark ? m->mark : SIZE_MAX; }

/* Hand values [from, depth) to the container below them, which is left on top. `below`: how far below `from` it is. */
static enum verdict put_into(struct tg__machine *m, size_t from, size_t below) {
  if (from < below) return CUT;
  const struct tg__pickle_value into = m->stack[from - below];
  const size_t count = m->depth - from;
  bool ok = true;
  if (into.kind == TG__PICKLE_DICT)
    ok = count % 2 == 0 && m->u->pairs(m->u->ctx, m->u, into, m->stack + from, count);
  else if (into.kind == TG__PICKLE_LIST)
    ok = m->u->items(m->u->ctx, m->u, into, m->stack + from, count);
  else
    return CUT;
  if (into.kind == TG__PICKLE_DICT && count % 2) return CUT;
  cut_stack(m, from - below + 1);
  return ok ? GO_ON : no_memory(m);
}

/* The values [from, depth) become a tuple, in place of the mark below them when there is one. */
static enum verdict gather_tuple(struct tg__machine *m, size_t from, bool has_mark) {
  const uint32_t meaning = m->u->tuple(m->u->ctx, m->stack + from, m->depth - from);
  if (meaning == TG_NONE) return no_memory(m);
  cut_stack(m, from - has_mark);
  return push(m, (struct tg__pickle_value){.kind = TG__PICKLE_TUPLE, .id = meaning});
}

/* The same for the other containers, which always have one. */
static enum verdict gather_bytes(struct tg__machine *m, size_t from, enum tg__pickle_kind kind) {
  const size_t count = m->depth - from;
  if (kind == TG__PICKLE_TUPLE) return gather_tuple(m, from, true);
  enum verdict v = push_container(m, kind);
  if (v != GO_ON) return v;
  const struct tg__pickle_value made = m->stack[--m->depth];
  if (kind == TG__PICKLE_DICT && count % 2) return CUT;
  const bool ok = kind == TG__PICKLE_DICT ? m->u->pairs(m->u->ctx, m->u, made, m->stack + from, count)
                                          : m->u->items(m->u->ctx, m->u, made, m->stack + from, count);
  if (!ok) return no_memory(m);
  cut_stack(m, from - 1);
  return push(m, made);
}

static bool fits_memo(enum tg__pickle_kind kind) { return kind >= TG__PICKLE_TEXT && kind <= TG__PICKLE_DICT; }

/* The number of a value among the objects: containers have theirs, others get one. TG_NONE: out of memory. */
static uint32_t object_of(struct tg__machine *m, struct tg__pickle_value v) {
  if (v.kind >= TG__PICKLE_LIST) return v.id;
  return tg__pickle_add(m->u, v.kind, v.id) ? (uint32_t)m->u->object_count - 1 : TG_NONE;
}
/* Does memo entry `at` hold this text or tuple already? Programs may put it there again and again. */
static bool holds(const struct tg__machine *m, uint64_t at, struct tg__pickle_value v) {
  if (v.kind >= TG__PICKLE_LIST || at >= m->memo_count) return false;
  const uint32_t object = m->memo ? m->memo[at] : (uint32_t)at;
  return object != TG_NONE && m->u->objects[object] == tg__pickle_word(v.kind, v.id);
}
static enum verdict memo_put(struct tg__machine *m, uint64_t at) {
  /* Python numbers them one after the other; room for wild numbers would be memory without bytes to show for it. */
  if (!m->depth || !fits_memo(m->stack[m->depth - 1].kind) || at > m->memo_count + 65536) return CUT;
  const struct tg__pickle_value v = m->stack[m->depth - 1];
  if (holds(m, at, v)) return GO_ON;
  const uint32_t object = object_of(m, v);
  if (object == TG_NONE) return no_memory(m);
  if (!m->memo && at == m->memo_count && object == at) {
    m->memo_count++;
    return GO_ON;
  }
  const bool first = !m->memo;
  const size_t want = at < m->memo_count ? m->memo_count : (size_t)at + 1;
  if (want > m->memo_cap && !tg__grow((void **)&m->memo, &m->memo_cap, want, sizeof *m->memo)) return no_memory(m);
  for (size_t i = 0; first && i < m->memo_count; i++) m->memo[i] = (uint32_t)i;
  for (; m->memo_count <= at; m->memo_count++) m->memo[m->memo_count] = TG_NONE;
  m->memo[at] = object;
  return GO_ON;
}
static inline enum verdict memo_get(struct tg__machine *m, uint64_t at) {
  struct tg__pickle_value v;
  return tg__memo_find(m, at, &v) ? push(m, v) : CUT;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* What a file must not hold here, by the names of Python's pickletools. */
static enum verdict refuse(struct tg__machine *m, const char *opcode) {
  char what[NAME * 2 + 2] = "";
  size_t len;
  const uint8_t *line = m->op == 'c' || m->op == 'i' ? take_line(m, &len) : NULL;
  if (line) snprintf(what, sizeof what, "%.*s", (int)(len < NAME ? len : NAME), (const char *)line);
  line = line ? take_line(m, &len) : NULL;
  if (line)
    snprintf(what + strlen(what), sizeof what - strlen(what), ".%.*s", (int)(len < NAME ? len : NAME),
             (const char *)line);
  if (m->op == 0x93 && m->depth >= 2 && m->stack[m->depth - 1].kind == TG__PICKLE_TEXT &&
      m->stack[m->depth - 2].kind == TG__PICKLE_TEXT) {
    const struct tg__str module = tg__strings_get(m->u->strings, m->stack[m->depth - 2].id);
    const struct tg__str name = tg__strings_get(m->u->strings, m->stack[m->depth - 1].id);
    snprintf(what, sizeof what, "%.*s.%.*s", module.len < NAME ? (int)module.len : NAME, module.ptr,
             name.len < NAME ? (int)name.len : NAME, name.ptr);
  }
  m->err = m->err ? m->err
                  : tg__fail(m->e, TG_NOT_A_TRACE, m->offset + (int64_t)m->at,
                             "the pickle would run code (%s%s%s): a memory snapshot holds plain lists, dicts, "
                             "numbers and texts, and nothing in it "
                             "is executed here",
                             opcode, *what ? " " : "", what);
  return FAILED;
}

static enum verdict text_number(struct tg__machine *m) {
  size_t len;
  char text[32];
  const uint8_t *line = take_line(m, &len);
  if (!line || len >= sizeof text) return CUT;
  memcpy(text, line, len);
  text[len] = 0;
  if (m->op == 'I' && len == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1'))
    return push(m, (struct tg__pickle_value){.kind = text[1] == '1' ? TG__PICKLE_TRUE : TG__PICKLE_FALSE});
  if (m->op == 'F') {
    const double real = strtod(text, NULL);
    struct tg__pickle_value v = {.kind = TG__PICKLE_REAL};
    memcpy(&v.i, &real, sizeof v.i);
    return push(m, v);
  }
  return push_int(m, text[0] == '-' ? strtoll(text, NULL, 10) : (int64_t)strtoull(text, NULL, 10));
}

static enum verdict sized_text(struct tg__machine *m, unsigned length_bytes) {
  const uint8_t *p = take_bytes(m, length_bytes);
  const uint64_t len = p ? tg__pickle_number(p, length_bytes) : UINT64_MAX;
  p = len < TEXT_MOST ? take_bytes(m, (size_t)len) : NULL;
  return p ? push_text(m, p, (size_t)len) : CUT;
}

/* LONG1, LONG4: two's complement of any length; what lies beyond 64 bits is dropped. */
static enum verdict long_number(struct tg__machine *m, unsigned length_bytes) {
  const uint8_t *p = take_bytes(m, length_bytes);
  const uint64_t len = p ? tg__pickle_number(p, length_bytes) : UINT64_MAX;
  p = len <= 1024 ? take_bytes(m, (size_t)len) : NULL;
  if (!p) return CUT;
  uint64_t v = tg__pickle_number(p, len < 8 ? (unsigned)len : 8);
  if (len && len < 8 && p[len - 1] & 0x80) v |= UINT64_MAX << 8 * len;
  return push_int(m, (int64_t)v);
}

static enum verdict fixed_number(struct tg__machine *m, unsigned bytes) {
  const uint8_t *const p = take_bytes(m, bytes);
  if (!p) return CUT;
  return push_int(m, m->op == 'J' ? (int32_t)tg__pickle_number(p, 4) : (int64_t)tg__pickle_number(p, bytes));
}

static enum verdict binary_float(struct tg__machine *m) {
  const uint8_t *const p = take_bytes(m, 8);
  uint64_t bits = 0;
  if (!p) return CUT;
  for (unsigned i = 0; i < 8; i++) bits = bits << 8 | p[i]; /* the one big-endian number of pickles */
  return push(m, (struct tg__pickle_value){.kind = TG__PICKLE_REAL, .i = (int64_t)bits});
}

static inline enum verdict memo_number(struct tg__machine *m, unsigned bytes, bool put) {
  const uint8_t *const p = take_bytes(m, bytes);
  if (!p) return CUT;
  return put ? memo_put(m, tg__pickle_number(p, bytes)) : memo_get(m, tg__pickle_number(p, bytes));
}
static enum verdict memo_line(struct tg__machine *m, bool put) {
  size_t len;
  const uint8_t *const p = take_line(m, &len);
  char text[16] = "";
  if (!p || len >= sizeof text) return CUT;
  memcpy(text, p, len);
  const uint64_t at = strtoull(text, NULL, 10);
  return put ? memo_put(m, at) : memo_get(m, at);
}

static enum verdict line_text(struct tg__machine *m) {
  size_t len;
  const uint8_t *p = take_line(m, &len);
  if (!p) return CUT;
  if (m->op == 'S' && len >= 2)
    p++, len -= 2; /* its quotes; escapes stay as they are: protocol 0 is not what torch writes */
  return push_text(m, p, len);
}

static enum verdict close_marked(struct tg__machine *m, enum tg__pickle_kind kind) {
  const size_t from = above_mark(m);
  return from == SIZE_MAX ? CUT : gather_bytes(m, from, kind);
}
static enum verdict put_marked(struct tg__machine *m) {
  const size_t from = above_mark(m);
  if (from == SIZE_MAX || from < 2) return CUT;
  return put_into(m, from, 2); /* the container, the mark, the values */
}
static enum verdict put_last(struct tg__machine *m, size_t count) {
  return m->depth <= count ? CUT : put_into(m, m->depth - count, 1);
}
static enum verdict tuple_of(struct tg__machine *m, size_t count) {
  return m->depth < count ? CUT : gather_tuple(m, m->depth - count, false);
}
static enum verdict drop(struct tg__machine *m, bool to_mark) {
  const size_t from = to_mark ? above_mark(m) : m->depth;
  if (from == SIZE_MAX || from == 0) return CUT;
  cut_stack(m, from - 1);
  return GO_ON;
}

/* Opcodes that a snapshot has no need of, most of which would run code. */
static enum verdict rare_op(struct tg__machine *m) {
  static const struct {
    uint8_t op;
    const char *name;
  } refused[] = {{'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},          {'b', "BUILD"},
                 {'i', "INST"},   {'o', "OBJ"},           {0x81, "NEWOBJ"},         {0x92, "NEWOBJ_EX"},
                 {'P', "PERSID"}, {'Q', "BINPERSID"},     {0x82, "EXT1"},           {0x83, "EXT2"},
                 {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (m->op == refused[i].op) return refuse(m, refused[i].name);
  switch (m->op) {
  case 'I':
  case 'L':
  case 'F':
    return text_number(m);
  case 'S':
  case 'V':
    return line_text(m);
  case 'G':
    return binary_float(m);
  case 'X':
    return sized_text(m, 4);
  case 0x8d:
    return sized_text(m, 8);
  case 'T':
    return sized_text(m, 4);
  case 'U':
    return sized_text(m, 1);
  case 'B':
    return sized_text(m, 4);
  case 'C':
    return sized_text(m, 1);
  case 0x8e:
  case 0x96:
    return sized_text(m, 8);
  case 'l':
    return close_marked(m, TG__PICKLE_LIST);
  case 'd':
    return close_marked(m, TG__PICKLE_DICT);
  case 0x8f:
    return push_container(m, TG__PICKLE_LIST);
  case 0x90:
    return put_marked(m);
  case 0x91:
    return close_marked(m, TG__PICKLE_LIST);
  case 'p':
    return memo_line(m, true);
  case 'g':
    return memo_line(m, false);
  case '0':
    return drop(m, false);
  case '1':
    return drop(m, true);
  case '2':
    return m->depth > m->mark ? push(m, m->stack[m->depth - 1]) : CUT;
  default:
    return CUT;
  }
}

static enum verdict protocol(struct tg__machine *m) {
  enum { NEWEST = 5 };
  const uint8_t *const number = take_bytes(m, 1);
  if (!number || *number <= NEWEST) return number ? GO_ON : CUT;
  m->err = tg__fail(m->e, TG_UNSUPPORTED, m->offset,
                    "the pickle is of protocol %d, which is newer than what is known here (up to %d): "
                    "write it with pickle.dump(snapshot, file, protocol=%d)",
                    *number, NEWEST, NEWEST - 1);
  return FAILED;
}

static enum verdict run_op(struct tg__machine *m) {
  switch (m->op) {
  case 0x80:
    return protocol(m);
  case 0x95:
    return take_bytes(m, 8) ? GO_ON : CUT; /* FRAME: how many bytes follow */
  case '.':
    return STOP;
  case 'N':
    return push(m, (struct tg__pickle_value){.kind = TG__PICKLE_NONE});
  case 0x88:
  case 0x89:
    return push(m, (struct tg__pickle_value){.kind = m->op == 0x88 ? TG__PICKLE_TRUE : TG__PICKLE_FALSE});
  case '(':
    return push_mark(m);
  case 'K':
    return fixed_number(m, 1);
  case 'M':
    return fixed_number(m, 2);
  case 'J':
    return fixed_number(m, 4);
  case 0x8a:
    return long_number(m, 1);
  case 0x8b:
    return long_number(m, 4);
  case 0x8c:
    return sized_text(m, 1);
  case 'h':
    return memo_number(m, 1, false);
  case 'j':
    return memo_number(m, 4, false);
  case 'q':
    return memo_number(m, 1, true);
  case 'r':
    return memo_number(m, 4, true);
  case 0x94:
    return memo_put(m, m->memo_count);
  case '}':
    return push_container(m, TG__PICKLE_DICT);
  case ']':
    return push_container(m, TG__PICKLE_LIST);
  case ')':
    return tuple_of(m, 0);
  case 'u':
  case 'e':
    return put_marked(m);
  case 's':
    return put_last(m, 2);
  case 'a':
    return put_last(m, 1);
  case 't':
    return close_marked(m, TG__PICKLE_TUPLE);
  case 0x85:
  case 0x86:
  case 0x87:
    return tuple_of(m, (size_t)m->op - 0x84);
  default:
    return rare_op(m);
  }
}

/* What a snapshot is made of, a million times over: references to the memo, numbers, new lists and dicts. Goes on
 * while the buffer holds the longest of these opcodes and the stack has room; whatever else comes, and every error,
 * is left to run_op. */
static enum verdict run_plain(struct tg__machine *m) {
  enum { OP_MOST = 10 };
  struct tg__unpickler *const u = m->u;
  const uint8_t *p = m->buffer + m->at;
  const uint8_t *const end = m->buffer + m->end;
  while (end - p >= OP_MOST && m->depth < m->stack_cap) {
    if (*p == '}') {
      m->at = (size_t)(p - m->buffer);
      if (tg__unpickle_rows(m)) {
        p = m->buffer + m->at;
        continue;
      }
    }
    struct tg__pickle_value *const top = m->stack + m->depth;
    const size_t n = tg__plain_value(m, p, top);
    if (n) {
      p += n;
      m->depth++;
      continue;
    }
    if (*p == '(') {
      (void)push_mark(m); /* there is room */
      p++;
      continue;
    }
    if (*p != '}' && *p != ']') break;
    const enum tg__pickle_kind kind = *p == '}' ? TG__PICKLE_DICT : TG__PICKLE_LIST;
    if (!tg__pickle_add(u, kind, 0)) return no_memory(m);
    *top = (struct tg__pickle_value){.kind = kind, .id = (uint32_t)u->object_count - 1};
    m->depth++;
    p++;
    if (*p != 0x94 || m->memo || m->memo_count != u->object_count - 1) continue;
    m->memo_count++;
    p++;
  }
  m->at = (size_t)(p - m->buffer);
  return GO_ON;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The input ended within containers: what they hold so far is handed over, innermost first. A key without its value
 * is dropped. */
static void hand_over_rest(struct tg__machine *m) {
  for (size_t from; m->err == TG_OK && (from = above_mark(m)) != SIZE_MAX;) {
    const size_t below = from - 1;
    if (below == 0) return;
    const enum tg__pickle_kind kind = m->stack[below - 1].kind;
    if (kind == TG__PICKLE_DICT && (m->depth - from) % 2) m->depth--;
    if (put_into(m, from, 2) != GO_ON) cut_stack(m, below); /* neither list nor dict: a tuple in the making */
  }
}

/* Another pickle behind the one that has ended: forget that one. */
static bool begin_next(struct tg__machine *m) {
  if (!m->u->is_found || m->u->is_found(m->u->ctx)) return false;
  if (m->at == m->end && !fill(m, 1)) return false;
  if (m->buffer[m->at] != 0x80) return false;
  tg__free(m->memo);
  m->memo = NULL;
  tg__unpickle_forget_rows(m);
  m->depth = m->mark = m->memo_count = m->memo_cap = m->u->object_count = 0;
  return true;
}

bool tg__looks_like_pickle(const char *head, size_t len) {
  const unsigned char *const p = (const unsigned char *)head;
  if (len >= 2 && p[0] == 0x80)
    return p[1] >= 1 && p[1] < 0x20; /* of protocols to come, too: they are refused by number */
  return len >= 2 && ((p[0] == '(' && (p[1] == 'd' || p[1] == 'l')) || (p[0] == '}' && (p[1] == 'q' || p[1] == '(')) ||
                      (p[0] == ']' && p[1] == 'q'));
}

enum tg_err tg__pickle_read(struct tg__unpickler *u, tg__source_fn *source, void *source_ctx,
                            const struct tg__import_how *how, struct tg_error *e) {
  struct tg__machine m = {.u = u, .source = source, .source_ctx = source_ctx, .how = how, .e = e};
  tg__unpickle_forget_rows(&m);
  enum verdict v = tg__grow((void **)&m.buffer, &m.buffer_cap, BUFFER, 1) ? GO_ON : no_memory(&m);
  while (v == GO_ON) {
    if ((v = run_plain(&m)) != GO_ON) break;
    const uint8_t *const op = take_bytes(&m, 1);
    m.op = op ? *op : 0;
    v = op ? run_op(&m) : CUT;
    if (v == STOP && begin_next(&m)) v = GO_ON;
  }
  if (v == CUT && m.err == TG_OK) {
    u->cut = true;
    u->cut_offset = m.offset + (int64_t)m.at;
    hand_over_rest(&m);
  }
  tg__free(m.buffer);
  tg__free(m.stack);
  tg__free(m.memo);
  return m.err;
}

void tg__unpickle_free(struct tg__unpickler *u) {
  tg__free(u->objects);
  u->objects = NULL;
}
