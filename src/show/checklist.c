/* The checklist of a systematic profile: what of it is there, and what is missing. Each item names the artefact that
 * proves it. A conclusion takes a baseline, steps behind the warm-up and a look at the loader; a target that is met
 * takes none. */
#include "show/parts.h"
#include "show/report.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { BASELINE_MOST = 1 << 16 }; /* bytes of baseline.json */

/* An item is a file of the folder, or a question that the trace answers with so many rows at least. */
static const struct item {
  const char *group, *what, *file; /* file NULL: the question */
  enum tg__question_id question;
  struct tg_arg args[2];
  size_t least;
  const char *cure;
  const char *without;  /* where= of the question, of which there must be no row; NULL = none */
  const char *decisive; /* what no conclusion is drawn without, by its name; NULL = it can be missing */
} items[] = {
    {"baseline",
     "a measured baseline, with its target",
     "baseline.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph.baseline(values, metric=…, target=…).save(\"baseline.json\")",
     NULL,
     "a baseline"},
    {"baseline",
     "the conditions it was measured under",
     "conditions.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph.conditions(model).save(\"conditions.json\"), or tachograph.session(FOLDER)",
     NULL,
     NULL},
    {"baseline",
     "ten steps or more, without the first",
     NULL,
     TG__Q_steps,
     {{"where", "name != \"whole recording\""}},
     10,
     "record more steps: tachograph run --steps 20",
     NULL,
     NULL},
    {"baseline",
     "steps behind the warm-up",
     NULL,
     TG__Q_steps,
     {{"where", "name != \"whole recording\""}},
     2,
     "leave out the first steps, which allocate, tune and compile: tachograph run, or schedule(wait=1, warmup=2, …)",
     "name == \"ProfilerStep#0\"",
     "a warm-up"},
    {"baseline",
     "the data loader, recorded with the steps",
     NULL,
     TG__Q_annotations,
     {{"where", "name ~ \"enumerate(Data\""}},
     1,
     "record the program's own loop over its DataLoader, not one batch again and again",
     NULL,
     "a check of the loader"},
    {"type",
     "what bounds the program: host, device, memory or input",
     NULL,
     TG__Q_steps,
     {{"by", "summary"}},
     1,
     "mark steps: prof.step(), or tachograph run",
     NULL,
     NULL},
    {"component",
     "phases with labels",
     NULL,
     TG__Q_annotations,
     {{"where", "name !~ 'ProfilerStep#' and total_ns > 0"}},
     1,
     "with tachograph.record_function(\"forward\"): …",
     NULL,
     NULL},
    {"component",
     "modules of the model",
     NULL,
     TG__Q_modules,
     {{"limit", "1"}},
     1,
     "with_modules=True, or tachograph run",
     NULL,
     NULL},
    {"operation",
     "operators",
     NULL,
     TG__Q_ops,
     {{"limit", "1"}},
     1,
     "record the CPU: ProfilerActivity.CPU",
     NULL,
     NULL},
    {"operation",
     "input shapes",
     NULL,
     TG__Q_ops,
     {{"by", "shape"}, {"where", "group ~ \"[[\""}},
     1,
     "record_shapes=True, or tachograph run",
     NULL,
     NULL},
    {"operation",
     "lines of the program",
     NULL,
     TG__Q_stacks,
     {{"limit", "1"}},
     1,
     "with_stack=True, or tachograph run",
     NULL,
     NULL},
    {"verification",
     "a comparison with the run before the change",
     "diff.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph diff BEFORE AFTER --json -o diff.json",
     NULL,
     NULL},
};

static bool has_file(const char *folder, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return tg__path_kind(path) == TG__PATH_FILE;
}

static size_t count_rows(struct tg_trace *trace, enum tg__question_id question, const struct tg_arg *args,
                         size_t count) {
  struct tg_table *rows = NULL;
  const bool ok = tg__ask_trace(trace, tg__question_name(question), args, count, &rows, NULL) == TG_OK;
  const size_t n = ok ? rows->rows : 0;
  tg__table_free(rows);
  return n;
}

static bool has_answer(struct tg_trace *trace, const struct item *i) {
  size_t args = 0;
  while (args < 2 && i->args[args].name) args++;
  const struct tg_arg without = {"where", i->without};
  return count_rows(trace, i->question, i->args, args) >= i->least &&
         !(i->without && count_rows(trace, i->question, &without, 1));
}

/* ---- the target ---------------------------------------------------------------------------------- */

