/* Which thread waits for what: workers of a loader or this thread itself, a rank that computes or communication, a lock
 * in some steps, a child whose pipe is opened. Steps of 10 ms; figures added up by hand. */
#include "diagnose/findings.h"
#include "unit/findings_scene.h"

enum { MANY = 12 };

static void sample(struct scene *s, uint32_t watch, const char *doing, int64_t us, int64_t dur_us, const char *stack) {
  mini_slice(s->m, watch, "python_sample", doing, s->at + us * US, dur_us * US);
  mini_arg_str(s->m, "Call stack", stack);
  mini_arg_int(s->m, "Thread CPU us", strcmp(doing, "running") == 0 ? dur_us : 0);
}

/* ---- the loader ------------------------------------------------------------------------------ */

#define GET "multiprocessing/queues.py(113): get;torch/utils/data/dataloader.py(1291): _try_get_data;train.py(9): fit"
#define ITEM "data.py(7): read;data.py(5): __getitem__;torch/utils/data/_utils/fetch.py(52): fetch"
#define REBUILD                                                                                                        \
  "multiprocessing/connection.py(395): _recv;torch/multiprocessing/reductions.py(538): rebuild_storage_fd;" GET

/* Each step is 2 ms inside the next of a loader with workers, seen for 0.5 ms doing each of these. */
static struct scene loader(const char *first, const char *first_at, const char *second, const char *second_at) {
  struct scene s = begin_of(MANY);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               2000 * US);
    if (first) sample(&s, watch, first, 200, 500, first_at);
    if (second) sample(&s, watch, second, 900, 500, second_at);
    call(&s, "aten::conv2d", 2000, 7900, "train.py(10): fit");
  }
  return s;
}

static void test_workers_or_the_loop_itself(void **state) {
  struct scene s = loader(NULL, NULL, NULL, NULL); /* 2 ms, and nothing was seen */
  assert_int_equal(count_of(&s, "loader-too-slow"), 1);
  s = loader("poll", GET, "poll", GET);
  struct tg_table *t = ask(&s);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "cost_ns"), 2000 * US);
  tg__table_free(t);
  s = loader("poll", GET, "running", GET); /* half of it is the loop's own */
  t = ask(&s);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "cost_ns"), 2000 * US);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 1000 * US);
  tg__table_free(t);
  s = loader("socket", REBUILD, "running", GET); /* the batch is there, and is handed over */
  expect_absent(&s, "loader-too-slow");
}

/* A worker that waits hands over at once; one that computes answers when its thread for that has the GIL. */
static void test_a_worker_that_computes_hands_over_late(void **state) {
  for (int computes = 0; computes < 2; computes++) {
    struct scene s = loader("socket", REBUILD, "running", GET);
    const uint32_t worker = mini_thread(s.m, 20, 99);
    for (int i = 0; i < MANY; i++) {
      s.at = i * STEP;
      sample(&s, worker, computes ? "running" : "disk", 500, 8000, ITEM);
    }
    struct tg_table *t = ask(&s);
    assert_int_equal(count(t, "loader-too-slow"), computes);
    if (computes) assert_int_equal(mini_int(t, 0, "saving_ns"), 1000 * US);
    tg__table_free(t);
  }
}

/* 0.9 ms of each step: handing a batch over takes as long. */
static void test_a_short_next_is_not_judged(void **state) {
  struct scene s = begin_of(MANY);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               900 * US);
    call(&s, "aten::conv2d", 900, 9000, "train.py(10): fit");
  }
  struct tg_table *t = ask(&s);
  bool says = false;
  for (size_t i = 0; i < t->note_count; i++)
    says |= strstr(t->notes[i], "loader-too-slow, 9.0 % (too short to be distinguished") != NULL;
  assert_int_equal(count(t, "loader-too-slow"), 0);
  assert_true(says);
  tg__table_free(t);
}

#define IDLE "multiprocessing/queues.py(113): get;torch/utils/data/_utils/worker.py(230): _worker_loop"

