#!/usr/bin/env python3
"""The bars of the findings: records programs with a known answer and prints what must hold beside what was measured.

    python tests/zoo/bars.py                          everything: about 40 minutes on two idle cores
    python tests/zoo/bars.py --public DIR             a folder of further programs with their cases.json, too
    python tests/zoo/bars.py --runs 5 --repeats 2     fewer recordings
    python tests/zoo/bars.py --only sleep,queue_wait  these programs

A program of tests/zoo/programs says in a comment which cause must be found first (`# expect: cause`, further causes
that name it as well behind commas, `nothing` for a healthy one) and marks the lines of its place with `# here`.
`# preset: deep` names what to record of a program whose bottleneck is memory.
Recordings are kept in --folder and a line for each is written to its results.jsonl; what is there already is not
recorded again. Ends with 1 where a bar does not hold.

The beds: `quiet` is the machine as it is, `neighbour` has a spinner pinned to one core for as long as the run lasts
(neighbour.py). Needs the tachograph command (TACHOGRAPH) and a Python that can import torch and tachograph."""

import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import neighbour

HERE = pathlib.Path(__file__).resolve().parent
NEAR = 2  # lines
BEDS = ("quiet", "neighbour")


class Program:
    def __init__(self, path, causes, is_near, name=None, preset="default"):
        self.path, self.causes, self.is_near, self.preset = path, causes, is_near, preset
        self.name = name or path.stem
        self.is_healthy = not causes


def of_zoo(path):
    lines = path.read_text().splitlines()
    expected = next(line.split(":", 1)[1] for line in lines if line.startswith("# expect:"))
    causes = [c.strip() for c in expected.split(",") if c.strip() != "nothing"]
    here = [n for n, line in enumerate(lines, 1) if line.endswith("# here")]

    def is_near(file, line):
        return file == path.name and any(abs(line - n) <= NEAR for n in here)

    presets = [line.split(":", 1)[1].strip() for line in lines if line.startswith("# preset:")]
    return Program(path, causes, is_near, preset=presets[0] if presets else "default")


def of_public(folder, plain_folder):
    """Programs of a folder with a runner zoo.py, as plain copies without their cures."""
    sys.path.insert(0, str(folder))
    import zoo

    for case in zoo.load_cases():
        source = (folder / case["file"]).read_text()
        text, origin = zoo.strip_variant(source)
        path = plain_folder / case["file"]
        path.write_text(text)

        def is_near(file, line, case=case, source=source, origin=origin):
            return zoo.location_hit({"file": file, "line": line}, case, source, origin)

        causes = [] if case["cause"] == "healthy" else [case["cause"], *case["accept"]]
        yield Program(path, causes, is_near, name="public " + case["id"])


# ---- recording -------------------------------------------------------------------------------------------------------


def record(command, program, folder, steps, limit_s=120):
    """One recording: what was found, in the order of the report. With as many threads as torch takes by itself."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    cut = subprocess.run(
        [command, "run", "--json", "--preset", program.preset, "--steps", str(steps), "-o", folder, program.path],
        capture_output=True, text=True, cwd=program.path.parent, timeout=limit_s, stdin=subprocess.DEVNULL,
        env=environment,
    )  # fmt: skip
    at = cut.stdout.find('{"file"')
    if at < 0:
        return {"failed": (cut.stdout + cut.stderr)[-500:]}
    answer, _ = json.JSONDecoder().raw_decode(cut.stdout[at:])
    return {"file": answer["file"], "step_ms": answer["step_ms"], "notes": answer["notes"], "findings": answer["findings"],
            "reasons": [n for n in answer["notes"] if "other programs" in n]}  # fmt: skip


def found_now(command, row):
    """Today's findings of a kept recording."""
    asked = subprocess.run(
        [command, "ask", row["file"], "findings", "--json"], capture_output=True, text=True, check=True
    )
    answer = json.loads(asked.stdout)
    names = [column["name"] for column in answer["columns"]]
    findings = [dict(zip(names, values, strict=True)) for values in answer["rows"]]
    for finding in findings:
        saving = finding.pop("saving_ns")
        finding["saving_ms_per_step"] = None if saving is None else saving / 1e6
    notes = answer["notes"]
    return {**row, "notes": notes, "findings": findings, "reasons": [n for n in notes if "other programs" in n]}


