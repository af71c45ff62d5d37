"""Bad input: one clear sentence, the right exit status, and every whole event where there is one.

TG_SLOW=1 tries every cut, every bit and a string of 1 GB; without it a sample and 64 MB.
"""

import bz2
import gzip
import json
import lzma
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from engine import find_binary

SLOW = bool(os.environ.get("TG_SLOW"))
MB = 1 << 20
BINARY = find_binary()
HEAD = '{\n"schemaVersion": 1,\n"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},\n"traceEvents": [\n'
TAIL = '\n],\n"displayTimeUnit": "ms",\n"traceName": "made by a test"\n}\n'


def event(k, name="aten::mm", more=""):
    return (
        '  {\n    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": 7, "tid": 7,\n    "ts": %d.125, "dur": 80.5,\n'
        '    "args": {"External id": %d, "Input Dims": [[2, 3], []]%s}\n  }' % (name, 1000 + 100 * k, k + 1, more)
    )


def document(n=12, **how):
    return HEAD + ",\n".join(event(k, **how) for k in range(n)) + TAIL


def tachograph(*args, stdin=None, timeout=600, **how):
    run = subprocess.run(
        [BINARY, *map(str, args)], stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=timeout, **how
    )
    return run.returncode, run.stdout.decode("utf-8", "replace"), run.stderr.decode("utf-8", "replace")


def read(path, stdin=None, **how):
    """(status, events kept, names of losses, stderr)"""
    status, out, err = tachograph("ask", path, "overview", "--json", stdin=stdin, **how)
    assert status in (0, 4), "status %d\n%s" % (status, err)
    if status:
        one_sentence(err)
        return status, 0, set(), err
    answer = json.loads(out)
    names = [c["name"] for c in answer["columns"]]
    rows = [dict(zip(names, r)) for r in answer["rows"]]
    kept = [r["value"] for r in rows if r["group"] == "summary" and r["quantity"] == "events_kept"]
    return status, sum(map(int, kept)), {loss["name"] for loss in answer["losses"]}, err


def one_sentence(err):
    lines = [line for line in err.splitlines() if line.strip()]
    assert 1 <= len(lines) <= 4 and len(lines[0]) >= 12, err
    assert "Traceback" not in err and "Assertion" not in err and "Sanitizer" not in err, err


