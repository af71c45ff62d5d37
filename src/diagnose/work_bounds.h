/* work_bounds: what bounds the operators of a rank, by their sizes and the peaks of what they run on. */
#ifndef TG_WORK_BOUNDS_H
#define TG_WORK_BOUNDS_H

#include "diagnose/findings.h"

struct tg__work_bounds {
  bool is_known;           /* operators say what they were given, and the peaks are known */
  double intensity, ridge; /* FLOP/B, of all operators with known work, and of what they run on; NaN */
  double memory_part;      /* of the operators' time in work that memory bounds, and near its bandwidth: 0 to 1 */
  double bytes_per_s;      /* of that work */
  double rows_part;        /* of the operators' time in products of few rows with a weight, as decoding has them */
  double rows_bytes;       /* that these read and write, in all */
  int64_t rows;            /* of the product among them with most bytes */
  char why_not[120];       /* where it is not known */
};
void tg__bound_work(struct tg__facts *f, struct tg__work_bounds *out);
/* Adds what products of few rows read for each row, a token; nothing where they are no tenth of the time. */
void tg__say_rows(const struct tg__facts *f, const struct tg__work_bounds *w, char *text, size_t size);
/* A question with its arguments, as a cell. */
void tg__put_question(const struct tg__facts *f, enum tg__question_id id, const char *words, struct tg_table *out);

#endif
