/* tachograph export: the whole trace in another program's format. */
#include "cli/cli.h"

#include <stdio.h>

static const char *trace_format(const void *ctx, size_t k) {
  for (size_t i = 0; i < tg__format_count(); i++) {
    if (tg__formats[i].trace && k-- == 0) return tg__formats[i].name;
  }
  return NULL;
}

/* By the suffix of the file's name, .gz and .zst left aside. */
static const struct tg__format *format_of_file(const char *path) {
  struct tg__str name = {path, (uint32_t)strlen(path)};
  if (tg__str_has_suffix(name, ".gz"))
    name.len -= 3;
  else if (tg__str_has_suffix(name, ".zst"))
    name.len -= 4;
  return tg__format_of_file(name);
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

static int export_to(const struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format, const char *rank,
                     const char *target, int64_t *bytes) {
  struct tg_error e = {0};
  struct tg__sink sink;
  const bool to_file = strcmp(target, "-") != 0;
  struct tg_arg *const args = tg__alloc((c->argument_count + 2) * sizeof *args);
  if (!args) return tg__cli_no_memory(c);
  size_t count = 0;
  for (size_t i = 0; i < c->argument_count; i++) {
    if (!rank || strcmp(c->arguments[i].name, "rank") != 0) args[count++] = c->arguments[i];
  }
  if (rank) args[count++] = (struct tg_arg){"rank", rank};
  if (to_file) args[count++] = (struct tg_arg){"trace_name", target};
  int status;
  if (tg__sink_open(&sink, target, &e)) {
    status = tg__cli_failed(c, &e, NULL);
  } else {
    tg__work_begin("exporting");
    const enum tg_err err = tg_export(trace, format->name, args, count, sink.out.write, sink.out.ctx, &e);
    tg__work_end();
    status = tg__sink_close(&sink, c, err, &e);
    *bytes = sink.bytes;
  }
  tg__free(args);
  return status;
}

static int export_one(const struct tg__cli *c, void *ctx, struct tg_trace *t, const char *rank, const char *target) {
  const struct tg__format *const *const format = ctx;
  return export_to(c, t, *format, rank, target, &(int64_t){0});
}

static int export(struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format) {
  int64_t bytes = 0;
  const int status = export_to(c, trace, format, NULL, c->out_path, &bytes);
  if (status || strcmp(c->out_path, "-") == 0) return status;
  if (!tg__cli_wants_json(c)) {
    char size[32];
    tg__cli_say("%s: %s\n", c->out_path, tg__human_bytes(bytes, size));
  }
  return tg__cli_result(c, c->out_path, format->name, bytes);
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
  const struct tg__format *format = name ? tg__format_find(name) : format_of_file(c->out_path);
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
    status = tg__cli_into_folder(c) ? tg__cli_write_ranks(c, c->operands[0], trace, &each) : export(c, trace, format);
  tg_close(trace);
  return status;
}
