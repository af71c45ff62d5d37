"""The inputs of the TensorBoard profiler plugin's own unit tests, and the values it asserts for them. Where a test of
the plugin asserts one of its defects, the right value stands here and the comment says so. Times are in microseconds,
as the plugin counts."""

import json
import math
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "conformance"))
from engine import Refused

PARTS = (
    "kernel_ns",
    "memcpy_ns",
    "memset_ns",
    "communication_ns",
    "runtime_ns",
    "dataloader_ns",
    "cpu_exec_ns",
    "other_ns",
    "total_ns",
)
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


class Case:
    """A trace in Kineto's words: op, note, step, call and work add events; ask() answers a question about them."""

    def __init__(self, engine, folder):
        self.engine, self.path, self.events, self.correlation = engine, folder / "trace.json", [], 5000

    def slice(self, cat, name, ts, dur, tid, **args):
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def op(self, name, ts, dur, external=None, tid=123, cat="cpu_op", **args):
        self.slice(cat, name, ts, dur, tid, **args, **({} if external is None else {"External id": external}))

    def step(self, number, ts, dur, external=None):
        self.op(f"ProfilerStep#{number}", ts, dur, external, cat="user_annotation")

    def work(self, ts, dur, name="kernel", cat="kernel", correlation=None, external=None, device=0, **args):
        if external is not None:
            args["External id"] = external
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": device,
                "tid": 7,
                "ts": ts,
                "dur": dur,
                "args": {"device": device, "stream": 7, "correlation": correlation or 1, **args},
            }
        )

    def call(self, ts, dur, external, *work, tid=123, correlation=None):
        """A runtime call and what it launches: (start, length) or (start, length, more)."""
        self.correlation += 1
        number = correlation or self.correlation
        self.slice("cuda_runtime", "cudaLaunchKernel", ts, dur, tid, correlation=number, **{"External id": external})
        for start, length, *more in work:
            self.work(start, length, correlation=number, external=external, **(more[0] if more else {}))

    def memory(self, device, changes):
        for ts, size in changes:
            self.events.append(
                {
                    "ph": "i",
                    "s": "t",
                    "cat": "cpu_instant_event",
                    "name": "[memory]",
                    "pid": 1,
                    "tid": 123,
                    "ts": ts,
                    "args": {
                        "Device Type": int(device != "CPU"),
                        "Device Id": 0 if device != "CPU" else -1,
                        "Bytes": size,
                    },
                }
            )

    def ask(self, question, **args):
        self.path.write_text(json.dumps({"traceEvents": self.events}))
        return self.engine.ask(self.path, question, **args)

    def costs(self, **args):
        return [[row[part] / 1000 for part in PARTS] for row in self.ask("steps", **args)]

    def ops(self):
        """{name: (calls, host total, host self, device total, device self)}"""
        return {
            r["name"]: (r["calls"], *(r[c] / 1000 for c in ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns")))
            for r in self.ask("ops")
        }


@pytest.fixture
def case(engine, tmp_path):
    return Case(engine, tmp_path)


# ---- trees and links


def test_all_categories(case):
    case.step(1, 50, 400, 1)
    case.op(LOADER, 100, 180, 2, cat="user_annotation")
    case.op("aten::to", 200, 60, 3)
    case.op("aten::nll_loss_backward", 340, 70, 4, tid=456)
    case.call(360, 20, 4, (405, 10, {"cat": "gpu_memcpy"}), tid=456)
    case.call(390, 10, 4, (420, 5, {"cat": "gpu_memset"}), tid=456)
    case.call(405, 5, 4, (430, 15), tid=456)
    assert case.costs() == [[15, 10, 5, 0, 30, 180, 35, 125, 400]]
    assert case.ops() == {"aten::to": (1, 60, 60, 0, 0), "aten::nll_loss_backward": (1, 70, 35, 30, 30)}
    assert {(r["name"], r["group"]) for r in case.ask("ops", by="shape")} == {
        ("aten::to", ""),
        ("aten::nll_loss_backward", ""),
    }
    [kernel] = [r for r in case.ask("kernels", by="op") if r["category"] == "kernel"]
    assert (kernel["group"], kernel["calls"]) == ("aten::nll_loss_backward", 1)
    assert {kernel[c] for c in ("total_ns", "mean_ns", "min_ns", "max_ns")} == {15000}


def test_external_id_goes_before_containment(case):
    case.op("aten::mat_mul", 100, 100, 2)
    case.op("aten::mm", 120, 70, 4)
    for at, external, length in ((120, 4, 5), (120, 2, 6), (190, 4, 7), (190, 2, 8)):
        case.call(at, 0, external, (130, length))
    got = case.ops()
    assert got["aten::mat_mul"][3:] == (26, 14)
    assert got["aten::mm"][3:] == (12, 12)


@pytest.mark.parametrize("inner", [100, 130])
def test_operator_relation(case, inner):
    case.op("aten::mat_mul", 100, 100, 2)
    case.op("aten::mm", inner, 70, 4)
    got = case.ops()
    assert got["aten::mat_mul"][2] == 30 and got["aten::mm"][2] == 70


def test_remove_dup_nodes(case):
    case.op("aten::mm", 100, 100, 2)
    case.op("aten::mm", 110, 80, 3)
    case.op("aten::mm", 120, 60, 4)
    case.call(130, 20, 4, (220, 8))
    assert case.ops() == {"aten::mm": (1, 100, 80, 8, 8)}


def test_top_level_runtime(case):
    case.op("aten::mm", 100, 100, 2)
    case.call(130, 20, 335, (220, 8), tid=456, correlation=335)
    assert case.ops()["aten::mm"][3:] == (0, 0)
    assert [r["calls"] for r in case.ask("kernels")] == [1]


def test_runtime_called_by_profilerstep(case):
    case.step(1, 100, 300, 2)
    case.call(130, 20, 2, (220, 8))
    assert case.costs() == [[8, 0, 0, 0, 20, 0, 0, 272, 300]]
    with pytest.raises(Refused, match="no operators"):
        case.ops()
    assert [(r["calls"], r["group"]) for r in case.ask("kernels", by="op")] == [(1, "")]


def test_runtime_launches_several_kernels(case):
    case.op("Broadcast", 100, 300, 2)
    case.call(130, 20, 2, (160, 120318), (170, 132800))
    assert case.ops()["Broadcast"][3:] == (253118, 253118)
    assert [r["calls"] for r in case.ask("kernels", by="op")] == [2]


def test_self_time(case):
    case.op("aten::mat_mul", 100, 100, 2)
    case.op("aten::mm", 120, 40, 4)
    case.call(150, 10, 4, (155, 20))
    case.call(170, 25, 2, (210, 16))
    assert case.ops() == {"aten::mat_mul": (1, 100, 35, 36, 16), "aten::mm": (1, 40, 30, 20, 20)}


def test_datapipe_is_no_operator(case):
    case.step(1, 100, 100)
    case.op("enumerate(DataPipe)#ShufflerIterDataPipe", 100, 23, cat="user_annotation")
    case.op("aten::mm", 150, 10)
    assert case.costs()[0][5] == 23
    assert list(case.ops()) == ["aten::mm"]


# ---- steps


def test_no_profilerstep(case):
    case.op("aten::to", 100, 60, 3)
    case.op("aten::nll_loss_backward", 300, 70, 4, tid=456)
    case.call(310, 20, 4, (320, 100), tid=456)
    assert case.costs(by="whole") == [[100, 0, 0, 0, 10, 0, 70, 140, 320]]
    assert case.ops()["aten::nll_loss_backward"] == (1, 70, 50, 100, 100)


def two_steps(case):
    case.step(1, 100, 200, 1)
    case.op("aten::to", 200, 60, 2)
    case.step(2, 350, 150, 3)
    case.op("aten::mm", 360, 50, 4)
    case.call(250, 5, 2, (280, 40, {"cat": "gpu_memcpy"}))
    case.call(400, 5, 4, (410, 200))


def test_multiple_profilersteps_no_overlap(case):
    two_steps(case)
    assert case.costs() == [[0, 40, 0, 0, 5, 0, 55, 120, 220], [200, 0, 0, 0, 5, 0, 45, 10, 260]]
    [mean] = [r for r in case.ask("steps", by="summary") if r["step"] == "mean"]
    assert mean["total_ns"] == 240_000
    got = case.ops()
    assert got["aten::to"] == (1, 60, 55, 40, 40) and got["aten::mm"] == (1, 50, 45, 200, 200)


def test_multiple_profilersteps_with_overlap(case):
    case.step(1, 100, 200, 1)
    case.op("aten::to", 200, 60, 2)
    case.step(2, 350, 150, 3)
    case.op("aten::mm", 360, 50, 4)
    case.work(150, 90, correlation=123)
    case.call(250, 5, 2, (280, 100, {"cat": "gpu_memcpy"}))
    case.call(400, 5, 4, (410, 200))
    assert case.costs() == [[0, 100, 0, 0, 5, 0, 15, 20, 140], [200, 0, 0, 0, 5, 0, 25, 0, 230]]


def test_last_steps_no_kernel(case):
    case.step(1, 100, 200, 1)
    case.step(2, 300, 100, 3)
    case.step(3, 400, 50, 4)
    case.op("aten::to", 120, 10, 2)
    case.work(90, 20, correlation=123)
    case.call(125, 5, 2, (150, 180))
    assert [c[-1] for c in case.costs()] == [220]


def test_pure_cpu(case):
    case.step(1, 100, 200)
    case.step(2, 300, 100)
    case.op("aten::to", 120, 10)
    case.op("aten::mm", 350, 40)
    assert case.costs() == [[0, 0, 0, 0, 0, 0, 10, 190, 200], [0, 0, 0, 0, 0, 0, 40, 60, 100]]


def test_covered_step_still_adds_up(case):
    """The plugin starts again with the whole step when a kernel leaves nothing of it (Runtime 5, CPU 45, Other 150
    more)."""
    case.step(1, 100, 200, 1)
    case.op("aten::mm", 110, 50, 2)
    case.call(120, 5, 2)
    case.work(100, 200, correlation=77)
    assert case.costs() == [[200, 0, 0, 0, 0, 0, 0, 0, 200]]


def test_device_copies_of_steps_are_no_steps(case):
    """The plugin counts gpu_user_annotation copies of ProfilerStep# as steps of their own."""
    for number in (1, 2, 3):
        case.step(number, 100 * number, 100)
        case.op("aten::mm", 100 * number + 10, 20)
        case.work(100 * number + 20, 60, f"ProfilerStep#{number}", "gpu_user_annotation")
    assert [c[-1] for c in case.costs()] == [100, 100, 100]


# ---- devices


def gpu_case(case):
    case.op("aten::mat_mul", 100, 100, 2)
    case.op("aten::mm", 120, 70, 4)
    for name, ts, dur, blocks, occupancy, external in (
        ("A", 130, 10, 0.5, 0.6, 4),
        ("B", 135, 15, 0.6, 0.1, 2),
        ("B", 150, 0, 0.3, 0.2, 2),
        ("A", 145, 25, 0.3, 1.0, 4),
        ("A", 200, 20, 10.5, 0.3, 2),
    ):
        case.call(
            ts - 5,
            1,
            external,
            (ts, dur, {"name": name, "device": 1, "blocks per SM": blocks, "est. achieved occupancy %": occupancy}),
        )
    case.step(1, 100, 120, 9)  # the plugin's test sets its window by hand: 100 to 220


def test_gpu_utilization(case):
    gpu_case(case)
    [row] = case.ask("device_metrics")
    assert row["device"] == 1 and row["dur_ns"] == 120_000
    assert row["utilization_pct"] == pytest.approx(100 * 0.5)
    assert row["sm_efficiency_pct"] == pytest.approx(100 * 41 / 120)
    assert row["occupancy_pct"] == pytest.approx(38.5 / 70)
    curve = case.ask("device_metrics", by="time")
    assert [r["start_ns"] for r in curve] == [10_000 * k for k in range(10, 22)]
    assert [r["utilization_pct"] / 100 for r in curve] == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1]
    # 130-135 .5, to 140 1, to 145 .6, to 150 .9, to 170 .3, 170-200 nothing (the plugin leaves a float residue there),
    # 200-220 1
    assert [r["sm_efficiency_pct"] for r in curve] == pytest.approx(
        [0, 0, 0, 75, 75, 30, 30, 0, 0, 0, 100, 100], abs=1e-9
    )
    groups = {(r["group"], r["name"]): (r["blocks_per_sm"], r["occupancy_pct"]) for r in case.ask("kernels", by="op")}
    assert groups == {
        ("aten::mat_mul", "B"): (pytest.approx(0.6), pytest.approx(0.1)),
        ("aten::mm", "A"): (pytest.approx(12.5 / 35), pytest.approx(31 / 35)),
        ("aten::mat_mul", "A"): (pytest.approx(10.5), pytest.approx(0.3)),
    }
    names = {r["name"]: (r["blocks_per_sm"], r["occupancy_pct"]) for r in case.ask("kernels")}
    assert names == {
        "B": (pytest.approx(0.6), pytest.approx(0.1)),
        "A": (pytest.approx(222.5 / 55), pytest.approx(37 / 55)),
    }


def test_gpu_utilization_kernel_out_of_step(case):
    case.step(2, 100, 100, 1)
    for name, ts, length, external, start, dur, blocks, occupancy in (
        ("aten::mat_mul", 10, 10, 2, 60, 20, 0.5, 0.6),
        ("aten::mm", 220, 20, 4, 240, 25, 10.5, 0.3),
    ):
        case.op(name, ts, length, external)
        case.call(
            ts + 1,
            1,
            external,
            (start, dur, {"name": "A", "blocks per SM": blocks, "est. achieved occupancy %": occupancy}),
        )
    [row] = case.ask("device_metrics")
    assert (row["utilization_pct"], row["sm_efficiency_pct"], row["occupancy_pct"], row["kernels"]) == (
        0,
        None,
        None,
        2,
    )
    [kernel] = case.ask("kernels")
    assert (kernel["blocks_per_sm"], kernel["occupancy_pct"]) == (pytest.approx(272.5 / 45), pytest.approx(19.5 / 45))


@pytest.mark.parametrize("rules", ["exact", "plugin"])
def test_tensor_core(case, rules):
    case.op("aten::conv2d", 200, 100, 3)
    case.op("op_no_tc", 205, 10, 4)
    case.op("aten::cudnn_convolution", 215, 10, 5)
    case.call(206, 1, 4, (300, 10, {"name": "kernel_no_tc"}))
    case.call(
        216, 1, 5, (310, 15, {"name": "volta_fp16_s884cudnn_fp16_256x128_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1"})
    )
    ops = {
        r["name"]: (r["tensor_eligible"], r["self_tensor_pct"] or 0, r["tensor_pct"])
        for r in case.ask("ops", tensor=rules)
    }
    assert ops == {
        "aten::conv2d": (True, 0, 60),
        "op_no_tc": (False, 0, 0),
        "aten::cudnn_convolution": (True, 100, 100),
    }
    kernels = {r["group"]: (r["tensor_cores"], r["op_eligible"]) for r in case.ask("kernels", by="op", tensor=rules)}
    assert kernels == {"op_no_tc": (False, False), "aten::cudnn_convolution": (True, True)}
    [device] = case.ask("device_metrics", tensor=rules)
    assert device["tensor_core_pct"] == 60


def test_hopper_kernels_use_tensor_cores(case):
    """bf16 products on Hopper and Blackwell, which the plugin's list does not know."""
    for k, name in enumerate(
        (
            "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNT",
            "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc",
            "void cutlass::device_kernel<flash::FlashAttnFwdSm90<…>>",
            "cutlass3x_sm100_tensorop_s256x256x16gemm_bf16",
        )
    ):
        case.op("aten::mm", 100 + 10 * k, 5, k + 1)
        case.call(101 + 10 * k, 1, k + 1, (200 + 10 * k, 10, {"name": name}))
    assert [r["tensor_cores"] for r in case.ask("kernels")] == [True] * 4
    assert [r["tensor_cores"] for r in case.ask("kernels", tensor="plugin")].count(True) == 0
    assert case.ask("ops")[0]["tensor_pct"] == 100


def test_group_by_kernel_columns(case):
    for k, op in enumerate(("op1", "op2")):
        case.op(op, 100 * k, 90, k + 1)
    for op, z, dur in ((1, 16, 15), (1, 16, 10), (1, 64, 13), (2, 16, 17)):
        case.call(
            100 * op - 50,
            1,
            op,
            (
                1000,
                dur,
                {
                    "name": "kernel1",
                    "grid": [16, 1, 1],
                    "block": [16, 16, z],
                    "registers per thread": 18,
                    "shared memory": 0,
                },
            ),
        )
    rows = case.ask("kernels", by="config")
    got = {
        (r["group"].split(" ")[1], r["group"].split("block ")[1].split(" reg")[0]): (
            r["calls"],
            r["total_ns"],
            r["mean_ns"],
            r["min_ns"],
            r["max_ns"],
        )
        for r in rows
    }
    assert got == {
        ("op1", "[16, 16, 16]"): (2, 25000, 12500, 10000, 15000),
        ("op1", "[16, 16, 64]"): (1, 13000, 13000, 13000, 13000),
        ("op2", "[16, 16, 16]"): (1, 17000, 17000, 17000, 17000),
    }


def test_group_by_kernel_columns_invalid_input(case):
    whole = {"grid": [16, 1, 1], "block": [16, 16, 16], "registers per thread": 18, "shared memory": 0}
    case.op("op1", 0, 90, 1)
    for dur, missing in enumerate((["grid"], ["block"], ["registers per thread"], ["shared memory"], list(whole)), 1):
        case.call(50, 1, 1, (1000, dur, {"name": "kernel1", **{k: v for k, v in whole.items() if k not in missing}}))
    rows = sorted(case.ask("kernels", by="config"), key=lambda r: r["total_ns"])
    assert [(r["calls"], r["total_ns"], r["group"].count("?")) for r in rows] == [
        (1, 1000, 1),
        (1, 2000, 1),
        (1, 3000, 1),
        (1, 4000, 1),
        (1, 5000, 4),
    ]


def test_what_kernels_do_not_state_is_unknown(case):
    """Where others of its name state it, it counts as 0 in the mean, as in the plugin, which shows 0 for B. A 0 with
    warps enough for more, or without a number of them, could not be estimated; one of few warps is rounded."""
    case.op("aten::add", 0, 90, 1)
    for name, dur, more in (
        ("A", 10, {"blocks per SM": 10, "est. achieved occupancy %": 40}),
        ("A", 10, {}),
        ("B", 5, {}),
        ("C", 5, {"blocks per SM": 0, "est. achieved occupancy %": 0}),
        ("D", 5, {"blocks per SM": 12, "warps per SM": 48, "est. achieved occupancy %": 0}),
        ("E", 5, {"blocks per SM": 12, "warps per SM": 48, "est. achieved occupancy %": 0}),
        ("E", 15, {"blocks per SM": 12, "warps per SM": 48, "est. achieved occupancy %": 60}),
        ("F", 5, {"blocks per SM": 0.01, "warps per SM": 0.03, "est. achieved occupancy %": 0}),
    ):
        case.call(50, 1, 1, (1000, dur, {"name": name, **more}))
    got = {r["name"]: (r["blocks_per_sm"], r["occupancy_pct"], r["low_occupancy"]) for r in case.ask("kernels")}
    assert got == {
        "A": (5, 20, False),
        "B": (None, None, None),
        "C": (0, None, None),
        "D": (12, None, None),
        "E": (12, 60, False),
        "F": (0.01, 0, True),
    }


@pytest.mark.parametrize("rules, share, eligible", [("exact", 80, True), ("plugin", 50, False)])
def test_tensor_cores_beyond_known_operators(case, rules, share, eligible):
    """30 + 10 us of 50 use tensor cores. The plugin leaves out the 30 that no operator launched, and has an operator's
    kernel use them while its operator is not eligible."""
    case.op("mine::product", 0, 90, 1)
    case.call(50, 1, 1, (100, 10, {"name": "ampere_h884gemm"}), (110, 10, {"name": "plain"}))
    case.work(200, 30, "turing_h1688gemm", correlation=99)
    [device] = case.ask("device_metrics", tensor=rules)
    assert device["tensor_core_pct"] == share
    rows = {r["name"]: (r["tensor_cores"], r["op_eligible"]) for r in case.ask("kernels", by="op", tensor=rules)}
    assert rows == {"ampere_h884gemm": (True, eligible), "plain": (False, False), "turing_h1688gemm": (True, None)}


# ---- memory


def test_memory_view(case):
    case.step(1, 50, 400)
    case.step(2, 500, 500)
    for name, ts, dur in (
        ("aten::to", 10, 10),
        ("aten::to", 200, 60),
        ("aten::nll_loss_backward", 340, 70),
        ("aten::to", 510, 150),
        ("aten::copy_", 520, 100),
        ("aten::liner", 700, 100),
        ("aten::t", 705, 40),
        ("aten::transpose", 710, 30),
        ("aten::tranas_stride", 720, 10),
        ("aten::addmm", 750, 40),
        ("aten::to", 900, 100),
    ):
        case.op(name, ts, dur)
    case.op(LOADER, 100, 180, cat="user_annotation")
    case.memory("CPU", [(90, 4), (150, 4), (200, 4), (450, 1000000), (729, 50), (746, 100), (749, -100)])
    case.memory(
        "GPU0",
        [
            (210, 4),
            (265, 4),
            (300, 4),
            (350, 10),
            (360, -10),
            (515, 100),
            (520, 100),
            (600, -100),
            (690, 100),
            (701, 100),
            (796, -100),
            (708, 100),
            (742, -100),
            (715, 50),
            (735, -50),
            (725, 50),
            (728, -50),
            (747, 20),
            (760, 30),
            (780, -30),
            (795, 10),
            (799, -10),
        ],
    )
    got = {}
    for r in case.ask("memory_ops"):
        figures = [
            r[c]
            for c in (
                "self_net_bytes",
                "self_alloc_bytes",
                "self_allocations",
                "net_bytes",
                "alloc_bytes",
                "allocations",
                "calls",
            )
        ]
        got.setdefault(r["device"], {})[r["op"].removeprefix("aten::")] = figures
    assert got == {
        "GPU0": {
            "to": [104, 104, 2, 104, 204, 3, 4],
            "nll_loss_backward": [0, 10, 1, 0, 10, 1, 1],
            "copy_": [0, 100, 1, 0, 100, 1, 1],
            "addmm": [0, 30, 1, 0, 30, 1, 1],
            "tranas_stride": [0, 50, 1, 0, 50, 1, 1],
            "transpose": [0, 50, 1, 0, 100, 2, 1],
            "t": [0, 100, 1, 0, 200, 3, 1],
            "liner": [20, 130, 3, 20, 360, 7, 1],
        },
        "CPU": {
            "to": [4, 4, 1, 4, 4, 1, 4],
            "liner": [0, 100, 1, 50, 150, 2, 1],
            "tranas_stride": [50, 50, 1, 50, 50, 1, 1],
            "transpose": [0, 0, 0, 50, 50, 1, 1],
            "t": [0, 0, 0, 50, 50, 1, 1],
        },
    }


def test_memory_curve(case):
    """As many points as events, each with the totals the allocator reported."""
    totals = [(1 + 10 * k, 100 * (k % 3 + 1), 1000) for k in range(12)]
    case.op("aten::mm", 1, 200)
    for ts, allocated, reserved in totals:
        case.memory("CPU", [(ts, 1)])
        case.events[-1]["args"].update({"Total Allocated": allocated, "Total Reserved": reserved, "Addr": 4096 + ts})
    rows = case.ask("memory", by="time")
    assert [(r["ts_ns"] / 1000, r["peak_allocated_bytes"], r["peak_reserved_bytes"]) for r in rows] == totals
    assert case.ask("memory")[0]["peak_allocated_bytes"] == 300


def test_memory_of_any_device(case):
    """Kinds of devices other than CUDA have no name in the plugin, and its curve fails."""
    case.op("aten::empty", 0, 100)
    case.memory("CPU", [(10, 64)])
    for ts, kind, index in ((20, 12, 1), (30, 20, 0)):
        case.memory("GPU0", [(ts, 128)])
        case.events[-1]["args"].update({"Device Type": kind, "Device Id": index})
    assert {r["device"]: r["alloc_bytes"] for r in case.ask("memory")} == {"CPU": 64, "XPU1": 128, "type20:0": 128}
    assert [r["device"] for r in case.ask("memory_ops", device="XPU1")] == ["XPU1"]


# ---- modules


def frame(case, number, parent, name, ts, dur, module=None):
    more = {} if module is None else {"Python module id": module}
    case.slice("python_function", name, ts, dur, 123, **{"Python id": number, "Python parent id": parent, **more})


def test_build_module_hierarchy(case):
    frame(case, 1, None, "train.py(1): <module>", 0, 1000)
    for k in range(3):
        frame(case, 10 * k + 2, 1, "nn.Module: MyModule", 100 * k, 80, 0)
        frame(case, 10 * k + 3, 10 * k + 2, "nn.Module: Linear", 100 * k + 10, 50, 1)
        case.op("aten::addmm", 100 * k + 20, 30)
    frame(case, 50, 1, "nn.Module: Conv2", 400, 100, 100)
    rows = [r for r in case.ask("modules") if r["depth"] is not None]
    assert [(r["name"], r["depth"], r["calls"], r["ops"]) for r in rows] == [
        ("MyModule", 0, 3, 0),
        ("Linear", 1, 3, 3),
        ("Conv2", 0, 1, 0),
    ]
    assert [(r["cpu_ns"] / 1000, r["self_cpu_ns"] / 1000, r["python_ns"] / 1000) for r in rows] == [
        (240, 90, 90),
        (150, 150, 60),
        (100, 100, 100),
    ]


def test_two_forward_operators_below_one_backward_node(case):
    """The plugin raises KeyError here, and the file fails."""
    frame(case, 1, None, "nn.Module: Net_0", 0, 100, 0)
    frame(case, 2, 1, "nn.Module: Linear_0", 10, 40, 1)
    case.op("aten::mm", 20, 10, 1, **{"Sequence number": 1})
    case.op("aten::add", 32, 10, 2, **{"Sequence number": 2})
    case.op("autograd::engine::evaluate_function: Both", 200, 50, 3)
    for number, (name, ts) in enumerate((("AddBackward0", 205), ("MmBackward0", 225)), 1):
        case.op(name, ts, 15, **{"Sequence number": 3 - number, "Fwd thread id": 1})
        for ph, at in (("s", (20, 32)[2 - number]), ("f", ts)):
            case.events.append(
                {
                    "ph": ph,
                    "id": number,
                    "pid": 1,
                    "tid": 123,
                    "ts": at,
                    "cat": "fwdbwd",
                    "name": "fwdbwd",
                    **({"bp": "e"} if ph == "f" else {}),
                }
            )
    case.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 260, 10)
    rows = {r["name"]: r for r in case.ask("modules")}
    assert rows["Linear_0"]["backward_cpu_ns"] == 60_000 and rows["Linear_0"]["backward_ops"] == 2
    assert rows["Net_0"]["backward_cpu_ns"] == 60_000 and rows["Net_0"]["backward_self_cpu_ns"] == 0
    assert rows["(outside of modules)"]["cpu_ns"] == 0


