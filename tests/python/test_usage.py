"""Scripts as people write them for torch.profiler, with the import changed (tests/python/usage): each runs and shows
what it should."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from recording import BACKENDS, load, names, steps

FOLDER = pathlib.Path(__file__).parent / "usage"
SCRIPTS = sorted(
    p.stem for p in FOLDER.glob("[el][0-9]*.py")
)  # e: from texts about the profiler, l: as libraries use it
TIMED = {"e36_warm_up"}  # it needs the processor at the moments when it asks for it, and records nothing
CHECKS = {}


class Done:
    """What a script printed, and the folder it wrote to."""

    def __init__(self, out, err, folder, backend):
        self.out, self.err, self.folder, self.backend = out, err, folder, backend

    def traces(self, pattern="log/*.pt.trace.json"):
        return sorted(self.folder.glob(pattern))

    def rows(self):
        """Rows of the printed tables: name → number of calls."""
        found = {}
        for line in self.out.splitlines():
            cells = re.split(r"\s{2,}", line.strip())
            if len(cells) > 4 and cells[-1].isdigit():
                found[cells[0]] = int(cells[-1])
        return found

    def numbers(self, start):
        """Numbers of the line that begins so."""
        line = next(line for line in self.out.splitlines() if line.startswith(start))
        return [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", line[len(start) :])]


def check(function):
    CHECKS[function.__name__] = function
    return function


def run_script(forks, script, folder, backend):
    path, environment = FOLDER / f"{script}.py", {"TACHOGRAPH_BACKEND": backend}
    if not script.endswith("_ranks") and script not in TIMED:
        return forks.run(script=path, cwd=folder, env=environment)
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(FOLDER)}
    return subprocess.run(
        [sys.executable, path], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


# Scripts that every run makes under torch's collector too, where there is another: a window, steps, exports, tables,
# labels of modules, an import in torch's place.
KINETO = {"e01_whole_epoch", "e03_scheduled", "e04_three_exports", "e06_two_tables", "l01_names_in_torch"}


def marks(script, backend):
    """Two ranks are a long test: processes that import torch each. So is what torch's collector records once more."""
    if script in TIMED:
        return [pytest.mark.timing]
    is_second = backend == "kineto" and len(BACKENDS) > 1 and script not in KINETO
    return [pytest.mark.long] if is_second or script.endswith("_ranks") else []


@pytest.mark.parametrize(
    ("script", "backend"),
    [
        pytest.param(script, backend, marks=marks(script, backend))
        for script in SCRIPTS
        for backend in (BACKENDS[:1] if script in TIMED else BACKENDS)
    ],
)
def test_script(forks, script, backend, tmp_path):
    done = run_script(forks, script, tmp_path, backend)
    assert done.returncode == 0, done.stderr
    CHECKS[script](Done(done.stdout, done.stderr, tmp_path, backend))


def test_every_script_has_a_check():
    assert sorted(CHECKS) == SCRIPTS and len(CHECKS) >= 25


@check
def e01_whole_epoch(done):
    rows = done.rows()
    assert rows["model_train"] == 1 and rows["data_processing"] == 20
    assert rows["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"[:52] + "..."] == 21
    assert re.search(r"one window holds 2[01] steps \([\d,]+ events\); 3 to 10 are enough", done.err)


@check
def e02_nvtx(done):
    assert {name: n for name, n in done.rows().items() if name in ("prepare", "cut off", "power 2")} == {
        "prepare": 3,
        "cut off": 3,
        "power 2": 3,
    }
    found = {
        e["name"]: e
        for e in load(done.folder / "trace.json")["traceEvents"]
        if e.get("cat") in ("user_annotation", "cpu_op")
    }
    for range_name, op in (("prepare", "aten::mul"), ("cut off", "aten::relu"), ("power 2", "aten::matmul")):
        outer, inner = found[range_name], found[op]
        assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


@check
def e03_scheduled(done):
    (path,) = done.traces()
    assert steps(path) == [3, 4, 5]
    assert len(done.rows()) == 20


