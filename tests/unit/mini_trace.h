/* mini_trace: a trace written by hand, row by row, for tests of what works on traces.
 *
 *     struct mini *m = mini_new();
 *     const uint32_t cpu = mini_thread(m, 1, 10), gpu = mini_stream(m, 0, 7);
 *     const int op = mini_slice(m, cpu, "cpu_op", "aten::mm", 100, 50);
 *     const int call = mini_slice(m, cpu, "cuda_runtime", "cudaLaunchKernel", 110, 5);
 *     const int kernel = mini_slice(m, gpu, "kernel", "gemm", 120, 300);
 *     mini_arg_int(m, "grid", 4);                          // of the row made last
 *     mini_cause(m, kernel, call), mini_cause(m, call, op);
 *     struct tg__columns *t = mini_finish(m);                 // sorted, nested, everything loaded; belongs to m
 *     … t->slices.dur_ns[mini_id(m, kernel)] …
 *     mini_free(m);
 *
 * Nothing is inferred but what trace.h calls parent, depth and lane; causes are as set, steps are the ProfilerStep#
 * annotations unless mini_step was called. Times are ns. A mistake in a call ends the test by assert. */
#ifndef TG_MINI_TRACE_H
#define TG_MINI_TRACE_H

#include "ranks/ranks.h"

struct mini;
struct mini *mini_new(void); /* one rank, of unknown number */
void mini_free(struct mini *m);

struct tg__rank *mini_rank(
    struct mini *m,
    int64_t number); /* begin the next rank; before the first track: number the first one. Valid until the next call */
uint32_t mini_thread(struct mini *m, int64_t pid, int64_t tid);       /* a CPU track of the current rank */
uint32_t mini_stream(struct mini *m, int64_t device, int64_t stream); /* a device track of the current rank */
struct tg__track *mini_track(struct mini *m,
                             uint32_t track); /* to change what the two above set; valid until the next one */

int mini_slice(struct mini *m, uint32_t track, const char *cat, const char *name, int64_t start_ns, int64_t dur_ns);
int mini_mark(struct mini *m, uint32_t track, const char *cat, const char *name, char ph,
              int64_t ts_ns); /* numbered apart from slices */
void mini_arg_int(struct mini *m, const char *key, int64_t v);
void mini_arg_dec(struct mini *m, const char *key, int64_t digits, unsigned decimals); /* 25, 2 = 0.25 */
void mini_arg_str(struct mini *m, const char *key, const char *v);
void mini_arg_raw(struct mini *m, const char *key, const char *json); /* [1,2] and the like */
void mini_cause(struct mini *m, int slice, int cause);
void mini_cause_by_id(struct mini *m, int slice, int cause); /* the same, with TG__F_CAUSE_BY_ID */
void mini_step(struct mini *m, int64_t number, const char *name, int64_t start_ns,
               int64_t end_ns);                                                    /* of the current rank */
void mini_loss(struct mini *m, enum tg__loss what, int64_t count, int64_t offset); /* of the current rank */

struct tg__columns *mini_finish(struct mini *m);
uint32_t mini_id(const struct mini *m, int slice);     /* its place in trace->slices */
uint32_t mini_mark_id(const struct mini *m, int mark); /* its place in trace->marks */
uint32_t mini_text(struct mini *m, const char *text);  /* its string id */

/* Asking: asserts success. args: name, value, name, value, …, NULL. The table is the caller's (tg__table_free). */
struct tg_table *mini_ask(struct tg__columns *t, const char *question, ...);
/* The one row for which column `key` has the text `value`; asserts that there is exactly one. */
/* Asks with memory for ever more allocations until there is enough, and how often it failed: each time with
 * TG_MEMORY, and no table. */
long mini_starve(struct tg__columns *t, const char *question, const struct tg_arg *args, size_t count);
size_t mini_row(const struct tg_table *t, const char *key, const char *value);
int64_t mini_int(const struct tg_table *t, size_t row, const char *column);
double mini_real(const struct tg_table *t, size_t row, const char *column);
const char *mini_cell(const struct tg_table *t, size_t row,
                      const char *column); /* text; NULL = unknown; valid until the 8th next call */

#endif
