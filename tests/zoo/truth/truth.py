#!/usr/bin/env python3
"""How far savings of findings come true: measures programs beside their corrected twins, and holds what was foretold
against it.

    python tests/zoo/truth/truth.py --folder OUT --runs 3      measure and record all pairs of learning/
    python tests/zoo/truth/truth.py --folder OUT --runs 0      judge the kept recordings again
    python tests/zoo/truth/truth.py --folder OUT --fit         what spread of each change would hold eight of ten, and
                                                               of which causes the model is nearer than the rule
    python tests/zoo/truth/truth.py --folder OUT --half scoring --runs 3

The pairs are in two halves. Rules and spreads may be chosen by those of learning/. Those of scoring/ only judge: their
author had not read the rules, and no rule and no spread is chosen by them.

A pair is a file with make(fast), see pair.py. `# expect:` names the causes that speak of what the twin lacks. `#
clock: wall` marks a pair that waits or uses several cores; of others the time on a core counts, which other programs
hardly change. `# turn: 12` marks one whose batches come several at a time, as from several workers: the mean of so
many steps in a row counts as one. Each run measures both in turn in one process, then records the slow one. The
prediction is a share of the recorded step, and is held against that share of the measured step. Pairs whose saving
varies by more than 10 % over the rounds do not count, nor recordings whose step is over 1.5 times as long as the
measured one. Needs the tachograph command (TACHOGRAPH) and a Python with torch and tachograph."""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CAUSES = HERE.parents[2] / "src" / "diagnose" / "causes.def"
MOST_VARIATION_PCT = 10
MOST_SLOWER = 1.5  # a recorded step than a measured one; else other programs, or the recorder, made the recording
LEAST_PAIRS = 5  # of a change, to have a spread of its own


class Pair:
    def __init__(self, path):
        text = path.read_text()
        self.path, self.name = path, path.stem
        self.expected = [c.strip() for c in re.search(r"^# expect: (.+)$", text, re.M)[1].split(",")]
        self.turn = int((re.search(r"^# turn: (\d+)$", text, re.M) or ["", "1"])[1])
        self.clock = 0 if re.search(r"^# clock: wall$", text, re.M) else 1


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(pair, steps, rounds):
    """By slow and fast: the least time of each round, in ms, as what else the machine does only adds."""
    command = [sys.executable, HERE / "pair.py", pair.path, "both", str(steps), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    times = json.loads(done.stdout)
    return {which: [1e3 * min(turns(r[pair.clock], pair.turn)) for r in times[which]] for which in times}


def turns(seconds, length):
    return [statistics.mean(seconds[i : i + length]) for i in range(len(seconds) - length + 1)]


def record(command, pair, file, steps):
    """Findings of the slow one, and of which step."""
    words = [command, "run", "--json", "--steps", str(steps), "-o", file]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environment.get("PATH", "")])
    done = subprocess.run(
        [*words, HERE / "pair.py", pair.path, "slow", str(steps + 20)],
        capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    at = done.stdout.find('{"file"')
    if at < 0:
        raise RuntimeError(f"{pair.name}: {(done.stdout + done.stderr)[-500:]}")
    return json.JSONDecoder().raw_decode(done.stdout[at:])[0]["file"]


def judge(command, file):
    def ask(*words):
        done = subprocess.run([command, "ask", file, *words, "--json"], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]], answer["notes"]

    (median,) = [row for row in ask("steps", "--by", "summary")[0] if row["step"] == "p50"]
    ((model,), _), (findings, notes) = ask("step_model"), ask("findings")
    return {"step_ns": median["total_ns"], "findings": findings, "model": model["reason"] or model["verdict"],
            "is_busy": any("other programs" in note for note in notes)}  # fmt: skip


def run(options, pairs):
    for number in range(options.runs):
        for pair in pairs:
            file = options.folder / f"{pair.name}-{len(list(options.folder.glob(pair.name + '-*')))}.tacho"
            try:
                row = {"pair": pair.name, **measure(pair, options.steps, options.rounds)}
                row["file"] = record(options.tachograph, pair, file, options.recorded)
            except (subprocess.SubprocessError, RuntimeError) as error:
                print(f"{pair.name}: {error}", file=sys.stderr)
                continue
            with open(options.folder / "results.jsonl", "a") as kept:
                kept.write(json.dumps(row) + "\n")
            print(f"run {number}: {pair.name}", file=sys.stderr)


