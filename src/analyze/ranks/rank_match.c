/* rank_match: which collective of one rank is which of another. By process group and sequence number where the trace
 * has them; else the n-th of its kind in the group is the n-th everywhere, and where the ranks do not have equally
 * many, the n-th in the step. Sends and receives go by order in any case: each rank numbers its own, whoever the
 * other end is. */
#include "analyze/ranks/rank_set.h"

struct ref {
  uint32_t rank, index;
  uint32_t group, kind;
  int64_t step, ordinal; /* sequence number in `ordinal` when there is one, and step -2 then */
  uint32_t use;          /* of this sequence number by this rank: a group made again counts from the beginning */
};
enum { ALONE = -3, BY_SEQUENCE = -2, ANY_STEP = -1 };

/* The collectives of one group and kind: how many each rank has. */
struct family {
  uint32_t least, most, now; /* now: of the rank that is being counted */
  uint32_t rank;
  bool has_gap;               /* one without a sequence number that all ranks share */
  bool is_transfer, is_alone; /* between two ranks; and not known between which */
};
struct matching {
  struct tg__ranks *r;
  struct ref *refs;
  uint32_t *order;
  size_t count;
  struct family *families;
  size_t family_count, family_cap;
  struct tg__map family_of; /* group and kind → family */
  struct tg__map ordinal;   /* hash of rank, group, kind and step → how many so far */
};

static uint64_t family_key(const struct tg__sum_collective *c) { return (uint64_t)c->group << 32 | c->kind; }

static void close_rank(struct family *f) {
  if (f->rank == TG_NONE) return;
  if (f->now < f->least) f->least = f->now;
  if (f->now > f->most) f->most = f->now;
}

static struct family new_family(const struct tg__summaries *s, const struct tg__sum_collective *c) {
  const bool is_transfer = tg__str_eq(tg__strings_get(s->strings, c->kind), TG_STR("send_recv"));
  const bool has_ends = tg__str_contains(tg__strings_get(s->strings, c->group), "->");
  return (struct family){.least = UINT32_MAX,
                         .rank = TG_NONE,
                         .has_gap = is_transfer,
                         .is_transfer = is_transfer,
                         .is_alone = is_transfer && !has_ends};
}

static bool count_families(struct matching *m) {
  const struct tg__summaries *const s = m->r->s;
  for (uint32_t rank = 0; rank < s->count; rank++) {
    for (uint32_t i = 0; i < s->ranks[rank].collective_count; i++) {
      const struct tg__sum_collective *const c = &s->ranks[rank].collectives[i];
      uint32_t *const at = tg__map_slot(&m->family_of, family_key(c), TG_NONE);
      if (!at) return false;
      if (*at == TG_NONE) {
        if (!tg__grow((void **)&m->families, &m->family_cap, m->family_count + 1, sizeof *m->families)) return false;
        *at = (uint32_t)m->family_count;
        m->families[m->family_count++] = new_family(s, c);
      }
      struct family *const f = &m->families[*at];
      if (f->rank != rank) {
        close_rank(f);
        f->rank = rank;
        f->now = 0;
      }
      f->now++;
      f->has_gap |= c->sequence < 0;
    }
  }
  for (size_t i = 0; i < m->family_count; i++) {
    close_rank(&m->families[i]);
    m->r->uneven +=
        m->families[i].has_gap && !m->families[i].is_transfer && m->families[i].least != m->families[i].most;
  }
  return true;
}

/* How many with these words came before. The key is a hash of all of them: a collision would need one in 2^64. */
static uint32_t *count_before(struct matching *m, const struct ref *ref, int64_t number) {
  const int64_t key[] = {ref->rank, ref->group, ref->kind, ref->step, number};
  return tg__map_slot(&m->ordinal, tg__hash(key, sizeof key), 0);
}

static bool number_ref(struct matching *m, struct ref *ref) {
  const struct tg__rank_summary *const from = &m->r->s->ranks[ref->rank];
  const struct tg__sum_collective *const c = &from->collectives[ref->index];
  const struct family *const f = &m->families[tg__map_get(&m->family_of, family_key(c))];
  if (f->is_alone) {
    ref->step = ALONE;
    ref->ordinal = (int64_t)ref->rank << 32 | ref->index;
    m->r->unclear++;
    return true;
  }
  if (!f->has_gap)
    ref->step = BY_SEQUENCE;
  else if (f->least != f->most && c->step != TG_NONE && from->steps[c->step].number >= 0)
    ref->step = from->steps[c->step].number;
  uint32_t *const before = count_before(m, ref, f->has_gap ? 0 : c->sequence);
  if (!before) return false;
  if (f->has_gap)
    ref->ordinal = (*before)++;
  else
    ref->ordinal = c->sequence, ref->use = (*before)++;
  m->r->by_order |= f->has_gap && !f->is_transfer;
  return true;
}

static bool number_refs(struct matching *m) {
  const struct tg__summaries *const s = m->r->s;
  for (uint32_t rank = 0; rank < s->count; rank++) {
    for (uint32_t i = 0; i < s->ranks[rank].collective_count; i++) {
      const struct tg__sum_collective *const c = &s->ranks[rank].collectives[i];
      struct ref *const ref = &m->refs[m->count];
      *ref = (struct ref){.rank = rank, .index = i, .group = c->group, .kind = c->kind, .step = ANY_STEP};
      if (!number_ref(m, ref)) return false;
      m->order[m->count] = (uint32_t)m->count;
      m->count++;
    }
  }
  return true;
}

