/* trace: a file becomes columns. Public header of the folder; read-only once tg__trace_open has returned.
 *
 * A trace holds ranks (one per file), tracks (a CPU thread, a GPU stream, …) and two tables of events:
 *
 *   slices   what has a duration: X events and B/E or async pairs. Sorted by (track, start ↑, duration ↓, file order).
 *   marks    everything else: instants, counters, flows, metadata, and the closing half of every pair, in (ts, file
 *            order); marks without a time come first. Nothing of the input that could be read is missing from the
 *            two tables.
 *
 * Columns are arrays indexed by slice or mark number (uint32_t, TG_NONE = none). A column may be NULL until asked
 * for with tg__trace_load (a .tacho file is decoded column by column); questions name the columns they need in
 * questions.def. Times are int64 ns as written in the file of their rank; add ranks[r].clock_offset_ns to compare
 * ranks. */
#ifndef TG_TRACE_H
#define TG_TRACE_H

#include "base/base.h"

/* ---- well-known strings, categories, losses -------------------------------------------------- */

enum tg__key { /* equals the string id */
#define KEY(name, text) TG__K_##name,
#include "trace/keys.def"
#undef KEY
               TG__K_COUNT
};

enum tg__class {
  TG__CLASS_OTHER,
  TG__CLASS_OP,             /* framework operator on the CPU */
  TG__CLASS_ANNOTATION,     /* user annotation on the CPU, ProfilerStep# among them */
  TG__CLASS_GPU_ANNOTATION, /* its copy on a device track */
  TG__CLASS_KERNEL,
  TG__CLASS_MEMCPY,
  TG__CLASS_MEMSET,
  TG__CLASS_DEVICE_OTHER, /* device work of a vendor without finer categories (MTIA) */
  TG__CLASS_RUNTIME,      /* host call into a runtime or driver */
  TG__CLASS_PYTHON,       /* Python frame */
  TG__CLASS_PYTHON_OP,    /* category "python" of early traces */
  TG__CLASS_SYNC,         /* synchronisation record of the device side */
  TG__CLASS_DEVICE_MARK,  /* cudaEvent and the like */
  TG__CLASS_OVERHEAD,     /* the profiler's own */
  TG__CLASS_SPAN,         /* the recording itself */
  TG__CLASS_INSTANT,
  TG__CLASS_COUNTER_RANGE,
  TG__CLASS_SAMPLE, /* where a thread was seen by another, while it began no operator */
  TG__CLASS_COUNT
};
static inline bool tg__class_is_device_work(enum tg__class c) {
  return c == TG__CLASS_KERNEL || c == TG__CLASS_MEMCPY || c == TG__CLASS_MEMSET || c == TG__CLASS_DEVICE_OTHER;
}
static inline bool tg__class_is_device_side(enum tg__class c) { /* what stands on the track of a stream */
  return tg__class_is_device_work(c) || c == TG__CLASS_GPU_ANNOTATION || c == TG__CLASS_SYNC ||
         c == TG__CLASS_DEVICE_MARK;
}
static inline bool tg__class_is_range(enum tg__class c) { return c == TG__CLASS_OP || c == TG__CLASS_ANNOTATION; }
static inline bool tg__class_is_host(enum tg__class c) {
  return c == TG__CLASS_OP || c == TG__CLASS_RUNTIME || c == TG__CLASS_PYTHON || c == TG__CLASS_ANNOTATION ||
         c == TG__CLASS_PYTHON_OP;
}

enum tg__loss {
#define LOSS(name, kind, meaning) TG__LOSS_##name,
#include "trace/losses.def"
#undef LOSS
  TG__LOSS_COUNT
};
enum tg__loss_kind { TG__LOSS_SKIPPED, TG__LOSS_FILE, TG__LOSS_CUT, TG__LOSS_BENT };
struct tg__loss_info {
  const char *name, *meaning;
  enum tg__loss_kind kind;
};
extern const struct tg__loss_info tg__loss_info[TG__LOSS_COUNT];

/* ---- args ------------------------------------------------------------------------------------ */

/* The args of an event, and those of its members that have no column of their own (id, bp, s, …), are kept packed: a
 * schema (which keys, of which kind, in which order) plus the values, in trace->args at the event's `args`
 * reference. Lossless: every value can be written back as it stood. Members of the event itself, as opposed to its
 * args, have top == true. */
