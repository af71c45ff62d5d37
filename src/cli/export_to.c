/* export_to: a trace is written in a format for traces. */
#include "cli/cli.h"

const struct tg__format *tg__cli_format_of(const char *path) {
  struct tg__str name = {path, (uint32_t)strlen(path)};
  if (tg__str_has_suffix(name, ".gz"))
    name.len -= 3;
  else if (tg__str_has_suffix(name, ".zst"))
    name.len -= 4;
  return tg__format_of_file(name);
}

int tg__cli_export_to(const struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format,
                      const struct tg_arg *own, const char *target, int64_t *bytes) {
  struct tg_error e = {0};
  struct tg__sink sink;
  const bool to_file = strcmp(target, "-") != 0;
  struct tg_arg *const args = tg__alloc((c->argument_count + 2) * sizeof *args);
  if (!args) return tg__cli_no_memory(c);
  size_t count = 0;
  for (size_t i = 0; i < c->argument_count; i++) {
    if (!own || strcmp(c->arguments[i].name, own->name) != 0) args[count++] = c->arguments[i];
  }
  if (own) args[count++] = *own;
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

int tg__cli_export(const struct tg__cli *c, struct tg_trace *trace, const struct tg__format *format,
                   const struct tg_arg *own) {
  int64_t bytes = 0;
  const int status = tg__cli_export_to(c, trace, format, own, c->out_path, &bytes);
  if (status || strcmp(c->out_path, "-") == 0) return status;
  if (!tg__cli_wants_json(c)) {
    char size[32];
    tg__cli_say("%s: %s\n", c->out_path, tg__human_bytes(bytes, size));
  }
  return tg__cli_result(c, c->out_path, format->name, bytes);
}
