"""torch's operators as the recorder sees them from plain C: what calibration finds, that a wrong finding is refused,
and that programs of every kind say the same as under torch.profiler."""

import collections
import json
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph as tg
from own_process import comes

torch.set_num_threads(1)
OPS, SHAPES = record.OPS, record.SHAPES
KEYS = "Input Dims", "Input type", "Input Strides", "Concrete Inputs"


def recorded(folder, body, features=OPS | SHAPES):
    """(what the program returned, the document of its recording, the counts)"""
    path = str(folder / "main.tacho")
    record.open(path, features=features, required=features)
    record.resume()
    try:
        out = body()
    finally:
        record.pause()
        counts = record.close()
    with tg.open(path) as trace:
        trace.export(path + ".json", "chrome")
    with open(path + ".json", encoding="utf-8") as f:
        return out, json.load(f)["traceEvents"], counts


def ops(events):
    return [
        e
        for e in events
        if e.get("ph") == "X"
        and e.get("cat") in ("cpu_op", "user_annotation")
        and not e["name"].startswith("ProfilerStep")
    ]


def named(events, name):
    return [e for e in ops(events) if e["name"] == name]


def under_torch(folder, body, **flags):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, **flags) as prof:
        body()
    path = str(folder / "theirs.json")
    prof.export_chrome_trace(path)
    with open(path, encoding="utf-8") as f:
        return json.load(f)["traceEvents"]


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    assert record.self_check()["torch"]


@pytest.fixture(scope="module")
def abi(tmp_path_factory):
    record.open(str(tmp_path_factory.mktemp("abi") / "x.tacho"), features=OPS | SHAPES, required=OPS | SHAPES)
    record.close()
    return {name: value for name, (value, meaning) in record.abi().items()}


# ---- what calibration finds --------------------------------------------------------------------------------


def test_facts_agree_with_torchs_own_constants(abi):
    """Offsets change between versions; what must hold in all of them is how they lie to each other."""
    kinds = [value for name, value in abi.items() if name.startswith("kind_")]
    assert len(set(kinds)) == len(kinds) == 8
    assert abi["kind_none"] == 0 and abi["kind_tensor"] == 1  # the first two of the enumeration since torch 1.0
    assert abi["name"] < abi["name_kind"] < abi["sequence"] < abi["inputs"] < abi["forward_thread"]
    assert abi["tensor_strides"] == 8 * (1 + 5)  # the number of dimensions, and five sizes in place
    assert abi["tensor_dims"] + abi["tensor_strides"] + 5 * 8 <= abi["tensor_type"]
    assert abi["list_type"] == abi["list_items"] + 3 * 8


@pytest.mark.parametrize("name", sorted(record.abi()))
def test_a_wrong_fact_is_refused(abi, name):
    deltas = {"tensor_policy": (1, -1, 2, 8, -8)}.get(name, (1, -1, 2, 4, -4, 8, -8, 16, 64))
    if (
        name == "string_length" and abi[name] < 0
    ):  # the old std::string: 8 bytes on stands what it has room for, and that is exactly its length
        deltas = [delta for delta in deltas if delta != 8]
    for delta in deltas:
        assert "self-test" in record.abi_falsify(name, delta), delta
    assert record.abi_falsify(name, 0) is None


def test_facts_are_not_falsified_under_a_recording(abi, tmp_path):
    record.open(str(tmp_path / "x.tacho"), features=OPS)
    record.resume()
    try:
        with pytest.raises(RuntimeError, match="a recording is running"):
            record.abi_falsify("name", 8)
        with pytest.raises(RuntimeError, match="not among"):
            record.abi_falsify("nonsense", 8)
    finally:
        record.pause()
        record.close()


