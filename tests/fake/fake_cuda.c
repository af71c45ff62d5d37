/* fake_cuda: see fake_cuda.h. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, CONTEXT = 9, KERNEL = 10, OVERHEAD = 17 };
enum {
  PEER = 22,
  EVENT = 36,
  SYNC = 38,
  MEMORY = 49,
  POOL = 50,
  KINDS = 64,
  NAMES = 512,
  OFFSETS = 1 << 16,
  BUFFERS = 256
};

struct buffer {
  uint8_t *bytes;
  size_t room, used, count;
  uint32_t *at; /* of its records */
};
struct device {
  int attribute[128]; /* by the driver's numbers */
  char name[64];
};
static struct {
  int broken;
  uint32_t version;
  int devices, init, busy, strange, refuse[KINDS];
  bool own_clock, hold;
  int64_t step_ns, skew_ppm;
  size_t drop;
  uint16_t grow[KINDS];
  char spoil[32];
  struct {
    uint32_t domain, number;
    char name[64];
  } names[NAMES];
  size_t name_count;
  struct device device[8];
} set;
static bool enabled[KINDS], is_subscribed, is_domain_on[4], is_called[32]; /* by function of the resource domain */
static void (*call_back)(void *, uint32_t, uint32_t, const void *);
static void (*requested)(uint8_t **, size_t *, size_t *);
static void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t (*stamp)(void);
static uint64_t requests, refusals, registrations, flushes, finals, correlations, tellings;
static struct buffer buffers[BUFFERS], *current;
static int64_t play_ns, wall_at_play, first_ns, skew_from;
static uint64_t ticks_at_play, first_ticks;
static double rate; /* ticks a ns */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- clocks ---------------------------------------------------------------------------------- */

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t own_now(void) {
  const int64_t now = clock_ns(CLOCK_REALTIME);
  return now + set.step_ns + (now - skew_from) / 1000000 * set.skew_ppm;
}

/* Both clocks at one moment, as near as can be. */
static void read_pair(uint64_t *ticks, int64_t *ns) {
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 9; i++) {
    const uint64_t before = stamp();
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    const uint64_t after = stamp();
    if (after - before >= shortest) continue;
    shortest = after - before;
    *ticks = before + (after - before) / 2;
    *ns = now;
  }
}

/* Ticks a ns, over 20 ms at least. */
static double tick_rate(void) {
  uint64_t ticks;
  int64_t now;
  read_pair(&ticks, &now);
  if (now - first_ns < 20000000) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    read_pair(&ticks, &now);
  }
  return (double)(ticks - first_ticks) / (double)(now - first_ns);
}

static void begin_play(void) {
  wall_at_play = own_now();
  rate = stamp ? tick_rate() : 0;
  if (stamp) read_pair(&ticks_at_play, &play_ns);
}

static uint64_t time_of(int64_t ns) {
  if (set.own_clock || !stamp || set.strange > 0) {
    if (set.strange > 0) set.strange--;
    return (uint64_t)(wall_at_play + ns);
  }
  return ticks_at_play + (uint64_t)((double)ns * rate);
}

static uint64_t time_now(void) { return set.own_clock || !stamp ? (uint64_t)own_now() : stamp(); }

/* ---- buffers --------------------------------------------------------------------------------- */

static struct buffer *buffer_at(const uint8_t *bytes) {
  for (int i = 0; i < BUFFERS; i++)
    if (buffers[i].bytes == bytes) return &buffers[i];
  for (int i = 0; i < BUFFERS; i++)
    if (!buffers[i].bytes) return &buffers[i];
  return NULL;
}

static void complete(void) {
  struct buffer *const b = current;
  if (!b || !completed) return;
  current = NULL;
  completed(NULL, 0, b->bytes, b->room, b->used);
}

static bool has_room(size_t bytes) {
  if (current && (current->used + bytes > current->room || current->count == OFFSETS)) complete();
  if (current) return true;
  uint8_t *bytes_of = NULL;
  size_t room = 0, most = 0;
  if (!requested) return false;
  requests++;
  requested(&bytes_of, &room, &most);
  struct buffer *const b = bytes_of ? buffer_at(bytes_of) : NULL;
  if (!b) {
    refusals++;
    return false;
  }
  if (!b->at) b->at = malloc(OFFSETS * sizeof *b->at);
  *b = (struct buffer){.bytes = bytes_of, .room = room, .at = b->at};
  current = b;
  return true;
}

