/* comm_calls: the collectives of one rank. */
#include "analyze/ranks/comm_calls.h"

#include <stdio.h>

#include "analyze/ranks/comm_names.h"

/* The layers of one collective on the host, from the outermost. */
struct call {
  int64_t start_ns, end_ns; /* outermost layer */
  int64_t span_start_ns, span_end_ns;
  int64_t device_start_ns, device_end_ns;
  int64_t bytes, span_bytes, sequence;
  uint32_t kind, group; /* strings of the summary; TG_NONE = not known */
  uint32_t group_size, kernels;
  bool has_span, is_host_span, is_named;
  char peers[24];
};
struct gathering {
  const struct tg__columns *t;
  uint32_t rank;
  struct tg__strings *strings;
  uint8_t *roles; /* per string of the trace: role + 1; kernels by KERNEL_ROLE + role */
  struct call *calls;
  size_t count, cap;
  struct tg__map by_slice, by_external_id;
  struct tg__spans *busy;
  bool has_kernels, has_spans, failed;
};
enum { KERNEL_ROLE = 16 };

/* ---- layers on the host ---------------------------------------------------------------------- */

static enum tg__comm_role comm_role_of(const struct tg__columns *t, uint8_t *roles, uint32_t slice) {
  const uint32_t name = t->slices.name[slice];
  if (!(roles[name] & (KERNEL_ROLE - 1))) roles[name] |= (uint8_t)(tg__comm_role(tg__name(t, name), false) + 1);
  return (enum tg__comm_role)((roles[name] & (KERNEL_ROLE - 1)) - 1);
}

static bool is_kernel(struct gathering *g, uint32_t slice, enum tg__class cls) {
  if (cls == TG__CLASS_DEVICE_OTHER) return strcmp(tg__kernel_type(g->t, slice), "COMMUNICATION") == 0;
  if (cls != TG__CLASS_KERNEL) return false;
  uint8_t *const known = &g->roles[g->t->slices.name[slice]];
  if (*known < KERNEL_ROLE)
    *known |= tg__name_is_collective_kernel(tg__name(g->t, g->t->slices.name[slice])) ? 2 * KERNEL_ROLE : KERNEL_ROLE;
  return *known & 2 * KERNEL_ROLE;
}

static bool is_host_layer(const struct tg__columns *t, uint8_t *roles, uint32_t slice) {
  const enum tg__class cls = tg__slice_class(t, slice);
  return (cls == TG__CLASS_OP || cls == TG__CLASS_ANNOTATION) && comm_role_of(t, roles, slice) != TG__COMM_NONE;
}

bool tg__comm_is_layer(const struct tg__columns *t, uint8_t *roles, uint32_t slice) {
  return is_host_layer(t, roles, slice);
}

/* The outermost layer around `slice`, itself included; TG_NONE when there is none. */
static uint32_t outermost(struct gathering *g, uint32_t slice) {
  uint32_t top = TG_NONE;
  for (uint32_t s = slice; s != TG_NONE; s = g->t->slices.parent[s])
    if (is_host_layer(g->t, g->roles, s)) top = s;
  return top;
}

static uint32_t add_text(struct gathering *g, struct tg__str s) {
  const uint32_t id = tg__strings_add(g->strings, s.ptr, s.len);
  g->failed |= id == TG_NONE;
  return id;
}

static struct call *add_call(struct gathering *g) {
  if (!tg__grow((void **)&g->calls, &g->cap, g->count + 1, sizeof *g->calls)) {
    g->failed = true;
    return NULL;
  }
  struct call *const c = &g->calls[g->count++];
  *c = (struct call){.bytes = -1, .span_bytes = -1, .sequence = -1, .kind = TG_NONE, .group = TG_NONE};
  return c;
}

/* ---- what the layers say --------------------------------------------------------------------- */

static struct tg__str arg_text(const struct tg__columns *t, uint32_t args, uint32_t key, char number[24]) {
  const uint32_t id = tg__arg_str(t, args, key);
  if (id != TG_NONE) return tg__name(t, id);
  const int64_t n = tg__arg_int(t, args, key, INT64_MIN);
  if (n == INT64_MIN) return (struct tg__str){0};
  return (struct tg__str){number, (uint32_t)snprintf(number, 24, "%lld", (long long)n)};
}