/* 6 of 10 ms wait for the loader. A worker was seen for 8 ms of each step, half of the time doing each of these. */
static struct tg_table *workers(const char *first, const char *first_at, const char *second, const char *second_at,
                                bool is_busy) {
  struct scene s = begin_of(MANY);
  const uint32_t watch = first ? mini_thread(s.m, 20, 99) : 0;
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               i % 3 ? 6000 * US : 0);
    if (first) sample(&s, watch, first, 500, 4000, first_at);
    if (first) sample(&s, watch, second, 5000, 4000, second_at);
    call(&s, "aten::conv2d", 6000, 3900, "train.py(10): fit");
  }
  struct tg__columns *const trace = mini_finish(s.m);
  assert_true(tg__trace_add_meta(trace, "conditions",
                                 is_busy ? "{\"cpu_cores\":2,\"core_wait_pct\":20,\"others_pct\":150,"
                                           "\"loader\":{\"num_workers\":1,\"prefetch_factor\":2,\"batch_size\":null}}"
                                         : "{\"cpu_cores\":2}"));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s.m);
  return t;
}

static void expect_workers_to(const char *evidence, const char *advice, double confidence, struct tg_table *t) {
  const size_t row = mini_row(t, "cause", "loader-too-slow");
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US); /* in two of three steps */
  if (evidence) assert_non_null(strstr(mini_cell(t, row, "evidence"), evidence));
  if (!evidence) assert_null(strstr(mini_cell(t, row, "evidence"), "samples of the workers"));
  assert_non_null(strstr(mini_cell(t, row, "advice"), advice));
  assert_true(mini_real(t, row, "confidence") == confidence);
  tg__table_free(t);
}

static void test_workers_that_wait_and_that_compute(void **state) {
  expect_workers_to(
      "; 24 samples of the workers: they wait for 100 % of the time, most at data.py(7): read, and are on a "
      "core for 0 %",
      "The workers sleep and hardly compute", 0.6, workers("sleep", ITEM, "sleep", ITEM, false));
  expect_workers_to("they wait for 100 %", "The workers wait for a file", 0.6,
                    workers("disk", ITEM, "disk", ITEM, false));
  expect_workers_to("they compute for 100 %", "The workers compute.", 0.35,
                    workers("running", ITEM, "running", ITEM, false));
  expect_workers_to("; 12 samples of the workers: they compute for 100 %", "The workers compute.", 0.35,
                    workers("running", ITEM, "poll", IDLE, false)); /* it waits for the number of the next sample */
  expect_workers_to(NULL, "Make the dataset's", 0.35, workers("poll", IDLE, "poll", IDLE, false));
  expect_workers_to(NULL, "Make the dataset's", 0.35, workers(NULL, NULL, NULL, NULL, false));
}

/* Every third step waits for nothing: by the wait itself others may be the reason. A worker that sleeps has no use for
 * their cores; one that had a core for 8 of 10 ms takes 4 ms more than the loop takes by itself. */
static void test_workers_on_a_busy_machine(void **state) {
  struct tg_table *t = workers("sleep", ITEM, "sleep", ITEM, true);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 3000 * US);
  assert_non_null(strstr(mini_cell(t, 0, "advice"), " To try: num_workers=2, prefetch_factor=4. Now: num_workers=1, "
                                                    "prefetch_factor=2, cpu_cores=2."));
  tg__table_free(t);
  t = workers("running", ITEM, "running", ITEM, true);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 2000 * US);
  assert_non_null(strstr(mini_cell(t, 0, "advice"), " To try: num_workers=2. Now: num_workers=1, "));
  tg__table_free(t);
  t = workers("running", ITEM, "poll", IDLE, true); /* 4 of 10 ms on a core: it would keep up */
  assert_int_equal(count(t, "loader-too-slow"), 0);
  tg__table_free(t);
}

/* Of two workers each uses so many hundredths of a core while others keep the machine busy, and few samples were taken
 * of the first. In 10 ms the loop takes 6 ms by itself, but for what it waits for the loader. */
static struct tg_table *two_workers(int64_t first_pct, int64_t second_pct) {
  struct scene s = begin_of(MANY);
  const uint32_t watch[2] = {mini_thread(s.m, 20, 99), mini_thread(s.m, 21, 99)};
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               i % 3 ? 6000 * US : 0);
    sample(&s, watch[0], "running", 500, 600, ITEM);
    for (int k = 0; k < 3; k++) {
      mini_mark(s.m, k ? watch[k - 1] : s.thread, "", "process CPU %", 'C', s.at + 9000 * US);
      mini_arg_int(s.m, "value", k == 2 ? second_pct : k ? first_pct : 40);
    }
    call(&s, "aten::conv2d", 6000, 3900, "train.py(10): fit");
  }
  struct tg__columns *const trace = mini_finish(s.m);
  assert_true(tg__trace_add_meta(trace, "conditions",
                                 "{\"cpu_cores\":2,\"core_wait_pct\":20,\"others_pct\":150,"
                                 "\"loader\":{\"num_workers\":2}}"));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s.m);
  return t;
}

