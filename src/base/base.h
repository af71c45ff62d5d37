/* base: what C lacks. Knows nothing about traces.
 *
 * Errors are values: a function that can fail returns enum tg_err and fills a struct tg_error when given one.
 * Nothing here prints, exits or reads the environment. Unless said otherwise functions may be called from any thread on
 * different objects, and not from two threads on one object. */
#ifndef TG_BASE_H
#define TG_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tachograph/types.h" /* enum tg_err, struct tg_error: shared with the public interfaces */

#define TG_LIKELY(x) __builtin_expect(!!(x), 1)
#define TG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TG_INLINE static inline __attribute__((always_inline))
#define TG_NONE UINT32_MAX /* "no such index" in every uint32_t column */

/* ---- errors (err.c) -------------------------------------------------------------------------- */

/* Fill *e (may be NULL) and return code. offset: byte in the input, or -1. The text says what, where and what to do. */
enum tg_err tg__fail(struct tg_error *e, enum tg_err code, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const char *tg__err_text(enum tg_err code); /* the general sentence of a code */
/* TG_MEMORY: "out of memory while" doing so. */
enum tg_err tg__no_memory(struct tg_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As vsnprintf, but what does not fit goes from the last whole word on, and the text ends with "…". */
void tg__format_words(char *buf, size_t size, const char *format, va_list args);
/* In a function that checks invariants, with struct tg_error *e: return false with this sentence where one does not
 * hold. */
#define TG__CHECK(condition, ...)                                                                                      \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      tg__fail(e, TG_INTERNAL, -1, __VA_ARGS__);                                                                       \
      return false;                                                                                                    \
    }                                                                                                                  \
  } while (0)

/* ---- memory (mem.c, pages.c) ----------------------------------------------------------------- */

/* malloc family with failure injection for the tests. NULL on failure; tg__alloc returns zeroed bytes. */
void *tg__alloc(size_t bytes);
void *tg__realloc(void *p, size_t bytes);
void tg__free(void *p);
/* Freed memory goes back to the system, where the allocator would keep it: between stretches of work that each
 * need much. */
void tg__memory_return(void);
void tg__alloc_fail_after(long calls); /* tests: the n-th call from now fails, and all later ones; -1 = never */
bool tg__alloc_must_fail(void);        /* is this that call? For whatever else hands out memory */

/* The pointer that lies at an address, of whatever type it is there: read as the bytes it is, or the compiler might
 * assume that a store through void ** leaves it as it was. */
static inline void *tg__pointer_at(const void *place) {
  void *p;
  memcpy(&p, place, sizeof p);
  return p;
}

/* Grow an array so that it holds at least `want` elements. items: the address of the pointer to it, of whatever
 * type; that pointer and *cap change together. false on failure, old array kept. */
bool tg__grow(void *items, size_t *cap, size_t want, size_t item_bytes);

/* Page memory for big columns: zeroed, may be given back piece by piece. NULL on failure. bytes is rounded up to
 * pages. */
void *tg__pages_get(size_t bytes);
void *tg__pages_used(size_t bytes);                /* the same, not zeroed: for callers that write all of it */
void *tg__pages_sparse(size_t bytes);              /* the same when most pages will never be touched */
void tg__pages_drop(void *p, size_t bytes);        /* release all: some of it is kept for reuse, see pages.c */
void tg__pages_drop_sparse(void *p, size_t bytes); /* of tg__pages_sparse: nothing is kept */
/* For tg__alloc: small pages only, as most of a big array may never be touched. *cap: bytes it has, becomes about
 * `want`. NULL: nothing changed. */
void *tg__pages_block(size_t bytes, bool zeroed);
void *tg__pages_block_resize(void *p, size_t *cap, size_t want);
void tg__pages_return(void);           /* what is kept goes back to the system */
void tg__pages_keep_none(bool begins); /* until it ends, for each that began: nothing is kept */
/* Release whole pages inside [from, to): read as zero after. */
void tg__pages_release(void *p, size_t from_byte, size_t to_byte);

