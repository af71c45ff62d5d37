/* The operating system, second part: other programs, and the folders and files they leave. POSIX. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_NOT_FOUND = 127, COMMAND_NOT_RUNNABLE = 126, STOPPED_BY_SIGNAL = 128 };

/* ---- a program and its end ------------------------------------------------------------------- */

static volatile sig_atomic_t child_pid;
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* Ctrl-C reaches the whole foreground group, the child among it: pass on only what was sent to this process. */
static void pass_on(int number, siginfo_t *info, void *context) {
  (void)context;
  const int error = errno;
  if (info->si_code <= 0 && child_pid > 0) kill((pid_t)child_pid, number);
  errno = error;
}

static void watch_signals(struct sigaction old[PASSED_ON]) {
  struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < PASSED_ON; i++) {
    sigaction(passed_on[i], NULL, &old[i]);
    if (old[i].sa_handler != SIG_IGN) sigaction(passed_on[i], &action, NULL); /* `nohup` stays in force */
  }
}

static void restore_signals(const struct sigaction old[PASSED_ON]) {
  for (size_t i = 0; i < PASSED_ON; i++) sigaction(passed_on[i], &old[i], NULL);
}

__attribute__((noreturn)) static void become(const char *const *argv, const struct tg__variable *variables,
                                             size_t count, int output_fd, int report_fd) {
  signal(SIGPIPE, SIG_DFL); /* ours is to ignore it, and that would be inherited */
  for (size_t i = 0; i < count; i++) setenv(variables[i].name, variables[i].value, 1);
  if (output_fd >= 0) dup2(output_fd, STDOUT_FILENO);
  execvp(argv[0], (char *const *)(uintptr_t)argv);
  const int cause = errno;
  if (write(report_fd, &cause, sizeof cause) < 0) _exit(COMMAND_NOT_RUNNABLE);
  _exit(cause == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_RUNNABLE);
}

static int exit_status(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFSIGNALED(status) ? STOPPED_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

enum tg_err tg__program_run(const char *const *argv, const struct tg__variable *variables, size_t count, int output_fd,
                            int *status, struct tg_error *e) {
  int report[2], cause = 0; /* a pipe that closes when the program has begun, or says why it could not */
  struct sigaction old[PASSED_ON];
  if (pipe2(report, O_CLOEXEC) != 0) return tg__fail(e, TG_IO, -1, "cannot start '%s': %s", argv[0], strerror(errno));
  sigset_t signals, before;
  sigemptyset(&signals);
  for (size_t i = 0; i < PASSED_ON; i++) sigaddset(&signals, passed_on[i]);
  child_pid = 0;
  sigprocmask(SIG_BLOCK, &signals, &before); /* one that comes before the child has a number waits until it has */
  watch_signals(old);
  const pid_t pid = fork();
  if (pid == 0) {
    restore_signals(old);
    sigprocmask(SIG_SETMASK, &before, NULL);
    become(argv, variables, count, output_fd, report[1]);
  }
  cause = pid < 0 ? errno : 0;
  child_pid = pid > 0 ? pid : 0;
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(report[1]);
  ssize_t n = 0;
  while (pid > 0 && (n = read(report[0], &cause, sizeof cause)) < 0 && errno == EINTR) continue;
  close(report[0]);
  *status = pid > 0 ? exit_status(pid) : COMMAND_NOT_RUNNABLE;
  child_pid = 0;
  restore_signals(old);
  if (pid > 0 && n <= 0) return TG_OK;
  return tg__fail(e, cause == ENOENT ? TG_NOT_FOUND : TG_IO, -1, "cannot start '%s': %s", argv[0], strerror(cause));
}

bool tg__program_says(const char *const *argv, char *text, size_t size) {
  int ends[2], status;
  size_t len = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDERR_FILENO);
    become(argv, NULL, 0, ends[1], nothing);
  }
  close(ends[1]);
  ssize_t n;
  while (pid > 0 && len + 1 < size &&
         ((n = read(ends[0], text + len, size - 1 - len)) > 0 || (n < 0 && errno == EINTR)))
    len += n > 0 ? (size_t)n : 0;
  close(ends[0]);
  status = pid > 0 ? exit_status(pid) : -1;
  text[len] = 0;
  if (len && text[len - 1] == '\n') text[len - 1] = 0;
  return status == 0 && *text;
}

uint64_t tg__process_number(void) { return (uint64_t)getpid(); }

/* One that has ended and was not waited for has a number, too: /proc says Z behind the name in brackets. */
bool tg__process_runs(uint64_t number) {
  char path[64], text[512];
  if (number == 0 || number > INT32_MAX || (kill((pid_t)number, 0) != 0 && errno != EPERM)) return false;
  snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)number);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (n < 0) return true; /* no such folder here */
  text[n] = 0;
  const char *const end = strrchr(text, ')');
  return !end || !end[1] || (end[2] != 'Z' && end[2] != 'X');
}

void tg__local_time(const char *format, char *text, size_t size) {
  const time_t now = time(NULL);
  struct tm parts;
  if (!localtime_r(&now, &parts) || !strftime(text, size, format, &parts)) *text = 0;
}

/* ---- folders and files ----------------------------------------------------------------------- */

enum tg_err tg__folder_make(const char *path, struct tg_error *e) {
  char part[PATH_MAX];
  const size_t len = strlen(path);
  if (len + 1 > sizeof part) return tg__fail(e, TG_USAGE, -1, "the path '%.60s…' is too long", path);
  for (size_t i = 1; i <= len; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    memcpy(part, path, i);
    part[i] = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      return tg__fail(e, TG_IO, -1, "cannot make the folder '%s': %s", part, strerror(errno));
  }
  if (tg__path_kind(path) != TG__PATH_DIR)
    return tg__fail(e, TG_IO, -1, "'%s' is a file, a folder is needed here", path);
  return TG_OK;
}

bool tg__path_absolute(const char *path, char *out, size_t size) {
  char full[PATH_MAX];
  if (!realpath(path, full) || strlen(full) + 1 > size) return false;
  memcpy(out, full, strlen(full) + 1);
  return true;
}

void tg__path_remove(const char *path) { (void)remove(path); }