static void take_kind(struct gathering *g, struct call *c, struct tg__str name) {
  char peers[24];
  const struct tg__str kind = tg__comm_kind(name, peers);
  if (!kind.len) return;
  if (c->kind == TG_NONE) c->kind = add_text(g, kind);
  if (peers[0] && !c->peers[0]) memcpy(c->peers, peers, sizeof peers);
}

/* A group is identified by its name, purpose and members: a name is a number that may mean another group elsewhere. */
static void take_group(struct gathering *g, struct call *c, uint32_t args) {
  enum { MOST = 160 };
  char text[3 * MOST + 8], number[24];
  size_t len = 0;
  static const uint32_t keys[] = {TG__K_PROCESS_GROUP_NAME, TG__K_PROCESS_GROUP_DESCRIPTION, TG__K_PROCESS_GROUP_RANKS};
  for (size_t k = 0; k < 3 && c->group == TG_NONE; k++) {
    struct tg__str s = arg_text(g->t, args, keys[k], number);
    if (!s.len && k == 0) s = arg_text(g->t, args, TG__K_PROCESS_GROUP_ID, number);
    if (!s.len || (k == 1 && tg__str_eq(s, TG_STR("undefined")))) continue;
    if (s.len > MOST) s.len = MOST;
    if (len) text[len++] = ' ';
    memcpy(text + len, s.ptr, s.len);
    len += s.len;
  }
  if (len) c->group = add_text(g, (struct tg__str){text, (uint32_t)len});
}

/* What record_param_comms, or a kernel with its args, says. */
static void take_params(struct gathering *g, struct call *c, uint32_t args) {
  char number[24];
  const struct tg__str name = arg_text(g->t, args, TG__K_COLLECTIVE_NAME, number);
  const int64_t elements = tg__arg_int(g->t, args, TG__K_IN_MSG_NELEMS, -1),
                sequence = tg__arg_int(g->t, args, TG__K_SEQ, -1);
  if (name.len) {
    take_kind(g, c, name);
    c->is_named = c->kind != TG_NONE;
  }
  take_group(g, c, args);
  if (c->sequence < 0 && sequence >= 0) c->sequence = sequence;
  const int64_t size = tg__arg_int(g->t, args, TG__K_GROUP_SIZE, 0);
  if (size > 0 && size < UINT32_MAX) c->group_size = (uint32_t)size;
  const int64_t width = tg__dtype_bytes(arg_text(g->t, args, TG__K_DTYPE, number));
  int64_t bytes;
  if (elements < 0 || width == 0 || __builtin_mul_overflow(elements, width, &bytes)) return;
  if (c->bytes < 0 || __builtin_add_overflow(c->bytes, bytes, &c->bytes)) c->bytes = bytes;
}

static void take_span(struct gathering *g, struct call *c, uint32_t slice) {
  const struct tg__columns *t = g->t;
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  const uint32_t args = t->slices.args[slice];
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  if (!c->has_span || start < c->span_start_ns) c->span_start_ns = start;
  if (!c->has_span || end > c->span_end_ns) c->span_end_ns = end;
  c->has_span = g->has_spans = true;
  c->is_host_span |=
      tg__str_has_prefix(name, "gloo:") || tg__str_has_prefix(name, "mpi:") || tg__str_has_prefix(name, "ucc:");
  take_kind(g, c, name);
  const uint32_t dims = tg__arg_dims(t, args);
  const uint32_t types = tg__arg_str(t, args, TG__K_INPUT_TYPE);
  if (dims == TG_NONE || types == TG_NONE) return;
  const int64_t bytes = tg__tensor_bytes(tg__name(t, dims), tg__name(t, types));
  if (bytes >= 0 && (c->span_bytes < 0 || __builtin_add_overflow(c->span_bytes, bytes, &c->span_bytes)))
    c->span_bytes = bytes;
}

