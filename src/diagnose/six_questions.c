/* six_questions: yes or no with a number, in the order in which a profile is read. */
#include "diagnose/work_bounds.h"

enum { BUSY_PCT = 80, WAITS_PCT = 5, FULL_PCT = 90 };

struct answer {
  const char *about, *question, *unit;
  bool yes_is_well;
  double limit; /* yes from there on; NaN: unknown */
  enum tg__question_id next;
  const char *words;
  double value; /* NaN: unknown */
  char evidence[300];
};

static void say_utilisation(struct tg__facts *f, struct answer *a) {
  size_t devices = 0;
  a->value = tg__pct(f->part_ns[TG__PART_CPU_EXEC] - f->label_ns, f->sum_ns);
  if (f->has_device_work) {
    f->failed |= !tg__devices_busy(f->t, f->rank, &a->value, &devices);
    TG_FORMAT(a->evidence, "some work runs on %s for %.1f %% of the steps: %s",
              devices > 1 ? "a device, on average," : "it", a->value, tg__utilisation_class(a->value));
  } else {
    a->question = "do operators run?";
    a->next = TG__Q_ops;
    a->words = "--limit 20";
    TG_FORMAT(a->evidence, "no device was recorded; operators run on the host for %.1f %% of the %s", a->value,
              !tg__has_steps(f) ? "recording" : "steps");
  }
}

static void say_loader(struct tg__facts *f, struct answer *a) {
  const int64_t loader = f->part_ns[TG__PART_DATALOADER], waits = tg__input_waits(f);
  a->value = tg__pct(loader + waits, f->sum_ns);
  TG_FORMAT(a->evidence, "data loader %.2f ms %s, waits for files and queues %.2f ms", tg__step_ms(f, loader),
            tg__period_per(f), tg__step_ms(f, waits));
}

static void say_communication(struct tg__facts *f, struct answer *a) {
  int64_t all_ns = 0, hidden_ns = 0;
  for (size_t i = 0; i < f->steps.count; i++) {
    all_ns += f->steps.steps[i].communication_ns;
    hidden_ns += f->steps.steps[i].overlap_ns;
  }
  const int64_t exposed = f->part_ns[TG__PART_COMMUNICATION];
  a->value = tg__pct(exposed, f->sum_ns);
  if (exposed && !f->has_device_work)
    TG_FORMAT(a->evidence, "collectives of the host take %.2f ms %s", tg__step_ms(f, exposed), tg__period_per(f));
  else if (all_ns || exposed)
    TG_FORMAT(a->evidence, "%.2f ms %s with nothing computed beside it; %.2f ms are hidden under computing",
              tg__step_ms(f, exposed), tg__period_per(f), tg__step_ms(f, hidden_ns));
  else
    TG_FORMAT(a->evidence, "there are no collectives");
}

static void say_intensity(struct tg__facts *f, struct answer *a) {
  struct tg__work_bounds work;
  tg__bound_work(f, &work);
  a->limit = work.ridge;
  a->value = work.intensity;
  if (work.is_known)
    TG_FORMAT(
        a->evidence,
        "%.1f operations for each byte that operators read or write; from %.1f on computing bounds. Work below that, "
        "and near the bandwidth of memory: %.1f %% of the operators' time",
        work.intensity, work.ridge, 100 * work.memory_part);
  else
    TG_FORMAT(a->evidence, "%s", work.why_not);
}

static void say_memory(struct tg__facts *f, struct answer *a) {
  const struct tg__rank *const r = &f->t->ranks[f->rank];
  int64_t most = 0;
  for (size_t i = 0; i < r->device_count; i++) {
    const int64_t peak = tg__device_peak(f, &r->devices[i]);
    const double pct = tg__pct(peak, r->devices[i].total_memory_bytes);
    if (peak <= 0 || r->devices[i].total_memory_bytes <= 0 || !(isnan(a->value) || pct > a->value)) continue;
    a->value = pct;
    TG_FORMAT(a->evidence, "%.2f of %.2f GiB of device %lld are allocated at the peak", (double)peak / (1 << 30),
              (double)r->devices[i].total_memory_bytes / (1 << 30), (long long)r->devices[i].id);
  }
  struct tg_table *const t = isnan(a->value) ? tg__facts_ask(f, TG__Q_memory, NULL, NULL) : NULL;
  for (size_t i = 0; t && i < t->rows; i++)
    if (tg__fact_number(t, i, "peak_net_bytes") > most) most = tg__fact_number(t, i, "peak_net_bytes");
  if (isnan(a->value) && most)
    TG_FORMAT(a->evidence, "%.1f MB more than at its start are in use at the peak; how much there is, is not recorded",
              (double)most / 1e6);
  else if (isnan(a->value))
    TG_FORMAT(a->evidence, "no memory was recorded; record with profile_memory=True");
  tg__table_free(t);
}