/* The usual wait is 4 of 10 ms: the loop takes 6. One worker that uses 0.85 of a core makes all that comes in 8.5 ms;
 * two that use 0.5 each keep up. */
static void test_what_workers_use_of_cores(void **state) {
  struct tg_table *t = two_workers(85, 5);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 2500 * US);
  tg__table_free(t);
  t = two_workers(80, 90);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "loader-too-slow"), "saving_ns"), 3000 * US);
  tg__table_free(t);
  t = two_workers(50, 50);
  assert_int_equal(count(t, "loader-too-slow"), 0);
  tg__table_free(t);
}

/* Three workers hand over three batches at a time: every third step is 20 ms longer, all of it waiting for them. */
static void test_batches_come_several_at_a_time(void **state) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    char name[32];
    const int64_t wait_us = i % 3 ? 100 : 20100;
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    mini_slice(s.m, s.thread, "user_annotation", name, s.at, (5000 + wait_us) * US);
    mini_slice(s.m, s.thread, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", s.at,
               wait_us * US);
    if (wait_us > 10000) sample(&s, watch, "poll", 500, 19000, GET);
    call(&s, "aten::conv2d", wait_us, 4900, "train.py(10): fit");
    s.at += (5000 + wait_us) * US;
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "cause"), "loader-too-slow");
  assert_int_equal(mini_int(t, 0, "cost_ns"), (4 * 20100 + 8 * 100) * US / MANY);
  tg__table_free(t);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Each step waits 4 of 10 ms for a queue. It may train; another thread calls an operator that ends the wait, and takes
 * `work_us`. */
static struct tg_table *queue_at(const char *wait, const char *stack, bool trains, int64_t work_us) {
  struct scene s = begin_of(MANY);
  const uint32_t other = mini_thread(s.m, 1, 11);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", wait, s.at, 4000 * US);
    mini_arg_str(s.m, "Call stack", stack);
    mini_slice(s.m, other, "cpu_op", "aten::randn", s.at + (4000 - work_us) * US, work_us * US);
    call(&s, "aten::linear", 4000, 5800, "serve.py(31): answer");
    if (trains) call(&s, "torch::autograd::AccumulateGrad", 9900, 50, NULL);
  }
  return ask(&s);
}

static struct tg_table *queue(const char *wait, bool trains, int64_t work_us) {
  return queue_at(wait, "serve.py(30): answer", trains, work_us);
}

/* A loop that trains waits for its own program. A loop that answers may wait for a request: the program's
 * other threads then have little to do. */
static void test_whose_queue_it_is(void **state) {
  static const struct {
    bool trains;
    int64_t work_us;
    size_t count;
  } cases[] = {{true, 20, 1}, {false, 20, 0}, {false, 1900, 0}, {false, 2100, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = queue("queue.Queue.get", cases[i].trains, cases[i].work_us);
    assert_int_equal(t->rows, cases[i].count);
    assert_int_equal(count(t, "loader-too-slow"), cases[i].count);
    bool says = false;
    for (size_t k = 0; k < t->note_count; k++)
      says |= strstr(t->notes[k], "nothing found above 5 %; withheld: loader-too-slow, 40.0 % (it waits for a queue, "
                                  "and no thread of this program is seen to fill it") != NULL;
    assert_int_equal(says, !cases[i].count);
    tg__table_free(t);
  }
}

/* A wait of 4 ms that may be a request's, and 3 ms of sleep behind it: the sleep is found, the wait is not. */
static void test_a_sleep_behind_a_wait(void **state) {
  struct scene s = begin_of(MANY);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "queue.Queue.get", s.at, 4000 * US);
    mini_arg_str(s.m, "Call stack", "serve.py(30): answer");
    sample(&s, watch, "lock", 100, 3800, "serve.py(30): answer");
    sample(&s, watch, "sleep", 4100, 2800, "serve.py(31): answer");
    call(&s, "aten::linear", 7000, 2900, "serve.py(32): answer");
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, 0, "cause"), "host-waits");
  assert_string_equal(mini_cell(t, 0, "where"), "serve.py(31): answer");
  assert_non_null(strstr(mini_cell(t, 0, "evidence"), "it sleeps for 100 % of it"));
  tg__table_free(t);
}

