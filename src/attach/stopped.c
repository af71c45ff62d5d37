/* stopped: the main thread of another process, held for as long as it takes to call a function in it. Its registers,
 * those for floating point and vectors too, its signal mask and an interrupted system call are afterwards what they
 * were. Signals that come meanwhile wait. */
#include "attach/attach.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#ifndef PTRACE_GETSIGMASK
#define PTRACE_GETSIGMASK 0x420a
#define PTRACE_SETSIGMASK 0x420b
#endif
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

typedef struct user_regs_struct registers;
#if defined(__aarch64__)
enum { VECTORS = 0x405 /* NT_ARM_SVE */, VECTORS_OLD = NT_PRFPREG, SYSTEM_CALL = 0x404 /* NT_ARM_SYSTEM_CALL */ };
#else
enum { VECTORS = 0x202 /* NT_X86_XSTATE */, VECTORS_OLD = NT_PRFPREG };
#endif
enum { VECTOR_BYTES = 80 << 10 }; /* of the widest SVE */
enum { STOP_MS = 2000, CALL_MS = 2000, TRIES = 200 };

struct tg__stopped {
  const struct tg__target *target;
  int tid;
  int64_t since_ns;
  sigset_t ours; /* the mask of the calling thread: one that ended meanwhile would leave the other in the middle */
  registers saved;
  uint64_t mask;
  int vectors_kind;
  size_t vectors_len;
  uint8_t vectors[VECTOR_BYTES];
};

static void nap(int64_t ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

/* ---- registers ------------------------------------------------------------------------------- */

static bool get_set(int tid, int kind, void *to, size_t *len) {
  struct iovec v = {to, *len};
  if (ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)kind, &v)) return false;
  *len = v.iov_len;
  return true;
}
static bool put_set(int tid, int kind, const void *from, size_t len) {
  struct iovec v = {(void *)(uintptr_t)from, len};
  return ptrace(PTRACE_SETREGSET, tid, (void *)(uintptr_t)kind, &v) == 0;
}
static bool get_registers(int tid, registers *r) {
  size_t len = sizeof *r;
  return get_set(tid, NT_PRSTATUS, r, &len) && len == sizeof *r;
}

static bool save(struct tg__stopped *s) {
  s->vectors_kind = VECTORS;
  s->vectors_len = sizeof s->vectors;
  if (!get_set(s->tid, s->vectors_kind, s->vectors, &s->vectors_len)) {
    s->vectors_kind = VECTORS_OLD;
    s->vectors_len = sizeof s->vectors;
    if (!get_set(s->tid, s->vectors_kind, s->vectors, &s->vectors_len)) return false;
  }
  return ptrace((enum __ptrace_request)PTRACE_GETSIGMASK, s->tid, (void *)8, &s->mask) == 0;
}

static void restore(const struct tg__stopped *s) {
  put_set(s->tid, s->vectors_kind, s->vectors, s->vectors_len);
  put_set(s->tid, NT_PRSTATUS, &s->saved, sizeof s->saved);
  (void)ptrace((enum __ptrace_request)PTRACE_SETSIGMASK, s->tid, (void *)8, &s->mask);
}

#if defined(__aarch64__)
static uint64_t program_counter(const registers *r) { return r->pc; }
static uint64_t result_of(const registers *r) { return r->regs[0]; }
static bool is_at_trap(const registers *r, uint64_t trap) { return r->pc == trap; }
static bool prepare_call(const struct tg__stopped *s, uint64_t function, const uint64_t args[6]) {
  static const int none = -1; /* no system call that the kernel would begin again */
  registers r = s->saved;
  for (int i = 0; i < 6; i++) r.regs[i] = args[i];
  r.regs[30] = s->target->trap;
  r.pc = function;
  r.sp = (r.sp - 256) & ~(uint64_t)15;
  put_set(s->tid, SYSTEM_CALL, &none, sizeof none);
  return put_set(s->tid, NT_PRSTATUS, &r, sizeof r);
}
#else
static uint64_t program_counter(const registers *r) { return r->rip; }
static uint64_t result_of(const registers *r) { return r->rax; }
static bool is_at_trap(const registers *r, uint64_t trap) { return r->rip == trap + 1; }
static bool prepare_call(const struct tg__stopped *s, uint64_t function, const uint64_t args[6]) {
  enum { RED_ZONE = 128, DIRECTION = 0x400 };
  registers r = s->saved;
  r.rdi = args[0], r.rsi = args[1], r.rdx = args[2], r.rcx = args[3], r.r8 = args[4], r.r9 = args[5];
  r.rax = 0;
  r.orig_rax = UINT64_MAX; /* no system call that the kernel would begin again */
  r.rip = function;
  r.eflags &= ~(unsigned long long)DIRECTION;
  r.rsp = ((r.rsp - RED_ZONE) & ~(uint64_t)15) - 8;
  const struct iovec from = {(void *)(uintptr_t)&s->target->trap, 8}, to = {(void *)(uintptr_t)r.rsp, 8};
  return process_vm_writev(s->tid, &from, 1, &to, 1, 0) == 8 && put_set(s->tid, NT_PRSTATUS, &r, sizeof r);
}
#endif

/* ---- stopping -------------------------------------------------------------------------------- */

/* Wait until it stops. 0 = it did not in time, -1 = it is gone, 1 = *status says how. */
static int wait_for_stop(int tid, int most_ms, int *status) {
  const int64_t until_ns = tg__clock_ns() + (int64_t)most_ms * 1000000;
  do {
    const pid_t got = waitpid(tid, status, __WALL | WNOHANG);
    if (got == tid) return WIFSTOPPED(*status) ? 1 : -1;
    if (got < 0 && errno != EINTR) return -1;
    nap(20000);
  } while (tg__clock_ns() < until_ns);
  return 0;
}

