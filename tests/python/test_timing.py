"""The timing tools against numpy, and against programs whose times are known because the test's own clock moves in
them."""

import json
import math
import random
import threading
import time

import numpy
import pytest
import tachograph as tg
from tachograph import timing
from tachograph._measure import device as _device, phases as _phases, series as _series

torch = pytest.importorskip("torch")


class StandingClock:
    """A clock that moves only when told, by 100 ns at each look: what is measured then does not hang on the machine."""

    now_ns = 0

    def look(self):
        self.now_ns += 100
        return self.now_ns


CLOCK = StandingClock()


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch):
    monkeypatch.setattr(time, "perf_counter_ns", CLOCK.look)


def busy(seconds):
    """Take this long."""
    CLOCK.now_ns += round(seconds * 1e9)


class Sleeper(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.calls, self.modes, self.grads = 0, set(), set()

    def forward(self, x):
        self.calls += 1
        self.modes.add(self.training)
        self.grads.add(torch.is_grad_enabled())
        busy(self.seconds)
        return x


# ---- figures of a series


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 1001])
def test_statistics_are_numpys(n):
    generator = numpy.random.default_rng(n)
    ns = (generator.gamma(2.0, 3.0, n) * 1e6).astype(int)
    series = _series.Series(ns.tolist())
    ms = numpy.asarray(series)
    assert ms.shape == (n,) and numpy.array_equal(ms, ns / 1e6)
    s = series.stats
    assert (s.p50, s.p95, s.p99) == tuple(numpy.percentile(ms, [50, 95, 99]))  # to the last bit
    assert (s.n, s.median, s.min, s.max) == (n, numpy.median(ms), ms.min(), ms.max())
    assert s.mean == pytest.approx(ms.mean(), rel=1e-12) and s.std == pytest.approx(ms.std(), rel=1e-9, abs=1e-12)
    assert series.p99 == s.p99 and series.mean == s.mean
    for q in (0, 0.1, 33.3, 66.7, 99.9, 100):
        assert tg.timing.percentile(ms.tolist(), q) == numpy.percentile(ms, q)


def test_interval_of_the_median_holds_it_in_at_least_95_of_100_series():
    source = random.Random(1)
    for n in (6, 9, 20, 51, 1200):
        hits = 0
        rounds = 1000 if n < 1000 else 300
        for _ in range(rounds):
            low, high = _series.median_interval(sorted(source.lognormvariate(0, 1) for _ in range(n)))
            hits += low <= 1.0 <= high  # the median of this distribution is exp(0)
        assert hits / rounds > 0.935, n
    assert _series.median_interval([1, 2, 3, 4, 5]) is None
    assert _series.median_interval(list(range(1, 7))) == (1, 6)  # 1 - 2/64 = 96.9 %
    assert _series.median_interval(list(range(1, 10))) == (2, 8)  # 1 - 2·10/512 = 96.1 %


def test_verdicts():
    source = random.Random(2)
    quiet = [10 + source.gauss(0, 0.1) for _ in range(60)]
    assert _series.verdict(quiet) == "stable"
    modes = [source.choice((5.0, 9.0)) + source.gauss(0, 0.1) for _ in range(60)]
    assert _series.verdict(modes).startswith("bimodal: 5") and "9" in _series.verdict(modes)
    assert _series.verdict([10 + source.uniform(-5, 5) for _ in range(200)]).startswith("unstable")
    assert _series.verdict([10 + i / 20 + source.gauss(0, 0.05) for i in range(60)]).startswith("drifting")
    assert _series.verdict([1.0] * 5).startswith("too few")
    assert _series.verdict([3.0] * 50) == "stable"


def test_normal_and_flat_series_are_not_called_bimodal():
    source = random.Random(3)
    for _ in range(100):
        assert not _series.verdict([100 + source.gauss(0, 1) for _ in range(40)]).startswith("bimodal")
        assert not _series.verdict([source.uniform(1, 2) for _ in range(40)]).startswith("bimodal")


# ---- timer


def test_timer_measures_a_block_on_the_host_clock():
    timer = tg.timer(device="cpu")
    with timer:
        busy(0.003)
    assert timer.ns == 3_000_100 and timer.clock == "host clock"
    with timer:
        busy(0.001)
    assert timer.ms == 1.0001 and timer.ns == timer.series.times_ns[-1]
    assert len(timer.series) == 2


