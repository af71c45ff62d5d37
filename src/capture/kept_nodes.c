/* kept_nodes: number of a node of a CUDA graph → the operator and the place that captured it. Open addressing, 16 bytes
 * a place in it, at most three quarters full. A clone has what its original had, which may be gone by then. */
#include "capture/kept.h"

enum { FIRST = 256, OPERATORS_MOST = UINT16_MAX - 1, TEXT_MOST = 1 << 20, NAME_MOST = 256 };

struct node {
  uint64_t number; /* 0 = free */
  uint32_t place;
  uint16_t op;         /* 0 = none */
  uint16_t is_in_file; /* of `generation` */
};
struct operator{ uint32_t hash, at; /* where its text is */ };

const struct tg__kept_places *_Atomic tg__kept_places;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t most; /* bytes; 0 = off */
static uint64_t bytes, lost, count;
static struct node *nodes;
static size_t nodes_cap; /* bytes */
static struct operator* operators;
static char *text;
static size_t operators_cap, text_cap, text_used;
static uint32_t operator_count, generation;

void tg__kept_lock(void) { pthread_mutex_lock(&lock); }
void tg__kept_unlock(void) { pthread_mutex_unlock(&lock); }
bool tg__kept_is_on(void) { return atomic_load_explicit(&most, memory_order_acquire) != 0; }

/* ---- memory ---------------------------------------------------------------------------------- */

bool tg__kept_grow(void *place, size_t *cap, size_t want) {
  const size_t before = *cap, half_more = before + before / 2, after = want > half_more ? want : half_more;
  if (want <= before) return true;
  if (bytes + (after - before) > atomic_load(&most) || !tg__pages_grow(place, cap, want)) return false;
  bytes += *cap - before;
  return true;
}

void tg__kept_release(void *p, size_t cap) {
  if (!cap) return;
  tg__pages_drop(p, cap);
  bytes -= cap;
}

static uint32_t places_of(size_t cap) { return (uint32_t)(cap / sizeof *nodes); }

/* ---- the table ------------------------------------------------------------------------------- */

static uint32_t home_of(uint64_t number, uint32_t mask) {
  return (uint32_t)(number * 0x9e3779b97f4a7c15u >> 32) & mask;
}

/* Where it is, or would be put. */
static struct node *find(struct node *table, size_t cap, uint64_t number) {
  const uint32_t mask = places_of(cap) - 1;
  uint32_t at = home_of(number, mask);
  while (table[at].number && table[at].number != number) at = (at + 1) & mask;
  return &table[at];
}

/* Into a table of another size, without those of a graph; 0 = all. false: no room. */
static bool move_to(size_t cap, bool drops, uint32_t graph) {
  struct node *table = NULL;
  size_t got = 0;
  if (!tg__kept_grow(&table, &got, cap)) return false;
  const uint32_t room = places_of(nodes_cap);
  count = 0;
  for (uint32_t i = 0; i < room; i++) {
    if (!nodes[i].number || (drops && nodes[i].number >> 32 == graph)) continue;
    *find(table, cap, nodes[i].number) = nodes[i];
    count++;
  }
  tg__kept_release(nodes, nodes_cap);
  nodes = table;
  nodes_cap = got;
  return true;
}

static struct node *known(uint64_t number) {
  struct node *const n = nodes_cap && number ? find(nodes, nodes_cap, number) : NULL;
  return n && n->number ? n : NULL;
}

static void put(struct node node) {
  const uint32_t room = places_of(nodes_cap);
  if (count >= room / 4 * 3 && !move_to(room ? nodes_cap * 2 : FIRST * sizeof *nodes, false, 0)) {
    lost++;
    return;
  }
  struct node *const at = find(nodes, nodes_cap, node.number);
  count += at->number == 0;
  *at = node;
}

/* The nodes behind it move up, as far as each may. */
static void take_out(struct node *n) {
  const uint32_t mask = places_of(nodes_cap) - 1;
  uint32_t hole = (uint32_t)(n - nodes);
  for (uint32_t at = (hole + 1) & mask; nodes[at].number; at = (at + 1) & mask) {
    const uint32_t home = home_of(nodes[at].number, mask);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    nodes[hole] = nodes[at];
    hole = at;
  }
  nodes[hole] = (struct node){0};
  count--;
}

static void forget(void) {
  const struct tg__kept_places *const places = atomic_load(&tg__kept_places);
  if (places) places->forget();
  tg__kept_release(nodes, nodes_cap);
  tg__kept_release(operators, operators_cap);
  tg__kept_release(text, text_cap);
  nodes = NULL;
  operators = NULL;
  text = NULL;
  nodes_cap = operators_cap = text_cap = text_used = 0;
  operator_count = 0;
  count = 0;
}

