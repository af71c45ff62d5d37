/* What a device can do at most. */
#include "analyze/work/device_peaks.h"

#include <stdio.h>
#include <stdlib.h>

struct peak {
  const char *words;
  int year;
  double fp64, fp32, tf32, fp16, fp8, int8, memory;
};
static const struct peak known[] = {
#define PEAK(...) {__VA_ARGS__},
#include "analyze/work/device_peaks.def"
};

/* ---- the list -------------------------------------------------------------------------------- */

static bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* A whole word: "L4" is not in "L40S". */
static bool has_word(struct tg__str name, const char *word, size_t len) {
  for (uint32_t i = 0; i + len <= name.len; i++) {
    const bool begins = i == 0 || !is_word_char(name.ptr[i - 1]);
    const bool ends = i + len == name.len || !is_word_char(name.ptr[i + len]);
    if (begins && ends && memcmp(name.ptr + i, word, len) == 0) return true;
  }
  return false;
}

static bool has_words(struct tg__str name, const char *words) {
  while (*words) {
    const size_t len = strcspn(words, " ");
    if (!has_word(name, words, len)) return false;
    words += len + (words[len] == ' ');
  }
  return true;
}

bool tg__peaks_of_device(struct tg__str name, struct tg__peaks *out) {
  *out = (struct tg__peaks){0};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const struct peak *p = &known[i];
    if (!has_words(name, p->words)) continue;
    const double tera[TG__PRECISION_COUNT] = {[TG__FP64] = p->fp64, [TG__FP32] = p->fp32, [TG__TF32] = p->tf32,
                                              [TG__FP16] = p->fp16, [TG__FP8] = p->fp8,   [TG__INT8] = p->int8};
    for (size_t k = 0; k < TG__PRECISION_COUNT; k++) out->flops[k] = tera[k] * 1e12;
    out->bytes = p->memory * 1e9;
    snprintf(out->source, sizeof out->source, "%.*s (data sheet of %d)", name.len < 100 ? (int)name.len : 100, name.ptr,
             p->year);
    return true;
  }
  return false;
}

void tg__peaks_withhold(struct tg__peaks *p, struct tg__str faster, double flop_per_s, double peak) {
  for (unsigned k = 0; k < TG__PRECISION_COUNT; k++) p->flops[k] = 0;
  snprintf(p->withheld, sizeof p->withheld,
           "the peak of the CPU was measured too low: %.*s does %.4g GFLOP/s, the measurement %.4g",
           (int)(faster.len < 60 ? faster.len : 60), faster.ptr, flop_per_s / 1e9, peak / 1e9);
  p->source[0] = 0;
}

static void note_above_peak(struct tg_table *out, const char *column) {
  const struct tg__column *const c = &out->columns[tg__table_column_index(out, column)];
  size_t above = 0;
  double most = 100;
  for (size_t i = 0; i < out->rows; i++) {
    above += c->reals[i] > 100;
    if (c->reals[i] > most) most = c->reals[i];
  }
  if (above)
    tg__table_note(
        out,
        "%zu row%s above 100 %% of the peak, up to %.0f %%: no device does that, so the count of operations, "
        "the precision or the peak is wrong there, or the data comes from caches",
        above, above == 1 ? " is" : "s are", most);
}

void tg__note_peaks(const struct tg__peaks *p, const char *column, const char *unknown, struct tg_table *out) {
  note_above_peak(out, column);
  if (*p->source) tg__table_note(out, "peaks: %s", p->source);
  if (*p->withheld) tg__table_note(out, "%s", p->withheld);
  if (!*p->source && !*p->withheld) tg__table_note(out, "%s", unknown);
}

/* ---- the CPU a trace was recorded on --------------------------------------------------------- */

enum { MOST_ERROR_PCT = 20 }; /* of a measurement that shares are taken of */

/* A member of the object that `tachograph run` writes; 0 when it is not there, or no number that could be one. */
static double number_of(struct tg__str object, const char *key) {
  double v;
  return tg__str_to_real(tg__json_member(object, key), &v) && v > 0 && v < 1e30 ? v : 0;
}

