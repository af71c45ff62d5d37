/* fuzz_view_calls: any bytes as a call of the page, about a small trace; and as Host, Origin and path of a request.
 * Every call gets one reply, a whole JSON object or a message of tiles of the length it says. */
#include <stdlib.h>

#include "serve/gate.h"
#include "ranks/ranks.h"
#include "serve/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static const char trace_text[] =
    "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"a.py(1): f\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":80},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":2,\"dur\":9,\"args\":{"
    "\"External id\":3}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":3,\"dur\":2,"
    "\"args\":{\"correlation\":5,\"External id\":3}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":9,\"dur\":7,\"args\":{"
    "\"correlation\":5,\"stream\":7,\"device\":0}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":12,\"dur\":9,\"args\":{\"stream\":7,"
    "\"device\":0}}]";

/* One trace, ready, made once. */
static struct tg__host *host(void) {
  static struct tg__host h;
  static struct tg__serve_options options;
  static const char *const paths[] = {"small.json"};
  if (h.traces) return &h;
  struct tg_error e;
  options = (struct tg__serve_options){.paths = paths, .path_count = 1};
  require(!tg__host_open(&h, &options, &e));
  struct tg__loaded *const t = h.traces[0].now;
  require(!tg__trace_open_bytes(trace_text, sizeof trace_text - 1, 1, 0, false, &t->columns, &e));
  require(!tg__handle_new(t->columns, NULL, NULL, &t->trace, &e));
  require(!tg__view_open(t->columns, 1, &t->view, &e));
  require(tg__slice_classes_open(&t->classes, t->columns) && tg__slice_classes_open(&t->tile_classes, t->columns));
  t->is_open = t->is_loaded = true;
  h.traces[0].state = TG__TRACE_READY;
  return &h;
}

static void check_reply(const struct tg__message *m, const struct tg__reply *r) {
  uint32_t head[6];
  require(!r->out.err && r->out.len > 0);
  if (!r->is_binary) {
    require(r->out.buf[0] == '{' && r->out.buf[r->out.len - 1] == '}');
    return;
  }
  require(r->out.len >= sizeof head);
  memcpy(head, r->out.buf, sizeof head);
  require(head[0] == m->id && head[1] == r->out.len && head[5] <= TG__TILES_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tg__host *const h = host();
  const struct tg__str text = {(const char *)data, (uint32_t)size};
  struct tg__message m;
  struct tg__reply r = {0};
  struct tg_error e = {0};
  if (tg__message_read(text.ptr, size, &m, &e)) {
    require(e.text[0]);
    tg__reply_error(&r, &m, "malformed", e.text);
  } else {
    require(tg__message_is_due(h, &m));
    tg__message_answer(h, &m, &r);
  }
  check_reply(&m, &r);
  tg__out_free(&r.out);
  tg__message_free(&m);

  static const char token[] = "0123456789abcdef0123456789abcdef";
  const struct tg__str rest = tg__behind_token(text, token);
  require(!rest.ptr || size == rest.len + sizeof token + 1);
  if (tg__path_is_plain(text))
    require(!tg__str_contains(text, "..") && text.ptr[0] != '/' && !memchr(text.ptr, 0, size));
  require(!tg__origin_is_ours(text, TG_STR("127.0.0.1:80")) || !size ||
          tg__str_eq(text, TG_STR("http://127.0.0.1:80")));
  tg__host_is_local(text);
  tg__content_type(text);
  return 0;
}
