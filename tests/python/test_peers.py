"""Our Chrome export says the same as the original to HolisticTraceAnalysis 0.5.0 and to the TensorBoard profiler plugin
0.4.3.

They need an environment of their own (tests/python/peers.py): these tests run when it is there, or with PEERS=1, which
makes it.
"""

import json
import pathlib
import random
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nesting
import peers


@pytest.fixture(scope="module")
def ask():
    python = peers.found_or_made() or pytest.skip(
        "the peers are not installed: python tests/python/peers.py make, or PEERS=1"
    )

    def run(path):
        done = subprocess.run([str(python), peers.__file__, "ask", str(path)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return json.loads(done.stdout)

    return run


def training(seed, overlap_us=0):
    """Three steps of operators, launches, kernels, copies and collectives; overlap_us > 0 makes kernels of a stream
    overlap."""
    rnd = random.Random(seed)
    events, correlation, now = [], 0, 1_000_000.0
    device_free = {7: now, 20: now}

    def add(cat, name, pid, tid, ts, dur, **args):
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(ts, 3),
                "dur": round(dur + 0.0, 3),
                "args": args,
            }
        )

    for step in range(3, 6):
        begin = now
        for k in range(20):
            length = rnd.randint(40, 90)
            ident = 1000 * step + k
            op = rnd.choice(("aten::mm", "aten::conv2d", "aten::add_", "aten::copy_"))
            add(
                "cpu_op",
                op,
                42,
                42,
                now,
                length,
                **{"External id": ident, "Input Dims": [[rnd.randint(1, 4), 8]], "Input type": ["float"]},
            )
            add("cpu_op", op + "_inner", 42, 42, now + 5, length - 10, **{"External id": ident + 500})
            correlation += 1
            copy, collective = op == "aten::copy_", k % 7 == 3
            call = "cudaMemcpyAsync" if copy else "cudaLaunchKernel"
            add("cuda_runtime", call, 42, 42, now + 10, 8, **{"External id": ident + 500, "correlation": correlation})
            events.append(
                {
                    "ph": "s",
                    "id": correlation,
                    "pid": 42,
                    "tid": 42,
                    "ts": round(now + 10, 3),
                    "cat": "ac2g",
                    "name": "ac2g",
                }
            )
            stream = 20 if collective else 7
            start = max(now + 20, device_free[stream] - overlap_us)
            dur = rnd.randint(20, 120) + 0.125
            name = (
                "ncclKernel_AllReduce_RING_LL_Sum_float"
                if collective
                else "Memcpy HtoD (Pageable -> Device)"
                if copy
                else "sgemm_%d" % rnd.randint(0, 3)
            )
            args = {"External id": ident + 500, "device": 0, "stream": stream, "context": 1, "correlation": correlation}
            args.update(
                {"bytes": 4096, "memory bandwidth (GB/s)": 1.5}
                if copy
                else {
                    "grid": [8, 1, 1],
                    "block": [128, 1, 1],
                    "registers per thread": 32,
                    "shared memory": 0,
                    "blocks per SM": 0.1,
                    "warps per SM": 0.4,
                    "est. achieved occupancy %": 25,
                    "queued": 0,
                }
            )
            add("gpu_memcpy" if copy else "kernel", name, 0, stream, start, dur, **args)
            events.append(
                {
                    "ph": "f",
                    "id": correlation,
                    "pid": 0,
                    "tid": stream,
                    "ts": round(start, 3),
                    "cat": "ac2g",
                    "name": "ac2g",
                    "bp": "e",
                }
            )
            device_free[stream] = start + dur
            now += length + rnd.randint(1, 30)
        add("user_annotation", "ProfilerStep#%d" % step, 42, 42, begin, now - begin, **{"External id": step})
        now += 3
    rnd.shuffle(events)
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "deviceProperties": [
            {
                "id": 0,
                "name": "Test GPU",
                "totalGlobalMem": 1 << 34,
                "computeMajor": 8,
                "computeMinor": 0,
                "maxThreadsPerMultiprocessor": 2048,
                "maxThreadsPerBlock": 1024,
                "regsPerBlock": 65536,
                "regsPerMultiprocessor": 65536,
                "warpSize": 32,
                "sharedMemPerBlock": 49152,
                "sharedMemPerMultiprocessor": 167936,
                "numSms": 108,
                "sharedMemPerBlockOptin": 166912,
            }
        ],
        "traceEvents": events,
        "traceName": "test.json",
    }


