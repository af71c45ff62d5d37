/* diagnosis: what the parts of the question diagnosis share. */
#ifndef TG_DIAGNOSIS_H
#define TG_DIAGNOSIS_H

#include "diagnose/work_bounds.h"

struct tg__diagnosis {
  struct tg__facts *f;
  struct tg_table *out;
  char kind[40], kind_next[160]; /* the bottleneck, and the command that looks into it; empty: none */
  char change_next[200];         /* the command of the first change; empty: none */
  char kernel[200];              /* that takes most time; empty: none was recorded */
  int64_t kernel_calls;
  char ask[200];          /* see tg__say_ask */
  double low_ns, high_ns; /* of the next row: eight of ten such values lie between; NaN: unknown */
  const char *where;      /* of the next row; NULL: unknown */
};

/* ns, share_pct: NaN: unknown. evidence, command (what to type next): NULL: unknown. */
void tg__put_diagnosis(struct tg__diagnosis *d, const char *part, const char *level, const char *item, double ns,
                       double share_pct, const char *evidence, const char *command);
/* The command that asks a question, until the next one. */
const char *tg__say_ask(struct tg__diagnosis *d, enum tg__question_id id, const char *words);
/* A text cell, which ends with a zero byte and lives as long as the table's strings do not grow; "" where unknown. */
const char *tg__fact_cstr(const struct tg_table *t, size_t row, const char *column);

void tg__put_components(struct tg__diagnosis *d);
void tg__put_operations(struct tg__diagnosis *d);
void tg__put_measures(struct tg__diagnosis *d);

/* Two kinds of steps: cut where both parts are narrowest, is the distance of the means more than the width of the
 * parts? The rule of tachograph.timing. sorted: rising; low, high: the means. */
enum { MODE_OF = 10, LEAST_FOR_MODES = 6, MOST_FOR_MODES = 4096, GAP_OF_MODES = 5 };
#define LEAST_GAP 0.1
bool tg__two_modes(const int64_t *sorted, size_t n, double *low, double *high);

#endif
