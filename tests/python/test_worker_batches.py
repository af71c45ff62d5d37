"""A loader that has worker processes: the batches that the recorder marks are in the model of the steps, so it predicts
other workers, or faster ones. A simulator of torch's loader has the right answers."""

import json
import random
import statistics
import subprocess
import sys

import pytest
import tachograph as tg

FETCH = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LABEL = "DataLoader batch"
MAIN, WORKER = 1, 100  # process numbers; of workers from here on
OWN_US, LATE_US = 10, 3  # the loop receives a batch; a worker that is asked begins


def simulate(fetches, computes, workers, steps, ahead=2, late=LATE_US, part=1.0):
    """The indices of `ahead` batches a worker are handed out in turn, and one more for each batch that the loop has
    received; it takes batches in order. → of each step when it begins, waited until, received, ended, and of each batch
    its worker, begin and end."""
    loop, batches, free, now = [], [], [0] * workers, 0

    def hand_out():
        worker = len(batches) % workers
        begin = max(free[worker] + 1, now + late)
        free[worker] = begin + fetches[len(batches) % len(fetches)] * part
        batches.append((worker, begin, free[worker]))

    for _ in range(ahead * workers):
        hand_out()
    for step in range(steps):
        begin, ready = now, max(now, batches[step][2])
        now = ready + OWN_US
        hand_out()
        received, now = now, now + computes[step % len(computes)]
        loop.append((begin, ready, received, now))
    return loop, batches


def recorded(loop, batches, first, fetch=FETCH, shift=0):
    """Events of the steps from `first` on, and of all batches up to their end."""
    events, origin = [], loop[first][0]

    def event(ph, category, name, pid, at, **more):
        events.append({"ph": ph, "cat": category, "name": name, "pid": pid, "tid": pid, "ts": at - origin, **more})

    def counter(worker, pid, number, at):
        name = f"{LABEL} of process {WORKER + shift + worker}"
        event("C", "", name, pid, at, args={"value": number})

    for number, (begin, _, received, end) in enumerate(loop):
        if number < first:
            continue
        event("X", "user_annotation", fetch, MAIN, begin, dur=received - begin, args={})
        counter(batches[number][0], MAIN, number, received - 1)
        event("X", "cpu_op", "aten::mm", MAIN, received, dur=end - received, args={})
        event("X", "user_annotation", f"ProfilerStep#{number}", MAIN, begin, dur=end - begin, args={})
    for number, (worker, begin, end) in enumerate(batches):
        if end > loop[-1][3]:
            continue
        event("X", "user_annotation", LABEL, WORKER + shift + worker, begin, dur=end - begin, args={})
        counter(worker, WORKER + shift + worker, number, begin)
        event("X", "cpu_op", "aten::stack", WORKER + shift + worker, begin, dur=end - begin, args={})
    return sorted(events, key=lambda e: e["ts"])


def lengths(loop):
    return [end - begin for begin, _, _, end in loop]


def ask(folder, events, question, loader=None, **args):
    path = folder / "t.json"
    path.write_text(json.dumps({"traceEvents": events, "conditions": {"loader": loader or {}}}))
    with tg.open(str(path)) as trace:
        return list(trace.ask(question, **args))


def test_one_worker_becomes_two(tmp_path):
    """A batch takes 90 us, and 1 until the next; the loop receives it in 10 and computes for 40. One worker is never
    idle: a step takes 91. Two hand over one each 45: the loop takes 50 for a step, so 41 are saved."""
    loop, batches = simulate([90], [40], 1, 24)
    assert set(lengths(loop)[8:]) == {91}
    events = recorded(loop, batches, 8)
    (model,) = ask(tmp_path, events, "step_model")
    assert model["verdict"] == "proven" and model["self_error_pct"] == 0 and model["unexplained_pct"] < 10
    (row,) = ask(tmp_path, events, "what_if", workers=2)
    assert (row["changed"], row["step_ns"], row["predicted_ns"], row["saving_ns"]) == (16, 91_000, 50_000, 41_000)
    (row,) = ask(tmp_path, events, "what_if", workers=1)
    assert abs(row["saving_ns"]) <= 1000  # the us between two batches


