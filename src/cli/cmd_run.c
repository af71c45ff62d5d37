/* tachograph run: start a program with the recorder waiting inside it, wait for its end, pack and report what was
 * recorded.
 *
 * The program runs as it would without us: same words, same streams, same exit status. What is added is one variable
 * that says where and how to record, and a folder in front of PYTHONPATH (python/tachograph/_launch/site) with a
 * sitecustomize acts on it. */
#include "cli/cli.h"
#include "cli/run_log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_STEPS = 20, DEFAULT_SECONDS = 30 };
enum { STOPPED_BY_SIGNAL = 128 };
enum { LEAST_BYTES = 256 << 10, LEAST_MEMORY = 1 << 20 }; /* of a recording: tachograph/record.h; a test compares */
static const int64_t DEFAULT_BYTES = (int64_t)512 << 20;

struct run {
  struct tg__cli *c;
  char python[PATH_MAX], package[PATH_MAX];
  char folder[PATH_MAX], raw[PATH_MAX + 8], file[PATH_MAX + 16];
  const char *program; /* what is run, to be named after */
  const char **argv;   /* ends with NULL */
  const char *preset;
  int64_t steps, bytes, memory;
  double seconds;
  int status;                   /* of the program */
  int64_t run_ns;               /* from its start to its end */
  bool packed;                  /* `file` is there */
  int64_t overwritten, no_room; /* records that are not in it */
};

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

