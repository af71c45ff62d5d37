"""The conformance run itself: it must see every value, and every wrong one. Fed with a small oracle made by hand."""

import copy
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import compare
import run
import shape

ROW = {"calls": 2, "total_ns": 30500, "max_ns": 20000, "min_ns": 10500, "mean_ns": 15250.0, "std_ns": 6717.5144212722}
TABLES = {
    ("kernels", None): [
        {
            "name": "gemm",
            "category": "kernel",
            "type": "COMPUTATION",
            "blocks_per_sm": 1.5,
            "occupancy_pct": 40.0,
            **ROW,
        },
        {
            "name": "Memset",
            "category": "gpu_memset",
            "type": "MEMORY",
            "blocks_per_sm": None,
            "occupancy_pct": None,
            "calls": 1,
            "total_ns": 1000,
            "max_ns": 1000,
            "min_ns": 1000,
            "mean_ns": 1000.0,
            "std_ns": None,
        },
    ],
    ("annotations", None): [{"name": "fwd", "side": "cpu", **ROW}, {"name": "fwd", "side": "gpu", **ROW}],
    ("launches", None): [
        {
            "device_events": 3,
            "without_host_call": 1,
            "with_host_call": 2,
            "op_by_external_id": 2,
            "op_by_containment": 0,
            "op_by_none": 0,
        }
    ],
    ("ops", None): [
        {
            "name": "aten::mm",
            "calls": 2,
            "cpu_ns": 200000,
            "self_cpu_ns": 190001,
            "device_ns": 30500,
            "self_device_ns": 30500,
        }
    ],
}
WANT = {
    "tb_kernels": {
        "names": 1,
        "calls": 2,
        "sum": 30.5,
        "top": [
            {
                "name": "gemm",
                "calls": 2,
                "sum": 30.5,
                "mean": 15.25,
                "max": 20,
                "min": 10.5,
                "blocks_per_sm": 1.5,
                "occupancy": 40.0,
            }
        ],
    },
    "kernels": [
        {
            "kernel_type": "COMPUTATION",
            "name": "gemm",
            "count": 2,
            "sum": 30.5,
            "max": 20,
            "min": 10.5,
            "mean": 15.25,
            "std": 6.7175144212722,
        },
        {"kernel_type": "MEMORY", "name": "Memset", "count": 1, "sum": 1, "max": 1, "min": 1, "mean": 1.0, "std": None},
    ],
    "annotations_cpu": [
        {"name": "fwd", "count": 2, "sum": 30.5, "max": 20, "min": 10.5, "mean": 15.25, "std": 6.7175144212722}
    ],
    "links": {"device_events": 3, "without_host_call": 1, "with_host_call": 2, "op_by_external_id": 2},
    "operators": {
        "rows": 1,
        "sum_calls": 2,
        "sum_dev_self": 30.5,
        "sum_dev_total": 30.5,
        "sum_host_self": 190.001,
        "sum_host_total": 200,
        "top": [
            {
                "name": "aten::mm",
                "calls": 2,
                "dev_self": 30.5,
                "dev_total": 30.5,
                "host_self": 190.001,
                "host_total": 200,
            }
        ],
    },
}
VALUES = 3 + 8 + 8 + 8 + 7 + 4 + 6 + 6


def leaves(x, path=()):
    if isinstance(x, dict):
        for k, v in x.items():
            yield from leaves(v, path + (k,))
    elif isinstance(x, list):
        for i, v in enumerate(x):
            yield from leaves(v, path + (i,))
    else:
        yield path


def count(want, tables=TABLES):
    c = compare.Count()
    for name, section in want.items():
        got = shape.SECTIONS[name](lambda question, by=None, **_: copy.deepcopy(tables.get((question, by), [])))
        compare.walk(c, "ranks.0." + name, section, got, whole=name != "kernels")
    return c


def test_every_value_is_counted_and_agrees():
    c = count(WANT)
    assert (c.total, c.agree, c.differences) == (VALUES, VALUES, [])


@pytest.mark.parametrize("path", list(leaves(WANT)), ids=lambda p: ".".join(map(str, p)))
def test_every_wrong_value_is_seen(path):
    want = copy.deepcopy(WANT)
    place = want
    for step in path[:-1]:
        place = place[step]
    value = place[path[-1]]
    place[path[-1]] = (
        "other"
        if isinstance(value, str)
        else 7
        if value is None
        else value + 1
        if isinstance(value, int)
        else value + 0.002
    )
    c = count(want)
    assert c.total == VALUES and c.differences


def test_nothing_agrees_with_no_answer():
    c = count(WANT, {})
    assert (c.total, c.agree) == (VALUES, 0)


def test_rows_beyond_the_oracle_are_seen():
    tables = copy.deepcopy(TABLES)
    tables[("annotations", None)].append({"name": "bwd", "side": "cpu", **ROW})
    assert [d[0] for d in count(WANT, tables).differences] == ["ranks.0.annotations_cpu.length"]


def test_tolerances():
    c = compare.Count()
    for want, got, good in (
        (3, 3, True),
        (3, 4, False),
        (3.25, 3.251, True),
        (3.25, 3.2521, False),
        (1e15 + 0.5, 1e15, True),
    ):
        assert compare.close(want, got, "x.sum") is good, (want, got)
    assert not compare.close(0.25, 0.2501, "ranks.0.tb_steps_fixed.gpu.0.utilization")
    assert compare.close(12.34, 12.344, "x.idle_pct") and not compare.close(12.34, 12.346, "x.idle_pct")
    assert c.total == 0


class Malformed:
    def __init__(self, slices, marks, losses, status=0, text=""):
        self.answers, self.status, self.text = {"slice": slices, "mark": marks}, status, text
        self.losses = losses

    def ask(self, path, question, by=None):
        if self.status:
            raise run.Refused(self.status, self.text)
        return self.losses if question == "losses" else self.answers[by]


