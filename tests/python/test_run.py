"""`tachograph run`: the program must not notice, whatever it does; and what it did must be in the file, however it
ended."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import zipapp

import pytest
import tachograph as tg

RUN = [sys.executable, "-m", "tachograph", "run"]
PYTHON = shlex.quote(sys.executable)  # for a shell


@pytest.fixture
def program(tmp_path):
    """program(text, name) writes a script and returns its path."""

    def write(text, name="prog.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def run(*words, cwd, env=None, **kwargs):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.run(
        [*RUN, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, **kwargs
    )


def begin(*words, cwd, **kwargs):
    """As from a terminal: where the tests run in the background, SIGINT is ignored, and what they start would ignore
    it, too."""
    return subprocess.Popen(
        [*RUN, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **kwargs,
    )


def await_file(path, text="", seconds=600):
    """Until the file is there and holds the text."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not come")


def steps_of(folder):
    with tg.open(folder / "trace.tacho") as trace:
        return [row for row in trace.ask("steps") if str(row["step"]).isdigit()]


# ---- the program does not notice


SELF = """
    import os, sys
    print(sys.argv, __name__, __file__, __spec__, __package__, sys.path[0], sys.flags)
    print([m for m in sys.modules if "tachograph" in m], [f for f in sys.meta_path if "tachograph" in type(f).__module__])
    print([p for p in sys.path if "_launch" in p], os.getcwd())
    print(sys.stdin.read().upper())
"""


@pytest.mark.parametrize("arguments", [[], ["-o", "x", "--steps=3", "--", "-m", ""]])
def test_the_program_sees_what_it_would_see_without_us(program, tmp_path, arguments):
    script = program(SELF)
    plain = subprocess.run(
        [sys.executable, script, *arguments], cwd=tmp_path, input="in\n", capture_output=True, text=True
    )
    under = run("-o", "out", script, *arguments, cwd=tmp_path, input="in\n")
    assert plain.returncode == under.returncode == 0
    assert under.stdout == plain.stdout and "IN" in plain.stdout


def test_a_module_with_relative_imports(program, tmp_path):
    program("", "pack/__init__.py")
    program("value = 7", "pack/part.py")
    program(
        "from .part import value\nimport sys; print(value, sys.argv, __name__, __package__, __spec__.name, sys.path[0])",
        "pack/__main__.py",
    )
    plain = subprocess.run(
        [sys.executable, "-m", "pack", "-x", "--", "y"], cwd=tmp_path, capture_output=True, text=True
    )
    under = run("-o", "out", "-m", "pack", "-x", "--", "y", cwd=tmp_path)
    assert plain.returncode == 0 and under.stdout == plain.stdout


def test_standard_input_as_the_script(tmp_path):
    under = run("-o", "out", "-", "a", cwd=tmp_path, input="import sys; print(sys.argv, __name__)")
    assert under.stdout == "['-', 'a'] __main__\n"


def test_a_command_and_its_python_children(program, tmp_path):
    script = program("import os; print('TACHOGRAPH_RUN' in os.environ)")
    under = run("-o", "out", "--", "sh", "-c", f"echo from sh; {PYTHON} {script}; exit 5", cwd=tmp_path)
    assert under.stdout == "from sh\nTrue\n" and under.returncode == 5


@pytest.mark.parametrize(
    "text, status",
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('enough')", 1),
        ("raise SystemExit", 0),
        ("1/0", 1),
        ("import os; os._exit(9)", 9),
        ("def f():\n    raise KeyError('x')\nf()", 1),
        ("syntax error", 1),
    ],
)
def test_status_and_traceback_are_the_programs(program, tmp_path, text, status):
    script = program(text)
    plain = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    under = run("-o", "out", script, cwd=tmp_path)
    assert under.returncode == plain.returncode == status
    assert under.stderr.startswith(plain.stderr)


