"""Every export is read back by a foreign reader and compared with what went in, event by event."""

import collections
import csv
import decimal
import io
import json
import pathlib
import random
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nesting
import traces

SEEDS = range(12)


# ---- reading JSON without losing a digit -------------------------------------------------------------------


class Number(str):
    """A JSON number as it stood."""


def load(data):
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=lambda c: pytest.fail("no JSON: " + c))


def exact(v):
    """Equal values become equal tuples: numbers by value, times exactly, objects whatever their order, duplicates
    impossible."""
    if isinstance(v, Number):
        return ("number", decimal.Decimal(v).normalize() if abs(decimal.Decimal(v).adjusted()) < 400 else str(v))
    if isinstance(v, (bool, type(None))):
        return ("word", v)
    if isinstance(v, (int, float)):
        return ("number", decimal.Decimal(repr(v)).normalize())
    if isinstance(v, dict):
        return ("object", tuple(sorted((k, exact(x)) for k, x in v.items())))
    if isinstance(v, list):
        return ("array", tuple(exact(x) for x in v))
    return ("text", v)


def export(tachograph, path, *how):
    run = tachograph("export", path, *how, text=False)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def write(tmp_path, text, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return path


# ---- Chrome: nothing changes -------------------------------------------------------------------------------

# One event a line: what is in the file, and, where it is no JSON or cannot stay as it is, what must come out.
SAME = None
LINES = [
    ('{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":100}', SAME),
    ('{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":2.125,"dur":0.001,"args":{}}', SAME),
    ('{"name":"keys in another order","args":{"z":1,"a":2},"dur":1,"ts":3,"tid":1,"pid":1,"cat":"x","ph":"X"}', SAME),
    ('{"ph":"B","name":"begin","pid":1,"tid":2,"ts":5,"args":{"k":"v"}}', SAME),
    ('{"ph":"E","pid":1,"tid":2,"ts":9,"name":"","args":{"at":"end"}}', SAME),
    ('{"ph":"b","cat":"async","name":"as","id":"0x1f","pid":1,"tid":2,"ts":6,"scope":"s"}', SAME),
    ('{"ph":"n","cat":"async","name":"as","id":"0x1f","pid":1,"tid":2,"ts":7}', SAME),
    ('{"ph":"e","cat":"async","name":"as","id":"0x1f","pid":1,"tid":2,"ts":8}', SAME),
    ('{"ph":"b","cat":"async","name":"id2","id2":{"local":"0x3"},"pid":1,"tid":2,"ts":6}', SAME),
    ('{"ph":"e","cat":"async","name":"id2","id2":{"local":"0x3"},"pid":1,"tid":2,"ts":7}', SAME),
    ('{"ph":"S","cat":"old","name":"legacy","id":7,"pid":1,"tid":2,"ts":6}', SAME),
    ('{"ph":"T","cat":"old","name":"legacy","id":7,"pid":1,"tid":2,"ts":7}', SAME),
    ('{"ph":"p","cat":"old","name":"legacy","id":7,"pid":1,"tid":2,"ts":7}', SAME),
    ('{"ph":"F","cat":"old","name":"legacy","id":7,"pid":1,"tid":2,"ts":8}', SAME),
    ('{"ph":"i","name":"instant","pid":1,"tid":1,"ts":10,"s":"t"}', SAME),
    ('{"ph":"I","name":"old instant","pid":1,"tid":1,"ts":10,"s":"g"}', SAME),
    ('{"ph":"C","name":"counter","pid":1,"ts":11,"args":{"a":1,"b":2.50,"c":-3}}', SAME),
    ('{"ph":"C","name":"counter","id":3,"pid":1,"tid":"","ts":12,"args":{"a":4}}', SAME),
    ('{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}}', SAME),
    ('{"ph":"M","name":"thread_name","pid":1,"tid":1,"ts":0,"args":{"name":"main"}}', SAME),
    ('{"ph":"M","name":"process_labels","pid":-1,"tid":-1,"args":{"labels":"x"}}', SAME),
    ('{"ph":"s","cat":"ac2g","name":"ac2g","id":41,"pid":1,"tid":1,"ts":3}', SAME),
    ('{"ph":"t","cat":"ac2g","name":"ac2g","id":41,"pid":1,"tid":1,"ts":3}', SAME),
    ('{"ph":"f","cat":"ac2g","name":"ac2g","id":41,"pid":0,"tid":7,"ts":4,"bp":"e"}', SAME),
    (
        '{"ph":"X","cat":"f","name":"v2 flow","bind_id":"0x9","flow_in":true,"flow_out":false,"pid":1,"tid":3,"ts":1,"dur":1}',
        SAME,
    ),
    ('{"ph":"P","name":"sample","pid":1,"tid":1,"ts":13,"sf":5}', SAME),
    ('{"ph":"N","name":"object","id":"0x5","pid":1,"tid":1,"ts":13}', SAME),
    (
        '{"ph":"O","name":"object","id":"0x5","pid":1,"tid":1,"ts":14,"args":{"snapshot":{"deep":[1,[2,{"x":null}]]}}}',
        SAME,
    ),
    ('{"ph":"D","name":"object","id":"0x5","pid":1,"tid":1,"ts":15}', SAME),
    ('{"ph":"R","name":"mark","pid":1,"tid":1,"ts":15}', SAME),
    ('{"ph":"c","name":"clock_sync","pid":1,"tid":1,"ts":15,"args":{"sync_id":"s"}}', SAME),
    ('{"ph":"(","name":"context","pid":1,"tid":1,"ts":15,"id":"0x1"}', SAME),
    ('{"ph":"X","cat":"p","name":"negative","pid":-1,"tid":-247463936,"ts":1,"dur":2}', SAME),
    ('{"ph":"X","cat":"p","name":"64 bit","pid":9223372036854775807,"tid":140244512839424,"ts":1,"dur":2}', SAME),
    ('{"ph":"X","cat":"p","name":"text","pid":"Spans","tid":"Py\\"T\\u00f6rch","ts":1,"dur":2}', SAME),
    ('{"ph":"X","cat":"p","name":"number as text","pid":"12","tid":"0x12","ts":1,"dur":2}', SAME),
    ('{"ph":"X","cat":"p","name":"empty","pid":"","tid":"","ts":1,"dur":2}', SAME),
    ('{"ph":"i","name":"no pid","tid":4,"ts":1}', SAME),
    ('{"ph":"i","name":"no tid","pid":4,"ts":1}', SAME),
    ('{"ph":"i","name":"neither","ts":1}', SAME),
    ('{"ph":"X","cat":"t","name":"epoch","pid":2,"tid":1,"ts":1694039968955744.123,"dur":99999999999.999}', SAME),
    ('{"ph":"X","cat":"t","name":"early","pid":2,"tid":2,"ts":-5.5,"dur":1}', SAME),
    ('{"ph":"i","name":"no time","pid":1,"tid":1}', SAME),
    (
        '{"ph":"X","cat":"e","name":"q\\" b\\\\ n\\n t\\t u\\u0001 \\u00e9 \\ud83d\\ude00 / \\/ \\u2028","pid":3,"tid":1,"ts":1,"dur":1}',
        SAME,
    ),
    ('{"ph":"X","cat":"e","name":"lone \\ud800 half","pid":3,"tid":1,"ts":3,"dur":1}', SAME),
    ('{"ph":"X","cat":"e\\"","name":"","pid":3,"tid":1,"ts":5,"dur":1,"args":{"":"","k\\"\\n":"\\u0000"}}', SAME),
    (
        (
            '{"ph":"i","name":"numbers","pid":1,"tid":1,"ts":1,"args":{"max":9223372036854775807,"min":-9223372036854775808,'
            '"more":18446744073709551616,"dec":0.10,"tiny":1e-7,"huge":1E+300,"neg":-0.001,"minus zero":-0.0,"long":0.12345678901234567890}}'
        ),
        SAME,
    ),
    (
        '{"ph":"i","name":"values","pid":1,"tid":1,"ts":1,"args":{"t":true,"f":false,"n":null,"l":[1,"a",null,[]],"o":{"a":{}},"s":"1"}}',
        SAME,
    ),
    (
        '{"ph":"i","name":"not JSON","pid":1,"tid":1,"ts":1,"args":{"nan":NaN,"inf":-Infinity,"na":N/A,"list":[1,NaN]}}',
        '{"ph":"i","name":"not JSON","pid":1,"tid":1,"ts":1,"args":{"nan":"NaN","inf":"-Infinity","na":"N/A","list":[1,"NaN"]}}',
    ),
    (
        '{"ph":"X","cat":"t","name":"text time","pid":1,"tid":9,"ts":"12.5","dur":"3"}',
        '{"ph":"X","cat":"t","name":"text time","pid":1,"tid":9,"ts":12.5,"dur":3}',
    ),
    (
        '{"ph":"X","cat":"t","name":"negative dur","pid":1,"tid":8,"ts":1,"dur":-1.-500}',
        '{"ph":"X","cat":"t","name":"negative dur","pid":1,"tid":8,"ts":1,"dur":0}',
    ),
    (
        '{"ph":"X","cat":"t","name":"bad \\p escape","pid":1,"tid":8,"ts":2,"dur":1}',
        '{"ph":"X","cat":"t","name":"bad \\\\p escape","pid":1,"tid":8,"ts":2,"dur":1}',
    ),
]
WANT = [want or line for line, want in LINES]
HEAD = '{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"d\\u00e9vice"}],"odd":NaN,"traceEvents":'
TAIL = ',"displayTimeUnit":"ns","traceName":"x.json","after":{"a":[1,2]}}'


def text_of(head, tail, lines):
    return head + "[\n" + ",\n".join(lines) + "\n]" + tail


def test_every_kind_of_event_comes_back(tachograph, tmp_path):
    path = write(tmp_path, text_of(HEAD, TAIL, [line for line, _ in LINES]))
    got = load(export(tachograph, path, "--to", "chrome"))
    assert list(got) == [
        "schemaVersion",
        "deviceProperties",
        "odd",
        "traceEvents",
        "displayTimeUnit",
        "traceName",
        "after",
    ]
    assert got["odd"] == "NaN" and got["after"] == {"a": ["1", "2"]} and got["deviceProperties"][0]["name"] == "dévice"
    assert len(got["traceEvents"]) == len(WANT)
    for event, want in zip(got["traceEvents"], WANT):
        assert exact(event) == exact(load(want))


def test_members_keep_the_order_of_their_args_and_kineto_order_themselves(tachograph, tmp_path):
    path = write(
        tmp_path, '[{"name":"n","args":{"z":1,"a":2},"dur":1,"ts":3,"tid":1,"id":5,"pid":1,"cat":"x","ph":"X"}]'
    )
    assert export(tachograph, path, "--to", "chrome") == (
        b'[\n{"ph":"X","cat":"x","name":"n","pid":1,"tid":1,"ts":3,"dur":1,"id":5,"args":{"z":1,"a":2}}\n]\n'
    )


def test_a_bare_array_stays_one(tachograph, tmp_path):
    path = write(tmp_path, text_of("", "", [line for line, _ in LINES]))
    got = load(export(tachograph, path, "--to", "chrome"))
    assert isinstance(got, list) and [exact(e) for e in got] == [exact(load(w)) for w in WANT]


def test_the_native_file_between_changes_nothing(tachograph, tmp_path):
    path = write(tmp_path, text_of(HEAD, TAIL, [line for line, _ in LINES]))
    native = tmp_path / "trace.tacho"
    assert tachograph("convert", path, "-o", native).returncode == 0
    assert export(tachograph, native, "--to", "chrome") == export(tachograph, path, "--to", "chrome")
    again = write(tmp_path, export(tachograph, path, "--to", "chrome"), "again.json")
    assert export(tachograph, again, "--to", "chrome") == export(tachograph, path, "--to", "chrome")


def test_bytes_that_are_not_utf8_become_replacement_characters(tachograph, tmp_path):
    path = write(
        tmp_path,
        b'[{"ph":"i","name":"a\xff\xc3(b","pid":1,"tid":1,"ts":1,"args":{"\xfe":"\xed\xa0\x80","l":["\x80"]}}]',
    )
    (event,) = load(export(tachograph, path, "--to", "chrome"))
    assert event["name"] == "a\ufffd\ufffd(b"
    assert event["args"] == {"\ufffd": "\ud800", "l": ["\ufffd"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_traces_come_back(tachograph, tmp_path, seed):
    (rank,) = traces.build(seed, size=80, span=random.Random(seed).choice((30, 1000)))
    path = traces.write([rank], tmp_path, seed)
    document = load(export(tachograph, path, "--to", "chrome", "--lanes", "keep"))
    events = document if isinstance(document, list) else document["traceEvents"]
    assert len(events) == len(rank.events)
    for got, want in zip(events, rank.events):
        args = got.pop("args", {})
        assert exact(args) == exact(want.args or {})
        ns = {"ts": want.ts, "dur": want.dur if want.ph == "X" else None}
        for key, value in ns.items():
            assert (nesting.nanoseconds(got.pop(key)) if key in got else None) == value, (key, got, want)
        members = {"ph": want.ph, "name": want.name, "pid": want.pid, "tid": want.tid, **want.more}
        if want.cat is not None:
            members["cat"] = want.cat
        assert exact(got) == exact(members)


@pytest.mark.parametrize("name", [None, "made elsewhere"])
def test_chrome_file_of_others_keeps_its_name_or_none(tachograph, tmp_path, name):
    document = {
        "traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}],
        **({"traceName": name} if name else {}),
    }
    path = write(tmp_path, json.dumps(document))
    assert tachograph("export", path, "-o", tmp_path / "out.json").returncode == 0
    assert json.loads((tmp_path / "out.json").read_text()).get("traceName") == name


# ---- Chrome: sub-lanes and ranks ---------------------------------------------------------------------------


def kernel(name, start, dur, corr, tid=7):
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": {"device": 0, "stream": tid, "correlation": corr},
    }


OVERLAPPING = [
    kernel("k1", 10, 10, 1),
    kernel("k2", 15, 10, 2),
    kernel("k3", 16, 20, 3),
    kernel("k4", 26, 2, 4),
    kernel("taken", 0, 1, 9, tid=1000007),
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 2, "pid": 0, "tid": 7, "ts": 15, "bp": "e"},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 10, "bp": "e"},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
]


