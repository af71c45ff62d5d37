/* How a run went, as its recording keeps it: the end of the program, and its steps outside the window, of which
 * nothing but the time is known. */
#include "cli/run_log.h"
#include "tachograph/read.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { STOPPED_BY_SIGNAL = 128 };

static const char *signal_name(int number) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGSEGV, "SIGSEGV"},
               {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGHUP, "SIGHUP"}, {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},   {SIGPIPE, "SIGPIPE"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].number == number) return names[i].name;
  return NULL;
}

static void put_count(struct tg__jsonw *w, const char *key, int64_t value) {
  if (value < 0) return;
  tg__json_key(w, key);
  tg__json_int(w, value);
}

/* "exit status 1: ValueError: no rows (train.py:12)" */
static void put_ending(struct tg__jsonw *w, const struct tg__run_log *log, int status) {
  const int number = status > STOPPED_BY_SIGNAL ? status - STOPPED_BY_SIGNAL : 0;
  const char *const name = signal_name(number);
  char text[sizeof log->exception + 64];
  const int n = name ? snprintf(text, sizeof text, "stopped by signal %d (%s)", number, name)
                     : snprintf(text, sizeof text, "exit status %d", status);
  if (*log->exception) snprintf(text + n, sizeof text - (size_t)n, ": %s", log->exception);
  tg__json_key(w, "ended");
  tg__json_cstr(w, text);
}

/* In ns of a step: what recording adds, and between which that is. */
static void put_price(struct tg__jsonw *w, struct tg__run_log *log) {
  const struct tg__price p = tg__run_log_price(log);
  const double parts[] = {p.cost.percent, p.cost.low, p.cost.high};
  static const char *const keys[] = {"recording_adds_ns", "recording_adds_low_ns", "recording_adds_high_ns"};
  for (size_t i = 0; i < 3 && !isnan(p.cost.percent); i++) {
    tg__json_key(w, keys[i]);
    tg__json_int(w, (int64_t)llround(parts[i] / 100 * (double)p.bare_ns));
  }
}

static void put_steps(struct tg__jsonw *w, const char *steps, const char *median, struct tg__raw_session_steps *s) {
  put_count(w, steps, (int64_t)s->count);
  put_count(w, median, tg__overhead_median(s->ns, s->count).median);
}

/* Of each step the time by the clock, that on a core, and whether it was recorded: what findings judge of the steps
 * outside the window. Behind them the long ones with their stacks. */
static void put_timed(struct tg__jsonw *w, const struct tg__run_log *log) {
  tg__json_key(w, "timed");
  tg__json_open(w, '[');
  for (size_t i = 0; i < log->timed_count; i++) {
    tg__json_int(w, log->timed[i].ns);
    tg__json_int(w, log->timed[i].cpu_ns);
    tg__json_int(w, log->timed[i].is_recorded);
  }
  tg__json_close(w, ']');
  tg__json_key(w, "long_steps");
  tg__json_open(w, '[');
  for (size_t i = 0; i < log->long_count; i++) {
    tg__json_int(w, log->longer[i].number);
    tg__json_cstr(w, log->longer[i].stack);
  }
  tg__json_close(w, ']');
}

void tg__run_log_facts(struct tg__run_log *log, int status, int64_t run_ns, struct tg__out *out) {
  struct tg__jsonw w = {.out = out};
  tg__json_open(&w, '{');
  put_ending(&w, log, status);
  put_count(&w, "run_ns", run_ns);
  if (log->steps) {
    if (log->step_processes > 1) put_count(&w, "steps_pid", log->step_pid);
    put_count(&w, "steps_timed", log->steps);
    put_count(&w, "first_recorded_step", log->first_step);
    put_count(&w, "last_recorded_step", log->last_step);
    put_steps(&w, "steps_before", "step_before_ns", &log->before);
    put_count(&w, "steps_recorded", (int64_t)log->with.count + (log->slow_first_step_ns >= 0));
    put_count(&w, "step_recorded_ns", tg__overhead_median(log->with.ns, log->with.count).median);
    put_steps(&w, "steps_after", "step_after_ns", &log->after);
    put_count(&w, "steps_priced", log->probes);
    put_price(&w, log);
    put_count(&w, "slowest_step", log->slowest_step);
    put_count(&w, "slowest_step_ns", log->slowest_ns);
    put_timed(&w, log);
  }
  tg__json_close(&w, '}');
  tg__out_char(out, 0);
}
