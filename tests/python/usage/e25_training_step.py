"""A function that profiles a training step with schedule 1/2/5/1 and says where the trace is."""

import shim
import glob
import torch
import tachograph as tg


def profile_training_step(model, optimizer, batches):
    with tg.profile(
        schedule=tg.schedule(wait=1, warmup=2, active=5, repeat=1),
        on_trace_ready=tg.tensorboard_trace_handler("./profiler"),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as prof:
        for x in batches:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            prof.step()
    print(prof.key_averages(group_by_stack_n=5).table(sort_by="self_cuda_time_total", row_limit=10))
    (path,) = glob.glob("profiler/*.pt.trace.json")
    print("trace:", path)


net = torch.nn.Linear(32, 4)
profile_training_step(net, torch.optim.SGD(net.parameters(), lr=0.1), [torch.randn(8, 32) for _ in range(8)])
