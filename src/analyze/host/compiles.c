/* compiles: reads the members compiles.PID. A row has torch's own names (torch._dynamo.utils.CompilationMetrics);
 * break_reason, break_filename and break_lineno come from dynamo's list of breaks. Any bytes may be in them. */
#include "analyze/host/compiles.h"

#include <math.h>
#include <stdio.h>

enum { REASON_MOST = 400, ROWS_MOST = 10000 };
static const char IN_VAIN[] = "dynamo_time_before_restart_s"; /* how long dynamo was at what it did in vain */

/* ---- texts ------------------------------------------------------------------------------------- */

static struct tg__str decoded(struct tg__compiles *c, struct tg__str value) {
  return tg__member_text(&c->arena, value, &c->failed);
}

static struct tg__str part_of(struct tg__str s, uint32_t from, uint32_t to) {
  while (from < to && (unsigned char)s.ptr[from] <= ' ') from++;
  while (to > from && (unsigned char)s.ptr[to - 1] <= ' ') to--;
  return (struct tg__str){s.ptr + from, to - from};
}

/* Where the needle begins, from `from` on; s.len: nowhere. */
static uint32_t find_in(struct tg__str s, uint32_t from, const char *needle) {
  const size_t n = strlen(needle);
  for (uint32_t i = from; i + n <= s.len; i++)
    if (memcmp(s.ptr + i, needle, n) == 0) return i;
  return s.len;
}

/* "0/1: n == 3        # return x * n" is the guard n == 3. */
static struct tg__str short_guard(struct tg__str s) {
  uint32_t from = 0;
  while (from < s.len && ((s.ptr[from] >= '0' && s.ptr[from] <= '9') || s.ptr[from] == '/')) from++;
  from = from && from < s.len && s.ptr[from] == ':' ? from + 1 : 0;
  const uint32_t line = find_in(s, from, "\n"), comment = find_in(s, from, "  #");
  return part_of(s, from, line < comment ? line : comment);
}

/* The first line, or the one in front of "Explanation:", and the explanation's first line behind it. */
static struct tg__str short_reason(struct tg__compiles *c, struct tg__str s) {
  static const char mark[] = "Explanation:";
  const uint32_t at = find_in(s, 0, mark);
  uint32_t from = 0, to = find_in(s, 0, "\n");
  if (tg__str_has_prefix(s, "generic_jump")) return TG_STR("a branch depends on the values of a tensor (generic_jump)");
  if (at < s.len) {
    to = at;
    while (to > 0 && (unsigned char)s.ptr[to - 1] <= ' ') to--;
    for (from = to; from > 0 && s.ptr[from - 1] != '\n';) from--;
  }
  const struct tg__str title = part_of(s, from, to);
  const uint32_t more = at < s.len ? at + (uint32_t)sizeof mark - 1 : s.len;
  const struct tg__str why = part_of(s, more, find_in(s, more, "\n"));
  char text[REASON_MOST];
  const int n =
      snprintf(text, sizeof text, "%.*s%s%.*s", (int)title.len, title.ptr, why.len ? ": " : "", (int)why.len, why.ptr);
  uint32_t len = n < 0 ? 0 : (uint32_t)n < sizeof text ? (uint32_t)n : (uint32_t)sizeof text - 1;
  while ((size_t)n >= sizeof text && len && ((unsigned char)text[len] & 0xc0) == 0x80) len--; /* between characters */
  const char *const copy = tg__arena_copy(&c->arena, text, len);
  c->failed |= !copy;
  return copy ? (struct tg__str){copy, len} : TG_STR("");
}

/* What is resumed behind a break is called torch_dynamo_resume_in_f_at_12. */
static struct tg__str plain_function(struct tg__compiles *c, struct tg__str name) {
  static const char prefix[] = "torch_dynamo_resume_in_";
  if (!tg__str_has_prefix(name, prefix)) return name;
  uint32_t at = name.len;
  while (at > sizeof prefix + 3 && memcmp(name.ptr + at - 4, "_at_", 4) != 0) at--;
  if (at <= sizeof prefix + 3) return name;
  char text[256];
  const int n = snprintf(text, sizeof text, "%.*s (behind line %.*s)", (int)(at - 4 - (sizeof prefix - 1)),
                         name.ptr + sizeof prefix - 1, (int)(name.len - at), name.ptr + at);
  if (n < 0 || (size_t)n >= sizeof text) return name;
  const char *const copy = tg__arena_copy(&c->arena, text, (size_t)n);
  c->failed |= !copy;
  return copy ? (struct tg__str){copy, (uint32_t)n} : name;
}

