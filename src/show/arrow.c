/* A table through the Arrow C data interface: a struct array with one child per column. Buffers of int64 and double
 * columns are the table's own; bools become bits and texts become offsets and bytes, as Arrow defines them.
 *
 * A consumer may move a child out and release the struct first, so every array, children too, holds the table by a
 * reference of its own and drops it in its own release. */
#include <limits.h>
#include <math.h>

#include "show/parts.h"

/* ---- the interface, as published at arrow.apache.org ----------------------------------------- */

enum { ARROW_FLAG_NULLABLE = 2 };
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

/* What the array owns beside its reference to the table. */
struct held {
  struct tg_table *table;
  const void *buffers[3];
  uint8_t *validity, *bits; /* bits: bools, one each */
  void *offsets;
  struct tg__out text;
  struct ArrowArray **children;
  int64_t child_count;
};

/* ---- schema ---------------------------------------------------------------------------------- */

struct held_schema {
  char *name, *metadata;
  struct ArrowSchema **children;
  int64_t child_count;
};

static void release_schema(struct ArrowSchema *s) {
  struct held_schema *h = s->private_data;
  for (int64_t i = 0; i < h->child_count; i++) {
    struct ArrowSchema *child = h->children[i];
    if (child && child->release) child->release(child);
    tg__free(child);
  }
  tg__free(h->children);
  tg__free(h->name);
  tg__free(h->metadata);
  tg__free(h);
  s->release = NULL;
}

