/* What a kernel does. */
#include "analyze/device/kernel_class.h"

#include "analyze/device/tensor_cores.h"

/* softmax_warp_forward<in, out, sum, log2 of the length, is_log, …> of torch says by a flag that it is one of
 * logarithms. */
static bool is_log_by_flag(struct tg__str name) {
  enum { FLAG = 4 };
  const char *const at = name.len ? memmem(name.ptr, name.len, "softmax_warp_", 13) : NULL, *const end =
                                                                                                name.ptr + name.len;
  const char *p = at ? memchr(at, '<', (size_t)(end - at)) : NULL;
  for (int commas = 0; p && commas < FLAG; commas++) p = p + 1 < end ? memchr(p + 1, ',', (size_t)(end - p - 1)) : NULL;
  return p && end - p > 6 && memcmp(p, ", true", 6) == 0;
}

enum tg__kernel_class tg__kernel_class(struct tg__str name) {
  if (tg__name_is_collective_kernel(name)) return TG__KERNEL_COLLECTIVE;
#define EARLY(class, part)                                                                                             \
  if (tg__str_contains(name, part)) return TG__KERNEL_##class;
#include "analyze/device/kernel_classes.def"
  if (tg__matrix_unit(name) != TG__UNIT_NONE) return TG__KERNEL_PRODUCT;
  if (is_log_by_flag(name)) return TG__KERNEL_LOG_SOFTMAX;
#define LATE(class, part)                                                                                              \
  if (tg__str_contains(name, part)) return TG__KERNEL_##class;
#define BOTH(class, part, other)                                                                                       \
  if (tg__str_contains(name, part) && tg__str_contains(name, other)) return TG__KERNEL_##class;
#include "analyze/device/kernel_classes.def"
  return TG__KERNEL_OTHER;
}
