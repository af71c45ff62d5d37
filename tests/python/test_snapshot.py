"""Memory snapshots: every protocol, every cut, nothing executed, and numbers against a simulated allocator."""
import gzip
import io
import json
import pickle
import pickletools
import subprocess
import sys

import pytest
import tachograph as tg
from snapshots import FRAMES, Device, entry, snapshot

NO_DEVICE = None


@pytest.fixture
def opened(tmp_path):
    def opened(content, name="snapshot.pickle", protocol=4):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
        return tg.open(path)
    return opened


def text(frames):
    return ";".join(f"{f['filename']}({f['line']}): {f['name']}" for f in frames) if frames else None


def replay(device, until=None):
    """(blocks in use as {address: (size, event, frames)}, most bytes in use, event after which) after `until` events of the history, by hand."""
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
        assert [r["bytes"] for r in rows if r["action"] != "snapshot"] == [e["size"] for e in device if e["action"] != "snapshot"]
        assert [r["address"] for r in rows if r["action"] == "alloc"] == [hex(e["addr"]) for e in device if e["action"] == "alloc"]
        assert [r["ts_ns"] for r in rows] == [e["time_us"] * 1000 for e in device]
        assert [r["stack"] for r in rows if r["action"] == "alloc"] == [text(e["frames"]) for e in device if e["action"] == "alloc"]
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
    for moment, expected in (("end", live), ("peak", replay(device, at)[0]), (str(old + 100), replay(device, old + 100)[0])):
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
    assert {k: v for k, v in ((r["stack"], (r["allocations"], r["alloc_bytes"])) for r in rows) if k in stacks} == stacks
    assert sum(r["peak_bytes"] for r in rows) == most and sum(r["end_bytes"] for r in rows) == sum(device.live.values())


@pytest.mark.parametrize("seed", range(3))
def test_times_later_and_twice_as_long(opened, seed):
    made = snapshot([Device(0, seed, 150), Device(1, seed + 50, 60)])
    first = made["device_traces"][0][0]["time_us"]
    before = opened(made, "a.pickle")
    tables = {q: before.ask(q, **args).to_dicts() for q, args in (("memory_state", {"at": "peak"}), ("memory_stacks", {}), ("memory_stats", {}),
                                                                  ("segments", {}), ("memory_history", {}))}
    for trace in made["device_traces"]:
        for e in trace:
            e["time_us"] = first + 5_000_000 + 2 * (e["time_us"] - first)
    after = opened(made, "b.pickle")
    for row in tables["memory_history"]:
        if row["action"] != "present":
            row["ts_ns"] = 1000 * (first + 5_000_000) + 2 * (row["ts_ns"] - 1000 * first)
    got = after.ask("memory_history").to_dicts()
    assert [r for r in got if r["action"] != "present"] == [r for r in tables["memory_history"] if r["action"] != "present"]
    assert [r["address"] for r in got if r["action"] == "present"] == [r["address"] for r in tables["memory_history"] if r["action"] == "present"]
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
    all_bytes = rows["allocated_bytes", "all"]
    assert (all_bytes["current"], all_bytes["peak"]) == (sum(device.live.values()), most)
    assert (all_bytes["allocated"], all_bytes["freed"]) == (present + sum(taken), sum(given))
    assert rows["allocation", "all"]["allocated"] == old + len(taken) and rows["allocation", "all"]["freed"] == len(given)
    small = [s for s in taken if s <= 1 << 20]
    assert rows["allocation", "small_pool"]["allocated"] >= len(small) > 0
    assert rows["num_ooms", "all"]["current"] == sum(e["action"] == "oom" for e in device.trace)
    assert rows["reserved_bytes", "all"]["current"] == device.segment_bytes
    assert rows["active_bytes", "all"]["current"] == sum(device.live.values())


def test_segments_blocks_and_pools(opened):
    device = Device(0, 3, 150)
    made = snapshot([device])
    trace = opened(made)
    segment = made["segments"][0]
    free = [b["size"] for b in segment["blocks"] if b["state"] == "inactive"]
    (row,) = trace.ask("segments")
    assert (row["address"], row["kind"], row["pool"], row["stack"]) == (hex(device.base), "large", "(0, 0)", text(FRAMES[:3]))
    assert (row["total_bytes"], row["allocated_bytes"], row["requested_bytes"]) == (segment["total_size"], segment["allocated_size"], segment["requested_size"])
    assert (row["free_bytes"], row["largest_free_bytes"], row["blocks"]) == (sum(free), max(free), len(segment["blocks"]))
    assert row["fragmentation_pct"] == pytest.approx(100 * (sum(free) - max(free)) / sum(free))
    blocks = list(trace.ask("segments", by="block", sort="address asc"))
    assert [(int(b["address"], 16), b["total_bytes"], b["kind"]) for b in blocks] == [(b["address"], b["size"], b["state"]) for b in segment["blocks"]]
    (pool,) = trace.ask("segments", by="pool")
    assert pool["total_bytes"] == segment["total_size"] and pool["address"] == "1"


