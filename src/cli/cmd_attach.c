/* tachograph attach: have a program that runs already begin a recording, wait until it is over, pack and report it.
 *
 * The program's interpreter is given a piece of Python (src/attach), which starts a thread that imports
 * python/tachograph/_launch/attached.py. From then on the two sides see each other through the folder of the recording
 * alone: raw/log-PID is written there, and `stop` made here ends the recording early. */
#include "attach/attach.h"
#include "cli/run_recording.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PYTHON_WITH_ITS_OWN = 3 << 8 | 14 }; /* sys.remote_exec */
enum { LOOK_NS = 5000000, SAY_NS = 2000000000 };
static const int64_t ENTRY_NS = 30000000000; /* longest that is waited for the interpreter to come to the text */
static const int64_t SPARE_NS = 20000000000; /* beyond the seconds that were asked for */

/* Runs in the main thread at whatever place that is, which may hold a lock of `threading`: so it starts a bare thread,
 * and that one a proper one. */
static const char TEXT[] =
    "import _thread\n"
    "def work():\n"
    "    import json, os, sys\n"
    "    try:\n"
    "        sys.path.append(home)\n"
    "        try:\n"
    "            from tachograph._launch import attached\n"
    "        finally:\n"
    "            sys.path.remove(home)\n"
    "    except BaseException as error:\n"
    "        said = 'Python %d.%d of the program (%s) cannot load tachograph: %s' % "
    "(*sys.version_info[:2], sys.executable, error)\n"
    "        with open(os.path.join(json.loads(settings)['dir'], 'raw', 'log-%d' % os.getpid()), 'a') as log:\n"
    "            log.write('note not recorded: %s\\nend\\n' % said.replace('\\n', ' '))\n"
    "    else:\n"
    "        attached.record(settings)\n"
    "def begin():\n"
    "    import threading\n"
    "    threading.Thread(target=work, name='tachograph-attach', daemon=True).start()\n"
    "try:\n"
    "    _thread.start_new_thread(begin, ())\n"
    "except Exception:\n"
    "    pass\n";

static volatile sig_atomic_t is_stopped;
static void stop(int number) {
  (void)number;
  is_stopped = 1;
}

/* exec(text, {names}): nothing of it lands in the program's own names. */
static const char *text_for(struct tg__cli_recording *r, struct tg__out *out) {
  struct tg__out settings = {0};
  char home[PATH_MAX];
  const char *const text = tg__cli_recording_settings(r, &settings);
  char *const slash = strrchr(strcpy(home, r->package), '/');
  if (slash) *slash = 0;
  tg__out_text(out, "exec(");
  struct tg__jsonw w = {.out = out};
  tg__json_cstr(&w, TEXT);
  tg__out_text(out, ", {'home': ");
  w = (struct tg__jsonw){.out = out};
  tg__json_cstr(&w, home);
  tg__out_text(out, ", 'settings': ");
  w = (struct tg__jsonw){.out = out};
  tg__json_cstr(&w, text ? text : "");
  tg__out_text(out, "})");
  tg__out_char(out, 0);
  tg__out_free(&settings);
  return text && !out->err ? out->buf : NULL;
}

/* From 3.14 on Python reads a file itself when it is asked to, and comes to a safe place first. */
static enum tg_err ask_python(struct tg__cli_recording *r, const char *text, struct tg_error *e) {
  char path[PATH_MAX + 16], code[PATH_MAX + 128], said[256];
  struct tg__writer *w = NULL;
  snprintf(path, sizeof path, "%s/attach.py", r->folder);
  enum tg_err err = tg__writer_open(path, &w, e);
  if (err) return err;
  tg__writer_write(w, text, strlen(text));
  err = tg__writer_commit(w, e);
  char absolute[PATH_MAX];
  if (err || !tg__path_absolute(path, absolute, sizeof absolute)) return err;
  snprintf(code, sizeof code, "import sys; sys.remote_exec(%d, sys.argv[1]); print('asked')", r->attached);
  const char *const argv[] = {r->python, "-c", code, absolute, NULL};
  if (tg__program_says(argv, said, sizeof said)) return TG_OK;
  return tg__fail(
      e, TG_UNSUPPORTED, -1,
      "process %d runs a Python that lets itself be attached to by Python 3.14 or newer alone, and %s could "
      "not: install tachograph for that Python and attach with its command",
      r->attached, r->python);
}

