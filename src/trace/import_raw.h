/* import_raw: from the files the recorder left to import records. Private to the import_raw*.c files.
 *
 *   dictionaries (import_raw_dict.c, import_raw_inputs.c) → texts, shapes, frames, each resolved once
 *   record chunks (import_raw_records.c), many at a time  → import records and their packed args
 *   import_raw_modules.c                                  → calls of modules, where none were recorded
 *   import_raw_rows.c                                     → names of threads, the recording itself
 *
 * What comes out is what Kineto would have written, as far as it does not depend on the order of all events: ids of
 * events and flows are added by the exporter. */
#ifndef TG_IMPORT_RAW_H
#define TG_IMPORT_RAW_H

#include "trace/import.h"
#include "trace/tacho.h"

enum { TG__RAW_FOLDERS_MOST = 64 };
enum { TG__RAW_STACK_MAX = 128 }; /* frames of one call stack: more than the recorder collects */

/* ---- clock (import_raw_clock.c) -------------------------------------------------------------- */

struct tg__raw_pair {
  uint64_t ticks;
  int64_t wall_ns;
};
struct tg__raw_clock {
  struct tg__raw_pair *pairs; /* ascending */
  size_t count, cap;
};
/* Remembers the stretch it was asked about last. */
struct tg__raw_cursor {
  const struct tg__raw_clock *clock;
  uint64_t low, high; /* ticks of the stretch; high exclusive */
  struct tg__raw_pair from;
  uint64_t span_ticks, span_ns;
  uint64_t whole, part; /* ns per tick, and 2^-64 of it, rounded up */
  uint64_t exact_below; /* ticks from `from.ticks` up to which these are exact */
};
/* Takes pairs up to the zeros of unused room; false when time runs backwards there, or there is no memory
 * (*no_memory). */
bool tg__raw_clock_take(struct tg__raw_clock *c, const uint8_t *payload, uint64_t len, bool *no_memory);
bool tg__raw_wall_ns(struct tg__raw_cursor *c, uint64_t ticks, int64_t *ns); /* false when it does not fit */

/* ---- dictionaries (import_raw_dict.c) -------------------------------------------------------- */

struct tg__raw_table { /* id → number */
  uint32_t *near;      /* TG_NONE = not there */
  size_t near_cap, seen;
  struct tg__map far; /* ids that are not dense */
};
enum { TG__RAW_TABLES = TG_RAW_D_GIVEN_THREAD + 1 };
struct tg__raw_part { /* dictionaries of one thread, or of all threads of a file */
  uint32_t number;
  struct tg__raw_table tables[TG__RAW_TABLES];
};
struct tg__raw_name {
  uint32_t text, overload; /* TG_NONE = has no overload */
};
struct tg__raw_shape {
  uint32_t layout; /* which fields: 1 = the four of Kineto, more with keyword values */
  uint32_t len;
  const uint8_t *values; /* packed, in the layout of args */
};
struct tg__raw_frame {
  /* file(line): function, with the line being run and, as Kineto names frames, with the function's first */
  uint32_t text, name;
  uint32_t parent;         /* id in the dictionary, 0 = none */
  uint32_t whole, modules; /* texts of the stack and of the modules around; TG_NONE until asked for, atomic */
  uint32_t module_path;    /* of the innermost of those modules; known when `modules` is */
  uint32_t called_at;      /* text file:line, TG_NONE until asked for */
};
struct tg__raw_context { /* of an operator */
  uint32_t stack;        /* id in the STACK dictionary, 0 = none */
  uint32_t thread;       /* forward thread of an autograd node, as the framework counts; 0 = none */
  uint32_t modules;      /* text of TorchScript's modules; TG_NONE = none */
};
struct tg__raw_module {
  uint32_t name, path; /* nn.Module: Linear_0; path TG__K_EMPTY when not known */
  uint32_t number;
};
struct tg__raw_launch {        /* where and how a device did something */
  struct tg__raw_shape values; /* after tg__raw_pack_launches */
  int64_t device, stream;
  const struct tg__raw_file *file;
  struct tg__str blob; /* the entry */
};
struct tg__raw_node { /* of a CUDA graph */
  const struct tg__raw_file *file;
  uint64_t number, from;      /* from: the node that it was cloned from, 0 = none */
  uint32_t part, name, stack; /* of the operator that captured it: ids in the dictionaries of that thread */
  uint32_t next;              /* node of the same number in another file, TG_NONE = none */
};
struct tg__raw_device {
  int64_t number;
  struct tg__str name;
#define DEVICE_LIMITS(LIMIT)                                                                                           \
  LIMIT(MEMORY_BYTES)                                                                                                  \
  LIMIT(MULTIPROCESSORS)                                                                                               \
  LIMIT(WARP)                                                                                                          \
  LIMIT(MOST_WARPS)                                                                                                    \
  LIMIT(MOST_BLOCKS)                                                                                                   \
  LIMIT(MOST_SHARED)                                                                                                   \
  LIMIT(MOST_REGISTERS)                                                                                                \
  LIMIT(BLOCK_REGISTERS)                                                                                               \
  LIMIT(BLOCK_SHARED)                                                                                                  \
  LIMIT(BLOCK_OPTIN)                                                                                                   \
  LIMIT(BLOCK_THREADS)                                                                                                 \
  LIMIT(COMPUTE_MAJOR)                                                                                                 \
  LIMIT(COMPUTE_MINOR)
#define LIMIT(name) int64_t name;
  DEVICE_LIMITS(LIMIT)
#undef LIMIT
};
struct tg__raw_label { /* what a range or mark of NVTX says beside its name */
  struct tg__raw_shape values;
  enum tg__label_payload payload_type;
};
struct tg__raw_layout {
  struct tg__packed_val *fields; /* keys and kinds */
  size_t count;
};