const char *tg__compile_place(struct tg__str file, int64_t line, char *buf, size_t size) {
  uint32_t from = file.len;
  while (from > 0 && file.ptr[from - 1] != '/') from--;
  snprintf(buf, size, "%.*s(%lld)", (int)(file.len - from < 200 ? file.len - from : 200), file.ptr + from,
           (long long)line);
  return buf;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static int64_t whole(struct tg__str row, const char *key) {
  int64_t value;
  return tg__str_to_int(tg__json_member(row, key), &value) ? value : TG_NULL_INT;
}

/* A time in units of `ns` that can be added up; TG_NULL_INT. */
static int64_t time_of(struct tg__str row, const char *key, double ns) {
  double value;
  if (!tg__str_to_real(tg__json_member(row, key), &value) || !(value >= 0 && value * ns < 4e18)) return TG_NULL_INT;
  return (int64_t)llround(value * ns);
}

static int64_t seconds_or_us(struct tg__str row, const char *seconds, const char *us) {
  const int64_t ns = time_of(row, seconds, 1e9);
  return ns != TG_NULL_INT && ns > 0 ? ns : time_of(row, us, 1e3);
}

static int64_t sum_of(struct tg__str row, const char *const keys[4]) {
  int64_t sum = TG_NULL_INT;
  for (size_t i = 0; i < 4; i++) {
    const int64_t n = whole(row, keys[i]);
    if (n < 0 || n > INT32_MAX) continue;
    sum = (sum == TG_NULL_INT ? 0 : sum) + n;
  }
  return sum;
}

/* A phase that holds another: what is left of it. No phase is longer than the one around it. */
static void divide(struct tg__compile *x, int64_t backend_ns, int64_t inductor_ns, int64_t codegen_ns) {
  const int64_t backend = backend_ns < 0 ? 0 : backend_ns < x->dur_ns ? backend_ns : x->dur_ns;
  const int64_t inductor = inductor_ns < 0 ? 0 : inductor_ns < backend ? inductor_ns : backend;
  x->codegen_ns = codegen_ns < 0 ? 0 : codegen_ns < inductor ? codegen_ns : inductor;
  x->dynamo_ns = x->dur_ns - backend;
  x->backend_ns = backend - inductor;
  x->inductor_ns = inductor - x->codegen_ns;
}

static void read_times(struct tg__str row, int64_t base_ns, struct tg__compile *x) {
  const int64_t inductor = seconds_or_us(row, "inductor_compile_time_s", "inductor_cumulative_compile_time_us");
  const int64_t codegen = seconds_or_us(row, "code_gen_time_s", "inductor_code_gen_cumulative_compile_time_us");
  int64_t start = time_of(row, "start_time_us", 1e3);
  if (start == TG_NULL_INT) start = time_of(row, "start_time", 1e9);
  x->start_ns = start == TG_NULL_INT ? TG_NULL_INT : start - base_ns;
  x->dur_ns = seconds_or_us(row, "entire_frame_compile_time_s", "duration_us");
  if (x->dur_ns < 0) x->dur_ns = time_of(row, IN_VAIN, 1e9); /* left out, in torch 2.4 */
  if (x->dur_ns < 0) x->dur_ns = inductor < 0 ? 0 : inductor;
  divide(x, x->is_backward ? x->dur_ns : time_of(row, "backend_compile_time_s", 1e9), inductor, codegen);
}

/* ---- rows -------------------------------------------------------------------------------------- */

static bool names_a_limit(struct tg__str type, struct tg__str reason) {
  return tg__str_contains(type, "Limit") || tg__str_contains(reason, "recompile limit") ||
         tg__str_contains(reason, "recompile_limit") || tg__str_contains(reason, "cache_size_limit");
}

/* A function without a graph, not even an empty one, and time spent in vain: left out. In torch 2.13 such a row has a
 * fail_type, in 2.4 and 2.9 it has none. */
static bool has_no_graph(struct tg__str row, const struct tg__compile *x) {
  return !x->is_backward && x->operators == TG_NULL_INT && time_of(row, IN_VAIN, 1e9) > 0;
}

/* The function of a version that dynamo did not come to look at is that of the ones before. */
static void take_earlier_name(const struct tg__compiles *c, struct tg__compile *x) {
  uint32_t len = 0;
  while (len < x->id.len && x->id.ptr[len] != '/') len++;
  for (size_t i = c->count; i-- > 0 && !x->function.len && len < x->id.len;) {
    const struct tg__compile *const y = &c->items[i];
    if (y->id.len <= len || memcmp(y->id.ptr, x->id.ptr, len + 1) != 0) continue;
    x->function = y->function;
    x->file = y->file;
    x->line = y->line;
  }
}

/* The log of a program has rows that its recording has, too. */
static bool is_known(const struct tg__compiles *c, const struct tg__compile *x) {
  for (size_t i = 0; i < c->count; i++)
    if (c->items[i].start_ns == x->start_ns && c->items[i].is_backward == x->is_backward &&
        tg__str_eq(c->items[i].id, x->id))
      return true;
  return false;
}

static void read_row(struct tg__compiles *c, struct tg__str row, int64_t base_ns) {
  static const char *const hits[] = {"inductor_fx_local_cache_hit_count", "inductor_fx_remote_cache_hit_count",
                                     "aotautograd_local_cache_hit_count", "aotautograd_remote_cache_hit_count"};
  static const char *const misses[] = {"inductor_fx_local_cache_miss_count", "inductor_fx_remote_cache_miss_count",
                                       "aotautograd_local_cache_miss_count", "aotautograd_remote_cache_miss_count"};
  const struct tg__str fail = decoded(c, tg__json_member(row, "fail_type")),
                       failed = decoded(c, tg__json_member(row, "fail_reason")),
                       broken = decoded(c, tg__json_member(row, "break_reason"));
  struct tg__compile x = {.id = decoded(c, tg__json_member(row, "compile_id")),
                          .function = plain_function(c, decoded(c, tg__json_member(row, "co_name"))),
                          .file = decoded(c, tg__json_member(row, "co_filename")),
                          .line = whole(row, "co_firstlineno"),
                          .guard = short_guard(decoded(c, tg__json_member(row, "recompile_reason"))),
                          .is_backward = tg__str_eq(tg__json_member(row, "is_forward"), TG_STR("false")),
                          .hits = sum_of(row, hits),
                          .misses = sum_of(row, misses),
                          .operators = whole(row, "graph_op_count")};
  if (tg__str_eq(tg__json_member(row, "is_runtime"), TG_STR("true"))) return;
  x.outcome = fail.len && names_a_limit(fail, failed) ? TG__COMPILE_LIMIT
              : fail.len || has_no_graph(row, &x)     ? TG__COMPILE_LEFT_OUT
                                                      : TG__COMPILE_DONE;
  x.is_again = x.guard.len > 0 || (x.id.len && !tg__str_has_suffix(x.id, "/0"));
  x.reason = short_reason(c, fail.len ? failed : broken);
  x.broken_in = decoded(c, tg__json_member(row, fail.len ? "fail_user_frame_filename" : "break_filename"));
  x.broken_at = whole(row, fail.len ? "fail_user_frame_lineno" : "break_lineno");
  read_times(row, base_ns, &x);
  if (x.start_ns != TG_NULL_INT && is_known(c, &x)) return;
  take_earlier_name(c, &x);
  if (!tg__grow((void **)&c->items, &c->cap, c->count + 1, sizeof *c->items))
    c->failed = true;
  else
    c->items[c->count++] = x;
}

void tg__compiles_open(const struct tg__columns *t, uint32_t rank, struct tg__compiles *out) {
  const struct tg__rank *const r = &t->ranks[rank];
  *out = (struct tg__compiles){0};
  for (size_t i = 0; i < r->meta_count; i++) {
    const struct tg__str key = tg__name(t, r->meta[i].key), raw = tg__name(t, r->meta[i].raw);
    if (!tg__is_member_of(r, key, "compiles.")) continue;
    const int64_t lost = whole(raw, "lost"), lost_ns = whole(raw, "lost_ns");
    out->lost += lost > 0 && lost < INT32_MAX ? lost : 0;
    out->lost_ns += lost_ns > 0 && lost_ns < INT64_MAX >> 20 ? lost_ns : 0;
    for (struct tg__members m = tg__members_of(tg__json_member(raw, "rows")); tg__members_next(&m) && !out->failed;)
      if (out->count < ROWS_MOST)
        read_row(out, m.value, r->base_ns);
      else
        out->lost++;
  }
}

void tg__compiles_close(struct tg__compiles *c) {
  tg__arena_free(&c->arena);
  tg__free(c->items);
}
