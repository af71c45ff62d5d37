/* device_figures: the counters of NVIDIA's library, which a recording has under "GPU". */
#include "analyze/device/device_figures.h"

#include <stdio.h>

static const char gpu_prefix[] = "GPU ", bits[] = " throttle reasons"; /* of bits there is no mean */

struct sum {
  uint32_t name;
  int64_t count;
  double total;
};

/* "GPU 0 power mW" as the power of device 0 in W. */
static bool read_figure(const struct tg__columns *t, const struct sum *x, struct tg__device_figure *out) {
  const struct tg__str name = tg__name(t, x->name);
  const char *const begin = name.ptr + sizeof gpu_prefix - 1, *const end = name.ptr + name.len;
  const char *const space = memchr(begin, ' ', (size_t)(end - begin)), *unit = end;
  while (unit > begin && unit[-1] != ' ') unit--;
  if (!space || unit <= space + 1) return false;
  *out = (struct tg__device_figure){.device = {begin, (uint32_t)(space - begin)},
                                    .name = {space + 1, (uint32_t)(unit - space - 2)},
                                    .mean = x->total / (double)x->count};
  snprintf(out->unit, sizeof out->unit, "%.*s", (int)(end - unit), unit);
  if (strcmp(out->unit, "mW") != 0) return true;
  out->mean /= 1000;
  snprintf(out->unit, sizeof out->unit, "W");
  return true;
}

size_t tg__device_figures(const struct tg__columns *t, uint32_t rank,
                          struct tg__device_figure out[TG__DEVICE_FIGURES]) {
  const struct tg__marks *const m = &t->marks;
  struct sum sums[TG__DEVICE_FIGURES];
  size_t count = 0, known = 0;
  for (uint32_t i = 0; i < m->count; i++) {
    if (m->ph[i] != 'C' || m->track[i] == TG_NONE || t->tracks[m->track[i]].rank != rank) continue;
    const struct tg__str name = tg__name(t, m->name[i]);
    const int64_t value = tg__arg_int(t, m->args[i], TG__K_VALUE, -1);
    size_t k = 0;
    while (k < count && sums[k].name != m->name[i]) k++;
    if (value < 0 || !tg__str_has_prefix(name, gpu_prefix) || tg__str_has_suffix(name, bits) || k == TG__DEVICE_FIGURES)
      continue;
    if (k == count) sums[count++] = (struct sum){.name = m->name[i]};
    sums[k].count++;
    sums[k].total += (double)value;
  }
  for (size_t k = 0; k < count; k++) known += read_figure(t, &sums[k], &out[known]);
  return known;
}
