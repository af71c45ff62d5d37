"""A reader learns to answer with the help of the passages that are nearest to a question. The search loads the table of
all passages from its file each time."""

# expect: repeated-file-load
import os
import tempfile

import torch
from torch import nn

PASSAGES, WIDTH, NEAREST = 8000, 192, 6


class Search:
    def __init__(self, path):
        self.path = path

    def nearest(self, questions):
        vectors = torch.load(self.path)["vectors"]  # here
        with torch.no_grad():
            found = (questions @ vectors.T).topk(NEAREST, 1).indices
        return vectors[found]


class Reader(nn.Module):
    """Looks at the question and at the passages, and says which of some answers is right."""

    def __init__(self, answers=40):
        super().__init__()
        self.body = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.answer = nn.Linear(WIDTH, answers)

    def forward(self, questions, passages):
        return self.answer(self.body(torch.cat([questions[:, None], passages], 1))[:, 0])


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "passages.pt")
        vectors = nn.functional.normalize(torch.randn(PASSAGES, WIDTH), dim=1)
        torch.save({"vectors": vectors, "titles": [f"passage {n}" for n in range(PASSAGES)]}, path)
        search, reader = Search(path), Reader()
        optimizer = torch.optim.AdamW(reader.parameters(), lr=0.0005, fused=True)
        for _ in range(50):
            questions, right = torch.randn(24, WIDTH), torch.randint(40, (24,))
            passages = search.nearest(questions)  # here
            optimizer.zero_grad()
            nn.functional.cross_entropy(reader(questions, passages), right).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
