/* torch_log: each record of the log is a line, "V1128 05:20:32.629000 26312 torch/x.py:12] {…}", and below it lines of
 * its payload behind a tab. Wanted are: chromium_event with an event of Chrome as its payload; compilation_metrics, a
 * row of the member compiles.PID and an event; artifacts that explain one of these rows or count for it; and one with
 * the lines behind Inductor's kernels, which becomes the member compiled.PID. */
#include "trace/torch_log.h"

#include <stdio.h>

enum { BLOCK = 1 << 16, LINE_MOST = 8 << 20, PENDING = 64, REASON_MOST = 600 };
enum record { NOTHING, EVENT, METRICS, BREAK, AGAIN, KERNELS, FX_HIT, FX_MISS, AOT_HIT, AOT_MISS };

struct reason { /* of a compilation that has not ended */
  char id[32];
  enum record kind;
  char text[REASON_MOST], file[400];
  int64_t line;
};
struct tg__torch_log {
  tg__source_fn *source;
  void *ctx;
  struct tg__out in, out, rows, kernels; /* bytes of the log, of the trace, of its two members */
  size_t in_at, out_at;
  bool has_ended, is_too_long, has_event;
  bool has_artifacts; /* else an older torch wrote it: reasons of breaks are in the metrics */
  enum record kind;   /* of the record under way */
  struct tg__out head, payload;
  int64_t pid, rank;
  struct reason pending[PENDING];
  size_t next_pending;
};

/* ---- lines ------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool tg__looks_like_torch_log(const char *head, size_t len) {
  static const char form[] = "VDDDD DD:DD:DD.D";
  if (len < sizeof form - 1 || !strchr("VDIWEC", head[0]) || !head[0]) return false;
  for (size_t i = 1; i < sizeof form - 1; i++)
    if (form[i] == 'D' ? !is_digit(head[i]) : head[i] != form[i]) return false;
  return true;
}

static struct tg__str json_of(const struct tg__out *head) {
  const char *const at = head->len ? memchr(head->buf, '{', head->len) : NULL;
  return at ? (struct tg__str){at, (uint32_t)(head->len - (size_t)(at - head->buf))} : TG_STR("");
}

static enum record kind_of(struct tg__str json) {
  if (tg__json_member(json, "chromium_event").len) return EVENT;
  if (tg__json_member(json, "compilation_metrics").len || tg__json_member(json, "bwd_compilation_metrics").len)
    return METRICS;
  static const struct {
    const char *name;
    enum record kind;
  } artifacts[] = {{"dynamo_graph_break_reason", BREAK}, {"inductor_provenance_tracking_kernel_stack_traces", KERNELS},
                   {"recompile_reasons", AGAIN},         {"fx_graph_cache_hit", FX_HIT},
                   {"fx_graph_cache_miss", FX_MISS},     {"aotautograd_cache_hit", AOT_HIT},
                   {"aotautograd_cache_miss", AOT_MISS}};
  const struct tg__str name = tg__json_unquoted(tg__json_member(tg__json_member(json, "artifact"), "name"));
  for (size_t i = 0; i < sizeof artifacts / sizeof *artifacts; i++)
    if (tg__str_eq(name, (struct tg__str){artifacts[i].name, (uint32_t)strlen(artifacts[i].name)}))
      return artifacts[i].kind;
  return NOTHING;
}

static void compile_id(struct tg__str json, char id[32]) {
  int64_t frame, version;
  id[0] = 0;
  if (tg__str_to_int(tg__json_member(json, "frame_id"), &frame) &&
      tg__str_to_int(tg__json_member(json, "frame_compile_id"), &version))
    snprintf(id, 32, "%lld/%lld", (long long)frame, (long long)version);
}

/* ---- what is written --------------------------------------------------------------------------- */

static void put_comma(struct tg__torch_log *log) {
  tg__out_text(&log->out, log->has_event ? ",\n" : "{\"traceEvents\":[\n");
  log->has_event = true;
}

static void put_event(struct tg__torch_log *log) {
  struct tg__str s = {log->payload.buf, (uint32_t)log->payload.len};
  while (s.len && (unsigned char)s.ptr[s.len - 1] <= ' ') s.len--;
  if (!s.len || s.ptr[0] != '{' || s.ptr[s.len - 1] != '}') return;
  put_comma(log);
  tg__out_bytes(&log->out, s.ptr, s.len);
}

static void copy_text(char *to, size_t size, const char *from, size_t len) {
  len = len < size - 1 ? len : size - 1;
  while (len && ((unsigned char)from[len] & 0xc0) == 0x80) len--; /* between characters */
  memcpy(to, from, len);
  to[len] = 0;
}

