"""what_if against the truth: a simulator makes the trace of a random program, and runs the changed program, too."""

import json
import random
import statistics

import pytest
import tachograph as tg

LAUNCH, LAG, GAP, BACK = 3, 5, 1, 2  # us: a launch call; launch to begin; between kernels; after a wait
STEPS = 9


def program(seed):
    """The calls of a step: an operator without a device, a kernel on a stream, or a wait for a stream or for all."""
    draw = random.Random(seed)
    calls = []
    for i in range(draw.randint(4, 12)):
        kind = draw.choice(["host", "kernel", "kernel", "kernel", "wait"])
        calls.append((kind, f"{kind}_{i}", draw.randint(1, 2), draw.randint(5, 60), draw.randint(1, 30)))
    return [("kernel", "first", 1, 40, 3), ("kernel", "other", 2, 30, 3), *calls, ("wait", "last", 0, 0, 5)]


def run(calls, seed, change=lambda name, step: 1.0, without=(), no_wait=(), late=None, spread=5):
    """Events, and how long each step is. Steps differ by up to a tenth; the k-th step is the same in every run."""
    events, ends, now, free, launched = [], [], 0, {1: 0, 2: 0}, 0

    def event(cat, name, pid, tid, start, dur, **args):
        args = {"cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur, "args": args}
        events.append({"ph": "X", **args})

    for step in range(STEPS):
        draw = random.Random(seed * 1000 + step)
        begin = now
        for kind, name, stream, dur, gap in calls:
            late_us = 0 if late is None else late.get(name, 0)
            now += 0 if late is None else late.get(name + "_op", 0)
            part, dur = draw.randint(100 - spread, 100 + spread), dur * 100
            dur = round(dur * part / 100 * change(name, step)) / 100
            if name not in without and kind == "host":
                now += late_us
                event("cpu_op", name, 1, 1, now, dur)
                now += dur
            if name not in without and kind == "kernel":
                launched += 1
                event("cpu_op", name + "_op", 1, 1, now, LAUNCH)
                event("cuda_runtime", "cudaLaunchKernel", 1, 1, now, LAUNCH, correlation=launched)
                at = max(now + LAG, free[stream] + GAP) + late_us
                event("kernel", name, 0, stream, at, dur, correlation=launched, device=0, stream=stream)
                free[stream] = at + dur
                now += LAUNCH
            if name not in without and kind == "wait":
                until = now if name in no_wait else max(now, *free.values())
                event("cuda_runtime", "cudaDeviceSynchronize", 1, 1, now, until - now + BACK)
                now = until + BACK
            now += gap
        event("user_annotation", f"ProfilerStep#{step}", 1, 1, begin, now - begin)
        ends.append(max(now, *free.values()))
    return events, [b - max(a, 0) for a, b in zip([0, *ends], ends)]


def ask(tmp_path, events, question, document=(), **args):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**dict(document), "traceEvents": events}))
    with tg.open(str(path)) as trace:
        return next(iter(trace.ask(question, **args)))


def saving_us(before, after):
    return statistics.median(b - a for b, a in zip(before, after))


@pytest.mark.parametrize("seed", range(12))
def test_saving_is_that_of_the_changed_program(tmp_path, seed):
    calls = program(seed)
    events, before = run(calls, seed)
    model = ask(tmp_path, events, "step_model")
    assert model["verdict"] == "proven" and model["self_error_pct"] < 0.01
    for name in ("first", "other", *(c[1] for c in calls[2:-1] if c[0] != "wait")):
        for part in (0.5, 2):
            _, after = run(calls, seed, change=lambda n, step: part if n == name else 1.0)
            row = ask(tmp_path, events, "what_if", scale=f'name = "{name}" {part}')
            assert row["saving_ns"] / 1000 == pytest.approx(saving_us(before, after), abs=0.05), (name, part)
            assert row["low_ns"] <= row["saving_ns"] <= row["high_ns"]


