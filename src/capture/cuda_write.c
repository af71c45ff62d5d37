/* cuda_write: events of CUDA become records. Runs on the recorder's helper thread, and on the thread that stops the
 * recording for what is left then; never on both. A record has 32 bytes whatever it describes: where and how a kernel
 * ran is an entry of the LAUNCH dictionary, which a program that repeats itself writes once. */
#include <dlfcn.h>
#include <stdio.h>

#include "capture/cuda.h"
#include "capture/session.h"

enum {
  NAMES = 1024,
  LAUNCHES = 2048,
  FUNCTIONS = 1024,
  EVENTS = 1024,
  CONTEXTS = 64,
};

/* What a LAUNCH entry is made of; compared as bytes, so it has no padding. */
struct launch {
  uint64_t node;
  uint32_t kind, device, context, stream, registers, shared, graph, type, event, from_device, to_device;
  uint32_t grid[3], block[3];
  int32_t priority;
  uint32_t has_priority, event_stream;
};
_Static_assert(sizeof(struct launch) == 8 + 4 * 20, "compared as bytes");

struct known_launch {
  struct launch key;
  uint32_t id; /* 0 = empty */
};
struct known_name {
  const char *pointer; /* CUPTI's, which may point to another text later */
  uint32_t length, id;
  uint64_t head; /* first bytes of the text */
};
struct known_function {
  uint32_t id; /* 0 = not asked yet */
  bool is_noise;
};
struct known_event { /* the last record of a CUDA event */
  uint32_t context, event, correlation, stream;
};
static struct caches {
  struct known_launch launches[LAUNCHES];
  struct known_name names[NAMES];
  struct known_function functions[2][FUNCTIONS];
  struct known_event events[EVENTS];
  struct {
    uint32_t context, device;
  } contexts[CONTEXTS];
} *caches;
static struct tg__thread *owner; /* the ids are of its dictionaries */
static uint32_t owner_generation;
static struct tg__cuda_written written;
static uint64_t stop_ticks; /* 0 = it goes on; CUPTI's time for our flush after it does not count for the program */

/* ---- names ----------------------------------------------------------------------------------- */

typedef char *demangle_fn(const char *mangled, char *out, size_t *len, int *status);
typedef void free_fn(void *p);

/* The C++ runtime of the program, if it has one. Its memory is released at once. */
static uint32_t demangled_name(struct tg__thread *t, const char *mangled) {
  static demangle_fn *demangle;
  static free_fn *release;
  static bool was_sought;
  if (!was_sought) {
    void *const runtime = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY),
                *p = runtime ? dlsym(runtime, "__cxa_demangle") : NULL;
    void *const q = dlsym(RTLD_DEFAULT, "free");
    memcpy(&demangle, &p, sizeof p);
    memcpy(&release, &q, sizeof q);
    was_sought = true;
  }
  int status = -1;
  char *const text = demangle && release ? demangle(mangled, NULL, NULL, &status) : NULL;
  const char *const name = text && status == 0 ? text : mangled;
  const uint32_t id = tg__dictionary_intern(t, TG_RAW_D_NAME, 0, name, strlen(name));
  if (text) release(text);
  return id;
}

static uint64_t head_of(const char *text, uint32_t length) {
  uint64_t head = 0;
  memcpy(&head, text, length < sizeof head ? length : sizeof head);
  return head;
}

/* By address, compared with the length and the first bytes: a library that was unloaded may have made room for
 * another. */
static uint32_t kernel_name(struct tg__thread *t, const char *name) {
  if (!name) return tg__name_intern(t, "kernel without a name");
  struct known_name *const c = caches ? &caches->names[((uintptr_t)name ^ (uintptr_t)name >> 10) % NAMES] : NULL;
  const bool is_known = c && c->pointer == name;
  if (!is_known && !tg__capture_can_read(name, 1)) return tg__name_intern(t, "kernel without a name");
  const uint32_t length = (uint32_t)strnlen(name, TG_TEXT_MOST);
  if (is_known && c->length == length && c->head == head_of(name, length)) return c->id;
  const uint32_t id = name[0] == '_' && name[1] == 'Z' ? demangled_name(t, name)
                                                       : tg__dictionary_intern(t, TG_RAW_D_NAME, 0, name, length);
  if (c && id) *c = (struct known_name){name, length, id, head_of(name, length)};
  return id;
}

