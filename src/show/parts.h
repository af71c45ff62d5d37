/* show, private: what its writers share. */
#ifndef TG_SHOW_PARTS_H
#define TG_SHOW_PARTS_H

#include <stdio.h>

#include "analyze/analyze.h"
#include "ranks/ranks.h"
#include "show/show.h"

/* ---- formats.c ------------------------------------------------------------------------------- */

#define FORMAT(name, suffix, tables, traces, reports, meaning)                                                         \
  tables(TABLE, name) traces(TRACE, name) reports(REPORT, name)
#define YES(kind, name) kind(name)
#define NO(kind, name)
#define TABLE(name)                                                                                                    \
  enum tg_err tg__##name##_table(const struct tg_table *t, const struct tg__show_options *o, struct tg__out *out);
#define TRACE(name)                                                                                                    \
  enum tg_err tg__##name##_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,         \
                                 struct tg_error *e);
#define REPORT(name)                                                                                                   \
  enum tg_err tg__##name##_report(struct tg_trace *t, const struct tg__show_options *o, struct tg__out *out,           \
                                  struct tg_error *e);
#include "show/formats.def"
#undef YES
#undef NO
#undef TABLE
#undef TRACE
#undef REPORT

const char *tg__show_arg(const struct tg__show_options *o, const char *name); /* NULL when not given */
/* What every trace writer begins with: the columns it needs, and the events that rank= and step= leave.
 * tg__ask_end(selection) after use, after a failure too. */
enum tg_err tg__show_begin(struct tg__columns *t, const struct tg__show_options *o, uint32_t columns,
                           struct tg__ask *selection, struct tg_error *e);
/* Marks count by their own time; metadata, which has none, always. Slices: tg__ask_has_slice. */
bool tg__show_has_mark(const struct tg__ask *selection, const struct tg__columns *t, uint32_t mark);
enum tg_err tg__show_end(struct tg__out *out, struct tg_error *e); /* flush, and turn the output's error into ours */

/* ---- rawjson.c: text that must become valid JSON --------------------------------------------- */

/* The escaped body of a string, without quotes, valid UTF-8 whatever the bytes: what is not UTF-8 becomes U+FFFD, a
 * surrogate half its \u escape. */
void tg__json_body(struct tg__out *o, struct tg__str s);
/* JSON text as it stood in a trace. Text in it that is not JSON (NaN, N/A, -1.-5, raw control characters) becomes a
 * string of the same characters, so the result is always one valid JSON value. */
void tg__json_value(struct tg__out *o, struct tg__str raw);
void tg__put_utf8(struct tg__out *o, struct tg__str s); /* the bytes, with U+FFFD for what is not UTF-8 */
/* A number the reader kept as text for its length, if it fits after all. */
bool tg__raw_int(struct tg__str raw, int64_t *out);
bool tg__json_is_valid(struct tg__str raw); /* one JSON value, nested at most 512 deep, valid UTF-8 */

/* ---- fit.c: text on a terminal --------------------------------------------------------------- */

unsigned tg__text_width(struct tg__str s);                 /* in columns */
void tg__put_clean(struct tg__out *out, struct tg__str s); /* without what a terminal would obey */
/* The middle is cut; returns the columns used. */
unsigned tg__put_fitted(struct tg__out *out, struct tg__str s, unsigned width);
void tg__put_blanks(struct tg__out *out, unsigned n);
/* Broken at blanks into lines of `width`, all but the first indented; the last allowed one is cut. Ends with a line
 * break; the number of lines. */
unsigned tg__put_wrapped(struct tg__out *out, struct tg__str s, unsigned indent, unsigned width, unsigned most_lines);

/* ---- text.c: cells as people read them ------------------------------------------------------- */

enum { TG__CELL_BYTES = 64 }; /* room for a number and its unit */
bool tg__cell_is_known(const struct tg__column *c, size_t row);
/* "12.3 ms", "-" where it is unknown. Numbers are written to buf, which has TG__CELL_BYTES. */
struct tg__str tg__cell_text(const struct tg_table *t, const struct tg__column *c, size_t row, char *buf);

/* ---- md.c: text in Markdown ------------------------------------------------------------------ */

/* A sentence: what Markdown would take for more than text is escaped. */
void tg__put_md(struct tg__out *out, struct tg__str s);
/* A name in a code span that may stand in a table; what would end either is replaced, what is beyond `most` bytes
 * cut. */
void tg__put_md_code(struct tg__out *out, struct tg__str s, size_t most);

/* ---- walk.c: all events in the order of their file ------------------------------------------- */

struct tg__event {
  bool is_mark;
  uint32_t id; /* slice or mark number */
};
/* The selected slices and marks, rank after rank in file order. NULL on no memory; free with tg__free. */
struct tg__event *tg__walk_new(const struct tg__columns *t, const struct tg__ask *selection, uint32_t *count);

#endif
