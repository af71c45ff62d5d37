/* call_queue: calls on their way to the threads that answer them, and their replies on the way back. */
#ifndef TG_CALL_QUEUE_H
#define TG_CALL_QUEUE_H

#include "serve/host.h"

struct tg__job {
  struct tg__job *next;
  uint64_t client; /* whom the reply is for */
  struct tg__message message;
  struct tg__reply reply;
};
struct tg__queue { /* all under host->lock */
  struct tg__host *host;
  struct tg__job *waiting[TG__LANES], *running[TG__LANES], *done;
  void (*ready)(void *ctx); /* a reply is there; from any thread, without the lock */
  void *ctx;
};
/* Takes the job over. */
void tg__queue_put(struct tg__queue *q, struct tg__job *job);
/* Answers the calls of one lane until the host is stopping. */
void tg__queue_work(struct tg__queue *q, enum tg__lane lane);
struct tg__job *tg__queue_take(struct tg__queue *q); /* all replies so far, in no order; the caller's */
/* A call of this client: one that no thread has begun replies with `cancelled` at once, one that is being answered as
 * soon as it can be stopped. */
void tg__queue_cancel(struct tg__queue *q, uint64_t client, uint32_t id);
void tg__queue_forget(struct tg__queue *q, uint64_t client); /* it is gone */
void tg__job_free(struct tg__job *job);
/* Each call waits in its lane, is being answered or has its reply, once; with the lock; asserted where one moves. */
bool tg__queue_is_valid(const struct tg__queue *q, struct tg_error *e);
void tg__queue_close(struct tg__queue *q);

#endif
