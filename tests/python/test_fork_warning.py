"""Python's warning of a fork beside threads: silent where the only other threads are ours, and only there."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading, time, warnings
from tachograph._launch import fork_warning

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def ours():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write("tachograph")
    named.set()
    ends.wait()

named, ends, before = threading.Event(), threading.Event(), list(warnings.filters)
threads = [threading.Thread(target=ours)]
if sys.argv[1] == "beside one of its own":
    threads.append(threading.Thread(target=ends.wait))
for thread in threads:
    thread.start()
named.wait()
if sys.argv[1] != "without us":
    fork_warning.silence()
fork()
assert not fork_warning.is_due()  # Python warns when the functions for a fork have run
fork_warning.restore()
assert warnings.filters == before
ends.set()
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 begins to warn")
@pytest.mark.parametrize("how, warns", [("beside ours", False), ("beside one of its own", True), ("without us", True)])
def test_a_fork_beside_ours_is_not_warned_of(how, warns):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert ("is multi-threaded" in done.stderr) == warns
