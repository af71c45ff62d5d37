#!/usr/bin/env python3
"""Writes a log of TORCH_TRACE down to what tests/python/test_torch_logs.py reads of it, and what tlparse counts in it.

    TORCH_TRACE=log python tests/torch_logs/program.py
    shorten.py TLPARSE log/*.log tests/torch_logs/torch-X.Y.Z.log

Kept are the start of each compilation, its metrics, and the artifacts about recompilations, breaks and caches; of these
no member without a value and no frame outside of program.py, and the beginnings of texts and payloads. The counts
of tlparse 0.4.3 must be the same in both logs; they go into counts.json."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ARTIFACTS = {
    "dynamo_graph_break_reason",
    "recompile_reasons",
    "fx_graph_cache_hit",
    "fx_graph_cache_miss",
    "aotautograd_cache_hit",
    "aotautograd_cache_miss",
}
METRICS = ("compilation_metrics", "bwd_compilation_metrics")
BULK = {  # read by neither
    "accumulated_cache_size",
    "cache_size",
    "compliant_custom_ops",
    "end_time_us",
    "feature_usage",
    "frame_key",
    "gc_time_us",
    "graph_input_count",
    "graph_node_count",
    "guard_latency_us",
    "inductor_provenance",
    "ir_count",
    "shape_env_guard_count",
    "stack_trace",
}
LINES, TEXT = 8, 160
FOLDER = "/home/me"


def records(log):
    """[(text in front of the JSON, JSON, payload or None)]"""
    found = []
    for line in log.read_text().split("\n"):
        if re.match(r"[VDIWEC]\d{4} ", line):
            head, brace, document = line.partition("{")
            found.append((head, json.loads(brace + document), None))
        elif line.startswith("\t"):
            head, fields, payload = found[-1]
            found[-1] = head, fields, line[1:] if payload is None else payload + "\n" + line[1:]
    return found


def cut(value):
    return (
        value[:TEXT] if isinstance(value, str) else [cut(item) for item in value] if isinstance(value, list) else value
    )


def without_bulk(metrics):
    kept = {name: cut(value) for name, value in metrics.items() if value not in (None, {}, "") and name not in BULK}
    return {name: value for name, value in kept.items() if not re.search("config|version|shapes|overhead", name)}


def without_folders(text):
    text = re.sub(r"/[^\s\"'\\]*/program\.py", f"{FOLDER}/program.py", text)
    return re.sub(r"/[^\s\"'\\]*/(site-packages|lib/python3\.\d+)/", f"{FOLDER}/", text)


def shortened(log):
    names, lines = {}, []
    for head, fields, payload in records(log):
        if "str" in fields:
            name, number = fields["str"]
            names[number] = name
            if not name.endswith("/program.py"):
                continue
        elif "dynamo_start" in fields:
            stack = fields["dynamo_start"].get("stack", [])
            own = [frame for frame in stack if names[frame["filename"]].endswith("/program.py")]
            fields["dynamo_start"]["stack"] = own
        elif any(name in fields for name in METRICS):
            name = next(name for name in METRICS if name in fields)
            fields[name] = without_bulk(fields[name])
        elif fields.get("artifact", {}).get("name") not in ARTIFACTS:
            continue
        if payload is not None:
            payload = "\n".join(line[:TEXT] for line in payload.split("\n")[:LINES])
            payload = without_folders(payload)
            fields["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
        lines.append(head + without_folders(json.dumps(fields)))
        lines += ["\t" + line for line in payload.split("\n")] if payload is not None else []
    return "\n".join(lines) + "\n"


def counted(tlparse, log):
    """What tlparse shows of a log, by the number of the compilation."""
    with tempfile.TemporaryDirectory() as folder:
        command = [tlparse, log, "-o", folder, "--overwrite", "--no-browser"]
        stats = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        if "fail" in stats:
            sys.exit(f"{log}: {stats}")
        folder = pathlib.Path(folder)
        index, failures = (folder / "index.html").read_text(), (folder / "failures_and_restarts.html").read_text()
        directory = json.loads((folder / "compile_directory.json").read_text())
    named = {}
    for compilation, found in directory.items():
        for artifact in found["artifacts"]:
            name = re.sub(r"_\d+\.\w+$", "", artifact["name"])
            if name in ARTIFACTS or name in METRICS:
                number = re.sub(r"\[|\]|_\d+", "", compilation)
                named.setdefault(name, []).append(number)
    rows = re.findall(r"<tr> <td> <a[^>]*>\[([\d/]+)[_\d]*\]</a>\s*</td><td>\s*(?:<pre>)?\s*([^<]+?)\s*<", failures)
    return {
        "status": dict(re.findall(r"href='#\[([^']*)\]' class='status-([a-z]+)'", index)),
        "failures": sorted(number for number, kind in rows if kind != "RestartAnalysis"),
        "restarts": sorted(number for number, kind in rows if kind == "RestartAnalysis"),
        **{name: sorted(numbers) for name, numbers in sorted(named.items())},
    }


def main(tlparse, log, out):
    log, out, table = pathlib.Path(log), pathlib.Path(out), HERE / "counts.json"
    out.write_text(shortened(log))
    counts = counted(tlparse, out)
    if counts != counted(tlparse, log):
        sys.exit(f"{out}: tlparse counts {counts}, and in the whole log {counted(tlparse, log)}")
    known = json.loads(table.read_text()) if table.exists() else {}
    table.write_text(json.dumps({**known, out.stem: counts}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
