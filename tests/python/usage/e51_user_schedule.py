"""A schedule written by hand: a function of the number of the step; and a trainer's callback that steps the
profiler."""

import shim
import torch
import tachograph as tg


class Callback:
    def __init__(self):
        self.prof = tg.profile(schedule=self.plan, on_trace_ready=self.ready, record_shapes=True)
        self.names = []

    @staticmethod
    def plan(step):
        return {3: tg.ProfilerAction.WARMUP, 4: tg.ProfilerAction.RECORD, 5: tg.ProfilerAction.RECORD_AND_SAVE}.get(
            step, tg.ProfilerAction.NONE
        )

    def ready(self, prof):
        self.names.append(sorted(e.name for e in prof.events() if e.name.startswith("ProfilerStep")))

    def on_train_begin(self):
        self.prof.start()

    def on_step_end(self):
        self.prof.step()

    def on_train_end(self):
        self.prof.stop()


callback = Callback()
callback.on_train_begin()
for _ in range(8):
    torch.ones(4).exp()
    callback.on_step_end()
callback.on_train_end()
print(callback.names, len(callback.prof.events()))