def test_settings_and_annotations_are_kept(opened, tmp_path):
    made = snapshot([Device(0, 4, 20)])
    trace = opened(made)
    assert [(r["name"], r["dur_ns"]) for r in trace.ask("events", where="category = 'user_annotation'")] == [("step", 490_000)]
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
    trace = [entry("segment_alloc", 0x1000000, 20 << 20, 100), entry("alloc", 0x1000000, 5 << 20, 101), entry("segment_map", 0x4000000, 8 << 20, 102),
             entry("free_requested", 0x1000000, 5 << 20, 103), entry("free_completed", 0x1000000, 5 << 20, 104),
             entry("segment_free", 0x1000000, 20 << 20, 105), entry("segment_unmap", 0x4000000, 8 << 20, 106), entry("dream", 1, 2, 107)]
    opening = opened({"segments": [], "device_traces": [trace]})
    rows = list(opening.ask("memory_history"))
    assert [r["reserved_bytes"] for r in rows if r["reserved_bytes"] is not None] == [x << 20 for x in (20, 20, 28, 28, 28, 8, 0, 0)]
    assert rows[-1]["action"] == "dream"
    stats = {(r["metric"], r["pool"]): r for r in opening.ask("memory_stats")}
    assert (stats["reserved_bytes", "all"]["peak"], stats["segment", "all"]["freed"]) == (28 << 20, 2)


# ---- files that are cut, packed, of others ------------------------------------------------------------------------------------------------


def test_gzip(opened):
    made = snapshot([Device(0, 1, 30)])
    trace = opened(gzip.compress(pickle.dumps(made)), name="snapshot.pickle.gz")
    assert len(list(trace.ask("memory_history", where="action != 'present'"))) == len(made["device_traces"][0])


def whole_entries(data, cut):
    """Entries of the history that are whole before byte `cut`, by pickletools: SETITEMS of dicts that lie in the second list of dicts."""
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


@pytest.mark.parametrize("code, name", [(b"cos\nsystem\n", "GLOBAL os.system"), (b"(ios\nsystem\n.", "INST os.system"), (b"P1\n", "PERSID"), (b"\x82\x01", "EXT1"),
                                        (b"}q\x00h\x00R", "REDUCE"), (b"}}b", "BUILD"), (b"}Q", "BINPERSID"), (b"})\x81", "NEWOBJ")])
def test_opcodes_that_would_run_code_are_refused_by_name(opened, code, name):
    with pytest.raises(tg.TachographError, match=name):
        opened(b"\x80\x02" + code + b".")


def test_a_newer_protocol_is_named(opened):
    with pytest.raises(tg.TachographError, match="protocol 9.*protocol=4") as raised:
        opened(b"\x80\x09" + pickle.dumps(snapshot([Device(0, 1, 10)]), protocol=4)[2:])
    assert raised.value.status == 4


@pytest.mark.parametrize("content, said", [(pickle.dumps({"a": 1}), "no memory snapshot"), (pickle.dumps([1, 2]), "no memory snapshot"),
                                           (pickle.dumps({"segments": [], "device_traces": [[]]}), "snapshot is empty")])
def test_other_pickles_get_a_sentence(opened, content, said):
    with pytest.raises(tg.TachographError, match=said):
        opened(content)


def test_wild_values(opened):
    odd = [entry("alloc", 2 ** 64 - 1, 512, 2 ** 63), entry("alloc", -5, -7, -9), entry("alloc", 1, 2 ** 62, 10), entry("alloc", 2, 2 ** 62, 11),
           {"action": "alloc"}, {"action": 5, "addr": "text", "size": None, "time_us": 1.5}, {"frames": [1, 2], "action": "alloc", "addr": []}]
    trace = opened({"segments": [{"total_size": -1, "blocks": [{"state": "inactive", "size": 2 ** 63 - 1}] * 3}], "device_traces": [odd]})
    assert len(list(trace.ask("memory_history"))) == len(odd)
    for question in ("memory", "memory_state", "memory_stacks", "memory_stats", "segments"):
        trace.ask(question)


def test_a_trace_without_a_snapshot_says_what_is_missing(opened, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}))
    trace = tg.open(path)
    with pytest.raises(tg.TachographError, match="_dump_snapshot"):
        trace.ask("segments")
    with pytest.raises(tg.TachographError, match="profile_memory=True"):
        trace.ask("memory_history")


def as_text(text):
    return b"X" + len(text).to_bytes(4, "little") + text


def wide_dicts():
    """60 000 dicts in one list, each with a member called by the same 60 000 letters: 7 bytes a dict, and 60 KB as JSON."""
    return b"\x80\x02]q\x00(" + as_text(b"k" * 60_000) + b"q\x01" + b"}(h\x01Nu" * 60_000 + b"e."


def wide_frames():
    """3000 frames of one file whose name has a million letters, each with a line of its own."""
    head = b"\x80\x02]q\x00(" + as_text(b"filename") + b"q\x01" + as_text(b"line") + b"q\x02" + as_text(b"f" * 1_000_000) + b"q\x03"
    return head + b"".join(b"}(h\x01h\x03h\x02J" + i.to_bytes(4, "little") + b"u" for i in range(3000)) + b"e."


@pytest.mark.parametrize("content", [wide_dicts, wide_frames])
def test_a_small_file_takes_little_memory(tmp_path, content):
    path = tmp_path / "wide.pickle"
    path.write_bytes(content())
    program = ("import resource, sys, tachograph as tg\n"
               "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
               "try: tg.open(sys.argv[1])\n"
               "except tg.TachographError as e: assert 'no memory snapshot' in str(e), e\n"
               "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)")
    grown_kb = int(subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True).stdout)
    assert grown_kb < 200_000  # 3 GB and more when every dict and frame keeps its own copy of the text


def test_keys_in_any_order_and_through_any_memo(opened):
    """The same rows whether the memo numbers objects as they come, leaves some out, or is not used at all; and with members in another order."""
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
