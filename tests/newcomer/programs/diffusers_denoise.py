"""A small U-Net of diffusers takes noise away, one step of the scheduler after the other."""

import torch
from diffusers import DDPMScheduler, UNet2DModel
from one_window import recorded

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
scheduler = DDPMScheduler(num_train_timesteps=100)
scheduler.set_timesteps(10)
times = iter(scheduler.timesteps)
sample = torch.randn(2, 3, 16, 16)


@torch.no_grad()
def step():
    global sample
    at = next(times)
    sample = scheduler.step(model(sample, at).sample, at, sample).prev_sample


recorded(step)
