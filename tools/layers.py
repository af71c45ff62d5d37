#!/usr/bin/env python3
"""The laws of includes and of links, checked: which folder may include which and take symbols from
which, which words may not occur where, unique file names and tags, sizes.

    python3 tools/layers.py                exit status 1 and one "file:line: what" per break
    python3 tools/layers.py --build DIR    also look at the archives there (cmake --build DIR --target archives)
    python3 tools/layers.py --sizes        also list what is over the soft limits (files 600 lines, functions 60)

The law in words stands in CONTRIBUTING.md; change both in one commit."""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# folder below src/ → folders of which it may include the public header (folder/folder.h), the themes that this header
# includes, and .def lists, besides its own headers
MAY_INCLUDE = {
    "base": set(),
    "format": {"base"},
    "trace": {"base", "format"},
    "analyze": {"base", "trace"},
    "replay": {"base", "trace", "analyze"},
    "diagnose": {"base", "trace", "analyze", "replay"},
    "view": {"base", "trace", "analyze"},
    "catalog": {"base", "trace", "analyze", "replay", "diagnose"},
    "ranks": {"base", "trace", "analyze", "catalog"},
    "show": {"base", "trace", "analyze", "diagnose", "catalog", "ranks", "view"},
    "serve": {"base", "trace", "analyze", "diagnose", "catalog", "ranks", "view", "show"},
    "attach": {"base"},
    "cli": {"base", "show", "serve", "attach"},
    "capture": {"base", "format"},
    "api": {"base", "trace", "analyze", "diagnose", "catalog", "ranks", "show"},
}

# folder → the headers of include/tachograph/ that it may include; the others have the types only. Folders below the
# API neither call nor define a public function.
MAY_INCLUDE_PUBLIC = {
    "api": {"types.h", "err.def", "error.h", "read.h"},
    "serve": {"types.h", "err.def", "read.h"},
    "cli": {"types.h", "err.def", "error.h", "read.h"},
    "capture": {"types.h", "record.h"},
}
TYPES = {"types.h", "err.def"}
DEFINES_PUBLIC = {"api", "capture"}

# A header that is neither public nor private: what diagnose judges is what these declare, and putting
# them into analyze.h would show them to everybody.
# Summaries of ranks are made by analyze and put into files by trace; no other folder looks inside.
SHARED_HEADERS = {
    "analyze/overview/steps.h": {"diagnose", "replay"},
    "analyze/device/device_figures.h": {"diagnose"},
    "analyze/device/gaps.h": {"diagnose"},
    "analyze/device/tensor_cores.h": {"diagnose"},
    "analyze/device/kernel_class.h": {"diagnose"},
    "analyze/host/frames.h": {"diagnose"},
    "analyze/host/compiles.h": {"diagnose"},
    "analyze/work/op_inputs.h": {"diagnose"},
    "analyze/work/flops.h": {"diagnose"},
    "analyze/work/roof.h": {"diagnose"},
    "analyze/diff/bootstrap.h": {"replay"},
    "analyze/ranks/buckets.h": {"diagnose"},
    "analyze/ranks/comm_names.h": {"replay"},
    "analyze/ranks/rank_set.h": {"replay"},
    "trace/summary.h": {"analyze", "ranks"},
    "analyze/ranks/summarize.h": {"ranks"},
}

# third-party header → the only files that may include it (regular expressions on the path below the root)
GATES = {
    r"isa-l.*": r"src/base/inflate\.c",
    r"zlib\.h": r"src/base/inflate\.c",
    r"zstd\.h": r"src/base/inflate\.c|src/format/.*",
    r"xxhash\.h": r"src/format/.*",
    r"sqlite3\.h": r"src/show/sql\w*\.c",
    r"libwebsockets\.h": r"src/serve/http\.c",
    r"Python\.h": r"python/_re(ad|cord)\w*\.[ch]|src/capture/python_\w+\.[ch]",
    r"(sys/.*|fcntl|unistd|dirent|glob|dlfcn)(\.h)?": r"src/base/(os|pages)\w*\.c|src/attach/.*|src/cli/.*|src/capture/.*|python/.*",
    r"pthread\.h": r"src/base/.*|src/capture/.*",
}

