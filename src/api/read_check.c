/* tg_check: was a trace read as it was written? A row per rank, and what is to be said in words. */
#include "ranks/ranks.h"
#include "show/show.h"
#include "tachograph/read.h"

#include <math.h>
#include <stdio.h>

struct verdict {
  int64_t read, kept, skipped, cut, bent;
  int64_t files;      /* of the folder, that were not read */
  int64_t unrecorded; /* of those skipped: never got into the file */
  struct tg__links links;
};

/* A rank as it is judged: of a trace in memory, or of a folder, its ranks read one after the other. */
struct judged {
  int64_t number; /* TG_NULL_INT: none */
  struct tg__str path;
  int64_t events_read, events_kept;
  const int64_t *loss;
  const struct tg__process *processes;
  uint32_t process_count;
};

static size_t judged_count(const struct tg_trace *t) {
  return t->folder ? t->folder->ranks.count : t->columns->rank_count;
}

static struct judged judged(const struct tg_trace *t, size_t i) {
  if (!t->folder) {
    const struct tg__rank *const r = &t->columns->ranks[i];
    return (struct judged){tg__rank_number(t->columns, (uint32_t)i),
                           tg__name(t->columns, r->path),
                           r->events_read,
                           r->events_kept,
                           r->loss,
                           r->processes,
                           r->process_count};
  }
  const struct tg__job_rank *const r = &t->folder->ranks.items[i];
  const char *const path = tg__folder_path(t->folder->files, r->file_index);
  return (struct judged){r->rank,
                         {path, (uint32_t)strlen(path)},
                         r->health.events_read,
                         r->health.events_kept,
                         r->health.loss,
                         r->health.processes,
                         r->health.process_count};
}

static void judge(const struct judged *p, struct verdict *v) {
  v->read += p->events_read;
  v->kept += p->events_kept;
  for (int k = 0; k < TG__LOSS_COUNT; k++) {
    const int64_t n = p->loss[k];
    if (tg__loss_info[k].kind == TG__LOSS_SKIPPED)
      v->skipped += n;
    else if (tg__loss_info[k].kind == TG__LOSS_FILE)
      v->files += n;
    else if (tg__loss_info[k].kind == TG__LOSS_CUT)
      v->cut += n;
    else
      v->bent += n;
    if (k == TG__LOSS_skipped_no_room || k == TG__LOSS_skipped_overwritten || k == TG__LOSS_skipped_too_deep)
      v->unrecorded += n;
  }
}

/* Of a rank of the trace, or of a folder as it was read; nothing where columns could not be loaded. */
static struct tg__links links_of(const struct tg_trace *t, size_t i) {
  if (t->folder) return t->folder->ranks.items[i].health.links;
  const bool has_all = (t->columns->loaded & TG__COL_ALL) == TG__COL_ALL;
  return has_all ? tg__links_of(t->columns, (uint32_t)i) : (struct tg__links){0};
}

static struct verdict judge_all(const struct tg_trace *t) {
  struct verdict v = {0};
  for (size_t i = 0; i < judged_count(t); i++) {
    const struct judged p = judged(t, i);
    const struct tg__links links = links_of(t, i);
    judge(&p, &v);
    v.links.device_events += links.device_events;
    v.links.with_call += links.with_call;
    v.links.with_op += links.with_op;
  }
  if (t->folder) v.files = t->columns->ranks[0].loss[TG__LOSS_skipped_file]; /* no rank's */
  return v;
}

static void put_rank(struct tg_table *out, const struct judged *p, bool is_valid) {
  struct verdict v = {0};
  judge(p, &v);
  tg__put_int(out, p->number);
  tg__put_text(out, p->path);
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
  for (size_t i = 0; i < judged_count(t); i++) {
    const struct judged p = judged(t, i);
    put_rank(out, &p, is_valid);
  }
  return out;
}

static void note_verdict(struct tg_table *out, const struct verdict *v) {
  if (v->cut)
    tg__table_note(out, "the input is cut or damaged in %lld place%s; everything readable was read", (long long)v->cut,
                   v->cut == 1 ? "" : "s");
  const int64_t damaged = v->skipped - v->unrecorded;
  if (damaged) tg__table_note(out, "%lld of %lld events damaged and skipped", (long long)damaged, (long long)v->read);
  if (v->unrecorded)
    tg__table_note(out, "%lld of %lld events did not fit into the recording", (long long)v->unrecorded,
                   (long long)v->read);
  if (v->bent)
    tg__table_note(out, "%lld event%s a value that could not be kept as written", (long long)v->bent,
                   v->bent == 1 ? " has" : "s have");
  if (!v->cut && !v->skipped && !v->bent && !v->files) tg__table_note(out, "everything was read as written");
}

