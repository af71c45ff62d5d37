"""Programs as forks of a process that has imported torch already, which takes longer than most of them run.

    with Forks("torch", "tachograph.profiler") as forks:
        done = forks.run("print(torch.ones(2))", cwd=folder)    # as subprocess.run([sys.executable, "-c", code])

A program that starts processes which import it again needs a process of its own."""

import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import types

TIMEOUT_S = 600


class Forks:
    """The process is started by the first program; path is put before its sys.path."""

    def __init__(self, *modules, path=()):
        self.modules, self.path, self.process = modules, path, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()

    def start(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if self.path:
            environment["PYTHONPATH"] = os.pathsep.join(map(str, self.path))
        self.process = subprocess.Popen(
            [sys.executable, __file__, *self.modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, code=None, script=None, arguments=(), cwd=None, env=None):
        """Runs code, or the script; env is added to the environment. Ends with SIGALRM after TIMEOUT_S."""
        if self.process is None:
            self.start()
        with tempfile.TemporaryDirectory() as folder:
            out, err = os.path.join(folder, "out"), os.path.join(folder, "err")
            request = {
                "code": code,
                "script": script and str(script),
                "arguments": [str(word) for word in arguments],
                "cwd": str(cwd or os.getcwd()),
                "env": env or {},
                "out": out,
                "err": err,
            }
            print(json.dumps(request), file=self.process.stdin, flush=True)
            status = int(self.process.stdout.readline())
            with open(out) as stdout, open(err) as stderr:
                return subprocess.CompletedProcess(script or "-c", status, stdout.read(), stderr.read())


def run_program(request):
    """In the fork: returns or raises as the program does."""
    signal.alarm(TIMEOUT_S)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[stream], os.O_WRONLY | os.O_CREAT, 0o644), number)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = [request["script"] or "-c", *request["arguments"]]
    if request["script"]:
        runpy.run_path(request["script"], run_name="__main__")
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(request["code"], "<string>", "exec"), main.__dict__)


def serve(modules):
    """Standard input: a request a line. Standard output: the exit status of each, as subprocess gives it."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a fork that visits every imported object when it ends copies their pages: 0.4 s
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return run_program(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    serve(sys.argv[1:])
