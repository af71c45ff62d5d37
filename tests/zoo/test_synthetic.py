"""What findings say of programs with a known answer, each beside one that only looks alike."""

import json
import os
import subprocess

import pytest
import synthetic as zoo

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
DEEP_EP = "void deep_ep::intranode::dispatch<(int)8, (int)768, (int)8192>(int4 *)"
INDEX = "void at::native::index_elementwise_kernel<128, 4>(long)"
BF16 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"

# name, program, the cause that must be first (None: nothing may be found)
FIRST_HALF = [
    ("steady", lambda: zoo.steady(), None),
    ("labels around everything", lambda: zoo.labels(), None),
    ("launch bound", lambda: zoo.launch_bound(), "many-small-ops"),
    ("short kernels in a queue", lambda: zoo.steady(kernels=2000, steps=3), None),
    ("exposed all-reduce", lambda: zoo.exposed_collective(8000), "communication-not-overlapped"),
    ("hidden all-reduce", lambda: zoo.exposed_collective(200), None),
    ("exposed expert dispatch", lambda: zoo.exposed_collective(8000, name=DEEP_EP), "communication-not-overlapped"),
    ("unpinned copy", lambda: zoo.waits_in("cudaMemcpyAsync"), "blocking-copy"),
    ("short copy", lambda: zoo.waits_in("cudaMemcpyAsync", share=0.04), None),
    ("item in the loop", lambda: zoo.waits_in("aten::item", cat="cpu_op"), "host-synchronisation"),
    ("synchronize in the loop", lambda: zoo.waits_in("cudaDeviceSynchronize"), "host-synchronisation"),
    ("graph replay with pauses", lambda: zoo.graph_replay(), "idle-device"),
    ("graph replay without", lambda: zoo.graph_replay(gap=1), None),
    ("one long step", lambda: zoo.outlier(), None),
    ("first use inside the window", lambda: zoo.warm_up(), None),
    ("compiles in every step", lambda: zoo.recompiles(), "recompilation"),
    ("compiles in the first step", lambda: zoo.recompiles(every=100), None),
    ("matrix products without tensor cores", lambda: zoo.plain_precision("ampere_sgemm_128x64_nn"), "mixed-precision-unused"),
    ("TF32 by name", lambda: zoo.plain_precision("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4"), None),
    ("FP8", lambda: zoo.plain_precision("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128"), None),
    ("few threads", lambda: zoo.with_occupancy(INDEX, 12), "low-occupancy"),
    ("occupancy not estimated", lambda: zoo.with_occupancy(INDEX, 0), None),
    ("few threads on tensor cores", lambda: zoo.with_occupancy(BF16, 12), None),
    ("toy", lambda: zoo.toy(), None),
]  # fmt: skip


def ask(tmp_path, program, question="findings"):
    path = program.write(tmp_path / "trace.json")
    done = subprocess.run([TACHOGRAPH, "ask", path, question, "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    names = [c["name"] for c in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]], answer["notes"]


def check_sound(rows, step_ns):
    assert len(rows) <= 10
    assert sum(r["saving_ns"] or 0 for r in rows) <= step_ns
    for r in rows:
        assert 0 <= r["share_pct"] <= 100 and (r["saving_ns"] is None or r["saving_ns"] <= r["cost_ns"]), r


@pytest.mark.parametrize(("name", "program", "cause"), FIRST_HALF, ids=[n for n, _, _ in FIRST_HALF])
def test_first_half(tmp_path, name, program, cause):
    rows, notes = ask(tmp_path, program())
    check_sound(rows, 100_000_000)
    assert [r["cause"] for r in rows][:1] == ([cause] if cause else []), (rows, notes)


def test_an_idle_device_is_told_once(tmp_path):
    rows, _ = ask(tmp_path, zoo.waits_in("cudaDeviceSynchronize"))
    assert [r["cause"] for r in rows] == ["host-synchronisation"]
    assert "the same time is idle-device" in rows[0]["evidence"]


def test_a_graph_is_not_told_to_become_one(tmp_path):
    rows, _ = ask(tmp_path, zoo.graph_replay())
    assert "CUDAGraph" not in rows[0]["advice"] and "replayed as a graph already" in rows[0]["advice"]


def test_first_use_is_told_apart(tmp_path):
    _, notes = ask(tmp_path, zoo.warm_up())
    assert any(n.startswith("left out, as it comes once: 1 calls load code") for n in notes), notes


@pytest.mark.parametrize(("busy", "words"), [(0.40, "mostly idle"), (0.60, "held up by the host"),
                                             (0.75, "held up by the host now and then"),
                                             (0.85, "mostly device bound"), (0.95, "device bound")])  # fmt: skip
def test_utilisation_has_one_class(tmp_path, busy, words):
    _, notes = ask(tmp_path, zoo.steady(busy=busy))
    assert any(n.startswith("checked: device busy") and f"({words};" in n for n in notes), notes
