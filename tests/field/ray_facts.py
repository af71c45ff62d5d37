"""Run by test_real_ray.py in a Python that has Ray: a cluster of four nodes on this machine, and what it does, printed
as JSON.

    ray_facts.py FOLDER TACHOGRAPH"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
import bench_ranks
import cluster as bench
from tachograph import cluster
from tachograph.cluster import _engines

RANKS = 64


def kill_the_worker():
    """What memory that is short, or a defect, does to a worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def fails_twice(path):
    """As a connection that breaks: the third time all is well."""
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        raise OSError("connection reset by peer")
    return b"made", None


def trouble_of(engine, work, *args):
    task = engine.submit(work, *args)
    while not (ended := engine.ended([task])):
        continue
    return ended[0][1]


def command(tachograph, *words):
    environment = {**os.environ, "TACHOGRAPH_PYTHON": sys.executable}
    done = subprocess.run([tachograph, *map(str, words)], capture_output=True, text=True, env=environment, timeout=600)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def error_of(call):
    try:
        call()
    except cluster.ClusterError as error:
        return str(error)
    return None


def facts(folder, tachograph):
    import ray

    run = folder / "run"
    bench_ranks.write(run, RANKS, 1_000_000)
    (run / "done").unlink()
    nodes, address, workers = bench.start_nodes()
    found = {"nobody": error_of(lambda: cluster.open_ranks(run, on="ray://127.0.0.1:9"))}
    bench.connect(address)
    one, there = bench.gathered(run, RANKS, None)[0], bench.gathered(run, RANKS, address)[0]
    found["one"], found["ray"] = bench.answers(one), bench.answers(there)
    with _engines.engine_of(address, 0) as engine:
        found["killed worker"] = trouble_of(engine, lambda: kill_the_worker())
        found["twice"] = trouble_of(engine, fails_twice, str(folder / "tries"))
    ours, _engines._read = _engines._read, types.SimpleNamespace(version="9.9")
    found["versions"] = error_of(lambda: cluster.open_ranks(run, on=address))
    _engines._read = ours
    found["nothing"] = error_of(lambda: cluster.open_ranks(run / "*.none", on=address))
    found["killed node"] = bench.answers(bench.lose_a_node(nodes, workers[-1], run, RANKS, address)[0])
    (run / "rank0007.json").write_text('{"no": "trace"}')
    found["command"] = command(tachograph, "ask", run, "ranks", "--on", address, "--json")
    ray.shutdown()
    nodes.shutdown()
    return found


if __name__ == "__main__":
    print(json.dumps(facts(pathlib.Path(sys.argv[1]), sys.argv[2])))