static bool interrupt(int tid, int *status) {
  return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 && wait_for_stop(tid, STOP_MS, status) == 1;
}

/* A signal that came first is for the program. */
static int signal_of(int status) { return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status); }

static bool is_in(const struct tg__target_span *span, uint64_t at) { return at >= span->from && at < span->to; }

/* In code of the interpreter or of libc the thread may hold the lock that the call takes. In a system call, or in any
 * other library, it does not; but a loader that reads a library is in the middle of changing what a first call of a
 * function is looked up in. */
static bool is_place_to_call_from(const struct tg__stopped *s) {
  const uint64_t at = program_counter(&s->saved);
  if (is_in(&s->target->loader, at)) return false;
#if defined(__x86_64__)
  if (s->saved.orig_rax != UINT64_MAX) return true;
#endif
  for (size_t i = 0; i < s->target->interpreter_count; i++) {
    if (is_in(&s->target->interpreter[i], at)) return false;
  }
  return true;
}

/* Programs that do nothing but interpret are hardly ever elsewhere. The lock is taken only while calls are on the list,
 * so after so many looks the interpreter's own code will do; libc's will not. */
static bool is_last_resort(const struct tg__stopped *s, int tries) {
  const struct tg__target_span *const python = &s->target->interpreter[0];
  const uint64_t at = program_counter(&s->saved);
  return tries > TRIES / 2 && is_in(python, at);
}

static enum tg_err refused(const struct tg__target *t, struct tg_error *e) {
  const int error = errno;
  char scope[16] = "";
  struct tg__file *f;
  if (tg__file_open("/proc/sys/kernel/yama/ptrace_scope", &f, NULL) == TG_OK) {
    const int64_t n = tg__file_read(f, scope, sizeof scope - 1);
    scope[n > 0 ? n : 0] = 0;
    tg__file_close(f);
  }
  if (error == ESRCH || !tg__target_lives(t)) return tg__fail(e, TG_NOT_FOUND, -1, "process %d has ended", t->pid);
  if (scope[0] == '3')
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "this system forbids looking into running processes until its next start "
                    "(kernel.yama.ptrace_scope is 3): start the program with tachograph run");
  if (scope[0] == '1' || scope[0] == '2')
    return tg__fail(e, TG_UNSUPPORTED, -1,
                    "the system does not let this user look into process %d (kernel.yama.ptrace_scope is %c): run "
                    "tachograph with sudo, or allow it with: sudo sysctl kernel.yama.ptrace_scope=0",
                    t->pid, scope[0]);
  return tg__fail(e, TG_UNSUPPORTED, -1,
                  "the system does not let this user look into process %d (%s): in a container, start it with "
                  "--cap-add=SYS_PTRACE; else run tachograph with sudo",
                  t->pid, strerror(error));
}

enum tg_err tg__stopped_take(const struct tg__target *t, struct tg__stopped **out, struct tg_error *e) {
  struct tg__stopped *const s = tg__alloc(sizeof *s);
  int status = 0;
  if (!s) return tg__no_memory(e, "attaching");
  s->target = t;
  s->tid = t->pid;
  if (ptrace(PTRACE_SEIZE, s->tid, NULL, NULL)) {
    const enum tg_err err = refused(t, e);
    tg__free(s);
    return err;
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &s->ours);
  for (int tries = 0; tries < TRIES; tries++) {
    s->since_ns = tg__clock_ns(); /* it stops between this and the wait that reports it */
    if (!interrupt(s->tid, &status) || !get_registers(s->tid, &s->saved)) break;
    const int number = signal_of(status);
    if (!number && (is_place_to_call_from(s) || is_last_resort(s, tries)) && save(s)) {
      *out = s;
      return TG_OK;
    }
    (void)ptrace(PTRACE_CONT, s->tid, NULL, (void *)(uintptr_t)number);
    nap(1000000);
  }
  (void)tg__stopped_release(s);
  return tg__fail(e, TG_BUSY, -1,
                  "the main thread of process %d does not come to a place where it can be held: try again", t->pid);
}

enum tg_err tg__stopped_call(struct tg__stopped *s, uint64_t function, const uint64_t args[6], uint64_t *result,
                             struct tg_error *e) {
  const uint64_t all_but_faults = ~(1ull << (SIGTRAP - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
                                    1ull << (SIGILL - 1) | 1ull << (SIGFPE - 1));
  registers now;
  int status = 0;
  (void)ptrace((enum __ptrace_request)PTRACE_SETSIGMASK, s->tid, (void *)8, &all_but_faults);
  bool is_done = prepare_call(s, function, args);
  while (is_done) {
    is_done = ptrace(PTRACE_CONT, s->tid, NULL, NULL) == 0 && wait_for_stop(s->tid, CALL_MS, &status) == 1;
    if (!is_done || status >> 16 != PTRACE_EVENT_STOP) break; /* else another process sent SIGSTOP or SIGCONT */
  }
  if (!is_done) (void)interrupt(s->tid, &status);
  is_done = is_done && WSTOPSIG(status) == SIGTRAP && get_registers(s->tid, &now) && is_at_trap(&now, s->target->trap);
  if (is_done) *result = result_of(&now);
  restore(s);
  return is_done ? TG_OK
                 : tg__fail(e, TG_BUSY, -1,
                            "a call in process %d did not come back; the process goes on as before: try again",
                            s->target->pid);
}

int64_t tg__stopped_release(struct tg__stopped *s) {
  (void)ptrace(PTRACE_DETACH, s->tid, NULL, NULL);
  const int64_t stopped_ns = tg__clock_ns() - s->since_ns;
  sigprocmask(SIG_SETMASK, &s->ours, NULL);
  tg__free(s);
  return stopped_ns;
}
