"""What profile() has beyond torch.profiler: labels for modules, session folders, its own price, budgets, advice."""

import json
import logging
import os
import re
import threading
import time
import types

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, CPU, CUDA, loop, names, needs_no_cuda, quiet_schedule
from tachograph import _say
from tachograph._collect.record_cost import Price
from tachograph._profile import nvtx as _nvtx, windows as _window
from tachograph._profile.step_times import StepTimes


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_module_labels(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2)))
    keys = list(model.state_dict())
    with tg.profile(activities=[CPU], backend=backend) as prof:
        with tg.modules(model):
            model(torch.ones(2, 4))
            assert list(model.state_dict()) == keys
            with pytest.raises(RuntimeError):
                model(torch.ones(2, 5))  # the first layer fails, and its label ends all the same
        model(torch.ones(2, 4))
    assert list(model.state_dict()) == keys and not any(
        m._forward_hooks or m._forward_pre_hooks for m in model.modules()
    )
    labels = names(prof, "user_annotation", "module_")
    assert sorted(labels) == ["module_0", "module_0", "module_1.0", "module_1.1"]
    rows = {row["id"]: row for row in prof.trace.ask("events")}
    relus = [row for row in rows.values() if row["name"] == "aten::relu"]
    assert [rows[row["parent"]]["name"] for row in relus if row["parent"] is not None] == [
        "module_1.0"
    ]  # the other one has no label


