/* How busy others kept the machine while a rank was recorded: what the thread of its steps waited for a core, and how
 * many cores other processes used. */
#include "analyze/overview/steps.h"

#include <math.h>

/* A thread that waits longer than that for a core is on a machine that others keep busy; and so is a process where
 * others leave less than half a core beside what it uses itself, but for what runs on any machine. */
static const double WAIT_PCT = 5, LEAST_FOREIGN = 0.25, LEAST_FREE = 0.5;

int64_t tg__own_length(const struct tg__step_cost *s) {
  const int64_t total = s->end_ns - s->start_ns;
  return s->core_wait_ns == TG_NULL_INT ? total : s->core_wait_ns < total ? total - s->core_wait_ns : 0;
}

static double core_wait_pct(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b) {
  double wait_ns = 0, all_ns = 0;
  int64_t noted_pct;
  for (size_t i = 0; i < b->count; i++) {
    if (b->steps[i].core_wait_ns == TG_NULL_INT) continue;
    wait_ns += (double)b->steps[i].core_wait_ns;
    all_ns += (double)(b->steps[i].host_end_ns - b->steps[i].host_start_ns);
  }
  if (all_ns > 0) return 100 * wait_ns / all_ns;
  return tg__str_to_int(tg__document_member(t, rank, "core_wait_pct"), &noted_pct) ? (double)noted_pct : NAN;
}

/* The mean of a counter that is sampled at equal distances, in cores. */
static double mean_cores(const struct tg__columns *t, uint32_t rank, const char *counter) {
  const struct tg__marks *const m = &t->marks;
  const uint32_t name = m->count ? tg__strings_find(t->strings, counter, (uint32_t)strlen(counter)) : TG_NONE;
  double sum = 0;
  int64_t count = 0;
  for (uint32_t i = 0; name != TG_NONE && i < m->count; i++) {
    if (m->name[i] != name || m->ph[i] != 'C' || m->track[i] == TG_NONE || t->tracks[m->track[i]].rank != rank)
      continue;
    sum += (double)tg__arg_int(t, m->args[i], TG__K_VALUE, 0);
    count++;
  }
  return count ? sum / (double)count / 100 : NAN;
}

struct tg__noise tg__noise_of(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b) {
  struct tg__noise n = {.core_wait_pct = core_wait_pct(t, rank, b),
                        .foreign_cores = mean_cores(t, rank, "other processes CPU %")};
  const double own = mean_cores(t, rank, "process CPU %");
  int64_t cores;
  const struct tg__str conditions = tg__document_member(t, rank, "conditions");
  const bool is_known = tg__str_to_int(tg__member(conditions, "cpu_cores"), &cores);
  n.is_busy = n.core_wait_pct > WAIT_PCT ||
              (is_known && n.foreign_cores > LEAST_FOREIGN && n.foreign_cores + own > (double)cores - LEAST_FREE);
  return n;
}
