/* samples: what the thread of the loop does in stretches without an operator, as the recorder sampled it: in which
 * function, on a core or waiting, and for what. */
#include "diagnose/samples.h"

#include "diagnose/sites.h"

enum { LEAST_SAMPLES = 3, LEAST_OF_WORKERS = 10, LEAST_PART = 10 };

/* ---- what it does ---------------------------------------------------------------------------- */

static const struct {
  const char *text; /* of a frame anywhere in the stack, or of what C is called there */
  enum tg__doing doing;
} marks[] = {
    {"subprocess.py(", TG__DOING_SUBPROCESS},
    {"multiprocessing/connection.py(", TG__DOING_PIPE},
    {"multiprocessing/queues.py(", TG__DOING_PIPE},
    {"socket.py(", TG__DOING_SOCKET},
    {"ssl.py(", TG__DOING_SOCKET},
    {"http/client.py(", TG__DOING_SOCKET},
};

/* Calls of C that wait, as Python and the profilers of torch name them. */
static const struct {
  const char *name;
  enum tg__doing doing;
} waits[] = {
    {"function sleep>", TG__DOING_SLEEP},
    {"method sleep of", TG__DOING_SLEEP},
    {"method 'acquire' of", TG__DOING_LOCK},
    {"method acquire of", TG__DOING_LOCK},
    {"function waitpid>", TG__DOING_SUBPROCESS},
    {"method waitpid of", TG__DOING_SUBPROCESS},
    {"'_socket.socket'", TG__DOING_SOCKET},
    {"of socket object", TG__DOING_SOCKET},
    {"method recv of", TG__DOING_SOCKET},
    {"function select>", TG__DOING_SOCKET},
    {"'select.poll'", TG__DOING_SOCKET},
    {"'select.epoll'", TG__DOING_SOCKET},
    {"'_io.FileIO'", TG__DOING_DISK},
    {"'_io.BufferedReader'", TG__DOING_DISK},
};

enum tg__doing tg__doing_of_call(struct tg__str frame) {
  if (!tg__str_has_prefix(frame, "<")) return TG__DOING_COMPUTE;
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
    if (tg__str_contains(frame, waits[i].name)) return waits[i].doing;
  return TG__DOING_COMPUTE;
}

/* The recorder's word for the system call, and the modules of the standard library on the way to it. */
static enum tg__doing doing_of(struct tg__str name, struct tg__str stack) {
  static const struct {
    const char *name;
    enum tg__doing doing;
  } names[] = {{"running", TG__DOING_COMPUTE}, {"sleep", TG__DOING_SLEEP},
               {"lock", TG__DOING_LOCK},       {"socket", TG__DOING_SOCKET},
               {"poll", TG__DOING_SOCKET},     {"pipe", TG__DOING_PIPE},
               {"disk", TG__DOING_DISK},       {"subprocess", TG__DOING_SUBPROCESS},
               {"device", TG__DOING_WAIT},     {"gil", TG__DOING_GIL},
               {"ready", TG__DOING_READY}};
  enum tg__doing doing = TG__DOING_WAIT;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tg__str_eq(name, (struct tg__str){names[i].name, (uint32_t)strlen(names[i].name)})) doing = names[i].doing;
  if (doing != TG__DOING_SOCKET && doing != TG__DOING_PIPE) return doing;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (tg__str_contains(stack, marks[i].text)) return marks[i].doing;
  return doing;
}

static const struct {
  const char *of_one, *of_several;
} words[TG__DOING_COUNT] = {
    [TG__DOING_COMPUTE] = {"computes in Python", "compute in Python"},
    [TG__DOING_SLEEP] = {"sleeps", "sleep"},
    [TG__DOING_LOCK] = {"waits for a lock or a queue", "wait for a lock or a queue"},
    [TG__DOING_GIL] = {"waits for Python's own lock (the GIL)", "wait for Python's own lock (the GIL)"},
    [TG__DOING_READY] = {"waits for a core", "wait for a core"},
    [TG__DOING_SOCKET] = {"waits for a socket", "wait for a socket"},
    [TG__DOING_PIPE] = {"waits for another process through a pipe", "wait for another process through a pipe"},
    [TG__DOING_DISK] = {"waits for a file", "wait for a file"},
    [TG__DOING_SUBPROCESS] = {"waits for a program that it started", "wait for a program that they started"},
    [TG__DOING_WAIT] = {"waits", "wait"},
};
const char *tg__doing_words(enum tg__doing doing) { return words[doing].of_one; }
const char *tg__doing_of_several(enum tg__doing doing) { return words[doing].of_several; }

