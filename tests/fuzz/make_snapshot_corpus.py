#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/fuzz_snapshot: small memory snapshots of every protocol, cut and hostile ones."""

import pathlib
import pickle
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from snapshots import Device, entry, snapshot

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "fuzz_snapshot"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = snapshot([Device(0, 1, 12), None, Device(2, 2, 6, stacks=False)])
    files = {f"protocol_{p}": pickle.dumps(made, protocol=p) for p in range(6)}
    files["cut"] = files["protocol_4"][:700]
    files["segments_come_and_go"] = pickle.dumps(
        {"device_traces": [[entry("segment_alloc", 1, 9, 1), entry("oom", 1, 2, 3), entry("segment_free", 1, 9, 4)]]}
    )
    files["wild"] = pickle.dumps(
        {
            "segments": [{"total_size": -1, "device": 4095, "blocks": [{"state": "inactive", "size": 2**63 - 1}] * 3}],
            "device_traces": [[entry("alloc", 2**64 - 1, -7, 2**63), {"action": 5, "time_us": 1.5}]],
        }
    )
    files["calls"] = b"\x80\x02cos\nsystem\n(S'true'\ntR."
    files["memo_out_of_order"] = b"\x80\x02}r\xff\x00\x00\x00j\xff\x00\x00\x00h\x03."
    files["marks_without_container"] = b"\x80\x04((((ueatsN."
    files["odd_pairs"] = b"\x80\x04}(X\x06\x00\x00\x00actionK\x01Ku."
    files["long_text"] = b"\x80\x04X\xff\xff\xff\x7fabc"
    files["numbers"] = (
        b"\x80\x02](I01\nI-7\nL12L\nF1.5\nG?\xf8\x00\x00\x00\x00\x00\x00\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00\x8b\x01\x00\x00\x00\xffe."
    )
    said = {
        "compile_context": "0/1",
        "user_metadata": "a",
        "pool_id": (0, 3),
        "internal_metadata": "b",
        "forward_frames": ["x", "y"],
    }
    host = [
        entry(
            "alloc",
            4096,
            512,
            7,
            [
                {
                    "filename": "f",
                    "line": 1,
                    "name": "g",
                    "fx_node_name": "n",
                    "fx_original_trace": 'File "m.py", line 3, in h',
                }
            ],
            **said,
        )
    ]
    files["host"] = pickle.dumps(
        {
            **made,
            "host_segments": [{**made["segments"][0], "device": -1}],
            "host_traces": host,
            "trace_alloc_overflowed": [True],
            "device_type": "cpu",
            "dropped": 3,
        }
    )
    files["several"] = (
        pickle.dumps(7, protocol=2)
        + pickle.dumps({"a": 1}, protocol=2)
        + pickle.dumps({"device_traces": [[entry("annotate", 1, 0, 1)]]})
    )
    files["zip"] = b"PK\3\4" + bytes(22) + b"\x08\0\x02\0" + b"data.pkl" + b"FB" + files["several"]
    key = lambda text: b"X" + len(text).to_bytes(4, "little") + text
    files["dict_in_itself"] = b"\x80\x02}q\x00(" + b"".join(key(b"k" * n) + b"h\x00" for n in range(1, 60)) + b"u."
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
