/* One line on a terminal that says how far reading, writing or computing has come, once that has taken a second. */
#include "cli/cli.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };
static const int64_t SECOND_NS = 1000000000;

static double seconds_since(int64_t begin_ns) { return (double)(tg__clock_ns() - begin_ns) / (double)SECOND_NS; }

static void wipe_line(int64_t shown_ns) {
  if (shown_ns) fputs("\r\033[K", stderr);
}

/* ---- computing ------------------------------------------------------------------------------- */

/* The beat's thread prints, so all but the first two are shared with it. */
static struct {
  struct tg__beat *beat; /* NULL: nothing is under way, or its line is not wanted */
  const char *what;
  int64_t begin_ns;
  int64_t shown_ns;              /* 0: not yet; the beat's until it has stopped */
  _Atomic int64_t other_line_ns; /* when a line about reading or writing was printed last */
} computing;

/* Not while another line is in its place. */
static void show_computing(void *unused) {
  const int64_t now = tg__clock_ns();
  if (now - computing.begin_ns < SECOND_NS || now - computing.other_line_ns < SECOND_NS) return;
  flockfile(stderr);
  fprintf(stderr, "\r%s  %.0f s\033[K", computing.what, seconds_since(computing.begin_ns));
  fflush(stderr);
  funlockfile(stderr);
  computing.shown_ns = now;
}

void tg__work_begin(const char *what) {
  if (computing.beat || !tg__is_terminal(STDERR_FILENO)) return;
  computing.what = what;
  computing.begin_ns = tg__clock_ns();
  computing.shown_ns = 0;
  computing.beat = tg__beat_start(SECOND_NS / 5, show_computing, NULL);
}

void tg__work_end(void) {
  if (!computing.beat) return;
  tg__beat_stop(computing.beat);
  computing.beat = NULL;
  wipe_line(computing.shown_ns);
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* Ten times a second, and only once the work has taken a second. */
static bool is_time_to_show(int64_t begin_ns, int64_t *shown_ns) {
  const int64_t now = tg__clock_ns();
  if (now - begin_ns < SECOND_NS || now - *shown_ns < SECOND_NS / 10) return false;
  *shown_ns = now;
  return true;
}

/* One line: how much of how much, how fast, how long still. total below 1: unknown. */
static void print_bytes(const char *what, int64_t done, int64_t total, int64_t begin_ns,
                        const struct tg__reading *files) {
  char amount[32];
  flockfile(stderr);
  computing.other_line_ns = tg__clock_ns();
  fprintf(stderr, "\r%s %s", what, tg__human_bytes(done, amount));
  const double seconds = seconds_since(begin_ns);
  if (total > 0 && done <= total) {
    const double share = (double)done / (double)total;
    const int filled = (int)(share * BAR_WIDTH);
    fprintf(stderr, " of %s [%.*s%*s] %2d %%", tg__human_bytes(total, amount), filled, "########################",
            BAR_WIDTH - filled, "", (int)(share * 100));
  }
  fprintf(stderr, "  %s/s", tg__human_bytes((int64_t)((double)done / seconds), amount));
  if (total > 0 && done > 0 && done <= total)
    fprintf(stderr, "  %.0f s left", seconds * (double)(total - done) / (double)done);
  if (files && files->parts > 1)
    fprintf(stderr, "  %lld of %lld files done", (long long)files->parts_done, (long long)files->parts);
  fputs("\033[K", stderr);
  fflush(stderr);
  funlockfile(stderr);
}

void tg__writing_shown(struct tg__sink *s) {
  if (is_time_to_show(s->begin_ns, &s->shown_ns)) print_bytes("writing", s->bytes, -1, s->begin_ns, NULL);
}

void tg__writing_end(const struct tg__sink *s) { wipe_line(s->shown_ns); }

static bool show_reading(void *ctx, int64_t done, int64_t total) {
  struct tg__reading *p = ctx;
  if (is_time_to_show(p->begin_ns, &p->shown_ns)) print_bytes("reading", done, total, p->begin_ns, p);
  return true;
}

static void count_parts(void *ctx, int64_t done, int64_t total) {
  struct tg__reading *p = ctx;
  p->parts_done = done;
  p->parts = total;
}

struct tg_open_options tg__reading_begin(const struct tg__cli *c, struct tg__reading *p) {
  struct tg_open_options options = {.threads = c->threads};
  *p = (struct tg__reading){.begin_ns = tg__clock_ns()};
  if (tg__is_terminal(STDERR_FILENO)) {
    options.progress = show_reading;
    options.part_done = count_parts;
    options.progress_ctx = p;
  }
  return options;
}

void tg__reading_end(const struct tg__reading *p) { wipe_line(p->shown_ns); }

/* When the count of bytes falls, another reading has begun. The line disappears when a reading ends. */
static bool show_again(void *ctx, int64_t done, int64_t total) {
  struct tg__reading *p = ctx;
  if (done < p->last || !p->begin_ns)
    *p = (struct tg__reading){.begin_ns = tg__clock_ns(), .parts = p->parts, .parts_done = p->parts_done};
  p->last = done;
  show_reading(p, done, total);
  if (done < total || !p->shown_ns) return true;
  wipe_line(p->shown_ns);
  *p = (struct tg__reading){0};
  return true;
}

void tg__watch_again(struct tg_trace *t) {
  static struct tg__reading again;
  again = (struct tg__reading){0};
  if (tg__is_terminal(STDERR_FILENO))
    tg_set_progress(
        t, &(struct tg_open_options){.progress = show_again, .part_done = count_parts, .progress_ctx = &again});
}
