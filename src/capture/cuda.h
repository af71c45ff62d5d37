/* cuda: work of CUDA devices, through NVIDIA's CUPTI. Shared by the cuda_*.c files, and private to them.
 *
 *   cuda_library.c  finds libcupti and libcuda, without their headers and without linking them
 *   cuda_holder.c   which other profiler holds CUPTI
 *   cuda_pool.c     CUPTI asks for buffers and returns them full, on threads of its own or of the program
 *   cuda_decode.c   a buffer becomes events, as cuda_layouts.def says; what it does not know is counted
 *   cuda_clock.c    CUPTI's times become ticks
 *   cuda_write.c    an event becomes a record of the recording, on the recorder's helper thread
 *   cuda_device.c   what a device is
 *   cuda_graph.c    which operator captured a node of a CUDA graph
 *   cuda_nvml.c     load, memory, clocks and power of the devices
 *   cuda_proof.c    work that we know must come back as what it was, before any of it is believed
 *   cuda_source.c   the source: start, stop, and what became of it */
#ifndef TG_CAPTURE_CUDA_H
#define TG_CAPTURE_CUDA_H

#include "capture/capture.h"

/* ---- the libraries (cuda_library.c) ---------------------------------------------------------- */

typedef void tg__cupti_callback(void *context, uint32_t domain, uint32_t function, const void *data);
typedef void tg__cupti_requested(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void tg__cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
typedef uint64_t tg__cupti_time(void);

struct tg__cupti {
#define CUPTI(need, name, arguments) int(*name) arguments;
#include "capture/cuda_symbols.def"
  uint32_t version; /* CUPTI_API_VERSION: 18 to 28 are CUDA 12, from 130000 on CUDA 13 */
  char path[256];   /* of the file it came from */
};
struct tg__cuda_driver {
#define DRIVER(name, exported, arguments) int(*name) arguments;
#include "capture/cuda_symbols.def"
};
extern struct tg__cupti tg__cupti;             /* all zeros until it was found */
extern struct tg__cuda_driver tg__cuda_driver; /* likewise */

bool tg__cuda_find(void *library, const char *name, void *function); /* function: the address of a pointer to one */
/* Load both; again: nothing. TG_NO_DATA where there is no driver or no libcupti, with the sentence. */
enum tg_err tg__cuda_load(struct tg_error *e);
/* TG_UNSUPPORTED, saying what was being done, CUPTI's words for the result, and the cure where there is one. */
enum tg_err tg__cupti_fail(struct tg_error *e, const char *doing, int result);

/* ---- other profilers (cuda_holder.c) --------------------------------------------------------- */

enum { TG_CUDA_HOLDER_BYTES = 256 };
/* Is there a profiler of CUDA in this process that is not torch's own? `name`: how it is known. */
bool tg__cuda_holder(char name[TG_CUDA_HOLDER_BYTES]);

/* ---- buffers (cuda_pool.c) ------------------------------------------------------------------- */

enum { TG_CUDA_BUFFER_BYTES = 1 << 20, TG_CUDA_BUFFERS = 16, TG_CUDA_REFUSE_FROM = 27 };

void tg__cuda_pool_start(void);
/* Take what is full, oldest first. One thread at a time. */
typedef void tg__cuda_take(uint8_t *buffer, size_t valid);
void tg__cuda_pool_drain(tg__cuda_take *take);
void tg__cuda_pool_ask_dropped(void);   /* what CUPTI dropped since its last buffer was full */
void tg__cuda_pool_stop(void);          /* what is free is returned; what comes from now on is late and counted */
void tg__cuda_pool_abandon(void);       /* in the child of a fork */
uint64_t tg__cuda_pool_take_lost(void); /* records lost since it was last asked */
uint64_t tg__cuda_pool_late(void);      /* records that came when nothing was recorded, in this process */
uint64_t tg__cuda_pool_bytes(void);     /* memory of its buffers at the moment */
uint32_t tg__cuda_pool_missing(void);   /* buffers that CUPTI took since the start and has not returned */
void tg__cuda_requested(uint8_t **buffer, size_t *bytes, size_t *most_records);
void tg__cuda_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);

/* ---- records (cuda_decode.c) ----------------------------------------------------------------- */

enum tg__cupti_kind {
#define CUPTI_KIND(name, number) TG_CUPTI_##name = number,
#include "capture/cuda_layouts.def"
};

