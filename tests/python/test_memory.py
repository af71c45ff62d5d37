"""tachograph.memory: allocations whose sizes are known, because the test makes the tensors."""

import pickle
import time

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg

KILO = 250  # floats in 1000 bytes


def tensor(kilobytes):
    return torch.empty(kilobytes * KILO)


def test_history_sees_what_was_allocated_and_freed():
    with tg.memory.history(device="cpu") as history:
        kept = tensor(300)
        passing = tensor(500)
        del passing
        also = tensor(700)
    big = [(entry.action, entry.size) for entry in history.entries if entry.size in (300_000, 500_000, 700_000)]
    assert big == [("alloc", 300_000), ("alloc", 500_000), ("free", 500_000), ("alloc", 700_000)]
    assert sorted(entry.size for entry in history.live if entry.size >= 300_000) == [300_000, 700_000]
    first = next(entry for entry in history.entries if entry.size == 300_000)
    assert first.op == "aten::empty" and first.addr == kept.data_ptr()
    assert also.numel() == 700 * KILO
    totals = history.summary()
    assert "1.00 MB" in next(line for line in totals.splitlines() if line.startswith("current"))
    assert "1.50 MB" in next(line for line in totals.splitlines() if line.startswith("total allocated"))
    assert "500.00 kB" in next(line for line in totals.splitlines() if line.startswith("total freed"))


def test_frames_name_the_line_that_asked():
    with tg.memory.history(device="cpu") as history:
        kept = tensor(300)
    entry = next(entry for entry in history.entries if entry.size == 300_000)
    assert kept.numel() and [frame.name for frame in entry.frames[:2]] == [
        "tensor",
        "test_frames_name_the_line_that_asked",
    ]
    assert (
        entry.frames[0].filename.endswith("test_memory.py")
        and entry.frames[0].line == tensor.__code__.co_firstlineno + 1
    )


def test_the_oldest_entries_are_dropped_and_counted(tmp_path):
    with tg.memory.history(max_entries=100, device="cpu", stacks=False) as history:
        kept = [torch.empty(8) for _ in range(150)]
    assert len(kept) == 150 and [(entry.action, entry.size) for entry in history.entries] == [("alloc", 32)] * 100
    assert [entry.addr for entry in history.entries] == [t.data_ptr() for t in kept[50:]]
    assert history.dropped >= 50
    history.dump(tmp_path / "mem.pickle")
    snapshot = pickle.loads((tmp_path / "mem.pickle").read_bytes())
    assert snapshot["dropped"] == history.dropped and len(snapshot["device_traces"][0]) == 100
    assert f"{history.dropped} entries dropped" in history.summary()
    [loss] = tg.open(tmp_path / "mem.pickle").ask("losses").to_dicts()
    assert (loss["loss"], loss["count"]) == ("skipped_overwritten", history.dropped)


def test_the_pickle_has_the_layout_of_torchs_own(tmp_path):
    with tg.memory.history(device="cpu") as history:
        kept = tensor(300)
        del kept
        alive = tensor(400)
    tg.memory.dump(tmp_path / "mem.pickle")
    snapshot = pickle.loads((tmp_path / "mem.pickle").read_bytes())
    assert {"segments", "device_traces", "allocator_settings", "external_annotations"} <= set(snapshot)
    entry = next(e for e in snapshot["device_traces"][0] if e["size"] == 300_000)
    assert {"action", "addr", "size", "stream", "time_us", "frames"} <= set(entry) and entry["action"] == "alloc"
    assert {"filename", "line", "name"} == set(entry["frames"][0])
    block = next(b for s in snapshot["segments"] for b in s["blocks"] if b["size"] == 400_000)
    assert block["state"] == "active_allocated" and block["address"] == alive.data_ptr()
    assert history.snapshot == snapshot
    from torch.cuda import _memory_viz

    assert "TOTAL MEM: 390.6KiB" in _memory_viz.trace(snapshot)  # torch's own reader takes it


