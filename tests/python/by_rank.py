"""Folders of ranks of any size, read rank by rank as those of more than 16 MB are."""

import contextlib
import ctypes
import pathlib

import tachograph as tg

LIBRARY = ctypes.CDLL(str(pathlib.Path(tg.__file__).parent / "lib" / "libtachograph.so"))
USUAL = ctypes.c_int64(16 << 20)  # bytes of files


@contextlib.contextmanager
def by_rank():
    """While folders are opened; what was opened stays as it is."""
    LIBRARY.tg__ranks_large(ctypes.c_int64(0))
    try:
        yield
    finally:
        LIBRARY.tg__ranks_large(USUAL)


def open_by_rank(folder, **options):
    with by_rank():
        return tg.open(folder, **options)