def test_all_modules(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with tg.profile(activities=[CPU], backend=backend) as prof, tg.modules(model, leaves=False):
        model(torch.ones(2, 4))
    assert sorted(names(prof, "user_annotation")) == ["module_0", "module_Sequential"]


def test_session(backend, tmp_path):
    model = torch.nn.Linear(4, 4)
    with tg.session(tmp_path / "runs" / "a", model, activities=[CPU], backend=backend):
        model(torch.ones(2, 4)).sum().backward()
    folder = tmp_path / "runs" / "a"
    assert sorted(os.listdir(folder)) == ["conditions.json", "report.txt", "summary.json", "trace.json.gz"]
    assert "aten::addmm" in names(folder / "trace.json.gz", "cpu_op")
    assert json.loads((folder / "conditions.json").read_text()) and json.loads((folder / "summary.json").read_text())
    with tg.open(folder / "trace.json.gz") as trace:
        assert (folder / "report.txt").read_text() == trace.report()
    with tg.open(folder) as trace:  # the folder itself is as good a name of it
        assert not trace.losses and "not read" not in trace.report()
    command = (folder / "report.txt").read_text().splitlines()[-1].split()  # of what to type next
    assert command[:2] == ["tachograph", "view"] and os.path.exists(command[2])


def told(caplog):
    return [
        r.getMessage() for r in caplog.records if "events recorded" in r.getMessage() or "a step took" in r.getMessage()
    ]


def test_overhead_of_steps_is_reported(backend, caplog, monkeypatch):
    """Steps of 4 ms without recording and 6 ms with it, 2 and 3 ms of them on a core: half as long again."""
    caplog.set_level(logging.INFO, "tachograph")
    clock = types.SimpleNamespace(
        now=0, perf_counter_ns=lambda: clock.now, thread_time_ns=lambda: clock.now // 2, sleep=time.sleep
    )
    monkeypatch.setattr("tachograph._profile.step_times.time", clock)
    monkeypatch.setattr("tachograph._collect.record_cost.record_cost_ns", lambda features: (1e5, 1e6))
    prof = tg.profile(activities=[CPU], backend=backend, schedule=tg.schedule(wait=7, warmup=1, active=6, repeat=1))
    with prof:
        for _ in range(14):
            torch.ones(2)
            clock.now += 6_000_000 if prof._recording is not None and prof._recording.running else 4_000_000
            prof.step()
    times = prof.step_times  # without the first step and the warm-up step
    assert times.without_ns == [4_000_000] * 6 and times.with_ns == [6_000_000] * 6
    assert times.cpu_without_ns == [2_000_000] * 6 and times.cpu_with_ns == [3_000_000] * 6
    assert times.inflation_pct() == 50
    (line,) = told(caplog)
    assert line.endswith(
        "a step took 6.000 ms while recorded (n = 6), 4.000 ms otherwise (n = 6); "
        "recording adds 50.0 % to a step's CPU time (95 % interval +50.0 to +50.0)"
    )


def test_few_steps_have_a_price_by_their_records(caplog, monkeypatch):
    """One step outside the window is no measure: three recorded ones have so many records, of 10 to 40 ns each."""
    monkeypatch.setattr("tachograph._collect.record_cost.record_cost_ns", lambda features: (10.0, 40.0))
    caplog.set_level(logging.INFO, "tachograph")
    with tg.profile(
        activities=[CPU], schedule=tg.schedule(wait=1, warmup=1, active=3, repeat=1), backend="native"
    ) as prof:
        loop(prof, 5)
    (line,) = told(caplog)
    count = prof._windows[-1].event_count
    step_ns = sorted(prof.step_times.cpu_with_ns)[len(prof.step_times.cpu_with_ns) // 2]
    first, low, high = re.fullmatch(
        rf"{count} events recorded, 0 lost; recording is about (\S+) % of a recorded step's CPU time "
        rf"\((\S+) to (\S+) %: {count / 3:,.0f} records of 0.01 to 0.04 us\)",
        line,
    ).groups()
    if len(prof.step_times.cpu_with_ns) == 3:  # else the first is left out, and the median is a mean
        assert float(low) == pytest.approx(100 * count / 3 * 10 / step_ns, rel=0.06)
    assert float(high) == pytest.approx(4 * float(low), rel=0.11)
    assert float(first) == pytest.approx(2 * float(low), rel=0.11)


def test_a_block_without_steps_has_a_price(caplog, monkeypatch):
    monkeypatch.setattr("tachograph._collect.record_cost.record_cost_ns", lambda features: (100.0, 400.0))
    monkeypatch.setattr("tachograph.profiler._WORTH_A_LINE_S", 0)
    caplog.set_level(logging.INFO, "tachograph")
    with tg.profile(activities=[CPU], backend="native") as prof:
        for _ in range(1000):
            torch.ones(2)
    (line,) = told(caplog)
    window = prof._windows[-1]
    low = re.search(r"recording is about \S+ % of the CPU time of the process meanwhile \((\S+) to \S+ %: ", line)
    caplog.clear()
    prof._measures_records = False  # a callback of a trainer: its training goes on
    prof.start()
    prof.stop()
    assert [line.rpartition(" ")[2] for line in told(caplog)] == ["lost"]
    assert float(low.group(1)) == pytest.approx(min(100 * window.event_count * 100 / window.cpu_ns, 100), rel=0.06)


def test_what_a_record_costs_is_measured():
    """A pair of callbacks and two readings of the clock take more than 10 ns on any machine, and less than 0.1 ms."""
    from tachograph import _record
    from tachograph._collect.record_cost import record_cost_ns

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    for features in (_record.LEAN, _record.DEEP):
        least, most = record_cost_ns(features)
        assert 10 < least < most < 100_000
    assert torch.equal(torch.random.get_rng_state(), before)  # it draws no numbers
    assert not _record.state()["open"]


def test_steps_beside_a_drift_do_not_count(monkeypatch):
    """All recorded steps took 3.3 times as long, as others came meanwhile: their records cannot cost that."""
    price = Price(1000, 100.0, 500.0)  # 0.1 to 0.5 ms of a step of 10 ms
    times = StepTimes()
    times.cpu_with_ns, times.cpu_without_ns = [33_000_000] * 6, [10_000_000] * 6
    times.with_ns, times.without_ns = times.cpu_with_ns, times.cpu_without_ns
    assert "recording adds 230.0 % to a step's CPU time (95 % interval" in times.words()
    assert times.words(price).endswith(
        "recording adds about 2.2 % to a step's CPU time (1 to 5 %: 1,000 records of 0.1 to 0.5 us)"
    )
    times.cpu_with_ns = [10_300_000] * 6
    assert times.words(price).endswith("recording adds 3.0 % to a step's CPU time (95 % interval +3.0 to +3.0)")


def test_a_price_has_no_exponents():
    """A machine so busy that the cost of a record is known from 40 ns to 160 us: 2.5 times the step."""
    said = Price(378, 40.0, 160_000.0).words(24_000_000, True, "a step's CPU time")
    assert said == "recording adds about 4 % to a step's CPU time (0.063 to 252 %: 378 records of 0.04 to 160 us)"


def test_names_of_memory_are_no_events():
    """A window with one event; the parameters of the model are told when it begins and when it ends."""
    model = torch.nn.Linear(2, 2)
    with tg.profile(activities=[CPU], profile_memory=True, backend="native") as prof:
        with tg.record_function("the one"):
            pass
    assert prof._windows[-1].event_count == len(prof.events()) == 1
    labels = prof.trace.ask("events", by="mark", where='name == "[tensor]"')
    assert len(labels) >= 2 * len(list(model.parameters()))


def test_short_blocks_say_nothing(caplog):
    caplog.set_level(logging.INFO, "tachograph")
    with tg.profile(activities=[CPU]):
        torch.ones(2)
    assert told(caplog) == []


def test_step_times(monkeypatch):
    moments = iter([0, 100, 200, 210, 300, 312, 400, 499, 500, 515])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(moments))
    monkeypatch.setattr(time, "thread_time_ns", lambda: 7)
    times, none = StepTimes(), tg.ProfilerAction.NONE
    for action in (none, none, none, tg.ProfilerAction.WARMUP, tg.ProfilerAction.RECORD):
        times.began()
        times.ended(action)
        if action is tg.ProfilerAction.WARMUP:
            continue
    times.window_ended()
    # First step: not counted, and its end is not looked at; so the clock runs 0 | 100..200 | 210..300 | 312 | 400..499.
    assert times.without_ns == [100, 90] and times.with_ns == [99]
    assert times.inflation_pct() is None and times.interval_pct() is None  # no CPU time at all
    assert times.words().endswith("could not be measured here: six of each are needed")
    times.with_ns, times.without_ns = [1] * 6, [1] * 6
    times.cpu_with_ns, times.cpu_without_ns = [110] * 3 + [120] * 3, [100] * 6
    # Of six values the 95 % interval of the median is from the least to the most: 110 to 120, as half a width 5 % of
    # 100.
    assert times.inflation_pct() == pytest.approx(15) and times.interval_pct() == pytest.approx((10, 20))
    assert times.words().endswith("; recording adds 15.0 % to a step's CPU time (95 % interval +10.0 to +20.0)")
    # 97 / 98 - 1 is -1.02 %, half a width 97 / 98 * 8 / 98 / 2 = 4.04 %; recording makes no step shorter.
    times.cpu_with_ns, times.cpu_without_ns = [97] * 6, [94] * 3 + [102] * 3
    assert times.words().endswith("adds to a step's CPU time is less than the noise (95 % interval -5.1 to +3.0 %)")
    times.cpu_without_ns = [100] * 6
    for with_ns in (
        [103] * 3 + [117] * 3,  # +10 %, half a width 7 %: more than 5, and more than a third of what it is about
        [80] * 3 + [84] * 3,  # recording makes no step shorter
    ):
        times.cpu_with_ns = with_ns
        assert times.interval_pct() is None
        assert times.words().endswith("could not be measured here: steps differ too much")
    times.cpu_with_ns = [130] * 3 + [150] * 3  # half a width 10 %, a quarter of what it is about
    assert times.interval_pct() == pytest.approx((30, 50))


@pytest.mark.parametrize("first_ms, left_out", [(31, True), (29, False)])
def test_a_slow_first_step_of_a_window_is_left_out(monkeypatch, first_ms, left_out):
    """Two windows whose first step takes about 1.5 times the 20 ms of the others: above that it is no part of it."""
    clock = types.SimpleNamespace(now=0, perf_counter_ns=lambda: clock.now, thread_time_ns=lambda: clock.now)
    monkeypatch.setattr("tachograph._profile.step_times.time", clock)
    times, act = StepTimes(), tg.ProfilerAction
    cycle = [(act.NONE, 10)] * 4 + [(act.WARMUP, 90), (act.RECORD, first_ms)] + [(act.RECORD, 20)] * 12
    cycle += [(act.RECORD_AND_SAVE, 20)]
    for action, ms in [(act.NONE, 500), *cycle, *cycle]:
        times.began()
        clock.now += ms * 1_000_000
        times.ended(action)
    words = times.words()
    assert times.left_out == (2 if left_out else 0) and times.without_ns == [10_000_000] * 8
    assert sorted(times.with_ns) == [20_000_000] * 26 + [first_ms * 1_000_000] * (0 if left_out else 2)
    assert ("(n = 26, without the first of each window), 10.000 ms otherwise (n = 8)" in words) == left_out, words
    assert "recording adds 100.0 %" in words
    assert times.window_steps == 14  # of the last window


def test_advice_after_a_long_window(backend, caplog):
    caplog.set_level(logging.INFO, "tachograph")
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for steps in (10, 11):
        with tg.profile(activities=[CPU], backend=backend) as prof:
            for _ in range(steps):
                layer(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        prof.key_averages()
        prof.key_averages()
    told = [r.getMessage() for r in caplog.records if "one window holds" in r.getMessage()]
    assert len(told) == 1 and told[0].startswith("one window holds 11 steps")


@pytest.mark.skipif("native" not in BACKENDS, reason="budgets are those of our recorder")
def test_disk_budget(caplog):
    """A window that outgrows its budget keeps the newest events, and says how many are lost."""
    with tg.profile(activities=[CPU], backend="native", disk_budget=1 << 20) as prof:
        for _ in range(100_000):
            torch.add(1, 1)
        torch.ones(2).erf()
    assert "aten::erf" in names(prof, "cpu_op")
    lost = prof._windows[-1].lost
    assert lost > 0
    assert any(f"{lost:,} records were lost" in r.getMessage() for r in caplog.records)
    size = sum(
        os.path.getsize(os.path.join(prof._windows[-1].directory, f)) for f in os.listdir(prof._windows[-1].directory)
    )
    assert size <= 2 << 20


@pytest.mark.parametrize(
    "value, size",
    [(0, 0), (1 << 20, 1 << 20), (2.5e6, 2_500_000), ("20M", 20 << 20), ("1.5 GiB", 3 << 29), ("3000000", 3_000_000)],
)
@pytest.mark.parametrize("name", ["memory_budget", "disk_budget"])
def test_budgets_are_bytes_or_sizes(name, value, size):
    assert getattr(tg.profile(activities=[CPU], **{name: value})._recipe(), name) == size


@pytest.mark.parametrize("value", [-1, 20, "20", "20K", "-5M", "lots", "20X", ""])
@pytest.mark.parametrize("name", ["memory_budget", "disk_budget"])
def test_a_budget_too_small_is_never_none(name, value, monkeypatch):
    """Once torch's collector recorded instead, without any budget: 2.4 GB."""
    with pytest.raises(ValueError, match=f"^{name}="):
        tg.profile(activities=[CPU], **{name: value})


def test_budgets_without_effect_are_reported():
    _say._said.clear()
    with pytest.warns(UserWarning, match="torch's own collector has no budgets"):
        with tg.profile(activities=[CPU], backend="kineto", memory_budget="20M"):
            torch.ones(1)


@pytest.mark.skipif("native" not in BACKENDS, reason="torch's collector records one thread")
def test_tables_and_trace_count_other_threads():
    """Operators of a thread of the program's own: in the trace, and not in the tables, which say so."""

    def work():
        for _ in range(7):
            torch.sin(ones)

    ones = torch.ones(3)
    with tg.profile(activities=[CPU], backend="native") as prof:
        torch.sin(ones)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [e.count for e in prof.key_averages() if e.key == "aten::sin"] == [1]
    assert [row["calls"] for row in prof.trace.ask("ops").to_dicts() if row["name"] == "aten::sin"] == [8]
    assert "smaller than those of `trace`" in prof.key_averages.__doc__


# ---- labels for Nsight -------------------------------------------------------------------------------------


@needs_no_cuda
def test_nvtx_needs_cuda(backend):
    _say._said.clear()
    with pytest.warns(UserWarning, match="nvtx=True: no NVTX ranges are made: .*CUDA") as said:
        for _ in range(2):
            with tg.profile(activities=[CPU], backend=backend, nvtx=True) as prof:
                torch.ones(1)
    assert len(said) == 1 and names(prof, "cpu_op", "aten::ones")


@pytest.mark.skipif("native" not in BACKENDS, reason="needs our recorder")
def test_nvtx_ranges_are_made_in_windows(monkeypatch):
    """On a machine without NVTX by torch's ranges for ITT, which come about in the same way."""
    on, kinds = torch._C._autograd._profiler_enabled, []

    def ranges(record_shapes):
        kinds.append(record_shapes)
        return torch.autograd.profiler.emit_itt(record_shapes=record_shapes)

    monkeypatch.setattr(torch.autograd.profiler, "emit_nvtx", ranges)
    monkeypatch.setattr(_nvtx, "unavailable", lambda: None)
    monkeypatch.setattr(torch._C._itt, "is_available", lambda: True)
    seen = []
    with tg.profile(
        activities=[CPU],
        backend="native",
        nvtx=True,
        record_shapes=True,
        schedule=quiet_schedule(wait=1, warmup=1, active=1),
    ) as prof:
        for _ in range(6):
            torch.ones(3)
            seen.append(on())
            prof.step()
    assert seen == [False, False, True] * 2 and not on() and kinds == [True, True]
    assert names(prof, "cpu_op").count("aten::ones") == 1
    with pytest.warns(UserWarning, match="nvtx=True: no NVTX ranges are made: torch's own collector"):
        with tg.profile(activities=[CPU], backend="kineto", nvtx=True):
            torch.ones(3)


def test_nvtx_leaves_the_device_to_its_recorder(monkeypatch, caplog):
    monkeypatch.setattr(_window, "supported_activities", lambda: {CPU, CUDA})
    with caplog.at_level(logging.INFO, "tachograph"):
        prof = tg.profile(nvtx=True)
    assert prof.use_device is None and prof._recipe().only_kineto() is None and "left to the recorder" in caplog.text
    assert tg.profile().use_device == "cuda"