struct tg__raw_file {
  struct tg__tacho *tacho;
  struct tg__raw_process process;
  bool has_process, has_modules; /* has_modules: module calls were recorded as such */
  uint32_t pid;
  struct tg__raw_clock clock;
  struct tg__raw_part *parts;
  size_t part_count, part_cap;
  struct tg__map part_of; /* part number → position */
};

struct tg__raw {
  struct tg__columns *trace;
  struct tg__import *im;
  struct tg__parser *parser; /* under the lock once jobs run */
  struct tg__lock *lock;
  struct tg__raw_file *files;
  size_t file_count;
  struct tg__raw_name *names;
  struct tg__raw_shape *shapes;
  struct tg__raw_frame *frames;
  struct tg__raw_module *modules;
  struct tg__raw_context *contexts;
  struct tg__raw_layout *layouts;
  struct tg__raw_launch *launches;
  struct tg__raw_device *devices;
  struct tg__raw_node *nodes;
  struct tg__map node_of; /* number → the newest of that number */
  struct tg__raw_label *labels;
  uint32_t folders[TG__RAW_FOLDERS_MOST]; /* texts that were cut off the front of paths of source, each once */
  uint32_t folder_count;
  size_t launch_count, launch_cap, device_count, device_cap, node_count, node_cap, label_count, label_cap;
  size_t name_count, name_cap, shape_count, shape_cap, frame_count, frame_cap, module_count, module_cap, context_count,
      context_cap, layout_count, layout_cap;
  struct tg__map layout_index; /* hash of fields → layout, chained */
  unsigned threads;
  int64_t base_ns, start_ns; /* taken off all times; when recording began, after that. TG_NULL_INT = not known */
  bool no_memory;
};

/* Any thread; TG_NONE and no_memory when out of it. */
uint32_t tg__raw_intern(struct tg__raw *w, const char *text, size_t len);
void tg__raw_count_lost_chunk(struct tg__raw *w, struct tg__raw_file *f, const struct tg__chunk *c);
/* The payload of a chunk in memory of its own; NULL when it cannot be read or is damaged (*damaged). */
uint8_t *tg__raw_fetch(const struct tg__raw_file *f, const struct tg__chunk *c, bool *damaged);

void tg__raw_take_dictionary(struct tg__raw *w, struct tg__raw_file *f, const struct tg__chunk *c,
                             const uint8_t *payload);
void tg__raw_file_free(struct tg__raw_file *f);

static inline uint32_t tg__raw_table_get(const struct tg__raw_table *t, uint32_t id) {
  return id < t->near_cap ? t->near[id] : t->far.count ? tg__map_get(&t->far, id) : TG_NONE;
}

/* Where a thread's ids are looked up: its own dictionaries, then those of all threads. */
struct tg__raw_ids {
  const struct tg__raw_part *own, *all; /* NULL = none */
  /* all calls of functions were recorded: then the names of frames contain their stacks, as Kineto's do */
  bool has_calls;
};
struct tg__raw_ids tg__raw_ids_of(const struct tg__raw_file *f, uint32_t thread);
static inline uint32_t tg__raw_find(const struct tg__raw_ids *s, unsigned kind, uint32_t id) {
  const uint32_t own = s->own ? tg__raw_table_get(&s->own->tables[kind], id) : TG_NONE;
  return own != TG_NONE || !s->all ? own : tg__raw_table_get(&s->all->tables[kind], id);
}

