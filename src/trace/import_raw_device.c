/* Devices of a recording: what a LAUNCH entry says in the words of Kineto, the properties of devices, the names of
 * their rows. The figures that Kineto computes for a launch are computed here, from the same numbers. */
#include "trace/import_raw.h"

/* ---- entries --------------------------------------------------------------------------------- */

enum { FIELDS = sizeof((struct tg__raw_fields *)0)->value / sizeof(int64_t) };

bool tg__raw_read_fields(struct tg__str blob, struct tg__raw_fields *f) {
  struct tg__bytes b = {.p = (const uint8_t *)blob.ptr, .end = (const uint8_t *)blob.ptr + blob.len};
  *f = (struct tg__raw_fields){0};
  while (b.p < b.end && !b.broken) {
    const uint8_t field = tg__bytes_take8(&b);
    const int64_t value = (int64_t)tg__bytes_take64(&b);
    if (field == TG_LAUNCH_NAME) {
      if (value < 0 || value > b.end - b.p) return false;
      f->name = (struct tg__str){(const char *)tg__bytes_take(&b, (size_t)value), (uint32_t)value};
    } else if (field < FIELDS) {
      f->value[field] = value;
      f->present |= UINT64_C(1) << field;
    }
  }
  return !b.broken;
}

/* ---- what follows from a launch -------------------------------------------------------------- */

