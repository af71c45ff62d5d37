"""session(folder): a profiler that keeps what belongs together in one folder."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from .. import open as open_trace
from .._measure.conditions import conditions
from .._say import info
from ..profiler import profile


class session(profile):
    """`with tachograph.session("runs/a") as prof: …`: a profile; its last window goes into the folder as
    trace.json.gz, report.txt, summary.json (the report's figures) and conditions.json (machine, versions, threads).
    model: its size and mode are noted. All other arguments are those of profile(…)."""

    def __init__(self, folder: str | os.PathLike[str], model: Any = None, **options: Any) -> None:
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._model = model
        super().__init__(**options)

    def stop_trace(self) -> None:
        super().stop_trace()
        window = self._windows[-1]
        file = self.folder / "trace.json.gz"
        window.export_chrome(str(file))
        with open_trace(file) as trace:  # what the folder keeps: the report's commands name a file that stays
            report, summary = trace.report(), trace.report("json")
        for name, text in (
            ("report.txt", report),
            ("summary.json", summary),
            ("conditions.json", json.dumps(conditions(self._model), indent=2, default=str) + "\n"),
        ):
            (self.folder / name).write_text(text, encoding="utf-8")
        info(f"{self.folder}: trace, report, summary and conditions of this session")
