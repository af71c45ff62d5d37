/* call_queue: one list of calls a thread, in order; a call about a trace that is being read waits without holding up
 * the others. */
#include "serve/call_queue.h"

#include <assert.h>

/* Is the job in none of the lists from lane `first` on, and not among the replies? */
static bool is_only_before(const struct tg__queue *q, const struct tg__job *job, int first) {
  for (int lane = first; lane < TG__LANES; lane++)
    for (const struct tg__job *at = q->waiting[lane]; at; at = at->next)
      if (at == job) return false;
  for (const struct tg__job *at = q->done; at; at = at->next)
    if (at == job) return false;
  return true;
}

static bool ends(const struct tg__job *slow) { /* no job follows itself */
  for (const struct tg__job *fast = slow; fast && fast->next;) {
    slow = slow->next;
    fast = fast->next->next;
    if (fast && fast == slow) return false;
  }
  return true;
}

bool tg__queue_is_valid(const struct tg__queue *q, struct tg_error *e) {
  bool valid = ends(q->done);
  for (int lane = 0; lane < TG__LANES; lane++) valid = valid && ends(q->waiting[lane]);
  for (int lane = 0; valid && lane < TG__LANES; lane++) {
    const struct tg__job *const running = q->running[lane];
    valid = !running || (running->message.kind->lane == (enum tg__lane)lane && is_only_before(q, running, 0));
    for (const struct tg__job *job = q->waiting[lane]; valid && job; job = job->next)
      valid = job->message.kind->lane == (enum tg__lane)lane && is_only_before(q, job, lane + 1);
  }
  if (!valid) tg__fail(e, TG_INTERNAL, -1, "queue of calls: a call is in two places, or in a lane of another kind");
  return valid;
}

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
  assert(tg__queue_is_valid(q, NULL));
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
    assert(tg__queue_is_valid(q, NULL));
    tg__lock_drop(q->host->lock);
    tg__message_answer(q->host, &job->message, &job->reply);
    tg__lock_take(q->host->lock);
    q->running[lane] = NULL;
    job->next = q->done;
    q->done = job;
    assert(tg__queue_is_valid(q, NULL));
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
  assert(tg__queue_is_valid(q, NULL));
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