# ---- several workers


def distributed(case):
    """Computation, overlap, communication without it, neither: as the plugin's distributed view shows them."""
    [r] = case.ask("steps", by="whole")
    both = r["overlap_ns"]
    return [v / 1000 for v in (r["computation_ns"] - both, both, r["all_communication_ns"] - both, r["neither_ns"])]


@pytest.mark.parametrize(
    "broadcast, k1, add, k2, reduce, k3, costs, overlap",
    [
        (
            (0, 75),
            (16, 16),
            (100, 20),
            (130, 161),
            (160, 75),
            (162, 1556),
            [105, 0, 0, 75, 0, 0, 20, 35, 235],
            [30, 75, 75, 55],
        ),
        ((0, 20), (8, 31), (25, 20), (30, 161), (160, 75), (562, 1058), None, [121, 40, 74, 0]),
    ],
)
def test_distributed_nccl(case, broadcast, k1, add, k2, reduce, k3, costs, overlap):
    case.op("nccl:broadcast", *broadcast, 146)
    case.work(*k1, "ncclKernel_Broadcast_RING_LL_Sum_int8_t", external=146)
    case.op("aten::add_", *add, 150)
    case.work(*k2, "add", external=150)
    case.op("nccl:all_reduce", *reduce, 2513, tid=456)
    case.work(*k3, "ncclKernel_AllReduce_RING_LL_Sum_float", external=2513)
    [got] = case.costs(by="whole")
    assert (got == costs) if costs else got[3] == 74
    assert distributed(case) == overlap


