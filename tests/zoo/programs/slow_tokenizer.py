"""Each request is taken apart by a thread of a pool, and the loop waits for it."""

# expect: host-waits, slow-python-transform
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

WORDS = {word: i for i, word in enumerate("a b c d e f g h".split())}


def tokenize(text):
    tokens = []
    for _ in range(30):
        tokens = [WORDS[word] for word in text.split()]  # here
    return tokens


torch.set_num_threads(1)
model = nn.Sequential(nn.EmbeddingBag(8, 32), nn.Linear(32, 8)).eval()
text = "a b c d e f g h " * 700
with ThreadPoolExecutor(1) as pool, torch.inference_mode():
    for _ in range(50):
        tokens = pool.submit(tokenize, text).result()  # here
        model(torch.tensor([tokens[:64]]))