/* place: the address of a pointer, of whatever type, to *cap bytes from tg__pages_get, or NULL. Make them at least
 * `want` bytes, moving pages instead of copying them; what is new is zero. *cap becomes the size to pass to
 * tg__pages_drop. false on failure, nothing changed. */
bool tg__pages_grow(void *place, size_t *cap, size_t want);

/* Bump arena: everything in it lives until tg__arena_free. Zero-initialised struct is an empty arena. */
struct tg__arena {
  struct tg__arena_block *head;
};
void *tg__arena_get(struct tg__arena *a, size_t bytes); /* 8-byte aligned, not zeroed; NULL on failure */
char *tg__arena_copy(struct tg__arena *a, const char *text, size_t len); /* copy with a NUL behind it */
void tg__arena_free(struct tg__arena *a);

/* ---- strings (str.c) ------------------------------------------------------------------------- */

/* A view of bytes: not owned, not NUL-terminated. */
struct tg__str {
  const char *ptr;
  uint32_t len;
};
#define TG_STR(literal) ((struct tg__str){literal, sizeof(literal) - 1})
bool tg__str_eq(struct tg__str a, struct tg__str b);
int tg__str_cmp(struct tg__str a, struct tg__str b); /* byte order */
bool tg__str_has_prefix(struct tg__str s, const char *prefix);
bool tg__str_has_suffix(struct tg__str s, const char *suffix);
bool tg__str_contains(struct tg__str s, const char *needle);
bool tg__str_eq_nocase(struct tg__str s, const char *other); /* ASCII case only */
bool tg__str_to_int(struct tg__str s, int64_t *out); /* decimal, all of it; false: no such number, or it does not fit */
bool tg__str_to_real(struct tg__str s, double *out); /* the same for a number as strtod takes it, of at most 63 bytes */
uint64_t tg__hash(const void *bytes, size_t len);

/* Interner: equal bytes get one id, 0,1,2,… in order of first arrival. tg__strings_add may be called from several
 * threads at once; views stay valid until tg__strings_free because text never moves. */
struct tg__strings;
struct tg__strings *tg__strings_new(void); /* NULL on failure */
void tg__strings_free(struct tg__strings *s);
uint32_t tg__strings_add(struct tg__strings *s, const char *ptr, size_t len); /* TG_NONE when out of memory */
uint32_t tg__strings_add_hashed(struct tg__strings *s, const char *ptr, size_t len, uint64_t hash);
uint32_t tg__strings_find(const struct tg__strings *s, const char *ptr, size_t len); /* TG_NONE when absent */
struct tg__str tg__strings_get(const struct tg__strings *s, uint32_t id);
uint32_t tg__strings_count(const struct tg__strings *s);
/* The invariants, as code: each id has a text with a zero behind it, under which it is found. Adds from other threads
 * must have ended. */
bool tg__strings_is_valid(const struct tg__strings *s, struct tg_error *e);

/* UTF-8: length of the valid sequence at p (1..4), 0 when the bytes there are not UTF-8 (a surrogate half counts as
 * invalid). */
unsigned tg__utf8_length(const unsigned char *p, size_t left);
/* Of a valid sequence of n bytes: would a terminal obey it, or the reader be deceived by it? Control characters,
 * line and paragraph separators, marks that turn the direction of writing, blanks without width. */
bool tg__utf8_is_unsafe(const unsigned char *p, unsigned n);
/* The candidate that is nearest to what was typed (nearest.c), for "did you mean": NULL when none is close. candidate
 * returns NULL past the last one. */
const char *tg__nearest_text(const char *wanted, const char *(*candidate)(const void *ctx, size_t k), const void *ctx);
/* One more name in "a, b, c" of a sentence; without room the list ends with "…". list: a text, at first empty. */
void tg__list_name(char *list, size_t size, const char *name);

/* ---- map (map.c) ----------------------------------------------------------------------------- */

