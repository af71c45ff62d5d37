/* tachograph run: start a program with the recorder waiting inside it, wait for its end, pack and report what was
 * recorded.
 *
 * The program runs as it would without us: same words, same streams, same exit status. This command adds one
 * environment variable, which says where and how to record, and puts a folder in front of PYTHONPATH
 * (python/tachograph/_launch/site). The sitecustomize in that folder reads the variable. */
#include "cli/run_recording.h"

#include <stdio.h>
#include <unistd.h>

/* ---- what to run ----------------------------------------------------------------------------- */

/* A program for Python. One that is no .py and can be executed by itself chooses its Python itself, as `pip` or
 * `torchrun` in a bin folder do. */
static bool is_python_file(const char *path) {
  const struct tg__str name = {path, (uint32_t)strlen(path)};
  if (strcmp(path, "-") == 0 || tg__str_has_suffix(name, ".py") || tg__path_kind(path) == TG__PATH_DIR) return true;
  struct tg__file *f;
  char head[256] = ""; /* the system reads no more of a first line */
  if (tg__path_kind(path) != TG__PATH_FILE || tg__file_open(path, &f, NULL)) return false;
  const int64_t n = tg__file_read(f, head, sizeof head - 1);
  tg__file_close(f);
  head[strcspn(head, "\n")] = 0;
  if (n > 1 && head[0] == '#' && head[1] == '!')
    return strstr(head, "python") && (!strchr(path, '/') || access(path, X_OK) != 0);
  return n > 1 && memcmp(head, "PK", 2) == 0;
}

/* Words of the call → words of the program. -1 to go on, else the exit status. */
static int choose_program(struct tg__cli_recording *r) {
  const struct tg__cli *c = r->c;
  const char *module = tg__cli_setting(c, "module");
  const bool is_command = tg__cli_says_dashes(c) && !module;
  if (!module && !c->operand_count)
    return tg__cli_usage(c, NULL, "run needs a program: a script, -m and a module, or -- and a command");
  r->argv = tg__arena_get(&r->c->arena, (c->operand_count + 4) * sizeof *r->argv);
  if (!r->argv) return tg_err_status(TG_MEMORY);
  r->program = module ? module : c->operands[0];
  const bool by_python = module || (!is_command && is_python_file(r->program));
  size_t n = 0;
  if (by_python) r->argv[n++] = r->python;
  if (module) r->argv[n++] = "-m", r->argv[n++] = module;
  for (size_t i = 0; i < c->operand_count; i++) r->argv[n++] = c->operands[i];
  r->argv[n] = NULL;
  if (by_python && !module && strcmp(r->program, "-") != 0 && tg__path_kind(r->program) == TG__PATH_NONE)
    return tg__cli_usage(c, NULL, "there is no script '%s'", r->program);
  return -1;
}

/* ---- --nsys ---------------------------------------------------------------------------------- */

static bool is_on_path(const char *program) {
  const char *at = tg__getenv("PATH");
  char path[PATH_MAX];
  while (at && *at) {
    const int len = (int)strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s/%s", len, at, program);
    if (len && tg__path_kind(path) == TG__PATH_FILE && access(path, X_OK) == 0) return true;
    at += len + (at[len] == ':');
  }
  return false;
}

/* The program's words behind those of nsys, which writes beside our recording. false: no memory. */
static bool wrap_in_nsys(struct tg__cli_recording *r) {
  static const char *const before[] = {"nsys", "profile", "-t", "cuda,nvtx,osrt", "-o"};
  enum { BEFORE = sizeof before / sizeof *before };
  size_t count = 0;
  while (r->argv[count]) count++;
  const char **const argv = tg__arena_get(&r->c->arena, (BEFORE + count + 2) * sizeof *argv);
  char path[PATH_MAX + 8];
  snprintf(path, sizeof path, "%s/nsys", r->folder);
  const char *const output = tg__arena_copy(&r->c->arena, path, strlen(path));
  if (!argv || !output) return false;
  memcpy(argv, before, sizeof before);
  argv[BEFORE] = output;
  memcpy(argv + BEFORE + 1, r->argv, (count + 1) * sizeof *argv);
  r->argv = argv;
  return true;
}

/* ---- the run --------------------------------------------------------------------------------- */

