"""A snapshot now, and one when a device is out of memory: a torch with a device stands in."""

import json
import logging
import types

import pytest
import tachograph as tg
from tachograph._memory import device_snapshots as snapshots

STATE = {
    "segments": [
        {
            "device": 0,
            "address": 4096,
            "total_size": 2 << 20,
            "allocated_size": 512,
            "active_size": 512,
            "requested_size": 500,
            "stream": 0,
            "segment_type": "small",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": [
                {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []},
                {
                    "address": 4608,
                    "size": (2 << 20) - 512,
                    "requested_size": 0,
                    "state": "inactive",
                    "frames": [],
                },
            ],
        }
    ],
    "device_traces": [[]],
    "allocator_settings": {},
    "external_annotations": [],
}


@pytest.fixture
def cuda(monkeypatch):
    """What was asked of torch, and its observers."""
    asked = types.SimpleNamespace(history=[], observers=[], here=True)
    memory = types.SimpleNamespace(
        _snapshot=lambda: STATE, _record_memory_history=lambda **given: asked.history.append(given)
    )
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_available=lambda: asked.here, memory=memory),
        _C=types.SimpleNamespace(_cuda_attach_out_of_memory_observer=asked.observers.append),
    )
    monkeypatch.setattr(snapshots, "torch_module", lambda: torch)
    monkeypatch.setattr(snapshots, "_is_attached", False)
    return asked


def test_now(cuda, tmp_path):
    for path in (None, tmp_path / "now.pickle"):
        state = tg.memory_snapshot(path).ask("segments")
        assert [[*state[c]] for c in ("total_bytes", "allocated_bytes")] == [[2 << 20], [512]]
    assert (tmp_path / "now.pickle").exists()


def test_without_a_device(cuda, tmp_path):
    cuda.here = False
    with pytest.raises(RuntimeError, match="torch sees no CUDA device here; allocations on the CPU"):
        tg.memory_snapshot()
    with pytest.raises(RuntimeError, match="no CUDA device"), tg.memory.snapshot_at_oom(tmp_path / "x"):
        pass


def test_at_oom(cuda, tmp_path, caplog):
    path = tmp_path / "oom.pickle"
    with caplog.at_level(logging.WARNING, "tachograph"), tg.memory.snapshot_at_oom(path, max_entries=7):
        assert cuda.history == [{"max_entries": 7, "stacks": "python"}]
        cuda.observers[0](0, 1 << 40, 512, 0)
        first = path.stat().st_mtime_ns
        cuda.observers[0](0, 1 << 41, 512, 0)  # the first one counts
    assert path.stat().st_mtime_ns == first and cuda.history[-1] == {"enabled": None}
    assert [*tg.open(path).ask("segments")["allocated_bytes"]] == [512]
    assert "1,099,511,627,776 bytes" in caplog.text and f"see tachograph report {path}" in caplog.text
    path.unlink()
    cuda.observers[0](0, 1, 0, 0)  # off means off
    assert list(tmp_path.iterdir()) == []
    with tg.memory.snapshot_at_oom(path):
        assert len(cuda.observers) == 1


def test_history_of_the_program_stays(cuda, tmp_path, monkeypatch):
    snapshots.torch_module()._C._cuda_isHistoryEnabled = lambda: True
    with tg.memory.snapshot_at_oom(tmp_path / "oom.pickle"):
        pass
    assert cuda.history == []


def test_no_room(cuda, tmp_path, caplog):
    """Neither a large snapshot nor a folder that is not there reaches the program."""
    with caplog.at_level(logging.WARNING, "tachograph"):
        with tg.memory.snapshot_at_oom(tmp_path / "oom.pickle", most_bytes=100):
            cuda.observers[0](0, 1, 0, 0)
        with tg.memory.snapshot_at_oom(tmp_path / "none" / "oom.pickle"):
            cuda.observers[0](0, 1, 0, 0)
    assert "larger than 100 bytes" in caplog.text and "No such file" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_in_the_recording(cuda, tmp_path):
    torch = pytest.importorskip("torch")
    with tg.profile(activities=[tg.ProfilerActivity.CPU]) as profile:
        with tg.memory.snapshot_at_oom(tmp_path / "oom.pickle"):
            torch.ones(2)
            cuda.observers[0](0, 64, 0, 0)
    profile.export_chrome_trace(str(tmp_path / "out.json"))
    said = json.loads((tmp_path / "out.json").read_text())["oomSnapshot"]
    assert (said["path"], said["asked_bytes"]) == (str(tmp_path / "oom.pickle"), 64)
