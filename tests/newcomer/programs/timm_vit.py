"""A small vision transformer of timm with random weights is trained with timm's optimizer and loss."""

import timm
import torch
from one_window import recorded
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2

torch.manual_seed(0)
model = timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=32, patch_size=8, depth=2, num_classes=4)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
loss_of = LabelSmoothingCrossEntropy()
x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,))


def step():
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


recorded(step)
