/* sites.h: what a program calls, and from where. A call is an outermost operator on a thread; a site is one line of
 * one call path that calls one operator, in one module. The work that a call causes later, in backward, counts for
 * its site. */
#ifndef TG_SITES_H
#define TG_SITES_H

#include "analyze/host/frames.h"
#include "analyze/work/op_inputs.h"
#include "diagnose/findings.h"

enum tg__call_kind {
  TG__CALL_FORWARD,
  TG__CALL_BACKWARD,   /* a node of autograd; its site is the site of the forward call */
  TG__CALL_ACCUMULATE, /* a leaf's gradient arrives */
  TG__CALL_UPDATE,     /* inside Optimizer.step */
  TG__CALL_CLEAR,      /* inside Optimizer.zero_grad */
  TG__CALL_LOAD,       /* inside the data loader's next */
};
struct tg__site_call {
  uint32_t slice, site; /* site: TG_NONE for autograd nodes of unknown origin */
  uint32_t path;        /* of a node: from where backward was called, in tg__sites.paths; 0 = unknown */
  enum tg__call_kind kind;
  bool counted;      /* inside the window of the steps */
  int64_t device_ns; /* of what it launched */
};
struct tg__site {
  uint32_t path;             /* of frames with their lines, outermost first, in tg__sites.paths; 0 = unknown */
  uint32_t name;             /* of the operator */
  uint32_t module;           /* name of the innermost nn.Module around it, TG_NONE */
  uint32_t slice;            /* in the window, its first call with the shapes that take most time of all */
  uint32_t dims, other_dims; /* texts of input shapes: those of its first call, and the first that differ; TG_NONE */
  uint32_t types;            /* of the inputs of that call */
  int64_t calls, forward_ns, shortest_ns; /* both times without the work of only one step */
  int64_t backward_calls, backward_ns, shortest_backward_ns;
  struct tg__tally forward, backward; /* what these times are worked out from */
  enum tg__call_kind kind;
  bool reported; /* a finding exists for it: general rules for loops skip it */
};
struct tg__sites {
  struct tg__facts *f;
  struct tg__paths paths;
  struct tg__site_call *calls; /* by track, then start */
  size_t call_count, call_cap;
  struct tg__site *sites;
  size_t count, cap;
  struct tg__map modules; /* name → how often it was entered in the window */
  bool failed;
};
/* All of the rank of f. *out is to be closed either way. */
void tg__sites_open(struct tg__facts *f, struct tg__sites *out);
void tg__sites_close(struct tg__sites *s);

/* What a call costs: the device's time where the device is what takes long, else the host's. */
static inline int64_t tg__call_ns(const struct tg__sites *s, const struct tg__site_call *c) {
  return s->f->device_bound ? c->device_ns : s->f->t->slices.dur_ns[c->slice];
}
static inline int64_t tg__site_ns(const struct tg__site *x) { return x->forward_ns + x->backward_ns; }
/* In the window: a call of the program, of a known site; a node of autograd. */
static inline bool tg__is_forward(const struct tg__site_call *c) {
  return c->counted && c->kind == TG__CALL_FORWARD && c->site != TG_NONE;
}
static inline bool tg__is_node(const struct tg__site_call *c) {
  return c->kind == TG__CALL_BACKWARD || c->kind == TG__CALL_ACCUMULATE;
}
uint32_t tg__forward_of(const struct tg__columns *t, uint32_t node); /* the operator that made it; TG_NONE */
struct tg__str tg__site_name(const struct tg__sites *s, const struct tg__site *x);
/* The innermost frame of the program in a path; empty when there is none. */
struct tg__str tg__site_frame(const struct tg__sites *s, const struct tg__site *x);
/* A function of the program as called from one place: the frames around it with their lines, and itself without. 0:
 * no such function. */
uint64_t tg__frame_key(const struct tg__sites *s, uint32_t path);
/* The key of the innermost function of the program in a path, and where that frame is in it (at may be NULL); 0. */
uint64_t tg__site_function(const struct tg__sites *s, const struct tg__site *x, uint32_t *at);
/* That frame in its path; 0. */
uint32_t tg__site_in_frame(const struct tg__sites *s, const struct tg__site *x, uint64_t key);
/* The innermost function of a path that also calls the site; 0: none. */
uint64_t tg__common_frame(const struct tg__sites *s, uint32_t path, uint32_t site);
/* Says where: the operator, and the line of the program; in the function `key` where that is not 0. */
void tg__say_site(const struct tg__sites *s, uint32_t site, uint64_t key, struct tg__finding *out);
/* Time and calls of the sites marked in `in`, and the one that costs most; TG_NONE without any. */
uint32_t tg__sum_sites(const struct tg__sites *s, const bool *in, int64_t *ns, int64_t *calls);
/* A new finding of a cause that takes so much time over all steps, most of it at the site `top`; NULL where that is
 * TG_NONE, or the time not above least_pct of all steps. */
struct tg__finding *tg__find_at(const struct tg__sites *s, enum tg__cause cause, double least_pct, int64_t sum_ns,
                                uint32_t top);
/* The finding claims the sites marked in `in`, and general rules for loops skip them. */
void tg__report_sites(struct tg__sites *s, const bool *in, struct tg__finding *x);
/* The time between the calls i - 1 and i, where both are of sites marked in `in`; 0. */
int64_t tg__pause_before(const struct tg__sites *s, size_t i, const bool *in);
/* The text where one of the sites marked in `in` has work in backward, else an empty one. */
const char *tg__if_backward(const struct tg__sites *s, const bool *in, const char *text);
bool tg__is_zero_grad(struct tg__str name); /* the range of an optimizer's zero_grad() */
/* "file.py(12): f" split into "file.py", "12" and "f"; false when it is not of that form. */
struct tg__frame_parts {
  struct tg__str file, line, function;
};
bool tg__frame_split(struct tg__str frame, struct tg__frame_parts *out);
/* The arguments of a call: of the operator itself or the first one inside that has them. TG_NONE. */
uint32_t tg__call_arg(const struct tg__sites *s, uint32_t slice, uint32_t key);
unsigned tg__call_shapes(const struct tg__sites *s, uint32_t slice, struct tg__shape shapes[]); /* TG_INPUTS of them */

#endif
