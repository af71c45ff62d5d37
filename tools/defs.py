"""Reads the project's .def lists, for the generators of stubs and docs. A list is lines MACRO(argument, …) between
comments."""

import ast
import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent


def _arguments(text):
    """Split at commas outside quotes; adjacent string literals join, quotes go."""
    parts = re.findall(r'\s*((?:"(?:\\.|[^"\\])*"\s*)+|[^,"]+)\s*(?:,|$)', text)
    for part in map(str.strip, parts):
        yield (
            "".join(ast.literal_eval(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', part))
            if part.startswith('"')
            else part
        )


def _included(path):
    """The text of a .def file with the lists it includes in their place."""
    text = (ROOT / path).read_text(encoding="utf-8")
    text = re.sub(r'^#include "(.*\.def)"$', lambda m: _included("src/" + m[1]), text, flags=re.M)
    for name, above in re.findall(r'^#define (\w+) "(.*\.def)"$', text, flags=re.M):
        text = text.replace(f"#include {name}\n", _included("src/" + above))
    return text


def read(path):
    """[(macro, [arguments])] of one .def file and of those it includes, in order."""
    text = re.sub(r"/\*.*?\*/", "", _included(path), flags=re.S)
    rows = re.findall(r'^([A-Z_]+)\(((?:"(?:\\.|[^"\\])*"|[^")])*)\)', text, flags=re.M)
    return [(macro, list(_arguments(body))) for macro, body in rows]


class Question(NamedTuple):
    name: str
    meaning: str
    arguments: list  # (name, default, meaning)
    columns: list  # (name, type, unit, meaning)


def common_arguments():
    """Arguments that every question takes beside its own, from the table in questions.c."""
    text = (ROOT / "src/analyze/questions.c").read_text(encoding="utf-8")
    body = re.search(r"common\[\] = \{(.*?)\n\};", text, flags=re.S).group(1)
    return [tuple(_arguments(row)) for row in re.findall(r'\{((?:"(?:\\.|[^"\\])*"|[^{}"])*)\}', body)]


def questions():
    found = {}
    for macro, args in read("src/catalog/questions_all.def"):
        if macro == "QUESTION":
            found[args[0]] = Question(args[0], args[5], [], [])
        elif macro == "ARGUMENT":
            found[args[0]].arguments.append(tuple(args[1:4]))
        elif macro == "COLUMN":
            found[args[0]].columns.append((*args[1:4], args[5]))
    return list(found.values())
