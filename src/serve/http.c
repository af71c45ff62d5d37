/* http: the only file that knows libwebsockets. One thread talks to all clients and answers what is quick, tiles among
 * them; two more answer questions and looks; one reads the traces. Queues are bounded: a client has 64 calls under way,
 * 64 MiB of replies it has not read, and no more than 64 KiB of a call are kept. */
#include <libwebsockets.h>
#include <stdio.h>

#include "serve/gate.h"
#include "serve/call_queue.h"
#include "serve/web_files.h"

enum {
  CLIENTS = 32,
  CONNECTIONS = 512, /* those that have not shown the token among them */
  SILENT_S = 3,      /* then one without a request is closed */
  UNDER_WAY = 64,
  UNREAD_MOST = 64 << 20,
  HEAD_MOST = 2048,
  BUFFER = 64 << 10,
  STATE_EVERY_US = 100000,
};

struct parcel { /* on its way to a client; LWS_PRE bytes are free before the text */
  struct parcel *next;
  size_t len;
  bool is_binary;
  unsigned char bytes[];
};
/* One connection. Ours, not the library's: it frees what it keeps for a connection between two requests of it. */
struct client {
  struct client *next;
  struct lws *wsi;
  uint64_t number;
  struct tg__server *server;
  bool is_socket, is_refused, is_over; /* refused: the body of its request is dropped; over: it is to be closed */
  struct parcel *first, *last;
  size_t unread;
  unsigned under_way;
  struct tg__out incoming;
  bool state_due;
};
struct tg__server {
  struct tg__serve_options options;
  struct tg__host host;
  struct tg__queue queue;
  struct lws_context *context;
  struct lws_protocols protocols[2];
  struct client *clients;
  uint64_t last_number;
  volatile bool is_stopping;
  bool event_planned;        /* of the network's thread */
  volatile bool has_changed; /* of any */
  lws_sorted_usec_list_t state_event;
  int port;
  char token[TG__TOKEN_TEXT];
  char url[64];
};

/* ---- clients ----------------------------------------------------------------------------------------- */

static void drop_parcels(struct client *c) {
  for (struct parcel *p = c->first, *next; p; p = next) {
    next = p->next;
    tg__free(p);
  }
  c->first = c->last = NULL;
  c->unread = 0;
}

/* The connection may go on with another request. */
static void forget_request(struct client *c) {
  tg__queue_forget(&c->server->queue, c->number);
  drop_parcels(c);
  tg__out_free(&c->incoming);
}

static struct client *client_of(struct tg__server *s, const struct lws *wsi) {
  struct client *c = s->clients;
  while (c && c->wsi != wsi) c = c->next;
  return c;
}

static size_t count_clients(const struct tg__server *s) {
  size_t count = 0;
  for (const struct client *c = s->clients; c; c = c->next) count++;
  return count;
}

/* A new connection, or a new request of one. NULL: there are as many as can be served, or no memory. */
static struct client *meet(struct tg__server *s, struct lws *wsi) {
  struct client *c = client_of(s, wsi);
  if (c)
    forget_request(c);
  else {
    c = count_clients(s) < CLIENTS ? tg__alloc(sizeof *c) : NULL;
    if (!c) return NULL;
    c->next = s->clients;
    s->clients = c;
  }
  *c = (struct client){.wsi = wsi, .server = s, .number = ++s->last_number, .next = c->next};
  return c;
}

static void part(struct tg__server *s, struct client *c) {
  for (struct client **at = &s->clients; *at; at = &(*at)->next)
    if (*at == c) {
      *at = c->next;
      break;
    }
  forget_request(c);
  tg__free(c);
}

static struct client *find_client(struct tg__server *s, uint64_t number) {
  for (struct client *c = s->clients; c; c = c->next)
    if (c->number == number) return c;
  return NULL;
}

