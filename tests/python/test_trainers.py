"""Callbacks of trainers: when steps are recorded, what is written and said. The trainers themselves: tests/field."""

import inspect
import os
import threading
import time

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from tachograph import trainers
from tachograph._trainers import adapters, step_windows


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 14

    def __getitem__(self, index):
        time.sleep(0.02)
        return index


class Program:
    def __init__(self):
        self.model = torch.nn.Linear(4, 4)

    def step(self):
        self.model(torch.ones(2, 4)).sum().backward()


def train(windows, steps):
    program = Program()
    for _ in range(steps):
        windows.begin()
        program.step()
        windows.end()
        if windows._writer is not None:
            windows._writer.join()  # beside the reading of a window no step is slow
    windows.finish()


def recorded(path):
    return [row["step"] for row in tg.open(path).ask("steps")]


def test_so_many_steps_are_recorded_every_so_many(tmp_path):
    said = []
    windows = trainers.StepWindows(tmp_path, every=4, steps=2, on=(), log=lambda text, step: said.append((step, text)))
    train(windows, 11)
    assert [os.path.relpath(p, tmp_path) for p in windows.files] == [f"step-{n:07d}/rank0.tacho" for n in (6, 10)]
    assert recorded(windows.files[0]) == ["4", "5"] and recorded(windows.files[1]) == ["8", "9"]
    assert [step for step, _ in said] == [6, 10]
    lines = said[0][1].splitlines()
    assert lines[0] == f"2 steps up to 6 (every 4 steps): {windows.files[0]}" and 2 <= len(lines) <= 4


def test_a_window_that_the_end_cuts_short_is_written(tmp_path):
    windows = trainers.StepWindows(tmp_path, every=3, steps=5, on=())
    train(windows, 5)
    assert [recorded(path) for path in windows.files] == [["3", "4"]]


def test_what_is_asked_for_and_slow_steps_are_recorded_next(tmp_path, monkeypatch):
    windows = trainers.StepWindows(tmp_path, every=0, steps=1, on=["step > 100 ms".replace(" ms", "ms")], most=2)
    slow = iter([False, True, False, False, True, False, False])
    observe = windows._times.observe
    monkeypatch.setattr(windows._times, "observe", lambda ns: observe(200_000_000 if next(slow) else 1))
    said = []
    windows.log = lambda text, step: said.append(text)
    train(windows, 8)
    assert [recorded(path) for path in windows.files] == [["2"], ["6"]]
    assert "(a step took 200 ms, the limit is 100 ms, step 1)" in said[0]
    windows = trainers.StepWindows(tmp_path / "b", every=0, steps=1, on=(), most=1)
    windows.ask()
    train(windows, 2)
    windows.ask()
    train(windows, 2)
    assert [recorded(path) for path in windows.files] == [["0"]]  # one window in all


def test_another_recorder_costs_the_window_and_not_the_training(tmp_path):
    with tg.flight_recorder(on=[], folder=tmp_path / "flight", budget="1M"):
        windows = trainers.StepWindows(tmp_path, every=2, steps=1, on=(), backend="native")
        with pytest.warns(UserWarning, match="these steps are not recorded: this process is being recorded already"):
            train(windows, 4)
    assert windows.files == []


def test_a_folder_that_cannot_be_written_costs_the_file_alone(tmp_path):
    (tmp_path / "a").write_text("")
    windows = trainers.StepWindows(tmp_path / "a", every=1, steps=1, on=(), most=1)
    with pytest.warns(UserWarning, match="Not a directory"):
        train(windows, 3)
    assert windows.files == []


@pytest.mark.parametrize("wrong", [{"every": -1}, {"steps": 0}, {"most": 0}, {"on": ["nan"]}, {"on": ["request > 3x"]}])
def test_wrong_arguments(tmp_path, wrong):
    with pytest.raises(ValueError):
        trainers.StepWindows(tmp_path, **wrong)


