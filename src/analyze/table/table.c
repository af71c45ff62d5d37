/* table: the columns an answer is made of, written cell by cell. */
#include "analyze/analyze.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static size_t cell_bytes(enum tg_type type) {
  switch (type) {
  case TG_INT:
    return sizeof(int64_t);
  case TG_REAL:
    return sizeof(double);
  case TG_BOOL:
    return sizeof(int8_t);
  case TG_TEXT:
    break;
  }
  return sizeof(uint32_t);
}

struct tg_table *tg__table_new(const char *question) {
  struct tg_table *t = tg__alloc(sizeof *t);
  if (!t) return NULL;
  t->question = question;
  t->references = 1;
  memset(t->recent, 0xff, sizeof t->recent);
  t->strings = tg__strings_new();
  if (!t->strings) {
    tg__free(t);
    return NULL;
  }
  return t;
}

void tg__table_free(struct tg_table *t) {
  if (!t || __atomic_sub_fetch(&t->references, 1, __ATOMIC_ACQ_REL))
    return; /* Arrow consumers let go from any thread */
  for (size_t c = 0; c < t->column_count; c++) tg__free(t->columns[c].ints);
  tg__free(t->columns);
  tg__free((void *)t->notes);
  tg__free(t->losses);
  tg__free(t->of_source);
  tg__strings_free(t->strings);
  tg__arena_free(&t->arena);
  tg__free(t);
}

void tg__table_add_column(struct tg_table *t, const char *name, enum tg_type type, const char *unit) {
  const bool is_number = type == TG_INT || type == TG_REAL;
  tg__table_add_column_as(t, name, type, unit, is_number ? TG__ROLE_VALUE : TG__ROLE_KEY);
}

void tg__table_add_column_as(struct tg_table *t, const char *name, enum tg_type type, const char *unit,
                             enum tg__role role) {
  assert(t->rows == 0 && t->cell == 0 && t->capacity == 0);
  struct tg__column *columns = tg__realloc(t->columns, (t->column_count + 1) * sizeof *columns);
  const char *own_name = tg__arena_copy(&t->arena, name, strlen(name));
  const char *own_unit = tg__arena_copy(&t->arena, unit, strlen(unit));
  if (columns) t->columns = columns;
  if (!columns || !own_name || !own_unit) {
    t->failed = true;
    return;
  }
  columns[t->column_count++] = (struct tg__column){.name = own_name, .unit = own_unit, .type = type, .role = role};
}

/* ---- room ------------------------------------------------------------------------------------ */

/* Room for `capacity` rows in every column. Cells are reached through .ints, so all types share one allocation rule. */
static bool grow_rows(struct tg_table *t, size_t capacity) {
  for (size_t c = 0; c < t->column_count; c++) {
    struct tg__column *const column = &t->columns[c];
    size_t cap = t->capacity; /* columns grown in vain before have more, which is harmless */
    if (!column->is_left_out && !tg__grow(&column->ints, &cap, capacity, cell_bytes(column->type))) return false;
  }
  t->capacity = capacity;
  return true;
}

/* The column the next cell belongs to; NULL when the table is out of memory and cells are being swallowed. */
static struct tg__column *next_cell(struct tg_table *t) {
  if (TG_UNLIKELY(t->failed)) return NULL;
  assert(t->column_count > 0);
  if (TG_UNLIKELY(t->rows == t->capacity) && !grow_rows(t, t->capacity ? t->capacity * 2 : 64)) {
    t->failed = true;
    return NULL;
  }
  return &t->columns[t->cell];
}

bool tg__table_reserve(struct tg_table *t, size_t rows) {
  if (t->failed || rows <= t->capacity) return !t->failed;
  const size_t more = t->capacity + t->capacity / 2; /* a caller that asks for a few rows will ask again */
  t->failed = !grow_rows(t, rows > more ? rows : more);
  return !t->failed;
}