/* Down to a tenth, so that only all of them are 100 %. */
static double share_pct(int64_t part, int64_t all) { return floor(1000.0 * (double)part / (double)all) / 10; }

static void note_links(struct tg_table *out, const struct tg__links *l) {
  if (l->with_call < l->device_events)
    tg__table_note(out, "%lld of %lld device events are linked to the call that launched them (%.1f %%)",
                   (long long)l->with_call, (long long)l->device_events, share_pct(l->with_call, l->device_events));
  if (l->with_op < l->with_call)
    tg__table_note(out, "%lld of %lld linked device events are linked to an operator (%.1f %%)", (long long)l->with_op,
                   (long long)l->with_call, share_pct(l->with_op, l->with_call));
}

static void note_files(struct tg_table *out, const struct tg__columns *t, int64_t files) {
  enum { MOST = 10 };
  uint32_t shown = 0;
  for (; shown < t->skipped_count && shown < MOST; shown++)
    tg__table_note(out, "not read: %.300s", t->skipped[shown].why);
  if (files > shown)
    tg__table_note(out, shown ? "and %lld more not read" : "%lld beside the others not read",
                   (long long)(files - shown));
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
    tg__table_note(out,
                   "process %lu%s: never closed: it was killed, left without cleaning up, or is still running; what it "
                   "had recorded is here",
                   (unsigned long)p->pid, rank);
  }
}

static void note_processes(struct tg_table *out, const struct tg_trace *t) {
  enum { MOST = 20 };
  uint32_t shown = 0, left = 0;
  for (size_t r = 0; r < judged_count(t); r++) {
    const struct judged p = judged(t, r);
    for (uint32_t i = 0; i < p.process_count; i++) {
      if (shown++ < MOST) {
        note_process(out, &p.processes[i]);
      } else {
        left++;
      }
    }
  }
  if (left) tg__table_note(out, "and %lu more processes", (unsigned long)left);
}

/* The losses of the whole trace, as every answer has them; of a folder they are known from its reading. */
static enum tg_err add_losses(struct tg_trace *t, struct tg__first_question *first, struct tg_table *out,
                              struct tg_error *e) {
  if (!first->table && first->err) return tg__fail(e, first->err, first->error.offset, "%s", first->error.text);
  const enum tg_err err = first->table ? TG_OK : tg_ask(t, tg__question_name(TG__Q_losses), NULL, 0, &first->table, e);
  if (err) return err;
  struct tg_table *const losses = first->table;
  out->losses = losses->losses;
  out->loss_count = losses->loss_count;
  losses->losses = NULL;
  losses->loss_count = 0;
  return TG_OK;
}

/* The table of all results; NULL on no memory. */
static struct tg_table *describe(const struct tg_trace *trace, const struct verdict *v, const struct tg_error *defect) {
  struct tg_table *const t = make_table(trace, !defect->code);
  if (!t) return NULL;
  note_verdict(t, v);
  note_links(t, &v->links);
  note_files(t, trace->columns, v->files);
  note_processes(t, trace);
  tg__table_note_duplicate_ranks(t, trace->columns, "", TG_NULL_INT);
  if (defect->code)
    tg__table_note(t, "an invariant of the trace does not hold, a defect of this program: %s", defect->text);
  return t;
}

static enum tg_verdict verdict_of(const struct verdict *v, const struct tg_error *defect) {
  if (defect->code) return TG_CHECK_INVALID;
  return v->cut || v->skipped || v->bent || v->files ? TG_CHECK_DAMAGED : TG_CHECK_INTACT;
}

enum tg_err tg_check(const char *path, const struct tg_open_options *options, enum tg_verdict *verdict,
                     struct tg_table **out, struct tg_error *error) {
  struct tg_error defect = {0};
  struct tg_trace *trace = NULL;
  struct tg__first_question first = {
      .call = {.question = tg__catalog_question(&tg__catalog, TG__Q_losses)}, .most = SIZE_MAX, .checks = true};
  *out = NULL;
  enum tg_err err = tg__open_asking(path, options, &first, &trace, error);
  if (err) return err;
  if (trace->folder)
    defect = trace->folder->ranks.defect;
  else
    tg_trace_is_valid(trace, &defect);
  const struct verdict v = judge_all(trace);
  *out = describe(trace, &v, &defect);
  err = *out && !(*out)->failed ? add_losses(trace, &first, *out, error) : tg__no_memory(error, "checking a trace");
  if (err) {
    tg__table_free(*out);
    *out = NULL;
  }
  *verdict = verdict_of(&v, &defect);
  tg__table_free(first.table);
  tg_close(trace);
  return err;
}
