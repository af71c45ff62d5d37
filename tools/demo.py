#!/usr/bin/env python3
"""make demo: record a training program that has a mistake in it, report, cure the mistake, record again, compare.

Ends with status 1 when the report does not name the mistake or the cure does not take most of the waiting away. How
much faster the step becomes is shown and not judged: on a machine that is busy with other things the workers take their
time from the training."""

import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = pathlib.Path(sys.executable).parent / "tachograph"
PROGRAM = "examples/train_cnn.py"
PARTS = (
    ("step", "total_ns"),
    ("data loader", "dataloader_ns"),
    ("CPU operators", "operator_ns"),
    ("no operator", "bare_ns"),
)


def record(folder, *options):
    command = [
        str(TOOL.relative_to(ROOT)) if TOOL.is_relative_to(ROOT) else str(TOOL),
        "run",
        "-o",
        folder,
        PROGRAM,
        *options,
    ]
    print("$", *command, flush=True)
    subprocess.run(command, cwd=ROOT, check=True, stderr=None if not options else subprocess.DEVNULL)


def answer(folder, question, **arguments):
    words = [word for name, value in arguments.items() for word in (f"--{name}", value)]
    said = subprocess.run(
        [TOOL, "ask", f"{folder}/trace.tacho", question, *words, "--json"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    table = json.loads(said)
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row)) for row in table["rows"]]


def mean_step(folder):
    return next(row for row in answer(folder, "steps", by="summary") if row["step"] == "mean")


def main():
    shutil.rmtree(ROOT / "demo-out", ignore_errors=True)
    record("demo-out/slow")
    print("\nThe same program without the mistake:")
    record("demo-out/fixed", "--fixed")
    slow, fixed = mean_step("demo-out/slow"), mean_step("demo-out/fixed")
    finding = answer("demo-out/slow", "findings", limit="1")[0]
    print(f"\n{'ms a step':<16}{'as it was':>12}{'--fixed':>12}")
    for name, column in PARTS:
        print(f"{name:<16}{slow[column] / 1e6:>12.1f}{fixed[column] / 1e6:>12.1f}")
    saved, waited = (slow["total_ns"] - fixed["total_ns"]) / 1e6, (slow["dataloader_ns"] - fixed["dataloader_ns"]) / 1e6
    print(
        f"\nThe report said {finding['cause']}, {finding['cost_ns'] / 1e6:.1f} ms a step. The cure took {waited:.1f} ms of waiting away;"
        f" the step is {saved:.1f} ms shorter."
    )
    print("Everything else one can ask: .venv/bin/tachograph questions")
    return 0 if finding["cause"] == "loader-in-main-process" and waited > finding["cost_ns"] / 1e6 / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