def test_overlaps_go_to_tids_of_their_own(tachograph, tmp_path):
    path = write(tmp_path, json.dumps(OVERLAPPING))
    assert len(nesting.overlaps(OVERLAPPING)) == 2
    got = load(export(tachograph, path, "--to", "chrome"))
    assert nesting.overlaps(got) == []
    tids = {e["name"]: e["tid"] for e in got if e["ph"] == "X"}
    assert tids == {
        "k1": "7",
        "k2": "2000007",
        "k3": "3000007",
        "k4": "7",
        "taken": "1000007",
    }  # 1000007 is taken
    assert [e["tid"] for e in got if e["ph"] == "f"] == ["2000007", "7"]  # a flow's end stays with its kernel
    names = {e["tid"]: e["args"]["name"] for e in got if e["name"] == "thread_name"}
    assert names == {"7": "stream 7", "2000007": "stream 7 (overlap 1)", "3000007": "stream 7 (overlap 2)"}
    assert len(got) == len(OVERLAPPING) + 2
    kept = load(export(tachograph, path, "--to", "chrome", "--lanes", "keep"))
    assert [exact(e) for e in kept] == [exact(e) for e in OVERLAPPING]


@pytest.mark.parametrize("seed", SEEDS)
def test_split_random_traces_nest(tachograph, tmp_path, seed):
    (rank,) = traces.build(seed, size=120, span=30)
    path = traces.write([rank], tmp_path, seed)
    document = load(export(tachograph, path, "--to", "chrome"))
    events = document if isinstance(document, list) else document["traceEvents"]
    assert nesting.overlaps(events) == []
    assert sum(e["ph"] == "X" for e in events) == sum(e.ph == "X" for e in rank.events)


