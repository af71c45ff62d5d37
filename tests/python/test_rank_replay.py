"""The model of the steps of several ranks: in a collective each waits for the last one. A simulator has the right
answers."""

import json
import random
import statistics

import pytest
import tachograph as tg

LAG_US, TRANSFER_US, BACK_US, TAIL_US, CALL_US = 5, 20, 1, 10, 4
BASE_NS = 1_700_000_000_000_000_000
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def simulate(computes):
    """computes: by rank, then step. A rank computes, launches an all_reduce and waits for it; it transfers once all
    ranks have come. → by rank, then step: begin, launch, end of the collective, end."""
    steps, now = [[] for _ in computes], [0.0] * len(computes)
    for k in range(len(computes[0])):
        launched = [now[r] + of[k] for r, of in enumerate(computes)]
        done = max(launched) + LAG_US + TRANSFER_US
        for r in range(len(computes)):
            end = done + BACK_US + TAIL_US
            steps[r].append((now[r], launched[r], done, end))
            now[r] = end
    return steps


def events_of(steps, world, library="nccl"):
    out = []

    def event(category, name, tid, at, dur, pid=1, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": args}
        out.append(event)

    for k, (begin, launch, done, end) in enumerate(steps):
        event("user_annotation", f"ProfilerStep#{k}", 1, begin, end - begin)
        event("cpu_op", "aten::mm", 1, begin, launch - begin)
        if library == "gloo":  # its two threads take turns; the loop waits where nothing is recorded
            event("cpu_op", "c10d::allreduce_", 1, launch, 4)
            event("user_annotation", "gloo:all_reduce", 30 + k % 2, launch + LAG_US, done - launch - LAG_US)
            event("cpu_op", "aten::add_", 1, done + BACK_US, TAIL_US)
            continue
        own = {"Collective name": "allreduce", "dtype": "Float", "Group size": world, "In msg nelems": 64, "Seq": k,
               "Process Group Name": "0"}  # fmt: skip
        event("cpu_op", "c10d::allreduce_", 1, launch, 4)
        event("cpu_op", "record_param_comms", 1, launch, 3.5, **own)
        event("user_annotation", "nccl:all_reduce", 1, launch, 3)
        event("cuda_runtime", "cudaLaunchKernelExC", 1, launch, 2, correlation=k + 1)
        at = launch + LAG_US
        event("kernel", KERNEL, 20, at, done - at, pid=0, device=0, stream=20, correlation=k + 1)
        event("cuda_runtime", "cudaDeviceSynchronize", 1, launch + 4, done + BACK_US - launch - 4)
        event("cpu_op", "aten::add_", 1, done + BACK_US, TAIL_US)
    return out


def write_ranks(folder, events, world=None, library="nccl"):
    """events: by rank. Each rank has a clock of its own, which counts from another moment."""
    folder.mkdir()
    for rank, of in enumerate(events):
        document = {
            "distributedInfo": {"backend": library, "rank": rank, "world_size": world or len(events)},
            "baseTimeNanoseconds": BASE_NS + 1_000_000 * rank,
            "traceEvents": of,
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return str(folder)


def write(folder, computes, world=None, library="nccl"):
    shifted = [[[t + 37 * rank for t in step] for step in steps] for rank, steps in enumerate(simulate(computes))]
    of = [events_of(steps, world or len(computes), library) for steps in shifted]
    return write_ranks(folder, of, world, library)


def ask(path, question, **args):
    with tg.open(path) as trace:
        table = trace.ask(question, **args)
        return list(table), table.notes


def lengths(computes):
    return [end - begin for begin, _, _, end in simulate(computes)[0]]


@pytest.mark.parametrize("library", ["nccl", "gloo"])
def test_two_ranks_by_hand(tmp_path, library):
    """Rank 0 computes for 100 us and rank 1 for 160: a step takes 160 + 5 + 20 + 1 + 10 = 196 on both. With half of it
    on rank 1 rank 0 is the last, and a step takes 136; with half of it on both, 80 + 36 = 116."""
    path = write(tmp_path / "job", [[100] * 8, [160] * 8], library=library)
    rows, notes = ask(path, "step_model")
    assert [(row["rank"], row["verdict"], row["recorded_ns"], row["self_error_pct"]) for row in rows] == [
        (0, "proven", 196_000, 0), (1, "proven", 196_000, 0)]  # fmt: skip
    assert "Collectives in which the ranks wait for the last one in the model: 8." in notes, notes
    half = 'name = "aten::mm" 0.5'
    for args, saved in (({"on_rank": 1}, [60_000] * 2), ({}, [80_000] * 2), ({"on_rank": 0}, [0] * 2)):
        rows, _ = ask(path, "what_if", scale=half, **args)
        assert [row["saving_ns"] for row in rows] == saved, args
    rows, _ = ask(path, "what_if", scale='name = "aten::mm" 2', on_rank=0)
    assert [row["saving_ns"] for row in rows] == [-40_000] * 2  # it is the last then, by 40 us
    rows, notes = ask(path, "what_if", scale=half, on_rank=1, by="step")
    assert [(row["rank"], row["saving_ns"]) for row in rows] == [(rank, 60_000) for rank in (0, 1) for _ in range(8)]
    assert not any("Nothing" in note for note in notes)
    _, notes = ask(path, "what_if", remove='name = "no such"')
    assert any("Nothing in the steps is selected" in note for note in notes)
    for rank, saved in ((0, 50_000), (1, 80_000)):  # of one rank, with the others as they were
        ((row,), _) = ask(path, "what_if", scale=half, rank=rank)
        assert (row["rank"], row["saving_ns"]) == (rank, saved)


@pytest.mark.parametrize("library", ["nccl", "gloo"])
@pytest.mark.parametrize("seed", range(4))
def test_ranks_that_come_last_in_turn(tmp_path, seed, library):
    """Three ranks with steps of random length, of which two in a row are alike."""
    draw, steps = random.Random(seed), 12
    computes = [[us for _ in range(steps // 2) for us in [draw.randint(40, 200)] * 2] for _ in range(3)]
    path, before = write(tmp_path / "job", computes, library=library), lengths(computes)
    for rank in (None, 0, 1, 2):
        on = {} if rank is None else {"on_rank": rank}
        after = lengths([[us * (0.6 if rank in (None, r) else 1) for us in of] for r, of in enumerate(computes)])
        rows, _ = ask(path, "what_if", scale='name = "aten::mm" 0.6', **on)
        assert [row["verdict"] for row in rows] == ["proven"] * 3
        saved = statistics.median(b - a for b, a in zip(before, after))
        assert [row["saving_ns"] / 1000 for row in rows] == [pytest.approx(saved, abs=0.01)] * 3, rank


def test_a_rank_that_is_missing_is_named(tmp_path):
    path = write(tmp_path / "job", [[100] * 8, [160] * 8], world=3)
    rows, notes = ask(path, "step_model")
    assert len(rows) == 2
    assert "Collectives that keep their recorded length, as rank 2 has no model: 8." in notes, notes


@pytest.mark.parametrize("args", [{"on_rank": 2}, {"on_rank": "x"}, {"on_rank": 1, "rank": 0}])
def test_no_such_rank(tmp_path, args):
    path = write(tmp_path / "job", [[100] * 8, [160] * 8])
    with pytest.raises(tg.TachographError, match="on_rank"):
        ask(path, "what_if", remove='name = "aten::mm"', **args)


def simulate_buckets(computes):
    """computes: by rank, then step: the times before the two buckets. A rank asks for the first, computes on, asks for
    the second, and waits for both; the library has a thread for each. → by rank: events, lengths of the steps."""
    now, events, took = [0] * len(computes), [[] for _ in computes], [[] for _ in computes]
    for k in range(len(computes[0])):
        asked = [[now[r] + of[k][0], now[r] + of[k][0] + CALL_US + of[k][1]] for r, of in enumerate(computes)]
        done = [max(of[b] for of in asked) + LAG_US + TRANSFER_US for b in (0, 1)]
        for r, out in enumerate(events):
            put(out, 1, f"ProfilerStep#{k}", now[r], max(done) + BACK_US + TAIL_US, "user_annotation")
            for b, begin in enumerate((now[r], asked[r][0] + CALL_US)):
                put(out, 1, ("aten::mm", "aten::bmm")[b], begin, asked[r][b])
                put(out, 30 + b, "gloo:all_reduce", asked[r][b] + LAG_US, done[b], "user_annotation")
                put(out, 1, "c10d::allreduce_", asked[r][b], asked[r][b] + CALL_US)
            put(out, 1, "aten::add_", max(done) + BACK_US, max(done) + BACK_US + TAIL_US)
            took[r].append(max(done) + BACK_US + TAIL_US - now[r])
            now[r] = max(done) + BACK_US + TAIL_US
    return events, took


def put(out, tid, name, begin, end, category="cpu_op"):
    out.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": begin, "dur": end - begin})


@pytest.mark.parametrize("seed", range(3))
def test_buckets_that_a_host_library_sends_beside_the_pass(tmp_path, seed):
    draw = random.Random(seed)
    computes = [[step for _ in range(6) for step in [(draw.randint(40, 200), draw.randint(40, 200))] * 2]
                for _ in range(2)]  # fmt: skip
    events, before = simulate_buckets(computes)
    path = write_ranks(tmp_path / "job", events, library="gloo")
    for name, place in (("aten::mm", 0), ("aten::bmm", 1)):
        for rank in (0, 1):
            changed = [[tuple(us * (0.25 if (r, b) == (rank, place) else 1) for b, us in enumerate(step)) for step in of]
                       for r, of in enumerate(computes)]  # fmt: skip
            _, after = simulate_buckets(changed)
            rows, _ = ask(path, "what_if", scale=f'name = "{name}" 0.25', on_rank=rank)
            saved = [statistics.median(b - a for b, a in zip(*of)) for of in zip(before, after)]
            assert [row["saving_ns"] / 1000 for row in rows] == [pytest.approx(us, abs=0.01) for us in saved], (
                name,
                rank,
            )


def simulate_broadcast(computes):
    """computes: by rank, then step: the times before a broadcast of rank 0 and before an all_reduce. Rank 0 sends and
    goes on; the others wait for it. → by rank: events, lengths of the steps."""
    now, events, took = [0] * len(computes), [[] for _ in computes], [[] for _ in computes]
    for k in range(len(computes[0])):
        asked = [now[r] + of[k][0] for r, of in enumerate(computes)]
        sent = [max(asked[0], asked[r]) + LAG_US + TRANSFER_US for r in range(len(computes))]
        asked_all = [sent[r] + BACK_US + of[k][1] for r, of in enumerate(computes)]
        done = max(asked_all) + LAG_US + TRANSFER_US
        for r, out in enumerate(events):
            put(out, 1, f"ProfilerStep#{k}", now[r], done + BACK_US + TAIL_US, "user_annotation")
            put(out, 1, "aten::mm", now[r], asked[r])
            put(out, 1, "c10d::broadcast_", asked[r], asked[r] + CALL_US)
            put(out, 30, "gloo:broadcast", asked[r] + LAG_US, sent[r], "user_annotation")
            put(out, 1, "aten::bmm", sent[r] + BACK_US, asked_all[r])
            put(out, 1, "c10d::allreduce_", asked_all[r], asked_all[r] + CALL_US)
            put(out, 30, "gloo:all_reduce", asked_all[r] + LAG_US, done, "user_annotation")
            put(out, 1, "aten::add_", done + BACK_US, done + BACK_US + TAIL_US)
            took[r].append(done + BACK_US + TAIL_US - now[r])
            now[r] = done + BACK_US + TAIL_US
    return events, took


@pytest.mark.parametrize("computes", [[(100, 300), (160, 250)], [(160, 300), (100, 300)], [(100, 200), (200, 210)]])
def test_the_root_of_a_broadcast_on_the_host_does_not_wait(tmp_path, computes):
    steps = [[of] * 12 for of in computes]
    events, before = simulate_broadcast(steps)
    path = write_ranks(tmp_path / "job", events, library="gloo")
    for name, place in (("aten::mm", 0), ("aten::bmm", 1)):
        for rank, factor in ((0, 0.25), (1, 0.25), (0, 1.1), (1, 1.1)):
            changed = [[tuple(us * (factor if (r, b) == (rank, place) else 1) for b, us in enumerate(step))
                        for step in of] for r, of in enumerate(steps)]  # fmt: skip
            _, after = simulate_broadcast(changed)
            rows, _ = ask(path, "what_if", scale=f'name = "{name}" {factor}', on_rank=rank)
            saved = [statistics.median(b - a for b, a in zip(*of)) for of in zip(before, after)]
            assert [row["saving_ns"] / 1000 for row in rows] == [pytest.approx(us, abs=0.1) for us in saved], rows


@pytest.mark.parametrize(
    "gaps, saved_us",
    [
        ([(20, "")], 50),  # the thread goes on at once
        ([(200, "")], 0),  # it may have computed all the time
        ([(200, "lock")], 50),  # it is seen waiting
        ([(20, "running")], 0),  # it is seen working
        ([(20, ""), (200, ""), (200, "")], 50),  # behind the same call it waits in each step, as is seen in some
        ([(20, "running"), (20, "lock"), (200, "running"), (200, "")], 0),
    ],
)
def test_a_gap_is_a_wait_where_the_thread_goes_on_at_once_or_is_seen_waiting(tmp_path, gaps, saved_us):
    """Asked for at 2 ms, the collective takes 100 us. The thread begins its next operator so long after that; up to
    the end of the collective it was looked at, or not. With half of the collective a step takes 50 us less, or
    nothing."""
    events, now = [], 0
    for k in range(12):
        rest_us, looks = gaps[k // 2 % len(gaps)]
        end = now + 2104 + rest_us + TAIL_US
        put(events, 1, f"ProfilerStep#{k}", now, end, "user_annotation")
        put(events, 1, "aten::mm", now, now + 2000)
        put(events, 1, "c10d::allreduce_", now + 2000, now + 2000 + CALL_US)
        put(events, 30, "gloo:all_reduce", now + 2004, now + 2104, "user_annotation")
        if looks:
            put(events, 40, looks, now + 2010, now + 2099, "python_sample")
        put(events, 1, "aten::add_", end - TAIL_US, end)
        now = end
    path = write_ranks(tmp_path / "job", [events], library="gloo")
    ((row,), _) = ask(path, "what_if", scale='name = "gloo:all_reduce" 0.5')
    assert (row["verdict"], row["saving_ns"]) == ("proven", saved_us * 1000)


def test_a_call_that_lasts_longer_than_its_collective_is_a_wait_once_that_is_longer(tmp_path):
    """The call takes 100 us in every other pair of steps, in which the collective of 50 us has ended before it; else 4
    us, and the thread waits for 46. With 30 us more for the collective the first grow by nothing, the others by 30."""
    events, now = [], 0
    for k in range(12):
        call_us = 100 if k // 2 % 2 else 4
        end = now + 2000 + max(call_us, 50) + 10 + TAIL_US
        put(events, 1, f"ProfilerStep#{k}", now, end, "user_annotation")
        put(events, 1, "aten::mm", now, now + 2000)
        put(events, 1, "c10d::allreduce_", now + 2000, now + 2000 + call_us)
        put(events, 30, "gloo:all_reduce", now + 2000, now + 2050, "user_annotation")
        put(events, 1, "aten::add_", end - TAIL_US, end)
        now = end
    path = write_ranks(tmp_path / "job", [events], library="gloo")
    for factor, longer in ((1.6, [30, 0]), (4, [150, 100])):
        rows, _ = ask(path, "what_if", scale=f'name = "gloo:all_reduce" {factor}', by="step")
        assert [row["saving_ns"] // 1000 for row in rows[1:]] == [-longer[k // 2 % 2] for k in range(1, 12)], factor
