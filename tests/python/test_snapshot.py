"""Memory snapshots: every protocol, every cut, nothing executed, and numbers against a simulated allocator."""

import gzip
import io
import json
import pickle
import pickletools
import random
import subprocess
import sys
import zipfile

import pytest
import tachograph as tg
from snapshots import FRAMES, MIB, Device, entry, snapshot

NO_DEVICE = None


@pytest.fixture
def opened(tmp_path):
    def opened(content, name="snapshot.pickle", protocol=4):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
        return tg.open(path)

    return opened


def base_ns(trace):
    """The wall-clock time that the trace's times count from."""
    return int(trace.ask("overview", where='quantity == "base_ns"')["value"][0])


def text(frames):
    return ";".join(f"{f['filename']}({f['line']}): {f['name']}" for f in frames) if frames else None


def replay(device, until=None):
    """(blocks in use as {address: (size, event, frames)}, most bytes in use, event after which) after `until` events of
    the history, by hand."""
    known = {e["addr"] for e in device.trace if e["action"] == "alloc"}
    old = {}
    for e in device.trace:
        if e["action"] == "free_requested" and e["addr"] not in known:
            old[e["addr"]] = e["size"]
    for addr, size in device.live.items():
        if addr not in known:
            old[addr] = size
    live = {addr: (size, i, None) for i, (addr, size) in enumerate(old.items())}
    used = sum(old.values())
    most, at = used, len(old) - 1
    for i, e in enumerate(device.trace, start=len(old)):
        if until is not None and i > until:
            break
        if e["action"] == "alloc":
            live[e["addr"]] = (e["size"], i, e.get("frames"))
            used += e["size"]
        if e["action"] == "free_requested":
            del live[e["addr"]]
            used -= e["size"]
        if used > most:
            most, at = used, i
    return live, most, at, len(old)


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_says_the_same(opened, protocol):
    made = snapshot([Device(0, 1, 120), NO_DEVICE, Device(2, 2, 80)])
    trace = opened(made, protocol=protocol)
    history = list(trace.ask("memory_history"))
    for number, device in ((0, made["device_traces"][0]), (2, made["device_traces"][2])):
        rows = [r for r in history if r["device"] == f"GPU{number}" and r["action"] != "present"]
        assert [r["action"] for r in rows] == [{"free_requested": "free"}.get(e["action"], e["action"]) for e in device]
        assert [r["bytes"] for r in rows if r["action"] != "snapshot"] == [
            e["size"] for e in device if e["action"] != "snapshot"
        ]
        assert [r["address"] for r in rows if r["action"] == "alloc"] == [
            hex(e["addr"]) for e in device if e["action"] == "alloc"
        ]
        assert [base_ns(trace) + r["ts_ns"] for r in rows] == [e["time_us"] * 1000 for e in device]
        assert [r["stack"] for r in rows if r["action"] == "alloc"] == [
            text(e["frames"]) for e in device if e["action"] == "alloc"
        ]
    assert not list(trace.ask("losses"))
    assert {r["device"] for r in history} == {"GPU0", "GPU2"}


@pytest.mark.parametrize("seed", range(6))
def test_state_peak_and_totals_against_a_replay(opened, seed):
    device = Device(0, seed, 300)
    trace = opened(snapshot([device]))
    live, most, at, old = replay(device)
    (memory,) = trace.ask("memory")
    assert memory["peak_net_bytes"] == most == memory["peak_allocated_bytes"]
    assert memory["net_bytes"] == sum(device.live.values()) and memory["free_without_alloc"] == 0
    for moment, expected in (
        ("end", live),
        ("peak", replay(device, at)[0]),
        (str(old + 100), replay(device, old + 100)[0]),
    ):
        rows = {int(r["address"], 16): r for r in trace.ask("memory_state", at=moment)}
        assert {a: r["bytes"] for a, r in rows.items()} == {a: size for a, (size, _, _) in expected.items()}
        for addr, (_, event, frames) in expected.items():
            if event >= old:
                assert rows[addr]["event"] == event and rows[addr]["stack"] == text(frames)
    stacks = {}
    for e in device.trace:
        if e["action"] == "alloc":
            count, size = stacks.get(text(e["frames"]), (0, 0))
            stacks[text(e["frames"])] = (count + 1, size + e["size"])
    rows = list(trace.ask("memory_stacks"))
    assert {
        k: v for k, v in ((r["stack"], (r["allocations"], r["alloc_bytes"])) for r in rows) if k in stacks
    } == stacks
    assert sum(r["peak_bytes"] for r in rows) == most and sum(r["end_bytes"] for r in rows) == sum(device.live.values())


