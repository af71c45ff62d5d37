"""Where a finding points to when Python calls were not recorded: the stacks that operators carry say it."""

import json

import tachograph as tg


def slice_event(name, ts, dur, cat="cpu_op", stack=None, **more):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": dur,
        "args": {"Call stack": stack} if stack else {},
        **more,
    }


def findings(tmp_path, events):
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    with tg.open(tmp_path / "trace.json") as trace:
        return {row["cause"]: row for row in trace.ask("findings")}


def steps(count=4):
    return [slice_event(f"ProfilerStep#{k}", 1000 * k, 1000, "user_annotation") for k in range(count)]


def test_the_pause_lies_between_two_lines_of_the_program(tmp_path):
    events = steps()
    for k in range(4):
        events.append(
            slice_event(
                "aten::sort", 1000 * k, 100, stack="torch/_tensor.py(1): sort;train.py(10): load;train.py(30): main"
            )
        )
        events.append(slice_event("aten::add", 1000 * k + 700, 100, stack="train.py(12): train;train.py(30): main"))
        events.append(slice_event("aten::mul", 1000 * k + 850, 150, stack="train.py(14): train;train.py(30): main"))
        events.append(slice_event("Python GC", 1000 * k + 300, 2, "python_function"))
    found = findings(tmp_path, events)
    assert "gc-pressure" not in found  # the collector took 2 of 650 quiet µs
    place = found["slow-python-transform"]
    assert place["where"] == "between train.py(10): load and (12): train"
    # a pause of 0.60 ms, and one of 0.05 that goes on from its line, each less the 20 us of any
    assert "0.61 ms of them there" in place["evidence"] and place["share_pct"] == 61


def test_a_collector_that_takes_the_time_is_named(tmp_path):
    events = steps()
    for k in range(4):
        events.append(slice_event("aten::add", 1000 * k, 300, stack="train.py(12): train"))
        events.append(slice_event("aten::add", 1000 * k + 900, 100, stack="train.py(12): train"))
        events.append(slice_event("<built-in function collect>", 1000 * k + 320, 550, "python_function"))
    assert "gc-pressure" in findings(tmp_path, events)


def test_waiting_for_the_loader_is_no_pause_of_the_program(tmp_path):
    events = steps()
    for k in range(4):
        events.append(
            slice_event(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                1000 * k,
                500,
                "user_annotation",
                stack="torch/utils/data/dataloader.py(7): __next__;train.py(9): train",
            )
        )
        events.append(slice_event("aten::add", 1000 * k + 700, 300, stack="train.py(12): train"))
    found = findings(tmp_path, events)
    assert found["loader-in-main-process"]["where"].endswith(" at train.py(9): train")
    assert found["slow-python-transform"]["where"] == "between train.py(9) and (12): train"
    assert "0.18 ms of them there" in found["slow-python-transform"]["evidence"]  # 0.20 less 20 us
