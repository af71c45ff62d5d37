/* The question memory_timeline: bytes alive by category over time, of a trace's blocks or of PyTorch's raw memory
 * timeline. */
#include "analyze/memory/memory_blocks.h"

enum by { BY_TIME, BY_PEAK, BY_FINAL };

struct level {   /* what is alive on a device */
  int64_t ts_ns; /* TG_NULL_INT: before the first change that has a time */
  int64_t bytes[TG__HELD_COUNT], total;
};
struct curve {
  struct level now, peak;
  bool begun;
};
struct work {
  const struct tg__blocks *b; /* NULL: a raw memory timeline, of which no device is known */
  const struct tg__columns *t;
  struct tg_table *out;
  enum by by;
  struct curve *curves; /* by device */
};

static void put_level(const struct work *w, uint32_t device, const struct level *l) {
  if (w->b) {
    tg__put_block_device(w->out, w->b, device);
  } else {
    tg__put_rank(w->out, w->t, 0);
    tg__put_null(w->out);
  }
  tg__put_int(w->out, l->ts_ns);
  tg__put_int(w->out, l->total);
  for (int h = 0; h < TG__HELD_COUNT; h++) tg__put_int(w->out, l->bytes[h]);
}

/* No change at this time is missing any more. */
static void end_level(const struct work *w, uint32_t device) {
  struct curve *const c = &w->curves[device];
  if (!c->begun) return;
  if (w->by == BY_TIME) put_level(w, device, &c->now);
  if (c->peak.ts_ns == TG_NULL_INT || c->now.total > c->peak.total) c->peak = c->now;
}

/* What was there before belongs to the first time there is. */
static void add_change(const struct work *w, uint32_t device, int64_t ts_ns, uint8_t held, int64_t bytes) {
  struct curve *const c = &w->curves[device];
  if (c->now.ts_ns != ts_ns && c->now.ts_ns != TG_NULL_INT) end_level(w, device);
  if (ts_ns != TG_NULL_INT) c->now.ts_ns = ts_ns;
  c->begun = true;
  c->now.bytes[held] = tg__sum_bytes(c->now.bytes[held], bytes);
  c->now.total = tg__sum_bytes(c->now.total, bytes);
}

static void end_curves(const struct work *w, size_t count) {
  for (uint32_t d = 0; d < count; d++) {
    end_level(w, d);
    if (w->curves[d].begun && w->by != BY_TIME)
      put_level(w, d, w->by == BY_PEAK ? &w->curves[d].peak : &w->curves[d].now);
  }
}

static bool begin_curves(struct work *w, size_t count) {
  w->curves = tg__alloc((count + 1) * sizeof *w->curves);
  for (size_t d = 0; w->curves && d < count; d++) w->curves[d].now.ts_ns = w->curves[d].peak.ts_ns = TG_NULL_INT;
  return w->curves != NULL;
}

/* ---- of blocks ------------------------------------------------------------------------------- */

static bool follow_blocks(struct work *w) {
  const struct tg__blocks *const b = w->b;
  if (!begin_curves(w, b->device_count)) return false;
  for (size_t i = 0; i < b->count; i++) {
    const struct tg__block *const x = &b->items[i];
    if (x->made_ns == TG_NULL_INT && tg__block_is_counted(b, x))
      add_change(w, x->device, TG_NULL_INT, x->held, x->bytes);
  }
  for (size_t i = 0; i < b->change_count; i++) {
    const struct tg__block_change *const c = &b->changes[i];
    const struct tg__block *const x = &b->items[c->block];
    if (tg__block_is_counted(b, x)) add_change(w, x->device, c->ts_ns, x->held, c->made ? x->bytes : -x->bytes);
  }
  end_curves(w, b->device_count);
  tg__blocks_notes(b, w->out);
  return true;
}

/* ---- of a raw timeline ----------------------------------------------------------------------- */

static uint8_t held_of(const struct tg__columns *t, uint32_t kind) {
  for (uint8_t h = 0; kind != TG_NONE && h < TG__HELD_COUNT; h++)
    if (tg__str_eq(tg__name(t, kind), (struct tg__str){tg__held_names[h], (uint32_t)strlen(tg__held_names[h])}))
      return h;
  return TG__HELD_UNKNOWN;
}

static bool follow_timeline(struct work *w) {
  if (!begin_curves(w, 1)) return false;
  for (uint32_t i = 0; i < w->t->marks.count; i++) {
    if (w->t->marks.name[i] != TG__K_MEMORY_CHANGE) continue;
    const uint32_t args = w->t->marks.args[i];
    add_change(w, 0, w->t->marks.ts_ns[i], held_of(w->t, tg__arg_str(w->t, args, TG__K_TENSOR_KIND)),
               tg__arg_int(w->t, args, TG__K_BYTES_MEMORY, 0));
  }
  end_curves(w, 1);
  return true;
}

static bool is_timeline(const struct tg__columns *t) {
  for (uint32_t i = 0; i < t->marks.count; i++)
    if (t->marks.name[i] == TG__K_MEMORY_CHANGE) return true;
  return false;
}

enum tg_err tg__answer_memory_timeline(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                       struct tg_error *e) {
  static const char *const choices[] = {[BY_TIME] = "time", [BY_PEAK] = "peak", [BY_FINAL] = "final"};
  size_t by;
  struct tg__blocks *b = NULL;
  enum tg_err err = tg__ask_choice(a, "by", choices, sizeof choices / sizeof *choices, &by, e);
  if (err) return err;
  struct work w = {.t = t, .out = out, .by = (enum by)by};
  const bool raw = is_timeline(t);
  if (!raw) err = tg__blocks_read(t, a, &b, e);
  w.b = b;
  if (!err && !(raw ? follow_timeline(&w) : follow_blocks(&w))) err = tg__no_memory(e, "drawing the timeline");
  tg__free(w.curves);
  return err;
}
