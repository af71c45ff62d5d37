/* diagnosis: components, operations and what to measure next. */
#include "diagnose/diagnosis.h"

#include <ctype.h>

enum { MOST_ITEMS = 3 };

const char *tg__fact_cstr(const struct tg_table *t, size_t row, const char *column) {
  const struct tg__str s = tg__fact_text(t, row, column);
  return s.len ? s.ptr : "";
}

const char *tg__say_ask(struct tg__diagnosis *d, enum tg__question_id id, const char *words) {
  TG_FORMAT(d->ask, "tachograph ask FILE %s%s%s",
            d->f->questions ? tg__catalog_question(d->f->questions, id)->name : "", *words ? " " : "", words);
  return d->ask;
}

void tg__put_diagnosis(struct tg__diagnosis *d, const char *part, const char *level, const char *item, double ns,
                       double share_pct, const char *evidence, const char *command) {
  const bool has_range = !isnan(d->low_ns) && !isnan(d->high_ns);
  tg__put_rank(d->out, d->f->t, d->f->rank);
  tg__put_cstr(d->out, part);
  tg__put_cstr(d->out, level);
  tg__put_cstr(d->out, item);
  tg__put_real_if(d->out, !isnan(ns), ns);
  tg__put_cstr(d->out, isnan(ns) ? NULL : "ns");
  tg__put_real_if(d->out, !isnan(share_pct), share_pct);
  tg__put_cstr(d->out, d->where && *d->where ? d->where : NULL);
  tg__put_cstr(d->out, evidence);
  tg__put_cstr(d->out, command);
  tg__put_real_if(d->out, has_range, d->low_ns);
  tg__put_real_if(d->out, has_range, d->high_ns);
  d->where = NULL;
  d->low_ns = d->high_ns = NAN;
}

/* ---- the largest rows of an answer ------------------------------------------------------------- */

typedef bool counts_fn(const struct tg_table *t, size_t row);

/* The rows with the most in a column of numbers, of those that count and have some; how many. */
static size_t find_largest(const struct tg_table *t, const char *column, counts_fn *counts, size_t rows[MOST_ITEMS]) {
  size_t n = 0;
  while (t && n < MOST_ITEMS) {
    size_t top = SIZE_MAX;
    for (size_t i = 0; i < t->rows; i++) {
      bool is_taken = false;
      for (size_t k = 0; k < n; k++) is_taken |= rows[k] == i;
      if (is_taken || tg__fact_number(t, i, column) <= 0 || (counts && !counts(t, i))) continue;
      if (top == SIZE_MAX || tg__fact_number(t, i, column) > tg__fact_number(t, top, column)) top = i;
    }
    if (top == SIZE_MAX) break;
    rows[n++] = top;
  }
  return n;
}

static bool is_label(const struct tg_table *t, size_t row) {
  const struct tg__str name = tg__fact_text(t, row, "name");
  return tg__str_eq(tg__fact_text(t, row, "side"), TG_STR("cpu")) && !tg__name_is_profiler_step(name, NULL) &&
         !tg__name_is_dataloader(name);
}

/* ---- component --------------------------------------------------------------------------------- */

static void put_phases_of_steps(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_phases, NULL, NULL);
  for (size_t i = 0; t && i < t->rows; i++) {
    const double host_ns = tg__fact_real(t, i, "host_ns"), device_ns = tg__fact_real(t, i, "device_ns");
    char text[120] = "on the host";
    if (!(host_ns > 0) && !(device_ns > 0)) continue;
    if (d->f->has_device_work) TG_FORMAT(text, "on the host; it launches %.2f ms of device work", device_ns / 1e6);
    tg__put_diagnosis(d, "component", "phase", tg__fact_cstr(t, i, "phase"), host_ns, tg__fact_real(t, i, "share_pct"),
                      text, NULL);
  }
  tg__table_free(t);
}

static void put_labels(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_annotations, NULL, NULL);
  size_t rows[MOST_ITEMS];
  const size_t n = find_largest(t, "total_ns", is_label, rows);
  for (size_t k = 0; k < n; k++) {
    char text[120];
    TG_FORMAT(text, "%lld times in the recording, on average", (long long)tg__fact_number(t, rows[k], "calls"));
    tg__put_diagnosis(d, "component", "label", tg__fact_cstr(t, rows[k], "name"), tg__fact_real(t, rows[k], "mean_ns"),
                      NAN, text, tg__say_ask(d, TG__Q_annotations, "--sort 'total_ns desc'"));
  }
  tg__table_free(t);
}

/* Without the modules in them: a parent would hide the one that costs. */
static void put_modules(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_modules, NULL, NULL);
  const bool on_device = d->f->has_device_work;
  const char *const by = on_device ? "self_device_ns" : "self_cpu_ns";
  const char *const back = on_device ? "backward_self_device_ns" : "backward_self_cpu_ns";
  size_t rows[MOST_ITEMS];
  const size_t n = find_largest(t, by, NULL, rows);
  for (size_t k = 0; k < n; k++) {
    char text[120];
    const int64_t back_ns = tg__fact_number(t, rows[k], back);
    TG_FORMAT(text, "%s, in the recording; of that %.2f ms in its backward",
              on_device ? "on the device" : "on the host", tg__ms(back_ns));
    tg__put_diagnosis(d, "component", "module", tg__fact_cstr(t, rows[k], "name"),
                      (double)(tg__fact_number(t, rows[k], by) + back_ns), tg__fact_real(t, rows[k], "self_pct"), text,
                      tg__say_ask(d, TG__Q_modules, ""));
  }
  tg__table_free(t);
}