GLOO = [
    ([(16, 38), (25, 36), (66, 18)], [(110, 18), (120, 36)], (0, 20), (30, 101)),
    ([(20, 28), (28, 30), (77, 6)], [(88, 38), (130, 16)], (0, 30), (70, 70)),
]


@pytest.mark.parametrize(
    "worker, costs, overlap",
    [
        (0, [101, 0, 0, 39, 0, 0, 16, 0, 156], [31, 70, 39, 16]),
        (1, [70, 0, 0, 44, 0, 0, 20, 12, 146], [16, 54, 44, 32]),
    ],
)
def test_distributed_gloo_gpu(case, worker, costs, overlap):
    gloo(case, worker, lambda span: case.work(*span, "add", external=9))
    assert case.costs(by="whole") == [costs]
    assert distributed(case) == overlap


@pytest.mark.parametrize(
    "worker, costs, overlap",
    [(0, [0, 0, 0, 109, 0, 0, 47, 0, 156], [47, 74, 35, 0]), (1, [0, 0, 0, 98, 0, 0, 36, 12, 146], [36, 64, 34, 12])],
)
def test_distributed_gloo_cpu(case, worker, costs, overlap):
    gloo(case, worker, lambda span: case.op("aten::mul", *span, 10, tid=789))
    assert case.costs(by="whole") == [costs]
    assert distributed(case) == overlap


