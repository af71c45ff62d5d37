#!/usr/bin/env python3
"""Writes the corpus of fuzz_torch_log from a log of TORCH_TRACE: what is read of it, whole, cut, with bytes changed.

make_torch_log_corpus.py tests/fuzz/corpus/fuzz_torch_log dedicated_log_torch_trace_x.log"""

import json
import pathlib
import random
import re
import sys

WANTED = ("chromium_event", "compilation_metrics", "dynamo_graph_break_reason", "recompile_reasons", "dynamo_start")
LINES = (
    'V1128 05:20:32.629000 26312 torch/x.py:1] {"artifact": {"name": "inductor_provenance_tracking_kernel_stack_traces"'
    ', "encoding": "json"}, "frame_id": 0, "frame_compile_id": 0, "has_payload": "x"}\n'
)
BULKY = re.compile("config|stack|version|shapes")
EVENTS = 12


def records(text):
    """(line, lines of its payload)"""
    found = []
    for line in text.splitlines():
        if re.match(r"[VDIWEC]\d{4} ", line):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def shortened(log):
    kept, events = [], 0
    for line, payload in records(log):
        if not any(word in line for word in WANTED):
            continue
        events += "chromium_event" in line
        if "chromium_event" in line and events > EVENTS:
            continue
        head, _, document = line.partition("{")
        fields = json.loads("{" + document)
        metrics = fields.get("compilation_metrics")
        if metrics:
            fields["compilation_metrics"] = {k: v for k, v in metrics.items() if v is not None and not BULKY.search(k)}
        kept.append("\n".join([head + json.dumps(fields), *payload[:12]]))
    return ("\n".join(kept) + "\n").replace(str(pathlib.Path.home()), "/home/me")


def main(folder, path):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    log = re.sub(r"/tmp/[a-z/.]*/", "/home/me/", shortened(pathlib.Path(path).read_text()))
    whole = "".join(log.splitlines(keepends=True)[:400]).encode()
    random.seed(1)
    (folder / "whole.log").write_bytes(whole)
    for n in range(6):
        (folder / f"cut_{n}.log").write_bytes(whole[: random.randrange(len(whole) // 8)])
        changed = bytearray(whole[:6000])
        for _ in range(20):
            changed[random.randrange(len(changed))] = random.randrange(256)
        (folder / f"changed_{n}.log").write_bytes(bytes(changed))
    (folder / "no_payload.log").write_bytes(b'V1128 05:20:32.629000 26312 torch/x.py:1] {"chromium_event": {}}\n')
    stacks = {"cpp_fused_0:1": ['File "/a/b.py", line 3, in f'], 'x"': [3, None], "extern:2": "no list"}
    for name, payload in {"lines": json.dumps(stacks), "lines_cut": json.dumps(stacks)[:40]}.items():
        (folder / f"{name}.log").write_text(LINES + "\t" + payload + "\n" + LINES + "\t" + payload + "\n")
    (folder / "no_records.log").write_bytes(b"V1128 05:20:32.629000 26312 torch/x.py:1]\n\t{\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
