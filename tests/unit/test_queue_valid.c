/* The invariants of the server's queue of calls, each broken once, and a queue that keeps them while calls move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "serve/call_queue.h"

static const struct tg__message_kind now = {.name = "now", .lane = TG__LANE_NOW}, ask = {"ask", TG__LANE_ASK, NULL};

static struct tg__job *new_job(const struct tg__message_kind *kind, uint64_t client, uint32_t id) {
  struct tg__job *const job = tg__alloc(sizeof *job);
  assert_non_null(job);
  *job = (struct tg__job){.client = client, .message = {.kind = kind, .id = id, .has_id = true}};
  return job;
}

static void holds(const struct tg__queue *q, bool expected) {
  struct tg_error e = {0};
  assert_int_equal(tg__queue_is_valid(q, &e), expected);
  if (!expected) assert_non_null(strstr(e.text, "queue of calls"));
}

static void ready(void *ctx) { ++*(int *)ctx; }

static void calls_move(void **state) {
  (void)state;
  int replies = 0;
  struct tg__host host = {.lock = tg__lock_new()};
  struct tg__queue q = {.host = &host, .ready = ready, .ctx = &replies};
  assert_non_null(host.lock);
  struct tg__job *const a = new_job(&ask, 1, 1), *const b = new_job(&ask, 2, 2), *const c = new_job(&now, 1, 3);
  tg__queue_put(&q, a);
  tg__queue_put(&q, b);
  tg__queue_put(&q, c);
  holds(&q, true);
  q.running[TG__LANE_ASK] = a;
  holds(&q, false); /* still waits */
  q.running[TG__LANE_ASK] = NULL;
  q.done = b;
  holds(&q, false); /* waits and has its reply */
  q.done = NULL;
  b->message.kind = &now;
  holds(&q, false); /* in the lane of another kind */
  b->message.kind = &ask;
  b->next = a;
  holds(&q, false); /* follows itself */
  b->next = NULL;
  tg__queue_cancel(&q, 1, 1);
  holds(&q, true);
  assert_ptr_equal(q.done, a);
  assert_int_equal(replies, 1);
  tg__queue_forget(&q, 2);
  holds(&q, true);
  assert_null(q.waiting[TG__LANE_ASK]);
  tg__queue_close(&q);
  tg__lock_free(host.lock);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_move)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
