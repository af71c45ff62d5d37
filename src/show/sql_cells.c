/* The cells of the SQL tables: a row number and a column become a value. */
#include "show/eventrow.h"
#include "show/sql.h"

#ifdef TG_WITH_SQLITE
#include <sqlite3.h>
#include <stdlib.h>

/* ---- results --------------------------------------------------------------------------------- */

static void result_str(sqlite3_context *x, struct tg__str s) {
  sqlite3_result_text64(x, s.ptr ? s.ptr : "", s.len, SQLITE_STATIC, SQLITE_UTF8); /* text of a trace never moves */
}

static void result_text(sqlite3_context *x, const struct tg__columns *t, uint32_t string_id) {
  if (string_id != TG_NONE) result_str(x, tg__name(t, string_id));
}

static void result_cstr(sqlite3_context *x, const char *s) { sqlite3_result_text(x, s, -1, SQLITE_STATIC); }
static void result_int(sqlite3_context *x, int64_t v) { sqlite3_result_int64(x, v); }

static void result_index(sqlite3_context *x, uint32_t i) {
  if (i != TG_NONE) sqlite3_result_int64(x, i);
}

static void result_letter(sqlite3_context *x, char c) {
  if (c) sqlite3_result_text(x, &c, 1, SQLITE_TRANSIENT);
}

static void result_unless(sqlite3_context *x, int64_t v, int64_t unknown) {
  if (v != unknown) sqlite3_result_int64(x, v);
}

static void result_rank(sqlite3_context *x, const struct tg__columns *t, uint32_t rank) {
  result_unless(x, t->ranks[rank].number, -1);
}

static void result_token(sqlite3_context *x, const struct tg__columns *t, bool is_text, int64_t v) {
  if (is_text) {
    result_text(x, t, (uint32_t)v);
  } else {
    result_int(x, v);
  }
}

void tg__sql_result_val(sqlite3_context *x, const struct tg__columns *t, const struct tg__val *v) {
  switch (v->kind) {
  case TG__KIND_INT:
    result_int(x, v->i);
    break;
  case TG__KIND_DEC: {
    char text[TG__NUMBER_BYTES + 1];
    *tg__buffer_decimal(text, v->i, v->decimals) = 0;
    sqlite3_result_double(x, strtod(text, NULL));
    break;
  }
  case TG__KIND_RAW: {
    int64_t i;
    if (tg__raw_int(tg__name(t, v->str), &i)) {
      result_int(x, i);
    } else {
      result_text(x, t, v->str);
    }
    break;
  }
  case TG__KIND_STR:
    result_text(x, t, v->str);
    break;
  case TG__KIND_TRUE:
    result_int(x, 1);
    break;
  case TG__KIND_FALSE:
    result_int(x, 0);
    break;
  default:
    break;
  }
}

static void result_args(sqlite3_context *x, struct tg__sql_data *d, uint32_t args) {
  if (!d->forms) d->forms = tg__forms_new(d->t);
  d->text.len = 0;
  struct tg__buffer buffer = {.out = &d->text};
  const bool any = d->forms && tg__put_args(d->forms, &buffer, args, TG_STR(""));
  tg__buffer_commit(&buffer);
  if (!d->forms || d->text.err) {
    sqlite3_result_error_nomem(x);
  } else if (any) {
    sqlite3_result_text64(x, d->text.buf, d->text.len, SQLITE_TRANSIENT, SQLITE_UTF8);
  }
}