def test_calibration_in_any_state_of_the_program(tmp_path):
    """Modes, guards and defaults of the program do not reach it; it prints nothing; torch that is not there is no
    error."""
    script = tmp_path / "states.py"
    script.write_text("""
import sys
from tachograph import _record as r
r.open(sys.argv[1] + ".first", features=r.OPS)
assert r.state()["missing"] == r.OPS and "not loaded" in r.state()["why"], r.state()
r.resume()
import torch
torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")
torch.autograd.set_detect_anomaly(True)
torch.use_deterministic_algorithms(True)
from torch.utils._python_dispatch import TorchDispatchMode
class Refuses(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        raise RuntimeError("no operation is allowed here")
with torch.inference_mode(), torch.autocast("cpu"), Refuses():
    r.resume()
assert r.state()["missing"] == 0, r.state()["why"]
torch.ones(3)
r.pause()
assert r.close()["records"] > 0
""")
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(script), str(tmp_path / "x.tacho")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, "") and "tachograph" not in done.stderr, done.stderr


# ---- programs as torch.profiler sees them ------------------------------------------------------------------


def layouts():
    eye = torch.eye(3)
    sparse = eye.to_sparse()
    torch.sparse.mm(sparse, torch.ones(3, 2))
    sparse.coalesce().to_dense()
    eye.to_sparse_csr() @ torch.ones(3, 1)
    torch.ones(2, 3).to_mkldnn().relu().to_dense()
    torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).dequantize()
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) + 1
    torch.ones(3, device="meta") + 1


def types():
    every = sorted({v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str)
    for dtype in every:
        torch.empty(3, dtype=dtype).view(1, 3)


def numbers():
    torch.zeros(2, dtype=torch.complex64) * 2j
    torch.full((2,), True)
    torch.linspace(0, 1, 5)
    torch.arange(0, 10, 3)
    torch.ones(3).to(torch.bfloat16).to(torch.float16).to(torch.int16)
    torch.tensor(7, dtype=torch.uint8) + 1
    torch.ones(2) * float("nan")
    torch.ones(2).sum(dtype=torch.float64)
    torch.ones(3).add(torch.ones(3), alpha=-2)


def lists():
    x = torch.ones(2, 3)
    torch.cat([x, x, torch.ones(0)], 1)
    torch.stack([x] * 40)
    torch.split(x, [1, 2], 1)
    x.view([2, 3] + [1] * 5).permute(6, 5, 4, 3, 2, 1, 0).contiguous()
    torch.ones([1] * 35).squeeze()
    x.sum(dim=[])
    x[torch.tensor([0, 1])]
    x[None, :, torch.tensor([0, 2])]
    torch._foreach_add([x, x], [1.0, 2.0])
    torch._foreach_mul_([torch.ones(2), torch.ones(5)], 3.0)
    torch.einsum("ij,kj->ik", x, x)
    torch.nn.functional.pad(x, (1, 1))


def strides():
    x = torch.arange(720).reshape(2, 3, 4, 5, 6)
    x.transpose(0, 3).clone()
    x[::2, 1:, :, ::3] + 1
    x.expand(7, 2, 3, 4, 5, 6)[0].sum()
    x.to(memory_format=torch.preserve_format)
    torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last) * 2
    torch.ones(()).expand(3) + torch.ones(1, 3, 0).sum()
    torch.ones(1, 2, 1, 2, 1, 2, 1, 2).transpose(0, 7) * 2


def undefined():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4, affine=False))
    model(torch.ones(2, 3, 6, 6)).sum().backward()
    x = torch.ones(3, requires_grad=True)
    a, b = torch.split(x * 2, [1, 2])
    a.sum().backward()  # no gradient for b


def functorch():
    torch.func.vmap(lambda a: a.mul(2).sum())(torch.ones(3, 4))
    torch.func.grad(lambda a: (a * a).sum())(torch.ones(3))
    torch.func.vmap(torch.func.grad(lambda a: (a * a).sum()))(torch.ones(3, 4))
    torch.func.jvp(torch.sin, (torch.ones(3),), (torch.ones(3),))


def threads():
    x = torch.ones(3, requires_grad=True)
    y = x * 2

    def elsewhere():
        (y + 1).sum().backward()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()


def one_thread():
    x = torch.ones(3, requires_grad=True)
    ((x * 2).sin() + x).sum().backward()


def exceptions():
    for bad in (
        lambda: torch.ones(2) + torch.ones(3),
        lambda: torch.mm(torch.ones(2), torch.ones(2)),
        lambda: torch.ones(2).view(3),
        lambda: torch.empty(-1),
    ):
        with pytest.raises(RuntimeError):
            bad()
    torch.ones(2) * 2


