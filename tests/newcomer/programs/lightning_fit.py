"""A LightningModule is fitted; a callback tells the profiler where a step ends."""

import lightning as L
import torch
from one_window import window
from torch import nn


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, number):
        x, y = batch
        return nn.functional.cross_entropy(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Stepped(L.Callback):
    def __init__(self, prof):
        self.prof = prof

    def on_train_batch_end(self, *_):
        self.prof.step()


torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=4)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
if __name__ == "__main__":
    with window() as prof:
        L.Trainer(max_epochs=1, accelerator="cpu", devices=1, callbacks=[Stepped(prof)], **quiet).fit(Net(), loader)