void tg__put_components(struct tg__diagnosis *d) {
  put_phases_of_steps(d);
  put_labels(d);
  put_modules(d);
}

/* ---- operation --------------------------------------------------------------------------------- */

struct kind_of_operation {
  enum tg__question_id question;
  const char *level, *time, *words, *without;
};

static void put_operation(struct tg__diagnosis *d, const struct kind_of_operation *o) {
  struct tg_table *const t = tg__facts_ask(d->f, o->question, NULL, NULL);
  size_t rows[MOST_ITEMS];
  const size_t n = find_largest(t, o->time, NULL, rows);
  int64_t all_ns = 0;
  for (size_t i = 0; t && i < t->rows; i++) all_ns += tg__fact_number(t, i, o->time);
  for (size_t k = 0; k < n; k++) {
    const int64_t ns = tg__fact_number(t, rows[k], o->time), calls = tg__fact_number(t, rows[k], "calls");
    char text[120];
    TG_FORMAT(text, "%lld call%s in the recording%s", (long long)calls, calls == 1 ? "" : "s", o->without);
    tg__put_diagnosis(d, "operation", o->level, tg__fact_cstr(t, rows[k], "name"), (double)ns, tg__pct(ns, all_ns),
                      text, tg__say_ask(d, o->question, o->words));
  }
  if (n && o->question == TG__Q_kernels) {
    TG_FORMAT(d->kernel, "%s", tg__fact_cstr(t, rows[0], "name"));
    d->kernel_calls = tg__fact_number(t, rows[0], "calls");
  }
  tg__table_free(t);
}

void tg__put_operations(struct tg__diagnosis *d) {
  static const char own_time[] = ", without what runs inside";
  static const struct kind_of_operation kernels = {TG__Q_kernels, "kernel", "total_ns", "--by op --limit 20", ""},
                                        device = {TG__Q_ops, "operator", "self_device_ns",
                                                  "--sort 'self_device_ns desc' --limit 20", own_time},
                                        host = {TG__Q_ops, "operator", "self_cpu_ns",
                                                "--sort 'self_cpu_ns desc' --limit 20", own_time},
                                        lines = {TG__Q_stacks, "line", "self_cpu_ns",
                                                 "--sort 'self_cpu_ns desc' --limit 20", own_time};
  if (d->f->has_device_work) put_operation(d, &kernels);
  put_operation(d, d->f->has_device_work ? &device : &host);
  put_operation(d, &lines);
}

/* ---- what to measure next ---------------------------------------------------------------------- */

/* The name as Nsight Compute has it: only the function. It ends before a byte that ends a word for a shell. */
static void say_function(const char *kernel, char *buf, size_t size) {
  static const char anonymous[] = "(anonymous namespace)::";
  const char *begin = strstr(kernel, anonymous);
  size_t n = 0;
  begin = begin ? begin + sizeof anonymous - 1 : kernel;
  const char *const end = begin + strcspn(begin, "<(");
  for (const char *p = begin; p < end; p++)
    if (*p == ' ' || *p == ':') begin = p + 1;
  while (n + 1 < size && begin + n < end && (isalnum((unsigned char)begin[n]) || begin[n] == '_')) {
    buf[n] = begin[n];
    n++;
  }
  buf[n] = 0;
}

static void put_measure(struct tg__diagnosis *d, const char *item, const char *why, const char *command) {
  tg__put_diagnosis(d, "measure", "command", item, NAN, NAN, why, command);
}

static bool is_copy(const char *kernel) { return strncmp(kernel, "Mem", 3) == 0; }

void tg__put_measures(struct tg__diagnosis *d) {
  const char *const next = *d->change_next ? d->change_next : d->kind_next;
  char command[400], function[120];
  const bool is_kernel = strcmp(d->kind, "device") == 0 || (strcmp(d->kind, "memory") == 0 && *d->kernel);
  if (*next) put_measure(d, "more of it", *d->change_next ? "of the first change" : "of the bottleneck", next);
  if (is_kernel && *d->kernel && !is_copy(d->kernel)) {
    say_function(d->kernel, function, sizeof function);
    TG_FORMAT(command, "ncu --set full --kernel-name %s --launch-skip %lld --launch-count 1 -o kernel python SCRIPT.py",
              function, (long long)d->kernel_calls);
    if (*function)
      put_measure(d, "inside the kernel", "kernels bound the step; what holds one up, its instructions say", command);
  } else if (d->f->has_device_work && *d->kind) {
    put_measure(d, "the system", "the device waits; what other processes and the driver do, the system's trace says",
                "nsys profile -t cuda,nvtx,osrt -o system python SCRIPT.py");
  }
  put_measure(d, "after the change", "one change at a time, recorded under the same conditions",
              "tachograph diff FILE AFTER");
}