def gloo(case, worker, compute):
    broadcasts, reduces, add, span = GLOO[worker]
    for number, (ts, dur) in enumerate(broadcasts):
        case.op("gloo:broadcast", ts, dur, 100 + number, tid=200 + number)
    for number, (ts, dur) in enumerate(reduces):
        case.op("gloo:all_reduce", ts, dur, 110 + number, tid=300 + number)
    case.op("aten::add_", *add, 9)
    compute(span)


def test_user_annotation_is_communication(case):
    case.step(1, 0, 100)
    case.op("nccl:all_reduce", 10, 20, 1, cat="user_annotation")
    assert case.costs()[0][3] == 20


def test_values_are_finite(case):
    gpu_case(case)
    for row in case.ask("device_metrics", by="time", bucket_us=7):
        assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))
    assert sum(r["busy_ns"] for r in case.ask("device_metrics", by="time", bucket_us=7)) == 60_000


# ---- where the plugin is wrong on real traces: the defects that tests/conformance/defects.json names


def test_call_without_external_id(case):
    """The plugin gives it to the first node without an id: the frame of the first module."""
    frame(case, 1, None, "nn.Module: Net_0", 0, 100, 0)
    case.op("aten::mm", 200, 50, 1)
    case.slice("cuda_runtime", "cudaLaunchKernel", 210, 10, 123, correlation=900)
    case.work(300, 25, correlation=900)
    rows = {r["name"]: r for r in case.ask("modules")}
    assert (rows["Net_0"]["python_ns"], rows["Net_0"]["device_ns"]) == (100_000, 0)
    assert rows["(outside of modules)"]["device_ns"] == 25_000


