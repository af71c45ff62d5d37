/* A plain C program that records itself: three steps, each of which loads and then computes on two threads.
 *
 *     cc -I include examples/plain.c -o plain -L build -ltachograph-capture -lpthread
 *     ./plain plain.tacho && tachograph report plain.tacho */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include <tachograph/record.h>

static void work_for(long ns) {
  struct timespec t = {.tv_nsec = ns};
  nanosleep(&t, NULL);
}

static void *compute(void *unused) {
  tg_thread_name("worker");
  tg_range_begin("compute");
  work_for(3000000);
  tg_range_end();
  return NULL;
}

static void one_step(int number) {
  char name[32];
  pthread_t worker;
  snprintf(name, sizeof name, "ProfilerStep#%d", number);
  tg_step_begin(name);
  tg_range_begin("load");
  work_for(5000000);
  tg_range_end();
  if (pthread_create(&worker, NULL, compute, NULL) == 0) pthread_join(worker, NULL);
  tg_counter("items", 32 * (number + 1));
  tg_step_end();
}

int main(int argc, char **argv) {
  struct tg_error error;
  struct tg_record_stats stats;
  const struct tg_record_options options = {
      .path = argc > 1 ? argv[1] : "plain.tacho", .features = TG_RECORD_PROCESS, .rank = -1};
  if (tg_record_open(&options, &error) || tg_record_resume(&error)) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  tg_record_meta("program", "\"examples/plain.c\"", &error);
  for (int i = 0; i < 3; i++) one_step(i);
  tg_mark("done");
  if (tg_record_close(&stats, &error)) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  printf("%s: %llu records, %llu lost\n", options.path, (unsigned long long)stats.records,
         (unsigned long long)stats.lost);
  return 0;
}