CALL = r"(?<![.>\w])(?:%s)\s*\("  # a call by plain name, not through a member
PRINTING = CALL % "printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|exit|_exit|abort"
FILES = CALL % "fopen|open|openat|fread|fwrite|read|write|pread|pwrite|mmap|munmap|remove|unlink|rename"
MEMORY = CALL % "malloc|calloc|realloc|free|strdup"
ENVIRONMENT = CALL % "getenv|secure_getenv|setenv"
DOMAIN = r"(?i)\b(?:slices?|ranks?|kernels?|cuda|launch(?:es)?|profiler|annotations?)\b"
GLOBALS = r"^static (?!const\b|inline\b|_Thread_local\b)(?![^=;]*\*const\b)[^()={;]+(?:=|;)"

# folder → list of (what it must not contain, pattern, files exempt)
WORDS = {
    "base": [
        ("a word of the trace domain", DOMAIN, r"$^"),
        (
            "printing or ending the process",
            PRINTING,
            r"os_process\.c",
        ),  # a forked child that could not become its program
        ("file access outside os.c", FILES, r"os\w*\.c|pages\.c"),
        ("the environment outside os.c", ENVIRONMENT, r"os\w*\.c"),
        ("the C allocator outside mem.c and os.c", MEMORY, r"(mem|os\w*)\.c"),
    ],
    "analyze": [("a mutable global", GLOBALS, r"$^")],
    "replay": [("a mutable global", GLOBALS, r"$^")],
    "diagnose": [("a mutable global", GLOBALS, r"$^")],
    "view": [("a mutable global", GLOBALS, r"$^")],
    "cli": [("the environment outside os.c", ENVIRONMENT, r"$^")],
}
for _folder in ("format", "trace", "analyze", "replay", "diagnose", "catalog", "ranks", "view", "show", "api"):
    WORDS.setdefault(_folder, []).extend(
        [
            ("printing or ending the process", PRINTING, r"$^"),
            ("file access outside base/os.c", FILES, r"$^"),
            ("the environment outside base/os.c", ENVIRONMENT, r"$^"),
            ("the C allocator outside base/mem.c", MEMORY, r"$^"),
        ]
    )

COLUMNS = 120  # .clang-format's, and those of the lists in .def files
BROKEN = (
    r"^(?![ \t]*[#/*])[^;{}/:\n]+\n(?:[^;{}/:\n]+\n)*[^;{}/\n]*;[ \t]*/\*",  # several lines, and a comment at the end
    r"^(?:typedef )?enum \w*[ ]?\{ +/\*[^\n]*\n {12,}",  # members move under the comment
)
SOFT_FILE, HARD_FILE = 600, 1000
SOFT_FUNCTION, HARD_FUNCTION = 60, 100
SHARED_NAMES = {
    "__init__.py",
    "__init__.pyi",
    "__main__.py",
    "profiler.py",
    "timeline.py",
    "config.py",
    "conftest.py",
    "README.md",
    "CMakeLists.txt",
    "py.typed",
}


def strip_comments(text):
    """The text with comments and the insides of string literals blanked, line numbers unchanged."""

    def blank(match):
        s = match.group(0)
        if s[0] == '"':
            return '"' + " " * (len(s) - 2) + '"'
        if s[0] == "'":
            return s
        return re.sub(r"[^\n]", " ", s)

    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, text, flags=re.S)


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if m:
            yield number, m.group(2), m.group(1) == '"'


def folder_of(path):
    return path.relative_to(ROOT / "src").parts[0]


def check_gates(rel, number, header):
    for pattern, where in GATES.items():
        if re.fullmatch(pattern, header) and not re.fullmatch(where, rel):
            yield f"{rel}:{number}: {header} may be included only by {where}"