/* "Graph break in user code at file.py:12", then "Graph Break Reason: …". */
static void keep_break(struct reason *r, const char *text) {
  static const char at[] = "user code at ", why[] = "Graph Break Reason: ";
  const char *const place = strstr(text, at), *const reason = strstr(text, why);
  const char *const from = place ? place + sizeof at - 1 : text;
  const char *const end = from + strcspn(from, "\n"), *colon = end;
  while (colon > from && *colon != ':') colon--;
  if (place && colon > from && tg__str_to_int((struct tg__str){colon + 1, (uint32_t)(end - colon - 1)}, &r->line))
    copy_text(r->file, sizeof r->file, from, (size_t)(colon - from));
  const char *const said = reason ? reason + sizeof why - 1 : text;
  copy_text(r->text, sizeof r->text, said, strlen(said));
}

static void keep_reason(struct tg__torch_log *log) {
  struct reason *const r = &log->pending[log->next_pending++ % PENDING];
  *r = (struct reason){.kind = log->kind, .line = -1};
  compile_id(json_of(&log->head), r->id);
  tg__out_char(&log->payload, 0);
  if (log->payload.err) return;
  if (log->kind == BREAK)
    keep_break(r, log->payload.buf);
  else if (log->kind == AGAIN)
    copy_text(r->text, sizeof r->text, log->payload.buf, strlen(log->payload.buf));
}

static void put_field(struct tg__out *out, const char *key) {
  if (out->len && out->buf[out->len - 1] != '{') tg__out_char(out, ',');
  tg__out_format(out, "\"%s\":", key);
}

static void put_string(struct tg__out *out, const char *key, const char *text) {
  struct tg__jsonw w = {.out = out};
  put_field(out, key);
  tg__json_cstr(&w, text);
}

static bool is_wanted_field(struct tg__str key) {
  static const char *const keys[] = {"compile_id",
                                     "co_name",
                                     "co_filename",
                                     "co_firstlineno",
                                     "start_time",
                                     "start_time_us",
                                     "duration_us",
                                     "entire_frame_compile_time_s",
                                     "backend_compile_time_s",
                                     "inductor_compile_time_s",
                                     "code_gen_time_s",
                                     "dynamo_time_before_restart_s",
                                     "inductor_cumulative_compile_time_us",
                                     "inductor_code_gen_cumulative_compile_time_us",
                                     "graph_op_count",
                                     "is_forward",
                                     "is_runtime",
                                     "recompile_reason",
                                     "fail_type",
                                     "fail_reason",
                                     "fail_user_frame_filename",
                                     "fail_user_frame_lineno"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (tg__str_eq(key, (struct tg__str){keys[i], (uint32_t)strlen(keys[i])})) return true;
  return tg__str_contains(key, "_cache_hit_count") || tg__str_contains(key, "_cache_miss_count");
}

/* Of a break torch 2.4 writes the reason of the last restart, without a line. */
static void put_restart(struct tg__torch_log *log, struct tg__str metrics) {
  struct tg__str last = {0};
  for (struct tg__members m = tg__members_of(tg__json_member(metrics, "restart_reasons")); tg__members_next(&m);)
    if (tg__json_unquoted(m.value).ptr) last = m.value;
  if (!last.len) return;
  put_field(&log->rows, "break_reason");
  tg__out_bytes(&log->rows, last.ptr, last.len);
}

static void put_reasons(struct tg__torch_log *log, const char *id, bool has_guard) {
  for (size_t i = 0; i < PENDING; i++) {
    struct reason *const r = &log->pending[i];
    if ((r->kind != AGAIN && r->kind != BREAK) || strcmp(r->id, id) != 0) continue;
    if (r->kind == AGAIN && !has_guard) put_string(&log->rows, "recompile_reason", r->text);
    if (r->kind == BREAK) {
      put_string(&log->rows, "break_reason", r->text);
      put_string(&log->rows, "break_filename", r->file);
      put_field(&log->rows, "break_lineno");
      tg__out_int(&log->rows, r->line);
    }
    r->kind = NOTHING;
  }
}

/* Artifacts that say hit or miss, where the metrics do not count them, as in torch 2.9. */
static void put_caches(struct tg__torch_log *log, const char *id, struct tg__str metrics) {
  static const struct {
    enum record kind;
    const char *field;
  } counts[] = {{FX_HIT, "inductor_fx_local_cache_hit_count"},
                {FX_MISS, "inductor_fx_local_cache_miss_count"},
                {AOT_HIT, "aotautograd_local_cache_hit_count"},
                {AOT_MISS, "aotautograd_local_cache_miss_count"}};
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    int64_t n = 0;
    for (size_t i = 0; i < PENDING; i++) {
      if (log->pending[i].kind != counts[k].kind || strcmp(log->pending[i].id, id) != 0) continue;
      log->pending[i].kind = NOTHING;
      n++;
    }
    if (!n || tg__json_member(metrics, counts[k].field).len) continue;
    put_field(&log->rows, counts[k].field);
    tg__out_int(&log->rows, n);
  }
}

