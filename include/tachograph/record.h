/* Tachograph, for a program that records itself: open a recording, resume it, close it.
 *
 *     struct tg_error error;
 *     struct tg_record_options options = {.path = "job.tacho", .features = TG_RECORD_DEFAULT};
 *     if (tg_record_open(&options, &error) || tg_record_resume(&error)) { puts(error.text); return 1; }
 *     for (…) { tg_step_begin("step"); tg_range_begin("load"); …; tg_range_end(); …; tg_step_end(); }
 *     tg_record_close(NULL, &error);          then: tachograph report job.tacho
 *
 * One recording at a time in a process; it records all threads, also those that start later. Forked children
 * continue in files of their own, `job.PID.tacho` beside `job.tacho`. Nothing here prints, exits, throws, takes a lock
 * where the program works, or grows beyond its budget; what does not fit is counted. The file can be read at any time,
 * also of a program that was killed. Threads: ranges, marks, steps and counters may be used from any thread at any
 * time, also when nothing is recorded (a few ns), but not in handlers of signals. Opening, resuming, pausing and
 * closing may be done from any thread; they take turns. Units: times in ns, sizes in bytes. Text is UTF-8,
 * NUL-terminated, copied at the call. */
#ifndef TACHOGRAPH_RECORD_H
#define TACHOGRAPH_RECORD_H

#include "tachograph/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to record. A source that this process lacks (no torch, no Python) is left out, unless `required` names it. */
enum tg_record_feature {
  TG_RECORD_OPS = 1,       /* operators, autograd nodes and annotations of torch */
  TG_RECORD_SHAPES = 2,    /* shapes, strides, types and scalar values of their inputs */
  TG_RECORD_STACKS = 4,    /* the Python stack of each operator */
  TG_RECORD_MODULES = 8,   /* the module each operator ran for */
  TG_RECORD_MEMORY = 16,   /* allocations and frees */
  TG_RECORD_CALLS = 32,    /* every call of a Python function */
  TG_RECORD_GC = 64,       /* pauses of Python's garbage collector */
  TG_RECORD_PROCESS = 128, /* CPU time and resident memory of the process, ten times a second */
  TG_RECORD_MODULE_SPANS =
      256, /* start and end of module calls; without them a reader has them from the first to the last operator */
  TG_RECORD_CUDA = 512,        /* what CUDA devices did, and the calls of their runtime and driver */
  TG_RECORD_CUDA_WAITS = 1024, /* with TG_RECORD_CUDA: records of each wait for a stream, an event or the device */
  TG_RECORD_NVTX = 2048,       /* ranges and marks of NVTX, where NVTX_INJECTION64_PATH names this library */
  TG_RECORD_CUDA_MEMORY =
      4096, /* with TG_RECORD_CUDA: each allocation and release by CUDA itself, and what it did with memory pools */
  TG_RECORD_LEAN = TG_RECORD_OPS | TG_RECORD_GC | TG_RECORD_PROCESS | TG_RECORD_NVTX,
  TG_RECORD_DEFAULT = TG_RECORD_LEAN | TG_RECORD_SHAPES | TG_RECORD_STACKS | TG_RECORD_MODULES,
  TG_RECORD_DEEP = TG_RECORD_DEFAULT | TG_RECORD_MEMORY | TG_RECORD_CALLS | TG_RECORD_MODULE_SPANS,
};

enum tg_record_keep { TG_KEEP_FIRST, TG_KEEP_LAST }; /* what stays when the disk budget is used up */

enum { TG_RECORD_LEAST_MEMORY = 1 << 20, TG_RECORD_LEAST_DISK = 256 << 10 }; /* bytes; a smaller budget is refused */

struct tg_record_options {
  const char *path;      /* of the file; one that exists is replaced */
  uint32_t features;     /* TG_RECORD_* bits */
  uint32_t required;     /* of those: opening fails with TG_UNSUPPORTED when one cannot be had */
  uint64_t memory_bytes; /* most memory recording may use, resident chunks among it; 0 = 64 MiB */
  uint64_t disk_bytes;   /* most bytes of file; 0 = 4 GiB */
  enum tg_record_keep keep;
  uint64_t session; /* the same number in all processes of one job; 0 = choose one */
  int32_t rank;     /* -1 = none */
};

/* Open a file and make ready (threads of its own, calibration: some ms the first time). Nothing is recorded yet.
 * TG_BUSY when a recording is open already; TG_UNSUPPORTED, with the evidence, when a required feature cannot be
 * had. */
TG_API enum tg_err tg_record_open(const struct tg_record_options *options, struct tg_error *error);
/* Record from now on. While it runs already: try again the sources that were missing (torch may have been loaded
 * since). */
TG_API enum tg_err tg_record_resume(struct tg_error *error);
TG_API enum tg_err tg_record_pause(struct tg_error *error);
/* Switch single features of the running recording off or on. */
TG_API enum tg_err tg_record_toggle(uint32_t features, bool on, struct tg_error *error);

