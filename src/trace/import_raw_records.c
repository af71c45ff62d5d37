/* Record chunks become import records. One chunk is one job, so that all cores work on a long thread; what chunks
 * share (texts, schemas) is made under a lock the first time and then only looked up. */
#include "trace/import_raw.h"

#include <assert.h>

enum { SCHEMA_CACHE = 64, RECORD_FIELD_BYTES = 96 /* of a record's own args, without its inputs */ };

/* Groups of fields that an event's args may have, in this order behind its inputs. */
enum field_set {
  HAS_SEQUENCE = 1,
  HAS_OVERLOAD = 2,
  HAS_MODULES = 4,
  HAS_STACK = 8,
  HAS_MODULE_ID = 16,
  HAS_MODULE_PATH = 32,
  HAS_CALLER = 64,
  HAS_GENERATION = 128,
  IS_ASYNC = 256,
  IS_CUT = 512,
  IS_COUNTER = 1024, /* has nothing else */
  IS_MARK = 2048,    /* likewise, but for those of NVTX and of devices */
  HAS_COST = 4096,   /* of a step */
  HAS_WAIT = 8192,
  HAS_CPU = 16384, /* of a sample */
  HAS_CORRELATION = 1 << 15,
  HAS_BYTES = 1 << 16, /* of a copy */
  HAS_BANDWIDTH = 1 << 17,
  HAS_FUNCTION = 1 << 18, /* of a call of a device's driver */
  HAS_WAIT_RECORD = 1 << 19,
  HAS_PAYLOAD = 1 << 20, /* of a range or mark of NVTX */
  HAS_PAYLOAD_TEXT = 1 << 21,
  HAS_ADDRESS = 1 << 22, /* of memory that a driver allocates */
  HAS_CALL = 1 << 23,    /* of an operation: the number that an execution trace has for it */
  HAS_THREAD = 1 << 24,  /* of a sample of another thread than the loop's */
};

struct job { /* the private half of a tg__raw_job */
  struct tg__raw_job *out;
  struct tg__raw *raw;
  struct tg__raw_ids scope;
  struct tg__raw_cursor cursor;
  struct {
    uint32_t layout, set, schema; /* schema TG_NONE = empty */
  } schemas[SCHEMA_CACHE];
  uint16_t cats[256]; /* by scope; UINT16_MAX = not known yet */
};

/* The values of one event on their way into the pool. */
struct packing {
  uint32_t set;
  const struct tg__raw_shape *shape; /* NULL = none */
  /* number: of a module, a thread, a generation, a counter's value, us on a core; of a step all three: us on a core,
   * preemptions, us without a core; seq: objects collected, too */
  int64_t seq, forward, number;
  uint32_t overload, modules, stack, module_path, caller, payload;
  int64_t correlation, bytes, function, wait_record, address; /* of devices */
  int64_t call;
  struct tg__packed_val bandwidth;
};

const char *tg__raw_category(uint8_t scope) {
  switch (scope) {
#define RAW_SCOPE(name, number, category, meaning)                                                                     \
  case number:                                                                                                         \
    return category;
#include "format/events.def"
  default:
    return "cpu_op"; /* the framework's rarer scopes; ours are all listed */
  }
}

/* ---- schemas and categories ------------------------------------------------------------------ */

