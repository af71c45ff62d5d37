"""Writes tests/fuzz/corpus/fuzz_elf: a small 64-bit ELF file made by hand, and the same with one field wrong at a time.

python3 tests/fuzz/make_elf_corpus.py"""

import pathlib
import struct

FOLDER = pathlib.Path(__file__).parent / "corpus" / "fuzz_elf"
NAMES = b"\0Py_AddPendingCall\0mmap\0"
EHDR, PHDR, SHDR, SYM = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IIQQQQIIQQ", "<IBBHQQ"


def small(symbol_link=2, symbol_size=None, text_offset=None, name_at=1, machine_class=2, sections=3):
    at_program, at_text = 64, 64 + 56
    at_symbols = (at_text + len(NAMES) + 7) // 8 * 8
    symbols = struct.pack(SYM, 0, 0, 0, 0, 0, 0) + struct.pack(SYM, name_at, 0x12, 0, 1, 0x1234, 8)
    symbols += struct.pack(SYM, 19, 0x12, 0, 0, 0, 0)  # mmap, which it needs and does not define
    at_sections = at_symbols + len(symbols)
    ident = b"\x7fELF" + bytes([machine_class, 1, 1]) + bytes(9)
    head = struct.pack(EHDR, ident, 3, 62, 1, 0, at_program, at_sections, 0, 64, 56, 1, 64, sections, 0)
    program = struct.pack(PHDR, 1, 5, 0, 0x1000, 0x1000, 0x2000, 0x2000, 0x1000)
    table = struct.pack(SHDR, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    size = len(symbols) if symbol_size is None else symbol_size
    table += struct.pack(SHDR, 0, 11, 0, 0, at_symbols, size, symbol_link, 1, 8, 24)
    table += struct.pack(SHDR, 0, 3, 0, 0, at_text if text_offset is None else text_offset, len(NAMES), 0, 0, 1, 0)
    return head + program + NAMES.ljust(at_symbols - at_text, b"\0") + symbols + table


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = small()
    cases = {
        "whole": whole,
        "link_too_far": small(symbol_link=9),
        "table_beyond_the_end": small(symbol_size=1 << 40),
        "table_not_whole": small(symbol_size=30),
        "texts_beyond_the_end": small(text_offset=1 << 60),
        "name_beyond_the_texts": small(name_at=1 << 30),
        "of_32_bits": small(machine_class=1),
        "sections_beyond_the_end": small(sections=4000),
        "cut": whole[:200],
        "head_alone": whole[:64],
        "empty": b"",
        "text": b"#!/bin/sh\n",
    }
    for name, data in cases.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