POOL = """
    import multiprocessing, sys
    class Thing:
        def __init__(self, value): self.value = value
    def more(thing): return Thing(thing.value + 1)
    if __name__ == "__main__":
        for how in ("spawn", "fork", "forkserver"):
            with multiprocessing.get_context(how).Pool(2) as pool:
                print(how, sorted(t.value for t in pool.map(more, map(Thing, range(3)))))
"""
SHAPES = {
    "pickled and spawned": ({"prog.py": POOL}, "prog.py"),
    "beside a module named as one of the library": (
        {
            "prog.py": "import json, random; print(json.mine, random.mine)",
            "json.py": "mine = 1",
            "random.py": "mine = 2",
        },
        "prog.py",
    ),
    "named as one of the library": (
        {
            "json.py": "import sys; print(__name__, 'json' in sys.modules); import json; print(json.__file__ == __file__)"
        },
        "json.py",
    ),
    "a folder": (
        {"app/__main__.py": "import sys, part; print(sys.argv, sys.path[0], part.x, __name__)", "app/part.py": "x = 3"},
        "app",
    ),
    "a zip file": (
        {"app/__main__.py": "import sys, part; print(sys.argv, sys.path[0], part.x, __name__)", "app/part.py": "x = 3"},
        "app.pyz",
    ),
    "what is loaded": (
        {
            "prog.py": "import sys; print(sorted(set(sys.modules) - {'sitecustomize'}), sys.orig_argv[1:], sys.warnoptions)"
        },
        "prog.py",
    ),
    "deep in a traceback": ({"prog.py": "def f(n):\n    return 1 / n if not n else f(n - 1)\nf(3)"}, "prog.py"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_of_every_shape(program, tmp_path, shape):
    files, name = SHAPES[shape]
    for path, text in files.items():
        program(text, path)
    if name.endswith(".pyz"):
        zipapp.create_archive(tmp_path / "app", tmp_path / name)
    plain = subprocess.run([sys.executable, name, "word"], cwd=tmp_path, capture_output=True, text=True)
    under = run("-o", "out", name, "word", cwd=tmp_path)
    assert (under.returncode, under.stdout) == (plain.returncode, plain.stdout) and under.stderr.startswith(
        plain.stderr
    )
    assert plain.stdout or plain.stderr


def test_a_command_chooses_its_python_itself(program, tmp_path):
    other = program(f'#!/bin/sh\nCHOSEN=1 exec {PYTHON} "$@"', "other-python")
    tool = program(f"#!{other}\nimport os, sys; print(os.environ.get('CHOSEN'), sys.argv)", "tool")
    for path in (other, tool):
        path.chmod(0o755)
    assert run("-o", "out", "./tool", "a", cwd=tmp_path).stdout == "1 ['./tool', 'a']\n"
    tool.chmod(0o644)  # not a command: a script for the Python that we have
    assert run("-o", "out2", "./tool", "a", cwd=tmp_path).stdout == "None ['./tool', 'a']\n"
    code = "import sys; print(sys.argv, __name__, sys.path[0])"
    assert run("-o", "out3", "--", sys.executable, "-c", code, "x", cwd=tmp_path).stdout == "['-c', 'x'] __main__ \n"


def test_a_sitecustomize_of_the_users_own_still_runs_once(program, tmp_path):
    program("import sys; sys.mine = getattr(sys, 'mine', 0) + 1; print('custom', __name__)", "site/sitecustomize.py")
    script = program("import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PYTHONUNBUFFERED": ""}  # empty: output to a pipe is kept back
    under = run("-o", "out", script, cwd=tmp_path, env=environment)
    ours, *programs = under.stdout.splitlines()  # the first line is of the Python that our own command is
    assert ours == "custom sitecustomize" and programs == [
        "custom sitecustomize",
        f"1 {tmp_path}/site/sitecustomize.py",
    ]


def test_without_the_variable_the_folder_does_nothing(tmp_path):
    import tachograph._launch

    site = os.path.join(os.path.dirname(tachograph._launch.__file__), "site")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.meta_path), [p for p in sys.path if '_launch' in p])"],
        env={**os.environ, "PYTHONPATH": site},
        capture_output=True,
        text=True,
    )
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.meta_path), [])"], capture_output=True, text=True
    )
    assert done.stdout == plain.stdout and done.stderr == ""


# ---- signals


WAITS = """
    import pathlib, sys, time
    try:
        pathlib.Path("ready").touch()
        time.sleep(600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
"""


def test_sigterm_to_us_reaches_the_program(program, tmp_path):
    process = begin("-o", "out", program(WAITS), cwd=tmp_path)
    await_file(tmp_path / "ready")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM


