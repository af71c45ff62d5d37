/* Memory: what grows from step to step, what most of the peak is for, what the allocator cannot use, what ran out. By
 * the answers of the questions about memory; of recordings with memory events and of snapshots. */
#include "diagnose/findings.h"

/* Below LEAST_BYTES no program runs out of memory. */
static const int64_t LEAST_BYTES = 100000000, LEAST_GROWTH = 4096, SHARED_BYTES = 20 << 20;
enum {
  GROWTH_PART = 1000,
  ACTIVATIONS_PCT = 60,
  GRADIENTS_PCT = 35,
  STATE_PCT = 30,
  FREE_PCT = 20,
  SHATTERED_PCT = 90,
  GROWN_PCT = 50
};
enum { HOLDERS = 3, BATCHES = 2 };

/* ---- asking ------------------------------------------------------------------------------------ */

/* NULL: the trace has no data for it, or memory has run out, which f then says. */
static struct tg_table *ask(struct tg__facts *f, enum tg__question_id id, const char *name, const char *value) {
  struct tg_table *const rows = tg__facts_ask(f, id, name, value);
  f->has_memory |= rows != NULL;
  return rows;
}

static double mb(int64_t bytes) { return (double)bytes / 1e6; }

/* The operator or category, and the line. */
static void say_holder(struct tg__str what, struct tg__str line, char *out, size_t size) {
  tg__text_format(out, size, "%.*s%s%.*s", (int)what.len, what.ptr, what.len && line.len ? " at " : "", (int)line.len,
                  line.ptr);
}

static struct tg__finding *find(struct tg__facts *f, enum tg__cause cause, double share, double threshold,
                                int64_t saving_bytes, const char *method) {
  struct tg__finding *const x = tg__finding_add(f, cause, share, threshold, TG_NULL_INT);
  x->is_warning = true;
  x->saving_bytes = saving_bytes;
  x->method = method;
  return x;
}

/* ---- what grows -------------------------------------------------------------------------------- */

enum held { ACTIVATION, DETAIL, GRADIENT, STATE, PARAMETER, HELD };
static const char *const held_names[HELD] = {"activation", "autograd_detail", "gradient", "optimizer_state",
                                             "parameter"};

/* What there is when a device has most in use, what was there before the recording with it; of the device with most. */
struct peak {
  struct tg__str device;
  int64_t bytes, held[HELD];
};

static struct peak find_peak(const struct tg_table *categories) {
  struct peak most = {.device = TG_STR("")}, p = most;
  for (size_t i = 0; categories && i < categories->rows; i++) {
    const struct tg__str is = tg__fact_text(categories, i, "category");
    const int64_t bytes = tg__fact_number(categories, i, "net_bytes");
    if (!tg__str_eq(tg__fact_text(categories, i, "device"), p.device))
      p = (struct peak){.device = tg__fact_text(categories, i, "device")};
    p.bytes += bytes;
    for (size_t k = 0; k < HELD; k++)
      if (tg__str_eq(is, (struct tg__str){held_names[k], (uint32_t)strlen(held_names[k])})) p.held[k] += bytes;
    if (p.bytes > most.bytes) most = p;
  }
  return most;
}

struct tg_table *tg__ask_leaks(struct tg__facts *f) { return ask(f, TG__Q_leaks, NULL, NULL); }