struct tg_record_stats {
  bool open, running;
  uint32_t features; /* that are really recorded */
  /* Asked for and not to be had; `why` says the reason of the first, after a toggle that of what it switches on, or why
   * the disk took no more. */
  uint32_t missing;
  uint64_t records, lost; /* written; without room, too deep or overwritten */
  uint64_t disk_bytes, memory_bytes, peak_memory_bytes;
  uint64_t session;
  char why[240];
};
/* End the recording and close its file: bounded time, whatever was recorded. stats: what it was, may be NULL. */
TG_API enum tg_err tg_record_close(struct tg_record_stats *stats, struct tg_error *error);
TG_API void tg_record_state(struct tg_record_stats *stats);

/* What the source of TG_RECORD_CUDA did in the recording that is open, or in the last one. Any thread; numbers of one
 * that runs may not fit each other. */
struct tg_record_cuda_stats {
  char path[256]; /* of the libcupti that was found; empty = none was looked for */
  /* kinds of record that CUPTI refused at the last start and that others do without, separated by blanks: "MEMORY2
   * MEMORY_POOL" */
  char refused[160];
  uint32_t version;           /* of its interface: 18 to 28 are CUDA 12, from 130000 on CUDA 13 */
  uint32_t driver_version;    /* 13000 is CUDA 13.0; 0 = not known */
  bool is_proven;             /* known work came back as what it was */
  bool has_subscriber;        /* now; false while recording: torch's collector has kept CUPTI's one subscriber */
  bool was_taken;             /* at the last stop buffers were missing: another profiler registered its own meanwhile */
  bool was_reset;             /* … or they went with a context that was destroyed, or with the device */
  bool has_our_clock;         /* CUPTI stamps its records by the recorder's clock: no conversion */
  uint64_t clock_error_ticks; /* where it does not: the error of the conversion, in ticks of the recorder's clock */
  uint64_t converted_times;   /* that came by CUPTI's own clock */
  uint64_t kernels, copies, fills, calls, waits, memory; /* records of each */
  uint64_t graph_nodes;                                  /* of CUDA graphs that were captured or cloned meanwhile */
  uint64_t lost;                                         /* dropped by CUPTI, or because there was no buffer */
  uint64_t late;         /* came when nothing was recorded, in this process; not in a file */
  uint64_t callbacks;    /* by CUPTI into the recorder, in this process: none for a launch */
  uint64_t buffer_bytes; /* memory of the buffers at the moment */
};
TG_API void tg_record_cuda(struct tg_record_cuda_stats *stats);
/* NULL: TG_RECORD_MEMORY includes what allocators of devices report to torch, in the recording that is open or in the
 * last one that had it. Else why not, one sentence, which stays valid. Any thread. */
TG_API const char *tg_record_device_memory(void);

/* How many libraries of this process send their calls of NVTX here, since each made its first one. */
TG_API uint32_t tg_record_nvtx(void);

/* A member of the document, as a Kineto trace has them ("distributedInfo"): value is JSON text. While a recording is
 * open. */
TG_API enum tg_err tg_record_meta(const char *name, const char *json, struct tg_error *error);

/* The frames of Python that the file of the open recording names so far, each as docs/format.md has a STACK entry: the
 * same frame below another caller comes again. It reads the file: not while something is waited for. */
typedef void tg_frame_visitor(void *ctx, const char *text, size_t len);
TG_API enum tg_err tg_record_frames(tg_frame_visitor *visit, void *ctx, struct tg_error *error);

/* ---- marks of the program itself ------------------------------------------------------------- */

TG_API void tg_range_begin(const char *name); /* a span on the calling thread … */
TG_API void tg_range_end(void);               /* … up to here; ranges nest */
/* A training or serving step: the unit of all reports. By custom "ProfilerStep#7". */
TG_API void tg_step_begin(const char *name);
TG_API void tg_step_end(void);
TG_API void tg_mark(const char *name); /* a moment */
TG_API void tg_counter(const char *name, int64_t value);
/* Describe the block of memory at this address, for recordings with TG_RECORD_MEMORY: while one is open, running
 * or not. kind: one of "parameter", "buffer", "gradient", "optimizer_state", "input"; name: of the tensor, such as
 * "layers.0.weight". The device as torch numbers types: 0 = CPU, 1 = CUDA. */
TG_API void tg_tensor(const char *kind, const char *name, const void *address, int64_t bytes, int device_type,
                      int device_index);
TG_API void tg_thread_name(const char *name); /* of the calling thread; else the operating system's is shown */

/* ---- for the Python extension ---------------------------------------------------------------- */

#ifdef Py_PYTHON_H
/* Add what needs the interpreter (annotation types, stacks, modules, calls, garbage collector) to the extension
 * module and to the sources of recordings. 0, or -1 with an exception set. With the GIL. */
int tg_record_add_to_python(PyObject *module);
#endif

#ifdef __cplusplus
}
#endif

#endif