static const struct {
  uint32_t set, key;
  enum tg__kind kind;
  bool top;
} fields[] = {
    {HAS_SEQUENCE, TG__K_SEQUENCE_NUMBER, TG__KIND_INT, false},
    {HAS_SEQUENCE, TG__K_FWD_THREAD_ID, TG__KIND_INT, false},
    {HAS_OVERLOAD, TG__K_OVERLOAD_NAME, TG__KIND_STR, false},
    {HAS_MODULES, TG__K_MODULE_HIERARCHY, TG__KIND_STR, false},
    {HAS_STACK, TG__K_CALL_STACK, TG__KIND_STR, false},
    {HAS_MODULE_ID, TG__K_PYTHON_MODULE_ID, TG__KIND_INT, false},
    {HAS_MODULE_PATH, TG__K_MODULE_PATH, TG__KIND_STR, false},
    {HAS_CALLER, TG__K_CALL_FROM, TG__KIND_STR, false},
    {HAS_GENERATION, TG__K_GENERATION, TG__KIND_INT, false},
    {HAS_GENERATION, TG__K_COLLECTED, TG__KIND_INT, false},
    {IS_ASYNC, TG__K_ASYNC, TG__KIND_TRUE, false},
    {IS_CUT, TG__K_FINISHED, TG__KIND_FALSE, false},
    {IS_COUNTER, TG__K_VALUE, TG__KIND_INT, false},
    {IS_MARK, TG__K_S, TG__KIND_STR, true},
    {HAS_COST, TG__K_THREAD_CPU_US, TG__KIND_INT, false},
    {HAS_COST, TG__K_PREEMPTIONS, TG__KIND_INT, false},
    {HAS_WAIT, TG__K_CORE_WAIT_US, TG__KIND_INT, false},
    {HAS_CPU, TG__K_THREAD_CPU_US, TG__KIND_INT, false},
    {HAS_THREAD, TG__K_SAMPLED_THREAD, TG__KIND_INT, false},
    {HAS_FUNCTION, TG__K_CBID, TG__KIND_INT, false},
    {HAS_CORRELATION, TG__K_CORRELATION, TG__KIND_INT, false},
    {HAS_BYTES, TG__K_BYTES, TG__KIND_INT, false},
    {HAS_BANDWIDTH, TG__K_BANDWIDTH, TG__KIND_DEC, false},
    {HAS_WAIT_RECORD, TG__K_WAIT_ON_RECORD, TG__KIND_INT, false},
    {HAS_PAYLOAD, TG__K_NVTX_PAYLOAD, TG__KIND_INT, false},
    {HAS_PAYLOAD_TEXT, TG__K_NVTX_PAYLOAD, TG__KIND_RAW, false},
    {HAS_ADDRESS, TG__K_ADDR, TG__KIND_INT, false},
    {HAS_CALL, TG__K_RECORD_FUNCTION_ID, TG__KIND_INT, false},
};

static uint32_t make_schema(struct tg__raw *w, uint32_t layout, uint32_t set) {
  uint32_t id = TG_NONE;
  tg__lock_take(w->lock);
  struct tg__parser *const p = w->parser;
  const struct tg__raw_layout none = {0}, *const inputs = layout ? &w->layouts[layout] : &none;
  p->val_count = 0;
  if (tg__grow((void **)&p->vals, &p->val_cap, inputs->count + sizeof fields / sizeof *fields, sizeof *p->vals)) {
    if (inputs->count) memcpy(p->vals, inputs->fields, inputs->count * sizeof *p->vals);
    p->val_count = inputs->count;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
      if (set & fields[i].set) tg__row_value(p, fields[i].key, fields[i].kind, 0, fields[i].top);
    }
    const struct tg__guess *const schema = tg__intern_schema(p, set != IS_MARK || inputs->count, p->vals, p->val_count);
    if (schema) id = schema->id;
  }
  p->val_count = 0;
  tg__lock_drop(w->lock);
  return id;
}

static uint32_t schema_of(struct job *j, uint32_t layout, uint32_t set) {
  const size_t slot = (layout * 31 ^ set ^ set >> 6) % SCHEMA_CACHE;
  if (TG_LIKELY(j->schemas[slot].schema != TG_NONE && j->schemas[slot].layout == layout && j->schemas[slot].set == set))
    return j->schemas[slot].schema;
  const uint32_t made = make_schema(j->raw, layout, set);
  j->schemas[slot].layout = layout;
  j->schemas[slot].set = set;
  return j->schemas[slot].schema = made;
}

