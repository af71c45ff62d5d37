/* view: what the page draws, as pure functions over a const trace: the rows of the timeline and their index, tiles,
 * details of a slice, search, links and totals of a selection. No text, no network: src/serve puts them on the wire.
 *
 * A *row* is a line of the timeline: the slices of one lane of a track at one depth of nesting, which never overlap.
 * Times that go in and out are ns since the origin, the first start on the common clock of the ranks.
 *
 * Threads: a view does not change once tg__view_open has returned, so several threads may read it; struct
 * tg__slice_classes belongs to one thread. */
#ifndef TG_VIEW_H
#define TG_VIEW_H

#include "analyze/analyze.h"

/* What a slice is to the eye: one colour each, the same on every page. Numbers are part of the tile's layout. */
enum tg__slice_class {
#define CLASS(name, text) TG__SLICE_CLASS_##name,
#include "view/slice_classes.def"
#undef CLASS
  TG__SLICE_CLASS_COUNT
};
extern const char *const tg__slice_class_names[TG__SLICE_CLASS_COUNT];

/* Looks of slices, worked out once for each name. */
struct tg__slice_classes {
  struct tg__names names;
  uint8_t *shades; /* one per string of the trace; 0 = not worked out yet */
  uint8_t *flags;
};
bool tg__slice_classes_open(struct tg__slice_classes *l, const struct tg__columns *t); /* false on no memory */
void tg__slice_classes_close(struct tg__slice_classes *l);
enum tg__slice_class tg__slice_class_of(struct tg__slice_classes *l, uint32_t slice);
/* 1 … 255, from a hash of the name up to its first < or (: neighbours of one class differ. */
uint8_t tg__shade_of(struct tg__slice_classes *l, uint32_t name);

/* ---- rows and their index (row_layout.c, row_index.c) ------------------------------------------------ */

enum { TG__VIEW_COLUMNS = TG__COL_CORE | TG__COL_FLAGS | TG__COL_DEPTH | TG__COL_LANE | TG__COL_CAUSE };

struct tg__row {
  uint32_t track;
  uint32_t lane, depth; /* depth: of nesting inside the lane, from 0 */
  uint32_t count;       /* slices */
  uint32_t first_block, first_node;
  int64_t end_ns; /* of its last slice, as in the file */
};
struct tg__track_index;
struct tg__view {
  const struct tg__columns *trace; /* must outlive the view */
  struct tg__row *rows;            /* by track, lane and depth */
  uint32_t row_count;
  uint32_t *first_row; /* of each track; one more at the end */
  struct tg__track_index *tracks;
  int64_t origin_ns, end_ns; /* origin: on the common clock; end: since the origin */
};
/* Does the timeline end with its marks? Of a trace without slices, and of a memory snapshot, which may have ranges that
 * end long before the last block does. */
bool tg__view_ends_with_marks(const struct tg__columns *t);
/* Needs TG__VIEW_COLUMNS loaded, and TG__COL_MARKS where the timeline ends with marks. *out is NULL on failure. */
enum tg_err tg__view_open(const struct tg__columns *t, unsigned threads, struct tg__view **out, struct tg_error *e);
void tg__view_close(struct tg__view *v);         /* NULL is fine */
size_t tg__view_bytes(const struct tg__view *v); /* what the rows and their index take */

/* Add to a time of the file of this rank to get ns since the origin. */
static inline int64_t tg__view_shift(const struct tg__view *v, uint32_t rank) {
  return v->trace->ranks[rank].clock_offset_ns - v->origin_ns;
}
uint32_t tg__view_row_of(const struct tg__view *v, uint32_t slice);
uint32_t tg__view_slice(const struct tg__view *v, uint32_t row, uint32_t position); /* position < count */
/* How many slices of the row begin before this time, as in the file. */
uint32_t tg__view_position(const struct tg__view *v, uint32_t row, int64_t ns);
/* The slice of the row that runs at this time, else the nearest that begins or ends within tolerance_ns; TG_NONE. */
uint32_t tg__view_hit(const struct tg__view *v, uint32_t row, int64_t at_ns, int64_t tolerance_ns);

/* The tracks with slices in the order to show them in (track_order.c): rank by rank, CPU threads, the one with most
 * steps first, then devices and their streams, then the rest. order has room for trace->track_count; returns how many.
 * TG_NONE: no memory. */
uint32_t tg__view_order(const struct tg__view *v, uint32_t *order);

/* ---- tiles (tile.c) ---------------------------------------------------------------------------- */

enum { TG__TILE_COLUMNS = 1024, TG__TILE_HEAD = 12, TG__LEVEL_MOST = 44 };
enum { TG__TILE_OPEN = 1, TG__TILE_CAUSED = 2, TG__TILE_MORE = 4 }; /* flags of a stretch */
/* Appends the tile in the layout of docs/viewer-api.md: at most TG__TILE_HEAD + 16 × 1024 bytes. row and level are
 * good. */
void tg__view_tile(const struct tg__view *v, struct tg__slice_classes *classes, uint32_t row, unsigned level,
                   int32_t tile, struct tg__out *out);

/* ---- counters and instants (series.c) ------------------------------------------------------------- */

