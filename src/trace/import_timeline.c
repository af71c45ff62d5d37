/* PyTorch's raw memory timeline, [[time ns, action, bytes, category], …], as marks: one for each change of what a
 * category holds. A change at -1 was there before the recording and has no time. Bytes are signed, so the action (1
 * there before, 2 made, 3 another version, in pairs, 4 freed) adds nothing; it is kept. */
#include "trace/import.h"

enum { NUMBERS = 4, ELEMENT_MOST = 4096 /* bytes: blanks included, more than anybody writes */ };
enum element { WHOLE, PARTIAL, DAMAGED };

static const char *blanks(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
  return p;
}

/* A whole number of 64 bits that ends before `end`. */
static enum element read_number(const char **at, const char *end, int64_t *out) {
  const char *p = *at;
  const bool negative = p < end && *p == '-';
  uint64_t v = 0;
  p += negative;
  const char *const digits = p;
  for (; p < end && *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v) || v > INT64_MAX)
      return DAMAGED;
  if (p == end) return PARTIAL;
  if (p == digits) return DAMAGED;
  *out = negative ? -(int64_t)v : (int64_t)v;
  *at = p;
  return WHOLE;
}

/* p at the bracket; *at moves behind the element when it is whole. */
static enum element read_element(const char **at, const char *end, int64_t numbers[NUMBERS]) {
  const char *const limit = end - *at > ELEMENT_MOST ? *at + ELEMENT_MOST : end;
  const enum element too_long = limit == end ? PARTIAL : DAMAGED;
  const char *p = *at + 1;
  for (int i = 0; i < NUMBERS; i++) {
    p = blanks(p, limit);
    const enum element got = read_number(&p, limit, &numbers[i]);
    if (got != WHOLE) return got == PARTIAL ? too_long : got;
    p = blanks(p, limit);
    if (p == limit) return too_long;
    if (*p++ != (i + 1 < NUMBERS ? ',' : ']')) return DAMAGED;
  }
  *at = p;
  return WHOLE;
}

static const char *const kinds[] = {"parameter",  "optimizer_state", "input",           "temporary",
                                    "activation", "gradient",        "autograd_detail", "unknown"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool add_change(struct tg__parser *p, const int64_t numbers[NUMBERS]) {
  const struct tg__track_key key = {0};
  struct tg__strings *const strings = p->shared->trace->strings;
  const char *const kind = kinds[numbers[3]];
  const uint32_t kind_id = tg__strings_add(strings, kind, strlen(kind)),
                 cat = tg__strings_add(strings, "cpu_instant_event", 17);
  const struct tg__record r = {.ts_ns = numbers[0] == -1 ? TG_NULL_INT : numbers[0],
                               .dur_ns = TG_NULL_INT,
                               .name = TG__K_MEMORY_CHANGE,
                               .track = tg__intern_track(p, &key),
                               .ph = 'i'};
  if (kind_id == TG_NONE || cat == TG_NONE || r.track == TG_NONE) return false;
  p->val_count = 0;
  tg__row_value(p, TG__K_S, TG__KIND_STR, TG__K_G, true);
  tg__row_value(p, TG__K_ACTION, TG__KIND_INT, numbers[1], false);
  tg__row_value(p, TG__K_BYTES_MEMORY, TG__KIND_INT, numbers[2], false);
  tg__row_value(p, TG__K_CATEGORY, TG__KIND_INT, numbers[3], false);
  tg__row_value(p, TG__K_TENSOR_KIND, TG__KIND_STR, kind_id, false);
  return tg__row_add(p, r, cat);
}

const char *tg__timeline_scan(struct tg__parser *p, const char *at, const char *end, bool *in_gap, bool *closed) {
  int64_t numbers[NUMBERS];
  while (at < end && !p->no_memory) {
    if (*in_gap) { /* what is damaged ends where the next element begins */
      const char *const next = memchr(at, '[', (size_t)(end - at));
      if (!next) return end;
      at = next;
      *in_gap = false;
    }
    if (*at == ',' || blanks(at, end) != at) {
      at++;
      continue;
    }
    if (*at == ']') {
      *closed = true;
      return at + 1;
    }
    const char *const begin = at;
    const enum element got = *at == '[' ? read_element(&at, end, numbers) : DAMAGED;
    if (got == PARTIAL) return begin;
    if (got == WHOLE && numbers[3] >= 0 && numbers[3] < KINDS && numbers[0] >= -1) {
      if (!add_change(p, numbers)) p->no_memory = true;
      continue;
    }
    tg__count_loss(&p->losses, TG__LOSS_skipped_syntax, p->text_offset + (begin - p->text));
    at = got == WHOLE ? at : begin + 1;
    *in_gap = got != WHOLE;
  }
  return at;
}

bool tg__timeline_begins(const char *p, const char *end, bool *undecided) {
  *undecided = false;
  p = blanks(p, end);
  if (p < end && *p != '[') return false;
  if (p < end) p = blanks(p + 1, end);
  *undecided = p >= end;
  return p < end && (*p == '-' || (*p >= '0' && *p <= '9'));
}