static enum tg_err start(struct tg__cli_recording *r, struct tg_error *e) {
  struct tg__out settings = {0}, path = {0};
  const char *old = tg__getenv("PYTHONPATH");
  tg__out_format(&path, "%s/_launch/site%s%s", r->package, old && *old ? ":" : "", old ? old : "");
  tg__out_char(&path, 0);
  const char *text = tg__cli_recording_settings(r, &settings);
  char folder[PATH_MAX];
  enum tg_err err = text && !path.err && tg__path_absolute(r->folder, folder, sizeof folder)
                        ? TG_OK
                        : tg__no_memory(e, "starting the program");
  if (!err) {
    const struct tg__variable variables[] = {
        {"TACHOGRAPH_RUN", text}, {"TACHOGRAPH_RUN_FOLDER", folder}, {"PYTHONPATH", path.buf}};
    const int64_t began_ns = tg__clock_ns();
    err = tg__program_run(r->argv, variables, sizeof variables / sizeof *variables,
                          r->output_aside ? STDERR_FILENO : -1, &r->status, e);
    r->run_ns = tg__clock_ns() - began_ns;
  }
  tg__out_free(&settings);
  tg__out_free(&path);
  return err;
}

/* Started by our package, which shows it meanwhile. Nothing is recorded that an option could be about. */
static int run_live(struct tg__cli_recording *r) {
  static const char *const others[] = {"output", "preset", "steps", "seconds", "bytes",
                                       "memory", "view",   "nsys",  "graphs"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (tg__cli_setting(r->c, others[i]))
      return tg__cli_usage(r->c, NULL, "--live shows a program and records nothing: leave out --%s", others[i]);
  size_t count = 0;
  while (r->argv[count]) count++;
  const char **const words = tg__arena_get(&r->c->arena, (count + 2) * sizeof *words);
  if (!words) return tg__cli_no_memory(r->c);
  words[0] = "run";
  words[1] = tg__cli_wants_json(r->c) ? "json" : "text";
  for (size_t i = 0; i < count; i++) words[i + 2] = r->argv[i];
  return tg__cli_in_python(r->c, "tachograph._watch", words, count + 2);
}

static int record(struct tg__cli *c, bool output_aside, struct tg__cli_recorded *out) {
  struct tg__cli_recording *r = tg__arena_get(&c->arena, sizeof *r);
  struct tg_error e = {0};
  if (!r) return tg__cli_no_memory(c);
  *r = (struct tg__cli_recording){.c = c, .output_aside = output_aside};
  int status = tg__cli_recording_options(r);
  if (status < 0) status = choose_program(r);
  if (status >= 0) return status;
  const bool has_nsys = tg__cli_setting(c, "nsys") != NULL;
  if (has_nsys && !is_on_path("nsys"))
    return tg__cli_usage(c, NULL,
                         "--nsys needs nsys on PATH, which Nsight Systems brings: install it, or leave out --nsys");
  if (tg__cli_setting(c, "live")) {
    if (tg__cli_recording_find_python(r, &e)) return tg__cli_failed(c, &e, NULL);
    return run_live(r);
  }
  if (tg__cli_recording_find_python(r, &e) || tg__cli_recording_make_folder(r, &e)) return tg__cli_failed(c, &e, NULL);
  if (has_nsys && !wrap_in_nsys(r)) return tg__cli_no_memory(c);
  if (start(r, &e)) {
    tg__cli_recording_drop_folder(r);
    return tg__cli_failed(c, &e, NULL);
  }
  tg__cli_recording_conclude(r);
  *out = (struct tg__cli_recorded){r->packed ? r->file : NULL, r->argv};
  return r->status;
}

int tg__cli_record(struct tg__cli *c, struct tg__cli_recorded *out) {
  *out = (struct tg__cli_recorded){0};
  return record(c, tg__cli_wants_json(c), out);
}

int tg__cli_record_first(struct tg__cli *c, struct tg__cli_recorded *out) {
  struct tg__cli run = *c;
  run.command = tg__command_find("run");
  run.format = "text";
  *out = (struct tg__cli_recorded){0};
  const int status = record(&run, true, out);
  c->arena = run.arena;
  return out->file ? TG__EXIT_OK : status ? status : tg_err_status(TG_NO_EVENTS);
}

int tg__cmd_run(struct tg__cli *c) {
  const char *const before = tg__cli_setting(c, "compare");
  struct tg__cli_recorded recorded;
  if (before && (tg__cli_wants_json(c) || tg__cli_setting(c, "live")))
    return tg__cli_usage(c, NULL, "--compare prints a page: leave out --json and --live");
  if (before && tg__path_kind(before) == TG__PATH_NONE)
    return tg__cli_usage(c, NULL, "there is no recording '%s' to compare with", before);
  const int status = tg__cli_record(c, &recorded);
  const int compared = before && recorded.file ? tg__cli_compare(c, before, recorded.file) : TG__EXIT_OK;
  return status ? status : compared;
}
