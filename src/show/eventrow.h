/* show, private: one event as a row of cells, for the formats that list events (eventrow.c). */
#ifndef TG_SHOW_EVENTROW_H
#define TG_SHOW_EVENTROW_H

#include "show/parts.h"

enum { TG__EVENT_COLUMNS = 14 };
struct tg__event_column {
  const char *name, *type, *unit;
};
extern const struct tg__event_column tg__event_columns[TG__EVENT_COLUMNS];

enum tg__cell_kind { TG__CELL_NONE, TG__CELL_INT, TG__CELL_STRING, TG__CELL_LETTER, TG__CELL_ARGS };
struct tg__event_cell {
  enum tg__cell_kind kind;
  char letter;
  uint32_t string; /* string id; for CELL_ARGS the reference */
  int64_t number;
};
void tg__event_row(const struct tg__columns *t, struct tg__event event, struct tg__event_cell cells[TG__EVENT_COLUMNS]);
char tg__slice_phase(const struct tg__columns *t, uint32_t slice); /* X, B, b or S */

#endif