@pytest.mark.parametrize("seed", range(3))
def test_times_later_and_twice_as_long(opened, seed):
    made = snapshot([Device(0, seed, 150), Device(1, seed + 50, 60)])
    first = made["device_traces"][0][0]["time_us"]
    before = opened(made, "a.pickle")
    tables = {
        q: before.ask(q, **args).to_dicts()
        for q, args in (
            ("memory_state", {"at": "peak"}),
            ("memory_stacks", {}),
            ("memory_stats", {}),
            ("segments", {}),
            ("memory_history", {}),
        )
    }
    for trace in made["device_traces"]:
        for e in trace:
            e["time_us"] = first + 5_000_000 + 2 * (e["time_us"] - first)
    after = opened(made, "b.pickle")
    for row in tables["memory_history"]:
        if row["action"] != "present":
            row["ts_ns"] = 1000 * (first + 5_000_000) + 2 * (base_ns(before) + row["ts_ns"] - 1000 * first)
    got = after.ask("memory_history").to_dicts()
    for row in got:
        row["ts_ns"] += base_ns(after) if row["action"] != "present" else 0
    assert [r for r in got if r["action"] != "present"] == [
        r for r in tables["memory_history"] if r["action"] != "present"
    ]
    assert [r["address"] for r in got if r["action"] == "present"] == [
        r["address"] for r in tables["memory_history"] if r["action"] == "present"
    ]
    old = {r["address"] for r in got if r["action"] == "present"}
    for row, now in zip(tables["memory_state"], after.ask("memory_state", at="peak").to_dicts(), strict=True):
        age, later = row.pop("age_ns"), now.pop("age_ns")
        assert now == row and (row["address"] in old or later == 2 * age)
    for question in ("memory_stacks", "memory_stats", "segments"):
        assert after.ask(question).to_dicts() == tables[question]


def test_statistics(opened):
    device = Device(0, 7, 200)
    rows = {(r["metric"], r["pool"]): r for r in opened(snapshot([device])).ask("memory_stats")}
    live, most, _, old = replay(device)
    taken = [e["size"] for e in device.trace if e["action"] == "alloc"]
    given = [e["size"] for e in device.trace if e["action"] == "free_requested"]
    present = sum(device.live.values()) + sum(given) - sum(taken)
    asked = rows["requested_bytes", "all"]
    assert (asked["current"], asked["peak"]) == (sum(device.live.values()), most)
    assert (asked["allocated"], asked["freed"]) == (present + sum(taken), sum(given))
    used, blocks = (
        rows["allocated_bytes", "all"],
        rows["allocation", "all"],
    )  # each block has 100 bytes more than was asked for
    assert [used[k] for k in ("current", "allocated", "freed")] == [
        asked[k] + 100 * blocks[k] for k in ("current", "allocated", "freed")
    ]
    assert rows["allocation", "all"]["allocated"] == old + len(taken) and rows["allocation", "all"]["freed"] == len(
        given
    )
    small = [s for s in taken if s <= 1 << 20]
    assert rows["allocation", "small_pool"]["allocated"] >= len(small) > 0
    assert rows["num_ooms", "all"]["current"] == sum(e["action"] == "oom" for e in device.trace)
    assert rows["reserved_bytes", "all"]["current"] == device.segment_bytes
    assert (
        rows["active_bytes", "all"]["current"]
        == used["current"]
        == sum(s["allocated_size"] for s in snapshot([device])["segments"])
    )


def test_a_block_of_one_mebibyte_is_still_small(opened):
    """Torch's kSmallSize, 1048576 bytes, is the last size of the small pool."""
    small, large = 1 << 20, (1 << 20) + 512
    made = {
        "segments": [],
        "device_traces": [
            [
                entry("alloc", 1 << 30, small, 1),
                entry("alloc", 1 << 31, large, 2),
                entry("free_requested", 1 << 30, small, 3),
                entry("free_completed", 1 << 30, small, 4),
            ]
        ],
    }
    rows = {(r["metric"], r["pool"]): r for r in opened(made).ask("memory_stats")}
    assert [rows["allocation", pool]["allocated"] for pool in ("small_pool", "large_pool")] == [1, 1]
    assert [rows["active", pool]["current"] for pool in ("small_pool", "large_pool")] == [0, 1]
    assert [rows["active_bytes", pool]["peak"] for pool in ("small_pool", "large_pool")] == [small, large]


