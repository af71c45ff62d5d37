#!/usr/bin/env python3
"""The vocabulary, checked: words that say nothing to a reader from outside, and names of functions: those that many
files share, and shared ones without an object.

    python3 tools/words.py             exit status 1 and one "file:line: what" per break
    python3 tools/words.py --counts    how often each word of the list still stands in the tree, by folder

docs/glossary.md says what our terms mean; every term in TERMS below must have an entry there."""

import argparse
import ast
import collections
import fnmatch
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED = (
    "src/**/*.[ch]",
    "src/**/*.def",
    "include/**/*.[ch]",
    "include/**/*.def",
    "python/**/*.[ch]",
    "python/**/*.py",
    "python/**/*.pyi",
    "docs/**/*.md",
    "examples/**/*",
    "*.md",
    "Makefile",
)

# Forms of a word → what to write instead. A form is matched in prose and as a part of a name: give_int has "give".
# fmt: off
WORDS = {
    "settle settles settled settling": "say what is done: finish, resolve, apply",
    "keepsake keepsakes": "cache, cached",
    "door doors": "interface, API, header, command line",
    "twin twins": "duplicate, replica",
    "further": "more, next, also",
    "give gives gave giving": "return, release, print, assign",
    "whose": "of which, with",
    "told tell tells telling": "passed, reported; recognised, distinguished by",
    "odd oddity oddities": "irregular, unusual, malformed",
    "carry carries carried carrying": "hold, contain, have",
    "pick picks picked picking": "select",
    "pen pens": "buffer, writer",
    "screen screens": "terminal, page, report",
    "guest guests": "capture, callback",
    "victim victims": "the recorded program",
    "sieve sieves": "candidates",
    "strike strikes struck striking": "exclude",
    "sight sights": "observation; first use",
}
# Matched as part of a name only: in a sentence they are ordinary English.
NAME_PARTS = {
    "whole": "all, complete, full",
    "lose loses": "count_loss",
}
# Matched in text with line ends and comment marks taken out.
PHRASES = {
    "last word": "say what decides",
    "query is not right": "SQL error",
    "too uneven": "too noisy to estimate",
    "(give|gives|gave|giving) way": "is replaced, is overwritten",
    "hold trace": "compare",
    "nothing lost": "no data lost",
    "rows[_ ]sums": "say what is summed",
    "quiet[_ ]place": "say what is found",
    r"tg__run_(?!log|median|inflation|notes)\w+": "rank_folder, job_rank, raw_session: run is a verb and the command `tachograph run`",
    "data_hidden": "loader_overlap",
}
# English with the subject first: matched as PHRASES are, in the files of PLAIN but for those of LATER.
GRAMMAR = {
    r"(?<!leave )(?<!leaves )(?<!left )(?<!leaves them )[Aa]lone": "only",
    "anew": "again",
    "[Nn]obody": "no one; say which thread, caller or program",
    r"(?<!there )(?:is|are|was|were) none": "is not one",
    "of (a|the) run": "of a recording, of a folder, of a stretch",
    r"[Ww]hat (?:\S+ ){1,5}?(?:says|say|said) (?:is|are|was|of|comes|goes|has)": "subject first: the text, the fields, the answer",
    r"(?<=[a-z`)]\. )What [a-z][^?.]*(?=\.)": "subject first: files that …, the rest …",
    r"[Ww]ho (?!are\b)\w+": "code is no person: the caller, the thread that",
    r"(?:(?:is|are|was|were) said|said of)": "is stated, is reported, is not known",
    r"(?<=[.:] )Of (?:an?|the|these|those|them|several|each|what|all|others|its|one|two|hundreds)": "subject first: for, in, if",
    "for want of": "because there is no, without",
    "[Ss]omebody": "the caller, the program, another tool, another thread",
    "wants": "needs, takes, requires: code wants nothing",
}
PLAIN = (
    *("src/**/*.[ch]", "src/**/*.def", "include/**/*", "python/**/*.[ch]", "python/**/*.py", "python/**/*.pyi"),
    *("web/**/*", "docs/**/*.md", "examples/**/*", "tools/*", "*.md", "Makefile", "CMakeLists.txt", "pyproject.toml"),
)
LATER = ()  # files that are not checked yet
# Of tests the comments and docstrings are checked: their code and data name what they like.
TESTS = ("tests/**/*.py", "tests/**/*.[ch]")
# (files, what the line has, reason): correct English with the same words
CORRECT = (
    ("src/show/report.c", "who took", "a question that a person asks"),
    ("web/pages/*.js", "who took", "the same"),
    ("web/pages/*.js", "who allocated", "the same"),
    ("web/pages/ranks.js", "who waits", "the same, of ranks"),
    ("web/view/share.js", "who has", "a person"),
    ("web/view/share.js", "somebody Somebody", "a person"),
    ("docs/tutorials/gpu_trace.md", "somebody Somebody", "a person"),
    ("tools/places.sh", "nobody", "the user of that name"),
    ("docs/findings.md", "of a run", "several kernels in a row"),
    ("docs/metrics/finding_rules.md", "of a run", "the same"),
)
TERMS = (
    *("job", "rank", "session", "recording", "window", "source", "overhead", "run"),
    *("trace", "event", "slice", "mark", "track", "lane", "step", "loss", "skipped", "cut", "bent"),
    *("question", "finding", "site", "evidence", "saving", "straggler", "columns", "summary"),
)