/* Without waiting until it can be written to: a client that does not read never can. */
static void close_soon(struct client *c) {
  c->is_over = true;
  lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

/* false: it is to be closed. */
static bool post(struct client *c, const char *bytes, size_t len, bool is_binary) {
  struct parcel *const p = c->unread + len > UNREAD_MOST ? NULL : tg__alloc(sizeof *p + LWS_PRE + len);
  if (!p) {
    close_soon(c);
    return false;
  }
  memcpy(p->bytes + LWS_PRE, bytes, len);
  p->len = len;
  p->is_binary = is_binary;
  p->next = NULL;
  if (c->last)
    c->last->next = p;
  else
    c->first = p;
  c->last = p;
  c->unread += len;
  lws_callback_on_writable(c->wsi);
  return true;
}

/* ---- HTTP -------------------------------------------------------------------------------------------- */

static bool add_header(struct lws *wsi, const char *name, const char *value, unsigned char **p, unsigned char *end) {
  return !lws_add_http_header_by_name(wsi, (const unsigned char *)name, (const unsigned char *)value,
                                      (int)strlen(value), p, end);
}

/* Head and body; the body is sent when the client can take it. */
static int respond(struct client *c, unsigned status, const char *type, const char *body, size_t len, bool is_binary) {
  static const char policy[] = "default-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
                               "form-action 'none'; frame-ancestors 'self' "
                               "http://localhost:* http://127.0.0.1:*; object-src 'none'";
  unsigned char buffer[LWS_PRE + HEAD_MOST], *const start = buffer + LWS_PRE,
                                                    *p = start, *const end = buffer + sizeof buffer - 1;
  struct lws *const wsi = c->wsi;
  if (lws_add_http_header_status(wsi, status, &p, end) || !add_header(wsi, "content-type:", type, &p, end) ||
      lws_add_http_header_content_length(wsi, (lws_filepos_t)len, &p, end) ||
      !add_header(wsi, "content-security-policy:", policy, &p, end) ||
      !add_header(wsi, "x-content-type-options:", "nosniff", &p, end) ||
      !add_header(wsi, "referrer-policy:", "no-referrer", &p, end) ||
      !add_header(wsi, "cache-control:", "no-store", &p, end) || lws_finalize_write_http_header(wsi, start, &p, end))
    return 1;
  return post(c, body, len, is_binary) ? 0 : 1;
}

static int refuse(struct client *c, unsigned status, const char *text) {
  c->is_refused = true;
  return respond(c, status, "text/plain; charset=utf-8", text, strlen(text), false);
}

static struct tg__str header(struct lws *wsi, enum lws_token_indexes token, char *buffer, int size) {
  const int len = lws_hdr_total_length(wsi, token);
  if (len <= 0) return TG_STR("");
  if (len >= size || lws_hdr_copy(wsi, buffer, size, token) < 0) return TG_STR("?"); /* too long to be one of ours */
  return (struct tg__str){buffer, (uint32_t)len};
}

/* Why the request is refused; NULL: it is not. */
static const char *fault_of(struct lws *wsi) {
  char host[256], origin[256];
  const struct tg__str h = header(wsi, WSI_TOKEN_HOST, host, sizeof host),
                       o = header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin);
  if (!tg__host_is_local(h)) return "this server only answers requests to 127.0.0.1 and localhost\n";
  return tg__origin_is_ours(o, h) ? NULL : "this request comes from a page of another origin\n";
}

static int serve_file(struct client *c, struct tg__str rest) {
  const struct tg__str path = rest.len ? rest : TG_STR("index.html");
  struct tg__out file = {0};
  const bool found = tg__web_read(c->server->options.web, path, &file) && !file.err;
  const int status = found ? respond(c, HTTP_STATUS_OK, tg__content_type(path), file.buf, file.len, true)
                           : refuse(c, HTTP_STATUS_NOT_FOUND, "there is no such page\n");
  tg__out_free(&file);
  return status;
}

