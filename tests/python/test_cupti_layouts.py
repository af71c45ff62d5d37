"""The layouts of CUPTI's records that the recorder reads, against the numbers that its real headers gave
(tools/cupti_layouts.py compiles them; make check does it again)."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from cupti_layouts import TABLE, callbacks, layouts

WIDTHS = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "uintptr_t": 8}


def measured():
    """{(kind, struct): [(version, bytes, {field: (offset, width)})]}"""
    found = {}
    for line in TABLE.read_text().splitlines():
        version, kind, struct, size, *fields = line.split()
        places = {n: tuple(map(int, at.split(":"))) for n, at in (f.split("=") for f in fields)}
        found.setdefault((kind, struct), []).append((int(version), int(size), places))
    return found


@pytest.mark.parametrize("kind, struct, size, fields", list(layouts()), ids=lambda v: v if isinstance(v, str) else "")
def test_layout(kind, struct, size, fields):
    versions = measured()[kind, struct]
    for version, bytes_there, places in versions:
        assert bytes_there == size, version
        for name, offset, type_name, _ in fields:
            at, width = places[name]
            assert at == offset, (version, name)
            assert width == WIDTHS[type_name], (version, name)


def test_callbacks():
    structs, functions = callbacks()
    for struct, fields in structs.items():
        for version, _, places in measured()["CALLBACK", struct]:
            assert {name: at for name, at, _ in fields} == {name: at for name, (at, _) in places.items()}, version
    for version, _, numbers in measured()["RESOURCE", "CallbackIdResource"]:
        assert dict(functions) == {name: number for name, (number, _) in numbers.items()}, version


def test_each_version_is_measured():
    assert {v for rows in measured().values() for v, _, _ in rows} == {28, 130401, 130500}
