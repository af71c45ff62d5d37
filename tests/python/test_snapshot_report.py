"""The report of a memory snapshot, against the simulated allocator that made it."""

import pickle

import snapshots
import tachograph as tg


def opened(tmp_path, device):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(snapshots.snapshot([device])))
    return tg.open(tmp_path / "a.pickle")


def test_report_names_the_peak_what_ran_out_and_who_allocated(tmp_path):
    device = snapshots.Device(0, 3, 400)
    ooms = sum(e["action"] == "oom" for e in device.trace)
    assert ooms > 1
    with opened(tmp_path, device) as trace:
        page = " ".join(trace.report().split())
        (peak,) = trace.ask("fragmentation")["peak_allocated"]
        stacks = trace.ask("memory_stacks", sort="peak_bytes", limit=1)
    assert f"GPU0: {peak / 1e6:.1f} MB in use at the peak, 537 MB held of the device" in page  # a segment of 512 MiB
    assert f"; out of memory {ooms} times" in page
    assert stacks["stack"][0].split(";")[0] in page
    assert "steps nor operators" not in page


def test_without_history_all_blocks_are_there_at_once(tmp_path):
    device = snapshots.Device(0, 3, 0)
    blocks = sum(device.live.values())
    with opened(tmp_path, device) as trace:
        (row,) = trace.ask("fragmentation")
        page = trace.report()
    assert row["allocated"] == row["peak_allocated"] == blocks
    assert row["unused"] == row["most_unused"] == device.segment_bytes - blocks
    assert "the\n          snapshot has no history" in page or "the snapshot has no history" in page
    assert "out of memory" not in page
