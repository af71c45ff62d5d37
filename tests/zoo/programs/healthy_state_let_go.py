"""The state of a recurrent network goes from one piece of text to the next without its graph."""

# expect: nothing
import torch
from torch import nn


class Speller(nn.Module):
    """Foretells the next letter."""

    def __init__(self, letters=30, width=512):
        super().__init__()
        self.table = nn.Embedding(letters, 96)
        self.cell = nn.LSTM(96, width, batch_first=True)
        self.choice = nn.Linear(width, letters)

    def forward(self, text, state):
        made, state = self.cell(self.table(text), state)
        return self.choice(made), state


def main():
    torch.manual_seed(3)
    streams, piece = 96, 16
    letters = torch.randint(30, (streams, piece * 80 + 1))
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    state = None
    for at in range(0, piece * 80, piece):
        optimizer.zero_grad()
        scores, state = model(letters[:, at : at + piece], state)
        wanted = letters[:, at + 1 : at + piece + 1]
        nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
        state = tuple(part.detach() for part in state)


if __name__ == "__main__":
    main()
