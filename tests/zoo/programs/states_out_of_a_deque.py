"""An agent learns from what it remembers. Its memory is a deque of transitions whose states are arrays of numpy, and a
batch is made by torch.tensor from a list of them."""

# expect: slow-python-transform
import collections
import copy
import random

import numpy as np
import torch
from torch import nn

Transition = collections.namedtuple("Transition", "state action reward after")
SENSORS, ACTIONS = 160, 6


class Field:
    """What the agent acts in: a state that drifts."""

    def __init__(self):
        self.numbers = np.random.default_rng(2)
        self.state = self.numbers.standard_normal(SENSORS, dtype=np.float32)

    def act(self, action):
        before = self.state
        self.state = (0.9 * before + 0.1 * self.numbers.standard_normal(SENSORS, dtype=np.float32)).astype(np.float32)
        return Transition(before, action, float(self.state[action]), self.state)


def batch_of(memory, size=96):
    chosen = random.sample(memory, size)
    states = torch.tensor([t.state for t in chosen])  # here
    after = torch.tensor([t.after for t in chosen])  # here
    return states, torch.tensor([t.action for t in chosen]), torch.tensor([t.reward for t in chosen]), after


def main():
    torch.manual_seed(0)
    random.seed(0)
    values = nn.Sequential(nn.Linear(SENSORS, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, ACTIONS))
    older = copy.deepcopy(values).requires_grad_(False)
    optimizer = torch.optim.Adam(values.parameters(), lr=0.0005, fused=True)
    field, memory = Field(), collections.deque(maxlen=5000)
    for _ in range(600):
        memory.append(field.act(random.randrange(ACTIONS)))
    for step in range(60):
        memory.append(field.act(random.randrange(ACTIONS)))
        states, actions, rewards, after = batch_of(memory)  # here
        wanted = rewards + 0.98 * older(after).max(1).values
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(values(states).gather(1, actions[:, None]).squeeze(1), wanted).backward()
        optimizer.step()
        if step == 30:
            older.load_state_dict(values.state_dict())


if __name__ == "__main__":
    main()