static const struct tg__raw_device *find_device(const struct tg__raw *w, int64_t number) {
  for (size_t i = w->device_count; i-- > 0;)
    if (w->devices[i].number == number) return &w->devices[i];
  return NULL;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up_to(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* Blocks a multiprocessor holds at once, as NVIDIA's occupancy calculator has it: registers come in steps of 256 a warp
 * from the four parts of the file, shared memory in steps of 128 bytes (256 before 8.0) with 1 KiB of the system's a
 * block from 8.0 on. 0 = not known. */
static int64_t active_blocks(const struct tg__raw_device *d, int64_t threads, int64_t registers, int64_t shared) {
  enum { PARTS = 4, REGISTER_STEP = 256 };
  if (d->WARP <= 0 || d->WARP > 1024 || threads <= 0 || threads > 1 << 20 || registers < 0 || registers > 1 << 16 ||
      shared < 0 || shared > 1 << 30)
    return 0;
  const int64_t warps = (threads + d->WARP - 1) / d->WARP;
  int64_t blocks = least(d->MOST_BLOCKS, d->MOST_WARPS / warps);
  if (registers) {
    const int64_t a_warp = round_up_to(registers * d->WARP, REGISTER_STEP);
    blocks = least(blocks, d->MOST_REGISTERS / PARTS / a_warp * PARTS / warps);
  }
  const bool is_new = d->COMPUTE_MAJOR >= 8;
  const int64_t a_block = round_up_to(shared + (is_new ? 1024 : 0), is_new ? 128 : 256);
  if (a_block) blocks = least(blocks, d->MOST_SHARED / a_block);
  return blocks > 0 ? blocks : 0;
}

struct values {
  struct tg__packed_val list[32]; /* an entry that has every field fills 31 */
  size_t count;
};
static void add_value(struct values *v, uint32_t key, enum tg__kind kind, int64_t i, uint8_t decimals) {
  v->list[v->count++] = (struct tg__packed_val){.key = key, .kind = (uint8_t)kind, .i = i, .decimals = decimals};
}

static void add_three(struct tg__raw *w, struct values *v, uint32_t key, const int64_t n[3]) {
  struct tg__out text = {0};
  tg__out_format(&text, "[%lld, %lld, %lld]", (long long)n[0], (long long)n[1], (long long)n[2]);
  if (text.err) w->no_memory = true;
  if (!text.err) add_value(v, key, TG__KIND_RAW, tg__raw_intern(w, text.buf, text.len), 0);
  tg__out_free(&text);
}

/* Rounded, in millionths. */
static int64_t millionths(__int128 n, int64_t of) {
  const __int128 v = (n * 1000000 + of / 2) / of;
  return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static bool is_size(int64_t n) { return n > 0 && n <= INT32_MAX; }

/* blocks per SM, warps per SM, est. achieved occupancy %: as torch's collector computes them. */
static void add_loads(struct values *v, const struct tg__raw_device *d, const struct tg__raw_fields *f,
                      const int64_t grid[3], const int64_t block[3]) {
  bool are_sizes = true;
  for (int i = 0; i < 3; i++) are_sizes = are_sizes && is_size(grid[i]) && is_size(block[i]);
  if (!d || !are_sizes || !is_size(d->MULTIPROCESSORS) || !is_size(d->WARP) || !is_size(d->MOST_WARPS)) return;
  const __int128 blocks = (__int128)grid[0] * grid[1] * grid[2];
  const int64_t threads = block[0] * block[1] < INT32_MAX ? block[0] * block[1] * block[2] : INT64_MAX;
  if (blocks > INT64_MAX / 1000000 || threads > 1 << 20) return;
  add_value(v, TG__K_BLOCKS_PER_SM, TG__KIND_DEC, millionths(blocks, d->MULTIPROCESSORS), 6);
  add_value(v, TG__K_WARPS_PER_SM, TG__KIND_DEC, millionths(blocks * threads, d->MULTIPROCESSORS * d->WARP), 6);
  const int64_t active = active_blocks(d, threads, f->value[TG_LAUNCH_REGISTERS], f->value[TG_LAUNCH_SHARED_MEMORY]);
  if (!active) return;
  /* The share in single precision, as torch's collector computes it: what is nearly a half rounds as it does there. */
  const float present = (float)(int64_t)blocks / (float)d->MULTIPROCESSORS,
              held = present < (float)active ? present : (float)active,
              share = held * (float)threads / (float)(d->MOST_WARPS * d->WARP);
  add_value(v, TG__K_OCCUPANCY, TG__KIND_INT, (int64_t)((double)share * 100 + 0.5), 0);
}

static void add_kernel(struct tg__raw *w, struct values *v, const struct tg__raw_fields *f) {
  const int64_t *const grid = &f->value[TG_LAUNCH_GRID_X], *const block = &f->value[TG_LAUNCH_BLOCK_X];
  add_value(v, TG__K_QUEUED, TG__KIND_INT, 0, 0); /* torch's collector never asks CUPTI for that time either */
  add_value(v, TG__K_REGISTERS, TG__KIND_INT, f->value[TG_LAUNCH_REGISTERS], 0);
  add_value(v, TG__K_SHARED_MEMORY, TG__KIND_INT, f->value[TG_LAUNCH_SHARED_MEMORY], 0);
  add_loads(v, find_device(w, f->value[TG_LAUNCH_DEVICE]), f, grid, block);
  add_three(w, v, TG__K_GRID, grid);
  add_three(w, v, TG__K_BLOCK, block);
  if (tg__raw_has(f, TG_LAUNCH_PRIORITY)) add_value(v, TG__K_PRIORITY, TG__KIND_INT, f->value[TG_LAUNCH_PRIORITY], 0);
}

static void add_wait(struct values *v, const struct tg__raw_fields *f) {
  static const uint32_t kinds[] = {TG__K_UNKNOWN_SYNC, TG__K_EVENT_SYNC, TG__K_STREAM_WAIT_EVENT, TG__K_STREAM_SYNC,
                                   TG__K_CONTEXT_SYNC};
  const int64_t kind = f->value[TG_LAUNCH_SYNC_KIND];
  const bool is_known = kind >= 0 && kind < (int64_t)(sizeof kinds / sizeof *kinds);
  add_value(v, TG__K_CUDA_SYNC_KIND, TG__KIND_STR, kinds[is_known ? kind : 0], 0);
  if (!tg__raw_has(f, TG_LAUNCH_EVENT)) return;
  add_value(v, TG__K_WAIT_ON_STREAM, TG__KIND_INT, f->value[TG_LAUNCH_EVENT_STREAM], 0);
  add_value(v, TG__K_WAIT_ON_EVENT, TG__KIND_INT, f->value[TG_LAUNCH_EVENT], 0);
}

uint32_t tg__raw_take_launch(struct tg__raw *w, const struct tg__raw_file *file, struct tg__str blob, bool *bad) {
  struct tg__raw_fields f;
  *bad = !tg__raw_read_fields(blob, &f);
  if (*bad || !tg__grow((void **)&w->launches, &w->launch_cap, w->launch_count + 1, sizeof *w->launches))
    return TG_NONE;
  char *const copy = tg__arena_get(&w->trace->arena, blob.len + 1);
  if (!copy) return TG_NONE;
  memcpy(copy, blob.ptr, blob.len);
  w->launches[w->launch_count] = (struct tg__raw_launch){
      .device = f.value[TG_LAUNCH_DEVICE], .stream = f.value[TG_LAUNCH_STREAM], .file = file, .blob = {copy, blob.len}};
  return (uint32_t)w->launch_count++;
}

static void add_captured(struct tg__raw *w, struct values *v, const struct tg__raw_launch *launch, uint64_t node) {
  const struct tg__raw_captured c = tg__raw_captured_by(w, launch->file, node);
  if (c.op != TG_NONE) add_value(v, TG__K_CAPTURED_OP, TG__KIND_STR, c.op, 0);
  if (c.module != TG_NONE) add_value(v, TG__K_CAPTURED_MODULE, TG__KIND_STR, c.module, 0);
  if (c.stack != TG_NONE) add_value(v, TG__K_CAPTURED_STACK, TG__KIND_STR, c.stack, 0);
}

/* Of an allocation, a release, or a pool. */
static void add_driver_memory(struct tg__raw *w, struct values *v, const struct tg__raw_fields *f) {
  static const struct {
    enum tg__launch_field field;
    uint32_t key;
  } numbers[] = {{TG_LAUNCH_POOL_ADDRESS, TG__K_POOL_ADDRESS}, {TG_LAUNCH_POOL_BYTES, TG__K_POOL_BYTES},
                 {TG_LAUNCH_POOL_USED, TG__K_POOL_USED},       {TG_LAUNCH_POOL_THRESHOLD, TG__K_POOL_THRESHOLD},
                 {TG_LAUNCH_POOL_LEAST, TG__K_POOL_LEAST},     {TG_LAUNCH_POOL_PROCESS, TG__K_POOL_PROCESS}};
  if (tg__raw_has(f, TG_LAUNCH_IS_ASYNC))
    add_value(v, TG__K_IS_ASYNC, f->value[TG_LAUNCH_IS_ASYNC] ? TG__KIND_TRUE : TG__KIND_FALSE, 0, 0);
  if (f->name.len) add_value(v, TG__K_VARIABLE, TG__KIND_STR, tg__raw_intern(w, f->name.ptr, f->name.len), 0);
  const int64_t type = f->value[TG_LAUNCH_POOL_TYPE];
  if (type == 1 || type == 2)
    add_value(v, TG__K_POOL_TYPE, TG__KIND_STR, type == 1 ? TG__K_LOCAL : TG__K_POOL_IMPORTED, 0);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (tg__raw_has(f, numbers[i].field)) add_value(v, numbers[i].key, TG__KIND_INT, f->value[numbers[i].field], 0);
}

static void pack_launch(struct tg__raw *w, struct tg__raw_launch *launch) {
  struct tg__raw_fields f;
  struct values v = {.count = 0};
  if (!tg__raw_read_fields(launch->blob, &f)) return;
  add_value(&v, TG__K_DEVICE, TG__KIND_INT, launch->device, 0);
  const bool is_memory = tg__raw_has(&f, TG_LAUNCH_IS_ASYNC) || tg__raw_has(&f, TG_LAUNCH_POOL_TYPE);
  if (!is_memory || tg__raw_has(&f, TG_LAUNCH_CONTEXT))
    add_value(&v, TG__K_CONTEXT, TG__KIND_INT, f.value[TG_LAUNCH_CONTEXT], 0);
  if (!is_memory || tg__raw_has(&f, TG_LAUNCH_STREAM)) add_value(&v, TG__K_STREAM, TG__KIND_INT, launch->stream, 0);
  if (is_memory) add_driver_memory(w, &v, &f);
  if (tg__raw_has(&f, TG_LAUNCH_GRID_X)) add_kernel(w, &v, &f);
  if (tg__raw_has(&f, TG_LAUNCH_SYNC_KIND)) add_wait(&v, &f);
  if (tg__raw_has(&f, TG_LAUNCH_FROM_DEVICE)) {
    add_value(&v, TG__K_FROM_DEVICE, TG__KIND_INT, f.value[TG_LAUNCH_FROM_DEVICE], 0);
    add_value(&v, TG__K_TO_DEVICE, TG__KIND_INT, f.value[TG_LAUNCH_TO_DEVICE], 0);
  }
  if (tg__raw_has(&f, TG_LAUNCH_GRAPH)) {
    add_value(&v, TG__K_GRAPH_ID, TG__KIND_INT, f.value[TG_LAUNCH_GRAPH], 0);
    add_value(&v, TG__K_GRAPH_NODE_ID, TG__KIND_INT, f.value[TG_LAUNCH_GRAPH_NODE], 0);
    add_captured(w, &v, launch, (uint64_t)f.value[TG_LAUNCH_GRAPH_NODE]);
  }
  if (!w->no_memory && !tg__raw_pack_values(w, v.list, v.count, &launch->values)) w->no_memory = true;
}

void tg__raw_pack_launches(struct tg__raw *w) {
  for (size_t i = 0; i < w->launch_count && !w->no_memory; i++) pack_launch(w, &w->launches[i]);
}

uint32_t tg__raw_take_device(struct tg__raw *w, struct tg__str blob, bool *bad) {
  struct tg__raw_fields f;
  *bad = !tg__raw_read_fields(blob, &f);
  if (*bad || !tg__grow((void **)&w->devices, &w->device_cap, w->device_count + 1, sizeof *w->devices)) return TG_NONE;
  const uint32_t name = tg__raw_intern(w, f.name.len ? f.name.ptr : "", f.name.len);
  if (name == TG_NONE) return TG_NONE;
  w->devices[w->device_count] = (struct tg__raw_device){.number = f.value[TG_LAUNCH_DEVICE],
                                                        .name = tg__name(w->trace, name),
#define LIMIT(limit) .limit = f.value[TG_LAUNCH_##limit],
                                                        DEVICE_LIMITS(LIMIT)
#undef LIMIT
  };
  return (uint32_t)w->device_count++;
}

struct tg__packed_val tg__raw_bandwidth(int64_t bytes, int64_t dur_ns) {
  struct tg__packed_val v = {.key = TG__K_BANDWIDTH, .kind = TG__KIND_DEC, .decimals = 9};
  __int128 n = (__int128)bytes * 1000000000 / dur_ns;
  for (; n > INT64_MAX; n /= 10) v.decimals--;
  v.i = (int64_t)n;
  return v;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void tg__raw_device_member(struct tg__raw *w, struct tg__out *o) {
  tg__out_char(o, '[');
  for (size_t i = 0; i < w->device_count; i++) {
    const struct tg__raw_device *const d = &w->devices[i];
    if (find_device(w, d->number) != d) continue; /* said again */
    if (o->len > 1) tg__out_text(o, ", ");
    tg__out_format(o, "{\"id\": %lld, \"name\": \"", (long long)d->number);
    tg__json_escape(o, d->name, true);
    tg__out_format(
        o,
        "\", \"totalGlobalMem\": %lld, \"computeMajor\": %lld, \"computeMinor\": %lld, "
        "\"maxThreadsPerBlock\": %lld, \"maxThreadsPerMultiprocessor\": %lld, \"regsPerBlock\": %lld, "
        "\"warpSize\": %lld, \"sharedMemPerBlock\": %lld, \"numSms\": %lld, \"regsPerMultiprocessor\": %lld, "
        "\"sharedMemPerBlockOptin\": %lld, \"sharedMemPerMultiprocessor\": %lld}",
        (long long)d->MEMORY_BYTES, (long long)d->COMPUTE_MAJOR, (long long)d->COMPUTE_MINOR,
        (long long)d->BLOCK_THREADS, (long long)d->MOST_WARPS * d->WARP, (long long)d->BLOCK_REGISTERS,
        (long long)d->WARP, (long long)d->BLOCK_SHARED, (long long)d->MULTIPROCESSORS, (long long)d->MOST_REGISTERS,
        (long long)d->BLOCK_OPTIN, (long long)d->MOST_SHARED);
  }
  tg__out_char(o, ']');
  if (o->err) w->no_memory = true;
}

static void add_name(struct tg__raw *w, uint32_t name, uint32_t track, uint32_t key, const char *format, int64_t n) {
  struct tg__out text = {0};
  tg__out_format(&text, format, (long long)n);
  if (text.err) w->no_memory = true;
  if (!text.err) tg__raw_add_metadata(w, name, track, key, TG__KIND_STR, tg__raw_intern(w, text.buf, text.len));
  tg__out_free(&text);
}

static void add_device(struct tg__raw *w, int64_t number) {
  enum { BEHIND_PROCESSES = 5000000 };
  const uint32_t track = tg__intern_track(w->parser, &(struct tg__track_key){.pid = number});
  tg__raw_add_metadata(w, TG__K_PROCESS_NAME, track, TG__K_NAME, TG__KIND_STR, tg__raw_intern(w, "python", 6));
  add_name(w, TG__K_PROCESS_LABELS, track, TG__K_LABELS, "GPU %lld", number);
  tg__raw_add_metadata(w, TG__K_PROCESS_SORT_INDEX, track, TG__K_SORT_INDEX, TG__KIND_INT, BEHIND_PROCESSES + number);
}

static void add_stream(struct tg__raw *w, const struct tg__raw_place *p) {
  if (p->tid < 0) {
    add_name(w, TG__K_THREAD_NAME, p->track, TG__K_NAME, "Device %lld", p->pid);
  } else {
    add_name(w, TG__K_THREAD_NAME, p->track, TG__K_NAME, "stream %lld ", p->tid);
  }
  tg__raw_add_metadata(w, TG__K_THREAD_SORT_INDEX, p->track, TG__K_SORT_INDEX, TG__KIND_INT, p->tid);
}

void tg__raw_device_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count) {
  struct tg__map devices = {0}, streams = {0};
  for (size_t i = 0; i < count && !w->no_memory; i++) {
    for (size_t k = 0; k < jobs[i].place_count && !w->no_memory && !jobs[i].damaged; k++) {
      const struct tg__raw_place *const p = &jobs[i].places[k];
      if (!p->is_device || tg__map_get(&streams, p->track) != TG_NONE) continue;
      const bool is_new = tg__map_get(&devices, (uint64_t)p->pid) == TG_NONE;
      if (!tg__map_put(&streams, p->track, 1) || !tg__map_put(&devices, (uint64_t)p->pid, 1)) w->no_memory = true;
      if (is_new) add_device(w, p->pid);
      add_stream(w, p);
    }
  }
  tg__map_free(&devices);
  tg__map_free(&streams);
}
