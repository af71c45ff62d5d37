/* The question stacks: time by source line, function, file, module or whole call stack. */
#include "analyze/host/stack_units.h"

struct row {
  int64_t calls, cpu_ns, self_cpu_ns, device_ns, self_device_ns;
  uint32_t on;   /* how often it is on the stack now: above 1 in recursion */
  uint32_t last; /* unit that counted last, plus one: a text may name a frame twice */
};
struct work {
  struct tg__stack_units units;
  struct row *rows;
  uint32_t *open; /* units on the stack now */
  size_t open_count, open_cap;
};

/* ---- counting -------------------------------------------------------------------------------- */

static void count_names(struct work *w, uint32_t unit) {
  const struct tg__stack_unit *u = &w->units.items[unit];
  const struct tg__stack_list list = w->units.lists[u->names];
  const int64_t dur = w->units.t->slices.dur_ns[u->slice];
  for (uint32_t k = 0; k < list.count; k++) {
    struct row *r = &w->rows[w->units.list_items[list.first + k]];
    if (k == 0) {
      r->self_cpu_ns += dur - u->kids_ns;
      r->self_device_ns += u->device_ns;
    }
    if (r->last == unit + 1) continue;
    r->last = unit + 1;
    r->calls++;
    if (r->on) continue; /* an outer one has this time already */
    r->cpu_ns += dur;
    r->device_ns += u->device_total_ns;
  }
}

/* A unit that was not asked for is entered, too, but hides nothing: what it calls itself counts as outermost. */
static void mark_names(struct work *w, uint32_t unit, uint32_t add) {
  const struct tg__stack_list list = w->units.lists[w->units.items[unit].names];
  for (uint32_t k = 0; k < list.count && w->units.items[unit].counted; k++)
    w->rows[w->units.list_items[list.first + k]].on += add;
}

static bool enter_unit(struct work *w, uint32_t unit) {
  if (!tg__grow((void **)&w->open, &w->open_cap, w->open_count + 1, sizeof *w->open)) return false;
  w->open[w->open_count++] = unit;
  w->units.items[unit].open = true;
  mark_names(w, unit, 1);
  return true;
}

static void leave(struct work *w) {
  const uint32_t unit = w->open[--w->open_count];
  w->units.items[unit].open = false;
  mark_names(w, unit, UINT32_MAX); /* minus one */
}

/* Make `unit` the top of the stack. Where frames partly overlap it may have been left already: then it is entered
 * again, its own outer ones before it. */
static bool make_top_of_stack(struct work *w, uint32_t unit) {
  uint32_t held = unit;
  while (held != TG_NONE && !w->units.items[held].open) held = w->units.items[held].parent;
  while (w->open_count && w->open[w->open_count - 1] != held) leave(w);
  const size_t from = w->open_count;
  for (; unit != held; unit = w->units.items[unit].parent)
    if (!enter_unit(w, unit)) return false;
  for (size_t i = from, k = w->open_count; i + 1 < k; i++) {
    const uint32_t other = w->open[--k];
    w->open[k] = w->open[i];
    w->open[i] = other;
  }
  return true;
}

static bool is_counted(const struct work *w, const struct tg__ask *a, uint32_t slice) {
  if (a->rank == TG_NONE && !a->has_steps) return true;
  const struct tg__columns *t = w->units.t;
  return tg__ask_has_slice(a, t, tg__slice_track(t, slice), slice);
}

static enum tg_err count_all(struct work *w, const struct tg__ask *a) {
  w->rows = tg__alloc((w->units.row_count + 1) * sizeof *w->rows);
  if (!w->rows) return TG_MEMORY;
  for (uint32_t i = 0; i < w->units.count; i++) {
    if (!make_top_of_stack(w, w->units.items[i].parent)) return TG_MEMORY;
    w->units.items[i].counted = is_counted(w, a, w->units.items[i].slice);
    if (w->units.items[i].counted) count_names(w, i);
    if (!enter_unit(w, i)) return TG_MEMORY;
  }
  return TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool stack_row_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  const struct row *x = &w->rows[a], *y = &w->rows[b];
  if (x->self_cpu_ns != y->self_cpu_ns) return x->self_cpu_ns > y->self_cpu_ns;
  return x->cpu_ns > y->cpu_ns;
}

static enum tg_err put_stack_rows(struct work *w, struct tg_table *out) {
  enum tg_err err = TG_MEMORY;
  struct tg__out name = {0};
  uint32_t *order = tg__order_new(w->units.row_count, stack_row_before, w);
  if (!order) return TG_MEMORY;
  for (size_t i = 0; i < w->units.row_count; i++) {
    const struct row *r = &w->rows[order[i]];
    if (!r->calls) continue; /* only where it was not asked for */
    name.len = 0;
    tg__stack_units_write(&w->units, order[i], &name);
    if (name.err) goto done;
    tg__put_text(out, (struct tg__str){name.len ? name.buf : "", (uint32_t)name.len});
    tg__put_int(out, r->calls);
    tg__put_int(out, r->cpu_ns);
    tg__put_int(out, r->self_cpu_ns);
    tg__put_int(out, r->device_ns);
    tg__put_int(out, r->self_device_ns);
  }
  err = TG_OK;
done:
  tg__out_free(&name);
  tg__free(order);
  return err;
}

static void add_notes(const struct work *w, struct tg_table *out) {
  if (w->units.from_text)
    tg__table_note(
        out, "no Python frames were recorded: time is that of the operators, which have their call stack as text");
  else if (w->units.has_lines)
    tg__table_note(out, "operators and calls of C count for the line that calls them; what a function does itself, for "
                        "the first line of the function");
  else if (w->units.by == TG__STACK_LINE)
    tg__table_note(out, "the line of a recorded Python frame is the first line of its function");
}

enum tg_err tg__answer_stacks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const choices[] = {[TG__STACK_LINE] = "line",
                                        [TG__STACK_FUNCTION] = "function",
                                        [TG__STACK_FILE] = "file",
                                        [TG__STACK_MODULE] = "module",
                                        [TG__STACK_FULL] = "stack"};
  size_t by;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {0};
  err = tg__stack_units_build(t, tg__rank_range_of(t, a->rank), (enum tg__stack_by)by, &w.units);
  if (!err && !w.units.count) {
    err = tg__fail(e, TG_NO_DATA, -1, "the trace holds no %s: record with with_stack=True",
                   by == TG__STACK_MODULE ? "module frames" : "call stacks");
  } else {
    if (!err) err = count_all(&w, a);
    if (!err) err = put_stack_rows(&w, out);
    if (!err) add_notes(&w, out);
    if (err) tg__no_memory(e, "adding up call stacks");
  }
  tg__stack_units_free(&w.units);
  tg__free(w.rows);
  tg__free(w.open);
  return err;
}