# ---- scoring ---------------------------------------------------------------------------------------------------------


def saved_shares(row):
    return [1 - fast / slow for slow, fast in zip(row["slow"], row["fast"], strict=True)]


def variation_pct(row):
    """Of the share that the twin saves, round by round: the distance of the quartiles."""
    low, middle, high = statistics.quantiles(saved_shares(row), n=4)
    return 100 * abs((high - low) / middle) if middle else math.inf


def score(command, pair, row):
    """One recording held against the measurement of its run."""
    slow = statistics.median(row["slow"])
    saved = slow * statistics.median(saved_shares(row))
    said = judge(command, row["file"])
    found = next((f for f in said["findings"] if f["cause"] in pair.expected), None)
    out = {"pair": pair.name, "step_ms": slow, "saved_ms": saved, "model": said["model"],
           "is_busy": said["is_busy"],
           "slower": said["step_ns"] / 1e6 / slow,
           "variation_pct": variation_pct(row)}  # fmt: skip
    if not found or found["saving_ns"] is None:
        return {**out, "cause": found and found["cause"]}
    of_step = {k: None if found[k] is None else slow * found[k] / said["step_ns"]
               for k in ("saving_ns", "saving_low_ns", "saving_high_ns", "rule_ns", "model_ns")}  # fmt: skip
    foretold, low, high, by_rule, by_model = of_step.values()

    def error_pct(ms):
        return None if ms is None else 100 * abs(ms - out["saved_ms"]) / abs(out["saved_ms"])

    return {**out, "cause": found["cause"], "foretold_ms": foretold, "low_ms": low, "high_ms": high,
            "relative_pct": error_pct(foretold), "rule_pct": error_pct(by_rule), "model_pct": error_pct(by_model),
            "share_pct": 100 * abs(foretold - out["saved_ms"]) / slow,
            "is_inside": None if low is None else low <= out["saved_ms"] <= high,
            "is_wrong_sign": low is not None and (low > 0 > out["saved_ms"] or high < 0 < out["saved_ms"])}  # fmt: skip


