/* A collector of Intel's ITT, for the tests: writes tasks, a line each, to the file ITT_TOOL_FILE. The static part of
 * ITT asks a collector for functions by name. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct id {
  unsigned long long d1, d2, d3;
};
struct domain {
  volatile int flags;
  const char *name_a;
  void *name_w;
  int extra1;
  void *extra2;
  struct domain *next;
};
struct text {
  const char *a;
  void *w;
  int extra1;
  void *extra2;
  struct text *next;
};

static FILE *file(void) {
  static FILE *opened;
  if (!opened) opened = fopen(getenv("ITT_TOOL_FILE"), "w");
  if (opened) setvbuf(opened, NULL, _IOLBF, 0);
  return opened;
}

/* Its presence says that this is no collector of the first interface, of which no task is asked. */
const char *__itt_api_version(void) { return "stand-in"; }

struct domain *__itt_domain_create(const char *name) {
  struct domain *const d = calloc(1, sizeof *d);
  *d = (struct domain){.flags = 1, .name_a = name};
  return d;
}
struct text *__itt_string_handle_create(const char *name) {
  struct text *const t = calloc(1, sizeof *t);
  char *copy = NULL;
  if (asprintf(&copy, "%s", name) < 0) return NULL;
  t->a = copy;
  return t;
}
void __itt_task_begin(const struct domain *d, struct id id, struct id parent, struct text *name) {
  fprintf(file(), "push %s %s\n", d->name_a, name->a);
}
void __itt_task_end(const struct domain *d) { fprintf(file(), "pop %s\n", d->name_a); }