/* Work that a thread is asked for is no request from outside, and no loader. */
static void test_what_a_thread_is_asked_for(void **state) {
  struct tg_table *t = queue("concurrent.futures.Future.result", false, 20);
  const size_t row = mini_row(t, "cause", "host-waits");
  assert_int_equal(t->rows, 1);
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  assert_string_equal(mini_cell(t, row, "where"), "concurrent.futures.Future.result at serve.py(30): answer");
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "wait for what another thread or process was asked to do"));
  tg__table_free(t);
}

/* pool.map() waits for an answer. pool.imap(), which a loop goes over, waits for its next input. */
static void test_what_a_pool_is_asked_for(void **state) {
  static const struct {
    const char *stack, *cause;
  } cases[] = {{"threading.py(629): wait;multiprocessing/pool.py(765): wait;multiprocessing/pool.py(367): map;"
                "train.py(30): fit",
                "host-waits"},
               {"multiprocessing/pool.py(861): next;train.py(30): fit", "loader-too-slow"},
               {"threading.py(629): wait;train.py(30): fit", "loader-too-slow"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = queue_at("threading.Condition.wait", cases[i].stack, true, 20);
    assert_int_equal(t->rows, 1);
    assert_string_equal(mini_cell(t, 0, "cause"), cases[i].cause);
    assert_int_equal(mini_int(t, 0, "line"), 30);
    tg__table_free(t);
  }
}

/* Two threads of a pool answer by turns, 5 ms each: while one works the other's queue is empty. Its steps are its
 * answers, and those of the other say nothing of it. */
static void test_idle_while_another_thread_answers(void **state) {
  struct scene s = {.m = mini_new()};
  mini_rank(s.m, 0);
  uint32_t threads[2] = {mini_thread(s.m, 1, 10), mini_thread(s.m, 1, 11)};
  for (int i = 0; i < 2 * MANY; i++) {
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
    s.thread = threads[i % 2];
    s.at = i * STEP / 2;
    mini_slice(s.m, s.thread, "user_annotation", name, s.at, STEP / 2);
    call(&s, "aten::linear", 0, 4900, "serve.py(31): answer");
    mini_slice(s.m, s.thread, "user_annotation", "queue.Queue.get", s.at + STEP / 2, STEP / 2);
  }
  struct tg_table *t = ask(&s);
  assert_int_equal(t->rows, 0);
  for (size_t k = 0; k < t->note_count; k++) assert_null(strstr(t->notes[k], "withheld"));
  tg__table_free(t);
}

/* ---- threads that call no operator ----------------------------------------------------------- */

/* Where another thread is at a moment of the loop. */
static void other(struct scene *s, uint32_t watch, int thread, int64_t us, const char *doing, const char *stack) {
  mini_slice(s->m, watch, "python_sample", doing, s->at + us * US, 0);
  mini_arg_str(s->m, "Call stack", stack);
  mini_arg_int(s->m, "Sampled thread", thread);
}

#define WAITING "threading.py(320): wait;queue.py(171): get;train.py(30): fit"
#define READS "train.py(12): read;train.py(19): produce"
#define LOCKED "train.py(18): produce"

/* The loop waits for a queue for 4 of 10 ms and trains. Two looks at two threads in each step: one reads, and the other
 * does that, the threads by turns or not. */
static struct scene readers(bool by_turns, const char *doing, const char *stack) {
  struct scene s = begin_of(MANY);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    mini_slice(s.m, s.thread, "user_annotation", "queue.Queue.get", s.at, 4000 * US);
    mini_arg_str(s.m, "Call stack", "train.py(30): fit");
    for (int k = 0; k < 2; k++) {
      const int64_t us = 1500 * (k + 1);
      sample(&s, watch, "lock", us - 1400, 1400, WAITING);
      other(&s, watch, 71 + (by_turns ? k : 0), us, "sleep", READS);
      other(&s, watch, 72 - (by_turns ? k : 0), us, doing, stack);
    }
    call(&s, "aten::conv2d", 4000, 5000, "train.py(31): fit");
    call(&s, "torch::autograd::AccumulateGrad", 9000, 900, NULL);
  }
  return s;
}

