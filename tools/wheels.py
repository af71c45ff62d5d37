#!/usr/bin/env python3
"""make wheels: in dist/ a wheel and an archive of the command line, for x86-64 and aarch64 Linux with glibc 2.28 on.

    .venv-wheels/bin/python tools/wheels.py [--arch x86_64 aarch64] [--out dist] [--work build/wheels] [--inputs FOLDER]

One wheel holds all: the library, the command line, _read for every Python from 3.11 on (stable ABI) and for 3.10, and
_record for each Python of PYTHONS. zig's C compiler builds for an old glibc; libraries that are not part of every Linux
are linked statically, from Debian's source packages (CODECS), with their notices. --inputs keeps what is downloaded:
these sources, and headers of Pythons that are not on PATH. Everything else is made in --work."""

import argparse
import functools
import gzip
import hashlib
import multiprocessing.pool
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GLIBC = "2.28"
# Source package → version and SHA-256 of its .dsc, which has those of its files. Of Debian 12, which every test meets.
SUITE = "bookworm"
CODECS = {
    "libisal": ("2.30.0-5", "f0376ddb24f0126641161054002a251ba48b52c2e28fe29cc7b5106e9f0938a8"),
    "libwebsockets": ("4.1.6-3", "5084ff62d072edd9f4d6740979cea07bf9a23c72ed8c869a5c2c1b51466c435d"),
    "libzstd": ("1.5.4+dfsg2-5", "8f602f92b575aa8b5e979196fb6ee82d78f233521dc9636526d3ecba1f63c1b1"),
    "sqlite3": ("3.40.1-2+deb12u2", "ee3459ae9d00939741c7708fc1b8ce1bde12d8c3fb1dfa005bbbc8651d884e23"),
    "xxhash": ("0.8.1-1", "4a961627c06efc8fa3bc4b06ee9dba6cfaf092f2550b88d63e9218a2728721b4"),
}
# Minor version → the suite that has its headers, for a Python that is not on PATH.
PYTHONS = {10: None, 11: "bookworm", 12: None, 13: "trixie", 14: "unstable", 15: "unstable"}
JOBS = int(os.environ.get("J", os.cpu_count() or 2))


def fail(text):
    sys.exit(f"wheels: {text}")


def run(command, log, **others):
    """Its output goes to the file `log`, whose end is shown when it fails."""
    with log.open("a") as out:
        print("$", *command, file=out, flush=True)
        done = subprocess.run(
            list(map(str, command)), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **others
        )
    if done.returncode:
        print("\n".join(log.read_text(errors="replace").splitlines()[-30:]), file=sys.stderr)
        fail(f"{command[0]} failed, see {log}")


# ---- what is downloaded ----------------------------------------------------------------------------------------------


@functools.cache
def apt(inputs, kind, suites):
    """Options of apt-get and apt-cache for these suites of the mirror that this machine uses; its own lists stay."""
    folder = inputs / "apt" / kind
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"], capture_output=True, text=True, check=True
    )
    mirror = os.environ.get("ROOTS_MIRROR") or found.stdout.split()[0]
    (folder / "sources.list").write_text("".join(f"{kind} {mirror} {suite} main\n" for suite in suites))
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    run(["apt-get", *options, "update"], inputs / "download.log")
    return options


def source_of(inputs, name):
    """The folder of a source package, patched as Debian does; its .dsc is compared with the checksum above."""
    version, wanted = CODECS[name]
    folder = inputs / "sources" / name
    dsc = folder / f"{name}_{version}.dsc"
    if not dsc.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = apt(inputs, "deb-src", (SUITE,))
        run(
            ["apt-get", *options, "source", "--download-only", f"{name}={version}"], inputs / "download.log", cwd=folder
        )
    if hashlib.sha256(dsc.read_bytes()).hexdigest() != wanted:
        fail(f"{dsc} is not the file that CODECS names")
    return dsc


def unpack(work, inputs, name):
    tree = work / "sources" / name
    if not (tree / "unpacked").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(parents=True, exist_ok=True)
        run(["dpkg-source", "--no-check", "-x", source_of(inputs, name), tree], work / "sources.log")
        (tree / "unpacked").touch()
    return tree


