"""loader_overlap: the prediction by hand and by brute force, and held against what a loop does once workers load for
it."""

import json
import random

import pytest

tg = pytest.importorskip("tachograph")
LOADER = "enumerate(DataLoader)#_%sProcessDataLoaderIter.__next__"


def loop(path, steps, kind="Single"):
    """steps: (waiting, rest) in µs. The wait is cut in two, with an operator of the loader inside it and one
    outside."""
    at, events = 1000.0, []

    def add(cat, name, start, dur):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": {}})

    for number, (wait, rest) in enumerate(steps):
        add("user_annotation", f"ProfilerStep#{number}", at, wait + rest)
        add("user_annotation", LOADER % kind, at, wait / 2)
        add("cpu_op", "aten::stack", at + wait / 8, wait / 8)
        add("user_annotation", LOADER % kind, at + wait / 2 + rest / 2, wait / 2)
        add("cpu_op", "aten::mm", at + wait / 2 + 1, rest / 4)
        at += wait + rest + 10
    path.write_text(json.dumps({"traceEvents": events}))
    return tg.open(path)


def test_by_hand(tmp_path):
    """64 of 104 µs are loading: one worker needs 64 for the next batch, two 32, and then the other 40 µs are what
    counts."""
    table = loop(tmp_path / "t.json", [(64, 40)] * 3).ask("loader_overlap", workers=[1, 2])
    assert [
        (r["workers"], r["step_ns"], r["data_ns"], r["compute_ns"], r["best_ns"], r["saving_ns"], r["bound"])
        for r in table
    ] == [
        (1, 104000, 64000, 40000, 64000, 40000, "data"),
        (2, 104000, 64000, 40000, 40000, 64000, "compute"),
        (None, 104000, 64000, 40000, 40000, 64000, "compute"),
    ]
    assert table.notes == ["rank 0: data is hidden from 2 workers on, if as many cores are free: 0.10 → 0.04 ms a step"]


@pytest.mark.parametrize("seed", range(5))
def test_random_loops(tmp_path, seed):
    rnd = random.Random(seed)
    steps = [(8 * rnd.randint(1, 50), 8 * rnd.randint(1, 50)) for _ in range(rnd.randint(1, 9))]
    data, rest = (1000 * sum(s[i] for s in steps) / len(steps) for i in (0, 1))
    for row in loop(tmp_path / "t.json", steps).ask("loader_overlap", workers=[1, 2, 3, 7]):
        want = min(data + rest, max(data / row["workers"] if row["workers"] else 0, rest))
        assert row["best_ns"] == pytest.approx(want, rel=1e-12) and row["saving_pct"] == pytest.approx(
            100 * (data + rest - want) / (data + rest)
        )


def test_twice_as_long_and_names_of_threads(tmp_path):
    steps = [(64, 40), (16, 80), (8, 8)]
    rows = loop(tmp_path / "a.json", steps).ask("loader_overlap", workers=[1, 2]).to_dicts()
    slower = (
        loop(tmp_path / "b.json", [(2 * a, 2 * b) for a, b in steps]).ask("loader_overlap", workers=[1, 2]).to_dicts()
    )
    assert slower == [{k: 2 * v if k.endswith("_ns") and v is not None else v for k, v in r.items()} for r in rows]
    document = json.loads((tmp_path / "a.json").read_text())
    for e in document["traceEvents"]:
        e["tid"], e["ts"] = 77, e["ts"] + 12345
    document["traceEvents"].reverse()
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert tg.open(tmp_path / "c.json").ask("loader_overlap", workers=[1, 2]).to_dicts() == rows


def test_a_loader_with_workers(tmp_path):
    trace = loop(tmp_path / "t.json", [(64, 40)] * 3, kind="Multi")
    table = trace.ask("loader_overlap")
    assert [(r["workers"], r["data_ns"], r["best_ns"]) for r in table] == [
        (None, None, 40000)
    ] and "workers_now" in table.notes[0]
    found = {r["workers"]: r["best_ns"] for r in trace.ask("loader_overlap", workers=[2, 4, 8], workers_now=2)}
    assert found == {2: 104000, 4: 52000, 8: 40000, None: 40000}  # two at work all the time: 208 µs a batch


def test_no_loader_and_nonsense(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]')
    with pytest.raises(tg.TachographError) as raised:
        tg.open(path).ask("loader_overlap")
    assert raised.value.code == "NO_DATA"
    for workers in ("0", "two", "1,,2", "-1"):
        with pytest.raises(tg.TachographError, match="whole numbers"):
            loop(path, [(8, 8)]).ask("loader_overlap", workers=workers)


@pytest.mark.long
@pytest.mark.timing
def test_prediction_against_measurement(tmp_path):
    """A loop that loads 72 ms for every 45 ms of work, as recorded; then the same with one and with two workers,
    measured. The work is sleep, and the shortest of the steps count, so that a busy machine does not decide
    the test; where it does, again."""
    torch = pytest.importorskip("torch")
    import time

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            time.sleep(0.018)
            return torch.zeros(3)

    def record(workers):
        how = "fork" if workers else None  # Data goes to no other process: it is a class of this function
        loader = iter(torch.utils.data.DataLoader(Data(), 4, num_workers=workers, multiprocessing_context=how))
        path = tmp_path / f"workers{workers}.json"
        with tg.profile(
            schedule=tg.schedule(wait=4, warmup=2, active=8),
            on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
        ) as prof:
            for _ in range(14):
                batch = next(loader)
                time.sleep(0.045)
                (batch * 2).sum()
                prof.step()
        return tg.open(path)

    def shortest(workers):
        return next(r["total_ns"] for r in record(workers).ask("steps", by="summary") if r["step"] == "p10")

    for _attempt in range(3):
        predicted = {r["workers"]: r["best_ns"] for r in record(0).ask("loader_overlap", workers=[1, 2])}
        measured = {workers: shortest(workers) for workers in (1, 2)}
        if all(predicted[workers] == pytest.approx(measured[workers], rel=0.2) for workers in (1, 2)):
            break
    assert predicted[1] == pytest.approx(measured[1], rel=0.2) and predicted[2] == pytest.approx(measured[2], rel=0.2)
    assert 60e6 < predicted[1] < 105e6 and 42e6 < predicted[2] < 60e6


def test_the_name_of_the_version_before(tmp_path):
    """A renamed question answers by its old name for one version, and says so."""
    trace = loop(tmp_path / "t.json", [(64, 40)] * 3)
    now, before = trace.ask("loader_overlap"), trace.ask("data_hidden")
    assert list(before) == list(now) and len(now) == 6 and before.question == "loader_overlap"
    assert before.notes == [
        *now.notes,
        "data_hidden is now called loader_overlap; the next version does not know the old name",
    ]
