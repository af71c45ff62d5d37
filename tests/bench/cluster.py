#!/usr/bin/env python3
"""The ranks of a job on a Ray cluster of four local nodes, against one machine on the same cores (docs/cluster.md).

    cluster.py [--ranks 512] [--size-mb 4] [--cache DIR] [--rounds 3]

Runs in a Python with Ray: this one, or .venv-check with the packages of this one. The traces are those of
bench_ranks.py. Printed beside the limits, once the workers have run a job of this size: answers to all questions about
ranks equal to those of one machine; wall time at most 2 times its; four times the ranks in at most 4.6 times the wall;
and a node killed halfway loses no rank. Exit status 1 when a limit is missed."""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_ranks

QUESTIONS = ["ranks", "collectives", "stragglers", "clocks", "spread"]
NODES = 4
CHECK_PYTHON = pathlib.Path(__file__).resolve().parents[2] / ".venv-check" / "bin" / "python"


def has_ray():
    found = importlib.util.find_spec("ray")
    return bool(found and found.origin)  # /tmp/ray, which Ray leaves, has none


def python_with_ray():
    """([python], environment) of one that has Ray and tachograph; None: there is none."""
    if has_ray():
        return [sys.executable], dict(os.environ)
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    words = [str(CHECK_PYTHON), "-c", "import ray, grpc, tachograph"]
    found = CHECK_PYTHON.exists() and subprocess.run(words, env=environment, capture_output=True).returncode == 0
    return ([str(CHECK_PYTHON)], environment) if found else None


def start_nodes():
    """(cluster, address, nodes): a head without processors and four nodes with one each."""
    from ray.cluster_utils import Cluster

    port, store = 10_000 + time.time_ns() % 20_000, 80 << 20
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": store, "ray_client_server_port": port}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=store) for _ in range(NODES)]
    cluster.wait_for_nodes()
    return cluster, f"ray://127.0.0.1:{port}", nodes


def connect(address):
    """One connection, and so the same workers, for all that follows."""
    from tachograph.cluster import _engines

    _engines.Ray(address)


def gathered(folder, ranks, address, progress=None):
    """Summary of the first so many ranks, by the cluster; by this process where address is None."""
    import tachograph as tg
    from tachograph import cluster

    paths = [folder / f"rank{i:04d}.json" for i in range(ranks)]
    begin = time.perf_counter()
    if address:
        found = cluster.open_ranks(*paths, on=address, progress=progress or False)
    else:
        found = tg.open_ranks(*paths, progress=False)
    return found, time.perf_counter() - begin


def answers(found):
    return {question: list(found.ask(question)) for question in QUESTIONS}


def lose_a_node(cluster, node, folder, ranks, address):
    """The summary of a job of which the node is killed halfway."""
    killer = threading.Thread(target=cluster.remove_node, args=(node,), kwargs={"allow_graceful": False})

    def watch(done, total):
        if 2 * done >= total and not killer.ident:
            killer.start()

    found, wall = gathered(folder, ranks, address, watch)
    killer.join()
    return found, wall


def measure(cluster, address, nodes, folder, ranks, rounds):
    """Lines (what, figure, limit, holds)."""
    quarter = ranks // 4
    expected = answers(gathered(folder, ranks, None)[0])
    warm = gathered(folder, ranks, address)[0]
    yield "questions with other answers than one machine's", sum(answers(warm)[q] != expected[q] for q in QUESTIONS), 0
    walls = {"one": [], "ray": [], "quarter": []}
    for _ in range(rounds):
        walls["one"].append(gathered(folder, ranks, None)[1])
        walls["quarter"].append(gathered(folder, quarter, address)[1])
        walls["ray"].append(gathered(folder, ranks, address)[1])
    one, ray, less = (min(walls[name]) for name in ("one", "ray", "quarter"))
    print(f"{ranks} ranks: one machine {one:.2f} s, Ray {ray:.2f} s; {quarter} ranks: Ray {less:.2f} s")
    yield "wall by that of one machine", ray / one, 2
    yield f"wall of {ranks} ranks by that of {quarter}", ray / less, 4.6
    found, wall = lose_a_node(cluster, nodes[-1], folder, ranks, address)
    print(f"with a node killed halfway: {wall:.2f} s")
    yield (
        "questions with other answers after a node was killed",
        sum(answers(found)[q] != expected[q] for q in QUESTIONS),
        0,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--size-mb", type=float, default=4)
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path.home() / ".cache" / "tachograph-bench")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if not has_ray():
        python = python_with_ray()
        if not python:
            print("cluster.py: skipped, no Python with Ray: make venv-check")
            return 0
        return subprocess.run([*python[0], *sys.argv], env=python[1]).returncode
    folder = args.cache / ("ranks-%d-%g" % (args.ranks, args.size_mb))
    bench_ranks.write(folder, args.ranks, int(args.size_mb * 1e6))
    cluster, address, nodes = start_nodes()
    missed = 0
    try:
        connect(address)
        for what, figure, limit in measure(cluster, address, nodes, folder, args.ranks, args.rounds):
            missed += figure > limit
            print(f"{what}: {figure:.3g} (limit {limit}){'' if figure <= limit else '  MISSED'}", flush=True)
    finally:
        import ray

        ray.shutdown()
        cluster.shutdown()
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
