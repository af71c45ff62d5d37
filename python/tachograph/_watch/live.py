"""`tachograph run --live`: start a program that is watched from its first step on. It is entered by the sitecustomize
of `tachograph run`; nothing is recorded but the ring that its figures are made of."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from .._launch.start import environment
from .watcher import LOOK_SECONDS, Output, Watcher

STOPPED_BY_SIGNAL = 128
LIVE = {"live": True, "session": 0, "steps": 0, "seconds": 0.0, "memory": 0}


def watched_process(folder: str) -> int:
    """The number of the one process that reports; 0 = there is none yet."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "live")) as file:
        return int(file.read())
    return 0


def run(form: str, words: list[str]) -> int:
    """The exit status of the program. Lines go to standard error; objects to standard output, and the program's own
    output to standard error then."""
    folder = tempfile.mkdtemp(prefix="tachograph-watch-")
    os.mkdir(os.path.join(folder, "raw"))
    is_json = form == "json"
    output = Output(form, False, 0, sys.stdout if is_json else sys.stderr, takes_all=False)
    try:
        program = subprocess.Popen(
            words, env=environment(folder, **LIVE), stdout=sys.stderr if is_json else None, close_fds=False
        )
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"tachograph: '{words[0]}' cannot be started: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126

    def hand_on(number: int, _: Any) -> None:
        program.send_signal(number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the program, too
    for number in (
        *(() if os.isatty(0) else (signal.SIGINT,)),
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(number, hand_on)
    watcher: Watcher | None = None
    goes_on = True
    while program.poll() is None:
        pid = watched_process(folder) if watcher is None else 0
        if pid:
            watcher = Watcher(folder, pid, None, output)
        if watcher is not None and goes_on:
            goes_on = watcher.look()
        time.sleep(LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)
    if watcher is None:
        print("tachograph: the program never imported torch, so there was nothing to show", file=sys.stderr)
    return program.returncode if program.returncode >= 0 else STOPPED_BY_SIGNAL - program.returncode
