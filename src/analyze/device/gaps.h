/* gaps: when a device did nothing, and what kept it waiting. Used by the questions gaps and findings. */
#ifndef TG_GAPS_H
#define TG_GAPS_H

#include "analyze/analyze.h"

enum tg__gap_cause {
  TG__GAP_NONE, /* nothing of the host was recorded in most of it */
  /* that work had been launched before the gap began: the device changed kernels, or waited for itself */
  TG__GAP_QUEUED,
  /* else, what the launching thread did most of, or the main one where the launch is not known; by rising precedence
   * where one holds the other */
  TG__GAP_PYTHON, /* Python, or what lies between two events of the host */
  TG__GAP_HOST,   /* operators, and runtime calls other than the following */
  TG__GAP_LAUNCH, /* launch calls */
  TG__GAP_COPY,   /* copy calls */
  TG__GAP_SYNC,   /* waiting for the device */
  TG__GAP_DATA,   /* the data loader */
  TG__GAP_CAUSE_COUNT,
};
extern const char *const tg__gap_cause_names[TG__GAP_CAUSE_COUNT];

struct tg__gap {
  int64_t device, start_ns, end_ns;
  uint32_t before, after; /* device work around it */
  uint32_t during;        /* innermost slice of the launching thread that covers at least half of it, TG_NONE */
  enum tg__gap_cause cause;
};
struct tg__gaps {
  struct tg__gap *items; /* by device, then start */
  size_t count, cap;
  int64_t busy_ns, span_ns; /* summed over devices: some work runs; first start to last end */
  size_t device_count;
};
/* Between the first and the last device work of each device of a rank. TG_OK or TG_MEMORY; *out is to be freed
 * either way. */
enum tg_err tg__gaps_find(const struct tg__columns *t, uint32_t rank, struct tg__gaps *out);
void tg__gaps_free(struct tg__gaps *g);
/* breakdown.c: busy_pct of the question breakdown with by=device and window=steps, the mean over devices. false on no
 * memory. */
bool tg__devices_busy(const struct tg__columns *t, uint32_t rank, double *pct, size_t *devices);

/* sync_kind.c: by what the program makes the host wait for a device. */
enum tg__sync_kind {
  TG__SYNC_NONE,
  TG__SYNC_ITEM,
  TG__SYNC_CPU,
  TG__SYNC_NUMPY,
  TG__SYNC_TOLIST,
  TG__SYNC_PRINT,
  TG__SYNC_TRUTH, /* `if tensor` */
  TG__SYNC_METRIC,
  TG__SYNC_SIZE, /* nonzero and the like */
  TG__SYNC_DEVICE,
  TG__SYNC_STREAM,
  TG__SYNC_EVENT,
  TG__SYNC_COPY,
  TG__SYNC_FREE,   /* cudaFree */
  TG__SYNC_VALUES, /* .tolist() or .numpy(): the same operators on a CPU */
  TG__SYNC_OTHER,
  TG__SYNC_KIND_COUNT,
};
extern const char *const tg__sync_kind_names[TG__SYNC_KIND_COUNT];
/* Of a call that waits or an operator around it, and the device work that it waits for; either may be TG_NONE. */
enum tg__sync_kind tg__sync_kind_behind(const struct tg__columns *t, uint32_t slice, uint32_t work);
uint32_t tg__sync_unit(const struct tg__columns *t, uint32_t call); /* the outermost operator around it, else itself */

/* host_reads.c: where a rank without a device reads values of tensors, thread by thread, by start. */
struct tg__host_read {
  uint32_t slice; /* the outermost operator; of a print the first of several */
  enum tg__sync_kind kind;
  int64_t start_ns, end_ns; /* of these operators, and what is between them */
};
typedef void tg__read_visitor(void *ctx, const struct tg__host_read *read);
/* false on no memory. */
bool tg__visit_host_reads(const struct tg__columns *t, uint32_t rank, tg__read_visitor *visit, void *ctx);
bool tg__call_frees(struct tg__str name); /* a runtime call that releases memory of a device */
bool tg__call_waits(struct tg__str name); /* a runtime call that returns when the device is done */

#endif