@pytest.mark.parametrize("workers, other", [(1, 3), (2, 1), (2, 4), (3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_another_number_of_workers(tmp_path, seed, workers, other):
    """Batches take one to four times a step's computing, and unequally long. With as many workers as there are nothing
    is saved; with others what the simulator says, but for the time that a worker takes to begin."""
    draw, steps, ahead = random.Random(seed), 12, 2 + seed % 2
    fetches = [us for _ in range(steps // 2) for us in [draw.randint(40, 60 + 40 * seed)] * 2]
    computes = [us for _ in range(steps // 2) for us in [draw.randint(30, 50)] * 2]
    loop, batches = simulate(fetches, computes, workers, 70 * steps, ahead)
    after, _ = simulate(fetches, computes, other, 70 * steps, ahead)
    events = recorded(loop[: 60 * steps], batches, 58 * steps)
    settings = {"num_workers": workers, "prefetch_factor": ahead}
    (model,) = ask(tmp_path, events, "step_model", settings)
    assert model["verdict"] == "proven" and model["self_error_pct"] < 0.01, model
    mean = [statistics.mean(lengths(of)[58 * steps :]) for of in (loop, after)]
    for count, saved in ((other, mean[0] - mean[1]), (workers, 0)):
        rows = ask(tmp_path, events, "what_if", settings, workers=count, by="step")
        got = statistics.mean(row["saving_ns"] for row in rows) / 1000
        assert got == pytest.approx(saved, abs=0.02 * mean[0]), (count, mean)


def test_faster_workers_hand_over_earlier(tmp_path):
    """Two workers take 200 us for a batch, and 1 until the next: a step takes 100.5. In half of that it takes
    50.5, once the batches are gone that were begun before the steps."""
    loop, batches = simulate([200], [40], 2, 40)
    events = recorded(loop, batches, 20)
    rows = ask(tmp_path, events, "what_if", {"num_workers": 2}, scale='name = "aten::stack" 0.5', by="step")
    after, _ = simulate([200], [40], 2, 40, part=0.5)
    assert statistics.mean(lengths(after)[-8:]) == 50.5
    assert statistics.mean(row["predicted_ns"] for row in rows[-8:]) == 50_500


def test_two_loaders_with_the_same_numbers(tmp_path):
    """A second loader of other workers has batches of the same numbers, which are made at other times."""
    loop, batches = simulate([90], [40], 1, 24)
    events = recorded(loop, batches, 8)
    others = [(worker, begin - 30, end - 60) for worker, begin, end in batches]
    more = [e for e in recorded(loop, others, 8, shift=50) if e["pid"] >= WORKER]
    (alone,) = ask(tmp_path, events, "what_if", workers=2)
    (both,) = ask(tmp_path, sorted(events + more, key=lambda e: e["ts"]), "what_if", {"num_workers": 1}, workers=2)
    assert both["saving_ns"] == alone["saving_ns"] == 41_000


def test_the_finding_has_the_saving_of_the_workers_that_it_proposes(tmp_path):
    """A batch takes 9 ms and 1 us until the next, and the loop 4 ms and 10 us. With a worker for each of four cores the
    loop waits no more: 9.001 - 4.010 ms."""
    loop, batches = simulate([9000], [4000], 1, 24)
    path = tmp_path / "t.json"
    settings = {"cpu_cores": 4, "loader": {"num_workers": 1, "prefetch_factor": 2}}
    path.write_text(json.dumps({"traceEvents": recorded(loop, batches, 8), "conditions": settings}))
    with tg.open(str(path)) as trace:
        finding = next(iter(trace.ask("findings")))
    assert finding["cause"] == "loader-too-slow" and "num_workers=4" in finding["advice"]
    assert finding["model_ns"] == 4_991_000


@pytest.mark.parametrize("known, refused", [(15, False), (9, False), (3, True), (0, True)])
def test_batches_of_which_one_side_is_missing(tmp_path, known, refused):
    """Where the recording has the worker's side of fewer than half of the batches, there is no prediction."""
    loop, batches = simulate([90], [40], 1, 24)
    events = recorded(loop, batches, 8)
    made = [e for e in events if e["pid"] >= WORKER and e["name"] == LABEL]
    from_us = sorted(e["ts"] for e in made)[-known] if known else float("inf")
    events = [e for e in events if e["pid"] < WORKER or e["ts"] >= from_us]
    if not known:
        with pytest.raises(tg.TachographError, match="the trace does not say how long they take"):
            ask(tmp_path, events, "what_if", workers=2)
        return
    (row,) = ask(tmp_path, events, "what_if", workers=2)
    assert (row["verdict"] == "refused") == refused
    assert refused or row["saving_ns"] == pytest.approx(41_000, abs=1000)
    assert not refused or "how long a worker took" in row["reason"]


RECORDS = """
import sys, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from tachograph import _record
from tachograph._collect.native import NativeRecording
from tachograph._launch.batches import Batches
from torch.utils.data._utils import fetch
class Items(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, i):
        return torch.full((2,), float(i))
class Stream(IterableDataset):
    def __iter__(self):  # the second worker ends earlier
        return iter([torch.zeros(2)] * (8 if get_worker_info().id == 0 else 4))
folder, kind = sys.argv[1:]
before = vars(fetch._MapDatasetFetcher)["fetch"], vars(fetch._IterableDatasetFetcher)["fetch"]
recording = NativeRecording(folder + "/run.tacho", _record.OPS)
recording.start()
batches = Batches(_record)
loader = DataLoader(
    Stream() if kind == "iterable" else Items(), batch_size=2, num_workers=2, multiprocessing_context="fork",
    persistent_workers=kind == "persistent", prefetch_factor=1 if kind == "one ahead" else 2,
)
for _ in range(2):
    for batch in loader:
        torch.ones(1).add(1)
for _ in DataLoader(Items(), batch_size=2):  # in the process itself: nothing is marked
    pass
del loader
batches.remove()
recording.stop()
assert before == (vars(fetch._MapDatasetFetcher)["fetch"], vars(fetch._IterableDatasetFetcher)["fetch"])
assert "_rcvd_idx" not in vars(torch.utils.data.dataloader._MultiProcessingDataLoaderIter)
"""


@pytest.mark.parametrize(
    "kind, batches",
    [("map", 6), ("iterable", 6), *(pytest.param(k, 6, marks=pytest.mark.long) for k in ("persistent", "one ahead"))],
)
def test_the_recorder_marks_batches(tmp_path, kind, batches):
    """Two epochs of 6 batches. With one batch ahead a worker the first one's worker is not known. A worker that comes
    to the end of its data begins one batch more."""
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", RECORDS, str(tmp_path), kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tg.open(str(tmp_path)) as trace:
        trace.export(str(tmp_path / "out.json"), to="chrome")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    made = [e for e in events if e["name"] == LABEL]
    counters = [e for e in events if e["name"].startswith(f"{LABEL} of process ")]
    workers = {e["pid"] for e in made}
    assert len(workers) == (2 if kind == "persistent" else 4)
    assert len(made) >= 2 * batches if kind == "iterable" else len(made) == 2 * batches
    by_side = [[e for e in counters if (e["pid"] in workers) == is_made] for is_made in (True, False)]
    assert {e["name"].rsplit(" ")[-1] for e in by_side[0]} == {str(pid) for pid in workers}
    assert all(e["name"].endswith(f" {e['pid']}") for e in by_side[0])
    own = [(e["name"], e["args"]["value"]) for e in by_side[0]]
    taken = [(e["name"], e["args"]["value"]) for e in by_side[1]]
    assert sum(one in own for one in taken) >= 2 * (batches - 1), (taken, own)
    if kind != "iterable":  # there the loop passes over the batches of a worker that has ended
        first = 1 if kind == "one ahead" else 0
        assert sorted(number for _, number in taken) == sorted([*range(first, batches)] * 2)


@pytest.mark.parametrize("cores, step_us", [(1, 140), (2, 70), (4, 50)])
def test_workers_share_cores_with_the_loop(tmp_path, cores, step_us):
    """A batch takes 90 us of a core, and the loop 50 for a step: two cores take 70 for both, however many workers."""
    loop, batches = simulate([90], [40], 1, 24)
    events = recorded(loop, batches, 8)
    for made in [e for e in events if e["pid"] >= WORKER and e["name"] == LABEL]:
        counter = {"ph": "C", "cat": "", "name": f"{LABEL} CPU us", "args": {"value": 90}}
        events.append({**made, **counter, "ts": made["ts"] + 89})
    for step in [e for e in events if e["name"].startswith("ProfilerStep")]:
        step["args"] = {"Thread CPU us": 50}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events, "conditions": {"cpu_cores": cores}}))
    with tg.open(str(path)) as trace:
        (row,) = trace.ask("what_if", workers=4)
    assert row["step_ns"] == 91_000 and row["saving_ns"] == 91_000 - step_us * 1000
