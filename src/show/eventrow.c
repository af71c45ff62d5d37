/* One event as a row: the columns of the question "events", then what identifies its track, then its args. */
#include "show/eventrow.h"

/* id counts slices, or marks where dur_ns is unknown. */
const struct tg__event_column tg__event_columns[TG__EVENT_COLUMNS] = {
    {"id", "int", ""},         {"rank", "int", ""},      {"track", "int", ""}, {"pid", "text", ""},
    {"tid", "text", ""},       {"category", "text", ""}, {"name", "text", ""}, {"phase", "text", ""},
    {"start_ns", "int", "ns"}, {"dur_ns", "int", "ns"},  {"depth", "int", ""}, {"parent", "int", ""},
    {"cause", "int", ""},      {"args", "json", ""},
};

static struct tg__event_cell none(void) { return (struct tg__event_cell){.kind = TG__CELL_NONE}; }
static struct tg__event_cell number(int64_t v) { return (struct tg__event_cell){.kind = TG__CELL_INT, .number = v}; }
static struct tg__event_cell string(uint32_t id) {
  return id == TG_NONE ? none() : (struct tg__event_cell){.kind = TG__CELL_STRING, .string = id};
}
static struct tg__event_cell letter(char c) {
  return c ? (struct tg__event_cell){.kind = TG__CELL_LETTER, .letter = c} : none();
}
static struct tg__event_cell index_or_none(uint32_t i) { return i == TG_NONE ? none() : number(i); }
static struct tg__event_cell token(bool is_text, int64_t v) { return is_text ? string((uint32_t)v) : number(v); }

char tg__slice_phase(const struct tg__columns *t, uint32_t slice) {
  const uint8_t flags = t->slices.flags[slice];
  return flags & TG__F_LEGACY ? 'S' : flags & TG__F_ASYNC ? 'b' : flags & TG__F_BEGIN_END ? 'B' : 'X';
}

void tg__event_row(const struct tg__columns *t, struct tg__event event,
                   struct tg__event_cell cells[TG__EVENT_COLUMNS]) {
  const bool m = event.is_mark;
  const uint32_t i = event.id;
  const uint32_t k = m ? t->marks.track[i] : tg__slice_track(t, i);
  const struct tg__track *const track = &t->tracks[k];
  const int64_t start = m ? t->marks.ts_ns[i] : t->slices.start_ns[i];
  const uint16_t cat = m ? t->marks.cat[i] : t->slices.cat[i];
  size_t c = 0;
  cells[c++] = number(i);
  cells[c++] = number(t->ranks[track->rank].number);
  cells[c++] = number(k);
  cells[c++] = token(track->pid_is_text, track->pid);
  cells[c++] = token(track->tid_is_text, track->tid);
  cells[c++] = string(t->cats[cat].name);
  cells[c++] = string(m ? t->marks.name[i] : t->slices.name[i]);
  cells[c++] = letter(m ? (char)t->marks.ph[i] : tg__slice_phase(t, i));
  cells[c++] = start == TG_NULL_INT ? none() : number(start);
  cells[c++] = m ? none() : number(t->slices.dur_ns[i]);
  cells[c++] = m ? none() : number(t->slices.depth[i]);
  cells[c++] = m ? none() : index_or_none(t->slices.parent[i]);
  cells[c++] = m ? none() : index_or_none(t->slices.cause[i]);
  cells[c] = (struct tg__event_cell){.kind = TG__CELL_ARGS, .string = m ? t->marks.args[i] : t->slices.args[i]};
}
