"""Where an operator was called: file, line, function, module; and every call of Python, against torch's own tracer and
Python's own hooks."""

import _thread
import asyncio
import collections
import decimal
import gc
import inspect
import json
import os
import re
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
from own_process import comes, threads
from recorded import run  # noqa: F401

nn = torch.nn
torch.set_num_threads(1)
pytestmark = pytest.mark.frames
HERE = os.path.basename(__file__)


def line_of(mark):
    """Number of the line of this file that ends with the comment."""
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    (found,) = [i + 1 for i, line in enumerate(lines) if line.endswith("# " + mark)]
    return found


def parts(frame):
    return re.fullmatch(r"(.*)\((\d+)\): (.*)", frame).groups()


# ---- the stack of an operator


def calls_sin(x):
    y = x.sin()  # the sin
    return y


class Holder:
    def __init__(self, x):
        self.found = [v for v in self.walk(x)]

    def walk(self, x):
        yield from map(lambda v: calls_sin(v), [x])  # the lambda


def test_an_operator_says_file_line_and_function_of_each_caller(run):
    x = torch.ones(2)
    (stack,) = run(record.OPS | record.STACKS, lambda: Holder(x)).stacks("aten::sin")
    frames = [parts(frame) for frame in stack]
    assert [f[2] for f in frames[:4]] == ["calls_sin", "<lambda>", "walk"] + (
        ["<listcomp>"] if sys.version_info < (3, 12) else ["__init__"]
    )
    assert [int(f[1]) for f in frames[:3]] == [line_of("the sin"), line_of("the lambda"), line_of("the lambda")]
    assert all(os.path.basename(f[0]) == HERE for f in frames[:4])


def test_functions_are_those_torch_reports(run):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        @torch.no_grad()
        def forward(self, x):
            return self.body(x)

    net, x = Net(), torch.ones(2, 3)

    def work():
        return net(x)

    ours = run(record.OPS | record.STACKS | record.MODULES, work)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        with_stack=True,
        experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True),
    ) as prof:
        work()
    theirs = [e for e in prof.events() if e.name.startswith("aten::")]
    mine = sorted((e for e in ours.events if e["cat"] == "cpu_op"), key=lambda e: (e["ts"], -e["dur"]))
    assert [e["name"] for e in mine] == [e.name for e in theirs]

    def inside(
        frames,
    ):  # from the operator out to work(); torch has C functions too, and of Python ones the line where they begin
        names = [re.sub(r"\(\d+\)", "", frame) for frame in frames if not frame.startswith("<built-in")]
        return names[: next(i for i, name in enumerate(names) if name.endswith(": work")) + 1]

    for own, other in zip(mine, theirs):
        frames = [frame for frame in own["args"]["Call stack"].split(";") if frame]
        assert inside(frames) == inside(other.stack)


def test_deep_recursion(run):
    def dive(n):
        return x.cos() if n == 0 else dive(n - 1)

    x = torch.ones(1)
    for depth in (0, 100, 800):
        (stack,) = run(record.OPS | record.STACKS, lambda: dive(depth)).stacks("aten::cos")
        assert [parts(frame)[2] for frame in stack[: min(depth, 100) + 1]] == ["dive"] * (min(depth, 100) + 1)


def test_three_thousand_functions_that_come_and_go(run):
    x = torch.ones(1)

    def work():
        for i in range(3000):
            names = {}
            exec(f"def made_{i}(x):\n    return x.tan()\n", names)
            names[f"made_{i}"](x)

    stacks = run(record.OPS | record.STACKS, work).stacks("aten::tan")
    assert [stack[0] for stack in stacks] == [f"<string>(2): made_{i}" for i in range(3000)]


def test_names_that_are_not_ascii_or_hostile(run):
    x = torch.ones(1)
    names = {}
    exec(compile("def größe_測(x):\n\n    return x.tan()\n", 'mödel \udcff\n"é.py', "exec"), names)
    (stack,) = run(record.OPS | record.STACKS, lambda: names["größe_測"](x)).stacks("aten::tan")
    file, line, function = re.fullmatch(r"(?s)(.*)\((\d+)\): (.*)", stack[0]).groups()
    assert (line, function) == ("3", "größe_測") and file.startswith("mödel ") and file.endswith('\n"é.py')