static void test_threads_that_read_under_a_lock(void **state) {
  struct scene s = readers(true, "lock", LOCKED);
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "pipeline-lock-contention");
  assert_string_equal(mini_cell(t, row, "where"), LOCKED);
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 3600 * US);
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "; in 24 of 24 looks at the other threads meanwhile"));
  tg__table_free(t);
  s = readers(false, "lock", LOCKED); /* the same thread has the lock again and again */
  assert_int_equal(count_of(&s, "pipeline-lock-contention"), 1);
  s = readers(false, "gil", READS); /* and the GIL: the other may have nothing to do with the queue */
  expect_absent(&s, "pipeline-lock-contention");
  s = readers(true, "sleep", READS); /* both read at the same time */
  expect(&s, "loader-too-slow", 4000, 3600, "queue.Queue.get at train.py(30): fit", 30);
  s = readers(true, "running", LOCKED); /* the other works as well, on the line of its lock, */
  expect_absent(&s, "pipeline-lock-contention");
  s = readers(true, "lock", "threading.py(320): wait;queue.py(140): put;" READS); /* one has nothing to do */
  expect(&s, "loader-too-slow", 4000, 3600, "queue.Queue.get at train.py(30): fit", 30);
}

/* The loop waits for a queue for 2 of 10 ms, and in every third step a look falls into that; others fall into what it
 * does for 2 ms before. In all of them one thread reads and another waits for its lock, or, on a core, reads too. */
static void test_looks_beside_the_wait(void **state) {
  for (int locked = 0; locked < 2; locked++) {
    struct scene s = begin_of(MANY);
    const uint32_t watch = mini_thread(s.m, 1, 99);
    for (int i = 0; i < MANY; i++) {
      s.at = i * STEP;
      for (int k = 0; k < (i % 3 ? 1 : 2); k++) {
        sample(&s, watch, k ? "lock" : "running", 500 + 2000 * k, 1400, k ? WAITING : "train.py(29): fit");
        other(&s, watch, 71, 1900 + 2000 * k, "sleep", READS);
        other(&s, watch, 72, 1900 + 2000 * k, locked ? "lock" : "running", locked ? LOCKED : READS);
        other(&s, watch, 73, 1900 + 2000 * k, "ready", LOCKED);
      }
      mini_slice(s.m, s.thread, "user_annotation", "queue.Queue.get", s.at + 2000 * US, 2000 * US);
      mini_arg_str(s.m, "Call stack", "train.py(30): fit");
      call(&s, "aten::conv2d", 4000, 5000, "train.py(31): fit");
      call(&s, "torch::autograd::AccumulateGrad", 9000, 900, NULL);
    }
    struct tg_table *t = ask(&s);
    const size_t row = mini_row(t, "cause", locked ? "pipeline-lock-contention" : "loader-too-slow");
    assert_int_equal(mini_int(t, row, "cost_ns"), 2000 * US);
    assert_int_equal(strstr(mini_cell(t, row, "evidence"), "; in 16 of 16 looks at the other threads while") != NULL,
                     locked);
    tg__table_free(t);
  }
}

/* Between two operators of 3 ms the loop stands for 4 ms, seen for 3.5 of them; another thread computes meanwhile. */
static struct scene counting(const char *doing, const char *other_doing) {
  struct scene s = begin_of(MANY);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    call(&s, "aten::linear", 0, 3000, "train.py(30): answer");
    sample(&s, watch, doing, 3200, 3500, "train.py(30): answer");
    other(&s, watch, 71, 6700, other_doing, "train.py(16): count");
    call(&s, "aten::relu", 7000, 3000, "train.py(31): answer");
  }
  return s;
}