enum tg__kind {
  TG__KIND_INT, /* integer that fits int64: .i */
  TG__KIND_DEC, /* decimal number digits.digits: .i × 10^-.decimals */
  TG__KIND_STR, /* string, unescaped: .str (string id) */
  TG__KIND_RAW, /* anything else, as its JSON text: arrays, objects, huge numbers, NaN: .str */
  TG__KIND_TRUE,
  TG__KIND_FALSE,
  TG__KIND_NULL,
};
struct tg__val {
  enum tg__kind kind;
  uint8_t decimals;
  uint32_t str;
  int64_t i;
};
struct tg__field {
  uint32_t key; /* string id */
  uint8_t kind; /* enum tg__kind */
  bool top;
};
struct tg__schema {
  uint16_t count;
  bool has_args;                  /* the event had an args object (maybe empty) */
  const struct tg__field *fields; /* in file order */
};

/* ---- ranks and tracks ------------------------------------------------------------------------ */

struct tg__device { /* one entry of deviceProperties; unknown numbers are -1 */
  int64_t id, total_memory_bytes, sm_count, compute_major, compute_minor, max_threads_per_sm, warp_size;
  uint32_t name; /* string id */
};
struct tg__meta {    /* a member of the document other than traceEvents */
  uint32_t key, raw; /* string ids; raw = the JSON text of the value */
  bool after;        /* stood behind traceEvents */
};
struct tg__process { /* one file of a recording, as its head says */
  uint32_t pid, parent;
  int64_t start_ns, stop_ns; /* wall clock; stop 0 = it was killed, or is still running */
  int64_t records, lost;     /* lost: without room, too deep or overwritten */
  uint64_t session;
  uint32_t features;
  int32_t rank; /* -1 = none of its own */
};
enum tg__step_kind { TG__STEP_PROFILER, TG__STEP_ANNOTATION, TG__STEP_PERIOD };
struct tg__rank {
  uint32_t path;        /* string id: file name as opened */
  int64_t number;       /* rank of the job; -1 when the file does not say and it is the only one */
  bool number_is_given; /* from distributedInfo, not made up */
  int64_t world_size;   /* -1 unknown */
  int64_t base_ns;      /* baseTimeNanoseconds, 0 when absent */
  /* add to a time of this rank to get the common clock of the trace: base_ns minus the smallest base_ns */
  int64_t clock_offset_ns;
  bool bare_array, packed; /* container: bare [ … ]; was compressed */
  bool is_recording;  /* by our own recorder: an export adds what Kineto counts up (event ids, flows, ids of frames) */
  int64_t json_bytes; /* of text read */
  uint32_t first_track, track_count;
  struct tg__meta *meta;
  size_t meta_count;
  struct tg__device *devices;
  size_t device_count;
  int64_t events_read, events_kept; /* JSON events seen, and how many of them are in slices or marks */
  int64_t phase_count[128];         /* events kept per phase letter; [0] = without phase */
  int64_t loss[TG__LOSS_COUNT];
  int64_t loss_offset[TG__LOSS_COUNT]; /* first byte each happened at, -1 */
  enum tg__step_kind step_kind;        /* TG__STEP_PROFILER also where there are no steps */
  const struct tg__process *processes; /* of a recording as it was made; none in a packed file */
  uint32_t process_count;
};

enum tg__track_kind { TG__TRACK_CPU, TG__TRACK_DEVICE, TG__TRACK_ASYNC, TG__TRACK_OTHER };
struct tg__track {
  uint32_t rank; /* index into ranks */
  enum tg__track_kind kind;
  bool pid_is_text, tid_is_text;       /* identity is the literal token; TG__K_NO_ID: the events have none */
  int64_t pid, tid;                    /* the number, or the string id when text */
  int64_t device, stream;              /* device tracks: args.device (else pid), args.stream (else tid); otherwise -1 */
  uint32_t process_name, name, labels; /* string ids from metadata, TG_NONE */
  int64_t sort_index;
  uint32_t first, count; /* its slices */
  uint16_t lanes; /* 1 when every slice nests; device work that overlaps, or ops that partly overlap, need more */
};

/* ---- the two tables of events ---------------------------------------------------------------- */

