/* run_recording: the folder of a recording that `run` and `attach` make, what the processes in it go by, and what is
 * done and said when they have ended. */
#ifndef TG_CLI_RUN_RECORDING_H
#define TG_CLI_RUN_RECORDING_H

#include "cli/cli.h"
#include "cli/run_log.h"

#include <limits.h>

struct tg__cli_recording {
  struct tg__cli *c;
  char python[PATH_MAX], package[PATH_MAX];
  char folder[PATH_MAX], raw[PATH_MAX + 8], file[PATH_MAX + 16];
  const char *program; /* what is run, to be named after */
  const char **argv;   /* ends with NULL */
  const char *preset;
  int64_t steps, bytes, memory;
  double seconds;
  int attached;                 /* the process that was attached to, 0 = it was started */
  int status;                   /* of the program */
  int64_t run_ns;               /* from its start to its end */
  bool output_aside;            /* the program's output goes to standard error */
  bool packed;                  /* `file` is there */
  int64_t overwritten, no_room; /* records that are not in it */
};

/* Preset, steps, seconds, bytes and memory from the options. -1 to go on, else the exit status. */
int tg__cli_recording_options(struct tg__cli_recording *r);
/* The Python that has our package: the one of the console command that called us, else python3. */
enum tg_err tg__cli_recording_find_python(struct tg__cli_recording *r, struct tg_error *e);
/* A new folder named after the program and the time, or the one of -o. */
enum tg_err tg__cli_recording_make_folder(struct tg__cli_recording *r, struct tg_error *e);
void tg__cli_recording_drop_folder(const struct tg__cli_recording *r); /* nothing was put into it */
/* What the recorded processes go by, as JSON, in `out`. NULL: no memory. */
const char *tg__cli_recording_settings(struct tg__cli_recording *r, struct tg__out *out);
/* Pack what was recorded, report it, and show it where that was asked for. */
void tg__cli_recording_conclude(struct tg__cli_recording *r);
/* cmd_run.c: start the operands as a program, and record it as the options say. The strings in *out live as long as
 * c; file: the recording, NULL without one. The exit status of the program, or ours. */
struct tg__cli_recorded {
  const char *file;
  const char **argv; /* of the program; ends with NULL */
};
int tg__cli_record(struct tg__cli *c, struct tg__cli_recorded *out);
/* The same for a command that has options of its own and prints its answer: the recording goes by the options given,
 * the program's output to standard error. TG__EXIT_OK where there is a recording, whatever the program ended with. */
int tg__cli_record_first(struct tg__cli *c, struct tg__cli_recorded *out);

#endif