/* Self time of all slices at once: one pass, then it is there. */
static void result_self_ns(sqlite3_context *x, struct tg__sql_data *d, uint32_t slice) {
  const struct tg__slices *s = &d->t->slices;
  if (!d->self_ns) {
    d->self_ns = tg__alloc(((size_t)s->count + 1) * sizeof *d->self_ns);
    if (!d->self_ns) {
      sqlite3_result_error_nomem(x);
      return;
    }
    memcpy(d->self_ns, s->dur_ns, (size_t)s->count * sizeof *d->self_ns);
    for (uint32_t i = 0; i < s->count; i++) {
      if (s->parent[i] != TG_NONE) d->self_ns[s->parent[i]] -= s->dur_ns[i];
    }
  }
  result_int(x, d->self_ns[slice] > 0 ? d->self_ns[slice] : 0);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static const char *class_name(enum tg__class c) {
  static const char *const names[TG__CLASS_COUNT] = {
      [TG__CLASS_OTHER] = "other",
      [TG__CLASS_OP] = "op",
      [TG__CLASS_ANNOTATION] = "annotation",
      [TG__CLASS_GPU_ANNOTATION] = "gpu_annotation",
      [TG__CLASS_KERNEL] = "kernel",
      [TG__CLASS_MEMCPY] = "memcpy",
      [TG__CLASS_MEMSET] = "memset",
      [TG__CLASS_DEVICE_OTHER] = "device_other",
      [TG__CLASS_RUNTIME] = "runtime",
      [TG__CLASS_PYTHON] = "python",
      [TG__CLASS_PYTHON_OP] = "python_op",
      [TG__CLASS_SYNC] = "sync",
      [TG__CLASS_DEVICE_MARK] = "device_mark",
      [TG__CLASS_OVERHEAD] = "overhead",
      [TG__CLASS_SPAN] = "span",
      [TG__CLASS_INSTANT] = "instant",
      [TG__CLASS_COUNTER_RANGE] = "counter_range",
      [TG__CLASS_SAMPLE] = "sample",
  };
  return names[c];
}

static void slice_cell(sqlite3_context *x, struct tg__sql_data *d, uint32_t i, int column) {
  const struct tg__columns *t = d->t;
  const struct tg__slices *s = &t->slices;
  switch (column) {
  case TG__C_slices_id:
    result_int(x, i);
    break;
  case TG__C_slices_rank:
    result_rank(x, t, t->tracks[tg__slice_track(t, i)].rank);
    break;
  case TG__C_slices_track:
    result_int(x, tg__slice_track(t, i));
    break;
  case TG__C_slices_name:
    result_text(x, t, s->name[i]);
    break;
  case TG__C_slices_category:
    result_text(x, t, t->cats[s->cat[i]].name);
    break;
  case TG__C_slices_class:
    result_cstr(x, class_name(tg__slice_class(t, i)));
    break;
  case TG__C_slices_start_ns:
    result_int(x, s->start_ns[i]);
    break;
  case TG__C_slices_dur_ns:
    result_int(x, s->dur_ns[i]);
    break;
  case TG__C_slices_end_ns:
    result_int(x, tg__slice_end(t, i));
    break;
  case TG__C_slices_self_ns:
    result_self_ns(x, d, i);
    break;
  case TG__C_slices_depth:
    result_int(x, s->depth[i]);
    break;
  case TG__C_slices_lane:
    result_int(x, s->lane[i]);
    break;
  case TG__C_slices_parent:
    result_index(x, s->parent[i]);
    break;
  case TG__C_slices_cause:
    result_index(x, s->cause[i]);
    break;
  case TG__C_slices_phase:
    result_letter(x, tg__slice_phase(t, i));
    break;
  case TG__C_slices_args:
    result_args(x, d, s->args[i]);
    break;
  default:
    break;
  }
}

static void mark_cell(sqlite3_context *x, struct tg__sql_data *d, uint32_t i, int column) {
  const struct tg__columns *t = d->t;
  const struct tg__marks *m = &t->marks;
  switch (column) {
  case TG__C_marks_id:
    result_int(x, i);
    break;
  case TG__C_marks_rank:
    result_rank(x, t, t->tracks[m->track[i]].rank);
    break;
  case TG__C_marks_track:
    result_int(x, m->track[i]);
    break;
  case TG__C_marks_name:
    result_text(x, t, m->name[i]);
    break;
  case TG__C_marks_category:
    result_text(x, t, t->cats[m->cat[i]].name);
    break;
  case TG__C_marks_phase:
    result_letter(x, (char)m->ph[i]);
    break;
  case TG__C_marks_ts_ns:
    result_unless(x, m->ts_ns[i], TG_NULL_INT);
    break;
  case TG__C_marks_args:
    result_args(x, d, m->args[i]);
    break;
  default:
    break;
  }
}

static void track_cell(sqlite3_context *x, const struct tg__columns *t, uint32_t k, int column) {
  static const char *const kinds[] = {
      [TG__TRACK_CPU] = "cpu", [TG__TRACK_DEVICE] = "device", [TG__TRACK_ASYNC] = "async", [TG__TRACK_OTHER] = "other"};
  const struct tg__track *track = &t->tracks[k];
  switch (column) {
  case TG__C_tracks_track:
    result_int(x, k);
    break;
  case TG__C_tracks_rank:
    result_rank(x, t, track->rank);
    break;
  case TG__C_tracks_kind:
    result_cstr(x, kinds[track->kind]);
    break;
  case TG__C_tracks_pid:
    result_token(x, t, track->pid_is_text, track->pid);
    break;
  case TG__C_tracks_tid:
    result_token(x, t, track->tid_is_text, track->tid);
    break;
  case TG__C_tracks_process:
    result_text(x, t, track->process_name);
    break;
  case TG__C_tracks_name:
    result_text(x, t, track->name);
    break;
  case TG__C_tracks_device:
    if (track->kind == TG__TRACK_DEVICE) result_int(x, track->device);
    break;
  case TG__C_tracks_stream:
    if (track->kind == TG__TRACK_DEVICE) result_int(x, track->stream);
    break;
  case TG__C_tracks_slices:
    result_int(x, track->count);
    break;
  case TG__C_tracks_lanes:
    result_int(x, track->lanes);
    break;
  default:
    break;
  }
}

static void rank_cell(sqlite3_context *x, const struct tg__columns *t, uint32_t r, int column) {
  const struct tg__rank *rank = &t->ranks[r];
  switch (column) {
  case TG__C_ranks_rank:
    result_rank(x, t, r);
    break;
  case TG__C_ranks_path:
    result_text(x, t, rank->path);
    break;
  case TG__C_ranks_world_size:
    result_unless(x, rank->world_size, -1);
    break;
  case TG__C_ranks_base_ns:
    result_int(x, rank->base_ns);
    break;
  case TG__C_ranks_clock_offset_ns:
    result_int(x, rank->clock_offset_ns);
    break;
  case TG__C_ranks_json_bytes:
    result_int(x, rank->json_bytes);
    break;
  case TG__C_ranks_events_read:
    result_int(x, rank->events_read);
    break;
  case TG__C_ranks_events_kept:
    result_int(x, rank->events_kept);
    break;
  default:
    break;
  }
}

static void step_cell(sqlite3_context *x, const struct tg__columns *t, uint32_t i, int column) {
  const struct tg__step *step = &t->steps[i];
  switch (column) {
  case TG__C_steps_rank:
    result_rank(x, t, step->rank);
    break;
  case TG__C_steps_step:
    result_int(x, step->number);
    break;
  case TG__C_steps_name:
    result_text(x, t, step->name);
    break;
  case TG__C_steps_start_ns:
    result_int(x, step->start_ns);
    break;
  case TG__C_steps_end_ns:
    result_int(x, step->end_ns);
    break;
  case TG__C_steps_slice:
    result_index(x, step->slice);
    break;
  default:
    break;
  }
}

/* Row = rank × kind of loss; those that did not happen are passed over. */
static void loss_cell(sqlite3_context *x, const struct tg__columns *t, uint64_t row, int column) {
  static const char *const kinds[] = {
      [TG__LOSS_SKIPPED] = "skipped", [TG__LOSS_FILE] = "file", [TG__LOSS_CUT] = "cut", [TG__LOSS_BENT] = "bent"};
  const uint32_t rank = (uint32_t)(row / TG__LOSS_COUNT), what = (uint32_t)(row % TG__LOSS_COUNT);
  const struct tg__loss_info *info = &tg__loss_info[what];
  switch (column) {
  case TG__C_losses_rank:
    result_rank(x, t, rank);
    break;
  case TG__C_losses_loss:
    result_cstr(x, info->name);
    break;
  case TG__C_losses_kind:
    result_cstr(x, kinds[info->kind]);
    break;
  case TG__C_losses_count:
    result_int(x, t->ranks[rank].loss[what]);
    break;
  case TG__C_losses_offset:
    result_unless(x, t->ranks[rank].loss_offset[what], -1);
    break;
  case TG__C_losses_meaning:
    result_cstr(x, info->meaning);
    break;
  default:
    break;
  }
}

/* ---- the interface --------------------------------------------------------------------------- */

void tg__sql_cell(sqlite3_context *x, struct tg__sql_data *d, enum tg__sql_table table, uint64_t row, int column) {
  switch (table) {
  case TG__T_slices:
    slice_cell(x, d, (uint32_t)row, column);
    break;
  case TG__T_marks:
    mark_cell(x, d, (uint32_t)row, column);
    break;
  case TG__T_tracks:
    track_cell(x, d->t, (uint32_t)row, column);
    break;
  case TG__T_ranks:
    rank_cell(x, d->t, (uint32_t)row, column);
    break;
  case TG__T_steps:
    step_cell(x, d->t, (uint32_t)row, column);
    break;
  case TG__T_losses:
    loss_cell(x, d->t, row, column);
    break;
  case TG__T_strings:
    if (column == TG__C_strings_id) {
      result_int(x, (int64_t)row);
    } else {
      result_text(x, d->t, (uint32_t)row);
    }
    break;
  default:
    break; /* args and mark_args: their rows are values, see tg__sql_arg_cell */
  }
}

void tg__sql_arg_cell(sqlite3_context *x, const struct tg__args_iter *it, int64_t owner, int nth) {
  switch (nth) {
  case 0:
    result_int(x, owner);
    break;
  case 1:
    result_text(x, it->t, it->field->key);
    break;
  default:
    tg__sql_result_val(x, it->t, &it->val);
    break;
  }
}

#endif
