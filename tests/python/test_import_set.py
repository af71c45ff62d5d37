"""What `import tachograph` loads, and that every name it offers is there at its first use, in dir() and in the stub."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tachograph as tg

STUB = pathlib.Path(tg.__file__).with_name("__init__.pyi")


def modules_loaded(first, *then):
    """For each of `then`: names that it adds to sys.modules after `first`, all in one process of their own."""
    code = f"import sys\n{first}\nbefore = set(sys.modules)"
    for text in then:
        code += f"\n{text}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_import_beside_torch_loads_two_modules_and_recording_neither_hta_nor_timing():
    pytest.importorskip("torch")
    imported, recording = modules_loaded("import torch", "import tachograph", "tachograph.profile")
    assert imported == {"tachograph", "tachograph._read"}
    assert "tachograph.profiler" in recording
    assert not {
        name for name in recording if name.startswith(("tachograph.hta", "tachograph.timing", "tachograph.memory"))
    }


def test_import_without_torch_loads_nothing_of_others():
    (loaded,) = modules_loaded("", "import tachograph")
    ours = {name for name in loaded if name.split(".")[0] == "tachograph"}
    assert ours == {"tachograph", "tachograph._read"}
    assert {name.split(".")[0] for name in loaded - ours} <= {*sys.stdlib_module_names, "__mp_main__"}


def test_reading_needs_neither_torch_nor_the_tools_around_it(tmp_path):
    (tmp_path / "a.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
    )
    read = f"import tachograph\nrepr(tachograph.open({str(tmp_path / 'a.json')!r}).ask('events'))"
    (loaded,) = modules_loaded("", read)
    assert {name for name in loaded if name.startswith("tachograph")} == {
        "tachograph",
        "tachograph._read",
        "tachograph._progress",
    }
    assert not {"torch", "numpy", "pandas"} & loaded


def test_a_python_without_a_recorder_reads_and_is_told(tmp_path):
    package = pathlib.Path(tg.__file__).parent
    shutil.copytree(package, tmp_path / "tachograph", ignore=shutil.ignore_patterns("_record.*.so", "__pycache__"))
    (tmp_path / "a.json").write_text(
        '{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
    )
    program = "import tachograph as tg\nprint(tg.__file__, len(tg.open('a.json').ask('events')))\nfrom tachograph import _record"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.split() == [str(tmp_path / "tachograph/__init__.py"), "1"]
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: this installation of tachograph has no recorder for CPython 3."
    )


def names_in_stub():
    names = set()
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return names


def test_every_name_in_dir_is_there_and_in_the_stub():
    pytest.importorskip("torch")
    assert {name for name in dir(tg) if getattr(tg, name, None) is None} <= {"__doc__"}
    public = {name for name in dir(tg) if not name.startswith("__") or name == "__version__"}
    assert public <= names_in_stub()
    assert tg.hta.__name__ == "tachograph.hta" and {"hta", "timing", "timer", "open"} <= public


def test_all_holds_only_what_dir_shows():
    assert set(tg.__all__) <= set(dir(tg)) and len(set(tg.__all__)) == len(tg.__all__)