def public_headers(folder):
    """folder/folder.h and its themes: the headers of the folder itself that it includes."""
    front = f"{folder}/{folder}.h"
    text = (ROOT / "src" / front).read_text(encoding="utf-8")
    themes = {header for _, header, _ in includes(text) if re.fullmatch(rf"{folder}/\w+\.h", header)}
    return themes | {front}


def check_include(path, rel, number, header, quoted):
    yield from check_gates(rel, number, header)
    if not quoted:
        return
    if header.startswith("tachograph/"):
        if header.removeprefix("tachograph/") not in MAY_INCLUDE_PUBLIC.get(folder_of(path), TYPES):
            yield f"{rel}:{number}: {folder_of(path)} must not include {header}"
        return
    if "/" not in header:
        yield f'{rel}:{number}: "{header}": write includes from src/, as in "base/base.h"'
        return
    if not (ROOT / "src" / header).exists() and not header.endswith(".inc"):
        yield f'{rel}:{number}: "{header}" does not exist below src/'
    mine, other = folder_of(path), header.split("/")[0]
    if other == mine:
        return
    if other not in MAY_INCLUDE.get(mine, set()):
        yield f"{rel}:{number}: {mine} must not include {other} ({header})"
    elif (
        not header.endswith(".def")
        and header not in public_headers(other)
        and mine not in SHARED_HEADERS.get(header, ())
    ):
        yield f"{rel}:{number}: {header} is private to {other}; include {other}/{other}.h"


def check_seen(path, known):
    """What the command line includes brings in no folder that it may not include: their types stay opaque to it."""
    rel, seen, todo = path.relative_to(ROOT).as_posix(), set(), [path]
    while todo:
        for _, header, quoted in includes(todo.pop().read_text(encoding="utf-8")):
            target = ROOT / "src" / header
            if not quoted or header in seen or target not in known:
                continue
            seen.add(header)
            todo.append(target)
            if header.split("/")[0] not in MAY_INCLUDE["cli"] | {"cli"}:
                yield f"{rel}:1: what it includes brings in {header}"


def check_words(rel, folder, name, code):
    for what, pattern, exempt in WORDS.get(folder, []):
        if re.fullmatch(exempt, name):
            continue
        for m in re.finditer(pattern, code, flags=re.M):
            number = code.count("\n", 0, m.start()) + 1
            yield f"{rel}:{number}: {what}: {m.group(0).strip()}"


def functions(code):
    """(name, first line, length) of every function body: from its signature's first line to the brace in column 0."""
    start, first, head = None, 0, ""
    for number, line in enumerate(code.splitlines(), 1):
        if start is None:
            if not line.strip() or line[0] in "#}/":
                head = ""
            elif line[0] not in " \t" or head:
                first = number if not head else first
                head += line
                if line.rstrip().endswith("{"):
                    if (
                        "(" in head
                        and "=" not in head.split("(")[0]
                        and not head.startswith(("struct", "enum", "union", "typedef"))
                        or (re.match(r"(struct|enum) \w+ \**\w+\(", head))
                    ):
                        start = first
                    else:
                        head = ""
                elif line.rstrip().endswith((";", "}", ",")) and "(" not in head or line.rstrip().endswith((";", "}")):
                    head = ""
        elif line.startswith("}"):
            yield re.search(r"(\w+)\s*\(", head).group(1), start, number - start + 1
            start, head = None, ""


def check_sizes(rel, code, sizes):
    lines = code.count("\n")
    if lines > HARD_FILE:
        yield f"{rel}:1: {lines} lines, the limit is {HARD_FILE}"
    elif lines > SOFT_FILE:
        sizes.append(f"{rel}:1: {lines} lines, over {SOFT_FILE}")
    for name, start, length in functions(code):
        if length > HARD_FUNCTION:
            yield f"{rel}:{start}: {name} has {length} lines, the limit is {HARD_FUNCTION}"
        elif length > SOFT_FUNCTION:
            sizes.append(f"{rel}:{start}: {name} has {length} lines, over {SOFT_FUNCTION}")


def without_strings(text):
    """The text with string literals blanked, comments as they are."""

    def blank(match):
        return match.group(0) if match.group(0).startswith("/*") else '"' * len(match.group(0))

    return re.sub(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, text, flags=re.S)


