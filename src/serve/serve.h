/* serve: the page's transport: HTTP and WebSocket on 127.0.0.1 by libwebsockets, and the calls of docs/viewer-api.md.
 * Their numbers come from the questions and from src/view. */
#ifndef TG_SERVE_H
#define TG_SERVE_H

#include "base/base.h"
#include "tachograph/read.h"

struct tg__serve_options {
  const char *const *paths; /* traces, as tg_open takes them */
  size_t path_count;
  unsigned threads; /* for reading; 0 = one per usable core */
  int64_t slices;   /* most on the timeline of a folder that is read rank by rank; 0 = 20 million */
  int port;         /* 0 = any that is free */
  const char *web;  /* a folder to serve in place of the pages inside the program; NULL = those */
};
struct tg__server;
/* Binds the port; from then on clients may connect, and are answered when it runs. TG_UNSUPPORTED in a build without
 * the library. The options must live as long. */
enum tg_err tg__serve_open(const struct tg__serve_options *o, struct tg__server **out, struct tg_error *e);
const char *tg__serve_url(const struct tg__server *s);
int tg__serve_port(const struct tg__server *s);
void tg__serve_run(struct tg__server *s);   /* reads the traces and answers until it is stopped */
void tg__serve_stop(struct tg__server *s);  /* from any thread, and from a handler of signals */
void tg__serve_close(struct tg__server *s); /* NULL is fine */
const char *tg__serve_library(void);        /* its name and version; NULL in a build without it */

#endif