def test_a_history_of_the_cpu_opens_as_one_with_wall_clock_times(tmp_path):
    before = time.time_ns()
    with tg.memory.history(device="cpu") as history:
        kept = tensor(300)
    after = time.time_ns()
    history.dump(tmp_path / "mem.pickle")
    trace = tg.open(tmp_path / "mem.pickle")
    (row,) = trace.ask("memory_history", where="bytes = 300000")
    base = int(trace.ask("overview", where='quantity == "base_ns"')["value"][0])
    assert row["device"] == "CPU" and int(row["address"], 16) == kept.data_ptr()
    assert before - 1000 <= base + row["ts_ns"] <= after and 0 <= row["ts_ns"] <= after - before + 64_000
    assert row["stack"].split(";")[0] == "aten::empty"  # an operator has no line
    assert {r["device"] for r in trace.ask("segments")} == {"CPU"}


def test_what_is_alive_is_in_the_snapshot_even_when_its_allocation_was_dropped():
    with tg.memory.history(max_entries=10, device="cpu", stacks=False) as history:
        kept = tensor(300)
        passing = [torch.empty(8) for _ in range(50)]
    assert passing and 300_000 not in [e["size"] for e in history.snapshot["device_traces"][0]]
    assert [s["address"] for s in history.snapshot["segments"] if s["total_size"] == 300_000] == [kept.data_ptr()]


def test_history_ends_with_an_exception():
    with pytest.raises(KeyError):
        with tg.memory.history(device="cpu") as history:
            kept = tensor(300)
            raise KeyError
    assert any(entry.size == 300_000 for entry in history.entries) and kept.numel()
    with tg.memory.history(device="cpu"):
        pass  # the first is over
    with pytest.raises(ValueError):
        tg.memory.history(max_entries=0)


def test_peak_of_the_process_sees_what_came_and_went():
    tg.memory.reset_peak("cpu")
    before = tg.memory.peak("cpu")
    assert before.of == "resident in the process"
    torch.ones(20_000_000)  # 80 MB, touched
    after = tg.memory.peak("cpu")
    assert after.bytes - before.bytes > 40_000_000
    tg.memory.reset_peak("cpu")
    if tg.memory.peak("cpu").bytes < after.bytes:  # the system lets a process reset it
        assert after.bytes - tg.memory.peak("cpu").bytes > 40_000_000
    assert "MB resident" in str(after) or "GB resident" in str(after)


def test_stages_of_a_step_are_distinguished():
    model = torch.nn.Sequential(
        torch.nn.Linear(500, 1000, bias=False), torch.nn.ReLU(), torch.nn.Linear(1000, 10, bias=False)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    result = tg.memory.stages(
        model, torch.nn.functional.mse_loss, optimizer, (torch.randn(100, 500), torch.randn(100, 10)), device="cpu"
    )
    assert [row.name for row in result.rows] == [
        "Start",
        "After data",
        "After forward",
        "After loss",
        "After backward",
        "After optimizer step",
        "After zero_grad",
    ]
    delta = {row.name: row.delta for row in result.rows}
    parameters = 4 * (500 * 1000 + 1000 * 10)
    activations = 4 * 100 * 1000
    assert delta["After data"] == 0  # it was there already
    # The first layer's output is not needed once ReLU has its own; the model's output is 4 kB.
    assert delta["After forward"] == pytest.approx(activations + 4000, abs=1000)
    assert delta["After backward"] == pytest.approx(parameters - activations, abs=10_000)
    assert delta["After optimizer step"] == pytest.approx(parameters, abs=1000)  # the momentum buffers
    assert delta["After zero_grad"] == pytest.approx(-parameters, abs=1000)
    assert result.rows[0].allocated >= parameters
    assert max(result.peaks[name] for name in ("forward", "loss", "backward", "optimizer")) == result.peaks["overall"]
    assert result.peaks["forward"] - result.rows[1].allocated >= 2 * activations  # both outputs at once
    figures = result.result(model)
    assert list(figures) == [
        "forward",
        "backward",
        "optimizer",
        "peak",
        "peak_gb",
        "parameters_gb",
        "fragmentation_ratio",
    ]
    assert (
        figures["parameters_gb"] == parameters / 1e9
        and figures["peak"] == result.peaks["overall"] / 1e9
        and figures["fragmentation_ratio"] is None
    )
    assert "activations" in str(result) and "peaks on cpu" in str(result)


def test_summary_without_a_history_says_what_is_known(monkeypatch):
    monkeypatch.setattr(tg.memory, "_last", None)
    assert "resident" in tg.memory.summary("cpu") and "history" in tg.memory.summary("cpu")
    with pytest.raises(RuntimeError, match="no history"):
        tg.memory.dump("x")
