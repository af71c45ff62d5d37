"""A language model answers ten readers at once. Keys and values of the words before are kept, and with each new word
they are put together with the new ones, for each layer."""

# expect: quadratic-concat
import torch
from torch import nn

WORDS, WIDTH, HEADS, LAYERS = 600, 256, 8, 3
READERS, ASKED, ANSWERED = 10, 700, 60


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, cache):
        readers, length, _ = x.shape
        parts = self.qkv(self.norm(x)).view(readers, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if cache is not None:
            key = torch.cat([cache[0], key], 2)  # here
            value = torch.cat([cache[1], value], 2)  # here
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.out(seen.transpose(1, 2).reshape(readers, length, WIDTH))
        return x + self.back(self.wide(x).relu()), (key, value)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.choice = nn.Linear(WIDTH, WORDS)

    def forward(self, words, caches):
        x, kept = self.table(words), []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, cache)  # here
            kept.append(cache)
        return self.choice(x[:, -1]), kept


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model, caches = Language().eval(), [None] * LAYERS
    words = torch.randint(WORDS, (READERS, ASKED))
    answers = []
    for _ in range(ANSWERED):
        scores, caches = model(words, caches)  # here
        words = scores.argmax(1, keepdim=True)
        answers.append(words)
    print(torch.cat(answers, 1).shape)


if __name__ == "__main__":
    main()