def test_ctrl_c_reaches_the_program_once(program, tmp_path):
    process = begin("-o", "out", program(WAITS), cwd=tmp_path)
    await_file(tmp_path / "ready")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert out == "interrupted\n" and err.count("KeyboardInterrupt") == 1
    assert process.returncode == 128 + signal.SIGINT


# ---- calls that make no sense


def test_least_budgets_are_the_recorders():
    _record = pytest.importorskip("tachograph._record")

    assert (_record.LEAST_DISK, _record.LEAST_MEMORY) == (262144, 1048576)  # as the calls below


@pytest.mark.parametrize(
    "call, said",
    [
        ([], "run needs a program"),
        (["nosuch.py"], "there is no script 'nosuch.py'"),
        (["--", "no-such-command-x"], "cannot start 'no-such-command-x'"),
        (["--preset", "big", "x.py"], "lean, default or deep"),
        (["--steps", "0", "x.py"], "--steps needs a number"),
        (["--bytes", "many", "x.py"], "--bytes needs a size"),
        (["--bytes", "64", "x.py"], "--bytes needs a size such as 64M, and 256K at least, not '64'"),
        (["--memory", "64K", "x.py"], "--memory needs a size such as 64M, and 1M at least, not '64K'"),
        (["--bytes", "262143", "nosuch.py"], "256K at least"),
        (["--bytes", "262144", "nosuch.py"], "there is no script"),
        (["--memory", "1048575", "nosuch.py"], "1M at least"),
        (["--memory", "1048576", "nosuch.py"], "there is no script"),
        (["--frob", "x.py"], "no option '--frob'"),
        (
            ["-o", "/proc/none/x", "--", "true"],
            "'/proc/none': No such file or directory; -o DIR takes a folder that can",
        ),
    ],
)
def test_usage(tmp_path, call, said):
    under = run(*call, cwd=tmp_path)
    assert said in under.stderr and under.returncode in (2, 4)
    assert not list(tmp_path.glob("tachograph-runs/*"))


def test_a_folder_is_not_recorded_into_twice(program, tmp_path):
    (tmp_path / "out" / "raw").mkdir(parents=True)
    under = run("-o", "out", program("print('ran')"), cwd=tmp_path)
    assert under.returncode == 2 and "holds a recording already" in under.stderr and under.stdout == ""


def test_help_has_an_example_and_the_options(tmp_path):
    said = run("--help", cwd=tmp_path).stdout
    assert "usage: tachograph run [options] SCRIPT.py" in said and "example\n  tachograph run" in said
    assert said.count("--output") == 1


# ---- nothing to record, and why


def test_a_program_without_torch_is_reported_as_such(program, tmp_path):
    under = run("-o", "out", program("print('done')"), cwd=tmp_path)
    assert under.stdout == "done\n" and "never imported torch" in under.stderr and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for _ in range(2):  # the folder is left as it was, so it can be used again
        assert "never imported torch" in run("-o", "out", program("print('done')"), cwd=tmp_path).stderr
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_isolated_python_is_reported_as_such(program, tmp_path):
    under = run("-o", "out", "--", sys.executable, "-I", program("print('done')"), cwd=tmp_path)
    assert under.stdout == "done\n" and "-I, -S or -E" in under.stderr


STARTS_BARE = """
    import os, shlex, subprocess, sys
    python = shlex.quote(sys.executable)
    def bare(*options, **more): subprocess.run([sys.executable, *options, "-c", "pass"], check=True, **more)
    bare("-I")
    bare("-W", "ignore", "-BS")
    bare("-bE")
    bare("-B", "-WIgnore", "-X", "dev")                           # comes to us
    subprocess.run([sys.executable, "-c", "pass", "-I"])          # a word of the program's own
    subprocess.run(["/bin/echo", "-I"], stdout=subprocess.DEVNULL)
    bare(env={"PATH": os.environ["PATH"]})
    bare(env={**os.environ, "PYTHONPATH": "/elsewhere"})
    bare(env={**os.environ, "OTHER": "1"})                        # comes to us
    if hasattr(os, "posix_spawn"):
        os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", "pass"], os.environ), 0)
    if os.fork() == 0:
        os.execvp(sys.executable, [sys.executable, "-Ic", "pass"])
    os.wait()
    subprocess.run(["sh", "-c", f"echo python -I >/dev/null; {python} -I -c pass && X=1 exec {python} -E -c 'pass; pass'"], check=True)
    subprocess.run(f"PYTHONPATH=/elsewhere {python} -c pass; PYTHONPATH=/more:$PYTHONPATH {python} -c pass", shell=True, check=True)
    assert os.system(f'cd . && sh -ec {shlex.quote(python + " -S -c pass")}; (env -i {python} -c pass)') == 0
    exec("subprocess.run([sys.executable, '-c', 'pass'], env={})", {**globals(), "__name__": "torch._inductor.a"})  # nothing of the program
    print("done")
"""


