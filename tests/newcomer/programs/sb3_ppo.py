"""PPO of stable-baselines3 learns in a small environment; a step is one round of rollouts and the training after it."""

import gymnasium
import numpy as np
import torch
from one_window import window
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback


class Line(gymnasium.Env):
    """A point on a line is pushed towards the middle; 16 pushes an episode."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.left = 1.0, 16
        return self._seen(), {}

    def step(self, action):
        self.at += 0.1 if action else -0.1
        self.left -= 1
        return self._seen(), -abs(self.at), self.left == 0, False, {}

    def _seen(self):
        return np.array([self.at, self.left], np.float32)


class Rounds(BaseCallback):
    def __init__(self, prof):
        super().__init__()
        self.prof = prof
        self.rounds = 0

    def _on_rollout_start(self):
        if self.rounds:
            self.prof.step()
        self.rounds += 1

    def _on_training_end(self):
        self.prof.step()

    def _on_step(self):
        return True


torch.manual_seed(0)
with window() as prof:
    ppo = PPO("MlpPolicy", Line(), n_steps=16, batch_size=16, n_epochs=2, seed=0, device="cpu")
    ppo.learn(total_timesteps=160, callback=Rounds(prof))
