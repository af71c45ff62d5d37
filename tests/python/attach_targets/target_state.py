"""What the programs that are attached to have in common: marks of where they are, and one line of what they computed
and of what the interpreter looks like to them at their end."""

import hashlib
import os
import signal
import sys
import threading
import time

PATH = list(sys.path)
FINDERS = list(sys.meta_path)


def mark(name):
    """The program has come so far; whoever watches it sees a file."""
    folder = os.environ.get("TARGET_MARKS")
    if folder:
        open(os.path.join(folder, name), "w").close()


def stay():
    """Until whoever watches it has seen enough of it."""
    folder = os.environ.get("TARGET_MARKS")
    while folder and not os.path.exists(os.path.join(folder, "may end")):
        time.sleep(0.002)


def digest(*values):
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def finish(*values):
    """The names of the main module, the threads, sys.path, the finders, the handlers of signals: as without us."""
    stay()
    names = sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__"))
    finders = [finder for finder in sys.meta_path if finder not in FINDERS]
    handlers = [str(signal.getsignal(number)).split(" at ")[0] for number in (signal.SIGINT, signal.SIGTERM)]
    print(digest(*values), digest(*names), sys.path == PATH, finders, handlers, threading.active_count(), flush=True)
