"""`tachograph attach` at sixteen moments of eight programs: they end as they do without us. tests/field has the same at
300 moments drawn by chance."""

import attach_moments
import pytest
from attach_moments import KINDS, TARGETS, Life, attach, comparable, harm
from forks import Forks

pytest.importorskip("torch")

# kind → two moments: a mark that the program has come to, and so many seconds after it. A program without torch is
# refused, so none of the others has "begins": how long its Python then needs to load torch is up to the machine.
MOMENTS = {
    "asyncio": [("torch", 0.0), ("loops", 0.05)],
    "background": [("loads", 0.3), ("torch", 0.1)],
    "compiled": [("compiles", 0.1), ("works", 0.0)],
    "plain": [("begins", 0.0), ("works", 0.0)],
    "server": [("loads", 0.1), ("serves", 0.05)],
    "short": [("loads", 0.4), ("ends", 0.0)],
    "train": [("loads", 0.6), ("optimizer", 0.02)],
    "workers": [("torch", 0.0), ("forks", 0.05)],
}
RARE = ("background", "compiled", "short", "workers")  # with the drawn moments, in `make check`


@pytest.fixture(scope="module")
def alone():
    """By kind: the program's exit status and output without us."""
    with Forks("torch", "torch._dynamo", path=[TARGETS]) as forks:

        def run(kind):
            done = forks.run(script=TARGETS / f"target_{kind}.py")
            return done.returncode, done.stdout, comparable(done.stderr)

        yield run


@pytest.mark.skipif(attach_moments.COMMAND is None, reason="no command: TACHOGRAPH")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.long) if k in RARE else k for k in KINDS])
def test_a_program_does_not_notice(kind, tmp_path, alone):
    outcomes = []
    with Life(kind, tmp_path / "life", stays=True) as life:
        for mark, seconds in MOMENTS[kind]:
            if mark == "ends":
                life.may_end()
            life.wait_for(mark, seconds)
            assert life.lives() or mark == "ends", mark
            outcomes.append(attach(life, tmp_path / f"attach{len(outcomes)}"))
        life.may_end()
        assert harm(life, alone(kind)) is None, outcomes
    assert (kind == "plain") == ("no torch" in outcomes), outcomes
