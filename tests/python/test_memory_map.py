"""memory_map against a brute force over the history of a snapshot: which blocks are in use after each event."""

import pickle

import pytest
import snapshots
import tachograph as tg


@pytest.fixture(scope="module", params=[1, 2, 3])
def trace(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("map") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshots.snapshot([snapshots.Device(k, request.param + k, 300) for k in (0, 1)])))
    with tg.open(path) as trace:
        yield trace


def in_use(trace, device):
    """After each event: {address: (bytes, event that took it)}; and of each block (event, address, bytes): until."""
    alive, after, ended = {}, [], {}
    for row in trace.ask("memory_history", device=device):
        if row["action"] in ("alloc", "present", "free") and row["address"] in alive:
            size, event = alive.pop(row["address"])
            ended[event, row["address"], size] = row["event"]
        if row["action"] in ("alloc", "present"):
            alive[row["address"]] = (row["bytes"], row["event"])
        after.append(dict(alive))
    for address, (size, event) in alive.items():
        ended[event, address, size] = None
    return after, ended


@pytest.mark.parametrize("device", ["GPU0", "GPU1"])
@pytest.mark.parametrize(("start", "end"), [(0, None), (40, 160), (7, 8)])
def test_blocks_of_a_range(trace, device, start, end):
    after, ended = in_use(trace, device)
    last = len(after) if end is None else end

    def area(block):
        until = len(after) if ended[block] is None else ended[block]
        return block[2] * max(0, min(until, last) - max(block[0], start))

    given = {"device": device, "first": start, "past": "end" if end is None else end}
    rows = trace.ask("memory_map", blocks=100000, **given)
    shown = {(r["event"], r["address"], r["bytes"]): r["until"] for r in rows}
    assert shown == {block: until for block, until in ended.items() if area(block)}
    assert [r["event"] for r in rows] == sorted(r["event"] for r in rows)
    few = [(r["event"], r["address"], r["bytes"]) for r in trace.ask("memory_map", blocks=5, **given)]
    assert sorted(map(area, few)) == sorted(filter(None, map(area, ended)))[-5:]


@pytest.mark.parametrize("parts", [1, 7, 1000])
def test_levels_are_the_most_of_each_column(trace, parts):
    after, _ = in_use(trace, "GPU1")
    level = [sum(size for size, _ in blocks.values()) for blocks in after]
    rows = list(trace.ask("memory_map", by="level", device="GPU1", parts=parts))
    assert len(rows) == min(parts, len(level))
    begin = 0
    for row in rows:
        assert row["bytes"] == max(level[begin : row["until"]]) == level[row["event"]]
        assert row["event"] == begin + level[begin : row["until"]].index(row["bytes"])
        begin = row["until"]
    assert begin == len(level)


def test_arguments_that_are_none_are_refused(trace):
    for wrong in ({"by": "x"}, {"first": "-1"}, {"blocks": 0}, {"parts": 100001}, {"past": "later"}):
        with pytest.raises(tg.TachographError):
            trace.ask("memory_map", **wrong)
