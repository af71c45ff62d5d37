/* Which kind of work an operator or a kernel does. */
#include "analyze/host/op_class.h"

enum { WORD_MOST = 64 }; /* longer names are cut: no word of the list is near it */

const char *tg__op_class_name(enum tg__op_class c) {
  static const char *const names[] = {
#define CLASS(id, name, meaning, claims) name,
#include "analyze/host/op_classes.def"
  };
  return names[c];
}

static bool claims_all(enum tg__op_class c) {
  static const bool claiming[] = {
#define CLASS(id, name, meaning, claims) claims,
#include "analyze/host/op_classes.def"
  };
  return claiming[c];
}

/* ---- by name --------------------------------------------------------------------------------- */

static bool is_collective_op(struct tg__str name) {
  static const char *const prefixes[] = {
      "nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:", "c10d::", "_c10d_functional::", "c10d_functional::"};
  for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++)
    if (tg__str_has_prefix(name, prefixes[k])) return true;
  return tg__str_eq(name, TG_STR("record_param_comms"));
}

/* "autograd::engine::evaluate_function: NativeBatchNormBackward0" and "aten::native_batch_norm_backward" are
 * nativebatchnorm. */
static struct tg__str word_of(struct tg__str name, char buf[WORD_MOST]) {
  static const char backward[] = "backward";
  uint32_t begin = name.len, length = 0;
  while (begin > 0 && name.ptr[begin - 1] != ':' && name.ptr[begin - 1] != ' ') begin--;
  for (uint32_t i = begin; i < name.len && length < WORD_MOST; i++) {
    const char c = name.ptr[i];
    if (c == '.') break; /* the overload */
    if (c != '_') buf[length++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
  }
  struct tg__str word = {buf, length};
  while (word.len && word.ptr[word.len - 1] >= '0' && word.ptr[word.len - 1] <= '9') word.len--;
  if (!tg__str_has_suffix(word, backward)) return (struct tg__str){buf, length};
  word.len -= (uint32_t)(sizeof backward - 1);
  return word;
}

static enum tg__op_class class_of_name(struct tg__str name) {
  if (is_collective_op(name)) return TG__OPS_COMM;
  char buf[WORD_MOST];
  const struct tg__str word = word_of(name, buf);
  static const struct {
    uint8_t cls;
    const char *text;
  } words[] = {
#define WORD(id, word) {TG__OPS_##id, word},
#include "analyze/host/op_classes.def"
  };
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strlen(words[k].text) == word.len && memcmp(words[k].text, word.ptr, word.len) == 0)
      return (enum tg__op_class)words[k].cls;
#define PART(id, part)                                                                                                 \
  if (tg__str_contains(word, part)) return TG__OPS_##id;
#include "analyze/host/op_classes.def"
  return TG__OPS_OTHER;
}

static enum tg__op_class class_of_kernel(struct tg__str kernel) {
#define KERNEL(id, part)                                                                                               \
  if (tg__str_contains(kernel, part)) return TG__OPS_##id;
#include "analyze/host/op_classes.def"
  return TG__OPS_OTHER;
}

static enum tg__op_class remembered(uint8_t *seen, const struct tg__columns *t, uint32_t name,
                                    enum tg__op_class (*judge)(struct tg__str)) {
  if (!seen[name]) seen[name] = (uint8_t)(judge(tg__name(t, name)) + 1);
  return (enum tg__op_class)(seen[name] - 1);
}

/* ---- by place -------------------------------------------------------------------------------- */

/* Parents stand before their children. An operator of no class counts for the one that it runs in. */
static void judge_nodes(struct tg__op_classes *c, struct tg__rank_range range) {
  for (uint32_t i = c->tree->first[range.first_track]; i < c->tree->first[range.end_track]; i++) {
    const struct tg__op_node *n = &c->tree->nodes[i];
    const enum tg__op_class around = n->parent == TG_NONE ? TG__OPS_OTHER : (enum tg__op_class)c->of_node[n->parent];
    enum tg__op_class own =
        n->is_op ? remembered(c->names, c->t, c->t->slices.name[n->slice], class_of_name) : TG__OPS_OTHER;
    if (claims_all(around) || own == TG__OPS_OTHER) own = around;
    c->of_node[i] = (uint8_t)own;
  }
}

enum tg_err tg__op_classes_open(struct tg__op_classes *c, const struct tg__columns *t, struct tg__rank_range range,
                                const struct tg__op_tree *tree) {
  const size_t strings = (size_t)tg__strings_count(t->strings) + 1;
  *c = (struct tg__op_classes){.t = t, .tree = tree};
  c->of_node = tg__alloc(tree->count + 1);
  c->names = tg__alloc(strings);
  c->kernels = tg__alloc(strings);
  if (!tg__names_open(&c->kinds, t) || !c->of_node || !c->names || !c->kernels) return TG_MEMORY;
  judge_nodes(c, range);
  return TG_OK;
}

void tg__op_classes_close(struct tg__op_classes *c) {
  tg__free(c->of_node);
  tg__free(c->names);
  tg__free(c->kernels);
  tg__names_close(&c->kinds);
  *c = (struct tg__op_classes){0};
}

enum tg__op_class tg__op_class_of_device_work(struct tg__op_classes *c, uint32_t slice) {
  const char *type = tg__names_kernel_type(&c->kinds, slice);
  if (strcmp(type, "COMMUNICATION") == 0) return TG__OPS_COMM;
  if (strcmp(type, "MEMORY") == 0) return TG__OPS_COPY;
  const uint32_t op = tg__launching_op(c->t, slice), node = op == TG_NONE ? TG_NONE : c->tree->node_of[op];
  if (node != TG_NONE && c->of_node[node] != TG__OPS_OTHER) return (enum tg__op_class)c->of_node[node];
  return remembered(c->kernels, c->t, c->t->slices.name[slice], class_of_kernel);
}