static size_t size_of(uint32_t kind) {
  const bool is_13 = set.version >= 130000;
  static const struct {
    uint32_t kind;
    uint16_t bytes_12, bytes_13;
  } sizes[] = {{MEMCPY, 96, 112}, {MEMSET, 88, 104},  {DRIVER, 40, 40},   {RUNTIME, 40, 40},
               {CONTEXT, 32, 40}, {KERNEL, 208, 248}, {OVERHEAD, 56, 56}, {PEER, 96, 96},
               {EVENT, 56, 80},   {SYNC, 56, 56},     {MEMORY, 120, 128}, {POOL, 72, 80}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].kind == kind) return (is_13 ? sizes[i].bytes_13 : sizes[i].bytes_12) + set.grow[kind];
  return 0;
}

/* Room for a record of that kind, its kind written; NULL = not enabled, or dropped. */
static uint8_t *record_of(uint32_t kind, size_t bytes) {
  if (kind < KINDS && !enabled[kind] && size_of(kind)) return NULL;
  if (!has_room(bytes)) {
    set.drop++;
    return NULL;
  }
  uint8_t *const r = current->bytes + current->used;
  memset(r, 0, bytes);
  memcpy(r, &kind, 4);
  current->at[current->count++] = (uint32_t)current->used;
  current->used += bytes;
  return r;
}

static void put16(uint8_t *r, size_t at, uint64_t v) { memcpy(r + at, &(uint16_t){(uint16_t)v}, 2); }
static void put32(uint8_t *r, size_t at, uint64_t v) { memcpy(r + at, &(uint32_t){(uint32_t)v}, 4); }
static void put64(uint8_t *r, size_t at, uint64_t v) { memcpy(r + at, &v, 8); }

/* ---- records --------------------------------------------------------------------------------- */

static const char *kept_text(const char *text) {
  static char *texts[4096];
  uint32_t h = 2166136261u;
  for (const char *p = text; *p; p++) h = (h ^ (uint8_t)*p) * 16777619u;
  for (size_t i = h % 4096, n = 0; n < 4096; i = (i + 1) % 4096, n++) {
    if (!texts[i]) texts[i] = strdup(text);
    if (strcmp(texts[i], text) == 0) return texts[i];
  }
  return strdup(text);
}

/* start, end, device, context, stream, correlation, graph, node, grid, block, registers, static, dynamic */
static void put_kernel(uint64_t start, uint64_t end, const int64_t *n, const char *name) {
  uint8_t *const r = record_of(KERNEL, size_of(KERNEL));
  if (!r) return;
  put16(r, 6, (uint64_t)n[12]);
  put64(r, 16, start);
  put64(r, 24, end);
  for (int i = 0; i < 3; i++) put32(r, 40 + 4 * (size_t)i, (uint64_t)n[i]);
  for (int i = 0; i < 3; i++) put32(r, 52 + 4 * (size_t)i, (uint64_t)n[6 + i]);
  for (int i = 0; i < 3; i++) put32(r, 64 + 4 * (size_t)i, (uint64_t)n[9 + i]);
  put32(r, 76, (uint64_t)n[13]);
  put32(r, 80, (uint64_t)n[14]);
  put32(r, 92, (uint64_t)n[3]);
  put64(r, 104, (uint64_t)(uintptr_t)kept_text(name));
  put64(r, 144, (uint64_t)n[5]);
  put32(r, 156, (uint64_t)n[4]);
}

/* The subscriber is called. */
static void tell(uint32_t domain, uint32_t function, const void *data) {
  if (!is_subscribed) return;
  tellings++;
  call_back(NULL, domain, function, data);
}

static void put_call(uint32_t kind, uint64_t start, uint64_t end, uint32_t function, uint32_t thread,
                     uint32_t correlation) {
  const uint32_t domain = kind == DRIVER ? 1 : 2;
  for (uint32_t site = 0; site < 2; site++) /* as the call begins and as it ends */
    if (is_domain_on[domain]) tell(domain, function, &(uint32_t[]){site});
  uint8_t *const r = record_of(kind, size_of(kind));
  if (!r) return;
  put32(r, 4, function);
  put64(r, 8, start);
  put64(r, 16, end);
  put32(r, 24, (uint64_t)getpid());
  put32(r, 28, thread);
  put32(r, 32, correlation);
}

