"""Running a command and measuring it: wall time of the whole process, and the peak of its anonymous memory."""

import os
import statistics
import subprocess
import threading
import time


class Failed(Exception):
    pass


def start(command, cores, out):
    def pin():
        if cores:
            os.sched_setaffinity(0, cores)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, preexec_fn=pin)


def finish(child, command):
    """Waits for the end; returns the CPU seconds of the child."""
    err = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise Failed(
            "%s: status %d: %s"
            % (" ".join(command)[:200], child.returncode, err.decode("utf-8", "replace").strip()[-300:])
        )
    return usage.ru_utime + usage.ru_stime


def timed(command, cores=None):
    """(wall, CPU) seconds, from before the process exists until it is gone."""
    begin = time.perf_counter()
    cpu = finish(start(command, cores, subprocess.DEVNULL), command)
    return time.perf_counter() - begin, cpu


def output(command, cores=None):
    child = start(command, cores, subprocess.PIPE)
    out = child.stdout.read()
    finish(child, command)
    return out


def peak_anonymous(command, cores=None):
    """Peak of RssAnon in bytes, sampled every 2 ms: mapped pages of the input are the system's, not ours."""
    child, peak = start(command, cores, subprocess.DEVNULL), [0]
    done = threading.Event()

    def sample():
        while not done.is_set():
            try:
                with open("/proc/%d/status" % child.pid) as f:
                    for line in f:
                        if line.startswith("RssAnon:"):
                            peak[0] = max(peak[0], int(line.split()[1]) * 1024)
            except (OSError, ValueError):
                return
            done.wait(0.002)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        finish(child, command)
    finally:
        done.set()
        sampler.join()
    return peak[0]


class Times:
    """Wall and CPU seconds of contenders that ran in turn."""

    def __init__(self, names):
        self.wall, self.cpu = {n: [] for n in names}, {n: [] for n in names}

    def add(self, name, seconds):
        self.wall[name].append(seconds[0])
        self.cpu[name].append(seconds[1])

    def note(self, name):
        return "CPU %.3g s" % statistics.median(self.cpu[name])

    def ratio(self, ours, theirs):
        """Median over rounds of ours / theirs: neighbours in time share the state of the machine."""
        return statistics.median(a / b for a, b in zip(self.wall[ours], self.wall[theirs]))

    def cpu_ratio(self, ours, theirs):
        return statistics.median(self.cpu[ours]) / statistics.median(self.cpu[theirs])

    def raw(self):
        return {"wall": self.wall, "cpu": self.cpu}


def alternate(contenders, rounds, cores=None):
    """contenders: {name: command, or (command, cores)}. Runs them in turn, `rounds` times, after one unmeasured turn
    that warms the page cache."""
    runs = {name: c if isinstance(c, tuple) else (c, cores) for name, c in contenders.items()}
    for command, where in runs.values():
        timed(command, where)
    times = Times(runs)
    for _ in range(rounds):
        for name, (command, where) in runs.items():
            times.add(name, timed(command, where))
    return times


def machine():
    model = ""
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith(("model name", "Model")):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": os.uname().release,
        "load_before": os.getloadavg()[0],
    }