def copy_headers(include, config, folder):
    """Those of this machine serve aarch64, too: nothing that their pyconfig.h differ in lays out an object."""
    shutil.copytree(include, folder, symlinks=False)
    shutil.copyfile(config, folder / "pyconfig.h")  # Debian's chooses by machine, among files elsewhere


def headers_of(inputs, minor):
    """The folder of Python.h of this version: from a Python on PATH, else from Debian."""
    folder = inputs / "headers" / f"3.{minor}"
    if (folder / "Python.h").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    ask = "import sysconfig as s; print(s.get_path('include'), s.get_config_h_filename(), sep='\\n')"
    pyenv = os.environ | {"PYENV_VERSION": f"3.{minor}"}  # its commands start only the versions that are switched on
    try:
        asked = subprocess.run([f"python3.{minor}", "-c", ask], capture_output=True, text=True, env=pyenv)
        said = asked.stdout.splitlines()
    except FileNotFoundError:
        said = []
    if len(said) == 2 and pathlib.Path(said[0], "Python.h").exists():
        copy_headers(*said, folder)
    elif PYTHONS[minor]:
        packages = inputs / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        options = apt(inputs, "deb", tuple(sorted(set(filter(None, PYTHONS.values())))))
        name = f"libpython3.{minor}-dev"
        run(["apt-get", *options, "download", name], inputs / "download.log", cwd=packages)
        (package,) = packages.glob(f"{name}_*.deb")
        run(["dpkg", "-x", package, packages / name], inputs / "download.log")
        include = packages / name / "usr/include"
        (config,) = include.glob(f"*-linux-gnu/python3.{minor}/pyconfig.h")
        copy_headers(include / f"python3.{minor}", config, folder)
    else:
        fail(f"there is no python3.{minor} with its headers on PATH, and Debian has none")
    return folder


# ---- the compiler, and the libraries that are linked statically ------------------------------------------------------


class Machine:
    """One target: its compiler, and the prefix with the static libraries."""

    def __init__(self, arch, work):
        import ziglang

        self.arch, self.folder = arch, work / arch
        self.work = work
        self.log = self.folder / "build.log"
        self.prefix = self.folder / "prefix"
        for part in ("bin", "prefix/include", "prefix/lib", "prefix/notices"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        zig = pathlib.Path(ziglang.__file__).with_name("zig")
        maps = " ".join(f"'-ffile-prefix-map={path}=.'" for path in (self.folder, work, ROOT))
        wide = (
            "-mevex512" if arch == "x86_64" else ""
        )  # zig forbids vectors of 512 bits, also where a function asks for them
        self.cc = self.tool("cc", f"{zig} cc -target {arch}-linux-gnu.{GLIBC} {wide} {maps}")
        self.ar = self.tool("ar", f"{zig} ar")
        self.ranlib = self.tool("ranlib", f"{zig} ranlib")
        (self.prefix / "notices/zig").mkdir(exist_ok=True)  # parts of its runtime are linked in
        shutil.copyfile(zig.with_name("LICENSE"), self.prefix / "notices/zig/LICENSE")

    def tool(self, name, command):
        path = self.folder / "bin" / name
        text = f'#!/bin/sh\nexec {command} "$@"\n'
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(0o755)
        return path

    def run(self, command, **others):
        run(command, self.log, **others)

    def cmake(self):
        """Options of a build of CMake for this machine: it finds what is in the prefix, and nothing of this system."""
        given = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_C_COMPILER": self.cc,
            "CMAKE_AR": self.ar,
            "CMAKE_RANLIB": self.ranlib,
            "CMAKE_C_COMPILER_AR": self.ar,
            "CMAKE_C_COMPILER_RANLIB": self.ranlib,
            "CMAKE_PREFIX_PATH": self.prefix,
            "CMAKE_FIND_ROOT_PATH": self.prefix,
            **{f"CMAKE_FIND_ROOT_PATH_MODE_{what}": "ONLY" for what in ("LIBRARY", "INCLUDE", "PACKAGE")},
        }
        if self.arch != os.uname().machine:
            given |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": self.arch}
        return given

    def library(self, tree, name, sources, *flags):
        """lib/NAME of the prefix, of these files of the tree."""
        objects = self.folder / "objects" / name
        objects.mkdir(parents=True, exist_ok=True)

        def compile_one(source):
            target = objects / (source.replace("/", "_") + ".o")
            self.run([self.cc, "-O2", "-fPIC", "-fvisibility=hidden", *flags, "-c", source, "-o", target], cwd=tree)
            return target

        with multiprocessing.pool.ThreadPool(JOBS) as pool:
            made = pool.map(compile_one, sources)
        archive = self.prefix / "lib" / name
        archive.unlink(missing_ok=True)
        self.run([self.ar, "rcsD", archive, *made])

    def take(self, tree, name, *files):
        """The notices of a library: its licence, and the copyright of Debian's package."""
        for file in (*files, "debian/copyright"):
            target = self.prefix / "notices" / name / pathlib.Path(file).name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / file, target)


