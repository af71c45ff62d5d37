/* Calls of modules, where none were recorded: derived from the operators. Each operator's STACK entry names the module
 * that it ran in; a call lasts from the first to the last of the operators in a row that have it. Two calls one after
 * the other are distinguished by what runs between them outside, or by the start of a step. */
#include "trace/import_raw.h"

/* ---- runs of operators in one module, by chunk ----------------------------------------------- */

/* The start of a step is a run without a length: it ends the calls before it, and nothing is added to it. */
static bool add_run(struct tg__raw_job *out, uint32_t module, const struct tg__raw_record *r, uint64_t dur_ticks) {
  struct tg__raw_run *const last = out->run_count ? &out->runs[out->run_count - 1] : NULL;
  if (dur_ticks && last && last->end_ticks > last->start_ticks && last->module == module) { /* going back in time */
    if (r->start_ticks < last->start_ticks) last->start_ticks = r->start_ticks;
    return true;
  }
  if (!tg__grow((void **)&out->runs, &out->run_cap, out->run_count + 1, sizeof *out->runs)) return false;
  out->runs[out->run_count++] = (struct tg__raw_run){r->start_ticks, r->start_ticks + dur_ticks, module};
  return true;
}

/* Records lie in the order of their ends, so going back through them an operator comes before what ran inside it,
 * which is passed over: its module is that of the outer one. An operator outside of all frames ends the calls before
 * it. */
void tg__raw_gather_runs(struct tg__raw_job *out, const struct tg__raw_chunk *chunk) {
  const struct tg__raw_ids scope = tg__raw_ids_of(out->file, out->chunk->part);
  struct tg__raw_record r;
  uint64_t dur, inside_from = UINT64_MAX;
  bool torn;
  for (uint32_t i = chunk->count; i-- > 0 && !out->no_memory;) {
    tg__raw_record_read(chunk->records + (size_t)i * TG_RAW_RECORD_BYTES, &r);
    const bool op = r.scope == TG_RAW_OP || r.scope == TG_RAW_SCRIPT || r.scope == TG_RAW_USER;
    if (r.scope == TG_RAW_STEP && !add_run(out, 0, &r, 0)) out->no_memory = true;
    if (!op || r.start_ticks >= inside_from) continue;
    uint32_t at = i;
    tg__raw_next(chunk, &at, &r, &dur, &torn);
    if (dur > UINT64_MAX - r.start_ticks) continue;
    if (r.scope == TG_RAW_OP && r.stack) inside_from = r.start_ticks;
    const uint32_t stack = tg__raw_context_of(out->raw, &scope, r.stack).stack,
                   module = stack ? tg__raw_module_frame(out->raw, &scope, stack) : 0;
    if (!add_run(out, module, &r, dur)) out->no_memory = true;
  }
}

/* ---- calls, by thread ------------------------------------------------------------------------ */

struct open_call {
  uint32_t module; /* id of its STACK entry */
  uint64_t start, end;
};
struct calls { /* of one thread */
  struct tg__raw *raw;
  const struct tg__raw_job *job;
  struct tg__raw_ids scope;
  struct tg__raw_cursor cursor;
  struct open_call open[TG__RAW_STACK_MAX]; /* outermost first */
  uint32_t depth;
};

static void put_call(struct calls *c, const struct open_call *call) {
  struct tg__raw *const w = c->raw;
  const uint32_t at = tg__raw_find(&c->scope, TG_RAW_D_MODULE, call->module);
  struct tg__record r = {.track = c->job->track, .ph = 'X'};
  int64_t end_ns;
  if (at == TG_NONE || !tg__raw_wall_ns(&c->cursor, call->start, &r.ts_ns) ||
      !tg__raw_wall_ns(&c->cursor, call->end, &end_ns))
    return;
  const struct tg__raw_module *const m = &w->modules[at];
  if (__builtin_sub_overflow(end_ns, r.ts_ns, &r.dur_ns) || __builtin_sub_overflow(r.ts_ns, w->base_ns, &r.ts_ns))
    return;
  r.name = m->name;
  tg__row_value(w->parser, TG__K_PYTHON_MODULE_ID, TG__KIND_INT, m->number, false);
  if (m->path != TG__K_EMPTY) tg__row_value(w->parser, TG__K_MODULE_PATH, TG__KIND_STR, m->path, false);
  tg__row_value(w->parser, TG__K_DERIVED, TG__KIND_TRUE, 0, false);
  tg__raw_add_event(w, r, tg__raw_category(TG_RAW_MODULE));
}

