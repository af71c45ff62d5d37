/* attach_enter: have a program that runs already load our package in a thread of its own, for `attach` and `watch`.
 *
 * The program's interpreter is given a piece of Python (src/attach), which starts a thread that waits until no thread
 * of the program imports anything, and works (python/tachograph/_launch/enter.py). From then on the two sides see each
 * other through the folder of the recording only: raw/log-PID is written there, and `stop` made here ends it. */
#include "cli/attach_enter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { PYTHON_WITH_ITS_OWN = 3 << 8 | 14 }; /* sys.remote_exec */
enum { LOOK_NS = 5000000, SAY_NS = 2000000000 };
static const int64_t ENTRY_NS = 30000000000; /* longest that is waited for the interpreter to come to the text */
static const int64_t SPARE_NS = 20000000000; /* and so much more for its other threads */

/* Runs in the main thread at whatever place that is: in the middle of an import, with a lock held. So it starts a bare
 * thread and does nothing more. No name of the program is read or made: it may have an `exec` of its own. An
 * exception from a signal handler in between is raised again if it is Ctrl-C. */
static const char BEGIN[] = "try:\n",
                  /* The thread imports threading where the program has not, and up to 3.12 takes itself for the main
                   * thread then. So it is imported here; not in the middle of an import, which may be its own. */
    PREPARE[] = " if not __import__('_frozen_importlib')._module_locks:\n"
                "  __import__('atexit'), __import__('threading')\n",
                  START[] = " __import__('_thread').start_new_thread(__import__('builtins').exec, (",
                  END[] = "))\n"
                          "except:\n"
                          " try:\n"
                          "  if __import__('sys').exc_info()[0] is __import__('builtins').KeyboardInterrupt:\n"
                          "   __import__('_thread').interrupt_main()\n"
                          " except:\n"
                          "  pass\n"; /* at the very end of Python nothing of this is there any more */
static const char CALL[] = "\nenter(home, folder, settings, module)\n";

static volatile sig_atomic_t is_stopped;
static void stop(int number) {
  (void)number;
  is_stopped = 1;
}

void tg__attach_heed_signals(void) {
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
}
bool tg__attach_is_stopped(void) { return is_stopped; }

/* ---- which process --------------------------------------------------------------------------- */

int tg__attach_choose(struct tg__cli_recording *r, struct tg__target *t) {
  struct tg_error e = {0};
  int64_t pid;
  if (!tg__cli_needs(r->c, 1)) return TG__EXIT_USAGE;
  const struct tg__str word = {r->c->operands[0], (uint32_t)strlen(r->c->operands[0])};
  if (!tg__str_to_int(word, &pid) || pid < 1 || pid > INT32_MAX)
    return tg__cli_usage(r->c, NULL, "%s needs the number of a process, not '%s'; pgrep -af python lists them",
                         r->c->command->name, r->c->operands[0]);
  r->attached = (int)pid;
  if (tg__target_read(r->attached, t, &e)) return tg__cli_failed(r->c, &e, NULL);
  r->program = t->name;
  return tg__cli_recording_find_python(r, &e) ? tg__cli_failed(r->c, &e, NULL) : -1;
}

/* ---- the text ---------------------------------------------------------------------------------- */

static void put_name(struct tg__out *out, const char *name, const char *text) {
  struct tg__jsonw w = {.out = out};
  tg__out_format(out, ", '%s': ", name);
  tg__json_cstr(&w, text);
}

/* The file of the package that is run, and the call of its function. */
static enum tg_err read_entry(const struct tg__cli_recording *r, struct tg__out *out, struct tg_error *e) {
  char path[PATH_MAX + 32], piece[4096];
  struct tg__file *f;
  int64_t n = 0;
  snprintf(path, sizeof path, "%s/_launch/enter.py", r->package);
  if (tg__file_open(path, &f, NULL))
    return tg__fail(e, TG_NOT_FOUND, -1,
                    "'%s' is missing: the package tachograph of %s is of another version than this command", path,
                    r->python);
  while (!out->err && (n = tg__file_read(f, piece, sizeof piece)) > 0) tg__out_bytes(out, piece, (size_t)n);
  tg__file_close(f);
  if (n < 0) return tg__fail(e, TG_IO, -1, "'%s' cannot be read", path);
  tg__out_text(out, CALL);
  tg__out_char(out, 0);
  return out->err ? tg__no_memory(e, "attaching") : TG_OK;
}

