#!/usr/bin/env python3
"""Writes the corpus of fuzz_kernel_lines: members as a recording has them and as a log has them, cut, and with bytes
changed.

make_kernel_lines_corpus.py tests/fuzz/corpus/fuzz_kernel_lines"""

import json
import pathlib
import random
import sys

STACK = 'File "/a/train.py", line 3, in step\n  File "/a/model.py", line 8, in forward'
RECORDED = {"lost": 0, "stacks": [STACK, STACK.replace("8", "9")], "kernels": {"0/0": {"cpp_fused_0:1": [0, 1]}}}
LOGGED = {"kernels": {"0/0": {"cpp_fused_0:1": [STACK, "Gradient addition node " + STACK, "\\u00e4 \ud83d"]}}}
ODD = {
    "numbers": {"stacks": [STACK], "kernels": {"0/0": {"cpp_fused_0": [-1, 1, 9999999999999999999, 0.5, None, "0"]}}},
    "repeated": {"kernels": {"0/0": {f"cpp_fused_0:{n}": [STACK.replace("8", str(n))] for n in range(70)}}},
    "half": {
        "kernels": {
            "0/0": {"cpp_fused_0": ['File "', 'File "a", line ', 'File "a", line 1, in ', 'File "", line 1, in f']}
        }
    },
    "other": {"stacks": {"a": STACK}, "kernels": [["cpp_fused_0"]]},
    "modules": {
        "paths": ["a(Linear)", "a(Linear) / b(Linear)", "", " / ", "(", "a(Linear) / )"],
        "modules": {
            "0/0": {"cpp_fused_0:1": [0, 1, 9, -1, None], "extern_kernels.mm:2": [1], "cpp_fused_0:3": [3, 4, 5]},
            "0/0 backward": {"torch.ops.aten.mm.out:1": [0], "torch.ops.": [0], "aten.": [2], "mm": [0]},
        },
    },
}


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    for name, document in {"recorded": RECORDED, "logged": LOGGED, **ODD}.items():
        whole = json.dumps(document).encode()
        (folder / name).write_bytes(whole)
        (folder / f"{name}_cut").write_bytes(whole[: random.randrange(len(whole))])
        changed = bytearray(whole)
        for _ in range(4):
            changed[random.randrange(len(changed))] = random.randrange(256)
        (folder / f"{name}_changed").write_bytes(bytes(changed))


if __name__ == "__main__":
    main(*sys.argv[1:])