# (files, regular expression on the line, reason)
ALLOWED = (
    ("tools/words.py", r"", "the list itself"),
    ("docs/glossary.md", r"", "says which words mean what"),
    ("src/analyze/overview/questions_loader.def", r"^ALIAS\(data_hidden,", "the name of the version before"),
    ("python/tachograph/timing.py", r"\bsettled\b", "the name of the version before"),
    ("CHANGELOG.md", r"`data_hidden`|`settled`", "names of the version before"),
)

# Functions that files share have an object in their name (tg__finding_add). Those of one word that may stay:
ONE_WORD = {
    "alloc fail free getenv grow hash realloc": "as in C's library",
    "at16 at32 at64 get16 get32 get64 set16 set32 set64": "the width is the object",
    "arg chain checklist checksum flops ms name pct quantile sequences thread ticks": "a noun: what the function returns",
}
MOST_FILES = 3  # a static function name may be defined in so many files
# fmt: on
SHARED_NAMES = {}  # name → reason


def forms(table):
    return {form: (key.split()[0], instead) for key, instead in table.items() for form in key.split()}


WORD_FORMS, PART_FORMS = forms(WORDS), forms(NAME_PARTS)


def is_allowed(rel, line):
    return any(fnmatch.fnmatch(rel, files) and re.search(pattern, line) for files, pattern, _ in ALLOWED)


def is_correct(rel, phrase):
    return any(fnmatch.fnmatch(rel, files) and phrase in text for files, text, _ in CORRECT)


def parts(name):
    """give_intoSlot2 → give, into, slot."""
    return [p.lower() for p in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def check_line(rel, number, line):
    if is_allowed(rel, line):
        return
    for name in re.findall(r"[A-Za-z_]\w*", line):
        split = parts(name)
        for part in split:
            found = WORD_FORMS.get(part) or (len(split) > 1 and "_" in name and PART_FORMS.get(part))
            if found:
                yield found[0], f"{rel}:{number}: '{name}': '{found[0]}' says nothing here: {found[1]}"


def flattened(text):
    """The text as one line without comment marks, and where each of its lines begins there."""
    flat, starts = "", []
    for line in text.splitlines():
        starts.append(len(flat))
        flat += re.sub(r"^\s*(?:/?\*+|//|#)?\s*", "", line).rstrip() + " "
    return flat, starts


def check_phrases(rel, text, table, flags):
    lines = text.splitlines()
    flat, starts = flattened(text)
    for pattern, instead in table.items():
        for m in re.finditer(rf"\b{pattern}\b", flat, flags=flags):
            number = max(i for i, start in enumerate(starts) if start <= m.start()) + 1
            if not is_allowed(rel, lines[number - 1]) and not is_correct(rel, m.group(0)):
                yield pattern, f"{rel}:{number}: '{m.group(0)}': {instead}"


def comments(path, text):
    """The text with its lines, of which only comments and docstrings are left."""
    lines = text.split("\n")
    kept = [[" "] * len(line) for line in lines]

    def keep(first, start, last, end):
        """Lines from 1, columns from 0."""
        for number in range(first, last + 1):
            line = lines[number - 1]
            span = slice(start if number == first else 0, end if number == last else len(line))
            kept[number - 1][span] = line[span]

    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                keep(*token.start, *token.end)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
                said = node.body[0].value
                keep(said.lineno, 0, said.end_lineno, sys.maxsize)
    else:
        for m in re.finditer(r"/\*.*?\*/", text, flags=re.S):
            ends = ((text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at) - 1) for at in m.span())
            keep(*next(ends), *next(ends))
    return "\n".join(map("".join, kept))


