/* From the containers of a snapshot's pickle to its entries, segments and blocks. The keys of a dict say what it is;
 * it is turned into a row when it is put into its list, and nothing of it is kept beside. */
#include "trace/snapshot.h"
#include "trace/snapshot_stacks.h"
#include "trace/unpickle.h"

/* What entries have stands together: their dicts wait by the thousand. */
enum word {
  NO_WORD,
#define WORD(id, text) W_##id,
#include "trace/snapshot_words.def"
#undef WORD
  WORD_COUNT
};
static const char *const word_texts[WORD_COUNT] = {
    NULL,
#define WORD(id, text) text,
#include "trace/snapshot_words.def"
#undef WORD
};

/* What the reader knows of a container: a kind in the upper four bits of its meaning, a number in the others. */
enum meaning {
  UNKNOWN,
  OPEN_DICT,
  FRAME,
  STACK,
  HISTORY,
  BLOCKS,
  POOL,
  LINES,
  HOLDS_TRUE,
  DONE,
  KIND_SHIFT = TG__MEANING_BITS - 4
};
enum {
  MEANING_MOST = (1 << KIND_SHIFT) - 1,
  SLOTS_MOST = 1 << 16, /* dicts that wait to be put into something; Python puts them in by the thousand */
  JSON_MOST = 1 << 16,
  JSON_ALL_MOST = 1 << 24, /* of all dicts that wait: a memo makes long texts out of two bytes each */
  JSON_KEPT = 1 << 12,     /* a larger buffer is not kept for the next dict */
};
struct slot {    /* a dict in the making */
  uint64_t seen; /* by word */
  uint32_t next_free;
  struct tg__pickle_value at[WORD_COUNT];
  struct tg__out json; /* members with other keys, of dicts that no row is made of */
};
_Static_assert(WORD_COUNT <= 64, "seen has a bit for each word");
#define BIT(word) (UINT64_C(1) << W_##word)
#define ROW_WORDS                                                                                                      \
  (BIT(ACTION) | BIT(FILENAME) | BIT(TOTAL_SIZE) | BIT(STATE) | BIT(STAGE)) /* one of them makes a dict a row */
struct range {
  size_t first, count;
};
struct reader {
  struct tg__snapshot *s;
  uint8_t *word_of; /* by string id, up to word_top */
  uint32_t word_top;
  struct slot *slots;
  size_t slot_count, slot_cap;
  uint32_t free_slot; /* +1 */
  struct slot row;    /* of a dict that comes as a row */
  struct tg__stacks stacks;
  struct tg__map context_of; /* hash → context; equal hashes are chained through hash + 1 */
  struct range *block_lists;
  size_t block_list_count, block_list_cap;
  int64_t (*pools)[2];
  size_t pool_count, pool_cap;
  size_t *device_of;                                               /* by history, in order of arrival */
  size_t device_of_cap, history_count, device_lists, host_history; /* host_history: number + 1 */
  size_t json_bytes;                                               /* of the dicts in the making */
  uint32_t last_context, row_context;                              /* row_context: of the last row with these words */
  uint64_t row_context_seen;
  bool no_memory, is_snapshot;
};

static enum meaning snapshot_kind_of(const struct tg__unpickler *u, struct tg__pickle_value v) {
  return v.kind < TG__PICKLE_TUPLE ? UNKNOWN : (enum meaning)(tg__pickle_meaning(u, v) >> KIND_SHIFT);
}
static uint32_t number_of(const struct tg__unpickler *u, struct tg__pickle_value v) {
  return tg__pickle_meaning(u, v) & MEANING_MOST;
}
static uint32_t meaning_of(struct reader *r, enum meaning kind, size_t number) {
  if (number > MEANING_MOST) r->no_memory = true; /* 67 million different frames, or stacks */
  return (uint32_t)kind << KIND_SHIFT | (uint32_t)(number & MEANING_MOST);
}
static void mean(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value v, enum meaning kind,
                 size_t number) {
  tg__pickle_mean(u, v, meaning_of(r, kind, number));
}

