#!/usr/bin/env python3
"""Build the wheel twice, from copies of this tree in two folders, with other times of files and another umask, and
compare the bytes. Exit status 1, and the members that differ.

    tools/reproducible.py [PYTHON]    default: .venv/bin/python, with scikit-build-core in it"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def copy_tree(folder):
    """Files that git tracks, as they are now."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            shutil.copymode(ROOT / name, folder / name)


def build(python, folder, umask):
    command = [python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    subprocess.run([*command, "-w", folder / "dist", folder], check=True, env=environment, umask=umask)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def members(wheel):
    """name → (hash, time, mode)"""
    with zipfile.ZipFile(wheel) as archive:
        return {
            i.filename: (hashlib.sha256(archive.read(i)).hexdigest(), i.date_time, i.external_attr)
            for i in archive.infolist()
        }


def main():
    python = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".venv/bin/python").absolute()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        folders = pathlib.Path(one) / "a", pathlib.Path(other) / "a_folder_with_a_longer_name"
        wheels = []
        for folder, umask in zip(folders, (0o022, 0o077)):
            copy_tree(folder)
            wheels.append(build(python, folder, umask))
        first, second = map(members, wheels)
        differ = sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))
        same = wheels[0].read_bytes() == wheels[1].read_bytes()
        said = "two builds are equal" if same else "two builds differ: " + (", ".join(differ) or "in their order")
        print(f"{wheels[0].name}: {said}, {hashlib.sha256(wheels[0].read_bytes()).hexdigest()}")
        if not same and os.environ.get("TG_KEEP"):
            for number, wheel in enumerate(wheels):
                shutil.copy(wheel, pathlib.Path(os.environ["TG_KEEP"]) / f"{number}.whl")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