def two_ranks(tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank, base in ((0, 5000), (1, 7000)):
        document = {
            "distributedInfo": {"rank": rank, "world_size": 2},
            "baseTimeNanoseconds": base,
            "traceEvents": [
                {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
                {
                    "ph": "X",
                    "cat": "cuda_runtime",
                    "name": "launch %d" % rank,
                    "pid": 100,
                    "tid": 100,
                    "ts": 1,
                    "dur": 1,
                    "args": {"correlation": 1},
                },
                {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 100, "tid": 100, "ts": 1},
                kernel("kernel %d" % rank, 3, 1, 1),
            ],
        }
        (folder / ("rank-%d.json" % rank)).write_text(json.dumps(document))
    return folder


def test_ranks_share_one_document_without_mixing(tachograph, tmp_path):
    folder = two_ranks(tmp_path)
    got = load(export(tachograph, folder, "--to", "chrome"))
    assert "distributedInfo" not in got and got["baseTimeNanoseconds"] == "5000"
    events = got["traceEvents"]
    assert len(events) == 8
    assert [e["pid"] for e in events] == ["100", "100", "100", "0"] + ["10000100", "10000100", "10000100", "10000000"]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["rank 0: python", "rank 1: python"]
    assert [e["ts"] for e in events if e["ph"] == "X"] == ["1", "3", "3", "5"]  # rank 1 started 2 µs later
    assert [int(e["id"]) for e in events if e["ph"] == "s"] == [1, (1 << 40) + 1]
    alone = load(export(tachograph, folder, "--to", "chrome", "--rank", 1))
    assert exact(alone) == exact(load((folder / "rank-1.json").read_bytes()))


def test_one_step_is_what_it_launched(tachograph, tmp_path):
    events = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}]
    for k in range(3):
        events += [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": "ProfilerStep#%d" % k,
                "pid": 1,
                "tid": 1,
                "ts": 100 * k,
                "dur": 100,
            },
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "launch %d" % k,
                "pid": 1,
                "tid": 1,
                "ts": 100 * k + 90,
                "dur": 5,
                "args": {"correlation": k + 1},
            },
            kernel("kernel %d" % k, 100 * k + 110, 5, k + 1),
        ]
    path = write(tmp_path, json.dumps(events))
    got = load(export(tachograph, path, "--to", "chrome", "--step", 1))
    assert [e["name"] for e in got] == ["process_name", "ProfilerStep#1", "launch 1", "kernel 1"]
    run = tachograph("export", path, "--to", "chrome", "--step", 9)
    assert run.returncode == 3 and "step 9" in run.stderr


