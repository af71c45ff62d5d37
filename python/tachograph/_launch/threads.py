"""Where the program sets torch's number of threads. From the import of torch to the recorded steps a function of ours
takes the place of torch.set_num_threads; afterwards it is what it was."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Any

from .._collect import metadata


def frame_place(frame: FrameType) -> str:
    """As the recorder names frames: the file without the folder it was found in."""
    file = frame.f_code.co_filename
    folders = [os.path.join(os.path.abspath(path), "") for path in sys.path]
    cut = max((len(folder) for folder in folders if file.startswith(folder)), default=0)
    return f"{file[cut:]}({frame.f_lineno}): {frame.f_code.co_name}"


class ThreadSettings:
    def __init__(self, torch: Any):
        self._torch, original = torch, torch.set_num_threads

        @functools.wraps(original)
        def set_num_threads(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            metadata.threads_set_at = frame_place(sys._getframe(1))
            return result

        self._original, self._ours = original, set_num_threads
        torch.set_num_threads = set_num_threads

    def remove(self) -> None:
        """What the program itself has put in its place since then stays."""
        if self._torch.set_num_threads is self._ours:
            self._torch.set_num_threads = self._original