def test_segments_blocks_and_pools(opened):
    device = Device(0, 3, 150)
    made = snapshot([device])
    trace = opened(made)
    segment = made["segments"][0]
    free = [b["size"] for b in segment["blocks"] if b["state"] == "inactive"]
    (row,) = trace.ask("segments")
    assert (row["address"], row["kind"], row["pool"], row["stack"]) == (
        hex(device.base),
        "large",
        "(0, 0)",
        text(FRAMES[:3]),
    )
    assert (row["total_bytes"], row["allocated_bytes"], row["requested_bytes"]) == (
        segment["total_size"],
        segment["allocated_size"],
        segment["requested_size"],
    )
    assert (row["free_bytes"], row["largest_free_bytes"], row["blocks"]) == (
        sum(free),
        max(free),
        len(segment["blocks"]),
    )
    assert row["fragmentation_pct"] == pytest.approx(100 * (sum(free) - max(free)) / sum(free))
    blocks = list(trace.ask("segments", by="block", sort="address asc"))
    assert [(int(b["address"], 16), b["total_bytes"], b["kind"]) for b in blocks] == [
        (b["address"], b["size"], b["state"]) for b in segment["blocks"]
    ]
    (pool,) = trace.ask("segments", by="pool")
    assert pool["total_bytes"] == segment["total_size"] and (pool["address"], pool["segments"]) == (None, 1)


def test_settings_and_annotations_are_kept(opened, tmp_path):
    made = snapshot([Device(0, 4, 20)])
    trace = opened(made)
    assert [(r["name"], r["dur_ns"]) for r in trace.ask("events", where="category = 'user_annotation'")] == [
        ("step", 490_000)
    ]
    out = tmp_path / "out.json"
    trace.export(out, format="chrome") if hasattr(trace, "export") else pytest.skip("no export")
    assert json.loads(out.read_text())["allocator_settings"] == made["allocator_settings"]


def test_history_that_skips_requests_uses_completions(opened):
    device = Device(0, 5, 100)
    made = snapshot([device])
    made["device_traces"][0] = [e for e in made["device_traces"][0] if e["action"] != "free_requested"]
    (memory,) = opened(made).ask("memory")
    assert memory["net_bytes"] == sum(device.live.values())


def test_segments_that_come_and_go(opened):
    trace = [
        entry("segment_alloc", 0x1000000, 20 << 20, 100),
        entry("alloc", 0x1000000, 5 << 20, 101),
        entry("segment_map", 0x4000000, 8 << 20, 102),
        entry("free_requested", 0x1000000, 5 << 20, 103),
        entry("free_completed", 0x1000000, 5 << 20, 104),
        entry("segment_free", 0x1000000, 20 << 20, 105),
        entry("segment_unmap", 0x4000000, 8 << 20, 106),
        entry("dream", 1, 2, 107),
    ]
    opening = opened({"segments": [], "device_traces": [trace]})
    rows = list(opening.ask("memory_history"))
    assert [r["reserved_bytes"] for r in rows if r["reserved_bytes"] is not None] == [
        x << 20 for x in (20, 20, 28, 28, 28, 8, 0, 0)
    ]
    assert rows[-1]["action"] == "dream"
    stats = {(r["metric"], r["pool"]): r for r in opening.ask("memory_stats")}
    assert (stats["reserved_bytes", "all"]["peak"], stats["reserved_bytes", "all"]["freed"]) == (28 << 20, 28 << 20)
    assert stats["segment", "all"]["freed"] == 1  # torch does not count what is mapped
    assert (stats["num_device_alloc", "all"]["current"], stats["num_device_free", "all"]["current"]) == (2, 2)


def test_neighbours_of_the_small_pool_that_are_unmapped_at_once(opened):
    """Mapped by 2 MiB each, and given back as one piece of 6 MiB: still of the small pool."""
    first, two = 0x5000000, 2 << 20
    trace = [entry("segment_map", first + k * two, two, 100 + k) for k in range(3)] + [
        entry("segment_unmap", first, 3 * two, 104)
    ]
    stats = {
        (r["metric"], r["pool"]): r for r in opened({"segments": [], "device_traces": [trace]}).ask("memory_stats")
    }
    assert [stats["reserved_bytes", pool]["current"] for pool in ("all", "small_pool", "large_pool")] == [0, 0, 0]
    assert stats["reserved_bytes", "small_pool"]["peak"] == 3 * two


# ---- files that are cut, packed, of others -----------------------------------------------------------------


def test_gzip(opened):
    made = snapshot([Device(0, 1, 30)])
    trace = opened(gzip.compress(pickle.dumps(made)), name="snapshot.pickle.gz")
    assert len(list(trace.ask("memory_history", where="action != 'present'"))) == len(made["device_traces"][0])