def put(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


# ---- nothing to read ---------------------------------------------------------------------------------------

NOT_TRACES = {
    "empty.json": b"",
    "blank.json": b" \n\t\n",
    "text.json": b"step 1 took 12 ms\nstep 2 took 13 ms\n",
    "number.json": b"17",
    "string.json": b'"traceEvents"',
    "object.json": b'{"a": 1}',
    "null.json": b"null",
    "list.json": b"[]",
    "no_events.json": b'{"traceEvents": []}',
    "events_not_list.json": b'{"traceEvents": 5}',
    "html.json": b"<!DOCTYPE html><html></html>",
    "png.json": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "zip.json": b"PK\x03\x04" + bytes(64),
    "elf.json": b"\x7fELF" + bytes(64),
    "pickle.json": b"\x80\x04\x95" + bytes(64),
    "zeros.json": bytes(4096),
    "empty.json.gz": gzip.compress(b""),
    "magic_alone.json.gz": b"\x1f\x8b",
    "bad_header.json.gz": b"\x1f\x8b\x08" + b"\xff" * 40,
    "magic_alone.json.zst": b"\x28\xb5\x2f\xfd",
    "empty.tacho": b"",
    "not.tacho": b"tachograph, but not really\n",
    "brackets.json": b"[" * 1_000_000,
    "braces.json": b'{"a":' * 1_000_000,
}


@pytest.mark.parametrize("name", NOT_TRACES)
def test_not_a_trace(tmp_path, name):
    path = put(tmp_path, name, NOT_TRACES[name])
    for command in (("ask", path, "overview", "--json"), ("report", path), ("check", path)):
        status, _, err = tachograph(*command)
        assert status == 4, (command, status, err)
        one_sentence(err)
        assert name in err, "the sentence does not name the file: " + err


TEXT = '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
CURES = {
    "utf16": (TEXT.encode("utf-16"), "UTF-8"),
    "utf16_le": (TEXT.encode("utf-16-le"), "UTF-8"),
    "utf16_be": (TEXT.encode("utf-16-be"), "UTF-8"),
    "utf32": (TEXT.encode("utf-32"), "UTF-8"),
    "twice": (gzip.compress(gzip.compress(TEXT.encode())), "packed twice"),
    "bzip2": (bz2.compress(TEXT.encode()), "bzip2"),
    "xz": (lzma.compress(TEXT.encode()), "xz"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n", "git lfs pull"),
}


@pytest.mark.parametrize("kind", CURES)
def test_what_to_do_with_a_trace_in_a_wrapping_we_do_not_read(tmp_path, kind):
    data, cure = CURES[kind]
    status, _, err = tachograph("ask", put(tmp_path, "trace.json", data), "overview")
    assert status == 4 and cure in err, err


def test_zeros_before_the_text_are_no_utf16(tmp_path):
    status, out, _ = tachograph(
        "ask", put(tmp_path, "trace.json", bytes(3) + TEXT.encode()), "events", "--by", "slice", "--json"
    )
    assert status == 0 and len(json.loads(out)["rows"]) == 1


def test_no_such_file(tmp_path):
    status, out, err = tachograph("report", tmp_path / "nowhere.json")
    assert (status, out) == (4, "") and "nowhere.json" in err
    one_sentence(err)


@pytest.mark.parametrize("names", [(), ("README.md", "notes.txt")])
def test_directory_without_traces(tmp_path, names):
    for name in names:
        put(tmp_path, name, "nothing here\n")
    status, _, err = tachograph("report", tmp_path)
    assert status == 4 and tmp_path.name in err
    one_sentence(err)


def test_permission_denied(tmp_path):
    path = put(tmp_path, "secret.json", document())
    path.chmod(0)
    tmp_path.chmod(0o755)
    how = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    try:
        status, _, err = tachograph("report", path, **how)
    except PermissionError:
        pytest.skip("the command line lies where another user may not run it")
    assert status == 4 and "secret.json" in err and "ermission" in err
    one_sentence(err)


# ---- cut files ---------------------------------------------------------------------------------------------


def whole_events(text):
    """How many events of document() lie entirely in a prefix of it: each ends with its own `}` on a line of two
    blanks."""
    return text.count("\n  }")


def cuts(size, every):
    return range(max(1, size - 1024), size, 1 if SLOW else every)


def test_cut_at_every_byte(tmp_path):
    data = document().encode()
    for cut in cuts(len(data), 5):
        status, kept, losses, err = read(put(tmp_path, "cut.json", data[:cut]))
        want = whole_events(data[:cut].decode())
        assert (status, kept) == ((0, want) if want else (4, 0)), (cut, status, kept, want, err)
        inside = data[:cut].decode().rstrip().rstrip(",")
        if (
            want
            and whole_events(inside) == want
            and not inside.endswith("}")
            and want < 12
            and not inside.endswith("[")
        ):
            assert "cut_end" in losses, (cut, losses)


def test_cut_gzip(tmp_path):
    data = gzip.compress(document(40).encode(), 6)
    for cut in cuts(len(data), 11):
        status, kept, _, err = read(put(tmp_path, "cut.json.gz", data[:cut]))
        try:
            text = zlib.decompressobj(31).decompress(data[:cut]).decode()
        except zlib.error:
            text = ""
        want = whole_events(text)
        assert (status, kept) == ((0, want) if want else (4, 0)), (cut, status, kept, want, err)


def test_cut_tacho(tmp_path):
    whole = tmp_path / "whole.tacho"
    assert tachograph("convert", put(tmp_path, "whole.json", document(40)), "-o", whole)[0] == 0
    data = whole.read_bytes()
    assert read(whole)[:2] == (0, 40)
    for cut in [*cuts(len(data), 23), *range(0, 64, 7)]:
        status, kept, losses, err = read(put(tmp_path, "cut.tacho", data[:cut]))
        assert kept <= 40 and (status == 4) == (kept == 0), (cut, status, kept, err)


# ---- damaged files -----------------------------------------------------------------------------------------


def test_every_bit(tmp_path):
    """A damaged event costs that event only. Bits of what stands around the events may cost more, never a crash."""
    data = document(5).encode()
    first, last = data.index(b"  {\n    "), data.rindex(b"\n  }") + 4
    bits = range(8 * len(data)) if SLOW else sorted(random.Random(5).sample(range(8 * len(data)), 300))
    for bit in bits:
        bent = bytearray(data)
        bent[bit // 8] ^= 1 << bit % 8
        status, kept, _, err = read(put(tmp_path, "bent.json", bytes(bent)))
        if first <= bit // 8 < last:
            assert status == 0 and 4 <= kept <= 6, "bit %d (%r became %r): kept %d\n%s" % (
                bit,
                chr(data[bit // 8]),
                chr(bent[bit // 8]),
                kept,
                err,
            )


@pytest.mark.parametrize("packing", ("gz", "tacho"))
def test_bits_of_packed_files(tmp_path, packing):
    plain = put(tmp_path, "plain.json", document(40))
    whole = tmp_path / ("whole." + packing)
    if packing == "gz":
        whole.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        assert tachograph("convert", plain, "-o", whole)[0] == 0
    data = whole.read_bytes()
    bits = range(8 * len(data)) if SLOW else random.Random(6).sample(range(8 * len(data)), 150)
    for bit in bits:
        bent = bytearray(data)
        bent[bit // 8] ^= 1 << bit % 8
        read(put(tmp_path, "bent." + packing, bytes(bent)))


@pytest.mark.parametrize(
    "damage",
    [
        '"dur": NaN',
        '"dur": -1.-500',
        '"dur": 0.-05',
        '"bad": "\\p"',
        '"say": "he said "no" twice"',
        '"v": N/A',
        '"x": tru',
        '"dims": [[2", 3], []]',
        '"dims": [[2, 3, []',
        '"dims": {"a": [1}',
    ],
)
def test_damaged_event_costs_itself_alone(tmp_path, damage):
    bad = event(5).replace('"dur": 80.5', '"dur": 80.5, ' + damage if "dur" not in damage else damage)
    text = HEAD + ",\n".join(bad if k == 5 else event(k) for k in range(12)) + TAIL
    status, kept, losses, err = read(put(tmp_path, "damaged.json", text))
    assert status == 0 and kept in (11, 12) and losses, (kept, losses, err)
    one_line = (
        "["
        + ",".join(
            json.dumps({"ph": "X", "name": "n", "pid": 1, "tid": 1, "ts": k, "dur": 1})
            if k != 5
            else "{%s}" % bad.strip()[1:-1].replace("\n", "")
            for k in range(60)
        )
        + "]"
    )
    status, kept, losses, err = read(put(tmp_path, "one_line.json", one_line))
    assert status == 0 and kept in (59, 60) and losses, (kept, losses, err)


# ---- deep, long, many --------------------------------------------------------------------------------------


def test_deep_nesting(tmp_path):
    deep = ', "deep": ' + "[" * 1_000_000 + "]" * 1_000_000
    text = HEAD + ",\n".join([event(0), event(1, more=deep), event(2)]) + TAIL
    status, kept, _, _ = read(put(tmp_path, "deep.json", text))
    assert status == 0 and kept in (2, 3)
    text = (
        HEAD.replace('"schemaVersion": 1', '"deep": ' + '{"a":' * 1_000_000 + "1" + "}" * 1_000_000) + event(0) + TAIL
    )
    status, kept, _, _ = read(put(tmp_path, "deep_head.json", text))
    assert (status, kept) in ((0, 1), (4, 0))


def feed(path, pieces):
    """Writes pieces into a FIFO, in a thread; a reader that leaves early is fine."""

    def work():
        try:
            with open(path, "wb") as f:
                for p in pieces:
                    f.write(p)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_fifo_with_huge_string(tmp_path):
    fifo = tmp_path / "pipe.json"
    os.mkfifo(fifo)
    size = (1024 if SLOW else 64) * MB
    before, after = event(1).split("aten::mm")
    pieces = [
        (HEAD + event(0) + ",\n" + before).encode(),
        *[b"A" * MB] * (size // MB),
        (after + ",\n" + event(2) + TAIL).encode(),
    ]
    thread = feed(fifo, pieces)
    status, kept, losses, err = read(fifo, timeout=600)
    thread.join(timeout=600)
    assert status == 0 and (kept == 3 or (kept == 2 and "skipped_too_large" in losses)), (kept, losses, err)


def test_what_comes_after_something_too_large(tmp_path):
    """Reading goes on at the next event, and places in the file are still said right."""
    fifo = tmp_path / "huge.json"
    os.mkfifo(fifo)
    damaged = event(2).replace('"dur"', '"dur')
    before, huge = HEAD + event(0) + ",\n", '{"ph": "X", "name": "'
    after = '"\n},\n' + event(1) + ",\n" + damaged + ",\n" + event(3) + TAIL
    thread = feed(fifo, [(before + huge).encode(), *[b"A" * MB] * 80, after.encode()])
    status, out, err = tachograph("ask", fifo, "overview", "--json")
    thread.join(timeout=600)
    assert status == 0, err
    lost = {loss["name"]: loss["offset"] for loss in json.loads(out)["losses"]}
    start = len(before) + len(huge) + 80 * MB
    assert lost["skipped_too_large"] == len(before), lost
    assert start + after.index(damaged) <= lost["skipped_syntax"] < start + after.index(event(3)), lost


# A child's peak counts what it was forked from, too, so it is measured from a small interpreter, not from this process.
MEASURE = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
_, status, usage = os.wait4(child.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024, file=sys.stderr)
"""


def peak_rss(command):
    """(status, output, peak resident bytes)"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, *map(str, command)],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    status, rss = done.stderr.split()
    return int(status), done.stdout, int(rss)


def test_gzip_bomb(tmp_path):
    """A thousandfold of blanks between two events: memory does not follow the unpacked size."""
    size = (2048 if SLOW else 256) * MB
    bomb = tmp_path / "bomb.json.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with open(bomb, "wb") as f:
        f.write(packer.compress((HEAD + event(0) + ",").encode()))
        for _ in range(size // MB):
            f.write(packer.compress(b" " * MB))
        f.write(packer.compress((event(1) + TAIL).encode()) + packer.flush())
    assert bomb.stat().st_size < size // 500
    status, out, rss = peak_rss([BINARY, "ask", str(bomb), "overview", "--json"])
    assert status == 0 and json.loads(out)["rows"]
    assert rss < 96 * MB, "%d MB for a bomb of %d MB" % (rss // MB, size // MB)
    assert read(bomb)[1] == 2


# ---- odd but whole -----------------------------------------------------------------------------------------


def test_duplicate_ids_and_backward_time(tmp_path):
    launch = '{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":7,"ts":%d,"dur":5,"args":{"correlation":9,"External id":1}}'
    kernel = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":5,"args":{"device":0,"stream":7,"correlation":9}}'
    rows = [event(k).replace('"External id": %d' % (k + 1), '"External id": 1') for k in reversed(range(6))]
    rows += [launch % 1510, launch % 1010, kernel % 1600, kernel % 1100]
    status, kept, losses, _ = read(put(tmp_path, "odd.json", HEAD + ",".join(rows) + TAIL))
    assert (status, kept, losses) == (0, 10, set())


def test_standard_input_and_fifo(tmp_path):
    for data in (document(40).encode(), gzip.compress(document(40).encode())):
        path = put(tmp_path, "in", data)
        with open(path, "rb") as f:
            assert read("-", stdin=f)[:2] == (0, 40)
        fifo = tmp_path / ("fifo%d" % len(data))
        os.mkfifo(fifo)
        thread = feed(fifo, [data[k : k + 100] for k in range(0, len(data), 100)])
        assert read(fifo)[:2] == (0, 40)
        thread.join(timeout=600)
    assert read("-")[0] == 4


def test_tacho_through_a_pipe(tmp_path):
    trace = put(tmp_path, "t.json", document(40).encode())
    packed, summary = tmp_path / "t.tacho", tmp_path / "t.tsum"
    assert tachograph("convert", trace, "-o", packed)[0] == 0 and tachograph("summarize", trace, "-o", summary)[0] == 0
    whole = packed.read_bytes()
    for size in [0, 8, 40, *range(100, len(whole), 331), len(whole)]:
        cut = put(tmp_path, "cut", whole[:size])
        with subprocess.Popen(["cat", str(cut)], stdout=subprocess.PIPE) as pipe:
            through, beside = read("-", stdin=pipe.stdout), read(cut)
        assert through[:3] == beside[:3], size
    assert through[:3] == (0, 40, set())
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    thread = feed(fifo, [whole[k : k + 100] for k in range(0, len(whole), 100)])
    assert (
        tachograph("convert", fifo, "-o", tmp_path / "again.tacho")[0] == 0
        and (tmp_path / "again.tacho").read_bytes() == whole
    )
    thread.join(timeout=600)
    with subprocess.Popen(["cat", str(summary)], stdout=subprocess.PIPE) as pipe:
        assert tachograph("ask", "-", "ranks", stdin=pipe.stdout)[1] == tachograph("ask", summary, "ranks")[1] != ""
    status, _, err = tachograph("report", put(tmp_path, "t.tacho.gz", gzip.compress(whole)))
    assert status == 4 and "packed once more: unpack it first" in err
    one_sentence(err)


def test_file_shrinks_while_read(tmp_path):
    """Whatever the moment: an answer from what was there, or one sentence; no signal."""
    text = document(120_000).encode()
    for delay in (0.001, 0.004, 0.012, 0.03, 0.06) if not SLOW else [k / 1000 for k in range(60)]:
        path = put(tmp_path, "shrinks.json", text)
        child = subprocess.Popen(
            [BINARY, "ask", str(path), "overview", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(delay)
        os.truncate(path, 1000)
        out, err = child.communicate(timeout=600)
        assert child.returncode in (0, 4), (delay, child.returncode, err)
        if child.returncode:
            one_sentence(err.decode())
        else:
            json.loads(out)
