/* call_queue: one list of calls a thread, in order; a call about a trace that is being read waits without holding up
 * the others. */
#include "serve/call_queue.h"

void tg__job_free(struct tg__job *job) {
  tg__message_free(&job->message);
  tg__out_free(&job->reply.out);
  tg__free(job);
}

static void jobs_free(struct tg__job *first) {
  for (struct tg__job *job = first, *next; job; job = next) {
    next = job->next;
    tg__job_free(job);
  }
}

void tg__queue_close(struct tg__queue *q) {
  for (int lane = 0; lane < TG__LANES; lane++) jobs_free(q->waiting[lane]);
  jobs_free(q->done);
  *q = (struct tg__queue){0};
}

void tg__queue_put(struct tg__queue *q, struct tg__job *job) {
  tg__lock_take(q->host->lock);
  struct tg__job **last = &q->waiting[job->message.kind->lane];
  while (*last) last = &(*last)->next;
  job->next = NULL;
  *last = job;
  tg__lock_wake(q->host->lock);
  tg__lock_drop(q->host->lock);
}

/* The first that can be answered; NULL: none. */
static struct tg__job *take_due(struct tg__queue *q, enum tg__lane lane) {
  for (struct tg__job **at = &q->waiting[lane]; *at; at = &(*at)->next)
    if (tg__message_is_due(q->host, &(*at)->message)) {
      struct tg__job *const job = *at;
      *at = job->next;
      return job;
    }
  return NULL;
}

void tg__queue_work(struct tg__queue *q, enum tg__lane lane) {
  tg__lock_take(q->host->lock);
  while (!q->host->is_stopping) {
    struct tg__job *const job = take_due(q, lane);
    if (!job) {
      tg__lock_wait(q->host->lock);
      continue;
    }
    q->running[lane] = job;
    tg__lock_drop(q->host->lock);
    tg__message_answer(q->host, &job->message, &job->reply);
    tg__lock_take(q->host->lock);
    q->running[lane] = NULL;
    job->next = q->done;
    q->done = job;
    tg__lock_drop(q->host->lock);
    q->ready(q->ctx);
    tg__lock_take(q->host->lock);
  }
  tg__lock_drop(q->host->lock);
}

struct tg__job *tg__queue_take(struct tg__queue *q) {
  tg__lock_take(q->host->lock);
  struct tg__job *const done = q->done;
  q->done = NULL;
  tg__lock_drop(q->host->lock);
  return done;
}

static bool fits(const struct tg__job *job, uint64_t client, uint32_t id) {
  return job->client == client && (id == TG_NONE || job->message.id == id);
}

/* Takes waiting calls out that fit and puts them to *out; those being answered are asked to stop. */
static void pull(struct tg__queue *q, uint64_t client, uint32_t id, struct tg__job **out) {
  for (int lane = 0; lane < TG__LANES; lane++) {
    if (q->running[lane] && fits(q->running[lane], client, id)) q->running[lane]->message.is_cancelled = true;
    for (struct tg__job **at = &q->waiting[lane]; *at;) {
      struct tg__job *const job = *at;
      if (!fits(job, client, id)) {
        at = &job->next;
        continue;
      }
      *at = job->next;
      job->next = *out;
      *out = job;
    }
  }
}

void tg__queue_cancel(struct tg__queue *q, uint64_t client, uint32_t id) {
  struct tg__job *pulled = NULL;
  tg__lock_take(q->host->lock);
  pull(q, client, id, &pulled);
  for (struct tg__job *job = pulled, *next; job; job = next) {
    next = job->next;
    tg__reply_error(&job->reply, &job->message, "cancelled", "stopped on request");
    job->next = q->done;
    q->done = job;
  }
  tg__lock_drop(q->host->lock);
  if (pulled) q->ready(q->ctx);
}

void tg__queue_forget(struct tg__queue *q, uint64_t client) {
  struct tg__job *pulled = NULL;
  tg__lock_take(q->host->lock);
  pull(q, client, TG_NONE, &pulled);
  tg__lock_drop(q->host->lock);
  jobs_free(pulled);
}