static enum tg_err enter(struct tg__cli_recording *r, struct tg__target *t, struct tg_error *e) {
  struct tg__out out = {0};
  const char *const text = text_for(r, &out);
  enum tg_err err = text ? TG_OK : tg__no_memory(e, "attaching");
  if (!err && geteuid() == 0 && t->user != 0 &&
      (chown(r->folder, t->user, t->group) || chown(r->raw, t->user, t->group)))
    err = tg__fail(e, TG_IO, -1, "'%s' cannot be given to user %u, whom the process belongs to: %s", r->folder, t->user,
                   strerror(errno));
  if (!err) err = t->version >= PYTHON_WITH_ITS_OWN ? ask_python(r, text, e) : tg__attach_queue(t, text, e);
  tg__out_free(&out);
  return err;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Does one of the logs end in this? NULL: is there a log? */
static bool log_says(const struct tg__cli_recording *r, const char *line) {
  struct tg__arena arena = {0};
  const char **names;
  size_t count = 0;
  bool found = false;
  if (tg__path_list(r->raw, &arena, &names, &count, NULL)) count = 0;
  for (size_t i = 0; i < count && !found; i++) {
    char last[64] = "";
    struct tg__file *f;
    if (!strstr(names[i], "/log-")) continue;
    if (!line || tg__file_open(names[i], &f, NULL)) {
      found = !line;
      continue;
    }
    const int64_t size = tg__file_size(f), len = (int64_t)strlen(line);
    if (size >= len) (void)tg__file_read_at(f, last, (size_t)len, size - len);
    found = strcmp(last, line) == 0;
    tg__file_close(f);
  }
  tg__arena_free(&arena);
  return found;
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL); }

/* Until the interpreter has come to the text. */
static enum tg_err wait_for_entry(struct tg__cli_recording *r, const struct tg__target *t, struct tg_error *e) {
  const int64_t since_ns = tg__clock_ns();
  char where[64];
  bool is_said = false;
  while (!log_says(r, NULL)) {
    const int64_t waited_ns = tg__clock_ns() - since_ns;
    if (!tg__target_lives(t)) return tg__fail(e, TG_NOT_FOUND, -1, "process %d ended before it was recorded", t->pid);
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
    nap();
  }
  return TG_OK;
}

static void request_stop(const struct tg__cli_recording *r) {
  char path[PATH_MAX + 8];
  struct tg__writer *w = NULL;
  struct tg_error ignored;
  snprintf(path, sizeof path, "%s/stop", r->folder);
  if (tg__writer_open(path, &w, &ignored) == TG_OK) (void)tg__writer_commit(w, &ignored);
}

/* Until the recording is over, or the process. */
static void wait_for_end(struct tg__cli_recording *r, const struct tg__target *t) {
  const int64_t since_ns = tg__clock_ns(), most_ns = (int64_t)(r->seconds * 1e9) + SPARE_NS;
  bool is_asked = false;
  while (!log_says(r, "\nend\n") && tg__target_lives(t)) {
    if ((is_stopped || tg__clock_ns() - since_ns > most_ns) && !is_asked) {
      request_stop(r);
      is_asked = true;
    }
    if (is_asked && tg__clock_ns() - since_ns > most_ns + SPARE_NS) break; /* what it wrote so far is whole */
    nap();
  }
  r->run_ns = tg__clock_ns() - since_ns;
}

static void remove_helpers(const struct tg__cli_recording *r) {
  static const char *const names[] = {"stop", "attach.py"};
  char path[PATH_MAX + 16];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", r->folder, names[i]);
    tg__path_remove(path);
  }
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum tg_err attach(struct tg__cli_recording *r, struct tg__target *t, struct tg_error *e) {
  enum tg_err err = tg__cli_recording_make_folder(r, e);
  if (err) return err;
  err = enter(r, t, e);
  if (!err) err = wait_for_entry(r, t, e);
  if (err) {
    tg__attach_cancel(t);
    remove_helpers(r);
    tg__cli_recording_drop_folder(r);
    return err;
  }
  tg__cli_say("attached   to process %d (%s), which stood still for at most %.2f ms; Ctrl-C ends the recording\n",
              t->pid, t->name, (double)t->stopped_ns / 1e6);
  tg__attach_forget(t);
  wait_for_end(r, t);
  remove_helpers(r);
  return TG_OK;
}

static enum tg_err check(struct tg__cli_recording *r, struct tg__target *t, struct tg_error *e) {
  const enum tg_err err = tg__target_read(r->attached, t, e);
  if (err) return err;
  r->program = t->name;
  return tg__cli_recording_find_python(r, e);
}

int tg__cmd_attach(struct tg__cli *c) {
  struct tg__cli_recording *const r = tg__arena_get(&c->arena, sizeof *r);
  struct tg_error e = {0};
  struct tg__target t;
  int64_t pid;
  if (!r) return tg__cli_no_memory(c);
  *r = (struct tg__cli_recording){.c = c};
  const int status = tg__cli_recording_options(r);
  if (status >= 0) return status;
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const struct tg__str word = {c->operands[0], (uint32_t)strlen(c->operands[0])};
  if (!tg__str_to_int(word, &pid) || pid < 1 || pid > INT32_MAX)
    return tg__cli_usage(c, NULL, "attach needs the number of a process, not '%s'; pgrep -af python lists them",
                         c->operands[0]);
  r->attached = (int)pid;
  signal(SIGINT, stop);
  signal(SIGTERM, stop);
  if (check(r, &t, &e) || attach(r, &t, &e)) return tg__cli_failed(c, &e, NULL);
  tg__cli_recording_conclude(r);
  return r->packed ? TG__EXIT_OK : tg_err_status(TG_NO_EVENTS);
}
