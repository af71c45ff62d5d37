"""Three threads count words in Python while the model answers, and the loop waits for its turn."""

# expect: gil-contention
import threading

import torch
from torch import nn

text, counts, done = "a b c d e f g h " * 50, {}, threading.Event()


def count():
    while not done.is_set():
        for word in text.split():
            counts[word] = counts.get(word, 0) + 1  # here


torch.set_num_threads(1)
for _ in range(3):
    threading.Thread(target=count, daemon=True).start()
model = nn.Sequential(nn.Linear(700, 700), nn.ReLU(), nn.Linear(700, 700)).eval()
request = torch.randn(400, 700)
with torch.inference_mode():
    for _ in range(60):
        answer = model(request)
        answer.argmax(1).tolist()
done.set()
