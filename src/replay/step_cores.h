/* step_cores: what the cores of the machine allow, private to this folder. */
#ifndef TG_STEP_CORES_H
#define TG_STEP_CORES_H

#include "replay/step_graph.h"

/* What the thread of the steps was on a core in all of them; -1: not known. */
int64_t tg__replay_loop_cpu_ns(const struct tg__replay_graph *g);
/* The program's threads and worker processes were on cores for so long in all steps, at least; 0: not known. Work that
 * torch itself shares among threads does not count: it ends with the operator that it is of. */
int64_t tg__replay_cpu_ns(const struct tg__replay_graph *g);
/* Where all steps together are shorter than the cores allow, each saves the same part of what it would. gone_ns: of the
 * time on cores, what the change takes away in all steps. */
void tg__replay_hold_to_cores(const struct tg__replay_graph *g, int64_t gone_ns, const int64_t *before_ns,
                              int64_t *after_ns);

#endif
