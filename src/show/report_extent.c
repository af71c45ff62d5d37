/* How long and how large a trace is, of which rank and which devices: the first line of the report. */
#include "show/report.h"

enum { NUMBER_BYTES = 32, NAME_WIDTH = 32 };

/* Sum (or largest) over ranks of a quantity of the overview. */
static int64_t overall(const struct tg__report *r, const char *quantity, bool largest) {
  const struct tg_table *t = r->parts[TG__REPORT_OVERVIEW];
  int64_t all = TG_NULL_INT;
  for (size_t i = tg__find_row(t, "quantity", quantity, 0); i != SIZE_MAX;
       i = tg__find_row(t, "quantity", quantity, i + 1)) {
    const int64_t v = tg__cell_int(t, i, "value");
    if (v == TG_NULL_INT || !tg__str_eq(tg__cell_str(t, i, "group"), TG_STR("summary"))) continue;
    if (all == TG_NULL_INT)
      all = v;
    else if (largest)
      all = v > all ? v : all;
    else if (__builtin_add_overflow(all, v, &all))
      all = INT64_MAX;
  }
  return all;
}

static bool names_row_before(const struct tg_table *t, size_t row, struct tg__str name) {
  for (size_t i = 0; i < row; i++)
    if (tg__str_eq(tg__cell_str(t, i, "group"), TG_STR("device")) && tg__str_eq(tg__cell_str(t, i, "text"), name))
      return true;
  return false;
}

/* "4 × Tesla V100", for each name of a device; devices of one host are listed by each of its ranks, so one rank's
 * are counted. */
static void put_report_devices(const struct tg__report *r, struct tg__out *out) {
  const struct tg_table *t = r->parts[TG__REPORT_OVERVIEW];
  bool any = false;
  for (size_t i = tg__find_row(t, "group", "device", 0); i != SIZE_MAX; i = tg__find_row(t, "group", "device", i + 1)) {
    const struct tg__str name = tg__cell_str(t, i, "text");
    if (!name.len || names_row_before(t, i, name)) continue;
    unsigned count = 0;
    for (size_t k = i; k < t->rows; k++)
      count += tg__cell_int(t, k, "rank") == tg__cell_int(t, i, "rank") &&
               tg__str_eq(tg__cell_str(t, k, "group"), TG_STR("device")) &&
               tg__str_eq(tg__cell_str(t, k, "text"), name);
    tg__out_text(out, ", ");
    if (count > 1) tg__out_format(out, "%u \u00d7 ", count);
    tg__put_fitted(out, name, NAME_WIDTH);
    any = true;
  }
  const struct tg_table *launches = r->parts[TG__REPORT_LAUNCHES];
  const bool has_device_work = launches && launches->rows && tg__cell_int(launches, 0, "device_events") > 0;
  if (any) return;
  tg__out_text(out, has_device_work             ? ", a device without a name"
                    : tg__is_snapshot(r->trace) ? ", a memory snapshot"
                                                : ", CPU only");
}

/* "1.77 s, 216 092 events, 53.7 MB of text, rank 1 of 2, 2 × Tesla V100-SXM2-32GB" */
void tg__report_extent(const struct tg__report *r, struct tg__out *out) {
  const struct tg__columns *t = r->trace;
  char a[NUMBER_BYTES], b[NUMBER_BYTES], c[NUMBER_BYTES];
  tg__human_ns(overall(r, "span_ns", true), a);
  const int64_t events = overall(r, "events", false);
  tg__human_count(events, b);
  const int64_t bytes = overall(r, "json_bytes", false);
  tg__out_format(out, "%s, %s event%s", a, b, events == 1 ? "" : "s");
  if (bytes > 0) tg__out_format(out, ", %s of text", tg__human_bytes(bytes, c));
  const int64_t world = overall(r, "world_size", true), number = t->ranks[0].number;
  if (t->rank_count > 1)
    tg__out_format(out, ", %u ranks", t->rank_count);
  else if (number >= 0 && t->ranks[0].number_is_given)
    tg__out_format(out, ", rank %lld", (long long)number);
  if (world > 0) tg__out_format(out, " of %lld", (long long)world);
  put_report_devices(r, out);
  tg__out_char(out, 0);
}
