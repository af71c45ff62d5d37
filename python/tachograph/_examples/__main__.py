"""python -m tachograph._examples [NAME] [-o PLACE]: lists the scripts, prints one, or writes one or all."""

from __future__ import annotations

import argparse
import ast
import pathlib
import sys

SCRIPTS = pathlib.Path(__file__).with_name("scripts")


def scripts() -> dict[str, pathlib.Path]:
    return {path.stem: path for path in sorted(SCRIPTS.glob("*.py"))}


def about(path: pathlib.Path) -> str:
    """The first sentence of the script's own description."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def main() -> int:
    parser = argparse.ArgumentParser(prog="tachograph examples")
    parser.add_argument("name", nargs="?", choices=[[], *scripts()], metavar="NAME", default=[])
    parser.add_argument("-o", dest="out")
    given = parser.parse_args()
    chosen = {given.name: scripts()[given.name]} if given.name else scripts()
    if given.out:
        return write(chosen, pathlib.Path(given.out))
    if given.name:
        sys.stdout.write(chosen[given.name].read_text(encoding="utf-8"))
        return 0
    for name, path in chosen.items():
        print(f"{name:<{max(map(len, chosen))}}  {about(path)}")
    print("\nwrite one or all: tachograph examples [NAME] -o FOLDER")
    return 0


def write(chosen: dict[str, pathlib.Path], folder: pathlib.Path) -> int:
    """A file that is there already stays: it may have been changed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in chosen.items():
            with open(folder / f"{name}.py", "x", encoding="utf-8") as file:
                file.write(path.read_text(encoding="utf-8"))
            print(folder / f"{name}.py")
    except OSError as error:
        print(f"tachograph: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