/* device, context, stream, correlation, bytes, copy kind, from, to */
static void put_copy(uint64_t start, uint64_t end, const int64_t *n) {
  uint8_t *const r = record_of(MEMCPY, size_of(MEMCPY));
  if (!r) return;
  r[4] = (uint8_t)n[5];
  r[5] = (uint8_t)n[6];
  r[6] = (uint8_t)n[7];
  put64(r, 8, (uint64_t)n[4]);
  put64(r, 16, start);
  put64(r, 24, end);
  for (int i = 0; i < 4; i++) put32(r, 32 + 4 * (size_t)i, (uint64_t)n[i]);
}

/* device, context, stream, correlation, bytes, to */
static void put_fill(uint64_t start, uint64_t end, const int64_t *n) {
  uint8_t *const r = record_of(MEMSET, size_of(MEMSET));
  if (!r) return;
  put64(r, 8, (uint64_t)n[4]);
  put64(r, 16, start);
  put64(r, 24, end);
  for (int i = 0; i < 4; i++) put32(r, 32 + 4 * (size_t)i, (uint64_t)n[i]);
  put16(r, 50, (uint64_t)n[5]);
}

/* device, context, stream, correlation, bytes, from device, to device */
static void put_peer(uint64_t start, uint64_t end, const int64_t *n) {
  uint8_t *const r = record_of(PEER, size_of(PEER));
  if (!r) return;
  r[4] = 10;
  r[5] = r[6] = 3;
  put64(r, 8, (uint64_t)n[4]);
  put64(r, 16, start);
  put64(r, 24, end);
  for (int i = 0; i < 3; i++) put32(r, 32 + 4 * (size_t)i, (uint64_t)n[i]);
  put32(r, 44, (uint64_t)n[5]);
  put32(r, 52, (uint64_t)n[6]);
  put32(r, 60, (uint64_t)n[3]);
}

/* type, context, stream, event, correlation */
static void put_sync(uint64_t start, uint64_t end, const int64_t *n) {
  uint8_t *const r = record_of(SYNC, size_of(SYNC));
  if (!r) return;
  put32(r, 4, (uint64_t)n[0]);
  put64(r, 8, start);
  put64(r, 16, end);
  put32(r, 24, (uint64_t)n[4]);
  put32(r, 28, (uint64_t)n[1]);
  put32(r, 32, (uint64_t)n[2]);
  put32(r, 36, (uint64_t)n[3]);
}

static void put_event(const int64_t *n) {
  uint8_t *const r = record_of(EVENT, size_of(EVENT));
  if (!r) return;
  put32(r, 4, (uint64_t)n[3]);
  for (int i = 0; i < 3; i++) put32(r, 8 + 4 * (size_t)i, (uint64_t)n[i]);
}

static void put_overhead(uint64_t start, uint64_t end, const int64_t *n) {
  uint8_t *const r = record_of(OVERHEAD, size_of(OVERHEAD));
  if (!r) return;
  put32(r, 4, (uint64_t)n[0]);
  put32(r, 8, 2); /* a thread */
  put32(r, 16, (uint64_t)n[1]);
  put64(r, 24, start);
  put64(r, 32, end);
}

/* operation, memory kind, correlation, address, bytes, device, context, stream, async, pool's type, address, threshold
 * and size */
static void put_memory(uint64_t time, const int64_t *n, const char *name) {
  uint8_t *const r = record_of(MEMORY, size_of(MEMORY));
  if (!r) return;
  for (int i = 0; i < 3; i++) put32(r, 4 + 4 * (size_t)i, (uint64_t)n[i]);
  put64(r, 16, (uint64_t)n[3]);
  put64(r, 24, (uint64_t)n[4]);
  put64(r, 32, time);
  put64(r, 40, 0xdeadbeef); /* where the program called */
  put32(r, 48, (uint64_t)getpid());
  for (int i = 0; i < 3; i++) put32(r, 52 + 4 * (size_t)i, (uint64_t)n[5 + i]);
  put64(r, 64, *name ? (uint64_t)(uintptr_t)kept_text(name) : 0);
  put32(r, 72, (uint64_t)n[8]);
  put32(r, 80, (uint64_t)n[9]);
  for (int i = 0; i < 3; i++) put64(r, 88 + 8 * (size_t)i, (uint64_t)n[10 + i]);
}

