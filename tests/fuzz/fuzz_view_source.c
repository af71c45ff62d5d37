/* fuzz_view_source: any bytes as the members source_folders (up to the first line's end) and source_lines (the rest) of
 * a trace, and a call for lines of source about it. The reply is a whole JSON object; no file but a frame's is read. */
#include <stdlib.h>

#include "ranks/ranks.h"
#include "serve/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static const char events[] =
    ",\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"a\\\"b.py(7): f\",\"pid\":1,\"tid\":1,"
    "\"ts\":1,\"dur\":80}]}";
static const char call[] = "{\"id\":1,\"call\":\"source\",\"trace\":0,\"file\":\"a\\\"b.py\",\"line\":7,\"around\":4}";

static void ask(struct tg__host *h) {
  struct tg__message m;
  struct tg__reply r = {0};
  struct tg_error e = {0};
  require(!tg__message_read(call, sizeof call - 1, &m, &e));
  tg__message_answer(h, &m, &r);
  require(!r.out.err && r.out.len > 0 && r.out.buf[0] == '{' && r.out.buf[r.out.len - 1] == '}');
  tg__out_free(&r.out);
  tg__message_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const paths[] = {"small.json"};
  static const struct tg__serve_options options = {.paths = paths, .path_count = 1};
  const uint8_t *const newline = size ? memchr(data, '\n', size) : NULL, *const end = data + size,
                       *const rest = newline ? newline + 1 : end;
  struct tg__out text = {0};
  struct tg__host h;
  struct tg_error e;
  tg__out_text(&text, "{\"source_folders\":");
  tg__out_bytes(&text, (const char *)data, (size_t)((newline ? newline : end) - data));
  tg__out_text(&text, ",\"source_lines.1\":");
  tg__out_bytes(&text, (const char *)rest, (size_t)(end - rest));
  tg__out_text(&text, events);
  require(!text.err && !tg__host_open(&h, &options, &e));
  struct tg__loaded *const t = h.traces[0].now;
  if (!tg__trace_open_bytes(text.buf, text.len, 1, 0, false, &t->columns, &e)) {
    require(!tg__handle_new(t->columns, NULL, NULL, &t->trace, &e));
    require(!tg__view_open(t->columns, 1, &t->view, &e));
    require(tg__slice_classes_open(&t->classes, t->columns) && tg__slice_classes_open(&t->tile_classes, t->columns));
    t->is_open = t->is_loaded = true;
    h.traces[0].state = TG__TRACE_READY;
    ask(&h);
  }
  tg__host_close(&h);
  tg__out_free(&text);
  return 0;
}
