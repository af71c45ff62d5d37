"""Findings of programs with a known answer, each beside one that only looks alike."""

import json
import os
import subprocess

import pytest
import synthetic as zoo

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
DEEP_EP = "void deep_ep::intranode::dispatch<(int)8, (int)768, (int)8192>(int4 *)"
UPDATE = "void mylib::update_cells_kernel<128, 4>(long)"
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
    ("few threads", lambda: zoo.with_occupancy(UPDATE, 12), "low-occupancy"),
    ("occupancy not estimated", lambda: zoo.with_occupancy(UPDATE, 0), None),
    ("few threads on tensor cores", lambda: zoo.with_occupancy(BF16, 12), None),
    ("toy", lambda: zoo.toy(), None),
]  # fmt: skip


def ask(tmp_path, program, question="findings"):
    path = program.write(tmp_path / "trace.json")
    done = subprocess.run([TACHOGRAPH, "ask", path, question, "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    names = [c["name"] for c in answer["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    if question == "findings":
        check_order(rows)
    return rows, answer["notes"]


def check_order(rows):
    """Each says what it saves or why that is not known; they come by severity, then by what is expected of them."""
    grades = ["high", "medium", "low"]
    assert all(r["method"] for r in rows)
    assert [grades.index(r["severity"]) for r in rows] == sorted(grades.index(r["severity"]) for r in rows)
    for grade in grades:
        saved = [
            0.4 * (r["cost_ns"] or 0) if r["saving_ns"] is None else r["saving_ns"] * r["confidence"]
            for r in rows
            if r["severity"] == grade
        ]
        assert saved == sorted(saved, reverse=True)


def check_sound(rows, program):
    """No more is saved than a step has, or the recording where there are none."""
    steps = [e["dur"] for e in program.events if e["name"].startswith("ProfilerStep")]
    ends = [e["ts"] + e["dur"] for e in program.events]
    assert len(rows) <= 10
    assert sum(r["saving_ns"] or 0 for r in rows) <= 1000 * (sum(steps) / len(steps) if steps else max(ends))
    for r in rows:
        assert 0 <= r["share_pct"] <= 100 and (r["saving_ns"] is None or r["saving_ns"] <= r["cost_ns"]), r


@pytest.mark.parametrize(("name", "program", "cause"), FIRST_HALF, ids=[n for n, _, _ in FIRST_HALF])
def test_first_half(tmp_path, name, program, cause):
    made = program()
    rows, notes = ask(tmp_path, made)
    check_sound(rows, made)
    assert [r["cause"] for r in rows][:1] == ([cause] if cause else []), (rows, notes)


def test_an_idle_device_is_reported_once(tmp_path):
    rows, _ = ask(tmp_path, zoo.waits_in("cudaDeviceSynchronize"))
    assert [r["cause"] for r in rows] == ["host-synchronisation"]
    assert "the same time is idle-device" in rows[0]["evidence"]


def test_a_graph_is_not_advised_to_become_one(tmp_path):
    rows, _ = ask(tmp_path, zoo.graph_replay())
    assert "CUDAGraph" not in rows[0]["advice"] and "replayed as a graph already" in rows[0]["advice"]


def test_first_use_is_distinguished(tmp_path):
    _, notes = ask(tmp_path, zoo.warm_up())
    assert any(n.startswith("left out, as it comes once: 1 call loads code") for n in notes), notes


def test_a_toy_is_not_judged(tmp_path):
    rows, notes = ask(tmp_path, zoo.toy())
    assert not rows and any("idle-device (14 pieces of device work in 1.0 % of the time: too few" in n for n in notes)


def test_what_saves_less_than_3_pct_is_withheld(tmp_path):
    """Products of 1.16 ms in a step of 20, which is all but the wait for a batch: half of them are 2.9 %."""
    p = zoo.Program()
    for i in range(6):
        at = i * 20000
        p.step(i + 1, at, 20000)
        p.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at + 5, 18790, "user_annotation")
        for k in range(20):
            p.launch("ampere_sgemm_128x64_nn", at + 18805 + k * 10, at + 18820 + k * 58, 58, op="aten::mm")
    rows, notes = ask(tmp_path, p)
    assert [r["cause"] for r in rows] == ["loader-too-slow"]
    assert any("mixed-precision-unused (worth less than 3 % of the time)" in n for n in notes), notes


@pytest.mark.parametrize(("busy", "words"), [(0.40, "mostly idle"), (0.60, "held up by the host"),
                                             (0.75, "held up by the host now and then"),
                                             (0.85, "mostly device bound"), (0.95, "device bound")])  # fmt: skip
def test_utilisation_has_one_class(tmp_path, busy, words):
    _, notes = ask(tmp_path, zoo.steady(busy=busy))
    assert any(n.startswith("measured: device busy") and f"({words})" in n for n in notes), notes


ITEM = ("aten::item", "aten::_local_scalar_dense")
SYNCS = [
    (dict(op="aten::item", inner=ITEM[1:]), ".item()", "aten::item", ".item() every N-th step"),
    (dict(op="aten::is_nonzero", inner=ITEM), "if tensor", "aten::is_nonzero", "torch.where or a mask"),
    (dict(op="aten::to", inner=("aten::_to_copy", "aten::copy_")), ".cpu()", "aten::to", "non_blocking=True"),
    (dict(op="aten::to", stack="<built-in method tolist of Tensor object at 0x7f>;train.py(40): train"), ".tolist()",
     "aten::to", ".tolist() once"),
    (dict(op="aten::to", stack="<built-in method numpy of Tensor object at 0x7f>;train.py(40): train"), ".numpy()",
     "aten::to", "Stay with tensors"),
    (dict(inner=ITEM[1:], stack="torch/_tensor_str.py(140): __init__;torch/_tensor.py(590): __repr__;train.py(40): train"),
     "print of a tensor", "aten::item", "Print every N-th step"),
    (dict(inner=ITEM[1:], stack="torchmetrics/metric.py(300): compute;train.py(40): train"), "metric", "aten::item",
     "once an epoch"),
    (dict(op="aten::nonzero"), "size that depends on data", "aten::nonzero", "of a fixed size"),
    (dict(op=None, call="cudaDeviceSynchronize"), "torch.cuda.synchronize", "cudaDeviceSynchronize",
     "Take torch.cuda.synchronize() out"),
    (dict(op=None, call="hipDeviceSynchronize"), "torch.cuda.synchronize", "hipDeviceSynchronize",
     "Take torch.cuda.synchronize() out"),
    (dict(op=None), "stream.synchronize", "cudaStreamSynchronize", "wait_event"),
    (dict(op=None, call="cudaEventSynchronize"), "event.synchronize", "cudaEventSynchronize", "Ask the event later"),
    (dict(op=None, call="cudaFree"), "memory released", "cudaFree", "no torch.cuda.empty_cache()"),
    (dict(op="mylib::step"), "other", "mylib::step", "or do them every N-th step"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "kind", "op", "advice"), SYNCS, ids=[f"{s[1]} {s[2]}" for s in SYNCS])
def test_what_waits_for_the_device(tmp_path, how, kind, op, advice):
    """Kernels run from 300 to 12300, the copy to 12310, and the call waits from 530 to 12320: 11790 us of each 20000.
    The device stands still from 12310 to 300 of the next step, 7990 us, five times in six
    steps: 6658 us a step."""
    rows, _ = ask(tmp_path, zoo.reads(**how), "syncs")
    assert len(rows) == 1
    row = rows[0]
    assert (row["where"], row["kind"], row["op"]) == ("train.py(40): train", kind, op)
    assert (row["calls"], row["calls_per_step"], row["max_ns"]) == (6, 1, 11_790_000)
    assert (row["wait_ns"], row["wait_per_step_ns"], row["idle_ns"]) == (6 * 11_790_000, 11_790_000, 5 * 7_990_000)
    assert row["waits_for"] == "Memcpy DtoH (Device -> Pinned)"
    found, _ = ask(tmp_path, zoo.reads(**how))
    assert [(f["cause"], f["where"], f["line"]) for f in found] == [
        ("host-synchronisation", f"{op} at train.py(40): train", 40)
    ]
    assert found[0]["cost_ns"] == 5 * 7_990_000 // 6 and advice in found[0]["advice"]
    assert kind == "other" or f"100 % of that by {kind}" in found[0]["evidence"]


def test_values_read_one_by_one_are_one_finding(tmp_path):
    """24 values in 4800 us, each read in 104 us: 2496; the gaps of 100 us behind the reads are the same thing."""
    rows, _ = ask(tmp_path, zoo.norms_of_each_layer())
    assert [(r["cause"], r["where"]) for r in rows] == [("per-element-item", "aten::item at train.py(11): norms")]
    assert rows[0]["cost_ns"] == 2_496_000 and "the same time is host-synchronisation" in rows[0]["evidence"]


def test_the_line_that_holds_the_device_up_most(tmp_path):
    """Eight gaps of 110 us at line 11, and one of 410 us at line 30, which is the longest."""
    rows, _ = ask(tmp_path, zoo.two_lines_that_read())
    assert [(r["cause"], r["line"]) for r in rows if r["cause"] == "host-synchronisation"] == [
        ("host-synchronisation", 11)
    ]
    waits, _ = ask(tmp_path, zoo.two_lines_that_read(), "syncs")
    assert [(w["where"], w["calls_per_step"]) for w in waits] == [
        ("train.py(11): train", 8),
        ("train.py(30): train", 1),
    ]


def test_waits_that_cost_nothing(tmp_path):
    """The same call where the next step's kernels follow at once: it is in the table, and no finding."""
    rows, _ = ask(tmp_path, zoo.reads(busy=0.97), "syncs")
    assert [(r["kind"], r["calls"]) for r in rows] == [(".item()", 6)]
    assert ask(tmp_path, zoo.reads(busy=0.97))[0] == []


def test_a_device_without_finer_categories_has_its_parts(tmp_path):
    """10 ms of computing and 1 ms of copies in each step of 20: for 9 ms the device stands still, in Python."""
    steps, _ = ask(tmp_path, zoo.vendor_device(), "steps")
    assert [(s["kernel_ns"], s["memcpy_ns"], s["device_events"]) for s in steps] == [(10_000_000, 1_000_000, 2)] * 6
    rows, _ = ask(tmp_path, zoo.vendor_device())
    assert [r["cause"] for r in rows] == ["idle-device"] and "50.0 % of the time" in rows[0]["evidence"]
    rows, _ = ask(tmp_path, zoo.vendor_device(busy=0.93))
    assert rows == []


@pytest.mark.parametrize(("name", "units", "minor", "gib", "words"), [
    ("AMD Radeon Graphics", 104, 0, 64, "MI250"), ("", 304, 4, 192, "MI300X"), ("", 304, 4, 256, "MI325X"),
    ("gfx942:sramecc+:xnack-", 228, 4, 128, "MI300A"), ("", 132, 0, 80, None),
])  # fmt: skip
def test_devices_without_a_name(tmp_path, name, units, minor, gib, words):
    p = zoo.steady()
    p.properties[0].update(name=name, computeMajor=9, computeMinor=minor, numSms=units, totalGlobalMem=gib << 30,
                           warpSize=64)  # fmt: skip
    for e in p.events:
        if e["cat"] == "cpu_op":
            e["args"].update({"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]})
    _, notes = ask(tmp_path, p, "roofline")
    assert any(n.startswith(f"peaks: {words} (data sheet") for n in notes) == (words is not None), notes


def test_all_is_well_says_what_of_the_peak(tmp_path):
    """2e9 operations in each 10 ms are 2e11 of 1e12 a second, a fifth; in each 20 ms a tenth."""
    rows, notes = ask(tmp_path, zoo.products_on_a_cpu())
    assert rows == []
    assert any("; compute-bound, at 20.0 % of the peak of the CPU, measured" in n for n in notes), notes
    rows, notes = ask(tmp_path, zoo.products_on_a_cpu(step=20000))
    assert any("; at 10.0 % of the peak of the CPU, measured" in n for n in notes), notes


# Written after the rules were frozen; docs/findings.md keeps what each gave when it was run first.
SECOND_HALF = [
    ("loader with workers too slow", lambda: zoo.loader_wait(), "loader-too-slow"),
    ("loader fast enough", lambda: zoo.loader_wait(wait=600), None),
    ("loader in the process", lambda: zoo.loader_wait(name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"), "loader-in-main-process"),
    ("stream waits for events", lambda: zoo.stream_waits(), None),
    ("slow first steps", lambda: zoo.slow_first_steps(), None),
    ("pipeline bubble", lambda: zoo.pipeline_bubble(), "communication-not-overlapped"),
    ("small bubble", lambda: zoo.pipeline_bubble(bubble=800), None),
    ("pageable copies", lambda: zoo.busy_copies(), "blocking-copy"),
    ("few copies", lambda: zoo.busy_copies(share=0.02), None),
    ("pauses between requests", lambda: zoo.serving(), "idle-device"),
    ("requests back to back", lambda: zoo.serving(gap=100), None),
    ("two streams in turns", lambda: zoo.two_streams(), None),
    ("Python between launches", lambda: zoo.python_gap(), "idle-device"),
    ("a little Python between launches", lambda: zoo.python_gap(share=0.06), None),
    ("MXFP4 products", lambda: zoo.plain_precision("cutlass3x_sm100_tensorop_s256x128x64gemm_block_scaled_ue4m3xf4"), None),
    ("quick reduce", lambda: zoo.exposed_collective(8000, name="quickreduce::allreduce_prototype_twoshot<x>"), "communication-not-overlapped"),
    ("fused all-reduce, few threads", lambda: zoo.with_occupancy("allreduce_fusion_kernel_oneshot_lamport<x>", 3), None),
    ("fp32 GEMV", lambda: zoo.plain_precision("void gemv2T_kernel_val<int, int, float, float, float>"), "mixed-precision-unused"),
    ("bf16 GEMV", lambda: zoo.plain_precision("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float>"), None),
]  # fmt: skip


def test_a_device_that_waits_for_python_says_where_and_why(tmp_path):
    stack = "socket.py(706): readinto;train.py(31): fetch;train.py(50): train"
    rows, _ = ask(tmp_path, zoo.python_gap(seen=("socket", stack)))
    assert [(r["cause"], r["where"], r["line"]) for r in rows] == [("idle-device", "train.py(31): fetch", 31)]
    assert "by 5 samples of the stack it waits for a socket there for 100 % of the time" in rows[0]["evidence"]
    assert rows[0]["advice"].startswith("Ask for it before it is needed")


def test_a_device_that_waits_for_the_gil_says_for_how_much_of_the_time(tmp_path):
    stack = "serve.py(31): tokenize;serve.py(50): answer"
    rows, _ = ask(tmp_path, zoo.python_gap(seen=("gil", stack)))
    assert [(r["cause"], r["where"], r["line"]) for r in rows] == [("idle-device", "serve.py(31): tokenize", 31)]
    assert "it waits for Python's own lock (the GIL) there for 100 % of the time" in rows[0]["evidence"]
    assert rows[0]["advice"].startswith("Move what the other threads compute in Python into processes")


@pytest.mark.parametrize(("name", "program", "cause"), SECOND_HALF, ids=[n for n, _, _ in SECOND_HALF])
def test_second_half(tmp_path, name, program, cause):
    made = program()
    rows, notes = ask(tmp_path, made)
    check_sound(rows, made)
    assert [r["cause"] for r in rows][:1] == ([cause] if cause else []), (rows, notes)
