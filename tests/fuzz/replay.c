/* Runs every file of the folders and files named on the command line through a fuzz target, without a fuzzing engine.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replayed;

static int replay_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return perror(path), 1;
  uint8_t *data = NULL;
  size_t size = 0, room = 0, got = 1;
  while (got > 0) {
    if (room - size < 4096) {
      uint8_t *more = realloc(data, room = 2 * room + 65536);
      if (!more) abort();
      data = more;
    }
    got = fread(data + size, 1, room - size, f);
    size += got;
  }
  const int bad = ferror(f);
  fclose(f);
  uint8_t *exact = malloc(size ? size : 1); /* as long as the input, so that sanitizers see a byte too far */
  if (!exact) abort();
  if (size) memcpy(exact, data, size);
  free(data);
  fprintf(stderr, "%s\n", path); /* the last line before a crash names its input */
  if (!bad) LLVMFuzzerTestOneInput(exact, size);
  free(exact);
  replayed += !bad;
  return bad;
}

static int replay(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) return replay_file(path);
  int bad = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char *inner = malloc(strlen(path) + strlen(entry->d_name) + 2);
    if (!inner) abort();
    sprintf(inner, "%s/%s", path, entry->d_name);
    bad |= replay(inner);
    free(inner);
  }
  closedir(dir);
  return bad;
}

int main(int argc, char **argv) {
  int bad = 0;
  for (int i = 1; i < argc; i++) bad |= replay(argv[i]);
  printf("%zu inputs replayed\n", replayed);
  return bad || replayed == 0;
}