/* ---- operators ------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name, size_t len) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
  return h;
}

/* Number of a name; 0 = no room. */
static uint16_t operator_of(const char *name) {
  const size_t len = strnlen(name, NAME_MOST);
  const uint32_t hash = hash_of(name, len);
  for (uint32_t i = 0; i < operator_count; i++)
    if (operators[i].hash == hash && strncmp(text + operators[i].at, name, len) == 0 && !text[operators[i].at + len])
      return (uint16_t)(i + 1);
  const size_t need = text_used + len + 1;
  if (operator_count == OPERATORS_MOST || need > TEXT_MOST ||
      !tg__kept_grow(&text, &text_cap, need > text_cap ? need * 2 : need) ||
      !tg__kept_grow(&operators, &operators_cap, (operator_count + 1) * sizeof *operators))
    return 0;
  memcpy(text + text_used, name, len);
  text[text_used + len] = 0;
  operators[operator_count++] = (struct operator){ hash, (uint32_t)text_used };
  text_used = need;
  return (uint16_t)operator_count;
}

/* ---- on and off ------------------------------------------------------------------------------ */

void tg__kept_begin(uint64_t most_bytes) {
  tg__kept_lock();
  if (!tg__kept_is_on()) {
    forget();
    lost = 0;
  }
  atomic_store(&most, most_bytes);
  tg__kept_unlock();
}

void tg__kept_end(void) {
  tg__kept_lock();
  atomic_store(&most, 0);
  forget();
  tg__kept_unlock();
}

void tg__kept_forked(void) {
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  atomic_store(&most, 0);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What is in a file is known of the file that is open. */
static void follow_file(uint32_t now) {
  if (now == generation) return;
  generation = now;
  for (uint32_t i = 0; i < places_of(nodes_cap); i++) nodes[i].is_in_file = 0;
}

void tg__kept_capture(uint64_t number, uint32_t now, bool is_in_file) {
  const struct tg__kept_places *const places = atomic_load(&tg__kept_places);
  const char *const name = tg__torch_operator_now();
  struct node node = {.number = number, .is_in_file = is_in_file};
  tg__kept_lock();
  if (tg__kept_is_on() && number) {
    follow_file(now);
    const bool has_place = !places || places->now(&node.place);
    node.op = name ? operator_of(name) : 0;
    if (!has_place || (name && !node.op))
      lost++;
    else if (node.op || node.place)
      put(node);
  }
  tg__kept_unlock();
}

void tg__kept_clone(uint64_t number, uint64_t from, uint32_t now) {
  tg__kept_lock();
  if (tg__kept_is_on() && number) {
    follow_file(now);
    const struct node *const original = known(from);
    struct node node = original ? *original : (struct node){0};
    node.number = number;
    if (original) put(node);
  }
  tg__kept_unlock();
}

void tg__kept_drop(uint64_t number) {
  tg__kept_lock();
  struct node *const n = known(number);
  if (n) take_out(n);
  if (n && !count) forget();
  tg__kept_unlock();
}

void tg__kept_drop_graph(uint32_t graph) {
  tg__kept_lock();
  uint64_t left = 0, of_graph = 0;
  for (uint32_t i = 0; i < places_of(nodes_cap); i++) {
    left += nodes[i].number && nodes[i].number >> 32 != graph;
    of_graph += nodes[i].number && nodes[i].number >> 32 == graph;
  }
  size_t cap = FIRST * sizeof *nodes;
  while (left >= places_of(cap) / 4 * 3) cap *= 2;
  if (of_graph && !left) forget();
  /* Without memory for the smaller table they go one by one. */
  if (of_graph && left && !move_to(cap, true, graph)) {
    for (uint32_t i = 0; i < places_of(nodes_cap);)
      if (nodes[i].number && nodes[i].number >> 32 == graph)
        take_out(&nodes[i]); /* another may stand there now */
      else
        i++;
  }
  tg__kept_unlock();
}

/* ---- into a file ----------------------------------------------------------------------------- */

bool tg__kept_find(struct tg__thread *t, uint64_t number, uint32_t *op, uint32_t *stack) {
  const struct tg__kept_places *const places = atomic_load(&tg__kept_places);
  *op = *stack = 0;
  if (!tg__kept_is_on()) return false;
  tg__kept_lock();
  follow_file(t->generation);
  struct node *const n = known(number);
  if (n && !n->is_in_file) {
    const char *const name = n->op ? text + operators[n->op - 1].at : NULL;
    n->is_in_file = true;
    if (places && n->place) *stack = places->stack(t, n->place);
    if (name) *op = tg__dictionary_intern(t, TG_RAW_D_NAME, 0, name, strlen(name));
  }
  tg__kept_unlock();
  return *op || *stack;
}

struct tg__kept_stats tg__kept_now(void) {
  const struct tg__kept_places *const places = atomic_load(&tg__kept_places);
  struct tg__kept_stats s = {0};
  tg__kept_lock();
  s = (struct tg__kept_stats){.nodes = count, .operators = operator_count, .bytes = bytes, .lost = lost};
  if (places) places->count(&s);
  tg__kept_unlock();
  return s;
}