enum {                         /* slice flags */
       TG__F_BEGIN_END = 1,    /* from a B event; its E is a mark */
       TG__F_ASYNC = 2,        /* from b, S; its end is a mark */
       TG__F_NEGATIVE = 4,     /* dur was negative, now 0 */
       TG__F_UNCLOSED = 8,     /* no end was found */
       TG__F_CAUSE_BY_ID = 16, /* cause of a host call found by external id, not by containment */
       TG__F_ROUNDED = 32,     /* ts or dur had more than three decimals */
       TG__F_LEGACY = 64,      /* async from S, not b; its end is F */
};
struct tg__slices {
  uint32_t count;
  int64_t *start_ns, *dur_ns;
  uint32_t *name; /* string id */
  uint32_t *args; /* reference into the packed args; also the file order inside a rank */
  uint16_t *cat;  /* index into trace->cats */
  uint8_t *flags;
  uint32_t *parent; /* innermost slice of the same track that contains it entirely, TG_NONE */
  uint16_t *depth;  /* 0 = no parent; saturates at 65535 */
  uint8_t *lane;    /* sub-lane on its track; 255 = 255 and beyond */
  /* What made this slice happen: device work → the host call that launched it (by correlation); host call → its
   * operator (by external id, else the innermost operator around its start); backward operator → its forward
   * operator (fwdbwd flow, else sequence number); synchronisation → the host call that recorded what it waits for.
   * TG_NONE when not known. */
  uint32_t *cause;
};
struct tg__marks {
  uint32_t count;
  int64_t *ts_ns; /* TG_NULL_INT: has none */
  uint32_t *name, *args, *track;
  uint16_t *cat;
  uint8_t *ph; /* the phase letter; 0 = missing */
};
struct tg__cat {
  uint32_t name; /* string id as written; TG_NONE = the event had no cat */
  uint8_t cls;   /* enum tg__class */
};

struct tg__step {
  uint32_t rank, slice; /* slice: the annotation, TG_NONE for detected periods */
  uint32_t name;        /* string id */
  int64_t number;       /* digits after #, or a running number */
  int64_t start_ns, end_ns;
};

enum { /* columns for tg__trace_load and questions.def */
       TG__COL_NONE = 0,
       TG__COL_START = 1,
       TG__COL_DUR = 2,
       TG__COL_NAME = 4,
       TG__COL_ARGS = 8,
       TG__COL_CAT = 16,
       TG__COL_FLAGS = 32,
       TG__COL_PARENT = 64,
       TG__COL_DEPTH = 128,
       TG__COL_LANE = 256,
       TG__COL_CAUSE = 512,
       TG__COL_MARKS = 1024,
       TG__COL_CORE = TG__COL_START | TG__COL_DUR | TG__COL_NAME | TG__COL_CAT,
       TG__COL_SLICES = 1023,
       TG__COL_ALL = 2047,
       TG__COL_RANKS = 4095, /* of questions about ranks: all columns, or the summaries in their place */
};

/* A file of the folder that is no trace, or none that can be read. */
struct tg__skipped_file {
  const char *path, *why;
};
struct tg__cache; /* below: tg__cache_find */
struct tg__store; /* private: what backs the columns (memory, or chunks of a .tacho file) */
/* The events of a trace in columns, with what belongs to them: ranks, tracks, strings, steps. The parts above them are
 * put together in the API (struct tg_trace). */
struct tg__columns {
  const char *path; /* as it was opened; NULL = bytes in memory */
  struct tg__strings *strings;
  struct tg__rank *ranks;
  uint32_t rank_count;
  struct tg__track *tracks; /* ordered by rank, then first arrival */
  uint32_t track_count;
  struct tg__cat *cats;
  uint32_t cat_count;
  struct tg__schema *schemas;
  uint32_t schema_count;
  const uint8_t *args; /* packed args; a reference r starts at byte 4 × r. NULL until TG__COL_ARGS is loaded */
  uint64_t args_bytes;
  /* NULL, or: strings in the packed args are positions in this list of string ids. So in a .tacho file that was
   * written by a version with other well-known strings, which shifts all numbers. */
  const uint32_t *args_strings;
  uint32_t args_string_count;
  struct tg__slices slices;
  struct tg__marks marks;
  struct tg__step *steps; /* by rank, then start */
  uint32_t step_count;
  enum tg__step_kind step_kind; /* of the first rank that has steps */
  uint32_t loaded;              /* TG__COL_* present now */
  struct tg__arena arena;
  struct tg__store *store;
  struct tg__cache *cache;
  struct tg__skipped_file *skipped; /* the first of those that ranks[0].loss counts as skipped_file */
  uint32_t skipped_count;
  bool has_no_events; /* only its ranks are known, from a summary: nothing can be loaded */
};

/* ---- functions ------------------------------------------------------------------------------- */

/* path and options as tg_open. *out is NULL on failure; TG_NO_DATA of a summary. */
enum tg_err tg__trace_open(const char *path, const struct tg_open_options *options, struct tg__columns **out,
                           struct tg_error *e);
void tg__trace_free(struct tg__columns *t);
/* The same for JSON text in memory; for tests: block_bytes and portable choose the path through the importer (0,
 * false = usual). */
enum tg_err tg__trace_open_bytes(const void *bytes, size_t len, unsigned threads, size_t block_bytes, bool portable,
                                 struct tg__columns **out, struct tg_error *e);
