"""An agent's reward is compared with a running baseline of plain numbers; the graph of each step ends with it."""

# expect: nothing
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self, width=560):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(96, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.choice, self.critic = nn.Linear(width, 6), nn.Linear(width, 1)

    def forward(self, states):
        x = self.body(states)
        return self.choice(x).log_softmax(1), self.critic(x).squeeze(1)


def main():
    torch.manual_seed(8)
    agent = Agent()
    baseline = torch.zeros(())
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.01, momentum=0.9, fused=True)
    for _ in range(60):
        states = torch.randn(512, 96)
        chances, values = agent(states)
        actions = torch.multinomial(chances.detach().exp(), 1).squeeze(1)
        rewards = (actions == states.argmax(1) % 6).float()
        baseline = 0.95 * baseline + 0.05 * values.detach().mean()
        gain = (rewards - baseline) * chances.gather(1, actions[:, None]).squeeze(1)
        optimizer.zero_grad()
        ((rewards - values).square().mean() - gain.mean()).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
