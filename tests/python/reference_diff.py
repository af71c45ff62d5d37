"""The statistics of a diff once more, slow and plain: blocks of steps drawn with the same random numbers, percentiles
widened by Student's distribution, and the choice among many by Benjamini and Hochberg."""

import math

MASK = (1 << 64) - 1
DRAWS = 2000


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def draws(n, seed):
    """2000 lists of n steps: circular blocks of about the cube root of n."""
    length = max(1, round(n ** (1 / 3)))
    numbers = splitmix64(seed)
    for _ in range(DRAWS):
        taken = []
        while len(taken) < n:
            at = next(numbers) * n >> 64
            taken += [(at + k) % n for k in range(length)]
        yield taken[:n]


def student_tail(t, freedom):
    """P(|T| > t), by integrating the density with Simpson's rule over an angle: t = sqrt(freedom) tan(angle)."""
    top, steps = math.atan(t / math.sqrt(freedom)), 4000
    width = top / steps
    area = (
        sum(
            (1 if k in (0, steps) else 4 if k % 2 else 2) * math.cos(k * width) ** (freedom - 1)
            for k in range(steps + 1)
        )
        * width
        / 3
    )
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)) / 2
    return 1 - area / whole


def student_point(freedom):
    low, high = 1.0, 64.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 0.05 else (low, middle)
    return low


def quantile(values, q):
    values = sorted(values)
    place = q * (len(values) - 1)
    low = int(place)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (place - low)


def mean(values):
    return sum(values) / len(values)


def interval(a, b, figure):
    """(delta, low, high) of figure(b) − figure(a); figure takes the values of the steps."""
    sides = []
    for seed, values in ((1, a), (2, b)):
        n = len(values)
        widen = student_point(n - 1) / 1.959963984540054 * math.sqrt(n / (n - 1))
        sides.append([widen * (figure([values[i] for i in taken]) - figure(values)) for taken in draws(n, seed)])
    delta = figure(b) - figure(a)
    changes = [delta + of_b - of_a for of_a, of_b in zip(*sides)]
    return delta, quantile(changes, 0.025), quantile(changes, 0.975)
