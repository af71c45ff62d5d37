"""The command line as a user meets it: exit status, messages and their streams, where output goes."""

import csv
import gzip
import io
import json
import os
import pathlib
import pty
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "tools"))
import defs

COMMANDS = [args[0] for macro, args in defs.read("src/cli/commands.def") if macro == "COMMAND"]


def slice_event(name, ts, dur, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def trace_text(count=3, **document):
    """count operators of 2 µs each, one every 10 µs, named op0 … op4 in turn."""
    events = [slice_event(f"op{i % 5}", 10 * i, 2) for i in range(count)]
    return json.dumps({"traceEvents": events, **document})


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace_text(50))
    return path


def answer(run):
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def column(table, name):
    at = [c["name"] for c in table["columns"]].index(name)
    return [row[at] for row in table["rows"]]


# ---- the shape of an answer


def test_json_answer_has_five_parts_and_all_rows(tachograph, trace):
    table = answer(tachograph("ask", trace, "events", "--json"))
    assert list(table) == ["question", "columns", "rows", "notes", "losses"]
    assert table["question"] == "events"
    assert all(set(c) == {"name", "type", "unit"} for c in table["columns"])
    assert len(table["rows"]) == 50
    assert column(table, "start_ns") == [10_000 * i for i in range(50)]
    assert column(table, "dur_ns") == [2000] * 50
    assert table["losses"] == []


def test_text_stops_at_twenty_rows_and_says_how_many_there_are(tachograph, trace):
    run = tachograph("ask", trace, "events")
    assert run.returncode == 0
    assert sum(bool(re.search(r"\bop\d\b", line)) for line in run.stdout.splitlines()) == 20
    assert "20 of 50 rows; all of them: --limit all" in run.stdout
    everything = tachograph("ask", trace, "events", "--limit", "all").stdout
    assert sum(bool(re.search(r"\bop\d\b", line)) for line in everything.splitlines()) == 50
    assert "rows; all of them" not in everything


def test_arguments_reach_the_question(tachograph, trace):
    table = answer(tachograph("ask", trace, "ops", "--sort", "name", "--limit=2", "--json"))
    assert len(table["rows"]) == 2
    table = answer(tachograph("ask", trace, "events", "--where", "start_ns >= 480us", "--json"))
    assert column(table, "start_ns") == [480_000, 490_000]


def test_csv(tachograph, trace):
    rows = list(csv.DictReader(io.StringIO(tachograph("ask", trace, "events", "--format", "csv").stdout)))
    assert [int(r["start_ns"]) for r in rows] == [10_000 * i for i in range(50)]


def test_file_and_question_may_change_places(tachograph, trace):
    assert answer(tachograph("ask", "tracks", trace, "--json"))["question"] == "tracks"


def test_every_question_can_be_described(tachograph):
    names = column(answer(tachograph("questions", "--json")), "question")
    assert {"overview", "steps", "ops", "kernels", "events", "losses"} <= set(names)
    for name in names:
        table = answer(tachograph("questions", name, "--json"))
        kinds = column(table, "kind")
        assert "column" in kinds and "argument" in kinds
        assert all(column(table, "meaning"))
        assert {"where", "sort", "limit"} <= set(column(table, "name"))
        assert all((role is None) == (kind == "argument") for role, kind in zip(column(table, "role"), kinds))


def test_sql(tachograph, trace):
    table = answer(
        tachograph(
            "sql",
            trace,
            "SELECT name, count(*) AS n, sum(dur_ns) AS ns FROM slices GROUP BY name ORDER BY name",
            "--json",
        )
    )
    assert table["rows"] == [[f"op{i}", 10, 20_000] for i in range(5)]
    schema = answer(tachograph("sql", "--schema", "--json"))
    assert ["slices", "dur_ns"] in [row[:2] for row in schema["rows"]]
    assert tachograph("sql", trace, "SELEC 1").returncode == 2


# ---- exit status


