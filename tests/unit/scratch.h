/* scratch: the folder for files that a test makes and removes thousands of times: in memory where there is 1 GiB of it,
 * as a disk makes each of them wait. */
#ifndef TG_TEST_SCRATCH_H
#define TG_TEST_SCRATCH_H

#include <stdint.h>
#include <sys/statvfs.h>
#include <unistd.h>

static inline const char *scratch_folder(void) {
  struct statvfs shm;
  const bool is_roomy =
      access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &shm) == 0 && (uint64_t)shm.f_bavail * shm.f_frsize >> 30;
  return is_roomy ? "/dev/shm" : "/tmp";
}

#endif