def build_isal(machine, tree):
    copy = machine.folder / "isal"  # it builds in its own tree
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree, copy)
    options = [
        "-f",
        "Makefile.unx",
        f"-j{JOBS}",
        "units=igzip crc",
        f"CC={machine.cc}",
        f"AR={machine.ar}",
        f"host_cpu={machine.arch}",
    ]
    options += ["DEBUG=-fPIC", "DEBUG_nasm="]
    if machine.arch == "aarch64":  # its assembly is for GNU's assembler
        options += ["arch=aarch64", "AS=aarch64-linux-gnu-gcc -D__ASSEMBLY__"]
    machine.run(["make", *options, "lib", "isa-l.h"], cwd=copy)
    shutil.copyfile(copy / "bin/isa-l.a", machine.prefix / "lib/libisal.a")
    shutil.copytree(copy / "include", machine.prefix / "include/isa-l", dirs_exist_ok=True)
    shutil.copyfile(copy / "isa-l.h", machine.prefix / "include/isa-l/isa-l.h")
    machine.take(tree, "isa-l", "LICENSE")


def build_zstd(machine, tree):
    sources = [
        str(p.relative_to(tree))
        for part in ("common", "compress", "decompress")
        for p in sorted((tree / "lib" / part).glob("*.[cS]"))
    ]
    machine.library(
        tree, "libzstd.a", sources, "-DZSTDLIB_VISIBLE=", "-DXXH_NAMESPACE=ZSTD_", "-DZSTD_LEGACY_SUPPORT=0"
    )
    for header in ("zstd.h", "zstd_errors.h"):
        shutil.copyfile(tree / "lib" / header, machine.prefix / "include" / header)
    machine.take(tree, "zstd", "LICENSE")


def build_sqlite(machine, tree):
    if not (tree / "sqlite3.c").exists():  # one file of all, by programs of this machine
        run(["./configure", "--disable-tcl", "--disable-readline"], machine.log, cwd=tree)
        run(["make", "sqlite3.c"], machine.log, cwd=tree)
    flags = (
        "-DSQLITE_THREADSAFE=1",
        "-DSQLITE_SOUNDEX=1",
        "-DSQLITE_LIKE_DOESNT_MATCH_BLOBS",
        "-DSQLITE_OMIT_LOAD_EXTENSION",
        "-DSQLITE_API=",
    )
    machine.library(tree, "libsqlite3.a", ["sqlite3.c"], *flags)
    shutil.copyfile(tree / "sqlite3.h", machine.prefix / "include/sqlite3.h")
    machine.take(tree, "sqlite", "LICENSE.md")