@pytest.mark.parametrize(
    "engine,note,bad",
    [
        (Malformed([{}, {}], [{"phase": "E"}, {"phase": "E"}], []), "two slices", []),
        (Malformed([{}], [], []), "two slices", ["f.events_kept"]),
        (Malformed([{}, {}], [], []), "kept; counted", ["f.losses"]),
        (Malformed([{}, {}], [], [{}]), "kept; counted", []),
        (Malformed([], [], [], 4, "no such"), "two slices", ["f.events_kept", "f.exit"]),
    ],
)
def test_malformed_rules(engine, note, bad):
    c = compare.Count()
    run.compare_malformed(engine, pathlib.Path("f"), {"events_kept_min": 2, "events_kept_max": 2, "note": note}, c)
    assert [d[0] for d in c.differences] == bad


def test_malformed_refusal():
    want = {"events_kept_min": 0, "events_kept_max": 0, "note": "exit 4: the file is empty"}
    for engine, bad in (
        (Malformed([], [], [], 4, "f is empty"), []),
        (Malformed([], [], [], 1, "f is empty"), ["f.exit"]),
        (Malformed([], [], [], 4, ""), ["f.message"]),
        (Malformed([], [], []), ["f.exit", "f.message"]),
    ):
        c = compare.Count()
        run.compare_malformed(engine, pathlib.Path("f"), want, c)
        assert [d[0] for d in c.differences] == bad


def test_unit_path(tmp_path):
    for name in (
        "README.md",
        "rank-0.json.gz",
        "rank-1.json.gz",
        "worker0.17.pt.trace.json.gz",
        "worker0.18.pt.trace.json.gz",
    ):
        (tmp_path / name).write_text("")
    assert run.unit_path(tmp_path, "rank-1").name == "rank-1.json.gz"
    assert run.unit_path(tmp_path, "worker0.18").name == "worker0.18.pt.trace.json.gz"
    assert run.unit_path(tmp_path, "all") == tmp_path


def test_last_line_and_status(tmp_path, capsys, monkeypatch):
    (tmp_path / "o").mkdir()
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "trace.json").write_text("{}")
    policy = {"exact_policy": {"policy": "exact", "ranks": {"0": {"links": dict(WANT["links"]), "rows": 5}}}}
    (tmp_path / "o" / "a.json").write_text(json.dumps({"reference": {"units": {"trace": policy}}}))

    class Engine:
        def ask(self, path, question, **args):
            return TABLES[(question, None)]

    monkeypatch.setattr(run, "open_engine", lambda binary: Engine())
    arguments = ["--traces", str(tmp_path / "t"), "--oracle", str(tmp_path / "o")]
    assert run.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 of 4 values agree"
    policy["exact_policy"]["ranks"]["0"]["links"]["device_events"] = 4
    (tmp_path / "o" / "a.json").write_text(json.dumps({"reference": {"units": {"trace": policy}}}))
    assert run.main(arguments) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 4 values agree"


PLACE = "a/trace/ranks.0.links.device_events"


@pytest.mark.parametrize(
    "oracle, named, status",
    [
        (4, {PLACE: [4, 3]}, 0),
        (5, {PLACE: [4, 3]}, 1),  # the same value, but another difference
        (4, {PLACE: [4, 2]}, 1),
        (4, {PLACE: [4, "absent"]}, 1),
        (4, {}, 1),
        (3, {PLACE: [4, 3]}, 1),  # no difference any more
        (4, {PLACE: [4, 3], "a/trace/gone": [1, 2]}, 1),
        (4, {PLACE: [4, 3], "b/trace/gone": [1, 2]}, 0),  # of a trace that was not compared
    ],
)
def test_a_defect_is_one_difference(tmp_path, capsys, monkeypatch, oracle, named, status):
    monkeypatch.setattr(run, "HERE", tmp_path)
    entry = {"defect": "d", "why": "w", "test": "t", "values": named}
    (tmp_path / "defects.json").write_text(json.dumps([entry] if named else []))
    report, c = run.Report(False), compare.Count()
    c.leaf("ranks.0.links.device_events", oracle, 3)
    c.leaf("ranks.0.links.with_host_call", 2, 2)
    report.unit("a", "trace", c, [])
    assert report.close() == status
    capsys.readouterr()


def test_what_was_not_compared_fails_the_run(tmp_path, capsys, monkeypatch):
    report, c = run.Report(False), compare.Count()
    c.leaf("x", 1, 1)
    report.unit("a", "trace", c, ["a quantity that was refused"])
    assert report.close() == 1

    class Engine:
        def ask(self, path, question, **args):
            return TABLES.get((question, None), [])

    for policy, differences in (
        ({"ranks": {"0": {"links": {**WANT["links"], "device_events": 3}, "rows": 5}}}, []),
        ({"ranks": {"0": {"unheard_of": {"x": 0}}}}, ["ranks.0.unheard_of.x"]),
        ({"ranks": {}, "types_all_ranks": {"COMPUTATION": 0}}, ["types_all_ranks.COMPUTATION"]),
    ):
        c, errors = compare.Count(), []
        run.compare_unit(Engine(), tmp_path, policy, c, errors)
        assert [d[0] for d in c.differences] == differences and len(errors) == ("unheard_of" in str(policy))
    capsys.readouterr()


def test_named_defects_have_their_tests():
    for entry in json.loads((pathlib.Path(run.__file__).parent / "defects.json").read_text()):
        path, _, name = entry["test"].partition("::")
        assert "\ndef %s(" % name in (pathlib.Path(run.__file__).parents[2] / path).read_text(), entry["test"]
    assert len(run.load_defects()) > 100