def test_each_thread_has_its_own_stack(run):
    x = torch.ones(1)

    def of_thread(n):
        for _ in range(50):
            of_thread_inner() if n else x.neg()

    def of_thread_inner():
        return x.cos()

    def work():
        threads = [threading.Thread(target=of_thread, args=(n % 2,)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    result = run(record.OPS | record.STACKS, work)
    assert [parts(s[0])[2] for s in result.stacks("aten::neg")] == ["of_thread"] * 150
    assert [[parts(f)[2] for f in s[:2]] for s in result.stacks("aten::cos")] == [
        ["of_thread_inner", "of_thread"]
    ] * 150
    assert len({e["tid"] for e in result.named("aten::neg") + result.named("aten::cos")}) == 6


def test_a_second_recording_and_one_after_a_pause(run):
    x = torch.ones(1)
    for _ in range(3):
        ((inner, *_),) = run(record.OPS | record.STACKS, lambda: calls_sin(x)).stacks("aten::sin")
        assert parts(inner)[1:] == (str(line_of("the sin")), "calls_sin")


@pytest.mark.parametrize("offset", ["code", "previous", "instr", "locals"])
def test_wrong_offsets_are_noticed(offset):
    try:
        for by in (-8, 8):
            assert "not laid out as expected" in record.frames_falsify(offset, by)
            with pytest.raises(record.RecordError, match="not laid out as expected"):
                record.open(os.devnull + ".tacho", features=record.MODULES, required=record.MODULES)
    finally:
        assert record.frames_falsify(offset, 0) is None


def test_where_frames_cannot_be_read_operators_have_pythons_own_stacks(run):
    """Operators run without the GIL, on two threads at once; with a stack deeper than is shown."""
    x = torch.ones(2)

    def deep(n):
        return Holder(x) if n == 0 else deep(n - 1)

    def work():
        threads = [threading.Thread(target=Holder, args=(x,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        Holder(x)
        deep(400)
        for thread in threads:
            thread.join()

    found = []
    try:
        for by in (0, 8):
            record.frames_falsify("code", by)
            found.append(sorted(run(record.OPS | record.STACKS, work).stacks("aten::sin")))
    finally:
        assert record.frames_falsify("code", 0) is None
    assert len(found[0]) == 4 and found[0] == found[1]


# ---- modules


class Leaf(nn.Module):
    def forward(self, x):
        return x.exp()


class Block(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.first, self.shared = Leaf(), shared
        self.layers = nn.ModuleList([Leaf(), Leaf()])
        self.seq = nn.Sequential(Leaf(), nn.Sequential(Leaf()))

    def forward(self, x):
        x = self.shared(self.first(x))
        for layer in self.layers:
            x = layer(x)
        return self.seq(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        shared = Leaf()
        self.one, self.two = Block(shared), Block(shared)

    def forward(self, x):
        return self.two(self.one(x))


@pytest.mark.parametrize("with_stacks", [0, record.STACKS])
def test_paths_are_those_of_the_model(run, with_stacks):
    model, x = Model(), torch.ones(1)
    result = run(record.OPS | record.MODULES | with_stacks, lambda: (model(x), model(x)))
    assert {path for _, path in result.modules()} == {
        name for name, module in model.named_modules(remove_duplicate=False) if not isinstance(module, nn.ModuleList)
    }
    shared = {name for name, path in result.modules() if path.endswith("shared")}
    assert len(shared) == 1 and {path for name, path in result.modules() if name in shared} == {
        "one.shared",
        "two.shared",
    }
    assert (
        len({name for name, _ in result.modules() if name.startswith("Leaf_")}) == 11
    )  # objects: five of each block and the one they share
    assert len(result.named("aten::exp")) == 24


def test_children_of_a_sequential(run):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    result = run(record.OPS | record.MODULES, lambda: model(torch.ones(1, 2)))
    assert result.modules() == {("Sequential_0", ""), ("Linear_0", "0"), ("ReLU_0", "1"), ("Linear_1", "2")}


def test_modules_called_from_threads(run):
    model, x = nn.Sequential(Leaf(), Leaf()), torch.ones(1)

    def work():
        threads = [threading.Thread(target=model, args=(x,)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    result = run(record.OPS | record.MODULES | record.STACKS, work)
    assert result.modules() == {("Sequential_0", ""), ("Leaf_0", "0"), ("Leaf_1", "1")}
    assert len({e["tid"] for e in result.named("nn.Module: Leaf_1")}) == 4


def test_a_recording_does_not_keep_models(run):
    model = nn.Sequential(Leaf())
    alive = weakref.ref(model)
    run(record.OPS | record.MODULES | record.STACKS, lambda: model(torch.ones(1)))  # noqa: F821  deleted after the call
    del model
    gc.collect()
    assert alive() is None


def test_fullgraph_compiles_while_it_is_recorded(run):
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda v: model(v).sin(), fullgraph=True, backend=backend)
    result = run(record.OPS | record.MODULES | record.STACKS | record.MODULE_SPANS, lambda: (compiled(x), compiled(x)))
    assert len(graphs) == 1 and torch.equal(result.result[0], model(x).sin())
    torch._dynamo.reset()


def test_memory_does_not_grow_with_recordings(tmp_path):
    model, x = nn.Sequential(Leaf(), Leaf()), torch.ones(1)
    used = []
    for i in range(60):
        record.open(str(tmp_path / "run.tacho"), features=record.OPS | record.STACKS | record.MODULES | record.CALLS)
        record.resume()
        model(x)
        record.pause()
        used.append(record.close()["memory_bytes"])
    assert used[-1] <= used[5]


# ---- every call


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def count(n):
    for i in range(n):
        yield i


def throw():
    raise ValueError


def catch():
    try:
        throw()
    except ValueError:
        pass
    try:
        len(3)
    except TypeError:
        pass


def resumed():
    try:
        yield 1
    except KeyError:
        yield 2
    finally:
        len("x")


async def answer(n):
    await asyncio.sleep(0)
    return n


async def gather():
    return await asyncio.gather(*[answer(i) for i in range(3)])


def program():
    fib(6)
    list(count(3))
    sum(v for v in count(2))
    catch()
    sorted([3, 1], key=lambda v: abs(v))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(gather())
    loop.close()
    it = resumed()
    next(it), it.throw(KeyError), it.close()
    max(map(lambda v: fib(v), [1, 2]))
    "a".join(["b"])
    done = _thread.allocate_lock()
    done.acquire()
    thread = threading.Thread(target=lambda: (fib(3), done.release()))
    thread.start()
    thread.join()
    del loop, it, thread  # inside, not after the return


def plain(name):
    return re.sub(
        r" object at 0x[0-9a-f]+",
        "",
        re.sub(r"(.*/)?([^/]*)\(", r"\2(", name) if not name.startswith("<built-in") else name,
    )


IN_THREADING = re.compile(
    r"threading\.py|lock|RLock|get_ident|get_native_id|_sentinel|deque|method (remove|append|locked|add|discard|difference_update)|function (len|set_name)|profile"
)


def test_calls_are_those_that_setprofile_sees(run):
    seen = collections.Counter()

    def hook(frame, event, arg):
        if event == "call":
            seen[f"{os.path.basename(frame.f_code.co_filename)}({frame.f_lineno}): {frame.f_code.co_name}"] += 1
        elif event == "c_call":
            seen[plain(repr(arg))] += 1

    program()  # imports are done
    gc.collect()
    gc.disable()  # what is destroyed when would differ
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        program()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    try:
        result = run(record.CALLS, program)
    finally:
        gc.enable()
    (around,) = [e for e in result.events if e["name"].endswith(": program")]
    inside = [
        e
        for e in result.events
        if e["cat"] == "python_function"
        and (e["tid"] != around["tid"] or around["ts"] <= e["ts"] <= around["ts"] + around["dur"])
    ]
    ours = collections.Counter(plain(e["name"]) for e in inside)
    # How often threads meet in locks is not the same twice; a thread's first two functions run before its hook is
    # called.
    assert {
        name: (ours[name], seen[name])
        for name in set(ours) | set(seen)
        if ours[name] != seen[name] and not IN_THREADING.search(name)
    } == {}
    assert (
        ours[f"{HERE}({fib.__code__.co_firstlineno}): fib"]
        == seen[f"{HERE}({fib.__code__.co_firstlineno}): fib"]
        == 25 + 1 + 3 + 5
    )


def overlaps(events):
    """Pairs on one thread of which neither lies in the other."""
    found = 0
    for tid in {e["tid"] for e in events}:
        stack = []
        for start, end in sorted(
            ((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in events if e["tid"] == tid),
            key=lambda p: (p[0], -p[1]),
        ):
            while stack and stack[-1] <= start:
                stack.pop()
            found += bool(stack) and end > stack[-1] + 1  # a nanosecond of rounding
            stack.append(end)
    return found


def test_calls_nest_with_each_other_and_with_operators(run):
    x = torch.ones(1, requires_grad=True)

    def work():
        program()
        calls_sin(x).sum().backward()

    result = run(record.OPS | record.CALLS | record.STACKS, work)
    events = [e for e in result.events if e["cat"] in ("python_function", "cpu_op")]
    assert len(events) > 500 and overlaps(events) == 0
    (sin,) = result.named("aten::sin")
    (call,) = [e for e in result.events if e["name"].endswith(": calls_sin")]
    assert call["ts"] <= sin["ts"] and sin["ts"] + sin["dur"] <= call["ts"] + call["dur"]
    assert call["args"]["CallFrom"].endswith(f"{HERE}:{work.__code__.co_firstlineno + 2}")


def test_calls_are_those_that_torch_records(run):
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)

    def inner():
        fib(4)
        list(count(2))
        catch()
        return model(x)

    def counted(events):
        (around,) = [e for e in events if e["name"].endswith(": inner")]
        inside = (
            e
            for e in events
            if e["cat"] == "python_function"
            and e["ts"] >= around["ts"]
            and e["ts"] + e["dur"] <= around["ts"] + around["dur"] + decimal.Decimal("0.001")
        )
        return collections.Counter(re.sub(r" object at 0x[0-9a-f]+", "", e["name"]) for e in inside)

    inner()
    ours = counted(run(record.CALLS | record.MODULES, inner).events)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as prof:
        inner()
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"stacks-{os.getpid()}.json")
    prof.export_chrome_trace(path)
    with open(path, encoding="utf-8", errors="replace") as file:  # torch has bytes of freed names in it now and then
        theirs = counted([e for e in json.load(file, parse_float=decimal.Decimal)["traceEvents"] if e.get("ph") == "X"])
    os.remove(path)
    assert ours == theirs


def test_threads_one_after_the_other_have_names_of_their_own(run):
    def first():
        for function in (abs, len, ord, hex, oct):
            function("a") if function in (len, ord) else function(1)

    def second():
        hex(1), oct(1), chr(97), ord("a")

    def work():
        for target in (first, second, first, second):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
            # join returns before the thread is quite gone, and only then another takes over its state
            assert comes(lambda number=str(thread.native_id): number not in threads())

    result = run(record.CALLS, work)
    wanted = {"first": ["abs", "len", "ord", "hex", "oct"], "second": ["hex", "oct", "chr", "ord"]}
    for name, functions in wanted.items():
        calls = [e for e in result.events if e["name"].endswith(f": {name}")]
        assert len(calls) == 2
        for call in calls:
            inside = [
                e for e in result.events if e["tid"] == call["tid"] and call["ts"] < e["ts"] < call["ts"] + call["dur"]
            ]
            assert [e["name"] for e in sorted(inside, key=lambda e: e["ts"])] == [
                f"<built-in function {f}>" for f in functions
            ]


def test_recursion_deeper_than_is_followed(run):
    def dive(n):
        return 0 if n == 0 else dive(n - 1)

    result = run(record.CALLS, lambda: (dive(800), fib(3)))
    assert result.stats["lost"] > 0  # counted
    assert len([e for e in result.events if e["name"].endswith(": fib")]) == 5  # and what comes after is whole
    assert overlaps([e for e in result.events if e["cat"] == "python_function"]) == 0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and newer: sys.setprofile and the recorder do not meet")
def test_another_profiler_is_noticed(tmp_path, run):
    sys.setprofile(lambda *a: None)
    try:
        with pytest.raises(record.RecordError, match="sys.setprofile"):
            record.open(str(tmp_path / "run.tacho"), features=record.CALLS, required=record.CALLS)
            try:
                record.resume()
            finally:
                record.close()
    finally:
        sys.setprofile(None)
    result = run(record.CALLS, lambda: (fib(3), sys.setprofile(lambda *a: None), sys.setprofile(None), fib(3)))
    assert any("sys.setprofile was called" in mark for mark in result.marks)
    assert len([e for e in result.events if e["name"].endswith(": fib")]) == 5