static const char *copy_kind(uint8_t kind) {
  static const char *const names[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

static const char *memory_kind(uint8_t kind) {
  static const char *const names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                      "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

static const char *wait_kind(uint32_t type) {
  static const char *const names[] = {"Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return type < sizeof names / sizeof *names ? names[type] : names[0];
}

static const char *overhead_kind(uint32_t type) {
  static const char *const names[] = {"Unknown",
                                      "Buffer Flush",
                                      "Instrumentation",
                                      "Resource",
                                      "Runtime Triggered Module Loading",
                                      "Lazy Function Loading",
                                      "Command Buffer Full",
                                      "Activity Buffer Request",
                                      "UVM Activity Init"};
  if (type == 1) return "Driver Compiler";
  const uint32_t n = type >> 16;
  return (type & 0xffff) == 0 && n < sizeof names / sizeof *names ? names[n] : names[0];
}

/* As Kineto writes them, so that every reader knows them. */
static uint32_t work_name(struct tg__thread *t, const struct tg__cuda_event *e) {
  char text[96];
  switch (e->kind) {
  case TG_CUPTI_CONCURRENT_KERNEL:
    return kernel_name(t, e->name);
  case TG_CUPTI_MEMSET:
    snprintf(text, sizeof text, "Memset (%s)", memory_kind(e->to));
    break;
  case TG_CUPTI_SYNCHRONIZATION:
    return tg__name_intern(t, wait_kind(e->type));
  case TG_CUPTI_OVERHEAD:
    return tg__name_intern(t, overhead_kind(e->type));
  default:
    snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", copy_kind(e->copy_kind), memory_kind(e->from),
             memory_kind(e->to));
  }
  return tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, strlen(text));
}

/* Calls that are made between any two others and say nothing: Kineto leaves them out, too. The driver's functions
 * stay if they do work. */
static bool is_noise(bool is_driver, const char *name) {
  static const char *const quiet[] = {"cudaGetDevice",           "cudaSetDevice",   "cudaGetLastError",
                                      "cudaPeekAtLastError",     "cudaEventCreate", "cudaEventDestroy",
                                      "cudaEventCreateWithFlags"};
  static const char *const kept[] = {"cuLaunchKernel",
                                     "cuLaunchKernelEx",
                                     "cuLaunchCooperativeKernel",
                                     "cuGraphLaunch",
                                     "cuMemCreate",
                                     "cuMemMap",
                                     "cuMemUnmap",
                                     "cuMemRelease",
                                     "cuMemExportToShareableHandle",
                                     "cuMemImportFromShareableHandle"};
  const char *const *const list = is_driver ? kept : quiet;
  const size_t count = is_driver ? sizeof kept / sizeof *kept : sizeof quiet / sizeof *quiet;
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i], name) == 0) return !is_driver;
  return is_driver;
}

/* Without the version: cudaLaunchKernel_v7000 → cudaLaunchKernel, cuLaunchKernel_ptsz as it is. */
static size_t plain_length(const char *name) {
  const size_t len = strlen(name);
  size_t digits = 0;
  while (digits < len && name[len - 1 - digits] >= '0' && name[len - 1 - digits] <= '9') digits++;
  return digits >= 4 && len > digits + 2 && strncmp(name + len - digits - 2, "_v", 2) == 0 ? len - digits - 2 : len;
}

static struct known_function find_function(struct tg__thread *t, bool is_driver, uint32_t number) {
  enum { DRIVER_API = 1, RUNTIME_API = 2 };
  struct known_function unknown = {0}, *const f = caches && number < FUNCTIONS ? &caches->functions[is_driver][number]
                                                                               : &unknown;
  if (f->id) return *f;
  const char *name = NULL;
  char text[96];
  if (tg__cupti.cuptiGetCallbackName(is_driver ? DRIVER_API : RUNTIME_API, number, &name) || !name) {
    snprintf(text, sizeof text, "%s function %u", is_driver ? "driver" : "runtime", number);
  } else {
    snprintf(text, sizeof text, "%.*s", (int)plain_length(name), name);
  }
  f->is_noise = is_noise(is_driver, text);
  f->id = tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, strlen(text));
  return *f;
}

