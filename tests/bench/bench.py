#!/usr/bin/env python3
"""Side by side with other tools, in one run: how long it takes from a file to an answer, and how much memory.

    bench.py [--sizes 150,500,1000] [--rounds 5] [--inputs DIR | --grow TOOL --seed-trace FILE] [--work DIR]
             [--hta-python PYTHON | --hta] [--out FILE.json] [--docs docs/performance.md]

Inputs are made by tests/bench/grow.py in --work (outside the tree, kept for the next run); --inputs takes ready *.json
files instead, --grow another generator called as TOOL SEED-TRACE OUT --size-mb N. Medians of alternating runs; two
cores at most.
"""

import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path[:0] = [str(HERE), str(REPO / "tests" / "conformance")]
import grow
from engine import find_binary
from measure import Failed, alternate, machine, output, peak_anonymous

TABLES = ("ops", "kernels", "events", "stacks:by=function", "launches", "steps", "annotations", "tracks")
median = statistics.median


class Table:
    """Rows of what was measured, with what must and what should be reached."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, must=None, aim=None, lower=True, note=""):
        def verdict(bound):
            return None if bound is None else (value <= bound if lower else value >= bound)

        self.rows.append(
            {
                "what": what,
                "value": value,
                "unit": unit,
                "must": must,
                "aim": aim,
                "must_reached": verdict(must),
                "aim_reached": verdict(aim),
                "lower_is_better": lower,
                "note": note,
            }
        )
        print(self.line(self.rows[-1]), flush=True)

    @staticmethod
    def line(r):
        sign = "<=" if r["lower_is_better"] else ">="
        marks = {None: "", True: "yes", False: "NO"}

        def bound(name):
            return "" if r[name] is None else "%s %g %s" % (sign, r[name], marks[r[name + "_reached"]])

        return "%-62s %10.4g %-10s %-14s %-14s %s" % (
            r["what"],
            r["value"],
            r["unit"],
            bound("must"),
            bound("aim"),
            r["note"],
        )


class Bench:
    def __init__(self, args):
        self.args, self.table, self.skipped, self.raw = args, Table(), [], {}
        self.binary = self.program(args.bin or find_binary())
        self.work = pathlib.Path(args.work or pathlib.Path(tempfile.gettempdir()) / "tachograph-bench")
        self.work.mkdir(parents=True, exist_ok=True)
        self.cores = set(sorted(os.sched_getaffinity(0))[:2])
        self.one = {min(self.cores)}

    @staticmethod
    def program(found):
        """The program itself: the console command of a wheel starts a Python first, which is no part of what is
        measured."""
        if not found:
            sys.exit("bench.py: no tachograph command found; build first (make all)")
        with open(found, "rb") as f:
            if f.read(2) != b"#!":
                return found
        spec = importlib.util.find_spec("tachograph")
        return str(pathlib.Path(spec.origin).parent / "bin" / "tachograph") if spec else found

    def library(self):
        """The folder of the library that belongs to the program."""
        here = pathlib.Path(self.binary).resolve().parent
        places = [
            pathlib.Path(p) for p in (self.args.lib, os.path.dirname(os.environ.get("TACHOGRAPH_LIBRARY", ""))) if p
        ] + [here, here.parent / "lib"]
        return str(next((p for p in places if (p / "libtachograph.so").exists()), here))

    # ---- inputs and helpers --------------------------------------------------------------------------------

    def inputs(self):
        """{size in MB: path}, smallest first."""
        if self.args.inputs:
            found = sorted(pathlib.Path(self.args.inputs).glob("*.json"), key=lambda p: p.stat().st_size)
            return {round(p.stat().st_size / 1e6): p for p in found}
        out = {}
        for size in self.args.sizes:
            path = self.work / ("grown-%d.json" % size)
            if not path.exists():
                print("making %s" % path, flush=True)
                part = path.with_suffix(".part.json")
                if self.args.grow:
                    subprocess.run(
                        [sys.executable, self.args.grow, self.args.seed_trace, str(part), "--size-mb", str(size)],
                        check=True,
                    )
                else:
                    grow.write(part, int(size * 1e6))
                part.rename(path)
            out[size] = path
        return out

    def packed(self, path, suffix):
        out = self.work / (path.name + suffix)
        if out.exists() and out.stat().st_mtime >= path.stat().st_mtime:
            return out
        if suffix == ".gz":
            with open(path, "rb") as f, gzip.open(out, "wb", compresslevel=6) as g:
                shutil.copyfileobj(f, g, 1 << 20)
        else:
            subprocess.run(["zstd", "-q", "-f", str(path), "-o", str(out)], check=True)
        return out

    def compile(self, source, compiler, flags):
        out = self.work / pathlib.Path(source).stem
        command = [compiler, "-O2", str(HERE / source), "-o", str(out), *flags]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            self.skip(source, run.stderr.strip().splitlines()[0] if run.stderr else "does not compile")
            return None
        return str(out)

    def skip(self, what, why):
        self.skipped.append({"what": what, "why": why})
        print("not measured: %s: %s" % (what, why), flush=True)

    def overview(self, path):
        return [self.binary, "ask", str(path), "overview", "--json"]

    def events(self, path):
        answer = json.loads(output(self.overview(path)))
        names = [c["name"] for c in answer["columns"]]
        rows = [dict(zip(names, r)) for r in answer["rows"]]
        return int(sum(r["value"] for r in rows if r["group"] == "summary" and r["quantity"] == "events"))

    # ---- what is measured ----------------------------------------------------------------------------------

    def against_simdjson(self, size, path, peer):
        contenders = {"ours": self.overview(path)}
        if peer:
            contenders["simdjson"] = [peer, str(path)]
        times = alternate(contenders, self.args.rounds, self.cores)
        self.raw["%d MB, open and overview" % size] = times.raw()
        self.table.add("%d MB: open and overview" % size, median(times.wall["ours"]), "s", note=times.note("ours"))
        if peer:
            self.table.add(
                "%d MB: simdjson's first DOM parse" % size,
                median(times.wall["simdjson"]),
                "s",
                note=times.note("simdjson"),
            )
            self.table.add(
                "%d MB: ours / simdjson" % size,
                times.ratio("ours", "simdjson"),
                "x",
                1.0,
                0.5,
                note="CPU time %.2f x" % times.cpu_ratio("ours", "simdjson"),
            )

    def against_gzip(self, size, path):
        packed = self.packed(path, ".gz")
        times = alternate({"plain": self.overview(path), "gz": self.overview(packed)}, self.args.rounds, self.cores)
        self.raw["%d MB, plain and gz" % size] = times.raw()
        self.table.add(
            "%d MB: .gz / our own plain" % size,
            times.ratio("gz", "plain"),
            "x",
            1.25,
            1.1,
            note="%.2f s, %.0f MB packed, CPU time %.2f x"
            % (median(times.wall["gz"]), packed.stat().st_size / 1e6, times.cpu_ratio("gz", "plain")),
        )

    def one_and_two(self, size, path):
        command = self.overview(path)
        times = alternate({"one": (command, self.one), "two": (command, self.cores)}, self.args.rounds)
        self.raw["%d MB, one and two cores" % size] = times.raw()
        text = path.stat().st_size / 1e9
        self.table.add(
            "%d MB: one core" % size,
            text / median(times.wall["one"]),
            "GB/s",
            None,
            0.8,
            lower=False,
            note="%.2f GB per CPU second" % (text / median(times.cpu["one"])),
        )
        if len(self.cores) > 1:
            self.table.add(
                "%d MB: gain of the second core" % size, times.ratio("one", "two"), "x", None, 1.7, lower=False
            )

    def findings(self, size, path):
        """Rules look at everything that was recorded; what they take beyond reading the file twice."""
        command = [self.binary, "ask", str(path), "findings", "--json"]
        times = alternate({"findings": command, "overview": self.overview(path)}, self.args.rounds, self.cores)
        self.raw["%d MB, findings and overview" % size] = times.raw()
        found, overview = median(times.cpu["findings"]), median(times.cpu["overview"])
        self.table.add(
            "%d MB: CPU time of findings beyond 2 x overview" % size,
            max(0.0, found - 2 * overview),
            "s",
            1.0,
            note="findings %.2f s, overview %.2f s" % (found, overview),
        )

    def memory(self, size, path):
        text = path.stat().st_size
        for name, file, must, aim in (
            ("plain", path, 0.30, 0.15),
            (".gz", self.packed(path, ".gz"), 0.45, 0.25),
            (".zst", self.packed(path, ".zst") if shutil.which("zstd") else None, 0.45, 0.25),
        ):
            if file is None:
                self.skip("%d MB: memory, .zst" % size, "no zstd command")
                continue
            peak = median(peak_anonymous(self.overview(file), self.cores) for _ in range(min(3, self.args.rounds)))
            self.table.add(
                "%d MB: anonymous memory, %s" % (size, name),
                peak / text,
                "B/B",
                must,
                aim,
                note="%.0f MB" % (peak / 1e6),
            )

    def inside(self, size, path, library, tacho):
        """Tables, export and re-opening, without the process around them."""
        events = self.events(path)
        got = json.loads(output([library, str(tacho), *TABLES], self.one))
        for name in TABLES:
            note = "%d rows, %.1f ms" % (got[name]["rows"], got[name]["ms"])
            self.table.add(
                "%d MB: table %s, over %d events" % (size, name, events),
                got[name]["ms"] * 1e6 / events,
                "ns/event",
                100,
                20,
                note=note,
            )
        self.table.add(
            "%d MB: export to Chrome JSON, one core" % size,
            got["export_bytes"] / 1e3 / got["export_ms"],
            "MB/s",
            500,
            1000,
            lower=False,
            note="%.0f MB" % (got["export_bytes"] / 1e6),
        )
        opens = json.loads(output([library, "--open", str(tacho), "9"], self.cores))["opens_ms"]
        self.table.add(
            "%d MB: re-open from .tacho, first small answer" % size,
            median(total for _, total in opens),
            "ms",
            100,
            30,
            note="%.0f MB file; opening %.2f ms" % (tacho.stat().st_size / 1e6, median(o for o, _ in opens)),
        )

    def recordings(self, library):
        """A million operators as the recorder left them: opened, asked for operators, exported; on one core."""
        maker = pathlib.Path(self.binary).parent / "raw_make"
        if not maker.exists() or not library:
            return self.skip("recordings", "%s is not built" % maker)
        for name, more, must in (
            ("names and times", [], 300),
            ("shapes, stacks, memory", ["shapes", "stacks", "memory"], None),
        ):
            path = self.work / ("recording-%d.tacho" % len(more))
            if not path.exists():
                subprocess.run([str(maker), str(path), "1000000", *more], check=True)
            opens = json.loads(output([library, "--open", str(path), "9"], self.one))["opens_ms"]
            got = json.loads(output([library, str(path), "ops"], self.one))
            self.table.add(
                "recording of 10⁶ operators (%s): open" % name,
                median(o for o, _ in opens),
                "ms",
                must,
                note="%.0f MB; operators by name %.0f ms, Chrome JSON %.1f s"
                % (path.stat().st_size / 1e6, got["ops"]["ms"], got["export_ms"] / 1e3),
            )
        return None

    def against_hta(self, size, path, python):
        command = [python, str(HERE / "hta_load.py"), str(path)]
        try:
            times = alternate({"ours": self.overview(path), "hta": command}, 1 if size > 200 else 2, self.cores)
            peak = peak_anonymous(command, self.cores)
        except Failed as failure:
            return self.skip("%d MB: HTA" % size, str(failure))
        self.raw["%d MB, HTA" % size] = times.raw()
        self.table.add(
            "%d MB: HTA 0.5.0, load, temporal and kernel breakdown" % size,
            median(times.wall["hta"]),
            "s",
            note="%.2f GB" % (peak / 1e9),
        )
        self.table.add(
            "%d MB: HTA / ours" % size,
            times.ratio("hta", "ours"),
            "x",
            60,
            None,
            lower=False,
            note="CPU time %.0f x" % times.cpu_ratio("hta", "ours"),
        )
        return None

    def hta_python(self):
        if self.args.hta_python or not self.args.hta:
            return self.args.hta_python
        home = self.work / "hta-venv"
        python = home / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run(
                [
                    str(python),
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "HolisticTraceAnalysis==0.5.0",
                    "pandas==1.5.3",
                    "numpy<2",
                    "setuptools<81",
                ],
                check=True,
            )
        return str(python)

    def run(self):
        peer = self.compile("simdjson_first_parse.cpp", os.environ.get("CXX", "g++"), ["-std=c++17", "-lsimdjson"])
        library = self.library()
        library = self.compile(
            "library.c",
            os.environ.get("CC", "cc"),
            ["-std=gnu11", "-I" + str(REPO / "include"), "-L" + library, "-ltachograph", "-Wl,-rpath," + library],
        )
        python = self.hta_python()
        self.recordings(library)
        for size, path in self.inputs().items():
            self.against_simdjson(size, path, peer)
            self.against_gzip(size, path)
            self.one_and_two(size, path)
            self.findings(size, path)
            self.memory(size, path)
            tacho = self.work / (path.stem + ".tacho")
            subprocess.run([self.binary, "convert", str(path), "-o", str(tacho)], check=True, stdout=subprocess.DEVNULL)
            if library:
                self.inside(size, path, library, tacho)
            if python and size <= 600:  # a gigabyte needs more memory than small machines have
                self.against_hta(size, path, python)
            if not python:
                self.skip("%d MB: HTA" % size, "give --hta-python, or --hta to install it")


def markdown(about, rows):
    """The figures as docs/performance.md shows them."""
    lines = [
        "%(cpu)s, %(cores)d cores, %(gb).0f GB, Linux %(kernel)s; load average before the run %(load_before).1f."
        % {**about, "gb": about["memory_bytes"] / 1e9},
        "",
        "| what | measured | must | aim | |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    marks = {None: "", True: "", False: " **missed**"}
    for r in rows:
        sign = "≤" if r["lower_is_better"] else "≥"
        bounds = ["" if r[k] is None else "%s %g%s" % (sign, r[k], marks[r[k + "_reached"]]) for k in ("must", "aim")]
        lines.append("| %s | %.4g %s | %s | %s | %s |" % (r["what"], r["value"], r["unit"], *bounds, r["note"]))
    return "\n".join(lines) + "\n"


def rewrite(path, text):
    """Replaces what stands between the marks of a document."""
    old = path.read_text(encoding="utf-8")
    head, mark, rest = old.partition("<!-- figures -->\n")
    _, end, tail = rest.partition("<!-- end of figures -->")
    if not mark or not end:
        sys.exit("bench.py: %s has no marks for the figures" % path)
    path.write_text(head + mark + text + end + tail, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda s: [int(x) for x in s.split(",")], default=[150, 500, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    for name, text in (
        ("--bin", "the tachograph command"),
        ("--lib", "folder of libtachograph.so"),
        ("--inputs", "folder of ready *.json traces"),
        ("--grow", "another generator"),
        ("--seed-trace", "what --grow starts from"),
        ("--work", "where inputs are kept"),
        ("--hta-python", "a Python that has HTA 0.5.0"),
        ("--out", "write the figures as JSON"),
        ("--docs", "rewrite the figures in this document"),
    ):
        parser.add_argument(name, help=text)
    parser.add_argument("--hta", action="store_true", help="install HTA 0.5.0 into an environment of its own")
    args = parser.parse_args()
    if args.grow and not args.seed_trace:
        parser.error("--grow needs --seed-trace")
    about = machine()
    print("%(cpu)s, %(cores)d cores, Linux %(kernel)s, load %(load_before).2f" % about, flush=True)
    bench = Bench(args)
    bench.run()
    missed = [r for r in bench.table.rows if r["must_reached"] is False]
    print(
        "\n%d of %d bounds reached"
        % (
            sum(r["must_reached"] is True for r in bench.table.rows),
            sum(r["must_reached"] is not None for r in bench.table.rows),
        )
    )
    for r in missed:
        print("  missed: " + Table.line(r))
    if args.out:
        pathlib.Path(args.out).write_text(
            json.dumps(
                {
                    "machine": about,
                    "rounds": args.rounds,
                    "results": bench.table.rows,
                    "not_measured": bench.skipped,
                    "seconds": bench.raw,
                },
                indent=1,
            )
            + "\n"
        )
    if args.docs:
        rewrite(pathlib.Path(args.docs), markdown(about, bench.table.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