def build_websockets(machine, tree):
    """The server of `view` listens on this machine only and speaks plain HTTP/1."""
    on = ("LWS_STATIC_PIC", "LWS_WITH_STATIC", "LWS_WITHOUT_TESTAPPS", "LWS_WITHOUT_DAEMONIZE")
    off = ("LWS_WITH_SSL", "LWS_WITH_SHARED", "LWS_WITH_HTTP2", "LWS_UNIX_SOCK", "LWS_WITH_EXPORT_LWSTARGETS")
    options = machine.cmake() | dict.fromkeys(on, "ON") | dict.fromkeys(off, "OFF")
    options |= {"CMAKE_POLICY_VERSION_MINIMUM": "3.5", "CMAKE_INSTALL_PREFIX": machine.prefix, "DISABLE_WERROR": "ON"}
    options["CMAKE_DISABLE_FIND_PACKAGE_Git"] = "ON"  # it would take the commit of this tree for its own
    options |= {"CMAKE_C_FLAGS": "-fvisibility=hidden", "CMAKE_INSTALL_LIBDIR": "lib"}
    build = machine.folder / "websockets"
    machine.run(["cmake", "-S", tree, "-B", build, *(f"-D{k}={v}" for k, v in options.items())])
    machine.run(["cmake", "--build", build, f"-j{JOBS}", "--target", "websockets"])
    shutil.copytree(tree / "include", machine.prefix / "include", dirs_exist_ok=True)
    shutil.copytree(build / "include", machine.prefix / "include", dirs_exist_ok=True)
    shutil.copyfile(build / "lib/libwebsockets.a", machine.prefix / "lib/libwebsockets.a")
    machine.take(tree, "libwebsockets", "LICENSE")


def put_xxhash(machine, tree):
    shutil.copyfile(tree / "xxhash.h", machine.prefix / "include/xxhash.h")
    machine.take(tree, "xxhash", "LICENSE")


def stand_for_libgcc(machine):
    """A library to link with, in place of the libgcc_s.so.1 that each Linux has: an exception that passes
    through the recorder is unwound by the library that threw it, never by a copy of zig's."""
    symbols, source = {"_Unwind_Resume": "GCC_3.0", "__gcc_personality_v0": "GCC_3.3.1"}, machine.folder / "libgcc_s.c"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in symbols))
    versions = source.with_suffix(".map")
    versions.write_text("".join(f"{version} {{ {name}; }};\n" for name, version in symbols.items()))
    library = machine.prefix / "lib/libgcc_s.so.1"
    machine.run(
        [machine.cc, "-shared", f"-Wl,-soname,{library.name},--version-script,{versions}", source, "-o", library]
    )
    return library


BUILDERS = {
    "libisal": build_isal,
    "libwebsockets": build_websockets,
    "libzstd": build_zstd,
    "sqlite3": build_sqlite,
    "xxhash": put_xxhash,
}


def build_codecs(machine, inputs):
    for name, (version, _) in CODECS.items():
        mark = machine.folder / f"{name}-{version}.done"
        if not mark.exists():
            print(f"wheels: {machine.arch}: {name} {version}", flush=True)
            BUILDERS[name](machine, unpack(machine.work, inputs, name))
            mark.touch()


# ---- the archive and the wheel ---------------------------------------------------------------------------------------


def version():
    return re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.M).group(1)


def options_of(machine):
    flags = f"-s -Wl,--as-needed {stand_for_libgcc(machine)}"
    strip = {f"CMAKE_{kind}_LINKER_FLAGS": flags for kind in ("EXE", "SHARED", "MODULE")}
    strip["CMAKE_SHARED_LINKER_FLAGS"] += " -Wl,--no-undefined"
    return (
        machine.cmake() | strip | {"TG_WITH_ZLIB": "OFF", "TG_NOTICES": machine.prefix / "notices"}
    )  # ISA-L has its part