enum tg_err tg__trace_load(struct tg__columns *t, uint32_t columns, struct tg_error *e); /* make columns present */
bool tg__trace_is_valid(const struct tg__columns *t, struct tg_error *e);                /* needs TG__COL_ALL loaded */
/* save.c; needs TG__COL_ALL. */
enum tg_err tg__trace_save(const struct tg__columns *t, const char *path, struct tg_error *e);
/* Named, while there is memory for it. */
void tg__trace_add_skipped(struct tg__columns *t, const char *path, const char *why);
/* Was process i of the rank killed, or left without cleaning up? Workers, which have a parent here, are often ended
 * like that on purpose. */
bool tg__rank_was_killed(const struct tg__rank *rank, uint32_t i);
/* A recording as its files say it now, for a reader that follows it (open_session.c). */
struct tg__recording {
  uint32_t files;   /* as they are recorded */
  bool is_open;     /* one was not closed, and it is not that of a worker */
  bool has_process; /* one of their processes runs on this machine */
  bool has_parent;  /* or one that started them: that of `tachograph run` ends after them */
  bool is_run;      /* `tachograph run` will make one file of them */
  uint64_t pulse;   /* another value whenever a recorder has written its counts: ten times a second */
  int64_t bytes;
};
void tg__recording_read(const char *path, struct tg__recording *out);
/* One more member of every rank's document, for tg__trace_save and exports to write: raw is the JSON text of its
 * value. false on no memory. */
bool tg__trace_add_meta(struct tg__columns *t, const char *key, const char *raw);

/* What stands in the document's members (members.c): a JSON object or array, walked as
 *   for (struct tg__members m = tg__members_of(text); tg__members_next(&m);) … m.key, m.value
 * key: between its quotes, escapes as they stand; empty in an array. value: its JSON text. Text that is neither has
 * no members, and those behind a damage are not found. */
struct tg__members {
  struct tg__str key, value;
  const char *p, *end;
  bool has_keys;
};
struct tg__members tg__members_of(struct tg__str text);
bool tg__members_next(struct tg__members *m);
/* The JSON text of one member of an object, or of a rank's document; given twice, the last. Empty: there is none, or
 * it is null. */
struct tg__str tg__json_member(struct tg__str object, const char *key);
struct tg__str tg__document_member(const struct tg__columns *t, uint32_t rank, const char *key);
/* Reads a whole number from the document's `conditions`, or from their member `of`. false: there is none. */
bool tg__document_condition(const struct tg__columns *t, uint32_t rank, const char *of, const char *name, int64_t *out);
/* What stands between the quotes of a JSON string; ptr NULL: it is no string. */
struct tg__str tg__json_unquoted(struct tg__str value);
struct tg__str tg__json_plain(struct tg__str value); /* the same, and what is no string as it stands */
/* Is it a member of one process, "prefixPID" or "prefixPID.more", and that process one of the rank's? Where no process
 * is known, any is. */
bool tg__is_member_of(const struct tg__rank *r, struct tg__str key, const char *prefix);
/* A string without quotes and escapes (member_text.c), in the arena. Empty: it is no string, or there is no memory
 * (*failed). */
struct tg__str tg__member_text(struct tg__arena *a, struct tg__str value, bool *failed);

/* Data that a later folder derives from the whole trace and that several questions need (cache.c): made by the first
 * that asks, freed with the trace. It changes no answer, so a const trace takes it too. An entry is found by its kind,
 * a static object of the folder that makes it. Like asking, from one thread at a time: the pointer stays good as long
 * as the trace or until tg__cache_drop. */
struct tg__cached {
  void (*free)(void *item);
};
void *tg__cache_find(const struct tg__columns *t, const struct tg__cached *kind); /* NULL: none yet */
/* The trace frees the item; false on no memory: it stays the caller's. */
bool tg__cache_put(const struct tg__columns *t, const struct tg__cached *kind, void *item);
/* The entry, else zeroed bytes that are one from now on; NULL on no memory. */
void *tg__cache_get(const struct tg__columns *t, const struct tg__cached *kind, size_t bytes);
/* Free all entries now: where the memory is worth more than the time of deriving them again. */
void tg__cache_drop(const struct tg__columns *t);
struct tg__cache *tg__cache_new(void);    /* NULL on no memory */
void tg__cache_free(struct tg__cache *c); /* NULL is fine */

