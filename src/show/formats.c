/* The list of outputs, made from formats.def, and the look-up in it. */
#include "show/parts.h"

const struct tg__format tg__formats[] = {
#define FORMAT(name, suffix, table, trace, meaning) {#name, suffix, meaning, table, trace},
#include "show/formats.def"
#undef FORMAT
};

size_t tg__format_count(void) { return sizeof tg__formats / sizeof *tg__formats; }

const struct tg__format *tg__format_find(const char *name) {
  for (size_t i = 0; i < tg__format_count(); i++) {
    if (strcmp(tg__formats[i].name, name) == 0) return &tg__formats[i];
  }
  return NULL;
}

const char *tg__show_arg(const struct tg__show_options *o, const char *name) {
  for (size_t i = 0; o && i < o->arg_count; i++) {
    if (strcmp(o->args[i].name, name) == 0) return o->args[i].value;
  }
  return NULL;
}

enum tg_err tg__show_rank(const struct tg_trace *t, const struct tg__show_options *o, uint32_t *rank, struct tg_error *e) {
  const char *text = tg__show_arg(o, "rank");
  *rank = TG_NONE;
  if (!text || strcmp(text, "all") == 0) return TG_OK;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)t->ranks[r].number);
    if (strcmp(number, text) == 0) {
      *rank = r;
      return TG_OK;
    }
  }
  return tg__fail(e, TG_USAGE, -1, "there is no rank '%s' in this trace: see the question tracks for those there are", text);
}

enum tg_err tg__show_end(struct tg__out *out, struct tg_error *e) {
  if (tg__out_flush(out) == TG_OK) return TG_OK;
  return tg__fail(e, out->err, -1, out->err == TG_MEMORY ? "out of memory while writing" : "the output could not be written: is the disk full?");
}