/* Takes what leaks out of the activations: no backward pass needs it any more. */
static void judge_growth(struct tg__facts *f, struct peak *peak) {
  struct tg_table *const t = tg__ask_leaks(f);
  int64_t growth = 0, all = 0;
  size_t top = SIZE_MAX;
  for (size_t i = 0; t && i < t->rows; i++) {
    if (!tg__str_eq(tg__fact_text(t, i, "device"), peak->device)) continue;
    if (top == SIZE_MAX) top = i;
    growth += tg__fact_number(t, i, "bytes_per_step");
    all += tg__fact_number(t, i, "bytes");
    peak->held[ACTIVATION] -= tg__fact_number(t, i, "activation_bytes");
  }
  if (top != SIZE_MAX && growth >= LEAST_GROWTH && growth >= peak->bytes / GROWTH_PART) {
    const double share = tg__pct(all, peak->bytes);
    struct tg__finding *const x = find(f, TG__CAUSE_MEMORY_LEAK, share < 100 ? share : 100, TG__NO_THRESHOLD, growth,
                                       "what a step takes and never frees; it costs no time until memory is full");
    say_holder(tg__fact_text(t, top, "op"), tg__fact_text(t, top, "line"), x->where, sizeof x->where);
    TG_FORMAT(
        x->evidence,
        "each of %lld steps takes %.3f MB that is still there when the last one ends, %.3f MB of it here, in %lld "
        "block%s a step; that is %.1f %% of the %.1f MB at the peak, and as much again as the peak after %lld steps",
        (long long)tg__fact_number(t, top, "steps"), mb(growth), mb(tg__fact_number(t, top, "bytes_per_step")),
        (long long)(tg__fact_number(t, top, "blocks") / tg__fact_number(t, top, "steps")),
        tg__fact_number(t, top, "blocks") == tg__fact_number(t, top, "steps") ? "" : "s", share, mb(peak->bytes),
        (long long)(peak->bytes / growth));
    TG_FORMAT(x->advice,
              "Look at what keeps it: a list, a dict or an attribute that each step adds to. Keep numbers in "
              "place of tensors, loss.item() or tensor.detach().cpu(), and only as many as are needed.");
  }
  tg__table_free(t);
}

/* ---- what it is for ---------------------------------------------------------------------------- */

/* What the optimizer keeps is mostly older than the recording, which has no stacks of it: then where it updates. */
static struct tg__str line_of_update(struct tg__facts *f) {
  uint32_t update = TG_NONE;
  TG__EACH_IN_STEPS (w, f)
    if (w.cls == TG__CLASS_ANNOTATION && tg__slice_meaning(f, w.slice) & TG__NAME_OPTIMIZER_STEP) update = w.slice;
  return update == TG_NONE ? TG_STR("") : tg__user_frame(f->t, update);
}

/* The line with most of a category at the peak. */
static void say_largest(struct tg__facts *f, const struct peak *peak, const char *category, struct tg__finding *x) {
  struct tg_table *const t = ask(f, TG__Q_memory_blocks, "by", "line");
  size_t top = SIZE_MAX;
  for (size_t i = 0; t && i < t->rows; i++) {
    const struct tg__str is = tg__fact_text(t, i, "category");
    if (!tg__str_eq(is, (struct tg__str){category, (uint32_t)strlen(category)}) || !tg__fact_text(t, i, "line").len ||
        !tg__str_eq(tg__fact_text(t, i, "device"), peak->device))
      continue;
    if (top == SIZE_MAX || tg__fact_number(t, i, "bytes_at_peak") > tg__fact_number(t, top, "bytes_at_peak")) top = i;
  }
  const struct tg__str line = top != SIZE_MAX                 ? tg__fact_text(t, top, "line")
                              : category == held_names[STATE] ? line_of_update(f)
                                                              : TG_STR("");
  say_holder(peak->device, line, x->where, sizeof x->where);
  tg__table_free(t);
}

