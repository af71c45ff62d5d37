/* The checklist of a systematic profile: what of it is there, and what is missing. Each item names the artefact that
 * proves it. */
#include "base/base.h"
#include "catalog/catalog.h"
#include "tachograph/read.h"

#include <limits.h>
#include <stdio.h>

/* An item is a file of the folder, or a question that the trace answers with so many rows at least. */
static const struct item {
  const char *group, *what, *file; /* file NULL: the question */
  enum tg__question_id question;
  struct tg_arg args[2];
  size_t least;
  const char *cure;
} items[] = {
    {"baseline",
     "a measured baseline, with its target",
     "baseline.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph.baseline(values, metric=…, target=…).save(\"baseline.json\")"},
    {"baseline",
     "the conditions it was measured under",
     "conditions.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph.conditions(model).save(\"conditions.json\"), or tachograph.session(FOLDER)"},
    {"baseline",
     "ten steps or more, without the first",
     NULL,
     TG__Q_steps,
     {{"where", "name != \"whole recording\""}},
     10,
     "record more steps: tachograph run --steps 20"},
    {"type",
     "what bounds the program: host, device, memory or input",
     NULL,
     TG__Q_steps,
     {{"by", "summary"}},
     1,
     "mark steps: prof.step(), or tachograph run"},
    {"component",
     "phases with labels",
     NULL,
     TG__Q_annotations,
     {{"where", "name !~ 'ProfilerStep#' and total_ns > 0"}},
     1,
     "with tachograph.record_function(\"forward\"): …"},
    {"component",
     "modules of the model",
     NULL,
     TG__Q_modules,
     {{"limit", "1"}},
     1,
     "with_modules=True, or tachograph run"},
    {"operation", "operators", NULL, TG__Q_ops, {{"limit", "1"}}, 1, "record the CPU: ProfilerActivity.CPU"},
    {"operation",
     "input shapes",
     NULL,
     TG__Q_ops,
     {{"by", "shape"}, {"where", "group ~ \"[[\""}},
     1,
     "record_shapes=True, or tachograph run"},
    {"operation",
     "lines of the program",
     NULL,
     TG__Q_stacks,
     {{"limit", "1"}},
     1,
     "with_stack=True, or tachograph run"},
    {"verification",
     "a comparison with the run before the change",
     "diff.json",
     TG__Q_overview,
     {{0}},
     0,
     "tachograph diff BEFORE AFTER --json -o diff.json"},
};

static bool has_file(const char *folder, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return tg__path_kind(path) == TG__PATH_FILE;
}

static bool has_answer(struct tg_trace *trace, const struct item *i) {
  struct tg_table *rows = NULL;
  size_t args = 0;
  while (args < 2 && i->args[args].name) args++;
  const bool has = tg_ask(trace, tg__question_name(i->question), i->args, args, &rows, NULL) == TG_OK &&
                   tg_table_rows(rows) >= i->least;
  tg_table_free(rows);
  return has;
}

struct tg_table *tg_checklist(struct tg_trace *trace, const char *path, size_t *missing) {
  static const struct tg_column_spec columns[] = {{"group", TG_TEXT, ""},
                                                  {"item", TG_TEXT, ""},
                                                  {"state", TG_TEXT, ""},
                                                  {"artefact", TG_TEXT, ""},
                                                  {"cure", TG_TEXT, ""}};
  struct tg_table *const t = tg_table_new("checklist", columns, sizeof columns / sizeof *columns);
  *missing = 0;
  for (size_t k = 0; t && k < sizeof items / sizeof *items; k++) {
    const struct item *const i = &items[k];
    char proof[PATH_MAX + 64];
    const bool has = i->file ? has_file(path, i->file) : has_answer(trace, i);
    if (i->file)
      snprintf(proof, sizeof proof, "%s/%s", path, i->file);
    else
      snprintf(proof, sizeof proof, "tachograph ask %s %s", path, tg__question_name(i->question));
    tg_table_add_row(t, (struct tg_cell[]){{.text = i->group},
                                           {.text = i->what},
                                           {.text = has ? "pass" : "missing"},
                                           {.text = has ? proof : NULL},
                                           {.text = has ? NULL : i->cure}});
    *missing += !has;
  }
  return t;
}
