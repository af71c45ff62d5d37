#!/usr/bin/env python3
"""What ten thousand ranks take: bytes of a summary, levels of merging, memory of the last merge and of an answer.

    cluster_memory.py [--ranks 10000] [--collectives 40]

Each rank is a trace of five steps with so many collectives in all, made, summarized and removed one after the other.
The merges are those of tachograph.cluster, in this process; the last one and the questions run in processes of their
own, of which the peak of anonymous memory is printed, and that of a process that only imports the package."""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_ranks
import grow
import measure
from tachograph.cluster import _tree, _work

STEPS = 5
OPEN = "import sys, tachograph as tg; ranks = tg.open_ranks(*sys.argv[2:], progress=False) if sys.argv[2:] else None; "


def write_rank(path, rank, world, made):
    head = grow.HEAD.replace('"rank": 0, "world_size": 8', '"rank": %d, "world_size": %d' % (rank, world))
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(head)
        for k, (text, end) in enumerate(made):
            file.write(text + bench_ranks.collectives(rank, world, k, end))
        file.write(grow.TAIL)


def only_steps(collectives):
    """Steps without their operators: the summary holds these as totals by name, which are few."""
    bench_ranks.COLLECTIVES = collectives // STEPS
    made = bench_ranks.steps(STEPS * (900_000 + 1700 * bench_ranks.COLLECTIVES))[:STEPS]
    return [(text[: text.index("\n  },") + len("\n  }")], end) for text, end in made]


def summaries(folder, ranks, collectives):
    made = only_steps(collectives)
    for rank in range(ranks):
        path = folder / ("rank%05d.json" % rank)
        write_rank(path, rank, ranks, made)
        yield _work.summarize_rank(rank, (str(path),))[0]
        path.unlink()


def merged(parts):
    """(levels, the parts of the last merge)"""
    levels = 1
    while len(parts) > _tree.FAN_IN:
        blocks = range(0, len(parts), _tree.FAN_IN)
        parts = [_work.merge_summaries(*parts[i : i + _tree.FAN_IN])[0] for i in blocks]
        levels += 1
    return levels, parts


def peak_mb(code, *paths):
    command = [sys.executable, "-c", OPEN + code, "x", *map(str, paths)]
    begin = time.perf_counter()
    return measure.peak_anonymous(command, {0, 1}) / 1e6, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--collectives", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        parts = list(summaries(folder, args.ranks, args.collectives))
        print(
            f"{args.ranks} ranks of {args.collectives} collectives: {sum(map(len, parts)) / len(parts):.0f} bytes each"
        )
        levels, last = merged(parts)
        paths = [folder / f"{i}.tsum" for i in range(len(last))]
        for path, part in zip(paths, last):
            path.write_bytes(part)
        target = folder / "run.tsum"
        merge_mb, seconds = peak_mb(f"ranks.save({str(target)!r})", *paths)
        print(f"{levels} levels; the last merges {len(last)}: {merge_mb:.0f} MB, {seconds:.1f} s")
        print(
            f"the summary of all: {target.stat().st_size / 1e6:.1f} MB; importing the package: {peak_mb('')[0]:.0f} MB"
        )
        for question in ("ranks", "collectives", "stragglers", "clocks", "spread"):
            print("%-12s %4.0f MB, %.1f s" % (question, *peak_mb(f"ranks.ask({question!r})", target)))


if __name__ == "__main__":
    main()