static void add_layer(struct gathering *g, uint32_t slice) {
  const struct tg__columns *t = g->t;
  const uint32_t top = outermost(g, slice), at = tg__map_get(&g->by_slice, top);
  struct call *const c = at == TG_NONE ? add_call(g) : &g->calls[at];
  if (!c) return;
  if (at == TG_NONE) {
    c->start_ns = t->slices.start_ns[top];
    c->end_ns = tg__slice_end(t, top);
    g->failed |= !tg__map_put(&g->by_slice, top, (uint32_t)g->count - 1);
  }
  const int64_t id = tg__arg_int(t, t->slices.args[slice], TG__K_EXTERNAL_ID, -1);
  if (id >= 0) g->failed |= !tg__map_put(&g->by_external_id, (uint64_t)id, (uint32_t)(c - g->calls));
  switch (comm_role_of(t, g->roles, slice)) {
  case TG__COMM_PARAMS:
    take_params(g, c, t->slices.args[slice]);
    break;
  case TG__COMM_SPAN:
    take_span(g, c, slice);
    break;
  default: /* the operator: its word counts only when no layer inside has one */
    break;
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static struct call *call_of_kernel(struct gathering *g, uint32_t kernel) {
  const struct tg__columns *t = g->t;
  const uint32_t cause = t->slices.cause[kernel], args = t->slices.args[kernel];
  const uint32_t top = cause == TG_NONE ? TG_NONE : outermost(g, cause);
  uint32_t at = top == TG_NONE ? TG_NONE : tg__map_get(&g->by_slice, top);
  if (at == TG_NONE && cause == TG_NONE) { /* an id that equals the correlation was made up from it and links nothing */
    const int64_t id = tg__arg_int(t, args, TG__K_EXTERNAL_ID, -1);
    if (id >= 0 && id != tg__arg_int(t, args, TG__K_CORRELATION, -1))
      at = tg__map_get(&g->by_external_id, (uint64_t)id);
  }
  if (at != TG_NONE) return &g->calls[at];
  struct call *const c = add_call(g); /* of no layer: a graph was launched, or another library than torch's asked */
  if (c) c->start_ns = c->end_ns = cause == TG_NONE ? TG_NULL_INT : t->slices.start_ns[cause];
  return c;
}

static void add_comm_kernel(struct gathering *g, uint32_t slice) {
  const struct tg__columns *t = g->t;
  struct call *const c = call_of_kernel(g, slice);
  if (!c) return;
  const int64_t start = t->slices.start_ns[slice], end = tg__slice_end(t, slice);
  const bool has_params = c->kernels++ == 0 && c->bytes < 0;
  if (has_params) take_params(g, c, t->slices.args[slice]);
  take_kind(g, c, tg__name(t, t->slices.name[slice]));
  if (c->kernels == 1 || start < c->device_start_ns) c->device_start_ns = start;
  if (c->kernels == 1 || end > c->device_end_ns) c->device_end_ns = end;
  g->has_kernels = true;
  if (g->busy) tg__spans_add(g->busy, start, end);
}

/* ---- one row a collective -------------------------------------------------------------------- */

/* When it ran: on the device; else in the host's library. A request counts only where nothing shows more. */
static bool when_it_ran(const struct gathering *g, const struct call *c, struct tg__sum_collective *out) {
  if (c->kernels) {
    out->start_ns = c->device_start_ns;
    out->end_ns = c->device_end_ns;
  } else if (c->has_span && (c->is_host_span || !g->has_kernels)) {
    out->start_ns = c->span_start_ns;
    out->end_ns = c->span_end_ns;
  } else if (!g->has_kernels && !g->has_spans) {
    out->start_ns = c->start_ns;
    out->end_ns = c->end_ns;
  } else {
    return false;
  }
  out->on_device = c->kernels > 0;
  out->call_ns = c->start_ns;
  return true;
}

static uint32_t group_text(struct gathering *g, const struct call *c) {
  const struct tg__str group = c->group == TG_NONE ? TG_STR("") : tg__strings_get(g->strings, c->group);
  char text[600];
  if (!c->peers[0]) return c->group == TG_NONE ? add_text(g, group) : c->group;
  const char *const peers = group.len ? c->peers : c->peers + 1;
  const int len = snprintf(text, sizeof text, "%.*s%s", (int)group.len, group.ptr ? group.ptr : "", peers);
  return add_text(g, (struct tg__str){text, (uint32_t)len});
}

static void put_call(struct gathering *g, const struct call *c, struct tg__rank_summary *r) {
  struct tg__sum_collective row = {
      .bytes = c->bytes >= 0 ? c->bytes : c->span_bytes, .sequence = c->sequence, .step = TG_NONE};
  if (!when_it_ran(g, c, &row)) {
    r->bare_requests += c->has_span && !c->is_host_span;
    return;
  }
  if (r->collective_count >= TG__SUM_MOST_ROWS) {
    r->dropped++;
    return;
  }
  row.kind = c->kind == TG_NONE ? add_text(g, TG_STR("unknown")) : c->kind;
  row.group = group_text(g, c);
  row.group_size = c->group_size;
  if (g->busy && !c->kernels) tg__spans_add(g->busy, row.start_ns, row.end_ns);
  r->collectives[r->collective_count++] = row;
}

/* In the order they were asked for: that is the same on all ranks, while kernels of several streams overtake one
 * another. */
static bool comm_is_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__sum_collective *const x = (const struct tg__sum_collective *)ctx + a,
                                         *const y = (const struct tg__sum_collective *)ctx + b;
  const int64_t asked = x->call_ns == TG_NULL_INT ? x->start_ns : x->call_ns,
                other = y->call_ns == TG_NULL_INT ? y->start_ns : y->call_ns;
  return asked != other ? asked < other : x->start_ns < y->start_ns;
}

/* Operators name the collective only when nothing inside them does: c10d::alltoall_base_ launches what is called
 * all_to_all. */
static void name_requests(struct gathering *g, const struct tg__track *track) {
  for (uint32_t i = track->first; i < track->first + track->count && !g->failed; i++) {
    if (!is_host_layer(g->t, g->roles, i)) continue;
    const uint32_t at = tg__map_get(&g->by_slice, i);
    if (at != TG_NONE && comm_role_of(g->t, g->roles, i) == TG__COMM_REQUEST)
      take_kind(g, &g->calls[at], tg__name(g->t, g->t->slices.name[i]));
  }
}

/* record_param_comms around no collective, such as a wait, does not count. */
static bool is_collective_call(const struct call *c) { return c->kernels || c->has_span || c->kind != TG_NONE; }

static void gather_tracks(struct gathering *g, struct tg__rank_summary *r) {
  const struct tg__rank *const rank = &g->t->ranks[g->rank];
  const struct tg__track *const tracks = g->t->tracks + rank->first_track;
  for (uint32_t k = 0; k < rank->track_count; k++)
    for (uint32_t i = tracks[k].first; i < tracks[k].first + tracks[k].count && !g->failed; i++)
      if (is_host_layer(g->t, g->roles, i)) add_layer(g, i);
  for (uint32_t k = 0; k < rank->track_count; k++) name_requests(g, &tracks[k]);
  for (uint32_t k = 0; k < rank->track_count; k++) {
    for (uint32_t i = tracks[k].first; i < tracks[k].first + tracks[k].count && !g->failed; i++) {
      const enum tg__class cls = tg__slice_class(g->t, i);
      if (!tg__class_is_device_work(cls)) continue;
      r->has_device_work = true;
      if (is_kernel(g, i, cls)) add_comm_kernel(g, i);
    }
  }
}

bool tg__comm_gather(const struct tg__columns *t, uint32_t rank, struct tg__strings *strings,
                     struct tg__rank_summary *r, struct tg__spans *busy) {
  struct gathering g = {.t = t, .rank = rank, .strings = strings, .busy = busy};
  g.roles = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  g.failed = !g.roles;
  if (!g.failed) gather_tracks(&g, r);
  r->collectives = g.failed ? NULL : tg__alloc((g.count + 1) * sizeof *r->collectives);
  g.failed |= !r->collectives;
  for (size_t i = 0; i < g.count && !g.failed; i++)
    if (is_collective_call(&g.calls[i])) put_call(&g, &g.calls[i], r);
  if (!g.failed)
    g.failed = !tg__sort_items((void **)&r->collectives, r->collective_count, sizeof *r->collectives, comm_is_earlier,
                               r->collectives);
  tg__free(g.roles);
  tg__free(g.calls);
  tg__map_free(&g.by_slice);
  tg__map_free(&g.by_external_id);
  return !g.failed;
}