/* operation, type, correlation, process, device, bytes to keep, address, bytes, threshold, bytes in use */
static void put_pool(uint64_t time, const int64_t *n) {
  uint8_t *const r = record_of(POOL, size_of(POOL));
  if (!r) return;
  for (int i = 0; i < 5; i++) put32(r, 4 + 4 * (size_t)i, (uint64_t)n[i]);
  for (int i = 0; i < 4; i++) put64(r, 24 + 8 * (size_t)i, (uint64_t)n[5 + i]);
  put64(r, 56, time);
  put64(r, 64, (uint64_t)n[9]);
}

/* number, multiprocessors, warps and blocks of one, its shared memory, compute capability */
static void set_device(const int64_t *n, const char *name) {
  struct device *const d = &set.device[n[0] & 7];
  *d = (struct device){{[1] = 1024, [8] = 49152, [10] = 32, [12] = 65536, [82] = 65536, [97] = 232448}, ""};
  d->attribute[16] = (int)n[1];
  d->attribute[39] = (int)n[2] * 32;
  d->attribute[106] = (int)n[3];
  d->attribute[81] = (int)n[4];
  d->attribute[75] = (int)n[5];
  snprintf(d->name, sizeof d->name, "%s", name);
  if (set.devices <= n[0]) set.devices = (int)n[0] + 1;
}

static void put_context(const int64_t *n) {
  uint8_t *const r = record_of(CONTEXT, size_of(CONTEXT));
  if (!r) return;
  put32(r, 4, (uint64_t)n[0]);
  put32(r, 8, (uint64_t)n[1]);
}

/* From 0 to below `limit`, the same in every process. */
static int64_t jitter_of(int64_t limit) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return limit > 0 ? (int64_t)(state >> 33) % limit : 0;
}

/* Kernels and their launches by this thread, on streams in turn. */
static void put_kernels(int64_t count, int64_t every, int64_t dur, int64_t streams, int64_t jitter) {
  static const char *const names[] = {"gemm", "softmax", "layer_norm", "add"};
  const uint32_t thread = (uint32_t)syscall(SYS_gettid);
  for (int64_t i = 0; i < count; i++) {
    const int64_t stream = 7 + (streams > 0 ? i % streams : 0), call = i * every + jitter_of(jitter),
                  start = call + every / 2 - jitter_of(jitter) / 2, end = start + dur + jitter_of(jitter);
    const int64_t n[] = {0, 1, stream, 1000 + i, 0, 0, 8 * (i % 4 + 1), 4, 1, 256, 1, 1, 32, 0, 1024};
    put_call(RUNTIME, time_of(call), time_of(start), 211, thread, (uint32_t)(1000 + i));
    put_kernel(time_of(start), time_of(end), n, names[i % 4]);
  }
}

/* The address of a node, of a graph and of one that is instantiated is its number. */
static void call_of_graph(uint32_t function, uint64_t node, uint64_t from, uint64_t type) {
  const uint64_t graph[7] = {1, from ? 1 : 0, node, from, type, 0, 0};
  const uint64_t resource[3] = {1, 0, (uintptr_t)graph};
  if (is_called[function]) tell(3, function, resource);
}
static void destroy_graph(uint32_t function, uint64_t graph, uint64_t instantiated) {
  const uint64_t data[7] = {graph, 0, 0, 0, 0, 0, instantiated};
  const uint64_t resource[3] = {1, 0, (uintptr_t)data};
  if (is_called[function]) tell(3, function, resource);
}

/* A context ends: subscribers are called, as CUPTI does before it. */
static void destroy_context(uint32_t number) {
  const uint64_t resource[3] = {number, 0, 0};
  if (is_called[2]) tell(3, 2, resource);
}