def whole_entries(data, cut):
    """Entries of the history that are whole before byte `cut`, by pickletools: SETITEMS of dicts that lie in the second
    list of dicts."""
    count = 0
    for op, _, pos in pickletools.genops(io.BytesIO(data)):
        if pos >= cut:
            break
        count += op.name == "SETITEMS"
    return count


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_file_cut_anywhere_keeps_what_was_whole(opened, protocol):
    made = {"device_traces": [[entry("alloc", 4096 * i, 512, 100 + i) for i in range(60)]], "segments": []}
    data = pickle.dumps(made, protocol=protocol)
    seen = set()
    for cut in range(60, len(data) - 8, 7):
        whole = whole_entries(data, cut)
        try:
            trace = opened(data[:cut])
        except tg.TachographError as error:
            assert whole == 0 and str(error)
            continue
        count = len(list(trace.ask("memory_history")))
        assert whole <= count <= whole + 1, cut  # the last one may lack members
        assert [r["loss"] for r in trace.ask("losses")] == ["cut_end"]
        seen.add(count)
    assert max(seen) >= 58


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_executed_and_the_call_is_named(opened, tmp_path, protocol):
    marker = tmp_path / "it ran"
    made = snapshot([Device(0, 1, 20)])
    made["segments"].append(Runs(marker))
    with pytest.raises(tg.TachographError, match=r"run code \(.*GLOBAL .*open\)"):
        opened(made, protocol=protocol)
    assert not marker.exists()


@pytest.mark.parametrize(
    "code, name",
    [
        (b"cos\nsystem\n", "GLOBAL os.system"),
        (b"(ios\nsystem\n.", "INST os.system"),
        (b"P1\n", "PERSID"),
        (b"\x82\x01", "EXT1"),
        (b"}q\x00h\x00R", "REDUCE"),
        (b"}}b", "BUILD"),
        (b"}Q", "BINPERSID"),
        (b"})\x81", "NEWOBJ"),
    ],
)
def test_opcodes_that_would_run_code_are_refused_by_name(opened, code, name):
    with pytest.raises(tg.TachographError, match=name):
        opened(b"\x80\x02" + code + b".")


PLAIN = {
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "UNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "BINUNICODE8",
    "FLOAT",
    "BINFLOAT",
    "EMPTY_LIST",
    "APPEND",
    "APPENDS",
    "LIST",
    "EMPTY_TUPLE",
    "TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "EMPTY_DICT",
    "DICT",
    "SETITEM",
    "SETITEMS",
    "POP",
    "DUP",
    "MARK",
    "POP_MARK",
    "GET",
    "BINGET",
    "LONG_BINGET",
    "PUT",
    "BINPUT",
    "LONG_BINPUT",
    "MEMOIZE",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
    "BYTEARRAY8",
    "EMPTY_SET",
    "ADDITEMS",
    "FROZENSET",
    "PROTO",
    "STOP",
    "FRAME",
}


@pytest.mark.parametrize("opcode", [op for op in pickletools.opcodes if op.name not in PLAIN], ids=lambda op: op.name)
def test_every_opcode_that_is_not_plain_data_is_refused_by_its_name(opened, opcode):
    """All of Python's opcodes are either plain or in this list: of a newer Python new ones would show here."""
    made = pickle.dumps(snapshot([Device(0, 1, 3)]), protocol=4)[:-1]
    code = opcode.code.encode("latin-1") + b"os\nsystem\n" * 2 + bytes(8)
    with pytest.raises(tg.TachographError, match=rf"run code \({opcode.name}") as raised:
        opened(made + b"(" + code + b".")
    assert raised.value.code == "NOT_A_TRACE"


def test_the_report_calls_it_a_snapshot(opened, tmp_path):
    opened(snapshot([Device(0, 1, 20)]))
    report = tg.open(tmp_path / "snapshot.pickle").report()
    assert "a memory snapshot" in str(report) and "CPU only" not in str(report)


def test_a_newer_protocol_is_named(opened):
    with pytest.raises(tg.TachographError, match="protocol 9.*protocol=4") as raised:
        opened(b"\x80\x09" + pickle.dumps(snapshot([Device(0, 1, 10)]), protocol=4)[2:])
    assert raised.value.status == 4


@pytest.mark.parametrize(
    "content, said",
    [
        (pickle.dumps({"a": 1}), "no memory snapshot"),
        (pickle.dumps([1, 2]), "no memory snapshot"),
        (pickle.dumps({"segments": [], "device_traces": [[]]}), "snapshot is empty"),
        (pickle.dumps({"segments": [], "device_traces": [[]]})[:-3], "cut off before its first segment"),
    ],
)
def test_other_pickles_get_a_sentence(opened, content, said):
    with pytest.raises(tg.TachographError, match=said):
        opened(content)


