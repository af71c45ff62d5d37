"""An agent's reward is compared with a running baseline of what its critic said before. The baseline is never detached;
an error of autograd about that was silenced with retain_graph."""

# expect: graph-retention
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.Tanh())
        self.choice, self.critic = nn.Linear(64, 5), nn.Linear(64, 1)

    def forward(self, states):
        x = self.body(states)
        return self.choice(x).log_softmax(1), self.critic(x).squeeze(1)


def main():
    torch.manual_seed(8)
    agent = Agent()
    baseline = torch.zeros(())
    optimizer = torch.optim.SGD([*agent.choice.parameters()], lr=0.01, foreach=True)
    for _ in range(90):
        states = torch.randn(64, 24)
        chances, values = agent(states)
        actions = torch.multinomial(chances.exp(), 1).squeeze(1)
        rewards = (actions == states.argmax(1) % 5).float()
        baseline = 0.95 * baseline + 0.05 * values.mean()  # here
        gain = (rewards - baseline) * chances.gather(1, actions[:, None]).squeeze(1)
        optimizer.zero_grad()
        (-gain.mean() + (rewards - values).square().mean()).backward(retain_graph=True)  # here
        optimizer.step()


if __name__ == "__main__":
    main()
