/* attach: have the interpreter of a process that runs already execute a piece of Python. Linux, x86-64 and aarch64.
 *
 * One thread of the process is stopped three times, for a fraction of a millisecond each: memory for the text is
 * mapped, and `Py_AddPendingCall(PyRun_SimpleString, text)` is called, which puts the call on a list and does nothing
 * more; before both, Py_IsInitialized: a Python that has not begun or is ending has no such list. The interpreter makes
 * the call in its main thread, between two bytecodes, as it calls handlers of signals. Nothing of ours is loaded into
 * the process by this. */
#ifndef TG_ATTACH_H
#define TG_ATTACH_H

#include "base/base.h"

/* ---- symbols of a file (elf_file.c) ----------------------------------------------------------- */

enum { TG__ELF_SYMBOLS = 7 };
struct tg__elf_file {
  uint64_t base;                    /* address of its first byte in its own count: the least p_vaddr - p_offset */
  uint64_t values[TG__ELF_SYMBOLS]; /* of the names asked for; 0 = it defines no such */
};
/* Look names up in a 64-bit ELF file of this machine's byte order. false: it is no such file, or damaged. */
bool tg__elf_file_read(struct tg__file *f, const char *const *names, size_t count, struct tg__elf_file *out);

/* ---- a process (target.c) ---------------------------------------------------------------------- */

enum tg__target_symbol {
  TG__TARGET_ADD_PENDING_CALL,
  TG__TARGET_RUN_STRING,
  TG__TARGET_IS_INITIALIZED,
  TG__TARGET_VERSION, /* Py_Version, from 3.11 on */
  TG__TARGET_RUNTIME, /* _PyRuntime */
  TG__TARGET_MMAP,
  TG__TARGET_MUNMAP,
  TG__TARGET_SYMBOLS,
};
struct tg__target_span {
  uint64_t from, to;
};
struct tg__target {
  int pid;
  uint32_t user, group;
  char name[64];                         /* of its script or program, for people */
  uint64_t address[TG__TARGET_SYMBOLS];  /* 0 = not found */
  uint64_t trap;                         /* address of a breakpoint instruction in its code */
  struct tg__target_span interpreter[8]; /* code of Python, libc and the loader: no place to call from */
  size_t interpreter_count;
  struct tg__target_span loader; /* its code is in `interpreter`, too */
  bool has_torch;                /* it has loaded a library of torch */
  unsigned version;              /* of Python: major << 8 | minor; 0 = older than 3.11 */
  uint64_t ending;               /* address of the pointer to the thread that ends Python; 0 = not known */
  uint64_t asked;                /* in that thread, the offset of what sys.remote_exec sets */
  uint64_t text, text_bytes;     /* where the Python text lies in it; 0 = nowhere */
  int64_t stopped_ns;            /* how long its thread stood still, at most */
};
/* The facts of a process before it is touched. An error says in one sentence why it cannot be attached to,
 * and what would help. */
enum tg_err tg__target_read(int pid, struct tg__target *out, struct tg_error *e);
bool tg__target_lives(const struct tg__target *t);
/* Python 3.14 and newer: it has begun to end. */
bool tg__target_is_ending(const struct tg__target *t);
/* Of one that is ending: what sys.remote_exec asked of it is no more to be done. */
void tg__target_take_back(const struct tg__target *t);
/* The call in which the main thread waits, "" when it computes; for a sentence. */
void tg__target_waits_in(const struct tg__target *t, char *text, size_t size);

/* ---- a stopped thread (stopped.c) -------------------------------------------------------------- */

struct tg__stopped;
/* Stop the main thread at a place from which functions can be called. */
enum tg_err tg__stopped_take(const struct tg__target *t, struct tg__stopped **out, struct tg_error *e);
/* Call a function of at most six numbers in it. */
enum tg_err tg__stopped_call(struct tg__stopped *s, uint64_t function, const uint64_t args[6], uint64_t *result,
                             struct tg_error *e);
/* As it was, and running. Returns how long it stood at most, in ns: from when it was asked to stop. */
int64_t tg__stopped_release(struct tg__stopped *s);

/* ---- the whole (attach.c) ---------------------------------------------------------------------- */

/* Have the interpreter run a text when it comes to it. */
enum tg_err tg__attach_queue(struct tg__target *t, const char *text, struct tg_error *e);
/* The text has run: take its memory away again. */
void tg__attach_forget(struct tg__target *t);
/* The text has not run: make one of it that does nothing. It stays mapped, as the interpreter may still come to it. */
void tg__attach_cancel(struct tg__target *t);

#endif
