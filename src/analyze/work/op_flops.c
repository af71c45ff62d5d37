/* Floating-point operations of the calls of a trace. */
#include "analyze/work/op_flops.h"

#include "analyze/work/flops.h"

bool tg__op_flops_open(struct tg__op_flops *f, const struct tg__columns *t) {
  *f = (struct tg__op_flops){.t = t};
  f->formula = tg__alloc((size_t)tg__strings_count(t->strings) + 1);
  return f->formula && tg__schema_mask_make(t, TG__K_INPUT_DIMS, &f->dims) &&
         tg__schema_mask_make(t, TG__K_INPUT_DIMS_OLD, &f->dims_old) && tg__paths_open(&f->signatures, t);
}

void tg__op_flops_close(struct tg__op_flops *f) {
  tg__schema_mask_free(&f->dims);
  tg__schema_mask_free(&f->dims_old);
  tg__paths_close(&f->signatures);
  tg__map_free(&f->of);
  tg__free(f->formula);
  tg__free(f->values);
}

static struct tg__str flops_text_of(const struct tg__columns *t, uint32_t id) {
  return id == TG_NONE ? TG_STR("") : tg__name(t, id);
}

int64_t tg__op_flops_of(struct tg__op_flops *f, uint32_t slice, struct tg__str op) {
  const struct tg__columns *t = f->t;
  const uint32_t name = t->slices.name[slice], args = t->slices.args[slice];
  if (!f->formula[name]) f->formula[name] = tg__flops_has_formula(op) ? 2 : 1;
  if (f->formula[name] == 1) return -1;
  const uint32_t dims = tg__arg_dims(t, args);
  if (dims == TG_NONE) return -1;
  const uint32_t concrete = tg__arg_str(t, args, TG__K_CONCRETE_INPUTS);
  const uint32_t key = tg__paths_step(
      &f->signatures, tg__paths_step(&f->signatures, tg__paths_step(&f->signatures, 0, name), dims), concrete);
  const uint32_t known = tg__map_get(&f->of, key);
  if (known != TG_NONE) return f->values[known];
  if (!tg__grow((void **)&f->values, &f->cap, f->count + 1, sizeof *f->values) ||
      !tg__map_put(&f->of, key, (uint32_t)f->count)) {
    f->signatures.failed = true;
    return -1;
  }
  return f->values[f->count++] = tg__flops(op, tg__name(t, dims), flops_text_of(t, concrete));
}