def test_pythons_that_could_not_be_recorded_are_counted(program, tmp_path):
    under = run("-o", "out", program(STARTS_BARE), cwd=tmp_path)
    assert under.stdout == "done\n" and under.returncode == 0, under.stderr
    assert "not recorded: 8 Python processes that the program started with -I, -E or -S" in under.stderr
    assert "not recorded: 4 Python processes that the program started without the variables" in under.stderr


def test_words_that_cannot_be_started_are_refused_as_before(program, tmp_path):
    script = program("""
        import os, subprocess, sys
        for call in (lambda: subprocess.run([]), lambda: subprocess.run(["python-none"]), lambda: os.execv(sys.executable, []),
                     lambda: os.execve(sys.executable, [3], {}), lambda: os.posix_spawn("x")):
            try:
                call()
            except Exception as error:
                print(type(error).__name__)
    """)
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True)
    under = run("-o", "out", script, cwd=tmp_path)
    assert under.stdout == plain.stdout and len(plain.stdout.splitlines()) == 5
    assert "not recorded" not in under.stderr


def test_another_python_without_the_package_is_named(program, tmp_path):
    """It imports a torch (a stand-in beside the script), and nothing of it can be recorded."""
    other = os.path.join(sys.base_prefix, "bin", f"python{sys.version_info.major}")
    there = subprocess.run([other, "-Ic", "import tachograph"], capture_output=True).returncode == 0
    if sys.prefix == sys.base_prefix or there:
        pytest.skip("every Python here has the package")
    program("", "torch.py")
    script = program("""
        import subprocess, sys, torch
        print("done")
    """)
    under = run("-o", "out", "--", other, script, cwd=tmp_path)
    assert under.stdout == "done\n" and under.returncode == 0
    assert re.search(r"not recorded: \S+ has no usable tachograph", under.stderr), under.stderr


def test_two_hundred_threads(program, tmp_path):
    """All are counted; that the first waits for them is no step of anything."""
    pytest.importorskip("torch")
    under = run("-o", "out", program("""
        import threading, torch
        together = threading.Barrier(200)
        def work():
            together.wait()
            for _ in range(5): torch.ones(4).add(1)
            together.wait()
        threads = [threading.Thread(target=work) for _ in range(199)]
        for thread in threads: thread.start()
        work()
        for thread in threads: thread.join()
    """), cwd=tmp_path)  # fmt: skip
    assert "no steps were found" in under.stderr and "197 more threads" in under.stderr, under.stderr
    assert "steps: threading" not in under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        assert [row["name"] for row in trace.ask("steps")] == ["whole recording"]
        adds = trace.ask("events", where="name = 'aten::add'")
        assert len(adds) == 1000 and len({row["track"] for row in adds}) == 200


def test_a_profiler_of_the_programs_own_is_noted(program, tmp_path):
    """Both record; its six steps are longer by its cost, which the times then have in them."""
    pytest.importorskip("torch")
    under = run("-o", "out", "--steps", "40", program("""
        import torch
        from torch.profiler import profile, ProfilerActivity
        model = torch.nn.Linear(8, 8)
        prof = profile(activities=[ProfilerActivity.CPU])
        for step in range(120):
            if step == 45: prof.start()
            model(torch.ones(2, 8)).sum().backward()
            if step == 50: prof.stop()
        print(sum(event.name == "aten::addmm" for event in prof.events()))
    """), cwd=tmp_path)  # fmt: skip
    assert under.stdout == "6\n", under.stderr
    assert re.search(r"the program's own profiler ran in [67] recorded steps: times there include", under.stderr)


