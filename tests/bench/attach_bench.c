/* attach_bench PID ROUNDS: how long the main thread of a process stands still, in ns at the median and at most: for
 * nothing but being held and let go, and for a text that is queued. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/attach.h"

static bool is_less(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *const ns = ctx;
  return ns[a] < ns[b];
}

static void print(const char *what, const int64_t *ns, size_t n) {
  uint32_t *const order = tg__order_new(n, is_less, ns);
  if (order)
    printf("{\"what\": \"%s\", \"median_ns\": %lld, \"most_ns\": %lld}\n", what, (long long)ns[order[n / 2]],
           (long long)ns[order[n - 1]]);
  tg__free(order);
}

int main(int argc, char **argv) {
  enum { MOST = 1000 };
  static int64_t empty[MOST], queued[MOST];
  struct tg__target t;
  struct tg_error e = {0};
  const size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  if (rounds < 1 || rounds > MOST || tg__target_read(atoi(argv[1]), &t, &e)) {
    fprintf(stderr, "attach_bench: %s\n", *e.text ? e.text : "attach_bench PID ROUNDS");
    return 1;
  }
  for (size_t i = 0; i < rounds; i++) {
    struct tg__stopped *s;
    t.stopped_ns = 0;
    if (tg__stopped_take(&t, &s, &e)) break;
    empty[i] = tg__stopped_release(s);
    usleep(5000);
    if (tg__attach_queue(&t, "0", &e)) break;
    queued[i] = t.stopped_ns;
    usleep(20000); /* the interpreter comes to it */
    tg__attach_forget(&t);
  }
  if (*e.text) fprintf(stderr, "attach_bench: %s\n", e.text);
  print("held and let go", empty, rounds);
  print("a text queued", queued, rounds);
  return *e.text != 0;
}
