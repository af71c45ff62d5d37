"""The recorder of GPU fixtures, as far as it goes without a GPU: what it refuses, packs, limits and lists."""

import gzip
import hashlib
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu" / "record_fixtures.py"
spec = importlib.util.spec_from_file_location("record_fixtures", SCRIPT)
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)

TRACE = '{"traceEvents": [{"ph": "X", "cat": "kernel"}, {"ph": "X", "cat": "kernel"}, {"ph": "M"}]}'


def cuda_here():
    return importlib.util.find_spec("torch") is not None and __import__("torch").cuda.is_available()


@pytest.mark.skipif(cuda_here(), reason="there is a GPU")
def test_without_gpu_it_says_so_and_succeeds(tmp_path):
    run = subprocess.run([sys.executable, SCRIPT, tmp_path / "out"], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0 and run.stdout.startswith("nothing recorded: ") and len(run.stdout.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_usage():
    for arguments, status in ((["--list"], 0), ([], 2), (["out", "--only", "nonsense"], 2)):
        assert (
            subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, timeout=600).returncode == status
        ), arguments
    listed = subprocess.run([sys.executable, SCRIPT, "--list"], capture_output=True, text=True, timeout=600).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(fixtures.RECORDINGS)
    assert {
        "eager_training",
        "compiled_triton",
        "cuda_graph",
        "several_streams",
        "sync_events",
        "nccl_one_rank",
        "with_stack",
        "memory_snapshot",
    } == set(fixtures.RECORDINGS)


def test_pack(tmp_path):
    raw = tmp_path / "x.json"
    raw.write_text(TRACE)
    entry = fixtures.pack(raw, tmp_path, 1000)
    packed = (tmp_path / entry["file"]).read_bytes()
    assert entry["file"] == "x.json.gz" and gzip.decompress(packed).decode() == TRACE
    assert (entry["bytes"], entry["packed_bytes"], entry["sha256"]) == (
        len(TRACE),
        len(packed),
        hashlib.sha256(packed).hexdigest(),
    )
    assert entry["categories"] == {"kernel": 2, "None": 1}
    with pytest.raises(ValueError, match="more than 10"):
        fixtures.pack(raw, tmp_path, 10)
    raw.write_bytes(b"\x80\x04pickle")
    assert "categories" not in fixtures.pack(raw, tmp_path, 1000)
    raw.write_bytes(b"")
    with pytest.raises(ValueError, match="nothing"):
        fixtures.pack(raw, tmp_path, 1000)


def test_record_all_keeps_going(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(fixtures.RECORDINGS["compiled_triton"], "modules", ("a_module_nobody_has",))

    def run(name, path):
        if name == "cuda_graph":
            raise ValueError("failed: no graph today")
        path.write_text(
            TRACE
            if name != "sync_events"
            else json.dumps({"traceEvents": [], "x": [hash(str(k)) for k in range(9999)]})
        )

    entries = fixtures.record_all(
        ["eager_training", "cuda_graph", "compiled_triton", "sync_events", "memory_snapshot"],
        "cuda",
        tmp_path,
        5000,
        run,
    )
    by = {e["name"]: e for e in entries}
    assert (
        by["eager_training"]["categories"]["kernel"] == 2
        and by["memory_snapshot"]["file"] == "memory_snapshot.pickle.gz"
    )
    assert by["cuda_graph"]["not_recorded"] == "failed: no graph today"
    assert by["compiled_triton"]["not_recorded"] == "needs a_module_nobody_has"
    assert "more than 5000" in by["sync_events"]["not_recorded"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["eager_training.json.gz", "memory_snapshot.pickle.gz"]
    assert len(capsys.readouterr().out.splitlines()) == 5
    cpu = fixtures.record_all(["cuda_graph"], "cpu", tmp_path, 5000, run)
    assert cpu[0]["not_recorded"] == "needs a GPU"