/* Another profiler registers buffers of its own: what CUPTI has of ours goes to it. */
static void request_other(uint8_t **buffer, size_t *bytes, size_t *most) { *buffer = NULL, *bytes = 0, *most = 0; }
static void complete_other(void *of, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {}
static void take_over(void) {
  requested = request_other;
  completed = complete_other;
}

/* ---- scripts --------------------------------------------------------------------------------- */

static bool is_word(const char *word, const char *command) { return strcmp(word, command) == 0; }

/* Numbers from p on; their count. *rest: behind the last one that was wanted. */
static int numbers_of(const char *p, int64_t *n, int most, const char **rest) {
  int count = 0;
  for (char *end; count < most; count++, p = end) {
    n[count] = strtoll(p, &end, 10);
    if (end == p) break;
  }
  while (*p == ' ') p++;
  *rest = p;
  return count;
}

static bool set_one(const char *word, const int64_t *n, const char *text) {
  if (is_word(word, "version")) return set.version = (uint32_t)n[0], true;
  if (is_word(word, "devices")) return set.devices = (int)n[0], true;
  if (is_word(word, "driver")) return set.init = (int)n[0], true;
  if (is_word(word, "busy")) return set.busy = (int)n[0], true;
  if (is_word(word, "broken")) return set.broken = (int)n[0], true;
  if (is_word(word, "refuse")) return set.refuse[n[0] & 63] = (int)n[1], true;
  if (is_word(word, "own_clock")) return set.own_clock = true, true;
  if (is_word(word, "strange_clock")) return set.strange = (int)n[0], true;
  if (is_word(word, "step")) return set.step_ns += n[0], true;
  if (is_word(word, "skew")) return set.skew_ppm = n[0], skew_from = clock_ns(CLOCK_REALTIME), true;
  if (is_word(word, "spoil")) return snprintf(set.spoil, sizeof set.spoil, "%s", text) > 0;
  if (is_word(word, "drop")) return set.drop = (size_t)n[0], true;
  if (is_word(word, "grow")) return set.grow[n[0] & 63] = (uint16_t)n[1], true;
  if (is_word(word, "hold")) return set.hold = true, true;
  if (is_word(word, "capture")) return call_of_graph(13, (uint64_t)n[0], 0, (uint64_t)n[1]), true;
  if (is_word(word, "clone")) return call_of_graph(20, (uint64_t)n[0], (uint64_t)n[1], (uint64_t)n[2]), true;
  if (is_word(word, "destroy_node")) return call_of_graph(14, (uint64_t)n[0], 0, 0), true;
  if (is_word(word, "destroy_graph")) return destroy_graph(10, (uint64_t)n[0], 0), true;
  if (is_word(word, "destroy_exec")) return destroy_graph(19, 0, (uint64_t)n[0]), true;
  if (!is_word(word, "function") || set.name_count == NAMES) return false;
  set.names[set.name_count].domain = (uint32_t)n[0];
  set.names[set.name_count].number = (uint32_t)n[1];
  snprintf(set.names[set.name_count++].name, sizeof set.names->name, "%s", text);
  return true;
}

static bool put_one(const char *word, const int64_t *n, const char *text) {
  const uint64_t start = time_of(n[0]), end = time_of(n[1]);
  if (is_word(word, "kernel")) return put_kernel(start, n[0] || n[1] ? end : 0, n + 2, text), true;
  if (is_word(word, "memcpy")) return put_copy(start, end, n + 2), true;
  if (is_word(word, "memset")) return put_fill(start, end, n + 2), true;
  if (is_word(word, "peer")) return put_peer(start, end, n + 2), true;
  if (is_word(word, "runtime"))
    return put_call(RUNTIME, start, end, (uint32_t)n[2], (uint32_t)n[3], (uint32_t)n[4]), true;
  if (is_word(word, "driver_call"))
    return put_call(DRIVER, start, end, (uint32_t)n[2], (uint32_t)n[3], (uint32_t)n[4]), true;
  if (is_word(word, "sync")) return put_sync(start, end, n + 2), true;
  if (is_word(word, "event")) return put_event(n), true;
  if (is_word(word, "overhead")) return put_overhead(start, end, n + 2), true;
  if (is_word(word, "memory")) return put_memory(start, n + 1, text), true;
  if (is_word(word, "pool")) return put_pool(start, n + 1), true;
  if (is_word(word, "device")) return set_device(n, text), true;
  if (is_word(word, "context")) return put_context(n), true;
  if (is_word(word, "kernels")) return put_kernels(n[0], n[1], n[2], n[3], n[4]), true;
  if (is_word(word, "unknown")) return record_of((uint32_t)n[0], (size_t)n[1]), true;
  if (is_word(word, "destroy")) return destroy_context((uint32_t)n[0]), true;
  if (is_word(word, "takeover")) return take_over(), true;
  if (is_word(word, "flush") || is_word(word, "release")) return set.hold = false, complete(), true;
  return false;
}

static bool run_line(char *line) {
  char *const comment = strchr(line, '#'), *word = line;
  if (comment && (comment == line || comment[-1] == ' ')) *comment = 0;
  while (*word == ' ') word++;
  for (size_t len = strlen(word); len && (word[len - 1] == ' ' || word[len - 1] == '\r'); len--) word[len - 1] = 0;
  if (!*word) return true;
  char *const space = strchr(word, ' ');
  int64_t n[20] = {0};
  const char *text = "";
  if (space) *space = 0;
  /* A kernel's name, or a device's, may begin with a digit. */
  const int most = is_word(word, "kernel")     ? 17
                   : is_word(word, "memory")   ? 14
                   : is_word(word, "device")   ? 6
                   : is_word(word, "function") ? 2
                                               : 20;
  if (space) numbers_of(space + 1, n, most, &text);
  return set_one(word, n, text) || put_one(word, n, text);
}

EXPORT int fake_run(const char *script) {
  char line[8192];
  int number = 0, bad = 0;
  pthread_mutex_lock(&lock);
  begin_play();
  for (const char *p = script; *p && !bad;) {
    const size_t len = strcspn(p, "\n");
    number++;
    snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), p);
    if (!run_line(line)) bad = number;
    p += len + (p[len] == '\n');
  }
  pthread_mutex_unlock(&lock);
  return bad;
}

