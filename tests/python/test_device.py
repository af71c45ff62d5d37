"""The questions about devices against reference_device.py on random traces, what must not change, and the four features
they carry."""

import copy
import json

import pytest
import reference_device as slow
import traces
from hypothesis import assume, given, settings, strategies as st
from test_property import CONTENT, SETTINGS, Written, assert_same, check_rows

FEW = settings(SETTINGS, max_examples=40)
DEVICE = CONTENT.map(lambda c: {**c, "gpu": True, "memory": False})


def place(r):
    return r["device"], r["stream"]


def ask_or_nothing(ask, rank, question, **args):
    """Without device work the questions refuse."""
    return ask(question, **args) if any(e.cat in traces.DEVICE for e in rank.events) else []


def check_all(m, rank, ask, **rules):
    def rows(question, **args):
        return ask_or_nothing(ask, rank, question, **args, **rules)

    delay = 8 * 1000
    check_rows("breakdown", slow.breakdown(m), rows("breakdown"), lambda r: ())
    check_rows("overlap", slow.overlap(m), rows("overlap"), lambda r: ())
    check_rows("kernel_types", slow.kernel_types(m), rows("kernel_types"), lambda r: r["type"])
    check_rows("kernel_breakdown", slow.kernel_breakdown(m), rows("kernel_breakdown"), lambda r: (r["type"], r["name"]))
    check_rows("idle", slow.idle(m, delay), rows("idle", delay_us=8), lambda r: place(r) + (r["cause"],))
    check_rows("queue", slow.queue(m), rows("queue"), place)
    check_rows("queue full", slow.queue_full(m, 2), rows("queue", by="full", max_length=2), place)
    check_rows("copy_bandwidth", slow.copy_bandwidth(m, rank), rows("copy_bandwidth"), lambda r: r["kind"])
    stats = rows("launch_stats", call_us=5, delay_us=20)
    check_rows("launch_stats", slow.launch_stats(m, 5000, 20000) if stats else {}, stats, lambda r: ())
    series = {}
    for r in rows("queue", by="series"):
        series.setdefault(place(r), []).append((r["ts_ns"], r["length"]))
    assert series == slow.queue_points(m)


@FEW
@given(content=DEVICE, spelling=st.integers(0, 2**32))
def test_exact(engine, content, spelling):
    with Written(engine, traces.build(**content), spelling) as ranks:
        for rank, ask in ranks:
            check_all(slow.Exact(rank), rank, ask)


@FEW
@given(content=DEVICE, spelling=st.integers(0, 2**32))
def test_overlap_of_each_step(engine, content, spelling):
    """Between two neighbouring starts or ends nothing changes: each such piece inside the step counts whole."""
    with Written(engine, traces.build(**content), spelling) as ranks:
        for rank, ask in ranks:
            if not any(e.cat in traces.DEVICE for e in rank.events):
                continue
            work, steps = slow.Exact(rank).work, [r for r in ask("steps") if r["name"] != "whole recording"]
            want = {}
            for row in steps:
                begin, end = row["start_ns"], row["start_ns"] + row["total_ns"]
                points = sorted({begin, end, *(t for w in work for t in (w.start, w.end) if begin < t < end)})
                pieces = [
                    (b - a, {w.type for w in work if w.start <= a and b <= w.end}) for a, b in zip(points, points[1:])
                ]
                both, one = {"COMPUTATION", "COMMUNICATION"}, {"COMMUNICATION"}
                want[row["step"]] = {
                    "communication_ns": sum(n for n, on in pieces if on >= one),
                    "overlap_ns": sum(n for n, on in pieces if on >= both),
                    "computation_ns": sum(n for n, on in pieces if "COMPUTATION" in on),
                    "total_ns": row["total_ns"],
                }
            rows = [r for r in ask("overlap", by="step") if r["step"]]
            if len(want) == len(steps):  # each number once
                check_rows("overlap by step", want, rows, lambda r: str(r["step"]))


