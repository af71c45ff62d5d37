/* import: private to trace/. From the text of one Chrome/Kineto JSON file to a list of records in file order.
 *
 *   blocks of text --(workers, in parallel)--> records + packed args --(in order)--> struct tg__import --build.c-->
 *   columns
 *
 * import_chrome.c hands out blocks, puts results in order and knows the document; parse_event.h knows one event and
 * is compiled once per instruction set; intern.c holds what all workers share. */
#ifndef TG_IMPORT_H
#define TG_IMPORT_H

#include "trace/store.h"

/* One event as the parser leaves it. 32 bytes, because a gigabyte of JSON is five million of them. */
struct tg__record {
  int64_t ts_ns, dur_ns; /* TG_NULL_INT = has none (or none that can be read) */
  uint32_t name, track;  /* string id; number in tg__import.tracks */
  uint32_t args;         /* reference, relative to the pool of its block until committed */
  uint16_t cat;
  uint8_t ph, flags; /* TG__F_NEGATIVE, TG__F_ROUNDED */
};
_Static_assert(sizeof(struct tg__record) == 32, "a record is 32 bytes");

/* Text is followed by this many readable bytes: eight of TG__TEXT_STOP (not blank, not JSON), then zeros (end any
 * string), so that the scanner needs no bounds check per byte. */
#define TG__TEXT_PAD 128
#define TG__TEXT_STOP 0x7f

struct tg__losses {
  int64_t count[TG__LOSS_COUNT], offset[TG__LOSS_COUNT]; /* offset: first byte, valid when count > 0 */
};
void tg__count_loss(struct tg__losses *l, enum tg__loss what, int64_t offset); /* count one */
struct tg__columns *tg__trace_new(void);           /* empty, ready to be filled (open.c); NULL on no memory */
bool tg__add_known_strings(struct tg__strings *s); /* keys.def, so that TG__K_* are their ids; s is empty (open.c) */
void tg__losses_add(struct tg__losses *into, const struct tg__losses *from);

/* ---- what workers share: tables behind one lock, each worker with a cache in front (intern.c) ---- */

struct tg__track_key {
  int64_t pid, tid;
  bool pid_is_text, tid_is_text;
};
struct tg__shared {
  struct tg__lock *lock;
  struct tg__columns *trace; /* strings, cats, schemas grow here */
  size_t cat_cap, schema_cap;
  struct tg__map schema_index; /* hash of fields → position in guesses; equal hashes are chained through hash + 1 */
  const struct tg__guess **guesses; /* by schema id */
  size_t guess_cap;
  struct tg__track_key *tracks; /* of the file being read, in order of arrival */
  size_t track_count, track_cap;
  struct tg__map track_index; /* hash of a key → its number, chained like schema_index */
};

struct tg__packed_val { /* a value on its way into the pool */
  uint32_t key;
  uint8_t kind, decimals;
  bool top;
  uint8_t zero; /* so that rows compare what stands before i as one word */
  int64_t i;    /* the integer, the digits of a decimal, or a string id */
};

/* A schema with the text of its keys at hand, for a parser that expects the same keys again. Never moves. */
struct tg__guess_field {
  const char *text;
  uint64_t head, tail, mask; /* the first and the last eight bytes of the key; below eight bytes: head under mask */
  uint32_t len, key;
  uint8_t kind;
  bool top;
};
struct tg__guess {
  uint32_t id, count;
  bool has_args;
  struct tg__guess_field fields[];
};

enum { TG__ROW_MOST = 64, TG__ROW_CACHE = 8 };
struct tg__row_fields { /* of an event that was added as a row: keys and kinds of its values */
  uint64_t heads[TG__ROW_MOST];
  const struct tg__guess *schema; /* NULL: none was added yet */
};

enum { TG__STRING_CACHE = 8192, TG__TRACK_CACHE = 64, TG__SCHEMA_CACHE = 1024, TG__PENDING = 64 };
struct tg__parser {
  struct tg__shared *shared;
  struct {
    uint64_t hash;
    const char *ptr;
    uint32_t len, id;
  } strings[TG__STRING_CACHE];
  struct {
    struct tg__track_key key;
    uint32_t track; /* TG_NONE = empty */
  } track_cache[TG__TRACK_CACHE];
  uint32_t cat_string[64], cat_index[64];                 /* direct-mapped by string id */
  const struct tg__guess *guess[TG__SCHEMA_CACHE];        /* by event name: the schema seen last */
  const struct tg__guess *known_schema[TG__SCHEMA_CACHE]; /* by hash of the fields */
  struct tg__row_fields rows[TG__ROW_CACHE];              /* by the number of values, the last ones seen */
  struct tg__packed_val *vals;                            /* members and args of the event being read */
  size_t val_count, val_cap;
  char *scratch; /* unescaped text */
  size_t scratch_cap;
  bool no_memory;
  struct {
    enum tg__loss what;
    int64_t offset;
  } pending[TG__PENDING]; /* anomalies of the event being read, counted only when it is complete */
  size_t pending_count;
  /* result of the block */
  struct tg__record *records;
  size_t record_count, record_cap;
  uint8_t *pool;
  size_t pool_len, pool_cap;
  struct tg__losses losses;
  int64_t phases[128];
  const char *text; /* first byte of the block, at text_offset of the input */
  int64_t text_offset;
};
bool tg__parser_init(struct tg__parser *p, struct tg__shared *s);
void tg__parser_reset(struct tg__parser *p); /* forget the result, keep the caches */
void tg__parser_free(struct tg__parser *p);

