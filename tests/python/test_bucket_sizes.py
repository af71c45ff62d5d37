"""The question bucket_sizes against a simulator that sends the same gradients in buckets of another size."""

import json
import re

import pytest
import tachograph as tg
from test_buckets import NODE, send, slice_of

MIB = 1 << 20
PASS_US, READY_US, STEPS = 100_000, 99_960, 3  # the last gradient is ready a little before the end
PIECE = MIB // 4  # bytes of a gradient; all are ready at equal distances


def simulate(cap, total, fixed_us, us_a_mib, overlaps=True, first=None):
    """(asked, start, end, bytes) of each bucket; a gradient is never in two."""
    found, begun, end = [], 0, 0.0
    while begun < total:
        size = min(total - begun, (first or cap) if not found else cap)
        begun += size
        ready = READY_US * begun / total if overlaps else PASS_US
        start = max(ready, end)
        end = start + fixed_us + us_a_mib * size / MIB
        found.append((ready, start, end, size))
    return found


def behind_us(buckets):
    return max(0.0, buckets[-1][2] - PASS_US)


def trace(path, buckets, step_us=900_000, **document):
    events = []
    for step in range(STEPS):
        at = step * (step_us + 100)
        events += [slice_of("user_annotation", f"ProfilerStep#{step}", at, at + step_us, 1)]
        events += [slice_of("cpu_op", NODE, at + 1000, at + 1000 + PASS_US, 2)]
        for asked, start, end, size in buckets:
            events += send("all_reduce", at + 1000 + asked, at + 1000 + start, at + 1000 + end, size // 4)
    job = {"distributedInfo": {"rank": 0, "world_size": 2}, **document}
    path.write_text(json.dumps({**job, "traceEvents": events}))
    return path


@pytest.mark.parametrize("cap", [2 * MIB, 5 * MIB, 25 * MIB])
@pytest.mark.parametrize("fixed_us, us_a_mib", [(2000, 300), (100, 1500), (50, 200)])
def test_other_sizes_are_those_of_the_simulator(tmp_path, cap, fixed_us, us_a_mib):
    total = 60 * MIB
    recorded = simulate(cap, total, fixed_us, us_a_mib, first=MIB)
    table = tg.open(str(trace(tmp_path / "t.json", recorded))).ask("bucket_sizes", cap_mb="0.5,1,5,25,100")
    rows = {row["change"]: row for row in table}
    now = rows["as recorded"]
    assert now["buckets"] == len(recorded) and now["behind_ns"] / 1000 == pytest.approx(behind_us(recorded), abs=50)
    assert now["saving_ns"] == 0 and now["largest_bytes"] == pytest.approx(max(b[3] for b in recorded))
    for size in (0.5, 1, 5, 25, 100):
        truth = simulate(int(size * MIB), total, fixed_us, us_a_mib)
        row = rows[f"buckets of {size:g} MiB"]
        assert row["buckets"] == len(truth)
        assert row["behind_ns"] / 1000 == pytest.approx(behind_us(truth), abs=50), size
        assert row["saving_ns"] == pytest.approx(now["behind_ns"] - row["behind_ns"])
        assert row["send_ns"] / 1000 == pytest.approx(sum(end - start for _, start, end, _ in truth), rel=0.01)
    truth = simulate(cap, total, fixed_us, us_a_mib, overlaps=False, first=MIB)
    assert rows["sent behind the pass"]["behind_ns"] / 1000 == pytest.approx(behind_us(truth), abs=50)


def test_buckets_of_one_size_say_nothing_of_others(tmp_path):
    buckets = [(10_000, 10_000, 12_000, MIB), (50_000, 50_000, 52_000, MIB)]
    table = tg.open(str(trace(tmp_path / "t.json", buckets))).ask("bucket_sizes")
    assert not list(table) and "its buckets are of one size" in table.notes[0]


def test_sending_that_does_not_follow_the_model_has_no_prediction(tmp_path):
    """The last waits for another rank for half of the pass, so what it takes is not what its bytes take."""
    buckets = [(10_000, 10_000, 12_000, MIB), (20_000, 20_000, 25_000, 5 * MIB), (90_000, 90_000, 145_000, 5 * MIB)]
    table = tg.open(str(trace(tmp_path / "t.json", buckets))).ask("bucket_sizes")
    assert not list(table) and "off by more than 10 %" in table.notes[0]


@pytest.mark.parametrize("caps", ["0", "x", "-1", "1,,2", "1e9", ",".join(["1"] * 17)])
def test_sizes_that_are_none(tmp_path, caps):
    path = trace(tmp_path / "t.json", simulate(5 * MIB, 10 * MIB, 100, 100, first=MIB))
    with pytest.raises(tg.TachographError, match="is not understood"):
        tg.open(str(path)).ask("bucket_sizes", cap_mb=caps)


def said(cap, **more):
    return {"ddp": {"modules": 1, "bucket_cap_mb": cap, "first_bucket_cap_mb": 1, **more}}


def test_the_recorded_cap_and_the_size_to_try(tmp_path):
    """A bucket takes 4 ms and 0.4 ms a MiB. Recorded: 1 MiB, 29 of 2, and 1 at the end, one after the other from 1.67
    ms on: 4.4 + 29 * 4.8 + 4.4 = 148 ms, 49.67 behind the pass. With 4 MiB each is through before the next is ready;
    the last, ready at 99.96 ms, ends 5.56 behind it; with 8 MiB it waits for the one before and ends 6.1 behind it."""
    recorded = simulate(2 * MIB, 60 * MIB, 4000, 400, first=MIB)
    parallel = said(2, bucket_bytes=[size for _, _, _, size in recorded], is_rebuilt=True)
    path = trace(tmp_path / "t.json", recorded, parallel=parallel)
    notes = " | ".join(tg.open(str(path)).ask("bucket_sizes", cap_mb="1,4,8").notes)
    assert float(re.search(r"try bucket_cap_mb=4, which saves ([\d.]+) ms", notes)[1]) == pytest.approx(44.11, abs=0.05)
    assert "bucket_cap_mb=2, 1 for the first bucket; its reducer made 31 buckets of 1.05 to 2.10 MB, in the" in notes
    notes = " | ".join(tg.open(str(path)).ask("bucket_sizes", cap_mb="0.5,1").notes)
    assert "none of these sizes saves 2 % of the backward pass" in notes


def test_a_finding_has_the_recorded_cap_and_the_one_to_try(tmp_path):
    """As above: of 0.5, 1, 4 and 8 MiB it is 4."""
    recorded = simulate(2 * MIB, 60 * MIB, 4000, 400, first=MIB)
    path = trace(tmp_path / "t.json", recorded, step_us=160_000, parallel=said(2))
    found = {row["cause"]: row["advice"] for row in tg.open(str(path)).ask("findings")}
    advice = found["communication-not-overlapped"]
    assert "To try: bucket_cap_mb=4 (44." in advice and "Now: bucket_cap_mb=2, first_bucket_cap_mb=1." in advice
    path = trace(tmp_path / "n.json", recorded, step_us=160_000)
    found = {row["cause"]: row["advice"] for row in tg.open(str(path)).ask("findings")}
    assert "bucket_cap_mb=" not in found["communication-not-overlapped"]


@pytest.mark.parametrize("cap", [-1, 0, 1e9, "x", None, [25], {"a": 1}])
def test_a_cap_that_is_none(tmp_path, cap):
    recorded = simulate(5 * MIB, 60 * MIB, 2000, 300, first=MIB)
    for parallel in (said(cap, bucket_bytes=cap), {"ddp": cap}, cap):
        path = trace(tmp_path / "t.json", recorded, parallel=parallel)
        for question in ("buckets", "bucket_sizes"):
            table = tg.open(str(path)).ask(question)
            assert list(table) and not any("DistributedDataParallel has" in note for note in table.notes)
