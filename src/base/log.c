/* The log hook: silent until a program asks for lines. */
#include "base/base.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* Function before context when clearing, context before function when setting: a line never meets the wrong pair as long as
 * tg__log_to is called before the threads that log start, which is how it is meant to be used. */
static _Atomic(tg__log_fn *) log_fn;
static _Atomic(void *) log_ctx;

void tg__log_to(tg__log_fn *fn, void *ctx) {
  atomic_store(&log_fn, NULL);
  atomic_store(&log_ctx, ctx);
  atomic_store(&log_fn, fn);
}

void tg__log(const char *format, ...) {
  tg__log_fn *fn = atomic_load(&log_fn);
  if (!fn) return;
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  fn(atomic_load(&log_ctx), line);
}
