#!/usr/bin/env python3
"""Build twice, from copies of this tree in two folders, with other times of files and another umask, and compare the
bytes. Exit status 1, and the members that differ.

    tools/reproducible.py [PYTHON]            the wheel of this machine; default: .venv/bin/python
    .venv-wheels/bin/python tools/reproducible.py --wheels    what `make wheels` makes; downloads are shared;
                                                                       --arch x86_64: for one machine"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    """At once, also into a file: a build takes minutes."""
    print(f"reproducible: {text}", flush=True)


def copy_tree(folder):
    """Files that git tracks, as they are now."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            shutil.copymode(ROOT / name, folder / name)


def build(command, folder, umask):
    """name → file, of what lands in its folder dist."""
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    subprocess.run(command, check=True, env=environment, umask=umask, cwd=folder)
    return {path.name: path for path in sorted((folder / "dist").iterdir())}


def command_of(arguments):
    if arguments[:1] == ["--wheels"]:
        return [sys.executable, "tools/wheels.py", "--inputs", ROOT / "build/wheels/inputs", *arguments[1:]]
    python = pathlib.Path(arguments[0] if arguments else ROOT / ".venv/bin/python").absolute()
    options = ["-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", "dist"]
    return [python, "-m", "pip", "wheel", *options, "."]


def members(archive):
    """name → (hash, time, mode)"""
    if archive.suffix == ".gz":
        with tarfile.open(archive) as tar:
            return {
                m.name: (hashlib.sha256(tar.extractfile(m).read() if m.isfile() else b"").hexdigest(), m.mtime, m.mode)
                for m in tar.getmembers()
            }
    with zipfile.ZipFile(archive) as wheel:
        return {
            i.filename: (hashlib.sha256(wheel.read(i)).hexdigest(), i.date_time, i.external_attr)
            for i in wheel.infolist()
        }


def compare(one, other):
    """Are both files equal? Says it."""
    same = one.read_bytes() == other.read_bytes()
    first, second = members(one), members(other)
    differ = sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))
    said = "two builds are equal" if same else "two builds differ: " + (", ".join(differ) or "in their order")
    say(f"{one.name}: {said}, {hashlib.sha256(one.read_bytes()).hexdigest()}")
    if not same and os.environ.get("TG_KEEP"):
        for number, file in enumerate((one, other)):
            shutil.copy(file, pathlib.Path(os.environ["TG_KEEP"]) / f"{number}-{file.name}")
    return same


def main():
    command = command_of(sys.argv[1:])
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        folders = pathlib.Path(one) / "a", pathlib.Path(other) / "a_folder_with_a_longer_name"
        made = []
        for number, (folder, umask) in enumerate(zip(folders, (0o022, 0o077)), start=1):
            say(f"build {number} of 2")
            began = time.monotonic()
            copy_tree(folder)
            made.append(build(command, folder, umask))
            say(f"build {number} of 2 made {', '.join(made[-1]) or 'nothing'} in {time.monotonic() - began:.0f} s")
        if not made[0] or made[0].keys() != made[1].keys():
            say("two builds made other files")
            return 1
        differ = [name for name, file in made[0].items() if not compare(file, made[1][name])]
        say(f"{len(differ)} of {len(made[0])} files differ" if differ else f"all {len(made[0])} files are equal")
        return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
