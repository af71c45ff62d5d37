#!/usr/bin/env python3
"""Compare our answers with the oracle's, value by value.

    run.py --traces DIR --oracle DIR [--bin PATH] [--only TRACE,...] [--rules hta] [--quiet]

DIR/oracle holds one JSON per trace folder; every value below reference.units.UNIT.exact_policy that a question of the
engine answers is compared, every number below hta.units.UNIT with what the installed package's façade says
(hta_facade.py), and the malformed set. With --rules hta: instead, every value below hta_policy that a question with
rules=hta gives, and those of hta.units that hta_ops.py knows. Prints every difference and, last, `N of M values agree`.
Exit status: 0 when every difference is one that defects.json names, both values of it, and every one it names is there;
1 otherwise, also when a quantity could not be compared; 2 when there is nothing to compare.
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import diff
import hta_critical
import hta_facade
import hta_ops
import memory_curve
import plugin
from compare import GONE, Absent, Count, close, walk
from engine import Refused, open_engine
from shape import BOTH_RULES, NOT_COUNTED, SECTIONS, types_all_ranks

import ranks

HERE = pathlib.Path(__file__).resolve().parent
CLOSING = set("EeF")  # phases that end what another event began


def unit_path(folder, unit):
    """The file of a unit; the folder itself when the unit is all of its ranks."""
    files = [p for p in sorted(folder.iterdir()) if p.is_file() and (p.name == unit or p.name.startswith(unit + "."))]
    files = [p for p in files if ".json" in p.name] or files
    return files[0] if files else folder


NO_DATA = 3  # exit status: the trace lacks the data


class Asker:
    """One rank of one trace; answers are kept, since several sections use the same one."""

    def __init__(self, engine, path, rank, rules=None):
        self.engine, self.path, self.rank, self.rules, self.kept = engine, path, rank, rules, {}
        self.want = None  # the section of the oracle that is compared

    def __call__(self, question, **args):
        if self.rank is not None:
            args["rank"] = self.rank
        if self.rules is not None:
            args["rules"] = self.rules
        key = (question, tuple(sorted(args.items())))
        if key not in self.kept:
            self.kept[key] = self.fetch(question, args)
        return self.kept[key]

    def fetch(self, question, args):
        """What was never recorded is refused by us and zero to the oracle: no rows. A value above zero there still
        counts against us."""
        try:
            return self.engine.ask(self.path, question, **args)
        except Refused as refusal:
            if refusal.status != NO_DATA:
                raise
            return []


def compare_unit(engine, path, policy, count, errors, rules=None):
    ranks = policy["ranks"]
    for rank, sections in ranks.items():
        ask = Asker(engine, path, rank if len(ranks) > 1 else None, rules)
        for name, want in sections.items():
            if name in NOT_COUNTED or (rules is not None and name not in BOTH_RULES):
                continue
            ask.want = want
            try:
                got = SECTIONS[name](ask)
            except Refused as refusal:
                errors.append(
                    "%s rank %s, %s: exit %d: %s" % (path.name, rank, name, refusal.status, refusal.text.split("\n")[0])
                )
                got = GONE
            except (KeyError, IndexError, TypeError) as error:
                errors.append("%s rank %s, %s: the answer lacks %r" % (path.name, rank, name, error))
                got = GONE
            walk(count, "ranks.%s.%s" % (rank, name), want, got, whole=name != "kernels")
    if "types_all_ranks" in policy:
        walk(count, "types_all_ranks", policy["types_all_ranks"], types_all_ranks(Asker(engine, path, None, rules)))


def kept_events(engine, path):
    """Events in the opened trace: slices, and marks that do not merely end one."""
    slices = len(engine.ask(path, "events", by="slice"))
    return slices + sum(r["phase"] not in CLOSING for r in engine.ask(path, "events", by="mark"))


def compare_malformed(engine, path, want, count):
    """Per file: events kept within bounds; the exit status where the note names one; a counted loss where it asks for
    one."""
    note, losses = want.get("note", ""), []
    try:
        kept, status, text = kept_events(engine, path), 0, ""
        losses = engine.ask(path, "losses")
    except Refused as refusal:
        kept, status, text = 0, refusal.status, refusal.text
    low, high = want["events_kept_min"], want["events_kept_max"]
    wanted = re.search(r"\bexit (\d+)", note)
    rules = [
        ("events_kept", "%d to %d" % (low, high), kept, low <= kept <= high),
        ("exit", int(wanted.group(1)) if wanted else 0, status, status == (int(wanted.group(1)) if wanted else 0)),
    ]
    if wanted:
        rules.append(("message", "one line", text.split("\n")[0], bool(text.strip())))
    if re.search(r"\b(counted|noted|flagged)\b", note):
        rules.append(("losses", "at least 1", len(losses), bool(losses)))
    for name, expected, got, good in rules:
        count.total += 1
        count.agree += good
        if not good:
            count.differences.append(("%s.%s" % (path.name, name), expected, got))


def load_defects():
    """{place of a difference: (defect, the oracle's value, ours)}: a value that is wrong in another way is not one of
    them."""
    named = {}
    for d in json.loads((HERE / "defects.json").read_text()):
        assert d["values"] and d["defect"] and d["why"] and d["test"], (
            "an entry of defects.json lacks values, defect, why or test"
        )
        assert not named.keys() & d["values"].keys(), "defects.json names a value twice"
        named.update({path: (d["defect"], *pair) for path, pair in d["values"].items()})
    return named


def same(expected, value, path):
    return expected == "absent" if isinstance(value, Absent) else close(expected, value, path)


class Report:
    def __init__(self, quiet):
        self.quiet, self.defects = quiet, load_defects()
        self.rows, self.total, self.agree, self.failures = [], 0, 0, 0

    def fail(self, line):
        print("  ! " + line)
        self.failures += 1

    def defect_of(self, place, want, got):
        defect, *pair = self.defects.get(place, (None, None, None))
        return defect if defect and same(pair[0], want, "") and same(pair[1], got, "") else None

    def unit(self, trace, unit, count, errors):
        for line in errors:
            self.fail(line)
        named, prefix = 0, "%s/%s/" % (trace, unit)
        for path, want, got in count.differences:
            defect = self.defect_of(prefix + path, want, got)
            named += defect is not None
            if not self.quiet or defect is None:
                shown = got.text if isinstance(got, Absent) else json.dumps(got, ensure_ascii=False)
                print(
                    "  %s: oracle %s, ours %s%s"
                    % (
                        prefix + path[:300],
                        json.dumps(want, ensure_ascii=False),
                        shown,
                        "  (%s)" % defect if defect else "",
                    )
                )
        for place in {p for p in self.defects if p.startswith(prefix)} - {prefix + d[0] for d in count.differences}:
            self.fail("%s: a difference of defects.json that is none any more" % place)
        self.rows.append((trace, unit, count.total, count.agree, len(count.differences) - named, named))
        self.total, self.agree = self.total + count.total, self.agree + count.agree
        self.failures += len(count.differences) - named

    def close(self):
        wide = max([len(f"{r[0]} {r[1]}") for r in self.rows] + [5])
        print("\n%-*s %8s %8s %8s %8s" % (wide, "trace", "values", "agree", "differ", "defects"))
        for trace, unit, total, agree, differ, named in self.rows:
            print(f"{f'{trace} {unit}':<{wide}} {total:8d} {agree:8d} {differ:8d} {named:8d}")
        print("%d of %d values agree" % (self.agree, self.total))
        if self.total == 0:
            return 2
        return 1 if self.failures else 0


def compare_facade(folder, stem, hta, report):
    """What HolisticTraceAnalysis printed, against the façade."""
    for unit, values in hta.get("units", {}).items():
        count, errors = hta_facade.Count(), []
        hta_facade.compare(unit_path(folder, unit), values, count, errors)
        report.unit(stem, unit + " (facade)", count, errors)
    if "memory_timeline" in hta:
        count = hta_facade.Count()
        hta_facade.compare_timeline(folder, hta["memory_timeline"], count)
        report.unit(stem, "memory timeline (facade)", count, [])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path, required=True)
    parser.add_argument("--oracle", type=pathlib.Path, required=True)
    parser.add_argument(
        "--bin", help="the tachograph command (default: the newest build of this tree, the installed one, the package)"
    )
    parser.add_argument("--only", help="comma-separated trace folders")
    parser.add_argument("--rules", choices=["hta"], help="compare answers by HolisticTraceAnalysis' rules instead")
    parser.add_argument("--quiet", action="store_true", help="do not list named defects")
    args = parser.parse_args(argv)
    engine, report = open_engine(args.bin), Report(args.quiet)
    only = set(args.only.split(",")) if args.only else None
    missing = None if args.rules else hta_facade.missing()
    if missing:
        report.fail(missing)
    for oracle in sorted(args.oracle.glob("*.json")):
        if only and oracle.stem not in only:
            continue
        document, errors = json.loads(oracle.read_text()), []
        pair = diff.compare_pair(engine, args.traces / oracle.stem, document, errors)
        if pair:
            report.unit(oracle.stem, "trace diff", pair, errors)
        timeline = (
            None if args.rules else memory_curve.compare_timeline(engine, args.traces / oracle.stem, document, errors)
        )
        if timeline:
            report.unit(oracle.stem, "memory timeline", timeline, errors)
        units = (document.get("reference") or {}).get("units") or {}
        if not args.rules and not missing:
            compare_facade(args.traces / oracle.stem, oracle.stem, document.get("hta") or {}, report)
        for unit, peer in ((document.get("hta") or {}).get("units") or {}).items() if args.rules else ():
            count = Count()
            path = unit_path(args.traces / oracle.stem, unit)
            hta_ops.compare_unit(engine, path, peer, count)
            hta_critical.compare(
                Asker(engine, path, min(peer["ranks"]) if len(peer["ranks"]) > 1 else None), peer, count
            )
            report.unit(oracle.stem, unit + " (HTA itself)", count, [])
        for unit, peer in () if args.rules else ((document.get("tb") or {}).get("units") or {}).items():
            count = Count()
            plugin.compare_unit(engine, unit_path(args.traces / oracle.stem, unit), peer, count)
            report.unit(oracle.stem, unit + " (plugin)", count, [])
        for unit, policies in units.items():
            policy = policies.get("hta_policy" if args.rules else "exact_policy") or {}
            if "ranks" not in policy:
                continue
            count, errors = Count(), []
            folder = args.traces / oracle.stem
            path = unit_path(folder, unit) if folder.is_dir() else folder
            compare_unit(engine, path, policy, count, errors, args.rules)
            report.unit(oracle.stem, unit, count, errors)
            across = (
                None
                if args.rules
                else ranks.compare_unit(engine, path, document, unit, len(policy["ranks"]) > 1, errors)
            )
            if across and across.total:
                report.unit(oracle.stem, unit + " across ranks", across, errors)
    for expected in [] if args.rules else sorted(args.traces.glob("*/expected.json")):
        wants = json.loads(expected.read_text())
        if (only and expected.parent.name not in only) or not all(
            isinstance(w, dict) and "events_kept_min" in w for w in _values(wants)
        ):
            continue
        count = Count()
        for name, want in wants.items():
            compare_malformed(engine, expected.parent / name, want, count)
        report.unit(expected.parent.name, "files", count, [])
    return report.close()


def _values(x):
    return x.values() if isinstance(x, dict) and x else [None]


if __name__ == "__main__":
    sys.exit(main())
