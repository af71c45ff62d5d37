/* What a finding saves, as a sentence of the report. */
#include "show/report.h"

enum { NUMBER_BYTES = 32 };

/* What a finding saves is what those above it leave, as far as they are of the same rank. */
static bool comes_second(const struct tg_table *t, size_t row) {
  const int64_t rank = tg__cell_int(t, row, "rank");
  for (size_t i = 0; i < row; i++)
    if (tg__cell_int(t, i, "rank") == rank && tg__cell_int(t, i, "saving_ns") != TG_NULL_INT) return true;
  return false;
}

/* "51.0 ms to 70.2 ms", "up to 70.2 ms, or costs up to 3.10 ms", "about 64.4 ms" */
static void put_range(const struct tg_table *t, size_t row, struct tg__out *out) {
  char low_text[NUMBER_BYTES], high_text[NUMBER_BYTES];
  const int64_t low = tg__cell_int(t, row, "saving_low_ns"), high = tg__cell_int(t, row, "saving_high_ns");
  if (low == TG_NULL_INT || high == TG_NULL_INT)
    tg__out_format(out, "about %s", tg__human_ns(tg__cell_int(t, row, "saving_ns"), high_text));
  else if (low > 0)
    tg__out_format(out, "%s to %s", tg__human_ns(low, low_text), tg__human_ns(high, high_text));
  else if (low == 0)
    tg__out_format(out, "up to %s", tg__human_ns(high, high_text));
  else
    tg__out_format(out, "up to %s, or costs up to %s", tg__human_ns(high, high_text), tg__human_ns(-low, low_text));
}

void tg__report_saving(const struct tg_table *t, size_t row, bool in_all, struct tg__out *text) {
  const int64_t saving = tg__cell_int(t, row, "saving_ns"), bytes = tg__cell_int(t, row, "saving_bytes");
  const struct tg__str method = tg__cell_str(t, row, "method");
  char buf[NUMBER_BYTES];
  if (bytes != TG_NULL_INT)
    tg__out_format(text, "saves about %s", tg__human_bytes(bytes, buf));
  else if (saving == TG_NULL_INT)
    tg__out_text(text, "no saving is given");
  else if (saving == 0)
    tg__out_text(text, "saves no time");
  else {
    tg__out_text(text, "saves ");
    put_range(t, row, text);
    tg__out_format(text, " %s%s", in_all ? "in all" : "a step", comes_second(t, row) ? ", after what is above" : "");
  }
  if (method.len) tg__out_format(text, ": %.*s", (int)method.len, method.ptr);
}
