/* A table of what there is (item, value, fine, advice) as a page: whole at any width, with what is to be typed on a
 * line of its own. */
#include "show/report.h"

enum { GAP = 2, STATE_WIDTH = 8, NARROW_INDENT = 6, LEAST_ROOM = 20, ANY_LINES = 1000 };

/* Where the command begins that the advice ends with: behind its last colon. NULL: it ends with none. */
static const char *command_in(struct tg__str advice) {
  static const char *const programs[] = {"export ", "ncu ", "pip ", "tachograph ", "unset "};
  for (uint32_t at = advice.len; at-- > 2;) {
    if (advice.ptr[at - 1] != ' ' || advice.ptr[at - 2] != ':') continue;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
      if (tg__str_has_prefix((struct tg__str){advice.ptr + at, advice.len - at}, programs[i])) return advice.ptr + at;
    return NULL;
  }
  return NULL;
}

/* Of a line that begins already; its next lines are indented. room 0: one line. */
static void put_line(struct tg__out *out, struct tg__str s, unsigned indent, unsigned room) {
  if (room) {
    tg__put_wrapped(out, s, indent, room, ANY_LINES);
  } else {
    tg__put_clean(out, s);
    tg__out_char(out, '\n');
  }
}

static void put_advice(struct tg__out *out, struct tg__str advice, unsigned indent, unsigned room) {
  const char *const command = command_in(advice);
  if (!command || tg__text_width(advice) <= room) {
    put_line(out, advice, indent, room);
    return;
  }
  const uint32_t before = (uint32_t)(command - advice.ptr);
  put_line(out, (struct tg__str){advice.ptr, before - 1}, indent, room);
  tg__put_blanks(out, indent);
  put_line(out, (struct tg__str){command, advice.len - before}, indent, 0);
}

/* What this machine has not, and needs not. */
static bool says_no(struct tg__str value) {
  return tg__str_has_prefix(value, "no: ") || tg__str_eq(value, TG_STR("unavailable"));
}

static void put_fact(const struct tg_table *t, size_t row, unsigned item_width, unsigned width, struct tg__out *out) {
  const struct tg__str item = tg__cell_str(t, row, "item"), value = tg__cell_str(t, row, "value");
  const struct tg__str advice = tg__cell_str(t, row, "advice");
  const bool is_fine = t->columns[tg__table_column_index(t, "fine")].bools[row] > 0;
  const char *const state = !is_fine ? "not fine" : says_no(value) ? "not here" : "fine";
  const unsigned beside = item_width + GAP + STATE_WIDTH + GAP;
  const bool is_narrow = width && width < beside + LEAST_ROOM; /* then below the item */
  const unsigned indent = is_narrow ? NARROW_INDENT : beside;
  const unsigned room = !width ? 0 : width > indent + LEAST_ROOM ? width - indent : LEAST_ROOM;
  tg__put_clean(out, item);
  tg__put_blanks(out, item_width - tg__text_width(item) + GAP);
  tg__out_text(out, state);
  if (is_narrow) tg__out_char(out, '\n');
  tg__put_blanks(out, is_narrow ? NARROW_INDENT : STATE_WIDTH + GAP - (unsigned)strlen(state));
  put_line(out, value, indent, room);
  if (!advice.len) return;
  tg__put_blanks(out, indent);
  put_advice(out, advice, indent, room);
}

enum tg_err tg__facts_page(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out) {
  unsigned item_width = 0;
  for (size_t row = 0; row < t->rows; row++) {
    const unsigned w = tg__text_width(tg__cell_str(t, row, "item"));
    if (w > item_width) item_width = w;
  }
  for (size_t row = 0; row < t->rows; row++) put_fact(t, row, item_width, o->width, out);
  return tg__out_flush(out);
}