/* The compilation as an event, on a track of its own. */
static void put_compilation(struct tg__torch_log *log, struct tg__str metrics) {
  double start_us, dur_us, start_s, dur_s;
  const struct tg__str name = tg__json_member(metrics, "co_name");
  if (!tg__str_to_real(tg__json_member(metrics, "start_time_us"), &start_us))
    start_us = tg__str_to_real(tg__json_member(metrics, "start_time"), &start_s) ? start_s * 1e6 : -1;
  if (!tg__str_to_real(tg__json_member(metrics, "duration_us"), &dur_us))
    dur_us = tg__str_to_real(tg__json_member(metrics, "entire_frame_compile_time_s"), &dur_s) ? dur_s * 1e6 : -1;
  if (!(start_us >= 0 && start_us < 9e15 && dur_us >= 0 && dur_us < 9e15)) return;
  put_comma(log);
  tg__out_format(&log->out,
                 "{\"ph\":\"X\",\"cat\":\"dynamo_timed\",\"pid\":0,\"tid\":1,\"ts\":%.3f,\"dur\":%.3f,\"name\":",
                 start_us, dur_us);
  if (name.len > 2 && name.ptr[0] == '"')
    tg__out_bytes(&log->out, name.ptr, name.len);
  else
    tg__out_text(&log->out, "\"(no function)\"");
  tg__out_char(&log->out, '}');
}

static void put_row(struct tg__torch_log *log) {
  const struct tg__str json = json_of(&log->head);
  const struct tg__str forward = tg__json_member(json, "compilation_metrics");
  const struct tg__str metrics = forward.len ? forward : tg__json_member(json, "bwd_compilation_metrics");
  struct tg__out *const rows = &log->rows;
  char id[32];
  compile_id(json, id);
  if (rows->len) tg__out_char(rows, ',');
  tg__out_char(rows, '{');
  for (struct tg__members m = tg__members_of(metrics); tg__members_next(&m);) {
    if (!is_wanted_field(m.key) || tg__str_eq(m.value, TG_STR("null"))) continue;
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)m.key.len, m.key.ptr);
    put_field(rows, key);
    tg__out_bytes(rows, m.value.ptr, m.value.len);
  }
  if (!tg__json_member(metrics, "compile_id").len && *id) put_string(rows, "compile_id", id);
  if (!forward.len && !tg__json_member(metrics, "is_forward").len) {
    put_field(rows, "is_forward");
    tg__out_text(rows, "false");
  }
  if (!log->has_artifacts) put_restart(log, metrics);
  put_reasons(log, id, tg__json_member(metrics, "recompile_reason").len > 0);
  put_caches(log, id, metrics);
  tg__out_char(rows, '}');
  put_compilation(log, metrics);
}

static void put_separator(struct tg__out *out) {
  if (out->len && !strchr("[{", out->buf[out->len - 1])) tg__out_char(out, ',');
}

/* {"cpp_fused_relu_0:1": ["File …", …]}: nothing else of what stands there is taken over. */
static void put_kernels(struct tg__torch_log *log) {
  struct tg__out *const out = &log->kernels;
  char id[32];
  compile_id(json_of(&log->head), id);
  if (!*id) return;
  put_field(out, id);
  tg__out_char(out, '{');
  const struct tg__str payload = {log->payload.buf, (uint32_t)log->payload.len};
  for (struct tg__members m = tg__members_of(payload); tg__members_next(&m);) {
    put_separator(out);
    tg__out_char(out, '"');
    tg__out_bytes(out, m.key.ptr, m.key.len);
    tg__out_text(out, "\":[");
    for (struct tg__members stack = tg__members_of(m.value); tg__members_next(&stack);) {
      if (!tg__json_unquoted(stack.value).ptr) continue;
      put_separator(out);
      tg__out_bytes(out, stack.value.ptr, stack.value.len);
    }
    tg__out_char(out, ']');
  }
  tg__out_char(out, '}');
}

static void put_document(struct tg__torch_log *log) {
  if (!log->has_event) put_comma(log);
  tg__out_format(&log->out, "],\n\"compiles.%lld\":{\"rows\":[", (long long)log->pid);
  tg__out_bytes(&log->out, log->rows.buf, log->rows.len);
  tg__out_text(&log->out, "]}");
  if (log->kernels.len) {
    tg__out_format(&log->out, ",\n\"compiled.%lld\":{\"kernels\":{", (long long)log->pid);
    tg__out_bytes(&log->out, log->kernels.buf, log->kernels.len);
    tg__out_text(&log->out, "}}");
  }
  if (log->rank >= 0) tg__out_format(&log->out, ",\n\"distributedInfo\":{\"rank\":%lld}", (long long)log->rank);
  tg__out_text(&log->out, "}\n");
}

