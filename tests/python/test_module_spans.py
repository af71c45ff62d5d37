"""Spans of modules: each call of a module from its begin to its end, through a pointer in nn.Module's function that
stays hidden."""

import collections
import copy
import ctypes
import os
import pickle
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph as tg
from recorded import run  # noqa: F401

nn = torch.nn
torch.set_num_threads(1)
pytestmark = pytest.mark.frames
FUNCTION = nn.Module._wrapped_call_impl
SPANS = record.OPS | record.MODULES | record.MODULE_SPANS


def words():
    """The function object, word by word."""
    return list((ctypes.c_uint64 * (FUNCTION.__sizeof__() // 8)).from_address(id(FUNCTION)))


def pointer_place():
    """Which word of a function object is the pointer that calls go through, as the interpreter itself says."""
    ask = ctypes.pythonapi.PyVectorcall_Function
    ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return words().index(ask(FUNCTION))


PLACE = pointer_place() if record.frames() is None else 0  # 3.10 does not export the function
PLAIN = words()[PLACE]


class Leaf(nn.Module):
    def forward(self, x):
        return x.sin()


class Block(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.idle = nn.Identity()

    def forward(self, x, again=1):
        x = x.cos()
        for _ in range(again):
            for part in self.parts:
                x = self.idle(part(x))
        return x.neg()


def spans(result):
    """Every span of a module, outermost first where they begin together, as (thread, start, end, name, path)."""
    found = [
        (e["tid"], e["ts"], e["ts"] + e["dur"], e["name"].removeprefix("nn.Module: "), e["args"].get("Module path", ""))
        for e in result.events
        if e["name"].startswith("nn.Module: ")
    ]
    return sorted(found, key=lambda s: (s[0], s[1], -s[2]))


def around(event, among):
    return [s for s in among if s[0] == event["tid"] and s[1] <= event["ts"] and event["ts"] + event["dur"] <= s[2]]


def names(result):
    return collections.Counter(s[3] for s in spans(result))


# ---- what is recorded


@pytest.mark.parametrize("features", [SPANS, SPANS | record.STACKS], ids=["modules", "stacks"])
def test_spans_lie_around_their_operators(run, features):
    model, x = Block(Leaf(), Block(Leaf()), nn.Identity()), torch.ones(3)
    result = run(features, lambda: [model(x, again=2) for _ in range(3)])
    among = spans(result)
    assert names(result) == {
        "Block_0": 3,
        "Leaf_0": 6,
        "Block_1": 6,
        "Leaf_1": 6,
        "Identity_0": 18,
        "Identity_1": 6,
        "Identity_2": 6,
    }
    operators = [e for e in result.events if e["cat"] == "cpu_op"]
    assert collections.Counter(e["name"] for e in operators) == {"aten::cos": 9, "aten::sin": 12, "aten::neg": 9}
    for e in operators:
        inside = around(e, among)
        assert " / ".join(s[3] for s in inside) == e["args"]["Module Hierarchy"]
        assert inside[-1][4] == e["args"].get("Module path", "")
    assert {s[3]: s[4] for s in among} == {
        "Block_0": "",
        "Leaf_0": "parts.0",
        "Identity_0": "idle",
        "Block_1": "parts.1",
        "Leaf_1": "parts.1.parts.0",
        "Identity_1": "parts.1.idle",
        "Identity_2": "parts.2",
    }


def test_a_module_in_itself(run):
    class Again(nn.Module):
        def forward(self, x, n):
            return self(x.sin(), n - 1) if n else x

    model = Again()
    result = run(SPANS | record.STACKS, lambda: model(torch.ones(1), 3))
    among = spans(result)
    assert len(among) == 4 and all(a[1] <= b[1] and b[2] <= a[2] for a, b in zip(among, among[1:]))
    assert [len(around(e, among)) for e in sorted(result.named("aten::sin"), key=lambda e: e["ts"])] == [1, 2, 3]


def test_every_way_to_call(run):
    class Through(Leaf):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    model, through, x = Block(Leaf()), Through(), torch.ones(2)
    ways = [
        lambda: model(x),
        lambda: model(x, 1),
        lambda: model(x, again=1),
        lambda: model(x=x),
        lambda: model(*[x], **{"again": 1}),
        lambda: model.__call__(x),
        lambda: list(map(model, [x]))[0],
        lambda: nn.Module.__call__(*(model, x)),
        lambda: through(x) * 0 + model(x),
    ]
    want = model(x)
    result = run(SPANS, lambda: [way() for way in ways])
    assert all(torch.equal(got, want) for got in result.result)
    count = len(ways) - (
        sys.version_info < (3, 12)
    )  # 3.11 calls the bound method's function as it calls any from Python
    assert names(result)["Block_0"] >= count and names(result)["Through_0"] == 1


def test_wrong_arguments_say_what_they_always_say(run):
    def said(call):
        with pytest.raises(TypeError) as caught:
            call()
        return str(caught.value)

    calls = [lambda: nn.Module.__call__(), lambda: Leaf()(), lambda: Leaf()(1, 2, 3), lambda: Leaf()(y=1)]
    assert run(SPANS, lambda: [said(call) for call in calls]).result == [said(call) for call in calls]


def test_an_exception_goes_through(run):
    class Fails(nn.Module):
        def forward(self, x):
            x.sin()
            raise error

    error, model, x = KeyError("mine"), Block(Fails()), torch.ones(1)

    def work():
        with pytest.raises(KeyError) as caught:
            model(x)
        Leaf()(x)
        return caught.value

    result = run(SPANS, work)
    assert result.result is error
    among = spans(result)
    assert (
        [s[3] for s in among] == ["Block_0", "Fails_0", "Leaf_0"]
        and among[0][2] >= among[1][2]
        and among[2][1] >= among[0][2]
    )


def test_threads(run):
    model, x = Block(Leaf(), Leaf()), torch.ones(2)

    def work():
        threads = [threading.Thread(target=lambda: [model(x) for _ in range(20)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    result = run(SPANS, work)
    by_thread = collections.Counter(s[0] for s in spans(result))
    assert sum(by_thread.values()) == 4 * 20 * 5 and all(n % (20 * 5) == 0 for n in by_thread.values())
    among = spans(result)
    assert all(
        " / ".join(s[3] for s in around(e, among)) == e["args"]["Module Hierarchy"] for e in result.named("aten::sin")
    )


def test_a_recording_that_ends_in_a_call(tmp_path):
    class Ends(nn.Module):
        def forward(self, x):
            x = x.sin()
            record.pause()
            record.close()
            return x

    model, path = nn.Sequential(Ends()), str(tmp_path / "run.tacho")
    record.open(path, features=SPANS)
    record.resume()
    model(torch.ones(1))
    with tg.open(path) as trace:
        rows = [r for r in trace.ask("events") if r["name"].startswith("nn.Module: ")]
    assert sorted(r["name"] for r in rows) == ["nn.Module: Ends_0", "nn.Module: Sequential_0"]
    assert record.self_check()["clean"]


def test_a_pause_within_a_call(run):
    class Pauses(nn.Module):
        def forward(self, x):
            record.pause()
            x = nn.Identity()(x.sin())
            record.resume()
            return x.cos()

    result = run(SPANS, lambda: nn.Sequential(Pauses())(torch.ones(1)))
    assert names(result) == {"Sequential_0": 1, "Pauses_0": 1}
    assert not result.named("aten::sin") and len(around(result.named("aten::cos")[0], spans(result))) == 2


def test_a_fork_within_a_call(run):
    class Forks(nn.Module):
        def forward(self, x):
            child = os.fork()
            if child:
                self.status = os.waitpid(child, 0)[1]
            return x.sin()

    model, here = nn.Sequential(Forks()), os.getpid()

    def work():
        model(torch.ones(1))
        if os.getpid() != here:
            os._exit(7)

    result = run(SPANS, work)
    assert os.waitstatus_to_exitcode(model[0].status) == 7
    assert names(result)["Forks_0"] == 1


# ---- it stays hidden


def test_the_function_stays_what_it_is(run):
    model, x = nn.Sequential(Leaf()), torch.ones(1)
    before, code, namespace = words(), FUNCTION.__code__, dict(nn.Module.__dict__)
    inside = []

    def work():
        inside.append(words()[PLACE])
        assert (
            nn.Module._wrapped_call_impl is FUNCTION
            and FUNCTION.__code__ is code
            and dict(nn.Module.__dict__) == namespace
        )
        model(x)

    run(SPANS, work)
    assert inside[0] != PLAIN and words()[PLACE] == PLAIN == before[PLACE]
    run(record.OPS | record.MODULES, work)
    assert inside[1] == PLAIN  # not asked for


def test_calls_of_all_functions_have_them_already(run):
    model, x = nn.Sequential(Leaf()), torch.ones(1)
    result = run(SPANS | record.CALLS, lambda: (words()[PLACE], model(x)))
    assert result.result[0] == PLAIN and names(result) == {"Sequential_0": 1, "Leaf_0": 1}


def test_who_took_the_pointer_away_keeps_it(run):
    model, x = nn.Sequential(Leaf()), torch.ones(1)

    def take():
        assert words()[PLACE] != PLAIN
        ctypes.c_uint64.from_address(id(FUNCTION) + 8 * PLACE).value = PLAIN
        model(x)

    run(SPANS, take)
    assert words()[PLACE] == PLAIN and record.self_check()["clean"]
    assert names(run(SPANS, lambda: model(x))) == {"Sequential_0": 1, "Leaf_0": 1}


def test_a_thousand_recordings(tmp_path):
    model, x, path = nn.Sequential(Leaf()), torch.ones(1), str(tmp_path / "run.tacho")
    used = []
    for _ in range(1000):
        record.open(path, features=SPANS)
        record.resume()
        model(x)
        record.pause()
        used.append(record.close()["memory_bytes"])
    assert used[-1] <= used[5] and words()[PLACE] == PLAIN


def test_a_second_start_is_refused_and_breaks_nothing(run, tmp_path):
    model, x = nn.Sequential(Leaf()), torch.ones(1)

    def work():
        with pytest.raises(record.RecordError):
            record.open(str(tmp_path / "other.tacho"), features=SPANS)
        record.resume()
        model(x)

    assert names(run(SPANS, work)) == {"Sequential_0": 1, "Leaf_0": 1}


# ---- what torch does with modules, while they are recorded


@pytest.mark.parametrize("when", ["before", "while"])
def test_compiled_whole(run, when):
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    def compiled(around):
        torch._dynamo.reset()
        return torch.compile(around, fullgraph=True, backend=backend)

    bare = compiled(lambda v: model(v).sin())
    bare(x)
    nodes = graphs.pop()
    for around in (model, lambda v: model(v).sin()):
        graphs.clear()
        function = compiled(around)
        with torch._dynamo.config.patch(error_on_recompile=True):
            if when == "before":
                want = function(x)
            got = run(SPANS | record.STACKS, lambda: [function(x) for _ in range(3)]).result
            assert all(torch.equal(g, around(x)) for g in got)
            function(x)  # after it, too
        assert len(graphs) == 1 and (around is model or graphs == [nodes])
        if when == "before":
            assert torch.equal(want, got[0])
    torch._dynamo.reset()


def test_traced_scripted_copied(run):
    model, x = nn.Sequential(Leaf(), nn.Linear(2, 2)), torch.ones(1, 2)
    want = model(x)
    with torch.no_grad():
        scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))

    def work():
        return (
            [
                torch.jit.trace(model, x)(x),
                torch.fx.symbolic_trace(model)(x),
                copy.deepcopy(model)(x),
                torch.export.export(model, (x,)).module()(x),
            ],
            scripted(x),
            pickle.loads(pickle.dumps(nn.Linear(2, 2)))(x),
        )

    result = run(SPANS, work)
    assert all(torch.allclose(got, want) for got in result.result[0])
    assert names(result)["RecursiveScriptModule_0"] == 1
    assert len(list(torch.fx.symbolic_trace(model).graph.nodes)) == 4
