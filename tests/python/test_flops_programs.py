"""Small training programs whole: their products as torch.utils.flop_counter counts them, or by hand where it does not;
MFU and coverage from the rows."""

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode


class Lambda(nn.Module):
    """Layers by name, and a function of them and the inputs."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function, self.layers = function, nn.ModuleDict(layers)

    def forward(self, *inputs):
        return self.function(self.layers, *inputs)


def unet(m, x):
    return m["c"](torch.cat([F.relu(m["b"](F.relu(m["a"](x)))), x], 1))


def experts(m, x):
    weights = m["gate"](x).softmax(-1)
    return sum(weights[:, i : i + 1] * m[f"e{i}"](x) for i in range(3))


def cell(m, x):
    h = torch.zeros(x.shape[0], 16)
    for t in range(x.shape[1]):
        h = m["cell"](x[:, t], h)
    return h


def mixed(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        return m["b"](F.gelu(m["a"](x)))


def shared_keys(m, x):
    b, t, _ = x.shape
    q, k = m["q"](x).view(b, t, 4, 8).transpose(1, 2), m["k"](x).view(b, t, 2, 8).transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)


def attention(batch, heads, queries, keys, width):
    """Two products forward; backward the scores again and two for each of the others."""
    return 2 * batch * heads * queries * keys * 7 * width


PROGRAMS = {  # made when asked for, or its tensors would stay: model, inputs, operations beyond what the flop counter sees
    "unet": lambda: (
        Lambda(unet, a=nn.Conv2d(3, 8, 3, 2, 1), b=nn.ConvTranspose2d(8, 4, 4, 2, 1), c=nn.Conv2d(7, 2, 1)),
        [(2, 3, 16, 16)],
        0,
    ),
    "experts": lambda: (
        Lambda(experts, gate=nn.Linear(16, 3), **{f"e{i}": nn.Linear(16, 16) for i in range(3)}),
        [(6, 16)],
        0,
    ),
    "cross attention": lambda: (
        Lambda(lambda m, a, b: m["m"](a, b, b)[0], m=nn.MultiheadAttention(32, 4, batch_first=True)),
        [(2, 5, 32), (2, 7, 32)],
        0,
    ),
    "recurrent cell": lambda: (Lambda(cell, cell=nn.GRUCell(8, 16)), [(3, 5, 8)], 0),
    "convolutions": lambda: (
        Lambda(
            lambda m, x, y: m["a"](x).sum() + m["b"](y).sum(),
            a=nn.Conv1d(4, 6, 3, dilation=2),
            b=nn.Conv3d(2, 3, (1, 3, 3), padding="same"),
        ),
        [(2, 4, 20), (1, 2, 3, 8, 8)],
        0,
    ),
    "mixed precision": lambda: (Lambda(mixed, a=nn.Linear(64, 128), b=nn.Linear(128, 10)), [(8, 64)], 0),
    "encoder": lambda: (
        Lambda(
            lambda m, x: m["h"](m["l"](x)),
            l=nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0),
            h=nn.Linear(32, 50),
        ),
        [(2, 10, 32)],
        attention(2, 4, 10, 10, 8),
    ),
    "grouped queries": lambda: (
        Lambda(shared_keys, q=nn.Linear(32, 32), k=nn.Linear(32, 16)),
        [(2, 6, 32)],
        attention(2, 4, 6, 6, 8),
    ),
    # 4 rows, 5 x (8 x 9): the first product forward and for the weight's gradient, the second forward; inputs want no
    # gradient
    "bilinear": lambda: (
        Lambda(lambda m, a, b: m["b"](a, b), b=nn.Bilinear(8, 9, 5)),
        [(4, 8), (4, 9)],
        2 * 4 * 5 * (8 * 9 + 8 * 9 + 9),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    if name == "grouped queries" and "enable_gqa" not in F.scaled_dot_product_attention.__doc__:
        pytest.skip("this torch has no grouped queries")
    model, shapes, unseen = PROGRAMS[name]()
    inputs = [torch.randn(*s) for s in shapes]
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        model(*inputs).float().sum().backward()
        optimizer.step()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    seen = counter.get_total_flops()
    if any("for_cpu" in str(op) for counts in counter.get_flop_counts().values() for op in counts):
        unseen = 0  # a newer counter knows attention on a CPU
    with (
        tg.profile(activities=[tg.ProfilerActivity.CPU], record_shapes=True) as prof,
        tg.record_function("ProfilerStep#0"),
    ):
        step()
    answer = prof.trace.ask("roofline")
    rows = answer.to_dicts()
    assert sum(r["flops"] for r in rows if r["kind"] in ("matmul", "convolution", "attention")) == seen + unseen
    known = 100 * sum(r["time_ns"] for r in rows if r["kind"] != "unknown") / sum(r["time_ns"] for r in rows)
    assert f"FLOPs are known for {known:.1f} % of the time of operators" in answer.notes
    (use,) = prof.trace.ask("mfu", peak_tflops=0.001).to_dicts()
    assert use["mfu_pct"] == pytest.approx(100 * (seen + unseen) / 1e9 / (use["time_ns"] / 1e9), rel=1e-9)