/* By what the question checkpoint works out for layers with numbers; else smaller batches save a part as well. */
static void report_activations(struct tg__facts *f, const struct peak *peak) {
  const int64_t *const held = peak->held, of_batch = held[ACTIVATION] + held[DETAIL];
  struct tg_table *const t = ask(f, TG__Q_checkpoint, NULL, NULL);
  size_t all = SIZE_MAX;
  for (size_t i = 0; t && i < t->rows; i++)
    if (tg__str_eq(tg__fact_text(t, i, "layer"), TG_STR("(all)")) &&
        tg__str_eq(tg__fact_text(t, i, "device"), peak->device))
      all = i;
  const int64_t by_batches = of_batch - of_batch / BATCHES,
                by_checkpoints = all == SIZE_MAX ? 0 : tg__fact_number(t, all, "saving_bytes");
  const bool checkpoints = by_checkpoints > by_batches;
  struct tg__finding *const x =
      find(f, TG__CAUSE_ACTIVATION_MEMORY, tg__pct(of_batch, peak->bytes), ACTIVATIONS_PCT,
           checkpoints ? by_checkpoints : by_batches,
           checkpoints ? "each layer keeps only its input, and is computed again in the backward pass"
                       : "two micro-batches in turn: half of the activations are there at a time");
  say_largest(f, peak, held_names[ACTIVATION], x);
  TG_FORMAT(
      x->evidence,
      "%.1f of %.1f MB at the peak are activations, kept for the backward pass, and gradients of these; parameters, "
      "their gradients and what the optimizer keeps are %.1f",
      mb(of_batch), mb(peak->bytes), mb(held[PARAMETER] + held[GRADIENT] + held[STATE]));
  if (checkpoints)
    TG_FORMAT(
        x->advice,
        "torch.utils.checkpoint.checkpoint around each layer saves %.1f MB and costs %.2f ms a step; micro-batches of "
        "half the size with gradients that add up save %.1f MB, and cost the fixed part of a pass once more.",
        mb(by_checkpoints), tg__ms(tg__fact_number(t, all, "recompute_ns")), mb(by_batches));
  else
    TG_FORMAT(
        x->advice,
        "Micro-batches of half the size with gradients that add up save %.1f MB, and cost the fixed part of a pass "
        "once more; torch.utils.checkpoint.checkpoint around layers saves their activations for one more forward "
        "pass; autocast to bfloat16 halves those of matrix operators.",
        mb(by_batches));
  tg__table_free(t);
}

static void judge_use(struct tg__facts *f, const struct peak *peak) {
  const int64_t *const held = peak->held, of_batch = held[ACTIVATION] + held[DETAIL];
  if (peak->bytes < LEAST_BYTES) return;
  if (tg__pct(of_batch, peak->bytes) > ACTIVATIONS_PCT &&
      of_batch > 2 * (held[PARAMETER] + held[GRADIENT] + held[STATE]))
    report_activations(f, peak);
  const double gradients = tg__pct(held[GRADIENT], peak->bytes), state = tg__pct(held[STATE], peak->bytes);
  if (gradients > GRADIENTS_PCT && held[GRADIENT] > 2 * of_batch) {
    struct tg__finding *const x =
        find(f, TG__CAUSE_GRADIENT_MEMORY, gradients, GRADIENTS_PCT, held[GRADIENT],
             "each gradient is used and released as soon as it is there, so that one is there at a time");
    say_largest(f, peak, held_names[GRADIENT], x);
    TG_FORMAT(
        x->evidence,
        "%.1f of %.1f MB at the peak are gradients, what is being added to them among it, of %.1f MB of parameters",
        mb(held[GRADIENT]), mb(peak->bytes), mb(held[PARAMETER]));
    TG_FORMAT(
        x->advice,
        "Update each parameter where its gradient arrives (register_post_accumulate_grad_hook, an optimizer for "
        "each): saves up to %.1f MB and no longer allows clipping by the norm of all. zero_grad(set_to_none=True) "
        "frees them for the forward pass at no cost; several ranks can share them (FSDP, ZeRO-2).",
        mb(held[GRADIENT]));
  }
  if (state > STATE_PCT && held[STATE] > 2 * of_batch) {
    struct tg__finding *const x = find(f, TG__CAUSE_OPTIMIZER_MEMORY, state, STATE_PCT, held[STATE] / 2,
                                       "one of two moments, or both in half the bytes");
    say_largest(f, peak, held_names[STATE], x);
    TG_FORMAT(x->evidence,
              "%.1f of %.1f MB at the peak are what the optimizer keeps, %.1f times the parameters (%.1f MB)",
              mb(held[STATE]), mb(peak->bytes), (double)held[STATE] / (double)(held[PARAMETER] ? held[PARAMETER] : 1),
              mb(held[PARAMETER]));
    TG_FORMAT(x->advice,
              "An optimizer with less state (Adafactor, 8-bit Adam, SGD with momentum) saves %.1f MB or more at little "
              "cost in time; ZeroRedundancyOptimizer or FSDP divides it among ranks, and costs their communication.",
              mb(held[STATE] / 2));
  }
}