@pytest.mark.parametrize("seed", range(6))
def test_calls_that_are_gone_or_no_longer_wait(tmp_path, seed):
    calls = program(seed)
    events, before = run(calls, seed)
    for kind, name, *_ in calls:
        if kind == "wait":
            continue
        _, after = run(calls, seed, without=(name,))
        row = ask(tmp_path, events, "what_if", remove=f'name = "{name if kind == "host" else name + "_op"}"')
        assert row["changed"] == STEPS
        assert row["saving_ns"] / 1000 == pytest.approx(saving_us(before, after), abs=0.05), name
    _, after = run(calls, seed, no_wait={name for kind, name, *_ in calls if kind == "wait"})
    row = ask(tmp_path, events, "what_if", overlap='name ~ "Synchronize"')
    assert row["saving_ns"] / 1000 == pytest.approx(saving_us(before, after), abs=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_calls_and_work_that_begin_later(tmp_path, seed):
    """Kernels that never stood behind each other do then: the gap between them is not in the recording."""
    calls = program(seed)
    events, before = run(calls, seed)
    for kind, name, *_ in calls:
        for late, which in ((7, name), (40, name), (25, name + "_op")):
            if kind == "wait" or (kind == "host" and which != name):
                continue
            _, after = run(calls, seed, late={which: late})
            row = ask(tmp_path, events, "what_if", add=f'name = "{which}" {late}us')
            assert row["changed"] == STEPS
            assert row["saving_ns"] / 1000 == pytest.approx(
                saving_us(before, after), abs=0.05 + GAP * (kind == "kernel")
            ), (which, late)


def test_what_has_time_to_spare_may_begin_later(tmp_path):
    """A kernel of 100 us runs from 5 on; the operator beside it takes 30 from 10 on, and a wait from 40 to 105 follows:
    the operator may begin 65 us later, and of 80 the step pays 15."""
    calls = [("kernel", "k", 1, 100, LAG), ("host", "o", 0, 30, 0), ("wait", "w", 0, 0, 20)]
    events, _ = run(calls, 0)
    for late, grows in ((60, 0), (80, 15)):
        row = ask(tmp_path, events, "what_if", add=f'name = "o" {late}us')
        assert row["saving_ns"] / 1000 == pytest.approx(-grows, abs=8), late  # a tenth of 100 and of 30 is drawn
        assert (row["saving_ns"] == 0) == (grows == 0)


FETCH = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.parametrize("workers, step_us", [(1, 60), (2, 40), (8, 40)])
def test_workers_load_while_the_loop_computes(tmp_path, workers, step_us):
    """A step fetches for 60 us and computes for 40: with one worker it takes the longer of both, with two 30 and 40."""
    calls = [("host", FETCH, 0, 60, 0), ("host", "o", 0, 40, 0)]
    events, _ = run(calls, 0, spread=0)
    row = ask(tmp_path, events, "what_if", workers=workers)
    assert row["changed"] == STEPS and row["step_ns"] == 100_000
    assert row["step_ns"] - row["saving_ns"] == step_us * 1000


def steps_with_workers(fetches, computes, workers, rounds):
    """How torch's loader goes: the indices of two batches a worker are handed out in turn, and one more for each batch
    that the loop has received; the loop takes batches in order. A worker makes what it was handed one by one."""
    lengths, ready, free, now = [], [], [0] * workers, 0

    def hand_out():
        batch = len(ready)
        free[batch % workers] = max(free[batch % workers], now) + fetches[batch % len(fetches)]
        ready.append(free[batch % workers])

    for _ in range(2 * workers):
        hand_out()
    for step in range(rounds * len(computes)):
        begin = now
        now = max(now, ready[step])
        hand_out()
        now += computes[step % len(computes)]
        lengths.append(now - begin)
    return lengths


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("seed", range(6))
def test_the_queue_of_a_loader(tmp_path, seed, workers):
    """Batches that take one to six times a step's computing, and unequally long: a long one holds up those behind it.
    Two steps in a row are alike, so that one half of the steps foretells the other."""
    draw, steps = random.Random(seed), 12
    fetches = [us for _ in range(steps // 2) for us in [draw.randint(40, 40 + 40 * seed)] * 2]
    computes = [us for _ in range(steps // 2) for us in [draw.randint(30, 50)] * 2]
    events, at = [], 0
    for step, (fetch, compute) in enumerate(zip(fetches, computes)):
        base = {"ph": "X", "pid": 1, "tid": 1, "args": {}}
        events.append({**base, "cat": "cpu_op", "name": FETCH, "ts": at, "dur": fetch})
        events.append({**base, "cat": "cpu_op", "name": "aten::stack", "ts": at + 5, "dur": fetch - 10})
        events.append({**base, "cat": "cpu_op", "name": "aten::mm", "ts": at + fetch, "dur": compute})
        events.append(
            {**base, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": fetch + compute}
        )
        at += fetch + compute
    after = steps_with_workers(fetches, computes, workers, 60)[50 * steps :]
    before = [f + c for f, c in zip(fetches, computes)] * 2
    saved = [sum(before[i + k] - after[i + k] for k in range(workers)) / workers for i in range(steps)]
    row = ask(tmp_path, events, "what_if", workers=workers)
    assert row["verdict"] == "proven" and row["changed"] == steps
    assert row["saving_ns"] / 1000 == pytest.approx(statistics.median(saved), abs=0.002)


def test_more_workers_than_steps_show(tmp_path):
    """A fetch of 1.5 s that sleeps, and 1 ms of computing: 1024 workers hand over a batch each 1.46 ms."""
    events, _ = run([("host", FETCH, 0, 1_500_000, 0), ("host", "o", 0, 1000, 0)], 0, spread=0)
    row = ask(tmp_path, events, "what_if", workers=1024)
    assert row["step_ns"] - row["saving_ns"] == 1_500_000_000 // 1024


def test_no_worker_adds_cores(tmp_path):
    """On a machine of one core a step of 100 us, all of it on the core, saves nothing by any number of workers."""
    events, _ = run([("host", FETCH, 0, 60, 0), ("host", "o", 0, 40, 0)], 0, spread=0)
    for event in events:
        if event["cat"] == "user_annotation":
            event["args"]["Thread CPU us"] = event["dur"]
    for cores, saved in ((1, 0), (2, 50_000), (4, 60_000)):
        row = ask(tmp_path, events, "what_if", document={"conditions": {"cpu_cores": cores}}, workers=8)
        assert row["saving_ns"] == saved, cores


@pytest.mark.parametrize("cores, moved_us, halved_us", [(1, 0, 30), (2, 50, 30), (4, 60, 30)])
def test_what_another_thread_does_needs_a_core_too(tmp_path, cores, moved_us, halved_us):
    """A step of 100 us, all of it on a core: a call of 60 us that another thread makes saves nothing on one core, and
    on two what makes both equally long. Half of the call is gone on any machine."""
    events, _ = run([("host", "a", 0, 60, 0), ("host", "o", 0, 40, 0)], 0, spread=0)
    for event in events:
        if event["cat"] == "user_annotation":
            event["args"]["Thread CPU us"] = event["dur"]
    document = {"conditions": {"cpu_cores": cores}}
    for change, saved_us in (({"move_off": 'name = "a"'}, moved_us), ({"scale": 'name = "a" 0.5'}, halved_us)):
        row = ask(tmp_path, events, "what_if", document=document, **change)
        assert row["saving_ns"] == saved_us * 1000, change


@pytest.mark.parametrize("doing", ["poll", "lock", "gil", "running"])
def test_a_wait_that_nothing_explains_goes_into_the_range(tmp_path, doing):
    """The loop computes for 600 us, waits for the answer of a pool for 400, or a gap of 400 us shows no more than what
    it is seen doing, and works for 10. With 300 us less to compute a step saves 300 if the wait is as long; or nothing,
    if the others go at their own pace."""
    events = []
    for step in range(8):
        at, base = 1010 * step, {"ph": "X", "pid": 1, "tid": 1, "cat": "cpu_op"}
        events.append({**base, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": at, "dur": 1010})
        events.append({**base, "name": "a", "ts": at, "dur": 600})
        events.append({**base, "name": "o", "ts": at + 1000, "dur": 10})
        events.append({**base, "tid": 99, "cat": "python_sample", "name": doing, "ts": at + 601, "dur": 398})
        if doing == "poll":
            wait = {"cat": "user_annotation", "name": "concurrent.futures.Future.result", "ts": at + 600, "dur": 400}
            events.append({**base, **wait})
    row = ask(tmp_path, events, "what_if", scale='name = "a" 0.5')
    assert row["saving_ns"] == row["high_ns"] == 300_000
    assert row["low_ns"] == (300_000 if doing == "running" else pytest.approx(0, abs=2000))


def test_the_finding_of_a_loader_has_the_saving_of_two_workers(tmp_path):
    """Steps fetch for 180 us and compute for 40, all of it on one of two cores. Two workers would make that 90 us, as
    the rule has it; the two cores make it 110."""
    events, _ = run([("host", FETCH, 0, 180, 0), ("host", "o", 0, 40, 0)], 0, spread=0)
    for event in events:
        if event["cat"] == "user_annotation":
            event["args"]["Thread CPU us"] = event["dur"]
    two_cores = {"conditions": {"cpu_cores": 2}}
    model = ask(tmp_path, events, "what_if", document=two_cores, workers=2)
    finding = ask(tmp_path, events, "findings", document=two_cores)
    assert finding["saving_ns"] == finding["model_ns"] == model["saving_ns"] == 110_000
    assert finding["rule_ns"] == 130_000


def test_workers_that_are_there_already(tmp_path):
    events, _ = run([("host", FETCH.replace("SingleProcess", "MultiProcessing"), 0, 60, 0), ("host", "o", 0, 40, 0)], 0)
    with pytest.raises(tg.TachographError, match="the loader has worker processes already"):
        ask(tmp_path, events, "what_if", workers=4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"workers": 1025},
        {"workers": "x"},
        {"add": 'name = "x" 5'},
        {"add": 'name = "x" -1ms'},
        {"add": "5ms"},
        {"scale": "name"},
        {"scale": 'name = "x" -1'},
        {"remove": "nme = 3"},
    ],
)
def test_what_is_not_understood(tmp_path, wrong):
    with pytest.raises(tg.TachographError) as refusal:
        ask(tmp_path, run(program(0), 0)[0], "what_if", **wrong)
    assert len(str(refusal.value)) > 20


@pytest.mark.parametrize("change, note", [([], "say what does"), (["--remove", 'name = "x"'], "Nothing in the steps")])
def test_no_change_saves_nothing(tachograph, tmp_path, change, note):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": run(program(0), 0)[0]}))
    table = json.loads(tachograph("ask", path, "what_if", *change, "--json").stdout)
    row = dict(zip((c["name"] for c in table["columns"]), table["rows"][0]))
    assert [row[k] for k in ("verdict", "saving_ns", "low_ns", "high_ns")] == ["proven", 0, 0, 0]
    assert note in " ".join(table["notes"])