/* Slow halves of the caches. All return TG_NONE and set no_memory when memory is out. */
uint32_t tg__intern_string(struct tg__parser *p, const char *text, size_t len, uint64_t hash);
uint32_t tg__intern_track(struct tg__parser *p, const struct tg__track_key *key);
uint32_t tg__intern_cat(struct tg__parser *p, uint32_t string_id); /* string_id TG_NONE: the event has no cat */
const struct tg__guess *tg__intern_schema(struct tg__parser *p, bool has_args, const struct tg__packed_val *vals,
                                          size_t count);
/* Decode a string with the raw body [raw, end) (between the quotes) and intern it. Counts its anomalies. */
uint32_t tg__intern_escaped(struct tg__parser *p, const char *raw, const char *end);
/* The event being read has this anomaly. */
void tg__note_anomaly(struct tg__parser *p, enum tg__loss what, const char *at);
void tg__count_anomalies(struct tg__parser *p); /* the event is complete: count them */
/* Append an entry to the block's pool; returns its reference. */
uint32_t tg__pack_args(struct tg__parser *p, uint32_t schema, const struct tg__packed_val *vals, size_t count);

/* Exact microseconds → ns for any spelling of a number (exponents, strings, -1.-500). Rounds half to even beyond
 * three decimals and says so. false: not a finite number or beyond int64. (number.c) */
bool tg__parse_time_slow(const char *text, size_t len, int64_t *ns, bool *rounded);

/* ---- scanning events (parse_event.h, instantiated by parse_portable.c and parse_avx2.c) ------ */

enum tg__scan_result {
  TG__SCAN_CLEAN,   /* all text used, at a boundary between events */
  TG__SCAN_ARRAY,   /* met the closing bracket of the array at *stop */
  TG__SCAN_PARTIAL, /* the event beginning at *stop is not complete */
  TG__SCAN_DAMAGED, /* the event beginning at *stop is no JSON, and no other begins behind it */
};
typedef enum tg__scan_result tg__scan_events_fn(struct tg__parser *p, const char *text, const char *end,
                                                const char **stop);
tg__scan_events_fn tg__scan_events_portable, tg__scan_events_avx2;
/* Past the value that begins at p (any JSON value, not validated inside); NULL when it does not end before `end`. */
const char *tg__skip_value(const char *p, const char *end);
/* Does an event plausibly begin at p ('{' after a comma or bracket, then a key events have)? first: start of the
 * text; NULL = whatever stands before it will do. */
bool tg__looks_like_event(const char *p, const char *first, const char *end);
/* First such place at or after p; NULL. */
const char *tg__find_event(const char *p, const char *first, const char *end);
/* The same, of those with a phase among their first members: not just any object in the args of an event. */
const char *tg__find_complete_event(const char *p, const char *first, const char *end);
/* Has a missing or an extra quote or bracket made the nested value [p, end) run over the events behind its own? */
bool tg__swallows_events(const char *p, const char *end);
tg__scan_events_fn *tg__scan_events_best(const char **name); /* for this CPU; *name: "avx2", "portable" */

/* ---- one file -------------------------------------------------------------------------------- */

struct tg__segment { /* records of one block, in file order */
  struct tg__record *records;
  size_t count, bytes; /* bytes: of pages behind records */
};
/* Which track the framework's number of a thread is: forward threads of autograd nodes refer to it. */
struct tg__logical_thread {
  int64_t pid, number;
  uint32_t track; /* number in tg__import.shared.tracks */
};
struct tg__import { /* one file, read */
  struct tg__shared shared;
  struct tg__segment *segments;
  size_t segment_count, segment_cap;
  uint8_t *pool; /* packed args of all files so far, from tg__pages_get */
  uint64_t pool_len, pool_cap;
  struct tg__losses losses;
  int64_t phases[128];
  struct tg__meta *meta;
  size_t meta_count, meta_cap;
  bool bare_array, saw_events, packed;
  int64_t text_bytes, events_read;
  /* of recordings only */
  bool is_recording;
  int64_t rank_number; /* -1 = unknown */
  struct tg__process *processes;
  uint32_t process_count;
  struct tg__logical_thread *logicals;
  size_t logical_count, logical_cap;
};
void tg__import_release(struct tg__import *im); /* everything but the pool */
/* Events that do not come from JSON (import_rows.c): their values one by one (at most TG__ROW_MOST), then the event;
 * category: string id or TG_NONE. false on no memory. */
