"""A player learns what its moves are worth: for what comes after a move it asks itself, without gradients."""

# expect: nothing
import torch
from torch import nn

torch.manual_seed(2)
player = nn.Sequential(nn.Linear(80, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 6))
optimizer = torch.optim.Adam(player.parameters(), lr=0.0005, fused=True)
states, moves, rewards = torch.randn(6000, 80), torch.randint(0, 6, (6000, 1)), torch.rand(6000)
for _ in range(60):
    chosen = torch.randint(0, 5999, (384,))
    with torch.no_grad():
        after = player(states[chosen + 1]).amax(1)
    worth = player(states[chosen]).gather(1, moves[chosen]).squeeze(1)
    optimizer.zero_grad()
    nn.functional.smooth_l1_loss(worth, rewards[chosen] + 0.9 * after).backward()
    optimizer.step()
