"""A thread smooths the losses of a training for a curve. It asks its queue for the next one again and again, without a
pause, so that Python's lock is never free when the training needs it."""

# expect: gil-contention
import queue
import threading

import torch
from torch import nn


class Curve:
    def __init__(self):
        self.values, self.smooth, self.ended = queue.Queue(), [], False
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        mean = 0.0
        while not self.ended:  # here
            try:
                value = self.values.get_nowait()  # here
            except queue.Empty:
                continue  # here
            mean = 0.9 * mean + 0.1 * value
            self.smooth.append(mean)

    def end(self):
        self.ended = True
        self.thread.join()


class Pictures(nn.Module):
    def __init__(self, width=640):
        super().__init__()
        self.into, self.middle, self.out = nn.Linear(768, width), nn.Linear(width, width), nn.Linear(width, 100)

    def forward(self, pictures):
        return self.out(self.middle(self.into(pictures).relu()).relu())


def main():
    torch.manual_seed(0)
    model, curve = Pictures(), Curve()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    data, kinds = torch.randn(4096, 768), torch.randint(100, (4096,))
    for step in range(40):
        chosen = slice(step % 4 * 1024, step % 4 * 1024 + 1024)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data[chosen]), kinds[chosen])  # here
        loss.backward()
        optimizer.step()
        curve.values.put(loss.item())
    curve.end()
    print(len(curve.smooth))


if __name__ == "__main__":
    main()
