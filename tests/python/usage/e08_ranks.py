"""Two ranks of a job, each with a folder of its own for its traces."""

import shim
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import tachograph as tg


def worker(rank, world):
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting", rank=rank, world_size=world)
    model = torch.nn.Linear(8, 8)
    with tg.profile(
        schedule=tg.schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=tg.tensorboard_trace_handler(f"profiler_logs/rank_{rank}"),
    ) as prof:
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            dist.all_reduce(model.weight.grad)
            prof.step()
    dist.destroy_process_group()
    shim.leave_rank()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