/* ---- what a dict has ------------------------------------------------------------------------- */

static bool has(const struct slot *d, enum word w) { return d->seen >> w & 1; }
static int64_t int_at(const struct slot *d, enum word w) {
  return has(d, w) && d->at[w].kind == TG__PICKLE_INT ? d->at[w].i : 0;
}
static uint32_t text_at(const struct slot *d, enum word w) {
  return has(d, w) && d->at[w].kind == TG__PICKLE_TEXT ? d->at[w].id : TG_NONE;
}
static struct tg__str str_at(const struct reader *r, const struct slot *d, enum word w) {
  const uint32_t id = text_at(d, w);
  return id == TG_NONE ? TG_STR("") : tg__strings_get(r->s->strings, id);
}

static uint32_t intern_snapshot(struct reader *r, const char *text, size_t len) {
  const uint32_t id = tg__strings_add(r->s->strings, text, len);
  if (id == TG_NONE) r->no_memory = true;
  return id;
}

/* ---- dicts in the making --------------------------------------------------------------------- */

static struct slot *slot_of(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value dict) {
  if (snapshot_kind_of(u, dict) == OPEN_DICT) return &r->slots[number_of(u, dict)];
  if (snapshot_kind_of(u, dict) != UNKNOWN) return NULL; /* it has become a row already */
  uint32_t number = r->free_slot;
  if (number) {
    r->free_slot = r->slots[--number].next_free;
  } else {
    if (r->slot_count == SLOTS_MOST) return NULL;
    if (!tg__grow((void **)&r->slots, &r->slot_cap, r->slot_count + 1, sizeof *r->slots)) {
      r->no_memory = true;
      return NULL;
    }
    number = (uint32_t)r->slot_count++;
    r->slots[number].json = (struct tg__out){0};
  }
  r->slots[number].seen = 0;
  r->slots[number].json.len = 0;
  mean(r, u, dict, OPEN_DICT, number);
  return &r->slots[number];
}

static void close_slot(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value dict, enum meaning kind,
                       size_t number) {
  const uint32_t slot = number_of(u, dict);
  struct tg__out *const json = &r->slots[slot].json;
  r->json_bytes -= json->len;
  json->len = 0;
  if (json->cap > JSON_KEPT) tg__out_free(json);
  r->slots[slot].next_free = r->free_slot;
  r->free_slot = slot + 1;
  mean(r, u, dict, kind, number);
}

static void write_json(struct reader *r, const struct tg__unpickler *u, struct tg__pickle_value v,
                       struct tg__out *out) {
  struct tg__jsonw w = {.out = out};
  double real;
  switch (v.kind) {
  case TG__PICKLE_INT:
    tg__json_int(&w, v.i);
    break;
  case TG__PICKLE_TRUE:
  case TG__PICKLE_FALSE:
    tg__out_text(out, v.kind == TG__PICKLE_TRUE ? "true" : "false");
    break;
  case TG__PICKLE_REAL:
    memcpy(&real, &v.i, sizeof real);
    tg__out_format(out, real - real == 0 ? "%.17g" : "null", real);
    break;
  case TG__PICKLE_TEXT:
    tg__json_str(&w, tg__strings_get(r->s->strings, v.id));
    break;
  case TG__PICKLE_DICT:
    tg__out_char(out, '{');
    if (snapshot_kind_of(u, v) == OPEN_DICT &&
        &r->slots[number_of(u, v)].json != out) /* no dict holds itself in JSON */
      tg__out_bytes(out, r->slots[number_of(u, v)].json.buf, r->slots[number_of(u, v)].json.len);
    tg__out_char(out, '}');
    break;
  default:
    tg__out_text(out, "null");
    break;
  }
}

