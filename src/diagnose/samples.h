/* samples: what the thread of the loop does in stretches without an operator, as the recorder sampled it. */
#ifndef TG_SAMPLES_H
#define TG_SAMPLES_H

#include "diagnose/findings.h"

enum tg__doing {
  TG__DOING_COMPUTE,
  TG__DOING_SLEEP,
  TG__DOING_LOCK, /* or a queue between threads */
  TG__DOING_SOCKET,
  TG__DOING_PIPE,
  TG__DOING_DISK,
  TG__DOING_SUBPROCESS,
  TG__DOING_WAIT, /* for something else */
  TG__DOING_COUNT
};

struct tg__sampled {
  int64_t ns, cpu_ns; /* of the samples, inside the stretches; of it on a core */
  int64_t doing_ns[TG__DOING_COUNT];
  int64_t receiving_ns; /* waiting, while a tensor of another process is handed over that has made it already */
  enum tg__doing most;
  struct tg__str frame; /* of the program: in the function with most of the time, the line with most */
  int64_t function_ns;  /* of that function */
  size_t count;
  bool is_known; /* samples enough to speak of the place */
};
/* when: joined. */
void tg__sample_stretches(const struct tg__facts *f, const struct tg__spans *when, struct tg__sampled *out);
/* The same of the worker processes during the steps, but for waiting for something to do. is_known: samples enough to
 * say what most of it is. */
void tg__sample_workers(const struct tg__facts *f, struct tg__sampled *out);
/* What a call of C from Python does, by its name as recorded: "<built-in function sleep>". */
enum tg__doing tg__doing_of_call(struct tg__str frame);
const char *tg__doing_words(enum tg__doing doing);      /* "sleeps" */
const char *tg__doing_of_several(enum tg__doing doing); /* "sleep" */
const char *tg__doing_advice(enum tg__doing doing);     /* what to do instead */

#endif