const char *tg__doing_advice(enum tg__doing doing) {
  static const char *const advice[TG__DOING_COUNT] = {
      [TG__DOING_COMPUTE] = "Replace the Python loop by tensor or array operations on the whole batch, or move it into "
                            "DataLoader workers.",
      [TG__DOING_SLEEP] =
          "Take the sleep out of the loop; where it waits for something, wait for that itself: an event, or "
          "a queue with a timeout.",
      [TG__DOING_LOCK] =
          "Let what it waits for be made ahead: a queue that another thread or process keeps filled, and "
          "locks that are not held while that works.",
      [TG__DOING_GIL] =
          "Move what the other threads compute in Python into processes, or replace it by operations on whole arrays, "
          "which let go of the GIL.",
      [TG__DOING_READY] = "Let fewer threads compute at the same time: those of torch and the program's own share the "
                          "cores.",
      [TG__DOING_SOCKET] =
          "Ask for it before it is needed, from a thread that runs ahead; ask for several at a time, or "
          "keep what came.",
      [TG__DOING_PIPE] = "Let the other process run ahead of the loop, with more than one result in the queue.",
      [TG__DOING_DISK] =
          "Read ahead in DataLoader workers or a thread and keep what is read again; write in a thread of "
          "its own.",
      [TG__DOING_SUBPROCESS] =
          "Start the program once and keep it, start the next run before its result is needed, or call "
          "a library in its place.",
      [TG__DOING_WAIT] = "Let what it waits for go on beside the loop, in a thread or process that runs ahead.",
  };
  return advice[doing];
}

/* ---- where ----------------------------------------------------------------------------------- */

struct look {
  const struct tg__spans *when;
  struct tg__sampled *out;
  struct tg__lines places;
};

void tg__lines_add(struct tg__lines *p, struct tg__str frame, int64_t ns) {
  size_t i = 0;
  struct tg__frame_parts parts;
  while (i < p->count && !tg__str_eq(p->items[i].frame, frame)) i++;
  if (i == TG__LINES || (i == p->count && !tg__frame_split(frame, &parts))) return;
  if (i == p->count)
    p->items[p->count++] = (struct tg__line){.frame = frame, .file = parts.file, .function = parts.function};
  p->items[i].ns += ns;
}

static struct tg__sample read_sample(const struct tg__columns *t, uint32_t slice) {
  const uint32_t args = t->slices.args[slice], text = tg__arg_str(t, args, TG__K_CALL_STACK);
  const struct tg__str stack = text == TG_NONE ? TG_STR("") : tg__name(t, text);
  struct tg__sample s = {.thread = tg__arg_int(t, args, TG__K_SAMPLED_THREAD, 0),
                         .doing = doing_of(tg__slice_name(t, slice), stack),
                         .frame = tg__user_frame_of_stack(stack),
                         .stack = stack};
  s.is_there = s.frame.len && s.frame.ptr == stack.ptr;
  return s;
}

static void add_sample(struct look *l, const struct tg__columns *t, uint32_t slice) {
  const int64_t dur_ns = t->slices.dur_ns[slice],
                ns = tg__spans_inside(l->when, t->slices.start_ns[slice], tg__slice_end(t, slice));
  if (ns <= 0) return;
  const struct tg__sample s = read_sample(t, slice);
  const int64_t cpu_us = tg__arg_int(t, t->slices.args[slice], TG__K_THREAD_CPU_US, 0);
  l->out->count++;
  l->out->ns += ns;
  l->out->cpu_ns += cpu_us >= 0 && cpu_us < dur_ns / 1000 ? cpu_us * 1000 / (dur_ns / 1000 + 1) * (ns / 1000) : ns;
  l->out->doing_ns[s.doing] += ns;
  if (s.doing != TG__DOING_COMPUTE && tg__str_contains(s.stack, "torch/multiprocessing/reductions.py("))
    l->out->receiving_ns += ns;
  if (s.frame.len) tg__lines_add(&l->places, s.frame, ns);
}

static bool is_same_function(const struct tg__line *a, const struct tg__line *b) {
  return tg__str_eq(a->file, b->file) && tg__str_eq(a->function, b->function);
}

