"""`tachograph watch` comes here when the program has been entered: FOLDER PID SECONDS once|"" json|text WIDTH.

SECONDS is "" without a limit, WIDTH 0 where none was given. `tachograph run --live` comes with: run json|text WORDS of
the program."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from . import live
from .watcher import LOOK_SECONDS, Output, Watcher

ONCE_SECONDS = 3.0


def watch(folder: str, pid: str, seconds: str, once: str, form: str, width: str) -> int:
    is_once, parent, asked = once == "once", os.getppid(), []
    limit = float(seconds) if seconds else ONCE_SECONDS if is_once else None
    output = Output(form, is_once, int(width), sys.stdout, takes_all=True)

    def stop(number: int, _: Any) -> None:
        asked.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if output.is_terminal:
        signal.signal(signal.SIGTSTP, output.suspend)
    watcher = Watcher(folder, int(pid), limit, output, is_once)
    try:
        with output:
            while not asked and os.getppid() == parent and watcher.look():
                time.sleep(LOOK_SECONDS)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        said = watcher.said
        watcher.end()
    if said:
        print(f"tachograph watch: {said}", file=sys.stderr)
    return 0 if not said or "has ended" in said else 4


def main() -> int:
    if sys.argv[1] == "run":
        return live.run(sys.argv[2], sys.argv[3:])
    return watch(*sys.argv[1:7])


if __name__ == "__main__":
    sys.exit(main())
