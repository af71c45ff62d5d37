/* A client of NVTX as its version 3 is one, for the tests: tables of slots that the recorder fills, and the calls
 * through them. Written from the description of the interface; it shares no declaration with src/capture. */
#ifndef NVTX_CLIENT_H
#define NVTX_CLIENT_H

#include <stdint.h>
#include <wchar.h>

typedef void nvtx_function(void);

struct nvtx_attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  int32_t message_type;
  union {
    const char *ascii;
    const wchar_t *wide;
    void *registered;
  } message;
};

enum { NVTX_CORE = 1, NVTX_CORE2 = 5, NVTX_CORE_SIZE = 16, NVTX_CORE2_SIZE = 16 };

static nvtx_function *nvtx_core_now[NVTX_CORE_SIZE], *nvtx_core2_now[NVTX_CORE2_SIZE];
static nvtx_function **nvtx_core_slots[NVTX_CORE_SIZE + 1], **nvtx_core2_slots[NVTX_CORE2_SIZE + 1];

static inline int nvtx_module(int module, nvtx_function ****table, unsigned *size) {
  if (module != NVTX_CORE && module != NVTX_CORE2) return 0;
  *table = module == NVTX_CORE ? nvtx_core_slots : nvtx_core2_slots;
  *size = module == NVTX_CORE ? NVTX_CORE_SIZE : NVTX_CORE2_SIZE;
  return 1;
}

static struct {
  size_t bytes;
  int (*module)(int, nvtx_function ****, unsigned *);
} nvtx_callbacks = {sizeof nvtx_callbacks, nvtx_module};

static inline const void *nvtx_tables(uint32_t id) { return id == 1 ? &nvtx_callbacks : NULL; }

/* initialize: what the library of the tool is asked for, InitializeInjectionNvtx2. */
static inline int nvtx_attach(int (*initialize)(const void *(*tables)(uint32_t))) {
  for (int i = 1; i < NVTX_CORE_SIZE; i++) nvtx_core_slots[i] = &nvtx_core_now[i];
  for (int i = 1; i < NVTX_CORE2_SIZE; i++) nvtx_core2_slots[i] = &nvtx_core2_now[i];
  return initialize(nvtx_tables);
}

#define NVTX_CALL(slot, result, ...) ((result(*)(__VA_ARGS__))(slot))
#define nvtx_mark_ex NVTX_CALL(nvtx_core_now[1], void, const struct nvtx_attributes *)
#define nvtx_mark_a NVTX_CALL(nvtx_core_now[2], void, const char *)
#define nvtx_mark_w NVTX_CALL(nvtx_core_now[3], void, const wchar_t *)
#define nvtx_start_ex NVTX_CALL(nvtx_core_now[4], uint64_t, const struct nvtx_attributes *)
#define nvtx_start_a NVTX_CALL(nvtx_core_now[5], uint64_t, const char *)
#define nvtx_start_w NVTX_CALL(nvtx_core_now[6], uint64_t, const wchar_t *)
#define nvtx_end NVTX_CALL(nvtx_core_now[7], void, uint64_t)
#define nvtx_push_ex NVTX_CALL(nvtx_core_now[8], int, const struct nvtx_attributes *)
#define nvtx_push_a NVTX_CALL(nvtx_core_now[9], int, const char *)
#define nvtx_push_w NVTX_CALL(nvtx_core_now[10], int, const wchar_t *)
#define nvtx_pop NVTX_CALL(nvtx_core_now[11], int, void)
#define nvtx_category_a NVTX_CALL(nvtx_core_now[12], void, uint32_t, const char *)
#define nvtx_category_w NVTX_CALL(nvtx_core_now[13], void, uint32_t, const wchar_t *)
#define nvtx_thread_a NVTX_CALL(nvtx_core_now[14], void, uint32_t, const char *)
#define nvtx_thread_w NVTX_CALL(nvtx_core_now[15], void, uint32_t, const wchar_t *)
#define nvtx_domain_mark NVTX_CALL(nvtx_core2_now[1], void, void *, const struct nvtx_attributes *)
#define nvtx_domain_start NVTX_CALL(nvtx_core2_now[2], uint64_t, void *, const struct nvtx_attributes *)
#define nvtx_domain_end NVTX_CALL(nvtx_core2_now[3], void, void *, uint64_t)
#define nvtx_domain_push NVTX_CALL(nvtx_core2_now[4], int, void *, const struct nvtx_attributes *)
#define nvtx_domain_pop NVTX_CALL(nvtx_core2_now[5], int, void *)
#define nvtx_domain_category_a NVTX_CALL(nvtx_core2_now[8], void, void *, uint32_t, const char *)
#define nvtx_domain_category_w NVTX_CALL(nvtx_core2_now[9], void, void *, uint32_t, const wchar_t *)
#define nvtx_register_a NVTX_CALL(nvtx_core2_now[10], void *, void *, const char *)
#define nvtx_register_w NVTX_CALL(nvtx_core2_now[11], void *, void *, const wchar_t *)
#define nvtx_domain_a NVTX_CALL(nvtx_core2_now[12], void *, const char *)
#define nvtx_domain_w NVTX_CALL(nvtx_core2_now[13], void *, const wchar_t *)
#define nvtx_domain_destroy NVTX_CALL(nvtx_core2_now[14], void, void *)

#endif
