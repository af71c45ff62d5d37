"""One function a trainer: its callback, around StepWindows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .step_windows import StepWindows, check, log_to_wandb, log_to_writer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .step_windows import Options

SUBFOLDER = "tachograph"


def transformers(folder: str | None = None, **options: Unpack[Options]) -> Any:
    """A TrainerCallback for transformers' Trainer and its likes (TRL). folder: by default `tachograph` in the output
    folder. options: of StepWindows. Text goes to TensorBoard and W&B where report_to names them."""
    check("transformers", options)
    from transformers import TrainerCallback

    class Tachograph(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.windows: StepWindows | None = None
            self._writer: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            reports = args.report_to if isinstance(args.report_to, (list, tuple)) else [args.report_to]
            place = folder or os.path.join(args.output_dir, SUBFOLDER)
            if state.is_world_process_zero and "tensorboard" in reports:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(place)
            self.windows = StepWindows(place, log=self._log, **options)

        def _log(self, text: str, step: int) -> None:
            log_to_wandb(text)
            log_to_writer(self._writer, text, step)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.windows is not None:
                self.windows.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.windows is not None:
                self.windows.end()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.windows is not None:
                self.windows.finish()
            if self._writer is not None:
                self._writer.close()

    return Tachograph()


def lightning(folder: str | None = None, **options: Unpack[Options]) -> Any:
    """A Callback for Lightning's Trainer, of the package `lightning` or `pytorch_lightning`, whichever is imported.
    folder: by default `tachograph` in the trainer's log folder."""
    import sys

    check("lightning", options)
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        from pytorch_lightning import Callback
    else:
        from lightning.pytorch import Callback

    class Tachograph(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.windows: StepWindows | None = None
            self._loggers: list[Any] = []

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            place = folder or os.path.join(trainer.log_dir or trainer.default_root_dir, SUBFOLDER)
            self._loggers = list(trainer.loggers)
            self.windows = StepWindows(place, log=self._log, **options)

        def _log(self, text: str, step: int) -> None:
            log_to_wandb(text)
            for logger in self._loggers:
                log_to_writer(getattr(logger, "experiment", None), text, step)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            if self.windows is not None:
                self.windows.begin()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if self.windows is not None:
                self.windows.end()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.windows is not None:
                self.windows.finish()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.on_train_end(trainer, pl_module)

    return Tachograph()


def accelerate(accelerator: Any, folder: str | None = None, **options: Unpack[Options]) -> StepWindows:
    """For a loop around accelerate's Accelerator: call step() at the end of each turn and finish() after the last.
    folder: by default `tachograph` in the accelerator's logging folder. Text goes to its trackers."""

    check("accelerate", options)

    def log(text: str, step: int) -> None:
        log_to_wandb(text)
        for tracker in getattr(accelerator, "trackers", ()):
            log_to_writer(getattr(tracker, "writer", None), text, step)

    place = folder or os.path.join(getattr(accelerator, "logging_dir", None) or ".", SUBFOLDER)
    windows = StepWindows(place, log=log, **options)
    windows.begin()
    return windows


def ignite(engine: Any, folder: str = SUBFOLDER, writer: Any = None, **options: Unpack[Options]) -> StepWindows:
    """Attach to an Engine of Ignite: its iterations are the steps. writer: a SummaryWriter, or an ignite
    TensorboardLogger, that takes the text."""
    check("ignite", options)
    from ignite.engine import Events

    def log(text: str, step: int) -> None:
        log_to_wandb(text)
        log_to_writer(getattr(writer, "writer", writer), text, step)

    windows = StepWindows(folder, log=log, **options)
    engine.add_event_handler(Events.ITERATION_STARTED, windows.begin)
    engine.add_event_handler(Events.ITERATION_COMPLETED, windows.end)
    engine.add_event_handler(Events.COMPLETED, windows.finish)
    engine.add_event_handler(Events.TERMINATE, windows.finish)

    def failed(error: BaseException) -> None:
        windows.finish()
        raise error

    engine.add_event_handler(Events.EXCEPTION_RAISED, failed)
    return windows


# The events of Composer's Callback, as composer.core.Event of 0.32 names them. That package does not install beside the
# newest torch, so its protocol is what is tested.
COMPOSER_EVENTS = (
    "init before_load after_load fit_start iteration_start epoch_start before_dataloader after_dataloader batch_start "
    "before_train_batch before_forward after_forward before_loss after_loss before_backward after_backward "
    "after_train_batch batch_end batch_checkpoint epoch_end epoch_checkpoint iteration_end iteration_checkpoint "
    "eval_before_all eval_start eval_batch_start eval_before_forward eval_after_forward eval_batch_end eval_end "
    "eval_after_all eval_standalone_start eval_standalone_end predict_start predict_batch_start predict_before_forward "
    "predict_after_forward predict_batch_end predict_end fit_end"
).split()


def composer(folder: str = SUBFOLDER, **options: Unpack[Options]) -> Any:
    """A Callback for Composer's Trainer. Text goes to those loggers that take text."""
    check("composer", options)
    try:
        from composer.core import Callback as Base
    except ImportError:
        Base = object

    class Tachograph(Base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.windows = StepWindows(folder, log=self._log, **options)
            self._logger: Any = None

        def _log(self, text: str, step: int) -> None:
            log_to_wandb(text)
            for destination in getattr(self._logger, "destinations", ()):
                log_to_writer(getattr(destination, "writer", None), text, step)

        def run_event(self, event: Any, state: Any, logger: Any) -> None:
            getattr(self, getattr(event, "value", event))(state, logger)

        def batch_start(self, state: Any, logger: Any) -> None:
            self._logger = logger
            self.windows.begin()

        def batch_end(self, state: Any, logger: Any) -> None:
            self.windows.end()

        def fit_end(self, state: Any, logger: Any) -> None:
            self.windows.finish()

        def close(self, state: Any, logger: Any) -> None:
            self.windows.finish()

        def post_close(self) -> None:
            pass

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    for event in COMPOSER_EVENTS:
        if not hasattr(Tachograph, event):
            setattr(Tachograph, event, lambda self, state, logger: None)
    return Tachograph()
