"""Two processes average gradients, and one of them has more rows."""

# expect: rank-straggler
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(200, 400), nn.ReLU(), nn.Linear(400, 200))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    for step in range(45):
        rows = torch.randn((1500 if rank else 300) + step % 3, 200)  # here
        optimizer.zero_grad()
        model(rows).square().mean().backward()  # here
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.all_reduce(flat)
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, (29000 + os.getpid() % 20000,), nprocs=2)
    sys.exit(0)