@pytest.mark.parametrize("when", ["start", *(pytest.param(w, marks=pytest.mark.long) for w in ("base", "window"))])
def test_a_window_of_the_programs_own_tachograph(program, tmp_path, when):
    """33 steps. Begun while we record it is torch's collector that records it; begun between, it has our recorder, and
    our window comes after it."""
    pytest.importorskip("torch")
    under = run("-o", "out", "--steps", "20", program(f"""
        import os, torch, tachograph as tg
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        prof, began, step = tg.profile(), None, 0
        while began is None or step < began + 100:
            optimizer.zero_grad(); model(torch.ones(2, 8)).sum().backward(); optimizer.step()
            log = open(f"out/raw/log-{{os.getpid()}}").read()
            if began is None and log.split("phase ")[-1].startswith("{when}"):
                began = step
                prof.start()
            if began is not None and step == began + 33: prof.stop()
            step += 1
        print(sum(event.name == "aten::addmm" for event in prof.events()), prof._windows[0].kind)
    """), cwd=tmp_path)  # fmt: skip
    assert under.stdout == ("33 native\n" if when == "base" else "33 kineto\n"), under.stderr
    assert re.search(r"recorded   steps \d+ to \d+ of", under.stderr), under.stderr
    assert "off is not off" not in under.stderr and "RecordError" not in under.stderr, under.stderr
    assert "USDT" not in under.stderr and "close it first" not in under.stderr, under.stderr
    said = "`tachograph run` or `attach` records this process already"
    assert (said in under.stderr) == (when != "base"), under.stderr
    assert ("waited for the program's own tachograph profiler" in under.stderr) == (when == "base"), under.stderr


# ---- training


TRAINS = """
    import os, pathlib, signal, sys, time
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def main():
        torch.set_num_threads(1)
        steps, end = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if not end else model  # an optimizer imports torch's compiler
        data = TensorDataset(torch.randn(8 * steps, 64), torch.randint(0, 10, (8 * steps,)))
        for number, (x, y) in enumerate(DataLoader(data, batch_size=8)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if not end:
                optimizer.step()
            time.sleep(0.002)
            if number == 40 and end:
                if end == "wait":
                    pathlib.Path("ready").touch()
                    time.sleep(600)
                if end == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if end == "raise":
                    raise ValueError("forty")
        print("trained")

    if __name__ == "__main__":
        main()
"""


RESTARTS = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    if __name__ == "__main__":
        torch.set_num_threads(1)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        data = TensorDataset(torch.randn(200, 8))
        for _ in range(5):
            for x, in DataLoader(data, batch_size=8, num_workers=1):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
