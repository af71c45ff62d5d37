/* tachograph memory: what was alive when most was in use, in one line per device, and the largest blocks. */
#include "cli/cli.h"

enum { ROWS = 10 };

static int64_t memory_cell(const struct tg_table *t, const char *column, size_t row) {
  return t->columns[tg__table_column_index(t, column)].ints[row];
}
static struct tg__str text(const struct tg_table *t, const char *column, size_t row) {
  const uint32_t id = t->columns[tg__table_column_index(t, column)].texts[row];
  return id == TG_NONE ? (struct tg__str){"", 0} : tg__strings_get(t->strings, id);
}

static bool same_device(const struct tg_table *t, size_t a, size_t b) {
  return memory_cell(t, "rank", a) == memory_cell(t, "rank", b) &&
         tg__str_eq(text(t, "device", a), text(t, "device", b));
}

/* Rows [first, end) are the categories of one device: "CPU: 1.37 MB at the peak: activation 576 kB, parameter 103 kB".
 */
static void note_device(const struct tg_table *from, size_t first, size_t end, struct tg_table *out) {
  struct tg__out line = {0};
  char bytes[32];
  int64_t sum = 0;
  for (size_t i = first; i < end; i++) {
    const int64_t here = memory_cell(from, "net_bytes", i);
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

static enum tg_err add_peaks(const struct tg__cli *c, struct tg_trace *trace, struct tg_table *out,
                             struct tg_error *e) {
  struct tg_arg args[3] = {{"by", "category"}};
  size_t count = 1;
  for (size_t i = 0; i < c->argument_count && count < 3; i++)
    if (strcmp(c->arguments[i].name, "rank") == 0 || strcmp(c->arguments[i].name, "device") == 0)
      args[count++] = c->arguments[i];
  struct tg_table *t = NULL;
  const enum tg_err err = tg_ask(trace, tg__question_name(TG__Q_memory), args, count, &t, e);
  for (size_t first = 0, end; !err && first < t->rows; first = end) {
    for (end = first + 1; end < t->rows && same_device(t, first, end);) end++;
    note_device(t, first, end, out);
  }
  tg_table_free(t);
  return err;
}

int tg__cmd_memory(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const long rows = tg__cli_rows(c, "top", ROWS);
  if (rows < 0)
    return tg__cli_usage(c, NULL, "--top is a number of rows from 1 on, not '%s'", tg__cli_setting(c, "top"));
  struct tg_trace *trace = NULL;
  struct tg_table *t = NULL;
  struct tg_error e = {0};
  enum tg_err err = tg__cli_open_run(c, c->operands[0], &trace, &e);
  if (!err) err = tg_ask(trace, tg__question_name(TG__Q_memory_blocks), c->arguments, c->argument_count, &t, &e);
  if (!err) err = add_peaks(c, trace, t, &e);
  const char *const next = err && trace ? tg__cli_instead(c, err, trace, c->operands[0]) : NULL;
  const int status =
      err ? tg__cli_failed(c, &e, next) : tg__cli_table(c, t, tg__cli_argument(c, "limit") ? 0 : (size_t)rows);
  tg_table_free(t);
  tg_close(trace);
  return status;
}
