"""A small CNN is trained for one epoch, all of it inside one profile; labels around the loop and around the data."""

import shim
import torch
from torch import nn
from tachograph import profile, record_function, ProfilerActivity

activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 10))
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(80, 3, 16, 16), torch.randint(0, 10, (80,)))
loader = torch.utils.data.DataLoader(data, batch_size=4)

with profile(activities=activities, record_shapes=True, profile_memory=True) as prof:
    with record_function("model_train"):
        for images, labels in loader:
            with record_function("data_processing"):
                images = images / 255
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=60))
