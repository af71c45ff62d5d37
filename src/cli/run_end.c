/* run_end: after a recording: one packed file, a report, what the recording cost, and what went wrong. */
#include "cli/run_recording.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { STOPPED_BY_SIGNAL = 128 };

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
static void leave_nothing(struct tg__cli_recording *r, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) tg__path_remove(names[i]);
  tg__path_remove(r->raw);
  tg__path_remove(r->folder); /* unless there is something else in it */
}

static void count_lost(struct tg__cli_recording *r, const struct tg_trace *t) {
  r->overwritten = tg_loss_count(t, "skipped_overwritten");
  r->no_room = tg_loss_count(t, "skipped_no_room");
}

/* What was compiled behind the window, or in a process that was killed; a recording has the rest. */
static void note_compiles(const struct tg__run_log *log, struct tg_trace *t) {
  char key[64];
  struct tg__out member = {0};
  if (!log->compiles.len) return;
  snprintf(key, sizeof key, "compiles.%lld.later", (long long)log->step_pid);
  tg__out_text(&member, "{\"rows\":[");
  tg__out_bytes(&member, log->compiles.buf + 1, log->compiles.len - 1);
  tg__out_bytes(&member, "]}", 3);
  if (!member.err && !log->compiles.err) (void)tg_add_member(t, key, member.buf);
  tg__out_free(&member);
}

static void note_run(const struct tg__cli_recording *r, struct tg__run_log *log, struct tg_trace *t) {
  struct tg__out facts = {0};
  tg__run_log_facts(log, r->status, r->run_ns, &facts);
  if (!facts.err) (void)tg_add_member(t, "run", facts.buf);
  tg__out_free(&facts);
}

/* Everything that was recorded becomes one packed file; the raw files go when it is written. */
static enum tg_err pack_recording(struct tg__cli_recording *r, struct tg__run_log *log, struct tg_error *e) {
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
  if (!err) tg_add_cpu_peak(trace);                  /* the program has ended; roofline needs it */
  if (!err && !r->attached) note_run(r, log, trace); /* how it ends is not known */
  if (!err) note_compiles(log, trace);
  if (!err) err = tg_save(trace, r->file, e);
  r->packed = !err;
  for (size_t i = 0; r->packed && i < count; i++) tg__path_remove(names[i]);
  if (r->packed) tg__path_remove(r->raw);
  tg_close(trace);
  tg__arena_free(&arena);
  return err;
}

static bool to_stderr(void *ctx, const char *bytes, size_t len) {
  tg__work_end(); /* its line must not stand in the output */
  return fwrite(bytes, 1, len, stderr) == len;
}

/* Two digits that matter, without an exponent. */
static const char *two_digits(double x, char out[32]) {
  snprintf(out, 32, x >= 10 ? "%.0f" : "%.2g", x);
  return out;
}

static void print_price(const struct tg__run_log *log, const struct tg__price *p) {
  char mean[32], low[32], high[32], least[32], most[32];
  if (isnan(p->cost.percent))
    fputs("what recording\n           adds to a step's CPU time could not be measured here: too few steps to compare\n",
          stderr);
  else if (p->by_records)
    fprintf(stderr,
            "recording\n           adds about %s %% to a step's CPU time (%s to %s %%: %.0f records of %s to "
            "%s us)\n",
            two_digits(p->cost.percent, mean), two_digits(p->cost.low, low), two_digits(p->cost.high, high), p->records,
            two_digits(log->record_least_ns / 1e3, least), two_digits(log->record_most_ns / 1e3, most));
  else if (p->cost.percent <= 0) /* it makes no step shorter */
    fprintf(stderr,
            "what recording\n           adds to a step's CPU time is less than the noise (95 %% interval %+.1f to "
            "%+.1f %%)\n",
            p->cost.low, p->cost.high);
  else
    fprintf(stderr, "recording\n           adds %.1f %% to a step's CPU time (95 %% interval %+.1f to %+.1f)\n",
            p->cost.percent, p->cost.low, p->cost.high);
}

static void print_overhead(struct tg__run_log *log) {
  const struct tg__median with = tg__overhead_median(log->with.ns, log->with.count);
  const struct tg__median without = tg__overhead_median(log->without.ns, log->without.count);
  const struct tg__price price = tg__run_log_price(log);
  char a[32], b[32], first[80] = "";
  if (!log->window_began) return;
  if (with.median < 0 || without.median < 0) {
    fprintf(stderr, "overhead   could not be measured here: %zu step%s ran with recording and %zu without\n",
            log->with.count, log->with.count == 1 ? "" : "s", log->without.count);
    return;
  }
  if (log->slow_first_step_ns >= 0)
    snprintf(first, sizeof first, " the first recorded step,\n           %s, is left out;",
             tg__human_ns(log->slow_first_step_ns, a));
  fprintf(stderr, "overhead   a step took %s while recorded (n = %zu), %s otherwise (n = %zu);%s ",
          tg__human_ns(with.median, a), log->with.count, tg__human_ns(without.median, b), log->without.count, first);
  print_price(log, &price);
}

