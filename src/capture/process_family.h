/* process_family: the CPU time of the processes that this one started, and of those that these started: of the living,
 * and of those that ended meanwhile. Their CPU time is the program's own, and no other program's.
 *
 * A living process is read in /proc. One that ended and was waited for is in the CPU time of children of the process
 * that waited, which holds what was seen of it alive as well. */
#ifndef TG_PROCESS_FAMILY_H
#define TG_PROCESS_FAMILY_H

#include "base/base.h"

enum { TG__FAMILY_MOST = 256 };

struct tg__relative {
  int64_t pid;
  uint64_t start;     /* sets apart two processes of the same number */
  uint64_t cpu_ns;    /* of its own */
  uint64_t reaped_ns; /* of its children that ended and that it waited for */
};
struct tg__family {
  struct tg__relative known[TG__FAMILY_MOST]; /* as they were seen last */
  size_t count;
  uint64_t reaped_ns; /* of this process: of its children that ended */
  uint64_t used_ns;   /* by all of them since the family was set to zero, but for what the first look found */
};

/* What all of them used since the last look goes to used_ns. now: the living. */
void tg__family_add(struct tg__family *f, const struct tg__relative *now, size_t count, uint64_t reaped_ns);
/* Looks at the living and the ended. false: what they use cannot be known: /proc cannot be read, or there are more than
 * TG__FAMILY_MOST. Where this process has no children it takes one system call, else it reads a file for each process
 * of the machine. */
bool tg__family_look(struct tg__family *f);
/* The words of /proc/PID/stat behind the name; false where they are not. ticks: of the system, a second. */
bool tg__relative_parse(const char *stat, uint64_t ticks, struct tg__relative *out, int64_t *parent);

#endif
