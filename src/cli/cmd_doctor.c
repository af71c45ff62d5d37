/* tachograph doctor: what this build can read and what this machine offers. */
#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

static void put_line(struct tg_table *t, const char *item, const char *value, bool is_fine, const char *advice) {
  tg__put_cstr(t, item);
  tg__put_cstr(t, value);
  tg__put_bool(t, is_fine);
  tg__put_cstr(t, advice);
}

static const char *simd(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return "x86-64 with AVX-512";
  if (__builtin_cpu_supports("avx2")) return "x86-64 with AVX2";
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
  put_line(t, "version", tg_version(), true, NULL);
#ifdef __VERSION__
  put_line(t, "compiler", __VERSION__, true, NULL);
#endif
  put_line(t, "compressed input", tg__input_codecs(), !strstr(tg__input_codecs(), "no "), codec_advice());
#if defined(TG_WITH_SQLITE)
  put_line(t, "sql", "SQLite", true, NULL);
#else
  put_line(t, "sql", "none", false, "build with SQLite (-DTG_WITH_SQLITE=ON) for tachograph sql");
#endif
}

static void check_machine(struct tg_table *t) {
  char text[64], amount[32];
  put_line(t, "processor", simd(), true, NULL);
  const unsigned cores = tg__cpu_count();
  snprintf(text, sizeof text, "%u usable", cores);
  put_line(t, "cores", text, true, cores == 1 ? "reading is about 1.7 times as fast with a second core" : NULL);
  const int64_t page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
  const int64_t bytes = page > 0 && pages > 0 ? page * pages : 0;
  const bool is_enough = bytes >= (int64_t)2 << 30;
  put_line(t, "memory", tg__human_bytes(bytes, amount), is_enough, is_enough ? NULL : "a 1 GB trace takes about 0.3 GB; convert it to .tacho elsewhere");
}

/* torch is looked for, not imported: that would take seconds. */
static void check_torch(struct tg_table *t) {
  static const char command[] = "python3 -c \"import importlib.metadata as m; print(m.version('torch'))\" 2>/dev/null";
  char version[64] = "";
  FILE *p = popen(command, "r");
  const bool found = p && fgets(version, sizeof version, p);
  if (p) pclose(p);
  version[strcspn(version, "\r\n")] = 0;
  put_line(t, "torch", found ? version : "not found", found, found ? NULL : "python3 does not find torch; only needed to record, not to read");
}

/* Nobody hands us counters, and none are made up. */
static void say_counters(struct tg_table *t) {
  put_line(t, "hardware counters", "unavailable", true, "counters of a kernel are shown by Nsight Compute: ncu --set full python train.py");
}

int tg__cmd_doctor(struct tg__cli *c) {
  if (!tg__cli_needs(c, 0)) return TG__EXIT_USAGE;
  const struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  struct tg_table *t = tg__table_new("doctor");
  if (!t) return tg__cli_failed(c, &e, NULL);
  tg__table_add_column(t, "item", TG_TEXT, "");
  tg__table_add_column(t, "value", TG_TEXT, "");
  tg__table_add_column(t, "fine", TG_BOOL, "");
  tg__table_add_column(t, "advice", TG_TEXT, "");
  check_build(t);
  check_machine(t);
  check_torch(t);
  say_counters(t);
  const int status = t->failed ? tg__cli_failed(c, &e, NULL) : tg__cli_table(c, t, 0);
  tg_table_free(t);
  return status;
}
