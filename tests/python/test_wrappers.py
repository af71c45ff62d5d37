"""The settings that DistributedDataParallel and FSDP state, in a recording of two ranks. A layer has 512 * 512 weights
and 512 biases of 4 bytes: 1,050,624 bytes. The reducer ends a bucket when its size has reached the cap."""

import json
import os
import subprocess
import sys

import pytest
import tachograph as tg

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

LAYER = 4 * (512 * 512 + 512)
PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist
import tachograph as tg

def work(rank, options):
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=2)
    layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
    model = torch.nn.parallel.DistributedDataParallel(layers, **options)
    def step():
        model(torch.ones(2, 512)).sum().backward()
    for _ in range(3):
        step()
    plan, path = tg.schedule(wait=0, warmup=0, active=3, repeat=1), f"rank{rank}.json"
    ready = lambda prof: prof.export_chrome_trace(path)
    with tg.profile(schedule=plan, on_trace_ready=ready, record_shapes=True) as prof:
        for _ in range(3):
            step()
            prof.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(json.loads(sys.argv[1]),), nprocs=2)
"""


def run(folder, program, *words):
    (folder / "job.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "job.py", *words], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("options", "cap", "first", "buckets"),
    [
        ({}, 25, 1, [LAYER, 3 * LAYER]),
        pytest.param({"bucket_cap_mb": 2}, 2, 2, [2 * LAYER, 2 * LAYER], marks=pytest.mark.long),
    ],
)
def test_the_reducer_of_two_ranks(tmp_path, options, cap, first, buckets):
    run(tmp_path, PROGRAM, json.dumps(options))
    for rank in range(2):
        path = tmp_path / f"rank{rank}.json"
        said, trace = json.loads(path.read_text())["parallel"], tg.open(str(path))
        assert list(said) == ["ddp"]
        ddp = said["ddp"]
        assert (ddp["count"], ddp["bucket_cap_mb"], ddp["first_bucket_cap_mb"]) == (1, cap, first)
        assert (ddp["bucket_bytes"], ddp["is_rebuilt"]) == (buckets, True)
        table = trace.ask("buckets")
        rows = [row for row in table if row["kind"] == "all_reduce"]
        # The threads of gloo decide in which order they begin.
        assert sum(row["bytes"] * row["steps"] for row in rows) == 3 * sum(buckets)
        assert any(f"DistributedDataParallel has bucket_cap_mb={cap}" in note for note in table.notes), table.notes


SHARDED = """
import json, os, torch, torch.distributed as dist
from tachograph._collect.parallel import parallel

assert parallel() is None
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=0, world_size=1)
assert parallel() is None
from torch.distributed.fsdp import FullyShardedDataParallel
try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import fully_shard
cpu = torch.device("cpu")
inner = FullyShardedDataParallel(torch.nn.Linear(8, 8), device_id=cpu, forward_prefetch=True)
outer = FullyShardedDataParallel(
    torch.nn.Sequential(inner, torch.nn.Linear(8, 8)), device_id=cpu, forward_prefetch=True, limit_all_gathers=False
)
mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
for layer in model:
    fully_shard(layer, mesh=mesh, reshard_after_forward=False)
fully_shard(model, mesh=mesh, reshard_after_forward=False)
print(json.dumps(parallel()))
del inner, outer, model, layer
import gc; gc.collect()
assert parallel() is None
"""


@pytest.mark.long
def test_what_sharded_models_say(tmp_path):
    assert json.loads(run(tmp_path, SHARDED)) == {
        "fsdp1": {
            "count": 2,
            "sharding_strategy": "NO_SHARD",  # of one rank
            "forward_prefetch": True,
            "backward_prefetch": "BACKWARD_PRE",  # where a program does not say
            "limit_all_gathers": "mixed",
        },
        "fsdp2": {
            "count": 3,
            "reshard_after_forward": False,
            "forward_prefetch_lists": 0,
            "backward_prefetch_lists": 0,
        },
    }
