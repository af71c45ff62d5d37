/* process_family: the CPU time of the processes that this one started. */
#include "capture/process_family.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what was used --------------------------------------------------------------------------- */

static const struct tg__relative *find(const struct tg__relative *all, size_t count, const struct tg__relative *x) {
  for (size_t i = 0; i < count; i++)
    if (all[i].pid == x->pid && all[i].start == x->start) return &all[i];
  return NULL;
}

static uint64_t above(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

/* A process that ended was waited for by a process of the family, which has all of it in its CPU time of children: what
 * was seen of it alive counts once. For one that was never waited for, the rest stays unknown. */
void tg__family_add(struct tg__family *f, const struct tg__relative *now, size_t count, uint64_t reaped_ns) {
  static const struct tg__relative none;
  uint64_t ended_ns = above(reaped_ns, f->reaped_ns), seen_ns = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tg__relative *before = find(f->known, f->count, &now[i]);
    if (!before) before = &none;
    f->used_ns += above(now[i].cpu_ns, before->cpu_ns);
    ended_ns += above(now[i].reaped_ns, before->reaped_ns);
  }
  for (size_t i = 0; i < f->count; i++)
    if (!find(now, count, &f->known[i])) seen_ns += f->known[i].cpu_ns + f->known[i].reaped_ns;
  f->used_ns += above(ended_ns, seen_ns);
  if (count) memcpy(f->known, now, count * sizeof *now);
  f->count = count;
  f->reaped_ns = reaped_ns;
}

/* ---- the living ------------------------------------------------------------------------------ */

/* "pid (name) state ppid …": the name may hold blanks and brackets. utime, stime, cutime, cstime are the 14th to the
 * 17th word of the line, the start is the 22nd; the first behind the name is the third. */
bool tg__relative_parse(const char *stat, uint64_t ticks, struct tg__relative *out, int64_t *parent) {
  enum { PARENT = 4, USER = 14, START = 22 };
  const char *const name_end = strrchr(stat, ')');
  char *at = NULL, *end;
  uint64_t words[START + 1] = {0};
  if (!name_end || !ticks || strlen(name_end) < 4) return false;
  at = (char *)(uintptr_t)name_end + 3; /* behind the state, a letter */
  for (int i = PARENT; i <= START; i++, at = end) {
    words[i] = strtoull(at, &end, 10);
    if (end == at) return false;
  }
  const uint64_t tick_ns = 1000000000u / ticks;
  *parent = (int64_t)words[PARENT];
  *out = (struct tg__relative){.pid = strtoll(stat, NULL, 10),
                               .start = words[START],
                               .cpu_ns = (words[USER] + words[USER + 1]) * tick_ns,
                               .reaped_ns = (words[USER + 2] + words[USER + 3]) * tick_ns};
  return out->pid > 0;
}

/* The clock of a process is exact where the line counts in hundredths of a second. */
static void read_clock(struct tg__relative *x) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid((pid_t)x->pid, &clock) || clock_gettime(clock, &t)) return;
  x->cpu_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct look {
  const struct tg__family *family;
  struct tg__relative found[TG__FAMILY_MOST];
  size_t count;
  bool is_full;
  int proc;
};

static bool has_process(const struct look *l, int64_t pid) {
  if (pid == getpid()) return true;
  for (size_t i = 0; i < l->count; i++)
    if (l->found[i].pid == pid) return true;
  return false;
}

/* One that has lost its parent is still known by its number and start. */
static void look_at(struct look *l, const char *pid) {
  char path[32], text[1024];
  struct tg__relative x;
  int64_t parent;
  snprintf(path, sizeof path, "%.20s/stat", pid);
  const int fd = openat(l->proc, path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return;
  text[n] = 0;
  if (!tg__relative_parse(text, (uint64_t)sysconf(_SC_CLK_TCK), &x, &parent)) return;
  if (!has_process(l, parent) && !find(l->family->known, l->family->count, &x)) return;
  read_clock(&x);
  if (l->count == TG__FAMILY_MOST)
    l->is_full = true;
  else
    l->found[l->count++] = x;
}

/* Numbers come in ascending order, so a parent comes before its children, but for numbers that began again: such a
 * process is found at the next look. The directory is read without malloc, which the program may record. */
static bool look_around(struct look *l) {
  struct entry { /* linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t kind;
    char name[];
  };
  _Alignas(8) char block[8192];
  ssize_t n = 0;
  l->count = 0;
  l->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (l->proc < 0) return false;
  while ((n = syscall(SYS_getdents64, l->proc, block, sizeof block)) > 0) {
    for (ssize_t at = 0; at < n;) {
      const struct entry *const e = (const struct entry *)(const void *)(block + at);
      if (e->name[0] >= '1' && e->name[0] <= '9') look_at(l, e->name);
      at += e->length;
    }
  }
  close(l->proc);
  return n == 0 && !l->is_full;
}

/* Without a wait for them: whoever waits for them still finds them. */
static bool has_children(void) {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static uint64_t reaped(void) {
  struct rusage u;
  if (getrusage(RUSAGE_CHILDREN, &u)) return 0;
  return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000000000u +
         ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000u;
}

/* One that is waited for during the look would count twice, or not at all: look again. */
bool tg__family_look(struct tg__family *f) {
  enum { TRIES = 3 };
  struct look l = {.family = f};
  uint64_t reaped_ns = reaped();
  for (int i = 0; i < TRIES && (f->count || has_children()); i++) {
    const uint64_t before_ns = reaped_ns;
    if (!look_around(&l)) return false;
    reaped_ns = reaped();
    if (reaped_ns == before_ns) break;
  }
  tg__family_add(f, l.found, l.count, reaped_ns);
  return true;
}
