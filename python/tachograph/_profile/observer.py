"""ExecutionTraceObserver: torch's own, which writes the graph of operators; with the methods that older torch lacks."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod

from torch.profiler import ExecutionTraceObserver as _TorchObserver

from .._labels.annotate import observed
from .._say import warn


class ITraceObserver(ABC):
    """What a profiler asks of an execution_trace_observer."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def cleanup(self) -> None: ...


class ExecutionTraceObserver(_TorchObserver):
    """Writes a PyTorch execution trace: register_callback(path), then start() and stop(), or hand it to profile(…)."""

    _observes = False

    def start(self) -> None:
        super().start()
        if not self._observes:
            self._observes = True
            observed(1)

    def stop(self) -> None:
        super().stop()
        if self._observes:
            self._observes = False
            observed(-1)

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer writing to a temporary file *.et.json when ENABLE_PYTORCH_EXECUTION_TRACE=1; with its resources
        when ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS=1 too."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        try:
            handle, path = tempfile.mkstemp(suffix=".et.json")
            os.close(handle)
        except OSError as e:
            warn(f"Execution trace will not be recorded. Exception on creating default temporary file: {e}")
            return None
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        if hasattr(observer, "set_extra_resource_collection"):
            observer.set_extra_resource_collection(os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1")
        return observer


ITraceObserver.register(_TorchObserver)
