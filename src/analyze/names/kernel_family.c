/* What kernels of one kind have in common in their names. */
#include "analyze/names/kernel_family.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Behind the bracket that closes the one at `i`, of the same kind; TG_NONE when none does. The > of -> closes
 * nothing. */
static uint32_t closing(struct tg__str s, uint32_t i) {
  const char open = s.ptr[i], close = open == '<' ? '>' : ')';
  uint32_t depth = 0;
  for (; i < s.len; i++) {
    if (s.ptr[i] == open)
      depth++;
    else if (s.ptr[i] == close && !(close == '>' && s.ptr[i - 1] == '-') && --depth == 0)
      return i + 1;
  }
  return TG_NONE;
}

/* Behind a number and all that hang on to it by x. */
static uint32_t number_end(struct tg__str s, uint32_t i) {
  while (i < s.len && is_digit(s.ptr[i])) {
    while (i < s.len && is_digit(s.ptr[i])) i++;
    if (i + 1 >= s.len || s.ptr[i] != 'x' || !is_digit(s.ptr[i + 1])) break;
    i++;
  }
  return i;
}

static void write_family(struct tg__str s, struct tg__out *out) {
  const size_t begin = out->len;
  for (uint32_t i = tg__str_has_prefix(s, "void ") ? 5 : 0; i < s.len;) {
    const char c = s.ptr[i];
    if (c == '<' || c == '(') {
      const uint32_t end = closing(s, i);
      if (end == TG_NONE) return; /* cut off: what follows is inside */
      i = end;
      if (i + 1 < s.len && s.ptr[i] == ':' && (out->len == begin || out->buf[out->len - 1] == ':'))
        i += 2; /* a::(anonymous)::b */
    } else if (is_digit(c)) {
      i = number_end(s, i);
      tg__out_char(out, '#');
    } else {
      tg__out_char(out, c);
      i++;
    }
    if (out->err) return;
  }
}

void tg__kernel_family(struct tg__str name, struct tg__out *out) {
  const size_t begin = out->len;
  write_family(name, out);
  while (!out->err && out->len > begin && out->buf[out->len - 1] == ' ') out->len--;
  if (!out->err && out->len == begin) tg__out_bytes(out, name.ptr, name.len);
}

/* ---- short names ----------------------------------------------------------------------------- */

static bool stays_long(struct tg__str s) {
  static const char *const copies[] = {"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"};
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
    if (tg__str_has_prefix(s, copies[i])) return true;
  return !tg__str_contains(s, "<") && !tg__str_contains(s, "(");
}

/* Take back what was written since the last `open`, it included; all of it when there is none. */
static void take_back(struct tg__out *out, size_t begin, char open) {
  while (out->len > begin && out->buf[out->len - 1] != open) out->len--;
  if (out->len > begin) out->len--;
}

void tg__hta_short_name(struct tg__str name, struct tg__out *out) {
  const size_t begin = out->len;
  if (stays_long(name)) {
    tg__out_bytes(out, name.ptr, name.len);
    return;
  }
  for (uint32_t i = 0; i < name.len && !out->err; i++) {
    const char c = name.ptr[i];
    if (c == '-' && i + 1 < name.len && name.ptr[i + 1] == '>')
      i++;
    else if (c == '>' || c == ')')
      take_back(out, begin, c == '>' ? '<' : '(');
    else
      tg__out_char(out, c);
  }
  if (out->err) return;
  size_t word = out->len;
  while (word > begin && out->buf[word - 1] != ' ') word--;
  memmove(out->buf + begin, out->buf + word, out->len - word);
  out->len -= word - begin;
}
