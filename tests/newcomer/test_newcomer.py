"""Programs as newcomers bring them, with the libraries that they use: the import changed, with TACHOGRAPH_REPLACE=1 and
no change, and under `tachograph run`.
The counts are those of torch.profiler for the same program, and no time is longer than the clock says.

Asked for with TG_LONG=1. NEWCOMER_SITE is a folder with the packages of requirements.txt; with PEERS=1 it is made."""

import fcntl
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tachograph as tg

pytest.importorskip("torch")
HERE = pathlib.Path(__file__).parent
SITE = pathlib.Path(os.environ.get("NEWCOMER_SITE", HERE.parents[1] / "build" / "newcomer"))
# program → how many steps it has in all, an operator that each step calls equally often; none where what the profiler
# is stepped by and what `tachograph run` takes for steps differ
PROGRAMS = {
    "transformers_gpt2": (10, "aten::addmm"),
    "transformers_bert_eval": (10, "aten::addmm"),
    "accelerate_loop": (10, "aten::addmm"),
    "accelerate_profile": (10, "aten::addmm"),
    "lightning_fit": (16, "aten::addmm"),
    "lightning_profiler": (16, "aten::addmm"),
    "timm_vit": (10, "aten::addmm"),
    "diffusers_denoise": (10, "aten::convolution"),
    "pyg_gcn": (10, "aten::scatter_add_"),
    "sb3_ppo": (10, None),
    "engine_pattern": (10, "aten::addmm"),
    "trainer_pattern": (10, "aten::convolution"),
}
pytestmark = pytest.mark.skipif(not os.environ.get("TG_LONG"), reason="real libraries: asked for with TG_LONG=1")


@functools.cache
def missing():
    """Why the packages are not there; empty: they are."""
    done = SITE / "requirements.done"
    wanted = (HERE / "requirements.txt").read_text()
    if "NEWCOMER_SITE" in os.environ or (done.exists() and done.read_text() == wanted):
        return ""
    if os.environ.get("PEERS") != "1":
        return "their packages are not installed: PEERS=1 installs them"
    SITE.mkdir(parents=True, exist_ok=True)
    with open(SITE / "lock", "w") as lock:  # test processes that run together install them once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == wanted:
            return ""
        words = [
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--upgrade",
            "--target",
            SITE,
            "-r",
            HERE / "requirements.txt",
        ]
        pip = subprocess.run([sys.executable, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if pip.returncode:
            return f"their packages cannot be installed here: {pip.stderr.strip().splitlines()[-1]}"
        done.write_text(wanted)
    return ""


def started(*words, cwd, profiler="", replace="0"):
    if missing():
        pytest.skip(missing())
    folders = os.pathsep.join(filter(None, (str(SITE), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "PYTHONPATH": folders, "PROFILER": profiler, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env["TACHOGRAPH_REPLACE"] = replace
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    if "operator torchvision::" in done.stderr or "No module named 'torchvision'" in done.stderr:
        pytest.skip("timm needs a torchvision that was built for this torch")
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@functools.cache
def facts(name, profiler, cwd, replace="0"):
    done = started(HERE / "programs" / f"{name}.py", cwd=cwd, profiler=profiler, replace=replace)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("profiler, replace", [("tachograph.profiler", "0"), ("torch.profiler", "1")])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_import_changed_or_replaced(name, profiler, replace, tmp_path_factory):
    cwd = tmp_path_factory.getbasetemp()
    theirs, ours = facts(name, "torch.profiler", cwd), facts(name, profiler, cwd, replace)
    assert theirs["made_by"] == "torch" and ours["made_by"] == "tachograph"
    assert ours["counts"] == theirs["counts"] and ours["counts"]["ProfilerStep*"] == 3
    assert ours["shapes"] == theirs["shapes"] and len(ours["shapes"]) > 10
    assert 0 < ours["self_us"] < ours["elapsed_us"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_run(name, tmp_path, tmp_path_factory):
    """The program ends before the window, so the first steps are recorded: each calls what the profiled ones call."""
    theirs = facts(name, "torch.profiler", tmp_path_factory.getbasetemp())
    under = started("-m", "tachograph", "run", "-o", "out", HERE / "programs" / f"{name}.py", cwd=tmp_path)
    assert json.loads(under.stdout.splitlines()[-1]) == {"done": True}
    assert re.search(r"^file +out/trace.tacho$", under.stderr, re.M), under.stderr
    steps = PROGRAMS[name][1]
    steps, operator = PROGRAMS[name]
    if operator is None:
        return
    with tg.open(tmp_path / "out" / "trace.tacho") as trace:
        rows = [row for row in trace.ask("ops", by="step") if row["name"] == operator]
    per_step = theirs["counts"][operator] / 3
    whole, rest = divmod(sum(row["calls"] for row in rows), per_step)
    assert 3 < whole <= steps and not rest  # three alike are waited for
    labelled = [row["calls"] for row in rows if "ProfilerStep" in row["group"]]
    assert len(labelled) >= 2 and set(labelled) == {per_step}