def test_wild_values(opened):
    odd = [
        entry("alloc", 2**64 - 1, 512, 2**63),
        entry("alloc", -5, -7, -9),
        entry("alloc", 1, 2**62, 10),
        entry("alloc", 2, 2**62, 11),
        {"action": "alloc"},
        {"action": 5, "addr": "text", "size": None, "time_us": 1.5},
        {"frames": [1, 2], "action": "alloc", "addr": []},
    ]
    trace = opened(
        {
            "segments": [{"total_size": -1, "blocks": [{"state": "inactive", "size": 2**63 - 1}] * 3}],
            "device_traces": [odd],
        }
    )
    assert len(list(trace.ask("memory_history"))) == len(odd)
    for question in ("memory", "memory_state", "memory_stacks", "memory_stats", "segments"):
        trace.ask(question)


def test_a_trace_without_a_snapshot_says_what_is_missing(opened, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(
            {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}
        )
    )
    trace = tg.open(path)
    with pytest.raises(tg.TachographError, match="_dump_snapshot"):
        trace.ask("segments")
    with pytest.raises(tg.TachographError, match="profile_memory=True"):
        trace.ask("memory_history")


def as_text(text):
    return b"X" + len(text).to_bytes(4, "little") + text


def wide_dicts():
    """60 000 dicts in one list, each with a member called by the same 60 000 letters: 7 bytes a dict, and 60 KB as
    JSON."""
    return b"\x80\x02]q\x00(" + as_text(b"k" * 60_000) + b"q\x01" + b"}(h\x01Nu" * 60_000 + b"e."


def wide_frames():
    """3000 frames of one file whose name has a million letters, each with a line of its own."""
    head = (
        b"\x80\x02]q\x00("
        + as_text(b"filename")
        + b"q\x01"
        + as_text(b"line")
        + b"q\x02"
        + as_text(b"f" * 1_000_000)
        + b"q\x03"
    )
    return head + b"".join(b"}(h\x01h\x03h\x02J" + i.to_bytes(4, "little") + b"u" for i in range(3000)) + b"e."


@pytest.mark.parametrize("content", [wide_dicts, wide_frames])
def test_a_small_file_takes_little_memory(tmp_path, content):
    path = tmp_path / "wide.pickle"
    path.write_bytes(content())
    program = (
        "import resource, sys, tachograph as tg\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: tg.open(sys.argv[1])\n"
        "except tg.TachographError as e: assert 'no memory snapshot' in str(e), e\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown_kb = int(
        subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout
    )
    assert grown_kb < 200_000  # 3 GB and more when every dict and frame keeps its own copy of the text


def test_keys_in_any_order_and_through_any_memo(opened):
    """The same rows whether the memo numbers objects as they come, leaves some out, or is not used at all; and with
    members in another order."""
    made = snapshot([Device(0, 5, 60)])
    plain = pickle.dumps(made, protocol=4)
    fast = io.BytesIO()
    pickler = pickle.Pickler(fast, protocol=4)
    pickler.fast = True  # no memo
    pickler.dump(made)
    python = io.BytesIO()
    pickle._Pickler(python, protocol=2).dump(made)
    turned = {**made, "device_traces": [[dict(reversed(list(e.items()))) for e in d] for d in made["device_traces"]]}
    expected = opened(plain).ask("memory_history").to_dicts()
    assert expected
    for content in (fast.getvalue(), python.getvalue(), pickletools.optimize(plain), pickle.dumps(turned, protocol=4)):
        assert opened(content).ask("memory_history").to_dicts() == expected


def told(e):
    """What a row must say beside its times and totals, from the entry."""
    said = {key: e[key] for key in ("user_metadata", "compile_context") if e.get(key) not in (None, "", "N/A")}
    if e.get("pool_id", (0, 0)) != (0, 0):
        said["pool"] = str(e["pool_id"])
    if e.get("frames"):
        said["Call stack"] = text(e["frames"])
    return {**said, "stream": e.get("stream", 0), "Addr": e.get("addr", 0)}


