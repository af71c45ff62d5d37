"""A model that asks for a number on the host in every layer, and the same without; the profile names the line."""

import shim
import torch
from tachograph import profile


class Net(torch.nn.Module):
    def __init__(self, chatty):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(10))
        self.chatty, self.norms = chatty, []

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if self.chatty:
                self.norms.append(x.norm().item())  # the line to find
        return x


for chatty in (True, False):
    model = Net(chatty)
    with profile(with_stack=True) as prof:
        for _ in range(10):
            model(torch.randn(4, 8))
    rows = [row for row in prof.key_averages(group_by_stack_n=5) if row.key == "aten::item"]
    print("items", sum(row.count for row in rows))
    print("stack", " | ".join(str(frame) for row in rows for frame in row.stack))
