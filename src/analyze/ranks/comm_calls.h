/* comm_calls: the collectives of one rank, each once: the operator that asks, record_param_comms, the library's
 * annotation and the kernels are layers of the same one. */
#ifndef TG_COMM_CALLS_H
#define TG_COMM_CALLS_H

#include "analyze/analyze.h"
#include "trace/summary.h"

/* Fills r->collectives (in the order they were asked for; `step` is left to the caller), bare_requests and
 * has_device_work. `busy`, when not NULL, gets what communication covers, not yet united. Strings go into `strings`.
 * false on no memory. */
bool tg__comm_gather(const struct tg__columns *t, uint32_t rank, struct tg__strings *strings,
                     struct tg__rank_summary *r, struct tg__spans *busy);

/* Is this slice one of the layers above on the host? For callers that must not count it as computation. `roles`: one
 * byte per string of the trace, zero at first. */
bool tg__comm_is_layer(const struct tg__columns *t, uint8_t *roles, uint32_t slice);

#endif