/* A thread that runs exec(entry, {names}): nothing of it becomes a name of the program. */
static enum tg_err make_text(struct tg__cli_recording *r, const char *module, struct tg__out *out, struct tg_error *e) {
  struct tg__out settings = {0}, entry = {0};
  char home[PATH_MAX], folder[PATH_MAX];
  const enum tg_err err = read_entry(r, &entry, e);
  const char *const text = err ? NULL : tg__cli_recording_settings(r, &settings);
  char *const slash = strrchr(strcpy(home, r->package), '/');
  if (slash) *slash = 0;
  if (text && tg__path_absolute(r->folder, folder, sizeof folder)) {
    struct tg__jsonw w = {.out = out};
    tg__out_text(out, BEGIN);
    if (strcmp(module, TG__ATTACH_WATCHES) == 0) tg__out_text(out, PREPARE);
    tg__out_text(out, START);
    tg__json_cstr(&w, entry.buf);
    tg__out_text(out, ", {'__name__': 'tachograph_attach'");
    put_name(out, "home", home);
    put_name(out, "folder", folder);
    put_name(out, "settings", text);
    put_name(out, "module", module);
    tg__out_text(out, "}");
    tg__out_text(out, END);
    tg__out_char(out, 0);
  }
  tg__out_free(&settings);
  tg__out_free(&entry);
  return err ? err : out->err || !out->len ? tg__no_memory(e, "attaching") : TG_OK;
}

/* From 3.14 on Python reads a file itself when it is asked to, and comes to a safe place first. false: *said is its
 * error, or nothing where r->python cannot be started. */
static bool ask_python(const struct tg__cli_recording *r, const char *file, char *said, size_t size) {
  char code[200];
  snprintf(
      code, sizeof code,
      "import os, sys\ntry:\n sys.remote_exec(%d, sys.argv[1])\n print('asked')\nexcept Exception as e:\n print(e)\n"
      "sys.stdout.flush()\nos._exit(0)", /* the sooner this side looks again, the better */
      r->attached);
  const char *const argv[] = {r->python, "-c", code, file, NULL};
  if (!tg__program_says(argv, said, size)) *said = 0;
  return strcmp(said, "asked") == 0;
}

static enum tg_err refused_as_ending(const struct tg__target *t, struct tg_error *e) {
  return tg__fail(e, TG_BUSY, -1, "the Python of process %d does not run yet, or is ending", t->pid);
}

/* Python has the main thread in its list from the start of the program's first line to the end of its last. */
static enum tg_err refused_by_python(const struct tg__cli_recording *r, const struct tg__target *t, const char *said,
                                     struct tg_error *e) {
  if (!tg__target_lives(t)) return tg__fail(e, TG_NOT_FOUND, -1, "process %d ended before it was recorded", t->pid);
  if (strstr(said, "main thread") || strstr(said, "running interpreter")) return refused_as_ending(t, e);
  if (strstr(said, "not enabled"))
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "the Python of process %d was started with PYTHON_DISABLE_REMOTE_DEBUG or -X disable-remote-debug, "
                    "so that nothing attaches to it: start the program with tachograph run",
                    t->pid);
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "process %d runs a Python that lets itself be attached to only by one of its own version, and %s "
                  "could not%s%s: install tachograph for that Python and attach with its command",
                  t->pid, r->python, *said ? ": " : "", said);
}

static enum tg_err ask_for_text(const struct tg__cli_recording *r, const struct tg__target *t, const char *text,
                                struct tg_error *e) {
  char path[PATH_MAX + 16], absolute[PATH_MAX], said[256];
  struct tg__writer *w = NULL;
  snprintf(path, sizeof path, "%s/attach.py", r->folder);
  enum tg_err err = tg__writer_open(path, &w, e);
  if (err) return err;
  tg__writer_write(w, text, strlen(text));
  err = tg__writer_commit(w, e);
  if (err || !tg__path_absolute(path, absolute, sizeof absolute)) return err;
  if (tg__target_is_ending(t)) return refused_as_ending(t, e);
  return ask_python(r, absolute, said, sizeof said) ? TG_OK : refused_by_python(r, t, said, e);
}

/* The text has not run, and its file goes: Python reads an empty one in its place, and says nothing of it. One that is
 * ending cannot open a file, and would say so. */
static void cancel(const struct tg__cli_recording *r, struct tg__target *t) {
  char said[256];
  tg__attach_cancel(t);
  tg__target_take_back(t);
  if (t->version >= PYTHON_WITH_ITS_OWN && tg__target_lives(t) && !tg__target_is_ending(t))
    (void)ask_python(r, "/dev/null", said, sizeof said);
}

static enum tg_err enter(struct tg__cli_recording *r, struct tg__target *t, const char *module, struct tg_error *e) {
  struct tg__out out = {0};
  enum tg_err err = make_text(r, module, &out, e);
  if (!err && geteuid() == 0 && t->user != 0 &&
      (chown(r->folder, t->user, t->group) || chown(r->raw, t->user, t->group)))
    err = tg__fail(e, TG_IO, -1, "'%s' cannot be given to user %u, whom the process belongs to: %s", r->folder, t->user,
                   strerror(errno));
  if (!err) err = t->version >= PYTHON_WITH_ITS_OWN ? ask_for_text(r, t, out.buf, e) : tg__attach_queue(t, out.buf, e);
  tg__out_free(&out);
  return err;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void log_path(const struct tg__cli_recording *r, char path[PATH_MAX + 32]) {
  snprintf(path, PATH_MAX + 32, "%s/log-%d", r->raw, r->attached);
}

bool tg__attach_last_line(const struct tg__cli_recording *r, char *line, size_t size) {
  char path[PATH_MAX + 32], end[512];
  struct tg__file *f;
  log_path(r, path);
  line[0] = 0;
  if (tg__file_open(path, &f, NULL)) return false;
  const int64_t bytes = tg__file_size(f), from = bytes < (int64_t)sizeof end ? 0 : bytes - (int64_t)sizeof end + 1;
  const int64_t n = tg__file_read_at(f, end, sizeof end - 1, from);
  tg__file_close(f);
  end[n > 0 ? n : 0] = 0;
  char *const stop = strrchr(end, '\n');
  if (!stop) return true;
  *stop = 0;
  const char *const begin = strrchr(end, '\n');
  snprintf(line, size, "%.*s", (int)size - 1, begin ? begin + 1 : end);
  return true;
}

void tg__attach_nap(void) { nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL); }

