"""Callbacks for trainers: a few steps are recorded every so many, and when a step is slow; the recording is written
next to the logs, and what to change first is logged as text.

    Trainer(…, callbacks=[tachograph.trainers.transformers(every=1000, steps=5)])
    lightning.Trainer(callbacks=[tachograph.trainers.lightning(every=1000)])
    tachograph.trainers.ignite(engine, every=1000)
    composer.Trainer(callbacks=[tachograph.trainers.composer(every=1000)])
    profiler = tachograph.trainers.accelerate(accelerator, every=1000)   # and profiler.step() in the loop

The trainers are not imported unless their function is called."""

from __future__ import annotations

from ._trainers.adapters import accelerate, composer, ignite, lightning, transformers
from ._trainers.step_windows import StepWindows

__all__ = ["StepWindows", "accelerate", "composer", "ignite", "lightning", "transformers"]