"""


def test_workers_of_steps_that_only_price_the_recording_are_not_in_it(program, tmp_path):
    """A worker an epoch of 25 steps: those that are forked behind the window leave nothing."""
    pytest.importorskip("torch")
    under = run("-o", "out", "--steps", "12", "--preset", "deep", program(RESTARTS), cwd=tmp_path)
    assert under.returncode == 0, under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        pids = {row["track"]: row["pid"] for row in trace.ask("tracks", where="kind == 'cpu'")}
        events = [
            (pids[row["track"]], row["start_ns"], row["name"]) for row in trace.ask("events") if row["track"] in pids
        ]
    steps = [(pid, start) for pid, start, name in events if name.startswith("ProfilerStep#")]
    assert len(steps) == 12 and len({pid for pid, _ in steps}) == 1
    last = max(start for pid, start, _ in events if pid == steps[0][0])
    begins = {pid: min(start for p, start, _ in events if p == pid) for pid in {pid for pid, _, _ in events}}
    assert all(start <= last for start in begins.values())


def test_a_program_without_steps_to_compare_has_a_price_by_its_records(program, tmp_path):
    """It ends in its window: the number of records of a step, and the least and the most that one costs."""
    pytest.importorskip("torch")
    under = run("-o", "out", "--steps", "12", "--json", program(TRAINS), "32", cwd=tmp_path)
    assert under.returncode == 0, under.stderr
    said = re.search(
        r"recording adds about (\S+) % to a step's CPU time \((\S+) to (\S+) %: (\d+) records of (\S+) to (\S+) us\)",
        " ".join(under.stderr.split()),
    )
    assert said, under.stderr
    about, low, high, records, least, most = (float(text) for text in said.groups())
    answer = json.loads(under.stdout)
    assert 0 < low < about < high and about == pytest.approx((low * high) ** 0.5, rel=0.06)
    assert answer["overhead_pct"] == pytest.approx(about, rel=0.06) and high / low == pytest.approx(
        most / least, rel=0.2
    )
    assert answer["overhead_interval_pct"] == [pytest.approx(low, rel=0.06), pytest.approx(high, rel=0.06)]
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        events = sum(trace.ask("tracks")["slices"])
    assert records == pytest.approx(events / answer["recorded_steps"], rel=0.2)  # and some are marks


def test_steps_are_found_recorded_and_priced(program, tmp_path):
    pytest.importorskip("torch")
    under = run("-o", "out", "--steps", "12", program(TRAINS), "70", cwd=tmp_path)
    assert under.returncode == 0 and under.stdout == "trained\n", under.stderr
    names = [step["name"] for step in steps_of(tmp_path / "out")]
    assert len(names) == 12 and re.fullmatch(r"ProfilerStep#\d+", names[0])
    first, last = (int(name.split("#")[1]) for name in (names[0], names[-1]))
    assert last == first + 11
    assert f"steps {first} to {last} of" in under.stderr and "optimizer steps" in under.stderr
    price = re.search(
        r"overhead +a step took \S+ ms while recorded \(n = (\d+)\), \S+ ms otherwise \(n = (\d+)\)", under.stderr
    )
    left_out = bool(re.search(r"the first recorded step,\s+\S+ \w+, is left out", under.stderr))
    assert price and int(price.group(1)) == 12 - left_out and int(price.group(2)) >= 10, under.stderr
    said = " ".join(under.stderr.split())
    interval = r"\(95 % interval [+-]\d+\.\d to [+-]"
    adds = r"recording adds (\d+\.\d % to a step's CPU time|to a step's CPU time is less than the noise) "
    assert re.search(adds + interval, said), said
    assert "tachograph ask out/trace.tacho" in under.stderr
    assert not (tmp_path / "out" / "raw").exists()
    for folder in ("out", "out/", "./out//"):  # the page is headed by what was asked about
        assert subprocess.run(
            [*RUN[:-1], "report", folder], cwd=tmp_path, capture_output=True, text=True
        ).stdout.startswith("out\n")
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        ops = {row["name"]: row["calls"] for row in trace.ask("ops")}
    assert ops["aten::addmm"] == 2 * 12  # two layers a step, in the window and nowhere else


@pytest.mark.parametrize("end, status", [("raise", 1), ("kill", 128 + signal.SIGKILL)])
def test_what_was_recorded_survives_the_end_of_the_program(program, tmp_path, end, status):
    pytest.importorskip("torch")
    native_or_skip(end)
    under = run("-o", "out", "--steps", "60", program(TRAINS), "100", end, cwd=tmp_path)  # it ends within the window
    assert under.returncode == status
    assert len(steps_of(tmp_path / "out")) >= 5
    said = re.findall(r"note +process (\d+) was killed, or left without cleaning up", under.stderr)
    assert len(said) == (end == "kill"), under.stderr
    if end == "raise":
        assert 'raise ValueError("forty")' in under.stderr and "ValueError: forty\n" in under.stderr


def test_ctrl_c_leaves_a_report(program, tmp_path):
    pytest.importorskip("torch")
    process = begin("-o", "out", program(TRAINS), "100", "wait", cwd=tmp_path)
    await_file(tmp_path / "ready")
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to the whole group
    out, err = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in err and process.returncode == 128 + signal.SIGINT
    assert len(steps_of(tmp_path / "out")) >= 5 and "next " in err


BUSY = """
import os, torch
x = torch.zeros(2)
for i in range(1_000_000):
    x + x
