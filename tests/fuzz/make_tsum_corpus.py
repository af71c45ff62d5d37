#!/usr/bin/env python3
"""Writes the corpus of fuzz_tsum: small summaries of made-up runs, whole, cut and with a byte changed. Run it when the
format changes:

make_tsum_corpus.py tests/fuzz/corpus/fuzz_tsum build/tachograph"""

import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import pyarrow

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import test_ranks


def summary(binary, folder, run, **how):
    source, target = test_ranks.write(folder / "run", run, **how), folder / "run.tsum"
    subprocess.run([binary, "summarize", source, "-o", target], check=True, capture_output=True)
    for f in source.iterdir():
        f.unlink()
    return target.read_bytes()


def record(data):
    """What the first rank's chunk holds, unpacked: docs/format.md."""
    at = 16
    while True:
        kind, part, length = struct.unpack_from("<2xHIQ", data, at)
        payload = data[at + 32 : at + 32 + length]
        if kind == 129 and part == 0:
            rows, packed = struct.unpack_from("<I2xB", payload)
            return pyarrow.Codec("zstd").decompress(payload[16:], rows).to_pybytes() if packed else payload[16:]
        at += 32 + (length + 7) // 8 * 8


def main():
    out, binary, rnd = pathlib.Path(sys.argv[1]), sys.argv[2], random.Random(1)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        runs = {
            "two": (test_ranks.simple_run(), {}),
            "groups": (test_ranks.make_run(1, groups=("0", "1")), {}),
            "uneven": (test_ranks.make_run(2, numbered=False, whole=False), {}),
            "gloo": (test_ranks.make_run(3, numbered=False), {"device": False}),
        }
        for name, (run, how) in runs.items():
            data = summary(binary, folder, run, **how)
            (out / name).write_bytes(b"\0" + data)
            (out / (name + "-record")).write_bytes(b"\2" + record(data))
            (out / (name + "-cut")).write_bytes(b"\0" + data[: len(data) * 2 // 3])
            bad = bytearray(data)
            bad[rnd.randrange(80, len(bad))] ^= 64
            (out / (name + "-bent")).write_bytes(b"\0" + bytes(bad))


if __name__ == "__main__":
    main()
