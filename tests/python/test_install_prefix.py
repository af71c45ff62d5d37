"""Programs outside of this tree find the installed libraries by pkg-config and by CMake, also in a moved prefix."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("TACHOGRAPH_LIBRARY", ROOT / "build/libtachograph.so")).parent
READS, RECORDS = re.findall(r"```c\n(.*?)```", (ROOT / "docs/api.md").read_text(encoding="utf-8"), flags=re.S)[:2]
CMAKE = re.search(r"^CMAKE_COMMAND:INTERNAL=(.*)$", (BUILD / "CMakeCache.txt").read_text(), flags=re.M).group(1)
VERSION = re.search(r"project\(tachograph VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
STEP = '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#%d", "pid": 1, "tid": 1, "ts": %d, "dur": 5}'
PROJECT = """cmake_minimum_required(VERSION 3.18)
project(outside C)
find_package(tachograph %s REQUIRED)
add_executable(reads reads.c)
target_link_libraries(reads PRIVATE tachograph::tachograph)
add_executable(records records.c)
target_link_libraries(records PRIVATE tachograph::tachograph-capture)
"""


def quiet(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    quiet(CMAKE, "--install", BUILD, "--prefix", folder / "first", "--strip")
    return (folder / "first").rename(folder / "moved")


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "reads.c").write_text(READS)
    (tmp_path / "records.c").write_text(RECORDS)
    (tmp_path / "trace.json").write_text('{"traceEvents": [%s]}' % ", ".join(STEP % (i, 10 * i) for i in (1, 2)))
    return tmp_path


def run_both(sources, folder, libraries):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries))
    assert quiet(folder / "reads", "trace.json", cwd=sources, env=environment) == "2 steps\n"
    assert quiet(folder / "records", cwd=sources, env=environment) == "0 lost\n"
    assert (sources / "run.tacho").exists()


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_by_pkg_config(prefix, sources):
    (packages,) = prefix.rglob("pkgconfig")
    environment = dict(os.environ, PKG_CONFIG_PATH=str(packages))
    for source, package in (("reads", "tachograph"), ("records", "tachograph-capture")):
        assert quiet("pkg-config", "--modversion", package, env=environment).strip() == VERSION
        flags = quiet("pkg-config", "--cflags", "--libs", package, env=environment).split()
        quiet("cc", "-std=c11", "-Wall", "-Werror", f"{source}.c", "-o", source, *flags, cwd=sources)
    run_both(sources, sources, packages.parent)


def test_by_cmake(prefix, sources):
    (sources / "CMakeLists.txt").write_text(PROJECT % VERSION)
    quiet(CMAKE, "-S", sources, "-B", sources / "made", f"-DCMAKE_PREFIX_PATH={prefix}")
    quiet(CMAKE, "--build", sources / "made")
    (libraries,) = {p.parent for p in prefix.rglob("libtachograph.so")}
    run_both(sources, sources / "made", libraries)


def test_another_minor_version_is_refused(prefix, sources):
    """Below 1.0 it may have another interface."""
    major, minor, _ = VERSION.split(".")
    (sources / "CMakeLists.txt").write_text(PROJECT % f"{major}.{int(minor) + 1}")
    words = [CMAKE, "-S", sources, "-B", sources / "made", f"-DCMAKE_PREFIX_PATH={prefix}"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode and 'compatible with requested version "' in done.stderr
