/* Reads the logs of the recorded processes for the closing message: which steps, at what cost, what went wrong. */
#include "cli/run_log.h"

#include <stdio.h>
#include <stdlib.h>

#include "tachograph/read.h"

enum { LINE_MOST = 4096 };

/* One process' log while it is read. */
struct reading {
  struct tg__run_log *log;
  int64_t pid;
  bool counts;     /* its steps are the ones to show: no earlier log had a window */
  bool has_steps;  /* at least one was read */
  char source[64]; /* how they were found */
  bool ok;
};

static bool starts(const char *line, const char *word, const char **rest) {
  const size_t n = strlen(word);
  if (strncmp(line, word, n) != 0) return false;
  *rest = line + n;
  return true;
}

void tg__run_log_note(struct tg__run_log *log, const char *text) {
  for (size_t i = 0; i < log->note_count; i++) {
    if (strncmp(log->notes[i], text, sizeof log->notes[i] - 1) == 0) return;
  }
  if (log->note_count < TG__RUN_NOTES)
    snprintf(log->notes[log->note_count++], sizeof *log->notes, "%.*s", (int)sizeof *log->notes - 1, text);
}

static bool keep(struct tg__raw_session_steps *steps, int64_t ns) {
  void *items = steps->ns;
  if (!tg__grow(&items, &steps->cap, steps->count + 1, sizeof *steps->ns)) return false;
  steps->ns = items;
  steps->ns[steps->count++] = ns;
  return true;
}

static bool keep_timed(struct tg__run_log *log, const char *phase, int64_t ns, int64_t cpu_ns) {
  void *items = log->timed;
  if (log->timed_count == TG__TIMED_MOST) return true;
  if (!tg__grow(&items, &log->timed_cap, log->timed_count + 1, sizeof *log->timed)) return false;
  log->timed = items;
  const bool is_bare = strcmp(phase, "base") == 0 || strcmp(phase, "after") == 0 || strcmp(phase, "rest") == 0;
  log->timed[log->timed_count++] = (struct tg__timed_step){ns, cpu_ns, !is_bare};
  return true;
}

static void forget_long(struct tg__run_log *log) {
  while (log->long_count) tg__free(log->longer[--log->long_count].stack);
}

static void read_long(struct reading *r, const char *text) {
  struct tg__run_log *const log = r->log;
  const char *const stack = strchr(text, ' ');
  int64_t number;
  if (!r->counts || !stack || log->long_count == TG__LONG_MOST ||
      !tg__str_to_int((struct tg__str){text, (uint32_t)(stack - text)}, &number))
    return;
  const size_t size = strlen(stack);
  char *const copy = tg__alloc(size);
  r->ok = r->ok && copy;
  if (!copy) return;
  memcpy(copy, stack + 1, size);
  log->longer[log->long_count++] = (struct tg__long_step){number, copy};
}

/* They replace those of an earlier process without a window. */
static void begin_steps(struct reading *r) {
  struct tg__run_log *const log = r->log;
  r->has_steps = true;
  log->step_processes++;
  if (!r->counts) return;
  log->step_pid = r->pid;
  memcpy(log->source, r->source, sizeof log->source);
  log->steps = log->probes = 0;
  log->with.count = log->without.count = log->cpu_with.count = log->cpu_without.count = 0;
  log->before.count = log->after.count = log->pair_extra.count = log->pair_bare.count = 0;
  log->record_least_ns = log->record_most_ns = 0;
  log->window_records = 0;
  log->timed_count = 0;
  tg__out_free(&log->compiles);
  log->compiles = (struct tg__out){0};
  forget_long(log);
  log->first_step = log->last_step = log->slowest_step = log->slowest_ns = -1;
}

/* Of a process without steps it says nothing. */
static void read_source(struct reading *r, const char *text) {
  snprintf(r->source, sizeof r->source, "%.*s", (int)sizeof r->source - 1, text);
  if (r->counts && r->has_steps) memcpy(r->log->source, r->source, sizeof r->log->source);
}

