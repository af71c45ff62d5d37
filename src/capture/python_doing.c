/* What a thread of this process does at a moment, seen from another one: whether it is on a core, or the system call it
 * waits in. */
#include "capture/python_samples.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *kind_of_file(long fd) {
  struct stat st;
  if (fstat((int)fd, &st)) return "wait";
  return S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode) ? "disk"
         : S_ISSOCK(st.st_mode)                                            ? "socket"
         : S_ISFIFO(st.st_mode)                                            ? "pipe"
                                                                           : "device";
}

static const struct {
  long number;
  const char *doing; /* NULL: what its first argument, a descriptor, is of */
} calls[] = {
    {SYS_nanosleep, "sleep"},   {SYS_clock_nanosleep, "sleep"},
    {SYS_futex, TG_DOING_LOCK}, {SYS_wait4, "subprocess"},
    {SYS_waitid, "subprocess"}, {SYS_ppoll, "poll"},
    {SYS_pselect6, "poll"},     {SYS_epoll_pwait, "poll"},
    {SYS_ioctl, "device"},      {SYS_openat, "disk"},
    {SYS_getdents64, "disk"},   {SYS_unlinkat, "disk"},
    {SYS_renameat, "disk"},     {SYS_sync, "disk"},
    {SYS_fsync, "disk"},        {SYS_fdatasync, "disk"},
    {SYS_read, NULL},           {SYS_pread64, NULL},
    {SYS_readv, NULL},          {SYS_write, NULL},
    {SYS_pwrite64, NULL},       {SYS_writev, NULL},
    {SYS_recvfrom, "socket"},   {SYS_recvmsg, "socket"},
    {SYS_sendto, "socket"},     {SYS_sendmsg, "socket"},
    {SYS_accept, "socket"},     {SYS_accept4, "socket"},
    {SYS_connect, "socket"},
#ifdef SYS_poll
    {SYS_poll, "poll"},         {SYS_select, "poll"},
    {SYS_epoll_wait, "poll"},   {SYS_open, "disk"},
    {SYS_stat, "disk"},         {SYS_unlink, "disk"},
    {SYS_rename, "disk"},
#endif
};

/* Threads that need the GIL wait in _PyRuntime itself, where the main interpreter has it; Python's other locks lie
 * elsewhere, or wait on the thread's own stack. Looked up once. */
static bool is_gil(uintptr_t address) {
  static _Atomic uintptr_t from, size;
  if (!atomic_load(&size)) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    const bool is_found = runtime && dladdr1(runtime, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
                          info.dli_saddr == runtime && symbol->st_size;
    atomic_store(&from, (uintptr_t)runtime);
    atomic_store(&size, is_found ? symbol->st_size : 1);
  }
  return address - atomic_load(&from) < atomic_load(&size);
}

int tg__doing_open(uint32_t os_thread) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%u/syscall", os_thread);
  return open(path, O_RDONLY | O_CLOEXEC);
}

/* "running", or the number of the call and its arguments: "202 0x7f… 0x80 …". Where the file cannot be read, its clock
 * says whether it works. */
const char *tg__doing_now(int call_file, bool is_working) {
  char text[160];
  const ssize_t n = call_file < 0 ? 0 : pread(call_file, text, sizeof text - 1, 0);
  if (n <= 0) return is_working ? "running" : "wait";
  text[n] = 0;
  if (text[0] == 'r') return "running";
  char *end;
  const long number = strtol(text, &end, 10);
  const unsigned long argument = strtoul(end, NULL, 16);
  if (number == SYS_futex && is_gil(argument)) return TG_DOING_GIL;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i].number == number) return calls[i].doing ? calls[i].doing : kind_of_file((long)argument);
  return number < 0 && is_working ? "running" : "wait";
}