def test_external_id_that_is_the_correlation(case):
    frame(case, 1, None, "nn.Module: Net_0", 0, 100, 0)
    case.op("aten::mm", 10, 50, 1)
    case.call(20, 5, 900, (200, 25), correlation=900)  # in the operator
    case.call(70, 5, 901, (230, 7), correlation=901)  # only in the module, as Triton launches
    assert case.ops()["aten::mm"][3] == 25
    assert [r["device_ns"] for r in case.ask("modules") if r["name"] == "Net_0"] == [32_000]


def test_times_are_exact(case):
    begin = 1420179485153  # microseconds; doubles of this size are 0.24 ns apart
    for k in range(1, 1000, 2):
        case.op("aten::mm", f"{begin + k}.001", "0.333", k)
    text = json.dumps({"traceEvents": case.events})
    case.path.write_text(text.replace('"ts": "', '"ts": ').replace('.001"', ".001").replace('"0.333"', "0.333"))
    [row] = case.engine.ask(case.path, "ops")
    assert row["cpu_ns"] == 500 * 333


@pytest.mark.parametrize(
    "kernel",
    ["Cijk_Ailk_Bljk_BBS_BH_MT32x32x64_MI16x16x16x1_SN_1LDSB0", "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32"],
)
def test_no_advice_where_matrix_instructions_are_used(case, kernel):
    case.step(1, 0, 1000)
    case.op("aten::mm", 10, 50, 1)
    case.call(20, 5, 1, (100, 800, {"name": kernel}))
    assert "mixed-precision-unused" not in {r["cause"] for r in case.ask("findings")}
    assert [r["tensor_cores"] for r in case.ask("kernels")] == [True]
    assert [r["tensor_cores"] for r in case.ask("kernels", tensor="plugin")] == [False]


