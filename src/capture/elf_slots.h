/* elf_slots: the places in loaded libraries through which they call a function of another one. Private to capture. */
#ifndef TG_CAPTURE_ELF_SLOTS_H
#define TG_CAPTURE_ELF_SLOTS_H

#include "capture/capture.h"

struct tg__elf_slot {
  void **at;
  bool read_only; /* its page is protected once the library is loaded */
};

/* All slots for `symbol` in the libraries loaded now; how many there are, of which at most `room` are written to
 * `out`. */
size_t tg__elf_slots_find(const char *symbol, struct tg__elf_slot *out, size_t room);
/* One store, seen by all threads at once; false when the page cannot be written. */
bool tg__elf_slot_set(const struct tg__elf_slot *s, void *value);
uint64_t tg__elf_slots_epoch(void); /* changes when a library is loaded */

#endif