def check_comments(rel, text):
    """A comment stands above its declaration when both do not fit into the columns; no line holds a lone end of one."""
    bare = without_strings(text)
    for number, line in enumerate(bare.splitlines(), 1):
        if line.strip() == "*/":
            yield f"{rel}:{number}: a line holds only the end of a comment"
        code, begins, _ = re.sub(r"/\*.*?\*/", "", line).partition("/*")
        if begins and code.strip():
            yield f"{rel}:{number}: a comment of several lines stands behind code: put it above"
        if rel.endswith(".def") and len(line) > COLUMNS:
            yield f"{rel}:{number}: {len(line)} columns: go on with another string in the next line"
    for pattern in BROKEN if rel.endswith(".h") else BROKEN[1:]:
        for m in re.finditer(pattern, bare, flags=re.M):
            number = bare.count("\n", 0, m.start()) + 1
            yield f"{rel}:{number}: the declaration is broken for the comment behind it: put it above"


def check_names():
    seen = {}
    for top in ("src", "include", "python", "tools", "tests", "examples", "docs"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".def", ".py", ".pyi", ".md", ".sh") or path.name in SHARED_NAMES:
                continue
            rel = path.relative_to(ROOT).as_posix()
            if path.name in seen:
                yield f"{rel}:1: the name is taken by {seen[path.name]}"
            seen.setdefault(path.name, rel)


def check_tags(sources):
    """One struct, union or enum of a name: a second one with other members compiles until a file includes both."""
    seen = {}
    for path in sources:
        code = strip_comments(path.read_text(encoding="utf-8"))
        for m in re.finditer(
            r"^(?:(?:typedef|extern|static)\s+)?(?:struct|union|enum)\s+(tg_\w+)\s*\{", code, flags=re.M
        ):
            where = f"{path.relative_to(ROOT).as_posix()}:{code.count(chr(10), 0, m.start()) + 1}"
            if m.group(1) in seen:
                yield f"{where}: the tag {m.group(1)} is taken by {seen[m.group(1)]}"
            seen.setdefault(m.group(1), where)


ASKED = r'\bask\(\s*(?:[\w.]+,\s*)?"(\w+)"|\["(\w+)",\s*\{'  # in JavaScript: ask(trace, "ops") or ["ops", {by: …}]
TABLES = {"questions", "diff", "sql"}  # the server answers these, too


def check_web(path, questions):
    """Pages ask questions, those of the catalog; the frame of the page and what it is made of name none."""
    rel, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    for m in re.finditer(ASKED, code):
        name, number = m.group(1) or m.group(2), code.count("\n", 0, m.start()) + 1
        if not rel.startswith("web/pages/") and name in questions:
            yield f'{rel}:{number}: names the question "{name}": only web/pages/ may'
        if rel.startswith("web/pages/") and name not in questions | TABLES:
            yield f'{rel}:{number}: "{name}" is no question'