static void run_file(const char *path) {
  FILE *const f = fopen(path, "r");
  static char text[1 << 16];
  if (!f) return;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  fake_run(text);
}

EXPORT void fake_reset(void) {
  memset(&set, 0, sizeof set);
  set.version = 28;
  set.devices = 1;
  set_device((const int64_t[]){0, 132, 64, 32, 233472, 9}, "NVIDIA H100 80GB HBM3");
  requests = refusals = flushes = 0;
  fake_run("function 2 211 cudaLaunchKernel_v7000\nfunction 2 41 cudaMemcpyAsync_v3020\n"
           "function 2 51 cudaMemsetAsync_v3020\nfunction 2 131 cudaStreamSynchronize_v3020\n"
           "function 2 165 cudaDeviceSynchronize_v3020\nfunction 2 17 cudaGetDevice_v3020\n"
           "function 2 311 cudaGraphLaunch_v10000\nfunction 1 307 cuLaunchKernel\nfunction 1 3 cuDeviceGet\n");
}

__attribute__((constructor)) static void begin(void) {
  fake_reset();
  const char *const path = getenv("FAKE_CUDA_SCRIPT");
  if (path) run_file(path);
}

EXPORT uint64_t fake_number(const char *what) {
  uint64_t n = 0;
  for (int i = 0; i < KINDS && is_word(what, "enabled"); i++) n += enabled[i];
  if (is_word(what, "subscribed")) return is_subscribed;
  for (int i = 0; i < 32 && is_word(what, "called"); i++) n += is_called[i];
  if (is_word(what, "told")) return tellings;
  if (is_word(what, "requested")) return requests;
  if (is_word(what, "refused")) return refusals;
  if (is_word(what, "registered")) return registrations;
  if (is_word(what, "flushed")) return flushes;
  if (is_word(what, "finalized")) return finals;
  return n;
}

/* ---- libcupti -------------------------------------------------------------------------------- */

