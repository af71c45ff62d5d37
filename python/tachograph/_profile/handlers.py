"""tensorboard_trace_handler: what happens with each window that a scheduled profiler has recorded."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """A handler for `profile(on_trace_ready=…)` that writes one file a window into `dir_name`, under the names that
    TensorBoard and HTA expect: `<worker>.<ns>.pt.trace.json`, `.gz` with use_gzip. worker_name: `<host>_<pid>` by
    default."""

    def handler(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as e:
            raise RuntimeError("Can't create directory: " + os.fspath(dir_name)) from e
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name), use_python_export=use_python_export)

    return handler
