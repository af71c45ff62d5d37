#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/fuzz_inflate: small packed files of every shape the unpacker tells apart. The first byte of
each is the target's piece size. Needs the zstd command for the zstd ones."""

import gzip
import pathlib
import struct
import subprocess
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "fuzz_inflate"
TEXT = b"".join(b'{"ph":"X","name":"op%d","ts":%d.%03d}\n' % (i % 7, i * 13, i % 1000) for i in range(60))


def gz(data, level=9):
    return gzip.compress(data, level, mtime=0)


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def header_with(flags, extra):
    """A gzip member with optional header fields, made by hand."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(TEXT) + packer.flush()
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra + body + struct.pack("<II", zlib.crc32(TEXT), len(TEXT))


def damaged(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def cases():
    packed, frame = gz(TEXT), zstd(TEXT)
    yield "plain", TEXT
    yield "nothing", b""
    yield "gz", packed
    yield "gz_stored", gz(TEXT, 0)
    yield "gz_empty", gz(b"")
    yield "gz_two", gz(TEXT[:500]) + gz(TEXT[500:])
    yield "gz_padded", packed + bytes(64)
    yield "gz_rubbish", packed + b"\x1f\x8b\x08rubbish"
    yield "gz_cut_header", packed[:7]
    yield "gz_cut_body", packed[: len(packed) // 2]
    yield "gz_cut_trailer", packed[:-3]
    yield "gz_bad_checksum", damaged(packed, len(packed) - 6)
    yield "gz_bad_length", damaged(packed, len(packed) - 2)
    yield "gz_bad_body", damaged(packed, len(packed) // 2)
    yield "gz_bad_method", b"\x1f\x8b\x07" + packed[3:]
    yield "gz_name", header_with(8, b"trace.json\0")
    yield "gz_extra", header_with(4, struct.pack("<H", 6) + b"AB\x02\0xy")
    yield "gz_comment", header_with(16, b"a comment\0")
    yield "gz_endless_name", b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 300
    yield "gz_bomb", gz(bytes(1 << 20))
    yield "zst", frame
    yield "zst_checksum", zstd(TEXT, "--check")
    yield "zst_bad_checksum", damaged(zstd(TEXT, "--check"), len(zstd(TEXT, "--check")) - 1)
    yield "zst_two", zstd(TEXT[:500]) + zstd(TEXT[500:])
    yield "zst_skippable", b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello" + frame
    yield "zst_rubbish", frame + b"rubbish"
    yield "zst_cut", frame[: len(frame) // 2]
    yield "zst_bad", damaged(frame, len(frame) // 2)
    yield "zst_window", frame[:4] + b"\x00\xf8" + frame[6:]  # asks for a window of gigabytes


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for number, (name, data) in enumerate(cases()):
        (FOLDER / name).write_bytes(bytes([number * 7 % 256]) + data)


if __name__ == "__main__":
    main()
