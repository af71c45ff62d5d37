/* bottleneck: how the steps divide among what can bound a program: input, host, device, communication and memory. */
#include "diagnose/samples.h"
#include "diagnose/work_bounds.h"

enum kind { INPUT, HOST, DEVICE, COMMUNICATION, MEMORY, IDLE, KINDS };
static const char *const kind_names[KINDS] = {"input", "host", "device", "communication", "memory", "idle"};

/* ---- how the steps divide ---------------------------------------------------------------------- */

struct division {
  int64_t ns[KINDS], wait_ns; /* wait_ns: for files, other processes and queues */
  struct tg__work_bounds work;
};

/* Waiting between operators, as the samples show it. */
static int64_t sampled_waits(struct tg__facts *f) {
  struct tg__sampled seen;
  tg__sample_stretches(f, tg__bare_spans(f), &seen);
  const int64_t waits = seen.doing_ns[TG__DOING_DISK] + seen.doing_ns[TG__DOING_PIPE] +
                        seen.doing_ns[TG__DOING_SOCKET] + seen.doing_ns[TG__DOING_SUBPROCESS];
  return seen.is_known ? waits : 0;
}

static int64_t at_most(int64_t ns, int64_t most) { return ns < most ? ns : most; }

/* The parts of the steps exclude one another; kernels come first, so that a collective counts where it is exposed. */
static void divide(struct tg__facts *f, struct division *d) {
  const int64_t *const p = f->part_ns;
  *d = (struct division){0};
  tg__bound_work(f, &d->work);
  const bool has_steps = tg__has_steps(f);
  const int64_t copies = p[TG__PART_MEMCPY] + p[TG__PART_MEMSET],
                marked = at_most(tg__input_waits(f), p[TG__PART_CPU_EXEC] + p[TG__PART_OTHER]),
                between = p[TG__PART_CPU_EXEC] + p[TG__PART_OTHER] - marked;
  d->wait_ns = marked + (has_steps ? at_most(sampled_waits(f), at_most(p[TG__PART_OTHER], between)) : 0);
  int64_t host = p[TG__PART_RUNTIME] + p[TG__PART_CPU_EXEC] + p[TG__PART_OTHER] - d->wait_ns;
  if (!has_steps) d->ns[IDLE] = at_most(p[TG__PART_OTHER], host);
  host -= d->ns[IDLE];
  const int64_t work = f->has_device_work ? p[TG__PART_KERNEL] : at_most(p[TG__PART_CPU_EXEC], host),
                bound = (int64_t)(d->work.memory_part * (double)work);
  d->ns[INPUT] = p[TG__PART_DATALOADER] + d->wait_ns;
  d->ns[COMMUNICATION] = p[TG__PART_COMMUNICATION];
  d->ns[MEMORY] = bound + copies;
  d->ns[DEVICE] = f->has_device_work ? work - bound : 0;
  d->ns[HOST] = f->has_device_work ? host : host - bound;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void say_memory(const struct tg__facts *f, const struct division *d, char *text, size_t size) {
  const double copies = tg__pct(f->part_ns[TG__PART_MEMCPY] + f->part_ns[TG__PART_MEMSET], f->all_ns);
  if (!d->work.is_known)
    tg__text_format(text, size, "copies and fills %.1f %%; whether memory bounds operators is not known: %s", copies,
                    d->work.why_not);
  else
    tg__text_format(
        text, size,
        "copies and fills %.1f %%; operators below %.1f FLOP/B and near the bandwidth of memory take %.1f %% of the "
        "operators' time, at %.1f GB/s",
        copies, d->work.ridge, 100 * d->work.memory_part, d->work.bytes_per_s / 1e9);
  tg__say_rows(f, &d->work, text, size);
}

static void say_kind(const struct tg__facts *f, const struct division *d, enum kind k, char *text, size_t size) {
  const int64_t *const p = f->part_ns;
  const double all = (double)f->all_ns / 100;
  switch (k) {
  case INPUT:
    tg__text_format(text, size, "data loader %.1f %%, waits for files, queues and other processes %.1f %%",
                    (double)p[TG__PART_DATALOADER] / all, (double)d->wait_ns / all);
    return;
  case HOST:
    tg__text_format(text, size, "operators and labels %.1f %%, calls of the runtime %.1f %%, between them %.1f %%%s",
                    (double)p[TG__PART_CPU_EXEC] / all, (double)p[TG__PART_RUNTIME] / all,
                    (double)p[TG__PART_OTHER] / all,
                    f->has_device_work ? "; no device works meanwhile" : "; without waits and work that memory bounds");
    return;
  case DEVICE:
    tg__text_format(text, size, "kernels %.1f %%%s", (double)p[TG__PART_KERNEL] / all,
                    d->work.memory_part > 0 ? ", less those that memory bounds" : "");
    return;
  case COMMUNICATION:
    tg__text_format(text, size, "collectives while nothing is computed");
    return;
  case MEMORY:
    say_memory(f, d, text, size);
    return;
  default:
    tg__text_format(text, size,
                    "nothing that was recorded runs; no steps are marked, so it may be waiting for requests");
  }
}

static void put_next(const struct tg__facts *f, enum kind k, struct tg_table *out) {
  static const struct tg__next next[KINDS] = {
      [INPUT] = {TG__Q_loader_overlap, "", ""},      [HOST] = {TG__Q_ops, "--sort 'self_cpu_ns desc' --limit 20", ""},
      [DEVICE] = {TG__Q_kernels, "--limit 20", ""},  [COMMUNICATION] = {TG__Q_overlap, "--by step", ""},
      [MEMORY] = {TG__Q_roofline, "--by shape", ""}, [IDLE] = {TG__Q_overview, "", ""}};
  tg__put_question(f, next[k].question, next[k].words, out);
}

static void put_kinds(struct tg__facts *f, const struct division *d, struct tg_table *out) {
  bool is_said[KINDS] = {false};
  for (size_t n = 0; n < KINDS; n++) {
    enum kind top = KINDS;
    for (enum kind k = INPUT; k < KINDS; k++)
      if (!is_said[k] && (top == KINDS || d->ns[k] > d->ns[top])) top = k;
    is_said[top] = true;
    if ((top == DEVICE && !f->has_device_work) || (top == IDLE && !d->ns[IDLE])) continue;
    char text[400];
    say_kind(f, d, top, text, sizeof text);
    tg__put_rank(out, f->t, f->rank);
    tg__put_cstr(out, kind_names[top]);
    tg__put_bool(out, n == 0 && top != IDLE && d->ns[top] > 0);
    tg__put_real(out, tg__pct(d->ns[top], f->all_ns));
    tg__put_int(out, tg__per_step(f, d->ns[top]));
    tg__put_cstr(out, text);
    put_next(f, top, out);
  }
}

static void put_bottleneck(struct tg__facts *f, struct tg_table *out) {
  struct division d;
  divide(f, &d);
  if (!f->failed && f->all_ns > 0) put_kinds(f, &d, out);
  if (f->noise.is_busy) tg__table_note(out, "%s: part of the host's time is waiting for a core", tg__busy_machine);
}

enum tg_err tg__answer_bottleneck(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  return tg__put_of_ranks(t, a, put_bottleneck, "looking for the bottleneck", out, e);
}
