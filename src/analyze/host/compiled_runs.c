/* compiled_runs: regions of torch.compile in a recording, and what ran for them. */
#include "analyze/host/compiled_runs.h"

#include "analyze/host/kernel_lines.h"

static uint64_t run_key(struct tg__str id, bool is_backward) {
  return tg__hash(id.ptr, id.len) ^ (uint64_t)is_backward;
}

const struct tg__compiled_run *tg__compiled_run_of(const struct tg__compiled_runs *r, struct tg__str id,
                                                   bool is_backward) {
  const uint32_t at = tg__map_get(&r->by_id, run_key(id, is_backward));
  return at != TG_NONE && tg__str_eq(r->items[at].id, id) ? &r->items[at] : NULL;
}

static struct tg__compiled_run *run_for(struct tg__compiled_runs *r, struct tg__str id, bool is_backward) {
  uint32_t *const at = tg__map_slot(&r->by_id, run_key(id, is_backward), (uint32_t)r->count);
  r->failed |= !at;
  if (at && *at == r->count) {
    r->failed |= !tg__grow((void **)&r->items, &r->cap, r->count + 1, sizeof *r->items);
    if (!r->failed) r->items[r->count++] = (struct tg__compiled_run){.id = id, .is_backward = is_backward};
  }
  return r->failed ? NULL : &r->items[*at];
}

/* A call of a compiled function: its region, or the node of autograd that runs the code for its backward pass. */
static bool is_call(const struct tg__columns *t, uint32_t slice) {
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  return tg__str_has_prefix(name, TG__REGION_PREFIX) || tg__str_eq(name, TG_STR("CompiledFunctionBackward"));
}

static void count_call(struct tg__compiled_runs *r, const struct tg__columns *t, uint32_t slice) {
  bool is_backward = false;
  const struct tg__str id = tg__compiled_region(t, slice, &is_backward);
  struct tg__compiled_run *const run = id.len ? run_for(r, id, is_backward) : NULL;
  if (!run) return;
  run->calls++;
  run->run_ns += t->slices.dur_ns[slice];
  const uint32_t parent = is_backward ? TG_NONE : t->slices.parent[slice];
  const struct tg__str around = parent == TG_NONE ? TG_STR("") : tg__compiled_region(t, parent, &is_backward);
  struct tg__compiled_run *const outer = around.len ? run_for(r, around, is_backward) : NULL;
  if (outer) outer->run_ns -= t->slices.dur_ns[slice];
}

static bool is_compiler(const struct tg__columns *t, uint32_t slice) {
  return tg__str_contains(tg__name(t, t->slices.name[slice]), "(dynamo_timed)");
}

/* Compiling inside a call, as of what runs behind a break or of a backward pass, is no run of the code. */
static void leave_out_compiling(struct tg__compiled_runs *r, const struct tg__columns *t, uint32_t slice) {
  const uint32_t parent = t->slices.parent[slice];
  for (uint32_t s = parent; s != TG_NONE && !is_call(t, s); s = t->slices.parent[s])
    if (is_compiler(t, s)) return;
  bool is_backward = false;
  const struct tg__str id = parent == TG_NONE ? TG_STR("") : tg__compiled_region(t, parent, &is_backward);
  struct tg__compiled_run *const run = id.len ? run_for(r, id, is_backward) : NULL;
  if (run) run->run_ns -= t->slices.dur_ns[slice];
}

static void count_device_work(struct tg__compiled_runs *r, const struct tg__columns *t, uint32_t slice) {
  bool is_backward = false;
  const struct tg__str id = tg__compiled_region(t, slice, &is_backward);
  struct tg__compiled_run *const run = id.len ? run_for(r, id, is_backward) : NULL;
  if (run) run->device_ns += t->slices.dur_ns[slice];
}

void tg__compiled_runs_open(const struct tg__columns *t, uint32_t rank, struct tg__compiled_runs *out) {
  *out = (struct tg__compiled_runs){0};
  const struct tg__extent all = tg__rank_slices(t, rank);
  for (uint32_t i = all.first; i < all.past && !out->failed; i++) {
    if (tg__class_is_device_work(tg__slice_class(t, i))) continue;
    if (is_call(t, i))
      count_call(out, t, i);
    else if (out->count && is_compiler(t, i))
      leave_out_compiling(out, t, i);
  }
  for (uint32_t i = all.first; out->count && i < all.past && !out->failed; i++)
    if (tg__class_is_device_work(tg__slice_class(t, i))) count_device_work(out, t, i);
}

void tg__compiled_runs_close(struct tg__compiled_runs *r) {
  tg__free(r->items);
  tg__map_free(&r->by_id);
}
