"""torch's operators as the recorder sees them from plain C: what calibration finds, that a wrong finding is refused, and that programs
of every kind say the same as under torch.profiler."""
import collections
import json
import os
import subprocess
import sys
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")
record = pytest.importorskip("tachograph._record")
import tachograph as tg  # noqa: E402

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
    return [e for e in events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation") and not e["name"].startswith("ProfilerStep")]


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


# ---- what calibration finds ------------------------------------------------------------------------------------------------------


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
    """Modes, guards and defaults of the program do not reach it; it prints nothing; torch that is not there is no error."""
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
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", str(script), str(tmp_path / "x.tacho")], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "") and "tachograph" not in done.stderr, done.stderr


# ---- programs as torch.profiler sees them ------------------------------------------------------------------------------------------


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


def exceptions():
    for bad in (lambda: torch.ones(2) + torch.ones(3), lambda: torch.mm(torch.ones(2), torch.ones(2)), lambda: torch.ones(2).view(3),
                lambda: torch.empty(-1)):
        with pytest.raises(RuntimeError):
            bad()
    torch.ones(2) * 2


def annotations():
    with torch.profiler.record_function("plain"), torch.profiler.record_function("with args", "and these"):
        torch.ones(2)
        for i in range(40):
            with torch.profiler.record_function(f"number {i} of a long row of names that differ in the middle only, which is {i % 7} here"):
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


PROGRAMS = [layouts, types, numbers, lists, strides, undefined, functorch, exceptions, annotations]


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
    if body is functorch or body is undefined:  # called through the interpreter: torch shows its whole stack, where the last ones are the inputs
        for theirs_told in list(missing):
            for ours_told in list(extra):
                if theirs_told[:2] == ours_told[:2] and all(ends_with(a, b) for a, b in zip(theirs_told[2:], ours_told[2:])):
                    both = min(missing[theirs_told], extra[ours_told])
                    missing[theirs_told] -= both
                    extra[ours_told] -= both
        missing, extra = +missing, +extra
    assert not missing and not extra, f"only torch's: {list(missing.items())[:6]}\nonly ours: {list(extra.items())[:6]}"
    assert sum(ours.values()) >= 10 and counts["lost"] == 0


def ends_with(whole, end):
    whole, end = json.loads(whole) or [], json.loads(end) or []
    return whole[len(whole) - len(end):] == end
