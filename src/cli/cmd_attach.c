/* tachograph attach: have a program that runs already begin a recording (attach_enter.c), wait until it is over, pack
 * and report it. */
#include "cli/attach_enter.h"

static const int64_t SPARE_NS = 20000000000; /* beyond the seconds that were asked for */

/* Until the recording is over, or the process. */
static void wait_for_end(struct tg__cli_recording *r, const struct tg__target *t) {
  const int64_t since_ns = tg__clock_ns(), most_ns = (int64_t)(r->seconds * 1e9) + SPARE_NS;
  bool is_asked = false;
  char line[8];
  while (tg__attach_last_line(r, line, sizeof line) && strcmp(line, "end") != 0 && tg__target_lives(t)) {
    if ((tg__attach_is_stopped() || tg__clock_ns() - since_ns > most_ns) && !is_asked) {
      tg__attach_request_stop(r);
      is_asked = true;
    }
    if (is_asked && tg__clock_ns() - since_ns > most_ns + SPARE_NS) break; /* what it wrote so far is whole */
    tg__attach_nap();
  }
  r->run_ns = tg__clock_ns() - since_ns;
}

static enum tg_err attach(struct tg__cli_recording *r, struct tg__target *t, struct tg_error *e) {
  char line[8];
  if (!t->has_torch)
    return tg__fail(
        e, TG_UNSUPPORTED, -1,
        "process %d (%s) has not loaded torch, so there is nothing to record: attach when it has imported "
        "torch, or to the one of its children that computes; tachograph watch %d shows its lines and memory",
        t->pid, t->name, t->pid);
  enum tg_err err = tg__cli_recording_make_folder(r, e);
  if (!err) err = tg__attach_begin(r, t, TG__ATTACH_RECORDS, e);
  if (err) return err;
  if (tg__attach_last_line(r, line, sizeof line) && strcmp(line, "end") != 0 && tg__target_lives(t))
    tg__cli_say("attached   to process %d (%s), which stood still for at most %.2f ms; Ctrl-C ends the recording\n",
                t->pid, t->name, (double)t->stopped_ns / 1e6);
  wait_for_end(r, t);
  tg__attach_remove_helpers(r);
  return TG_OK;
}

int tg__cmd_attach(struct tg__cli *c) {
  struct tg__cli_recording *const r = tg__arena_get(&c->arena, sizeof *r);
  struct tg_error e = {0};
  struct tg__target t;
  if (!r) return tg__cli_no_memory(c);
  *r = (struct tg__cli_recording){.c = c};
  int status = tg__cli_recording_options(r);
  if (status < 0) status = tg__attach_choose(r, &t);
  if (status >= 0) return status;
  tg__attach_heed_signals();
  if (attach(r, &t, &e)) return tg__cli_failed(c, &e, NULL);
  tg__cli_recording_conclude(r);
  return r->packed ? TG__EXIT_OK : tg_err_status(TG_NO_EVENTS);
}
