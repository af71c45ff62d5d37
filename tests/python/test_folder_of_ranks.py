"""Folders as they lie on disks: other files beside the ranks, ranks of which some lack data that others have. The
answers about a folder do not depend on whether its ranks are held at once or, as they are large, one after the
other."""

import json

import pytest


def slice_(category, name, ts, dur, tid=1, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": ts,
        "dur": dur,
        "pid": 0 if category == "kernel" else 1,
        "tid": tid,
        "args": args,
    }


def steps(count):
    return [slice_("user_annotation", f"ProfilerStep#{s}", 1000 * s, 900) for s in range(count)]


OPERATORS = [slice_("cpu_op", "aten::mm", 10, 20, **{"Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]})]
KERNELS = OPERATORS + [
    slice_("cuda_runtime", "cudaLaunchKernel", 12, 2, correlation=1),
    slice_("kernel", "sgemm", 20, 40, 7, device=0, stream=7, correlation=1),
]
MEMORY = [
    {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": 20,
        "args": {
            "Device Type": 1,
            "Device Id": 0,
            "Addr": 64,
            "Bytes": 512,
            "Total Allocated": 512,
            "Total Reserved": 1024,
        },
    }
]


def write(path, rank, events, device=None, padding=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"distributedInfo": {"rank": rank, "world_size": 2}, "padding": padding, "traceEvents": events}
    if device:
        document["deviceProperties"] = [{"id": 0, "name": device}]
    path.write_text(json.dumps(document))


def table(tachograph, *words):
    done = tachograph(*words, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row)) for row in answer["rows"]], answer["notes"]


@pytest.mark.parametrize(
    "other", ['{"lr": 0.1}', '{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "", '{"note": "' + "x" * 100_000 + '"}']
)
def test_rank_folders_are_found_beside_files_that_are_no_traces(tachograph, tmp_path, other):
    for rank in range(2):
        write(tmp_path / f"rank_{rank}" / "trace.json", rank, OPERATORS)
    (tmp_path / "config.json").write_text(other)
    assert [row["rank"] for row in table(tachograph, "ask", tmp_path, "totals")[0]] == [0, 1]


def test_a_trace_of_the_folder_itself_comes_before_rank_folders(tachograph, tmp_path):
    """Even where its events begin far behind its first bytes, across two blocks of the look at it."""
    for rank in range(2):
        write(tmp_path / f"rank_{rank}" / "trace.json", rank, OPERATORS)
    head = len('{"distributedInfo": {"rank": 5, "world_size": 2}, "padding": "", ')
    for cut in (0, 1, 7, 12, 13):
        write(tmp_path / "own.json", 5, OPERATORS, padding="x" * (2 * 65536 - head - cut))
        assert [row["rank"] for row in table(tachograph, "ask", tmp_path, "totals")[0]] == [5]


@pytest.fixture(params=["tachograph", "tachograph_by_rank"], ids=["at once", "one by one"])
def either(request):
    return request.getfixturevalue(request.param)


class TestRanksOfWhichSomeLackIt:
    @pytest.mark.parametrize("question", ["launches", "launch_stats"])
    def test_ranks_without_device_work_have_no_row(self, either, tmp_path, question):
        write(tmp_path / "rank0.json", 0, steps(2) + OPERATORS)
        write(tmp_path / "rank1.json", 1, steps(2) + KERNELS)
        assert [row["rank"] for row in table(either, "ask", tmp_path, question)[0]] == [1]
        # a rank that launches, though not in this step, has one
        rows = table(either, "ask", tmp_path, question, "--step", "1")[0]
        assert [(row["rank"], row["device_events" if question == "launches" else "launches"]) for row in rows] == [
            (1, 0)
        ]

    def test_leaks_need_steps_of_the_rank_with_known_memory(self, either, tmp_path):
        write(tmp_path / "rank0.json", 0, steps(2) + OPERATORS + MEMORY)
        write(tmp_path / "rank1.json", 1, steps(6) + OPERATORS)
        done = either("ask", tmp_path, "leaks")
        assert done.returncode == 3 and "the trace has 2 steps" in done.stderr

    @pytest.mark.parametrize(
        "devices, share",
        [
            (("NVIDIA H100", "NVIDIA H100"), True),
            (("NVIDIA H100", "NVIDIA A100"), False),
            (("NVIDIA H100", "AMD X"), False),
        ],
    )
    def test_no_peak_is_held_against_work_on_another_device(self, either, tmp_path, devices, share):
        for rank, device in enumerate(devices):
            write(tmp_path / f"rank{rank}.json", rank, KERNELS, device=device)
        rows, notes = table(either, "ask", tmp_path, "roofline")
        assert (rows[0]["name"], rows[0].get("peak_pct") is not None, rows[0].get("bound") is not None) == (
            "aten::mm",
            share,
            share,
        )
        assert share or any("peaks" in note for note in notes)
        assert table(either, "ask", tmp_path, "roofline", "--rank", "0")[0][0]["peak_pct"] is not None