static char *copy_text(const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *copy = tg__alloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

/* Key-value metadata as Arrow packs it: int32 count, then length and bytes of each key and value, in the machine's
 * byte order. */
static char *unit_metadata(const char *unit) {
  static const char key[] = "unit";
  const int32_t one = 1, key_len = sizeof key - 1, unit_len = (int32_t)strlen(unit);
  char *const meta = tg__alloc(3 * sizeof one + (size_t)key_len + (size_t)unit_len);
  if (!meta) return NULL;
  char *p = meta;
  p = (char *)memcpy(p, &one, sizeof one) + sizeof one;
  p = (char *)memcpy(p, &key_len, sizeof key_len) + sizeof key_len;
  p = (char *)memcpy(p, key, (size_t)key_len) + key_len;
  p = (char *)memcpy(p, &unit_len, sizeof unit_len) + sizeof unit_len;
  memcpy(p, unit, (size_t)unit_len);
  return meta;
}

static bool start_schema(struct ArrowSchema *s, const char *format, const char *name, const char *unit) {
  struct held_schema *h = tg__alloc(sizeof *h);
  if (!h) return false;
  *s = (struct ArrowSchema){.format = format, .release = release_schema, .private_data = h};
  h->name = copy_text(name);
  if (*unit) h->metadata = unit_metadata(unit);
  s->name = h->name;
  s->metadata = h->metadata;
  return h->name && (!*unit || h->metadata);
}

static const char *format_of(const struct tg__column *c, bool large) {
  switch (c->type) {
  case TG_INT:
    return "l";
  case TG_REAL:
    return "g";
  case TG_BOOL:
    return "b";
  default:
    return large ? "U" : "u";
  }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Consumers release from any thread. */
static void hold_table(struct tg_table *t) { __atomic_add_fetch(&t->references, 1, __ATOMIC_RELAXED); }

static void free_held(struct held *h) {
  for (int64_t i = 0; i < h->child_count; i++) {
    struct ArrowArray *child = h->children[i];
    if (child && child->release) child->release(child);
    tg__free(child);
  }
  tg__free(h->children);
  tg__free(h->validity);
  tg__free(h->bits);
  tg__free(h->offsets);
  tg__out_free(&h->text);
  tg__table_free(h->table);
  tg__free(h);
}

static void release_array(struct ArrowArray *a) {
  free_held(a->private_data);
  a->release = NULL;
}

static bool start_array(struct ArrowArray *a, struct tg_table *t, int64_t buffers) {
  struct held *h = tg__alloc(sizeof *h);
  if (!h) return false;
  hold_table(t);
  h->table = t;
  *a = (struct ArrowArray){.length = (int64_t)t->rows,
                           .n_buffers = buffers,
                           .buffers = h->buffers,
                           .release = release_array,
                           .private_data = h};
  return true;
}

/* One bit a row, made only when something is unknown. */
static bool set_validity(const struct tg__column *c, struct ArrowArray *a, struct held *h) {
  const size_t rows = (size_t)a->length;
  for (size_t row = 0; row < rows; row++) a->null_count += !tg__cell_is_known(c, row);
  if (!a->null_count) return true;
  h->validity = tg__alloc(rows / 8 + 1);
  if (!h->validity) return false;
  for (size_t row = 0; row < rows; row++) {
    if (tg__cell_is_known(c, row)) h->validity[row / 8] |= (uint8_t)(1u << row % 8);
  }
  h->buffers[0] = h->validity;
  return true;
}

static bool set_bits(const struct tg__column *c, struct held *h, size_t rows) {
  h->bits = tg__alloc(rows / 8 + 1);
  if (!h->bits) return false;
  for (size_t row = 0; row < rows; row++) {
    if (c->bools[row] > 0) h->bits[row / 8] |= (uint8_t)(1u << row % 8);
  }
  h->buffers[1] = h->bits;
  return true;
}

static bool set_texts(const struct tg_table *t, const struct tg__column *c, struct held *h, bool *large) {
  const size_t rows = t->rows;
  int64_t *const wide = tg__alloc((rows + 1) * sizeof *wide);
  if (!wide) return false;
  h->offsets = wide;
  for (size_t row = 0; row < rows; row++) {
    /* readers trust the bytes to be UTF-8 */
    if (c->texts[row] != TG_NONE) tg__put_utf8(&h->text, tg__strings_get(t->strings, c->texts[row]));
    wide[row + 1] = (int64_t)h->text.len;
  }
  *large = h->text.len > INT32_MAX;
  if (!*large) { /* int32 offsets are what every reader understands; narrowed in place, front to back */
    int32_t *const narrow = h->offsets;
    for (size_t row = 0; row <= rows; row++) {
      const int32_t v = (int32_t)wide[row];
      memcpy(narrow + row, &v, sizeof v);
    }
  }
  h->buffers[1] = h->offsets;
  h->buffers[2] = h->text.buf ? h->text.buf : "";
  return h->text.err == TG_OK;
}

static bool export_column(struct tg_table *t, const struct tg__column *c, struct ArrowSchema *schema,
                          struct ArrowArray *array) {
  bool large = false;
  if (!start_array(array, t, c->type == TG_TEXT ? 3 : 2)) return false;
  struct held *const h = array->private_data;
  bool ok = set_validity(c, array, h);
  if (ok && c->type == TG_TEXT) ok = set_texts(t, c, h, &large);
  if (ok && c->type == TG_BOOL) ok = set_bits(c, h, t->rows);
  if (c->type == TG_INT || c->type == TG_REAL) h->buffers[1] = c->ints ? (const void *)c->ints : "";
  if (!ok || !start_schema(schema, format_of(c, large), c->name, c->unit)) return false;
  schema->flags = ARROW_FLAG_NULLABLE;
  return true;
}

/* Children hang on their parent as soon as they exist, so that on failure releasing the parents frees everything. */
static bool export_children(struct tg_table *t, struct ArrowSchema *schema, struct ArrowArray *array) {
  struct held_schema *const hs = schema->private_data;
  struct held *const ha = array->private_data;
  hs->children = tg__alloc((t->column_count + 1) * sizeof *hs->children);
  ha->children = tg__alloc((t->column_count + 1) * sizeof *ha->children);
  if (!hs->children || !ha->children) return false;
  schema->children = hs->children;
  array->children = ha->children;
  hs->child_count = ha->child_count = (int64_t)t->column_count;
  schema->n_children = array->n_children = (int64_t)t->column_count;
  for (size_t i = 0; i < t->column_count; i++) {
    hs->children[i] = tg__alloc(sizeof **hs->children);
    ha->children[i] = tg__alloc(sizeof **ha->children);
    if (!hs->children[i] || !ha->children[i]) return false;
    if (!export_column(t, &t->columns[i], hs->children[i], ha->children[i])) return false;
  }
  return true;
}

enum tg_err tg__table_arrow(struct tg_table *t, struct ArrowSchema *schema, struct ArrowArray *array) {
  memset(schema, 0, sizeof *schema);
  memset(array, 0, sizeof *array);
  if (start_schema(schema, "+s", "", "") && start_array(array, t, 1) && export_children(t, schema, array)) return TG_OK;
  if (schema->release) schema->release(schema);
  if (array->release) array->release(array);
  memset(schema, 0, sizeof *schema);
  memset(array, 0, sizeof *array);
  return TG_MEMORY;
}
