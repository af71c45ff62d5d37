"""Annotations of CUDA graph nodes, put into a Chrome trace that is written: fields of its annotation for every kernel
of a graph, and, if asked for, a lane of its own. Only GPU work has graph nodes, so this never runs for a CPU trace."""

from __future__ import annotations

import builtins
import gzip
import json
import os
from collections.abc import Mapping
from typing import Any

_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def check_lanes(annotations: Mapping[int, Any] | None, lanes: str) -> None:
    if lanes not in ("none", "all"):
        raise ValueError(f"graph_lanes={lanes!r}: it is 'none' or 'all'")
    if lanes == "all" and not annotations:
        raise ValueError("graph_lanes='all' needs cuda_graph_annotations that are not empty")


def bake_annotations(path: str, annotations: Mapping[int, Any], lanes: str, default_stream: int) -> None:
    opener = gzip.open if path.endswith(".gz") else builtins.open
    with opener(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    rows: dict[tuple[Any, Any], str] = {}
    found = [_annotate(event, annotations, lanes, default_stream, rows) for event in document["traceEvents"]]
    if not any(found):
        return
    document["traceEvents"].extend(
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}
        for (pid, tid), name in rows.items()
    )
    document["cudaGraphInlineAnnotated"] = True
    draft = f"{path}.{os.getpid()}.draft"
    with opener(draft, "wt", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(draft, path)


def _annotate(
    event: dict[str, Any], annotations: Mapping[int, Any], lanes: str, default_stream: int, rows: dict[Any, str]
) -> bool:
    """Whether the event is work of an annotated graph node. rows: name of every lane that was made."""
    args = event.get("args") or {}
    if event.get("cat") not in _DEVICE_WORK or "graph node id" not in args:
        return False
    fields = annotations.get(args["graph node id"])
    if fields is not None:
        values = fields if isinstance(fields, Mapping) else {"annotation": fields}
        args.update({"annotated_stream" if key == "stream" else key: str(value) for key, value in values.items()})
    if lanes == "all" and args.get("graph node id"):
        lane = int(args.get("annotated_stream", default_stream))
        args["original_stream"], args["stream"] = args.get("stream", event["tid"]), lane
        event["tid"] = lane
        rows[event["pid"], lane] = args.get("Process Group Description", f"stream {lane} ")
    return fields is not None