def uneven_entries(seed, count):
    """Entries most of whose members are as in the entry before: some are missing, unknown, of another type, in another
    order, texts of their own."""
    r = random.Random(seed)
    made, stacks = [], [[FRAMES[r.randrange(40)] for _ in range(n)] for n in (1, 2, 5, 5, 70)]
    kept = {
        "stream": 0,
        "compile_context": "N/A",
        "user_metadata": "",
        "pool_id": (0, 0),
        "addr": 4096,
        "frames": stacks[0],
    }
    choices = {
        "stream": [0, 0, 7, 300, 1 << 40],
        "compile_context": ["N/A", "0/1"],
        "user_metadata": ["", "said", "another"],
        "frames": [[], *stacks],
        "pool_id": [(0, 0), (0, 3), (3, 0), (0, 300), (70000, 1 << 40)],
        "addr": [0, 5, 256, 4096, 1 << 31, 1 << 47, (1 << 63) - 1],
    }
    for i in range(count):
        for key, values in choices.items():
            if r.random() < 0.2:
                kept[key] = r.choice(values)
        e = {
            "action": r.choice(["alloc", "segment_map", "user_defined"]),
            "size": r.choice([0, 512, 1 << 20]),
            "time_us": 1_700_000_000_000_000 + i,
            **kept,
        }
        e["frames"] = list(e["frames"])
        if r.random() < 0.3:
            e["pool_id"], e["compile_context"] = (
                tuple(int(n) for n in e["pool_id"]),
                "".join(list(e["compile_context"])),
            )
        if r.random() < 0.1:
            del e[r.choice(list(choices))]
        if r.random() < 0.1:
            e[r.choice(["extra", "more"])] = r.choice(
                [1, None, True, 2.5, "x", [], [3], {}, {"action": "alloc"}, (1, 2, 3), "y" * 300]
            )
        if r.random() < 0.1:
            e = dict(r.sample(list(e.items()), len(e)))
        made.append(e)
    return made


def in_small_frames(made, size):
    class Framer(pickle._Framer):
        _FRAME_SIZE_TARGET = size

    out = io.BytesIO()
    pickler = pickle._Pickler(out, protocol=4)
    pickler.framer = Framer(pickler.write)
    pickler.write, pickler._write_large_bytes = pickler.framer.write, pickler.framer.write_large_bytes
    pickler.dump(made)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(6))
def test_what_a_row_says_does_not_come_from_the_row_before(opened, seed):
    entries = uneven_entries(seed, 2300)
    made = {"segments": [], "device_traces": [entries[:2100], entries[2100:]]}
    ways = [pickle.dumps(made, protocol=p) for p in range(2, 6)]
    for content in [*ways, pickletools.optimize(ways[2]), in_small_frames(made, 40)]:
        trace = opened(content)
        rows = trace.sql(
            "SELECT args FROM marks WHERE name IN ('[memory]', 'segment_map', 'user_defined') ORDER BY ts_ns"
        ).to_dicts()
        said = [
            {
                key: value
                for key, value in json.loads(r["args"]).items()
                if key in ("stream", "pool", "user_metadata", "compile_context", "Addr", "Call stack")
            }
            for r in rows
        ]
        assert said == [told(e) for e in entries]
        assert trace.ask("losses").to_dicts() == []


def test_a_key_twice_in_a_dict_counts_where_it_stands_last(opened):
    def key(name):
        return b"X" + len(name).to_bytes(4, "little") + name

    def row(first, second):
        return b"}" + b"(" + b"h\x01h\x02" + b"h\x03K" + bytes([first]) + b"h\x03K" + bytes([second]) + b"u"

    texts = b"".join(key(name) + b"\x94" for name in (b"device_traces", b"action", b"user_defined", b"stream"))
    pairs = [(1, 2), (1, 2), (3, 2), (3, 2), (1, 5), (4, 5), (4, 4)]
    for memo in (b"", b"\x94"):  # rows that the memo knows, and rows that it does not
        rows = b"".join(row(*p).replace(b"}", b"}" + memo) for p in pairs)
        content = (
            b"\x80\x04" + texts + b"00" + b"00" + b"}" + memo + b"h\x00]" + memo + b"]" + memo + b"(" + rows + b"eas."
        )
        assert [a["stream"] for a in args_of(opened(content), "user_defined")] == [second for _, second in pairs]


# ---- what each torch writes --------------------------------------------------------------------------------


def args_of(trace, name="[memory]"):
    return [
        json.loads(r["args"])
        for r in trace.sql(f"SELECT args FROM marks WHERE name = '{name}' ORDER BY ts_ns, id").to_dicts()
    ]


