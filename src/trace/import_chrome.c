/* import_chrome: the text of one Chrome/Kineto JSON document becomes records.
 *
 * Workers take blocks of text from the source one after another (a read, or an inflate, under the lock), each cut
 * where an event seems to begin, and parse them at the same time. Whether the guess was right is known when the
 * block before it is done: it must have ended between two events of the array. Then the result is kept; otherwise it
 * is thrown away and the text is parsed again behind what the block before left over. So the answer never depends on
 * a guess, only the speed does. */
#include "trace/import.h"

enum {
  BLOCK_BYTES = 4 << 20,     /* large against an event, small against the second-level cache of a few cores */
  LARGEST_EVENT = 64 << 20,  /* an event longer than this is passed over: it bounds what one event can make us hold */
  LARGEST_MEMBER = 64 << 20, /* the same for a member of the document */
  LOOK_BACK = 1 << 20,       /* how far from the end of a block to look for a place to cut */
};
#define MOST_REREAD ((int64_t)4 << 30) /* bytes read again because of events that do not end: two seconds */

enum state {
  AT_HEAD,         /* before the array: nothing, or members of the document */
  IN_DAMAGED_HEAD, /* the same, but what is there cannot be read: on the way to the array */
  IN_ARRAY,        /* between two events */
  IN_DAMAGE,       /* inside an event that is passed over */
  IN_TIMELINE,     /* the array holds no events: a memory timeline, read by import_timeline.c */
  AT_TAIL,         /* behind the array */
  AT_END,          /* behind the document */
};

struct block {
  char *text; /* pages, so that they go back at once: cap bytes, TG__TEXT_PAD of them for the end */
  size_t len, cap;
  int64_t offset;
};

struct reader { /* one import; everything behind the lock */
  struct tg__import *im;
  tg__source_fn *source;
  void *source_ctx;
  const struct tg__import_how *how;
  tg__scan_events_fn *scan;
  size_t block_bytes;
  struct tg__lock *lock;
  size_t taken, committed; /* blocks handed out; blocks committed in order */
  bool drained;            /* the source has no more */
  struct block tail;       /* text read but not handed out: it begins the next block */
  enum state state;
  bool opened;              /* saw the first byte of the document */
  bool damaged;             /* what is left over is not just incomplete */
  bool first_is_open;       /* in a bare array before its first element */
  bool in_gap;              /* IN_TIMELINE: inside of something damaged */
  int64_t reread;           /* bytes looked at again because an event did not end */
  struct block remainder;   /* text left over by the last commit, to go before the next block */
  struct tg__parser *again; /* for text that is parsed in order */
  enum tg_err err;
  struct tg_error *e;
};

static bool block_reserve(struct block *b, size_t want) {
  if (want + TG__TEXT_PAD <= b->cap) return true;
  return tg__pages_grow((void **)&b->text, &b->cap, want + TG__TEXT_PAD);
}
static void block_seal(struct block *b) {
  memset(b->text + b->len, TG__TEXT_STOP, 8);
  memset(b->text + b->len + 8, 0, TG__TEXT_PAD - 8);
}
static bool block_append(struct block *b, const char *text, size_t len) {
  if (!block_reserve(b, b->len + len)) return false;
  memcpy(b->text + b->len, text, len);
  b->len += len;
  return true;
}

static enum tg_err stop(struct reader *r, enum tg_err code) {
  if (r->err == TG_OK) r->err = code;
  return code;
}
static enum tg_err out_of_memory(struct reader *r) { return stop(r, tg__no_memory(r->e, "reading the trace")); }

/* ---- taking blocks --------------------------------------------------------------------------- */

/* Where to cut: the last place in the text where an event seems to begin; its length when there is none. */
static size_t cut_point(const struct block *b) {
  const char *first = b->text, *end = b->text + b->len;
  const char *stop_at = b->len > LOOK_BACK ? end - LOOK_BACK : first;
  for (const char *p = end - 1; p > stop_at; p--) {
    p = memrchr(stop_at, '{', (size_t)(p - stop_at) + 1);
    if (!p) break;
    if (tg__looks_like_event(p, first, end)) return (size_t)(p - first);
    if (p == stop_at) break;
  }
  return b->len;
}

