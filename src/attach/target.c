/* target: the facts of a process in /proc, and the addresses of the functions that are called. */
#include "attach/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAPS_MOST = 8 << 20, CODE_MOST = 1 << 20 };

static const char *const symbols[TG__TARGET_SYMBOLS] = {
    "Py_AddPendingCall", "PyRun_SimpleString", "Py_IsInitialized", "Py_Version", "_PyRuntime", "mmap", "munmap"};
enum { OF_PYTHON = 5 }; /* the first five; the others are libc's */

/* ---- /proc ----------------------------------------------------------------------------------- */

/* A file of /proc/PID, cut at `size` - 1. false: there is none. */
static bool read_proc(int pid, const char *name, char *text, size_t size, size_t *len) {
  char path[64];
  struct tg__file *f;
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  if (tg__file_open(path, &f, NULL)) return false;
  int64_t n;
  *len = 0;
  while (*len < size - 1 && (n = tg__file_read(f, text + *len, size - 1 - *len)) > 0) *len += (size_t)n;
  text[*len] = 0;
  tg__file_close(f);
  return true;
}

/* The value of a line "Name:\tvalue" of /proc/PID/status. */
static const char *status_value(const char *status, const char *name) {
  const size_t n = strlen(name);
  for (const char *line = status; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    if (strncmp(line, name, n) == 0 && line[n] == ':') return line + n + 1 + strspn(line + n + 1, " \t");
  }
  return "";
}

static void name_of(int pid, char *name, size_t size) {
  size_t len;
  if (!read_proc(pid, "comm", name, size, &len)) name[0] = 0;
  name[strcspn(name, "\n")] = 0;
}

/* The script or module of a Python; what was started of any other program. */
static void name_of_program(int pid, char *name, size_t size) {
  char words[4096];
  size_t len;
  if (!read_proc(pid, "cmdline", words, sizeof words, &len) || !len) {
    name_of(pid, name, size);
    return;
  }
  const char *word = words;
  for (const char *next = words; (next += strlen(next) + 1) < words + len;) {
    if (strcmp(next, "-c") == 0) break; /* a text has no name */
    const bool is_module = strcmp(next, "-m") == 0 && next + 3 < words + len;
    if (*next == '-' && !is_module) continue;
    word = is_module ? next + 3 : next;
    break;
  }
  const char *const slash = strrchr(word, '/');
  snprintf(name, size, "%.63s", slash && slash[1] ? slash + 1 : word);
}

/* A process that ends has no memory any more some time before its state is that of one that ended. */
static bool has_memory(int pid) {
  char status[4096];
  size_t len;
  return read_proc(pid, "status", status, sizeof status, &len) && *status_value(status, "VmSize");
}

bool tg__target_lives(const struct tg__target *t) { return has_memory(t->pid); }

void tg__target_waits_in(const struct tg__target *t, char *text, size_t size) {
  size_t len;
  char call[32] = "";
  text[0] = 0;
  if (!read_proc(t->pid, "syscall", call, sizeof call, &len) || strncmp(call, "running", 7) == 0) return;
  if (!read_proc(t->pid, "wchan", text, size, &len) || strcmp(text, "0") == 0)
    snprintf(text, size, "system call %.*s", (int)strcspn(call, " \n"), call);
}

/* ---- may it be attached to? ------------------------------------------------------------------- */

static enum tg_err check_status(struct tg__target *t, const char *status, struct tg_error *e) {
  const int pid = t->pid, tracer = atoi(status_value(status, "TracerPid"));
  const char state = *status_value(status, "State");
  char who[64];
  t->user = (uint32_t)strtoul(status_value(status, "Uid"), NULL, 10);
  t->group = (uint32_t)strtoul(status_value(status, "Gid"), NULL, 10);
  if (state == 'Z' || state == 'X')
    return tg__fail(e, TG_NOT_FOUND, -1, "process %d has ended, and its parent has not asked for its exit status yet",
                    pid);
  if (tracer) {
    name_of(tracer, who, sizeof who);
    return tg__fail(e, TG_BUSY, -1, "process %d is held by another tool already, process %d (%s): end that first", pid,
                    tracer, who);
  }
  if (state == 'T')
    return tg__fail(e, TG_BUSY, -1, "process %d is stopped (Ctrl-Z or SIGSTOP): let it go on with: kill -CONT %d", pid,
                    pid);
  if (geteuid() != 0 && geteuid() != t->user)
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "process %d belongs to user %u, and you are user %u: run tachograph as that user, or with sudo",
                    pid, t->user, (unsigned)geteuid());
  return TG_OK;
}

/* Its files are not ours: the paths of its libraries and of our package mean something else there. */
static bool is_elsewhere(int pid) {
  char path[64];
  struct stat ours, theirs;
  snprintf(path, sizeof path, "/proc/%d/root", pid);
  return stat("/", &ours) == 0 && stat(path, &theirs) == 0 &&
         (ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino);
}

