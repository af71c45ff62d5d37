/* run_recording: before a recording its options and its folder. */
#include "cli/run_recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_STEPS = 20, DEFAULT_SECONDS = 30 };
enum { LEAST_BYTES = 256 << 10, LEAST_MEMORY = 1 << 20 }; /* of a recording: tachograph/record.h; a test compares */
static const int64_t DEFAULT_BYTES = (int64_t)512 << 20;

/* ---- options --------------------------------------------------------------------------------- */

static bool read_size(const char *text, int64_t *bytes) {
  static const char units[] = "KMGT";
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
  if (end == text || errno) return false;
  for (const char *u = units; unit && u <= unit; u++) value *= 1024;
  if (unit) end += 1 + (end[1] == 'i');
  if (*end == 'B' || *end == 'b') end++;
  if (*end || !(value >= 1) || value > 9e15) return false;
  *bytes = (int64_t)value;
  return true;
}

int tg__cli_recording_options(struct tg__cli_recording *r) {
  const struct tg__cli *c = r->c;
  const char *steps = tg__cli_setting(c, "steps"), *seconds = tg__cli_setting(c, "seconds");
  const char *bytes = tg__cli_setting(c, "bytes"), *memory = tg__cli_setting(c, "memory");
  char *end;
  r->preset = tg__cli_setting(c, "preset");
  if (!r->preset) r->preset = "default";
  if (strcmp(r->preset, "lean") != 0 && strcmp(r->preset, "default") != 0 && strcmp(r->preset, "deep") != 0)
    return tg__cli_usage(c, NULL, "--preset is lean, default or deep, not '%s'", r->preset);
  r->steps = steps ? strtol(steps, &end, 10) : DEFAULT_STEPS;
  if (steps && (*end || end == steps || r->steps < 1 || r->steps > 1000000))
    return tg__cli_usage(c, NULL, "--steps needs a number from 1 to 1000000, not '%s'", steps);
  r->seconds = seconds ? strtod(seconds, &end) : DEFAULT_SECONDS;
  if (seconds && (*end || end == seconds || !(r->seconds > 0) || r->seconds > 1e6))
    return tg__cli_usage(c, NULL, "--seconds needs a number above 0, not '%s'", seconds);
  r->bytes = DEFAULT_BYTES;
  r->memory = 0;
  if (bytes && (!read_size(bytes, &r->bytes) || r->bytes < LEAST_BYTES))
    return tg__cli_usage(c, NULL, "--bytes needs a size such as 64M, and 256K at least, not '%s'", bytes);
  if (memory && (!read_size(memory, &r->memory) || r->memory < LEAST_MEMORY))
    return tg__cli_usage(c, NULL, "--memory needs a size such as 64M, and 1M at least, not '%s'", memory);
  return -1;
}

/* ---- the package ------------------------------------------------------------------------- */

static const char ASK_PYTHON[] = "import os, sys; sys.path.remove('') if '' in sys.path else None; import tachograph; "
                                 "print(os.path.dirname(os.path.abspath(tachograph.__file__)))";

enum tg_err tg__cli_recording_find_python(struct tg__cli_recording *r, struct tg_error *e) {
  const char *python = tg__getenv("TACHOGRAPH_PYTHON"), *package = tg__getenv("TACHOGRAPH_PACKAGE");
  snprintf(r->python, sizeof r->python, "%s", python && *python ? python : "python3");
  if (package && *package) {
    snprintf(r->package, sizeof r->package, "%s", package);
    return TG_OK;
  }
  const char *const question[] = {r->python, "-c", ASK_PYTHON, NULL};
  if (tg__program_says(question, r->package, sizeof r->package)) return TG_OK;
  return tg__fail(e, TG_NOT_FOUND, -1, "%s has no package tachograph, which does the recording: pip install tachograph",
                  r->python);
}

/* ---- where to -------------------------------------------------------------------------------- */

static void name_folder(struct tg__cli_recording *r) {
  const char *given = tg__cli_setting(r->c, "output");
  if (given) {
    snprintf(r->folder, sizeof r->folder, "%s", given);
    return;
  }
  char when[32];
  const char *slash = strrchr(r->program, '/'), *name = slash && slash[1] ? slash + 1 : r->program;
  int len = (int)strcspn(name, "/");
  if (len > 3 && strncmp(name + len - 3, ".py", 3) == 0) len -= 3;
  if (strcmp(name, "-") == 0) name = "stdin", len = 5;
  tg__local_time("%Y%m%d-%H%M%S", when, sizeof when);
  snprintf(r->folder, sizeof r->folder, "tachograph-runs/%.*s-%s", len < 80 ? len : 80, name, when);
  for (int k = 2; tg__path_kind(r->folder) != TG__PATH_NONE && k < 1000; k++) /* two in one second */
    snprintf(r->folder, sizeof r->folder, "tachograph-runs/%.*s-%s-%d", len < 80 ? len : 80, name, when, k);
}

enum tg_err tg__cli_recording_make_folder(struct tg__cli_recording *r, struct tg_error *e) {
  name_folder(r);
  snprintf(r->raw, sizeof r->raw, "%s/raw", r->folder);
  snprintf(r->file, sizeof r->file, "%s/trace.tacho", r->folder);
  if (tg__path_kind(r->file) != TG__PATH_NONE || tg__path_kind(r->raw) != TG__PATH_NONE)
    return tg__fail(e, TG_USAGE, -1, "'%s' holds a recording already: choose another folder with -o, or remove it",
                    r->folder);
  struct tg_error cause = {0};
  const enum tg_err err = tg__folder_make(r->raw, &cause);
  return err ? tg__fail(e, err, -1, "%.400s; -o DIR takes a folder that can be written", cause.text) : TG_OK;
}

void tg__cli_recording_drop_folder(const struct tg__cli_recording *r) {
  tg__path_remove(r->raw);
  tg__path_remove(r->folder);
}

/* ---- what the processes go by ----------------------------------------------------------------- */

const char *tg__cli_recording_settings(struct tg__cli_recording *r, struct tg__out *out) {
  char folder[PATH_MAX];
  if (!tg__path_absolute(r->folder, folder, sizeof folder)) return NULL;
  struct tg__jsonw w = {.out = out};
  tg__json_open(&w, '{');
  tg__json_key(&w, "dir");
  tg__json_cstr(&w, folder);
  tg__json_key(&w, "session");
  tg__json_int(&w, (int64_t)(((uint64_t)tg__clock_ns() << 20 ^ tg__process_number()) & INT64_MAX));
  tg__json_key(&w, "preset");
  tg__json_cstr(&w, r->preset);
  tg__json_key(&w, "steps");
  tg__json_int(&w, r->steps);
  tg__json_key(&w, "seconds");
  tg__json_double(&w, r->seconds);
  tg__json_key(&w, "bytes");
  tg__json_int(&w, r->bytes);
  tg__json_key(&w, "memory");
  tg__json_int(&w, r->memory);
  if (tg__cli_setting(r->c, "graphs")) {
    tg__json_key(&w, "graphs");
    tg__json_bool(&w, true);
  }
  if (tg__cli_setting(r->c, "nsys")) { /* CUDA has a single reader of its records, and nsys is it */
    tg__json_key(&w, "host_only");
    tg__json_bool(&w, true);
  }
  tg__json_close(&w, '}');
  tg__out_char(out, 0);
  return out->err ? NULL : out->buf;
}
