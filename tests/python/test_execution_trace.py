"""Execution traces: both schemas, the join to a profiler trace, and files that are something else."""

import gzip
import json

import pytest

tachograph = pytest.importorskip("tachograph")


def old_node(number, name, rf_id):
    return {
        "name": name,
        "id": number,
        "rf_id": rf_id,
        "parent": 1,
        "op_schema": f"{name}()",
        "inputs": [[6, 7, 0, 4, 4, "cpu"]],
        "input_shapes": [[2, 2]],
        "input_types": ["Tensor(float)"],
        "outputs": [],
        "output_shapes": [],
        "output_types": [],
    }


def new_node(number, name, rf_id):
    return {
        "id": number,
        "name": name,
        "ctrl_deps": 1,
        "inputs": {"values": [[6, 7, 0, 4, 4, "cpu"]], "shapes": [[2, 2]], "types": ["Tensor(float)"]},
        "outputs": {"values": [], "shapes": [], "types": []},
        "attr": [
            {"name": "rf_id", "type": "uint64", "value": rf_id},
            {"name": "op_schema", "type": "string", "value": f"{name}()"},
        ],
    }


def execution_trace(node=old_node):
    return {
        "schema": "1.0.1",
        "pid": 1,
        "nodes": [
            node(2, "[pytorch|profiler|execution_trace|thread]", 0),
            node(5, "aten::mm", 3),
            node(4, "aten::linear", 2),
        ],
    }


def event(cat, name, start, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [
                    event("user_annotation", "step", 0, 90, **{"External id": 1}),
                    event("cpu_op", "aten::linear", 1, 50, **{"External id": 2}),
                    event("cpu_op", "aten::mm", 2, 30, **{"External id": 3}),
                    event("cuda_runtime", "cudaLaunchKernel", 3, 4, **{"External id": 3, "correlation": 9}),
                    event("cpu_op", "aten::relu", 60, 5, **{"External id": 4}),
                ]
            }
        )
    )
    return tachograph.open(str(path))


def put(tmp_path, document, pack=False):
    path = tmp_path / ("et.json.gz" if pack else "et.json")
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if pack else data)
    return path


@pytest.mark.parametrize("pack", (False, True))
@pytest.mark.parametrize("node", (old_node, new_node))
def test_join(tmp_path, trace, node, pack):
    et = tachograph.load_execution_trace(put(tmp_path, execution_trace(node), pack))
    assert {
        n.id: (n.name, n.rf_id, n.parent, n.op_schema, n.input_shapes, n.input_types, n.inputs)
        for n in et.nodes.values()
    } == {
        number: (name, rf_id, 1, name + "()", [[2, 2]], ["Tensor(float)"], [[6, 7, 0, 4, 4, "cpu"]])
        for number, name, rf_id in (
            (2, "[pytorch|profiler|execution_trace|thread]", 0),
            (5, "aten::mm", 3),
            (4, "aten::linear", 2),
        )
    }
    assert [(r["name"], r["category"], r["external_id"], r["et_node"]) for r in et.correlate(trace)] == [
        ("step", "user_annotation", 1, None),
        ("aten::linear", "cpu_op", 2, 4),
        ("aten::mm", "cpu_op", 3, 5),
        ("aten::relu", "cpu_op", 4, None),
    ]


def test_of_another_run(tmp_path, trace):
    document = execution_trace()
    document["nodes"].append(old_node(9, "aten::add", 77))
    with pytest.raises(ValueError, match="from 1 to 4.*not recorded together"):
        tachograph.load_execution_trace(put(tmp_path, document)).correlate(trace)


def test_what_is_no_node_is_counted(tmp_path):
    document = execution_trace()
    document["nodes"] += [
        5,
        None,
        {"id": "6", "name": "x"},
        {"name": "y"},
        old_node(5, "again", 8),
        {"id": 8, "name": "z", "rf_id": "soon", "attr": 3, "inputs": None},
    ]
    et = tachograph.load_execution_trace(put(tmp_path, document))
    assert (et.skipped, sorted(et.nodes), et.nodes[8].rf_id, et.nodes[8].inputs) == (5, [2, 4, 5, 8], None, [])


@pytest.mark.parametrize(
    "data, why",
    (
        (b"[]", "not an object with a list of nodes"),
        (b'{"nodes": {}}', "list of nodes"),
        (b"", "is not JSON"),
        (b'{"nodes": [', "is not JSON"),
        (b'{"nodes": [\xff]}', "is not JSON"),
        (b'{"nodes": ' + b"[" * 200_000, "too deep|is not JSON"),
    ),
)
def test_other_files(tmp_path, data, why):
    with pytest.raises(ValueError, match=why):
        tachograph.load_execution_trace(put(tmp_path, data))


def test_packed_files_that_are_cut_or_huge(tmp_path):
    path = put(tmp_path, execution_trace(), pack=True)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match="cut or damaged"):
        tachograph.load_execution_trace(path)
    with pytest.raises(ValueError, match="more than 1000000 bytes"):
        tachograph.load_execution_trace(put(tmp_path, b" " * 5_000_000, pack=True), most_bytes=1_000_000)


@pytest.mark.parametrize("window", (1, 2))
@pytest.mark.parametrize("whose", ("torch", "ours", "exported"))
def test_a_real_one(tmp_path, whose, window):
    """The calls in order, by name: what torch's observer wrote beside either profiler, in a first window and a later
    one, in which torch counts on."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("tachograph._record")
    package = torch.profiler if whose == "torch" else tachograph
    model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    for _ in range(window):
        observer = package.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
        kept = {"record_shapes": True, "execution_trace_observer": observer}
        with package.profile(activities=[torch.profiler.ProfilerActivity.CPU], **kept) as prof:
            with torch.profiler.record_function("label"):
                model(x).sum().backward()
        observer.unregister_callback()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    et = tachograph.load_execution_trace(tmp_path / "et.json")
    rows = et.correlate(prof.trace if whose == "ours" else tachograph.open(tmp_path / "trace.json"))
    calls = [node for node in et.nodes.values() if "execution_trace" not in node.name]
    assert {node.rf_id for node in calls} and all(node.op_schema for node in calls if node.name.startswith("aten::"))
    in_order = sorted(calls, key=lambda node: node.rf_id)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    numbers = {
        e["args"]["Record function id"]: e["name"] for e in events if e.get("cat") in ("cpu_op", "user_annotation")
    }
    assert numbers == {node.rf_id: node.name for node in calls}  # what other readers of both files link by
    assert [(r["name"], r["et_node"]) for r in rows] == [(node.name, node.id) for node in in_order]