def annotations():
    with torch.profiler.record_function("plain"), torch.profiler.record_function("with args", "and these"):
        torch.ones(2)
        for i in range(40):
            with torch.profiler.record_function(
                f"number {i} of a long row of names that differ in the middle only, which is {i % 7} here"
            ):
                torch.ones(1)
    for n in list(range(1, 40)) + [200, 1023, 1024, 1025, 5000]:
        with torch.profiler.record_function("x" * n):
            pass


def script():
    @torch.jit.script
    def f(x, y):
        z = x + y
        if bool(z.sum() > 0):
            z = z * 2
        return torch.relu(z)

    for _ in range(3):
        f(torch.ones(4), torch.ones(4))


PROGRAMS = [layouts, types, numbers, lists, strides, undefined, functorch, exceptions, annotations, script]


def told(e):
    return (e["name"], e["cat"], *(json.dumps(e["args"].get(key)) for key in KEYS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", PROGRAMS, ids=lambda p: p.__name__)
def test_same_operations_as_under_torch(body, tmp_path):
    body()
    theirs = collections.Counter(map(told, ops(under_torch(tmp_path, body))))
    _, events, counts = recorded(tmp_path, body)
    ours = collections.Counter(map(told, ops(events)))
    missing, extra = theirs - ours, ours - theirs
    if (
        body is functorch or body is undefined
    ):  # called through the interpreter: torch shows its whole stack, where the last ones are the inputs
        for theirs_told in list(missing):
            for ours_told in list(extra):
                if theirs_told[:2] == ours_told[:2] and all(
                    ends_with(a, b) for a, b in zip(theirs_told[2:], ours_told[2:])
                ):
                    both = min(missing[theirs_told], extra[ours_told])
                    missing[theirs_told] -= both
                    extra[ours_told] -= both
        missing, extra = +missing, +extra
    assert not missing and not extra, f"only torch's: {list(missing.items())[:6]}\nonly ours: {list(extra.items())[:6]}"
    assert sum(ours.values()) >= 10 and counts["lost"] == 0


def ends_with(whole, end):
    whole, end = json.loads(whole) or [], json.loads(end) or []
    return whole[len(whole) - len(end) :] == end


@pytest.mark.filterwarnings("ignore")
@pytest.mark.frames
def test_modules_of_torchscript(tmp_path):
    """As torch has them; but torch forgets autograd nodes when it counts, and gives what follows one another's."""

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.linear(x))

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Inner(), Inner()

        def forward(self, x):
            return self.second(self.first(x)) + 1

    class Holder(torch.nn.Module):
        def __init__(self, scripted):
            super().__init__()
            self.scripted = scripted

        def forward(self, x):
            return torch.sin(self.scripted(x))

    model, x = Holder(torch.jit.script(Outer())), torch.ones(2, 4)
    for _ in range(4):
        model(x).sum().backward()

    def hierarchies(events, names=None):
        in_order = sorted(ops(events), key=lambda e: (e["ts"], -e["dur"]))
        return [(e["name"], e["args"].get("Module Hierarchy", "")) for e in in_order if not names or e["name"] in names]

    theirs = hierarchies(under_torch(tmp_path, lambda: model(x), with_modules=True))
    ours = hierarchies(recorded(tmp_path, lambda: model(x), features=OPS | record.MODULES)[1])
    assert [name for name, _ in ours] == [name for name, _ in theirs] and len(ours) > 30
    if torch._C._GLIBCXX_USE_CXX11_ABI:  # the strings that the recorder can read
        inside = [(name, text) for name, text in ours if text.startswith("TOP(")]
        assert (
            inside == [(name, text) for name, text in theirs if text] and ("forward", "TOP(Outer)::forward.") in inside
        )
        assert dict(inside)["aten::addmm"].endswith("second(Inner)::forward.linear(Linear)::forward.")
        _, events, _ = recorded(tmp_path, lambda: model(x).sum().backward(), features=OPS | record.MODULES)
        of_nodes = [e for e in ops(events) if e["name"].startswith("autograd::engine")]
        assert of_nodes and not any("Module Hierarchy" in e["args"] for e in of_nodes)
        backward = dict(hierarchies(events, ("<backward op>", "aten::mm")))
        assert backward == {"<backward op>": "TOP()::<backward op>.", "aten::mm": "TOP()::<backward op>."}
    assert dict(ours)["aten::sin"] == "Holder_0"


def test_sequence_numbers_and_forward_threads(tmp_path):
    """Numbers never begin again, so they are compared by their distances; the thread of the forward part is the one
    that ran it."""

    def numbers_of(events):
        with_numbers = [
            (e["name"], e["args"]["Sequence number"])
            for e in sorted(ops(events), key=lambda e: e["ts"])
            if "Sequence number" in e["args"]
        ]
        first = min(n for _, n in with_numbers)
        return [(name, n - first) for name, n in with_numbers if not name.startswith("autograd::engine")]

    theirs = numbers_of(under_torch(tmp_path, one_thread))
    _, events, _ = recorded(tmp_path, one_thread)
    assert numbers_of(events) == theirs and len(theirs) > 4
    _, events, _ = recorded(tmp_path, threads)
    [add], [mul] = named(events, "aten::add"), named(events, "aten::mul")[:1]
    [back] = named(events, "MulBackward0")
    assert back["tid"] == add["tid"] != mul["tid"]
    [reference] = named(under_torch(tmp_path, one_thread), "MulBackward0")  # its forward part ran on this thread too
    assert back["args"]["Fwd thread id"] == reference["args"]["Fwd thread id"]
    assert back["args"]["Sequence number"] == mul["args"]["Sequence number"]


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7), reason="this torch does not tell overloads"
)
def test_overloads_are_kept(tmp_path):
    def body():
        torch.ones(2).sum([0])
        torch.ones(2).add_(1)

    _, events, _ = recorded(tmp_path, body)
    overloads = {(e["name"], e["args"].get("Overload name")) for e in ops(events)}
    assert {("aten::sum", "dim_IntList"), ("aten::add_", "Tensor"), ("aten::ones", None)} <= overloads