struct tg__str tg__lines_most(const struct tg__lines *p, int64_t *function_ns) {
  struct tg__str frame = TG_STR("");
  int64_t at_line = 0;
  *function_ns = 0;
  for (size_t i = 0; i < p->count; i++) {
    int64_t ns = 0;
    for (size_t k = 0; k < p->count; k++) ns += is_same_function(&p->items[i], &p->items[k]) ? p->items[k].ns : 0;
    if (ns < *function_ns || (ns == *function_ns && p->items[i].ns <= at_line)) continue;
    *function_ns = ns;
    at_line = p->items[i].ns;
    frame = p->items[i].frame;
  }
  return frame;
}

static void finish_look(const struct look *l) {
  struct tg__sampled *const out = l->out;
  for (enum tg__doing d = 0; d < TG__DOING_COUNT; d++)
    if (out->doing_ns[d] > out->doing_ns[out->most]) out->most = d;
  out->frame = tg__lines_most(&l->places, &out->function_ns);
}

/* Of the process of the loop, of any process where the loop is not known. */
static bool is_of_loop(const struct tg__facts *f, const struct tg__track *track) {
  const uint32_t loop = tg__loop_track(f);
  return tg__track_has_samples(f->t, track) && (loop == TG_NONE || track->pid == f->t->tracks[loop].pid);
}

void tg__sample_stretches(const struct tg__facts *f, const struct tg__spans *when, struct tg__sampled *out) {
  const struct tg__columns *const t = f->t;
  struct look l = {.when = when, .out = out};
  *out = (struct tg__sampled){.frame = TG_STR("")};
  TG__EACH (k, tg__tracks_of(&t->ranks[f->rank])) {
    const struct tg__track *const track = &t->tracks[k];
    if (!is_of_loop(f, track)) continue;
    TG__EACH (i, tg__slices_of(track)) add_sample(&l, t, i);
  }
  finish_look(&l);
  const int64_t all_ns = tg__spans_length(when);
  out->is_known = out->frame.len && (out->count >= LEAST_SAMPLES || LEAST_PART * out->ns >= all_ns);
}

/* A worker that is ahead waits for the number of the next sample. */
static bool is_idle(const struct tg__columns *t, uint32_t slice) {
  const uint32_t text = tg__arg_str(t, t->slices.args[slice], TG__K_CALL_STACK);
  return text != TG_NONE && tg__str_contains(tg__name(t, text), "multiprocessing/queues.py(");
}

void tg__sample_workers(const struct tg__facts *f, struct tg__sampled *out) {
  const struct tg__columns *const t = f->t;
  const uint32_t loop = tg__loop_track(f);
  struct tg__spans when = {0};
  struct look l = {.when = &when, .out = out};
  *out = (struct tg__sampled){.frame = TG_STR("")};
  if (loop == TG_NONE) return;
  tg__spans_add(&when, f->steps.window.start_ns, f->steps.window.end_ns);
  TG__EACH (k, tg__tracks_of(&t->ranks[f->rank])) {
    const struct tg__track *const track = &t->tracks[k];
    if (!tg__track_has_samples(t, track) || track->pid == t->tracks[loop].pid) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (!is_idle(t, i)) add_sample(&l, t, i);
    }
  }
  finish_look(&l);
  out->is_known = out->count >= LEAST_OF_WORKERS;
  tg__spans_free(&when);
}

/* ---- one by one ------------------------------------------------------------------------------ */

void tg__each_sample(const struct tg__facts *f, tg__sample_visitor *see, void *ctx) {
  const struct tg__columns *const t = f->t;
  const struct tg__window *const w = &f->steps.window;
  TG__EACH (k, tg__tracks_of(&t->ranks[f->rank])) {
    if (!is_of_loop(f, &t->tracks[k])) continue;
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const struct tg__sample s = read_sample(t, i);
      if (t->slices.start_ns[i] >= w->start_ns && t->slices.start_ns[i] < w->end_ns) see(ctx, i, &s);
    }
  }
}

struct tg__spans *tg__bare_spans(struct tg__facts *f) {
  struct tg__spans *const window = tg__new_spans(f), *const busy = tg__new_spans(f);
  tg__spans_add(window, f->steps.window.start_ns, f->steps.window.end_ns);
  TG__EACH_IN_STEPS (w, f)
    if (w.cls == TG__CLASS_OP || w.cls == TG__CLASS_RUNTIME || tg__class_is_device_work(w.cls) ||
        (w.cls == TG__CLASS_ANNOTATION && tg__name_is_dataloader(tg__slice_name(f->t, w.slice))))
      tg__spans_add_slice(busy, f->t, w.slice);
  tg__spans_union(busy);
  return tg__rest_of(f, window, busy);
}
