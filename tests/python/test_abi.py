"""The binary interface of the C libraries is the one that tests/abi/interface.txt has; `tools/abi.py build --write`
accepts another. A line that is gone needs a new SOVERSION (CMakeLists.txt)."""

import os
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TACHOGRAPH_LIBRARY", ROOT / "build/libtachograph.so")).parent
sys.path.insert(0, str(ROOT / "tools"))

from abi import DUMP, differences, interface, members

ACCEPTED = DUMP.read_text().splitlines()


def test_the_interface_is_the_accepted_one():
    assert not differences(ACCEPTED, interface(BUILD)), "accept with tools/abi.py build --write"


def test_every_declared_function_is_exported():
    """A header without its function, and a function without its header, are both mistakes."""
    declared = {line.split("(")[0].split()[-1].lstrip("*") for line in ACCEPTED if line.startswith("function ")}
    exported = {line.split()[-1] for line in ACCEPTED if line.startswith("libtachograph") and " T " in line}
    assert exported - declared == {"InitializeInjectionNvtx2"}  # NVTX looks it up by this name
    assert declared <= exported and len(declared) > 80


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        (
            "types.h",
            "  const char *value;",
            "  int id;\n  const char *value;",
            "tg_arg.value: const char * at 8, 8 bytes",
        ),
        ("read.h", "  double real;\n", "  int64_t real;\n", "tg_cell.real: double at 16, 8 bytes"),
        ("read.h", "tg_close(struct tg_trace *trace);", "tg_close(int trace);", "tg_close(struct tg_trace *trace)"),
        ("read.h", "TG_CHECK_INTACT,", "TG_CHECK_NEW, TG_CHECK_INTACT,", "constant TG_CHECK_INTACT = 0"),
        ("record.h", "TG_API void tg_range_end(void);", "", "function void tg_range_end(void)"),
        ("err.def", "ERR(OK", 'ERR(NEW, 0, "")\nERR(OK', "constant TG_OK = 0"),
    ],
)
def test_a_change_is_named(tmp_path, file, before, after, said):
    include = shutil.copytree(ROOT / "include", tmp_path / "include")
    header = include / "tachograph" / file
    text = header.read_text()
    assert before in text
    header.write_text(text.replace(before, after, 1))
    lines = differences(ACCEPTED, interface(BUILD, include))
    assert any(line.startswith("gone or changed") and line.endswith(said) for line in lines), lines


def test_what_is_added_breaks_nothing():
    assert differences(["a"], ["a", "b"]) == ["added: b"]


def test_members():
    body = " bool a, b; char c[4]; void (*d)(void *ctx, int64_t e); const struct tg_x *f; "
    assert list(members(body)) == [
        ("bool", "a"),
        ("bool", "b"),
        ("char[4]", "c"),
        ("void (*)(void *ctx, int64_t e)", "d"),
        ("const struct tg_x *", "f"),
    ]