/* ---- what is mapped -------------------------------------------------------------------------- */

struct mapping {
  uint64_t from, to, offset;
  bool is_code;
  const char *path;
};

/* "from-to rwxp offset device inode   path", and the line behind it. NULL = that was the last. */
static char *next_mapping(char *line, struct mapping *m) {
  char *end = strchr(line, '\n'), *at = line;
  if (!end) return NULL;
  *end = 0;
  *m = (struct mapping){.path = ""};
  m->from = strtoull(at, &at, 16);
  if (*at == '-') m->to = strtoull(at + 1, &at, 16);
  if (*at == ' ' && strlen(at) > 5) m->is_code = at[3] == 'x';
  at += strcspn(at + (*at == ' '), " ") + (*at == ' ');
  m->offset = strtoull(at, &at, 16);
  const char *const path = strchr(at, '/');
  if (path) m->path = path;
  return end + 1;
}

static bool is_named(const char *path, const char *start) {
  const char *const slash = strrchr(path, '/');
  return slash && strncmp(slash + 1, start, strlen(start)) == 0;
}
static bool is_libc(const char *path) {
  return is_named(path, "libc.so") || is_named(path, "libc-") || is_named(path, "ld-musl");
}

/* The symbols of a mapped file, as addresses in the process. false: it has none of them. */
static bool take_symbols(struct tg__target *t, const struct mapping *m, bool is_program, size_t first, size_t count) {
  char path[4400];
  struct tg__file *f;
  struct tg__elf_file found;
  bool any = false;
  snprintf(path, sizeof path, is_program ? "/proc/%d/exe" : "/proc/%d/root%s", t->pid, m->path);
  if (tg__file_open(path, &f, NULL)) return false;
  if (tg__elf_file_read(f, symbols + first, count, &found)) {
    for (size_t i = 0; i < count; i++) {
      if (!found.values[i]) continue;
      t->address[first + i] = m->from - m->offset - found.base + found.values[i];
      any = true;
    }
  }
  tg__file_close(f);
  return any;
}

/* Some byte of its code that is a breakpoint instruction when it is executed: there a call returns to. */
static uint64_t find_trap(const struct tg__target *t, struct tg__target_span code) {
  static const size_t piece = 64 << 10;
  uint8_t *const bytes = tg__alloc(piece);
  uint64_t trap = 0;
  for (uint64_t at = code.from; bytes && !trap && at < code.to && at - code.from < CODE_MOST; at += piece) {
    const size_t len = code.to - at < piece ? code.to - at : piece;
    const struct iovec to = {bytes, len}, from = {(void *)(uintptr_t)at, len};
    if (process_vm_readv(t->pid, &to, 1, &from, 1, 0) != (ssize_t)len) break;
#if defined(__aarch64__)
    for (size_t i = 0; i + 4 <= len && !trap; i += 4) {
      uint32_t word;
      memcpy(&word, bytes + i, 4);
      if ((word & 0xffe0001fu) == 0xd4200000u) trap = at + i; /* brk */
    }
#else
    const uint8_t *const found = memchr(bytes, 0xcc, len); /* int3, in whatever instruction it is a part of */
    if (found) trap = at + (uint64_t)(found - bytes);
#endif
  }
  tg__free(bytes);
  return trap;
}

static void add_span(struct tg__target *t, struct tg__target_span span, bool is_first) {
  const size_t most = sizeof t->interpreter / sizeof *t->interpreter;
  if (is_first)
    t->interpreter[0] = span;
  else if (t->interpreter_count < most)
    t->interpreter[t->interpreter_count++] = span;
}

struct scan {
  struct tg__target *target;
  char program[4096];          /* the file that was started */
  struct mapping python, libc; /* first mapping of each file */
};

static void scan_mapping(struct scan *s, const struct mapping *m) {
  struct tg__target *const t = s->target;
  const bool is_program = strcmp(m->path, s->program) == 0;
  if (is_named(m->path, "libtorch")) t->has_torch = true;
  if (!t->address[TG__TARGET_ADD_PENDING_CALL] && (is_program || is_named(m->path, "libpython")) &&
      take_symbols(t, m, is_program, 0, OF_PYTHON))
    s->python = *m;
  if (!t->address[TG__TARGET_MMAP] && is_libc(m->path) &&
      take_symbols(t, m, false, OF_PYTHON, TG__TARGET_SYMBOLS - OF_PYTHON))
    s->libc = *m;
  const bool of_python = s->python.path && strcmp(m->path, s->python.path) == 0;
  if (!m->is_code || !(of_python || is_libc(m->path) || is_named(m->path, "ld-"))) return;
  const struct tg__target_span code = {m->from, m->to};
  add_span(t, code, of_python);
  if (is_named(m->path, "ld-")) t->loader = code;
  if (!t->trap && is_libc(m->path)) t->trap = find_trap(t, code);
}

