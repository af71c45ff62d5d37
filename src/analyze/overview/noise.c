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

/* A number of the document's member `conditions`; NaN. */
static double condition(const struct tg__columns *t, uint32_t rank, const char *key) {
  int64_t value;
  return tg__document_condition(t, rank, NULL, key, &value) ? (double)value : NAN;
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
  if (tg__str_to_int(tg__document_member(t, rank, "core_wait_pct"), &noted_pct)) return (double)noted_pct;
  return condition(t, rank, "core_wait_pct");
}

enum { TICK_NS = 100000000, PERIOD_NS = 1000000000 }; /* between two samples, at least and at most */

struct use { /* samples in hundredths of a core, each times the time since the one before */
  double sum, ns;
  int64_t last_ns;
  bool is_near; /* of those in the steps: a worker lives longer. Without any, of all */
};
enum { OWN, CHILDREN, OTHERS, KINDS };
struct process {
  int64_t pid;
  uint32_t rank;
  struct use use[KINDS];
};
struct processes {
  const struct tg__columns *t;
  struct tg__window when;   /* of the steps */
  struct process items[64]; /* more than cores: what is left out counts as other programs */
  size_t count;
};

static bool is_on_host_of(const struct tg__columns *t, uint32_t a, uint32_t b) {
  if (a == b) return true;
  const struct tg__str x = tg__document_member(t, a, "host_name"), y = tg__document_member(t, b, "host_name");
  return x.len && tg__str_eq(x, y);
}

static void add_sample(struct processes *p, uint32_t mark, int kind) {
  const struct tg__columns *const t = p->t;
  const struct tg__track *const track = &t->tracks[t->marks.track[mark]];
  const int64_t value = tg__arg_int(t, t->marks.args[mark], TG__K_VALUE, 0), at_ns = t->marks.ts_ns[mark];
  const bool is_near = at_ns >= p->when.start_ns && at_ns <= p->when.end_ns + 2 * TICK_NS;
  size_t i = 0;
  while (i < p->count && p->items[i].pid != track->pid) i++;
  if (i == sizeof p->items / sizeof *p->items) return;
  if (i == p->count) p->items[p->count++] = (struct process){.pid = track->pid, .rank = track->rank};
  struct use *const u = &p->items[i].use[kind];
  const int64_t since_ns = u->last_ns && at_ns > u->last_ns ? at_ns - u->last_ns : TICK_NS;
  u->last_ns = at_ns;
  if (u->is_near && !is_near) return;
  if (is_near && !u->is_near) *u = (struct use){.last_ns = at_ns, .is_near = true};
  u->ns += (double)(since_ns < PERIOD_NS ? since_ns : PERIOD_NS);
  u->sum += (double)value * (double)(since_ns < PERIOD_NS ? since_ns : PERIOD_NS);
}

/* Of the rank, and of others on the same machine. */
static void find_processes(struct processes *p, uint32_t rank) {
  static const char *const names[KINDS] = {"process CPU %", "child processes CPU %", "other processes CPU %"};
  const struct tg__marks *const m = &p->t->marks;
  uint32_t name[KINDS];
  for (int k = 0; k < KINDS; k++) name[k] = tg__strings_find(p->t->strings, names[k], (uint32_t)strlen(names[k]));
  for (uint32_t i = 0; name[OWN] != TG_NONE && i < m->count; i++) {
    int kind = 0;
    while (kind < KINDS && m->name[i] != name[kind]) kind++;
    if (kind == KINDS || m->ph[i] != 'C' || m->track[i] == TG_NONE) continue;
    if (is_on_host_of(p->t, rank, p->t->tracks[m->track[i]].rank)) add_sample(p, i, kind);
  }
}

static double cores(const struct process *p, int kind) {
  return p->use[kind].ns > 0 ? p->use[kind].sum / p->use[kind].ns / 100 : NAN;
}
static double known_cores(const struct process *p, int kind) { return p->use[kind].ns > 0 ? cores(p, kind) : 0; }

