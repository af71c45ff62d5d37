#!/usr/bin/env python3
"""Where NVIDIA's headers have the fields that src/capture/cuda_layouts.def lists.

    python3 tools/cupti_layouts.py --write     get the packages with the headers, compile, write the table
    python3 tools/cupti_layouts.py             the same, and compare; exit status 1 and the difference

The packages are NVIDIA's; nothing of them stays but the numbers, in tests/fake/cupti_layouts.txt, with which
tests/python/test_cupti_layouts.py compares the list."""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import defs

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/fake/cupti_layouts.txt"
LIST = "src/capture/cuda_layouts.def"
PACKAGES = (
    ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79"),
    ("nvidia-cuda-cupti==13.4.92", "nvidia-cuda-runtime==13.4.92"),
    ("nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37"),
)
# What the runtime's headers take from the compiler's package.
HOST_DEFINES = """
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __specialization_static
#define __host__
#define __device__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDART_CB
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
"""


def layouts():
    """[(kind, struct, bytes, [(field, offset, member)])] of the list."""
    rows = defs.read(LIST)
    sizes = [tuple(a) for m, a in rows if m == "CUPTI_SIZE"]
    fields = [tuple(a) for m, a in rows if m == "CUPTI_FIELD"]
    for kind, size, struct in sizes:
        of = "RUNTIME" if kind == "DRIVER" else kind  # one struct
        yield (
            kind,
            struct,
            int(size),
            [
                (name, int(offset), kind_of, member)
                for k, name, offset, kind_of, member, since in fields
                if k == of and int(since) <= int(size)
            ],
        )


def callbacks():
    """{struct: [(field, offset, member)]} of what callbacks are handed, and [(name, number)] of the callbacks."""
    rows = defs.read(LIST)
    structs = {}
    for of, field, offset, member in (a for m, a in rows if m == "CUPTI_CALLBACK"):
        structs.setdefault(of, []).append((field, int(offset), member))
    return structs, [(name, int(number)) for name, number in (a for m, a in rows if m == "CUPTI_RESOURCE")]


def program(header):
    """A program that prints the line of every struct that this header has."""
    text = (
        "#include <stdio.h>\n#include <stddef.h>\n#include <cuda.h>\n#include <cupti.h>\n#include <cupti_activity.h>\n"
    )
    text += "#include <cupti_activity_deprecated.h>\nint main(void) {\n"
    for kind, struct, _, fields in layouts():
        if not re.search(rf"\}}\s*CUpti_Activity{struct};", header):
            continue
        c = f"CUpti_Activity{struct}"
        text += f'printf("%d {kind} {struct} %zu", CUPTI_API_VERSION, sizeof({c}));\n'
        for name, _, _, member in fields:
            text += f'printf(" {name}=%zu:%zu", offsetof({c}, {member}), sizeof((({c} *)0)->{member}));\n'
        text += 'puts("");\n'
    structs, functions = callbacks()
    for struct, fields in structs.items():
        c = f"CUpti_{struct}"
        text += f'printf("%d CALLBACK {struct} %zu", CUPTI_API_VERSION, sizeof({c}));\n'
        for name, _, member in fields:
            text += f'printf(" {name}=%zu:%zu", offsetof({c}, {member}), sizeof((({c} *)0)->{member}));\n'
        text += 'puts("");\n'
    text += 'printf("%d RESOURCE CallbackIdResource 4", CUPTI_API_VERSION);\n'
    for name, _ in functions:
        text += f'printf(" {name}=%d:4", (int)CUPTI_CBID_RESOURCE_{name});\n'
    text += 'puts("");\n'
    return text + "return 0;\n}\n"


def refuse_missing(folder):
    """Every function that the recorder needs must be in the libraries of these packages."""
    needed = {a[1] for m, a in defs.read("src/capture/cuda_symbols.def") if m == "CUPTI"}
    for library in folder.rglob("libcupti.so.1?"):
        listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
        missing = needed - {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}
        if missing:
            sys.exit(f"{library.name} has no {', '.join(sorted(missing))}")


def compiled(packages, folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, *packages], check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    refuse_missing(folder)
    (folder / "stub/crt").mkdir(parents=True)
    (folder / "stub/crt/host_defines.h").write_text(HOST_DEFINES)
    includes = [folder / "stub", *{p.parent for n in ("cupti_activity.h", "cuda.h") for p in folder.rglob(n)}]
    header = "".join(p.read_text() for p in folder.rglob("cupti_activity*.h"))
    (folder / "layouts.c").write_text(program(header))
    subprocess.run(
        ["cc", "-w", *[f"-I{i}" for i in includes], folder / "layouts.c", "-o", folder / "layouts"], check=True
    )
    return subprocess.run([folder / "layouts"], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    table = ""
    for packages in PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            table += compiled(packages, pathlib.Path(folder))
    if parser.parse_args().write:
        TABLE.write_text(table)
        return 0
    before = TABLE.read_text()
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(True), table.splitlines(True), str(TABLE), "headers"))
    return int(before != table)


if __name__ == "__main__":
    sys.exit(main())