/* One record, whatever its kind; what a kind does not have is 0. */
struct tg__cuda_event {
  enum tg__cupti_kind kind;
  uint64_t start, end; /* by CUPTI's clock */
  uint64_t bytes, node;
  const char *name; /* of a kernel, or of a variable in memory: CUPTI's own text, NULL = none */
  uint32_t correlation, device, context, stream, thread, function, result, graph, event;
  uint32_t type; /* of a wait, an overhead; the operation on memory or on a pool */
  uint32_t grid[3], block[3], registers, shared, from_device, to_device;
  int32_t priority;
  uint8_t copy_kind, from, to; /* to: also the kind of memory that is filled, allocated or released */
  bool has_priority, is_async;
  uint64_t address; /* of memory, or of the pool that the record is about */
  struct {          /* type 0 = none */
    uint64_t address, bytes, threshold, used, least;
    uint32_t type, process; /* process: that a pool was imported from */
  } pool;
};
typedef void tg__cuda_sink(void *context, const struct tg__cuda_event *event);
typedef int tg__cuda_next(uint8_t *buffer, size_t valid, void **record); /* as cuptiActivityGetNextRecord */

/* Call the sink for every record of a buffer. Returns the number of those left out, because their kind or size is not
 * known. Reads no byte outside of the first `valid`. */
uint64_t tg__cuda_decode(uint8_t *buffer, size_t valid, tg__cuda_next *next, tg__cuda_sink *sink, void *context);
uint64_t tg__cuda_count(uint8_t *buffer, size_t valid, tg__cuda_next *next); /* records in it */

/* ---- time (cuda_clock.c) --------------------------------------------------------------------- */

void tg__cuda_clock_start(void);  /* registers our clock with CUPTI, once per process */
void tg__cuda_clock_forget(void); /* CUPTI was finalized, and with it what was registered */
void tg__cuda_clock_tick(void);   /* compares both clocks again; from one thread */
/* Before a buffer is decoded: what is in the future is no time of this recording. */
void tg__cuda_clock_set_limits(void);
/* false: no time of this recording. */
bool tg__cuda_ticks(uint64_t time, uint64_t *ticks);
struct tg__cuda_clock_state {
  bool is_ours;       /* CUPTI stamps records with our ticks */
  uint64_t error;     /* ticks: half the longest reading of both clocks, and steps between readings */
  uint64_t converted; /* times that came by CUPTI's own clock */
};
struct tg__cuda_clock_state tg__cuda_clock_now(void);

/* ---- writing (cuda_write.c) ------------------------------------------------------------------ */

void tg__cuda_write_start(void); /* numbers of names start again */
void tg__cuda_write_stop(void);  /* an overhead that begins later is our own flush, and left out */
void tg__cuda_write(void *unused, const struct tg__cuda_event *event);
struct tg__cuda_written {
  uint64_t kernels, copies, fills, calls, waits, memory, unread;
};
struct tg__cuda_written tg__cuda_written_now(void);

/* One entry of a dictionary of launches: fields, each TG_LAUNCH_FIELD_BYTES; what has no room is left out. */
enum { TG_CUDA_ENTRY_BYTES = 512 };
struct tg__cuda_entry {
  uint8_t bytes[TG_CUDA_ENTRY_BYTES];
  size_t len;
};
void tg__cuda_put_field(struct tg__cuda_entry *entry, enum tg__launch_field field, int64_t value);

/* ---- what a device is (cuda_device.c) -------------------------------------------------------- */

/* CUPTI describes a device only to a subscriber that was there when its context was made, so the driver is asked. */
void tg__cuda_devices_write(void);

/* ---- CUDA graphs (cuda_graph.c) -------------------------------------------------------------- */

enum { TG_CUPTI_RESOURCE = 3 }; /* the domain of callbacks about contexts, streams and graphs */
bool tg__cuda_graph_can(void);  /* CUPTI has the functions */
/* From now on the capture of a node is noted. Without the subscriber, or in a CUPTI that cannot: nothing. */
void tg__cuda_graph_start(void *subscriber);
void tg__cuda_graph_stop(void *subscriber); /* while nodes are kept: nothing */
/* Nodes are kept from now on, or no more; what can must be so. records: a recording needs them, too. */
void tg__cuda_graph_keep(void *subscriber, bool on, bool records);
/* The thread's file gets what is kept of a node, once. */
void tg__cuda_graph_kept(struct tg__thread *t, uint64_t number);
void tg__cuda_graph_called(uint32_t function, const void *data); /* by CUPTI, on the thread that does it */
uint64_t tg__cuda_graph_nodes(void);                             /* noted since the recording started */

/* ---- devices as a whole (cuda_nvml.c) -------------------------------------------------------- */

void tg__cuda_nvml_start(void);
void tg__cuda_nvml_tick(void); /* counters, once a second */

/* ---- proof (cuda_proof.c) -------------------------------------------------------------------- */

/* Launch, copy, fill and wait, and compare CUPTI's records of it. TG_OK, or TG_UNSUPPORTED with the first thing that
 * does not fit. Kinds are enabled; the pool runs. */
enum tg_err tg__cuda_prove(struct tg_error *e);

#endif
