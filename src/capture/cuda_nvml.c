/* cuda_nvml: what devices as a whole do, once a second: NVIDIA's management library, opened by name. Without it nothing
 * is sampled. Devices are found by their place on the bus: it numbers them without regard to CUDA_VISIBLE_DEVICES. */
#include <dlfcn.h>
#include <stdio.h>

#include "capture/cuda.h"

enum { DEVICES = 16, TICKS = 10, BUS_BYTES = 32 };

static struct nvml {
#define NVML(name, exported, arguments) int(*name) arguments;
#include "capture/cuda_symbols.def"
} nvml;
static void *devices[DEVICES]; /* by the number that CUDA has for them */
static int count;
static uint32_t ticks;

static bool is_there(void) {
  static bool was_tried;
  if (nvml.init || was_tried) return nvml.init != NULL;
  was_tried = true;
  void *const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  struct nvml found = {0};
  if (!library) return false;
#define NVML(name, exported, arguments)                                                                                \
  if (!tg__cuda_find(library, exported, &found.name)) return false;
#include "capture/cuda_symbols.def"
  if (found.init()) return false;
  nvml = found;
  return true;
}

void tg__cuda_nvml_start(void) {
  int all = 0;
  count = 0;
  ticks = 0;
  if (!is_there() || tg__cuda_driver.device_count(&all)) return;
  for (int i = 0; i < all && i < DEVICES; i++) {
    char bus[BUS_BYTES] = "";
    devices[i] = NULL;
    if (tg__cuda_driver.bus_id(bus, sizeof bus, i) || nvml.by_bus(bus, &devices[i])) devices[i] = NULL;
    count = i + 1;
  }
}

static void put(int device, const char *what, uint64_t value) {
  char name[64];
  snprintf(name, sizeof name, "GPU %d %s", device, what);
  tg_counter(name, (int64_t)value);
}

static void sample(int i) {
  enum { SM_CLOCK = 1, MEMORY_CLOCK = 2 };
  uint32_t shares[2], value;
  uint64_t bytes[3], reasons;
  void *const d = devices[i];
  if (!d) return;
  if (!nvml.utilisation(d, shares)) put(i, "utilisation %", shares[0]);
  if (!nvml.memory(d, bytes)) put(i, "memory used bytes", bytes[2]);
  if (!nvml.power(d, &value)) put(i, "power mW", value);
  if (!nvml.clock(d, SM_CLOCK, &value)) put(i, "SM clock MHz", value);
  if (!nvml.clock(d, MEMORY_CLOCK, &value)) put(i, "memory clock MHz", value);
  if (!nvml.temperature(d, 0, &value)) put(i, "temperature C", value);
  if (!nvml.throttle(d, &reasons)) put(i, "throttle reasons", reasons);
}

/* A question takes up to a millisecond. The first time after one tick: a recording may be short. */
void tg__cuda_nvml_tick(void) {
  if (ticks++ % TICKS) return;
  for (int i = 0; i < count; i++) sample(i);
}
