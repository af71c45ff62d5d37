/* The names of the types of device work. */
#include "analyze/names/kernel_type.h"

const char *const tg__work_type_names[] = {[TG__TYPE_UNKNOWN] = "",
                                           [TG__TYPE_COMPUTATION] = "COMPUTATION",
                                           [TG__TYPE_COMMUNICATION] = "COMMUNICATION",
                                           [TG__TYPE_MEMORY] = "MEMORY",
                                           [TG__TYPE_OTHER] = "OTHER"};

enum tg__work_type tg__work_type_of(const char *name) {
  unsigned k = TG__TYPE_COMPUTATION;
  while (k < TG__TYPE_OTHER && strcmp(name, tg__work_type_names[k]) != 0) k++;
  return (enum tg__work_type)k;
}
