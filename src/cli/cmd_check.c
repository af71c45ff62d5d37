/* tachograph check: is this file sane? */
#include "cli/cli.h"

#include <stdio.h>

struct verdict {
  bool is_valid;
  int64_t read, kept, skipped, cut, bent;
  int64_t files;      /* of the folder, that were not read */
  int64_t unrecorded; /* of those skipped: never got into the file */
};

static struct verdict judge(const struct tg_trace *t, uint32_t first, uint32_t last) {
  struct verdict v = {.is_valid = true};
  for (uint32_t r = first; r < last; r++) {
    v.read += t->ranks[r].events_read;
    v.kept += t->ranks[r].events_kept;
    for (int k = 0; k < TG__LOSS_COUNT; k++) {
      const int64_t n = t->ranks[r].loss[k];
      if (tg__loss_info[k].kind == TG__LOSS_SKIPPED) v.skipped += n;
      else if (tg__loss_info[k].kind == TG__LOSS_FILE) v.files += n;
      else if (tg__loss_info[k].kind == TG__LOSS_CUT) v.cut += n;
      else v.bent += n;
      if (k == TG__LOSS_skipped_no_room || k == TG__LOSS_skipped_overwritten || k == TG__LOSS_skipped_too_deep) v.unrecorded += n;
    }
  }
  return v;
}

static void put_rank(struct tg_table *out, const struct tg_trace *t, uint32_t r, bool is_valid) {
  const struct verdict v = judge(t, r, r + 1);
  tg__put_rank(out, t, r);
  tg__put_text(out, tg__name(t, t->ranks[r].path));
  tg__put_int(out, v.read);
  tg__put_int(out, v.kept);
  tg__put_int(out, v.skipped);
  tg__put_int(out, v.cut);
  tg__put_int(out, v.bent);
  tg__put_bool(out, is_valid);
}

static struct tg_table *make_table(const struct tg_trace *t, bool is_valid) {
  struct tg_table *out = tg__table_new("check");
  if (!out) return NULL;
  tg__table_add_column(out, "rank", TG_INT, "");
  tg__table_add_column(out, "file", TG_TEXT, "");
  tg__table_add_column(out, "events_read", TG_INT, "");
  tg__table_add_column(out, "events_kept", TG_INT, "");
  tg__table_add_column(out, "skipped", TG_INT, "");
  tg__table_add_column(out, "cut", TG_INT, "");
  tg__table_add_column(out, "bent", TG_INT, "");
  tg__table_add_column(out, "valid", TG_BOOL, "");
  for (uint32_t r = 0; r < t->rank_count; r++) put_rank(out, t, r, is_valid);
  return out;
}

static void note_verdict(struct tg_table *out, const struct verdict *v) {
  if (v->cut) tg__table_note(out, "the input is cut or damaged in %lld place%s; what could be read was", (long long)v->cut, v->cut == 1 ? "" : "s");
  const int64_t damaged = v->skipped - v->unrecorded;
  if (damaged) tg__table_note(out, "%lld of %lld events are damaged and were skipped", (long long)damaged, (long long)v->read);
  if (v->unrecorded) tg__table_note(out, "%lld of %lld events had no place in the recording", (long long)v->unrecorded, (long long)v->read);
  if (v->bent) tg__table_note(out, "%lld events have a value that could not be kept as written", (long long)v->bent);
  if (!v->cut && !v->skipped && !v->bent && !v->files) tg__table_note(out, "everything was read as written");
}

static void note_files(struct tg_table *out, const struct tg_trace *t, int64_t files) {
  enum { MOST = 10 };
  uint32_t shown = 0;
  for (; shown < t->skipped_count && shown < MOST; shown++) tg__table_note(out, "not read: %.300s", t->skipped[shown].why);
  if (files > shown) tg__table_note(out, shown ? "and %lld more files were not read" : "%lld files beside the others were not read", (long long)(files - shown));
}

/* How the recording of a process ended, and what it could not keep. */
static void note_process(struct tg_table *out, const struct tg__process *p) {
  char rank[32] = "", records[32], lost[48] = "none lost", span[32];
  if (p->rank >= 0) snprintf(rank, sizeof rank, " (rank %ld)", (long)p->rank);
  if (p->lost) snprintf(lost, sizeof lost, "%lld lost", (long long)p->lost);
  tg__human_count(p->records, records);
  if (p->stop_ns) {
    tg__table_note(out, "process %lu%s: stopped after %s, %s records, %s", (unsigned long)p->pid, rank,
                   tg__human_ns(p->stop_ns - p->start_ns, span), records, lost);
  } else {
    tg__table_note(out, "process %lu%s: never closed: it was killed, left without cleaning up, or is still running; what it had recorded is here",
                   (unsigned long)p->pid, rank);
  }
}

static void note_processes(struct tg_table *out, const struct tg_trace *t) {
  enum { MOST = 20 };
  uint32_t shown = 0, left = 0;
  for (uint32_t r = 0; r < t->rank_count; r++) {
    for (uint32_t i = 0; i < t->ranks[r].process_count; i++) {
      if (shown++ < MOST) {
        note_process(out, &t->ranks[r].processes[i]);
      } else {
        left++;
      }
    }
  }
  if (left) tg__table_note(out, "and %lu more processes", (unsigned long)left);
}

/* The losses of the whole trace, as every answer carries them. */
static enum tg_err add_losses(struct tg_trace *t, struct tg_table *out, struct tg_error *e) {
  struct tg_table *losses = NULL;
  const enum tg_err err = tg_ask(t, "losses", NULL, 0, &losses, e);
  if (err) return err;
  out->losses = losses->losses;
  out->loss_count = losses->loss_count;
  losses->losses = NULL;
  losses->loss_count = 0;
  tg_table_free(losses);
  return TG_OK;
}

int tg__cmd_check(struct tg__cli *c) {
  if (!tg__cli_needs(c, 1)) return TG__EXIT_USAGE;
  struct tg_error e = {.code = TG_MEMORY, .offset = -1, .text = "out of memory"};
  struct tg_trace *trace = NULL;
  if (tg__cli_open(c, c->operands[0], &trace, &e)) return tg__cli_failed(c, &e, NULL);
  struct tg_error defect = {0};
  const bool is_valid = tg_trace_is_valid(trace, &defect);
  const struct verdict v = judge(trace, 0, trace->rank_count);
  struct tg_table *t = make_table(trace, is_valid);
  if (t) note_verdict(t, &v);
  if (t) note_files(t, trace, v.files);
  if (t) note_processes(t, trace);
  if (t && !is_valid) tg__table_note(t, "an invariant of the trace does not hold, a defect of this program: %s", defect.text);
  int status;
  if (!t || t->failed || add_losses(trace, t, &e)) status = tg__cli_failed(c, &e, NULL);
  else status = tg__cli_table(c, t, 0);
  if (status == TG__EXIT_OK && !is_valid) status = tg_err_status(TG_INTERNAL);
  if (status == TG__EXIT_OK && (v.cut || v.skipped || v.bent || v.files)) status = TG__EXIT_THRESHOLD;
  tg_table_free(t);
  tg_close(trace);
  return status;
}
