"""Operations of factorisations and transforms, against textbook algorithms whose operations are counted one by one;
bytes against the tensors."""

import math

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
from torch.nn import functional as F

M, N, K, BATCH = 12, 8, 5, 3


def rows_of(body):
    body()  # what is set up once
    with tg.profile(activities=[tg.ProfilerActivity.CPU], record_shapes=True) as prof:
        body()
    return prof.trace.ask("roofline").to_dicts()


def work(body, kind):
    rows = [r for r in rows_of(body) if r["kind"] == kind]
    return sum(r["flops"] for r in rows), sum(r["bytes"] for r in rows)


# ---- algorithms that count what they do --------------------------------------------------------------------


def cholesky(n):
    return sum(2 * j + 1 + (n - 1 - j) * (2 * j + 1) for j in range(n))


def lu(m, n):
    return sum((m - k - 1) * (1 + 2 * (n - k - 1)) for k in range(min(m, n)))


def triangular(n, right):
    return right * sum(2 * i + 1 for i in range(n))


def inverse_of_factored(n):
    inverse = sum(triangular(n - j, 1) for j in range(n))  # of the factor, column by column
    return inverse + sum(2 * (n - j) for j in range(n) for _ in range(j + 1))  # times its transpose, one half


def householder(m, n):
    reflect = sum(4 * (m - k) * (n - k) for k in range(min(m, n)))
    return reflect + sum(4 * (m - k) * (min(m, n) - k) for k in range(min(m, n)))


def least_squares(m, n, right):
    """Householder reflections of the tall matrix and of the right sides, then the triangle."""
    reflect = sum(4 * (m - k) * (n - k + right) for k in range(n))
    return reflect + triangular(n, right)


def leading(count, *sizes):
    """The part of a count that grows with the third power of all sizes: a sixth of its third difference."""
    f = [count(*(t * s for s in sizes)) for t in range(1, 5)]
    return (f[3] - 3 * f[2] + 3 * f[1] - f[0]) / 6


def definite(n=N, dtype=torch.float64):
    x = torch.randn(BATCH, n, n, dtype=dtype)
    return x @ x.mH + n * torch.eye(n, dtype=dtype)


CASES = [
    ("cholesky", lambda: torch.linalg.cholesky(definite()), leading(cholesky, N), 2 * N * N),
    (
        "complex cholesky",
        lambda: torch.linalg.cholesky(definite(dtype=torch.complex128)),
        4 * leading(cholesky, N),
        4 * N * N,
    ),
    ("lu", lambda: torch.linalg.lu_factor(definite()), leading(lu, N, N), 2 * N * N),
    (
        "tall lu",
        lambda: torch.linalg.lu_factor(torch.randn(BATCH, M, N, dtype=torch.float64)),
        leading(lu, M, N),
        2 * M * N,
    ),
    (
        "wide lu",
        lambda: torch.linalg.lu_factor(torch.randn(BATCH, N, M, dtype=torch.float64)),
        leading(lu, N, M),
        2 * M * N,
    ),
    (
        "solve",
        lambda: torch.linalg.solve(definite(), torch.randn(BATCH, N, K, dtype=torch.float64)),
        leading(lu, N, N) + 2 * leading(triangular, N, K),
        2 * N * N + N * N + 2 * N * K,
    ),
    (
        "inverse",
        lambda: torch.linalg.inv(definite()),
        leading(lu, N, N) + 2 * leading(triangular, N, N),
        2 * N * N + 3 * N * N,
    ),
    ("determinant", lambda: torch.linalg.det(definite()), leading(lu, N, N), 2 * N * N),
    (
        "triangular",
        lambda: torch.linalg.solve_triangular(definite(), torch.randn(BATCH, N, K, dtype=torch.float64), upper=True),
        leading(triangular, N, K),
        N * N + 2 * N * K,
    ),
    (
        "cholesky_solve",
        lambda: torch.cholesky_solve(torch.randn(BATCH, N, K, dtype=torch.float64), definite()),
        2 * leading(triangular, N, K),
        N * N + 2 * N * K,
    ),
    ("cholesky_inverse", lambda: torch.cholesky_inverse(definite()), leading(inverse_of_factored, N), 2 * N * N),
    (
        "qr",
        lambda: torch.linalg.qr(torch.randn(BATCH, M, N, dtype=torch.float64)),
        leading(householder, M, N),
        2 * M * N + N * N,
    ),
    (
        "wide qr",
        lambda: torch.linalg.qr(torch.randn(BATCH, N, M, dtype=torch.float64)),
        leading(householder, N, M),
        2 * M * N + N * N,
    ),
    (
        "least squares",
        lambda: torch.linalg.lstsq(
            torch.randn(BATCH, M, N, dtype=torch.float64), torch.randn(BATCH, M, K, dtype=torch.float64)
        ),
        leading(least_squares, M, N, K),
        M * N + M * K + N * K,
    ),
    (
        "of more unknowns",
        lambda: torch.linalg.lstsq(
            torch.randn(BATCH, N, M, dtype=torch.float64), torch.randn(BATCH, N, K, dtype=torch.float64)
        ),
        leading(least_squares, M, N, K),
        M * N + N * K + M * K,
    ),
    (
        "of one right side",
        lambda: torch.linalg.lstsq(
            torch.randn(BATCH, M, N, dtype=torch.float64), torch.randn(BATCH, M, dtype=torch.float64)
        ),
        2 * N * N * (M - N / 3) + 4 * M * N - N * N,
        M * N + M + N,
    ),
    # Golub and Van Loan, figure 8.6.1 and sections 8.3 and 7.5: what they state
    (
        "svd",
        lambda: torch.linalg.svd(torch.randn(BATCH, M, N, dtype=torch.float64), full_matrices=False),
        14 * M * N**2 + 8 * N**3,
        2 * M * N + N + N * N,
    ),
    (
        "full svd",
        lambda: torch.linalg.svd(torch.randn(BATCH, N, M, dtype=torch.float64)),
        4 * M**2 * N + 8 * M * N**2 + 9 * N**3,
        M * N + M * M + N + N * N,
    ),
    (
        "singular values",
        lambda: torch.linalg.svdvals(torch.randn(BATCH, M, N, dtype=torch.float64)),
        4 * M * N**2 - 4 / 3 * N**3,
        M * N + N,
    ),
    ("eigh", lambda: torch.linalg.eigh(definite()), 9 * N**3, 2 * N * N),
    ("eigvalsh", lambda: torch.linalg.eigvalsh(definite()), 4 / 3 * N**3, 2 * N * N),
    ("eig", lambda: torch.linalg.eig(definite()), 25 * N**3, 2 * N * N),
]


