/* kernel_type: the types of device work, as the question kernel_types names them. */
#ifndef TG_KERNEL_TYPE_H
#define TG_KERNEL_TYPE_H

#include "analyze/analyze.h"

enum tg__work_type { TG__TYPE_UNKNOWN, TG__TYPE_COMPUTATION, TG__TYPE_COMMUNICATION, TG__TYPE_MEMORY, TG__TYPE_OTHER };
extern const char *const tg__work_type_names[];
enum tg__work_type tg__work_type_of(const char *name); /* TG__TYPE_OTHER for every other text */

#endif
