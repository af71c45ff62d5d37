"""How Ultralytics trains: a trainer that calls back by names of events, a copy of the weights that is averaged, a
loader that is started again each epoch. Its code is not used."""

import copy

import torch
from one_window import window
from torch import nn

EPOCHS, BATCHES = 2, 5


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 64, 4))
        self.averaged = copy.deepcopy(self.model).eval()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        data = torch.utils.data.TensorDataset(torch.randn(20, 3, 8, 8), torch.randint(0, 4, (20,)))
        self.loader = torch.utils.data.DataLoader(data, batch_size=4)
        self.callbacks = {"on_train_batch_end": [], "on_fit_epoch_end": []}

    def run_callbacks(self, event):
        for call in self.callbacks[event]:
            call(self)

    def average(self):
        with torch.no_grad():
            for kept, now in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
                kept.mul_(0.9).add_(now, alpha=0.1)

    def train(self):
        for _ in range(EPOCHS):
            for x, y in self.loader:
                with torch.autocast("cpu", enabled=False):
                    loss = nn.functional.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.average()
                self.run_callbacks("on_train_batch_end")
            self.run_callbacks("on_fit_epoch_end")


torch.manual_seed(0)
trainer = Trainer()
with window() as prof:
    trainer.callbacks["on_train_batch_end"].append(lambda _: prof.step())
    trainer.train()
