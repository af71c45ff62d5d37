/* tracks: the question tracks. */
#include "analyze/analyze.h"

#include <inttypes.h>
#include <stdio.h>

static void put_track_token(struct tg_table *out, const struct tg__columns *t, bool is_text, int64_t token) {
  if (is_text) {
    tg__put_trace_text(out, t, (uint32_t)token);
    return;
  }
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, token);
  tg__put_cstr(out, text);
}

/* Start of the first slice, end of the last, and the union of all; spans is working memory. */
static void put_times(struct tg_table *out, const struct tg__columns *t, const struct tg__track *track,
                      struct tg__spans *spans) {
  bool is_asked = false;
  for (size_t c = out->cell; c < out->column_count; c++) is_asked |= !out->columns[c].is_left_out;
  if (track->count == 0 || !is_asked) {
    tg__put_null(out);
    tg__put_null(out);
    tg__put_int(out, 0);
    return;
  }
  int64_t last = INT64_MIN;
  spans->count = 0;
  TG__EACH (i, tg__slices_of(track)) {
    const int64_t end = tg__slice_end(t, i);
    tg__spans_add(spans, t->slices.start_ns[i], end);
    if (end > last) last = end;
  }
  tg__spans_union(spans);
  tg__put_int(out, t->slices.start_ns[track->first]);
  tg__put_int(out, last);
  tg__put_int(out, tg__spans_length(spans));
}

enum tg_err tg__answer_tracks(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                              struct tg_error *e) {
  static const char *const kinds[] = {
      [TG__TRACK_CPU] = "cpu", [TG__TRACK_DEVICE] = "device", [TG__TRACK_ASYNC] = "async", [TG__TRACK_OTHER] = "other"};
  struct tg__spans spans = {0};
  (void)e;
  for (uint32_t k = 0; k < t->track_count; k++) {
    const struct tg__track *track = &t->tracks[k];
    if (!tg__ask_has_rank(a, track->rank)) continue;
    tg__put_int(out, k);
    tg__put_rank(out, t, track->rank);
    tg__put_cstr(out, kinds[track->kind]);
    put_track_token(out, t, track->pid_is_text, track->pid);
    put_track_token(out, t, track->tid_is_text, track->tid);
    tg__put_trace_text(out, t, track->process_name);
    tg__put_trace_text(out, t, track->name);
    tg__put_int(out, track->count);
    tg__put_int(out, track->lanes);
    put_times(out, t, track, &spans);
  }
  out->failed |= spans.failed;
  tg__spans_free(&spans);
  return TG_OK;
}