class Results:
    """Every recording that was made, by program and bed; those of an earlier call are read again."""

    def __init__(self, folder):
        self.folder, self.path = folder, folder / "results.jsonl"
        self.rows = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def judge_again(self, command):
        self.rows = [found_now(command, r) if "findings" in r and os.path.exists(r["file"]) else r for r in self.rows]

    def of(self, program, bed):
        return [r for r in self.rows if r["program"] == program.name and r["bed"] == bed]

    def make(self, options, program, bed, count):
        while len(self.of(program, bed)) < count:
            number = len(self.of(program, bed))
            folder = self.folder / "recordings" / f"{program.name.replace(' ', '_')}-{bed}-{number}"
            begin = time.monotonic()
            try:
                row = record(options.tachograph, program, folder, options.steps)
            except subprocess.TimeoutExpired:
                row = {"failed": "takes too long"}
            row.update(program=program.name, bed=bed, number=number, seconds=round(time.monotonic() - begin, 1))
            self.rows.append(row)
            with open(self.path, "a") as file:
                file.write(json.dumps(row) + "\n")
            if options.verbose:
                print(describe(row), flush=True)


def describe(row):
    first = row.get("findings") or [{}]
    text = ", ".join(
        f"{f['cause']} {f['severity']} {f['share_pct']:.0f} % {f.get('file')}:{f.get('line')}" for f in first if f
    )
    return f"{row['program']:28} {row['bed']:9} {row['number']:2} {row['seconds']:5.1f} s  {row.get('failed') or text or 'nothing'}"


# ---- judging ---------------------------------------------------------------------------------------------------------


def first_of(row):
    found = row.get("findings") or []
    return found[0] if found else None


def is_right(program, row):
    first = first_of(row)
    if "findings" not in row:
        return False  # it was not recorded at all
    return first is None if program.is_healthy else first is not None and first["cause"] in program.causes


def is_at_place(program, row):
    first = first_of(row)
    return is_right(program, row) and (
        program.is_healthy or first.get("line") is not None and program.is_near(first.get("file"), first["line"])
    )


def weight(finding):
    return (finding.get("saving_ms_per_step") or 0) * (finding.get("confidence") or 0.4)


def is_stable(rows, is_noisy):
    """The same first finding in all recordings; where the second is worth nearly as much, the same first two. In noise
    a recording that says nothing counts when a reason is given."""
    said = [r for r in rows if r.get("findings") or not (is_noisy and r.get("reasons"))]
    if not all("findings" in r for r in said):
        return False
    firsts = {first_of(r)["cause"] if first_of(r) else None for r in said}
    if len(firsts) <= 1:
        return True
    if any(len(r["findings"]) < 2 or weight(r["findings"][0]) >= 1.5 * weight(r["findings"][1]) for r in said):
        return False
    return len({frozenset(f["cause"] for f in r["findings"][:2]) for r in said}) == 1


def alarms(rows):
    """How many runs claim anything above 5 % of the step, and how many of them say high."""
    loud = [r for r in rows if any(f["severity"] == "high" for f in r.get("findings", []))]
    above = [
        r for r in rows
        if any((f.get("saving_ms_per_step") or 0) > 0.05 * r["step_ms"] or f["share_pct"] > 5 for f in r.get("findings", []))
    ]  # fmt: skip
    return len(above), len(loud)


