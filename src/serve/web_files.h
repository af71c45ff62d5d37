/* web_files: the files of web/, from a folder or from inside the program (tools/embed.py makes web_embedded.c at build
 * time). */
#ifndef TG_WEB_FILES_H
#define TG_WEB_FILES_H

#include "base/base.h"

struct tg__web_file {
  const char *path;
  const unsigned char *bytes;
  size_t len;
};
extern const struct tg__web_file tg__web_files[]; /* sorted by path; the last has path NULL */

/* The bytes of a file, appended to *out; false: there is none of this name. folder NULL: of those inside the program.
 */
bool tg__web_read(const char *folder, struct tg__str path, struct tg__out *out);

#endif
