/* The report of a memory snapshot: what each device held at its peak, whether memory ran out, and which code
 * allocated. */
#include "show/report.h"

#include <math.h>

enum { NUMBER_BYTES = 32 };

static int64_t count_ooms(const struct tg_table *t, struct tg__str device) {
  for (size_t i = 0; t && i < t->rows; i++)
    if (tg__str_eq(tg__cell_str(t, i, "device"), device)) return tg__cell_int(t, i, "current");
  return 0;
}

/* "GPU0: 44.8 MB in use at the peak, 537 MB held of the device, 95.1 % of it unused on average; out of memory 10
 * times" */
static void put_device_memory(const struct tg__report *r, size_t row, struct tg__out *text) {
  const struct tg_table *const t = r->parts[TG__REPORT_FRAGMENTATION];
  const struct tg__str device = tg__cell_str(t, row, "device");
  const double unused = tg__cell_real(t, row, "mean_unused_percent");
  const int64_t ooms = count_ooms(r->parts[TG__REPORT_OOMS], device);
  char a[NUMBER_BYTES], b[NUMBER_BYTES];
  tg__out_format(text, "%.*s: %s in use at the peak, %s held of the device", (int)device.len, device.ptr,
                 tg__human_bytes(tg__cell_int(t, row, "peak_allocated"), a),
                 tg__human_bytes(tg__cell_int(t, row, "reserved"), b));
  if (!isnan(unused))
    tg__out_format(text, ", %.1f %% of it unused on average", unused);
  else
    tg__out_format(text, ", %.1f %% of it unused; the snapshot has no history",
                   tg__cell_real(t, row, "unused_percent"));
  if (ooms > 0) tg__out_format(text, "; out of memory %lld time%s", (long long)ooms, ooms == 1 ? "" : "s");
}

static void put_peak_stack(const struct tg_table *t, size_t row, unsigned indent, unsigned width, struct tg__out *out) {
  char buf[NUMBER_BYTES];
  const char *const text = tg__human_bytes(tg__cell_int(t, row, "peak_bytes"), buf);
  tg__put_blanks(out, indent);
  tg__out_format(out, "%10s  ", text);
  const struct tg__str stack = tg__cell_str(t, row, "stack");
  tg__put_fitted(out, stack.len ? stack : TG_STR("(no stack recorded)"), width - indent - 12);
  tg__out_char(out, '\n');
}

void tg__report_memory_print(const struct tg__report *r, const struct tg__show_options *o, unsigned indent,
                             unsigned width, struct tg__out *out) {
  const struct tg_table *const devices = r->parts[TG__REPORT_FRAGMENTATION], *const stacks =
                                                                                 r->parts[TG__REPORT_MEMORY_STACKS];
  const char *const bold = o->color ? "\033[1m" : "", *const plain = o->color ? "\033[0m" : "";
  for (size_t i = 0; devices && i < devices->rows; i++) {
    struct tg__out text = {0};
    put_device_memory(r, i, &text);
    tg__out_format(out, "%s%s%s", bold, i ? "" : "devices", plain);
    tg__put_blanks(out, i ? indent : indent - 7);
    if (text.err) out->err = text.err;
    tg__put_wrapped(out, (struct tg__str){text.buf, (uint32_t)text.len}, indent, width - indent, 3);
    tg__out_free(&text);
  }
  if (!stacks || !stacks->rows) return;
  tg__out_format(out, "\n%sallocated at the peak, by call stack%s\n", bold, plain);
  for (size_t i = 0; i < stacks->rows; i++) put_peak_stack(stacks, i, indent, width, out);
}