/* The process of the rank's steps, else the one of the rank with most samples of others; TG_NONE. */
static size_t main_process(const struct processes *p, uint32_t rank) {
  const struct tg__columns *const t = p->t;
  size_t best = TG_NONE;
  uint32_t step = 0;
  while (step < t->step_count && (t->steps[step].rank != rank || t->steps[step].slice == TG_NONE)) step++;
  for (size_t i = 0; i < p->count; i++) {
    if (p->items[i].rank != rank) continue;
    if (step < t->step_count && p->items[i].pid == t->tracks[tg__slice_track(t, t->steps[step].slice)].pid) return i;
    if (best == TG_NONE || p->items[i].use[OTHERS].ns > p->items[best].use[OTHERS].ns) best = i;
  }
  return best;
}

/* What a rank uses: the process of its steps with all that it started, which are recorded or not; of a recording that
 * does not say that, of those that are recorded. */
static double rank_cores(const struct processes *p, uint32_t rank) {
  const size_t of = main_process(p, rank);
  double all = 0;
  if (of == TG_NONE) return 0;
  if (p->items[of].use[CHILDREN].ns > 0) return known_cores(&p->items[of], OWN) + cores(&p->items[of], CHILDREN);
  for (size_t i = 0; i < p->count; i++)
    if (p->items[i].rank == rank) all += known_cores(&p->items[i], OWN);
  return all;
}

/* What a process calls others are other ranks of the job, too, and its workers where it does not count those apart:
 * these are taken off. */
static void find_use(struct tg__noise *n, double *own, const struct processes *p, uint32_t rank) {
  const size_t of = main_process(p, rank);
  double all = 0;
  for (uint32_t r = 0; r < p->t->rank_count; r++) all += rank_cores(p, r);
  *own = p->count ? all : NAN;
  n->foreign_cores = NAN;
  if (of == TG_NONE || !(p->items[of].use[OWN].ns > 0) || !(p->items[of].use[OTHERS].ns > 0)) return;
  const double rest = all - known_cores(&p->items[of], OWN) - known_cores(&p->items[of], CHILDREN),
               others = cores(&p->items[of], OTHERS);
  n->foreign_cores = others > rest ? others - rest : 0;
}

/* What processes that are recorded beside that of the steps used. */
static void find_workers(struct tg__noise *n, const struct processes *p, uint32_t rank) {
  const size_t of = main_process(p, rank);
  n->worker_cores = n->busiest_worker = NAN;
  for (size_t i = 0; i < p->count; i++) {
    const double own = p->items[i].rank == rank && i != of ? cores(&p->items[i], OWN) : NAN;
    if (isnan(own)) continue;
    n->worker_cores = own + (isnan(n->worker_cores) ? 0 : n->worker_cores);
    n->busiest_worker = fmax(own, n->busiest_worker);
  }
}

/* A thread without a core is held up by others, unless those are of the job itself; where no figure says which
 * program had it, that stays open. A recording of some steps states what was used in all of them. */
struct tg__noise tg__noise_of(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b) {
  struct tg__noise n = {.core_wait_pct = core_wait_pct(t, rank, b)};
  struct processes p = {.t = t, .when = b->window};
  double own;
  find_processes(&p, rank);
  find_use(&n, &own, &p, rank);
  find_workers(&n, &p, rank);
  n.own_cores = p.count ? rank_cores(&p, rank) : NAN;
  if (isnan(n.foreign_cores)) {
    n.is_of_window = !isnan(condition(t, rank, "core_wait_pct"));
    n.foreign_cores = condition(t, rank, "others_pct") / 100;
    own = condition(t, rank, "process_pct") / 100;
  }
  const double cpu_cores = condition(t, rank, "cpu_cores");
  n.is_unclear = n.core_wait_pct > WAIT_PCT && isnan(n.foreign_cores);
  n.is_busy =
      n.foreign_cores > LEAST_FOREIGN && (n.core_wait_pct > WAIT_PCT || n.foreign_cores + own > cpu_cores - LEAST_FREE);
  return n;
}