# ---- limits ------------------------------------------------------------------------------------------------


def test_scalars_that_are_never_the_same_are_dropped_at_some_point(tmp_path):
    def body():
        x = torch.ones(3)
        for i in range(3000):
            x.add_(x, alpha=1.0 + i / 4096)
            x.select(0, i % 3)

    _, events, _ = recorded(tmp_path, body)
    told_values = [e["args"]["Concrete Inputs"][2] for e in named(events, "aten::add_")]
    assert len(told_values) == 3000
    kept = [v for v in told_values if v]
    assert (
        500 < len(kept) < 2000
        and told_values[:3] == ["1.", "1.000244140625", "1.00048828125"]
        and not any(told_values[2500:])
    )
    assert all(
        e["args"]["Concrete Inputs"][1:] == ["0", str(i % 3)] for i, e in enumerate(named(events, "aten::select"))
    )  # others keep theirs


def test_many_shapes(tmp_path):
    """More different inputs than are remembered: each is still the right one."""

    def body():
        for i in range(1, 4000):
            torch.empty(i, 2)
        for i in range(1, 4000, 7):
            torch.empty(i, 2)

    _, events, counts = recorded(tmp_path, body)
    sizes = [e["args"]["Concrete Inputs"][0] for e in named(events, "aten::empty")]
    assert counts["lost"] == 0 and len(sizes) == 3999 + 572
    assert sizes[:900] == [f"[{i}, 2]" for i in range(1, 901)]


def test_long_lists(tmp_path):
    """A thousand tensors are kept; where they are more than a text may be long the other inputs are kept all the
    same."""
    tensors = [torch.ones(i % 5 + 1, 2) for i in range(3000)]

    def body():
        torch.cat(tensors[:1000])
        torch.cat(tensors, 0)
        torch.cat(tensors[:3])

    _, events, _ = recorded(tmp_path, body)
    some, all_of_them, few = [e["args"] for e in named(events, "aten::cat")]
    assert some["Input type"] == ["TensorList", "Scalar"]  # their sizes are not shown, as torch shows none of over 30
    assert few["Input Dims"][0] == [[1, 2], [2, 2], [3, 2]]
    assert all_of_them["Input type"] == ["", "Scalar"] and all_of_them["Concrete Inputs"] == ["", "0"]