static int begin_request(struct client *c, const char *uri) {
  const char *const fault = fault_of(c->wsi);
  if (fault) return refuse(c, HTTP_STATUS_FORBIDDEN, fault);
  const struct tg__str rest = tg__behind_token((struct tg__str){uri, (uint32_t)strlen(uri)}, c->server->token);
  if (!rest.ptr)
    return refuse(c, HTTP_STATUS_FORBIDDEN, "wrong token: open the address that tachograph view printed\n");
  if (lws_hdr_total_length(c->wsi, WSI_TOKEN_GET_URI) > 0) return serve_file(c, rest);
  if (lws_hdr_total_length(c->wsi, WSI_TOKEN_POST_URI) <= 0 || !tg__str_eq(rest, TG_STR("api")))
    return refuse(c, HTTP_STATUS_METHOD_NOT_ALLOWED, "GET a page or POST to api\n");
  char length[32];
  const struct tg__str text = header(c->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, length, sizeof length);
  int64_t bytes;
  if (!tg__str_to_int(text, &bytes) || bytes < 0 || bytes > TG__MESSAGE_MOST)
    return refuse(c, HTTP_STATUS_REQ_ENTITY_TOO_LARGE, "a call has at most 64 KiB\n");
  return 0; /* the body follows */
}

/* ---- calls ------------------------------------------------------------------------------------------- */

static int send_reply(struct client *c, struct tg__reply *r, unsigned status) {
  if (c->is_socket) return post(c, r->out.buf, r->out.len, r->is_binary) ? 0 : -1;
  return respond(c, status, r->is_binary ? "application/octet-stream" : "application/json", r->out.buf, r->out.len,
                 r->is_binary);
}

static int answer_now(struct client *c, struct tg__message *m, const char *code, const char *text, unsigned status) {
  struct tg__reply r = {0};
  if (code)
    tg__reply_error(&r, m, code, text);
  else
    tg__message_answer(&c->server->host, m, &r);
  const int result = send_reply(c, &r, status);
  tg__out_free(&r.out);
  return result;
}

static int take_call(struct client *c, const char *text, size_t len) {
  struct tg__message m;
  struct tg_error e = {0};
  int status = 0;
  const enum tg_err err = tg__message_read(text, len, &m, &e);
  if (err) {
    status = answer_now(c, &m, err == TG_MEMORY ? "memory" : "malformed", e.text, HTTP_STATUS_BAD_REQUEST);
  } else if (m.kind->lane == TG__LANE_NOW) {
    const uint32_t of = tg__message_id_of(&m, "of");
    if (of != TG_NONE && strcmp(m.kind->name, "cancel") == 0) tg__queue_cancel(&c->server->queue, c->number, of);
    status = answer_now(c, &m, NULL, NULL, HTTP_STATUS_OK);
  } else if (c->under_way >= UNDER_WAY) {
    status = answer_now(c, &m, "busy", "64 calls are under way; wait for a reply", HTTP_STATUS_OK);
  } else {
    struct tg__job *const job = tg__alloc(sizeof *job);
    if (job) {
      *job = (struct tg__job){.client = c->number, .message = m};
      c->under_way++;
      tg__queue_put(&c->server->queue, job);
      return 0;
    }
    status = answer_now(c, &m, "memory", "out of memory for a call", HTTP_STATUS_OK);
  }
  tg__message_free(&m);
  return status;
}

static void hand_out_replies(struct tg__server *s) {
  for (struct tg__job *job = tg__queue_take(&s->queue), *next; job; job = next) {
    next = job->next;
    struct client *const c = find_client(s, job->client);
    if (c) {
      c->under_way--;
      if (send_reply(c, &job->reply, HTTP_STATUS_OK)) close_soon(c);
    }
    tg__job_free(job);
  }
}

/* ---- events ------------------------------------------------------------------------------------------ */

static void plan_state(lws_sorted_usec_list_t *sul) {
  struct tg__server *const s = lws_container_of(sul, struct tg__server, state_event);
  s->event_planned = false;
  for (struct client *c = s->clients; c; c = c->next)
    if (c->is_socket) {
      c->state_due = true;
      lws_callback_on_writable(c->wsi);
    }
}

static void wake(void *ctx) { lws_cancel_service(((struct tg__server *)ctx)->context); }

static void note_change(void *ctx) {
  struct tg__server *const s = ctx;
  s->has_changed = true;
  wake(s);
}

static void woken(struct tg__server *s) {
  hand_out_replies(s);
  if (!s->has_changed || s->event_planned) return;
  s->has_changed = false;
  s->event_planned = true;
  lws_sul_schedule(s->context, 0, &s->state_event, plan_state, STATE_EVERY_US);
}