static void read_step(struct reading *r, const char *text) {
  char phase[16];
  long long number, ns, cpu_ns;
  if (sscanf(text, "%15s %lld %lld %lld", phase, &number, &ns, &cpu_ns) != 4 || ns < 0 || cpu_ns < 0) return;
  if (!r->has_steps) begin_steps(r);
  if (!r->counts) return;
  struct tg__run_log *const log = r->log;
  log->steps = log->steps > number ? log->steps + 1 : number + 1; /* one that was never over has a number, too */
  r->ok = r->ok && keep_timed(log, phase, ns, cpu_ns);
  if (ns > log->slowest_ns) log->slowest_ns = ns, log->slowest_step = number;
  if (strcmp(phase, "probe") == 0) { /* recorded into nothing: in a pair */
    log->probes++;
    return;
  }
  const bool is_after = strcmp(phase, "after") == 0 || strcmp(phase, "rest") == 0;
  if (strcmp(phase, "window") != 0) r->ok = r->ok && keep(is_after ? &log->after : &log->before, ns);
  if (strcmp(phase, "window") == 0) {
    r->ok = r->ok && keep(&log->with, ns) && keep(&log->cpu_with, cpu_ns);
    if (log->first_step < 0 || number < log->first_step) log->first_step = number;
    if (number > log->last_step) log->last_step = number;
  } else if (strcmp(phase, "start") != 0) {
    r->ok = r->ok && keep(&log->without, ns) && keep(&log->cpu_without, cpu_ns);
  }
}

static void read_pair(struct reading *r, const char *text) {
  long long bare_ns, recorded_ns;
  if (!r->counts || sscanf(text, "%lld %lld", &bare_ns, &recorded_ns) != 2 || bare_ns < 0 || recorded_ns < 0) return;
  r->ok = r->ok && keep(&r->log->pair_extra, recorded_ns - bare_ns) && keep(&r->log->pair_bare, bare_ns);
}

static void read_cost(struct reading *r, const char *text) {
  double least, most;
  if (!r->counts || sscanf(text, "%lf %lf", &least, &most) != 2 || !(least > 0 && most >= least)) return;
  r->log->record_least_ns = least;
  r->log->record_most_ns = most;
}

/* Skips an incomplete line, which a killed process leaves. */
static void read_compile(struct reading *r, const char *row) {
  enum { MOST_BYTES = 1 << 20 };
  const size_t len = strlen(row);
  if (!r->counts || len < 2 || row[0] != '{' || row[len - 1] != '}' || r->log->compiles.len > MOST_BYTES) return;
  tg__out_char(&r->log->compiles, ',');
  tg__out_bytes(&r->log->compiles, row, len);
}

static void read_closed(struct reading *r, const char *text) {
  char phase[16];
  long long records, lost;
  if (sscanf(text, "%15s %lld %lld", phase, &records, &lost) != 3) return;
  r->log->lost += lost > 0 ? lost : 0;
  if (r->counts && strcmp(phase, "window") == 0) r->log->window_records = records;
}

static void read_line(struct reading *r, const char *line) {
  struct tg__run_log *const log = r->log;
  const char *rest;
  char phase[16], recorder[32] = "";
  if (starts(line, "step ", &rest))
    read_step(r, rest);
  else if (starts(line, "process ", &rest))
    log->processes++;
  else if (starts(line, "exception ", &rest) && (r->counts || !*log->exception))
    snprintf(log->exception, sizeof log->exception, "%.*s", (int)sizeof log->exception - 1, rest);
  else if (starts(line, "note ", &rest))
    tg__run_log_note(log, rest);
  else if (strcmp(line, "unrecorded option") == 0)
    log->bare_option++;
  else if (strcmp(line, "unrecorded environment") == 0)
    log->bare_environment++;
  else if (starts(line, "source ", &rest))
    read_source(r, rest);
  else if (starts(line, "closed ", &rest))
    read_closed(r, rest);
  else if (starts(line, "long ", &rest))
    read_long(r, rest);
  else if (starts(line, "pair ", &rest))
    read_pair(r, rest);
  else if (starts(line, "cost ", &rest))
    read_cost(r, rest);
  else if (starts(line, "compile ", &rest))
    read_compile(r, rest);
  else if (starts(line, "phase ", &rest) && sscanf(rest, "%15s %*d %31s", phase, recorder) >= 1) {
    if (*recorder && strcmp(recorder, "nothing") != 0) snprintf(log->recorder, sizeof log->recorder, "%s", recorder);
    if (r->counts && strcmp(phase, "window") == 0) log->window_began = true;
  }
}

