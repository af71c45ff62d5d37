"""`tachograph attach` at 300 moments drawn by chance from the lives of eight kinds of programs, from before they import
torch until after they have ended: each ends as it does without us, and has nothing of ours in it meanwhile."""

import collections
import os
import random

import pytest
from attach_moments import COMMAND, KINDS, Life, attach, harm

pytest.importorskip("torch")

MOMENTS, OF_ONE_LIFE = 300, 6
SEED = os.environ.get("TG_SEED", "tachograph")


def lives():
    for number in range(MOMENTS // OF_ONE_LIFE):
        yield pytest.param(KINDS[number % len(KINDS)], number, id=f"{KINDS[number % len(KINDS)]}-{number}")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """alone(kind): exit status and output without us, and how long it lives; run once."""
    known = {}

    def run(kind):
        if kind not in known:
            with Life(kind, tmp_path_factory.mktemp("alone") / kind) as life:
                known[kind] = life.result(), life.seconds
        return known[kind]

    return run


@pytest.fixture(scope="module")
def outcomes():
    counts = collections.Counter()
    yield counts
    print(f"\nattached at {counts.total()} moments: {dict(counts)}")


@pytest.mark.skipif(COMMAND is None, reason="no command: TACHOGRAPH")
@pytest.mark.parametrize("kind, number", lives())
def test_drawn_moments(kind, number, tmp_path, alone, outcomes):
    expected, seconds = alone(kind)
    draw = random.Random(f"{SEED} {number}")
    moments = sorted(draw.uniform(0, seconds) for _ in range(OF_ONE_LIFE))
    with Life(kind, tmp_path / "life") as life:
        for i, moment in enumerate(moments):
            life.wait_until(moment)
            outcomes[attach(life, tmp_path / str(i))] += 1
        assert harm(life, expected) is None, moments
