/* elf_slots: a library calls another one's function through a slot that the loader fills. Writing an address of ours
 * there puts us between the two, without a symbol being interposed for the whole process. Nothing is left behind
 * once the old address is back. */
#include "capture/elf_slots.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { SLOT_LAZY = R_X86_64_JUMP_SLOT, SLOT_BOUND = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { SLOT_LAZY = R_AARCH64_JUMP_SLOT, SLOT_BOUND = R_AARCH64_GLOB_DAT };
#else
enum { SLOT_LAZY = -1, SLOT_BOUND = -1 };
#endif

struct search {
  const char *symbol;
  struct tg__elf_slot *out;
  size_t room, found;
};

/* What the dynamic section of one library says. */
struct tables {
  const ElfW(Rela) * lazy, *bound;
  size_t lazy_bytes, bound_bytes;
  const ElfW(Sym) * symbols;
  const char *strings;
  uintptr_t relro, relro_end;
};

/* glibc relocates these entries on most machines and leaves them alone on some. */
static uintptr_t address(const struct dl_phdr_info *lib, ElfW(Addr) value) {
  return value < lib->dlpi_addr ? lib->dlpi_addr + value : value;
}

static void read_dynamic(const struct dl_phdr_info *lib, const ElfW(Dyn) * d, struct tables *t) {
  for (; d->d_tag != DT_NULL; d++) {
    const uintptr_t at = address(lib, d->d_un.d_ptr);
    if (d->d_tag == DT_JMPREL) t->lazy = (const void *)at;
    if (d->d_tag == DT_PLTRELSZ) t->lazy_bytes = d->d_un.d_val;
    if (d->d_tag == DT_RELA) t->bound = (const void *)at;
    if (d->d_tag == DT_RELASZ) t->bound_bytes = d->d_un.d_val;
    if (d->d_tag == DT_SYMTAB) t->symbols = (const void *)at;
    if (d->d_tag == DT_STRTAB) t->strings = (const void *)at;
  }
}

static void find_in(struct search *s, const struct dl_phdr_info *lib, const struct tables *t, const ElfW(Rela) * r,
                    size_t bytes) {
  if (!r) return;
  for (const ElfW(Rela) *const end = r + bytes / sizeof *r; r < end; r++) {
    const int type = (int)ELF64_R_TYPE(r->r_info);
    if (type != SLOT_LAZY && type != SLOT_BOUND) continue;
    if (strcmp(t->strings + t->symbols[ELF64_R_SYM(r->r_info)].st_name, s->symbol) != 0) continue;
    const uintptr_t at = lib->dlpi_addr + r->r_offset;
    if (s->found < s->room)
      s->out[s->found] = (struct tg__elf_slot){.at = (void **)at, .read_only = at >= t->relro && at < t->relro_end};
    s->found++;
  }
}

static int search_library(struct dl_phdr_info *lib, size_t size, void *ctx) {
  struct tables t = {0};
  for (int i = 0; i < lib->dlpi_phnum; i++) {
    const ElfW(Phdr) *const p = &lib->dlpi_phdr[i];
    if (p->p_type == PT_DYNAMIC) read_dynamic(lib, (const void *)(lib->dlpi_addr + p->p_vaddr), &t);
    if (p->p_type == PT_GNU_RELRO) {
      t.relro = lib->dlpi_addr + p->p_vaddr;
      t.relro_end = t.relro + p->p_memsz;
    }
  }
  if (!t.symbols || !t.strings) return 0;
  find_in(ctx, lib, &t, t.lazy, t.lazy_bytes);
  find_in(ctx, lib, &t, t.bound, t.bound_bytes);
  return 0;
}

size_t tg__elf_slots_find(const char *symbol, struct tg__elf_slot *out, size_t room) {
  struct search s = {.symbol = symbol, .out = out, .room = room};
  dl_iterate_phdr(search_library, &s);
  return s.found;
}

bool tg__elf_slot_set(const struct tg__elf_slot *s, void *value) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  void *const from = (void *)((uintptr_t)s->at & ~(page - 1));
  if (s->read_only && mprotect(from, page, PROT_READ | PROT_WRITE) != 0) return false;
  atomic_store_explicit((_Atomic(void *) *)s->at, value, memory_order_release);
  if (s->read_only) mprotect(from, page, PROT_READ);
  return true;
}

static int read_epoch(struct dl_phdr_info *lib, size_t size, void *ctx) {
  *(uint64_t *)ctx = lib->dlpi_adds;
  return 1;
}

uint64_t tg__elf_slots_epoch(void) {
  uint64_t adds = 0;
  dl_iterate_phdr(read_epoch, &adds);
  return adds;
}