/* Fill b with the next block; b->len == 0 at the end. Called under the lock. */
static void take_block(struct reader *r, struct block *b) {
  b->len = 0;
  b->offset = r->tail.offset;
  if (!block_reserve(b, r->tail.len + r->block_bytes) || !block_append(b, r->tail.text, r->tail.len)) {
    out_of_memory(r);
    return;
  }
  size_t room = r->block_bytes;
  while (room > 0 && !r->drained) {
    struct tg_error e;
    const int64_t n = r->source(r->source_ctx, b->text + b->len, room, &e);
    if (n < 0) tg__count_loss(&r->im->losses, TG__LOSS_cut_packed, b->offset + (int64_t)b->len);
    if (n <= 0)
      r->drained = true;
    else
      b->len += (size_t)n, room -= (size_t)n, r->im->text_bytes += n;
  }
  block_seal(b);
  const size_t cut = r->drained ? b->len : cut_point(b);
  r->tail.len = 0;
  r->tail.offset = b->offset + (int64_t)cut;
  if (!block_append(&r->tail, b->text + cut, b->len - cut)) out_of_memory(r);
  b->len = cut;
  block_seal(b);
  if (r->how->progress && !r->how->progress(r->how->progress_ctx))
    stop(r, tg__fail(r->e, TG_CANCELLED, -1, "reading was stopped on request"));
}

/* ---- keeping results ------------------------------------------------------------------------- */

static enum tg_err keep_result(struct reader *r, struct tg__parser *p) {
  struct tg__import *im = r->im;
  if (p->no_memory) return out_of_memory(r);
  tg__losses_add(&im->losses, &p->losses);
  for (int i = 0; i < 128; i++) im->phases[i] += p->phases[i];
  if (p->record_count == 0) return TG_OK;
  if ((im->pool_len + p->pool_len) / 4 >= TG_NONE)
    return stop(r, tg__fail(r->e, TG_UNSUPPORTED, p->text_offset,
                            "the args of this trace do not fit 16 GiB: open its files one by one"));
  const size_t bytes = p->record_count * sizeof *p->records;
  struct tg__record *records = tg__pages_used(bytes);
  if (!records || !tg__grow((void **)&im->segments, &im->segment_cap, im->segment_count + 1, sizeof *im->segments) ||
      !tg__pages_grow((void **)&im->pool, &im->pool_cap, im->pool_len + p->pool_len)) {
    tg__pages_drop(records, bytes);
    return out_of_memory(r);
  }
  const uint32_t base = (uint32_t)(im->pool_len / 4);
  for (size_t i = 0; i < p->record_count; i++) {
    records[i] = p->records[i];
    records[i].args += base;
  }
  memcpy(im->pool + im->pool_len, p->pool, p->pool_len);
  im->pool_len += p->pool_len;
  im->events_read += (int64_t)p->record_count;
  im->segments[im->segment_count++] = (struct tg__segment){records, p->record_count, bytes};
  return TG_OK;
}

/* ---- the document ---------------------------------------------------------------------------- */

static const char *blanks(const char *p, const char *end) {
  while (p < end && (unsigned char)*p <= ' ') p++;
  return p;
}

/* Text of two or four bytes a character, with its mark in front or without. */
static bool is_wide_text(const char *p, size_t n) {
  if (n >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0)) return true;
  return n >= 4 && !p[0] == !p[2] && !p[1] == !p[3] && !p[0] != !p[1];
}

/* What a file that begins like this is, when that is something well known and no trace; NULL otherwise. */
static const char *known_as(const char *p, size_t n) {
  static const struct {
    const char *begin, *what;
    size_t len;
  } known[] = {
#define KNOWN(text, is) {text, is, sizeof text - 1}
      KNOWN("PK", "it looks like a zip archive: unpack it first"),
      KNOWN("\x7f"
            "ELF",
            "it looks like a program"),
      KNOWN("<", "it looks like HTML or XML"),
      KNOWN("SQLite format 3", "it looks like an SQLite database"),
      KNOWN("\x1f\x8b", "it was packed twice: unpack it once"),
      KNOWN("BZh", "it looks packed by bzip2: unpack it first"),
      KNOWN("\xfd"
            "7zXZ",
            "it looks packed by xz: unpack it first"),
      KNOWN("version https://git-lfs", "it is what Git LFS keeps in place of the file: git lfs pull fetches that"),
#undef KNOWN
  };
  if (n >= 2 && (unsigned char)p[0] == 0x80 && (unsigned char)p[1] <= 5) return "it looks like a Python pickle";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n >= known[i].len && memcmp(p, known[i].begin, known[i].len) == 0) return known[i].what;
  return is_wide_text(p, n) ? "it is text in UTF-16 or UTF-32: save it as UTF-8" : NULL;
}

