"""The page of a trace in the browser or in a notebook: `tachograph view` as a process beside this one."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import weakref
from html import escape
from typing import Any


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


class Page:
    """The page of a trace, until close(), the end of this object or of the program. In a notebook it shows itself."""

    def __init__(self, paths: list[str], height: int = 720, port: int = 0) -> None:
        binary = pathlib.Path(__file__).resolve().parent / "bin" / "tachograph"
        command = [str(binary), "view", "--json", "--no-browser", "--port", str(port), "--", *paths]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.height = height
        self.close = weakref.finalize(self, _end, process)  # close() ends it once, at the latest when Python ends
        said = json.loads((process.stdout.readline() if process.stdout else "") or "{}")
        if "url" not in said:
            self.close()
            raise RuntimeError(said.get("error", {}).get("text", "tachograph view ended at once"))
        self.url: str = said["url"]

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<page at {self.url}>" if self.close.alive else "<page, closed>"

    def _repr_html_(self) -> str:
        if not self.close.alive:
            return "<p>This page is closed; view() opens another.</p>"
        url = escape(self.url)
        return (
            f'<p><a href="{url}" target="_blank">{url}</a></p>'
            f'<iframe src="{url}" width="100%" height="{self.height}" style="border:1px solid #8884"></iframe>'
        )


def page_of(path: str | os.PathLike[str] | None, height: int, port: int) -> Page:
    if path is None or os.fspath(path) == "-":
        raise ValueError("view() needs a trace that was opened from a file or a folder")
    return Page([os.fspath(path)], height, port)