def test_times_count_from_the_first_and_the_base_is_the_wall_clock(opened):
    trace = opened(
        {
            "segments": [],
            "device_traces": [
                [entry("alloc", 512, 512, 1_700_000_000_000_100)],
                [entry("alloc", 512, 512, 1_700_000_000_000_040)],
            ],
            "external_annotations": [
                {"name": "step", "stage": "START", "device": 0, "time_us": 1_700_000_000_000_030},
                {"name": "step", "stage": "END", "device": 0, "time_us": 1_700_000_000_000_200},
            ],
        }
    )
    assert base_ns(trace) == 1_700_000_000_000_000_000  # a multiple of 64 us
    assert [(r["device"], r["ts_ns"]) for r in trace.ask("memory_history", sort="device asc")] == [
        ("GPU0", 100_000),
        ("GPU1", 40_000),
    ]
    (step,) = trace.ask("events", where="category = 'user_annotation'")
    assert (step["start_ns"], step["dur_ns"]) == (30_000, 170_000)


def test_pinned_memory_of_the_host_is_no_device(opened):
    """torch 2.15: host_traces is one list, and its segments are of device -1."""
    segment = {
        **Device(0, 1, 5).segment(),
        "device": -1,
        "address": 0x1000,
        "total_size": 4096,
        "allocated_size": 4096,
        "active_size": 4096,
        "requested_size": 4000,
        "blocks": [
            {"address": 0x1000, "size": 4096, "requested_size": 4000, "state": "active_allocated", "frames": FRAMES[:2]}
        ],
    }
    host = [entry("segment_alloc", 0x1000, 4096, 500, FRAMES[:2]), entry("alloc", 0x1000, 4096, 500, FRAMES[:2])]
    trace = opened(
        {
            "segments": [Device(0, 1, 5).segment()],
            "device_traces": [[entry("alloc", 0x9000, 512, 100)], []],
            "allocator_settings": {},
            "external_annotations": [],
            "host_segments": [segment],
            "host_traces": host,
        }
    )
    assert {r["device"] for r in trace.ask("memory_history")} == {"GPU0", "CPU"}
    assert [(r["action"], r["bytes"], r["stack"]) for r in trace.ask("memory_history", device="CPU")] == [
        (e["action"], 4096, text(FRAMES[:2])) for e in host
    ]
    (row,) = [r for r in trace.ask("segments") if r["device"] == "CPU"]
    assert (row["total_bytes"], row["requested_bytes"], row["blocks"]) == (4096, 4000, 1)
    assert [(r["address"], r["bytes"]) for r in trace.ask("memory_state", device="CPU", at="end")] == [("0x1000", 4096)]


def test_a_history_of_the_cpu_is_called_so(opened):
    trace = opened({**snapshot([Device(0, 1, 20)]), "device_type": "cpu"})
    for question in (
        "memory_history",
        "memory_state",
        "memory_stacks",
        "memory_stats",
        "segments",
        "memory",
        "memory_blocks",
    ):
        assert {r["device"] for r in trace.ask(question)} == {"CPU"}, question


def test_only_caching_allocators_round(opened):
    """1200 bytes are three times 512, also by halves of a power of two; 3 MiB and one byte go up to 512 bytes, quarters
    or halves. The CPU rounds nothing."""

    def allocated(settings=None, **more):
        history = [
            entry("alloc", 0x1000, 1200, 1),
            entry("free_requested", 0x1000, 1200, 2),
            entry("free_completed", 0x1000, 1200, 3),
            entry("alloc", 0x9000, 3 * MIB + 1, 4),
            entry("free_requested", 0x9000, 3 * MIB + 1, 5),
            entry("free_completed", 0x9000, 3 * MIB + 1, 6),
        ]
        rows = opened({"segments": [], "device_traces": [history], "allocator_settings": settings or {}, **more}).ask(
            "memory_stats"
        )
        return next(r["allocated"] for r in rows if (r["metric"], r["pool"]) == ("allocated_bytes", "all"))

    assert allocated() == 1536 + 3 * MIB + 512
    divisions = {str(1 << k): 4 if k == 1 else 0 for k in range(16)}  # from 2 to 4 MiB in steps of 512 KiB
    assert allocated({"roundup_power2_divisions": divisions}) == 1536 + 3 * MIB + MIB // 2
    assert allocated({"roundup_power2_divisions": {str(1 << k): 2 for k in range(16)}}) == 1536 + 4 * MIB
    assert allocated(device_type="cpu") == 1200 + 3 * MIB + 1