def test_the_host_clock_is_a_real_one(monkeypatch):
    monkeypatch.undo()
    with tg.timer(device="cpu") as timer:
        time.sleep(0.02)
    assert 20 <= timer.ms < 2000


def test_timer_decorates_and_nests():
    timer = tg.timer()

    @timer
    def twice(depth):
        """Say it."""
        busy(0.001)
        return depth if depth == 0 else twice(depth - 1)

    assert twice(1) == 0 and twice.__name__ == "twice" and twice.__doc__ == "Say it."
    inner, outer = timer.series.times_ns
    assert inner == 1_000_100 and outer == 2_000_300


def test_timer_takes_no_function():
    with pytest.raises(TypeError, match=r"@timer\(\)"):

        @tg.timer
        def forgotten_parentheses():
            pass

    assert tg.timer(torch.device("cpu")).clock == "host clock"


def test_timer_measures_a_block_that_throws():
    timer = tg.timer()
    with pytest.raises(KeyError):
        with timer:
            busy(0.001)
            raise KeyError("x")
    assert timer.ms == 1.0001
    with pytest.raises(RuntimeError, match="has not measured anything"):
        tg.timer().ms


class FakeEvent:
    """An event of a device whose time stands still unless the test moves it; waiting is counted."""

    now_ms, waits = 0.0, 0

    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = FakeEvent.now_ms

    def synchronize(self):
        FakeEvent.waits += 1

    def elapsed_time(self, other):
        return other.at - self.at


def test_device_events_are_used_and_waited_for_only_when_read(monkeypatch):
    class Module:
        Event, synchronize = FakeEvent, staticmethod(lambda: None)

    monkeypatch.setattr(_device, "_module_of", lambda device: Module)
    FakeEvent.waits = 0
    with tg.timer(device="cpu") as timer:
        FakeEvent.now_ms += 12.5
        busy(0.001)
    assert FakeEvent.waits == 0
    assert timer.ms == 12.5 and FakeEvent.waits == 1 and timer.clock.endswith("events")


def test_without_a_device_the_default_is_the_host_clock():
    if torch.cuda.is_available():
        pytest.skip("this machine has a device")
    assert tg.timer().clock == "host clock"


# ---- warm-up


def test_warm_up_ends_when_the_last_runs_agree():
    calls = []

    def call():
        calls.append(None)
        busy(max(0.023 - 0.0035 * len(calls), 0.002))

    warmup = tg.warm_up(call)
    assert warmup.stable and warmup.runs == len(calls)
    assert warmup.runs == 5 + 7  # five slower ones, two that are as fast as the rest, five that agree with them
    assert "until the times agreed" in str(warmup) and str(warmup.runs) in str(warmup)


@pytest.mark.parametrize(
    "times, agrees",
    [
        ([5] * 7, True),
        ([5] * 6, False),
        ([50, 50, 5, 5, 5, 5, 5], False),
        ([5, 5, 5, 5, 50, 5, 5], True),
        ([5, 5, 5, 50, 5, 50, 5], False),
        ([9, 8, 7, 6, 5, 4, 3], False),
    ],
)
def test_when_times_agree(times, agrees):
    assert timing.is_stable(times, 5, 0.1) is agrees


def test_the_name_of_the_version_before_answers_once_more():
    with pytest.warns(FutureWarning, match="settled is now is_stable"):
        assert timing.settled([100, 101, 99, 100, 101, 100, 99], 5, 0.1) is True
    with pytest.raises(AttributeError, match="has no attribute 'unsettled'"):
        timing.unsettled


def test_warm_up_gives_up():
    state = [1]

    def call():
        state[0] *= 1.3
        busy(1e-5 * state[0])

    warmup = tg.warm_up(call, most=12)
    assert not warmup.stable and warmup.runs == 12 and "did not agree" in str(warmup)


# ---- latency


