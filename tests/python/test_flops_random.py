"""Operations of random products, convolutions and attention: as torch.utils.flop_counter counts them, and from first
principles where it counts otherwise (groups in the gradient of a weight, vectors, complex numbers, what it does not
know)."""

import math
import random

import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")
import tachograph as tg
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

PRODUCTS = ("matmul", "convolution", "attention")
runs = settings(max_examples=12, deadline=None, database=None)


def rand(*shape, dtype=torch.float32, grad=True):
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def rows_of(bodies):
    with tg.profile(activities=[tg.ProfilerActivity.CPU], record_shapes=True) as prof:
        for body in bodies:
            body()
    return [r for r in prof.trace.ask("roofline") if r["kind"] in PRODUCTS]


def flops_of(bodies):
    return sum(r["flops"] for r in rows_of(bodies))


def theirs_of(bodies):
    with FlopCounterMode(display=False) as counter:
        for body in bodies:
            body()
    return counter.get_total_flops()


def backward(out):
    if out.requires_grad:
        (out.real if out.is_complex() else out).sum().backward()


# ---- matrices ----------------------------------------------------------------------------------------------


def matrix_case(draw, dtype=torch.float32):
    """Shapes and a function of tensors; each of the tensors needs a gradient or not."""
    b, n, k, m = (draw.randint(1, 6) for _ in range(4))
    n, k, m = n + 1, k + 1, m + 1  # a product with a dimension of 1 may become one of vectors
    alpha = draw.choice([{}, {"alpha": 2, "beta": 3}])
    name, shapes, function = draw.choice(
        [
            ("mm", [(n, k), (k, m)], torch.mm),
            ("mm of transposed", [(k, n), (m, k)], lambda x, y: torch.mm(x.t(), y.t())),
            (
                "addmm",
                [draw.choice([(m,), (n, m), (1, m)]), (n, k), (k, m)],
                lambda c, x, y: torch.addmm(c, x, y, **alpha),
            ),
            ("bmm", [(b, n, k), (b, k, m)], torch.bmm),
            (
                "baddbmm",
                [draw.choice([(b, n, m), (1, m)]), (b, n, k), (b, k, m)],
                lambda c, x, y: torch.baddbmm(c, x, y, **alpha),
            ),
            ("matmul", [(b, n, k), (k, m)], torch.matmul),
            ("matmul, broadcast", [(b, 1, n, k), (3, k, m)], torch.matmul),
            ("matmul of many", [(2, b, n, k), (2, b, k, m)], torch.matmul),
            ("linear", [(b, 2, k), (m, k), (m,)], F.linear),
            ("linear without bias", [(n, k), (m, k)], F.linear),
            ("tensordot", [(n, 3, k), (k, 3, m)], lambda x, y: torch.tensordot(x, y, dims=([1, 2], [1, 0]))),
            ("chain", [(n, k), (k, m), (m, n)], lambda *a: torch.linalg.multi_dot(a)),
            ("einsum", [(b, n, k), (b, k, m)], lambda x, y: torch.einsum("bik,bkj->bij", x, y)),
            ("einsum of attention", [(2, n, b, k), (2, m, b, k)], lambda x, y: torch.einsum("bihd,bjhd->bhij", x, y)),
            ("einsum that sums", [(n, k), (k, m)], lambda x, y: torch.einsum("ik,kj->j", x, y)),
            ("einsum of three", [(n, k), (k, m), (m, n)], lambda x, y, z: torch.einsum("ab,bc,cd->ad", x, y, z)),
            ("outer einsum", [(b, n), (b, m)], lambda x, y: torch.einsum("bi,bj->bij", x, y)),
        ]
    )
    grads = [draw.random() < 0.7 for _ in shapes]
    return name, lambda: backward(function(*(rand(*s, dtype=dtype, grad=g) for s, g in zip(shapes, grads))))


@runs
@given(st.integers(0, 1 << 30))
def test_products_of_matrices(seed):
    draw = random.Random(seed)
    cases = [matrix_case(draw) for _ in range(8)]
    bodies = [body for _, body in cases]
    ours, theirs = flops_of(bodies), theirs_of(bodies)
    if ours != theirs:
        assert {name: flops_of([body]) for name, body in cases} == {name: theirs_of([body]) for name, body in cases}
    assert ours == theirs


@runs
@given(st.integers(0, 1 << 30), st.sampled_from([torch.complex64, torch.complex128]))
def test_a_product_of_complex_numbers_is_four_of_real_ones(seed, dtype):
    """Four multiplications and four additions, where flop_counter counts as for real numbers."""
    bodies = [matrix_case(random.Random(seed + i), dtype)[1] for i in range(4)]
    assert flops_of(bodies) == 4 * theirs_of(bodies)


@runs
@given(n=st.integers(2, 9), k=st.integers(2, 9))
def test_products_with_a_vector(n, k):
    """Which flop_counter does not count."""
    bodies = [
        lambda: torch.mv(rand(n, k, grad=False), rand(k, grad=False)),
        lambda: torch.dot(rand(k, grad=False), rand(k, grad=False)),
        lambda: torch.addmv(rand(n, grad=False), rand(n, k, grad=False), rand(k, grad=False)),
        lambda: torch.matmul(rand(3, n, k, grad=False), rand(k, grad=False)),
        lambda: torch.matmul(rand(k, grad=False), rand(k, n, grad=False)),
    ]
    assert flops_of(bodies) == 2 * (n * k + k + n * k + 3 * n * k + n * k)


