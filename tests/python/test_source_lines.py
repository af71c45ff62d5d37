"""The lines of source that a recording names are in its file: those of the program with what is around them, those of
libraries without, within a bound."""

import json
import linecache
import subprocess
import sys

import pytest

tachograph = pytest.importorskip("tachograph")
from tachograph._collect.source_lines import source_lines

PROGRAM = """
import sys, torch, tachograph
from parts.layers import work

if __name__ == "__main__":
    with tachograph.profile(with_stack=True) as prof:
        work(torch.ones(8, 8))
    prof.export_chrome_trace(sys.argv[1])
"""
LAYERS = "# one\n# two\n# three\n# four\ndef work(x):\n    return (x @ x).sum()  # the product\n"


def members_of(path):
    return {row["member"]: json.loads(row["json"]) for row in tachograph.open(path).ask("document")}


def frame(folder, name, line, function="f", first=1):
    return f"{name}({line}): {function}\0{first}\0{folder}".encode()


@pytest.mark.parametrize("ending", ["t.tacho", "t.json"])
def test_a_recording_holds_the_lines_of_its_frames(tmp_path, ending):
    pytest.importorskip("torch")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "train.py", ending], cwd=tmp_path, check=True, timeout=600)
    document = members_of(tmp_path / ending)
    (lines,) = [value for name, value in document.items() if name.startswith("source_lines.")]
    written = LAYERS.split("\n")
    assert lines["parts/layers.py"]["6"] == written[5]
    assert all(written[int(number) - 1] == text for number, text in lines["parts/layers.py"].items())
    assert {"3", "4", "5"} <= set(lines["parts/layers.py"])  # around it
    assert f"{tmp_path}/" in document["source_folders"]


def test_own_lines_come_first_and_the_member_is_bounded(tmp_path):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "big.py").write_text("".join(f"x{i} = '{'y' * 300}'\n" for i in range(3000)))
    (library / "small.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    (tmp_path / "zz.py").write_text("a\nb\nc\nd\ne\nf\ng\nh\n" + "long " * 200)
    frames = [frame(f"{library}/", "big.py", n) for n in range(1, 3001)]
    frames += [
        frame(f"{tmp_path}/", "zz.py", 4),
        frame(f"{tmp_path}/", "zz.py", 9),
        frame(f"{tmp_path}/", "gone.py", 1),
    ]
    text = source_lines([*frames, frame(f"{library}/", "small.py", 2), b"no frame", b"\0\0"])
    kept = json.loads(text)
    assert list(kept) == ["zz.py", "small.py"] and len(text) < 256 << 10  # what does not fit is left out whole
    assert kept["zz.py"]["4"] == "d" and kept["zz.py"]["1"] == "a" and kept["zz.py"]["9"] == ("long " * 200)[:400]
    assert json.loads(source_lines([frame(f"{library}/", "small.py", 2)])) == {"small.py": {"2": "two = 2"}}
    assert source_lines([frame("", "gone.py", 1)]) is None


def test_the_cell_of_a_notebook_has_lines():
    linecache.cache["<cell 3>"] = (9, None, ["a = 1\n", "b = a\n"], "<cell 3>")
    try:
        assert json.loads(source_lines([frame("", "<cell 3>", 2)])) == {"<cell 3>": {"1": "a = 1", "2": "b = a"}}
    finally:
        del linecache.cache["<cell 3>"]