static inline void tg__row_value(struct tg__parser *p, uint32_t key, enum tg__kind kind, int64_t i, bool top) {
  p->vals[p->val_count++] = (struct tg__packed_val){.key = key, .kind = (uint8_t)kind, .i = i, .top = top};
}
bool tg__row_add(struct tg__parser *p, struct tg__record r, uint32_t category);
/* The added rows become a block of the import, and the parser is empty again. */
bool tg__commit_rows(struct tg__import *im, struct tg__parser *p);
/* A block with args in a pool of its own: they move to the end of the import's, and its records refer to them
 * there. */
bool tg__commit_block(struct tg__import *im, struct tg__segment *s, const uint8_t *pool, size_t len,
                      const int64_t phases[128]);
/* Text source: up to len bytes into buf, 0 at the end, -1 broken (*e set). */
typedef int64_t tg__source_fn(void *ctx, void *buf, size_t len, struct tg_error *e);
struct tg__import_how {
  unsigned threads;
  size_t block_bytes;          /* 0 = the usual 4 MiB */
  bool no_timeline;            /* a raw memory timeline is refused: a file beside the ranks is no rank */
  tg__scan_events_fn *scan;    /* NULL = the best for this CPU */
  bool (*progress)(void *ctx); /* NULL = none; false stops with TG_CANCELLED. Called under the lock. */
  void *progress_ctx;
};
enum tg_err tg__import_text(struct tg__import *im, tg__source_fn *source, void *ctx, const struct tg__import_how *how,
                            struct tg_error *e);

/* import_timeline.c: PyTorch's raw memory timeline, a list of lists of numbers. Does the text behind the first
 * bracket begin like one? undecided: there is too little of it to decide. */
bool tg__timeline_begins(const char *p, const char *end, bool *undecided);
/* Takes whole elements and adds their events to the parser; how far it came. in_gap: it is inside of something
 * damaged. closed: the list ended. */
const char *tg__timeline_scan(struct tg__parser *p, const char *at, const char *end, bool *in_gap, bool *closed);

/* ---- building: records → columns ------------------------------------------------------------- */

/* What has been built so far, over all files of the trace. */
struct tg__build {
  struct tg__columns *trace;
  size_t column_bytes[TG__COLUMN_COUNT]; /* of the pages behind each column of columns.def */
  size_t track_cap, rank_cap, step_cap;
  unsigned threads;
};
/* build.c: one more rank. */
enum tg_err tg__build_rank(struct tg__build *b, struct tg__import *im, uint32_t path, struct tg_error *e);
enum tg_err tg__build_finish(struct tg__build *b, struct tg_error *e); /* build.c: after the last */
/* The columns belong to the trace's store from here on, also after a failure. */
void tg__build_hand_over(struct tg__build *b);
/* Run body(ctx, track) for every track of a rank, on several threads, the largest first so that the long one starts
 * early. build.c */
enum tg_err tg__parallel_tracks(const struct tg__columns *t, const struct tg__rank *r, unsigned threads,
                                void (*body)(void *ctx, uint32_t track), void *ctx);
/* The steps of tg__build_rank, on rank number r of the trace. TG_MEMORY is the only way they fail. */
enum tg_err tg__pair_ends(struct tg__columns *t, uint32_t r); /* pair.c: B with E, b with e: durations */
enum tg_err tg__sort_track(struct tg__columns *t, const struct tg__track *track);  /* sort_tracks.c */
enum tg_err tg__sort_marks(struct tg__columns *t, uint32_t first, uint32_t count); /* sort_tracks.c */
enum tg_err tg__nest_track(struct tg__columns *t, struct tg__track *track);        /* nest.c: parent, depth, lane */
/* link.c: cause. */
enum tg_err tg__link_rank(struct tg__columns *t, uint32_t r, const struct tg__import *im, uint32_t first_mark,
                          unsigned threads);
enum tg_err tg__read_meta(struct tg__columns *t, struct tg__rank *rank); /* meta.c: the document's members */
/* meta.c: process and thread names, device tracks. */
void tg__name_tracks(struct tg__columns *t, struct tg__rank *rank, uint32_t first_mark);
enum tg_err tg__find_steps(struct tg__build *b); /* find_steps.c */
void tg__note_step_kinds(struct tg__columns *t); /* find_steps.c: the kind of the steps of each rank, by their names */

#endif