static bool read_words(const struct tg__target *t, uint64_t address, uint64_t *words, size_t count) {
  const struct iovec to = {words, count * sizeof *words}, from = {(void *)(uintptr_t)address, to.iov_len};
  return address && process_vm_readv(t->pid, &to, 1, &from, 1, 0) == (ssize_t)to.iov_len;
}

static void read_version(struct tg__target *t) {
  uint64_t version = 0;
  if (read_words(t, t->address[TG__TARGET_VERSION], &version, 1)) t->version = (unsigned)(version >> 16 & 0xffff);
}

/* _PyRuntime begins with _Py_DebugOffsets, words behind the name "xdebugpy": the version, free-threaded or not, the
 * size of the runtime, the offset of the thread that ends it. Near their end, at another place in each version, is the
 * offset in a thread of what sys.remote_exec writes, and two words later that of the flag in it. */
static void read_runtime(struct tg__target *t) {
  enum { SIZE = 3, ENDING = 4, WORDS = 111, THREAD_MOST = 1 << 16 };
  uint64_t words[WORDS];
  const unsigned asked = t->version == 0x030e ? 90 : t->version == 0x030f ? 106 : 0;
  const uint64_t runtime = t->address[TG__TARGET_RUNTIME];
  if (!asked || !read_words(t, runtime, words, asked + 3) || memcmp(words, "xdebugpy", 8) != 0) return;
  if (words[ENDING] >= words[SIZE] || words[asked] > THREAD_MOST || words[asked + 2] > THREAD_MOST) return;
  t->ending = runtime + words[ENDING];
  t->asked = words[asked] + words[asked + 2];
}

bool tg__target_is_ending(const struct tg__target *t) {
  uint64_t thread = 0;
  return read_words(t, t->ending, &thread, 1) && thread;
}

void tg__target_take_back(const struct tg__target *t) {
  uint64_t thread = 0;
  int32_t nothing = 0;
  if (!read_words(t, t->ending, &thread, 1) || !thread) return;
  const struct iovec from = {&nothing, sizeof nothing}, to = {(void *)(uintptr_t)(thread + t->asked), sizeof nothing};
  (void)!process_vm_writev(t->pid, &from, 1, &to, 1, 0);
}

static enum tg_err check_code(const struct scan *s, struct tg_error *e) {
  const struct tg__target *const t = s->target;
  if (!t->address[TG__TARGET_ADD_PENDING_CALL] || !t->address[TG__TARGET_RUN_STRING] ||
      !t->address[TG__TARGET_IS_INITIALIZED]) {
    char program[64]; /* its first word that is no option names a script only of a Python */
    name_of(t->pid, program, sizeof program);
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "process %d (%s) is no Python, or one without symbols; pgrep -af python lists the others", t->pid,
                    program);
  }
  if (!t->address[TG__TARGET_MMAP] || !t->address[TG__TARGET_MUNMAP] || !t->trap)
    return tg__fail(e, TG_UNSUPPORTED, -1, "process %d (%s) has a libc without the symbols mmap and munmap", t->pid,
                    t->name);
  return TG_OK;
}

enum tg_err tg__target_read(int pid, struct tg__target *out, struct tg_error *e) {
  char status[4096], path[64];
  size_t len;
  *out = (struct tg__target){.pid = pid, .interpreter_count = 1};
  if (!read_proc(pid, "status", status, sizeof status, &len))
    return tg__fail(e, TG_NOT_FOUND, -1, "there is no process %d", pid);
  name_of_program(pid, out->name, sizeof out->name);
  enum tg_err err = check_status(out, status, e);
  if (err) return err;
  if (is_elsewhere(pid))
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "process %d runs in a container and sees other files: run tachograph attach inside of it, where "
                    "tachograph is installed",
                    pid);
  struct scan s = {.target = out};
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  const ssize_t n = readlink(path, s.program, sizeof s.program - 1);
  char *const maps = tg__alloc(MAPS_MOST);
  if (!maps) return tg__no_memory(e, "attaching");
  if (n <= 0 || !read_proc(pid, "maps", maps, MAPS_MOST, &len) || !len) {
    tg__free(maps);
    if (!has_memory(pid)) return tg__fail(e, TG_NOT_FOUND, -1, "process %d has ended", pid);
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "the system does not let this user look into process %d: in a container, start it with "
                    "--cap-add=SYS_PTRACE; else run tachograph with sudo",
                    pid);
  }
  struct mapping m;
  for (char *line = maps; (line = next_mapping(line, &m)) != NULL;) scan_mapping(&s, &m);
  err = check_code(&s, e);
  tg__free(maps);
  read_version(out);
  read_runtime(out);
  return err;
}