@check
def e04_three_exports(done):
    assert load(done.folder / "trace.json")["traceEvents"]
    assert (done.folder / "stacks.txt").stat().st_size > 0
    assert "<html" in (done.folder / "memory.html").read_text().lower()


@check
def e05_start_stop(done):
    (path,) = done.traces()
    assert steps(path) == [2, 3, 4]
    found = [e["name"] for e in load(path)["traceEvents"] if e.get("cat") == "user_annotation"]
    assert [found.count(name) for name in ("forward", "loss", "backward", "optimizer")] == [3] * 4


@check
def e06_two_tables(done):
    assert done.out.count("Self CPU Mem") == 2
    assert done.rows()["aten::addmm"] == 4


@check
def e07_memory_timeline(done):
    page = (done.folder / "memory.html").read_text().lower()
    assert "most at once" in page and "parameter" in page and "optimizer" in page
    assert json.loads((done.folder / "memory.json").read_text())


@check
def e08_ranks(done):
    assert [len(done.traces(f"profiler_logs/rank_{rank}/*.pt.trace.json")) for rank in (0, 1)] == [1, 1]
    with tg.open(done.folder / "profiler_logs" / "*" / "*.json") as trace:
        assert {row["rank"] for row in trace.ask("steps")} == {0, 1}


@check
def e09_trace_and_stacks(done):
    lines = (done.folder / "cpu_stacks.txt").read_text().splitlines()
    assert lines and all(re.fullmatch(r".+;?.* \d+", line) for line in lines)
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)
    assert any("work" in line and "e09_trace_and_stacks.py" in line for line in lines)
    assert load(done.folder / "trace.json")["with_stack"] == 1


@check
def e10_linear(done):
    counts = dict(line.split(" ")[:2] for line in done.out.splitlines() if re.fullmatch(r"\S+ \d+", line))
    assert [counts[name] for name in ("aten::addmm", "aten::sum", "aten::mm", "AddmmBackward0")] == [
        "5",
        "10",
        "5",
        "5",
    ]


@check
def e11_schedule(done):
    (path,) = done.traces("log/course/*.pt.trace.json")
    assert steps(path) == steps(done.folder / "trace.json") == [5, 6, 7, 8, 9]
    assert "5 of 11 steps are recorded" in done.out and "steps 5-9 recorded" in done.out


@check
def e14_sum_of_totals(done):
    total, own = done.numbers("cpu us")
    assert done.numbers("device us") == [0] and total > own > 0
    assert "aten::addmm: 2.147 GFLOP" in done.out


@check
def e17_resnet_shares(done):
    assert abs(done.numbers("sum")[0] - 1) < 1e-9
    # 16 output points a channel row: (3·8 + 8 layers · 8·8) · 9 · 256 · 2 images · 2, and the last layer 8·10·2·2.
    assert done.numbers("flops")[0] >= (3 * 8 + 8 * 64) * 9 * 256 * 2 * 2 + 8 * 10 * 2 * 2
    assert load(done.folder / "resnet.json")["with_flops"] == 1


@check
def e18_item_in_forward(done):
    chatty, quiet = [line for line in done.out.splitlines() if line.startswith("items")]
    assert (chatty, quiet) == ("items 100", "items 0")
    words = (
        "def forward" if done.backend == "kineto" else "the line to find"
    )  # torch's collector knows a frame by where it begins
    source = (FOLDER / "e18_item_in_forward.py").read_text().splitlines()
    line = 1 + next(n for n, text in enumerate(source) if words in text)
    assert f"e18_item_in_forward.py({line}): forward" in done.out


@check
def e20_measure(done):
    assert re.search(r"p50 \S*\d.* p99 \S*\d", done.out.replace("=", " "))


@check
def e21_conditions(done):
    assert done.numbers("keys")[0] >= 9


@check
def e23_data_or_compute(done):
    assert re.search(r"ratio \d+\.\d+: the (loader|computation) holds it up", done.out)