@FEW
@given(content=DEVICE, spelling=st.integers(0, 2**32))
def test_as_hta_counts(engine, content, spelling):
    """With and without the last step."""
    with Written(engine, traces.build(**content), spelling) as ranks:
        for (rank, ask), m in zip(ranks, slow.hta_ranks([r for r, _ in ranks])):
            check_all(m, rank, ask, rules="hta")
        for (rank, ask), m in zip(ranks, slow.hta_ranks([r for r, _ in ranks], keep_last=True)):
            check_all(m, rank, ask, rules="hta-last")


# ---- what must not change, and what must change how --------------------------------------------------------

QUESTIONS = (
    ("breakdown", {}),
    ("overlap", {}),
    ("kernel_types", {}),
    ("kernel_breakdown", {}),
    ("idle", {"delay_us": 0}),
    ("queue", {}),
    ("queue", {"by": "series"}),
    ("queue", {"by": "full", "max_length": 2}),
    ("copy_bandwidth", {}),
    ("launch_stats", {"call_us": 0, "delay_us": 0}),
)
NUMBERS = ("event", "track")  # running numbers follow the order of arrival


def answers(ranks):
    out = []
    for rank, ask in ranks:
        for question, args in QUESTIONS:
            rows = ask_or_nothing(ask, rank, question, **args)
            out.append((question, [{k: v for k, v in r.items() if k not in NUMBERS} for r in rows]))
    return out


@FEW
@given(content=DEVICE, shift=st.integers(-(10**12), 10**15))
def test_shift_moves_times_alone(engine, content, shift):
    ranks = traces.build(**content)
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, ranks, 1, plain=True, shift_ns=shift) as b:
        moved = [
            (
                q,
                [
                    {k: v + shift if k in ("ts_ns", "start_ns") and v is not None else v for k, v in r.items()}
                    for r in rows
                ],
            )
            for q, rows in answers(a)
        ]
        assert_same(moved, answers(b))


@FEW
@given(content=DEVICE, seed=st.integers(0, 2**32))
def test_order_of_events_changes_nothing(engine, content, seed):
    ranks = traces.build(**content, span=10**7)
    for rank in ranks:  # what begins at once is told apart by its place in the file
        starts = [e.ts for e in rank.events if e.ph == "X"]
        assume(len(starts) == len(set(starts)))
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, traces.shuffled(ranks, seed), 1, plain=True) as b:
        assert_same(answers(a), answers(b))


@FEW
@given(content=DEVICE)
def test_stream_numbers_change_streams_alone(engine, content):
    ranks = traces.build(**content)
    renamed = copy.deepcopy(ranks)
    for rank in renamed:
        for e in rank.events:
            if e.cat in traces.DEVICE:
                e.tid = e.args["stream"] = e.tid + 1000
            elif e.name == "ac2g" and e.ph == "f":
                e.tid += 1000
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, renamed, 1, plain=True) as b:
        back = [
            (q, [{k: v - 1000 if k == "stream" and v is not None else v for k, v in r.items()} for r in rows])
            for q, rows in answers(b)
        ]
        assert_same(answers(a), back)


@FEW
@given(content=DEVICE)
def test_twice_as_slow(engine, content):
    """All times doubled: lengths double, shares and counts stay, but for copies of no length, which last 1 ns either
    way."""
    ranks = traces.build(**content)
    assume(all(e.dur for r in ranks for e in r.events if e.cat in ("gpu_memcpy", "gpu_memset")))
    with Written(engine, ranks, 1, plain=True) as a, Written(engine, traces.slowed(ranks), 1, plain=True) as b:
        doubled = [
            (
                q,
                [
                    {
                        k: 2 * v
                        if k.endswith("_ns") and v is not None
                        else v / 2
                        if k == "rate_gbps" and v is not None
                        else v
                        for k, v in r.items()
                    }
                    for r in rows
                ],
            )
            for q, rows in answers(a)
        ]
        assert_same(doubled, answers(b))


# ---- features, each with numbers worked out by hand --------------------------------------------------------


def write(tmp_path, events, name="t.json"):
    path = tmp_path / name
    path.write_text(json.dumps({"traceEvents": events, "deviceProperties": [{"id": 0, "name": "GPU", "numSms": 80}]}))
    return path