@pytest.mark.parametrize("body, flops, elements", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_factorisations(body, flops, elements):
    found = work(body, "factorisation")
    assert found[0] == pytest.approx(BATCH * flops, abs=2) and found[1] == 8 * BATCH * elements


def butterflies(n):
    """Radix 2: of two points one is multiplied by a root of unity, both are added and subtracted, in complex
    numbers."""
    return 0 if n == 1 else 2 * butterflies(n // 2) + n // 2 * (6 + 2 + 2)


def transforms(*shape):
    """Of a complex array along all its axes."""
    return sum(math.prod(shape) // n * butterflies(n) for n in shape)


FFT = [
    ("fft", lambda: torch.fft.fft(torch.randn(4, 64) + 0j), 4 * transforms(64), 8 * 4 * 64 * 2),
    ("of a longer signal", lambda: torch.fft.fft(torch.randn(4, 64) + 0j, n=128), 4 * transforms(128), 8 * 4 * 128 * 2),
    ("along the first axis", lambda: torch.fft.fft(torch.randn(32, 5) + 0j, dim=0), 5 * transforms(32), 8 * 5 * 32 * 2),
    ("fft2", lambda: torch.fft.fft2(torch.randn(4, 16, 32) + 0j), 4 * transforms(16, 32), 8 * 4 * 512 * 2),
    ("rfft", lambda: torch.fft.rfft(torch.randn(4, 64)), 4 * transforms(64) / 2, 4 * 4 * 64 + 8 * 4 * 33),
    (
        "rfft2",
        lambda: torch.fft.rfft2(torch.randn(4, 16, 32)),
        4 * transforms(16, 32) / 2,
        4 * 4 * 512 + 8 * 4 * 16 * 17,
    ),
    ("irfft", lambda: torch.fft.irfft(torch.randn(4, 33) + 0j), 4 * transforms(64) / 2, 8 * 4 * 33 + 4 * 4 * 64),
    (
        "irfft2",
        lambda: torch.fft.irfft2(torch.randn(4, 16, 17) + 0j),
        4 * transforms(16, 32) / 2,
        8 * 4 * 16 * 17 + 4 * 4 * 512,
    ),
]


@pytest.mark.parametrize("body, flops, size", [case[1:] for case in FFT], ids=[case[0] for case in FFT])
def test_transforms(body, flops, size):
    assert work(body, "fourier") == (flops, size)


@pytest.mark.parametrize("axes, places", [((16, 12), (7, 5)), ((4, 5, 6), (3, 2, 3))])
def test_sampling_at_a_grid(axes, places):
    x, grid = torch.randn(4, 3, *axes), torch.rand(4, *places, len(axes)) * 2 - 1
    x.requires_grad_()
    grid.requires_grad_()
    rows = {r["name"]: r for r in rows_of(lambda: F.grid_sample(x, grid, align_corners=False).sum().backward())}
    written, name = 4 * 3 * math.prod(places), f"aten::grid_sampler_{len(axes)}d"
    assert (rows[name]["flops"], rows[name]["bytes"]) == (written, 4 * (x.numel() + grid.numel() + written))
    row = rows[name + "_backward"]
    assert (row["flops"], row["bytes"]) == (written, 4 * (written + 2 * x.numel() + 2 * grid.numel()))


class Count:
    """Numbers that count what is done with them."""

    done = 0

    @classmethod
    def of(cls, operations, value):
        cls.done += operations
        return value


def sum_of_exponentials(terms):
    """log(exp a + exp b + …), safe: the largest, differences and exponentials, their sum, logarithm and the largest
    again."""
    n = len(terms)
    largest = max(terms)
    if largest == -math.inf:
        return Count.of(n - 1 + 2 * n + n - 1 + 2, largest)
    return Count.of(n - 1 + 2 * n + n - 1 + 2, math.log(sum(math.exp(t - largest) for t in terms)) + largest)


def align(log_probs, labels):
    """Graves and others, 2006, section 4.1, every state at every time: the loss of one sequence."""
    states = [0] + [x for label in labels for x in (label, 0)]
    now = [log_probs[0][0], log_probs[0][states[1]]] + [-math.inf] * (len(states) - 2)
    for at_time in log_probs[1:]:
        now = [
            Count.of(
                1,
                sum_of_exponentials(
                    [
                        now[s],
                        now[s - 1] if s else -math.inf,
                        now[s - 2] if s > 1 and x and x != states[s - 2] else -math.inf,
                    ]
                )
                + at_time[x],
            )
            for s, x in enumerate(states)
        ]
    return -math.log(math.exp(now[-1]) + math.exp(now[-2]))


@pytest.mark.parametrize("behind_each_other", [False, True])
def test_alignments(behind_each_other):
    times, batch, classes, longest = 20, 3, 7, 4
    log_probs = torch.randn(times, batch, classes).log_softmax(2).requires_grad_()
    lengths = [4, 4, 4] if not behind_each_other else [4, 2, 3]
    labels = [torch.randint(1, classes, (n,)) for n in lengths]
    targets = torch.cat(labels) if behind_each_other else torch.stack(labels)
    given = torch.full((batch,), times), torch.tensor(lengths)
    losses = F.ctc_loss(log_probs, targets, *given, reduction="none")
    Count.done = 0
    for i in range(batch):
        assert align(log_probs[:, i].tolist(), labels[i].tolist()) == pytest.approx(losses[i].item(), rel=1e-4)
    rows = {r["name"]: r for r in rows_of(lambda: F.ctc_loss(log_probs, targets, *given).backward())}
    forward, states = rows["aten::_ctc_loss"], sum(2 * n + 1 for n in lengths)
    assert (
        forward["flops"] == Count.done
        and forward["bytes"] == 4 * (log_probs.numel() + times * states) + 8 * targets.numel()
    )
    # the same from the end; both together and into the class's sum: 1 + 8; of each class exp, +, -, exp, -, x
    kept = batch * times * (2 * longest + 1)
    backward = rows["aten::_ctc_loss_backward"]
    assert backward["flops"] == 22 * kept + 6 * log_probs.numel()
    assert backward["bytes"] == 4 * (2 * log_probs.numel() + kept) + 8 * targets.numel()


def test_distances_of_all_pairs():
    """A difference, its power and a sum for each coordinate; where torch takes the product of matrices, that is what
    counts."""
    x, y = torch.randn(3, 7, 4), torch.randn(3, 5, 4)
    pairs = sum(3 for _ in range(3) for _ in range(7) for _ in range(5) for _ in range(4))
    for how in (dict(p=1.0), dict(), dict(p=3.0), dict(compute_mode="donot_use_mm_for_euclid_dist")):
        rows = {r["name"]: r for r in rows_of(lambda: torch.cdist(x, y, **how))}
        assert (rows["aten::_cdist_forward"]["flops"], rows["aten::_cdist_forward"]["bytes"]) == (
            pairs,
            4 * (84 + 60 + 105),
        ), how
    for how, points in ((dict(), 30), (dict(compute_mode="use_mm_for_euclid_dist"), 7)):
        rows = rows_of(lambda: torch.cdist(torch.randn(3, points, 4), y, **how))
        assert {r["kind"] for r in rows if "_cdist_forward" in r["name"]} <= {"unknown"}
        assert sum(r["flops"] for r in rows if r["kind"] == "matmul") == 2 * 3 * points * 5 * (
            4 + 2
        )  # with the squares as two more columns
    rows = {r["name"]: r for r in rows_of(lambda: torch.pdist(torch.randn(7, 4)))}
    assert (rows["aten::_pdist_forward"]["flops"], rows["aten::_pdist_forward"]["bytes"]) == (
        3 * 4 * sum(range(7)),
        4 * (28 + sum(range(7))),
    )


def test_sums_of_segments():
    data = torch.randn(6, 4)
    rows = {r["name"]: r for r in rows_of(lambda: torch.segment_reduce(data, "sum", lengths=torch.tensor([2, 4])))}
    assert (rows["aten::segment_reduce"]["flops"], rows["aten::segment_reduce"]["bytes"]) == (24, 96)


def test_what_has_no_standard_formula_stays_unknown():
    rows = rows_of(lambda: torch.sort(torch.randn(50)))
    assert {r["kind"] for r in rows if r["name"] == "aten::sort"} == {"unknown"}