def middle_of(scores):
    """Of several runs of a pair the one with the middle error of those that vary least."""
    steady = [s for s in scores if s["variation_pct"] <= MOST_VARIATION_PCT and s["slower"] <= MOST_SLOWER]
    foretold = sorted((s for s in steady if "share_pct" in s), key=lambda s: s["share_pct"])
    return foretold[(len(foretold) - 1) // 2] if foretold else steady[0] if steady else None


def errors_by_cause(scores):
    """Cause: its pairs, and the median error in % of the saving: of the rule, of the model, and of the finding."""
    out = {}
    for cause in sorted({s["cause"] for s in scores if "foretold_ms" in s}):
        of = [s for s in scores if s["cause"] == cause and "foretold_ms" in s]
        known = {k: [s[k] for s in of if s[k] is not None] for k in ("rule_pct", "model_pct", "relative_pct")}
        out[cause] = (len(of), *(statistics.median(values) if values else None for values in known.values()))
    return out


def figure(value, form="8.2f"):
    return f"{value:{form}}" if value is not None else "-".rjust(int(form.split(".")[0]))


def show(scores, left_out):
    print(f"{'pair':30} {'cause':24} {'step ms':>8} {'saved':>8} {'foretold':>8} {'low':>8} {'high':>8} {'of it %':>8} "
          f"{'of step %':>9}  inside")  # fmt: skip
    for s in scores:
        print(f"{s['pair']:30} {s['cause'] or 'not found':24} {s['step_ms']:8.2f} {s['saved_ms']:8.2f} "
              f"{figure(s.get('foretold_ms'))} {figure(s.get('low_ms'))} {figure(s.get('high_ms'))} "
              f"{figure(s.get('relative_pct'), '8.0f')} {figure(s.get('share_pct'), '9.1f')}  "
              f"{s.get('is_inside')}")  # fmt: skip
    known = [s for s in scores if "foretold_ms" in s]
    ranged = [s for s in known if s["is_inside"] is not None]
    refused = [s for s in scores if s["model"] != "proven"]
    print(
        f"\npairs {len(scores)}, with a saving {len(known)}, with a range {len(ranged)}, vary too much or were disturbed {left_out}, "
        f"recorded beside other programs {sum(s['is_busy'] for s in scores)}"
    )
    for s in refused:
        print(f"no model: {s['pair']}: {s['model']}")
    print(f"\n{'error of the saving by cause':30} {'pairs':>8} {'rule %':>8} {'model %':>8} {'said %':>8}")
    for cause, (count, *errors) in errors_by_cause(known).items():
        print(f"{cause:30} {count:8} {' '.join(figure(e, '8.1f') for e in errors)}")
    if len(known) < 2:
        return
    deciles = statistics.quantiles([s["share_pct"] for s in known], n=10, method="inclusive")
    print(f"error: median {statistics.median(s['relative_pct'] for s in known):.1f} % of the saving; "
          f"{deciles[4]:.1f} % of the step, ninth decile {deciles[8]:.1f} %")  # fmt: skip
    if ranged:
        widths = [100 * (s["high_ms"] - s["low_ms"]) / s["step_ms"] for s in ranged]
        print(f"ranges: hold {sum(s['is_inside'] for s in ranged)} of {len(ranged)}, "
              f"median width {statistics.median(widths):.1f} % of the step; "
              f"wrong sign {sum(s['is_wrong_sign'] for s in ranged)}; no model {len(refused)} of {len(scores)}")  # fmt: skip


# ---- fitting ---------------------------------------------------------------------------------------------------------


def change_of():
    rows = re.findall(r'^CAUSE\(\w+, "([^"]+)",\s+"[^"]+", (\w+)\)', CAUSES.read_text(), re.M)
    return {cause: change for cause, change in rows if change != "NONE"}


def spread(errors):
    """Below, above: what holds nine of ten on either side, as split conformal ranges do."""

    def side(values):
        values = sorted(values)
        return values[min(len(values), math.ceil(0.9 * (len(values) + 1))) - 1]

    return max(0, side([-e for e in errors])), max(0, side(errors))


def fit(scores):
    """(measured - foretold) / foretold, by change; those with few pairs have the spread of all."""
    known, changes = [s for s in scores if s.get("foretold_ms")], change_of()
    errors = [(changes.get(s["cause"]), 100 * (s["saved_ms"] - s["foretold_ms"]) / s["foretold_ms"]) for s in known]
    for change in sorted({c for c, _ in errors if c}):
        own = [e for c, e in errors if c == change]
        below, above = spread(own if len(own) >= LEAST_PAIRS else [e for _, e in errors])
        print(f"SPREAD({change}, {below:.0f}, {above:.0f}, ...)  {len(own)} pairs: {sorted(round(e) for e in own)}")
    for cause, (count, by_rule, by_model, _) in errors_by_cause(known).items():
        if by_model is not None and by_model < by_rule:
            print(
                f"MODELLED({cause.upper().replace('-', '_')})  {count} pairs: {by_rule:.1f} by rule, {by_model:.1f} by model"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for recordings and results.jsonl")
    parser.add_argument("--half", default="learning", help="the folder of pairs: learning or scoring")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30, help="of a round")
    parser.add_argument("--recorded", type=int, default=24, help="steps of a recording")
    parser.add_argument("--only", default="", help="names of pairs, commas between")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--tachograph", default=os.environ.get("TACHOGRAPH", "tachograph"))
    options = parser.parse_args()
    if options.fit and options.half == "scoring":
        parser.error("no spread is fitted to the scoring half: it only judges")
    options.folder.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else None
    pairs = [Pair(p) for p in sorted((HERE / options.half).glob("*.py")) if not names or p.stem in names]
    run(options, pairs)
    kept = options.folder / "results.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    of_pair = {p.name: [score(options.tachograph, p, r) for r in rows if r["pair"] == p.name] for p in pairs}
    measured = {name: middle_of(scores) for name, scores in of_pair.items() if scores}
    scores = [s for s in measured.values() if s]
    show(scores, len(measured) - len(scores))
    if options.fit:
        fit(scores)


if __name__ == "__main__":
    main()
