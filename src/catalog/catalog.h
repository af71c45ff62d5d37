/* catalog: the composition root of questions. The functions that answer know neither the list nor each other; the
 * caller passes the list. */
#ifndef TG_CATALOG_H
#define TG_CATALOG_H

#include "diagnose/diagnose.h"
#include "replay/replay.h"

extern const struct tg__catalog tg__catalog;
const char *tg__question_name(enum tg__question_id id);

/* What a report asks of all ranks: a folder is asked it while its ranks are in memory. */
struct tg__ready {
  const struct tg__question *question;
  const char *by; /* "": the usual one */
};
enum {
  TG__READY_COUNT = 0
#define READY(question, by) +1
#include "catalog/questions_all.def"
};
extern const struct tg__ready tg__ready[TG__READY_COUNT];

/* What the pages of the viewer ask; a page without a server holds the answers. */
struct tg__page_answer {
  const struct tg__question *question;
  struct tg_arg args[2]; /* name "": none */
};
enum {
  TG__PAGE_ANSWERS = 0
#define PAGE(...) +1
#include "catalog/questions_all.def"
};
extern const struct tg__page_answer tg__page_answers[TG__PAGE_ANSWERS];

#endif
