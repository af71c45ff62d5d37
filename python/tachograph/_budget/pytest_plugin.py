"""The pytest plugin (entry point pytest11): budgets by a marker, steps by a fixture, a summary in Markdown.

    @pytest.mark.tachograph(step_p50="< 30 ms", allocs="baseline +5%")
    def test_training_step(tachograph_steps):
        for _ in tachograph_steps(20, warmup=3):
            train_step()

torch and the recorder are imported by the first test that has the marker."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from . import baseline, limits

_NAME = "tachograph"
_FIXTURE = "tachograph_steps"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup(_NAME, "performance budgets (tachograph)")
    group.addoption("--tachograph-update", action="store_true", help="write the baseline files of marked tests")
    group.addoption("--tachograph-md", metavar="FILE", help="append the table of budgets to FILE as Markdown")
    parser.addini("tachograph_baselines", "folder of the baseline files", default="tachograph-baselines")
    parser.addini("tachograph_retries", "how often a test is repeated on a busy machine", default="2")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers",
        'tachograph(step_p50="< 30 ms", allocs="baseline +5%", …): record the test and hold it to these limits; '
        "quantities: " + ", ".join(limits.QUANTITIES),
    )
    if not hasattr(config, "workerinput"):  # a worker of xdist has no summary of its own
        config.pluginmanager.register(_Summary(config), "tachograph-summary")


class Steps:
    """The fixture: an iterator over the steps of the test. Only these are recorded, without the warm-up."""

    def __init__(self) -> None:
        self.trial: _Trial | None = None

    def __call__(self, count: int = 20, warmup: int = 3) -> Iterator[int]:
        """count: recorded steps; warmup: steps before them."""
        if count < 1 or warmup < 0:
            raise ValueError(f"tachograph_steps({count}, warmup={warmup}): at least one step, and no negative warm-up")
        yield from range(-warmup, 0)
        if self.trial is None:  # a test without the marker: nothing is recorded
            yield from range(count)
            return
        yield from self.trial.steps(count)


@pytest.fixture
def tachograph_steps() -> Steps:
    """tachograph_steps(20, warmup=3): iterate over it; each turn is a step that is recorded."""
    return Steps()


class _Trial:
    """One recorded run of the test."""

    def __init__(self, wanted: set[str]) -> None:
        from .. import profiler
        from .figures import Load

        self._wanted, self.load = wanted, Load()
        self.figures: dict[str, float] | None = None
        self._profile = profiler.profile(preset="lean", profile_memory=bool(wanted & limits.MEMORY))
        self._profile._measures_records = False

    def begin(self) -> None:
        self._profile.start()
        self.load.begin()

    def end(self) -> None:
        from .figures import figures

        self.load.end()
        self._profile.stop()
        self.figures = figures(self._profile.trace, self._wanted)

    def steps(self, count: int) -> Iterator[int]:
        from ..profiler import record_function

        if self.figures is not None:
            raise RuntimeError("tachograph_steps(…) is iterated twice: a test has one budget, so one loop of steps")
        self.begin()
        try:
            for number in range(count):
                with record_function(f"ProfilerStep#{number}"):
                    yield number
        finally:
            self.end()


def _limits_of(item: Any) -> list[limits.Limit]:
    given: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(_NAME))):  # the nearest counts
        if mark.args:
            pytest.fail("@pytest.mark.tachograph takes quantities by name, as step_p50='< 30 ms'", pytrace=False)
        given.update(mark.kwargs)
    try:
        return [limits.parse(quantity, text) for quantity, text in given.items()]
    except ValueError as error:
        wrong = str(error)
    pytest.fail(f"@pytest.mark.tachograph: {wrong}", pytrace=False)


def pytest_runtest_setup(item: Any) -> None:
    if item.get_closest_marker(_NAME) is None:
        return
    from _pytest.unittest import TestCaseFunction

    if isinstance(item, TestCaseFunction) or inspect.iscoroutinefunction(getattr(item, "obj", None)):
        pytest.fail(
            "@pytest.mark.tachograph records plain test functions, not coroutines or methods of unittest.TestCase; "
            "move the measured call into a test function",
            pytrace=False,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    if pyfuncitem.get_closest_marker(_NAME) is None:
        return None
    pytest.importorskip("torch", reason="the marker tachograph records torch, which is not installed")
    _Budget(pyfuncitem).run()
    return True


class _Budget:
    """A marked test: run, judged, and repeated while the machine is too busy to judge it."""

    def __init__(self, item: Any) -> None:
        self.item, self.limits = item, _limits_of(item)
        folder = pathlib.Path(item.config.rootpath, item.config.getini("tachograph_baselines"))
        self.path = baseline.path_of(folder, item.nodeid)
        self.update = item.config.getoption("--tachograph-update")
        try:
            self.baseline = baseline.read(self.path)
        except ValueError as error:
            if not self.update:
                pytest.fail(str(error), pytrace=False)
            self.baseline = None
        if not self.update and self.baseline is None and any(limit.value is None for limit in self.limits):
            pytest.fail(
                f"no baseline {self.path}: run pytest --tachograph-update {item.nodeid} and commit the file",
                pytrace=False,
            )

    def run(self) -> None:
        tries = 1 + int(self.item.config.getini("tachograph_retries"))
        for number in range(1, tries + 1):
            trial, figures = self._record()
            failing = [] if self.update else self._failing(figures)
            in_doubt = trial.load.busy and self._depends_on_load(failing)
            if not in_doubt or number == tries:
                break
        if self.update and not in_doubt:
            baseline.write(self.path, figures)
        outcome = "skipped" if in_doubt else "failed" if failing else "written" if self.update else "passed"
        self._note(figures, trial.load, outcome)
        words = "; ".join(self._words(limit, figures) for limit in failing)
        if outcome == "failed":
            pytest.fail(f"over budget: {words}\n{trial.load.words()}", pytrace=False)
        if outcome == "skipped":
            what = "no baseline written" if self.update else f"over budget, which says nothing here: {words}"
            pytest.skip(f"busy machine in each of {number} tries: {trial.load.words()}; {what}")

    def _depends_on_load(self, failing: list[limits.Limit]) -> bool:
        """A test that fails for a count fails anyway; a baseline with one time in it is one of a busy machine."""
        if self.update:
            return any(limit.is_time for limit in self.limits)
        return bool(failing) and all(limit.is_time for limit in failing)

    def _record(self) -> tuple[_Trial, dict[str, float]]:
        item = self.item
        trial = _Trial({limit.quantity for limit in self.limits})
        arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
        steps = item.funcargs.get(_FIXTURE)
        if steps is not None:
            steps.trial = trial
            item.obj(**arguments)
        else:
            trial.begin()
            try:
                item.obj(**arguments)
            finally:
                trial.end()
        if trial.figures is None:
            pytest.fail("the test has the fixture tachograph_steps and does not iterate over it", pytrace=False)
        return trial, trial.figures

    def _failing(self, figures: dict[str, float]) -> list[limits.Limit]:
        there = self.baseline["figures"] if self.baseline else {}
        failing = []
        for limit in self.limits:
            if limit.value is None:
                if limit.quantity not in there:
                    pytest.fail(
                        f"{self.path} has no {limit.quantity}: write it again with pytest --tachograph-update",
                        pytrace=False,
                    )
                if limit.is_time:
                    self._check_machine()
            if not limit.holds(figures[limit.quantity], there.get(limit.quantity)):
                failing.append(limit)
        return failing

    def _check_machine(self) -> None:
        assert self.baseline is not None
        different = baseline.differences(self.baseline["machine"], baseline.machine())
        if different:
            pytest.skip(f"times of {self.path} are of another machine: {'; '.join(different)}")

    def _words(self, limit: limits.Limit, figures: dict[str, float]) -> str:
        there = self.baseline["figures"].get(limit.quantity) if self.baseline else None
        bound = limits.shown(limit.quantity, limit.bound(there))
        more = "" if limit.value is not None else f" ({limit.text})"
        sign = "<" if limit.below else "<="
        return f"{limit.quantity} is {limits.shown(limit.quantity, figures[limit.quantity])}, the limit {sign} {bound}{more}"

    def _note(self, figures: dict[str, float], load: Any, outcome: str) -> None:
        """A row for each limit; the properties of a report also come home from the workers of xdist."""
        there = self.baseline["figures"] if self.baseline else {}
        for limit in self.limits:
            figure, base = figures[limit.quantity], there.get(limit.quantity)
            kept = not self.update and limit.holds(figure, base)
            row = {
                "test": self.item.nodeid,
                "quantity": limit.quantity,
                "figure": limits.shown(limit.quantity, figure),
                "limit": limit.text,
                "baseline": limits.shown(limit.quantity, base) if base is not None else "",
                "verdict": "kept" if kept else outcome,
                "load": load.words() if load.busy else "",
            }
            self.item.user_properties.append((_NAME, row))


class _Summary:
    """The table of all budgets of the session: at the end on the terminal, and as Markdown."""

    def __init__(self, config: Any) -> None:
        self._rows: list[dict[str, Any]] = []
        self._path = config.getoption("--tachograph-md")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self._rows += [row for name, row in report.user_properties if name == _NAME]

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        result = yield
        if self._rows:
            terminalreporter.section("tachograph budgets")
            for row in self._rows:
                base = f", baseline {row['baseline']}" if row["baseline"] else ""
                terminalreporter.write_line(
                    f"{row['verdict']:<8} {row['test']}: {row['quantity']} {row['figure']}, limit {row['limit']}{base}"
                )
        return result

    def pytest_sessionfinish(self) -> None:
        if self._path and self._rows:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(markdown(self._rows))


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table for $GITHUB_STEP_SUMMARY."""

    def safe(text: object) -> str:
        return str(text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")

    over, kept = (sum(row["verdict"] == verdict for row in rows) for verdict in ("failed", "kept"))
    lines = [
        f"### Performance budgets: {kept} kept, {over} exceeded",
        "",
        "| | test | quantity | figure | limit | baseline | |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    marks = {"kept": "✅", "failed": "❌", "skipped": "⏭", "written": "📝"}
    for row in rows:
        cells = [
            marks.get(row["verdict"], ""),
            f"`{safe(row['test'])}`",
            *(safe(row[name]) for name in ("quantity", "figure", "limit", "baseline", "load")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"
