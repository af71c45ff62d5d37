"""What is generated is up to date, and the law holds: each of these is a program of tools/ that must exit with 0."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import layers


@pytest.mark.parametrize("tool", ["layers.py", "stubs.py", "docs.py"])
def test_tool_finds_nothing(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        *(p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md"))),
    ],
)
def test_documents_name_what_exists(document):
    """Links, paths in backticks, functions and make targets that a document names are in the tree, or in the new files
    that it spells out (docs/adding.md)."""
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    code = "".join(
        p.read_text(encoding="utf-8")
        for folder in ("src", "include")
        for p in (ROOT / folder).rglob("*")
        if p.is_file()
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    added = re.findall(r"^\*\*\d+\.\*\* `(\S+)`, a new file:\n\n```c\n(.*?)^```", text, flags=re.M | re.S)
    code += "".join(block for _, block in added)
    assert [p for p, _ in added if (ROOT / p).exists()] == [], "the page adds a file that is there already"
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    paths = list(re.findall(r"`((?:src|include|python|tests|tools|docs|examples)/[\w./-]+)`", text))
    missing = [link for link in links if not (path.parent / link).exists()] + [
        p for p in paths if not (ROOT / p).exists() and p not in dict(added)
    ]
    missing += [name for name in re.findall(r"\b(tg_\w*[a-z0-9])\b", text) if name not in code]
    missing += [
        target for target in re.findall(r"`make ([a-z-]+)`", text) if not re.search(f"^{target}:", makefile, flags=re.M)
    ]
    assert missing == []


def broken_tree(tmp_path, table=None, **files):
    """A copy of tools/ and of CONTRIBUTING.md (or of table) beside made-up sources, name__with__slashes_c="text", and
    beside shared headers and files that use them."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "layers.py").write_text((ROOT / "tools" / "layers.py").read_text())
    (tmp_path / "CONTRIBUTING.md").write_text(table or (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    made = {".".join(name.replace("__", "/").rsplit("_", 1)): text for name, text in files.items()}
    for header, folders in layers.SHARED_HEADERS.items():
        made.setdefault(header, "/* shared header */\n")
        for folder in folders:
            user = f"{folder}/uses_{header.replace('/', '_')[:-2]}_in_{folder or 'src'}.c"
            made.setdefault(user, f'/* user */\n#include "{header}"\n')
    for folder in {"base", *(header.split("/")[0] for header in layers.SHARED_HEADERS)}:
        made.setdefault(f"{folder}/{folder}.h", "/* public header */\n")
    for name, text in made.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, tmp_path / "tools" / "layers.py"], capture_output=True, text=True)


BREAKS = {
    "upward include": (
        {"base__x_c": '/* x */\n#include "trace/trace.h"\n', "trace__trace_h": "/* t */\n"},
        "src/base/x.c:2: base must not include trace",
    ),
    "types that the command line must not see": (
        {
            "cli__x_c": '/* x */\n#include "show/show.h"\n',
            "show__show_h": '/* s */\n#include "trace/trace.h"\n',
            "trace__trace_h": "/* t */\n",
        },
        "src/cli/x.c:1: what it includes brings in trace/trace.h",
    ),
    "private header": (
        {"trace__x_c": '/* x */\n#include "base/inner.h"\n', "base__inner_h": "/* i */\n"},
        "src/trace/x.c:2: base/inner.h is private",
    ),
    "gate": ({"show__x_c": "/* x */\n#include <sqlite3.h>\n"}, "src/show/x.c:2: sqlite3.h may be included only by"),
    "printing": (
        {"trace__x_c": '/* x */\nvoid f(void) {\n  printf("x");\n}\n'},
        "src/trace/x.c:3: printing or ending the process",
    ),
    "mutable global": ({"analyze__x_c": "/* x */\nstatic int calls = 0;\n"}, "src/analyze/x.c:2: a mutable global"),
    "domain word": ({"base__x_c": "/* x */\nint kernel;\n"}, "src/base/x.c:2: a word of the trace domain"),
    "name twice": (
        {"base__x_c": "/* x */\n", "trace__x_c": "/* x */\n"},
        "src/trace/x.c:1: the name is taken by src/base/x.c",
    ),
    "no comment": ({"base__x_c": "int a;\n"}, "src/base/x.c:1: no comment at the top"),
    "long function": (
        {"base__x_c": "/* x */\nvoid f(void) {\n" + "  ;\n" * 100 + "}\n"},
        "src/base/x.c:2: f has 102 lines, the limit is 100",
    ),
    "lone end of a comment": ({"base__x_c": "/* x\n */\n"}, "src/base/x.c:2: a line holds only the end of a comment"),
    "comment that goes on": (
        {"base__x_c": "/* x */\nint a; /* one\n          two */\n"},
        "src/base/x.c:2: a comment of several lines stands behind code",
    ),
    "declaration broken for a comment": (
        {"base__x_h": "/* x */\nvoid f(int a,\n       int b); /* both */\n"},
        "src/base/x.h:2: the declaration is broken for the comment behind it",
    ),
    "members under a comment": (
        {"base__x_c": "/* x */\nenum kind { /* of it */\n            ONE,\n};\n"},
        "src/base/x.c:2: the declaration is broken for the comment behind it",
    ),
    "wide list": ({"base__x_def": '/* x */\nA("' + "ö" * 116 + '")\n'}, "src/base/x.def:2: 121 columns"),
}


@pytest.mark.parametrize("case", BREAKS)
def test_layers_names_the_line(tmp_path, case):
    files, expected = BREAKS[case]
    done = broken_tree(tmp_path, **files)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith(expected) and ", 1 breaks," in done.stdout


def test_layers_knows_shared_headers(tmp_path):
    """A line that the table in CONTRIBUTING.md lacks, one that it has too much, and a header that no file includes."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    line = "| `analyze/device/gaps.h` | `diagnose` |"
    assert line in text.splitlines()
    unused = {"diagnose__uses_analyze_host_frames_in_diagnose_c": "/* includes nothing */\n"}
    done = broken_tree(tmp_path, table=text.replace(line, "| `analyze/device/holes.h` | `diagnose` |"), **unused)
    assert sorted(done.stdout.splitlines()[:3]) == [
        "CONTRIBUTING.md:1: analyze/device/holes.h is no shared header",
        f"CONTRIBUTING.md:1: the table of shared headers lacks the line {line}",
        "tools/layers.py:1: diagnose does not use its shared header analyze/host/frames.h",
    ]


def test_layers_accepts_what_is_allowed(tmp_path):
    done = broken_tree(
        tmp_path,
        base__base_h="/* base */\nint f(int a,\n      int b);\nint g; /* one */\n",
        base__x_def='/* x */\nA("' + "ö" * 115 + '")\n',
        trace__trace_h='/* trace */\n#include "base/base.h"\n',
        analyze__x_c='/* x: printf( in a comment is fine */\n#include "trace/trace.h"\nstatic const int limit = 3;\nstatic int f(int a) {\n'
        '  const char *s = "exit(1)";\n  return a + limit + (s != 0);\n}\n',
    )
    assert done.returncode == 0, done.stdout