static inline struct tg__str tg__name(const struct tg__columns *t, uint32_t string_id) {
  return tg__strings_get(t->strings, string_id);
}
static inline struct tg__str tg__slice_name(const struct tg__columns *t, uint32_t slice) {
  return tg__name(t, t->slices.name[slice]);
}
static inline enum tg__class tg__slice_class(const struct tg__columns *t, uint32_t slice) {
  return (enum tg__class)t->cats[t->slices.cat[slice]].cls;
}
struct tg__extent { /* of tracks, slices or marks */
  uint32_t first, past;
};
/* A loop over the indexes of an extent, which is read twice, before the first. */
#define TG__EACH(i, extent) for (uint32_t i = (extent).first, i##_past = (extent).past; i < i##_past; i++)
static inline struct tg__extent tg__tracks_of(const struct tg__rank *r) {
  return (struct tg__extent){r->first_track, r->first_track + r->track_count};
}
static inline struct tg__extent tg__slices_of(const struct tg__track *k) {
  return (struct tg__extent){k->first, k->first + k->count};
}
/* Samples have tracks of their own. */
static inline bool tg__track_has_samples(const struct tg__columns *t, const struct tg__track *k) {
  return k->count && tg__slice_class(t, k->first) == TG__CLASS_SAMPLE;
}
/* The first slice of a track, or of a part of it, that starts at ns or later; `past` when none does. */
static inline uint32_t tg__first_slice_from(const struct tg__columns *t, struct tg__extent of_track, int64_t ns) {
  TG__PARTITION(of_track.first, of_track.past, i, t->slices.start_ns[i] < ns);
  return of_track.first;
}
/* The slices of a rank: those of its tracks, one after another. */
static inline struct tg__extent tg__rank_slices(const struct tg__columns *t, uint32_t rank) {
  const struct tg__rank *const r = &t->ranks[rank];
  if (r->track_count == 0) return (struct tg__extent){0, 0};
  const struct tg__track *const first = &t->tracks[r->first_track], *const last = first + r->track_count - 1;
  return (struct tg__extent){first->first, last->first + last->count};
}
static inline int64_t tg__slice_end(const struct tg__columns *t, uint32_t slice) {
  return t->slices.start_ns[slice] + t->slices.dur_ns[slice];
}
uint32_t tg__slice_track(const struct tg__columns *t, uint32_t slice); /* binary search over tracks */
/* For count tracks from the first on: itself, or, of a track without slices, the one with slices that has ids which
 * read the same, as a thread that is 77 here and "77" there. NULL on no memory; freed with tg__free. */
uint32_t *tg__tracks_with_same_ids(const struct tg__columns *t, uint32_t first, uint32_t count);

/* One value of an event's args. `args` is the event's reference; key a string id; top: a member of the event itself. */
bool tg__arg(const struct tg__columns *t, uint32_t args, uint32_t key, bool top, struct tg__val *out);
/* The same as an integer: INT as it is, DEC when whole, STR and RAW when their text is an integer; else `fallback`. */
int64_t tg__arg_int(const struct tg__columns *t, uint32_t args, uint32_t key, int64_t fallback);
/* The same for many events, at about a third of the time: events that follow each other mostly have the same keys. */
void tg__arg_ints(const struct tg__columns *t, const uint32_t *args, size_t count, uint32_t key, int64_t fallback,
                  int64_t *out);
/* STR too when it reads as a number. */
double tg__arg_real(const struct tg__columns *t, uint32_t args, uint32_t key, double fallback);
/* STR or RAW: string id; else TG_NONE. */
uint32_t tg__arg_str(const struct tg__columns *t, uint32_t args, uint32_t key);
/* The same of the shapes of inputs, whichever way they are spelt. */
uint32_t tg__arg_dims(const struct tg__columns *t, uint32_t args);

/* Walk all fields of an event in file order:  for (tg__args_begin(t, args, &it); tg__args_next(&it);) … it.field,
 *                                             it.val */
struct tg__args_iter {
  const struct tg__columns *t;
  const struct tg__schema *schema;
  const uint8_t *p, *end;
  uint16_t i;
  const struct tg__field *field;
  struct tg__val val;
};
void tg__args_begin(const struct tg__columns *t, uint32_t args, struct tg__args_iter *it);
bool tg__args_next(struct tg__args_iter *it);
/* Over the next fields without decoding them; schema not NULL. */
void tg__args_skip(struct tg__args_iter *it, uint16_t count);
enum { TG__VAL_TEXT = 40 };
/* INT or DEC as it was written; its length, no NUL. */
size_t tg__val_text(const struct tg__val *v, char text[TG__VAL_TEXT]);
/* Write a value back as it stood. */
void tg__val_json(const struct tg__columns *t, const struct tg__val *v, struct tg__jsonw *w);

#endif