/* ---- entries --------------------------------------------------------------------------------- */

void tg__cuda_put_field(struct tg__cuda_entry *x, enum tg__launch_field field, int64_t value) {
  if (x->len + TG_LAUNCH_FIELD_BYTES > sizeof x->bytes) return;
  x->bytes[x->len] = (uint8_t)field;
  tg__set64(x->bytes + x->len + 1, (uint64_t)value);
  x->len += TG_LAUNCH_FIELD_BYTES;
}

static void put_kernel(struct tg__cuda_entry *x, const struct launch *l) {
  tg__cuda_put_field(x, TG_LAUNCH_REGISTERS, l->registers);
  tg__cuda_put_field(x, TG_LAUNCH_SHARED_MEMORY, l->shared);
  for (int i = 0; i < 3; i++) tg__cuda_put_field(x, TG_LAUNCH_GRID_X + (unsigned)i, l->grid[i]);
  for (int i = 0; i < 3; i++) tg__cuda_put_field(x, TG_LAUNCH_BLOCK_X + (unsigned)i, l->block[i]);
  if (l->has_priority) tg__cuda_put_field(x, TG_LAUNCH_PRIORITY, l->priority);
}

static void put_wait(struct tg__cuda_entry *x, const struct launch *l) {
  enum { EVENT_SYNC = 1, STREAM_WAIT_EVENT = 2 };
  tg__cuda_put_field(x, TG_LAUNCH_SYNC_KIND, l->type);
  if (l->type != EVENT_SYNC && l->type != STREAM_WAIT_EVENT) return;
  tg__cuda_put_field(x, TG_LAUNCH_EVENT, l->event);
  tg__cuda_put_field(x, TG_LAUNCH_EVENT_STREAM, (int32_t)l->event_stream);
}

static uint32_t write_launch(struct tg__thread *t, const struct launch *l) {
  struct tg__cuda_entry x = {.len = 0};
  tg__cuda_put_field(&x, TG_LAUNCH_DEVICE, l->device);
  tg__cuda_put_field(&x, TG_LAUNCH_CONTEXT, l->context);
  tg__cuda_put_field(&x, TG_LAUNCH_STREAM, (int32_t)l->stream);
  if (l->kind == TG_CUPTI_CONCURRENT_KERNEL) put_kernel(&x, l);
  if (l->kind == TG_CUPTI_SYNCHRONIZATION) put_wait(&x, l);
  if (l->kind == TG_CUPTI_MEMCPY2) {
    tg__cuda_put_field(&x, TG_LAUNCH_FROM_DEVICE, l->from_device);
    tg__cuda_put_field(&x, TG_LAUNCH_TO_DEVICE, l->to_device);
  }
  if (l->graph || l->node) {
    tg__cuda_put_field(&x, TG_LAUNCH_GRAPH, l->graph);
    tg__cuda_put_field(&x, TG_LAUNCH_GRAPH_NODE, (int64_t)l->node);
    tg__cuda_graph_kept(t, l->node);
  }
  return tg__dictionary_intern(t, TG_RAW_D_LAUNCH, 0, x.bytes, x.len);
}

/* A sum of products, none of which waits for the one before it; by the four bytes in which the key was just written,
 * because a wider load would wait until they are in the cache. */
static uint32_t hash_launch(const struct launch *l) {
  uint64_t h = 0, factor = UINT64_C(0x9e3779b97f4a7c15);
  for (size_t i = 0; i < sizeof *l; i += 4, factor += UINT64_C(0xbf58476d1ce4e5ba))
    h += tg__at32((const uint8_t *)l + i) * factor;
  return (uint32_t)(h >> 40);
}

