/* The list of outputs, made from formats.def, and the look-up in it. */
#include "show/parts.h"

const struct tg__format tg__formats[] = {
#define YES(writer) writer
#define NO(writer) NULL
#define FORMAT(name, suffix, tables, traces, reports, meaning)                                                         \
  {#name, suffix, meaning, tables(tg__##name##_table), traces(tg__##name##_trace), reports(tg__##name##_report)},
#include "show/formats.def"
#undef YES
#undef NO
};

static const struct {
  const char *suffix, *name;
} suffixes[] = {
#define FORMAT(name, suffix, ...) {suffix, #name},
#define ALSO(name, suffix) {suffix, #name},
#include "show/formats.def"
};

size_t tg__format_count(void) { return sizeof tg__formats / sizeof *tg__formats; }

const struct tg__format *tg__format_find(const char *name) {
  for (size_t i = 0; i < tg__format_count(); i++) {
    if (strcmp(tg__formats[i].name, name) == 0) return &tg__formats[i];
  }
  return NULL;
}

const struct tg__format *tg__format_of_file(struct tg__str path) {
  const struct tg__format *best = NULL;
  size_t best_len = 0;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const struct tg__format *const f = tg__format_find(suffixes[i].name);
    const size_t len = strlen(suffixes[i].suffix);
    if (!f->trace || len < best_len || !tg__str_has_suffix(path, suffixes[i].suffix)) continue;
    best = f;
    best_len = len;
  }
  return best;
}

const char *tg__show_arg(const struct tg__show_options *o, const char *name) {
  for (size_t i = 0; o && i < o->arg_count; i++) {
    if (strcmp(o->args[i].name, name) == 0) return o->args[i].value;
  }
  return NULL;
}

enum tg_err tg__show_begin(struct tg__columns *t, const struct tg__show_options *o, uint32_t columns,
                           struct tg__ask *selection, struct tg_error *e) {
  *selection = (struct tg__ask){.rank = TG_NONE, .track = TG_NONE};
  const enum tg_err err = tg__trace_load(t, columns, e);
  return err || !o ? err : tg__ask_select(t, o->args, o->arg_count, selection, e);
}

bool tg__show_has_mark(const struct tg__ask *selection, const struct tg__columns *t, uint32_t mark) {
  const uint32_t rank = t->tracks[t->marks.track[mark]].rank;
  if (!tg__ask_has_rank(selection, rank)) return false;
  return !selection->has_steps || t->marks.ts_ns[mark] == TG_NULL_INT ||
         tg__ask_has_time(selection, rank, t->marks.ts_ns[mark]);
}

enum tg_err tg__show_end(struct tg__out *out, struct tg_error *e) {
  if (tg__out_flush(out) == TG_OK) return TG_OK;
  return out->err == TG_MEMORY ? tg__no_memory(e, "writing")
                               : tg__fail(e, out->err, -1, "the output could not be written: is the disk full?");
}
