/* tachograph view: the page of one trace or several, served on this machine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "serve/serve.h"

static struct tg__server *running; /* for the handler of signals */

static void stop(int signal_number) {
  (void)signal_number;
  tg__serve_stop(running);
}

static void stop_on_signals(struct tg__server *s) {
  running = s;
  struct sigaction action = {.sa_handler = stop};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* xdg-open and open return at once; without a display, as over SSH, there is nothing to open. */
static void open_browser(const char *url) {
#ifdef __APPLE__
  const char *const argv[] = {"open", url, NULL};
#else
  const char *const argv[] = {"xdg-open", url, NULL};
  if (!tg__getenv("DISPLAY") && !tg__getenv("WAYLAND_DISPLAY")) return;
#endif
  char said[8];
  tg__program_says(argv, said, sizeof said);
}

static void say_where(const struct tg__cli *c, const struct tg__server *s, const char *url) {
  if (tg__cli_wants_json(c)) {
    struct tg__out out = {0};
    struct tg__jsonw w = {.out = &out};
    tg__json_open(&w, '{');
    tg__json_key(&w, "url");
    tg__json_cstr(&w, url);
    tg__json_key(&w, "port");
    tg__json_int(&w, tg__serve_port(s));
    tg__json_key(&w, "process");
    tg__json_int(&w, (int64_t)tg__process_number());
    tg__json_close(&w, '}');
    printf("%.*s\n", (int)out.len, out.buf);
    tg__out_free(&out);
  } else {
    printf("%s\n", url);
    tg__cli_say(
        "From another machine: ssh -L %d:127.0.0.1:%d THIS-MACHINE, then open the address there. Ctrl-C ends it.\n",
        tg__serve_port(s), tg__serve_port(s));
  }
  fflush(stdout);
}

int tg__cli_serve(struct tg__cli *c, const char *const *paths, size_t count, int port, int64_t slices) {
  const struct tg__serve_options o = {.paths = paths,
                                      .path_count = count,
                                      .threads = c->threads,
                                      .slices = slices,
                                      .port = port,
                                      .web = tg__cli_setting(c, "web")};
  struct tg_error e = {0};
  struct tg__server *s;
  if (tg__serve_open(&o, &s, &e)) return tg__cli_failed(c, &e, tg__serve_library() ? NULL : "tachograph report");
  stop_on_signals(s);
  const char *const view = tg__cli_setting(c, "at");
  struct tg__out url = {0};
  tg__out_format(&url, "%s%s", tg__serve_url(s), view ? view : "");
  tg__out_char(&url, 0);
  if (!url.err) {
    say_where(c, s, url.buf);
    if (!tg__cli_setting(c, "no-browser") && !tg__cli_wants_json(c)) open_browser(url.buf);
    tg__serve_run(s);
  }
  tg__out_free(&url);
  tg__serve_close(s);
  return TG__EXIT_OK;
}

int tg__cmd_view(struct tg__cli *c) {
  const char *const port = tg__cli_setting(c, "port"), *const slices = tg__cli_setting(c, "slices");
  int64_t number = 0, most = 0;
  if (!c->operand_count) return tg__cli_usage(c, "tachograph help view", "view needs a trace");
  if (port &&
      (!tg__str_to_int((struct tg__str){port, (uint32_t)strlen(port)}, &number) || number < 0 || number > 65535))
    return tg__cli_usage(c, "tachograph help view", "--port is a number from 0 to 65535, not '%s'", port);
  if (slices && (!tg__str_to_int((struct tg__str){slices, (uint32_t)strlen(slices)}, &most) || most < 1))
    return tg__cli_usage(c, "tachograph help view", "--slices is a number above 0, not '%s'", slices);
  const char *const view = tg__cli_setting(c, "at");
  if (view && strncmp(view, "#/", 2) != 0)
    return tg__cli_usage(c, "tachograph help view", "--at is a view such as '#/timeline?step=5', not '%s'", view);
  struct tg_error e = {0};
  for (size_t i = 0; i < c->operand_count; i++) /* a missing file is reported here, not in a page */
    if (!strpbrk(c->operands[i], "*?[") && tg__path_kind(c->operands[i]) == TG__PATH_NONE) {
      tg__fail(&e, TG_NOT_FOUND, -1, "%s: there is no such file", c->operands[i]);
      return tg__cli_failed(c, &e, NULL);
    }
  return tg__cli_serve(c, c->operands, c->operand_count, (int)number, most);
}