static void test_a_thread_that_has_the_gil(void **state) {
  struct scene s = counting("gil", "running");
  struct tg_table *t = ask(&s);
  const size_t row = mini_row(t, "cause", "gil-contention");
  assert_int_equal(t->rows, 1);
  assert_string_equal(mini_cell(t, row, "where"), "train.py(16): count");
  assert_int_equal(mini_int(t, row, "cost_ns"), 4000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 3600 * US);
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "for 40.0 % of the steps while the loop needs it: 4.00 ms"));
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "by 12 samples; one of them computes in Python in 12 of 12"));
  tg__table_free(t);
  s = counting("gil", "running");
  const uint32_t watch = mini_thread(s.m, 1, 100); /* another one in every third step */
  for (int i = 0; i < MANY; i += 3) {
    s.at = i * STEP;
    other(&s, watch, 72, 6700, "running", "train.py(22): parse");
  }
  t = ask(&s);
  assert_non_null(strstr(mini_cell(t, mini_row(t, "cause", "gil-contention"), "evidence"),
                         "; shared by thread 71 (train.py(16): count) 75 %"));
  tg__table_free(t);
  s = counting("running", "running"); /* the loop has it itself, and the other is in C */
  expect_absent(&s, "gil-contention");
  s = counting("gil", "sleep"); /* no thread is seen with it */
  expect_absent(&s, "gil-contention");
}

/* In every `every`th step the loop waits 5 ms for the GIL, and is seen three times. In all steps it has no core for
 * core_us, and another thread computes while it stands in an operator. */
static struct tg_table *now_and_then(int every, const char *doing, int64_t core_us, int others_pct) {
  struct scene s = {.m = mini_new()};
  char conditions[100];
  mini_rank(s.m, 0);
  s.thread = mini_thread(s.m, 1, 10);
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < MANY; i++) {
    mark_step(&s, i);
    mini_arg_int(s.m, "Thread CPU us", 3000);
    mini_arg_int(s.m, "Core wait us", core_us);
    mini_arg_int(s.m, "Preemptions", 0);
  }
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    call(&s, "aten::linear", 0, 4000, "train.py(30): answer");
    if (core_us) other(&s, watch, 71, 3900, "running", "train.py(16): count");
    for (int k = 0; k < 3 && i % every == 0; k++) {
      sample(&s, watch, doing, 4100 + 1500 * k, 1400, "train.py(30): answer");
      other(&s, watch, 71, 5500 + 1500 * k, "ready", "train.py(17): count");
    }
    call(&s, "aten::relu", i % every ? 4010 : 9000, i % every ? 5990 : 1000, "train.py(31): answer");
  }
  struct tg__columns *const trace = mini_finish(s.m);
  snprintf(conditions, sizeof conditions, "{\"cpu_cores\":2,\"others_pct\":%d,\"process_pct\":190}", others_pct);
  assert_true(tg__trace_add_meta(trace, "conditions", conditions));
  struct tg_table *t = mini_ask(trace, "findings", NULL);
  mini_free(s.m);
  return t;
}

/* 4 x 5 ms in 12 steps are 1.67 ms a step. A wait for a core of 2 ms a step counts where no other program uses any and
 * the GIL is waited for as well. */
static void test_the_gil_in_some_steps(void **state) {
  struct tg_table *t = now_and_then(3, "gil", 0, 0);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "gil-contention"), "cost_ns"), 20000 * US / 12);
  assert_int_equal(mini_int(t, 0, "line"), 17);
  tg__table_free(t);
  t = now_and_then(6, "gil", 0, 0); /* in two of twelve */
  assert_int_equal(count(t, "gil-contention"), 0);
  tg__table_free(t);
  t = now_and_then(6, "gil", 2000, 0);
  assert_int_equal(mini_int(t, mini_row(t, "cause", "gil-contention"), "cost_ns"), 2000 * US + 10000 * US / 12);
  assert_int_equal(mini_int(t, 0, "line"), 16);
  assert_string_not_equal(mini_cell(t, 0, "severity"), "high");
  assert_non_null(strstr(mini_cell(t, 0, "evidence"), "; 2.00 ms of that it waits for a core"));
  tg__table_free(t);
  t = now_and_then(6, "gil", 2000, 100); /* others have it */
  assert_int_equal(count(t, "gil-contention"), 0);
  tg__table_free(t);
  t = now_and_then(6, "running", 2000, 0); /* it takes a core, and lets go of the GIL meanwhile */
  assert_int_equal(count(t, "gil-contention"), 0);
  tg__table_free(t);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Two of twelve steps are 0.4 ms inside a collective, the others `us`. */
static struct scene collective(int64_t us) {
  struct scene s = begin_of(MANY);
  const uint32_t gloo = mini_thread(s.m, 1, 11);
  for (int i = 0; i < MANY; i++) {
    s.at = i * STEP;
    call(&s, "aten::linear", 0, 5000, "train.py(30): train");
    mini_slice(s.m, gloo, "user_annotation", "gloo:all_reduce", s.at + 5000 * US, (i % 6 == 5 ? 400 : us) * US);
  }
  return s;
}

