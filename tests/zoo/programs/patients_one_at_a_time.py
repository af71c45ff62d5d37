"""A model learns from records of patients with differential privacy: the gradient of each patient is clipped before all
are summed up. To have each of them, the model runs on one patient after the other."""

# expect: tiny-batches, per-sample-loop
import torch
from torch import nn

MOST, NOISE = 1.0, 0.6


class Risk(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(90, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.risk = nn.Linear(width, 3)

    def forward(self, records):
        return self.risk(self.body(records))


def clipped_sum(model, records, wanted):
    weights = list(model.parameters())
    total = [torch.zeros_like(w) for w in weights]
    for record, right in zip(records, wanted):
        loss = nn.functional.cross_entropy(model(record[None]), right[None])  # here
        gradients = torch.autograd.grad(loss, weights)  # here
        norm = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_add_(total, torch._foreach_mul(gradients, (MOST / norm).clamp(max=1)))
    return total


def main():
    torch.manual_seed(0)
    model = Risk()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    for _ in range(50):
        records, wanted = torch.randn(64, 90), torch.randint(3, (64,))
        total = clipped_sum(model, records, wanted)  # here
        for weight, gradient in zip(model.parameters(), total):
            weight.grad = (gradient + NOISE * MOST * torch.randn_like(gradient)) / len(records)
        optimizer.step()


if __name__ == "__main__":
    main()