static int compare_ref(const struct ref *a, const struct ref *b) {
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  if (a->ordinal != b->ordinal) return a->ordinal < b->ordinal ? -1 : 1;
  return (a->use > b->use) - (a->use < b->use);
}

static bool ref_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct ref *const refs = ctx;
  return compare_ref(&refs[a], &refs[b]) < 0; /* stable: equal ones stay by rank */
}

static void make_matches(struct matching *m) {
  struct tg__ranks *const r = m->r;
  for (size_t i = 0; i < m->count; i++) {
    const struct ref *const ref = &m->refs[m->order[i]], *const before = i ? &m->refs[m->order[i - 1]] : NULL;
    r->parts[i] = (struct tg__part){.rank = ref->rank, .index = ref->index};
    if (!before || compare_ref(before, ref) != 0) {
      r->matches[r->match_count++] = (struct tg__match){.first = (uint32_t)i,
                                                        .group = ref->group,
                                                        .kind = ref->kind,
                                                        .sequence = ref->step == BY_SEQUENCE ? ref->ordinal : -1};
    }
    r->matches[r->match_count - 1].count++;
  }
}

/* Every rank puts the same number of bytes into these; what one end sends the other receives. */
static bool is_even(struct tg__str kind) {
  return tg__str_eq(kind, TG_STR("all_reduce")) || tg__str_eq(kind, TG_STR("broadcast")) ||
         tg__str_eq(kind, TG_STR("reduce")) || tg__str_eq(kind, TG_STR("send_recv"));
}

/* One sends and one receives. Where the trace does not name the groups, equal places of several groups are called
 * the same. */
static bool has_too_many_ends(const struct tg__ranks *r, const struct tg__match *m) {
  return m->count > 2 && tg__str_eq(tg__strings_get(r->s->strings, m->kind), TG_STR("send_recv"));
}

static void compare_bytes(struct tg__ranks *r) {
  for (size_t i = 0; i < r->match_count; i++) {
    struct tg__match *const m = &r->matches[i];
    int64_t bytes = -1;
    if (has_too_many_ends(r, m)) {
      m->differs = true;
      r->unclear++;
      continue;
    }
    if (m->count < 2 || !is_even(tg__strings_get(r->s->strings, m->kind))) continue;
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &r->parts[m->first + k];
      const int64_t own = r->s->ranks[p->rank].collectives[p->index].bytes;
      m->differs |= own >= 0 && bytes >= 0 && own != bytes;
      if (own >= 0) bytes = own;
    }
    r->differing += m->differs;
  }
}

static void compare_sizes(struct tg__ranks *r) {
  for (size_t i = 0; i < r->match_count; i++) {
    const struct tg__match *const m = &r->matches[i];
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &r->parts[m->first + k];
      const uint32_t size = r->s->ranks[p->rank].collectives[p->index].group_size;
      if (size && size < least) least = size;
      if (size > most) most = size;
    }
    r->sized += most > 0 && least != most;
    r->crowded += most > 0 && m->count > most;
  }
}

static bool share_a_rank(const struct tg__ranks *r, const struct tg__match *a, const struct tg__match *b) {
  uint32_t i = 0, k = 0; /* both are by rank */
  while (i < a->count && k < b->count) {
    const uint32_t x = r->parts[a->first + i].rank, y = r->parts[b->first + k].rank;
    if (x == y) return true;
    if (x < y)
      i++;
    else
      k++;
  }
  return false;
}

/* One number of one group, and one rank calls it this, another that: they do not call the same things in the same
 * order. */
static bool compare_order(struct tg__ranks *r) {
  struct tg__map first = {0}; /* hash of group and sequence number → match */
  bool done = true;
  for (size_t i = 0; i < r->match_count && done; i++) {
    const struct tg__match *const m = &r->matches[i];
    if (m->sequence < 0) continue;
    const struct {
      uint64_t group;
      int64_t sequence;
    } key = {m->group, m->sequence};
    const uint32_t *const at = tg__map_slot(&first, tg__hash(&key, sizeof key), (uint32_t)i);
    done = at != NULL;
    if (done && r->matches[*at].kind != m->kind) r->crossed += !share_a_rank(r, &r->matches[*at], m);
  }
  tg__map_free(&first);
  return done;
}

bool tg__ranks_match(struct tg__ranks *r) {
  struct matching m = {.r = r};
  size_t total = 0;
  for (uint32_t i = 0; i < r->s->count; i++) total += r->s->ranks[i].collective_count;
  m.refs = tg__alloc((total + 1) * sizeof *m.refs);
  m.order = tg__alloc((total + 1) * sizeof *m.order);
  r->parts = tg__alloc((total + 1) * sizeof *r->parts);
  r->matches = tg__alloc((total + 1) * sizeof *r->matches);
  bool done = m.refs && m.order && r->parts && r->matches && total < TG_NONE;
  done = done && count_families(&m) && number_refs(&m) && tg__sort_index(m.order, m.count, ref_before, m.refs);
  if (done) {
    make_matches(&m);
    compare_bytes(r);
    compare_sizes(r);
    done = compare_order(r);
  }
  tg__free(m.refs);
  tg__free(m.order);
  tg__free(m.families);
  tg__map_free(&m.family_of);
  tg__map_free(&m.ordinal);
  return done;
}