/* The collective itself takes no longer than in the steps without a late rank: 4 %. */
static void test_waiting_for_a_rank_is_no_communication(void **state) {
  struct scene s = collective(4000);
  expect_absent(&s, "communication-not-overlapped");
  s = collective(400);
  expect_absent(&s, "communication-not-overlapped");
}

/* ---- a lock in some steps -------------------------------------------------------------------- */

static struct scene begin_watched(uint32_t *watch) {
  struct scene s = begin_of(0);
  *watch = mini_thread(s.m, 1, 99);
  return s;
}

/* Three of twelve steps are longer, and by how many us this one. */
static int64_t begin_step(struct scene *s, int i) {
  char name[32];
  const int64_t more_us = i == 2 || i == 3 || i == 8 ? 20000 : 0;
  snprintf(name, sizeof name, "ProfilerStep#%d", i + 1);
  mini_slice(s->m, s->thread, "user_annotation", name, s->at, STEP + more_us * US);
  return more_us;
}

/* Three of twelve steps stand still for 20 ms more before line 12, and the thread was seen there. */
static struct tg_table *long_stops(const char *doing, bool loads) {
  static const char next[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
  uint32_t watch;
  struct scene s = begin_watched(&watch);
  for (int i = 0; i < MANY; i++) {
    const int64_t stop_us = begin_step(&s, i);
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    if (stop_us) sample(&s, watch, doing, 6000, 18000, "train.py(11): fit");
    if (loads) mini_slice(s.m, s.thread, "user_annotation", next, s.at + 5000 * US, (stop_us + 200) * US);
    if (loads) call(&s, "aten::empty", 5100 + stop_us, 50, "train.py(11): fit");
    call(&s, "aten::relu", 5200 + stop_us, 4800, "train.py(12): fit");
    s.at += STEP + stop_us * US;
  }
  return ask(&s);
}

/* 60 of 180 ms; nine of ten parts of 5 ms a step. */
static void test_a_lock_in_some_steps(void **state) {
  struct tg_table *t = long_stops("lock", false);
  const size_t row = mini_row(t, "cause", "host-waits");
  assert_string_equal(mini_cell(t, row, "where"), "train.py(11): fit");
  assert_int_equal(mini_int(t, row, "cost_ns"), 5000 * US);
  assert_int_equal(mini_int(t, row, "saving_ns"), 4500 * US);
  assert_non_null(strstr(mini_cell(t, row, "evidence"), "waits for a lock or a queue there in 3 samples"));
  assert_int_equal(count(t, "periodic-stall"), 0);
  tg__table_free(t);
  /* As what saves or logs now and then does; a stop in the loader's own call is a wait for its workers. */
  for (int loads = 0; loads < 2; loads++) {
    t = long_stops(loads ? "lock" : "disk", loads);
    assert_int_equal(count(t, loads ? "loader-too-slow" : "periodic-stall"), 1);
    assert_int_equal(count(t, "host-waits"), 0);
    tg__table_free(t);
  }
}

/* Every step computes for 7 of 10 ms in Python, and three of twelve for 20 ms more, in a function that may be another.
 */
static struct tg_table *long_work(const char *stack) {
  uint32_t watch;
  struct scene s = begin_watched(&watch);
  for (int i = 0; i < MANY; i++) {
    const int64_t more_us = begin_step(&s, i);
    call(&s, "aten::conv2d", 0, 1000, "train.py(9): fit");
    sample(&s, watch, "running", 1500, 5000, "train.py(33): pick;train.py(11): fit");
    if (more_us) sample(&s, watch, "running", 8000, 18000, stack);
    call(&s, "aten::relu", 8000 + more_us, 2000, "train.py(12): fit");
    s.at += STEP + more_us * US;
  }
  return ask(&s);
}

static void test_work_that_takes_longer_in_some_steps(void **state) {
  static const char *const stacks[] = {"train.py(35): pick;train.py(11): fit",
                                       "train.py(50): rank_all;train.py(11): fit"};
  for (int is_other = 0; is_other < 2; is_other++) {
    struct tg_table *t = long_work(stacks[is_other]);
    assert_int_equal(t->rows, 1);
    assert_string_equal(mini_cell(t, 0, "cause"), "slow-python-transform"); /* 7 ms of each step: most expected */
    assert_int_equal(strstr(mini_cell(t, 0, "evidence"), "the same time is periodic-stall") != NULL, is_other);
    tg__table_free(t);
  }
}

/* ---- a child --------------------------------------------------------------------------------- */

/* Each step 4 ms between two lines; a file is opened there, and the thread was seen for 3 ms behind it. */
static struct scene opens(const char *doing, const char *stack) {
  struct scene s = begin();
  const uint32_t watch = mini_thread(s.m, 1, 99);
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    mini_slice(s.m, s.thread, "user_annotation", "builtins.open", s.at + 5100 * US, 50 * US);
    mini_arg_str(s.m, "Call stack", "train.py(7): child;train.py(10): fit");
    sample(&s, watch, doing, 5500, 3000, stack);
    call(&s, "aten::relu", 9000, 1000, "train.py(12): fit");
  }
  return s;
}