/* uint64 → uint32 hash map. Zero-initialised struct is an empty map. Keys may be any value. */
struct tg__map {
  uint64_t *keys;
  uint32_t *values;
  uint8_t *used;
  size_t cap, count;
};
bool tg__map_put(struct tg__map *m, uint64_t key, uint32_t value); /* replaces; false on no memory */
/* The value's place, made with `fresh` when new; NULL on no memory. */
uint32_t *tg__map_slot(struct tg__map *m, uint64_t key, uint32_t fresh);
uint32_t tg__map_get(const struct tg__map *m, uint64_t key); /* TG_NONE when absent */
void tg__map_free(struct tg__map *m);

/* ---- searching ------------------------------------------------------------------------------- */

/* Moves `low` to the first index of [low, high) for which is_before, an expression of `i`, does not hold; to `high`
 * when it holds for all. Where it holds it holds for every index before. */
#define TG__PARTITION(low, high, i, is_before)                                                                         \
  for (size_t tg__past = (high); (low) < tg__past;) {                                                                  \
    const size_t i = (low) + (tg__past - (low)) / 2;                                                                   \
    if (is_before)                                                                                                     \
      (low) = i + 1;                                                                                                   \
    else                                                                                                               \
      tg__past = i;                                                                                                    \
  }

/* ---- sorting (sort.c) ------------------------------------------------------------------------ */

/* Stable sort of `n` indexes by less(a, b, ctx); cheap on input that is nearly in order. false on no memory. */
typedef bool tg__less(uint32_t a, uint32_t b, const void *ctx);
bool tg__sort_index(uint32_t *index, size_t n, tg__less *less, const void *ctx);
bool tg__sort_order(uint32_t *order, size_t n, tg__less *less, const void *ctx); /* the same, made of 0..n-1 first */
/* The same in memory of its own, of n + 1 places. NULL on no memory; tg__free. */
uint32_t *tg__order_new(size_t n, tg__less *less, const void *ctx);
/* The same of an array: *items, of tg__alloc, becomes one of n items in order and has room for one more. less is
 * asked about the old one. */
bool tg__sort_items(void **items, size_t n, size_t size, tg__less *less, const void *ctx);

/* ---- output (out.c) -------------------------------------------------------------------------- */

/* A byte sink with a buffer in front. With write == NULL everything is kept in buf (a string builder). The first error
 * sticks in err and turns all later calls into no-ops, so callers test once at the end. */