EXPORT int cuptiGetVersion(uint32_t *version) { return *version = set.version, 0; }
EXPORT int cuptiSubscribe(void **subscriber, void *callback, void *context) {
  if (set.busy || is_subscribed) return set.busy ? set.busy : 39;
  is_subscribed = true;
  call_back = (void (*)(void *, uint32_t, uint32_t, const void *))callback;
  *subscriber = &is_subscribed;
  return 0;
}
EXPORT int cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain) {
  return is_domain_on[domain & 3] = enable, 0;
}
EXPORT int cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t function) {
  if (domain == 3 && function < 32) is_called[function] = enable;
  return 0;
}
EXPORT int cuptiGetGraphNodeId(const void *node, uint64_t *number) {
  *number = (uintptr_t)node;
  return node ? 0 : 1;
}
EXPORT int cuptiGetGraphId(const void *graph, uint32_t *number) { return *number = (uint32_t)(uintptr_t)graph, 0; }
EXPORT int cuptiGetGraphExecId(const void *graph, uint32_t *number) { return *number = (uint32_t)(uintptr_t)graph, 0; }
EXPORT int cuptiFinalize(void) {
  is_subscribed = false;
  memset(is_domain_on, 0, sizeof is_domain_on);
  memset(is_called, 0, sizeof is_called);
  requested = NULL;
  completed = NULL;
  stamp = NULL;
  finals++;
  return 0;
}
EXPORT int cuptiUnsubscribe(void *subscriber) { return is_subscribed = false, 0; }
/* A torch for CUDA is bound to these when it is loaded; its own collector calls them. */
EXPORT int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) { return 0; }
EXPORT int cuptiActivityEnableDriverApi(uint32_t function, uint8_t enable) { return 0; }
EXPORT int cuptiActivityEnableRuntimeApi(uint32_t function, uint8_t enable) { return 0; }
EXPORT int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *number) { return 0; }
EXPORT int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t number) { return 0; }
EXPORT int cuptiActivitySetAttribute(uint32_t attribute, size_t *bytes, void *value) { return 0; }
EXPORT int cuptiActivityRegisterCallbacks(void (*a)(uint8_t **, size_t *, size_t *),
                                          void (*b)(void *, uint32_t, uint8_t *, size_t, size_t)) {
  requested = a;
  completed = b;
  return 0;
}
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*time)(void)) {
  if (set.own_clock) return 27;
  registrations++;
  stamp = time;
  read_pair(&first_ticks, &first_ns);
  return 0;
}
EXPORT int cuptiActivityEnable(uint32_t kind) {
  if (kind >= KINDS) return 1;
  if (set.refuse[kind]) return set.refuse[kind];
  enabled[kind] = true;
  if (kind == CONTEXT) put_context((const int64_t[]){1, 0});
  return 0;
}
EXPORT int cuptiActivityDisable(uint32_t kind) { return kind < KINDS ? (enabled[kind] = false, 0) : 1; }
EXPORT int cuptiActivityFlushAll(uint32_t flag) {
  flushes++;
  if (!set.hold && !set.broken) complete();
  return set.broken;
}
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record) {
  const struct buffer *const b = buffer_at(buffer);
  if (!b || b->bytes != buffer) return 1;
  if (!*record) return b->count ? (*record = buffer, 0) : 12;
  const uint32_t at = (uint32_t)((uint8_t *)*record - buffer);
  size_t low = 0, high = b->count;
  while (low < high) { /* the first behind it */
    const size_t middle = (low + high) / 2;
    if (b->at[middle] <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < b->count ? (*record = buffer + b->at[low], 0) : 12;
}
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
  *dropped = set.drop;
  set.drop = 0;
  return 0;
}
EXPORT int cuptiGetTimestamp(uint64_t *time) { return *time = time_now(), 0; }
EXPORT int cuptiSetThreadIdType(uint32_t type) { return 0; }
EXPORT int cuptiGetResultString(uint32_t result, const char **text) {
  *text = result == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
  return 0;
}
EXPORT int cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  for (size_t i = 0; i < set.name_count; i++) {
    if (set.names[i].domain != domain || set.names[i].number != number) continue;
    *name = set.names[i].name;
    return 0;
  }
  return 1;
}

/* ---- libcuda --------------------------------------------------------------------------------- */

static int context;

/* A call of the driver now, and its correlation. */
static uint32_t called(uint32_t function, uint64_t *from) {
  const bool is_other = is_word(set.spoil, "thread");
  const uint32_t correlation = (uint32_t)++correlations, thread = (uint32_t)syscall(SYS_gettid) + is_other;
  *from = time_now();
  put_call(DRIVER, *from, time_now(), function, thread, correlation + is_word(set.spoil, "correlation") * 100);
  return correlation;
}

