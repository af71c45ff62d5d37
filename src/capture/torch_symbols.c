/* torch_symbols: the one gate to torch's libraries. Python loads them only for itself (RTLD_LOCAL), so they are
 * asked by name. */
#include <dlfcn.h>

#include "capture/torch.h"

struct tg__torch_symbols tg__torch_symbols;

/* POSIX lets a function come out of dlsym as a data pointer; in C it has to be copied. */
static bool find_symbol(void *library, const char *symbol, void *function) {
  void *const p = dlsym(library, symbol);
  memcpy(function, &p, sizeof p);
  return p != NULL;
}

/* An object of a class begins with the address of its table, 16 bytes behind the symbol. */
static const void *find_class(void *library, const char *symbol) {
  const char *const table = dlsym(library, symbol);
  return table ? table + 16 : NULL;
}

static const char *find_functions(void *cpu, struct tg__torch_symbols *s) {
  const struct {
    const char *symbol;
    void *function;
    bool optional;
  } list[] = {
      {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &s->add_callback, false},
      {"_ZN2at14removeCallbackEm", &s->remove_callback, false},
      {"_ZNK2at14RecordFunction4nameEv", &s->name, false},
      {"_ZN2at14RecordFunction15currentThreadIdEv", &s->thread_id, false},
      {"_ZN2at15sequence_number4peekEv", &s->sequence_peek, false},
      {"_ZNK2at14RecordFunction10num_inputsEv", &s->num_inputs, false},
      {"_ZNK2at14RecordFunction13overload_nameEv", &s->overload_name, true},
      {"_ZN2at18hasGlobalCallbacksEv", &s->has_callbacks, true},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!find_symbol(cpu, list[i].symbol, list[i].function) && !list[i].optional) return list[i].symbol;
  return NULL;
}

/* The operator may be the program's own, and is torch's otherwise. */
static void find_script(void *cpu, struct tg__torch_symbols *s) {
  const char *const deletes = "_ZdlPv";
  const bool both = (find_symbol(RTLD_DEFAULT, deletes, &s->delete) || find_symbol(cpu, deletes, &s->delete)) &&
                    find_symbol(cpu, "_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev", &s->module_hierarchy);
  if (!both) s->module_hierarchy = NULL;
}

static const char *find_classes(void *cpu, void *c10, struct tg__torch_symbols *s) {
  s->undefined_tensor = dlsym(c10, "_ZN3c1019UndefinedTensorImpl10_singletonE");
  s->strided_classes[0] = find_class(c10, "_ZTVN3c1010TensorImplE");
  s->strided_classes[1] = find_class(cpu, "_ZTVN2at11QTensorImplE");
  s->strided_classes[2] = find_class(cpu, "_ZTVN2at9functorch17BatchedTensorImplE");
  s->strided_classes[3] = find_class(cpu, "_ZTVN2at9functorch13TensorWrapperE");
  s->strided_classes[4] = find_class(cpu, "_ZTVN2at17BatchedTensorImplE");
  if (!s->undefined_tensor) return "c10::UndefinedTensorImpl::_singleton";
  return s->strided_classes[0] ? NULL : "the class c10::TensorImpl";
}

enum tg_err tg__torch_find_symbols(struct tg_error *e) {
  if (tg__torch_symbols.add_callback) return TG_OK;
  enum tg_err err = TG_OK;
  const char *missing = NULL;
  struct tg__torch_symbols found = {0};
  void *const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  void *const c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  if (!cpu || !c10) {
    err = tg__fail(e, TG_NO_DATA, -1, "operators: torch is not loaded yet");
    goto done;
  }
  missing = find_functions(cpu, &found);
  if (!missing) missing = find_classes(cpu, c10, &found);
  find_script(cpu, &found);
  if (missing)
    err = tg__fail(e, TG_UNSUPPORTED, -1, "operators: this torch does not export %s", missing);
  else
    tg__torch_symbols = found;
done: /* the handles only count references: torch itself is never unloaded */
  if (cpu) dlclose(cpu);
  if (c10) dlclose(c10);
  return err;
}

bool tg__torch_find_observers(struct tg__torch_observers *out) {
  struct tg__torch_observers found;
  void *const cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  const bool ok = cpu && find_symbol(cpu, "_ZN2at23hasThreadLocalCallbacksEv", &found.on_thread);
  if (ok) find_symbol(cpu, "_ZN2at18hasGlobalCallbacksEv", &found.on_all_threads);
  if (cpu) dlclose(cpu);
  if (ok) *out = found;
  return ok;
}

enum tg_err tg__torch_find_allocator(struct tg__torch_allocator *out, struct tg_error *e) {
  void *const c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  if (!c10) return tg__fail(e, TG_NO_DATA, -1, "allocations: torch is not loaded yet");
  struct tg__torch_allocator found;
  const bool both = find_symbol(c10, TG_TORCH_ALLOC, &found.alloc) && find_symbol(c10, TG_TORCH_FREE, &found.free);
  dlclose(c10);
  if (!both)
    return tg__fail(e, TG_UNSUPPORTED, -1, "allocations: this torch has no c10::alloc_cpu and c10::free_cpu to watch");
  *out = found;
  return TG_OK;
}

bool tg__torch_find_reports(struct tg__torch_reports *out) {
  void *const c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  const bool both =
      c10 && find_symbol(c10, TG_TORCH_REPORT, &out->change) && find_symbol(c10, TG_TORCH_REPORT_FAILED, &out->failure);
  if (c10) dlclose(c10);
  return both;
}
