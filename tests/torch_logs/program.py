"""What is compiled by a program with a recompilation, graph breaks, a limit, an error and a backward pass."""

import contextlib
import warnings

import torch
import torch._dynamo

warnings.simplefilter("ignore")
torch.set_num_threads(1)
for name in ("recompile_limit", "cache_size_limit"):
    if hasattr(torch._dynamo.config, name):
        setattr(torch._dynamo.config, name, 2)
        break


@torch.compile(backend="eager", dynamic=False)
def lengths(x):
    return (x * 2).sum()


@torch.compile(backend="eager")
def prints(x):
    y = x * 2
    print("", end="")
    return y + 1


@torch.compile(backend="eager")
def branches(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@torch.compile(backend="eager")
def loops(x):
    for _ in range(3):
        x = x * 2
        print("", end="")
    return x


@torch.compile(backend="eager")
def begins(x):
    print("", end="")
    return x + 1


@torch.compile(backend="eager", fullgraph=True)
def refuses(x):
    y = x * 2
    print("", end="")
    return y + 1


@torch.compile
def trained(x):
    return (x * x).sum()


x = torch.ones(4)
for n in range(2, 6):
    lengths(torch.ones(n))
for function in (prints, branches, loops, begins):
    function(x)
    function(x)
with contextlib.suppress(Exception):
    refuses(x)
trained(torch.ones(4, requires_grad=True)).backward()
