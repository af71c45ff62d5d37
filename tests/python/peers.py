"""Two other readers of Chrome traces, in an environment of their own: HolisticTraceAnalysis and the TensorBoard
profiler plugin.

    python tests/python/peers.py make [FOLDER]     make the environment (default: build/peers)
    FOLDER/bin/python tests/python/peers.py ask FILE   what both say about a trace, as JSON on standard output

HolisticTraceAnalysis is 0.5.0, the newest that can be installed; rules=hta follows the source of 0.6.1.
They want old packages (pandas 1.5.3, numpy < 2), which is why they cannot share ours.
"""

import fcntl
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ["HolisticTraceAnalysis==0.5.0", "pandas==1.5.3", "numpy<2", "torch-tb-profiler==0.4.3"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "build" / "peers"


def find():
    """The environment's python, None when it has not been made."""
    python = pathlib.Path(os.environ.get("PEERS_ENV", DEFAULT)) / "bin" / "python"
    return python if (python.parent.parent / "peers.done").exists() else None


def make(folder=None):
    folder = pathlib.Path(folder or os.environ.get("PEERS_ENV", DEFAULT))
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run(
        [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    (folder / "peers.done").write_text("\n".join(PACKAGES) + "\n")
    return folder / "bin" / "python"


def found_or_made():
    """For tests: the environment's python. None where it is not made and PEERS=1 does not ask for it."""
    if os.environ.get("PEERS") != "1":
        return find()
    ROOT.joinpath("build").mkdir(exist_ok=True)
    with open(ROOT / "build" / "peers.lock", "w") as lock:  # test processes that run together make one environment
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find() or make()


def plain(value):
    """Tables, arrays and NaN as JSON has them; dict keys as text."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def attempt(function):
    """A peer that cannot answer says so the same way for two equal traces."""
    try:
        return plain(function())
    except Exception as error:  # their errors are many: IndexError on a trace without kernels, and so on
        return "failed: " + type(error).__name__


def ask_hta(path):
    from hta.trace_analysis import TraceAnalysis

    try:
        t = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
    except Exception as error:
        return {"load": "failed: " + type(error).__name__}
    return {
        "temporal_breakdown": attempt(lambda: t.get_temporal_breakdown(visualize=False)),
        "kernel_breakdown": attempt(lambda: t.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)),
        "idle_time": attempt(lambda: t.get_idle_time_breakdown(ranks=[0], visualize=False)[0]),
        "overlap": attempt(lambda: t.get_comm_comp_overlap(visualize=False)),
        "queue_length": attempt(lambda: t.get_queue_length_summary(ranks=[0])),
        "bandwidth": attempt(lambda: t.get_memory_bw_summary(ranks=[0])),
        "launches": attempt(lambda: t.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]),
    }


def ask_plugin(path):
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    names = [
        "overview",
        "operation_pie_by_name",
        "operation_table_by_name",
        "operation_pie_by_name_input",
        "operation_table_by_name_input",
        "kernel_op_table",
        "kernel_pie",
        "kernel_table",
        "tc_pie",
        "gpu_metrics",
        "gpu_summary",
        "module_stats",
        "has_runtime",
        "has_kernel",
        "has_communication",
        "has_memcpy_or_memset",
    ]

    def generate():
        data = RunProfileData.parse("worker", "span", path, os.path.dirname(path))
        data.process()
        data.analyze()
        profile = RunGenerator("worker", None, data).generate_run_profile()
        return {name: plain(getattr(profile, name)) for name in names}

    answer = attempt(generate)
    return answer if isinstance(answer, dict) else {"load": answer}


def ask(path):
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        name = "rank-0.json.gz" if str(path).endswith(".gz") else "rank-0.json"
        copy = shutil.copy(path, os.path.join(folder, name))
        return {"hta": ask_hta(copy), "plugin": ask_plugin(copy)}


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "make":
        print(make(*sys.argv[2:3]))
    elif len(sys.argv) == 3 and sys.argv[1] == "ask":
        answer, real = None, sys.stdout
        sys.stdout = sys.stderr  # both print on the way
        answer = ask(sys.argv[2])
        json.dump(answer, real)
    else:
        sys.exit(__doc__)