open("ready", "w").close()
"""


def test_ctrl_c_once_more_while_packing_says_what_is_there(program, tmp_path):
    pytest.importorskip("torch")
    native_or_skip("kill")
    process = begin("-o", "out", "--seconds", "300", program(BUSY), cwd=tmp_path)
    await_file(tmp_path / "ready")
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    while open(children).read().strip():
        time.sleep(0.005)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGINT
    assert err.endswith("tachograph: stopped; what was recorded is in out: tachograph report out\n")
    for command in ("report", "check", "ask"):
        asked = ["out", "ops"] if command == "ask" else ["out"]
        done = subprocess.run([*RUN[:-1], command, *asked], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "aten::add" in done.stdout


def native_or_skip(end):
    if end != "kill":
        return
    try:
        from tachograph._collect import native as _native

        usable, reason = _native.available()
    except ImportError as error:
        usable, reason = False, str(error)
    if not usable:
        pytest.skip(f"torch's own collector keeps nothing of a killed program ({reason})")


def test_json_goes_to_standard_output_and_the_programs_words_do_not(program, tmp_path):
    pytest.importorskip("torch")
    under = run("--json", "-o", "out", program(SIGNS + "    print('trained')"), "loader", cwd=tmp_path)
    answer = json.loads(under.stdout)
    assert answer["status"] == 0 and answer["file"] == "out/trace.tacho" and answer["recorded_steps"] == 20
    assert answer["steps_from"] == "DataLoader iterations" and "trained" in under.stderr


SIGNS = """
    import sys, time, torch
    from torch.utils.data import DataLoader
    torch.set_num_threads(1)
    kind = sys.argv[1]
    model = torch.nn.Linear(4, 4)
    if kind == "loader":
        for x in DataLoader(torch.zeros(400, 4), batch_size=4):
            model(x)
            time.sleep(0.001)
    if kind == "model":
        for _ in range(100):
            model(torch.zeros(2, 4))
            time.sleep(0.001)
    if kind == "update":
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(100):
            optimizer.zero_grad()
            model(torch.zeros(2, 4)).sum().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            time.sleep(0.001)
    if kind == "step":
        profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=1000, warmup=1, active=1))
        with profiler:
            for x in DataLoader(torch.zeros(400, 4), batch_size=4):
                model(x)
                time.sleep(0.001)
                profiler.step()
    if kind == "tg":
        import tachograph as tg
        for _ in range(100):
            torch.zeros(2) + 1
            time.sleep(0.001)
            tg.step()
    if kind == "none":
        x = torch.zeros(3)
        for _ in range(50):
            x = x + 1