# ---- Perfetto ----------------------------------------------------------------------------------------------


def annotation(a, names, texts):
    kind = a.WhichOneof("value")
    value = getattr(a, kind)
    if kind == "string_value_iid":
        value = texts[value]
    elif kind == "legacy_json_value":
        value = ("json", exact(load(value)))
    return (names[a.name_iid] if a.name_iid else a.name, (kind.replace("_iid", ""), value))


class Decoded:
    """A .pftrace as the perfetto package's own classes read it: events with their interned strings put back."""

    def __init__(self, data):
        pb = pytest.importorskip(
            "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed"
        )
        trace = pb.Trace()
        trace.ParseFromString(data)
        size = trace.ByteSize()
        trace.DiscardUnknownFields()
        assert trace.ByteSize() == size  # every field is one Perfetto knows
        self.tracks, self.slices, self.instants, self.counters, self.flows = {}, [], [], [], {}
        interned = {
            key: {}
            for key in ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values")
        }
        stacks = collections.defaultdict(list)
        begins, ends = {}, {}
        assert trace.packet[0].sequence_flags == 1
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            for key, table in interned.items():
                for entry in getattr(packet.interned_data, key):
                    text = getattr(entry, "name" if key != "debug_annotation_string_values" else "str")
                    assert entry.iid and entry.iid not in table
                    table[entry.iid] = text.decode() if isinstance(text, bytes) else text
            if packet.HasField("track_descriptor"):
                d = packet.track_descriptor
                assert d.uuid and d.uuid not in self.tracks and (not d.parent_uuid or d.parent_uuid in self.tracks)
                self.tracks[d.uuid] = d
            if not packet.HasField("track_event"):
                continue
            e = packet.track_event
            assert e.track_uuid in self.tracks
            if e.type == pb.TrackEvent.TYPE_SLICE_END:
                begin, start = stacks[e.track_uuid].pop()
                assert packet.timestamp >= start
                begin["dur"] = packet.timestamp - start
                continue
            event = {
                "track": self.tracks[e.track_uuid],
                "ts": packet.timestamp,
                "name": interned["event_names"].get(e.name_iid),
                "cat": [interned["event_categories"][c] for c in e.category_iids],
                "args": dict(
                    annotation(a, interned["debug_annotation_names"], interned["debug_annotation_string_values"])
                    for a in e.debug_annotations
                ),
            }
            if e.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                # slices of a track nest when times never run backwards while one is open
                assert not stacks[e.track_uuid] or packet.timestamp >= stacks[e.track_uuid][-1][1]
                stacks[e.track_uuid].append((event, packet.timestamp))
                self.slices.append(event)
                begins.update((f, event) for f in e.flow_ids)
                ends.update((f, event) for f in e.terminating_flow_ids)
            elif e.type == pb.TrackEvent.TYPE_INSTANT:
                self.instants.append(event)
            else:
                assert e.type == pb.TrackEvent.TYPE_COUNTER
                self.counters.append(
                    (self.tracks[e.track_uuid].name, packet.timestamp, getattr(e, e.WhichOneof("counter_value_field")))
                )
        assert not any(stacks.values()) and begins.keys() == ends.keys()
        self.flows = sorted((begins[f]["name"], ends[f]["name"]) for f in begins)

    def place(self, track):
        """(name of the process or pid, name of the track)"""
        if track.HasField("thread"):
            return track.thread.pid, track.thread.thread_name
        parent = self.tracks[track.parent_uuid]
        return (parent.process.pid if parent.HasField("process") else parent.name), track.name


