/* elf_file: addresses of the names that a program or library defines, read from its file. Nothing in it is believed:
 * every offset is held against the file's size. */
#include "attach/attach.h"

#include <elf.h>

enum { SECTIONS_MOST = 4096, SEGMENTS_MOST = 256 };
enum { TABLE_MOST = 256 << 20 };

static bool read_all(struct tg__file *f, void *to, uint64_t offset, uint64_t len) {
  const int64_t size = tg__file_size(f);
  return size >= 0 && offset <= (uint64_t)size && len <= (uint64_t)size - offset &&
         tg__file_read_at(f, to, len, (int64_t)offset) == (int64_t)len;
}

/* A piece of the file, of tg__alloc; NULL when it does not lie in the file. */
static void *read_table(struct tg__file *f, uint64_t offset, uint64_t len) {
  const int64_t size = tg__file_size(f);
  if (!len || len > TABLE_MOST || size < 0 || len > (uint64_t)size) return NULL;
  void *const p = tg__alloc(len);
  if (p && read_all(f, p, offset, len)) return p;
  tg__free(p);
  return NULL;
}

static bool is_ours(const Elf64_Ehdr *h) {
  static const uint16_t one = 1;
  const uint8_t order = *(const uint8_t *)&one ? ELFDATA2LSB : ELFDATA2MSB;
  return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
         h->e_ident[EI_DATA] == order && h->e_shentsize == sizeof(Elf64_Shdr) && h->e_phentsize == sizeof(Elf64_Phdr) &&
         h->e_shnum <= SECTIONS_MOST && h->e_phnum <= SEGMENTS_MOST;
}

static bool find_base(struct tg__file *f, const Elf64_Ehdr *h, uint64_t *base) {
  Elf64_Phdr *const p = read_table(f, h->e_phoff, (uint64_t)h->e_phnum * sizeof *p);
  bool found = false;
  for (unsigned i = 0; p && i < h->e_phnum; i++) {
    if (p[i].p_type != PT_LOAD || found) continue; /* they are in order of their addresses */
    *base = p[i].p_vaddr - p[i].p_offset;
    found = true;
  }
  tg__free(p);
  return found;
}

/* Those of the names that a table of symbols defines and no table before it did. */
static void look_up(struct tg__file *f, const Elf64_Shdr *table, const Elf64_Shdr *texts, const char *const *names,
                    size_t count, uint64_t *values) {
  Elf64_Sym *const symbols = read_table(f, table->sh_offset, table->sh_size);
  char *const text = read_table(f, texts->sh_offset, texts->sh_size);
  const uint64_t n = symbols && text ? table->sh_size / sizeof *symbols : 0;
  if (text) text[texts->sh_size - 1] = 0;
  for (uint64_t i = 0; i < n; i++) {
    const Elf64_Sym *const s = &symbols[i];
    if (s->st_shndx == SHN_UNDEF || !s->st_value || s->st_name >= texts->sh_size) continue;
    for (size_t k = 0; k < count; k++) {
      if (!values[k] && strcmp(text + s->st_name, names[k]) == 0) values[k] = s->st_value;
    }
  }
  tg__free(symbols);
  tg__free(text);
}

bool tg__elf_file_read(struct tg__file *f, const char *const *names, size_t count, struct tg__elf_file *out) {
  Elf64_Ehdr h;
  *out = (struct tg__elf_file){0};
  if (count > TG__ELF_SYMBOLS || !read_all(f, &h, 0, sizeof h) || !is_ours(&h) || !find_base(f, &h, &out->base))
    return false;
  Elf64_Shdr *const sections = read_table(f, h.e_shoff, (uint64_t)h.e_shnum * sizeof *sections);
  static const uint32_t kinds[] = {SHT_DYNSYM, SHT_SYMTAB}; /* a stripped program has only the first */
  for (size_t k = 0; sections && k < sizeof kinds / sizeof *kinds; k++) {
    for (unsigned i = 0; i < h.e_shnum; i++) {
      const Elf64_Shdr *const s = &sections[i];
      if (s->sh_type == kinds[k] && s->sh_link < h.e_shnum)
        look_up(f, s, &sections[s->sh_link], names, count, out->values);
    }
  }
  tg__free(sections);
  return sections != NULL;
}