def check(ask, tachograph, original, exported, *how):
    done = tachograph("export", original, "--to", "chrome", "-o", exported, *how)
    assert done.returncode == 0, done.stderr
    want, got = ask(original), ask(exported)
    for peer in want:
        assert "load" not in want[peer], want
        for name in want[peer]:
            assert got[peer][name] == want[peer][name], (peer, name)
    return want


@pytest.mark.parametrize("overlap_us", [0, 15])
def test_peers_see_no_difference(ask, tachograph, tmp_path, overlap_us):
    original = tmp_path / "original.json"
    document = training(1, overlap_us)
    original.write_text(json.dumps(document))
    assert bool(nesting.overlaps(document["traceEvents"])) == bool(overlap_us)
    want = check(ask, tachograph, original, tmp_path / "exported.json")
    # the peers did find what the trace holds
    assert not any(str(v).startswith("failed") for v in want["hta"].values()), want["hta"]
    assert want["plugin"]["has_kernel"] and want["plugin"]["has_memcpy_or_memset"]
    assert any("sgemm_0" in json.dumps(part) for part in want["hta"]["kernel_breakdown"])


def test_peers_see_no_difference_after_the_native_file(ask, tachograph, tmp_path):
    original, native = tmp_path / "original.json", tmp_path / "trace.tacho"
    original.write_text(json.dumps(training(2)))
    assert tachograph("convert", original, "-o", native).returncode == 0
    exported = tmp_path / "exported.json"
    assert tachograph("export", native, "--to", "chrome", "-o", exported).returncode == 0
    assert ask(exported) == ask(original)


# ---- our own recording -------------------------------------------------------------------------------------

RECORD = """
import sys, torch
torch.set_num_threads(1)
if sys.argv[1] == "torch":
    import torch.profiler as module
    how = {}
else:
    import tachograph as module
    how = {"backend": "native"}
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
with module.profile(activities=[module.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
                    schedule=module.schedule(wait=0, warmup=1, active=3, repeat=1),
                    on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[2]), **how) as profiler:
    for _ in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        profiler.step()
"""


def modules_of(rows):
    return [
        [name, number, calls, operators, modules_of(inner)] for name, number, calls, operators, *_, inner in rows or []
    ]


def without_times(answer):
    """A peer's answer about a program, without its times. The plugin also says whether operators have call stacks:
    ours do."""
    plugin = answer["plugin"]
    tables = {
        name: sorted((row["name"], row.get("input_shape"), row["calls"]) for row in plugin[name]["data"])
        for name in ("operation_table_by_name", "operation_table_by_name_input")
    }
    flags = {name: plugin[name] for name in plugin if name.startswith(("has_", "kernel")) or name == "gpu_metrics"}
    steps = [row[0] for row in plugin["overview"]["steps"]["rows"]]
    return {
        "hta": answer["hta"],
        "tables": tables,
        "flags": flags,
        "modules": modules_of(plugin["module_stats"]),
        "steps": steps,
    }


def test_peers_say_of_our_recording_what_they_say_of_torchs(ask, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("tachograph._record")
    answers = []
    for by in ("torch", "tachograph"):
        path = tmp_path / f"{by}.json"
        subprocess.run([sys.executable, "-c", RECORD, by, str(path)], check=True, capture_output=True)
        answers.append(without_times(ask(path)))
    theirs, ours = answers
    assert theirs["tables"]["operation_table_by_name"] and theirs["modules"] and len(theirs["steps"]) == 3
    for what in theirs:
        assert ours[what] == theirs[what], what
