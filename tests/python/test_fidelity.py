"""The same programs under torch.profiler and under tachograph say the same: operators with shapes, types, nesting and
sequence; forward-backward links; bytes allocated; stacks and modules.

Allowed to differ, and why:
- functions in C among the frames of an operator's stack: torch names them with the address of an object, we keep to
frames of Python;
- operators on threads of torch's own pool: torch's profiler does not look there, so the thread of the program is
compared;
- frames outside the program under test: each profiler's own start and stop are on them;
- names beyond ASCII: torch writes "unknown" for them (test_names_beyond_ascii);
- bytes freed: torch does not see frees of blocks that are older than the profile, we do."""

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from facts import Facts
from torch import nn


def mlp():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(16, 16), nn.Tanh()), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).pow(2).sum()
        loss.backward()
        optimizer.step()

    return step


def convolution():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.ones(2, 3, 8, 8)), torch.tensor([0, 1])).backward()
        optimizer.step()

    return step


def attention():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def step():
        model(torch.ones(2, 5, 16)).sum().backward()

    return step


def views_and_scalars():
    def step():
        a = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
        b = a.transpose(0, 2)[1:, ::2].contiguous()
        c = torch.cat([b, b * 2.5], dim=-1).to(torch.bfloat16)
        with torch.profiler.record_function("mine"):
            d = torch.stack([c, c]).sum(dim=(0, 1), keepdim=True)
        torch.nn.functional.pad(d, (1, 2), value=3.0)
        a.index_fill_(1, torch.tensor([0]), 7.0)
        torch.clamp(a, min=None, max=3).bool().any()

    return step


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


def own_function():
    x = torch.ones(3, requires_grad=True)

    def step():
        y = Square.apply(x)
        (y * 3).sum().backward()
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        g.sum().backward()
        x.grad = None

    return step


PROGRAMS = [mlp, convolution, attention, views_and_scalars, own_function]


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda p: p.__name__)
def both(request, tmp_path_factory):
    """(torch's facts, ours) of one program."""
    folder, found = tmp_path_factory.mktemp("fidelity"), []
    flags = dict(record_shapes=True, profile_memory=True, with_stack=True)
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    for name, module, more in (
        ("theirs", torch.profiler, {"experimental_config": verbose}),
        ("ours", tg, {"backend": "native"}),
    ):
        step = request.param()  # again: optimizers count their steps
        for _ in range(2):
            step()
        with module.profile(activities=[module.ProfilerActivity.CPU], **flags, **more) as prof:
            step()
        prof.export_chrome_trace(str(folder / f"{name}.json"))
        found.append(Facts(folder / f"{name}.json"))
    return found


def same(theirs, ours):
    missing, extra = theirs - ours, ours - theirs
    assert not missing and not extra, "only torch's: %s\nonly ours: %s" % (
        list(missing.items())[:8],
        list(extra.items())[:8],
    )


def test_operations(both):
    theirs, ours = both
    assert sum(theirs.operations().values()) > 10
    same(theirs.operations(), ours.operations())


def test_links(both):
    same(both[0].links(), both[1].links())


def test_memory(both):
    same(both[0].memory(), both[1].memory())


@pytest.mark.frames
def test_stacks(both):
    def belongs(frame):
        return (
            ("test_fidelity.py" in frame and not frame.endswith(": both"))
            or "torch/nn" in frame
            or "torch/optim" in frame
        )

    theirs, ours = (facts.stacks(belongs) for facts in both)
    assert any(frames for _, frames in theirs)
    same(theirs, ours)


@pytest.mark.frames
def test_modules(both):
    same(both[0].modules(), both[1].modules())


def test_names_beyond_ascii(tmp_path):
    name = 'größer \U0001f682 "quoted" \\ \n'
    with (
        tg.profile(activities=[tg.ProfilerActivity.CPU], backend="native") as prof,
        torch.profiler.record_function(name),
    ):
        torch.ones(1)
    prof.export_chrome_trace(str(tmp_path / "t.json"))
    assert [e["name"] for e, _ in Facts(tmp_path / "t.json").ops if e["cat"] == "user_annotation"] == [name]
