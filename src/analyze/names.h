/* What names of events mean, and the lines of the program around them. */
#ifndef TG_NAMES_H
#define TG_NAMES_H

#include "trace/trace.h"

/* The estimated achieved occupancy of a kernel in percent (gpu.c); NaN where its args do not state it, or state that it
 * could not be estimated. */
double tg__kernel_occupancy(const struct tg__columns *t, uint32_t args);
bool tg__is_occupancy_estimated(double pct, double warps_per_sm);

/* Names with a meaning (names.c). */
bool tg__name_is_collective_kernel(struct tg__str kernel);
bool tg__name_is_collective_call(struct tg__str op);    /* nccl:all_reduce, gloo:broadcast, … */
bool tg__name_is_dataloader(struct tg__str annotation); /* enumerate(DataLoader)#….__next__, enumerate(DataPipe)#… */
bool tg__name_is_optimizer_step(struct tg__str annotation);
/* "autograd::engine::evaluate_function: MulBackward0"; traces of 2021 have MulBackward0 itself. */
bool tg__name_is_autograd_node(struct tg__str op);
bool tg__name_is_label(struct tg__str annotation);     /* it groups what runs inside, and is no work itself */
bool tg__name_is_compiled_region(struct tg__str name); /* "Torch-Compiled Region: 3/1", of torch.compile */
bool tg__name_is_compiled_graph(struct tg__str name);  /* one of the graphs in it, while it runs */
bool tg__name_is_profiler_step(struct tg__str name, int64_t *number);
/* COMPUTATION, COMMUNICATION, MEMORY, OTHER. */
const char *tg__kernel_type(const struct tg__columns *t, uint32_t slice);
const char *tg__kernel_type_by_name(struct tg__str name); /* the same by HTA's rule, which knows nothing but the name */

/* The same questions asked once per distinct string instead of once per event: for loops over all slices. */
enum {
  TG__NAME_COLLECTIVE_KERNEL = 1,
  TG__NAME_COLLECTIVE_CALL = 2,
  TG__NAME_DATALOADER = 4,
  TG__NAME_OPTIMIZER_STEP = 8,
  TG__NAME_PROFILER_STEP = 16,
  TG__NAME_FRAME = 32,  /* "file.py(12): function" */
  TG__NAME_MODULE = 64, /* "nn.Module: …" */
  TG__NAME_KNOWN = 128, /* private */
};
struct tg__names {
  const struct tg__columns *trace;
  uint8_t *flags; /* one per string of the trace, filled on first use */
};
bool tg__names_open(struct tg__names *n, const struct tg__columns *t);  /* false on no memory */
unsigned tg__names_of(struct tg__names *n, uint32_t string_id);         /* TG__NAME_* */
const char *tg__names_kernel_type(struct tg__names *n, uint32_t slice); /* equals tg__kernel_type */
void tg__names_close(struct tg__names *n);

/* ---- devices of memory events (op_memory.c) ------------------------------------------------------ */

/* Device of the memory: a kind of c10's devices and a number; -1 where the trace does not say, the number of the host
 * always. */
struct tg__memory_device {
  int64_t type, id;
};
static inline struct tg__memory_device tg__memory_device_of(int64_t type, int64_t id) {
  return (struct tg__memory_device){type, type == 0 ? -1 : id};
}
struct tg__memory_device tg__memory_device_read(const struct tg__columns *t, uint32_t args);
/* CPU, GPU0, type6:0 (HIP); type-1:-1 where the trace says nothing. buf is not always used. */
enum { TG__DEVICE_NAME = 64 };
const char *tg__memory_device_name(int64_t type, int64_t id, char buf[TG__DEVICE_NAME]);

/* ---- the program's own lines (user_frame.c) -------------------------------------------------- */

bool tg__is_user_frame(struct tg__str name); /* of the program, neither of torch nor of another package */
/* Innermost such frame of "a.py(1): f;b.py(2): g", empty when there is none. */
struct tg__str tg__user_frame_of_stack(struct tg__str stack);
/* The frame of the program around a slice, or the one in the stack recorded with it; empty when there is none. */
struct tg__str tg__user_frame(const struct tg__columns *t, uint32_t slice);
/* "layers.0(Block) / up(Linear)", the innermost module around all that a compiled kernel does the work of; empty: not known. */
struct tg__str tg__compiled_module(const struct tg__columns *t, uint32_t slice);
/* Append the line that made this call, or the call around it that says so, as "file.py(12): function", whoever's code
 * it is; false where none says so. */
bool tg__call_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out);
/* Append "file.py(12): function" with the line that was executing, where the trace has it; nothing when it has
 * no line. Of device work it is the line that launched it; of a compiled kernel the first of those it does the work
 * of. */
void tg__user_line(const struct tg__columns *t, uint32_t slice, struct tg__out *out);

#endif