static enum tg_err not_a_trace(struct reader *r, const char *why) {
  return stop(r,
              tg__fail(r->e, TG_NOT_A_TRACE, 0,
                       "this is not a trace: %s; a PyTorch trace is JSON with \"traceEvents\", or a .tacho file", why));
}

static enum tg_err keep_member(struct reader *r, const char *key, const char *key_end, const char *value,
                               const char *value_end) {
  struct tg__import *im = r->im;
  struct tg__strings *strings = im->shared.trace->strings;
  while (value_end > value && (unsigned char)value_end[-1] <= ' ') value_end--;
  if (!tg__grow((void **)&im->meta, &im->meta_cap, im->meta_count + 1, sizeof *im->meta)) return out_of_memory(r);
  struct tg__meta *m = &im->meta[im->meta_count++];
  r->again->pending_count = 0; /* the key may have been looked at before */
  m->key = tg__intern_escaped(r->again, key, key_end);
  m->raw = tg__strings_add(strings, value, (size_t)(value_end - value));
  m->after = r->state == AT_TAIL;
  tg__count_anomalies(r->again);
  return m->key == TG_NONE || m->raw == TG_NONE ? out_of_memory(r) : TG_OK;
}

/* Does the array at p (its bracket) hold events? Then it is what we look for, even if a flipped bit made it another
 * name. */
static bool holds_events(const char *p, const char *end) {
  const char *first = blanks(p + 1, end);
  if (first >= end || *first != '{') return false;
  const char *behind = tg__skip_value(first, end);
  return behind && memmem(first, (size_t)(behind - first), "\"ph\"", 4);
}

/* p at a member's key. Past the member, or at the first byte of the event array (state changes); NULL: not whole,
 * *again says so. */
static const char *read_member(struct reader *r, const char *p, const char *end, bool *damaged) {
  *damaged = false;
  const char *key = p + 1, *key_end = tg__skip_value(p, end);
  if (*p != '"') *damaged = true;
  if (!key_end || *damaged) return NULL;
  const char *value = blanks(key_end, end);
  if (value < end && *value != ':') *damaged = true;
  if (value >= end || *damaged) return NULL;
  value = blanks(value + 1, end);
  if (value >= end) return NULL;
  const bool named =
      (*value == '[' || *value == '{') && tg__intern_escaped(r->again, key, key_end - 1) == TG__K_TRACE_EVENTS;
  if (named && *value == '{') {
    *damaged = true;
    return NULL;
  }
  if (named || (*value == '[' && r->state == AT_HEAD && holds_events(value, end))) {
    if (!named)
      tg__count_loss(&r->im->losses, TG__LOSS_bent_events_key, r->remainder.offset + (key - r->remainder.text));
    r->state = IN_ARRAY;
    r->im->saw_events = true;
    return value + 1;
  }
  const char *value_end = tg__skip_value(value, end);
  if (!value_end) return NULL;
  const char *next = blanks(value_end, end);
  if (next >= end) return NULL; /* the comma or brace behind it decides whether it was whole */
  if (value_end == value || (*next != ',' && *next != '}')) {
    *damaged = true;
    return NULL;
  }
  if (!strchr("\"{[-0123456789tfn", *value))
    tg__count_loss(&r->im->losses, TG__LOSS_bent_not_available, r->remainder.offset + (value - r->remainder.text));
  return keep_member(r, key, key_end - 1, value, value_end) == TG_OK ? next : NULL;
}

/* An object with a phase is an event, whatever stands around it. The first one at or after p; NULL when there is
 * none. *whole: it ends in this text (only then is it known to have a phase). */
static const char *find_phase(const char *p, const char *end, bool *whole) {
  const char *q = tg__find_event(p, NULL, end);
  while (q) {
    const char *behind = tg__skip_value(q, end);
    *whole = behind != NULL;
    if (!behind || memmem(q, (size_t)(behind - q), "\"ph\"", 4)) return q;
    q = tg__find_event(behind, NULL, end);
  }
  return NULL;
}