/* Until the interpreter has come to the text. */
static enum tg_err wait_for_entry(struct tg__cli_recording *r, const struct tg__target *t, struct tg_error *e) {
  const int64_t since_ns = tg__clock_ns();
  char where[64], line[8];
  bool is_said = false;
  while (!tg__attach_last_line(r, line, sizeof line)) {
    const int64_t waited_ns = tg__clock_ns() - since_ns;
    if (!tg__target_lives(t)) return tg__fail(e, TG_NOT_FOUND, -1, "process %d ended before it was recorded", t->pid);
    if (tg__target_is_ending(t)) return refused_as_ending(t, e);
    if (is_stopped)
      return tg__fail(e, TG_CANCELLED, -1, "stopped before process %d was recorded; it goes on as before", t->pid);
    tg__target_waits_in(t, where, sizeof where);
    if (waited_ns > ENTRY_NS)
      return tg__fail(e, TG_BUSY, -1,
                      "the main thread of process %d has been in one call for 30 s (%s), so Python cannot begin "
                      "anything there; it goes on as before: try again when it works",
                      t->pid, *where ? where : "it computes");
    if (!is_said && waited_ns > SAY_NS) {
      tg__cli_say("waiting    for the main thread of process %d, which is in %s; Ctrl-C ends the wait\n", t->pid,
                  *where ? where : "a long computation");
      is_said = true;
    }
    tg__attach_nap();
  }
  return TG_OK;
}

void tg__attach_request_stop(const struct tg__cli_recording *r) {
  char path[PATH_MAX + 8];
  struct tg__writer *w = NULL;
  struct tg_error ignored;
  snprintf(path, sizeof path, "%s/stop", r->folder);
  if (tg__writer_open(path, &w, &ignored) == TG_OK) (void)tg__writer_commit(w, &ignored);
}

/* Until the thread in the process has waited for the program's imports and records, or says why it does not. */
static enum tg_err wait_for_begin(struct tg__cli_recording *r, const struct tg__target *t, struct tg_error *e) {
  static const char waits[] = "waits ";
  const int64_t since_ns = tg__clock_ns();
  char line[256];
  bool is_said = false, is_asked = false;
  while (tg__attach_last_line(r, line, sizeof line) && tg__target_lives(t)) {
    const bool is_waiting = !*line || strncmp(line, waits, sizeof waits - 1) == 0;
    const int64_t waited_ns = tg__clock_ns() - since_ns;
    if (!is_waiting) return TG_OK;
    if (is_stopped && !is_asked) tg__attach_request_stop(r);
    is_asked = is_stopped;
    if (waited_ns > ENTRY_NS + SPARE_NS)
      return tg__fail(
          e, TG_BUSY, -1,
          "process %d has not let another thread of Python run for %d s: nothing was recorded, and it goes on "
          "as before; try again when it works",
          t->pid, (int)(waited_ns / 1000000000));
    if (!is_said && waited_ns > SAY_NS)
      tg__cli_say("waiting    for process %d, which %s; Ctrl-C ends the wait\n", t->pid,
                  *line ? line + sizeof waits - 1 : "holds the lock of its interpreter");
    is_said = is_said || waited_ns > SAY_NS;
    tg__attach_nap();
  }
  return TG_OK;
}

void tg__attach_remove_helpers(const struct tg__cli_recording *r) {
  static const char *const names[] = {"stop", "lease", "attach.py"};
  char path[PATH_MAX + 16];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", r->folder, names[i]);
    tg__path_remove(path);
  }
}

/* Where the thread runs after all, it finds no folder and ends. */
static void abandon(const struct tg__cli_recording *r) {
  char path[PATH_MAX + 32];
  log_path(r, path);
  tg__path_remove(path);
  tg__attach_remove_helpers(r);
  tg__cli_recording_drop_folder(r);
}

enum tg_err tg__attach_begin(struct tg__cli_recording *r, struct tg__target *t, const char *module,
                             struct tg_error *e) {
  enum tg_err err = enter(r, t, module, e);
  if (!err) err = wait_for_entry(r, t, e);
  if (err)
    cancel(r, t);
  else
    tg__attach_forget(t);
  if (!err) err = wait_for_begin(r, t, e);
  if (err) abandon(r);
  return err;
}
