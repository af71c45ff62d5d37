"""Runs scripts, one after the other, each in a fork of this process, which has imported torch already.

Standard input: a line for each, "script folder"; the script runs in the folder, its output goes to folder.out and
folder.err. Standard output: a line with its exit status."""

import os
import runpy
import sys
import traceback

import shim
import torch._inductor.config
import tachograph.profiler


def run(script, folder):
    for number, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}.{suffix}", os.O_WRONLY | os.O_CREAT, 0o644), number)
    os.chdir(folder)
    sys.argv = [script]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as e:
        return int(e.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        script, folder = line.split()
        if script.endswith("_ranks.py"):  # starts processes that import it again: a program of its own
            command = f"cd {folder} && PYTHONPATH={os.path.dirname(script)} {sys.executable} {script} >../work.out 2>../work.err"
            print(os.waitstatus_to_exitcode(os.system(command)), flush=True)
            continue
        child = os.fork()
        if child == 0:
            sys.exit(run(script, folder))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
