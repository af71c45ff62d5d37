/* cuda_device: what each device is, as the driver says. */
#include "capture/cuda.h"

/* CUdevice_attribute of cuda.h: the driver's numbers, which it never changes. */
static const struct {
  uint8_t field, attribute;
} attributes[] = {{TG_LAUNCH_BLOCK_THREADS, 1},    {TG_LAUNCH_BLOCK_SHARED, 8},     {TG_LAUNCH_WARP, 10},
                  {TG_LAUNCH_BLOCK_REGISTERS, 12}, {TG_LAUNCH_MULTIPROCESSORS, 16}, {TG_LAUNCH_COMPUTE_MAJOR, 75},
                  {TG_LAUNCH_COMPUTE_MINOR, 76},   {TG_LAUNCH_MOST_SHARED, 81},     {TG_LAUNCH_MOST_REGISTERS, 82},
                  {TG_LAUNCH_BLOCK_OPTIN, 97},     {TG_LAUNCH_MOST_BLOCKS, 106}};

static void write_one(int number) {
  enum { MOST_THREADS = 39, WARP = 10, NAME_BYTES = 128 };
  const struct tg__cuda_driver *const d = &tg__cuda_driver;
  struct tg__cuda_entry x = {.len = 0};
  char name[NAME_BYTES] = "";
  int device, value, threads, warp;
  size_t bytes;
  if (d->device_get(&device, number)) return;
  tg__cuda_put_field(&x, TG_LAUNCH_DEVICE, number);
  if (d->device_memory(&bytes, device) == 0) tg__cuda_put_field(&x, TG_LAUNCH_MEMORY_BYTES, (int64_t)bytes);
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
    if (d->device_attribute(&value, attributes[i].attribute, device) == 0)
      tg__cuda_put_field(&x, attributes[i].field, value);
  if (d->device_attribute(&threads, MOST_THREADS, device) == 0 && d->device_attribute(&warp, WARP, device) == 0 &&
      warp > 0)
    tg__cuda_put_field(&x, TG_LAUNCH_MOST_WARPS, threads / warp);
  d->device_name(name, NAME_BYTES, device);
  const size_t len = strnlen(name, NAME_BYTES);
  tg__cuda_put_field(&x, TG_LAUNCH_NAME, (int64_t)len);
  memcpy(x.bytes + x.len, name, len);
  tg__dictionary_write(TG_RAW_EVERY_THREAD, TG_RAW_D_DEVICE, (uint32_t)number + 1, 0, x.bytes, x.len + len);
}

void tg__cuda_devices_write(void) {
  enum { MOST = 64 };
  int count = 0;
  if (tg__cuda_driver.device_count(&count)) return;
  for (int i = 0; i < count && i < MOST; i++) write_one(i);
}