def test_status_2_for_calls_that_make_no_sense(tachograph, trace):
    for call in (
        ["ask"],
        ["ask", trace],
        ["ask", trace, "ops", "more"],
        ["frobnicate"],
        ["ask", trace, "ops", "--by"],
        ["report", trace, "--format", "csv"],
        ["ask", trace, "ops", "--limit", "many"],
        ["ask", trace, "ops", "--threads", "0"],
        ["ask", trace, "ops", "--color", "mauve"],
        ["ask", trace, "ops", "--json", "--format", "csv"],
        ["ask", trace, "ops", "--json=yes"],
        ["completion", "tcsh"],
        ["export", trace],
        ["export", trace, "--to", "chrome", "--json"],
        ["convert", "-"],
        ["--nonsense"],
    ):
        run = tachograph(*call)
        assert run.returncode == 2, call
        assert run.stderr.startswith("tachograph: ") and "next: tachograph" in run.stderr, call


@pytest.mark.parametrize(
    "call, suggestion",
    [
        (["reprot", "x.json"], "report"),
        (["ask", "x.json", "opps"], "ops"),
        (["ask", "x.json", "ops", "--limt", "3"], "--limit"),
        (["export", "x.json", "--to", "chrom"], "chrome"),
        (["help", "exprot"], "export"),
        (["questions", "kernel"], "kernels"),
    ],
)
def test_misspelt_words_are_answered_with_the_nearest(tachograph, call, suggestion):
    run = tachograph(*call)
    assert run.returncode == 2
    assert re.search(rf"did you mean '?{suggestion}'?\?", run.stderr), run.stderr


def test_misspelt_column_is_answered_with_the_nearest(tachograph, trace):
    run = tachograph("ask", trace, "ops", "--sort", "self_cpu")
    assert run.returncode == 2 and "self_cpu_ns" in run.stderr


def test_status_3_when_the_trace_lacks_the_data(tachograph, trace):
    run = tachograph("ask", trace, "kernels")
    assert run.returncode == 3
    assert "no device work" in run.stderr and "next: tachograph ask" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize(
    "content, word",
    [
        (b"", "empty"),
        (b"hello", "not a trace"),
        (b'{"traceEvents":[]}', "no events"),
        (b"PK\x03\x04zip", "a zip archive"),
    ],
)
def test_status_4_for_what_is_no_trace(tachograph, tmp_path, content, word):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    for command in ("report", "check"):
        run = tachograph(command, path)
        assert run.returncode == 4
        assert word in run.stderr and "file.json" in run.stderr and run.stdout == ""