def build_archive(machine, out):
    """bin/, lib/, include/ and share/ without Python. The program of this machine writes the pages of both."""
    name = f"tachograph-{version()}-linux-{machine.arch}"
    build, stage = machine.folder / "plain", machine.folder / "stage"
    options = options_of(machine) | {"CMAKE_INSTALL_PREFIX": "/usr", "CMAKE_INSTALL_LIBDIR": "lib"}
    machine.run(["cmake", "-S", ROOT, "-B", build, *(f"-D{k}={v}" for k, v in options.items())])
    machine.run(["cmake", "--build", build, f"-j{JOBS}"])
    shutil.rmtree(stage, ignore_errors=True)
    machine.run(["cmake", "--install", build, "--prefix", stage / name])
    native = os.uname().machine
    if machine.arch != native:
        pages = machine.work / native / "stage" / name.replace(machine.arch, native) / "share"
        if not pages.exists():
            fail(f"build for {native} first: its program writes the manual page")
        shutil.copytree(pages, stage / name / "share", dirs_exist_ok=True)
    for file in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / file, stage / name / file)

    def same_everywhere(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = 315532800  # 1980, as in the wheel
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        (out / f"{name}.tar.gz").open("wb") as file,
        gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted([stage / name, *(stage / name).rglob("*")]):
            archive.add(path, path.relative_to(stage), recursive=False, filter=same_everywhere)


def build_wheel(machine, headers, out):
    """Tagged for what it serves: cp310, and the stable ABI from 3.11 on."""
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{machine.arch}"
    options = options_of(machine) | {
        "TG_PYTHON_HEADERS": ";".join(map(str, headers)),
        "TG_OBJECTS_FROM": machine.folder / "plain",
        "CMAKE_SYSTEM_PROCESSOR": machine.arch,
    }
    settings = {
        "build-dir": machine.folder / "wheel",
        "install.strip": "false",  # the linker did, and the system's strip knows one machine
        "wheel.tags": f"cp310-cp310-{platform};cp311-abi3-{platform}",
        **{f"cmake.define.{key}": value for key, value in options.items()},
    }
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    command += [word for key, value in settings.items() for word in ("-C", f"{key}={value}")]
    fresh = machine.folder / "made"
    shutil.rmtree(fresh, ignore_errors=True)
    machine.run([*command, "-w", fresh, ROOT], env=os.environ | {"PYTHONHASHSEED": "0"})
    (wheel,) = fresh.glob("*.whl")
    shutil.move(wheel, out / wheel.name)
    return out / wheel.name


MOST_BYTES = 10_000_000


def check_wheel(wheel, folder):
    """Its tag, the stable ABI of _read, its size, and that no library gives names of those inside to others."""
    said = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True).stdout
    if f'platform tag: "manylinux_{GLIBC.replace(".", "_")}' not in " ".join(said.split()):
        fail(f"auditwheel does not agree with the tag of {wheel.name}: {said}")
    shutil.rmtree(folder, ignore_errors=True)
    zipfile.ZipFile(wheel).extractall(folder)
    (read,) = folder.glob("tachograph/_read.abi3.so")
    run(
        [sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", "3.11", read], folder / "abi3audit.log"
    )
    for library in sorted(folder.rglob("*.so")):
        listing = subprocess.run(
            ["nm", "-D", "--defined-only", "-P", library], capture_output=True, text=True, check=True
        ).stdout
        names = {line.split()[0].split("@")[0] for line in listing.splitlines()}
        strangers = sorted(n for n in names if not re.match(r"tg_|PyInit__re(ad|cord)$|InitializeInjectionNvtx2$", n))
        if strangers or not names:
            fail(f"{library.name} exports {', '.join(strangers) or 'nothing'}")
    if wheel.stat().st_size > MOST_BYTES:
        fail(f"{wheel.name} has {wheel.stat().st_size} bytes")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, auditwheel and abi3audit agree", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", nargs="+", default=["x86_64", "aarch64"], choices=["x86_64", "aarch64"])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/wheels")
    parser.add_argument("--inputs", type=pathlib.Path)
    given = parser.parse_args()
    work, out = given.work.absolute(), given.out.absolute()
    inputs = (given.inputs or work / "inputs").absolute()
    for folder in (inputs, out):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(work / "zig")
    headers = [headers_of(inputs, minor) for minor in PYTHONS]
    for arch in given.arch:
        machine = Machine(arch, work)
        build_codecs(machine, inputs)
        print(f"wheels: {arch}: the archive and the wheel", flush=True)
        build_archive(machine, out)
        check_wheel(build_wheel(machine, headers, out), machine.folder / "unpacked")


if __name__ == "__main__":
    main()
