/* The largest blocks of memory, with a note per device: what its memory at the peak was made of. */
#include "show/parts.h"

static int64_t cell(const struct tg_table *t, const char *column, size_t row) {
  return t->columns[tg__table_column_index(t, column)].ints[row];
}
static struct tg__str text(const struct tg_table *t, const char *column, size_t row) {
  const uint32_t id = t->columns[tg__table_column_index(t, column)].texts[row];
  return id == TG_NONE ? (struct tg__str){"", 0} : tg__strings_get(t->strings, id);
}

static bool same_device(const struct tg_table *t, size_t a, size_t b) {
  return cell(t, "rank", a) == cell(t, "rank", b) && tg__str_eq(text(t, "device", a), text(t, "device", b));
}

/* Rows [first, end) are the categories of one device: "CPU: 1.37 MB at the peak: activation 576 kB, parameter 103
 * kB". */
static void note_device(const struct tg_table *from, size_t first, size_t end, struct tg_table *out) {
  struct tg__out line = {0};
  char bytes[32];
  int64_t sum = 0;
  for (size_t i = first; i < end; i++) {
    const int64_t here = cell(from, "net_bytes", i);
    if (__builtin_add_overflow(sum, here, &sum)) sum = INT64_MAX;
    if (here == 0) continue;
    const struct tg__str category = text(from, "category", i);
    if (line.len) tg__out_text(&line, ", ");
    tg__out_bytes(&line, category.ptr, category.len);
    tg__out_char(&line, ' ');
    tg__out_text(&line, tg__human_bytes(here, bytes));
  }
  const struct tg__str device = text(from, "device", first);
  tg__table_note(out, "%.*s: %s at the peak: %.*s", (int)device.len, device.ptr, tg__human_bytes(sum, bytes),
                 (int)line.len, line.len ? line.buf : "");
  tg__out_free(&line);
}

static enum tg_err add_peaks(struct tg_trace *trace, const struct tg_arg *args, size_t arg_count, struct tg_table *out,
                             struct tg_error *e) {
  struct tg_arg own[3] = {{"by", "category"}};
  size_t count = 1;
  for (size_t i = 0; i < arg_count && count < 3; i++)
    if (strcmp(args[i].name, "rank") == 0 || strcmp(args[i].name, "device") == 0) own[count++] = args[i];
  struct tg_table *t = NULL;
  const enum tg_err err = tg__ask_trace(trace, tg__question_name(TG__Q_memory), own, count, &t, e);
  for (size_t first = 0, end; !err && first < t->rows; first = end) {
    for (end = first + 1; end < t->rows && same_device(t, first, end);) end++;
    note_device(t, first, end, out);
  }
  tg__table_free(t);
  return err;
}

enum tg_err tg__memory_with_peaks(struct tg_trace *trace, const struct tg_arg *args, size_t arg_count,
                                  struct tg_table **out, struct tg_error *error) {
  *out = NULL;
  enum tg_err err = tg__ask_trace(trace, tg__question_name(TG__Q_memory_blocks), args, arg_count, out, error);
  if (err) return err;
  err = add_peaks(trace, args, arg_count, *out, error);
  if (err) {
    tg__table_free(*out);
    *out = NULL;
  }
  return err;
}