@pytest.mark.parametrize(
    "wrong, said", [({"evry": 3}, "did you mean 'every'?"), ({"with_stak": True}, "did you mean 'with_stack'?"), ({"x": 1}, "it takes acc_events, ")]
)  # fmt: skip
def test_an_option_that_there_is_not_is_refused_where_it_is_written(tmp_path, wrong, said):
    """And not when the training has begun, or at its first window."""
    option = next(iter(wrong))
    for make in (
        lambda: trainers.StepWindows(tmp_path, **wrong),
        lambda: trainers.composer(str(tmp_path), **wrong),
        lambda: trainers.accelerate(None, str(tmp_path), **wrong),
        lambda: trainers.transformers(**wrong),
        lambda: trainers.lightning(**wrong),
        lambda: trainers.ignite(None, **wrong),
    ):
        with pytest.raises(TypeError, match=f"no option '{option}'") as refused:
            make()
        assert said in str(refused.value)


def test_the_options_of_a_window_are_those_of_profile():
    from tachograph._trainers.step_windows import Options

    own = {"every", "steps", "on", "most"}
    of_many_windows = {"schedule", "on_trace_ready", "keep_last", "use_cuda", "self"}
    assert (
        set(Options.__annotations__) - own == set(inspect.signature(tg.profile.__init__).parameters) - of_many_windows
    )
    assert own | {"preset", "log"} < set(inspect.signature(trainers.StepWindows.__init__).parameters)


def test_steps_beside_the_reading_of_a_window_trigger_none(tmp_path, monkeypatch):
    """A window's findings are worked out on a thread that takes time from the steps after it."""
    reading, read = threading.Event(), threading.Event()

    def findings(trace):
        reading.set()
        assert read.wait(600)
        return []

    monkeypatch.setattr(step_windows, "findings", findings)
    windows = trainers.StepWindows(tmp_path, every=0, steps=1, on=["step > 100ms"], most=9)
    program = Program()

    def step(ms=0):
        windows.begin()
        program.step()
        time.sleep(ms / 1000)
        windows.end()

    windows.ask()
    step()
    assert reading.wait(600)
    step(150)  # made slow by the window before it
    step()
    assert len(windows.files) == 1 and windows._windows == 1
    read.set()
    windows._writer.join()
    step(150)
    step()
    windows.finish()
    assert windows._windows == 2 and recorded(windows.files[1]) == ["4"]


def test_the_log_names_the_line_of_a_finding(tmp_path):
    loader = torch.utils.data.DataLoader(Slow())
    windows = trainers.StepWindows(tmp_path, every=2, steps=12, on=(), preset="default")
    program = Program()
    windows.begin()
    for _ in loader:
        program.step()
        windows.step()
    windows.finish()
    line = next(n for n, text in enumerate(open(__file__), 1) if "for _ in loader:" in text)
    named = [text for text in windows.findings if ": loader-in-main-process, " in text and "withheld" not in text]
    assert named and all(f"{os.path.basename(__file__)}({line})" in text for text in named), windows.findings


def test_composers_protocol_is_whole(tmp_path):
    """As composer.core.Engine calls it: run_event for each event of the trainer, close, post_close, state_dict."""
    callback = trainers.composer(str(tmp_path), every=2, steps=1, on=())
    program = Program()

    class Event:
        def __init__(self, value):
            self.value = value

    def run(name):
        callback.run_event(Event(name), "state", "logger")

    for name in adapters.COMPOSER_EVENTS:
        if name not in ("fit_end", "batch_start", "batch_end"):
            run(name)
    for _ in range(4):
        run("batch_start")
        program.step()
        run("batch_end")
    run("fit_end")
    callback.load_state_dict(callback.state_dict())
    callback.close("state", "logger")
    callback.post_close()
    assert [recorded(path) for path in callback.windows.files] == [["2"]]


def test_text_reaches_a_writer_of_tensorboard():
    class Writer:
        def add_text(self, tag, text, step):
            self.given = (tag, text, step)

    from tachograph._trainers.step_windows import log_to_wandb, log_to_writer

    writer = Writer()
    assert log_to_writer(writer, "a\nb", 3) and writer.given == ("tachograph/findings", "a\n\nb", 3)
    assert not log_to_writer(None, "a", 3) and not log_to_wandb("a")