def test_collective_kernels_by_name(case):
    case.step(1, 0, 1000)
    case.op("record_param_comms", 10, 50, 1)
    case.call(20, 5, 1, (100, 300, {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}))
    assert case.costs()[0][3] == 300
    [finding] = [r for r in case.ask("findings") if r["cause"] == "communication-not-overlapped"]
    assert (finding["share_pct"], finding["threshold_pct"]) == (30, 10)


def test_no_nccl_without_device_work(case):
    case.step(1, 0, 100)
    case.op("DistributedDataParallel.forward", 10, 80)
    case.path.write_text(
        json.dumps(
            {
                "deviceProperties": [{"id": 0, "name": "A100", "computeMajor": 8, "computeMinor": 0}],
                "traceEvents": case.events,
            }
        )
    )
    assert "slow-collective-backend" not in {r["cause"] for r in case.engine.ask(case.path, "findings")}


def test_calls_without_memory_events_count(case):
    for ts in (0, 100):
        case.op("aten::linear", ts, 50)
        case.op("aten::empty", ts + 10, 20)
    case.memory("CPU", [(15, 64)])
    assert {r["op"]: r["calls"] for r in case.ask("memory_ops")} == {"aten::linear": 2, "aten::empty": 2}


def test_memory_events_of_2021_find_their_thread(case):
    """Operators say "123" there, memory events 123."""
    case.op("aten::empty", 10, 20)
    case.events[-1]["tid"] = "123"
    case.memory("CPU", [(15, 64)])
    assert [(r["op"], r["self_net_bytes"]) for r in case.ask("memory_ops")] == [("aten::empty", 64)]


