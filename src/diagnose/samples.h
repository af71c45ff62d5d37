/* samples: what the thread of the loop does in stretches without an operator, as the recorder sampled it, and what
 * others do meanwhile. */
#ifndef TG_SAMPLES_H
#define TG_SAMPLES_H

#include "diagnose/findings.h"

enum tg__doing {
  TG__DOING_COMPUTE,
  TG__DOING_SLEEP,
  TG__DOING_LOCK, /* or a queue between threads */
  TG__DOING_GIL,
  TG__DOING_READY, /* it could go on, and has no core */
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
struct tg__sample {
  /* 0: that of the loop, for the length of the slice; else another one, at this moment, in which the loop stands: it
   * waits for a lock, the GIL or a core */
  int64_t thread;
  enum tg__doing doing;
  struct tg__str stack, frame; /* frame: of the program, innermost; empty: none */
  bool is_there;               /* it is in that frame itself, and in no function of a library that is called there */
};
/* Those of the loop's process in the window of the steps, by time. */
typedef void tg__sample_visitor(void *ctx, uint32_t slice, const struct tg__sample *s);
void tg__each_sample(const struct tg__facts *f, tg__sample_visitor *see, void *ctx);
/* Of the window of the steps, when no operator, call or data loader is on, and no device works: joined. As of
 * tg__new_spans. */
struct tg__spans *tg__bare_spans(struct tg__facts *f);
/* Lines of the program with the time that was seen there. Begin with zeros. */
enum { TG__LINES = 64 };
struct tg__line {
  struct tg__str frame, file, function;
  int64_t ns;
};
struct tg__lines {
  struct tg__line items[TG__LINES];
  size_t count;
};
void tg__lines_add(struct tg__lines *p, struct tg__str frame, int64_t ns);
/* The function with most of the time, at its line with most; empty: none. *function_ns: of that function. */
struct tg__str tg__lines_most(const struct tg__lines *p, int64_t *function_ns);
/* What a call of C from Python does, by its name as recorded: "<built-in function sleep>". */
enum tg__doing tg__doing_of_call(struct tg__str frame);
const char *tg__doing_words(enum tg__doing doing);      /* "sleeps" */
const char *tg__doing_of_several(enum tg__doing doing); /* "sleep" */
const char *tg__doing_advice(enum tg__doing doing);     /* what to do instead */

#endif
