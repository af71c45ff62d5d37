/* show, private: the steps with a change in them in place of the recorded ones (chrome_predicted.c). */
#ifndef TG_SHOW_CHROME_PREDICTED_H
#define TG_SHOW_CHROME_PREDICTED_H

#include "show/buffer.h"
#include "show/chrome_track.h"

struct tg__predicted {
  const struct tg__columns *t;
  int64_t *start_ns, *dur_ns; /* by slice; start TG_NULL_INT: it is not written */
  int64_t *mark_ns;           /* by mark; TG_NULL_INT: not written, unless it has no time */
  struct tg_table *table;     /* steps that are no slices are rows of it */
  struct tg__out change;      /* in words, without quotes and with the escapes of JSON */
};
/* Asks the question what_if with what the options say. *out stays NULL when they do not say predicted=; TG_NO_DATA
 * where there is no prediction. */
enum tg_err tg__predicted_new(struct tg__columns *t, const struct tg__show_options *o, struct tg__predicted **out,
                              struct tg_error *e);
void tg__predicted_free(struct tg__predicted *p); /* NULL is fine */
uint32_t tg__predicted_filter(const struct tg__predicted *p, struct tg__event *events, uint32_t count);
/* The steps that are no slices and the label of the process, each with a comma in front. */
void tg__predicted_events(const struct tg__predicted *p, struct tg__chrome_tracks *tracks, struct tg__out *out);
/* The member of the document, with a comma in front; and which members of the recording do not hold. */
void tg__predicted_member(const struct tg__predicted *p, struct tg__out *out);
bool tg__predicted_replaces(const struct tg__columns *t, uint32_t key);

#endif