void tg__table_wrote(struct tg_table *t, size_t cells) {
  t->cell += cells;
  assert(t->rows < t->capacity && t->cell <= t->column_count);
  if (t->cell == t->column_count) {
    t->cell = 0;
    t->rows++;
  }
}

void tg__table_wrote_rows(struct tg_table *t, size_t rows) {
  assert(t->cell == 0 && rows <= t->capacity - t->rows);
  t->rows += rows;
}

static void cell_done(struct tg_table *t) {
  if (++t->cell == t->column_count) {
    t->cell = 0;
    t->rows++;
  }
}

void tg__put_int(struct tg_table *t, int64_t v) {
  struct tg__column *c = next_cell(t);
  if (!c) return;
  assert(c->type == TG_INT || c->type == TG_REAL);
  if (c->type == TG_INT && !c->is_left_out) c->ints[t->rows] = v;
  if (c->type == TG_REAL && !c->is_left_out) c->reals[t->rows] = v == TG_NULL_INT ? NAN : (double)v;
  cell_done(t);
}

void tg__put_real(struct tg_table *t, double v) {
  struct tg__column *c = next_cell(t);
  if (!c) return;
  assert(c->type == TG_REAL);
  if (!c->is_left_out) c->reals[t->rows] = v;
  cell_done(t);
}

void tg__put_real_if(struct tg_table *t, bool known, double v) {
  if (known)
    tg__put_real(t, v);
  else
    tg__put_null(t);
}
void tg__put_bool(struct tg_table *t, bool v) {
  struct tg__column *c = next_cell(t);
  if (!c) return;
  assert(c->type == TG_BOOL);
  if (!c->is_left_out) c->bools[t->rows] = v;
  cell_done(t);
}

void tg__put_text_id(struct tg_table *t, uint32_t id) {
  struct tg__column *c = next_cell(t);
  if (!c) return;
  assert(c->type == TG_TEXT);
  if (!c->is_left_out) c->texts[t->rows] = id;
  cell_done(t);
}

/* Interning takes a lock and a hash over the whole text; answers repeat few texts, so the last ones are tried first. */
static uint32_t intern_table(struct tg_table *t, struct tg__str s) {
  uint32_t edge = s.len * 0x9e3779b1u;
  if (s.len >= 4) {
    uint32_t head, tail;
    memcpy(&head, s.ptr, 4);
    memcpy(&tail, s.ptr + s.len - 4, 4);
    edge ^= (head * 0x85ebca6bu) ^ (tail * 0xc2b2ae35u);
  } else {
    for (uint32_t i = 0; i < s.len; i++) edge = edge * 31 + (unsigned char)s.ptr[i];
  }
  uint32_t *slot = &t->recent[(edge ^ edge >> 16) * 0x9e3779b1u >> 26];
  if (*slot != TG_NONE && tg__str_eq(tg__strings_get(t->strings, *slot), s)) return *slot;
  uint32_t id = tg__strings_add(t->strings, s.ptr, s.len);
  if (id == TG_NONE) t->failed = true;
  return *slot = id;
}

void tg__put_text(struct tg_table *t, struct tg__str s) { tg__put_text_id(t, s.ptr ? intern_table(t, s) : TG_NONE); }

void tg__put_cstr(struct tg_table *t, const char *s) {
  tg__put_text(t, s ? (struct tg__str){s, (uint32_t)strlen(s)} : (struct tg__str){0});
}

static bool map_source(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id) {
  if (t->source == trace && string_id < t->of_source_count) return true;
  const uint32_t count = tg__strings_count(trace->strings);
  const uint32_t kept = t->source == trace ? t->of_source_count : 0;
  if (string_id >= count) return false;
  uint32_t *ids = tg__realloc(t->of_source, (size_t)count * sizeof *ids);
  if (!ids) {
    t->failed = true;
    return false;
  }
  memset(ids + kept, 0xff, (size_t)(count - kept) * sizeof *ids);
  t->of_source = ids;
  t->of_source_count = count;
  t->source = trace;
  return true;
}

