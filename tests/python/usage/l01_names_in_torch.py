"""A trainer that brings a profiler of its own around torch.profiler: ours is put into torch.profiler before the trainer
is imported. It wraps the schedule, counts steps itself, sets the handler when the first step is over and labels modules
by hooks."""

import shim
import inspect
import os
import torch
import torch.profiler
import tachograph.profiler as tg

for name in tg.__all__:
    setattr(torch.profiler, name, getattr(tg, name))

from torch.autograd.profiler import record_function
from torch.profiler import ProfilerAction, ProfilerActivity, tensorboard_trace_handler


class Phases:
    """A schedule for each of the two loops, by steps of its own; a loop is not recorded twice."""

    def __init__(self, plan):
        if not isinstance(plan(0), ProfilerAction):
            raise TypeError(plan(0))
        self.plan, self.steps, self.phase, self.done = plan, {}, None, set()

    def __call__(self, _):
        if self.phase is None or self.phase in self.done:
            return ProfilerAction.NONE
        self.steps[self.phase] = number = self.steps.get(self.phase, 0) + 1
        action = self.plan(number)
        if action == ProfilerAction.RECORD_AND_SAVE:
            self.done.add(self.phase)
        return action


class Hooks:
    def __init__(self, folder, **options):
        self.folder, self.plan, self.profiler = folder, Phases(options["schedule"]), None
        known = inspect.signature(torch.profiler.profile.__init__).parameters
        self.options = {key: value for key, value in options.items() if key in known} | {"schedule": self.plan}

    def begin(self, model):
        if torch.autograd._profiler_enabled():
            torch.autograd._disable_profiler()
        self.profiler = torch.profiler.profile(**self.options).__enter__()
        for path, module in model.named_modules():
            label = record_function(f"[module]{path}")
            module.register_forward_pre_hook(lambda *_, label=label: label.__enter__() and None)
            module.register_forward_hook(lambda *_, label=label: label.__exit__(None, None, None))

    def step(self, phase):
        assert isinstance(self.profiler, torch.profiler.profile)
        self.plan.phase = phase
        self.profiler.on_trace_ready = tensorboard_trace_handler(self.folder, f"fit-{phase}")
        self.profiler.step_num = self.plan.steps.get(phase, 0)
        self.profiler.step()
        self.profiler.add_metadata("Framework", "trainer")

    def end(self):
        self.profiler.__exit__(None, None, None)
        events, self.profiler = self.profiler.events(), None
        print(events.key_averages(group_by_input_shapes=True).table(sort_by="cuda_time_total", row_limit=200))


hooks = Hooks(
    "log",
    schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    export_to_flame_graph=False,
)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
hooks.begin(model)
for _ in range(7):
    model(torch.ones(4, 8)).sum().backward()
    hooks.step("train")
for _ in range(7):
    with torch.no_grad():
        model(torch.ones(2, 8))
    hooks.step("validate")
hooks.end()
print(sorted(file.split(".")[0] for file in os.listdir("log")))