/* ---- records ----------------------------------------------------------------------------------- */

static void end_record(struct tg__torch_log *log) {
  if (log->kind == EVENT) put_event(log);
  if (log->kind == METRICS) put_row(log);
  if (log->kind == KERNELS) put_kernels(log);
  if (log->kind == BREAK || log->kind == AGAIN || log->kind > KERNELS) keep_reason(log);
  log->kind = NOTHING;
  log->head.len = log->payload.len = 0;
}

static void begin_record(struct tg__torch_log *log, const char *line, size_t len) {
  enum { PID_AT = 22 };
  tg__out_bytes(&log->head, line, len);
  if (log->head.err) return;
  const struct tg__str json = json_of(&log->head);
  int64_t number;
  log->kind = kind_of(json);
  log->has_artifacts |= log->kind == EVENT || tg__json_member(json, "artifact").len > 0;
  uint32_t digits = 0;
  while (PID_AT + digits < len && is_digit(line[PID_AT + digits])) digits++;
  if (len > PID_AT && tg__str_to_int((struct tg__str){line + PID_AT, digits}, &number)) log->pid = number;
  if (tg__str_to_int(tg__json_member(json, "rank"), &number) && number >= 0) log->rank = number;
}

static void take_line(struct tg__torch_log *log, const char *line, size_t len) {
  if (tg__looks_like_torch_log(line, len)) {
    end_record(log);
    begin_record(log, line, len);
    return;
  }
  if (log->kind == NOTHING || log->payload.len + len > LINE_MOST) return;
  const size_t skip = len && line[0] == '\t';
  tg__out_bytes(&log->payload, line + skip, len - skip);
  tg__out_char(&log->payload, '\n');
}

/* Whole lines of what has been read; what is left moves to the front. A line that is too long is passed over. */
static void take_lines(struct tg__torch_log *log) {
  for (;;) {
    const char *const from = log->in.buf + log->in_at;
    const size_t left = log->in.len - log->in_at;
    const char *const end = left ? memchr(from, '\n', left) : NULL;
    if (!end && !(log->has_ended && left)) break;
    const size_t len = end ? (size_t)(end - from) : left;
    if (!log->is_too_long) take_line(log, from, len);
    log->is_too_long = false;
    log->in_at += len + (end != NULL);
  }
  const size_t left = log->in.len - log->in_at;
  log->is_too_long |= left > LINE_MOST;
  if (left && !log->is_too_long) memmove(log->in.buf, log->in.buf + log->in_at, left);
  log->in.len = log->is_too_long ? 0 : left;
  log->in_at = 0;
}

/* ---- as a source ------------------------------------------------------------------------------- */

struct tg__torch_log *tg__torch_log_new(tg__source_fn *source, void *ctx) {
  struct tg__torch_log *const log = tg__alloc(sizeof *log);
  if (!log) return NULL;
  *log = (struct tg__torch_log){.source = source, .ctx = ctx, .rank = -1};
  return log;
}

void tg__torch_log_free(struct tg__torch_log *log) {
  if (!log) return;
  tg__out_free(&log->in);
  tg__out_free(&log->out);
  tg__out_free(&log->rows);
  tg__out_free(&log->kernels);
  tg__out_free(&log->head);
  tg__out_free(&log->payload);
  tg__free(log);
}

static bool failed(const struct tg__torch_log *log) {
  return log->in.err || log->out.err || log->rows.err || log->kernels.err || log->head.err || log->payload.err;
}

/* Until something can be handed over, or the log ends. */
static int64_t convert(struct tg__torch_log *log, struct tg_error *e) {
  log->out.len = log->out_at = 0;
  while (!log->out.len && !log->has_ended) {
    char *const room = tg__out_reserve(&log->in, BLOCK);
    const int64_t n = room ? log->source(log->ctx, room, BLOCK, e) : 0;
    if (n < 0) return -1;
    if (room) tg__out_commit(&log->in, (size_t)n);
    log->has_ended = n == 0;
    if (!failed(log)) take_lines(log);
    if (log->has_ended && !failed(log)) {
      end_record(log);
      put_document(log);
    }
    if (failed(log)) {
      tg__no_memory(e, "reading the log of torch.compile");
      return -1;
    }
  }
  return (int64_t)log->out.len;
}

int64_t tg__torch_log_read(void *ctx, void *buf, size_t len, struct tg_error *e) {
  struct tg__torch_log *const log = ctx;
  if (log->out_at == log->out.len) {
    const int64_t n = convert(log, e);
    if (n <= 0) return n;
  }
  const size_t left = log->out.len - log->out_at, n = left < len ? left : len;
  memcpy(buf, log->out.buf + log->out_at, n);
  log->out_at += n;
  return (int64_t)n;
}
