/* search: slices by their names. A name is looked at once, then one pass over the slices counts, and keeps the hits
 * that come first. */
#include <regex.h>
#include <stdlib.h>

#include "view/view.h"

enum { UNKNOWN, IS_NOT, FITS, PATTERN_MOST = 256 };

struct hit { /* in order of time, and of slices where that is the same */
  int64_t ns;
  uint32_t slice;
};
struct searching {
  const struct tg__view *v;
  const struct tg__search *s;
  struct tg__found *found;
  uint8_t *fits; /* of each string of the trace */
  struct tg__map group_of;
  size_t name_cap;
  struct hit *heap; /* the nearest so far, the farthest on top */
  size_t heap_count;
  struct hit after;
  uint64_t before; /* hits that do not lie behind `after` */
  regex_t regex;
  bool has_regex, failed;
};

static unsigned char fold(char c) { return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

static bool contains_nocase(struct tg__str s, struct tg__str part) {
  for (uint32_t i = 0; i + part.len <= s.len; i++) {
    uint32_t k = 0;
    while (k < part.len && fold(s.ptr[i + k]) == fold(part.ptr[k])) k++;
    if (k == part.len) return true;
  }
  return false;
}

static bool name_fits(struct searching *c, struct tg__str name) {
  if (c->s->match == TG__MATCH_EXACT) return tg__str_eq(name, c->s->text);
  if (c->s->match == TG__MATCH_CONTAINS) return contains_nocase(name, c->s->text);
  regmatch_t where = {0, (regoff_t)name.len};
  return regexec(&c->regex, name.ptr, 0, &where, REG_STARTEND) == 0;
}

static bool fits(struct searching *c, uint32_t name) {
  if (c->fits[name] == UNKNOWN) c->fits[name] = name_fits(c, tg__name(c->v->trace, name)) ? FITS : IS_NOT;
  return c->fits[name] == FITS;
}

/* Without what makes matching take for ever: what refers back, and numbers of repeats. */
static enum tg_err open_regex(struct searching *c, struct tg_error *e) {
  char pattern[PATTERN_MOST + 1];
  const struct tg__str s = c->s->text;
  if (s.len > PATTERN_MOST)
    return tg__fail(e, TG_USAGE, -1, "a regular expression has at most %d characters", PATTERN_MOST);
  for (uint32_t i = 0; i < s.len; i++)
    if (!s.ptr[i] || s.ptr[i] == '{' ||
        (s.ptr[i] == '\\' && i + 1 < s.len && s.ptr[i + 1] >= '1' && s.ptr[i + 1] <= '9'))
      return tg__fail(e, TG_USAGE, -1, "a regular expression here has neither { nor references such as \\1");
  memcpy(pattern, s.ptr, s.len);
  pattern[s.len] = 0;
  c->has_regex = regcomp(&c->regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB) == 0;
  return c->has_regex ? TG_OK : tg__fail(e, TG_USAGE, -1, "'%s' is no regular expression", pattern);
}

/* ---- hits -------------------------------------------------------------------------------------------- */

static bool is_nearer(const struct searching *c, struct hit a, struct hit b) {
  const bool earlier = a.ns != b.ns ? a.ns < b.ns : a.slice < b.slice;
  return c->s->backwards ? !earlier && a.slice != b.slice : earlier;
}

static void swap(struct hit *a, struct hit *b) {
  const struct hit other = *a;
  *a = *b;
  *b = other;
}

static void sift_down(const struct searching *c, size_t count) {
  for (size_t i = 0;;) {
    size_t farthest = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
      if (is_nearer(c, c->heap[farthest], c->heap[child])) farthest = child;
    if (farthest == i) return;
    swap(&c->heap[i], &c->heap[farthest]);
    i = farthest;
  }
}

static void keep_hit(struct searching *c, struct hit h) {
  if (c->s->after != TG_NONE && !is_nearer(c, c->after, h)) {
    c->before++;
    return;
  }
  if (c->heap_count < c->s->limit) {
    size_t i = c->heap_count++;
    c->heap[i] = h;
    for (; i && is_nearer(c, c->heap[(i - 1) / 2], c->heap[i]); i = (i - 1) / 2)
      swap(&c->heap[i], &c->heap[(i - 1) / 2]);
  } else if (c->s->limit && is_nearer(c, h, c->heap[0])) {
    c->heap[0] = h;
    sift_down(c, c->heap_count);
  }
}

static void sort_hits(struct searching *c) {
  for (size_t left = c->heap_count; left > 1; left--) {
    swap(&c->heap[0], &c->heap[left - 1]);
    sift_down(c, left - 1);
  }
}

/* ---- counting ---------------------------------------------------------------------------------------- */

static void count_name(struct searching *c, uint32_t name, int64_t dur_ns) {
  struct tg__found *const f = c->found;
  uint32_t *const group = tg__map_slot(&c->group_of, name, TG_NONE);
  if (!group || (*group == TG_NONE && !tg__grow(&f->names, &c->name_cap, f->name_count + 1, sizeof *f->names))) {
    c->failed = true;
    return;
  }
  if (*group == TG_NONE) {
    *group = (uint32_t)f->name_count;
    f->names[f->name_count++] = (struct tg__found_name){.name = name};
  }
  f->names[*group].count++;
  f->names[*group].total_ns += dur_ns;
}

static void look_at(struct searching *c, uint32_t slice, int64_t ns) {
  const struct tg__search *const s = c->s;
  const struct tg__slices *const sl = &c->v->trace->slices;
  if (ns < s->start_ns || ns >= s->end_ns || !fits(c, sl->name[slice])) return;
  c->found->count++;
  c->found->total_ns += sl->dur_ns[slice];
  if (s->columns) c->found->columns[(__int128)(ns - s->start_ns) * s->columns / (s->end_ns - s->start_ns)]++;
  count_name(c, sl->name[slice], sl->dur_ns[slice]);
  keep_hit(c, (struct hit){ns, slice});
}

static int by_time(const void *a, const void *b) {
  const struct tg__found_name *const x = a, *const y = b;
  if (x->total_ns != y->total_ns) return x->total_ns < y->total_ns ? 1 : -1;
  return (x->name > y->name) - (x->name < y->name);
}

static void look_at_all(struct searching *c) {
  const struct tg__columns *const t = c->v->trace;
  for (uint32_t k = 0; k < t->track_count && !c->failed; k++) {
    const struct tg__track *const track = &t->tracks[k];
    const int64_t shift = tg__view_shift(c->v, track->rank);
    if (c->s->tracks && !c->s->tracks[k]) continue;
    for (uint32_t i = track->first; i < track->first + track->count; i++) look_at(c, i, t->slices.start_ns[i] + shift);
  }
}

static void finish(struct searching *c) {
  struct tg__found *const f = c->found;
  if (f->name_count) qsort(f->names, f->name_count, sizeof *f->names, by_time);
  if (f->name_count > TG__FOUND_NAMES) f->name_count = TG__FOUND_NAMES;
  sort_hits(c);
  for (size_t i = 0; i < c->heap_count; i++) f->hits[i] = c->heap[i].slice;
  f->hit_count = c->heap_count;
  f->position = c->s->backwards ? (f->count > c->before ? f->count - c->before - 1 : 0) : c->before;
}

enum tg_err tg__view_search(const struct tg__view *v, const struct tg__search *s, struct tg__found *out,
                            struct tg_error *e) {
  const struct tg__columns *const t = v->trace;
  struct searching c = {.v = v, .s = s, .found = out};
  *out = (struct tg__found){0};
  if (s->end_ns <= s->start_ns) return tg__fail(e, TG_USAGE, -1, "the window to search ends before it begins");
  enum tg_err err = s->match == TG__MATCH_REGEX ? open_regex(&c, e) : TG_OK;
  c.fits = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  c.heap = tg__alloc((s->limit + 1) * sizeof *c.heap);
  out->hits = tg__alloc((s->limit + 1) * sizeof *out->hits);
  out->columns = tg__alloc((s->columns + 1) * sizeof *out->columns);
  c.failed = !c.fits || !c.heap || !out->hits || !out->columns;
  if (!err && !c.failed) {
    if (s->after != TG_NONE)
      c.after = (struct hit){
          t->slices.start_ns[s->after] + tg__view_shift(v, t->tracks[tg__slice_track(t, s->after)].rank), s->after};
    look_at_all(&c);
    finish(&c);
  }
  if (c.has_regex) regfree(&c.regex);
  tg__map_free(&c.group_of);
  tg__free(c.fits);
  tg__free(c.heap);
  if (!err && c.failed) err = tg__no_memory(e, "searching");
  if (err) tg__found_free(out);
  return err;
}

void tg__found_free(struct tg__found *f) {
  tg__free(f->names);
  tg__free(f->hits);
  tg__free(f->columns);
  *f = (struct tg__found){0};
}
