/* timed: every step that `tachograph run` timed, most of them outside the window that it recorded. */
#ifndef TG_TIMED_H
#define TG_TIMED_H

#include "diagnose/findings.h"

struct tg__timed {
  size_t count;
  int64_t *ns, *cpu_ns; /* by the clock, and of its thread on a core; of a recorded step scaled to a bare one */
  bool *is_recorded;
  size_t warm;              /* so many at the start are more than twice as long as usual */
  int64_t usual_ns, sum_ns; /* of the steps behind those */
  /* Long steps at equal distances; period 0: there are none. */
  size_t period, first_long, long_count, slot_count; /* slots: steps that would be long ones and were seen */
  int64_t excess_ns, longest_ns, longest_cpu_ns;     /* excess: by which they are too long */
};
/* false: there are none, or memory has run out, which f says. In the scratch memory of f. */
bool tg__timed_read(struct tg__facts *f, struct tg__timed *out);
bool tg__timed_is_slot(const struct tg__timed *s, int64_t number); /* of a step: one of the period's */
/* The line of the program in which most long steps were seen, where they were looked at; empty. */
struct tg__str tg__timed_place(const struct tg__facts *f, const struct tg__timed *s);
/* Warm-up, steps that become longer and longer, steps of two kinds. */
void tg__note_timed(struct tg__facts *f, struct tg_table *out);

#endif
