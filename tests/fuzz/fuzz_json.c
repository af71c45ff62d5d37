/* fuzz_json: any bytes through the JSON importer. Whatever comes out must be valid, be the same through every path
 * (portable and vector scanner, one block and many), and survive being asked and written. */
#include <stdlib.h>

#include "ranks/ranks.h"
#include "show/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tg__columns *open_path(const uint8_t *data, size_t size, unsigned threads, size_t block, bool portable) {
  struct tg__columns *t;
  struct tg_error e;
  if (tg__trace_open_bytes(data, size, threads, block, portable, &t, &e) != TG_OK) {
    if (e.text[0] == 0) abort(); /* a refusal without a sentence */
    return NULL;
  }
  if (!tg__trace_is_valid(t, &e) || !tg__strings_is_valid(t->strings, &e)) abort();
  return t;
}

static void same(const struct tg__columns *a, const struct tg__columns *b) {
  if (!a != !b) abort();
  if (!a) return;
  if (a->slices.count != b->slices.count || a->marks.count != b->marks.count || a->track_count != b->track_count ||
      a->step_count != b->step_count)
    abort();
  for (uint32_t i = 0; i < a->slices.count; i++)
    if (a->slices.start_ns[i] != b->slices.start_ns[i] || a->slices.dur_ns[i] != b->slices.dur_ns[i] ||
        a->slices.cause[i] != b->slices.cause[i] || a->slices.parent[i] != b->slices.parent[i] ||
        !tg__str_eq(tg__name(a, a->slices.name[i]), tg__name(b, b->slices.name[i])))
      abort();
  for (int l = 0; l < TG__LOSS_COUNT; l++)
    if (a->ranks[0].loss[l] != b->ranks[0].loss[l]) abort();
}

/* The formats that are JSON must be JSON whatever was read. */
static bool is_json(const char *format) {
  return strcmp(format, "json") == 0 || strcmp(format, "chrome") == 0 || strcmp(format, "speedscope") == 0;
}

static void ask(struct tg__columns *t, const struct tg__question *q, const struct tg_arg *args, size_t count) {
  struct tg_table *table;
  struct tg_error e;
  if (tg__ask_trace(&(struct tg_trace){.columns = t}, q->name, args, count, &table, &e) == TG_OK) {
    if (!tg__table_is_valid(table, &e)) abort();
    tg__table_free(table);
  } else if (e.code == TG_INTERNAL) {
    abort();
  }
}

/* Every question, and those that take rules by both sets. */
static void ask_all(struct tg__columns *t) {
  static const struct tg_arg hta = {"rules", "hta"};
  for (size_t i = 0; i < tg__catalog.count; i++) {
    const struct tg__argument_info *info;
    ask(t, &tg__catalog.questions[i], NULL, 0);
    for (size_t k = 0; (info = tg__question_argument(&tg__catalog.questions[i], k)) != NULL; k++)
      if (strcmp(info->name, "rules") == 0) ask(t, &tg__catalog.questions[i], &hta, 1);
  }
}

static void write_as(struct tg__columns *t, const struct tg__format *format, const struct tg_arg *args, size_t count) {
  struct tg__out out = {0};
  const struct tg__show_options options = {.args = args, .arg_count = count};
  struct tg_error e;
  const enum tg_err err = format->trace(t, &options, &out, &e);
  if (err == TG_INTERNAL) abort();
  if (err == TG_OK && is_json(format->name) && !tg__json_is_valid((struct tg__str){out.buf, (uint32_t)out.len}))
    abort();
  tg__out_free(&out);
}

static void ask_and_write(struct tg__columns *t) {
  static const struct tg_arg counters = {"counters", "all"};
  ask_all(t);
  for (size_t f = 0; f < tg__format_count(); f++)
    if (tg__formats[f].trace) write_as(t, &tg__formats[f], NULL, 0);
  write_as(t, tg__format_find("chrome"), &counters, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tg__columns *t = open_path(data, size, 1, 0, true);
  struct tg__columns *vector = open_path(data, size, 1, 0, false);
  same(t, vector);
  tg__trace_free(vector);
  struct tg__columns *blocks = open_path(data, size, 1, 32 + size % 97, size & 1);
  same(t, blocks);
  tg__trace_free(blocks);
  if (t) ask_and_write(t);
  tg__trace_free(t);
  return 0;
}