/* Where a launch is or may be kept: one of two places, so that two that meet do not drive each other out. */
static struct known_launch *find_launch(const struct launch *l) {
  struct known_launch *const first = &caches->launches[hash_launch(l) % LAUNCHES & ~1u], *const second = first + 1;
  if (first->id && memcmp(&first->key, l, sizeof *l) == 0) return first;
  if (second->id && memcmp(&second->key, l, sizeof *l) == 0) return second;
  if (first->id) *second = *first;
  first->id = 0;
  return first;
}

static uint32_t launch_of(struct tg__thread *t, const struct tg__cuda_event *e, uint32_t event_stream) {
  struct launch l = {.node = e->node,
                     .kind = e->kind,
                     .device = e->device,
                     .context = e->context,
                     .stream = e->stream,
                     .registers = e->registers,
                     .shared = e->shared,
                     .graph = e->graph,
                     .type = e->type,
                     .event = e->event,
                     .from_device = e->from_device,
                     .to_device = e->to_device,
                     .grid = {e->grid[0], e->grid[1], e->grid[2]},
                     .block = {e->block[0], e->block[1], e->block[2]},
                     .priority = e->priority,
                     .has_priority = e->has_priority,
                     .event_stream = event_stream};
  struct known_launch *const c = caches ? find_launch(&l) : NULL;
  if (c && c->id) return c->id;
  const uint32_t id = write_launch(t, &l);
  if (c) *c = (struct known_launch){l, id};
  return id;
}

/* ---- events that are waited for -------------------------------------------------------------- */

static struct known_event *event_slot(uint32_t context, uint32_t event) {
  return caches ? &caches->events[(context * 31 + event) % EVENTS] : NULL;
}

static void note_event(const struct tg__cuda_event *e) {
  struct known_event *const slot = event_slot(e->context, e->event);
  if (slot) *slot = (struct known_event){e->context, e->event, e->correlation, e->stream};
}

static struct known_event event_of(const struct tg__cuda_event *e) {
  const struct known_event none = {.stream = UINT32_MAX}, *const slot = event_slot(e->context, e->event);
  return slot && slot->context == e->context && slot->event == e->event && slot->context ? *slot : none;
}

/* Records of waits do not say the device; those of work and of contexts do. */
static void note_context(const struct tg__cuda_event *e) {
  if (!caches) return;
  caches->contexts[e->context % CONTEXTS].context = e->context;
  caches->contexts[e->context % CONTEXTS].device = e->device;
}

static uint32_t device_of(uint32_t context) {
  const bool is_known = caches && caches->contexts[context % CONTEXTS].context == context;
  return is_known ? caches->contexts[context % CONTEXTS].device : 0;
}

/* ---- one record ------------------------------------------------------------------------------ */

static bool set_time(struct tg__thread *t, const struct tg__cuda_event *e, struct tg__open *o, uint64_t *end) {
  if (e->start && e->end >= e->start && tg__cuda_ticks(e->start, &o->start_ticks) && tg__cuda_ticks(e->end, end))
    return true;
  tg__thread_count(t, TG_RAW_C_DEVICE_UNREAD, 1);
  written.unread++;
  return false;
}

/* `depth` holds a value here, and the thread's own state stays as it is. */
static void put_record(struct tg__thread *t, const struct tg__open *o, uint64_t end, uint16_t depth) {
  const uint32_t own_depth = t->depth;
  const uint64_t own_ticks = t->last_ticks;
  t->depth = depth;
  tg__record_put(t, o, end, 0);
  t->depth = own_depth;
  t->last_ticks = own_ticks;
}

static void write_work(struct tg__thread *t, const struct tg__cuda_event *e, uint8_t scope) {
  struct tg__open o = {.scope = scope, .stack = e->correlation, .seq = (uint32_t)e->bytes};
  uint64_t end;
  if (!set_time(t, e, &o, &end)) return;
  note_context(e);
  o.name = work_name(t, e);
  o.shape = launch_of(t, e, 0);
  put_record(t, &o, end, (uint16_t)(e->bytes >> 32));
}

