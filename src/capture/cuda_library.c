/* cuda_library: the one gate to NVIDIA's libraries. They are opened by name, and nothing of them is needed to build. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include "capture/cuda.h"

struct tg__cupti tg__cupti;
struct tg__cuda_driver tg__cuda_driver;

/* POSIX lets a function come out of dlsym as a data pointer; in C it has to be copied. */
bool tg__cuda_find(void *library, const char *name, void *function) {
  void *const p = dlsym(library, name);
  memcpy(function, &p, sizeof p);
  return p != NULL;
}

/* ---- libcupti -------------------------------------------------------------------------------- */

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
enum { NAMES = sizeof names / sizeof *names };

/* Beside torch, where pip installs NVIDIA's packages: …/torch/lib/libtorch_cpu.so → …/nvidia/… */
static void *open_beside_torch(void) {
  static const char *const places[] = {"nvidia/cu13/lib/libcupti.so.13", "nvidia/cuda_cupti/lib/libcupti.so.13",
                                       "nvidia/cuda_cupti/lib/libcupti.so.12"};
  static const char tail[] = "torch/lib/libtorch_cpu.so";
  char path[4096];
  struct link_map *map = NULL;
  void *const torch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY), *found = NULL;
  if (torch && dlinfo(torch, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name) {
    const size_t len = strlen(map->l_name), head = len > sizeof tail ? len - (sizeof tail - 1) : 0;
    if (head && head < sizeof path - 64 && strcmp(map->l_name + head, tail) == 0) {
      for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        snprintf(path, sizeof path, "%.*s%s", (int)head, map->l_name, places[i]);
        found = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
      }
    }
  }
  if (torch) dlclose(torch);
  return found;
}

static void *open_cupti(void) {
  void *found = NULL;
  for (int i = 0; i < NAMES && !found; i++) found = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
  if (!found) found = open_beside_torch();
  for (int i = 0; i < NAMES && !found; i++) found = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
  if (!found) found = dlopen("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", RTLD_LAZY | RTLD_LOCAL);
  return found;
}

/* The name of a function it lacks, NULL = it has all that are needed. */
static const char *find_cupti(void *library, struct tg__cupti *c) {
  enum { MAY, NEED };
#define CUPTI(need, name, arguments)                                                                                   \
  if (!tg__cuda_find(library, #name, &c->name) && need) return #name;
#include "capture/cuda_symbols.def"
  return NULL;
}

static void note_path(struct tg__cupti *c) {
  Dl_info info;
  void *function;
  memcpy(&function, &c->cuptiGetVersion, sizeof function);
  if (dladdr(function, &info) && info.dli_fname) snprintf(c->path, sizeof c->path, "%s", info.dli_fname);
}

static enum tg_err load_cupti(struct tg_error *e) {
  enum { OLDEST = 18 };
  struct tg__cupti found = {0};
  void *const library = open_cupti();
  if (!library)
    return tg__fail(e, TG_NO_DATA, -1,
                    "CUDA: libcupti was not found: install the package nvidia-cuda-cupti (-cu12 for CUDA 12), or the "
                    "CUDA toolkit");
  const char *const missing = find_cupti(library, &found); /* it is never unloaded: it may hold callbacks */
  if (missing) return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: this libcupti has no %s", missing);
  note_path(&found);
  const int result = found.cuptiGetVersion(&found.version);
  if (result)
    return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: libcupti answers with error %d; does it fit the driver? It is %s",
                    result, found.path);
  if (found.version < OLDEST)
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "CUDA: libcupti is version %u of CUPTI's interface; CUDA 12 has %d; it is %s", found.version,
                    OLDEST, found.path);
  tg__cupti = found;
  return TG_OK;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static const char *find_driver(void *library, struct tg__cuda_driver *d) {
#define DRIVER(name, exported, arguments)                                                                              \
  if (!tg__cuda_find(library, exported, &d->name)) return exported;
#include "capture/cuda_symbols.def"
  return NULL;
}

/* What cuInit says: by the numbers of CUresult. */
static const char *cure_of_driver(int result) {
  switch (result) {
  case 3: /* NOT_INITIALIZED */
    return "this process was forked from one that uses CUDA, so it cannot use it: start it with the method spawn";
  case 34: /* STUB_LIBRARY */
    return "libcuda.so.1 is the toolkit's stub: take its folder out of LD_LIBRARY_PATH";
  case 802: /* SYSTEM_NOT_READY */
    return "the driver is not ready: start nvidia-fabricmanager, or wait for it";
  case 803: /* SYSTEM_DRIVER_MISMATCH */
    return "libcuda.so.1 and the driver in the kernel have different versions: restart the machine";
  case 804: /* COMPAT_NOT_SUPPORTED_ON_DEVICE */
    return "this device cannot use CUDA's compatibility libraries: take them out of LD_LIBRARY_PATH, or install a "
           "newer "
           "driver";
  default:
    return NULL;
  }
}

static enum tg_err load_driver(struct tg_error *e) {
  enum { NO_DEVICE = 100 };
  struct tg__cuda_driver found = {0};
  int devices = 0;
  void *const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return tg__fail(e, TG_NO_DATA, -1,
                    "CUDA: this machine has no NVIDIA driver (libcuda.so.1 was not found); install it, or record "
                    "without CUDA");
  const char *const missing = find_driver(library, &found);
  if (missing) return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: the driver has no %s: install a newer one", missing);
  const int result = found.init(0);
  const char *const cure = cure_of_driver(result);
  if (cure) return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: %s (cuInit says %d)", cure, result);
  if (result || found.device_count(&devices) || devices == 0)
    return tg__fail(e, TG_NO_DATA, -1,
                    "CUDA: the driver shows no device (cuInit says %d%s): see nvidia-smi and CUDA_VISIBLE_DEVICES",
                    result, result == NO_DEVICE ? ", no device" : "");
  tg__cuda_driver = found;
  return TG_OK;
}

enum tg_err tg__cuda_load(struct tg_error *e) {
  enum tg_err err = TG_OK;
  if (!tg__cuda_driver.init) err = load_driver(e);
  if (!err && !tg__cupti.cuptiGetVersion) err = load_cupti(e);
  return err;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *cure_of(int result) {
  switch (result) {
  case 35: /* INSUFFICIENT_PRIVILEGES */
  case 40:
    return "the driver lets only administrators profile: load it with NVreg_RestrictProfilingToAdminUsers=0";
  case 14: /* NOT_COMPATIBLE */
  case 15: /* NOT_INITIALIZED */
    return "libcupti does not fit the driver: a driver older than libcupti, or an LD_LIBRARY_PATH with "
           "another CUDA's libraries, is the usual cause";
  case 33:
  case 43: /* VIRTUALIZED_DEVICE, MIG_DEVICE */
    return "the driver does not let virtual or partitioned devices be profiled: see the hypervisor's settings";
  case 41:
    return "the device runs in confidential-computing mode, which forbids it";
  default:
    return "record with backend=\"kineto\", and see tachograph doctor";
  }
}

enum tg_err tg__cupti_fail(struct tg_error *e, const char *doing, int result) {
  const char *text = NULL;
  if (tg__cupti.cuptiGetResultString) tg__cupti.cuptiGetResultString((uint32_t)result, &text);
  return tg__fail(e, TG_UNSUPPORTED, -1, "CUDA: %s: %s (CUPTI %d); %s", doing, text ? text : "error", result,
                  cure_of(result));
}
