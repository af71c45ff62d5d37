/* compiles: what torch.compile compiled and left out in the process of a rank, from before the recording until
 * its end: the members compiles.PID of the document, which have dynamo's own metrics. */
#ifndef TG_COMPILES_H
#define TG_COMPILES_H

#include "analyze/analyze.h"

enum tg__compile_outcome {
  TG__COMPILE_DONE,
  TG__COMPILE_LEFT_OUT, /* the function runs as if torch.compile had not been called */
  TG__COMPILE_LIMIT     /* so do its calls that no version fits: there are as many as the limit allows */
};
struct tg__compile {
  struct tg__str id;       /* "3/1": version 1 of the fourth function */
  struct tg__str function; /* of the program; behind a break "f (behind line 12)" */
  struct tg__str file;
  int64_t line;
  struct tg__str broken_in; /* file of the line that broke the graph, or made dynamo leave the function out; empty */
  int64_t broken_at;
  struct tg__str reason; /* why it was broken, left out; empty */
  struct tg__str guard;  /* what no longer held, where a version was there already; empty */
  enum tg__compile_outcome outcome;
  bool is_again, is_backward;
  int64_t start_ns; /* on the clock of the rank; TG_NULL_INT: not known */
  /* dur_ns is the sum of the four: dynamo; the backend around Inductor, AOT Autograd above all; Inductor; making its
   * code and loading it. */
  int64_t dur_ns, dynamo_ns, backend_ns, inductor_ns, codegen_ns;
  int64_t hits, misses, operators; /* of the caches; TG_NULL_INT: not known */
};
struct tg__compiles {
  struct tg__compile *items; /* by their end */
  size_t count, cap;
  int64_t lost, lost_ns; /* compilations of which only this is known */
  struct tg__arena arena;
  bool failed;
};
/* To be closed either way; failed: no memory. */
void tg__compiles_open(const struct tg__columns *t, uint32_t rank, struct tg__compiles *out);
void tg__compiles_close(struct tg__compiles *c);
/* "file.py(12)", without the folders; buf is returned. */
const char *tg__compile_place(struct tg__str file, int64_t line, char *buf, size_t size);

#endif