def check_shared_headers(sources):
    """SHARED_HEADERS is CONTRIBUTING.md's table, and each of them is used."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    used = {
        (header, folder_of(path)) for path in sources for _, header, _ in includes(path.read_text(encoding="utf-8"))
    }
    for header, folders in SHARED_HEADERS.items():
        line = f"| `{header}` | {', '.join(f'`{f}`' for f in sorted(folders))} |"
        if line not in text.splitlines():
            yield f"CONTRIBUTING.md:1: the table of shared headers lacks the line {line}"
        for folder in sorted(folders):
            if (header, folder) not in used:
                yield f"tools/layers.py:1: {folder} does not use its shared header {header}"
    for header in re.findall(r"^\| `(\w+/\S+\.h)` \|", text, flags=re.M):
        if header not in SHARED_HEADERS:
            yield f"CONTRIBUTING.md:1: {header} is no shared header"


def check_source(path, sizes):
    rel = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    code = strip_comments(text)
    if not text.startswith("/*"):
        yield f"{rel}:1: no comment at the top saying what the file is"
    for number, header, quoted in includes(text):
        yield from check_include(path, rel, number, header, quoted)
    if path.suffix in (".c", ".h"):
        yield from check_words(rel, folder_of(path), path.name, code)
    yield from check_comments(rel, text)
    yield from check_sizes(rel, code, sizes)


def check_binding(path):
    """python/_read*.[ch], _record*.[ch]: Python.h, system headers, one public header with its list, its own header."""
    rel = path.relative_to(ROOT).as_posix()
    public = re.match(r"_(read|record)", path.stem).group(1)
    for number, header, quoted in includes(path.read_text(encoding="utf-8")):
        yield from check_gates(rel, number, header)
        if quoted and header not in (f"tachograph/{public}.h", "tachograph/err.def", f"_{public}.h"):
            yield f"{rel}:{number}: a binding includes one public header only, not {header}"


def symbols(archive):
    """(object file, symbol, is it defined there) of an archive."""
    listing = subprocess.run(["nm", "-P", "-A", archive], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        place, name, kind = line.split()[:3]
        yield re.search(r"\[(.+?)\]", place).group(1).removesuffix(".o"), name, kind.upper() not in "UW"


def may_take(folder, other, name):
    """A folder may link what it may include; the command line and the server also link the public functions."""
    return (
        other == folder
        or other in MAY_INCLUDE[folder]
        or (folder in ("cli", "serve") and other == "api" and not name.startswith("tg__"))
    )


def check_links(build):
    """No archive takes a symbol from a layer that its folder may not include: a prototype is no way around the law."""
    archives = {folder: build / f"libtg_{folder}.a" for folder in sorted(MAY_INCLUDE)}
    missing = [path for path in archives.values() if not path.exists()]
    if missing:
        yield f"{missing[0]}:1: is missing: cmake --build {build} --target archives"
        return
    listed = {folder: list(symbols(path)) for folder, path in archives.items()}
    home = {name: folder for folder, rows in listed.items() for _, name, defined in rows if defined}
    for folder, rows in listed.items():
        for source, name, defined in rows:
            other = home.get(name, folder)
            if not defined and not may_take(folder, other, name):
                yield f"{folder}: {source} takes {name} from {other}"
            if defined and folder not in DEFINES_PUBLIC and re.match(r"tg_(?!_)", name):
                yield f"{folder}: {source} defines the public function {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", action="store_true", help="list what is over the soft limits too")
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR", help="check the archives of this build, too")
    options = parser.parse_args()
    breaks, sizes = [], []
    sources = [p for p in sorted((ROOT / "src").rglob("*")) if p.suffix in (".c", ".h", ".def")]
    for path in sources:
        breaks.extend(check_source(path, sizes))
    for path in sorted((ROOT / "python").glob("_re*.[ch]")):
        breaks.extend(check_binding(path))
        breaks.extend(
            check_sizes(path.relative_to(ROOT).as_posix(), strip_comments(path.read_text(encoding="utf-8")), sizes)
        )
    headers = [*sorted((ROOT / "include").rglob("*.h")), *sorted((ROOT / "python").rglob("*.[ch]"))]
    for path in headers:
        breaks.extend(check_comments(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
    breaks.extend(check_tags([p for p in [*sources, *headers] if p.suffix != ".def"]))
    breaks.extend(check_shared_headers(sources))
    breaks.extend(b for p in sources if folder_of(p) == "cli" for b in check_seen(p, set(sources)))
    lists = [p.read_text(encoding="utf-8") for p in sources if p.suffix == ".def"]
    questions = {name for text in lists for name in re.findall(r"^QUESTION\((\w+),", text, flags=re.M)}
    breaks.extend(b for p in sorted((ROOT / "web").rglob("*.js")) for b in check_web(p, questions))
    breaks.extend(check_names())
    if options.build:
        breaks.extend(check_links(options.build))
    for line in breaks + (sizes if options.sizes else []):
        print(line)
    print(f"layers: {len(sources)} files, {len(breaks)} breaks, {len(sizes)} over a soft size limit")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main())