def test_status_4_for_files_that_are_not_there(tachograph, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("none.json", "empty", "*.none", "empty/"):
        run = tachograph("report", name)
        assert run.returncode == 4, name
        assert name.rstrip("/") in run.stderr


def test_fail_if(tachograph, trace):
    run = tachograph("ask", trace, "events", "--fail-if", "dur_ns > 1us", "--limit", "1")
    assert run.returncode == 1
    assert "holds for 50 rows" in run.stderr
    assert tachograph("ask", trace, "events", "--fail-if", "dur_ns > 2us").returncode == 0
    assert tachograph("ask", trace, "events", "--fail-if", "nonsense > 2us").returncode == 2


def test_errors_as_json(tachograph):
    run = tachograph("ask", "none.json", "ops", "--json")
    assert run.returncode == 4
    error = json.loads(run.stdout)["error"]
    assert (
        error["code"] == "NOT_FOUND"
        and error["status"] == 4
        and "none.json" in error["text"]
        and error["offset"] is None
    )
    error = json.loads(tachograph("ask", "none.json", "--json").stdout)["error"]
    assert error["code"] == "USAGE" and error["next"] == "tachograph ask --help"


# ---- check


def test_check_of_a_sane_file(tachograph, trace):
    table = answer(tachograph("check", trace, "--json"))
    assert [column(table, name)[0] for name in ("events_read", "events_kept", "skipped", "cut", "bent", "valid")] == [
        50,
        50,
        0,
        0,
        0,
        True,
    ]


def test_check_counts_what_is_lost(tachograph, tmp_path):
    whole = trace_text(10)
    (tmp_path / "cut.json").write_text(whole[:-20])
    run = tachograph("check", "cut.json", "--json")
    assert run.returncode == 1
    table = json.loads(run.stdout)
    assert column(table, "events_kept") == [9] and column(table, "cut") == [1]
    assert [loss["name"] for loss in table["losses"]] == ["cut_end"]
    (tmp_path / "bad.json").write_text(whole.replace('"ts": 50', '"ts" 50'))
    run = tachograph("check", "bad.json", "--json")
    assert run.returncode == 1
    table = json.loads(run.stdout)
    assert column(table, "events_kept") == [9] and column(table, "skipped") == [1]


# ---- where input comes from


def test_standard_input(tachograph):
    assert len(answer(tachograph("ask", "-", "events", "--json", input=trace_text(7)))["rows"]) == 7
    packed = gzip.compress(trace_text(8).encode())
    assert len(json.loads(tachograph("ask", "-", "events", "--json", input=packed, text=False).stdout)["rows"]) == 8
    run = tachograph("report", "-")
    assert run.returncode == 4 and "standard input" in run.stderr


def test_fifo(tachograph, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(trace_text(9)))
    writer.start()
    assert len(answer(tachograph("ask", "pipe", "events", "--json"))["rows"]) == 9
    writer.join()


def test_directory_and_glob_are_one_trace(tachograph, tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(
            trace_text(4, distributedInfo={"rank": rank, "world_size": 2, "backend": "gloo"})
        )
    for path in (tmp_path, tmp_path / "rank*.json"):
        assert column(answer(tachograph("ask", path, "events", "--json")), "rank") == [0] * 4 + [1] * 4


def test_findings_of_a_report_are_objects(tachograph, tmp_path):
    events = []
    for k in range(4):  # 0.6 of each ms in the loader: two workers have it ready beside the rest of 0.4
        at, load = 1000 * k, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events += [
            slice_event(f"ProfilerStep#{k}", at, 1000, cat="user_annotation"),
            slice_event(load, at, 600, cat="user_annotation", args={"Call stack": "train.py(9): train"}),
            slice_event("aten::add", at + 600, 400),
        ]
    path = tmp_path / "slow.json"
    path.write_text(json.dumps({"traceEvents": events}))
    report = answer(tachograph("report", path, "--json"))
    assert report["step_ms"] == 1.0
    [finding] = report["findings"]
    wanted = {
        "cause": "loader-in-main-process",
        "severity": "high",
        "file": "train.py",
        "line": 9,
        "share_pct": 60,
        "cost_ns": 600_000,
        "saving_ms_per_step": 0.6,
    }
    assert {key: finding[key] for key in wanted} == wanted
    assert finding["saving_low_ms_per_step"] <= 0.6 <= finding["saving_high_ms_per_step"] <= 1
    assert 0 < finding["confidence"] < 1 and finding["method"] and finding["evidence"] and finding["advice"]


def test_a_file_alone_is_reported(tachograph, trace):
    assert tachograph(trace).stdout == tachograph("report", trace).stdout != ""
    assert isinstance(answer(tachograph(trace, "--json")), dict)


def test_threads_give_the_same_answer(tachograph, trace):
    assert tachograph("ask", trace, "ops", "-j", "1").stdout == tachograph("ask", trace, "ops", "-j4").stdout


def run_on_a_terminal(command, feed, **kwargs):
    """Standard error is a terminal; feed(process) gets to write the input. Returns (status, what the terminal got)."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=terminal, **kwargs)
    os.close(terminal)
    feed(process.stdin)
    status = process.wait(timeout=600)
    shown = b""
    try:
        while chunk := os.read(screen, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(screen)
    return status, shown.decode()


def test_progress_is_shown_on_a_terminal_once_a_second_has_passed(tachograph_path):
    text = trace_text(100_000).encode()

    def slowly(stdin):
        for i in range(16):
            stdin.write(text[len(text) * i // 16 : len(text) * (i + 1) // 16])
            stdin.flush()
            time.sleep(0.1)
        stdin.close()

    def at_once(stdin):
        stdin.write(trace_text(10).encode())
        stdin.close()

    status, shown = run_on_a_terminal([tachograph_path, "ask", "-", "ops"], slowly)
    assert status == 0
    assert re.search(r"\rreading [\d.]+ .?B  [\d.]+ .?B/s", shown)
    assert shown.endswith("\r\x1b[K")  # and wiped
    for _ in range(20):  # until the machine lets it be done within the second
        began = time.monotonic()
        status, shown = run_on_a_terminal([tachograph_path, "ask", "-", "ops"], at_once)
        if time.monotonic() - began < 1:
            break
    assert (status, shown) == (0, "")


def test_what_is_computed_shows_its_time_on_a_terminal(tachograph_path, trace):
    count, took = 1_000_000, 0
    while took < 1.5:
        query = (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT max(i) FROM n"
        )
        began = time.monotonic()
        status, shown = run_on_a_terminal([tachograph_path, "sql", trace, query], lambda stdin: stdin.close())
        took, count = time.monotonic() - began, 2 * count
        assert status == 0
    assert "\rrunning the query  1 s" in shown and shown.endswith("\r\x1b[K")


# ---- where output goes


def test_output_file(tachograph, trace, tmp_path):
    run = tachograph("ask", trace, "events", "-o", "out.json")
    assert run.returncode == 0 and run.stdout == ""
    assert len(json.loads((tmp_path / "out.json").read_text())["rows"]) == 50
    tachograph("ask", trace, "events", "--output=out.csv.gz", "--format=csv")
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode().count("\n") == 51
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_command_leaves_no_file(tachograph, trace, tmp_path):
    before = set(os.listdir(tmp_path))
    assert tachograph("ask", trace, "kernels", "-o", "out.json").returncode == 3
    assert tachograph("export", trace, "--to", "chrome", "-o", "no/such/out.json").returncode == 4
    assert tachograph("ask", trace, "ops", "-o", tmp_path).returncode == 4
    assert set(os.listdir(tmp_path)) == before


def test_export_and_convert_keep_every_event(tachograph, trace, tmp_path):
    assert tachograph("export", trace, "--to", "chrome", "-o", "copy.json.gz").returncode == 0
    assert gzip.decompress((tmp_path / "copy.json.gz").read_bytes())[:1] == b"{"
    run = tachograph("convert", trace)
    assert run.returncode == 0 and "next: tachograph report" in run.stderr
    assert (tmp_path / "trace.tacho").exists()
    original = tachograph("ask", trace, "events", "--json").stdout
    for copy in ("copy.json.gz", "trace.tacho"):
        assert tachograph("ask", copy, "events", "--json").stdout == original


def test_convert_writes_no_other_format(tachograph, trace, tmp_path):
    for name in ("copy.json", "copy.json.gz", "copy.html"):
        run = tachograph("convert", trace, "-o", name)
        assert run.returncode == 2 and f"next: tachograph export {trace} -o {name}" in run.stderr
        assert not (tmp_path / name).exists()


def test_export_tells_what_it_wrote(tachograph, trace, tmp_path):
    table = answer(tachograph("export", trace, "-o", "out.folded", "--json"))
    assert table["rows"] == [["out.folded", "folded", (tmp_path / "out.folded").stat().st_size]]
    table = answer(tachograph("convert", trace, "-o", "x.tacho", "--json"))
    assert table["rows"] == [["x.tacho", "tacho", (tmp_path / "x.tacho").stat().st_size]]


def test_reader_that_leaves_is_no_error(tachograph_path, trace, tmp_path):
    (tmp_path / "long.json").write_text(trace_text(20000))
    process = subprocess.Popen(
        [tachograph_path, "ask", "long.json", "events", "--limit", "all"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=600) == 0


def test_full_disk_and_closed_output_are_errors(tachograph_path, trace):
    with open("/dev/full", "wb") as full:
        run = subprocess.run([tachograph_path, "ask", trace, "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 4 and "No space left" in run.stderr
    run = subprocess.run(
        ["sh", "-c", '"$0" ask "$1" ops >&-', tachograph_path, trace], stderr=subprocess.PIPE, text=True
    )
    assert run.returncode == 4 and "standard output" in run.stderr


def test_interrupted_writing_leaves_no_half_file(tachograph_path, trace, tmp_path):
    """The output is a large file; the signal comes as soon as its temporary beginning is there."""
    (tmp_path / "long.json").write_text(trace_text(300_000))
    process = subprocess.Popen(
        [tachograph_path, "export", "long.json", "--to", "chrome", "-o", "out.json.gz"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not any(name.startswith("out.json.gz.part") for name in os.listdir(tmp_path)):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=600)
    names = [name for name in os.listdir(tmp_path) if name.startswith("out.json.gz")]
    assert (status, names) in [(130, []), (0, ["out.json.gz"])]  # 0: it was done before the signal came


# ---- help, completion, manual


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(tachograph, command):
    run = tachograph(command, "--help")
    assert run.returncode == 0
    assert "usage: tachograph " + command in run.stdout and "example\n  " in run.stdout and "--json" in run.stdout
    assert command in tachograph("help", command).stdout
    assert not re.findall(r"--\w*_\w*", run.stdout)


@pytest.mark.parametrize(
    "call", [["help"], ["man"], ["version"], ["doctor"], ["questions"], ["completion", "bash"], ["ask", "--help"]]
)
def test_json_everywhere(tachograph, call):
    table = answer(tachograph(*call, "--json"))
    assert list(table) == ["question", "columns", "rows", "notes", "losses"] and table["rows"]


def test_help_names_every_command(tachograph):
    text = tachograph().stdout
    assert text == tachograph("help").stdout == tachograph("--help").stdout
    assert [line.split()[0] for line in text.split("commands\n")[1].split("\n\n")[0].splitlines()] == COMMANDS


def test_version(tachograph):
    assert re.fullmatch(r"tachograph \d+\.\d+\.\d+\n", tachograph("version").stdout)
    assert tachograph("--version").stdout == tachograph("version").stdout


@pytest.mark.parametrize(
    "members, is_unknown",
    [
        ({}, False),
        ({"deviceProperties": [], "conditions": {"gpu": None}}, False),
        ({"deviceProperties": [{"id": 0, "name": "A100", "computeMajor": 8, "computeMinor": 0}]}, True),
        ({"conditions": {"gpu": "NVIDIA H100"}}, True),
    ],
)
def test_rules_about_devices_are_unknown_only_where_there_is_a_device(tachograph, tmp_path, members, is_unknown):
    events = [slice_event("aten::mm", 100 * k, 90) for k in range(9)]
    (tmp_path / "a.json").write_text(json.dumps({**members, "traceEvents": events}))
    notes = " ".join(answer(tachograph("ask", tmp_path / "a.json", "findings", "--json"))["notes"])
    for cause in ("idle-device", "mixed-precision-unused", "device-memory-nearly-full"):
        assert (f"{cause} (no device" in notes) == is_unknown, notes


def test_errors_end_with_whole_words(tachograph, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": [slice_event("aten::mm", 0, 10)]}))
    there = answer(tachograph("ask", tmp_path / "a.json", "key_averages", "--json"))["columns"]
    there = {column["name"] for column in there}
    done = tachograph("ask", tmp_path / "a.json", "key_averages", "--where", "quux > 1")
    assert done.returncode == 2 and "text stands in quotes, and there is no column 'quux'; there are " in done.stderr
    listed = done.stderr.split("there are ")[1].split(", at character 1:\n  quux > 1\n  ^")[0]
    assert listed.endswith("…") and set(listed.rstrip("…").rstrip(", ").split(", ")) < there
    done = tachograph("ask", tmp_path / "a.json", "key_averages", "--sort", "quux")
    assert set(done.stderr.split("there are ")[1].splitlines()[0].rstrip("…").rstrip(", ").split(", ")) <= there


def test_doctor_advises_only_on_what_is_missing(tachograph):
    for item, value, fine, advice in answer(tachograph("doctor", "--json"))["rows"]:
        assert value, item
        assert fine or advice, item
        if value in ("gzip (ISA-L), zstd", "SQLite"):  # nothing left to wish for
            assert fine and not advice, advice


def test_doctor_measures_peaks_that_roofline_takes(tachograph, tmp_path):
    value, advice = next(
        (value, advice)
        for item, value, _, advice in answer(tachograph("doctor", "--json"))["rows"]
        if item == "peak, measured now"
    )
    assert re.search(r" TFLOP/s in fp32, .* in fp64 \(to \d+ %\), .* GB/s \(to \d+ %\), on \d+ cores?$", value)
    tflops, gbs = (float(advice.split(f"--peak_{name} ")[1].split()[0]) for name in ("tflops", "gbs"))
    assert 0.001 < tflops < 100 and 0.1 < gbs < 10_000
    shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
    (tmp_path / "mm.json").write_text(json.dumps({"traceEvents": [slice_event("aten::mm", 0, 1000, args=shapes)]}))
    row = answer(
        tachograph(*advice.split(": tachograph ")[1].replace("FILE", str(tmp_path / "mm.json")).split(), "--json")
    )
    assert column(row, "peak_pct") == [pytest.approx(100 * 2 * 512**3 / 1e-3 / (tflops * 1e12), rel=1e-6)]


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_doctor_is_whole_at_any_width_and_commands_are_on_one_line(tachograph, tmp_path, columns):
    path = "/work/" + "a/long/folder/" * 12 + "_record.so"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nprintf 'NVTX\\tyes, in tachograph run\\t1\\tfor a program that records itself: export NVTX_INJECTION64_PATH={path}\\n'\n"
        f"printf 'our recorder of CUDA\\tno: {'reason ' * 30}end\\t0\\ttake it: or leave it {'word ' * 30}end\\n'\n"
    )
    python.chmod(0o755)
    done = tachograph("doctor", env={"TACHOGRAPH_PYTHON": str(python), "COLUMNS": str(columns)})
    assert done.returncode == 0 and "…" not in done.stdout
    lines = done.stdout.splitlines()
    typed = [
        f"export NVTX_INJECTION64_PATH={path}",
        "tachograph ask FILE roofline --peak_tflops ",
        "ncu --set full python train.py",
    ]
    for command in typed:
        assert sum(command in line for line in lines) == 1, done.stdout
    assert all(len(line) <= columns or any(line.strip().startswith(command) for command in typed) for line in lines), (
        done.stdout
    )
    flat = " ".join(done.stdout.split())
    assert f"no: {'reason ' * 30}end" in flat and f"take it: or leave it {'word ' * 30}end" in flat
    assert re.search(r"^our recorder of CUDA +not fine\s+no: reason", done.stdout, re.M)
    assert re.search(r"^version +fine\s+0", done.stdout, re.M)


def test_doctor_calls_what_is_not_needed_not_here(tachograph, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf 'XPU\\tno: built without\\t1\\t\\nNVTX\\tnothing else\\t1\\t\\n'\n")
    python.chmod(0o755)
    text = tachograph("doctor", env={"TACHOGRAPH_PYTHON": str(python)}).stdout
    assert re.search(r"^XPU +not here  no: built without$", text, re.M)
    assert re.search(r"^NVTX +fine      nothing else$", text, re.M)
    assert re.search(r"^hardware counters +not here  unavailable$", text, re.M)


def test_a_question_is_no_command(tachograph):
    done = tachograph("findings", "trace.json")
    assert done.returncode == 2
    assert "'findings' is a question, not a command: tachograph ask FILE findings" in done.stderr


def test_doctor_shows_what_the_package_says_of_recording(tachograph, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf 'torch\\t2.13.0\\t1\\t\\nour recorder\\tno: because\\t0\\tdo this\\n'\n")
    python.chmod(0o755)
    rows = answer(tachograph("doctor", "--json", env={"TACHOGRAPH_PYTHON": str(python)}))["rows"]
    assert rows[-3:-1] == [["torch", "2.13.0", True, None], ["our recorder", "no: because", False, "do this"]]
    python.write_text("#!/bin/sh\nexit 1\n")
    rows = answer(tachograph("doctor", "--json", env={"TACHOGRAPH_PYTHON": str(python)}))["rows"]
    assert rows[-2][:3] == ["recording", f"no: {python} cannot import the package tachograph", False]


def test_bash_completion_completes(tachograph, tmp_path):
    (tmp_path / "complete.bash").write_text(tachograph("completion", "bash").stdout)

    def complete(*words):
        script = 'source complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tachograph; printf "%s\\n" "${COMPREPLY[@]}"'
        run = subprocess.run(
            ["bash", "-c", script, "bash", "tachograph", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout.split()

    assert complete("exp") == ["export"]
    assert complete("ask", "x.json", "ste") == ["steps", "step_model"]
    assert complete("ask", "x.json", "steps", "--lim") == ["--limit"]
    assert "chrome" in complete("export", "x.json", "--to", "c")


def test_scripts_of_the_other_shells_name_every_command(tachograph):
    for shell in ("zsh", "fish"):
        script = tachograph("completion", shell).stdout
        assert all(command in script for command in COMMANDS)
        assert script.replace("\\'", "").count("'") % 2 == 0  # every quote is closed


def test_manual_page_is_clean_roff(tachograph):
    page = tachograph("man").stdout
    assert page.isascii() and page.startswith(".TH TACHOGRAPH 1")
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".B", ".br"}
    assert {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))} <= known
    assert all(f'"tachograph {command}"' in page for command in COMMANDS)


def test_names_cannot_drive_the_terminal(tachograph, tmp_path):
    (tmp_path / "x\x1b[31m\x9b5m\u202e.json").write_text("no")
    run = tachograph("report", "x\x1b[31m\x9b5m\u202e.json")
    assert run.returncode == 4 and "x?[31m?5m?.json" in run.stderr


def test_no_color_unless_asked(tachograph, trace):
    assert "\x1b" not in tachograph("report", trace).stdout
    assert "\x1b" in tachograph("report", trace, "--color", "always").stdout


def test_width_of_text_in_a_pipe(tachograph, trace):
    """--width and COLUMNS; without them all there is."""

    def widest(*words, **environment):
        run = tachograph("ask", trace, "events", *words, env=environment)
        assert run.returncode == 0, run.stderr
        return max(
            len(line) for line in run.stdout.splitlines() if not line.startswith(("columns left", "note", "20 "))
        )

    whole = widest()
    assert whole > 60
    assert widest("--width", "40") <= 40 and widest(COLUMNS="50") <= 50
    assert widest("--width", "40", COLUMNS="50") <= 40
    assert widest(COLUMNS="none") == widest(COLUMNS="") == whole
    refused = tachograph("ask", trace, "events", "--width", "wide")
    assert refused.returncode == 2 and "--width needs a number of columns, 20 or more, not 'wide'" in refused.stderr


def test_markdown_for_a_pull_request(tachograph, tmp_path):
    """Two steps of 100 and 300 us, one operator with characters that Markdown would take."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": ts, "dur": dur}
        for i, ts, dur in ((0, 0, 100), (1, 100, 300))
    ]
    events += [
        {"ph": "X", "cat": "cpu_op", "name": "a|b`c", "pid": 1, "tid": 1, "ts": ts, "dur": 50} for ts in (10, 110)
    ]
    trace = tmp_path / "a.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    page = tachograph("report", trace, "--format", "md").stdout
    assert page.startswith(f"### 200 us a step in the median, 100 us to 300 us, 2 steps\n\n`{trace}`\n")
    assert "\n| `a\\|b'c` | 2 | 100 us | 100.0 % |\n\n</details>\n" in page
    tachograph("report", trace, "-o", tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text() == page
    rows = tachograph("ask", trace, "ops", "--format", "md").stdout.splitlines()
    assert rows[0].startswith("| name | ") and rows[1].startswith("| --- | ") and rows[2].startswith("| `a\\|b'c` | ")
    assert rows[2].split(" | ")[rows[0].split(" | ").index("self_cpu_ns")] == "100 us"
    both = [tachograph("diff", trace, trace, *how).stdout for how in (["--format", "md"], ["--markdown"])]
    assert both[0] == both[1] and both[0].startswith("### ")