/* The head is broken (an unescaped log line, a flipped bit): what is left of interest is the array, or else its
 * events, whichever comes first. Returns how far it came. */
static const char *find_array(struct reader *r, const char *p, const char *end) {
  static const char wanted[] = "\"traceEvents\"";
  const size_t n = sizeof wanted - 1;
  bool whole = false;
  const char *key = memmem(p, (size_t)(end - p), wanted, n);
  const char *event = find_phase(p, end, &whole);
  if (event && (!key || event < key)) {
    if (!whole) return event;
  } else if (key) {
    const char *bracket = blanks(key + n, end);
    if (bracket < end && *bracket == ':') bracket = blanks(bracket + 1, end);
    if (bracket >= end) return key;
    if (*bracket != '[') return key + n;
    event = bracket + 1;
  } else
    return end - p > 64 ? end - 64 : p; /* either may begin across the edge */
  r->state = IN_ARRAY;
  r->im->saw_events = true;
  return event;
}

/* Members of the document, before or behind the array. Returns how far it came. */
static const char *read_members(struct reader *r, const char *p, const char *end) {
  while (r->err == TG_OK) {
    p = blanks(p, end);
    if (p >= end) return p;
    if (*p == ',') {
      p++;
      continue;
    }
    if (*p == '}' || (r->im->bare_array && r->state == AT_TAIL)) {
      r->state = AT_END;
      return p + (*p == '}');
    }
    bool damaged;
    const char *next = read_member(r, p, end, &damaged);
    if (r->state == IN_ARRAY) return next;
    if (next)
      p = next;
    else if (!damaged)
      return p;
    else { /* before the array, look for it; behind it there is nothing to go on to */
      tg__count_loss(&r->im->losses, TG__LOSS_skipped_syntax, r->remainder.offset + (p - r->remainder.text));
      r->state = r->state == AT_HEAD ? IN_DAMAGED_HEAD : AT_END;
      return p;
    }
  }
  return p;
}

