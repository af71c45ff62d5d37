/* A library that uses NVTX, for Python programs of the tests: at its first call it looks for the tool as NVTX does. */
#include <dlfcn.h>
#include <stdlib.h>

#include "unit/nvtx_client.h"

static void ignore(void) {}

int client_attach(void) {
  const char *const path = getenv("NVTX_INJECTION64_PATH");
  void *const tool = path ? dlopen(path, RTLD_LAZY) : NULL;
  int (*initialize)(const void *(*)(uint32_t)) = NULL;
  for (int i = 1; i < NVTX_CORE_SIZE; i++) nvtx_core_now[i] = ignore;
  for (int i = 1; i < NVTX_CORE2_SIZE; i++) nvtx_core2_now[i] = ignore;
  if (tool) *(void **)&initialize = dlsym(tool, "InitializeInjectionNvtx2");
  return initialize ? nvtx_attach(initialize) : -1;
}

int client_push(const char *domain, const char *name, int64_t payload) {
  struct nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = 1, .message.ascii = name};
  a.payload_type = 2;
  a.payload.i64 = payload;
  return nvtx_domain_push(nvtx_domain_a(domain), &a);
}
int client_pop(const char *domain) { return nvtx_domain_pop(nvtx_domain_a(domain)); }
void client_mark(const char *name) { nvtx_mark_a(name); }
