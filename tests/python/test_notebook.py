"""What a notebook shows: pages as they stand, and the cell magic. The shell has IPython's two methods."""

import types

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg

CPU = tg.ProfilerActivity.CPU


class Shell:
    def __init__(self):
        self.magics, self.names = {}, {"torch": torch}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def run_cell(self, body):
        try:
            exec(body, self.names)
        except Exception:
            return types.SimpleNamespace(success=False)
        return types.SimpleNamespace(success=True)


def test_a_report_is_shown_as_it_stands(tmp_path):
    prof = tg.profile(activities=[CPU])
    assert "nothing is recorded yet" in prof._repr_html_()
    with prof:
        with tg.record_function("<b>&"):
            torch.ones(2).sin()
    page = prof.trace.report()
    assert isinstance(page, str) and repr(page) == str(page) and "\n" in repr(page)
    for html in (page._repr_html_(), prof._repr_html_()):
        assert html.startswith("<pre") and "&lt;b&gt;&amp;" in html and "<b>" not in html


def test_cell_magic(tmp_path, capsys):
    shell = Shell()
    tg.load_ipython_extension(shell)
    magic = shell.magics["cell", "tachograph"]
    page = magic("lean -o " + str(tmp_path / "cell.json"), "x = torch.ones(3)\ny = x.sin()")
    assert "aten::sin" in page and shell.names["y"].shape == (3,)
    with tg.open(tmp_path / "cell.json") as trace:
        assert [row["calls"] for row in trace.ask("ops", where="name = 'aten::sin'")] == [1]
    progress = capsys.readouterr().err
    assert "being recorded" in progress and progress.endswith("\r\033[K")
    assert magic("", "raise ValueError") is None  # IPython shows the error itself
    with pytest.raises(ValueError, match="deeper"):
        magic("deeper", "pass")