/* The value behind a key of the flat object that tachograph.baseline(…).save() writes; NULL: there is none. */
static const char *value_of(const char *json, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "\"%s\"", key);
  const char *at = strstr(json, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  while (*at == ' ' || *at == ':') at++;
  return *at ? at : NULL;
}

static void note_target(struct tg_table *t, const char *folder) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/baseline.json", folder);
  struct tg__file *f = NULL;
  char *const json = tg__alloc(BASELINE_MOST + 1);
  const int64_t n = json && tg__file_open(path, &f, NULL) == TG_OK ? tg__file_read(f, json, BASELINE_MOST) : -1;
  if (f) tg__file_close(f);
  if (n >= 0) {
    json[n] = 0;
    const char *const met = value_of(json, "met"), *const median = value_of(json, "median"),
                      *const target = value_of(json, "target");
    if (met && median && target && strncmp(met, "true", 4) == 0)
      tg__table_note(t,
                     "the target is met: a median of %.4g, and a target of %.4g (baseline.json). Stop here: no profile "
                     "is needed",
                     strtod(median, NULL), strtod(target, NULL));
    else if (met && median && target && strncmp(met, "false", 5) == 0)
      tg__table_note(t, "the target is not met: a median of %.4g, and a target of %.4g (baseline.json)",
                     strtod(median, NULL), strtod(target, NULL));
  }
  tg__free(json);
}

/* ---- the baseline -------------------------------------------------------------------------------- */

/* The times of the steps as the diagnosis has them, of the first rank. */
static void note_baseline(struct tg_table *t, struct tg_trace *trace) {
  static const struct tg_arg args[] = {{"where", "part = \"baseline\" and level = \"step\""}};
  struct tg_table *rows = NULL;
  char text[200] = "", time[32];
  if (tg__ask_trace(trace, tg__question_name(TG__Q_diagnosis), args, 1, &rows, NULL)) return;
  for (size_t i = 0; i < rows->rows && tg__cell_int(rows, i, "rank") == tg__cell_int(rows, 0, "rank"); i++) {
    const struct tg__str item = tg__cell_str(rows, i, "item");
    const double ns = tg__cell_real(rows, i, "value");
    const size_t len = strlen(text);
    if (!isnan(ns))
      snprintf(text + len, sizeof text - len, "%s%.*s %s", len ? ", " : "", (int)item.len, item.ptr,
               tg__human_ns(llround(ns), time));
  }
  if (*text) tg__table_note(t, "a step takes: %s", text);
  tg__table_free(rows);
}

/* ---- the list ------------------------------------------------------------------------------------ */

static void add_name(char *text, size_t size, const char *name) {
  const size_t len = strlen(text);
  snprintf(text + len, size - len, "%s%s", len ? ", " : "", name);
}

static struct tg_table *new_list(void) {
  struct tg_table *const t = tg__table_new("checklist");
  if (!t) return NULL;
  tg__table_add_column(t, "group", TG_TEXT, "");
  tg__table_add_column(t, "item", TG_TEXT, "");
  tg__table_add_column(t, "state", TG_TEXT, "");
  tg__table_add_column(t, "artefact", TG_TEXT, "");
  tg__table_add_column_as(t, "cure", TG_TEXT, "", TG__ROLE_OUTCOME); /* a sentence, complete at any width */
  return t;
}

struct tg_table *tg__checklist(struct tg_trace *trace, const char *path, size_t *missing) {
  struct tg_table *const t = new_list();
  char undecided[200] = "";
  *missing = 0;
  for (size_t k = 0; t && k < sizeof items / sizeof *items; k++) {
    const struct item *const i = &items[k];
    char proof[PATH_MAX + 64];
    const bool has = i->file ? has_file(path, i->file) : has_answer(trace, i);
    if (i->file)
      snprintf(proof, sizeof proof, "%s/%s", path, i->file);
    else
      snprintf(proof, sizeof proof, "tachograph ask %s %s", path, tg__question_name(i->question));
    tg__put_cstr(t, i->group);
    tg__put_cstr(t, i->what);
    tg__put_cstr(t, has ? "pass" : "missing");
    tg__put_cstr(t, has ? proof : NULL);
    tg__put_cstr(t, has ? NULL : i->cure);
    *missing += !has;
    if (!has && i->decisive) add_name(undecided, sizeof undecided, i->decisive);
  }
  if (t) note_baseline(t, trace);
  if (t && has_file(path, "baseline.json")) note_target(t, path);
  if (t && *undecided) tg__table_note(t, "no conclusion yet: %s missing", undecided);
  return t;
}
