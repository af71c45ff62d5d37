/* cuda_holder: CUPTI takes one subscriber per process, and records of activity need none. Torch's own collector keeps
 * it from its first window to the end of the process, also while it records nothing: then a recording goes on without a
 * subscriber. Any other holder is taken to be recording, and is not touched. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/cuda.h"

/* Parts of the names of libraries that profile CUDA: those that Nsight Systems, Nsight Compute and compute-sanitizer
 * bring into a process, Triton's Proton, Cuspy. */
static const char *const profilers[] = {"Injection", "injection", "sanitizer-collection", "libproton", "cuspy"};

static int look(struct dl_phdr_info *library, size_t bytes, void *found) {
  const char *const slash = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;
  const char *const name = slash ? slash + 1 : library->dlpi_name;
  for (size_t i = 0; name && i < sizeof profilers / sizeof *profilers; i++) {
    if (!strstr(name, profilers[i])) continue;
    snprintf(found, TG_CUDA_HOLDER_BYTES, "%s", name);
    return 1;
  }
  return 0;
}

bool tg__cuda_holder(char name[TG_CUDA_HOLDER_BYTES]) {
  const char *const injected = getenv("CUDA_INJECTION64_PATH");
  name[0] = 0;
  if (injected && *injected) {
    snprintf(name, TG_CUDA_HOLDER_BYTES, "CUDA_INJECTION64_PATH=%s", injected);
    return true;
  }
  return dl_iterate_phdr(look, name) != 0;
}
