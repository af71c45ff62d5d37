/* Tests of comm_names.c: what the layers of a collective are called, and how large it is, one line a case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/ranks/comm_names.h"

static struct tg__str str(const char *s) { return (struct tg__str){s, (uint32_t)strlen(s)}; }

static void assert_kind(const char *name, const char *want, const char *want_peers) {
  char peers[24], got[32];
  const struct tg__str kind = tg__comm_kind(str(name), peers);
  memcpy(got, kind.ptr, kind.len);
  got[kind.len] = 0;
  assert_string_equal(got, want);
  assert_string_equal(peers, want_peers);
}

static void kinds(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"all_reduce", "nccl:all_reduce"},
      {"all_reduce", "c10d::allreduce_"},
      {"all_reduce", "allreduce_coalesced"},
      {"all_reduce", "_c10d_functional::all_reduce"},
      {"all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
      {"all_reduce", "cross_device_reduce_1stage"},
      {"all_gather", "nccl:_all_gather_base"},
      {"all_gather", "c10d::_allgather_base_"},
      {"all_gather", "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)"},
      {"reduce_scatter", "_reduce_scatter_base"},
      {"reduce_scatter", "c10d::reduce_scatter_tensor_coalesced_"},
      {"all_to_all", "c10d::alltoall_base_"},
      {"all_to_all", "nccl:all_to_allv"},
      {"broadcast", "gloo:broadcast"},
      {"reduce", "nccl:reduce"},
      {"barrier", "monitoredBarrier"},
      {"coalesced", "nccl:coalesced"},
      {"", "wait"},
      {"", "_c10d_functional::wait_tensor"},
      {"", "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_kind(cases[i][1], cases[i][0], "");
}

static void both_ends_of_a_transfer_agree(void **state) {
  (void)state;
  assert_kind("nccl:send 0->1", "send_recv", " 0->1");
  assert_kind("nccl:recv 1<-0", "send_recv", " 0->1");
  assert_kind("nccl:recv 12<-3", "send_recv", " 3->12");
  assert_kind("ncclDevKernel_SendRecv(x)", "send_recv", "");
  assert_kind("nccl:send", "send_recv", "");
}

static void roles(void **state) {
  (void)state;
  assert_int_equal(tg__comm_role(str("c10d::allreduce_"), false), TG__COMM_REQUEST);
  assert_int_equal(tg__comm_role(str("record_param_comms"), false), TG__COMM_PARAMS);
  assert_int_equal(tg__comm_role(str("gloo:all_reduce"), false), TG__COMM_SPAN);
  assert_int_equal(tg__comm_role(str("nccl:"), false), TG__COMM_NONE);
  assert_int_equal(tg__comm_role(str("c10d::barrier"), false), TG__COMM_REQUEST);
  assert_int_equal(tg__comm_role(str("_c10d_functional::wait_tensor"), false), TG__COMM_NONE);
  assert_int_equal(tg__comm_role(str("aten::mm"), false), TG__COMM_NONE);
  assert_int_equal(tg__comm_role(str("ncclDevKernel_AllReduce"), true), TG__COMM_KERNEL);
  assert_int_equal(tg__comm_role(str("gemm"), true), TG__COMM_NONE);
}

static void those_that_end_together(void **state) {
  (void)state;
  assert_true(tg__comm_ends_together(str("all_reduce")));
  assert_true(tg__comm_ends_together(str("barrier")));
  assert_false(tg__comm_ends_together(str("broadcast"))); /* the root may leave early */
  assert_false(tg__comm_ends_together(str("send_recv")));
  assert_false(tg__comm_ends_together(str("")));
}

static void sizes(void **state) {
  (void)state;
  static const struct {
    const char *dims, *types;
    int64_t bytes;
  } cases[] = {
      {"[[3978]]", "[\"float\"]", 15912},
      {"[[2, 3], [4]]", "[\"double\", \"c10::BFloat16\"]", 56},
      {"[[[2, 3], [4]], []]", "[\"long int\", \"Scalar\"]", 80}, /* a list of tensors */
      {"[[]]", "[\"float\"]", 4},                                /* no dimensions: one element */
      {"[[0, 5]]", "[\"float\"]", 0},
      {"[[5], [6]]", "[\"TensorList\", \"Scalar\"]", -1},
      {"[]", "[]", -1},
      {"", "", -1},
      {"[[5", "[\"float\"]", 0}, /* cut: nothing is known of it but its type */
      {"[[99999999999, 99999999999]]", "[\"float\"]", 0},
      {"[[4]]", "[\"float\", \"float\"]", 16},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(tg__tensor_bytes(str(cases[i].dims), str(cases[i].types)), cases[i].bytes);
  assert_int_equal(tg__dtype_bytes(str("Float")), 4);
  assert_int_equal(tg__dtype_bytes(str("c10::Half")), 2);
  assert_int_equal(tg__dtype_bytes(str("Float8_e4m3fn")), 1);
  assert_int_equal(tg__dtype_bytes(str("signed char")), 1);
  assert_int_equal(tg__dtype_bytes(str("quaternion")), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds), cmocka_unit_test(both_ends_of_a_transfer_agree),
      cmocka_unit_test(roles), cmocka_unit_test(those_that_end_together),
      cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