static const char *read_opening(struct reader *r, const char *p, const char *end) {
  if (end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
  const char *const first = p;
  p = blanks(p, end);
  if (p >= end) return p;
  r->opened = true;
  const char *known = known_as(first, (size_t)(end - first)); /* what counts as a blank may be part of it */
  if (!known) known = known_as(p, (size_t)(end - p));
  if (known) not_a_trace(r, known);
  if (*p == '[') {
    r->im->bare_array = r->im->saw_events = r->first_is_open = true;
    r->state = IN_ARRAY;
  } else if (*p != '{') { /* perhaps a damaged byte: look for the events before failing */
    tg__count_loss(&r->im->losses, TG__LOSS_skipped_syntax, r->remainder.offset + (p - r->remainder.text));
    r->state = IN_DAMAGED_HEAD;
    return p;
  }
  return p + 1;
}

static const char *read_timeline(struct reader *r, const char *p, const char *end) {
  struct tg__parser *ps = r->again;
  bool closed = false;
  tg__parser_reset(ps);
  ps->text = r->remainder.text;
  ps->text_offset = r->remainder.offset;
  p = tg__timeline_scan(ps, p, end, &r->in_gap, &closed);
  keep_result(r, ps);
  if (closed) r->state = AT_TAIL;
  return p;
}

/* What does a bare array hold? false: not known yet. */
static bool look_at_first(struct reader *r, const char *p, const char *end) {
  bool undecided;
  const bool timeline = tg__timeline_begins(p, end, &undecided);
  if (undecided) return false;
  r->first_is_open = false;
  if (timeline && r->how->no_timeline)
    stop(r, tg__fail(r->e, TG_NOT_A_TRACE, 0, "this is a raw memory timeline, not a trace: open it by itself"));
  if (timeline) r->state = IN_TIMELINE;
  return !timeline;
}

static const char *read_array(struct reader *r, const char *p, const char *end) {
  if (r->first_is_open && !look_at_first(r, p, end)) return p;
  struct tg__parser *ps = r->again;
  const char *stop_at = p;
  tg__parser_reset(ps);
  ps->text = r->remainder.text;
  ps->text_offset = r->remainder.offset;
  const enum tg__scan_result result = r->scan(ps, p, end, &stop_at);
  if (keep_result(r, ps) != TG_OK) return p;
  r->damaged = result == TG__SCAN_DAMAGED;
  if (result == TG__SCAN_ARRAY) {
    r->state = AT_TAIL;
    return stop_at + 1;
  }
  return result == TG__SCAN_CLEAN ? end : stop_at;
}

/* What has piled up is no event and no member any more: drop it, and look for the next event. */
static void pass_over(struct reader *r) {
  tg__count_loss(&r->im->losses, TG__LOSS_skipped_too_large, r->remainder.offset);
  r->state = r->state == AT_TAIL ? AT_END : IN_DAMAGE;
  r->remainder.offset += (int64_t)r->remainder.len;
  r->remainder.len = 0;
}

/* The event at the start of the remainder does not end. When other events begin inside it, a damaged quote or bracket
 * has made it swallow them: drop only this one. Each try may read all that is left again, so there is a bound on the
 * sum. */
static bool skip_broken_event(struct reader *r) {
  struct block *c = &r->remainder;
  if (r->err != TG_OK || r->state != IN_ARRAY || c->len < 2 || (r->reread += (int64_t)c->len) > MOST_REREAD)
    return false;
  block_seal(c);
  const char *next = tg__find_complete_event(c->text + 1, c->text, c->text + c->len);
  if (!next) return false;
  tg__count_loss(&r->im->losses, TG__LOSS_skipped_syntax, c->offset);
  c->offset += next - c->text;
  c->len -= (size_t)(next - c->text);
  memmove(c->text, next, c->len);
  return true;
}

/* Parse r->remainder in order, as far as it goes; what is incomplete stays in it. */
static void read_remainder(struct reader *r) {
  struct block *c = &r->remainder;
  block_seal(c);
  const char *p = c->text, *end = c->text + c->len, *before;
  if (!r->opened) p = read_opening(r, p, end);
  r->again->text = c->text;
  r->again->text_offset = c->offset;
  do {
    before = p;
    const enum state state = r->state;
    if (r->err != TG_OK || p >= end) break;
    switch (state) {
    case AT_HEAD:
    case AT_TAIL:
      p = read_members(r, p, end);
      break;
    case IN_DAMAGED_HEAD:
      p = find_array(r, p, end);
      break;
    case IN_ARRAY:
      p = read_array(r, p, end);
      break;
    case IN_TIMELINE:
      p = read_timeline(r, p, end);
      break;
    case IN_DAMAGE: {
      const char *next = tg__find_event(p, c->text, end);
      if (next)
        r->state = IN_ARRAY, r->im->saw_events = true;
      else
        next = end - p > 64 ? end - 64 : p; /* an event may begin across the edge */
      p = next;
      break;
    }
    case AT_END:
      p = blanks(p, end);
      if (p < end && !r->im->losses.count[TG__LOSS_bent_trailing])
        tg__count_loss(&r->im->losses, TG__LOSS_bent_trailing, c->offset + (p - c->text));
      p = end;
    }
    if (state == r->state && p == before) break;
  } while (p < end);
  c->len = (size_t)(end - p);
  c->offset += p - c->text;
  memmove(c->text, p, c->len);
}

static void read_in_order(struct reader *r) {
  for (;;) {
    read_remainder(r);
    if (r->remainder.len <= (r->state == IN_ARRAY ? LARGEST_EVENT : LARGEST_MEMBER)) return;
    if (!skip_broken_event(r)) break;
  }
  pass_over(r);
}

/* ---- workers --------------------------------------------------------------------------------- */

/* Under the lock, in order: make the block part of the import. */
static void commit(struct reader *r, const struct block *b, struct tg__parser *p, bool parsed,
                   enum tg__scan_result result, const char *stop_at) {
  if (r->err != TG_OK) return;
  const char *rest = b->text;
  if (parsed && r->state == IN_ARRAY && r->remainder.len == 0 && !r->first_is_open) {
    if (keep_result(r, p) != TG_OK) return;
    rest = result == TG__SCAN_CLEAN ? b->text + b->len : stop_at;
    if (result == TG__SCAN_ARRAY) r->state = AT_TAIL, rest++;
  }
  const size_t left = (size_t)(b->text + b->len - rest);
  if (left == 0) return;
  if (r->remainder.len == 0) r->remainder.offset = b->offset + (rest - b->text);
  if (!block_append(&r->remainder, rest, left)) out_of_memory(r);
  /* An event that was cut off waits for the next block; it is not worth another look before. */
  else if (!(parsed && result == TG__SCAN_PARTIAL && rest == stop_at && r->remainder.len == left))
    read_in_order(r);
}

static void work(void *ctx, size_t worker) {
  (void)worker;
  struct reader *r = ctx;
  struct block b = {0};
  struct tg__parser *p = tg__alloc(sizeof *p);
  const bool ready = p && tg__parser_init(p, &r->im->shared);
  tg__lock_take(r->lock);
  if (!ready) out_of_memory(r);
  while (r->err == TG_OK) {
    take_block(r, &b);
    if (b.len == 0 || r->err != TG_OK) break;
    const size_t mine = r->taken++;
    tg__lock_drop(r->lock);
    enum tg__scan_result result = TG__SCAN_PARTIAL;
    const char *stop_at = b.text;
    if (mine > 0) {
      tg__parser_reset(p);
      p->text = b.text;
      p->text_offset = b.offset;
      result = r->scan(p, b.text, b.text + b.len, &stop_at);
    }
    tg__lock_take(r->lock);
    while (r->committed != mine && r->err == TG_OK) tg__lock_wait(r->lock);
    commit(r, &b, p, mine > 0, result, stop_at);
    r->committed++;
    tg__lock_wake(r->lock);
  }
  tg__lock_wake(r->lock);
  tg__lock_drop(r->lock);
  if (p) tg__parser_free(p);
  tg__free(p);
  tg__pages_drop(b.text, b.cap);
}

/* What is left when the text is over, and whether there was a trace at all. */
static enum tg_err finish_import(struct reader *r) {
  struct tg__import *im = r->im;
  if (r->err != TG_OK) return r->err;
  if (r->remainder.len) read_in_order(r);
  while (skip_broken_event(r)) read_in_order(r);
  if (r->err != TG_OK) return r->err;
  if (im->text_bytes == 0 && im->losses.count[TG__LOSS_cut_packed])
    return tg__fail(r->e, TG_DAMAGED, 0,
                    "the compressed data is damaged at its very beginning: nothing could be unpacked");
  if (im->text_bytes == 0)
    return tg__fail(r->e, TG_EMPTY, 0, "the file is empty: nothing was recorded, or recording never ended");
  if (!im->saw_events) {
    if (!r->opened) return not_a_trace(r, "there is nothing but blanks in it");
    if (r->state == IN_DAMAGED_HEAD && im->meta_count == 0) return not_a_trace(r, "it is no JSON and holds no events");
    return tg__fail(
        r->e, TG_NOT_A_TRACE, r->remainder.offset,
        "the document has no \"traceEvents\": this is JSON, but not a trace (or it was cut before its events)");
  }
  const bool cut =
      r->remainder.len > 0 ||
      (im->bare_array ? r->state == IN_DAMAGE : r->state != AT_END); /* a bare array may lack its bracket */
  if (cut)
    tg__count_loss(&im->losses, r->remainder.len && r->damaged ? TG__LOSS_skipped_syntax : TG__LOSS_cut_end,
                   r->remainder.offset);
  return TG_OK;
}

enum tg_err tg__import_text(struct tg__import *im, tg__source_fn *source, void *ctx, const struct tg__import_how *how,
                            struct tg_error *e) {
  struct reader r = {.im = im, .source = source, .source_ctx = ctx, .how = how, .e = e};
  r.scan = how->scan ? how->scan : tg__scan_events_best(NULL);
  r.block_bytes = how->block_bytes ? how->block_bytes : BLOCK_BYTES;
  r.lock = tg__lock_new();
  r.again = tg__alloc(sizeof *r.again);
  enum tg_err err = TG_MEMORY;
  if (r.lock && r.again && tg__parser_init(r.again, &im->shared) && block_reserve(&r.tail, 0) &&
      block_reserve(&r.remainder, 0)) {
    const unsigned threads = how->threads ? how->threads : tg__cpu_count();
    tg__threads_run(threads, threads, work, &r);
    err = finish_import(&r);
  } else
    tg__no_memory(e, "reading the trace");
  if (r.again) tg__parser_free(r.again);
  tg__free(r.again);
  tg__pages_drop(r.tail.text, r.tail.cap);
  tg__pages_drop(r.remainder.text, r.remainder.cap);
  tg__lock_free(r.lock);
  return err;
}
