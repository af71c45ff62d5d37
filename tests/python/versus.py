"""What HolisticTraceAnalysis (or our façade) and the TensorBoard plugin say about many folders of traces, in one
process.

python versus.py hta|tachograph.hta|plugin FOLDER OUT.pickle     FOLDER: one folder a trace"""

import logging
import os
import pathlib
import pickle
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hta_calls
import peers


def attempt(function):
    try:
        return hta_calls.plain(function())
    except Exception as error:  # theirs are of many kinds
        return "failed: " + type(error).__name__


def ask_hta(package, folder):
    import importlib

    how = {} if package == "hta" else {"hta_compat": True}
    analysis = importlib.import_module(package + ".trace_analysis").TraceAnalysis(trace_dir=str(folder), **how)
    with tempfile.TemporaryDirectory() as scratch:
        return {name: attempt(call) for name, call in hta_calls.calls(analysis, scratch)}


def main(who, folder, out):
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.update(MPLBACKEND="agg", PLOTLY_RENDERER="json")  # HTA draws whatever it was told
    sys.stdout = sys.stderr
    answers = {}
    for trace in sorted(pathlib.Path(folder).iterdir()):
        answers[trace.name] = peers.ask_plugin(str(trace / "rank-0.json")) if who == "plugin" else ask_hta(who, trace)
    pathlib.Path(out).write_bytes(pickle.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