/* What the stack field of a framework's record stands for, but for a BACKWARD record's that is a thread. An entry that
 * is missing stands for a stack that is missing. */
struct tg__raw_context tg__raw_context_of(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t field);
/* Of a stack given by its id. All take the lock the first time. Text, TG_NONE = unknown. */
uint32_t tg__raw_full_stack(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack);
/* Text, TG_NONE = outside modules. */
uint32_t tg__raw_modules_text(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack);
/* Path in the model of the innermost of those modules, after tg__raw_modules_text(); TG__K_EMPTY when not known. */
uint32_t tg__raw_module_path(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack);
/* Id of the innermost module frame, 0 = none. */
uint32_t tg__raw_module_frame(const struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack);
/* Text file:line, TG_NONE = unknown. */
uint32_t tg__raw_called_at(struct tg__raw *w, const struct tg__raw_ids *s, uint32_t stack);

/* import_raw_inputs.c: a SHAPE entry. false: not readable. */
bool tg__raw_take_shape(struct tg__raw *w, struct tg__str blob, struct tg__raw_shape *out);
/* The values of an event's args, packed once for all events that have them; false on no memory. */
bool tg__raw_pack_values(struct tg__raw *w, const struct tg__packed_val *vals, size_t count, struct tg__raw_shape *out);

/* import_raw_nvtx.c: the number of a LABEL entry in w->labels; TG_NONE: not taken (out of memory, or, *bad, not
 * readable). */
uint32_t tg__raw_take_label(struct tg__raw *w, struct tg__str blob, bool *bad);
/* A payload that is no 64-bit integer, as JSON text. Any thread; TG_NONE: no memory. */
uint32_t tg__raw_payload_text(struct tg__raw *w, enum tg__label_payload type, uint64_t bits);

/* ---- devices (import_raw_device.c) ----------------------------------------------------------- */

/* The number of a LAUNCH or DEVICE entry in w->launches or w->devices; TG_NONE: not taken (out of memory, or, *bad, not
 * readable). */
uint32_t tg__raw_take_launch(struct tg__raw *w, const struct tg__raw_file *f, struct tg__str blob, bool *bad);
uint32_t tg__raw_take_device(struct tg__raw *w, struct tg__str blob, bool *bad);
struct tg__raw_fields { /* of an entry */
  int64_t value[64];    /* by enum tg__launch_field */
  uint64_t present;     /* bits */
  struct tg__str name;
};
static inline bool tg__raw_has(const struct tg__raw_fields *f, enum tg__launch_field field) {
  return f->present >> field & 1;
}
bool tg__raw_read_fields(struct tg__str blob, struct tg__raw_fields *f); /* false: not readable */
void tg__raw_pack_launches(struct tg__raw *w); /* when all dictionaries are read: devices may come behind launches */
/* As the args of such an event say it: bytes in a time, in GB/s, as a decimal number. */
struct tg__packed_val tg__raw_bandwidth(int64_t bytes, int64_t dur_ns);
void tg__raw_device_member(struct tg__raw *w, struct tg__out *json); /* deviceProperties, as Kineto writes it */

/* ---- CUDA graphs (import_raw_graph.c) -------------------------------------------------------- */

/* A GRAPH_NODE entry in w->nodes; as tg__raw_take_launch. part: of the thread that captured it. */
uint32_t tg__raw_take_node(struct tg__raw *w, const struct tg__raw_file *f, uint32_t part,
                           const struct tg__raw_entry *entry, bool *bad);
struct tg__raw_captured { /* string ids, TG_NONE = not known */
  uint32_t op, module, stack;
};
/* The capture of the node that this one was cloned from. When all dictionaries are read. */
struct tg__raw_captured tg__raw_captured_by(struct tg__raw *w, const struct tg__raw_file *f, uint64_t node);

/* ---- records (import_raw_records.c) ---------------------------------------------------------- */