static uint16_t category_of(struct job *j, uint8_t scope) {
  if (TG_LIKELY(j->cats[scope] != UINT16_MAX)) return j->cats[scope];
  const char *const text = tg__raw_category(scope);
  const uint32_t id = *text ? tg__raw_intern(j->raw, text, strlen(text)) : TG_NONE;
  tg__lock_take(j->raw->lock);
  const uint32_t cat = tg__intern_cat(j->raw->parser, id);
  tg__lock_drop(j->raw->lock);
  return j->cats[scope] = (uint16_t)cat;
}

/* ---- packing --------------------------------------------------------------------------------- */

static inline uint8_t *put_number(uint8_t *p, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *p++ = (uint8_t)(v | 0x80);
  *p++ = (uint8_t)v;
  return p;
}
static inline uint8_t *put_record_int(uint8_t *p, int64_t v) {
  return put_number(p, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

/* The same bytes that tg__pack_args would write. */
static uint32_t pack(struct job *j, const struct packing *v) {
  struct tg__raw_job *const out = j->out;
  const uint32_t schema = schema_of(j, v->shape ? v->shape->layout : 0, v->set), inputs = v->shape ? v->shape->len : 0;
  if (schema == TG_NONE ||
      !tg__grow((void **)&out->pool, &out->pool_cap, out->pool_len + inputs + RECORD_FIELD_BYTES, 1)) {
    out->no_memory = true;
    return TG_NONE;
  }
  uint8_t *const start = out->pool + out->pool_len, *p = start;
  *p++ = (uint8_t)schema;
  *p++ = (uint8_t)(schema >> 8);
  *p++ = (uint8_t)(schema >> 16);
  for (uint32_t i = 0; i < inputs; i++) *p++ = v->shape->values[i];
  if (v->set & HAS_SEQUENCE) p = put_record_int(put_record_int(p, v->seq), v->forward);
  if (v->set & HAS_OVERLOAD) p = put_number(p, v->overload);
  if (v->set & HAS_MODULES) p = put_number(p, v->modules);
  if (v->set & HAS_STACK) p = put_number(p, v->stack);
  if (v->set & HAS_MODULE_ID) p = put_record_int(p, v->number);
  if (v->set & HAS_MODULE_PATH) p = put_number(p, v->module_path);
  if (v->set & HAS_CALLER) p = put_number(p, v->caller);
  if (v->set & HAS_GENERATION) p = put_record_int(put_record_int(p, v->number), v->seq);
  if (v->set & IS_COUNTER) p = put_record_int(p, v->number);
  if (v->set & IS_MARK) p = put_number(p, TG__K_T);
  if (v->set & HAS_COST) p = put_record_int(put_record_int(p, v->number), v->seq);
  if (v->set & HAS_WAIT) p = put_record_int(p, v->forward);
  if (v->set & HAS_CPU) p = put_record_int(p, v->number);
  if (v->set & HAS_THREAD) p = put_record_int(p, v->number);
  if (v->set & HAS_FUNCTION) p = put_record_int(p, v->function);
  if (v->set & HAS_CORRELATION) p = put_record_int(p, v->correlation);
  if (v->set & HAS_BYTES) p = put_record_int(p, v->bytes);
  if (v->set & HAS_BANDWIDTH) *p++ = v->bandwidth.decimals, p = put_record_int(p, v->bandwidth.i);
  if (v->set & HAS_WAIT_RECORD) p = put_record_int(p, v->wait_record);
  if (v->set & HAS_PAYLOAD) p = put_record_int(p, v->number);
  if (v->set & HAS_PAYLOAD_TEXT) p = put_number(p, v->payload);
  if (v->set & HAS_ADDRESS) p = put_record_int(p, v->address);
  if (v->set & HAS_CALL) p = put_record_int(p, v->call);
  while ((p - start) % 4) *p++ = 0;
  const uint32_t reference = (uint32_t)(out->pool_len / 4);
  out->pool_len += (size_t)(p - start);
  return reference;
}

/* ---- one record ------------------------------------------------------------------------------ */

static uint32_t unknown_name(struct job *j, uint32_t id, int64_t offset) {
  struct tg__out text = {0};
  tg__count_loss(&j->out->losses, TG__LOSS_bent_no_dictionary, offset);
  tg__out_text(&text, "name#");
  tg__out_uint(&text, id);
  const uint32_t made = text.err ? TG_NONE : tg__raw_intern(j->raw, text.buf, text.len);
  if (made == TG_NONE) j->out->no_memory = true;
  tg__out_free(&text);
  return made;
}

static uint32_t record_name_of(struct job *j, uint32_t id, struct packing *v, int64_t offset) {
  const uint32_t at = tg__raw_find(&j->scope, TG_RAW_D_NAME, id);
  if (TG_UNLIKELY(at == TG_NONE)) return unknown_name(j, id, offset);
  const struct tg__raw_name *const n = &j->raw->names[at];
  if (n->overload != TG_NONE) {
    v->set |= HAS_OVERLOAD;
    v->overload = n->overload;
  }
  return n->text;
}

static void set_caller(struct job *j, uint32_t stack, struct packing *v) {
  v->caller = stack ? tg__raw_called_at(j->raw, &j->scope, stack) : TG_NONE;
  if (v->caller != TG_NONE) v->set |= HAS_CALLER;
}

/* Modules of Python stand back where TorchScript says its own. */
static void describe_stack(struct job *j, uint32_t stack, struct packing *v, int64_t offset) {
  v->stack = tg__raw_full_stack(j->raw, &j->scope, stack);
  if (v->stack == TG_NONE) tg__count_loss(&j->out->losses, TG__LOSS_bent_no_details, offset);
  const uint32_t modules = tg__raw_modules_text(j->raw, &j->scope, stack);
  v->module_path = modules == TG_NONE ? TG__K_EMPTY : tg__raw_module_path(j->raw, &j->scope, stack);
  if (v->stack != TG_NONE) v->set |= HAS_STACK;
  if (v->stack != TG_NONE && j->scope.has_calls) set_caller(j, stack, v); /* else the stack itself says the line */
  if (v->modules == TG_NONE) v->modules = modules;
  if (v->module_path != TG__K_EMPTY) v->set |= HAS_MODULE_PATH;
}

/* Kineto writes both numbers when there is a sequence number; the forward thread is 0 but for autograd nodes. */
static void describe_op(struct job *j, const struct tg__raw_record *r, struct packing *v, int64_t offset) {
  struct tg__raw_context around = tg__raw_context_of(j->raw, &j->scope, r->stack);
  if (r->scope == TG_RAW_BACKWARD && !(r->stack & TG_RAW_CONTEXT_ENTRY))
    around = (struct tg__raw_context){.thread = r->stack, .modules = TG_NONE};
  const uint32_t stack = around.stack;
  if (r->seq) {
    v->set |= HAS_SEQUENCE;
    v->seq = (int64_t)r->seq - 1;
    v->forward = around.thread;
  }
  const uint32_t shape = r->shape ? tg__raw_find(&j->scope, TG_RAW_D_SHAPE, r->shape) : TG_NONE;
  if (shape != TG_NONE) v->shape = &j->raw->shapes[shape];
  if (r->shape && shape == TG_NONE) tg__count_loss(&j->out->losses, TG__LOSS_bent_no_details, offset);
  v->modules = around.modules;
  if (stack) describe_stack(j, stack, v, offset);
  if (v->modules != TG_NONE) v->set |= HAS_MODULES;
}

/* The call of a module, by the module its STACK entry has; TG_NONE when it has none. */
static uint32_t describe_module(struct job *j, uint32_t stack, struct packing *v) {
  const uint32_t at = tg__raw_find(&j->scope, TG_RAW_D_MODULE, stack);
  if (at == TG_NONE) return TG_NONE;
  const struct tg__raw_module *const m = &j->raw->modules[at];
  v->set |= HAS_MODULE_ID;
  v->number = m->number;
  if (m->path != TG__K_EMPTY) {
    v->set |= HAS_MODULE_PATH;
    v->module_path = m->path;
  }
  return m->name;
}

/* Python frames. Returns the name. */
static uint32_t describe_frame(struct job *j, const struct tg__raw_record *r, struct packing *v, int64_t offset) {
  if (r->scope == TG_RAW_PYTHON_C_CALL) {
    set_caller(j, r->stack, v);
    return record_name_of(j, r->name, v, offset);
  }
  const uint32_t at = tg__raw_find(&j->scope, TG_RAW_D_STACK, r->stack);
  const struct tg__raw_frame *const frame = at == TG_NONE ? NULL : &j->raw->frames[at];
  if (frame) set_caller(j, frame->parent, v);
  const uint32_t module = r->scope == TG_RAW_MODULE ? describe_module(j, r->stack, v) : TG_NONE;
  if (module != TG_NONE) return module;
  if (frame && r->scope == TG_RAW_PYTHON_CALL)
    return frame->text; /* the line it was entered at: a generator goes on at its yield */
  return record_name_of(j, r->name, v, offset);
}

/* Where a thread was: its innermost frame; the name states its activity. */
static uint32_t describe_sample(struct job *j, const struct tg__raw_record *r, struct packing *v, int64_t offset) {
  v->set |= r->seq ? HAS_THREAD : HAS_CPU;
  v->number = r->seq ? r->seq : r->shape;
  v->stack = tg__raw_full_stack(j->raw, &j->scope, r->stack);
  if (v->stack != TG_NONE)
    v->set |= HAS_STACK;
  else
    tg__count_loss(&j->out->losses, TG__LOSS_bent_no_details, offset);
  return record_name_of(j, r->name, v, offset);
}

static int64_t wide(uint32_t low, uint32_t high) { return (int64_t)((uint64_t)high << 32 | low); }

static uint32_t describe_nvtx(struct job *j, const struct tg__raw_record *r, struct packing *v, int64_t offset) {
  const uint32_t name = record_name_of(j, r->name, v, offset),
                 at = r->shape ? tg__raw_find(&j->scope, TG_RAW_D_LABEL, r->shape) : TG_NONE;
  const struct tg__raw_label *const label = at == TG_NONE ? NULL : &j->raw->labels[at];
  if (r->scope == TG_RAW_NVTX_MARK) v->set |= IS_MARK;
  if (r->shape && !label) tg__count_loss(&j->out->losses, TG__LOSS_bent_no_details, offset);
  if (!label) return name;
  if (label->values.layout) v->shape = &label->values;
  v->number = wide(r->stack, r->seq);
  if (label->payload_type == TG_PAYLOAD_SIGNED || (label->payload_type == TG_PAYLOAD_UNSIGNED && v->number >= 0)) {
    v->set |= HAS_PAYLOAD;
  } else if (label->payload_type) {
    v->payload = tg__raw_payload_text(j->raw, label->payload_type, (uint64_t)v->number);
    if (v->payload != TG_NONE) v->set |= HAS_PAYLOAD_TEXT;
  }
  return name;
}

static uint32_t describe(struct job *j, const struct tg__raw_record *r, struct packing *v, int64_t offset) {
  if (r->flags & TG_RAW_F_ASYNC) v->set |= IS_ASYNC;
  if (r->flags & TG_RAW_F_CUT) v->set |= IS_CUT;
  switch (r->scope) {
  case TG_RAW_MODULE:
  case TG_RAW_PYTHON_CALL:
  case TG_RAW_PYTHON_C_CALL:
    return describe_frame(j, r, v, offset);
  case TG_RAW_GC:
    v->set |= HAS_GENERATION;
    v->number = (int64_t)r->seq - 1;
    v->seq = r->shape;
    return record_name_of(j, r->name, v, offset);
  case TG_RAW_STEP:
    if (r->seq) v->set |= r->stack == UINT32_MAX ? HAS_COST : HAS_COST | HAS_WAIT;
    v->number = r->shape;
    v->seq = (int64_t)r->seq - 1;
    v->forward = r->stack;
    return record_name_of(j, r->name, v, offset);
  case TG_RAW_SAMPLE:
    return describe_sample(j, r, v, offset);
  case TG_RAW_NVTX_RANGE:
  case TG_RAW_NVTX_MARK:
    return describe_nvtx(j, r, v, offset);
  case TG_RAW_COUNTER: {
    const uint32_t name = record_name_of(j, r->name, v, offset);
    v->set = IS_COUNTER;
    v->number = wide(r->shape, r->stack);
    return name;
  }
  case TG_RAW_MARK: {
    const uint32_t name = record_name_of(j, r->name, v, offset);
    v->set = IS_MARK;
    return name;
  }
  default:
    describe_op(j, r, v, offset);
    return record_name_of(j, r->name, v, offset);
  }
}

static bool is_mark(const struct tg__raw_record *r) {
  return r->scope == TG_RAW_MARK || r->scope == TG_RAW_NVTX_MARK || tg__raw_is_driver_memory(r);
}

static void take_memory(struct job *j, const struct tg__raw_record *r, int64_t ts_ns, int64_t offset) {
  struct tg__raw_job *const out = j->out;
  if (out->memory_count == out->memory_cap &&
      !tg__grow((void **)&out->memory, &out->memory_cap, out->memory_count + 1, sizeof *out->memory)) {
    out->no_memory = true;
    return;
  }
  /* A little on, so that it lies behind what it was dated by also where readers keep times as doubles, which are 1
   * ns coarse there. */
  const int64_t later_ns = r->flags & TG_RAW_F_EARLY && ts_ns != TG_NULL_INT && ts_ns < INT64_MAX - 2 ? 2 : 0;
  out->memory[out->memory_count++] = (struct tg__raw_memory){.ts_ns = ts_ns + later_ns,
                                                             .bytes = wide(r->dur_ticks, r->seq),
                                                             .address = (uint64_t)wide(r->shape, r->stack),
                                                             .track = out->track,
                                                             .device = r->depth,
                                                             .failed = r->scope == TG_RAW_OUT_OF_MEMORY,
                                                             .is_tensor = r->scope == TG_RAW_TENSOR};
  if (r->scope != TG_RAW_TENSOR) return;
  struct packing v = {.overload = TG_NONE};
  struct tg__raw_memory *const m = &out->memory[out->memory_count - 1];
  m->kind = record_name_of(j, r->name, &v, offset);
  m->tensor_name = v.overload;
}

static void set_times(struct job *j, const struct tg__raw_record *r, uint64_t dur_ticks, struct tg__record *out,
                      int64_t offset) {
  int64_t end_ns;
  if (!tg__raw_wall_ns(&j->cursor, r->start_ticks, &out->ts_ns) ||
      __builtin_sub_overflow(out->ts_ns, j->raw->base_ns, &out->ts_ns)) {
    out->ts_ns = TG_NULL_INT;
    tg__count_loss(&j->out->losses, TG__LOSS_bent_no_time, offset);
    return;
  }
  if (out->ph != 'X') return;
  if (dur_ticks > UINT64_MAX - r->start_ticks || !tg__raw_wall_ns(&j->cursor, r->start_ticks + dur_ticks, &end_ns) ||
      __builtin_sub_overflow(end_ns, j->raw->base_ns, &end_ns) ||
      __builtin_sub_overflow(end_ns, out->ts_ns, &out->dur_ns)) {
    out->dur_ns = TG_NULL_INT;
    tg__count_loss(&j->out->losses, TG__LOSS_bent_no_duration, offset);
  }
}

/* ---- records of devices ---------------------------------------------------------------------- */

static bool is_of_device(const struct tg__raw_record *r) {
  return (r->scope >= TG_RAW_KERNEL && r->scope <= TG_RAW_DEVICE_OVERHEAD) || tg__raw_is_driver_memory(r);
}

/* The track of a stream, or of another thread than the chunk's. */
static uint32_t track_at(struct job *j, int64_t pid, int64_t tid, bool is_device) {
  struct tg__raw_job *const out = j->out;
  const uint64_t key = ((uint64_t)pid * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)tid;
  const uint32_t known = tg__map_get(&out->place_of, key);
  if (known != TG_NONE && out->places[known].pid == pid && out->places[known].tid == tid)
    return out->places[known].track;
  if (!tg__grow((void **)&out->places, &out->place_cap, out->place_count + 1, sizeof *out->places) ||
      !tg__map_put(&out->place_of, key, (uint32_t)out->place_count)) {
    out->no_memory = true;
    return out->track;
  }
  tg__lock_take(j->raw->lock);
  const uint32_t track = tg__intern_track(j->raw->parser, &(struct tg__track_key){.pid = pid, .tid = tid});
  tg__lock_drop(j->raw->lock);
  out->places[out->place_count++] = (struct tg__raw_place){pid, tid, track, is_device};
  return track;
}

static void describe_work(struct job *j, const struct tg__raw_record *r, struct tg__record *record, struct packing *v,
                          int64_t offset) {
  const uint32_t at = tg__raw_find(&j->scope, TG_RAW_D_LAUNCH, r->shape);
  const struct tg__raw_launch *const launch = at == TG_NONE ? NULL : &j->raw->launches[at];
  if (launch) v->shape = &launch->values;
  if (!launch) tg__count_loss(&j->out->losses, TG__LOSS_bent_no_details, offset);
  const bool is_on_stream = launch && !tg__raw_is_driver_memory(r); /* else it is timed by the host, for the device */
  record->track = track_at(j, launch ? launch->device : 0, is_on_stream ? launch->stream : -1, true);
  if (r->scope == TG_RAW_DEVICE_SYNC && r->seq) {
    v->set |= HAS_WAIT_RECORD;
    v->wait_record = r->seq;
  }
  if (r->scope != TG_RAW_COPY && r->scope != TG_RAW_FILL && r->scope != TG_RAW_DEVICE_MEMORY) return;
  v->set |= HAS_BYTES;
  v->bytes = (int64_t)((uint64_t)r->depth << 32 | r->seq);
  if (record->dur_ns <= 0) return;
  v->set |= HAS_BANDWIDTH;
  v->bandwidth = tg__raw_bandwidth(v->bytes, record->dur_ns);
}

static void describe_device(struct job *j, const struct tg__raw_record *r, uint64_t dur_ticks,
                            struct tg__record *record, struct packing *v, int64_t offset) {
  record->name = record_name_of(j, r->name, v, offset);
  v->set |= HAS_CORRELATION;
  v->correlation = r->stack;
  if (r->scope == TG_RAW_DEVICE_OVERHEAD) {
    record->track = track_at(j, -1, 0, false); /* where Kineto puts it */
  } else if (r->scope == TG_RAW_RUNTIME_CALL || r->scope == TG_RAW_DRIVER_CALL) {
    record->track = track_at(j, j->out->head.process, r->seq, false);
    v->set |= HAS_FUNCTION;
    v->function = r->depth;
  } else {
    describe_work(j, r, record, v, offset);
  }
  if (!tg__raw_is_driver_memory(r)) return;
  v->set |= IS_MARK | HAS_ADDRESS;
  v->address = (int64_t)dur_ticks;
}

/* call: number of the call, 0 = none. */
static void take_record(struct job *j, const struct tg__raw_record *r, uint64_t dur_ticks, uint64_t call,
                        int64_t offset) {
  struct tg__raw_job *const out = j->out;
  const bool memory = tg__raw_is_memory(r);
  const uint8_t ph = memory || is_mark(r) ? 'i' : r->scope == TG_RAW_COUNTER ? 'C' : 'X';
  struct tg__record record = {.ts_ns = TG_NULL_INT, .dur_ns = TG_NULL_INT, .track = out->track, .ph = ph};
  set_times(j, r, dur_ticks, &record, offset);
  if (memory) {
    take_memory(j, r, record.ts_ns, offset);
    return;
  }
  struct packing v = {0};
  if (is_of_device(r)) {
    describe_device(j, r, dur_ticks, &record, &v, offset);
  } else {
    record.name = describe(j, r, &v, offset);
    v.call = (int64_t)call;
    if (v.call > 0 && r->scope < TG_RAW_MODULE) v.set |= HAS_CALL;
  }
  tg__raw_note_label(out, r, &record);
  record.cat = category_of(j, r->scope);
  record.args = pack(j, &v);
  out->records.records[out->records.count++] = record;
  out->phases[ph]++;
}

/* ---- one chunk ------------------------------------------------------------------------------- */

static bool make_room(struct tg__raw_job *out, uint32_t records) {
  out->records.bytes = (records + (size_t)1) * sizeof *out->records.records;
  out->records.records = tg__pages_get(out->records.bytes);
  return out->records.records &&
         tg__grow((void **)&out->pool, &out->pool_cap, (size_t)records * 24 + RECORD_FIELD_BYTES, 1);
}

static void take_chunk(struct job *j, const struct tg__raw_chunk *chunk) {
  struct tg__raw_record r;
  struct tg__raw_ordered o;
  uint64_t dur;
  bool torn;
  if (!tg__raw_order_chunk(j->out, chunk, &o) || !make_room(j->out, o.count)) j->out->no_memory = true;
  for (uint32_t k = 0; k < o.count && !j->out->no_memory; k++) {
    const struct tg__raw_key *const key = &o.keys[o.order[k]];
    uint32_t i = key->at;
    tg__raw_next(chunk, &i, &r, &dur, &torn);
    r.start_ticks = key->start;
    const uint64_t call = r.flags & TG_RAW_F_LONG ? tg__raw_call_number(chunk, key->at) : 0;
    take_record(j, &r, dur, call, tg__raw_offset(j->out, key->at));
    if (tg__raw_is_memory(&r)) tg__raw_take_totals(j->out, chunk, i);
  }
  tg__free(o.keys);
  tg__free(o.order);
  if (j->raw->module_count && !j->out->file->has_modules) tg__raw_gather_runs(j->out, chunk);
}

void tg__raw_job_run(void *jobs, size_t i) {
  struct tg__raw_job *const out = (struct tg__raw_job *)jobs + i;
  struct tg__raw_chunk chunk;
  struct job j = {.out = out,
                  .raw = out->raw,
                  .scope = tg__raw_ids_of(out->file, out->chunk->part),
                  .cursor = {.clock = &out->file->clock}};
  for (size_t k = 0; k < SCHEMA_CACHE; k++) j.schemas[k].schema = TG_NONE;
  memset(j.cats, 0xff, sizeof j.cats);
  uint8_t *const payload = tg__raw_fetch(out->file, out->chunk, &out->damaged);
  if (!payload) {
    out->no_memory = !out->damaged;
    return;
  }
  if (tg__raw_chunk_read(out->chunk, payload, &chunk)) {
    out->damaged = true;
  } else {
    assert(tg__chunk_is_valid(out->chunk, payload, NULL));
    take_chunk(&j, &chunk);
  }
  tg__free(payload);
}

void tg__raw_job_free(struct tg__raw_job *j) {
  tg__pages_drop(j->records.records, j->records.bytes);
  tg__free(j->pool);
  tg__free(j->memory);
  tg__free(j->runs);
  tg__free(j->places);
  tg__free(j->points);
  tg__map_free(&j->place_of);
}