def is_verdict_of_change(command, a, b):
    """Does a diff of two recordings of one program say that a step has become faster or slower?"""
    done = subprocess.run([command, "diff", a, b, "--json"], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    said = [row for row in answer["rows"] if row[0] == "step" and row[2] == "p50"]
    return said[0][-1] in ("faster", "slower")


# ---- the table -------------------------------------------------------------------------------------------------------


class Table:
    def __init__(self):
        self.failed = 0

    def row(self, figure, must, measured, holds):
        self.failed += not holds
        print(f"{figure:62} {must:28} {measured:28} {'holds' if holds else 'DOES NOT HOLD'}", flush=True)


def show_first(table, results, programs, bed, title, most_wrong, most_astray):
    rows = [(p, results.of(p, bed)[0]) for p in programs if results.of(p, bed)]
    if not rows:
        return
    right = [p for p, r in rows if is_right(p, r)]
    placed = [p for p, r in rows if is_at_place(p, r)]
    n = len(rows)
    must = f"{n - most_wrong(n)} / {n - most_astray(n)} of {n}"
    holds = len(right) >= n - most_wrong(n) and len(placed) >= n - most_astray(n)
    table.row(f"right cause first / right place, {title}, {bed}", must, f"{len(right)} / {len(placed)} of {n}", holds)
    for p, r in rows:
        if p not in placed:
            print(f"    expected {', '.join(p.causes) or 'nothing'}: {describe(r)}")


def show_alarms(table, results, programs, bed):
    rows = [r for p in programs if p.is_healthy for r in results.of(p, bed)]
    if not rows:
        return
    above, loud = alarms(rows)
    must = f"0 high, {max(1, len(rows) // 100)} above 5 %"
    holds = not loud and above <= max(1, len(rows) // 100)
    table.row(
        f"false alarms, {len(rows)} runs of healthy programs, {bed}", must, f"{loud} high, {above} above 5 %", holds
    )
    for r in rows:
        if r.get("findings"):
            print(f"    {describe(r)}")


def show_stable(table, results, programs, bed, repeats):
    judged = [(p, results.of(p, bed)[:repeats]) for p in programs if len(results.of(p, bed)) >= repeats]
    if repeats < 2 or not judged:
        return
    stable = [p for p, rows in judged if is_stable(rows, bed != "quiet")]
    figure = f"the same first finding in {repeats} recordings, {bed}"
    table.row(figure, f"{len(judged)} programs", f"{len(stable)} programs", len(stable) == len(judged))
    for p, rows in judged:
        if p not in stable:
            print(f"    {p.name}: {', '.join(first_of(r)['cause'] if first_of(r) else 'nothing' for r in rows)}")


def show_diffs(table, options, results, programs, bed):
    pairs = []
    for p in programs:
        files = [r["file"] for r in results.of(p, bed) if "file" in r]
        pairs.append([(p, a, b) for a, b in zip(files[::2], files[1::2], strict=False)])
    chosen = [pair for turn in itertools.zip_longest(*pairs) for pair in turn if pair][: options.pairs]
    if not chosen:
        return
    changed = [(p, a, b) for p, a, b in chosen if is_verdict_of_change(options.tachograph, a, b)]
    must = max(1, len(chosen) // 20)
    figure = f"verdicts of change, {len(chosen)} diffs of a program with itself, {bed}"
    table.row(figure, f"at most {must}", str(len(changed)), len(changed) <= must)
    for p, a, b in changed:
        print(f"    {p.name}: {a} {b}")


def show(options, results, public, own):
    table = Table()
    for bed in options.beds:
        show_first(table, results, public, bed, "public zoo", lambda n: 1, lambda n: 2)
        show_first(table, results, own, bed, "tests/zoo", lambda n: n // 10, lambda n: n * 15 // 100)
        show_alarms(table, results, public + own, bed)
        show_stable(table, results, public + own, bed, options.repeats)
        show_diffs(table, options, results, [p for p in public + own if p.is_healthy], bed)
    print(f"{table.failed} bars do not hold" if table.failed else "all bars hold")
    return table.failed


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--public", type=pathlib.Path, help="a folder with zoo.py, cases.json and its programs")
    p.add_argument("--runs", type=int, default=20, help="recordings of each healthy program in each bed (20)")
    p.add_argument("--repeats", type=int, default=6, help="recordings of each other program (6)")
    p.add_argument("--pairs", type=int, default=20, help="diffs of a program with itself in each bed (20)")
    p.add_argument("--steps", type=int, default=15, help="steps of a recording (15)")
    p.add_argument("--beds", default="quiet,neighbour", help="quiet, neighbour or both")
    p.add_argument("--only", default="", help="names of programs, joined by commas")
    p.add_argument("--folder", type=pathlib.Path, help="where recordings are kept (a temporary folder)")
    p.add_argument("--show", action="store_true", help="record nothing, judge what is in --folder")
    p.add_argument("--again", action="store_true", help="judge what is in --folder by the rules as they are now")
    p.add_argument("--quiet", dest="verbose", action="store_false", help="do not print each recording")
    p.add_argument("--tachograph", default=os.environ.get("TACHOGRAPH", "tachograph"))
    options = p.parse_args()
    options.beds = [bed for bed in BEDS if bed in re.split(",", options.beds)]
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or pathlib.Path(temporary)).resolve()
        (folder / "plain").mkdir(parents=True, exist_ok=True)
        (folder / "recordings").mkdir(exist_ok=True)
        os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        own = [of_zoo(path) for path in sorted((HERE / "programs").glob("*.py"))]
        public = list(of_public(options.public.resolve(), folder / "plain")) if options.public else []
        wanted = [name for name in options.only.split(",") if name]
        own = [p for p in own if not wanted or p.name in wanted]
        public = [p for p in public if not wanted or p.name in wanted]
        results = Results(folder)
        if options.again:
            results.judge_again(options.tachograph)
        for bed in options.beds if not options.show else []:
            with neighbour.Neighbour() if bed == "neighbour" else open(os.devnull):
                for p in public + own:
                    results.make(options, p, bed, options.runs if p.is_healthy else options.repeats)
        return 1 if show(options, results, public, own) else 0


if __name__ == "__main__":
    sys.exit(main())