enum tg__series_what {
  TG__SERIES_COUNTER,   /* name and key: string ids */
  TG__SERIES_ALLOCATED, /* of a device, as its allocator reports */
  TG__SERIES_RESERVED,
  TG__SERIES_NET,      /* of a device without such reports: taken and not given back since the first event */
  TG__SERIES_INSTANTS, /* of a track */
};
struct tg__series {
  enum tg__series_what what;
  uint32_t track; /* of instants theirs, else one of their process */
  uint32_t name, key;
  struct tg__memory_device device;
  uint32_t first, count; /* points */
  double least, most, sum;
};
struct tg__series_set;
/* Needs TG__COL_MARKS and TG__COL_ARGS. Free with tg__series_close; the view must outlive it. *out is NULL on
 * failure. */
enum tg_err tg__series_open(const struct tg__view *v, struct tg__series_set **out, struct tg_error *e);
void tg__series_close(struct tg__series_set *s); /* NULL is fine */
/* Series i is row view->row_count + i. */
uint32_t tg__series_count(const struct tg__series_set *s); /* 0 of NULL */
const struct tg__series *tg__series_at(const struct tg__series_set *s, uint32_t i);
/* As tg__view_tile, for such a row. */
void tg__series_tile(const struct tg__series_set *s, uint32_t row, unsigned level, int32_t tile, struct tg__out *out);

/* ---- one slice (details.c) ----------------------------------------------------------------------- */

struct tg__near {                                                                /* TG_NONE: there is none */
  uint32_t row, first_child, previous, next, previous_same_name, next_same_name; /* same name: on its track */
};
struct tg__near tg__view_near(const struct tg__view *v, uint32_t slice);
int64_t tg__view_self_ns(const struct tg__view *v, uint32_t slice, uint32_t *children);
/* The slices that have this one as their cause: the first `most` of them; returns how many there are. */
uint32_t tg__view_effects(const struct tg__view *v, uint32_t slice, uint32_t *effects, uint32_t most);
struct tg__same_name {
  uint32_t count, position; /* position: of the slice among them, by track and time, from 0 */
  int64_t total_ns;
};
struct tg__same_name tg__view_same_name(const struct tg__view *v, uint32_t slice);
uint32_t tg__view_step(const struct tg__view *v, uint32_t slice); /* in trace->steps; TG_NONE */
/* The host slice that a device slice goes back to; any other is its own. */
uint32_t tg__view_host_of(const struct tg__view *v, uint32_t slice);
/* The innermost module around it, or around what launched it; empty when none is known. */
struct tg__str tg__view_module(const struct tg__view *v, uint32_t slice);

/* Links with an end in the window and on the tracks (details.c): each a slice that has a cause. The first `most` of
 * them; returns how many there are. */
uint64_t tg__view_links(const struct tg__view *v, int64_t start_ns, int64_t end_ns, const bool *tracks,
                        uint32_t *effects, uint32_t most);

/* ---- search (search.c) --------------------------------------------------------------------------- */

enum tg__name_match { TG__MATCH_CONTAINS, TG__MATCH_EXACT, TG__MATCH_REGEX };
struct tg__search {
  struct tg__str text;
  enum tg__name_match match;
  const bool *tracks;       /* NULL = all; else one for each track of the trace */
  int64_t start_ns, end_ns; /* slices that begin in here; since the origin */
  uint32_t after;           /* TG_NONE, or a slice: only hits behind it, or before it with backwards */
  bool backwards;
  uint32_t limit;   /* of hits */
  uint32_t columns; /* of counts over start … end */
};
struct tg__found_name {
  uint32_t name, count;
  int64_t total_ns;
};
struct tg__found {          /* free with tg__found_free */
  uint64_t count, position; /* position: of the first hit among all */
  int64_t total_ns;
  struct tg__found_name *names; /* most time first */
  size_t name_count;
  uint32_t *hits; /* by time, the nearest first */
  size_t hit_count;
  uint32_t *columns;
};
enum { TG__FOUND_NAMES = 200, TG__FOUND_HITS = 1000, TG__FOUND_COLUMNS = 4096 };
/* limit and columns are at most the two above. TG_USAGE: the pattern is malformed. */
enum tg_err tg__view_search(const struct tg__view *v, const struct tg__search *s, struct tg__found *out,
                            struct tg_error *e);
void tg__found_free(struct tg__found *f);

/* ---- a selection (selection.c) ------------------------------------------------------------------- */

struct tg__selection {
  int64_t start_ns, end_ns;             /* since the origin */
  const bool *tracks;                   /* NULL = all */
  const char *by;                       /* name, class, category, shape, module, line, track, step */
  uint32_t limit;                       /* rows */
  int64_t other_start_ns, other_end_ns; /* a window to compare it with; empty = none */
};
/* Needs TG__COL_PARENT and TG__COL_ARGS, too. *out is the caller's. */
/* at_once.c. A note on what works at once in the window; false: no memory. */
bool tg__view_note_at_once(const struct tg__view *v, const struct tg__selection *s, struct tg_table *out);
enum tg_err tg__view_aggregate(const struct tg__view *v, struct tg__slice_classes *classes,
                               const struct tg__selection *s, struct tg_table **out, struct tg_error *e);

#endif
