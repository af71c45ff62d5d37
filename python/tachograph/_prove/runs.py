"""The program, run again until each place was delayed three times, in blocks of steps beside blocks without a delay."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from .._launch.start import environment
from .places import Plan, Refused

REPEAT, MOST_REPEAT = 3, 9
AGREE_PCT = 10  # of the step: what differs more is repeated
BLOCK_NS, LEAST_STEPS, MOST_STEPS = 100_000_000, 5, 50  # how long the steps of a block are, and how many at least
LEAD = 1  # before them, which are not timed
MOST_RUNS = 24
LOOK_SECONDS, END_SECONDS = 0.1, 5.0
LAST_WORDS = 400  # characters of what a program that failed said last


@dataclass
class Measured:
    """Of each repetition. Steps are without the time in which their thread was ready and had no core."""

    grown_ns: list[float] = field(default_factory=list)  # how much longer a step was
    delays: list[float] = field(default_factory=list)  # how many there were in a step
    bare_ns: list[float] = field(default_factory=list)  # the step without them
    waited: list[float] = field(default_factory=list)  # the part of the steps without a core


@dataclass
class Comparison:
    measured: list[Measured]  # by place
    others_pct: list[int]  # of each run: what other programs used meanwhile, of one core; none where it is not known


@dataclass
class Block:
    delayed: int
    step_ns: float
    waited: float
    steps: int


def measure(argv: list[str], plan: Plan, say: Callable[[str], None]) -> Comparison:
    places = plan.places
    missing = [(turn, place) for turn in range(REPEAT) for place in range(len(places))]
    # All in one run, where its steps are enough.
    most = min(MOST_STEPS, -(-BLOCK_NS // max(plan.step_ns, 1)), plan.steps // (2 * len(missing)) - LEAD)
    steps = max(LEAST_STEPS, most)
    measured = [Measured() for _ in places]
    found = Comparison(measured, [])
    for run in range(MOST_RUNS):
        say(f"run {run + 1}: {len(missing)} comparisons to go, {steps} steps each way")
        blocks = [block for turn, place in missing for block in _pair(turn, place, places[place].delay_ns)]
        done, others_pct = _run(argv, [place.name for place in places], blocks, steps + LEAD)
        found.others_pct += others_pct
        for at, (turn, place) in enumerate(missing[: len(done) // 2]):
            first, second = done[2 * at : 2 * at + 2]
            bare, late = (first, second) if turn % 2 == 0 else (second, first)
            measured[place].grown_ns.append(late.step_ns - bare.step_ns)
            measured[place].delays.append(late.delayed / late.steps)
            measured[place].bare_ns.append(bare.step_ns)
            measured[place].waited += [bare.waited, late.waited]
        missing = missing[len(done) // 2 :] or _unsteady(measured)
        if not missing:
            return found
        if len(done) < 2 and steps == LEAST_STEPS:
            break
        if len(done) < 2:
            steps = LEAST_STEPS
    if all(len(m.grown_ns) >= REPEAT for m in measured):
        return found
    raise Refused(
        f"the program has too few steps to compare: {2 * (LEAST_STEPS + LEAD)} are needed behind its warm-up, of some 20"
    )


def _unsteady(measured: list[Measured]) -> list[tuple[int, int]]:
    """Two more of each place with repetitions that differ by too much. The predictions are not used for that."""
    return [
        (len(m.grown_ns) + k, place)
        for place, m in enumerate(measured)
        for k in range(2)
        if len(m.grown_ns) < MOST_REPEAT and max(m.grown_ns) - min(m.grown_ns) > AGREE_PCT / 100 * median(m.bare_ns)
    ]


def _pair(turn: int, place: int, ns: int) -> list[tuple[int, int]]:
    """The order turns around, so a machine that becomes slower all the time cancels out."""
    return [(place, 0), (place, ns)] if turn % 2 == 0 else [(place, ns), (place, 0)]


def _run(argv: list[str], names: list[str], blocks: list[tuple[int, int]], steps: int) -> tuple[list[Block], list[int]]:
    """The whole blocks of one run, which ends with the last of them, and what others used meanwhile, if known."""
    with tempfile.TemporaryDirectory(prefix="tachograph-prove-") as folder, tempfile.TemporaryFile() as words:
        raw = os.path.join(folder, "raw")
        os.mkdir(raw)
        asked = {"names": names, "blocks": blocks, "steps": steps, "lead": LEAD}
        program = subprocess.Popen(
            argv,
            env=environment(folder, prove=asked),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            start_new_session=True,
        )
        ended = False
        try:
            while program.poll() is None and not ended:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(LOOK_SECONDS)
                ended = any(line == "done" for line in _lines(raw))
        finally:
            _end(program)
        for line in _lines(raw):
            if line.startswith("note "):
                raise Refused(line.removeprefix("note "))
        done = [_block(line) for line in _lines(raw) if line.startswith("block ")]
        others_pct = [int(line.split()[1]) for line in _lines(raw) if line.startswith("others ")][-1:]
        if program.returncode and not ended and not done:
            words.seek(0)
            said = words.read()[-LAST_WORDS:].decode(errors="replace").strip().rpartition("\n")[2]
            raise Refused(f"the program ended with {program.returncode} when it was run again: {said}")
        return done, others_pct


def _end(program: subprocess.Popen[bytes]) -> None:
    """It and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if program.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def _lines(raw: str) -> Iterator[str]:
    for name in sorted(os.listdir(raw)):
        with open(os.path.join(raw, name), errors="replace") as file:
            yield from file.read().splitlines()


def _block(line: str) -> Block:
    delayed, *figures = map(int, line.split()[2:])
    times, waits = figures[::2], figures[1::2]
    own_ns = median(ns - waited_ns for ns, waited_ns in zip(times, waits, strict=True))
    return Block(delayed, own_ns, sum(waits) / max(sum(times), 1), len(times) + LEAD)
