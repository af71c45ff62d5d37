/* kernel_lines: which lines and modules of the program a compiled kernel does the work of, as Inductor and dynamo say:
 * in the members compiled.PID of the document. */
#ifndef TG_KERNEL_LINES_H
#define TG_KERNEL_LINES_H

#include "analyze/analyze.h"

#define TG__REGION_PREFIX "Torch-Compiled Region: "

struct tg__kernel_lines {
  const struct tg__str *frames; /* "file.py(12): function", each once, in Inductor's order of operators */
  size_t count;
};
/* Of a kernel on a device, or of one that the host calls. They stay as long as the trace's cache. Count 0: none are
 * known; *failed, which may be NULL, is set where there is no memory. */
struct tg__kernel_lines tg__kernel_lines_of(const struct tg__columns *t, uint32_t slice, bool *failed);
/* Has the trace any? */
bool tg__has_kernel_lines(const struct tg__columns *t);
/* Does it look like a kernel that Inductor made? */
bool tg__is_compiled_kernel(struct tg__str name);
/* "3/1" of the compiled region that a slice runs in, that launched it, or that it is the backward pass of; empty: none.
 * is_backward may be NULL. */
struct tg__str tg__compiled_region(const struct tg__columns *t, uint32_t slice, bool *is_backward);
/* Append them, with "; " between. */
void tg__kernel_lines_write(struct tg__kernel_lines lines, struct tg__out *out);

struct tg__kernel_modules {
  const struct tg__str *paths; /* "layers.0(Block) / up(Linear)", each once, below what was compiled; "": that itself */
  size_t count;
};
/* As above; those of the pass, forward or backward, that the slice is in. */
struct tg__kernel_modules tg__kernel_modules_of(const struct tg__columns *t, uint32_t slice, bool *failed);
/* Of each call with the name of the slice, a kernel or an operator such as aten::addmm, in one run of the compiled code
 * that the slice is a part of: the path of the innermost module around all that the call does. */
struct tg__kernel_modules tg__module_calls_of(const struct tg__columns *t, uint32_t slice, bool *failed);
/* The path of the innermost module that all of them are in; empty: what was
 * compiled, or none is known. */
struct tg__str tg__common_module(struct tg__kernel_modules modules);
bool tg__has_kernel_modules(const struct tg__columns *t); /* any? */

/* All that are known, one after the other, whether they run or not; false: there is none with this number. Extern
 * kernels, which are operators, are among them. */
struct tg__known_kernel {
  struct tg__str region, name;
  struct tg__kernel_lines lines;
  struct tg__kernel_modules modules; /* none in a log */
};
bool tg__known_kernel_at(const struct tg__columns *t, uint32_t rank, size_t number, struct tg__known_kernel *out);

#endif
