/* no_server: what stands in for the server in a build without libwebsockets. */
#ifndef TG_WITH_SERVER
#include "serve/serve.h"

enum tg_err tg__serve_open(const struct tg__serve_options *o, struct tg__server **out, struct tg_error *e) {
  (void)o;
  *out = NULL;
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "this build has no server: install libwebsockets-dev and build again with -DTG_WITH_SERVER=ON");
}

const char *tg__serve_url(const struct tg__server *s) { return (void)s, ""; }
int tg__serve_port(const struct tg__server *s) { return (void)s, 0; }
void tg__serve_run(struct tg__server *s) { (void)s; }
void tg__serve_stop(struct tg__server *s) { (void)s; }
void tg__serve_close(struct tg__server *s) { (void)s; }
const char *tg__serve_library(void) { return NULL; }
#endif
