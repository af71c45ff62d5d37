/* tachograph export: the whole trace in another program's format. */
#include "cli/cli.h"

#include <stdio.h>

static const char *trace_format(const void *ctx, size_t k) {
  for (size_t i = 0; i < tg__format_count(); i++) {
    if (tg__formats[i].trace && k-- == 0) return tg__formats[i].name;
  }
  return NULL;
}

static int unknown_format(const struct tg__cli *c, const char *name) {
  char all[160] = "";
  const char *format;
  for (size_t k = 0; (format = trace_format(NULL, k)) != NULL; k++) {
    if (strlen(all) + strlen(format) + 3 < sizeof all) strcat(strcat(all, k ? ", " : ""), format);
  }
  if (!name) return tg__cli_usage(c, NULL, "say which format: --to with one of %s", all);
  const char *near = tg__nearest_text(name, trace_format, NULL);
  if (near) return tg__cli_usage(c, NULL, "there is no format '%s'; did you mean '%s'? (all: %s)", name, near, all);
  return tg__cli_usage(c, NULL, "there is no format '%s': %s", name, all);
}

static int export_one(const struct tg__cli *c, void *ctx, struct tg_trace *t, const char *rank, const char *target) {
  const struct tg__format *const *const format = ctx;
  const struct tg_arg own = {"rank", rank};
  return tg__cli_export_to(c, t, *format, rank ? &own : NULL, target, &(int64_t){0});
}

/* Two traces become one, in Python. */
static int export_with_capture(struct tg__cli *c, const struct tg__format *format) {
  const char *const words[] = {c->operands[0], tg__cli_setting(c, "capture"), c->out_path};
  const struct tg__str out = {c->out_path, (uint32_t)strlen(c->out_path)};
  if (strcmp(format->name, "chrome") != 0 || !tg__str_has_suffix(out, ".json"))
    return tg__cli_usage(c, NULL, "--capture writes a trace as JSON: -o FILE.json");
  return tg__cli_in_python(c, "tachograph._capture", words, sizeof words / sizeof *words);
}

int tg__cmd_export(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  const char *name = tg__cli_setting(c, "to");
  const struct tg__format *format = name ? tg__format_find(name) : tg__cli_format_of(c->out_path);
  if (!format || !format->trace) return unknown_format(c, name);
  if (tg__cli_setting(c, "json") && strcmp(c->out_path, "-") == 0) {
    return tg__cli_usage(
        c, NULL, "--json reports on the file written, so it needs -o FILE; --to json writes the trace itself as JSON");
  }
  if (tg__cli_setting(c, "capture")) return export_with_capture(c, format);
  c->format =
      tg__cli_setting(c, "json") ? "json" : "text"; /* the suffix of -o names the trace's format, not the answer's */
  const struct tg__file_writer each = {export_one, &format, format->suffix};
  if (tg__cli_writes_files(c, c->operands[0])) return tg__cli_write_files(c, c->operands[0], &each);
  struct tg_trace *trace = NULL;
  struct tg_error e = {0};
  if (tg__cli_open(c, c->operands[0], &trace, &e)) return tg__cli_failed(c, &e, NULL);
  int status = tg__cli_needs_events(c, trace, c->operands[0]);
  if (!status)
    status = tg__cli_into_folder(c) ? tg__cli_write_ranks(c, c->operands[0], trace, &each)
                                    : tg__cli_export(c, trace, format, NULL);
  tg_close(trace);
  return status;
}