def want_annotation(v):
    if isinstance(v, bool):
        return ("bool_value", v)
    if isinstance(v, int) and -(2**63) <= v < 2**63:
        return ("int_value", v)
    if isinstance(v, float):
        return ("double_value", v)
    if v is None or isinstance(v, (list, dict)):
        return ("legacy_json_value", ("json", exact(load(json.dumps(v)))))
    return ("string_value", str(v))


@pytest.mark.parametrize("seed", SEEDS)
def test_perfetto_has_every_event(tachograph, tmp_path, seed):
    (rank,) = traces.build(seed, size=80, span=random.Random(seed).choice((30, 1000)))
    got = Decoded(export(tachograph, traces.write([rank], tmp_path, seed), "--to", "perfetto"))
    shift = -min([0] + [e.ts for e in rank.events if e.ts is not None])

    def key(name, cat, ts, dur, args):
        return (name, tuple(cat), ts, dur, tuple(sorted(args.items(), key=str)))

    def want(e):
        args = {k: want_annotation(v) for k, v in (e.args or {}).items()}
        args.update(("event." + k, want_annotation(v)) for k, v in e.more.items())
        return key(e.name, [] if e.cat is None else [e.cat], e.ts + shift, e.dur, args)

    wanted = collections.Counter(want(e) for e in rank.events if e.ph == "X")
    assert collections.Counter(key(s["name"], s["cat"], s["ts"], s["dur"], s["args"]) for s in got.slices) == wanted
    wanted = collections.Counter(want(e) for e in rank.events if e.ph == "i")
    assert collections.Counter(key(s["name"], s["cat"], s["ts"], None, s["args"]) for s in got.instants) == wanted
    wanted = sorted((e.name + " " + k, e.ts + shift, v) for e in rank.events if e.ph == "C" for k, v in e.args.items())
    assert sorted(got.counters) == wanted


