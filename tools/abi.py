#!/usr/bin/env python3
"""The binary interface of the C libraries: exported symbols, and of the public headers each function, callback type,
constant and the layout of each struct. tests/abi/interface.txt holds it as it was accepted.

    tools/abi.py DIR            compare with the libraries in DIR (a build); exit status 1 and what changed
    tools/abi.py DIR --write    accept: lines that are only added need a minor version, all others a new SOVERSION"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DUMP = ROOT / "tests/abi/interface.txt"
LIBRARIES = ("libtachograph.so", "libtachograph-capture.so")
HEADERS = ("read.h", "record.h")
MARK = '__attribute__((visibility("default")))'


def preprocessed(include):
    text = "".join(f'#include "tachograph/{name}"\n' for name in HEADERS)
    command = ["cc", "-std=gnu11", "-E", "-P", f"-I{include}", "-"]
    return re.sub(r"\s+", " ", subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout)


def functions(text):
    """One line a prototype, and a type of callback."""
    for declaration in re.findall(re.escape(MARK) + r"\s*([^;{]+);", text):
        yield "function " + re.sub(r"\( ", "(", declaration.strip())
    for declaration in re.findall(r"typedef ([^;{]*\btg_\w+\s*\([^;{]*);", text):
        yield "callback " + declaration.strip()


def members(body):
    """(type, name) of the members of a struct without inner structs: `bool a, b`, `char c[4]`, `void (*d)(void)`."""
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
        if pointer:
            yield declaration[: pointer.start(1)] + declaration[pointer.end(1) :], pointer.group(1)
            continue
        first, *others = (part.strip() for part in declaration.split(","))
        of, name, size = re.fullmatch(r"(.*?)(\w+)\s*(\[[^]]*\])?", first).groups()
        yield of.strip() + (size or ""), name
        base = of.rstrip("* ")
        for other in others:
            stars = other.count("*")
            yield base + (" " + "*" * stars if stars else ""), other.lstrip("* ")


def structs(text):
    return {name: list(members(body)) for name, body in re.findall(r"struct (tg_\w+) \{([^{}]*)\}", text)}


def constants(text):
    """A number of codes does not count: it grows with the codes."""
    for body in re.findall(r"enum(?: tg_\w+)? \{([^{}]*)\}", text):
        yield from (n for n in re.findall(r"\b(TG_\w+)\b(?=\s*(?:=|,|$))", body) if not n.endswith("_COUNT"))


def program(text):
    """A program that prints the layout of each struct and the value of each constant."""
    lines = [f'#include "tachograph/{name}"' for name in HEADERS] + ["#include <stdio.h>", "int main(void) {"]
    for name, fields in structs(text).items():
        of = f"struct {name}"
        lines.append(f'printf("{of}: %zu bytes, aligned to %zu\\n", sizeof({of}), _Alignof({of}));')
        for kind, field in fields:
            where = f"offsetof({of}, {field}), sizeof((({of} *)0)->{field})"
            lines.append(f'printf("{of}.{field}: {kind} at %zu, %zu bytes\\n", {where});')
    lines += [f'printf("constant {name} = %lld\\n", (long long){name});' for name in constants(text)]
    return "\n".join([*lines, "return 0;", "}"])


def layouts(text, include):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layouts.c"
        source.write_text(program(text))
        built = source.with_suffix("")
        subprocess.run(["cc", f"-I{include}", source, "-o", built], check=True)
        return subprocess.run([built], check=True, capture_output=True, text=True).stdout.splitlines()


def symbols(library):
    """Names with two underscores are for our own tests, and promise nothing."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        _, kind, name = line.split()
        if not name.startswith("tg__"):
            yield f"{library.name} {kind} {name}"


def interface(folder, include=ROOT / "include"):
    text = preprocessed(include)
    exported = [line for name in LIBRARIES for line in symbols(folder / name)]
    return sorted({*exported, *functions(text), *layouts(text, include)})


def differences(before, now):
    """One line for each line that is gone or new: empty when nothing changed."""
    gone, new = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    said = [f"gone or changed, programs that are linked break: {line}" for line in gone]
    return said + [f"{'is now' if gone else 'added'}: {line}" for line in new]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    now = interface(options.build)
    if options.write:
        DUMP.write_text("\n".join(now) + "\n")
        return 0
    said = differences(DUMP.read_text().splitlines(), now)
    print("\n".join(said), end="\n" if said else "")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