def test_latency_of_a_known_model():
    model = torch.nn.Sequential(Sleeper(0.002))
    model.train()
    model[0].eval()  # a frozen part stays as it was
    result = tg.latency(model, torch.ones(2), iterations=30, warmup=4)
    assert len(result) == 30 and model[0].calls == 34
    assert result.min == result.median == result.p99 == 2.0001 and result.std == 0
    assert model[0].modes == {False} and model[0].grads == {False}
    assert model.training and not model[0].training and torch.is_grad_enabled()
    assert [result.p95, result.p99] == numpy.percentile(numpy.asarray(result), [95, 99]).tolist()
    assert "p99" in repr(result) and "host clock" in repr(result)


def test_latency_warms_up_by_itself_and_says_so():
    model = Sleeper(0.001)
    result = tg.latency(model, 1, iterations=5)
    assert result.warmup.runs == model.calls - 5 == 7
    assert f"warm-up: {result.warmup.runs} runs" in repr(result)


def test_latency_of_a_function_with_keywords():
    seen = []
    tg.latency(lambda a, *, b: seen.append((a, b)), 1, b=2, iterations=3, warmup=0)
    assert seen == [(1, 2)] * 3


def test_modes_come_back_after_an_error():
    class Broken(torch.nn.Module):
        def forward(self):
            raise ValueError("broken")

    model = Broken()
    with pytest.raises(ValueError, match="broken"):
        tg.latency(model)
    assert model.training


@pytest.mark.parametrize("arguments", [{"iterations": 0}, {"warmup": -1}, {"warmup": "much"}])
def test_latency_rejects(arguments):
    with pytest.raises(ValueError):
        tg.latency(lambda: None, **arguments)


# ---- throughput


def test_throughput_of_a_known_model():
    model = Sleeper(0.004)
    batches = [(torch.zeros(8, 3), torch.zeros(8)) for _ in range(25)]
    result = tg.throughput(model, batches, warmup=3)
    assert (result.batches, result.samples) == (25, 200) and model.calls == 28
    assert result.samples_per_s == pytest.approx(8 / 0.004, rel=0.001)
    assert result.ms_per_batch == pytest.approx(4.0, rel=0.001)
    assert "samples/s" in str(result) and "25 batches" in str(result)


def test_throughput_counts_the_batches_there_were_and_the_time_to_fetch_them():
    def slow():
        for _ in range(12):
            busy(0.003)
            yield torch.zeros(4)

    result = tg.throughput(lambda batch: busy(0.001), slow(), warmup=0)
    assert (result.batches, result.samples) == (12, 48)
    assert result.ms_per_batch == pytest.approx(4.0, rel=0.001)
    assert tg.throughput(lambda batch: None, [[1, 2, 3]] * 9, most=5, warmup=0)[:2] == (15, 5)
    with pytest.raises(ValueError, match="no batch"):
        tg.throughput(lambda batch: None, [])


def test_throughput_of_a_loader_with_a_short_last_batch():
    loader = torch.utils.data.DataLoader(torch.arange(10.0), batch_size=4)
    result = tg.throughput(lambda batch: busy(0.0005), loader)
    assert (result.batches, result.samples) == (3, 10)


# ---- phases and modules


class Slow(torch.autograd.Function):
    """Takes 2 ms forward and 4 ms backward."""

    @staticmethod
    def forward(context, x):
        busy(0.002)
        return x * 1

    @staticmethod
    def backward(context, gradient):
        busy(0.004)
        return gradient


def training_parts():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x):
            return Slow.apply(self.layer(x))

    class Sgd(torch.optim.SGD):
        def step(self, closure=None):
            busy(0.001)
            return super().step(closure)

    def batches():
        while True:
            busy(0.003)
            yield torch.ones(4, 4), torch.ones(4, 1)

    net = Net()
    return net, torch.nn.functional.mse_loss, Sgd(net.parameters(), lr=0.1), batches()


def test_phases_of_a_known_step():
    p = tg.phases(*training_parts(), steps=15)
    assert p.steps == 15
    assert p.data_ms == pytest.approx(3, abs=0.01) and p.forward_ms == pytest.approx(2, abs=0.01)
    assert p.backward_ms == pytest.approx(4, abs=0.01) and p.optimizer_ms == pytest.approx(1, abs=0.01)
    assert sum(p.percent.values()) == pytest.approx(100) and set(p.percent) == {
        "data",
        "forward",
        "backward",
        "optimizer",
    }
    assert str(p).splitlines()[0].startswith("data") and "%" in str(p)


