"""How DeepSpeed is called: an engine around model and optimizer has forward, backward and step, and one optimizer step
for several batches. Its code is not used."""

import torch
from one_window import recorded
from torch import nn

BATCHES = 2  # for one step of the optimizer


class Engine(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        self.batches = 0

    def forward(self, *inputs):
        return self.module(*inputs)

    def backward(self, loss):
        (loss / BATCHES).backward()

    def step(self):
        self.batches += 1
        if self.batches % BATCHES == 0:
            nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


torch.manual_seed(0)
engine = Engine(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)))
x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))


def step():
    for _ in range(BATCHES):
        loss = nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
    return loss


recorded(step)
