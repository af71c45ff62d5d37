/* torch_log: the log that torch writes where TORCH_TRACE names a folder, read as the text of a Chrome trace. */
#ifndef TG_TORCH_LOG_H
#define TG_TORCH_LOG_H

#include "trace/import.h"

struct tg__torch_log;
bool tg__looks_like_torch_log(const char *head, size_t len); /* of the first bytes, 16 or more */
/* source and ctx: the log's bytes. NULL on no memory. */
struct tg__torch_log *tg__torch_log_new(tg__source_fn *source, void *ctx);
void tg__torch_log_free(struct tg__torch_log *log);
int64_t tg__torch_log_read(void *log, void *buf, size_t len, struct tg_error *e); /* a tg__source_fn */

#endif