uint32_t tg__table_text(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id) {
  if (string_id == TG_NONE || !map_source(t, trace, string_id)) return TG_NONE;
  const uint32_t id = t->of_source[string_id];
  if (TG_LIKELY(id != TG_NONE)) return id;
  return t->of_source[string_id] = intern_table(t, tg__name(trace, string_id));
}

void tg__put_trace_text(struct tg_table *t, const struct tg__columns *trace, uint32_t string_id) {
  tg__put_text_id(t, tg__table_text(t, trace, string_id));
}

void tg__put_rank(struct tg_table *t, const struct tg__columns *trace, uint32_t rank) {
  tg__put_int(t, tg__rank_number(trace, rank));
}

void tg__column_null(struct tg__column *c, size_t row) {
  if (c->is_left_out) return;
  switch (c->type) {
  case TG_INT:
    c->ints[row] = TG_NULL_INT;
    break;
  case TG_REAL:
    c->reals[row] = NAN;
    break;
  case TG_BOOL:
    c->bools[row] = -1;
    break;
  case TG_TEXT:
    c->texts[row] = TG_NONE;
    break;
  }
}

void tg__put_null(struct tg_table *t) {
  struct tg__column *c = next_cell(t);
  if (!c) return;
  tg__column_null(c, t->rows);
  cell_done(t);
}

bool tg__put_out(struct tg_table *t, struct tg__out *text) {
  if (text->len)
    tg__put_text(t, (struct tg__str){text->buf, (uint32_t)text->len});
  else
    tg__put_null(t);
  const bool ok = !text->err;
  tg__out_free(text);
  return ok;
}

void tg__table_note(struct tg_table *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  tg__format_words(text, sizeof text, format, args);
  va_end(args);
  for (size_t i = 0; i < t->note_count; i++) /* several ranks may have the same to say */
    if (strcmp(t->notes[i], text) == 0) return;
  const char *own = tg__arena_copy(&t->arena, text, strlen(text));
  const char **notes = tg__realloc((void *)t->notes, (t->note_count + 1) * sizeof *notes);
  if (notes) t->notes = notes;
  if (!own || !notes) {
    t->failed = true;
    return;
  }
  notes[t->note_count++] = own;
}

/* Bring the cells of one column into the order of rows, through `fresh`, which has room for `count` of them. */
static void gather_table(struct tg__column *c, const uint32_t *rows, size_t count, void *fresh) {
  switch (c->type) {
  case TG_INT:
    for (size_t i = 0; i < count; i++) ((int64_t *)fresh)[i] = c->ints[rows[i]];
    break;
  case TG_REAL:
    for (size_t i = 0; i < count; i++) ((double *)fresh)[i] = c->reals[rows[i]];
    break;
  case TG_BOOL:
    for (size_t i = 0; i < count; i++) ((int8_t *)fresh)[i] = c->bools[rows[i]];
    break;
  case TG_TEXT:
    for (size_t i = 0; i < count; i++) ((uint32_t *)fresh)[i] = c->texts[rows[i]];
    break;
  }
  memcpy(c->ints, fresh, count * cell_bytes(c->type));
}

void tg__table_keep_rows(struct tg_table *t, const uint32_t *rows, size_t count) {
  if (count > 0) {
    void *fresh = tg__alloc(count * sizeof(int64_t));
    if (!fresh) {
      t->failed = true;
      return;
    }
    for (size_t c = 0; c < t->column_count; c++)
      if (!t->columns[c].is_left_out) gather_table(&t->columns[c], rows, count, fresh);
    tg__free(fresh);
  }
  t->rows = count;
}

size_t tg__table_column_index(const struct tg_table *t, const char *name) {
  for (size_t c = 0; c < t->column_count; c++)
    if (strcmp(t->columns[c].name, name) == 0) return c;
  return SIZE_MAX;
}

size_t tg__table_role_index(const struct tg_table *t, enum tg__role role) {
  for (size_t c = 0; c < t->column_count; c++)
    if (t->columns[c].role == role) return c;
  return SIZE_MAX;
}
