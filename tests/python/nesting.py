"""Do the slices of a Chrome trace nest? Per pid and tid no two may overlap in part; a viewer would drop one of them."""

import collections
import decimal
import json
import sys


def nanoseconds(number):
    return int(decimal.Decimal(str(number)) * 1000)


def slices(events):
    """(pid, tid) → [(start, end, name)] of X events and of B/E pairs."""
    tracks, open_ones = collections.defaultdict(list), collections.defaultdict(list)
    for e in events:
        track = (json.dumps(e.get("pid")), json.dumps(e.get("tid")))
        if e.get("ph") == "X" and "ts" in e and "dur" in e:
            start = nanoseconds(e["ts"])
            tracks[track].append((start, start + nanoseconds(e["dur"]), e["name"]))
    ends = [e for e in events if e.get("ph") in ("B", "E") and "ts" in e]
    for e in sorted(ends, key=lambda e: nanoseconds(e["ts"])):  # stable: file order where times are equal
        track = (json.dumps(e.get("pid")), json.dumps(e.get("tid")))
        if e["ph"] == "B":
            open_ones[track].append((nanoseconds(e["ts"]), e["name"]))
        elif open_ones[track]:
            start, name = open_ones[track].pop()
            tracks[track].append((start, nanoseconds(e["ts"]), name))
    return tracks


def overlaps(events):
    """Pairs of slices on one track of which neither contains the other and that share time."""
    found = []
    for track, items in slices(events).items():
        stack = []
        for item in sorted(items, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1][1] <= item[0]:
                stack.pop()
            if stack and stack[-1][1] < item[1]:
                found.append((track, stack[-1], item))
            stack.append(item)
    return found


if __name__ == "__main__":
    bad = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            document = json.load(file, parse_float=decimal.Decimal)
        found = overlaps(document if isinstance(document, list) else document["traceEvents"])
        bad += len(found)
        print("%s: %d overlaps%s" % (path, len(found), "".join("\n  %s %s | %s" % f for f in found[:3])))
    sys.exit(bad > 0)
