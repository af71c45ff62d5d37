"""An agent learns from the transitions that surprised it most; the whole memory is put in order for each batch."""

# expect: slow-python-transform
import random

import torch
from torch import nn


class Transition:
    __slots__ = ("action", "error", "reward", "state")

    def __init__(self, state, action, reward):
        self.state, self.action, self.reward = state, action, reward
        self.error = 1.0 + random.random()


class Memory:
    """Transitions with the error that the agent made on each when it was last learnt from."""

    def __init__(self, limit):
        self.limit, self.transitions = limit, []

    def add(self, transition):
        self.transitions.append(transition)
        if len(self.transitions) > self.limit:
            self.transitions.pop(0)

    def most_surprising(self, count):
        ranked = sorted(self.transitions, key=lambda t: abs(t.error) ** 0.6 + 1e-3, reverse=True)  # here
        return ranked[:count]


def main():
    random.seed(2)
    memory = Memory(40000)
    for _ in range(40000):
        memory.add(Transition([random.random() for _ in range(8)], random.randrange(4), random.random()))
    values = nn.Sequential(nn.Linear(8, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 4))
    optimizer = torch.optim.RMSprop(values.parameters(), lr=0.001, foreach=True)
    for step in range(100):
        memory.add(Transition([random.random() for _ in range(8)], step % 4, random.random()))
        chosen = memory.most_surprising(128)  # here
        states = torch.tensor([t.state for t in chosen])
        actions = torch.tensor([t.action for t in chosen])
        rewards = torch.tensor([t.reward for t in chosen])
        error = values(states).gather(1, actions[:, None]).squeeze(1) - rewards
        optimizer.zero_grad()
        error.square().mean().backward()
        optimizer.step()
        for transition, e in zip(chosen, error.tolist(), strict=True):
            transition.error = e


if __name__ == "__main__":
    main()