/* ---- what the allocator cannot use ------------------------------------------------------------- */

struct pool {
  struct tg__str device, kind;
  /* split: free beside blocks in use; largest: piece of it; grown: although as much was free as was asked for */
  int64_t total, split, largest, grown;
  int64_t taken, most_used; /* times that memory was taken from the device; the largest block in use */
};

static bool is_same_cell(const struct tg_table *a, size_t row, const struct tg_table *b, size_t other,
                         const char *column) {
  return tg__str_eq(tg__fact_text(a, row, column), tg__fact_text(b, other, column));
}

/* A segment without a block in use is a cache: it serves any request, and can be given back. */
static void look_into_segments(struct tg__facts *f, const struct tg_table *pools, size_t row, struct pool *p) {
  struct tg_table *const t = ask(f, TG__Q_segments, "by", "segment"), *const blocks =
                                                                          ask(f, TG__Q_segments, "by", "block");
  for (size_t i = 0; t && i < t->rows; i++) {
    const bool is_here = is_same_cell(t, i, pools, row, "device") && is_same_cell(t, i, pools, row, "pool") &&
                         is_same_cell(t, i, pools, row, "kind");
    const int64_t unused = is_here ? tg__fact_number(t, i, "free_bytes") : 0;
    if (!unused || unused == tg__fact_number(t, i, "total_bytes")) continue;
    p->split += unused;
    if (tg__fact_number(t, i, "largest_free_bytes") > p->largest)
      p->largest = tg__fact_number(t, i, "largest_free_bytes");
  }
  for (size_t i = 0; blocks && i < blocks->rows; i++)
    if (is_same_cell(blocks, i, pools, row, "device") && tg__fact_number(blocks, i, "active_bytes") > p->most_used)
      p->most_used = tg__fact_number(blocks, i, "active_bytes");
  tg__table_free(t);
  tg__table_free(blocks);
}

static void look_into_history(struct tg__facts *f, struct pool *p) {
  struct tg_table *const t = ask(f, TG__Q_fragmentation, NULL, NULL), *const events =
                                                                          ask(f, TG__Q_memory_history, NULL, NULL);
  for (size_t i = 0; t && i < t->rows; i++)
    if (tg__str_eq(tg__fact_text(t, i, "device"), p->device)) p->grown += tg__fact_number(t, i, "grown");
  for (size_t i = 0; events && i < events->rows; i++) {
    const struct tg__str action = tg__fact_text(events, i, "action");
    p->taken += tg__str_eq(action, TG_STR("segment_alloc")) || tg__str_eq(action, TG_STR("segment_map"));
  }
  tg__table_free(t);
  tg__table_free(events);
}

/* Where the history has how memory was taken, it was taken in vain: as much was free as was asked for. Without that,
 * many pieces that are smaller than the segments that requests share, or than half of the largest block in use. */
static bool is_shattered(const struct pool *p) {
  const double outside = tg__pct(p->split - p->largest, p->split);
  if (p->total < LEAST_BYTES || tg__pct(p->split, p->total) <= FREE_PCT) return false;
  if (p->taken) return p->grown > 0 && outside > GROWN_PCT;
  return outside > SHATTERED_PCT && (p->largest < SHARED_BYTES || 2 * p->largest <= p->most_used);
}

static void report_pool(struct tg__facts *f, const struct pool *p) {
  struct tg__finding *const x =
      find(f, TG__CAUSE_MEMORY_FRAGMENTATION, tg__pct(p->split, p->total), FREE_PCT, p->split - p->largest,
           "pieces that can grow together are one: what is free beside the largest piece can be used");
  TG_FORMAT(x->where, "%.*s, %.*s pool", (int)p->device.len, p->device.ptr, (int)p->kind.len, p->kind.ptr);
  TG_FORMAT(x->evidence,
            "%.1f of %.1f MB that the allocator holds are free between blocks in use, in pieces of %.1f MB at most: "
            "%.0f %% of that is outside the largest piece",
            mb(p->split), mb(p->total), mb(p->largest), tg__pct(p->split - p->largest, p->split));
  if (p->grown)
    TG_ADD(x->evidence, "; %lld time%s it took more from the device although as much was free as was asked for",
           (long long)p->grown, p->grown == 1 ? "" : "s");
  TG_FORMAT(x->advice,
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which costs no time worth measuring; keep "
            "sizes equal (batches padded to few lengths), so that freed pieces fit again. "
            "torch.cuda.empty_cache() waits for the device, and helps where nothing else does.");
}

