/* What ranges and marks of NVTX say beside their names: LABEL entries and payloads. */
#include "trace/import_raw.h"

#include <math.h>
#include <stdio.h>

struct label_fields {
  int64_t category;
  uint32_t color;
  enum tg__label_payload payload_type;
  bool has_category, has_color;
  struct tg__str domain, category_name;
};

static bool read_label(struct tg__str blob, struct label_fields *f) {
  struct tg__bytes b = {.p = (const uint8_t *)blob.ptr, .end = (const uint8_t *)blob.ptr + blob.len};
  *f = (struct label_fields){0};
  while (b.p < b.end && !b.broken) {
    const uint8_t field = tg__bytes_take8(&b);
    const uint64_t value = tg__bytes_take64(&b);
    struct tg__str text = {NULL, 0};
    if (b.broken || (field >= TG_LABEL_FIRST_TEXT && value > (uint64_t)(b.end - b.p))) return false;
    if (field >= TG_LABEL_FIRST_TEXT)
      text = (struct tg__str){(const char *)tg__bytes_take(&b, (size_t)value), (uint32_t)value};
    if (field == TG_LABEL_DOMAIN) f->domain = text;
    if (field == TG_LABEL_CATEGORY_NAME) f->category_name = text;
    if (field == TG_LABEL_CATEGORY) f->has_category = true, f->category = (uint32_t)value;
    if (field == TG_LABEL_COLOR) f->has_color = true, f->color = (uint32_t)value;
    if (field == TG_LABEL_PAYLOAD && value <= TG_PAYLOAD_REAL) f->payload_type = (enum tg__label_payload)value;
  }
  return !b.broken;
}

static void add_text(struct tg__raw *w, struct tg__packed_val *vals, size_t *count, uint32_t key, struct tg__str s) {
  vals[(*count)++] = (struct tg__packed_val){.key = key, .kind = TG__KIND_STR, .i = tg__raw_intern(w, s.ptr, s.len)};
}

uint32_t tg__raw_take_label(struct tg__raw *w, struct tg__str blob, bool *bad) {
  struct label_fields f;
  struct tg__packed_val vals[3];
  size_t count = 0;
  *bad = !read_label(blob, &f);
  if (*bad || !tg__grow((void **)&w->labels, &w->label_cap, w->label_count + 1, sizeof *w->labels)) return TG_NONE;
  if (f.domain.len) add_text(w, vals, &count, TG__K_NVTX_DOMAIN, f.domain);
  if (f.category_name.len)
    add_text(w, vals, &count, TG__K_NVTX_CATEGORY, f.category_name);
  else if (f.has_category)
    vals[count++] = (struct tg__packed_val){.key = TG__K_NVTX_CATEGORY, .kind = TG__KIND_INT, .i = f.category};
  if (f.has_color) {
    char color[10];
    const int len = snprintf(color, sizeof color, "#%08x", f.color);
    add_text(w, vals, &count, TG__K_NVTX_COLOR, (struct tg__str){color, (uint32_t)len});
  }
  struct tg__raw_label *const label = &w->labels[w->label_count];
  *label = (struct tg__raw_label){.payload_type = f.payload_type};
  if (w->no_memory || (count && !tg__raw_pack_values(w, vals, count, &label->values))) return TG_NONE;
  return (uint32_t)w->label_count++;
}

uint32_t tg__raw_payload_text(struct tg__raw *w, enum tg__label_payload type, uint64_t bits) {
  char text[40];
  double real;
  memcpy(&real, &bits, sizeof real);
  if (type == TG_PAYLOAD_UNSIGNED)
    snprintf(text, sizeof text, "%llu", (unsigned long long)bits);
  else
    snprintf(text, sizeof text, isfinite(real) ? "%.17g" : "\"%g\"", real);
  return tg__raw_intern(w, text, strlen(text));
}