static bool post_state(struct client *c) {
  struct tg__reply r = {0};
  c->state_due = false;
  tg__reply_state_event(&c->server->host, &r);
  const bool ok = !r.out.err && post(c, r.out.buf, r.out.len, false);
  tg__out_free(&r.out);
  return ok;
}

/* ---- callbacks --------------------------------------------------------------------------------------- */

/* One parcel a call, as the library asks for. */
static int write_next(struct client *c) {
  if (c->is_over) return -1;
  if (c->is_socket && c->state_due && !c->first && !post_state(c)) return -1;
  struct parcel *const p = c->first;
  if (!p) return 0;
  c->first = p->next;
  if (!c->first) c->last = NULL;
  c->unread -= p->len;
  const enum lws_write_protocol how = !c->is_socket  ? LWS_WRITE_HTTP_FINAL
                                      : p->is_binary ? LWS_WRITE_BINARY
                                                     : LWS_WRITE_TEXT;
  const int written = lws_write(c->wsi, p->bytes + LWS_PRE, p->len, how);
  const bool ok = written >= (int)p->len;
  tg__free(p);
  if (!ok) return -1;
  if (c->first || c->state_due) lws_callback_on_writable(c->wsi);
  return c->is_socket ? 0 : 1; /* 1: the response is complete */
}

static int gather(struct client *c, const void *in, size_t len) {
  if (c->incoming.len + len > TG__MESSAGE_MOST) return -1;
  tg__out_bytes(&c->incoming, in, len);
  return c->incoming.err ? -1 : 0;
}

static int take_gathered(struct client *c) {
  const int status = take_call(c, c->incoming.len ? c->incoming.buf : "", c->incoming.len);
  tg__out_free(&c->incoming);
  c->incoming = (struct tg__out){0};
  return status;
}

static int receive(struct client *c, const void *in, size_t len) {
  if (gather(c, in, len)) {
    lws_close_reason(c->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, NULL, 0);
    return -1;
  }
  if (!lws_is_final_fragment(c->wsi) || lws_remaining_packet_payload(c->wsi)) return 0;
  return take_gathered(c);
}

/* Upgrades to a WebSocket: the same gate, and the one path. */
static int confirm_upgrade(struct tg__server *s, struct lws *wsi) {
  char uri[256];
  const struct tg__str path = header(wsi, WSI_TOKEN_GET_URI, uri, sizeof uri), rest = tg__behind_token(path, s->token);
  if (!fault_of(wsi) && rest.ptr && tg__str_eq(rest, TG_STR("ws"))) return 0;
  lws_return_http_status(wsi, HTTP_STATUS_FORBIDDEN, NULL);
  return -1;
}

static int serve_http(struct client *c, enum lws_callback_reasons reason, const void *in, size_t len) {
  switch (reason) {
  case LWS_CALLBACK_HTTP_BODY:
    return c->is_refused ? 0 : gather(c, in, len); /* closing before the reply is out would lose the reply */
  case LWS_CALLBACK_HTTP_BODY_COMPLETION:
    return c->is_refused ? 0 : take_gathered(c) ? -1 : 0;
  case LWS_CALLBACK_HTTP_WRITEABLE: {
    const int done = write_next(c);
    return done < 0 || (done && lws_http_transaction_completed(c->wsi)) ? -1 : 0;
  }
  case LWS_CALLBACK_RECEIVE:
    return receive(c, in, len);
  case LWS_CALLBACK_SERVER_WRITEABLE:
    return write_next(c);
  default:
    return 0;
  }
}

static int begin_socket(struct client *c) {
  c->is_socket = c->state_due = true;
  lws_callback_on_writable(c->wsi);
  return 0;
}