static void judge_pools(struct tg__facts *f) {
  struct tg_table *const t = ask(f, TG__Q_segments, "by", "pool");
  size_t worst = SIZE_MAX;
  for (size_t i = 0; t && i < t->rows; i++)
    if (worst == SIZE_MAX || tg__fact_number(t, i, "free_bytes") > tg__fact_number(t, worst, "free_bytes")) worst = i;
  if (worst != SIZE_MAX && tg__fact_number(t, worst, "total_bytes") >= LEAST_BYTES) {
    struct pool p = {.device = tg__fact_text(t, worst, "device"),
                     .kind = tg__fact_text(t, worst, "kind"),
                     .total = tg__fact_number(t, worst, "total_bytes")};
    look_into_segments(f, t, worst, &p);
    look_into_history(f, &p);
    if (is_shattered(&p)) report_pool(f, &p);
  }
  tg__table_free(t);
}

/* ---- what ran out ------------------------------------------------------------------------------ */

static void judge_failures(struct tg__facts *f) {
  struct tg_table *const t = ask(f, TG__Q_memory_history, NULL, NULL);
  size_t failed = SIZE_MAX, count = 0;
  for (size_t i = 0; t && i < t->rows; i++)
    if (tg__str_eq(tg__fact_text(t, i, "action"), TG_STR("oom"))) failed = i, count++;
  struct tg_table *const holders = failed == SIZE_MAX ? NULL : ask(f, TG__Q_memory_stacks, NULL, NULL);
  if (failed != SIZE_MAX) {
    const int64_t wanted = tg__fact_number(t, failed, "bytes"), reserved = tg__fact_number(t, failed, "reserved_bytes"),
                  used = tg__fact_number(t, failed, "allocated_bytes"), idle = reserved > used ? reserved - used : 0;
    struct tg__finding *const x = find(f, TG__CAUSE_OUT_OF_MEMORY, 100, TG__NO_THRESHOLD, wanted,
                                       "as much has to be given back, or not be taken");
    const struct tg__str line = tg__user_frame_of_stack(tg__fact_text(t, failed, "stack"));
    say_holder(tg__fact_text(t, failed, "device"), line, x->where, sizeof x->where);
    TG_FORMAT(x->evidence,
              "%zu allocation%s failed, the last of %.1f MB: %.1f MB were in use, and %.1f MB reserved and unused",
              count, count == 1 ? "" : "s", mb(wanted), mb(used), mb(idle));
    for (size_t i = 0; holders && i < holders->rows && i < HOLDERS; i++) {
      const struct tg__str by = tg__user_frame_of_stack(tg__fact_text(holders, i, "stack"));
      TG_ADD(x->evidence, "%s%.1f MB %.*s",
             i ? ", " : "; most at the peak: ", mb(tg__fact_number(holders, i, "peak_bytes")),
             by.len ? (int)by.len : 16, by.len ? by.ptr : "without a line  ");
    }
    TG_FORMAT(x->advice, "%s",
              idle >= wanted
                  ? "What is unused would do and is in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
                  : "Take less at the peak: a smaller batch with gradients that add up, "
                    "torch.utils.checkpoint.checkpoint, autocast; release what is not needed before that line.");
  }
  tg__table_free(t);
  tg__table_free(holders);
}

void tg__judge_memory(struct tg__facts *f) {
  struct tg_table *const categories = ask(f, TG__Q_memory, "by", "category");
  struct peak peak = find_peak(categories);
  if (peak.bytes) {
    judge_growth(f, &peak);
    judge_use(f, &peak);
  }
  tg__table_free(categories);
  judge_pools(f);
  judge_failures(f);
}