/* Ctrl-C once more, when the program has ended and what it recorded is being packed or read: what there is, and how to
 * read it. Made before the signal comes. */
static char when_stopped[2 * PATH_MAX + 80];

static void say_and_stop(int number) {
  const ssize_t said = write(STDERR_FILENO, when_stopped, strlen(when_stopped));
  (void)said; /* there is no one to inform */
  _exit(STOPPED_BY_SIGNAL + number);
}

static void watch_for_stop(const struct tg__cli_recording *r) {
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

static void print_what(const struct tg__cli_recording *r, const struct tg__run_log *log) {
  char count[32], process[64] = "";
  if (log->step_processes > 1) snprintf(process, sizeof process, " in process %lld", (long long)log->step_pid);
  if (log->window_began && log->first_step >= 0)
    fprintf(stderr, "recorded   steps %lld to %lld of %lld%s (%s), %s preset\n", (long long)log->first_step,
            (long long)log->last_step, (long long)log->steps, process, log->source, r->preset);
  else if (r->attached)
    fprintf(stderr, "recorded   %.1f s of process %d, %s preset: no steps were found\n", (double)r->run_ns / 1e9,
            r->attached, r->preset);
  else if (*log->source)
    fprintf(stderr, "recorded   the first steps of %lld%s (%s): the program ended before steady steps were recorded\n",
            (long long)log->steps, process, log->source);
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
static const char *explain_nothing(const struct tg__cli_recording *r, const struct tg__run_log *log) {
  if (r->attached) return log->note_count ? log->notes[0] : "the process ended before anything was recorded";
  if (!log->pythons)
    return "no Python that can be recorded was started: it ran with -I, -S or -E or without our environment, or the "
           "program is not Python";
  if (!log->processes) return "the program never imported torch, so there was nothing to record";
  return "the program ended before anything was recorded";
}

static void print_end(struct tg__cli_recording *r, struct tg__run_log *log, const struct tg_error *e) {
  struct tg_error ignored;
  struct tg_trace *trace = NULL;
  fputs("\n", stderr);
  if (r->packed && tg_open(r->file, NULL, &trace, &ignored) == TG_OK) {
    const bool color = tg__is_terminal(STDERR_FILENO) && !tg__getenv("NO_COLOR");
    tg__work_begin("making the report");
    tg_report(trace, "text", tg__terminal_width(STDERR_FILENO), color, to_stderr, NULL, &ignored);
    tg__work_end();
    fputs("\n", stderr);
    print_what(r, log);
    print_overhead(log);
  } else if (e->code == TG_NO_EVENTS) {
    fprintf(stderr, "tachograph: %s\n", explain_nothing(r, log));
  } else {
    tg__cli_say("tachograph: the recording could not be packed: %s\n", e->text);
  }
  tg_close(trace);
  if (r->packed || !r->attached) print_notes(log); /* else it is the reason */
  if (r->packed)
    tg__cli_say("file       %s\n", r->file);
  else if (tg__path_kind(r->raw) == TG__PATH_DIR)
    tg__cli_say("files      %s, to be read with: tachograph report %s\n", r->raw, tg__cli_word(r->c, r->folder));
}

/* What to change first, when the recording could be read. */
static void put_findings(const struct tg__cli_recording *r, int64_t step_ns, struct tg__out *out) {
  struct tg_error ignored;
  struct tg_trace *trace = NULL;
  if (r->packed && tg_open(r->file, NULL, &trace, &ignored) == TG_OK) {
    struct tg__out members = {0};
    if (tg__findings_json(trace, step_ns >= 0 ? (double)step_ns : NAN, &members, &ignored) == TG_OK) {
      tg__out_text(out, ",\n");
      tg__out_bytes(out, members.buf, members.len);
    }
    tg__out_free(&members);
  }
  tg_close(trace);
}

/* The same as one JSON object on standard output; the program's own output went to standard error. */
static void print_json(struct tg__cli_recording *r, struct tg__run_log *log) {
  struct tg__out out = {0};
  struct tg__jsonw w = {.out = &out};
  const struct tg__median with = tg__overhead_median(log->with.ns, log->with.count);
  const struct tg__median without = tg__overhead_median(log->without.ns, log->without.count);
  const struct tg__overhead cost = tg__run_log_price(log).cost;
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
  tg__json_int(&w, (int64_t)log->with.count + (log->slow_first_step_ns >= 0));
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

void tg__cli_recording_conclude(struct tg__cli_recording *r) {
  struct tg__run_log log;
  struct tg_error e = {0};
  watch_for_stop(r);
  tg__run_log_read(&log, r->raw);
  (void)pack_recording(r, &log, &e);
  print_end(r, &log, &e);
  if (tg__cli_wants_json(r->c)) print_json(r, &log);
  tg__run_log_free(&log);
  fflush(stdout);
  const char *const file = r->file;
  if (r->packed && tg__cli_setting(r->c, "view")) tg__cli_serve(r->c, &file, 1, 0, 0);
}