static void write_wait(struct tg__thread *t, const struct tg__cuda_event *e) {
  enum { EVENT_SYNC = 1, STREAM_WAIT_EVENT = 2 };
  const bool is_event = e->type == EVENT_SYNC || e->type == STREAM_WAIT_EVENT;
  const struct known_event recorded = event_of(e);
  struct tg__open o = {
      .scope = TG_RAW_DEVICE_SYNC, .stack = e->correlation, .seq = is_event ? recorded.correlation : 0};
  uint64_t end;
  if (!set_time(t, e, &o, &end)) return;
  o.name = work_name(t, e);
  struct tg__cuda_event wait = *e;
  wait.device = device_of(e->context);
  o.shape = launch_of(t, &wait, is_event ? recorded.stream : UINT32_MAX);
  put_record(t, &o, end, 0);
}

static void write_call(struct tg__thread *t, const struct tg__cuda_event *e) {
  const bool is_driver = e->kind == TG_CUPTI_DRIVER;
  const struct known_function f = find_function(t, is_driver, e->function);
  if (f.is_noise) return;
  struct tg__open o = {.scope = is_driver ? TG_RAW_DRIVER_CALL : TG_RAW_RUNTIME_CALL,
                       .name = f.id,
                       .stack = e->correlation,
                       .seq = e->thread,
                       .shape = e->result};
  uint64_t end;
  if (!set_time(t, e, &o, &end)) return;
  put_record(t, &o, end, (uint16_t)e->function);
  written.calls++;
}

static void write_overhead(struct tg__thread *t, const struct tg__cuda_event *e) {
  struct tg__open o = {.scope = TG_RAW_DEVICE_OVERHEAD, .stack = e->correlation, .seq = e->thread};
  uint64_t end;
  if (!set_time(t, e, &o, &end) || (stop_ticks && o.start_ticks > stop_ticks)) return;
  o.name = work_name(t, e);
  put_record(t, &o, end, 0);
}

/* ---- memory of the driver -------------------------------------------------------------------- */

static uint32_t memory_name(struct tg__thread *t, const struct tg__cuda_event *e) {
  static const char *const operations[] = {"Operation", "Allocation", "Release"};
  static const char *const of_pools[] = {"Operation", "Created", "Destroyed", "Trimmed"};
  char text[96];
  if (e->kind == TG_CUPTI_MEMORY_POOL) {
    snprintf(text, sizeof text, "Memory Pool %s", of_pools[e->type < sizeof of_pools / sizeof *of_pools ? e->type : 0]);
  } else {
    snprintf(text, sizeof text, "Memory %s (%s)",
             operations[e->type < sizeof operations / sizeof *operations ? e->type : 0], memory_kind(e->to));
  }
  return tg__dictionary_intern(t, TG_RAW_D_NAME, 0, text, strlen(text));
}

static void put_variable(struct tg__cuda_entry *x, const char *name) {
  enum { MOST = 128 };
  if (!name || !tg__capture_can_read(name, 1)) return;
  const size_t len = strnlen(name, MOST);
  if (!len || x->len + TG_LAUNCH_FIELD_BYTES + len > sizeof x->bytes) return;
  tg__cuda_put_field(x, TG_LAUNCH_NAME, (int64_t)len);
  memcpy(x->bytes + x->len, name, len);
  x->len += len;
}

static void put_pool(struct tg__cuda_entry *x, const struct tg__cuda_event *e) {
  enum { LOCAL = 1, IMPORTED = 2, TRIMMED = 3 };
  const bool is_operation = e->kind == TG_CUPTI_MEMORY_POOL;
  tg__cuda_put_field(x, TG_LAUNCH_POOL_TYPE, e->pool.type);
  if (!is_operation) tg__cuda_put_field(x, TG_LAUNCH_POOL_ADDRESS, (int64_t)e->pool.address);
  if (e->pool.type == IMPORTED) tg__cuda_put_field(x, TG_LAUNCH_POOL_PROCESS, e->pool.process);
  if (e->pool.type == LOCAL) {
    tg__cuda_put_field(x, TG_LAUNCH_POOL_BYTES, (int64_t)e->pool.bytes);
    tg__cuda_put_field(x, TG_LAUNCH_POOL_THRESHOLD, (int64_t)e->pool.threshold);
    if (is_operation) tg__cuda_put_field(x, TG_LAUNCH_POOL_USED, (int64_t)e->pool.used);
  }
  if (is_operation && e->type == TRIMMED) tg__cuda_put_field(x, TG_LAUNCH_POOL_LEAST, (int64_t)e->pool.least);
}