/* A host that is ahead waits for its device and loses nothing: what counts is that the device stands still. */
static void say_synchronisation(struct tg__facts *f, struct answer *a) {
  struct tg_table *const t = tg__facts_ask(f, TG__Q_syncs, NULL, NULL);
  int64_t wait_ns = 0, idle_ns = 0, calls = 0;
  if (!f->has_device_work) a->question = "does the host read values out of tensors?";
  for (size_t i = 0; t && i < t->rows; i++) {
    wait_ns += tg__fact_number(t, i, "wait_ns");
    idle_ns += tg__fact_number(t, i, "idle_ns");
    calls += tg__fact_number(t, i, "calls");
  }
  TG_FORMAT(a->evidence, "no calls were recorded that could wait");
  if (t) {
    a->value = tg__pct(f->has_device_work ? idle_ns : wait_ns, f->sum_ns);
    TG_FORMAT(a->evidence, "%lld call%s, %.2f ms in all, beside %.2f ms of %s", (long long)calls, calls == 1 ? "" : "s",
              tg__ms(wait_ns), tg__ms(f->sum_ns), !tg__has_steps(f) ? "recording" : "steps");
  }
  if (t && f->has_device_work)
    TG_ADD(a->evidence, "; the device stands still for %.2f ms around their ends", tg__ms(idle_ns));
  tg__table_free(t);
}

static const struct {
  struct answer answer; /* before anything is known */
  void (*say)(struct tg__facts *f, struct answer *a);
} questions[] = {
    {{"utilisation", "is the device busy?", "%", true, BUSY_PCT, TG__Q_gaps, "--by cause", NAN, ""}, say_utilisation},
    {{"loader", "do steps wait for their input?", "%", false, WAITS_PCT, TG__Q_loader_overlap, "", NAN, ""},
     say_loader},
    {{"communication", "is communication exposed?", "%", false, WAITS_PCT, TG__Q_overlap, "--by step", NAN, ""},
     say_communication},
    {{"intensity", "does computing bound the operators, and not memory?", "FLOP/B", true, NAN, TG__Q_roofline,
      "--by shape", NAN, ""},
     say_intensity},
    {{"memory", "is memory nearly full?", "%", false, FULL_PCT, TG__Q_memory, "--by category", NAN, ""}, say_memory},
    {{"synchronisation", "does the device stand still because the host waits for it?", "%", false, WAITS_PCT,
      TG__Q_syncs, "", NAN, ""},
     say_synchronisation},
};

static void put_answer(const struct tg__facts *f, const struct answer *a, struct tg_table *out) {
  const bool is_known = !isnan(a->value) && !isnan(a->limit), is_yes = is_known && a->value >= a->limit;
  tg__put_rank(out, f->t, f->rank);
  tg__put_cstr(out, a->about);
  tg__put_cstr(out, a->question);
  tg__put_cstr(out, !is_known ? "unknown" : is_yes ? "yes" : "no");
  if (is_known)
    tg__put_bool(out, is_yes == a->yes_is_well);
  else
    tg__put_null(out);
  tg__put_real_if(out, !isnan(a->value), a->value);
  tg__put_cstr(out, a->unit);
  tg__put_real_if(out, !isnan(a->limit), a->limit);
  tg__put_cstr(out, a->evidence);
  tg__put_question(f, a->next, a->words, out);
}

static void put_six_questions(struct tg__facts *f, struct tg_table *out) {
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    struct answer a = questions[i].answer;
    questions[i].say(f, &a);
    put_answer(f, &a, out);
  }
}

enum tg_err tg__answer_six_questions(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                     struct tg_error *e) {
  return tg__put_of_ranks(t, a, put_six_questions, "answering six questions", out, e);
}