static void add_json(struct reader *r, const struct tg__unpickler *u, struct slot *d,
                     const struct tg__pickle_value *pair) {
  if (pair[0].kind != TG__PICKLE_TEXT || d->json.len > JSON_MOST || r->json_bytes > JSON_ALL_MOST) return;
  if (tg__strings_get(r->s->strings, pair[0].id).len > JSON_MOST) return;
  if (pair[1].kind == TG__PICKLE_TEXT && tg__strings_get(r->s->strings, pair[1].id).len > JSON_MOST) return;
  struct tg__jsonw w = {.out = &d->json};
  const size_t before = d->json.len;
  if (before) tg__out_text(&d->json, ", ");
  tg__json_str(&w, tg__strings_get(r->s->strings, pair[0].id));
  tg__out_text(&d->json, ": ");
  write_json(r, u, pair[1], &d->json);
  r->json_bytes += d->json.len - before;
  if (d->json.err) r->no_memory = true;
}

static void add_settings(struct reader *r, const struct tg__unpickler *u, struct tg__pickle_value dict) {
  struct tg__out text = {0};
  write_json(r, u, dict, &text);
  r->s->settings = text.err ? TG_NONE : intern_snapshot(r, text.buf, text.len);
  tg__out_free(&text);
}

static uint8_t word_of(const struct reader *r, struct tg__pickle_value key) {
  return key.kind == TG__PICKLE_TEXT && key.id < r->word_top ? r->word_of[key.id] : NO_WORD;
}

/* What stands beside the lists of a snapshot, and whether a history was full also among its allocator's settings. */
#define TOP_WORDS                                                                                                      \
  (BIT(SEGMENTS) | BIT(DEVICE_TRACES) | BIT(HOST_TRACES) | BIT(SETTINGS) | BIT(DEVICE_TYPE) | BIT(DROPPED) |           \
   BIT(OVERFLOWED))
static void take_top(struct reader *r, struct tg__unpickler *u, const struct slot *d, uint64_t seen) {
  const struct tg__pickle_value *const at = d->at;
  if (seen & (BIT(SEGMENTS) | BIT(DEVICE_TRACES) | BIT(HOST_TRACES))) r->is_snapshot = true;
  if (seen & BIT(HOST_TRACES) && snapshot_kind_of(u, at[W_HOST_TRACES]) == HISTORY)
    r->host_history = number_of(u, at[W_HOST_TRACES]) + (size_t)1;
  if (seen & BIT(OVERFLOWED))
    r->s->overflowed |= at[W_OVERFLOWED].kind == TG__PICKLE_TRUE || snapshot_kind_of(u, at[W_OVERFLOWED]) == HOLDS_TRUE;
  if (seen & BIT(SETTINGS) && at[W_SETTINGS].kind == TG__PICKLE_DICT) add_settings(r, u, at[W_SETTINGS]);
  if (seen & BIT(DROPPED) && r->is_snapshot && at[W_DROPPED].kind == TG__PICKLE_INT) r->s->dropped = at[W_DROPPED].i;
  if (seen & BIT(DEVICE_TYPE) && r->is_snapshot) r->s->is_cpu = tg__str_eq(str_at(r, d, W_DEVICE_TYPE), TG_STR("cpu"));
}