def check_grammar():
    for path in sorted({path for pattern in (*PLAIN, *TESTS) for path in ROOT.glob(pattern) if path.is_file()}):
        rel, text = str(path.relative_to(ROOT)), path.read_text(errors="replace")
        if rel.startswith("tests/"):
            text = comments(path, text)
        if not any(fnmatch.fnmatch(rel, files) for files in LATER):
            yield from check_phrases(rel, text, GRAMMAR, 0)


def static_functions():
    """Name → the files in which a static function of that name is defined."""
    where = collections.defaultdict(set)
    for path in sorted([*ROOT.glob("src/**/*.[ch]"), *ROOT.glob("python/**/*.[ch]")]):
        for m in re.finditer(r"^static (?:inline )?[\w* ]*?\b(\w+)\([^;]*?\) \{", path.read_text(), flags=re.M):
            where[m.group(1)].add(path.name)
    return where


def check_functions():
    for name, files in sorted(static_functions().items()):
        if len(files) > MOST_FILES and name not in SHARED_NAMES:
            yield (
                "function",
                f"{name}(): defined in {len(files)} files, at most {MOST_FILES} may share a name: {' '.join(sorted(files))}",
            )


def check_objects():
    """Declarations in headers of functions with one word behind tg__."""
    accepted = {name for names in ONE_WORD for name in names.split()}
    for path in sorted(ROOT.glob("src/**/*.h")):
        code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group(0)), path.read_text(), flags=re.S)
        for m in re.finditer(r"^(?!typedef)[a-z][\w \*]*?\btg__([a-z0-9]+)\(", code, flags=re.M):
            if m.group(1) not in accepted:
                number = code.count("\n", 0, m.start()) + 1
                yield (
                    "object",
                    f"{path.relative_to(ROOT)}:{number}: tg__{m.group(1)}: of what? A name has an object: tg__finding_add",
                )


def check_glossary():
    text = (ROOT / "docs/glossary.md").read_text()
    for term in TERMS:
        if not re.search(rf"^\| \*\*{term}\*\* \|", text, flags=re.M):
            yield "glossary", f"docs/glossary.md: no entry for '{term}'"


def breaks():
    for pattern in CHECKED:
        for path in sorted(ROOT.glob(pattern)):
            if not path.is_file():
                continue
            rel, text = str(path.relative_to(ROOT)), path.read_text(errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                yield from check_line(rel, number, line)
            yield from check_phrases(rel, text, PHRASES, re.I)
    yield from check_grammar()
    yield from check_functions()
    yield from check_objects()
    yield from check_glossary()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", action="store_true", help="counts by word and folder instead of lines")
    arguments = parser.parse_args()
    found = list(breaks())
    if arguments.counts:
        table = collections.Counter((word, "/".join(text.split(":")[0].split("/")[:2])) for word, text in found)
        for (word, folder), count in sorted(table.items()):
            print(f"{count:5} {word:12} {folder}")
    else:
        for _, text in found:
            print(text)
    print(f"words: {len(found)} to mend" if found else "words: all in the field's terms", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
