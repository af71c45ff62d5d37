/* host: the traces of a server, read in the background, and the calls about them. Knows nothing of sockets. */
#ifndef TG_HOST_H
#define TG_HOST_H

#include "serve/serve.h"
#include "view/view.h"

enum tg__trace_state { TG__TRACE_READING, TG__TRACE_INDEXING, TG__TRACE_READY, TG__TRACE_FAILED };
/* A trace as it was read once. A recording that goes on is read again and again: each reading takes the place of the
 * one before it, which stays until the last call about it is answered. */
struct tg__loaded {
  const char *path, *name;
  uint32_t number; /* the generation, from 1 */
  uint32_t users;  /* calls being answered, and one while it is the present one; under host->lock */
  /* under host->lock: */
  bool is_open, is_loaded; /* questions can be asked; all that details need is in memory */
  /* Written once, before one of the two above says so: */
  struct tg_error error;
  struct tg_trace *trace;
  struct tg__columns *columns;
  struct tg__view *view;
  struct tg__series_set *series;
  struct tg__slice_classes tile_classes, classes; /* of the thread that answers tiles; of the one that looks */
  struct tg__lock *engine;                        /* held while a question is answered and while columns are loaded */
};
struct tg__hosted {
  const char *path, *name;
  struct tg__host *host;
  /* under host->lock: */
  enum tg__trace_state state;
  int64_t bytes_done, bytes; /* bytes: -1 unknown */
  struct tg__loaded *now;    /* never NULL */
  bool is_recording;
  int64_t read_ns;        /* when the present generation was complete, by tg__clock_ns; 0 = not yet */
  struct tg_error remark; /* a sentence about a recording that stands still or did not end by being closed; "" = none */
};
struct tg__host {
  const struct tg__serve_options *options;
  struct tg__lock *lock;
  struct tg__hosted *traces;
  size_t count;
  bool is_stopping;
  void (*changed)(void *ctx); /* a state has changed; from any thread, without the lock */
  void *ctx;
};
enum tg_err tg__host_open(struct tg__host *h, const struct tg__serve_options *o, struct tg_error *e);
void tg__host_close(struct tg__host *h);
/* Reads all traces, then follows the recordings among them; returns when none goes on or the host is stopping. */
void tg__host_load(struct tg__host *h);
void tg__host_follow(struct tg__host *h);                                       /* follow.c: the second half of that */
struct tg__loaded *tg__loaded_new(const struct tg__hosted *t, uint32_t number); /* one user; NULL on no memory */
/* Opens and indexes it. TG_OK also for a trace without a timeline: then `error` says why. Once it is the present one,
 * its states are sent as they come. */
enum tg_err tg__loaded_read(struct tg__loaded *l, struct tg__hosted *t);
struct tg__loaded *tg__loaded_hold(struct tg__hosted *t); /* the present one, until dropped */
void tg__loaded_drop(struct tg__host *h, struct tg__loaded *l);
void tg__host_stop(struct tg__host *h);

/* ---- calls (message.c, answer.c) ----------------------------------------------------------------- */

enum { TG__MESSAGE_MOST = 64 << 10, TG__TILES_MOST = 1024, TG__NAMES_MOST = 4096 };

enum tg__lane {
  TG__LANE_NOW,
  TG__LANE_ASK,
  TG__LANE_LOOK,
  TG__LANES
}; /* which thread answers: the network's, that of questions, that of looks */
struct tg__message {
  char *text; /* the JSON object; owned */
  uint32_t len;
  uint32_t id, trace;
  bool has_id;
  const struct tg__message_kind *kind;
  struct tg__loaded *loaded;  /* of its trace, held while it is answered */
  volatile bool is_cancelled; /* set while it is answered: what can be stopped stops */
};
struct tg__reply {
  struct tg__out out;
  bool is_binary;
};
struct tg__message_kind {
  const char *name;
  enum tg__lane lane;
  void (*answer)(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
};
/* Takes a copy of the text. TG_USAGE with a sentence when it is no call; then m->id is set where it has one. */
enum tg_err tg__message_read(const char *text, size_t len, struct tg__message *m, struct tg_error *e);
void tg__message_free(struct tg__message *m);
/* Can it be answered now, or must it wait for its trace? With h->lock held. */
bool tg__message_is_due(struct tg__host *h, const struct tg__message *m);
void tg__message_answer(struct tg__host *h, struct tg__message *m, struct tg__reply *r);
void tg__reply_error(struct tg__reply *r, const struct tg__message *m, const char *code, const char *text);
void tg__reply_state_event(struct tg__host *h, struct tg__reply *r);
uint32_t tg__message_id_of(const struct tg__message *m, const char *member); /* of another call; TG_NONE */

/* Members of the message: */
struct tg__str tg__message_raw(const struct tg__message *m, const char *member);
/* false: it is no number. */
bool tg__message_int(const struct tg__message *m, const char *member, int64_t fallback, int64_t *out);
/* Text with its escapes resolved, NUL-terminated, from tg__alloc; NULL: absent, no string, or no memory. */
char *tg__message_text(const struct tg__message *m, const char *member);
char *tg__json_text(struct tg__str raw, size_t *len);

/* What the answers share: how a reply begins and ends. */
struct tg__jsonw tg__reply_begin(struct tg__reply *r, const struct tg__message *m);
void tg__reply_end(struct tg__reply *r, struct tg__jsonw *w);
void tg__reply_error_object(const struct tg_error *e, struct tg__jsonw *w); /* {"code": …, "text": …} */
void tg__reply_failed(struct tg__reply *r, const struct tg__message *m, const struct tg_error *e);
/* The trace a call is about, in the state it needs: tiles=true: its index; else all that details need. NULL:
 * refused. */
struct tg__loaded *tg__reply_trace(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);

void tg__reply_reference(struct tg__loaded *t, uint32_t slice, struct tg__jsonw *w);
/* start_ns and end_ns (all of the trace when absent) and tracks of a call; false: they make no sense, or no memory. */
struct tg__window_of {
  int64_t start_ns, end_ns;
  bool *tracks; /* NULL = all; from tg__alloc */
};
bool tg__message_window(const struct tg__message *m, const struct tg__loaded *t, struct tg__window_of *out);
void tg__reply_table(struct tg__reply *r, const struct tg__message *m, const struct tg_table *table);
void tg__reply_state(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_ask(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_tracks(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_tiles(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_names(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_slice(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_search(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_flows(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_aggregate(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_source(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);
void tg__reply_save(struct tg__host *h, const struct tg__message *m, struct tg__reply *r);

#endif
