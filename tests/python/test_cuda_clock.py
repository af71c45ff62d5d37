"""Times of a CUPTI that does not take the recorder's clock: both clocks are read together, times lie on the line."""

import pytest
from test_cuda_traces import FAKES, record

KERNEL = "0 1 7 1 0 0 1 1 1 32 1 1 8 0 0"


@pytest.mark.skipif(not FAKES.is_dir(), reason="a build with tests has the stand-ins: make build-tests")
@pytest.mark.parametrize("skew_ppm", [0, 300])
def test_own_clock(tmp_path, monkeypatch, skew_ppm):
    """A kernel of 10 ms that starts with the play, and the range behind it, which is timed by our own clock."""
    (tmp_path / "before").write_text(f"own_clock\nskew {skew_ppm}\n")
    monkeypatch.setenv("FAKE_CUDA_SCRIPT", str(tmp_path / "before"))
    document, state = record(tmp_path, f"kernel 0 10000000 {KERNEL} timed\n")
    kernel, work = (next(e for e in document["traceEvents"] if e.get("name") == name) for name in ("timed", "work"))
    assert not state["own_clock"] and state["converted_times"] > 0
    assert kernel["dur"] == pytest.approx(10_000, abs=10)  # us; a thousandth
    assert 0 <= work["ts"] - kernel["ts"] < 100_000  # the range began behind the play, at once but for a busy machine
