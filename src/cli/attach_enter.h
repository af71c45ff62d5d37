/* attach_enter: the way into a program that runs already, which `attach` and `watch` share. */
#ifndef TG_CLI_ATTACH_ENTER_H
#define TG_CLI_ATTACH_ENTER_H

#include "attach/attach.h"
#include "cli/run_recording.h"

/* Modules of python/tachograph/_launch that work in the program. */
#define TG__ATTACH_RECORDS "attached"
#define TG__ATTACH_WATCHES "watched"

/* The process of the first operand, and the Python that has our package. -1 to go on, else the exit status. */
int tg__attach_choose(struct tg__cli_recording *r, struct tg__target *t);
/* From now on Ctrl-C ends what is waited for. */
void tg__attach_heed_signals(void);
bool tg__attach_is_stopped(void);
/* r->folder is there. Until a module works in the process; on an error the folder is gone, and the process goes on as
 * before. */
enum tg_err tg__attach_begin(struct tg__cli_recording *r, struct tg__target *t, const char *module, struct tg_error *e);
/* The last whole line of the log of the process, "" before the first. false: there is no log. */
bool tg__attach_last_line(const struct tg__cli_recording *r, char *line, size_t size);
void tg__attach_request_stop(const struct tg__cli_recording *r);
void tg__attach_remove_helpers(const struct tg__cli_recording *r);
void tg__attach_nap(void); /* between two looks */

#endif