static int callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len) {
  struct tg__server *const s = lws_context_user(lws_get_context(wsi));
  struct client *c;
  (void)user;
  switch (reason) {
  case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
    woken(s);
    return 0;
  case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
    return confirm_upgrade(s, wsi);
  case LWS_CALLBACK_HTTP:
    c = meet(s, wsi);
    return c ? begin_request(c, in) : -1;
  case LWS_CALLBACK_ESTABLISHED:
    c = meet(s, wsi);
    return c ? begin_socket(c) : -1;
  case LWS_CALLBACK_CLOSED:
  case LWS_CALLBACK_CLOSED_HTTP:
  case LWS_CALLBACK_WSI_DESTROY:
    c = client_of(s, wsi);
    if (c) part(s, c);
    return 0;
  default:
    c = client_of(s, wsi);
    return c ? serve_http(c, reason, in, len) : 0;
  }
}

/* ---- the server -------------------------------------------------------------------------------------- */

static void make_token(struct tg__server *s) {
  static const char digits[] = "0123456789abcdef";
  unsigned char random[TG__TOKEN_BYTES];
  lws_get_random(s->context, random, sizeof random);
  for (int i = 0; i < TG__TOKEN_BYTES; i++) {
    s->token[2 * i] = digits[random[i] >> 4];
    s->token[2 * i + 1] = digits[random[i] & 15];
  }
}

enum tg_err tg__serve_open(const struct tg__serve_options *o, struct tg__server **out, struct tg_error *e) {
  struct tg__server *const s = *out = tg__alloc(sizeof *s);
  if (!s) return tg__no_memory(e, "starting the server");
  s->options = *o;
  enum tg_err err = tg__host_open(&s->host, &s->options, e);
  s->queue = (struct tg__queue){.host = &s->host, .ready = wake, .ctx = s};
  s->protocols[0] = (struct lws_protocols){.name = "tachograph", .callback = callback, .rx_buffer_size = BUFFER};
  lws_set_log_level(0, NULL);
  const struct lws_context_creation_info info = {
      .port = o->port,
      .iface = "127.0.0.1",
      .protocols = s->protocols,
      .gid = (gid_t)-1,
      .uid = (uid_t)-1,
      .user = s,
      .pt_serv_buf_size = BUFFER,
      .fd_limit_per_thread = CONNECTIONS, /* else the library makes room for as many as the system allows */
      .timeout_secs = SILENT_S,
      .options = LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND | LWS_SERVER_OPTION_DISABLE_IPV6,
  };
  if (!err) s->context = lws_create_context(&info);
  if (!err && !s->context)
    err = tg__fail(e, TG_IO, -1, "port %d of 127.0.0.1 is taken or not allowed: choose another with --port", o->port);
  if (err) {
    tg__serve_close(s);
    *out = NULL;
    return err;
  }
  s->host.changed = note_change;
  s->host.ctx = s;
  s->port = lws_get_vhost_listen_port(lws_get_vhost_by_name(s->context, "default"));
  make_token(s);
  snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/%s/", s->port, s->token);
  return TG_OK;
}

static void talk(struct tg__server *s) {
  while (!s->is_stopping && lws_service(s->context, 0) >= 0) continue;
  tg__host_stop(&s->host);
}

static void work(void *ctx, size_t i) {
  struct tg__server *const s = ctx;
  switch (i) {
  case 0:
    talk(s);
    return;
  case 1:
    tg__host_load(&s->host);
    return;
  case 2:
    tg__queue_work(&s->queue, TG__LANE_ASK);
    return;
  default:
    tg__queue_work(&s->queue, TG__LANE_LOOK);
  }
}

void tg__serve_run(struct tg__server *s) { tg__threads_run(4, 4, work, s); }

void tg__serve_stop(struct tg__server *s) {
  s->is_stopping = true;
  if (s->context) lws_cancel_service(s->context);
}

void tg__serve_close(struct tg__server *s) {
  if (!s) return;
  if (s->context) lws_context_destroy(s->context);
  while (s->clients) part(s, s->clients);
  tg__queue_close(&s->queue);
  tg__host_close(&s->host);
  tg__free(s);
}

const char *tg__serve_url(const struct tg__server *s) { return s->url; }
int tg__serve_port(const struct tg__server *s) { return s->port; }
const char *tg__serve_library(void) { return "libwebsockets " LWS_LIBRARY_VERSION; }