def x(cat, name, ts, dur, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launched(name, call_at, ts, dur, corr, stream=7, cat="kernel", **args):
    return [
        x("cuda_runtime", "cudaLaunchKernel", call_at, 2, correlation=corr),
        x(cat, name, ts, dur, tid=stream, pid=0, device=0, stream=stream, correlation=corr, **args),
    ]


def test_busy_is_a_union(engine, tmp_path):
    """Kernels over 75 of 100 us, overlapping so that their durations add up to 110: busy 75 %, not 110 %."""
    events = [x("user_annotation", "ProfilerStep#1", 0, 100)]
    events += launched("a", 0, 0, 60, 1) + launched("b", 5, 25, 35, 2, stream=8) + launched("c", 10, 85, 15, 3)
    path = write(tmp_path, events)
    (row,) = engine.ask(path, "breakdown")
    assert (row["kernel_time_ns"], row["busy_ns"], row["idle_ns"], row["summed_ns"], row["busy_pct"]) == (
        100_000,
        75_000,
        25_000,
        110_000,
        75,
    )
    (gpu,) = [r for r in engine.ask(path, "overview") if r["group"] == "gpu" and r["quantity"].endswith("utilization")]
    assert gpu["value"] == 75


@pytest.mark.parametrize(
    "meanwhile, cause",
    [
        (x("cpu_op", "aten::sort", 105, 90), "host"),
        (x("cuda_runtime", "cudaDeviceSynchronize", 100, 95), "sync"),
        (x("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 100, 96), "data"),
        (x("cuda_runtime", "cudaMemcpy", 101, 94), "copy"),
        (None, "python"),
    ],
)
def test_idle_intervals_have_causes(engine, tmp_path, meanwhile, cause):
    """The device is idle from 100 to 200; the work that ends it is launched at 196."""
    events = launched("a", 0, 10, 90, 1) + launched("b", 196, 200, 50, 2) + ([meanwhile] if meanwhile else [])
    path = write(tmp_path, events)
    (gap,) = engine.ask(path, "gaps")
    assert (gap["start_ns"], gap["dur_ns"], gap["cause"]) == (100_000, 100_000, cause)
    (row,) = [r for r in engine.ask(path, "idle") if r["idle_ns"]]
    assert (row["cause"], row["idle_ns"]) == ("host_wait", 100_000)


def test_idle_between_kernels(engine, tmp_path):
    """Launched in time: 20 us later is a wait for the kernel before, 40 us later is not; delay_us=50 makes it one."""
    path = write(tmp_path, launched("a", 0, 10, 90, 1) + launched("b", 3, 120, 30, 2) + launched("c", 6, 190, 10, 3))
    assert {g["cause"] for g in engine.ask(path, "gaps")} == {"queued"}
    assert {r["cause"]: r["idle_ns"] for r in engine.ask(path, "idle")} == {"kernel_wait": 20_000, "other": 40_000}
    assert {r["cause"]: r["idle_ns"] for r in engine.ask(path, "idle", delay_us=50)} == {
        "kernel_wait": 60_000,
        "other": 0,
    }


def test_copy_traffic(engine, tmp_path):
    """100 MB to the device in 10 ms in each of two steps: 200 MB, 10 GB/s, and the call behind it."""
    events = []
    for step in range(2):
        t = 20_000 * step
        events += [
            x("user_annotation", "ProfilerStep#%d" % step, t, 19_000),
            x("python_function", "train.py(12): load_weights", t + 1, 60),
            x("python_function", "<built-in method to of Tensor object at 0x7f00>", t + 1, 59),
            x("cpu_op", "aten::to", t + 2, 50, **{"External id": 9 + step}),
            x("cuda_runtime", "cudaMemcpyAsync", t + 3, 40, correlation=step + 1, **{"External id": 9 + step}),
            x(
                "gpu_memcpy",
                "Memcpy HtoD (Pageable -> Device)",
                t + 100,
                10_000,
                tid=7,
                pid=0,
                device=0,
                stream=7,
                correlation=step + 1,
                bytes=100_000_000,
                **{"memory bandwidth (GB/s)": 10},
            ),
        ]
    path = write(tmp_path, events)
    (row,) = engine.ask(path, "copy_bandwidth", by="op")
    assert (row["kind"], row["direction"], row["op"], row["line"]) == (
        "Memcpy HtoD",
        "host to device",
        "aten::to",
        "train.py(12): load_weights",
    )
    assert (row["copies"], row["bytes"], row["total_ns"], row["rate_gbps"]) == (2, 200_000_000, 20_000_000, 10)
    (row,) = engine.ask(path, "copy_bandwidth", by="op", step=1)
    assert (row["copies"], row["bytes"]) == (1, 100_000_000)


@pytest.mark.parametrize(
    "stated, mean", [(10, 10), (2.5, 2.5), (0.125, 0.125), ("10", 10), (True, None), (None, None), ([1], None)]
)
def test_bandwidth_is_what_is_stated(engine, tmp_path, stated, mean):
    path = write(
        tmp_path,
        launched(
            "Memcpy HtoD (Pinned -> Device)",
            0,
            100,
            50,
            1,
            cat="gpu_memcpy",
            bytes=4096,
            **{"memory bandwidth (GB/s)": stated},
        ),
    )
    (row,) = engine.ask(path, "copy_bandwidth")
    assert (row["copies"], row["bytes"], row["mean_gbps"], row["points"]) == (1, 4096, mean, 0 if mean is None else 1)


def test_communication_share_and_overlap(engine, tmp_path):
    """A step of 100 ms, 40 ms of it in a collective, 10 ms of those hidden under computing: a share of 40 %, 25 %
    overlap."""
    events = [x("user_annotation", "ProfilerStep#3", 0, 100_000)]
    events += launched("gemm", 10, 1000, 50_000, 1) + launched(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 41_000, 40_000, 2, stream=20
    )
    path = write(tmp_path, events)
    (row,) = engine.ask(path, "overlap", by="step")
    assert (row["step"], row["communication_ns"], row["overlap_ns"], row["exposed_ns"]) == (
        "3",
        40_000_000,
        10_000_000,
        30_000_000,
    )
    assert (row["overlap_pct"], row["share_pct"], row["total_ns"]) == (25, 40, 100_000_000)


def test_counters_in_a_chrome_trace(tachograph, tmp_path):
    """Two launches at 0 and 5, their work at 10 and 70: the queue of stream 7 is 1, 2, 1, 0 long; one copy of 4.5 GB/s
    from 70 to 90."""
    events = launched("a", 0, 10, 60, 1) + launched(
        "Memcpy HtoD (Pinned -> Device)", 5, 70, 20, 2, cat="gpu_memcpy", **{"memory bandwidth (GB/s)": 4.5}
    )
    path, out = write(tmp_path, events), tmp_path / "out.json"
    assert tachograph("export", path, "--to", "chrome", "--counters", "all", "-o", out).returncode == 0
    written = json.loads(out.read_text())["traceEvents"]
    counters = [e for e in written if e["ph"] == "C"]
    assert [e for e in written if e["ph"] != "C"] == events
    assert all(e["pid"] == 0 for e in counters)
    assert [(e["ts"], e["id"], e["args"]["Queue Length"]) for e in counters if e["name"] == "Queue Length"] == [
        (0, 7, 1),
        (5, 7, 2),
        (10, 7, 1),
        (70, 7, 0),
    ]
    assert [(e["ts"], e["args"]["Memcpy BW"]) for e in counters if e["name"] == "Memcpy HtoD"] == [(70, 4.5), (90, 0)]
    assert len(counters) == 6
    wrong = tachograph("export", path, "--to", "chrome", "--counters", "everything", "-o", out)
    assert wrong.returncode == 2 and "queue, bandwidth or all" in wrong.stderr


def test_rules_that_do_not_go_together(tachograph, tmp_path):
    path = write(tmp_path, launched("a", 0, 10, 60, 1))
    for question, by in (("breakdown", "device"), ("overlap", "step")):
        done = tachograph("ask", path, question, "--by", by, "--rules", "hta")
        assert done.returncode == 2 and "rules=exact" in done.stderr
    for wrong in (
        ("idle", "--delay-us", "soon"),
        ("queue", "--max-length", "-3"),
        ("kernel_breakdown", "--ratio", "2"),
        ("queue", "--rules", "htb"),
    ):
        assert tachograph("ask", path, *wrong).returncode == 2
    assert tachograph("ask", write(tmp_path, [x("cpu_op", "aten::mm", 0, 5)], "cpu.json"), "idle").returncode == 3
