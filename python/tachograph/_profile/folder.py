"""session(folder): a profiler that keeps what belongs together in one folder."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

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
        window.export_chrome(str(self.folder / "trace.json.gz"))
        for name, text in (
            ("report.txt", window.trace().report()),
            ("summary.json", window.trace().report("json")),
            ("conditions.json", json.dumps(conditions(self._model), indent=2, default=str) + "\n"),
        ):
            (self.folder / name).write_text(text, encoding="utf-8")
        info(f"{self.folder}: trace, report, summary and conditions of this session")