/* A call lies in its caller's, and is written behind it: where both have the same extent, the order says which is
 * around which. */
static void end_calls(struct calls *c, uint32_t keep) {
  for (uint32_t i = c->depth; i-- > keep && i > 0;)
    if (c->open[i - 1].end < c->open[i].end) c->open[i - 1].end = c->open[i].end;
  for (uint32_t i = keep; i < c->depth; i++) put_call(c, &c->open[i]);
  c->depth = keep;
}

/* Module calls around a STACK entry, outermost first; their number. */
static uint32_t chain_of(const struct calls *c, uint32_t module, uint32_t chain[TG__RAW_STACK_MAX]) {
  uint32_t n = 0;
  while (module && n < TG__RAW_STACK_MAX) {
    chain[n++] = module;
    const uint32_t at = tg__raw_find(&c->scope, TG_RAW_D_STACK, module);
    module = at == TG_NONE ? 0 : tg__raw_module_frame(c->raw, &c->scope, c->raw->frames[at].parent);
  }
  for (uint32_t i = 0; i < n / 2; i++) {
    const uint32_t other = chain[i];
    chain[i] = chain[n - 1 - i];
    chain[n - 1 - i] = other;
  }
  return n;
}

static void take_run(struct calls *c, const struct tg__raw_run *run) {
  uint32_t chain[TG__RAW_STACK_MAX], same = 0;
  const uint32_t n = chain_of(c, run->module, chain);
  while (same < n && same < c->depth && c->open[same].module == chain[same]) same++;
  if (c->depth > same) end_calls(c, same);
  for (uint32_t i = same; i < n; i++)
    c->open[c->depth++] = (struct open_call){chain[i], run->start_ticks, run->end_ticks};
  if (c->depth && c->open[c->depth - 1].end < run->end_ticks) c->open[c->depth - 1].end = run->end_ticks;
}

static bool row_starts_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__raw_run *const runs = ctx;
  return runs[a].start_ticks < runs[b].start_ticks;
}

static bool derive_calls(struct tg__raw *w, const struct tg__raw_job *job, const struct tg__raw_run *runs,
                         size_t count) {
  uint32_t *const order = tg__order_new(count, row_starts_before, runs);
  struct calls *const c = tg__alloc(sizeof *c);
  bool ok = order && c;
  if (ok) {
    c->raw = w;
    c->job = job;
    c->scope = tg__raw_ids_of(job->file, job->chunk->part);
    c->cursor.clock = &job->file->clock;
    for (size_t i = 0; i < count && !w->no_memory; i++) take_run(c, &runs[order[i]]);
    end_calls(c, 0);
  }
  tg__free(order);
  tg__free(c);
  return ok;
}

/* Chunks of a thread lie together. */
void tg__raw_module_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  struct tg__raw_run *runs = NULL;
  size_t cap = 0;
  for (size_t i = 0, next; i < count && !w->no_memory; i = next) {
    size_t n = 0;
    for (next = i; next < count && jobs[next].file == jobs[i].file && jobs[next].chunk->part == jobs[i].chunk->part;
         next++) {
      if (jobs[next].run_count == 0) continue;
      if (!tg__grow((void **)&runs, &cap, n + jobs[next].run_count, sizeof *runs)) {
        w->no_memory = true;
        break;
      }
      memcpy(runs + n, jobs[next].runs, jobs[next].run_count * sizeof *runs);
      n += jobs[next].run_count;
    }
    if (n && !w->no_memory && !derive_calls(w, &jobs[i], runs, n)) w->no_memory = true;
  }
  tg__free(runs);
}
