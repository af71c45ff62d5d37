"""The model of the steps where one thread makes what another one takes from a queue. A simulator has the right
answers."""

import json
import random
import statistics

import pytest
import tachograph as tg

PUT_US, WAKE_US, GET_US = 1, 1, 2
MAKER, LOOP = 'name = "aten::randn" or name = "aten::tanh"', 'name = "aten::mm"'
BASE_NS = 1_700_000_000_000_000_000


def simulate(made, used, places):
    """made, used: by item, what it takes to make and to use it. The maker puts it into a queue with so many places, and
    waits while that is full; the loop takes it, or waits for it. → events, lengths of the steps."""
    free, begin, put_at, got_at, events, took = 0, 0, [], [], [], []

    def event(tid, name, at, end, category="cpu_op"):
        out = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": at, "dur": end - at}
        events.append(out)

    for k, own in enumerate(made):
        event(2, "aten::randn", free, free + own / 2)
        event(2, "aten::tanh", free + own / 2 + 1, free + own + 1)
        ready = free + own + 1 + PUT_US
        room = got_at[k - places] + WAKE_US if k >= places else 0
        if room > ready:
            event(2, "threading.Condition.wait", ready, room, "user_annotation")
        put_at.append(max(ready, room))
        free = put_at[k] + PUT_US
        came = begin + 1
        got_at.append(max(came + GET_US, put_at[k] + WAKE_US))
        event(1, "queue.Queue.get", came, got_at[k], "user_annotation")
        if put_at[k] > came:
            event(1, "threading.Condition.wait", came + 0.5, got_at[k] - 0.5, "user_annotation")
        end = got_at[k] + 1 + used[k]
        event(1, "aten::mm", got_at[k] + 1, end)
        event(1, f"ProfilerStep#{k}", begin, end, "user_annotation")
        took.append(end - begin)
        begin = end
    return events, took


def write(path, events, **conditions):
    document = {"baseTimeNanoseconds": BASE_NS, "traceEvents": events, "conditions": conditions}
    path.write_text(json.dumps(document))
    return str(path)


def ask(path, question, **args):
    with tg.open(path) as trace:
        return list(trace.ask(question, **args))


def saved_by(made, used, places, of_maker, of_loop):
    _, before = simulate(made, used, places)
    _, after = simulate([us * of_maker for us in made], [us * of_loop for us in used], places)
    return statistics.median(b - a for b, a in zip(before[1:], after[1:]))


@pytest.mark.parametrize("places", [1, 2, 4])
@pytest.mark.parametrize("made, used", [(700, 300), (300, 700), (560, 400)])
def test_a_queue_between_two_threads(tmp_path, made, used, places):
    """A maker that is slower: its work is on the path, and half of it saves up to what the loop takes. One that is
    faster: it waits while the queue is full, and half of the loop's work saves up to what the maker takes."""
    draw = random.Random(made + places)
    makes = [made + draw.randint(0, 20) for _ in range(20) for _ in (0, 1)]
    uses = [used + draw.randint(0, 20) for _ in range(20) for _ in (0, 1)]
    path = write(tmp_path / "t.json", simulate(makes, uses, places)[0])
    for names, factors in ((MAKER, (0.5, 1)), (LOOP, (1, 0.5)), (MAKER, (2, 1)), (LOOP, (1, 2))):
        factor = factors[0] * factors[1]
        (row,) = ask(path, "what_if", scale=f"{names} {factor}")
        assert row["verdict"] == "proven"
        assert row["saving_ns"] / 1000 == pytest.approx(saved_by(makes, uses, places, *factors), abs=12), (
            names,
            factor,
        )


def test_two_makers_of_one_queue_are_not_told_apart(tmp_path):
    """Two threads make one in turn, so no place of one of them comes as often as the loop takes: its waits are for
    nothing that is known. With one maker each of the 39 behind the first is for one of that one's."""
    events, _ = simulate([700] * 40, [300] * 40, 2)
    (row,) = ask(write(tmp_path / "one.json", events), "step_model")
    assert row["edges"] >= 38
    turn = {e["ts"]: k % 2 for k, e in enumerate(e for e in events if e["name"] == "aten::randn")}
    at = 0
    for e in sorted((e for e in events if e["tid"] == 2), key=lambda e: e["ts"]):
        at = turn.get(e["ts"], at)
        e["tid"] = 2 + at
    (row,) = ask(write(tmp_path / "two.json", events), "step_model")
    assert row["edges"] == 0


@pytest.mark.parametrize("cores, saved_us", [(1, 0), (2, 37_240), (4, 40_000)])
def test_threads_of_the_program_share_the_cores(tmp_path, cores, saved_us):
    """A step takes 70 ms, as long as its maker, the first 100, and the program uses one core: for 2830 ms in all 40.
    With the maker's work on another thread the loop takes 30 ms, but for the first and the last step: no call
    before the wait of the loop, and none behind what the maker made, says where they are. Two cores take 1415 ms for
    all: 100, 70, and 38 times 32.76."""
    events, _ = simulate([70_000] * 40, [30_000] * 40, 2)
    for k in range(1, 28):
        counter = {"ph": "C", "name": "process CPU %", "pid": 1, "tid": 1, "ts": 100_000 * k, "args": {"value": 100}}
        events.append(counter)
    path = write(tmp_path / "t.json", events, cpu_cores=cores, threads=1)
    (row,) = ask(path, "what_if", move_off=MAKER)
    assert row["saving_ns"] / 1000 == pytest.approx(saved_us, abs=100)
