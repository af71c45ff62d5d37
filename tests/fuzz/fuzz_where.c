/* fuzz_where: any bytes as a where expression, or as sort keys, over a small table with every type of column. */
#include "analyze/answering.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tg_table *make_table(void) {
  struct tg_table *t = tg__table_new("fuzz");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "dur_ns", TG_INT, "ns");
  tg__table_add_column(t, "bytes", TG_INT, "bytes");
  tg__table_add_column(t, "pct", TG_REAL, "%");
  tg__table_add_column(t, "ok", TG_BOOL, "");
  return t;
}

static void fill(struct tg_table *t) {
  static const char *const names[] = {"aten::conv2d", "", NULL, "mm"};
  t->rows = 0;
  for (int i = 0; i < 4; i++) {
    tg__put_cstr(t, names[i]);
    tg__put_int(t, i == 3 ? TG_NULL_INT : i * 1000);
    tg__put_int(t, INT64_MAX - i);
    tg__put_real(t, i == 1 ? NAN : i / 3.0);
    if (i == 2)
      tg__put_null(t);
    else
      tg__put_bool(t, i);
  }
}

static void require(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct tg_table *t; /* made once: a new table is a thousand times the work of a short expression */
  if (!t) t = make_table();
  char *text = malloc(size + 1);
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  struct tg_error e = {0};
  fill(t);
  enum tg_err err = tg__where_filter(t, text, &e);
  require(err == TG_OK || (err == TG_USAGE && e.text[0] && t->rows == 4));
  require(t->rows <= 4);
  const size_t kept = t->rows;
  if (err == TG_OK)
    require(tg__where_filter(t, text, &e) == TG_OK && t->rows == kept); /* what was kept is kept again */
  require(tg__table_is_valid(t, &e));
  err = tg__sort_table(t, text, &e);
  require(err == TG_OK || err == TG_USAGE);
  require(t->rows == kept && tg__table_is_valid(t, &e));
  free(text);
  return 0;
}
