/* The nearest of several words, for "did you mean", and a list of them. */
#include "base/base.h"

#include <stdio.h>

/* Letters to insert, drop, replace or swap with the neighbour to turn one word into the other, without regard to
 * case. Words are cut at 31 letters: this only feeds "did you mean". */
static unsigned edit_distance(const char *a, const char *b) {
  enum { MOST = 31 };
  unsigned rows[3][MOST + 1];
  const size_t a_len = strnlen(a, MOST), b_len = strnlen(b, MOST);
  for (size_t j = 0; j <= b_len; j++) rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= a_len; i++) {
    unsigned *row = rows[i % 3];
    const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_len; j++) {
      unsigned best = above[j - 1] + ((a[i - 1] | 32) != (b[j - 1] | 32));
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best)
        best = two_above[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[a_len % 3][b_len];
}

const char *tg__nearest_text(const char *wanted, const char *(*candidate)(const void *ctx, size_t k), const void *ctx) {
  const char *nearest = NULL;
  unsigned best = (unsigned)strnlen(wanted, 31) / 3 + 2; /* more letters away than this is another word */
  const char *text;
  for (size_t k = 0; (text = candidate(ctx, k)) != NULL; k++) {
    const bool extends = *wanted && strncmp(text, wanted, strlen(wanted)) == 0; /* typed only the beginning */
    const unsigned distance = extends ? 1 : edit_distance(wanted, text);
    if (distance < best) {
      best = distance;
      nearest = text;
    }
  }
  return nearest;
}

void tg__list_name(char *list, size_t size, const char *name) {
  static const char more[] = ", \xe2\x80\xa6";
  const size_t len = strlen(list);
  if (tg__str_has_suffix((struct tg__str){list, (uint32_t)len}, more)) return;
  if (len + strlen(name) + 2 + sizeof more <= size)
    snprintf(list + len, size - len, "%s%s", len ? ", " : "", name);
  else
    snprintf(list + len, size - len, "%s", more);
}
