"""Baseline files: the accepted costs of a test. They belong into the repository."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
from typing import Any

VERSION = 1


def path_of(folder: pathlib.Path, nodeid: str) -> pathlib.Path:
    """tests/test_a.py::test_b[c] → folder/tests/test_a.py/test_b[c].json, with characters that no file system likes
    replaced."""
    file, _, test = nodeid.partition("::")
    parts = [re.sub(r"[^\w.\-\[\]]", "_", part) for part in file.split("/") if part not in ("", ".", "..")]
    return folder.joinpath(*parts, re.sub(r"[^\w.\-\[\]]", "_", test)[:150] + ".json")


def machine() -> dict[str, Any]:
    """What times may only be compared on."""
    import torch

    from .._measure.conditions import _cpu

    cpu = _cpu()
    return {
        "cpu": cpu["cpu"],
        "cpu_cores": cpu["cpu_cores"],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Why times cannot be compared; patch versions of Python may differ."""
    return [
        f"{name} is {here.get(name)!r}, of the baseline {there.get(name)!r}"
        for name in ("cpu", "cpu_cores", "gpu", "threads", "torch")
        if there.get(name) != here.get(name)
    ]


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """None where there is none; ValueError for what is no baseline."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"{path}: version {document['version']} of a baseline, this package reads {VERSION}")
        return {"machine": dict(document["machine"]), "figures": {k: float(v) for k, v in document["figures"].items()}}
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is no baseline file ({error}); write it again with pytest --tachograph-update"
        ) from None


def write(path: pathlib.Path, figures: dict[str, float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"version": VERSION, "machine": machine(), "figures": figures}
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    draft.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(draft, path)
