/* Products and convolutions with weights in sizes that do not fit the units that compute them: tensor cores take 16-bit
 * numbers eight at a time, and so do vector units the channels of a convolution. */
#include "diagnose/sites.h"

enum { SIZES_PCT = 5, AT_A_TIME = 8, FEW = 4 }; /* FEW: channels of an image, scalars: these are not padded */

static const struct {
  const char *name;
  unsigned weight; /* which input */
  bool is_convolution;
} products[] = {{"aten::linear", 1, false},     {"aten::mm", 1, false},         {"aten::addmm", 2, false},
                {"aten::conv1d", 1, true},      {"aten::conv2d", 1, true},      {"aten::conv3d", 1, true},
                {"aten::convolution", 1, true}, {"aten::_convolution", 1, true}};

struct sizes {
  struct tg__sites *s;
  bool *in; /* by site */
  int64_t ns, calls;
  uint32_t top;
};

static int64_t padded(int64_t n) {
  return n > FEW && n < INT64_MAX - AT_A_TIME ? (n + AT_A_TIME - 1) / AT_A_TIME * AT_A_TIME : n;
}

/* The two sizes of the weight that are inner or outer ones of the product; false: no product, or both fit. */
static bool misfits(const struct tg__sites *s, const struct tg__site *x, int64_t *rows, int64_t *columns) {
  struct tg__shape shapes[TG_INPUTS];
  struct tg__str type;
  size_t k = 0;
  while (k < sizeof products / sizeof *products && !tg__is_one_of(tg__site_name(s, x), &products[k].name, 1)) k++;
  if (k == sizeof products / sizeof *products || !x->calls || x->kind != TG__CALL_FORWARD || x->types == TG_NONE ||
      !tg__list_text(tg__name(s->f->t, x->types), products[k].weight, &type) ||
      tg__call_shapes(s, x->slice, shapes) <= products[k].weight)
    return false;
  const struct tg__shape *const w = &shapes[products[k].weight];
  const bool is_half = tg__str_eq(type, TG_STR("c10::Half")) || tg__str_eq(type, TG_STR("c10::BFloat16"));
  if (w->rank < 2 || (!is_half && (s->f->has_device_work || !products[k].is_convolution))) return false;
  *rows = w->dim[0], *columns = w->dim[1];
  const double whole = (double)padded(*rows) * (double)padded(*columns), own = (double)*rows * (double)*columns;
  return is_half ? whole > own : 2 * whole >= 3 * own; /* a vector unit loses what is not filled, and no more */
}

/* Time of products of kernels that take few elements at a time: CUTLASS and cuBLAS name how many elements a kernel
 * loads at once, eight of 16 bits where sizes allow it. */
static int64_t time_of_narrow(const struct tg__facts *f) {
  const struct tg__columns *const t = f->t;
  int64_t ns = 0;
  TG__EACH_IN_STEPS (w, f) {
    const struct tg__str name = w.cls == TG__CLASS_KERNEL ? tg__slice_name(t, w.slice) : TG_STR("");
    if (tg__str_contains(name, "_align1") || tg__str_contains(name, "_align2")) ns += t->slices.dur_ns[w.slice];
  }
  return ns;
}

static void report_sizes(struct sizes *z) {
  struct tg__facts *const f = z->s->f;
  struct tg__finding *const x = tg__find_at(z->s, TG__CAUSE_UNALIGNED_SIZES, SIZES_PCT, z->ns, z->top);
  if (!x) return;
  int64_t rows, columns;
  misfits(z->s, &z->s->sites[z->top], &rows, &columns);
  const bool is_seen = 2 * time_of_narrow(f) > z->ns;
  TG_FORMAT(
      x->evidence,
      "%lld products %s have weights with sizes that are no multiples of %d, here %lld x %lld: %.2f ms%s (%.1f %%)%s",
      (long long)tg__per_step(f, z->calls), tg__period_per(f), AT_A_TIME, (long long)rows, (long long)columns,
      tg__ms(x->cost_ns), tg__if_backward(z->s, z->in, " with backward"), x->share_pct,
      is_seen ? "; their kernels load one or two elements at a time (align1, align2)" : "");
  TG_FORMAT(x->advice, "Pad features, channels and vocabulary: here %lld x %lld. %s", (long long)padded(rows),
            (long long)padded(columns),
            is_seen ? "Zeros in what is added change no result."
                    : "Where the library has kernels for such sizes that are as fast, it gains nothing: measure both.");
  tg__claim_sites(z->s, z->in, x);
  if (is_seen) {
    tg__expect_at_sites(f, x, z->ns / 2, 0.35, "kernels that load eight elements at a time take half as long");
  } else {
    x->is_statement = x->is_symptom = true;
    x->method = "whether the sizes cost anything depends on the kernel, of which nothing is known";
  }
}

void tg__judge_sizes(struct tg__facts *f) {
  struct tg__sites *const s = f->has_device_work && !f->device_bound ? NULL : tg__facts_sites(f);
  struct sizes z = {.s = s, .in = s ? tg__alloc_scratch(f, s->count, sizeof *z.in) : NULL, .top = TG_NONE};
  int64_t rows, columns;
  for (uint32_t i = 0; z.in && i < s->count; i++) z.in[i] = misfits(s, &s->sites[i], &rows, &columns);
  if (z.in) z.top = tg__sum_sites(s, z.in, &z.ns, &z.calls);
  if (z.in) report_sizes(&z);
}