/* Addresses are in the records, so that a program that repeats itself writes few entries. */
static uint32_t memory_entry(struct tg__thread *t, const struct tg__cuda_event *e) {
  struct tg__cuda_entry x = {.len = 0};
  tg__cuda_put_field(&x, TG_LAUNCH_DEVICE, e->device);
  if (e->kind == TG_CUPTI_MEMORY2) {
    tg__cuda_put_field(&x, TG_LAUNCH_CONTEXT, e->context);
    tg__cuda_put_field(&x, TG_LAUNCH_IS_ASYNC, e->is_async);
    if (e->is_async) tg__cuda_put_field(&x, TG_LAUNCH_STREAM, (int32_t)e->stream);
  }
  if (e->pool.type) put_pool(&x, e);
  if (e->kind == TG_CUPTI_MEMORY2) put_variable(&x, e->name);
  return tg__dictionary_intern(t, TG_RAW_D_LAUNCH, 0, x.bytes, x.len);
}

static void write_memory(struct tg__thread *t, const struct tg__cuda_event *e, uint8_t scope) {
  struct tg__open o = {.scope = scope, .stack = e->correlation, .seq = (uint32_t)e->bytes};
  uint64_t end;
  if (!set_time(t, e, &o, &end)) return;
  o.name = memory_name(t, e);
  o.shape = memory_entry(t, e);
  put_record(t, &o, o.start_ticks + e->address, (uint16_t)(e->bytes >> 32));
}

/* ---- every event ----------------------------------------------------------------------------- */

/* The ids in the caches are of one thread's dictionaries in one file. */
static void take_over(struct tg__thread *t) {
  const uint32_t generation = tg__generation_now();
  if (owner == t && owner_generation == generation) return;
  if (!caches) caches = tg__capture_pages(sizeof *caches);
  if (caches) memset(caches->launches, 0, sizeof caches->launches);
  if (caches) memset(caches->names, 0, sizeof caches->names);
  if (caches) memset(caches->functions, 0, sizeof caches->functions);
  owner = t;
  owner_generation = generation;
}

void tg__cuda_write_start(void) {
  written = (struct tg__cuda_written){0};
  stop_ticks = 0;
  if (caches) memset(caches->events, 0, sizeof caches->events);
}

void tg__cuda_write_stop(void) { stop_ticks = tg__ticks(); }

void tg__cuda_write(void *unused, const struct tg__cuda_event *e) {
  struct tg__thread *const t = tg__thread();
  if (!t) return;
  take_over(t);
  switch (e->kind) {
  case TG_CUPTI_CONCURRENT_KERNEL:
    written.kernels++;
    write_work(t, e, TG_RAW_KERNEL);
    break;
  case TG_CUPTI_MEMCPY:
  case TG_CUPTI_MEMCPY2:
    written.copies++;
    write_work(t, e, TG_RAW_COPY);
    break;
  case TG_CUPTI_MEMSET:
    written.fills++;
    write_work(t, e, TG_RAW_FILL);
    break;
  case TG_CUPTI_SYNCHRONIZATION:
    written.waits++;
    write_wait(t, e);
    break;
  case TG_CUPTI_RUNTIME:
  case TG_CUPTI_DRIVER:
    write_call(t, e);
    break;
  case TG_CUPTI_CUDA_EVENT:
    note_event(e);
    break;
  case TG_CUPTI_OVERHEAD:
    write_overhead(t, e);
    break;
  case TG_CUPTI_MEMORY2:
    written.memory++;
    write_memory(t, e, TG_RAW_DEVICE_MEMORY);
    break;
  case TG_CUPTI_MEMORY_POOL:
    written.memory++;
    write_memory(t, e, TG_RAW_DEVICE_POOL);
    break;
  case TG_CUPTI_CONTEXT:
    note_context(e);
    break;
  }
}

struct tg__cuda_written tg__cuda_written_now(void) { return written; }
