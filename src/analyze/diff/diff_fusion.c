/* diff_fusion: how many kernels, or on the host operators, torch.compile fused into how many. */
#include "analyze/diff/diff.h"

#include "analyze/host/kernel_lines.h"

#include <math.h>

enum { OF_DEVICE, OF_HOST };

static bool is_named_operator(const struct tg__columns *t, uint32_t slice) {
  const struct tg__str name = tg__name(t, t->slices.name[slice]);
  return tg__slice_class(t, slice) == TG__CLASS_OP && tg__str_contains(name, "::") && !tg__name_is_autograd_node(name);
}

/* An operator that another calls is a part of it. */
static bool counts_on_host(const struct tg__columns *t, uint32_t slice, bool is_fused) {
  const uint32_t parent = t->slices.parent[slice];
  return is_fused || (is_named_operator(t, slice) && (parent == TG_NONE || !is_named_operator(t, parent)));
}

static void count_slice(struct tg__diff_side *s, uint32_t rank, uint32_t slice) {
  const struct tg__columns *const t = s->t;
  const enum tg__class cls = tg__slice_class(t, slice);
  if (cls != TG__CLASS_KERNEL && cls != TG__CLASS_OP) return;
  const int where = cls == TG__CLASS_KERNEL ? OF_DEVICE : OF_HOST;
  const bool is_fused = tg__is_compiled_kernel(tg__name(t, t->slices.name[slice]));
  const uint32_t launch = where == OF_DEVICE ? tg__launch_of(t, slice) : TG_NONE;
  if (where == OF_DEVICE ? launch == TG_NONE && !s->is_recording : !counts_on_host(t, slice, is_fused)) return;
  if (tg__diff_step_at(s, rank, t->slices.start_ns[launch == TG_NONE ? slice : launch]) == TG_NONE) return;
  ++*(is_fused ? &s->fusion.fused[where] : &s->fusion.plain[where]);
}

void tg__diff_fusion_take(struct tg__diff_side *s) {
  s->fusion.units = (int64_t)s->unit_count;
  for (uint32_t k = 0; k < s->t->track_count; k++)
    if (tg__ask_has_track(&s->selection, s->t, k))
      TG__EACH (i, tg__slices_of(&s->t->tracks[k])) count_slice(s, s->t->tracks[k].rank, i);
}

void tg__diff_fusion_add(struct tg__diff_fusion *to, const struct tg__diff_fusion *from) {
  for (int where = OF_DEVICE; where <= OF_HOST; where++) {
    to->plain[where] += from->plain[where];
    to->fused[where] += from->fused[where];
  }
  to->units += from->units;
}

static long long a_step(const struct tg__diff_fusion *f, int64_t count) {
  return f->units ? llround((double)count / (double)f->units) : 0;
}

/* What is not fused on the compiled side either, such as products of matrices, is no part of the claim. */
void tg__diff_note_fusion(const struct tg__diff_side sides[TG__SIDES], struct tg_table *out) {
  const struct tg__diff_fusion *const a = &sides[0].fusion, *const b = &sides[1].fusion;
  const bool has_kernels = a->plain[OF_DEVICE] + a->fused[OF_DEVICE] + b->plain[OF_DEVICE] + b->fused[OF_DEVICE] > 0;
  const int where = has_kernels ? OF_DEVICE : OF_HOST;
  if (!a->fused[where] == !b->fused[where]) return;
  const bool is_forth = b->fused[where] > 0;
  const struct tg__diff_fusion *const eager = is_forth ? a : b, *const compiled = is_forth ? b : a;
  const long long into = a_step(compiled, compiled->fused[where]);
  const long long from = a_step(eager, eager->plain[where]) - a_step(compiled, compiled->plain[where]);
  if (into < 1 || from <= into) return;
  const char name = is_forth ? 'B' : 'A', other = is_forth ? 'A' : 'B';
  if (where == OF_DEVICE)
    tg__table_note(out, "%c is compiled, %c is not: torch.compile fused %lld kernels a step into %lld", name, other,
                   from, into);
  else
    tg__table_note(out, "%c is compiled, %c is not: torch.compile fused %lld operators a step into %lld kernel%s", name,
                   other, from, into, into == 1 ? "" : "s");
}
