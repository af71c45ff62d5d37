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
  return tg__str_to_int(tg__json_member(tg__document_member(t, rank, "conditions"), key), &value) ? (double)value : NAN;
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

enum { TICK_NS = 200000000 }; /* twice between two samples */

struct use { /* sum of the samples, in hundredths of a core */
  double sum;
  int64_t count;
  bool is_near; /* of those in the steps: a worker lives longer. Without any, of all */
};
struct process {
  int64_t pid;
  struct use own, others;
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

static void add_sample(struct processes *p, uint32_t mark, bool is_own) {
  const struct tg__columns *const t = p->t;
  const int64_t pid = t->tracks[t->marks.track[mark]].pid, value = tg__arg_int(t, t->marks.args[mark], TG__K_VALUE, 0),
                at_ns = t->marks.ts_ns[mark];
  const bool is_near = at_ns >= p->when.start_ns && at_ns <= p->when.end_ns + TICK_NS;
  size_t i = 0;
  while (i < p->count && p->items[i].pid != pid) i++;
  if (i == sizeof p->items / sizeof *p->items) return;
  if (i == p->count) p->items[p->count++] = (struct process){.pid = pid};
  struct use *const u = is_own ? &p->items[i].own : &p->items[i].others;
  if (u->is_near && !is_near) return;
  if (is_near && !u->is_near) *u = (struct use){.is_near = true};
  u->sum += (double)value;
  u->count++;
}

/* Of the rank, and of others on the same machine. */
static void find_processes(struct processes *p, uint32_t rank) {
  static const char own_name[] = "process CPU %", others_name[] = "other processes CPU %";
  const struct tg__marks *const m = &p->t->marks;
  const uint32_t own = tg__strings_find(p->t->strings, own_name, sizeof own_name - 1),
                 others = tg__strings_find(p->t->strings, others_name, sizeof others_name - 1);
  for (uint32_t i = 0; own != TG_NONE && i < m->count; i++) {
    if ((m->name[i] != own && m->name[i] != others) || m->ph[i] != 'C' || m->track[i] == TG_NONE) continue;
    if (is_on_host_of(p->t, rank, p->t->tracks[m->track[i]].rank)) add_sample(p, i, m->name[i] == own);
  }
}

static double cores(const struct use *u) { return u->count ? u->sum / (double)u->count / 100 : NAN; }

/* The process of the steps, else the one with most samples of others. */
static size_t main_process(const struct processes *p, const struct tg__breakdown *b) {
  const bool has_steps = b->source != TG__STEPS_RECORDING && b->count;
  const uint32_t slice = has_steps ? p->t->steps[b->steps[0].step].slice : TG_NONE;
  size_t best = 0;
  for (size_t i = 0; i < p->count; i++) {
    if (slice != TG_NONE && p->items[i].pid == p->t->tracks[tg__slice_track(p->t, slice)].pid) return i;
    if (p->items[i].others.count > p->items[best].others.count) best = i;
  }
  return best;
}

/* What a process calls others are the job's own workers and ranks, too: these are taken off. */
static void find_use(struct tg__noise *n, double *own, const struct processes *p, size_t of) {
  double all = 0;
  for (size_t i = 0; i < p->count; i++)
    if (p->items[i].own.count) all += cores(&p->items[i].own);
  *own = p->count ? all : NAN;
  n->foreign_cores = NAN;
  if (!p->count || !p->items[of].own.count || !p->items[of].others.count) return;
  const double rest = all - cores(&p->items[of].own), others = cores(&p->items[of].others);
  n->foreign_cores = others > rest ? others - rest : 0;
}

/* A thread without a core is held up by others, unless those are of the job itself. A recording of some steps states
 * what was used in all of them. */
struct tg__noise tg__noise_of(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b) {
  struct tg__noise n = {.core_wait_pct = core_wait_pct(t, rank, b)};
  struct processes p = {.t = t, .when = b->window};
  double own;
  find_processes(&p, rank);
  find_use(&n, &own, &p, main_process(&p, b));
  if (isnan(n.foreign_cores)) {
    n.is_of_window = !isnan(condition(t, rank, "core_wait_pct"));
    n.foreign_cores = condition(t, rank, "others_pct") / 100;
    own = condition(t, rank, "process_pct") / 100;
  }
  const double cpu_cores = condition(t, rank, "cpu_cores");
  n.is_busy = (n.core_wait_pct > WAIT_PCT && !(n.foreign_cores <= LEAST_FOREIGN)) ||
              (n.foreign_cores > LEAST_FOREIGN && n.foreign_cores + own > cpu_cores - LEAST_FREE);
  return n;
}