struct tg__raw_memory { /* an allocation, a free, one that failed, or what a block holds */
  int64_t ts_ns, bytes;
  uint64_t address;
  uint32_t track;
  uint16_t device; /* type << 8 | index */
  bool failed;
  bool has_totals; /* the allocator's own, after it: */
  uint64_t allocated, reserved;
  bool is_tensor;             /* a tensor lies in the block at this address: */
  uint32_t kind, tensor_name; /* string ids; the name TG_NONE = none */
};
struct tg__raw_run { /* operators under the same module, one after the other */
  uint64_t start_ticks, end_ticks;
  uint32_t module; /* id of the STACK entry, 0 = none */
};
struct tg__raw_place { /* a stream of a device, or a thread that called its driver */
  int64_t pid, tid;
  uint32_t track;
  bool is_device;
};
enum tg__raw_point_kind { TG__RAW_LABEL, TG__RAW_CALL, TG__RAW_WORK };
struct tg__raw_point { /* what says which label of the program made a device work */
  int64_t start_ns, end_ns;
  uint32_t track, name; /* string id of a label; correlation id of a call, and of work */
  enum tg__raw_point_kind kind;
};
struct tg__raw_job { /* one chunk of records */
  struct tg__raw *raw;
  struct tg__raw_file *file;
  const struct tg__chunk *chunk;
  struct tg__raw_head head;
  uint32_t track;
  /* result */
  struct tg__segment records;
  uint8_t *pool;
  size_t pool_len, pool_cap;
  struct tg__losses losses;
  int64_t phases[128];
  struct tg__raw_memory *memory;
  size_t memory_count, memory_cap;
  struct tg__raw_run *runs;
  size_t run_count, run_cap;
  struct tg__raw_place *places; /* of devices, where its records lie */
  size_t place_count, place_cap;
  struct tg__map place_of;
  struct tg__raw_point *points; /* only where devices were recorded */
  size_t point_count, point_cap;
  bool damaged, no_memory;
};
/* The allocator's totals, in the record behind that of the change. Where that one begins another chunk, the sum of the
 * changes stands in for it. */
void tg__raw_take_totals(struct tg__raw_job *out, const struct tg__raw_chunk *chunk, uint32_t at);
void tg__raw_job_run(void *jobs, size_t i);
void tg__raw_job_free(struct tg__raw_job *j);
const char *tg__raw_category(uint8_t scope);

/* import_raw_labels.c: keep of a record what its labels on devices follow from. */
void tg__raw_note_label(struct tg__raw_job *j, const struct tg__raw_record *r, const struct tg__record *record);

/* ---- order (import_raw_order.c) -------------------------------------------------------------- */

struct tg__raw_key {
  uint64_t start, dur;
  uint32_t at; /* position of the record in its chunk */
};
struct tg__raw_ordered {
  struct tg__raw_key *keys;
  uint32_t *order; /* positions in keys, by start, longer ones first; extensions left out */
  uint32_t count;
};
/* The caller frees keys and order, also where it is false: no memory. */
bool tg__raw_order_chunk(struct tg__raw_job *j, const struct tg__raw_chunk *chunk, struct tg__raw_ordered *o);

static inline bool tg__raw_is_memory(const struct tg__raw_record *r) {
  return r->scope == TG_RAW_MEMORY || r->scope == TG_RAW_OUT_OF_MEMORY || r->scope == TG_RAW_TENSOR;
}
static inline bool tg__raw_is_driver_memory(const struct tg__raw_record *r) {
  return r->scope == TG_RAW_DEVICE_MEMORY || r->scope == TG_RAW_DEVICE_POOL;
}
/* Where a record of the job's chunk stands in its file. */
static inline int64_t tg__raw_offset(const struct tg__raw_job *j, uint32_t record) {
  return (int64_t)(j->chunk->offset + TG_CHUNK_HEAD_BYTES + TG_RAW_HEAD_BYTES + (uint64_t)record * TG_RAW_RECORD_BYTES);
}

/* ---- rows (import_raw_rows.c) ---------------------------------------------------------------- */

/* Append one event with the values that stand in w->parser; false on no memory. */
void tg__raw_add_event(struct tg__raw *w, struct tg__record r, const char *category);

void tg__raw_add_metadata(struct tg__raw *w, uint32_t name, uint32_t track, uint32_t key, enum tg__kind kind,
                          int64_t value);
/* Names of processes and threads. */
void tg__raw_head_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count);
void tg__raw_memory_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count); /* import_raw_memory.c */
/* Names of devices and streams: import_raw_device.c. */
void tg__raw_device_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count);
/* Labels on streams: import_raw_labels.c. */
void tg__raw_label_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count);
void tg__raw_gather_runs(struct tg__raw_job *out, const struct tg__raw_chunk *chunk); /* import_raw_modules.c */
/* Of the runs of all chunks: where none were recorded. */
void tg__raw_module_rows(struct tg__raw *w, const struct tg__raw_job *jobs, size_t count);
void tg__raw_tail_rows(struct tg__raw *w, int64_t last_ns); /* the recording itself */
void tg__raw_document(struct tg__raw *w);                   /* members beside the events */

#endif
