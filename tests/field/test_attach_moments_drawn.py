"""`tachograph attach` at 300 moments drawn by chance from the lives of eight kinds of programs, from before they import
torch until they end: each ends as it does without us, and has nothing of ours in it meanwhile."""

import collections
import os
import random
import shutil

import pytest
from attach_moments import COMMAND, KINDS, Life, attach, harm

pytest.importorskip("torch")

MOMENTS = int(os.environ.get("TG_MOMENTS", "300"))
SEED = os.environ.get("TG_SEED", "tachograph")


@pytest.mark.skipif(COMMAND is None, reason="no command: TACHOGRAPH")
@pytest.mark.parametrize("kind", KINDS)
def test_drawn_moments(kind, tmp_path):
    with Life(kind, tmp_path / "alone") as life:
        expected, seconds = life.result(), life.seconds
    draw, outcomes, lives = random.Random(f"{SEED} {kind}"), collections.Counter(), 0
    while outcomes.total() < -(-MOMENTS // len(KINDS)):
        lives += 1
        folder = tmp_path / str(lives)
        with Life(kind, folder / "life") as life:
            life.wait_until(draw.uniform(0, seconds / 2))
            while life.lives():
                outcomes[attach(life, folder / str(outcomes.total()))] += 1
                life.wait_until(life.age() + draw.uniform(0, seconds / 6))
            assert harm(life, expected) is None, f"after {lives} lives and {outcomes}"
        shutil.rmtree(folder)
    print(f"{kind}: {outcomes.total()} moments of {lives} lives: {dict(outcomes)}")
