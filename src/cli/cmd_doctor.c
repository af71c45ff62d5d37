/* tachograph doctor: what this build can read, what this machine offers, and what can be recorded on it. */
#include "cli/cli.h"
#include "serve/serve.h"

#include <stdio.h>
#include <unistd.h>

static void put_doctor_line(struct tg_table *t, const char *item, const char *value, bool is_fine, const char *advice) {
  tg_table_add_row(t, (struct tg_cell[]){{.text = item}, {.text = value}, {.number = is_fine}, {.text = advice}});
}

static const char *simd(void) {
#if defined(__x86_64__)
  const unsigned features = tg__cpu_features();
  if (features & TG__CPU_AVX512BW_VL) return "x86-64 with AVX-512";
  if (features & TG__CPU_AVX2) return "x86-64 with AVX2";
  return "x86-64 with SSE2";
#elif defined(__aarch64__)
  return "aarch64 with NEON";
#else
  return "portable code";
#endif
}

static const char *codec_advice(void) {
#if !defined(TG_WITH_ZSTD)
  return "build with zstd (-DTG_WITH_ZSTD=ON) for .zst and packed .tacho files";
#elif !defined(TG_WITH_ISAL)
  return "build with ISA-L (-DTG_WITH_ISAL=ON): .gz opens about three times as fast";
#else
  return NULL;
#endif
}

static void check_build(struct tg_table *t) {
  put_doctor_line(t, "version", tg_version(), true, NULL);
#ifdef __VERSION__
  put_doctor_line(t, "compiler", __VERSION__, true, NULL);
#endif
  put_doctor_line(t, "compressed input", tg__input_codecs(), !strstr(tg__input_codecs(), "no "), codec_advice());
#if defined(TG_WITH_SQLITE)
  put_doctor_line(t, "sql", "SQLite", true, NULL);
#else
  put_doctor_line(t, "sql", "none", false, "build with SQLite (-DTG_WITH_SQLITE=ON) for tachograph sql");
#endif
  const char *const server = tg__serve_library();
  put_doctor_line(t, "view", server ? server : "none", server != NULL,
                  server ? NULL : "build with libwebsockets (-DTG_WITH_SERVER=ON) for tachograph view");
}

static void check_machine(struct tg_table *t) {
  char text[64], amount[32];
  put_doctor_line(t, "processor", simd(), true, NULL);
  const unsigned cores = tg__cpu_count();
  snprintf(text, sizeof text, "%u usable", cores);
  put_doctor_line(t, "cores", text, true, cores == 1 ? "reading is about 1.7 times as fast with a second core" : NULL);
  const int64_t page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
  const int64_t bytes = page > 0 && pages > 0 ? page * pages : 0;
  const bool is_enough = bytes >= (int64_t)2 << 30;
  put_doctor_line(t, "memory", tg__human_bytes(bytes, amount), is_enough,
                  is_enough ? NULL : "a 1 GB trace takes about 0.3 GB; convert it to .tacho elsewhere");
}

/* What roofline and mfu hold a trace of this CPU against that does not say it itself. */
static void measure_peak(struct tg_table *t) {
  struct tg__cpu_peak peak;
  char text[160], advice[128];
  if (!tg__cpu_peak_measure(tg__core_count(), &peak)) return;
  const double tflops = peak.fp32_flop_per_s / 1e12, gbs = peak.bytes_per_s / 1e9;
  snprintf(text, sizeof text, "%.3g TFLOP/s in fp32, %.3g in fp64 (to %.0f %%), %.3g GB/s (to %.0f %%), on %u core%s",
           tflops, peak.fp64_flop_per_s / 1e12, peak.flops_error_pct, gbs, peak.bytes_error_pct, peak.threads,
           peak.threads == 1 ? "" : "s");
  snprintf(advice, sizeof advice,
           "for a trace of this CPU: tachograph ask FILE roofline --peak_tflops %.3g --peak_gbs %.3g", tflops, gbs);
  put_doctor_line(t, "peak, measured now", text, true, advice);
}

/* The next cell of a line, which ends at a tab or at the end of the line. */
static const char *next_cell(char **line) {
  char *const begin = *line;
  *line += strcspn(*line, "\t");
  if (**line) *(*line)++ = 0;
  return begin;
}

/* What can be recorded only Python and its torch know: python/tachograph/_doctor.py prints it, a line for each row. */
static void check_recording(struct tg_table *t) {
  static const char ask[] =
      "import sys; sys.path.remove('') if '' in sys.path else None; from tachograph._doctor import main; main()";
  const char *const caller = tg__getenv("TACHOGRAPH_PYTHON"), *const python = caller && *caller ? caller : "python3";
  const char *const question[] = {python, "-c", ask, NULL};
  char text[8192], value[256];
  if (!tg__program_says(question, text, sizeof text)) {
    snprintf(value, sizeof value, "no: %.200s cannot import the package tachograph", python);
    put_doctor_line(t, "recording", value, false, "pip install tachograph; only needed to record, not to read");
    return;
  }
  for (char *at = text; *at;) {
    char *line = at;
    at += strcspn(at, "\n");
    if (*at) *at++ = 0;
    const char *const item = next_cell(&line), *const said = next_cell(&line);
    const bool is_fine = strcmp(next_cell(&line), "1") == 0;
    const char *const advice = next_cell(&line);
    put_doctor_line(t, item, said, is_fine, *advice ? advice : NULL);
  }
}

/* No library that we load reads the counters of a kernel. */
static void say_counters(struct tg_table *t) {
  put_doctor_line(t, "hardware counters", "unavailable", true,
                  "counters of a kernel are shown by Nsight Compute: ncu --set full python train.py");
}

static int show_facts(const struct tg__cli *c, struct tg_table *t) {
  if (strcmp(c->format, "text") != 0 || tg_table_failed(t)) return tg__cli_table(c, t, 0);
  struct tg_error e = {0};
  struct tg__sink sink;
  if (tg__sink_open(&sink, c->out_path, &e)) return tg__cli_failed(c, &e, NULL);
  const struct tg__show_options options = {.width = tg__cli_width(c), .color = c->color};
  const enum tg_err err = tg__facts_page(t, &options, &sink.out);
  if (err) tg__fail(&e, err, -1, "%s while writing the answer", tg_err_text(err));
  return tg__sink_close(&sink, c, err == TG_IO ? TG_OK : err, &e);
}

int tg__cmd_doctor(struct tg__cli *c) {
  if (!tg__cli_needs(c, 0)) return TG__EXIT_USAGE;
  static const struct tg_column_spec columns[] = {
      {"item", TG_TEXT, ""}, {"value", TG_TEXT, ""}, {"fine", TG_BOOL, ""}, {"advice", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("doctor", columns, sizeof columns / sizeof *columns);
  if (!t) return tg__cli_no_memory(c);
  check_build(t);
  check_machine(t);
  measure_peak(t);
  check_recording(t);
  say_counters(t);
  const int status = show_facts(c, t);
  tg_table_free(t);
  return status;
}
