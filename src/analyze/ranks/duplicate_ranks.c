/* duplicate_ranks: several files that say they are one and the same rank. */
#include "analyze/analyze.h"

#include <stdio.h>

/* What a reader of the folder would call it. */
static struct tg__str name_below(const struct tg__columns *t, struct tg__str path) {
  const size_t len = t->path ? strlen(t->path) : 0;
  const bool below = len && path.len > len && memcmp(path.ptr, t->path, len) == 0 &&
                     (path.ptr[len] == '/' || path.ptr[len - 1] == '/');
  const uint32_t skip = below ? (uint32_t)len + (path.ptr[len] == '/') : 0;
  return (struct tg__str){path.ptr + skip, path.len - skip};
}

/* The smallest number that several files say is theirs, of all or of one; TG_NULL_INT: none. *more: how many numbers
 * there are beside it. */
static int64_t find_duplicate_ranks(const struct tg__columns *t, int64_t rank, int64_t *more) {
  struct tg__map times = {0};
  int64_t least = TG_NULL_INT;
  *more = -1;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    const int64_t number = t->ranks[r].number;
    if (!t->ranks[r].number_is_given || (rank != TG_NULL_INT && number != rank)) continue;
    uint32_t *const seen = tg__map_slot(&times, (uint64_t)number, 0);
    if (!seen) break; /* no memory: what follows will say so */
    if (++*seen != 2) continue;
    ++*more;
    if (least == TG_NULL_INT || number < least) least = number;
  }
  tg__map_free(&times);
  return least;
}

int64_t tg__duplicate_rank(const struct tg__columns *t) {
  int64_t more;
  return find_duplicate_ranks(t, TG_NULL_INT, &more);
}

void tg__table_note_duplicate_ranks(struct tg_table *out, const struct tg__columns *t, const char *side, int64_t rank) {
  enum { MOST = 4 };
  int64_t more;
  const int64_t number = find_duplicate_ranks(t, rank, &more);
  struct tg__out files = {0};
  unsigned count = 0;
  for (uint32_t r = 0; number != TG_NULL_INT && r < t->rank_count; r++) {
    if (t->ranks[r].number != number || ++count > MOST) continue;
    const struct tg__str name = name_below(t, tg__name(t, t->ranks[r].path));
    tg__out_format(&files, "%s%.*s", count > 1 ? ", " : "", (int)name.len, name.ptr);
  }
  char others[64] = "";
  if (more > 0)
    snprintf(others, sizeof others, " (so it is with %lld more rank%s)", (long long)more, more == 1 ? "" : "s");
  tg__out_text(&files, count > MOST ? ", \u2026" : "");
  tg__out_char(&files, 0);
  if (files.err)
    out->failed = true;
  else if (count)
    tg__table_note(out, "%s%u files say that they are rank %lld%s, and %s: %s", side, count, (long long)number, others,
                   rank == TG_NULL_INT ? "each is counted as a rank of its own" : "this is only the first of them",
                   files.buf);
  tg__out_free(&files);
}
