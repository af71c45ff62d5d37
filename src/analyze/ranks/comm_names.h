/* comm_names: what names and args of events say about collectives. */
#ifndef TG_COMM_NAMES_H
#define TG_COMM_NAMES_H

#include "analyze/analyze.h"

/* Of a slice, by its name. */
enum tg__comm_role {
  TG__COMM_NONE,
  TG__COMM_REQUEST, /* c10d::allreduce_, _c10d_functional::all_reduce: the operator that asks */
  TG__COMM_PARAMS,  /* record_param_comms: has group, size, sequence */
  TG__COMM_SPAN,    /* nccl:all_reduce, gloo:broadcast: the library at work, or taking the order */
  TG__COMM_KERNEL,  /* ncclDevKernel_AllReduce_… */
};
enum tg__comm_role tg__comm_role(struct tg__str name, bool is_kernel);

/* all_reduce, all_gather, reduce_scatter, …: the same word whatever the layer calls it; "" for what is no
 * collective, such as wait. Of send and recv *peers gets what stands behind the name, " 0->1" (turned round for
 * recv), so that both ends agree. */
struct tg__str tg__comm_kind(struct tg__str name, char peers[24]);
/* Does every rank need something from every other before it can end? Then all end at about the same moment. */
bool tg__comm_ends_together(struct tg__str kind);

/* Of one element, as record_param_comms and input types call it; 0 = not known. */
int64_t tg__dtype_bytes(struct tg__str dtype);
/* Bytes of the tensors in "Input Dims" and "Input type" texts; -1 when there are none with known sizes. */
int64_t tg__tensor_bytes(struct tg__str dims, struct tg__str types);

#endif