def test_utilization_is_a_mean_of_samples_while_it_runs(monkeypatch):
    """40, then 60 from the second on, and as the last: the mean is what the library said, not what it says now."""
    said, second = iter([40.0, 60.0]), threading.Event()

    def ask(device):
        value = next(said, None)
        if value == 60.0:
            second.set()
        return value

    monkeypatch.setattr(_phases, "_gpu_utilization", ask)
    with _phases._utilization_samples(None, every_s=0.001) as samples:
        assert second.wait(600)
    assert samples == [40.0, 60.0]


def test_the_dictionary_of_a_run_has_its_seven_keys():
    result = tg.training_result(*training_parts(), steps=10)
    assert list(result) == [
        "baseline_ms",
        "gpu_utilization",
        "data_loading_ms",
        "computation_ms",
        "forward_ms",
        "backward_ms",
        "optimizer_ms",
    ]
    if not torch.cuda.is_available():
        assert result["gpu_utilization"] is None
    assert result["computation_ms"] == pytest.approx(
        result["forward_ms"] + result["backward_ms"] + result["optimizer_ms"]
    )
    assert result["baseline_ms"] == pytest.approx(10, rel=0.001)


def test_module_times_sum_to_the_model():
    model = torch.nn.Sequential(Sleeper(0.001), torch.nn.Sequential(Sleeper(0.003), Sleeper(0.002)), Sleeper(0.002))
    times = tg.module_times(model, torch.ones(1), iterations=8)
    assert {row.name: row.leaf for row in times} == {
        "": False,
        "0": True,
        "1": False,
        "1.0": True,
        "1.1": True,
        "2": True,
    }
    assert [times[name].self_ms for name in ("0", "1.0", "1.1", "2")] == pytest.approx([1, 3, 2, 2], abs=0.01)
    assert times["1"].total_ms == pytest.approx(5, abs=0.01) and times["1"].self_ms < 0.01
    assert sum(row.total_ms for row in times.leaves) == pytest.approx(times.model_ms, rel=0.001)
    assert sum(row.self_ms for row in times) == pytest.approx(times.model_ms)
    assert not model._forward_hooks and not model[0]._forward_pre_hooks


def test_a_module_used_twice_and_one_that_throws():
    shared = Sleeper(0.001)
    times = tg.module_times(torch.nn.Sequential(shared, shared), torch.ones(1), iterations=4)
    assert times["0"].calls == 2 and times["0"].total_ms == pytest.approx(2, abs=0.01)

    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    model = torch.nn.Sequential(Broken())
    with pytest.raises(ValueError, match="broken"):
        tg.module_times(model, 1, warmup=0)
    assert not model[0]._forward_hooks and not model[0]._forward_pre_hooks


# ---- conditions and baseline


def test_conditions_hold_the_nine_keys_with_true_values(tmp_path):
    model = torch.nn.Linear(5, 2).double()
    model.eval()
    loader = torch.utils.data.DataLoader(torch.zeros(12, 5), batch_size=6, num_workers=0)
    sheet = tg.conditions(model, batch=torch.zeros(6, 5, dtype=torch.double), loader=loader, note="night")
    assert list(sheet)[:9] == [
        "model",
        "batch_size",
        "input_shape",
        "device",
        "dtype",
        "mode",
        "num_workers",
        "cudnn_benchmark",
        "gpu",
    ]
    assert [sheet[key] for key in list(sheet)[:8]] == [
        "Linear",
        6,
        [6, 5],
        "cpu",
        "float64",
        "eval",
        0,
        torch.backends.cudnn.benchmark,
    ]
    if not torch.cuda.is_available():
        assert sheet["gpu"] is None and sheet["gpu_driver"] is None
    assert (
        sheet["torch"] == torch.__version__ and sheet["threads"] == torch.get_num_threads() and sheet["note"] == "night"
    )
    assert tg.conditions(model.train())["mode"] == "train"
    sheet.save(tmp_path / "conditions.json")
    assert json.loads((tmp_path / "conditions.json").read_text()) == sheet


