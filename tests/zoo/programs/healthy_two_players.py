"""A judge learns in every step, and the maker of what it judges in every third: steps of two kinds, both needed."""

# expect: nothing
import torch
from torch import nn


def network(last):
    return nn.Sequential(*[nn.Linear(220, 220) for _ in range(6)], nn.Linear(220, last))


torch.set_num_threads(1)
maker, judge = network(220), network(1)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.001, fused=True)
of_maker = torch.optim.SGD(maker.parameters(), lr=0.001, fused=True)
true = torch.randn(24, 220)
for step in range(120):
    noise = torch.randn(48, 220)
    with torch.no_grad():
        made = maker(noise[:24])
    of_judge.zero_grad()
    judged = judge(torch.cat([true, made]))
    (judged[24:].mean() - judged[:24].mean() + judged.square().mean()).backward()
    of_judge.step()
    if step % 3 == 2:
        judge.requires_grad_(False)
        of_maker.zero_grad()
        (-judge(maker(noise))).mean().backward()
        of_maker.step()
        judge.requires_grad_(True)
