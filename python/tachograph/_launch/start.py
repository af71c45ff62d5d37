"""How our package starts a program with us inside it, as `tachograph run` does (src/cli/cmd_run.c)."""

from __future__ import annotations

import json
import os
from typing import Any

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def environment(folder: str, **settings: Any) -> dict[str, str]:
    """Of the program. folder has `raw`, for the logs of its processes."""
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "TACHOGRAPH_RUN": json.dumps({"dir": folder, **settings}),
        "TACHOGRAPH_RUN_FOLDER": folder,
        "PYTHONPATH": SITE + (os.pathsep + path if path else ""),
    }