/* Older files do not say how far the measurement can be trusted: what the program reached is the only test. */
static void peaks_of_cpu(const struct tg__columns *t, uint32_t rank, struct tg__peaks *out) {
  const struct tg__str peak = tg__document_member(t, rank, "cpuPeak");
  if (!peak.len) return;
  const double flops_error = number_of(peak, "flops_error_pct"), bytes_error = number_of(peak, "bytes_error_pct");
  const bool has_flops = flops_error <= MOST_ERROR_PCT, has_bytes = bytes_error <= MOST_ERROR_PCT;
  out->is_measured = true;
  if (has_flops) {
    out->flops[TG__FP32] = number_of(peak, "fp32_flop_per_s");
    out->flops[TG__FP64] = number_of(peak, "fp64_flop_per_s");
    out->flops[TG__FP16] = number_of(peak, "bf16_flop_per_s");
  }
  if (has_bytes) out->bytes = number_of(peak, "bytes_per_s");
  if (!has_flops || !has_bytes)
    snprintf(
        out->withheld, sizeof out->withheld,
        "the machine was busy when the peak of its %s was measured (the rounds differ by %.0f %%), so there are no "
        "shares of it",
        has_flops ? "memory" : "CPU", has_flops ? bytes_error : flops_error);
  if (has_flops || has_bytes)
    snprintf(out->source, sizeof out->source, "the CPU, measured after the recording on %.0f threads",
             number_of(peak, "threads"));
  const double error = has_flops && has_bytes && bytes_error > flops_error ? bytes_error : flops_error;
  const size_t len = strlen(out->source);
  if (len && error >= 1) snprintf(out->source + len, sizeof out->source - len, ", to %.0f %%", error);
}

/* ---- the interface --------------------------------------------------------------------------- */

static enum tg_err overrule(const struct tg__ask *a, const char *argument, double unit, double *value,
                            struct tg_error *e) {
  const char *const text = tg__ask_arg(a, argument);
  if (!text || !*text) return TG_OK;
  char *end;
  const double v = strtod(text, &end);
  if (end == text || *end || !(v > 0) || !(v < 1e9))
    return tg__fail(e, TG_USAGE, -1, "%s=%.60s: a number above zero is wanted, such as %s=312", argument, text,
                    argument);
  *value = v * unit;
  return TG_OK;
}

/* Of one that has AMD's 64 threads a warp and a name that names nothing. */
static struct tg__str name_of_unnamed(const struct tg__device *d) {
  static const struct {
    int64_t major, minor, units, least_gib, most_gib;
    const char *words;
  } all[] = {
#define UNNAMED(...) {__VA_ARGS__},
#include "analyze/work/device_peaks.def"
  };
  for (size_t i = 0; d->warp_size == 64 && i < sizeof all / sizeof *all; i++)
    if (d->compute_major == all[i].major && d->compute_minor == all[i].minor && d->sm_count == all[i].units &&
        d->total_memory_bytes >= all[i].least_gib << 30 && d->total_memory_bytes <= all[i].most_gib << 30)
      return (struct tg__str){all[i].words, (uint32_t)strlen(all[i].words)};
  return TG_STR("");
}

/* The device with most entries is the first: devices of one process are alike. */
static void peaks_of_gpu(const struct tg__columns *t, uint32_t rank, struct tg__peaks *out) {
  const struct tg__rank *r = &t->ranks[rank];
  if (r->device_count == 0 || r->devices[0].name == TG_NONE) return;
  struct tg__str name = tg__name(t, r->devices[0].name);
  /* A100s say how much memory they have in their names, or only by it. */
  char text[128];
  const bool large = r->devices[0].total_memory_bytes > (int64_t)60 << 30 && !tg__str_contains(name, "80GB") &&
                     tg__str_contains(name, "A100");
  if (large && name.len < 100) {
    const int len = snprintf(text, sizeof text, "%.*s 80GB", (int)name.len, name.ptr);
    name = (struct tg__str){text, (uint32_t)len};
  }
  if (!tg__peaks_of_device(name, out)) tg__peaks_of_device(name_of_unnamed(&r->devices[0]), out);
}

void tg__peaks_known(const struct tg__columns *t, uint32_t rank, bool on_device, struct tg__peaks *out) {
  *out = (struct tg__peaks){0};
  if (on_device)
    peaks_of_gpu(t, rank, out);
  else
    peaks_of_cpu(t, rank, out);
}

enum tg_err tg__peaks_of(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, bool on_device,
                         struct tg__peaks *out, struct tg_error *e) {
  tg__peaks_known(t, rank, on_device, out);
  double given = 0;
  enum tg_err err = overrule(a, "peak_tflops", 1e12, &given, e);
  for (size_t k = 1; k < TG__PRECISION_COUNT && given > 0; k++) out->flops[k] = given;
  if (!err) err = overrule(a, "peak_gbs", 1e9, &out->bytes, e);
  if (given > 0 || *tg__ask_arg(a, "peak_gbs")) {
    snprintf(out->source, sizeof out->source, "as given");
    out->withheld[0] = 0;
    out->is_measured = false;
  }
  return err;
}
