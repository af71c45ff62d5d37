"""After every 24 steps the hardest wrong answer to each question is looked for among all answers."""

# expect: periodic-stall
import torch
from torch import nn

EVERY = 24


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.questions = nn.Sequential(nn.Linear(160, 320), nn.ReLU(), nn.Linear(320, 160))
        self.answers = nn.Sequential(nn.Linear(160, 320), nn.ReLU(), nn.Linear(320, 160))


@torch.no_grad()
def hardest(model, questions, answers):
    found = model.questions(questions), model.answers(answers)  # here
    scores = found[0] @ found[1].T  # here
    scores.fill_diagonal_(-1e9)
    return scores.argmax(1)


def main():
    torch.manual_seed(0)
    model = Matcher()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    questions, answers = torch.randn(4000, 160), torch.randn(4000, 160)
    wrong = torch.randperm(4000)
    for step in range(150):
        if step % EVERY == EVERY - 1:
            wrong = hardest(model, questions, answers)  # here
        chosen = torch.randint(4000, (96,))
        asked, right, other = (
            model.questions(questions[chosen]),
            model.answers(answers[chosen]),
            model.answers(answers[wrong[chosen]]),
        )
        optimizer.zero_grad()
        nn.functional.triplet_margin_loss(asked, right, other).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