@check
def e25_training_step(done):
    (path,) = done.traces("profiler/*.pt.trace.json")
    assert steps(path) == [3, 4, 5, 6, 7]
    assert "Source Location" in done.out and f"trace: profiler/{path.name}" in done.out


@check
def e26_phases(done):
    shares = [done.numbers(name)[0] for name in ("forward_pass", "backward_pass", "optimizer_step")]
    assert abs(sum(shares) - 100) < 1e-6 and min(shares) > 0


@check
def e27_modules(done):
    for leaf in range(3):
        count, us = done.numbers(f"module_{leaf}")
        assert count == 3 and us > 0
    assert "Input Shapes" in done.out


@check
def e28_details(done):
    assert done.out.count("Self CPU time total") == 3
    assert load(done.folder / "detailed_trace.json")["traceEvents"]


@check
def e34_event_timing(done):
    assert 0 < done.numbers("events ms")[0] < 1e4 and 0 < done.numbers("timer ms")[0] < 1e4


@check
def e35_cuda_only(done):
    assert "aten::conv2d" in done.rows() or torch.cuda.is_available()
    assert done.err.count("CUDA is not available") == (0 if torch.cuda.is_available() else 1)


@check
def e36_warm_up(done):
    (runs,) = done.numbers("runs")
    assert runs >= 4 + 5  # four slow ones, each as long as two of the next, then five that agree


@check
def e40_custom_handler(done):
    assert done.out.count("Self CPU time total") == 2
    assert [steps(path) for path in done.traces("trace_*.json")] == [[2, 3], [6, 7]]


@check
def e41_compiled(done):
    assert done.numbers("eager")[0] == done.numbers("compiled")[0] == 1


@check
def e44_wrong_and_right(done):
    wrong, right = done.out.splitlines()
    assert "6 steps were needed" in wrong and wrong.endswith(" 0")
    assert right.startswith("right [] ") and int(right.split()[-1]) > 0


@check
def e46_four_phases(done):
    assert re.findall(r"=== (\d) ", done.out) == ["1", "2", "3", "4"]
    result = json.loads(done.out.splitlines()[-1])
    assert len(result) == 7 and result["cpu_ms"] > 0
    (path,) = done.traces()
    assert steps(path) == steps(done.folder / "trace.json") == [3, 4, 5]


@check
def e50_decorator(done):
    assert done.out == "4 8 True\n"


@check
def e51_user_schedule(done):
    names, count = done.out.strip().rsplit(" ", 1)
    assert (
        names in ("[['ProfilerStep*', 'ProfilerStep*']]", "[['ProfilerStep#4', 'ProfilerStep#5']]") and int(count) > 0
    )


@check
def e52_accumulated(done):
    assert done.out == "3\n"
    document = load(done.folder / "last.json.gz")
    assert document["job"] == {"name": "nightly"} and document["note"] == "all three cycles"
    assert steps(done.folder / "last.json.gz") == [8]


@check
def l01_names_in_torch(done):
    assert done.out.splitlines()[-1] == "['fit-train', 'fit-validate']"
    train, validate = done.traces()
    assert (
        len(names(train, "user_annotation", "[module]")) == 3 * 3 == len(names(validate, "user_annotation", "[module]"))
    )
    assert (
        names(train, "cpu_op").count("aten::addmm")
        == 3
        == names(train, "cpu_op").count("autograd::engine::evaluate_function: AddmmBackward0")
    )
    assert load(validate)["Framework"] == "trainer"
    assert re.search(r"aten::addmm .* 3 +\[\[8\], \[2, 8\], \[8, 8\]", done.out)


@check
def l02_module_in_torch(done):
    first, *_, last = done.out.splitlines()
    assert first == "True torch.profiler._utils False" and last == "False"
    scheduled, older = done.out.split("\n", 1)[1].split("Self CPU time total")[:2]
    for text, count in ((scheduled, 2), (older, 1)):
        rows = Done(text, "", done.folder, done.backend).rows()
        assert [rows[name] for name in ("forward", "Optimizer.step#SGD.step", "aten::addmm")] == [count] * 3