@pytest.mark.parametrize("rules, eligible", [("exact", True), ("plugin", False)])
def test_eligible_when_any_call_is(case, rules, eligible):
    case.op("step", 0, 50, 1)
    case.op("aten::add", 10, 20, 2)
    case.op("step", 100, 50, 3)
    case.op("aten::mm", 110, 20, 4)
    case.call(112, 1, 4, (200, 10, {"name": "gemm"}))
    assert [r["tensor_eligible"] for r in case.ask("ops", tensor=rules) if r["name"] == "step"] == [eligible]


# ---- the distributed view of two workers: synchronising and transfer, and the table of communication


SIZES = {"broadcast": 53120, "all_reduce": 2049000}
KINDS = {"broadcast": "ncclKernel_Broadcast_RING_LL_Sum_int8_t", "all_reduce": "ncclKernel_AllReduce_RING_LL_Sum_float"}


def two_workers(engine, folder, build):
    """build(case, rank) adds the events of a worker."""
    run = folder / "run"
    run.mkdir()
    for rank in (0, 1):
        case = Case(engine, folder)
        build(case, rank)
        (run / ("rank%d.json" % rank)).write_text(
            json.dumps(
                {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "traceEvents": case.events}
            )
        )
    return run


def communication(engine, run):
    """({worker: [transfer, synchronising]}, {(worker, kind): [calls, size, mean size, time, mean time, transfer, mean
    transfer]})"""
    waits = {
        r["rank"]: [r["transfer_ns"] / 1000, r["wait_ns"] / 1000]
        for r in engine.ask(run, "collectives", by="step", rules="plugin")
        if r["calls"]
    }
    table = {}
    for r in engine.ask(run, "collectives", by="rank", rules="plugin"):
        means = [round(v / r["calls"]) for v in (r["bytes"], r["total_ns"] / 1000, r["transfer_ns"] / 1000)]
        table[r["rank"], r["kind"].partition(":")[2]] = [
            r["calls"],
            r["bytes"],
            means[0],
            r["total_ns"] / 1000,
            means[1],
            r["transfer_ns"] / 1000,
            means[2],
        ]
    return waits, table


def collective(case, name, ts, dur, external, tid):
    kind = name.partition(":")[2]
    case.op(name, ts, dur, external, tid=tid, **{"Input Dims": [[SIZES[kind]]], "Input type": ["float"]})