static void test_a_file_that_is_opened_is_not_the_wait(void **state) {
  struct scene s = opens("subprocess", "subprocess.py(1200): wait;train.py(7): child;train.py(10): fit");
  expect(&s, "host-waits", 3980, 3582, "train.py(7): child", 7);
  s = opens("running", "json/decoder.py(353): raw_decode;train.py(8): parse;train.py(10): fit");
  assert_int_equal(count_of(&s, "repeated-file-load"), 1);
  s = opens("disk", "train.py(8): parse;train.py(10): fit");
  assert_int_equal(count_of(&s, "repeated-file-load"), 1);
}

/* ---- a function and its time ------------------------------------------------------------------ */

/* A function that was recorded takes 4.5 ms of each step, 0.5 of them in an operator: it claims the 1 ms before that
 * and the 3 behind it. */
static void test_a_function_claims_its_own_time(void **state) {
  struct scene s = begin();
  for (int i = 0; i < STEPS; i++) {
    s.at = i * STEP;
    call(&s, "aten::conv2d", 0, 5000, "train.py(9): fit");
    mini_slice(s.m, s.thread, "python_function", "train.py(20): count", s.at + 5000 * US, 4500 * US);
    call(&s, "aten::add", 6000, 500, "train.py(21): count;train.py(9): fit");
  }
  struct tg__facts f;
  assert_int_equal(tg__facts_open(mini_finish(s.m), 0, &f), TG_OK);
  tg__judge_python(&f);
  assert_int_equal(f.found_count, 1);
  const struct tg__spans *const claim = &f.found[0].claim;
  assert_int_equal(claim->count, 2 * STEPS);
  for (size_t i = 0; i < claim->count; i++) {
    assert_int_equal(claim->items[i].start, (int64_t)(i / 2) * STEP + (i % 2 ? 6500 : 5000) * US);
    assert_int_equal(claim->items[i].end, (int64_t)(i / 2) * STEP + (i % 2 ? 9500 : 6000) * US);
  }
  tg__facts_close(&f);
  mini_free(s.m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_workers_or_the_loop_itself),
      cmocka_unit_test(test_a_worker_that_computes_hands_over_late),
      cmocka_unit_test(test_a_short_next_is_not_judged),
      cmocka_unit_test(test_workers_that_wait_and_that_compute),
      cmocka_unit_test(test_workers_on_a_busy_machine),
      cmocka_unit_test(test_what_workers_use_of_cores),
      cmocka_unit_test(test_batches_come_several_at_a_time),
      cmocka_unit_test(test_whose_queue_it_is),
      cmocka_unit_test(test_a_sleep_behind_a_wait),
      cmocka_unit_test(test_what_a_thread_is_asked_for),
      cmocka_unit_test(test_what_a_pool_is_asked_for),
      cmocka_unit_test(test_idle_while_another_thread_answers),
      cmocka_unit_test(test_threads_that_read_under_a_lock),
      cmocka_unit_test(test_looks_beside_the_wait),
      cmocka_unit_test(test_a_thread_that_has_the_gil),
      cmocka_unit_test(test_the_gil_in_some_steps),
      cmocka_unit_test(test_work_that_takes_longer_in_some_steps),
      cmocka_unit_test(test_waiting_for_a_rank_is_no_communication),
      cmocka_unit_test(test_a_lock_in_some_steps),
      cmocka_unit_test(test_a_file_that_is_opened_is_not_the_wait),
      cmocka_unit_test(test_a_function_claims_its_own_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
