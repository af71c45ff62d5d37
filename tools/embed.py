#!/usr/bin/env python3
"""Write the files of web/ as a C source, so that the program needs no folder beside it.

tools/embed.py WEB_FOLDER OUT.c        CMake calls it"""

import pathlib
import sys

SUFFIXES = {".html", ".js", ".css", ".svg", ".png"}


def main() -> None:
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SUFFIXES)
    lines = ["/* Written by tools/embed.py from web/. */", '#include "show/show.h"', ""]
    for i, path in enumerate(files):
        data = path.read_bytes()
        lines.append(f"static const unsigned char file_{i}[] = {{")
        lines += [",".join(map(str, data[k : k + 40])) + "," for k in range(0, len(data), 40)]
        lines.append("0};")
    lines.append("const struct tg__web_file tg__web_files[] = {")
    for i, path in enumerate(files):
        lines.append(f'    {{"{path.relative_to(folder).as_posix()}", file_{i}, sizeof file_{i} - 1}},')
    lines.append("    {0}};")
    text = "\n".join(lines) + "\n"
    if not out.exists() or out.read_text() != text:
        out.write_text(text)


if __name__ == "__main__":
    main()
