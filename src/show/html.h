/* html: the page of tachograph view as one file that needs no server and no network: the modules of web/, the answers
 * that its pages show, and the slices of the timeline. Private to the folder. */
#ifndef TG_HTML_H
#define TG_HTML_H

#include "show/parts.h"
#include "view/view.h"

/* html_data.c. The data of the trace for the page, as web/model/offline.js reads it. */

/* Steps or ranks chosen by arguments, and the slices that fit the limit. */
struct tg__html_part {
  const struct tg__view *view;
  const struct tg__series_set *series; /* counters and instants */
  const struct tg__ask *selection;
  int64_t end_ns; /* slices that start at or behind this time since the origin are left out; INT64_MAX: none */
};
/* The JSON object of #tg-meta. note: the sentence about what is left out; NULL: nothing is. */
void tg__html_meta(const struct tg__html_part *p, struct tg__columns *t, const char *note, struct tg__out *out);
/* The byte strings of #tg-slices; returns how many slices they hold. */
uint32_t tg__html_slices(const struct tg__html_part *p, struct tg__out *out);
/* #tg-series: counters and instants of the whole trace in 2048 to 4096 columns, as a reply to the call tiles. */
void tg__html_series(const struct tg__html_part *p, struct tg__out *out);
/* How many slices of the row tg__html_slices takes. */
uint32_t tg__html_count_row(const struct tg__html_part *p, uint32_t row);

#endif