def test_what_entries_say_beside(opened):
    said = {
        "pool_id": (0, 3),
        "compile_context": "0/1",
        "user_metadata": '{"layer":3}',
        "internal_metadata": "mallocWithAddress",
        "forward_frames": ['  File "a.py", line 3, in f\n', "    y = x * 2\n"],
    }
    trace = opened(
        {
            "segments": [],
            "device_traces": [
                [
                    entry("alloc", 512, 512, 10, **said),
                    entry("alloc", 1024, 512, 11),
                    entry("annotate", 512, 0, 12, FRAMES[:1], user_metadata="packed"),
                    entry("alloc", 2048, 512, 13, **said),
                ]
            ],
        }
    )
    first, plain, last = args_of(trace)
    assert {
        k: first[k] for k in ("pool", "compile_context", "user_metadata", "internal_metadata", "forward_frames")
    } == {
        "pool": "(0, 3)",
        "compile_context": "0/1",
        "user_metadata": '{"layer":3}',
        "internal_metadata": "mallocWithAddress",
        "forward_frames": '  File "a.py", line 3, in f\n    y = x * 2\n',
    }
    assert not {"pool", "compile_context", "user_metadata", "internal_metadata", "forward_frames"} & set(plain)
    assert {k: v for k, v in last.items() if k not in ("Addr", "Total Allocated")} == {
        k: v for k, v in first.items() if k not in ("Addr", "Total Allocated")
    }
    (note,) = args_of(trace, "annotate")
    assert note["user_metadata"] == "packed"
    assert [
        (r["action"], r["address"], r["stack"]) for r in trace.ask("memory_history", where="action = 'annotate'")
    ] == [("annotate", "0x200", text(FRAMES[:1]))]


def test_frames_of_compiled_code_name_the_line_that_was_written(opened):
    compiled = {
        "filename": "/tmp/x/graph_1.py",
        "line": 40,
        "name": "forward",
        "fx_node_op": "call_function",
        "fx_node_name": "linear",
        "fx_node_target": "x",
        "fx_original_trace": '  File "/src/train.py", line 7, in main\n    model(x)\n  File "/src/model.py", line 12, in forward\n    return self.fc(x)\n',
    }
    odd = {**compiled, "fx_original_trace": 'File "/src/model.py", line '}
    trace = opened(
        {
            "segments": [],
            "device_traces": [
                [entry("alloc", 512, 512, 10, [compiled, FRAMES[0]]), entry("alloc", 1024, 512, 11, [odd])]
            ],
        }
    )
    assert [r["stack"] for r in trace.ask("memory_history")] == [
        "/src/model.py(12): forward;/tmp/x/graph_1.py(40): forward [linear];" + text(FRAMES[:1]),
        "/tmp/x/graph_1.py(40): forward [linear]",
    ]


@pytest.mark.parametrize("where", ["top", "list", "settings"])
def test_a_history_that_was_full_is_a_loss(opened, where):
    made = snapshot([Device(0, 1, 20)])
    if where == "settings":
        made["allocator_settings"]["trace_alloc_overflowed"] = True
    else:
        made["trace_alloc_overflowed"] = True if where == "top" else [False, True]
    trace = opened(made)
    assert [(r["loss"], r["count"]) for r in trace.ask("losses")] == [("cut_history", 1)]
    made = {**snapshot([Device(0, 1, 20)]), "trace_alloc_overflowed": False if where == "top" else [False, False]}
    assert not list(opened(made).ask("losses"))


def test_what_torch_saves(opened, tmp_path):
    torch = pytest.importorskip("torch")
    made = snapshot([Device(0, 1, 40)])
    expected = opened(made).ask("memory_history").to_dicts()
    for name, way in (("new.pt", {}), ("old.pt", {"_use_new_zipfile_serialization": False})):
        torch.save(made, tmp_path / name, **way)
        assert tg.open(tmp_path / name).ask("memory_history").to_dicts() == expected
        assert (
            opened(gzip.compress((tmp_path / name).read_bytes()), name + ".gz").ask("memory_history").to_dicts()
            == expected
        )
    torch.save({"weight": torch.ones(3)}, tmp_path / "checkpoint.pt")
    with pytest.raises(tg.TachographError, match="run code .*torch._utils._rebuild_tensor_v2"):
        tg.open(tmp_path / "checkpoint.pt")


def test_other_archives_get_a_sentence(opened):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("snapshot.pickle", pickle.dumps(snapshot([Device(0, 1, 5)])))
    whole = packed.getvalue()
    for data in (whole, whole[:20], whole[:33]):
        with pytest.raises(tg.TachographError, match="zip archive, but not of torch.save"):
            opened(data)


def test_cut_in_the_hosts_history(opened):
    made = {
        "segments": [],
        "device_traces": [[entry("alloc", 4096, 512, 100)]],
        "host_segments": [],
        "host_traces": [entry("alloc", 8192, 512, 100 + i) for i in range(5)],
    }
    data = pickle.dumps(made, protocol=4)
    trace = opened(data[:-30])
    assert {r["device"] for r in trace.ask("memory_history")} == {"GPU0", "CPU"}