def test_a_layer_of_a_recurrent_network():
    """Of 10 × 4 rows of 32 features, 64 states, four gates: oneDNN's layer, which flop_counter does not know; or the
    products of its cells."""
    layer = torch.nn.LSTM(32, 64, batch_first=True)
    rows = rows_of([lambda: layer(torch.randn(4, 10, 32))[0].sum().backward()])
    once = 2 * 40 * (4 * 64 * 32 + 4 * 64 * 64)
    fused = {r["name"]: r["flops"] for r in rows if "rnn_layer" in r["name"]}
    if fused:
        assert fused == {"aten::mkldnn_rnn_layer": once, "aten::mkldnn_rnn_layer_backward": 2 * once}
    else:
        assert sum(r["flops"] for r in rows) >= once


# ---- convolutions ------------------------------------------------------------------------------------------


def conv_case(draw, groups):
    """One that torch can do: of some shapes it says that the result would be empty, or that its library has no format
    for them."""
    while True:
        body, flops = random_conv(draw, groups)
        try:
            body()
            return body, flops
        except RuntimeError:
            continue


def random_conv(draw, groups):
    axes = draw.randint(1, 3)
    channels, filters = (groups * draw.randint(1, 3) for _ in range(2))
    kernel = [draw.randint(1, 3) for _ in range(axes)]
    stride, dilation, padding = ([draw.randint(low, 2) for _ in range(axes)] for low in (1, 1, 0))
    size = [draw.randint(d * (w - 1) + 1, d * (w - 1) + 5) for w, d in zip(kernel, dilation)]
    batch = draw.randint(1, 3)
    transposed = draw.random() < 0.4
    x_grad, w_grad = draw.choice([(True, True), (True, False), (False, True), (False, False)])
    weight = (channels, filters // groups, *kernel) if transposed else (filters, channels // groups, *kernel)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{axes}d")
    more = {"output_padding": [draw.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]} if transposed else {}
    positions = (
        size
        if transposed
        else [(x + 2 * p - d * (w - 1) - 1) // s + 1 for x, p, d, w, s in zip(size, padding, dilation, kernel, stride)]
    )

    def body():
        bias = rand(filters) if draw_bias else None
        backward(
            function(
                rand(batch, channels, *size, grad=x_grad),
                rand(*weight, grad=w_grad),
                bias,
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
                **more,
            )
        )

    draw_bias = draw.random() < 0.5
    once = 2 * batch * math.prod(weight) * math.prod(positions)
    return body, once * (1 + x_grad + w_grad)


@runs
@given(st.integers(0, 1 << 30))
def test_convolutions_in_one_group(seed):
    draw = random.Random(seed)
    cases = [conv_case(draw, 1) for _ in range(5)]
    bodies = [body for body, _ in cases]
    assert flops_of(bodies) == theirs_of(bodies) == sum(flops for _, flops in cases)


@runs
@given(st.integers(0, 1 << 30))
def test_convolutions_in_groups(seed):
    """A filter of a group sees only its group's channels, forward and in both gradients."""
    draw = random.Random(seed)
    cases = [conv_case(draw, draw.randint(2, 3)) for _ in range(5)]
    assert flops_of([body for body, _ in cases]) == sum(flops for _, flops in cases)


def test_convolutions_that_pad_by_name():
    def body():
        F.conv2d(rand(2, 4, 9, 9, grad=False), rand(6, 4, 3, 3, grad=False), padding="same")
        F.conv1d(rand(4, 9, grad=False), rand(6, 4, 3, grad=False))  # without a batch

    assert flops_of([body]) == theirs_of([body]) == 2 * 2 * 6 * 4 * 9 * 81 + 2 * 6 * 4 * 3 * 7


# ---- attention ---------------------------------------------------------------------------------------------


@runs
@given(st.integers(0, 1 << 30))
def test_attention(seed):
    """Two products forward and five backward (the scores are made again), of which the kernel of one head's length does
    all: a causal mask is not taken off. Where torch falls back to plain products, their gradients are four."""
    draw = random.Random(seed)
    grouped = "enable_gqa" in F.scaled_dot_product_attention.__doc__  # torch 2.4 has no grouped queries
    heads, groups = draw.choice([(4, 4), (4, 2), (3, 1)] if grouped else [(4, 4)])
    batch, length, other, width = draw.randint(1, 3), draw.randint(2, 9), draw.randint(2, 9), draw.choice([8, 16])
    grad, causal = draw.random() < 0.6, draw.random() < 0.5
    masked = not causal and draw.random() < 0.3

    def body():
        q, k, v = (
            rand(batch, heads, length, width, grad=grad),
            rand(batch, groups, other, width, grad=grad),
            rand(batch, groups, other, width, grad=grad),
        )
        mask = torch.zeros(length, other) if masked else None
        options = {"enable_gqa": True} if heads != groups else {}
        backward(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, **options))

    rows = rows_of([body])
    one = 2 * batch * heads * length * other * width
    forward = sum(r["flops"] for r in rows if r["kind"] == "attention" and "backward" not in r["name"])
    assert forward == 2 * one
    assert sum(r["flops"] for r in rows) - forward in ((5 * one, 4 * one) if grad else (0,))
