"""tachograph diff --question: which rows of two recordings are the same, where their names are not."""

import json

import pytest


def write(path, first=0, steps=5, us=90, rank=None, pid=1, tid=1, extra=()):
    """Steps of `us` + 10 µs from number `first` on, with one operator of `us` in each."""
    events = [*extra]
    for k in range(steps):
        at = 1000 + k * (us + 20)
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{first + k}",
                "pid": pid,
                "tid": tid,
                "ts": at,
                "dur": us + 10,
            }
        )
        events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": tid, "ts": at + 5, "dur": us})
    said = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    path.write_text(json.dumps({**said, "traceEvents": events}))
    return path


@pytest.fixture
def compare(tachograph, tmp_path):
    def ask(a, b, question, *options):
        a, b = (
            write(tmp_path / f"{name}.json", **how) if isinstance(how, dict) else how
            for name, how in (("a", a), ("b", b))
        )
        done = tachograph("diff", a, b, "--question", question, *options, "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row)) for row in answer["rows"]], answer["notes"]

    return ask


def in_order(names):
    return f"A and B have little in common in {names}: rows are matched by the other columns, and in their order (keys= says by which)"


@pytest.mark.parametrize("first", [10, 3], ids=["other numbers", "two of five are the same"])
def test_steps_that_count_on_are_matched_in_order(compare, first):
    rows, notes = compare({}, {"first": first, "us": 100}, "steps")
    assert sorted((int(row["step_a"]), int(row["step_b"])) for row in rows) == [(k, first + k) for k in range(5)]
    assert {(row["in"], row["total_ns_a"], row["total_ns_b"], row["total_ns_delta"]) for row in rows} == {
        ("both", 100_000, 110_000, 10_000)
    }
    assert {(row["name_a"][:13], row["name_b"]) for row in rows} == {
        ("ProfilerStep#", f"ProfilerStep#{first + k}") for k in range(5)
    }
    assert notes == [in_order("step, name")]


@pytest.mark.parametrize("first", [1, 2])
def test_steps_of_which_half_are_the_same_are_matched_by_number(compare, first):
    rows, notes = compare({}, {"first": first}, "steps")
    both = {row["step"] for row in rows if row["in"] == "both"}
    assert both == {str(k) for k in range(first, 5)} and len(rows) == 5 + first and notes == []


def test_keys_are_taken_as_given(compare):
    rows, notes = compare({}, {"first": 10}, "steps", "--keys", "step")
    assert sorted(row["in"] for row in rows) == ["a"] * 5 + ["b"] * 5 and notes == []
    rows, _ = compare({}, {"first": 10}, "steps", "--keys", "rank", "--columns", "host_ns")
    assert [sorted(row) for row in rows] == [["host_ns_a", "host_ns_b", "host_ns_delta", "in", "rank"]] * 5


def test_two_ranks_of_one_run(compare):
    rows, notes = compare({"rank": 0}, {"rank": 1, "us": 100}, "steps")
    assert {(row["in"], row["rank_a"], row["rank_b"], row["total_ns_delta"]) for row in rows} == {
        ("both", 0, 1, 10_000)
    }
    assert notes == [in_order("rank")]


def test_threads_of_two_processes(compare):
    rows, notes = compare({"pid": 100, "tid": 100}, {"pid": 200, "tid": 201}, "tracks")
    assert [(row["in"], row["pid_a"], row["pid_b"], row["slices_delta"]) for row in rows] == [("both", "100", "200", 0)]
    assert notes == [in_order("pid, tid")]


def test_a_thread_more_before_the_others(compare):
    """Tracks are counted through, so track 0 of one side is track 1 of the other."""
    early = [{"ph": "X", "cat": "cpu_op", "name": "aten::pin_memory", "pid": 1, "tid": 0, "ts": 10, "dur": 5}]
    rows, notes = compare({}, {"extra": early}, "events")
    assert sorted(row["in"] for row in rows) == ["b"] + ["both"] * 10 and notes == [in_order("track")]
    assert "id_a" in rows[0] and "id_delta" not in rows[0]
    assert {row["dur_ns_delta"] for row in rows if row["in"] == "both"} == {0}


def test_what_is_true_of_a_row_does_not_name_it(compare):
    def kernel(percent):
        return {
            "extra": [
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": "gemm",
                    "pid": 0,
                    "tid": 7,
                    "ts": 1001,
                    "dur": 50,
                    "args": {"device": 0, "stream": 7, "est. achieved occupancy %": percent},
                }
            ]
        }

    rows, notes = compare(kernel(10), kernel(50), "kernels")
    assert [(row["name"], row["in"], row["low_occupancy_a"], row["low_occupancy_b"]) for row in rows] == [
        ("gemm", "both", True, False)
    ] and notes == []


def test_texts_of_both_sides_are_shown(compare):
    rows, _ = compare({"rank": 0}, {"rank": 1}, "document")
    row = next(row for row in rows if row["member"] == "distributedInfo")
    assert row["in"] == "both" and json.loads(row["json_a"])["rank"] == 0 and json.loads(row["json_b"])["rank"] == 1


def test_the_longest_difference_comes_first(compare):
    slow = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10, "dur": 400}]
    rows, _ = compare({"extra": [{**slow[0], "dur": 100}]}, {"extra": slow, "us": 100}, "events", "--limit", "1")
    assert [(row["name"], row["dur_ns_delta"]) for row in rows] == [
        ("aten::add", 300_000)
    ]  # of others the start is as much as 40 us later
