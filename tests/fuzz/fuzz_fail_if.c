/* fuzz_fail_if: any bytes as an assertion on a small diff. It is understood or refused with a sentence, and never
 * changes the diff. */
#include "analyze/analyze.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct row {
  const char *by, *name, *quantity, *unit, *verdict;
  double a, b, low, high;
} rows[] = {
    {"step", "step", "p50", "ns", "slower", 1e6, 1.2e6, 1e5, 3e5},
    {"step", "step", "kernels", "", "no difference", 10, 10, 0, 0},
    {"op", "aten::mm", "self_cpu", "ns", "no difference", 5e5, 5.1e5, -1e4, 3e4},
    {"op", "aten::relu", "calls", "", "added", 0, 1, NAN, NAN},
    {"memory", "CPU", "peak", "bytes", "more", 1e9, 2e9, NAN, NAN},
    {"module", "Net / Linear", "cpu", "ns", "withheld", 1, 2, NAN, NAN},
};

static struct tg_table *make_table(void) {
  static const char *const texts[] = {"by", "name", "quantity", "unit", "verdict"}, *const reals[] = {"a", "b", "low",
                                                                                                      "high"};
  struct tg_table *t = tg__table_new("diff");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tg__table_add_column(t, texts[i], TG_TEXT, "");
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) tg__table_add_column(t, reals[i], TG_REAL, "");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct row *r = &rows[i];
    tg__put_cstr(t, r->by);
    tg__put_cstr(t, r->name);
    tg__put_cstr(t, r->quantity);
    tg__put_cstr(t, r->unit);
    tg__put_cstr(t, r->verdict);
    tg__put_real(t, r->a);
    tg__put_real(t, r->b);
    tg__put_real(t, r->low);
    tg__put_real(t, r->high);
  }
  tg__table_note(t, "B is 20.0 %% slower");
  return t;
}

static void require(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct tg_table *t; /* made once: a table costs more than reading an expression */
  if (!t) t = make_table();
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  struct tg_error e = {0};
  bool fails = true;
  const enum tg_err err = tg__diff_fails(t, text, &fails, &e);
  require(err == TG_OK || ((err == TG_USAGE || err == TG_NO_DATA) && e.text[0] && !fails));
  require(err != TG_OK || !fails || e.text[0]);
  require(t->rows == sizeof rows / sizeof *rows && tg__table_is_valid(t, &e));
  free(text);
  return 0;
}