def test_conditions_of_nothing_are_unknown():
    sheet = tg.conditions()
    assert sheet["model"] is sheet["mode"] is sheet["device"] is None and sheet["cpu_cores"] >= 1


@pytest.mark.parametrize(
    "metric, target, met",
    [
        ("step_ms", 21, True),  # 20 of at most 21
        ("step_ms", 19, False),
        ("step_ms", 20, None),  # within the interval of the median
        ("samples_per_s", 19, True),  # 20 of at least 19
        ("samples_per_s", 21, False),
        ("step_ms", None, None),
    ],
)
def test_a_baseline_knows_whether_its_target_is_met(metric, target, met):
    values = [19.5 + 0.1 * (i % 11) for i in range(44)]  # the median is 20
    assert tg.baseline(values, metric=metric, target=target)["met"] is met
    assert tg.baseline(values[:3], metric=metric, target=target)["met"] is None  # too few for an interval


def test_baseline_has_an_interval_and_says_when_it_is_no_use(tmp_path):
    source = random.Random(4)
    values = [20 + source.gauss(0, 0.2) for _ in range(40)]
    result = tg.baseline(values, metric="samples_per_s", target=25)
    assert list(result)[:9] == ["metric", "mean", "std", "median", "p95", "p99", "n", "target", "met"]
    assert result["median"] == numpy.median(values) and result["p99"] == numpy.percentile(values, 99)
    assert result["ci95"][0] < result["median"] < result["ci95"][1] and result["stable"]
    assert (result["n"], result["target"], result["metric"]) == (40, 25, "samples_per_s")
    modes = tg.baseline([source.choice((5.0, 9.0)) + source.gauss(0, 0.1) for _ in range(60)], metric="x")
    assert not modes["stable"] and modes["verdict"].startswith("bimodal") and " ms" not in modes["verdict"]
    result.save(tmp_path / "baseline.json")
    assert json.loads((tmp_path / "baseline.json").read_text()) == result
    assert tg.baseline(tg.latency(busy, 0.0005, iterations=10), metric="latency_ms")["median"] == pytest.approx(
        0.5, rel=0.001
    )


def test_an_empty_series_says_so():
    assert repr(_series.Series([])) == "nothing was measured" and math.isnan(_series.Series([]).median)
    assert repr(_series.Series([7250] * 6)).splitlines()[0] == "median 7.250 us, 95 % interval 7.250…7.250 (n = 6)"
    assert repr(_series.Series([100_000] * 3)).splitlines()[0] == "median 0.100 ms (n = 3)"


# ---- requests and trainers


def test_phases_of_three_requests():
    seen = []
    result = tg.request_phases(
        Sleeper(0.004),
        [1, 2, 3],
        pre=lambda r: (busy(0.002), r * 10)[1],
        post=lambda o: (busy(0.001), seen.append(o))[1],
    )
    assert seen == [10, 20, 30] and len(result.request_ms) == 3
    assert (result.pre_ms, result.forward_ms, result.post_ms) == pytest.approx((2, 4, 1), abs=0.01)
    assert [line.split()[0] for line in str(result).splitlines()] == ["pre", "forward", "post", "request"]
    with pytest.raises(ValueError, match="no request"):
        tg.request_phases(Sleeper(0.001), [])


def test_bursts_of_a_trainer_are_distinguished(capsys):
    callback = tg.TrainerCallback()
    callback.on_train_begin()
    for number in range(1, 61):
        callback.on_step_begin(None, None, None)
        busy(0.010)
        callback.on_step_end(None, None, None)
        for every, seconds, event in (
            (5, 0.001, callback.on_log),
            (20, 0.2, callback.on_evaluate),
            (30, 0.1, callback.on_save),
        ):
            if number % every == 0:
                busy(seconds)
                event(None, None, None, metrics={})
    callback.on_train_end()
    total = 60 * 10 + 12 * 1 + 3 * 200 + 2 * 100
    assert [callback.every(what) for what in ("log", "evaluate", "save")] == [5, 20, 30]
    assert [callback.share(what) for what in ("step", "log", "evaluate", "save")] == pytest.approx(
        [100 * ms / total for ms in (600, 12, 600, 200)], abs=0.01
    )
    said = capsys.readouterr().err
    assert "evaluate        3      200.00" in said and "every 20 steps" in said