/* A recording costs most where it begins: a first step that takes more than 1.5 times the CPU time of the ten after it
 * is named, and no part of the figures. */
static void leave_out_slow_first(struct tg__run_log *log) {
  enum { AFTER = 10 };
  int64_t after[AFTER];
  const size_t n = log->cpu_with.count < AFTER + 1 ? log->cpu_with.count : AFTER + 1;
  if (n < 2) return;
  memcpy(after, log->cpu_with.ns + 1, (n - 1) * sizeof *after);
  if (2 * log->cpu_with.ns[0] <= 3 * tg__overhead_median(after, n - 1).median) return;
  log->slow_first_step_ns = log->with.ns[0];
  struct tg__raw_session_steps *const both[] = {&log->with, &log->cpu_with};
  for (size_t i = 0; i < 2; i++) memmove(both[i]->ns, both[i]->ns + 1, --both[i]->count * sizeof *both[i]->ns);
}

static bool read_log(struct tg__run_log *log, const char *path) {
  struct reading r = {.log = log, .counts = !log->window_began, .ok = true};
  const char *const pid = strrchr(path, '-') + 1;
  (void)tg__str_to_int((struct tg__str){pid, (uint32_t)strlen(pid)}, &r.pid);
  FILE *f = fopen(path, "re");
  if (!f) return true;
  char line[LINE_MOST];
  log->pythons++;
  while (r.ok && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    read_line(&r, line);
  }
  fclose(f);
  return r.ok;
}

static void note_bare(struct tg__run_log *log, int64_t count, const char *why) {
  char text[sizeof *log->notes];
  if (!count) return;
  snprintf(text, sizeof text, "not recorded: %lld Python process%s that the program started %s", (long long)count,
           count == 1 ? "" : "es", why);
  tg__run_log_note(log, text);
}

bool tg__run_log_read(struct tg__run_log *log, const char *raw_folder) {
  *log = (struct tg__run_log){
      .first_step = -1, .last_step = -1, .slowest_step = -1, .slowest_ns = -1, .slow_first_step_ns = -1};
  struct tg__arena arena = {0};
  const char **names;
  size_t count;
  bool ok = tg__path_list(raw_folder, &arena, &names, &count, NULL) == TG_OK;
  for (size_t i = 0; ok && i < count; i++) {
    const char *slash = strrchr(names[i], '/');
    if (slash && strncmp(slash, "/log-", 5) == 0 && slash[5] >= '0' && slash[5] <= '9') ok = read_log(log, names[i]);
  }
  leave_out_slow_first(log);
  note_bare(log, log->bare_option, "with -I, -E or -S: such a Python ignores the environment; leave the option out");
  note_bare(log, log->bare_environment,
            "without the variables TACHOGRAPH_RUN and PYTHONPATH of this one: pass them on");
  tg__arena_free(&arena);
  return ok;
}

void tg__run_log_free(struct tg__run_log *log) {
  tg__free(log->with.ns);
  tg__free(log->without.ns);
  tg__free(log->cpu_with.ns);
  tg__free(log->cpu_without.ns);
  tg__free(log->pair_extra.ns);
  tg__free(log->pair_bare.ns);
  tg__free(log->before.ns);
  tg__free(log->after.ns);
  tg__free(log->timed);
  tg__out_free(&log->compiles);
  forget_long(log);
}
