"""The checker of the site finds what is broken in pages made here; the reference has every public name."""

import pathlib
import re
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture
def site(monkeypatch):
    """tools/site.py without Sphinx, which only `make docs` has."""
    for name in ("sphinx", "sphinx.cmd", "sphinx.cmd.build"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["sphinx.cmd.build"].build_main = None
    monkeypatch.delitem(sys.modules, "site_check", raising=False)
    code = types.ModuleType("site_check")
    code.__file__ = str(ROOT / "tools" / "site.py")
    exec((ROOT / "tools" / "site.py").read_text(encoding="utf-8"), code.__dict__)
    return code


@pytest.mark.parametrize(
    "body, broken",
    [
        ('<p id="here">x</p><a href="#here">x</a><a href="b.html">x</a><a href="https://e.org">x</a>', ""),
        ('<a href="b.html#there">x</a><img src="data:image/png;base64,">', ""),
        ('<a href="c.html">x</a>', "a.html: no c.html"),
        ('<a href="b.html#gone">x</a>', "a.html: no anchor b.html#gone"),
        ('<a href="#gone">x</a>', "a.html: no anchor #gone"),
        ('<img src="picture.png">', "a.html: no picture.png"),
        ('<script src="https://cdn.example.org/x.js"></script>', "a.html: loads https://cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="//fonts.example.org/x.css">', "a.html: loads //fonts.example.org/x.css"),
    ],
)
def test_what_is_broken_is_found(site, tmp_path, body, broken):
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="there">x</h2>')
    assert "\n".join(site.breaks(tmp_path.resolve())) == broken


def test_the_reference_has_every_name():
    import site_api

    c, python = site_api.c_page(), site_api.python_page()
    headers = "".join((ROOT / "include/tachograph" / name).read_text(encoding="utf-8") for name in site_api.HEADERS)
    code = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    declared = re.findall(r"TG_API[^;(]*?\b(tg_\w+)\s*\(", code)
    assert len(declared) > 80
    assert [name for name in declared if not re.search(rf"^:+{{c:function}} .*\b{name}\(", c, flags=re.M)] == []
    stub = (ROOT / "python/tachograph/__init__.pyi").read_text(encoding="utf-8")
    offered = re.findall(r"\bas ([A-Za-z]\w+)", "\n".join(re.findall(r"^from \.\w.*", stub, flags=re.M)))
    offered += ["open", "open_ranks", "questions", "formats", "Trace", "Table"]
    missing = [n for n in offered if not re.search(rf"^:+{{py:(?:class|function|data)}} {n}\b", python, flags=re.M)]
    assert missing == []