def test_perfetto_tracks_flows_and_unusual_values(tachograph, tmp_path):
    events = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 101, "args": {"name": "main"}},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": 100,
            "tid": 101,
            "ts": -1,
            "dur": 9,
            "args": {"Sequence number": 4, "Fwd thread id": 0},
        },
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaGraphLaunch",
            "pid": 100,
            "tid": 101,
            "ts": 1,
            "dur": 1,
            "args": {"correlation": 5},
        },
        kernel("k1", 3, 4, 5),
        kernel("k2", 4, 4, 5),
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "MmBackward0",
            "pid": 100,
            "tid": 102,
            "ts": 20,
            "dur": 2,
            "args": {"Sequence number": 4, "Fwd thread id": 1},
        },
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 101, "ts": -1},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 102, "ts": 20, "bp": "e"},
        {"ph": "C", "name": "memory", "pid": 100, "ts": 5, "args": {"Bytes": 12, "share": 0.5}},
        {
            "ph": "i",
            "name": "odd",
            "pid": "Spans",
            "tid": "Tröt",
            "ts": 6,
            "s": "g",
            "args": {"big": 2**70, "yes": True, "none": None, "list": [1, "x"], "text": 'a"b', "low": -(2**62)},
        },
    ]
    got = Decoded(export(tachograph, write(tmp_path, json.dumps(events)), "--to", "perfetto"))
    slices = {s["name"]: s for s in got.slices}
    assert got.place(slices["aten::mm"]["track"]) == (100, "main")
    assert slices["aten::mm"]["track"].thread.tid == 101
    assert got.place(slices["k1"]["track"]) == got.place(slices["k2"]["track"]) == ("python 0 (GPU 0)", "stream 7")
    assert slices["k1"]["track"].uuid != slices["k2"]["track"].uuid  # they overlap: siblings of one name and parent
    assert slices["k1"]["track"].parent_uuid == slices["k2"]["track"].parent_uuid
    assert slices["aten::mm"]["ts"] == 0 and slices["k1"]["ts"] == 4000  # all of it 1 µs later, none is negative
    assert got.flows == [("aten::mm", "MmBackward0"), ("cudaGraphLaunch", "k1"), ("cudaGraphLaunch", "k2")]
    assert sorted(got.counters) == [("memory Bytes", 6000, 12), ("memory share", 6000, 0.5)]
    units = {t.name: t.counter.unit for t in got.tracks.values() if t.HasField("counter")}
    assert units == {"memory Bytes": 3, "memory share": 0}
    (odd,) = got.instants
    assert odd["args"] == {
        "event.s": ("string_value", "g"),
        "big": ("string_value", str(2**70)),
        "yes": ("bool_value", True),
        "none": want_annotation(None),
        "list": want_annotation([1, "x"]),
        "text": ("string_value", 'a"b'),
        "low": ("int_value", -(2**62)),
    }
    assert got.place(odd["track"]) == ("process Spans", "thread Tröt")


