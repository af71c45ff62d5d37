/* Collapsed stacks: one line a stack, frames joined by ;, then a blank and the time in whole nanoseconds.
 * metric=cpu: host time in the innermost frame only. metric=device: device work by the stack that launched it, the
 * kernel as innermost frame. */
#include "show/stacktree.h"

/* ; parts frames and a line ends a stack: neither may stand in a name. Some readers take the last blank for the
 * separator, which is where ours is. */
static void put_frame(struct tg__out *out, struct tg__str s) {
  const unsigned char *const p = (const unsigned char *)s.ptr;
  if (!s.len) tg__out_text(out, "(no name)");
  for (size_t i = 0; i < s.len;) {
    const unsigned n = tg__utf8_length(p + i, s.len - i);
    if (!n)
      tg__out_text(out, "\xef\xbf\xbd");
    else if (p[i] == ';' || tg__utf8_is_unsafe(p + i, n))
      tg__out_char(out, p[i] == ';' ? ',' : ' ');
    else
      tg__out_bytes(out, p + i, n);
    i += n ? n : 1;
  }
}

/* Writes the chain from the root to `node`; chain has room for its depth. */
static bool put_stack(const struct tg__columns *t, const struct tg__stacktree *s, uint32_t node, uint32_t **chain,
                      size_t *cap, struct tg__out *out) {
  size_t depth = 0;
  for (uint32_t n = node; n != TG_NONE; n = s->nodes[n].parent) {
    void *items = *chain;
    if (!tg__grow(&items, cap, depth + 1, sizeof **chain)) return false;
    *chain = items;
    (*chain)[depth++] = n;
  }
  while (depth--) {
    put_frame(out, tg__name(t, s->nodes[(*chain)[depth]].name));
    if (depth) tg__out_char(out, ';');
  }
  tg__out_char(out, ' ');
  tg__out_int(out, s->nodes[node].self_ns);
  tg__out_char(out, '\n');
  return true;
}

enum tg_err tg__folded_trace(struct tg__columns *t, const struct tg__show_options *o, struct tg__out *out,
                             struct tg_error *e) {
  uint32_t *chain = NULL;
  size_t cap = 0;
  enum tg__stack_metric metric;
  struct tg__stacktree stacks = {0};
  struct tg__ask selection = {0};
  enum tg_err err = tg__stack_metric(o, &metric, e);
  if (!err) err = tg__show_begin(t, o, TG__COL_SLICES, &selection, e);
  if (err) goto done;
  err = tg__stacktree_build(t, &selection, metric, &stacks, e);
  if (err) goto done;
  for (size_t i = 0; !err && i < stacks.count; i++) {
    if (stacks.nodes[i].self_ns > 0 && !put_stack(t, &stacks, (uint32_t)i, &chain, &cap, out)) err = TG_MEMORY;
  }
  err = err ? tg__no_memory(e, "folding stacks") : tg__show_end(out, e);
done:
  tg__ask_end(&selection);
  tg__free(chain);
  tg__stacktree_free(&stacks);
  return err;
}
