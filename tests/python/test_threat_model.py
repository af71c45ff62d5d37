"""docs/threat-model.md names files and tests that are there, and no reader of bytes is without a row."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:src|python|tests|tools|web)/[\w./-]*)(?:::(\w+))?`", TEXT)))


@pytest.mark.parametrize(("path", "test"), NAMED, ids=lambda v: v)
def test_what_is_named_is_there(path, test):
    assert (ROOT / path).exists()
    assert not test or re.search(rf"^def {test}\(", (ROOT / path).read_text(encoding="utf-8"), flags=re.M)


def test_every_fuzz_target_has_a_row():
    named = {path for path, _ in NAMED}
    assert len(named) > 40
    assert not {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/fuzz").glob("fuzz_*.c")} - named


@pytest.mark.parametrize("document", ["SECURITY.md", "docs/threat-model.md"])
def test_links_lead_somewhere(document):
    folder = (ROOT / document).parent
    for target in re.findall(r"\]\(([^)#]+)", (ROOT / document).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (folder / target).exists(), target