EXPORT int cuInit(unsigned flags) { return set.init; }
EXPORT int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
EXPORT int cuDeviceGetCount(int *count) { return *count = set.devices, 0; }
EXPORT int cuDeviceGet(int *device, int number) { return *device = number, set.broken; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return *value = set.device[device & 7].attribute[attribute & 127], 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = UINT64_C(85018279936), 0; }
EXPORT int cuDeviceGetName(char *text, int room, int device) {
  snprintf(text, (size_t)room, "%s", set.device[device & 7].name);
  return 0;
}
EXPORT int cuCtxGetCurrent(void **out) {
  for (uint32_t site = 0; site < 2; site++)
    if (is_domain_on[1]) tell(1, 304, &(uint32_t[]){site});
  return *out = NULL, set.broken;
}
EXPORT int cuCtxPushCurrent_v2(void *c) { return 0; }
EXPORT int cuCtxPopCurrent_v2(void **c) { return 0; }
EXPORT int cuDevicePrimaryCtxRetain(void **out, int device) { return *out = &context, 0; }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) { return *address = 4096, 0; }
EXPORT int cuMemFree_v2(uint64_t address) { return 0; }
EXPORT int cuModuleLoadData(void **module, const void *image) { return *module = &context, 0; }
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  *function = (void *)(uintptr_t)kept_text(name);
  return 0;
}
EXPORT int cuModuleUnload(void *module) { return 0; }
EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream) {
  uint64_t from;
  const int64_t n[] = {0, 1, 7, called(209, &from), (int64_t)bytes, 3};
  if (!is_word(set.spoil, "fill")) put_fill(from, time_now(), n);
  return 0;
}
EXPORT int cuMemcpyHtoD_v2(uint64_t address, const void *data, size_t bytes) {
  uint64_t from;
  const int64_t n[] = {0, 1, 7, called(276, &from), (int64_t)bytes, is_word(set.spoil, "direction") ? 2 : 1, 1, 3};
  if (!is_word(set.spoil, "copy")) put_copy(from, time_now(), n);
  return 0;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
  uint64_t from;
  const uint32_t correlation = called(307, &from);
  const int64_t n[] = {0,  1,  7,  correlation, 0, 0,     is_word(set.spoil, "grid") ? 99 : gx, gy, gz,
                       bx, by, bz, 8,           0, shared};
  if (is_word(set.spoil, "time")) from += UINT64_C(1) << 36;
  if (!is_word(set.spoil, "kernel")) put_kernel(from, is_word(set.spoil, "time") ? from : time_now(), n, function);
  return 0;
}
EXPORT int cuStreamSynchronize(void *stream) {
  uint64_t from;
  const int64_t n[] = {3, 1, 7, 0, called(126, &from)};
  if (!is_word(set.spoil, "wait")) put_sync(from, time_now(), n);
  return 0;
}
EXPORT int cuDeviceGetPCIBusId(char *text, int room, int device) {
  snprintf(text, (size_t)room, "0000:%02x:00.0", 7 - device); /* the other way round than they are numbered */
  return 0;
}

/* ---- libnvidia-ml ---------------------------------------------------------------------------- */

EXPORT int nvmlInit_v2(void) { return 0; }
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
  *device = (void *)(uintptr_t)strtoul(bus + 5, NULL, 16);
  return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void *device, uint32_t shares[2]) { return shares[0] = 83, shares[1] = 20, 0; }
EXPORT int nvmlDeviceGetMemoryInfo(void *device, uint64_t bytes[3]) {
  bytes[0] = UINT64_C(80) << 30;
  bytes[1] = UINT64_C(79) << 30;
  bytes[2] = UINT64_C(1) << 30;
  return 0;
}
EXPORT int nvmlDeviceGetPowerUsage(void *device, uint32_t *milliwatts) {
  return *milliwatts = 1000 * (uint32_t)(uintptr_t)device, 0; /* says which device was asked */
}
EXPORT int nvmlDeviceGetClockInfo(void *device, int which, uint32_t *mhz) { return *mhz = which == 1 ? 1980 : 2619, 0; }
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, uint32_t *celsius) { return *celsius = 54, 0; }
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *reasons) { return 3; /* not supported */ }