# ---- stacks ------------------------------------------------------------------------------------------------


def op(name, start, dur, cat="cpu_op", tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


STACKS = [
    op("ProfilerStep#1", 0, 1000, "user_annotation"),  # no frame: it would split every stack
    op("train.py(10): main; it", 10, 900, "python_function"),
    op("aten::linear", 100, 300),
    op("aten::mm", 150, 100),
    op("cudaLaunchKernel", 200, 20, "cuda_runtime", correlation=7),
    op("aten::linear", 500, 100),
    op("aten::mm", 2000, 50, tid=2),
    kernel("gemm", 300, 77, 7),
    kernel("orphan", 900, 5, 99),
]
CPU_STACKS = {
    "train.py(10): main, it": 500_000,
    "train.py(10): main, it;aten::linear": 300_000,
    "train.py(10): main, it;aten::linear;aten::mm": 80_000,
    "train.py(10): main, it;aten::linear;aten::mm;cudaLaunchKernel": 20_000,
    "aten::mm": 50_000,
}


def folded(data):
    stacks = {}
    for line in data.decode().splitlines():
        stack, weight = line.rsplit(" ", 1)
        assert stack not in stacks
        stacks[stack] = int(weight)
    return stacks


def test_folded_stacks_have_self_times(tachograph, tmp_path):
    path = write(tmp_path, json.dumps(STACKS))
    assert folded(export(tachograph, path, "--to", "folded")) == CPU_STACKS
    assert folded(export(tachograph, path, "--to", "folded", "--metric", "device")) == {
        "train.py(10): main, it;aten::linear;aten::mm;cudaLaunchKernel;gemm": 77_000,
        "orphan": 5_000,
    }
    assert tachograph("export", path, "--to", "folded", "--metric", "wall").returncode == 2


def scope(data):
    """The documented rules of the format, then one dict stack → weight for each profile."""
    document = json.loads(data)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(
        isinstance(f["name"], str) and isinstance(f.get("line", 0), int) and isinstance(f.get("file", ""), str)
        for f in frames
    )
    profiles = {}
    for p in document["profiles"]:
        assert p["type"] == "sampled" and p["unit"] == "nanoseconds" and len(p["samples"]) == len(p["weights"])
        assert p["startValue"] == 0 and p["endValue"] == sum(p["weights"]) and min(p["weights"], default=1) > 0
        assert p["name"] not in profiles
        profiles[p["name"]] = [([frames[i]["name"] for i in s], w) for s, w in zip(p["samples"], p["weights"])]
    return frames, profiles


def test_speedscope_follows_the_clock(tachograph, tmp_path):
    frames, profiles = scope(export(tachograph, write(tmp_path, json.dumps(STACKS)), "--to", "speedscope"))
    assert {"name": "main; it", "file": "train.py", "line": 10} in frames
    main, linear, mm, launch = "main; it", "aten::linear", "aten::mm", "cudaLaunchKernel"
    first, second = profiles.values()
    assert first == [
        ([main], 90_000),
        ([main, linear], 50_000),
        ([main, linear, mm], 50_000),
        ([main, linear, mm, launch], 20_000),
        ([main, linear, mm], 30_000),
        ([main, linear], 150_000),
        ([main], 100_000),
        ([main, linear], 100_000),
        ([main], 310_000),
    ]
    assert second == [([mm], 50_000)]


@pytest.mark.parametrize("metric", ["cpu", "device"])
@pytest.mark.parametrize("seed", SEEDS)
def test_speedscope_and_folded_agree(tachograph, tmp_path, seed, metric):
    (rank,) = traces.build(seed, size=100)
    path = traces.write([rank], tmp_path, seed)
    stacks = folded(export(tachograph, path, "--to", "folded", "--metric", metric))
    _, profiles = scope(export(tachograph, path, "--to", "speedscope", "--metric", metric))
    total = sum(w for samples in profiles.values() for stack, w in samples if stack)
    assert total == sum(stacks.values())
    if metric == "device":
        assert total == sum(e.dur for e in rank.events if e.cat in traces.DEVICE)


# ---- rows --------------------------------------------------------------------------------------------------


def test_json_and_csv_list_the_same_rows(tachograph, tmp_path):
    path = write(tmp_path, text_of(HEAD, TAIL, [line for line, _ in LINES]))
    answer = json.loads(export(tachograph, path, "--to", "json"))
    assert list(answer) == ["question", "columns", "rows", "notes", "losses"]
    names = [c["name"] for c in answer["columns"]]
    assert len(answer["rows"]) == len(WANT)
    for row, text in zip(answer["rows"], WANT):
        want, got = json.loads(text), dict(zip(names, row))
        assert (got["name"], got["phase"], got["category"], got["args"]) == (
            want["name"],
            want["ph"],
            want.get("cat"),
            want.get("args"),
        )
        assert got["start_ns"] == (nesting.nanoseconds(load(text)["ts"]) if "ts" in want else None)
        assert got["dur_ns"] == (nesting.nanoseconds(load(text)["dur"]) if "dur" in want else got["dur_ns"])
    text = export(tachograph, path, "--to", "csv", "--formulas", "keep").decode("utf-8", "surrogatepass")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == names and len(rows) == len(WANT) + 1
    for row, cells in zip(answer["rows"], rows[1:]):
        for name, value, cell in zip(names, row, cells):
            if name == "args":
                assert (json.loads(cell) if cell else None) == value
            else:
                shown = (
                    ("" if value is None else str(value)).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
                )
                assert cell == shown.translate(
                    {0x01: 0xFFFD, 0x2028: 0xFFFD}
                )  # what steers a terminal or ends a line: only JSON keeps it


def test_every_answer_is_the_documented_object(tachograph, tmp_path):
    path = write(tmp_path, json.dumps(STACKS))
    types = {"text": str, "int": int, "real": (int, float), "bool": bool}
    for question in ("overview", "ops", "kernels", "tracks", "events", "losses", "stacks", "annotations"):
        answer = json.loads(tachograph("ask", path, question, "--json").stdout)
        assert list(answer) == ["question", "columns", "rows", "notes", "losses"] and answer["question"] == question
        for c in answer["columns"]:
            assert list(c) == ["name", "type", "unit"] and c["type"] in types
        for row in answer["rows"]:
            assert len(row) == len(answer["columns"])
            assert all(v is None or isinstance(v, types[c["type"]]) for c, v in zip(answer["columns"], row))
        assert all(isinstance(n, str) for n in answer["notes"])
        assert all(list(x) == ["name", "count", "offset", "meaning"] for x in answer["losses"])


def test_sql_gives_what_ask_gives(tachograph, tmp_path):
    path = write(tmp_path, json.dumps(STACKS))
    sql = json.loads(
        tachograph(
            "sql",
            path,
            "SELECT name, count(*), sum(dur_ns) FROM slices WHERE category = 'kernel' GROUP BY name ORDER BY name",
            "--json",
        ).stdout
    )
    assert sql["rows"] == [["gemm", 1, 77000], ["orphan", 1, 5000]]
    run = tachograph("sql", path, "DROP TABLE slices")
    assert run.returncode == 2 and "may" in run.stderr or "only a SELECT" in run.stderr


def test_output_to_a_full_disk_is_an_error(tachograph_path, tmp_path):
    path = write(tmp_path, json.dumps(STACKS))
    with open("/dev/full", "w") as full:
        run = subprocess.run([tachograph_path, "export", path, "--to", "chrome"], stdout=full, stderr=subprocess.PIPE)
    assert run.returncode == 4 and run.stderr