def test_distributed_nccl_of_two(engine, tmp_path):
    spans = [
        ((0, 75), (16, 16), (100, 20), (130, 161), (162, 1556)),
        ((0, 20), (8, 31), (25, 20), (30, 161), (562, 1058)),
    ]

    def build(case, rank):
        broadcast, first, add, middle, last = spans[rank]
        collective(case, "nccl:broadcast", *broadcast, 146, 123)
        case.work(*first, KINDS["broadcast"], external=146)
        case.op("aten::add_", *add, 150)
        case.work(*middle, "add", external=150)
        collective(case, "nccl:all_reduce", 160, 75, 2513, 456)
        case.work(*last, KINDS["all_reduce"], external=2513)

    waits, table = communication(engine, two_workers(engine, tmp_path, build))
    assert waits == {0: [1169, 464], 1: [1169, 3]}
    assert table == {
        (0, "broadcast"): [1, 212480, 212480, 75, 75, 36, 36],
        (0, "all_reduce"): [1, 8196000, 8196000, 1558, 1558, 1133, 1133],
        (1, "broadcast"): [1, 212480, 212480, 39, 39, 36, 36],
        (1, "all_reduce"): [1, 8196000, 8196000, 1133, 1133, 1133, 1133],
    }


@pytest.mark.parametrize("on_device", [True, False])
def test_distributed_gloo_of_two(engine, tmp_path, on_device):
    def build(case, rank):
        broadcasts, reduces, add, span = GLOO[rank]
        for k, (ts, dur) in enumerate(broadcasts):
            collective(case, "gloo:broadcast", ts, dur, 100 + k, 200 + k)
        for k, (ts, dur) in enumerate(reduces):
            collective(case, "gloo:all_reduce", ts, dur, 110 + k, 300 + k)
        case.op("aten::add_", *add, 9)
        case.work(*span, "add", external=9) if on_device else case.op("aten::mul", *span, 10, tid=789)

    waits, table = communication(engine, two_workers(engine, tmp_path, build))
    assert waits == {0: [75, 34], 1: [78, 20]}
    assert table == {
        (0, "broadcast"): [3, 637440, 212480, 63, 21, 41, 14],
        (0, "all_reduce"): [2, 16392000, 8196000, 46, 23, 34, 17],
        (1, "broadcast"): [3, 637440, 212480, 44, 15, 44, 15],
        (1, "all_reduce"): [2, 16392000, 8196000, 54, 27, 34, 17],
    }


# ---- recommendations


def advice(case, **document):
    case.path.write_text(json.dumps({"traceEvents": case.events, **document}))
    rows = case.engine.ask(case.path, "plugin_advice")
    assert [r["rule"] for r in rows] == [
        "loader",
        "data_parallel",
        "backend",
        "communication",
        "utilization",
        "tensor_cores",
        "device_memory",
    ]
    return {r["rule"]: r["share_pct"] for r in rows if r["is_made"]}


V100 = {"id": 0, "name": "V100", "computeMajor": 7, "computeMinor": 0, "totalGlobalMem": 1000}


@pytest.mark.parametrize("wait, made", [(50, {}), (51, {"loader": 5.1})])
def test_advice_on_the_loader(case, wait, made):
    """Above 5 % of the mean step, of 1000 us."""
    case.step(1, 0, 1000)
    case.op(LOADER, 100, wait)
    assert advice(case) == pytest.approx(made)


@pytest.mark.parametrize("name, made", [("gloo:all_reduce", {"communication": 20.0}), ("my_all_reduce", {})])
def test_advice_on_communication_knows_ten_calls(case, name, made):
    case.step(1, 0, 1000)
    case.op(name, 100, 200, cat="user_annotation")
    assert advice(case) == pytest.approx(made)


def test_advice_judges_a_single_kernel(case):
    """100 of 1000 us: below half. Launched by aten::mm with the id of its call, and h884 is not in its name: all of the
    kernel time is eligible. 901 of 1000 bytes."""
    case.step(1, 0, 1000)
    case.op("aten::mm", 10, 50, 1)
    case.call(20, 5, 1, (100, 100))
    case.memory("GPU", [(200, 901)])
    case.events[-1]["args"]["Total Allocated"] = 901
    assert advice(case, deviceProperties=[V100]) == pytest.approx(
        {"utilization": 10.0, "tensor_cores": 100.0, "device_memory": 90.1}
    )
    assert [r["cause"] for r in case.engine.ask(case.path, "findings") if r["cause"] == "idle-device"] == []
    case.events[-2]["name"] = "volta_h884_gemm"
    assert advice(case, deviceProperties=[{**V100, "totalGlobalMem": 2000}]) == pytest.approx({"utilization": 10.0})


@pytest.mark.parametrize("minor, others, made", [(4, [], {}), (5, [], {"backend": None}), (5, ["nccl:all_reduce"], {})])
def test_advice_on_the_backend_looks_at_the_devices_there_are(case, minor, others, made):
    case.step(1, 0, 100)
    case.op("DistributedDataParallel.forward", 10, 80)
    for name in others:
        case.op(name, 20, 1)
    assert advice(case, deviceProperties=[{**V100, "computeMajor": 3, "computeMinor": minor}]) == made


@pytest.mark.parametrize("devices, made", [((0, 0), set()), ((0, 1), {"data_parallel"})])
def test_advice_on_data_parallel_of_several_devices(case, devices, made):
    case.step(1, 0, 100)
    case.op("DataParallel.forward", 10, 80)
    for device in devices:
        case.work(20, 60, device=device)
    assert set(advice(case)) == made