struct tg__out {
  char *buf;
  size_t len, cap;
  bool (*write)(void *ctx, const char *bytes, size_t len); /* false = failed */
  void *ctx;
  enum tg_err err;
};
void tg__out_bytes(struct tg__out *o, const void *bytes, size_t len);
void tg__out_text(struct tg__out *o, const char *text);
void tg__out_char(struct tg__out *o, char c);
void tg__out_format(struct tg__out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tg__out_int(struct tg__out *o, int64_t v);
void tg__out_uint(struct tg__out *o, uint64_t v);
/* Shortest text that reads back equal; "null" for NaN and infinities. */
void tg__out_double(struct tg__out *o, double v);
/* Room for len bytes to be written by hand; NULL on error; then tg__out_commit. */
char *tg__out_reserve(struct tg__out *o, size_t len);
void tg__out_commit(struct tg__out *o, size_t len);
enum tg_err tg__out_flush(struct tg__out *o);
void tg__out_free(struct tg__out *o);

/* JSON (jsonw.c): commas and escaping are the writer's job. Zero-initialise with .out set. */
struct tg__jsonw {
  struct tg__out *out;
  uint32_t depth;
  bool comma; /* the next value needs a comma before it */
  bool after_key;
};
void tg__json_open(struct tg__jsonw *w, char bracket); /* '{' or '[' */
void tg__json_close(struct tg__jsonw *w, char bracket);
void tg__json_key(struct tg__jsonw *w, const char *key);
void tg__json_str(struct tg__jsonw *w, struct tg__str s);
void tg__json_cstr(struct tg__jsonw *w, const char *s); /* NULL → null */
void tg__json_int(struct tg__jsonw *w, int64_t v);
void tg__json_double(struct tg__jsonw *w, double v);
void tg__json_bool(struct tg__jsonw *w, bool v);
void tg__json_null(struct tg__jsonw *w);
void tg__json_raw(struct tg__jsonw *w, struct tg__str raw); /* already JSON */
/* The escaped body of a string, without quotes; what steers a terminal is written as its \uXXXX escape. Bytes that
 * are not UTF-8 become U+FFFD when `display`, and otherwise stay as they are, except that an encoded surrogate half
 * is written as its \uXXXX escape. */
void tg__json_escape(struct tg__out *o, struct tg__str s, bool display);

/* ---- the operating system (os.c; pages come from pages.c) ------------------------------------ */

struct tg__file; /* an open file, pipe or standard input */
enum tg_err tg__file_open(const char *path, struct tg__file **out, struct tg_error *e); /* "-" = standard input */
/* Keep bytes that come only once, to be read at any place: bytes (from tg__alloc; the file's from now on, freed on
 * failure, too). */
enum tg_err tg__file_keep(char *bytes, size_t len, struct tg__file **out, struct tg_error *e);
int64_t tg__file_size(const struct tg__file *f);                  /* -1 when it has none (pipe) */
int64_t tg__file_read(struct tg__file *f, void *buf, size_t len); /* bytes read, 0 at the end, -1 on error */
int64_t tg__file_read_at(struct tg__file *f, void *buf, size_t len, int64_t offset);
void tg__file_close(struct tg__file *f);

struct tg__writer; /* a file being written: lands under its name only at commit */
enum tg_err tg__writer_open(const char *path, struct tg__writer **out, struct tg_error *e); /* "-" = standard output */
bool tg__writer_write(void *writer, const char *bytes, size_t len);                         /* fits tg__out.write */
enum tg_err tg__writer_commit(struct tg__writer *w, struct tg_error *e); /* flush, rename into place, free */
void tg__writer_abandon(struct tg__writer *w);                           /* NULL is fine */
int tg__writer_error(const struct tg__writer *w); /* errno of the first write that failed, 0 = none */

enum tg__path_kind { TG__PATH_NONE, TG__PATH_FILE, TG__PATH_DIR, TG__PATH_OTHER };
enum tg__path_kind tg__path_kind(const char *path);
bool tg__path_is_of_many(const char *path); /* a folder, or a pattern that is no file's name */
/* Paths of the regular files in a directory (hidden ones left out), or matching a glob, sorted by bytes;
 * NUL-terminated copies in the arena. A glob without a match is TG_NOT_FOUND, an empty directory is not an error. */
enum tg_err tg__path_list(const char *dir_or_glob, struct tg__arena *a, const char ***names, size_t *count,
                          struct tg_error *e);

int64_t tg__clock_ns(void);       /* monotonic */
int64_t tg__cpu_used_ns(void);    /* CPU time of this process */
int64_t tg__thread_used_ns(void); /* of this thread */
unsigned tg__cpu_count(void);     /* usable by this process, at least 1 */
unsigned tg__core_count(void);    /* the same without second threads of one core */
bool tg__is_terminal(int fd);
unsigned tg__terminal_width(int fd); /* columns; 0 when not a terminal */
const char *tg__getenv(const char *name);

struct tg__lock;
struct tg__lock *tg__lock_new(void);
void tg__lock_free(struct tg__lock *l);
void tg__lock_take(struct tg__lock *l);
void tg__lock_drop(struct tg__lock *l);
void tg__lock_wait(struct tg__lock *l); /* drop, sleep until woken, take again; may wake without cause */
void tg__lock_wait_for(struct tg__lock *l, int64_t ns); /* the same, and not longer than this */
void tg__lock_wake(struct tg__lock *l);                 /* wake all sleepers */
/* Call body(ctx) at intervals of every_ns (below 1 s), from a thread of its own and never after stop has returned.
 * NULL: no thread could be had; stop does nothing then. */
struct tg__beat;
struct tg__beat *tg__beat_start(int64_t every_ns, void (*body)(void *ctx), void *ctx);
void tg__beat_stop(struct tg__beat *b);
/* Run body(ctx, 0..count-1) once each on up to `threads` threads, the caller's among them; returns when all are
 * done. When threads cannot be had the caller does all the work itself. */
void tg__threads_run(unsigned threads, size_t count, void (*body)(void *ctx, size_t i), void *ctx);
/* How many threads, up to `most`, work on so many bytes is worth: starting one costs about what 256 KiB do. */
unsigned tg__threads_worth(size_t bytes, unsigned most);

/* What this CPU has of these, and the system saves (cpu_features.c); 0 where it is not x86-64. */
enum tg__cpu_feature {
  TG__CPU_AVX2 = 1,
  TG__CPU_BMI = 2,
  TG__CPU_FMA = 4,
  TG__CPU_AVX512F = 8,
  TG__CPU_AVX512BW_VL = 16, /* both */
};
unsigned tg__cpu_features(void);

/* What this CPU can do at most on so many threads, one a core, measured in some tenths of a second (cpu_peak.c); bf16:
 * 0 where it has nothing of its own for that, or more than vectors. Errors: how much less the truth may be. false: no
 * memory for it. */
struct tg__cpu_peak {
  double fp32_flop_per_s, fp64_flop_per_s, bf16_flop_per_s, bytes_per_s, flops_error_pct, bytes_error_pct;
  unsigned threads;
};
bool tg__cpu_peak_measure(unsigned threads, struct tg__cpu_peak *out);

/* ---- other programs and what they leave (os_process.c) --------------------------------------- */

struct tg__variable {
  const char *name, *value;
};
/* Run a program (argv ends with NULL; found on PATH) to its end with these variables set; output_fd, unless -1,
 * becomes its standard output. Signals sent only to this process are passed on to it. *status: its exit status, 128
 * + n when signal n ended it. */
enum tg_err tg__program_run(const char *const *argv, const struct tg__variable *variables, size_t count, int output_fd,
                            int *status, struct tg_error *e);
/* Its standard output as text without the last line end; false when it failed or said nothing. */
bool tg__program_says(const char *const *argv, char *text, size_t size);
uint64_t tg__process_number(void);
bool tg__process_runs(uint64_t number);                           /* on this machine, as far as this process can see */
void tg__local_time(const char *format, char *text, size_t size); /* as strftime; "" when it does not fit */
/* With those above it; one that is there is no error. */
enum tg_err tg__folder_make(const char *path, struct tg_error *e);
bool tg__path_absolute(const char *path, char *out, size_t size); /* of something that exists */
void tg__path_remove(const char *path);                           /* a file or an empty folder; failure is silent */

/* ---- compressed input (inflate.c): the only file that knows ISA-L, zlib and zstd streams ----- */

enum tg__packing { TG__PLAIN, TG__GZIP, TG__ZSTD };
struct tg__input; /* a file seen as its plain text, whatever it is wrapped in; recognised by content, not by name */
enum tg_err tg__input_open(const char *path, struct tg__input **out, struct tg_error *e);
enum tg__packing tg__input_packing(const struct tg__input *in);
int64_t tg__input_file_bytes(const struct tg__input *in);  /* size on disk, -1 when unknown */
int64_t tg__input_bytes_taken(const struct tg__input *in); /* how far into the file reading has come: for progress */
/* Up to len bytes of plain text; 0 at the end; -1 when the input broke (*e says where): what came before is good. */
int64_t tg__input_read(struct tg__input *in, void *buf, size_t len, struct tg_error *e);
void tg__input_close(struct tg__input *in);
const char *tg__input_codecs(void); /* what this build can unpack, in words */

/* Compressed output; same file. Fits tg__out.write; what it makes goes on to `write`. */
struct tg__packer;
/* TG_UNSUPPORTED when this build lacks the codec. */
enum tg_err tg__packer_new(enum tg__packing packing, bool (*write)(void *ctx, const char *bytes, size_t len), void *ctx,
                           struct tg__packer **out, struct tg_error *e);
bool tg__packer_write(void *packer, const char *bytes, size_t len);
bool tg__packer_end(struct tg__packer *p);  /* the last bytes; false = failed */
void tg__packer_free(struct tg__packer *p); /* NULL is fine */

#endif