static bool take_pairs(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into,
                       const struct tg__pickle_value *pairs, size_t count) {
  struct reader *const r = ctx;
  struct slot *const d = count ? slot_of(r, u, into) : NULL;
  if (!d) return !r->no_memory;
  uint64_t seen = 0;
  bool has_others = false;
  for (size_t i = 0; i + 1 < count; i += 2) {
    const uint8_t word = word_of(r, pairs[i]);
    has_others |= word == NO_WORD || word == W_OVERFLOWED; /* the settings have these, too */
    seen |= UINT64_C(1) << word;
    d->at[word] = pairs[i + 1];
  }
  d->seen |= seen;
  if (seen & TOP_WORDS) take_top(r, u, d, seen);
  for (size_t i = 0; has_others && !(d->seen & ROW_WORDS) && i + 1 < count; i += 2)
    if (word_of(r, pairs[i]) == NO_WORD || word_of(r, pairs[i]) == W_OVERFLOWED) add_json(r, u, d, &pairs[i]);
  for (size_t i = 1; i < count; i += 2) /* a dict within a dict is done */
    if (pairs[i].kind == TG__PICKLE_DICT && pairs[i].id != into.id && snapshot_kind_of(u, pairs[i]) == OPEN_DICT)
      close_slot(r, u, pairs[i], DONE, 0);
  return !r->no_memory;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t stack_at(const struct tg__unpickler *u, const struct slot *d) {
  return has(d, W_FRAMES) && snapshot_kind_of(u, d->at[W_FRAMES]) == STACK ? number_of(u, d->at[W_FRAMES]) : 0;
}

static uint32_t context_number(struct reader *r, const struct tg__snapshot_context *c) {
  struct tg__snapshot *const s = r->s;
  uint64_t hash = tg__hash(c, sizeof *c);
  for (uint32_t known; (known = tg__map_get(&r->context_of, hash)) != TG_NONE; hash++)
    if (memcmp(&s->contexts[known], c, sizeof *c) == 0) return known;
  if (!tg__grow((void **)&s->contexts, &s->context_cap, s->context_count + 1, sizeof *s->contexts) ||
      !tg__map_put(&r->context_of, hash, (uint32_t)s->context_count)) {
    r->no_memory = true;
    return 0;
  }
  s->contexts[s->context_count] = *c;
  return (uint32_t)s->context_count++;
}

/* A text that says something: neither empty nor what torch writes for none. */
static uint32_t said_at(const struct reader *r, const struct slot *d, enum word w) {
  const struct tg__str text = str_at(r, d, w);
  return text.len && !tg__str_eq(text, TG_STR("N/A")) ? text_at(d, w) : TG_NONE;
}

static const int64_t *pool_at(const struct reader *r, const struct tg__unpickler *u, const struct slot *d,
                              enum word w) {
  static const int64_t default_pool[2];
  return has(d, w) && snapshot_kind_of(u, d->at[w]) == POOL ? r->pools[number_of(u, d->at[w])] : default_pool;
}

/* Most entries have the same as the one before. */
static uint32_t context_at(struct reader *r, const struct tg__unpickler *u, const struct slot *d) {
  const int64_t *const pool = pool_at(r, u, d, W_POOL_ID);
  const bool has_forward = has(d, W_FORWARD_FRAMES) && snapshot_kind_of(u, d->at[W_FORWARD_FRAMES]) == LINES;
  const struct tg__snapshot_context c = {.stream = int_at(d, W_STREAM),
                                         .pool = {pool[0], pool[1]},
                                         .said = said_at(r, d, W_USER_METADATA),
                                         .compiled = said_at(r, d, W_COMPILE_CONTEXT),
                                         .internal = said_at(r, d, W_INTERNAL_METADATA),
                                         .forward = has_forward ? number_of(u, d->at[W_FORWARD_FRAMES]) : TG_NONE};
  if (r->last_context < r->s->context_count && memcmp(&r->s->contexts[r->last_context], &c, sizeof c) == 0)
    return r->last_context;
  return r->last_context = context_number(r, &c);
}

static uint8_t action_of(const struct tg__snapshot *s, uint32_t text) {
  for (unsigned i = TG__ACTION_ALLOC; i < TG__ACTION_OTHER; i++)
    if (text == s->action_texts[i]) return (uint8_t)i;
  return TG__ACTION_OTHER;
}

/* A row with the values of the row before is known without a look at them. Lines of a list may have
 * become more. */
#define CONTEXT_WORDS                                                                                                  \
  (BIT(STREAM) | BIT(POOL_ID) | BIT(USER_METADATA) | BIT(COMPILE_CONTEXT) | BIT(INTERNAL_METADATA) |                   \
   BIT(FORWARD_FRAMES))
static uint32_t context_of(struct reader *r, struct tg__unpickler *u, const struct slot *d) {
  if (d != &r->row) return context_at(r, u, d);
  const uint64_t seen = d->seen & CONTEXT_WORDS;
  if (seen == r->row_context_seen && !(u->row_changed & CONTEXT_WORDS) && !(seen & BIT(FORWARD_FRAMES)))
    return r->row_context;
  u->row_changed = 0;
  r->row_context_seen = seen;
  return r->row_context = context_at(r, u, d);
}

static void add_entry(struct reader *r, struct tg__unpickler *u, size_t history, const struct slot *d) {
  struct tg__snapshot_entry entry = {.time_us = int_at(d, W_TIME_US),
                                     .addr = int_at(d, has(d, W_ADDR) ? W_ADDR : W_DEVICE_FREE),
                                     .size = int_at(d, W_SIZE),
                                     .action_text = text_at(d, W_ACTION),
                                     .stack = stack_at(u, d),
                                     .context = context_of(r, u, d)};
  entry.action = action_of(r->s, entry.action_text);
  if (!tg__history_add(&r->s->devices[history], &entry)) r->no_memory = true;
}

static void add_snapshot_block(struct reader *r, const struct tg__unpickler *u, const struct slot *d) {
  struct tg__snapshot *const s = r->s;
  if (!tg__grow((void **)&s->blocks, &s->block_cap, s->block_count + 1, sizeof *s->blocks)) {
    r->no_memory = true;
    return;
  }
  s->blocks[s->block_count++] = (struct tg__snapshot_block){
      .address = int_at(d, W_ADDRESS),
      .size = int_at(d, W_SIZE),
      .requested = has(d, W_REQUESTED_SIZE) ? int_at(d, W_REQUESTED_SIZE) : int_at(d, W_SIZE),
      .state = text_at(d, W_STATE),
      .stack = stack_at(u, d),
      .segment = TG_NONE};
}

static void add_segment(struct reader *r, const struct tg__unpickler *u, const struct slot *d) {
  struct tg__snapshot *const s = r->s;
  if (!tg__grow((void **)&s->segments, &s->segment_cap, s->segment_count + 1, sizeof *s->segments)) {
    r->no_memory = true;
    return;
  }
  struct tg__snapshot_segment segment = {.device = int_at(d, W_DEVICE),
                                         .address = int_at(d, W_ADDRESS),
                                         .total = int_at(d, W_TOTAL_SIZE),
                                         .allocated = int_at(d, W_ALLOCATED_SIZE),
                                         .active = int_at(d, W_ACTIVE_SIZE),
                                         .requested = int_at(d, W_REQUESTED_SIZE),
                                         .stream = int_at(d, W_STREAM),
                                         .type = text_at(d, W_SEGMENT_TYPE),
                                         .stack = stack_at(u, d),
                                         .is_expandable =
                                             has(d, W_EXPANDABLE) && d->at[W_EXPANDABLE].kind == TG__PICKLE_TRUE};
  memcpy(segment.pool, pool_at(r, u, d, W_SEGMENT_POOL), sizeof segment.pool);
  if (has(d, W_BLOCKS) && snapshot_kind_of(u, d->at[W_BLOCKS]) == BLOCKS) {
    const struct range *const list = &r->block_lists[number_of(u, d->at[W_BLOCKS])];
    for (size_t i = 0; i < list->count; i++) s->blocks[list->first + i].segment = (uint32_t)s->segment_count;
  }
  s->segments[s->segment_count++] = segment;
}

static void add_note(struct reader *r, const struct slot *d) {
  struct tg__snapshot *const s = r->s;
  if (!tg__grow((void **)&s->notes, &s->note_cap, s->note_count + 1, sizeof *s->notes)) {
    r->no_memory = true;
    return;
  }
  s->notes[s->note_count++] = (struct tg__snapshot_note){.time_us = int_at(d, W_TIME_US),
                                                         .device = int_at(d, W_DEVICE),
                                                         .name = text_at(d, W_NAME),
                                                         .begins = tg__str_eq(str_at(r, d, W_STAGE), TG_STR("START"))};
}

/* ---- lists ----------------------------------------------------------------------------------- */

static size_t history_of(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list) {
  if (snapshot_kind_of(u, list) == HISTORY) return number_of(u, list);
  struct tg__snapshot *const s = r->s;
  if (r->history_count >= 4096 ||
      !tg__grow((void **)&s->devices, &s->device_cap, r->history_count + 1, sizeof *s->devices) ||
      !tg__grow((void **)&r->device_of, &r->device_of_cap, r->history_count + 1, sizeof *r->device_of)) {
    r->no_memory = true;
    return 0;
  }
  s->devices[r->history_count] = (struct tg__snapshot_history){0};
  r->device_of[r->history_count] = SIZE_MAX;
  mean(r, u, list, HISTORY, r->history_count);
  return r->history_count++;
}

static bool block_list_of(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list) {
  if (snapshot_kind_of(u, list) != BLOCKS) {
    if (!tg__grow((void **)&r->block_lists, &r->block_list_cap, r->block_list_count + 1, sizeof *r->block_lists))
      return false;
    r->block_lists[r->block_list_count] = (struct range){r->s->block_count, 0};
    mean(r, u, list, BLOCKS, r->block_list_count++);
  }
  r->block_lists[number_of(u, list)].count++;
  return true;
}

static void add_snapshot_row(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list,
                             const struct slot *d) {
  if (has(d, W_ACTION)) {
    const size_t history = history_of(r, u, list);
    if (!r->no_memory) add_entry(r, u, history, d);
  } else if (has(d, W_TOTAL_SIZE)) {
    add_segment(r, u, d);
  } else if (has(d, W_STATE)) {
    if (!block_list_of(r, u, list)) r->no_memory = true;
    add_snapshot_block(r, u, d);
  } else if (has(d, W_STAGE)) {
    add_note(r, d);
  }
}

/* A dict is put into a list: it becomes what its keys say. */
static void take_dict(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list,
                      struct tg__pickle_value dict) {
  const struct slot *const d = &r->slots[number_of(u, dict)];
  if (has(d, W_FILENAME)) {
    const struct tg__frame frame = {str_at(r, d, W_FILENAME), str_at(r, d, W_NAME), int_at(d, W_LINE),
                                    str_at(r, d, W_FX_NODE), str_at(r, d, W_FX_TRACE)};
    const uint32_t text = tg__stacks_frame(&r->stacks, &frame);
    close_slot(r, u, dict, FRAME, text == TG_NONE ? 0 : text);
    return;
  }
  add_snapshot_row(r, u, list, d);
  close_slot(r, u, dict, DONE, 0);
}

/* A list that goes on begins with the frames it has. */
static void take_frames(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list,
                        const struct tg__pickle_value *items, size_t count) {
  const uint32_t before = snapshot_kind_of(u, list) == STACK ? number_of(u, list) : 0;
  uint32_t *const frames = tg__stacks_room(&r->stacks, before, count);
  size_t n = 0;
  for (size_t i = 0; frames && i < count; i++)
    if (snapshot_kind_of(u, items[i]) == FRAME) frames[n++] = number_of(u, items[i]);
  if (frames) mean(r, u, list, STACK, tg__stacks_number(&r->stacks, before, n));
}

/* ---- rows that come as such ------------------------------------------------------------------ */

static bool says_row(uint64_t seen) { return seen & ROW_WORDS && !(seen & (BIT(FILENAME) | TOP_WORDS)); }
static bool is_row(const void *ctx, const struct tg__unpickler *u, struct tg__pickle_value dict) {
  const struct reader *const r = ctx;
  return snapshot_kind_of(u, dict) == OPEN_DICT && says_row(r->slots[number_of(u, dict)].seen);
}
static bool take_row(void *ctx, struct tg__unpickler *u, struct tg__pickle_value list, struct tg__pickle_value dict,
                     uint64_t seen) {
  struct reader *const r = ctx;
  if (!says_row(seen)) return false;
  r->row.seen = seen;
  add_snapshot_row(r, u, list, &r->row);
  mean(r, u, dict, DONE, 0);
  return !r->no_memory;
}
static bool take_row_list(void *ctx, struct tg__unpickler *u, struct tg__pickle_value list, const uint32_t *words,
                          size_t count) {
  struct reader *const r = ctx;
  const uint32_t frame = tg__pickle_word(TG__PICKLE_DICT, meaning_of(r, FRAME, 0));
  uint32_t *const frames = tg__stacks_room(&r->stacks, 0, count), others = 0;
  for (size_t i = 0; frames && i < count; i++) {
    others |= (words[i] ^ frame) & ~(uint32_t)MEANING_MOST;
    frames[i] = words[i] & MEANING_MOST;
  }
  if (!frames || others) return false;
  mean(r, u, list, STACK, tg__stacks_number(&r->stacks, 0, count));
  return !r->stacks.no_memory;
}

/* Texts in a list are the lines of a trace. */
static void take_lines(struct reader *r, struct tg__unpickler *u, struct tg__pickle_value list,
                       const struct tg__pickle_value *items, size_t count) {
  enum { LINES_MOST = 256 };
  uint32_t texts[LINES_MOST];
  size_t n = 0;
  for (size_t i = 0; i < count && n < LINES_MOST; i++)
    if (items[i].kind == TG__PICKLE_TEXT) texts[n++] = items[i].id;
  const uint32_t text =
      tg__stacks_join(&r->stacks, snapshot_kind_of(u, list) == LINES ? number_of(u, list) : TG_NONE, texts, n);
  mean(r, u, list, LINES, text == TG_NONE ? 0 : text);
}

/* Of tuples only pool ids are known: two numbers. */
static uint32_t take_tuple(void *ctx, const struct tg__pickle_value *items, size_t count) {
  struct reader *const r = ctx;
  if (count != 2 || items[0].kind != TG__PICKLE_INT || items[1].kind != TG__PICKLE_INT) return 0;
  size_t at = r->pool_count; /* a process has a handful */
  for (size_t i = 0; i < r->pool_count && i < 64; i++)
    if (r->pools[i][0] == items[0].i && r->pools[i][1] == items[1].i) at = i;
  if (at == r->pool_count) {
    if (!tg__grow((void **)&r->pools, &r->pool_cap, at + 1, sizeof *r->pools)) return TG_NONE;
    r->pools[at][0] = items[0].i, r->pools[at][1] = items[1].i;
    r->pool_count++;
  }
  return meaning_of(r, POOL, at);
}

static bool take_items(void *ctx, struct tg__unpickler *u, struct tg__pickle_value into,
                       const struct tg__pickle_value *items, size_t count) {
  struct reader *const r = ctx;
  for (size_t i = 0; i < count && !r->no_memory; i++) {
    const enum meaning kind = snapshot_kind_of(u, items[i]);
    if (kind == OPEN_DICT) take_dict(r, u, into, items[i]);
    if (items[i].kind == TG__PICKLE_TRUE && snapshot_kind_of(u, into) == UNKNOWN) mean(r, u, into, HOLDS_TRUE, 0);
    if (items[i].kind != TG__PICKLE_LIST || (kind != HISTORY && kind != UNKNOWN)) continue;
    if (kind == HISTORY && number_of(u, items[i]) < r->history_count)
      r->device_of[number_of(u, items[i])] = r->device_lists;
    r->device_lists++; /* lists within a list: one a device, empty where nothing was recorded */
  }
  const enum meaning list = snapshot_kind_of(u, into);
  if (count && snapshot_kind_of(u, items[0]) == FRAME && (list == UNKNOWN || list == STACK))
    take_frames(r, u, into, items, count);
  if (count && items[0].kind == TG__PICKLE_TEXT && (list == UNKNOWN || list == LINES))
    take_lines(r, u, into, items, count);
  r->no_memory |= r->stacks.no_memory;
  return !r->no_memory;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The device of each history, by order of arrival. Histories arrive in the order of devices, but devices without one
 * leave no trace until their list is full. */
static bool place_histories(struct reader *r) {
  size_t most = r->device_lists;
  for (size_t i = 0; i < r->history_count; i++)
    if (r->device_of[i] == SIZE_MAX && i + 1 != r->host_history) r->device_of[i] = most++; /* the file was cut before */
  if (r->host_history) r->device_of[r->host_history - 1] = most;
  return tg__snapshot_place(r->s, r->device_of, r->history_count, most);
}

static bool is_found(const void *ctx) {
  const struct reader *const r = ctx;
  return r->is_snapshot || r->s->segment_count || r->history_count;
}

static bool reader_begin(struct reader *r) {
  uint32_t ids[WORD_COUNT] = {0};
  for (unsigned w = 1; w < WORD_COUNT; w++) {
    ids[w] = intern_snapshot(r, word_texts[w], strlen(word_texts[w]));
    if (ids[w] != TG_NONE && ids[w] >= r->word_top) r->word_top = ids[w] + 1;
  }
  for (size_t i = 0; i < TG__ACTION_OTHER; i++)
    r->s->action_texts[i] = intern_snapshot(r, tg__action_texts[i], strlen(tg__action_texts[i]));
  r->word_of = tg__alloc(r->word_top + 1);
  for (unsigned w = 1; w < WORD_COUNT && r->word_of && !r->no_memory; w++) r->word_of[ids[w]] = (uint8_t)w;
  return r->word_of && !r->no_memory && tg__stacks_begin(&r->stacks, r->s);
}

static void reader_end(struct reader *r) {
  for (size_t i = 0; i < r->slot_count; i++) tg__out_free(&r->slots[i].json);
  tg__free(r->slots);
  tg__free(r->word_of);
  tg__stacks_free(&r->stacks);
  tg__map_free(&r->context_of);
  tg__free(r->block_lists);
  tg__free(r->pools);
  tg__free(r->device_of);
}

enum tg_err tg__snapshot_read(struct tg__snapshot *s, struct tg__strings *strings, tg__source_fn *source, void *ctx,
                              const struct tg__import_how *how, struct tg_error *e) {
  *s = (struct tg__snapshot){.strings = strings, .settings = TG_NONE};
  struct reader r = {.s = s, .row_context_seen = UINT64_MAX};
  struct tg__unpickler u = {.strings = strings,
                            .ctx = &r,
                            .items = take_items,
                            .pairs = take_pairs,
                            .tuple = take_tuple,
                            .is_found = is_found,
                            .row_values = r.row.at,
                            .row = take_row,
                            .row_list = take_row_list,
                            .is_row = is_row};
  const bool ready = reader_begin(&r);
  u.row_keys = r.word_of;
  u.row_key_count = r.word_top;
  enum tg_err err = ready ? tg__pickle_read(&u, source, ctx, how, e) : tg__no_memory(e, "reading the snapshot");
  if (!err && !place_histories(&r)) err = tg__no_memory(e, "reading the snapshot");
  if (!err && !is_found(&r))
    err =
        tg__fail(e, TG_NOT_A_TRACE, -1, "a pickle, but no memory snapshot: it has neither segments nor device_traces");
  if (err && !s->device_count) s->device_count = r.history_count; /* to be freed */
  s->cut = u.cut;
  s->cut_offset = u.cut_offset;
  tg__unpickle_free(&u);
  reader_end(&r);
  return err;
}
