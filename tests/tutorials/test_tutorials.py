"""The commands of docs/tutorials/ are run in their order, and print what the page shows.

The test compares a block line by line. `…` in a line stands for any text, and a line that is only `…` for any lines.
Below `<!-- figures vary -->` a number stands for any number. `--accept` rewrites all other blocks."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- figures vary -->\n)?```(console|python)\n(.*?)```\n", flags=re.S)
RECORDS = {"slow_script", "slow_requests", "own_events"}  # pages that record programs with torch: 40 CPU s
PAGES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in RECORDS else [])
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
]


@pytest.fixture
def clone(tmp_path, tachograph_path):
    """A folder with what the pages use of the tree, and the environment in which their commands run."""
    for used in ("examples", "tests/golden/make_traces.py"):
        (tmp_path / used).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / used).is_dir() else shutil.copy)(ROOT / used, tmp_path / used)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, target in (("tachograph", tachograph_path), ("python", sys.executable), ("python3", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }
    environment.pop("COLUMNS", None)
    return tmp_path, environment


def run(words, clone):
    folder, environment = clone
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, (words[-1], done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def commands(block):
    """(command, what the page shows of it) in order."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.M)


def pattern(shown, varies):
    """The regular expression that the lines of a page stand for."""
    parts = []
    for line in shown.splitlines():
        if line == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        text = re.sub(r"[█▉▊▋▌▍▎▏]+", "█", line) if varies else line
        pieces = []
        for piece in re.split(r"(…|█|\d[\d.,]*(?: (?:ns|us|ms|s)\b)?| +)" if varies else "(…)", text):
            if varies and piece == "█":
                pieces.append("[█▉▊▋▌▍▎▏]*")
            elif varies and piece[:1].isdigit():
                pieces.append(r"[\d][\d.,]*(?: (?:ns|us|ms|s)\b)?")
            elif varies and piece.startswith(" "):
                pieces.append(" +")
            else:
                pieces.append(".*" if piece == "…" else re.escape(piece))
        parts.append("".join(pieces) + r"\n")
    return "".join(parts)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_commands_print(page, clone, accept):
    if page.stem in RECORDS:
        pytest.importorskip("torch")
    text = page.read_text(encoding="utf-8")
    wrong, count = [], 0

    def check(match):
        nonlocal count
        varies, language, block = match.groups()
        if language == "python":
            run([sys.executable, "-c", block], clone)
            return match.group(0)
        printed = []
        for command, shown in commands(block):
            count += 1
            answer = run(["bash", "-o", "pipefail", "-c", command], clone)
            printed.append(f"$ {command}\n{answer}")
            if not re.fullmatch(pattern(shown, varies), answer):
                wrong.append(f"$ {command}\nthe page shows\n{shown}\nprinted was\n{answer}")
        return match.group(0) if varies else f"```console\n{''.join(printed)}```\n"

    new = BLOCK.sub(check, text)
    assert count >= 3
    if accept:
        page.write_text(new, encoding="utf-8")
    else:
        assert not wrong, "\n".join(wrong)


def test_what_a_page_shows_is_compared():
    """Worked out by hand: numbers and bars may vary where the page says so, words never."""
    shown = "step  60.4 ms  ███▎  38 %\n…\nend of …\n"
    assert re.fullmatch(pattern(shown, True), "step 1.2 s  █ 7 %\nx\ny\nend of it\n")
    assert not re.fullmatch(pattern(shown, True), "stop 1.2 s  █ 7 %\nx\nend of it\n")
    assert not re.fullmatch(pattern(shown, True), "step 1.2 s  █ 7 %\nx\n")
    assert re.fullmatch(pattern("a 1\n", None), "a 1\n") and not re.fullmatch(pattern("a 1\n", None), "a 2\n")
    assert not re.fullmatch(pattern("", None), "printed and not shown\n")