/* -1 to go on, else the exit status. */
static int read_options(struct run *r) {
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

/* ---- what to run ----------------------------------------------------------------------------- */

static const char ASK_PYTHON[] = "import os, sys; sys.path.remove('') if '' in sys.path else None; import tachograph; "
                                 "print(os.path.dirname(os.path.abspath(tachograph.__file__)))";

/* The Python that has our package: the one of the console command that called us, else python3. */
static enum tg_err find_python(struct run *r, struct tg_error *e) {
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
static int choose_program(struct run *r) {
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

/* ---- where to -------------------------------------------------------------------------------- */

static void name_folder(struct run *r) {
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

static enum tg_err make_folder(struct run *r, struct tg_error *e) {
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

/* ---- the run --------------------------------------------------------------------------------- */

/* The variable that the processes of the run go by. NULL: no memory. */
static const char *settings_text(struct run *r, struct tg__out *out) {
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
  tg__json_close(&w, '}');
  tg__out_char(out, 0);
  return out->err ? NULL : out->buf;
}

static enum tg_err start(struct run *r, struct tg_error *e) {
  struct tg__out settings = {0}, path = {0};
  const char *old = tg__getenv("PYTHONPATH");
  tg__out_format(&path, "%s/_launch/site%s%s", r->package, old && *old ? ":" : "", old ? old : "");
  tg__out_char(&path, 0);
  const char *text = settings_text(r, &settings);
  char folder[PATH_MAX];
  enum tg_err err = text && !path.err && tg__path_absolute(r->folder, folder, sizeof folder)
                        ? TG_OK
                        : tg__no_memory(e, "starting the program");
  if (!err) {
    const struct tg__variable variables[] = {
        {"TACHOGRAPH_RUN", text}, {"TACHOGRAPH_RUN_FOLDER", folder}, {"PYTHONPATH", path.buf}};
    const int64_t began_ns = tg__clock_ns();
    err = tg__program_run(r->argv, variables, sizeof variables / sizeof *variables,
                          tg__cli_wants_json(r->c) ? STDERR_FILENO : -1, &r->status, e);
    r->run_ns = tg__clock_ns() - began_ns;
  }
  tg__out_free(&settings);
  tg__out_free(&path);
  return err;
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static bool has_steps(const char *path) {
  struct tg_trace *trace = NULL;
  const bool has = tg_open(path, NULL, &trace, NULL) == TG_OK && tg_has_steps(trace);
  tg_close(trace);
  return has;
}

/* Is this start-PID.tacho, or start-PARENT.PID.tacho of a process that was forked? end: "PID.tacho". */
static bool is_beginning_of(const char *path, const char *end) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const size_t n = strlen(name), m = strlen(end);
  return strncmp(name, "start-", 6) == 0 && n > m && strcmp(name + n - m, end) == 0 &&
         (name[n - m - 1] == '-' || name[n - m - 1] == '.');
}

/* Where a process has a window, what it recorded before is not wanted; its children's files stay: they have no
 * window of their own. */
static void drop_beginnings(const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *slash = strrchr(names[i], '/');
    if (!slash || strncmp(slash, "/window-", 8) != 0 || !has_steps(names[i])) continue;
    for (size_t k = 0; k < count; k++) {
      if (is_beginning_of(names[k], slash + 8)) tg__path_remove(names[k]);
    }
  }
}

/* The packed file does not say any more how each process ended. */
static void note_killed(const struct tg_trace *t, struct tg__run_log *log) {
  char text[sizeof *log->notes];
  int64_t pid, rank;
  bool was_killed;
  for (size_t i = 0; tg_process(t, i, &pid, &rank, &was_killed); i++) {
    char of_rank[32] = "";
    if (!was_killed) continue;
    if (rank >= 0) snprintf(of_rank, sizeof of_rank, " (rank %lld)", (long long)rank);
    snprintf(text, sizeof text,
             "process %lld%s was killed, or left without cleaning up; what it had recorded until then is here",
             (long long)pid, of_rank);
    tg__run_log_note(log, text);
  }
}

/* Nothing to keep: another run may use the same folder. */
static void leave_nothing(struct run *r, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) tg__path_remove(names[i]);
  tg__path_remove(r->raw);
  tg__path_remove(r->folder); /* unless there is something else in it */
}

static void count_lost(struct run *r, const struct tg_trace *t) {
  r->overwritten = tg_loss_count(t, "skipped_overwritten");
  r->no_room = tg_loss_count(t, "skipped_no_room");
}

static void note_run(const struct run *r, struct tg__run_log *log, struct tg_trace *t) {
  struct tg__out facts = {0};
  tg__run_log_facts(log, r->status, r->run_ns, &facts);
  if (!facts.err) (void)tg_add_member(t, "run", facts.buf);
  tg__out_free(&facts);
}

/* Everything that was recorded becomes one packed file; the raw files go when it is written. */
static enum tg_err pack_recording(struct run *r, struct tg__run_log *log, struct tg_error *e) {
  struct tg__arena arena = {0};
  const char **names;
  size_t count, recorded = 0;
  struct tg_trace *trace = NULL;
  enum tg_err err = tg__path_list(r->raw, &arena, &names, &count, e);
  for (size_t i = 0; !err && i < count; i++) recorded += strstr(strrchr(names[i], '/'), "/log-") == NULL;
  if (!err && !recorded) {
    leave_nothing(r, names, count);
    err = tg__fail(e, TG_NO_EVENTS, -1, "nothing was recorded");
  }
  if (!err) {
    drop_beginnings(names, count);
    err = tg__cli_open(r->c, r->raw, &trace, e);
  }
  if (!err) note_killed(trace, log);
  if (!err) count_lost(r, trace);
  if (!err) tg_add_cpu_peak(trace); /* the program has ended; roofline needs it */
  if (!err) note_run(r, log, trace);
  if (!err) err = tg_save(trace, r->file, e);
  r->packed = !err;
  for (size_t i = 0; r->packed && i < count; i++) tg__path_remove(names[i]);
  if (r->packed) tg__path_remove(r->raw);
  tg_close(trace);
  tg__arena_free(&arena);
  return err;
}

static bool to_stderr(void *ctx, const char *bytes, size_t len) { return fwrite(bytes, 1, len, stderr) == len; }

/* Of the CPU time of the steps' thread: what else the machine does is not in it. */
static struct tg_overhead overhead_of(const struct tg__run_log *log) {
  return tg_overhead_of(log->cpu_with.ns, log->cpu_with.count, log->cpu_without.ns, log->cpu_without.count);
}

static void print_overhead(struct tg__run_log *log) {
  const struct tg_median with = tg_median_of(log->with.ns, log->with.count);
  const struct tg_median without = tg_median_of(log->without.ns, log->without.count);
  const struct tg_overhead cost = overhead_of(log);
  char a[32], b[32];
  if (!log->window_began) return;
  if (with.low < 0 || without.low < 0) {
    fprintf(stderr,
            "overhead   could not be measured here: %zu step%s ran with recording and %zu without, at least six of "
            "each are needed\n",
            log->with.count, log->with.count == 1 ? "" : "s", log->without.count);
    return;
  }
  fprintf(stderr, "overhead   a step took %s while recorded (n = %zu), %s otherwise (n = %zu); ",
          tg__human_ns(with.median, a), log->with.count, tg__human_ns(without.median, b), log->without.count);
  if (isnan(cost.percent))
    fputs("what recording\n           adds to a step's CPU time could not be measured here: steps differ too much\n",
          stderr);
  else
    fprintf(stderr, "recording\n           adds %.1f %% to a step's CPU time (95 %% interval %+.1f to %+.1f)\n",
            cost.percent, cost.low, cost.high);
}

/* Ctrl-C once more, when the program has ended and what it recorded is being packed or read: what there is, and how to
 * read it. Made before the signal comes. */
static char when_stopped[2 * PATH_MAX + 80];

static void say_and_stop(int number) {
  const ssize_t said = write(STDERR_FILENO, when_stopped, strlen(when_stopped));
  (void)said; /* there is no one to inform */
  _exit(STOPPED_BY_SIGNAL + number);
}

static void watch_for_stop(const struct run *r) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction old, action = {.sa_handler = say_and_stop};
  sigemptyset(&action.sa_mask);
  snprintf(when_stopped, sizeof when_stopped,
           "\ntachograph: stopped; what was recorded is in %s: tachograph report %s\n", r->folder,
           tg__cli_word(r->c, r->folder));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    sigaction(numbers[i], NULL, &old);
    if (old.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL); /* `nohup` stays in force */
  }
}

static void print_what(const struct run *r, const struct tg__run_log *log) {
  char count[32];
  if (log->window_began && log->first_step >= 0)
    fprintf(stderr, "recorded   steps %lld to %lld of %lld (%s), %s preset\n", (long long)log->first_step,
            (long long)log->last_step, (long long)log->steps, log->source, r->preset);
  else if (*log->source)
    fprintf(stderr, "recorded   the first steps of %lld (%s): the program ended before steady steps were recorded\n",
            (long long)log->steps, log->source);
  else
    fprintf(stderr,
            "recorded   the %s run, %s preset: no steps were found (no step(), optimizer, DataLoader or model calls)\n",
            r->overwritten ? "end of the"
            : r->no_room   ? "beginning of the"
                           : "whole",
            r->preset);
  if (log->lost && log->window_began)
    fprintf(stderr, "lost       %s records did not fit: record fewer steps (3 to 10 are enough), or raise --bytes\n",
            tg__human_count(log->lost, count));
  else if (r->overwritten)
    fprintf(stderr, "lost       %s records were overwritten by newer ones (--bytes)\n",
            tg__human_count(r->overwritten, count));
  else if (r->no_room)
    fprintf(stderr, "lost       %s records found no room and were only counted\n", tg__human_count(r->no_room, count));
  if (strcmp(log->recorder, "kineto") == 0) fprintf(stderr, "recorder   torch's own collector\n");
}

static void print_notes(const struct tg__run_log *log) {
  for (size_t i = 0; i < log->note_count; i++) tg__cli_say("note       %s\n", log->notes[i]);
}

/* Why there is nothing. */
static const char *explain_nothing(const struct tg__run_log *log) {
  if (!log->pythons)
    return "no Python that can be recorded was started: it ran with -I, -S or -E or without our environment, or the "
           "program is not Python";
  if (!log->processes) return "the program never imported torch, so there was nothing to record";
  return "the program ended before anything was recorded";
}

static void print_end(struct run *r, struct tg__run_log *log, const struct tg_error *e) {
  struct tg_error ignored;
  struct tg_trace *trace = NULL;
  fputs("\n", stderr);
  if (r->packed && tg_open(r->file, NULL, &trace, &ignored) == TG_OK) {
    const bool color = tg__is_terminal(STDERR_FILENO) && !tg__getenv("NO_COLOR");
    tg_report(trace, "text", tg__terminal_width(STDERR_FILENO), color, to_stderr, NULL, &ignored);
    fputs("\n", stderr);
    print_what(r, log);
    print_overhead(log);
  } else if (e->code == TG_NO_EVENTS) {
    fprintf(stderr, "tachograph: %s\n", explain_nothing(log));
  } else {
    tg__cli_say("tachograph: the recording could not be packed: %s\n", e->text);
  }
  tg_close(trace);
  print_notes(log);
  if (r->packed)
    tg__cli_say("file       %s\n", r->file);
  else if (tg__path_kind(r->raw) == TG__PATH_DIR)
    tg__cli_say("files      %s, to be read with: tachograph report %s\n", r->raw, tg__cli_word(r->c, r->folder));
}

static bool to_buffer(void *ctx, const char *bytes, size_t len) {
  struct tg__out *const out = ctx;
  tg__out_bytes(out, bytes, len);
  return !out->err;
}

/* What to change first, when the recording could be read. */
static void put_findings(const struct run *r, int64_t step_ns, struct tg__out *out) {
  struct tg_error ignored;
  struct tg_trace *trace = NULL;
  if (r->packed && tg_open(r->file, NULL, &trace, &ignored) == TG_OK) {
    struct tg__out members = {0};
    if (tg_findings_write(trace, step_ns >= 0 ? (double)step_ns : NAN, to_buffer, &members, &ignored) == TG_OK) {
      tg__out_text(out, ",\n");
      tg__out_bytes(out, members.buf, members.len);
    }
    tg__out_free(&members);
  }
  tg_close(trace);
}

/* The same as one JSON object on standard output; the program's own output went to standard error. */
static void print_json(struct run *r, struct tg__run_log *log) {
  struct tg__out out = {0};
  struct tg__jsonw w = {.out = &out};
  const struct tg_median with = tg_median_of(log->with.ns, log->with.count);
  const struct tg_median without = tg_median_of(log->without.ns, log->without.count);
  const struct tg_overhead cost = overhead_of(log);
  tg__json_open(&w, '{');
  tg__json_key(&w, "file");
  tg__json_cstr(&w, r->packed ? r->file : NULL);
  tg__json_key(&w, "status");
  tg__json_int(&w, r->status);
  tg__json_key(&w, "steps_from");
  tg__json_cstr(&w, *log->source ? log->source : NULL);
  tg__json_key(&w, "steps");
  tg__json_int(&w, log->steps);
  tg__json_key(&w, "recorded_steps");
  tg__json_int(&w, (int64_t)log->with.count);
  tg__json_key(&w, "step_recorded_ns");
  if (with.median >= 0)
    tg__json_int(&w, with.median);
  else
    tg__json_null(&w);
  tg__json_key(&w, "step_ns");
  if (without.median >= 0)
    tg__json_int(&w, without.median);
  else
    tg__json_null(&w);
  tg__json_key(&w, "overhead_pct");
  tg__json_double(&w, cost.percent);
  tg__json_key(&w, "overhead_interval_pct");
  tg__json_open(&w, '[');
  tg__json_double(&w, cost.low);
  tg__json_double(&w, cost.high);
  tg__json_close(&w, ']');
  tg__json_key(&w, "lost");
  tg__json_int(&w, log->lost);
  tg__json_key(&w, "notes");
  tg__json_open(&w, '[');
  for (size_t i = 0; i < log->note_count; i++) tg__json_cstr(&w, log->notes[i]);
  tg__json_close(&w, ']');
  put_findings(r, without.median, &out);
  tg__json_close(&w, '}');
  tg__out_char(&out, '\n');
  if (!out.err) fwrite(out.buf, 1, out.len, stdout);
  tg__out_free(&out);
}

int tg__cmd_run(struct tg__cli *c) {
  struct run *r = tg__arena_get(&c->arena, sizeof *r);
  struct tg_error e = {0};
  if (!r) return tg__cli_no_memory(c);
  *r = (struct run){.c = c};
  int status = read_options(r);
  if (status < 0) status = choose_program(r);
  if (status >= 0) return status;
  if (find_python(r, &e) || make_folder(r, &e)) return tg__cli_failed(c, &e, NULL);
  if (start(r, &e)) {
    tg__path_remove(r->raw);
    tg__path_remove(r->folder);
    return tg__cli_failed(c, &e, NULL);
  }
  struct tg__run_log log;
  watch_for_stop(r);
  tg__run_log_read(&log, r->raw);
  (void)pack_recording(r, &log, &e);
  print_end(r, &log, &e);
  if (tg__cli_wants_json(c)) print_json(r, &log);
  tg__run_log_free(&log);
  fflush(stdout);
  const char *const file = r->file;
  if (r->packed && tg__cli_setting(c, "view")) tg__cli_serve(c, &file, 1, 0, 0);
  return r->status;
}
