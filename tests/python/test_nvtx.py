"""Ranges and marks of NVTX, from libraries that use it: they are in the recording, with their own attributes.
And what torch sends to other tools while we label."""

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import tachograph as tg
import torch
from tachograph import _record

ROOT = Path(__file__).parents[2]
VARIABLE = "NVTX_INJECTION64_PATH"
needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler (cc)")
needs_nvtx = pytest.mark.skipif(
    importlib.util.find_spec("nvtx") is None, reason="the package nvtx is not installed: pip install nvtx"
)


def built(name, folder):
    library = folder / f"lib{name}.so"
    words = ["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-I", ROOT / "tests", "-o", library]
    subprocess.run([*words, ROOT / "tests" / "standin" / f"{name}.c", "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return built("nvtx_program", tmp_path_factory.mktemp("client"))


def run_python(program, *words, cwd, **variables):
    """Its output. Without the variable of NVTX but where it is given."""
    (cwd / "prog.py").write_text(textwrap.dedent(program))
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
    done = subprocess.run(
        [sys.executable, *words, "prog.py"],
        cwd=cwd,
        env={**environment, "OMP_NUM_THREADS": "1", "TACHOGRAPH_QUIET": "1", **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def recorded(path):
    """Slices and marks of the program's labels, in the order of their times."""
    out = path.parent / "out.json"
    with tg.open(path) as trace:
        trace.export(out)
    events = json.loads(out.read_text())["traceEvents"]
    labels = [e for e in events if e.get("cat") == "user_annotation" and "Step#" not in e["name"]]
    return sorted(labels, key=lambda e: (e["ts"], -e.get("dur", 0)))


def is_inside(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner.get("dur", 0) <= outer["ts"] + outer["dur"]


PROGRAM = """
    import ctypes, os, torch
    lib = ctypes.CDLL({client!r})
    print("attached", lib.client_attach())
    for number in range(20):
        lib.client_push(b"lib", b"outer", ctypes.c_int64(number))
        torch.ones(3)
        lib.client_push(b"lib", b"inner", ctypes.c_int64(-number))
        torch.ones(3).relu()
        lib.client_pop(b"lib")
        lib.client_mark(b"here")
        lib.client_pop(b"lib")
    print("variable", os.environ.get({variable!r}))
"""


@needs_cc
def test_run_records_what_a_library_sends(client, tmp_path):
    program = PROGRAM.format(client=str(client), variable=VARIABLE)
    said = run_python(program, "-m", "tachograph", "run", "-o", "out", cwd=tmp_path)
    assert "attached 1" in said and os.path.samefile(said.split("variable ")[1].splitlines()[0], _record.__file__)
    labels = recorded(tmp_path / "out" / "trace.tacho")
    outer, inner, here = ([e for e in labels if e["name"] == name] for name in ("outer", "inner", "here"))
    assert [e["args"]["payload"] for e in outer] == list(range(20))
    assert [e["args"]["payload"] for e in inner] == [-n for n in range(20)]
    assert {e["args"]["domain"] for e in outer + inner} == {"lib"} and {e["ph"] for e in here} == {"i"}
    for o, i, h in zip(outer, inner, here, strict=True):
        assert is_inside(i, o) and is_inside(h, o) and h["ts"] >= i["ts"] + i["dur"]
    report = subprocess.run(
        [sys.executable, "-m", "tachograph", "report", "out"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert "outer" in report and "inner" in report


@needs_cc
def test_another_tool_stays(client, tmp_path):
    program = PROGRAM.format(client=str(client), variable=VARIABLE)
    said = run_python(program, "-m", "tachograph", "run", "-o", "out", cwd=tmp_path, **{VARIABLE: "/no/tool.so"})
    assert "attached -1" in said and "variable /no/tool.so" in said
    assert not recorded(tmp_path / "out" / "trace.tacho")


@pytest.mark.parametrize(
    "value, answer, is_fine",
    [
        (None, "yes, in tachograph run", True),
        (_record.__file__, "yes, NVTX_INJECTION64_PATH names our recorder", True),
        ("/no/tool.so", "no: NVTX_INJECTION64_PATH names /no/tool.so", False),
    ],
)
def test_doctor_says_who_gets_them(monkeypatch, value, answer, is_fine):
    from tachograph import _doctor

    monkeypatch.delenv(VARIABLE, raising=False)
    if value:
        monkeypatch.setenv(VARIABLE, value)
    assert _doctor._nvtx()[:2] == (answer, is_fine)


@needs_cc
def test_ranges_of_torch_are_there_once(client, tmp_path):
    """torch.cuda.nvtx calls NVTX, which hands them over, and our labels stand aside."""
    program = f"""
        import ctypes, torch, torch.cuda.nvtx as nvtx
        import tachograph as tg
        lib = ctypes.CDLL({str(client)!r})
        class Native:
            def rangePushA(self, text): return lib.client_push(None, text.encode(), ctypes.c_int64(0))
            def rangePop(self): return lib.client_pop(None)
            def markA(self, text): lib.client_mark(text.encode())
        nvtx._nvtx = Native()
        with tg.profile(activities=[torch.profiler.ProfilerActivity.CPU], backend="native") as prof:
            {{attach}}
            nvtx.range_push("pushed"); nvtx.mark("marked"); torch.ones(2); nvtx.range_pop()
        prof.export_chrome_trace("trace.json")
    """
    for attach, variables in (("lib.client_attach()", {VARIABLE: _record.__file__}), ("lib.client_attach()", {})):
        run_python(program.replace("{attach}", attach), cwd=tmp_path, **variables)
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        for name in ("pushed", "marked"):
            assert len([e for e in events if e["name"] == name and e.get("cat") == "user_annotation"]) == 1, variables


@needs_nvtx
def test_the_package_nvtx(tmp_path):
    said = run_python(
        """
        import nvtx, torch, threading
        @nvtx.annotate("decorated", color="red", domain="mine", category="loading", payload=7)
        def work():
            return torch.ones(4, 4) @ torch.ones(4, 4)
        for number in range(10):
            with nvtx.annotate("around", payload=number / 4):
                work()
                nvtx.mark("here", domain="mine")
        span = nvtx.start_range("elsewhere", domain="mine")
        thread = threading.Thread(target=nvtx.end_range, args=(span,))
        thread.start(); thread.join()
        """,
        *("-m", "tachograph", "run", "-o", "out"),
        cwd=tmp_path,
    )
    labels = recorded(tmp_path / "out" / "trace.tacho")
    by_name = {name: [e for e in labels if e["name"] == name] for name in ("around", "decorated", "here", "elsewhere")}
    assert [len(found) for found in by_name.values()] == [10, 10, 10, 1], said
    assert [e["args"]["payload"] for e in by_name["around"]] == [n / 4 for n in range(10)]
    first = by_name["decorated"][0]["args"]
    assert (first["domain"], first["category"], first["payload"]) == ("mine", "loading", 7)
    assert first["color"].endswith("ff0000")
    assert all(is_inside(i, o) for i, o in zip(by_name["decorated"], by_name["around"], strict=True))
    assert by_name["elsewhere"][0]["args"]["Async"] is True


# ---- what other tools get ----------------------------------------------------------------------------------


@needs_cc
@pytest.mark.skipif(not torch._C._itt.is_available(), reason="this torch is built without ITT")
def test_itt_gets_operators_labels_and_modules(tmp_path):
    """A collector of our own in VTune's place: as many tasks as calls, nested as they were."""
    run_python(
        """
        import torch
        import tachograph as tg
        from tachograph.autograd.profiler import emit_itt
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        x = torch.ones(2, 3)
        with tg.modules(model), emit_itt():
            model(x)
            with tg.record_function("mine"):
                x.relu()
        x.relu()
        """,
        cwd=tmp_path,
        INTEL_LIBITTNOTIFY64=str(built("itt_tool", tmp_path)),
        INTEL_ITTNOTIFY_GROUPS="all",
        ITT_TOOL_FILE=str(tmp_path / "tasks"),
    )
    outer, depth = [], 0
    for line in (tmp_path / "tasks").read_text().splitlines():
        what, domain, *name = line.split()
        assert domain == "PyTorch"
        if what == "push" and depth < 2:
            outer.append((depth, *name))
        depth += 1 if what == "push" else -1
    assert depth == 0
    assert outer == [
        (0, "module_0"),
        (1, "aten::linear"),
        (0, "module_1"),
        (1, "aten::relu"),
        (0, "mine"),
        (1, "aten::relu"),
    ]


def test_the_library_has_the_function_that_nvtx_looks_for():
    assert ctypes.CDLL(_record.__file__).InitializeInjectionNvtx2
