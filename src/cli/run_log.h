/* What the recorded processes said about themselves: raw/log-PID, written line by line by
 * python/tachograph/_launch/session.py. */
#ifndef TG_CLI_RUN_LOG_H
#define TG_CLI_RUN_LOG_H

#include "base/base.h"
#include "cli/overhead.h"

enum { TG__RUN_NOTES = 8, TG__TIMED_MOST = 50000, TG__LONG_MOST = 64 };
struct tg__raw_session_steps {
  int64_t *ns;
  size_t count, cap;
};
struct tg__timed_step {
  int64_t ns, cpu_ns; /* by the clock, and of its thread on a core */
  bool is_recorded;   /* and takes longer for it */
};
struct tg__long_step {
  int64_t number;
  char *stack; /* in the middle of it */
};
struct tg__run_log {
  size_t pythons, processes; /* Python processes that said hello; those that had torch and were recorded */
  char source[64];           /* how steps were found, "" = none were */
  char recorder[32];
  /* durations of steps, of the first process in the list that has a recorded window */
  struct tg__raw_session_steps with, without;
  /* CPU time of the thread in them: other work of the machine does not count */
  struct tg__raw_session_steps cpu_with, cpu_without;
  /* CPU time of neighbouring blocks: how much longer a step is with recording, and how long it is without */
  struct tg__raw_session_steps pair_extra, pair_bare;
  double record_least_ns, record_most_ns;     /* what one record costs; 0 = not known, as the pairs are enough */
  int64_t window_records;                     /* in the window of the process that had the steps */
  struct tg__raw_session_steps before, after; /* of `without`, those before the window, and all after it */
  size_t step_processes;                      /* that had steps */
  int64_t step_pid;                           /* the process that had these steps */
  int64_t slowest_step, slowest_ns;           /* of all that were timed; -1 = none */
  char exception[512];                        /* what ended the program, with its line; "" = nothing did */
  int64_t first_step, last_step;              /* recorded ones, by number; -1 = none */
  int64_t steps;                              /* seen in that process */
  int64_t probes;                             /* of those, the ones behind the window that only priced the recording */
  /* the first recorded step, where it takes far longer than those after it and is not in `with`; -1 = it is in
   * `with` */
  int64_t slow_first_step_ns;
  int64_t lost; /* records, in all processes */
  /* Pythons that were started with an option or an environment in which they cannot be recorded */
  int64_t bare_option, bare_environment;
  bool window_began;
  /* in the order they ran, TG__TIMED_MOST at most; of the process that had the steps */
  struct tg__timed_step *timed;
  size_t timed_count, timed_cap;
  struct tg__long_step longer[TG__LONG_MOST];
  size_t long_count;
  struct tg__out compiles;        /* of that process: rows of compiles.PID, a comma before each */
  char notes[TG__RUN_NOTES][256]; /* each once */
  size_t note_count;
};
/* Read the logs of a raw folder. A log that cannot be read is skipped. false: no memory. */
bool tg__run_log_read(struct tg__run_log *log, const char *raw_folder);
/* Adds a note, unless it is there already or there are too many. */
void tg__run_log_note(struct tg__run_log *log, const char *text);
void tg__run_log_free(struct tg__run_log *log);
/* The CPU time that recording adds to a step's thread: other work of the machine does not count. All NaN: unknown.
 * run_price.c. */
struct tg__price {
  struct tg__overhead cost;
  int64_t bare_ns; /* CPU time of a step that is not recorded: what the percents are of */
  bool by_records; /* the number of records times what one costs; low and high: the least and the most of that */
  double records;  /* of a step */
};
struct tg__price tg__run_log_price(struct tg__run_log *log);
/* How the run went as one JSON object, for the recording's document and the question overview: run_facts.c. `out` ends
 * with a zero byte. status: of the program; run_ns: from its start to its end. */
void tg__run_log_facts(struct tg__run_log *log, int status, int64_t run_ns, struct tg__out *out);

#endif
