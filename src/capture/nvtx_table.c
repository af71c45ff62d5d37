/* nvtx_table: the functions that NVTX calls, and InitializeInjectionNvtx2, through which it gets them. It has no header
 * of NVIDIA's: numbers and layouts are those of versions 2 and 3 of NVTX, which only grow at the end. */
#include "capture/nvtx.h"

#include <sys/syscall.h>
#include <unistd.h>

typedef const struct tg__nvtx_attributes *attributes;
typedef void *handle; /* of a domain or of a registered string: tg__nvtx_handle */

static struct tg__nvtx_event of_attributes(handle domain, attributes a) {
  return (struct tg__nvtx_event){.domain = domain, .attributes = a};
}
static struct tg__nvtx_event of_narrow(const char *text) {
  return (struct tg__nvtx_event){.message_type = TG_NVTX_NARROW, .message = text};
}
static struct tg__nvtx_event of_wide(const wchar_t *text) {
  return (struct tg__nvtx_event){.message_type = TG_NVTX_WIDE, .message = text};
}

/* While nothing is recorded: a load and a branch. */
static inline void mark(struct tg__nvtx_event e) {
  if (tg__nvtx_is_followed()) tg__nvtx_mark_now(&e);
}
static inline uint64_t start(struct tg__nvtx_event e) { return tg__nvtx_is_followed() ? tg__nvtx_start_now(&e) : 0; }
static inline void end(uint64_t range) {
  if (tg__nvtx_is_followed()) tg__nvtx_end_now(range);
}
static inline int push_range(struct tg__nvtx_event e) {
  return tg__nvtx_is_followed() ? tg__nvtx_push_now(&e) : TG_NVTX_NOT_TRACKED;
}
static inline int pop_range(const void *domain) {
  return tg__nvtx_is_followed() ? tg__nvtx_pop_now(domain) : TG_NVTX_NOT_TRACKED;
}

/* ---- module CORE ----------------------------------------------------------------------------- */

static void mark_ex(attributes a) { mark(of_attributes(NULL, a)); }
static void mark_a(const char *text) { mark(of_narrow(text)); }
static void mark_w(const wchar_t *text) { mark(of_wide(text)); }
static uint64_t range_start_ex(attributes a) { return start(of_attributes(NULL, a)); }
static uint64_t range_start_a(const char *text) { return start(of_narrow(text)); }
static uint64_t range_start_w(const wchar_t *text) { return start(of_wide(text)); }
static void range_end(uint64_t range) { end(range); }
static int range_push_ex(attributes a) { return push_range(of_attributes(NULL, a)); }
static int range_push_a(const char *text) { return push_range(of_narrow(text)); }
static int range_push_w(const wchar_t *text) { return push_range(of_wide(text)); }
static int range_pop(void) { return pop_range(NULL); }
static void name_category_a(uint32_t category, const char *text) {
  tg__nvtx_name_category(0, category, tg__nvtx_text_narrow(text));
}
static void name_category_w(uint32_t category, const wchar_t *text) {
  tg__nvtx_name_category(0, category, tg__nvtx_text_wide(text));
}

/* Remembered for recordings to come; the one that runs hears of it now where it is the thread's own name. */
static void name_thread(uint32_t os_thread, uint32_t text) {
  const char *const name = text ? tg__nvtx_text(text) : NULL;
  if (!name) return;
  tg__nvtx_name_thread(os_thread, text);
  if (os_thread == (uint32_t)syscall(SYS_gettid)) tg_thread_name(name);
}
static void name_thread_a(uint32_t os_thread, const char *text) { name_thread(os_thread, tg__nvtx_text_narrow(text)); }
static void name_thread_w(uint32_t os_thread, const wchar_t *text) { name_thread(os_thread, tg__nvtx_text_wide(text)); }

/* ---- module CORE2: domains ------------------------------------------------------------------- */

static void domain_mark(handle domain, attributes a) { mark(of_attributes(domain, a)); }
static uint64_t domain_range_start(handle domain, attributes a) { return start(of_attributes(domain, a)); }
static void domain_range_end(handle domain, uint64_t range) { end(range); }
static int domain_range_push(handle domain, attributes a) { return push_range(of_attributes(domain, a)); }
static int domain_range_pop(handle domain) { return pop_range(domain); }
static void domain_name_category_a(handle domain, uint32_t category, const char *text) {
  tg__nvtx_name_category(tg__nvtx_number(domain), category, tg__nvtx_text_narrow(text));
}
static void domain_name_category_w(handle domain, uint32_t category, const wchar_t *text) {
  tg__nvtx_name_category(tg__nvtx_number(domain), category, tg__nvtx_text_wide(text));
}
static handle register_string_a(handle domain, const char *text) { return tg__nvtx_handle(tg__nvtx_text_narrow(text)); }
static handle register_string_w(handle domain, const wchar_t *text) {
  return tg__nvtx_handle(tg__nvtx_text_wide(text));
}
static handle domain_create_a(const char *name) { return tg__nvtx_handle(tg__nvtx_text_narrow(name)); }
static handle domain_create_w(const wchar_t *name) { return tg__nvtx_handle(tg__nvtx_text_wide(name)); }
/* A name stays: others may have made the same domain, and what they hold must stay valid. */
static void domain_destroy(handle domain) {}

/* ---- how NVTX gets them ---------------------------------------------------------------------- */

typedef void function(void);
struct callbacks { /* table CALLBACKS of NVTX */
  size_t bytes;
  int (*module_table)(int module, function ****slots, unsigned *count);
};

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };

static function *const core[] = {
    [1] = (function *)mark_ex,   (function *)mark_a,        (function *)mark_w,        (function *)range_start_ex,
    (function *)range_start_a,   (function *)range_start_w, (function *)range_end,     (function *)range_push_ex,
    (function *)range_push_a,    (function *)range_push_w,  (function *)range_pop,     (function *)name_category_a,
    (function *)name_category_w, (function *)name_thread_a, (function *)name_thread_w,
};
static function *const core2[] = {
    [1] = (function *)domain_mark,      (function *)domain_range_start, (function *)domain_range_end,
    (function *)domain_range_push,      (function *)domain_range_pop,   [8] = (function *)domain_name_category_a,
    (function *)domain_name_category_w, (function *)register_string_a,  (function *)register_string_w,
    (function *)domain_create_a,        (function *)domain_create_w,    (function *)domain_destroy,
};

static _Atomic uint32_t attached;

uint32_t tg_record_nvtx(void) { return atomic_load(&attached); }

static bool fill(const struct callbacks *c, int module, function *const *functions, unsigned count) {
  function ***slots = NULL;
  unsigned there = 0;
  if (!c->module_table(module, &slots, &there) || !slots) return false;
  for (unsigned i = 0; i < count && i < there; i++)
    if (functions[i] && slots[i]) *slots[i] = functions[i];
  return true;
}

/* Called by NVTX at its first call in each library that has it compiled in. 1: it has our functions from now on. */
TG_API int InitializeInjectionNvtx2(const void *(*table_of)(uint32_t table));
int InitializeInjectionNvtx2(const void *(*table_of)(uint32_t table)) {
  const struct callbacks *const c = table_of ? table_of(TABLE_CALLBACKS) : NULL;
  if (!c || c->bytes < sizeof *c || !c->module_table) return 0;
  if (!fill(c, MODULE_CORE, core, sizeof core / sizeof *core)) return 0;
  fill(c, MODULE_CORE2, core2, sizeof core2 / sizeof *core2); /* a client without domains has none */
  atomic_fetch_add(&attached, 1);
  return 1;
}