"""


@pytest.mark.parametrize(
    "kind, said",
    [
        pytest.param("model", "calls of the model", marks=pytest.mark.long),
        ("update", "zero_grad calls"),
        ("step", "step() calls"),
        pytest.param("tg", "step() calls", marks=pytest.mark.long),
        ("none", "no steps were found"),
    ],
)
def test_it_says_how_it_found_steps(program, tmp_path, kind, said):
    pytest.importorskip("torch")
    if kind == "none":
        native_or_skip("kill")
    under = run("-o", "out", program(SIGNS), kind, cwd=tmp_path)
    assert under.returncode == 0 and said in under.stderr, under.stderr
    if kind == "none":
        with tg.open(tmp_path / "out" / "trace.tacho") as trace:
            assert {row["name"]: row["calls"] for row in trace.ask("ops")}["aten::add"] == 50
    else:
        steps = steps_of(tmp_path / "out")
        assert len(steps) == 20
        assert all(step["total_ns"] >= 1e6 for step in steps)  # each of them sleeps once


def test_of_a_long_run_without_steps_the_end_is_kept(program, tmp_path):
    pytest.importorskip("torch")
    native_or_skip("kill")
    script = program("""
        import torch
        x = torch.zeros(3)
        one = torch.ones(3)
        for _ in range(40000):
            x = x + one
        for _ in range(10):
            x = x * one
    """)
    under = run("-o", "out", "--bytes", "1M", script, cwd=tmp_path)
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        calls = {row["name"]: row["calls"] for row in trace.ask("ops")}
        seconds = max(trace.sql("SELECT dur_ns FROM slices WHERE category = 'Trace'")["dur_ns"]) / 1e9
    assert calls["aten::mul"] == 10 and calls["aten::add"] < 40000
    lost = int(re.search(r"lost +([\d ]+) records were overwritten", under.stderr).group(1).replace(" ", ""))
    others = lost - (
        40000 - calls["aten::add"]
    )  # zeros and ones with what they call, a run of the collector, two samples of the process ten times a second
    assert 6 <= others < 26 + 20 * (seconds + 0.2) and "recorded   the end of the run" in under.stderr


WORKERS = """
    import sys, time, torch
    from torch.utils.data import DataLoader, Dataset

    class Items(Dataset):
        def __len__(self):
            return 240
        def __getitem__(self, index):
            torch.arange(1000.0).erfinv()
            return torch.zeros(4)

    def main():
        model = torch.nn.Linear(4, 4)
        loader = DataLoader(Items(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
        for x in loader:
            model(x)
            time.sleep(0.05)  # the window is long enough for a worker that looks ten times a second whether it is open

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize("how", ["fork", *(pytest.param(h, marks=pytest.mark.long) for h in ("spawn", "forkserver"))])
def test_workers_are_on_tracks_of_their_own(program, tmp_path, how):
    pytest.importorskip("torch")
    native_or_skip("kill")
    under = run("-o", "out", program(WORKERS), how, cwd=tmp_path)
    assert under.returncode == 0, under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        rows = trace.sql(
            "SELECT t.pid AS pid, s.name AS name, count(*) AS n FROM slices s JOIN tracks t ON s.track = t.track AND s.rank = t.rank "
            "WHERE s.name IN ('aten::erfinv', 'aten::addmm') GROUP BY 1, 2"
        ).to_dicts()
    workers = {row["pid"] for row in rows if row["name"] == "aten::erfinv"}
    trainers = {row["pid"] for row in rows if row["name"] == "aten::addmm"}
    assert len(workers) == 2 and len(trainers) == 1 and not workers & trainers, rows
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        makers = trace.sql(
            "SELECT DISTINCT t.pid AS pid FROM slices s JOIN tracks t ON s.track = t.track AND s.rank = t.rank "
            "WHERE s.name = 'DataLoader batch'"
        )["pid"]
        model = next(iter(trace.ask("step_model")))
    assert set(makers) == workers
    assert model["edges"] >= 10, "the loop waits for batches that it took from its workers"


# Steps are those of a loader: each process that makes an optimizer imports torch's compiler, which takes a second.
FORKS = """
    import multiprocessing, time, torch
    from torch.utils.data import DataLoader
    torch.set_num_threads(1)

    def train():
        model = torch.nn.Linear(4, 4)
        for x in DataLoader(torch.ones(100, 4), batch_size=2):
            model(x).sum().backward()
            time.sleep(0.002)

    children = [multiprocessing.get_context("fork").Process(target=train) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""


def test_forked_trainers_have_windows_of_their_own(program, tmp_path):
    pytest.importorskip("torch")
    native_or_skip("kill")
    under = run("-o", "out", "--steps", "10", program(FORKS), cwd=tmp_path)
    assert under.returncode == 0, under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        rows = trace.sql(
            "SELECT t.pid AS pid, count(*) AS n FROM slices s JOIN tracks t ON s.track = t.track AND s.rank = t.rank "
            "WHERE s.name = 'aten::addmm' GROUP BY 1"
        ).to_dicts()
    assert len(rows) == 2 and all(row["n"] == 10 for row in rows), rows


RANKS = """
    import os, pathlib, subprocess, sys, time
    place = pathlib.Path(__file__).parent
    if "RANK" not in os.environ and sys.argv[1] == "environment":
        children = [subprocess.Popen([sys.executable, __file__, "environment"], env=dict(os.environ, RANK=str(r), WORLD_SIZE="2")) for r in (1, 0)]
        sys.exit(max(child.wait() for child in children))
    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader

    def train(rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=2)
        model = torch.nn.Linear(4, 4)
        for x in DataLoader(torch.ones(100, 4), batch_size=2):
            model(x).sum().backward()
            dist.all_reduce(model.weight.grad)
            time.sleep(0.002)
        dist.destroy_process_group()

    if __name__ == "__main__":
        if sys.argv[1] == "environment":
            train(int(os.environ["RANK"]))
        else:
            torch.multiprocessing.spawn(train, nprocs=2)
"""


@pytest.mark.parametrize("how", [pytest.param("environment", marks=pytest.mark.long), "spawn"])
def test_ranks_lie_in_one_file_and_record_the_same_steps(program, tmp_path, how):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this torch cannot do distributed training")
    native_or_skip("kill")
    under = run("-o", "out", "--steps", "10", program(RANKS), how, cwd=tmp_path)
    assert under.returncode == 0, under.stderr
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        ranks = [row["rank"] for row in trace.sql("SELECT rank FROM ranks ORDER BY rank")]
        steps = {
            row["rank"]: (row["first"], row["n"])
            for row in trace.sql("SELECT rank, min(step) AS first, count(*) AS n FROM steps GROUP BY rank")
        }
    assert ranks == [0, 1] and steps[0] == steps[1] and steps[0][1] == 10