def test_names_of_every_kind(tmp_path):
    strange = ["", 'tab\tquote"back\\slash', "ünïcode 測試 🚂", "a" * 3000, "<script>", "ends with \x7f"]

    def body():
        for name in strange:
            with torch.profiler.record_function(name):
                torch.ones(1)

    _, events, _ = recorded(tmp_path, body)
    assert [e["name"] for e in sorted(ops(events), key=lambda e: e["ts"]) if e["cat"] == "user_annotation"] == strange


# ---- faults ------------------------------------------------------------------------------------------------


def test_an_annotation_that_ends_on_another_thread(tmp_path):
    def body():
        label = torch.profiler.record_function("handed over")
        label.__enter__()
        torch.ones(2)
        thread = threading.Thread(target=label.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        with torch.profiler.record_function("afterwards"):
            torch.ones(3)

    _, events, counts = recorded(tmp_path, body)
    [over], [after] = named(events, "handed over"), named(events, "afterwards")
    assert over["dur"] > 0 and counts["lost"] == 0
    assert after["ts"] >= over["ts"] + over["dur"]


def test_somebody_removes_all_callbacks(tmp_path, capfd):
    def is_recorded():
        before = record.state()["records"]
        torch.eye(1)
        return record.state()["records"] > before

    def body():
        torch.ones(2)
        torch.autograd._profiler_enabled()
        torch._C._autograd._clear_callbacks()
        torch.ones(3)
        assert comes(is_recorded)  # ours come back with the recorder's next tick
        torch.ones(4)

    for _ in range(20):  # that tick may fall just before the operator that is not to be recorded
        _, events, _ = recorded(tmp_path, body)
        sizes = [e["args"]["Concrete Inputs"][0] for e in named(events, "aten::ones")]
        if sizes != ["[2]", "[3]", "[4]"]:
            break
    assert sizes == ["[2]", "[4]"]
    assert "callback" not in capfd.readouterr().err.lower()
    _, events, _ = recorded(tmp_path, lambda: torch.ones(2))
    assert len(named(events, "aten::ones")) == 1


def test_torchs_profiler_at_the_same_time(tmp_path):
    def body():
        with torch.profiler.profile(record_shapes=True) as prof:
            torch.ones(2) + 1
        return prof

    prof, events, _ = recorded(tmp_path, body)
    assert "aten::add" in {e.name for e in prof.events()} and len(named(events, "aten::add")) == 1


def test_what_began_before_the_recording_or_ends_behind_it(tmp_path):
    before = torch.profiler.record_function("began before")
    before.__enter__()

    def body():
        torch.ones(2)
        before.__exit__(None, None, None)
        behind = torch.profiler.record_function("ends behind")
        behind.__enter__()
        return behind

    behind, events, _ = recorded(tmp_path, body)
    behind.__exit__(None, None, None)
    assert {e["name"] for e in ops(events)} >= {"aten::ones"} and not named(events, "began before")
    _, events, _ = recorded(tmp_path, lambda: torch.ones(2))
    assert len(named(events, "aten::ones")) == 1


def test_many_threads(tmp_path):
    def work():
        for _ in range(20):
            torch.ones(2, 3) + 1

    def body():
        many = [threading.Thread(target=work) for _ in range(100)]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()

    _, events, counts = recorded(tmp_path, body)
    assert len(named(events, "aten::add")) == 2000 and counts["lost"] == 0
    assert all(e["args"]["Input Dims"][0] == [2, 3] for e in named(events, "aten::add"))


ODD = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from tachograph import _record as r
torch.set_num_threads(2)
r.open(sys.argv[1], features=r.OPS | r.SHAPES | r.STACKS | r.MODULES | r.MEMORY)
r.resume()
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
with FakeTensorMode(shape_env=ShapeEnv()) as mode:
    fake = mode.from_tensor(torch.ones(3, 4))
    (fake @ fake.t()).sum()
f = torch.compile(lambda a: (a * 2).sin().sum(0), backend="aot_eager", dynamic=True)
for n in (3, 5, 9):
    f(torch.ones(n, 2, requires_grad=True)).sum().backward()
def deep(n):
    return torch.ones(1) if n == 0 else deep(n - 1) + 1
sys.setrecursionlimit(5000)
deep(900)
def generated():
    for i in range(5):
        yield torch.ones(i + 1)
sum(t.sum() for t in generated())
class Mine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        return super().__torch_function__(f, types, args, kwargs or {})
(torch.ones(3).as_subclass(Mine) * 2).sum()
from torch.utils._python_dispatch import TorchDispatchMode
class Logs(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        return op(*args, **(kwargs or {}))
with Logs():
    torch.ones(3) + 1
nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
(nested * 2).unbind()
torch.utils.checkpoint.checkpoint(lambda a: (a * a).sum(), torch.ones(3, requires_grad=True), use_reentrant=True).backward()
torch.utils.data.DataLoader
for batch in torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2):
    batch + 1
resized = torch.ones(2, 2)
resized.resize_(1, 2, 3, 4, 5, 6, 7).resize_(3)
resized.set_()
torch.ones(3).untyped_storage().resize_(0)
x = torch.ones(3, requires_grad=True)
x.register_hook(lambda g: g * 2)
class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2
    @staticmethod
    def backward(ctx, g):
        raise ValueError("on purpose")
try:
    Raises.apply(x).sum().backward()
except ValueError:
    pass
futures = [torch.jit.fork(torch.add, torch.ones(2), torch.ones(2)) for _ in range(4)]
[torch.jit.wait(future) for future in futures]
r.pause()
print("lost", r.close()["lost"])
"""


def test_unusual_programs_survive(forks, tmp_path):
    done = forks.run("import faulthandler; faulthandler.enable()" + ODD, arguments=[tmp_path / "odd.tacho"])
    assert (done.returncode, done.stdout) == (0, "lost 0\n"), done.stderr[-3000:]
    with tg.open(tmp_path / "odd.tacho") as trace:
        assert len(trace.sql("SELECT name FROM slices WHERE name = 'aten::add'")["name"]) > 900


BARE = """
import sys, torch
from tachograph import _record as r
del torch.autograd._record_function_with_args_enter  # what the known operations need: this torch cannot be understood
try:
    r.open(sys.argv[1], features=r.OPS | r.SHAPES, required=r.SHAPES)
except r.RecordError as error:
    assert error.code == "UNSUPPORTED" and "_record_function_with_args_enter" in str(error), error
else:
    raise SystemExit("shapes were promised")
r.open(sys.argv[1], features=r.OPS | r.SHAPES | r.STACKS)
r.resume()
assert r.state()["missing"] == r.SHAPES, r.state()
x = torch.ones(3, requires_grad=True)
for i in range(3):
    with torch.profiler.record_function("a label that is longer than others"):
        (x * i).sum().backward()
r.pause()
r.close()
"""


def test_names_and_times_alone_when_torch_is_not_understood(tmp_path):
    path = tmp_path / "bare.py"
    path.write_text(BARE)
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "bare.tacho")], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with tg.open(tmp_path / "bare.tacho") as trace:
        trace.export(tmp_path / "bare.json", "chrome")
    events = json.loads((tmp_path / "bare.json").read_text())["traceEvents"]
    counts = collections.Counter(e["name"] for e in ops(events))
    assert (
        counts["aten::mul"] >= 3
        and counts["MulBackward0"] == counts["SumBackward0"] == counts["a label that is longer than others"] == 3
    )
    label = named(events, "a label that is longer than others")[0]
    inside = [e for e in ops(events) if label["ts"] <= e["ts"] and e["ts"] + e["dur"] <= label["ts"] + label["dur"]]
    assert {"aten::mul", "aten::sum", "MulBackward0"} <= {e["name"] for e in inside}
    assert not any("Sequence number" in e["args"] or "Input Dims" in e["args"] for e in ops(events))
    assert {e["cat"] for e in named(events, "aten::mul")} == {"cpu_op"} and label["cat"] == "user_annotation"
