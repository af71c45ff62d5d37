#!/usr/bin/env python3
"""What recording adds to a training step, with two builds of the package that take turns on one machine.

    two_builds.py OTHER/.venv/bin/python [--runs 5] [--rounds 21]     CPU time, divided by what torch.profiler adds
    two_builds.py OTHER/.venv/bin/python --instructions [--steps 12]  instructions, counted by valgrind's callgrind

The Python that runs this has one build, OTHER the second, as a worktree of an older commit with a venv. Time varies by
a tenth from run to run on a machine that others use, and has to be taken on an idle one; instructions vary by 0.5 % on
any machine. The steps are of workloads.py, the contenders of recorder.py: names and times, and everything on."""

import argparse
import ctypes
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
AGAINST = {"names": "torch", "all": "torch all"}
PROGRAMS = ("MLP", "transformer")
CALLGRIND = """#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void stop(const char *name) { CALLGRIND_STOP_INSTRUMENTATION; CALLGRIND_DUMP_STATS_AT(name); }
"""


def contenders(folder):
    sys.path.insert(0, str(HERE))
    import recorder

    return recorder, {
        "bare": recorder.bare,
        "names": recorder.ours(recorder.NAMES, folder),
        "all": recorder.ours(recorder.ALL, folder, recorder.NAMES),
        "torch": recorder.theirs(),
        "torch all": recorder.theirs(**recorder.ALL_FLAGS),
    }


def child_time(folder, rounds):
    """Prints {contender: [how many times as long a step is as a bare one, for each program]}."""
    recorder, all_of_them = contenders(folder)
    blocks = [recorder.step_blocks(recorder.workloads.STEPS[p], all_of_them, rounds)[0] for p in PROGRAMS]
    print(json.dumps({name: [block[name] for block in blocks] for name in all_of_them}))


def child_instructions(folder, program, steps):
    """Under callgrind, which leaves a file for each contender."""
    recorder, all_of_them = contenders(folder)
    library = ctypes.PyDLL(os.path.join(folder, "callgrind.so"))
    recorder.torch.manual_seed(0)
    step = recorder.workloads.STEPS[program]()
    for name, around in all_of_them.items():
        with around():
            for count in (4, steps):  # from one line: the steps before have the stacks of those that are counted
                if count == steps:
                    library.start()
                for _ in range(count):
                    step()
            library.stop(name.encode())


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return done.stdout


def times(builds, options):
    ratios = {build: {name: [] for name in AGAINST} for build in builds}
    for number in range(options.runs):
        for build in list(builds)[:: 1 if number % 2 else -1]:
            words = [builds[build], "-W", "ignore", __file__, "--child", "time", "--rounds", str(options.rounds)]
            slower = json.loads(run(words).splitlines()[-1])
            for name, other in AGAINST.items():
                each = [(m - 1) / (t - 1) for m, t in zip(slower[name], slower[other])]
                ratios[build][name].append(statistics.geometric_mean(max(ratio, 0.01) for ratio in each))
    print("load average %.1f" % os.getloadavg()[0])
    for name, other in AGAINST.items():
        for build in builds:
            print("%-6s / %-10s %-6s" % (name, other, build), " ".join("%.3f" % r for r in sorted(ratios[build][name])))
        mine, second = (statistics.median(ratios[build][name]) for build in builds)
        print("%-6s / %-10s medians %.3f and %.3f: %.3f times" % (name, other, mine, second, mine / second))


def own_cost(text):
    """The sum of a file of callgrind's: its summary is 0 where threads are apart. Behind calls= is what was called."""
    text = re.sub(r"^calls=.*\n.*\n", "", text, flags=re.M)
    return sum(map(int, re.findall(r"^(?:[+-]?\d+|\*) (\d+)$", text, re.M)))


def instructions(builds, options):
    for program in PROGRAMS if options.program is None else [options.program]:
        extra = {}
        for build, python in builds.items():
            with tempfile.TemporaryDirectory() as folder:
                source, library = pathlib.Path(folder, "callgrind.c"), pathlib.Path(folder, "callgrind.so")
                source.write_text(CALLGRIND)
                run(["cc", "-shared", "-fPIC", "-o", library, source])
                words = ["--child", program, "--folder", folder, "--steps", str(options.steps)]
                out = "--callgrind-out-file=%s/out" % folder
                valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", out]
                run([*valgrind, python, "-W", "ignore", __file__, *words])
                found = {}
                for path in pathlib.Path(folder).glob("out.*-01"):  # of the main thread
                    text = path.read_text()
                    name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
                    if name:
                        found[name[1]] = own_cost(text) / options.steps
                extra[build] = {name: found[name] - found["bare"] for name in found}
        for name, other in AGAINST.items():
            mine, second = (extra[build] for build in builds)
            print(
                "%s, %s: %.0f and %.0f instructions a step, %.3f times; to torch.profiler's %.3f and %.3f"
                % (program, name, mine[name], second[name], mine[name] / second[name],
                   mine[name] / mine[other], second[name] / second[other])
            )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", help="the Python of the second build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--program", choices=PROGRAMS, help="only this one")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "time":
        with tempfile.TemporaryDirectory() as folder:
            return child_time(folder, options.rounds)
    if options.child:
        return child_instructions(options.folder, options.child, options.steps)
    if not options.other:
        parser.error("the Python of the second build is missing")
    builds = {"this": sys.executable, "other": options.other}
    return instructions(builds, options) if options.instructions else times(builds, options)


if __name__ == "__main__":
    main()
